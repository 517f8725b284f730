use super::*;
use crate::analysis::compare::{Comparison, compare};
use crate::analysis::section::Record;
use crate::analysis::section::{Section, Value};
use crate::analysis::testing::{analyze, read_json, rows, torch};
use crate::trace::testing::TestTrace;

fn table(columns: &[&str], rows: &[&[Value]]) -> Section {
    let mut section = Section::new("T", "a test", columns);
    for row in rows {
        section
            .rows
            .push(Record(columns.iter().map(|column| (*column).to_owned().into()).zip(row.iter().cloned()).collect()));
    }
    section
}

/// A run with one kind of layer with these roles: kernels, median and place in the layer.
fn run(label: &str, layers: i64, batch: i64, roles: &[(&str, i64, f64, i64)]) -> Run {
    let mut run = TestTrace::new().label(label).run();
    let sum: f64 = roles.iter().map(|role| role.2).sum();
    let layer: [Value; 5] = ["decode".into(), "A".into(), layers.into(), (roles.len() as u64).into(), sum.into()];
    let row = |(role, kernels, us, position): &(&str, i64, f64, i64)| -> Vec<Value> {
        let (kernels, position) = ((*kernels).into(), (*position).into());
        vec!["decode".into(), "A".into(), (*role).into(), kernels, (*us).into(), 0_i64.into(), position]
    };
    let mut values: Vec<Vec<Value>> = roles.iter().map(row).collect();
    let head: [Value; 7] = [
        "decode".into(),
        "outside".into(),
        "lm_head".into(),
        1_i64.into(),
        90.0.into(),
        100_000_i64.into(),
        Value::Null,
    ];
    values.push(head.into());
    let values: Vec<&[Value]> = values.iter().map(|row| &row[..]).collect();
    let roles = table(&["stage", "kind", "role", "kernels", "median_us", "total_ns", "position"], &values);
    let steps = table(&["stage", "batch"], &[&["decode".into(), batch.into()]]);
    run.sections.insert("layers".to_owned(), table(&["stage", "kind", "count", "kernels", "median_us"], &[&layer]));
    run.sections.insert("layer_roles".to_owned(), roles);
    run.sections.insert("steps".to_owned(), steps);
    run
}

fn compared(before: &Run, after: &Run) -> Comparison {
    compare(&[("A", before), ("B", after)], 0)
}

const SHOWN: [&str; 7] =
    ["role", "baseline_kernels", "compared_kernels", "baseline_us", "compared_us", "delta_us", "step_delta_ms"];

#[test]
fn a_fused_kernel_is_a_role_that_is_empty_on_the_other_side() {
    let before = run("A", 48, 16, &[("qkv", 1, 11.0, 0), ("copy", 2, 9.0, 1), ("qk_norm", 2, 8.5, 2)]);
    let after = run("B", 48, 16, &[("qkv", 1, 6.5, 0), ("qk_norm", 1, 3.0, 1)]);
    let shown = rows(&compared(&before, &after).sections, "compare_roles", &SHOWN);
    assert_eq!(
        shown,
        [
            "whole layer 3 2 28.5 9.5 -19 -0.912",
            "qkv 1 1 11 6.5 -4.5 -0.216",
            "copy 2 - 9 - -9 -0.432",
            "qk_norm 2 1 8.5 3 -5.5 -0.264",
            "lm_head 1 1 100 100 0 0",
        ]
    );
}

#[test]
fn different_layers_or_batches_are_compared_per_layer_only() {
    let before = run("A", 48, 16, &[("qkv", 1, 11.0, 0)]);
    for (layers, batch, words) in [(36, 16, "48 and 36 layers of kind A"), (48, 32, "batches of 16 and 32")] {
        let comparison = compared(&before, &run("B", layers, batch, &[("qkv", 1, 6.5, 0)]));
        let section = &comparison.sections["compare_roles"];
        assert!(section.limits.iter().any(|limit| limit.contains(words)), "{:?}", section.limits);
        assert_eq!(rows(&comparison.sections, "compare_roles", &SHOWN)[1], "qkv 1 1 11 6.5 -4.5 -");
    }
}

#[test]
fn steps_are_compared_with_their_floors_only_if_both_are_known() {
    let floor = |measured: f64, confidence: &str| {
        let row: [Value; 4] = ["decode".into(), 10.0.into(), measured.into(), confidence.into()];
        table(&["stage", "floor_ms", "measured_ms", "confidence"], &[&row])
    };
    let with_floor = |label: &str, measured, confidence| {
        let mut run = run(label, 48, 16, &[("qkv", 1, 11.0, 0)]);
        run.sections.insert("step_floor".to_owned(), floor(measured, confidence));
        run
    };
    let before = with_floor("A", 20.0, "proven");
    let comparison = compared(&before, &with_floor("B", 12.5, "inferred"));
    let columns = ["stage", "baseline_of_hardware_pct", "compared_of_hardware_pct"];
    assert_eq!(rows(&comparison.sections, "compare_floor", &columns), ["decode 50 80"]);
    for (measured, confidence) in [(12.5, "guess"), (9.0, "proven")] {
        let comparison = compared(&before, &with_floor("B", measured, confidence));
        assert!(!comparison.sections.contains_key("compare_floor"), "{measured} {confidence}");
    }
}

/// The same model on two vendors' GPUs. The numbers are those of an independent program over the same files.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn roles_of_shared_traces_match_an_independent_program() {
    let names = ["sglang_qwen3_30b_b300_decode", "sglang_qwen3_30b_mi300_decode"];
    let [b300, mi300] = names.map(|name| analyze(&torch(&format!("{name}.trace.json.gz"))));
    let [of_b300, of_mi300] = names.map(|name| read_json(&format!("oracles/inference/{name}.json")));
    let comparison = compared(&b300, &mi300);
    let section = &comparison.sections["compare_roles"];
    let row = |role: &str| section.rows.iter().find(|row| row.text("role") == role).unwrap();
    let expected = |oracle: &serde_json::Value, role: &str| oracle["layers"]["types"][0]["roles_us"][role].as_f64();
    let mut checked = 0;
    for role in
        ["experts_up", "experts_down", "attention", "qkv", "norm", "qk_norm", "rope", "copy", "moe_finalize", "router"]
    {
        for (key, oracle) in [("baseline_us", &of_b300), ("compared_us", &of_mi300)] {
            let (ours, theirs) = (row(role).number(key), expected(oracle, role));
            assert_eq!(ours.is_some(), theirs.is_some(), "{role} {key}");
            assert!((ours.unwrap_or(0.0) - theirs.unwrap_or(0.0)).abs() <= 0.1, "{role} {key}: {ours:?} {theirs:?}");
            checked += usize::from(ours.is_some());
        }
    }
    assert_eq!(checked, 18);
    // Two copies and two norms of queries and keys on MI300 are one fused kernel on B300.
    assert_eq!((row("copy").number("baseline_kernels"), row("copy").amount("compared_kernels")), (None, 2.0));
    assert_eq!((row("qk_norm").amount("baseline_kernels"), row("qk_norm").amount("compared_kernels")), (1.0, 2.0));
    let per_step = row("experts_up").amount("step_delta_ms");
    assert!((per_step - 48.0 * (64.12 - 43.2) / 1e3).abs() < 0.01, "{per_step}");
}
