//! The few figures that a person wants before all else: how long the GPU worked and stood idle, what the host did in calls
//! to it meanwhile, what takes most of the time, and which engine it was.

use super::results::Run;
use super::section::{Record, Section, Value};

/// The section's name.
pub(super) const NAME: &str = "key_figures";

/// Of a finished run; where its explaining sections were left out, without what they know.
pub(super) fn key_figures(run: &Run) -> Section {
    let mut section = Section::new("Key figures", "the run's totals, its calls and idle gaps", &[])
        .limit("GPU time is a sum over the devices, time in calls one over the host's threads.");
    let wall = &run.wall;
    let worked = run.totals.gpu_ops > 0;
    section.figure("gpu_time_ms", worked.then(|| ms(wall.bar_ns.saturating_sub(wall.cpu_ns))));
    section.figure("gpu_idle_pct", (worked || wall.bar_ns > 0).then_some(100.0 * wall.cpu_share));
    section.figure("idle_cause", idle_cause(run));
    // Where no call was recorded the sums are zeros that say nothing.
    let calls_ms = summary(run, "timeline_events", "total_cpu_time_ms").filter(|time| *time > 0.0);
    section.figure("cpu_calls_ms", calls_ms);
    section.figure("cpu_blocked_ms", calls_ms.and_then(|_| blocked_ms(run)));
    section.figure("bottleneck", bottleneck(run));
    section.figure("framework", run.engine.clone());
    section
}

fn ms(time_ns: i64) -> f64 {
    time_ns as f64 / 1e6
}

fn summary(run: &Run, section: &str, figure: &str) -> Option<f64> {
    run.sections.get(section)?.summary.get(figure)?.number()
}

/// Time in calls that block their thread, copies among them.
fn blocked_ms(run: &Run) -> Option<f64> {
    let barriers = run.sections.get("barriers").filter(|section| section.missing.is_none())?;
    let is_call =
        |row: &&Record| matches!(row.get("barrier_kind").and_then(Value::text), Some("sync_api" | "blocking_memcpy"));
    let times = barriers.rows.iter().filter(is_call).filter_map(|row| row.get("total_time_ms")?.number());
    Some(times.fold(0.0, |sum, time| sum + time))
}

/// What more than half of the idle time is, where the trace tells. The bar may hold more of it than the gaps between ops.
fn idle_cause(run: &Run) -> Option<&'static str> {
    const CAUSES: [(&str, &str); 2] =
        [("host_wait_ms", "waiting for the host"), ("kernel_wait_ms", "in short pauses between kernels")];
    let idle = run.sections.get("gpu_idle")?;
    let of = |column: &str| {
        let parts = idle.rows.iter().filter_map(|row| row.get(column)?.number());
        parts.fold(0.0, |sum, part| sum + part)
    };
    let all = of("idle_ms").max(ms(run.wall.cpu_ns));
    CAUSES.iter().find(|(column, _)| of(column) > all / 2.0).map(|(_, words)| *words)
}

/// The largest part of the bar, and its share.
fn bottleneck(run: &Run) -> Option<String> {
    if run.totals.gpu_ops == 0 {
        return None;
    }
    let categories = run.categories.iter().map(|category| (category.category.as_str(), category.bar_share));
    let idle = ("GPU idle", run.wall.cpu_share);
    let (what, share) = categories.fold(idle, |most, other| if other.1 > most.1 { other } else { most });
    Some(format!("{what}, {:.1} % of wall time", 100.0 * share))
}

#[cfg(test)]
mod tests {
    use crate::analysis::section::{Section, Value};
    use crate::analysis::{Options, analyze};
    use crate::input::{Imported, Importer};
    use crate::rules::RuleBook;
    use crate::trace::Trace;

    /// A kernel of 10 us and one of 30 us, 60 us apart; the second is launched 59 us after the end of the first, by a call
    /// of 1 us, behind a blocking one of 40 us.
    fn trace() -> Trace {
        let kernel = |name: &str, ts: u32, dur: u32, id: u32| {
            format!(
                r#"{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7, "ts": {ts}, "dur": {dur},
                "args": {{"device": 0, "stream": 7, "correlation": {id}}}}}"#
            )
        };
        let call = |name: &str, ts: u32, dur: u32, id: u32| {
            format!(
                r#"{{"ph": "X", "cat": "cuda_runtime", "name": "{name}", "pid": 1, "tid": 1, "ts": {ts}, "dur": {dur},
                "args": {{"correlation": {id}}}}}"#
            )
        };
        let events = [
            call("cudaLaunchKernel", 95, 2, 1),
            kernel("gemm_kernel", 100, 10, 1),
            call("cudaStreamSynchronize", 112, 40, 9),
            call("cudaLaunchKernel", 168, 1, 2),
            kernel("flash_fwd_kernel", 170, 30, 2),
        ];
        let mut importer = Importer::new("t.json");
        importer.feed(format!(r#"{{"traceEvents": [{}]}}"#, events.join(",")).as_bytes()).unwrap();
        let Imported::Trace(trace) = importer.finish().unwrap() else { panic!("a trace") };
        *trace
    }

    fn figures(options: &Options) -> Section {
        let rules = RuleBook::embedded().select("gpuprism", "default").unwrap();
        analyze(&trace(), &rules, options).sections.remove("key_figures").unwrap()
    }

    #[test]
    fn the_banner_holds_what_a_hand_counts() {
        let section = figures(&Options::default());
        let figure = |name: &str| section.summary.get(name).unwrap().clone();
        assert_eq!(figure("gpu_time_ms"), Value::Float(0.04));
        assert_eq!(figure("gpu_idle_pct"), Value::Float(60.0));
        assert_eq!(figure("idle_cause"), "waiting for the host".into());
        assert_eq!((figure("cpu_calls_ms"), figure("cpu_blocked_ms")), (Value::Float(0.043), Value::Float(0.04)));
        assert_eq!(figure("bottleneck"), "GPU idle, 60.0 % of wall time".into());
        assert_eq!(figure("framework"), Value::Null);
    }

    #[test]
    fn before_the_sections_are_there_it_says_what_is_known() {
        let section = figures(&Options { without_sections: true, ..Options::default() });
        let figure = |name: &str| section.summary.get(name).unwrap().clone();
        assert_eq!((figure("gpu_idle_pct"), figure("cpu_calls_ms")), (Value::Float(60.0), Value::Null));
    }
}
