//! Finds the unit of work in which runs are compared: a step, a repeated range, or the work of the baseline according to launch
//! counts. Linear in the number of distinct kernels.
//!
//! A capture of fixed time is no fixed amount of work: a faster server does more work in the same time. Total times are therefore
//! compared only if the kernels that both runs have were launched equally often.

use super::breakdown::{Amount, Breakdown, match_parts};
use super::rules::Thresholds;
use super::steps::Steps;
use super::{Basis, Candidate};
use crate::analysis::results::Run;
use crate::analysis::section::TypedSection;
use crate::analysis::structure::ranges::RangeKernels;
use crate::ordering;

/// The repeated range of a run with the most kernel time (section `nvtx_kernel_time`).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RepeatedRange {
    pub(super) name: String,
    pub(super) count: u64,
    /// Share of the kernel time outside the range.
    pub(super) outside_share: f64,
}

impl RepeatedRange {
    /// `None` if no range repeats often enough or covers enough kernel time. A window cuts ranges, so their number in it is no
    /// whole number of units.
    pub(super) fn of(run: &Run, thresholds: &Thresholds) -> Option<Self> {
        let figures = RangeKernels::figures(&run.sections).filter(|_| run.window.is_none())?;
        let covered = figures.repeated_range_pct.0?.0 / 100.0;
        let count = figures.repeated_range_count.0.filter(|count| *count >= thresholds.min_range_repeats)?;
        let name = figures.repeated_range.0.unwrap_or_default();
        (covered >= thresholds.min_range_coverage).then_some(Self { name, count, outside_share: 1.0 - covered })
    }
}

/// Launches of the kernels that two runs share, if most of them differ by one ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum LaunchRatio {
    /// Launches of the agreeing kernels in the baseline and in the other run.
    Common { baseline: u64, other: u64 },
    /// There is no common ratio.
    Differing {
        /// The median of the ratios, weighted by time.
        median: f64,
        /// Share of the time of the shared kernels that agrees with it.
        agreement: f64,
    },
    /// The runs share no kernel.
    Unmatched,
}

impl LaunchRatio {
    /// Compares the launch counts of the kernels that both runs have.
    pub(super) fn of(baseline: &Run, other: &Run, thresholds: &Thresholds) -> Self {
        let (a, b) = (Breakdown::of(baseline, Amount::ONE, 0), Breakdown::of(other, Amount::ONE, 0));
        let kernel_time = |breakdown: &Breakdown| {
            let kernels = breakdown.parts.iter().filter(|part| part.launches > 0);
            kernels.fold(0.0, |sum, part| sum + part.time_ns as f64).max(1.0)
        };
        let (time_a, time_b) = (kernel_time(&a), kernel_time(&b));
        let mut kernels: Vec<SharedKernel> = Vec::new();
        for pair in match_parts(&a, &b) {
            if let (Some(before), Some(after)) = (pair.baseline, pair.other)
                && before.launches > 0
                && after.launches > 0
            {
                kernels.push(SharedKernel {
                    launches: [before.launches, after.launches],
                    time_share: before.time_ns as f64 / time_a + after.time_ns as f64 / time_b,
                });
            }
        }
        ordering::sort_by(&mut kernels, |a, b| a.ratio().total_cmp(&b.ratio()));
        let all_time = kernels.iter().fold(0.0, |sum, kernel| sum + kernel.time_share);
        let mut before = 0.0;
        let median = kernels.iter().find(|kernel| {
            before += kernel.time_share;
            before >= all_time / 2.0
        });
        let Some(median) = median.map(SharedKernel::ratio) else { return Self::Unmatched };
        let agreeing: Vec<&SharedKernel> = kernels
            .iter()
            .filter(|kernel| (kernel.ratio() / median - 1.0).abs() <= thresholds.launch_ratio_tolerance)
            .collect();
        let sum = |side: fn(&SharedKernel) -> u64, kernels: &mut dyn Iterator<Item = &SharedKernel>| {
            kernels.map(side).fold(0_u64, u64::saturating_add)
        };
        let sides: [fn(&SharedKernel) -> u64; 2] = [|kernel| kernel.launches[0], |kernel| kernel.launches[1]];
        let pooled = sides.map(|side| sum(side, &mut agreeing.iter().copied()));
        let all = sides.map(|side| sum(side, &mut kernels.iter()));
        let share_of_launches = pooled.iter().zip(all).map(|(part, all)| *part as f64 / all as f64).fold(1.0, f64::min);
        let time = agreeing.iter().fold(0.0, |sum, kernel| sum + kernel.time_share);
        let agreement = if all_time > 0.0 { time / all_time } else { 1.0 };
        if agreement.min(share_of_launches) < thresholds.min_launch_agreement {
            return Self::Differing { median, agreement };
        }
        let [baseline, other] = pooled;
        Self::Common { baseline, other }
    }

    /// Launches in the other run over launches in the baseline.
    pub(super) fn ratio(self) -> Option<f64> {
        match self {
            Self::Common { baseline, other } => Some(other as f64 / baseline.max(1) as f64),
            Self::Differing { median, .. } => Some(median),
            Self::Unmatched => None,
        }
    }

    /// True if the runs did equal work: the difference is too small to count as a change.
    pub(super) fn is_equal(self, thresholds: &Thresholds) -> bool {
        matches!(self, Self::Common { .. })
            && self.ratio().is_some_and(|ratio| (ratio - 1.0).abs() < thresholds.negligible_change)
    }
}

/// A kernel that both runs launch.
struct SharedKernel {
    /// In the baseline and in the other run.
    launches: [u64; 2],
    /// Its shares of the kernel time of both runs, added.
    time_share: f64,
}

impl SharedKernel {
    fn ratio(&self) -> f64 {
        let [baseline, other] = self.launches;
        other as f64 / baseline as f64
    }
}

/// Times per token are stated for this many tokens, because kernels take less than a nanosecond a token.
pub(super) const TOKENS: u64 = 1_000;

/// The amount of work of a candidate in the unit of `basis`. `launches` is the ratio relative to the baseline.
pub(super) fn amount(basis: Basis, candidate: &Candidate, launches: Option<LaunchRatio>) -> Amount {
    let run = candidate.run;
    match (basis, &candidate.steps, &candidate.range, launches) {
        (Basis::Step, Some(steps), ..) => Amount { units: steps.count_in_bar(run), per: 1 },
        (Basis::Token, Some(steps), ..) => {
            let tokens = candidate.tokens_per_step().unwrap_or(0.0) * steps.count_in_bar(run) as f64;
            Amount { units: tokens.round() as u64, per: TOKENS }
        }
        (Basis::Range, _, Some(range), _) => Amount { units: range.count, per: 1 },
        (Basis::Launches, _, _, Some(LaunchRatio::Common { baseline, other })) => {
            Amount { units: other.saturating_mul(timelines(run)), per: baseline }
        }
        _ => Amount { units: timelines(run), per: 1 },
    }
}

/// The number of device timelines in the bar of a run.
pub(super) fn timelines(run: &Run) -> u64 {
    let timelines = run.wall.bar_ns.checked_div(run.wall.wall_ns).unwrap_or(1);
    u64::try_from(timelines).unwrap_or(1).max(1)
}

/// The wall time of a run in nanoseconds, as a mean over its device timelines.
pub(super) fn time_per_timeline(run: &Run) -> f64 {
    run.wall.bar_ns as f64 / timelines(run) as f64
}

/// The number of steps, tokens or ranges per device timeline, or the launches relative to the baseline.
pub(super) fn count(basis: Basis, candidate: &Candidate, launches: Option<LaunchRatio>) -> Option<f64> {
    match basis {
        Basis::Step => candidate.steps.as_ref().map(Steps::count_per_device),
        Basis::Token => Some(candidate.steps.as_ref()?.count_per_device() * candidate.tokens_per_step()?),
        Basis::Range => candidate.range.as_ref().map(|range| range.count as f64),
        Basis::Launches => launches.map_or(Some(1.0), LaunchRatio::ratio),
        Basis::Total => Some(1.0),
    }
}
