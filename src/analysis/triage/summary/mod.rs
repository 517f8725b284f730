//! What dominates the run, in a few figures and sentences: framework, model, arguments that bear on it, and what the
//! overlap reading rests on.

use super::kernels::KernelRow;
use super::serving::{Framework, Role, rank_labels, tensor_parallel};
use super::sites::Found;
use super::stages::{Stage, contradictions, steps};
use super::times::{Times, percent};
use super::view::View;
use crate::analysis::section::Section;
use crate::ordering::ByKey;
use crate::trace::{DeviceId, Ns};
use std::cmp::Reverse;

/// The columns of the table: one row a stage.
pub(crate) const COLUMNS: [&str; 6] = ["stage", "duration_ns", "busy_ns", "wall_ns", "launches", "dominated_by"];

/// Figures: `mode`, `framework`, `model`, `role`, `tp_size`, `tp_size_from`, `arguments`, `devices`, `overlap_basis`;
/// warnings are limits.
pub(crate) fn section(view: &View, rows: &[KernelRow]) -> Section {
    let mut section = Section::new("Triage", "all of the tables below", &COLUMNS);
    figures(view, &mut section);
    let times = view.times();
    for stage in times.stages() {
        let time = times.of(stage);
        section.row([
            stage.label().into(),
            time.duration.into(),
            time.busy.into(),
            time.wall.into(),
            time.launches.into(),
            dominated_by(stage, time.duration, rows).into(),
        ]);
    }
    section.limits = [
        workers_mixed(view, times),
        merged_ranks(view),
        uneven_devices(view, times),
        contradicted(view),
        estimated_parallelism(view),
        replayed(view),
        interleaved(times),
    ]
    .into_iter()
    .flatten()
    .collect();
    section
}

fn figures(view: &View, section: &mut Section) {
    section.figure("mode", if view.is_pair { "mapping-formal" } else { "single-trace" });
    section.figure("framework", view.framework.label());
    section.figure("model", view.server.model());
    section.figure("role", view.server.role().map(Role::label));
    let parallel = tensor_parallel(view.server, view.framework, view.trace);
    section.figure("tp_size", parallel.map(|parallel| parallel.size));
    section.figure("tp_size_from", parallel.map(|parallel| parallel.source));
    let arguments = view.server.telling();
    section.figure("arguments", (!arguments.is_empty()).then(|| arguments.join("\n")));
    let devices = view.trace.devices.iter().map(|device| match device.name.as_str() {
        "" => device.id.clone(),
        name => format!("{} ({name})", device.id),
    });
    section.figure("devices", devices.collect::<Vec<_>>().join(", "));
    section.figure(
        "overlap_basis",
        if view.is_pair {
            "Times and streams are this trace's; the code behind its kernels is told by other traces of the same work."
        } else {
            "Times, streams and the code behind the kernels are all this trace's."
        },
    );
}

/// `gemm 54.2 %, most of it in nvjet_tst_64x8 (23.1 %)`.
fn dominated_by(stage: Stage, duration: Ns, rows: &[KernelRow]) -> Option<String> {
    let rows: Vec<&KernelRow> = rows.iter().filter(|row| row.stage == stage).collect();
    let mut categories = ByKey::new();
    rows.iter().for_each(|row| {
        categories.change(row.category.as_str(), 0_i64, |sum| *sum = sum.saturating_add(row.duration_ns))
    });
    let (category, of_category) = categories.0.into_iter().max_by_key(|&(name, sum)| (sum, Reverse(name)))?;
    let of_it = rows.iter().filter(|row| row.category == category);
    let top = of_it.max_by_key(|row| (row.duration_ns, Reverse(row.name.as_str())))?;
    let (of_category, of_top) = (percent(Ns(of_category), duration), percent(Ns(top.duration_ns), duration));
    Some(format!("{category} {of_category:.1} %, most of it in {} ({of_top:.1} %)", top.name))
}

/// A prefill and a decode worker of one deployment do different work: their times do not add up to anything.
fn workers_mixed(view: &View, times: &Times) -> Option<String> {
    const APART: &str = "Profile prefill and decode workers apart, and triage each by itself.";
    if let Some(role) = view.server.role() {
        let other = if role == Role::Prefill { Stage::Decode } else { Stage::Prefill };
        let foreign = times.of(other).duration;
        return (foreign > Ns::ZERO).then(|| {
            let (role, other, share) = (role.label(), other.label(), percent(foreign, times.duration()));
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
    let labels = rank_labels(view.trace);
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
    let (against, told) = contradictions(&steps(view.trace), view.file_stage);
    (against > 0).then(|| {
        let stage = view.file_stage.label();
        format!("By its name the file is of the stage {stage}, but {against} of {told} steps are annotated as another.")
    })
}

fn estimated_parallelism(view: &View) -> Option<String> {
    let parallel = tensor_parallel(view.server, view.framework, view.trace).filter(|parallel| !parallel.is_told)?;
    let (size, source) = (parallel.size, parallel.source);
    Some(format!("The tensor-parallel size {size} is an estimate from: {source}."))
}

/// Ops whose own code is hidden behind the replay of a graph, and how to bring it to light.
fn replayed(view: &View) -> Option<String> {
    let (mut replayed, mut all) = (0_u64, 0_u64);
    for (at, _, _) in view.ops() {
        all += 1;
        replayed += u64::from(view.sites.of(at).is_some_and(|site| site.found == Found::Replay));
    }
    (replayed > 0).then(|| {
        let share = 100.0 * replayed as f64 / all as f64;
        let how = if view.is_pair {
            "The traces given as mapping hold no kernels of these names."
        } else {
            without_graphs(view.framework)
        };
        format!("Of {share:.1} % of the ops only the graph that replays them is known. {how}")
    })
}

/// Stages take turns: the wall time of one holds work of the others.
fn interleaved(times: &Times) -> Option<String> {
    (times.stages().len() > 1).then(|| {
        "The wall time of a stage is from the first start to the last end of its ops on each device: work of other stages \
         in between is in it."
            .to_owned()
    })
}

fn without_graphs(framework: Framework) -> &'static str {
    match framework {
        Framework::Sglang => {
            "Capture the same work once more with --disable-cuda-graph --disable-piecewise-cuda-graph and give that trace \
             as mapping."
        }
        Framework::Vllm => "Capture the same work once more with --enforce-eager and give that trace as mapping.",
        Framework::TrtLlm => {
            "Capture the same work once more with cuda_graph_config: null in the options file and give that trace as \
             mapping."
        }
        Framework::TokenSpeed | Framework::Plain => {
            "Capture the same work once more without CUDA graphs and give that trace as mapping."
        }
    }
}

#[cfg(test)]
mod tests;
