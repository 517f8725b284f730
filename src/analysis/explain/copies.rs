//! Memory copies: the longest ones, and how much each direction moves.

use super::intervals::Longest;
use super::{Context, NameKind, labels};
use crate::analysis::section::{Section, Value};
use crate::trace::{GpuOp, NameId, Ns, OpKind};

const TITLE: &str = "Copy engine";
const COLUMNS: [&str; 12] = [
    "event_name",
    "direction",
    "event_class",
    "lane",
    "stream_id",
    "device_id",
    "bytes",
    "start_ns",
    "end_ns",
    "duration_ns",
    "duration_ms",
    "gb_per_s",
];
const SHOWN: usize = 100;
/// Ends of a copy: as Nsight spells them, as torch does in `Memcpy HtoD`, and in a table.
const ENDS: [(&str, char, char); 4] =
    [("host", 'h', 'H'), ("device", 'd', 'D'), ("peer", 'p', 'P'), ("array", 'a', 'A')];

/// The longest copies, and totals by direction.
pub(super) fn copy_engine_events(context: &Context) -> Section {
    let trace = context.trace;
    let kind = |at: u32| context.name_kind(NameId(at));
    let named = (0..).zip(trace.names.iter());
    let directions: Vec<String> =
        named.map(|(at, name)| if *kind(at) == NameKind::Copy { direction(name) } else { String::new() }).collect();
    let direction = |op: &GpuOp| directions.get(op.name.0 as usize).map_or(UNKNOWN, String::as_str);
    let mut longest = Longest::new(SHOWN);
    let mut totals: Vec<(&str, Total)> = Vec::new();
    let mut bytes = trace.bytes.iter().peekable();
    for (at, op) in trace.gpu_ops.iter().enumerate().filter(|(_, op)| op.kind == OpKind::Copy) {
        while bytes.next_if(|entry| (entry.0 as usize) < at).is_some() {}
        let moved = bytes.next_if(|entry| entry.0 as usize == at).map(|entry| entry.1);
        longest.offer(op.duration, op.start, 0, at);
        let direction = direction(&op);
        if !totals.iter().any(|(known, _)| *known == direction) {
            totals.push((direction, Total::default()));
        }
        let total = totals.iter_mut().find(|(known, _)| *known == direction);
        total.into_iter().for_each(|(_, total)| total.add(op.duration, moved));
    }
    if longest.seen == 0 {
        return Section::missing(TITLE, &COLUMNS, "The trace holds no memory copies.", "");
    }
    let mut section = Section::new(TITLE, "memory copies on the GPU", &COLUMNS)
        .limit("Rates are bytes over the time of the copy; copies of one direction that overlap share a link.");
    let seen = longest.seen;
    for long in longest.ranked() {
        let Some(op) = trace.gpu_ops.get(long.at()) else { continue };
        let at = trace.bytes.binary_search_by_key(&long.at(), |entry| entry.0 as usize);
        let moved = at.ok().and_then(|at| trace.bytes.get(at)).map(|entry| entry.1);
        section.row([
            trace.names.get(op.name).into(),
            direction(&op).into(),
            "memcpy".into(),
            labels::lane(trace, "Copy", &op).into(),
            labels::stream(&op),
            labels::device(trace, op.device),
            moved.into(),
            op.start.into(),
            op.end().into(),
            op.duration.into(),
            Value::ms(op.duration),
            moved.map_or(Value::Null, |moved| gb_per_s(moved, op.duration)),
        ]);
    }
    section.rows_in_all = seen;
    totals.sort_unstable_by_key(|(direction, _)| *direction);
    let unknown = totals.iter().map(|(_, total)| total.count - total.count_with_bytes).sum::<u64>();
    if unknown > 0 {
        section.limits.push(format!("{unknown} of {seen} copies do not tell how many bytes they moved."));
    }
    totals.iter().for_each(|(direction, total)| total.figures(direction, &mut section));
    section
}

/// What the copies of one direction did.
#[derive(Debug, Clone, Copy, Default)]
struct Total {
    count: u64,
    time: Ns,
    count_with_bytes: u64,
    bytes: u64,
    time_with_bytes: Ns,
}

impl Total {
    fn add(&mut self, duration: Ns, bytes: Option<u64>) {
        self.count += 1;
        self.time += duration;
        if let Some(bytes) = bytes {
            self.count_with_bytes += 1;
            self.bytes = self.bytes.saturating_add(bytes);
            self.time_with_bytes += duration;
        }
    }

    fn figures(&self, direction: &str, section: &mut Section) {
        let direction = direction.to_ascii_lowercase();
        section.figure(&format!("{direction}_count"), self.count);
        section.figure(&format!("{direction}_total_time_ms"), Value::ms(self.time));
        if self.count_with_bytes > 0 {
            section.figure(&format!("{direction}_bytes"), self.bytes);
            section.figure(&format!("{direction}_gb_per_s"), gb_per_s(self.bytes, self.time_with_bytes));
        }
    }
}

/// Bytes a nanosecond are GB/s; `Null` where no time passed.
fn gb_per_s(bytes: u64, time: Ns) -> Value {
    Value::from(bytes as f64 / time.0 as f64)
}

const UNKNOWN: &str = "unknown";

/// `H2D` of `[CUDA memcpy Host-to-Device]`, `Memcpy HtoD (Pageable -> Device)` or `CopyHostToDevice`.
fn direction(name: &str) -> String {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    for (from, from_letter, from_short) in ENDS {
        for (to, to_letter, to_short) in ENDS {
            let (long, short) = (format!("{from}to{to}"), format!("memcpy{from_letter}to{to_letter}"));
            if plain.contains(&long) || plain.contains(&short) {
                return format!("{from_short}2{to_short}");
            }
        }
    }
    UNKNOWN.to_owned()
}
