//! The longest memory copies, and the count, time and bytes of each direction: one pass over the ops.

use crate::analysis::context::Context;
use crate::analysis::labels;
use crate::analysis::measure::longest::{EventKind, Longest};
use crate::analysis::measure::union::added_to_union;
use crate::analysis::section::{Section, Value};
use crate::digits::grouped;
use crate::ordering;
use crate::trace::{GpuOp, Ns, OpKind};

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
const MAX_ROWS: usize = 100;
/// The endpoints of a copy: in lower case as in Nsight names, the letter in torch names (`Memcpy HtoD`), and the
/// letter in tables.
const ENDPOINTS: [(&str, char, char); 4] =
    [("host", 'h', 'H'), ("device", 'd', 'D'), ("peer", 'p', 'P'), ("array", 'a', 'A')];

/// Lists the longest copies, with totals by direction as figures.
pub(crate) fn copy_engine_events(context: &Context) -> Section {
    let trace = context.trace;
    let is_copy = |op: &GpuOp| op.kind == OpKind::Copy;
    let mut is_copy_name = vec![false; trace.names.len()];
    for group in context.groups().iter().filter(|group| group.kind == OpKind::Copy) {
        is_copy_name.get_mut(group.name.0 as usize).into_iter().for_each(|is_copy_name| *is_copy_name = true);
    }
    let names = trace.names.iter().zip(is_copy_name);
    let direction_by_name: Vec<String> =
        names.map(|(name, is_copy_name)| if is_copy_name { direction(name) } else { String::new() }).collect();
    let direction = |op: &GpuOp| direction_by_name.get(op.name.0 as usize).map_or(UNKNOWN, String::as_str);
    let mut longest = Longest::new(MAX_ROWS);
    let mut totals: Vec<(&str, DirectionTotals)> = Vec::new();
    let mut bytes = trace.bytes.iter().peekable();
    for (row, op) in trace.gpu_ops.iter().enumerate().filter(|(_, op)| is_copy(op)) {
        while bytes.next_if(|entry| (entry.0 as usize) < row).is_some() {}
        let moved = bytes.next_if(|entry| entry.0 as usize == row).map(|entry| entry.1);
        longest.offer(op.duration, op.start, EventKind::Op, row);
        let direction = direction(&op);
        if !totals.iter().any(|(existing, _)| *existing == direction) {
            totals.push((direction, DirectionTotals::new(trace.devices.len())));
        }
        let total = totals.iter_mut().find(|(existing, _)| *existing == direction);
        total.into_iter().for_each(|(_, total)| total.add(&op, moved));
    }
    if longest.offered == 0 {
        return Section::missing(TITLE, &COLUMNS, "The trace contains no memory copies.", "");
    }
    let mut section = Section::new(TITLE, "memory copies on the GPU", &COLUMNS)
        .limit("A rate is bytes divided by the duration of the copy. Overlapping copies in one direction share a link.")
        .from_first_op(trace);
    let copies = longest.offered;
    for event in longest.ranked() {
        let Some(op) = trace.gpu_ops.get(event.row()) else { continue };
        let entry = trace.bytes.binary_search_by_key(&event.row(), |entry| entry.0 as usize);
        let moved = entry.ok().and_then(|index| trace.bytes.get(index)).map(|entry| entry.1);
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
    section.rows_in_all = copies;
    ordering::sort_by_key(&mut totals, |(direction, _)| *direction);
    let without_bytes = totals.iter().map(|(_, total)| total.count - total.count_with_bytes).sum::<u64>();
    if without_bytes > 0 {
        section.limits.push(format!(
            "{} of {} copies do not record how many bytes they moved.",
            grouped(without_bytes),
            grouped(copies)
        ));
    }
    totals.iter().for_each(|(direction, total)| total.add_figures(direction, &mut section));
    section
}

#[derive(Debug, Clone, Default)]
struct DirectionTotals {
    count: u64,
    time: Ns,
    /// Time in which at least one copy runs, summed over devices.
    busy: Ns,
    /// The latest end so far on each device.
    reach: Vec<Option<Ns>>,
    count_with_bytes: u64,
    bytes: u64,
    time_with_bytes: Ns,
}

impl DirectionTotals {
    fn new(devices: usize) -> Self {
        Self { reach: vec![None; devices], ..Self::default() }
    }

    /// Adds a copy. Copies must arrive sorted by start.
    fn add(&mut self, copy: &GpuOp, bytes: Option<u64>) {
        self.count += 1;
        self.time += copy.duration;
        let reach = self.reach.get_mut(copy.device.0 as usize);
        self.busy += reach.map_or(Ns::ZERO, |reach| added_to_union(reach, copy.start, copy.end()));
        if let Some(bytes) = bytes {
            self.count_with_bytes += 1;
            self.bytes = self.bytes.saturating_add(bytes);
            self.time_with_bytes += copy.duration;
        }
    }

    fn add_figures(&self, direction: &str, section: &mut Section) {
        let direction = direction.to_ascii_lowercase();
        section.figure(&format!("{direction}_count"), self.count);
        section.figure(&format!("{direction}_total_time_ms"), Value::ms(self.time));
        section.figure(&format!("{direction}_busy_ms"), Value::ms(self.busy));
        if self.count_with_bytes > 0 {
            section.figure(&format!("{direction}_bytes"), self.bytes);
            section.figure(&format!("{direction}_gb_per_s"), gb_per_s(self.bytes, self.time_with_bytes));
        }
    }
}

/// Bytes per nanosecond equal GB/s. Empty if the time is zero.
fn gb_per_s(bytes: u64, time: Ns) -> Value {
    Value::from(bytes as f64 / time.0 as f64)
}

const UNKNOWN: &str = "unknown";

/// Parses the direction: `H2D` for `[CUDA memcpy Host-to-Device]`, `Memcpy HtoD (Pageable -> Device)` or
/// `CopyHostToDevice`.
fn direction(name: &str) -> String {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    for (from, from_letter, from_short) in ENDPOINTS {
        for (to, to_letter, to_short) in ENDPOINTS {
            let (long, short) = (format!("{from}to{to}"), format!("memcpy{from_letter}to{to_letter}"));
            if plain.contains(&long) || plain.contains(&short) {
                return format!("{from_short}2{to_short}");
            }
        }
    }
    UNKNOWN.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::*;
    use crate::trace::testing::TestTrace;

    #[test]
    fn directions_are_parsed_from_the_names_of_all_profilers() {
        for (name, expected) in [
            ("[CUDA memcpy Host-to-Device]", "H2D"),
            ("[CUDA memcpy Device-to-Host]", "D2H"),
            ("[CUDA memcpy Device-to-Host] (Device -> Pageable)", "D2H"),
            ("[CUDA memcpy Peer-to-Peer]", "P2P"),
            ("[CUDA memcpy Array-to-Device]", "A2D"),
            ("[CUDA memcpy HtoD]", "H2D"),
            ("Memcpy HtoD (Pageable -> Device)", "H2D"),
            ("Memcpy DtoH (Device -> Pinned)", "D2H"),
            ("Memcpy DtoD (Device -> Device)", "D2D"),
            ("CopyDeviceToHost", "D2H"),
            ("Memcpy", "unknown"),
        ] {
            assert_eq!(direction(name), expected, "{name}");
        }
    }

    #[test]
    fn totals_include_all_copies_and_rows_the_longest_ones() {
        const TO_HOST: &str = "Memcpy DtoH (Device -> Pinned)";
        let mut trace = TestTrace::nsys();
        for index in 0..120 {
            let start = 1_000 * index;
            trace.kernel("Memcpy HtoD (Pageable -> Device)", start..start + 100 + index).bytes(200);
        }
        // The second copy overlaps the first one, the third runs on another device.
        trace.kernel("gemm", 0..90_000).kernel(TO_HOST, 500..600).kernel(TO_HOST, 550..650);
        let section = trace.device(1).kernel(TO_HOST, 500..600).section(copy_engine_events);
        assert_eq!((section.rows.len(), section.rows_in_all), (MAX_ROWS, 123));
        let longest = &section.rows[0];
        assert_eq!((number(longest, "duration_ns"), number(longest, "bytes")), (219.0, 200.0));
        assert!((number(longest, "gb_per_s") - 200.0 / 219.0).abs() < 1e-12);
        assert_eq!((words(longest, "direction"), words(longest, "lane")), ("H2D", "Copy 0 stream 7"));
        let figure = |name| number(&section.summary, name);
        assert_eq!((figure("h2d_count"), figure("h2d_bytes"), figure("d2h_count")), (120.0, 24_000.0, 3.0));
        assert_eq!(figure("h2d_total_time_ms"), (120.0 * 100.0 + 119.0 * 120.0 / 2.0) / 1e6);
        assert_eq!((figure("d2h_total_time_ms"), figure("d2h_busy_ms")), (0.0003, 0.00025));
        assert_eq!(section.summary.get("d2h_bytes"), None, "the bytes are unknown");
        assert!(section.limits.iter().any(|limit| limit.starts_with("3 of 123 copies")), "{:?}", section.limits);
    }
}
