//! Aggregates the GPU ops of one trace by kernel and by the requested axes (a sparse data cube): one hash lookup
//! per op, then one pass that attributes elapsed time to the cells.
//!
//! On the page the worker that reads the trace computes the cells and sends them as JSON text to the worker that
//! builds the pivot table. The trace itself is not sent.

use crate::analysis::inference::passes::StepsOfOps;
use crate::analysis::results::Attribution;
use crate::analysis::structure::stages::{HostStep, stage_of_path};
use crate::analysis::time::attribution::share_out_to_cells;
use crate::analysis::triage::Stage;
use crate::json::from_json;
use crate::ordering::VecMap;
use crate::trace::{DeviceId, GpuOp, NONE, ProcessId, Trace};
use crate::words::labels;
use foldhash::fast::RandomState;
use serde::Serialize;
use std::collections::HashMap;

/// An axis for the rows or columns of a pivot. Each row or column is one member of the axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// The category of the kernel by the rules.
    Category,
    /// The name of the kernel.
    Kernel,
    /// The serving stage: prefill or decode.
    Stage,
    /// The GPU.
    Device,
    /// The stream number. Streams with the same number on several GPUs are one member.
    Stream,
    /// The process of the op.
    Process,
    /// The run.
    Run,
    /// The step of the serving engine, by its number within its process.
    Step,
}
from_json!(Axis = "category" => Category, "kernel" => Kernel, "stage" => Stage, "device" => Device, "stream" => Stream,
    "process" => Process, "run" => Run, "step" => Step);

/// The axes that need the trace, in the order of [`PivotCells::members`]. Without the trace, only the device is known,
/// and only for a run on one device.
pub const TRACE_AXES: [Axis; 5] = [Axis::Stage, Axis::Step, Axis::Device, Axis::Stream, Axis::Process];

/// The label for ops whose launch is outside all steps or unknown.
pub const OUTSIDE: &str = "(outside steps)";
/// The label for a member that the trace does not record.
pub const UNKNOWN: &str = "(unknown)";

/// Maximum number of members of the step axis. If a trace has more steps, consecutive steps form one member.
const MAX_STEP_MEMBERS: u32 = 200;

/// Numbers per cell: name index, member index on each of [`TRACE_AXES`], count, duration, elapsed and exclusive time.
pub const CELL_WIDTH: usize = TRACE_AXES.len() + 5;

/// The GPU ops of one trace, aggregated by kernel and [`TRACE_AXES`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PivotCells {
    /// Kernel names, as in [`Run::kernels`](crate::analysis::results::Run::kernels).
    pub names: Vec<String>,
    /// Labels of the members of each axis in [`TRACE_AXES`]; one empty label if the axis was not requested.
    pub members: Vec<Vec<String>>,
    /// Number of consecutive steps per member; 0 if the trace has no steps, or if neither steps nor stages were requested.
    pub steps_per_member: u64,
    /// [`CELL_WIDTH`] numbers per cell, times in nanoseconds.
    pub cells: Vec<i64>,
}
from_json!(PivotCells { names, members, steps_per_member, cells });

/// Aggregates a trace by kernel and by the requested axes. Elapsed and exclusive time of the cells of a kernel
/// add up to the times of that kernel in the run, to the nanosecond.
pub fn pivot_cells(trace: &Trace, attribution: Attribution, merge_devices: bool, requested: &[Axis]) -> PivotCells {
    let mut indexer = MemberIndexer::new(trace, requested);
    let mut keys: Vec<Key> = Vec::new();
    let mut cell_by_key: HashMap<Key, u32, RandomState> = HashMap::default();
    let mut sums: Vec<(i64, i64)> = Vec::new();
    let mut cell_of_op: Vec<u32> = Vec::with_capacity(trace.gpu_ops.len());
    for (row, op) in trace.gpu_ops.iter().enumerate() {
        let key = indexer.key(row, &op);
        let cell = *cell_by_key.entry(key).or_insert_with(|| {
            keys.push(key);
            sums.push((0, 0));
            u32::try_from(keys.len() - 1).unwrap_or(NONE)
        });
        if let Some((count, duration)) = sums.get_mut(cell as usize) {
            *count += 1;
            *duration = duration.saturating_add(op.duration.0);
        }
        cell_of_op.push(cell);
    }
    let name_of_cell: Vec<u32> = keys.iter().map(|[name, ..]| *name).collect();
    let attributed = share_out_to_cells(trace, merge_devices, &cell_of_op, &name_of_cell);
    let times = attributed.elapsed_ns(attribution).iter().zip(&attributed.exclusive_ns);
    let mut cells = Vec::with_capacity(keys.len() * CELL_WIDTH);
    for ((key, (count, duration)), (elapsed, exclusive)) in keys.iter().zip(sums).zip(times) {
        cells.extend(key.iter().map(|index| i64::from(*index)));
        cells.extend([count, duration, *elapsed, *exclusive]);
    }
    PivotCells {
        names: trace.names.iter().map(str::to_owned).collect(),
        members: indexer.members.into(),
        steps_per_member: u64::from(indexer.steps_per_member),
        cells,
    }
}

/// Name id, then the member index on each of [`TRACE_AXES`].
type Key = [u32; TRACE_AXES.len() + 1];

/// Computes the [`Key`] of each op and collects the labels of the members.
struct MemberIndexer {
    /// Stages, steps, devices, streams and processes, in the order of [`TRACE_AXES`].
    members: [Vec<String>; TRACE_AXES.len()],
    /// Stage and step index of each step.
    indices_by_step: Vec<(u32, u32)>,
    /// Stage and step index of an op outside all steps.
    indices_outside: (u32, u32),
    /// The step of each op; empty if neither steps nor stages are requested.
    step_by_op: Vec<u32>,
    steps_per_member: u32,
    wants_devices: bool,
    /// Member index by stream number; `None` if streams are not requested.
    streams: Option<VecMap<i64, u32>>,
    wants_processes: bool,
}

impl MemberIndexer {
    fn new(trace: &Trace, requested: &[Axis]) -> Self {
        let wants = |axis| requested.contains(&axis);
        let (wants_stage, wants_step) = (wants(Axis::Stage), wants(Axis::Step));
        let found = if wants_stage || wants_step { StepsOfOps::of_trace(trace) } else { StepsOfOps::default() };
        let (steps, step_by_op) = (found.steps, found.step_of_op);
        let steps_per_member = step_group_size(steps.iter().map(|step| step.number).max().unwrap_or(0));
        let (mut stage_labels, mut step_labels) = (Vec::new(), Vec::new());
        let mut indices = |stage: String, step: String| {
            (
                find_or_push(&mut stage_labels, if wants_stage { stage } else { String::new() }),
                find_or_push(&mut step_labels, if wants_step { step } else { String::new() }),
            )
        };
        let indices_by_step =
            steps.iter().map(|step| indices(stage_label(step.stage), step_label(*step, steps_per_member))).collect();
        // If the trace has no steps, all ops have the stage that the file name contains.
        let stage_outside =
            if steps.is_empty() { stage_label(stage_of_path(&trace.label)) } else { OUTSIDE.to_owned() };
        let indices_outside = indices(stage_outside, OUTSIDE.to_owned());
        let unlabeled = || vec![String::new()];
        let devices = if wants(Axis::Device) {
            trace.devices.iter().map(|d| labels::device(&d.id)).collect()
        } else {
            unlabeled()
        };
        let processes = trace.processes.iter().map(|process| process_label(process.pid, &process.name));
        let processes = if wants(Axis::Process) { processes.collect() } else { unlabeled() };
        let streams = if wants(Axis::Stream) { Vec::new() } else { unlabeled() };
        Self {
            members: [stage_labels, step_labels, devices, streams, processes],
            indices_by_step,
            indices_outside,
            step_by_op,
            steps_per_member,
            wants_devices: wants(Axis::Device),
            streams: wants(Axis::Stream).then(VecMap::new),
            wants_processes: wants(Axis::Process),
        }
    }

    fn key(&mut self, row: usize, op: &GpuOp) -> Key {
        let step = self.step_by_op.get(row).and_then(|step| self.indices_by_step.get(*step as usize));
        let (stage, step) = step.copied().unwrap_or(self.indices_outside);
        let DeviceId(device) = op.device;
        let ProcessId(process) = op.process;
        let stream = self.stream_index(op.stream);
        let index_if = |is_requested, index| if is_requested { index } else { 0 };
        [op.name.0, stage, step, index_if(self.wants_devices, device), stream, index_if(self.wants_processes, process)]
    }

    fn stream_index(&mut self, stream: i64) -> u32 {
        let [_, _, _, labels, _] = &mut self.members;
        let Some(streams) = &mut self.streams else { return 0 };
        if let Some(index) = streams.get(&stream) {
            return *index;
        }
        let label = if stream < 0 { UNKNOWN.to_owned() } else { labels::stream(stream) };
        streams.update(stream, find_or_push(labels, label), |index| *index)
    }
}

/// Returns the index of a label; a new label is appended.
fn find_or_push(members: &mut Vec<String>, label: String) -> u32 {
    let existing = members.iter().position(|existing| *existing == label);
    let index = existing.unwrap_or_else(|| {
        members.push(label);
        members.len() - 1
    });
    u32::try_from(index).unwrap_or(NONE)
}

/// The number of steps per member: the smallest of 1, 2, 5, 10, 20, ... with at most [`MAX_STEP_MEMBERS`] members; 0 if
/// there are no steps.
fn step_group_size(steps: u32) -> u32 {
    let sizes = (0..10).flat_map(|decade| [1_u32, 2, 5].map(|size| size.saturating_mul(10_u32.saturating_pow(decade))));
    let mut sufficient = sizes.filter(|size| steps.div_ceil(*size) <= MAX_STEP_MEMBERS);
    if steps == 0 { 0 } else { sufficient.next().unwrap_or(steps) }
}

fn step_label(step: HostStep, group_size: u32) -> String {
    if group_size > 1 {
        let first = (step.number - 1) / group_size * group_size + 1;
        return labels::steps(first, first + group_size - 1);
    }
    labels::step(step.number, Some(step.stage).filter(|stage| *stage != Stage::All).map(Stage::label))
}

fn stage_label(stage: Stage) -> String {
    if stage == Stage::All { UNKNOWN.to_owned() } else { stage.label().to_owned() }
}

fn process_label(pid: i64, name: &str) -> String {
    match (pid, name) {
        (-1, "") => UNKNOWN.to_owned(),
        (-1, name) => name.to_owned(),
        (pid, name) => labels::process(pid, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Options, analyze};
    use crate::json;
    use crate::rules::RuleBook;
    use crate::trace::testing::TestTrace;
    use proptest::prelude::*;

    const ALL: [Attribution; 3] = [Attribution::FirstCome, Attribution::Fair, Attribution::Exclusive];

    /// Two processes, each with one step every 100 ns. Ops are (start, duration, name, stream, process, launched), in ns;
    /// `launched` tells whether the op has a launch call, at its start.
    fn trace(ops: &[(i64, i64, u8, i64, i64, bool)], steps: &[&str]) -> Trace {
        let mut trace = TestTrace::new();
        for (start, name) in (0..).step_by(100).zip(steps) {
            trace.process(1).range(name, start..start + 99).process(2).range(name, start..start + 99);
        }
        for &(start, duration, name, stream, pid, launched) in ops {
            let (name, time) = (char::from(b'a' + name).to_string(), start..start + duration);
            trace.process(pid).device(pid).stream(stream).launch(start..start);
            if launched {
                trace.launches(&name, time);
            } else {
                trace.kernel(&name, time);
            }
        }
        trace.finish()
    }

    /// Count, duration, elapsed and exclusive time by the key that `key` returns for a cell.
    fn sums(cells: &PivotCells, key: impl Fn(&[i64]) -> String) -> std::collections::BTreeMap<String, [i64; 4]> {
        let mut sums = std::collections::BTreeMap::new();
        for cell in cells.cells.chunks(CELL_WIDTH) {
            let sum = sums.entry(key(cell)).or_insert([0; 4]);
            sum.iter_mut().zip(&cell[CELL_WIDTH - 4..]).for_each(|(sum, more)| *sum += more);
        }
        sums
    }

    proptest! {
        #[test]
        fn cells_of_a_kernel_add_up_to_its_row_in_the_run_under_every_attribution(
            ops in prop::collection::vec((0_i64..400, 0_i64..90, 0_u8..4, 7_i64..9, 1_i64..3, any::<bool>()), 0..40),
            merge_devices in any::<bool>(), requested in prop::sample::subsequence(TRACE_AXES.to_vec(), 0..=5),
        ) {
            let trace = trace(&ops, &["step[DECODE bs=1]", "step[EXTEND bs=1 toks=3]", "step[DECODE bs=2]"]);
            let rules = RuleBook::embedded().select("gpuprism", "default").unwrap();
            for attribution in ALL {
                let run = analyze(&trace, &rules, &Options { attribution, merge_devices, without_sections: true, ..Options::default() });
                let cells = pivot_cells(&trace, attribution, merge_devices, &requested);
                let by_kernel = sums(&cells, |cell| cells.names[cell[0] as usize].clone());
                prop_assert_eq!(by_kernel.len(), run.kernels.len());
                for kernel in &run.kernels {
                    let expected = [kernel.count as i64, kernel.duration_ns, kernel.elapsed_ns, kernel.exclusive_ns];
                    prop_assert_eq!(by_kernel[&kernel.name], expected);
                }
                prop_assert_eq!(json::read::<PivotCells>(&json::write(&cells)), Ok(cells));
            }
        }
    }

    #[test]
    fn an_op_belongs_to_the_step_whose_range_contains_its_launch() {
        let steps = ["step[EXTEND bs=1 toks=3]", "step[DECODE bs=1]"];
        // In the first process, the launch of the last op is unknown and that of the op before it follows both steps.
        let ops = [
            (10, 5, 0, 7, 1, true),
            (110, 5, 0, 7, 1, true),
            (250, 5, 0, 7, 1, true),
            (120, 5, 0, 7, 1, false),
            (130, 6, 0, 9, 2, true),
        ];
        let trace = trace(&ops, &steps);
        let cells = pivot_cells(&trace, Attribution::FirstCome, false, &[Axis::Stage, Axis::Step]);
        let durations = |axis: usize| -> Vec<String> {
            let sums = sums(&cells, |cell| cells.members[axis][cell[axis + 1] as usize].clone());
            sums.into_iter().map(|(key, sum)| format!("{key}: {}", sum[1])).collect()
        };
        assert_eq!(durations(0), ["(outside steps): 10", "decode: 11", "extend/prefill: 5"]);
        // The second process launched nothing in its first range, so its step 1 is the decode.
        let steps = ["(outside steps): 10", "step 1 decode: 6", "step 1 extend/prefill: 5", "step 2 decode: 5"];
        assert_eq!(durations(1), steps);
        assert_eq!((cells.steps_per_member, cells.members[2].len()), (1, 1));
    }

    #[test]
    fn too_many_steps_are_grouped_evenly() {
        assert_eq!(
            [0, 1, 200, 201, 400, 401, 1_001, 2_001, 1_000_000].map(step_group_size),
            [0, 1, 1, 2, 2, 5, 10, 20, 5_000]
        );
        let names = vec!["step[DECODE bs=1]"; 300];
        let ops: Vec<_> = (0..300).map(|step| (step * 100, 5, 0, 7, 1, true)).collect();
        let cells = pivot_cells(&trace(&ops, &names), Attribution::FirstCome, false, &[Axis::Step]);
        assert_eq!((cells.steps_per_member, cells.cells.len() / CELL_WIDTH), (2, 150));
        assert_eq!(cells.members[1][149], "step 299 to 300");
    }

    #[test]
    fn a_trace_without_steps_takes_its_stage_from_the_file_name() {
        let mut trace = trace(&[(0, 5, 0, -1, 1, true)], &[]);
        trace.label = "1731-TP-0-DECODE.trace.json.gz".into();
        let cells = pivot_cells(&trace, Attribution::FirstCome, false, &TRACE_AXES);
        let labels: Vec<&str> = cells.members.iter().map(|members| members[0].as_str()).collect();
        assert_eq!(labels, ["decode", OUTSIDE, "GPU 1", UNKNOWN, "process 1"]);
        assert_eq!(cells.steps_per_member, 0);
    }
}
