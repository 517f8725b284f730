//! What dominates the run, in a few figures and sentences: framework, model, arguments that bear on it, and what the
//! overlap reading rests on.

use super::call_sites::Resolution;
use super::definitions::{PAUSES, STAGE_WALL};
use super::kernels::KernelRow;
use super::overlap;
use super::serving::{Role, rank_labels, tensor_parallel};
use super::times::{Times, percent};
use super::view::View;
use crate::analysis::section::{Record, Section, Value};
use crate::analysis::structure::stages::{Stage, count_stage_conflicts, steps};
use crate::ordering::{StableSort, VecMap};
use crate::rules::names;
use crate::trace::{DeviceId, Ns};
use std::cmp::Reverse;

/// The columns of the table: one row a stage.
pub(crate) const COLUMNS: [&str; 6] = ["stage", "duration_ns", "busy_ns", "wall_ns", "launches", "dominated_by"];

/// Figures: `mode`, `framework`, `model`, `role`, `tp_size`, `tp_size_from`, `arguments`, `devices`, `overlap_basis`;
/// warnings are limits. `overlaps` is the overlap table of the same view.
pub(crate) fn section(view: &View, rows: &[KernelRow], overlaps: &Section) -> Section {
    let mut section = Section::new("Triage", "all of the tables below", &COLUMNS);
    figures(view, &mut section);
    let times = view.times();
    for stage in times.stages() {
        let time = times.of_stage(stage);
        section.row([
            stage.label().into(),
            time.duration.into(),
            time.busy.into(),
            time.wall.into(),
            time.launches.into(),
            dominated_by(stage, time.duration, rows, overlaps).into(),
        ]);
    }
    section.limits = [
        unmatched(view),
        workers_mixed(view, times),
        merged_ranks(view),
        uneven_devices(view, times),
        contradicted(view),
        replayed(view),
        interleaved(times),
        paused(overlaps),
    ]
    .into_iter()
    .flatten()
    .collect();
    section
}

fn figures(view: &View, section: &mut Section) {
    section.figure("mode", if view.has_mapping { "mapping-formal" } else { "single-trace" });
    section.figure("framework", view.framework.label());
    section.figure("model", view.server.model());
    section.figure("role", view.server.role().map(Role::label));
    let parallel = tensor_parallel(view.server, view.framework, view.trace);
    section.figure("tp_size", parallel.map(|parallel| parallel.size));
    let estimate = |is_certain| if is_certain { "" } else { "an estimate by " };
    section.figure("tp_size_from", parallel.map(|told| format!("{}{}", estimate(told.is_certain), told.source)));
    let arguments = view.server.relevant_arguments();
    section.figure("arguments", (!arguments.is_empty()).then(|| arguments.join("\n")));
    let devices = view.trace.devices.iter().filter(|device| is_wanted(view, &device.id));
    let devices = devices.map(|device| match device.name.as_str() {
        "" => format!("id {}", device.id),
        name => format!("{} ({name})", device.id),
    });
    let devices = devices.collect::<Vec<_>>().join(", ");
    section.figure("devices", (!devices.is_empty()).then_some(devices));
    let basis = if view.has_mapping {
        "a pair: times and streams are this trace's, the code behind its kernels that of the mapping traces"
    } else {
        "one trace: times, streams and the code behind its kernels are its own"
    };
    let has_work = view.ops().next().is_some();
    section.figure("overlap_basis", has_work.then_some(basis));
}

/// `gemm 54.2 %, attention 21.7 %; largest kernel nvjet_tst_64x8 (23.1 %); GPU idle 6.5 % of the time without pauses`;
/// first the idle time
/// where it is most of all.
fn dominated_by(stage: Stage, duration: Ns, rows: &[KernelRow], overlaps: &Section) -> Option<String> {
    const IDLE_ABOVE_ALL_PCT: f64 = 50.0;
    let rows: Vec<&KernelRow> = rows.iter().filter(|row| row.stage == stage).collect();
    let largest = rows.iter().max_by_key(|row| (row.duration_ns, Reverse(row.name.as_str())))?;
    let (kernel, share) = (names::short(&names::demangle(&largest.name)), percent(Ns(largest.duration_ns), duration));
    let work = format!("{}; largest kernel {kernel} ({share:.1} %)", largest_categories(&rows, duration));
    Some(match idle_pct(stage, overlaps) {
        None => work,
        Some(idle) if idle < IDLE_ABOVE_ALL_PCT => format!("{work}; GPU idle {idle:.1} % of the time without pauses"),
        Some(idle) => format!("GPU idle {idle:.1} % of the time without pauses; of its work {work}"),
    })
}

/// The largest category, and others that are not small beside it.
fn largest_categories(rows: &[&KernelRow], duration: Ns) -> String {
    const NAMED: usize = 3;
    const LEAST_PCT: f64 = 10.0;
    let mut sums = VecMap::new();
    rows.iter()
        .for_each(|row| sums.update(row.category.as_str(), 0_i64, |sum| *sum = sum.saturating_add(row.duration_ns)));
    let mut sums = sums.0;
    sums.order_by_key(|(_, sum)| Reverse(*sum));
    let shares = sums.into_iter().map(|(category, sum)| (category, percent(Ns(sum), duration)));
    let told = shares.enumerate().filter(|(at, (_, share))| *at == 0 || *share >= LEAST_PCT).take(NAMED);
    told.map(|(_, (category, share))| format!("{category} {share:.1} %")).collect::<Vec<_>>().join(", ")
}

/// As the overlap table says it, pauses left out.
fn idle_pct(stage: Stage, overlaps: &Section) -> Option<f64> {
    let has = |row: &&Record, key: &str, text: &str| row.get(key).and_then(Value::text) == Some(text);
    let is_idle = |row: &&Record| has(row, "stage", stage.label()) && has(row, "kernel_name", overlap::IDLE);
    overlaps.rows.iter().find(is_idle)?.get("unpaused_share_pct")?.number()
}

fn is_wanted(view: &View, device: &str) -> bool {
    view.options.pid_substring.as_ref().is_none_or(|text| device.contains(text))
}

/// The person asked for devices that are not there.
fn unmatched(view: &View) -> Option<String> {
    let text = view.options.pid_substring.as_ref()?;
    let ids: Vec<&str> = view.trace.devices.iter().map(|device| device.id.as_str()).collect();
    let is_there = ids.iter().any(|id| is_wanted(view, id));
    (!is_there && !ids.is_empty()).then(|| format!("No device has {text:?} in its id; there are {}.", ids.join(", ")))
}

/// A prefill and a decode worker of one deployment do different work: their times do not add up to anything.
fn workers_mixed(view: &View, times: &Times) -> Option<String> {
    const APART: &str = "Profile prefill and decode workers apart, and triage each by itself.";
    if let Some(role) = view.server.role() {
        let other = if role == Role::Prefill { Stage::Decode } else { Stage::Prefill };
        let foreign = times.of_stage(other).duration;
        return (foreign > Ns::ZERO).then(|| {
            let (role, other, share) = (role.label(), other.label(), percent(foreign, times.total_duration()));
            format!("The arguments are those of a {role}, but {share:.1} % of the GPU time is {other}. {APART}")
        });
    }
    let only = |stage: Stage| {
        let does = |device: &DeviceId| {
            times.of_device(*device, |of| of == stage) > Ns::ZERO
                && times.of_device(*device, |of| of != stage && of != Stage::All) == Ns::ZERO
        };
        times.devices().into_iter().find(does).map(|device| name_of(view, device))
    };
    let (prefill, decode) = (only(Stage::Prefill)?, only(Stage::Decode)?);
    Some(format!(
        "Device {prefill} does prefill alone and device {decode} decode alone: two workers in one trace. {APART}"
    ))
}

fn name_of(view: &View, device: DeviceId) -> String {
    view.trace.devices.get(device.0 as usize).map_or_else(String::new, |device| device.id.clone())
}

/// `[TP00] 0` and `[TP01] 0`: a file that several ranks were merged into.
fn merged_ranks(view: &View) -> Option<String> {
    let wanted = |label: &&str| {
        let mut devices = view.trace.devices.iter().filter(|device| is_wanted(view, &device.id));
        devices.any(|device| device.id.contains(*label))
    };
    let mut labels = rank_labels(view.trace);
    labels.retain(wanted);
    (labels.len() > 1).then(|| {
        let (count, labels) = (labels.len(), labels.join(", "));
        format!("{count} ranks were merged into this file ({labels}): times are sums over all of them.")
    })
}

/// Ranks that share their work should take equally long.
fn uneven_devices(view: &View, times: &Times) -> Option<String> {
    /// Of the most.
    const UNEVEN: f64 = 0.2;
    let of = |device: DeviceId| times.of_device(device, |_| true);
    let devices = times.devices();
    let most = devices.iter().copied().max_by_key(|device| (of(*device), Reverse(*device)))?;
    let least = devices.iter().copied().min_by_key(|device| (of(*device), *device))?;
    let (more, less) = (of(most).0 as f64, of(least).0 as f64);
    (more - less > UNEVEN * more).then(|| {
        let (more, less, most, least) = (more / 1e6, less / 1e6, name_of(view, most), name_of(view, least));
        format!("Devices differ: {most} works for {more:.3} ms and {least} for {less:.3} ms, more than 20 % less.")
    })
}

fn contradicted(view: &View) -> Option<String> {
    let (against, told) = count_stage_conflicts(&steps(view.trace), view.file_stage);
    (against > 0).then(|| {
        let stage = view.file_stage.label();
        format!("By its name the file is of the stage {stage}, but {against} of {told} steps are annotated as another.")
    })
}

/// Ops whose own code is hidden behind the replay of a graph, and how to bring it to light.
fn replayed(view: &View) -> Option<String> {
    let (mut replayed, mut all) = (0_u64, 0_u64);
    for (at, _, _) in view.ops() {
        all += 1;
        replayed += u64::from(view.call_sites.of_op(at).is_some_and(|site| site.resolution == Resolution::Replay));
    }
    (replayed > 0).then(|| {
        let share = 100.0 * replayed as f64 / all as f64;
        let how = if view.has_mapping {
            "The mapping traces hold no kernels of these names.".to_owned()
        } else {
            let flags = overlap::without_graphs(view.framework);
            format!("Capture the same work once more with {flags}, and give that trace as mapping (--mapping-input).")
        };
        format!("{share:.1} % of the ops are graph replays: shown is the place that replays them, not their own. {how}")
    })
}

/// Stages take turns: the wall time of one holds work of the others.
fn interleaved(times: &Times) -> Option<String> {
    (times.stages().len() > 1).then(|| STAGE_WALL.to_owned())
}

/// What the wall time is longer by than busy and idle time.
fn paused(overlaps: &Section) -> Option<String> {
    (overlaps.summary.amount("pauses_ns") > 0.0).then(|| PAUSES.to_owned())
}

#[cfg(test)]
mod tests;
