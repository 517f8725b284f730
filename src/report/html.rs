//! Writes a report as one self-contained HTML file, which loads nothing from the network. Linear in the tables and charts.
//!
//! Every text that may come from a trace is escaped ([`escape`]). The script in the file sorts, filters and highlights
//! existing elements; it computes no numbers.

mod overview;

use super::chart::dashboard::Panel;
use super::chart::{Chart, escape};
use super::table::{Cell, Column, Kind, Table};
use super::text::figure_lines;
use super::{Finding, Report, chart, findings, format, is_builtin_table, palette, verdict};
use crate::analysis::findings::Severity as Grade;
use crate::analysis::results::{Notice, Run, Severity};
use crate::digits::grouped;
use std::fmt::Write;

pub use overview::Overview;
use overview::zoomed;

const STYLE: &str = include_str!("html/report.css");
const SCRIPT: &str = include_str!("html/report.js");
/// The width of a chart, in pixels.
pub(super) const PAGE_WIDTH: u32 = 1216;
/// The width of a chart on a telephone, in pixels.
pub(super) const NARROW_WIDTH: u32 = 358;
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// The whole report as HTML: verdict, timeline, bars with their legend, findings, notices, dashboard, tables.
///
/// The timeline is the strips of the traces; a report that was read from a file has none, and the longest events over time
/// take their place.
/// A telephone shows the narrow drawing of each chart: the wide one would be scaled down until its text is unreadable. Notices and findings are lists, so their tables are omitted. The file is readable without scripts; only sorting,
/// filtering and the buttons of the legend need the script.
pub fn html(
    report: &Report,
    tables: &[Table],
    bars: &Drawings,
    overviews: &[Option<Overview>],
    dashboards: &[Dashboard],
    title: &str,
) -> String {
    let mut page = head(title);
    page += &format!("<p class=\"verdict\">{}</p>\n", words(&verdict(report)));
    page += &runs(report);
    let bars = charts_with_legend(&[&bars.wide], &drawings(Some(&bars.wide), bars.narrow.as_ref()));
    let strips = timelines(report, overviews);
    page += &if strips.is_empty() { over_time(dashboards) + &bars } else { strips + &bars + &over_time(dashboards) };
    page += &findings_list(report);
    page += &notices(report);
    dashboards.iter().for_each(|dashboard| page += &panels(dashboard));
    for table in tables.iter().filter(|table| !["notices", "findings"].contains(&table.id.as_str())) {
        page += &section(table);
    }
    let version = env!("CARGO_PKG_VERSION");
    let _ = write!(page, "</main>\n<footer>Written by gpuprism {version}. Tooltips show exact times.</footer>\n");
    let _ = write!(page, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    page
}

/// A short page for a notebook: sentences, charts with their legend, and the first rows of tables.
#[cfg(not(target_arch = "wasm32"))]
pub fn excerpt(title: &str, sentences: &[String], charts: &[Chart], tables: &[Table]) -> String {
    let mut page = head(title);
    for sentence in sentences {
        let _ = writeln!(page, "<p>{}</p>", words(sentence));
    }
    let charts: Vec<&Chart> = charts.iter().collect();
    page += &charts_with_legend(&charts, &charts.iter().map(|chart| chart.to_svg()).collect::<String>());
    tables.iter().for_each(|table| page += &section(table));
    let _ = write!(page, "</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    page
}

/// One chart in two widths.
#[derive(Debug)]
pub struct Drawings {
    /// For a screen and for paper.
    pub wide: Chart,
    /// For a telephone; `None` if there is only one width.
    pub narrow: Option<Chart>,
}

/// Charts of one run under a heading.
#[derive(Debug, Default)]
pub struct Dashboard {
    /// The heading, with the labels of run and baseline if there are several runs.
    pub heading: String,
    /// Sentences above the panels.
    pub lines: Vec<String>,
    /// All panels, including those without data.
    pub panels: Vec<Panel>,
    /// The same panels, drawn for a telephone.
    pub narrow: Vec<Panel>,
    /// The same panels, drawn much wider, of which only [`OVER_TIME`] is used.
    pub zoomed: Vec<Panel>,
}

/// The chart of the panel with this id.
fn chart_of<'a>(panels: &'a [Panel], id: &str) -> Option<&'a Chart> {
    panels.iter().find(|panel| panel.id == id)?.chart.as_ref()
}

/// The strips of the first runs that have some.
fn timelines(report: &Report, overviews: &[Option<Overview>]) -> String {
    const MAX_TIMELINES: usize = 3;
    let labels = report.labels();
    let several = labels.len() > 1;
    let all = labels.iter().zip(overviews).filter_map(|(label, overview)| Some((label, overview.as_ref()?)));
    all.take(MAX_TIMELINES).map(|(label, overview)| overview.section(several.then_some(label.as_str()))).collect()
}

/// The panel that stands above the findings.
const OVER_TIME: &str = "timeline";

fn over_time(dashboards: &[Dashboard]) -> String {
    let shown = dashboards.iter().flat_map(|dashboard| dashboard.panels.iter().map(move |panel| (dashboard, panel)));
    let shown = shown.filter(|(_, panel)| panel.id == OVER_TIME && panel.chart.is_some());
    let zoomed = |dashboard: &Dashboard| {
        chart_of(&dashboard.zoomed, OVER_TIME)
            .map(|chart| zoomed("Longest events over time", chart))
            .unwrap_or_default()
    };
    let panels: String = shown.map(|(dashboard, shown)| panel(dashboard, shown) + &zoomed(dashboard)).collect();
    if panels.is_empty() { panels } else { format!("<section>\n{panels}</section>\n") }
}

fn panels(dashboard: &Dashboard) -> String {
    if dashboard.panels.is_empty() && dashboard.lines.is_empty() {
        return String::new();
    }
    let lines: String = dashboard.lines.iter().map(|line| format!("<p>{}</p>\n", escape(line))).collect();
    let lines = if lines.is_empty() { lines } else { format!("<div class=\"wide\">\n{lines}</div>\n") };
    let shown = dashboard.panels.iter().filter(|panel| panel.id != OVER_TIME || panel.chart.is_none());
    let panels: String = shown.map(|shown| panel(dashboard, shown)).collect();
    format!("<section class=\"dashboard\">\n<h2>{}</h2>\n{lines}{panels}</section>\n", escape(&dashboard.heading))
}

/// The wide drawing and the narrow one, of which the stylesheet shows one.
fn drawings(wide: Option<&Chart>, narrow: Option<&Chart>) -> String {
    match (wide.map(Chart::to_svg), narrow.map(Chart::to_svg)) {
        (Some(wide), Some(narrow)) => {
            format!("<div class=\"on-wide\">\n{wide}</div>\n<div class=\"on-narrow\">\n{narrow}</div>\n")
        }
        (wide, _) => wide.unwrap_or_default(),
    }
}

fn panel(dashboard: &Dashboard, panel: &Panel) -> String {
    let svg = drawings(panel.chart.as_ref(), chart_of(&dashboard.narrow, panel.id));
    let gap = panel.gap.as_ref().map(|(why, recapture)| format!("{} <code>{}</code>", words(why), escape(recapture)));
    let (title, note) = (escape(panel.title), gap.unwrap_or_else(|| escape(&panel.note)));
    let class = if panel.is_wide { " class=\"wide\"" } else { "" };
    format!(
        "<figure{class}>\n<figcaption><strong>{title}</strong> <span class=\"note\">{note}</span></figcaption>\n\
         {svg}</figure>\n"
    )
}

fn head(title: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{}{}{STYLE}</style>\n</head>\n<body>\n<header><h1>{title}</h1></header>\n<main>\n",
        palette::css(),
        [chart::CSS, chart::dashboard::CSS].concat(),
    )
}

fn runs(report: &Report) -> String {
    let mut list = String::from("<ul class=\"runs\">\n");
    for run in &report.runs {
        let _ = writeln!(
            list,
            "<li><strong>{}</strong> <span>{}</span></li>",
            escape(&run.label),
            escape(&run_details(run))
        );
    }
    list + "</ul>\n"
}

fn run_details(run: &Run) -> String {
    let format = run.format.title();
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let (devices, ops) = (run.devices.len(), grouped(run.totals.gpu_ops));
    format!("{format}, {ops} GPU ops on {devices} device{}, categories by {}", plural(devices), run.rules)
}

fn notices(report: &Report) -> String {
    let all = || report.runs.iter().flat_map(|run| run.notices.iter().map(move |notice| (run, notice)));
    if all().next().is_none() {
        return String::new();
    }
    let mut list = String::from("<section aria-label=\"Notices\">\n<ul class=\"notices\">\n");
    for (run, notice) in all() {
        let prefix = if report.runs.len() > 1 { format!("{}: ", run.label) } else { String::new() };
        list += &notice_item(&prefix, notice);
    }
    list + "</ul>\n</section>\n"
}

/// A text with its parts between backticks as code, as on the page. An odd backtick is one of the text.
fn words(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escape(text);
    }
    let part = |(index, part): (usize, &&str)| match index % 2 {
        0 => escape(part),
        _ => format!("<code>{}</code>", escape(part)),
    };
    parts.iter().enumerate().map(part).collect()
}

fn notice_item(prefix: &str, notice: &Notice) -> String {
    let (class, word) = match notice.severity {
        Severity::Info => ("info", "Note"),
        Severity::Warning => ("warning", "Warning"),
        Severity::Error => ("error", "Error"),
    };
    let count = if notice.count > 1 { format!(" ({} times)", grouped(notice.count)) } else { String::new() };
    format!(
        "<li class=\"{class}\"><strong>{word}</strong> <span>{}{}{count}</span> <span class=\"advice\">{}</span></li>\n",
        escape(prefix),
        words(&notice.message),
        words(&notice.advice),
    )
}

fn charts_with_legend(charts: &[&Chart], svgs: &str) -> String {
    if charts.is_empty() {
        return String::new();
    }
    format!("<section>\n<h2>Where the time went</h2>\n<figure>\n{svgs}{}</figure>\n</section>\n", legend(charts))
}

fn findings_list(report: &Report) -> String {
    let findings = findings(report);
    if findings.is_empty() {
        return String::new();
    }
    let items: String = findings.iter().map(finding_item).collect();
    format!("<section>\n<h2>What to do</h2>\n<ul class=\"notices\">\n{items}</ul>\n</section>\n")
}

fn finding_item(finding: &Finding) -> String {
    let class = match finding.severity {
        Grade::High => "error",
        Grade::Medium => "warning",
        _ => "info",
    };
    let lines = |lines: &[&str]| lines.iter().map(|line| format!("<br>{}", words(line))).collect::<String>();
    let run = if finding.run.is_empty() { String::new() } else { format!("{}: ", finding.run) };
    format!(
        "<li class=\"{class}\"><strong>{}</strong> <span>{}{}</span> <em>{}</em>{}<span class=\"advice\">{}</span></li>\n",
        escape(&finding.grade()),
        escape(&run),
        escape(finding.title),
        escape(&finding.cost),
        lines(&finding.evidence),
        lines(&finding.action),
    )
}

/// One toggle button per category in the charts, in stacking order.
fn legend(charts: &[&Chart]) -> String {
    let marks = charts.iter().flat_map(|chart| &chart.nodes).filter(|node| node.tag == "rect");
    let mut list = String::from("<div class=\"legend\" role=\"group\" aria-label=\"Categories\">\n");
    for category in palette::order(marks.map(|node| node.key.as_str()).filter(|key| !key.is_empty())) {
        let _ = writeln!(
            list,
            "<button type=\"button\" aria-pressed=\"true\" data-key=\"{}\"><i class=\"swatch {}\"></i>{}</button>",
            escape(category),
            palette::class(category),
            escape(palette::title(category)),
        );
    }
    list + "</div>\n"
}

/// A table of a section with more rows is collapsed. Built-in tables are never collapsed.
const MAX_OPEN_ROWS: usize = 12;

fn section(table: &Table) -> String {
    let (id, title) = (escape(&table.id), escape(&table.title));
    let preamble = preamble(table);
    if table.rows.is_empty() && !is_builtin_table(&table.id) {
        return format!("<section>\n<h2>{title}</h2>\n{preamble}</section>\n");
    }
    let count = table.rows.len();
    let rows_in_words = format!("{} rows", grouped(count as u64));
    let filter = format!(
        "<p class=\"tools\"><label>Filter <input type=\"search\" aria-controls=\"{id}\" autocomplete=\"off\" spellcheck=\"false\"></label> \
         <output>{rows_in_words}</output></p>\n"
    );
    // Short tables need no filter.
    let filter = if count > 5 { filter } else { String::new() };
    let rows = format!(
        "{filter}<div class=\"scroll\">\n<table id=\"{id}\">\n{}{}{}</table>\n</div>\n",
        table_head(table),
        table_body(table),
        table_foot(table),
    );
    if count > MAX_OPEN_ROWS && !is_builtin_table(&table.id) {
        return format!(
            "<section>\n<h2>{title}</h2>\n{preamble}<details class=\"rows\"><summary>{rows_in_words}</summary>\n{rows}</details>\n</section>\n"
        );
    }
    format!("<section>\n<h2>{title}</h2>\n{preamble}{rows}</section>\n")
}

/// The text above a table: its note, its figures, and the reasons why runs have no rows.
fn preamble(table: &Table) -> String {
    let mut text = String::new();
    if !table.note.is_empty() {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", words(&table.note));
    }
    for (run, line) in figure_lines(table) {
        let run = if run.is_empty() { String::new() } else { format!("<strong>{}</strong> ", escape(run)) };
        let _ = writeln!(text, "<p>{run}{}</p>", words(&line));
    }
    for gap in &table.gaps {
        let run = if gap.run.is_empty() { String::new() } else { format!("<strong>{}</strong> ", escape(&gap.run)) };
        let _ = writeln!(text, "<p>{run}{} <code>{}</code></p>", words(&gap.why), escape(&gap.recapture));
    }
    text
}

fn table_head(table: &Table) -> String {
    let cells: String = table
        .columns
        .iter()
        .zip(format::headings(table))
        .map(|(column, heading)| {
            let class = if column.kind.is_number() { " class=\"number\"" } else { "" };
            format!("<th scope=\"col\"{class}><button type=\"button\">{}</button></th>", escape(&heading))
        })
        .collect();
    format!("<thead><tr>{cells}</tr></thead>\n")
}

fn table_body(table: &Table) -> String {
    let mut body = String::from("<tbody>\n");
    for (row, shown) in table.rows.iter().zip(format::shown(table)) {
        let cells: String = table
            .columns
            .iter()
            .zip(row)
            .zip(&shown)
            .map(|((column, cell), shown)| cell_html(column, cell, shown))
            .collect();
        let _ = writeln!(body, "<tr{}>{cells}</tr>", category_attribute(table, row));
    }
    body + "</tbody>\n"
}

/// The attribute by which the buttons of the legend find the rows of a category.
fn category_attribute(table: &Table, row: &[Cell]) -> String {
    let mut cells = table.columns.iter().zip(row);
    match cells.find(|(column, _)| column.kind == Kind::Category) {
        Some((_, Cell::Text(category) | Cell::Category { name: category, .. })) => {
            format!(" data-key=\"{}\"", escape(category))
        }
        _ => String::new(),
    }
}

fn cell_html(column: &Column, cell: &Cell, shown: &format::Shown) -> String {
    let (text, title) = (escape(&shown.text), title_attribute(&shown.title));
    match (column.kind, cell) {
        (Kind::Kernel, Cell::Kernel { short, full }) if short != full => format!(
            "<td class=\"kernel\"><details><summary{title}>{text}</summary><code>{}</code></details></td>",
            escape(full)
        ),
        (Kind::Kernel, _) => format!("<td class=\"kernel\"{title}>{text}</td>"),
        (Kind::Category, Cell::Text(category) | Cell::Category { name: category, .. }) => {
            let class = palette::class(category);
            let title = if title.is_empty() { format!(" title=\"{text}\"") } else { title };
            format!("<td class=\"category\"{title}><i class=\"swatch {class}\"></i>{text}</td>")
        }
        (kind, _) if kind.is_number() => {
            format!("<td class=\"number\" data-value=\"{}\"{title}>{text}</td>", escape(&format::exact(cell)))
        }
        _ => format!("<td{title}>{text}</td>"),
    }
}

fn table_foot(table: &Table) -> String {
    let Some(totals) = format::shown_totals(table) else {
        return String::new();
    };
    let cells: String = table
        .columns
        .iter()
        .zip(totals)
        .map(|(column, shown)| {
            let class = if column.kind.is_number() { " class=\"number\"" } else { "" };
            format!("<td{class}{}>{}</td>", title_attribute(&shown.title), escape(&shown.text))
        })
        .collect();
    format!("<tfoot><tr>{cells}</tr></tfoot>\n")
}

fn title_attribute(title: &str) -> String {
    if title.is_empty() { String::new() } else { format!(" title=\"{}\"", escape(title)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::chart::{Bar, Segment, stacked_bars};
    use crate::report::tests_support::empty_run;

    const HOSTILE: &str = "</script></style><img src=x onerror=\"alert('1')\">&amp;\u{1}";

    fn report(text: &str) -> Report {
        let mut run = empty_run(text);
        run.sections.clear();
        (run.engine, run.rules) = (Some(text.into()), text.into());
        for notice in &mut run.notices {
            (notice.message, notice.advice, notice.count) = (text.into(), text.into(), 2);
        }
        Report::new(vec![run.clone(), run])
    }

    #[test]
    fn commands_in_advice_are_code_and_not_in_backticks() {
        assert_eq!(words("Use `a<b>` or `c`."), "Use <code>a&lt;b&gt;</code> or <code>c</code>.");
        assert_eq!(words("5` wide & high"), "5` wide &amp; high");
        let page = crate::report::html_page(&report("pinned (`cudaMallocHost`)"), "t");
        assert!(page.contains("<span class=\"advice\">pinned (<code>cudaMallocHost</code>)</span>"), "{page}");
    }

    fn table(name: &str) -> Table {
        let column = |key: &str, kind| Column { key: key.into(), title: name.into(), kind };
        let row = vec![
            Cell::Kernel { short: name.into(), full: name.repeat(2) },
            Cell::Text(name.into()),
            Cell::Text(name.into()),
            Cell::Ns(1_234_567),
        ];
        Table {
            id: "kernels".into(),
            title: name.into(),
            note: name.into(),
            columns: vec![
                column("name", Kind::Kernel),
                column("category", Kind::Category),
                column("words", Kind::Text),
                column("elapsed", Kind::Time),
            ],
            rows: vec![row.clone(); 7],
            totals: Some(row),
            ..Table::default()
        }
    }

    fn chart(name: &str, categories: &[&str]) -> Chart {
        let segments = categories.iter().map(|name| Segment { category: (*name).into(), elapsed_ns: 10, share: 0.5 });
        let bar = Bar { label: name.into(), segments: segments.collect(), note: name.into() };
        stacked_bars(&[bar], categories, &[], 960)
    }

    fn only(wide: Chart) -> Drawings {
        Drawings { wide, narrow: None }
    }

    #[test]
    fn names_from_a_trace_are_escaped() {
        let long = HOSTILE.repeat(100);
        for name in [HOSTILE, &long] {
            let page = html(&report(name), &[table(name)], &only(chart(name, &[name, "gemm"])), &[], &[], name);
            assert!(!page.contains("<img") && !page.contains("onerror=\"") && !page.contains('\u{1}'));
            assert_eq!(page.matches("</script>").count(), 1);
            assert_eq!(page.matches("</style>").count(), 1);
        }
    }

    #[test]
    fn the_file_has_no_external_references() {
        let page = html(&report("run"), &[table("name")], &only(chart("run", &["gemm"])), &[], &[], "title");
        let page = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        for reference in ["http:", "https:", "src=", "href=", "@import", "url(", "fetch(", "style=\""] {
            assert!(!page.contains(reference), "{reference}");
        }
        assert!(page.contains("Content-Security-Policy"));
    }

    #[test]
    fn the_legend_lists_exactly_the_categories_shown() {
        let page = html(
            &report("run"),
            &[table("norm")],
            &only(chart("run", &["CPU (non-GPU)", "mine", "gemm"])),
            &[],
            &[],
            "title",
        );
        let legend = page.split("class=\"legend\"").nth(1).and_then(|rest| rest.split("</div>").next()).unwrap();
        let keys: Vec<&str> = legend.split("data-key=\"").skip(1).filter_map(|part| part.split('"').next()).collect();
        assert_eq!(keys, ["gemm", "mine", "CPU (non-GPU)"]);
        assert!(legend.contains("</i>GPU idle</button>"), "the word of the bar: {legend}");
    }

    #[test]
    fn number_cells_have_their_exact_value_for_sorting() {
        let page = html(&report("run"), &[table("name")], &only(chart("run", &[])), &[], &[], "title");
        assert!(page.contains("data-value=\"1234567\" title=\"1,234,567 ns\">1.23</td>"), "{page}");
    }

    #[test]
    fn every_row_of_a_long_table_is_there_and_is_printed_although_it_is_closed_on_a_screen() {
        let mut long = table("name");
        long.id = "steps".into();
        long.rows = vec![long.rows[0].clone(); 1_234];
        let page = html(&report("run"), &[long], &only(chart("run", &[])), &[], &[], "title");
        assert!(page.contains("<details class=\"rows\"><summary>1,234 rows</summary>"), "the count is grouped");
        assert_eq!(page.split("<tbody>").nth(1).unwrap().matches("<tr").count(), 1_235, "all rows and the totals");
        let print = STYLE.split("@media print").nth(1).unwrap();
        assert!(
            print.contains(".rows::details-content { display: block; height: auto; content-visibility: visible; }")
        );
        assert!(print.contains(".tools, .zoom,"), "no form controls");
        assert!(SCRIPT.contains("beforeprint"), "for browsers that cannot style the content of a closed list");
    }

    #[test]
    fn a_telephone_shows_drawings_of_its_own_width() {
        let page = crate::report::html_page(&crate::report::tests_support::sample(), "title");
        let charts = |class: &str, width: u32| {
            let head = format!("<div class=\"{class}\">\n<svg ");
            let parts: Vec<&str> = page.split(&head).skip(1).collect();
            assert!(parts.iter().all(|part| part.split('>').next().unwrap().contains(&format!("width=\"{width}\""))));
            parts.len()
        };
        let narrow = charts("on-narrow", NARROW_WIDTH);
        assert!(narrow > 1, "the bars and the panels");
        assert_eq!(page.matches("<div class=\"on-wide\">").count(), narrow);
        assert!(STYLE.contains("@media screen and (max-width: 760px) { .on-wide { display: none; }"));
    }

    #[test]
    fn the_events_can_be_zoomed_in_without_a_script() {
        let page = crate::report::html_page(&crate::report::tests_support::sample(), "title");
        let zoomed = page.split("<details class=\"zoom\">").nth(1).unwrap().split("</details>").next().unwrap();
        assert_eq!(zoomed.matches("<svg").count(), 2, "the names of the lanes, and the events");
        assert!(page.find("class=\"zoom\"").unwrap() < page.find("Where the time went").unwrap());
    }

    #[test]
    fn counts_in_sentences_are_grouped() {
        let mut report = report("run");
        report.runs[0].totals.gpu_ops = 216_092;
        report.runs[0].notices = vec![Notice { count: 4_000, ..report.runs[1].notices[0].clone() }];
        let page = html(&report, &[], &only(chart("run", &[])), &[], &[], "title");
        assert!(page.contains("216,092 GPU ops") && page.contains("(4,000 times)"), "{page}");
    }
}
