//! The files of a folder and its subfolders. Cost: one look at each.
//!
//! A folder can contain more than files and folders. A pipe, a socket or a device is never opened: reading it could
//! wait for ever, or have no end. It is left out, and so is a link that leads out of the folder that may be read; a
//! warning says so.

use super::watch::Watch;
use crate::input::folder::{Entry, is_graph_capture, trace_viewer_copies};
use crate::input::known_formats::is_trace_name;
use crate::session;
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Lists all files, sorted by path. With `root`, a real path, no link out of it is followed.
pub(crate) fn entries(folder: &Path, root: Option<&Path>, watch: &dyn Watch) -> Result<Vec<Entry>> {
    let mut walk = Walk { root, visited: BTreeSet::new(), entries: Vec::new(), aside: Aside::default() };
    walk.folder(folder, "")?;
    walk.aside.tell(folder, watch);
    walk.entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(walk.entries)
}

/// Those of these files of a folder that are traces of a run, by their names.
pub(crate) fn traces_in(paths: &[String]) -> Vec<&str> {
    let copies = trace_viewer_copies(paths.iter().map(String::as_str));
    let is_trace = |path: &str| is_trace_name(path.rsplit('/').next().unwrap_or(path));
    // A capture of graphs ran nothing; the traces beside it are the runs.
    let is_run = |path: &&str| is_trace(path) && !is_graph_capture(path) && !copies.contains(*path);
    paths.iter().map(String::as_str).filter(is_run).collect()
}

/// What of a folder is left out, by its name in the folder.
#[derive(Debug, Default)]
pub(super) struct Aside {
    special: Vec<String>,
    outside: Vec<String>,
}

impl Aside {
    /// Takes the name of a pipe, a socket or a device.
    pub(super) fn add_special(&mut self, name: String) {
        self.special.push(name);
    }

    /// Warns of what was left out, if anything was.
    pub(super) fn tell(mut self, folder: &Path, watch: &dyn Watch) {
        const MAX_NAMES: usize = 3;
        for (names, one, many) in [
            (&mut self.special, "a pipe, socket or device", "pipes, sockets or devices"),
            (&mut self.outside, "a link that leads out of the root folder", "links that lead out of the root folder"),
        ] {
            names.sort();
            let (shown, more) = (names.iter().take(MAX_NAMES), names.len().saturating_sub(MAX_NAMES));
            let mut list = shown.cloned().collect::<Vec<String>>().join(", ");
            if more > 0 {
                list += &format!(" and {more} more");
            }
            match names.len() {
                0 => {}
                1 => watch.warn(&format!("{}: skipped {one}: {list}", folder.display())),
                count => watch.warn(&format!("{}: skipped {count} {many}: {list}", folder.display())),
            }
        }
    }
}

struct Walk<'a> {
    root: Option<&'a Path>,
    /// Every folder is visited once, even if links form a cycle.
    visited: BTreeSet<PathBuf>,
    entries: Vec<Entry>,
    aside: Aside,
}

impl Walk<'_> {
    /// Adds the files of `folder`. `path` is its path relative to the first one.
    fn folder(&mut self, folder: &Path, path: &str) -> Result<()> {
        // A profile folder has hundreds of files; the user probably named the wrong folder if there are far more.
        const MAX_FILES: usize = 100_000;
        let failed = |error: std::io::Error| Error::io(folder.display().to_string(), &error);
        if !self.visited.insert(folder.canonicalize().map_err(failed)?) {
            return Ok(());
        }
        for file in std::fs::read_dir(folder).map_err(failed)? {
            let file = file.map_err(failed)?;
            let name = file.file_name().to_string_lossy().into_owned();
            let relative = if path.is_empty() { name } else { format!("{path}/{name}") };
            self.entry(&file.path(), relative)?;
            if self.entries.len() > MAX_FILES {
                return Err(Error::refused(
                    folder.display().to_string(),
                    "more than 100,000 files: give the folder of the profile itself",
                ));
            }
        }
        Ok(())
    }

    fn entry(&mut self, file: &Path, relative: String) -> Result<()> {
        if self.leads_outside(file) {
            self.aside.outside.push(relative);
            return Ok(());
        }
        // Broken links are skipped.
        let Ok(metadata) = std::fs::metadata(file) else { return Ok(()) };
        if metadata.is_dir() {
            return self.folder(file, &relative);
        }
        if metadata.is_file() {
            self.entries.push(session::folder_entry(&relative, metadata.len(), modified_ms(&metadata)));
        } else {
            self.aside.add_special(relative);
        }
        Ok(())
    }

    /// Whether a path is not inside the root. One that cannot be resolved counts as inside: there is nothing to read.
    fn leads_outside(&self, file: &Path) -> bool {
        self.root.is_some_and(|root| file.canonicalize().is_ok_and(|real| !real.starts_with(root)))
    }
}

/// The modification time in milliseconds since 1970, 0 if unknown.
fn modified_ms(metadata: &std::fs::Metadata) -> i64 {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0)
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::process::Command;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Warnings(Mutex<Vec<String>>);

    impl Watch for Warnings {
        fn warn(&self, sentence: &str) {
            self.0.lock().unwrap().push(sentence.to_owned());
        }
    }

    #[test]
    fn pipes_sockets_and_links_out_of_the_root_are_left_out_and_told() {
        let top = std::env::temp_dir().join(format!("gpuprism-entries-{}", std::process::id()));
        let root = top.join("root");
        std::fs::create_dir_all(root.join("inside")).unwrap();
        std::fs::create_dir_all(top.join("outside")).unwrap();
        for file in ["root/inside/a.json", "outside/secret.json", "root/b.json"] {
            std::fs::write(top.join(file), "{}").unwrap();
        }
        assert!(Command::new("mkfifo").arg(root.join("pipe.json")).status().unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(root.join("socket.json")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", root.join("device.json")).unwrap();
        std::os::unix::fs::symlink(top.join("outside"), root.join("link")).unwrap();
        std::os::unix::fs::symlink("b.json", root.join("own.json")).unwrap();
        let root = root.canonicalize().unwrap();
        let listed = |inside: Option<&Path>| {
            let warnings = Warnings::default();
            let entries = entries(&root, inside, &warnings).unwrap();
            let paths: Vec<String> = entries.into_iter().map(|entry| entry.path).collect();
            (paths, warnings.0.into_inner().unwrap())
        };
        let (paths, warnings) = listed(Some(&root));
        assert_eq!(paths, ["b.json", "inside/a.json", "own.json"]);
        let place = root.display();
        assert_eq!(
            warnings,
            [
                format!("{place}: skipped 2 pipes, sockets or devices: pipe.json, socket.json"),
                format!("{place}: skipped 2 links that lead out of the root folder: device.json, link"),
            ]
        );
        // Without a root, links are followed.
        let (paths, warnings) = listed(None);
        assert_eq!(paths, ["b.json", "inside/a.json", "link/secret.json", "own.json"]);
        let all = "device.json, pipe.json, socket.json";
        assert_eq!(warnings, [format!("{place}: skipped 3 pipes, sockets or devices: {all}")]);
        std::fs::remove_dir_all(top).unwrap();
    }
}
