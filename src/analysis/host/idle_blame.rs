//! What the launching thread did while a GPU waited for its next launch: self time by Python function, with the CPU op that took
//! most of it. From the late gaps and [`crate::trace::LateCode`]; one sweep over the GPU ops.

use super::idle_cause::IdleCause;
use super::idle_code_rules::{Kind, op_rule, rule};
use super::late_gaps::{LateGap, LateTotals, each_late_gap};
use crate::analysis::context::Context;
use crate::analysis::section::{Answer, Ms, Pct, TypedSection, section};
use crate::ordering::{self, VecMap};
use crate::trace::{CodeTime, Format, LateCode, NameId, Ns, without_install_folder};
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};

section! {
    /// The functions in which the host was while a GPU waited for it. The rows add up to the late time.
    pub(crate) struct IdleBlame("idle_blame", "Host code while the GPU waited");
    row BlameRow {
        function: String,
        file: String,
        line: Option<u64>,
        cpu_op: String,
        class: IdleCause,
        total_ms: Ms,
        ms_per_step: Option<f64>,
        share_pct: Pct,
        gaps: u64,
        placement: Option<Kind>,
        change: Option<String> = "What to change",
    }
    figures BlameFigures {
        late_ms: Ms,
        late_in_steps_ms: Ms,
        steps: usize,
    }
}

/// The number of rows that are shown.
const MAX_ROWS: usize = 200;
/// The function of the time after the launch call returned.
const LATENCY: &str = "(launch latency)";
/// The function of gaps that were not looked up, and of time outside of Python functions and CPU ops.
const UNKNOWN: &str = "(no code found)";

/// One row per function and class of gap, and rows for the time that no function explains. They add up to the late time.
pub(crate) fn idle_blame(context: &Context) -> Answer<IdleBlame> {
    let code = &context.trace.late_code;
    if code.is_empty() {
        return missing(context);
    }
    let (mut sums, mut next) = (DeviceSums::default(), 0);
    let totals = each_late_gap(context, context.blocking(), &mut |gap| {
        let found = gap.interval.and_then(|interval| code.of_next(interval, &mut next));
        sums.add(&gap, found.unwrap_or_default());
    });
    let mut rows = sums.over_devices(&totals);
    let all = rows.iter().fold(Ns::ZERO, |sum, (_, blame)| sum + blame.time);
    ordering::sort_by_key(&mut rows, |(key, blame)| (std::cmp::Reverse(blame.time), *key));
    let measured = &context.measured_steps().steps;
    let steps = measured.len();
    let in_steps = measured.iter().fold(Ns::ZERO, |sum, step| sum + step.host_late);
    let mut answer = IdleBlame::answer("idle gaps before late launches, and the Python functions and CPU ops of the launching thread")
        .limit("A function has the time in which it was innermost. Built-in functions count for their caller. The CPU op is the one that took most of that time.")
        .limit("host_late: the host launched the next op too late. drained: it did so after a call that had waited until the GPU was empty.")
        .limit("Placement: the engine can overlap the function with work of the GPU, another thread can do it, or it must stay before the launch; blank where that is not known. Waiting until the GPU was empty is no work of a function: drained rows name only a mode of the engine that waits elsewhere.")
        .limit("The time per step divides by the number of steps; late launches outside of the steps count, too.")
        .limit("Profiling slows Python, with stacks in particular: without the profiler these times are shorter. Compare with a capture without stacks before changing code.")
        .with_figures(BlameFigures { late_ms: all.into(), late_in_steps_ms: in_steps.into(), steps })
        .with_rows(rows.iter().map(|(key, blame)| blame.row(*key, code, all, steps)));
    answer.truncate(MAX_ROWS);
    answer
}

fn missing(context: &Context) -> Answer<IdleBlame> {
    if context.trace.format != Format::TorchProfiler {
        let why = "This format does not record the code of the host.";
        return IdleBlame::missing(why, "torch.profiler.profile(..., with_stack=True)");
    }
    let why = "The GPU waited less than 5 % of the time for late launches, or the file contains no host code.";
    IdleBlame::missing(why, "")
}

/// What a time is blamed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    code: CodeKey,
    is_drained: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum CodeKey {
    Function(NameId),
    /// A CPU op outside of Python functions.
    Op(NameId),
    AfterLaunch,
    Unknown,
}

#[derive(Debug, Default)]
struct Blame {
    time: Ns,
    gaps: u64,
    /// Time by CPU op, in the order of their first times.
    ops: Vec<(NameId, Ns)>,
    /// Positions in `ops`.
    op_rows: HashMap<NameId, usize, RandomState>,
}

/// Sums by index of the device: the cause of a gap is final only after the last gap of its device.
#[derive(Debug, Default)]
struct DeviceSums(VecMap<(usize, Key), Blame>);

impl DeviceSums {
    /// Adds a gap with the code of its interval.
    fn add(&mut self, gap: &LateGap, times: &[CodeTime]) {
        let (device, is_drained) = (gap.device, gap.cause == IdleCause::Drained);
        self.add_time((device, Key { code: CodeKey::AfterLaunch, is_drained }), gap.latency);
        let Some(interval) = gap.interval else { return };
        let mut rest = interval.end.since(interval.start);
        let mut functions: HashSet<Key, RandomState> = HashSet::default();
        for CodeTime { function, op, time } in times {
            let code = match (function, op) {
                (Some(function), _) => CodeKey::Function(*function),
                (None, Some(op)) => CodeKey::Op(*op),
                (None, None) => continue,
            };
            let key = Key { code, is_drained };
            let is_new = functions.insert(key);
            self.0.update((device, key), Blame::default(), |blame| blame.add(*time, is_new, *op));
            rest = rest.since(*time);
        }
        self.add_time((device, Key { code: CodeKey::Unknown, is_drained }), rest);
    }

    fn add_time(&mut self, key: (usize, Key), time: Ns) {
        if time > Ns::ZERO {
            self.0.update(key, Blame::default(), |blame| blame.add(time, true, None));
        }
    }

    /// The sums over all devices with the final causes of the gaps.
    fn over_devices(self, totals: &LateTotals) -> Vec<(Key, Blame)> {
        let mut sums: VecMap<Key, Blame> = VecMap::new();
        for ((device, key), blame) in self.0.into_vec() {
            let is_drained = key.is_drained && totals.is_host_ever_ahead(device);
            sums.update(Key { is_drained, ..key }, Blame::default(), |sum| sum.merge(&blame));
        }
        sums.into_vec()
    }
}

impl Blame {
    fn add(&mut self, time: Ns, is_new_gap: bool, op: Option<NameId>) {
        self.time += time;
        self.gaps += u64::from(is_new_gap);
        if let Some(op) = op {
            self.add_op(op, time);
        }
    }

    fn add_op(&mut self, op: NameId, time: Ns) {
        let row = *self.op_rows.entry(op).or_insert_with(|| {
            self.ops.push((op, Ns::ZERO));
            self.ops.len() - 1
        });
        self.ops.get_mut(row).into_iter().for_each(|(_, sum)| *sum += time);
    }

    fn merge(&mut self, other: &Self) {
        self.time += other.time;
        self.gaps += other.gaps;
        for (op, time) in &other.ops {
            self.add_op(*op, *time);
        }
    }

    fn row(&self, key: Key, code: &LateCode, all: Ns, steps: usize) -> BlameRow {
        let place = match key.code {
            CodeKey::Function(name) => Place::parse(code.functions.get(name)),
            CodeKey::AfterLaunch => Place { function: LATENCY, ..Place::default() },
            CodeKey::Unknown => Place { function: UNKNOWN, ..Place::default() },
            CodeKey::Op(_) => Place::default(),
        };
        let op = self.ops.iter().max_by_key(|(_, time)| *time).map(|(op, _)| code.ops.get(*op));
        let by_function = || rule(place.file, place.function).map(|rule| (rule.kind, rule.change.as_str()));
        let known = match key.code {
            CodeKey::Op(_) => op.and_then(op_rule),
            _ => by_function(),
        };
        // Before a drained gap the host waited for the GPU, so that no code held up the launch by itself.
        let known = known.filter(|(kind, _)| !key.is_drained || *kind == Kind::Overlaps);
        let per_step = (steps > 0).then(|| self.time.0 as f64 / 1e6 / steps as f64);
        BlameRow {
            function: place.function.to_owned(),
            file: place.file.to_owned(),
            line: place.line,
            cpu_op: op.unwrap_or_default().to_owned(),
            class: if key.is_drained { IdleCause::Drained } else { IdleCause::HostLate },
            total_ms: self.time.into(),
            ms_per_step: per_step,
            share_pct: Pct::of(self.time, all),
            gaps: self.gaps,
            placement: known.map(|(kind, _)| kind),
            change: known.map(|(_, change)| change.to_owned()),
        }
    }
}

/// The parts of `path/file.py(12): function`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Place<'a> {
    function: &'a str,
    file: &'a str,
    line: Option<u64>,
}

impl<'a> Place<'a> {
    fn parse(text: &'a str) -> Self {
        let parts = text.split_once("): ").and_then(|(place, function)| {
            let (path, line) = place.rsplit_once('(')?;
            Some((path, line.parse().ok()?, function))
        });
        let Some((path, line, function)) = parts else { return Self { function: text, ..Self::default() } };
        Self { function, file: without_install_folder(path), line: Some(line) }
    }
}
