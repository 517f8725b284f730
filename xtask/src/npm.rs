//! Writes a folder that npm installs: the second WebAssembly module of the page, with the files of `npm/`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{project, setup, wasm};

/// The module in the package.
const STEM: &str = "gpuprism_full";

/// Builds the module and writes the files that `npm/package.json` lists into `out`, or into an empty `target/npm`.
pub fn build(out: Option<&Path>) -> Result<()> {
    let target = project::target_dir()?;
    let own = target.join("npm");
    if out.is_none() && own.exists() {
        fs::remove_dir_all(&own).with_context(|| format!("cannot empty {}", own.display()))?;
    }
    let (folder, module) = (out.unwrap_or(&own), target.join("npm-module"));
    setup::page()?;
    wasm::build_one(STEM, &module)?;
    fs::create_dir_all(folder)?;
    let package = project::root().join("npm/package.json");
    for name in files(&package)? {
        let source = match name.as_str() {
            "LICENSE" => project::root().to_owned(),
            name if name.starts_with(STEM) => module.clone(),
            _ => project::root().join("npm"),
        };
        copy(&source.join(&name), &folder.join(&name))?;
    }
    copy(&package, &folder.join("package.json"))?;
    println!("install it with: npm install {}", folder.display());
    Ok(())
}

/// The files of the package.
fn files(package: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(package).with_context(|| format!("cannot read {}", package.display()))?;
    let package: Value = serde_json::from_str(&text)?;
    let names = package["files"].as_array().into_iter().flatten();
    Ok(names.filter_map(Value::as_str).map(str::to_owned).collect())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}
