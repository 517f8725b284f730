//! What a reader met and could not use, counted by kind.

/// A kind of problem. The sentence and the advice for each are written in `analysis/notices.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProblemKind {
    /// The file ends in the middle of the trace.
    Truncated,
    /// The event list has no closing bracket, which the format allows: perhaps the file is cut, perhaps not.
    Unclosed,
    /// The compressed data is damaged; what was unpacked before is used.
    DamagedGzip,
    /// An event that is not readable JSON, or whose start was lost.
    UnreadableEvent,
    /// A GPU op without a usable start or duration.
    OpWithoutTime,
    /// A GPU op with a negative duration, or one that ends beyond all time.
    ImpossibleDuration,
    /// A row of a table that is not a GPU op.
    UnreadableRow,
    /// The last row of a table has no line end: perhaps the file is cut, perhaps not.
    OpenLastRow,
    /// A row of a call, range, wait or counter without usable time.
    HostRowWithoutTime,
    /// A sample of a counter without a name, or of nobody knows which GPU.
    UnknownCounter,
    /// A table of a database that is damaged before its end.
    DamagedTable,
    /// A row of a table of GPU work that has no column of starts or ends.
    NoTimes,
    /// A row of a table of GPU work that has no column of devices.
    NoDevices,
    /// A name that rows refer to and the file does not hold.
    MissingName,
    /// Bytes after the end of the trace.
    TrailingData,
    /// A call or range of a trace of which GPU events alone were to be read.
    LeftOut,
}

impl ProblemKind {
    /// Kinds of files of which a part is missing, nobody knows which: what they hold says nothing of the whole.
    pub const CUT_SHORT: [Self; 4] = [Self::Truncated, Self::DamagedGzip, Self::DamagedTable, Self::NoTimes];

    /// The name of its notice in reports.
    pub fn code(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::Unclosed => "unclosed_list",
            Self::DamagedGzip => "damaged_gzip",
            Self::UnreadableEvent => "unreadable_events",
            Self::OpWithoutTime => "gpu_op_without_time",
            Self::ImpossibleDuration => "impossible_duration",
            Self::UnreadableRow => "unreadable_rows",
            Self::OpenLastRow => "open_last_row",
            Self::HostRowWithoutTime => "host_row_without_time",
            Self::UnknownCounter => "unknown_counters",
            Self::DamagedTable => "damaged_table",
            Self::NoTimes => "no_times",
            Self::NoDevices => "no_devices",
            Self::MissingName => "missing_names",
            Self::TrailingData => "trailing_data",
            Self::LeftOut => "left_out",
        }
    }
}

/// How often a kind was met, and where first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportProblem {
    /// What it is.
    pub kind: ProblemKind,
    /// How often; for [`ProblemKind::TrailingData`] the number of bytes.
    pub count: u64,
    /// The byte of the (unpacked) file, or the line of a table, where it was met first.
    pub first_at: u64,
}

/// All problems of a trace, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportProblems(Vec<ImportProblem>);

impl ImportProblems {
    /// Counts `count` more of `kind`, met at `at`.
    pub fn add(&mut self, kind: ProblemKind, count: u64, at: u64) {
        match self.0.iter_mut().find(|problem| problem.kind == kind) {
            Some(problem) => {
                problem.count = problem.count.saturating_add(count);
                problem.first_at = problem.first_at.min(at);
            }
            None => {
                let place = self.0.partition_point(|problem| problem.kind < kind);
                self.0.insert(place, ImportProblem { kind, count, first_at: at });
            }
        }
    }

    /// True where this kind was met.
    pub fn has(&self, kind: ProblemKind) -> bool {
        self.0.iter().any(|problem| problem.kind == kind)
    }

    /// True where a part of the file is missing, nobody knows which.
    pub fn is_cut_short(&self) -> bool {
        ProblemKind::CUT_SHORT.into_iter().any(|kind| self.has(kind))
    }

    /// All of them, each kind once.
    pub fn iter(&self) -> impl Iterator<Item = ImportProblem> + '_ {
        self.0.iter().copied()
    }
}
