//! Writes a large synthetic Nsight Systems SQLite export for measurements. The rows are the same on every run.
//!
//! `cargo run --release --example nsys_export -- OUT.sqlite [MILLIONS [WORKLOAD]]` writes that many million kernels (default 5),
//! and as many API calls and NVTX ranges. A million takes about 220 MB.
//!
//! It models processes that serve a model, one per GPU, without CUDA graphs: decode steps of the same few dozen kernels, an NVTX
//! range for each part of a layer, correlation ids that each process counts for itself, one copy and one set per step. Tables and
//! columns are those of schema 3.25. Kernels and ranges are sorted by start, calls by process, as nsys writes them. No number in
//! it was measured.
//!
//! The workload is `steady`: two GPUs that are often idle; `busy`: eight GPUs that are rarely idle, and never all at once; or
//! `eager`: two GPUs, and three calls per kernel.

#![allow(
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "an example prints its usage; indices are within the tables"
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
/// The host part of every global id; process and thread are in the lower bits.
const HOST: i64 = 1 << 48;
const FIRST_PID: i64 = 3187;
const START_NS: i64 = 154_000_000_000;

/// The kernels of a layer: name, duration in ns, part of the layer.
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
/// First correlation id of calls that launch nothing.
const FIRST_OTHER_ID: i64 = 900_000_000;
/// Duration of a launch, and time from one launch to the next.
const LAUNCH_NS: i64 = 3_900;
const LAUNCH_INTERVAL_NS: i64 = 19_400;

/// The workload to export.
#[derive(Clone, Copy)]
struct Workload {
    gpus: i64,
    /// Time offset from one process to the next.
    offset_ns: i64,
    /// True if kernels take nearly all the time until the next one starts.
    is_busy: bool,
    /// String ids of the calls after each kernel launch.
    other_calls: &'static [i64],
}

const WORKLOADS: [(&str, Workload); 3] = [
    ("steady", Workload { gpus: 2, offset_ns: 1_100, is_busy: false, other_calls: &[] }),
    ("busy", Workload { gpus: 8, offset_ns: 2_300, is_busy: true, other_calls: &[] }),
    ("eager", Workload { gpus: 2, offset_ns: 1_100, is_busy: false, other_calls: &[RECORD, CAPTURING] }),
];

impl Workload {
    /// Iterates over the processes: number of the GPU, pid.
    fn processes(self) -> impl Iterator<Item = (i64, i64)> {
        (0..self.gpus).zip(FIRST_PID..)
    }

    fn launch_ns(self, gpu: i64, index: u64) -> i64 {
        START_NS + index as i64 * LAUNCH_INTERVAL_NS + gpu * self.offset_ns
    }

    fn duration_ns(self, gpu: i64, index: u64, part: usize) -> i64 {
        // Durations vary a little, as on a real GPU.
        let random = |index: u64| (index.wrapping_mul(2_654_435_761) >> 7) as i64;
        if self.is_busy {
            LAUNCH_INTERVAL_NS - 1 - random(index + gpu as u64 * 977) % 900
        } else {
            LAYER[part].1 + random(index) % 600
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
    let (_, workload) =
        *WORKLOADS.iter().find(|(name, _)| *name == wanted).ok_or_else(|| format!("unknown workload: {wanted}"))?;
    let steps = (millions * MILLION as f64 / (STEP * workload.gpus as u64) as f64).ceil() as u64;
    if std::fs::exists(&path)? {
        return Err(format!("{path} exists already").into());
    }
    let connection = Connection::open(&path)?;
    connection.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-65536; BEGIN")?;
    connection.execute_batch(TABLES)?;
    write_names(&connection, workload)?;
    write_gpu(&connection, steps, workload)?;
    write_calls(&connection, steps, workload)?;
    write_ranges(&connection, steps, workload)?;
    connection.execute_batch("COMMIT")?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(())
}

fn write_names(connection: &Connection, workload: Workload) -> rusqlite::Result<()> {
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
    for (gpu, pid) in workload.processes() {
        connection.execute("INSERT INTO PROCESSES VALUES (?1, ?2, 'VLLM::Worker')", params![HOST | pid << 24, pid])?;
        connection.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, ?1, 'NVIDIA H100 80GB HBM3', ?1)", params![gpu])?;
    }
    Ok(())
}

/// Iterates over the kernels of all processes, sorted by start: GPU, pid, index in the process, part of the layer.
fn kernels(steps: u64, workload: Workload) -> impl Iterator<Item = (i64, i64, u64, usize)> {
    let of_all =
        move |index| workload.processes().map(move |(gpu, pid)| (gpu, pid, index, index as usize % LAYER.len()));
    (0..steps * STEP).flat_map(of_all)
}

fn is_first_of_step(index: u64) -> bool {
    index.is_multiple_of(STEP)
}

fn write_gpu(connection: &Connection, steps: u64, workload: Workload) -> rusqlite::Result<()> {
    let mut kernel = connection.prepare(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?1, ?2, ?3, 1, 0, 7, ?4, ?5, ?6, ?6, NULL, 1, 1, 64, 132, 1, 1, 128, 1,
         1, 16384, 0, 0, 250871808, ?4, 32768, NULL, 0, NULL, NULL, NULL, NULL, 0, 0, 0, 1, 0, 0, NULL, '[]')",
    )?;
    let mut copy =
        connection.prepare("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?1, ?2, ?3, 1, 0, 7, ?4, ?5, 512, 1)")?;
    let mut set =
        connection.prepare("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (?1, ?2, ?3, 1, 0, 7, ?4, ?5, 0, 4096)")?;
    for (gpu, pid, index, part) in kernels(steps, workload) {
        let (start, owner) = (workload.launch_ns(gpu, index) + 6_200, HOST | pid << 24);
        let correlation = correlation(index);
        let add = |statement: &mut Statement<'_>, start: i64, duration: i64, correlation: i64| {
            statement.execute(params![start, start + duration, gpu, correlation, owner])
        };
        if is_first_of_step(index) {
            add(&mut copy, start - 3_000, 1_400, correlation - 2)?;
            add(&mut set, start - 1_500, 900, correlation - 1)?;
        }
        let (duration, name) = (workload.duration_ns(gpu, index, part), FIRST_KERNEL + part as i64);
        kernel.execute(params![start, start + duration, gpu, correlation, owner, name])?;
    }
    Ok(())
}

/// Returns the correlation id of a kernel. All processes count from the same number; the copy and set of a step precede its kernels.
fn correlation(index: u64) -> i64 {
    let steps_started = index as i64 / STEP as i64 + 1;
    1_000 + index as i64 + 2 * steps_started
}

fn write_calls(connection: &Connection, steps: u64, workload: Workload) -> rusqlite::Result<()> {
    let mut call =
        connection.prepare("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?2, 0, ?3, ?4, ?5, 0, NULL)")?;
    for (gpu, pid) in workload.processes() {
        let thread = HOST | pid << 24 | pid;
        for index in 0..steps * STEP {
            let (start, correlation) = (workload.launch_ns(gpu, index), correlation(index));
            if is_first_of_step(index) {
                call.execute(params![start - 9_000, start - 6_000, thread, correlation - 2, MEMCPY])?;
                call.execute(params![start - 5_000, start - 2_500, thread, correlation - 1, MEMSET])?;
            }
            call.execute(params![start, start + LAUNCH_NS, thread, correlation, LAUNCH])?;
            for (name, at) in workload.other_calls.iter().zip(0..) {
                let (start, unused_id) = (start + LAUNCH_NS + 500 + at * 900, FIRST_OTHER_ID + index as i64 * 8 + at);
                call.execute(params![start, start + 600, thread, unused_id, name])?;
            }
        }
    }
    Ok(())
}

fn write_ranges(connection: &Connection, steps: u64, workload: Workload) -> rusqlite::Result<()> {
    let mut range = connection.prepare(
        "INSERT INTO NVTX_EVENTS VALUES (?1, ?2, 59, NULL, NULL, NULL, ?3, ?4, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL,
         NULL, NULL, NULL, NULL)",
    )?;
    let layer_of = |index: u64| index / LAYER.len() as u64 % LAYERS;
    for (gpu, pid, index, part) in kernels(steps, workload) {
        let (start, thread) = (workload.launch_ns(gpu, index), HOST | pid << 24 | pid);
        let end = start + LAUNCH_INTERVAL_NS - 200;
        if is_first_of_step(index) {
            let end = workload.launch_ns(gpu, index + STEP) - 20_000;
            range.execute(params![start - 10_000, end, "execute_context_0(0)_generation_32(32)", thread])?;
        }
        range.execute(params![
            start - 100,
            end,
            format!("model.layers.{}.{}", layer_of(index), LAYER[part].2),
            thread
        ])?;
    }
    Ok(())
}
