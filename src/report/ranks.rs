//! Formats the analysis of ranks (`analysis::communication::ranks`): verdicts, tables, terminal text, Markdown, JSON.

use super::format::{duration, percent};
use super::section_table;
use super::table::{Cell, Table};
use crate::analysis::communication::ranks::{Job, Ranks, UngroupedFile};

/// The tables of an analysis of ranks.
pub const TABLES: [&str; 4] = ["ranks", "rank_collectives", "rank_waits", "rank_files"];

/// Columns that are left out if all of their cells are zero or `no`.
const HIDDEN_IF_ZERO: [&str; 13] = [
    "communication_ns",
    "wait_ns",
    "transfer_ns",
    "unmatched_ns",
    "exposed_ns",
    "compute_overlap_ns",
    "outside_ns",
    "collectives",
    "times_last",
    "waited_for_ns",
    "waited_for_pct",
    "straggler",
    "calls_unmatched",
];

/// One or two sentences per job, in the order of the jobs.
///
/// `Rank 3 delays the others: 41 % of the other ranks' time in collectives is waiting for it (it is last in 5 of 8).`
pub fn verdict(ranks: &Ranks) -> Vec<String> {
    let several = ranks.jobs.len() > 1;
    let sentences = |job: &Job| {
        let name = if several { format!("{}: ", job.title) } else { String::new() };
        let windows = job.windows.note().map_or_else(String::new, |text| format!(" {text}"));
        format!("{name}{}{windows}", verdict_of(job))
    };
    ranks.jobs.iter().map(sentences).collect()
}

fn verdict_of(job: &Job) -> String {
    let compute = compute(job);
    if job.matched == 0 {
        let why = if job.unmatched > 0 { "no collective could be matched across them" } else { "no collective ran" };
        return format!("{} ranks in {}; {why}. {compute}", job.ranks.len(), duration(job.window_ns));
    }
    let (wait, all) = job.ranks.iter().fold((0_i64, 0_i64), |(wait, all), rank| {
        let in_collectives = rank.wait_ns.saturating_add(rank.transfer_ns);
        (wait.saturating_add(rank.wait_ns), all.saturating_add(in_collectives))
    });
    let share = percent(wait as f64 / all.max(1) as f64);
    let Some(rank) = job.straggler() else {
        return format!(
            "No single rank delays the others: {share} of the time in {} matched collectives is waiting, spread over the ranks. {compute}",
            job.matched
        );
    };
    format!(
        "{} delays the others: {} of the other ranks' time in collectives is waiting for it (it is last in {} of {}). \
         Look for the cause in the work of this rank; the traces of the others show it as communication. {compute}",
        crate::capitalize(rank.label.clone()),
        percent(rank.waited_for_pct / 100.0),
        rank.times_last,
        rank.collectives
    )
}

/// A sentence about the rank with the longest compute time, relative to the median rank.
fn compute(job: &Job) -> String {
    let longest = job.ranks.iter().max_by(|a, b| a.skew_pct.total_cmp(&b.skew_pct));
    match longest.filter(|rank| rank.skew_pct >= 1.0) {
        Some(rank) => {
            let label = crate::capitalize(rank.label.clone());
            format!("{label} computes {} longer than the median rank.", percent(rank.skew_pct / 100.0))
        }
        None => "All ranks spend about the same time in compute.".to_owned(),
    }
}

/// The files that belong to no job, one sentence each.
pub fn ungrouped(ranks: &Ranks) -> Vec<String> {
    ranks.ungrouped.iter().map(|UngroupedFile { file, reason }| format!("{file} is not grouped: {reason}.")).collect()
}

/// One of the [`TABLES`] with all rows and columns, for exports.
pub fn full_table(ranks: &Ranks, id: &str) -> Option<Table> {
    ranks.sections.get(id).map(|section| section_table(id, section))
}

/// One of the [`TABLES`] for display, without empty columns; `None` if it has no rows.
pub fn table(ranks: &Ranks, id: &str) -> Option<Table> {
    let table = full_table(ranks, id)?.without_empty_columns();
    let is_hidden = |key: &&&str| {
        let index = table.columns.iter().position(|column| column.key == **key);
        index.is_some_and(|index| table.rows.iter().all(|row| row.get(index).is_none_or(is_zero)))
    };
    let hidden: Vec<&&str> = HIDDEN_IF_ZERO.iter().filter(is_hidden).collect();
    let table = hidden.iter().fold(table.clone(), |table, key| table.without(key));
    (!table.rows.is_empty()).then_some(table)
}

/// Whether the cell is zero or `no`.
fn is_zero(cell: &Cell) -> bool {
    match cell {
        Cell::Ns(0) | Cell::Count(0) => true,
        Cell::Percent(value) => *value == 0.0,
        Cell::Text(text) => text == "no",
        _ => false,
    }
}

#[cfg(not(target_arch = "wasm32"))]
pub use files::{json, markdown, text};

/// The output formats of the command line.
#[cfg(not(target_arch = "wasm32"))]
mod files {
    use super::{Job, Ranks, TABLES, table, ungrouped, verdict};
    use crate::analysis::communication::ranks::Rank;
    use crate::report::chart::{PARTS, rank_parts};
    use crate::report::format::clean;
    use crate::report::format::duration;
    use crate::report::markdown::{escape, section as markdown_section};
    use crate::report::terminal::{section, wrapped};
    use serde_json::{Map, Value, json};
    use unicode_width::UnicodeWidthStr;

    /// The version of the JSON schema.
    const SCHEMA: &str = "gpuprism-ranks/1";
    /// The characters that draw the parts of a bar, in the order of [`PARTS`].
    const MARKS: [char; PARTS.len()] = ['#', '=', 'c', '>', 'w', '?', '.', ' '];

    /// Verdicts, bars and tables as plain text.
    pub fn text(ranks: &Ranks) -> String {
        let mut text = String::new();
        verdict(ranks).iter().for_each(|sentence| text += &wrapped("", "  ", sentence));
        ungrouped(ranks).iter().for_each(|sentence| text += &wrapped("  ", "    ", sentence));
        for job in &ranks.jobs {
            text += &format!("\n{}\n{}", clean(&format!("{}: {}", job.title, duration(job.window_ns))), bars(job));
        }
        if !ranks.jobs.is_empty() {
            let legend: Vec<String> = MARKS.iter().zip(PARTS).map(|(mark, part)| format!("{mark} {part}")).collect();
            text += &wrapped("  ", "  ", &legend.join(", "));
        }
        for table in TABLES.iter().filter_map(|id| table(ranks, id)) {
            // These columns do not fit the width of a terminal.
            let hidden = ["device_id", "exposed_ns", "compute_overlap_ns", "outside_ns", "waited_for_ns"];
            text += &section(&hidden.iter().fold(table, |table, key| table.without(key)), 0);
        }
        text
    }

    /// One bar per rank; each is as long as the window of the job.
    fn bars(job: &Job) -> String {
        const WIDTH: i128 = 72;
        let longest = job.ranks.iter().map(|rank| clean(&rank.label).width()).max().unwrap_or(0);
        let mut text = String::new();
        for rank in &job.ranks {
            let (mut bar, mut passed, mut drawn) = (String::new(), 0_i128, 0_i128);
            for (mark, ns) in MARKS.iter().zip(rank_parts(rank)) {
                passed += i128::from(ns);
                let until = passed * WIDTH / i128::from(job.window_ns.max(1));
                (drawn..until).for_each(|_| bar.push(*mark));
                drawn = drawn.max(until);
            }
            let label = clean(&rank.label);
            let blanks = " ".repeat(longest.saturating_sub(label.width()));
            text += &format!("{}\n", format!("  {label}{blanks}  |{bar}|").trim_end());
        }
        text
    }

    /// Verdicts and tables as Markdown.
    pub fn markdown(ranks: &Ranks) -> String {
        let mut text = "# Ranks\n\n".to_owned();
        verdict(ranks).iter().for_each(|sentence| text += &format!("- **{}**\n", escape(sentence)));
        ungrouped(ranks).iter().for_each(|sentence| text += &format!("- {}\n", escape(sentence)));
        for table in TABLES.iter().filter_map(|id| table(ranks, id)) {
            text += &markdown_section(&table, usize::MAX);
        }
        text
    }

    /// The JSON for scripts; docs/json.md lists its fields.
    pub fn json(ranks: &Ranks) -> String {
        let sentences = verdict(ranks);
        let jobs: Vec<Value> = ranks
            .jobs
            .iter()
            .zip(&sentences)
            .map(|(job, verdict)| {
                json!({
                    "title": job.title,
                    "world_size": job.world_size,
                    "verdict": verdict,
                    "straggler": job.straggler().map(|rank| &rank.label),
                    "window_ns": job.window_ns,
                    "collectives_matched": job.matched,
                    "calls_unmatched": job.unmatched,
                    "limits": job.limits,
                    "ranks": job.ranks.iter().map(rank).collect::<Vec<Value>>(),
                })
            })
            .collect();
        let not_grouped: Vec<Value> =
            ranks.ungrouped.iter().map(|file| json!({ "file": file.file, "why": file.reason })).collect();
        let whole = json!({ "schema": SCHEMA, "jobs": jobs, "not_grouped": not_grouped, "sections": ranks.sections });
        serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
    }

    fn rank(rank: &Rank) -> Value {
        let parts = ["compute", "hidden", "other", "transfer", "wait", "unmatched", "idle", "outside"];
        let parts: Map<String, Value> =
            parts.iter().zip(rank_parts(rank)).map(|(part, ns)| (format!("{part}_ns"), ns.into())).collect();
        json!({ "rank": rank.label, "file": rank.file, "device": rank.device, "parts": parts })
    }
}
