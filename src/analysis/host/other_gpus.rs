//! When the GPUs of a process with several work: a GPU that idles meanwhile may wait for another one. One pass over the work, and a binary
//! search for each look-up. Traces whose processes have one GPU each cost nothing but a pass over the ops if there are several devices.
//!
//! Because a GPU runs nothing in its own gap, all work of its process in the gap is that of the other GPUs, so one union serves all GPUs of
//! a process.

use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::time::work::{Intervals, Work, add_interval, each_work};
use crate::trace::{CODE_IS_BUILT, DeviceId, Ns, ProcessId, Trace};
use std::collections::BTreeMap;

/// When any GPU of a process works.
#[derive(Debug, Default)]
struct ProcessWork {
    /// Disjoint, sorted.
    busy: Intervals,
    /// The work before each of them.
    sums: Vec<Ns>,
}

/// The work of the processes that use several GPUs.
#[derive(Debug, Default)]
pub(crate) struct OtherGpus {
    processes: BTreeMap<ProcessId, ProcessWork>,
}

impl OtherGpus {
    /// The page's first module has no use for it.
    pub(crate) fn of(classified: &ClassifiedTrace) -> Self {
        let trace = classified.trace;
        let mut found = Self::default();
        if !CODE_IS_BUILT || trace.devices.len() < 2 {
            return found;
        }
        let mut first: BTreeMap<ProcessId, DeviceId> = BTreeMap::new();
        let replays = trace.graph_replays.iter().map(|replay| (replay.device, replay.process));
        for (device, process) in trace.gpu_ops.iter().map(|op| (op.device, op.process)).chain(replays) {
            if *first.entry(process).or_insert(device) != device {
                found.processes.entry(process).or_default();
            }
        }
        if found.processes.is_empty() {
            return found;
        }
        each_work(classified, &mut |work| {
            if let Some(own) = process_of(trace, work.row).and_then(|process| found.processes.get_mut(&process)) {
                own.add(&work);
            }
        });
        found.processes.values_mut().for_each(ProcessWork::sum);
        found
    }

    /// Whether the process of the work in this row uses several GPUs.
    pub(crate) fn has(&self, trace: &Trace, row: usize) -> bool {
        CODE_IS_BUILT && self.work(trace, row).is_some()
    }

    /// How long other GPUs work in a part of a gap before the work in this row.
    pub(crate) fn time_in(&self, trace: &Trace, row: usize, (from, to): (Ns, Ns)) -> Ns {
        self.work(trace, row).map_or(Ns::ZERO, |work| work.until(to).since(work.until(from)).max(Ns::ZERO))
    }

    /// When the other GPUs ran empty last before the work in this row, which starts at `start`.
    pub(crate) fn ended_before(&self, trace: &Trace, row: usize, start: Ns) -> Option<Ns> {
        let busy = &self.work(trace, row)?.busy;
        let index = busy.partition_point(|(from, _)| *from < start).checked_sub(1)?;
        busy.get(index).map(|(_, end)| *end).filter(|end| *end <= start)
    }

    /// Of the time from the first work of a process with several GPUs to its last one, that in which at least one of them works, and all of
    /// it. Of the process with most work.
    pub(crate) fn any_busy(&self) -> Option<(Ns, Ns)> {
        if !CODE_IS_BUILT {
            return None;
        }
        let times = self.processes.values().filter_map(|work| {
            let ((first, _), (_, last)) = (work.busy.first()?, work.busy.last()?);
            Some((work.until(*last), last.since(*first)))
        });
        times.max()
    }

    fn work(&self, trace: &Trace, row: usize) -> Option<&ProcessWork> {
        if self.processes.is_empty() {
            return None;
        }
        self.processes.get(&process_of(trace, row)?)
    }
}

impl ProcessWork {
    fn add(&mut self, work: &Work) {
        add_interval(&mut self.busy, (work.start, work.end));
    }

    fn sum(&mut self) {
        let mut sum = Ns::ZERO;
        let before = |(start, end): &(Ns, Ns)| {
            let before = sum;
            sum += end.since(*start);
            before
        };
        self.sums = self.busy.iter().map(before).collect();
    }

    /// The work until a time.
    fn until(&self, time: Ns) -> Ns {
        let last = self.busy.partition_point(|(start, _)| *start < time).checked_sub(1);
        let found = last.and_then(|last| self.busy.get(last).zip(self.sums.get(last)));
        found.map_or(Ns::ZERO, |((start, end), sum)| *sum + time.min(*end).since(*start))
    }
}

/// The process of the work in this row; rows of graph replays follow those of the ops.
fn process_of(trace: &Trace, row: usize) -> Option<ProcessId> {
    match row.checked_sub(trace.gpu_ops.len()) {
        None => trace.gpu_ops.get(row).map(|op| op.process),
        Some(replay) => trace.graph_replays.get(replay).map(|replay| replay.process),
    }
}
