//! Idle gaps of a device by the launch that ended them: preparation of a graph replay, late eager launch, or turnaround
//! between eager ops. O(1) for an op; the sums of consecutive runs of ops can be merged.
//!
//! Graph replays cut the ops into stretches. A late gap in a stretch of few eager kernels prepares a replay or samples
//! tokens after one; a stretch of many kernels is eager work. The stretches at the ends of a run may continue in its
//! neighbours, so they are summed separately and decided when runs are merged.

use crate::analysis::time::work::{Class, Work};
use crate::rules::signals::Thresholds;
use crate::trace::Ns;

/// Number, sum and maximum of some gaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Gaps {
    pub(crate) count: u64,
    pub(crate) total: Ns,
    pub(crate) longest: Ns,
    /// Number of the long ones.
    pub(crate) long_count: u64,
    /// Their sum.
    pub(crate) long_total: Ns,
}

impl Gaps {
    /// Adds a gap, which is long if it lasts `long` or more.
    pub(super) fn add(&mut self, length: Ns, long: Ns) {
        let is_long = length >= long;
        self.add_all(Self {
            count: 1,
            total: length,
            longest: length,
            long_count: u64::from(is_long),
            long_total: if is_long { length } else { Ns::ZERO },
        });
    }

    fn add_all(&mut self, more: Self) {
        self.count += more.count;
        self.total += more.total;
        self.longest = self.longest.max(more.longest);
        self.long_count += more.long_count;
        self.long_total += more.long_total;
    }
}

/// The gaps of one device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LaunchGaps {
    /// Launched late, around replays of graphs: only a few eager kernels lie between it and a replay.
    pub(crate) preparation: Gaps,
    /// Launched late, in eager work.
    pub(crate) eager: Gaps,
    /// Launched late after so long a pause that a serving engine probably had no requests.
    pub(crate) pauses: Gaps,
    /// Launched in time, but short: the turnaround between eager ops.
    pub(crate) turnaround: Gaps,
    pub(crate) kernel_time: Ns,
    /// Kernel time that graph replays launched; zero if the graphs were traced as a whole.
    pub(crate) replayed: Ns,
    /// Whether there are replays, traced by kernel or as a whole.
    pub(crate) has_replays: bool,
    pub(crate) eager_kernels: u64,
    /// Eager kernels below the threshold of a short kernel.
    pub(crate) short_kernels: u64,
}

impl LaunchGaps {
    /// The part of the late gaps that `some` of them are.
    pub(crate) fn share_of_late(&self, some: Gaps) -> f64 {
        let late = self.preparation.total + self.eager.total + self.pauses.total;
        if late > Ns::ZERO { some.total.0 as f64 / late.0 as f64 } else { 0.0 }
    }

    /// Whether all late gaps are among `some`.
    pub(crate) fn is_all_late(&self, some: Gaps) -> bool {
        some.count == self.preparation.count + self.eager.count + self.pauses.count
    }

    pub(crate) fn replayed_share(&self) -> f64 {
        if self.kernel_time > Ns::ZERO { self.replayed.0 as f64 / self.kernel_time.0 as f64 } else { 0.0 }
    }
}

/// The thresholds of this module.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaunchRules {
    /// Longer late gaps are pauses.
    pause: Ns,
    /// Gaps of this length or more are long.
    long_gap: Ns,
    short_kernel: Ns,
    max_preparation_kernels: u64,
}

impl LaunchRules {
    pub(super) fn new(thresholds: &Thresholds) -> Self {
        let ns = |us: f64| Ns((us * 1e3).round() as i64);
        Self {
            pause: ns(thresholds.launcher_idle_us),
            long_gap: thresholds.long_gap(),
            short_kernel: ns(thresholds.short_kernel_us),
            max_preparation_kernels: thresholds.max_preparation_kernels as u64,
        }
    }

    /// What a stretch between two replays with this many eager kernels is.
    fn stretch_of(&self, kernels: u64) -> Stretch {
        if kernels <= self.max_preparation_kernels { Stretch::Preparation } else { Stretch::Eager }
    }
}

/// Where a late gap is among the replays of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stretch {
    /// Before the first replay, or in a run without replays.
    First,
    /// After the last replay.
    Last,
    /// In a stretch that lies completely in the run and has few eager kernels.
    Preparation,
    /// In a stretch that lies completely in the run and has many eager kernels.
    Eager,
}

/// Late gaps by what they are.
#[derive(Debug, Clone, Copy, Default)]
struct LateGaps {
    late: Gaps,
    /// Longer than the pauses of a serving engine that has requests.
    pauses: Gaps,
    /// After blocking calls. Late if the host was never ahead of the device.
    drained: Gaps,
}

impl LateGaps {
    fn add_all(&mut self, more: Self) {
        self.late.add_all(more.late);
        self.pauses.add_all(more.pauses);
        self.drained.add_all(more.drained);
    }
}

/// Late gaps without a replay between them.
#[derive(Debug, Clone, Copy, Default)]
struct OpenStretch {
    gaps: LateGaps,
    kernels: u64,
}

/// The sums of one device over a run of consecutive ops, see [`LaunchGaps`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LaunchSums {
    first: OpenStretch,
    /// `None` if the run has no replay.
    last: Option<OpenStretch>,
    preparation: LateGaps,
    eager: LateGaps,
    turnaround: Gaps,
    kernel_time: Ns,
    replayed: Ns,
    eager_kernels: u64,
    short_kernels: u64,
}

impl LaunchSums {
    /// The stretch of the next gap.
    pub(super) fn stretch(&self) -> Stretch {
        if self.last.is_some() { Stretch::Last } else { Stretch::First }
    }

    fn gaps(&mut self, stretch: Stretch) -> &mut LateGaps {
        match (stretch, &mut self.last) {
            (Stretch::Preparation, _) => &mut self.preparation,
            (Stretch::Eager, _) => &mut self.eager,
            (Stretch::Last, Some(last)) => &mut last.gaps,
            (Stretch::First | Stretch::Last, _) => &mut self.first.gaps,
        }
    }

    pub(super) fn add_late(&mut self, rules: &LaunchRules, stretch: Stretch, length: Ns) {
        let gaps = self.gaps(stretch);
        let kind = if length > rules.pause { &mut gaps.pauses } else { &mut gaps.late };
        kind.add(length, rules.long_gap);
    }

    pub(super) fn add_drained(&mut self, rules: &LaunchRules, stretch: Stretch, length: Ns) {
        self.gaps(stretch).drained.add(length, rules.long_gap);
    }

    /// Adds a short gap before an op that was launched in time.
    pub(super) fn add_turnaround(&mut self, rules: &LaunchRules, length: Ns) {
        self.turnaround.add(length, rules.long_gap);
    }

    /// Adds an op or a whole graph. `is_replayed` is true if a graph launch started it. `visit_decided` gets the stretch
    /// that [`Stretch::Last`] was until now, if it ends here.
    pub(super) fn add_work(
        &mut self,
        rules: &LaunchRules,
        work: &Work,
        is_replayed: bool,
        visit_decided: &mut dyn FnMut(Stretch),
    ) {
        let is_kernel = matches!(work.class, Class::Compute | Class::Communication);
        let duration = if is_kernel { work.end.since(work.start) } else { Ns::ZERO };
        self.kernel_time += duration;
        if is_replayed {
            if let Some(ended) = self.last.replace(OpenStretch::default()) {
                visit_decided(self.decide(rules, ended));
            }
            self.replayed += duration;
        } else if is_kernel {
            self.last.as_mut().unwrap_or(&mut self.first).kernels += 1;
            self.eager_kernels += 1;
            self.short_kernels += u64::from(duration < rules.short_kernel);
        }
    }

    /// Adds a stretch between two replays.
    fn decide(&mut self, rules: &LaunchRules, ended: OpenStretch) -> Stretch {
        let stretch = rules.stretch_of(ended.kernels);
        self.gaps(stretch).add_all(ended.gaps);
        stretch
    }

    /// Adds the next run. Returns what [`Stretch::Last`] of this run and [`Stretch::First`] of the next one are in both
    /// together.
    pub(super) fn append(&mut self, rules: &LaunchRules, later: &Self) -> (Stretch, Stretch) {
        self.preparation.add_all(later.preparation);
        self.eager.add_all(later.eager);
        self.turnaround.add_all(later.turnaround);
        self.kernel_time += later.kernel_time;
        self.replayed += later.replayed;
        self.eager_kernels += later.eager_kernels;
        self.short_kernels += later.short_kernels;
        let own_end = self.stretch();
        let open = self.last.as_mut().unwrap_or(&mut self.first);
        open.gaps.add_all(later.first.gaps);
        open.kernels += later.first.kernels;
        let Some(last) = later.last else { return (own_end, own_end) };
        match self.last.replace(last) {
            Some(ended) => {
                let stretch = self.decide(rules, ended);
                (stretch, stretch)
            }
            None => (Stretch::First, Stretch::First),
        }
    }

    /// The gaps of a whole device. `is_drained_late` is true if the host was never ahead, `is_engine` for serving engines,
    /// which may have no requests for a while.
    pub(super) fn finish(&self, rules: &LaunchRules, is_drained_late: bool, is_engine: bool) -> LaunchGaps {
        let (mut preparation, mut eager) = (self.preparation, self.eager);
        for open in [Some(self.first), self.last].into_iter().flatten() {
            let is_preparation = self.last.is_some() && rules.stretch_of(open.kernels) == Stretch::Preparation;
            if is_preparation { &mut preparation } else { &mut eager }.add_all(open.gaps);
        }
        let mut found = LaunchGaps {
            turnaround: self.turnaround,
            kernel_time: self.kernel_time,
            replayed: self.replayed,
            has_replays: self.last.is_some(),
            eager_kernels: self.eager_kernels,
            short_kernels: self.short_kernels,
            ..LaunchGaps::default()
        };
        for (sum, gaps) in [(&mut found.preparation, preparation), (&mut found.eager, eager)] {
            sum.add_all(gaps.late);
            if is_drained_late {
                sum.add_all(gaps.drained);
            }
            if is_engine { &mut found.pauses } else { sum }.add_all(gaps.pauses);
        }
        found
    }
}
