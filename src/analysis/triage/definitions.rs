//! Sentences that define the numbers of the triage tables, for every trace. Each is a limit of its section. Text and
//! Markdown reports print them after the limits that are specific to the trace.

/// The shares in the kernel table.
pub const KERNEL_SHARES: &str = "elapsed_share_pct is the share of the stage's busy time, as in the report: an overlap is shared evenly \
     between its ops. share_pct is relative to the sum of the durations of the stage's GPU ops, which counts overlapped time \
     more than once. busy_share_pct relates a duration to the time in which at least one of these ops runs, wall_share_pct to \
     the time from their first start to their last end; both are summed over devices. CSV and JSON contain all four.";
/// `graph replay` rows in the kernel table.
pub const GRAPH_REPLAY: &str = "`graph replay` rows show the source location that replays the graph, not the one that launched \
     the kernel during capture.";
/// `borrowed` locations in the kernel table.
pub const BORROWED: &str = "`borrowed` source locations come from launches of the same kernel in the mapping trace, assigned in \
     order; their site shares are estimates.";
/// The shares in the overlap table.
pub const OVERLAP_SHARES: &str = "elapsed_share_pct is the share of the stage's busy time, as in the kernel table. share_pct relates the sum of durations \
     to the busy time (the union of the stage's ops, per device), so that overlapped time counts more than once. \
     unpaused_share_pct is relative to the busy time plus the gaps that end with one of its ops, without pauses.";
/// Hidden ops in the overlap table.
pub const HIDDEN: &str = "An op is hidden while another stream of its device works. Kernels of the same stream that run at the \
     same time do not hide each other.";
/// Headroom in the overlap table without mapping traces.
pub const ONE_TRACE: &str = "Without a mapping trace, a kernel on the busiest stream has headroom only if its neighbours allow \
     it. The trace does not record dependencies between streams.";
/// The shares in the fuse table.
pub const FUSE_SHARES: &str = "elapsed_share_pct is the share of the stage's busy time, as in the kernel table; share_pct is \
     relative to the sum of durations, which counts overlapped time more than once.";
/// Chains in the fuse table.
pub const CHAINS: &str = "A chain of launches shows separate kernels. It does not show that their data dependencies \
                          allow fusing them.";
/// The date of the catalog.
pub const CATALOG_DATE: &str = "The catalog is from June 2026: optimizations listed as in flight may be merged by now.";
/// Families that the catalog cannot detect.
pub const CATALOG_REACH: &str =
    "The catalog cannot detect a family that has no kernel names, functions or fuse pattern of its own.";
/// Wall time of stages in the summary.
pub const STAGE_WALL: &str = "The wall time of a stage is the time from the first start to the last end of its ops on each \
     device. It includes the work of other stages in between.";
/// Pauses in the summary.
pub const PAUSES: &str = "Wall time includes the pauses of the devices; busy and idle time do not.";
/// Attention work in the table of steps.
pub const ATTENTION_WORK: &str = "Attention work counts the two matrix products of attention in all layers, each as full attention \
     (a sliding window needs less), computed from the sums in the annotations. Its rate is relative to the whole duration \
     of the steps.";

const ALL: [&str; 12] = [
    KERNEL_SHARES,
    GRAPH_REPLAY,
    BORROWED,
    OVERLAP_SHARES,
    HIDDEN,
    ONE_TRACE,
    CHAINS,
    CATALOG_DATE,
    CATALOG_REACH,
    STAGE_WALL,
    PAUSES,
    ATTENTION_WORK,
];

/// Whether a limit is one of these definitions.
pub fn is_definition(limit: &str) -> bool {
    ALL.contains(&limit)
}
