//! What the replay says a cause costs and what a step is made of, for the verdict and the findings. Read from the sections
//! `critical_path`, `what_if` and `replay_trust`. O(rows).
//!
//! Nothing is said where the replay abstains, and where the GPU work of another process is in the trace, about which the replay of one
//! process says nothing.

use super::cause::{Cause, CauseId};
use super::sections::{CriticalPathRow, CriticalPathRows, PathKind, ReplayTrust, WhatIf, WhatIfRow};
use crate::analysis::host::blamed_code::Place;
use crate::analysis::section::{Ms, Sections, TypedSection};
use crate::analysis::structure::stages::Stage;
use crate::analysis::structure::step_budget::StepBudget;
use crate::analysis::structure::steps::{StepRow, Steps};
use crate::analysis::unit::Unit;
use crate::words::findings::{CodeKind, CodeSteps};
use crate::words::replay::{is_shorter_parts, range_of};

/// Less than this part of a step says nothing about the other ranks.
const MIN_OF_OTHERS: f64 = 0.02;
/// A smaller part of first uses, compared with the step, is not worth a word.
const MIN_FIRST_USES: f64 = 0.02;

/// The replayed costs of a trace.
#[derive(Debug)]
pub(crate) struct Costs {
    rows: Vec<WhatIfRow>,
    /// Of the main stage.
    path: Vec<CriticalPathRow>,
    /// Of all stages.
    paths: Vec<CriticalPathRow>,
    /// The stage with most time in the replayed window.
    pub(crate) main: Stage,
    /// The median step of the main stage in the window; without steps the window from the first GPU op on.
    pub(crate) step_ms: f64,
    /// The median step of the main stage in the whole trace, as other sentences state it.
    median_step_ms: Option<f64>,
    pub(crate) has_steps: bool,
    /// Without steps: the time of the capture before the replayed window, in which first uses are.
    pub(crate) first_uses_ms: f64,
    /// Without steps: the time that a share of the window stands for.
    pub(crate) whole_ms: f64,
    /// The time of the whole steps of each stage on one device: of those that reach the next one.
    stages: Vec<(Stage, f64)>,
}

/// What a step takes less without a cause.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Saving {
    /// The id of its row in `what_if`.
    pub(crate) id: CauseId,
    /// In all whole steps, at least and at most.
    pub(crate) low_ms: f64,
    pub(crate) high_ms: f64,
    /// The median step of the main stage without the cause, at least and at most.
    pub(crate) step_ms: [f64; 2],
    /// The same if the other ranks keep it and collectives wait for them; `None` without collectives.
    pub(crate) alone_step_ms: Option<f64>,
    /// The shortest that the median step may be if the other ranks arrive earlier too: it waits for none of them. `None` without
    /// collectives.
    pub(crate) step_if_no_waits_ms: Option<f64>,
    /// In all steps, at least, if the other ranks keep it.
    alone_ms: Option<f64>,
}

impl Saving {
    /// What is saved for certain. One rank does not show what the others do.
    pub(crate) fn proven_ms(&self) -> f64 {
        self.alone_ms.map_or(self.low_ms, |alone_ms| alone_ms.min(self.low_ms))
    }
}

/// The median step of the main stage, and what it would take without a cause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MedianStep {
    pub(crate) measured_ms: f64,
    /// At least and at most.
    pub(crate) without_ms: [f64; 2],
    /// If the other ranks keep the cause; `None` if they do not matter.
    pub(crate) alone_ms: Option<f64>,
    /// Without waits for other ranks; `None` if they do not matter.
    pub(crate) if_no_waits_ms: Option<f64>,
}

/// The kinds of parts that a sentence tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathGroup {
    GpuWork,
    Communication,
    /// Collectives that are known to wait for other ranks.
    RankWaits,
    /// Code and calls of the host.
    Host,
    /// Code of the host that waits for another thread or process.
    Waiting,
    /// The profiler holds the host.
    Profiler,
    /// Delays between a launch and its op, between ops, and between an op and the return of a call.
    Delays,
    /// Time of the host in which it works or waits, and the trace does not say which.
    Unrecorded,
    /// The trace leaves open what decides.
    Open,
}

impl PathGroup {
    const ALL: [Self; 9] = [
        Self::GpuWork,
        Self::Communication,
        Self::RankWaits,
        Self::Host,
        Self::Waiting,
        Self::Profiler,
        Self::Delays,
        Self::Unrecorded,
        Self::Open,
    ];

    /// What the host does, whether it works or waits.
    pub(crate) const OF_HOST: [Self; 3] = [Self::Waiting, Self::Host, Self::Unrecorded];

    pub(crate) fn of(kind: PathKind) -> Self {
        match kind {
            PathKind::Kernel | PathKind::Copy | PathKind::Set | PathKind::WholeGraph => Self::GpuWork,
            PathKind::Communication => Self::Communication,
            PathKind::RankWait => Self::RankWaits,
            PathKind::HostCode | PathKind::Call | PathKind::FirstUse | PathKind::BeforeFirstOp => Self::Host,
            PathKind::Waiting => Self::Waiting,
            PathKind::Profiler => Self::Profiler,
            PathKind::Unrecorded => Self::Unrecorded,
            PathKind::Return | PathKind::Queue | PathKind::Latency | PathKind::Turnaround | PathKind::OtherStream => {
                Self::Delays
            }
            PathKind::Unexplained | PathKind::BeforeTrace => Self::Open,
        }
    }

    /// `host`.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::GpuWork => "GPU work",
            Self::Communication => "communication",
            Self::RankWaits => "waits for other ranks",
            Self::Host => "host",
            Self::Waiting => "waits of the host",
            Self::Profiler => "pauses of the profiler",
            Self::Delays => "delays",
            Self::Unrecorded => "host work or waits",
            Self::Open => "unknown",
        }
    }
}

/// Host code on the critical path, and the steps that its time is of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostCode<'a> {
    pub(crate) row: &'a CriticalPathRow,
    pub(crate) steps: CodeSteps,
    /// It has more than half of the host's time on the path; else it is only the largest part.
    pub(crate) is_most: bool,
}

impl HostCode<'_> {
    /// What is known of it.
    pub(crate) fn kind(&self) -> CodeKind {
        match self.row.kind {
            PathKind::Unrecorded => CodeKind::NoRecord,
            _ if range_of(&self.row.name).is_some() => CodeKind::InRange,
            _ if !is_named(self.row) => CodeKind::NoRecord,
            PathKind::Waiting => CodeKind::Wait,
            _ => CodeKind::Code,
        }
    }

    /// `_prepare_inputs (scheduler.py:120)`
    pub(crate) fn place(&self) -> String {
        let CriticalPathRow { name, file, line, .. } = self.row;
        Place { function: range_of(name).unwrap_or(name), file, line: *line }.words()
    }
}

impl Costs {
    /// `None` if the replay abstains or does not cover the GPU work of all processes.
    pub(crate) fn of(sections: &Sections, unit: Unit) -> Option<Self> {
        Self::read(sections, unit, false)
    }

    /// Those of a replay that abstains: what is saved at most still is a bound. `None` if the replay does not abstain, or does not cover the
    /// GPU work of all processes.
    pub(crate) fn of_abstaining(sections: &Sections, unit: Unit) -> Option<Self> {
        Self::read(sections, unit, true)
    }

    fn read(sections: &Sections, unit: Unit, abstains: bool) -> Option<Self> {
        let trust = ReplayTrust::rows(sections).into_iter().next()?;
        let what_if = WhatIf::read(sections)?;
        if trust.abstains != abstains || trust.of_gpu_work_pct.0 < 100.0 {
            return None;
        }
        let mut paths = CriticalPathRows::rows(sections);
        let main = paths.first()?.stage;
        // No figure of a step has the time before the first op.
        paths.retain(|row| row.kind != PathKind::BeforeFirstOp);
        let mut path = paths.clone();
        path.retain(|row| row.stage == main);
        let path_ms: f64 = path.iter().map(|row| row.per_step_ms.0).sum();
        let (has_steps, window_ms) = (trust.steps > 0, trust.window_ms.0);
        let devices = Steps::figures(sections).map_or(1, |figures| figures.devices.max(1)) as f64;
        let steps = Steps::rows(sections);
        let whole = StepBudget::rows(sections);
        let whole_ms = |stage| whole.iter().find(|row| row.stage == stage).map(|row| row.in_all_ms(row.mean_ms));
        let all_ms = |row: &StepRow| whole_ms(row.stage).unwrap_or(row.total_ns.0 as f64 / 1e6) / devices;
        // Nothing is saved of a step of which nothing is known.
        let lost_ms = |row: &StepRow, ms: f64| if row.stage == main { trust.lost_records_ms.0.min(ms) } else { 0.0 };
        let own_ms = |row: &StepRow, ms: f64| ms - lost_ms(row, ms);
        let stages: Vec<(Stage, f64)> = steps.iter().map(|row| (row.stage, own_ms(row, all_ms(row)))).collect();
        let is_whole = !has_steps && !trust.is_part;
        // No figure of steps or of the capture has the time before the first op.
        let window_ms = window_ms - trust.before_first_op_ms.0;
        let beyond_ms = unit.ms - window_ms;
        Some(Self {
            step_ms: median_of_window(&what_if.rows, main).unwrap_or(path_ms),
            rows: what_if.rows,
            path,
            paths,
            main,
            median_step_ms: median_of(&steps, main),
            has_steps,
            first_uses_ms: if is_whole { beyond_ms.max(0.0) } else { 0.0 },
            whole_ms: if trust.is_part { unit.ms } else { window_ms },
            stages,
        })
    }

    /// Whether the cause with this id was replayed.
    pub(crate) fn has(&self, id: &CauseId) -> bool {
        self.rows.iter().any(|row| row.id == *id)
    }

    /// What the cause with this id costs; nothing if it has no row.
    pub(crate) fn saving(&self, id: &CauseId) -> Saving {
        let step_ms = [self.step_ms; 2];
        let mut saving = Saving {
            id: id.clone(),
            low_ms: 0.0,
            high_ms: 0.0,
            step_ms,
            alone_step_ms: None,
            step_if_no_waits_ms: None,
            alone_ms: None,
        };
        for row in self.rows.iter().filter(|row| row.id == *id) {
            let [low_ms, high_ms] = shares_of(row).map(|share| share * self.stage_ms(row.stage));
            saving.high_ms += high_ms;
            saving.low_ms += low_ms;
            saving.alone_ms =
                row.only_this_rank_ms.map(|alone| saving.alone_ms.unwrap_or(0.0) + part_alone(row, alone) * low_ms);
            if row.stage == self.main {
                let without = |saved: Ms| (self.step_ms - saved.0).max(0.0);
                saving.step_ms = [row.median_saves_high_ms, row.median_saves_low_ms].map(without);
                saving.step_if_no_waits_ms = row.median_saves_if_no_waits_ms.map(without);
                saving.alone_step_ms =
                    row.only_this_rank_ms.map(|alone| without(Ms(part_alone(row, alone) * row.median_saves_low_ms.0)));
            }
        }
        saving
    }

    /// The step of the main stage and what it would take after a saving, at least and at most. The window may lack steps of the trace:
    /// the shares of its median step are those of the median step of all.
    pub(crate) fn median_step(&self, saving: &Saving) -> MedianStep {
        let scale =
            self.median_step_ms.filter(|_| self.step_ms > 0.0).map_or(1.0, |median_ms| median_ms / self.step_ms);
        let measured_ms = scale * self.step_ms;
        let is_of_all = self.depends_on_ranks(saving);
        // The steps of the window have other lengths than those of the trace: a bound must hold for both.
        let [least_ms, most_ms] = saving.step_ms;
        let without_ms = match is_of_all {
            true => [scale.min(1.0) * least_ms, (scale.max(1.0) * most_ms).min(measured_ms)],
            false => [scale * least_ms, scale * most_ms],
        };
        MedianStep {
            measured_ms,
            without_ms,
            alone_ms: saving.alone_step_ms.filter(|_| self.differs_alone(saving)).map(|ms| scale * ms),
            if_no_waits_ms: saving.step_if_no_waits_ms.filter(|_| is_of_all).map(|ms| scale.min(1.0) * ms),
        }
    }

    /// Whether what a cause costs depends on the other ranks: a part of the step that counts is saved only if they change too.
    fn differs_alone(&self, saving: &Saving) -> bool {
        saving.alone_step_ms.is_some_and(|alone_ms| alone_ms - saving.step_ms[1] >= MIN_OF_OTHERS * self.step_ms)
    }

    /// Whether a part of what a cause may save is saved only if the other ranks change too.
    fn depends_on_ranks(&self, saving: &Saving) -> bool {
        saving.alone_step_ms.is_some_and(|alone_ms| alone_ms - saving.step_ms[0] >= MIN_OF_OTHERS * self.step_ms)
    }

    /// The part of the main step that is saved if only this rank changes; `None` if the other ranks do not matter.
    pub(crate) fn share_saved_alone(&self, cause: Cause) -> Option<f64> {
        let saving = self.saving(&cause.into());
        let alone_ms = saving.alone_step_ms.filter(|_| self.differs_alone(&saving))?;
        Some(1.0 - alone_ms / self.step_ms)
    }

    /// The part of the main step that is saved, if the other ranks arrive at least as much earlier: at least and at most. At most without any
    /// wait for them.
    pub(crate) fn share_saved_on_all_ranks(&self, cause: Cause) -> [f64; 2] {
        let saving = self.saving(&cause.into());
        let [least, most] = self.share_saved(cause);
        let of_no_waits = saving.step_if_no_waits_ms.filter(|_| self.step_ms > 0.0);
        [least, of_no_waits.map_or(most, |ms| most.max(1.0 - ms / self.step_ms))]
    }

    /// The row of this cause that saves most at most.
    pub(crate) fn largest_of(&self, cause: Cause) -> Option<&WhatIfRow> {
        let rows = self.rows.iter().filter(|row| row.stage == self.main && row.id.cause == cause);
        rows.max_by(|a, b| a.saving_high_ms.0.total_cmp(&b.saving_high_ms.0))
    }

    /// The wait of the host that saves most if the other side is ready. That the other side has its own pace does not count here,
    /// because it is what changes.
    pub(crate) fn largest_wait(&self) -> Option<Saving> {
        let saving = self.saving(&self.largest_of(Cause::Wait)?.id);
        let [least_ms, _] = saving.step_ms;
        Some(Saving { low_ms: saving.high_ms, step_ms: [least_ms; 2], ..saving })
    }

    /// The cause of host, communication and GPU work without which the median step is shortest: by the middle of what is saved at least
    /// and at most. Of equal ones the last.
    pub(crate) fn lead(&self) -> Cause {
        lead_by(|cause| self.share_saved(cause))
    }

    /// The same of the mean step. A few long steps can have another cause than the usual one.
    pub(crate) fn lead_of_mean(&self) -> Cause {
        lead_by(|cause| self.share_saved_of_mean(cause))
    }

    /// The part of the mean step of the main stage that is saved, at least and at most.
    pub(crate) fn share_saved_of_mean(&self, cause: Cause) -> [f64; 2] {
        let id = CauseId::from(cause);
        let row = self.rows.iter().find(|row| row.id == id && row.stage == self.main);
        row.map_or([0.0; 2], shares_of)
    }

    /// The time in which the host is known to wait on the critical path, in all steps of the main stage.
    pub(crate) fn waiting_ms(&self) -> f64 {
        let waiting = self.path.iter().filter(|row| PathGroup::of(row.kind) == PathGroup::Waiting);
        let share = waiting.map(|row| row.share_pct.0 / 100.0).sum::<f64>();
        share * self.stage_ms(self.main)
    }

    /// The part of the main step that is saved, at least and at most.
    pub(crate) fn share_saved(&self, cause: Cause) -> [f64; 2] {
        let [least_ms, most_ms] = self.saving(&cause.into()).step_ms;
        [most_ms, least_ms].map(|ms| if self.step_ms > 0.0 { 1.0 - ms / self.step_ms } else { 0.0 })
    }

    fn stage_ms(&self, stage: Stage) -> f64 {
        let of_stage = self.stages.iter().find(|(other, _)| *other == stage);
        let of_stage = of_stage.filter(|_| self.has_steps);
        of_stage.map_or(self.whole_ms, |(_, ms)| *ms)
    }

    /// Whether first uses take so long that they are told apart from the replayed window.
    pub(crate) fn has_first_uses(&self) -> bool {
        self.first_uses_ms > MIN_FIRST_USES * self.step_ms
    }

    /// Whether the trace has steps of several stages.
    pub(crate) fn has_several_stages(&self) -> bool {
        self.stages.len() > 1
    }

    /// The groups of the path in the main stage with their shares, the largest first. They add up to 1.
    pub(crate) fn groups(&self) -> Vec<(PathGroup, f64)> {
        let time_ms = |group: PathGroup| {
            let rows = self.path.iter().filter(|row| PathGroup::of(row.kind) == group);
            let ms = rows.map(|row| row.per_step_ms.0).sum::<f64>();
            ms.max(0.0)
        };
        let mut groups: Vec<(PathGroup, f64)> =
            PathGroup::ALL.into_iter().map(|group| (group, time_ms(group))).collect();
        let path_ms = groups.iter().map(|(_, ms)| ms).sum::<f64>().max(f64::MIN_POSITIVE);
        groups.iter_mut().for_each(|(_, part)| *part /= path_ms);
        crate::ordering::sort_by(&mut groups, |(_, a), (_, b)| b.total_cmp(a));
        groups
    }

    /// The part of these groups with most time, in the steps of the stage in which the cause costs most, or of the main stage. Of equal
    /// ones the first.
    pub(crate) fn largest_code(&self, groups: &[PathGroup], cause: Option<Cause>) -> Option<HostCode<'_>> {
        let cost_ms = |row: &WhatIfRow| shares_of(row).iter().sum::<f64>() * self.stage_ms(row.stage);
        let rows = self.rows.iter().filter(|row| Some(row.id.cause) == cause);
        let costliest = rows.max_by(|a, b| cost_ms(a).total_cmp(&cost_ms(b))).filter(|row| row.stage != self.main);
        let stage = costliest.map_or(self.main, |row| row.stage);
        let is_it = |row: &&CriticalPathRow| {
            row.stage == stage && groups.contains(&PathGroup::of(row.kind)) && !is_shorter_parts(&row.name)
        };
        let row = self.paths.iter().rev().filter(is_it).max_by(|a, b| a.per_step_ms.0.total_cmp(&b.per_step_ms.0))?;
        let in_some = row.in_steps.filter(|with| *with < row.steps);
        let steps = match (costliest, in_some) {
            _ if !self.has_steps => CodeSteps::NoSteps,
            (Some(costliest), _) => CodeSteps::Unusual(costliest.steps, stage.label()),
            (None, Some(with)) => CodeSteps::InSome { with, of: row.steps },
            (None, None) => CodeSteps::Each,
        };
        let of_host =
            |row: &&CriticalPathRow| row.stage == stage && PathGroup::OF_HOST.contains(&PathGroup::of(row.kind));
        let host_ms: f64 = self.paths.iter().filter(of_host).map(|row| row.per_step_ms.0).sum();
        Some(HostCode { row, steps, is_most: 2.0 * row.per_step_ms.0 > host_ms })
    }
}

fn lead_by(share_saved: impl Fn(Cause) -> [f64; 2]) -> Cause {
    let middle = |cause: Cause| share_saved(cause).iter().sum::<f64>();
    let causes = [Cause::Host, Cause::Communication, Cause::GpuWork].into_iter();
    causes.max_by(|a, b| middle(*a).total_cmp(&middle(*b))).unwrap_or(Cause::GpuWork)
}

fn median_of(steps: &[StepRow], stage: Stage) -> Option<f64> {
    let row = steps.iter().find(|row| row.stage == stage)?;
    Some(row.median_ns?.0 / 1e6).filter(|ms| *ms > 0.0)
}

/// The part of the mean step of its stage that a row saves, at least and at most.
fn shares_of(row: &WhatIfRow) -> [f64; 2] {
    let high = row.share_high_pct.0 / 100.0;
    let of_high = if row.per_step_high_ms.0 > 0.0 { row.per_step_low_ms.0 / row.per_step_high_ms.0 } else { 0.0 };
    [of_high * high, high]
}

/// The part of what a row saves for certain that is saved if only this rank changes: the same in each step.
fn part_alone(row: &WhatIfRow, alone: Ms) -> f64 {
    if row.saving_low_ms.0 > 0.0 { alone.0 / row.saving_low_ms.0 } else { 0.0 }
}

/// The median step of a stage in the replayed window.
fn median_of_window(rows: &[WhatIfRow], stage: Stage) -> Option<f64> {
    let row = rows.iter().find(|row| row.stage == stage)?;
    Some(row.median_step_ms.0).filter(|ms| *ms > 0.0)
}

/// Whether the trace names the code or the kernel of a part of the path.
pub(crate) fn is_named(row: &CriticalPathRow) -> bool {
    !row.name.is_empty() && !row.name.starts_with('(')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::signals::Signals;
    use crate::trace::testing::TestTrace;

    /// A prefill whose host computes for 1 ms before it launches anything, and decodes of 100 us.
    fn prefill_and_decodes() -> Sections {
        let mut trace = TestTrace::new();
        trace.in_us().range("step[EXTEND bs=1 toks=900]", 0..1_500);
        trace.launch(1_000..1_010).launches("prefill_gemm", 1_020..1_500);
        for start in (1_500..6_500).step_by(100) {
            trace.range("step[DECODE bs=2]", start..start + 100);
            trace.launch(start + 40..start + 50).launches("decode_gemm", start + 60..start + 98);
        }
        trace.sections()
    }

    #[test]
    fn host_time_before_the_first_op_is_taken_from_the_stage_of_the_first_step_only() {
        let sections = prefill_and_decodes();
        let thresholds = &Signals::embedded().verdict;
        let costs = Costs::of(&sections, Unit::of(&sections, thresholds)).unwrap();
        let host =
            |stage| WhatIf::rows(&sections).into_iter().find(|row| row.id.cause == Cause::Host && row.stage == stage);
        let decode = host(Stage::Decode).unwrap();
        assert_eq!((costs.main, host(Stage::Prefill).is_some()), (Stage::Decode, false));
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b}");
        // The last step ends at its last op, 2 us early; the median one does not.
        let step_ms = 0.1;
        close(costs.step_ms, step_ms);
        close(costs.saving(&Cause::Host.into()).step_ms[0], step_ms - decode.median_saves_high_ms.0);
    }
}
