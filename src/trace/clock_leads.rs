//! How far GPU ops start before the call that launched them, which shows that the clocks of host and GPU differ. One pass over the
//! ops of a finished trace.
//!
//! An op cannot start before its launch, so the longest lead is the least by which the clocks differ. By how much more is not known,
//! because it is not known which op started at once.

use super::columns::index;
use super::time::CLOCK_ROUNDING;
use super::{DeviceId, GpuOps, Ns, Spans};

/// The leads of the ops of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockLead {
    /// Ops that start before their launch call begins, by more than the rounding of times.
    pub ops: u64,
    /// The longest time by which one of them does.
    pub longest: Ns,
}

impl ClockLead {
    /// By how much the clock of the host is ahead of that of the device at least.
    pub fn offset(self) -> Ns {
        self.longest.since(CLOCK_ROUNDING).max(Ns::ZERO)
    }
}

/// The leads by device.
pub(super) fn clock_leads(ops: &GpuOps, calls: &Spans, devices: usize) -> Vec<ClockLead> {
    let mut leads = vec![ClockLead::default(); devices];
    for (op, launch) in ops.iter().zip(ops.launches()) {
        let Some(called) = launch.and_then(|call| calls.start(call.0 as usize)) else { continue };
        let lead = called.since(op.start);
        if lead > CLOCK_ROUNDING
            && let Some(of_device) = leads.get_mut(op.device.0 as usize)
        {
            *of_device = ClockLead { ops: of_device.ops + 1, longest: of_device.longest.max(lead) };
        }
    }
    leads
}

impl super::Trace {
    /// By how much the clock of the host is ahead of that of this device at least.
    pub fn clock_offset(&self, device: DeviceId) -> Ns {
        self.clock_leads.get(device.0 as usize).map_or(Ns::ZERO, |lead| lead.offset())
    }

    /// The device whose ops precede their launches most, if any do.
    pub fn worst_clock_lead(&self) -> Option<(DeviceId, ClockLead)> {
        let leads = self.clock_leads.iter().enumerate().filter(|(_, lead)| lead.ops > 0);
        leads.max_by_key(|(_, lead)| lead.longest).map(|(device, lead)| (DeviceId(index(device)), *lead))
    }
}
