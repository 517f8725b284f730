//! Writes charts as SVG. Everything that may come from a trace is escaped here.

use super::{Chart, Node};
use crate::plain::{REPLACEMENT, is_plain};
use std::fmt::Write;

impl Chart {
    /// The chart as one `<svg>` element for HTML, or with a stylesheet for a file.
    ///
    /// The summary is its `aria-label`. The classes need `palette::css` and [`super::CSS`].
    pub fn to_svg(&self) -> String {
        svg(&self.summary, (0, self.width), self.height, &mut self.nodes.iter())
    }

    /// A chart with lanes as two elements: the names of the lanes, and the rest, so that the rest can scroll under them.
    pub fn names_and_plot(&self) -> (String, String) {
        let x_of = |node: &Node| node.attrs.iter().find(|(name, _)| *name == "x")?.1.parse::<f64>().ok();
        let is_name = |node: &&Node| node.tag == "text" && x_of(node) == Some(0.0);
        let marks = self.nodes.iter().filter(|node| node.tag == "rect").filter_map(x_of);
        // A little room for the label of the first tick.
        let left = (marks.fold(f64::from(self.width), f64::min) - 8.0).max(0.0) as u32;
        let names = svg("", (0, left), self.height, &mut self.nodes.iter().filter(is_name));
        let plot =
            svg(&self.summary, (left, self.width), self.height, &mut self.nodes.iter().filter(|node| !is_name(node)));
        (names, plot)
    }
}

/// The nodes between two positions as one element. Without a summary it is hidden from screen readers.
fn svg(summary: &str, (left, right): (u32, u32), height: u32, nodes: &mut dyn Iterator<Item = &Node>) -> String {
    let mut svg = String::new();
    let width = right.saturating_sub(left);
    let role = if summary.is_empty() {
        r#"aria-hidden="true""#.to_owned()
    } else {
        format!(r#"role="img" aria-label="{}""#, escape(summary))
    };
    let _ = write!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" class="chart" {role} width="{width}" height="{height}" viewBox="{left} 0 {width} {height}">"#,
    );
    for node in nodes {
        svg.push('\n');
        svg.push_str(&element(node));
    }
    svg.push_str("\n</svg>\n");
    svg
}

fn element(node: &Node) -> String {
    let mut text = format!("<{}", node.tag);
    for (name, value) in &node.attrs {
        let _ = write!(text, r#" {name}="{}""#, escape(value));
    }
    for (name, value) in [("class", &node.class), ("data-key", &node.key)] {
        if !value.is_empty() {
            let _ = write!(text, r#" {name}="{}""#, escape(value));
        }
    }
    let title = if node.title.is_empty() { String::new() } else { format!("<title>{}</title>", escape(&node.title)) };
    let _ = write!(text, ">{title}{}</{}>", escape(&node.text), node.tag);
    text
}

/// Escapes `text` for the content of an element or a quoted attribute, in HTML and in XML.
///
/// Control characters, which are not allowed in XML, and direction marks become U+FFFD.
///
/// ```
/// use gpuprism::report::chart::escape;
/// assert_eq!(escape("<b title='\"&'>\0"), "&lt;b title=&#39;&quot;&amp;&#39;&gt;\u{fffd}");
/// ```
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for glyph in text.chars() {
        match glyph {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(glyph),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            glyph if !is_plain(glyph) => safe.push(REPLACEMENT),
            glyph => safe.push(glyph),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(tag: &'static str, x: &str, text: &str) -> Node {
        Node { tag, attrs: vec![("x", x.to_owned())], text: text.to_owned(), ..Node::default() }
    }

    #[test]
    fn names_left_of_the_marks_are_an_element_of_their_own() {
        let nodes = vec![node("text", "0", "lane"), node("rect", "100", ""), node("text", "120.5", "label")];
        let chart = Chart { width: 800, height: 40, summary: "three".to_owned(), nodes };
        let (names, plot) = chart.names_and_plot();
        assert!(names.contains("width=\"92\"") && names.contains(">lane<") && !names.contains("label<"), "{names}");
        assert!(names.contains("aria-hidden"), "the plot has the summary: {names}");
        assert!(
            plot.contains("viewBox=\"92 0 708 40\"") && plot.contains(">label<") && !plot.contains("lane"),
            "{plot}"
        );
    }

    #[test]
    fn a_chart_without_marks_is_split_without_a_panic() {
        let (names, plot) = Chart { width: 0, height: 0, summary: String::new(), nodes: Vec::new() }.names_and_plot();
        assert!(names.contains("<svg") && plot.contains("<svg"));
    }
}
