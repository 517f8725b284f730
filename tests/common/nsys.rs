//! Nsight Systems exports that tests write: the golden fixture, and one small decode loop in three generations of the
//! schema. Needs nothing but rusqlite, so that unit tests can take it in by its path.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

/// A global id of a process, as nsys packs it.
pub(crate) const fn global_pid(pid: i64) -> i64 {
    pid << 24
}

/// A global id of a thread.
pub(crate) const fn global_tid(pid: i64, tid: i64) -> i64 {
    pid << 24 | tid
}

/// A database in memory.
pub(crate) fn database() -> Connection {
    Connection::open_in_memory().unwrap()
}

/// Makes a table; `columns` is its DDL.
pub(crate) fn table(connection: &Connection, name: &str, columns: &str) {
    connection.execute_batch(&format!("CREATE TABLE \"{name}\" ({columns})")).unwrap();
}

/// Adds a row to the first columns of a table.
pub(crate) fn row<const N: usize>(connection: &Connection, table: &str, columns: &str, values: [Value; N]) {
    let places = vec!["?"; N].join(",");
    let text = format!("INSERT INTO \"{table}\" ({columns}) VALUES ({places})");
    connection.execute(&text, params_from_iter(values)).unwrap();
}

/// Adds rows of integers.
pub(crate) fn integers<const N: usize>(connection: &Connection, table: &str, columns: &str, rows: &[[i64; N]]) {
    for values in rows {
        row(connection, table, columns, values.map(Value::Integer));
    }
}

/// Adds texts to the string table.
pub(crate) fn strings(connection: &Connection, texts: &[(i64, &str)]) {
    for (id, text) in texts {
        row(connection, "StringIds", "id, value", [Value::Integer(*id), Value::Text((*text).to_owned())]);
    }
}

/// The pids of both fixtures' processes.
pub(crate) const GOLDEN_PIDS: [i64; 2] = [111, 222];

/// The fixture on which nsys-llm-explainer's own tests run, from its description as facts: two processes, five kernels of
/// which two are NCCL's, two copies, three ranges; with `metrics` also sampled counters.
pub(crate) fn golden(metrics: bool) -> Connection {
    let connection = database();
    let [a, b] = GOLDEN_PIDS;
    table(&connection, "StringIds", "id INTEGER PRIMARY KEY, value TEXT NOT NULL");
    strings(
        &connection,
        &[
            (1, "computeKernel"),
            (2, "ncclAllReduceRingKernel"),
            (3, "ncclBroadcastRingKernel"),
            (10, "cudaLaunchKernel"),
            (11, "cudaMemcpy"),
            (12, "cudaStreamSynchronize"),
            (13, "cudaDeviceSynchronize"),
            (14, "decodeKernel"),
        ],
    );
    let kernel = "start, end, deviceId, contextId, streamId, globalPid, correlationId, demangledName";
    let ddl = "start INT NOT NULL, end INT NOT NULL, deviceId INT NOT NULL, contextId INT NOT NULL, streamId INT NOT NULL, \
               globalPid INT, correlationId INT, demangledName INT NOT NULL";
    table(&connection, "CUPTI_ACTIVITY_KIND_KERNEL", ddl);
    let (of_a, of_b) = (global_pid(a), global_pid(b));
    integers(
        &connection,
        "CUPTI_ACTIVITY_KIND_KERNEL",
        kernel,
        &[
            [0, 1_000_000, 0, 0, 0, of_a, 101, 1],
            [1_000_000, 3_000_000, 0, 0, 0, of_a, 102, 2],
            [1_500_000, 2_500_000, 0, 0, 1, of_a, 103, 1],
            [4_000_000, 5_500_000, 0, 0, 0, of_b, 201, 3],
            [4_200_000, 4_800_000, 0, 0, 1, of_b, 202, 14],
        ],
    );
    golden_host(&connection, global_tid(a, 7), global_tid(b, 9));
    if metrics {
        golden_metrics(&connection);
    }
    connection
}

fn golden_host(connection: &Connection, a: i64, b: i64) {
    let ddl = "start INT NOT NULL, end INT NOT NULL, nameId INT NOT NULL, globalTid INT, correlationId INT";
    table(connection, "CUPTI_ACTIVITY_KIND_RUNTIME", ddl);
    let launches = [
        [0, 10_000, 10, a, 101],
        [210_000, 220_000, 10, a, 102],
        [1_200_000, 1_215_000, 10, a, 103],
        [3_950_000, 3_970_000, 10, b, 201],
        [4_150_000, 4_170_000, 10, b, 202],
    ];
    let columns = "start, end, nameId, globalTid, correlationId";
    integers(connection, "CUPTI_ACTIVITY_KIND_RUNTIME", columns, &launches);
    let others = [[3_200_000, 3_800_000, 11, a], [5_000_000, 5_800_000, 12, a], [2_000_000, 2_700_000, 13, b]];
    integers(connection, "CUPTI_ACTIVITY_KIND_RUNTIME", "start, end, nameId, globalTid", &others);
    let ddl =
        "start INT NOT NULL, end INT NOT NULL, deviceId INT NOT NULL, streamId INT NOT NULL, bytes INT, copyKind INT";
    table(connection, "CUPTI_ACTIVITY_KIND_MEMCPY", ddl);
    let copies = [[3_100_000, 3_600_000, 0, 7, 4096, 1], [4_850_000, 5_150_000, 0, 7, 8192, 2]];
    let columns = "start, end, deviceId, streamId, bytes, copyKind";
    integers(connection, "CUPTI_ACTIVITY_KIND_MEMCPY", columns, &copies);
    let ddl = "start INT NOT NULL, end INT NOT NULL, eventType INT, text TEXT, textId INT, globalTid INT";
    table(connection, "NVTX_EVENTS", ddl);
    for (start, end, text, thread) in [
        (0, 3_100_000, "prefill_stage", a),
        (3_900_000, 5_600_000, "decode_stage", b),
        (5_600_000, 6_200_000, "sampling_stage", b),
    ] {
        let values = [start.into(), end.into(), 59.into(), text.to_owned().into(), thread.into()];
        row(connection, "NVTX_EVENTS", "start, end, eventType, text, globalTid", values);
    }
}

fn golden_metrics(connection: &Connection) {
    table(connection, "TARGET_INFO_GPU_METRICS", "metricId INT NOT NULL, metricName TEXT NOT NULL, typeId INT");
    let names = ["NVLink bytes transmitted", "NVLink bytes received", "Tensor FLOPs", "DRAM bytes"];
    for (id, name) in (1..).zip(names) {
        let values = [Value::Integer(id), name.to_owned().into(), 0.into()];
        row(connection, "TARGET_INFO_GPU_METRICS", "metricId, metricName, typeId", values);
    }
    let ddl = "timestamp INT NOT NULL, metricId INT NOT NULL, typeId INT, value REAL NOT NULL";
    table(connection, "GPU_METRICS", ddl);
    let nvlink = [(5, 5, 4), (15, 70, 65), (25, 80, 78), (35, 6, 5), (45, 85, 82), (60, 8, 7)];
    let compute = [(5, 1_200, 240), (15, 2_000, 300), (25, 1_700, 220), (45, 1_500, 280), (55, 700, 150)];
    for (samples, first, unit) in [(&nvlink[..], 1, 1.0), (&compute[..], 3, 1e9)] {
        for (time, one, two) in samples {
            for (metric, value) in [(first, one), (first + 1, two)] {
                let values = [
                    Value::Integer(time * 100_000),
                    Value::Integer(metric),
                    Value::Integer(0),
                    Value::Real(f64::from(*value) * unit),
                ];
                row(connection, "GPU_METRICS", "timestamp, metricId, typeId, value", values);
            }
        }
    }
}

/// A generation of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// 2.9, nsys 2022: no tables of enumerations.
    S2_9,
    /// 3.1, nsys 2023: enumerations have tables.
    S3_1,
    /// 3.25, nsys 2026: graph ids, green contexts, GPUs of each process.
    S3_25,
}

/// All of them.
pub(crate) const GENERATIONS: [Generation; 3] = [Generation::S2_9, Generation::S3_1, Generation::S3_25];

/// The pids of the decode loop.
pub(crate) const LOOP_PIDS: [i64; 2] = [3187, 3188];

/// The name of the GEMM, which has two string ids with one text, as lazy exports may write it.
pub(crate) const GEMM: &str = "nvjet_tst_64x8_64x16_4x1_v_bz_TNT";

/// One decode step of two processes on two GPUs. Both count correlation ids from 1: a launch of a GEMM (id 1), a CUDA
/// graph of an all-reduce and a GEMM (id 2), a copy to the host (id 3), a set (id 4); the second process does the same
/// 500 ns later. NVLink is sampled on both GPUs; an operator waits in `poll`.
pub(crate) fn decode_loop(generation: Generation) -> Connection {
    let connection = database();
    decode_names(&connection, generation);
    decode_gpu(&connection, generation);
    decode_host(&connection);
    decode_metrics(&connection);
    connection
}

fn decode_names(connection: &Connection, generation: Generation) {
    table(connection, "StringIds", "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL");
    strings(
        connection,
        &[
            (1, GEMM),
            (2, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"),
            (3, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"),
            (4, GEMM),
            (10, "cudaLaunchKernel_v7000"),
            (11, "cudaGraphLaunch_v10000"),
            (12, "cudaMemcpyAsync_v3020"),
            (13, "cudaMemsetAsync_v3020"),
            (14, "poll"),
            (15, "step"),
        ],
    );
    let meta = if generation == Generation::S2_9 { "EXPORT_META_DATA" } else { "META_DATA_EXPORT" };
    table(connection, meta, "name TEXT NOT NULL, value TEXT");
    table(connection, "PROCESSES", "globalPid INTEGER, pid INTEGER, name TEXT");
    table(connection, "TARGET_INFO_GPU", "vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, cuDevice INTEGER");
    for (gpu, pid) in (0..).zip(LOOP_PIDS) {
        let values = [global_pid(pid).into(), pid.into(), "python3".to_owned().into()];
        row(connection, "PROCESSES", "globalPid, pid, name", values);
        let values = [0.into(), Value::Integer(gpu), "NVIDIA H100 80GB HBM3".to_owned().into(), gpu.into()];
        row(connection, "TARGET_INFO_GPU", "vmId, id, name, cuDevice", values);
    }
    if generation != Generation::S2_9 {
        table(connection, "ENUM_CUDA_MEMCPY_OPER", "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT");
        let values = [2.into(), "CUDA_MEMCPY_KIND_DTOH".to_owned().into(), "Device-to-Host".to_owned().into()];
        row(connection, "ENUM_CUDA_MEMCPY_OPER", "id, name, label", values);
    }
    if generation == Generation::S3_25 {
        table(
            connection,
            "TARGET_INFO_CUDA_DEVICE",
            "gpuId INTEGER NOT NULL, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL",
        );
        let [a, b] = LOOP_PIDS;
        integers(connection, "TARGET_INFO_CUDA_DEVICE", "gpuId, cudaId, pid", &[[0, 0, a], [1, 1, b]]);
    }
}

/// When the second process does what the first did.
const LATER_NS: i64 = 500;

fn decode_gpu(connection: &Connection, generation: Generation) {
    let newest = if generation == Generation::S3_25 { ", greenContextId INTEGER, graphId INTEGER" } else { "" };
    let shared = "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, \
                  streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, graphNodeId INTEGER";
    let named = "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER";
    table(connection, "CUPTI_ACTIVITY_KIND_KERNEL", &format!("{shared}, {named}{newest}"));
    table(
        connection,
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        &format!("{shared}, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL"),
    );
    table(
        connection,
        "CUPTI_ACTIVITY_KIND_MEMSET",
        &format!("{shared}, value INTEGER NOT NULL, bytes INTEGER NOT NULL"),
    );
    let kernel = "start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName";
    for (device, pid) in (0..).zip(LOOP_PIDS) {
        let (later, owner) = (device * LATER_NS, global_pid(pid));
        integers(
            connection,
            "CUPTI_ACTIVITY_KIND_KERNEL",
            kernel,
            &[
                [10_000 + later, 20_000 + later, device, 1, 7, 1, owner, 1, 1],
                [30_000 + later, 45_000 + later, device, 1, 7, 2, owner, 2, 3],
                [45_000 + later, 50_000 + later, device, 1, 7, 2, owner, 4, 1],
            ],
        );
        let op = "start, end, deviceId, contextId, streamId, correlationId, globalPid, bytes";
        let copy = [52_000 + later, 53_000 + later, device, 1, 7, 3, owner, 512, 2];
        integers(connection, "CUPTI_ACTIVITY_KIND_MEMCPY", &format!("{op}, copyKind"), &[copy]);
        let set = [54_000 + later, 54_500 + later, device, 1, 7, 4, owner, 4096, 0];
        integers(connection, "CUPTI_ACTIVITY_KIND_MEMSET", &format!("{op}, value"), &[set]);
    }
}

fn decode_host(connection: &Connection) {
    let ddl = "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, \
               correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER";
    table(connection, "CUPTI_ACTIVITY_KIND_RUNTIME", ddl);
    table(connection, "OSRT_API", ddl);
    let ddl = "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER, textId INTEGER, \
               domainId INTEGER, jsonTextId INTEGER, jsonText TEXT";
    table(connection, "NVTX_EVENTS", ddl);
    for (process, pid) in (0..).zip(LOOP_PIDS) {
        let (later, thread) = (process * LATER_NS, global_tid(pid, pid));
        let call = "start, end, eventClass, globalTid, correlationId, nameId, returnValue";
        let calls = [(1_000, 1, 10), (21_000, 2, 11), (24_000, 3, 12), (27_000, 4, 13)];
        let calls = calls.map(|(start, id, name)| [start + later, start + later + 2_000, 0, thread, id, name, 0]);
        integers(connection, "CUPTI_ACTIVITY_KIND_RUNTIME", call, &calls);
        let waits = [[0, 400, 27, thread, 0, 14, 0], [60_000, 61_000, 27, thread, 0, 14, 0]];
        integers(connection, "OSRT_API", call, &waits);
        let range = "start, end, eventType, globalTid, textId";
        integers(connection, "NVTX_EVENTS", range, &[[500 + later, 30_000 + later, 59, thread, 15]]);
        let text = |text: &str| Value::Text(text.to_owned());
        let values = [(600 + later).into(), (5_000 + later).into(), 60.into(), thread.into(), text("decode bs=32")];
        row(connection, "NVTX_EVENTS", "start, end, eventType, globalTid, text", values);
        let values = [(700 + later).into(), Value::Null, 34.into(), thread.into(), text("a mark")];
        row(connection, "NVTX_EVENTS", "start, end, eventType, globalTid, text", values);
    }
}

/// The type ids of both GPUs: the GPU in the lowest byte, more above.
pub(crate) const TYPE_IDS: [i64; 2] = [0x0100_0000_0000_0000, 0x0100_0000_0000_0001];

fn decode_metrics(connection: &Connection) {
    let ddl =
        "typeId INTEGER NOT NULL, sourceId INTEGER NOT NULL, typeName TEXT, metricId INTEGER NOT NULL, metricName TEXT";
    table(connection, "TARGET_INFO_GPU_METRICS", ddl);
    table(
        connection,
        "GPU_METRICS",
        "timestamp INTEGER NOT NULL, typeId INTEGER NOT NULL, metricId INTEGER NOT NULL, value INTEGER NOT NULL",
    );
    for source in TYPE_IDS {
        for (id, name) in [(4, "NVLink TX Bandwidth [Throughput %]"), (9, "Pixel Warps in Flight [Avg]")] {
            let values = [source.into(), 1.into(), Value::Integer(id), name.to_owned().into()];
            row(connection, "TARGET_INFO_GPU_METRICS", "typeId, sourceId, metricId, metricName", values);
            let samples = [[20_000, source, id, 3], [10_000, source, id, 1], [40_000, source, id, 80]];
            integers(connection, "GPU_METRICS", "timestamp, typeId, metricId, value", &samples);
        }
    }
}
