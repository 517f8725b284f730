//! `gpuprism explain`: writes the files of nsys-llm-explainer with the same names and columns, reproducibly.

use crate::cli::example::{GEMM, NCCL, write_torch};
use crate::common::{csv_rows, directory, gpuprism, json_runs, printed, read_json, shared};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The tables and columns of the original. `nvtx_by_pid` is written only if it has rows.
const COLUMNS: [(&str, &str); 19] = [
    (
        "kernels.csv",
        "kernel_name,device_id,call_count,total_time_ns,total_time_ms,avg_duration_us,min_duration_us,max_duration_us,p50_duration_us,p90_duration_us,pct_total_kernel_time",
    ),
    ("barriers.csv", "barrier_kind,api_name,count,total_time_ms,avg_duration_us,max_duration_us"),
    (
        "nccl_ops.csv",
        "op_name,raw_name_example,source,count,total_time_ms,max_duration_ms,avg_duration_us,compute_overlap_ms,compute_overlap_pct,straggler,straggler_total_ms,straggler_max_ms",
    ),
    ("nccl_rank_skew.csv", "op_name,rank_label,total_time_ms,max_duration_ms,skew_vs_median_pct"),
    ("nccl_by_pid.csv", "pid,total_nccl_time_ms,nccl_event_count,max_duration_ms,top_nccl_op"),
    (
        "nvlink_during_nccl.csv",
        "metric_source_id,metric_names,samples,samples_during_nccl,avg_metric_during_nccl,avg_metric_outside_nccl,max_metric_during_nccl,nccl_activity_correlation",
    ),
    ("nvlink_timeseries.csv", "metric_source_id,metric_name,timestamp_ns,timestamp_ms,metric_value,nccl_active"),
    (
        "timeline_events.csv",
        "event_name,event_class,lane,pid,stream_id,start_ns,end_ns,duration_ns,duration_ms,start_ms,end_ms",
    ),
    (
        "copy_engine_events.csv",
        "event_name,direction,event_class,lane,stream_id,device_id,bytes,start_ns,end_ns,duration_ns,duration_ms",
    ),
    (
        "launch_latency_rows.csv",
        "pid,stream_id,api_name,kernel_name,launch_start_ns,launch_end_ns,kernel_start_ns,kernel_end_ns,latency_us",
    ),
    ("launch_latency_histogram.csv", "bin_start_us,bin_end_us,count"),
    ("stream_overlap.csv", "label,total_time_ms,overlap_pct"),
    ("phase_split.csv", "phase,total_time_ms,pct_of_total"),
    ("roofline.csv", "kernel_name,total_time_ms,call_count,flops,bytes,arithmetic_intensity,achieved_tflops"),
    ("gpu_idle_gaps.csv", "device_id,gap_start_ns,gap_end_ns,gap_ms"),
    ("nvtx_ranges.csv", "range_name,count,total_time_ms,avg_duration_us"),
    (
        "kernels_by_pid.csv",
        "pid,pid_total_kernel_time_ms,pid_pct_of_total_kernel_time,kernel_name,device_id,call_count,total_time_ms,avg_duration_us,pct_of_pid_kernel_time,pct_of_total_kernel_time",
    ),
    ("sync_by_pid.csv", "pid,api_name,call_count,total_time_ms,avg_duration_us"),
    (
        "nvtx_by_pid.csv",
        "pid,range_name,nvtx_count,nvtx_total_time_ms,attributed_kernel_time_ms,attributed_kernel_count,pid_attribution_coverage_pct",
    ),
];

fn explained(test: &str, more: &[&str]) -> (PathBuf, String) {
    let folder = directory(test);
    write_torch(&folder, "five.json");
    let output = printed(&folder, [&["explain", "five.json", "--out", "out"], more].concat());
    (folder, output)
}

fn tables(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder.join("out/tables")).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read_to_string(entry.path()).unwrap()))
        .collect()
}

#[test]
fn every_table_has_the_name_and_columns_of_the_original_or_is_empty() {
    let (folder, _) = explained("explain_tables", &[]);
    let tables = tables(&folder);
    for (name, columns) in COLUMNS {
        if name == "nvtx_by_pid.csv" && !tables.contains_key(name) {
            continue;
        }
        let text = &tables[name];
        assert!(text.is_empty() || text.lines().next().unwrap().starts_with(columns), "{name}: {text}");
        assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "{name} ends its lines with CRLF");
    }
    assert!(tables.keys().all(|name| COLUMNS.iter().any(|(known, _)| known == name)), "{:?}", tables.keys());
    // The trace has kernels of two devices, among them collectives, a copy, and 7 us without work; no calls, ranges and counters.
    for name in [
        "kernels.csv",
        "nccl_ops.csv",
        "timeline_events.csv",
        "copy_engine_events.csv",
        "stream_overlap.csv",
        "gpu_idle_gaps.csv",
        "kernels_by_pid.csv",
    ] {
        assert!(tables[name].lines().count() > 1, "{name} has no rows");
    }
    let kernels = csv_rows(&tables["kernels.csv"].replace('\r', ""));
    let first: Vec<&str> = kernels[1].iter().take(5).map(String::as_str).collect();
    assert_eq!(first, [NCCL, "0", "1", "10000", "0.01"]);
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_expected_columns_equal_those_of_the_original() {
    let spec = shared("spec");
    let original = read_json(&spec.join("data/nsys_explain_tables.json"));
    for (name, columns) in COLUMNS {
        let want: Vec<&str> = original["csv"][name].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(columns, want.join(","), "{name}");
    }
}

#[test]
fn report_json_is_ascii_and_reproducible() {
    let (folder, _) = explained("explain_json", &[]);
    let path = folder.join("out/report.json");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.is_ascii() && text.ends_with("}\n") && text.starts_with("{\n  \"findings\""));
    assert!(!text.contains("generated_at") && !text.contains("SELECT") && !text.contains("NaN"));
    let again = printed(&folder, ["explain", "five.json", "--out", "again", "--top-kernels", "30"]);
    assert!(again.contains("Wrote report to: again"));
    assert_eq!(std::fs::read_to_string(folder.join("again/report.json")).unwrap(), text);
    let report = read_json(&path);
    assert_eq!(report["metrics"]["top_kernels"]["kernels"][0]["kernel_name"], NCCL);
    assert_eq!(report["metrics"]["top_kernels"]["total_kernel_time_ns"], 38_000);
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn report_json_has_the_keys_of_the_original() {
    let (folder, _) = explained("explain_keys", &[]);
    let report = read_json(&folder.join("out/report.json"));
    let spec = shared("spec");
    let original = read_json(&spec.join("data/nsys_explain_tables.json"));
    let mut found = 0;
    for (metric, keys) in original["metrics_keys"].as_object().unwrap().iter().filter(|(key, _)| !key.ends_with("[]")) {
        let place = report["metrics"].pointer(&format!("/{}", metric.replace('.', "/"))).unwrap();
        for key in keys.as_array().unwrap().iter().filter_map(Value::as_str).filter(|key| *key != "sql") {
            assert!(place.get(key).is_some() || place.is_null(), "{metric}.{key}");
            found += usize::from(place.get(key).is_some());
        }
    }
    assert!(found > 30, "{found} keys of metrics that are not null");
    for key in original["schema_keys"].as_array().unwrap().iter().filter_map(Value::as_str) {
        assert!(report["schema"].get(key).is_some(), "schema.{key}");
    }
}

#[test]
fn the_summary_on_standard_output_has_one_line_per_topic() {
    let (_, output) = explained("explain_says", &[]);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], "Wrote report to: out");
    // 10 us on one device, of 38 us of kernels. Of equally long kernels, the first by name.
    assert_eq!(lines[1], format!("Top kernel: {NCCL} (26.3% of kernel time, 0.0 ms, 1 calls)"));
    assert!(output.contains("Launch storm: 4 launches over 0.000 s = "), "{output}");
    assert!(output.contains("NVLink counters not found"), "{output}");
}

#[test]
fn the_kernel_limit_is_applied_and_an_invalid_phase_map_is_refused() {
    let (folder, _) = explained("explain_limit", &["--kernel-limit", "1"]);
    assert_eq!(tables(&folder)["kernels.csv"].lines().count(), 2);
    let (all, _) = explained("explain_all_kernels", &["--kernel-limit", "0"]);
    assert!(tables(&all)["kernels.csv"].lines().count() > 2);
    std::fs::write(folder.join("map.json"), r#"{"mine": ["re:("]}"#).unwrap();
    let output = gpuprism(&folder, ["explain", "five.json", "--out", "out", "--phases-json", "map.json"]);
    assert!(output.status != 0 && output.stderr.contains("map.json"), "{output:?}");
    let without = gpuprism(&folder, ["explain", "five.json"]);
    assert_eq!(without.status, 2, "{without:?}");
}

#[test]
fn the_report_opens_again_with_the_sums_of_the_trace() {
    let (folder, _) = explained("explain_sums", &[]);
    let (trace, again) = (&json_runs(&folder, &["five.json"])[0], &json_runs(&folder, &["out/report.json"])[0]);
    for key in ["totals", "wall", "devices", "categories", "kernels", "verdict"] {
        assert_eq!(trace[key], again[key], "{key}");
    }
    assert_eq!(again["notices"].as_array().unwrap().len(), trace["notices"].as_array().unwrap().len() + 1);
}

#[test]
fn what_a_report_is_made_of_is_explained_too() {
    let folder = directory("explain_all");
    super::private_traces::write(&folder);
    for trace in
        ["zorblax.rpd", "zorblax.db", "zorblax_kernel_trace.csv"].iter().filter(|name| folder.join(name).is_file())
    {
        let out = format!("out_{trace}");
        let output = gpuprism(&folder, ["explain", trace, "--out", &out]);
        assert_eq!(output.status, 0, "{output:?}");
        assert!(
            csv_rows(&std::fs::read_to_string(folder.join(&out).join("tables/kernels.csv")).unwrap().replace('\r', ""))
                .len()
                > 1
        );
    }
    let tree = r#"[{"children": [], "frame": {"name": "my_kernel", "type": "function"}, "metrics": {"count": 1, "device_id": "0", "device_type": "CUDA", "time (ns)": 4064}}]"#;
    std::fs::write(folder.join("tree.hatchet"), tree).unwrap();
    assert_eq!(gpuprism(&folder, ["explain", "tree.hatchet", "--out", "out_tree"]).status, 0);
    let checks = printed(&folder, ["doctor", "tree.hatchet"]);
    assert!(checks.contains("totals_only: ") && checks.contains("Fit for a report"), "{checks}");
    let again = gpuprism(&folder, ["explain", "out_tree/report.json", "--out", "out_again"]);
    assert!(again.status == 1 && again.stderr.contains("a report of nsys-llm-explainer already"), "{again:?}");
}

#[test]
fn the_report_opens_again_together_with_its_series_file() {
    let (folder, _) = explained("explain_again", &[]);
    let series = "metric_source_id,metric_name,timestamp_ns,timestamp_ms,metric_value,nccl_active\r\n1,NVLink RX,5,0.000005,7.5,True\r\n";
    std::fs::write(folder.join("out/tables/nvlink_timeseries.csv"), series).unwrap();
    let runs = json_runs(&folder, &["out/report.json"]);
    assert_eq!((runs.len(), &runs[0]["format"]), (1, &Value::from("nsys_llm_explainer")));
    let names: Vec<&str> =
        runs[0]["kernels"].as_array().unwrap().iter().filter_map(|kernel| kernel["name"].as_str()).collect();
    assert!(names.contains(&GEMM) && names.contains(&NCCL), "{names:?}");
    assert_eq!(runs[0]["sections"]["nvlink_timeseries"]["rows"][0]["metric_value"], 7.5);
    let rows = printed(&folder, ["report", "out/report.json", "--table", "top_kernels", "--format", "csv"]);
    assert_eq!(csv_rows(&rows)[1][1], NCCL);
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn print_schema_lists_the_tables_of_an_export() {
    let traces = shared("traces/nsys");
    let output = printed(&traces, ["explain", "h100_nvfuser_s3.16.sqlite", "--print-schema"]);
    assert!(output.contains("Detected kernel table: CUPTI_ACTIVITY_KIND_KERNEL\n"), "{output}");
    assert!(
        output
            .contains("- CUPTI_ACTIVITY_KIND_KERNEL (rows=19, t=[1348466847,1879651178]): start:INTEGER, end:INTEGER"),
        "{output}"
    );
}
