//! Formats the history of step times (`analysis::history`): verdicts, a table per series, text, Markdown, JSON.

use super::format::{counted, duration};
use super::markdown::{escape, section as markdown_section};
use super::redact::Redactor;
use super::table::{Cell, Column, Kind, Table};
use super::terminal::{section, wrapped};
use crate::analysis::history::{Judged, Key, Outcome, Point, Series, min_runs, runs_of_drift};
use crate::date;
use crate::digits::grouped;
use crate::json::from_json;
use serde::Serialize;
use serde_json::{Value, json};

/// The version of the JSON schema.
const SCHEMA: &str = "gpuprism-trend/1";
/// The columns of the table of a series. Those of its key are for the table of all series.
const KEY_COLUMNS: [(&str, &str, Kind); 5] = [
    ("model", "model", Kind::Text),
    ("gpu", "GPU", Kind::Text),
    ("gpus", "GPUs", Kind::Number),
    ("framework", "framework", Kind::Text),
    ("stage", "stage", Kind::Text),
];
const COLUMNS: [(&str, &str, Kind); 13] = [
    ("date", "date (UTC)", Kind::Text),
    ("commit", "commit", Kind::Text),
    ("version", "version", Kind::Text),
    ("median_ns", "step", Kind::Time),
    ("band_low_ns", "band from", Kind::Time),
    ("band_high_ns", "band to", Kind::Time),
    ("change_pct", "change", Kind::Share),
    ("outcome", "outcome", Kind::Text),
    ("ranks", "ranks", Kind::Number),
    ("fastest_ns", "fastest rank", Kind::Time),
    ("steps", "steps", Kind::Number),
    ("label", "file", Kind::Text),
    ("run", "run", Kind::Text),
];

/// The texts of a point. The keys tell the redaction what each of them is.
#[derive(Serialize)]
struct Texts {
    model: Option<String>,
    gpu: Option<String>,
    framework: Option<String>,
    stage: String,
    file: String,
    commit: Option<String>,
    version: Option<String>,
}
from_json!(Texts { model, gpu, framework, stage, file, commit, version });

/// The same points without private text, as in a report. Equal texts get equal placeholders, so that the series stay.
pub fn redacted(points: Vec<(Key, Point)>) -> Vec<(Key, Point)> {
    let texts = points.iter().map(|(key, point)| Texts {
        model: key.model.clone(),
        gpu: key.gpu.clone(),
        framework: key.framework.clone(),
        stage: key.stage.clone(),
        file: point.label.clone(),
        commit: point.commit.clone(),
        version: point.version.clone(),
    });
    let texts = Redactor::redact_results(&texts.collect::<Vec<_>>(), std::iter::empty()).unwrap_or_default();
    let with_texts = |((key, point), texts): ((Key, Point), Texts)| {
        let Texts { model, gpu, framework, stage, file, commit, version } = texts;
        (Key { model, gpu, framework, stage, ..key }, Point { label: file, commit, version, ..point })
    };
    points.into_iter().zip(texts).map(with_texts).collect()
}

/// A sentence on the newest state of a series, and one on runs that came back.
pub fn verdict(series: &Series) -> String {
    let came_back = match series.came_back() {
        0 => String::new(),
        count => format!(
            " Before that, {} slower than the band, and later runs came back.",
            counted(&grouped(count as u64), "run was", "runs were")
        ),
    };
    format!("{}: {}{came_back}", title(&series.key), state(series))
}

fn state(series: &Series) -> String {
    let outside = series.outside();
    if let (Some(first), Some(newest)) = (outside.first(), outside.last()) {
        let word = match first.outcome {
            Outcome::Drifted | Outcome::Climbed => "slower by a slow drift",
            Outcome::Slower => "slower",
            _ => "faster",
        };
        let band = first.band.map_or_else(String::new, |band| {
            let half = duration(band.high_ns - band.middle_ns);
            let middle = duration(band.middle_ns);
            let is_drift = outside.iter().all(|judged| judged.outcome != Outcome::Slower);
            let alone = if is_drift { ", although no run alone left the noise of those before it" } else { "" };
            match first.outcome {
                Outcome::Drifted => format!(
                    ", and the median of the newest {} runs is above {middle} \u{b1} {half} of the first {} runs{alone}",
                    runs_of_drift().1,
                    band.runs
                ),
                Outcome::Climbed => format!(
                    ", above {middle} \u{b1} {half}, where a line through the {} newest runs begins{alone}",
                    band.runs
                ),
                _ => format!(" instead of {middle} \u{b1} {half} in the {} runs before it", band.runs),
            }
        });
        let change = |judged: &Judged| change_pct(judged).map_or_else(String::new, |pct| format!(" ({pct:+.1} %)"));
        let since = if outside.len() == 1 {
            String::new()
        } else {
            format!(
                " So are the {} runs since; the newest takes {}{}.",
                outside.len() - 1,
                duration(newest.point.median_ns),
                change(newest)
            )
        };
        return format!(
            "{word} since {}: {}{}{band}.{since}",
            name(first),
            duration(first.point.median_ns),
            change(first)
        );
    }
    match series.newest() {
        Some(newest) => {
            let band = newest.band.map_or_else(String::new, |band| {
                format!(
                    ": {} is within {} to {}",
                    duration(newest.point.median_ns),
                    duration(band.low_ns),
                    duration(band.high_ns)
                )
            });
            format!("the newest run, {}, is within the noise of the runs before it{band}.", name(newest))
        }
        None if series.key.model.is_none() => {
            "no run is judged: what was run is unknown. Name the model with --tag model=NAME.".to_owned()
        }
        None => format!(
            "no run can be judged yet: a band needs {} earlier runs of the same load with a date; so far: {}.",
            min_runs(),
            series.count(Outcome::TooFew)
        ),
    }
}

/// `2026-02-11 09:05 (commit 9f3e, decode.json)`.
fn name(judged: &Judged) -> String {
    let point = &judged.point;
    let commit = point.commit.as_ref().map(|commit| format!("commit {commit}, ")).unwrap_or_default();
    format!("{} ({commit}{})", date_text(judged), point.label)
}

fn date_text(judged: &Judged) -> String {
    judged.point.date_unix_ms.map_or_else(|| "no date".to_owned(), date::text)
}

fn title(key: &Key) -> String {
    let model = key.model.as_deref().unwrap_or("unknown model");
    let gpu = key.gpu.as_deref().unwrap_or("unknown GPU");
    let gpus = key.gpus.filter(|count| *count > 1).map_or_else(String::new, |count| format!("{count} x "));
    let framework = key.framework.as_ref().map(|name| format!(", {name}")).unwrap_or_default();
    format!("{model} on {gpus}{gpu}{framework}, {}", key.stage)
}

/// How far the step is from the median of the earlier runs.
fn change_pct(judged: &Judged) -> Option<f64> {
    let middle_ns = judged.band?.middle_ns;
    Some((judged.point.median_ns - middle_ns) as f64 / middle_ns as f64 * 100.0).filter(|pct| pct.is_finite())
}

/// What the history cannot know, one sentence each.
pub fn limits(all: &[Series]) -> Vec<String> {
    let count = |outcome: Outcome| all.iter().map(|series| series.count(outcome)).sum::<usize>();
    let of = |count: usize| counted(&grouped(count as u64), "point", "points");
    let (base, recent) = runs_of_drift();
    let mut limits = vec![
        "Dates are those of the trace files unless the facts were written with --tag date=YYYY-MM-DD.".to_owned(),
        format!(
            "A slow drift is found when runs get slower from one to the next beyond their noise, or when the median of {recent} \
             runs has left the noise of the first {base} runs; a smaller one is not found."
        ),
    ];
    let mut add = |applies: bool, text: String| limits.extend(applies.then_some(text));
    let undated = count(Outcome::Undated);
    add(undated > 0, format!("{} without a date: their place in the history is unknown.", of(undated)));
    let other = count(Outcome::OtherLoad);
    let why = "batch or tokens per step differ from those of the runs before, so the times are of other work";
    add(other > 0, format!("{} not judged: {why}.", of(other)));
    let has_ranks = all.iter().flat_map(|series| &series.points).any(|judged| judged.point.ranks > 1);
    let ranks = "Ranks of one capture are one run: its step time is that of the slowest rank.";
    add(has_ranks, ranks.to_owned());
    let is_other_gpu =
        |(a, b): (&Series, &Series)| a.key.gpu != b.key.gpu && a.key.model == b.key.model && a.key.stage == b.key.stage;
    let several = all.iter().flat_map(|a| all.iter().map(move |b| (a, b))).any(is_other_gpu);
    add(several, "Runs on different GPUs are different series and are not compared with each other.".to_owned());
    let is_same_date = |pair: &[Judged]| matches!(pair, [a, b] if a.point.date_unix_ms == b.point.date_unix_ms && a.outcome != Outcome::Undated);
    let same_dates = all.iter().flat_map(|series| series.points.windows(2)).any(is_same_date);
    add(same_dates, "Some runs have the same date: their order is that of their ids, not of time.".to_owned());
    limits
}

/// The table of a series.
fn table(series: &Series) -> Table {
    Table {
        id: "trend".to_owned(),
        title: title(&series.key),
        columns: COLUMNS.iter().map(column).collect(),
        rows: series.points.iter().map(row).collect(),
        ..Table::default()
    }
    .without_empty_columns()
}

/// All points in one table, for CSV.
pub fn full_table(all: &[Series]) -> Table {
    let text = |value: &Option<String>| value.clone().map_or(Cell::Empty, Cell::Text);
    let rows = all.iter().flat_map(|series| {
        let key = &series.key;
        let head =
            [text(&key.model), text(&key.gpu), int(key.gpus), text(&key.framework), Cell::Text(key.stage.clone())];
        series.points.iter().map(move |judged| head.iter().cloned().chain(row(judged)).collect())
    });
    Table {
        id: "trend".to_owned(),
        title: "History of step times".to_owned(),
        columns: KEY_COLUMNS.iter().chain(&COLUMNS).map(column).collect(),
        rows: rows.collect(),
        ..Table::default()
    }
}

fn column((key, title, kind): &(&str, &str, Kind)) -> Column {
    Column { key: (*key).to_owned(), title: (*title).to_owned(), kind: *kind }
}

fn int(value: Option<i64>) -> Cell {
    value.map_or(Cell::Empty, Cell::Int)
}

fn row(judged: &Judged) -> Vec<Cell> {
    let (point, band) = (&judged.point, judged.band);
    let text = |value: &Option<String>| value.clone().map_or(Cell::Empty, Cell::Text);
    vec![
        Cell::Text(date_text(judged)),
        text(&point.commit),
        text(&point.version),
        Cell::Ns(point.median_ns),
        band.map_or(Cell::Empty, |band| Cell::Ns(band.low_ns)),
        band.map_or(Cell::Empty, |band| Cell::Ns(band.high_ns)),
        change_pct(judged).map_or(Cell::Empty, Cell::Percent),
        Cell::Text(judged.outcome.word().to_owned()),
        int(i64::try_from(point.ranks).ok().filter(|ranks| *ranks > 1)),
        point.fastest_ns.map_or(Cell::Empty, Cell::Ns),
        int(point.steps),
        Cell::Text(point.label.clone()),
        Cell::Text(point.run.clone()),
    ]
}

/// Verdicts, tables and limits as plain text.
pub fn text(all: &[Series], notes: &[String], width: Option<usize>) -> String {
    let mut text: String = all.iter().map(|series| wrapped(width, "", "  ", &verdict(series))).collect();
    for series in all {
        text += &section(&table(series).without("run"), 0, width);
    }
    text.push('\n');
    notes.iter().chain(&limits(all)).for_each(|sentence| text += &wrapped(width, "- ", "  ", sentence));
    text
}

/// Verdicts, tables and limits as Markdown.
pub fn markdown(all: &[Series], notes: &[String]) -> String {
    let mut text = "# History of step times\n\n".to_owned();
    all.iter().for_each(|series| text += &format!("- **{}**\n", escape(&verdict(series))));
    all.iter().for_each(|series| text += &markdown_section(&table(series).without("run"), usize::MAX));
    text.push('\n');
    notes.iter().chain(&limits(all)).for_each(|sentence| text += &format!("- {}\n", escape(sentence)));
    text
}

/// The JSON for scripts; docs/json.md lists its fields.
pub fn json(all: &[Series], notes: &[String]) -> String {
    let limits: Vec<String> = notes.iter().cloned().chain(limits(all)).collect();
    let whole = json!({
        "schema": SCHEMA,
        "slower": all.iter().any(|series| series.first_slower().is_some()),
        "series": all.iter().map(series_json).collect::<Vec<Value>>(),
        "limits": limits,
    });
    crate::json::write_indented(&whole)
}

fn series_json(series: &Series) -> Value {
    let key = &series.key;
    json!({
        "model": key.model,
        "gpu": key.gpu,
        "gpus": key.gpus,
        "framework": key.framework,
        "stage": key.stage,
        "verdict": verdict(series),
        "outcome": series.newest().map(|newest| newest.outcome.word()),
        "first_outside": series.outside().first().map(|first| &first.point.run),
        "came_back": series.came_back(),
        "runs": series.points.iter().map(point_json).collect::<Vec<Value>>(),
    })
}

fn point_json(judged: &Judged) -> Value {
    let (point, band) = (&judged.point, judged.band);
    json!({
        "run": point.run,
        "label": point.label,
        "date_unix_ms": point.date_unix_ms,
        "commit": point.commit,
        "version": point.version,
        "steps": point.steps,
        "batch": point.batch,
        "tokens": point.tokens,
        "median_ns": point.median_ns,
        "ranks": point.ranks,
        "fastest_ns": point.fastest_ns,
        "band_low_ns": band.map(|band| band.low_ns),
        "band_middle_ns": band.map(|band| band.middle_ns),
        "band_high_ns": band.map(|band| band.high_ns),
        "band_runs": band.map(|band| band.runs),
        "change_pct": change_pct(judged),
        "outcome": judged.outcome.word(),
    })
}
