//! What the program does not do: status 1 and one sentence for a bad file, 2 for a bad command, nothing on standard output.

use crate::common::{Said, directory, gpuprism, shared};
use crate::example::write_torch;
use std::path::Path;

fn assert_one_sentence(said: &Said, status: i32, words: &[&str]) {
    assert_eq!((said.status, said.stdout.as_str()), (status, ""), "{said:?}");
    assert!(said.stderr.ends_with('\n') && said.stderr.lines().count() == 1, "one line: {said:?}");
    assert!(!said.stderr.trim_end().contains(char::is_control), "{said:?}");
    for word in words {
        assert!(said.stderr.contains(word), "{word:?} is not in {}", said.stderr);
    }
}

fn assert_refused(folder: &Path, name: &str, content: &[u8], words: &[&str]) {
    std::fs::write(folder.join(name), content).unwrap();
    assert_one_sentence(&gpuprism(folder, ["report", name]), 1, &[&[name], words].concat());
}

#[test]
fn each_look_alike_is_refused_by_what_it_is() {
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
        ("rocm.sqlite", database("CREATE TABLE rocpd_op (id)"), &[".rpd", "torch.profiler"]),
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
        ("numbers.json", b"[1, 2, 3]".to_vec(), &["gpuprism reads"]),
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
fn what_cannot_be_read_is_named() {
    let folder = directory("refused_missing");
    assert_one_sentence(&gpuprism(&folder, ["report", "missing.json"]), 1, &["missing.json"]);
    assert_one_sentence(&gpuprism(&folder, ["report", "."]), 1, &["."]);
    write_torch(&folder, "five.json");
    assert_one_sentence(&gpuprism(&folder, ["report", "five.json", "missing.json"]), 1, &["missing.json"]);
    let missing = gpuprism(&folder, ["report", "five.json", "--rules", "missing_rules.json"]);
    assert_one_sentence(&missing, 1, &["missing_rules.json"]);
}

#[test]
fn a_bad_rule_is_named_by_file_engine_model_and_regex() {
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
fn a_wrong_command_exits_with_two() {
    let folder = directory("refused_usage");
    write_torch(&folder, "five.json");
    let ours: [(&[&str], &[&str]); 13] = [
        (&["report", "five.json", "--table", "nope"], &["nope", "pivot"]),
        (&["report", "five.json", "--engine", "nope", "--model", "llama"], &["nope/llama", "unknown engine", "vllm:["]),
        (&["report", "five.json", "--engine", "vllm", "--model", "nope"], &["vllm/nope", "unknown model", "gpt-oss"]),
        (&["report", "five.json", "--seconds", "fast"], &["fast", "12.5"]),
        (&["report", "five.json", "--seconds", "-1"], &["-1", "12.5"]),
        (&["triage", "five.json", "--min-share", "-1"], &["--min-share -1", "from 0 to 100"]),
        (&["diff", "five.json", "five.json", "--exit-on-regression", "-1"], &["--exit-on-regression -1", "from 0 on"]),
        (&["diff", "five.json", "five.json", "--baseline", "-1"], &["--baseline -1", "1 to 2"]),
        (&["report", "five.json", "--window", "-x"], &["-x", "1.25-1.75"]),
        (&["report", "five.json", "--seconds", "1", "--seconds", "2"], &["2 values for 1 files"]),
        (&["graph", "--in_file", "five.json,vllm,llama"], &["FILE,engine,model,seconds"]),
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
            let said = gpuprism(&folder, [command, "five.json", flag, value]);
            assert_eq!((said.status, said.stdout.as_str()), (2, ""), "{said:?}");
            for words in [value, flag, "whole numbers from 0 on"] {
                assert!(said.stderr.contains(words), "{words:?} is not in {}", said.stderr);
            }
        }
    }
    for command in ["report", "triage", "ranks"] {
        let said = gpuprism(&folder, [command, "five.json", "--window", "--format"]);
        assert!(said.status == 2 && said.stderr.contains("the window is missing"), "{said:?}");
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
        let said = gpuprism(&folder, args);
        assert!(said.status == 2 && said.stdout.is_empty() && !said.stderr.is_empty(), "{args:?}: {said:?}");
    }
}

#[test]
#[cfg(unix)]
fn a_hostile_file_name_stays_within_its_sentence() {
    let folder = directory("refused_names");
    let name = "two\nlines\u{1b}[2J.json";
    std::fs::write(folder.join(name), "").unwrap();
    assert_one_sentence(&gpuprism(&folder, ["report", name]), 1, &["empty"]);
    assert_one_sentence(&gpuprism(&folder, ["report", "missing\n.json"]), 1, &["missing"]);
}

#[test]
fn real_look_alikes_are_refused_by_name() {
    let Some(dialects) = shared("traces/dialects") else { return };
    let cases: [(&str, &[&str]); 3] = [
        ("cuda_gpu_kern_sum_not_a_trace.csv", &["cuda_gpu_kern_sum", "nsys stats -r cuda_gpu_trace"]),
        (
            "cloverleaf_gpu_trace_other_layout.csv",
            &["without the header of a GPU trace", "nsys stats -r cuda_gpu_trace"],
        ),
        ("rocm_rpd_not_nsys.sqlite", &["ROCm .rpd"]),
    ];
    for (name, words) in cases {
        assert_one_sentence(&gpuprism(&dialects, ["report", name]), 1, &[&[name], words].concat());
    }
}
