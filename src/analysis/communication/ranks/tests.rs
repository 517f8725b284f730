//! Jobs with results computed by hand, properties, a real job of eight ranks compared with another program, and malformed logs.

mod windows;

use super::*;
use crate::analysis::testing::{number, torch, words};
use crate::json;
use crate::trace::testing::TestTrace;
use crate::trace::{self, Collective, Ns, ProcessGroup, Trace};
use proptest::prelude::*;

const GEMM: &str = "gemm_kernel";
const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";
const SEND_RECV: &str = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";

/// A kernel: name, start, duration, message size in bytes.
type Op<'a> = (&'a str, i64, i64, Option<u64>);

fn rank_trace(file: &str, job: Option<(u32, u32)>, ops: &[Op]) -> TestTrace {
    let mut trace = TestTrace::new();
    let groups = vec![ProcessGroup { name: "tp".into(), ranks: vec![0, 1] }];
    let job = job.map(|(rank, world_size)| trace::Job { rank, world_size, backend: "nccl".into(), groups });
    trace.label(file).builder.trace.job = job.map(Box::new);
    ops.iter().for_each(|op| push(&mut trace, op));
    trace
}

fn push(trace: &mut TestTrace, &(name, start, duration, bytes): &Op) {
    trace.stream(if name == GEMM { 7 } else { 9 }).kernel(name, start..start + duration);
    if bytes.is_some() {
        let operation = if name == ALL_REDUCE { "allreduce" } else { "all_to_all" }.to_owned();
        let communicator = "tp".to_owned();
        let message =
            Collective { operation, bytes_in: bytes, bytes_out: bytes, communicator, ..Collective::default() };
        trace.message(message);
    }
}

fn log_of(file: &str, job: Option<(u32, u32)>, ops: &[Op]) -> RankLog {
    log(&rank_trace(file, job, ops).finish())
}

fn log_of_rank(rank: u32, world_size: u32, ops: &[Op]) -> RankLog {
    log_of(&format!("rank{rank}.json"), Some((rank, world_size)), ops)
}

/// Whether a limit of the job contains these words.
fn has_limit(job: &Job, words: &str) -> bool {
    job.limits.iter().any(|limit| limit.contains(words))
}

fn grouped(logs: &[RankLog]) -> Ranks {
    ranks(&logs.iter().map(|log| RankInput { log, window: None }).collect::<Vec<_>>())
}

fn parts(parts: TimeParts) -> [i64; 8] {
    let TimeParts { compute_ns, hidden_ns, other_ns, transfer_ns, wait_ns, unmatched_ns, idle_ns, outside_ns } = parts;
    [compute_ns, hidden_ns, other_ns, transfer_ns, wait_ns, unmatched_ns, idle_ns, outside_ns]
}

/// Two ranks with three all-reduces. Rank 0 computes 100 ns before each, rank 1 computes 160, 100 and 40 ns. On rank 0, half of
/// the last all-reduce overlaps compute. The clocks differ by 5 us.
fn two_traces() -> [Trace; 2] {
    let trace = |rank, gemms: [(i64, i64); 3], all_reduces: [(i64, i64); 3]| {
        let gemms = gemms.map(|(start, duration)| (GEMM, start, duration, None));
        let all_reduces = all_reduces.map(|(start, duration)| (ALL_REDUCE, start, duration, Some(64)));
        rank_trace(&format!("rank{rank}.json"), Some((rank, 2)), &[gemms, all_reduces].concat()).finish()
    };
    [
        trace(0, [(0, 100), (180, 100), (300, 110)], [(100, 80), (280, 20), (400, 20)]),
        trace(1, [(5_000, 160), (5_180, 100), (5_300, 40)], [(5_160, 20), (5_280, 20), (5_340, 80)]),
    ]
}

#[test]
fn waiting_and_transfer_of_two_ranks_match_hand_computed_values() {
    let found = grouped(&two_traces().each_ref().map(log));
    let [job] = found.jobs.as_slice() else { panic!("{found:?}") };
    assert_eq!((job.title.as_str(), job.window_ns, job.matched, job.unmatched), ("rank#.json", 420, 3, 0));
    let [first, second] = job.ranks.as_slice() else { panic!("{job:?}") };
    // First all-reduce: 80 and 20 ns, rank 0 waits 60. Second: no rank waits. Third: 20 and 80 ns, rank 1 waits 60.
    assert_eq!((first.communication_ns, first.wait_ns, first.transfer_ns), (120, 60, 60));
    assert_eq!((second.communication_ns, second.wait_ns, second.transfer_ns), (120, 60, 60));
    assert_eq!((first.times_last, first.waited_for_ns, first.waited_for_pct), (1, 60, 50.0));
    assert_eq!((second.times_last, second.waited_for_ns, second.waited_for_pct), (1, 60, 50.0));
    assert_eq!([first, second].map(|rank| rank.delay.gain_ns), [60, 60]);
    // Rank 0 computes 310 ns, 10 of them during the third all-reduce; the other 10 ns of it are exposed transfer.
    assert_eq!(parts(first.parts), [300, 10, 0, 50, 60, 0, 0, 0]);
    assert_eq!(parts(second.parts), [300, 0, 0, 60, 60, 0, 0, 0]);
    assert_eq!(found.ungrouped, []);
    let waits = &found.sections["rank_waits"];
    assert_eq!(waits.rows.len(), 2);
    let row = &found.sections["rank_collectives"].rows[0];
    let columns = ["calls_matched", "transfer_ns", "wait_ns", "wait_pct", "worst_wait_ns"];
    assert_eq!(columns.map(|column| number(row, column)), [3.0, 60.0, 120.0, 50.0, 60.0]);
    assert_eq!(words(row, "process_group"), "tp");
}

#[test]
fn a_rank_that_always_arrives_last_is_the_straggler() {
    let rank = |rank: u32, duration| {
        log_of_rank(rank, 3, &[0, 1_000, 2_000, 3_000].map(|start| (ALL_REDUCE, start, duration, None)))
    };
    let found = grouped(&[rank(0, 100), rank(1, 90), rank(2, 40)]);
    let job = &found.jobs[0];
    let late = job.straggler().unwrap();
    // The others spend 4 * 190 ns in collectives. Rank 0 waits 60 ns for rank 2 and rank 1 waits 50 ns. Both wait for it alone
    // for 50 ns.
    assert_eq!((late.label.as_str(), late.times_last, late.waited_for_ns), ("rank 2", 4, 4 * (60 + 50)));
    assert_eq!(late.delay.alone_ns, 4 * 2 * 50);
    // Then rank 1 is the last one.
    assert_eq!(late.delay.gain_ns, 4 * 50);
    assert!((late.waited_for_pct - 100.0 * 440.0 / 760.0).abs() < 1e-12);
    assert_eq!(job.ranks.iter().map(|rank| rank.waited_for_ns).collect::<Vec<_>>(), [0, 0, 440]);
    assert_eq!(job.ranks.iter().filter(|rank| rank.is_straggler).count(), 1);
    assert!(has_limit(job, "do not name process groups"), "{:?}", job.limits);
}

#[test]
fn a_job_gains_nothing_from_waiting_that_compute_hides() {
    let ops = [(GEMM, 0, 100, None), (ALL_REDUCE, 0, 100, None)];
    let found = grouped(&[log_of_rank(0, 2, &ops), log_of_rank(1, 2, &[(ALL_REDUCE, 0, 10, None)])]);
    let delay = found.jobs[0].ranks[1].delay;
    assert_eq!((delay.total_ns, delay.alone_ns, delay.gain_ns), (90, 90, 0));
}

/// Two ranks with the same all-reduces. Before each, rank 0 computes 100 ns at once. `late` adds the ops of rank 1 before the
/// all-reduce at the given time, which ends 10 ns later on both ranks.
fn late_rank(late: &dyn Fn(&mut TestTrace, i64, i64)) -> Job {
    let mut traces = [0, 1].map(|rank| rank_trace(&format!("rank{rank}.json"), Some((rank, 2)), &[]));
    let [first, second] = &mut traces;
    for start in (0..4).map(|index| index * 1_000) {
        first.stream(7).call("cudaLaunchKernel", start..start + 1).launches(GEMM, start + 2..start + 102);
        first.stream(9).call("cudaLaunchKernel", start + 5..start + 6).launches(ALL_REDUCE, start + 102..start + 1_000);
        second.stream(7);
        late(second, start, start + 990);
        second.stream(9).launches(ALL_REDUCE, start + 990..start + 1_000);
    }
    grouped(&traces.map(|mut trace| log(&trace.finish()))).jobs.remove(0)
}

#[test]
fn a_late_rank_has_a_cause_with_the_time_of_each_other_rank() {
    // Rank 0 waits 888 ns in each of four collectives.
    let host = late_rank(&|trace, start, end| {
        trace.call("cudaLaunchKernel", start..start + 1).launches(GEMM, start + 2..start + 102);
        trace.call("cudaLaunchKernel", end - 2..end - 1);
    });
    let rank = host.straggler().unwrap();
    assert_eq!((rank.label.as_str(), host.per_other_rank(rank.delay.total_ns)), ("rank 1", 4 * 888));
    assert_eq!(
        (rank.delay.host_late_ns, rank.delay.work_ns, rank.delay.communication_ns),
        (4 * 887, 0, 0),
        "1 ns passes after the launch"
    );
    let work = late_rank(&|trace, start, end| {
        trace.call("cudaLaunchKernel", start..start + 1).launches(GEMM, start + 2..end);
        trace.call("cudaLaunchKernel", start + 5..start + 6);
    });
    let rank = work.straggler().unwrap();
    assert_eq!((rank.delay.host_late_ns, rank.delay.work_ns, rank.delay.unknown_ns), (0, 4 * 888, 0));
    let slow = rank.slow_kernel.as_ref().unwrap();
    assert_eq!((slow.name.as_str(), slow.time_ns, slow.others_ns), (GEMM, 4 * 988, 400));
    // The all-reduce was launched long before it starts, and nothing runs.
    let unclear = late_rank(&|trace, start, _| {
        trace.call("cudaLaunchKernel", start..start + 1).launches(GEMM, start + 2..start + 102);
        trace.call("cudaLaunchKernel", start + 5..start + 6);
    });
    let delay = unclear.straggler().unwrap().delay;
    assert_eq!((delay.host_late_ns, delay.work_ns, delay.unknown_ns), (0, 0, 4 * 888));
}

/// Gradients in two buckets: the second half of the work runs during the all-reduce of the first. The host of rank 1 launches
/// 150 ns late, so its second all-reduce is 100 ns late, too. In time, the ranks would end 150 ns earlier.
#[test]
fn work_that_a_late_host_only_shifts_is_not_called_longer_work() {
    let mut traces = [0, 1].map(|rank| rank_trace(&format!("rank{rank}.json"), Some((rank, 2)), &[]));
    for (trace, late) in traces.iter_mut().zip([0, 150]) {
        trace.stream(7).kernel(GEMM, 0..10);
        trace.call("cudaLaunchKernel", late + 8..late + 10).launches(GEMM, late + 10..late + 110);
        trace.kernel(GEMM, late + 110..late + 310);
        trace.stream(9).kernel(ALL_REDUCE, late + 110..360).kernel(ALL_REDUCE, (late + 310).max(360)..560);
    }
    let job = grouped(&traces.map(|mut trace| log(&trace.finish()))).jobs.remove(0);
    let delay = job.straggler().unwrap().delay;
    assert_eq!((delay.total_ns, delay.host_late_ns, delay.work_ns, delay.unknown_ns), (250, 250, 0, 0));
    assert_eq!((delay.gain_ns, delay.gain_host_ns, delay.gain_work_ns), (150, 150, 0));
}

/// As before, with a third bucket: rank 0 does a part of its work during the first all-reduce already.
#[test]
fn a_rank_that_catches_up_over_several_collectives_does_not_work_longer() {
    let mut traces = [0, 1].map(|rank| rank_trace(&format!("rank{rank}.json"), Some((rank, 2)), &[]));
    for (trace, late) in traces.iter_mut().zip([0, 150]) {
        trace.stream(7).kernel(GEMM, 0..10);
        trace.call("cudaLaunchKernel", late + 8..late + 10).launches(GEMM, late + 10..late + 110);
        trace.kernel(GEMM, late + 110..late + 310).kernel(GEMM, late + 310..late + 510);
        trace.stream(9).kernel(ALL_REDUCE, late + 110..360).kernel(ALL_REDUCE, (late + 310).max(360)..560);
        trace.kernel(ALL_REDUCE, (late + 510).max(560)..760);
    }
    let job = grouped(&traces.map(|mut trace| log(&trace.finish()))).jobs.remove(0);
    let delay = job.straggler().unwrap().delay;
    // Rank 0 waits 150, 100 and 100 ns.
    assert_eq!((delay.total_ns, delay.host_late_ns, delay.work_ns, delay.unknown_ns), (350, 350, 0, 0));
}

#[test]
fn what_ranks_lose_that_are_late_in_turn_is_told() {
    let found = grouped_of_four([[100, 800, 805, 810], [800, 805, 810, 100], [805, 810, 100, 800]]);
    // Each time the median rank waits 705 ns; all traces cover 2,100 ns.
    assert_eq!(found.jobs[0].loss.to_median_ns, 2_100);
    let verdict = crate::report::ranks::verdict(&found).concat();
    assert!(verdict.contains("If no rank came after the median one, the job would gain at most 2.10 us"), "{verdict}");
}

/// In each layer another rank has 30 ns of experts, and the other one 10 ns.
#[test]
fn experts_that_are_uneven_in_each_layer_and_even_in_all_are_told() {
    const EXPERTS: &str = "fused_moe_kernel";
    let rank = |rank: u32, first: i64, second: i64| {
        let ops: [Op; 4] = [
            (EXPERTS, 0, first, None),
            (ALL_REDUCE, first, 50 - first, Some(8)),
            (EXPERTS, 50, second, None),
            (ALL_REDUCE, 50 + second, 50 - second, Some(8)),
        ];
        log_of_rank(rank, 2, &ops)
    };
    let found = grouped(&[rank(0, 30, 10), rank(1, 10, 30)]);
    let loss = found.jobs[0].loss;
    assert_eq!((loss.longest_work_ns, loss.mean_work_ns, loss.to_median_ns), (60, 40, 40));
    let verdict = crate::report::ranks::verdict(&found).concat();
    assert!(verdict.contains("has 150 % of the mean of the ranks: together 20.0 ns more"), "{verdict}");
}

#[test]
fn stages_of_a_pipeline_are_not_said_to_delay_each_other() {
    let rank = |rank: u32, ops: &[Op]| log_of_rank(rank, 2, ops);
    let found = grouped(&[
        rank(0, &[(GEMM, 0, 100, None), (SEND_RECV, 100, 10, None), (SEND_RECV, 110, 90, None)]),
        rank(1, &[(SEND_RECV, 0, 110, None), (GEMM, 110, 80, None), (SEND_RECV, 190, 10, None)]),
    ]);
    let verdict = crate::report::ranks::verdict(&found).concat();
    let expected = "Compute takes on rank 0 50.0 % and rank 1 40.0 % of the time, 90.0 % together";
    assert!(verdict.contains("by Send/Recv only") && verdict.contains(expected), "{verdict}");
}

#[test]
fn the_imbalance_of_experts_is_shown_if_all_ranks_launch_equally_many() {
    const EXPERTS: &str = "fused_moe_kernel";
    let experts = |counts: [usize; 2]| {
        let log = |rank: u32, count: usize, duration: i64| {
            let ops: Vec<Op> = (0..).step_by(100).take(count).map(|start| (EXPERTS, start, duration, None)).collect();
            log_of_rank(rank, 2, &[&ops[..], &[(ALL_REDUCE, 900, 10, Some(8))]].concat())
        };
        let found = grouped(&[log(0, counts[0], 30), log(1, counts[1], 10)]);
        let row = &found.sections["ranks"].rows[0];
        (row.number("experts_ns"), row.number("experts_of_mean_pct"))
    };
    assert_eq!(experts([2, 2]), (Some(60.0), Some(150.0)));
    assert_eq!(experts([2, 3]), (None, None));
    assert_eq!(experts([0, 0]), (None, None), "no experts");
}

#[test]
fn slow_kernels_with_equal_function_names_have_distinct_short_names() {
    let (small, large) = ("void gemm<64, 64>(float*)", "void gemm<128, 64>(float*)");
    let slow_kernel = |others: [&str; 2]| {
        let mut traces = [0, 1].map(|rank| rank_trace(&format!("rank{rank}.json"), Some((rank, 2)), &[]));
        for (trace, duration) in traces.iter_mut().zip([100, 900]) {
            trace.stream(7).launches(others[0], 0..10).launches(others[1], 10..10 + duration);
            trace.stream(9).launches(ALL_REDUCE, 10 + duration..1_000);
        }
        let mut job = grouped(&traces.map(|mut trace| log(&trace.finish()))).jobs.remove(0);
        job.ranks.remove(1).slow_kernel.unwrap()
    };
    let both = slow_kernel([small, large]);
    assert_eq!((both.name.as_str(), both.short_name.as_str()), (large, "gemm<128>"));
    assert_eq!(slow_kernel(["copy", large]).short_name, "gemm", "one kernel of this name needs no tile size");
}

fn collectives_of_four(durations: [[i64; 4]; 3]) -> Job {
    grouped_of_four(durations).jobs.remove(0)
}

/// Collectives of four ranks with these durations, each at the end of its microsecond.
fn grouped_of_four(durations: [[i64; 4]; 3]) -> Ranks {
    let rank = |rank: usize| {
        let ends = durations.iter().zip(1..).map(|(durations, number)| (number * 1_000, durations[rank]));
        let ops: Vec<Op> = ends.map(|(end, duration)| (ALL_REDUCE, end - duration, duration, None)).collect();
        log_of_rank(rank as u32, 4, &ops)
    };
    grouped(&[0, 1, 2, 3].map(rank))
}

#[test]
fn only_ranks_that_arrive_last_delay_the_others() {
    let stragglers = |durations| {
        let job = collectives_of_four(durations);
        job.stragglers().iter().map(|rank| (rank.label.clone(), rank.times_last)).collect::<Vec<_>>()
    };
    let second_to_last = [800, 805, 102, 100];
    assert_eq!(stragglers([second_to_last; 3]), [("rank 3".to_owned(), 3)], "rank 2 came before rank 3 each time");
    let taking_turns = [second_to_last, [800, 805, 100, 102], second_to_last];
    assert_eq!(stragglers(taking_turns), [("rank 3".to_owned(), 2), ("rank 2".to_owned(), 1)]);
    let alike = [[100, 800, 805, 810], [800, 805, 810, 100], [805, 810, 100, 800]];
    assert_eq!(stragglers(alike), [], "ranks that are alike come last in turn");
    assert_eq!(stragglers([[800, 805, 100, 100]; 3]), [], "neither of two ranks is last");
    assert_eq!(stragglers([[100, 103, 102, 101]; 3]), [], "all arrive in time");
}

#[test]
fn two_ranks_are_compared_with_each_other() {
    let skews = |compute: &[i64]| {
        let world = compute.len() as u32;
        let ranks = (0..).zip(compute);
        // All ranks cover the same 1,000 ns.
        let rank = |(rank, compute): (u32, &i64)| {
            log_of_rank(rank, world, &[(GEMM, 0, *compute, None), (ALL_REDUCE, 990, 10, None)])
        };
        let job = grouped(&ranks.map(rank).collect::<Vec<_>>()).jobs.remove(0);
        job.ranks.iter().map(|rank| rank.skew_pct.unwrap().round()).collect::<Vec<_>>()
    };
    assert_eq!(skews(&[100, 150]), [-33.0, 50.0]);
    assert_eq!(skews(&[100, 150, 200]), [-33.0, 0.0, 33.0]);
}

/// The verdict on two ranks. Rank 0 computes 200 ns in its step. The trace of rank 1 begins with a kernel of 300 ns that an earlier
/// step launched; then the rank computes 210 ns in its own step.
fn verdict_on_steps(steps: [&str; 2]) -> String {
    let [mut first, mut second] = [0, 1].map(|rank| rank_trace(&format!("rank{rank}.json"), Some((rank, 2)), &[]));
    second.stream(7).kernel(GEMM, 400..700);
    for (trace, step, compute) in [(&mut first, steps[0], 200), (&mut second, steps[1], 210)] {
        trace.range(step, 600..900).call("cudaLaunchKernel", 610..620);
        trace.stream(7).launches(GEMM, 1_000..1_000 + compute).stream(9).kernel(ALL_REDUCE, 1_300..1_400);
    }
    let found = grouped(&[log(&first.finish()), log(&second.finish())]);
    crate::report::ranks::verdict(&found).remove(0)
}

#[test]
fn compute_times_are_compared_over_the_same_steps() {
    let same = verdict_on_steps(["ProfilerStep#5", "ProfilerStep#5"]);
    let words = "In the step that all ranks have, rank 1 computes 5.00 % longer than rank 0.";
    assert!(same.ends_with(words), "{same}");
    // The traces cover 1,000 ns and 400 ns.
    let other = verdict_on_steps(["ProfilerStep#5", "ProfilerStep#6"]);
    let words = "Compute times are not compared: the ranks have no steps in common, and they cover 400 ns to 1.00 us.";
    assert!(other.ends_with(words), "{other}");
}

#[test]
fn nobody_waits_in_a_broadcast_because_its_root_may_leave_early() {
    let broadcast = |rank, duration| log_of_rank(rank, 2, &[("ncclDevKernel_Broadcast_RING", 0, duration, None)]);
    let found = grouped(&[broadcast(0, 10), broadcast(1, 30)]);
    let job = &found.jobs[0];
    assert_eq!((job.matched, job.unmatched), (0, 2));
    assert!(job.ranks.iter().all(|rank| (rank.wait_ns, rank.waited_for_ns, rank.times_last) == (0, 0, 0)));
    assert!(has_limit(job, "may leave before"), "{:?}", job.limits);
}

/// Two ranks whose all-reduces have numbers. Rank 1 starts one call later.
#[test]
fn collectives_with_numbers_are_matched_by_these_and_not_by_their_order() {
    let rank = |rank: u32, calls: &[(u64, i64)]| {
        let mut trace = rank_trace(&format!("rank{rank}.json"), Some((rank, 2)), &[]);
        for (at, (sequence, duration)) in (0..).step_by(1_000).zip(calls) {
            trace.stream(9).kernel(ALL_REDUCE, at..at + duration).message(Collective {
                operation: "allreduce".to_owned(),
                bytes_in: Some(64),
                communicator: "tp".to_owned(),
                sequence: Some(*sequence),
                ..Collective::default()
            });
        }
        log(&trace.finish())
    };
    let job = |a: &[(u64, i64)], b: &[(u64, i64)]| {
        let job = grouped(&[rank(0, a), rank(1, b)]).jobs.remove(0);
        (job.matched, job.unmatched, job.ranks.iter().map(|rank| rank.wait_ns).sum::<i64>())
    };
    let calls = [(5, 20), (6, 50), (7, 20), (8, 50)];
    assert_eq!(job(&calls, &[(6, 20), (7, 50), (8, 20), (9, 50)]), (3, 2, 90));
    assert_eq!(job(&calls, &calls), (4, 0, 0));
    assert_eq!(job(&calls, &[(7, 20), (8, 50), (5, 20), (6, 50)]), (4, 0, 0), "streams may run them in another order");
    assert_eq!(job(&calls, &[(15, 20), (16, 50)]), (0, 6, 0));
    assert_eq!(job(&[(5, 20), (5, 50)], &[(5, 20), (6, 50)]), (0, 4, 0), "two of one number do not fit one");
}

/// The trace of rank 1 ends after two of four collectives, for which rank 0 waits 90 ns each.
#[test]
fn what_a_job_gains_is_a_share_of_the_time_that_all_traces_cover() {
    let rank = |rank: u32, calls: u64, duration: i64| {
        let mut trace = rank_trace(&format!("rank{rank}.json"), Some((rank, 2)), &[]);
        for (sequence, end) in (1..=calls).zip((1_000..).step_by(1_000)) {
            trace.stream(9).kernel(ALL_REDUCE, end - duration..end).message(Collective {
                operation: "allreduce".to_owned(),
                bytes_in: Some(64),
                communicator: "tp".to_owned(),
                sequence: Some(sequence),
                ..Collective::default()
            });
        }
        log(&trace.finish())
    };
    let found = grouped(&[rank(0, 4, 100), rank(1, 2, 10)]);
    let verdict = crate::report::ranks::verdict(&found).remove(0);
    // 180 ns of 1,010 ns.
    assert!(verdict.contains("gains at most 180 ns, 17.8 % of the time that all traces cover."), "{verdict}");
}

#[test]
fn calls_with_different_counts_are_matched_only_if_sizes_fit_at_one_offset() {
    let rank = |rank: u32, sizes: &[u64]| {
        let ops: Vec<Op> =
            (0..).step_by(100).zip(sizes).map(|(start, size)| (ALL_REDUCE, start, 50, Some(*size))).collect();
        log_of_rank(rank, 2, &ops)
    };
    let counts = |a: &[u64], b: &[u64]| {
        let found = grouped(&[rank(0, a), rank(1, b)]);
        let job = &found.jobs[0];
        assert_eq!(job.unmatched > 0, has_limit(job, "are not matched"), "{:?}", job.limits);
        (job.matched, job.unmatched)
    };
    assert_eq!(counts(&[1, 2, 3], &[1, 2, 3]), (3, 0));
    assert_eq!(counts(&[1, 2, 3, 4], &[2, 3, 4]), (3, 1), "the first rank's trace begins earlier");
    assert_eq!(counts(&[7, 7, 7, 7], &[7, 7, 7]), (0, 7), "they fit at two offsets");
    assert_eq!(counts(&[1, 2, 3], &[4, 5]), (0, 5), "they fit nowhere");
    assert_eq!(counts(&[1, 2, 3, 4, 5], &[3, 4]), (0, 7), "less than half of the longer list");
    assert_eq!(counts(&[1, 2, 3], &[1, 2, 4]), (0, 6), "equal counts, different sizes");
}

#[test]
fn calls_without_numbers_are_matched_by_order_only_if_no_time_contradicts_it() {
    // Uneven steps; the second rank arrives late, and leaves with the first.
    let starts = |from: usize| (from..from + 8).map(|step| (step * step * 100 + step * 1_000) as i64);
    let rank = |rank: u32, from: usize, clock: i64| {
        let late = if rank == 1 { 30 } else { 0 };
        let ops: Vec<Op> = starts(from).map(|start| (ALL_REDUCE, start + late + clock, 50 - late, Some(64))).collect();
        log_of_rank(rank, 2, &ops)
    };
    let job = |from: usize, clock: i64| grouped(&[rank(0, 0, 0), rank(1, from, clock)]).jobs.remove(0);
    let wait = |job: &Job| job.ranks.iter().map(|rank| rank.wait_ns).sum::<i64>();
    let same = job(0, 0);
    assert_eq!((same.matched, same.unmatched, wait(&same)), (8, 0, 240));
    assert!(has_limit(&same, "by the order of the calls") && has_limit(&same, "times of the calls agree"));
    let later = job(1, 0);
    assert_eq!(
        (later.matched, later.unmatched, wait(&later)),
        (7, 2, 210),
        "each rank has a call that the other lacks"
    );
    assert!(has_limit(&later, "by the times of the calls"), "{:?}", later.limits);
    let other_clock = job(0, 70_000);
    assert_eq!((other_clock.matched, other_clock.unmatched), (8, 0), "ends differ by the same time");
    assert!(has_limit(&other_clock, "do not show whether they belong together"), "{:?}", other_clock.limits);
    assert_eq!(job(1, 70_000).matched, 7, "at the next place they do");
}

#[test]
fn lists_with_dropped_calls_are_matched_only_if_all_traces_have_equal_counts() {
    let rank = |rank: u32, total: i64, kept: usize| {
        let ops: Vec<Op> = (0..total).map(|number| (ALL_REDUCE, number * 100, 50, None)).collect();
        let mut log = log_of_rank(rank, 3, &ops);
        assert_eq!(log.counts, [0, 0, 0, total], "counts every call of the trace");
        log.calls.truncate(kept * CALL_COLUMNS);
        log.left_out = total - kept as i64;
        log
    };
    let job = |ranks: [(i64, usize); 3]| {
        let logs: Vec<RankLog> = (0..).zip(ranks).map(|(number, (total, kept))| rank(number, total, kept)).collect();
        let job = grouped(&logs).jobs.remove(0);
        (job.matched, job.unmatched, has_limit(&job, "too long to be compared in full"))
    };
    assert_eq!(job([(9, 4), (9, 4), (9, 4)]), (4, 0, false));
    assert_eq!(
        job([(9, 4), (9, 3), (9, 4)]),
        (3, 2, false),
        "the limit is for all calls of a file, so lists of one operation may be cut at different lengths"
    );
    assert_eq!(
        job([(9, 4), (8, 4), (9, 4)]),
        (0, 12, true),
        "lists of equal length, but the traces have different counts"
    );
    assert_eq!(job([(5, 4), (4, 4), (4, 4)]), (0, 12, true));
    assert_eq!(job([(9, 4), (9, 0), (9, 4)]).0, 0, "a rank whose calls were all dropped still took part");
}

#[test]
fn send_and_receive_is_an_all_to_all_only_if_marked_as_such() {
    let with_range = |range: &str| {
        let mut trace = rank_trace("rank0.json", Some((0, 2)), &[]);
        trace.range(range, 0..20).call("cudaLaunchKernel", 5..10).launches(SEND_RECV, 30..40);
        log(&trace.finish()).operations
    };
    assert_eq!(with_range("nccl:all_to_all"), ["alltoall"]);
    assert_eq!(with_range("my all_to_all of things"), ["sendrecv"], "only the range of torch counts");
    let pair = |rank: u32, bytes| log_of_rank(rank, 2, &[(SEND_RECV, 0, 10, bytes)]);
    let found = grouped(&[pair(0, None), pair(1, None)]);
    assert_eq!((found.jobs[0].matched, found.jobs[0].unmatched), (0, 2));
    assert!(found.jobs[0].limits[0].contains("point-to-point messages"), "{:?}", found.jobs[0].limits);
    assert_eq!(found.jobs[0].ranks[0].parts.unmatched_ns, 10);
    // The message sizes of an all-to-all may differ between ranks.
    assert_eq!(grouped(&[pair(0, Some(8)), pair(1, Some(800))]).jobs[0].matched, 1);
}

#[test]
fn files_that_are_not_grouped_have_a_reason() {
    let one = |file: &str, job| log_of(file, job, &[(GEMM, 0, 10, None)]);
    let titles = |logs: &[RankLog]| {
        let found = grouped(logs);
        let jobs: Vec<(String, usize)> = found.jobs.iter().map(|job| (job.title.clone(), job.ranks.len())).collect();
        (jobs, found.ungrouped.into_iter().map(|file| format!("{}: {}", file.file, file.reason)).collect::<Vec<_>>())
    };
    let two = |title: &str| (title.to_owned(), 2);
    // The times in the names differ between ranks.
    let own = ["worker0.1694128201545.json", "worker1.1694128201999.json"];
    assert_eq!(titles(&own.map(|file| one(file, None))), (vec![two("worker#.*.json")], vec![]));
    // Two runs of one program.
    let runs = ["a_rank0.json", "a_rank1.json", "b_rank0.json", "b_rank1.json"];
    let logs: Vec<RankLog> = (0..).zip(runs).map(|(index, file)| one(file, Some((index % 2, 2)))).collect();
    assert_eq!(titles(&logs), (vec![two("a_rank#.json"), two("b_rank#.json")], vec![]));
    // The same file twice.
    let twice = [one("rank0.json", Some((0, 2))), one("rank0.json", Some((0, 2))), one("rank1.json", Some((1, 2)))];
    let reason = "rank0.json: rank 0 is already present, from rank0.json".to_owned();
    assert_eq!(titles(&twice), (vec![two("rank#.json")], vec![reason]));
    // No rank number, an impossible rank number, a single rank, no work.
    let mut empty = one("rank4.json", None);
    empty.devices.clear();
    let (jobs, ungrouped) =
        titles(&[one("x.json", None), one("y.json", Some((9, 8))), one("z.json", Some((3, 8))), empty]);
    assert_eq!(jobs, []);
    assert_eq!(
        ungrouped,
        [
            "rank4.json: it has no GPU kernel",
            "x.json: neither the file nor its name gives a rank number, and it has one GPU",
            "y.json: it claims to be rank 9 of 8, which is impossible, and its name has no rank number",
            "z.json: rank 3 is one of 8 ranks, and no other rank of its job is open",
        ]
    );
    assert_eq!(titles(&[]), (vec![], vec![]));
}

#[test]
fn files_that_share_only_the_number_of_ranks_are_left_out_or_marked_as_doubtful() {
    let one = |file: &str, gpu: &str, rank, world| RankLog {
        gpus: vec![gpu.into()],
        ..log_of(file, Some((rank, world)), &[(GEMM, 0, 10, None)])
    };
    let own = |rank: u32| one(&format!("rank{rank}.json"), "", rank, 8);
    // An unrelated trace with the same world size; its rank is free or already taken.
    for rank in [1, 3] {
        let found = grouped(&[own(0), own(1), own(2), one("train_rank3of8.json", "", rank, 8)]);
        assert_eq!(found.jobs.iter().map(|job| job.ranks.len()).collect::<Vec<_>>(), [3]);
        assert_eq!(found.ungrouped[0].file, "train_rank3of8.json");
        let reason = format!("it is rank {rank} of 8, but its name has nothing in common");
        assert!(found.ungrouped[0].reason.starts_with(&reason), "{:?}", found.ungrouped);
        assert!(!has_limit(&found.jobs[0], "file names"));
    }
    // All names differ.
    let apart = |a: &str, b: &str| grouped(&[one("metadata.json", a, 0, 2), one("train.json", b, 1, 2)]);
    let found = apart("", "A100");
    assert_eq!(found.jobs[0].ranks.len(), 2);
    assert!(has_limit(&found.jobs[0], "have nothing in common"), "{:?}", found.jobs[0].limits);
    // Different GPUs, or a different number of ranks.
    let found = apart("V100", "A100");
    assert_eq!((found.jobs.len(), found.ungrouped.len()), (0, 2));
    let found = grouped(&[one("rank0.json", "", 0, 2), one("rank1.json", "", 1, 4)]);
    assert_eq!((found.jobs.len(), found.ungrouped.len()), (0, 2));
    // Names with the host; each rank of the job occurs once.
    let hosts = ["a_rank0.json", "a_rank1.json", "b_rank2.json", "b_rank3.json"];
    let found = grouped(&(0..).zip(hosts).map(|(rank, file)| one(file, "", rank, 4)).collect::<Vec<_>>());
    assert_eq!((found.jobs.len(), found.jobs[0].ranks.len(), found.ungrouped.len()), (1, 4, 0));
    assert!(has_limit(&found.jobs[0], "each rank occurs once"));
}

#[test]
fn older_files_of_some_ranks_do_not_split_the_job() {
    let name = |rank: u32, time: u64| format!("worker_{rank}.{time}.pt.trace.json");
    let times = [1694128201545, 1694128201550, 1694128201555, 1694128201560];
    for has_info in [true, false] {
        let one = |rank: u32, time| log_of(&name(rank, time), has_info.then_some((rank, 4)), &[(GEMM, 0, 10, None)]);
        let mut logs: Vec<RankLog> = (0..).zip(times).map(|(rank, time)| one(rank, time)).collect();
        // Two older files that have the same time by accident.
        logs.push(one(0, 1694128201540));
        logs.push(one(1, 1694128201540));
        let found = grouped(&logs);
        let files: Vec<&str> = found.jobs[0].ranks.iter().map(|rank| rank.file.as_str()).collect();
        assert_eq!(files, (0..).zip(times).map(|(rank, time)| name(rank, time)).collect::<Vec<_>>());
        let ungrouped = found.ungrouped.iter().map(|file| (file.file.clone(), file.reason.clone())).collect::<Vec<_>>();
        let reason = |rank: u32, time| {
            format!("{} {rank} is already present, from {}", if has_info { "rank" } else { "worker" }, name(rank, time))
        };
        let older = |rank: u32| name(rank, 1694128201540);
        assert_eq!(ungrouped, [(older(0), reason(0, times[0])), (older(1), reason(1, times[1]))]);
    }
}

#[test]
fn devices_of_one_file_are_ranks() {
    let labels = |devices: &[&str], job| {
        let mut trace = rank_trace("all.json", job, &[]);
        devices.iter().for_each(|device| push(trace.device(device), &(ALL_REDUCE, 0, 10, None)));
        let found = grouped(&[log(&trace.replay(0..1).finish())]);
        let ranks = found.jobs.iter().flat_map(|job| &job.ranks);
        ranks.map(|rank| rank.label.clone()).collect::<Vec<_>>()
    };
    assert_eq!(labels(&["0", "1"], None), ["GPU 0", "GPU 1"]);
    assert_eq!(labels(&["[TP00] 0", "[TP01] 1"], Some((0, 1))), ["[TP00", "[TP01"].map(|label| label[1..].to_owned()));
    assert_eq!(labels(&["0", "1"], Some((0, 8))), [""; 0], "one rank that uses two GPUs");
}

/// Traces of two to four ranks with random ops in about 10 us.
fn traces() -> impl Strategy<Value = Vec<Trace>> {
    let names = [GEMM, ALL_REDUCE, SEND_RECV, "Memcpy DtoD", "ncclDevKernel_AllGather_RING_LL"];
    let op = (prop::sample::select(names.to_vec()), 0_i64..9_000, 0_i64..900, prop::option::of(0_u64..3));
    let ops = prop::collection::vec(op, 0..30);
    prop::collection::vec(ops, 2..5).prop_map(|ranks| {
        let world = ranks.len() as u32;
        let ranks = (0..).zip(ranks);
        let with_known_size = |(name, start, duration, bytes): (&'static str, i64, i64, Option<u64>)| {
            (name, start, duration, bytes.filter(|_| name.starts_with("nccl")))
        };
        ranks
            .map(|(rank, ops)| {
                let ops: Vec<Op> = ops.into_iter().map(with_known_size).collect();
                rank_trace(&format!("rank{rank}.json"), Some((rank, world)), &ops).finish()
            })
            .collect()
    })
}

fn jobs() -> impl Strategy<Value = Vec<RankLog>> {
    traces().prop_map(|traces| traces.iter().map(log).collect())
}

proptest! {
    #[test]
    fn parts_add_up_to_the_window_and_waiting_and_transfer_to_communication(logs in jobs(), shift in 0_usize..5) {
        let found = grouped(&logs);
        for job in &found.jobs {
            for rank in &job.ranks {
                let own = parts(rank.parts);
                prop_assert_eq!(own.iter().sum::<i64>(), job.window_ns);
                prop_assert!(own.iter().all(|part| *part >= 0), "{:?}", own);
                let log = logs.iter().find(|log| log.file == rank.file).unwrap();
                let durations = |predicate: &dyn Fn(&str) -> bool| {
                    let calls = log.calls.chunks(CALL_COLUMNS).filter(|call| predicate(&log.operations[call[1] as usize]));
                    calls.map(|call| call[5]).sum::<i64>()
                };
                prop_assert_eq!(rank.communication_ns, durations(&|_| true));
                prop_assert!(rank.wait_ns + rank.transfer_ns <= durations(&|operation| operation != "sendrecv"));
            }
            if job.unmatched == 0 {
                prop_assert!(job.ranks.iter().all(|rank| rank.wait_ns + rank.transfer_ns == rank.communication_ns));
            }
            let waited: i64 = job.ranks.iter().map(|rank| rank.wait_ns).sum();
            prop_assert!(job.ranks.iter().map(|rank| rank.waited_for_ns).sum::<i64>() <= waited);
        }
        let mut others = logs.clone();
        others.rotate_left(shift % logs.len());
        prop_assert_eq!(grouped(&others), found);
        for log in &logs {
            prop_assert_eq!(&json::read::<RankLog>(&json::write(log)).unwrap(), log);
        }
    }

    #[test]
    fn malformed_logs_do_not_cause_a_panic_or_lose_a_file(
        numbers in prop::collection::vec(any::<i64>(), 0..40), times in prop::collection::vec(any::<i64>(), 0..20),
        rank in any::<i64>(), world_size in any::<i64>(), devices in 0_usize..4,
    ) {
        let log = |file: &str, rank| RankLog {
            file: file.into(),
            rank,
            world_size,
            devices: (0..devices).map(|device| device.to_string()).collect(),
            span: numbers.iter().take(2).copied().collect(),
            times: times.clone(),
            operations: vec!["allreduce".into()],
            groups: vec![String::new()],
            calls: numbers.clone(),
            step_names: vec!["step".into()],
            steps: numbers.clone(),
            counts: numbers.iter().rev().copied().collect(),
            left_out: rank,
            replays: rank,
            is_cut_short: rank > 0,
            ..RankLog::default()
        };
        let logs = [log("rank0.json", 0), log("rank1.json", 1), log("rank2.json", rank)];
        let window = RankWindow { from_ns: rank, to_ns: world_size, times: times.clone(), exposed: numbers.clone() };
        ranks(&logs.each_ref().map(|log| RankInput { log, window: Some(&window) }));
        let logs_by_reference = logs.each_ref();
        let clocks = JobClocks::new(&logs_by_reference);
        clocks.windows(0, window.window());
        clocks.times(0, window.window().start);
        prop_assert_eq!(clocks.waits().len(), 3);
        let found = grouped(&logs);
        let files = found.jobs.iter().map(|job| job.ranks.len()).sum::<usize>() + found.ungrouped.len();
        prop_assert!(files >= 3 || devices > 1, "a file is missing: {:?}", found);
    }
}

/// The traces of a real job.
fn eight_ranks() -> Vec<Trace> {
    (0..8).map(|rank| torch(&format!("dlrm_v100_8ranks/rank{rank}.pt.trace.json.gz"))).collect()
}

/// The expected values are from an independent program that steps through the raw JSON in microseconds, names collectives by the
/// range around their launch, and matches them by order. The traces share one host clock, on which all ranks leave each of the
/// eight collectives within 8 us.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn a_real_job_of_eight_ranks_matches_an_independent_program() {
    let traces = eight_ranks();
    let found = grouped(&traces.iter().map(log).collect::<Vec<_>>());
    let job = &found.jobs[0];
    assert_eq!((job.world_size, job.matched, job.unmatched, job.window_ns), (Some(8), 8, 0, 18_853_000));
    let us = |time_ns: fn(&Rank) -> i64| job.ranks.iter().map(|rank| time_ns(rank) / 1_000).collect::<Vec<i64>>();
    assert_eq!(us(|rank| rank.wall_ns), [13_009, 18_749, 11_350, 18_853, 16_589, 16_392, 11_410, 10_967]);
    assert_eq!(us(|rank| rank.busy_ns), [6_590, 12_321, 4_304, 10_708, 7_702, 7_271, 4_359, 2_659]);
    assert_eq!(us(|rank| rank.compute_ns), [1_034, 1_246, 1_068, 1_240, 1_126, 1_041, 1_051, 1_059]);
    // The traces of ranks 1 and 3 begin with kernels that the step before launched. They are no compute of the common step.
    assert_eq!(job.compute, ComputeBasis::Steps(1));
    assert_eq!(us(|rank| rank.compared_ns), [1_034, 1_043, 1_068, 1_064, 1_126, 1_041, 1_051, 1_059]);
    assert_eq!(us(|rank| rank.parts.hidden_ns), [261, 280, 275, 324, 37, 40, 269, 166]);
    let exposed = |rank: &Rank| rank.parts.wait_ns + rank.parts.transfer_ns + rank.parts.unmatched_ns;
    assert_eq!(us(exposed), [5_537, 11_056, 3_217, 9_450, 6_550, 6_211, 3_289, 1_580]);
    assert_eq!(us(|rank| rank.communication_ns), [5_798, 11_336, 3_492, 9_774, 6_587, 6_251, 3_558, 1_746]);
    assert_eq!(us(|rank| rank.wait_ns), [5_581, 11_119, 3_275, 9_557, 6_370, 6_034, 3_341, 1_529]);
    assert_eq!(us(|rank| rank.transfer_ns), [217; 8]);
    assert_eq!(us(|rank| rank.waited_for_ns), [0, 0, 0, 0, 4_987, 6_276, 0, 35_543]);
    assert_eq!(us(|rank| rank.delay.alone_ns), [0, 0, 0, 0, 70, 707, 0, 9_156]);
    assert_eq!(us(|rank| rank.delay.gain_ns), [0, 0, 0, 0, 10, 101, 0, 1_295]);
    assert_eq!(job.ranks.iter().map(|rank| rank.times_last).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 2, 0, 5]);
    // Rank 7 reaches the first collective 8 ms after the others although it did 1.8 ms of work and idling before it, as most ranks:
    // its trace begins later. Before the later collectives, ranks 4, 5 and 7 launch late.
    let stragglers: Vec<&str> = job.stragglers().iter().map(|rank| rank.label.as_str()).collect();
    assert_eq!(stragglers, ["rank 7", "rank 5", "rank 4"]);
    // The program carries later work over from the previous collective only, and so calls more of it longer work. What is carried over from
    // earlier ones has the cause of the lateness there: a late host, but for less than 20 us without a known cause.
    let (host, work) = (us(|rank| rank.delay.host_late_ns), us(|rank| rank.delay.work_ns));
    let program = [(0, 0), (0, 0), (0, 0), (0, 0), (4_234, 346), (6_098, 1), (0, 0), (8_706, 69)];
    for ((host, work), (of_host, of_work)) in host.into_iter().zip(work).zip(program) {
        assert!(
            work <= of_work && (0..=20).contains(&(of_host + of_work - host - work)),
            "{host} {work} {of_host} {of_work}"
        );
    }
    assert_eq!(us(|rank| rank.delay.communication_ns), [0; 8]);
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_log_of_a_real_trace_has_its_process_groups() {
    let trace = torch("nccl_metadata_a100.trace.json.gz");
    let log = log(&trace);
    assert_eq!((log.rank, log.world_size, log.backend.as_str()), (0, 2, "nccl"));
    assert_eq!((log.groups.as_slice(), log.group_ranks.as_slice()), (&["0".to_owned()][..], &["0 1".to_owned()][..]));
    assert_eq!((log.calls.len() / CALL_COLUMNS, log.left_out), (21, 0));
}
