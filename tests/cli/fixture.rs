//! Runs `gpuprism explain` on the test fixture of nsys-llm-explainer, written as a database.
//!
//! The expected numbers were computed by hand and by an independent program from the rules of the original. Intended
//! differences from the original are listed with their reasons. `examples/explain/` contains the output of this run.

use crate::common::nsys::golden;
use crate::common::{directory, printed, read_json};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn explained(test: &str) -> (PathBuf, String) {
    let folder = directory(test);
    let path = folder.join("fixture.sqlite");
    golden(true).execute("VACUUM INTO ?1", [path.to_str().unwrap()]).unwrap();
    let output = printed(&folder, ["explain", "fixture.sqlite", "--out", "out"]);
    (folder.join("out"), output)
}

/// The first row with this value in `column`.
fn row<'a>(list: &'a Value, column: &str, value: &str) -> &'a Value {
    let rows = list.as_array().unwrap();
    rows.iter().find(|row| row[column] == value).unwrap_or_else(|| panic!("no {value} in {list}"))
}

fn close(value: &Value, want: f64, what: &str) {
    let value = value.as_f64().unwrap_or_else(|| panic!("{what}: {value}"));
    assert!((value - want).abs() <= want.abs() * 1e-9, "{what}: {value}, not {want}");
}

#[test]
fn numbers_equal_those_of_the_original_tool() {
    let (out, output) = explained("fixture_numbers");
    let metrics = &read_json(&out.join("report.json"))["metrics"];
    for (name, calls, ms, share) in [
        ("computeKernel", 2, 2.0, 32.786_885_245_901_64),
        ("ncclAllReduceRingKernel", 1, 2.0, 32.786_885_245_901_64),
        ("ncclBroadcastRingKernel", 1, 1.5, 24.590_163_934_426_23),
        ("decodeKernel", 1, 0.6, 9.836_065_573_770_492),
    ] {
        let kernel = row(&metrics["top_kernels"]["kernels"], "kernel_name", name);
        assert_eq!(kernel["call_count"], calls);
        close(&kernel["total_time_ms"], ms, name);
        close(&kernel["pct_total_kernel_time"], share, name);
    }
    let storm = &metrics["launch_storm"];
    close(&storm["launches_per_s"], 909.090_909_090_909_1, "launches a second");
    close(&storm["p90_kernel_us"], 1_800.0, "90th percentile");
    close(&storm["p99_kernel_us"], 1_980.0, "99th percentile");
    assert_eq!(storm["is_launch_storm"], false);
    for (name, ms, overlap_ms, overlap, straggler) in
        [("allreduce", 2.0, 1.0, 50.0, "pid:111"), ("broadcast", 1.5, 0.6, 40.0, "pid:222")]
    {
        let op = row(&metrics["nccl"]["ops"], "op_name", name);
        assert_eq!((&op["source"], &op["straggler"]), (&Value::from("kernel"), &Value::from(straggler)));
        close(&op["total_time_ms"], ms, name);
        close(&op["compute_overlap_ms"], overlap_ms, name);
        close(&op["compute_overlap_pct"], overlap, name);
    }
    for (api, ms) in [("cudaStreamSynchronize", 0.8), ("cudaDeviceSynchronize", 0.7), ("cudaMemcpy", 0.6)] {
        close(&row(&metrics["barriers"]["barriers"], "api_name", api)["total_time_ms"], ms, api);
    }
    let latency = &metrics["launch_latency"]["summary"];
    for (name, us) in [("mean_us", 225.0), ("p50_us", 30.0), ("p95_us", 681.0), ("p99_us", 760.2), ("max_us", 780.0)] {
        close(&latency[name], us, name);
    }
    for (name, ms) in [("prefill", 4.0), ("decode", 2.1)] {
        close(&row(&metrics["phase_split"]["rows"], "phase", name)["total_time_ms"], ms, name);
    }
    for (name, flops) in [("computeKernel", 1.6e12), ("ncclAllReduceRingKernel", 2_253_846_153_846.154)] {
        close(&row(&metrics["roofline"]["rows"], "kernel_name", name)["flops"], flops, name);
    }
    for line in ["Launch storm: 5 launches over 0.005 s = 909.1 launches/s; median kernel 1000.00 us", "overlap 50.0%"]
    {
        assert!(output.contains(line), "{line} in {output}");
    }
}

#[test]
fn numbers_differ_where_the_original_tool_is_wrong() {
    let (out, _) = explained("fixture_differences");
    let metrics = &read_json(&out.join("report.json"))["metrics"];
    // The original reports 1.0 ms idle (18.2 %), because it counts only kernels as work. The copy from 3.1 to 3.6 ms is work too.
    let idle = &metrics["gpu_idle"]["devices"][0];
    close(&idle["idle_ms"], 0.5, "idle");
    close(&idle["window_ms"], 5.5, "window");
    // The original has one row of twelve samples and averages bytes sent and received. Here they are two rows of six samples;
    // the mean of both is the same: (75 + 78.33...) / 2 = 76.66...
    let rows = metrics["nvlink_during_nccl"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let mean: f64 = rows.iter().map(|row| row["avg_metric_during_nccl"].as_f64().unwrap()).sum::<f64>() / 2.0;
    assert!((mean - 76.666_666_666_666_67).abs() < 1e-9, "{mean}");
    assert!(rows.iter().all(|row| row["samples"] == 6 && row["samples_during_nccl"] == 3));
    // The original sums the overlap of pairs of classes. The result is the same, because no three classes overlap here.
    close(&row(&metrics["stream_overlap"]["summary"], "label", "NCCL")["overlap_pct"], 54.285_714_285_714_285, "NCCL");
    close(&row(&metrics["stream_overlap"]["summary"], "label", "Memcpy")["overlap_pct"], 37.5, "Memcpy");
    // The original has launcher gaps of 1.36 ms: from the end of a launch to the start of the next one in the process, including
    // blocking calls. Here the time of blocking calls is not part of a gap.
    let gaps = row(&metrics["barriers"]["barriers"], "api_name", "cpu_launcher_gap");
    assert!(gaps["total_time_ms"].as_f64().unwrap() <= 1.36, "{gaps}");
    // The original has 13 candidates, because it counts each NCCL window in addition to its kernels. Here a kernel is one event.
    let classes: Vec<&Value> =
        metrics["timeline"]["events"].as_array().unwrap().iter().map(|e| &e["event_class"]).collect();
    assert_eq!(classes.iter().filter(|class| ***class == "nccl").count(), 2);
}

fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

/// Run with `GPUPRISM_WRITE_EXAMPLE=1` to update the example files.
#[test]
fn example_files_equal_the_output_for_the_fixture() {
    let (out, _) = explained("fixture_example");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/explain");
    if std::env::var_os("GPUPRISM_WRITE_EXAMPLE").is_some() {
        for (path, bytes) in files(&out) {
            let target = example.join(path.strip_prefix(&out).unwrap());
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::write(target, bytes).unwrap();
        }
    }
    let relative = |root: &Path| -> BTreeMap<PathBuf, Vec<u8>> {
        files(root).into_iter().map(|(path, bytes)| (path.strip_prefix(root).unwrap().to_owned(), bytes)).collect()
    };
    let (want, have) = (relative(&out), relative(&example));
    assert!(want.keys().eq(have.keys()), "{:?} and {:?}", want.keys(), have.keys());
    for (path, bytes) in want {
        assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&have[&path]), "{}", path.display());
    }
}
