//! Where a trace can be cut so that what comes before has nothing to do with what comes behind.
//!
//! On each device where it rests: wherever it rested last when all have rested since the search began, mostly at one place. All that one
//! call launched stays on one side.

use crate::trace::{DeviceId, Ns, Trace};

/// Of each device the place from which on its ops lie behind.
pub(crate) type Seam = Vec<usize>;

/// A trace of more devices is not cut: no machine has so many, and each op would be asked of all of them.
const MOST_DEVICES: usize = 256;

/// From before the first op to behind the last, so many ops apart or more.
pub(crate) fn seams(least: usize, trace: &Trace) -> Vec<Seam> {
    let (all, devices) = (trace.gpu_ops.len(), trace.devices.len());
    if devices > MOST_DEVICES {
        return Vec::new();
    }
    let mut seams = vec![vec![0; devices]];
    let mut search = Search::of(trace);
    let mut from = 0;
    for (at, op) in trace.gpu_ops.iter_in(&trace.gpu_ops.places()) {
        if at - from >= least
            && all - at >= least
            && let Some(seam) = search.try_at(at, op.start)
        {
            seams.push(seam);
            from = at;
        }
        search.see(at, op.device, op.end(), trace);
    }
    seams.push(vec![all; devices]);
    seams
}

/// Stands in [`Launched`] beside the place: on several devices.
const SHARED: u32 = 1 << 31;

/// Of each call the place behind the last op that it launched, and whether it did so on several devices.
struct Launched(Vec<u32>);

impl Launched {
    fn of(trace: &Trace) -> Self {
        let mut until: Vec<u32> = vec![0; trace.calls.len()];
        for ((at, op), call) in (1..).zip(trace.gpu_ops.iter()).zip(trace.gpu_ops.launches()) {
            let Some(until) = call.and_then(|call| until.get_mut(call.0 as usize)) else { continue };
            let before = (*until & !SHARED).checked_sub(1).and_then(|at| trace.gpu_ops.get(at as usize));
            let is_shared = before.is_some_and(|before| before.device != op.device);
            *until = at | *until & SHARED | if is_shared { SHARED } else { 0 };
        }
        Self(until)
    }

    fn until(&self, trace: &Trace, at: usize) -> (usize, bool) {
        let until = trace.gpu_ops.launch(at).and_then(|call| self.0.get(call.0 as usize)).copied().unwrap_or(0);
        ((until & !SHARED) as usize, until & SHARED != 0)
    }
}

/// The search for the next seam, on the way through the ops.
struct Search {
    launched: Launched,
    devices: Vec<Device>,
    /// The place behind the last op of all calls seen that launched on several devices.
    shared_until: usize,
}

#[derive(Clone, Copy)]
struct Device {
    /// How far its ops reach.
    reach: Ns,
    /// The place behind the last op of all calls that launched something on it.
    until: usize,
    /// Where it rested last since the search began.
    rest: Option<usize>,
}

impl Search {
    fn of(trace: &Trace) -> Self {
        let device = Device { reach: Ns(i64::MIN), until: 0, rest: None };
        Self { launched: Launched::of(trace), devices: vec![device; trace.devices.len()], shared_until: 0 }
    }

    fn see(&mut self, at: usize, device: DeviceId, end: Ns, trace: &Trace) {
        let (until, is_shared) = self.launched.until(trace, at);
        if is_shared {
            self.shared_until = self.shared_until.max(until);
        }
        let Some(device) = self.devices.get_mut(device.0 as usize) else { return };
        device.reach = device.reach.max(end);
        device.until = device.until.max(until);
    }

    /// Notes which devices rest when the op at this place begins. A seam once all have rested, where no call is on both sides.
    fn try_at(&mut self, at: usize, start: Ns) -> Option<Seam> {
        for device in self.devices.iter_mut().filter(|device| device.reach <= start && device.until <= at) {
            device.rest = Some(at);
        }
        let is_apart = |device: &Device| device.rest.is_some_and(|rest| self.shared_until <= rest);
        if !self.devices.iter().all(is_apart) {
            return None;
        }
        self.devices.iter_mut().map(|device| device.rest.take()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Format, GpuOp, OpKind, Span, TraceBuilder};

    /// Ops as (start, duration, device, the call that launched it).
    fn trace(ops: &[(i64, i64, u32, u32)]) -> Trace {
        let mut builder = TraceBuilder::new("t", Format::NsysSqlite);
        let process = builder.process(1, "");
        let thread = builder.thread(process, 1);
        for &(start, duration, device, call) in ops {
            let (name, device) = (builder.trace.names.intern("k"), builder.device(&device.to_string(), ""));
            let (start, duration) = (Ns(start), Ns(duration));
            let op = GpuOp { start, duration, name, device, stream: 7, process, kind: OpKind::Kernel };
            builder.trace.gpu_ops.push(op, Some(call));
            let name = builder.trace.calls.names.intern("cudaLaunchKernel");
            builder.add_call(Span { start, duration: Ns(1), name, thread }, Some(call));
        }
        builder.finish()
    }

    #[test]
    fn devices_that_rest_together_are_cut_together_and_others_each_where_they_rested_last() {
        let together = trace(&[(0, 5, 0, 1), (1, 3, 1, 2), (10, 5, 0, 3), (11, 3, 1, 4)]);
        assert_eq!(seams(1, &together), [[0, 0], [2, 2], [4, 4]]);
        // From 12 to 14 the first device rests, before 5 and from 15 to 18 the second.
        let apart = trace(&[(0, 12, 0, 1), (5, 10, 1, 2), (14, 10, 0, 3), (18, 9, 1, 4), (28, 1, 0, 5)]);
        assert_eq!(seams(1, &apart), [[0, 0], [2, 1], [4, 4], [5, 5]]);
    }

    #[test]
    fn what_a_call_launched_on_several_devices_stays_on_one_side() {
        let graph = trace(&[(0, 1, 0, 1), (5, 1, 1, 2), (10, 1, 0, 2), (20, 1, 1, 3)]);
        assert_eq!(seams(1, &graph), [[0, 0], [1, 1], [3, 3], [4, 4]]);
    }

    #[test]
    fn a_trace_of_more_devices_than_any_machine_has_is_not_cut() {
        let ops: Vec<_> = (0..300).map(|at| (i64::from(at) * 10, 1, at, at)).collect();
        assert!(seams(1, &trace(&ops)).is_empty());
    }
}
