//! Tables of launch latency: the kernels with the longest latency, percentiles and a histogram. From
//! [`Latencies`]; percentiles take O(n) by radix selection.

use super::latencies::{LaunchLatencies as Latencies, Unmeasured};
use crate::analysis::context::Context;
use crate::analysis::labels;
use crate::analysis::measure::percentiles::Samples;
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Answer, At, KernelName, Stated, TypedSection, Us, Value, first_op, section};
use crate::trace::OpKind;
use crate::words::latency::{self as words, Unmeasurable};

section! {
    /// The kernels with the longest latency, and percentiles of all.
    pub(crate) struct LaunchLatencies("launch_latency_rows", "Launch latency");
    row LaunchLatencyRow {
        pid: Value,
        stream_id: Value = "Stream",
        api_name: String = "Call",
        kernel_name: KernelName = "Kernel",
        launch_start_ns: At,
        launch_end_ns: At,
        kernel_start_ns: At,
        kernel_end_ns: At,
        latency_us: Us,
    }
    figures LaunchLatencyFigures {
        first_op_ns: Stated<At>,
        count: usize,
        mean_us: Us,
        p50_us: Option<Us>,
        p95_us: Option<Us>,
        p99_us: Option<Us>,
        max_us: Option<Us>,
        without_communication_p50_us: Stated<Option<Us>>,
        without_communication_p95_us: Stated<Option<Us>>,
        without_communication_p99_us: Stated<Option<Us>>,
    }
}

section! {
    /// How many kernels have which latency.
    pub(crate) struct LaunchLatencyHistogram("launch_latency_histogram", "Launch latency histogram");
    row LaunchLatencyBin {
        bin_start_us: Us = "From",
        bin_end_us: Us = "To",
        count: u64,
        without_communication: u64,
    }
}

const MAX_BINS: usize = 30;
const MIN_BINS: usize = 8;

#[derive(Debug)]
struct Distribution {
    count: usize,
    /// In nanoseconds, one per entry of [`PERCENTS`]; `None` if there are no latencies.
    percentiles: Vec<Option<f64>>,
    /// Number of latencies in each bin; the first bin starts at zero.
    bins: Vec<u64>,
}

/// The last entry, 100, is the maximum.
const PERCENTS: [u64; 4] = [50, 95, 99, 100];

impl Distribution {
    fn of(samples: &[&Samples]) -> Self {
        let percentiles = Samples::percentiles(samples, &PERCENTS);
        Self { count: samples.iter().map(|samples| samples.len()).sum(), percentiles, bins: Vec::new() }
    }

    /// Returns the number of bins and their width in microseconds.
    fn bin_layout(&self) -> (usize, f64) {
        let bins = self.count.isqrt().clamp(MIN_BINS, MAX_BINS);
        (bins, (self.longest().unwrap_or(0.0) / 1e3 / bins as f64).max(1e-6))
    }

    /// Counts the samples in each bin of this distribution.
    fn count_by_bin(&self, samples: &Samples) -> Vec<u64> {
        let (count, width_us) = self.bin_layout();
        let mut bins = vec![0; count];
        for latency in samples.iter() {
            let bin = ((latency as f64 / 1e3 / width_us) as usize).min(count - 1);
            bins.get_mut(bin).into_iter().for_each(|bin| *bin += 1);
        }
        bins
    }

    /// Percentile 50, 95 and 99.
    fn shown_percentiles(&self) -> [Option<Us>; 3] {
        let percentile = |index: usize| self.percentiles.get(index).copied().flatten().map(us);
        [percentile(0), percentile(1), percentile(2)]
    }

    fn longest(&self) -> Option<f64> {
        self.percentiles.last().copied().flatten()
    }
}

/// Nanoseconds as microseconds.
fn us(ns: f64) -> Us {
    Us(ns / 1e3)
}

/// Returns the distribution of all latencies and, if some kernels communicate, that of the other kernels.
fn distributions(latencies: &Latencies) -> (Distribution, Option<Distribution>) {
    let Latencies { computing, communicating, .. } = latencies;
    let mut all = Distribution::of(&[computing, communicating]);
    let bins = all.count_by_bin(computing);
    all.bins = bins.iter().zip(all.count_by_bin(communicating)).map(|(one, other)| one + other).collect();
    let computing = (communicating.len() > 0).then(|| Distribution { bins, ..Distribution::of(&[computing]) });
    (all, computing)
}

/// Both sections on launch latency.
pub(crate) fn sections(context: &Context) -> (Answer<LaunchLatencies>, Answer<LaunchLatencyHistogram>) {
    let distributions = distributions(&context.details().latencies);
    (launch_latency_rows(context, &distributions), launch_latency_histogram(context, &distributions))
}

type Distributions = (Distribution, Option<Distribution>);

fn launch_latency_rows(context: &Context, (all, computing): &Distributions) -> Answer<LaunchLatencies> {
    let trace = context.trace;
    let Latencies { longest, unmeasured, started_early, sum_ns, .. } = &context.details().latencies;
    let count = all.count;
    if count == 0 {
        return missing(context, *unmeasured);
    }
    let mut answer: Answer<LaunchLatencies> = answer(count, *unmeasured);
    if *started_early > 0 {
        answer.limits.push(words::started_early(*started_early, count as u64));
    }
    let [p50_us, p95_us, p99_us] = all.shown_percentiles();
    let computing = computing.as_ref().map(Distribution::shown_percentiles);
    answer.figures = Some(LaunchLatencyFigures {
        first_op_ns: first_op(trace),
        count,
        mean_us: us(*sum_ns as f64 / count as f64),
        p50_us,
        p95_us,
        p99_us,
        max_us: all.longest().map(us),
        without_communication_p50_us: Stated(computing.map(|[p50, ..]| p50)),
        without_communication_p95_us: Stated(computing.map(|[_, p95, _]| p95)),
        without_communication_p99_us: Stated(computing.map(|[.., p99]| p99)),
    });
    for event in longest.clone().ranked() {
        let call = trace.gpu_ops.launch(event.row()).and_then(|call| trace.calls.get(call.0 as usize));
        let (Some(kernel), Some(call)) = (trace.gpu_ops.get(event.row()), call) else { continue };
        answer.rows.push(LaunchLatencyRow {
            pid: labels::pid(trace, kernel.process),
            stream_id: labels::stream(&kernel),
            api_name: trace.calls.names.get(call.name).to_owned(),
            kernel_name: labels::kernel(trace, kernel.name).words().into(),
            launch_start_ns: At(call.start),
            launch_end_ns: At(call.end()),
            kernel_start_ns: At(kernel.start),
            kernel_end_ns: At(kernel.end()),
            latency_us: event.duration.into(),
        });
    }
    answer.rows_in_all = count as u64;
    answer
}

fn launch_latency_histogram(context: &Context, (all, computing): &Distributions) -> Answer<LaunchLatencyHistogram> {
    let unmeasured = context.details().latencies.unmeasured;
    if all.count == 0 {
        return missing(context, unmeasured);
    }
    let (_, width_us) = all.bin_layout();
    let computing = computing.as_ref().unwrap_or(all);
    let bins = all.bins.iter().zip(&computing.bins).enumerate();
    answer(all.count, unmeasured).with_rows(bins.map(|(bin, (count, without))| LaunchLatencyBin {
        bin_start_us: Us(bin as f64 * width_us),
        bin_end_us: Us((bin + 1) as f64 * width_us),
        count: *count,
        without_communication: *without,
    }))
}

fn missing<S: TypedSection>(context: &Context, unmeasured: Unmeasured) -> Answer<S> {
    let trace = context.trace;
    if unmeasured.started_before_window > 0 && unmeasured.no_call + unmeasured.other_call == 0 {
        let why =
            "No launch latency can be measured in this window: all of its kernels, or their graphs, began before it.";
        return S::missing(why, "");
    }
    let (why, data) = match (trace.gpu_ops.iter().any(|op| op.kind == OpKind::Kernel), trace.calls.is_empty()) {
        (false, _) => ("The trace contains no GPU kernels.", MissingData::Kernels),
        (true, true) => ("The trace contains no API calls.", MissingData::Calls),
        (true, false) => ("No kernel of the trace is linked to the call that launched it.", MissingData::Calls),
    };
    context.lacks(why, data)
}

fn answer<S: TypedSection>(measured: usize, unmeasured: Unmeasured) -> Answer<S> {
    let kernels = measured as u64 + unmeasured.count();
    let mut answer = S::answer("launch calls and kernels with the same process and correlation id")
        .limit("Kernels wait for the host or earlier work on their stream. Long latency on a busy stream is normal.");
    for (count, why) in [
        (unmeasured.later_in_graph, Unmeasurable::LaterInGraph),
        (unmeasured.started_before_window, Unmeasurable::BeforeWindow),
        (unmeasured.no_call, Unmeasurable::NoCall),
        (unmeasured.other_call, Unmeasurable::OtherCall),
    ] {
        if count > 0 {
            answer.limits.push(words::unmeasured(count, kernels, why));
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::section::Section;
    use crate::analysis::testing::*;
    use crate::trace::testing::TestTrace;
    use crate::trace::{Ns, Trace, Window};
    use proptest::prelude::*;

    fn launch_latency_rows(context: &Context) -> Section {
        sections(context).0.section()
    }

    fn both(context: &Context) -> [Section; 2] {
        let (rows, histogram) = sections(context);
        [rows.section(), histogram.section()]
    }

    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn latencies_of_the_fixture_match_the_manual_result() {
        let (trace, expected) = fixture();
        let [rows, histogram] = both(&Context::new(&trace, 30));
        let expected = &expected["launch_latency"];
        for (ours, theirs) in
            [("count", "count"), ("mean_us", "mean"), ("p50_us", "p50"), ("p95_us", "p95"), ("p99_us", "p99")]
        {
            close(number(&rows.summary, ours), &expected[theirs]);
        }
        let sorted = expected["latencies_us_sorted"].as_array().unwrap();
        assert_eq!(rows.rows.len(), sorted.len());
        for (row, expected) in rows.rows.iter().zip(sorted.iter().rev()) {
            close(number(row, "latency_us"), expected);
        }
        let counts: Vec<f64> = histogram.rows.iter().map(|row| number(row, "count")).collect();
        assert_eq!(serde_json::json!(counts.iter().map(|count| *count as u64).collect::<Vec<_>>()), expected["counts"]);
        close(number(&histogram.rows[0], "bin_end_us"), &expected["bin_width"]);
    }

    #[test]
    fn equal_correlation_ids_of_two_processes_are_kept_apart() {
        let mut trace = TestTrace::nsys();
        for (pid, device, start) in [(1, 0, 0), (2, 1, 1_000_000)] {
            trace.process(pid).device(device).call_with_id("cudaLaunchKernel", start..start + 10, 77);
            trace.launches("k", start + 30..start + 50);
        }
        assert_eq!(latencies(&trace.finish()), [0.02, 0.02]);
    }

    fn latencies(trace: &Trace) -> Vec<f64> {
        let section = launch_latency_rows(&Context::new(trace, 30));
        section.rows.iter().map(|row| number(row, "latency_us")).collect()
    }

    #[test]
    fn a_graph_launch_has_one_latency_and_unmeasured_kernels_are_counted() {
        let mut trace = TestTrace::nsys();
        trace.call("cudaGraphLaunch_v10000", 0..100).launches("in_graph", 350..400).launches("in_graph", 600..650);
        trace.launches("in_graph", 900..950).launches("early", 90..300);
        trace.call("cudaMemcpyAsync", 0..100).launches("copies_as_kernel", 1_000..1_100);
        let section = trace.kernel("alone", 1_200..1_300).section(launch_latency_rows);
        assert_eq!((section.rows.len(), number(&section.summary, "count")), (1, 1.0));
        assert_eq!((words(&section.rows[0], "kernel_name"), number(&section.rows[0], "latency_us")), ("early", 0.0));
        for start in [
            "3 of 6 kernels follow",
            "1 of 6 kernels are not linked to a call",
            "1 of 6 kernels are linked to calls that are not launches",
            "1 of 1 measured kernels began before",
        ] {
            assert!(section.limits.iter().any(|limit| limit.starts_with(start)), "{start}: {:?}", section.limits);
        }
    }

    #[test]
    fn kernels_that_start_before_the_window_are_not_measured() {
        let mut trace = TestTrace::nsys();
        trace.call("cudaGraphLaunch_v10000", 0..10).launches("k", 40..80).launches("k", 130..180);
        trace.launch(12..20).launches("k", 90..120).launch(22..30).launches("k", 190..220);
        let whole = trace.finish();
        let part = |from, to| whole.within(Window { start: Ns(from), end: Ns(to) });
        let section_of = |from, to| launch_latency_rows(&Context::new(&part(from, to), 30));
        // Three kernels: the window cuts one, and the first kernel of another's graph ran before the window.
        let section = section_of(100, 300);
        assert_eq!((latencies(&part(100, 300)), number(&section.summary, "count")), (vec![0.16], 1.0));
        assert!(
            section.limits.iter().any(|limit| limit.starts_with("2 of 3 kernels began before")),
            "{:?}",
            section.limits
        );
        let nothing = section_of(100, 185).missing.unwrap();
        assert!(nothing.why.contains("began before it") && nothing.recapture.is_empty(), "{nothing:?}");
    }

    #[test]
    fn a_window_measures_only_the_first_kernel_of_a_graph_launch() {
        let of_whole_and_window = |trace: &mut TestTrace, from| {
            let whole = trace.finish();
            [latencies(&whole), latencies(&whole.within(Window { start: Ns(from), end: Ns(500) }))]
        };
        let mut trace = TestTrace::nsys();
        trace.call("cudaGraphLaunch_v10000", 100..110).launches("[CUDA memcpy Device-to-Host]", 120..130);
        trace.launches("k", 140..180).launches("k", 190..200);
        assert_eq!(of_whole_and_window(&mut trace, 135), [vec![0.03], vec![0.03]]);
        // The clock of the device is slow compared with that of the host.
        trace.call("cudaGraphLaunch_v10000", 100..110).launches("k", 60..70).launches("k", 75..85);
        assert_eq!(of_whole_and_window(&mut trace, 72), [vec![0.0], vec![]]);
    }

    #[test]
    fn bins_and_percentiles_also_exclude_communication() {
        let mut trace = TestTrace::nsys();
        for (name, wait) in [("k", 10_000), ("k", 20_000), (KINDS[ALLREDUCE], 80_000), ("k", 30_000)] {
            trace.stream(wait).launch(0..10).launches(name, 10 + wait..20 + wait);
        }
        let trace = trace.finish();
        let [rows, section] = both(&Context::new(&trace, 30));
        let sum = |column: &str| section.rows.iter().map(|row| number(row, column)).sum::<f64>();
        assert_eq!((sum("count"), sum("without_communication")), (4.0, 3.0));
        assert_eq!(
            number(&section.rows[7], "without_communication"),
            0.0,
            "the communication kernel has the longest latency"
        );
        let figure = |name| number(&rows.summary, name);
        assert_eq!((figure("p50_us"), figure("without_communication_p50_us")), (25.0, 20.0));
    }

    proptest! {
        #[test]
        fn percentiles_and_bins_match_a_sorted_list(
            waits in proptest::collection::vec(prop_oneof![0_i64..2_000, 4_294_967_290_i64..4_294_967_400], 1..80),
        ) {
            let mut trace = TestTrace::nsys();
            for (stream, wait) in (0..).zip(&waits) {
                trace.stream(stream).launch(0..10).launches("k", 10 + wait..20 + wait);
            }
            let trace = trace.finish();
            let [rows, histogram] = both(&Context::new(&trace, 30));
            let mut sorted = waits.clone();
            sorted.sort_unstable();
            for (name, percent) in [("p50_us", 50.0), ("p95_us", 95.0), ("p99_us", 99.0), ("max_us", 100.0)] {
                let rank = percent * (sorted.len() - 1) as f64 / 100.0;
                let (low, high) = (sorted[rank.floor() as usize] as f64, sorted[rank.ceil() as usize] as f64);
                let expected = (low + (high - low) * rank.fract()) / 1e3;
                prop_assert!((number(&rows.summary, name) - expected).abs() <= 1e-9 * expected.max(1.0));
            }
            let count: f64 = histogram.rows.iter().map(|row| number(row, "count")).sum();
            prop_assert_eq!(count, waits.len() as f64);
            prop_assert_eq!(number(&rows.rows[0], "latency_us"), sorted[sorted.len() - 1] as f64 / 1e3);
        }
    }
}
