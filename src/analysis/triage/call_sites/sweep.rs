//! Sweeps over the spans of threads: which is the innermost at a time, and which encloses which.

use crate::trace::{NONE, Ns, ProcessId, Span, Spans, Thread, ThreadId};

/// A time on a thread at which one asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    pub(super) time: Ns,
    pub(super) thread: ThreadId,
}

/// The answers of one sweep.
#[derive(Debug, Default)]
pub(super) struct Swept {
    /// Of every span: the innermost that was running on its thread when it began, or [`NONE`].
    pub(super) enclosing: Vec<u32>,
    /// Of every probe: the innermost span that is running, or [`NONE`].
    pub(super) innermost: Vec<u32>,
    /// How many times a span was put on a stack or taken off one.
    #[cfg(test)]
    pub(super) steps: usize,
}

/// A span counts as running for so long after its end: profilers cut times at different places.
const SLACK: Ns = Ns(1);

/// Sweeps over all threads at once, in the order of time; each span is put on its thread's stack once and taken off once.
/// The spans stand in the order of their starts, of equal starts the longer first.
pub(super) fn sweep(spans: &Spans, threads: usize, probes: &[Probe]) -> Swept {
    let mut swept = Swept::default();
    swept.enclosing.resize(spans.len(), NONE);
    swept.innermost.resize(probes.len(), NONE);
    let mut stacks: Vec<Vec<(u32, Ns)>> = vec![Vec::new(); threads];
    let probes_in_time = in_time(probes);
    let mut next_probes = probes_in_time.iter().copied().peekable();
    for (at, span) in (0..).zip(spans.iter()) {
        let asks_earlier = |probe: &u32| probes.get(*probe as usize).is_some_and(|probe| probe.time < span.start);
        while let Some(probe) = next_probes.next_if(asks_earlier) {
            answer(&mut swept, &mut stacks, probes, probe);
        }
        let Some(stack) = stacks.get_mut(span.thread.0 as usize) else { continue };
        let taken_off = unwind(stack, |end| end <= span.start && end < span.end());
        if let (Some(slot), Some((top, _))) = (swept.enclosing.get_mut(at as usize), stack.last()) {
            *slot = *top;
        }
        stack.push((at, span.end()));
        count(&mut swept, taken_off + 1);
    }
    for probe in next_probes {
        answer(&mut swept, &mut stacks, probes, probe);
    }
    swept
}

fn answer(swept: &mut Swept, stacks: &mut [Vec<(u32, Ns)>], probes: &[Probe], at: u32) {
    let Some(probe) = probes.get(at as usize) else { return };
    let Some(stack) = stacks.get_mut(probe.thread.0 as usize) else { return };
    let taken_off = unwind(stack, |end| end + SLACK < probe.time);
    if let (Some(slot), Some((top, _))) = (swept.innermost.get_mut(at as usize), stack.last()) {
        *slot = *top;
    }
    count(swept, taken_off);
}

/// Takes off what has ended, and tells how many.
fn unwind(stack: &mut Vec<(u32, Ns)>, has_ended: impl Fn(Ns) -> bool) -> usize {
    let before = stack.len();
    while stack.last().is_some_and(|(_, end)| has_ended(*end)) {
        stack.pop();
    }
    before - stack.len()
}

#[cfg(test)]
fn count(swept: &mut Swept, steps: usize) {
    swept.steps += steps;
}

#[cfg(not(test))]
fn count(_: &mut Swept, _: usize) {}

/// The places of the probes in the order of time.
fn in_time(probes: &[Probe]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..u32::try_from(probes.len()).unwrap_or(u32::MAX)).collect();
    order.sort_by_key(|&at| probes.get(at as usize).map(|probe| probe.time));
    order
}

/// The CPU ops of each external id of each process: ids of two merged ranks collide.
pub(super) struct OpsOfIds<'a> {
    ops: &'a Spans,
    threads: &'a [Thread],
    /// Ids and the places of their ops, by id, then by process, then by start.
    by_id: Vec<(u32, u32)>,
}

/// So many ops before and after a time are looked at where several share an id.
const BEFORE: usize = 4;
const AFTER: usize = 2;

impl<'a> OpsOfIds<'a> {
    pub(super) fn new(ops: &'a Spans, ids: &'a [u32], threads: &'a [Thread]) -> Self {
        let mut found = Self { ops, threads, by_id: Vec::new() };
        let known = ids.iter().zip(0..).take(ops.len()).filter(|(id, _)| **id != NONE);
        let mut by_id: Vec<(u32, u32)> = known.map(|(id, at)| (*id, at)).collect();
        by_id.sort_unstable_by(|a, b| {
            let process = |at: u32| found.process(at);
            a.0.cmp(&b.0).then_with(|| process(a.1).cmp(&process(b.1))).then(a.1.cmp(&b.1))
        });
        found.by_id = by_id;
        found
    }

    fn process(&self, at: u32) -> u32 {
        let thread = self.ops.get(at as usize).and_then(|op| self.threads.get(op.thread.0 as usize));
        thread.map_or(NONE, |thread| thread.process.0)
    }

    /// The op of this id for work of its process that began at this time on the GPU: of those that had begun the one
    /// whose end is nearest, else the one that begins soonest.
    pub(super) fn find(&self, process: ProcessId, id: u32, time: Ns) -> u32 {
        let from = self.by_id.partition_point(|(known, _)| *known < id);
        let of_id = self.by_id.get(from..).unwrap_or_default();
        let of_id = of_id.get(..of_id.partition_point(|(known, _)| *known == id)).unwrap_or_default();
        let of_id = of_id.get(of_id.partition_point(|(_, at)| self.process(*at) < process.0)..).unwrap_or_default();
        let of_id = of_id.get(..of_id.partition_point(|(_, at)| self.process(*at) == process.0)).unwrap_or_default();
        let span = |(_, at): &(u32, u32)| self.ops.get(*at as usize);
        let begun = of_id.partition_point(|at| span(at).is_some_and(|op| op.start <= time + SLACK));
        let ended = |op: Span| Ns(op.end().since(time).0.saturating_abs());
        let near = |from: usize, to: usize| of_id.get(from..to.min(of_id.len())).unwrap_or_default();
        let before = near(begun.saturating_sub(BEFORE), begun).iter().min_by_key(|at| span(at).map(ended));
        let after = || near(begun, begun + AFTER).iter().min_by_key(|at| span(at).map(|op| op.start));
        before.or_else(after).map_or(NONE, |(_, at)| *at)
    }
}
