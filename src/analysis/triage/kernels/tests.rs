use super::*;
use crate::analysis::structure::stages::testing::with_view;
use crate::analysis::testing::{replay_of_layers, rows_of};
use crate::analysis::triage::{Options, ServerArgs};
use crate::trace::Trace;
use crate::trace::testing::TestTrace;

fn view<R>(trace: &Trace, options: &Options, use_view: impl FnOnce(&mut View) -> R) -> R {
    with_view(trace, Stage::Decode, &ServerArgs::default(), options, use_view)
}

fn site(location: &str, resolution: Resolution, duration_ns: i64) -> RowCallSite {
    let (location, cpu_op) = (location.to_owned(), format!("op of {location}"));
    RowCallSite {
        display: location.clone(),
        location,
        stack: Vec::new(),
        cpu_op,
        resolution,
        launches: 1,
        duration_ns,
        elapsed_ns: duration_ns,
    }
}

fn row(call_sites: Vec<RowCallSite>) -> KernelRow {
    KernelRow { launches: 2, call_sites, ..KernelRow::for_test(Stage::Decode, "k", "gemm", 100) }
}

#[test]
fn rows_sum_over_devices_and_raw_names_and_shares_use_their_documented_denominators() {
    // Sum 300, busy 100 + 100 (b overlaps a), wall 200 + 100.
    let mut trace = TestTrace::new();
    trace.device(0).kernel("void a(int)", 0..50).kernel("b", 0..50);
    trace.device(1).kernel("void a(long)", 0..100).kernel("b", 50..100);
    trace.device(0).kernel("b", 150..200);
    let rows = view(&trace.finish(), &Options::default(), |view| rows(view));
    let sums: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.duration_ns, row.launches)).collect();
    assert_eq!(sums, [("void a", 150, 2), ("b", 150, 3)], "rows of equal duration keep the order of their first ops");
    let shares = |row: &KernelRow| [row.elapsed_share_pct, row.share_pct, row.busy_share_pct, row.wall_share_pct];
    // Of the 200 ns busy, a owns 25 + 75 and b 25 + 25 + 50.
    assert_eq!(shares(&rows[0]), [50.0, 50.0, 75.0, 50.0]);
    assert_eq!(rows[0].ids.len(), 2);
    assert_eq!(rows[0].call_sites.len(), 1, "all unresolved ops share one call site");
}

#[test]
fn callers_of_one_library_function_keep_their_own_shares() {
    // The innermost frame of both launches is the `Linear` of PyTorch; the model's code differs.
    let mut trace = TestTrace::coded();
    for (index, (caller, duration_ns)) in
        [("m/model.py(81): mlp", 74), ("m/model.py(241): attention", 13), ("m/model.py(241): attention", 13)]
            .into_iter()
            .enumerate()
    {
        let (start, id) = (100 * index as i64, index as u32 + 1);
        trace.frame(caller, start..start + 50).frame("torch/nn/modules/linear.py(130): forward", start + 1..start + 40);
        trace.cpu_op("aten::mm", start + 2..start + 20, id);
        trace.kernel_of_cpu_op("gemm", start + 20..start + 20 + duration_ns, id);
    }
    let rows = view(&trace.finish(), &Options::default(), |view| rows(view));
    let sites: Vec<_> = rows[0].call_sites.iter().map(|site| (site.display.as_str(), site.duration_ns)).collect();
    assert_eq!(sites, [("m/model.py:81 mlp", 74), ("m/model.py:241 attention", 26)]);
}

#[test]
fn frames_on_other_threads_than_the_launches_are_a_limit() {
    let trace = |frames_on: i64| {
        let mut trace = TestTrace::coded();
        trace.thread(frames_on).frame("serve.py(1): wait", 0..100);
        trace.thread(7).call("cudaLaunchKernel", 10..12).launches("gemm", 20..30);
        trace.finish()
    };
    assert_eq!(missing_frames(&trace(7)), None);
    assert!(missing_frames(&trace(1)).unwrap().contains("threads that launch most of the work"));
    assert!(missing_frames(&TestTrace::coded().finish()).unwrap().contains("has no Python frames"));
}

#[test]
fn hidden_rows_are_counted() {
    let trace =
        TestTrace::new().kernel("large", 0..900).kernel("middle", 900..990).kernel("small", 990..1_000).finish();
    for (min_share_pct, kernel_table_limit, shown, hidden_pct) in
        [(0.0, 0, 3, 0.0), (1.0, 0, 3, 0.0), (1.5, 0, 2, 1.0), (0.0, 1, 1, 10.0), (99.0, 2, 0, 100.0)]
    {
        let options = Options { min_share_pct, kernel_table_limit, ..Options::default() };
        let section = view(&trace, &options, |view| table(view, &rows(view))).section();
        let figure = |name: &str| section.summary.get(name).unwrap().number().unwrap();
        assert_eq!((section.rows.len(), section.rows_in_all), (shown, 3));
        assert_eq!((figure("hidden_rows"), figure("hidden_share_pct")), ((3 - shown) as f64, hidden_pct));
    }
}

#[test]
fn kernels_with_shifted_durations_have_no_shares() {
    let shares = |lost_at: usize| {
        let trace = replay_of_layers(lost_at).finish();
        let section = view(&trace, &Options::default(), |view| table(view, &rows(view))).section();
        assert_eq!(section.limits.iter().any(|limit| limit == WITHHELD), lost_at == 30);
        rows_of(&section, &["share_pct", "busy_share_pct", "wall_share_pct", "elapsed_share_pct"])
    };
    assert_eq!(shares(30), ["- - - -"; 5]);
    assert!(!shares(usize::MAX).concat().contains('-'));
}

#[test]
fn a_cell_shows_the_two_best_locations_and_their_resolutions() {
    let rules = FrameRules::embedded();
    let texts = |row: &KernelRow| {
        let row = table_row(row, &rules);
        [row.python_location.0, row.cpu_op, row.found]
    };
    let [vllm, script] = ["vllm/a.py:1 f", "script.py:2 g"];
    let plain = row(vec![site(script, Resolution::Exact, 60), site("", Resolution::Unresolved, 40)]);
    let [locations, _, found] = texts(&plain);
    assert_eq!(locations, "script.py:2 g (site share 60%)\nunresolved (site share 40%)");
    assert_eq!(found, "exact, unresolved");
    let framework = row(vec![site(vllm, Resolution::ByLaunch, 40), site(script, Resolution::Exact, 60)]);
    assert_eq!(texts(&framework), [vllm, "op of vllm/a.py:1 f", "by launch"], "a framework location hides the others");
}

#[test]
fn call_sites_that_show_one_location_merge_to_their_most_frequent_stack_and_op() {
    let site = |location: &str, cpu_op: &str, resolution| CallSite {
        location: location.to_owned(),
        display: "m.py:1 mlp".to_owned(),
        stack: vec!["m.py:1 mlp".to_owned(), location.to_owned()],
        cpu_op: cpu_op.to_owned(),
        resolution,
    };
    let [functional, linear] = ["torch/functional.py:1 linear", "torch/linear.py:2 forward"];
    let [a, b, c] = [
        site(functional, "aten::addmm", Resolution::Exact),
        site(linear, "aten::mm", Resolution::Exact),
        site(linear, "aten::addmm", Resolution::ByLaunch),
    ];
    let weighted = |call_site, launches| {
        let duration_ns = 10 * launches as i64;
        Weighted { call_site, launches, duration_ns, elapsed_ns: duration_ns }
    };
    let one = merged(&[weighted(&a, 4), weighted(&b, 3), weighted(&c, 3)]);
    assert_eq!(
        (one.location.as_str(), one.cpu_op.as_str(), one.resolution),
        (linear, "aten::addmm", Resolution::Exact)
    );
    assert_eq!((one.stack, one.display.as_str()), (b.stack.clone(), "m.py:1 mlp"));
    assert_eq!((one.launches, one.duration_ns), (10, 100));
}
