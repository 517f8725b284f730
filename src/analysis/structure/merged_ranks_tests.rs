//! The steps of a rank are the same alone and in a file into which a tool merged several ranks.

use crate::analysis::context::Context;
use crate::analysis::testing::{import, shared};
use crate::input::Importer;
use crate::trace::{Ns, Trace};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Time from the step's annotation to the first launch, time between launches, and length of each kernel, in us.
type GeneratedStep = (i64, i64, Vec<i64>);

/// The host and GPU events of a rank with their times. `ids_from` is added to its correlation ids.
fn events(steps: &[GeneratedStep], (rank, start): (i64, i64), ids_from: i64, is_marked: bool) -> Vec<(i64, String)> {
    let (pid, mut events, mut id) = (100 + rank, Vec::new(), ids_from);
    let (mut now, mut gpu_free) = (start, start);
    for (before, pause, kernels) in steps {
        let first = now;
        now += before;
        for length in kernels {
            events.push((now, format!(
                r#"{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": {pid}, "tid": {pid}, "ts": {now}, "dur": 3, "args": {{"correlation": {id}}}}}"#
            )));
            let begin = gpu_free.max(now + 5);
            gpu_free = begin + length;
            events.push((begin, format!(
                r#"{{"ph": "X", "cat": "kernel", "name": "gemm", "pid": {rank}, "tid": 7, "ts": {begin}, "dur": {length}, "args": {{"device": {rank}, "stream": 7, "correlation": {id}}}}}"#
            )));
            (now, id) = (now + pause, id + 1);
        }
        if is_marked {
            let length = now - first;
            events.push((first, format!(
                r#"{{"ph": "X", "cat": "user_annotation", "name": "step[DECODE bs=4]", "pid": {pid}, "tid": {pid}, "ts": {first}, "dur": {length}}}"#
            )));
        }
        now += 2;
    }
    events
}

fn trace(events: impl IntoIterator<Item = (i64, String)>) -> Trace {
    let events: Vec<String> = events.into_iter().map(|event| event.1).collect();
    import(Importer::new("t.json"), format!(r#"{{"traceEvents": [{}]}}"#, events.join(",\n")).as_bytes())
}

/// Start from the first step of the device, time, interval, busy time, late time and kernels of a step.
type Figures = (Ns, Ns, Option<Ns>, Ns, Ns, u64);

fn steps_by_device(trace: &Trace) -> BTreeMap<String, Vec<Figures>> {
    let context = Context::new(trace, 30);
    let mut found: BTreeMap<String, Vec<_>> = BTreeMap::new();
    let mut first: BTreeMap<String, Ns> = BTreeMap::new();
    for step in &context.measured_steps().steps {
        let device = trace.devices[step.step.device.unwrap().0 as usize].id.clone();
        let first = *first.entry(device.clone()).or_insert(step.step.start);
        let start = step.step.start.since(first);
        found.entry(device).or_default().push((
            start,
            step.time,
            step.interval(),
            step.busy,
            step.host_late,
            step.kernels,
        ));
    }
    found
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn two_ranks_in_one_file_have_the_steps_of_each() {
    let steps = |file: &str| {
        let bytes = std::fs::read(shared(&format!("cases/data/{file}"))).unwrap();
        steps_by_device(&import(Importer::new(file), &bytes))
    };
    let (both, first) = (steps("ranks_in_one_file.json.gz"), steps("ranks_in_one_file_rank0.json.gz"));
    assert_eq!((both.len(), &both["0"], &both["1"]), (2, &first["0"], &first["0"]));
    let times: Vec<i64> = first["0"].iter().map(|step| step.1.0 / 1_000).collect();
    assert_eq!(times.len(), 4);
    assert_eq!(times[..3], [10_000; 3]);
}

fn steps() -> impl Strategy<Value = Vec<GeneratedStep>> {
    let kernels = prop::collection::vec(1_i64..60, 1..5);
    prop::collection::vec((0_i64..30, 4_i64..40, kernels), 1..6)
}

proptest! {
    #[test]
    fn a_merged_rank_has_the_steps_that_it_has_alone(
        one in steps(), other in steps(), skew in 0_i64..400, equal_ids in any::<bool>(), other_is_marked in any::<bool>(),
        by_time in any::<bool>(),
    ) {
        // Which of the calls with one id launched an op is not known in a file sorted by time.
        let ids_from = if equal_ids && !by_time { 0 } else { 1_000 };
        let ranks = [events(&one, (0, 0), 0, true), events(&other, (1, skew), ids_from, other_is_marked)];
        let mut expected = steps_by_device(&trace(ranks[0].clone()));
        expected.extend(steps_by_device(&trace(ranks[1].clone())));
        let mut merged = ranks.concat();
        if by_time {
            merged.sort_by_key(|event| event.0);
        }
        prop_assert_eq!(steps_by_device(&trace(merged)), expected);
    }
}
