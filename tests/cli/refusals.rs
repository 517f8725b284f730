//! Error handling: exit code 1 for a bad file and 2 for a bad command, one sentence on standard error, no other output.

use crate::cli::example::write_torch;
use crate::common::{Output, directory, gpuprism, shared};
use std::path::Path;

fn assert_one_sentence(output: &Output, status: i32, words: &[&str]) {
    assert_eq!((output.status, output.stdout.as_str()), (status, ""), "{output:?}");
    assert!(output.stderr.ends_with('\n') && output.stderr.lines().count() == 1, "one line: {output:?}");
    assert!(!output.stderr.trim_end().contains(char::is_control), "{output:?}");
    for word in words {
        assert!(output.stderr.contains(word), "{word:?} is not in {}", output.stderr);
    }
}

fn assert_refused(folder: &Path, name: &str, content: &[u8], words: &[&str]) {
    std::fs::write(folder.join(name), content).unwrap();
    assert_one_sentence(&gpuprism(folder, ["report", name]), 1, &[&[name], words].concat());
}

#[test]
fn unsupported_files_are_refused_with_their_detected_type() {
    let folder = directory("refused");
    let database = |schema: &str| {
        let path = folder.join("made.sqlite");
        rusqlite::Connection::open(&path).unwrap().execute_batch(schema).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        bytes
    };
    let cases: &[(&str, Vec<u8>, &[&str])] = &[
        (
            "run.nsys-rep",
            b"\0\x01\x02QuadD\0report".to_vec(),
            &["nsys stats -r cuda_gpu_trace --format csv", "run.nsys-rep"],
        ),
        ("rocm.sqlite", database("CREATE TABLE rocpd_op (id)"), &["ROCm profiler", "rocpd_op"]),
        ("nvprof.sqlite", database("CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (_id_ INTEGER)"), &["nvprof"]),
        ("songs.sqlite", database("CREATE TABLE songs (title)"), &["SQLite"]),
        ("cut.sqlite", b"SQLite format 3\0\x10\0\x01\x01CREATE TABLE".to_vec(), &["cannot be read", "nsys export"]),
        ("sums.csv", b"Time (%),Total Time (ns),Instances,Avg (ns),Name\n1,2,3,4,k\n".to_vec(), &["cuda_gpu_kern_sum"]),
        ("notes.csv", b"when,what\n1,2\n".to_vec(), &["without the header"]),
        ("page.html", b"<!doctype html><title>Log in</title>".to_vec(), &["web page"]),
        ("empty.json", Vec::new(), &["empty"]),
        ("blank.json", b" \n\n".to_vec(), &["empty"]),
        ("cut.json", br#"{"schemaVersion": 1, "traceEvents": [{"ph": "X", "na"#.to_vec(), &["cut short"]),
        ("head.json", br#"{"schemaVersion": 1, "traceEv"#.to_vec(), &["cut short"]),
        ("other.json", br#"{"scripts": {"build": "x"}, "n": 1}"#.to_vec(), &["no `traceEvents`"]),
        ("numbers.json", b"[1, 2, 3]".to_vec(), &["without the header", "gpuprism formats"]),
        ("zip.json", b"PK\x03\x04rest of a zip archive".to_vec(), &["unpack"]),
        ("later.json", br#"{"schema": "gpuprism-report/99", "runs": []}"#.to_vec(), &["gpuprism-report/99"]),
        ("none.json", br#"{"schema": "gpuprism-report/1", "runs": []}"#.to_vec(), &["no runs", "from the trace"]),
        ("rules.json", br#"{"e": {"m": {"gemm": "gemm"}}}"#.to_vec(), &["--rules"]),
    ];
    for (name, content, words) in cases {
        assert_refused(&folder, name, content, words);
    }
}

#[test]
fn an_error_names_the_file_that_cannot_be_read() {
    let folder = directory("refused_missing");
    assert_one_sentence(&gpuprism(&folder, ["report", "missing.json"]), 1, &["missing.json"]);
    assert_one_sentence(&gpuprism(&folder, ["report", "."]), 1, &["."]);
    write_torch(&folder, "five.json");
    assert_one_sentence(&gpuprism(&folder, ["report", "five.json", "missing.json"]), 1, &["missing.json"]);
    let missing = gpuprism(&folder, ["report", "five.json", "--rules", "missing_rules.json"]);
    assert_one_sentence(&missing, 1, &["missing_rules.json"]);
}

#[test]
fn an_invalid_rule_is_reported_with_file_engine_model_and_regex() {
    let folder = directory("refused_rules");
    write_torch(&folder, "five.json");
    let cases: [(&str, &[&str]); 4] = [
        (r#"{"acme": {"tiny": {"gemm": "gemm", "nccl(": "comm"}}}"#, &["acme", "tiny", "nccl("]),
        (r#"{"acme": {"tiny": {"gemm": 7}}}"#, &["acme", "tiny", "gemm"]),
        ("{'acme': {'tiny': {}}}", &["not valid JSON", "double quotes"]),
        ("[]", &["expected an object"]),
    ];
    for (text, words) in cases {
        std::fs::write(folder.join("bad.json"), text).unwrap();
        let report = gpuprism(&folder, ["report", "five.json", "--rules", "bad.json"]);
        assert_one_sentence(&report, 1, &[&["bad.json"], words].concat());
        let graph = gpuprism(&folder, ["graph", "--in_file", "five.json,vllm,llama,0", "--rules", "bad.json"]);
        assert_one_sentence(&graph, 1, &[&["bad.json"], words].concat());
    }
}

#[test]
fn wrong_usage_exits_with_code_2() {
    let folder = directory("refused_usage");
    write_torch(&folder, "five.json");
    let ours: [(&[&str], &[&str]); 13] = [
        (&["report", "five.json", "--table", "nope"], &["nope", "pivot"]),
        (&["report", "five.json", "--engine", "nope", "--model", "llama"], &["nope/llama", "unknown engine", "vllm:["]),
        (&["report", "five.json", "--engine", "vllm", "--model", "nope"], &["vllm/nope", "unknown model", "gpt-oss"]),
        (&["report", "five.json", "--seconds", "fast"], &["fast", "12.5"]),
        (&["report", "five.json", "--seconds", "-1"], &["-1", "12.5"]),
        (&["triage", "five.json", "--min-share", "-1"], &["--min-share -1", "from 0 to 100"]),
        (&["diff", "five.json", "five.json", "--exit-on-regression", "-1"], &["--exit-on-regression -1", "0 or more"]),
        (&["diff", "five.json", "five.json", "--baseline", "-1"], &["--baseline -1", "1 to 2"]),
        (&["report", "five.json", "--window", "-x"], &["-x", "1.25-1.75"]),
        (&["report", "five.json", "--seconds", "1", "--seconds", "2"], &["2 values for 1 files"]),
        (&["graph", "--in_file", "five.json,vllm,llama"], &["FILE,ENGINE,MODEL,SECONDS"]),
        (&["graph", "--in_file", "five.json,vllm,llama,soon"], &["soon"]),
        (&["graph", "--in_file", "five.json,vllm,nope,0"], &["vllm/nope", "unknown model"]),
    ];
    for (args, words) in ours {
        assert_one_sentence(&gpuprism(&folder, args), 2, words);
    }
    for (command, flag) in [
        ("report", "--limit"),
        ("pivot", "--top"),
        ("explain", "--kernel-limit"),
        ("triage", "--kernel-table-limit"),
        ("triage", "--overlap-table-limit"),
    ] {
        for value in ["-1", "many", "1.5"] {
            let output = gpuprism(&folder, [command, "five.json", flag, value]);
            assert_eq!((output.status, output.stdout.as_str()), (2, ""), "{output:?}");
            for words in [value, flag, "a whole number, 0 or more"] {
                assert!(output.stderr.contains(words), "{words:?} is not in {}", output.stderr);
            }
        }
    }
    for command in ["report", "triage", "ranks"] {
        let output = gpuprism(&folder, [command, "five.json", "--window", "--format"]);
        assert!(output.status == 2 && output.stderr.contains("the value is missing"), "{output:?}");
    }
    let parsers: [&[&str]; 7] = [
        &[],
        &["nonsense"],
        &["report"],
        &["graph"],
        &["report", "five.json", "--format", "pdf"],
        &["report", "five.json", "--engine", "vllm"],
        &["report", "five.json", "--attribution", "last"],
    ];
    for args in parsers {
        let output = gpuprism(&folder, args);
        assert!(output.status == 2 && output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}: {output:?}");
    }
}

#[test]
#[cfg(unix)]
fn control_characters_in_a_file_name_do_not_reach_the_terminal() {
    let folder = directory("refused_names");
    let name = "two\nlines\u{1b}[2J.json";
    std::fs::write(folder.join(name), "").unwrap();
    assert_one_sentence(&gpuprism(&folder, ["report", name]), 1, &["empty"]);
    assert_one_sentence(&gpuprism(&folder, ["report", "missing\n.json"]), 1, &["missing"]);
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn real_unsupported_files_are_refused_with_their_detected_type() {
    let dialects = shared("traces/dialects");
    let cases: [(&str, &[&str]); 2] = [
        ("cuda_gpu_kern_sum_not_a_trace.csv", &["cuda_gpu_kern_sum", "nsys stats -r cuda_gpu_trace"]),
        ("cloverleaf_gpu_trace_other_layout.csv", &["a table that Pipit made", "open the trace"]),
    ];
    for (name, words) in cases {
        assert_one_sentence(&gpuprism(&dialects, ["report", name]), 1, &[&[name], words].concat());
    }
}
