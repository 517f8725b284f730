//! Keeps intermediate results of a trace between its reports, so that the report of a window takes less time.
//!
//! Cached are the first results of the last report until its sections are requested, the ranges around the calls of the
//! whole trace, and the window index of the whole trace. The index is built when the sections of a window are first
//! requested. The report is byte for byte the same as without the cache.

use super::{Choices, First, first_run, options, part};
use crate::Result;
use crate::analysis::add_sections;
use crate::analysis::context::Reused;
use crate::analysis::index::{WindowIndex, WindowSegments};
use crate::analysis::sections;
use crate::analysis::structure::call_ranges::{CallRanges, CallRangesView};
use crate::analysis::structure::phase_names::PhaseNames;
use crate::analysis::summary::{Summary, window_index};
use crate::report::Report;
use crate::rules::signals::Signals;
use crate::trace::Trace;
use std::cell::OnceCell;

/// The cache of one trace. The caller must use one cache per trace.
#[derive(Debug, Default)]
pub struct WindowCache {
    pub(super) first: Option<First>,
    pub(super) call_ranges: OnceCell<CallRanges>,
    /// `None` if the trace cannot be cut into segments.
    pub(super) index: OnceCell<Option<WindowIndex<Summary>>>,
}

/// No ranges and no index are kept of larger traces: they take about half the memory of the trace, and both must
/// fit into a browser tab.
const MAX_WEIGHT: usize = 10_000_000;

/// An estimate of the size of the cache. The index takes about twice as much per op as the ranges take per call or
/// range.
fn weight(trace: &Trace) -> usize {
    2 * trace.gpu_ops.len() + trace.calls.len() + trace.ranges.len()
}

impl WindowCache {
    /// The report of [`super::run`] as JSON. Reuses the first results if the last report had the same choices but
    /// no sections.
    ///
    /// # Errors
    /// Those of [`super::run`].
    pub fn report(&mut self, trace: &Trace, choices: &Choices) -> Result<String> {
        let first = match self.first.take().filter(|first| first.choices == *choices) {
            Some(first) => first,
            None => self.first_results(trace, choices)?,
        };
        let First { part, mut run, groups, .. } = first;
        let options = options(trace, choices)?;
        let window = part.as_ref().filter(|_| sections::ARE_COMPILED && !options.without_sections);
        let call_ranges = self.call_ranges(trace, window);
        let segments = self.segments(trace, window, call_ranges);
        let reused = Reused { groups: Some(&groups), call_ranges, segments: segments.as_ref() };
        add_sections(&mut run, part.as_ref().unwrap_or(trace), &options, reused);
        let mut report = Report::new(vec![run]);
        let text = report.compact();
        if let (true, Some(run)) = (choices.without_sections, report.runs.pop()) {
            let choices = Choices { without_sections: false, ..choices.clone() };
            self.first = Some(First { choices, part, run, groups });
        }
        Ok(text)
    }

    /// Uses the index only if it already exists, because building it would delay the first results.
    fn first_results(&self, trace: &Trace, choices: &Choices) -> Result<First> {
        let part = part(trace, choices)?;
        let segments = self.existing_segments(trace, part.as_ref());
        let (run, groups) = first_run(part.as_ref().unwrap_or(trace), choices, segments.as_ref())?;
        Ok(First { choices: choices.clone(), part, run, groups })
    }

    /// The ranges around the calls of a window, unless range names state other phases in the window than in the
    /// whole trace.
    pub(super) fn call_ranges<'a>(&'a self, trace: &Trace, part: Option<&'a Trace>) -> Option<CallRangesView<'a>> {
        let part = part.filter(|_| weight(trace) < MAX_WEIGHT)?;
        let signals = Signals::embedded();
        let whole = self.call_ranges.get_or_init(|| CallRanges::of(trace, &PhaseNames::by_words(trace, &signals)));
        let agrees = whole.agrees_with(trace, part, &PhaseNames::by_words(part, &signals));
        agrees.then_some(whole.view_of_window(part.kept.as_ref()?))
    }

    /// The segments of a window. Builds the index if it does not exist.
    fn segments(
        &self,
        trace: &Trace,
        part: Option<&Trace>,
        call_ranges: Option<CallRangesView>,
    ) -> Option<WindowSegments<'_, Summary>> {
        let part = part.filter(|_| call_ranges.is_some())?;
        let index = self.index.get_or_init(|| window_index(trace, self.call_ranges.get()?));
        index.as_ref()?.window(trace, part)
    }

    /// The segments of a window if the index exists.
    pub(super) fn existing_segments(&self, trace: &Trace, part: Option<&Trace>) -> Option<WindowSegments<'_, Summary>> {
        self.index.get()?.as_ref()?.window(trace, part?)
    }
}
