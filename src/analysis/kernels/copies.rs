//! The longest memory copies, and the count, time and bytes of each direction: one pass over the ops.

use crate::analysis::context::Context;
use crate::analysis::labels;
use crate::analysis::measure::longest::{Event, EventKind, Longest};
use crate::analysis::measure::union::added_to_union;
use crate::analysis::section::{
    Answer, At, ColumnKind, ColumnSpec, FIRST_OP, Field, Fields, KernelName, Ms, Record, SectionSpec, Stated,
    TypedSection, Value, fields, first_op,
};
use crate::trace::{GpuOp, Ns, OpKind};
use crate::words::kernels as words;
use std::collections::BTreeMap;

/// The longest memory copies, with totals by direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CopyEngine;

fields! {
    /// A copy.
    pub(crate) struct CopyRow {
        event_name: KernelName = "Event",
        direction: String,
        event_class: String = "Class",
        lane: String,
        stream_id: Value = "Stream",
        device_id: Value = "Device",
        bytes: Option<u64>,
        start_ns: At,
        end_ns: At,
        duration_ns: Ns,
        duration_ms: Ms,
        gb_per_s: Option<f64>,
    }
}

fields! {
    /// The totals of one direction. In the section, `h2d_` and the like stand before each key.
    pub(crate) struct DirectionFigures {
        count: u64,
        total_time_ms: Ms = "Total",
        busy_ms: Ms,
        bytes: Stated<u64>,
        gb_per_s: Stated<Option<f64>>,
    }
}

/// The figures of [`CopyEngine`].
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct CopyFigures {
    pub(crate) first_op_ns: Stated<At>,
    /// By direction in lower case, such as `h2d`.
    pub(crate) directions: BTreeMap<String, DirectionFigures>,
}

impl Fields for CopyFigures {
    const COLUMNS: &'static [ColumnSpec] = &[ColumnSpec { key: FIRST_OP, title: "", kind: ColumnKind::Timestamp }];

    fn write(self, record: &mut Record) {
        self.first_op_ns.write(FIRST_OP, record);
        for (direction, figures) in self.directions {
            let mut own = Record::default();
            figures.write(&mut own);
            record.0.extend(own.0.into_iter().map(|(key, value)| (format!("{direction}_{key}").into(), value)));
        }
    }

    fn read(record: &Record) -> Self {
        let mut by_direction: BTreeMap<String, Record> = BTreeMap::new();
        for (key, value) in record.0.iter().filter(|(key, _)| key != FIRST_OP) {
            if let Some((direction, key)) = key.split_once('_') {
                by_direction.entry(direction.to_owned()).or_default().0.push((key.to_owned().into(), value.clone()));
            }
        }
        Self {
            first_op_ns: Field::read(FIRST_OP, record),
            directions: by_direction.into_iter().map(|(direction, own)| (direction, Fields::read(&own))).collect(),
        }
    }
}

impl TypedSection for CopyEngine {
    const SPEC: SectionSpec = SectionSpec {
        name: "copy_engine_events",
        title: "Copy engine",
        columns: CopyRow::COLUMNS,
        figures: CopyFigures::COLUMNS,
    };
    type Row = CopyRow;
    type Figures = CopyFigures;
}

const MAX_ROWS: usize = 100;
/// The endpoints of a copy: in lower case as in Nsight names, the letter in torch names (`Memcpy HtoD`), and the
/// letter in tables.
const ENDPOINTS: [(&str, char, char); 4] =
    [("host", 'h', 'H'), ("device", 'd', 'D'), ("peer", 'p', 'P'), ("array", 'a', 'A')];

/// Lists the longest copies, with totals by direction as figures.
pub(crate) fn copy_engine_events(context: &Context) -> Answer<CopyEngine> {
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
        return CopyEngine::missing("The trace contains no memory copies.", "");
    }
    let copies = longest.offered;
    let row = |event: Event| {
        let op = trace.gpu_ops.get(event.row())?;
        let entry = trace.bytes.binary_search_by_key(&event.row(), |entry| entry.0 as usize);
        let moved = entry.ok().and_then(|index| trace.bytes.get(index)).map(|entry| entry.1);
        Some(CopyRow {
            event_name: trace.names.get(op.name).into(),
            direction: direction(&op).to_owned(),
            event_class: "memcpy".to_owned(),
            lane: labels::lane(trace, "Copy", &op),
            stream_id: labels::stream(&op),
            device_id: labels::device(trace, op.device),
            bytes: moved,
            start_ns: At(op.start),
            end_ns: At(op.end()),
            duration_ns: op.duration,
            duration_ms: op.duration.into(),
            gb_per_s: moved.map(|moved| gb_per_s(moved, op.duration)),
        })
    };
    let mut answer = CopyEngine::answer("memory copies on the GPU")
        .limit("A rate is bytes divided by the duration of the copy. Overlapping copies in one direction share a link.")
        .with_rows(longest.ranked().filter_map(row))
        .with_figures(CopyFigures {
            first_op_ns: first_op(trace),
            directions: totals.iter().map(|(name, total)| (name.to_ascii_lowercase(), total.figures())).collect(),
        });
    answer.rows_in_all = copies;
    let without_bytes = totals.iter().map(|(_, total)| total.count - total.count_with_bytes).sum::<u64>();
    if without_bytes > 0 {
        answer = answer.limit(words::copies_without_bytes(without_bytes, copies));
    }
    answer
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

    fn figures(&self) -> DirectionFigures {
        let has_bytes = self.count_with_bytes > 0;
        DirectionFigures {
            count: self.count,
            total_time_ms: self.time.into(),
            busy_ms: self.busy.into(),
            bytes: Stated(has_bytes.then_some(self.bytes)),
            gb_per_s: Stated(has_bytes.then(|| Some(gb_per_s(self.bytes, self.time_with_bytes)))),
        }
    }
}

/// Bytes per nanosecond equal GB/s. Infinite, which is null in JSON, if the time is zero.
fn gb_per_s(bytes: u64, time: Ns) -> f64 {
    bytes as f64 / time.0 as f64
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
