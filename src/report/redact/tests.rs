use super::*;
use crate::analysis::results::{Notice, Run, Severity};
use crate::analysis::section::{Missing, Section, Value};
use crate::report::{self, tests_support::sample};
use crate::session::{self, Choices};
use proptest::prelude::*;

/// A run with a text in every field that can contain one.
fn run(text: &dyn Fn(&str) -> String) -> Run {
    let mut run = sample().runs.remove(0);
    run.kernels.truncate(2);
    for (kernel, name) in run.kernels.iter_mut().zip(["kernel one", "kernel two"]) {
        (kernel.name, kernel.short_name) = (text(name), text(name));
    }
    (run.devices[0].id, run.devices[0].name) = (format!("[{}] 0", text("rank")), text("device"));
    run.categories[0].category = text("category");
    run.kernels[0].category = text("category");
    run.label = text("label.json");
    run.engine = Some(text("engine"));
    run.rules = text("rules");
    run.notices = vec![Notice::new(Severity::Info, "code", text("message"), &text("advice"))];
    let columns = ["kernel_name", "python_location", "another_name", "title", "evidence", "call_count", "pid"];
    let mut section = Section::new(&text("title"), &text("derived"), &columns).limit(text("limit"));
    section.row([
        text("kernel_name").into(),
        text("python_location").into(),
        text("another_name").into(),
        text("title").into(),
        text("evidence").into(),
        12_345_i64.into(),
        424_242_i64.into(),
    ]);
    section.missing = Some(Missing { why: text("why"), recapture: text("recapture") });
    section.figure("model", text("model"));
    section.figure("arguments", format!("tp_size=4\nmodel_path={}", text("argument")));
    section.figure("unlisted", text("unlisted"));
    run.sections = [("nccl_ops".to_owned(), section.clone()), ("another_section".to_owned(), section)].into();
    run
}

/// Everything that is written of a report, packed and unpacked.
fn outputs(report: &Report) -> Vec<String> {
    let mut all = vec![report.json(), report.compact(), report::markdown(report), report::html_page(report, "t")];
    all.extend(report::all_tables(report).iter().map(report::csv));
    let link = report::link::encode(report);
    all.push(report::link::decode(&link).unwrap().json());
    let files = report::zip::tables(report);
    let archive = report::zip::zip(&files);
    all.extend([link, String::from_utf8_lossy(&archive).into_owned()]);
    all.extend(files.into_iter().flat_map(|file| [file.name, file.text]));
    all
}

/// Every number with its path, except process ids.
fn figures(report: &Report) -> Vec<String> {
    fn collect(value: &serde_json::Value, path: &str, into: &mut Vec<String>) {
        match value {
            serde_json::Value::Number(number) if !path.ends_with("pid") => into.push(format!("{path} {number}")),
            serde_json::Value::Array(list) => list.iter().for_each(|value| collect(value, path, into)),
            serde_json::Value::Object(members) => {
                members.iter().for_each(|(key, value)| collect(value, &format!("{path}/{key}"), into));
            }
            _ => {}
        }
    }
    let mut all = Vec::new();
    collect(&serde_json::from_str(&report.json()).unwrap(), "", &mut all);
    all
}

fn all(report: &Report) -> Report {
    redact(report, &Redactions::all()).0
}

/// Private texts that are recognised anywhere in a sentence.
const PRIVATE_TEXTS: [&str; 24] = [
    "zorblax",
    "zorblax-laptop",
    "[zorblax-laptop] 0",
    "Project Zorblax (cafe)",
    "ncclDevKernel_Zorblax",
    "ncclDevKernel_hf_AbCdEfGhIjKlzorblax_70",
    "nvjet_tst_128x64_zorblax",
    "_ZZorblax",
    "_Z4gemmv.zorblax",
    "/home/zorblax/run_7/trace.py",
    "C:\\Users\\zorblax\\trace.py",
    "\\\\zorblax\\share\\x",
    "~/zorblax",
    "zorblax.json.gz",
    "https://zorblax.example/x?token=1",
    "anna@zorblax.internal",
    "zorblax.corp",
    "hf_zorblaxzorblax1",
    "sk-zorblaxzorblax",
    "api_key=zorblax12",
    "Authorization: Bearer zorblax12",
    "/mnt/zorblax/site-packages/zorblax/x.py",
    "zorblax_attention_kernel",
    "batch.py(12): zorblax",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn private_texts_in_any_field_are_in_no_output(
        private in prop::sample::select(PRIVATE_TEXTS.to_vec()),
        before in "(|see |[(]|\"|a, )",
        after in "(| now|[)]|,|\")",
    ) {
        let report = Report::new(vec![run(&|field| format!("{field} {before}{private}{after}"))]);
        let redacted = all(&report);
        for output in outputs(&redacted) {
            prop_assert!(!output.to_lowercase().contains("zorblax"), "{private:?} in {output}");
        }
        prop_assert!(figures(&redacted) == figures(&report));
    }

    #[test]
    fn redacting_any_text_does_not_panic_or_change_numbers(text in any::<String>()) {
        let report = Report::new(vec![run(&|_| text.clone())]);
        prop_assert!(figures(&all(&report)) == figures(&report));
    }
}

#[test]
fn redacting_again_changes_nothing() {
    for private in PRIVATE_TEXTS {
        let once =
            all(&Report::new(vec![run(&|field| format!("{field} {private}")), run(&|field| format!("b {field}"))]));
        assert_eq!(all(&once).json(), once.json(), "{private}");
    }
}

#[test]
fn private_words_are_replaced_in_name_columns_and_in_sentences_that_quote_them() {
    let mut secret = run(&|field| format!("public {field}"));
    secret.kernels[0].name = "void zorblax::fast(int)".into();
    secret.kernels[0].short_name = "zorblax".into();
    secret.notices[0].message = "`zorblax` and void zorblax::fast(int) take long; see Zorblax-70B".into();
    for section in secret.sections.values_mut() {
        section.rows[0].0[2].1 = Value::Text("zorblax weekly".into());
        section.summary.0[0].1 = Value::Text("Zorblax-70B".into());
    }
    let report = all(&Report::new(vec![secret]));
    for output in outputs(&report) {
        assert!(!output.to_lowercase().contains("zorblax"), "{output}");
    }
    let message = &report.runs[0].notices[0].message;
    assert_eq!(message, "`private kernel 1` and private kernel 1 take long; see model 1");
    assert_eq!(report.runs[0].kernels[0].short_name, "private kernel 1");
}

#[test]
fn public_names_are_kept() {
    let kept = [
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int> >(int)",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "python/sglang/srt/layers/layernorm.py:12 forward",
    ];
    let mut section = Section::new("Title", "kernels", &["kernel_name", "python_location", "range_name", "pid"]);
    let path = "/home/anna/env/lib/python3.12/site-packages/vllm/v1/engine/core.py:99 execute";
    let private = "/home/anna/env/lib/python3.12/site-packages/vllm/zorblax/core.py:99 execute";
    section.row([kept[0].into(), kept[2].into(), "step[DECODE bs=16]".into(), 99_i64.into()]);
    section.row([kept[1].into(), path.into(), "decode for zorblax".into(), 77_i64.into()]);
    section.row([kept[1].into(), private.into(), "must stay".into(), 77_i64.into()]);
    let mut run = run(&|_| String::new());
    run.label = "anna-run-TP-3-DECODE.trace.json.gz".into();
    run.sections = [("nvtx_ranges".to_owned(), section)].into();
    let report = all(&Report::new(vec![run]));
    let rows = &report.runs[0].sections["nvtx_ranges"].rows;
    let texts: Vec<&str> = rows.iter().flat_map(|row| &row.0).filter_map(|(_, value)| value.text()).collect();
    let inside = "vllm/v1/engine/core.py:99 execute";
    let first = [kept[0], kept[2], "step[DECODE bs=16]", kept[1], inside, "name 1"];
    assert_eq!(texts, [&first[..], &[kept[1], "path 1", "must stay"]].concat());
    assert_eq!(
        rows.iter().map(|row| row.get("pid").and_then(Value::number)).collect::<Vec<_>>(),
        [Some(1.0), Some(2.0), Some(2.0)]
    );
    assert_eq!(report.runs[0].label, "run 1 TP3 DECODE");
}

#[test]
fn categories_and_ranks_are_replaced_alike_everywhere() {
    let mut run = run(&|_| String::new());
    run.devices[0].id = "[bob-laptop] 0".into();
    run.categories[0].category = "Project Bluebird (alice)".into();
    run.kernels[0].category = "Project Bluebird (alice)".into();
    run.notices[0].message = "GPU [bob-laptop] 0 spends its time in Project Bluebird (alice).".into();
    let run = all(&Report::new(vec![run])).runs.remove(0);
    assert_eq!(run.devices[0].id, "[name 1] 0");
    assert_eq!((&*run.categories[0].category, &*run.kernels[0].category), ("category 1", "category 1"));
    assert_eq!(run.notices[0].message, "GPU [name 1] 0 spends its time in category 1.");
}

#[test]
fn a_secret_inside_a_name_is_replaced_even_if_names_are_kept() {
    let mut run = run(&|_| String::new());
    run.kernels[0].name = "ncclDevKernel_hf_AbCdEfGhIjKl_70".into();
    run.kernels[1].name = "load_hf_attention".into();
    let (report, _) = redact(&Report::new(vec![run]), &Redactions::of(["secrets"]).unwrap());
    let names: Vec<&str> = report.runs[0].kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    assert_eq!(names, ["ncclDevKernel_secret 1_70", "load_hf_attention"]);
}

#[test]
fn only_the_selected_kinds_are_replaced_and_counted() {
    let mut run = run(&|_| String::new());
    run.label = "a.json".into();
    run.notices[0].message = "read /home/anna/x.json with hf_abcdefgh12 and hf_abcdefgh12, twice".into();
    let report = Report::new(vec![run]);
    let (redacted, found) = redact(&report, &Redactions::of(["secrets"]).unwrap());
    let message = &redacted.runs[0].notices[0].message;
    assert_eq!(message, "read /home/anna/x.json with secret 1 and secret 1, twice");
    assert_eq!((found.0[0].count, found.0[0].example.as_str()), (1, "hf_abcdefgh12"));
    assert_eq!(redacted.runs[0].label, "a.json");
    let (_, found) = redact(&report, &Redactions::all());
    let counts: Vec<usize> = found.0.iter().map(|replaced| replaced.count).collect();
    assert_eq!(counts.iter().take(3).collect::<Vec<_>>(), [&1, &2, &1], "secret; label and path; user");
    assert_eq!(Redactions::of(["secrets", "x"]), Err("x".to_owned()));
}

/// gpuprism's own sentences contain nothing private, so redaction must not change them.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_sentences_of_a_real_report_are_kept() {
    let trace = crate::analysis::testing::torch("vllm_b200_eager_prefill.trace.json.gz");
    let report = Report::new(vec![session::run(&trace, &Choices::default()).unwrap()]);
    let redacted = all(&report);
    assert!(figures(&redacted) == figures(&report));
    for (name, section) in &report.runs[0].sections {
        let after = &redacted.runs[0].sections[name];
        assert_eq!((&section.title, &section.derived_from), (&after.title, &after.derived_from));
        assert_eq!(
            (&section.limits, &section.missing, &section.columns),
            (&after.limits, &after.missing, &after.columns)
        );
    }
    let changed = |(before, after): (&String, &String)| (before != after).then(|| before.clone());
    let names = |report: &Report| report.runs[0].kernels.iter().map(|kernel| kernel.name.clone()).collect::<Vec<_>>();
    let private: Vec<String> = names(&report).iter().zip(&names(&redacted)).filter_map(changed).collect();
    assert!(private.is_empty(), "all kernels of this trace are public: {private:?}");
    assert_eq!(report.runs[0].categories, redacted.runs[0].categories);
}
