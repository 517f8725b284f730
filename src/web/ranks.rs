//! Ranks of one job in the page: logs where the traces are, and in the module `gpuprism_full` what they say side by side.

use super::{Imported, Thrown, thrown};
use crate::analysis::communication::ranks;
use crate::json;
use crate::session::{self, Choices, Opened};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
impl Imported {
    /// How many ranks it holds: GPUs, where there are several; one, where it says that it is a rank of several; else none.
    pub fn ranks(&self) -> usize {
        match &self.opened {
            Opened::Trace(trace) if trace.devices.len() > 1 => trace.devices.len(),
            Opened::Trace(trace) => usize::from(trace.job.as_ref().is_some_and(|job| job.world_size > 1)),
            _ => 0,
        }
    }

    /// What the ranks of a trace did in the chosen window, as JSON text for [`Ranks`]; empty where none is chosen.
    ///
    /// # Errors
    /// What is no trace, and those of [`session::picked`].
    pub fn ranks_part(&self, choices: &str) -> Thrown<String> {
        let Opened::Trace(trace) = &self.opened else { return Err(thrown("the file holds no trace")) };
        let choices: Choices = json::read(choices).map_err(thrown)?;
        let window = session::picked(trace, &choices).map_err(thrown)?;
        Ok(window.map(|window| json::write(&ranks::window_log(trace, window))).unwrap_or_default())
    }

    /// The log of the ranks of a trace, as JSON text for [`Ranks`].
    ///
    /// # Errors
    /// What is no trace.
    pub fn ranks_log(&self) -> Thrown<String> {
        match &self.opened {
            Opened::Trace(trace) => Ok(json::write(&ranks::log(trace))),
            _ => Err(thrown("the file holds no trace")),
        }
    }
}

#[cfg(feature = "full")]
pub use desk::Ranks;

#[cfg(feature = "full")]
mod desk {
    use super::super::{Thrown, thrown, to_js, view};
    use crate::analysis::communication::ranks;
    use crate::analysis::communication::ranks::{RankInput, RankLog, RankWindow};
    use crate::json;
    use crate::report::{TableRequest, chart, csv, palette, ranks as words, sort_and_filter};
    use crate::session::{text_of_window, window_in};
    use crate::trace::Window;
    use serde::Serialize;
    use std::cell::OnceCell;
    use wasm_bindgen::prelude::*;

    /// What is said of all jobs, and the parts of their bars.
    #[derive(Debug, Serialize)]
    struct Said {
        verdict: Vec<String>,
        /// Why files are not grouped.
        aside: Vec<String>,
        has_jobs: bool,
        /// Nothing but the ranks of one job.
        is_one_job: bool,
        parts: Vec<Part>,
    }

    #[derive(Debug, Serialize)]
    struct Part {
        name: &'static str,
        class: String,
    }

    /// The ranks of all open traces, grouped into jobs. Holds no trace.
    #[wasm_bindgen]
    #[derive(Debug, Default)]
    pub struct Ranks {
        logs: Vec<RankLog>,
        /// In the order of the logs; one that is not there is of no window.
        parts: Vec<Option<RankWindow>>,
        /// Worked out when it is asked for, as logs come before it is known which windows are picked.
        found: OnceCell<ranks::Ranks>,
    }

    impl Ranks {
        fn found(&self) -> &ranks::Ranks {
            self.found.get_or_init(|| {
                let window = |at: usize| self.parts.get(at).and_then(Option::as_ref);
                let seen = self.logs.iter().enumerate().map(|(at, log)| RankInput { log, window: window(at) });
                ranks::ranks(&seen.collect::<Vec<_>>())
            })
        }
    }

    #[wasm_bindgen]
    impl Ranks {
        /// Takes the logs of all open traces, in any order.
        ///
        /// # Errors
        /// A text that is no log.
        #[wasm_bindgen(constructor)]
        pub fn new(logs: Vec<String>) -> Thrown<Self> {
            let mut read: Vec<RankLog> = Vec::new();
            for log in &logs {
                read.push(json::read(log).map_err(thrown)?);
            }
            Ok(Self { logs: read, ..Self::default() })
        }

        /// Looks at windows from now on: of each trace what `ranks_part` says, in the order of the logs.
        ///
        /// # Errors
        /// A text that is no such part.
        pub fn look(&mut self, parts: Vec<String>) -> Thrown<()> {
            let read = |part: &String| if part.is_empty() { Ok(None) } else { json::read(part).map(Some) };
            self.parts = parts.iter().map(read).collect::<Result<_, _>>().map_err(thrown)?;
            self.found = OnceCell::new();
            Ok(())
        }

        /// The windows of the other traces of a job, of which this one is picked in the trace at this place: a text a trace, null for
        /// those to leave as they are.
        ///
        /// # Errors
        /// A text that is no window.
        pub fn windows(&self, at: usize, window: &str) -> Thrown<JsValue> {
            let logs: Vec<&RankLog> = self.logs.iter().collect();
            let span = |at: usize| logs.get(at).and_then(|log| log.span());
            // No window is all of it, in the other traces too.
            let picked = window_in(span(at), window).map_err(thrown)?;
            let Some(whole) = picked.or(span(at)) else { return to_js(&Vec::<Option<String>>::new()) };
            let text = |(found, span): (Window, Window)| {
                text_of_window(found.start.since(span.start), found.end.since(span.start))
            };
            let mut texts = vec![None; logs.len()];
            for (at, found) in ranks::JobClocks::new(&logs).windows(at, whole) {
                // One that holds nothing of this time is not left in a window of another time.
                if let Some(slot) = texts.get_mut(at) {
                    *slot = Some(picked.and(found).zip(span(at)).map(text).unwrap_or_default());
                }
            }
            to_js(&texts)
        }

        /// Verdicts, what is not grouped, and the legend of the bars.
        ///
        /// # Errors
        /// Never in practice: all of it is strings.
        pub fn said(&self) -> Thrown<JsValue> {
            let found = self.found();
            let part = |name: &'static str| Part { name, class: palette::class(name) };
            to_js(&Said {
                verdict: words::verdict(found),
                aside: words::ungrouped(found),
                has_jobs: !found.jobs.is_empty(),
                is_one_job: found.jobs.len() == 1 && found.ungrouped.is_empty(),
                parts: chart::PARTS.map(part).into(),
            })
        }

        /// A bar a rank, as a list of SVG nodes.
        ///
        /// # Errors
        /// Never in practice: the nodes are strings.
        pub fn chart(&self, width: u32) -> Thrown<JsValue> {
            to_js(&chart::rank_bars(&self.found().jobs, width))
        }

        /// A table as `Reports.table` gives those of the runs; null where it would have no row.
        ///
        /// # Errors
        /// A request of another shape.
        pub fn table(&self, request: &str) -> Thrown<JsValue> {
            let request: TableRequest = json::read(request).map_err(thrown)?;
            let whole = words::table(self.found(), &request.id);
            to_js(&whole.map(|whole| view::Arranged::table(whole, &request, false).view(&request)))
        }

        /// The same as CSV, with all its columns: what the command line prints, sorted and filtered as asked.
        ///
        /// # Errors
        /// A request of another shape.
        pub fn csv(&self, request: &str) -> Thrown<String> {
            let request: TableRequest = json::read(request).map_err(thrown)?;
            let whole = words::full_table(self.found(), &request.id);
            Ok(whole.map(|whole| csv(&sort_and_filter(whole, &request))).unwrap_or_default())
        }
    }
}
