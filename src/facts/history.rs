//! The history of step times in folders of facts: the tables `runs` and `stages` joined by run. From the Parquet files of these tables
//! alone; cost two small files per run. Ranks of one capture are one point, with the step time of the slowest: they are one run, not a
//! history. Files that an engine compacted are read, too: they have the column `run`.

use super::captures::{Source, captures};
use super::{RUNS, SCHEMA_FILE};
use crate::analysis::history::{Key, Point, median_error_ns};
use crate::files::{Watch, label};
use crate::{Error, Result, date};
use gpuprism_facts::{Column, Kind, Values};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const STAGES: &str = "stages";
/// The name of a folder that gives the values of the column `run`.
const PARTITION: &str = "run=";
const PARQUET: &str = "parquet";

/// The points of all runs, and what is missing.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) points: Vec<(Key, Point)>,
    /// Runs that were read and are not too old.
    pub(crate) runs: usize,
    /// Runs that could not be read when the facts were written.
    pub(crate) failed: usize,
    /// Runs that have no steps.
    pub(crate) without_steps: usize,
    /// Runs before the first date.
    pub(crate) too_old: usize,
}

/// What the table `runs` says.
struct Run {
    model: Option<String>,
    gpu: Option<String>,
    gpus: Option<i64>,
    framework: Option<String>,
    label: String,
    source: Source,
    commit: Option<String>,
    version: Option<String>,
}

/// Reads the history from these folders of facts. A run that is in several of them counts once. Runs before `since_unix_ms` are left out.
///
/// # Errors
/// A folder is none of facts, or a file cannot be read.
pub(crate) fn read(folders: &[PathBuf], since_unix_ms: Option<i64>, watch: &dyn Watch) -> Result<History> {
    let (mut history, mut runs, mut failed) = (History::default(), BTreeMap::new(), BTreeSet::new());
    for folder in folders {
        check(folder)?;
        for file in parquet_files(&folder.join(format!("table={RUNS}")), watch)? {
            read_runs(&file, &mut runs, &mut failed)?;
        }
    }
    history.failed = failed.iter().filter(|id| !runs.contains_key(*id)).count();
    let all = runs.len();
    runs.retain(|_, run: &mut Run| {
        since_unix_ms.is_none_or(|since| run.source.date_unix_ms.is_none_or(|date| date >= since))
    });
    (history.runs, history.too_old) = (runs.len(), all - runs.len());
    let mut points = BTreeMap::new();
    for folder in folders {
        for file in parquet_files(&folder.join(format!("table={STAGES}")), watch)? {
            read_stages(&file, &runs, &mut points)?;
        }
    }
    let with_steps: BTreeSet<&String> = points.keys().map(|(run, _)| run).collect();
    history.without_steps = runs.len() - with_steps.len();
    let captures = captures(runs.iter().map(|(id, run)| (id, &run.source)));
    history.points = points_of_captures(points, &captures);
    Ok(history)
}

/// Merges the points of the ranks of each capture.
fn points_of_captures(
    points: BTreeMap<(String, String), (Key, Point)>,
    captures: &BTreeMap<String, String>,
) -> Vec<(Key, Point)> {
    let mut by_capture: BTreeMap<(String, String), Vec<(Key, Point)>> = BTreeMap::new();
    for ((run, stage), point) in points {
        by_capture.entry((captures.get(&run).cloned().unwrap_or(run), stage)).or_default().push(point);
    }
    by_capture.into_values().filter_map(of_slowest_rank).collect()
}

/// The point of the slowest rank, with the GPUs of all ranks and the step time of the fastest.
fn of_slowest_rank(ranks: Vec<(Key, Point)>) -> Option<(Key, Point)> {
    let gpus = ranks.iter().try_fold(0_i64, |sum, (key, _)| sum.checked_add(key.gpus?));
    let (count, fastest_ns) = (ranks.len(), ranks.iter().map(|(_, point)| point.median_ns).min());
    // Of equally slow ranks, the first.
    let (key, point) = ranks.into_iter().rev().max_by_key(|(_, point)| point.median_ns)?;
    Some((Key { gpus, ..key }, Point { ranks: count, fastest_ns: fastest_ns.filter(|_| count > 1), ..point }))
}

fn check(folder: &Path) -> Result<()> {
    let refused = |why: &str| Err(Error::refused(folder.display().to_string(), why));
    match std::fs::read_to_string(folder.join(SCHEMA_FILE)) {
        Ok(text) if text != super::schema_text() => {
            refused("facts of another version: write them again with this gpuprism")
        }
        // An archive that an engine wrote has no such file.
        _ if !folder.join(format!("table={RUNS}")).is_dir() => {
            refused("no folder of facts: write one with `gpuprism facts FILES --out DIR`")
        }
        _ => Ok(()),
    }
}

/// The files in a folder and its folders, sorted. None if the folder is missing.
fn parquet_files(folder: &Path, watch: &dyn Watch) -> Result<Vec<PathBuf>> {
    let failed = |error: std::io::Error| Error::io(folder.display().to_string(), &error);
    let mut files = Vec::new();
    let mut folders = if folder.is_dir() { vec![folder.to_owned()] } else { Vec::new() };
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            // Links to folders are not followed, or a circle would have no end.
            let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
            match path.extension() {
                _ if is_folder => folders.push(path),
                Some(end) if end == PARQUET && path.is_file() => files.push(path),
                Some(end) if end == PARQUET && path.exists() && !path.is_dir() => {
                    watch.warn(&format!("{}: skipped a pipe, socket or device", path.display()));
                }
                _ => {}
            }
        }
    }
    files.sort();
    Ok(files)
}

fn read_runs(file: &Path, runs: &mut BTreeMap<String, Run>, failed: &mut BTreeSet<String>) -> Result<()> {
    use Kind::{Int, Text};
    let wanted = [
        ("run", Text),
        ("status", Text),
        ("path", Text),
        ("label", Text),
        ("tags", Text),
        ("model", Text),
        ("gpu", Text),
        ("gpus", Int),
        ("framework", Text),
        ("engine", Text),
        ("framework_version", Text),
        ("modified_unix_ms", Int),
    ];
    for row in Rows::read(file, &wanted)? {
        let Some(id) = row.run(file) else { continue };
        if row.text("status").as_deref() != Some("ok") {
            failed.insert(id);
            continue;
        }
        let tags: BTreeMap<String, String> =
            row.text("tags").and_then(|tags| serde_json::from_str(&tags).ok()).unwrap_or_default();
        let tag = |name: &str| tags.get(name).filter(|value| !value.is_empty()).cloned();
        let run = Run {
            model: tag("model").or_else(|| row.text("model")),
            gpu: row.text("gpu"),
            gpus: row.int("gpus"),
            framework: row.text("framework").or_else(|| row.text("engine")),
            label: row.text("label").unwrap_or_default(),
            source: Source {
                path: row.text("path").unwrap_or_default(),
                tags: row.text("tags").unwrap_or_default(),
                date_unix_ms: tag("date").and_then(|text| date::parse(&text)).or_else(|| row.int("modified_unix_ms")),
            },
            commit: tag("commit"),
            version: row.text("framework_version").or_else(|| tag("version")),
        };
        runs.insert(id, run);
    }
    Ok(())
}

fn read_stages(
    file: &Path,
    runs: &BTreeMap<String, Run>,
    points: &mut BTreeMap<(String, String), (Key, Point)>,
) -> Result<()> {
    use Kind::{Float, Int, Text};
    let wanted = [
        ("run", Text),
        ("stage", Text),
        ("steps", Int),
        ("batch", Float),
        ("tokens", Float),
        ("median_ns", Float),
        ("p10_ns", Float),
        ("p90_ns", Float),
    ];
    for row in Rows::read(file, &wanted)? {
        let (Some(id), Some(median_ns)) = (row.run(file), row.float("median_ns")) else { continue };
        let Some(run) = runs.get(&id).filter(|_| (1.0..9e15).contains(&median_ns)) else { continue };
        let stage = row.text("stage").unwrap_or_default();
        let key = Key {
            model: run.model.clone(),
            gpu: run.gpu.clone(),
            gpus: run.gpus,
            framework: run.framework.clone(),
            stage: stage.clone(),
        };
        let point = Point {
            run: id.clone(),
            label: run.label.clone(),
            date_unix_ms: run.source.date_unix_ms,
            commit: run.commit.clone(),
            version: run.version.clone(),
            steps: row.int("steps"),
            batch: row.float("batch"),
            tokens: row.float("tokens"),
            median_ns: median_ns.round() as i64,
            error_ns: row
                .float("p10_ns")
                .zip(row.float("p90_ns"))
                .zip(row.int("steps"))
                .and_then(|((p10, p90), steps)| median_error_ns(p10, p90, steps)),
            ranks: 1,
            fastest_ns: None,
        };
        points.insert((id, stage), (key, point));
    }
    Ok(())
}

/// The rows of a file.
struct Rows {
    columns: Vec<Column>,
    next: usize,
    rows: usize,
}

impl Rows {
    fn read(file: &Path, wanted: &[(&str, Kind)]) -> Result<Self> {
        let columns = gpuprism_facts::read(file, wanted).map_err(|error| Error::refused(label(file), error))?;
        let rows = columns.first().map_or(0, |column| match &column.values {
            Values::Int(values) => values.len(),
            Values::Float(values) => values.len(),
            Values::Text(values) => values.len(),
        });
        Ok(Self { columns, next: 0, rows })
    }
}

impl Iterator for Rows {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        (self.next < self.rows).then(|| {
            self.next += 1;
            let index = self.next - 1;
            let cell = |column: &Column| {
                let value = match &column.values {
                    Values::Int(values) => Cell::Int(values.get(index).copied().flatten()),
                    Values::Float(values) => Cell::Float(values.get(index).copied().flatten()),
                    Values::Text(values) => Cell::Text(values.get(index).cloned().flatten()),
                };
                (column.name.clone(), value)
            };
            Row(self.columns.iter().map(cell).collect())
        })
    }
}

enum Cell {
    Int(Option<i64>),
    Float(Option<f64>),
    Text(Option<String>),
}

struct Row(BTreeMap<String, Cell>);

impl Row {
    /// The id of the run, from the column of a compacted file or from the name of the folder.
    fn run(&self, file: &Path) -> Option<String> {
        self.text("run").or_else(|| {
            let folder = file.parent()?.file_name()?.to_str()?;
            folder.strip_prefix(PARTITION).map(str::to_owned)
        })
    }

    fn int(&self, name: &str) -> Option<i64> {
        if let Some(Cell::Int(value)) = self.0.get(name) { *value } else { None }
    }

    fn float(&self, name: &str) -> Option<f64> {
        if let Some(Cell::Float(value)) = self.0.get(name) { *value } else { None }
    }

    fn text(&self, name: &str) -> Option<String> {
        if let Some(Cell::Text(value)) = self.0.get(name) { value.clone() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{tables, tests::Silent, tests::scratch};

    fn text(name: &str, value: &str) -> Column {
        Column { name: name.to_owned(), values: Values::Text(vec![Some(value.to_owned())]) }
    }

    fn run(tags: &str) -> Vec<Column> {
        let modified = Column { name: "modified_unix_ms".to_owned(), values: Values::Int(vec![Some(5)]) };
        vec![text("status", "ok"), text("label", "a.json"), text("tags", tags), text("engine", "SGLang"), modified]
    }

    fn stage(median_ns: f64) -> Vec<Column> {
        vec![
            text("stage", "decode"),
            Column { name: "median_ns".to_owned(), values: Values::Float(vec![Some(median_ns)]) },
        ]
    }

    fn write(folder: &Path, table: &str, partition: &str, columns: Vec<Column>) {
        let folder = folder.join(format!("table={table}")).join(partition);
        std::fs::create_dir_all(&folder).unwrap();
        gpuprism_facts::write(&folder.join("facts.parquet"), columns).unwrap();
    }

    #[test]
    fn tags_give_model_date_commit_and_version() {
        let folder = scratch("history_tags");
        write(&folder, "runs", "run=r1", run(r#"{"commit":"1a","date":"2026-01-31","model":"M","version":"0.5"}"#));
        write(&folder, "runs", "run=r2", run("{}"));
        write(&folder, "stages", "run=r1", stage(2000.4));
        write(&folder, "stages", "run=r2", stage(f64::NAN));
        write(&folder, "stages", "run=unknown", stage(3000.0));
        let history = read(std::slice::from_ref(&folder), None, &Silent).unwrap();
        let [(key, point)] = history.points.as_slice() else { panic!("{history:?}") };
        assert_eq!(
            (key.model.as_deref(), key.framework.as_deref(), key.stage.as_str()),
            (Some("M"), Some("SGLang"), "decode")
        );
        assert_eq!((point.commit.as_deref(), point.version.as_deref()), (Some("1a"), Some("0.5")));
        assert_eq!((point.date_unix_ms, point.median_ns), (date::parse("2026-01-31"), 2000));
        assert_eq!((history.runs, history.without_steps), (2, 1));
        // r2 has the date of its file, 1970.
        let since = read(&[folder], date::parse("2026-01-01"), &Silent).unwrap();
        assert_eq!((since.points.len(), since.too_old), (1, 1));
    }

    #[test]
    fn ranks_of_one_capture_are_one_point_with_the_time_of_the_slowest() {
        let folder = scratch("history_ranks");
        for (id, capture, rank, time) in [("r1", 1, 0, 7.0), ("r2", 1, 1, 9.0), ("r3", 2, 0, 8.0), ("r4", 2, 1, 6.0)] {
            let mut columns = run("{}");
            columns.push(text("path", &format!("captures/175700000{capture}-TP-{rank}-DECODE.trace.json.gz")));
            columns.push(Column { name: "gpus".to_owned(), values: Values::Int(vec![Some(1)]) });
            write(&folder, "runs", &format!("run={id}"), columns);
            write(&folder, "stages", &format!("run={id}"), stage(time));
        }
        let history = read(std::slice::from_ref(&folder), None, &Silent).unwrap();
        let found: Vec<_> = history
            .points
            .iter()
            .map(|(key, point)| (key.gpus, point.run.as_str(), point.median_ns, point.ranks, point.fastest_ns))
            .collect();
        assert_eq!(found, [(Some(2), "r2", 9, 2, Some(7)), (Some(2), "r3", 8, 2, Some(6))]);
        assert_eq!(history.runs, 4);
    }

    #[test]
    fn a_compacted_file_is_read_and_a_run_in_two_folders_counts_once() {
        let (fresh, archive) = (scratch("history_fresh"), scratch("history_archive"));
        for (folder, partition) in [(&fresh, "run=r1"), (&archive, "month=2026-01")] {
            let with_run = |mut columns: Vec<Column>| {
                columns.extend((partition != "run=r1").then(|| text("run", "r1")));
                columns
            };
            write(folder, "runs", partition, with_run(run("{}")));
            write(folder, "stages", partition, with_run(stage(7.0)));
        }
        for folders in [vec![fresh.clone()], vec![archive.clone()], vec![fresh, archive]] {
            assert_eq!(read(&folders, None, &Silent).unwrap().points.len(), 1, "{folders:?}");
        }
    }

    #[test]
    fn other_folders_and_damaged_files_are_refused_with_a_remedy() {
        let folder = scratch("history_refused");
        assert!(read(std::slice::from_ref(&folder), None, &Silent).unwrap_err().to_string().contains("gpuprism facts"));
        write(&folder, "runs", "run=r1", run("{}"));
        std::fs::write(folder.join("table=runs/run=r1/facts.parquet"), "PAR1 no").unwrap();
        assert!(read(std::slice::from_ref(&folder), None, &Silent).unwrap_err().to_string().contains("facts.parquet"));
        std::fs::write(folder.join(SCHEMA_FILE), r#"{"schema":0}"#).unwrap();
        assert!(read(&[folder], None, &Silent).unwrap_err().to_string().contains("another version"));
    }

    #[test]
    fn the_columns_that_are_read_are_those_that_are_written() {
        let names = tables::columns_of(STAGES);
        for name in ["stage", "steps", "batch", "tokens", "median_ns", "p10_ns", "p90_ns"] {
            assert!(names.contains(&name), "{name}");
        }
    }
}
