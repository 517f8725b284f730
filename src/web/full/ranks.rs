//! Comparison of the ranks of a distributed job, across all open traces.

use crate::analysis::communication::ranks;
use crate::analysis::communication::ranks::{RankInput, RankLog, RankWindow};
use crate::json;
use crate::report::{RowCases, TableRequest, chart, csv, palette, ranks as words, sort_and_filter};
use crate::session::{text_of_window, window_in};
use crate::trace::{Ns, Window};
use crate::web::{JsResult, to_js, to_js_error, view};
use serde::Serialize;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use wasm_bindgen::prelude::*;

/// The verdicts on all jobs, and the legend of their bars.
#[derive(Debug, Serialize)]
struct Summary {
    verdict: Vec<String>,
    /// Why files are not grouped.
    aside: Vec<String>,
    has_jobs: bool,
    /// All open traces belong to one job.
    is_one_job: bool,
    /// The traces of the ranks that the verdict names, by index, in the order of the verdict.
    named: Vec<usize>,
    parts: Vec<Part>,
}

/// A rank waits for another one.
#[derive(Debug, Serialize)]
struct WaitView {
    from: f64,
    to: f64,
    rank: String,
}

#[derive(Debug, Serialize)]
struct Part {
    name: &'static str,
    class: String,
}

/// The ranks of all open traces, grouped into jobs. Contains no trace.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Ranks {
    logs: Vec<RankLog>,
    /// The log of the chosen window, per entry of `logs`. `None` without a window.
    windows: Vec<Option<RankWindow>>,
    /// Computed on first use, because the chosen windows are set after the logs.
    comparison: OnceCell<ranks::Ranks>,
}

impl Ranks {
    /// See [`Summary::named`].
    fn named(&self) -> Vec<usize> {
        let ranks = self.comparison().jobs.iter().flat_map(ranks::Job::stragglers);
        let mut named: Vec<usize> =
            ranks.filter_map(|rank| self.logs.iter().position(|log| log.file == rank.file)).collect();
        let mut seen = BTreeSet::new();
        named.retain(|index| seen.insert(*index));
        named
    }

    fn comparison(&self) -> &ranks::Ranks {
        self.comparison.get_or_init(|| {
            let window = |index: usize| self.windows.get(index).and_then(Option::as_ref);
            let inputs = self.logs.iter().enumerate().map(|(index, log)| RankInput { log, window: window(index) });
            ranks::ranks(&inputs.collect::<Vec<_>>())
        })
    }
}

#[wasm_bindgen]
impl Ranks {
    /// Takes the logs of all open traces, in any order.
    ///
    /// # Errors
    /// A text is no log.
    #[wasm_bindgen(constructor)]
    pub fn new(logs: Vec<String>) -> JsResult<Self> {
        let mut read: Vec<RankLog> = Vec::new();
        for log in &logs {
            read.push(json::read(log).map_err(to_js_error)?);
        }
        Ok(Self { logs: read, ..Self::default() })
    }

    /// Sets the chosen windows: the text of `ranks_part` for each trace, in the order of the logs.
    ///
    /// # Errors
    /// An invalid text.
    pub fn set_windows(&mut self, parts: Vec<String>) -> JsResult<()> {
        let read = |part: &String| if part.is_empty() { Ok(None) } else { json::read(part).map(Some) };
        self.windows = parts.iter().map(read).collect::<Result<_, _>>().map_err(to_js_error)?;
        self.comparison = OnceCell::new();
        Ok(())
    }

    /// The windows of all traces that show the same moments as `window` of the trace at `index`: one text per trace, null for
    /// traces of other jobs.
    ///
    /// # Errors
    /// An invalid window.
    pub fn windows(&self, index: usize, window: &str) -> JsResult<JsValue> {
        let logs: Vec<&RankLog> = self.logs.iter().collect();
        let span = |index: usize| logs.get(index).and_then(|log| log.span());
        // No window means the whole trace, in the other traces too.
        let picked = window_in(span(index), window).map_err(to_js_error)?;
        let Some(whole) = picked.or(span(index)) else { return to_js(&Vec::<Option<String>>::new()) };
        let text = |(found, span): (Window, Window)| {
            text_of_window(found.start.since(span.start), found.end.since(span.start))
        };
        let mut texts = vec![None; logs.len()];
        for (index, found) in ranks::JobClocks::new(&logs).windows(index, whole) {
            // A trace without events at these moments shows all of its time instead of an unrelated window.
            if let Some(slot) = texts.get_mut(index) {
                *slot = Some(picked.and(found).zip(span(index)).map(text).unwrap_or_default());
            }
        }
        to_js(&texts)
    }

    /// The same moment in all traces as `time` of the trace at `index`, in nanoseconds since the first GPU op of each: one
    /// number per trace, null for traces without a collective in common with it.
    pub fn moments(&self, index: usize, time: f64) -> JsResult<JsValue> {
        let logs: Vec<&RankLog> = self.logs.iter().collect();
        let start = |index: usize| logs.get(index).and_then(|log| log.span()).map(|span| span.start);
        let mut moments = vec![None; logs.len()];
        let Some(from) = start(index) else { return to_js(&moments) };
        for (log, time) in ranks::JobClocks::new(&logs).times(index, from + Ns(time as i64)) {
            if let (Some(slot), Some(start)) = (moments.get_mut(log), start(log)) {
                *slot = Some(time.since(start).0 as f64);
            }
        }
        to_js(&moments)
    }

    /// When the rank of each trace waited for another rank, in nanoseconds since its first GPU op: one list per trace.
    pub fn waits(&self) -> JsResult<JsValue> {
        let logs: Vec<&RankLog> = self.logs.iter().collect();
        let waits = ranks::JobClocks::new(&logs).waits();
        let view = |(log, waits): (&&RankLog, Vec<ranks::RankWait>)| {
            let zero = log.span().map(|span| span.start);
            let since = move |time: Ns| zero.map_or(0.0, |zero| time.since(zero).0 as f64);
            let view =
                |wait: ranks::RankWait| WaitView { from: since(wait.start), to: since(wait.until), rank: wait.rank };
            waits.into_iter().map(view).collect::<Vec<_>>()
        };
        to_js(&logs.iter().zip(waits).map(view).collect::<Vec<_>>())
    }

    /// Verdicts, the files that belong to no job with reasons, and the legend of the bars.
    pub fn summary(&self) -> JsResult<JsValue> {
        let comparison = self.comparison();
        let part = |name: &'static str| Part { name, class: palette::class(name) };
        to_js(&Summary {
            verdict: words::verdict(comparison),
            aside: words::ungrouped(comparison),
            has_jobs: !comparison.jobs.is_empty(),
            is_one_job: comparison.jobs.len() == 1 && comparison.ungrouped.is_empty(),
            named: self.named(),
            parts: chart::PARTS.map(part).into(),
        })
    }

    /// One bar per rank, as a list of SVG nodes.
    pub fn chart(&self, width: u32) -> JsResult<JsValue> {
        to_js(&chart::rank_bars(&self.comparison().jobs, width))
    }

    /// A table, like [`Reports::table`](crate::web::Reports::table). Null if it would have no rows.
    ///
    /// # Errors
    /// An invalid request.
    pub fn table(&self, request: &str) -> JsResult<JsValue> {
        let request: TableRequest = json::read(request).map_err(to_js_error)?;
        let table = words::table(self.comparison(), &request.id);
        let cases = || RowCases::of_ranks(self.comparison(), &request.id);
        let paged = |table| view::PagedTable::new(table, &request, false).with_cases(cases()).view(&request);
        to_js(&table.map(paged))
    }

    /// The same table as CSV with all columns, as the command line prints it, sorted and filtered.
    ///
    /// # Errors
    /// An invalid request.
    pub fn csv(&self, request: &str) -> JsResult<String> {
        let request: TableRequest = json::read(request).map_err(to_js_error)?;
        let table = words::full_table(self.comparison(), &request.id);
        Ok(table.map(|table| csv(&sort_and_filter(table, &request))).unwrap_or_default())
    }
}
