//! The kernel table: time, launches and code of every kernel name, per stage.

use super::call_sites::{CallSite, Resolution};
use super::definitions::{BORROWED_PLACES, KERNEL_SHARES, REPLAYED_PLACES};
use super::frames::FrameRules;
use super::times::percent;
use super::view::{KernelName, View};
use crate::analysis::section::{Section, Value};
use crate::analysis::structure::stages::Stage;
use crate::ordering::StableSort;
use crate::trace::{NONE, NameId, Names, Ns};
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
    /// By gpuprism's own rules.
    pub category: String,
    /// The names in the trace that it stands for.
    pub ids: Vec<NameId>,
    /// Sum of durations.
    pub duration_ns: i64,
    /// How many ops.
    pub launches: u64,
    /// Of the sum of durations of the stage, a part of a hundred.
    pub share_pct: f64,
    /// Of the stage's busy time (the union over its ops, per device); can pass 100 on several streams.
    pub busy_share_pct: f64,
    /// Of the stage's wall time (first start to last end of its ops, per device).
    pub wall_share_pct: f64,
    /// Where its ops come from, the most telling first.
    pub call_sites: Vec<RowCallSite>,
}

/// A place in the code that launches ops of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowCallSite {
    /// As in [`super::call_sites::CallSite::location`].
    pub location: String,
    /// The place to show.
    pub display: String,
    /// The most frequent stack there, outermost first.
    pub stack: Vec<String>,
    /// The most frequent CPU op there.
    pub cpu_op: String,
    /// How it was found.
    pub resolution: Resolution,
    /// How many ops.
    pub launches: u64,
    /// Sum of durations.
    pub duration_ns: i64,
}

/// All rows of all stages, in the order of stages, then by duration, largest first; nothing is cut.
pub fn rows(view: &View) -> Vec<KernelRow> {
    let rules = FrameRules::embedded();
    let sums = Sums::new(view);
    let mut rows: Vec<KernelRow> = sums.rows.into_iter().map(|sum| sum.row(view, &rules)).collect();
    rows.order_by_key(|row| (row.stage, Reverse(row.duration_ns)));
    rows
}

/// The columns of the kernel table.
pub const COLUMNS: [&str; 11] = [
    "stage",
    "kernel_name",
    "category",
    "duration_ns",
    "share_pct",
    "launches",
    "python_location",
    "cpu_op",
    "found",
    "busy_share_pct",
    "wall_share_pct",
];

/// The table: rows under the bar are counted in the summary, not shown. `python_location` and `cpu_op` are lists, an item
/// a line.
pub fn section(view: &View, rows: &[KernelRow]) -> Section {
    let mut section = Section::new("Kernel table", "GPU ops, CPU ops and Python frames", &COLUMNS);
    let rules = FrameRules::embedded();
    let all = view.times().total_duration();
    let (mut hidden, mut hidden_time) = (0_usize, Ns::ZERO);
    for stage in view.times().stages() {
        let stray = view.times().of_stage(stage).duration;
        let is_skipped = stage == Stage::All && percent(stray, all) < STRAY_PCT && stray < all;
        let limit = if view.options.kernel_table_limit == 0 { usize::MAX } else { view.options.kernel_table_limit };
        for (at, row) in rows.iter().filter(|row| row.stage == stage).enumerate() {
            if is_skipped || at >= limit || row.share_pct < view.options.min_share_pct {
                (hidden, hidden_time) = (hidden + 1, hidden_time + Ns(row.duration_ns));
            } else {
                section.row(cells(row, &rules));
            }
        }
    }
    section.rows_in_all = rows.len() as u64;
    section.figure("hidden_rows", hidden);
    section.figure("hidden_share_pct", percent(hidden_time, all));
    for limit in limits(view, rows) {
        section.limits.push(limit);
    }
    section
}

/// Ops outside of every step are not shown where they are a smaller part of a run of known stages, in per cent.
const STRAY_PCT: f64 = 1.0;

/// So many places of a row are shown.
const SITES_SHOWN: usize = 2;

fn cells(row: &KernelRow, rules: &FrameRules) -> [Value; COLUMNS.len()] {
    let sites = row.shown_sites(rules);
    let location = |(site, share): &(&RowCallSite, Option<f64>)| {
        let display = if site.display.is_empty() { Resolution::Unresolved.label() } else { &site.display };
        share.map_or(display.to_owned(), |share| format!("{display} (site share {share:.0}%)"))
    };
    let lines = |lines: Vec<String>| lines.join("\n");
    let ops = sites.iter().map(|(site, _)| site.cpu_op.clone()).filter(|op| !op.is_empty());
    let mut found: Vec<&str> = Vec::new();
    for (site, _) in &sites {
        let label = site.resolution.label();
        if !found.contains(&label) {
            found.push(label);
        }
    }
    [
        row.stage.label().into(),
        row.name.as_str().into(),
        row.category.as_str().into(),
        row.duration_ns.into(),
        row.share_pct.into(),
        row.launches.into(),
        lines(sites.iter().map(location).collect()).into(),
        lines(ops.collect()).into(),
        found.join(", ").into(),
        row.busy_share_pct.into(),
        row.wall_share_pct.into(),
    ]
}

impl KernelRow {
    /// The first places to show; where there are several to choose from, with their part of the row's duration, in per
    /// cent. Places outside of the serving framework are not shown beside one within.
    fn shown_sites(&self, rules: &FrameRules) -> Vec<(&RowCallSite, Option<f64>)> {
        let preferred = |site: &&RowCallSite| rules.is_framework(&site.display);
        let any_preferred = self.call_sites.iter().any(|site| preferred(&site));
        let candidates: Vec<&RowCallSite> =
            self.call_sites.iter().filter(|site| !any_preferred || preferred(site)).collect();
        let share =
            |site: &RowCallSite| (candidates.len() > 1).then(|| percent(Ns(site.duration_ns), Ns(self.duration_ns)));
        candidates.iter().take(SITES_SHOWN).map(|site| (*site, share(site))).collect()
    }
}

fn limits(view: &View, rows: &[KernelRow]) -> Vec<String> {
    let found = |found: Resolution| rows.iter().flat_map(|row| &row.call_sites).any(|site| site.resolution == found);
    let mut limits = vec![KERNEL_SHARES.to_owned()];
    if view.trace.code.as_ref().is_none_or(|code| code.frames.is_empty()) && !view.has_mapping {
        limits.push("The trace holds no Python frames (with_stack), so no place in the code is known.".to_owned());
    }
    if found(Resolution::Replay) {
        limits.push(REPLAYED_PLACES.to_owned());
    }
    if found(Resolution::BorrowedExact) || found(Resolution::BorrowedRelaxed) {
        limits.push(BORROWED_PLACES.to_owned());
    }
    limits
}

/// Ops summed up by stage and name, and below that by site.
struct Sums {
    rows: Vec<RowSum>,
}

struct RowSum {
    stage: Stage,
    name: String,
    category: String,
    ids: Vec<NameId>,
    /// By place in the view's sites, in the order of their first ops.
    sites: Vec<(u32, u64, i64)>,
}

impl Sums {
    fn new(view: &View) -> Self {
        let mut sums = Self { rows: Vec::new() };
        let mut canonical = Names::default();
        let names: Vec<NameId> = view.names.iter().map(|name| canonical.intern(&name.canonical)).collect();
        let mut rows_of_canonical: HashMap<(Stage, NameId), usize, RandomState> = HashMap::default();
        let mut rows: HashMap<(Stage, NameId), usize, RandomState> = HashMap::default();
        let mut sites: HashMap<(usize, u32), usize, RandomState> = HashMap::default();
        for (at, stage, op) in view.ops() {
            let (Some(name), Some(known)) = (names.get(op.name.0 as usize), view.name(op.name)) else { continue };
            let row = *rows.entry((stage, op.name)).or_insert_with(|| {
                let row = *rows_of_canonical.entry((stage, *name)).or_insert_with(|| sums.add(stage, known));
                sums.rows.get_mut(row).into_iter().for_each(|sum| sum.ids.push(op.name));
                row
            });
            let Some(sum) = sums.rows.get_mut(row) else { continue };
            let site = view.call_sites.by_op.get(at).copied().unwrap_or(NONE);
            let place = *sites.entry((row, site)).or_insert(sum.sites.len());
            if place == sum.sites.len() {
                sum.sites.push((site, 0, 0));
            }
            if let Some((_, launches, duration_ns)) = sum.sites.get_mut(place) {
                *launches += 1;
                *duration_ns = duration_ns.saturating_add(op.duration.0);
            }
        }
        sums
    }

    fn add(&mut self, stage: Stage, name: &KernelName) -> usize {
        let (name, category) = (name.canonical.clone(), name.category.clone());
        self.rows.push(RowSum { stage, name, category, ids: Vec::new(), sites: Vec::new() });
        self.rows.len() - 1
    }
}

impl RowSum {
    fn row(self, view: &View, rules: &FrameRules) -> KernelRow {
        let of_stage = view.times().of_stage(self.stage);
        let duration_ns = self.sites.iter().fold(0_i64, |sum, site| sum.saturating_add(site.2));
        let part_of = |whole: Ns| percent(Ns(duration_ns), whole);
        KernelRow {
            launches: self.sites.iter().map(|site| site.1).sum(),
            duration_ns,
            share_pct: part_of(of_stage.duration),
            busy_share_pct: part_of(of_stage.busy),
            wall_share_pct: part_of(of_stage.wall),
            call_sites: self.row_sites(view, rules),
            stage: self.stage,
            name: self.name,
            category: self.category,
            ids: self.ids,
        }
    }

    /// CallSites of one location as one, the most telling first.
    fn row_sites(&self, view: &View, rules: &FrameRules) -> Vec<RowCallSite> {
        let mut locations: Vec<Vec<Share>> = Vec::new();
        let mut places: HashMap<&str, usize, RandomState> = HashMap::default();
        let unknown = CallSite::unresolved();
        for &(site, launches, duration_ns) in &self.sites {
            let site = view.call_sites.distinct.get(site as usize).unwrap_or(&unknown);
            let place = *places.entry(&site.location).or_insert(locations.len());
            locations.resize(locations.len().max(place + 1), Vec::new());
            locations.get_mut(place).into_iter().for_each(|sites| sites.push((site, launches, duration_ns)));
        }
        let mut sites: Vec<RowCallSite> = locations.iter().map(|sites| row_site(sites)).collect();
        sites.order_by_key(|site| Reverse((rules.source_priority(&site.display), site.duration_ns, site.launches)));
        sites
    }
}

/// A site with the launches and nanoseconds of a row that come from there.
type Share<'a> = (&'a CallSite, u64, i64);

/// What the sites of one location have in common: their most frequent stack, CPU op and way of being found, each counted
/// for itself.
fn row_site(sites: &[Share]) -> RowCallSite {
    let stack = most(sites, |site| (&site.stack, &site.display));
    let (stack, display) = stack.map(|(stack, display)| (stack.clone(), display.clone())).unwrap_or_default();
    RowCallSite {
        location: sites.first().map(|(site, ..)| site.location.clone()).unwrap_or_default(),
        display,
        stack,
        cpu_op: most(sites, |site| &site.cpu_op).cloned().unwrap_or_default(),
        resolution: most(sites, |site| site.resolution).unwrap_or(Resolution::Unresolved),
        launches: sites.iter().map(|(_, launches, _)| launches).sum(),
        duration_ns: sites.iter().fold(0_i64, |sum, site| sum.saturating_add(site.2)),
    }
}

/// The value with the most launches, of equals the first.
fn most<'a, T: Copy + Eq + Hash>(sites: &[Share<'a>], value: impl Fn(&'a CallSite) -> T) -> Option<T> {
    let mut counts: HashMap<T, u64, RandomState> = HashMap::default();
    sites.iter().for_each(|(site, launches, _)| *counts.entry(value(site)).or_default() += launches);
    // The first that reaches the highest count, in the order of sites, not of the map.
    let counted = sites.iter().rev().map(|(site, ..)| value(site));
    counted.max_by_key(|value| counts.get(value).copied())
}

/// Where the row of a name in a stage stands among all rows.
pub(super) struct RowIndex(HashMap<(Stage, NameId), usize, RandomState>);

impl RowIndex {
    /// By stage and by every name that a row stands for.
    pub(super) fn new(rows: &[KernelRow]) -> Self {
        let of_row = |(at, row): (usize, &KernelRow)| {
            let stage = row.stage;
            row.ids.iter().map(|id| ((stage, *id), at)).collect::<Vec<_>>()
        };
        Self(rows.iter().enumerate().flat_map(of_row).collect())
    }

    /// The place of the row.
    pub(super) fn row(&self, stage: Stage, name: NameId) -> Option<usize> {
        self.0.get(&(stage, name)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::triage::{Options, Request, ServerArgs};
    use crate::trace::{Format, GpuOp, OpKind, ProcessId, Trace, TraceBuilder};

    /// Kernels by name, device, start and end.
    fn trace(kernels: &[(&str, &str, i64, i64)]) -> Trace {
        let mut builder = TraceBuilder::new("small", Format::TorchProfiler);
        for &(name, device, start, end) in kernels {
            let (name, device) = (builder.trace.names.intern(name), builder.device(device, ""));
            let (start, duration) = (Ns(start), Ns(end - start));
            let op = GpuOp { start, duration, name, device, stream: 7, process: ProcessId(0), kind: OpKind::Kernel };
            builder.trace.gpu_ops.push(op, None);
        }
        builder.finish()
    }

    fn view<'a>(trace: &'a Trace, server: &'a ServerArgs, options: &'a Options) -> View<'a> {
        let (path, file_stage) = ("", Stage::Decode);
        View::new(&Request { trace, path, file_stage, mapping: &[], server, framework: None, options })
    }

    fn site(location: &str, resolution: Resolution, duration_ns: i64) -> RowCallSite {
        let (location, cpu_op) = (location.to_owned(), format!("op of {location}"));
        RowCallSite {
            display: location.clone(),
            location,
            stack: Vec::new(),
            cpu_op,
            resolution,
            launches: 1,
            duration_ns,
        }
    }

    fn row(call_sites: Vec<RowCallSite>) -> KernelRow {
        let (name, category, duration_ns) = ("k".to_owned(), "gemm".to_owned(), 100);
        let (stage, ids, launches, share_pct) = (Stage::Decode, Vec::new(), 2, 50.0);
        let (busy_share_pct, wall_share_pct) = (50.0, 50.0);
        KernelRow {
            stage,
            name,
            category,
            ids,
            duration_ns,
            launches,
            share_pct,
            busy_share_pct,
            wall_share_pct,
            call_sites,
        }
    }

    #[test]
    fn rows_of_all_devices_and_names_are_summed_and_shares_have_the_denominators_they_say() {
        // Sum 300, busy 100 + 100 (b runs beside a), wall 200 + 100.
        let trace = trace(&[
            ("void a(int)", "0", 0, 50),
            ("b", "0", 0, 50),
            ("void a(long)", "1", 0, 100),
            ("b", "0", 150, 200),
            ("b", "1", 50, 100),
        ]);
        let (server, options) = (ServerArgs::default(), Options::default());
        let rows = rows(&view(&trace, &server, &options));
        let told: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.duration_ns, row.launches)).collect();
        assert_eq!(told, [("void a", 150, 2), ("b", 150, 3)], "equal ones in the order of their first ops");
        let shares = |row: &KernelRow| [row.share_pct, row.busy_share_pct, row.wall_share_pct];
        assert_eq!(shares(&rows[0]), [50.0, 75.0, 50.0]);
        assert_eq!(rows[0].ids.len(), 2);
        assert_eq!(rows[0].call_sites.len(), 1, "no place is one place");
    }

    #[test]
    fn rows_that_are_not_shown_are_counted() {
        let trace = trace(&[("large", "0", 0, 900), ("middle", "0", 900, 990), ("small", "0", 990, 1_000)]);
        let server = ServerArgs::default();
        for (min_share_pct, kernel_table_limit, shown, hidden_pct) in
            [(0.0, 0, 3, 0.0), (1.0, 0, 3, 0.0), (1.5, 0, 2, 1.0), (0.0, 1, 1, 10.0), (99.0, 2, 0, 100.0)]
        {
            let options = Options { min_share_pct, kernel_table_limit, ..Options::default() };
            let view = view(&trace, &server, &options);
            let section = section(&view, &rows(&view));
            let figure = |name: &str| section.summary.get(name).unwrap().number().unwrap();
            assert_eq!((section.rows.len(), section.rows_in_all), (shown, 3));
            assert_eq!((figure("hidden_rows"), figure("hidden_share_pct")), ((3 - shown) as f64, hidden_pct));
        }
    }

    #[test]
    fn a_cell_shows_the_two_best_places_and_how_each_was_found() {
        let rules = FrameRules::embedded();
        let text = |row: &KernelRow, column: usize| cells(row, &rules)[column].text().unwrap().to_owned();
        let [vllm, script] = ["vllm/a.py:1 f", "script.py:2 g"];
        let plain = row(vec![site(script, Resolution::Exact, 60), site("", Resolution::Unresolved, 40)]);
        assert_eq!(text(&plain, 6), "script.py:2 g (site share 60%)\nunresolved (site share 40%)");
        assert_eq!(text(&plain, 8), "exact, unresolved");
        let framework = row(vec![site(vllm, Resolution::ByLaunch, 40), site(script, Resolution::Exact, 60)]);
        assert_eq!(text(&framework, 6), vllm, "the framework's own place stands alone");
        assert_eq!(text(&framework, 7), "op of vllm/a.py:1 f");
        assert_eq!(text(&framework, 8), "by launch");
    }

    #[test]
    fn sites_of_one_location_are_one_with_their_most_frequent_stack_and_op() {
        let site = |display: &str, cpu_op: &str, resolution| CallSite {
            location: "torch/linear.py:1 forward".to_owned(),
            display: display.to_owned(),
            stack: vec![display.to_owned()],
            cpu_op: cpu_op.to_owned(),
            resolution,
        };
        let [a, b, c] = [
            site("m.py:1 attention", "aten::addmm", Resolution::Exact),
            site("m.py:2 mlp", "aten::mm", Resolution::Exact),
            site("m.py:2 mlp", "aten::addmm", Resolution::ByLaunch),
        ];
        let one = row_site(&[(&a, 4, 40), (&b, 3, 30), (&c, 3, 30)]);
        assert_eq!(
            (one.display.as_str(), one.cpu_op.as_str(), one.resolution),
            ("m.py:2 mlp", "aten::addmm", Resolution::Exact)
        );
        assert_eq!((one.launches, one.duration_ns), (10, 100));
    }
}
