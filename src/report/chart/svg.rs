//! Writes charts as SVG. Everything that may come from a trace is escaped here.

use super::{Chart, Node};
use std::fmt::Write;

impl Chart {
    /// The chart as one `<svg>` element for HTML, or with a stylesheet for a file.
    ///
    /// The summary is its `aria-label`. The classes need `palette::css` and [`super::CSS`].
    pub fn to_svg(&self) -> String {
        let mut svg = String::new();
        let (width, height) = (self.width, self.height);
        let _ = write!(
            svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" aria-label="{}" width="{width}" height="{height}" viewBox="0 0 {width} {height}">"#,
            escape(&self.summary)
        );
        for node in &self.nodes {
            svg.push('\n');
            svg.push_str(&element(node));
        }
        svg.push_str("\n</svg>\n");
        svg
    }
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
/// Control characters, which are not allowed in XML, become U+FFFD.
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
            glyph if glyph.is_control() => safe.push('\u{fffd}'),
            glyph => safe.push(glyph),
        }
    }
    safe
}
