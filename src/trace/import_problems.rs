//! Input that a reader could not use, counted by kind.

/// A kind of problem. `analysis/notices.rs` has the sentence and the advice that people see for each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemKind {
    /// The file ends in the middle of the trace.
    Truncated,
    /// The event list has no closing bracket. The format allows that, so the file may or may not be cut.
    Unclosed,
    /// A part of a binary file is damaged, and what follows in that part cannot be found.
    Damaged,
    /// The compressed data is damaged; only the part before the damage is used.
    DamagedGzip,
    /// An event is not valid JSON, or its beginning was lost.
    UnreadableEvent,
    /// An event or record that is longer than any that a profiler writes, and is not read.
    EventTooLarge,
    /// The beginning or the end of a slice (`ph` `B` or `E`) without the other one.
    UnpairedSlice,
    /// A member beside the event list that says something about the whole trace, such as the GPUs, and cannot be read.
    UnreadableMember,
    /// A GPU op without a usable start or duration, or with zero for both.
    OpWithoutTime,
    /// A GPU op with a negative duration, with times beyond the range of the clock, or with times that contradict its launch, the
    /// order of its stream or the recorded time.
    ImpossibleDuration,
    /// A GPU op whose correlation id several calls have, so that its launch is not certain.
    AmbiguousLaunch,
    /// A GPU op or call that the file has already.
    RepeatedEvent,
    /// A row of a CSV table that cannot be read as a GPU op.
    UnreadableRow,
    /// The last row of a CSV table has no line end, so the file may or may not be cut.
    OpenLastRow,
    /// A row of a call, range, wait or counter without usable times.
    HostRowWithoutTime,
    /// A sample of a counter without a name, or of an unknown GPU.
    UnknownCounter,
    /// A kernel with hardware counters that the table of kernels of the same files does not have.
    CounterOfOtherRun,
    /// A kernel of a run that counts hardware events, for which the profiler runs the kernels one at a time.
    KernelOfCounterRun,
    /// A database table could not be read to its end.
    DamagedTable,
    /// A column of a database table with values of a type that is not read.
    #[cfg(not(target_arch = "wasm32"))]
    UnreadColumn,
    /// A row of a GPU table that lacks the start or end column.
    NoTimes,
    /// A row of a GPU table that lacks the device column.
    NoDevices,
    /// A name that rows refer to but that the string table does not have.
    MissingName,
    /// A further text for an id that the string table already has.
    RepeatedName,
    /// A name that is too long and was shortened.
    LongName,
    /// Bytes after the end of the trace.
    TrailingData,
    /// A node of a CUDA graph that is a host function or an event, not GPU work.
    GraphNode,
    /// An event of a category that is not read, such as those of other accelerators.
    UnknownCategory,
    /// A call or range that was skipped because only GPU events were requested.
    LeftOut,
}

impl ProblemKind {
    /// Kinds of problems with which an unknown part of the file is missing, so that sums over the trace are incomplete.
    pub const CUT_SHORT: [Self; 5] =
        [Self::Truncated, Self::Damaged, Self::DamagedGzip, Self::DamagedTable, Self::NoTimes];

    /// Returns the code of its notice in reports.
    pub fn code(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Unclosed => "unclosed_list",
            Self::Damaged => "damaged_file",
            Self::DamagedGzip => "damaged_gzip",
            Self::UnreadableEvent => "unreadable_events",
            Self::EventTooLarge => "events_too_large",
            Self::UnpairedSlice => "unpaired_slices",
            Self::UnreadableMember => "unreadable_members",
            Self::OpWithoutTime => "gpu_op_without_time",
            Self::ImpossibleDuration => "impossible_duration",
            Self::AmbiguousLaunch => "ambiguous_launches",
            Self::RepeatedEvent => "repeated_events",
            Self::UnreadableRow => "unreadable_rows",
            Self::OpenLastRow => "open_last_row",
            Self::HostRowWithoutTime => "host_row_without_time",
            Self::UnknownCounter => "unknown_counters",
            Self::CounterOfOtherRun => "counters_of_other_run",
            Self::KernelOfCounterRun => "kernels_of_counter_run",
            Self::DamagedTable => "damaged_table",
            #[cfg(not(target_arch = "wasm32"))]
            Self::UnreadColumn => "unread_columns",
            Self::NoTimes => "no_times",
            Self::NoDevices => "no_devices",
            Self::MissingName => "missing_names",
            Self::RepeatedName => "repeated_names",
            Self::LongName => "long_names",
            Self::TrailingData => "trailing_data",
            Self::GraphNode => "graph_nodes",
            Self::UnknownCategory => "unknown_categories",
            Self::LeftOut => "left_out",
        }
    }
}

/// The number of problems of one kind, and the first place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportProblem {
    /// The kind.
    pub kind: ProblemKind,
    /// Number of occurrences; for [`ProblemKind::TrailingData`] the number of bytes.
    pub count: u64,
    /// Byte offset in the (unpacked) file, or row of the table, of the first occurrence.
    pub first_at: u64,
}

impl ImportProblem {
    /// [`ImportProblem::first_at`] of a problem that was found after reading.
    pub const UNKNOWN_PLACE: u64 = u64::MAX;
}

/// All problems of a trace, one entry per kind, sorted by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportProblems(Vec<ImportProblem>);

impl ImportProblems {
    /// Adds `count` problems of `kind`; `at` is a byte offset or row, as in [`ImportProblem::first_at`].
    pub fn add(&mut self, kind: ProblemKind, count: u64, at: u64) {
        match self.0.iter_mut().find(|problem| problem.kind == kind) {
            Some(problem) => {
                problem.count = problem.count.saturating_add(count);
                problem.first_at = problem.first_at.min(at);
            }
            None => {
                let index = self.0.partition_point(|problem| problem.kind < kind);
                self.0.insert(index, ImportProblem { kind, count, first_at: at });
            }
        }
    }

    /// Returns true if there is a problem of this kind.
    pub fn has(&self, kind: ProblemKind) -> bool {
        self.0.iter().any(|problem| problem.kind == kind)
    }

    /// Returns the number of problems of this kind.
    pub fn count(&self, kind: ProblemKind) -> u64 {
        self.0.iter().find(|problem| problem.kind == kind).map_or(0, |problem| problem.count)
    }

    /// A clause about events that are too large; `None` without such.
    pub fn too_large_event(&self) -> Option<String> {
        let problem = self.0.iter().find(|problem| problem.kind == ProblemKind::EventTooLarge)?;
        let place = match problem.first_at {
            ImportProblem::UNKNOWN_PLACE => String::new(),
            at => format!(", at byte {at},"),
        };
        Some(format!("an event{place} is longer than 64 MiB, which no profiler writes"))
    }

    /// Returns true if an unknown part of the file is missing.
    pub fn is_cut_short(&self) -> bool {
        ProblemKind::CUT_SHORT.into_iter().any(|kind| self.has(kind))
    }

    /// Iterates over the kinds that occurred.
    pub fn iter(&self) -> impl Iterator<Item = ImportProblem> + '_ {
        self.0.iter().copied()
    }
}
