//! When something runs on any device, spell by spell: of a window of millions of ops it is known of most of it.
//!
//! A spell is a length of time, wherever ops begin and end: what reaches into it from before is told by how far it reaches.

use crate::analysis::index::{Inside, known};
use crate::trace::{Ns, Trace, Window};

/// A moment, and what was before it.
#[derive(Debug, Clone, Copy)]
struct Moment {
    time: Ns,
    /// The ops from this place on begin in it or later.
    first: usize,
    /// How far the ops before that place reach.
    reach: Ns,
}

/// What is known of the time from one moment to another.
#[derive(Debug)]
pub(crate) struct Spell {
    from: Moment,
    to: Moment,
    /// Time in which something runs.
    pub(crate) working: Ns,
    /// That part of it in which a thread is blocked.
    pub(crate) while_blocked: Ns,
}

impl Spell {
    /// All of a trace, from one of these places to the next; `blocked` are the times in which a thread is.
    pub(crate) fn all(trace: &Trace, places: &[usize], blocked: &[(Ns, Ns)]) -> Vec<Self> {
        let mut reach = Ns(i64::MIN);
        let mut moments: Vec<Moment> = Vec::with_capacity(places.len());
        let mut places = places.iter().copied().peekable();
        for (at, (start, duration)) in trace.gpu_ops.times_from(0).enumerate() {
            while places.next_if_eq(&at).is_some() {
                moments.push(Moment { time: start, first: at, reach });
            }
            reach = reach.max(start.after(duration));
        }
        moments.push(Moment { time: reach, first: trace.gpu_ops.len(), reach });
        let mut seen = WhileBlocked::of(blocked);
        let ends = moments.iter().zip(moments.iter().skip(1));
        ends.map(|(from, to)| {
            let (mut working, before) = (Ns::ZERO, seen.sum);
            each_time(trace, *from, to.time, &mut |from, to| {
                working += to.since(from);
                seen.see(from, to);
            });
            Self { from: *from, to: *to, working, while_blocked: seen.sum.since(before) }
        })
        .collect()
    }
}

/// The spells of a trace that lie in a window of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spells<'a> {
    spells: &'a [Spell],
    window: Window,
    /// Places in the window's part are so much higher; it wraps.
    shift: usize,
}

impl<'a> Spells<'a> {
    pub(crate) fn inside(all: &'a [Spell], window: Window, shift: usize) -> Self {
        let from = all.partition_point(|spell| spell.from.time < window.start);
        let to = all.partition_point(|spell| spell.to.time <= window.end);
        Self { spells: all.get(from..to).unwrap_or_default(), window, shift }
    }

    fn each(self, part: &Trace, known: &mut dyn FnMut(&Spell), visit: &mut dyn FnMut(Ns, Ns)) {
        let Self { spells, window, shift } = self;
        let to = spells.first().map_or(window.end, |first| first.from.time);
        each_time(part, BEGINNING, to, visit);
        spells.iter().for_each(known);
        let Some(behind) = spells.last().map(|last| last.to) else { return };
        each_time(part, Moment { first: behind.first.wrapping_add(shift), ..behind }, window.end, visit);
    }
}

const BEGINNING: Moment = Moment { time: Ns(i64::MIN), first: 0, reach: Ns(i64::MIN) };

/// Visits the times from one moment to another in which something runs, in order, none of them twice.
fn each_time(trace: &Trace, Moment { time, first, mut reach }: Moment, to: Ns, visit: &mut dyn FnMut(Ns, Ns)) {
    if reach.min(to) > time {
        visit(time, reach.min(to));
    }
    for (start, duration) in trace.gpu_ops.times_from(first).take_while(|(start, _)| *start < to) {
        let (from, end) = (start.max(reach), start.after(duration));
        if end > reach {
            if from.min(to) < end.min(to) {
                visit(from, end.min(to));
            }
            reach = end;
        }
    }
}

/// Time in which something runs on any device.
pub(crate) fn working(trace: &Trace, inside: Option<&Inside>) -> Ns {
    let (mut of_spells, mut others) = (Ns::ZERO, Ns::ZERO);
    each_known(trace, inside, &mut |spell| of_spells += spell.working, &mut |from, to| others += to.since(from));
    of_spells + others
}

/// Visits the spells of which it is known, and the times in the rest of the trace in which something runs, in order.
pub(crate) fn each_known(
    trace: &Trace,
    inside: Option<&Inside>,
    spell: &mut dyn FnMut(&Spell),
    visit: &mut dyn FnMut(Ns, Ns),
) {
    match known(inside) {
        None => each_time(trace, BEGINNING, Ns(i64::MAX), visit),
        Some(inside) => inside.spells().each(trace, spell, visit),
    }
}

/// Time in which a thread is blocked and something runs, found on the way through time.
pub(crate) struct WhileBlocked<'a> {
    blocked: &'a [(Ns, Ns)],
    /// Those before this one are past.
    at: usize,
    pub(crate) sum: Ns,
}

impl<'a> WhileBlocked<'a> {
    pub(crate) fn of(blocked: &'a [(Ns, Ns)]) -> Self {
        Self { blocked, at: 0, sum: Ns::ZERO }
    }

    /// Something runs from here to there; times come in order and do not overlap.
    pub(crate) fn see(&mut self, from: Ns, to: Ns) {
        while let Some(&(start, end)) = self.blocked.get(self.at).filter(|window| window.0 < to) {
            self.sum += end.min(to).since(start.max(from)).max(Ns::ZERO);
            if end > to {
                break;
            }
            self.at += 1;
        }
    }
}
