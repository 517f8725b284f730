//! Finds the code around launches of kernels whose names do not tell their category: [`crate::trace::LaunchCode`].
//!
//! Reports drop most of the code when the file is read, while the triage keeps it. Both take the evidence from here, so they give a
//! kernel one category. At most [`MAX_LAUNCHES`] launches of a name are looked up, evenly over the trace. Cost: O(n log n) for the names
//! and O(1) for most events of code, plus O(1) for each launch inside an event.

use crate::analysis::categories::{eager_launches, undecided_names};
use crate::ordering::{self, partition_point_near};
use crate::rules::category_words::CategoryWords;
use crate::trace::{CodeEvent, CodeKind, CodeOfLaunch, LaunchCode, NameId, Names, Ns, ThreadId, Trace};

/// The maximum number of launches of one name that are looked up.
const MAX_LAUNCHES: u64 = 64;

/// Finds the innermost code around some launches. Events may arrive in any order.
#[derive(Debug, Default)]
pub(super) struct LaunchCodeSearch {
    /// Sorted by thread and time.
    launches: Vec<Found>,
    /// By name of a function: whether it tells a category.
    is_listed: Vec<bool>,
    /// The first launch at or after the start of the event before.
    first: usize,
}

/// A launch and the innermost code around it so far.
#[derive(Debug, Clone, Copy)]
struct Found {
    thread: ThreadId,
    start: Ns,
    kernel: NameId,
    op: Option<Around>,
    function: Option<Around>,
}

/// An event around a launch.
#[derive(Debug, Clone, Copy)]
struct Around {
    name: NameId,
    start: Ns,
    end: Ns,
}

impl LaunchCodeSearch {
    pub(super) fn new(trace: &Trace, functions: &Names) -> Self {
        let words = CategoryWords::embedded();
        let is_listed = functions.iter().map(|name| words.frame(name).is_some()).collect();
        Self { launches: sampled(trace), is_listed, first: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.launches.is_empty()
    }

    pub(super) fn add(&mut self, event: CodeEvent) {
        let is_function = event.kind == CodeKind::Function;
        if is_function && self.is_listed.get(event.name.0 as usize) != Some(&true) {
            return;
        }
        let time = event.time;
        self.first = partition_point_near(&self.launches, self.first, |launch| {
            (launch.thread, launch.start) < (time.thread, time.start)
        });
        let later = self.launches.iter_mut().skip(self.first);
        for launch in later.take_while(|launch| launch.thread == time.thread && launch.start < time.end) {
            let innermost = if is_function { &mut launch.function } else { &mut launch.op };
            let is_inner = |known: &Around| (known.start, time.end) <= (time.start, known.end);
            if innermost.as_ref().is_none_or(is_inner) {
                *innermost = Some(Around { name: event.name, start: time.start, end: time.end });
            }
        }
    }

    /// The code of all launches; the names are those of the events.
    pub(super) fn finish(self, functions: &Names, ops: &Names) -> LaunchCode {
        let mut code = LaunchCode::default();
        for Found { kernel, op, function, .. } in self.launches {
            let op = op.map(|op| code.ops.intern(ops.get(op.name)));
            let function = function.map(|function| code.functions.intern(functions.get(function.name)));
            code.launches.push(CodeOfLaunch { kernel, op, function });
        }
        code
    }
}

/// The launches that are looked up.
fn sampled(trace: &Trace) -> Vec<Found> {
    let is_undecided = undecided_names(trace);
    if !is_undecided.contains(&true) {
        return Vec::new();
    }
    let launches = || {
        let rows = eager_launches(trace).filter(|(kernel, _)| is_undecided.get(kernel.0 as usize) == Some(&true));
        rows.filter_map(|(kernel, call)| Some((kernel, trace.calls.get(call)?)))
    };
    let mut counts = vec![0_u64; is_undecided.len()];
    for (kernel, _) in launches() {
        counts.get_mut(kernel.0 as usize).into_iter().for_each(|count| *count += 1);
    }
    let mut seen = vec![0_u64; counts.len()];
    let mut found = Vec::new();
    for (kernel, call) in launches() {
        let index = kernel.0 as usize;
        let (Some(count), Some(seen)) = (counts.get(index), seen.get_mut(index)) else { continue };
        if is_sampled(*seen, *count) {
            found.push(Found { thread: call.thread, start: call.start, kernel, op: None, function: None });
        }
        *seen += 1;
    }
    ordering::sort_by_key(&mut found, |launch| (launch.thread, launch.start));
    found
}

/// Whether the launch with this number is one of at most [`MAX_LAUNCHES`] of `count`.
fn is_sampled(number: u64, count: u64) -> bool {
    if count <= MAX_LAUNCHES {
        return true;
    }
    let part = |number: u64| u128::from(number) * u128::from(MAX_LAUNCHES) / u128::from(count);
    number == 0 || part(number) != part(number - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_spread_over_all_launches() {
        for count in [1, 63, 64, 65, 100, 1_000, 64_001] {
            let sampled: Vec<u64> = (0..count).filter(|number| is_sampled(*number, count)).collect();
            assert_eq!(sampled.len() as u64, count.min(MAX_LAUNCHES), "{count}");
            let widest = sampled.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1);
            assert!(widest <= count / MAX_LAUNCHES + 1, "{count}: {widest}");
        }
    }
}
