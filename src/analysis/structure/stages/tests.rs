use super::*;
use crate::trace::testing::TestTrace;
use proptest::prelude::*;

const PREFILL: &str = "step[EXTEND bs=2 toks=64]";
const DECODE: &str = "step[DECODE bs=16]";
const MS: i64 = 1_000_000;

fn stages(trace: &mut TestTrace) -> Vec<Stage> {
    of_ops(&trace.finish(), Stage::All)
}

#[test]
fn the_nearest_name_in_a_path_with_a_stage_decides() {
    for (path, expected) in [
        ("1731-TP-0-EXTEND.trace.json.gz", Stage::Prefill),
        ("run/1731-TP-0-DP-1-DECODE.trace.json.gz", Stage::Decode),
        ("out/decode/1731-TP-0.trace.json.gz", Stage::Decode),
        ("out/decode/1731-TP-0-EXTEND.trace.json.gz", Stage::Prefill),
        ("out\\prefill\\trace.json", Stage::Prefill),
        ("trace_prefill_3.json", Stage::Prefill),
        ("vllm_mi300_decode_full_graph.trace.json.gz", Stage::Decode),
        ("my-prefill/x.json", Stage::Prefill),
        ("extend.json", Stage::Prefill),
        ("decoder/x.json", Stage::All),
        ("prefills-decoded.json", Stage::All),
        ("x.decode", Stage::All),
        ("decode2.json", Stage::All),
        ("prefill_and_decode/x.json", Stage::All),
        ("decode/prefill-decode.json", Stage::Decode),
        ("decode/1/2/3/4/5/6.json", Stage::All),
        ("decode/1/2/3/4/5.json", Stage::Decode),
        ("", Stage::All),
    ] {
        assert_eq!(stage_of_path(path), expected, "{path}");
    }
}

#[test]
fn an_op_has_the_stage_of_the_annotation_on_its_device() {
    let mut trace = TestTrace::coded();
    trace.device_annotation(PREFILL, 100..200, 1).device_annotation(DECODE, 200..300, 2);
    trace.kernel("k", 100..150).kernel("k", 199..250).kernel("k", 200..210).kernel("k", 300..310);
    assert_eq!(stages(&mut trace), [Stage::Prefill, Stage::Prefill, Stage::Decode, Stage::Decode]);
}

#[test]
fn the_innermost_annotation_with_a_stage_decides() {
    let mut trace = TestTrace::coded();
    trace.device_annotation("execute_context_1(4)_generation_9(9)", 0..1000, 1);
    trace.device_annotation("run_batch", 10..900, 2);
    trace.device_annotation("step[VERIFY bs=9]", 100..400, 3).device_annotation("nccl:all_reduce", 150..160, 4);
    trace.kernel("k", 50..60).kernel("k", 155..156).kernel("k", 399..500).kernel("k", 500..600);
    assert_eq!(stages(&mut trace), [Stage::Mixed, Stage::Verify, Stage::Verify, Stage::Mixed]);
}

#[test]
fn an_external_id_precedes_times_and_device_annotations_precede_host_annotations() {
    let mut trace = TestTrace::coded();
    trace.device_annotation(PREFILL, 0..100, 5).device_annotation(DECODE, 100..200, 6);
    trace.annotation_with_id(DECODE, 0..900, 7);
    trace.kernel_of_cpu_op("a", 50..60, 6).kernel_of_cpu_op("b", 150..160, 5).kernel_of_cpu_op("c", 60..70, 7);
    trace.kernel_of_cpu_op("d", 70..80, 99);
    assert_eq!(stages(&mut trace), [Stage::Decode, Stage::Decode, Stage::Prefill, Stage::Prefill]);
}

#[test]
fn ids_match_within_one_process_only() {
    let mut trace = TestTrace::coded();
    // Ranks reuse the same ids: id 5 of one rank has nothing to do with id 5 of another.
    trace.device("[TP00] 0").device_annotation(PREFILL, 0..100, 5);
    trace.device("[TP01] 1").device_annotation(DECODE, 0..100, 6).kernel_of_cpu_op("a", 50..60, 5);
    assert_eq!(stages(&mut trace), [Stage::Decode]);
    trace.annotation_with_id(PREFILL, 0..10, 5).annotation_with_id(DECODE, 100..200, 6);
    trace.launch(150..151).launches("k", 300..310).external_id(5);
    assert_eq!(stages(&mut trace), [Stage::Decode], "the annotation with this id does not contain the launch");
}

#[test]
fn an_id_shared_by_all_annotations_is_ignored_in_linear_time() {
    let mut trace = TestTrace::coded();
    for index in 0..50_000 {
        let start = index * 10;
        trace.device_annotation(if index == 49_999 { DECODE } else { PREFILL }, start..start + 5, 0);
        trace.kernel_of_cpu_op("kernel", start + 1..start + 4, 0);
    }
    let trace = trace.finish();
    let start = std::time::Instant::now();
    let found = of_ops(&trace, Stage::All);
    assert!(start.elapsed().as_secs() < 20, "quadratic time");
    assert_eq!((found[0], found[49_998], found[49_999]), (Stage::Prefill, Stage::Prefill, Stage::Decode));
}

#[test]
fn host_annotations_are_matched_by_the_launch_of_the_op() {
    let mut trace = TestTrace::coded();
    trace.annotation_with_id(PREFILL, 0..100, 1).annotation_with_id(DECODE, 100..200, 2);
    // The first op runs while the host is in the next step.
    trace.launch(50..51).launches("k", 120..180).launch(150..151).launches("k", 500..600).kernel("k", 130..140);
    assert_eq!(stages(&mut trace), [Stage::Prefill, Stage::Decode, Stage::Decode]);
}

#[test]
fn device_annotations_precede_host_annotations() {
    let mut trace = TestTrace::coded();
    trace.annotation_with_id(DECODE, 0..1000, 1).device_annotation(PREFILL, 500..600, 2);
    trace.launch(10..11).launches("k", 550..560).launch(20..21).launches("k", 700..710);
    assert_eq!(
        stages(&mut trace),
        [Stage::Prefill, Stage::Decode],
        "without a device annotation the host annotation decides"
    );
}

#[test]
fn an_op_within_20_ms_of_a_step_belongs_to_it() {
    let mut trace = TestTrace::coded();
    trace.device_annotation(PREFILL, 0..10, 1).device_annotation(DECODE, 100 * MS..101 * MS, 2);
    for start in [10 + 20 * MS, 11 + 20 * MS, 80 * MS, 80 * MS - 1, 121 * MS, 121 * MS + 1] {
        trace.kernel("k", start..start + MS);
    }
    let expected = [Stage::Prefill, Stage::All, Stage::All, Stage::Decode, Stage::Decode, Stage::All];
    assert_eq!(stages(&mut trace), expected);
}

#[test]
fn each_device_uses_its_own_annotations() {
    let mut trace = TestTrace::coded();
    trace.device(0).device_annotation(PREFILL, 0..100, 1).device(1).device_annotation(DECODE, 0..100, 2);
    trace.device(0).kernel("k", 10..20).device(1).kernel("k", 10..20).device(2).kernel("k", 150..160);
    assert_eq!(stages(&mut trace)[..2], [Stage::Prefill, Stage::Decode]);
    trace.device(1).device_annotation(DECODE, 0..100, 2).device(0).kernel("k", 10..20);
    assert_eq!(stages(&mut trace), [Stage::Decode], "a device without annotations uses those of the other devices");
}

#[test]
fn plain_words_are_ignored_if_there_are_engine_annotations() {
    let mut trace = TestTrace::coded();
    trace.device_annotation("my decode loop", 0..100, 1).kernel("k", 10..20);
    assert_eq!(stages(&mut trace), [Stage::Decode]);
    trace.device_annotation("execute_context_2(9)_generation_3(3)", 0..100, 1);
    trace.device_annotation("decode attention", 5..50, 2).kernel("k", 10..20);
    assert_eq!(stages(&mut trace), [Stage::Mixed], "the word names a part of a mixed step");
}

#[test]
fn the_file_stage_applies_to_all_ops_and_without_annotations_the_stage_is_unknown() {
    let mut trace = TestTrace::coded();
    trace.device_annotation(DECODE, 0..100, 1).kernel("k", 10..20);
    let decode = trace.finish();
    assert_eq!(of_ops(&decode, Stage::Prefill), [Stage::Prefill]);
    let conflicts = |file_stage| count_stage_conflicts(&steps(&decode), file_stage);
    assert_eq!([Stage::Prefill, Stage::Decode, Stage::All].map(conflicts), [(1, 1), (0, 1), (0, 1)]);
    trace.device_annotation("ProfilerStep#4", 0..100, 1).kernel("k", 10..20);
    assert_eq!(stages(&mut trace), [Stage::All]);
    let without_code = Trace { code: None, ..decode };
    assert_eq!(of_ops(&without_code, Stage::All), [Stage::All]);
    assert!(steps(&without_code).is_empty());
}

/// Text, start, end, basis.
fn step_list(trace: &Trace) -> Vec<(String, i64, i64, Basis)> {
    let names = &trace.code.as_ref().unwrap().annotation_names;
    steps(trace).iter().map(|step| (names.get(step.name).to_owned(), step.start.0, step.end.0, step.basis)).collect()
}

#[test]
fn a_step_counts_once_with_annotations_on_host_and_device() {
    let mut trace = TestTrace::coded();
    // The first is on two streams, the second has no device annotation, the third launches nothing.
    trace.annotation_with_id(DECODE, 0..10, 1);
    trace.device_annotation(DECODE, 100..200, 1).device_annotation(DECODE, 150..260, 1);
    trace.annotation_with_id(DECODE, 20..30, 2).annotation_with_id("step[IDLE bs=0]", 40..50, 3);
    trace.launch(25..26).launches("k", 300..320).launch(29..30).launches("k", 330..350);
    let expected = [
        (DECODE.to_owned(), 100, 260, Basis::Device),
        (DECODE.to_owned(), 300, 350, Basis::Launches),
        ("step[IDLE bs=0]".to_owned(), 40, 50, Basis::Host),
    ];
    assert_eq!(step_list(&trace.finish()), expected);
}

#[test]
fn the_innermost_of_nested_engine_annotations_names_the_step_and_the_outermost_limits_it() {
    let outer = "execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk8193sqsq16sqsk8193)";
    let mut trace = TestTrace::coded();
    trace.device_annotation(outer, 0..100, 1).device_annotation(DECODE, 10..90, 2);
    let nested = trace.device_annotation("nccl:all_reduce", 20..30, 3).finish();
    assert_eq!(step_list(&nested), [(DECODE.to_owned(), 0, 100, Basis::Device)]);
    let step = steps(&nested)[0];
    assert_eq!((step.info.batch_size, step.info.generation.map(|sums| sums.sqsk)), (Some(16), Some(8193)));
    // Two steps in one annotation: its values belong to neither step alone.
    trace.device_annotation(outer, 0..100, 1).device_annotation("step[DECODE]", 10..40, 2);
    let found = steps(&trace.device_annotation("step[DRAFT bs=4]", 50..90, 3).finish());
    assert_eq!(found.iter().map(|step| step.info.stage).collect::<Vec<_>>(), [Stage::Decode, Stage::Draft]);
    assert_eq!((found[0].info.batch_size, found[0].info.generation), (None, None));
    assert_eq!(found.iter().map(|step| (step.start.0, step.end.0)).collect::<Vec<_>>(), [(10, 40), (50, 90)]);
    trace.device_annotation("decode", 0..100, 1).device_annotation("decode attention", 10..20, 2);
    let words = trace.device_annotation("decode mlp", 20..90, 3).finish();
    assert_eq!(step_list(&words).len(), 1, "words inside of a word annotation name parts of the step");
}

proptest! {
    #[test]
    fn nesting_equals_that_of_an_exhaustive_search(
        list in prop::collection::vec((0_i64..60, 1_i64..30, 0_u32..2), 0..14),
    ) {
        let mut trace = TestTrace::coded();
        let mut spans: Vec<(i64, i64, u32)> = Vec::new();
        for (start, length, device) in list {
            // Steps of one device are disjoint or nested.
            let (new, end) = ((start, start + length, device), start + length);
            let fits = |old: &(i64, i64, u32)| old != &new && (old.2 != device || old.1 <= start || end <= old.0
                || old.0 <= start && end <= old.1 || start <= old.0 && old.1 <= end);
            spans.extend(spans.iter().all(fits).then_some(new));
        }
        for (&(start, end, device), id) in spans.iter().zip(0..) {
            trace.device(device).device_annotation(DECODE, start..end, id);
        }
        let contains = |outer: &(i64, i64, u32), inner: &(i64, i64, u32)| {
            outer != inner && outer.2 == inner.2 && outer.0 <= inner.0 && inner.1 <= outer.1
        };
        let is_step = |span: &&(i64, i64, u32)| !spans.iter().any(|inner| contains(span, inner));
        // The longest span that contains no other step.
        let widest = |step: &(i64, i64, u32)| {
            let steps_in = |outer: &(i64, i64, u32)| spans.iter().filter(is_step).filter(|step| contains(outer, step)).count();
            let outer = spans.iter().filter(|outer| contains(outer, step) && steps_in(outer) == 1);
            outer.chain([step]).map(|span| (span.0, span.1)).max_by_key(|(start, end)| end - start).unwrap()
        };
        let mut expected: Vec<(i64, i64)> = spans.iter().filter(is_step).map(widest).collect();
        let mut found: Vec<(i64, i64)> = step_list(&trace.finish()).iter().map(|step| (step.1, step.2)).collect();
        expected.sort_unstable();
        found.sort_unstable();
        prop_assert_eq!(found, expected);
    }
}

/// A device annotation that covers only a part of the ops of a step does not give the length of the step.
#[test]
fn a_device_annotation_of_a_part_of_the_launches_is_no_step() {
    let step = |twin: i64| {
        let mut trace = TestTrace::coded();
        trace.annotation_with_id("step[DECODE bs=16]", 0..100, 7).device_annotation(
            "step[DECODE bs=16]",
            200..200 + twin,
            7,
        );
        trace.launch(10..20).launches("a", 200..210).launch(30..40).launches("b", 300..1_000);
        let steps = steps(&trace.finish());
        steps.iter().map(|step| step.end.since(step.start).0).collect::<Vec<_>>()
    };
    assert_eq!(step(17), [800], "from the first to the last op launched in the host annotation");
    assert_eq!(step(750), [800], "the same, so that all tables state one length");
    assert_eq!(step(3_000), [3_000], "ops of the step whose launches are not linked belong to it");
}

/// An engine launches a small op of the next step on a second stream while the step before still runs. `ahead` is the start of that op,
/// the work of the first step lasts from 10 to 50, with a copy at its end, that of the second one begins at 60.
#[test]
fn a_step_begins_when_the_work_before_it_has_ended() {
    let starts = |ahead: i64, is_marked: bool| {
        let mut trace = TestTrace::new();
        if is_marked {
            trace.range(DECODE, 0..9);
        }
        trace.launch(1..2).launches("gemm", 10..45);
        trace.call("cudaMemcpyAsync", 3..4).launches("Memcpy DtoH (Device -> Pinned)", 45..50);
        trace.range(DECODE, 10..20).launch(11..12).stream(9).launches("arange", ahead..ahead + 1).stream(7);
        trace.launch(13..14).launches("gemm", 60..90);
        let starts = |steps: Vec<Step>| steps.iter().map(|step| step.start.0).collect::<Vec<_>>();
        starts(steps_from_ranges(&trace.finish()))
    };
    assert_eq!(starts(15, true), [10, 50]);
    assert_eq!(starts(49, true), [10, 50]);
    assert_eq!(starts(51, true), [10, 51], "the GPU is idle, so the step has begun");
    assert_eq!(starts(70, true), [10, 60]);
    assert_eq!(starts(15, false), [50], "the capture lacks the annotation of the step before");
}
