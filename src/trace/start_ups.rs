//! When processes of the program started within the trace. `analysis::host::start_up` finds it when the file is read;
//! windows of the trace share it.

use super::{CODE_IS_BUILT, HostInterval, HostTimes, Ns, ProcessId, Trace};

/// The start of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartUp {
    /// The process.
    pub process: ProcessId,
    /// Its first event: a call, a range or a GPU op.
    pub first_event: Ns,
    /// The end of its last event.
    pub last_event: Ns,
    /// The end of the load with which its start ends. Later it works steadily.
    pub steady_from: Ns,
    /// Time before `steady_from` in which at least one of its threads loads.
    pub load: Ns,
    /// Loads before `steady_from`.
    pub loads: u64,
    /// Sums of these loads by the name of the call or range, the largest first.
    pub largest: Vec<LoadSum>,
}

/// The loads of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadSum {
    /// The name of the call or range.
    pub name: String,
    /// Their number.
    pub count: u64,
    /// The sum of their durations.
    pub time: Ns,
    /// They are first launches of kernels.
    pub is_launch: bool,
}

/// The processes that are seen starting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartUps {
    /// One for each, sorted by process.
    pub processes: Vec<StartUp>,
    /// When threads of these processes load, also later.
    loads: HostTimes,
}

impl Trace {
    /// The processes that are seen starting. The page's first module does not look for them.
    pub fn starts(&self) -> Option<&StartUps> {
        self.start_ups.as_deref().filter(|_| CODE_IS_BUILT)
    }
}

impl StartUps {
    /// `loads` may overlap.
    pub(crate) fn new(processes: Vec<StartUp>, loads: Vec<HostInterval>) -> Self {
        Self { processes, loads: HostTimes::union_of(loads) }
    }

    /// How much of an interval its thread loads. O(log n), plus O(1) for each load in the interval.
    pub fn loading_time_in(&self, interval: HostInterval) -> Ns {
        self.loads.time_in(interval)
    }

    /// The start of a process, if it is seen.
    pub fn of(&self, process: ProcessId) -> Option<&StartUp> {
        let found = self.processes.binary_search_by_key(&process, |start| start.process);
        found.ok().and_then(|index| self.processes.get(index))
    }
}
