//! Which machine a packet is of, in a file of several traces one after the other. O(1) a packet; a few bytes a machine.
//!
//! A trace says when its machine was started: the clock snapshots have the time of day and the time since the start. Two machines
//! were not started in one second. Of traces that do not say it, an id of its own tells a trace from the one before, or a track that
//! changes its process: within a trace, none does.

use super::number;
use crate::input::protobuf::{Damaged, Message};

/// What a packet says about its machine.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clues {
    /// When the machine was started.
    pub(super) start_ns: Option<i64>,
    /// The id of the trace.
    pub(super) trace: Option<(u64, u64)>,
    /// A track is described, or an event.
    pub(super) has_content: bool,
    /// A known track belongs to another process than before.
    pub(super) has_other_process: bool,
}

/// The machines so far.
#[derive(Debug)]
pub(super) struct Machines {
    /// When each was started.
    starts_ns: Vec<Option<i64>>,
    current: usize,
    trace: Option<(u64, u64)>,
    /// The content that follows is of another trace.
    is_other_trace: bool,
}

impl Default for Machines {
    fn default() -> Self {
        Self { starts_ns: vec![None], current: 0, trace: None, is_other_trace: false }
    }
}

/// The clock of a machine is set by less while it is recorded.
const MAX_CLOCK_CHANGE_NS: u64 = 1_000_000_000;
/// More machines count as the last one.
const MAX_MACHINES: usize = 4_096;

impl Machines {
    pub(super) fn count(&self) -> usize {
        self.starts_ns.len()
    }

    /// The place of the machine whose packets are read.
    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// The place of the machine that begins with this packet, for [`Self::begin`]; `None` if the packet is of the one before.
    pub(super) fn next(&mut self, clues: Clues) -> Option<usize> {
        if let Some(trace) = clues.trace {
            self.is_other_trace |= self.trace.replace(trace).is_some_and(|before| before != trace);
        }
        let own_start = self.starts_ns.get(self.current).copied().flatten();
        let is_same =
            |start: i64, other: &Option<i64>| other.is_some_and(|other| other.abs_diff(start) < MAX_CLOCK_CHANGE_NS);
        let place = match clues.start_ns {
            Some(start) => match self.starts_ns.iter().position(|known| is_same(start, known)) {
                Some(known) => known,
                None if own_start.is_none() && !self.is_other_trace => {
                    self.starts_ns.get_mut(self.current).into_iter().for_each(|own| *own = Some(start));
                    self.current
                }
                None => self.add(Some(start)),
            },
            None if !clues.has_content => return None,
            None if self.is_other_trace || clues.has_other_process && own_start.is_none() => self.add(None),
            None => return None,
        };
        self.is_other_trace = false;
        (place != self.current).then_some(place)
    }

    pub(super) fn begin(&mut self, place: usize) {
        self.current = place;
    }

    fn add(&mut self, start_ns: Option<i64>) -> usize {
        if self.starts_ns.len() < MAX_MACHINES {
            self.starts_ns.push(start_ns);
        }
        self.starts_ns.len() - 1
    }
}

/// When the machine of a clock snapshot was started; `None` if its writer has one clock only.
pub(super) fn start_ns(snapshot: Message<'_>) -> Result<Option<i64>, Damaged> {
    const TIME_OF_DAY: u64 = 1;
    const SINCE_START: u64 = 6;
    let (mut day, mut since) = (None, None);
    for field in snapshot.fields() {
        let (1, clock) = field? else { continue };
        let clock = clock.message();
        let time = number(clock, 2)?.map(u64::cast_signed);
        match number(clock, 1)? {
            Some(TIME_OF_DAY) => day = time,
            Some(SINCE_START) => since = time,
            _ => {}
        }
    }
    Ok(day.zip(since).and_then(|(day, since)| day.checked_sub(since)).filter(|start| *start != 0))
}

/// The id of a trace.
pub(super) fn trace_id(id: Message<'_>) -> Result<(u64, u64), Damaged> {
    Ok((number(id, 1)?.unwrap_or(0), number(id, 2)?.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_told_by_their_start_and_otherwise_by_the_trace_or_the_process() {
        let start = |start_ns| Clues { start_ns: Some(start_ns), ..Clues::default() };
        let content = Clues { has_content: true, ..Clues::default() };
        let trace = |id| Clues { trace: Some((id, 0)), ..Clues::default() };
        let mut machines = Machines::default();
        let mut next = |clues| {
            let place = machines.next(clues)?;
            machines.begin(place);
            Some(place)
        };
        assert_eq!([trace(1), start(50_000_000_000), content, start(50_000_900_000)].map(&mut next), [None; 4]);
        // Another trace of the same machine, one of another, one of the first again.
        assert_eq!([trace(2), start(50_000_000_000), content].map(&mut next), [None; 3]);
        assert_eq!([trace(3), start(90_000_000_000), content].map(&mut next), [None, Some(1), None]);
        assert_eq!([start(50_000_000_000), content].map(&mut next), [Some(0), None]);
        // Traces that do not say when their machine was started.
        assert_eq!([trace(4), content, content].map(&mut next), [None, Some(2), None]);
        assert_eq!(next(Clues { has_other_process: true, ..content }), Some(3));
    }
}
