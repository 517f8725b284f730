//! A trace as a cube: what each kernel cost in every stage, step, device, stream and process that a pivot asks for. It is
//! computed where the trace is, and goes to whoever shapes it as a JSON text.

use crate::analysis::results::Attribution;
use crate::analysis::structure::stages::{HostStep, stage_of_path, steps_by_op};
use crate::analysis::time::attribution::share_out_to_cells;
use crate::analysis::triage::Stage;
use crate::json::from_json;
use crate::ordering::VecMap;
use crate::trace::{DeviceId, GpuOp, NONE, ProcessId, Trace};
use foldhash::fast::RandomState;
use serde::Serialize;
use std::collections::HashMap;

/// What rows and columns of a pivot can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// What the rules say a kernel is.
    Category,
    /// Its name.
    Kernel,
    /// The stage of serving.
    Stage,
    /// The GPU.
    Device,
    /// The stream on its GPU: streams of one number on several GPUs are one.
    Stream,
    /// The process that launched.
    Process,
    /// The run.
    Run,
    /// The step of the engine, by its number in its process.
    Step,
}
from_json!(Axis = "category" => Category, "kernel" => Kernel, "stage" => Stage, "device" => Device, "stream" => Stream,
    "process" => Process, "run" => Run, "step" => Step);

/// The axes that only a trace can tell, in the order of [`Cube::places`].
pub const PLACES: [Axis; 5] = [Axis::Stage, Axis::Step, Axis::Device, Axis::Stream, Axis::Process];

/// What stands for the work that no step launched.
pub const OUTSIDE: &str = "(outside steps)";
/// What stands for a member that the trace does not tell.
pub const UNKNOWN: &str = "(unknown)";

/// More steps than this are grouped.
const STEPS: u32 = 200;

/// Numbers of one cell: kernel, then a place on every axis of [`PLACES`], then count, duration, elapsed and exclusive time.
pub const WIDTH: usize = PLACES.len() + 5;

/// What a trace's GPU ops cost, by kernel and place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cube {
    /// The kernels' names, as in the run's table of kernels.
    pub names: Vec<String>,
    /// The members of every axis of [`PLACES`]; one empty name where the axis was not asked for.
    pub places: Vec<Vec<String>>,
    /// So many consecutive steps are one member; 0 where no range marks steps.
    pub steps_together: u64,
    /// [`WIDTH`] numbers a cell, times in nanoseconds.
    pub cells: Vec<i64>,
}
from_json!(Cube { names, places, steps_together, cells });

/// Sums up a trace by kernel and by the wanted axes. Over all cells of a kernel, elapsed and exclusive time are those of the
/// run's own table, to the nanosecond.
pub fn cube(trace: &Trace, attribution: Attribution, merge_devices: bool, wanted: &[Axis]) -> Cube {
    let mut places = Places::new(trace, wanted);
    let mut keys: Vec<Key> = Vec::new();
    let mut known: HashMap<Key, u32, RandomState> = HashMap::default();
    let mut sums: Vec<(i64, i64)> = Vec::new();
    let mut cell_of_op: Vec<u32> = Vec::with_capacity(trace.gpu_ops.len());
    for (at, op) in trace.gpu_ops.iter().enumerate() {
        let key = places.key(at, &op);
        let cell = *known.entry(key).or_insert_with(|| {
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
    let owned = share_out_to_cells(trace, merge_devices, &cell_of_op, &name_of_cell);
    let elapsed = match attribution {
        Attribution::FirstCome => &owned.first_come_ns,
        Attribution::Fair => &owned.fair_ns,
        Attribution::Exclusive => &owned.exclusive_ns,
    };
    let mut cells = Vec::with_capacity(keys.len() * WIDTH);
    for ((key, (count, duration)), (elapsed, exclusive)) in
        keys.iter().zip(sums).zip(elapsed.iter().zip(&owned.exclusive_ns))
    {
        cells.extend(key.iter().map(|place| i64::from(*place)));
        cells.extend([count, duration, *elapsed, *exclusive]);
    }
    Cube {
        names: trace.names.iter().map(str::to_owned).collect(),
        places: places.members.into(),
        steps_together: u64::from(places.steps_together),
        cells,
    }
}

/// Name, then a place on every axis.
type Key = [u32; PLACES.len() + 1];

/// Where ops stand on the axes.
struct Places {
    members: [Vec<String>; PLACES.len()],
    /// Of each step its places among the stages and the steps.
    of_step: Vec<(u32, u32)>,
    /// Those of an op in no step.
    outside: (u32, u32),
    /// Of each op its step; empty where neither steps nor stages are wanted.
    steps: Vec<u32>,
    steps_together: u32,
    has_devices: bool,
    /// Of each stream its place; `None` where they are not wanted.
    streams: Option<VecMap<i64, u32>>,
    has_processes: bool,
}

impl Places {
    fn new(trace: &Trace, wanted: &[Axis]) -> Self {
        let wants = |axis| wanted.contains(&axis);
        let (wants_stage, wants_step) = (wants(Axis::Stage), wants(Axis::Step));
        let (steps, of_ops) = if wants_stage || wants_step { steps_by_op(trace) } else { (Vec::new(), Vec::new()) };
        let steps_together = together(steps.iter().map(|step| step.number).max().unwrap_or(0));
        let (mut stages, mut labels) = (Vec::new(), Vec::new());
        let mut place_of = |stage: String, step: String| {
            (
                place(&mut stages, if wants_stage { stage } else { String::new() }),
                place(&mut labels, if wants_step { step } else { String::new() }),
            )
        };
        let of_step =
            steps.iter().map(|step| place_of(stage_label(step.stage), step_label(*step, steps_together))).collect();
        // A file of one stage says so in its name; where steps are told, what lies between them is nobody's.
        let file_stage = if steps.is_empty() { stage_of_path(&trace.label) } else { Stage::All };
        let outside = if steps.is_empty() { stage_label(file_stage) } else { OUTSIDE.to_owned() };
        let outside = place_of(outside, OUTSIDE.to_owned());
        let one = || vec![String::new()];
        let devices =
            if wants(Axis::Device) { trace.devices.iter().map(|d| device_label(&d.id)).collect() } else { one() };
        let processes = trace.processes.iter().map(|process| process_label(process.pid, &process.name));
        let processes = if wants(Axis::Process) { processes.collect() } else { one() };
        let streams = if wants(Axis::Stream) { Vec::new() } else { one() };
        Self {
            members: [stages, labels, devices, streams, processes],
            of_step,
            outside,
            steps: of_ops,
            steps_together,
            has_devices: wants(Axis::Device),
            streams: wants(Axis::Stream).then(VecMap::new),
            has_processes: wants(Axis::Process),
        }
    }

    fn key(&mut self, at: usize, op: &GpuOp) -> Key {
        let step = self.steps.get(at).and_then(|step| self.of_step.get(*step as usize));
        let (stage, step) = step.copied().unwrap_or(self.outside);
        let DeviceId(device) = op.device;
        let ProcessId(process) = op.process;
        let stream = self.stream(op.stream);
        let kept = |wanted, place| if wanted { place } else { 0 };
        [op.name.0, stage, step, kept(self.has_devices, device), stream, kept(self.has_processes, process)]
    }

    fn stream(&mut self, stream: i64) -> u32 {
        let [_, _, _, labels, _] = &mut self.members;
        let Some(streams) = &mut self.streams else { return 0 };
        if let Some(known) = streams.get(&stream) {
            return *known;
        }
        let label = if stream < 0 { UNKNOWN.to_owned() } else { format!("stream {stream}") };
        let new = place(labels, label);
        streams.update(stream, new, |_| ());
        new
    }
}

/// The place of a member, new or known.
fn place(members: &mut Vec<String>, label: String) -> u32 {
    let known = members.iter().position(|known| *known == label);
    let at = known.unwrap_or_else(|| {
        members.push(label);
        members.len() - 1
    });
    u32::try_from(at).unwrap_or(NONE)
}

/// The smallest of 1, 2, 5, 10, 20, ... that makes few enough groups of steps; 0 for no step.
fn together(steps: u32) -> u32 {
    let sizes = (0..10).flat_map(|decade| [1_u32, 2, 5].map(|size| size.saturating_mul(10_u32.saturating_pow(decade))));
    let mut enough = sizes.filter(|size| steps.div_ceil(*size) <= STEPS);
    if steps == 0 { 0 } else { enough.next().unwrap_or(steps) }
}

fn step_label(step: HostStep, together: u32) -> String {
    if together > 1 {
        let first = (step.number - 1) / together * together + 1;
        return format!("step {first} to {}", first + together - 1);
    }
    match step.stage {
        Stage::All => format!("step {}", step.number),
        stage => format!("step {} {}", step.number, stage.label()),
    }
}

fn stage_label(stage: Stage) -> String {
    if stage == Stage::All { UNKNOWN.to_owned() } else { stage.label().to_owned() }
}

/// A device as rows and columns call it: most have a bare number for an id.
pub fn device_label(id: &str) -> String {
    if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) { format!("GPU {id}") } else { id.to_owned() }
}

fn process_label(pid: i64, name: &str) -> String {
    match (pid, name) {
        (-1, "") => UNKNOWN.to_owned(),
        (-1, name) => name.to_owned(),
        (pid, "") => format!("process {pid}"),
        (pid, name) => format!("{name} {pid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Options, analyze};
    use crate::json;
    use crate::rules::RuleBook;
    use crate::trace::{Format, Ns, OpKind, Span, TraceBuilder};
    use proptest::prelude::*;

    const ALL: [Attribution; 3] = [Attribution::FirstCome, Attribution::Fair, Attribution::Exclusive];

    /// Two processes, each with steps `step[DECODE bs=1]` of 100 ns one after the other; ops are (start, duration, name,
    /// stream, process, launched), launched where they begin.
    pub(crate) fn trace(ops: &[(i64, i64, u8, i64, i64, bool)], steps: &[&str]) -> Trace {
        let mut builder = TraceBuilder::new("t", Format::TorchProfiler);
        let names: Vec<_> = steps.iter().map(|name| builder.trace.ranges.names.intern(name)).collect();
        for pid in [1, 2] {
            let process = builder.process(pid, "");
            let thread = builder.thread(process, 1);
            for (name, at) in names.iter().zip(0..) {
                builder.trace.ranges.push(Span { start: Ns(at * 100), duration: Ns(99), name: *name, thread });
            }
        }
        for (&(start, duration, name, stream, pid, launched), id) in ops.iter().zip(1..) {
            let process = builder.process(pid, "");
            let thread = builder.thread(process, 1);
            let call = builder.trace.calls.names.intern("cudaLaunchKernel");
            builder.add_call(Span { start: Ns(start), duration: Ns(0), name: call, thread }, Some(id));
            let op = GpuOp {
                start: Ns(start),
                duration: Ns(duration),
                name: builder.trace.names.intern(&char::from(b'a' + name).to_string()),
                device: builder.device(&pid.to_string(), ""),
                stream,
                process,
                kind: OpKind::Kernel,
            };
            builder.trace.gpu_ops.push(op, launched.then_some(id));
        }
        builder.finish()
    }

    /// Sums of count, duration, elapsed and exclusive time under this key of a cell.
    fn sums(cube: &Cube, of: impl Fn(&[i64]) -> String) -> std::collections::BTreeMap<String, [i64; 4]> {
        let mut sums = std::collections::BTreeMap::new();
        for cell in cube.cells.chunks(WIDTH) {
            let sum = sums.entry(of(cell)).or_insert([0; 4]);
            sum.iter_mut().zip(&cell[WIDTH - 4..]).for_each(|(sum, more)| *sum += more);
        }
        sums
    }

    proptest! {
        #[test]
        fn cells_add_up_to_what_the_run_says_of_its_kernels_however_it_is_counted(
            ops in prop::collection::vec((0_i64..400, 0_i64..90, 0_u8..4, 7_i64..9, 1_i64..3, any::<bool>()), 0..40),
            merge_devices in any::<bool>(), wanted in prop::sample::subsequence(PLACES.to_vec(), 0..=5),
        ) {
            let trace = trace(&ops, &["step[DECODE bs=1]", "step[EXTEND bs=1 toks=3]", "step[DECODE bs=2]"]);
            let rules = RuleBook::embedded().select("gpuprism", "default").unwrap();
            for attribution in ALL {
                let run = analyze(&trace, &rules, &Options { attribution, merge_devices, without_sections: true, ..Options::default() });
                let cube = cube(&trace, attribution, merge_devices, &wanted);
                let by_kernel = sums(&cube, |cell| cube.names[cell[0] as usize].clone());
                prop_assert_eq!(by_kernel.len(), run.kernels.len());
                for kernel in &run.kernels {
                    let want = [kernel.count as i64, kernel.duration_ns, kernel.elapsed_ns, kernel.exclusive_ns];
                    prop_assert_eq!(by_kernel[&kernel.name], want);
                }
                prop_assert_eq!(json::read::<Cube>(&json::write(&cube)), Ok(cube));
            }
        }
    }

    #[test]
    fn an_op_belongs_to_the_step_whose_range_holds_its_launch() {
        let steps = ["step[EXTEND bs=1 toks=3]", "step[DECODE bs=1]"];
        // The last op of the first process was launched by nobody known, the one before it after both steps.
        let ops = [
            (10, 5, 0, 7, 1, true),
            (110, 5, 0, 7, 1, true),
            (250, 5, 0, 7, 1, true),
            (120, 5, 0, 7, 1, false),
            (130, 6, 0, 9, 2, true),
        ];
        let trace = trace(&ops, &steps);
        let cube = cube(&trace, Attribution::FirstCome, false, &[Axis::Stage, Axis::Step]);
        let durations = |at: usize| -> Vec<(String, i64)> {
            let sums = sums(&cube, |cell| cube.places[at][cell[at + 1] as usize].clone());
            sums.into_iter().map(|(key, sum)| (key, sum[1])).collect()
        };
        let of = |list: &[(&str, i64)]| -> Vec<(String, i64)> { list.iter().map(|(k, v)| ((*k).into(), *v)).collect() };
        assert_eq!(durations(0), of(&[(OUTSIDE, 10), ("decode", 11), ("extend/prefill", 5)]));
        // The second process launched nothing in its first range: its first step is the decode.
        assert_eq!(
            durations(1),
            of(&[(OUTSIDE, 10), ("step 1 decode", 6), ("step 1 extend/prefill", 5), ("step 2 decode", 5)])
        );
        assert_eq!((cube.steps_together, cube.places[2].len()), (1, 1));
    }

    #[test]
    fn more_steps_than_a_table_holds_are_grouped_evenly() {
        assert_eq!(
            [0, 1, 200, 201, 400, 401, 1_001, 2_001, 1_000_000].map(together),
            [0, 1, 1, 2, 2, 5, 10, 20, 5_000]
        );
        let names = vec!["step[DECODE bs=1]"; 300];
        let ops: Vec<_> = (0..300).map(|at| (at * 100, 5, 0, 7, 1, true)).collect();
        let cube = cube(&trace(&ops, &names), Attribution::FirstCome, false, &[Axis::Step]);
        assert_eq!((cube.steps_together, cube.cells.len() / WIDTH), (2, 150));
        assert_eq!(cube.places[1][149], "step 299 to 300");
    }

    #[test]
    fn a_trace_without_steps_says_what_its_name_says() {
        let mut one = trace(&[(0, 5, 0, -1, 1, true)], &[]);
        one.label = "1731-TP-0-DECODE.trace.json.gz".into();
        let cube = cube(&one, Attribution::FirstCome, false, &PLACES);
        let own: Vec<&str> = cube.places.iter().map(|members| members[0].as_str()).collect();
        assert_eq!(own, ["decode", OUTSIDE, "GPU 1", UNKNOWN, "process 1"]);
        assert_eq!(cube.steps_together, 0);
    }
}
