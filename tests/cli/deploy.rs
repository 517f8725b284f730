//! The files of `deploy/` fit the program: the build command, the paths, the flags, the limits. No container engine is needed;
//! `image.rs` runs the steps of the Dockerfile.

use crate::common::{directory, gpuprism};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn text(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

const FILES: [&str; 3] = ["deploy/Dockerfile", "deploy/compose.yaml", "deploy/kubernetes.yaml"];

/// The JSON lists of words in a file that contain the word `serve`.
fn serve_commands(file: &str) -> Vec<Vec<String>> {
    let text = text(file);
    let lists = text.lines().filter(|line| !line.trim_start().starts_with('#')).filter_map(|line| {
        let list = line.get(line.find('[')?..=line.rfind(']')?)?;
        serde_json::from_str::<Vec<String>>(list).ok()
    });
    lists.filter(|words| words.iter().any(|word| word == "serve")).collect()
}

/// The words after each of these instructions.
fn instructions(name: &str) -> Vec<String> {
    let dockerfile = text("deploy/Dockerfile");
    dockerfile.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).map(str::to_owned).collect()
}

#[test]
fn every_serve_command_has_flags_that_the_program_knows() {
    let folder = directory("deploy_flags");
    for file in FILES {
        let commands = serve_commands(file);
        assert!(!commands.is_empty(), "{file}");
        for words in commands {
            let args: Vec<&String> = words.iter().skip_while(|word| *word != "serve").collect();
            let mut args: Vec<&str> = args.into_iter().map(String::as_str).collect();
            if !args.contains(&"--check-health") {
                args.push("--check-health");
            }
            // Nothing need listen there: 2 would be wrong usage.
            let output = gpuprism(&folder, &args);
            assert_ne!(output.status, 2, "{file}: {words:?}: {}", output.stderr);
        }
    }
}

#[test]
fn the_image_is_built_by_cargo_as_documented_and_contains_what_it_runs() {
    let build = instructions("RUN").into_iter().find(|command| command.starts_with("cargo")).unwrap();
    assert_eq!(build, "cargo build --release --locked --bin gpuprism");
    assert!(text("docs/serving.md").contains(&build), "the same command as outside of a container");
    let manifest = text("Cargo.toml");
    assert!(manifest.contains("[[bin]]\nname = \"gpuprism\"\n"));
    let rust = manifest.lines().find_map(|line| line.strip_prefix("rust-version = \"")).unwrap().trim_end_matches('"');
    assert_eq!(instructions("FROM")[0], format!("rust:{rust}-bookworm AS build"));
    let copied = instructions("COPY").into_iter().find(|copy| copy.starts_with("--from=build")).unwrap();
    let [_, from, to] = copied.split(' ').collect::<Vec<_>>()[..] else { panic!("{copied}") };
    assert_eq!(from, format!("{}/target/release/gpuprism", instructions("WORKDIR")[0]));
    assert_eq!(instructions("ENTRYPOINT"), [format!("[\"{to}\"]")]);
    assert!(instructions("HEALTHCHECK")[0].contains(&format!("CMD [\"{to}\", \"serve\", \"--check-health\"")));
    // Debian 12 in both stages: the program runs with the C library that it was built with.
    assert!(instructions("FROM")[1].ends_with("-debian12:nonroot") && instructions("USER") == ["nonroot"]);
}

#[test]
fn the_image_gets_every_file_that_the_build_needs() {
    let ignored = text(".dockerignore");
    for needed in
        ["Cargo.toml", "Cargo.lock", "src", "server", "scan", "xtask", "patterns", "examples", "benches", ".cargo"]
    {
        assert!(Path::new(&root()).join(needed).exists(), "{needed}");
        assert!(ignored.lines().all(|line| line != needed && !line.contains('*')), "{needed}");
    }
}

#[test]
fn containers_have_limits_run_without_root_and_write_only_to_the_spool() {
    let compose = text("deploy/compose.yaml");
    let kubernetes = text("deploy/kubernetes.yaml");
    for words in ["read_only: true", "cap_drop: [ALL]", "mem_limit:", "cpus:", "spool:/tmp", "stop_grace_period: 40s"] {
        assert!(compose.contains(words), "{words}");
    }
    for words in [
        "readOnlyRootFilesystem: true",
        "runAsNonRoot: true",
        "drop: [ALL]",
        "limits: {cpu: \"2\", memory: 4Gi, ephemeral-storage: 18Gi}",
        "mountPath: /tmp",
        "path: /healthz",
        "terminationGracePeriodSeconds: 40",
    ] {
        assert!(kubernetes.contains(words), "{words}");
    }
    // The program's limit is reached first: it answers 503, while a full volume ends the pod.
    let spool_gb = |file| {
        let words = serve_commands(file).remove(0);
        let at = words.iter().position(|word| word == "--spool-gb").unwrap();
        words[at + 1].parse::<f64>().unwrap()
    };
    assert!(spool_gb("deploy/kubernetes.yaml") * 1e9 < 17.0 * f64::from(1 << 30));
    assert_eq!(spool_gb("deploy/compose.yaml"), spool_gb("deploy/kubernetes.yaml"));
}
