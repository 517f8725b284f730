//! Runs the program on Nsight Systems exports and reports.

use crate::common::nsys::{Generation, decode_loop, golden};
use crate::common::{directory, gpuprism, json_runs, printed};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

fn write_export(folder: &Path, name: &str) {
    let path = folder.join(name);
    decode_loop(Generation::S3_25).execute("VACUUM INTO ?1", [path.to_str().unwrap()]).unwrap();
}

fn write_packed_export(folder: &Path, name: &str) -> usize {
    write_export(folder, "plain");
    let plain = std::fs::read(folder.join("plain")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&plain).unwrap();
    let packed = packed.finish().unwrap();
    std::fs::write(folder.join(name), &packed).unwrap();
    packed.len()
}

#[test]
fn an_export_is_detected_by_its_content_not_its_name() {
    let folder = directory("nsys_content");
    write_export(&folder, "run.json");
    let run = &json_runs(&folder, &["run.json"])[0];
    assert_eq!((run["format"].as_str(), run["label"].as_str()), (Some("nsys_sqlite"), Some("run.json")));
    // Computed by hand: two devices with ops of 10, 15, 5, 1 and 0.5 microseconds each; the all-reduces are the longest.
    assert_eq!(run["totals"]["gpu_ops"], 10);
    assert_eq!(run["totals"]["duration_ns"], 2 * 31_500);
    assert_eq!(run["totals"]["union_ns"], 2 * 31_500);
    assert_eq!(run["totals"]["union_all_ns"], 10_500 + 20_500 + 1_500 + 1_000);
    assert_eq!(run["totals"]["window_ns"], 55_000 - 10_000);
    let categories = run["categories"].as_array().unwrap().iter();
    let categories: Vec<_> =
        categories.map(|c| (c["category"].as_str().unwrap(), c["elapsed_ns"].as_i64().unwrap())).collect();
    assert_eq!(categories, [("communication", 30_000), ("gemm", 30_000), ("memory", 3_000)]);
    assert_eq!(run["notices"].as_array().unwrap().len(), 0);
}

#[test]
fn graph_reads_an_export() {
    let folder = directory("nsys_graph");
    write_export(&folder, "run.sqlite");
    printed(&folder, ["graph", "--in_file", "run.sqlite,vllm,llama,0", "--out_dir", "out"]);
    assert!(std::fs::read_to_string(folder.join("out/result.csv")).unwrap().contains("llama_vllm_run.sqlite_0"));
}

/// Runs a report with its own folder for temporary files and checks that this folder is empty afterwards.
fn report_with_temporary_folder(folder: &Path, file: &str) -> std::process::Output {
    let temporary = folder.join("temporary");
    std::fs::create_dir_all(&temporary).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuprism"));
    command.args(["report", "--format", "json", file]).current_dir(folder).env("TMPDIR", &temporary);
    let output = command.output().unwrap();
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "a temporary file is left");
    output
}

#[test]
fn the_temporary_file_of_a_gzipped_export_is_deleted() {
    let folder = directory("nsys_gzip");
    let length = write_packed_export(&folder, "run.sqlite.gz");
    let output = report_with_temporary_folder(&folder, "run.sqlite.gz");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["runs"][0]["totals"]["gpu_ops"], 10);
    assert_eq!(report["runs"][0]["label"], "run.sqlite.gz");
    let packed = std::fs::read(folder.join("run.sqlite.gz")).unwrap();
    std::fs::write(folder.join("cut.sqlite.gz"), &packed[..length / 2]).unwrap();
    let cut = report_with_temporary_folder(&folder, "cut.sqlite.gz");
    let output = String::from_utf8([cut.stdout, cut.stderr].concat()).unwrap();
    assert!(output.contains("is cut or damaged before its first row"), "{output}");
}

#[test]
#[cfg(unix)]
fn an_export_from_a_pipe_is_refused_with_advice() {
    let folder = directory("nsys_pipe");
    write_export(&folder, "run.sqlite");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuprism"));
    command.args(["report", "/dev/stdin"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let bytes = std::fs::read(folder.join("run.sqlite")).unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(stderr.contains("Nsight Systems SQLite export") && stderr.contains("save it"), "{stderr}");
}

/// Writes a script that behaves like `nsys export --output OUT` and logs its arguments.
#[cfg(unix)]
fn fake_nsys(folder: &Path, last: &str) {
    use std::os::unix::fs::PermissionsExt;
    write_export(folder, "made");
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> calls\nwhile [ $# -gt 1 ]; do [ \"$1\" = --output ] && out=$2; shift; done\n{last}\n"
    );
    let path = folder.join("fake_nsys");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Writes a file with a modification time some hours ago.
#[cfg(unix)]
fn write_old(folder: &Path, name: &str, bytes: &[u8], hours: u64) {
    std::fs::write(folder.join(name), bytes).unwrap();
    let file = std::fs::File::options().write(true).open(folder.join(name)).unwrap();
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(3600 * hours)).unwrap();
}

#[test]
#[cfg(unix)]
fn an_nsys_rep_is_exported_once_and_an_old_export_is_replaced() {
    let folder = directory("nsys_rep");
    fake_nsys(&folder, "cp made \"$out\"");
    write_old(&folder, "run.nsys-rep", b"\0QuadD", 1);
    write_old(&folder, "run.sqlite", b"older than the report", 2);
    let calls = || std::fs::read_to_string(folder.join("calls")).unwrap_or_default().lines().count();
    let report = || json_runs(&folder, &["run.nsys-rep", "--nsys_cmd", "./fake_nsys"]);
    assert_eq!((report()[0]["totals"]["gpu_ops"].as_i64(), calls()), (Some(10), 1));
    let arguments = std::fs::read_to_string(folder.join("calls")).unwrap();
    for word in ["export --type sqlite --output run.sqlite", "--force-overwrite=true --lazy=false run.nsys-rep"] {
        assert!(arguments.contains(word), "{arguments}");
    }
    assert_eq!((report()[0]["label"].as_str(), calls()), (Some("run.sqlite"), 1));
}

#[test]
#[cfg(unix)]
fn it_is_an_error_if_nsys_fails_or_leaves_an_old_export() {
    let folder = directory("nsys_rep_fails");
    write_old(&folder, "run.nsys-rep", b"\0QuadD", 1);
    for (last, words) in [
        ("exit 0", ["`./fake_nsys export` wrote no run.sqlite", ""]),
        ("echo no license for this >&2; exit 3", ["no license for this\n", "exit status: 3"]),
    ] {
        fake_nsys(&folder, last);
        write_old(&folder, "run.sqlite", &std::fs::read(folder.join("made")).unwrap(), 2);
        std::fs::remove_file(folder.join("made")).unwrap();
        let output = gpuprism(&folder, ["report", "run.nsys-rep", "--nsys_cmd", "./fake_nsys"]);
        assert_eq!((output.status, output.stdout.as_str()), (1, ""), "{output:?}");
        assert!(words.iter().all(|word| output.stderr.contains(word)), "{output:?}");
    }
    let output = gpuprism(&folder, ["report", "run.nsys-rep", "--nsys_cmd", "./no_such_nsys"]);
    assert!(
        output.status == 1 && output.stderr.lines().count() == 1 && output.stderr.contains("--nsys_cmd"),
        "{output:?}"
    );
}

#[test]
fn implausible_process_ids_are_a_warning() {
    let folder = directory("nsys_processes");
    let codes = |name: &str, change: &str| -> Vec<Value> {
        let connection = golden(false);
        connection.execute_batch(change).unwrap();
        connection.execute("VACUUM INTO ?1", [folder.join(name).to_str().unwrap()]).unwrap();
        let run = &json_runs(&folder, &[name])[0];
        run["notices"].as_array().unwrap().iter().map(|notice| notice["code"].clone()).collect()
    };
    assert!(!codes("as_it_is.sqlite", "").contains(&Value::from("doubtful_processes")));
    for (name, change) in [
        ("zero.sqlite", "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = 0; DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY"),
        (
            "one.sqlite",
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = 333 << 24; DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY",
        ),
    ] {
        assert!(codes(name, change).contains(&Value::from("doubtful_processes")), "{name}");
    }
}
