//! `gpuprism graph`: writes the files of gputrc2graph with the same columns and row order.

use crate::cli::example::{COPY, GEMM, NCCL, NSYS_CSV, WINDOW, op, write_events, write_torch};
use crate::common::{Output, csv_rows, directory, gpuprism, printed, seconds_to_ns};
use std::path::{Path, PathBuf};

const TRACE_END: &str = "_cuda_gpu_trace.csv";
const SUMS_END: &str = "_cuda_gpu_kernel_tracesum.csv";

fn graph(folder: &Path, inputs: &[&str], more: &[&str]) -> Vec<Vec<String>> {
    let args = [&["graph", "--out_dir", "out", "--in_file"], inputs, more].concat();
    printed(folder, args);
    read_csv(&folder.join("out/result.csv"))
}

fn read_csv(path: &Path) -> Vec<Vec<String>> {
    csv_rows(&std::fs::read_to_string(path).unwrap())
}

fn example(test: &str) -> PathBuf {
    let folder = directory(test);
    write_torch(&folder, "five.json");
    folder
}

/// Elapsed time of the row with this name, in nanoseconds.
fn elapsed(rows: &[Vec<String>], label: &str, name: &str) -> i64 {
    let row = rows.iter().find(|row| row[0] == label && row[3] == name);
    seconds_to_ns(&row.unwrap_or_else(|| panic!("{label} {name} in {rows:?}"))[4])
}

#[test]
fn result_csv_has_the_columns_and_values_of_gputrc2graph() {
    let rows = graph(&example("graph_csv"), &["five.json,gpuprism,default,0.0001"], &[]);
    let want = [
        ["Model_Engine", "Category", "Instances", "Name", "Elapsed Time (sec)"],
        // All devices are one: 100 us of wall time, 25 of them busy.
        ["default_gpuprism_five.json_0", "CPU(non-GPU)", "1", "CPU(non-GPU)", "0.000075"],
        ["default_gpuprism_five.json_0", "communication", "2", NCCL, "0.000008"],
        ["default_gpuprism_five.json_0", "gemm", "2", GEMM, "0.000012"],
        ["default_gpuprism_five.json_0", "memory", "1", COPY, "0.000005"],
    ];
    assert_eq!(rows, want);
}

#[test]
fn rows_are_ordered_by_input_and_category_and_labels_contain_the_input_index() {
    let inputs = ["five.json,gpuprism,default,0", "five.json,vllm,llama,0"];
    let rows = graph(&example("graph_order"), &inputs, &[]);
    let (first, second) = rows[1..].split_at(4);
    for (label, rows) in [("default_gpuprism_five.json_0", first), ("llama_vllm_five.json_1", second)] {
        assert!(rows.len() == 4 && rows.iter().all(|row| row[0] == label), "{rows:?}");
        assert!(rows.is_sorted_by_key(|row| row[1].clone()), "{rows:?}");
    }
}

#[test]
fn zero_seconds_mean_the_window_and_a_fraction_may_start_with_a_point() {
    let folder = example("graph_seconds");
    let label = "llama_vllm_five.json_0";
    let cpu = |seconds: &str| {
        elapsed(&graph(&folder, &[&format!("five.json,vllm,llama,{seconds}")], &[]), label, "CPU(non-GPU)")
    };
    assert_eq!(cpu("0"), WINDOW - 25_000);
    assert_eq!(cpu(".35"), 350_000_000 - 25_000);
    assert_eq!(cpu("2"), 2_000_000_000 - 25_000);
    let output = gpuprism(&folder, ["graph", "--out_dir", "out", "--in_file", "five.json,vllm,llama,.00001"]);
    assert!(output.status == 0 && output.stderr.contains("shorter than the busy time of the GPU"), "{output:?}");
    assert_eq!(elapsed(&read_csv(&folder.join("out/result.csv")), label, "CPU(non-GPU)"), 0);
}

#[test]
fn the_table_of_sums_is_written_to_the_folder_of_result_csv() {
    let folder = directory("graph_sums");
    std::fs::create_dir(folder.join("in")).unwrap();
    write_torch(&folder.join("in"), "five.json");
    graph(&folder, &["in/five.json,gpuprism,default,0"], &[]);
    let want = [
        ["Elapsed Time (sec)", "Total Time (sec)", "Instances", "Name"],
        ["0.000012", "0.00002", "2", GEMM],
        ["0.000008", "0.000018", "2", NCCL],
        ["0.000005", "0.000005", "1", COPY],
    ];
    assert_eq!(read_csv(&folder.join(format!("out/five.json{SUMS_END}"))), want);
}

#[test]
fn result_html_references_no_other_files() {
    let folder = example("graph_html");
    graph(&folder, &["five.json,gpuprism,default,0"], &["--title", "a <run>"]);
    let page = std::fs::read_to_string(folder.join("out/result.html")).unwrap();
    assert!(page.contains("a &lt;run&gt;") && !page.contains("<run>"));
    assert!(page.contains("<svg") && page.contains("default_gpuprism_five.json_0") && page.contains("gemm"));
    let page = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for reference in ["http:", "https:", "src=", "href=", "@import", "url(", "fetch("] {
        assert!(!page.contains(reference), "{reference}");
    }
}

#[test]
fn kernel_names_that_start_like_formulas_are_quoted_in_csv() {
    let folder = directory("graph_hostile");
    write_events(
        &folder,
        "x.json",
        &[op("kernel", "=cmd|' /C calc'!A0", 0, 7, 0, 5), op("kernel", "a,\"b\"\nc", 0, 7, 9, 5)],
    );
    let rows = graph(&folder, &["x.json,vllm,llama,0"], &[]);
    let names: Vec<&str> = rows[1..].iter().map(|row| row[3].as_str()).collect();
    assert!(names.contains(&"'=cmd|' /C calc'!A0") && names.contains(&"a,\"b\"\nc"), "{names:?}");
}

#[test]
fn a_path_may_contain_commas() {
    let folder = directory("graph_commas");
    write_torch(&folder, "tp=8,pp=2.json");
    let rows = graph(&folder, &["tp=8,pp=2.json,vllm,llama,0"], &[]);
    assert_eq!(rows[1][0], "llama_vllm_tp=8,pp=2.json_0");
}

/// Writes a script that behaves like `nsys stats -o OUT` and logs its arguments.
#[cfg(unix)]
fn fake_nsys(folder: &Path, last: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(folder.join("table.csv"), NSYS_CSV).unwrap();
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> calls\necho Generating table\nwhile [ $# -gt 1 ]; do [ \"$1\" = -o ] && out=$2; shift; done\n{last}\n"
    );
    let path = folder.join("fake_nsys");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Writes an .nsys-rep with a modification time one hour ago.
#[cfg(unix)]
fn write_nsys_rep(folder: &Path) {
    let file = std::fs::File::create(folder.join("run.nsys-rep")).unwrap();
    std::io::Write::write_all(&mut &file, b"\0QuadD").unwrap();
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(3600)).unwrap();
}

#[cfg(unix)]
fn graph_of_nsys_rep(folder: &Path, nsys: &str) -> Output {
    let args = ["graph", "--in_file", "run.nsys-rep,vllm,llama,0", "--out_dir", "out", "--nsys_cmd", nsys];
    gpuprism(folder, args)
}

#[test]
#[cfg(unix)]
fn nsys_runs_only_if_its_table_is_older_than_the_report() {
    let folder = directory("graph_nsys");
    fake_nsys(&folder, &format!("cp table.csv \"${{out}}{TRACE_END}\""));
    write_nsys_rep(&folder);
    let calls = || std::fs::read_to_string(folder.join("calls")).unwrap_or_default().lines().count();
    let output = graph_of_nsys_rep(&folder, "./fake_nsys");
    assert_eq!((output.status, output.stderr.as_str(), calls()), (0, "", 1));
    assert!(!output.stdout.contains("Generating table"), "{}", output.stdout);
    let arguments = std::fs::read_to_string(folder.join("calls")).unwrap();
    assert!(arguments.contains("stats -r cuda_gpu_trace") && arguments.contains("run.nsys-rep"), "{arguments}");
    let rows = read_csv(&folder.join("out/result.csv"));
    assert_eq!(elapsed(&rows, "llama_vllm_run_0", GEMM), 12_000);
    assert!(folder.join(format!("run.nsys-rep{TRACE_END}")).is_file());
    assert!(folder.join(format!("out/run.nsys-rep{SUMS_END}")).is_file());
    // Now the table is newer than the report.
    assert_eq!((graph_of_nsys_rep(&folder, "./fake_nsys").status, calls()), (0, 1));
    let report = std::fs::File::options().write(true).open(folder.join("run.nsys-rep")).unwrap();
    report.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(3600)).unwrap();
    assert_eq!((graph_of_nsys_rep(&folder, "./fake_nsys").status, calls()), (0, 2));
}

#[test]
#[cfg(unix)]
fn an_error_of_nsys_ends_the_run_with_its_message_and_exit_code() {
    let folder = directory("graph_nsys_fails");
    fake_nsys(&folder, "echo no license for this >&2; exit 3");
    write_nsys_rep(&folder);
    let output = graph_of_nsys_rep(&folder, "./fake_nsys");
    assert_eq!((output.status, output.stdout.as_str()), (1, ""), "{output:?}");
    assert!(
        output.stderr.starts_with("no license for this\n") && output.stderr.contains("exit status: 3"),
        "{output:?}"
    );
    assert!(!folder.join("out/result.csv").exists());
}

#[test]
#[cfg(unix)]
fn it_is_an_error_if_nsys_writes_nothing_or_is_missing() {
    let folder = directory("graph_no_nsys");
    fake_nsys(&folder, "exit 0");
    write_nsys_rep(&folder);
    let silent = graph_of_nsys_rep(&folder, "./fake_nsys");
    assert!(silent.status == 1 && silent.stderr.contains(TRACE_END), "{silent:?}");
    let stale = std::fs::File::create(folder.join(format!("run.nsys-rep{TRACE_END}"))).unwrap();
    stale.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(graph_of_nsys_rep(&folder, "./fake_nsys").status, 1, "an older table must not be read");
    let missing = graph_of_nsys_rep(&folder, "./no_such_nsys");
    assert!(missing.status == 1 && missing.stderr.lines().count() == 1, "{missing:?}");
    for word in ["no_such_nsys", "--nsys_cmd", "nsys stats -r cuda_gpu_trace"] {
        assert!(missing.stderr.contains(word), "{word}: {}", missing.stderr);
    }
}
