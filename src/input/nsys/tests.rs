//! Tests of the export reader: all generations of the schema, cut, damaged and hostile files, NCCL messages.

use super::fixture::{
    GEMM, GENERATIONS, Generation, LOOP_PIDS, TYPE_IDS, database, decode_loop, global_pid, global_tid, golden, integers,
};
use super::{open, open_with, read, read_gpu_ops};
use crate::analysis::testing::shared;
use crate::input::tests::problems;
use crate::trace::{Collective, DeviceProperties, ImportProblems, OpKind, ProblemKind, Trace};
use rusqlite::Connection;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) fn trace(connection: &Connection) -> Trace {
    read(connection, "x.sqlite", &mut |_| {}).unwrap()
}

fn refusal(connection: &Connection) -> String {
    read(connection, "x.sqlite", &mut |_| {}).unwrap_err().to_string()
}

fn run(connection: &Connection, sql: &str) {
    connection.execute_batch(sql).unwrap();
}

fn export(sql: &str) -> Connection {
    let connection = database();
    run(&connection, sql);
    connection
}

fn changed_loop(sql: &str) -> Connection {
    let connection = decode_loop(Generation::S3_25);
    run(&connection, sql);
    connection
}

fn file(connection: &Connection, name: &str) -> (PathBuf, Vec<u8>) {
    let path = std::env::temp_dir().join(format!("gpuprism-test-{}-{name}.sqlite", std::process::id()));
    let _ = std::fs::remove_file(&path);
    connection.execute("VACUUM INTO ?1", [path.to_str().unwrap()]).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    (path, bytes)
}

fn op_names(trace: &Trace) -> Vec<&str> {
    trace.gpu_ops.iter().map(|op| trace.names.get(op.name)).collect()
}

/// Returns start, duration, name, device and the name of the launching call of each op.
fn ops(trace: &Trace) -> Vec<(i64, i64, &str, &str, Option<&str>)> {
    let rows = trace.gpu_ops.iter().zip(trace.gpu_ops.launches());
    rows.map(|(op, launch)| {
        let call = launch.map(|call| trace.calls.names.get(trace.calls.get(call.0 as usize).unwrap().name));
        let device = trace.devices[op.device.0 as usize].id.as_str();
        (op.start.0, op.duration.0, trace.names.get(op.name), device, call)
    })
    .collect()
}

const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)";

#[test]
fn an_op_far_outside_of_the_session_is_left_out() {
    let rows = "(1000, 2000, 0, 7, 1, 1), (3000, 4000, 0, 7, 2, 1), (90000, 91000, 0, 7, 3, 1), (0, 0, 0, 7, 4, 1)";
    let sql = format!(
        "CREATE TABLE StringIds (id INTEGER, value TEXT); INSERT INTO StringIds VALUES (1, 'k');
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, correlationId INT, shortName INT);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES {rows};"
    );
    let count = |trace: &Trace| (trace.gpu_ops.len(), problems(trace));
    let without_time = (ProblemKind::OpWithoutTime, 1);
    assert_eq!(count(&trace(&export(&sql))), (3, vec![without_time]));
    let details =
        "CREATE TABLE ANALYSIS_DETAILS (globalVid INT, duration INT); INSERT INTO ANALYSIS_DETAILS VALUES (1, 5000);";
    let expected = (2, vec![without_time, (ProblemKind::ImpossibleDuration, 1)]);
    assert_eq!(count(&trace(&export(&format!("{sql}{details}")))), expected);
}

#[test]
fn all_schema_generations_give_the_same_trace() {
    let traces = GENERATIONS.map(|generation| trace(&decode_loop(generation)));
    assert_eq!(traces[0], traces[1]);
    assert_eq!(traces[1], traces[2]);
    let trace = &traces[0];
    assert_eq!(trace.problems, ImportProblems::default());
    let of_one = |later: i64, device| {
        [
            (10_000 + later, 10_000, GEMM, device, Some("cudaLaunchKernel_v7000")),
            (30_000 + later, 15_000, ALL_REDUCE, device, Some("cudaGraphLaunch_v10000")),
            (45_000 + later, 5_000, GEMM, device, Some("cudaGraphLaunch_v10000")),
            (52_000 + later, 1_000, "[CUDA memcpy Device-to-Host]", device, Some("cudaMemcpyAsync_v3020")),
            (54_000 + later, 500, "[CUDA memset]", device, Some("cudaMemsetAsync_v3020")),
        ]
    };
    let mut expected = [of_one(0, "0"), of_one(500, "1")].concat();
    expected.sort_by_key(|op| op.0);
    assert_eq!(ops(trace), expected);
    assert_eq!(trace.names.len(), 4, "two string ids with one text are one name");
    assert_eq!(trace.bytes.iter().map(|bytes| bytes.1).collect::<Vec<_>>(), [512, 512, 4096, 4096]);
    assert_eq!(
        trace.devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>(),
        ["NVIDIA H100 80GB HBM3"; 2]
    );
    let processes: Vec<_> = trace.processes.iter().map(|process| (process.pid, process.name.as_str())).collect();
    assert_eq!(processes, LOOP_PIDS.map(|pid| (pid, "python3")));
}

#[test]
fn correlation_ids_are_matched_within_a_process() {
    let trace = trace(&decode_loop(Generation::S3_25));
    for (op, launch) in trace.gpu_ops.iter().zip(trace.gpu_ops.launches()) {
        let call = trace.calls.get(launch.unwrap().0 as usize).unwrap();
        assert_eq!(trace.threads[call.thread.0 as usize].process, op.process);
        assert!(call.start < op.start);
    }
}

#[test]
fn ranges_waits_and_counters_are_read() {
    let trace = trace(&decode_loop(Generation::S3_1));
    let ranges: Vec<_> =
        trace.ranges.iter().map(|range| (range.start.0, range.end().0, trace.ranges.names.get(range.name))).collect();
    let expected =
        [(500, 30_000, "step"), (600, 5_000, "decode bs=32"), (1_000, 30_500, "step"), (1_100, 5_500, "decode bs=32")];
    assert_eq!(ranges, expected);
    let waits: Vec<_> = trace
        .host_waits
        .iter()
        .map(|wait| (wait.process.0, wait.name.as_str(), wait.count, wait.total.0, wait.longest.0))
        .collect();
    assert_eq!(waits, [(0, "poll", 2, 1_400, 1_000), (1, "poll", 2, 1_400, 1_000)]);
    assert_eq!(trace.metrics.len(), 2, "the unused counter is left out");
    for (series, (source, device)) in trace.metrics.iter().zip(TYPE_IDS.iter().zip(["0", "1"])) {
        assert_eq!((series.source, series.name.as_str()), (*source, "NVLink TX Bandwidth [Throughput %]"));
        assert_eq!(trace.devices[series.device.unwrap().0 as usize].id, device);
        let samples: Vec<_> = series.samples.iter().map(|sample| (sample.0.0, sample.1)).collect();
        assert_eq!(samples, [(10_000, 1.0), (20_000, 3.0), (40_000, 80.0)]);
    }
    // Eight calls, four ranges, four waits; two marks and twelve samples.
    assert_eq!((trace.events.cpu, trace.events.other), (16, 14));
}

#[test]
fn read_gpu_ops_gives_the_same_ops_and_counts_skipped_rows() {
    let export = decode_loop(Generation::S3_1);
    let (whole, alone) = (trace(&export), read_gpu_ops(&export, "x.sqlite", &mut |_| {}).unwrap());
    let without_calls = |trace| -> Vec<_> { ops(trace).into_iter().map(|op| (op.0, op.1, op.2, op.3)).collect() };
    assert_eq!(without_calls(&alone), without_calls(&whole));
    assert_eq!((alone.calls.len(), alone.ranges.len(), alone.host_waits.len(), alone.metrics.len()), (0, 0, 0, 0));
    // Eight calls, four ranges and two marks, four waits, twelve samples.
    assert_eq!(problems(&alone), [(ProblemKind::LeftOut, 30)]);
}

#[test]
fn the_golden_fixture_is_read_completely() {
    let trace = trace(&golden(true));
    assert_eq!((trace.gpu_ops.len(), trace.calls.len(), trace.ranges.len()), (7, 8, 3));
    assert_eq!(trace.problems, ImportProblems::default());
    let linked = trace.gpu_ops.launches().flatten().count();
    assert_eq!(linked, 5, "every kernel has a launch; the copies carry no correlation id");
    let samples: usize = trace.metrics.iter().map(|series| series.samples.len()).sum();
    assert_eq!((trace.metrics.len(), samples), (4, 22));
    assert_eq!(trace.collectives, Vec::<(u32, Collective)>::new());
}

#[test]
fn counters_are_read_with_or_without_their_source() {
    let connection = changed_loop("ALTER TABLE GPU_METRICS DROP COLUMN typeId");
    let both = trace(&connection);
    assert_eq!(both.metrics, [], "two GPUs have this counter, so the samples belong to no known GPU");
    assert_eq!(problems(&both), [(ProblemKind::UnknownCounter, 6)], "samples of unused counters are not counted");
    connection.execute("DELETE FROM TARGET_INFO_GPU_METRICS WHERE typeId = ?1", [TYPE_IDS[1]]).unwrap();
    let one = trace(&connection);
    let sources: Vec<_> = one.metrics.iter().map(|series| (series.source, series.samples.len())).collect();
    assert_eq!(sources, [(TYPE_IDS[0], 6)]);
    assert_eq!(problems(&one), []);
}

#[test]
fn clocks_are_converted_to_the_unit_of_their_name() {
    let rename = "UPDATE TARGET_INFO_GPU_METRICS SET metricName = 'GPC Clock Frequency [MHz]' WHERE metricId = 4;";
    let raw: Vec<f64> = trace(&changed_loop(rename)).metrics[0].samples.iter().map(|sample| sample.1).collect();
    assert_eq!(raw, [1.0, 3.0, 80.0], "these are in MHz already");
    let in_hertz = format!("{rename} UPDATE GPU_METRICS SET value = value * 10000000 WHERE metricId = 4");
    let clocks: Vec<f64> = trace(&changed_loop(&in_hertz)).metrics[0].samples.iter().map(|sample| sample.1).collect();
    assert_eq!(clocks, [10.0, 30.0, 800.0]);
}

#[test]
fn samples_without_a_counter_name_are_counted() {
    let [first, second] = TYPE_IDS;
    let trace = trace(&changed_loop(&format!(
        "DELETE FROM TARGET_INFO_GPU_METRICS WHERE typeId = {second};
         CREATE TABLE loose AS SELECT * FROM GPU_METRICS;
         DROP TABLE GPU_METRICS;
         INSERT INTO loose (timestamp, typeId, metricId, value) VALUES (5, {first}, NULL, 1);
         ALTER TABLE loose RENAME TO GPU_METRICS"
    )));
    assert_eq!((trace.metrics.len(), trace.metrics[0].samples.len()), (1, 3));
    assert_eq!(problems(&trace), [(ProblemKind::UnknownCounter, 4)], "three of the second GPU, one of no counter");
}

#[test]
fn samples_at_impossible_times_are_counted_and_skipped() {
    let connection = decode_loop(Generation::S3_25);
    let before = trace(&connection).metrics;
    for time in [i64::MIN, i64::MAX] {
        let sql = "INSERT INTO GPU_METRICS (timestamp, typeId, metricId, value) SELECT ?1, typeId, metricId, value FROM GPU_METRICS LIMIT 1";
        connection.execute(sql, [time]).unwrap();
    }
    let trace = trace(&connection);
    assert_eq!((trace.metrics == before, problems(&trace)), (true, vec![(ProblemKind::HostRowWithoutTime, 2)]));
}

#[test]
fn a_table_with_a_cycle_of_pages_does_not_loop_forever() {
    let connection = export(
        "PRAGMA page_size=512;
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT i, i + 1 FROM n;
         VACUUM",
    );
    let (path, mut bytes) = file(&connection, "cycle");
    let pages = |kind: u8| (1..bytes.len() / 512).filter(|page| bytes[page * 512] == kind).collect::<Vec<_>>();
    let (inner, leaves) = (pages(5), pages(13));
    assert!(inner.len() > 3, "{} inner pages", inner.len());
    // Let every child of an inner page be the next inner page, and of the last one a leaf: a few pages give 100 million rows.
    for (page, next) in inner.iter().zip(inner.iter().skip(1).chain(&leaves)) {
        let (at, next) = (page * 512, (*next as u32 + 1).to_be_bytes());
        let cells = usize::from(u16::from_be_bytes([bytes[at + 3], bytes[at + 4]]));
        bytes[at + 8..at + 12].copy_from_slice(&next);
        for cell in 0..cells {
            let pointer = at + 12 + 2 * cell;
            let cell = at + usize::from(u16::from_be_bytes([bytes[pointer], bytes[pointer + 1]]));
            bytes[cell..cell + 4].copy_from_slice(&next);
        }
    }
    std::fs::write(&path, &bytes).unwrap();
    let trace = open(&path, "x").unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(trace.problems.has(ProblemKind::DamagedTable), "{:?}", problems(&trace));
    assert_eq!(trace.gpu_ops.len(), bytes.len() / 4, "at most the rows that fit the file");
}

#[test]
fn two_gpus_with_the_same_cuda_number_are_distinguished() {
    let connection = changed_loop(
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 0;
         DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY;
         DELETE FROM CUPTI_ACTIVITY_KIND_MEMSET",
    );
    assert_eq!(trace(&connection).devices.len(), 1);
    run(&connection, "UPDATE TARGET_INFO_CUDA_DEVICE SET cudaId = 0");
    let trace = trace(&connection);
    let device_of = |process: u32| {
        let op = trace.gpu_ops.iter().find(|op| op.process.0 == process).unwrap();
        trace.devices[op.device.0 as usize].id.clone()
    };
    assert_eq!((device_of(0), device_of(1)), ("0".to_owned(), "1".to_owned()));
}

#[test]
fn kernel_names_prefer_demangled_then_short_then_mangled() {
    let trace = trace(&export(
        "CREATE TABLE StringIds (id INTEGER, value TEXT);
         INSERT INTO StringIds VALUES (1, 'full<int>(int)'), (2, 'short'), (3, '_Z7mangledv');
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, demangledName, shortName, mangledName);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
             (0, 1, 1, 2, 3), (1, 2, NULL, 2, 3), (2, 3, NULL, NULL, 3), (3, 4, 99, 2, NULL),
             (4, 5, 99, NULL, NULL), (5, 6, 98, NULL, NULL), (6, 7, NULL, NULL, NULL),
             (7, 8, 'as text', NULL, NULL), (8, 9, CAST(x'6bff' AS TEXT), NULL, NULL)",
    ));
    let expected = [
        "full<int>(int)",
        "short",
        "_Z7mangledv",
        "short",
        // The ids of a name are those of its first row.
        "short",
        "(name 98 is missing)",
        "(unnamed)",
        "as text",
        "k\u{fffd}",
    ];
    assert_eq!(op_names(&trace), expected);
    assert_eq!(problems(&trace), [(ProblemKind::NoDevices, 9), (ProblemKind::MissingName, 2)]);
}

#[test]
fn rows_without_usable_times_are_counted_and_skipped() {
    let times = "('soon', 5), (5, 7.5), (x'01', 5), (9, 5), (-9223372036854775808, 9223372036854775807)";
    let trace = trace(&changed_loop(&format!(
        "CREATE TABLE times (start, end);
         INSERT INTO times VALUES {times};
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, demangledName, shortName)
             SELECT start, end, 0, 1, 7, 1, 1 FROM times;
         INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, eventClass, nameId, returnValue)
             SELECT start, end, 0, 1, 7 FROM times"
    )));
    assert_eq!((trace.gpu_ops.len(), trace.calls.len()), (10, 8));
    let expected =
        [(ProblemKind::OpWithoutTime, 3), (ProblemKind::ImpossibleDuration, 2), (ProblemKind::HostRowWithoutTime, 5)];
    assert_eq!(problems(&trace), expected);
}

#[test]
fn copies_have_the_names_that_nsys_prints() {
    let labels = [
        (1, "Host-to-Device"),
        (2, "Device-to-Host"),
        (8, "Device-to-Device"),
        (9, "Host-to-Host"),
        (10, "Peer-to-Peer"),
        (11, "Unified Host-to-Device"),
        (12, "Unified Device-to-Host"),
        (13, "Unified Device-to-Device"),
        (77, "Unknown"),
    ];
    let connection = export("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, copyKind)");
    let rows = labels.map(|(kind, _)| [kind, kind + 1, kind]);
    integers(&connection, "CUPTI_ACTIVITY_KIND_MEMCPY", "start, end, copyKind", &rows);
    let trace = trace(&connection);
    assert_eq!(op_names(&trace), labels.map(|(_, label)| format!("[CUDA memcpy {label}]")));
    assert!(trace.gpu_ops.iter().all(|op| op.kind == OpKind::Copy));
}

#[test]
fn copies_of_pageable_memory_are_named_by_their_memory_kinds() {
    let columns = "start, end, copyKind, srcKind, dstKind";
    let connection = export(&format!("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY ({columns})"));
    // Pageable both ways, pinned both ways, and kinds that were not recorded.
    let rows = [[1, 2, 1, 0, 2], [2, 3, 2, 2, 0], [3, 4, 1, 1, 2], [4, 5, 2, 2, 1], [5, 6, 1, 0, 0]];
    integers(&connection, "CUPTI_ACTIVITY_KIND_MEMCPY", columns, &rows);
    let names = [
        "[CUDA memcpy Host-to-Device] (Pageable -> Device)",
        "[CUDA memcpy Device-to-Host] (Device -> Pageable)",
        "[CUDA memcpy Host-to-Device]",
        "[CUDA memcpy Device-to-Host]",
        "[CUDA memcpy Host-to-Device]",
    ];
    assert_eq!(op_names(&trace(&connection)), names);
}

#[test]
fn only_emit_nvtx_numbers_are_removed_from_range_names() {
    let connection = export("CREATE TABLE NVTX_EVENTS (start, end, eventType, text, globalTid)");
    let texts = [
        ("aten::mm, seq = 12, op_id = 815", "aten::mm"),
        ("aten::view, op_id = 314290", "aten::view"),
        ("aten::add, seq = 7, sizes = [[2, 2]]", "aten::add"),
        ("step, op_id = none", "step, op_id = none"),
        ("bs = 4, seq = long", "bs = 4, seq = long"),
    ];
    for (start, (text, _)) in (0..).zip(texts) {
        connection.execute("INSERT INTO NVTX_EVENTS VALUES (?1, ?1 + 5, 59, ?2, 1)", (start, text)).unwrap();
    }
    let trace = trace(&connection);
    let names: Vec<&str> = trace.ranges.iter().map(|range| trace.ranges.names.get(range.name)).collect();
    assert_eq!(names, texts.map(|(_, name)| name));
}

#[test]
fn graph_replays_are_not_gpu_ops() {
    let trace = trace(&export(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId, streamId, graphId, globalPid);
         INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (20, 30, 1, 7, 3, 0), (5, 9, 1, 7, 3, 0)",
    ));
    let replays: Vec<_> = trace.graph_replays.iter().map(|replay| (replay.start.0, replay.duration.0)).collect();
    assert_eq!((replays, trace.gpu_ops.len()), (vec![(5, 4), (20, 10)], 0));
}

/// Two processes number their calls alike.
#[test]
fn graph_replays_are_linked_to_their_launches() {
    let connection = decode_loop(Generation::S3_25);
    run(
        &connection,
        "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId, streamId, correlationId, globalPid)",
    );
    let columns = "start, end, deviceId, streamId, correlationId, globalPid";
    let [first, second] = LOOP_PIDS.map(global_pid);
    let rows = [[70_000, 71_000, 0, 7, 2, second], [60_000, 61_000, 0, 7, 2, first], [80_000, 81_000, 0, 7, 99, first]];
    integers(&connection, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", columns, &rows);
    let trace = trace(&connection);
    let calls = trace.graph_replays.iter().map(|replay| trace.calls.get(replay.launch?.0 as usize));
    let of_call = calls.map(|call| {
        let process = trace.threads[call?.thread.0 as usize].process;
        Some((trace.processes[process.0 as usize].pid, trace.calls.names.get(call?.name)))
    });
    let expected = LOOP_PIDS.map(|pid| Some((pid, "cudaGraphLaunch_v10000")));
    assert_eq!(of_call.collect::<Vec<_>>(), [expected[0], expected[1], None]);
}

/// In a real export each replay has its own launch.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn graph_replays_of_a_shared_export_are_linked_to_their_launches() {
    let path = shared("traces/nsys/cuda_graph_level_s2025.5.sqlite");
    let trace = open(&path, "x").unwrap();
    let calls = trace.graph_replays.iter().map(|replay| trace.calls.get(replay.launch.unwrap().0 as usize).unwrap());
    let found: Vec<_> = calls.map(|call| (call.start.0, trace.calls.names.get(call.name))).collect();
    assert_eq!(found, [(339_395_196, "cudaGraphLaunch_v10000"), (339_410_087, "cudaGraphLaunch_v10000")]);
}

#[test]
fn tables_with_other_names_are_used_if_the_usual_ones_are_missing() {
    let connection = decode_loop(Generation::S3_25);
    let expected = trace(&connection);
    for (old, new) in [
        ("CUPTI_ACTIVITY_KIND_KERNEL", r#"my "KERNEL"; DROP TABLE StringIds; --"#),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "a 'CUDA_API' [table]"),
        ("NVTX_EVENTS", "nvtx, of all kinds"),
        ("OSRT_API", "x_osrt"),
    ] {
        run(&connection, &format!("ALTER TABLE {old} RENAME TO \"{}\"", new.replace('"', "\"\"")));
    }
    assert_eq!(trace(&connection), expected);
}

#[test]
fn views_triggers_and_virtual_tables_are_ignored() {
    let connection = decode_loop(Generation::S3_25);
    let mut expected = trace(&connection);
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, true).unwrap();
    run(
        &connection,
        "DROP TABLE OSRT_API; DROP TABLE GPU_METRICS;
         CREATE VIEW OSRT_API AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n)
             SELECT start, start + 1 AS end, 14 AS nameId, 0 AS globalTid FROM n;
         CREATE VIEW GPU_METRICS AS SELECT 1 AS timestamp, 4 AS metricId, 1 AS value, 0 AS typeId;
         CREATE TRIGGER CUPTI_ACTIVITY_KIND_DRIVER AFTER INSERT ON StringIds BEGIN DELETE FROM StringIds; END;",
    );
    expected.host_waits.clear();
    expected.metrics.clear();
    (expected.events.cpu, expected.events.other) = (12, 2);
    assert_eq!(trace(&connection), expected);
}

#[test]
fn a_view_instead_of_a_gpu_table_is_refused_with_the_sql_to_fix_it() {
    let connection = decode_loop(Generation::S3_25);
    let expected = trace(&connection);
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, true).unwrap();
    run(
        &connection,
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO rows;
         CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM rows;
         CREATE VIEW GPU_MEMCPY AS SELECT 1;",
    );
    let error = refusal(&connection);
    assert!(error.contains("CUPTI_ACTIVITY_KIND_KERNEL is a view") && error.contains("nsys export"), "{error}");
    let remedy = error.split('`').nth(1).unwrap();
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, true).unwrap();
    run(&connection, remedy);
    assert_eq!(trace(&connection), expected, "a view next to the table does no harm");
}

#[test]
fn gpu_tables_without_device_column_count_as_one_gpu_and_give_a_problem() {
    let trace = trace(&changed_loop("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN deviceId"));
    let kernels = trace.gpu_ops.iter().filter(|op| op.kind == OpKind::Kernel);
    assert_eq!(kernels.map(|op| trace.devices[op.device.0 as usize].id.as_str()).collect::<Vec<_>>(), ["-1"; 6]);
    assert_eq!(problems(&trace), [(ProblemKind::NoDevices, 6)]);
}

#[test]
fn equal_numbers_on_two_machines_are_two_gpus_and_two_processes() {
    let id = |machine: i64| machine << 48 | global_pid(9);
    let of_machine = |machine: i64, other: i64| {
        let sql = format!(
            "CREATE TABLE PROCESSES (globalPid, name);
             INSERT INTO PROCESSES VALUES ({first}, 'one'), ({second}, 'two');
             CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, name);
             INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 6, 0, 7, 1, {first}, 'a'), (5, 6, 0, 7, 1, {second}, 'b');
             CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, name);
             INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, {first}, 1, 'l'), (2, 3, {second}, 1, 'm')",
            first = id(machine),
            second = id(other)
        );
        let trace = trace(&export(&sql));
        let devices: Vec<String> = trace.devices.iter().map(|device| device.id.clone()).collect();
        let processes: Vec<String> = trace.processes.iter().map(|process| process.name.clone()).collect();
        (devices, processes, trace.gpu_ops.launches().map(|call| call.unwrap().0).collect::<Vec<_>>())
    };
    let (devices, processes, launches) = of_machine(1, 257);
    assert_eq!(
        (devices.join(", "), processes.join(", ")),
        ("[machine 1] 0, [machine 2] 0".into(), "[machine 1] one, [machine 2] two".into())
    );
    assert_eq!(launches, [0, 1]);
    let (devices, processes, _) = of_machine(1, 1);
    assert_eq!((devices.join(", "), processes.join(", ")), ("0".into(), "one".into()));
}

#[test]
fn indexes_do_not_change_the_row_order() {
    let trace = trace(&export(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, name);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 6, 0, 9, 1, 1, 'first'), (5, 6, 0, 1, 1, 1, 'second');
         CREATE INDEX covering ON CUPTI_ACTIVITY_KIND_KERNEL
             (streamId, start, end, deviceId, correlationId, globalPid, name)",
    ));
    assert_eq!(op_names(&trace), ["first", "second"]);
}

#[test]
fn errors_name_other_databases() {
    for (name, columns, word) in [
        ("rocpd_op", "id", "ROCm profiler"),
        ("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "_id_ INTEGER, start, end, name", "nvprof"),
        ("songs", "id, title", "not an Nsight Systems export"),
        ("KERNELS_OF_LINUX", "start, end, name", "not an Nsight Systems export"),
    ] {
        let message = refusal(&export(&format!("CREATE TABLE {name} ({columns})")));
        assert!(message.starts_with("x.sqlite: ") && message.contains(word), "{message}");
    }
    assert!(refusal(&database()).contains("not an Nsight Systems export"));
}

#[test]
fn progress_is_reported() {
    let connection = export(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000)
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT i, i + 1 FROM n",
    );
    let mut reported = Vec::new();
    let trace = read(&connection, "x.sqlite", &mut |rows| reported.push(rows)).unwrap();
    assert_eq!((trace.gpu_ops.len(), reported), (150_000, vec![1 << 16, 2 << 16]));
}

#[test]
fn reading_a_file_ends_early_when_it_is_cancelled() {
    const ROWS: u64 = 1_000_000;
    let connection = export(&format!(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT i, i + 1 FROM n"
    ));
    let (path, _) = file(&connection, "cancelled");
    let cancelled = Arc::new(AtomicBool::new(false));
    let (flag, mut rows_read) = (Arc::clone(&cancelled), 0);
    let mut progress = |rows| {
        cancelled.store(true, Ordering::Relaxed);
        rows_read = rows;
    };
    let error = open_with(&path, "x", &mut progress, move || flag.load(Ordering::Relaxed)).unwrap_err();
    std::fs::remove_file(path).unwrap();
    assert_eq!(error.to_string(), "x: reading was cancelled");
    assert!((1..ROWS / 2).contains(&rows_read), "{rows_read}");
}

/// Writes the decode loop fixture to a file with small pages.
fn loop_file(name: &str) -> (PathBuf, Vec<u8>) {
    file(&changed_loop("PRAGMA page_size=512; VACUUM"), name)
}

#[test]
fn a_cut_file_gives_its_readable_rows_and_a_problem_or_is_refused() {
    let (path, bytes) = loop_file("cut");
    let whole = open(&path, "x").unwrap();
    let (mut refused, mut cut) = (0, 0);
    for length in (0..bytes.len()).step_by(61) {
        std::fs::write(&path, &bytes[..length]).unwrap();
        match open(&path, "x") {
            Ok(trace) => {
                cut += 1;
                assert!(trace.problems.has(ProblemKind::Truncated), "{length}: {:?}", problems(&trace));
                assert!(trace.gpu_ops.len() <= whole.gpu_ops.len(), "{length}");
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    std::fs::remove_file(&path).unwrap();
    assert!(refused > 5 && cut > 50, "{refused} refused, {cut} cut");
}

#[test]
fn flipped_bits_neither_panic_nor_add_rows() {
    let (path, bytes) = loop_file("flipped");
    let whole = open(&path, "x").unwrap();
    let mut at = 20_u64;
    for _ in 0..1_500 {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (position, bit) = ((at >> 33) as usize % bytes.len(), (at >> 29) & 7);
        let mut damaged = bytes.clone();
        damaged[position] ^= 1 << bit;
        std::fs::write(&path, &damaged).unwrap();
        if let Ok(trace) = open(&path, "x") {
            // A flipped page number can make SQLite read one page several times.
            assert!(trace.gpu_ops.len() <= 4 * whole.gpu_ops.len(), "bit {bit} of byte {position}");
        }
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_wal_mode_file_is_read_only_if_its_log_is_empty() {
    let (path, _) = loop_file("wal");
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE more (x); INSERT INTO more VALUES (1)").unwrap();
    let message = open(&path, "x.sqlite").unwrap_err().to_string();
    assert!(message.contains("-wal file") && message.contains("journal_mode=DELETE"), "{message}");
    writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(writer);
    let folder = path.with_extension("copied ?#%");
    std::fs::rename(&path, &folder).unwrap();
    assert_eq!(open(&folder, "x").unwrap().gpu_ops.len(), 10, "as a copy of the file alone");
    std::fs::remove_file(&folder).unwrap();
}

/// A database of NCCL ranges as `nsys export --include-json true` writes them, with launches and kernels.
struct NcclCalls(Connection);

impl NcclCalls {
    fn new() -> Self {
        let connection = export(
            "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
             CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, globalPid, streamId, correlationId, demangledName);
             CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId);
             CREATE TABLE NVTX_EVENTS (start, end, eventType, text, textId, globalTid, jsonTextId, jsonText);
             INSERT INTO StringIds VALUES (1, 'ncclDevKernel'), (2, 'cudaLaunchKernel'), (3, 'ncclAllReduce'),
                 (4, '{\"NCCL communicator ID\": 77, \"Message size [bytes]\": 4096}')",
        );
        Self(connection)
    }

    fn range(&self, thread: i64, start: i64, end: i64, name: &str, json: &str) {
        let sql = "INSERT INTO NVTX_EVENTS VALUES (?1, ?2, 59, ?3, NULL, ?4, NULL, NULLIF(?5, ''))";
        self.0.execute(sql, (start, end, name, global_tid(9, thread), json)).unwrap();
    }

    /// A launch and its kernel, which starts at 1000 times the launch's start.
    fn launch(&self, thread: i64, start: i64) {
        let (process, thread) = (global_pid(9), global_tid(9, thread));
        run(
            &self.0,
            &format!(
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({start}, {start} + 1, {thread}, {start}, 2);
                 INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL
                     VALUES ({start} * 1000, {start} * 1000 + 500, {process}, 7, {start}, 1)"
            ),
        );
    }

    /// Returns the message of each kernel, with the start of the kernel's launch.
    fn messages(&self) -> Vec<(i64, Collective)> {
        let trace = trace(&self.0);
        let launch = |op: u32| trace.gpu_ops.get(op as usize).unwrap().start.0 / 1_000;
        trace.collectives.iter().map(|(op, message)| (launch(*op), message.clone())).collect()
    }
}

#[test]
fn kernels_get_the_message_of_the_enclosing_nccl_call() {
    let calls = NcclCalls::new();
    let one = r#"{"NCCL communicator ID": 18446744073709551615, "Message size [bytes]": 1000}"#;
    let init = r#"{"NCCL communicator ID":18446744073709551615,"No. of ranks":4,"Rank":0}"#;
    calls.range(1, 1, 5, "ncclCommInitRank", init);
    calls.range(1, 9, 60, "a step of the program", r#"{"Message size [bytes]": 5}"#);
    let names = [(10, "ncclAllReduce"), (20, "ncclAllGather"), (30, "ncclReduceScatter"), (40, "ncclAlltoAll")];
    for (start, name) in names {
        calls.range(1, start, start + 5, name, one);
        calls.launch(1, start + 1);
    }
    // In no call; in a call of another thread; ended after its call.
    calls.launch(1, 50);
    calls.launch(2, 13);
    calls.range(1, 60, 65, "ncclBroadcast", one);
    calls.launch(1, 65);
    // Two kernels of one message: the bytes of each are unknown.
    calls.range(1, 70, 75, "ncclReduce", one);
    (71..=72).for_each(|start| calls.launch(1, start));
    let message = |launch, name: &str, bytes_in, bytes_out| {
        let (operation, communicator) = (name.to_owned(), "18446744073709551615".to_owned());
        let sizes = Collective { bytes_in: Some(bytes_in), bytes_out: Some(bytes_out), ..Collective::default() };
        (launch, Collective { operation, communicator, ranks: Some(4), ..sizes })
    };
    let expected = [
        message(11, "ncclAllReduce", 1_000, 1_000),
        message(21, "ncclAllGather", 1_000, 4_000),
        message(31, "ncclReduceScatter", 4_000, 1_000),
        message(41, "ncclAlltoAll", 4_000, 4_000),
    ];
    assert_eq!(calls.messages(), expected);
}

#[test]
fn message_sizes_are_read_under_all_field_names_and_spellings() {
    let calls = NcclCalls::new();
    let texts = [
        r#"{"Message size [bytes]": 4096}"#,
        r#"{"size":"4,096","comm":"0xabc"}"#,
        r#"{"Size": 4096, "opType": {"name": "Sum"}, "commHash": 1, "nRanks": 2}"#,
        r#"{"Communicator ID": 5, "Ranks": 2}"#,
        r#"{"Message size [bytes]": -1}"#,
        r#"{"Message size [bytes]": "#,
        "[4096]",
        "no JSON",
    ];
    for (at, json) in (0..).zip(texts) {
        calls.range(1, 10 * at, 10 * at + 5, "ncclAllReduce", json);
        calls.launch(1, 10 * at + 1);
    }
    let sql = "INSERT INTO NVTX_EVENTS VALUES (100, 105, 59, NULL, 3, ?1, 4, NULL)";
    calls.0.execute(sql, [global_tid(9, 1)]).unwrap();
    calls.launch(1, 101);
    let messages = calls.messages().into_iter();
    let found: Vec<_> = messages.map(|(launch, message)| (launch, message.bytes_in, message.ranks)).collect();
    let size = Some(4_096);
    assert_eq!(found, [(1, size, None), (11, size, None), (21, size, Some(2)), (101, size, None)]);
}

#[test]
fn kernels_of_a_group_get_messages_if_the_assignment_is_certain() {
    let calls = NcclCalls::new();
    let group = |start: i64, inside: &[(&str, u64)], launches: i64| {
        calls.range(1, start, start + 1, "ncclGroupStart", "");
        for (at, (name, bytes)) in (1..).zip(inside) {
            let json = format!(r#"{{"NCCL communicator ID": 77, "Message size [bytes]": {bytes}}}"#);
            calls.range(1, start + 5 * at, start + 5 * at + 2, name, &json);
        }
        let end = start + 50;
        calls.range(1, end, end + 40, "ncclGroupEnd", "");
        (0..launches).for_each(|at| calls.launch(1, end + 2 + 2 * at));
    };
    group(100, &[("ncclSend", 10), ("ncclRecv", 200), ("ncclSend", 30)], 1);
    group(200, &[("ncclAllReduce", 10), ("ncclAllReduce", 20)], 1);
    group(300, &[("ncclAllReduce", 7), ("ncclAllReduce", 7)], 2);
    group(400, &[("ncclAllReduce", 7), ("ncclAllReduce", 8)], 2);
    group(500, &[("ncclAllReduce", 7), ("ncclBroadcast", 7)], 1);
    group(600, &[], 1);
    // A group that began before the trace: its first messages are lost.
    calls.range(2, 700, 702, "ncclAllReduce", r#"{"Message size [bytes]": 9}"#);
    calls.range(2, 710, 720, "ncclGroupEnd", "");
    calls.launch(2, 712);
    // The end of a group in a group launches nothing.
    calls.range(3, 800, 801, "ncclGroupStart", "");
    group(900, &[("ncclAllReduce", 5)], 0);
    calls.range(1, 1_000, 1_002, "ncclAllReduce", r#"{"Message size [bytes]": 11}"#);
    calls.launch(1, 1_000);
    let messages = calls.messages();
    let bytes = |message: &Collective| (message.bytes_in.unwrap(), message.bytes_out.unwrap());
    let found: Vec<_> = messages.iter().map(|(launch, row)| (*launch, row.operation.as_str(), bytes(row))).collect();
    let expected = [
        (152, "ncclSendRecv", (40, 200)),
        (252, "ncclAllReduce", (30, 30)),
        (352, "ncclAllReduce", (7, 7)),
        (354, "ncclAllReduce", (7, 7)),
        (1_000, "ncclAllReduce", (11, 11)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn devices_have_the_figures_of_their_hardware() {
    let export = changed_loop(
        "ALTER TABLE TARGET_INFO_GPU ADD COLUMN smCount INT; ALTER TABLE TARGET_INFO_GPU ADD COLUMN totalMemory INT;
         ALTER TABLE TARGET_INFO_GPU ADD COLUMN computeMajor INT; ALTER TABLE TARGET_INFO_GPU ADD COLUMN computeMinor INT;
         UPDATE TARGET_INFO_GPU SET smCount = 132, totalMemory = 84974239744, computeMajor = 9, computeMinor = 0;",
    );
    let expected =
        DeviceProperties { capability: Some(90), multiprocessors: Some(132), memory_bytes: Some(84_974_239_744) };
    assert_eq!(trace(&export).devices[0].properties, expected);
    let absurd =
        changed_loop("ALTER TABLE TARGET_INFO_GPU ADD COLUMN smCount INT; UPDATE TARGET_INFO_GPU SET smCount = -1;");
    assert_eq!(trace(&absurd).devices[0].properties, DeviceProperties::default());
}

#[test]
fn a_second_text_of_a_name_is_counted() {
    let keyless = |texts: &str| {
        export(&format!(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, demangledName INTEGER);
             CREATE TABLE StringIds (id INTEGER, value TEXT);
             INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 0, 5);
             INSERT INTO StringIds VALUES {texts}"
        ))
    };
    let twice = trace(&keyless("(5, 'a'), (6, 'x'), (5, 'b'), (5, 'c'), (6, 'y')"));
    assert_eq!((op_names(&twice), problems(&twice)), (vec!["a"], vec![(ProblemKind::RepeatedName, 1)]));
    assert_eq!(problems(&trace(&keyless("(5, 'a'), (5, 'a')"))), [], "the same text is no doubt");
}

#[test]
fn warnings_of_nsys_are_kept_if_there_is_no_gpu_op() {
    let sql = "CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, severity INTEGER, text TEXT);
        INSERT INTO DIAGNOSTIC_EVENT VALUES (1, 1, 'started'), (2, 2, ' Not all CUDA events. '), (3, 3, 'No CUDA events'),
            (4, 3, 'No CUDA events'), (5, 4, 'verbose')";
    let calls =
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER);
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, 3, 5);
        INSERT INTO StringIds VALUES (5, 'cudaLaunchKernel_v7000');";
    let without_ops = trace(&export(&format!("{calls} {sql}")));
    assert_eq!(without_ops.diagnostics, ["Not all CUDA events.", "No CUDA events"]);
    assert_eq!(trace(&changed_loop(sql)).diagnostics, [""; 0]);
    let notices = crate::analysis::testing::analyze(&without_ops).notices;
    let notice = notices.iter().find(|notice| notice.code == "no_gpu_events").unwrap();
    assert!(notice.message.contains("recorded no GPU op although kernels were launched (1 launch call)"));
    assert!(notice.message.ends_with(r#""Not all CUDA events.", "No CUDA events""#), "{}", notice.message);
    assert!(notice.advice.contains("CUPTI allows one subscriber"));
}
