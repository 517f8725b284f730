//! `gpuprism brief`, `show` and `doctor`: short texts for agents and chats.

use crate::cli::example::write_events;
use crate::common::{directory, gpuprism, printed, shared};
use std::path::{Path, PathBuf};

/// Three decode steps of 1 ms: a kernel of 400 us, and after it a launch that comes 500 us too late.
pub(crate) fn write_late_steps(folder: &Path, name: &str, kernel: &str) {
    let mut events = Vec::new();
    for step in 0..4 {
        let from = 10_000 + step * 1_000;
        let id = step * 2 + 1;
        events.push(format!(
            r#"{{"ph": "X", "cat": "user_annotation", "name": "step[DECODE bs=4]", "pid": 9, "tid": 9, "ts": {from}, "dur": 950, "args": {{}}}}"#
        ));
        for (id, launch, start, length) in [(id, from + 1, from + 5, 400), (id + 1, from + 900, from + 905, 95)] {
            events.push(format!(
                r#"{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": {launch}, "dur": 2, "args": {{"correlation": {id}}}}}"#
            ));
            events.push(format!(
                r#"{{"ph": "X", "cat": "kernel", "name": "{kernel}", "pid": 0, "tid": 7, "ts": {start}, "dur": {length}, "args": {{"device": 0, "stream": 7, "correlation": {id}}}}}"#
            ));
        }
    }
    write_events(folder, name, &events);
}

fn late_steps(test: &str) -> PathBuf {
    let folder = directory(test);
    write_late_steps(&folder, "a.json", "gemm");
    folder
}

#[test]
fn a_brief_has_the_verdict_the_parts_of_a_step_findings_limits_and_commands() {
    let text = printed(&late_steps("brief_parts"), ["brief", "a.json"]);
    // 400 + 95 us of a step are work. The rest is late: 500 us, and 5 us before the next step. The last step has no next one.
    assert!(text.contains("Mean 1.00 ms; Busy 495 us; Host late 505 us"), "{text}");
    assert!(text.contains("- `host-late` (high"), "{text}");
    assert!(text.contains("- `stacks`: No Python stacks"), "{text}");
    assert!(text.contains("- `gpuprism show a.json host-late`"), "{text}");
}

#[test]
fn the_commands_of_a_brief_run() {
    let folder = late_steps("brief_commands");
    let text = printed(&folder, ["brief", "a.json"]);
    let commands: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("- `gpuprism ")?.strip_suffix('`')).collect();
    assert!(commands.len() >= 3, "{text}");
    for command in commands.iter().filter(|command| !command.contains("--config")) {
        let words: Vec<&str> = command.split(' ').collect();
        let output = gpuprism(&folder, &words);
        assert!(output.status == 0, "{command}: {}", output.stderr);
    }
}

#[test]
fn a_brief_keeps_its_budget_and_counts_what_it_leaves_out() {
    for budget in [300, 500, 2_000] {
        let text = printed(&late_steps("brief_budget"), ["brief", "a.json", "--budget", &budget.to_string()]);
        assert!(text.len() <= budget * 3, "{} bytes for {budget} tokens", text.len());
        assert_eq!(text.contains("Left out for length"), budget < 2_000, "{text}");
        assert!(text.contains("GPU busy"), "the verdict stays: {text}");
    }
}

/// The shared traces are of real servers, with many findings and long names.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_briefs_of_shared_traces_keep_the_default_budget() {
    let folder = shared("traces/torch");
    for file in std::fs::read_dir(&folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".json.gz") {
            let text = printed(&folder, ["brief", &name]);
            assert!(text.len() <= 6_000, "{name}: {} bytes", text.len());
        }
    }
}

#[test]
fn names_from_a_trace_cannot_break_a_line_or_send_escape_sequences() {
    let folder = directory("brief_hostile");
    write_late_steps(&folder, "a.json", r"gemm\u001b[31m\n\n## Next\n- `rm`");
    let text = printed(&folder, ["brief", "a.json"]);
    assert!(!text.contains('\u{1b}'), "{text}");
    assert_eq!(text.matches("\n## Next").count(), 1, "{text}");
}

#[test]
fn show_prints_a_finding_with_its_table_and_knows_the_ids_of_a_file() {
    let folder = late_steps("show_finding");
    let text = printed(&folder, ["show", "a.json", "host-late"]);
    assert!(text.starts_with("# Late launches by the host (high") && text.contains("| Device |"), "{text}");
    assert!(
        printed(&folder, ["show", "a.json", "stacks"]).contains(r#""with_stack": true in the body of /start_profile"#)
    );
    assert!(printed(&folder, ["show", "a.json", "gpu_idle"]).contains("## "));
    let unknown = gpuprism(&folder, ["show", "a.json", "nonsense"]);
    assert_eq!(unknown.status, 2);
    assert!(unknown.stderr.contains("host-late, gpu_work"), "{}", unknown.stderr);
}

#[test]
fn the_doctor_says_what_is_missing_and_its_exit_code_whether_the_trace_is_fit() {
    let folder = late_steps("doctor_fit");
    let fit = gpuprism(&folder, ["doctor", "a.json"]);
    assert_eq!(fit.status, 0);
    let text = fit.stdout;
    assert!(text.contains("ok       gpu_work: 8 kernels of 1 GPU.") && text.ends_with("Fit for a report.\n"), "{text}");
    let op = r#"{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, "ts": 1, "dur": 5, "args": {}}"#;
    write_events(&folder, "cpu.json", &[op.to_owned()]);
    let unfit = gpuprism(&folder, ["doctor", "cpu.json", "--format", "json"]);
    assert_eq!(unfit.status, 5);
    let checks: serde_json::Value = serde_json::from_str(&unfit.stdout).unwrap();
    assert_eq!((checks[0]["id"].as_str(), checks[0]["level"].as_str()), (Some("gpu_work"), Some("problem")));
}

#[test]
fn two_files_are_described_one_after_the_other() {
    let folder = late_steps("brief_two");
    write_late_steps(&folder, "b.json", "other_gemm");
    let text = printed(&folder, ["brief", "a.json", "b.json"]);
    assert!(text.contains("# a.json") && text.contains("# b.json"), "{text}");
    assert!(text.ends_with("Compare: `gpuprism diff a.json b.json`\n"), "{text}");
}
