//! `gpuprism trend`: a history of generated runs with a known shift, output formats, exit codes, errors.

use crate::common::{csv_rows, directory, gpuprism, printed};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Writes a trace of four decode steps of so many microseconds each, one after the other. Each is one kernel.
pub(crate) fn trace(folder: &Path, name: &str, us: u32) {
    let mut events = Vec::new();
    for step in 0..4_u32 {
        let (start, call) = (1_000 + step * us, step + 1);
        let event = |cat: &str, name: &str, pid: u32, ts: u32, dur: u32, args: &str| {
            format!(
                r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":7,"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
            )
        };
        events.push(event("user_annotation", "step[DECODE bs=8]", 9, start, us, ""));
        events.push(event("cuda_runtime", "cudaLaunchKernel", 9, start + 2, 2, &format!(r#""correlation":{call}"#)));
        let of_kernel = format!(r#""device":0,"stream":7,"correlation":{call}"#);
        events.push(event("kernel", "nvjet_tst_64x8", 0, start + 5, us, &of_kernel));
    }
    let device = r#""deviceProperties":[{"id":0,"name":"NVIDIA H100 80GB HBM3"}]"#;
    std::fs::write(folder.join(name), format!(r#"{{{device},"traceEvents":[{}]}}"#, events.join(","))).unwrap();
}

/// A folder of facts with a run per day and time, added in the given order.
fn facts(test: &str, times: &[u32], order: impl Iterator<Item = usize>) -> PathBuf {
    let folder = directory(test);
    for index in order {
        let name = format!("{index}.json");
        trace(&folder, &name, times[index]);
        let tags = [format!("date=2026-01-{:02}", index + 1), format!("commit=c{index}"), "model=M".to_owned()];
        let mut arguments = vec!["facts", name.as_str(), "--out", "facts"];
        tags.iter().for_each(|tag| arguments.extend(["--tag", tag]));
        assert_eq!(gpuprism(&folder, arguments).status, 0);
    }
    folder
}

/// The words of a text that is wrapped.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Runs differ in the kernel's time, because equal traces are one run.
const SHIFTED: [u32; 9] = [500, 502, 499, 501, 503, 498, 600, 602, 601];

#[test]
fn the_first_run_of_a_shift_is_named_with_status_3_in_any_order_of_files() {
    let folder = facts("trend_shift", &SHIFTED, 0..9);
    let output = gpuprism(&folder, ["trend", "facts"]);
    assert_eq!(output.status, 3, "{output:?}");
    let words = words(&output.stdout);
    assert!(
        words.starts_with(
            "M on NVIDIA H100 80GB HBM3, SGLang, decode: slower since 2026-01-07 00:00 (commit c6, 6.json):"
        ),
        "{words}"
    );
    assert!(words.contains("So are the 2 runs since"), "{words}");
    assert!(output.stderr.contains("commit c6"), "{}", output.stderr);
    let reversed = facts("trend_shift_reversed", &SHIFTED, (0..9).rev());
    assert_eq!(gpuprism(&reversed, ["trend", "facts"]).stdout, output.stdout);
}

/// The step is the kernel: by hand, the median of 500, 502, 499, 501, 503, 498 us is 500.5 us, their deviations 0.5, 1.5, 1.5, 0.5, 2.5
/// and 2.5 us have the variance 17.5 / 5 us^2, and half the band is 6.87 * sqrt(3.5) * sqrt(1 + pi / 2 / 6) = 14.437 us.
#[test]
fn json_has_the_exact_band() {
    let folder = facts("trend_json", &SHIFTED, 0..9);
    let output = gpuprism(&folder, ["trend", "facts", "--format", "json"]);
    assert_eq!(output.status, 3);
    let json: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((&json["schema"], &json["slower"]), (&Value::from("gpuprism-trend/1"), &Value::from(true)));
    let series = &json["series"][0];
    assert_eq!(series["outcome"], "slower");
    let first = &series["runs"][6];
    assert_eq!(
        (&first["commit"], &first["outcome"], &first["run"]),
        (&Value::from("c6"), &Value::from("slower"), &series["first_outside"])
    );
    let offset = first["median_ns"].as_i64().unwrap() - 600_000;
    let band = ["band_low_ns", "band_middle_ns", "band_high_ns", "band_runs"].map(|key| first[key].as_i64().unwrap());
    assert_eq!(band, [486_063 + offset, 500_500 + offset, 514_937 + offset, 6].map(i64::from), "offset {offset}");
}

#[test]
fn noise_alone_has_status_0_and_csv_has_a_row_per_run() {
    let folder = facts("trend_noise", &[500, 502, 499, 501, 503, 498, 504], 0..7);
    let text = words(&printed(&folder, ["trend", "facts"]));
    assert!(text.contains("is within the noise of the runs before"), "{text}");
    let rows = csv_rows(&printed(&folder, ["trend", "facts", "--format", "csv"]));
    let column = |name: &str| rows[0].iter().position(|key| key == name).unwrap();
    let outcomes: Vec<&str> = rows[1..].iter().map(|row| row[column("outcome")].as_str()).collect();
    assert_eq!(outcomes, ["too few runs"; 5].into_iter().chain(["within noise"; 2]).collect::<Vec<_>>());
    assert!(printed(&folder, ["trend", "facts", "--format", "markdown"]).contains("| 2026-01-01 00:00 | c0 |"));
    // Too few runs are no alarm, and say so.
    let since = words(&printed(&folder, ["trend", "facts", "--since", "2026-01-05"]));
    assert!(since.contains("a band needs 5 earlier runs") && since.contains("4 traces left out by --since"), "{since}");
}

#[test]
fn wrong_folders_have_status_1_and_wrong_dates_status_2() {
    let folder = directory("trend_refusals");
    for (arguments, status, words) in [
        (&["trend"][..], 2, "DIR"),
        (&["trend", "."], 1, "gpuprism facts"),
        (&["trend", "none"], 1, "none"),
        (&["trend", ".", "--since", "yesterday"], 2, "YYYY-MM-DD"),
    ] {
        let output = gpuprism(&folder, arguments);
        assert_eq!((output.status, output.stdout.as_str()), (status, ""), "{output:?}");
        assert!(output.stderr.contains(words), "no `{words}` in {output:?}");
    }
}
