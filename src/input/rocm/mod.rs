//! Readers of AMD's own profilers: rocprofv3 (`csv`, `json`, `rocpd`), its predecessors rocprof and rocprofv2 (`v1_csv`, `v1_db`;
//! the Chrome JSON is in `input::chrome::rocprof_v1`) and rocmProfileData (`rpd`; its Chrome JSON is in `input::chrome::rpd`).

mod counted;
pub(super) mod csv;
pub(super) mod json;
pub(super) mod rocpd;
mod rocpd_places;
pub(super) mod rpd;
pub(super) mod v1_csv;
pub(super) mod v1_db;

use super::database::{Import, TextNames, row_times, times};
use crate::trace::OpKind;

/// Returns the name of a copy as other profilers write it. ROCm calls it `MEMORY_COPY_HOST_TO_DEVICE` or `HOST_TO_DEVICE`, and
/// rocprof `CopyHostToDevice`.
pub(super) fn copy_name(direction: &str) -> String {
    let direction = direction.trim_start_matches("MEMORY_COPY_");
    match direction {
        "HOST_TO_DEVICE" | "CopyHostToDevice" => "Memcpy HtoD".to_owned(),
        "DEVICE_TO_HOST" | "CopyDeviceToHost" => "Memcpy DtoH".to_owned(),
        "DEVICE_TO_DEVICE" | "CopyDeviceToDevice" => "Memcpy DtoD".to_owned(),
        "HOST_TO_HOST" | "CopyHostToHost" => "Memcpy HtoH".to_owned(),
        other => format!("Memcpy ({other})"),
    }
}

/// The name of a kernel without the mark that AMD's compiler gives the symbol of a kernel: `k.kd`, `void k() [clone .kd]`.
pub(super) fn kernel_name(name: &str) -> &str {
    let symbol = name.strip_suffix(" [clone .kd]").or_else(|| name.strip_suffix(".kd"));
    symbol.filter(|symbol| !symbol.is_empty()).unwrap_or(name)
}

/// The bytes in the arguments of a copying call as rocprof writes them: `( dst(0x1) src(0x2) sizeBytes(64) kind(1))`.
pub(super) fn size_in_call(arguments: &str) -> Option<u64> {
    let (_, size) = arguments.split_once("sizeBytes(")?;
    size.split_once(')')?.0.trim().parse().ok()
}

/// The kind of an op of rocmProfileData by its type; `None` for barriers and markers, which are no work.
pub(super) fn op_kind(op_type: &str) -> Option<OpKind> {
    match op_type {
        _ if op_type.starts_with("Copy") => Some(OpKind::Copy),
        _ if op_type.starts_with("Fill") => Some(OpKind::Set),
        "KernelExecution" | "Task" | "" => Some(OpKind::Kernel),
        _ => None,
    }
}

/// What the domain of an API call says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Domain {
    /// A range that the program marked.
    Marker,
    /// A call of the HIP API or of RCCL.
    Call,
    /// A call of the HSA API, which a HIP call makes; it would count twice.
    Inner,
}

impl Domain {
    fn of(name: &str) -> Self {
        if name.contains("MARKER") || name.contains("ROCTX") {
            Self::Marker
        } else if name.contains("HSA") {
            Self::Inner
        } else {
            Self::Call
        }
    }
}
