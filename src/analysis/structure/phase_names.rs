//! The serving phase of each range name (prefill, decode, sampling), from the words of
//! `patterns/signals.json` or from the user's phase map. Computed once per distinct name.

use crate::rules::PhaseMap;
use crate::rules::phases::phases_of;
use crate::rules::signals::Signals;
use crate::trace::{NameId, Trace};

/// The phase of each range name of a trace.
#[derive(Debug)]
pub(crate) struct PhaseNames {
    pub(crate) phases: Vec<String>,
    /// By range name: an index into `phases`.
    phase_of: Vec<Option<usize>>,
}

impl PhaseNames {
    /// Phases by the words of `patterns/signals.json`.
    pub(crate) fn by_words(trace: &Trace, Signals { phases, .. }: &Signals) -> Self {
        let names = phases.iter().map(|phase| phase.phase.clone()).collect();
        Self { phases: names, phase_of: phases_of(phases, &trace.ranges.names) }
    }

    pub(crate) fn by_map(map: &PhaseMap, trace: &Trace) -> Self {
        let phase_of = trace.ranges.names.iter().map(|name| map.phase_of(name)).collect();
        Self { phases: map.names().map(str::to_owned).collect(), phase_of }
    }

    /// Phases by a function, for tests.
    #[cfg(test)]
    pub(crate) fn by(trace: &Trace, phase_of: &dyn Fn(NameId) -> Option<usize>) -> Self {
        let names = (0..trace.ranges.names.len() as u32).map(NameId);
        Self { phases: Vec::new(), phase_of: names.map(phase_of).collect() }
    }

    /// Returns the phase of a range name, an index into `phases`.
    pub(crate) fn phase(&self, range: NameId) -> Option<usize> {
        self.phase_of.get(range.0 as usize).copied().flatten()
    }
}
