//! Tests of the search for the code of blocking calls.

use super::look_up_code;
use crate::analysis::context::Context;
use crate::analysis::host::barriers;
use crate::analysis::host::drains::costly_drains;
use crate::analysis::testing::{import, rows_of};
use crate::input::Importer;
use crate::trace::{HostInterval, Ns, ThreadId, Trace, Window};

/// Two kernels with a drain of 900 us between them: `cudaStreamSynchronize` from 100 to 1002 us on thread 9. `code` are further
/// events. As in Kineto files, code is listed before the calls.
fn text(code: &str) -> String {
    let call = |name: &str, start: u32, duration: u32, id: u32| {
        format!(
            r#"{{"ph": "X", "cat": "cuda_runtime", "name": "{name}", "pid": 9, "tid": 9, "ts": {start}, "dur": {duration}, "args": {{"correlation": {id}}}}}"#
        )
    };
    let kernel = |start: u32, id: u32| {
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": {start}, "dur": 980, "args": {{"device": 0, "stream": 7, "correlation": {id}}}}}"#
        )
    };
    let events = [
        code.to_owned(),
        call("cudaLaunchKernel", 1, 2, 1),
        kernel(20, 1),
        call("cudaStreamSynchronize", 100, 902, 2),
        call("cudaLaunchKernel", 1890, 5, 3),
        kernel(1900, 3),
    ];
    format!(r#"{{"traceEvents": [{}]}}"#, events.join(",\n").trim_start_matches(",\n"))
}

fn code(category: &str, name: &str, tid: u32, start: u32, end: u32) -> String {
    let duration = end - start;
    format!(
        r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": 9, "tid": {tid}, "ts": {start}, "dur": {duration}}}"#
    )
}

/// Reads the trace and looks up its code. `split` is the end of the first chunk.
fn located(text: &str, split: usize) -> Trace {
    let (first, second) = text.as_bytes().split_at(split);
    let mut importer = Importer::new("t.json");
    importer.feed(first).unwrap();
    let mut trace = import(importer, second);
    let call = HostInterval { thread: ThreadId(0), start: Ns(100_000), end: Ns(1_002_000) };
    assert_eq!(costly_drains(&trace), [call]);
    look_up_code(&mut trace);
    trace
}

fn site(code: &[String]) -> String {
    let trace = located(&text(&code.join(",\n")), 0);
    let site = trace.blocking_sites.at(ThreadId(0), Ns(100_000)).and_then(|site| trace.blocking_sites.get(site));
    site.map(|site| site.text_of_call("sync")).unwrap_or_default()
}

#[test]
fn the_innermost_op_and_frame_around_the_call_are_its_site() {
    let all = [
        code("cpu_op", "aten::item", 9, 98, 1005),
        code("cpu_op", "aten::_local_scalar_dense", 9, 99, 1004),
        code("cpu_op", "aten::mm", 9, 50, 99),
        code("python_function", "a.py(9): main", 9, 0, 3000),
        code("python_function", "/venv/lib/site-packages/sglang/batch.py(123): get_next_batch", 9, 90, 1010),
        code("python_function", "<built-in method item of Tensor object>", 9, 95, 1007),
        code("python_function", "torch/_tensor.py(33): wrapped", 9, 94, 1008),
        code("python_function", "b.py(2): later", 9, 1010, 2000),
    ];
    let expected = "sync in aten::item, called from sglang/batch.py(123): get_next_batch";
    assert_eq!(site(&all), expected);
    let reversed: Vec<String> = all.iter().rev().cloned().collect();
    assert_eq!(site(&reversed), expected, "the order of the file does not matter");
    let text = text(&all.join(",\n"));
    let whole = located(&text, 0);
    for split in (0..text.len()).step_by(37) {
        assert_eq!(located(&text, split).blocking_sites, whole.blocking_sites, "split at {split}");
    }
}

#[test]
fn code_of_another_thread_or_another_time_is_no_site() {
    let frame = |tid, start, end| code("python_function", "a.py(9): main", tid, start, end);
    assert_eq!(site(&[frame(8, 0, 3000), code("cpu_op", "aten::item", 8, 99, 1005)]), "");
    assert_eq!(site(&[frame(9, 0, 100)]), "", "it ended when the call began");
    assert_eq!(site(&[frame(9, 101, 3000)]), "", "it began after the call");
    assert_eq!(site(&[]), "");
}

#[test]
fn an_op_or_a_frame_alone_is_a_site() {
    assert_eq!(site(&[code("cpu_op", "aten::_local_scalar_dense", 9, 99, 1004)]), "sync in aten::_local_scalar_dense");
    assert_eq!(site(&[code("Operator", "aten::item", 9, 99, 1004)]), "sync in aten::item");
    let synchronize = code("python_function", "torch/cuda/__init__.py(985): synchronize", 9, 99, 1004);
    assert_eq!(site(&[synchronize]), "sync, called from torch/cuda/__init__.py(985): synchronize");
}

#[test]
fn the_report_of_the_trace_and_of_a_window_names_the_site() {
    let trace = located(&text(&code("cpu_op", "aten::item", 9, 99, 1004)), 0);
    let window = trace.within(Window { start: Ns(500_000), end: Ns(2_500_000) });
    for trace in [&trace, &window] {
        let sync = barriers::sync(&Context::new(trace, 30)).section();
        assert_eq!(rows_of(&sync, &["api_name", "call_site"]), ["cudaStreamSynchronize aten::item"]);
    }
}
