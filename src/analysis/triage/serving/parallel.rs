//! The tensor-parallel size of a run (the number of GPUs that share each layer) and its source, from server arguments and
//! the trace. One pass over devices and collectives.

use super::{Framework, ServerArgs};
use crate::ordering::VecMap;
use crate::trace::Trace;
use std::cmp::Reverse;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::analysis::triage) struct TensorParallel {
    /// Number of GPUs that share each layer.
    pub(in crate::analysis::triage) size: u64,
    /// The source of the size, as a phrase.
    pub(in crate::analysis::triage) source: &'static str,
    pub(in crate::analysis::triage) is_certain: bool,
}

/// Determines the tensor-parallel size from the server arguments, or else from the trace; `None` if it is unknown.
///
/// Without a serving framework only arguments count, because the ranks are as likely data-parallel.
pub(in crate::analysis::triage) fn tensor_parallel(
    server: &ServerArgs,
    framework: Framework,
    trace: &Trace,
) -> Option<TensorParallel> {
    let certain = |size, source| TensorParallel { size, source, is_certain: true };
    let estimate = |size, source| TensorParallel { size, source, is_certain: false };
    let world = trace.job.as_ref().map(|job| u64::from(job.world_size));
    let by_arguments = server.tp_size().map(|size| certain(size, "server arguments"));
    if by_arguments.is_some() || framework == Framework::Plain {
        return by_arguments;
    }
    // Each merged file may have its own world size.
    let merged = merged_ranks(trace).len() as u64;
    if merged > 1 {
        return Some(certain(merged, "labels of merged ranks"));
    }
    if world == Some(1) {
        return Some(certain(1, "a world size of one"));
    }
    let by_collectives = || group_size(trace).map(|size| estimate(size, "the most frequent group size of collectives"));
    let by_world =
        || Some(estimate(world.filter(|size| *size > 1)?, "the world size, which includes other parallelism"));
    let by_name =
        || Some(estimate(rank_in(&trace.label)?.checked_add(1).filter(|size| *size > 1)?, "the rank in the file name"));
    by_collectives().or_else(by_world).or_else(by_name)
}

/// The labels of ranks that were merged into one file. They precede the ids of devices: `TP00` in `[TP00] 0`.
fn rank_labels(trace: &Trace) -> Vec<&str> {
    let mut labels: Vec<&str> = trace.devices.iter().filter_map(|device| rank_label(&device.id)).collect();
    labels.sort_unstable();
    labels.dedup();
    labels
}

/// The label of a merged rank before the id of a device.
pub(in crate::analysis::triage) fn rank_label(device_id: &str) -> Option<&str> {
    Some(device_id.strip_prefix('[')?.split_once(']')?.0)
}

/// The distinct tensor-parallel ranks in the labels.
fn merged_ranks(trace: &Trace) -> Vec<u64> {
    let mut ranks: Vec<u64> = rank_labels(trace).into_iter().filter_map(rank_in).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// The tensor-parallel rank in a text: 3 for `dp0_pp0_tp3_ep0_rank3`, `1731-TP-3-EXTEND` and `[TP03] 0`.
fn rank_in(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.collect();
    words.iter().enumerate().find_map(|(index, word)| match word.strip_prefix("tp")? {
        "" => words.get(index + 1)?.parse().ok(),
        rank => rank.parse().ok(),
    })
}

/// The most frequent number of ranks of collectives with several ranks. If two are equally frequent, the smaller one.
fn group_size(trace: &Trace) -> Option<u64> {
    let mut counts = VecMap::new();
    let sizes = trace.collectives.iter().filter_map(|(_, collective)| collective.ranks).filter(|ranks| *ranks > 1);
    sizes.for_each(|ranks| counts.update(ranks, 0_u64, |count| *count += 1));
    counts.into_vec().into_iter().max_by_key(|&(size, count)| (count, Reverse(size))).map(|(size, _)| size)
}
