//! Builds the command line with the page in it.

use anyhow::{Context, Result};

use crate::command::Run;
use crate::wasm::Purpose;
use crate::{page, project};

/// Builds the page into `dist/`, then the program, which embeds it.
pub fn build() -> Result<()> {
    page::build(None, Purpose::Publish)?;
    Run::new("cargo build --release --locked --bin gpuprism --features embed-page").run()?;
    let program = project::target_dir()?.join(format!("release/gpuprism{}", std::env::consts::EXE_SUFFIX));
    let bytes = program.metadata().with_context(|| format!("cannot read {}", program.display()))?.len();
    println!("{}: {:.1} MB, with the page", program.display(), bytes as f64 / 1e6);
    Ok(())
}
