//! From the ops of one trace to CPU ops, calls and Python frames.

use super::stacks::{SHOWN, Stacks};
use super::sweep::{OpsOfIds, Probe, sweep};
use super::{CallSite, Resolution};
use crate::analysis::triage::frames::FrameRules;
use crate::rules::signals::{CallKind, Signals};
use crate::trace::{CallId, Code, NONE, NameId, Ns, Spans, Trace};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// The code of a trace, swept for all its ops.
pub(super) struct Chain<'a> {
    trace: &'a Trace,
    code: &'a Code,
    rules: &'a FrameRules,
    stacks: Stacks<'a>,
    /// By name of call: does it replay a graph?
    replays: Vec<bool>,
    /// Parallel to the GPU ops: the CPU op of each, or [`NONE`].
    op_of: Vec<u32>,
    /// The innermost frames of CPU ops that launched work, and of calls.
    in_ops: Answers,
    in_calls: Answers,
    /// The CPU ops around calls that were captured.
    around: Answers,
    known: HashMap<Key, u32, RandomState>,
    /// Distinct sites so far.
    pub(super) sites: Vec<CallSite>,
}

/// What tells the sites of one trace apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    best: u32,
    stack: [u32; SHOWN],
    launcher: Launcher,
    resolution: Resolution,
}

/// What launched an op, by its name among CPU ops or calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Launcher {
    Op(NameId),
    Call(NameId),
    Unknown,
}

/// What a sweep answered for places of a table.
#[derive(Debug, Default)]
struct Answers {
    places: Vec<u32>,
    answers: Vec<u32>,
}

impl Answers {
    fn of(&self, place: u32) -> u32 {
        let at = self.places.binary_search(&place).ok();
        at.and_then(|at| self.answers.get(at)).copied().unwrap_or(NONE)
    }
}

impl<'a> Chain<'a> {
    /// `captured` are the calls that will be asked for beside the ops, in order.
    pub(super) fn new(
        trace: &'a Trace,
        code: &'a Code,
        (rules, signals): (&'a FrameRules, &Signals),
        captured: Vec<u32>,
    ) -> Self {
        let op_of = ops_of_ids(trace, code);
        let launches = trace.gpu_ops.launches().map(|call| call.map_or(NONE, |CallId(call)| call));
        let calls = distinct(launches.chain(captured.iter().copied()));
        let ops = distinct(op_of.iter().copied());
        let asked = [probes(&code.cpu_ops, &ops, within), probes(&trace.calls, &calls, at_start)].concat();
        let threads = trace.threads.len();
        let (stacks, mut answers) = Stacks::new(code, threads, rules, &asked);
        let in_calls = Answers { places: calls, answers: answers.split_off(ops.len().min(answers.len())) };
        let in_ops = Answers { places: ops, answers };
        let at_captured = probes(&trace.calls, &captured, at_start);
        let answers =
            if captured.is_empty() { Vec::new() } else { sweep(&code.cpu_ops, threads, &at_captured).innermost };
        let around = Answers { places: captured, answers };
        let replays = trace.calls.names.iter().map(|name| signals.call(name) == CallKind::GraphLaunch).collect();
        let (known, sites) = (HashMap::default(), Vec::new());
        Self { trace, code, rules, stacks, replays, op_of, in_ops, in_calls, around, known, sites }
    }

    /// The site of the GPU op at this place.
    pub(super) fn of_op(&mut self, at: usize) -> u32 {
        let op = self.op_of.get(at).copied().unwrap_or(NONE);
        let call = self.trace.gpu_ops.launch(at).map_or(NONE, |CallId(call)| call);
        self.site(op, call, true)
    }

    /// The site of a captured call: of the CPU op around it.
    pub(super) fn of_captured(&mut self, call: u32) -> u32 {
        self.site(self.around.of(call), call, false)
    }

    fn site(&mut self, op: u32, call: u32, op_is_asked: bool) -> u32 {
        let op_name = self.code.cpu_ops.get(op as usize).map(|op| Launcher::Op(op.name));
        let call_name = self.trace.calls.get(call as usize).map(|call| call.name);
        let in_op = if op_is_asked { self.in_ops.of(op) } else { NONE };
        let frame = if in_op == NONE { self.in_calls.of(call) } else { in_op };
        let is_replay = call_name.is_some_and(|name| self.replays.get(name.0 as usize) == Some(&true));
        let resolution = match (op_name, call_name) {
            _ if is_replay => Resolution::Replay,
            (Some(_), _) if in_op != NONE || frame == NONE || !op_is_asked => Resolution::Exact,
            (_, Some(_)) => Resolution::ByLaunch,
            (_, None) => Resolution::Unresolved,
        };
        let launcher = op_name.or(call_name.map(Launcher::Call)).unwrap_or(Launcher::Unknown);
        self.intern(Key { best: self.stacks.best(frame), stack: self.stacks.shown(frame), launcher, resolution })
    }

    fn intern(&mut self, key: Key) -> u32 {
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let at = u32::try_from(self.sites.len()).unwrap_or(NONE);
        self.known.insert(key, at);
        self.sites.push(self.described(key));
        at
    }

    fn described(&self, key: Key) -> CallSite {
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

/// The CPU op with the external id of each GPU op, or [`NONE`].
fn ops_of_ids(trace: &Trace, code: &Code) -> Vec<u32> {
    let ids = OpsOfIds::new(&code.cpu_ops, &code.cpu_op_ids, &trace.threads);
    let op_ids = code.op_ids.iter().copied().chain(std::iter::repeat(NONE));
    let ops = trace.gpu_ops.iter().zip(op_ids);
    ops.map(|(op, id)| if id == NONE { NONE } else { ids.find(op.process, id, op.start) }).collect()
}

/// In order, each once.
fn distinct(places: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut distinct: Vec<u32> = places.filter(|place| *place != NONE).collect();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

/// How long after its start one asks which frames are active: a frame that called an op may begin with it.
fn within(duration: Ns) -> Ns {
    Ns(duration.0 / 2).min(Ns(1_000))
}

fn at_start(_: Ns) -> Ns {
    Ns::ZERO
}

fn probes(spans: &Spans, places: &[u32], later: fn(Ns) -> Ns) -> Vec<Probe> {
    let spans = places.iter().filter_map(|&at| spans.get(at as usize));
    spans.map(|span| Probe { time: span.start + later(span.duration), thread: span.thread }).collect()
}
