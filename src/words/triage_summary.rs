//! The summary of a triage: what a stage is dominated by, its devices, and warnings about the capture. From names, shares and times.

use super::percent_1;
use crate::trace::{Ms, Pct};

/// `0 (NVIDIA H200)`, or `id 0`.
pub(crate) fn device(id: &str, name: &str) -> String {
    if name.is_empty() { format!("id {id}") } else { format!("{id} ({name})") }
}

/// Where the size of tensor parallelism comes from.
pub(crate) fn size_from(source: &str, is_certain: bool) -> String {
    format!("{}{source}", if is_certain { "" } else { "an estimate from " })
}

/// The work of a stage.
#[derive(Debug)]
pub(crate) enum Work<'a> {
    /// Durations in graph replays do not belong to their kernel names.
    Unknown,
    Known {
        /// The largest categories with their shares.
        categories: Vec<(&'a str, Pct)>,
        largest_kernel: &'a str,
        share: Pct,
        /// How far it is from the roof, in words.
        reached: Option<&'a str>,
    },
}

/// `gemm 54.2 %, attention 21.7 %; largest kernel nvjet_tst_64x8 (23.1 %); GPU idle 6.5 % of busy and idle time`. Idle time comes
/// first if it is most of the time.
pub(crate) fn dominated_by(work: &Work, idle: Option<Pct>, is_mostly_idle: bool) -> String {
    let work = match work {
        Work::Unknown => "unknown, because durations in graph replays do not belong to their kernel names".to_owned(),
        Work::Known { categories, largest_kernel, share, reached } => {
            let categories = categories.iter().map(|(name, share)| format!("{name} {}", percent_1(*share)));
            let reached = reached.map_or_else(String::new, |reached| format!(", at {reached}"));
            format!(
                "{}; largest kernel {largest_kernel} ({}{reached})",
                categories.collect::<Vec<_>>().join(", "),
                percent_1(*share)
            )
        }
    };
    let Some(idle) = idle.map(percent_1) else { return work };
    if is_mostly_idle {
        format!("GPU idle {idle} of busy and idle time; share of the work: {work}")
    } else {
        format!("{work}; GPU idle {idle} of busy and idle time")
    }
}

/// No device matches the selection.
pub(crate) fn unmatched(selection: &str, ids: &[&str]) -> String {
    format!("No device id contains {selection:?}; the trace has {}.", ids.join(", "))
}

const ONE_WORKER: &str = "Profile and triage prefill and decode workers separately.";

/// The arguments are those of a worker of another stage.
pub(crate) fn other_role(role: &str, other: &str, share: Pct) -> String {
    format!("The arguments belong to a {role}, but {} of the GPU time is {other}. {ONE_WORKER}", percent_1(share))
}

/// The trace has a prefill worker and a decode worker.
pub(crate) fn two_workers(prefill: &str, decode: &str) -> String {
    format!(
        "Device {prefill} runs only prefill and device {decode} only decode: the trace has two workers. {ONE_WORKER}"
    )
}

/// Ranks were merged.
pub(crate) fn merged_ranks(labels: &[&str]) -> String {
    format!("{} ranks were merged into this file ({}): times are sums over all ranks.", labels.len(), labels.join(", "))
}

/// Devices work for very different times.
pub(crate) fn uneven_devices((busiest, most): (&str, Ms), (idlest, least): (&str, Ms)) -> String {
    format!(
        "Devices differ: {busiest} is busy for {:.3} ms, {idlest} for only {:.3} ms, more than 20 % less.",
        most.0, least.0
    )
}

/// The name of the file and the annotations disagree.
pub(crate) fn stage_conflict(stage: &str, conflicts: usize, annotated: usize) -> String {
    format!(
        "The file name indicates the stage {stage}, but {conflicts} of {annotated} annotated steps have another stage."
    )
}

/// Graph replays hide call sites. `without_graphs`: the flags that turn them off; `None` if there are mapping traces.
pub(crate) fn replayed(share: Pct, without_graphs: Option<&str>) -> String {
    let advice = match without_graphs {
        None => "The mapping traces have no kernels with these names.".to_owned(),
        Some(flags) => {
            format!("Capture the same work again with {flags}, and pass that trace as mapping trace (--mapping-input).")
        }
    };
    format!(
        "{} of the ops are graph replays: the table shows the call site of the replay, not their own. {advice}",
        percent_1(share)
    )
}
