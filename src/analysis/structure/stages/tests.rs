use super::*;
use crate::analysis::structure::stages::testing::Made;
use proptest::prelude::*;

const PREFILL: &str = "step[EXTEND bs=2 toks=64]";
const DECODE: &str = "step[DECODE bs=16]";
const MS: i64 = 1_000_000;

fn stages(made: &mut Made) -> Vec<Stage> {
    of_ops(&made.finish(), Stage::All)
}

#[test]
fn the_nearest_name_of_a_path_tells_the_stage() {
    for (path, want) in [
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
        assert_eq!(stage_of_path(path), want, "{path}");
    }
}

#[test]
fn an_op_is_of_the_stage_of_its_devices_annotation() {
    let mut made = Made::new();
    made.twin("0", PREFILL, 100, 200, 1).twin("0", DECODE, 200, 300, 2);
    made.op("0", 100, 150).op("0", 199, 250).op("0", 200, 210).op("0", 300, 310);
    assert_eq!(stages(&mut made), [Stage::Prefill, Stage::Prefill, Stage::Decode, Stage::Decode]);
}

#[test]
fn the_innermost_annotation_that_names_a_stage_counts() {
    let mut made = Made::new();
    made.twin("0", "execute_context_1(4)_generation_9(9)", 0, 1000, 1).twin("0", "run_batch", 10, 900, 2);
    made.twin("0", "step[VERIFY bs=9]", 100, 400, 3).twin("0", "nccl:all_reduce", 150, 160, 4);
    made.op("0", 50, 60).op("0", 155, 156).op("0", 399, 500).op("0", 500, 600);
    assert_eq!(stages(&mut made), [Stage::Mixed, Stage::Verify, Stage::Verify, Stage::Mixed]);
}

#[test]
fn an_external_id_beats_the_time_and_the_devices_annotation_the_hosts() {
    let mut made = Made::new();
    made.twin("0", PREFILL, 0, 100, 5).twin("0", DECODE, 100, 200, 6).host(DECODE, 0, 900, 7);
    made.op_of("0", "a", 50, 60, None, 6).op_of("0", "b", 150, 160, None, 5).op_of("0", "c", 60, 70, None, 7);
    made.op_of("0", "d", 70, 80, None, 99);
    assert_eq!(stages(&mut made), [Stage::Decode, Stage::Decode, Stage::Prefill, Stage::Prefill]);
}

#[test]
fn an_id_of_another_process_does_not_count() {
    let mut made = Made::new();
    // Ranks number their ops alike: what is 5 on one device is something else on the other.
    made.twin("[TP00] 0", PREFILL, 0, 100, 5).twin("[TP01] 1", DECODE, 0, 100, 6);
    made.op_of("[TP01] 1", "a", 50, 60, None, 5);
    assert_eq!(stages(&mut made), [Stage::Decode]);
    made.host(PREFILL, 0, 10, 5).host(DECODE, 100, 200, 6).launched("0", 150, 300, 310);
    let mut trace = made.finish();
    trace.code.as_mut().unwrap().op_ids = vec![5];
    assert_eq!(of_ops(&trace, Stage::All), [Stage::Decode], "launched long after the annotation with its id");
}

#[test]
fn an_id_that_all_annotations_share_tells_nothing_and_costs_nothing() {
    let mut made = Made::new();
    for at in 0..50_000 {
        made.twin("0", if at == 49_999 { DECODE } else { PREFILL }, at * 10, at * 10 + 5, 0);
        made.op_of("0", "kernel", at * 10 + 1, at * 10 + 4, None, 0);
    }
    let trace = made.finish();
    let began = std::time::Instant::now();
    let found = of_ops(&trace, Stage::All);
    assert!(began.elapsed().as_secs() < 20, "not every annotation for every op");
    assert_eq!((found[0], found[49_998], found[49_999]), (Stage::Prefill, Stage::Prefill, Stage::Decode));
}

#[test]
fn against_the_hosts_annotations_the_launch_counts_not_the_op() {
    let mut made = Made::new();
    made.host(PREFILL, 0, 100, 1).host(DECODE, 100, 200, 2);
    // Runs while the host is at the next step already.
    made.launched("0", 50, 120, 180).launched("0", 150, 500, 600).op("0", 130, 140);
    assert_eq!(stages(&mut made), [Stage::Prefill, Stage::Decode, Stage::Decode]);
}

#[test]
fn the_devices_annotation_beats_the_hosts() {
    let mut made = Made::new();
    made.host(DECODE, 0, 1000, 1).twin("0", PREFILL, 500, 600, 2);
    made.launched("0", 10, 550, 560).launched("0", 20, 700, 710);
    assert_eq!(stages(&mut made), [Stage::Prefill, Stage::Decode], "outside of it the host's are asked");
}

#[test]
fn a_step_up_to_20_ms_away_is_the_ops() {
    let mut made = Made::new();
    made.twin("0", PREFILL, 0, 10, 1).twin("0", DECODE, 100 * MS, 101 * MS, 2);
    made.op("0", 10 + 20 * MS, 11 + 20 * MS).op("0", 11 + 20 * MS, 12 + 20 * MS).op("0", 80 * MS, 81 * MS);
    made.op("0", 80 * MS - 1, 81 * MS).op("0", 121 * MS, 122 * MS).op("0", 121 * MS + 1, 122 * MS);
    let want = [Stage::Prefill, Stage::All, Stage::All, Stage::Decode, Stage::Decode, Stage::All];
    assert_eq!(stages(&mut made), want);
}

#[test]
fn each_device_has_annotations_of_its_own() {
    let mut made = Made::new();
    made.twin("0", PREFILL, 0, 100, 1).twin("1", DECODE, 0, 100, 2);
    made.op("0", 10, 20).op("1", 10, 20).op("2", 150, 160);
    assert_eq!(stages(&mut made)[..2], [Stage::Prefill, Stage::Decode]);
    made.twin("1", DECODE, 0, 100, 2).op("0", 10, 20);
    assert_eq!(stages(&mut made), [Stage::Decode], "a device without any looks at the others'");
}

#[test]
fn plain_words_count_only_where_no_engine_speaks() {
    let mut made = Made::new();
    made.twin("0", "my decode loop", 0, 100, 1).op("0", 10, 20);
    assert_eq!(stages(&mut made), [Stage::Decode]);
    made.twin("0", "execute_context_2(9)_generation_3(3)", 0, 100, 1).twin("0", "decode attention", 5, 50, 2);
    made.op("0", 10, 20);
    assert_eq!(stages(&mut made), [Stage::Mixed], "a part of a step of both");
}

#[test]
fn the_files_stage_counts_for_all_and_without_annotations_none_is_known() {
    let mut made = Made::new();
    made.twin("0", DECODE, 0, 100, 1).op("0", 10, 20);
    let trace = made.finish();
    assert_eq!(of_ops(&trace, Stage::Prefill), [Stage::Prefill]);
    assert_eq!(count_stage_conflicts(&steps(&trace), Stage::Prefill), (1, 1));
    assert_eq!(count_stage_conflicts(&steps(&trace), Stage::Decode), (0, 1));
    assert_eq!(count_stage_conflicts(&steps(&trace), Stage::All), (0, 1));
    made.twin("0", "ProfilerStep#4", 0, 100, 1).op("0", 10, 20);
    assert_eq!(stages(&mut made), [Stage::All]);
    let trace = Trace { code: None, ..trace };
    assert_eq!(of_ops(&trace, Stage::All), [Stage::All]);
    assert!(steps(&trace).is_empty());
}

/// Text, start, end, basis.
fn listed(trace: &Trace) -> Vec<(String, i64, i64, Basis)> {
    let names = &trace.code.as_ref().unwrap().annotation_names;
    steps(trace).iter().map(|step| (names.get(step.name).to_owned(), step.start.0, step.end.0, step.basis)).collect()
}

#[test]
fn a_step_counts_once_whether_host_device_or_both_tell_it() {
    let mut made = Made::new();
    // The first on two streams, the second cut off on the device, the third launches nothing.
    made.host(DECODE, 0, 10, 1).twin("0", DECODE, 100, 200, 1).twin("0", DECODE, 150, 260, 1);
    made.host(DECODE, 20, 30, 2).launched("0", 25, 300, 320).launched("0", 29, 330, 350);
    made.host("step[IDLE bs=0]", 40, 50, 3);
    let want = [
        (DECODE.to_owned(), 100, 260, Basis::Device),
        (DECODE.to_owned(), 300, 350, Basis::Launches),
        ("step[IDLE bs=0]".to_owned(), 40, 50, Basis::Host),
    ];
    assert_eq!(listed(&made.finish()), want);
}

#[test]
fn of_engines_annotations_one_inside_another_the_innermost_is_the_step() {
    let outer = "execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk8193sqsq16sqsk8193)";
    let mut made = Made::new();
    made.twin("0", outer, 0, 100, 1).twin("0", DECODE, 10, 90, 2).twin("0", "nccl:all_reduce", 20, 30, 3);
    let trace = made.finish();
    assert_eq!(listed(&trace), [(DECODE.to_owned(), 10, 90, Basis::Device)]);
    let step = steps(&trace)[0];
    assert_eq!((step.info.batch_size, step.info.generation.map(|sums| sums.sqsk)), (Some(16), Some(8193)));
    // Two steps in one: what is around them is neither's alone.
    made.twin("0", outer, 0, 100, 1).twin("0", "step[DECODE]", 10, 40, 2).twin("0", "step[DRAFT bs=4]", 50, 90, 3);
    let found = steps(&made.finish());
    assert_eq!(found.iter().map(|step| step.info.stage).collect::<Vec<_>>(), [Stage::Decode, Stage::Draft]);
    assert_eq!((found[0].info.batch_size, found[0].info.generation), (None, None));
    made.twin("0", "decode", 0, 100, 1).twin("0", "decode attention", 10, 20, 2).twin("0", "decode mlp", 20, 90, 3);
    assert_eq!(listed(&made.finish()).len(), 1, "words inside a word name parts of the step");
}

proptest! {
    #[test]
    fn one_inside_another_is_what_a_search_through_all_finds(
        list in prop::collection::vec((0_i64..60, 1_i64..30, 0_u32..2), 0..14),
    ) {
        let mut made = Made::new();
        let mut spans: Vec<(i64, i64, u32)> = Vec::new();
        for (start, length, device) in list {
            // Steps of one device lie apart or one inside the other.
            let (new, end) = ((start, start + length, device), start + length);
            let fits = |old: &(i64, i64, u32)| old != &new && (old.2 != device || old.1 <= start || end <= old.0
                || old.0 <= start && end <= old.1 || start <= old.0 && old.1 <= end);
            spans.extend(spans.iter().all(fits).then_some(new));
        }
        for (at, &(start, end, device)) in spans.iter().enumerate() {
            made.twin(&device.to_string(), DECODE, start, end, at as u32);
        }
        let holds = |outer: &(i64, i64, u32), inner: &(i64, i64, u32)| {
            outer != inner && outer.2 == inner.2 && outer.0 <= inner.0 && inner.1 <= outer.1
        };
        let mut want: Vec<(i64, i64)> =
            spans.iter().filter(|span| !spans.iter().any(|inner| holds(span, inner))).map(|span| (span.0, span.1)).collect();
        let mut found: Vec<(i64, i64)> = listed(&made.finish()).iter().map(|step| (step.1, step.2)).collect();
        want.sort_unstable();
        found.sort_unstable();
        prop_assert_eq!(found, want);
    }
}
