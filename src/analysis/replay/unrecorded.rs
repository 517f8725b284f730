//! Host time in which a thread either works or waits for the GPU, and no recorded call or code says which: it polls memory, or another
//! thread tells it. Such time is before a call, without known code, and the GPU works meanwhile. A range says nothing about what its
//! thread does. One pass over the calls, with binary searches.
//!
//! The replay computes both: the thread works (its time stays when the GPU is faster), and the thread waits (it goes on some time after the
//! op that ended last before the call).

use super::gap_code::GapCode;
use super::ids::{Call, Op};
use crate::analysis::time::work::{Intervals, PrefixSums, add_interval};
use crate::trace::{NameId, Ns};
use std::collections::HashMap;

/// Time without code up to this length between two calls is work.
const SHORT_GAP: Ns = Ns(50_000);
/// From this length on it may be a wait in full.
const LONG_GAP: Ns = Ns(250_000);

/// A wait that is not recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MaybeWait {
    /// How long the GPU works in the time without code.
    pub(super) time: Ns,
    /// The part of it that is probably a wait: all of it in a long time without code that ends with the op.
    pub(super) likely: Ns,
    /// What it would wait for.
    pub(super) op: Op,
}

/// The possible waits before calls.
#[derive(Debug, Default)]
pub(super) struct Unrecorded {
    waits: HashMap<Call, MaybeWait>,
    /// By name of host code, whether it is the name of a range.
    is_range: Vec<bool>,
}

impl Unrecorded {
    pub(super) fn of(code: &GapCode, is_range: Vec<bool>) -> Self {
        let mut found = Self { waits: HashMap::new(), is_range };
        let busy = busy(code);
        // A time without code can be as long as the trace, on each of many threads.
        let busy = PrefixSums::of(&busy);
        for (id, call) in code.recorded.calls.iter() {
            // An op whose launch is later than its end has a skewed clock.
            let was_launched = |op: Op| code.recorded.op(op).call.is_some_and(|launch| launch < id);
            let ended = code.recorded.ended_until(call.start).next();
            let Some((_, op)) = ended.filter(|(_, op)| was_launched(*op)) else { continue };
            let mut all = Ns::ZERO;
            code.each_part(id, &mut |_, time| all += time);
            let (mut until, mut wait) = (call.start - all, MaybeWait { time: Ns::ZERO, likely: Ns::ZERO, op });
            if all <= SHORT_GAP || code.recorded.op(op).end <= until {
                continue;
            }
            // A host that works would rarely go on just after the end of an op.
            let after = call.start.since(code.recorded.op(op).end);
            let nearness = 1.0 - after.0 as f64 / all.0 as f64;
            code.each_part(id, &mut |running, part| {
                let from = until;
                until += part;
                if found.says_nothing(running.and_then(|code| code.function)) {
                    let share = part.since(SHORT_GAP).0 as f64 / LONG_GAP.since(SHORT_GAP).0 as f64;
                    let time = busy.between(from, until);
                    wait.time += time;
                    wait.likely += Ns((share.clamp(0.0, 1.0) * nearness * time.0 as f64) as i64);
                }
            });
            if wait.likely > Ns::ZERO {
                found.waits.insert(id, wait);
            }
        }
        found
    }

    /// The possible wait before a call.
    pub(super) fn before(&self, call: Call) -> Option<MaybeWait> {
        self.waits.get(&call).copied()
    }

    /// Whether no code is known, or only a range.
    pub(super) fn says_nothing(&self, function: Option<NameId>) -> bool {
        function.is_none_or(|name| self.is_range(name))
    }

    /// Whether host code is a range.
    pub(super) fn is_range(&self, name: NameId) -> bool {
        self.is_range.get(name.0 as usize) == Some(&true)
    }
}

/// When the GPU works.
fn busy(code: &GapCode) -> Intervals {
    let mut busy = Intervals::new();
    code.recorded.ops.values().iter().for_each(|op| add_interval(&mut busy, (op.start, op.end)));
    busy
}
