//! The types of the results of one trace. A report contains one [`Run`] per trace.
//!
//! Times are integer nanoseconds (`_ns`), shares are fractions from 0 to 1 (`_share`). All sums and shares are
//! computed in `analysis`; renderers only format them. The doc comments of these types become `docs/json.md`.

use super::section::{Record, Section};
pub use crate::analysis::section::Sections;
use crate::json::from_json;
pub use crate::trace::{CategorySource, Format};
use serde::Serialize;

/// How time is shared out when several GPU ops run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attribution {
    /// The op that started first owns the overlap, as in gputrc2graph. Equal starts: the first in the file.
    FirstCome,
    /// All running ops own equal parts. The default.
    #[default]
    Fair,
    /// An op owns only the time in which no other op runs.
    Exclusive,
}
from_json!(Attribution = "first_come" => FirstCome, "fair" => Fair, "exclusive" => Exclusive);

/// The results of the analysis of one trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// The name of the run in charts and tables: the base name of the file unless the user gave another.
    pub label: String,
    /// The format of the trace file.
    pub format: Format,
    /// The serving engine detected from names in the trace. It is only displayed; it does not select rules.
    pub engine: Option<String>,
    /// The rule set that assigned the categories: `gpuprism/default`, `sglang/llama`, ...
    pub rules: String,
    /// The attribution of `elapsed_ns` in this run.
    pub attribution: Attribution,
    /// True if all devices were analyzed as one, as in gputrc2graph.
    pub devices_merged: bool,
    /// The analyzed window; null if the whole trace was analyzed.
    pub window: Option<Picked>,
    /// Sums over the whole run.
    pub totals: Totals,
    /// The wall time and the part of it without GPU work.
    pub wall: Wall,
    /// One entry per device, by id.
    pub devices: Vec<Device>,
    /// All categories, by `elapsed_ns`, largest first.
    pub categories: Vec<Category>,
    /// All distinct op names, including copies and sets, by `elapsed_ns`, largest first.
    pub kernels: Vec<Kernel>,
    /// What bounds the run, in at most two sentences. Missing in a triage and in reports of other tools.
    #[serde(skip_serializing_if = "Verdict::is_empty")]
    pub verdict: Verdict,
    /// Problems that affect the results, most severe first.
    pub notices: Vec<Notice>,
    /// The sections by name.
    pub sections: Sections,
}
from_json!(Run {
    label, format, engine, rules, attribution, devices_merged, window, totals, wall, devices, categories,
    kernels, notices; verdict, sections
});

impl Run {
    /// The run without its sections.
    pub(crate) fn without_sections(&self) -> Self {
        Self {
            label: self.label.clone(),
            format: self.format,
            engine: self.engine.clone(),
            rules: self.rules.clone(),
            attribution: self.attribution,
            devices_merged: self.devices_merged,
            window: self.window,
            totals: self.totals.clone(),
            wall: self.wall.clone(),
            devices: self.devices.clone(),
            categories: self.categories.clone(),
            kernels: self.kernels.clone(),
            verdict: self.verdict.clone(),
            notices: self.notices.clone(),
            sections: Sections::new(),
        }
    }

    /// Whether a GPU did anything in the run, or in its window.
    pub(crate) fn has_work(&self) -> bool {
        !self.devices.is_empty() || !self.kernels.is_empty()
    }

    /// The section of this name, unless the trace lacks its data.
    pub(crate) fn filled(&self, section: &str) -> Option<&Section> {
        self.sections.get(section).filter(|section| section.missing.is_none())
    }

    /// The rows of the section of this name; none if the trace lacks its data.
    pub(crate) fn rows(&self, section: &str) -> &[Record] {
        self.filled(section).map_or(&[], |section| &section.rows)
    }
}

/// The verdict on a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Verdict {
    /// The sentences.
    pub text: String,
    /// The parts of the text, in order.
    pub clauses: Vec<VerdictClause>,
}
from_json!(Verdict { text, clauses });

impl Verdict {
    fn is_empty(&self) -> bool {
        self.clauses.is_empty()
    }
}

/// A part of the verdict.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct VerdictClause {
    /// The words.
    pub text: String,
    /// The section or built-in table with the numbers; null for connecting words.
    pub section: Option<String>,
    /// The number of the row in it, from 0; null if the words refer to the whole section.
    pub row: Option<u64>,
}
from_json!(VerdictClause { text, section, row });

/// A window of a trace, relative to the start of the first GPU op.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Picked {
    /// The start of the window.
    pub start_ns: i64,
    /// The end of the window.
    pub end_ns: i64,
    /// The length of the whole trace: first start to last end of all its GPU ops.
    pub whole_ns: i64,
}
from_json!(Picked { start_ns, end_ns, whole_ns });

/// Sums over a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    /// Kernels, memory copies and memory sets.
    pub gpu_ops: u64,
    /// Kernels, without copies and sets.
    pub kernels: u64,
    /// Distinct op names.
    pub distinct_names: u64,
    /// Sum of the durations of all GPU ops; overlapping time counts more than once.
    pub duration_ns: i64,
    /// Sum of the durations of the kernels.
    pub kernel_duration_ns: i64,
    /// Sum over devices of the time in which at least one op runs on the device, or a CUDA graph that was traced as a whole.
    pub union_ns: i64,
    /// Time in which at least one op or graph runs on any device.
    pub union_all_ns: i64,
    /// First start to last end of all GPU ops and graphs, or the length of the chosen window.
    pub window_ns: i64,
    /// Sum of `elapsed_ns` over all categories. Equals `union_ns` (merged devices: `union_all_ns`), except under
    /// [`Attribution::Exclusive`].
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

/// The wall time of a run, split into GPU work and the rest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Wall {
    /// Wall time of one device, without time in which all devices execute work that the trace does not contain.
    pub wall_ns: i64,
    /// The source of `wall_ns`.
    pub source: WallSource,
    /// The length of the whole bar: `wall_ns` times the number of device timelines in it, without time in which a device
    /// executes work that the trace does not contain.
    pub bar_ns: i64,
    /// The part of the bar without GPU work, shown as `GPU idle`; the category `CPU (non-GPU)` of tables.
    pub cpu_ns: i64,
    /// `cpu_ns` divided by `bar_ns`.
    pub cpu_share: f64,
    /// The part of the bar with at least one op or graph running, divided by `bar_ns`.
    pub busy_share: f64,
    /// Time with GPU work that no op owns: only under [`Attribution::Exclusive`].
    pub shared_ns: i64,
    /// `shared_ns` divided by `bar_ns`.
    pub shared_share: f64,
}
from_json!(Wall { wall_ns, source, bar_ns, cpu_ns, cpu_share, busy_share, shared_ns, shared_share });

/// The source of the wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WallSource {
    /// The trace: first start to last end of its GPU ops, or the length of the chosen window.
    Window,
    /// The user.
    Given,
    /// The busy time of the GPU, because the wall time that the user gave was shorter.
    RaisedToBusy,
}
from_json!(WallSource = "window" => Window, "given" => Given, "raised_to_busy" => RaisedToBusy);

/// One device of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Device {
    /// The number of the device in the trace: `0`, or `[TP00] 0` or `[1000] 0` in a file of merged ranks.
    pub id: String,
    /// The product name; empty if it was not recorded.
    pub name: String,
    /// Kernels, memory copies and memory sets on this device.
    pub gpu_ops: u64,
    /// Sum of the durations of the ops on this device.
    pub duration_ns: i64,
    /// Time in which at least one op or graph runs on this device.
    pub union_ns: i64,
    /// First start to last end of the ops and graphs on this device.
    pub window_ns: i64,
    /// Wall time minus `union_ns`.
    pub idle_ns: i64,
    /// `union_ns` divided by the wall time.
    pub busy_share: f64,
}
from_json!(Device { id, name, gpu_ops, duration_ns, union_ns, window_ns, idle_ns, busy_share });

/// One category of kernels in a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Category {
    /// The name of the category in the rule set.
    pub category: String,
    /// The number of GPU ops in this category; of `CUDA graph`, the runs of graphs that were traced as a whole.
    pub count: u64,
    /// Sum of the durations of its ops.
    pub duration_ns: i64,
    /// The time that its ops own under the attribution of the run.
    pub elapsed_ns: i64,
    /// Time in which one of its ops is the only op that runs.
    pub exclusive_ns: i64,
    /// The time that its ops own if all running ops own equal parts.
    pub fair_ns: i64,
    /// `elapsed_ns` divided by the `elapsed_ns` of the run's totals; null if it contains a kernel without a share.
    pub elapsed_share: Option<f64>,
    /// `elapsed_ns` divided by [`Wall::bar_ns`]; null if it contains a kernel without a share.
    pub bar_share: Option<f64>,
}
from_json!(Category { category, count, duration_ns, elapsed_ns, exclusive_ns, fair_ns, elapsed_share, bar_share });

/// All GPU ops of one name in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Kernel {
    /// The name as in the file.
    pub name: String,
    /// The name for tables: demangled and abbreviated. It is unique among the kernels of the run.
    pub short_name: String,
    /// The category that the rules or the trace assign.
    pub category: String,
    /// How the category was found.
    pub category_source: CategorySource,
    /// The number of ops.
    pub count: u64,
    /// Sum of their durations.
    pub duration_ns: i64,
    /// The time that they own under the attribution of the run.
    pub elapsed_ns: i64,
    /// Time in which one of them is the only op that runs.
    pub exclusive_ns: i64,
    /// The time that they own if all running ops own equal parts.
    pub fair_ns: i64,
    /// `elapsed_ns` divided by the `elapsed_ns` of the run's totals; null if some of the durations may belong to other
    /// kernels (`durations-shifted` in `trust`).
    pub elapsed_share: Option<f64>,
    /// Mean duration.
    pub mean_ns: f64,
    /// Shortest duration; null in a report of another tool that does not say it.
    pub min_ns: Option<i64>,
    /// Longest duration; null like `min_ns`.
    pub max_ns: Option<i64>,
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
    max_ns;
    category_source
});

/// How severe a notice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The results are not affected.
    Info,
    /// Some results are affected.
    Warning,
    /// The main results are missing or wrong.
    Error,
}
from_json!(Severity = "info" => Info, "warning" => Warning, "error" => Error);

/// The code of the notice of a file that has totals of kernels and no times of them.
pub(crate) const TOTALS_ONLY: &str = "totals_only";

/// A problem or remark from the import or the analysis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// How severe it is.
    pub severity: Severity,
    /// An identifier for scripts, which does not change: `no_gpu_events`, `truncated`, ...
    pub code: String,
    /// The problem in one sentence.
    pub message: String,
    /// The number of occurrences.
    pub count: u64,
    /// The remedy.
    pub advice: String,
}
from_json!(Notice { severity, code, message, count, advice });

impl Notice {
    /// A notice of one occurrence.
    pub(crate) fn new(severity: Severity, code: &str, message: impl Into<String>, advice: &str) -> Self {
        Self { severity, code: code.to_owned(), message: message.into(), count: 1, advice: advice.to_owned() }
    }
}
