//! The timeline of a trace under the user's rules, kept between the requests of the page.

use super::{Choices, pick_rules, rule_book};
use crate::Result;
use crate::analysis::timeline::{Layer, Moment, Tile, TileRange, Timeline};
use crate::report::timeline::TimelineTexts;
use crate::rules::RuleSet;
use crate::trace::Trace;

/// The timeline of one trace with what its texts need. It does not depend on the chosen window.
#[derive(Debug)]
pub struct OpenTimeline {
    /// Lanes and bars.
    pub timeline: Timeline,
    /// Names.
    pub texts: TimelineTexts,
    rules: RuleSet,
}

impl OpenTimeline {
    /// `None` for a trace without GPU ops.
    ///
    /// # Errors
    /// Those of [`rule_book`] and [`pick_rules`].
    pub fn of(trace: &Trace, choices: &Choices) -> Result<Option<Self>> {
        let rules = pick_rules(&rule_book(&choices.rules)?.0, choices)?;
        let timeline = Timeline::of(trace, &rules);
        Ok(timeline.map(|timeline| Self { timeline, texts: TimelineTexts::of(trace), rules }))
    }

    /// The bars of a tile; `None` if there is no such tile.
    pub fn tile(&self, trace: &Trace, layer: Layer, level: u32, index: i64) -> Option<Tile> {
        let range = TileRange::new(self.timeline.zero, level, index)?;
        Some(self.timeline.tile(trace, layer, range))
    }

    /// One bar in detail; `None` if there is no such bar.
    pub fn moment(&self, trace: &Trace, lane: usize, row: usize) -> Option<Moment> {
        self.timeline.moment(trace, &self.rules, lane, row)
    }
}
