//! `gpuprism ranks`: folders of ranks, one file with several GPUs, output formats, errors and skipped files.

use crate::common::{directory, gpuprism, printed, shared};
use serde_json::Value;
use std::path::Path;

/// Writes a rank of a job of this many whose all-reduce starts at `late` us and ends at 100 us, like the all-reduce of every rank.
pub(crate) fn rank(folder: &Path, number: u32, world: u32, late: u32) {
    let event = |name: &str, start: u32, dur: u32| {
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7, "ts": {start}, "dur": {dur}, "args": {{"device": 0, "stream": 7}}}}"#
        )
    };
    let events =
        [event("nvjet_tst_64x8", 0, late), event("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", late, 100 - late)];
    let info = format!(r#""distributedInfo": {{"backend": "nccl", "rank": {number}, "world_size": {world}}}"#);
    let text = format!(r#"{{{info}, "traceEvents": [{}]}}"#, events.join(", "));
    std::fs::write(folder.join(format!("rank{number}.json")), text).unwrap();
}

fn example(test: &str) -> std::path::PathBuf {
    let folder = directory(test);
    std::fs::create_dir(folder.join("job")).unwrap();
    rank(&folder.join("job"), 0, 2, 30);
    rank(&folder.join("job"), 1, 2, 90);
    folder
}

#[test]
fn the_verdict_names_the_rank_that_delays_the_others() {
    let folder = example("ranks_folder");
    let text = printed(&folder, ["ranks", "job"]);
    let verdict = "Rank 1 delays the others: 85.7 % of the other ranks' time in collectives is waiting for it";
    assert!(text.starts_with(verdict), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cause = "because its GPU works longer (nvjet_tst_64x8 takes 90.0 us, on the other rank 30.0 us). \
                 If this rank alone comes earlier, the job gains at most 60.0 us, 60.0 % of its time. Rank 1 computes 200 % longer than rank 0.";
    assert!(words.contains(cause), "{words}");
    // 72 characters are 100 us: 30 us of compute, 10 us of transfer, 60 us of waiting.
    let bar = format!("  rank 0  |{}{}{}|", "#".repeat(21), ">".repeat(7), "w".repeat(44));
    assert!(text.contains(&bar), "{text}");
    assert_eq!(
        text,
        printed(&folder, ["ranks", "job/rank1.json", "job/rank0.json"]),
        "the order of files does not matter"
    );
}

/// Ranks 0 and 1 wait 60 us for rank 3 and rank 2 waits 2 us: 122 of the 152 us that they spend in the collective. All three wait 2 us
/// for rank 3 alone.
#[test]
fn the_verdict_names_no_rank_that_is_never_last() {
    let folder = directory("ranks_that_delay");
    [(0, 30), (1, 30), (2, 88), (3, 90)].into_iter().for_each(|(number, late)| rank(&folder, number, 4, late));
    let text = printed(&folder, ["ranks", "."]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let verdict = "Rank 3 delays the others: 80.3 % of the other ranks' time in collectives is waiting for it (40.7 us per \
                   rank, of which 2.00 us for this rank alone; it is last in 1 of 1), because its GPU works longer";
    assert!(words.starts_with(verdict) && !words.contains(", too."), "{words}");
}

#[test]
fn csv_and_json_contain_exact_values() {
    let folder = example("ranks_formats");
    let csv = printed(&folder, ["ranks", "job", "--format", "csv", "--table", "rank_waits"]);
    assert_eq!(
        csv,
        "op_name,process_group,rank_label,calls_matched,total_time_ns,wait_ns,max_wait_ns,times_last,skew_vs_median_pct\n\
         allreduce,,rank 0,1,70000,60000,60000,0,600\nallreduce,,rank 1,1,10000,0,0,1,-85.71428571428571\n"
    );
    let json: Value = serde_json::from_str(&printed(&folder, ["ranks", "job", "--format", "json"])).unwrap();
    let job = &json["jobs"][0];
    assert_eq!((&json["schema"], &job["straggler"]), (&Value::from("gpuprism-ranks/1"), &Value::from("rank 1")));
    let delay = &job["delays"][0];
    assert_eq!((&delay["rank"], &delay["waiting_per_rank_ns"]), (&Value::from("rank 1"), &Value::from(60_000)));
    assert_eq!((&delay["work_per_rank_ns"], &delay["unknown_per_rank_ns"]), (&Value::from(60_000), &Value::from(0)));
    let sum =
        |rank: &Value| rank["parts"].as_object().unwrap().values().map(|part| part.as_i64().unwrap()).sum::<i64>();
    assert!(job["ranks"].as_array().unwrap().iter().all(|rank| sum(rank) == 100_000), "{job}");
    let markdown = printed(&folder, ["ranks", "job", "--format", "markdown"]);
    assert!(markdown.starts_with("# Ranks\n\n- **Rank 1 delays") && markdown.contains("## Collectives across ranks"));
    printed(&folder, ["ranks", "job", "--out", "ranks.txt"]);
    assert!(std::fs::read_to_string(folder.join("ranks.txt")).unwrap().starts_with("Rank 1 delays"));
}

/// The window is in the time of rank 0. From 40 us to 80 us, rank 0 waits and rank 1 computes.
#[test]
fn a_window_applies_to_all_ranks_and_a_truncated_rank_is_a_warning() {
    let folder = example("ranks_window");
    let window = |text: &'static str| ["ranks", "job", "--window", text, "--format", "json"];
    let json: Value = serde_json::from_str(&printed(&folder, window("0.00004-0.00008"))).unwrap();
    let job = &json["jobs"][0];
    assert_eq!(job["window_ns"], 40_000);
    assert_eq!(
        (&job["ranks"][0]["parts"]["wait_ns"], &job["ranks"][1]["parts"]["compute_ns"]),
        (&40_000.into(), &40_000.into())
    );
    assert!(job["verdict"].as_str().unwrap().contains("All values refer to the selected window."), "{job}");
    let json: Value = serde_json::from_str(&printed(&folder, window("-0.00008"))).unwrap();
    assert_eq!(json["jobs"][0]["window_ns"], 80_000, "from the beginning");
    let output = gpuprism(&folder, window("1-2"));
    assert!(output.status == 2 && output.stderr.contains("the window is empty or outside the trace"), "{output:?}");
    let path = folder.join("job/rank1.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, &text[..text.len() - 3]).unwrap();
    let cut = printed(&folder, ["ranks", "job"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(cut.contains("rank1.json is cut short or damaged"), "{cut}");
}

#[test]
fn files_that_are_not_ranks_are_skipped_or_refused() {
    let folder = example("ranks_refused");
    std::fs::write(folder.join("job/notes.txt"), "no trace").unwrap();
    let output = gpuprism(&folder, ["ranks", "job"]);
    assert_eq!(output.status, 0, "{output:?}");
    assert!(output.stderr.contains("notes.txt") && output.stderr.contains("file skipped"), "{output:?}");
    let output = gpuprism(&folder, ["ranks", "job/rank0.json"]);
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains("rank 0 is one of 2 ranks, and no other rank of its job is open"), "{output:?}");
    assert_eq!(gpuprism(&folder, ["ranks", "job/notes.txt"]).status, 1, "a file given by name must be a trace");
    let report = printed(&folder, ["report", "job/rank0.json", "--format", "json"]);
    std::fs::write(folder.join("report.json"), report).unwrap();
    let output = gpuprism(&folder, ["ranks", "report.json", "job"]);
    assert!(output.status == 1 && output.stderr.contains("contains no individual collective calls"), "{output:?}");
}

/// Rank 7 is last in five of eight collectives, rank 5 in two and rank 4 in one. An independent program computes the same.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn every_rank_that_delays_a_real_job_is_named_with_its_cause() {
    let folder = shared("traces/torch");
    let json: Value =
        serde_json::from_str(&printed(&folder, ["ranks", "dlrm_v100_8ranks", "--format", "json"])).unwrap();
    let delays = json["jobs"][0]["delays"].as_array().unwrap();
    let numbers = |key: &str| delays.iter().map(|delay| delay[key].clone()).collect::<Vec<Value>>();
    assert_eq!(numbers("rank"), ["rank 7", "rank 5", "rank 4"]);
    assert_eq!(numbers("waiting_per_rank_ns"), [5_077_571, 896_571, 712_428]);
    assert_eq!(numbers("alone_per_rank_ns"), [1_308_000, 101_000, 10_000]);
    let sentence = delays[1]["sentence"].as_str().unwrap();
    let words = "(897 us per rank, of which 101 us for this rank alone; it is last in 2 of 8), because its host launches late. \
         If this rank alone comes earlier, the job gains at most 101 us";
    assert!(sentence.contains(words), "{sentence}");
    // Of 1,308 us some ranks compute meanwhile.
    assert_eq!(
        numbers("gain_ns").iter().map(|gain| gain.as_i64().unwrap() / 1_000).collect::<Vec<_>>(),
        [1_295, 101, 10]
    );
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_gpus_of_one_export_are_compared_as_ranks_without_collectives() {
    let folder = shared("traces/nsys");
    let text = printed(&folder, ["ranks", "h100_2gpu_fastvideo_s3.25.sqlite"]);
    assert!(
        text.starts_with("2 ranks in 969 ms; no collective ran. All ranks spend about the same time in compute."),
        "{text}"
    );
    assert!(text.contains("GPU 0") && !text.contains("Waiting (") && !text.contains("Straggler"), "{text}");
}
