//! Horizontal bars from zero, one per row, with labels: the layout of most panels.

use super::super::layout::{self, AXIS, EDGE, NARROW, SMALL, TEXT, TOP, UNIT, baseline, text};
use super::super::{Node, first_few, glyphs};
use super::plot::{Mark, Plot, Scale, Shape};
use super::{PanelResult, View, short};

/// One bar.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Name of the row; shortened if it does not fit.
    pub(super) label: String,
    /// CSS classes of the bar.
    pub(super) class: String,
    /// Length of the bar in the unit of the axis; negative values point to the left.
    pub(super) value: f64,
    /// Length of the hatched part, from zero.
    pub(super) hatched: Option<f64>,
    /// Text at the end of the bar.
    pub(super) value_text: String,
    /// Tooltip of label and bar, with exact values.
    pub(super) tooltip: String,
    /// Value and tooltip of the baseline.
    pub(super) baseline: Option<(f64, String)>,
    /// The kernel whose panel opens on a click.
    pub(super) kernel: Option<String>,
}

/// The quantity on the axis.
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
    /// Width of the labels; 0 if labels are above the bars.
    label_width: i32,
    /// Margins left and right of the plot.
    left: i32,
    right: i32,
    /// The maximum width of the text at a bar.
    max_text_width: i32,
    row_height: i32,
    is_narrow: bool,
}

impl Layout {
    fn new(rows: &[Row], width: u32) -> Self {
        let width = layout::width(width);
        let widest =
            |texts: &mut dyn Iterator<Item = &String>| texts.map(|text| glyphs::width(text, TEXT)).max().unwrap_or(0);
        if width < NARROW {
            return Self {
                width,
                label_width: 0,
                left: EDGE,
                right: EDGE,
                max_text_width: width,
                row_height: NARROW_ROW,
                is_narrow: true,
            };
        }
        let label_width = widest(&mut rows.iter().map(|row| &row.label)).min(width * 34 / 100);
        // Bars keep at least about two fifths of the width without labels.
        let has_both = rows.iter().any(|row| row.value < 0.0) && rows.iter().any(|row| row.value >= 0.0);
        let max_text_width = (width - label_width - 3 * EDGE) * if has_both { 29 } else { 58 } / 100;
        let text_margin = |is_negative: bool| {
            let rows = rows.iter().filter(|row| (row.value < 0.0) == is_negative);
            let widest = widest(&mut rows.map(|row| &row.value_text));
            if widest > 0 { widest.min(max_text_width) + GAP } else { 0 }
        };
        let (left, right) = (label_width + 2 * EDGE + text_margin(true), EDGE + text_margin(false));
        Self { width, label_width, left, right, max_text_width, row_height: ROW, is_narrow: false }
    }

    fn bar_top(&self, row: usize) -> i32 {
        let top = i32::try_from(row).unwrap_or(0).saturating_mul(self.row_height);
        top + if self.is_narrow { 22 * UNIT } else { (ROW - BAR) / 2 }
    }
}

/// Draws the rows from top to bottom on one axis.
pub(super) fn panel(
    view: &View,
    title: &str,
    note: String,
    rows: &[Row],
    measure: Measure,
    x_name: &str,
) -> PanelResult {
    let layout = Layout::new(rows, view.options.width);
    let values =
        rows.iter().flat_map(|row| [Some(row.value), row.baseline.as_ref().map(|(value, _)| *value)]).flatten();
    let (low, high) = values.fold((0.0_f64, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    let height = layout.row_height.saturating_mul(i32::try_from(rows.len()).unwrap_or(0));
    let max_steps = ((layout.width - layout.left - layout.right) / (76 * UNIT)).clamp(2, 10);
    let x = match measure {
        Measure::Time => Scale::time(high, max_steps),
        Measure::Plain => Scale::linear(low, high, max_steps),
    };
    let unit = x.unit();
    let x_name = if unit.is_empty() { x_name.to_owned() } else { format!("{x_name} ({unit})") };
    let plot = Plot {
        width: layout.width,
        height: TOP + height + AXIS,
        left: layout.left,
        right: layout.right,
        top: TOP,
        x,
        y: Scale::Rows(height),
        x_name,
        y_name: String::new(),
    };
    let mut nodes = plot.draw(marks(rows, &layout, height));
    for (index, row) in rows.iter().enumerate() {
        nodes.extend(label(row, layout.bar_top(index) + TOP, &layout));
    }
    let parts: Vec<String> = rows.iter().map(|row| format!("{} {}", short(&row.label), row.value_text)).collect();
    Ok((note, plot.chart(format!("{title}: {}.", first_few(&parts, "; ")), nodes)))
}

fn marks(rows: &[Row], layout: &Layout, height: i32) -> Vec<Mark> {
    let mut marks = Vec::new();
    // In a narrow chart the zero line would cross the labels above the bars.
    if !layout.is_narrow {
        let points = vec![(0.0, 0.0), (0.0, f64::from(height))];
        marks.push(Mark::new(Shape::VerticalLine(0), points, "chart-zero", ""));
    }
    for (index, row) in rows.iter().enumerate() {
        let top = layout.bar_top(index);
        let bar = |to: f64, top: i32| vec![(0.0, f64::from(top)), (to, f64::from(top))];
        if let Some((value, title)) = &row.baseline {
            let top = top - (BASELINE - BAR) / 2;
            marks.push(Mark::new(Shape::Bar(BASELINE), bar(*value, top), "dash-base", title));
            marks.push(Mark::new(Shape::Hatch(BASELINE), bar(*value, top), "hatch dash-base", ""));
        }
        if row.value != 0.0 {
            let mut mark = Mark::new(Shape::Bar(BAR), bar(row.value, top), &row.class, &row.tooltip);
            mark.node.attrs.extend(row.kernel.iter().map(|kernel| ("data-kernel", kernel.clone())));
            marks.push(mark);
        }
        if let Some(hatched) = row.hatched.filter(|hatched| *hatched > 0.0) {
            marks.push(Mark::new(Shape::Hatch(BAR), bar(hatched, top), "hatch dash-part", ""));
        }
        if !layout.is_narrow {
            marks.push(value_text(row, top, layout.max_text_width));
        }
    }
    marks
}

/// The text at the end of a bar, or of the baseline if that is longer.
fn value_text(row: &Row, top: i32, max_width: i32) -> Mark {
    let is_negative = row.value < 0.0;
    let base = row.baseline.as_ref().map_or(0.0, |(value, _)| *value);
    let end = if is_negative { row.value.min(base) } else { row.value.max(base) };
    let (offset_x, anchor) = if is_negative { (-GAP, "end") } else { (GAP, "start") };
    let shape = Shape::Text { offset: (offset_x, baseline(BAR / 2, TEXT)), size: TEXT, anchor };
    let text = glyphs::shorten(&row.value_text, TEXT, max_width);
    Mark::new(shape, vec![(end, f64::from(top))], "delta-change", &row.tooltip).with_text(text)
}

fn label(row: &Row, top: i32, layout: &Layout) -> Vec<Node> {
    let name = |max_width: i32, position: (i32, i32)| {
        let shown = glyphs::shorten(&row.label, TEXT, max_width);
        Node { title: row.tooltip.clone(), ..text(&shown, "delta-name", position, TEXT, "start") }
    };
    if !layout.is_narrow {
        return vec![name(layout.label_width, (0, baseline(top + BAR / 2, TEXT)))];
    }
    let above = top - 8 * UNIT;
    let value = glyphs::shorten(&row.value_text, SMALL, layout.width / 2);
    let max_width = layout.width - 3 * EDGE - glyphs::width(&value, SMALL);
    vec![name(max_width, (EDGE, above)), text(&value, "delta-change", (layout.width - EDGE, above), SMALL, "end")]
}
