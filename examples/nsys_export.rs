//! Writes a large Nsight Systems SQLite export to measure with, the same rows on every run.
//!
//! `cargo run --release --example nsys_export -- OUT.sqlite [MILLIONS [SHAPE]]`: so many million kernels (5 where none are
//! given), and as many API calls and NVTX ranges; about 220 MB a million.
//!
//! It models processes that serve a model, each on a GPU, and launch every kernel on its own, decode step after decode
//! step: the same few dozen kernels again and again, an NVTX range around each part of a layer, correlation ids that
//! all processes count for themselves, a copy and a set a step. Tables and columns are those of schema 3.25; kernels and
//! ranges stand by start, calls process by process, as nsys writes them. Nothing in it was measured.
//!
//! The shape is `steady`: two GPUs that often rest; `busy`: eight that hardly do, and never together; or `eager`: two, and
//! three calls a kernel.

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
const FIRST_PID: i64 = 3187;
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
const RECORD: i64 = 4;
const CAPTURING: i64 = 5;
const FIRST_KERNEL: i64 = 10;

/// Kernels of one process in one decode step.
const STEP: u64 = LAYERS * LAYER.len() as u64;
/// Correlation ids of calls that launch nothing.
const OTHERS: i64 = 900_000_000;
/// What a launch takes, and from one launch to the next.
const LAUNCH_NS: i64 = 3_900;
const PITCH_NS: i64 = 19_400;

/// What is exported.
#[derive(Clone, Copy)]
struct Shape {
    gpus: i64,
    /// From what one process does to what the next one does.
    behind_ns: i64,
    /// Kernels take nearly all the time until the next one begins.
    is_busy: bool,
    /// Calls beside the launch of a kernel.
    others: &'static [i64],
}

const SHAPES: [(&str, Shape); 3] = [
    ("steady", Shape { gpus: 2, behind_ns: 1_100, is_busy: false, others: &[] }),
    ("busy", Shape { gpus: 8, behind_ns: 2_300, is_busy: true, others: &[] }),
    ("eager", Shape { gpus: 2, behind_ns: 1_100, is_busy: false, others: &[RECORD, CAPTURING] }),
];

impl Shape {
    /// Each process with the number of its GPU.
    fn processes(self) -> impl Iterator<Item = (i64, i64)> {
        (0..self.gpus).zip(FIRST_PID..)
    }

    fn launch_ns(self, gpu: i64, place: u64) -> i64 {
        BEGIN_NS + place as i64 * PITCH_NS + gpu * self.behind_ns
    }

    fn duration_ns(self, gpu: i64, place: u64, part: usize) -> i64 {
        // Durations wander a little, as on a real GPU.
        let random = |place: u64| (place.wrapping_mul(2_654_435_761) >> 7) as i64;
        if self.is_busy {
            PITCH_NS - 1 - random(place + gpu as u64 * 977) % 900
        } else {
            LAYER[part].1 + random(place) % 600
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next().filter(|path| !path.starts_with('-')) else {
        eprintln!("usage: nsys_export OUT.sqlite [MILLIONS [steady|busy|eager]]");
        return Err("no file named".into());
    };
    let millions: f64 = arguments.next().map_or(Ok(5.0), |text| text.parse())?;
    let wanted = arguments.next().unwrap_or_else(|| "steady".to_owned());
    let (_, shape) = *SHAPES.iter().find(|(name, _)| *name == wanted).ok_or_else(|| format!("no shape: {wanted}"))?;
    let steps = (millions * MILLION as f64 / (STEP * shape.gpus as u64) as f64).ceil() as u64;
    if std::fs::exists(&path)? {
        return Err(format!("{path} exists already").into());
    }
    let connection = Connection::open(&path)?;
    connection.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-65536; BEGIN")?;
    connection.execute_batch(TABLES)?;
    write_names(&connection, shape)?;
    write_gpu(&connection, steps, shape)?;
    write_calls(&connection, steps, shape)?;
    write_ranges(&connection, steps, shape)?;
    connection.execute_batch("COMMIT")?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(())
}

fn write_names(connection: &Connection, shape: Shape) -> rusqlite::Result<()> {
    let mut string = connection.prepare("INSERT INTO StringIds VALUES (?1, ?2)")?;
    for (id, text) in [
        (LAUNCH, "cudaLaunchKernel_v7000"),
        (MEMCPY, "cudaMemcpyAsync_v3020"),
        (MEMSET, "cudaMemsetAsync_v3020"),
        (RECORD, "cudaEventRecord_v3020"),
        (CAPTURING, "cudaStreamIsCapturing_v10000"),
    ] {
        string.execute(params![id, text])?;
    }
    for (id, (name, ..)) in (FIRST_KERNEL..).zip(LAYER) {
        string.execute(params![id, name])?;
    }
    for (name, value) in [("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"), ("EXPORT_SCHEMA_VERSION", "3.25.0")] {
        connection.execute("INSERT INTO META_DATA_EXPORT VALUES (?1, ?2)", params![name, value])?;
    }
    for (gpu, pid) in shape.processes() {
        connection.execute("INSERT INTO PROCESSES VALUES (?1, ?2, 'VLLM::Worker')", params![HOST | pid << 24, pid])?;
        connection.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, ?1, 'NVIDIA H100 80GB HBM3', ?1)", params![gpu])?;
    }
    Ok(())
}

/// The kernels of all processes in the order in which they start: GPU, process, place in it, part of the layer.
fn places(steps: u64, shape: Shape) -> impl Iterator<Item = (i64, i64, u64, usize)> {
    let of_all = move |place| shape.processes().map(move |(gpu, pid)| (gpu, pid, place, place as usize % LAYER.len()));
    (0..steps * STEP).flat_map(of_all)
}

fn is_first_of_step(place: u64) -> bool {
    place.is_multiple_of(STEP)
}

fn write_gpu(connection: &Connection, steps: u64, shape: Shape) -> rusqlite::Result<()> {
    let mut kernel = connection.prepare(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?1, ?2, ?3, 1, 0, 7, ?4, ?5, ?6, ?6, NULL, 1, 1, 64, 132, 1, 1, 128, 1,
         1, 16384, 0, 0, 250871808, ?4, 32768, NULL, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 1, 0, 0, NULL, '[]')",
    )?;
    let mut copy =
        connection.prepare("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?1, ?2, ?3, 1, 0, 7, ?4, ?5, 512, 1)")?;
    let mut set =
        connection.prepare("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (?1, ?2, ?3, 1, 0, 7, ?4, ?5, 0, 4096)")?;
    for (gpu, pid, place, part) in places(steps, shape) {
        let (start, owner) = (shape.launch_ns(gpu, place) + 6_200, HOST | pid << 24);
        let correlation = correlation(place);
        let add = |statement: &mut Statement<'_>, start: i64, duration: i64, correlation: i64| {
            statement.execute(params![start, start + duration, gpu, correlation, owner])
        };
        if is_first_of_step(place) {
            add(&mut copy, start - 3_000, 1_400, correlation - 2)?;
            add(&mut set, start - 1_500, 900, correlation - 1)?;
        }
        let (duration, name) = (shape.duration_ns(gpu, place, part), FIRST_KERNEL + part as i64);
        kernel.execute(params![start, start + duration, gpu, correlation, owner, name])?;
    }
    Ok(())
}

/// All processes count from the same number; a step's copy and set come before its kernels.
fn correlation(place: u64) -> i64 {
    let steps_begun = place as i64 / STEP as i64 + 1;
    1_000 + place as i64 + 2 * steps_begun
}

fn write_calls(connection: &Connection, steps: u64, shape: Shape) -> rusqlite::Result<()> {
    let mut call =
        connection.prepare("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?2, 0, ?3, ?4, ?5, 0, NULL)")?;
    for (gpu, pid) in shape.processes() {
        let thread = HOST | pid << 24 | pid;
        for place in 0..steps * STEP {
            let (start, correlation) = (shape.launch_ns(gpu, place), correlation(place));
            if is_first_of_step(place) {
                call.execute(params![start - 9_000, start - 6_000, thread, correlation - 2, MEMCPY])?;
                call.execute(params![start - 5_000, start - 2_500, thread, correlation - 1, MEMSET])?;
            }
            call.execute(params![start, start + LAUNCH_NS, thread, correlation, LAUNCH])?;
            for (name, at) in shape.others.iter().zip(0..) {
                let (start, nobodys) = (start + LAUNCH_NS + 500 + at * 900, OTHERS + place as i64 * 8 + at);
                call.execute(params![start, start + 600, thread, nobodys, name])?;
            }
        }
    }
    Ok(())
}

fn write_ranges(connection: &Connection, steps: u64, shape: Shape) -> rusqlite::Result<()> {
    let mut range = connection.prepare(
        "INSERT INTO NVTX_EVENTS VALUES (?1, ?2, 59, NULL, NULL, NULL, ?3, ?4, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL,
         NULL, NULL, NULL, NULL)",
    )?;
    let layer_of = |place: u64| place / LAYER.len() as u64 % LAYERS;
    for (gpu, pid, place, part) in places(steps, shape) {
        let (start, thread) = (shape.launch_ns(gpu, place), HOST | pid << 24 | pid);
        let end = start + PITCH_NS - 200;
        if is_first_of_step(place) {
            let end = shape.launch_ns(gpu, place + STEP) - 20_000;
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
