//! Reads the host tables: API calls, NVTX ranges, waits in the operating system.

use super::names::{PendingNames, Strings, text_lookup};
use super::nccl::Payloads;
use super::packed_ids::IdFormat;
use super::schema::{DRIVER, NVTX, OS_RUNTIME, RUNTIME, Table};
use super::{CORRELATION, Import, correlation, times};
use crate::trace::{HostWait, NameId, Ns, ProblemKind, ProcessId, Span};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Columns of the global thread id. A table without one may record only processes.
const THREAD: &[&str] = &["globalTid", "global_tid"];

fn thread_column(table: &Table) -> (IdFormat, &'static [&'static str]) {
    if table.column(THREAD).is_some() { (IdFormat::Global, THREAD) } else { IdFormat::of(table) }
}

pub(super) fn read_calls(import: &mut Import<'_>) -> PendingNames {
    let runtime = import.schema.find(&RUNTIME);
    let driver = import.schema.find(&DRIVER).filter(|driver| runtime.is_none_or(|runtime| runtime.name != driver.name));
    let tables: Vec<&Table> = runtime.into_iter().chain(driver).collect();
    let rows: usize = tables.iter().map(|table| import.scanner.max_rows(Some(table))).sum();
    import.builder.reserve_calls(rows);
    let mut names = PendingNames::default();
    for table in tables {
        read_calls_of(import, table, &mut names);
    }
    names
}

fn read_calls_of(import: &mut Import<'_>, table: &Table, names: &mut PendingNames) {
    let (id_format, owner) = thread_column(table);
    let (builder, threads) = (&mut import.builder, &mut import.threads);
    threads.start_table();
    let columns = [&["start"], &["end"], owner, CORRELATION, &["nameId"], &["name"]];
    let read = import.scanner.scan(table, &columns, &mut |cells| {
        builder.trace.events.cpu += 1;
        match times(cells) {
            Ok((start, duration)) => {
                let thread = threads.thread(builder, id_format, cells.int(2));
                let call = Span { start, duration, name: names.of_row(cells, &[4, 5]), thread };
                builder.add_call(call, correlation(cells, 3));
            }
            Err(_) => builder.trace.problems.add(ProblemKind::HostRowWithoutTime, 1, cells.at),
        }
    });
    import.count_damage(read);
}

/// Kinds of NVTX events that have an end: push/pop and start/end ranges, both recorded and imported.
const RANGES: &[i64] = &[59, 60, 70, 71];

/// Reads NVTX ranges and their NCCL payloads. Marks, names and ranges without an end are only counted.
pub(super) fn read_ranges<'a>(import: &mut Import<'a>) -> (PendingNames, Payloads<'a>) {
    let mut names = PendingNames::default();
    let mut payloads = Payloads::new(text_lookup(&import.scanner, import.schema));
    let Some(table) = import.schema.find(&NVTX) else { return (names, payloads) };
    import.builder.trace.ranges.reserve(import.scanner.max_rows(Some(table)));
    let (id_format, owner) = thread_column(table);
    let (builder, threads) = (&mut import.builder, &mut import.threads);
    threads.start_table();
    let json = [&["jsonText"], &["jsonTextId"]];
    let has_json = json.iter().any(|column| table.column(*column).is_some());
    let columns = [&["start"], &["end"], owner, &["eventType"], &["text"], &["textId"], &["string"], json[0], json[1]];
    let read = import.scanner.scan(table, &columns, &mut |cells| {
        let is_range = cells.int(3).is_none_or(|kind| RANGES.contains(&kind));
        if !is_range || cells.int(1).is_none_or(|end| cells.int(0) == Some(end)) {
            builder.trace.events.other += 1;
            return;
        }
        builder.trace.events.cpu += 1;
        match times(cells) {
            Ok((start, duration)) => {
                let thread = threads.thread(builder, id_format, cells.int(2));
                let name = match cells.text(4) {
                    Some(text) => names.text(unnumbered(&text)),
                    None => names.of_row(cells, &[5, 6]),
                };
                if has_json {
                    payloads.add(builder.trace.ranges.len(), cells, [7, 8]);
                }
                builder.trace.ranges.push(Span { start, duration, name, thread });
            }
            Err(_) => builder.trace.problems.add(ProblemKind::HostRowWithoutTime, 1, cells.at),
        }
    });
    import.count_damage(read);
    (names, payloads)
}

/// Removes the running numbers that PyTorch's `emit_nvtx` appends (`aten::mm, seq = 12, op_id = 815`). With them every range
/// would have a name of its own.
fn unnumbered(name: &str) -> &str {
    if memchr::memchr(b'=', name.as_bytes()).is_none() {
        return name;
    }
    let is_number = |at: usize, word: &str| name.as_bytes().get(at + word.len()).is_some_and(u8::is_ascii_digit);
    let first = |word: &str| name.find(word).filter(|at| is_number(*at, word));
    let cut = [", seq = ", ", op_id = "].iter().filter_map(|word| first(word)).min();
    cut.and_then(|at| name.get(..at)).unwrap_or(name)
}

/// Sums of waits by process and call. Names are looked up later.
#[derive(Debug, Default)]
pub(super) struct Waits {
    pub(super) names: PendingNames,
    sums: Vec<(ProcessId, NameId, Wait)>,
    index: HashMap<(ProcessId, NameId), usize, RandomState>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Wait {
    count: u64,
    total: Ns,
    longest: Ns,
}

impl Wait {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }
}

impl Waits {
    fn add(&mut self, process: ProcessId, name: NameId, wait: Wait) {
        let index = *self.index.entry((process, name)).or_insert_with(|| {
            self.sums.push((process, name, Wait::default()));
            self.sums.len() - 1
        });
        if let Some((_, _, sum)) = self.sums.get_mut(index) {
            sum.add(wait);
        }
    }

    /// Returns the sums by process and text, and the number of names without a text.
    pub(super) fn resolve(self, strings: &Strings) -> (Vec<HostWait>, u64) {
        let (names, new_ids, missing) = self.names.resolve(strings);
        let mut merged = Self::default();
        for (process, name, wait) in self.sums {
            merged.add(process, new_ids.get(name.0 as usize).copied().unwrap_or(name), wait);
        }
        let waits = merged.sums.into_iter().map(|(process, name, wait)| HostWait {
            process,
            name: names.get(name).to_owned(),
            count: wait.count,
            total: wait.total,
            longest: wait.longest,
        });
        (waits.collect(), missing)
    }
}

/// Reads operating system calls and sums their durations. nsys records only calls that may block.
pub(super) fn read_waits(import: &mut Import<'_>) -> Waits {
    let mut waits = Waits::default();
    let Some(table) = import.schema.find(&OS_RUNTIME) else { return waits };
    let (id_format, owner) = IdFormat::of(table);
    let (builder, threads) = (&mut import.builder, &mut import.threads);
    let read = import.scanner.scan(table, &[&["start"], &["end"], owner, &["nameId"], &["name"]], &mut |cells| {
        builder.trace.events.cpu += 1;
        match times(cells) {
            Ok((_, duration)) => {
                let process = threads.process(builder, threads.owner(id_format, cells.int(2)));
                let name = waits.names.of_row(cells, &[3, 4]);
                waits.add(process, name, Wait { count: 1, total: duration, longest: duration });
            }
            Err(_) => builder.trace.problems.add(ProblemKind::HostRowWithoutTime, 1, cells.at),
        }
    });
    import.count_damage(read);
    waits
}
