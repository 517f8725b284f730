//! The overview of a trace on the page: its strips, and the windows that can be picked from them.

use super::{Imported, Thrown, thrown, to_js};
use crate::analysis::time::strips::Strips;
use crate::digits::grouped;
use crate::json;
use crate::report::chart::{self, Chart, Node};
use crate::session::{self, Choices, Opened};
use crate::trace::Trace;
use serde::Serialize;
use std::cell::RefCell;
use wasm_bindgen::prelude::*;

/// The strips that were drawn last: another window in the same strips is another frame over them.
#[derive(Debug, Default)]
pub(super) struct Overview(RefCell<Last>);

#[derive(Debug, Default)]
struct Last {
    drawn: Option<(Choices, u32, Option<Strips>)>,
    /// How often other strips were drawn.
    turn: u32,
}

/// Strips, and what lies over them.
#[derive(Debug, Serialize)]
struct Drawing {
    turn: u32,
    /// Null where those of this turn are known.
    chart: Option<Chart>,
    frame: Vec<Node>,
}

/// What of one kind can be picked by name.
#[derive(Debug, Serialize)]
struct Marks {
    title: String,
    marks: Vec<session::NamedWindow>,
    /// How many more there are, as text; empty where these are all.
    more: String,
}

impl Overview {
    /// Null for a trace without GPU ops.
    pub(super) fn draw(&self, trace: &Trace, choices: &str, width: u32, known: u32) -> Thrown<JsValue> {
        let choices: Choices = json::read(choices).map_err(thrown)?;
        // The analysis refuses a wrong window in words; the strips are there to pick a better one.
        let picked = session::window(trace, choices.window.as_deref().unwrap_or_default()).ok().flatten();
        // What they are drawn from does not change with the window.
        let choices = Choices { window: None, ..choices };
        let Last { drawn, turn } = &mut *self.0.borrow_mut();
        if !matches!(&*drawn, Some((known, wide, _)) if (known, *wide) == (&choices, width)) {
            let strips = session::strips(trace, &choices, chart::strip_columns(width)).map_err(thrown)?;
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
    /// The overview strips of a trace, in this width and under these choices: `{turn, chart, frame}`, where `chart` is null if
    /// `known` is their turn, as paths of many points take a page long to lay out. Null for anything else.
    ///
    /// # Errors
    /// Those of `analyze`.
    pub fn strips(&self, choices: &str, width: u32, known: u32) -> Thrown<JsValue> {
        match &self.opened {
            Opened::Trace(trace) => self.overview.draw(trace, choices, width, known),
            _ => Ok(JsValue::NULL),
        }
    }

    /// The window chosen of a trace, as the text that Perfetto opens; empty for anything else.
    ///
    /// # Errors
    /// A window that cannot be used, and one of too many events.
    pub fn slice(&self, choices: &str) -> Thrown<Vec<u8>> {
        match &self.opened {
            Opened::Trace(trace) => {
                let choices: Choices = json::read(choices).map_err(thrown)?;
                session::slice(trace, &choices).map(String::into_bytes).map_err(thrown)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The text of the window between two places in the strips, of which 0 is the beginning and 1 the end.
    pub fn window(&self, from: f64, to: f64) -> String {
        match &self.opened {
            Opened::Trace(trace) => session::window_text(trace, from, to),
            _ => String::new(),
        }
    }

    /// Steps, stages and ranges that can be picked: `{title, marks: {title, window}[], more}[]`.
    ///
    /// # Errors
    /// Never in practice.
    pub fn marks(&self) -> Thrown<JsValue> {
        match &self.opened {
            Opened::Trace(trace) => {
                let groups = session::named_windows(trace).into_iter();
                let groups = groups.map(|session::WindowGroup { title, windows, more }| {
                    let more = if more > 0 { grouped(more as u64) } else { String::new() };
                    Marks { title, marks: windows, more }
                });
                to_js(&groups.collect::<Vec<_>>())
            }
            _ => Ok(JsValue::NULL),
        }
    }
}
