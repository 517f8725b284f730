//! Where a trace can be cut so that what comes before has nothing to do with what comes behind.
//!
//! A device is cut where it rests; where several never rest together each is cut at a place of its own, near the others'.
//! All that one call launched stays on one side.

use crate::trace::{DeviceId, Ns, Trace};

/// Of each device the place from which on its ops lie behind the cut.
pub(super) type Cut = Vec<usize>;

/// From before the first op to behind the last, so many ops apart or more.
pub(super) fn cuts(least: usize, trace: &Trace) -> Vec<Cut> {
    let (all, devices) = (trace.gpu_ops.len(), trace.devices.len());
    let mut cuts = vec![vec![0; devices]];
    let mut cutting = Cutting::of(trace);
    let mut from = 0;
    for (at, op) in trace.gpu_ops.iter_in(&trace.gpu_ops.places()) {
        if at - from >= least
            && all - at >= least
            && let Some(cut) = cutting.try_at(at, op.start)
        {
            cuts.push(cut);
            from = at;
        }
        cutting.see(at, op.device, op.end(), trace);
    }
    cuts.push(vec![all; devices]);
    cuts
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

/// The search for the next cut, on the way through the ops.
struct Cutting {
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
    /// Where the next cut cuts it.
    cut: Option<usize>,
}

impl Cutting {
    fn of(trace: &Trace) -> Self {
        let device = Device { reach: Ns(i64::MIN), until: 0, cut: None };
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

    /// Cuts the devices that rest when the op at this place begins; a cut once all are.
    fn try_at(&mut self, at: usize, start: Ns) -> Option<Cut> {
        for device in self.devices.iter_mut().filter(|device| device.cut.is_none()) {
            device.cut = (device.reach <= start && device.until <= at).then_some(at);
        }
        let cut: Cut = self.devices.iter().map(|device| device.cut).collect::<Option<_>>()?;
        self.devices.iter_mut().for_each(|device| device.cut = None);
        cut.iter().all(|at| self.shared_until <= *at).then_some(cut)
    }
}
