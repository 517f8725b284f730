//! The file formats of traces and the makers of the GPUs in them.
//!
//! `patterns/formats.json` describes each format for people: who writes it, what it lacks, how to capture it.

use crate::json::from_json;
use serde::Serialize;

/// The file formats of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// torch.profiler (Kineto) JSON.
    #[default]
    TorchProfiler,
    /// The CSV of `nsys stats -r cuda_gpu_trace`.
    NsysGpuTraceCsv,
    /// The SQLite export of an Nsight Systems report.
    NsysSqlite,
    /// An Nsight Systems export that nsys2json or a similar script turned into Chrome JSON.
    NsysChromeJson,
    /// The report of nsys-llm-explainer, which has tables but no trace.
    NsysLlmExplainer,
    /// The CSV files of one run of rocprofv3.
    RocprofCsv,
    /// The JSON of rocprofv3.
    RocprofJson,
    /// The SQLite database of rocprofv3 (ROCm 7).
    Rocpd,
    /// The SQLite database of rocmProfileData.
    Rpd,
    /// The Chrome JSON of rocmProfileData.
    RpdChromeJson,
    /// The `trace_view.json` of torch_npu.
    AscendTraceView,
    /// The `kernel_details.csv` of torch_npu, or the `op_summary.csv` of msprof.
    AscendKernelDetails,
    /// The timeline of Proton, the profiler of Triton.
    ProtonTrace,
    /// The call tree of Proton: totals without times.
    ProtonTree,
    /// The protobuf of XLA's profiler: `*.xplane.pb`.
    XlaXspace,
    /// The Chrome JSON that XLA's profilers write for trace viewer.
    XlaTraceViewer,
    /// The Perfetto protobuf of rocprofv3.
    RocprofPerfetto,
    /// The Perfetto protobuf of PyTorch's CUPTI monitor.
    TorchPerfetto,
    /// The Perfetto protobuf of Intel's unitrace.
    UnitracePerfetto,
    /// The Perfetto protobuf of Proton.
    ProtonPerfetto,
    /// The Chrome JSON of rocprof, the predecessor of rocprofv3.
    RocprofV1Json,
    /// The CSV of rocprof or rocprofv2.
    RocprofV1Csv,
    /// The SQLite database of rocprof.
    RocprofV1Db,
    /// The SQLite database of msprof or torch_npu.
    AscendDb,
    /// The Chrome JSON of Intel's unitrace.
    UnitraceJson,
}
from_json!(Format =
    "torch_profiler" => TorchProfiler,
    "nsys_gpu_trace_csv" => NsysGpuTraceCsv,
    "nsys_sqlite" => NsysSqlite,
    "nsys_chrome_json" => NsysChromeJson,
    "nsys_llm_explainer" => NsysLlmExplainer,
    "rocprof_csv" => RocprofCsv,
    "rocprof_json" => RocprofJson,
    "rocpd" => Rocpd,
    "rpd" => Rpd,
    "rpd_chrome_json" => RpdChromeJson,
    "ascend_trace_view" => AscendTraceView,
    "ascend_kernel_details" => AscendKernelDetails,
    "proton_trace" => ProtonTrace,
    "proton_tree" => ProtonTree,
    "xla_xspace" => XlaXspace,
    "xla_trace_viewer" => XlaTraceViewer,
    "rocprof_perfetto" => RocprofPerfetto,
    "torch_perfetto" => TorchPerfetto,
    "unitrace_perfetto" => UnitracePerfetto,
    "proton_perfetto" => ProtonPerfetto,
    "rocprof_v1_json" => RocprofV1Json,
    "rocprof_v1_csv" => RocprofV1Csv,
    "rocprof_v1_db" => RocprofV1Db,
    "ascend_db" => AscendDb,
    "unitrace_json" => UnitraceJson
);

/// The profiler that wrote a trace. Advice about a new capture depends on it, and on the [`Vendor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profiler {
    /// torch.profiler.
    Torch,
    /// Nsight Systems.
    Nsys,
    /// rocprofv3.
    Rocprof,
    /// rocmProfileData.
    Rpd,
    /// torch_npu or msprof.
    Ascend,
    /// Proton.
    Proton,
    /// The profiler of XLA: jax.profiler, TensorFlow, PyTorch/XLA.
    Xla,
    /// Intel's unitrace.
    Unitrace,
}

/// The maker of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// NVIDIA: CUDA.
    Nvidia,
    /// AMD: ROCm and HIP.
    Amd,
    /// Intel: SYCL, called XPU in PyTorch.
    Intel,
    /// Huawei: Ascend, called NPU in PyTorch.
    Huawei,
    /// Google: TPU.
    Google,
}

impl Format {
    /// All formats, in the order of `patterns/formats.json`.
    pub const ALL: [Self; 25] = [
        Self::TorchProfiler,
        Self::NsysSqlite,
        Self::NsysGpuTraceCsv,
        Self::NsysChromeJson,
        Self::RocprofCsv,
        Self::RocprofJson,
        Self::Rocpd,
        Self::Rpd,
        Self::RpdChromeJson,
        Self::RocprofV1Json,
        Self::RocprofV1Csv,
        Self::RocprofV1Db,
        Self::AscendTraceView,
        Self::AscendKernelDetails,
        Self::AscendDb,
        Self::ProtonTrace,
        Self::ProtonTree,
        Self::XlaXspace,
        Self::XlaTraceViewer,
        Self::RocprofPerfetto,
        Self::TorchPerfetto,
        Self::UnitracePerfetto,
        Self::UnitraceJson,
        Self::ProtonPerfetto,
        Self::NsysLlmExplainer,
    ];

    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::TorchProfiler => "torch.profiler",
            Self::NsysGpuTraceCsv => "nsys cuda_gpu_trace",
            Self::NsysSqlite => "Nsight Systems export",
            Self::NsysChromeJson => "Chrome JSON of an Nsight Systems export",
            Self::NsysLlmExplainer => "nsys-llm-explainer report",
            Self::RocprofCsv => "rocprofv3 CSV",
            Self::RocprofJson => "rocprofv3 JSON",
            Self::Rocpd => "rocpd database",
            Self::Rpd => "RPD database",
            Self::RpdChromeJson => "RPD Chrome JSON",
            Self::AscendTraceView => "Ascend trace_view.json",
            Self::AscendKernelDetails => "Ascend kernel_details.csv",
            Self::ProtonTrace => "Proton trace",
            Self::ProtonTree => "Proton tree",
            Self::XlaXspace => "XLA profile",
            Self::XlaTraceViewer => "XLA trace viewer JSON",
            Self::RocprofPerfetto => "rocprofv3 Perfetto trace",
            Self::TorchPerfetto => "CUPTI monitor Perfetto trace",
            Self::UnitracePerfetto => "unitrace Perfetto trace",
            Self::ProtonPerfetto => "Proton Perfetto trace",
            Self::RocprofV1Json => "rocprof JSON",
            Self::RocprofV1Csv => "rocprof CSV",
            Self::RocprofV1Db => "rocprof database",
            Self::AscendDb => "Ascend database",
            Self::UnitraceJson => "unitrace JSON",
        }
    }

    /// The profiler that writes it.
    pub fn profiler(self) -> Profiler {
        match self {
            Self::TorchProfiler | Self::TorchPerfetto => Profiler::Torch,
            Self::NsysGpuTraceCsv | Self::NsysSqlite | Self::NsysChromeJson | Self::NsysLlmExplainer => Profiler::Nsys,
            Self::RocprofCsv
            | Self::RocprofJson
            | Self::Rocpd
            | Self::RocprofPerfetto
            | Self::RocprofV1Json
            | Self::RocprofV1Csv
            | Self::RocprofV1Db => Profiler::Rocprof,
            Self::Rpd | Self::RpdChromeJson => Profiler::Rpd,
            Self::AscendTraceView | Self::AscendKernelDetails | Self::AscendDb => Profiler::Ascend,
            Self::ProtonTrace | Self::ProtonTree | Self::ProtonPerfetto => Profiler::Proton,
            Self::XlaXspace | Self::XlaTraceViewer => Profiler::Xla,
            Self::UnitracePerfetto | Self::UnitraceJson => Profiler::Unitrace,
        }
    }

    /// True for the formats of rocprof and rocprofv2, the predecessors of rocprofv3.
    pub fn is_rocprof_v1(self) -> bool {
        matches!(self, Self::RocprofV1Json | Self::RocprofV1Csv | Self::RocprofV1Db)
    }

    /// True if places in the file are byte offsets, and not rows of a table.
    pub fn has_byte_offsets(self) -> bool {
        matches!(
            self,
            Self::TorchProfiler
                | Self::NsysChromeJson
                | Self::RocprofJson
                | Self::RpdChromeJson
                | Self::AscendTraceView
                | Self::ProtonTrace
                | Self::ProtonTree
                | Self::XlaXspace
                | Self::XlaTraceViewer
                | Self::RocprofPerfetto
                | Self::TorchPerfetto
                | Self::UnitracePerfetto
                | Self::ProtonPerfetto
                | Self::RocprofV1Json
                | Self::UnitraceJson
        )
    }

    /// The maker of the GPUs, if the format has only GPUs of one maker.
    pub fn vendor(self) -> Option<Vendor> {
        match self.profiler() {
            Profiler::Nsys => Some(Vendor::Nvidia),
            Profiler::Rocprof | Profiler::Rpd => Some(Vendor::Amd),
            Profiler::Ascend => Some(Vendor::Huawei),
            Profiler::Unitrace => Some(Vendor::Intel),
            Profiler::Torch | Profiler::Proton | Profiler::Xla => None,
        }
    }
}

impl super::Trace {
    /// The maker of the GPUs: known from the format, the devices, the API calls or the kernels; NVIDIA if nothing tells.
    pub fn vendor(&self) -> Vendor {
        if let Some(vendor) = self.format.vendor() {
            return vendor;
        }
        let has = |words: &[&str], name: &str| words.iter().any(|word| name.contains(word));
        let has_device = |words: &[&str]| self.devices.iter().any(|device| has(words, &device.name));
        let has_call = |prefixes: &[&str]| {
            let mut names = self.calls.names.iter();
            names.any(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        };
        if !self.devices.is_empty() && self.devices.iter().all(|device| device.id.starts_with("TPU ")) {
            return Vendor::Google;
        }
        if has_device(&["AMD", "MI2", "MI3", "gfx", "Radeon"]) || has_call(&["hip"]) {
            Vendor::Amd
        } else if has_device(&["Intel"])
            || has_call(&["ze", "ur"])
            || self.names.iter().any(|name| has(&["at::native::xpu::", "jit:gemm", "sycl::"], name))
        {
            Vendor::Intel
        } else {
            Vendor::Nvidia
        }
    }
}
