//! Horizontal bars from zero, a row each, with its words: the shape of most panels.

use super::super::backend::UNIT;
use super::super::layout::{self, EDGE, NARROW, SMALL, TEXT, TOP, baseline, word};
use super::super::{Chart, Node, glyphs};
use super::plot::{AXIS, Mark, Plot, Scale, Shape, wide};

/// One bar.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Shortened where it does not fit.
    pub(super) label: String,
    /// Classes of the bar.
    pub(super) class: String,
    /// Its length, in the axis' own unit; below zero it points to the left.
    pub(super) value: f64,
    /// The part of it that is hatched, from zero.
    pub(super) part: Option<f64>,
    /// Beside the bar.
    pub(super) told: String,
    /// The tooltip of label and bar: exact.
    pub(super) title: String,
    /// The same in the baseline, and its tooltip.
    pub(super) baseline: Option<(f64, String)>,
    /// The kernel that a press opens.
    pub(super) kernel: Option<String>,
}

/// What the bars are long by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// Nanoseconds.
    Time,
    /// Anything else.
    Plain,
}

const BAR: i32 = 12 * UNIT;
const BASELINE: i32 = 18 * UNIT;
const ROW: i32 = 26 * UNIT;
const NARROW_ROW: i32 = 42 * UNIT;
const GAP: i32 = 6 * UNIT;

struct Layout {
    width: i32,
    /// Room for labels beside the bars, and for words left and right of them.
    names: i32,
    before: i32,
    after: i32,
    /// The most room that words at a bar get.
    most: i32,
    row: i32,
    narrow: bool,
}

impl Layout {
    fn new(rows: &[Row], width: u32) -> Self {
        let width = layout::width(width);
        let narrow = width < NARROW;
        let longest = |words: &mut dyn Iterator<Item = &String>| words.map(|text| wide(text, TEXT)).max().unwrap_or(0);
        if narrow {
            return Self { width, names: 0, before: EDGE, after: EDGE, most: width, row: NARROW_ROW, narrow };
        }
        let names = longest(&mut rows.iter().map(|row| &row.label)).min(width * 34 / 100);
        // Bars keep at least some two fifths of what labels leave.
        let has_both = rows.iter().any(|row| row.value < 0.0) && rows.iter().any(|row| row.value >= 0.0);
        let most = (width - names - 3 * EDGE) * if has_both { 29 } else { 58 } / 100;
        let room = |below: bool| {
            let told = longest(&mut rows.iter().filter(|row| (row.value < 0.0) == below).map(|row| &row.told));
            if told > 0 { told.min(most) + GAP } else { 0 }
        };
        Self { width, names, before: names + 2 * EDGE + room(true), after: EDGE + room(false), most, row: ROW, narrow }
    }

    fn bar_top(&self, row: usize) -> i32 {
        let top = i32::try_from(row).unwrap_or(0).saturating_mul(self.row);
        top + if self.narrow { 22 * UNIT } else { (ROW - BAR) / 2 }
    }
}

/// Draws the rows below each other, all on one axis.
pub(super) fn chart(rows: &[Row], measure: Measure, x_name: &str, summary: String, width: u32) -> Chart {
    let layout = Layout::new(rows, width);
    let ends =
        || rows.iter().flat_map(|row| [Some(row.value), row.baseline.as_ref().map(|(value, _)| *value)]).flatten();
    let (low, high) = ends().fold((0.0_f64, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    let height = layout.row.saturating_mul(i32::try_from(rows.len()).unwrap_or(0));
    let most = ((layout.width - layout.before - layout.after) / (76 * UNIT)).clamp(2, 10);
    let x = match measure {
        Measure::Time => Scale::time(high, most),
        Measure::Plain => Scale::linear(low, high, most),
    };
    let unit = x.unit();
    let x_name = if unit.is_empty() { x_name.to_owned() } else { format!("{x_name} ({unit})") };
    let plot = Plot {
        width: layout.width,
        height: TOP + height + AXIS,
        left: layout.before,
        right: layout.after,
        top: TOP,
        bottom: AXIS,
        x,
        y: Scale::Rows(height),
        x_name,
        y_name: String::new(),
    };
    let mut nodes = plot.draw(marks(rows, &layout, height));
    for (at, row) in rows.iter().enumerate() {
        nodes.extend(label(row, layout.bar_top(at) + TOP, &layout));
    }
    Chart { width: layout::whole(layout.width), height: layout::whole(plot.height), summary, nodes }
}

fn marks(rows: &[Row], layout: &Layout, height: i32) -> Vec<Mark> {
    let mut marks = Vec::new();
    // Labels that stand above their bars would be crossed by it.
    if !layout.narrow {
        let node = Node { class: "chart-zero".to_owned(), ..Node::default() };
        marks.push(Mark { at: vec![(0.0, 0.0), (0.0, f64::from(height))], shape: Shape::Upright(0), node });
    }
    for (at, row) in rows.iter().enumerate() {
        let top = layout.bar_top(at);
        let bar = |to: f64, top: i32| vec![(0.0, f64::from(top)), (to, f64::from(top))];
        if let Some((value, title)) = &row.baseline {
            let node = Node { class: "dash-base".to_owned(), title: title.clone(), ..Node::default() };
            let top = top - (BASELINE - BAR) / 2;
            marks.push(Mark { at: bar(*value, top), shape: Shape::Bar(BASELINE), node });
            let strokes = Node { class: "hatch dash-base".to_owned(), ..Node::default() };
            marks.push(Mark { at: bar(*value, top), shape: Shape::Hatch(BASELINE), node: strokes });
        }
        if row.value != 0.0 {
            let attrs = row.kernel.iter().map(|kernel| ("data-kernel", kernel.clone())).collect();
            let node = Node { class: row.class.clone(), title: row.title.clone(), attrs, ..Node::default() };
            marks.push(Mark { at: bar(row.value, top), shape: Shape::Bar(BAR), node });
        }
        if let Some(part) = row.part.filter(|part| *part > 0.0) {
            let node = Node { class: "hatch dash-part".to_owned(), ..Node::default() };
            marks.push(Mark { at: bar(part, top), shape: Shape::Hatch(BAR), node });
        }
        if !layout.narrow {
            marks.push(told(row, top, layout.most));
        }
    }
    marks
}

/// The words at the end of a bar, or of the longer one of both.
fn told(row: &Row, top: i32, room: i32) -> Mark {
    let below = row.value < 0.0;
    let base = row.baseline.as_ref().map_or(0.0, |(value, _)| *value);
    let end = if below { row.value.min(base) } else { row.value.max(base) };
    let (by, aligned) = if below { (-GAP, "end") } else { (GAP, "start") };
    let shape = Shape::Words { by: (by, baseline(BAR / 2, TEXT)), size: TEXT, aligned };
    let text = glyphs::shorten(&row.told, i64::from(TEXT), i64::from(room));
    let node = Node { class: "delta-change".to_owned(), title: row.title.clone(), text, ..Node::default() };
    Mark { at: vec![(end, f64::from(top))], shape, node }
}

fn label(row: &Row, top: i32, layout: &Layout) -> Vec<Node> {
    let named = |room: i32, at: (i32, i32)| {
        let text = glyphs::shorten(&row.label, i64::from(TEXT), i64::from(room));
        Node { title: row.title.clone(), ..word(&text, "delta-name", at, TEXT, "start") }
    };
    if !layout.narrow {
        return vec![named(layout.names, (0, baseline(top + BAR / 2, TEXT)))];
    }
    let above = top - 8 * UNIT;
    let told = glyphs::shorten(&row.told, i64::from(SMALL), i64::from(layout.width / 2));
    let room = layout.width - 3 * EDGE - wide(&told, SMALL);
    vec![named(room, (EDGE, above)), word(&told, "delta-change", (layout.width - EDGE, above), SMALL, "end")]
}
