//! The host code before each call: the parts of the time between the call and the one that it follows. O(log n + parts) for a call.

use super::code::PROFILER_CODE;
use super::handoffs::Handoff;
use super::ids::Call;
use super::recorded::Recorded;
use crate::trace::{CodeTimelines, HostInterval, HostTimes, NameId, Ns, RunningCode};
use std::collections::HashMap;

/// The host code of the replayed part.
pub(super) struct GapCode<'a> {
    pub(super) recorded: &'a Recorded,
    pub(super) handoffs: &'a HashMap<Call, Handoff>,
    pub(super) timelines: Option<&'a CodeTimelines>,
    /// When the profiler held threads.
    pub(super) pauses: &'a HostTimes,
    pub(super) beginning: Ns,
}

impl GapCode<'_> {
    /// Calls `visit` with the parts of the time before a call; `None` where no code is known. They add up to it.
    pub(super) fn each_part(&self, id: Call, visit: &mut dyn FnMut(Option<RunningCode>, Ns)) {
        let call = self.recorded.call(id);
        if let Some(handoff) = self.handoffs.get(&id) {
            let other = self.recorded.call(handoff.from);
            // The code of the other thread; where it has none, that of the call's thread at the end of the gap.
            let mut unknown = Ns::ZERO;
            let until = handoff.until.min(call.start).max(other.end);
            self.parts(&other, other.end, until, &mut |code, time| match code {
                Some(_) => visit(code, time),
                None => unknown += time,
            });
            return self.parts(&call, until - unknown, call.start, visit);
        }
        self.each_own_part(id, visit);
    }

    /// The same on the thread of the call alone, since its call before.
    pub(super) fn each_own_part(&self, id: Call, visit: &mut dyn FnMut(Option<RunningCode>, Ns)) {
        let call = self.recorded.call(id);
        let before = self.recorded.previous.at(id).map_or(self.beginning, |before| self.recorded.call(before).end);
        self.parts(&call, before, call.start, visit);
    }

    fn parts(
        &self,
        on_thread_of: &super::recorded::CallRow,
        start: Ns,
        end: Ns,
        visit: &mut dyn FnMut(Option<RunningCode>, Ns),
    ) {
        let known = |code: RunningCode| code.function.is_some();
        match self.timelines {
            Some(timelines) => {
                let thread = on_thread_of.thread;
                timelines
                    .each_part(thread, start, end, &mut |code, time| visit(code.filter(|code| known(*code)), time));
            }
            None if end > start => visit(None, end.since(start)),
            None => {}
        }
    }

    /// The name that stands for the profiler in the code; `None` if it held no thread of the part.
    pub(super) fn profiler(&self) -> Option<NameId> {
        let names = self.timelines.filter(|_| !self.pauses.is_empty())?.names.iter();
        let position = names.take_while(|name| *name != PROFILER_CODE).count();
        let name = NameId(u32::try_from(position).ok()?);
        self.timelines.filter(|timelines| position < timelines.names.len()).map(|_| name)
    }

    /// How long the profiler held the thread within a call.
    pub(super) fn pause_in_call(&self, call: Call) -> Ns {
        let call = self.recorded.call(call);
        self.pauses.time_in(HostInterval { thread: call.thread, start: call.start, end: call.end })
    }

    /// The time before a call in which the thread waits for another thread or process.
    pub(super) fn waiting_time(&self, call: Call) -> Ns {
        let mut waiting = Ns::ZERO;
        if self.timelines.is_some() {
            self.each_part(call, &mut |code, time| {
                if code.is_some_and(|code| code.waits) {
                    waiting += time;
                }
            });
        }
        waiting
    }
}
