//! How many GPUs share each layer, and what says so.

use super::{Framework, ServerArgs};
use crate::ordering::VecMap;
use crate::trace::Trace;
use std::cmp::Reverse;

/// A size of tensor parallelism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::analysis::triage) struct TensorParallel {
    /// How many GPUs share each layer.
    pub(in crate::analysis::triage) size: u64,
    /// What says so, in a phrase.
    pub(in crate::analysis::triage) source: &'static str,
    /// Was it told? Otherwise it is an estimate.
    pub(in crate::analysis::triage) is_certain: bool,
}

/// By the server's arguments, else by what the trace shows; `None` where nothing tells.
///
/// Of a program without a serving framework only arguments count: its ranks are as likely data-parallel.
pub(in crate::analysis::triage) fn tensor_parallel(
    server: &ServerArgs,
    framework: Framework,
    trace: &Trace,
) -> Option<TensorParallel> {
    let told = |size, source| TensorParallel { size, source, is_certain: true };
    let estimate = |size, source| TensorParallel { size, source, is_certain: false };
    let world = trace.job.as_ref().map(|job| u64::from(job.world_size));
    let by_arguments = server.tp_size().map(|size| told(size, "server arguments"));
    if by_arguments.is_some() || framework == Framework::Plain {
        return by_arguments;
    }
    // Each of the merged files may have told of a world of its own.
    let merged = merged_ranks(trace).len() as u64;
    if merged > 1 {
        return Some(told(merged, "labels of merged ranks"));
    }
    if world == Some(1) {
        return Some(told(1, "a world of one rank"));
    }
    let by_collectives = || group_size(trace).map(|size| estimate(size, "group size of most collectives"));
    let by_world = || Some(estimate(world.filter(|size| *size > 1)?, "world size, other parallelism included"));
    let by_name = || {
        Some(estimate(
            rank_in(&trace.label)?.checked_add(1).filter(|size| *size > 1)?,
            "highest rank in the file's name",
        ))
    };
    by_collectives().or_else(by_world).or_else(by_name)
}

/// The labels of ranks that were merged into the file, which stand before the devices' ids: `TP00` of `[TP00] 0`.
pub(in crate::analysis::triage) fn rank_labels(trace: &Trace) -> Vec<&str> {
    let label = |id: &'_ str| id.strip_prefix('[')?.split_once(']').map(|(label, _)| label.len());
    let labels = trace.devices.iter().filter_map(|device| device.id.get(1..=label(&device.id)?));
    let mut labels: Vec<&str> = labels.collect();
    labels.sort_unstable();
    labels.dedup();
    labels
}

/// The tensor-parallel ranks that labels name.
fn merged_ranks(trace: &Trace) -> Vec<u64> {
    let mut ranks: Vec<u64> = rank_labels(trace).into_iter().filter_map(rank_in).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// The 3 of `dp0_pp0_tp3_ep0_rank3`, `1731-TP-3-EXTEND` and `[TP03] 0`.
fn rank_in(text: &str) -> Option<u64> {
    let mut words =
        text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        let lower = word.to_ascii_lowercase();
        match lower.strip_prefix("tp") {
            Some("") => match words.peek().and_then(|next| next.parse().ok()) {
                Some(rank) => return Some(rank),
                None => continue,
            },
            Some(rank) => match rank.parse() {
                Ok(rank) => return Some(rank),
                Err(_) => continue,
            },
            None => {}
        }
    }
    None
}

/// The number of ranks that most collectives between several have; of equally frequent ones the smallest.
fn group_size(trace: &Trace) -> Option<u64> {
    let mut counts = VecMap::new();
    let sizes = trace.collectives.iter().filter_map(|(_, collective)| collective.ranks).filter(|ranks| *ranks > 1);
    sizes.for_each(|ranks| counts.update(ranks, 0_u64, |count| *count += 1));
    counts.0.into_iter().max_by_key(|&(size, count)| (count, Reverse(size))).map(|(size, _)| size)
}
