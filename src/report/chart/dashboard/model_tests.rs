//! Tests of the charts on the model: layers by role, layers over a step, steps over time.

use super::*;
use crate::analysis::section::FIRST_OP;
use crate::report::chart::Node;
use crate::report::tests_support::empty_run;

fn table(columns: &[&str], rows: &[&[Value]]) -> Section {
    let mut section = Section::new("T", "a test", columns);
    for row in rows {
        section
            .rows
            .push(Record(columns.iter().map(|column| (*column).to_owned().into()).zip(row.iter().cloned()).collect()));
    }
    section
}

/// A run with three layers of a norm of 10 us, a product of 40 us and 10 us of idle time, and three steps.
fn report(role: &str) -> Report {
    let mut run = empty_run("a");
    let layer: [Value; 5] = ["decode".into(), "A".into(), 3_i64.into(), 1_i64.into(), 50.0.into()];
    run.sections.insert("layers".to_owned(), table(&["stage", "kind", "count", "steps", "median_us"], &[&layer]));
    let part = |role: &str, us: Value, total_ns: i64, position: Value| -> [Value; 6] {
        ["decode".into(), "A".into(), role.into(), us, total_ns.into(), position]
    };
    let rows = [
        part(role, 40.0.into(), 0, 1_i64.into()),
        part("norm", 10.0.into(), 0, 0_i64.into()),
        part("idle", Value::Null, 30_000, Value::Null),
    ];
    let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
    let columns = ["stage", "kind", "role", "median_us", "total_ns", "position"];
    run.sections.insert("layer_roles".to_owned(), table(&columns, &rows));
    let listed = |number: i64, us: f64, is_outlier: bool| -> [Value; 5] {
        ["decode".into(), number.into(), "A".into(), us.into(), is_outlier.into()]
    };
    let rows = [listed(0, 50.0, false), listed(1, 80.0, true), listed(2, 50.0, false)];
    let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
    run.sections.insert("layer_list".to_owned(), table(&["stage", "layer", "kind", "time_us", "is_outlier"], &rows));
    let step = |number: i64, start: i64, duration: i64| -> [Value; 7] {
        let [start, duration] = [start, duration].map(Value::from);
        [number.into(), "decode".into(), start, duration, 60_000_i64.into(), 20_000_i64.into(), 4_i64.into()]
    };
    let rows = [step(1, 5_000_000, 100_000), step(2, 5_100_000, 100_000), step(3, 5_200_000, 250_000)];
    let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
    let columns = ["step", "stage", "start_ns", "duration_ns", "busy_ns", "host_late_ns", "batch"];
    let mut steps = table(&columns, &rows);
    steps.figure(FIRST_OP, 5_000_000_i64);
    run.sections.insert("step_list".to_owned(), steps);
    let floor: [Value; 3] = ["decode".into(), 0.05.into(), "inferred".into()];
    run.sections.insert("step_floor".to_owned(), table(&["stage", "floor_ms", "confidence"], &[&floor]));
    Report::new(vec![run])
}

fn charts(report: &Report) -> Vec<Chart> {
    model_charts(report, 0, &Options::default()).into_iter().filter_map(|panel| panel.chart).collect()
}

fn titles<'a>(chart: &'a Chart, start: &str) -> Vec<&'a str> {
    let titles = chart.nodes.iter().map(|node| node.title.as_str());
    titles.filter(|title| !title.is_empty() && title.starts_with(start)).collect()
}

#[test]
fn a_layer_is_a_bar_of_its_roles_in_order_of_execution() {
    let report = report("gate_up");
    let charts = charts(&report);
    assert_eq!(
        titles(&charts[0], ""),
        [
            "norms (norm): 10.0 us in a layer, 16.7 %",
            "gate/up (gate_up): 40.0 us in a layer, 66.7 %",
            "idle: 10.0 us in a layer, 16.7 %",
        ]
    );
    let bars: Vec<&Node> = charts[0].nodes.iter().filter(|node| node.class.starts_with("seg cat-")).collect();
    let ratio = bars[1].number("width") / bars[0].number("width");
    assert!((ratio - 4.0).abs() < 0.05, "widths are times: {ratio}");
    assert!(charts[0].nodes.iter().any(|node| node.class.starts_with("hatch")), "idle time is hatched");
    assert_eq!(charts[0].summary, "3 layers of 60.0 us: norms 10.0 us, gate/up 40.0 us, idle 10.0 us.");
}

#[test]
fn a_part_of_a_layer_with_a_hidden_category_is_faint_and_keeps_its_place() {
    let report = report("gate_up");
    let parts = |hidden: &[&str]| -> Vec<(f64, bool)> {
        let hidden = hidden.iter().map(|category| (*category).to_owned()).collect();
        let panels = model_charts(&report, 0, &Options { hidden, ..Options::default() });
        let nodes = &panels[0].chart.as_ref().unwrap().nodes;
        let labels = nodes.iter().filter(|node| node.class.starts_with("seg-label")).count();
        let parts: Vec<&Node> = nodes.iter().filter(|node| node.class.starts_with("seg cat-")).collect();
        let faint = parts.iter().filter(|node| node.class.ends_with(" faint")).count();
        assert_eq!(labels, parts.len() - faint, "a faint part has no label");
        parts.iter().map(|node| (node.number("x"), node.class.ends_with(" faint"))).collect()
    };
    let places: Vec<f64> = parts(&[]).iter().map(|part| part.0).collect();
    assert_eq!(parts(&["gemm"]), [(places[0], false), (places[1], true), (places[2], false)]);
    assert_eq!(parts(&[crate::analysis::CPU]), [(places[0], false), (places[1], false), (places[2], true)]);
}

#[test]
fn a_part_of_a_layer_with_known_work_has_a_line_of_its_floor_under_it() {
    let mut report = report("gate_up");
    assert!(charts(&report)[0].nodes.iter().all(|node| node.class != "dash-roof"), "nothing is known of the work");
    let roles = report.runs[0].sections.get_mut("layer_roles").unwrap();
    roles.columns.push("of_peak_pct".to_owned());
    roles.rows[0].0.push(("of_peak_pct".into(), 25.0.into()));
    let panel = &model_charts(&report, 0, &Options::default())[0];
    let chart = panel.chart.as_ref().unwrap();
    // A quarter of the product's 40 us.
    assert_eq!(titles(chart, "floor"), ["floor of gate/up: 10.0 us, 25.0 % of its time"]);
    assert!(panel.note.contains("Line under a part: its floor"), "{}", panel.note);
    let line = chart.nodes.iter().find(|node| node.class == "dash-roof").unwrap();
    let points = &line.attrs.iter().find(|(name, _)| *name == "points").unwrap().1;
    let points: Vec<f64> = points.split([' ', ',']).map(|number| number.parse().unwrap()).collect();
    let bars: Vec<&Node> = chart.nodes.iter().filter(|node| node.class.starts_with("seg cat-")).collect();
    let (from, length) = (points[0], points[2] - points[0]);
    assert!(
        (from - bars[1].number("x")).abs() < 1.0 && (length - bars[1].number("width") / 4.0).abs() < 1.5,
        "{points:?}"
    );
}

#[test]
fn an_outlier_among_the_layers_has_a_ring() {
    let report = report("gate_up");
    let chart = &charts(&report)[1];
    assert_eq!(
        titles(chart, "layer "),
        ["layer 0 (A): 50.0 us", "layer 1 (A): 80.0 us, an outlier", "layer 2 (A): 50.0 us"]
    );
    assert_eq!(chart.nodes.iter().filter(|node| node.class.contains("dash-ring")).count(), 1);
    assert_eq!(chart.summary, "3 layers, 1 of them an outlier.");
}

#[test]
fn a_step_has_its_window_its_parts_and_its_floor() {
    let report = report("gate_up");
    let chart = &charts(&report)[2];
    assert_eq!(titles(chart, "step 2"), ["step 2 (decode): 100 us, busy 60.0 us, host late 20.0 us, batch 4"]);
    let windows: Vec<&str> = chart
        .nodes
        .iter()
        .flat_map(|node| &node.attrs)
        .filter(|(name, _)| *name == "data-window")
        .map(|(_, window)| window.as_str())
        .collect();
    assert_eq!(windows, ["0.000000000-0.000100000", "0.000100000-0.000200000", "0.000200000-0.000450000"]);
    assert_eq!(titles(chart, "floor"), ["floor of decode: 50.0 us"]);
    assert_eq!(chart.nodes.iter().filter(|node| node.class.contains("dash-ring")).count(), 1, "the third step is slow");
}

#[test]
fn a_single_step_and_a_run_without_layers_have_no_charts() {
    let mut report = report("gate_up");
    let sections = &mut report.runs[0].sections;
    sections.get_mut("step_list").unwrap().rows.truncate(1);
    assert_eq!(charts(&report).len(), 2);
    report.runs[0].sections.clear();
    assert!(charts(&report).is_empty() && model_charts(&report, 7, &Options::default()).is_empty());
}

#[test]
fn gaps_do_not_hide_hundreds_of_narrow_steps() {
    let with_gaps = |report: &Report| charts(report)[2].nodes.iter().any(|node| node.class.contains("dash-column"));
    let mut report = report("gate_up");
    assert!(with_gaps(&report));
    let steps = &mut report.runs[0].sections.get_mut("step_list").unwrap().rows;
    let first = steps[0].clone();
    for number in 3..500_i64 {
        let mut step = first.clone();
        step.0[2].1 = (5_000_000 + 100_000 * number).into();
        steps.push(step);
    }
    assert_eq!(charts(&report)[2].nodes.iter().filter(|node| node.class.starts_with("seg cat-")).count(), 500);
    // The third step is longer than the others, but still narrow.
    assert!(!with_gaps(&report));
}

#[test]
fn names_and_numbers_from_strangers_are_drawn_within_the_chart() {
    let mut report = report("</svg><script>alert(1)</script>");
    for (section, key, value) in [
        ("layer_roles", "median_us", Value::Float(1e300)),
        ("layer_list", "layer", Value::Float(-1e300)),
        ("layer_list", "time_us", Value::Int(i64::MIN)),
        ("step_list", "start_ns", Value::Int(i64::MAX)),
        ("step_list", "duration_ns", Value::Int(i64::MAX)),
    ] {
        let row = &mut report.runs[0].sections.get_mut(section).unwrap().rows[0];
        row.0.iter_mut().filter(|(name, _)| name == key).for_each(|(_, old)| *old = value.clone());
        for chart in charts(&report) {
            let svg = chart.to_svg();
            assert!(!svg.contains("<script") && !svg.contains("NaN") && svg.len() < 1_000_000, "{section} {key}");
        }
    }
}

#[test]
fn every_role_with_words_has_the_colour_of_a_category() {
    use crate::analysis::inference::model_words::{ModelWords, role_category};
    assert!(ModelWords::embedded().known_roles().count() > 0);
    for role in ModelWords::embedded().known_roles() {
        let class = crate::report::palette::class(role_category(role));
        assert!(class.starts_with("cat-") && !class.starts_with("cat-spare"), "{role}: {class}");
    }
}
