//! The summary of the triage: per stage its times and largest parts; framework, model, relevant arguments, and warnings about the
//! capture.

use super::call_sites::Resolution;
use super::definitions::{PAUSES, STAGE_WALL};
use super::kernels::KernelRow;
use super::overlap::{self, TriageOverlap, TriageOverlapRow};
use super::roof::Roofs;
use super::serving::{Role, rank_label, tensor_parallel};
use super::times::{Times, percent};
use super::view::View;
use crate::analysis::section::{Answer, Stated, TypedSection, section};
use crate::analysis::structure::stages::{Stage, count_stage_conflicts, steps};
use crate::ordering::VecMap;
use crate::trace::{DeviceId, Ns};
use std::cmp::Reverse;
use std::collections::BTreeSet;

section! {
    /// The times and largest parts of each stage, and what the triage knows of the run.
    pub(crate) struct TriageSummary("triage_summary", "Triage");
    row TriageSummaryRow {
        stage: Stage,
        duration_ns: Ns,
        busy_ns: Ns,
        wall_ns: Ns,
        launches: u64,
        dominated_by: Option<String>,
    }
    figures TriageSummaryFigures {
        mode: String,
        framework: String,
        model: Option<String>,
        role: Option<String>,
        tp_size: Option<u64>,
        tp_size_from: Option<String>,
        arguments: Option<String>,
        devices: Option<String>,
        overlap_basis: Option<String>,
        /// The labels of the mapping traces, one per line.
        mapping_traces: Stated<String>,
    }
}

/// Warnings are limits of the section. `overlaps` is the overlap table of the same view.
pub(crate) fn table(
    view: &View,
    rows: &[KernelRow],
    overlaps: &Answer<TriageOverlap>,
    roofs: &Roofs,
) -> Answer<TriageSummary> {
    let times = view.times();
    let has_pauses = overlaps.figures.as_ref().is_some_and(|figures| figures.pauses_ns > Ns::ZERO);
    let limits = [
        unmatched(view),
        workers_mixed(view, times),
        merged_ranks(view),
        uneven_devices(view, times),
        stage_conflict(view),
        replayed(view),
        // The wall time of a stage includes work of the others.
        (times.stages().len() > 1).then(|| STAGE_WALL.to_owned()),
        has_pauses.then(|| PAUSES.to_owned()),
    ];
    let row = |stage| {
        let time = times.of_stage(stage);
        TriageSummaryRow {
            stage,
            duration_ns: time.duration,
            busy_ns: time.busy,
            wall_ns: time.wall,
            launches: time.launches,
            dominated_by: dominated_by(view, stage, time.elapsed, rows, overlaps, roofs),
        }
    };
    let answer = TriageSummary::answer("the tables below").with_figures(figures(view));
    let answer = answer.with_rows(times.stages().into_iter().map(row));
    limits.into_iter().flatten().fold(answer, Answer::limit)
}

fn figures(view: &View) -> TriageSummaryFigures {
    let parallel = tensor_parallel(view.server, view.framework, view.trace);
    let estimate = |is_certain| if is_certain { "" } else { "an estimate from " };
    let arguments = view.server.relevant_arguments();
    let devices = view.trace.devices.iter().filter(|device| view.options.selects(&device.id));
    let devices = devices.map(|device| match device.name.as_str() {
        "" => format!("id {}", device.id),
        name => format!("{} ({name})", device.id),
    });
    let devices = devices.collect::<Vec<_>>().join(", ");
    let basis = if view.has_mapping {
        "a pair: times and streams come from this trace, call sites from the mapping traces"
    } else {
        "one trace: times, streams and call sites come from this trace"
    };
    let has_work = view.ops().next().is_some();
    TriageSummaryFigures {
        mode: if view.has_mapping { "mapping-formal" } else { "single-trace" }.to_owned(),
        framework: view.framework.label().to_owned(),
        model: view.server.model(),
        role: view.server.role().map(|role| role.label().to_owned()),
        tp_size: parallel.as_ref().map(|parallel| parallel.size),
        tp_size_from: parallel.map(|size| format!("{}{}", estimate(size.is_certain), size.source)),
        arguments: (!arguments.is_empty()).then(|| arguments.join("\n")),
        devices: (!devices.is_empty()).then_some(devices),
        overlap_basis: has_work.then(|| basis.to_owned()),
        mapping_traces: Stated(None),
    }
}

/// `gemm 54.2 %, attention 21.7 %; largest kernel nvjet_tst_64x8 (23.1 %); GPU idle 6.5 % of busy and idle time`.
/// Idle time comes first if it is at least half of the time.
fn dominated_by(
    view: &View,
    stage: Stage,
    elapsed: Ns,
    rows: &[KernelRow],
    overlaps: &Answer<TriageOverlap>,
    roofs: &Roofs,
) -> Option<String> {
    const MIN_DOMINANT_IDLE_PCT: f64 = 50.0;
    let of_stage = || rows.iter().enumerate().filter(|(_, row)| row.stage == stage);
    let (index, largest) = of_stage().max_by_key(|(_, row)| (row.elapsed_ns, Reverse(row.name.as_str())))?;
    let reached = roofs.reached(index).map_or_else(String::new, |reached| format!(", at {reached}"));
    let rows: Vec<&KernelRow> = of_stage().map(|(_, row)| row).collect();
    let (kernel, share) = (largest.short_name(view), percent(Ns(largest.elapsed_ns), elapsed));
    let work = if rows.iter().any(|row| row.has_shifted_durations) {
        "unknown, because durations in graph replays do not belong to their kernel names".to_owned()
    } else {
        format!("{}; largest kernel {kernel} ({share:.1} %{reached})", largest_categories(&rows, elapsed))
    };
    Some(match idle_pct(stage, overlaps) {
        None => work,
        Some(idle) if idle < MIN_DOMINANT_IDLE_PCT => {
            format!("{work}; GPU idle {idle:.1} % of busy and idle time")
        }
        Some(idle) => format!("GPU idle {idle:.1} % of busy and idle time; share of the work: {work}"),
    })
}

/// The largest category, and others with at least 10 %.
fn largest_categories(rows: &[&KernelRow], elapsed: Ns) -> String {
    const MAX_NAMED: usize = 3;
    const MIN_PCT: f64 = 10.0;
    let mut sums = VecMap::new();
    rows.iter()
        .for_each(|row| sums.update(row.category.as_str(), 0_i64, |sum| *sum = sum.saturating_add(row.elapsed_ns)));
    let mut sums = sums.into_vec();
    sums.sort_by_key(|(_, sum)| Reverse(*sum));
    let shares = sums.into_iter().map(|(category, sum)| (category, percent(Ns(sum), elapsed)));
    let named = shares.enumerate().filter(|(index, (_, share))| *index == 0 || *share >= MIN_PCT).take(MAX_NAMED);
    named.map(|(_, (category, share))| format!("{category} {share:.1} %")).collect::<Vec<_>>().join(", ")
}

/// The idle share of a stage in the overlap table, without pauses.
fn idle_pct(stage: Stage, overlaps: &Answer<TriageOverlap>) -> Option<f64> {
    let is_idle = |row: &&TriageOverlapRow| row.stage == stage && row.kernel_name.0 == overlap::IDLE;
    overlaps.rows.iter().find(is_idle)?.unpaused_share_pct.map(|share| share.0)
}

/// A warning if no device matches the selection.
fn unmatched(view: &View) -> Option<String> {
    let text = view.options.pid_substring.as_ref()?;
    let ids: Vec<&str> = view.trace.devices.iter().map(|device| device.id.as_str()).collect();
    let has_match = ids.iter().any(|id| view.options.selects(id));
    (!has_match && !ids.is_empty())
        .then(|| format!("No device id contains {text:?}; the trace has {}.", ids.join(", ")))
}

/// A warning if prefill and decode workers of one deployment are mixed: the sums of their times are meaningless.
fn workers_mixed(view: &View, times: &Times) -> Option<String> {
    const ADVICE: &str = "Profile and triage prefill and decode workers separately.";
    if let Some(role) = view.server.role() {
        let other = if role == Role::Prefill { Stage::Decode } else { Stage::Prefill };
        let foreign = times.of_stage(other).duration;
        return (foreign > Ns::ZERO).then(|| {
            let (role, other, share) = (role.label(), other.label(), percent(foreign, times.total_duration()));
            format!("The arguments belong to a {role}, but {share:.1} % of the GPU time is {other}. {ADVICE}")
        });
    }
    let exclusive_device = |stage: Stage| {
        let runs_only_stage = |device: &DeviceId| {
            times.of_device(*device, |other| other == stage) > Ns::ZERO
                && times.of_device(*device, |other| other != stage && other != Stage::All) == Ns::ZERO
        };
        times.devices().into_iter().find(runs_only_stage).map(|device| device_id(view, device))
    };
    let (prefill, decode) = (exclusive_device(Stage::Prefill)?, exclusive_device(Stage::Decode)?);
    Some(format!(
        "Device {prefill} runs only prefill and device {decode} only decode: the trace has two workers. {ADVICE}"
    ))
}

fn device_id(view: &View, device: DeviceId) -> String {
    view.trace.devices.get(device.0 as usize).map_or_else(String::new, |device| device.id.clone())
}

/// A warning if several ranks were merged into the file, which gives device ids such as `[TP00] 0` and `[TP01] 0`.
fn merged_ranks(view: &View) -> Option<String> {
    let devices = view.trace.devices.iter().filter(|device| view.options.selects(&device.id));
    let labels: BTreeSet<&str> = devices.filter_map(|device| rank_label(&device.id)).collect();
    (labels.len() > 1).then(|| {
        let (count, labels) = (labels.len(), labels.into_iter().collect::<Vec<_>>().join(", "));
        format!("{count} ranks were merged into this file ({labels}): times are sums over all ranks.")
    })
}

/// A warning if the devices work for very different times; ranks that share work should take equally long.
fn uneven_devices(view: &View, times: &Times) -> Option<String> {
    const MAX_DIFFERENCE: f64 = 0.2;
    let time = |device: DeviceId| times.of_device(device, |_| true);
    let devices = times.devices();
    let busiest = devices.iter().copied().max_by_key(|device| (time(*device), Reverse(*device)))?;
    let idlest = devices.iter().copied().min_by_key(|device| (time(*device), *device))?;
    let (max, min) = (time(busiest).0 as f64, time(idlest).0 as f64);
    (max - min > MAX_DIFFERENCE * max).then(|| {
        let (max_ms, min_ms) = (max / 1e6, min / 1e6);
        let (busiest, idlest) = (device_id(view, busiest), device_id(view, idlest));
        format!(
            "Devices differ: {busiest} is busy for {max_ms:.3} ms, {idlest} for only {min_ms:.3} ms, more than 20 % less."
        )
    })
}

fn stage_conflict(view: &View) -> Option<String> {
    let (conflicts, annotated) = count_stage_conflicts(&steps(view.trace), view.file_stage);
    (conflicts > 0).then(|| {
        let stage = view.file_stage.label();
        format!("The file name indicates the stage {stage}, but {conflicts} of {annotated} annotated steps have another stage.")
    })
}

/// A warning if graph replays hide the call sites of ops, with the way to get them.
fn replayed(view: &View) -> Option<String> {
    let (mut replayed, mut all) = (0_u64, 0_u64);
    for (op, _, _) in view.ops() {
        all += 1;
        replayed += u64::from(view.call_sites.of_op(op).is_some_and(|site| site.resolution == Resolution::Replay));
    }
    (replayed > 0).then(|| {
        let share = 100.0 * replayed as f64 / all as f64;
        let advice = if view.has_mapping {
            "The mapping traces have no kernels with these names.".to_owned()
        } else {
            let flags = view.framework.without_graphs();
            format!("Capture the same work again with {flags}, and pass that trace as mapping trace (--mapping-input).")
        };
        format!("{share:.1} % of the ops are graph replays: the table shows the call site of the replay, not their own. {advice}")
    })
}

#[cfg(test)]
mod tests;
