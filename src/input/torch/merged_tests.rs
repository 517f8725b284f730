//! Files into which a tool merged the traces of several ranks: every op has the process that launched it, and its device.

use super::super::tests::read_trace;
use crate::input::Importer;
use crate::trace::{ProblemKind, Trace};
use proptest::prelude::*;

/// A rank of the generated job: the ids that a tool gave its events, and what was recorded.
#[derive(Debug, Clone, Copy)]
struct Rank {
    number: usize,
    pid: i64,
    gpu_pid: i64,
    device: i64,
    /// Added to every correlation id.
    ids_from: u64,
    /// When its host begins, in us.
    start: i64,
    /// Ops of each launch; several are those of a graph.
    ops_per_launch: i64,
    has_host: bool,
}

/// Launches of a rank, and the time between two in us.
const LAUNCHES: i64 = 12;
const PACE: i64 = 100;

impl Rank {
    fn new(number: usize) -> Self {
        let (offset, start) = (number as i64, 40 * number as i64);
        Self {
            number,
            pid: 1_000 + offset,
            gpu_pid: offset,
            device: offset,
            ids_from: 0,
            start,
            ops_per_launch: 1,
            has_host: true,
        }
    }

    /// As TraceFusion writes it: pids are shifted, so that GPUs differ in their pid, and so are correlation ids.
    fn fused(number: usize) -> Self {
        let (offset, pid) = (number as i64 * 1_000_000, 31_337);
        let ids_from = number as u64 * 3_000_000_000;
        Self { pid: pid + offset, gpu_pid: offset, device: 0, ids_from, ..Self::new(number) }
    }

    fn call_start(&self, launch: i64) -> i64 {
        // The latency and the pace of a host are never quite even.
        self.start + PACE * launch + launch * launch % 7
    }

    /// Time and text of each event.
    fn events(&self) -> Vec<(i64, String)> {
        let Self { number, pid, gpu_pid, device, ops_per_launch, .. } = *self;
        let mut events = Vec::new();
        for launch in 0..LAUNCHES {
            let (start, id) = (self.call_start(launch), self.ids_from + launch as u64);
            let call = if ops_per_launch > 1 { "cudaGraphLaunch" } else { "cudaLaunchKernel" };
            if self.has_host {
                events.push((start, format!(
                    r#"{{"ph": "X", "cat": "cuda_runtime", "name": "{call}", "pid": {pid}, "tid": {pid}, "ts": {start}, "dur": 4, "args": {{"correlation": {id}}}}}"#
                )));
            }
            for op in 0..ops_per_launch {
                let start = start + 20 + 10 * op;
                events.push((start, format!(
                    r#"{{"ph": "X", "cat": "kernel", "name": "rank {number} launch {launch}", "pid": {gpu_pid}, "tid": 7, "ts": {start}, "dur": 9, "args": {{"device": {device}, "stream": 7, "correlation": {id}}}}}"#
                )));
            }
        }
        events
    }
}

/// A tool that appends one file after the other.
fn appended(ranks: &[Rank]) -> Trace {
    trace(ranks.iter().flat_map(Rank::events).collect())
}

/// A tool that sorts all events by time.
fn sorted(ranks: &[Rank]) -> Trace {
    let mut events: Vec<(i64, String)> = ranks.iter().flat_map(Rank::events).collect();
    events.sort_by_key(|event| event.0);
    trace(events)
}

fn trace(events: Vec<(i64, String)>) -> Trace {
    let events: Vec<String> = events.into_iter().map(|event| event.1).collect();
    let text = format!(r#"{{"traceEvents": [{}]}}"#, events.join(",\n"));
    read_trace(Importer::new("merged.json"), [&text])
}

/// Each op as rank and launch, from its name; with device, pid and start of its launch in us.
fn placed(trace: &Trace) -> Vec<(String, String, i64, Option<i64>)> {
    let launches = trace.gpu_ops.launches();
    let op = trace.gpu_ops.iter().zip(launches).map(|(op, launch)| {
        let name = trace.names.get(op.name).to_owned();
        let start = launch.and_then(|call| trace.calls.start(call.0 as usize)).map(|start| start.0 / 1_000);
        (name, trace.devices[op.device.0 as usize].id.clone(), trace.processes[op.process.0 as usize].pid, start)
    });
    let mut placed: Vec<_> = op.collect();
    placed.sort();
    placed
}

/// What [`placed`] has to return; `devices` are the ids of the devices of the ranks.
fn expected(ranks: &[Rank], devices: &[&str]) -> Vec<(String, String, i64, Option<i64>)> {
    let of_rank = |(rank, device): (&Rank, &&str)| {
        let (rank, device) = (*rank, (*device).to_owned());
        let ops = (0..LAUNCHES).flat_map(move |launch| (0..rank.ops_per_launch).map(move |_| launch));
        ops.map(move |launch| {
            let name = format!("rank {} launch {launch}", rank.number);
            let (pid, start) = if rank.has_host { (rank.pid, Some(rank.call_start(launch))) } else { (-1, None) };
            (name, device.clone(), pid, start)
        })
    };
    let mut expected: Vec<_> = ranks.iter().zip(devices).flat_map(of_rank).collect();
    expected.sort();
    expected
}

#[test]
fn ops_belong_to_the_process_with_their_id() {
    for count in [2, 4, 8] {
        let ranks: Vec<Rank> =
            (0..count).map(|number| Rank { ids_from: 100 * number as u64, ..Rank::new(number) }).collect();
        let devices = &["0", "1", "2", "3", "4", "5", "6", "7"][..count];
        for trace in [appended(&ranks), sorted(&ranks)] {
            assert_eq!(placed(&trace), expected(&ranks, devices), "{count}");
            assert_eq!(trace.problems.count(ProblemKind::AmbiguousLaunch), 0);
        }
    }
}

#[test]
fn equal_ids_of_ranks_are_told_apart_by_the_order_of_the_file() {
    for (count, skew) in [(2, 0), (2, 40), (4, 1), (8, 3), (8, 5_000)] {
        let ranks: Vec<Rank> =
            (0..count).map(|number| Rank { start: skew * number as i64, ..Rank::new(number) }).collect();
        let devices = &["0", "1", "2", "3", "4", "5", "6", "7"][..count];
        assert_eq!(placed(&appended(&ranks)), expected(&ranks, devices), "{count} {skew}");
    }
}

/// Ops of rank 0 start before the launches of rank 1 with their id, if the skew is large. If not, the links are told to be ambiguous.
#[test]
fn equal_ids_in_a_file_sorted_by_time_are_told_apart_by_their_times() {
    for skew in [1, 2, 40, 300, 5_000] {
        let ranks = [0, 1, 2].map(|number| Rank { start: skew * number as i64, ..Rank::new(number) });
        let trace = sorted(&ranks);
        assert_eq!(placed(&trace), expected(&ranks, &["0", "1", "2"]), "{skew}");
        let ambiguous = if skew < 20 { 3 * LAUNCHES as u64 } else { 0 };
        assert_eq!(trace.problems.count(ProblemKind::AmbiguousLaunch), ambiguous, "{skew}");
    }
}

#[test]
fn gpus_of_one_number_with_different_pids_are_different_devices() {
    let ranks = [0, 1, 2].map(Rank::fused);
    for trace in [appended(&ranks), sorted(&ranks)] {
        assert_eq!(placed(&trace), expected(&ranks, &["[31337] 0", "[1031337] 0", "[2031337] 0"]));
    }
}

#[test]
fn graph_replays_of_ranks_with_equal_ids_stay_with_their_launch() {
    let ranks = [0, 1].map(|number| Rank { ops_per_launch: 3, start: 5 * number as i64, ..Rank::new(number) });
    assert_eq!(placed(&appended(&ranks)), expected(&ranks, &["0", "1"]));
}

/// The ranks see one GPU each, which all call 0; the tool renames nothing. One GPU cannot be told from several, but its ops can.
#[test]
fn ranks_on_one_gpu_entry_are_told_apart_and_stay_on_one_device() {
    for ids_from in [0, 1_000] {
        let ranks = [0, 1].map(|number| {
            let ids_from = ids_from * number as u64;
            Rank { gpu_pid: 0, device: 0, ids_from, start: 15 * number as i64, ..Rank::new(number) }
        });
        assert_eq!(placed(&appended(&ranks)), expected(&ranks, &["0", "0"]), "{ids_from}");
    }
}

/// Rank 1 was merged without its host events, and its ids are those of rank 0.
#[test]
fn ops_without_host_events_are_not_launched_by_another_rank() {
    let fused = [Rank::fused(0), Rank { has_host: false, ids_from: 0, ..Rank::fused(1) }];
    assert_eq!(placed(&appended(&fused)), expected(&fused, &["[31337] 0", "[1000000] 0"]));
    let ranks = [Rank::new(0), Rank { has_host: false, ..Rank::new(1) }];
    assert_eq!(placed(&appended(&ranks)), expected(&ranks, &["0", "1"]));
}

#[test]
fn ranks_without_any_host_event_have_a_device_each() {
    let ranks = [0, 1].map(|number| Rank { has_host: false, ..Rank::fused(number) });
    let trace = appended(&ranks);
    assert_eq!(placed(&trace), expected(&ranks, &["[0] 0", "[1000000] 0"]));
    let ranks = [0, 1].map(|number| Rank { has_host: false, ..Rank::new(number) });
    let trace = appended(&ranks);
    assert_eq!((placed(&trace), trace.processes.len()), (expected(&ranks, &["0", "1"]), 1));
}

/// One process launches on two GPUs, also before the capture began.
#[test]
fn gpus_of_one_process_have_its_ops() {
    let ranks = [Rank { pid: 7, ..Rank::new(0) }, Rank { pid: 7, ids_from: 50, ..Rank::new(1) }];
    assert_eq!(placed(&appended(&ranks)), expected(&ranks, &["0", "1"]));
    let unseen = Rank { has_host: false, ids_from: 50, ..Rank::new(1) };
    let trace = appended(&[ranks[0], unseen]);
    assert!(trace.gpu_ops.iter().all(|op| op.process.0 == 0), "{:?}", trace.processes);
    assert_eq!(trace.processes.len(), 1);
}

/// A helper without launches, such as a tokenizer, changes nothing.
#[test]
fn a_process_that_launches_nothing_owns_no_op() {
    let rank = Rank::new(0);
    let helper =
        r#"{"ph": "X", "cat": "user_annotation", "name": "tokenize", "pid": 5, "tid": 5, "ts": 1, "dur": 900}"#;
    let events = [vec![(0, helper.to_owned())], rank.events(), vec![(0, helper.to_owned())]].concat();
    assert_eq!(placed(&trace(events)), expected(&[rank], &["0"]));
}

/// Only the host events of rank 1 were merged, and its ids are those of rank 0.
#[test]
fn calls_of_a_rank_without_gpu_events_own_no_op() {
    let ranks = [0, 1].map(|number| Rank { start: -2 * number as i64, ..Rank::new(number) });
    let calls = ranks[1].events().into_iter().filter(|(_, text)| text.contains("cuda_runtime"));
    let mut events = ranks[0].events();
    events.extend(calls);
    assert_eq!(placed(&trace(events)), expected(&ranks[..1], &["0"]));
}

/// The annotations of a GPU belong to the process of its ops.
#[test]
fn annotations_of_gpus_of_one_number_are_told_apart() {
    let ranks = [0, 1].map(Rank::fused);
    let events = ranks.map(|rank| {
        let Rank { gpu_pid, number, .. } = rank;
        let annotation = format!(
            r#"{{"ph": "X", "cat": "gpu_user_annotation", "name": "rank {number}", "pid": {gpu_pid}, "tid": 7, "ts": 1, "dur": 5, "args": {{"External id": 3}}}}"#
        );
        [rank.events(), vec![(0, annotation)]].concat()
    });
    let events: Vec<String> = events.concat().into_iter().map(|event| event.1).collect();
    let text = format!(r#"{{"traceEvents": [{}]}}"#, events.join(",\n"));
    let trace = read_trace(Importer::with_code("merged.json"), [&text]);
    let code = trace.code.as_ref().unwrap();
    let mut found: Vec<(&str, i64)> = code
        .annotations
        .iter()
        .map(|annotation| {
            (code.annotation_names.get(annotation.name), trace.processes[annotation.process.0 as usize].pid)
        })
        .collect();
    found.sort();
    assert_eq!(found, [("rank 0", 31_337), ("rank 1", 1_031_337)]);
    assert_eq!(trace.processes.len(), 2);
}

proptest! {
    /// Whatever the file says, an op has a process and a device of the trace, and its launch is of its process.
    #[test]
    fn a_launch_is_of_the_process_of_its_op(
        ranks in prop::collection::vec((0_i64..4, 0_i64..3, 0_i64..3, 0_u64..9, 0_i64..900, any::<bool>()), 1..6),
        by_time in any::<bool>(),
    ) {
        let rank = |(number, &(pid, gpu_pid, device, ids_from, start, has_host)): (usize, &_)| {
            Rank { number, pid, gpu_pid, device, ids_from, start, ops_per_launch: 1, has_host }
        };
        let ranks: Vec<Rank> = ranks.iter().enumerate().map(rank).collect();
        let trace = if by_time { sorted(&ranks) } else { appended(&ranks) };
        for (op, launch) in trace.gpu_ops.iter().zip(trace.gpu_ops.launches()) {
            prop_assert!(trace.devices.get(op.device.0 as usize).is_some());
            prop_assert!(trace.processes.get(op.process.0 as usize).is_some());
            if let Some(call) = launch.and_then(|call| trace.calls.get(call.0 as usize)) {
                prop_assert_eq!(trace.threads[call.thread.0 as usize].process, op.process);
            }
        }
    }
}
