//! Key figures of a run: GPU time, idle share and its cause, time in host calls, bottleneck, serving engine.
//! Read from the results of a finished run, without another pass over the trace.

use super::results::Run;
use super::section::{Answer, Ms, Pct, Stated, TypedSection, section};
use crate::analysis::host::barriers::{BarrierKind, Barriers, Sync};
use crate::analysis::host::idle::{GpuIdle, GpuIdleRow};
use crate::rules::signals::Signals;
use crate::trace::{Fraction, Ns};
use crate::words;

section! {
    /// The key figures of a run.
    pub(crate) struct KeyFigures("key_figures", "Key figures");
    figures KeyFigureValues {
        /// A sum over devices is not time that passed, so it has another name.
        gpu_time_all_devices_ms: Stated<Option<Ms>> = "GPU time, all devices",
        gpu_time_ms: Stated<Option<Ms>>,
        gpu_idle_pct: Option<Pct>,
        idle_cause: Option<String> = "Main idle cause",
        cpu_calls_ms: Option<Ms> = "CPU time in GPU API calls",
        cpu_blocked_ms: Option<Ms>,
        bottleneck: Option<String>,
        framework: Option<String>,
    }
}

/// Returns the key figures of a run. Figures that come from explaining sections are `Null` if the run has no
/// such sections.
pub(super) fn key_figures(run: &Run) -> Answer<KeyFigures> {
    let wall = &run.wall;
    let has_ops = run.totals.gpu_ops > 0;
    let gpu_time = has_ops.then(|| Ns(wall.bar_ns.saturating_sub(wall.cpu_ns)).into());
    let is_sum = wall.bar_ns > wall.wall_ns;
    // A sum of zero means that no calls were recorded.
    let calls = summary(run, "timeline_events", "total_cpu_time_ms").filter(|time| *time > 0.0);
    KeyFigures::answer("totals, calls and idle gaps of the run")
        .limit("Time in calls is summed over host threads.")
        .with_figures(KeyFigureValues {
            gpu_time_all_devices_ms: Stated(is_sum.then_some(gpu_time)),
            gpu_time_ms: Stated((!is_sum).then_some(gpu_time)),
            gpu_idle_pct: (has_ops || wall.bar_ns > 0).then_some(Pct(100.0 * wall.cpu_share)),
            idle_cause: idle_cause(run).map(str::to_owned),
            cpu_calls_ms: calls.map(Ms),
            cpu_blocked_ms: calls.and_then(|_| blocked_ms(run)).map(Ms),
            bottleneck: bottleneck(run),
            framework: run.engine.clone(),
        })
}

fn summary(run: &Run, section: &str, figure: &str) -> Option<f64> {
    run.sections.get(section)?.summary.get(figure)?.number()
}

/// Time in calls that block their thread, including the copies that the trace shows to block.
fn blocked_ms(run: &Run) -> Option<f64> {
    let barriers = Barriers::read(&run.sections)?;
    let copies = barriers.rows.iter().filter(|row| row.barrier_kind == BarrierKind::BlockingCopy);
    let copies_ms = copies.fold(0.0, |sum, row| sum + row.total_time_ms.0);
    // Unlike the rows of synchronizing calls, their total has nested calls once.
    Some(copies_ms + Sync::figures(&run.sections).map_or(0.0, |figures| figures.sync_total_time_ms.0))
}

/// Returns the cause of more than half of the idle time, if there is one. The bar may have more idle time
/// than the gaps between ops; neither counts the time of unseen work. Drained time of which the blocking calls explain less
/// than half does not prove that the calls are the cause.
fn idle_cause(run: &Run) -> Option<&'static str> {
    if is_almost_empty(run) {
        return None;
    }
    let explained = GpuIdle::figures(&run.sections).and_then(|figures| figures.drained_explained_ms.0);
    let rows = GpuIdle::rows(&run.sections);
    let sum = |time: fn(&GpuIdleRow) -> Ms| sum(&rows, time);
    let (late, drained) = (sum(|row| row.host_late_ms), sum(|row| row.drained_ms));
    let is_explained = explained.map_or(0.0, |explained| explained.0) >= drained / 2.0;
    let causes = [
        (late, "host late"),
        (drained, if is_explained { "drained" } else { "host late or drained" }),
        (late + drained, "host late or drained"),
        (sum(|row| row.turnaround_ms), "turnaround between kernels"),
        (sum(|row| row.other_stream_ms), "other stream"),
        (sum(|row| row.compiling_ms), "compiling"),
        (sum(|row| row.start_up_ms), "start-up"),
        (sum(|row| row.no_requests_ms), "no requests"),
        (sum(|row| row.profiler_ms), "the profiler"),
        (sum(|row| row.other_gpu_ms), "another GPU works"),
    ];
    let all = sum(|row| row.idle_ms).max(Ms::from(Ns(run.wall.cpu_ns)).0);
    causes.into_iter().find(|(time, _)| *time > all / 2.0).map(|(_, words)| words)
}

/// Whether the GPU works almost never and no steps are marked. Then nobody is late: there is no work.
pub(super) fn is_almost_empty(run: &Run) -> bool {
    let rows = GpuIdle::rows(&run.sections);
    let window = rows.iter().map(GpuIdleRow::own_window_ms).sum::<f64>();
    let busy_at_most = sum(&rows, |row| row.busy_ms) + sum(&rows, |row| row.unrecorded_ms);
    run.filled("steps").is_none() && busy_at_most < Signals::embedded().thresholds.min_busy_share * window
}

/// The sum of a column of the idle times over all devices, in milliseconds.
fn sum(rows: &[GpuIdleRow], time: fn(&GpuIdleRow) -> Ms) -> f64 {
    rows.iter().fold(0.0, |sum, row| sum + time(row).0)
}

/// Returns the largest part of the bar (a category or idle time) and its share; `None` if shares are missing.
fn bottleneck(run: &Run) -> Option<String> {
    if run.totals.gpu_ops == 0 {
        return None;
    }
    let mut largest = ("GPU idle", run.wall.cpu_share);
    for category in &run.categories {
        // A category without a share may be the largest.
        let share = category.bar_share?;
        if share > largest.1 {
            largest = (category.category.as_str(), share);
        }
    }
    let (name, share) = largest;
    Some(words::labels::bottleneck(name, Fraction(share)))
}

#[cfg(test)]
mod tests {
    use crate::analysis::section::{Section, Value};
    use crate::analysis::{Options, analyze};
    use crate::rules::RuleBook;
    use crate::trace::testing::TestTrace;

    /// Kernels of 10 us and 30 us with a gap of 60 us. In the gap the host is blocked for 40 us, then
    /// launches the second kernel; this call returns 59 us after the end of the first kernel.
    fn figures(options: &Options) -> Section {
        let mut trace = TestTrace::new();
        trace.in_us().launch(95..97).launches("gemm_kernel", 100..110).call("cudaStreamSynchronize", 112..152);
        trace.launch(168..169).launches("flash_fwd_kernel", 170..200);
        let rules = RuleBook::gpuprism_default().unwrap();
        analyze(&trace.finish(), rules, options).sections.remove("key_figures").unwrap()
    }

    #[test]
    fn key_figures_match_the_manual_result() {
        let section = figures(&Options::default());
        let figure = |name: &str| section.summary.get(name).unwrap().clone();
        assert_eq!(figure("gpu_time_ms"), Value::Float(0.04));
        assert_eq!(figure("gpu_idle_pct"), Value::Float(60.0));
        assert_eq!(figure("idle_cause"), "host late".into());
        assert_eq!((figure("cpu_calls_ms"), figure("cpu_blocked_ms")), (Value::Float(0.043), Value::Float(0.04)));
        assert_eq!(figure("bottleneck"), "GPU idle, 60.0 % of wall time".into());
        assert_eq!(figure("framework"), Value::Null);
    }

    /// A kernel of 1 ms, a call that blocks for 0.9 ms until it ends, and the launch of the next kernel `idle_us` later.
    fn idle_cause_after_a_blocking_call(idle_us: i64) -> Value {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..5).launches("gemm", 10..1_010).call("cudaStreamSynchronize", 110..1_010);
        let end = 1_010 + idle_us;
        trace.launch(end - 5..end).launches("gemm", end..end + 500);
        let run = analyze(&trace.finish(), RuleBook::gpuprism_default().unwrap(), &Options::default());
        run.sections["key_figures"].summary.get("idle_cause").unwrap().clone()
    }

    #[test]
    fn a_blocking_call_is_the_cause_only_of_idle_time_that_it_explains() {
        assert_eq!(idle_cause_after_a_blocking_call(1_800), "drained".into());
        assert_eq!(idle_cause_after_a_blocking_call(1_801), "host late or drained".into());
    }

    #[test]
    fn the_sum_over_devices_is_named_as_one() {
        let mut trace = TestTrace::new();
        trace.in_us().kernel("gemm", 0..60).device(1).kernel("gemm", 0..100);
        let section = analyze(&trace.finish(), RuleBook::gpuprism_default().unwrap(), &Options::default());
        let section = &section.sections["key_figures"];
        assert_eq!(section.summary.get("gpu_time_all_devices_ms"), Some(&Value::Float(0.16)));
        assert_eq!(section.summary.get("gpu_time_ms"), None);
    }

    #[test]
    fn without_sections_only_figures_of_the_totals_are_set() {
        let section = figures(&Options { without_sections: true, ..Options::default() });
        let figure = |name: &str| section.summary.get(name).unwrap().clone();
        assert_eq!((figure("gpu_idle_pct"), figure("cpu_calls_ms")), (Value::Float(60.0), Value::Null));
    }
}
