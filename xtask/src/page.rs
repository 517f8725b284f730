//! Builds the page as static files: `www/`, the wasm modules, the book and the example trace. Checks the size of its first load.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use flate2::{Compression, write::GzEncoder};

use crate::program::Program;
use crate::wasm::Purpose;
use crate::{book, offline, project, setup, wasm};

/// The limit for the gzipped size of the files that a first visit loads.
pub const FIRST_LOAD_BUDGET_BYTES: u64 = 490_000;

const EXAMPLE: &str = "example.json.gz";

/// The types of the scripts, which only the type checker reads.
const SCRIPT_TYPES: &str = "types.d.ts";

/// Builds the page into `out`, or into an empty `dist/`. Fails if its first load is too large.
pub fn build(out: Option<&Path>, purpose: Purpose) -> Result<()> {
    setup::page()?;
    let root = project::root();
    for needed in ["www/index.html", "examples/serving_trace.rs"] {
        if !root.join(needed).is_file() {
            bail!("{needed} is missing and the page needs it: restore it with `git checkout {needed}`");
        }
    }
    let dist = match out {
        Some(out) => out.to_owned(),
        None => fresh_dist()?,
    };
    wasm::build(&dist.join("pkg"), purpose)?;
    copy_directory(&root.join("www"), &dist)?;
    fs::remove_file(dist.join(SCRIPT_TYPES)).with_context(|| format!("cannot remove {SCRIPT_TYPES}"))?;
    strip_comments(&dist)?;
    Program::with_example(purpose)?.write_example(&dist.join(EXAMPLE))?;
    book::render(&dist)?;
    list_for_offline(&dist)?;
    check_size(&dist)
}

/// Empties `dist/`, so that a failed build does not leave an old page.
fn fresh_dist() -> Result<PathBuf> {
    let dist = project::dist();
    if dist.exists() {
        fs::remove_dir_all(&dist).with_context(|| format!("cannot empty {}", dist.display()))?;
    }
    Ok(dist)
}

/// Writes the list of files into the service worker.
fn list_for_offline(dist: &Path) -> Result<()> {
    let names = |files: Vec<(String, u64, u64)>| files.into_iter().map(|(name, ..)| name);
    let later = names(on_demand(dist)?).filter(|name| !OFFLINE_FILES.contains(&name.as_str()));
    // Scripts and modules are cached at once although they load later, so that a page that has opened no file yet works offline.
    let (example, needed): (Vec<_>, Vec<_>) = later.partition(|name| name == EXAMPLE);
    let first: Vec<_> = names(first_load(dist)?).chain([OFFLINE_SCRIPT.to_owned()]).chain(needed).collect();
    offline::list_files(dist, &first, &example)
}

pub fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    for file in files_under(from)? {
        let target = to.join(file.strip_prefix(from)?);
        if let Some(directory) = target.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::copy(&file, &target).with_context(|| format!("cannot copy {} to {}", file.display(), target.display()))?;
    }
    Ok(())
}

/// Removes the comments of scripts and style sheets, which a visit need not fetch.
fn strip_comments(dist: &Path) -> Result<()> {
    for path in files_under(dist)? {
        if path.extension().is_some_and(|extension| extension == "js") {
            fs::write(&path, without_comments(&fs::read_to_string(&path)?))?;
        }
        if path.extension().is_some_and(|extension| extension == "css") {
            fs::write(&path, without_blanks(&without_comments(&fs::read_to_string(&path)?)))?;
        }
    }
    Ok(())
}

/// The script without lines that are only a comment, and without indentation. Indentation stays if the script has a template
/// literal of several lines, because it could be part of it. A line that begins with a comment and goes on with code stays.
fn without_comments(script: &str) -> String {
    let mut is_in_comment = false;
    let mut kept = String::new();
    let has_no_long_templates = script.lines().all(|line| line.matches('`').count() % 2 == 0);
    for line in script.lines() {
        let words = line.trim();
        let opens = words.starts_with("/*") && words.find("*/").is_none_or(|end| end + 2 == words.len());
        if !is_in_comment && !opens && !words.starts_with("//") {
            kept += if has_no_long_templates { words } else { line };
            kept.push('\n');
        }
        is_in_comment = (is_in_comment || opens) && !words.ends_with("*/");
    }
    kept
}

/// The style sheet without blanks around braces and semicolons.
fn without_blanks(sheet: &str) -> String {
    let mut kept = String::new();
    for word in sheet.split_inclusive(['{', '}', ';']) {
        let (text, end) = word.split_at(word.len() - usize::from(word.ends_with(['{', '}', ';'])));
        kept += text.trim();
        kept += end;
    }
    kept
}

/// All files in a directory and its subdirectories, sorted by path.
pub fn files_under(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot read the directory {}", directory.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_under(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Prints the sizes of all files, and fails if the first load is too large.
fn check_size(dist: &Path) -> Result<()> {
    let files = first_load(dist)?;
    println!("\n{:>9}  {:>9}  first load", "bytes", "gzipped");
    for (name, bytes, gzipped) in &files {
        println!("{bytes:>9}  {gzipped:>9}  {name}");
    }
    let total = total_gzipped(&files);
    println!("{:>9}  {total:>9}  of {FIRST_LOAD_BUDGET_BYTES}", "total");
    println!("\n{:>9}  {:>9}  loaded on demand", "bytes", "gzipped");
    for (name, bytes, gzipped) in on_demand(dist)? {
        println!("{bytes:>9}  {gzipped:>9}  {name}");
    }
    println!();
    if total > FIRST_LOAD_BUDGET_BYTES {
        bail!("the first load of the page is {total} bytes gzipped, more than {FIRST_LOAD_BUDGET_BYTES}");
    }
    Ok(())
}

/// The gzipped size of the files that a first visit loads from `dist`.
pub fn first_load_gzipped(dist: &Path) -> Result<u64> {
    Ok(total_gzipped(&first_load(dist)?))
}

fn total_gzipped(files: &[(String, u64, u64)]) -> u64 {
    files.iter().map(|(_, _, gzipped)| gzipped).sum()
}

/// All files except those loaded on demand.
fn first_load(dist: &Path) -> Result<Vec<(String, u64, u64)>> {
    file_sizes(dist, |name| !is_on_demand(name))
}

fn on_demand(dist: &Path) -> Result<Vec<(String, u64, u64)>> {
    file_sizes(dist, is_on_demand)
}

/// Name, size and gzipped size of the wanted files, without the book and without the types that wasm-bindgen writes.
fn file_sizes(dist: &Path, wanted: fn(&str) -> bool) -> Result<Vec<(String, u64, u64)>> {
    let mut sizes = Vec::new();
    for path in files_under(dist)? {
        let name = path.strip_prefix(dist)?.to_string_lossy().into_owned();
        if name.starts_with("docs/") || name.ends_with(".d.ts") || !wanted(&name) {
            continue;
        }
        let bytes = fs::read(&path)?;
        sizes.push((name, bytes.len() as u64, gzipped(&bytes)?));
    }
    Ok(sizes)
}

/// Scripts and style sheets that the page loads on demand: with the first file, a tab or a panel.
const LATER_SCRIPTS: &[&str] = &[
    "results.js",
    "exports.js",
    "file-sets.js",
    "overview.js",
    "headline.js",
    "headline.css",
    "causes.js",
    "chart.js",
    "tabs.js",
    "found-row.js",
    "view-link.js",
    "way-back.js",
    "table.js",
    "columns.js",
    "latency.js",
    "stage-window.js",
    "strips.js",
    "timeline.css",
    "timeline-align.js",
    "timeline-input.js",
    "timeline-lanes.js",
    "timeline-legend.js",
    "timeline-moment.js",
    "timeline-paint.js",
    "timeline-search.js",
    "timeline-tiles.js",
    "timeline-view.js",
    "timeline.js",
    "compare.js",
    "dashboard.js",
    "dashboard.css",
    "model.js",
    "panel.js",
    "perfetto.js",
    "ping.js",
    "picture.js",
    "tools.js",
    "tools-worker.js",
    "share.js",
    "link.js",
    "file-link.js",
    "folder.js",
    "graph-captures.js",
    "help.js",
    "virtual.js",
    "rehearsal.js",
    "triage.js",
    "undo.js",
    "pivot.js",
    "ranks.js",
    "kernel.js",
    "kernel-rule.js",
    "kernel.css",
    "rules.js",
    "rules.css",
    "share.css",
    "help.css",
    "open.html",
    "open.js",
    "remote.js",
    "handover.js",
    "database.js",
    "reopen.js",
    "kept-files.js",
    "embed.js",
    "trust.js",
    "embed.css",
    "served.js",
    "served-file.js",
    "served.css",
    "capture.js",
    "capture.css",
];

/// The script that registers the service worker once the page is idle. Cached like a file of the first load.
const OFFLINE_SCRIPT: &str = "offline.js";

/// The files that the page loads when it is idle, to work offline.
const OFFLINE_FILES: [&str; 4] = [OFFLINE_SCRIPT, "offline.html", "offline-frame.js", offline::SERVICE_WORKER];

fn is_on_demand(name: &str) -> bool {
    let mut later = wasm::MODULES.iter().filter(|module| !module.is_first_load);
    name == EXAMPLE
        || LATER_SCRIPTS.contains(&name)
        || OFFLINE_FILES.contains(&name)
        || later
            .any(|module| name == format!("pkg/{}", module.wasm_name()) || name == format!("pkg/{}.js", module.stem))
}

/// The gzipped size. The best level of zlib-rs is about as good as `gzip -6`.
fn gzipped(bytes: &[u8]) -> Result<u64> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::{without_blanks, without_comments};

    #[test]
    fn minified_style_sheets_keep_blanks_within_selectors() {
        let sheet = "a :is(b, c) > d {\n  margin: 0 1px;\n  color: red;\n}\n@media print {\n e { x: y }\n}\n";
        assert_eq!(without_blanks(sheet), "a :is(b, c) > d{margin: 0 1px;color: red;}@media print{e{x: y}}");
    }

    #[test]
    fn only_lines_with_nothing_but_a_comment_are_removed() {
        let script = "// Head.\n\n/** One. */\nlet a = 1; // kept\n/**\n * Two.\n */\n  const url = 'http://x'; /* kept */\n/* c\n d */\nb(a / 2);";
        assert_eq!(without_comments(script), "\nlet a = 1; // kept\nconst url = 'http://x'; /* kept */\nb(a / 2);\n");
        let cast = "/** A\n * b. */\n/** @type {X} */ (a).b();\n";
        assert_eq!(without_comments(cast), "/** @type {X} */ (a).b();\n");
        let template = "// Head.\n  f(`one\n  two`);\n";
        assert_eq!(without_comments(template), "  f(`one\n  two`);\n", "blanks of a template literal are text");
    }
}
