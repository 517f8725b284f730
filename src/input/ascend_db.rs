//! Reader of the SQLite databases of Ascend: `msprof_*.db` of msprof and `ascend_pytorch_profiler*.db` of torch_npu. `TASK` has what
//! ran on a device. A task is an op if `COMPUTE_TASK_INFO` names its kernel, or if it is a copy (`MEMCPY_INFO`); `COMMUNICATION_OP`
//! has the collectives, whose parts are tasks that count no more. All other tasks, such as events and waits, are no ops.
//!
//! `PYTORCH_API` has the host code that torch_npu saw: framework ops, Python functions, and ranges, which are the ops whose name has
//! no namespace. `STEP_TIME` has the steps, also of programs that mark none.
//!
//! Texts are ids of `STRING_IDS`. `connectionId` joins a call of `CANN_API` with its ops. Times are nanoseconds of the epoch, as
//! numbers or as text. One pass per table in rowid order; 24 bytes per named task for the join.

use super::Detail;
use super::database::{Import, TextNames, row_times};
use super::nsys::schema::{Schema, Table};
use crate::trace::{CodeKind, GpuOp, NameId, OpKind, PackedCode, ProblemKind, Span, TraceBuilder};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Whether msprof or torch_npu wrote a database with these tables.
pub(super) fn is_msprof(schema: &Schema) -> bool {
    let has = |name: &str, columns: &[&str]| {
        schema.table(name).is_some_and(|table| columns.iter().all(|column| table.column(&[column]).is_some()))
    };
    has("STRING_IDS", &["id", "value"]) && has("TASK", &["startNs", "endNs"])
}

/// What the tables beside `TASK` say about tasks, by `globalTaskId`.
#[derive(Default)]
struct Tasks {
    /// The ids of the names of kernels.
    kernels: HashMap<i64, i64, RandomState>,
    /// Bytes and the id of the kind of copies.
    copies: HashMap<i64, (Option<u64>, Option<i64>), RandomState>,
    /// Parts of collectives.
    parts: HashSet<i64, RandomState>,
    /// Names of kinds of copies.
    copy_kinds: BTreeMap<i64, String>,
}

/// Reads the database.
pub(super) fn read(import: &mut Import<'_>, schema: &Schema) {
    let table = |name: &str| schema.table(name);
    let tasks = read_task_infos(import, &table);
    let mut texts = TextNames::new(&import.scanner, table("STRING_IDS"), &["value"]);
    if let Some(table) = table("TASK") {
        read_tasks(import, table, &tasks, &mut texts);
    }
    if let Some(table) = table("COMMUNICATION_OP") {
        read_collectives(import, table, &mut texts);
    }
    // Names of calls and ranges have tables of their own.
    texts.names = BTreeMap::new();
    if let Some(table) = table("CANN_API") {
        read_calls(import, table, &mut texts);
    }
    texts.names = BTreeMap::new();
    if let Some(table) = table("MSTX_EVENTS") {
        read_ranges(import, table, &mut texts);
    }
    if let Some(own) = table("PYTORCH_API") {
        let has_code = import.detail == Detail::Host;
        let code = if has_code { PackedCode::default() } else { PackedCode::too_long() };
        let kinds = read_api_types(import, table("ENUM_API_TYPE"));
        let code = read_code(import, own, &mut texts, (&kinds, code));
        if has_code {
            import.builder.set_packed_code(code);
        }
    }
    if let Some(table) = table("STEP_TIME") {
        read_steps(import, table);
    }
    name_devices(import, table("NPU_INFO"));
    import.count_missing_names(texts.missing);
}

fn read_task_infos<'s>(import: &mut Import<'_>, table: &dyn Fn(&str) -> Option<&'s Table>) -> Tasks {
    let mut tasks = Tasks::default();
    if let Some(table) = table("COMPUTE_TASK_INFO") {
        import.scan(table, &[&["globalTaskId"], &["name"]], &mut |_, cells| {
            tasks.kernels.extend(cells.int(0).zip(cells.int(1)));
        });
    }
    if let Some(table) = table("MEMCPY_INFO") {
        import.scan(table, &[&["globalTaskId"], &["size"], &["memcpyOperation"]], &mut |_, cells| {
            let copy = (cells.int(1).and_then(|size| u64::try_from(size).ok()), cells.int(2));
            tasks.copies.extend(cells.int(0).map(|task| (task, copy)));
        });
    }
    if let Some(table) = table("COMMUNICATION_TASK_INFO") {
        import.scan(table, &[&["globalTaskId"]], &mut |_, cells| tasks.parts.extend(cells.int(0)));
    }
    if let Some(table) = table("ENUM_MEMCPY_OPERATION") {
        import.scan(table, &[&["id"], &["name"]], &mut |_, cells| {
            tasks.copy_kinds.extend(cells.int(0).zip(cells.text(1).map(std::borrow::Cow::into_owned)));
        });
    }
    tasks
}

fn read_tasks(import: &mut Import<'_>, table: &Table, tasks: &Tasks, texts: &mut TextNames<'_>) {
    let columns: &[&[&str]] = &[
        &["startNs"],
        &["endNs"],
        &["deviceId"],
        &["streamId"],
        &["globalPid"],
        &["connectionId"],
        &["globalTaskId"],
        &["taskType"],
    ];
    let mut types: BTreeMap<i64, bool> = BTreeMap::new();
    import.scan(table, columns, &mut |builder, cells| {
        let task = cells.int(6).unwrap_or(-1);
        let type_id = cells.int(7).unwrap_or(-1);
        let copy = tasks.copies.get(&task);
        let is_copy = copy.is_some()
            || *types.entry(type_id).or_insert_with(|| texts.text(type_id).is_some_and(|text| text == "MEMCPY_ASYNC"));
        let kernel = tasks.kernels.get(&task);
        if tasks.parts.contains(&task) || kernel.is_none() && !is_copy {
            builder.trace.events.other += 1;
            return;
        }
        let Some((start, duration)) = row_times(builder, cells, true) else { return };
        let (kind, name) = match kernel {
            Some(kernel) => (OpKind::Kernel, texts.name(&mut builder.trace.names, *kernel)),
            None => {
                let kind = copy.and_then(|(_, kind)| tasks.copy_kinds.get(&(*kind)?));
                (OpKind::Copy, builder.trace.names.intern(&copy_name(kind.map_or("", String::as_str))))
            }
        };
        let op = GpuOp {
            start,
            duration,
            name,
            device: builder.device(&cells.int(2).unwrap_or_default().to_string(), ""),
            stream: cells.int(3).unwrap_or(-1),
            process: builder.process(cells.int(4).unwrap_or(-1), ""),
            kind,
        };
        builder.trace.gpu_ops.push(op, connection(cells.int(5)));
        if let Some(bytes) = copy.and_then(|(bytes, _)| *bytes).filter(|_| kind == OpKind::Copy) {
            builder.set_bytes_of_last_op(bytes);
        }
    });
}

/// The name of a copy of this kind (`host to device`), as other profilers write it.
fn copy_name(kind: &str) -> String {
    match kind {
        "host to device" => "Memcpy HtoD".to_owned(),
        "device to host" => "Memcpy DtoH".to_owned(),
        "device to device" => "Memcpy DtoD".to_owned(),
        "" => "Memcpy (MEMCPY_ASYNC)".to_owned(),
        other => format!("Memcpy ({other})"),
    }
}

/// Reads the collectives. Each runs on a stream of its own: the streams of its parts are not those of the program.
fn read_collectives(import: &mut Import<'_>, table: &Table, texts: &mut TextNames<'_>) {
    /// Below the numbers of streams, and not that of a stream that is not known.
    const COLLECTIVES: i64 = -2;
    let only = only_device(&import.builder);
    let columns: &[&[&str]] = &[&["startNs"], &["endNs"], &["deviceId"], &["opName"], &["connectionId"]];
    import.scan(table, columns, &mut |builder, cells| {
        let Some((start, duration)) = row_times(builder, cells, true) else { return };
        // Older tables have no device.
        let device = cells.int(2).map(|device| device.to_string()).or_else(|| only.clone());
        let op = GpuOp {
            start,
            duration,
            name: texts.name(&mut builder.trace.names, cells.int(3).unwrap_or_default()),
            device: builder.device(device.as_deref().unwrap_or("0"), ""),
            stream: COLLECTIVES,
            process: builder.trace.gpu_ops.iter().next().map(|op| op.process).unwrap_or_default(),
            kind: OpKind::Kernel,
        };
        if builder.trace.processes.is_empty() {
            builder.process(-1, "");
        }
        builder.trace.gpu_ops.push(op, connection(cells.int(4)));
    });
}

/// The id of the device of all ops so far.
fn only_device(builder: &TraceBuilder) -> Option<String> {
    if let [device] = builder.trace.devices.as_slice() { Some(device.id.clone()) } else { None }
}

fn read_calls(import: &mut Import<'_>, table: &Table, texts: &mut TextNames<'_>) {
    let is_gpu_only = import.is_gpu_only;
    let columns: &[&[&str]] = &[&["startNs"], &["endNs"], &["globalTid"], &["name"], &["connectionId"]];
    import.scan(table, columns, &mut |builder, cells| {
        builder.trace.events.cpu += 1;
        if is_gpu_only {
            return builder.trace.problems.add(ProblemKind::LeftOut, 1, cells.at);
        }
        let Some((start, duration)) = row_times(builder, cells, false) else { return };
        let thread = thread(builder, cells.int(2));
        let name = texts.name(&mut builder.trace.calls.names, cells.int(3).unwrap_or_default());
        builder.add_call(Span { start, duration, name, thread }, connection(cells.int(4)));
    });
}

fn read_ranges(import: &mut Import<'_>, table: &Table, texts: &mut TextNames<'_>) {
    let is_gpu_only = import.is_gpu_only;
    let columns: &[&[&str]] = &[&["startNs"], &["endNs"], &["globalTid"], &["message"]];
    import.scan(table, columns, &mut |builder, cells| {
        builder.trace.events.cpu += 1;
        if is_gpu_only {
            return builder.trace.problems.add(ProblemKind::LeftOut, 1, cells.at);
        }
        let Some((start, duration)) = row_times(builder, cells, false) else { return };
        let thread = thread(builder, cells.int(2));
        let name = texts.name(&mut builder.trace.ranges.names, cells.int(3).unwrap_or_default());
        let trace = &mut builder.trace;
        trace.engine_hints.annotations.intern(trace.ranges.names.get(name));
        trace.ranges.push(Span { start, duration, name, thread });
    });
}

/// What a row of `PYTORCH_API` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ApiType {
    /// A framework op or a range.
    Op,
    /// A Python function.
    Function,
    /// A task on its way to the device, or a range that `MSTX_EVENTS` has, too.
    Other,
}

/// The types by their number: those that the file names, or that torch_npu writes.
fn read_api_types(import: &mut Import<'_>, table: Option<&Table>) -> BTreeMap<i64, ApiType> {
    let mut types = BTreeMap::from([(50_001, ApiType::Op), (50_003, ApiType::Function)]);
    if let Some(table) = table {
        import.scan(table, &[&["id"], &["name"]], &mut |_, cells| {
            let api_type = match cells.text(1).as_deref() {
                Some("op") => ApiType::Op,
                Some("trace") => ApiType::Function,
                _ => ApiType::Other,
            };
            types.extend(cells.int(0).map(|id| (id, api_type)));
        });
    }
    types
}

/// The names of a row of `PYTORCH_API`, looked up once.
struct ApiName {
    text: String,
    code: Option<NameId>,
}

/// Reads the host code that torch_npu saw. Older tables have no types: all their rows are ops.
fn read_code(
    import: &mut Import<'_>,
    table: &Table,
    texts: &mut TextNames<'_>,
    (types, mut code): (&BTreeMap<i64, ApiType>, PackedCode),
) -> PackedCode {
    let is_gpu_only = import.is_gpu_only;
    let mut names: BTreeMap<(i64, bool), ApiName> = BTreeMap::new();
    let columns: &[&[&str]] = &[&["startNs"], &["endNs"], &["globalTid"], &["name"], &["type"]];
    import.scan(table, columns, &mut |builder, cells| {
        builder.trace.events.cpu += 1;
        let api_type = cells.int(4).map_or(ApiType::Op, |id| types.get(&id).copied().unwrap_or(ApiType::Other));
        if api_type == ApiType::Other {
            return;
        }
        if is_gpu_only {
            return builder.trace.problems.add(ProblemKind::LeftOut, 1, cells.at);
        }
        let Some((start, duration)) = row_times(builder, cells, false) else { return };
        let thread = thread(builder, cells.int(2));
        let is_function = api_type == ApiType::Function;
        builder.trace.events.python_frames += u64::from(is_function);
        let id = cells.int(3).unwrap_or_default();
        let name = names
            .entry((id, is_function))
            .or_insert_with(|| ApiName { text: texts.text(id).unwrap_or_default(), code: None });
        if !is_function && !name.text.contains("::") {
            return builder.add_range(&name.text, (thread, start, duration));
        }
        let (kind, list) = match is_function {
            true => (CodeKind::Function, &mut code.functions),
            false => (CodeKind::Op, &mut code.ops),
        };
        let name = *name.code.get_or_insert_with(|| list.intern(&name.text));
        code.push(kind, name, thread.0, start, duration);
    });
    code
}

/// Reads the steps, unless the program marked them as torch.profiler does. They are those of the first thread with a call or range.
fn read_steps(import: &mut Import<'_>, table: &Table) {
    const STEP: &str = "ProfilerStep#";
    if import.is_gpu_only || import.builder.trace.ranges.names.iter().any(|name| name.starts_with(STEP)) {
        return;
    }
    let trace = &import.builder.trace;
    let first = trace.calls.iter().next().or_else(|| trace.ranges.iter().next()).map(|span| span.thread);
    import.scan(table, &[&["startNs"], &["endNs"], &["id"]], &mut |builder, cells| {
        let Some((start, duration)) = row_times(builder, cells, false) else { return };
        let thread = first.unwrap_or_else(|| thread(builder, None));
        let name = format!("{STEP}{}", cells.int(2).unwrap_or_default());
        builder.add_range(&name, (thread, start, duration));
    });
}

/// The thread of a global id, which has the pid in its upper half.
fn thread(builder: &mut TraceBuilder, global: Option<i64>) -> crate::trace::ThreadId {
    let global = global.unwrap_or(-1);
    let (pid, tid) = if global < 0 { (-1, -1) } else { (global >> 32, global & i64::from(u32::MAX)) };
    let process = builder.process(pid, "");
    builder.thread(process, tid)
}

/// A connection id as correlation id. Those that connect nothing are 0 or have all bits set.
fn connection(id: Option<i64>) -> Option<u32> {
    u32::try_from(id?).ok().filter(|id| *id != 0 && *id != u32::MAX)
}

fn name_devices(import: &mut Import<'_>, table: Option<&Table>) {
    let Some(table) = table else { return };
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    import.scan(table, &[&["id"], &["name"]], &mut |_, cells| {
        let id = cells.int(0).map(|id| id.to_string());
        names.extend(id.zip(cells.text(1).map(std::borrow::Cow::into_owned)));
    });
    for device in &mut import.builder.trace.devices {
        names.get(&device.id).into_iter().for_each(|name| device.name.clone_from(name));
    }
}

#[cfg(test)]
mod tests {
    use crate::input::nsys;
    use crate::trace::{Format, OpKind, ProblemKind};
    use rusqlite::Connection;

    /// A kernel of 40 us, a copy of 2 us, a collective of 24 us with two parts, and an event, which is no op.
    const TABLES: &str = "
        CREATE TABLE STRING_IDS (id INTEGER PRIMARY KEY, value TEXT);
        INSERT INTO STRING_IDS VALUES (1, 'KERNEL_AICORE'), (2, 'MatMulV3'), (3, 'MEMCPY_ASYNC'), (4, 'EVENT_RECORD'),
            (5, 'hcom_allReduce_'), (6, 'aclnnMatmul'), (7, 'step'), (8, 'Notify_Wait');
        CREATE TABLE TASK (startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER,
            globalPid INTEGER, taskType INTEGER, streamId INTEGER);
        INSERT INTO TASK VALUES (10000, 50000, 0, 1, 1, 47, 1, 2), (58000, 58500, 0, 2, 2, 47, 4, 2),
            (60000, 62000, 0, 3, 3, 47, 3, 3), (45000, 48000, 0, 4, 4, 47, 8, 30), (48000, 68000, 0, 4, 5, 47, 8, 30),
            (70000, 60000, 0, 1, 1, 47, 1, 2);
        CREATE TABLE COMPUTE_TASK_INFO (name INTEGER, globalTaskId INTEGER PRIMARY KEY);
        INSERT INTO COMPUTE_TASK_INFO VALUES (2, 1);
        CREATE TABLE COMMUNICATION_OP (opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER);
        INSERT INTO COMMUNICATION_OP VALUES (5, 44500, 68500, 4);
        CREATE TABLE COMMUNICATION_TASK_INFO (globalTaskId INTEGER);
        INSERT INTO COMMUNICATION_TASK_INFO VALUES (4), (5);
        CREATE TABLE MEMCPY_INFO (globalTaskId INTEGER, size INTEGER, memcpyOperation INTEGER);
        INSERT INTO MEMCPY_INFO VALUES (3, 4096, 1);
        CREATE TABLE ENUM_MEMCPY_OPERATION (id INTEGER PRIMARY KEY, name TEXT);
        INSERT INTO ENUM_MEMCPY_OPERATION VALUES (1, 'host to device');
        CREATE TABLE NPU_INFO (id INTEGER, name TEXT);
        INSERT INTO NPU_INFO VALUES (0, 'Ascend910B3');
        CREATE TABLE CANN_API (startNs INTEGER, endNs INTEGER, globalTid INTEGER, connectionId INTEGER, name INTEGER);
        INSERT INTO CANN_API VALUES (1000, 7000, 201863462960, 1, 6);
        CREATE TABLE MSTX_EVENTS (startNs TEXT, endNs TEXT, message INTEGER, globalTid INTEGER);
        INSERT INTO MSTX_EVENTS VALUES ('200', '80000', 7, 201863462960);";

    #[test]
    fn kernels_copies_and_collectives_are_ops_and_their_parts_and_events_are_not() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(TABLES).unwrap();
        let trace = nsys::read(&connection, "msprof.db", &mut |_| {}).unwrap();
        assert_eq!(trace.format, Format::AscendDb);
        let ops: Vec<_> = trace
            .gpu_ops
            .iter()
            .map(|op| (trace.names.get(op.name), op.kind, op.start.0, op.duration.0, op.stream))
            .collect();
        let kernel = ("MatMulV3", OpKind::Kernel, 10_000, 40_000, 2);
        let collective = ("hcom_allReduce_", OpKind::Kernel, 44_500, 24_000, -2);
        assert_eq!(ops, [kernel, collective, ("Memcpy HtoD", OpKind::Copy, 60_000, 2_000, 3)]);
        assert_eq!((trace.devices.len(), trace.devices[0].name.as_str()), (1, "Ascend910B3"));
        assert_eq!(
            trace.gpu_ops.launches().map(|call| call.map(|call| call.0)).collect::<Vec<_>>(),
            [Some(0), None, None]
        );
        // 201863462960 is 47 * 2^32 + 48.
        assert_eq!((trace.processes[0].pid, trace.threads[0].tid), (47, 48));
        assert_eq!((trace.bytes.as_slice(), trace.events.other), (&[(2, 4_096)][..], 3));
        assert_eq!(trace.ranges.names.iter().collect::<Vec<_>>(), ["step"]);
        assert!(trace.packed_code.is_none());
        let count = |kind| trace.problems.count(kind);
        assert_eq!((count(ProblemKind::ImpossibleDuration), count(ProblemKind::MissingName)), (1, 0));
    }

    /// `PYTORCH_API` has text as times, and types that `ENUM_API_TYPE` names.
    #[test]
    fn ranges_and_code_of_torch_npu_and_steps_are_read() {
        const API: &str = "
            INSERT INTO STRING_IDS VALUES (20, 'aten::mm'), (21, 'forward'), (22, 'model.py(3): run'), (23, 'Enqueue');
            CREATE TABLE ENUM_API_TYPE (id INTEGER PRIMARY KEY, name TEXT);
            INSERT INTO ENUM_API_TYPE VALUES (50001, 'op'), (50002, 'queue'), (50003, 'trace'), (50004, 'mstx');
            CREATE TABLE PYTORCH_API (startNs TEXT, endNs TEXT, globalTid INTEGER, connectionId INTEGER, name INTEGER, type INTEGER);
            INSERT INTO PYTORCH_API VALUES ('300', '900', 201863462960, 1, 20, 50001), ('250', '70000', 201863462960, 0, 21, 50001),
                ('210', '75000', 201863462960, 0, 22, 50003), ('310', '320', 201863462960, 2, 23, 50002),
                ('300', '200', 201863462960, 1, 20, 50001);
            CREATE TABLE STEP_TIME (id INTEGER, startNs INTEGER, endNs INTEGER);
            INSERT INTO STEP_TIME VALUES (3, 150, 90000);";
        let read = |more: &str| {
            let connection = Connection::open_in_memory().unwrap();
            connection.execute_batch(&format!("{TABLES}{API}{more}")).unwrap();
            nsys::read(&connection, "ascend_pytorch_profiler.db", &mut |_| {}).unwrap()
        };
        let trace = read("");
        let mut ranges: Vec<_> = trace.ranges.iter().map(|range| trace.ranges.names.get(range.name)).collect();
        ranges.sort_unstable();
        assert_eq!(ranges, ["ProfilerStep#3", "forward", "step"]);
        let code = trace.packed_code.as_ref().unwrap();
        assert_eq!(code.ops.iter().collect::<Vec<_>>(), ["aten::mm"]);
        assert_eq!(code.functions.iter().collect::<Vec<_>>(), ["model.py(3): run"]);
        assert_eq!((trace.threads.len(), trace.events.python_frames), (1, 1));
        assert_eq!(trace.problems.count(ProblemKind::HostRowWithoutTime), 1);
        let marked = read(
            "INSERT INTO STRING_IDS VALUES (24, 'ProfilerStep#3');
            INSERT INTO PYTORCH_API VALUES ('150', '90000', 201863462960, 0, 24, 50001);",
        );
        assert_eq!(marked.ranges.len(), 3, "the step is read once");
    }
}
