//! An example of five GPU ops on two devices, and its results computed by hand.
//!
//! ```text
//! us         100  102  105  110  112  115  120  122  127
//! device 0   gemm-----------|                              10
//!                      nccl-----------|                    10, half of it alone
//!                                               copy--|     5
//! device 1        gemm-----------|                         10
//!                                nccl-------|               8
//! ```

use std::path::Path;

pub(crate) const GEMM: &str = "nvjet_tst_64x8";
pub(crate) const NCCL: &str = "ncclDevKernel_AllReduce";
pub(crate) const COPY: &str = "Memcpy HtoD (Pinned -> Device)";

/// The expected results of one kernel name. Times are in nanoseconds; `range` is the minimum and maximum duration.
pub(crate) struct Known {
    pub(crate) name: &'static str,
    pub(crate) category: &'static str,
    pub(crate) count: i64,
    pub(crate) duration: i64,
    pub(crate) range: (i64, i64),
    pub(crate) first_come: i64,
    pub(crate) exclusive: i64,
    pub(crate) fair: i64,
}

/// Sorted by elapsed time. The two ops of device 0 overlap from 105 to 110 us.
pub(crate) const KNOWN: [Known; 3] = [
    Known {
        name: GEMM,
        category: "gemm",
        count: 2,
        duration: 20_000,
        range: (10_000, 10_000),
        first_come: 20_000,
        exclusive: 15_000,
        fair: 17_500,
    },
    Known {
        name: NCCL,
        category: "communication",
        count: 2,
        duration: 18_000,
        range: (8_000, 10_000),
        first_come: 13_000,
        exclusive: 13_000,
        fair: 15_500,
    },
    Known {
        name: COPY,
        category: "memory",
        count: 1,
        duration: 5_000,
        range: (5_000, 5_000),
        first_come: 5_000,
        exclusive: 5_000,
        fair: 5_000,
    },
];

/// Device 0 is busy from 100 to 115 and from 122 to 127, device 1 from 102 to 120.
pub(crate) const UNION: [i64; 2] = [20_000, 18_000];
/// Busy from 100 to 120 and from 122 to 127.
pub(crate) const UNION_ALL: i64 = 25_000;
/// From 100 to 127.
pub(crate) const WINDOW: i64 = 27_000;
/// The bar is twice the window, once per device.
pub(crate) const CPU: i64 = 2 * WINDOW - 38_000;

/// Writes the example in the format of torch.profiler.
pub(crate) fn write_torch(folder: &Path, name: &str) {
    let ops = [
        op("kernel", GEMM, 0, 7, 100, 10),
        op("kernel", NCCL, 0, 8, 105, 10),
        op("gpu_memcpy", COPY, 0, 7, 122, 5),
        op("kernel", GEMM, 1, 7, 102, 10),
        op("kernel", NCCL, 1, 7, 112, 8),
    ];
    write_events(folder, name, &ops);
}

pub(crate) fn op(category: &str, name: &str, device: u32, stream: u32, start_us: u32, us: u32) -> String {
    let name = serde_json::to_string(name).unwrap();
    format!(
        r#"{{"ph": "X", "cat": "{category}", "name": {name}, "pid": {device}, "tid": {stream}, "ts": {start_us}, "dur": {us}, "args": {{"device": {device}, "stream": {stream}}}}}"#
    )
}

pub(crate) fn write_events(folder: &Path, name: &str, events: &[String]) {
    std::fs::write(folder.join(name), format!("{{\"traceEvents\": [\n{}\n]}}", events.join(",\n"))).unwrap();
}

/// The example as `nsys stats -r cuda_gpu_trace` prints it, with the name that nsys gives to the copy.
pub(crate) const NSYS_CSV: &str = "\
Start (ns),Duration (ns),CorrId,Device,Ctx,Strm,Name
100000,10000,1,NVIDIA H100 (0),1,7,nvjet_tst_64x8
102000,10000,2,NVIDIA H100 (1),1,7,nvjet_tst_64x8
105000,10000,3,NVIDIA H100 (0),1,8,ncclDevKernel_AllReduce
112000,8000,4,NVIDIA H100 (1),1,7,ncclDevKernel_AllReduce
122000,5000,5,NVIDIA H100 (0),1,7,[CUDA memcpy Host-to-Device]
";
