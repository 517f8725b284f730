//! Paths and names of the build: the repository root, the page's output, cargo's target directory, the host's target triple.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command::Run;

pub fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

pub fn dist() -> PathBuf {
    root().join("dist")
}

/// Cargo's target directory, which configuration or environment may change.
pub fn target_dir() -> Result<PathBuf> {
    let metadata = metadata(&root().join("Cargo.toml"))?;
    let directory = metadata["target_directory"].as_str().context("`cargo metadata` names no target directory")?;
    Ok(PathBuf::from(directory))
}

/// `cargo metadata` of one manifest, without its dependencies.
pub fn metadata(manifest: &Path) -> Result<Value> {
    let text = Run::new("cargo metadata --format-version 1 --no-deps --manifest-path").arg(manifest).output()?;
    serde_json::from_str(&text).context("`cargo metadata` did not print JSON")
}

/// The target triple of this machine, such as `x86_64-unknown-linux-gnu`.
pub fn host() -> Result<String> {
    let text = Run::new("rustc -vV").output()?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::root;

    fn locked_version(package: &str) -> String {
        let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
        let name = format!("name = \"{package}\"");
        let mut lines = lock.lines().skip_while(|line| *line != name).skip(1);
        lines.next().unwrap().to_owned()
    }

    #[test]
    fn wasm_bindgen_and_its_cli_have_the_same_version() {
        let library = locked_version("wasm-bindgen");
        assert!(library.starts_with("version = "), "{library}");
        assert_eq!(library, locked_version("wasm-bindgen-cli-support"));
    }
}
