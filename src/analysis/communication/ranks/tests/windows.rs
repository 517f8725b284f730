//! Ranks in a window: values computed by hand, comparison with a cut trace, adjacent windows, and the clocks of real ranks.

use super::*;
use crate::trace::Window;

fn window(start: i64, end: i64) -> Window {
    Window { start: Ns(start), end: Ns(end) }
}

fn inputs<'a>(logs: &'a [RankLog], windows: &'a [Option<RankWindow>]) -> Vec<RankInput<'a>> {
    logs.iter().zip(windows).map(|(log, window)| RankInput { log, window: window.as_ref() }).collect()
}

/// Groups all ranks within the same window.
fn grouped_in(traces: &[Trace], window: Window) -> Ranks {
    let logs: Vec<RankLog> = traces.iter().map(log).collect();
    let windows: Vec<Option<RankWindow>> = traces.iter().map(|trace| Some(window_log(trace, window))).collect();
    ranks(&inputs(&logs, &windows))
}

/// See [`two_traces`]: the window cuts rank 0 while it waits in the first all-reduce, and both ranks in their last compute.
#[test]
fn times_in_a_window_match_hand_computed_values() {
    let traces = two_traces();
    let logs: Vec<RankLog> = traces.iter().map(log).collect();
    let picked = JobClocks::new(&logs.iter().collect::<Vec<_>>()).windows(0, window(140, 310));
    assert_eq!(picked, [(0, Some(window(140, 310))), (1, Some(window(5_140, 5_310)))]);
    let windows: Vec<Option<RankWindow>> =
        traces.iter().zip(picked).map(|(trace, (_, picked))| Some(window_log(trace, picked?))).collect();
    let found = ranks(&inputs(&logs, &windows));
    let [job] = found.jobs.as_slice() else { panic!("{found:?}") };
    assert_eq!((job.window_ns, job.matched, job.unmatched, job.windows), (170, 2, 0, WindowSelection::All));
    let [first, second] = job.ranks.as_slice() else { panic!("{job:?}") };
    // Rank 0: 20 of its 60 ns of waiting, two transfers, 100 + 10 ns of compute. Rank 1: two transfers, 20 + 100 + 10 ns of compute.
    assert_eq!(super::parts(first.parts), [110, 0, 0, 40, 20, 0, 0, 0]);
    assert_eq!(super::parts(second.parts), [130, 0, 0, 40, 0, 0, 0, 0]);
    assert_eq!((first.wait_ns, first.transfer_ns, first.communication_ns, first.busy_ns), (20, 40, 60, 170));
    assert_eq!((second.times_last, second.waited_for_ns, second.collectives), (1, 20, 2));
    assert!((second.waited_for_pct - 100.0 * 20.0 / 60.0).abs() < 1e-12);
    let row = &found.sections["rank_collectives"].rows[0];
    let columns = ["calls_matched", "total_time_ns", "transfer_ns", "wait_ns", "worst_wait_ns"];
    assert_eq!(columns.map(|column| number(row, column)), [2.0, 100.0, 40.0, 20.0, 20.0]);
}

/// The first all-reduce of rank 0 begins at 100, that of rank 1 at 5,160, which is 160 on the clock of rank 0.
#[test]
fn a_rank_waits_from_its_own_arrival_to_that_of_the_last_rank() {
    let logs: Vec<RankLog> = two_traces().iter().map(log).collect();
    let logs: Vec<&RankLog> = logs.iter().collect();
    let clocks = JobClocks::new(&logs);
    let wait = RankWait { start: Ns(100), until: Ns(160), rank: "rank 1".to_owned() };
    let last = RankWait { start: Ns(5_340), until: Ns(5_400), rank: "rank 0".to_owned() };
    assert_eq!(clocks.waits(), [vec![wait], vec![last]]);
    assert_eq!(clocks.times(0, Ns(160)), [(0, Ns(160)), (1, Ns(5_160))]);
    assert_eq!(clocks.times(1, Ns(5_160)), [(0, Ns(160)), (1, Ns(5_160))]);
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_waits_of_real_ranks_add_up_to_those_of_their_rows() {
    let traces = eight_ranks();
    let logs: Vec<RankLog> = traces.iter().map(log).collect();
    let waits = JobClocks::new(&logs.iter().collect::<Vec<_>>()).waits();
    let sums: Vec<i64> =
        waits.iter().map(|waits| waits.iter().map(|wait| wait.until.since(wait.start).0).sum()).collect();
    let expected: Vec<i64> = super::grouped(&logs).jobs[0].ranks.iter().map(|rank| rank.wait_ns).collect();
    assert!(sums.iter().sum::<i64>() > 0);
    assert_eq!(sums, expected);
}

/// The first all-reduce of rank 0 begins at 100, that of rank 1 at 5,160.
#[test]
fn the_straggler_of_a_window_may_arrive_after_the_window() {
    let found = grouped_in(&two_traces(), window(0, 150));
    assert_eq!(found.jobs[0].ranks[0].wait_ns, 50);
    let late = found.jobs[0].straggler().unwrap();
    assert_eq!((late.label.as_str(), late.times_last, late.collectives, late.waited_for_ns), ("rank 1", 1, 1, 50));
}

#[test]
fn whole_traces_are_compared_if_only_some_have_a_window() {
    let traces = two_traces();
    let logs: Vec<RankLog> = traces.iter().map(log).collect();
    let found = ranks(&inputs(&logs, &[Some(window_log(&traces[0], window(140, 310))), None]));
    assert_eq!(found.jobs[0].windows, WindowSelection::Partial);
    assert_eq!(
        Ranks { jobs: vec![Job { windows: WindowSelection::None, ..found.jobs[0].clone() }], ..found.clone() }.jobs,
        grouped(&logs).jobs
    );
    let limits = &found.sections["ranks"].limits;
    assert!(limits.iter().any(|limit| limit.starts_with("Whole traces are compared")), "{limits:?}");
}

/// Clocks that drift: each collective gives a new offset.
#[test]
fn times_are_translated_with_the_offset_of_the_nearest_collective() {
    let rank = |rank: u32, ends: [i64; 2]| {
        let ops = ends.map(|end| (ALL_REDUCE, end - 100, 100, Some(64)));
        log_of_rank(rank, 3, &ops)
    };
    let alone = log_of_rank(2, 3, &[(GEMM, 0, 100_000, None)]);
    let other = log_of("another.json", None, &[(GEMM, 0, 100_000, None)]);
    let logs = [other, rank(0, [1_000, 50_000]), rank(1, [11_000, 60_700]), alone];
    let logs = logs.each_ref();
    let jobs = JobClocks::new(&logs);
    let first = (1, Some(window(1_200, 49_990)));
    // Offsets are 10,000 and 10,700.
    let second = (2, Some(window(11_200, 60_690)));
    assert_eq!(jobs.windows(1, window(1_200, 49_990)), [first, second, (3, None)]);
    assert_eq!(jobs.windows(2, window(11_200, 60_690)), [first, second, (3, None)]);
    // The result is clipped to the time range of the other trace, or empty.
    assert_eq!(jobs.windows(1, window(0, 50_000))[1], (2, Some(window(10_900, 60_700))));
    assert_eq!(jobs.windows(1, window(50_000, 60_000))[1], (2, None));
    assert_eq!(jobs.windows(0, window(0, 50_000)), [], "the log belongs to no job");
    assert_eq!(jobs.first_logs().collect::<Vec<_>>(), [1]);
}

proptest! {
    /// Cutting the trace before the analysis gives the same times.
    #[test]
    fn times_in_a_window_equal_those_of_the_cut_trace(traces in traces(), from in 0_i64..9_000, length in 1_i64..4_000) {
        for trace in &traces {
            let window = window(from, from + length);
            let own = window_log(trace, window);
            let cut = log(&trace.within(window));
            let whole = log(trace);
            prop_assert_eq!(own.exposed.len() * CALL_COLUMNS, whole.calls.len());
            prop_assert_eq!(own.exposed.iter().sum::<i64>(), cut.calls.chunks(CALL_COLUMNS).map(|call| call[6]).sum::<i64>());
            prop_assert_eq!(own.times.len(), TIME_COLUMNS * whole.devices.len());
            if let Some(own) = own.times.first_chunk::<TIME_COLUMNS>() {
                prop_assert_eq!(own[0], length);
                // A cut trace with only copies left has no rank.
                let first = if cut.times.is_empty() { 2 } else { 1 };
                prop_assert_eq!(&own[first..], cut.times.get(first..TIME_COLUMNS).unwrap_or(&[0; TIME_COLUMNS - 2]));
            }
        }
    }

    #[test]
    fn times_in_adjacent_windows_add_up_to_the_whole(traces in traces(), cuts in prop::collection::vec(0_i64..10_000, 0..4)) {
        let mut boundaries: Vec<i64> = cuts.into_iter().chain([0, 10_000]).collect();
        boundaries.sort_unstable();
        boundaries.dedup();
        let whole = grouped(&traces.iter().map(log).collect::<Vec<_>>());
        let in_windows: Vec<Ranks> =
            boundaries.windows(2).map(|ends| grouped_in(&traces, window(ends[0], ends[1]))).collect();
        for (index, job) in whole.jobs.iter().enumerate() {
            for (rank, whole_rank) in job.ranks.iter().enumerate() {
                let own = || in_windows.iter().map(|window| &window.jobs[index].ranks[rank]);
                let sum = |value: &dyn Fn(&Rank) -> i64| own().map(value).sum::<i64>();
                let columns: [fn(&Rank) -> i64; 5] = [
                    |rank| rank.busy_ns,
                    |rank| rank.compute_ns,
                    |rank| rank.communication_ns,
                    |rank| rank.wait_ns,
                    |rank| rank.transfer_ns,
                ];
                for column in columns {
                    prop_assert_eq!(sum(&column), column(whole_rank));
                }
                prop_assert_eq!(sum(&|rank| rank.wall_ns), 10_000);
                prop_assert_eq!(sum(&|rank| super::parts(rank.parts).iter().sum()), 10_000);
                prop_assert!(own().all(|rank| super::parts(rank.parts).iter().all(|part| *part >= 0)));
            }
        }
    }
}

/// The eight ranks share a clock, which the code does not use: a translated window must be the original one.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn translated_windows_of_real_ranks_with_one_clock_differ_by_microseconds() {
    let traces = eight_ranks();
    let logs: Vec<RankLog> = traces.iter().map(log).collect();
    let span = logs[0].span().unwrap();
    let picked = window(span.start.0 + 2_000_000, span.start.0 + 9_000_000);
    let found = JobClocks::new(&logs.iter().collect::<Vec<_>>()).windows(0, picked);
    assert_eq!(found.len(), 8);
    for ((_, found), log) in found.into_iter().zip(&logs) {
        let (found, own) = (found.unwrap(), log.span().unwrap());
        let differences = [found.start - picked.start.max(own.start), found.end - picked.end.min(own.end)];
        assert!(differences.iter().all(|difference| difference.0.abs() <= 8_000), "{differences:?}");
    }
}
