//! Runs the installed `nsys` program on an `.nsys-rep` file, which only nsys can read.

use super::io::label;
use crate::input::nsys_rep_error;
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Returns true if the file name ends in `.nsys-rep`.
pub(crate) fn is_report(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "nsys-rep")
}

/// The modification time of a file, if it exists.
pub(crate) fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|file| file.modified()).ok()
}

/// Returns the SQLite export of an `.nsys-rep`: the existing one in the same folder if it is newer than the report, else a
/// new one made by nsys. Any other path is returned unchanged.
pub(crate) fn exported(path: &Path, nsys: &str) -> Result<PathBuf> {
    if !is_report(path) {
        return Ok(path.to_owned());
    }
    let report_time = std::fs::metadata(path).and_then(|report| report.modified());
    let report_time = report_time.map_err(|error| Error::io(path.display().to_string(), &error))?;
    let export = path.with_extension("sqlite");
    let old_export_time = modified(&export);
    if old_export_time.is_some_and(|time| time > report_time) {
        return Ok(export);
    }
    let mut command = Command::new(nsys);
    command.args(["export", "--type", "sqlite", "--output"]).arg(&export);
    command.args(["--force-overwrite=true", "--lazy=false"]).arg(path);
    // An old export that nsys did not overwrite must not be read.
    run(command, nsys, path, &export, |export| modified(export).is_some_and(|time| Some(time) != old_export_time))
}

/// Runs an nsys command on `path` and returns `result`, the file that it writes. `is_written` checks that nsys wrote it.
pub(crate) fn run(
    mut command: Command,
    nsys: &str,
    path: &Path,
    result: &Path,
    is_written: impl Fn(&Path) -> bool,
) -> Result<PathBuf> {
    let task = command.get_args().next().unwrap_or_default().to_string_lossy().into_owned();
    match command.stderr(std::process::Stdio::inherit()).output() {
        Ok(output) if output.status.success() && is_written(result) => Ok(result.to_owned()),
        Ok(output) if output.status.success() => {
            let stdout = String::from_utf8_lossy(&output.stdout);
            let last_line = stdout.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("(no output)");
            let why = format!(
                "`{nsys} {task}` wrote no {}: check that the report contains CUDA work. Last output: {last_line}",
                label(result)
            );
            Err(Error::refused(label(path), why))
        }
        Ok(output) => {
            let why = format!("`{nsys} {task}` failed ({}); see its messages above", output.status);
            Err(Error::refused(label(path), why))
        }
        Err(error) => {
            let remedy = nsys_rep_error(&path.display().to_string());
            let why = format!(
                "cannot be run ({error}): give its path with `--nsys_cmd`, or export the report on another machine: {remedy}"
            );
            Err(Error::refused(nsys, why))
        }
    }
}
