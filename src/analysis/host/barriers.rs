//! Host threads that wait: blocking API calls, waits in the operating system, and gaps between the launches
//! of a thread. From the sums of [`HostCalls`](crate::analysis::host::calls::HostCalls); the cost depends
//! only on the number of distinct calls.

use crate::analysis::context::Context;
use crate::analysis::host::calls::LauncherGaps;
use crate::analysis::labels;
use crate::analysis::measure::tally::{Tallies, Tally, key};
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Answer, Ms, Stated, TypedSection, Us, Value, section, words};
use crate::trace::{BlockingSite, Format, NameId, Names, Ns, ProcessId};
use crate::words::idle;

section! {
    /// Synchronizing calls that block their thread, by name.
    pub(crate) struct Sync("sync", "Synchronizing calls");
    row SyncRow {
        api_name: String = "Call",
        call_count: u64 = "Calls",
        total_time_ms: Ms = "Total",
        avg_duration_us: Us = "Mean",
        idle_after_ms: Ms = "GPU idle after",
        call_site: Option<String>,
    }
    figures SyncFigures {
        /// Unlike the sum of the rows, it has nested calls once.
        sync_total_time_ms: Ms,
        non_blocking_calls: Stated<u64>,
        non_blocking_time_ms: Stated<Ms>,
    }
}

section! {
    /// Synchronizing calls that block their thread, by process and name.
    pub(crate) struct SyncByPid("sync_by_pid", "Synchronizing calls by process");
    row SyncByPidRow {
        pid: Value,
        api_name: String = "Call",
        call_count: u64 = "Calls",
        total_time_ms: Ms = "Total",
        avg_duration_us: Us = "Mean",
    }
}

section! {
    /// Blocking calls, waits in the operating system and launcher gaps, the largest total time first.
    pub(crate) struct Barriers("barriers", "Barriers between CPU and GPU");
    row BarrierRow {
        barrier_kind: BarrierKind = "Kind",
        api_name: String = "Call",
        count: u64,
        total_time_ms: Ms = "Total",
        avg_duration_us: Us = "Mean",
        max_duration_us: Us = "Max",
        idle_after_ms: Option<Ms> = "GPU idle after",
        call_site: Option<String>,
    }
    figures BarrierFigures {
        other_os_calls: Stated<u64>,
        other_os_time_ms: Stated<Ms>,
        launcher_gap_threshold_us: Us,
        launcher_idle_threshold_us: Us,
        idle_gaps: u64,
        idle_gap_time_ms: Ms,
    }
}

/// What a thread waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum BarrierKind {
    Synchronization,
    BlockingCopy,
    HostWait,
    LauncherGap,
    /// A word of another version.
    #[default]
    Other,
}

words!(
    BarrierKind:
    Synchronization = "sync_api",
    BlockingCopy = "blocking_memcpy",
    HostWait = "host_wait",
    LauncherGap = "cpu_launcher_gap",
    Other = "",
);

impl BarrierKind {
    /// The kind with this number.
    fn of_number(number: u32) -> Self {
        let all = [Self::Synchronization, Self::BlockingCopy, Self::HostWait, Self::LauncherGap];
        all.get(number as usize).copied().unwrap_or_default()
    }
}

const IDLE_AFTER: &str = "idle_after_ms is the idle time of the GPU from the moment at which it ran empty during such a call, \
                          to its next op; on the device where it is longest. Later gaps in which launches are still late \
                          are not counted.";
const CALL_SITE: &str = "call_site is the innermost CPU op and Python frame around the calls with the most idle time after \
                         them. It is looked up if the trace records CPU ops or Python stacks and the idle time after \
                         blocking calls is at least 0.1 ms and 0.1 % of the busy time of the GPU.";
const SYNC_ROWS: usize = 200;
const BARRIER_ROWS: usize = 50;

fn no_calls<S: TypedSection>(context: &Context) -> Answer<S> {
    context.lacks("The trace contains no GPU API calls.", MissingData::Calls)
}

pub(crate) fn sync(context: &Context) -> Answer<Sync> {
    let trace = context.trace;
    if trace.calls.is_empty() {
        return no_calls(context);
    }
    let host = context.host();
    let blocking = host.synchronizing.summed_by_low_number();
    // The reader of torch traces skips such calls, so a count of zero would be wrong.
    let non_blocking = Some(host.non_blocking).filter(|_| trace.format != Format::TorchProfiler);
    let ranked = blocking.by_time(&|tally| trace.calls.names.get(NameId(tally.member())));
    let mut answer = Sync::answer("durations of API calls, by name")
        .limit("Non-blocking calls, such as event queries, have no row. In Nsight Systems exports they are counted.")
        .limit("Times are summed over threads. The total counts a driver call inside a runtime call only once.")
        .limit(IDLE_AFTER)
        .limit(CALL_SITE)
        .with_figures(SyncFigures {
            sync_total_time_ms: host.synchronizing_time.into(),
            non_blocking_calls: Stated(non_blocking.map(|calls| calls.count)),
            non_blocking_time_ms: Stated(non_blocking.map(|calls| calls.total.into())),
        })
        .with_rows(ranked.iter().take(SYNC_ROWS).map(|tally| {
            let api_name = trace.calls.names.get(NameId(tally.member())).to_owned();
            let (idle_after_ms, call_site) = idle_after(context, &api_name);
            SyncRow {
                api_name,
                call_count: tally.count,
                total_time_ms: tally.total.into(),
                avg_duration_us: tally.mean(),
                idle_after_ms,
                call_site,
            }
        }));
    answer.rows_in_all = ranked.len() as u64;
    answer
}

/// `idle_after_ms` and `call_site` of the calls of this name.
fn idle_after(context: &Context, call: &str) -> (Ms, Option<String>) {
    let (trace, survey) = (context.trace, context.survey());
    let site = survey.costliest_site(call, &trace.calls.names).and_then(|site| trace.blocking_sites.get(site));
    (survey.idle_after(call, &trace.calls.names).into(), site.map(BlockingSite::text))
}

pub(crate) fn sync_by_pid(context: &Context) -> Answer<SyncByPid> {
    let trace = context.trace;
    if trace.calls.is_empty() {
        return no_calls(context);
    }
    let ranked = context.host().synchronizing.by_time(&|tally| trace.calls.names.get(NameId(tally.member())));
    let mut answer = SyncByPid::answer("durations of API calls, by process and name").with_rows(
        ranked.iter().take(SYNC_ROWS).map(|tally| SyncByPidRow {
            pid: labels::pid(trace, ProcessId(tally.group())),
            api_name: trace.calls.names.get(NameId(tally.member())).to_owned(),
            call_count: tally.count,
            total_time_ms: tally.total.into(),
            avg_duration_us: tally.mean(),
        }),
    );
    answer.rows_in_all = ranked.len() as u64;
    answer
}

pub(crate) fn barriers(context: &Context) -> Answer<Barriers> {
    let trace = context.trace;
    if trace.calls.is_empty() && trace.host_waits.is_empty() {
        return no_calls(context);
    }
    let (mut barriers, mut names) = (Tallies::default(), Names::default());
    let host = context.host();
    for (kind, calls) in
        [(BarrierKind::Synchronization, &host.synchronizing), (BarrierKind::BlockingCopy, &host.copying)]
    {
        for tally in calls.iter() {
            let name = names.intern(trace.calls.names.get(NameId(tally.member())));
            barriers.merge(&Tally { key: key(kind as u32, name.0), ..*tally });
        }
    }
    for wait in trace.host_waits.iter().filter(|wait| context.signals.is_host_wait(&wait.name)) {
        let key = key(BarrierKind::HostWait as u32, names.intern(&wait.name).0);
        barriers.merge(&Tally { key, count: wait.count, total: wait.total, longest: wait.longest, ..Tally::default() });
    }
    let launcher_gaps = &host.gaps;
    if launcher_gaps.gaps.count > 0 {
        let kind = BarrierKind::LauncherGap;
        barriers.merge(&Tally { key: key(kind as u32, names.intern(kind.word()).0), ..launcher_gaps.gaps });
    }
    let ranked = barriers.by_time(&|tally| names.get(NameId(tally.member())));
    let mut answer =
        barriers_without_rows(context, launcher_gaps).with_rows(ranked.iter().take(BARRIER_ROWS).map(|tally| {
            let (barrier_kind, name) = (BarrierKind::of_number(tally.group()), names.get(NameId(tally.member())));
            let is_call = matches!(barrier_kind, BarrierKind::Synchronization | BarrierKind::BlockingCopy);
            let (idle_after_ms, call_site) = is_call.then(|| idle_after(context, name)).unzip();
            BarrierRow {
                barrier_kind,
                api_name: name.to_owned(),
                count: tally.count,
                total_time_ms: tally.total.into(),
                avg_duration_us: tally.mean(),
                max_duration_us: tally.longest.into(),
                idle_after_ms,
                call_site: call_site.flatten(),
            }
        }));
    answer.rows_in_all = ranked.len() as u64;
    answer
}

fn barriers_without_rows(context: &Context, launcher_gaps: &LauncherGaps) -> Answer<Barriers> {
    let (trace, thresholds) = (context.trace, &context.signals.thresholds);
    let (min_us, max_us) = (thresholds.launcher_gap_us, thresholds.launcher_idle_us);
    let other_calls = || trace.host_waits.iter().filter(|wait| !context.signals.is_host_wait(&wait.name));
    let has_waits = !trace.host_waits.is_empty();
    Barriers::answer("durations of API calls, launch gaps and operating system waits")
        .limit("Times are sums over threads that may wait at the same time, so they do not add up to wall time.")
        .limit(IDLE_AFTER)
        .limit(CALL_SITE)
        .limit(idle::launcher_gaps(Us(min_us), Us(max_us)))
        .limit(
            "A blocking copy is inferred from the name of the call: copies within a device may return immediately. An \
             asynchronous copy from or to pageable memory counts if its call returned after the copy had ended.",
        )
        .limit(if has_waits {
            "Host waits include threads without work, for example a thread that waits for a request in poll or futex."
        } else {
            "The trace does not record waits in the operating system."
        })
        .with_figures(BarrierFigures {
            other_os_calls: Stated(has_waits.then(|| other_calls().map(|wait| wait.count).sum())),
            other_os_time_ms: Stated(
                has_waits.then(|| other_calls().fold(Ns::ZERO, |sum, wait| sum + wait.total).into()),
            ),
            launcher_gap_threshold_us: Us(min_us),
            launcher_idle_threshold_us: Us(max_us),
            idle_gaps: launcher_gaps.idle.count,
            idle_gap_time_ms: launcher_gaps.idle.total.into(),
        })
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
