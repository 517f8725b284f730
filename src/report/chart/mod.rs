//! Charts: plotters lays out, `backend` records, and a chart is the list of nodes that came of it.
//!
//! Rust writes the list as SVG text (reports, files); the page builds the same list with `createElementNS`. Both show one
//! chart, because nothing is measured or decided after the list exists. Colours are named by class only (`palette`).

mod axis;
mod backend;
mod bars;
pub mod dashboard;
mod delta;
mod glyphs;
mod kernel;
mod layout;
mod ranks;
mod strips;
mod svg;

pub use axis::Unit;
pub use bars::{Bar, Segment, stacked_bars};
pub use delta::{Delta, Deltas, diverging_bars};
pub use kernel::{durations, launch_columns, launches};
pub use ranks::{PARTS, rank_bars, rank_parts};
pub use strips::{overview, overview_frame, strip_columns};
pub use svg::escape;

use serde::Serialize;

/// The stylesheet of everything in a chart that is not a category: text, grid, hatch. Belongs beside `palette::css`.
pub const CSS: &str = include_str!("chart.css");

/// A drawing, in CSS pixels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chart {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels; follows from the rows.
    pub height: u32,
    /// What the chart shows, in one sentence, for readers who do not see it.
    pub summary: String,
    /// The drawing, back to front.
    pub nodes: Vec<Node>,
}

/// One SVG element. None has children but its own title and text.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Node {
    /// `rect`, `text`, `line`, `path` or `polyline`.
    pub tag: &'static str,
    /// Attributes by name; positions in pixels with at most two decimals.
    pub attrs: Vec<(&'static str, String)>,
    /// CSS classes, blank-separated: `seg cat-gemm`.
    pub class: String,
    /// The tooltip; empty where there is none.
    pub title: String,
    /// What the node stands for, to match it with a legend entry or a table row (`data-key`): a category; may be empty.
    pub key: String,
    /// The words of a `text` node.
    pub text: String,
}
