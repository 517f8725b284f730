//! Runs other programs. Errors contain the command line, so that it can be repeated.

use std::ffi::OsStr;
use std::num::NonZero;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{iter, panic, thread};

use anyhow::{Context, Result, bail};

use crate::project;

/// A command line, run in the repository root.
pub struct Run {
    command: Command,
    shown: String,
}

impl Run {
    /// Splits `line` at spaces into program and arguments.
    pub fn new(line: &str) -> Self {
        let mut words = line.split(' ');
        let program = words.next().unwrap_or_default();
        Self::program(Path::new(program)).args(words)
    }

    /// A program without arguments, by its path.
    pub fn program(path: &Path) -> Self {
        let mut command = Command::new(path);
        command.current_dir(project::root());
        // `cargo xtask` describes the package xtask with these. Build scripts that watch them, such as that of ring, would run again in
        // each change between `cargo` and `cargo xtask`, and all that depends on them would be compiled again.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR" {
                command.env_remove(name);
            }
        }
        Self { command, shown: path.display().to_string() }
    }

    pub fn arg(mut self, value: impl AsRef<OsStr>) -> Self {
        let text = value.as_ref().to_string_lossy();
        if text.contains(' ') {
            self.shown.push_str(&format!(" '{text}'"));
        } else {
            self.shown.push_str(&format!(" {text}"));
        }
        self.command.arg(value);
        self
    }

    pub fn args(self, values: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        values.into_iter().fold(self, Run::arg)
    }

    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        let text = value.as_ref().to_string_lossy();
        self.shown = format!("{key}={text} {}", self.shown);
        self.command.env(key, value);
        self
    }

    /// Sets a variable that errors do not show, because it is long or irrelevant.
    pub fn quiet_env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    pub fn without_env(mut self, key: &str) -> Self {
        self.command.env_remove(key);
        self
    }

    /// Writes both output streams to a file instead of the terminal.
    pub fn log_to(mut self, path: &Path) -> Result<Self> {
        let file = std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        self.command.stderr(file.try_clone()?).stdout(file);
        Ok(self)
    }

    /// Runs to the end. An exit code other than 0 is an error.
    pub fn run(mut self) -> Result<()> {
        let status = self.command.status().with_context(|| format!("cannot start `{}`", self.shown))?;
        if !status.success() {
            bail!("this command failed ({status}):\n    {}", self.shown);
        }
        Ok(())
    }

    /// Runs to the end and returns the standard output.
    pub fn output(mut self) -> Result<String> {
        let output =
            self.command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start `{}`", self.shown))?;
        if !output.status.success() {
            bail!("this command failed ({}):\n    {}", output.status, self.shown);
        }
        String::from_utf8(output.stdout).with_context(|| format!("the output of `{}` is not UTF-8", self.shown))
    }
}

/// The number of processor cores that this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Calls `work` for each item, `at_once` at the same time. The first error of a thread ends that thread and is returned.
pub fn in_parallel<Item: Sync>(
    items: &[Item],
    at_once: usize,
    work: impl Fn(&Item) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let work_until_none_is_left =
        || iter::from_fn(|| items.get(next.fetch_add(1, Ordering::Relaxed))).try_for_each(&work);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work_until_none_is_left)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|cause| panic::resume_unwind(cause)))
    })
}
