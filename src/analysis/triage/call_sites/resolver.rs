//! Resolves the GPU ops of one trace to CPU ops, launch calls and Python frames. Frames are found by one sweep over the
//! tables of the trace; equal results share one call site, so texts are built per distinct call site only.

use super::stacks::{SHOWN, Stacks};
use super::sweep::{OpsById, Probe, sweep};
use super::{CallSite, Resolution};
use crate::analysis::triage::frames::FrameRules;
use crate::rules::signals::{CallKind, Signals};
use crate::trace::{CallId, HostCode, NONE, NameId, Ns, Spans, Trace};
use foldhash::fast::RandomState;
use std::collections::HashMap;

pub(super) struct Resolver<'a> {
    trace: &'a Trace,
    code: &'a HostCode,
    rules: &'a FrameRules,
    stacks: Stacks<'a>,
    /// By name of call: whether it replays a graph.
    replays: Vec<bool>,
    /// Parallel to the GPU ops: the CPU op of each, or [`NONE`].
    cpu_op_of_op: Vec<u32>,
    /// The innermost frame of each CPU op that launched a GPU op.
    frame_of_cpu_op: Lookup,
    /// The innermost frame of each call that launched a GPU op or was captured.
    frame_of_call: Lookup,
    /// The CPU op that encloses each captured call.
    cpu_op_of_captured: Lookup,
    index_of_key: HashMap<Key, u32, RandomState>,
    /// The distinct call sites so far.
    pub(super) distinct: Vec<CallSite>,
}

/// The identity of a call site within one trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    best: u32,
    stack: [u32; SHOWN],
    launcher: Launcher,
    resolution: Resolution,
}

/// The name of the CPU op or call that launched an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Launcher {
    Op(NameId),
    Call(NameId),
    Unknown,
}

/// A map from row numbers to row numbers, as two parallel columns with sorted keys.
#[derive(Debug, Default)]
struct Lookup {
    keys: Vec<u32>,
    values: Vec<u32>,
}

impl Lookup {
    /// The value of a key, or [`NONE`].
    fn get(&self, key: u32) -> u32 {
        let index = self.keys.binary_search(&key).ok();
        index.and_then(|index| self.values.get(index)).copied().unwrap_or(NONE)
    }
}

impl<'a> Resolver<'a> {
    /// Sweeps the tables of a trace. `captured` are the calls that [`Self::of_captured`] will resolve, in order.
    pub(super) fn new(
        trace: &'a Trace,
        code: &'a HostCode,
        (rules, signals): (&'a FrameRules, &Signals),
        captured: Vec<u32>,
    ) -> Self {
        let cpu_op_of_op = cpu_ops_by_id(trace, code);
        let launches = trace.gpu_ops.launches().map(|call| call.map_or(NONE, |CallId(call)| call));
        let calls = distinct(launches.chain(captured.iter().copied()));
        let cpu_ops = distinct(cpu_op_of_op.iter().copied());
        let frame_probes = [probes(&code.cpu_ops, &cpu_ops, within), probes(&trace.calls, &calls, at_start)].concat();
        let threads = trace.threads.len();
        let (stacks, mut frames) = Stacks::new(code, threads, rules, &frame_probes);
        let frame_of_call = Lookup { keys: calls, values: frames.split_off(cpu_ops.len().min(frames.len())) };
        let frame_of_cpu_op = Lookup { keys: cpu_ops, values: frames };
        let op_probes = probes(&trace.calls, &captured, at_start);
        let values = if captured.is_empty() { Vec::new() } else { sweep(&code.cpu_ops, threads, &op_probes).innermost };
        let cpu_op_of_captured = Lookup { keys: captured, values };
        let replays = trace.calls.names.iter().map(|name| signals.call(name) == CallKind::GraphLaunch).collect();
        Self {
            trace,
            code,
            rules,
            stacks,
            replays,
            cpu_op_of_op,
            frame_of_cpu_op,
            frame_of_call,
            cpu_op_of_captured,
            index_of_key: HashMap::default(),
            distinct: Vec::new(),
        }
    }

    /// The call site of a GPU op, as an index in `distinct`.
    pub(super) fn of_op(&mut self, op: usize) -> u32 {
        let cpu_op = self.cpu_op_of_op.get(op).copied().unwrap_or(NONE);
        let call = self.trace.gpu_ops.launch(op).map_or(NONE, |CallId(call)| call);
        let op_frame = self.frame_of_cpu_op.get(cpu_op);
        let frame = if op_frame == NONE { self.frame_of_call.get(call) } else { op_frame };
        self.resolve(cpu_op, call, frame, op_frame != NONE || frame == NONE)
    }

    /// The call site of a captured call, as an index in `distinct`.
    pub(super) fn of_captured(&mut self, call: u32) -> u32 {
        self.resolve(self.cpu_op_of_captured.get(call), call, self.frame_of_call.get(call), true)
    }

    /// `is_exact`: if there is a CPU op, the frame belongs to it.
    fn resolve(&mut self, cpu_op: u32, call: u32, frame: u32, is_exact: bool) -> u32 {
        let op_name = self.code.cpu_ops.get(cpu_op as usize).map(|op| Launcher::Op(op.name));
        let call_name = self.trace.calls.get(call as usize).map(|call| call.name);
        let is_replay = call_name.is_some_and(|name| self.replays.get(name.0 as usize) == Some(&true));
        let resolution = match (op_name, call_name) {
            _ if is_replay => Resolution::Replay,
            (Some(_), _) if is_exact => Resolution::Exact,
            (_, Some(_)) => Resolution::ByLaunch,
            (_, None) => Resolution::Unresolved,
        };
        let launcher = op_name.or(call_name.map(Launcher::Call)).unwrap_or(Launcher::Unknown);
        self.intern(Key { best: self.stacks.best(frame), stack: self.stacks.shown(frame), launcher, resolution })
    }

    fn intern(&mut self, key: Key) -> u32 {
        if let Some(&index) = self.index_of_key.get(&key) {
            return index;
        }
        let index = u32::try_from(self.distinct.len()).unwrap_or(NONE);
        self.index_of_key.insert(key, index);
        self.distinct.push(self.call_site(key));
        index
    }

    fn call_site(&self, key: Key) -> CallSite {
        let text = |name: u32| self.rules.location(self.stacks.text(name));
        let location = if key.best == NONE { String::new() } else { text(key.best) };
        let stack: Vec<String> = key.stack.iter().rev().filter(|name| **name != NONE).map(|name| text(*name)).collect();
        let display = self.rules.display(&location, &stack.iter().map(String::as_str).collect::<Vec<_>>()).to_owned();
        let cpu_op = match key.launcher {
            Launcher::Op(name) => self.code.cpu_ops.names.get(name),
            Launcher::Call(name) => self.trace.calls.names.get(name),
            Launcher::Unknown => "",
        };
        CallSite { location, display, stack, cpu_op: cpu_op.to_owned(), resolution: key.resolution }
    }
}

/// For every GPU op, the CPU op with its external id, or [`NONE`].
fn cpu_ops_by_id(trace: &Trace, code: &HostCode) -> Vec<u32> {
    let ids = OpsById::new(&code.cpu_ops, &code.cpu_op_ids, &trace.threads);
    let op_ids = code.op_ids.iter().copied().chain(std::iter::repeat(NONE));
    let ops = trace.gpu_ops.iter().zip(op_ids);
    ops.map(|(op, id)| if id == NONE { NONE } else { ids.find(op.process, id, op.start) }).collect()
}

/// Sorts row numbers and removes duplicates and [`NONE`].
fn distinct(rows: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut distinct: Vec<u32> = rows.filter(|row| *row != NONE).collect();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

/// Probe CPU ops shortly after their start, because the calling frame may start at the same time.
fn within(duration: Ns) -> Ns {
    Ns(duration.0 / 2).min(Ns(1_000))
}

fn at_start(_: Ns) -> Ns {
    Ns::ZERO
}

fn probes(spans: &Spans, rows: &[u32], delay: fn(Ns) -> Ns) -> Vec<Probe> {
    let spans = rows.iter().filter_map(|&row| spans.get(row as usize));
    spans.map(|span| Probe { time: span.start + delay(span.duration), thread: span.thread }).collect()
}
