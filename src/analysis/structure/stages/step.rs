//! A step on a device, and where its times come from.

use super::StepInfo;
use crate::trace::{DeviceId, NameId, Ns, ProcessId};

/// One step on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The parsed annotation. Missing values are those of an enclosing annotation of the same stage that contains no other step.
    pub info: StepInfo,
    /// The text, in [`HostCode::annotation_names`](crate::trace::HostCode::annotation_names) or in the names of the ranges; in neither if there is no annotation.
    pub name: NameId,
    /// Start.
    pub start: Ns,
    /// End.
    pub end: Ns,
    /// The device; `None` if unknown.
    pub device: Option<DeviceId>,
    /// The source of its times.
    pub basis: Basis,
    /// The process of its annotation.
    pub process: ProcessId,
    /// Start and end of its annotation, on the host or the device.
    pub annotation_range: (Ns, Ns),
    /// The program does other work between it and the next step, see `phase_ends`.
    pub ends_phase: bool,
}

/// The source of the times of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The device annotation.
    Device,
    /// First start and last end of the GPU ops that were launched within the host annotation.
    Launches,
    /// The host annotation, because no GPU op is known to be launched in it.
    Host,
    /// The order of the kernels; there is no annotation.
    Kernels,
}
