//! What packets of one sequence refer to: interned texts, defaults, and clocks that count from packet to packet.

use super::number;
use super::vocabulary::{Category, Key};
use crate::input::id_table::IdTable;
use crate::input::protobuf::{Damaged, Message};
use crate::trace::{NameId, Names};
use foldhash::fast::RandomState;
use std::collections::HashMap;

type Read<T> = std::result::Result<T, Damaged>;

/// A time in the clock of the trace, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp(pub(super) i64);

/// The lists of interned texts that are read, by their field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Events,
    Strings,
    Stages,
    Kernels,
    Arguments,
}

impl List {
    const COUNT: usize = 5;

    fn of_field(field: u32) -> Option<Self> {
        match field {
            2 => Some(Self::Events),
            24 => Some(Self::Stages),
            29 => Some(Self::Strings),
            1000 => Some(Self::Kernels),
            1001 => Some(Self::Arguments),
            _ => None,
        }
    }
}

/// A clock whose times count from the packet before.
#[derive(Debug, Clone, Copy)]
struct RunningClock {
    now: i64,
    unit_ns: i64,
}

/// The state of a sequence.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// Whether all since the state was cleared is known: no packet was dropped.
    pub(super) is_valid: bool,
    clock: Option<u64>,
    pub(super) track: Option<u64>,
    running: HashMap<u64, RunningClock, RandomState>,
    /// The texts by id, of each list, in the texts of the reader.
    interned: [IdTable<NameId>; List::COUNT],
    pub(super) categories: IdTable<Category>,
    pub(super) keys: IdTable<Key>,
}

impl Sequence {
    /// A sequence whose state was cleared.
    pub(super) fn cleared() -> Self {
        Self { is_valid: true, ..Self::default() }
    }

    /// Takes the default clock and track of the sequence.
    pub(super) fn defaults(&mut self, defaults: Message<'_>) -> Read<()> {
        for field in defaults.fields() {
            match field? {
                (58, clock) => self.clock = Some(clock.number()),
                (11, event) => self.track = number(event.message(), 11)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes the clocks that count from packet to packet. All others count nanoseconds and are taken as they are.
    pub(super) fn snapshot(&mut self, snapshot: Message<'_>) -> Read<()> {
        for field in snapshot.fields() {
            let (1, clock) = field? else { continue };
            let clock = clock.message();
            let part = |field| number(clock, field);
            if part(3)?.unwrap_or(0) != 0 {
                let unit_ns = part(4)?.unwrap_or(1).cast_signed();
                let now = part(2)?.unwrap_or(0).cast_signed().wrapping_mul(unit_ns);
                self.running.insert(part(1)?.unwrap_or(0), RunningClock { now, unit_ns });
            }
        }
        Ok(())
    }

    pub(super) fn intern(&mut self, interned: Message<'_>, texts: &mut Names) -> Read<()> {
        for field in interned.fields() {
            /// The lists of names with a known meaning.
            const CATEGORIES: u32 = 1;
            const ANNOTATIONS: u32 = 3;
            let (field, entry) = field?;
            let list = List::of_field(field);
            if list.is_none() && ![CATEGORIES, ANNOTATIONS].contains(&field) {
                continue;
            }
            let (mut id, mut name, mut demangled) = (0, Message::default(), None);
            for field in entry.message().fields() {
                match field? {
                    (1, value) => id = value.number(),
                    (2, value) => name = value.message(),
                    (3, value) if list == Some(List::Kernels) => demangled = Some(value.message()),
                    _ => {}
                }
            }
            let text = demangled.unwrap_or(name);
            match list {
                Some(list) => {
                    let text = texts.intern(&text.text());
                    self.interned.get_mut(list as usize).into_iter().for_each(|texts| texts.insert(id, text));
                }
                None if field == CATEGORIES => self.categories.insert(id, Category::named(text.bytes)),
                None => self.keys.insert(id, Key::named(text.bytes)),
            }
        }
        Ok(())
    }

    pub(super) fn text(&self, list: List, id: u64) -> Option<NameId> {
        self.interned.get(list as usize)?.get(id).copied()
    }

    /// The time of a packet; a clock that counts from packet to packet moves on with each.
    pub(super) fn time(&mut self, timestamp: u64, clock: Option<u64>) -> Stamp {
        let stamp = timestamp.cast_signed();
        let clock = clock.or(self.clock);
        match clock.and_then(|clock| self.running.get_mut(&clock)) {
            Some(running) => {
                running.now = running.now.wrapping_add(stamp.wrapping_mul(running.unit_ns));
                Stamp(running.now)
            }
            None => Stamp(stamp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::protobuf::testing::Writer;

    fn message(writer: &Writer) -> Message<'_> {
        Message { bytes: &writer.0, at: 0 }
    }

    #[test]
    fn a_clock_that_counts_from_packet_to_packet_moves_on_and_others_do_not() {
        let mut sequence = Sequence::default();
        let clock = Writer::default().number(1, 64).number(2, 1_000).number(3, 1).number(4, 10);
        let snapshot = Writer::default().message(1, clock).message(1, Writer::default().number(1, 6).number(2, 7));
        sequence.snapshot(message(&snapshot)).unwrap();
        let defaults = Writer::default().number(58, 64).message(11, Writer::default().number(11, 99));
        sequence.defaults(message(&defaults)).unwrap();
        let times = [(5, None), (0, None), (777, Some(6)), (1, Some(64))];
        assert_eq!(times.map(|(timestamp, clock)| sequence.time(timestamp, clock).0), [10_050, 10_050, 777, 10_060]);
        assert_eq!(sequence.track, Some(99));
    }

    #[test]
    fn a_kernel_is_named_by_its_demangled_name() {
        let (mut sequence, mut texts) = (Sequence::default(), Names::default());
        let entry = |id, name: &str| Writer::default().number(1, id).bytes(2, name);
        let interned = Writer::default()
            .message(2, entry(1, "event"))
            .message(1000, entry(1, "_Zk").bytes(3, "k(int)"))
            .message(1000, entry(2, "plain"))
            .message(77, entry(1, "other"));
        sequence.intern(message(&interned), &mut texts).unwrap();
        let text = |list, id| sequence.text(list, id).map(|id| texts.get(id));
        assert_eq!((text(List::Events, 1), text(List::Kernels, 1)), (Some("event"), Some("k(int)")));
        assert_eq!((text(List::Kernels, 2), text(List::Stages, 1)), (Some("plain"), None));
    }
}
