//! Tests of all panels on synthetic sections, hostile sections and the golden trace.

use super::*;
use crate::analysis::dashboard::testing::{run_of, section};
use crate::input::nsys::golden_trace;
use crate::report::chart::Node;
use crate::report::tests_support::{empty_run, sample};
use crate::session::{self, Choices};
use crate::trace::testing::TestTrace;

const ALLREDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const HOSTILE: &str = "</svg><script>alert(1)</script>\"'&\u{1}\u{202e}";

/// A run with the sections of all nine panels; all times are multiplied by `times`.
fn run(times: f64) -> Run {
    let mut run = run_of(&["NVIDIA H100 80GB HBM3"]);
    let kernel = |name: &str, ms: f64| [Value::from(name), 0_i64.into(), 3_i64.into(), Value::Float(ms * times)];
    let mut add = |name: &str, section: Section| run.sections.insert(name.to_owned(), section);
    add(
        "kernels",
        section(
            ["kernel_name", "device_id", "call_count", "total_time_ms"],
            &[kernel("gemm", 8.0), kernel(ALLREDUCE, 4.0), kernel("norm", 2.0), kernel("tiny", 0.25)],
        ),
    );
    add(
        "roofline",
        section(
            ["kernel_name", "total_time_ms", "call_count", "arithmetic_intensity", "achieved_tflops"],
            &[
                ["gemm".into(), 8.0.into(), 3_i64.into(), 500.0.into(), (400.0 / times).into()],
                [ALLREDUCE.into(), 4.0.into(), 3_i64.into(), 0.5.into(), 0.25.into()],
            ],
        ),
    );
    let event = |name: &str, class: &str, lane: &str, start: f64, end: f64| {
        let ns = Value::Int(((end - start) * 1e6) as i64);
        let texts = [name, class, lane].map(Value::from);
        let [name, class, lane] = texts;
        [name, class, lane, ns, Value::Float(end - start), Value::Float(start), Value::Float(end)]
    };
    add(
        "timeline_events",
        section(
            ["event_name", "event_class", "lane", "duration_ns", "duration_ms", "start_ms", "end_ms"],
            &[
                event("gemm", "cuda_kernel", "GPU stream 7", 0.0, 4.0),
                event(ALLREDUCE, "nccl", "GPU stream 20", 3.0, 5.0),
                event("GPU idle (host)", "gpu_idle", "GPU 0", 5.0, 6.0),
                event("cudaStreamSynchronize", "sync_api", "CPU pid 1 tid 1", 2.0, 2.5),
            ],
        ),
    );
    add(
        "nccl_ops",
        section(
            ["op_name", "count", "total_time_ms", "compute_overlap_ms", "compute_overlap_pct"],
            &[["allreduce".into(), 3_i64.into(), (4.0 * times).into(), times.into(), 25.0.into()]],
        ),
    );
    let sample = |time: i64, value: f64, active: bool| {
        [1_i64.into(), "NVLink RX".into(), time.into(), value.into(), active.into()]
    };
    add(
        "nvlink_timeseries",
        section(
            ["metric_source_id", "metric_name", "timestamp_ns", "metric_value", "nccl_active"],
            &[sample(100, 1.0, false), sample(200, 75.5, true), sample(300, 2.0, false)],
        ),
    );
    let mut streams = section(
        ["label", "total_time_ms", "overlap_pct"],
        &[["Compute".into(), (10.0 * times).into(), 10.0.into()], ["NCCL".into(), (4.0 * times).into(), 25.0.into()]],
    );
    streams.figure("compute_nccl_overlap_ms", 1.0);
    streams.figure("compute_memcpy_overlap_ms", 0.5);
    streams.figure("max_concurrent_gpu_ops", 2_i64);
    add("stream_overlap", streams);
    let latency = section(
        ["bin_start_us", "bin_end_us", "count", "without_communication"],
        &[
            [0.0.into(), 5.0.into(), 30_i64.into(), 20_i64.into()],
            [5.0.into(), 10.0.into(), 10_i64.into(), 10_i64.into()],
        ],
    );
    let mut longest = section(["latency_us"], &[[10.0.into()]]);
    for (name, us) in [("p50_us", 3.25), ("p95_us", 8.0), ("p99_us", 9.5), ("without_communication_p50_us", 2.5)] {
        longest.figure(name, us * times);
    }
    add("launch_latency_histogram", latency);
    add("launch_latency_rows", longest);
    let phase = |name: &str, ms: f64, pct: f64, without: f64| {
        [name.into(), (ms * times).into(), pct.into(), (without * times).into()]
    };
    add(
        "phase_split",
        section(
            ["phase", "total_time_ms", "pct_of_total", "without_communication_ms"],
            &[phase("decode", 6.0, 60.0, 5.0), phase("unclassified", 4.0, 40.0, 1.0)],
        ),
    );
    let rank =
        |rank: &str, skew: f64| ["allreduce".into(), rank.into(), 2.0.into(), 1.0.into(), Value::Float(skew * times)];
    add(
        "nccl_rank_skew",
        section(
            ["op_name", "rank_label", "total_time_ms", "max_duration_ms", "skew_vs_median_pct"],
            &[rank("rank:0", 40.0), rank("rank:1", -10.0), rank("rank:2", 0.0)],
        ),
    );
    run
}

/// The panels without a baseline.
fn panels_of(options: &Options) -> Vec<Panel> {
    dashboard(&Report::new(vec![run(1.0)]), 0, None, options)
}

fn panel<'a>(panels: &'a [Panel], id: &str) -> &'a Panel {
    panels.iter().find(|panel| panel.id == id).unwrap()
}

fn nodes<'a>(panels: &'a [Panel], id: &str) -> &'a [Node] {
    &panel(panels, id).chart.as_ref().unwrap().nodes
}

/// The bars of a class with their lengths.
fn bars<'a>(panels: &'a [Panel], id: &str, class: &str) -> Vec<(&'a Node, f64)> {
    let of_class = nodes(panels, id).iter().filter(|node| node.tag == "rect" && node.class.starts_with(class));
    of_class.map(|node| (node, node.number("width"))).collect()
}

fn titles(panels: &[Panel], id: &str) -> String {
    nodes(panels, id).iter().map(|node| node.title.as_str()).collect::<Vec<_>>().join("\n")
}

const IDS: [&str; 9] =
    ["kernels", "timeline", "roofline", "nvlink", "collectives", "streams", "latency", "phases", "skew"];

#[test]
fn all_nine_panels_are_in_order_and_name_an_existing_table() {
    for width in [0, 240, 400, 960, u32::MAX] {
        let panels = panels_of(&Options { width, column_width: width, ..Options::default() });
        assert_eq!(panels.iter().map(|panel| panel.id).collect::<Vec<_>>(), IDS);
        for panel in &panels {
            assert!(crate::report::is_known_table(panel.table), "{}", panel.table);
            let chart = panel.chart.as_ref().unwrap();
            assert!(!panel.note.is_empty() && chart.summary.ends_with('.'), "{panel:?}");
            assert!(chart.height > 40 && chart.width >= 240);
            for node in &chart.nodes {
                assert!(["rect", "text", "line", "path", "polyline"].contains(&node.tag));
                assert!(!node.class.is_empty(), "{node:?}");
                assert!(
                    node.attrs.iter().all(|(_, value)| !value.contains("NaN") && !value.contains("inf")),
                    "{node:?}"
                );
            }
        }
    }
}

#[test]
fn every_row_has_a_tooltip_with_its_exact_value() {
    let panels = panels_of(&Options::default());
    for (id, values) in [
        ("kernels", &["gemm: 8 ms in 3 launches", "tiny: 0.25 ms"][..]),
        ("roofline", &["gemm: 500 FLOP per byte, 400 TFLOP/s, 8 ms in 3 launches; 40.4 % of the peak"]),
        ("timeline", &["gemm: 4,000,000 ns from 0 ms to 4 ms, GPU stream 7", "GPU idle (host): 1,000,000 ns"]),
        ("collectives", &["allreduce: 4 ms in 3 launches, 25 % of it hidden by compute (1 ms)"]),
        ("nvlink", &["NVLink RX: 75.5"]),
        ("streams", &["Compute: 10 ms, 10 % overlapped", "NCCL: 4 ms"]),
        ("latency", &["0 us to 5 us: 30 launches", "p50: 3.25 us", "p99: 9.5 us"]),
        ("phases", &["decode: 6 ms, 60 % of the total"]),
        ("skew", &["allreduce, rank:0: +40 % from the median rank, 2 ms in total, longest 1 ms"]),
    ] {
        let titles = titles(&panels, id);
        for value in values {
            assert!(titles.contains(value), "{id}: {value} in {titles}");
        }
    }
}

#[test]
fn bar_lengths_are_proportional_to_values() {
    let panels = panels_of(&Options::default());
    for (id, wanted) in [
        ("kernels", &[8.0, 4.0, 2.0, 0.25][..]),
        ("collectives", &[4.0]),
        ("streams", &[10.0, 4.0]),
        ("phases", &[6.0, 4.0]),
        ("skew", &[40.0, 10.0]),
        ("timeline", &[4.0, 2.0, 1.0, 0.5]),
    ] {
        let lengths: Vec<f64> = bars(&panels, id, "seg ").iter().map(|bar| bar.1).collect();
        assert_eq!(lengths.len(), wanted.len(), "{id}");
        for (length, wanted_length) in lengths.iter().zip(wanted) {
            let scale = lengths[0] / wanted[0];
            assert!((length - wanted_length * scale).abs() < 0.03, "{id}: {lengths:?} for {wanted:?}");
        }
    }
}

#[test]
fn a_kernel_bar_has_the_colour_of_its_category() {
    let mut run = run(1.0);
    run.kernels = sample().runs[0].kernels[..2].to_vec();
    for (kernel, (name, category)) in run.kernels.iter_mut().zip([("gemm", "moe_gemm"), ("norm", "norm")]) {
        (kernel.name, kernel.category) = (name.into(), category.into());
    }
    let panels = dashboard(&Report::new(vec![run]), 0, None, &Options::default());
    let classes: Vec<&str> = bars(&panels, "kernels", "seg ").iter().map(|bar| bar.0.class.as_str()).collect();
    assert_eq!(classes, ["seg cat-moe_gemm", "seg cat-misc", "seg cat-norm", "seg cat-misc"]);
}

#[test]
fn the_threshold_removes_bars_and_the_note_states_how_many() {
    let options = Options { threshold_ms: 2.5, ..Options::default() };
    let panels = panels_of(&options);
    assert_eq!(bars(&panels, "kernels", "seg ").len(), 2);
    assert!(panel(&panels, "kernels").note.contains("at least 2.5 ms. Left out: 2 below the threshold"));
    let none = panels_of(&Options { threshold_ms: 50.0, ..Options::default() });
    let kernels = panel(&none, "kernels");
    assert!(kernels.chart.is_none() && kernels.gap.as_ref().unwrap().0.contains("4 below the threshold"));
}

#[test]
fn each_bar_with_a_baseline_has_an_outline() {
    let report = Report::new(vec![run(1.0), run(2.0)]);
    let panels = dashboard(&report, 0, Some(1), &Options::default());
    for (id, ratio) in [("kernels", 2.0), ("collectives", 2.0), ("streams", 2.0), ("phases", 2.0), ("skew", 2.0)] {
        let (ours, theirs) = (bars(&panels, id, "seg "), bars(&panels, id, "dash-base"));
        let wanted = if id == "skew" { ours.len() + 1 } else { ours.len() };
        assert_eq!(theirs.len(), wanted, "{id}");
        for ((_, ours), (mark, theirs)) in ours.iter().zip(&theirs) {
            assert!((theirs - ours * ratio).abs() < 0.03, "{id}: {ours} and {theirs}");
            assert!(mark.title.starts_with("Baseline: "), "{id}");
        }
    }
    assert!(titles(&panels, "kernels").contains("gemm: 8 ms in 3 launches, misc; baseline 16 ms"));
    assert!(titles(&panels, "latency").contains("baseline p50: 6.5 us"));
    assert_eq!(nodes(&panels, "roofline").iter().filter(|node| node.class == "dash-hollow").count(), 2);
    assert!(panel(&panels, "kernels").note.contains("Outlined: t"));
    let itself = dashboard(&report, 0, Some(0), &Options::default());
    assert!(bars(&itself, "kernels", "dash-base").is_empty(), "a run is not its own baseline");
    assert!(dashboard(&report, 7, None, &Options::default()).is_empty());
}

/// The panels of a run whose kernels have categories, with these categories hidden.
fn panels_without(hidden: &[&str]) -> Vec<Panel> {
    let mut trace = TestTrace::nsys();
    trace.kernel("gemm", 0..10).kernel(ALLREDUCE, 10..20).kernel("rmsnorm", 20..30);
    let run = Run { kernels: trace.run().kernels, ..run(1.0) };
    let hidden = hidden.iter().map(|category| (*category).to_owned()).collect();
    dashboard(&Report::new(vec![run]), 0, None, &Options { hidden, ..Options::default() })
}

/// The first words of the tooltips of a panel's marks with this class.
fn marked(panels: &[Panel], id: &str, class: &str) -> Vec<String> {
    let marks = panel(panels, id).chart.iter().flat_map(|chart| &chart.nodes);
    let marks = marks.filter(|node| node.class.starts_with(class) && !node.title.is_empty());
    marks.map(|node| node.title.split(':').next().unwrap().to_owned()).collect()
}

#[test]
fn bars_and_points_of_a_hidden_category_are_left_out_and_the_note_says_so() {
    let (all, without) = (panels_without(&[]), panels_without(&["gemm"]));
    for (id, class) in [("kernels", "seg "), ("roofline", "dash-dot")] {
        assert!(marked(&all, id, class).contains(&"gemm".to_owned()), "{id}");
        let rest: Vec<String> = marked(&all, id, class).into_iter().filter(|name| name != "gemm").collect();
        assert_eq!(marked(&without, id, class), rest, "{id}");
    }
    assert!(panel(&without, "kernels").note.contains("Left out: 1 of hidden categories."));
    assert!(panel(&without, "roofline").note.contains("Left out with hidden categories: 1 point."));
    for id in ["nvlink", "collectives", "streams", "latency", "phases", "skew"] {
        assert_eq!(panel(&without, id), panel(&all, id), "{id} shows nothing of the category");
    }
    let none = panels_without(&["gemm", "communication", "misc"]);
    assert_eq!(
        panel(&none, "roofline").gap.as_ref().unwrap().0,
        "No point to show. Left out with hidden categories: 2 points."
    );
    assert!(panel(&none, "kernels").gap.as_ref().unwrap().0.starts_with("No kernel to show."));
}

/// Without their place, the others would seem to run at another time.
#[test]
fn events_of_a_hidden_category_are_faint_and_keep_their_place() {
    let (all, without) = (panels_without(&[]), panels_without(&["gemm", crate::analysis::CPU]));
    let bar = |panels: &[Panel], name: &str| {
        let node = nodes(panels, "timeline").iter().find(|node| node.tag == "rect" && node.title.starts_with(name));
        (node.unwrap().number("x"), node.unwrap().class.ends_with(" faint"))
    };
    for (name, is_faint) in [("gemm", true), (ALLREDUCE, false), ("GPU idle", true), ("cudaStreamSynchronize", false)] {
        assert_eq!((bar(&all, name).1, bar(&without, name)), (false, (bar(&all, name).0, is_faint)), "{name}");
    }
    let has_label = |panels: &[Panel]| {
        nodes(panels, "timeline").iter().any(|node| node.class.starts_with("seg-label") && node.text == "gemm")
    };
    assert_eq!((has_label(&all), has_label(&without)), (true, false));
}

#[test]
fn hidden_communication_is_in_no_panel_whatever_the_rules_call_it() {
    for name in ["communication", "nccl_and_custom_ar"] {
        let without = panels_without(&[name]);
        for id in ["collectives", "skew"] {
            assert_eq!(panel(&without, id).gap.as_ref().unwrap().0, "Communication is hidden.", "{name}");
        }
        assert!(!marked(&without, "streams", "seg ").contains(&"NCCL".to_owned()), "{name}");
        assert!(panel(&without, "streams").note.contains("Left out with hidden categories: 1 kind of work."));
        assert!(bars(&without, "nvlink", "dash-active").is_empty(), "{name}");
        assert!(panel(&without, "nvlink").note.starts_with("Communication is hidden: nothing is shaded."));
    }
}

#[test]
fn without_communication_only_its_marks_are_removed() {
    let (with, without) =
        (panels_of(&Options::default()), panels_of(&Options { communication: false, ..Options::default() }));
    let labels = |panels: &[Panel], id: &str| -> Vec<String> {
        bars(panels, id, "seg ").iter().map(|bar| bar.0.title.split(':').next().unwrap().to_owned()).collect()
    };
    let assert_removed = |id: &str, removed: &str| {
        let all = labels(&with, id);
        let rest: Vec<String> = all.iter().filter(|label| *label != removed).cloned().collect();
        assert_eq!((labels(&without, id), rest.len()), (rest, all.len() - 1), "{id}");
    };
    assert_removed("kernels", ALLREDUCE);
    assert_removed("timeline", ALLREDUCE);
    assert_removed("streams", "NCCL");
    let dots =
        |panels: &[Panel]| nodes(panels, "roofline").iter().filter(|node| node.class.starts_with("dash-dot")).count();
    assert_eq!((dots(&with), dots(&without)), (2, 1));
    for id in ["collectives", "skew"] {
        assert_eq!(panel(&without, id).gap.as_ref().unwrap().0, "Communication is switched off.");
    }
    assert_eq!((bars(&with, "nvlink", "dash-active").len(), bars(&without, "nvlink", "dash-active").len()), (1, 0));
    assert!(titles(&without, "latency").contains("0 us to 5 us: 20 launches"));
    assert!(titles(&without, "latency").contains("p50: 2.5 us"));
    assert!(titles(&without, "phases").contains("decode: 5 ms"));
    assert!(!panel(&without, "streams").note.contains("communication"), "{}", panel(&without, "streams").note);
}

#[test]
fn ceilings_come_from_the_device_or_the_choice_and_the_note_names_them() {
    let panels = panels_of(&Options::default());
    let note = &panel(&panels, "roofline").note;
    assert!(
        note.contains("logarithmic") && note.contains("H100 SXM5 80 GB (from the device name): 3.35 TB/s, 989 TFLOP/s")
    );
    let chosen = panels_of(&Options { hardware: Some("h200-sxm".into()), ..Options::default() });
    assert!(panel(&chosen, "roofline").note.contains("H200 SXM 141 GB (as selected): 4.8 TB/s"));
    let unknown = panels_of(&Options { hardware: Some("x".into()), ..Options::default() });
    assert!(panel(&unknown, "roofline").note.contains("pick the hardware"));
    let roofs = |panels: &[Panel]| nodes(panels, "roofline").iter().filter(|node| node.class == "dash-roof").count();
    assert_eq!((roofs(&panels), roofs(&chosen), roofs(&unknown)), (1, 1, 0));
}

#[test]
fn axes_of_bars_start_at_zero_and_logarithmic_axes_have_powers_of_ten() {
    let panels = panels_of(&Options::default());
    let texts = |id: &str, class: &str| panel(&panels, id).chart.as_ref().unwrap().texts(class);
    for id in ["kernels", "collectives", "streams", "phases", "timeline", "latency", "nvlink"] {
        assert!(texts(id, "chart-tick").iter().any(|tick| tick.parse() == Ok(0.0)), "{id}");
    }
    assert_eq!(texts("kernels", "chart-axis"), ["Total time of all launches (ms)"]);
    let decades = ["0.1", "1", "10", "100", "1,000"];
    assert_eq!(texts("roofline", "chart-tick"), [decades, decades].concat());
    assert!(texts("skew", "chart-tick").contains(&"-10"), "{:?}", texts("skew", "chart-tick"));
}

#[test]
fn a_panel_without_data_has_a_reason_and_a_capture_command() {
    let panels = dashboard(&Report::new(vec![empty_run("t")]), 0, None, &Options::default());
    for panel in &panels {
        let (why, recapture) = panel.gap.as_ref().unwrap();
        assert!(panel.chart.is_none() && why.ends_with('.') && !recapture.is_empty(), "{panel:?}");
    }
    assert!(panel(&panels, "roofline").gap.as_ref().unwrap().1.contains("ncu"));
    assert!(panel(&panels, "nvlink").gap.as_ref().unwrap().1.contains("--gpu-metrics-devices=all"));
    let mut one_rank = run(1.0);
    one_rank.sections.get_mut("nccl_rank_skew").unwrap().rows.truncate(1);
    let panels = dashboard(&Report::new(vec![one_rank]), 0, None, &Options::default());
    assert!(panel(&panels, "skew").gap.as_ref().unwrap().1.contains("nsys profile"));
}

#[test]
fn hostile_sections_are_drawn_safely() {
    let keys: Vec<String> = run(1.0).sections.values().flat_map(|section| section.columns.clone()).collect();
    let columns: Vec<&str> = keys.iter().map(String::as_str).collect();
    let values = [
        Value::Null,
        Value::Bool(true),
        Value::Int(i64::MAX),
        Value::Int(i64::MIN),
        Value::Float(f64::MAX),
        Value::Float(f64::MIN),
        Value::Float(f64::MIN_POSITIVE),
        Value::Float(f64::NAN),
        Value::Float(f64::INFINITY),
        Value::Float(-1.0),
        Value::Text(HOSTILE.repeat(8)),
        Value::Text(String::new()),
    ];
    for (first, step) in (0..values.len()).flat_map(|first| [(first, 0), (first, 1), (first, 5)]) {
        let mut section = Section::new(HOSTILE, HOSTILE, &columns);
        for row in 0..40 {
            let value = |column: usize| values[(first + step * (column + row)) % values.len()].clone();
            section.rows.push(Record(
                keys.iter().enumerate().map(|(column, key)| (key.clone().into(), value(column))).collect(),
            ));
        }
        section.summary = section.rows[0].clone();
        let mut hostile = run(1.0);
        hostile.label = HOSTILE.into();
        hostile.sections.values_mut().for_each(|each| *each = section.clone());
        let report = Report::new(vec![hostile, run(1.0)]);
        for (run, baseline) in [(0, None), (0, Some(1)), (1, Some(0))] {
            for communication in [true, false] {
                let options = Options {
                    hidden: Vec::new(),
                    communication,
                    threshold_ms: f64::NAN,
                    width: 1,
                    column_width: 1,
                    hardware: Some(HOSTILE.into()),
                };
                for panel in dashboard(&report, run, baseline, &options) {
                    let svg = panel.chart.map(|chart| chart.to_svg()).unwrap_or_default();
                    assert!(!svg.contains("<script") && !svg.contains('\u{1}') && !svg.contains("NaN"), "{}", panel.id);
                    assert!(svg.len() < 4_000_000, "{}: {}", panel.id, svg.len());
                }
            }
        }
    }
}

#[test]
fn large_sections_are_limited_to_a_readable_number_of_marks() {
    let mut large = run(1.0);
    for name in ["kernels", "nccl_rank_skew", "nvlink_timeseries"] {
        let section = large.sections.get_mut(name).unwrap();
        let rows = section.rows.clone();
        section.rows = (0..20_000).map(|index| rows[index % rows.len()].clone()).collect();
    }
    let panels = dashboard(&Report::new(vec![large]), 0, None, &Options::default());
    assert_eq!((bars(&panels, "kernels", "seg ").len(), bars(&panels, "skew", "seg ").len()), (20, 16));
    assert!(nodes(&panels, "nvlink").len() < 400);
    assert!(panel(&panels, "kernels").note.contains("Left out: 19,980 more."));
}

#[test]
fn the_golden_trace_has_all_panels_except_skew() {
    let report = Report::new(vec![session::run(&golden_trace(), &Choices::default()).unwrap()]);
    let panels = dashboard(&report, 0, None, &Options::default());
    assert_eq!(panels.iter().map(|panel| panel.id).collect::<Vec<_>>(), IDS);
    let empty: Vec<&str> = panels.iter().filter(|panel| panel.chart.is_none()).map(|panel| panel.id).collect();
    assert_eq!(empty, ["skew"], "each collective ran on one rank");
    assert!(
        titles(&panels, "collectives").contains("allreduce: 2 ms in 1 launch, 50 % of it hidden by compute (1 ms)")
    );
    assert_eq!(bars(&panels, "nvlink", "dash-active").len(), 2, "three of six samples are active, in two intervals");
    assert_eq!(bars(&panels, "kernels", "seg ").len(), report.runs[0].sections["kernels"].rows.len());
}
