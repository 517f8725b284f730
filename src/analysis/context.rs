//! The input of every section: the classified trace, and results that several sections share.
//!
//! A shared result is computed when a section first reads it, and then cached: it costs one pass for any number of
//! sections.

use super::classified::ClassifiedTrace;
use super::communication::operations::Collectives;
use super::communication::waiting::{CallWait, WaitingTimes, call_waits};
use super::dashboard::{Preset, preset_of_devices};
use super::host::blamed_code::BlamedCode;
use super::host::blocking_calls::BlockingCalls;
use super::host::calls::HostCalls;
use super::host::latencies::LaunchLatencies;
use super::index::WindowSegments;
use super::inference::kernel_roles::NameRoles;
use super::inference::op_work::OpWork;
use super::inference::passes::Passes;
use super::inference::served_model::ServedModel;
use super::inference::stage_layers::{StageLayers, stage_layers};
use super::inference::step_tokens::add_tokens;
use super::kernels::durations::KernelDurations;
use super::kernels::groups::Groups;
use super::kernels::kernel_sums::KernelSums;
use super::measure::tally::Tallies;
use super::recapture::{self, MissingData};
use super::replay::asked::Asked;
use super::section::{Answer, Pct, TypedSection};
use super::structure::call_ranges::{CallRanges, CallRangesView};
use super::structure::kernel_time::KernelTimeByRange;
use super::structure::measured_steps::MeasuredSteps;
use super::structure::phase_names::PhaseNames;
use super::structure::range_times::wall_times;
use super::structure::shifted_durations::{ShiftedDurations, shifted_durations};
use super::structure::stages::{Step, steps_from_ranges};
use super::summary::{DetailSource, OpDetails, Summary};
use super::time::survey::Survey;
use crate::rules::PhaseMap;
use crate::trace::{NameId, Ns, Trace};
use std::cell::OnceCell;
use std::ops::Deref;

/// What one sweep over the GPU ops computes.
#[derive(Debug)]
pub(crate) struct Details {
    survey: Survey,
    pub(crate) latencies: LaunchLatencies,
    pub(crate) kernel_time: KernelTimeByRange,
}

/// The analyzed trace and the results that sections share. Dereferences to [`ClassifiedTrace`].
#[derive(Debug)]
pub struct Context<'a> {
    classified: ClassifiedTrace<'a>,
    /// The number of rows in the table of top kernels.
    pub kernel_limit: usize,
    /// The user's phase map.
    pub phase_map: Option<&'a PhaseMap>,
    /// What the user says about the model.
    pub model: Option<&'a ServedModel>,
    /// The changes that the user asks to replay together.
    pub asked: &'a [Asked],
    reused: Reused<'a>,
    groups: OnceCell<Groups>,
    details: OnceCell<Details>,
    kernels: OnceCell<KernelSums>,
    host: OnceCell<HostCalls>,
    blocking: OnceCell<BlockingCalls>,
    blamed_code: OnceCell<BlamedCode>,
    collectives: OnceCell<Option<Collectives>>,
    call_waits: OnceCell<Vec<CallWait>>,
    waiting: OnceCell<WaitingTimes>,
    range_times: OnceCell<Tallies>,
    steps: OnceCell<Vec<Step>>,
    measured_steps: OnceCell<MeasuredSteps>,
    preset: OnceCell<Option<&'static Preset>>,
    name_roles: OnceCell<NameRoles>,
    passes: OnceCell<Passes>,
    layers: OnceCell<Vec<StageLayers>>,
    op_work: OnceCell<OpWork>,
    shifted_durations: OnceCell<ShiftedDurations>,
}

/// Results that were computed earlier, for the same trace or for the whole trace that a window was cut from. They save
/// another pass.
#[derive(Debug, Default, Clone, Copy)]
pub struct Reused<'a> {
    /// Sums of the ops of this trace by group.
    pub groups: Option<&'a Groups>,
    /// The ranges around the calls of this trace.
    pub call_ranges: Option<CallRangesView<'a>>,
    /// The indexed segments of the whole trace that are inside this window.
    pub segments: Option<&'a WindowSegments<'a, Summary>>,
}

impl<'a> Deref for Context<'a> {
    type Target = ClassifiedTrace<'a>;

    fn deref(&self) -> &ClassifiedTrace<'a> {
        &self.classified
    }
}

impl<'a> Context<'a> {
    /// A context that computes everything from the trace.
    pub fn new(trace: &'a Trace, kernel_limit: usize) -> Self {
        Self::with_reused(trace, kernel_limit, Reused::default())
    }

    /// A context that reuses results computed earlier.
    pub fn with_reused(trace: &'a Trace, kernel_limit: usize, reused: Reused<'a>) -> Self {
        Self {
            classified: ClassifiedTrace::new(trace),
            kernel_limit,
            phase_map: None,
            model: None,
            asked: &[],
            reused,
            groups: OnceCell::new(),
            details: OnceCell::new(),
            kernels: OnceCell::new(),
            host: OnceCell::new(),
            blocking: OnceCell::new(),
            blamed_code: OnceCell::new(),
            collectives: OnceCell::new(),
            call_waits: OnceCell::new(),
            waiting: OnceCell::new(),
            range_times: OnceCell::new(),
            steps: OnceCell::new(),
            measured_steps: OnceCell::new(),
            preset: OnceCell::new(),
            name_roles: OnceCell::new(),
            passes: OnceCell::new(),
            layers: OnceCell::new(),
            op_work: OnceCell::new(),
            shifted_durations: OnceCell::new(),
        }
    }

    /// Sets the user's phase map.
    pub fn with_phase_map(self, phase_map: Option<&'a PhaseMap>) -> Self {
        Self { phase_map, ..self }
    }

    /// Sets what the user says about the model.
    pub fn with_model(self, model: &'a ServedModel) -> Self {
        Self { model: Some(model), ..self }
    }

    /// Sets the changes that are replayed together.
    pub fn with_asked(self, asked: &'a [Asked]) -> Self {
        Self { asked, ..self }
    }

    /// The answer of a trace that lacks the data of a section, with the command that captures it.
    pub(crate) fn lacks<S: TypedSection>(&self, why: &str, data: MissingData) -> Answer<S> {
        let command = recapture::command(self.trace, data);
        // A step of a training has a number, and no stage of a server.
        let is_training = !self.trace.training.backward.is_empty();
        S::missing(why, if is_training { command.replace("\"prefill\"", "\"step 1\"") } else { command })
    }

    /// Counts and sums of all GPU ops by name, stream, process and kind.
    pub(crate) fn groups(&self) -> &Groups {
        self.reused.groups.unwrap_or_else(|| self.groups.get_or_init(|| Groups::of_all(self.trace)))
    }

    /// Kernel counts and sums by process, device and name.
    pub(crate) fn kernels(&self) -> &KernelSums {
        self.kernels.get_or_init(|| KernelSums::of(self.groups()))
    }

    /// Sum of the durations of all GPU ops.
    pub(crate) fn duration_of_all_ops(&self) -> Ns {
        self.groups().iter().map(|group| group.total).fold(Ns::ZERO, |sum, total| sum + total)
    }

    /// The survey, launch latencies and kernel time by range.
    pub(crate) fn details(&self) -> &Details {
        self.details.get_or_init(|| {
            let OpDetails { work, latencies, kernel_time } = self.op_details();
            Details { survey: Survey::of(self, work, self.blocking()), latencies, kernel_time }
        })
    }

    /// From one sweep over the GPU ops, or merged from the segments of a window.
    fn op_details(&self) -> OpDetails {
        let computed;
        let ranges = match self.reused.call_ranges {
            Some(ranges) => ranges,
            None => {
                computed = CallRanges::of(self.trace, &PhaseNames::by_words(self.trace, &self.signals));
                computed.view()
            }
        };
        let source = DetailSource::new(&self.classified, self.blocking(), ranges);
        match self.reused.segments {
            Some(segments) => segments.merged(&|summary| &summary.details, &mut |rows| OpDetails::of(&source, rows)),
            None => OpDetails::of(&source, &self.trace.gpu_ops.all_rows()),
        }
    }

    /// The durations of all kernels, four bytes each. They are not cached, to save memory.
    pub(crate) fn durations(&self) -> KernelDurations {
        match self.reused.segments {
            Some(segments) => segments.merged(&|summary| &summary.durations, &mut |rows| {
                KernelDurations::of(self, rows, &Groups::of_rows(self.trace, rows))
            }),
            None => KernelDurations::of(self, &self.trace.gpu_ops.all_rows(), self.groups()),
        }
    }

    /// Sums over the API calls.
    pub(crate) fn host(&self) -> &HostCalls {
        self.host.get_or_init(|| HostCalls::of(self))
    }

    /// The code of the host while GPUs waited.
    pub(crate) fn blamed_code(&self) -> &BlamedCode {
        let steps = || &self.measured_steps().steps;
        self.blamed_code.get_or_init(|| BlamedCode::of(self, self.blocking(), steps()))
    }

    /// The blocking calls of each host thread.
    pub(crate) fn blocking(&self) -> &BlockingCalls {
        self.blocking.get_or_init(|| BlockingCalls::of(self))
    }

    /// How each device spent its time: overlaps, and idle gaps by cause.
    pub(crate) fn survey(&self) -> &Survey {
        &self.details().survey
    }

    /// Sums over the communication kernels; `None` if there are none.
    pub(crate) fn collectives(&self) -> Option<&Collectives> {
        self.collectives.get_or_init(|| Collectives::of(self)).as_ref()
    }

    /// The communication kernels by group and size, with the waiting that each shows.
    pub(crate) fn call_waits(&self) -> &[CallWait] {
        self.call_waits.get_or_init(|| match self.collectives() {
            Some(_) => call_waits(self, self.steps()),
            None => Vec::new(),
        })
    }

    /// How long collectives wait for other ranks.
    pub(crate) fn waiting(&self) -> &WaitingTimes {
        self.waiting.get_or_init(|| WaitingTimes::of(self, self.collectives(), self.call_waits(), self.steps()))
    }

    /// The steps from host ranges and Python functions, or else those that the order of the kernels shows.
    pub(crate) fn steps(&self) -> &[Step] {
        self.steps.get_or_init(|| self.passes().complete(steps_from_ranges(self.trace)))
    }

    /// The whole steps with their times, without those that begin while their process starts.
    pub(crate) fn measured_steps(&self) -> &MeasuredSteps {
        self.measured_steps.get_or_init(|| {
            let mut measured = MeasuredSteps::of(self, self.steps(), &self.survey().idle);
            if measured.steps.iter().any(|measured| measured.step.info.tokens.is_none()) {
                measured.has_tokens_by_shapes = add_tokens(&mut measured.steps, self.op_work(), self.trace);
            }
            measured.leave_out_starts(self.trace);
            measured
        })
    }

    /// The peak figures of the GPUs, if all have the same.
    pub(crate) fn preset(&self) -> Option<&'static Preset> {
        *self.preset.get_or_init(|| preset_of_devices(self.trace.devices.iter()))
    }

    /// The role of each kernel name in a layer.
    pub(crate) fn name_roles(&self) -> &NameRoles {
        self.name_roles.get_or_init(|| NameRoles::of(self.trace))
    }

    /// The forward passes with their ops.
    pub(crate) fn passes(&self) -> &Passes {
        self.passes.get_or_init(|| Passes::of(self, self.name_roles()))
    }

    /// The layers of the forward passes, by stage.
    pub(crate) fn layers(&self) -> &[StageLayers] {
        let idle = &self.survey().idle;
        self.layers.get_or_init(|| stage_layers(self.trace, self.passes(), self.name_roles(), idle))
    }

    /// The framework ops with known cost and their kernels.
    pub(crate) fn op_work(&self) -> &OpWork {
        let config = self.model.and_then(|model| model.config.as_ref());
        let is_full = config.is_some_and(|config| config.layers.sliding == 0.0);
        self.op_work.get_or_init(|| OpWork::of(&self.classified, self.preset(), is_full))
    }

    /// The durations in graph replays that do not belong to their kernel names.
    pub(crate) fn shifted_durations(&self) -> &ShiftedDurations {
        self.shifted_durations.get_or_init(|| shifted_durations(self))
    }

    /// The share of a kernel in per cent; `None` if its durations may belong to other kernels.
    pub(crate) fn share_of_kernel(&self, name: NameId, part: Ns, whole: Ns) -> Option<Pct> {
        (!self.shifted_durations().affects(name)).then(|| Pct::of(part, whole))
    }

    /// Wall time of ranges by process and name.
    pub(crate) fn range_times(&self) -> &Tallies {
        self.range_times.get_or_init(|| wall_times(self.trace))
    }
}
