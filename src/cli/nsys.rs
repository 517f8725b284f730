//! Runs the person's own nsys on an .nsys-rep, which nothing else can read, and says what went wrong.

use super::file_io::label;
use crate::input::nsys_rep_error;
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// True for a report of Nsight Systems, by its name.
pub(super) fn is_report(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "nsys-rep")
}

/// When a file was last written; `None` where there is none.
pub(super) fn written(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|file| file.modified()).ok()
}

/// The export of a report: the one beside it if newer, else one that nsys makes now. Any other file stays itself.
pub(super) fn exported(path: &Path, nsys: &str) -> Result<PathBuf> {
    if !is_report(path) {
        return Ok(path.to_owned());
    }
    let made = std::fs::metadata(path).and_then(|report| report.modified());
    let made = made.map_err(|error| Error::io(path.display().to_string(), &error))?;
    let export = path.with_extension("sqlite");
    let before = written(&export);
    if before.is_some_and(|before| before > made) {
        return Ok(export);
    }
    let mut command = Command::new(nsys);
    command.args(["export", "--type", "sqlite", "--output"]).arg(&export);
    command.args(["--force-overwrite=true", "--lazy=false"]).arg(path);
    // An older export that nsys leaves as it is must not be read.
    run(command, nsys, path, &export, |export| written(export).is_some_and(|now| Some(now) != before))
}

/// Runs `command`, whose first argument says what it does to `path`, until it has made `result`.
pub(super) fn run(
    mut command: Command,
    nsys: &str,
    path: &Path,
    result: &Path,
    is_made: impl Fn(&Path) -> bool,
) -> Result<PathBuf> {
    let task = command.get_args().next().unwrap_or_default().to_string_lossy().into_owned();
    match command.stderr(std::process::Stdio::inherit()).output() {
        Ok(output) if output.status.success() && is_made(result) => Ok(result.to_owned()),
        Ok(output) if output.status.success() => {
            let said = String::from_utf8_lossy(&output.stdout);
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
            let why = format!(
                "`{nsys} {task}` wrote no {}: is there CUDA work in this report? It said: {last}",
                label(result)
            );
            Err(Error::refused(label(path), why))
        }
        Ok(output) => {
            let why = format!("`{nsys} {task}` failed ({}); its own words stand above", output.status);
            Err(Error::refused(label(path), why))
        }
        Err(error) => {
            let remedy = nsys_rep_error(&path.display().to_string());
            let why = format!("cannot be run ({error}); name it with `--nsys_cmd`, or do its part elsewhere: {remedy}");
            Err(Error::refused(nsys, why))
        }
    }
}
