//! Recipes: how to start a server with a profiler on a kind of host, and how to capture from it.
//!
//! `patterns/recipes.json` has the steps per framework and profiler, and how each kind of host starts a server. A recipe is a
//! shell text: comments and commands.

use crate::data::embedded;
use crate::{Error, Result};
use serde::Deserialize;
use std::fmt::Write;
use std::sync::LazyLock;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipes {
    #[serde(rename = "about")]
    _about: String,
    profilers: Vec<Profiler>,
    accelerators: Vec<Accelerator>,
    hosts: Vec<Host>,
    servers: Vec<Server>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Profiler {
    profiler: String,
    title: String,
}

/// What a container needs to see the GPUs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Accelerator {
    accelerator: String,
    /// Flags of `docker run`.
    gpus: String,
    /// The limit of a Kubernetes pod.
    resource: String,
    /// Flags of `sbatch`.
    slurm_gpus: String,
}

/// How a kind of host starts a server.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    host: String,
    title: String,
    /// The URL of the server.
    server: String,
    /// The folder of the traces as this machine sees it.
    traces: String,
    /// Flags of `gpuprism capture` for that folder.
    shared: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    /// The name in `--recipe`: the framework, and the maker of the GPUs if it is not NVIDIA.
    name: String,
    accelerator: String,
    title: String,
    image: String,
    port: u16,
    recipes: Vec<Recipe>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipe {
    profiler: String,
    note: String,
    launch: String,
    /// Steps before the server is started.
    before: Vec<Step>,
    after: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    say: String,
    run: Vec<String>,
}

static RECIPES: LazyLock<Recipes> = LazyLock::new(|| embedded(include_str!("../../patterns/recipes.json")));

/// The program that makes an override of TensorRT-LLM's py_executor.py.
const OVERRIDE: &str = include_str!("../../patterns/trtllm_override.py");

/// The recipes for `FRAMEWORK` or `FRAMEWORK:HOST`, such as `sglang:docker`.
pub fn recipes(name: &str) -> Result<String> {
    let (framework, host) = name.split_once(':').map_or((name, None), |(framework, host)| (framework, Some(host)));
    let has_name = |server: &&Server| server.name == framework;
    let server = RECIPES.servers.iter().find(has_name).ok_or_else(|| unknown(name))?;
    let is_wanted = |entry: &&Host| host.is_none_or(|host| entry.host == host);
    let hosts: Vec<&Host> = RECIPES.hosts.iter().filter(is_wanted).collect();
    if hosts.is_empty() {
        return Err(unknown(name));
    }
    let mut text = String::new();
    for host in hosts {
        for recipe in &server.recipes {
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&render(server, host, recipe));
        }
    }
    Ok(text)
}

fn unknown(name: &str) -> Error {
    let frameworks: Vec<&str> = RECIPES.servers.iter().map(|server| server.name.as_str()).collect();
    let hosts: Vec<&str> = RECIPES.hosts.iter().map(|host| host.host.as_str()).collect();
    Error::usage(format!(
        "--recipe {name}: no such recipe: give FRAMEWORK or FRAMEWORK:HOST with one of {} and one of {}",
        frameworks.join(", "),
        hosts.join(", ")
    ))
}

fn render(server: &Server, host: &Host, recipe: &Recipe) -> String {
    let profiler = RECIPES.profilers.iter().find(|profiler| profiler.profiler == recipe.profiler);
    let profiler = profiler.map_or(recipe.profiler.as_str(), |profiler| profiler.title.as_str());
    let mut text = format!("# {} in {}: {profiler}\n# {}\n", server.title, host.title, recipe.note);
    let steps = recipe.before.iter().chain(&host.steps).chain(&recipe.after);
    for (index, step) in steps.enumerate() {
        let _ = write!(text, "\n# {}. {}\n", index + 1, step.say);
        for command in &step.run {
            let _ = writeln!(text, "{}", filled(command, server, host, recipe));
        }
    }
    text
}

/// Replaces the placeholders of a command.
fn filled(command: &str, server: &Server, host: &Host, recipe: &Recipe) -> String {
    let command = command.replace("{override}", OVERRIDE);
    let accelerator = RECIPES.accelerators.iter().find(|entry| entry.accelerator == server.accelerator);
    let command = accelerator.map_or_else(
        || command.clone(),
        |accelerator| {
            let command = command.replace("{gpus}", &accelerator.gpus).replace("{resource}", &accelerator.resource);
            command.replace("{slurm_gpus}", &accelerator.slurm_gpus)
        },
    );
    let command = command.replace("{launch}", &recipe.launch).replace("{image}", &server.image);
    let command = command.replace("{server}", &host.server).replace("{shared}", &host.shared);
    command.replace("{traces}", &host.traces).replace("{port}", &server.port.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const FRAMEWORKS: [&str; 3] = ["sglang", "vllm", "trtllm"];
    const OTHER_GPUS: [&str; 4] = ["sglang-amd", "vllm-amd", "vllm-ascend", "vllm-intel"];
    const HOSTS: [&str; 3] = ["docker", "slurm", "kubernetes"];

    #[test]
    fn every_framework_has_recipes_for_both_profilers_on_every_host() {
        for framework in FRAMEWORKS {
            for host in HOSTS {
                let text = recipes(&format!("{framework}:{host}")).unwrap();
                let titles = text.lines().filter(|line| line.starts_with("# ") && line.contains(" in ")).count();
                assert!(titles >= 2, "{text}");
                assert!(text.contains("gpuprism capture --server http"), "{text}");
                assert!(text.contains("--cuda-graph-trace=node"), "{text}");
                assert!(text.contains("nsys export"), "{text}");
            }
            let all = recipes(framework).unwrap();
            assert!(HOSTS.iter().all(|host| all.contains(&recipes(&format!("{framework}:{host}")).unwrap())));
        }
    }

    #[test]
    fn every_name_in_the_recipes_is_defined_and_used() {
        let known: Vec<&str> = FRAMEWORKS.into_iter().chain(OTHER_GPUS).collect();
        assert_eq!(RECIPES.servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>(), known);
        for Accelerator { accelerator, .. } in &RECIPES.accelerators {
            assert!(RECIPES.servers.iter().any(|server| server.accelerator == *accelerator), "{accelerator}");
        }
        for server in &RECIPES.servers {
            let has_name = |entry: &Accelerator| entry.accelerator == server.accelerator;
            assert!(RECIPES.accelerators.iter().any(has_name), "{}", server.name);
        }
        let recipes = || RECIPES.servers.iter().flat_map(|server| &server.recipes);
        assert!(recipes().all(|recipe| RECIPES.profilers.iter().any(|known| known.profiler == recipe.profiler)));
        assert!(RECIPES.profilers.iter().all(|known| recipes().any(|recipe| recipe.profiler == known.profiler)));
    }

    /// Each maker's GPUs are given to the container by its own means, and its own profiler is used.
    #[test]
    fn recipes_for_other_gpus_speak_of_them_alone() {
        let expected: [(&str, &[&str]); 4] = [
            (
                "sglang-amd",
                &["/dev/kfd", "amd.com/gpu", "rocprofv3 --kernel-trace", "*_kernel_trace.csv", "HIP graphs"],
            ),
            ("vllm-amd", &["/dev/kfd", "amd.com/gpu", "rocprofv3 --kernel-trace", "torch_profiler_dir", "HIP graphs"]),
            ("vllm-ascend", &["/dev/davinci_manager", "huawei.com/Ascend910", "profiler.analyse", "_ascend_pt"]),
            ("vllm-intel", &["/dev/dri", "gpu.intel.com", "torch_profiler_dir", "XPU"]),
        ];
        for (name, words) in expected {
            let text = recipes(name).unwrap();
            assert!(words.iter().all(|word| text.contains(word)), "{name}: {text}");
            for word in ["nvidia", "--gpus all", "nsys", "cuda-graph-trace", "inside CUDA graphs"] {
                assert!(!text.contains(word), "{name} speaks of {word}");
            }
            assert!(HOSTS.iter().all(|host| text.contains(&recipes(&format!("{name}:{host}")).unwrap())));
        }
    }

    #[test]
    fn no_placeholder_is_left() {
        for framework in FRAMEWORKS.into_iter().chain(OTHER_GPUS) {
            let text = recipes(framework).unwrap().replace(OVERRIDE, "");
            for placeholder in [
                "{launch}",
                "{image}",
                "{server}",
                "{shared}",
                "{traces}",
                "{port}",
                "{override}",
                "{gpus}",
                "{resource}",
                "{slurm_gpus}",
            ] {
                assert!(!text.contains(placeholder), "{placeholder} in {framework}");
            }
        }
    }

    #[test]
    fn recipes_are_valid_shell() {
        for framework in FRAMEWORKS.into_iter().chain(OTHER_GPUS) {
            for host in HOSTS {
                let text = recipes(&format!("{framework}:{host}")).unwrap();
                let Ok(output) = Command::new("bash").args(["-n", "-c", &text]).output() else {
                    println!("skipped: no bash");
                    return;
                };
                let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success() && errors.is_empty(), "{framework}:{host}: {errors}");
            }
        }
    }

    #[test]
    fn an_unknown_recipe_lists_those_there_are() {
        for name in ["triton", "sglang:podman", ""] {
            let error = recipes(name).unwrap_err();
            assert!(error.is_usage() && error.to_string().contains("kubernetes"), "{error}");
        }
    }

    /// Runs the override program on a source with these lines. `None` without Python.
    fn overridden(name: &str, source: &str) -> Option<std::result::Result<String, String>> {
        let path = |suffix: &str| {
            std::env::temp_dir().join(format!("gpuprism-override-{}-{name}-{suffix}", std::process::id()))
        };
        std::fs::write(path("in"), source).unwrap();
        let output = Command::new("python3").arg("-c").arg(OVERRIDE).arg(path("out")).arg(path("in")).output();
        let Ok(output) = output else {
            println!("skipped: no Python");
            return None;
        };
        let result = if output.status.success() {
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), path("in").display().to_string());
            Ok(std::fs::read_to_string(path("out")).unwrap())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let _ = std::fs::remove_file(path("in"));
        let _ = std::fs::remove_file(path("out"));
        Some(result)
    }

    const SOURCE: &str = "        enable_torch_trace = bool(trace_path and start_stop)\n        if enable_torch_trace:\n\
                          \u{20}           torch_profiler = torch.profiler.profile(activities=[a(1)],\n                record_shapes=True,\n            )\n\
                          \u{20}           run()\n";

    #[test]
    fn the_override_adds_stacks_and_leaves_the_trace_to_rank_0() {
        let Some(result) = overridden("source", SOURCE) else { return };
        let text = result.unwrap();
        assert!(
            text.contains("enable_torch_trace = bool(trace_path and start_stop) and self.dist.rank == 0\n"),
            "{text}"
        );
        assert!(text.contains("record_shapes=True, with_stack=True)\n            run()\n"), "{text}");
        // A second time nothing changes.
        assert_eq!(overridden("again", &text).unwrap().unwrap(), text);
    }

    #[test]
    fn an_override_of_another_source_is_an_error_that_names_what_is_missing() {
        for (name, word) in [("switch", "enable_torch_trace = "), ("profiler", "torch_profiler = ")] {
            let Some(result) = overridden(name, &SOURCE.replace(word, "other = ")) else { return };
            let error = result.unwrap_err();
            assert!(error.contains("this release profiles in another way") && error.contains(word), "{error}");
        }
    }
}
