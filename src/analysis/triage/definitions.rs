//! What the figures of the tables are of: sentences that hold for every trace. Each is a limit of its section; where a
//! person reads them all they stand last, behind what is true of this trace alone.

/// Of the kernel table.
pub const KERNEL_SHARES: &str = "Share (share_pct) is of the sum of durations of the stage's GPU ops, where what overlaps counts \
     twice; busy_share_pct is of the time in which at least one of them runs, wall_share_pct of the time from the first \
     start to the last end, each summed over devices. Csv and json have all three.";
/// Of the kernel table.
pub const REPLAYED_PLACES: &str = "`graph replay` gives the place that replays the graph, not the kernel's own.";
/// Of the kernel table.
pub const BORROWED_PLACES: &str = "`borrowed` places are those of the kernel's launches in the mapping trace, dealt out in \
     order; their site shares are estimates.";
/// Of the overlap table.
pub const OVERLAP_SHARES: &str = "Share (share_pct) is of the stage's busy time (the union of its ops, per device), \
     unpaused_share_pct of that and the gaps that its ops end, pauses left out.";
/// Of the overlap table.
pub const HIDDEN: &str = "An op is hidden while another stream of its device works; two kernels of one stream that run at the \
     same time hide nothing.";
/// Of the overlap table of one trace.
pub const ONE_TRACE: &str = "One trace alone: a kernel on the busiest stream is said to have headroom only where its \
     neighbours leave room; dependencies across streams are not in the trace.";
/// Of the fuse table.
pub const CHAINS: &str = "A chain of launches shows that work is done apart, not that the data allow to join it.";
/// Of the catalog.
pub const CATALOG_DATE: &str = "The catalog is of June 2026: what was in flight then may be merged now.";
/// Of the catalog.
pub const CATALOG_REACH: &str = "A family without names, functions or a fuse pattern of its own cannot be found.";
/// Of the summary.
pub const STAGE_WALL: &str = "The wall time of a stage is from the first start to the last end of its ops on each device: \
     work of other stages in between is in it.";
/// Of the summary.
pub const PAUSES: &str = "Wall time includes the pauses of the devices; busy and idle time leave them out.";
/// Of the steps.
pub const ATTENTION_WORK: &str = "Attention work is that of the two products in all layers, each as full attention (a \
     sliding window does less), computed from the sums in the annotations; its rate is over the whole time of the steps.";

const ALL: [&str; 12] = [
    KERNEL_SHARES,
    REPLAYED_PLACES,
    BORROWED_PLACES,
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

/// Does a limit hold for every trace that has such a table?
pub fn is_definition(limit: &str) -> bool {
    ALL.contains(&limit)
}
