//! Installs what a build or the tests still miss, or says the command that does. Quiet when nothing is missing.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::command::Run;
use crate::project;

/// A program that the page or the tests need from the system.
struct Tool {
    what: &'static str,
    /// An environment variable that may name the program instead.
    variable: Option<&'static str>,
    names: &'static [&'static str],
    debian_package: &'static str,
}

const CPP: Tool =
    Tool { what: "a C++ compiler (libFuzzer is C++)", variable: None, names: &["c++"], debian_package: "g++" };
/// GCC has no WebAssembly.
const CLANG: Tool = Tool {
    what: "clang (SQLite is C, and the page reads Nsight Systems exports with it)",
    variable: Some("CC_wasm32_unknown_unknown"),
    names: &["clang"],
    debian_package: "clang",
};
const CHROMIUM: Tool = Tool {
    what: "Chromium",
    variable: Some("CHROMIUM"),
    names: &[
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    ],
    debian_package: "chromium",
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

/// What building the page needs: Rust's standard library for wasm32 and a C compiler that knows it.
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
            "Rust's wasm32-unknown-unknown target is missing and there is no rustup to add it: \
             install the target from where your Rust came from, or Rust from https://rustup.rs"
        );
    }
    println!("setup: adding Rust's wasm32-unknown-unknown target");
    Run::new("rustup target add wasm32-unknown-unknown").run()?;
    if !has_wasm_target()? {
        bail!(
            "the wasm32-unknown-unknown target was added, but not for the rustc that is in use: \
             compare `rustup which rustc` and `which rustc`"
        );
    }
    Ok(())
}

/// What `cargo xtask test` needs: the page's needs, a C++ compiler, Node with the locked packages, Chromium.
pub fn test() -> Result<()> {
    page()?;
    tools(&[&CPP, &NODE, &NPM, &CHROMIUM])?;
    node_packages()
}

/// What fuzzing needs.
pub fn fuzz() -> Result<()> {
    tools(&[&CPP])
}

/// The browser that [`test`] found or installed.
pub fn chromium() -> Result<PathBuf> {
    CHROMIUM.find().context("Chromium is missing; run `cargo xtask setup test`")
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
        bail!("there is no program {}: correct the variable that names it, or unset it", named.display());
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
    let elsewhere =
        tool.variable.map_or_else(String::new, |name| format!("; {name}=/path/to/it names one outside PATH"));
    bail!(
        "{} is missing. On Debian or Ubuntu:\n    sudo apt-get install {}\n\
         on other systems install it their way{elsewhere}",
        tool.what,
        packages.join(" ")
    );
}

fn node_packages() -> Result<()> {
    let root = project::root();
    let locked = modified(&root.join("package-lock.json"));
    if locked.is_none() {
        bail!("package-lock.json is missing: restore it with `git checkout package-lock.json`");
    }
    // npm writes this file at the end of every installation.
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

/// The program of this name or path, searched in PATH as a shell does.
fn find_program(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|candidate| candidate.is_file())
}
