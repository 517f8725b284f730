//! The facts that findings are decided on: framework, vendor, steps, the time of each device, and its idle time by launch.

use super::finding::{Confidence, Finding, FindingId, middle_ms};
use crate::analysis::communication::operations::Collectives;
use crate::analysis::communication::waiting::DeviceWaiting;
use crate::analysis::context::Context;
use crate::analysis::engine::engine;
use crate::analysis::host::blocking_calls::DrainKey;
use crate::analysis::host::idle::{GpuIdle, GpuIdleGapRow, GpuIdleGaps, GpuIdleRow};
use crate::analysis::host::idle_cause::{CauseRules, Drained};
use crate::analysis::host::idle_code_rules::{Kind, change_of, overlapping_loops};
use crate::analysis::host::launch_gaps::{Gaps, LaunchGaps};
use crate::analysis::labels;
use crate::analysis::replay::cause::{Cause, CauseId};
use crate::analysis::replay::costs::{Costs, PathGroup, Saving};
use crate::analysis::replay::sections::{CriticalPathRow, PathKind, WhatIfRow};
use crate::analysis::section::{Fraction, Ms, Section, Sections, TypedSection};
use crate::analysis::structure::measured_steps::MeasuredStep;
use crate::analysis::structure::stages::{Form, extents_of_steps, representative};
use crate::analysis::structure::start_up::SaidStart;
use crate::analysis::structure::steps::{StepFigures, Steps};
use crate::analysis::time::activity::Activity;
use crate::analysis::trust::{Trust, TrustId};
use crate::analysis::unit::Unit;
use crate::ordering;
use crate::rules::is_optimizer_kernel;
use crate::trace::{BlockingSite, DeviceId, Format, Ns, OpKind, Profiler, Trace, Vendor};
use crate::words::findings::{self as words, Amount, Framework, HostCaveat, IdleGaps, Part, Replayed, Whole};
use std::collections::HashMap;

/// The time of one device in milliseconds, and its idle time by the launch after it.
#[derive(Debug)]
pub(super) struct DeviceTimes {
    pub(super) label: String,
    /// From its first op to its last, without unseen work of before the capture.
    window_ms: f64,
    busy_share: f64,
    pub(super) host_late_ms: f64,
    /// The part of the late time, also outside of the steps, in which the host launched kernels for the first time.
    pub(super) loading_ms: f64,
    /// The gaps of `host_late_ms` if only a part of the capture counts.
    pub(super) late_inside: Option<(Gaps, Part)>,
    /// Idle time in which the launching thread compiled code.
    pub(super) compiling_ms: f64,
    /// Idle time in which the launching thread loads, while its process starts.
    pub(super) start_up_ms: f64,
    /// The drained time by call site of the blocking calls, the costliest first.
    pub(super) drained_by: Vec<(DrainSite, Drained)>,
    /// Time in which communication ran and no other kernel.
    pub(super) exposed_communication_ms: f64,
    /// Time in which only copies ran.
    pub(super) exposed_copies_ms: f64,
    /// The waiting of its collectives for other ranks; `None` if the trace does not show it.
    pub(super) waits: Option<DeviceWaiting>,
    pub(super) gaps: LaunchGaps,
    /// Time of the copies whose names contain a word, by class of copy.
    pub(super) copies: CopyTimes,
}

/// A call that drained a device, and the code that made it.
#[derive(Debug)]
pub(super) struct DrainSite {
    pub(super) call: String,
    /// `None` if it is not known.
    pub(super) code: Option<BlockingSite>,
}

/// Durations and counts of the copies of one device by class.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CopyTimes {
    /// Migrations of unified memory.
    pub(super) migration: Copies,
    /// Copies from or to pageable host memory.
    pub(super) pageable: Copies,
    /// Other copies between host and device.
    pub(super) host: Copies,
    /// Copies between GPUs.
    pub(super) peer: Copies,
}

/// Number and summed duration of some copies.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Copies {
    pub(super) count: u64,
    pub(super) total_ms: f64,
}

/// What the findings know about a trace.
pub(super) struct Situation<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) framework: Framework,
    pub(super) vendor: Vendor,
    /// Number of steps on the device with the most; zero if the trace does not mark steps.
    pub(super) steps: u64,
    /// The capture recorded Python stacks, which slow the host down.
    pub(super) has_stacks: bool,
    /// The engine is seen to prepare a step while the GPU works on another.
    pub(super) overlaps: bool,
    /// The trace is a window of a longer capture, so its steps are few because of what the person picked.
    pub(super) is_window: bool,
    pub(super) devices: Vec<DeviceTimes>,
    unit: Unit,
    /// The part of the idle time of the steps in which the host was late that is in whole steps.
    late_in_whole_steps: f64,
    /// `None` if the replay says nothing.
    costs: Option<Costs>,
    /// Bounds of a replay that abstains.
    bounds: Option<Costs>,
    sections: &'a Sections,
}

/// Host code on the critical path, or host time there without code.
pub(super) struct CodeOnPath {
    /// `_prepare_inputs (scheduler.py:120)`.
    pub(super) place: String,
    /// It is a call of the GPU API.
    pub(super) is_call: bool,
    pub(super) kind: words::CodeKind,
    steps: words::CodeSteps,
    time: Ms,
    is_most: bool,
    /// What can be done about it, if that is known.
    pub(super) change: Option<&'static str>,
}

impl CodeOnPath {
    /// As the evidence names it.
    pub(super) fn words(&self) -> words::CodeOnPath<'_> {
        let Self { time, steps, kind, is_most, .. } = *self;
        words::CodeOnPath { place: &self.place, time, steps, kind, is_most }
    }
}

/// The cost of a finding.
pub(super) struct Cost {
    pub(super) ms: f64,
    /// The replayed saving; `None` if the replay says nothing.
    pub(super) what_if: Option<Saving>,
}

impl DeviceTimes {
    /// The idle time in which the device waits for launches, also after blocking calls.
    pub(super) fn waited_for_host_ms(&self) -> f64 {
        self.host_late_ms + ms(self.drained().idle())
    }

    /// The idle time after blocking calls for which the host is late without them too.
    pub(super) fn late_after_calls_ms(&self) -> f64 {
        ms(self.drained().late_without_calls())
    }

    /// In which gaps, some of the late ones, the device idles, and the gaps of the sentence. If only a part of the
    /// capture counts, they are told apart only where all late gaps are of this kind.
    pub(super) fn late_gaps(&self, of_kind: Gaps) -> (IdleGaps, Option<Gaps>) {
        match self.late_inside {
            None => (IdleGaps::All(of_kind.count), Some(of_kind)),
            Some((late, part)) if self.gaps.is_all_late(of_kind) => (IdleGaps::OfPart(late.count, part), Some(late)),
            Some((_, part)) => (IdleGaps::SomeOfPart(part), None),
        }
    }

    /// Idle time after blocking calls, of all sites.
    pub(super) fn drained(&self) -> Drained {
        let mut sum = Drained::default();
        self.drained_by.iter().for_each(|(_, drained)| sum.add(*drained));
        sum
    }
}

impl<'a> Situation<'a> {
    pub(super) fn of(context: &'a Context<'a>, sections: &'a Sections) -> Self {
        let trace = context.trace;
        let framework = match framework(trace) {
            Framework::Xla => Framework::Xla,
            _ if trains(context) => Framework::Training,
            other => other,
        };
        let unit = Unit::of(sections, &context.signals.verdict);
        Self {
            context,
            framework,
            vendor: trace.vendor(),
            steps: unit.steps,
            costs: Costs::of(sections, unit),
            bounds: Costs::of_abstaining(sections, unit),
            unit,
            late_in_whole_steps: late_in_whole_steps(context),
            has_stacks: trace.events.python_frames > 0,
            overlaps: overlapping_loops().iter().any(|part| runs_code(trace, part)),
            is_window: trace.cut.is_some(),
            devices: devices(context, sections, framework, outside_ms(Steps::figures(sections).as_ref())),
            sections,
        }
    }

    /// Whether ranks exchange data by Send/Recv only, as the stages of a pipeline do.
    pub(super) fn sends_only(&self) -> bool {
        self.context.collectives().is_some_and(Collectives::sends_only)
    }

    /// A section that the trace can fill.
    pub(super) fn section(&self, name: &str) -> Option<&'a Section> {
        self.sections.get(name).filter(|section| section.missing.is_none())
    }

    /// The rows of a section; none if the trace cannot fill it.
    pub(super) fn rows<S: TypedSection>(&self) -> Vec<S::Row> {
        S::rows(self.sections)
    }

    /// Whether durations in graph replays do not belong to their kernel names, so that no time of single kernels counts.
    pub(super) fn has_shifted_durations(&self) -> bool {
        Trust::has(self.sections, TrustId::DurationsShifted)
    }

    /// What counts of the cost of a finding. Faster kernels count only as far as proven where GPU work does not bound the steps: a late
    /// host may only wait longer.
    pub(super) fn counted_ms(&self, finding: &Finding) -> f64 {
        let is_kernels =
            matches!(finding.id, FindingId::UnsuitedKernels | FindingId::FarFromRoof | FindingId::UnfusedKernels);
        let gpu_leads = || self.costs.as_ref().is_some_and(|costs| costs.lead() == Cause::GpuWork);
        let proven = finding.proven_ms().filter(|_| is_kernels && !gpu_leads());
        proven.unwrap_or(finding.cost_ms)
    }

    /// What a finding costs at least by the replay; also by one that abstains, which gives bounds.
    pub(super) fn proven_ms(&self, finding: &Finding) -> Option<f64> {
        let cause = match finding.id {
            FindingId::HostLate | FindingId::ReplayPreparation => Some(Cause::Host),
            FindingId::SyncDrain => Some(Cause::AllBlocking),
            _ => None,
        };
        let bound = || {
            let (bounds, id) = (self.bounds.as_ref()?, CauseId::from(cause?));
            bounds.has(&id).then(|| bounds.saving(&id).proven_ms().min(finding.cost_ms))
        };
        finding.proven_ms().or_else(bound)
    }

    /// The middle of what a finding costs at least and at most, as [`FindingRow::middle_part`](super::FindingRow::middle_part).
    pub(super) fn middle_part(&self, finding: &Finding) -> f64 {
        self.unit_of(finding).part(middle_ms(finding.cost_ms, self.proven_ms(finding)))
    }

    /// What a finding costs at most, as a part of the steps that it is about.
    pub(super) fn cost_part(&self, finding: &Finding) -> f64 {
        self.unit_of(finding).part(finding.cost_ms)
    }

    /// The time in which the GPU of the device that waits most waited for the host, as a part of its steps; `None` if it never did.
    pub(super) fn waited_part(&self) -> Option<f64> {
        let waited = |device: &DeviceTimes| {
            let whole_ms = self.in_whole_steps(device.waited_for_host_ms());
            self.unit.whole().part(whole_ms) + self.unit.part(device.compiling_ms)
        };
        self.worst(waited).map(|(_, part)| part)
    }

    /// The steps that a finding is about.
    fn unit_of(&self, finding: &Finding) -> Unit {
        if finding.is_of_whole_steps() { self.unit.whole() } else { self.unit }
    }

    /// A cost of which the replay leaves a notable part open is not of high confidence.
    pub(super) fn confidence(&self, finding: &Finding) -> Confidence {
        let open_ms = self.proven_ms(finding).map_or(0.0, |proven| finding.cost_ms - proven);
        let is_open = self.unit.whole().share(open_ms) >= self.context.signals.thresholds.medium_severity_share;
        if is_open { finding.confidence.min(Confidence::Medium) } else { finding.confidence }
    }

    /// The longest idle gap in a capture of one device without steps, if the gap is not of the start of the program.
    pub(super) fn longest_gap(&self) -> Option<GpuIdleGapRow> {
        let has_start = SaidStart::of(self.sections).is_some_and(|start| start.is_followed());
        let is_known = self.steps == 0 && self.devices.len() == 1 && !has_start;
        GpuIdleGaps::longest(self.sections).filter(|_| is_known).map(|(_, gap)| gap)
    }

    /// The share of a time in the unit: the steps of a device, or its window.
    pub(super) fn share(&self, ms: f64) -> f64 {
        self.unit.share(ms)
    }

    /// The part of a time in which the host was late that is in whole steps: the last step has no idle time before a next one.
    pub(super) fn in_whole_steps(&self, late_ms: f64) -> f64 {
        late_ms * self.late_in_whole_steps
    }

    /// The part of a time of GPU work in all steps that falls on the whole ones.
    fn of_whole_steps(&self, work_ms: f64) -> f64 {
        let (whole, all) = (self.unit.whole().steps, self.unit.steps);
        if all > 0 { work_ms * whole as f64 / all as f64 } else { work_ms }
    }

    /// The share of what counts of a finding in the time that it is about: the unit, or the replayed part of a capture without steps, which
    /// begins after the start of the program and first uses.
    pub(super) fn counted_share(&self, finding: &Finding) -> f64 {
        self.share_of(finding, self.counted_ms(finding))
    }

    /// The same of the cost of a finding.
    pub(super) fn cost_share(&self, finding: &Finding) -> f64 {
        self.share_of(finding, finding.cost_ms)
    }

    fn share_of(&self, finding: &Finding, ms: f64) -> f64 {
        let is_replayed_part = finding.what_if.is_some() && self.steps == 0;
        let window_ms = self.costs.as_ref().filter(|_| is_replayed_part).map(|costs| costs.whole_ms);
        window_ms
            .filter(|window_ms| *window_ms > 0.0)
            .map_or_else(|| self.unit_of(finding).share(ms), |window_ms| (ms / window_ms).min(1.0))
    }

    /// What the cause with this id in `what_if` costs at most by the replay, in whole steps. If the replay abstains, the measured time, but not more than it
    /// saves at most; without a replay the measured time, which may be more than can be saved.
    pub(super) fn cost(&self, cause: impl Into<CauseId>, measured_ms: f64) -> Cost {
        let id = cause.into();
        match self.costs.as_ref().map(|costs| costs.saving(&id)) {
            Some(mut saving) => {
                let ms = self.without_waits(&saving);
                let is_proven = |long_ms: f64| saving.low_ms.min(saving.high_ms - long_ms).max(0.0);
                saving.low_ms = self.in_long_steps_ms(&saving).map_or(saving.low_ms, is_proven);
                Cost { ms, what_if: Some(saving) }
            }
            None => {
                let bounds = self.bounds.as_ref().filter(|bounds| bounds.has(&id));
                let bound_ms = bounds.map(|bounds| bounds.saving(&id).high_ms);
                Cost { ms: bound_ms.map_or(measured_ms, |bound_ms| bound_ms.min(measured_ms)), what_if: None }
            }
        }
    }

    /// What the host costs a serving engine in a few long steps beyond the usual step, if no Python stacks show whether it had a request
    /// then.
    pub(super) fn in_long_steps_ms(&self, saving: &Saving) -> Option<f64> {
        let is_of_host = matches!(saving.id.cause, Cause::Host | Cause::AllBlocking | Cause::BetweenCalls);
        let is_engine = !matches!(
            self.framework,
            Framework::Transformers | Framework::Training | Framework::Torch | Framework::Xla | Framework::Program
        );
        let costs = self.costs.as_ref().filter(|_| is_of_host && is_engine && !self.has_stacks)?;
        if costs.has_several_stages() || !costs.has_steps {
            return None;
        }
        let usual_ms = (costs.step_ms - saving.step_ms[0]) * self.unit.whole().steps as f64;
        let long_ms = saving.high_ms - usual_ms;
        let is_notable = self.unit.whole().share(long_ms) >= self.context.signals.thresholds.medium_severity_share;
        is_notable.then_some(long_ms)
    }

    /// The saving at most, for the host without the time in which it is known to wait for another thread: that is a finding of its own.
    fn without_waits(&self, saving: &Saving) -> f64 {
        let waits_ms = self.costs.as_ref().filter(|_| saving.id.cause == Cause::Host).map_or(0.0, Costs::waiting_ms);
        saving.low_ms.max(saving.high_ms - waits_ms)
    }

    /// What the cause costs by the replay; `None` if the replay says nothing.
    pub(super) fn replayed_cost(&self, cause: Cause) -> Option<Cost> {
        self.costs.as_ref().map(|_| self.cost(cause, 0.0))
    }

    /// Whether the replay gives the cost of all late time of this device to the preparation of graph replays; `None` without a replay.
    pub(super) fn is_preparation(&self, device: &DeviceTimes) -> Option<bool> {
        let share = |gaps| device.gaps.share_of_late(gaps);
        let is_mostly = || self.repeats_graphs() && share(device.gaps.preparation) > share(device.gaps.eager);
        self.costs.as_ref().map(|_| is_mostly())
    }

    /// A measured time, of which the replay saves at most what the cause costs.
    pub(super) fn cost_at_most(&self, cause: Cause, measured_ms: f64) -> Cost {
        match self.costs.as_ref().map(|costs| costs.saving(&cause.into())) {
            Some(saving) => Cost { ms: self.of_whole_steps(measured_ms).min(saving.high_ms), what_if: Some(saving) },
            None => Cost { ms: measured_ms, what_if: None },
        }
    }

    /// A measured time of GPU work, of which the replay proves a part.
    pub(super) fn measured_cost(&self, cause: Cause, measured_ms: f64) -> Cost {
        match self.replayed_cost(cause) {
            Some(Cost { what_if, .. }) => Cost { ms: self.of_whole_steps(measured_ms), what_if },
            None => Cost { ms: measured_ms, what_if: None },
        }
    }

    /// What the replay says that a step takes after a saving.
    pub(super) fn replayed(&self, saving: &Saving) -> Option<Replayed> {
        let costs = self.costs.as_ref()?;
        let step = costs.median_step(saving);
        Some(Replayed {
            is_step: costs.has_steps,
            measured: Ms(step.measured_ms),
            without: step.without_ms.map(Ms),
            alone: step.alone_ms.map(Ms),
            if_no_waits: step.if_no_waits_ms.map(Ms),
        })
    }

    /// The code that works with most time on the critical path, in the steps in which the host costs most.
    pub(super) fn largest_work_of_host(&self) -> Option<CodeOnPath> {
        self.largest_code(&[PathGroup::Host, PathGroup::Unrecorded], Some(Cause::Host))
    }

    /// The code with most time of the host on the critical path, whether it works or waits, in the steps in which blocking calls cost most.
    pub(super) fn largest_code_after_calls(&self) -> Option<CodeOnPath> {
        self.largest_code(&PathGroup::OF_HOST, Some(Cause::AllBlocking))
    }

    /// The code that waits with most time on the critical path.
    pub(super) fn largest_wait(&self) -> Option<CodeOnPath> {
        self.largest_code(&[PathGroup::Waiting], None)
    }

    fn largest_code(&self, groups: &[PathGroup], cause: Option<Cause>) -> Option<CodeOnPath> {
        let code = self.costs.as_ref()?.largest_code(groups, cause)?;
        let kind = code.kind();
        let has_code = matches!(kind, words::CodeKind::Code | words::CodeKind::Wait);
        Some(CodeOnPath {
            place: code.place(),
            is_call: matches!(code.row.kind, PathKind::Call | PathKind::FirstUse),
            kind,
            steps: code.steps,
            time: code.row.per_step_ms,
            is_most: code.is_most,
            change: if has_code { self.change_of(code.row) } else { None },
        })
    }

    /// What can be done about code. If the engine overlaps it with GPU work already, the mode of the engine is no advice.
    fn change_of(&self, row: &CriticalPathRow) -> Option<&'static str> {
        match change_of(&row.file, &row.name)? {
            (Kind::Overlaps, _) if self.overlaps => (row.kind != PathKind::Waiting).then_some(words::NOT_HIDDEN),
            (_, change) => Some(change),
        }
    }

    /// What runs of elementwise kernels cost at most, if the trace has any, and why.
    pub(super) fn unfused(&self) -> Option<(&WhatIfRow, Cost)> {
        self.largest_change(Cause::Unfused)
    }

    /// The op that costs most because its kernels are far from the roof of the GPU, and why.
    pub(super) fn far_from_roof(&self) -> Option<(&WhatIfRow, Cost)> {
        self.largest_change(Cause::Roof)
    }

    fn largest_change(&self, cause: Cause) -> Option<(&WhatIfRow, Cost)> {
        let costs = self.costs.as_ref()?;
        let row = costs.largest_of(cause)?;
        let saving = costs.saving(&row.id);
        Some((row, Cost { ms: saving.high_ms, what_if: Some(saving) }))
    }

    /// What the waits of the host for other threads and processes cost, if each of them is ready.
    pub(super) fn waits(&self) -> Option<Cost> {
        let saving = self.costs.as_ref()?.largest_wait()?;
        Some(Cost { ms: saving.high_ms, what_if: Some(saving) })
    }

    /// The device with the largest cost, and that cost.
    pub(super) fn worst(&self, cost_ms: impl Fn(&DeviceTimes) -> f64) -> Option<(&DeviceTimes, f64)> {
        let costs = self.devices.iter().map(|device| (device, cost_ms(device)));
        costs.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, cost)| *cost > 0.0)
    }

    /// The confidence of a claim that the host is too slow. A step that is captured alone starts with an empty queue, and
    /// Python stacks slow the host down.
    /// Where records are lost, the GPU may have worked when it seems idle.
    pub(super) fn host_confidence(&self) -> Confidence {
        let launches = &self.context.trace.unrecorded_work.launches;
        let most = if launches.graphs + launches.kernels > 0 { Confidence::Medium } else { Confidence::High };
        most.min(match (self.steps, self.has_stacks) {
            (3.., _) | (0, false) => Confidence::High,
            (1 | 2, true) => Confidence::Low,
            (0, true) | (1 | 2, false) => Confidence::Medium,
        })
    }

    /// What limits claims about the host.
    pub(super) fn host_caveat(&self) -> HostCaveat {
        match (self.steps, self.has_stacks) {
            (1 | 2, true) if self.is_window => HostCaveat::FewStepsInWindowWithStacks,
            (1 | 2, false) if self.is_window => HostCaveat::FewStepsInWindow,
            (1 | 2, true) => HostCaveat::FewStepsWithStacks,
            (1 | 2, false) => HostCaveat::FewSteps,
            (_, true) if self.is_window => HostCaveat::StacksInWindow,
            (_, true) => HostCaveat::Stacks,
            (_, false) => HostCaveat::Nothing,
        }
    }

    /// True if a host delay of this cost is worth a finding: a larger share is required if the capture may cause it.
    pub(super) fn is_notable_host_delay(&self, cost_ms: f64) -> bool {
        let thresholds = &self.context.signals.thresholds;
        let is_certain = self.steps == 0 || self.steps >= 3;
        let share = if is_certain { thresholds.min_finding_share } else { thresholds.min_uncertain_share };
        cost_ms >= thresholds.min_host_delay_ms && self.unit.whole().share(cost_ms) >= share && !self.is_almost_empty()
    }

    /// True for captures without steps in which the GPU works almost never: startup, graph capture, or a test program. The
    /// host does not delay GPU work then; there is none.
    fn is_almost_empty(&self) -> bool {
        let busy = self.devices.iter().map(|device| device.busy_share).fold(0.0, f64::max);
        self.steps == 0 && busy < self.context.signals.thresholds.min_busy_share
    }

    /// Whether the trace shows that graphs are replayed again and again, as a server does.
    pub(super) fn repeats_graphs(&self) -> bool {
        let launches = || self.context.host().launches.iter().map(|launches| launches.graphs).sum::<u64>();
        self.steps > 0 || launches() >= self.context.signals.thresholds.min_replays
    }

    /// The time of a finding on a device, with its share: GPU work in all steps.
    pub(super) fn amount<'b>(&self, device: &'b DeviceTimes, ms: f64) -> Amount<'b> {
        self.amount_of(self.unit, device, ms)
    }

    /// The same of a time in whole steps: a replayed saving, or [`Self::in_whole_steps`].
    pub(super) fn amount_in_whole_steps<'b>(&self, device: &'b DeviceTimes, ms: f64) -> Amount<'b> {
        self.amount_of(self.unit.whole(), device, ms)
    }

    /// The amount of a cost that was replayed, or else measured in all steps.
    pub(super) fn amount_of_cost<'b>(&self, device: &'b DeviceTimes, ms: f64, what_if: Option<&Saving>) -> Amount<'b> {
        if what_if.is_some() { self.amount_in_whole_steps(device, ms) } else { self.amount(device, ms) }
    }

    /// A cost in whole steps, and the measured time in them behind it.
    pub(super) fn cost_in_whole_steps<'b>(
        &self,
        device: &'b DeviceTimes,
        cost_ms: f64,
        measured_ms: f64,
    ) -> words::Cost<'b> {
        words::Cost { amount: self.amount_in_whole_steps(device, cost_ms), measured: Ms(measured_ms) }
    }

    /// A cost of GPU work that was replayed, or else measured in all steps, and the measured time in all steps behind it.
    pub(super) fn cost_of_work<'b>(
        &self,
        device: &'b DeviceTimes,
        (cost_ms, measured_ms): (f64, f64),
        what_if: Option<&Saving>,
    ) -> words::Cost<'b> {
        let measured_ms = if what_if.is_some() { self.of_whole_steps(measured_ms) } else { measured_ms };
        words::Cost { amount: self.amount_of_cost(device, cost_ms, what_if), measured: Ms(measured_ms) }
    }

    fn amount_of<'b>(&self, unit: Unit, device: &'b DeviceTimes, ms: f64) -> Amount<'b> {
        // The times of several devices differ, so each is compared with its own.
        let (whole, share) = match self.steps {
            0 if self.devices.len() > 1 && device.window_ms > 0.0 => {
                (Whole::TimeOfDevice, (ms / device.window_ms).min(1.0))
            }
            0 => (Whole::CapturedTime, unit.share(ms)),
            _ => (Whole::StepTime, unit.share(ms)),
        };
        let per_step = unit.per_step(ms).map(|per_step| (unit.steps, Ms(per_step)));
        Amount { per_step, share: Some((Fraction(share), whole)), ..self.amount_of_capture(device, ms) }
    }

    /// A time that is not one of the steps.
    pub(super) fn amount_of_capture<'b>(&self, device: &'b DeviceTimes, ms: f64) -> Amount<'b> {
        let gpu = (self.devices.len() > 1).then_some(device.label.as_str());
        Amount { time: Ms(ms), gpu, per_step: None, share: None }
    }
}

/// A time in milliseconds.
pub(super) fn ms(time: Ns) -> f64 {
    time.0 as f64 / 1e6
}

impl Situation<'_> {
    /// Whether a program that trains runs kernels of an optimizer that launches little.
    pub(super) fn has_fused_optimizer(&self) -> bool {
        self.framework == Framework::Training && self.context.trace.names.iter().any(is_optimizer_kernel)
    }
}

/// Whether the trace shows a function with this part of a name.
fn runs_code(trace: &Trace, part: &str) -> bool {
    let timelines = trace.code_timelines.iter().flat_map(|timelines| timelines.names.iter());
    trace.engine_hints.python_frames.iter().chain(timelines).any(|name| name.contains(part))
}

/// The part of the late time of all steps that is in steps which reach the next one; 1 without late time.
fn late_in_whole_steps(context: &Context) -> f64 {
    let steps = &context.measured_steps().steps;
    let late = |steps: &mut dyn Iterator<Item = &MeasuredStep>| steps.map(|step| step.host_late.0 as f64).sum::<f64>();
    let all = late(&mut steps.iter());
    if all > 0.0 { late(&mut representative(steps, |step| step.reaches_next)) / all } else { 1.0 }
}

/// Whether the trace shows functions of autograd or kernels of an optimizer, and no steps of a serving engine.
fn trains(context: &Context) -> bool {
    let trace = context.trace;
    let is_shown = !trace.training.backward.is_empty() || trace.names.iter().any(is_optimizer_kernel);
    is_shown && !context.steps().iter().any(|step| step.info.form == Form::Engine)
}

fn framework(trace: &Trace) -> Framework {
    let uses_torch = || {
        let words = ["at::native", "at::cuda", "c10::", "triton_"];
        trace.format == Format::TorchProfiler
            || trace.names.iter().any(|name| words.iter().any(|word| name.contains(word)))
    };
    match engine(trace).as_deref() {
        _ if trace.format.profiler() == Profiler::Xla => Framework::Xla,
        Some("SGLang") => Framework::SgLang,
        Some("vLLM") => Framework::Vllm,
        Some("TensorRT-LLM") => Framework::TensorRtLlm,
        Some("Transformers") => Framework::Transformers,
        Some(_) => Framework::OtherEngine,
        None if uses_torch() => Framework::Torch,
        None => Framework::Program,
    }
}

/// `outside_ms` is the idle time of a device before its first step and after its last.
fn devices(context: &Context, sections: &Sections, framework: Framework, outside_ms: f64) -> Vec<DeviceTimes> {
    let is_engine = !matches!(
        framework,
        Framework::Transformers | Framework::Training | Framework::Torch | Framework::Xla | Framework::Program
    );
    let rules = CauseRules::new(context, context.blocking());
    let waits = &context.waiting().devices;
    let rows = GpuIdle::rows(sections);
    let row_of: HashMap<String, &GpuIdleRow> = rows.iter().map(|row| (row.device_id.words(), row)).collect();
    let steps = context.measured_steps().steps.iter().map(|measured| &measured.step);
    let extents = extents_of_steps(context.trace.devices.len(), steps);
    let has_start = SaidStart::of(sections).is_some_and(|start| start.is_followed());
    let starts = if has_start { ends_of_starts(context) } else { vec![None; context.trace.devices.len()] };
    let copies = copy_times(context, &starts, &extents);
    let survey = context.survey();
    let mut device = |(index, (copies, activity)): (u32, (CopyTimes, &Activity))| {
        let gaps = survey.idle.get(index as usize)?.launch_gaps(&rules, is_engine);
        let label = labels::device(context.trace, DeviceId(index)).words();
        let row = row_of.get(&label)?;
        let window_ms = row.own_window_ms();
        let extent =
            extents.get(index as usize).copied().flatten().filter(|_| is_longer_than_steps(outside_ms, window_ms));
        let extent = match extent {
            Some(steps) => Some((steps, Part::Steps)),
            None => starts.get(index as usize).copied().flatten().map(|from| ((from, Ns(i64::MAX)), Part::AfterStart)),
        };
        let (from, to) = extent.map_or((Ns(i64::MIN), Ns(i64::MAX)), |(part, _)| part);
        let (late, drained) =
            survey.idle.get(index as usize)?.late_between(from, to, context.signals.thresholds.long_gap());
        Some(DeviceTimes {
            label,
            window_ms,
            busy_share: if window_ms > 0.0 { row.busy_ms.0 / window_ms } else { 0.0 },
            compiling_ms: row.compiling_ms.0,
            start_up_ms: row.start_up_ms.0,
            host_late_ms: ms(late.total),
            loading_ms: ms(context.trace.first_launches.time_in(&survey.idle.get(index as usize)?.late)),
            late_inside: extent.map(|(_, part)| (late, part)),
            drained_by: drained_by(context, drained),
            exposed_communication_ms: activity.exposed() as f64 / 1e6,
            exposed_copies_ms: activity.only_copies() as f64 / 1e6,
            waits: waits.get(index as usize).copied().flatten(),
            gaps,
            copies,
        })
    };
    // A trace may have very many devices: the list does not grow by doubling.
    let mut devices = Vec::with_capacity(copies.len());
    devices.extend((0..).zip(copies.into_iter().zip(&survey.activities)).filter_map(&mut device));
    devices
}

/// Whether only the steps count, because a device idles for `outside_ms` of the window outside of them. Less than this share is
/// no finding.
fn is_longer_than_steps(outside_ms: f64, window_ms: f64) -> bool {
    outside_ms > MAX_IGNORED_SHARE * window_ms
}

/// The mean idle time of a device outside of its steps.
fn outside_ms(steps: Option<&StepFigures>) -> f64 {
    steps.map_or(0.0, |steps| Ms::from(steps.idle_outside_ns).0 / steps.devices.max(1) as f64)
}

/// Whether the findings of idle time count the steps only, on all devices.
pub(crate) fn counts_steps_only(sections: &Sections) -> bool {
    let (Some(steps), Some(idle)) = (Steps::figures(sections), GpuIdle::read(sections)) else { return false };
    let outside_ms = outside_ms(Some(&steps));
    let is_longer = |row: &GpuIdleRow| is_longer_than_steps(outside_ms, row.own_window_ms());
    steps.devices == idle.rows.len() as u64 && idle.rows.iter().all(is_longer)
}

/// Less idle time outside of steps than this share of the window does not change a finding.
const MAX_IGNORED_SHARE: f64 = 0.005;

/// When the last start of the processes with work on each device ends, if it is seen.
fn ends_of_starts(context: &Context) -> Vec<Option<Ns>> {
    let mut ends: Vec<Option<Ns>> = vec![None; context.trace.devices.len()];
    let Some(starts) = context.trace.starts() else { return ends };
    for group in context.groups().iter() {
        if let (Some(end), Some(start)) = (ends.get_mut(group.device.0 as usize), starts.of(group.process)) {
            *end = (*end).max(Some(start.steady_from));
        }
    }
    ends
}

/// The drained time by call site of the blocking calls, the costliest first.
fn drained_by(context: &Context, mut calls: Vec<(DrainKey, Drained)>) -> Vec<(DrainSite, Drained)> {
    calls.retain(|(_, drained)| drained.idle() > Ns::ZERO);
    ordering::sort_by_key(&mut calls, |(_, drained)| std::cmp::Reverse(drained.explained));
    let trace = context.trace;
    let site = |site: DrainKey| DrainSite {
        call: trace.calls.names.get(site.name).to_owned(),
        code: site.site.and_then(|id| trace.blocking_sites.get(id)).cloned(),
    };
    calls.into_iter().map(|(call, drained)| (site(call), drained)).collect()
}

/// Sums the copies of each device by class. Where there are steps, those outside of them do not count, as the upload of a model before the
/// first step; else those before the end of a start.
fn copy_times(context: &Context, starts: &[Option<Ns>], steps: &[Option<(Ns, Ns)>]) -> Vec<CopyTimes> {
    let trace = context.trace;
    let mut times = vec![CopyTimes::default(); trace.devices.len()];
    for group in context.groups().iter() {
        let Some(times) = times.get_mut(group.device.0 as usize) else { continue };
        if let Some(copies) = times.of_class(group.kind, trace.names.get(group.name)) {
            copies.count += group.count;
            copies.total_ms += group.total.0 as f64 / 1e6;
        }
    }
    let counted: Vec<(Ns, Ns)> = starts.iter().zip(steps).map(|(start, steps)| counted_time(*start, *steps)).collect();
    let from = counted.iter().map(|(from, _)| *from).max().unwrap_or(Ns(i64::MIN));
    let until = counted.iter().map(|(_, until)| *until).min().unwrap_or(Ns(i64::MAX));
    let [before, after] = [from, until].map(|time| trace.gpu_ops.count_starting_before(time));
    for op in (0..before).chain(after.max(before)..trace.gpu_ops.len()).filter_map(|row| trace.gpu_ops.get(row)) {
        let device = op.device.0 as usize;
        let is_outside = counted.get(device).is_some_and(|(from, until)| op.start < *from || op.start > *until);
        let Some(times) = times.get_mut(device).filter(|_| is_outside) else { continue };
        if let Some(copies) = times.of_class(op.kind, trace.names.get(op.name)) {
            copies.count = copies.count.saturating_sub(1);
            copies.total_ms = (copies.total_ms - ms(op.duration)).max(0.0);
        }
    }
    times
}

/// The time of a device in which copies count.
fn counted_time(end_of_start: Option<Ns>, steps: Option<(Ns, Ns)>) -> (Ns, Ns) {
    let (first, last) = steps.unwrap_or((Ns(i64::MIN), Ns(i64::MAX)));
    (first.max(end_of_start.unwrap_or(first)), last)
}

impl CopyTimes {
    /// The sums of the class of a copy, which follows from its name; `None` for other ops.
    fn of_class(&mut self, kind: OpKind, name: &str) -> Option<&mut Copies> {
        if kind == OpKind::Set {
            return None;
        }
        let name = name.to_ascii_lowercase();
        if name.contains("memcpy") && name.contains("unified") {
            return Some(&mut self.migration);
        }
        let is_host_copy = || {
            let words = ["htod", "dtoh", "host-to-device", "device-to-host", "hosttodevice", "devicetohost"];
            words.iter().any(|word| name.contains(word))
        };
        let is_peer_copy = || ["ptop", "peer-to-peer", "peertopeer"].iter().any(|word| name.contains(word));
        match kind {
            OpKind::Copy if name.contains("pageable") => Some(&mut self.pageable),
            OpKind::Copy if is_host_copy() => Some(&mut self.host),
            OpKind::Copy if is_peer_copy() => Some(&mut self.peer),
            OpKind::Copy | OpKind::Kernel | OpKind::Set => None,
        }
    }
}
