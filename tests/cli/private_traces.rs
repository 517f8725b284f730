//! Traces of each format with a secret in each text: every secret contains `zorblax`, or is the key or the number below.

use crate::common::nsys;
use rusqlite::Connection;
use rusqlite::types::Value as Cell;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// Parts of the secrets, in lower case.
pub(crate) const SECRETS: [&str; 4] = ["zorblax", "k3yq9x7", "10.77.66.55", "aeb1f7c2"];
/// The names of the traces: a name is a secret, too.
pub(crate) const TRACES: [&str; 10] = [
    "zorblax.json",
    "zorblax.json.gz",
    "zorblax.sqlite",
    "zorblax_gputrace.csv",
    "zorblax_kernel_trace.csv",
    "zorblax_results.json",
    "zorblax.rpd",
    "zorblax.db",
    "zorblax.pftrace",
    "zorblax.xplane.pb",
];

/// A secret for each kind of private text.
const WORDS: [&str; 6] = [
    "zorblax_gemm_kernel",
    "ncclDevKernel_Zorblax_hf_K3yQ9x7wAbCdEfGh",
    "_Z4gemmv.zorblax",
    "Project Zorblax (10.77.66.55)",
    "/home/zorblax/run/Zorblax.py(7): zorblaxgemm",
    "nvjet_tst_128x64_aeb1f7c2-1234-4321-8888-0123456789ab",
];

pub(crate) fn is_clean(text: &str, what: &str) {
    let lower = text.to_lowercase();
    for secret in SECRETS {
        let at = lower.find(secret);
        let around = at.map(|at| {
            String::from_utf8_lossy(&lower.as_bytes()[at.saturating_sub(80)..(at + 40).min(lower.len())]).into_owned()
        });
        assert!(at.is_none(), "{secret} in {what}: {around:?}");
    }
}

/// Writes all traces, a rule file `rules.json` and a phase map `phases.json`.
pub(crate) fn write(folder: &Path) {
    let torch = torch().to_string();
    std::fs::write(folder.join(TRACES[0]), &torch).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(torch.as_bytes()).unwrap();
    std::fs::write(folder.join(TRACES[1]), packed.finish().unwrap()).unwrap();
    nsight(&folder.join(TRACES[2]));
    std::fs::write(folder.join(TRACES[3]), gpu_trace_csv()).unwrap();
    std::fs::write(folder.join(TRACES[4]), kernel_trace_csv()).unwrap();
    std::fs::write(folder.join(TRACES[5]), rocprof_json().to_string()).unwrap();
    rpd(&folder.join(TRACES[6]));
    rocpd(&folder.join(TRACES[7]));
    std::fs::write(folder.join(TRACES[8]), perfetto()).unwrap();
    std::fs::write(folder.join(TRACES[9]), xla_profile()).unwrap();
    let rules = json!({"vllm": {"zorblax": {"gemm": "Project Zorblax (zorblax@zorblax.com)", "nccl": "K3yQ9x7w", ".*": "misc"}}});
    std::fs::write(folder.join("rules.json"), rules.to_string()).unwrap();
    std::fs::write(folder.join("phases.json"), json!({"zorblax phase": "Zorblax"}).to_string()).unwrap();
}

fn torch() -> Value {
    let event = |cat: &str, name: &str, pid: Value, at: usize, dur: usize, args: Value| json!({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": 7, "ts": at, "dur": dur, "args": args});
    let mut events = vec![
        json!({"ph": "M", "name": "process_name", "pid": 31_337, "args": {"name": "python zorblax"}}),
        json!({"ph": "M", "name": "process_labels", "pid": 31_337, "args": {"labels": "zorblax"}}),
        json!({"ph": "M", "name": "thread_name", "pid": 31_337, "tid": 7, "args": {"name": "thread zorblax"}}),
        json!({"ph": "i", "cat": "zorblax", "name": "zorblax", "pid": 31_337, "tid": 7, "ts": 5, "s": "zorblax"}),
    ];
    for round in 0..3 {
        for (index, word) in WORDS.iter().enumerate() {
            let (at, id) = (round * 10_000 + index * 1_000 + 100, round * 100 + index + 1);
            let dur = 900 - index * 60 - round;
            let args = json!({"device": 0, "stream": 7, "correlation": id, "External id": id, "zorblax": "zorblax",
                "note": WORDS[(index + 1) % WORDS.len()]});
            events.push(event("kernel", word, "[zorblax-laptop] 0".into(), at, dur, args));
            events.push(event(
                "cuda_runtime",
                "cudaLaunchKernel",
                31_337.into(),
                at - 50,
                5,
                json!({"correlation": id}),
            ));
            let args = json!({"External id": id, "Input Dims": [[8, 8]], "Input type": ["zorblax"], "Concrete Inputs": ["zorblax"]});
            events.push(event("cpu_op", &format!("aten::{word}"), 31_337.into(), at - 60, 20, args));
        }
        let (at, name) = (round * 10_000 + 10, format!("zorblax step {round}"));
        events.push(event("user_annotation", &name, 31_337.into(), at, 7_000 + round, json!({})));
        events.push(event(
            "python_function",
            WORDS[4],
            31_337.into(),
            at + 1,
            6_900 + round,
            json!({"Python id": round + 1}),
        ));
    }
    json!({"schemaVersion": 1, "traceName": "/home/zorblax/trace.json", "hostname": "zorblax-laptop", "env": {"ZORBLAX_TOKEN": "k3yq9x7", "A": "word"},
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1, "note": "zorblax"}, "traceEvents": events})
}

fn nsight(path: &Path) {
    let base = Connection::open(path).unwrap();
    let mut script = String::from(
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
         CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT, streamId INT, globalPid INT,
             correlationId INT, demangledName INT, shortName INT);
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, nameId INT, globalTid INT, correlationId INT);
         CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, textId INT, globalTid INT, jsonText TEXT);
         CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, uuid TEXT, busLocation TEXT);
         CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INT, devStateName TEXT, name TEXT, nameEnum INT, value TEXT);
         CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);
         CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
         CREATE TABLE PROCESSES (globalPid INT, pid INT, name TEXT);
         CREATE TABLE ThreadNames (nameId INT, priority INT, globalTid INT);
         CREATE TABLE ANALYSIS_FILE (id INT, filename TEXT, content BLOB);
         CREATE TABLE zorblax_notes (note TEXT);
         CREATE VIEW zorblax AS SELECT 'zorblax';
         INSERT INTO zorblax_notes VALUES ('zorblax');
         INSERT INTO ANALYSIS_FILE VALUES (1, '/home/zorblax/x', x'7a6f72626c6178');
         INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel'), (2, 'zorblax thread'), (3, 'K3yQ9x7w unused');
         INSERT INTO ThreadNames VALUES (2, 1, 1862270983);
         INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100', 'GPU-aeb1f7c2-1234-4321-8888-0123456789ab', 'zorblax');
         INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, 'zorblax', 'Hostname', 1, 'zorblax-laptop'), (0, 'x', 'ZORBLAX', 1, 'x');
         INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', 'ZORBLAX_TOKEN=K3yQ9x7w'),
             ('PROCESS_0:ENVIRONMENT_VARIABLE', 'LANG=C'), ('PROCESS_0:ARGUMENT_0', 'zorblax'), ('PROCESS_0:USER_NAME', 'zorblax');
         INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_HOST', 'zorblax-laptop'), ('EXPORT_SCHEMA_VERSION', '3.20.1');
         INSERT INTO PROCESSES VALUES (1862270976, 111, '/home/zorblax/python');",
    );
    for (index, word) in WORDS.iter().enumerate() {
        script += &format!("INSERT INTO StringIds VALUES ({}, '{word}');", 10 + index);
    }
    base.execute_batch(&script).unwrap();
    for round in 0..3_i64 {
        for (index, word) in (0_i64..).zip(WORDS) {
            let (at, id) = (round * 10_000 + index * 1_000 + 100, round * 100 + index + 1);
            let tid = nsys::global_tid(111, 7);
            let kernel =
                [at, at + 900 - index * 60 - round, 0, 1, 7, nsys::global_pid(111), id, 10 + index, 10 + index];
            nsys::integers(
                &base,
                "CUPTI_ACTIVITY_KIND_KERNEL",
                "start, end, deviceId, contextId, streamId, globalPid, correlationId, demangledName, shortName",
                &[kernel],
            );
            nsys::integers(
                &base,
                "CUPTI_ACTIVITY_KIND_RUNTIME",
                "start, end, nameId, globalTid, correlationId",
                &[[at - 50, at - 45, 1, tid, id]],
            );
            let range = [
                Cell::Integer(at - 60),
                (at + 800 - index).into(),
                59.into(),
                word.to_owned().into(),
                tid.into(),
                "{\"zorblax\": \"a\\nzorblax\"}".to_owned().into(),
            ];
            nsys::row(&base, "NVTX_EVENTS", "start, end, eventType, text, globalTid, jsonText", range);
        }
    }
}

fn gpu_trace_csv() -> String {
    let mut text = "zorblax printed this\nStart (ns),Duration (ns),CorrId,Device,Ctx,Strm,Name\n".to_owned();
    for (index, word) in WORDS.iter().enumerate() {
        text += &format!("{},{},{},NVIDIA H100 (zorblax),1,7,\"{word}\"\n", index * 1_000, 900 - index * 60, index + 1);
    }
    text
}

fn kernel_trace_csv() -> String {
    let mut text = "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Stream_Id\",\"Thread_Id\",\"Dispatch_Id\",\"Kernel_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\",\"Zorblax\"\n".to_owned();
    for (index, word) in WORDS.iter().enumerate() {
        let start = 1_704_161_511_420_000_100 + index * 1_000;
        let end = start + 900 - index * 60;
        text += &format!(
            "\"KERNEL_DISPATCH\",\"Agent 2\",\"1\",\"3\",\"7\",\"{index}\",\"9\",\"{word}\",{index},{start},{end},\"zorblax\"\n"
        );
    }
    text
}

fn rocprof_json() -> Value {
    let handle = |handle: usize| json!({"handle": handle});
    let dispatches: Vec<Value> = (0..WORDS.len())
        .map(|index| {
            let start = 1_704_161_511_420_000_100 + index * 1_000;
            json!({"thread_id": 7, "correlation_id": {"internal": index}, "start_timestamp": start, "end_timestamp": start + 900 - index * 60,
                "dispatch_info": {"agent_id": handle(900), "queue_id": handle(1), "kernel_id": index}, "stream_id": handle(2)})
        })
        .collect();
    let symbols: Vec<Value> = (0_usize..)
        .zip(WORDS)
        .map(|(index, word)| json!({"kernel_id": index, "kernel_name": word, "formatted_kernel_name": word}))
        .collect();
    json!({"rocprofiler-sdk-tool": [{
        "metadata": {"pid": 50, "command": ["python", "zorblax", "--word"], "node": {"hostname": "zorblax", "machine_id": "aeb1f7c2"}},
        "agents": [{"id": handle(900), "type": 2, "node_id": 4, "cu_count": 256, "product_name": "AMD Instinct MI350X", "name": "zorblax"}],
        "buffer_records": {"kernel_dispatch": dispatches, "hip_api": [], "memory_copy": [], "marker_api": [
            {"kind": 1, "operation": 0, "thread_id": 7, "correlation_id": {"internal": 12}, "start_timestamp": 1_704_161_511_420_000_000_u64, "end_timestamp": 1_704_161_511_420_000_090_u64}]},
        "strings": {"buffer_records": [{"kind": "NONE", "operations": []}, {"kind": "MARKER_CORE_API", "operations": ["roctxRange"]}],
            "marker_api": [{"key": 12, "value": WORDS[3]}]},
        "kernel_symbols": symbols,
    }]})
}

fn rpd(path: &Path) {
    let base = Connection::open(path).unwrap();
    base.execute_batch(
        "CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string TEXT);
         CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, gpuId INT, queueId INT, sequenceId INT, start INT, end INT, description_id INT, opType_id INT);
         CREATE TABLE rocpd_api (id INTEGER PRIMARY KEY, pid INT, tid INT, start INT, end INT, apiName_id INT, args_id INT);
         CREATE TABLE rocpd_api_ops (id INTEGER PRIMARY KEY, api_id INT, op_id INT);
         CREATE TABLE rocpd_metadata (id INTEGER PRIMARY KEY, tag TEXT, value TEXT);
         INSERT INTO rocpd_metadata VALUES (1, 'zorblax', 'zorblax');
         INSERT INTO rocpd_string VALUES (1, 'KernelExecution'), (2, 'hipLaunchKernel'), (3, 'zorblax args'), (4, 'UserMarker');",
    )
    .unwrap();
    for (index, word) in (0_i64..).zip(WORDS) {
        let (start, text) = (1_000_000 + index * 1_000, 10 + index);
        let script = format!(
            "INSERT INTO rocpd_string VALUES ({text}, '{word}');
             INSERT INTO rocpd_op VALUES ({text}, 0, 1, 0, {start}, {}, {text}, 1);
             INSERT INTO rocpd_api VALUES ({text}, 50, 7, {}, {}, 2, {text});
             INSERT INTO rocpd_api_ops VALUES ({text}, {text}, {text});",
            start + 900 - index * 60,
            start - 50,
            start - 40,
        );
        base.execute_batch(&script).unwrap();
    }
}

fn rocpd(path: &Path) {
    let base = Connection::open(path).unwrap();
    let schema = r#"
        CREATE TABLE "rocpd_string_U" (id INTEGER PRIMARY KEY, guid TEXT, string TEXT NOT NULL);
        INSERT INTO "rocpd_string_U" VALUES (1, 'zorblax', 'HIP_RUNTIME_API'), (2, '', 'hipLaunchKernel'), (3, '', 'zorblax');
        CREATE TABLE "rocpd_info_node_U" (id INTEGER PRIMARY KEY, guid TEXT, hostname TEXT);
        INSERT INTO "rocpd_info_node_U" VALUES (1, '', 'zorblax');
        CREATE TABLE "rocpd_info_process_U" (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, command TEXT, environment TEXT);
        INSERT INTO "rocpd_info_process_U" VALUES (1, '', 1, 50, 'python zorblax', '{"ZORBLAX_TOKEN": "K3yQ9x7w", "LANG": "C"}');
        CREATE TABLE "rocpd_info_thread_U" (id INTEGER PRIMARY KEY, guid TEXT, pid INTEGER, tid INTEGER, name TEXT);
        INSERT INTO "rocpd_info_thread_U" VALUES (1, '', 1, 50, 'zorblax');
        CREATE TABLE "rocpd_info_agent_U" (id INTEGER PRIMARY KEY, type TEXT, absolute_index INTEGER, name TEXT, product_name TEXT, extdata TEXT);
        INSERT INTO "rocpd_info_agent_U" VALUES (1, 'CPU', 0, 'EPYC', 'EPYC', '{}'), (2, 'GPU', 1, 'gfx942', 'AMD Instinct MI300X', '{"cu_count": 304, "zorblax": "zorblax"}');
        CREATE TABLE "rocpd_info_kernel_symbol_U" (id INTEGER PRIMARY KEY, kernel_name TEXT, display_name TEXT);
        CREATE TABLE "rocpd_event_U" (id INTEGER PRIMARY KEY, category_id INTEGER, stack_id INTEGER, correlation_id INTEGER, extdata TEXT);
        CREATE TABLE "rocpd_kernel_dispatch_U" (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, agent_id INTEGER, kernel_id INTEGER,
            queue_id INTEGER, stream_id INTEGER, start BIGINT, "end" BIGINT, event_id INTEGER);
        CREATE TABLE "rocpd_memory_copy_U" (id INTEGER PRIMARY KEY, pid INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER,
            dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER, queue_id INTEGER, stream_id INTEGER, event_id INTEGER);
        CREATE TABLE "rocpd_region_U" (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER,
            event_id INTEGER, extdata TEXT);"#;
    let mut script = schema.to_owned();
    for (index, word) in WORDS.iter().enumerate() {
        let (id, start) = (index + 1, 1_704_161_511_420_000_100 + index * 1_000);
        let end = start + 900 - index * 60;
        script += &format!(
            r#"INSERT INTO "rocpd_info_kernel_symbol_U" VALUES ({id}, '{word}', '{word}');
            INSERT INTO "rocpd_event_U" VALUES ({id}, 1, {id}, 0, '{{"zorblax": 1}}');
            INSERT INTO "rocpd_kernel_dispatch_U" VALUES ({id}, 1, 1, 2, {id}, 1, 6, {start}, {end}, {id});
            INSERT INTO "rocpd_region_U" VALUES ({id}, 1, 1, {}, {}, 2, {id}, '{{"message": "zorblax"}}');"#,
            start - 50,
            start - 40,
        );
    }
    base.execute_batch(&script.replace("_U\"", "_zorblax\"")).unwrap();
}

/// Fields of protocol buffers.
fn number(field: u32, value: usize) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn bytes(field: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    [varint(field << 3 | 2), varint(value.as_ref().len()), value.as_ref().to_vec()].concat()
}

fn varint(value: impl TryInto<u64>) -> Vec<u8> {
    let mut rest = value.try_into().ok().unwrap();
    let mut out = Vec::new();
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
    out
}

/// As rocprofv3 writes it.
fn perfetto() -> Vec<u8> {
    let packet = |fields: &[Vec<u8>]| bytes(1, [fields.concat(), number(10, 1)].concat());
    let text = |key: &str, value: &str| bytes(4, [bytes(10, key), bytes(6, value)].concat());
    let note = |key: &str, value: usize| bytes(4, [bytes(10, key), number(4, value)].concat());
    let process = [number(1, 50), bytes(2, "python"), bytes(2, "zorblax"), bytes(6, "python zorblax")].concat();
    let track = |id: usize, name: &str| packet(&[bytes(60, [number(1, id), number(5, 1), bytes(2, name)].concat())]);
    let mut packets = vec![
        packet(&[bytes(33, "zorblax"), bytes(45, "zorblax-laptop")]),
        packet(&[bytes(60, [number(1, 1), bytes(3, process)].concat())]),
        track(2, "THREAD 1 (50) zorblax"),
        track(3, "STREAM [ 3 ]"),
    ];
    let mut slice = |track: usize, category: &str, name: &str, (start, end): (usize, usize), notes: &[Vec<u8>]| {
        let begin = [number(9, 1), number(11, track), bytes(22, category), bytes(23, name), notes.concat()].concat();
        packets.push(packet(&[number(8, start), bytes(11, begin)]));
        packets.push(packet(&[number(8, end), bytes(11, [number(9, 2), number(11, track)].concat())]));
    };
    for (index, word) in WORDS.iter().enumerate() {
        let (start, id) = (1_000_000 + index * 1_000, note("corr_id", index + 1));
        let call = [id.clone(), text("hostname", "zorblax-laptop"), text("note", "zorblax")];
        slice(2, "hip_api", "hipLaunchKernel", (start - 50, start - 40), &call);
        let kernel = [id, text("agent", "Agent-4"), note("stream_ID", 3), text(word, word)];
        slice(3, "kernel_dispatch", word, (start, start + 900 - index * 60), &kernel);
        slice(2, "marker_api", word, (start - 30, start + 700), &[]);
    }
    packets.concat()
}

/// As jax.profiler writes it.
fn xla_profile() -> Vec<u8> {
    const STATS: [&str; 6] = ["correlation_id", "kernel_details", "tf_op", "hostname", "hlo_proto", "zorblax"];
    let entry = |id: usize, value: Vec<u8>| [number(1, id), bytes(2, [number(1, id), value].concat())].concat();
    let line = |id: usize, name: &str, events: Vec<Vec<u8>>| {
        bytes(3, [number(1, id), bytes(2, name), number(3, 5_000), events.concat()].concat())
    };
    let plane = |name: &str, lines: Vec<Vec<u8>>, names: Vec<String>| {
        let names = (1..).zip(names).map(|(id, name)| {
            bytes(
                4,
                entry(
                    id,
                    [bytes(2, name), bytes(3, "zorblax"), bytes(5, [number(1, 5), bytes(6, "zorblax")].concat())]
                        .concat(),
                ),
            )
        });
        let stats = (1..).zip(STATS).map(|(id, name)| bytes(5, entry(id, bytes(2, name))));
        let own = bytes(6, [number(1, 4), bytes(5, "zorblax-laptop")].concat());
        let tables = names.chain(stats).collect::<Vec<_>>().concat();
        bytes(1, [bytes(2, name), lines.concat(), tables, own].concat())
    };
    let event = |name: usize, start: usize, duration: usize, stats: &[Vec<u8>]| {
        let stats = stats.iter().flat_map(|stat| bytes(4, stat)).collect();
        bytes(4, [number(1, name), number(2, start * 1_000), number(3, duration * 1_000), stats].concat())
    };
    let (mut kernels, mut calls, mut host) = (Vec::new(), Vec::new(), Vec::new());
    for (index, word) in WORDS.iter().enumerate() {
        let (name, start) = (index + 1, 1_000 + index * 1_000);
        let id = [number(1, 1), number(4, name)].concat();
        let details = [number(1, 2), bytes(5, "regs:32 grid:132,1,1 block:128,1,1")].concat();
        let op = [number(1, 3), bytes(5, format!("jit(step)/{word}"))].concat();
        kernels.push(event(name, start, 900 - index * 60, &[id.clone(), details, op]));
        calls.push(event(WORDS.len() + 1, start - 50, 10, &[id]));
        host.push(event(name, start - 40, 600, &[[number(1, 4), bytes(5, "zorblax-laptop")].concat()]));
        host.push(event(WORDS.len() + 2, start - 45, 700, &[]));
    }
    let mut names: Vec<String> = WORDS.iter().map(|&word| word.to_owned()).collect();
    let gpu = plane("/device:GPU:0", vec![line(7, "Stream #7(Kernel)", kernels)], names.clone());
    names.extend(["cuLaunchKernel", "$/home/zorblax/zorblax.py:10 run"].map(str::to_owned));
    let lines = vec![line(1, "zorblax/4711", calls), line(2, "python/139924567890123", host)];
    let host = plane("/host:CPU", lines, names);
    [gpu, host, bytes(2, "zorblax failed"), bytes(4, "zorblax-laptop")].concat()
}
