//! The timeline that was opened last, kept between requests.

use super::super::{JsResult, to_js_error};
use crate::session::{Choices, OpenTimeline};
use crate::trace::Trace;
use std::cell::{Ref, RefCell};

/// The timeline of the last choices.
#[derive(Debug, Default)]
pub(in super::super) struct TimelineCache(RefCell<Option<(Choices, Option<OpenTimeline>)>>);

impl TimelineCache {
    /// Opens the timeline under these choices unless it is open.
    pub(super) fn open(&self, trace: &Trace, choices: &Choices) -> JsResult<Ref<'_, Option<OpenTimeline>>> {
        let choices = Choices { window: None, without_sections: false, ..choices.clone() };
        if !matches!(&*self.0.borrow(), Some((known, _)) if *known == choices) {
            let opened = OpenTimeline::of(trace, &choices).map_err(to_js_error)?;
            *self.0.borrow_mut() = Some((choices, opened));
        }
        Ok(self.last())
    }

    /// The timeline that was opened last.
    pub(super) fn last(&self) -> Ref<'_, Option<OpenTimeline>> {
        Ref::map(self.0.borrow(), |cached| cached.as_ref().map_or(&None, |(_, timeline)| timeline))
    }
}
