//! The typed results of analysing one trace. The Report is made of these; renderers only format them.
//!
//! All times are integer nanoseconds (`_ns`). Sums and shares are computed here and nowhere later.

pub use crate::analysis::section::Sections;
use crate::json::from_json;
pub use crate::trace::Format;
use serde::Serialize;

/// Which op owns the time at an instant when several GPU ops run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attribution {
    /// The op that started first owns the overlap, as gputrc2graph counts; equal starts in file order.
    #[default]
    FirstCome,
    /// Every running op owns an equal part.
    Fair,
    /// Only time in which no other op runs is owned at all.
    Exclusive,
}
from_json!(Attribution = "first_come" => FirstCome, "fair" => Fair, "exclusive" => Exclusive);

/// Everything gpuprism says about one trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// What the run is called in charts and tables: the file's base name unless the person gave another.
    pub label: String,
    /// The format the trace was read from.
    pub format: Format,
    /// The serving engine the trace seems to come from; a label, it picks nothing.
    pub engine: Option<String>,
    /// The rule set that gave the categories: `gpuprism/default`, `sglang/llama`, ...
    pub rules: String,
    /// What `elapsed_ns` means in this run.
    pub attribution: Attribution,
    /// True where all devices were analysed as one, as gputrc2graph does.
    pub devices_merged: bool,
    /// The part of the trace that was looked at, where it was not all of it.
    pub window: Option<Picked>,
    /// Sums over the whole run.
    pub totals: Totals,
    /// The wall time and the part of it in which no GPU op ran.
    pub wall: Wall,
    /// One entry a device, by id.
    pub devices: Vec<Device>,
    /// By elapsed time, largest first.
    pub categories: Vec<Category>,
    /// Every distinct op name, copies and sets included, by elapsed time, largest first.
    pub kernels: Vec<Kernel>,
    /// What the reader should know before believing the numbers, most severe first.
    pub notices: Vec<Notice>,
    /// What limits the run, by the name of the section.
    pub sections: Sections,
}
from_json!(Run {
    label, format, engine, rules, attribution, devices_merged, window, totals, wall, devices, categories,
    kernels, notices; sections
});

/// A window of a trace, in time from its first GPU op.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Picked {
    /// Where it begins.
    pub start_ns: i64,
    /// Where it ends.
    pub end_ns: i64,
    /// First start to last end of all GPU ops of the trace.
    pub whole_ns: i64,
}
from_json!(Picked { start_ns, end_ns, whole_ns });

/// Sums over a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    /// Kernels, memory copies and memory sets.
    pub gpu_ops: u64,
    /// Kernels alone.
    pub kernels: u64,
    /// Distinct op names.
    pub distinct_names: u64,
    /// Sum of the durations of all GPU ops.
    pub duration_ns: i64,
    /// Sum of the durations of kernels alone.
    pub kernel_duration_ns: i64,
    /// Sum over devices of the time with at least one op running.
    pub union_ns: i64,
    /// Time in which at least one op runs on any device.
    pub union_all_ns: i64,
    /// First start to last end, over all devices.
    pub window_ns: i64,
    /// Sum of `elapsed_ns` over all names: the union, except under [`Attribution::Exclusive`].
    pub elapsed_ns: i64,
}
from_json!(Totals {
    gpu_ops,
    kernels,
    distinct_names,
    duration_ns,
    kernel_duration_ns,
    union_ns,
    union_all_ns,
    window_ns,
    elapsed_ns
});

/// Wall time of a run, and the slice of it that is not GPU work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Wall {
    /// Wall time of one device.
    pub wall_ns: i64,
    /// Where `wall_ns` comes from.
    pub source: WallSource,
    /// Wall time times the number of device timelines in the bar: the length of the whole bar.
    pub bar_ns: i64,
    /// The part of the bar in which the device runs nothing: `CPU (non-GPU)`.
    pub cpu_ns: i64,
    /// `cpu_ns` over `bar_ns`.
    pub cpu_share: f64,
    /// The rest of the bar, in which at least one op runs, over `bar_ns`.
    pub busy_share: f64,
    /// Time in which GPU ops run but nobody owns it: only under [`Attribution::Exclusive`].
    pub shared_ns: i64,
    /// `shared_ns` over `bar_ns`.
    pub shared_share: f64,
}
from_json!(Wall { wall_ns, source, bar_ns, cpu_ns, cpu_share, busy_share, shared_ns, shared_share });

/// Where the wall time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WallSource {
    /// The trace's window: first start to last end.
    Window,
    /// The person gave it.
    Given,
    /// The person gave less than the GPU was busy; the busy time stands in for it.
    RaisedToBusy,
}
from_json!(WallSource = "window" => Window, "given" => Given, "raised_to_busy" => RaisedToBusy);

/// One device of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Device {
    /// As the trace numbers it, as text: `0`, or `[TP00] 0` in a file of merged ranks.
    pub id: String,
    /// The product name, where the trace tells.
    pub name: String,
    /// Kernels, copies and sets on this device.
    pub gpu_ops: u64,
    /// Sum of their durations.
    pub duration_ns: i64,
    /// Time with at least one of them running.
    pub union_ns: i64,
    /// First start to last end on this device.
    pub window_ns: i64,
    /// Wall time minus union.
    pub idle_ns: i64,
    /// Union over wall time.
    pub busy_share: f64,
}
from_json!(Device { id, name, gpu_ops, duration_ns, union_ns, window_ns, idle_ns, busy_share });

/// One category of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Category {
    /// Its name, as the rule set says.
    pub category: String,
    /// GPU ops in it.
    pub count: u64,
    /// Sum of their durations.
    pub duration_ns: i64,
    /// The part of the union they own under the run's attribution.
    pub elapsed_ns: i64,
    /// Time in which one of them is the only op running.
    pub exclusive_ns: i64,
    /// Their equal parts of the union.
    pub fair_ns: i64,
    /// `elapsed_ns` over the run's elapsed total.
    pub elapsed_share: f64,
    /// `elapsed_ns` over the run's whole bar, [`Wall::bar_ns`].
    pub bar_share: f64,
}
from_json!(Category { category, count, duration_ns, elapsed_ns, exclusive_ns, fair_ns, elapsed_share, bar_share });

/// One distinct GPU op name of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Kernel {
    /// As in the file.
    pub name: String,
    /// The form for tables: demangled, without template noise.
    pub short_name: String,
    /// What the rules say it is.
    pub category: String,
    /// How often it ran.
    pub count: u64,
    /// Sum of durations.
    pub duration_ns: i64,
    /// The part of the union it owns under the run's attribution.
    pub elapsed_ns: i64,
    /// Time in which it is the only op running.
    pub exclusive_ns: i64,
    /// Its equal parts of the union.
    pub fair_ns: i64,
    /// `elapsed_ns` over the run's elapsed total.
    pub elapsed_share: f64,
    /// Mean duration.
    pub mean_ns: f64,
    /// Shortest duration.
    pub min_ns: i64,
    /// Longest duration.
    pub max_ns: i64,
}
from_json!(Kernel {
    name,
    short_name,
    category,
    count,
    duration_ns,
    elapsed_ns,
    exclusive_ns,
    fair_ns,
    elapsed_share,
    mean_ns,
    min_ns,
    max_ns
});

/// How much a notice matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Some numbers are affected.
    Warning,
    /// The main numbers are missing or wrong.
    Error,
}
from_json!(Severity = "info" => Info, "warning" => Warning, "error" => Error);

/// Something the import or the analysis met that the reader should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// How much it matters.
    pub severity: Severity,
    /// Stable, for scripts: `no_gpu_events`, `truncated`, ...
    pub code: String,
    /// One sentence.
    pub message: String,
    /// How often it was met.
    pub count: u64,
    /// What to do.
    pub advice: String,
}
from_json!(Notice { severity, code, message, count, advice });
