//! The facts of many runs as Parquet files: what `gpuprism facts` writes. One trace is in memory at a time for each worker.
//!
//! The files are `table=NAME/run=ID/facts.parquet` in one folder. Engines such as DuckDB and Spark read these names as the
//! columns `table` and `run` (Hive partitions). ID follows from the bytes of the run's files, so that a run is written once,
//! wherever its files lie. The row of the run in the table `runs` is written last: a run without it is not finished and is written again.
//! A run that cannot be read is a row of `runs`, too, with its reason, in `failed.parquet`; it is tried again each time.

mod captures;
pub(crate) mod history;
mod inputs;
mod redaction;
mod run_row;
mod tables;

pub use inputs::{is_trace_name, traces};

use crate::digits::grouped;
use crate::files::{RunSource, Watch, analyze, label, read_run};
use crate::report::Report;
use crate::session::Choices;
use crate::{Error, Result};
use gpuprism_facts::Column;
use run_row::Described;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The file with the number of the schema.
const SCHEMA_FILE: &str = "facts.json";
const FACTS: &str = "facts.parquet";
const FAILED: &str = "failed.parquet";
const RUNS: &str = "runs";
const BUFFER_BYTES: usize = 1 << 20;

/// A folder of facts, and what is said of all runs that are added.
#[derive(Debug)]
pub struct FactsFolder {
    folder: PathBuf,
    /// A JSON object of texts.
    tags: String,
    limits: Limits,
    is_redacted: bool,
}

/// Which runs are read, and what their rows say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// A run whose files have more bytes together is not read: its row has that as the reason.
    pub max_bytes: Option<u64>,
    /// What the column `path` says instead of the path, for a copy of one run from elsewhere. Of several runs it is the path of the first
    /// one, beside which the others lie.
    pub source: Option<String>,
    /// A reason why the runs could not be read. They are not read, and their rows have it: for a program that read them another way
    /// and failed.
    pub failure: Option<String>,
}

/// Where a run comes from.
struct Place {
    own: String,
    /// What the column `path` says: redacted if that is wanted.
    shown: String,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The run was read and its tables are written.
    Written,
    /// The folder has the run, perhaps from another place.
    Present,
    /// The sentence that the row has, too.
    Failed(String),
}

/// How many runs had each outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Runs whose tables were written.
    pub written: usize,
    /// Runs that the folder had.
    pub present: usize,
    /// Runs that could not be read.
    pub failed: usize,
}

impl FactsFolder {
    /// Opens a folder of facts or creates it.
    ///
    /// # Errors
    /// The folder cannot be created, or another version wrote it with other columns.
    pub fn open(folder: &Path, tags: &[(String, String)]) -> Result<Self> {
        let failed = |error: std::io::Error| Error::io(folder.display().to_string(), &error);
        std::fs::create_dir_all(folder).map_err(failed)?;
        let (file, own) = (folder.join(SCHEMA_FILE), schema_text());
        match std::fs::read_to_string(&file) {
            Ok(text) if text == own => {}
            Ok(_) => {
                let why = "facts of another version with other columns: give another folder";
                return Err(Error::refused(folder.display().to_string(), why));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => std::fs::write(&file, own).map_err(failed)?,
            Err(error) => return Err(failed(error)),
        }
        let tags: serde_json::Map<String, serde_json::Value> =
            tags.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        let tags = serde_json::Value::Object(tags).to_string();
        Ok(Self { folder: folder.to_owned(), tags, limits: Limits::default(), is_redacted: false })
    }

    /// The folder with these limits.
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The folder with placeholders for private text in what is added, but not in the tags. Placeholders count within a run. A model is
    /// left out, because equal placeholders of several runs would look like one model. The id of a run still follows from its bytes.
    pub fn redacted(self, is_redacted: bool) -> Self {
        Self { is_redacted, ..self }
    }

    /// Adds runs with several workers. `report` takes what became of each.
    ///
    /// # Errors
    /// A file in the folder cannot be written; the other workers finish their runs.
    pub fn add_all(
        &self,
        runs: &[Vec<PathBuf>],
        jobs: usize,
        watch: &dyn Watch,
        report: &(dyn Fn(&Path, &Outcome, f64) + Sync),
    ) -> Result<Counts> {
        let next = AtomicUsize::new(0);
        let places = self.places(runs);
        let worker = || -> Result<Counts> {
            let mut counts = Counts::default();
            while let Some((files, place)) = next_of(&next, runs, &places) {
                let started = Instant::now();
                let outcome = self.add(files, place, watch)?;
                match outcome {
                    Outcome::Written => counts.written += 1,
                    Outcome::Present => counts.present += 1,
                    Outcome::Failed(_) => counts.failed += 1,
                }
                let first = files.first().map_or(Path::new(""), PathBuf::as_path);
                report(first, &outcome, started.elapsed().as_secs_f64());
            }
            Ok(counts)
        };
        let all = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..jobs.clamp(1, runs.len().max(1))).map(|_| scope.spawn(worker)).collect();
            let join = |worker: std::thread::ScopedJoinHandle<'_, Result<Counts>>| {
                worker
                    .join()
                    .unwrap_or_else(|_| Err(Error::refused("a worker", "stopped unexpectedly: run the command again")))
            };
            workers.into_iter().map(join).collect::<Vec<_>>()
        });
        all.into_iter().try_fold(Counts::default(), |sum, counts| {
            let counts = counts?;
            Ok(Counts {
                written: sum.written + counts.written,
                present: sum.present + counts.present,
                failed: sum.failed + counts.failed,
            })
        })
    }

    /// Where each run comes from.
    fn places(&self, runs: &[Vec<PathBuf>]) -> Vec<Place> {
        let places = runs.iter().enumerate().map(|(index, files)| self.place(index, files));
        let own: Vec<String> = places.collect();
        let shown = if self.is_redacted { redaction::places(own.iter().cloned()) } else { own.clone() };
        own.into_iter().zip(shown).map(|(own, shown)| Place { own, shown }).collect()
    }

    /// Where the run of these files comes from. `index` is its number among the runs that are added.
    fn place(&self, index: usize, files: &[PathBuf]) -> String {
        let first = files.first().map_or(Path::new(""), PathBuf::as_path);
        match &self.limits.source {
            Some(source) if index == 0 => source.clone(),
            Some(source) => beside(source, &label(first)),
            None => first.display().to_string(),
        }
    }

    /// Adds the run of these files.
    fn add(&self, files: &[PathBuf], place: &Place, watch: &dyn Watch) -> Result<Outcome> {
        let Some(first) = files.first() else { return Ok(Outcome::Present) };
        let described = |bytes| Described { path: first, place: &place.shown, bytes, tags: &self.tags };
        // Without its bytes the run is known by its path alone.
        let id_of_place = text_id(&place.own);
        if let Some((bytes, reason)) = self.too_large(files) {
            return self.fail(&id_of_place, &described(bytes), &reason);
        }
        let (id, bytes) = match identity(files) {
            Ok(found) => found,
            Err(error) => {
                // A run that failed elsewhere may have no file here.
                let reason = self.limits.failure.clone().unwrap_or_else(|| error.to_string());
                return self.fail(&id_of_place, &described(0), &reason);
            }
        };
        if self.partition(RUNS, &id).join(FACTS).is_file() {
            return Ok(Outcome::Present);
        }
        if let Some(reason) = &self.limits.failure {
            return self.fail(&id, &described(bytes), reason);
        }
        let runs = read_run(files, "nsys", watch).and_then(|source| match source {
            RunSource::Trace(_) => analyze::runs_of(&source, first, &Choices::default(), watch),
            RunSource::Report(Report { runs, .. }) => Ok(runs),
        });
        match runs {
            Ok(runs) => {
                let runs = if self.is_redacted { redaction::runs(runs) } else { runs };
                // The first run is written last, because its row says that all are written.
                for (index, run) in runs.iter().enumerate().rev() {
                    let id = if index == 0 { id.clone() } else { format!("{id}-{index}") };
                    for (table, columns) in tables::of_run(run) {
                        self.write(table, &id, FACTS, columns)?;
                    }
                    self.write(RUNS, &id, FACTS, described(bytes).of_run(run))?;
                }
                // The rows of earlier attempts, if there were any: with these bytes, or when the file had none.
                for id in [&id, &id_of_place] {
                    let _ = std::fs::remove_file(self.partition(RUNS, id).join(FAILED));
                }
                if runs.is_empty() {
                    self.fail(&id, &described(bytes), "a report without runs")
                } else {
                    Ok(Outcome::Written)
                }
            }
            Err(error) => self.fail(&id, &described(bytes), &error.to_string()),
        }
    }

    /// The bytes of the files and the reason, if they are more than the limit.
    fn too_large(&self, files: &[PathBuf]) -> Option<(u64, String)> {
        let max = self.limits.max_bytes?;
        let bytes =
            files.iter().filter_map(|path| Some(std::fs::metadata(path).ok()?.len())).fold(0, u64::saturating_add);
        let name = files.first().map_or_else(String::new, |path| label(path));
        let reason = format!(
            "{name}: {} bytes, more than the limit of {}: raise it to read this run",
            grouped(bytes),
            grouped(max)
        );
        (bytes > max).then_some((bytes, reason))
    }

    fn fail(&self, id: &str, described: &Described, reason: &str) -> Result<Outcome> {
        let row = match self.is_redacted {
            true => described.of_failure(&redaction::sentence(reason), described.place),
            false => described.of_failure(reason, &label(described.path)),
        };
        self.write(RUNS, id, FAILED, row)?;
        Ok(Outcome::Failed(reason.to_owned()))
    }

    fn partition(&self, table: &str, id: &str) -> PathBuf {
        self.folder.join(format!("table={table}")).join(format!("run={id}"))
    }

    fn write(&self, table: &str, id: &str, file: &str, columns: Vec<Column>) -> Result<()> {
        let folder = self.partition(table, id);
        std::fs::create_dir_all(&folder).map_err(|error| Error::io(folder.display().to_string(), &error))?;
        gpuprism_facts::write(&folder.join(file), columns).map_err(|error| Error::refused(label(&self.folder), &error))
    }
}

/// The path of a file in the folder of another one.
fn beside(path: &str, name: &str) -> String {
    path.rsplit_once('/').map_or_else(|| name.to_owned(), |(folder, _)| format!("{folder}/{name}"))
}

/// The next run and its place.
fn next_of<'a>(
    next: &AtomicUsize,
    runs: &'a [Vec<PathBuf>],
    places: &'a [Place],
) -> Option<(&'a Vec<PathBuf>, &'a Place)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    Some((runs.get(index)?, places.get(index)?))
}

impl Counts {
    /// `300 runs: 290 written, 8 already there, 2 failed`.
    pub fn text(&self) -> String {
        let all = self.written + self.present + self.failed;
        let number = |count: usize| grouped(count as u64);
        let runs = if all == 1 { "run" } else { "runs" };
        format!(
            "{} {runs}: {} written, {} already there, {} failed",
            number(all),
            number(self.written),
            number(self.present),
            number(self.failed)
        )
    }
}

/// The content of [`SCHEMA_FILE`].
fn schema_text() -> String {
    format!("{{\"schema\":{}}}\n", tables::schema())
}

/// The id of the run, and the number of its bytes.
fn identity(files: &[PathBuf]) -> Result<(String, u64)> {
    let (mut hash, mut bytes) = (Sha256::new(), 0_u64);
    let mut buffer = vec![0; BUFFER_BYTES];
    for path in files {
        let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
        let mut file = std::fs::File::open(path).map_err(failed)?;
        loop {
            let read = file.read(&mut buffer).map_err(failed)?;
            if read == 0 {
                break;
            }
            hash.update(buffer.get(..read).unwrap_or_default());
            bytes += read as u64;
        }
    }
    Ok((id_of(hash), bytes))
}

fn text_id(text: &str) -> String {
    id_of(Sha256::new_with_prefix(text))
}

/// A letter and 16 hexadecimal digits: without the letter, engines take some ids for numbers.
fn id_of(hash: Sha256) -> String {
    const DIGEST_BYTES: usize = 8;
    hash.finalize().iter().take(DIGEST_BYTES).fold("r".to_owned(), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    })
}

#[cfg(test)]
mod tests;
