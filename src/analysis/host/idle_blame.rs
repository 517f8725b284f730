//! What the launching thread did while a GPU waited for its next launch: self time by Python function, with the CPU op that took
//! most of it. From the late gaps and [`crate::trace::LateCode`]; one sweep over the GPU ops.

use super::idle_cause::IdleCause;
use super::idle_code_rules::{Kind, op_rule, rule};
use super::late_gaps::{LateGap, LateTotals, each_late_gap};
use crate::analysis::context::Context;
use crate::analysis::section::{Section, Value};
use crate::ordering::{self, VecMap};
use crate::trace::{CodeTime, Format, LateCode, NameId, Ns, without_install_folder};

const TITLE: &str = "Host code while the GPU waited";
const COLUMNS: [&str; 11] = [
    "function",
    "file",
    "line",
    "cpu_op",
    "class",
    "total_ms",
    "ms_per_step",
    "share_pct",
    "gaps",
    "placement",
    "change",
];
/// The number of rows that are shown.
const MAX_ROWS: usize = 200;
/// The function of the time after the launch call returned.
const LATENCY: &str = "(launch latency)";
/// The function of gaps that were not looked up, and of time outside of Python functions and CPU ops.
const UNKNOWN: &str = "(no code found)";

/// One row per function and class of gap, and rows for the time that no function explains. They add up to the late time.
pub(crate) fn idle_blame(context: &Context) -> Section {
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
    let mut section = Section::new(TITLE, "idle gaps before late launches, and the Python functions and CPU ops of the launching thread", &COLUMNS)
        .limit("A function has the time in which it was innermost. Built-in functions count for their caller. The CPU op is the one that took most of that time.")
        .limit("host_late: the host launched the next op too late. drained: it did so after a call that had waited until the GPU was empty.")
        .limit("Placement: the engine can overlap the function with work of the GPU, another thread can do it, or it must stay before the launch; blank where that is not known. Waiting until the GPU was empty is no work of a function: drained rows name only a mode of the engine that waits elsewhere.")
        .limit("The time per step divides by the number of steps; late launches outside of the steps count, too.")
        .limit("Profiling slows Python, with stacks in particular: without the profiler these times are shorter. Compare with a capture without stacks before changing code.");
    let measured = &context.measured_steps().steps;
    let steps = measured.len();
    let in_steps = measured.iter().fold(Ns::ZERO, |sum, step| sum + step.host_late);
    section.figure("late_ms", Value::ms(all));
    section.figure("late_in_steps_ms", Value::ms(in_steps));
    section.figure("steps", steps);
    for (key, blame) in &rows {
        section.row(blame.values(*key, code, all, steps));
    }
    section.truncate(MAX_ROWS);
    section
}

fn missing(context: &Context) -> Section {
    if context.trace.format != Format::TorchProfiler {
        let why = "This format does not record the code of the host.";
        return Section::missing(TITLE, &COLUMNS, why, "torch.profiler.profile(..., with_stack=True)");
    }
    let why = "The GPU waited less than 5 % of the time for late launches, or the file contains no host code.";
    Section::missing(TITLE, &COLUMNS, why, "")
}

/// What a time is blamed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    code: CodeKey,
    is_drained: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    /// Time by CPU op.
    ops: Vec<(NameId, Ns)>,
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
        let mut functions: Vec<Key> = Vec::new();
        for CodeTime { function, op, time } in times {
            let code = match (function, op) {
                (Some(function), _) => CodeKey::Function(*function),
                (None, Some(op)) => CodeKey::Op(*op),
                (None, None) => continue,
            };
            let key = Key { code, is_drained };
            let is_new = !functions.contains(&key);
            self.0.update((device, key), Blame::default(), |blame| blame.add(*time, is_new, *op));
            functions.push(key);
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
        for ((device, key), blame) in self.0.0 {
            let is_drained = key.is_drained && totals.is_host_ever_ahead(device);
            sums.update(Key { is_drained, ..key }, Blame::default(), |sum| sum.merge(&blame));
        }
        sums.0
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
        match self.ops.iter_mut().find(|(known, _)| *known == op) {
            Some((_, sum)) => *sum += time,
            None => self.ops.push((op, time)),
        }
    }

    fn merge(&mut self, other: &Self) {
        self.time += other.time;
        self.gaps += other.gaps;
        for (op, time) in &other.ops {
            self.add_op(*op, *time);
        }
    }

    fn values(&self, key: Key, code: &LateCode, all: Ns, steps: usize) -> [Value; COLUMNS.len()] {
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
        [
            place.function.into(),
            place.file.into(),
            place.line.into(),
            op.unwrap_or_default().into(),
            if key.is_drained { IdleCause::Drained } else { IdleCause::HostLate }.word().into(),
            Value::ms(self.time),
            per_step.into(),
            Value::pct(self.time, all),
            self.gaps.into(),
            known.map_or(Value::Null, |(kind, _)| kind.word().into()),
            known.map_or(Value::Null, |(_, change)| change.into()),
        ]
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
