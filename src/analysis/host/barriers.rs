//! Host threads that wait: blocking API calls, waits in the operating system, and gaps between the launches
//! of a thread. From the sums of [`HostCalls`](crate::analysis::host::calls::HostCalls); the cost depends
//! only on the number of distinct calls.

use crate::analysis::context::Context;
use crate::analysis::host::calls::LauncherGaps;
use crate::analysis::labels;
use crate::analysis::measure::tally::{Tallies, Tally, key};
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Section, Value};
use crate::digits::grouped_text;
use crate::trace::{BlockingSite, Format, NameId, Names, Ns, ProcessId};

const SYNC: [&str; 6] = ["api_name", "call_count", "total_time_ms", "avg_duration_us", "idle_after_ms", "call_site"];
const SYNC_BY_PID: [&str; 5] = ["pid", "api_name", "call_count", "total_time_ms", "avg_duration_us"];
const BARRIERS: [&str; 8] = [
    "barrier_kind",
    "api_name",
    "count",
    "total_time_ms",
    "avg_duration_us",
    "max_duration_us",
    "idle_after_ms",
    "call_site",
];
const IDLE_AFTER: &str = "idle_after_ms is the idle time of the GPU from the moment at which it ran empty during such a call, \
                          to its next op; on the device where it is longest. Later gaps in which launches are still late \
                          are not counted.";
const CALL_SITE: &str = "call_site is the innermost CPU op and Python frame around the calls with the most idle time after \
                         them. It is looked up if the trace records CPU ops or Python stacks and the idle time after \
                         blocking calls is at least 0.1 ms and 0.1 % of the busy time of the GPU.";
const SYNC_ROWS: usize = 200;
const BARRIER_ROWS: usize = 50;

fn no_calls(context: &Context, title: &str, columns: &[&str]) -> Section {
    context.missing(title, columns, "The trace contains no GPU API calls.", MissingData::Calls)
}

/// Synchronizing calls that block their thread, by name.
pub(crate) fn sync(context: &Context) -> Section {
    const TITLE: &str = "Synchronizing calls";
    let trace = context.trace;
    if trace.calls.is_empty() {
        return no_calls(context, TITLE, &SYNC);
    }
    let host = context.host();
    let blocking = host.synchronizing.summed_by_low_number();
    let mut section = Section::new(TITLE, "durations of API calls, by name", &SYNC)
        .limit("Non-blocking calls, such as event queries, have no row. In Nsight Systems exports they are counted.")
        .limit("Times are summed over threads. The total counts a driver call inside a runtime call only once.")
        .limit(IDLE_AFTER)
        .limit(CALL_SITE);
    section.figure("sync_total_time_ms", Value::ms(host.synchronizing_time));
    // The reader of torch traces skips such calls, so a count of zero would be wrong.
    if trace.format != Format::TorchProfiler {
        section.figure("non_blocking_calls", host.non_blocking.count);
        section.figure("non_blocking_time_ms", Value::ms(host.non_blocking.total));
    }
    let ranked = blocking.by_time(&|tally| trace.calls.names.get(NameId(tally.member())));
    section.rows_in_all = ranked.len() as u64;
    for tally in ranked.iter().take(SYNC_ROWS) {
        let name = trace.calls.names.get(NameId(tally.member()));
        let [idle_after, call_site] = idle_after(context, name);
        section.row([
            name.into(),
            tally.count.into(),
            Value::ms(tally.total),
            tally.average_us(),
            idle_after,
            call_site,
        ]);
    }
    section
}

/// `idle_after_ms` and `call_site` of the calls of this name.
fn idle_after(context: &Context, call: &str) -> [Value; 2] {
    let (trace, survey) = (context.trace, context.survey());
    let site = survey.costliest_site(call, &trace.calls.names).and_then(|site| trace.blocking_sites.get(site));
    [Value::ms(survey.idle_after(call, &trace.calls.names)), site.map(BlockingSite::text).into()]
}

/// Synchronizing calls that block their thread, by process and name.
pub(crate) fn sync_by_pid(context: &Context) -> Section {
    const TITLE: &str = "Synchronizing calls by process";
    let trace = context.trace;
    if trace.calls.is_empty() {
        return no_calls(context, TITLE, &SYNC_BY_PID);
    }
    let mut section = Section::new(TITLE, "durations of API calls, by process and name", &SYNC_BY_PID);
    let ranked = context.host().synchronizing.by_time(&|tally| trace.calls.names.get(NameId(tally.member())));
    section.rows_in_all = ranked.len() as u64;
    for tally in ranked.iter().take(SYNC_ROWS) {
        section.row([
            labels::pid(trace, ProcessId(tally.group())),
            trace.calls.names.get(NameId(tally.member())).into(),
            tally.count.into(),
            Value::ms(tally.total),
            tally.average_us(),
        ]);
    }
    section
}

/// Values of the column `barrier_kind`, by the high number of the tally's key.
const KINDS: [&str; 4] = ["sync_api", "blocking_memcpy", "host_wait", "cpu_launcher_gap"];

/// Blocking calls, waits in the operating system and launcher gaps, the largest total time first.
pub(crate) fn barriers(context: &Context) -> Section {
    const TITLE: &str = "Barriers between CPU and GPU";
    let trace = context.trace;
    if trace.calls.is_empty() && trace.host_waits.is_empty() {
        return no_calls(context, TITLE, &BARRIERS);
    }
    let (mut barriers, mut names) = (Tallies::default(), Names::default());
    let host = context.host();
    for (kind, calls) in [(0, &host.synchronizing), (1, &host.copying)] {
        for tally in calls.iter() {
            let name = names.intern(trace.calls.names.get(NameId(tally.member())));
            barriers.merge(&Tally { key: key(kind, name.0), ..*tally });
        }
    }
    for wait in trace.host_waits.iter().filter(|wait| context.signals.is_host_wait(&wait.name)) {
        let key = key(2, names.intern(&wait.name).0);
        barriers.merge(&Tally { key, count: wait.count, total: wait.total, longest: wait.longest, ..Tally::default() });
    }
    let launcher_gaps = &host.gaps;
    if launcher_gaps.gaps.count > 0 {
        barriers.merge(&Tally { key: key(3, names.intern(KINDS[3]).0), ..launcher_gaps.gaps });
    }
    let mut section = barriers_section(context, TITLE, launcher_gaps);
    let ranked = barriers.by_time(&|tally| names.get(NameId(tally.member())));
    section.rows_in_all = ranked.len() as u64;
    for tally in ranked.iter().take(BARRIER_ROWS) {
        let (kind, name) = (tally.group() as usize, names.get(NameId(tally.member())));
        let [idle_after, call_site] = if kind < 2 { idle_after(context, name) } else { [Value::Null, Value::Null] };
        section.row([
            KINDS.get(kind).copied().into(),
            name.into(),
            tally.count.into(),
            Value::ms(tally.total),
            tally.average_us(),
            Value::us(tally.longest),
            idle_after,
            call_site,
        ]);
    }
    section
}

fn barriers_section(context: &Context, title: &str, launcher_gaps: &LauncherGaps) -> Section {
    let (trace, thresholds) = (context.trace, &context.signals.thresholds);
    let (min_us, max_us) = (thresholds.launcher_gap_us, thresholds.launcher_idle_us);
    let [shortest, longest] = [min_us, max_us].map(|us| grouped_text(&us.to_string()));
    let mut section = Section::new(title, "durations of API calls, launch gaps and operating system waits", &BARRIERS)
        .limit("Times are sums over threads that may wait at the same time, so they do not add up to wall time.")
        .limit(IDLE_AFTER)
        .limit(CALL_SITE)
        .limit(format!(
            "A launcher gap is an estimate: {shortest} to {longest} us in which a thread neither launched work nor was \
             blocked in a call. The trace does not show what the thread did, and the GPU may have been busy. Longer \
             gaps count as idle gaps, because the program probably had no work."
        ))
        .limit(
            "A blocking copy is inferred from the name of the call: copies within a device may return immediately. An \
             asynchronous copy from or to pageable memory counts if its call returned after the copy had ended.",
        );
    if trace.host_waits.is_empty() {
        section = section.limit("The trace does not record waits in the operating system.");
    } else {
        section = section.limit(
            "Host waits include threads without work, for example a thread that waits for a request in poll or futex.",
        );
        let other_calls = || trace.host_waits.iter().filter(|wait| !context.signals.is_host_wait(&wait.name));
        section.figure("other_os_calls", other_calls().map(|wait| wait.count).sum::<u64>());
        section.figure("other_os_time_ms", Value::ms(other_calls().fold(Ns::ZERO, |sum, wait| sum + wait.total)));
    }
    section.figure("launcher_gap_threshold_us", min_us);
    section.figure("launcher_idle_threshold_us", max_us);
    section.figure("idle_gaps", launcher_gaps.idle.count);
    section.figure("idle_gap_time_ms", Value::ms(launcher_gaps.idle.total));
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::{figure, rows};
    use crate::trace::HostWait;
    use crate::trace::testing::TestTrace;

    fn barrier_rows(trace: &mut TestTrace) -> Vec<String> {
        let columns = ["barrier_kind", "api_name", "count", "total_time_ms", "max_duration_us"];
        rows(&trace.sections(), "barriers", &columns)
    }

    /// A copy to pageable memory whose call of 300 us returns 2 us after it, and one that returns before its copy starts.
    #[test]
    fn an_asynchronous_copy_that_returned_after_its_copy_had_ended_is_blocking() {
        let mut trace = TestTrace::new();
        trace.in_us().call("cudaMemcpyAsync", 0..300).launches("Memcpy DtoH (Device -> Pageable)", 290..298);
        trace.call("cudaMemcpyAsync", 310..320).launches("Memcpy DtoH (Device -> Pageable)", 330..340);
        trace.call("cudaMemcpyAsync", 350..360).launches("Memcpy DtoH (Device -> Pinned)", 352..358);
        assert_eq!(barrier_rows(&mut trace), ["blocking_memcpy cudaMemcpyAsync 1 0.3 300"]);
    }

    /// Three gaps of 30 us: after a synchronization, in the refill after it, and after an op that was launched in time.
    #[test]
    fn the_cost_of_a_blocking_call_is_the_idle_time_directly_after_it() {
        let mut trace = TestTrace::nsys();
        trace.in_us().launch(0..1).launches("k", 10..20).call("cudaStreamSynchronize", 15..21);
        trace.launch(48..50).launches("k", 50..60).launch(88..90).launches("k", 90..200);
        trace.launch(110..120).launches("k", 200..210).launch(235..240).launches("k", 240..250);
        // The final synchronization of the capture.
        let sections = trace.call("cudaDeviceSynchronize", 245..260).sections();
        let columns = ["api_name", "idle_after_ms"];
        let expected = ["cudaDeviceSynchronize 0", "cudaStreamSynchronize 0.03"];
        assert_eq!(rows(&sections, "sync", &columns), expected);
        assert_eq!(rows(&sections, "barriers", &columns)[1..], expected);
    }

    #[test]
    fn launcher_gaps_are_measured_per_thread() {
        let mut trace = TestTrace::nsys();
        // Thread 1 leaves 80 us and 49 us, thread 2 90 us in the same time, thread 3 launches once.
        trace.in_us().thread(1).launch(0..10).launch(90..100).launch(149..150);
        trace.thread(2).launch(5..20).launch(110..120).thread(3).launch(50..51);
        assert_eq!(barrier_rows(&mut trace), ["cpu_launcher_gap cpu_launcher_gap 2 0.17 90"]);
    }

    #[test]
    fn launcher_gaps_exclude_blocked_time_and_idle_time() {
        let mut trace = TestTrace::nsys();
        // 20 us, 500 us blocked with a driver call inside, 30 us: a gap of 50 us.
        trace.in_us().launch(0..10).call("cudaStreamSynchronize", 30..530).call("cuStreamSynchronize", 40..520);
        // A second without a launch is idle time, not a barrier.
        trace.call("cudaGraphLaunch", 560..600).launch(1_000_600..1_000_601);
        let sections = trace.sections();
        let columns = ["api_name", "count", "total_time_ms"];
        let expected = ["cudaStreamSynchronize 1 0.5", "cuStreamSynchronize 1 0.48", "cpu_launcher_gap 1 0.05"];
        assert_eq!(rows(&sections, "barriers", &columns), expected);
        let idle = ["idle_gaps", "idle_gap_time_ms"].map(|name| figure(&sections, "barriers", name));
        assert_eq!(idle, [1.0, 1000.0]);
        assert_eq!(figure(&sections, "sync", "sync_total_time_ms"), 0.5, "a nested call counts once");
    }

    #[test]
    fn calls_that_do_not_block_are_counted_separately() {
        let mut trace = TestTrace::nsys();
        trace.call("cudaStreamWaitEvent_v3020", 0..1_000).call("cudaEventQuery", 0..1_000);
        trace.call("cudaMemcpyAsync", 0..1_000).call("cudaMemcpy_v3020", 0..1_000);
        let sections = trace.call("cudaEventSynchronize", 0..1_000).sections();
        assert_eq!(rows(&sections, "sync", &["api_name"]), ["cudaEventSynchronize"]);
        assert_eq!(rows(&sections, "sync_by_pid", &["pid", "api_name"]), ["1 cudaEventSynchronize"]);
        assert_eq!(figure(&sections, "sync", "non_blocking_calls"), 2.0);
        let barriers = rows(&sections, "barriers", &["barrier_kind", "api_name"]);
        assert_eq!(barriers, ["sync_api cudaEventSynchronize", "blocking_memcpy cudaMemcpy_v3020"]);
    }

    /// A trace with these waits: process, name, count, total and longest time in milliseconds.
    fn waiting(waits: &[(u32, &str, u64, i64, i64)]) -> TestTrace {
        let mut trace = TestTrace::nsys();
        for &(process, name, count, total, longest) in waits {
            let (total, longest) = (Ns(total * 1_000_000), Ns(longest * 1_000_000));
            let wait = HostWait { process: ProcessId(process), name: name.into(), count, total, longest };
            trace.builder.trace.host_waits.push(wait);
        }
        trace
    }

    #[test]
    fn operating_system_waits_are_summed_over_processes() {
        let mut trace = waiting(&[(0, "poll", 2, 3, 2), (1, "poll", 2, 1, 1)]);
        assert_eq!(barrier_rows(&mut trace), ["host_wait poll 4 4 2000"]);
    }

    #[test]
    fn operating_system_calls_that_do_not_wait_are_counted_separately() {
        let mut trace = waiting(&[(0, "ioctl", 3, 5, 5), (0, "sem_timedwait", 3, 2, 2), (0, "epoll_ctl", 3, 1, 1)]);
        let sections = trace.sections();
        assert_eq!(rows(&sections, "barriers", &["barrier_kind", "api_name"]), ["host_wait sem_timedwait"]);
        let figures = ["other_os_calls", "other_os_time_ms"].map(|name| figure(&sections, "barriers", name));
        assert_eq!(figures, [6.0, 6.0]);
    }
}
