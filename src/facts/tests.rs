//! Promises of a folder of facts: each run once, failures with their reason, nothing that only looks finished.

use super::*;
use crate::analysis::testing::shared;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::collections::BTreeMap;

pub(super) struct Silent;
impl Watch for Silent {
    fn warn(&self, _: &str) {}
}

pub(super) fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("gpuprism-facts-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A trace with a kernel that takes so many microseconds.
fn trace(folder: &Path, name: &str, us: u32) -> Vec<PathBuf> {
    let path = folder.join(name);
    let args = r#"{"device": 0, "stream": 7}"#;
    let kernel =
        format!(r#"{{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1,"dur":{us},"args":{args}}}"#);
    std::fs::write(&path, format!(r#"{{"traceEvents":[{kernel}]}}"#)).unwrap();
    vec![path]
}

fn add(folder: &Path, runs: &[Vec<PathBuf>], jobs: usize) -> Counts {
    let facts = FactsFolder::open(folder, &[("commit".to_owned(), "1a\"2b".to_owned())]).unwrap();
    facts.add_all(runs, jobs, &Silent, &|_, _, _| ()).unwrap()
}

/// The rows of all files of a table, with their columns as texts.
fn rows(folder: &Path, table: &str) -> Vec<BTreeMap<String, String>> {
    let mut rows = Vec::new();
    let partitions = std::fs::read_dir(folder.join(format!("table={table}"))).unwrap();
    for file in partitions.flat_map(|partition| std::fs::read_dir(partition.unwrap().path()).unwrap()) {
        let file = std::fs::File::open(file.unwrap().path()).unwrap();
        for row in SerializedFileReader::new(file).unwrap().get_row_iter(None).unwrap() {
            let text = |field: &Field| match field {
                Field::Str(text) => text.clone(),
                field => field.to_string(),
            };
            rows.push(row.unwrap().get_column_iter().map(|(name, field)| (name.clone(), text(field))).collect());
        }
    }
    rows
}

#[test]
fn a_run_is_written_once_wherever_its_file_lies() {
    let folder = scratch("once");
    let (first, copy, other) = (trace(&folder, "a.json", 5), trace(&folder, "b.json", 5), trace(&folder, "c.json", 6));
    let out = folder.join("facts");
    assert_eq!(add(&out, &[first.clone(), copy, other], 1), Counts { written: 2, present: 1, failed: 0 });
    assert_eq!(add(&out, &[first], 1), Counts { written: 0, present: 1, failed: 0 });
    let mut kernels: Vec<String> = rows(&out, "kernels").into_iter().map(|row| row["duration_ns"].clone()).collect();
    kernels.sort();
    assert_eq!(kernels, ["5000", "6000"]);
    let runs = rows(&out, "runs");
    assert_eq!(runs.len(), 2);
    assert!(runs.iter().all(|run| run["status"] == "ok" && run["tags"] == r#"{"commit":"1a\"2b"}"#), "{runs:?}");
}

#[test]
fn a_run_that_cannot_be_read_is_a_row_with_its_reason_and_is_tried_again() {
    let folder = scratch("failed");
    let out = folder.join("facts");
    let (broken, absent) = (folder.join("broken.json"), folder.join("absent.json"));
    std::fs::write(&broken, "no trace at all").unwrap();
    let runs = [vec![broken.clone()], vec![absent.clone()], trace(&folder, "a.json", 5)];
    assert_eq!(add(&out, &runs, 2), Counts { written: 1, present: 0, failed: 2 });
    let failed: Vec<_> = rows(&out, "runs").into_iter().filter(|run| run["status"] == "failed").collect();
    let reason_of = |path: &Path| {
        let row = failed.iter().find(|run| Path::new(&run["path"]) == path).unwrap();
        row["reason"].clone()
    };
    assert!(reason_of(&broken).contains("broken.json") && reason_of(&absent).contains("absent.json"), "{failed:?}");
    // The file arrives, and its row of failure goes.
    trace(&folder, "absent.json", 9);
    assert_eq!(add(&out, &[vec![absent.clone()]], 1), Counts { written: 1, present: 0, failed: 0 });
    assert!(!rows(&out, "runs").iter().any(|run| run["path"] == absent.to_string_lossy() && run["status"] == "failed"));
    assert_eq!(add(&out, &runs, 1), Counts { written: 0, present: 2, failed: 1 }, "failures are tried again");
}

#[test]
fn a_run_that_is_too_large_is_a_row_with_that_reason_and_is_written_with_a_larger_limit() {
    let folder = scratch("large");
    let out = folder.join("facts");
    let run = trace(&folder, "a.json", 5);
    let bytes = std::fs::metadata(&run[0]).unwrap().len();
    let add = |max_bytes| {
        let limits = Limits { max_bytes: Some(max_bytes), ..Limits::default() };
        let facts = FactsFolder::open(&out, &[]).unwrap().with_limits(limits);
        facts.add_all(std::slice::from_ref(&run), 1, &Silent, &|_, _, _| ()).unwrap()
    };
    assert_eq!(add(bytes - 1).failed, 1);
    let rows_of_runs = rows(&out, "runs");
    assert_eq!((rows_of_runs.len(), rows_of_runs[0]["bytes"].as_str()), (1, bytes.to_string().as_str()));
    assert!(rows_of_runs[0]["reason"].contains("more than the limit of"), "{rows_of_runs:?}");
    assert_eq!(add(bytes).written, 1);
    assert_eq!(rows(&out, "runs").len(), 1, "the row of failure is gone");
}

#[test]
fn a_copy_has_the_path_of_its_source_and_a_failure_elsewhere_is_a_row() {
    let folder = scratch("source");
    let out = folder.join("facts");
    let (copy, other) = (trace(&folder, "copy.json", 5), trace(&folder, "other.json", 6));
    let limits = |failure: Option<&str>| Limits {
        source: Some("s3://bucket/a.json".to_owned()),
        failure: failure.map(str::to_owned),
        max_bytes: None,
    };
    let add = |run: &[PathBuf], limits: Limits| {
        let facts = FactsFolder::open(&out, &[]).unwrap().with_limits(limits);
        facts.add_all(&[run.to_vec()], 1, &Silent, &|_, _, _| ()).unwrap()
    };
    assert_eq!(add(&copy, limits(None)).written, 1);
    assert_eq!(add(&other, limits(Some("its worker died"))).failed, 1);
    let runs = rows(&out, "runs");
    assert!(runs.iter().all(|run| run["path"] == "s3://bucket/a.json"), "{runs:?}");
    let failed: Vec<_> = runs.iter().filter(|run| run["status"] == "failed").collect();
    assert_eq!((failed.len(), failed[0]["reason"].as_str()), (1, "its worker died"));
    // A run that is there stays as it is.
    assert_eq!(add(&copy, limits(Some("its worker died"))).present, 1);
    // The file need not be here.
    assert_eq!(add(&[folder.join("elsewhere.json")], limits(Some("too large to copy"))).failed, 1);
    assert_eq!(rows(&out, "runs").iter().filter(|run| run["reason"] == "too large to copy").count(), 1);
}

#[test]
fn a_run_without_its_last_row_is_written_again() {
    let folder = scratch("resumed");
    let out = folder.join("facts");
    let run = trace(&folder, "a.json", 5);
    add(&out, std::slice::from_ref(&run), 1);
    // As after a stop between the tables and the row of the run, in the middle of a file.
    std::fs::remove_dir_all(out.join("table=runs")).unwrap();
    let (id, _) = identity(&run).unwrap();
    std::fs::write(out.join("table=kernels").join(format!("run={id}")).join(FACTS), "half a fi").unwrap();
    assert_eq!(add(&out, std::slice::from_ref(&run), 1).written, 1);
    assert_eq!((rows(&out, "kernels").len(), rows(&out, "runs").len()), (1, 1));
}

#[test]
fn several_workers_write_the_same_as_one() {
    let folder = scratch("workers");
    let runs: Vec<Vec<PathBuf>> = (1..40).map(|us| trace(&folder, &format!("{us}.json"), us)).collect();
    let (one, four) = (folder.join("one"), folder.join("four"));
    assert_eq!(add(&one, &runs, 1), add(&four, &runs, 4));
    let sorted = |out: &Path, table: &str| {
        let mut rows = rows(out, table);
        rows.sort();
        rows
    };
    for table in ["runs", "kernels", "categories", "devices"] {
        assert_eq!(sorted(&one, table), sorted(&four, table), "{table}");
    }
}

#[test]
fn a_folder_with_other_columns_is_refused() {
    let folder = scratch("schema");
    std::fs::write(folder.join(SCHEMA_FILE), r#"{"schema":0}"#).unwrap();
    let error = FactsFolder::open(&folder, &[]).unwrap_err().to_string();
    assert!(error.contains("another folder"), "{error}");
}

/// The same numbers as the JSON report.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_facts_of_a_shared_trace_are_those_of_its_report() {
    let path = shared("traces/torch/sglang_qwen3_30b_b300_decode.trace.json.gz");
    let out = scratch("report");
    assert_eq!(add(&out, &[vec![path]], 1).written, 1);
    let run = &rows(&out, "runs")[0];
    // The independent facts of the trace: 718 ops, 713 kernels, 5,385,287 ns with work.
    let found = ["gpu_ops", "kernels", "busy_ns", "gpu", "engine"].map(|key| run[key].as_str());
    assert_eq!(found, ["718", "713", "5385287", "NVIDIA B300 SXM6 AC", "SGLang"]);
    let kernels = rows(&out, "kernels");
    let total: i64 = kernels.iter().map(|row| row["count"].parse::<i64>().unwrap()).sum();
    assert_eq!((kernels.len(), total), (37, 718));
    assert_eq!(rows(&out, "steps").len(), 1);
    assert!(rows(&out, "layer_roles").iter().any(|row| row["role"] == "experts_up"));
}
