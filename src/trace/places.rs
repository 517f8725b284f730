//! Some ops of a trace, told by their places.

use std::ops::Range;

/// The index of a device in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

/// The ops at these places; where devices are told apart, of each those that lie in a range of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    within: Range<usize>,
    /// By device; empty where all ops within count.
    of_device: Vec<Range<usize>>,
}

/// The page's first module has to be small, and never asks for places of one device.
const TELLS_DEVICES_APART: bool = cfg!(any(feature = "full", not(target_arch = "wasm32")));

impl From<Range<usize>> for Places {
    fn from(within: Range<usize>) -> Self {
        Self { within, of_device: Vec::new() }
    }
}

impl Places {
    /// Of each device the ops at the places from one to the other.
    pub fn between(from: &[usize], to: &[usize]) -> Self {
        let least = |places: &[usize]| places.iter().copied().min().unwrap_or_default();
        let most = |places: &[usize]| places.iter().copied().max().unwrap_or_default();
        let is_one = least(from) == most(from) && least(to) == most(to);
        let of_device = from.iter().zip(to).map(|(from, to)| *from..*to);
        Self { within: least(from)..most(to), of_device: if is_one { Vec::new() } else { of_device.collect() } }
    }

    /// From the first to the last.
    pub fn within(&self) -> Range<usize> {
        self.within.clone()
    }

    /// Does every op within count?
    #[inline]
    pub fn is_whole(&self) -> bool {
        !TELLS_DEVICES_APART || self.of_device.is_empty()
    }

    fn of(&self, device: DeviceId) -> Range<usize> {
        self.of_device.get(device.0 as usize).unwrap_or(&self.within).clone()
    }

    /// Is the op at this place within, which ran on this device, one of them?
    #[inline]
    pub fn hold(&self, at: usize, device: DeviceId) -> bool {
        self.is_whole() || self.of(device).contains(&at)
    }
}
