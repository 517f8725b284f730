use super::*;
use crate::analysis::dashboard::presets;
use crate::trace::testing::TestTrace;
use crate::trace::{Ns, Window};
use proptest::prelude::*;

const SMALL: [(&[u64], Element); 2] = [(&[8, 4], Element::Bf16), (&[4, 2], Element::Bf16)];
const LARGE: [(&[u64], Element); 2] = [(&[80, 4], Element::Bf16), (&[4, 2], Element::Bf16)];
const BROKEN: [(&[u64], Element); 2] = [(&[8, 4], Element::Bf16), (&[5, 2], Element::Bf16)];

fn work_of(trace: &Trace) -> OpWork {
    let h100 = presets().iter().find(|preset| preset.id == "h100-sxm5");
    OpWork::of(&ClassifiedTrace::new(trace), h100, false)
}

/// The shape of the op that owns each GPU op, or `-`.
fn owners(trace: &Trace) -> Vec<String> {
    let work = work_of(trace);
    let owner = |row: u32| work.owner(row).and_then(|owner| work.cost(owner.shape));
    (0..trace.gpu_ops.len() as u32).map(|row| owner(row).map_or("-".to_owned(), |cost| cost.shape.clone())).collect()
}

#[test]
fn a_kernel_belongs_to_the_innermost_open_op_with_known_cost_on_its_thread() {
    let mut trace = TestTrace::new();
    // An outer op, an inner one, one with unknown cost, and one on another thread.
    trace.shaped_op("aten::fill_", &LARGE, 0..100).shaped_op("aten::mm", &SMALL, 10..20);
    trace.shaped_op("aten::mm", &BROKEN, 40..50);
    trace.thread(2).shaped_op("aten::mm", &LARGE, 0..30).thread(1);
    let times =
        [(10, "inner starts"), (15, "inner"), (20, "inner has ended"), (45, "broken"), (99, "outer"), (100, "ended")];
    for (at, (start, name)) in times.into_iter().enumerate() {
        trace.launch(start..start + 30).launches(name, 200 + at as i64 * 10..205 + at as i64 * 10);
    }
    trace.thread(2).launch(12..13).launches("other thread", 300..305);
    trace.thread(1).kernel("no launch", 400..405);
    assert_eq!(
        owners(&trace.finish()),
        ["8 x 2 x 4", "8 x 2 x 4", "80 x 4", "80 x 4", "80 x 4", "-", "80 x 2 x 4", "-"]
    );
}

#[test]
fn kernels_of_graph_replays_belong_to_no_op() {
    let mut trace = TestTrace::new();
    trace.shaped_op("aten::mm", &SMALL, 0..100).call("cudaGraphLaunch", 40..41).launches("replayed", 230..240);
    assert_eq!(owners(&trace.finish()), ["-"]);
}

#[test]
fn an_outer_product_owns_nothing_and_helpers_belong_to_the_product_around_them() {
    let mut trace = TestTrace::new();
    // Autocast: the outer product converts its operands and calls itself.
    trace.shaped_op("aten::mm", &LARGE, 0..100).shaped_op("aten::copy_", &LARGE, 5..8);
    trace.shaped_op("aten::mm", &SMALL, 10..50).shaped_op("aten::fill_", &SMALL, 20..30);
    for (at, name) in [(2, "outer"), (6, "convert"), (12, "product"), (25, "fill"), (60, "outer again")] {
        trace.launch(at..at + 1).launches(name, 200 + at..201 + at);
    }
    assert_eq!(owners(&trace.finish()), ["-", "80 x 4", "8 x 2 x 4", "8 x 2 x 4", "-"]);
}

#[test]
fn the_time_of_an_op_is_the_union_of_its_kernels_without_sets_and_copies() {
    let mut trace = TestTrace::new();
    trace.shaped_op("aten::mm", &SMALL, 0..100).launch(1..2).launches("Memset (Device)", 200..210);
    trace.launch(3..4).launches("gemm", 220..240).launch(5..6).stream(8).launches("reduce", 230..250);
    let trace = trace.finish();
    let work = work_of(&trace);
    let [execution] = work.executions() else { panic!("one op") };
    assert_eq!((execution.time, execution.kernels, execution.longest), (Ns(30), 2, 1));
    // 128 operations in 30 ns are 0.00427 TFLOP/s; 112 bytes are 0.00373 TB/s: 0.11 % of 3.35 TB/s.
    let sum = work.work_of(&mut [(1, Ns(20))].into_iter()).unwrap();
    assert_eq!((sum.tflops(), sum.tb_per_s()), (Some(128.0 / 30.0 / 1e3), Some(112.0 / 30.0 / 1e3)));
    let (share, is_arithmetic) = sum.of_peak().unwrap();
    assert!((share - 100.0 * 112.0 / 30.0 / 3_350.0).abs() < 1e-9 && !is_arithmetic);
    // The reduction alone has no work of its own; a kernel without an op takes too much of the time.
    assert_eq!(work.work_of(&mut [(2, Ns(20))].into_iter()), None);
    assert_eq!(work.work_of(&mut [(1, Ns(20)), (0, Ns(3))].into_iter()), None);
}

#[test]
fn a_type_without_a_known_peak_has_no_share() {
    for (element, has_share) in [(Element::Bf16, true), (Element::Fp8, true), (Element::Fp32, false)] {
        let mut trace = TestTrace::new();
        trace.shaped_op("aten::mm", &[(&[8, 4], element), (&[4, 2], element)], 0..9).launch(1..2);
        let trace = trace.launches("gemm", 10..20).finish();
        let work = work_of(&trace).work_of(&mut [(0, Ns(10))].into_iter()).unwrap();
        assert_eq!((work.of_peak().is_some(), work.tflops().is_some()), (has_share, true), "{element:?}");
    }
    let v100 = presets().iter().find(|preset| preset.id == "v100-sxm2").unwrap();
    assert_eq!([Element::Fp16, Element::Bf16].map(|element| peak_tflops(v100, element)), [Some(125.0), None]);
}

proptest! {
    /// The sweep finds the same owners as a search through all ops, in the whole trace and in a window.
    #[test]
    fn owners_equal_those_of_a_search_through_all_ops(
        ops in prop::collection::vec((0_i64..60, 1_i64..40, 1_i64..3, any::<bool>()), 0..20),
        calls in prop::collection::vec((0_i64..100, 1_i64..3), 0..20),
        from in 100_i64..200,
    ) {
        let mut trace = TestTrace::new();
        // Ops of one thread nest: each is cut at the end of those around it.
        let mut nested: Vec<(i64, i64, i64, bool)> = Vec::new();
        let mut sorted = ops;
        sorted.sort_by_key(|(start, length, ..)| (*start, -length));
        for (start, length, thread, is_small) in sorted {
            let around = nested.iter().filter(|op| op.2 == thread && op.0 <= start && start < op.1).map(|op| op.1);
            nested.push((start, around.min().unwrap_or(1_000).min(start + length), thread, is_small));
        }
        for (start, end, thread, is_small) in &nested {
            trace.thread(*thread).shaped_op("aten::fill_", if *is_small { &SMALL } else { &LARGE }, *start..*end);
        }
        for (index, (at, thread)) in calls.iter().enumerate() {
            let start = 100 + index as i64 * 5;
            trace.thread(*thread).launch(*at..at + 1).launches("k", start..start + 5);
        }
        let expected: Vec<String> = calls.iter().map(|(at, thread)| {
            let mut open = nested.iter().filter(|op| op.2 == *thread && op.0 <= *at && *at < op.1);
            open.next_back().map_or("-", |op| if op.3 { "8 x 4" } else { "80 x 4" }).to_owned()
        }).collect();
        let whole = trace.finish();
        prop_assert_eq!(owners(&whole), expected.clone());
        let part = whole.within(Window { start: Ns(from), end: Ns(1_000) });
        let first = expected.len() - part.gpu_ops.len();
        prop_assert_eq!(&owners(&part), &expected[first..]);
    }
}
