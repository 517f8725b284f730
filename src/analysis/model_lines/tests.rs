use super::*;
use crate::analysis::section::{Record, Section, Value};
use crate::analysis::testing::{analyze, torch, words};
use crate::session::look_up_code;
use crate::trace::testing::TestTrace;

/// A section with these columns and rows.
fn table(columns: &[&str], rows: &[&[Value]]) -> Section {
    let mut section = Section::new("T", "a test", columns);
    for row in rows {
        let values = columns.iter().map(|column| (*column).to_owned().into()).zip(row.iter().cloned());
        section.rows.push(Record(values.collect()));
        section.rows_in_all += 1;
    }
    section
}

fn run_of(sections: &[(&str, Section)]) -> Run {
    let mut run = TestTrace::new().run();
    run.sections.clear();
    run.sections.extend(sections.iter().map(|(name, section)| ((*name).to_owned(), section.clone())));
    run
}

fn texts(run: &Run) -> Vec<String> {
    model_lines(run).into_iter().map(|line| line.text).collect()
}

/// Nine steps, and 2.7 ms of turnaround and 50 ms without recorded work in all.
#[test]
fn time_that_a_few_steps_lost_is_no_part_of_the_median_step() {
    let text = |other_idle_ns: f64| {
        let columns = ["stage", "steps", "median_ns", "busy_median_ns", "other_idle_median_ns", "confidence"];
        let row = ["decode".into(), 9_i64.into(), 5e6.into(), 4e6.into(), other_idle_ns.into(), "proven".into()];
        let idle = table(&["turnaround_ms", "unrecorded_ms"], &[&[2.7.into(), 50.0.into()]]);
        texts(&run_of(&[("steps", table(&columns, &[&row])), ("gpu_idle", idle)])).remove(0)
    };
    let (of_one, of_all) = (text(0.3e6), text(5.8e6));
    assert!(of_one.contains("turnaround"), "{of_one}");
    assert!(of_all.contains("not recorded"), "{of_all}");
}

const STEPS: [&str; 7] =
    ["stage", "steps", "median_ns", "busy_median_ns", "host_late_median_ns", "batch", "confidence"];

fn steps(confidence: &str) -> (&'static str, Section) {
    let row =
        ["decode".into(), 9_i64.into(), 18.9e6.into(), 16.6e6.into(), 1.5e6.into(), 1_i64.into(), confidence.into()];
    ("steps", table(&STEPS, &[&row]))
}

fn turnaround() -> (&'static str, Section) {
    ("gpu_idle", table(&["turnaround_ms", "other_stream_ms"], &[&[7.2.into(), 0.1.into()]]))
}

fn floor(confidence: &str, floor_ms: f64) -> (&'static str, Section) {
    let columns = ["stage", "floor_ms", "weights_gb", "kv_gb", "bound_by", "confidence"];
    let bound_by = "memory bandwidth".into();
    let row = ["decode".into(), floor_ms.into(), 35.3.into(), Value::Null, bound_by, confidence.into()];
    ("step_floor", table(&columns, &[&row]))
}

const DECODE: &str = "Decode: 9 steps, median 18.9 ms (16.6 busy, 1.5 host late, 0.8 turnaround), batch 1";

#[test]
fn a_step_is_stated_with_its_parts_and_its_floor() {
    let floor_words = "; floor 10.5 ms (35.3 GB of weights at 3.35 TB/s): 56 % of the hardware.";
    for confidence in ["proven", "inferred"] {
        let run = run_of(&[steps("proven"), turnaround(), floor(confidence, 35.3 / 3.35)]);
        assert_eq!(texts(&run), [format!("{DECODE}{floor_words}")]);
    }
    let guessed = run_of(&[steps("proven"), turnaround(), floor("guess", 10.6)]);
    assert_eq!(texts(&guessed), [format!("{DECODE}.")], "a guessed floor is not stated");
    let impossible = run_of(&[steps("proven"), turnaround(), floor("proven", 19.0)]);
    assert_eq!(texts(&impossible), [format!("{DECODE}.")], "no step is faster than its floor");
}

#[test]
fn the_floor_of_a_model_with_experts_is_a_range() {
    let columns = ["stage", "floor_ms", "floor_uniform_ms", "bound_by", "confidence"];
    let row: [Value; 5] = ["decode".into(), 1.89.into(), 9.45.into(), "arithmetic".into(), "inferred".into()];
    let run = run_of(&[steps("proven"), turnaround(), ("step_floor", table(&columns, &[&row]))]);
    let floor = "; floor 1.9 ms, 9.4 ms with uniform routing: 10 to 50 % of the hardware.";
    assert_eq!(texts(&run), [format!("{DECODE}{floor}")]);
}

#[test]
fn guessed_steps_are_not_stated_and_unexplained_idle_time_is_not_turnaround() {
    assert!(texts(&run_of(&[steps("guess"), turnaround()])).is_empty());
    let unknown = ("gpu_idle", table(&["turnaround_ms", "unknown_ms"], &[&[1.0.into(), 5.0.into()]]));
    assert_eq!(
        texts(&run_of(&[steps("proven"), unknown])),
        [format!("{}.", DECODE.replace("turnaround", "other idle"))]
    );
}

const LAYERS: [&str; 5] = ["stage", "kind", "count", "median_us", "total_ns"];
const ROLES: [&str; 6] = ["stage", "kind", "role", "kernels", "median_us", "total_ns"];

/// 80 layers of 184 us and 14 us of turnaround.
fn dense_layers() -> [(&'static str, Section); 2] {
    let layer: [Value; 5] = ["decode".into(), "A".into(), 80_i64.into(), 184.0.into(), (198_000 * 80_i64).into()];
    let parts = [
        ("gate_up", 1_i64, 62.0),
        ("down", 1, 45.0),
        ("qkv", 1, 18.0),
        ("o_proj", 1, 17.0),
        ("comm", 2, 10.0),
        ("attention", 1, 12.0),
        ("norm", 2, 10.0),
        ("activation", 1, 5.9),
        ("rope", 1, 4.1),
    ];
    let role = |(role, kernels, us): (&str, i64, f64)| {
        ["decode".into(), "A".into(), role.into(), kernels.into(), us.into(), Value::from(us * 80_000.0)]
    };
    let mut rows: Vec<[Value; 6]> = parts.map(role).into();
    let idle_ns = 14_000 * 80_i64;
    rows.push(["decode".into(), "A".into(), "idle".into(), 0_i64.into(), Value::Null, idle_ns.into()]);
    let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
    [("layers", table(&LAYERS, &[&layer])), ("layer_roles", table(&ROLES, &rows))]
}

#[test]
fn a_layer_is_stated_with_its_largest_parts_and_the_sum_of_the_others() {
    assert_eq!(
        texts(&run_of(&[&dense_layers()[..], &[turnaround()]].concat())),
        [
            "80 layers of 198 us: gate/up 62, down 45, qkv 18, o 17, turnaround 14, attention 12, communication 2 x 5.0, \
          norms 10, other 10."
        ]
    );
    let idle = texts(&run_of(&dense_layers()));
    assert!(idle[0].contains(", idle 14,"), "{idle:?}: without causes of idle time it is not called turnaround");
    let trust = ("trust", table(&["id"], &[&["durations-shifted".into()]]));
    let [layers, roles] = dense_layers();
    assert_eq!(texts(&run_of(&[layers, roles, trust])), ["80 layers of 198 us."]);
}

#[test]
fn each_kind_of_layer_has_a_sentence() {
    let layer = |kind: &str, count: i64, us: f64| -> Vec<Value> {
        vec!["decode".into(), kind.into(), count.into(), us.into(), (us * 1e3 * count as f64).into()]
    };
    let layers = table(&LAYERS, &[&layer("A", 58, 200.0), &layer("B", 3, 20_500.0)]);
    assert_eq!(
        texts(&run_of(&[("layers", layers)])),
        ["58 layers of kind A of 200 us.", "3 layers of kind B of 20.5 ms."]
    );
}

#[test]
fn the_host_is_stated_with_the_function_that_took_most() {
    let columns = ["function", "file", "total_ms"];
    let rows: [&[Value]; 2] = [
        &["(launch latency)".into(), "".into(), 5.0.into()],
        &["_prepare_inputs".into(), "vllm/v1/worker/gpu_model_runner.py".into(), 4.05.into()],
    ];
    let mut blame = table(&columns, &rows);
    blame.figure("late_ms", 13.5);
    blame.figure("late_in_steps_ms", 13.5);
    blame.figure("steps", 9_u64);
    let head_idle: [Value; 6] =
        ["decode".into(), "outside".into(), "head_idle".into(), 0_i64.into(), Value::Null, 1_400_000_i64.into()];
    let roles = ("layer_roles", table(&ROLES, &[&head_idle]));
    let run = run_of(&[steps("proven"), roles, ("idle_blame", blame.clone())]);
    let text =
        "Host: on average 1.5 ms a step before the first layer, 0.45 of it in _prepare_inputs (gpu_model_runner.py).";
    assert_eq!(texts(&run)[1], text);
    // Without layers it is not known where in the step the host was late.
    let run = run_of(&[("idle_blame", blame)]);
    assert_eq!(texts(&run), [text.replace("before the first layer", "of late launches")]);
    // Much of the late time is outside of the steps, so there is no time per step.
    let mut outside = table(&columns, &rows);
    outside.figure("late_ms", 13.5);
    outside.figure("late_in_steps_ms", 9.0);
    outside.figure("steps", 9_u64);
    let text =
        "Host: 13.5 ms of late launches in the whole capture, 4.0 of it in _prepare_inputs (gpu_model_runner.py).";
    assert_eq!(texts(&run_of(&[("idle_blame", outside)])), [text]);
}

/// A mean over all steps would make a rare pause look like a small cost of each.
#[test]
fn code_that_only_some_steps_have_is_told_with_their_number() {
    let mut trace = TestTrace::coded();
    trace.in_us();
    let mut now = 0;
    for step in 0..20 {
        trace.frame("model.py(7): schedule", now..now + 300);
        let pause = if [5, 12].contains(&step) { 9_000 } else { 0 };
        trace.frame("stats.py(3): write_log", now + 300..now + 300 + pause);
        let launch = now + 310 + pause;
        trace.range(&format!("ProfilerStep#{step}"), now..launch + 80);
        trace.launch(launch..launch + 10).launches("gemm", launch + 20..launch + 70);
        now = launch + 90;
    }
    let mut trace = trace.finish();
    look_up_code(&mut trace);
    let run = analyze(&trace);
    let finding = run.sections["findings"].rows.iter().find(|row| words(row, "id") == "host-late").unwrap();
    // The first of the 20 steps has no gap before it.
    let evidence = words(finding, "evidence");
    assert!(evidence.contains("most is in write_log (stats.py:3), 18.0 ms in 2 of 19 steps"), "{evidence}");
}

/// The replay knows which code decides when the GPU works, so the sentence and the findings name the same.
#[test]
fn the_host_is_stated_with_the_code_that_has_most_time_on_the_critical_path() {
    let mut trace = TestTrace::coded();
    trace.in_us();
    for start in (0..20_000).step_by(1_000) {
        trace.range(&format!("ProfilerStep#{start}"), start..start + 990);
        trace.frame("model.py(7): schedule", start + 1..start + 700);
        trace.frame("model.py(9): forward", start + 700..start + 980);
        trace.launch(start + 900..start + 910).launches("gemm", start + 920..start + 970);
    }
    let mut trace = trace.finish();
    look_up_code(&mut trace);
    let run = analyze(&trace);
    let lines = texts(&run);
    let host = lines.iter().find(|line| line.starts_with("Host:")).unwrap_or_else(|| panic!("{lines:?}"));
    assert!(host.contains("; of its time on the critical path most is in schedule (model.py:7), "), "{host}");
    let finding = run.sections["findings"].rows.iter().find(|row| words(row, "id") == "host-late").unwrap();
    assert!(words(finding, "evidence").contains("most is in schedule (model.py:7), "), "{finding:?}");
}

/// Numbers of an independent program over the same file: 48 layers, 122.4 us of kernels, experts 43.2 and 23.6 us, 2.11 ms late.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_sentences_on_a_shared_trace_have_the_numbers_of_an_independent_program() {
    let trace = torch("sglang_qwen3_30b_b300_decode.trace.json.gz");
    let lines = texts(&analyze(&trace));
    assert!(lines[0].starts_with("Decode: 1 step of 7.5 ms") && lines[0].contains("batch 16"), "{lines:?}");
    assert!(
        lines[1].starts_with("48 layers of 122 us, 109 us with overlap: experts up 43, experts down 24"),
        "{lines:?}"
    );
}
