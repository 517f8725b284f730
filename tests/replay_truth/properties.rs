//! What holds for any trace: traces of random calls and ops with skewed clocks, overlaps, equal times and lost links. A
//! trace is either refused with a reason, or the unchanged replay is exact, the path adds up, and no saving is above the
//! window.

use super::sections_of;
use super::torch::{Category, Event, json};
use gpuprism::analysis::section::Sections;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::Cell;
use std::collections::BTreeMap;

const CASES: u32 = 150;

/// Calls of all kinds that the replay tells apart.
const CALLS: [&str; 12] = [
    "cudaLaunchKernel",
    "cudaLaunchKernel",
    "cudaLaunchKernel",
    "cudaGraphLaunch",
    "cudaMemcpyAsync",
    "cudaMemcpy",
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "cudaStreamWaitEvent",
    "cudaEventQuery",
    "cudaMalloc",
    "cudaFree",
];
const OPS: [(Category, &str); 6] = [
    (Category::Kernel, "gemm"),
    (Category::Kernel, "void relu<float>(float*)"),
    (Category::Kernel, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
    (Category::Copy, "Memcpy HtoD (Pageable -> Device)"),
    (Category::Copy, "Memcpy DtoH (Device -> Pageable)"),
    (Category::Kernel, "softmax"),
];
const CODE: [(Category, &str); 4] = [
    (Category::Function, "model.py(10): forward"),
    (Category::Function, "torch/utils/data/dataloader.py(1132): _try_get_data"),
    (Category::CpuOp, "aten::mm"),
    (Category::Step, "ProfilerStep#1"),
];

/// A call, the ops that it launches, and code. Times are relative to those of the call before.
#[derive(Debug, Clone)]
struct Piece {
    call: usize,
    thread: i64,
    /// Negative starts overlap the call before.
    gap_ns: i64,
    duration_ns: i64,
    /// By stream: delay after the call, duration and kind.
    ops: Vec<(i64, i64, i64, usize)>,
    /// Whether the link to the launch is lost.
    is_lost: bool,
    code: Option<(usize, i64)>,
}

/// Times from a few equal ones to far apart.
fn time() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0_i64), Just(1_000), 0_i64..3_000, 0_i64..50_000, 0_i64..2_000_000]
}

fn piece() -> impl Strategy<Value = Piece> {
    let ops = prop::collection::vec((0_i64..4, prop_oneof![-30_000_i64..0, time()], time(), 0..OPS.len()), 0..4);
    let gap = prop_oneof![-5_000_i64..0, time()];
    let code = prop::option::of((0..CODE.len(), time()));
    (0..CALLS.len(), 1_i64..4, gap, time(), ops, prop::bool::weighted(0.1), code).prop_map(
        |(call, thread, gap_ns, duration_ns, ops, is_lost, code)| Piece {
            call,
            thread,
            gap_ns,
            duration_ns,
            ops,
            is_lost,
            code,
        },
    )
}

fn events(pieces: &[Piece]) -> Vec<Event> {
    let mut events = Vec::new();
    let mut now: BTreeMap<i64, i64> = BTreeMap::new();
    for (index, piece) in pieces.iter().enumerate() {
        let thread_end = now.entry(piece.thread).or_insert(1_000_000);
        let start = *thread_end + piece.gap_ns;
        *thread_end = start + piece.duration_ns;
        let correlation = index as u64 + 1;
        let mut add = |category, name: &str, row, start, duration, correlation| {
            let bytes = if category == Category::Copy { 100_000 } else { 0 };
            events.push(Event { category, name: name.to_owned(), row, start, duration, correlation, bytes });
        };
        add(Category::Call, CALLS[piece.call], piece.thread, start, piece.duration_ns, correlation);
        if let Some((kind, time)) = piece.code {
            let (category, name) = CODE[kind];
            add(category, name, piece.thread, start - time, 2 * time + piece.duration_ns, 0);
        }
        for (stream, delay, duration, kind) in &piece.ops {
            let (category, name) = OPS[*kind];
            let correlation = if piece.is_lost { 0 } else { correlation };
            add(category, name, 7 + stream, start + delay, *duration, correlation);
        }
    }
    events
}

fn check(sections: &Sections) -> Result<(), TestCaseError> {
    let [path, what_if, trust] = ["critical_path", "what_if", "replay_trust"].map(|name| &sections[name]);
    let Some(trust) = trust.rows.first() else {
        let why = trust.missing.as_ref().map(|missing| missing.why.as_str());
        prop_assert!(why.is_some_and(|why| !why.is_empty()), "{why:?}");
        prop_assert!(path.rows.is_empty() && what_if.rows.is_empty());
        return Ok(());
    };
    prop_assert_eq!(trust.amount("exactness_ns"), 0.0);
    let window_ms = trust.amount("window_ms");
    let mut stages: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for row in &path.rows {
        let sums = stages.entry(row.text("stage")).or_default();
        sums.0 += row.amount("share_pct");
        sums.1 += row.amount("per_step_ms");
    }
    let rounding_ms = 1e-6 * (1 + path.rows.len()) as f64;
    for (stage, (share_pct, ms)) in &stages {
        prop_assert!((share_pct - 100.0).abs() < 1e-6, "{stage}: {share_pct} %");
        prop_assert!(*ms > 0.0 && *ms <= window_ms + rounding_ms, "{stage}: {ms} of {window_ms} ms");
    }
    for row in &what_if.rows {
        let [low, high] = ["saving_low_ms", "saving_high_ms"].map(|key| row.amount(key));
        prop_assert!(0.0 <= low && low <= high && high <= window_ms + rounding_ms, "{row:?} of {window_ms} ms");
        let alone = row.amount("only_this_rank_ms");
        prop_assert!(0.0 <= alone && alone <= low, "{row:?}");
        prop_assert!(!row.text("id").is_empty() && row.amount("share_high_pct") <= 100.0 + 1e-9, "{row:?}");
    }
    Ok(())
}

#[test]
fn any_trace_is_replayed_exactly_or_refused_with_a_reason() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) };
    let replayed = Cell::new(0);
    let traces = prop::collection::vec(piece(), 0..40);
    let result = TestRunner::new(config).run(&traces, |pieces| {
        let sections = sections_of(&json(&events(&pieces)));
        replayed.set(replayed.get() + u32::from(sections["replay_trust"].missing.is_none()));
        check(&sections)
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
    println!("{} of {CASES} traces replayed", replayed.get());
    assert!(replayed.get() > CASES / 2, "{} of {CASES} traces replayed", replayed.get());
}
