//! Reads how much GPU memory torch's allocator had handed out, from the instants `[memory]` that it writes with `profile_memory`:
//! `"args": {"Device Type": 1, "Device Id": 0, "Bytes": 512, "Total Allocated": 1003059712}`. One sample per allocation.

use super::{Fields, TorchReader, last_number, number, rank_label};
use crate::ordering;
use crate::trace::{ALLOCATED_MEMORY, DeviceId, MetricSeries, NO_SOURCE, Ns, is_plausible};
use gpuprism_scan::json::unescape;

/// True in the page's second module, which shows the samples in the timeline. Nothing else uses them, and they would take a tenth of
/// the time of a report.
pub(super) const IS_READ: bool = cfg!(any(all(target_arch = "wasm32", feature = "full"), test));

/// The name of the instants.
pub(super) const NAME: &[u8] = b"[memory]";
/// The device types of GPUs in torch's `DeviceType`: CUDA, HIP, XPU. ROCm writes either of the first two.
const GPU_TYPES: [u32; 3] = [1, 6, 12];

/// The arguments of an instant, as raw text.
#[derive(Debug, Default)]
pub(super) struct MemoryFields<'a> {
    pub(super) device_type: Option<&'a [u8]>,
    pub(super) device: Option<&'a [u8]>,
    pub(super) allocated: Option<&'a [u8]>,
}

impl MemoryFields<'_> {
    pub(super) fn is_complete(&self) -> bool {
        self.device_type.is_some() && self.device.is_some() && self.allocated.is_some()
    }
}

/// The samples of one device, by its id as GPU ops state it.
#[derive(Debug)]
pub(super) struct DeviceMemory {
    device: String,
    /// The device if merged ranks have several of this number.
    device_of_process: String,
    samples: Vec<(Ns, f64)>,
}

impl TorchReader {
    /// Stores a sample of a GPU; those of the host's memory are left out.
    pub(super) fn memory_sample(&mut self, fields: &Fields<'_>) {
        let MemoryFields { device_type, device, allocated } = fields.memory;
        let is_gpu = device_type.and_then(number::<u32>).is_some_and(|kind| GPU_TYPES.contains(&kind));
        let (Some(time), Some(device), Some(allocated), true) =
            (fields.instant(), device, allocated.and_then(number::<u64>), is_gpu)
        else {
            return;
        };
        if !is_plausible(time, Ns::ZERO) {
            return;
        }
        let pid = unescape(fields.pid.unwrap_or_default());
        let rank = rank_label(&pid);
        let device = unescape(device);
        let id = if rank.is_empty() { device.into_owned() } else { format!("{rank} {device}") };
        let sample = (time, allocated as f64);
        let device_of_process = format!("[{}] {id}", last_number(pid.as_bytes()).unwrap_or_default());
        match self.memory.iter_mut().find(|memory| memory.device == id && memory.device_of_process == device_of_process)
        {
            Some(memory) => memory.samples.push(sample),
            None => self.memory.push(DeviceMemory { device: id, device_of_process, samples: vec![sample] }),
        }
    }

    /// Adds the samples of the devices that ran ops to the trace. ROCm numbers the GPUs of ops after the CPUs, so that a number may
    /// not agree; one device is the same one.
    pub(super) fn add_memory(&mut self) {
        let series = std::mem::take(&mut self.memory);
        let only = (series.len() == 1 && self.builder.trace.devices.len() == 1).then_some(DeviceId(0));
        for DeviceMemory { device, device_of_process, mut samples } in series {
            let known = [&device_of_process, &device].into_iter().find_map(|id| self.builder.existing_device(id));
            let Some(device) = known.or(only) else { continue };
            ordering::sort_by_key(&mut samples, |(time, _)| *time);
            samples.shrink_to_fit();
            let name = ALLOCATED_MEMORY.to_owned();
            self.builder.trace.metrics.push(MetricSeries { source: NO_SOURCE, device: Some(device), name, samples });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::read_trace;
    use super::*;
    use crate::input::Importer;

    fn instant(device_type: u32, device: i64, at: &str, allocated: &str) -> String {
        let args = format!(
            r#"{{"Bytes": 8, "Device Id": {device}, "Total Allocated": {allocated}, "Device Type": {device_type}}}"#
        );
        let head = r#"{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 9, "tid": 9"#;
        format!(r#"{head}, "ts": {at}, "args": {args}}}"#)
    }

    #[test]
    fn the_memory_of_gpus_with_ops_is_a_series_sorted_by_time() {
        let kernel = r#"{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 1, "args": {"device": 0, "stream": 7}}"#;
        let second = kernel.replace(r#""device": 0"#, r#""device": 1"#);
        let events = [
            kernel.to_owned(),
            second,
            instant(1, 0, "7.5", "4096"),
            instant(1, 0, "2.25", "512"),
            instant(0, -1, "3", "99"),
            instant(1, 5, "4", "1"),
            instant(1, 1, "5", r#""not a number""#),
            instant(1, 1, "6", "18446744073709551616"),
        ];
        let text = format!(r#"{{"traceEvents": [{}]}}"#, events.join(",\n"));
        let trace = read_trace(Importer::new("t.json"), [&text]);
        let [series] = trace.metrics.as_slice() else { panic!("{:?}", trace.metrics) };
        assert_eq!((series.device, series.name.as_str()), (Some(DeviceId(0)), ALLOCATED_MEMORY));
        assert_eq!(series.samples, [(Ns(2_250), 512.0), (Ns(7_500), 4_096.0)]);
        let alone = read_trace(Importer::gpu_ops_only("t.json"), [&text]);
        assert!(alone.metrics.is_empty());
    }
}
