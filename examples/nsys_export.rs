//! Writes a large Nsight Systems SQLite export to measure with, the same rows on every run.
//!
//! `cargo run --release --example nsys_export -- OUT.sqlite [MILLIONS]`: so many million kernels (5 where none are
//! given), and as many API calls and NVTX ranges; about 220 MB a million.
//!
//! It models two processes that serve a model on two GPUs and launch every kernel on its own, decode step after decode
//! step: the same few dozen kernels again and again, an NVTX range around each part of a layer, correlation ids that
//! both processes count for themselves, a copy and a set a step. Tables and columns are those of schema 3.25; kernels and
//! ranges stand by start, calls process by process, as nsys writes them. Nothing in it was measured.

#![allow(
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "an example says how it is used; places are within the tables"
)]

use rusqlite::{Connection, Statement, params};
use std::error::Error;

const TABLES: &str = "
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, cuDevice INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER,
  registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL,
  blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL,
  dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL,
  gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER,
  qmdBulkReleaseDone INTEGER, qmdPreexitDone INTEGER, qmdLastCtaDone INTEGER, graphId INTEGER, clusterX INTEGER,
  clusterY INTEGER, clusterZ INTEGER, clusterSchedulingPolicy INTEGER, maxPotentialClusterSize INTEGER,
  maxActiveClusters INTEGER, sharedMemoryRequestedPercentage INTEGER, tensorSizeMinusOneElements TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  value INTEGER NOT NULL, bytes INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER,
  color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER,
  int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonTextId INTEGER,
  jsonText TEXT, binaryData TEXT);
";

const MILLION: u64 = 1_000_000;
const LAYERS: u64 = 32;
/// Stands at the top of every global id; then the process, then the thread.
const HOST: i64 = 1 << 48;
const PIDS: [i64; 2] = [3187, 3188];
const BEGIN_NS: i64 = 154_000_000_000;

/// The kernels of a layer: name, duration, part of the layer.
const LAYER: [(&str, i64, &str); 10] = [
    (
        "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, (int)8>(T1 *, T1 *, const T1 *, float, int, int)",
        4_100,
        "input_layernorm",
    ),
    ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", 11_300, "self_attn.qkv_proj"),
    (
        "void vllm::rotary_embedding_kernel<c10::BFloat16, (bool)1>(const long *, T1 *, T1 *, const T1 *, int)",
        2_700,
        "self_attn.rotary_emb",
    ),
    (
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16, (int)0>(const T1 *, const T1 *)",
        2_300,
        "self_attn.attn",
    ),
    (
        "void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<(int)2>>>(T1::Params)",
        17_900,
        "self_attn.attn",
    ),
    ("nvjet_tst_64x8_64x16_2x1_v_bz_splitK_TNT", 8_200, "self_attn.o_proj"),
    (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        14_600,
        "self_attn.o_proj",
    ),
    ("nvjet_tst_128x8_64x12_2x1_v_bz_TNT", 24_500, "mlp.gate_up_proj"),
    (
        "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, (bool)1>(T1 *, const T1 *, int)",
        3_300,
        "mlp.act_fn",
    ),
    ("nvjet_tst_64x8_64x16_2x4_v_bz_splitK_TNT", 15_100, "mlp.down_proj"),
];
const LAUNCH: i64 = 1;
const MEMCPY: i64 = 2;
const MEMSET: i64 = 3;
const FIRST_KERNEL: i64 = 10;

/// Kernels, and calls and ranges, of both processes in one decode step.
const STEP: u64 = 2 * LAYERS * LAYER.len() as u64;
/// What a launch takes, and from one launch to the next.
const LAUNCH_NS: i64 = 3_900;
const PITCH_NS: i64 = 9_700;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next().filter(|path| !path.starts_with('-')) else {
        eprintln!("usage: nsys_export OUT.sqlite [MILLIONS]");
        return Err("no file named".into());
    };
    let millions: f64 = arguments.next().map_or(Ok(5.0), |text| text.parse())?;
    let steps = (millions * MILLION as f64 / STEP as f64).ceil() as u64;
    if std::fs::exists(&path)? {
        return Err(format!("{path} exists already").into());
    }
    let connection = Connection::open(&path)?;
    connection.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-65536; BEGIN")?;
    connection.execute_batch(TABLES)?;
    write_names(&connection)?;
    write_gpu(&connection, steps)?;
    write_calls(&connection, steps)?;
    write_ranges(&connection, steps)?;
    connection.execute_batch("COMMIT")?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(())
}

fn write_names(connection: &Connection) -> rusqlite::Result<()> {
    let mut string = connection.prepare("INSERT INTO StringIds VALUES (?1, ?2)")?;
    for (id, text) in
        [(LAUNCH, "cudaLaunchKernel_v7000"), (MEMCPY, "cudaMemcpyAsync_v3020"), (MEMSET, "cudaMemsetAsync_v3020")]
    {
        string.execute(params![id, text])?;
    }
    for (id, (name, ..)) in (FIRST_KERNEL..).zip(LAYER) {
        string.execute(params![id, name])?;
    }
    for (name, value) in [("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"), ("EXPORT_SCHEMA_VERSION", "3.25.0")] {
        connection.execute("INSERT INTO META_DATA_EXPORT VALUES (?1, ?2)", params![name, value])?;
    }
    for (gpu, pid) in (0..).zip(PIDS) {
        connection.execute("INSERT INTO PROCESSES VALUES (?1, ?2, 'VLLM::Worker')", params![HOST | pid << 24, pid])?;
        connection.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, ?1, 'NVIDIA H100 80GB HBM3', ?1)", params![gpu])?;
    }
    Ok(())
}

/// The kernels of both processes in the order in which they start, with their place in their process.
fn places(steps: u64) -> impl Iterator<Item = (usize, u64, usize)> {
    let in_process = steps * STEP / 2;
    (0..in_process)
        .flat_map(|place| [(0, place, place as usize % LAYER.len()), (1, place, place as usize % LAYER.len())])
}

fn launch_ns(process: usize, place: u64) -> i64 {
    BEGIN_NS + place as i64 * PITCH_NS * 2 + process as i64 * 1_100
}

fn is_first_of_step(place: u64) -> bool {
    place.is_multiple_of(STEP / 2)
}

fn write_gpu(connection: &Connection, steps: u64) -> rusqlite::Result<()> {
    let mut kernel = connection.prepare(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?1, ?2, ?3, 1, 0, 7, ?4, ?5, ?6, ?6, NULL, 1, 1, 64, 132, 1, 1, 128, 1,
         1, 16384, 0, 0, 250871808, ?4, 32768, NULL, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 1, 0, 0, NULL, '[]')",
    )?;
    let mut copy =
        connection.prepare("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?1, ?2, ?3, 1, 0, 7, ?4, ?5, 512, 1)")?;
    let mut set =
        connection.prepare("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (?1, ?2, ?3, 1, 0, 7, ?4, ?5, 0, 4096)")?;
    for (process, place, part) in places(steps) {
        let (start, owner) = (launch_ns(process, place) + 6_200, HOST | PIDS[process] << 24);
        let correlation = correlation(place);
        let add = |statement: &mut Statement<'_>, start: i64, duration: i64, correlation: i64| {
            statement.execute(params![start, start + duration, process as i64, correlation, owner])
        };
        if is_first_of_step(place) {
            add(&mut copy, start - 3_000, 1_400, correlation - 2)?;
            add(&mut set, start - 1_500, 900, correlation - 1)?;
        }
        // Durations wander a little, as on a real GPU.
        let duration = LAYER[part].1 + (place.wrapping_mul(2_654_435_761) >> 7) as i64 % 600;
        let name = FIRST_KERNEL + part as i64;
        kernel.execute(params![start, start + duration, process as i64, correlation, owner, name])?;
    }
    Ok(())
}

/// Both processes count from the same number; a step's copy and set come before its kernels.
fn correlation(place: u64) -> i64 {
    let steps_begun = place as i64 / (STEP as i64 / 2) + 1;
    1_000 + place as i64 + 2 * steps_begun
}

fn write_calls(connection: &Connection, steps: u64) -> rusqlite::Result<()> {
    let mut call =
        connection.prepare("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?2, 0, ?3, ?4, ?5, 0, NULL)")?;
    for (process, pid) in PIDS.into_iter().enumerate() {
        let thread = HOST | pid << 24 | pid;
        for place in 0..steps * STEP / 2 {
            let (start, correlation) = (launch_ns(process, place), correlation(place));
            if is_first_of_step(place) {
                call.execute(params![start - 9_000, start - 6_000, thread, correlation - 2, MEMCPY])?;
                call.execute(params![start - 5_000, start - 2_500, thread, correlation - 1, MEMSET])?;
            }
            call.execute(params![start, start + LAUNCH_NS, thread, correlation, LAUNCH])?;
        }
    }
    Ok(())
}

fn write_ranges(connection: &Connection, steps: u64) -> rusqlite::Result<()> {
    let mut range = connection.prepare(
        "INSERT INTO NVTX_EVENTS VALUES (?1, ?2, 59, NULL, NULL, NULL, ?3, ?4, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL,
         NULL, NULL, NULL, NULL)",
    )?;
    let layer_of = |place: u64| place / LAYER.len() as u64 % LAYERS;
    for (process, place, part) in places(steps) {
        let (start, thread) = (launch_ns(process, place), HOST | PIDS[process] << 24 | PIDS[process]);
        let end = start + PITCH_NS * 2 - 200;
        if is_first_of_step(place) {
            let end = launch_ns(process, place + STEP / 2) - 20_000;
            range.execute(params![start - 10_000, end, "execute_context_0(0)_generation_32(32)", thread])?;
        }
        range.execute(params![
            start - 100,
            end,
            format!("model.layers.{}.{}", layer_of(place), LAYER[part].2),
            thread
        ])?;
    }
    Ok(())
}
