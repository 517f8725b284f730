//! Analyzes one trace: totals, bars and kernels from one sweep over the ops, then the explaining sections.

use super::categories::Categories;
use super::context::{Context, Reused};
use super::engine::engine;
use super::index::WindowSegments;
use super::results::{Attribution, Category, Device, Kernel, Picked, Run, Totals, Verdict, Wall, WallSource};
use super::summary::{OpTotals, Summary};
use super::time::attribution::{OwnedTime, share_out_merged, unions};
use super::time::busy::{busy_on_any_device, graphs_alone, length};
use super::verdict::verdict;
use super::{GRAPHS, key_figures, notices};
use crate::analysis::inference::served_model::ServedModel;
use crate::analysis::kernels::groups::{Group, Groups};
use crate::analysis::replay::asked::Asked;
use crate::analysis::section::Sections;
use crate::analysis::sections;
use crate::ordering;
use crate::ordering::VecMap;
use crate::rules::signals::Signals;
use crate::rules::{PhaseMap, RuleSet, names};
use crate::trace::{Cut, DeviceId, NameId, Ns, OpKind, Trace};
use std::borrow::Cow;

/// The user's choices for a run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The rule that defines `elapsed_ns`.
    pub attribution: Attribution,
    /// Treat all devices as one timeline, as gputrc2graph does.
    pub merge_devices: bool,
    /// The wall time of the same work without a profiler, if the user measured it.
    pub wall: Option<Ns>,
    /// The number of rows in the table of top kernels; 30 if not given.
    pub kernel_limit: Option<usize>,
    /// Leave out the explaining sections.
    pub without_sections: bool,
    /// The user's phase map.
    pub phase_map: Option<PhaseMap>,
    /// What the user says about the model that the traced server runs.
    pub model: ServedModel,
    /// The changes that are replayed together.
    pub asked: Vec<Asked>,
}

/// Analyzes one trace completely.
pub fn analyze(trace: &Trace, rules: &RuleSet, options: &Options) -> Run {
    let (mut run, groups) = first_results(trace, rules, options, None);
    add_sections(&mut run, trace, options, Reused { groups: Some(&groups), ..Reused::default() });
    run
}

/// Returns a run without explaining sections, and the sums by group, which the sections reuse. If the trace
/// is a window, `segments` are its indexed segments, which are merged instead of reading their ops again.
pub fn first_results(
    trace: &Trace,
    rules: &RuleSet,
    options: &Options,
    segments: Option<&WindowSegments<Summary>>,
) -> (Run, Groups) {
    let totals = match segments {
        Some(segments) => segments.merged(&|summary| &summary.totals, &mut |rows| OpTotals::of(trace, rows)),
        None => OpTotals::of_all(trace),
    };
    let owned = if options.merge_devices { share_out_merged(trace) } else { totals.shares.owned(trace) };
    let unseen_ns: Vec<i64> = totals.long_gaps.unseen(trace).iter().map(|time| time.0).collect();
    let all_groups = totals.groups;
    let groups = all_groups.as_slice();
    let mut kernels = kernels(trace, rules, options, &owned, &totals_by_name(trace, groups));
    let window_ns = match &trace.cut {
        Some(cut) => cut.window.length().0,
        None => trace.span().map_or(0, |span| span.length().0),
    };
    let kernel_groups = || groups.iter().filter(|group| group.kind == OpKind::Kernel);
    let busy = BusyTime::of(trace, &owned, options.merge_devices);
    let categories = categories(&kernels, busy.graphs(trace));
    let totals = Totals {
        gpu_ops: trace.gpu_ops.len() as u64,
        kernels: kernel_groups().map(|group| group.count).sum(),
        distinct_names: kernels.len() as u64,
        duration_ns: sum(kernels.iter().map(|kernel| kernel.duration_ns)),
        kernel_duration_ns: sum(kernel_groups().map(|group| group.total.0)),
        union_ns: sum(busy.devices_ns.iter().copied()),
        union_all_ns: if let [one] = busy.devices_ns.as_slice() { *one } else { busy_on_any_device(trace).0 },
        window_ns,
        elapsed_ns: sum(categories.iter().map(|category| category.elapsed_ns)),
    };
    for kernel in &mut kernels {
        kernel.elapsed_share = Some(share(kernel.elapsed_ns, totals.elapsed_ns));
    }
    ordering::sort_by(&mut kernels, |a, b| b.elapsed_ns.cmp(&a.elapsed_ns).then_with(|| a.name.cmp(&b.name)));
    let wall = wall(options, window_ns, &unseen_ns, &busy.timelines_ns, totals.elapsed_ns);
    let mut run = Run {
        label: trace.label.clone(),
        format: trace.format,
        engine: engine(trace),
        rules: rules.label().to_owned(),
        attribution: options.attribution,
        devices_merged: options.merge_devices,
        window: trace.cut.map(picked),
        devices: devices(trace, groups, &busy.devices_ns, &device_walls(&wall, window_ns, &unseen_ns)),
        categories: with_shares(categories, totals.elapsed_ns, wall.bar_ns),
        notices: notices::notices(trace, &all_groups, &wall, options.wall),
        sections: Sections::new(),
        verdict: Verdict::default(),
        kernels,
        totals,
        wall,
    };
    run.verdict = verdict(&run, &Signals::embedded().verdict);
    (run, all_groups)
}

/// Adds the key figures to a run of this trace, and the explaining sections unless `options` or the build leaves them out.
pub fn add_sections(run: &mut Run, trace: &Trace, options: &Options, reused: Reused) {
    if sections::ARE_COMPILED && !options.without_sections {
        let context = context_of(trace, options, reused);
        run.sections = sections::explain(&context);
        withhold_shares(run, &context);
    }
    key_figures::key_figures(run).put(&mut run.sections);
    run.verdict = verdict(run, &Signals::embedded().verdict);
}

/// What the sections of a trace share with these options.
pub(crate) fn context_of<'a>(trace: &'a Trace, options: &'a Options, reused: Reused<'a>) -> Context<'a> {
    let context = Context::with_reused(trace, options.kernel_limit.unwrap_or(30), reused);
    context.with_phase_map(options.phase_map.as_ref()).with_model(&options.model).with_asked(&options.asked)
}

/// Removes the shares of kernels whose durations may belong to other kernels, and those of their categories.
fn withhold_shares(run: &mut Run, context: &Context) {
    let shifted = context.shifted_durations();
    if shifted.shifted == 0 {
        return;
    }
    let names = context.trace.names.iter().zip((0..).map(NameId));
    let mut affected: Vec<&str> = names.filter(|(_, id)| shifted.affects(*id)).map(|(name, _)| name).collect();
    affected.sort_unstable();
    for kernel in run.kernels.iter_mut().filter(|kernel| affected.binary_search(&kernel.name.as_str()).is_ok()) {
        kernel.elapsed_share = None;
        for category in run.categories.iter_mut().filter(|category| category.category == kernel.category) {
            (category.elapsed_share, category.bar_share) = (None, None);
        }
    }
}

/// Count and durations of the ops of one name.
#[derive(Debug, Clone, Copy, Default)]
struct NameTotals {
    count: u64,
    duration_ns: i64,
    min_ns: i64,
    max_ns: i64,
}

fn totals_by_name(trace: &Trace, groups: &[Group]) -> Vec<NameTotals> {
    let mut totals = vec![NameTotals { min_ns: i64::MAX, ..NameTotals::default() }; trace.names.len()];
    for group in groups {
        if let Some(name) = totals.get_mut(group.name.0 as usize) {
            name.count += group.count;
            name.duration_ns = name.duration_ns.saturating_add(group.total.0);
            name.min_ns = name.min_ns.min(group.shortest.0);
            name.max_ns = name.max_ns.max(group.longest.0);
        }
    }
    totals
}

fn kernels(trace: &Trace, rules: &RuleSet, options: &Options, owned: &OwnedTime, totals: &[NameTotals]) -> Vec<Kernel> {
    let columns = owned.elapsed_ns(options.attribution).iter().zip(&owned.exclusive_ns).zip(&owned.fair_ns);
    let demangled: Vec<Cow<str>> = trace.names.iter().map(names::demangle).collect();
    let names = trace.names.iter().zip(&demangled).zip(names::distinct(&demangled));
    let rows = names.zip(totals).zip(columns);
    let categories = Categories::new(trace, rules);
    rows.map(|((((name, demangled), short_name), totals), ((&elapsed_ns, &exclusive_ns), &fair_ns))| {
        let (category, category_source) = categories.of(name, demangled);
        Kernel {
            name: name.to_owned(),
            short_name,
            category: category.to_owned(),
            category_source,
            count: totals.count,
            duration_ns: totals.duration_ns,
            elapsed_ns,
            exclusive_ns,
            fair_ns,
            elapsed_share: None,
            mean_ns: share(totals.duration_ns, i64::try_from(totals.count).unwrap_or(i64::MAX)),
            min_ns: Some(totals.min_ns),
            max_ns: Some(totals.max_ns),
        }
    })
    .collect()
}

/// The time in which at least one op or graph runs.
struct BusyTime {
    /// By timeline.
    timelines_ns: Vec<i64>,
    devices_ns: Vec<i64>,
    /// Sum over the timelines of the time in which only graphs run that were traced as a whole.
    graphs_ns: i64,
}

impl BusyTime {
    fn of(trace: &Trace, owned: &OwnedTime, merge_devices: bool) -> Self {
        let device_of = |device: DeviceId| device.0 as usize;
        let of_graphs = |timelines, timeline_of| -> Vec<i64> {
            graphs_alone(trace, timelines, timeline_of).iter().map(|graphs| length(graphs).0).collect()
        };
        let both = |ops: &[i64], graphs: &[i64]| ops.iter().zip(graphs).map(|(ops, graphs)| ops + graphs).collect();
        let by_device = of_graphs(trace.devices.len(), &device_of);
        if !merge_devices {
            let timelines_ns: Vec<i64> = both(&owned.union_ns, &by_device);
            return Self { devices_ns: timelines_ns.clone(), timelines_ns, graphs_ns: sum(by_device.into_iter()) };
        }
        let merged = of_graphs(1, &|_| 0);
        Self {
            timelines_ns: both(&owned.union_ns, &merged),
            devices_ns: both(&unions(trace), &by_device),
            graphs_ns: sum(merged.into_iter()),
        }
    }

    /// The category of graphs that were traced as a whole, if there are any.
    fn graphs(&self, trace: &Trace) -> Option<Category> {
        (!trace.graph_replays.is_empty()).then(|| Category {
            category: GRAPHS.to_owned(),
            count: trace.graph_replays.len() as u64,
            duration_ns: sum(trace.graph_replays.iter().map(|replay| replay.duration.0)),
            elapsed_ns: self.graphs_ns,
            exclusive_ns: self.graphs_ns,
            fair_ns: self.graphs_ns,
            ..Category::default()
        })
    }
}

/// The sums of the kernels by category, and the category of whole graphs.
fn categories(kernels: &[Kernel], graphs: Option<Category>) -> Vec<Category> {
    let mut sums = VecMap::new();
    for kernel in kernels {
        let first = Category { category: kernel.category.clone(), ..Category::default() };
        sums.update(kernel.category.as_str(), first, |sum: &mut Category| {
            sum.count += kernel.count;
            sum.duration_ns = sum.duration_ns.saturating_add(kernel.duration_ns);
            sum.elapsed_ns = sum.elapsed_ns.saturating_add(kernel.elapsed_ns);
            sum.exclusive_ns = sum.exclusive_ns.saturating_add(kernel.exclusive_ns);
            sum.fair_ns = sum.fair_ns.saturating_add(kernel.fair_ns);
        });
    }
    sums.into_vec().into_iter().map(|(_, category)| category).chain(graphs).collect()
}

/// Sorted by elapsed time.
fn with_shares(mut categories: Vec<Category>, elapsed_ns: i64, bar_ns: i64) -> Vec<Category> {
    for category in &mut categories {
        category.elapsed_share = Some(share(category.elapsed_ns, elapsed_ns));
        category.bar_share = Some(share(category.elapsed_ns, bar_ns));
    }
    ordering::sort_by_key(&mut categories, |category| std::cmp::Reverse(category.elapsed_ns));
    categories
}

#[derive(Debug, Clone, Copy, Default)]
struct DeviceTotals {
    gpu_ops: u64,
    duration_ns: i64,
    span: Option<(Ns, Ns)>,
}

fn devices(trace: &Trace, groups: &[Group], union_ns: &[i64], walls_ns: &[i64]) -> Vec<Device> {
    let mut totals = vec![DeviceTotals::default(); trace.devices.len()];
    for group in groups {
        if let Some(device) = totals.get_mut(group.device.0 as usize) {
            device.gpu_ops += group.count;
            device.duration_ns = device.duration_ns.saturating_add(group.total.0);
            let (first, last) = device.span.unwrap_or((group.first, group.last));
            device.span = Some((first.min(group.first), last.max(group.last)));
        }
    }
    for replay in &trace.graph_replays {
        if let Some(device) = totals.get_mut(replay.device.0 as usize) {
            let (first, last) = device.span.unwrap_or((replay.start, replay.end()));
            device.span = Some((first.min(replay.start), last.max(replay.end())));
        }
    }
    let rows = trace.devices.iter().zip(totals).zip(union_ns).zip(walls_ns);
    rows.map(|(((device, totals), &union_ns), &wall_ns)| Device {
        id: device.id.clone(),
        name: device.name.clone(),
        gpu_ops: totals.gpu_ops,
        duration_ns: totals.duration_ns,
        union_ns,
        window_ns: totals.span.map_or(0, |(first, last)| last.since(first).0),
        idle_ns: wall_ns.saturating_sub(union_ns),
        busy_share: share(union_ns, wall_ns),
    })
    .collect()
}

/// Returns the wall time of each device: without work that the trace does not contain, unless the user gave it.
fn device_walls(wall: &Wall, window_ns: i64, unseen_ns: &[i64]) -> Vec<i64> {
    let wall_of = |unseen: &i64| match wall.source {
        WallSource::Window => window_ns.saturating_sub(*unseen),
        WallSource::Given | WallSource::RaisedToBusy => wall.wall_ns,
    };
    unseen_ns.iter().map(wall_of).collect()
}

/// Returns the bar of a run: wall time once for each timeline, and the part in which the GPU is idle. `unseen_ns` is the
/// time, by device, of work that the trace does not contain; it is not part of the bar.
fn wall(options: &Options, window_ns: i64, unseen_ns: &[i64], timelines: &[i64], elapsed_ns: i64) -> Wall {
    let busiest = timelines.iter().copied().max().unwrap_or(0);
    let unseen_on_all = unseen_ns.iter().copied().min().unwrap_or(0);
    let (wall_ns, source) = match options.wall {
        None => (window_ns.saturating_sub(unseen_on_all), WallSource::Window),
        Some(given) if given.0 < busiest => (busiest, WallSource::RaisedToBusy),
        Some(given) => (given.0, WallSource::Given),
    };
    let busy = sum(timelines.iter().copied());
    let unseen_on_some = match source {
        WallSource::Window if timelines.len() == unseen_ns.len() => {
            sum(unseen_ns.iter().map(|unseen| unseen.saturating_sub(unseen_on_all)))
        }
        _ => 0,
    };
    let bar_ns = wall_ns.saturating_mul(i64::try_from(timelines.len().max(1)).unwrap_or(i64::MAX));
    let bar_ns = bar_ns.saturating_sub(unseen_on_some);
    let (cpu_ns, shared_ns) = (bar_ns.saturating_sub(busy), busy.saturating_sub(elapsed_ns));
    Wall {
        wall_ns,
        source,
        bar_ns,
        cpu_ns,
        cpu_share: share(cpu_ns, bar_ns),
        busy_share: share(busy, bar_ns),
        shared_ns,
        shared_share: share(shared_ns, bar_ns),
    }
}

fn picked(Cut { window, whole, .. }: Cut) -> Picked {
    let from = |time: Ns| time.since(whole.start).0;
    Picked { start_ns: from(window.start), end_ns: from(window.end), whole_ns: whole.length().0 }
}

fn sum(values: impl Iterator<Item = i64>) -> i64 {
    values.fold(0, i64::saturating_add)
}

/// Returns `part / whole`; zero if `whole` is zero. Nanoseconds below 2^53 (104 days) are exact in a double.
fn share(part: i64, whole: i64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::{Options, analyze};
    use crate::analysis::GRAPHS;
    use crate::analysis::results::Run;
    use crate::analysis::section::Value;
    use crate::analysis::structure::shifted_durations::WITHHELD;
    use crate::analysis::testing::replay_of_layers;
    use crate::rules::RuleBook;
    use crate::trace::testing::TestTrace;

    /// A gemm of 0..10 us, a graph of 5..30 us that starts while it runs, an idle GPU of 30..90 us and a graph of 90..100 us: the window is
    /// 100 us, 40 us of it are busy, and the graphs own the 30 us in which no op runs.
    #[test]
    fn graphs_that_were_traced_as_a_whole_are_busy_time_in_all_figures() {
        let mut trace = TestTrace::nsys();
        let trace = trace.in_us().kernel("gemm_kernel", 0..10).replay(5..30).replay(90..100).finish();
        let rules = RuleBook::gpuprism_default().unwrap();
        for merge_devices in [false, true] {
            let run = analyze(&trace, rules, &Options { merge_devices, ..Options::default() });
            let (totals, device) = (&run.totals, &run.devices[0]);
            assert_eq!(
                (totals.window_ns, totals.union_ns, totals.union_all_ns, totals.elapsed_ns),
                (100_000, 40_000, 40_000, 40_000)
            );
            assert_eq!((device.window_ns, device.union_ns, device.idle_ns), (100_000, 40_000, 60_000));
            assert_eq!((run.wall.bar_ns, run.wall.cpu_ns, run.wall.cpu_share), (100_000, 60_000, 0.6));
            let categories: Vec<_> =
                run.categories.iter().map(|row| (row.category.as_str(), row.count, row.elapsed_ns)).collect();
            assert_eq!(categories, [(GRAPHS, 2, 30_000), ("gemm", 1, 10_000)]);
            let idle = &run.rows("gpu_idle")[0];
            assert_eq!(["window_ms", "busy_ms", "idle_ms"].map(|name| idle.amount(name)), [0.1, 0.04, 0.06]);
            assert!(run.verdict.text.contains("40 us of GPU work, GPU busy 40.0 %"), "{}", run.verdict.text);
        }
    }

    /// A replay, and after it a GEMM of another name and a gather that the host launches itself.
    fn run(lost_at: usize) -> Run {
        let mut trace = replay_of_layers(lost_at);
        trace.launch(5_000..5_002).launches("nvjet_eager", 5_010..5_110);
        trace.launch(5_120..5_122).launches("vectorized_gather_kernel", 5_130..5_160);
        trace.run()
    }

    fn shares(run: &Run) -> Vec<(&str, bool)> {
        run.kernels.iter().map(|kernel| (kernel.name.as_str(), kernel.elapsed_share.is_some())).collect()
    }

    #[test]
    fn kernels_of_replays_with_shifted_durations_have_no_share_and_totals_stay() {
        let shifted = run(30);
        for (name, has_share) in shares(&shifted) {
            assert_eq!(has_share, matches!(name, "nvjet_eager" | "vectorized_gather_kernel"), "{name}");
        }
        let has_share = |category: &str| {
            let category = shifted.categories.iter().find(|found| found.category == category).unwrap();
            (category.elapsed_share.is_some(), category.bar_share.is_some())
        };
        assert_eq!(has_share("gemm"), (false, false), "it contains a kernel of the replay");
        assert_eq!(has_share("memory"), (true, true));
        let sum: i64 = shifted.kernels.iter().map(|kernel| kernel.elapsed_ns).sum();
        assert_eq!((sum, shifted.totals.elapsed_ns), (shifted.totals.union_ns, shifted.totals.union_ns));
        assert_eq!(shifted.devices[0].union_ns, sum);
        for (section, columns) in [
            ("kernels", &["pct_total_kernel_time"][..]),
            ("kernels_by_pid", &["pct_of_pid_kernel_time", "pct_of_total_kernel_time"]),
        ] {
            let section = &shifted.sections[section];
            assert!(section.limits.iter().any(|limit| limit == WITHHELD), "{section:?}");
            for row in &section.rows {
                let is_eager = matches!(row.text("kernel_name"), "nvjet_eager" | "vectorized_gather_kernel");
                let has_share = |column: &&str| row.get(column) != Some(&Value::Null);
                assert_eq!(columns.iter().filter(|column| has_share(column)).count() > 0, is_eager, "{row:?}");
                assert!(row.number("total_time_ms").is_some());
            }
        }
        assert_eq!(shifted.sections["key_figures"].summary.get("bottleneck"), Some(&Value::Null));
    }

    #[test]
    fn kernels_of_intact_replays_have_shares() {
        let intact = run(usize::MAX);
        // Five kernels of the replay and two that the host launches itself.
        assert_eq!(shares(&intact).iter().map(|(_, has_share)| *has_share).collect::<Vec<_>>(), [true; 7]);
        assert!(intact.categories.iter().all(|category| category.bar_share.is_some()));
        for section in ["kernels", "kernels_by_pid"] {
            let section = &intact.sections[section];
            assert_eq!(section.rows.len(), 7);
            assert!(section.limits.iter().all(|limit| limit != WITHHELD));
            assert!(section.rows.iter().all(|row| row.0.iter().all(|(_, value)| *value != Value::Null)), "{section:?}");
        }
    }
}
