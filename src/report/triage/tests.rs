use super::*;
use crate::analysis::results::{Notice, Severity};
use crate::analysis::section::TypedSection;
use crate::analysis::triage::{catalog, definitions, fuse, kernels, overlap, steps, summary};
use crate::report::tests_support::empty_run;

const HOSTILE: &str = "void k<a|b>(`x`)\n</table><img src=x>[y](z)";

fn run(label: &str) -> Run {
    let sections = [
        empty::<kernels::TriageKernels>(),
        empty::<overlap::TriageOverlap>(),
        empty::<fuse::TriageFuse>(),
        empty::<catalog::TriageCatalog>(),
        empty::<steps::TriageSteps>(),
        empty::<summary::TriageSummary>(),
    ];
    Run { notices: Vec::new(), sections: sections.into(), ..empty_run(label) }
}

fn empty<S: TypedSection>() -> (String, Section) {
    let name = S::SPEC.name.to_owned();
    (name.clone(), Section { title: name, ..S::answer("").section() })
}

/// Adds a row with these values; all other columns are null.
fn put(run: &mut Run, section: &str, values: &[(&str, Value)]) {
    let section = run.sections.get_mut(section).unwrap();
    let has_column = |key: &str| section.columns.iter().any(|column| column == key);
    assert!(values.iter().all(|(key, _)| has_column(key)), "{values:?}");
    let value =
        |key: &String| values.iter().find(|(name, _)| name == key).map_or(Value::Null, |(_, value)| value.clone());
    let record = section.columns.iter().map(|key| (key.clone().into(), value(key))).collect();
    section.rows.push(crate::analysis::section::Record(record));
}

fn kernel(run: &mut Run, stage: &str, name: &str) {
    let row = [
        ("stage", stage.into()),
        ("kernel_name", name.into()),
        ("category", "gemm".into()),
        ("duration_ns", 12_794_999_i64.into()),
        ("share_pct", 28.04.into()),
        ("launches", 241_i64.into()),
        ("python_location", "a.py:1 f (site share 69%)\nunresolved (site share 31%)".into()),
        ("cpu_op", "aten::mm".into()),
        ("found", "exact".into()),
    ];
    put(run, "triage_kernels", &row);
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn the_main_tables_have_the_format_of_the_triage_script() {
    let mut run = run("t.json");
    kernel(&mut run, "all", "gemm<a|b>");
    let overlap = [
        ("stage", "all".into()),
        ("priority", "P1".into()),
        ("verdict", "headroom".into()),
        ("kernel_name", "k".into()),
        ("python_scope", "b.py(2): g".into()),
        ("duration_ns", 400_000_i64.into()),
        ("share_pct", 50.6.into()),
        ("exclusive_pct", 100.0.into()),
        ("hidden_pct", 0.0.into()),
        ("dep_risk", "low".into()),
        ("recommendation", "try fusion".into()),
        ("basis", "single trace".into()),
    ];
    put(&mut run, "triage_overlap", &overlap);
    let fuse = [
        ("stage", "all".into()),
        ("pattern", "p".into()),
        ("status", "split".into()),
        ("confidence", "Confirmed".into()),
        ("related_ns", 550_000_i64.into()),
        ("share_pct", 50.9.into()),
        ("evidence", "k (23.1%)\nl (27.8%)".into()),
    ];
    put(&mut run, "triage_fuse", &fuse);
    run.sections.get_mut("triage_summary").unwrap().figure("framework", "SGLang");
    run.sections.get_mut("triage_summary").unwrap().figure("model", "Qwen/Qwen3-30B-A3B");
    let text = text(&Report::new(vec![run]));
    let want = [
        "Triage View",
        "Mode: single-trace",
        "Framework: SGLang",
        "Input traces: t.json",
        "Model: Qwen/Qwen3-30B-A3B",
        "",
        "Kernel Table",
        "| Kernel | Category | GPU time | Share | Launches | Python location (site share) | CPU op | Found |",
        "| --- | --- | ---: | ---: | ---: | --- | --- | --- |",
        r"| gemm<a\|b> | gemm | 12.79 ms | 28.0% | 241 | a.py:1 f (site share 69%)<br>unresolved (site share 31%) | aten::mm | exact |",
        "",
        "Overlap Opportunity Table",
        "| Priority | Verdict | Kernel | Python scope | Formal signal | Dep risk | Recommendation | Basis |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| P1 | headroom | k | b.py(2): g | 400.0 us, share 50.6%, excl 100.0% / hid 0.0% | low | try fusion | single trace |",
        "",
        "Fuse Opportunity Table",
        "| Pattern | Confidence | Related GPU time | Share | Evidence kernels | Current kernel Python location | Candidate fused Python path | Rationale | Status |",
        "| --- | --- | ---: | ---: | --- | --- | --- | --- | --- |",
        "| p | Confirmed | 0.55 ms | 50.9% | k (23.1%)<br>l (27.8%) | - | - | - | split |",
    ];
    assert_eq!(lines(&text)[..want.len()], want);
}

#[test]
fn stages_have_headings_in_order_and_empty_tables_have_a_placeholder() {
    let mut run = run("t.json");
    kernel(&mut run, "decode", "d");
    kernel(&mut run, "extend/prefill", "p");
    put(&mut run, "triage_fuse", &[("stage", "decode".into()), ("pattern", "f".into())]);
    let text = text(&Report::new(vec![run]));
    let marks: Vec<&str> = lines(&text)
        .into_iter()
        .filter(|line| {
            line.starts_with('#')
                || line.ends_with("Table")
                || line.contains("bar.")
                || line.contains("pattern matched")
        })
        .collect();
    let want = [
        "Kernel Table",
        "##### extend/prefill",
        "##### decode",
        "Overlap Opportunity Table",
        "| - | - | No rows cleared the reporting bar. | - | - | - | - | - |",
        "Fuse Opportunity Table",
        "##### extend/prefill",
        "| No source-backed fusion pattern matched this trace. | - | - | - | - | - | - | - | - |",
        "##### decode",
    ];
    assert_eq!(marks, want);
    let decode = text.find("##### decode").unwrap();
    assert!(text[..decode].ends_with("| exact |\n\n"), "a blank line between the tables of two stages");
}

#[test]
fn runs_with_the_same_stage_are_labelled_and_mapping_traces_are_named() {
    let mut runs = vec![run("a.json"), run("b.json")];
    runs.iter_mut().for_each(|run| kernel(run, "decode", "k"));
    runs[1].sections.get_mut("triage_summary").unwrap().figure("mapping_traces", "m.json\nn.json");
    let text = text(&Report::new(runs));
    assert!(text.contains("##### decode: a.json\n") && text.contains("##### decode: b.json\n"), "{text}");
    assert!(text.contains("Mode: mapping-formal\n") && text.contains("Mapping traces: m.json, n.json\n"), "{text}");
    assert!(text.contains("Formal traces: a.json, b.json\n"), "{text}");
}

#[test]
fn reports_without_triage_or_with_unknown_stages_are_written() {
    assert!(text(&Report::new(Vec::new())).starts_with("Triage View\n"));
    let mut run = run("t.json");
    kernel(&mut run, "another", "k");
    assert!(text(&Report::new(vec![run])).contains("##### another\n"));
}

#[test]
fn names_are_escaped_in_markdown_and_do_not_break_rows() {
    let mut run = run(HOSTILE);
    kernel(&mut run, "decode", HOSTILE);
    let section = run.sections.get_mut("triage_catalog").unwrap();
    section.limits.push(HOSTILE.to_owned());
    section.figure("similarity", HOSTILE);
    put(&mut run, "triage_steps", &[("stage", "decode".into()), ("example", HOSTILE.into())]);
    let report = Report::new(vec![run]);
    let marked = markdown(&report);
    assert!(!marked.contains("<img") && !marked.contains("[y](z)"), "{marked}");
    assert!(marked.contains("## Kernel Table\n\n### decode\n\n| Kernel |"), "{marked}");
    for text in [marked, text(&report)] {
        let bars = |line: &str| line.replace("\\|", "").matches('|').count();
        let tables = lines(&text).into_iter().filter(|line| line.starts_with('|')).collect::<Vec<_>>();
        assert!(tables.iter().any(|line| line.contains("img")));
        let kernel_rows = tables.iter().skip_while(|line| !line.starts_with("| Kernel |")).take(3);
        assert!(kernel_rows.clone().count() == 3 && kernel_rows.clone().all(|line| bars(line) == 9), "{text}");
    }
}

fn after<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    text.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.is_empty()).collect()
}

#[test]
fn notes_are_sorted_by_importance_and_distinct() {
    let mut run = run("t.json");
    kernel(&mut run, "decode", "k");
    let definition = definitions::KERNEL_SHARES;
    let notice = |severity, message| Notice::new(severity, message, message, "");
    run.notices = vec![notice(Severity::Info, "aside"), notice(Severity::Error, "broken")];
    let section = |run: &mut Run, name: &str, limits: &[&str]| {
        run.sections.get_mut(name).unwrap().limits.extend(limits.iter().map(|limit| (*limit).to_owned()));
    };
    section(&mut run, "triage_kernels", &[definition, "No places.", "No places."]);
    section(&mut run, "triage_fuse", &[definitions::CHAINS]);
    section(&mut run, "triage_summary", &["Two workers."]);
    let text = text(&Report::new(vec![run]));
    let want = ["- error: broken.", "- Two workers.", "- Kernel Table: No places.", "- info: aside."];
    assert_eq!(after(&text, "Notes"), want);
    let defined = format!("- Kernel Table: {definition}");
    assert_eq!(after(&text, "Definitions"), [defined.as_str()], "a table without rows has no definitions");
}

#[test]
fn hidden_rows_are_counted() {
    let mut run = run("t.json");
    run.sections.get_mut("triage_kernels").unwrap().rows_in_all = 9;
    for (section, figure, count) in [
        ("triage_kernels", "hidden_rows", 3.0),
        ("triage_kernels", "hidden_share_pct", 4.26),
        ("triage_overlap", "rows_below_bar", 2.0),
        ("triage_overlap", "serial_rows", 5.0),
        ("triage_fuse", "under_the_bar", 1.0),
    ] {
        run.sections.get_mut(section).unwrap().figure(figure, count);
    }
    let text = text(&Report::new(vec![run]));
    let notes = after(&text, "Notes");
    assert_eq!(
        notes[0],
        "- Hidden because their share is below the minimum: 3 of 9 kernels (4.3 % of the GPU time), 2 overlap rows, 1 fuse pattern; \
         --min-share 0 shows them."
    );
    assert!(notes[1].starts_with("- Left out of the overlap opportunities: 5 kernels running alone"), "{notes:?}");
}

#[test]
fn figures_and_notes_of_all_runs_are_written_once_and_others_with_their_run() {
    let mut runs = vec![run("a.json"), run("b.json")];
    for (run, tp) in runs.iter_mut().zip([2_i64, 4]) {
        let summary = run.sections.get_mut("triage_summary").unwrap();
        summary.figure("tp_size", tp);
        summary.figure("tp_size_from", "server arguments");
        summary.figure("role", "decode worker");
        summary.figure("arguments", Value::Null);
        summary.limits.push("Of both.".to_owned());
    }
    runs[1].sections.get_mut("triage_summary").unwrap().limits.push("Of one.".to_owned());
    let text = text(&Report::new(runs));
    let want =
        ["- a.json: TP size: 2 (server arguments)", "- b.json: TP size: 4 (server arguments)", "- Role: decode worker"];
    assert_eq!(after(&text, "Summary"), want);
    assert_eq!(after(&text, "Notes"), ["- Of both.", "- b.json: Of one."]);
}

#[test]
fn empty_columns_of_own_tables_are_left_out() {
    let mut run = run("t.json");
    let row = [("stage", "decode".into()), ("steps", 3_i64.into()), ("example", "step[DECODE bs=1]".into())];
    put(&mut run, "triage_steps", &row);
    let text = text(&Report::new(vec![run]));
    let head = text.lines().find(|line| line.starts_with("| Stage | Steps")).unwrap();
    assert_eq!(head, "| Stage | Steps | Example |");
}
