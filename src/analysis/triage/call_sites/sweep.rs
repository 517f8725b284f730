//! Finds the enclosing span of every span and the innermost span at given times, per thread, by one sweep line with a stack
//! of open spans per thread. Linear in the number of spans and probes, after sorting the probes by time.
//!
//! [`OpsById`] looks up CPU ops by external id.

use crate::trace::{NONE, Ns, ProcessId, Span, Spans, Thread, ThreadId};

/// A query: which span of a thread is open at a time?
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    pub(super) time: Ns,
    pub(super) thread: ThreadId,
}

#[derive(Debug, Default)]
pub(super) struct Swept {
    /// For every span, the innermost span of its thread that was open at its start, or [`NONE`].
    pub(super) enclosing: Vec<u32>,
    /// For every probe, the innermost open span, or [`NONE`].
    pub(super) innermost: Vec<u32>,
    /// Number of pushes to and pops from stacks.
    #[cfg(test)]
    pub(super) stack_ops: usize,
}

/// A span counts as open for this long after its end, because profilers round times differently.
const SLACK: Ns = Ns(1);

/// Sweeps over the spans of all threads in order of time. Each span is pushed to its thread's stack once and popped once.
/// The spans must be sorted by start, and spans of equal start by duration, longest first.
pub(super) fn sweep(spans: &Spans, threads: usize, probes: &[Probe]) -> Swept {
    let mut swept = Swept::default();
    swept.enclosing.resize(spans.len(), NONE);
    swept.innermost.resize(probes.len(), NONE);
    let mut stacks: Vec<Vec<(u32, Ns)>> = vec![Vec::new(); threads];
    let probe_order = order_by_time(probes);
    let mut next_probes = probe_order.iter().copied().peekable();
    for (index, span) in (0..).zip(spans.iter()) {
        let is_earlier = |probe: &u32| probes.get(*probe as usize).is_some_and(|probe| probe.time < span.start);
        while let Some(probe) = next_probes.next_if(is_earlier) {
            answer(&mut swept, &mut stacks, probes, probe);
        }
        let Some(stack) = stacks.get_mut(span.thread.0 as usize) else { continue };
        let popped = pop_ended(stack, |end| end <= span.start && end < span.end());
        if let (Some(slot), Some((top, _))) = (swept.enclosing.get_mut(index as usize), stack.last()) {
            *slot = *top;
        }
        stack.push((index, span.end()));
        count_stack_ops(&mut swept, popped + 1);
    }
    for probe in next_probes {
        answer(&mut swept, &mut stacks, probes, probe);
    }
    swept
}

fn answer(swept: &mut Swept, stacks: &mut [Vec<(u32, Ns)>], probes: &[Probe], index: u32) {
    let Some(probe) = probes.get(index as usize) else { return };
    let Some(stack) = stacks.get_mut(probe.thread.0 as usize) else { return };
    let popped = pop_ended(stack, |end| end + SLACK < probe.time);
    if let (Some(slot), Some((top, _))) = (swept.innermost.get_mut(index as usize), stack.last()) {
        *slot = *top;
    }
    count_stack_ops(swept, popped);
}

/// Pops the ended spans and returns their number.
fn pop_ended(stack: &mut Vec<(u32, Ns)>, has_ended: impl Fn(Ns) -> bool) -> usize {
    let before = stack.len();
    while stack.last().is_some_and(|(_, end)| has_ended(*end)) {
        stack.pop();
    }
    before - stack.len()
}

#[cfg(test)]
fn count_stack_ops(swept: &mut Swept, stack_ops: usize) {
    swept.stack_ops += stack_ops;
}

#[cfg(not(test))]
fn count_stack_ops(_: &mut Swept, _: usize) {}

/// The indexes of the probes in order of time.
fn order_by_time(probes: &[Probe]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..u32::try_from(probes.len()).unwrap_or(u32::MAX)).collect();
    order.sort_by_key(|&index| probes.get(index as usize).map(|probe| probe.time));
    order
}

/// An index of CPU ops by external id and process. Merged ranks reuse the same ids, so the id alone is ambiguous.
pub(super) struct OpsById<'a> {
    ops: &'a Spans,
    threads: &'a [Thread],
    /// Ids and op indexes, sorted by id, process and start.
    by_id: Vec<(u32, u32)>,
}

/// If several ops share an id, at most this many before and after a time are candidates.
const MAX_BEFORE: usize = 4;
const MAX_AFTER: usize = 2;

impl<'a> OpsById<'a> {
    pub(super) fn new(ops: &'a Spans, ids: &'a [u32], threads: &'a [Thread]) -> Self {
        let mut index = Self { ops, threads, by_id: Vec::new() };
        let with_id = ids.iter().zip(0..).take(ops.len()).filter(|(id, _)| **id != NONE);
        let mut by_id: Vec<(u32, u32)> = with_id.map(|(id, op)| (*id, op)).collect();
        by_id.sort_unstable_by(|a, b| {
            let process = |op: u32| index.process(op);
            a.0.cmp(&b.0).then_with(|| process(a.1).cmp(&process(b.1))).then(a.1.cmp(&b.1))
        });
        index.by_id = by_id;
        index
    }

    fn process(&self, op: u32) -> u32 {
        let thread = self.ops.get(op as usize).and_then(|op| self.threads.get(op.thread.0 as usize));
        thread.map_or(NONE, |thread| thread.process.0)
    }

    /// Finds the CPU op with the external id of a GPU op that started at `time`: of the last ops that started before `time`
    /// the one whose end is nearest to it, otherwise the first that starts after it. Returns [`NONE`] if the id is unknown.
    pub(super) fn find(&self, process: ProcessId, id: u32, time: Ns) -> u32 {
        let from = self.by_id.partition_point(|(key, _)| *key < id);
        let of_id = self.by_id.get(from..).unwrap_or_default();
        let of_id = of_id.get(..of_id.partition_point(|(key, _)| *key == id)).unwrap_or_default();
        let of_id = of_id.get(of_id.partition_point(|(_, op)| self.process(*op) < process.0)..).unwrap_or_default();
        let of_id = of_id.get(..of_id.partition_point(|(_, op)| self.process(*op) == process.0)).unwrap_or_default();
        let span = |(_, op): &(u32, u32)| self.ops.get(*op as usize);
        let begun = of_id.partition_point(|entry| span(entry).is_some_and(|op| op.start <= time + SLACK));
        let distance = |op: Span| Ns(op.end().since(time).0.saturating_abs());
        let near = |from: usize, to: usize| of_id.get(from..to.min(of_id.len())).unwrap_or_default();
        let before = near(begun.saturating_sub(MAX_BEFORE), begun).iter().min_by_key(|entry| span(entry).map(distance));
        let after = || near(begun, begun + MAX_AFTER).iter().min_by_key(|entry| span(entry).map(|op| op.start));
        before.or_else(after).map_or(NONE, |(_, op)| *op)
    }
}
