//! Reader of the SQLite database of rocmProfileData. `rocpd_op` has the ops of the GPUs, `rocpd_api` the calls of the host,
//! `rocpd_api_ops` which call launched which op, `rocpd_string` the texts. One pass per table in rowid order; 16 bytes per op
//! and 12 per launching call for the join. Ids may be any 64-bit numbers.

use super::{Import, TextNames, op_kind, row_times};
use crate::input::nsys::schema::{Schema, Table};
use crate::input::torch::is_stored_call;
use crate::trace::{DeviceId, GpuOp, OpKind, OpSources, ProblemKind, ProcessId, Span};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};

pub(in crate::input) const OPS: &str = "rocpd_op";

/// Which call launched which op.
struct Launches {
    /// Op and call, sorted by op.
    of_op: Vec<(i64, i64)>,
    /// Correlation ids of the calls that launched something.
    correlations: HashMap<i64, u32, RandomState>,
}

impl Launches {
    fn call(&self, op: i64) -> Option<i64> {
        let found = self.of_op.binary_search_by_key(&op, |(op, _)| *op).ok()?;
        self.of_op.get(found).map(|(_, call)| *call)
    }

    fn correlation(&self, call: i64) -> Option<u32> {
        self.correlations.get(&call).copied()
    }
}

/// Reads the database.
pub(in crate::input) fn read(import: &mut Import<'_>, schema: &Schema) {
    let table = |name: &str| schema.table(name);
    let mut texts = TextNames::new(&import.scanner, table("rocpd_string"), &["string"]);
    let launches = read_launches(import, table("rocpd_api_ops"));
    let sizes = read_sizes(import, table("rocpd_copyapi"));
    let mut sources = OpSources::default();
    if let Some(ops) = table(OPS) {
        read_ops(import, ops, &mut texts, (&launches, &sizes, &mut sources));
    }
    import.builder.sort_ops();
    let missing = texts.missing;
    texts.names = BTreeMap::new();
    if let Some(calls) = table("rocpd_api") {
        read_calls(import, calls, &mut texts, (&launches, &mut sources));
    }
    import.builder.assign_sources(&sources);
    let missing = missing.max(texts.missing);
    import.count_missing_names(missing);
}

fn read_launches(import: &mut Import<'_>, table: Option<&Table>) -> Launches {
    let (mut of_op, mut correlations) = (Vec::new(), HashMap::default());
    if let Some(table) = table {
        import.scan(table, &[&["op_id"], &["api_id"]], &mut |_, cells| {
            let (Some(op), Some(call)) = (cells.int(0), cells.int(1)) else { return };
            of_op.push((op, call));
            let next = u32::try_from(correlations.len() + 1).unwrap_or(u32::MAX);
            correlations.entry(call).or_insert(next);
        });
    }
    of_op.sort_unstable();
    Launches { of_op, correlations }
}

fn read_sizes(import: &mut Import<'_>, table: Option<&Table>) -> HashMap<i64, u64, RandomState> {
    let mut sizes = HashMap::default();
    if let Some(table) = table {
        import.scan(table, &[&["api_ptr_id"], &["size"]], &mut |_, cells| {
            if let (Some(call), Some(size)) = (cells.int(0), cells.int(1).and_then(|size| u64::try_from(size).ok())) {
                sizes.insert(call, size);
            }
        });
    }
    sizes
}

fn read_ops(
    import: &mut Import<'_>,
    table: &Table,
    texts: &mut TextNames<'_>,
    (launches, sizes, sources): (&Launches, &HashMap<i64, u64, RandomState>, &mut OpSources),
) {
    let mut devices: BTreeMap<i64, DeviceId> = BTreeMap::new();
    let rows = import.scanner.max_rows(Some(table));
    import.builder.trace.gpu_ops.reserve(rows);
    let mut types: BTreeMap<i64, String> = BTreeMap::new();
    let mut descriptions: BTreeMap<i64, bool> = BTreeMap::new();
    let columns: &[&[&str]] =
        &[&["start"], &["end"], &["id"], &["gpuId"], &["queueId"], &["description_id"], &["opType_id"]];
    import.scan(table, columns, &mut |builder, cells| {
        let type_id = cells.int(6).unwrap_or_default();
        let op_type = types.entry(type_id).or_insert_with(|| texts.text(type_id).unwrap_or_default());
        let Some(kind) = op_kind(op_type) else {
            builder.trace.events.other += 1;
            return;
        };
        let Some((start, duration)) = row_times(builder, cells, true) else { return };
        // A copy has no description of its own.
        let description = cells.int(5).unwrap_or(type_id);
        let is_empty = *descriptions
            .entry(description)
            .or_insert_with(|| texts.text(description).is_none_or(|text| text.is_empty()));
        let name = texts.name(&mut builder.trace.names, if is_empty { type_id } else { description });
        let gpu = cells.int(3).unwrap_or_default();
        let add_gpu = || sources.add("", &gpu.to_string(), gpu.to_string(), 0);
        let op = GpuOp {
            start,
            duration,
            name,
            device: *devices.entry(gpu).or_insert_with(add_gpu),
            stream: cells.int(4).unwrap_or(-1),
            // The file does not name it; see `OpSources`.
            process: ProcessId::default(),
            kind,
        };
        let call = launches.call(cells.int(2).unwrap_or_default());
        builder.trace.gpu_ops.push(op, call.and_then(|call| launches.correlation(call)));
        if kind != OpKind::Kernel
            && let Some(size) = call.and_then(|call| sizes.get(&call))
        {
            builder.set_bytes_of_last_op(*size);
        }
    });
}

/// Calls and markers. A marker is a call named `UserMarker` with its text as argument.
fn read_calls(
    import: &mut Import<'_>,
    table: &Table,
    texts: &mut TextNames<'_>,
    (launches, sources): (&Launches, &mut OpSources),
) {
    let mut processes: BTreeMap<Option<i64>, ProcessId> = BTreeMap::new();
    let is_gpu_only = import.is_gpu_only;
    let mut names: BTreeMap<i64, String> = BTreeMap::new();
    let columns: &[&[&str]] = &[&["start"], &["end"], &["id"], &["pid"], &["tid"], &["apiName_id"], &["args_id"]];
    import.scan(table, columns, &mut |builder, cells| {
        builder.trace.events.cpu += 1;
        let name_id = cells.int(5).unwrap_or_default();
        let name = names.entry(name_id).or_insert_with(|| texts.text(name_id).unwrap_or_default());
        let is_marker = name == "UserMarker";
        if !is_marker && !is_stored_call(name.as_bytes()) {
            return;
        }
        if is_gpu_only {
            return builder.trace.problems.add(ProblemKind::LeftOut, 1, cells.at);
        }
        let Some((start, duration)) = row_times(builder, cells, false) else { return };
        let pid = cells.int(3);
        let process = *processes.entry(pid).or_insert_with(|| sources.add_process(builder, "", pid, ""));
        let thread = builder.thread(process, cells.int(4).unwrap_or(-1));
        if is_marker {
            let text = cells.int(6).and_then(|id| texts.text(id)).filter(|text| !text.is_empty());
            let text = text.unwrap_or_else(|| name.clone());
            return builder.add_range(&text, (thread, start, duration));
        }
        let name = builder.trace.calls.names.intern(name);
        let correlation = launches.correlation(cells.int(2).unwrap_or_default());
        builder.add_call(Span { start, duration, name, thread }, correlation);
    });
}
