//! The code of the launching threads while a GPU waited for them, summed by device, and between the steps of each stage. From the late
//! gaps and [`crate::trace::LateCode`]; one sweep over the GPU ops.

use super::blocking_calls::BlockingCalls;
use super::idle_cause::IdleCause;
use super::late_gaps::{LateGap, LateTotals, each_late_gap};
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::structure::measured_steps::MeasuredStep;
use crate::analysis::structure::stages::Stage;
use crate::ordering::VecMap;
use crate::trace::{CodeTime, LateCode, NameId, Ns, without_install_folder};
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};

/// The function of the time after the launch call returned.
const LATENCY: &str = "(launch latency)";
/// The function of gaps that were not looked up, and of time outside of Python functions and CPU ops.
const UNKNOWN: &str = "(no code found)";

/// All sums. Those of each kind add up to the late time.
#[derive(Debug, Default)]
pub(crate) struct BlamedCode {
    /// With the final causes of the gaps.
    pub(super) by_cause: Vec<(Key, Blame)>,
    /// In the gaps before the next step, by the stage of the step before.
    pub(super) between_steps: Vec<((Stage, CodeKey), Blame)>,
}

impl BlamedCode {
    pub(crate) fn of(classified: &ClassifiedTrace, blocking: &BlockingCalls, steps: &[MeasuredStep]) -> Self {
        let (mut sums, mut next) = (DeviceSums::default(), 0);
        let mut between: VecMap<(Stage, CodeKey), Blame> = VecMap::new();
        let ends = stages_by_end(steps);
        let totals = each_late_gap(classified, blocking, &mut |gap| {
            let found = gap.interval.and_then(|interval| classified.trace.late_code.of_next(interval, &mut next));
            let times = found.unwrap_or_default();
            let stage = ends.get(&(gap.device, gap.end));
            each_code(&gap, times, &mut |code, time| {
                let is_drained = gap.cause == IdleCause::Drained;
                sums.0.update((gap.device, Key { code: code.key, is_drained }), Blame::default(), |blame| {
                    blame.add(time, &code, stage.is_some());
                });
                if let Some(stage) = stage {
                    between.update((*stage, code.key), Blame::default(), |blame| blame.add(time, &code, true));
                }
            });
        });
        Self { by_cause: sums.over_devices(&totals), between_steps: between.into_vec() }
    }
}

/// The stages of the steps that reach to a next one, by device and end.
fn stages_by_end(steps: &[MeasuredStep]) -> HashMap<(usize, Ns), Stage, RandomState> {
    let reaching = steps.iter().filter(|measured| measured.reaches_next);
    reaching.filter_map(|step| Some(((step.step.device?.0 as usize, step.until), step.step.info.stage))).collect()
}

/// What a time is blamed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) code: CodeKey,
    pub(super) is_drained: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum CodeKey {
    Function(NameId),
    /// A CPU op outside of Python functions.
    Op(NameId),
    AfterLaunch,
    Unknown,
}

/// A part of the time of a gap.
struct Code {
    key: CodeKey,
    op: Option<NameId>,
    /// Whether it is the first part of the gap with this key.
    is_new: bool,
}

/// Visits the parts of a late gap. They add up to its late time.
fn each_code(gap: &LateGap, times: &[CodeTime], visit: &mut dyn FnMut(Code, Ns)) {
    let mut whole = |key: CodeKey, time: Ns| {
        if time > Ns::ZERO {
            visit(Code { key, op: None, is_new: true }, time);
        }
    };
    whole(CodeKey::AfterLaunch, gap.latency);
    let Some(interval) = gap.interval else { return };
    let known = times.iter().filter(|code| code.function.is_some() || code.op.is_some());
    let late = interval.end.since(interval.start).since(gap.paused);
    let rest = known.clone().fold(late, |rest, code| rest.since(code.time));
    whole(CodeKey::Unknown, rest);
    let mut seen: HashSet<CodeKey, RandomState> = HashSet::default();
    for CodeTime { function, op, time } in known {
        let key = function.map(CodeKey::Function).or(op.map(CodeKey::Op)).unwrap_or(CodeKey::Unknown);
        visit(Code { key, op: *op, is_new: seen.insert(key) }, *time);
    }
}

#[derive(Debug, Default)]
pub(super) struct Blame {
    pub(super) time: Ns,
    pub(super) gaps: u64,
    /// The part of the time in gaps before the next step.
    pub(super) between_steps: Ns,
    /// Time by CPU op, in the order of their first times.
    ops: Vec<(NameId, Ns)>,
    /// Positions in `ops`.
    op_rows: HashMap<NameId, usize, RandomState>,
}

/// Sums by index of the device: the cause of a gap is final only after the last gap of its device.
#[derive(Debug, Default)]
struct DeviceSums(VecMap<(usize, Key), Blame>);

impl DeviceSums {
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
    fn add(&mut self, time: Ns, code: &Code, is_between_steps: bool) {
        self.time += time;
        self.gaps += u64::from(code.is_new);
        if is_between_steps {
            self.between_steps += time;
        }
        if let Some(op) = code.op {
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
        self.between_steps += other.between_steps;
        for (op, time) in &other.ops {
            self.add_op(*op, *time);
        }
    }

    /// The CPU op that took most of the time.
    pub(super) fn main_op<'a>(&self, code: &'a LateCode) -> Option<&'a str> {
        self.ops.iter().max_by_key(|(_, time)| *time).map(|(op, _)| code.ops.get(*op))
    }
}

/// The parts of `path/file.py(12): function`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place<'a> {
    pub(crate) function: &'a str,
    pub(crate) file: &'a str,
    pub(crate) line: Option<u64>,
}

impl<'a> Place<'a> {
    /// That of the code of a key.
    pub(super) fn of(key: CodeKey, code: &'a LateCode) -> Self {
        match key {
            CodeKey::Function(name) => Self::parse(code.functions.get(name)),
            CodeKey::AfterLaunch => Self { function: LATENCY, ..Self::default() },
            CodeKey::Unknown => Self { function: UNKNOWN, ..Self::default() },
            CodeKey::Op(_) => Self::default(),
        }
    }

    /// Of `path(line): function`; another text is the function.
    pub(crate) fn parse(text: &'a str) -> Self {
        let parts = text.split_once("): ").and_then(|(place, function)| {
            let (path, line) = place.rsplit_once('(')?;
            Some((path, line.parse().ok()?, function))
        });
        let Some((path, line, function)) = parts else { return Self { function: text, ..Self::default() } };
        Self { function, file: without_install_folder(path), line: Some(line) }
    }

    /// `_prepare_inputs (scheduler.py:120)`.
    pub(crate) fn words(&self) -> String {
        let file = self.file.rsplit('/').next().unwrap_or_default();
        match (file, self.line) {
            ("", _) => self.function.to_owned(),
            (file, Some(line)) => format!("{} ({file}:{line})", self.function),
            (file, None) => format!("{} ({file})", self.function),
        }
    }
}
