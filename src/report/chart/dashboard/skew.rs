//! Panel: communication time of each rank, relative to the median rank.

use super::rows::{self, Measure, Row};
use super::{COMMUNICATION, PanelResult, View, exact, percent};
use crate::analysis::dashboard::{capture_ranks, has_ranks, matching_row, most_skewed, number};
use crate::analysis::section::Record;
use crate::report::palette;

const MAX_BARS: usize = 16;

pub(super) fn draw(view: &View) -> PanelResult {
    let section = view.section("nccl_rank_skew")?;
    view.require_communication()?;
    if !has_ranks(section) {
        let why = "Skew compares ranks, but every operation of this trace has only one rank. Open the traces of several \
                   ranks together to compare them.";
        return Err((why.to_owned(), capture_ranks(view.run.format).to_owned()));
    }
    let other = view.baseline_section("nccl_rank_skew");
    let bar = |row: &Record| {
        let skew = number(row, "skew_vs_median_pct")?;
        let (operation, rank) = (row.text("op_name"), row.text("rank_label"));
        let base = matching_row(other, row, &["op_name", "rank_label"]);
        let base = base.and_then(|row| Some((number(row, "skew_vs_median_pct")?, exact(row, "skew_vs_median_pct"))));
        let baseline_text = base.as_ref().map(|(_, exact)| format!("; baseline {exact} %")).unwrap_or_default();
        let sign = if skew > 0.0 { "+" } else { "" };
        Some(Row {
            label: format!("{operation} {rank}"),
            class: format!("seg {}", palette::class(COMMUNICATION)),
            value: skew,
            value_text: format!("{sign}{}", percent(row, "skew_vs_median_pct").unwrap_or_default()),
            tooltip: format!(
                "{operation}, {rank}: {sign}{} % from the median rank, {} ms in total, longest {} ms{baseline_text}",
                exact(row, "skew_vs_median_pct"),
                exact(row, "total_time_ms"),
                exact(row, "max_duration_ms"),
            ),
            baseline: base.map(|(value, exact)| (value, format!("Baseline: {operation}, {rank}: {exact} %"))),
            ..Row::default()
        })
    };
    let rows: Vec<Row> = most_skewed(section, MAX_BARS).into_iter().filter_map(bar).collect();
    let left_out = section.rows.len().saturating_sub(MAX_BARS);
    let left_out = if left_out > 0 {
        format!(" {left_out} rows nearer to the median are only in the table.")
    } else {
        String::new()
    };
    let note = format!(
        "The rank that arrives last waits least, so the rank with the least time may be the cause.{left_out}{}",
        view.baseline_note()
    );
    let x_name = "Time in collectives vs. the median rank (%)";
    rows::panel(view, "Ranks compared with the median rank", note, &rows, Measure::Plain, x_name)
}
