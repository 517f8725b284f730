//! Builds a static Space for Hugging Face: the page with the files of `space/`, ready for upload.

use std::path::Path;

use anyhow::{Context, Result};

use crate::wasm::Purpose;
use crate::{page, project};

/// Builds the page into `out`, or into an empty `target/space`.
pub fn build(out: Option<&Path>) -> Result<()> {
    let own = project::target_dir()?.join("space");
    if out.is_none() && own.exists() {
        std::fs::remove_dir_all(&own).with_context(|| format!("cannot empty {}", own.display()))?;
    }
    let folder = out.unwrap_or(&own);
    page::build(Some(folder), Purpose::Publish)?;
    page::copy_directory(&project::root().join("space"), folder)?;
    println!("upload it with: hf upload USER/SPACE {} --repo-type space", folder.display());
    Ok(())
}
