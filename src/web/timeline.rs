//! The overview strips of a trace, and the windows that the user can pick from them.

use super::{Imported, JsResult, to_js, to_js_error};
use crate::analysis::time::strips::Strips;
use crate::digits::grouped;
use crate::json;
use crate::report::chart::{self, Chart, Node};
use crate::session::{self, Choices};
use crate::trace::Trace;
use serde::Serialize;
use std::cell::RefCell;
use wasm_bindgen::prelude::*;

/// A cache of the last strips: if only the window changes, only the frame over the strips is drawn again.
#[derive(Debug, Default)]
pub(super) struct Overview(RefCell<Cached>);

#[derive(Debug, Default)]
struct Cached {
    drawn: Option<(Choices, u32, Option<Strips>)>,
    /// Counts the strips drawn so far.
    turn: u32,
}

/// The strips and the frame over them.
#[derive(Debug, Serialize)]
struct Drawing {
    turn: u32,
    /// Null if the page has the strips of this turn.
    chart: Option<Chart>,
    frame: Vec<Node>,
}

/// Named windows of one kind.
#[derive(Debug, Serialize)]
struct WindowGroupView {
    title: String,
    marks: Vec<session::NamedWindow>,
    /// The number of windows left out, as text. Empty if there are none.
    more: String,
}

impl Overview {
    /// Returns null for a trace without GPU ops.
    pub(super) fn draw(&self, trace: &Trace, choices: &str, width: u32, known: u32) -> JsResult<JsValue> {
        let choices: Choices = json::read(choices).map_err(to_js_error)?;
        // An invalid window is an error of the analysis. The strips are shown without it, to pick a better one.
        let picked = session::window(trace, choices.window.as_deref().unwrap_or_default()).ok().flatten();
        // The strips do not depend on the window.
        let choices = Choices { window: None, ..choices };
        let Cached { drawn, turn } = &mut *self.0.borrow_mut();
        if !matches!(&*drawn, Some((cached, cached_width, _)) if (cached, *cached_width) == (&choices, width)) {
            let strips = session::strips(trace, &choices, chart::strip_columns(width)).map_err(to_js_error)?;
            *drawn = Some((choices, width, strips));
            *turn += 1;
        }
        let Some((_, _, Some(strips))) = drawn else { return Ok(JsValue::NULL) };
        let chart = (*turn != known).then(|| chart::overview(strips, width));
        to_js(&Drawing { turn: *turn, chart, frame: chart::overview_frame(strips, picked, width) })
    }
}

#[wasm_bindgen]
impl Imported {
    /// The overview strips under these choices, in this width in pixels: `{turn, chart, frame}`. `chart` is null if `known` is the
    /// turn of these strips, because the page takes long to lay out their paths. Null if the file contains no trace.
    ///
    /// # Errors
    /// Those of [`Imported::analyze`].
    pub fn strips(&self, choices: &str, width: u32, known: u32) -> JsResult<JsValue> {
        self.trace().map_or(Ok(JsValue::NULL), |trace| self.overview.draw(trace, choices, width, known))
    }

    /// The chosen window as a file for Perfetto. Empty if the file contains no trace.
    ///
    /// # Errors
    /// An invalid window, or one with too many events.
    pub fn slice(&self, choices: &str) -> JsResult<Vec<u8>> {
        let Some(trace) = self.trace() else { return Ok(Vec::new()) };
        let choices: Choices = json::read(choices).map_err(to_js_error)?;
        session::slice(trace, &choices).map(String::into_bytes).map_err(to_js_error)
    }

    /// The text of the window between two positions in the strips, from 0 (begin) to 1 (end).
    pub fn window(&self, from: f64, to: f64) -> String {
        self.trace().map(|trace| session::window_text(trace, from, to)).unwrap_or_default()
    }

    /// Steps, stages and ranges whose windows can be picked: `{title, marks: {title, window}[], more}[]`.
    ///
    /// # Errors
    /// None in practice.
    pub fn marks(&self) -> JsResult<JsValue> {
        let Some(trace) = self.trace() else { return Ok(JsValue::NULL) };
        let groups = session::named_windows(trace).into_iter();
        let groups = groups.map(|session::WindowGroup { title, windows, more }| {
            let more = if more > 0 { grouped(more as u64) } else { String::new() };
            WindowGroupView { title, marks: windows, more }
        });
        to_js(&groups.collect::<Vec<_>>())
    }
}
