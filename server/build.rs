//! With the feature `embed-page`, writes the built page (`dist/` of the workspace, made by `cargo xtask build`) as gzipped files that
//! `src/view/page.rs` includes. Without it, the program has no page.

#![allow(clippy::print_stdout, reason = "how a build script talks to cargo")]

use flate2::{Compression, write::GzEncoder};
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// Files that the program does not serve: the service worker would keep an old page, the types are for checks.
const LEFT_OUT: [&str; 2] = ["service-worker.js", ".d.ts"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let mut list = String::new();
    if std::env::var_os("CARGO_FEATURE_EMBED_PAGE").is_some() {
        let dist = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../dist");
        println!("cargo::rerun-if-changed={}", dist.display());
        if !dist.join("index.html").is_file() {
            return Err("the feature `embed-page` needs the page in dist/: build it with `cargo xtask build`".into());
        }
        for (number, file) in WalkDir::new(&dist).sort_by_file_name().into_iter().enumerate() {
            let file = file?;
            let path = file.path();
            let name = path.strip_prefix(&dist)?.to_string_lossy().replace('\\', "/");
            if file.file_type().is_dir() || LEFT_OUT.iter().any(|end| name.ends_with(end)) {
                continue;
            }
            let packed = out.join(format!("{number}.gz"));
            fs::write(&packed, gzip(&fs::read(path)?)?)?;
            writeln!(list, "({name:?}, include_bytes!({:?})),", packed.display().to_string())?;
        }
    }
    fs::write(out.join("page.rs"), format!("&[{list}]"))?;
    Ok(())
}

fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}
