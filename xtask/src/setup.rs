//! Installs the missing tools of a build or of the tests, or reports the command to install them. Prints nothing if all are there.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::command::Run;
use crate::project;

/// A program that must be installed on the system.
struct Tool {
    what: &'static str,
    /// An environment variable with the path of the program.
    variable: Option<&'static str>,
    names: &'static [&'static str],
    debian_package: &'static str,
}

const CPP: Tool =
    Tool { what: "a C++ compiler (for libFuzzer)", variable: None, names: &["c++"], debian_package: "g++" };
/// GCC cannot compile to WebAssembly.
const CLANG: Tool = Tool {
    what: "clang (to compile SQLite, which is written in C, for the page)",
    variable: Some("CC_wasm32_unknown_unknown"),
    names: &["clang"],
    debian_package: "clang",
};
/// Chromium without windows: it starts and opens a page in half the time of a whole browser.
const HEADLESS_SHELL: &str = "chromium-headless-shell";
const CHROMIUM: Tool = Tool {
    what: "Chromium",
    variable: Some("CHROMIUM"),
    names: &[
        HEADLESS_SHELL,
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    ],
    debian_package: HEADLESS_SHELL,
};
const NODE: Tool = Tool { what: "Node.js 20.19 or newer", variable: None, names: &["node"], debian_package: "nodejs" };
const NPM: Tool = Tool { what: "npm", variable: None, names: &["npm"], debian_package: "npm" };

impl Tool {
    fn find(&self) -> Option<PathBuf> {
        match self.named() {
            Some(named) => find_program(&named),
            None => self.names.iter().find_map(|name| find_program(Path::new(name))),
        }
    }

    fn named(&self) -> Option<PathBuf> {
        Some(PathBuf::from(std::env::var_os(self.variable?)?))
    }
}

/// The tools to build the page: Rust's standard library for wasm32 and a C compiler with this target.
pub fn page() -> Result<()> {
    wasm_target()?;
    tools(&[&CLANG])
}

fn wasm_target() -> Result<()> {
    if has_wasm_target()? {
        return Ok(());
    }
    if find_program(Path::new("rustup")).is_none() {
        bail!(
            "Rust's wasm32-unknown-unknown target is missing and rustup, which could add it, is not installed: \
             install the target from the source of your Rust, or install Rust from https://rustup.rs"
        );
    }
    println!("setup: adding Rust's wasm32-unknown-unknown target");
    Run::new("rustup target add wasm32-unknown-unknown").run()?;
    if !has_wasm_target()? {
        bail!(
            "the wasm32-unknown-unknown target was added, but to another rustc than the one in use: \
             compare `rustup which rustc` and `which rustc`"
        );
    }
    Ok(())
}

/// The tools for `cargo xtask test`: those of the page, a C++ compiler, Node with the locked packages, and Chromium.
pub fn test() -> Result<()> {
    page()?;
    tools(&[&CPP, &NODE, &NPM, &CHROMIUM])?;
    node_packages()
}

/// The tools for fuzzing.
pub fn fuzz() -> Result<()> {
    tools(&[&CPP])
}

/// The browser that [`test`] found or installed.
pub fn chromium() -> Result<PathBuf> {
    CHROMIUM.find().context("Chromium is missing; run `cargo xtask setup test`")
}

/// A whole Chromium, as people use it, to measure how the page feels.
pub fn whole_chromium() -> Result<PathBuf> {
    let found = match CHROMIUM.named() {
        Some(named) => find_program(&named),
        None => {
            let mut names = CHROMIUM.names.iter().filter(|name| **name != HEADLESS_SHELL);
            names.find_map(|name| find_program(Path::new(name)))
        }
    };
    found.context("a whole Chromium is missing: on Debian `apt-get install chromium`, or set CHROMIUM=/path/to/it")
}

fn has_wasm_target() -> Result<bool> {
    let directory = Run::new("rustc --print target-libdir --target wasm32-unknown-unknown").output()?;
    let entries = std::fs::read_dir(directory.trim());
    Ok(entries.is_ok_and(|mut entries| entries.next().is_some()))
}

fn tools(wanted: &[&Tool]) -> Result<()> {
    let missing: Vec<_> = wanted.iter().filter(|tool| tool.find().is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if let Some(named) = missing.iter().find_map(|tool| tool.named()) {
        bail!(
            "the program {} does not exist: correct or unset the environment variable that names it",
            named.display()
        );
    }
    let packages: Vec<_> = missing.iter().map(|tool| tool.debian_package).collect();
    if is_debian() && is_root()? {
        println!("setup: installing {}", packages.join(", "));
        Run::new("apt-get update -qq").run()?;
        Run::new("apt-get install -y -qq --no-install-recommends")
            .args(&packages)
            .quiet_env("DEBIAN_FRONTEND", "noninteractive")
            .run()?;
    }
    let Some(tool) = missing.iter().find(|tool| tool.find().is_none()) else {
        return Ok(());
    };
    let variable_hint =
        tool.variable.map_or_else(String::new, |name| format!("; if it is not in PATH, set {name}=/path/to/it"));
    bail!(
        "{} is missing. On Debian:\n    sudo apt-get install {}\n\
         on other systems, use their package manager{variable_hint}",
        tool.what,
        packages.join(" ")
    );
}

pub fn node_packages() -> Result<()> {
    let root = project::root();
    let locked = modified(&root.join("package-lock.json"));
    if locked.is_none() {
        bail!("package-lock.json is missing: restore it with `git checkout package-lock.json`");
    }
    // npm writes this file at the end of each installation.
    let installed = modified(&root.join("node_modules/.package-lock.json"));
    if installed >= locked {
        return Ok(());
    }
    println!("setup: installing the Node packages of package-lock.json");
    Run::new("npm ci --no-audit --no-fund").quiet_env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1").run()
}

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    path.metadata().and_then(|file| file.modified()).ok()
}

fn is_debian() -> bool {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    release.lines().any(|line| line == "ID=debian")
}

fn is_root() -> Result<bool> {
    Ok(Run::new("id -u").output()?.trim() == "0")
}

/// Finds a program by path, or by name in PATH.
pub fn find_program(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|candidate| candidate.is_file())
}
