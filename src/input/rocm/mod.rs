//! Readers of AMD's own profilers: rocprofv3 (`csv`, `json`, `rocpd`) and rocmProfileData (`rpd`; its Chrome JSON is in
//! `input::chrome::rpd`).

pub(super) mod csv;
pub(super) mod json;

use crate::trace::{Ns, OpKind, is_plausible};

/// Returns start and duration; `None` if the times are impossible.
fn times(start: i64, end: i64) -> Option<(Ns, Ns)> {
    let duration = Ns(end.checked_sub(start)?);
    is_plausible(Ns(start), duration).then_some((Ns(start), duration))
}

/// Returns the name of a copy as other profilers write it. ROCm calls it `MEMORY_COPY_HOST_TO_DEVICE` or `HOST_TO_DEVICE`.
fn copy_name(direction: &str) -> String {
    let direction = direction.trim_start_matches("MEMORY_COPY_");
    match direction {
        "HOST_TO_DEVICE" => "Memcpy HtoD".to_owned(),
        "DEVICE_TO_HOST" => "Memcpy DtoH".to_owned(),
        "DEVICE_TO_DEVICE" => "Memcpy DtoD".to_owned(),
        "HOST_TO_HOST" => "Memcpy HtoH".to_owned(),
        other => format!("Memcpy ({other})"),
    }
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
