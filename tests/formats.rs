//! Traces of other profilers than torch.profiler and Nsight Systems: rocprofv3, rocmProfileData, torch_npu, Proton.
//!
//! Facts of the samples in `../shared` come from `tests/oracle/formats.py`, which reads the raw files by itself. Small files
//! are written here and their results worked out by hand.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

use crate::common;
use common::{directory, gpuprism, json_runs, printed, shared};
use gpuprism::input::{Imported, Importer, nsys};
use gpuprism::trace::{Format, NodeNote, Ns, ProblemKind, Trace, Window};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

fn read(label: &str, bytes: &[u8]) -> gpuprism::Result<Trace> {
    read_in_chunks(label, bytes, usize::MAX)
}

fn read_in_chunks(label: &str, bytes: &[u8], chunk: usize) -> gpuprism::Result<Trace> {
    let mut importer = Importer::new(label);
    for part in bytes.chunks(chunk.min(bytes.len().max(1))) {
        importer.feed(part)?;
    }
    match importer.finish()? {
        Imported::Trace(trace) => Ok(*trace),
        Imported::Document(text) => panic!("a document: {text}"),
    }
}

/// Each op as `device/stream name start+duration <- call`.
fn ops(trace: &Trace) -> Vec<String> {
    let line = |(row, op): (usize, gpuprism::trace::GpuOp)| {
        let (device, name) = (&trace.devices[op.device.0 as usize].id, trace.names.get(op.name));
        let call = trace.gpu_ops.launch(row).map(|call| trace.calls.iter().nth(call.0 as usize).unwrap());
        let call = call.map_or(String::new(), |call| format!(" <- {}", trace.calls.names.get(call.name)));
        format!("{device}/{} {name} {}+{}{call}", op.stream, op.start.0, op.duration.0)
    };
    trace.gpu_ops.iter().enumerate().map(line).collect()
}

fn ranges(trace: &Trace) -> Vec<&str> {
    trace.ranges.iter().map(|range| trace.ranges.names.get(range.name)).collect()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

const KERNELS: &str = r#""Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"
"KERNEL_DISPATCH","Agent 2","1","3","7","1","9","void f<int, ""x"">(int)",11,1704161511420000100,1704161511420000150
"KERNEL_DISPATCH","Agent 2","1","3","7","2","9","g","11","1704161511420000160","1704161511420000200"
"#;
const CALLS: &str = r#""Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"HIP_RUNTIME_API_EXT","hipGraphLaunch","50","7","11","1704161511420000000","1704161511420000020"
"HIP_RUNTIME_API_EXT","hipGetDevice","50","7","12","1704161511420000030","1704161511420000031"
"MARKER_CORE_RANGE_API","decode","50","7","13","1704161511420000000","1704161511420000090"
"#;
const COPIES: &str = r#""Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE","Agent 0","Agent 2","14","1704161511420000300","1704161511420000310"
"#;
const AGENTS: &str = r#""Node_Id","Logical_Node_Id","Agent_Type","Cpu_Cores_Count","Cu_Count","Name","Vendor_Name","Product_Name"
0,0,"CPU",64,64,"EPYC","CPU","EPYC"
2,1,"GPU",0,304,"gfx942","AMD","AMD Instinct MI300X"
"#;

#[test]
fn the_tables_of_a_rocprofv3_run_are_one_trace() {
    let folder = directory("rocprof_set");
    for (name, text) in
        [("kernel_trace", KERNELS), ("hip_api_trace", CALLS), ("memory_copy_trace", COPIES), ("agent_info", AGENTS)]
    {
        std::fs::write(folder.join(format!("7_{name}.csv")), text.trim_end()).unwrap();
    }
    let files = ["7_agent_info.csv", "7_hip_api_trace.csv", "7_kernel_trace.csv", "7_memory_copy_trace.csv"];
    let of_files = json_runs(&folder, &files);
    let of_folder = json_runs(&folder, &["."]);
    assert_eq!((of_files.len(), &of_files), (1, &of_folder));
    let packed = directory("rocprof_set_gzipped");
    for file in files {
        let text = std::fs::read(folder.join(file)).unwrap();
        // One of them stays as it is.
        if file.contains("hip_api") {
            std::fs::write(packed.join(file), text).unwrap();
        } else {
            std::fs::write(packed.join(format!("{file}.gz")), gzip(&text)).unwrap();
        }
    }
    let [mut of_packed] = <[Value; 1]>::try_from(json_runs(&packed, &["."])).unwrap();
    of_packed["label"] = of_files[0]["label"].clone();
    assert_eq!(of_packed, of_files[0]);
    let whole = read("x.csv", [KERNELS, CALLS, COPIES, AGENTS].concat().as_bytes()).unwrap();
    assert_eq!(
        ops(&whole),
        [
            "2/3 void f<int, \"x\">(int) 1704161511420000100+50 <- hipGraphLaunch",
            "2/3 g 1704161511420000160+40 <- hipGraphLaunch",
            "2/-1 Memcpy HtoD 1704161511420000300+10",
        ]
    );
    assert_eq!((ranges(&whole), whole.calls.len(), whole.events.cpu), (vec!["decode"], 1, 3));
    assert_eq!(
        (whole.devices[0].name.as_str(), whole.devices[0].properties.multiprocessors),
        ("AMD Instinct MI300X", Some(304))
    );
    assert_eq!((whole.processes.len(), whole.processes[0].pid), (1, 50));
    let alone = read("x.csv", KERNELS.as_bytes()).unwrap();
    assert_eq!((alone.gpu_ops.len(), alone.calls.len(), alone.format), (2, 0, Format::RocprofCsv));
}

#[test]
fn rows_of_a_table_with_other_columns_line_ends_or_damage_are_read_as_far_as_possible() {
    let windows = [KERNELS, CALLS].concat().replace('\n', "\r\n");
    assert_eq!(ops(&read("x.csv", windows.as_bytes()).unwrap()).len(), 2);
    let foreign = KERNELS
        .replace("\"Stream_Id\",", "")
        .replace("\"1\",\"3\",", "\"1\",")
        .replace("\"Kind\"", "\"Kind\",\"Color\"");
    let foreign = foreign.replace("KERNEL_DISPATCH\"", "KERNEL_DISPATCH\",\"red\"");
    assert_eq!(ops(&read("x.csv", foreign.as_bytes()).unwrap())[1], "2/1 g 1704161511420000160+40");
    let damaged = KERNELS.replacen("\"KERNEL_DISPATCH\",\"Agent 2\"", "\"KERNEL_DISPATCH\",\"Agent 2", 1)
        + "\"KERNEL_DISPATCH\",\"Agent 2\",\"1\",\"3\",\"7\",\"2\",\"9\",\"late\",\"11\",\"99999999999999999999\",\"5\"\n";
    let trace = read("x.csv", damaged.as_bytes()).unwrap();
    assert_eq!(ops(&trace).len(), 1);
    assert!(trace.problems.has(ProblemKind::UnreadableRow) && trace.problems.has(ProblemKind::OpWithoutTime));
    let folder = directory("damaged_rocprof");
    std::fs::write(folder.join("x_kernel_trace.csv"), damaged).unwrap();
    let report = printed(&folder, ["report", "x_kernel_trace.csv", "--all"]);
    assert!(report.contains("could not be read") && !report.contains("nsys"), "{report}");
}

/// Two kernels, the first with both counters, the second with reads and a counter of something else.
const COUNTERS: &str = r#""Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Kernel_Name","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"
"11","1","Agent 2","1","50","void f<int, ""x"">(int)","FETCH_SIZE","10.625000","1704161511420000100","1704161511420000150"
"11","1","Agent 2","1","50","void f<int, ""x"">(int)","WRITE_SIZE","0.500000","1704161511420000100","1704161511420000150"
"11","2","Agent 2","1","50","g","SQ_WAVES","77","1704161511420000160","1704161511420000200"
"11","2","Agent 2","1","50","g","FETCH_SIZE","2","1704161511420000160","1704161511420000200"
"#;

/// Row of the op, bytes read, bytes written.
fn traffic(trace: &Trace) -> Vec<(u32, Option<u64>, Option<u64>)> {
    trace.memory_traffic.iter().map(|(row, traffic)| (*row, traffic.read, traffic.written)).collect()
}

#[test]
fn bytes_by_counters_belong_to_the_kernels_of_the_same_run_only() {
    // A counted kilobyte has 1024 bytes.
    let expected = [(0, Some(10_880), Some(512)), (1, Some(2_048), None)];
    let alone = read("c.csv", COUNTERS.as_bytes()).unwrap();
    assert_eq!((alone.gpu_ops.len(), traffic(&alone)), (2, expected.to_vec()));
    let same_run = read("c.csv", [KERNELS, COUNTERS, CALLS].concat().as_bytes()).unwrap();
    assert_eq!((ops(&same_run).len(), traffic(&same_run)), (2, expected.to_vec()));
    assert_eq!(same_run.problems.iter().count(), 0);
    // Another run has the same ids and names, but other times.
    let other_run = read("c.csv", [KERNELS, &COUNTERS.replace("0150\"", "0151\"")].concat().as_bytes()).unwrap();
    assert_eq!((other_run.gpu_ops.len(), traffic(&other_run)), (2, expected[1..].to_vec()));
    let problems: Vec<_> = other_run.problems.iter().map(|problem| (problem.kind, problem.count)).collect();
    assert_eq!(problems, [(ProblemKind::CounterOfOtherRun, 1)]);
    let damaged =
        read("c.csv", COUNTERS.replace("10.625000", "-1").replace("\"2\",\"1704", "\"nan\",\"1704").as_bytes());
    let damaged = damaged.unwrap();
    assert_eq!(traffic(&damaged), [(0, None, Some(512))]);
    assert!(damaged.problems.has(ProblemKind::UnreadableRow));
}

#[test]
fn the_report_has_the_bytes_of_the_counters() {
    let folder = directory("rocprof_counters");
    std::fs::write(folder.join("7_counter_collection.csv"), COUNTERS).unwrap();
    let run = &json_runs(&folder, &["7_counter_collection.csv"])[0];
    let rows = run["sections"]["roofline"]["rows"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["kernel_name"] == name).unwrap();
    let f = row("void f<int, \"x\">(int)");
    // 10880 and 512 bytes in 50 ns; 2048 bytes in 40 ns.
    assert_eq!([&f["bytes"], &f["read_mb"], &f["basis"]], [&json!(11_392), &json!(0.01088), &json!("counters")]);
    assert!((f["tb_per_s"].as_f64().unwrap() - 0.22784).abs() < 1e-9, "{f}");
    let g = row("g");
    assert!((g["read_tb_per_s"].as_f64().unwrap() - 0.0512).abs() < 1e-9 && g["tb_per_s"].is_null(), "{g}");
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn bytes_of_a_real_counter_file_are_those_that_a_separate_program_finds() {
    let folder = shared("traces/rocm");
    let path = folder.join("rocprofv3_prefill_fetch_counter_collection.csv").display().to_string();
    let facts = facts(std::slice::from_ref(&path));
    let expected: BTreeMap<&str, u64> = facts["read_bytes"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.as_u64().unwrap()))
        .collect();
    let trace = common::import(Path::new(&path));
    let mut read: BTreeMap<&str, u64> = BTreeMap::new();
    for (row, traffic) in &trace.memory_traffic {
        assert_eq!(traffic.written, None);
        let name = trace.names.get(trace.gpu_ops.get(*row as usize).unwrap().name);
        *read.entry(name).or_default() += traffic.read.unwrap();
    }
    assert_eq!((read, trace.gpu_ops.len() as u64), (expected, facts["kernels"].as_u64().unwrap()));
    // The kernels of the trace beside it ran in another run: nothing of one belongs to the other.
    let kernels = folder.join("rocprofv3_prefill_kernel_trace.csv");
    let both = [std::fs::read_to_string(kernels).unwrap(), std::fs::read_to_string(path).unwrap()].concat();
    let both = self::read("x.csv", both.as_bytes()).unwrap();
    assert_eq!(both.memory_traffic, []);
    let problems: Vec<_> = both.problems.iter().map(|problem| (problem.kind, problem.count)).collect();
    assert_eq!(problems, [(ProblemKind::CounterOfOtherRun, 54)]);
}

#[test]
fn tables_of_counters_give_each_kernel_once() {
    let row = |dispatch: u8, counter: &str| {
        format!(
            "\"1\",\"{dispatch}\",\"Agent 1\",\"1\",\"k\",\"{counter}\",\"1.5\",\"{dispatch}00\",\"{dispatch}50\"\n"
        )
    };
    let header = "\"Correlation_Id\",\"Dispatch_Id\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Name\",\"Counter_Name\",\
                  \"Counter_Value\",\"Start_Timestamp\",\"End_Timestamp\"\n";
    let table = [header, &row(1, "A"), &row(1, "B"), &row(2, "A")].concat();
    assert_eq!(ops(&read("c.csv", table.as_bytes()).unwrap()), ["1/1 k 100+50", "1/1 k 200+50"]);
    // The counted kernels are of another run than the table of kernels.
    let with_kernels = [KERNELS, &table].concat();
    assert_eq!(ops(&read("c.csv", with_kernels.as_bytes()).unwrap()).len(), 2);
}

const ROCPROF_JSON: &str = r#"{"rocprofiler-sdk-tool": [{"metadata": {"pid": 50},
"agents": [{"id": {"handle": 900}, "type": 2, "node_id": 4, "cu_count": 256, "product_name": "AMD Instinct MI350X"}],
"buffer_records": {"kernel_dispatch": [
 {"thread_id": 7, "correlation_id": {"internal": 5, "external": 0}, "start_timestamp": 1704161511420000100, "end_timestamp": 1704161511420000150, "dispatch_info": {"agent_id": {"handle": 900}, "queue_id": {"handle": 1}, "kernel_id": 8}, "stream_id": {"handle": 2}},
 {"correlation_id": {"internal": 6}, "start_timestamp": 20, "end_timestamp": 10, "dispatch_info": {"agent_id": {"handle": 900}, "kernel_id": 8}}],
"hip_api": [{"kind": 1, "operation": 1, "thread_id": 7, "correlation_id": {"internal": 5}, "start_timestamp": 1704161511420000000, "end_timestamp": 1704161511420000010}],
"memory_copy": [{"kind": 2, "operation": 0, "correlation_id": {"internal": 9}, "start_timestamp": 1704161511420000200, "end_timestamp": 1704161511420000230, "src_agent_id": {"handle": 1}, "dst_agent_id": {"handle": 900}, "bytes": 64}],
"marker_api": [{"kind": 3, "operation": 0, "thread_id": 7, "correlation_id": {"internal": 12}, "start_timestamp": 1704161511420000000, "end_timestamp": 1704161511420000090}]},
"strings": {"buffer_records": [{"kind": "NONE", "operations": []}, {"kind": "HIP_RUNTIME_API", "operations": ["hipFree", "hipLaunchKernel"]}, {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_HOST_TO_DEVICE"]}, {"kind": "MARKER_CORE_API", "operations": ["roctxRange"]}], "marker_api": [{"key": 12, "value": "pre\"fill"}]},
"kernel_symbols": [{"kernel_id": 8, "kernel_name": "_Zk.kd", "formatted_kernel_name": "k(int)"}]
}]}"#;

/// The counters of [`ROCPROF_JSON`]'s kernel, whose FETCH_SIZE has two instances.
const JSON_COUNTERS: &str = r#""counters": [{"id": {"handle": 576460752303423489}, "name": "FETCH_SIZE"},
 {"id": {"handle": 576460752303423490}, "name": "WRITE_SIZE"}, {"id": {"handle": 3}, "name": "SQ_WAVES"}],
"callback_records": {"counter_collection": [{"thread_id": 7, "dispatch_data": {"correlation_id": {"internal": 5, "external": 0},
 "start_timestamp": 1704161511420000100, "end_timestamp": 1704161511420000150, "dispatch_info": {"agent_id": {"handle": 900},
 "queue_id": {"handle": 1}, "kernel_id": 8, "dispatch_id": 1}}, "records": [
 {"counter_id": {"handle": 576460752303423489}, "value": 1.5}, {"counter_id": {"handle": 576460752303423489}, "value": 0.5},
 {"counter_id": {"handle": 576460752303423490}, "value": 3.0}, {"counter_id": {"handle": 3}, "value": 9.0}],
 "stream_id": {"handle": 2}}]},
"#;

fn json_with_counters() -> String {
    ROCPROF_JSON.replacen("\"buffer_records\"", &format!("{JSON_COUNTERS}\"buffer_records\""), 1)
}

#[test]
fn rocprofv3_json_has_the_bytes_of_the_counters() {
    let text = json_with_counters();
    let with_kernels = read("r.json", text.as_bytes()).unwrap();
    let without = read("r.json", ROCPROF_JSON.as_bytes()).unwrap();
    assert_eq!((ops(&with_kernels), traffic(&with_kernels)), (ops(&without), vec![(0, Some(2_048), Some(3_072))]));
    let counters_only = text.replacen("\"kernel_dispatch\"", "\"nothing\"", 1);
    let trace = read("r.json", counters_only.as_bytes()).unwrap();
    assert_eq!((ops(&trace)[0].as_str(), traffic(&trace)), (ops(&without)[0].as_str(), traffic(&with_kernels)));
    let problems: Vec<ProblemKind> = trace.problems.iter().map(|problem| problem.kind).collect();
    assert_eq!(problems, [ProblemKind::KernelOfCounterRun], "idle time is the profiler's");
}

#[test]
fn names_in_rocprofv3_json_may_come_after_the_records() {
    let trace = read("r.json", ROCPROF_JSON.as_bytes()).unwrap();
    assert_eq!(
        ops(&trace),
        ["4/2 k(int) 1704161511420000100+50 <- hipLaunchKernel", "4/-1 Memcpy HtoD 1704161511420000200+30"]
    );
    assert_eq!((ranges(&trace), &trace.bytes), (vec!["pre\"fill"], &vec![(1, 64)]));
    assert_eq!((trace.devices[0].name.as_str(), trace.processes[0].pid), ("AMD Instinct MI350X", 50));
    assert!(trace.problems.has(ProblemKind::ImpossibleDuration) && !trace.problems.has(ProblemKind::MissingName));
}

/// Tables of rocprofiler-sdk's schema 3 for one process, with the columns that matter and two that do not.
fn add_rocpd_process(base: &Connection, uuid: &str, pid: i64, offset: i64) {
    let sql = format!(
        r#"
        CREATE TABLE "rocpd_string_U" (id INTEGER PRIMARY KEY, guid TEXT, string TEXT NOT NULL);
        INSERT INTO "rocpd_string_U" VALUES (1, '', 'HIP_RUNTIME_API'), (2, '', 'hipGraphLaunch'), (3, '', 'MARKER_CORE_API'),
            (4, '', 'roctxRangePush'), (5, '', 'MEMORY_COPY_DEVICE_TO_HOST'), (6, '', 'HSA_CORE_API'), (7, '', 'hsa_signal_wait_Synchronize');
        CREATE TABLE "rocpd_info_process_U" (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER);
        INSERT INTO "rocpd_info_process_U" VALUES (1, '', 1, {pid});
        CREATE TABLE "rocpd_info_thread_U" (id INTEGER PRIMARY KEY, guid TEXT, pid INTEGER, tid INTEGER);
        INSERT INTO "rocpd_info_thread_U" VALUES (1, '', 1, {pid});
        CREATE TABLE "rocpd_info_agent_U" (id INTEGER PRIMARY KEY, type TEXT, absolute_index INTEGER, name TEXT, product_name TEXT, extdata TEXT);
        INSERT INTO "rocpd_info_agent_U" VALUES (1, 'CPU', 0, 'EPYC', 'EPYC', '{{}}'),
            (2, 'GPU', {pid}, 'gfx942', 'AMD Instinct MI300X', '{{"cu_count": 304}}');
        CREATE TABLE "rocpd_info_kernel_symbol_U" (id INTEGER PRIMARY KEY, kernel_name TEXT, display_name TEXT);
        INSERT INTO "rocpd_info_kernel_symbol_U" VALUES (3, '_Zk.kd', 'k(int)');
        CREATE TABLE "rocpd_event_U" (id INTEGER PRIMARY KEY, category_id INTEGER, stack_id INTEGER, correlation_id INTEGER);
        INSERT INTO "rocpd_event_U" VALUES (1, 1, 77, 0), (2, 1, 77, 0), (3, 3, 78, 0), (4, 1, 79, 0), (5, 6, 80, 0);
        CREATE TABLE "rocpd_kernel_dispatch_U" (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, agent_id INTEGER, kernel_id INTEGER,
            queue_id INTEGER, stream_id INTEGER, start BIGINT, "end" BIGINT, event_id INTEGER);
        INSERT INTO "rocpd_kernel_dispatch_U" VALUES (1, 1, 1, 2, 3, 1, 6, {start}, {end}, 2), (2, 1, 1, 2, 9, 1, 6, {end}, {end}, 2);
        CREATE TABLE "rocpd_memory_copy_U" (id INTEGER PRIMARY KEY, pid INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER,
            dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER, queue_id INTEGER, stream_id INTEGER, event_id INTEGER);
        INSERT INTO "rocpd_memory_copy_U" VALUES (1, 1, {end}, {end} + 5, 5, 1, 2, 4096, 1, 6, 4);
        CREATE TABLE "rocpd_region_U" (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER,
            event_id INTEGER, extdata TEXT);
        INSERT INTO "rocpd_region_U" VALUES (1, 1, 1, {start} - 50, {start} - 40, 2, 1, '{{}}'),
            (2, 1, 1, {start} - 60, {end}, 4, 3, '{{"message": "decode"}}'), (3, 1, 1, {start} - 45, {start} - 44, 7, 5, '{{}}');
        "#,
        start = 1_704_161_511_420_000_100 + offset,
        end = 1_704_161_511_420_000_150 + offset,
    );
    base.execute_batch(&sql.replace("_U\"", &format!("_{uuid}\""))).unwrap();
}

#[test]
fn a_rocpd_database_has_the_bytes_of_the_counters() {
    let base = Connection::open_in_memory().unwrap();
    add_rocpd_process(&base, "00001-a", 4, 0);
    let sql = r#"
        CREATE TABLE "rocpd_info_pmc_00001-a" (id INTEGER PRIMARY KEY, agent_id INTEGER, name TEXT, symbol TEXT);
        INSERT INTO "rocpd_info_pmc_00001-a" VALUES (1, 2, 'FETCH_SIZE', 'FETCH_SIZE'), (2, 2, 'WRITE_SIZE', 'WRITE_SIZE'),
            (3, 2, 'SQ_WAVES', 'SQ_WAVES');
        CREATE TABLE "rocpd_pmc_event_00001-a" (id INTEGER PRIMARY KEY, event_id INTEGER, pmc_id INTEGER, value REAL);
        INSERT INTO "rocpd_pmc_event_00001-a" VALUES (1, 9, 1, 1.5), (2, 9, 1, 0.5), (3, 9, 2, 3), (4, 9, 3, 8), (5, 2, 1, 1), (6, 70, 1, 1);
        UPDATE "rocpd_kernel_dispatch_00001-a" SET event_id = 9 WHERE id = 1;
        INSERT INTO "rocpd_kernel_dispatch_00001-a" SELECT 3, pid, tid, agent_id, kernel_id, queue_id, stream_id, start, "end", 2
            FROM "rocpd_kernel_dispatch_00001-a" WHERE id = 2;"#;
    base.execute_batch(sql).unwrap();
    let trace = nsys::read(&base, "r.db", &mut |_| {}).unwrap();
    assert_eq!(traffic(&trace), [(0, Some(2_048), Some(3_072))], "two kernels share event 2, and none has event 70");
    assert_eq!(
        trace
            .problems
            .iter()
            .filter(|problem| problem.kind == ProblemKind::UnknownCounter)
            .map(|problem| problem.count)
            .sum::<u64>(),
        2
    );
}

#[test]
fn equal_ids_on_two_hosts_of_a_rocpd_database_are_two_gpus_and_two_processes() {
    let devices = |hosts: [&str; 2], gpu_uuids: [i64; 2]| {
        let base = Connection::open_in_memory().unwrap();
        for ((suffix, host), gpu) in ["a", "b"].into_iter().zip(hosts).zip(gpu_uuids) {
            add_rocpd_process(&base, suffix, 1, 0);
            let sql = r#"CREATE TABLE "rocpd_info_node_U" (id INTEGER PRIMARY KEY, hash BIGINT, machine_id TEXT, hostname TEXT);
                INSERT INTO "rocpd_info_node_U" VALUES (1, 1, 'H', 'H');
                ALTER TABLE "rocpd_info_agent_U" ADD COLUMN uuid INTEGER; UPDATE "rocpd_info_agent_U" SET uuid = -1;"#;
            let sql = sql.replace("_U\"", &format!("_{suffix}\"")).replace("'H'", &format!("'{host}'"));
            base.execute_batch(&sql.replace("-1", &gpu.to_string())).unwrap();
        }
        let trace = nsys::read(&base, "r.db", &mut |_| {}).unwrap();
        let ids: Vec<String> = trace.devices.iter().map(|device| device.id.clone()).collect();
        (ids, trace.processes.len(), trace.gpu_ops.launches().flatten().map(|call| call.0).max())
    };
    let of_two_hosts = (vec!["[one] 1".to_owned(), "[two] 1".to_owned()], 2, Some(1));
    assert_eq!(devices(["one", "two"], [7, 7]), of_two_hosts);
    // Two containers of one host number their processes alike: their calls do not mix.
    assert_eq!(devices(["one", "one"], [7, 7]), (vec!["1".to_owned()], 2, Some(1)));
    let (ids, processes, _) = devices(["one", "one"], [7, 8]);
    assert_eq!((ids, processes), (vec!["1".to_owned()], 2), "the number tells the GPU of a host, not this column");
}

#[test]
fn all_processes_of_a_rocpd_database_are_read_without_its_views() {
    let base = Connection::open_in_memory().unwrap();
    add_rocpd_process(&base, "00001-a", 4, 0);
    add_rocpd_process(&base, "00002-b", 5, 1_000);
    base.execute_batch("CREATE VIEW rocpd_kernel_dispatch AS SELECT 1 / 0 AS start").unwrap();
    let trace = nsys::read(&base, "r.db", &mut |_| {}).unwrap();
    let expected: Vec<String> = [(4, 0), (5, 1_000)]
        .iter()
        .flat_map(|(device, offset)| {
            let (start, end) = (1_704_161_511_420_000_100_i64 + offset, 1_704_161_511_420_000_150_i64 + offset);
            [
                format!("{device}/6 k(int) {start}+50 <- hipGraphLaunch"),
                format!("{device}/6 (name 9 is missing) {end}+0 <- hipGraphLaunch"),
                format!("{device}/6 Memcpy DtoH {end}+5"),
            ]
        })
        .collect();
    assert_eq!(ops(&trace), expected);
    assert_eq!((ranges(&trace), trace.calls.len(), trace.events.cpu), (vec!["decode", "decode"], 2, 6));
    assert_eq!(
        (trace.devices[0].name.as_str(), trace.devices[0].properties.multiprocessors),
        ("AMD Instinct MI300X", Some(304))
    );
    assert_eq!((trace.bytes.clone(), trace.problems.has(ProblemKind::MissingName)), (vec![(2, 4096), (5, 4096)], true));
}

const RPD_JSON: &str = r#"[ {}
,{"name": "process_name", "ph": "M", "pid":"2","args":{"name":"GPU2"}}
,{"pid":"2","tid":"1","name":"k","ts":"8306017670485","dur":"9","ph":"X","args":{"desc":"KernelExecution"}}
,{"pid":"2","tid":"1","name":"CopyHostToDevice","ts":"8306017670500","dur":"2","ph":"X","args":{"desc":"CopyHostToDevice"}}
,{"pid":"7","tid":"7","name":"hipLaunchKernel","ts":"8306017670400","dur":"4","ph":"X","args":{"desc":""}}
,{"pid":"7","tid":"7","name":"UserMarker","ts":"8306017670390","dur":"40","ph":"X","args":{"desc":"prefill"}}
,{"pid":"7","tid":"7","cat":"api_op","name":"api_op","ts":"8306017670400","id":"3","ph":"s"}
,{"pid":"2","tid":"1","cat":"api_op","name":"api_op","ts":"8306017670485","id":"3","ph":"f"}
,{"pid":"0","name":"sclk","ph":"C","ts":8306020596759,"args":{"sclk":1700}}
]"#;

#[test]
fn rpd_chrome_json_has_the_ops_of_the_processes_named_gpu() {
    let trace = read("rpd.json", RPD_JSON.as_bytes()).unwrap();
    let expected = ["2/1 k 8306017670485000+9000 <- hipLaunchKernel", "2/1 CopyHostToDevice 8306017670500000+2000"];
    assert_eq!((ops(&trace), ranges(&trace)), (expected.map(str::to_owned).to_vec(), vec!["prefill"]));
    assert!(!trace.problems.has(ProblemKind::UnreadableEvent) && trace.format == Format::RpdChromeJson);
}

const ASCEND_JSON: &str = r#"[{"ph":"M","name":"process_name","pid":1,"args":{"name":"Python"}},
{"ph":"M","name":"process_name","pid":2,"args":{"name":"Ascend Hardware"}},
{"ph":"M","name":"process_name","pid":3,"args":{"name":"Communication"}},
{"ph":"M","name":"process_name","pid":4,"args":{"name":"CANN"}},
{"ph":"M","name":"process_name","pid":5,"args":{"name":"Overlap Analysis"}},
{"ph":"X","name":"execute_model","pid":1,"tid":1,"ts":"1704161511420000.000","dur":320,"cat":"cpu_op","args":{}},
{"ph":"X","name":"aten::mm","pid":1,"tid":1,"ts":"1704161511420001.000","dur":5.25,"cat":"cpu_op","args":{}},
{"ph":"X","name":"Node@launch","pid":4,"tid":9,"ts":"1704161511420002.500","dur":"1.000","args":{"connection_id":"8"}},
{"ph":"s","id":"34359738368","name":"HostToDevice8","cat":"HostToDevice","pid":4,"tid":9,"ts":"1704161511420002.500"},
{"ph":"f","bp":"e","id":"34359738368","name":"HostToDevice8","cat":"HostToDevice","pid":2,"tid":6,"ts":"1704161511420010.125"},
{"ph":"X","name":"aclnnMatmul_MatMulV3","pid":2,"tid":6,"ts":"1704161511420010.125","dur":20.5,"args":{"Model Id":1,"Task Type":"KERNEL_AICORE","Physic Stream Id":6,"Task Id":3}},
{"ph":"X","name":"EVENT_WAIT","pid":2,"tid":6,"ts":"1704161511420031","dur":3,"args":{"Task Type":"EVENT_WAIT","Physic Stream Id":6}},
{"ph":"X","name":"MEMCPY_ASYNC","pid":2,"tid":6,"ts":"1704161511420040","dur":2,"args":{"Task Type":"MEMCPY_ASYNC","Stream Id":6}},
{"ph":"X","name":"hcom_allReduce__123_4_1","pid":3,"tid":0,"ts":"1704161511420050","dur":30,"args":{"alg_type":"MESH-RING","count":1024,"data_type":"BFP16"}},
{"ph":"X","name":"Notify_Wait","pid":3,"tid":1,"ts":"1704161511420051","dur":3,"args":{"task type":"Notify Wait"}},
{"ph":"X","name":"Computing","pid":5,"tid":0,"ts":"1704161511420010.125","dur":20.5,"args":{}}]"#;

#[test]
fn ascend_trace_view_has_tasks_that_work_and_collectives() {
    let trace = read("trace_view.json", ASCEND_JSON.as_bytes()).unwrap();
    assert_eq!(
        ops(&trace),
        [
            "0/6 aclnnMatmul_MatMulV3 1704161511420010125+20500 <- Node@launch",
            "0/6 MEMCPY_ASYNC 1704161511420040000+2000",
            "0/-1 hcom_allReduce 1704161511420050000+30000",
        ]
    );
    assert_eq!((ranges(&trace), trace.collectives[0].1.bytes_in), (vec!["execute_model"], Some(2048)));
    assert_eq!((trace.format, trace.problems.iter().count()), (Format::AscendTraceView, 0));
}

const KERNEL_DETAILS: &str = "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Stream ID\n\
    1,aclnnMatmul_MatMulV3,MatMulV3,AI_CORE,\"1736413971558972.912\t\",10.34,5\n\
    1,layers.0/attn,FlashAttentionScore,MIX_AIC,\"1736413971558990.001\t\",7,5\n\
    1,hcom_allReduce__1,hcom_allReduce_,HCCL,N/A,7,5\n";

#[test]
fn kernel_details_have_decimal_microseconds_and_name_the_op() {
    let trace = read("kernel_details.csv", KERNEL_DETAILS.as_bytes()).unwrap();
    assert_eq!(
        ops(&trace),
        [
            "0/5 aclnnMatmul_MatMulV3 1736413971558972912+10340",
            "0/5 FlashAttentionScore (layers.0/attn) 1736413971558990001+7000"
        ]
    );
    assert!(trace.problems.has(ProblemKind::OpWithoutTime));
}

const PROTON: &str = concat!(
    r#"{"displayTimeUnit":"us","traceEvents":[{"args":{"call_stack":["ROOT","fwd","k"]},"cat":"kernel","dur":1.5,"name":"k","ph":"X","tid":7,"ts":0.0}]}"#,
    "\n",
    r#"{"displayTimeUnit":"us","traceEvents":[{"args":{"call_stack":["ROOT","g"]},"cat":"kernel","dur":2.0,"name":"g","ph":"X","tid":8,"ts":1e3},{"args":{"call_stack":["ROOT","g"]},"cat":"kernel","dur":2.0,"name":"g","ph":"X","tid":8,"ts":1.25}]}"#,
    "\n"
);

#[test]
fn each_line_of_a_proton_trace_is_a_stream() {
    let trace = read("p.json", PROTON.as_bytes()).unwrap();
    assert_eq!(ops(&trace), ["0/7 k 0+1500", "0/8 g 1250+2000", "0/8 g 1000000+2000"]);
    assert_eq!(trace.problems.iter().count(), 0);
}

#[test]
fn kernels_of_a_proton_trace_are_summed_by_their_scopes() {
    let kernel = |stack: &str, name: &str, start: u32| {
        format!(
            r#"{{"args":{{"call_stack":{stack}}},"cat":"kernel","dur":2.0,"name":"{name}","ph":"X","tid":7,"ts":{start}}}"#
        )
    };
    // Nested scopes, a frame of Python, no scope, a kernel whose scope has its name, and stacks that are none.
    let events = [
        kernel(r#"["ROOT","decode","layer.0","gemm"]"#, "gemm", 0),
        kernel(r#"["ROOT","decode","layer.0","norm"]"#, "norm", 10),
        kernel(r#"["ROOT","decode","m\u00fcl.py:7@step","gemm"]"#, "gemm", 20),
        kernel(r#"["ROOT","gemm"]"#, "gemm", 30),
        kernel(r#"["ROOT","gemm","gemm"]"#, "gemm", 40),
        kernel(r#"["ROOT",7]"#, "gemm", 50),
        kernel(r#""decode""#, "gemm", 60),
    ];
    let folder = directory("proton_scopes");
    std::fs::write(
        folder.join("p.json"),
        format!(r#"{{"displayTimeUnit":"us","traceEvents":[{}]}}"#, events.join(",")),
    )
    .unwrap();
    let section = &json_runs(&folder, &["p.json"])[0]["sections"]["graph_annotations"];
    let rows = section["rows"].as_array().unwrap().iter();
    let rows: Vec<(&str, u64)> =
        rows.map(|row| (row["range_name"].as_str().unwrap(), row["kernel_count"].as_u64().unwrap())).collect();
    assert_eq!(rows, [("decode/layer.0", 2), ("decode/m\u{fc}l.py:7@step", 1), ("gemm", 1)]);
    assert_eq!(
        (&section["title"], &section["summary"]["mapped_kernel_count"]),
        (&json!("Kernel time by scope"), &json!(4))
    );
}

const NSYS_CHROME: &str = r#"{"traceEvents": [{"name": "k", "ph": "X", "cat": "cuda", "ts": 10.5, "dur": 4.0, "tid": "Stream 7", "pid": "Device 1", "args": {}},
{"name": "decode", "ph": "X", "cat": "nvtx", "ts": 8.0, "dur": 9.0, "tid": "NVTX Thread 3", "pid": "Device 1", "args": {}},
{"name": "decode", "ph": "X", "cat": "nvtx-kernel", "ts": 10.5, "dur": 4.0, "tid": "NVTX Kernel Thread 3", "pid": "Device 1", "args": {}}]}"#;

#[test]
fn chrome_json_of_an_nsight_export_has_its_kernels_and_ranges() {
    let trace = read("n.json", NSYS_CHROME.as_bytes()).unwrap();
    assert_eq!((ops(&trace), ranges(&trace)), (vec!["1/7 k 10500+4000".to_owned()], vec!["decode"]));
}

#[test]
fn chrome_json_of_an_nsight_export_links_kernels_to_the_calls_of_their_own_process() {
    // Two processes, each with a device of its own, count their calls from 1.
    let events = [0, 1].map(|device| {
        let event = |cat: &str, name: &str, tid: &str, (start, duration): (u32, u32)| {
            format!(
                r#"{{"name": "{name}", "ph": "X", "cat": "{cat}", "ts": {start}, "dur": {duration}, "tid": "{tid} 3", "pid": "Device {device}", "args": {{"correlationId": 1}}}}"#
            )
        };
        let at = 100 * device;
        [
            event("nvtx", &format!("range {device}"), "NVTX Thread", (at, 50)),
            event("cuda_api", "cudaLaunchKernel", "CUDA API Thread", (at + 10, 5)),
            event("cuda", "k", "Stream", (at + 20, 30)),
        ]
        .join(",")
    });
    let folder = directory("nsys_chrome");
    std::fs::write(folder.join("n.json"), format!(r#"{{"traceEvents": [{}]}}"#, events.join(","))).unwrap();
    let section = &json_runs(&folder, &["n.json"])[0]["sections"]["nvtx_kernel_time"];
    let mut rows: Vec<(&str, u64)> = section["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["range_name"].as_str().unwrap(), row["total_kernel_time_ns"].as_u64().unwrap()))
        .collect();
    rows.sort_unstable();
    assert_eq!(rows, [("range 0", 30_000), ("range 1", 30_000)], "{section}");
}

#[test]
fn an_xpu_trace_is_read_and_gets_no_advice_about_cuda() {
    let folder = directory("xpu");
    let kernels: String = (0..40)
        .map(|index| {
            let (start, launch) = (index * 1_000 + 900, index * 1_000);
            format!(
                r#"{{"ph":"X","cat":"xpu_runtime","name":"urEnqueueKernelLaunch","pid":5,"tid":5,"ts":{launch},"dur":5,"args":{{"correlation":{index}}}}},
                {{"ph":"X","cat":"kernel","name":"gemm_kernel","pid":0,"tid":0,"ts":{start},"dur":50,"args":{{"device":0,"stream":0,"sycl queue":1,"correlation":{index}}}}},"#
            )
        })
        .collect();
    let text = format!(r#"{{"deviceProperties": [], "traceEvents": [{}]}}"#, kernels.trim_end_matches(','));
    std::fs::write(folder.join("xpu.json"), text).unwrap();
    let report = printed(&folder, ["report", "xpu.json", "--all"]);
    let doctor = gpuprism(&folder, ["doctor", "xpu.json"]).stdout;
    assert!(report.contains("40 GPU ops") && !doctor.is_empty());
    for text in [report, doctor] {
        let lines: Vec<&str> = text.lines().filter(|line| line.to_lowercase().contains("cuda")).collect();
        assert!(lines.is_empty(), "{lines:#?}");
    }
}

#[test]
fn reports_of_amd_and_ascend_traces_give_no_advice_about_cuda() {
    let folder = directory("vendors");
    for (name, text) in
        [("kernel_trace.csv", KERNELS), ("trace_view.json", ASCEND_JSON), ("kernel_details.csv", KERNEL_DETAILS)]
    {
        std::fs::write(folder.join(name), text).unwrap();
        for command in ["report", "doctor"] {
            let flags: &[&str] = if command == "report" { &["--all"] } else { &[] };
            let output = gpuprism(&folder, [&[command, name], flags].concat()).stdout;
            let lines: Vec<&str> = output
                .lines()
                .filter(|line| ["CUDA", "nsys", "cuda-"].iter().any(|word| line.contains(word)))
                .collect();
            assert!(!output.is_empty() && lines.is_empty(), "{command} {name}: {lines:#?}");
        }
    }
}

#[test]
fn host_and_event_nodes_of_graphs_are_counted_and_reported() {
    let node = |category: &str, ts: u32| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"n","pid":0,"tid":7,"ts":{ts},"dur":2,"args":{{"device":0,"stream":7}}}}"#
        )
    };
    let events =
        [node("kernel", 1), node("graph_host_node", 4), node("graph_event_node", 7), node("graph_host_node", 9)];
    let folder = directory("graph_nodes");
    std::fs::write(folder.join("t.json"), format!(r#"{{"traceEvents":[{}]}}"#, events.join(","))).unwrap();
    let run = &json_runs(&folder, &["t.json"])[0];
    let notice = run["notices"].as_array().unwrap().iter().find(|notice| notice["code"] == "graph_nodes").unwrap();
    assert_eq!((&run["totals"]["kernels"], &notice["count"]), (&Value::from(1), &Value::from(3)));
}

/// What PyTorch's exporter of CUPTI writes of a replay: nodes on a display lane, annotations, copies with their direction in `args`,
/// and flows of dependencies with ids from 2^40 on.
#[test]
fn a_trace_of_the_cupti_exporter_joins_its_nodes_with_the_replay_and_names_its_copies() {
    let node = |category: &str, name: &str, ts: &str, more: &str| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":0,"tid":900,"ts":{ts},"dur":2.5,"args":{{"device":0,"context":1,"stream":900,"correlation":5{more},"graph id":3,"graph node id":8,"original_stream":77}}}}"#
        )
    };
    let flow = |phase: &str, id: u64, pid: u64| {
        format!(r#"{{"ph":"{phase}","id":{id},"pid":{pid},"tid":900,"ts":10,"cat":"ac2g","name":"ac2g","bp":"e"}}"#)
    };
    let copy = r#","bytes":64,"copy kind":"HtoD","src kind":"pinned","dst kind":"device","flags":0"#;
    let events = [
        r#"{"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":50,"tid":51,"ts":1,"dur":3,"args":{"cbid":311,"correlation":5}}"#.to_owned(),
        node("gpu_memcpy", "Memcpy", "10", copy),
        node("kernel", "k", "13.001", ""),
        node("gpu_memset", "Memset", "16", r#","bytes":8,"value":0"#),
        node("graph_event_node", "EventRecord", "19", ""),
        node("graph_host_node", "HostNode: callback", "22", ""),
        flow("s", 1 << 40, 0),
        flow("f", 1 << 40, 0),
        flow("s", 5, 50),
        flow("f", 5, 0),
    ];
    let trace = read("t.json", format!(r#"{{"traceEvents":[{}]}}"#, events.join(",")).as_bytes()).unwrap();
    assert_eq!(
        ops(&trace),
        [
            "0/900 Memcpy HtoD (Pinned -> Device) 10000+2500 <- cudaGraphLaunch",
            "0/900 k 13001+2500 <- cudaGraphLaunch",
            "0/900 Memset 16000+2500 <- cudaGraphLaunch",
        ]
    );
    let problems: Vec<ProblemKind> = trace.problems.iter().map(|problem| problem.kind).collect();
    assert_eq!(problems, [ProblemKind::GraphNode]);
}

/// The `args` end as the two exporters of PyTorch write them: with an annotation as text, as an object on a lane that it names, as an
/// object whose lane is only stated; and without one. Two replays, the second not in the order of time.
#[test]
fn annotations_of_graph_nodes_and_the_streams_that_ran_them_are_read() {
    let op = |category: &str, name: &str, ts: u32, correlation: u32, note: &str| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":0,"tid":7,"ts":{ts},"dur":2,"args":{{"device":0,"stream":7,"correlation":{correlation},"bytes":8,"graph node id":8{note}}}}}"#
        )
    };
    let replay = |start: u32, correlation: u32| {
        [
            op(
                "kernel",
                "a",
                start,
                correlation,
                r#","name": "layers.0.\u0061ttn", "dtype": "bf16", "original_stream": 77"#,
            ),
            op("kernel", "b", start + 3, correlation, r#", "graph id": 3,"annotation":"layers.0.mlp""#),
            op("gpu_memcpy", "Memcpy HtoD", start + 6, correlation, r#","name":"copies","annotated_stream":64"#),
            op("kernel", "b", start + 9, correlation, ""),
        ]
    };
    let events = [replay(100, 6), replay(10, 5)].concat().join(",");
    let text = format!(r#"{{"cudaGraphInlineAnnotated": true, "traceEvents":[{events}]}}"#);
    let trace = read("t.json", text.as_bytes()).unwrap();
    let note = |annotation: &str, original_stream: Option<i64>, chosen_stream: Option<i64>| NodeNote {
        annotation: annotation.to_owned(),
        original_stream,
        chosen_stream,
    };
    let expected =
        [note("layers.0.attn", Some(77), None), note("layers.0.mlp", None, None), note("copies", None, Some(64))];
    let rows: Vec<(usize, &NodeNote)> = trace.node_notes.iter().collect();
    assert_eq!(rows, [0, 1, 2, 4, 5, 6].map(|row| (row, &expected[row % 4])));
    assert_eq!(trace.node_notes.of_row(3), None);
    // The window starts in the first replay: rows are those of the part.
    let part = trace.within(Window { start: Ns(13_000), end: Ns(17_000) });
    assert_eq!(part.node_notes.iter().collect::<Vec<_>>(), [(0, &expected[1]), (1, &expected[2])]);

    let folder = directory("graph_annotations");
    std::fs::write(folder.join("t.json"), text).unwrap();
    let section = &json_runs(&folder, &["t.json"])[0]["sections"]["graph_annotations"];
    let row = |name: &str| json!({"range_name": name, "kernel_count": 2, "total_kernel_time_ns": 4_000, "total_kernel_time_ms": 0.004, "avg_kernel_duration_us": 2.0, "pct_of_total_kernel_time": 100.0 / 3.0});
    assert_eq!(section["rows"], json!([row("layers.0.attn"), row("layers.0.mlp")]));
    assert_eq!((&section["summary"]["mapped_kernel_count"], &section["summary"]["moved_ops"]), (&json!(4), &json!(2)));
}

/// A tree as Proton writes it, with its members sorted and indented: a kernel of Triton below a scope with its work, the same kernel
/// below another one, and a kernel of a second GPU.
fn proton_tree() -> String {
    let kernel = |name: &str, device: &str, count: u64, time: u64, work: Value| {
        let mut metrics = json!({"count": count, "device_id": device, "device_type": "CUDA", "time (ns)": time});
        metrics.as_object_mut().unwrap().extend(work.as_object().unwrap().clone());
        json!({"children": [], "frame": {"name": name, "type": "function"}, "metrics": metrics})
    };
    let scope = |name: &str, children: Value| json!({"children": children, "frame": {"name": name, "type": "function"}, "metrics": {}});
    let work = json!({"flops8": 4_000_000_u64, "bytes": 20_000});
    let prefill = scope("prefill", json!([kernel("matmul_kernel", "0", 4, 1_704_161_511_420_000_001, work)]));
    let decode = [
        kernel("matmul_kernel", "0", 3, 1_000, json!({})),
        kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "1", 2, 500, json!({})),
    ];
    let mut root = scope("ROOT", json!([prefill, scope("decode", json!(decode))]));
    root["metrics"] = json!({"count": 0, "time (ns)": 0});
    let device = json!({"arch": "90", "bus_width": 5120, "clock_rate": 1_980_000, "memory_clock_rate": 2_619_000, "num_sms": 132});
    serde_json::to_string_pretty(&json!([root, {"CUDA": {"0": device, "1": device}}])).unwrap()
}

#[test]
fn a_proton_tree_has_the_totals_that_a_separate_program_finds_and_no_timeline() {
    let folder = directory("proton_tree");
    let path = folder.join("p.hatchet");
    std::fs::write(&path, proton_tree()).unwrap();
    let facts = facts(&[path.display().to_string()]);
    let run = &json_runs(&folder, &["p.hatchet"])[0];
    assert_eq!((&run["format"], &run["totals"]["kernels"]), (&json!("proton_tree"), &facts["kernels"]));
    let kernels: BTreeMap<&str, Value> = run["kernels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kernel| (kernel["name"].as_str().unwrap(), json!([kernel["count"], kernel["duration_ns"]])))
        .collect();
    assert_eq!(json!(kernels), facts["by_name"]);
    let ranges = run["kernels"].as_array().unwrap().iter().map(|kernel| (&kernel["min_ns"], &kernel["max_ns"]));
    assert!(ranges.clone().count() == 2 && ranges.clone().all(|range| range == (&Value::Null, &Value::Null)), "{run}");
    let categories: Vec<&str> =
        run["categories"].as_array().unwrap().iter().map(|row| row["category"].as_str().unwrap()).collect();
    assert_eq!(categories, ["gemm", "communication"]);
    assert_eq!(run["sections"]["roofline"]["rows"][0]["flops"], json!(4e6));
    let notice = run["notices"].as_array().unwrap().iter().find(|notice| notice["code"] == "totals_only").unwrap();
    assert!(notice["message"].as_str().unwrap().contains("no timeline") && run["wall"]["cpu_ns"] == 0, "{notice}");
    let shown = printed(&folder, ["report", "p.hatchet"]);
    assert!(shown.contains("matmul_kernel") && shown.contains("no times"), "{shown}");
}

#[test]
fn a_proton_tree_that_is_cut_or_has_other_line_ends_is_read_as_far_as_it_goes_or_refused_by_name() {
    let folder = directory("proton_tree_cut");
    let tree = proton_tree().replace('\n', "\r\n");
    std::fs::write(folder.join("whole.hatchet"), &tree).unwrap();
    std::fs::write(folder.join("cut.hatchet"), &tree[..tree.find("ncclDevKernel").unwrap()]).unwrap();
    std::fs::write(folder.join("early.hatchet"), &tree[..tree.find("matmul_kernel").unwrap()]).unwrap();
    let runs = json_runs(&folder, &["whole.hatchet", "cut.hatchet"]);
    assert_eq!((&runs[0]["totals"]["kernels"], &runs[1]["totals"]["kernels"]), (&json!(9), &json!(7)));
    assert_eq!(runs[1]["notices"][0]["code"], "truncated");
    let output = gpuprism(&folder, ["report", "early.hatchet"]);
    assert!(output.status == 1 && output.stderr.contains("Proton tree"), "{output:?}");
}

const FILES: [(&str, &str); 8] = [
    ("kernel_trace.csv", KERNELS),
    ("counter_collection.csv", COUNTERS),
    ("r.json", ROCPROF_JSON),
    ("rpd.json", RPD_JSON),
    ("trace_view.json", ASCEND_JSON),
    ("kernel_details.csv", KERNEL_DETAILS),
    ("p.json", PROTON),
    ("n.json", NSYS_CHROME),
];

#[test]
fn chunk_boundaries_do_not_change_the_trace() {
    let counters = json_with_counters();
    for (name, text) in FILES.into_iter().chain([("c.json", counters.as_str())]) {
        let whole = read(name, text.as_bytes()).unwrap();
        for chunk in [1, 2, 7, 64] {
            assert_eq!(read_in_chunks(name, text.as_bytes(), chunk).unwrap(), whole, "{name} in chunks of {chunk}");
        }
    }
}

#[test]
fn a_file_that_is_cut_at_any_byte_is_read_up_to_there_or_refused_by_name() {
    let counters = json_with_counters();
    for (name, text) in FILES.into_iter().chain([("c.json", counters.as_str())]) {
        let all = read(name, text.as_bytes()).unwrap().gpu_ops.len();
        for length in 0..text.len() {
            let Some(part) = text.get(..length) else { continue };
            let mut importer = Importer::new(name);
            match importer.feed(part.as_bytes()).and_then(|()| importer.finish()) {
                Ok(Imported::Trace(trace)) => {
                    assert!(
                        trace.gpu_ops.len() <= all && trace.gpu_ops.iter().all(|op| op.duration >= Ns(0)),
                        "{name} {length}"
                    );
                }
                Ok(Imported::Document(_)) => panic!("{name} cut at {length} is a document"),
                Err(error) => assert!(error.to_string().starts_with(name), "{error}"),
            }
        }
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn samples_have_the_facts_that_a_separate_program_finds() {
    let folder = shared("traces/rocm");
    for files in [
        &["rocprofv3_prefill_kernel_trace.csv", "rocprofv3_prefill_hip_api_trace.csv"][..],
        &["rocprofv3_mi350x_results.json.gz"],
        &["rpd_matmul.rpd"],
        &["rpd_matmul_chrome.json.gz"],
    ] {
        let paths: Vec<String> = files.iter().map(|file| folder.join(file).display().to_string()).collect();
        let facts = facts(&paths);
        let run = &json_runs(
            &directory("rocm_facts"),
            &[&["--attribution", "fair"], &paths.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat(),
        )[0];
        assert_eq!(run["totals"]["kernels"], facts["kernels"], "{files:?}");
        let busy: i64 =
            run["devices"].as_array().unwrap().iter().map(|device| device["union_ns"].as_i64().unwrap()).sum();
        assert_eq!(busy, facts["union_ns"].as_i64().unwrap(), "{files:?}");
        let trace = if paths[0].ends_with(".rpd") {
            nsys::open(Path::new(&paths[0]), "x").unwrap()
        } else {
            common::import(Path::new(&paths[0]))
        };
        let mut names: BTreeMap<String, (i64, i64)> = BTreeMap::new();
        for op in trace.gpu_ops.iter() {
            let entry = names.entry(trace.names.get(op.name).to_owned()).or_default();
            *entry = (entry.0 + 1, entry.1 + op.duration.0);
        }
        let expected: BTreeMap<String, (i64, i64)> = facts["by_name"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, pair)| (name.clone(), (pair[0].as_i64().unwrap(), pair[1].as_i64().unwrap())))
            .collect();
        assert_eq!(names, expected, "{files:?}");
        assert_eq!(trace.problems.iter().count(), 0, "{files:?}");
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn kernels_of_a_real_graph_replay_are_joined_with_its_launch() {
    let folder = shared("traces/rocm");
    let read_text = |name: &str| std::fs::read_to_string(folder.join(format!("rocprofv3_prefill_{name}.csv"))).unwrap();
    let trace = read("x.csv", [read_text("kernel_trace"), read_text("hip_api_trace")].concat().as_bytes()).unwrap();
    // Column 2 of the calls counted from the end, column 14 of the kernels: names of kernels have commas.
    let column = |name: &str, from_end: usize| -> Vec<String> {
        let text = read_text(name);
        text.lines().skip(1).map(|line| line.rsplit("\",\"").nth(from_end).unwrap().to_owned()).collect()
    };
    let launches = column("hip_api_trace", 2);
    let launched = column("kernel_trace", 13).iter().filter(|id| launches.contains(id)).count();
    assert_eq!((trace.gpu_ops.launches().flatten().count(), launched > 100), (launched, true));
}

/// Writes the tables of an export as Nsight Systems does with `--type parquetdir`.
#[cfg(feature = "facts")]
fn write_parquet_folder(export: &Path, folder: &Path) {
    use gpuprism_facts::{Column, Values, write};
    use rusqlite::types::ValueRef;
    let base = Connection::open(export).unwrap();
    let names = |sql: &str| -> Vec<String> {
        let mut statement = base.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    for table in names("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'") {
        let mut columns = Vec::new();
        for name in names(&format!("SELECT name FROM pragma_table_info('{table}')")) {
            let mut statement = base.prepare(&format!("SELECT \"{name}\" FROM \"{table}\" ORDER BY rowid")).unwrap();
            let mut rows = statement.query([]).unwrap();
            let (mut texts, mut numbers, mut floats) = (Vec::new(), Vec::new(), Vec::new());
            while let Some(row) = rows.next().unwrap() {
                let value = row.get_ref(0).unwrap();
                texts.push(value.as_str().ok().map(str::to_owned));
                numbers.push(value.as_i64().ok());
                floats.push(if let ValueRef::Real(number) = value { Some(number) } else { None });
            }
            let values = match () {
                () if texts.iter().any(Option::is_some) => Values::Text(texts),
                () if floats.iter().any(Option::is_some) => Values::Float(floats),
                () => Values::Int(numbers),
            };
            columns.push(Column { name, values });
        }
        write(&folder.join(format!("{table}.parquet")), columns).unwrap();
    }
}

/// The reports of the folder and of the export that it was made from are the same but for the label.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
#[cfg(feature = "facts")]
fn a_folder_of_parquet_tables_is_read_as_the_export_with_these_tables() {
    let exports = shared("traces/nsys");
    for export in
        ["h100_2gpu_fastvideo_s3.25", "cuda_graph_level_s2025.5", "t4_memcpy_heavy_s3.1", "titan_rtx_nvtx_only"]
    {
        let export = exports.join(format!("{export}.sqlite"));
        let folder = directory(&format!("parquet_{}", export.file_stem().unwrap().display()));
        write_parquet_folder(&export, &folder);
        let mut runs = json_runs(&folder, &[export.to_str().unwrap(), folder.to_str().unwrap()]);
        runs.iter_mut().for_each(|run| run["label"] = Value::Null);
        assert_eq!(runs[0], runs[1], "{}", export.display());
        // A damaged table is counted, and the others are read.
        let Some(table) = ["CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"]
            .map(|table| folder.join(format!("{table}.parquet")))
            .into_iter()
            .find(|path| path.is_file())
        else {
            continue;
        };
        std::fs::write(&table, &std::fs::read(&table).unwrap()[..50]).unwrap();
        let output = gpuprism(&folder, ["report", "--format", "json", "."]);
        assert!(output.stderr.contains(table.file_name().unwrap().to_str().unwrap()), "{}", output.stderr);
        if runs[0]["totals"]["gpu_ops"] != 0 {
            let report: Value = serde_json::from_str(&output.stdout).unwrap();
            assert_eq!(report["runs"][0]["totals"], runs[0]["totals"]);
            assert!(
                report["runs"][0]["notices"].as_array().unwrap().iter().any(|notice| notice["code"] == "damaged_table"),
                "{report}"
            );
        }
    }
}

/// Nsight Systems 2023.4 wrote both from one capture of a small decoder on an H200, limited to 7.5 ms (`nsys export --times`). Only
/// `StringIds` was reduced to the names in use, and the id of the GPU was emptied. The totals were counted with SQL.
#[test]
#[cfg(feature = "facts")]
fn a_folder_and_an_export_that_nsight_systems_wrote_have_the_same_report() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nsys_parquet");
    let paths = ["h200_decode_pqtdir", "h200_decode.sqlite.gz"].map(|name| data.join(name));
    let mut runs = json_runs(&data, &[paths[0].to_str().unwrap(), paths[1].to_str().unwrap()]);
    runs.iter_mut().for_each(|run| run["label"] = Value::Null);
    assert_eq!(runs[0], runs[1]);
    let totals = &runs[0]["totals"];
    assert_eq!((&totals["gpu_ops"], &totals["kernels"]), (&json!(589), &json!(561)));
    assert_eq!((&totals["duration_ns"], &totals["union_ns"]), (&json!(4_883_672), &json!(4_883_672)));
    assert_eq!(runs[0]["wall"]["wall_ns"], 6_396_211);
    let steps = runs[0]["sections"]["steps"]["rows"].as_array().unwrap();
    let stages: Vec<_> =
        steps.iter().map(|row| (row["stage"].as_str().unwrap(), row["steps"].as_u64().unwrap())).collect();
    assert_eq!(stages, [("extend/prefill", 1), ("decode", 3)]);
}

/// `column_types.parquet` was written by pyarrow: a decimal, a list and a group with values, the same without values, and types that are
/// read: 16-bit floats, times of day.
#[test]
#[cfg(feature = "facts")]
fn columns_of_parquet_tables_that_are_not_read_are_counted_and_named() {
    use gpuprism_facts::{Cell, Column, Values, each_row, write};
    let types = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/column_types.parquet");
    let (mut names, mut kinds) = (Vec::new(), Vec::new());
    let mut header = |columns: &[&str]| {
        names = columns.iter().map(|name| (*name).to_owned()).collect();
        true
    };
    each_row(&types, &mut header, &mut |cells| {
        kinds.push(cells.iter().map(|cell| format!("{cell:?}")).collect::<Vec<_>>());
        true
    })
    .unwrap();
    assert_eq!(names, ["id", "price", "parts", "pair", "half", "clock", "nothing", "empty_list"]);
    let (other, null) = (format!("{:?}", Cell::Other), format!("{:?}", Cell::Null));
    let first = ["Int(1)", &other, &other, &other, "Float(0.5)", "Int(1000)", &null, &null];
    let second = ["Int(2)", &null, &other, &other, &null, "Int(2000)", &null, &null];
    assert_eq!(kinds, [first, second]);

    let folder = directory("parquet_types");
    let int = |name: &str, value: i64| Column { name: name.to_owned(), values: Values::Int(vec![Some(value)]) };
    let text =
        |name: &str, value: &str| Column { name: name.to_owned(), values: Values::Text(vec![Some(value.to_owned())]) };
    let kernel = [
        ("start", 100),
        ("end", 150),
        ("deviceId", 0),
        ("streamId", 7),
        ("correlationId", 1),
        ("demangledName", 5),
        ("shortName", 5),
    ];
    write(&folder.join("CUPTI_ACTIVITY_KIND_KERNEL.parquet"), kernel.map(|(name, value)| int(name, value)).into())
        .unwrap();
    write(&folder.join("StringIds.parquet"), vec![int("id", 5), text("value", "gemm")]).unwrap();
    std::fs::copy(&types, folder.join("OTHER.parquet")).unwrap();
    let output = gpuprism(&folder, ["report", "--format", "json", "."]);
    assert!(output.stderr.contains("OTHER") && output.stderr.contains("pair, parts, price"), "{}", output.stderr);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let run = &report["runs"][0];
    let notice = run["notices"].as_array().unwrap().iter().find(|notice| notice["code"] == "unread_columns").unwrap();
    assert_eq!((&run["totals"]["kernels"], &notice["count"]), (&json!(1), &json!(3)));
}

/// The facts of the files by `tests/oracle/formats.py`.
fn facts(paths: &[String]) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/formats.py");
    let output = Command::new("python3").arg(script).args(paths).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_page_joins_the_same_tables_as_the_command_line() {
    let read = |path: &str| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let list = |path: &str, quote: char| -> Vec<String> {
        let text = read(path);
        let list = text.split("TABLES").nth(1).unwrap().split_once('=').unwrap().1.split(']').next().unwrap();
        list.split(quote).skip(1).step_by(2).map(|name| name.trim_end_matches(".csv").to_owned()).collect()
    };
    let native = list("src/input/file_sets.rs", '"');
    assert_eq!((list("www/file-sets.js", '\''), native.len()), (native, 11));
}

#[test]
fn the_help_of_the_page_lists_the_formats() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let help = std::fs::read_to_string(root.join("www/help.js")).unwrap();
    let described: Value =
        serde_json::from_str(&std::fs::read_to_string(root.join("patterns/formats.json")).unwrap()).unwrap();
    for format in described["formats"].as_array().unwrap() {
        let [title, files, from] = ["title", "files", "from"].map(|key| format[key].as_str().unwrap().replace('`', ""));
        let line = format!("['{title}', '{files} from {from}']");
        assert!(help.contains(&line), "www/help.js lacks {line}");
    }
}

#[test]
fn the_book_has_the_table_of_formats() {
    let table = printed(Path::new("."), ["formats", "--markdown"]);
    let chapter = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/formats.md")).unwrap();
    assert!(
        chapter.contains(&table),
        "replace the table in docs/formats.md by the output of `gpuprism formats --markdown`"
    );
}
