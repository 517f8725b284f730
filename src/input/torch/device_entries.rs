//! The names and figures of GPUs in `deviceProperties` of a torch trace. One pass over its text, without a tree:
//! members that are not read may nest to any depth.

use crate::trace::{Device, DeviceProperties};
use gpuprism_scan::json::{Cursor, Step, Value, is_valid_prefix, unescape};
use std::collections::BTreeMap;

/// One entry.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct DeviceEntry {
    id: Option<i64>,
    name: String,
    compute_major: Option<u32>,
    compute_minor: Option<u32>,
    warp_size: Option<u32>,
    num_sms: Option<u32>,
    total_global_mem: Option<u64>,
}

/// Reads the list; `None` if it is not one, or damaged.
pub(super) fn read(list: &[u8]) -> Option<Vec<DeviceEntry>> {
    let inside = list.strip_prefix(b"[")?.strip_suffix(b"]").filter(|_| is_valid_prefix(list))?;
    let (mut cursor, mut entries) = (Cursor::new(inside), Vec::new());
    while !cursor.at_end() {
        let Value::Container(entry) = cursor.value()? else { return None };
        entries.push(DeviceEntry::read(entry)?);
    }
    Some(entries)
}

impl DeviceEntry {
    fn read(text: &[u8]) -> Option<Self> {
        fn number<T: std::str::FromStr>(value: Value<'_>) -> Option<T> {
            if let Value::Bare(digits) = value { super::number(digits) } else { None }
        }
        let (mut entry, mut cursor) = (Self::default(), Cursor::new(text));
        if !cursor.enter() {
            return None;
        }
        while let Step::Key(key) = cursor.key() {
            let value = cursor.value()?;
            match key {
                b"id" => entry.id = number(value),
                b"name" => entry.name = value.scalar().map(|name| unescape(name).into_owned()).unwrap_or_default(),
                b"computeMajor" => entry.compute_major = number(value),
                b"computeMinor" => entry.compute_minor = number(value),
                b"warpSize" => entry.warp_size = number(value),
                b"numSms" => entry.num_sms = number(value),
                b"totalGlobalMem" => entry.total_global_mem = number(value),
                _ => {}
            }
        }
        Some(entry)
    }

    fn properties(&self) -> DeviceProperties {
        /// The warp size of all NVIDIA GPUs. PyTorch for ROCm writes the number of the gfx architecture as a
        /// capability.
        const NVIDIA_WARP: u32 = 32;
        // Older versions write no warp size.
        const NVIDIA_NAMES: [&str; 5] = ["NVIDIA", "GeForce", "Tesla", "Quadro", "TITAN"];
        let is_nvidia = match self.warp_size {
            Some(size) => size == NVIDIA_WARP && !self.name.starts_with("AMD"),
            None => NVIDIA_NAMES.iter().any(|start| self.name.starts_with(start)),
        };
        let numbers = self.compute_major.zip(self.compute_minor).filter(|_| is_nvidia);
        DeviceProperties {
            capability: numbers.map(|(major, minor)| major.saturating_mul(10).saturating_add(minor)),
            multiprocessors: self.num_sms,
            memory_bytes: self.total_global_mem,
        }
    }
}

/// Sets the names and figures of the devices. ROCm numbers the GPUs of ops after the CPUs, so that no number may agree
/// with an entry; then the entries count if all GPUs are of one kind.
pub(super) fn name_devices(devices: &mut [Device], entries: &[DeviceEntry]) {
    const AMD_WARP: u32 = 64;
    let number = |device: &Device| device.id.rsplit(' ').next().and_then(|number| number.parse::<i64>().ok());
    // Not `collect`, which sorts first: one more sort function would be compiled.
    let mut by_number: BTreeMap<i64, &DeviceEntry> = BTreeMap::new();
    by_number.extend(entries.iter().filter_map(|entry| Some((entry.id?, entry))));
    let with_number = |device: &Device| by_number.get(&number(device)?).copied();
    let is_kind = |entry: &DeviceEntry, of: &DeviceEntry| DeviceEntry { id: of.id, ..entry.clone() } == *of;
    let first = entries.first().filter(|first| first.warp_size == Some(AMD_WARP));
    let common = first.filter(|first| entries.iter().all(|entry| is_kind(entry, first)));
    let agree = devices.iter().any(|device| with_number(device).is_some());
    for device in devices {
        let entry = with_number(device).or(common.filter(|_| !agree && number(device).is_some()));
        device.name = entry.map(|entry| entry.name.clone()).unwrap_or_default();
        device.properties = entry.map(DeviceEntry::properties).unwrap_or_default();
    }
}
