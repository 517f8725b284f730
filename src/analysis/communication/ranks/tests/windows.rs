//! Ranks in a window: hand-worked, beside the trace that is cut there, side by side, and on the clocks of real ranks.

use super::*;
use crate::trace::Window;

fn window(start: i64, end: i64) -> Window {
    Window { start: Ns(start), end: Ns(end) }
}

fn seen<'a>(logs: &'a [RankLog], parts: &'a [Option<RankPart>]) -> Vec<Seen<'a>> {
    logs.iter().zip(parts).map(|(log, part)| Seen { log, part: part.as_ref() }).collect()
}

/// All ranks in the same window.
fn grouped_in(traces: &[Trace], window: Window) -> Ranks {
    let logs: Vec<RankLog> = traces.iter().map(log).collect();
    let parts: Vec<Option<RankPart>> = traces.iter().map(|trace| Some(part(trace, window))).collect();
    ranks(&seen(&logs, &parts))
}

/// See [`two_ranks`]: the window cuts the first all-reduce of rank 0 in its waiting and what both compute last.
#[test]
fn a_window_of_two_ranks_is_told_as_worked_out_by_hand() {
    let traces = two_traces();
    let logs: Vec<RankLog> = traces.iter().map(log).collect();
    let picked = Jobs::of(&logs.iter().collect::<Vec<_>>()).windows(0, window(140, 310));
    assert_eq!(picked, [(0, Some(window(140, 310))), (1, Some(window(5_140, 5_310)))]);
    let parts: Vec<Option<RankPart>> =
        traces.iter().zip(picked).map(|(trace, (_, picked))| Some(part(trace, picked?))).collect();
    let found = ranks(&seen(&logs, &parts));
    let [job] = found.jobs.as_slice() else { panic!("{found:?}") };
    assert_eq!((job.window_ns, job.matched, job.unmatched, job.windows), (170, 2, 0, Windows::Picked));
    let [first, second] = job.ranks.as_slice() else { panic!("{job:?}") };
    // Rank 0: 20 of its 60 ns of waiting, two transfers, 100 + 10 ns of compute. Rank 1: 20 + 100 + 10 ns of compute.
    assert_eq!(super::parts(first.parts), [110, 0, 0, 40, 20, 0, 0, 0]);
    assert_eq!(super::parts(second.parts), [130, 0, 0, 40, 0, 0, 0, 0]);
    assert_eq!((first.wait_ns, first.transfer_ns, first.communication_ns, first.busy_ns), (20, 40, 60, 170));
    assert_eq!((second.times_last, second.waited_for_ns, second.collectives), (1, 20, 2));
    assert!((second.waited_for_pct - 100.0 * 20.0 / 60.0).abs() < 1e-12);
    let told = &found.sections["rank_collectives"].rows[0];
    let number = |key: &str| told.get(key).and_then(|value| value.number()).unwrap();
    assert_eq!((number("calls_matched"), number("total_time_ns")), (2.0, 100.0));
    assert_eq!((number("transfer_ns"), number("wait_ns"), number("worst_wait_ns")), (40.0, 20.0, 20.0));
}

/// The first all-reduce of rank 0 begins at 100, that of rank 1 at 5,160.
#[test]
fn who_is_waited_for_in_a_window_may_come_behind_it() {
    let found = grouped_in(&two_traces(), window(0, 150));
    assert_eq!(found.jobs[0].ranks[0].wait_ns, 50);
    let late = found.jobs[0].straggler().unwrap();
    assert_eq!((late.label.as_str(), late.times_last, late.collectives, late.waited_for_ns), ("rank 1", 1, 1, 50));
}

#[test]
fn where_a_window_is_picked_in_some_traces_alone_whole_traces_are_compared_and_it_is_said() {
    let traces = two_traces();
    let logs: Vec<RankLog> = traces.iter().map(log).collect();
    let found = ranks(&seen(&logs, &[Some(part(&traces[0], window(140, 310))), None]));
    assert_eq!(found.jobs[0].windows, Windows::Some);
    assert_eq!(
        Ranks { jobs: vec![Job { windows: Windows::None, ..found.jobs[0].clone() }], ..found.clone() }.jobs,
        grouped(&logs).jobs
    );
    let limits = &found.sections["ranks"].limits;
    assert!(limits.iter().any(|limit| limit.starts_with("Whole traces are compared")), "{limits:?}");
}

/// Clocks that run apart: each collective says anew what the other one shows.
#[test]
fn a_time_is_told_from_the_nearest_collective_and_not_at_all_without_one() {
    let rank = |rank: u32, ends: [i64; 2]| {
        let ops = ends.map(|end| (ALL_REDUCE, end - 100, 100, Some(64)));
        log_of(&format!("rank{rank}.json"), Some((rank, 3)), &ops)
    };
    let alone = log_of("rank2.json", Some((2, 3)), &[(GEMM, 0, 100_000, None)]);
    let other = log_of("another.json", None, &[(GEMM, 0, 100_000, None)]);
    let logs = [other, rank(0, [1_000, 50_000]), rank(1, [11_000, 60_700]), alone];
    let logs = logs.each_ref();
    let jobs = Jobs::of(&logs);
    let first = (1, Some(window(1_200, 49_990)));
    // Offsets are 10,000 and 10,700.
    let second = (2, Some(window(11_200, 60_690)));
    assert_eq!(jobs.windows(1, window(1_200, 49_990)), [first, second, (3, None)]);
    assert_eq!(jobs.windows(2, window(11_200, 60_690)), [first, second, (3, None)]);
    // What lies outside the other trace is cut, or is nothing.
    assert_eq!(jobs.windows(1, window(0, 50_000))[1], (2, Some(window(10_900, 60_700))));
    assert_eq!(jobs.windows(1, window(50_000, 60_000))[1], (2, None));
    assert_eq!(jobs.windows(0, window(0, 50_000)), [], "it is of no job");
    assert_eq!(jobs.firsts().collect::<Vec<_>>(), [1]);
}

proptest! {
    /// Cutting the trace is another way to the same times.
    #[test]
    fn a_rank_spends_a_window_as_the_trace_that_is_cut_there_says(traces in traces(), from in 0_i64..9_000, length in 1_i64..4_000) {
        for trace in &traces {
            let window = window(from, from + length);
            let own = part(trace, window);
            let cut = log(&trace.within(window));
            let whole = log(trace);
            prop_assert_eq!(own.exposed.len() * CALL, whole.calls.len());
            prop_assert_eq!(own.exposed.iter().sum::<i64>(), cut.calls.chunks(CALL).map(|call| call[6]).sum::<i64>());
            prop_assert_eq!(own.times.len(), TIMES * whole.devices.len());
            if let Some(own) = own.times.first_chunk::<TIMES>() {
                prop_assert_eq!(own[0], length);
                // A cut trace in which nothing but copies is left holds no rank.
                let first = if cut.times.is_empty() { 2 } else { 1 };
                prop_assert_eq!(&own[first..], cut.times.get(first..TIMES).unwrap_or(&[0; TIMES - 2]));
            }
        }
    }

    #[test]
    fn windows_side_by_side_hold_all_time_of_all_ranks(traces in traces(), cuts in prop::collection::vec(0_i64..10_000, 0..4)) {
        let mut edges: Vec<i64> = cuts.into_iter().chain([0, 10_000]).collect();
        edges.sort_unstable();
        edges.dedup();
        let whole = grouped(&traces.iter().map(log).collect::<Vec<_>>());
        let pieces: Vec<Ranks> = edges.windows(2).map(|edges| grouped_in(&traces, window(edges[0], edges[1]))).collect();
        for (at, job) in whole.jobs.iter().enumerate() {
            for (rank, of_whole) in job.ranks.iter().enumerate() {
                let sum = |of: &dyn Fn(&Rank) -> i64| pieces.iter().map(|piece| of(&piece.jobs[at].ranks[rank])).sum::<i64>();
                let columns: [fn(&Rank) -> i64; 5] = [
                    |rank| rank.busy_ns,
                    |rank| rank.compute_ns,
                    |rank| rank.communication_ns,
                    |rank| rank.wait_ns,
                    |rank| rank.transfer_ns,
                ];
                for of in columns {
                    prop_assert_eq!(sum(&of), of(of_whole));
                }
                prop_assert_eq!(sum(&|rank| rank.wall_ns), 10_000);
                prop_assert_eq!(sum(&|rank| super::parts(rank.parts).iter().sum()), 10_000);
                prop_assert!(pieces.iter().all(|piece| super::parts(piece.jobs[at].ranks[rank].parts).iter().all(|part| *part >= 0)));
            }
        }
    }
}

/// The eight ranks share a clock, which nothing here looks at: on it a window of one rank has to be the window of all.
#[test]
fn windows_of_real_ranks_on_one_clock_are_the_same_to_microseconds() {
    let Some(folder) = shared("torch/dlrm_v100_8ranks") else { return };
    let traces: Vec<Trace> = (0..8).map(|rank| read(&folder.join(format!("rank{rank}.pt.trace.json.gz")))).collect();
    let logs: Vec<RankLog> = traces.iter().map(log).collect();
    let span = logs[0].span().unwrap();
    let picked = window(span.start.0 + 2_000_000, span.start.0 + 9_000_000);
    let found = Jobs::of(&logs.iter().collect::<Vec<_>>()).windows(0, picked);
    assert_eq!(found.len(), 8);
    for ((_, found), log) in found.into_iter().zip(&logs) {
        let (found, own) = (found.unwrap(), log.span().unwrap());
        let apart = [found.start - picked.start.max(own.start), found.end - picked.end.min(own.end)];
        assert!(apart.iter().all(|apart| apart.0.abs() <= 8_000), "{apart:?}");
    }
}
