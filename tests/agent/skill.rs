//! The commands of the skill run, and print what the skill says.
//!
//! A command is an indented line that starts with `gpuprism`; `# prints: WORDS` after it are words of its output.

use crate::common::{directory, gpuprism, shared};
use std::path::Path;

/// The commands of the skill's files, with the words that they print.
fn commands() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills/gpuprism");
    let mut files = vec![folder.join("SKILL.md")];
    files.extend(std::fs::read_dir(folder.join("references")).unwrap().map(|file| file.unwrap().path()));
    let mut commands = Vec::new();
    for file in files {
        for line in std::fs::read_to_string(file).unwrap().lines() {
            if let Some(command) =
                line.strip_prefix("    ").and_then(|line| line.trim_start().strip_prefix("gpuprism "))
            {
                let (command, words) = command.split_once("# prints: ").unwrap_or((command, ""));
                commands.push((command.trim().to_owned(), words.trim().to_owned()));
            }
        }
    }
    commands
}

/// Copies traces to the names that the skill uses.
fn traces(folder: &Path, shared: &Path) {
    let copy = |from: &str, to: &str| {
        let to = folder.join(to);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(shared.join(from), to).unwrap();
    };
    let decode = "torch/sglang_qwen3_30b_b300_decode.trace.json.gz";
    copy(decode, "trace.json.gz");
    copy(decode, "before.json.gz");
    copy(decode, "after.json.gz");
    copy(decode, "profile/1-TP-0-DECODE.trace.json.gz");
    copy(decode, "graphs/1-TP-0-DECODE.trace.json.gz");
    copy("torch/sglang_qwen3_30b_mi300_decode.trace.json.gz", "eager/1-TP-0-DECODE.trace.json.gz");
    copy("nsys/h100_2gpu_fastvideo_s3.25.sqlite", "trace.sqlite");
    std::fs::create_dir_all(folder.join("runs/qwen3")).unwrap();
    std::fs::create_dir_all(folder.join("job")).unwrap();
    for rank in 0..2 {
        copy(&format!("torch/dlrm_v100_8ranks/rank{rank}.pt.trace.json.gz"), &format!("job/rank{rank}.json.gz"));
    }
}

#[test]
fn the_skill_has_commands() {
    let commands = commands();
    assert!(commands.len() >= 12, "{commands:?}");
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn every_command_of_the_skill_succeeds_and_prints_what_the_skill_says() {
    let folder = directory("agent_skill");
    traces(&folder, &shared("traces"));
    for (command, words) in commands() {
        let (command, output_file) = match command.split_once(" > ") {
            Some((command, file)) => (command, Some(file)),
            None => (command.as_str(), None),
        };
        let output = gpuprism(&folder, command.split_whitespace());
        assert!(output.status == 0, "{command}: {}", output.stderr);
        if let Some(file) = output_file {
            std::fs::write(folder.join(file.trim()), &output.stdout).unwrap();
        }
        for words in words.split("; ") {
            assert!(output.stdout.contains(words), "{command}: no {words:?} in {}", output.stdout);
        }
    }
}

#[test]
fn the_plugin_names_the_skill_and_the_server() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join(".claude-plugin/plugin.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    let skills = root.join(manifest["skills"].as_str().unwrap());
    let skill = std::fs::read_to_string(skills.join("gpuprism/SKILL.md")).unwrap();
    assert!(skill.starts_with("---\nname: gpuprism\ndescription: "), "{skill}");
    assert!(skill.lines().nth(2).unwrap().len() <= 1_024, "the limit of a description");
    let server = &manifest["mcpServers"]["gpuprism"];
    assert_eq!((&server["command"], &server["args"][0]), (&"gpuprism".into(), &"mcp".into()));
}
