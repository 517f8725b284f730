//! Promises of the timeline: nothing is lost at any zoom, a tile is small, bars say what they are.

use super::*;
use crate::analysis::labels;
use crate::analysis::section::Value;
use crate::analysis::testing::{analyze, torch};
use crate::rules::{CPU, GRAPHS, RuleBook};
use crate::trace::testing::TestTrace;
use crate::trace::{
    ALLOCATED_MEMORY, CodeTime, Collective, Element, HostInterval, LateCode, LaunchConfig, Names, NodeNote,
};
use proptest::prelude::*;

fn rules() -> &'static RuleSet {
    RuleBook::gpuprism_default().unwrap()
}

fn timeline(trace: &Trace) -> Timeline {
    Timeline::of(trace, rules()).unwrap()
}

/// Two steps: each a launch in a range, then a kernel; the host is late for the second.
fn stepped() -> Trace {
    let mut trace = TestTrace::new();
    trace.in_us();
    trace.range("step[DECODE bs=4]", 90..130).launch(100..105).launches("gemm_kernel", 110..140);
    trace.range("step[DECODE bs=4]", 190..230).launch(200..205).launches("gemm_kernel", 210..240);
    trace.finish()
}

fn lane_of(timeline: &Timeline, is_wanted: impl Fn(LaneKind) -> bool) -> usize {
    timeline.lanes.iter().position(|lane| is_wanted(lane.kind)).unwrap()
}

fn bars(timeline: &Timeline, trace: &Trace, lane: usize, level: u32) -> Vec<Bar<Style>> {
    let layer = timeline.lanes[lane].kind.layer();
    let range = TileRange::new(timeline.zero, level, 0).unwrap();
    timeline.tile(trace, layer, range).bars.swap_remove(lane)
}

#[test]
fn a_device_has_steps_idle_time_and_streams_and_a_thread_its_ranges_and_calls() {
    let (trace, timeline) = (stepped(), timeline(&stepped()));
    let kinds: Vec<LaneKind> = timeline.lanes.iter().map(|lane| lane.kind).collect();
    let (device, thread) = (DeviceId(0), ThreadId(0));
    let stream = trace.gpu_ops.get(0).unwrap().stream;
    assert_eq!(
        kinds,
        [
            LaneKind::Steps(Some(device)),
            LaneKind::Idle(device),
            LaneKind::Stream(device, stream),
            LaneKind::Ranges(thread),
            LaneKind::Calls(thread),
        ]
    );
    let (zero, us) = (timeline.zero, |us: i64| Ns(us * 1_000));
    assert_eq!((timeline.gpu.start, timeline.gpu.end), (zero, zero + us(130)));
    assert_eq!((timeline.extent.start, timeline.extent.end), (zero - us(20), zero + us(130)));
}

#[test]
fn a_trace_without_marked_steps_and_attention_has_no_lane_of_steps() {
    let has_lane = |trace: &mut TestTrace| {
        let timeline = timeline(&trace.finish());
        timeline.lanes.iter().any(|lane| matches!(lane.kind, LaneKind::Steps(_)))
    };
    assert!(!has_lane(TestTrace::nsys().range("load", 0..5).kernel("gemm", 0..10)));
    assert!(
        has_lane(TestTrace::nsys().kernel("flash_fwd_kernel", 0..10)),
        "steps may follow from the order of the kernels"
    );
    assert!(has_lane(TestTrace::nsys().range("ProfilerStep#3", 0..5).kernel("gemm", 0..10)));
}

#[test]
fn bars_are_where_ops_steps_and_gaps_are() {
    let (trace, timeline) = (stepped(), timeline(&stepped()));
    // Units of 1,024 ns.
    let units = |is_wanted: fn(LaneKind) -> bool| {
        let bars = bars(&timeline, &trace, lane_of(&timeline, is_wanted), 10);
        bars.iter().map(|bar| (bar.start, bar.end, bar.style)).collect::<Vec<_>>()
    };
    let gemm = Style::Category(0);
    assert_eq!(timeline.categories, ["gemm"]);
    assert_eq!(units(|kind| matches!(kind, LaneKind::Stream(..))), [(0, 29, gemm), (97, 126, gemm)]);
    let decode = Style::Stage(Stage::Decode);
    // The first step lasts until the second begins.
    assert_eq!(units(|kind| matches!(kind, LaneKind::Steps(_))), [(0, 97, decode), (97, 126, decode)]);
    let late = Style::Idle(GapCause(IdleCause::HostLate));
    assert_eq!(units(|kind| matches!(kind, LaneKind::Idle(_))), [(29, 97, late)]);
    assert_eq!(
        units(|kind| matches!(kind, LaneKind::Calls(_))),
        [(87, 92, Style::Launch)],
        "the first is in the tile before"
    );
}

#[test]
fn short_ops_in_one_unit_are_one_bar_that_says_how_many_and_how_full() {
    let mut trace = TestTrace::new();
    trace.kernel("gemm", 0..100).kernel("softmax", 200..350).kernel("gemm", 400..410).kernel("gemm", 4_096..9_000);
    let trace = trace.finish();
    let timeline = timeline(&trace);
    let found = bars(&timeline, &trace, lane_of(&timeline, |kind| matches!(kind, LaneKind::Stream(..))), 10);
    let softmax = timeline.categories.iter().position(|name| name == "softmax").unwrap();
    let of = |bar: &Bar<Style>| (bar.start, bar.end, bar.count, bar.row, bar.filled);
    // 260 of 1,024 ns are filled: 260 * 255 / 1024 = 64. The longest op gives row and colour.
    assert_eq!(found.iter().map(of).collect::<Vec<_>>(), [(0, 1, 3, 1, 64), (4, 8, 1, 3, 255)]);
    assert_eq!(found[0].style, Style::Category(softmax));
}

#[test]
fn nested_calls_are_in_rows_below_each_other() {
    let mut trace = TestTrace::new();
    trace.kernel("gemm", 0..10).range("outer", 0..100).range("inner", 10..20).range("innermost", 12..15);
    let trace = trace.range("later", 30..40).range("next", 100..110).finish();
    let timeline = timeline(&trace);
    let lane = lane_of(&timeline, |kind| matches!(kind, LaneKind::Ranges(_)));
    let mut rows: Vec<_> = bars(&timeline, &trace, lane, 0).iter().map(|bar| (bar.row, bar.depth)).collect();
    rows.sort_unstable();
    let depths: Vec<u8> = rows.iter().map(|(_, depth)| *depth).collect();
    assert_eq!((depths, timeline.lanes[lane].depth), (vec![0, 1, 2, 1, 0], 3));
}

fn figure<'a>(moment: &'a Moment, name: &str) -> &'a Value {
    moment.section.summary.get(name).unwrap_or(&Value::Null)
}

#[test]
fn an_op_states_its_times_its_category_and_leads_to_its_launch_and_its_neighbours() {
    let (trace, timeline) = (stepped(), timeline(&stepped()));
    let stream = lane_of(&timeline, |kind| matches!(kind, LaneKind::Stream(..)));
    let calls = lane_of(&timeline, |kind| matches!(kind, LaneKind::Calls(_)));
    let moment = timeline.moment(&trace, rules(), stream, 1).unwrap();
    assert_eq!((moment.name.as_str(), moment.is_op), ("gemm_kernel", true));
    assert_eq!(
        (figure(&moment, "duration_ns"), figure(&moment, "median_ns")),
        (&Value::Int(30_000), &Value::Int(30_000))
    );
    assert_eq!(
        (figure(&moment, "launch"), figure(&moment, "launches"), figure(&moment, "launch_to_start_ns")),
        (&Value::Int(2), &Value::Int(2), &Value::Int(10_000))
    );
    let place = |place: Option<Place>| place.map(|place| (place.lane, place.row));
    assert_eq!(place(moment.neighbours.before), Some((stream, 0)));
    assert_eq!((moment.neighbours.after, place(moment.launch)), (None, Some((calls, 1))));
    assert_eq!((place(moment.same_name.before), moment.same_name.after), (Some((stream, 0)), None));
    let launch_from = |us: i64| place(timeline.launch_of(&trace, "gemm_kernel", timeline.zero + Ns(us * 1_000)));
    assert_eq!(
        (launch_from(0), launch_from(1), launch_from(200)),
        (Some((stream, 0)), Some((stream, 1)), Some((stream, 0)))
    );
    assert_eq!(timeline.launch_of(&trace, "another", timeline.zero), None);
    let call = timeline.moment(&trace, rules(), calls, 1).unwrap();
    assert_eq!((figure(&call, "launched_ops"), place(call.launch)), (&Value::Int(1), Some((stream, 1))));
}

#[test]
fn an_idle_gap_states_what_ended_what_came_and_how_often_that_happens() {
    let (trace, timeline) = (stepped(), timeline(&stepped()));
    let idle = lane_of(&timeline, |kind| matches!(kind, LaneKind::Idle(_)));
    let moment = timeline.moment(&trace, rules(), idle, 0).unwrap();
    assert_eq!(moment.name, "idle: host late");
    assert_eq!(figure(&moment, "duration_ns"), &Value::Int(70_000));
    assert_eq!(figure(&moment, "launched_after_ns"), &Value::Int(65_000));
    assert_eq!(
        (figure(&moment, "gaps_of_this_cause"), figure(&moment, "total_of_this_cause_ns")),
        (&Value::Int(1), &Value::Int(70_000))
    );
    let gemm = Value::Text("gemm_kernel".to_owned());
    assert_eq!((figure(&moment, "op_before"), figure(&moment, "op_after")), (&gemm, &gemm));
    assert_eq!(moment.findings.as_slice(), ["host-late", "replay-preparation"]);
    assert_eq!(moment.row, Some(TableRow::new("gpu_idle", "Idle time by cause", "device_id", "0")));
    let (stream, calls) = (1, 1);
    let links: Vec<(LinkKind, usize)> = moment.links.iter().map(|link| (link.kind, link.to.row)).collect();
    let step = (LinkKind::Step, 0);
    assert_eq!(links, [(LinkKind::OpBefore, 0), (LinkKind::LateCall, calls), (LinkKind::OpAfter, stream), step]);
}

#[test]
fn an_idle_gap_states_how_much_of_its_cause_a_step_has() {
    let mut trace = TestTrace::new();
    trace.in_us();
    // Steps of 100 us: the host is late by 10 us in two of four steps, and by 300 us before them, which is in no step.
    trace.launch(0..5).launches("gemm_kernel", 10..20);
    for (start, pause) in [(320, 0), (420, 10), (520, 10), (620, 0)] {
        trace.range("step[DECODE bs=4]", start - 10..start + 88);
        trace.launch(start - 5..start - 2).launches("gemm_kernel", start..start + 50);
        let launched = if pause == 0 { start + 40 } else { start + 55 };
        trace.launch(launched..launched + 3).launches("gemm_kernel", start + 50 + pause..start + 100);
    }
    let trace = trace.finish();
    let timeline = timeline(&trace);
    let idle = lane_of(&timeline, |kind| matches!(kind, LaneKind::Idle(_)));
    let moment = timeline.moment(&trace, rules(), idle, 1).unwrap();
    assert_eq!(figure(&moment, "duration_ns"), &Value::Int(10_000));
    assert_eq!((figure(&moment, "gaps_of_this_cause"), figure(&moment, "steps")), (&Value::Int(3), &Value::Int(4)));
    assert_eq!(figure(&moment, "gaps_of_this_cause_per_step"), &Value::Float(0.5));
    assert_eq!(figure(&moment, "time_of_this_cause_per_step_ns"), &Value::Int(5_000));
    assert_eq!(figure(&moment, "share_of_idle_time_pct"), &Value::Float(100.0));
    let steps = lane_of(&timeline, |kind| matches!(kind, LaneKind::Steps(_)));
    let step = moment.links.iter().find(|link| link.kind == LinkKind::Step).unwrap().to;
    assert_eq!((step.lane, step.row), (steps, 1));
}

/// A step whose ops run at 0..1 ms and at 10..11 ms. The second was launched until 2 ms and the GPU did nothing visible until 10 ms, so 8 ms
/// are work that the trace lacks. The next step begins at 12 ms.
#[test]
fn a_step_lasts_without_work_that_is_not_traced_and_such_work_is_not_idle() {
    let mut trace = TestTrace::new();
    trace.in_us().range("step[DECODE bs=2]", 0..2_100).launch(0..1).launches("gemm_kernel", 0..1_000);
    trace.launch(1_900..2_000).launches("gemm_kernel", 10_000..11_000);
    trace.range("step[DECODE bs=2]", 11_900..12_100).launch(11_950..11_960).launches("gemm_kernel", 12_000..13_000);
    let trace = trace.finish();
    let timeline = timeline(&trace);
    let steps = lane_of(&timeline, |kind| matches!(kind, LaneKind::Steps(_)));
    let step = timeline.moment(&trace, rules(), steps, 0).unwrap();
    let ms = |name: &str| figure(&step, name).number().unwrap() / 1e6;
    assert_eq!(["duration_ns", "not_traced_ns", "to_last_op_ns"].map(ms), [4.0, 8.0, 3.0]);
    assert_eq!((step.place.start, step.place.end), (Ns(0), Ns(12_000_000)));
    assert_eq!(timeline.duration_of(&trace, step.place), Ns(4_000_000));
    let run = analyze(&trace);
    assert_eq!(["duration_ns", "not_traced_ns"].map(|name| run.rows("step_list")[0].amount(name)), [4e6, 8e6]);
    let idle = lane_of(&timeline, |kind| matches!(kind, LaneKind::Idle(_)));
    let names = |row| timeline.moment(&trace, rules(), idle, row).unwrap().name;
    assert_eq!((names(0), names(1)), ("not traced".to_owned(), "idle: host late".to_owned()));
    // 1 ms of the window of 13 ms without the 8 ms.
    let late = timeline.moment(&trace, rules(), idle, 1).unwrap();
    assert_eq!(figure(&late, "share_of_idle_time_pct"), &Value::Float(100.0));
    assert_eq!(figure(&late, "share_of_the_trace_pct"), &Value::Float(20.0));
    let whole = Window { start: Ns(0), end: Ns(13_000_000) };
    let case = timeline.example(&trace, &Example::Category(CPU.to_owned()), whole).unwrap();
    assert_eq!(case, late.place);
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_panel_of_a_step_of_a_real_trace_states_the_time_of_its_row_in_the_table() {
    for file in ["sglang_qwen3_8b_mi300_extend.trace.json.gz", "train_a100_rank3of8.trace.json.gz"] {
        let trace = torch(file);
        let (timeline, run) = (timeline(&trace), analyze(&trace));
        let lane = lane_of(&timeline, |kind| matches!(kind, LaneKind::Steps(_)));
        let rows = run.rows("step_list");
        assert!(!rows.is_empty());
        for (row, listed) in rows.iter().enumerate() {
            let step = timeline.moment(&trace, rules(), lane, row).unwrap();
            assert_eq!(Some(figure(&step, "duration_ns")), listed.get("duration_ns"), "{file}");
        }
    }
}

#[test]
fn a_gap_before_a_graph_that_was_traced_as_a_whole_leads_to_it() {
    let mut trace = TestTrace::nsys();
    trace.in_us();
    let trace = trace.launch(0..5).launches("gemm_kernel", 10..20).replay(200..300).launch(350..355).finish();
    let timeline = timeline(&trace);
    let idle = lane_of(&timeline, |kind| matches!(kind, LaneKind::Idle(_)));
    let graphs = lane_of(&timeline, |kind| matches!(kind, LaneKind::Graphs(_)));
    let moment = timeline.moment(&trace, rules(), idle, 0).unwrap();
    assert_eq!(figure(&moment, "op_after"), &Value::Text("CUDA graph, traced as a whole".to_owned()));
    let after = moment.links.iter().find(|link| link.kind == LinkKind::OpAfter).unwrap().to;
    assert_eq!((after.lane, after.row, moment.launch), (graphs, 0, Some(after)));
    assert_eq!(figure(&moment, "launch_call"), &Value::Null);
}

#[test]
fn a_graph_that_was_traced_as_a_whole_is_within_the_extent_and_the_longest_case_of_its_category() {
    let mut trace = TestTrace::nsys();
    let trace = trace.in_us().replay(0..5).kernel("gemm_kernel", 10..20).replay(200..300).replay(310..320).finish();
    let timeline = timeline(&trace);
    let whole = Window { start: Ns(0), end: Ns(320_000) };
    assert_eq!((timeline.zero, timeline.gpu, timeline.extent), (Ns(0), whole, whole));
    let case = timeline.example(&trace, &Example::Category(GRAPHS.to_owned()), whole).unwrap();
    assert_eq!((case.start, case.end), (Ns(200_000), Ns(300_000)));
}

#[test]
fn a_graph_that_was_traced_as_a_whole_and_the_gap_before_it_lead_to_its_launch() {
    let mut trace = TestTrace::nsys();
    trace.in_us().launch(0..5).launches("gemm_kernel", 10..20).call("cudaStreamSynchronize_v3020", 8..25);
    let trace = trace.call("cudaGraphLaunch_v10000", 190..198).launches_replay(200..300).finish();
    let timeline = timeline(&trace);
    let idle = lane_of(&timeline, |kind| matches!(kind, LaneKind::Idle(_)));
    let graphs = lane_of(&timeline, |kind| matches!(kind, LaneKind::Graphs(_)));
    let launch = Value::Text("cudaGraphLaunch_v10000".to_owned());
    let gap = timeline.moment(&trace, rules(), idle, 0).unwrap();
    assert_eq!((figure(&gap, "launch_call"), figure(&gap, "launch_call_duration_ns")), (&launch, &Value::Int(8_000)));
    assert_eq!(figure(&gap, "launched_after_ns"), &Value::Int(178_000));
    let call = gap.links.iter().find(|link| link.kind == LinkKind::LateCall).unwrap().to;
    let replay = timeline.moment(&trace, rules(), graphs, 0).unwrap();
    assert_eq!((figure(&replay, "launch_call"), figure(&replay, "launch_to_start_ns")), (&launch, &Value::Int(10_000)));
    assert_eq!(replay.launch, Some(call));
    let call = timeline.moment(&trace, rules(), call.lane, call.row).unwrap();
    assert_eq!((call.name.as_str(), call.launch), ("cudaGraphLaunch_v10000", Some(replay.place)));
}

#[test]
fn an_idle_gap_states_what_the_launching_thread_ran_meanwhile() {
    let mut trace = TestTrace::coded();
    trace.in_us().frame("engine.py(10): loop", 90..300).frame("engine.py(20): prepare", 150..190);
    trace.cpu_op("aten::empty", 160..170, 1).frame("<built-in method sleep>", 152..155);
    trace.launch(100..105).launches("gemm_kernel", 110..140);
    let trace = trace.launch(200..205).launches("gemm_kernel", 210..240).finish();
    let timeline = timeline(&trace);
    let idle = lane_of(&timeline, |kind| matches!(kind, LaneKind::Idle(_)));
    let moment = timeline.moment(&trace, rules(), idle, 0).unwrap();
    let code = |row: &crate::analysis::section::Record| {
        let us = |name: &str| row.amount(name) / 1e3;
        (row.text("code").to_owned(), us("total_time_ns"), us("self_time_ns"), row.amount("self_share_of_gap_pct"))
    };
    // From the end of the first kernel at 140 us until the launch returned at 205 us; the gap lasts 70 us.
    let expected = [
        ("engine.py(10): loop", 65.0, 25.0),
        ("› engine.py(20): prepare", 40.0, 30.0),
        ("› › aten::empty", 10.0, 10.0),
    ];
    let expected = expected.map(|(code, total, own)| (code.to_owned(), total, own, own * 100.0 / 70.0));
    assert_eq!(moment.section.rows.iter().map(code).collect::<Vec<_>>(), expected);
    assert_eq!(figure(&moment, "traced_code_ns"), &Value::Int(65_000));
}

#[test]
fn a_kernel_states_its_launch_configuration_and_the_shapes_of_its_cpu_op() {
    let mut trace = TestTrace::new();
    trace.shaped_op("aten::linear", &[(&[128, 64], Element::Bf16)], 0..50);
    trace.shaped_op("aten::mm", &[(&[128, 64], Element::Bf16), (&[64, 32], Element::Bf16)], 10..40);
    trace.thread(2).shaped_op("aten::bmm", &[(&[1, 1, 1], Element::Fp32)], 25..60).thread(1);
    trace.launch(30..35).launches("gemm_kernel", 100..140);
    trace.builder.set_launch_config_of_last_op(LaunchConfig {
        grid: [16, 2, 1],
        block: [256, 1, 1],
        registers: Some(90),
        shared_bytes: Some(49_152),
        // Not estimated.
        occupancy_pct: Some(0),
    });
    let trace = trace.launch(80..85).launches("gemm_kernel", 140..150).finish();
    let timeline = timeline(&trace);
    let stream = lane_of(&timeline, |kind| matches!(kind, LaneKind::Stream(..)));
    let moment = timeline.moment(&trace, rules(), stream, 0).unwrap();
    let text = |name: &str| figure(&moment, name).text().unwrap_or_default().to_owned();
    assert_eq!((text("grid"), text("block")), ("16 x 2 x 1".to_owned(), "256 x 1 x 1".to_owned()));
    assert_eq!(figure(&moment, "registers_per_thread"), &Value::Int(90));
    assert_eq!(figure(&moment, "shared_memory_per_block_bytes"), &Value::Int(49_152));
    assert_eq!(figure(&moment, "estimated_occupancy_pct"), &Value::Null);
    assert_eq!(
        (text("cpu_op"), text("arguments")),
        ("aten::mm".to_owned(), "BF16 [128, 64], BF16 [64, 32]".to_owned())
    );
    let second = timeline.moment(&trace, rules(), stream, 1).unwrap();
    assert_eq!((figure(&second, "grid"), figure(&second, "cpu_op")), (&Value::Null, &Value::Null));
}

#[test]
fn an_op_states_the_code_that_launched_it() {
    let mut trace = TestTrace::coded();
    trace.frame("engine.py(10): run", 0..100).frame("model.py(20): forward", 10..90).cpu_op("aten::mm", 20..60, 1);
    trace.frame("other.py(1): later", 100..120);
    let trace = trace.launch(30..35).launches("gemm_kernel", 200..230).finish();
    let timeline = timeline(&trace);
    let stream = lane_of(&timeline, |kind| matches!(kind, LaneKind::Stream(..)));
    let moment = timeline.moment(&trace, rules(), stream, 0).unwrap();
    let code: Vec<&str> = moment.section.rows.iter().map(|row| row.text("code")).collect();
    assert_eq!(code, ["aten::mm", "model.py(20): forward", "engine.py(10): run"]);
    // The lane of the code has them below each other.
    let lane = lane_of(&timeline, |kind| matches!(kind, LaneKind::Code(_)));
    assert_eq!(timeline.lanes[lane].depth, 3);
    let code = timeline.tile(&trace, Layer::Code, TileRange::new(timeline.zero, 0, -1).unwrap()).bars.swap_remove(lane);
    let found = code.iter().map(|bar| (bar.start - 1_024, bar.end - 1_024, bar.depth));
    assert_eq!(found.collect::<Vec<_>>(), [(-200, -100, 0), (-190, -110, 1), (-180, -140, 2), (-100, -80, 0)]);
    let inner = code.iter().find(|bar| bar.depth == 2).unwrap();
    let moment = timeline.moment(&trace, rules(), lane, inner.row).unwrap();
    assert_eq!(
        (moment.name.as_str(), figure(&moment, "called_by")),
        ("aten::mm", &Value::Text("model.py(20): forward".to_owned()))
    );
    let outer = timeline.moment(&trace, rules(), lane, code[0].row).unwrap();
    assert_eq!(outer.neighbours.after.map(|place| place.start), Some(timeline.zero - Ns(100)));
}

#[test]
fn the_time_of_a_row_of_a_table_leads_to_the_gap_the_step_the_op_or_the_call_that_it_belongs_to() {
    let (trace, timeline) = (stepped(), timeline(&stepped()));
    let at = |table: &str, times: &[i64]| {
        let times: Vec<Ns> = times.iter().map(|us| timeline.zero + Ns(us * 1_000)).collect();
        let place = timeline.item_of_row(&trace, table, &times)?;
        Some((timeline.lanes[place.lane].kind, place.row))
    };
    let (device, thread) = (DeviceId(0), ThreadId(0));
    assert_eq!(at("gpu_idle_gaps", &[30, 30, 100]), Some((LaneKind::Idle(device), 0)));
    assert_eq!(at("gpu_idle_gaps", &[100, 30, 100]), Some((LaneKind::Idle(device), 0)));
    assert_eq!(at("step_list", &[100]), Some((LaneKind::Steps(Some(device)), 1)));
    assert_eq!(at("cuda_memcpy_events", &[100]), Some((LaneKind::Stream(device, 7), 1)));
    assert_eq!(at("cuda_memcpy_events", &[90]), Some((LaneKind::Calls(thread), 1)));
    assert_eq!(at("cuda_memcpy_events", &[80]), Some((LaneKind::Ranges(thread), 1)));
    assert_eq!((at("cuda_memcpy_events", &[81]), at("gpu_idle_gaps", &[31])), (None, None));
}

#[test]
fn both_times_of_an_idle_gap_among_the_longest_events_lead_to_it_and_not_to_the_ops_around_it() {
    let (trace, timeline) = (stepped(), timeline(&stepped()));
    let at = |times: [i64; 2]| {
        let times = times.map(|us| timeline.zero + Ns(us * 1_000));
        let place = timeline.item_of_row(&trace, "timeline_events", &times)?;
        Some((timeline.lanes[place.lane].kind, place.row))
    };
    let gap = Some((LaneKind::Idle(DeviceId(0)), 0));
    assert_eq!((at([30, 100]), at([100, 30])), (gap, gap));
    // A gap without a bar, for example a turnaround.
    assert_eq!((at([30, 99]), at([100, 31])), (None, None));
}

#[test]
fn each_time_of_a_row_about_a_launch_leads_to_its_call_or_its_kernel() {
    let mut trace = TestTrace::new();
    trace.in_us();
    trace.launch(0..10).launches("gemm_kernel", 40..90).launch(20..42).launches("softmax", 90..120);
    let trace = trace.finish();
    let timeline = timeline(&trace);
    let at = |asked: i64| {
        let times = [asked, 0, 10, 40, 90].map(|us| trace.gpu_ops.get(0).unwrap().start + Ns((us - 40) * 1_000));
        let place = timeline.item_of_row(&trace, "launch_latency_rows", &times)?;
        Some((timeline.lanes[place.lane].kind, place.row))
    };
    let call = Some((LaneKind::Calls(ThreadId(0)), 0));
    assert_eq!((at(0), at(10)), (call, call));
    let kernel = Some((LaneKind::Stream(DeviceId(0), 7), 0));
    assert_eq!((at(40), at(90)), (kernel, kernel));
}

#[test]
fn rows_and_lanes_that_do_not_exist_have_no_moment() {
    let (trace, timeline) = (stepped(), timeline(&stepped()));
    for lane in 0..7 {
        for row in [2, usize::MAX] {
            let is_range = timeline.lanes.get(lane).is_some_and(|lane| matches!(lane.kind, LaneKind::Ranges(_)));
            assert!(is_range || timeline.moment(&trace, rules(), lane, row).is_none(), "{lane} {row}");
        }
    }
    let tile = |level, index| TileRange::new(timeline.zero, level, index).map(|range| range.start());
    assert_eq!((tile(51, 0), tile(50, i64::MAX), tile(0, i64::MIN)), (None, None, None));
}

proptest! {
    /// Ops of a stream do not overlap, as on hardware.
    #[test]
    fn at_any_zoom_every_op_is_in_one_bar_bars_do_not_overlap_and_a_tile_is_small(
        ops in prop::collection::vec((0_i64..3, 0_i64..5_000, 0_i64..9_000), 1..400),
        level in 0_u32..24,
        index in 0_i64..3,
    ) {
        let mut trace = TestTrace::new();
        let mut ends = [0_i64; 3];
        for (stream, pause, duration) in &ops {
            let start = ends[*stream as usize] + pause;
            ends[*stream as usize] = start + duration;
            trace.stream(*stream).kernel("gemm", start..start + duration);
        }
        let trace = trace.finish();
        let timeline = timeline(&trace);
        let range = TileRange::new(timeline.zero, level, index).unwrap();
        let tile = timeline.tile(&trace, Layer::Device, range);
        for (lane, bars) in timeline.lanes.iter().zip(&tile.bars) {
            let LaneKind::Stream(device, stream) = lane.kind else { continue };
            let own = trace.gpu_ops.iter().filter(|op| (op.device, op.stream) == (device, stream));
            let inside: Vec<_> = own
                .filter(|op| op.start < range.end() && op.end().max(op.start + Ns(1)) > range.start())
                .collect();
            let counted: u32 = bars.iter().map(|bar| bar.count).sum();
            prop_assert_eq!(counted as usize, inside.len());
            prop_assert!(bars.len() <= 2 * TILE_UNITS as usize + 1);
            // A bar of short ops may reach one unit into the next long one.
            prop_assert!(bars.windows(2).all(|pair| pair[0].start <= pair[1].start && pair[0].end <= pair[1].start + 2));
            // Bars of one op have its times; those of several fill what their ops fill.
            let unit = range.unit_ns();
            for bar in bars.iter().filter(|bar| bar.count == 1) {
                let op = trace.gpu_ops.get(bar.row).unwrap();
                prop_assert_eq!(bar.start, range.unit_of(op.start));
                prop_assert!((bar.end - range.unit_of(op.end())).abs() <= 1);
            }
            let filled: f64 = bars.iter().map(|bar| {
                let length = i64::from(bar.end - bar.start) * unit;
                if bar.count == 1 && bar.filled == u8::MAX { trace.gpu_ops.get(bar.row).unwrap().duration.0 as f64 }
                else { f64::from(bar.filled) / 255.0 * length as f64 }
            }).sum();
            let busy: f64 = inside.iter().map(|op| op.duration.0 as f64).sum();
            // The end of a bar is rounded down, so its ops may be up to a unit longer than it.
            let full = bars.iter().filter(|bar| bar.count > 1 && bar.filled == u8::MAX).count();
            let rounding = (bars.len() as f64 * 3.0 / 255.0 + full as f64) * unit as f64;
            prop_assert!((filled - busy).abs() <= rounding + 1.0, "{} {}", filled, busy);
        }
    }

    /// What a tile shows does not depend on which tiles were asked for before, and neighbouring tiles agree on the bars between them.
    #[test]
    fn an_op_that_two_tiles_share_is_the_same_bar_in_both(start in 0_i64..100_000, length in 8_192_i64..200_000) {
        let mut trace = TestTrace::new();
        let trace = trace.kernel("gemm", 0..1).kernel("softmax", start + 1..start + 1 + length).finish();
        let timeline = timeline(&trace);
        let level = 4;
        let mut found = Vec::new();
        for index in 0..24 {
            let range = TileRange::new(timeline.zero, level, index).unwrap();
            let tile = timeline.tile(&trace, Layer::Device, range);
            let long = tile.bars.into_iter().flatten().filter(|bar| bar.row == 1);
            found.extend(long.map(|bar| (i64::from(bar.start) + index * TILE_UNITS, i64::from(bar.end) + index * TILE_UNITS)));
        }
        found.dedup();
        prop_assert_eq!(found.len(), 1);
        let touched = (start + 1 + length - 1) / (TILE_UNITS << level) - (start + 1) / (TILE_UNITS << level) + 1;
        prop_assert!(touched >= 1);
    }
}

#[test]
fn the_example_of_a_statement_is_its_longest_case_or_its_median_step_in_the_window() {
    let mut trace = TestTrace::new();
    trace.in_us();
    for (start, length) in [(0, 30), (100, 10), (200, 20)] {
        trace.range("step[DECODE bs=4]", start..start + 40).launch(start + 5..start + 10);
        trace.launches("gemm_kernel", start + 20..start + 20 + length);
    }
    trace
        .kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 300..305)
        .kernel("Memcpy HtoD (Pageable -> Device)", 310..311);
    let trace = trace.finish();
    let timeline = timeline(&trace);
    let at = |text: &str, within: Window| {
        let place = timeline.example(&trace, &Example::parse(text).unwrap(), within)?;
        Some((timeline.lanes[place.lane].kind, place.start.since(timeline.zero).0 / 1_000))
    };
    let all = timeline.gpu;
    let (device, stream) = (DeviceId(0), LaneKind::Stream(DeviceId(0), trace.gpu_ops.get(0).unwrap().stream));
    // Times count from the first op, at 20 us.
    assert_eq!(at("kernel gemm_kernel", all), Some((stream, 0)));
    assert_eq!(at("category gemm", all), at("kernel gemm_kernel", all));
    assert_eq!(at("communication ", all), Some((stream, 280)));
    assert_eq!(at("copy pageable", all), Some((stream, 290)));
    // The gaps last from 50 to 120 us and from 130 to 220 us.
    assert_eq!(at("idle host_late drained", all), Some((LaneKind::Idle(device), 110)));
    assert_eq!((at("idle drained", all), at("category attention", all), at("step prefill", all)), (None, None, None));
    let later = Window { start: timeline.zero + Ns(100_000), end: timeline.zero + Ns(250_000) };
    assert_eq!(at("kernel gemm_kernel", later), Some((stream, 200)));
    // Steps take 100, 100 and 20 us: the last reaches no other.
    assert_eq!(at("step decode", all), Some((LaneKind::Steps(Some(device)), 0)));
    assert_eq!(at("step ", all), at("step decode", all));
}

#[test]
fn a_row_leads_to_its_longest_call_range_message_or_gap() {
    let mut trace = TestTrace::nsys();
    trace.in_us();
    for (pid, start) in [(7, 0), (8, 1_000)] {
        trace.process(pid).device(pid - 7);
        trace.range("## forward ##", start..start + 100).call("cudaStreamSynchronize", start + 110..start + 120);
        trace.call("cudaStreamSynchronize", start + 130..start + 150);
        trace.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", start..start + 20 + pid);
        trace.kernel("ncclDevKernel_Broadcast_RING", start + 300..start + 340);
    }
    let trace = trace.finish();
    let timeline = timeline(&trace);
    let at = |text: &str| {
        let place = timeline.example(&trace, &Example::parse(text).unwrap(), timeline.extent)?;
        Some((place.start.since(timeline.zero).0 / 1_000, timeline.lanes[place.lane].kind.layer().word()))
    };
    // The all-reduce on device 1 takes 1 us longer.
    assert_eq!(at("collective allreduce"), Some((1_000, "device")));
    assert_eq!(at("collective_on allreduce pid:7"), Some((0, "device")));
    assert_eq!(at("communication_of 7"), Some((300, "device")), "the broadcast");
    assert_eq!(at("collective alltoall"), None);
    assert_eq!(at("call cudaStreamSynchronize"), Some((130, "host")), "the first of the two of 20 us");
    assert_eq!(at("call_of 8 cudaStreamSynchronize"), Some((1_130, "host")));
    assert_eq!(at("range ## forward ##"), Some((0, "host")));
    assert_eq!(at("range_of 8 ## forward ##"), Some((1_000, "host")));
    assert_eq!((at("call_of 9 cudaStreamSynchronize"), at("range x")), (None, None));
    assert_eq!(at("idle_on unknown 1"), Some((1_028, "derived")), "from the end of the all-reduce");
    assert_eq!(at("idle_on unknown 2"), None);
}

#[test]
fn a_counter_leads_to_its_highest_sample_in_the_steps_of_a_stage() {
    let mut trace = TestTrace::new();
    trace.in_us();
    for (name, start) in [("step[EXTEND bs=1]", 0), ("step[DECODE bs=4]", 100)] {
        trace
            .range(name, start..start + 40)
            .launch(start + 5..start + 10)
            .launches("gemm_kernel", start + 20..start + 50);
    }
    let samples = [(25, 30.0), (30, 90.0), (60, 95.0), (125, 40.0), (130, 50.0), (140, f64::NAN), (400, 99.0)];
    let trace = trace.metric("SM Active [Throughput %]", &samples).finish();
    let timeline = timeline(&trace);
    let device = label_of_first_device(&trace);
    let at = |of: &str| {
        let text = format!("counter {device} {of}");
        let place = timeline.example(&trace, &Example::parse(&text).unwrap(), timeline.extent)?;
        Some(place.start.0 / 1_000)
    };
    assert_eq!(
        at("all SM Active [Throughput %]"),
        Some(60),
        "after the ops of the first step; that after the last op of all does not count"
    );
    assert_eq!(at("extend/prefill SM Active [Throughput %]"), Some(60));
    assert_eq!(at("decode SM Active [Throughput %]"), Some(130));
    assert_eq!((at("draft SM Active [Throughput %]"), at("all DRAM")), (None, None));
}

fn label_of_first_device(trace: &Trace) -> String {
    super::cases::label_text(&labels::device(trace, DeviceId(0)))
}

#[test]
fn a_stage_leads_to_the_longest_op_of_its_graphs() {
    let mut trace = TestTrace::new();
    trace.in_us();
    for (name, start) in [("step[EXTEND bs=1]", 0), ("step[DECODE bs=4]", 100)] {
        trace.range(name, start..start + 40).launch(start..start + 1).launches("gemm_kernel", start + 20..start + 45);
        if start > 0 {
            trace.call("cudaGraphLaunch", start + 2..start + 3);
            trace.launches("norm_kernel", start + 45..start + 48).launches("gemm_kernel", start + 48..start + 58);
        }
    }
    let trace = trace.finish();
    let timeline = timeline(&trace);
    let at = |stage: &str| {
        let place = timeline.example(&trace, &Example::GraphOp(stage.to_owned()), timeline.extent)?;
        Some(place.start.0 / 1_000)
    };
    assert_eq!(at("decode"), Some(148), "the kernel before it is longer, but in no graph");
    assert_eq!(at("extend/prefill"), None);
}

#[test]
fn a_stage_leads_to_the_longest_op_of_its_steps_without_graphs_and_ops_outside_of_steps_are_found() {
    let mut trace = TestTrace::new();
    trace.in_us();
    trace.launch(0..1).launches("copy_kernel", 20..90);
    for (start, has_graph) in [(100, true), (200, false)] {
        trace.range("step[DECODE bs=4]", start..start + 40);
        trace.launch(start..start + 1).launches("gemm_kernel", start + 20..start + if has_graph { 60 } else { 45 });
        if has_graph {
            trace.call("cudaGraphLaunch", start + 2..start + 3).launches("norm_kernel", start + 60..start + 63);
        }
    }
    let trace = trace.finish();
    let timeline = timeline(&trace);
    let at = |case: Example| Some(timeline.example(&trace, &case, timeline.extent)?.start.0 / 1_000);
    let eager = |stage: &str| at(Example::EagerOp(stage.to_owned()));
    assert_eq!(eager("decode"), Some(220), "the longer one is in a step with a graph");
    assert_eq!(eager("extend/prefill"), None);
    assert_eq!(at(Example::OpOutsideSteps), Some(20));
}

#[test]
fn a_class_leads_to_its_work_that_overlaps_longest_with_work_of_another_class() {
    let mut trace = TestTrace::nsys();
    trace.in_us();
    trace.stream(1).kernel("gemm_kernel", 0..100).stream(2).kernel("gemm_kernel", 10..90);
    trace.kernel("Memcpy HtoD (Pinned -> Device)", 95..120).stream(1).kernel("gemm_kernel", 200..230);
    trace.stream(2).kernel("Memcpy HtoD (Pinned -> Device)", 210..220);
    trace.device(1).kernel("Memset (Device)", 0..100);
    let trace = trace.finish();
    let timeline = timeline(&trace);
    let at = |label: &str| {
        let place = timeline.example(&trace, &Example::Overlap(label.to_owned()), timeline.extent)?;
        Some(place.start.0 / 1_000)
    };
    assert_eq!((at("Compute"), at("Memcpy")), (Some(200), Some(210)), "10 us, and before that 5");
    assert_eq!((at("Memset"), at("NCCL"), at("other")), (None, None, None), "alone on its device, or not in the trace");
}

#[test]
fn a_function_leads_to_the_gap_in_which_it_took_longest() {
    let mut trace = TestTrace::new();
    trace.in_us();
    for start in [0, 100, 200] {
        trace.launch(start + 5..start + 10).launches("gemm_kernel", start + 20..start + 50);
    }
    let mut trace = trace.finish();
    let mut functions = Names::default();
    let [load, wait] = ["/x/site-packages/a/b.py(7): load", "c.py(1): wait"].map(|name| functions.intern(name));
    let mut ops = Names::default();
    let op = ops.intern("aten::mm");
    let mut code = LateCode::new(functions, ops);
    // The gaps begin at 50 and 150 us.
    for (start, us) in [(50, [10, 40]), (150, [30, 5])] {
        let interval = HostInterval { thread: ThreadId(0), start: Ns(start * 1_000), end: Ns((start + 55) * 1_000) };
        let time = |function, us: i64| CodeTime { function: Some(function), op: None, time: Ns(us * 1_000) };
        let in_op = CodeTime { function: None, op: Some(op), time: Ns(start) };
        code.add(interval, vec![time(load, us[0]), time(wait, us[1]), in_op]);
    }
    trace.late_code = code.into();
    let timeline = timeline(&trace);
    let at = |text: &str| {
        let place = timeline.example(&trace, &Example::parse(text).unwrap(), timeline.gpu)?;
        Some(place.start.0 / 1_000)
    };
    assert_eq!(at("idle_code host_late a/b.py(7): load"), Some(150));
    assert_eq!(at("idle_code host_late c.py(1): wait"), Some(50));
    assert_eq!((at("idle_cpu_op host_late aten::mm"), at("idle_cpu_op host_late aten::add")), (Some(150), None));
    assert_eq!((at("idle_code drained c.py(1): wait"), at("idle_code host_late c.py(1): other")), (None, None));
}

#[test]
fn a_message_is_found_by_its_size() {
    let mut trace = TestTrace::nsys();
    for (start, bytes) in [(0, 1_000), (100, 2_000), (200, 1_000)] {
        trace.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", start..start + 10 + start / 10);
        trace.message(Collective {
            operation: "allreduce".to_owned(),
            bytes_in: Some(bytes),
            bytes_out: Some(bytes),
            ..Collective::default()
        });
    }
    let trace = trace.finish();
    let timeline = timeline(&trace);
    let at = |text: &str| {
        timeline
            .example(&trace, &Example::parse(text).unwrap(), timeline.gpu)
            .map(|place| place.start.since(timeline.zero).0)
    };
    assert_eq!(at("collective_of_size allreduce 1000"), Some(200), "the longer one");
    assert_eq!(at("collective_of_size allreduce 2000"), Some(100));
    assert_eq!(at("collective_of_size allreduce 3000"), None);
}

/// Qwen3-30B-A3B has 48 layers, gpt-oss-120b 36 of two kinds, by their configs.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn each_layer_of_a_step_has_a_bar_and_below_it_the_roles_of_its_kernels() {
    for (file, layers, kinds) in
        [("sglang_qwen3_30b_b300_decode", 48, "layer 47 of 0 to 47"), ("vllm_b200_eager_prefill", 36, "kind B")]
    {
        let trace = crate::analysis::testing::torch(&format!("{file}.trace.json.gz"));
        let timeline = timeline(&trace);
        let lane = lane_of(&timeline, |kind| matches!(kind, LaneKind::Layers(_)));
        let (roles, outer): (Vec<_>, Vec<_>) = timeline.layers.iter().partition(|bar| bar.depth == 1);
        assert_eq!((outer.len(), timeline.lanes[lane].depth), (layers, 2), "{file}");
        assert!(outer.iter().any(|bar| bar.name.contains(kinds)), "{file}: {:?}", outer.last());
        assert!(outer.windows(2).all(|pair| pair[0].end <= pair[1].start), "{file}: layers do not overlap");
        for layer in &outer {
            let inside = |bar: &&&LayerBar| layer.start <= bar.start && bar.end <= layer.end;
            let kernels: usize = roles.iter().filter(inside).map(|bar| bar.kernels).sum();
            assert_eq!(kernels, layer.kernels, "{file}: {layer:?}");
        }
        assert!(roles.iter().any(|bar| bar.label == "attention"), "{file}");
        let row = timeline.layers.iter().position(|bar| bar.depth == 0).unwrap();
        let moment = timeline.moment(&trace, rules(), lane, row).unwrap();
        let alike = figure(&moment, "equal_parts").number().unwrap();
        assert!(moment.name.starts_with("Layer 0 of 0 to ") && alike >= 1.0, "{}", moment.name);
        let next = moment.neighbours.after.unwrap();
        assert!(timeline.moment(&trace, rules(), lane, next.row).unwrap().name.starts_with("Layer 1 of "));
    }
}

/// The annotations are written for the layers that the timeline found without them.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn a_layer_whose_kernels_were_annotated_has_the_name_that_they_share() {
    let mut trace = torch("sglang_qwen3_30b_b300_decode.trace.json.gz");
    let bars = |trace: &Trace, depth: u8| -> Vec<LayerBar> {
        timeline(trace).layers.into_iter().filter(|bar| bar.depth == depth).collect()
    };
    for (number, layer) in bars(&trace, 0).iter().enumerate() {
        for part in bars(&trace, 1).iter().filter(|part| layer.start <= part.start && part.end <= layer.end) {
            let annotation = format!("model.layers.{number}.{}", part.label);
            let note = trace.node_notes.add_note(NodeNote { annotation, ..NodeNote::default() });
            for row in trace.gpu_ops.count_starting_before(part.start)..trace.gpu_ops.count_starting_before(part.end) {
                trace.node_notes.add_row(row as u32, note);
            }
        }
    }
    let layers = bars(&trace, 0);
    assert_eq!(layers[47].label, "model.layers.47");
    assert!(layers[47].name.starts_with("layer 47 of 0 to 47") && layers[47].name.ends_with(": model.layers.47"));
    let is_part = |bar: &&LayerBar| bar.label == "model.layers.0.attention";
    assert_eq!(bars(&trace, 1).iter().filter(is_part).count(), 1);
}

#[test]
fn names_share_whole_parts_and_a_number() {
    for (names, expected) in [
        (&["layers.7.attn.q", "layers.7.attn", "layers.7.mlp"][..], Some("layers.7")),
        (&["layers.7", "layers.70"], None),
        (&["a/1/x", "a/1/x"], Some("a/1/x")),
        (&["decoder", "decoder"], Some("decoder")),
        (&["layers.7.mlp", "lm_head"], None),
        (&[], None),
    ] {
        assert_eq!(layers::shared_name(names.iter().copied()), expected, "{names:?}");
    }
}

#[test]
fn a_trace_without_layers_has_no_lane_for_them() {
    let timeline = timeline(&stepped());
    assert!(!timeline.lanes.iter().any(|lane| matches!(lane.kind, LaneKind::Layers(_))));
    assert!(!timeline.layers_left_out);
}

/// Decode steps on one device: in each a kernel of this duration in microseconds, 10 us after the one before.
fn decode_steps(durations_us: &[i64]) -> Trace {
    let mut trace = TestTrace::new();
    trace.in_us();
    let mut now = 100;
    for duration in durations_us {
        trace.range("step[DECODE bs=4]", now..now + duration + 5).launch(now..now + 2);
        trace.launches("gemm_kernel", now + 5..now + 5 + duration);
        now += duration + 10;
    }
    trace.finish()
}

/// A step lasts until the next one starts: 40, 60, 140, 50 and 50 us; the last one ends with its kernel.
#[test]
fn the_pair_of_steps_is_the_median_and_the_slowest_one() {
    let trace = decode_steps(&[30, 50, 130, 40, 50]);
    let pair = timeline(&trace).step_pair(&trace).unwrap();
    assert_eq!(pair.stage, Stage::Decode);
    let lengths = [pair.median, pair.slowest].map(|place| place.end.since(place.start).0 / 1_000);
    assert_eq!(lengths, [50, 140]);
    for (durations, why) in [(&[30_i64, 50] as &[i64], "two steps"), (&[30], "one step")] {
        let trace = decode_steps(durations);
        assert_eq!(timeline(&trace).step_pair(&trace), None, "{why}");
    }
    assert_eq!(timeline(&stepped()).step_pair(&stepped()), None);
}

/// A trace of 1 ms with this memory in bytes from these times on.
fn with_memory(samples: &[(i64, f64)]) -> Trace {
    let mut trace = TestTrace::new();
    trace.kernel("gemm_kernel", 0..1_000_000);
    trace.metric(ALLOCATED_MEMORY, samples);
    trace.finish()
}

/// A unit is 1,024 ns: 4 GB from unit 2 on, with a peak of 8 GB inside unit 4, and 2 GB from unit 6 to the last sample in unit 8.
#[test]
fn a_counter_holds_its_value_until_the_next_sample_and_keeps_its_peak() {
    let trace = with_memory(&[(2_048, 4e9), (4_200, 8e9), (4_300, 4e9), (6_144, 2e9), (8_192, 0.0)]);
    let timeline = timeline(&trace);
    let lane = lane_of(&timeline, |kind| kind == LaneKind::Counter(DeviceId(0), 0));
    let shape: Vec<(i32, i32, u8, usize)> =
        bars(&timeline, &trace, lane, 10).iter().map(|bar| (bar.start, bar.end, bar.filled, bar.row)).collect();
    // The value holds at the beginning of the unit in which the next sample comes.
    assert_eq!(shape, [(2, 4, 128, 0), (4, 5, 255, 1), (5, 7, 128, 2), (7, 9, 64, 3)]);
    let moment = timeline.moment(&trace, rules(), lane, 1).unwrap();
    assert_eq!((moment.place.start, moment.place.end), (Ns(4_200), Ns(4_300)));
    let figures = ["allocated_bytes", "before_bytes", "highest_bytes"].map(|key| moment.section.summary.number(key));
    assert_eq!(figures, [Some(8e9), Some(4e9), Some(8e9)]);
}

#[test]
fn a_counter_in_per_cent_fills_its_lane_at_100() {
    let mut trace = TestTrace::nsys();
    trace.kernel("gemm", 0..4_096).metric("SM Active [Throughput %]", &[(0, 20.0), (2_048, 0.0)]);
    let trace = trace.finish();
    let timeline = timeline(&trace);
    let lane = lane_of(&timeline, |kind| kind == LaneKind::Counter(DeviceId(0), 0));
    let filled: Vec<u8> = bars(&timeline, &trace, lane, 10).iter().map(|bar| bar.filled).collect();
    assert_eq!(filled, [51], "a fifth of 255");
}

proptest! {
    /// At every level, the highest bar of the first tile is the highest value in it.
    #[test]
    fn no_zoom_loses_the_peak_of_a_counter(steps in prop::collection::vec((1_i64..5_000, 1_u32..1_000), 1..60), level in 4_u32..14) {
        let mut time = 0;
        let samples: Vec<(i64, f64)> = steps.iter().map(|(after, value)| { time += after; (time, f64::from(*value)) }).collect();
        let trace = with_memory(&samples);
        let timeline = timeline(&trace);
        let lane = lane_of(&timeline, |kind| kind == LaneKind::Counter(DeviceId(0), 0));
        let end = TileRange::new(timeline.zero, level, 0).unwrap().end();
        let highest = |samples: &mut dyn Iterator<Item = &(i64, f64)>| samples.fold(0.0, |highest: f64, (_, value)| highest.max(*value));
        let in_tile = highest(&mut samples.iter().filter(|(time, _)| Ns(*time) < end));
        let expected = (255.0 * in_tile / highest(&mut samples.iter())).round() as u8;
        let found = bars(&timeline, &trace, lane, level).iter().map(|bar| bar.filled).max().unwrap_or(0);
        prop_assert_eq!(found, expected);
    }
}

/// Counted by an independent program in the raw JSON: instants `[memory]` of GPUs, and the largest `Total Allocated`.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_memory_samples_of_real_traces_are_those_in_the_file() {
    for (file, samples, highest) in [
        ("train_v100_216k_events.trace.json.gz", 26_770, 6_629_508_096.0),
        ("hf_qwen1.5_0.5b_h100.trace.json.gz", 2_250, 2_088_508_416.0),
        ("particle_transformer_a100.pt.trace.json.gz", 969, 13_155_807_744.0),
    ] {
        let trace = torch(file);
        let [series] = trace.metrics.as_slice() else { panic!("{file}: {} series", trace.metrics.len()) };
        let found = series.samples.iter().fold(0.0, |highest: f64, (_, value)| highest.max(*value));
        assert_eq!((series.samples.len(), found), (samples, highest), "{file}");
    }
}

#[test]
fn a_search_counts_ops_by_name_and_category_and_leads_from_one_to_the_next_and_back() {
    let mut trace = TestTrace::nsys();
    for (name, start) in [("ampere_gemm", 0), ("flash_fwd", 100), ("Ampere_GEMM", 110), ("ampere_gemm", 500)] {
        trace.kernel(name, start..start + 50);
    }
    let trace = trace.finish();
    let timeline = Timeline::of(&trace, rules()).unwrap();
    let count = |text: &str| timeline.search(&trace, text, timeline.gpu).count(&trace);
    assert_eq!(["gemm", "ampere GEMM", "attention", "gemm flash", "", "xyz"].map(count), [3, 3, 1, 0, 0, 0]);
    let hits = timeline.search(&trace, "gemm", timeline.gpu);
    let from =
        |row: Option<usize>, toward| timeline.hit(&trace, &hits, row, toward).map(|hit| (hit.place.row, hit.number));
    let (next, previous) = (Toward::Next, Toward::Previous);
    assert_eq!([None, Some(0), Some(2), Some(3)].map(|row| from(row, next).unwrap()), [(0, 1), (2, 2), (3, 3), (0, 1)]);
    assert_eq!([None, Some(3), Some(0)].map(|row| from(row, previous).unwrap()), [(3, 3), (2, 2), (3, 3)]);
    let first = Window { start: timeline.gpu.start, end: timeline.gpu.start + Ns(200) };
    assert_eq!(timeline.search(&trace, "gemm", first).count(&trace), 2, "those in the window");
    let spans = |least: i64| {
        let spans = timeline.hit_spans(&trace, &hits, timeline.gpu, Ns(least)).into_iter();
        spans.map(|span| (span.start.since(timeline.zero).0, span.end.since(timeline.zero).0)).collect::<Vec<_>>()
    };
    assert_eq!(spans(1), [(0, 50), (110, 160), (500, 550)]);
    assert_eq!(spans(100), [(0, 160), (500, 550)], "near ones are one");
}
