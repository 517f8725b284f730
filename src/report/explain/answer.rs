//! The answer of the HTTP API of nsys-llm-explainer: a summary of `report.json`, the report itself, and Markdown. Quotes values of
//! the report; linear in its size.

use serde_json::{Map, Value as Json, json};

/// The answer of `/v1/analyze/json` for the text of a `report.json`. With `markdown`, also that, which is null if the report cannot be
/// written as Markdown. `None` if the text is no JSON object.
pub fn answer(report: &str, markdown: Option<Option<String>>) -> Option<String> {
    let report = serde_json::from_str::<Map<String, Json>>(report).map(Json::Object).ok()?;
    let mut answer = json!({ "summary": summary(&report), "report": report });
    if let (Some(markdown), Json::Object(answer)) = (markdown, &mut answer) {
        answer.insert("markdown".to_owned(), markdown.into());
    }
    Some(crate::json::printable(answer.to_string()))
}

fn summary(report: &Json) -> Json {
    let list = |path: &str| report.pointer(path).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let findings = list("/findings");
    let severity = |finding: &Json, severity: &str| finding.get("severity").and_then(Json::as_str) == Some(severity);
    let count = |level: &str| findings.iter().filter(|finding| severity(finding, level)).count();
    let first = |path: &str, keys: &[(&str, &str)]| list(path).first().map(|row| renamed(row, keys));
    json!({
        "tool_version": report.pointer("/tool/version"),
        "warnings_count": list("/warnings").len(),
        "findings_count": findings.len(),
        "severity_counts": { "high": count("high"), "medium": count("medium"), "low": count("low") },
        "top_kernel": first("/metrics/top_kernels/kernels", &[
            ("name", "kernel_name"), ("total_time_ms", "total_time_ms"), ("pct_kernel_time", "pct_total_kernel_time"),
        ]),
        "top_barrier": first("/metrics/barriers/barriers", &[
            ("name", "api_name"), ("kind", "barrier_kind"), ("total_time_ms", "total_time_ms"),
        ]),
        "top_nccl_op": first("/metrics/nccl/ops", &[
            ("name", "op_name"), ("total_time_ms", "total_time_ms"), ("compute_overlap_pct", "compute_overlap_pct"),
        ]),
    })
}

/// The values of a row under other keys, each given with its key in the row.
fn renamed(row: &Json, keys: &[(&str, &str)]) -> Json {
    let value = |of_row: &str| row.get(of_row).cloned().unwrap_or_default();
    keys.iter().map(|(key, of_row)| ((*key).to_owned(), value(of_row))).collect::<Map<String, Json>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_quotes_the_first_rows_and_counts_findings() {
        let report = json!({
            "tool": {"version": "0.3.1"},
            "warnings": ["one"],
            "findings": [{"severity": "high"}, {"severity": "low"}, {"severity": "high"}],
            "metrics": {
                "top_kernels": {"kernels": [{"kernel_name": "k", "total_time_ms": 2.5, "pct_total_kernel_time": 40.0}, {}]},
                "barriers": {"barriers": []},
                "nccl": {"ops": [{"op_name": "allreduce", "total_time_ms": 1.0}]},
            },
        });
        let text = answer(&report.to_string(), Some(None)).unwrap();
        let answer: Json = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["report"], report);
        assert_eq!(answer["markdown"], Json::Null);
        let summary = json!({
            "tool_version": "0.3.1",
            "warnings_count": 1,
            "findings_count": 3,
            "severity_counts": {"high": 2, "medium": 0, "low": 1},
            "top_kernel": {"name": "k", "total_time_ms": 2.5, "pct_kernel_time": 40.0},
            "top_barrier": null,
            "top_nccl_op": {"name": "allreduce", "total_time_ms": 1.0, "compute_overlap_pct": null},
        });
        assert_eq!(answer["summary"], summary);
    }

    #[test]
    fn markdown_is_left_out_if_nobody_asked_and_other_json_is_no_report() {
        let text = answer("{}", None).unwrap();
        assert!(!text.contains("markdown"), "{text}");
        assert_eq!(answer("[]", None), None);
        assert_eq!(answer("{", None), None);
    }
}
