//! What one pass over the work of all devices tells several sections at once: how each device spent its time, when and why
//! it was idle, what ran beside communication, and the longest ops.

use super::blocked::Blocked;
use super::collectives::Operations;
use super::idle::{Cause, GAPS_SHOWN};
use super::intervals::{Activity, Busy, Class, Gap, Gaps, Hidden, Longest, Sweep, each_work};
use super::{Context, timeline};
use crate::trace::{Names, Ns};

/// See the module's head.
#[derive(Debug)]
pub(super) struct Survey {
    /// By device.
    pub(super) activities: Vec<Activity>,
    /// By operation, as [`Operations::new`] numbers them.
    pub(super) hidden: Vec<Hidden>,
    /// By device. Of a window both its ends count; without one a device begins with its first op and ends with its last.
    pub(super) busy: Vec<Option<Busy>>,
    /// Idle time by device and [`Cause`].
    pub(super) waits: Vec<[Ns; Cause::ALL.len()]>,
    /// Of the gaps, by [`Gap::next`].
    pub(super) longest_gaps: Longest,
    /// Of kernels and copies, by their places.
    pub(super) longest_ops: Longest,
    /// Time in which a thread was blocked and no device worked.
    pub(super) idle_while_blocked: Ns,
}

impl Survey {
    pub(super) fn of(context: &Context) -> Self {
        let mut names = Names::default();
        let mut operations = Operations::new(context, &mut names);
        let mut sweep = Sweep::new(context, names.len());
        let mut idle = Idle::of(context);
        let mut blocked = Blocked::of(context);
        let mut longest_ops = Longest::new(timeline::SHOWN);
        each_work(context, &mut |work| {
            let row = if work.class == Class::Communication { operations.row(work.at) } else { 0 };
            sweep.see(&work, row);
            idle.gaps.see(&work).into_iter().for_each(|gap| idle.count(context, &gap));
            blocked.see(&work);
            if !matches!(work.class, Class::Set | Class::Replay) {
                longest_ops.offer(work.end.since(work.start), work.start, timeline::OP, work.at);
            }
        });
        idle.end(context);
        let (activities, hidden) = sweep.finish();
        let Idle { gaps: Gaps { devices: busy }, waits, longest: longest_gaps } = idle;
        Self { activities, hidden, busy, waits, longest_gaps, longest_ops, idle_while_blocked: blocked.idle() }
    }
}

/// Gaps on the way through the work.
struct Idle {
    gaps: Gaps,
    waits: Vec<[Ns; Cause::ALL.len()]>,
    longest: Longest,
}

impl Idle {
    fn of(context: &Context) -> Self {
        let mut gaps = Gaps::new(context);
        if let Some(cut) = &context.trace.cut {
            let start = cut.window.start;
            gaps.devices.fill(Some(Busy { first: start, last: start, busy: Ns::ZERO }));
        }
        let waits = vec![[Ns::ZERO; Cause::ALL.len()]; context.trace.devices.len()];
        Self { gaps, waits, longest: Longest::new(GAPS_SHOWN) }
    }

    fn count(&mut self, context: &Context, gap: &Gap) {
        let length = gap.end.since(gap.start);
        for (cause, part) in Cause::parts(context, gap) {
            let wait = self.waits.get_mut(gap.device).and_then(|waits| waits.get_mut(cause as usize));
            wait.into_iter().for_each(|wait| *wait += part);
        }
        self.longest.offer(length, gap.start, timeline::GAP, gap.next);
    }

    /// A window's end ends a gap too: what comes behind it is not known.
    fn end(&mut self, context: &Context) {
        let Some(cut) = &context.trace.cut else { return };
        let last = Gap::last_of_window(context);
        for device in 0..self.gaps.devices.len() {
            let Some(busy) = self.gaps.devices.get_mut(device).and_then(Option::as_mut) else { continue };
            let gap = Gap { device, start: busy.last, end: cut.window.end, next: last + device };
            busy.last = busy.last.max(gap.end);
            if gap.end > gap.start {
                self.count(context, &gap);
            }
        }
    }
}
