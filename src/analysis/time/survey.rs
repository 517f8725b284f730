//! What one pass over the work of all devices tells several sections at once: how each device spent its time, when and why
//! it was idle, what ran beside communication, and the longest ops.

use crate::analysis::communication::collectives::Operations;
use crate::analysis::context::Context;
use crate::analysis::host::blocked;
use crate::analysis::host::idle::{Cause, GAPS_SHOWN};
use crate::analysis::index::{Part, parts};
use crate::analysis::time::intervals::{Activity, Busy, Class, Gap, Gaps, Hidden, Longest, Sweep, Work, each_work_in};
use crate::analysis::time::longest_events;
use crate::trace::{Names, Ns, Places};

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Survey {
    /// By device.
    pub(crate) activities: Vec<Activity>,
    /// By operation, as [`Operations::new`] numbers them; those behind the last have none.
    pub(crate) hidden: Vec<Hidden>,
    /// By device. Of a window both its ends count; without one a device begins with its first op and ends with its last.
    pub(crate) busy: Vec<Option<Busy>>,
    /// Idle time by device and [`Cause`].
    pub(crate) waits: Waits,
    /// Of the gaps, by [`Gap::next`].
    pub(crate) longest_gaps: Longest,
    /// Of kernels and copies, by their places.
    pub(crate) longest_ops: Longest,
    /// Time in which a thread was blocked and no device worked.
    pub(crate) idle_while_blocked: Ns,
}

impl Survey {
    pub(crate) fn of(context: &Context) -> Self {
        let parts = parts(context.trace, context.inside());
        let (operations, surveyed) = Surveyed::of(context, &mut parts.iter().filter_map(Part::edge));
        let row_of = |name| operations.find(name).map_or(usize::MAX, |row| row.0 as usize);
        let known = context.inside().map(|inside| inside.operations().iter().map(row_of).collect::<Vec<usize>>());
        let rows = known.unwrap_or_default();
        let row = |whole: usize| rows.get(whole).copied().unwrap_or(usize::MAX);
        let (mut sum, mut surveyed) = (Sum::new(context), surveyed.iter());
        for part in &parts {
            match part {
                Part::Piece(piece, inside, _) => sum.add(context, &piece.survey, &row, &|at| inside.place(at)),
                Part::Edge(_) => {
                    surveyed.next().into_iter().for_each(|edge| sum.add(context, edge, &|row| row, &|at| at));
                }
            }
        }
        sum.finish(context)
    }
}

/// What a pass over some of the work tells, of which on its device nothing reaches over an end.
#[derive(Debug)]
pub struct Surveyed {
    activities: Vec<Activity>,
    hidden: Vec<Hidden>,
    /// With [`Gap::next`] of a gap that would end where it begins.
    busy: Vec<Option<(Busy, usize)>>,
    /// Of gaps between its own work.
    waits: Waits,
    longest_gaps: Longest,
    longest_ops: Longest,
}

type Waits = Vec<[Ns; Cause::ALL.len()]>;

impl Surveyed {
    /// Of the work at each of these places. The names are those of operations.
    pub(crate) fn of(context: &Context, parts: &mut dyn Iterator<Item = &Places>) -> (Names, Vec<Self>) {
        let mut names = Names::default();
        let mut operations = Operations::new(context, &mut names);
        let one = |places| {
            let mut sweep = Sweep::new(context, names.len());
            let mut gaps = Gaps::new(context);
            let mut nexts = vec![0; context.trace.devices.len()];
            let mut idle = Idle::of(context);
            let mut longest_ops = Longest::new(longest_events::SHOWN);
            let mut see = |work: Work| {
                let row = if work.class == Class::Communication { operations.row(work.at) } else { 0 };
                sweep.see(&work, row);
                if let (Some(None), Some(next)) = (gaps.devices.get(work.device), nexts.get_mut(work.device)) {
                    *next = work.at;
                }
                gaps.see(&work).into_iter().for_each(|gap| idle.count(context, &gap));
                if !matches!(work.class, Class::Set | Class::Replay) {
                    longest_ops.offer(work.end.since(work.start), work.start, longest_events::OP, work.at);
                }
            };
            each_work_in(context, places, &mut see);
            let (activities, hidden) = sweep.finish();
            let busy = gaps.devices.into_iter().zip(nexts).map(|(busy, next)| Some((busy?, next))).collect();
            let Idle { waits, longest: longest_gaps } = idle;
            Self { activities, hidden, busy, waits, longest_gaps, longest_ops }
        };
        let found = parts.map(one).collect();
        (names, found)
    }
}

/// Gaps on the way through the work.
struct Idle {
    waits: Waits,
    longest: Longest,
}

impl Idle {
    fn of(context: &Context) -> Self {
        let waits = vec![[Ns::ZERO; Cause::ALL.len()]; context.trace.devices.len()];
        Self { waits, longest: Longest::new(GAPS_SHOWN) }
    }

    fn count(&mut self, context: &Context, gap: &Gap) {
        let length = gap.end.since(gap.start);
        for (cause, part) in Cause::parts(context, gap) {
            let wait = self.waits.get_mut(gap.device).and_then(|waits| waits.get_mut(cause as usize));
            wait.into_iter().for_each(|wait| *wait += part);
        }
        self.longest.offer(length, gap.start, longest_events::GAP, gap.next);
    }

    fn merge(&mut self, waits: &Waits, longest: &Longest, place: &dyn Fn(usize) -> usize) {
        for (sum, more) in self.waits.iter_mut().flatten().zip(waits.iter().flatten()) {
            *sum += *more;
        }
        self.longest.merge_from(longest, place);
    }
}

/// What was surveyed so far; what comes next begins on each device no earlier than all that is in it ended.
struct Sum {
    activities: Vec<Activity>,
    hidden: Vec<Hidden>,
    busy: Vec<Option<Busy>>,
    idle: Idle,
    longest_ops: Longest,
}

impl Sum {
    fn new(context: &Context) -> Self {
        let devices = context.trace.devices.len();
        // A window begins with a gap too.
        let first = context.trace.cut.map(|cut| cut.window.start).map(|start| Busy {
            first: start,
            last: start,
            busy: Ns::ZERO,
        });
        Self {
            activities: vec![Activity::default(); devices],
            hidden: Vec::new(),
            busy: vec![first; devices],
            idle: Idle::of(context),
            longest_ops: Longest::new(longest_events::SHOWN),
        }
    }

    /// `row` is that of an operation, `place` that of an op.
    fn add(
        &mut self,
        context: &Context,
        more: &Surveyed,
        row: &dyn Fn(usize) -> usize,
        place: &dyn Fn(usize) -> usize,
    ) {
        self.activities.iter_mut().zip(&more.activities).for_each(|(sum, more)| sum.add(more));
        for (at, more) in more.hidden.iter().enumerate().filter(|(_, hidden)| **hidden != Hidden::default()) {
            let row = row(at);
            if row >= self.hidden.len() && row != usize::MAX {
                self.hidden.resize(row + 1, Hidden::default());
            }
            self.hidden.get_mut(row).into_iter().for_each(|sum| sum.add(more));
        }
        for (device, (sum, more)) in self.busy.iter_mut().zip(&more.busy).enumerate() {
            let Some((more, next)) = more else { continue };
            let Some(sum) = sum else {
                *sum = Some(*more);
                continue;
            };
            if more.first > sum.last {
                self.idle.count(context, &Gap { device, start: sum.last, end: more.first, next: place(*next) });
            }
            *sum = Busy { first: sum.first, last: sum.last.max(more.last), busy: sum.busy + more.busy };
        }
        self.idle.merge(&more.waits, &more.longest_gaps, place);
        self.longest_ops.merge_from(&more.longest_ops, place);
    }

    /// A window's end ends a gap too: what comes behind it is not known.
    fn finish(mut self, context: &Context) -> Survey {
        let last = Gap::last_of_window(context);
        for (device, busy) in self.busy.iter_mut().enumerate() {
            let (Some(cut), Some(busy)) = (&context.trace.cut, busy) else { continue };
            let gap = Gap { device, start: busy.last, end: cut.window.end, next: last + device };
            busy.last = busy.last.max(gap.end);
            if gap.end > gap.start {
                self.idle.count(context, &gap);
            }
        }
        let Self { activities, hidden, busy, idle: Idle { waits, longest: longest_gaps }, longest_ops } = self;
        let idle_while_blocked = blocked::idle(context);
        Survey { activities, hidden, busy, waits, longest_gaps, longest_ops, idle_while_blocked }
    }
}
