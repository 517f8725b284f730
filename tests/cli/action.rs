//! The GitHub action of `action.yml` runs as a script: on two recorded traces it writes the summary of the job and its outputs, ends
//! with the exit code of `gpuprism diff`, and keeps one comment.

use crate::common::{directory, shared};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn action() -> String {
    std::fs::read_to_string(root().join("action.yml")).unwrap()
}

/// The values of the action's inputs that have a default.
fn defaults() -> BTreeMap<String, String> {
    let (mut defaults, mut input) = (BTreeMap::new(), String::new());
    for line in action().split("\ninputs:\n").nth(1).unwrap().split("\n\n").next().unwrap().lines() {
        match line.trim().split_once(": ") {
            Some(("default", value)) => {
                defaults.insert(input.clone(), value.trim_matches('\'').to_owned());
            }
            Some(_) => {}
            None => input = line.trim().trim_end_matches(':').to_owned(),
        }
    }
    defaults
}

/// Name and expression of each variable that the action sets for its script.
fn variables() -> Vec<(String, String)> {
    let text = action();
    let block = text.split("      env:\n").nth(1).unwrap().split("      run:").next().unwrap();
    let expression = |value: &str| value.trim_start_matches("${{ ").trim_end_matches(" }}").to_owned();
    block
        .lines()
        .map(|line| line.trim().split_once(": ").unwrap())
        .map(|(name, value)| (name.to_owned(), expression(value)))
        .collect()
}

/// Runs the script of the action in `folder` with these inputs, as GitHub does.
fn run(folder: &Path, inputs: &[(&str, &str)], pull_request: &str) -> Output {
    let text = action();
    let command = text.lines().find_map(|line| line.trim().strip_prefix("run: ")).unwrap();
    let mut values = defaults();
    values.insert("gpuprism".to_owned(), env!("CARGO_BIN_EXE_gpuprism").to_owned());
    values.extend(inputs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let context = |expression: &str| match expression {
        "github.action_path" => root().to_str().unwrap().to_owned(),
        "github.event.pull_request.number" => pull_request.to_owned(),
        "github.token" => "token".to_owned(),
        input => values[input.strip_prefix("inputs.").unwrap()].clone(),
    };
    let path = std::env::join_paths(
        [folder.join("bin")].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    Command::new("bash")
        .args(["-c", command])
        .current_dir(folder)
        .envs(variables().iter().map(|(name, expression)| (name, context(expression))))
        .env("PATH", path.unwrap())
        .env("RUNNER_TEMP", folder)
        .env("GITHUB_STEP_SUMMARY", folder.join("summary.md"))
        .env("GITHUB_OUTPUT", folder.join("output"))
        .env("GITHUB_REPOSITORY", "owner/name")
        .output()
        .unwrap()
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_default()
}

/// Two recorded traces of one program: eager, and with CUDA graphs.
fn recorded(name: &str) -> String {
    root().join("examples/traces").join(name).to_str().unwrap().to_owned()
}

/// A `gh` that notes its arguments and the comment that it is to write, and knows of the comments that it lists.
fn fake_gh(folder: &Path, listed: &str) {
    let script = format!(
        "#!/usr/bin/env bash\nall=\"$*\"\necho \"$all\" >> calls\n\
         if [[ $all == *--paginate* ]]; then printf '%s' '{listed}'; else cat \"${{all##*body=@}}\" > comment; fi\n"
    );
    let path = folder.join("bin/gh");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn every_input_of_the_action_reaches_its_script() {
    let script = std::fs::read_to_string(root().join(".github/action/compare.sh")).unwrap();
    let used: Vec<String> = variables().into_iter().map(|(_, expression)| expression).collect();
    for input in ["before", "after"].into_iter().map(str::to_owned).chain(defaults().into_keys()) {
        assert!(used.contains(&format!("inputs.{input}")), "{input}: {used:?}");
    }
    for (name, _) in variables().iter().filter(|(name, _)| name != "GH_TOKEN") {
        assert!(script.contains(&format!("${name}")) || script.contains(&format!("${{{name}")), "{name}");
    }
}

#[test]
fn the_action_compares_two_recorded_traces_and_passes_without_a_regression() {
    let folder = directory("action_passes");
    let (before, after) = (recorded("decoder_eager.json.gz"), recorded("decoder_graph.json.gz"));
    let output = run(&folder, &[("before", &before), ("after", &after)], "");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let summary = read(&folder, "summary.md");
    assert!(summary.starts_with("# Comparison\n") && summary.contains("83.4 % faster"), "{summary}");
    let outputs = read(&folder, "output");
    let comparison = outputs.lines().find_map(|line| line.strip_prefix("comparison=")).unwrap();
    assert!(outputs.starts_with("status=0\n") && std::fs::read_to_string(comparison).unwrap() == summary, "{outputs}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "no comment, no error");
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn a_regression_between_two_recorded_traces_fails_the_job() {
    let folder = directory("action_fails");
    let trace = |name: &str| shared(&format!("traces/torch/{name}.trace.json.gz")).to_str().unwrap().to_owned();
    let (before, after) = (trace("sglang_qwen3_8b_mi300_decode"), trace("vllm_mi300_decode_full_graph"));
    let output = run(&folder, &[("before", &before), ("after", &after), ("regression-percent", "1")], "");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stdout)
            .contains("::error::gpuprism: slower than the baseline by more than 1 %")
    );
    assert!(read(&folder, "summary.md").contains("2.3 % slower"));
    assert!(read(&folder, "output").starts_with("status=3\n"));
}

#[test]
fn runs_that_cannot_be_compared_fail_the_job_and_say_why_in_the_summary() {
    let folder = directory("action_refused");
    let (eager, graph) = (recorded("decoder_eager.json.gz"), recorded("decoder_graph.json.gz"));
    let output = run(&folder, &[("before", &graph), ("after", &eager)], "");
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(read(&folder, "summary.md").contains("The mix of stages differs"));
    let missing = run(&folder, &[("before", "none.json"), ("after", &eager)], "");
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert!(read(&folder, "summary.md").contains("none.json"));
    assert!(String::from_utf8_lossy(&missing.stdout).contains("::error::gpuprism: no comparison"));
}

#[test]
fn a_pull_request_gets_one_comment_which_later_runs_replace() {
    let folder = directory("action_comment");
    let (before, after) = (recorded("decoder_eager.json.gz"), recorded("decoder_graph.json.gz"));
    let inputs = [("before", before.as_str()), ("after", &after), ("comment", "true"), ("redact", "true")];
    fake_gh(&folder, "");
    assert_eq!(run(&folder, &inputs, "7").status.code(), Some(0));
    let comment = read(&folder, "comment");
    assert!(comment.starts_with("<!-- gpuprism diff -->\n# Comparison\n"), "{comment}");
    assert!(comment.contains("83.4 % faster") && !comment.contains("decoder"), "{comment}");
    assert!(read(&folder, "calls").contains("--method POST repos/owner/name/issues/7/comments"));
    fake_gh(&folder, "31\n");
    assert_eq!(run(&folder, &inputs, "7").status.code(), Some(0));
    assert!(read(&folder, "calls").contains("--method PATCH repos/owner/name/issues/comments/31"));
    std::fs::write(folder.join("calls"), "").unwrap();
    assert_eq!(run(&folder, &inputs, "").status.code(), Some(0), "a push has no pull request");
    assert_eq!(read(&folder, "calls"), "");
}
