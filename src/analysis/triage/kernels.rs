//! The kernel table: time, launches and call sites of every kernel name, per stage. One pass over the ops with hash
//! lookups; the rest is linear in the number of rows and their call sites.

use super::call_sites::{CallSite, Resolution};
use super::definitions::{BORROWED, GRAPH_REPLAY, KERNEL_SHARES};
use super::frames::FrameRules;
use super::kernel_names;
use super::view::View;
use crate::analysis::section::{Answer, CategoryName, KernelName, Pct, Place, TypedSection, section};
use crate::analysis::structure::shifted_durations::{WITHHELD, shifted_durations};
use crate::analysis::structure::stages::Stage;
use crate::trace::{NONE, NameId, Names, Ns, Trace};
use crate::words;
use foldhash::fast::RandomState;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

/// All ops of one canonical name in one stage.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelRow {
    /// The stage.
    pub stage: Stage,
    /// The canonical name.
    pub name: String,
    /// The category by gpuprism's own rules.
    pub category: String,
    /// The names in the trace that have this canonical name.
    pub ids: Vec<NameId>,
    /// Sum of durations.
    pub duration_ns: i64,
    /// Number of ops.
    pub launches: u64,
    /// The part of the busy time that its ops own: ops that run at the same time on a device share it evenly.
    pub elapsed_ns: i64,
    /// Share of the stage's sum of `elapsed_ns`, in percent. It is the share that all tables show.
    pub elapsed_share_pct: f64,
    /// The durations do not belong to the name, so that no share is shown.
    pub has_shifted_durations: bool,
    /// Share of the sum of durations of the stage, in percent. The original tool shows this one.
    pub share_pct: f64,
    /// Share of the stage's busy time (the union of its ops, per device). It can exceed 100 if streams overlap.
    pub busy_share_pct: f64,
    /// Share of the stage's wall time (first start to last end of its ops, per device).
    pub wall_share_pct: f64,
    /// The call sites of its ops, best source priority first.
    pub call_sites: Vec<RowCallSite>,
}

/// A source location that launches ops of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowCallSite {
    /// See [`CallSite::location`].
    pub location: String,
    /// See [`CallSite::display`].
    pub display: String,
    /// The most frequent stack there, outermost first.
    pub stack: Vec<String>,
    /// The most frequent CPU op there.
    pub cpu_op: String,
    /// How it was resolved, in most cases.
    pub resolution: Resolution,
    /// Number of ops.
    pub launches: u64,
    /// Sum of durations.
    pub duration_ns: i64,
    /// See [`KernelRow::elapsed_ns`].
    pub elapsed_ns: i64,
}

/// Computes all rows of all stages, sorted by stage, then by duration, longest first.
pub fn rows(view: &View) -> Vec<KernelRow> {
    let rules = FrameRules::embedded();
    let shifted = shifted_durations(&view.context);
    let mut rows: Vec<KernelRow> = row_sums(view).into_iter().map(|sum| sum.into_row(view, &rules)).collect();
    for row in &mut rows {
        row.has_shifted_durations = row.ids.iter().any(|id| shifted.affects(*id));
    }
    rows.sort_by_key(|row| (row.stage, Reverse(row.duration_ns)));
    rows
}

section! {
    /// Time, launches and call sites of each kernel, by stage.
    pub(crate) struct TriageKernels("triage_kernels", "Kernel table");
    row TriageKernelRow {
        stage: Stage,
        kernel_name: KernelName = "Kernel",
        category: CategoryName,
        duration_ns: Ns,
        elapsed_ns: Ns,
        elapsed_share_pct: Option<Pct> = "Of busy time",
        share_pct: Option<Pct>,
        launches: u64,
        python_location: Place,
        cpu_op: String,
        found: String = "Found in",
        busy_share_pct: Option<Pct> = "Sum of durations, of busy time",
        wall_share_pct: Option<Pct> = "Of wall time",
    }
    figures TriageKernelFigures { hidden_rows: usize, hidden_share_pct: Pct }
}

/// Builds the table. Rows below the minimum share or past the limit are hidden; the summary counts them.
/// `python_location` and `cpu_op` are lists with one item per line.
pub(crate) fn table(view: &View, rows: &[KernelRow]) -> Answer<TriageKernels> {
    let mut answer = TriageKernels::answer("GPU ops, CPU ops and Python frames");
    let rules = FrameRules::embedded();
    let total = view.times().total_elapsed();
    let (mut hidden, mut hidden_time) = (0_usize, Ns::ZERO);
    for stage in view.times().stages() {
        let stage_time = view.times().of_stage(stage).elapsed;
        let is_negligible = stage == Stage::All && Pct::of(stage_time, total).0 < NEGLIGIBLE_PCT && stage_time < total;
        let limit = if view.options.kernel_table_limit == 0 { usize::MAX } else { view.options.kernel_table_limit };
        for (index, row) in rows.iter().filter(|row| row.stage == stage).enumerate() {
            if is_negligible || index >= limit || row.elapsed_share_pct < view.options.min_share_pct {
                (hidden, hidden_time) = (hidden + 1, hidden_time + Ns(row.elapsed_ns));
            } else {
                answer.rows.push(table_row(row, &rules));
            }
        }
    }
    answer.rows_in_all = rows.len() as u64;
    answer.limits = limits(view, rows);
    if rows.iter().any(|row| row.has_shifted_durations) {
        answer.limits.push(WITHHELD.to_owned());
    }
    let hidden_share_pct = Pct::of(hidden_time, total);
    answer.with_figures(TriageKernelFigures { hidden_rows: hidden, hidden_share_pct })
}

/// Ops outside of all steps are hidden if they take less than this share of the time of a run with known stages.
const NEGLIGIBLE_PCT: f64 = 1.0;

/// Maximum number of source locations in a cell.
const SHOWN_LOCATIONS: usize = 2;

fn table_row(row: &KernelRow, rules: &FrameRules) -> TriageKernelRow {
    let share = |pct: f64| (!row.has_shifted_durations).then_some(Pct(pct));
    let sites = row.shown_call_sites(rules);
    let location = |(site, share): &(&RowCallSite, Option<f64>)| {
        let display = if site.display.is_empty() { Resolution::Unresolved.label() } else { &site.display };
        words::labels::site(display, *share)
    };
    let cpu_ops: Vec<String> = sites.iter().map(|(site, _)| site.cpu_op.clone()).filter(|op| !op.is_empty()).collect();
    let mut resolutions: Vec<&str> = Vec::new();
    for (site, _) in &sites {
        let label = site.resolution.label();
        if !resolutions.contains(&label) {
            resolutions.push(label);
        }
    }
    TriageKernelRow {
        stage: row.stage,
        kernel_name: row.name.as_str().into(),
        category: row.category.as_str().into(),
        duration_ns: Ns(row.duration_ns),
        elapsed_ns: Ns(row.elapsed_ns),
        elapsed_share_pct: share(row.elapsed_share_pct),
        share_pct: share(row.share_pct),
        launches: row.launches,
        python_location: sites.iter().map(location).collect::<Vec<_>>().join("\n").into(),
        cpu_op: cpu_ops.join("\n"),
        found: resolutions.join(", "),
        busy_share_pct: share(row.busy_share_pct),
        wall_share_pct: share(row.wall_share_pct),
    }
}

impl KernelRow {
    /// The share that all tables show, in percent of the stage's busy time; `None` if it is unknown which durations belong
    /// to the row.
    pub fn share_of_busy_time(&self) -> Option<f64> {
        (!self.has_shifted_durations).then_some(self.elapsed_share_pct)
    }

    /// The short name of the first of its names in the trace.
    pub(super) fn short_name<'a>(&self, view: &'a View) -> &'a str {
        self.ids.first().and_then(|id| view.name(*id)).map_or("", |name| &name.short)
    }

    /// A row of one launch without shares and call sites.
    #[cfg(test)]
    pub(super) fn for_test(stage: Stage, name: &str, category: &str, duration_ns: i64) -> Self {
        Self {
            stage,
            name: name.to_owned(),
            category: category.to_owned(),
            ids: vec![NameId(0)],
            duration_ns,
            launches: 1,
            elapsed_ns: duration_ns,
            elapsed_share_pct: 0.0,
            has_shifted_durations: false,
            share_pct: 0.0,
            busy_share_pct: 0.0,
            wall_share_pct: 0.0,
            call_sites: Vec::new(),
        }
    }

    /// The call sites to show, at most [`SHOWN_LOCATIONS`], each with its share of the row's duration in percent if there
    /// are several candidates. If some are inside the serving framework, the others are no candidates.
    fn shown_call_sites(&self, rules: &FrameRules) -> Vec<(&RowCallSite, Option<f64>)> {
        let is_framework = |site: &&RowCallSite| rules.is_framework(&site.display);
        let any_framework = self.call_sites.iter().any(|site| is_framework(&site));
        let candidates: Vec<&RowCallSite> =
            self.call_sites.iter().filter(|site| !any_framework || is_framework(site)).collect();
        let share =
            |site: &RowCallSite| (candidates.len() > 1).then(|| Pct::of(Ns(site.duration_ns), Ns(self.duration_ns)).0);
        candidates.iter().take(SHOWN_LOCATIONS).map(|site| (*site, share(site))).collect()
    }
}

fn limits(view: &View, rows: &[KernelRow]) -> Vec<String> {
    let has = |resolution| rows.iter().flat_map(|row| &row.call_sites).any(|site| site.resolution == resolution);
    let mut limits = vec![KERNEL_SHARES.to_owned()];
    if !view.has_mapping {
        limits.extend(missing_frames(view.trace).map(str::to_owned));
    }
    if has(Resolution::Replay) {
        limits.push(GRAPH_REPLAY.to_owned());
    }
    if has(Resolution::BorrowedExact) || has(Resolution::BorrowedRelaxed) {
        limits.push(BORROWED.to_owned());
    }
    limits
}

/// Says that Python frames are missing in the whole trace, or on the threads that launch most of the work.
fn missing_frames(trace: &Trace) -> Option<&'static str> {
    let Some(code) = trace.code.as_ref().filter(|code| !code.frames.is_empty()) else {
        return Some(
            "The trace has no Python frames, so source locations are unknown. Record it with with_stack=True.",
        );
    };
    let mut has_frames = vec![false; trace.threads.len()];
    for frame in code.frames.iter() {
        has_frames.get_mut(frame.thread.0 as usize).into_iter().for_each(|has| *has = true);
    }
    let launches = (0..trace.gpu_ops.len()).filter_map(|op| trace.calls.get(trace.gpu_ops.launch(op)?.0 as usize));
    let balance = launches.fold(0_i64, |balance, call| {
        balance + if has_frames.get(call.thread.0 as usize) == Some(&true) { 1 } else { -1 }
    });
    (balance < 0).then_some(
        "The threads that launch most of the work have no Python frames, so source locations are unknown. Start the \
         profiler in the thread that launches the work.",
    )
}

/// The ops of one canonical name in one stage, aggregated by call site.
struct RowSum {
    stage: Stage,
    name: String,
    category: String,
    ids: Vec<NameId>,
    /// In order of first appearance.
    call_sites: Vec<CallSiteSum>,
}

/// The ops of one row from one call site.
struct CallSiteSum {
    /// Index in [`super::call_sites::CallSites::distinct`], or [`NONE`].
    call_site: u32,
    launches: u64,
    duration_ns: i64,
    elapsed_ns: i64,
}

/// Aggregates the ops of the view, in one pass. The rows are in order of first appearance.
fn row_sums(view: &View) -> Vec<RowSum> {
    let mut sums: Vec<RowSum> = Vec::new();
    let mut canonical = Names::default();
    let canonical_ids: Vec<NameId> = view.names.iter().map(|name| canonical.intern(&name.canonical)).collect();
    let mut row_of_canonical: HashMap<(Stage, NameId), usize, RandomState> = HashMap::default();
    let mut row_of_name: HashMap<(Stage, NameId), usize, RandomState> = HashMap::default();
    let mut sum_of_call_site: HashMap<(usize, u32), usize, RandomState> = HashMap::default();
    for (index, stage, op) in view.ops() {
        let (Some(canonical_id), Some(name)) = (canonical_ids.get(op.name.0 as usize), view.name(op.name)) else {
            continue;
        };
        let row = *row_of_name.entry((stage, op.name)).or_insert_with(|| {
            let row = *row_of_canonical.entry((stage, *canonical_id)).or_insert(sums.len());
            if row == sums.len() {
                sums.push(RowSum::new(stage, name));
            }
            sums.get_mut(row).into_iter().for_each(|sum| sum.ids.push(op.name));
            row
        });
        let Some(sum) = sums.get_mut(row) else { continue };
        let call_site = view.call_sites.by_op.get(index).copied().unwrap_or(NONE);
        let slot = *sum_of_call_site.entry((row, call_site)).or_insert(sum.call_sites.len());
        if slot == sum.call_sites.len() {
            sum.call_sites.push(CallSiteSum { call_site, launches: 0, duration_ns: 0, elapsed_ns: 0 });
        }
        if let Some(sum) = sum.call_sites.get_mut(slot) {
            sum.launches += 1;
            sum.duration_ns = sum.duration_ns.saturating_add(op.duration.0);
            sum.elapsed_ns = sum.elapsed_ns.saturating_add(view.elapsed(index).0);
        }
    }
    sums
}

impl RowSum {
    fn new(stage: Stage, name: &kernel_names::KernelName) -> Self {
        let (name, category) = (name.canonical.clone(), name.category.clone());
        Self { stage, name, category, ids: Vec::new(), call_sites: Vec::new() }
    }

    fn into_row(self, view: &View, rules: &FrameRules) -> KernelRow {
        let stage_time = view.times().of_stage(self.stage);
        let duration_ns = self.call_sites.iter().fold(0_i64, |sum, site| sum.saturating_add(site.duration_ns));
        let elapsed_ns = self.call_sites.iter().fold(0_i64, |sum, site| sum.saturating_add(site.elapsed_ns));
        let share_of = |whole: Ns| Pct::of(Ns(duration_ns), whole).0;
        KernelRow {
            launches: self.call_sites.iter().map(|site| site.launches).sum(),
            duration_ns,
            elapsed_ns,
            elapsed_share_pct: Pct::of(Ns(elapsed_ns), stage_time.elapsed).0,
            has_shifted_durations: false,
            share_pct: share_of(stage_time.duration),
            busy_share_pct: share_of(stage_time.busy),
            wall_share_pct: share_of(stage_time.wall),
            call_sites: self.row_call_sites(view, rules),
            stage: self.stage,
            name: self.name,
            category: self.category,
            ids: self.ids,
        }
    }

    /// Merges the call sites that show the same source location and sorts the result, best source priority first. Sites
    /// of one `location` can show different ones: a `Linear` that both attention and MLP call runs `torch/linear.py`.
    fn row_call_sites(&self, view: &View, rules: &FrameRules) -> Vec<RowCallSite> {
        let mut locations: Vec<Vec<Weighted>> = Vec::new();
        let mut slots: HashMap<&str, usize, RandomState> = HashMap::default();
        let unresolved = CallSite::default();
        for &CallSiteSum { call_site, launches, duration_ns, elapsed_ns } in &self.call_sites {
            let call_site = view.call_sites.distinct.get(call_site as usize).unwrap_or(&unresolved);
            let slot = *slots.entry(&call_site.display).or_insert(locations.len());
            locations.resize(locations.len().max(slot + 1), Vec::new());
            let weighted = Weighted { call_site, launches, duration_ns, elapsed_ns };
            locations.get_mut(slot).into_iter().for_each(|location| location.push(weighted));
        }
        let mut call_sites: Vec<RowCallSite> = locations.iter().map(|location| merged(location)).collect();
        call_sites.sort_by_key(|site| Reverse((rules.source_priority(&site.display), site.duration_ns, site.launches)));
        call_sites
    }
}

/// A call site with the launches and nanoseconds that a row spends there.
#[derive(Debug, Clone, Copy)]
struct Weighted<'a> {
    call_site: &'a CallSite,
    launches: u64,
    duration_ns: i64,
    elapsed_ns: i64,
}

/// Merges call sites that show the same location. Stack (with the location that was found in it), CPU op and resolution
/// are the most frequent ones, each determined on its own.
fn merged(sites: &[Weighted]) -> RowCallSite {
    let found = most_frequent(sites, |site| (&site.location, &site.stack));
    let (location, stack) = found.map(|(location, stack)| (location.clone(), stack.clone())).unwrap_or_default();
    RowCallSite {
        location,
        display: sites.first().map(|site| site.call_site.display.clone()).unwrap_or_default(),
        stack,
        cpu_op: most_frequent(sites, |site| &site.cpu_op).cloned().unwrap_or_default(),
        resolution: most_frequent(sites, |site| site.resolution).unwrap_or(Resolution::Unresolved),
        launches: sites.iter().map(|site| site.launches).sum(),
        duration_ns: sites.iter().fold(0_i64, |sum, site| sum.saturating_add(site.duration_ns)),
        elapsed_ns: sites.iter().fold(0_i64, |sum, site| sum.saturating_add(site.elapsed_ns)),
    }
}

/// The value with the most launches, the first of equals.
fn most_frequent<'a, T: Copy + Eq + Hash>(sites: &[Weighted<'a>], value: impl Fn(&'a CallSite) -> T) -> Option<T> {
    let mut counts: HashMap<T, u64, RandomState> = HashMap::default();
    sites.iter().for_each(|site| *counts.entry(value(site.call_site)).or_default() += site.launches);
    // `max_by_key` returns the last maximum. The order of the sites, not of the map, keeps the result deterministic.
    let values = sites.iter().rev().map(|site| value(site.call_site));
    values.max_by_key(|value| counts.get(value).copied())
}

/// Looks up the index of a row by stage and name.
pub(super) struct RowIndex(HashMap<(Stage, NameId), usize, RandomState>);

impl RowIndex {
    /// Indexes rows by stage and every name that they stand for.
    pub(super) fn new(rows: &[KernelRow]) -> Self {
        let keys = |(index, row): (usize, &KernelRow)| {
            let stage = row.stage;
            row.ids.iter().map(|id| ((stage, *id), index)).collect::<Vec<_>>()
        };
        Self(rows.iter().enumerate().flat_map(keys).collect())
    }

    pub(super) fn row(&self, stage: Stage, name: NameId) -> Option<usize> {
        self.0.get(&(stage, name)).copied()
    }
}

#[cfg(test)]
mod tests;
