//! How far each rank's communication is from that of the median rank.

use super::rows::{self, Measure, Row};
use super::{Drawn, View, exact, first_few, percent};
use crate::analysis::dashboard::{capture_ranks, has_ranks, most_skewed, number, same};
use crate::analysis::section::Record;
use crate::report::palette;

const MOST: usize = 16;

pub(super) fn draw(view: &View) -> Drawn {
    let section = view.section("nccl_rank_skew")?;
    view.needs_communication()?;
    if !has_ranks(section) {
        let why = "Skew is between ranks, and no operation of this trace has more than one. Traces of several ranks that are \
                   opened together in gpuprism are held against each other."
            .to_owned();
        return Err((why, capture_ranks(view.run.format).to_owned()));
    }
    let other = view.of_baseline("nccl_rank_skew");
    let bar = |row: &Record| {
        let skew = number(row, "skew_vs_median_pct")?;
        let (operation, rank) = (row.text("op_name"), row.text("rank_label"));
        let base = same(other, row, &["op_name", "rank_label"]);
        let base = base.and_then(|row| Some((number(row, "skew_vs_median_pct")?, exact(row, "skew_vs_median_pct"))));
        let beside = base.as_ref().map(|(_, exact)| format!("; baseline {exact} %")).unwrap_or_default();
        let sign = if skew > 0.0 { "+" } else { "" };
        Some(Row {
            label: format!("{operation} {rank}"),
            class: format!("seg {}", palette::class("communication")),
            value: skew,
            told: format!("{sign}{}", percent(row, "skew_vs_median_pct").unwrap_or_default()),
            title: format!(
                "{operation}, {rank}: {sign}{} % from the median rank, {} ms in all, {} ms the longest{beside}",
                exact(row, "skew_vs_median_pct"),
                exact(row, "total_time_ms"),
                exact(row, "max_duration_ms"),
            ),
            baseline: base.map(|(value, exact)| (value, format!("Baseline: {operation}, {rank}: {exact} %"))),
            part: None,
            kernel: None,
        })
    };
    let rows: Vec<Row> = most_skewed(section, MOST).into_iter().filter_map(bar).collect();
    let told: Vec<String> = rows.iter().map(|row| format!("{} {}", super::short(&row.label), row.told)).collect();
    let summary = format!("Ranks beside the median rank: {}.", first_few(&told));
    let left_out = section.rows.len().saturating_sub(MOST);
    let left_out =
        if left_out > 0 { format!(" {left_out} nearer the median are in the table alone.") } else { String::new() };
    let outlined = view.baseline.map(|run| format!(" Outlined: {}.", run.label)).unwrap_or_default();
    let note = format!(
        "A rank that arrives last waits least: the one with the least time may be the cause.{left_out}{outlined}"
    );
    Ok((
        note,
        rows::chart(
            &rows,
            Measure::Plain,
            "Time in collectives, from the median rank (%)",
            summary,
            view.options.width,
        ),
    ))
}
