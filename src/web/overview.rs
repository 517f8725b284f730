//! The overview strips of a trace, cached.

use super::{JsResult, to_js, to_js_error};
use crate::analysis::time::strips::Strips;
use crate::json;
use crate::report::chart::{self, Chart, Node};
use crate::report::format::range;
use crate::session::{self, Choices};
use crate::trace::{Ns, Trace, Window};
use serde::Serialize;
use std::cell::RefCell;
use wasm_bindgen::prelude::JsValue;

/// A cache of the last strips: if only the window changes, only the frame over the strips is drawn again.
#[derive(Debug, Default)]
pub(super) struct Overview(RefCell<Option<(Choices, usize, Option<Strips>)>>);

/// The strips and the frame over them.
#[derive(Debug, Serialize)]
struct Drawing {
    /// Null if the page has it, like `axis`.
    chart: Option<Chart>,
    axis: Option<Chart>,
    frame: Vec<Node>,
    /// The chosen window in words; empty for the whole trace.
    caption: String,
}

impl Overview {
    /// Returns null for a trace without GPU ops.
    pub(super) fn draw(
        &self,
        trace: &Trace,
        choices: &str,
        (width, scale): (u32, Ns),
        has_chart: bool,
    ) -> JsResult<JsValue> {
        let choices: Choices = json::read(choices).map_err(to_js_error)?;
        // An invalid window is an error of the analysis. The strips are shown without it, to pick a better one.
        let picked = session::window(trace, choices.window.as_deref().unwrap_or_default()).ok().flatten();
        // The strips do not depend on the window.
        let choices = Choices { window: None, ..choices };
        let drawn = &mut *self.0.borrow_mut();
        let columns = columns(trace, chart::strip_columns(width), scale);
        if !matches!(&*drawn, Some((cached, cached_columns, _)) if (cached, *cached_columns) == (&choices, columns)) {
            let strips = session::strips(trace, &choices, columns).map_err(to_js_error)?;
            *drawn = Some((choices, columns, strips));
        }
        let Some((_, _, Some(strips))) = drawn else { return Ok(JsValue::NULL) };
        let chart = (!has_chart).then(|| chart::overview(strips, width));
        let axis = (!has_chart).then(|| chart::overview_axis(strips, width));
        let since_first_op = |time: Ns| time.since(strips.whole.start).0;
        let words = |window: Window| range(since_first_op(window.start), since_first_op(window.end));
        let caption = picked.map(words).unwrap_or_default();
        to_js(&Drawing { chart, axis, frame: chart::overview_frame(strips, picked, width), caption })
    }
}

/// The columns of a trace of which `all` stand for a time that is not shorter than the trace.
fn columns(trace: &Trace, all: usize, scale: Ns) -> usize {
    let length = trace.span().map_or(0, |span| span.length().0);
    let share = |all: usize| usize::try_from(all as i128 * i128::from(length) / i128::from(scale.0.max(1))).ok();
    if scale.0 > length { share(all).unwrap_or(all).max(1) } else { all }
}
