//! The summary of the triage: per stage its times and largest parts; framework, model, relevant arguments, and warnings about the
//! capture.

use super::call_sites::Resolution;
use super::definitions::{PAUSES, STAGE_WALL};
use super::kernels::KernelRow;
use super::overlap::{self, TriageOverlap, TriageOverlapRow};
use super::roof::Roofs;
use super::serving::{Role, rank_label, tensor_parallel};
use super::times::Times;
use super::view::View;
use crate::analysis::section::{Answer, Stated, TypedSection, section};
use crate::analysis::structure::stages::{Stage, count_stage_conflicts, steps};
use crate::ordering::VecMap;
use crate::trace::{DeviceId, Ms, Ns, Pct};
use crate::words::triage_summary as words;
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
    let arguments = view.server.relevant_arguments();
    let devices = view.trace.devices.iter().filter(|device| view.options.selects(&device.id));
    let devices = devices.map(|device| words::device(&device.id, &device.name));
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
        tp_size_from: parallel.map(|size| words::size_from(size.source, size.is_certain)),
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
    let reached = roofs.reached(index);
    let kernel = largest.short_name(view);
    let rows: Vec<&KernelRow> = of_stage().map(|(_, row)| row).collect();
    let work = if rows.iter().any(|row| row.has_shifted_durations) {
        words::Work::Unknown
    } else {
        words::Work::Known {
            categories: largest_categories(&rows, elapsed),
            largest_kernel: kernel,
            share: Pct::of(Ns(largest.elapsed_ns), elapsed),
            reached,
        }
    };
    let idle = idle_pct(stage, overlaps);
    let is_mostly_idle = idle.is_some_and(|idle| idle >= MIN_DOMINANT_IDLE_PCT);
    Some(words::dominated_by(&work, idle.map(Pct), is_mostly_idle))
}

/// The largest category, and others with at least 10 %.
fn largest_categories<'a>(rows: &[&'a KernelRow], elapsed: Ns) -> Vec<(&'a str, Pct)> {
    const MAX_NAMED: usize = 3;
    const MIN_PCT: f64 = 10.0;
    let mut sums = VecMap::new();
    rows.iter()
        .for_each(|row| sums.update(row.category.as_str(), 0_i64, |sum| *sum = sum.saturating_add(row.elapsed_ns)));
    let mut sums = sums.into_vec();
    sums.sort_by_key(|(_, sum)| Reverse(*sum));
    let shares = sums.into_iter().map(|(category, sum)| (category, Pct::of(Ns(sum), elapsed)));
    let named = shares.enumerate().filter(|(index, (_, share))| *index == 0 || share.0 >= MIN_PCT).take(MAX_NAMED);
    named.map(|(_, named)| named).collect()
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
    (!has_match && !ids.is_empty()).then(|| words::unmatched(text, &ids))
}

/// A warning if prefill and decode workers of one deployment are mixed: the sums of their times are meaningless.
fn workers_mixed(view: &View, times: &Times) -> Option<String> {
    if let Some(role) = view.server.role() {
        let other = if role == Role::Prefill { Stage::Decode } else { Stage::Prefill };
        let foreign = times.of_stage(other).duration;
        let share = || Pct::of(foreign, times.total_duration());
        return (foreign > Ns::ZERO).then(|| words::other_role(role.label(), other.label(), share()));
    }
    let exclusive_device = |stage: Stage| {
        let runs_only_stage = |device: &DeviceId| {
            times.of_device(*device, |other| other == stage) > Ns::ZERO
                && times.of_device(*device, |other| other != stage && other != Stage::All) == Ns::ZERO
        };
        times.devices().into_iter().find(runs_only_stage).map(|device| device_id(view, device))
    };
    let (prefill, decode) = (exclusive_device(Stage::Prefill)?, exclusive_device(Stage::Decode)?);
    Some(words::two_workers(&prefill, &decode))
}

fn device_id(view: &View, device: DeviceId) -> String {
    view.trace.devices.get(device.0 as usize).map_or_else(String::new, |device| device.id.clone())
}

/// A warning if several ranks were merged into the file, which gives device ids such as `[TP00] 0` and `[TP01] 0`.
fn merged_ranks(view: &View) -> Option<String> {
    let devices = view.trace.devices.iter().filter(|device| view.options.selects(&device.id));
    let labels: BTreeSet<&str> = devices.filter_map(|device| rank_label(&device.id)).collect();
    (labels.len() > 1).then(|| words::merged_ranks(&labels.into_iter().collect::<Vec<_>>()))
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
        let (busiest, idlest) = (device_id(view, busiest), device_id(view, idlest));
        words::uneven_devices((&busiest, Ms(max / 1e6)), (&idlest, Ms(min / 1e6)))
    })
}

fn stage_conflict(view: &View) -> Option<String> {
    let (conflicts, annotated) = count_stage_conflicts(&steps(view.trace), view.file_stage);
    (conflicts > 0).then(|| words::stage_conflict(view.file_stage.label(), conflicts, annotated))
}

/// A warning if graph replays hide the call sites of ops, with the way to get them.
fn replayed(view: &View) -> Option<String> {
    let (mut replayed, mut all) = (0_u64, 0_u64);
    for (op, _, _) in view.ops() {
        all += 1;
        replayed += u64::from(view.call_sites.of_op(op).is_some_and(|site| site.resolution == Resolution::Replay));
    }
    let share = Pct(100.0 * replayed as f64 / all as f64);
    let without_graphs = (!view.has_mapping).then(|| view.framework.without_graphs());
    (replayed > 0).then(|| words::replayed(share, without_graphs.as_deref()))
}

#[cfg(test)]
mod tests;
