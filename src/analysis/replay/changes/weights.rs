//! The weights of the edges of the dependency graph after changes: one pass over the edges of the window.

use super::{Change, Changes, Gaps};
use crate::analysis::replay::graph::{EdgeKind, EdgeRow, Moment, REMOVED};
use crate::analysis::replay::ids::{Call, Edge, Id, Node, Op};
use crate::analysis::replay::path::Waits;
use crate::analysis::replay::streams::Follows;
use crate::analysis::time::work::Class;
use crate::trace::{Ns, RunningCode};

/// One launch of a graph.
const GRAPH_LAUNCH: Ns = Ns(10_000);
/// The turnaround within a graph is at most this.
const GRAPH_TURNAROUND: Ns = Ns(1_000);

impl Changes<'_> {
    /// The weights after these changes.
    pub(super) fn weights(&self, changes: &[Change], is_low: bool, gaps: Gaps) -> Vec<Ns> {
        let mut weights = self.measured.clone();
        for node in &self.in_window {
            for (edge, row) in self.graph.edges_to(*node) {
                if let Some(changed) = self.changed(changes, is_low, *node, (edge, row)) {
                    weights.get_mut(edge.index()).into_iter().for_each(|weight| *weight = changed);
                }
            }
        }
        for wait in &self.maybe_waits {
            let waits = gaps == Gaps::Wait || gaps == Gaps::KnownWait && wait.is_known;
            let edge = if waits { wait.host } else { wait.wait };
            let Some(weight) = weights.get_mut(edge.index()) else { continue };
            let measured = self.graph.edges.at(edge).weight;
            *weight = match waits {
                false => REMOVED,
                // The change has taken the wait.
                true if changes.iter().any(|change| self.takes_wait(change, wait.is_known)) => {
                    (*weight).min(measured.since(wait.time)).max(Ns::ZERO)
                }
                true => weight.since(wait.time).max(Ns::ZERO),
            };
        }
        weights
    }

    /// Whether a change takes the time of the code that waits, or may wait.
    fn takes_wait(&self, change: &Change, is_known: bool) -> bool {
        match change {
            Change::WithoutCode(_, Waits::Yes) => is_known,
            Change::WithoutCode(function, Waits::No) => !is_known && self.parts.unrecorded.says_nothing(*function),
            _ => false,
        }
    }

    fn changed(&self, changes: &[Change], is_low: bool, node: Node, (edge, row): (Edge, EdgeRow)) -> Option<Ns> {
        let moment = self.graph.moment(node);
        let is_binding = self.graph.binding.at(node) == edge;
        let unexplained = if is_binding { self.graph.unexplained.at(node) } else { Ns::ZERO };
        let mut now = row;
        let mut is_changed = false;
        for change in changes {
            let weight = match moment {
                Moment::CallStart(call) => self.host_code(change, call, now),
                Moment::CallEnd(call) => self.call(change, call, now),
                Moment::OpStart(op) => self.delay(change, op, now, unexplained, is_low),
                Moment::OpEnd(op) => self.op(change, op, now, is_low),
                Moment::Beginning => None,
            };
            if let Some(weight) = weight {
                // Of several changes none takes back what another one saves, also not the launch of a graph.
                now.weight = if changes.len() > 1 { weight.min(now.weight) } else { weight };
                is_changed = true;
            }
        }
        is_changed.then_some(now.weight)
    }

    fn host_code(&self, change: &Change, call: Call, edge: EdgeRow) -> Option<Ns> {
        if !matches!(edge.kind, EdgeKind::Host | EdgeKind::Handoff | EdgeKind::MaybeWait) {
            return None;
        }
        match change {
            Change::WithoutHost | Change::WithoutCodeBetweenCalls => Some(Ns::ZERO),
            Change::OneGraphLaunch | Change::GraphsOf(_) | Change::Fused => {
                self.is_gone(change, call).then_some(Ns::ZERO)
            }
            Change::WithoutProfiler => {
                let profiler = self.profiler?;
                let parts = self.code.get(&call)?.iter();
                let paused = parts.filter(|(code, _)| code.and_then(|code| code.function) == Some(profiler));
                let time = paused.fold(Ns::ZERO, |sum, (_, time)| sum + *time);
                (time > Ns::ZERO).then(|| edge.weight.since(time).max(Ns::ZERO))
            }
            Change::WithoutCode(function, waits) => {
                let is_it = |code: &Option<RunningCode>| {
                    let of_code = code.map_or((None, false), |code| (code.function, code.waits));
                    of_code == (*function, *waits == Waits::Yes)
                };
                let time = self.time_of_code(call, edge.kind, &is_it)?;
                (time > Ns::ZERO).then(|| edge.weight.since(time).max(Ns::ZERO))
            }
            _ => None,
        }
    }

    /// The time of the code for which `is_it` is true, in what an edge into the start of a call stands for.
    fn time_of_code(&self, call: Call, kind: EdgeKind, is_it: &dyn Fn(&Option<RunningCode>) -> bool) -> Option<Ns> {
        let mut time = Ns::ZERO;
        if kind == EdgeKind::Host && self.parts.handoffs.contains_key(&call) {
            self.parts.gap_code.each_own_part(call, &mut |code, part| {
                let works = code.is_none_or(|code| !code.waits);
                time += if works && is_it(&code) { part } else { Ns::ZERO };
            });
            return Some(time);
        }
        let parts = self.code.get(&call)?;
        let wait = self.parts.unrecorded.before(call).filter(|_| kind == EdgeKind::MaybeWait);
        // Only what is after the end of the op that it waits for.
        let from = wait.map_or(Ns(i64::MIN), |wait| self.parts.recorded.op(wait.op).end);
        let all = parts.iter().fold(Ns::ZERO, |sum, (_, part)| sum + *part);
        let mut at = self.parts.recorded.call(call).start - all;
        for (code, part) in parts {
            let start = at.max(from);
            at += *part;
            time += if is_it(code) { at.since(start).max(Ns::ZERO) } else { Ns::ZERO };
        }
        Some(time)
    }

    fn call(&self, change: &Change, id: Call, edge: EdgeRow) -> Option<Ns> {
        let (call, wait) = (self.parts.recorded.call(id), self.parts.waits.at(id));
        if wait.is_open && edge.kind == EdgeKind::Call {
            return self.open_wait(change, id, edge);
        }
        let own = |own: Ns, removes: bool| match edge.kind {
            EdgeKind::Return => removes.then_some(REMOVED),
            EdgeKind::Call => Some(own),
            _ => None,
        };
        match change {
            Change::WithoutHost if edge.kind == EdgeKind::Call => Some(Ns::ZERO),
            Change::WithoutProfiler if edge.kind == EdgeKind::Call => {
                let paused = self.parts.gap_code.pause_in_call(id);
                (paused > Ns::ZERO).then(|| edge.weight.since(paused).max(Ns::ZERO))
            }
            Change::WithoutBlockingAt(site) if self.sites.get(&id) == Some(site) => own(wait.own, true),
            Change::WithoutBlocking if edge.kind == EdgeKind::Return || wait.blocks => own(wait.own, true),
            _ if edge.kind == EdgeKind::Call && self.is_gone(change, id) => Some(Ns::ZERO),
            Change::OneGraphLaunch | Change::GraphsOf(_) if edge.kind == EdgeKind::Call => {
                let is_first = self.graphed.first.contains(&id) && self.is_of_stage(change, id);
                is_first.then_some(GRAPH_LAUNCH)
            }
            Change::PinnedCopies if self.pinnable.contains(&id) => own(wait.own.min(self.parts.usual.launch), true),
            Change::FreeAllocations if call.traits.allocates => own(Ns::ZERO, true),
            Change::WarmedUp if self.first_uses.is_first(id) => {
                let usual = self.parts.usual.call(call.name).min(self.parts.usual.launch);
                own(usual.min(edge.weight), true)
            }
            _ => None,
        }
    }

    /// A call that waits for lost work for an unknown part of its time: the host does not need that part, and the GPU may.
    fn open_wait(&self, change: &Change, id: Call, edge: EdgeRow) -> Option<Ns> {
        let own = self.parts.waits.at(id).own;
        match change {
            Change::WithoutHost => Some(edge.weight.since(own)),
            Change::WithoutGpuWork | Change::WithoutBlocking => Some(own),
            Change::WithoutBlockingAt(site) => (self.sites.get(&id) == Some(site)).then_some(own),
            _ => None,
        }
    }

    fn delay(&self, change: &Change, id: Op, edge: EdgeRow, unexplained: Ns, is_low: bool) -> Option<Ns> {
        let longest = self.parts.usual.longest_turnaround();
        let is_stream = edge.kind == EdgeKind::Stream;
        match change {
            Change::WithoutTurnaround if is_stream && edge.weight > Ns::ZERO => {
                Some(if edge.weight <= longest { Ns::ZERO } else { unexplained })
            }
            Change::WarmedUp if edge.kind == EdgeKind::Launch && self.first_uses.is_new(id) => {
                Some(edge.weight.since(unexplained))
            }
            Change::Fused if is_stream && edge.weight > Ns::ZERO && edge.weight <= longest => {
                self.unfused.ops.contains(&id).then_some(Ns::ZERO)
            }
            Change::OneGraphLaunch | Change::GraphsOf(_) if is_stream && !is_low && edge.weight <= longest => {
                let call = self.parts.recorded.op(id).call?;
                let is_dependent = matches!(self.parts.follows.at(id), Follows::Overlaps(_));
                (!is_dependent && self.is_gone(change, call)).then(|| edge.weight.min(GRAPH_TURNAROUND))
            }
            _ => None,
        }
    }

    fn op(&self, change: &Change, id: Op, edge: EdgeRow, is_low: bool) -> Option<Ns> {
        let op = self.parts.recorded.op(id);
        let least_transfer = || self.parts.transfers.at(&op).least.min(edge.weight);
        match change {
            // The rest may be a wait for other ranks.
            Change::WithoutCommunication if op.communicates() && is_low => Some(edge.weight.since(least_transfer())),
            Change::WithoutCommunication if op.communicates() => Some(Ns::ZERO),
            Change::WithoutGpuWork if op.communicates() && !is_low => Some(least_transfer()),
            Change::WithoutGpuWork if !op.communicates() => Some(Ns::ZERO),
            Change::Faster(remains) if op.class == Some(Class::Compute) || op.communicates() => {
                let remains = remains.get(op.name.0 as usize).copied().filter(|remains| *remains != 1.0)?;
                Some(Ns((edge.weight.0 as f64 * remains) as i64))
            }
            Change::Fused if op.is_kernel() => self.unfused.ops.contains(&id).then_some(Ns::ZERO),
            Change::KernelsTwiceAsFast(group) if op.is_kernel() => {
                (self.groups.get(op.name.0 as usize) == Some(group)).then_some(Ns(edge.weight.0 / 2))
            }
            _ => None,
        }
    }

    /// Whether a call goes away: its launch becomes a part of a graph, or its kernels are computed by others.
    fn is_gone(&self, change: &Change, call: Call) -> bool {
        match change {
            Change::OneGraphLaunch | Change::GraphsOf(_) => {
                self.graphed.gone.contains(&call) && self.is_of_stage(change, call)
            }
            Change::Fused => self.unfused.calls.contains(&call),
            _ => false,
        }
    }

    /// Whether a call is in a step of the stage whose launches become graphs.
    pub(super) fn is_of_stage(&self, change: &Change, call: Call) -> bool {
        let Change::GraphsOf(stage) = change else { return true };
        let start = self.parts.recorded.call(call).start;
        let steps = &self.steady.steps;
        let after = steps.partition_point(|step| step.host_start <= start);
        after.checked_sub(1).and_then(|step| steps.get(step)).is_some_and(|step| step.stage == *stage)
    }
}
