//! `gpuprism scrub`: the copy contains nothing private, and its report has the same numbers.

use super::private_traces::{self, SECRETS, TRACES};
use crate::common::{directory, gpuprism, printed, shared};
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// The bytes of a file, unpacked.
fn unpacked(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    let mut plain = Vec::new();
    match bytes.starts_with(&[0x1f, 0x8b]) {
        true => flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain).map(|_| plain).unwrap(),
        false => bytes,
    }
}

#[test]
fn copies_of_all_formats_contain_no_secret_and_give_the_same_report() {
    let folder = directory("scrub_formats");
    private_traces::write(&folder);
    std::fs::create_dir(folder.join("copies")).unwrap();
    for trace in TRACES {
        let copy = trace.replace("zorblax", "copies/copy");
        let removed = printed(&folder, ["scrub", trace, "--out", &copy]);
        assert!(removed.contains("private words in names"), "{trace}: {removed}");
        private_traces::is_clean(&removed, trace);
        let bytes = unpacked(&folder.join(&copy)).to_ascii_lowercase();
        for secret in SECRETS {
            let found = bytes.windows(secret.len()).position(|window| window == secret.as_bytes());
            assert!(
                found.is_none(),
                "{secret} in the copy of {trace}: {:?}",
                found.map(|at| {
                    String::from_utf8_lossy(&bytes[at.saturating_sub(60)..(at + 30).min(bytes.len())]).into_owned()
                })
            );
        }
        assert_eq!(
            std::fs::read(folder.join(&copy)).unwrap()[0],
            std::fs::read(folder.join(trace)).unwrap()[0],
            "packing"
        );
        for args in [&["report", "--format", "json"][..], &["report", "--format", "json", "--redact"]] {
            let (original, copied) = (report(&folder, trace, args), report(&folder, &copy, args));
            assert_eq!(numbers(&original), numbers(&copied), "{trace} {args:?}");
            assert!(!args.contains(&"--redact") || original == copied, "{trace}: redacted reports differ");
        }
    }
    assert_eq!(std::fs::read_dir(folder.join("copies")).unwrap().count(), TRACES.len(), "no unfinished file remains");
}

fn report(folder: &Path, trace: &str, args: &[&str]) -> Value {
    let mut report: Value = serde_json::from_str(&gpuprism(folder, [args, &[trace]].concat()).stdout).unwrap();
    report["runs"][0]["label"] = Value::Null;
    report
}

/// All numbers and categories, with their keys.
fn numbers(value: &Value) -> Vec<String> {
    match value {
        Value::Number(number) => vec![number.to_string()],
        Value::Array(list) => list.iter().flat_map(numbers).collect(),
        Value::Object(members) => members
            .iter()
            .flat_map(|(key, value)| match (key.as_str(), value) {
                ("category", Value::String(category)) => vec![category.clone()],
                _ => numbers(value).into_iter().map(|number| format!("{key} {number}")).collect(),
            })
            .collect(),
        _ => Vec::new(),
    }
}

#[test]
fn the_doctor_counts_variables_of_the_environment_and_the_copy_has_none() {
    let folder = directory("scrub_doctor");
    private_traces::write(&folder);
    for (trace, words) in [
        ("zorblax.sqlite", "the environment of the machine: 2 variables, 1 named like secrets"),
        ("zorblax.db", "the environment of the machine: 2 variables, 1 named like secrets"),
    ] {
        let text = gpuprism(&folder, ["doctor", trace]).stdout;
        assert!(text.contains(words) && text.contains("gpuprism scrub FILE --out COPY"), "{text}");
        assert!(!text.to_lowercase().contains("k3yq9x7"), "{text}");
        let removed = printed(&folder, ["scrub", trace, "--out", "copy"]);
        assert!(removed.contains("2  environment variables"), "{removed}");
        assert!(!gpuprism(&folder, ["doctor", "copy"]).stdout.contains("environment of the machine"));
    }
}

#[test]
fn what_cannot_be_scrubbed_is_refused_in_a_sentence_and_leaves_no_file() {
    let folder = directory("scrub_refused");
    std::fs::write(folder.join("a.nsys-rep"), b"\x0a\x00zorblax").unwrap();
    std::fs::write(folder.join("notes.txt"), "zorblax and no trace").unwrap();
    std::fs::write(folder.join("a.json"), r#"{"vllm": {"m": {"gemm": "gemm", ".*": "misc"}}}"#).unwrap();
    for (args, status, words) in [
        (["scrub", "a.nsys-rep", "--out", "copy"], 1, "cannot scrub"),
        (["scrub", "notes.txt", "--out", "copy"], 1, "notes.txt"),
        (["scrub", "a.json", "--out", "copy"], 1, "not a trace"),
        (["scrub", "a.json", "--out", "a.json"], 2, "would replace the trace"),
        (["scrub", ".", "--out", "copy"], 1, "one by one"),
    ] {
        let output = gpuprism(&folder, args);
        assert!(
            output.status == status && output.stderr.contains(words) && output.stderr.lines().count() == 1,
            "{args:?}: {output:?}"
        );
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);
}

/// Messages are kept in their order, so a report of the copy has the same numbers, and one of a cut file the same problems.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn copies_of_recorded_protocol_buffers_give_the_same_report_also_if_they_are_cut() {
    let folder = directory("scrub_protobuf");
    for name in [
        "perfetto/handmade_rocprofv3.pftrace",
        "perfetto/handmade_torch_cupti.pftrace.gz",
        "perfetto/handmade_unitrace.pftrace",
        "perfetto/handmade_proton.pftrace",
        "xla/handmade_h100_tpu.xplane.pb",
        "xla/jax_mi350x_attention.xplane.pb",
        "xla/gpu_multiworker.xplane.pb",
    ] {
        let bytes = std::fs::read(shared("more").join(name)).unwrap();
        let file = name.rsplit('/').next().unwrap();
        // A cut packed file is damaged, and its copy is not.
        let cut = if name.ends_with(".gz") { 0 } else { 7 };
        for length in [bytes.len(), bytes.len() - cut] {
            std::fs::write(folder.join(file), &bytes[..length]).unwrap();
            let copy = format!("copy.{file}");
            let output = gpuprism(&folder, ["scrub", file, "--out", &copy]);
            let is_told = output.stderr.contains("damaged or cut short");
            assert!(output.status == 0 && is_told == (length < bytes.len()), "{name}: {output:?}");
            let args = ["report", "--format", "json"];
            let (original, copied) = (report(&folder, file, &args), report(&folder, &copy, &args));
            assert_eq!(numbers(&original), numbers(&copied), "{name}, {length} bytes");
        }
    }
}
