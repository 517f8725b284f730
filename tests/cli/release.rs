//! What the workflows of a release run: the scripts of `.github/release/` with the program of this build, and the manifests that name it.

use crate::common::{directory, file_name};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn text(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

fn json(name: &str) -> Value {
    serde_json::from_str(&text(name)).unwrap()
}

/// Runs a script of `.github/release/` in a folder.
fn script(folder: &Path, interpreter: &str, name: &str, args: &[&str]) -> Output {
    let path = root().join(".github/release").join(name);
    Command::new(interpreter)
        .arg(path)
        .args(args)
        .current_dir(folder)
        .env("CARGO_NET_OFFLINE", "true")
        .output()
        .unwrap()
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
}

#[test]
fn all_manifests_name_one_version() {
    let folder = directory("release_version");
    let problems = |tag: &str| lines(&script(&folder, "bash", "check.sh", &[tag]).stderr);
    let of_this = problems(&format!("v{VERSION}"));
    assert!(of_this.iter().all(|line| line.starts_with("CHANGELOG.md has no line")), "{of_this:?}");
    let of_another = problems("v9.9.9");
    for name in [
        "server/Cargo.toml",
        "npm/package.json",
        "vscode/package.json",
        ".claude-plugin/plugin.json",
        "server.json",
        "the image in server.json",
    ] {
        let line = format!("{name} has the version {VERSION}, and the tag 9.9.9");
        assert!(of_another.contains(&line), "{line}: {of_another:?}");
    }
    assert_eq!(script(&folder, "bash", "check.sh", &["v9.9.9"]).status.code(), Some(1));
}

#[test]
fn the_archive_has_the_program_with_its_manual_pages_and_completions() {
    let folder = directory("release_archive");
    let target = "x86_64-unknown-linux-musl";
    let out = folder.to_str().unwrap();
    let packed = script(&folder, "bash", "archive.sh", &[env!("CARGO_BIN_EXE_gpuprism"), target, VERSION, out]);
    assert!(packed.status.success(), "{packed:?}");
    let name = format!("gpuprism-{VERSION}-{target}");
    let unpacked = Command::new("tar").args(["-xzf", &format!("{name}.tar.gz")]).current_dir(&folder).status();
    assert!(unpacked.unwrap().success());
    let content = folder.join(name);
    for file in ["LICENSE", "README.md", "man/gpuprism.1", "man/gpuprism-diff.1", "completions/gpuprism.zsh"] {
        assert!(content.join(file).metadata().unwrap().len() > 0, "{file}");
    }
    let version = Command::new(content.join("gpuprism")).arg("--version").output().unwrap();
    assert_eq!(lines(&version.stdout), [format!("gpuprism {VERSION}")]);
}

const ARCHIVES: [&str; 4] =
    ["aarch64-apple-darwin", "x86_64-apple-darwin", "aarch64-unknown-linux-musl", "x86_64-unknown-linux-musl"];

/// A file of checksums of these archives: that of the first is all zeros, that of the second all ones.
fn sums(folder: &Path, archives: &[&str]) {
    let line = |(number, target): (usize, &&str)| {
        format!("{}  gpuprism-{VERSION}-{target}.tar.gz\n", number.to_string().repeat(64))
    };
    let text: String = archives.iter().enumerate().map(line).collect();
    std::fs::write(folder.join("SHA256SUMS"), text).unwrap();
}

#[test]
fn the_formula_has_the_checksum_of_each_archive_and_is_refused_without_one() {
    let folder = directory("release_formula");
    let formula = || script(&folder, "bash", "formula.sh", &["owner/gpuprism", VERSION, "SHA256SUMS"]);
    sums(&folder, &ARCHIVES);
    let made = formula();
    assert!(made.status.success(), "{made:?}");
    let text = String::from_utf8(made.stdout).unwrap();
    for (number, target) in ARCHIVES.iter().enumerate() {
        let url = format!(
            "url \"https://github.com/owner/gpuprism/releases/download/v{VERSION}/gpuprism-{VERSION}-{target}.tar.gz\""
        );
        let sum = format!("sha256 \"{}\"", number.to_string().repeat(64));
        let (_, after) = text.split_once(&url).unwrap_or_else(|| panic!("no {url} in {text}"));
        assert!(after.trim_start().starts_with(&sum), "{sum}: {text}");
    }
    sums(&folder, &ARCHIVES[..3]);
    let refused = formula();
    assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
    assert!(lines(&refused.stderr)[0].contains(ARCHIVES[3]), "{refused:?}");
}

#[test]
fn the_bill_of_materials_names_what_is_compiled_in_and_no_test_crate() {
    let folder = directory("release_sbom");
    let output = script(&folder, "python3", "sbom.py", &["x86_64-unknown-linux-gnu"]);
    // What other systems need may never have been downloaded here.
    if !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("offline") {
        println!("skipped: crates are missing and there is no network");
        return;
    }
    assert!(output.status.success(), "{output:?}");
    let bill: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(bill["metadata"]["component"]["version"], VERSION);
    let components = bill["components"].as_array().unwrap();
    let named = |name: &str| components.iter().find(|component| component["name"] == name);
    let regex = named("regex").unwrap();
    assert!(
        regex["licenses"][0]["expression"].is_string() && regex["hashes"][0]["content"].as_str().unwrap().len() == 64
    );
    assert!(
        named("axum").is_some() && named("gpuprism-server").is_some(),
        "also what another crate of the workspace needs"
    );
    assert!(named("proptest").is_none() && named("peak_alloc").is_none(), "crates of tests are not in the program");
}

#[test]
fn the_workflows_name_only_scripts_that_exist() {
    let folder = root().join(".github");
    let mut named = 0;
    for workflow in std::fs::read_dir(folder.join("workflows")).unwrap().flatten() {
        let text = std::fs::read_to_string(workflow.path()).unwrap();
        for word in text.split_whitespace().filter(|word| word.starts_with(".github/") || word.starts_with(".ci/")) {
            assert!(root().join(word).is_file(), "{}: {word}", file_name(&workflow.path()));
            named += 1;
        }
    }
    assert!(named >= 5, "{named}");
}

#[test]
fn the_entry_of_the_mcp_registry_starts_the_server() {
    let entry = json("server.json");
    assert!(entry["description"].as_str().unwrap().chars().count() <= 100, "the limit of the registry");
    let package = &entry["packages"][0];
    let mounted = package["runtimeArguments"][0]["value"].as_str().unwrap();
    let folder = directory("release_mcp");
    let mut args = Vec::new();
    for argument in package["packageArguments"].as_array().unwrap() {
        let value = argument["value"].as_str().unwrap();
        args.extend(argument["name"].as_str());
        if value.starts_with('/') {
            assert!(mounted.contains(&format!("dst={value},readonly")), "{mounted}");
            args.push(folder.to_str().unwrap());
        } else {
            args.push(value);
        }
    }
    let output = Command::new(env!("CARGO_BIN_EXE_gpuprism")).args(&args).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    assert!(
        text("deploy/Dockerfile").contains("ENTRYPOINT [\"/usr/local/bin/gpuprism\"]"),
        "the image takes these arguments"
    );
}

#[test]
fn the_marketplace_offers_the_plugin_of_this_repository() {
    let (marketplace, plugin) = (json(".claude-plugin/marketplace.json"), json(".claude-plugin/plugin.json"));
    let offered = &marketplace["plugins"][0];
    assert_eq!((&offered["name"], &offered["description"]), (&plugin["name"], &plugin["description"]));
    assert!(root().join(offered["source"].as_str().unwrap()).join(".claude-plugin/plugin.json").is_file());
}

#[test]
fn reports_of_bugs_ask_for_a_scrubbed_trace() {
    for form in ["bug.yml", "format.yml"] {
        let text = text(&format!(".github/ISSUE_TEMPLATE/{form}"));
        assert!(text.contains("gpuprism scrub ") && text.contains("Never attach a trace as it was recorded"), "{form}");
    }
    assert!(text("SECURITY.md").contains("gpuprism scrub"));
}
