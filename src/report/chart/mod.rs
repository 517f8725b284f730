//! Charts as flat lists of SVG elements with all positions. Plotters lays out the axes.
//!
//! [`Chart::to_svg`] writes the list as SVG for files; the page creates the same elements with `createElementNS`. Both
//! look the same, because the list contains all positions, and texts are measured without fonts (`glyphs`). Colours are
//! CSS classes of the palette. Floating-point functions that differ between native code and WebAssembly are avoided, so
//! charts are equal on all platforms.

mod axes;
mod axis;
mod bars;
pub mod dashboard;
mod delta;
mod glyphs;
mod kernel;
mod layout;
mod path;
mod ranks;
mod strips;
mod svg;

pub use axis::Unit;
pub use bars::{Bar, Segment, stacked_bars};
pub use delta::{Delta, Deltas, diverging_bars};
pub use kernel::{durations, launch_columns, launches};
pub use path::{PathBar, PathGroupBar, PathPart, path_bars};
pub use ranks::{PARTS, rank_bars, rank_parts};
pub use strips::{overview, overview_axis, overview_frame, overview_picture, strip_columns};
pub use svg::escape;

use serde::Serialize;

/// The stylesheet of text, grid and hatching in charts, used together with `palette::css`.
pub const CSS: &str = include_str!("chart.css");

/// A chart; all sizes are in CSS pixels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chart {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// A sentence that describes the chart, for screen readers.
    pub summary: String,
    /// The elements, back to front.
    pub nodes: Vec<Node>,
}

/// The first items of a list for a sentence, and the number of the others.
fn first_few(parts: &[String], separator: &str) -> String {
    const MAX_NAMED: usize = 4;
    let mut words: Vec<String> = parts.iter().take(MAX_NAMED).cloned().collect();
    if let Some(more) = parts.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        words.push(format!("{more} more"));
    }
    words.join(separator)
}

/// One SVG element without child elements except its tooltip.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Node {
    /// `rect`, `text`, `line`, `path` or `polyline`.
    pub tag: &'static str,
    /// Attributes by name; positions in pixels with at most two decimals.
    pub attrs: Vec<(&'static str, String)>,
    /// CSS classes, separated by blanks: `seg cat-gemm`.
    pub class: String,
    /// The tooltip; may be empty.
    pub title: String,
    /// The category, to find the legend entry and the table rows (`data-key`); may be empty.
    pub key: String,
    /// The content of a `text` element.
    pub text: String,
}

#[cfg(test)]
impl Chart {
    /// The texts of the elements with exactly these classes.
    fn texts(&self, class: &str) -> Vec<&str> {
        self.nodes.iter().filter(|node| node.class == class).map(|node| node.text.as_str()).collect()
    }
}

#[cfg(test)]
impl Node {
    /// The value of a numeric attribute.
    fn number(&self, name: &str) -> f64 {
        self.attrs.iter().find(|(key, _)| *key == name).unwrap().1.parse().unwrap()
    }
}
