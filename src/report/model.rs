//! The model that a server runs: the sentences of [`super::model_sentences`], and the tables that `gpuprism model` prints. The
//! page and the HTML and Markdown reports show the same sentences.

use super::markdown::{model_lines as markdown_lines, section as markdown_section};
use super::sections::displayed;
use super::table::Table;
use super::{Report, section_table, table};
use crate::analysis::compare::step_times;
use crate::analysis::results::Run;
use crate::analysis::section::{Answer, Section};

/// A choice of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Kinds of layers, their parts, and each layer.
    Layers,
    /// Costs of ops and collectives, and kernels that do not suit the hardware.
    Ops,
    /// Host code while the GPU waited, and graph replays.
    Idle,
    /// The critical path, and what a step would take if something were different.
    WhatIf,
}

/// The table over all runs.
const STEP_TIMES: &str = "compare_step_times";
/// The tables of each run without a choice.
const SHORT: [&str; 4] = ["steps", "step_floor", "layers", "layer_roles"];

impl Part {
    fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Layers => &["layers", "layer_roles", "layer_list"],
            Self::Ops => &["op_costs", "collective_costs", "unsuited_kernels"],
            Self::Idle => &["idle_blame", "graph_coverage"],
            Self::WhatIf => &["critical_path", "what_if", "replay_trust"],
        }
    }

    /// The table for outputs of one table.
    fn main_table(self) -> &'static str {
        match self {
            Self::Layers => "layer_roles",
            Self::Ops => "op_costs",
            Self::Idle => "idle_blame",
            Self::WhatIf => "what_if",
        }
    }
}

/// The ids of the chosen tables; without a choice, those of the overview.
fn ids(parts: &[Part]) -> Vec<&'static str> {
    if parts.is_empty() { SHORT.to_vec() } else { parts.iter().flat_map(|part| part.tables()).copied().collect() }
}

/// The chosen tables that the runs have.
fn tables(report: &Report, parts: &[Part]) -> Vec<Table> {
    let tables = ids(parts).into_iter().filter_map(|id| table(report, id, None)).map(displayed);
    let of_all = step_times_of_all_runs(report, parts).map(|section| section_table(STEP_TIMES, &section));
    if report.runs.len() == 1 { tables.map(Table::without_run).collect() } else { tables.chain(of_all).collect() }
}

/// The line through the decode steps of all runs; `None` for one run, for a choice of tables, or if it is not known.
fn step_times_of_all_runs(report: &Report, parts: &[Part]) -> Option<Section> {
    let labels = report.labels();
    let runs: Vec<(&str, &Run)> = labels.iter().map(String::as_str).zip(&report.runs).collect();
    if parts.is_empty() { step_times(&runs).map(Answer::section) } else { None }
}

/// The sentences and the chosen tables as Markdown.
pub fn markdown(report: &Report, parts: &[Part]) -> String {
    let tables: String = tables(report, parts).iter().map(|table| markdown_section(table, usize::MAX)).collect();
    format!("# Model\n\n{}{tables}", markdown_lines(report))
}

/// The table for outputs of one table. `None` if no run has it.
pub fn main_table(report: &Report, parts: &[Part]) -> Option<Table> {
    table(report, parts.first().copied().unwrap_or(Part::Layers).main_table(), None)
}

#[cfg(not(target_arch = "wasm32"))]
pub use files::{json, text};

/// The output formats of the command line.
#[cfg(not(target_arch = "wasm32"))]
mod files {
    use super::{Part, STEP_TIMES, ids, step_times_of_all_runs, tables};
    use crate::analysis::model_lines::model_lines;
    use crate::report::Report;
    use crate::report::model_sentences::lines;
    use crate::report::table::Table;
    use crate::report::terminal::{section, wrapped};
    use serde_json::{Map, Value, json};

    /// The version of the JSON schema.
    const SCHEMA: &str = "gpuprism-model/1";

    /// The sentences and the chosen tables as plain text, without the notes of the tables; at most `limit` rows of each, 0 for
    /// all. Lines are at most `width` columns wide; without it tables are as wide as their cells.
    pub fn text(report: &Report, parts: &[Part], limit: usize, width: Option<usize>) -> String {
        let compact =
            |table: Table| Table { note: String::new(), figures: Vec::new(), ..table }.without_empty_columns();
        let lines: String = lines(report).iter().map(|line| wrapped(width, "", "  ", &line.text)).collect();
        let tables = tables(report, parts).into_iter().map(compact);
        let text = lines + &tables.map(|table| section(&table, limit, width)).collect::<String>();
        text.trim_start().to_owned()
    }

    /// The sentences and the sections of the chosen tables of each run; docs/json.md lists their fields.
    pub fn json(report: &Report, parts: &[Part]) -> String {
        let runs = report.labels().into_iter().zip(&report.runs).map(|(label, run)| {
            let sections = ids(parts).into_iter().filter_map(|id| Some((id.to_owned(), json!(run.sections.get(id)?))));
            let sections: Map<String, Value> = sections.collect();
            json!({ "label": label, "lines": model_lines(run), "sections": sections })
        });
        let runs: Vec<Value> = runs.collect();
        let mut output = Map::from_iter([("schema".to_owned(), json!(SCHEMA)), ("runs".to_owned(), json!(runs))]);
        output.extend(step_times_of_all_runs(report, parts).map(|section| (STEP_TIMES.to_owned(), json!(section))));
        crate::json::write_indented(&output)
    }
}
