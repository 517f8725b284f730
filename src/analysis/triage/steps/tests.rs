use super::super::{Options, ServerArgs};
use super::*;
use crate::analysis::section::{Record, Section};
use crate::analysis::structure::stages::testing::{arguments, with_view};
use crate::trace::Trace;
use crate::trace::testing::TestTrace;

const US: i64 = 1_000;
const SHAPE: ModelShape = ModelShape { layers: 2, heads: 4, head_dim: 8 };

fn table_of(trace: &Trace, file_stage: Stage, server: &ServerArgs, options: &Options) -> Section {
    with_view(trace, file_stage, server, options, |view| super::table(view).section())
}

fn table(trace: &Trace) -> Section {
    table_of(trace, Stage::All, &ServerArgs::default(), &Options::default())
}

fn stage_row<'a>(section: &'a Section, stage: &str) -> &'a Record {
    section.rows.iter().find(|row| row.get("stage").and_then(Value::text) == Some(stage)).unwrap()
}

fn number(row: &Record, key: &str) -> Option<f64> {
    row.get(key).unwrap().number()
}

#[test]
fn each_stage_has_a_row_with_count_size_and_duration_of_its_steps() {
    let mut trace = TestTrace::coded();
    // Decode steps of 10, 20, ..., 50 us, one after the other; the device works in the first half of each.
    for (batch, id) in [16, 16, 8, 16, 12].into_iter().zip(0_u32..) {
        let number = i64::from(id);
        let (start, duration) = (number * (number + 1) / 2 * 10 * US, (number + 1) * 10 * US);
        trace.device_annotation(&format!("step[DECODE bs={batch}]"), start..start + duration, id);
        trace.annotation_with_id(&format!("step[DECODE bs={batch}]"), start..start + 5, id);
        trace.kernel("k", start..start + duration / 2).kernel("k", start..start + duration / 4);
    }
    trace.device_annotation("step[EXTEND bs=2 toks=64]", 150 * US..250 * US, 9).kernel("k", 150 * US..350 * US);
    let section = table(&trace.finish());
    let decode = stage_row(&section, "decode");
    assert_eq!(number(decode, "steps"), Some(5.0), "host and device annotation are one step");
    assert_eq!(decode.get("batch_size"), Some(&Value::from("8-16")));
    assert_eq!(decode.get("tokens"), Some(&Value::from("8-16")));
    // Of 10, 20, 30, 40, 50: p10 = 14, p90 = 46, so (46 - 14) / 30.
    let is_close = |key: &str, expected: f64| (number(decode, key).unwrap() - expected).abs() < 1e-9;
    assert!(is_close("median_us", 30.0) && is_close("p90_us", 46.0), "{decode:?}");
    assert!(is_close("spread_pct", 3200.0 / 30.0), "{decode:?}");
    assert!(is_close("gpu_busy_pct", 50.0), "overlapped time counts once");
    assert_eq!(decode.get("example"), Some(&Value::from("step[DECODE bs=16]")));
    let prefill = stage_row(&section, "extend/prefill");
    assert_eq!((prefill.get("batch_size"), prefill.get("tokens")), (Some(&Value::Int(2)), Some(&Value::Int(64))));
    assert_eq!(number(prefill, "gpu_busy_pct"), Some(100.0), "work after the end of the step does not count");
    assert_eq!(prefill.get("attention_gflop"), Some(&Value::Null));
    assert_eq!(section.rows.len(), 2);
    assert!(section.limits.is_empty(), "{:?}", section.limits);
}

#[test]
fn steps_without_a_stage_count_as_the_stage_of_the_file() {
    let mut trace = TestTrace::coded();
    trace.device_annotation("ProfilerStep#3", 0..100, 1).device_annotation("ProfilerStep#4", 100..300, 2);
    let trace = trace.kernel("k", 0..50).finish();
    assert_eq!(number(stage_row(&table(&trace), "all"), "steps"), Some(2.0));
    let of_file = table_of(&trace, Stage::Decode, &ServerArgs::default(), &Options::default());
    assert_eq!(number(stage_row(&of_file, "decode"), "steps"), Some(2.0));
}

#[test]
fn attention_work_follows_from_the_sums() {
    let annotations = [
        ("step[DECODE bs=16 g_sq=16 g_sqsq=16 g_sqsk=65536 g_sk=65536]", 0..1000),
        // No cached tokens: half of 1000 x 1000. 100 new after 900 cached: all minus half of 100 x 100.
        ("step[EXTEND bs=1 toks=1000 c_sq=1000 c_sk=1000 c_sqsq=1000000 c_sqsk=1000000]", 2000..4000),
        ("execute_102_context_1(sq100sk1000sqsq10000sqsk100000)_generation_2(sq2sk700sqsq2sqsk700)", 5000..6000),
    ];
    let mut trace = TestTrace::coded();
    for (id, (text, time)) in (1..).zip(annotations) {
        trace.device_annotation(text, time, id);
    }
    let trace = trace.kernel("k", 0..10).finish();
    let options = Options { model_shape: Some(SHAPE), ..Options::default() };
    let section = table_of(&trace, Stage::All, &ServerArgs::default(), &options);
    // 4 FLOP x 4 heads x head dimension 8 x 2 layers = 256 FLOP per pair.
    let gflop = |stage| number(stage_row(&section, stage), "attention_gflop").unwrap() * 1e9;
    let is_close = |found: f64, expected: f64| (found - expected).abs() < 1e-6 * expected;
    assert!(is_close(gflop("decode"), 256.0 * 65536.0) && is_close(gflop("extend/prefill"), 256.0 * 500_000.0));
    assert!(is_close(gflop("mixed"), 256.0 * (95_000.0 + 700.0)));
    // 256 x 500 000 in the 3 us until the next step.
    let tflops = number(stage_row(&section, "extend/prefill"), "attention_tflops").unwrap();
    assert!(is_close(tflops, 128.0 / 3.0), "{tflops}");
    assert!(section.limits[0].contains("each as full attention"));

    let unknown = table(&trace);
    assert_eq!(stage_row(&unknown, "decode").get("attention_gflop"), Some(&Value::Null));
    assert!(unknown.limits[0].contains("--model-shape LAYERS,HEADS,HEAD_DIM"), "{:?}", unknown.limits);
    let server = arguments(r#"{"config": {"num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 8}}"#);
    let by_arguments = table_of(&trace, Stage::All, &server, &Options::default());
    assert_eq!(by_arguments.rows, section.rows);
}

#[test]
fn steps_without_device_annotations_have_times_of_their_launches_or_the_host() {
    let mut trace = TestTrace::coded();
    trace.annotation_with_id("step[DECODE bs=1]", 0..10, 1);
    trace.launch(5..6).launches("k", 100..150).launch(6..7).launches("k", 160..200);
    trace.annotation_with_id("step[IDLE bs=0]", 20..30, 2);
    let section = table(&trace.finish());
    let decode = stage_row(&section, "decode");
    assert_eq!((number(decode, "median_us"), number(decode, "gpu_busy_pct")), (Some(0.1), Some(90.0)));
    assert_eq!(stage_row(&section, "idle").get("gpu_busy_pct"), Some(&Value::Null));
    assert!(section.limits[0].starts_with("1 of 2 steps have no annotation on the device"), "{:?}", section.limits);
    assert!(section.limits[1].starts_with("1 of 2 steps launched no GPU op"));
}

#[test]
fn steps_of_excluded_devices_do_not_count() {
    let mut trace = TestTrace::coded();
    for (device, end) in [("[TP00] 0", 10), ("[TP01] 0", 30)] {
        trace.device(device).device_annotation("step[DECODE bs=1]", 0..end, 1).kernel("k", 0..end);
    }
    let trace = trace.finish();
    let section = table(&trace);
    assert_eq!(number(stage_row(&section, "decode"), "steps"), Some(2.0));
    assert_eq!(section.limits, ["Each step counts once per device (2 devices)."]);
    let options = Options { pid_substring: Some("TP01".to_owned()), ..Options::default() };
    let section = table_of(&trace, Stage::All, &ServerArgs::default(), &options);
    let decode = stage_row(&section, "decode");
    assert_eq!((number(decode, "steps"), number(decode, "median_us")), (Some(1.0), Some(0.03)));
}

#[test]
fn a_trace_without_steps_has_an_empty_table_with_a_reason() {
    let section = table(&TestTrace::coded().kernel("k", 0..10).annotation_with_id("nccl:all_reduce", 0..5, 1).finish());
    assert!(section.rows.is_empty() && section.missing.is_some());
}

#[test]
fn a_range_of_counts_is_read_as_it_was_written() {
    for (range, value) in [(CountRange(4, 4), Value::Int(4)), (CountRange(1, 16), "1-16".into())] {
        assert_eq!((range.value(), CountRange::of_value(&value)), (value, Some(range)));
    }
    assert_eq!(CountRange::of_value(&"many".into()), None);
}
