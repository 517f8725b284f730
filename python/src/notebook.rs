//! What notebooks show: short pages of the library in frames, because the stylesheet of a frame does not touch the notebook.

use gpuprism::report::chart::{Chart, escape};
use gpuprism::report::html::excerpt;
use gpuprism::report::table::Table;

/// The width of a chart, in pixels.
pub(crate) const WIDTH: u32 = 960;

/// Rows of a table that are shown.
const MAX_ROWS: usize = 12;

// Heights in pixels, for notebooks that do not let the frame fit its height to its content.
const PAGE: u32 = 130;
const LEGEND: u32 = 100;
const LINE: u32 = 24;
const TABLE_ROW: u32 = 30;
const MAX_HEIGHT: u32 = 900;

/// The first rows of a table.
pub(crate) fn table(title: &str, table: Table) -> String {
    summary(title, &[], &[], Some(table))
}

/// Sentences, charts with their legend, and the first rows of a table.
pub(crate) fn summary(title: &str, sentences: &[String], charts: &[Chart], table: Option<Table>) -> String {
    let mut tables: Vec<Table> = table.map(Table::without_run).into_iter().collect();
    let mut height = PAGE + LINE * sentences.len() as u32;
    height += charts.iter().map(|chart| chart.height).sum::<u32>() + if charts.is_empty() { 0 } else { LEGEND };
    for table in &mut tables {
        let all = table.rows.len();
        if all > MAX_ROWS {
            table.rows.truncate(MAX_ROWS);
            table.totals = None;
            table.note = format!("{} The first {MAX_ROWS} of {all} rows are shown.", table.note);
        }
        height += 4 * LINE + TABLE_ROW * table.rows.len() as u32;
    }
    frame(&excerpt(title, sentences, charts, &tables), height.min(MAX_HEIGHT))
}

fn frame(page: &str, height: u32) -> String {
    format!(
        "<iframe srcdoc=\"{}\" style=\"width:100%;height:{height}px;border:0\" \
         onload=\"try{{this.style.height=this.contentDocument.documentElement.offsetHeight+'px'}}catch(e){{}}\"></iframe>",
        escape(page)
    )
}
