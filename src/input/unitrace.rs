//! What Intel's unitrace calls devices, engines and ops: the same in its Chrome JSON (`chrome::unitrace`) and in its Perfetto
//! trace (`perfetto`). Computes what a name says, from the name alone, in one pass over it.
//!
//! A device is a process, `DEVICE<host>0:29:0:0 #0` or, of a tile, `... #0.1`; an engine or a queue is one or more of its
//! threads, `Thread 4711 L0 Engine<0,0>`. A program with MPI names its rank before: `RANK 3 DEVICE<host>0:29:0:0 #0`. The name of
//! the host is in these names; it is private and not kept.

use super::machines::on_machine;
use crate::trace::{DeviceId, OpKind, TraceBuilder};
use std::collections::{BTreeMap, BTreeSet};

/// A device, as the name of its process says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct DeviceName<'a> {
    host: &'a str,
    /// The address on the bus; old versions write none.
    address: &'a str,
    number: &'a str,
    rank: Option<&'a str>,
}

impl<'a> DeviceName<'a> {
    /// `None` if the process is no device.
    fn read(process: &'a str) -> Option<Self> {
        let (_, device) = process.split_once("DEVICE<")?;
        let (host, place) = device.split_once('>').unwrap_or((device, ""));
        let of_end = || place.strip_suffix(')')?.rsplit_once('(');
        let (address, number) = place.rsplit_once('#').or_else(of_end).unwrap_or((place, "0"));
        Some(Self { host, address: address.trim(), number, rank: rank(process) })
    }

    /// What it is known by: ranks of one host share its GPUs.
    fn key(self) -> String {
        let rank = self.rank.filter(|_| self.address.is_empty()).unwrap_or_default();
        format!("{}>{}#{} {rank}", self.host, self.address, self.number)
    }
}

/// The number of the rank in the name of a process.
pub(super) fn rank(process: &str) -> Option<&str> {
    process.strip_prefix("RANK ")?.split(' ').next()
}

/// The devices of a file. Each rank numbers those that it sees from zero, so the numbers of several ranks or hosts are labelled.
#[derive(Debug, Default)]
pub(super) struct Devices {
    /// By host, address and number.
    ids: BTreeMap<String, DeviceId>,
    found: Vec<Found>,
}

/// A device before it is labelled.
#[derive(Debug)]
struct Found {
    id: DeviceId,
    number: String,
    rank: Option<String>,
    host: String,
}

impl Devices {
    /// The device whose process has this name; `None` if the process is no device. [`Self::name`] labels it.
    pub(super) fn device(&mut self, builder: &mut TraceBuilder, process: &str) -> Option<DeviceId> {
        let name = DeviceName::read(process)?;
        Some(*self.ids.entry(name.key()).or_insert_with_key(|key| {
            let id = builder.device(key, "");
            let (number, rank, host) = (name.number.to_owned(), name.rank.map(str::to_owned), name.host.to_owned());
            self.found.push(Found { id, number, rank, host });
            id
        }))
    }

    /// Labels the devices, when all are known: by their number if that is enough, by rank, or by the place of the host.
    pub(super) fn name(&self, builder: &mut TraceBuilder) {
        let are_distinct = |label: &dyn Fn(&Found) -> String| {
            let mut labels = BTreeSet::new();
            self.found.iter().all(|found| labels.insert(label(found)))
        };
        let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
        for found in &self.found {
            let next = hosts.len();
            hosts.entry(&found.host).or_insert(next);
        }
        let number = |found: &Found| found.number.clone();
        let of_rank = |found: &Found| match &found.rank {
            Some(rank) => format!("[rank {rank}] {}", found.number),
            None => found.number.clone(),
        };
        let of_host = |found: &Found| on_machine(hosts.get(found.host.as_str()).copied().unwrap_or(0), &found.number);
        let schemes: [&dyn Fn(&Found) -> String; 3] = [&number, &of_rank, &of_host];
        let scheme = schemes.into_iter().find(|label| are_distinct(*label));
        for (place, found) in self.found.iter().enumerate() {
            let label = scheme.map_or_else(|| format!("{} ({})", of_host(found), place + 1), |label| label(found));
            let device = builder.trace.devices.get_mut(found.id.0 as usize);
            device.into_iter().for_each(|device| device.id.clone_from(&label));
        }
    }
}

/// Whether the process with this name is one of the host.
pub(super) fn is_host(process: &str) -> bool {
    process.contains("HOST<")
}

/// The engine or queue in the name of a thread of a device. Several threads can show one engine.
pub(super) fn engine(thread: &str) -> &str {
    let engine = thread.split_once("L0 ").or_else(|| thread.split_once("CL "));
    engine.map_or(thread, |(_, engine)| engine)
}

/// What the name of an op says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpName<'a> {
    pub(super) kind: OpKind,
    /// The name without the sizes at its end.
    pub(super) name: &'a str,
    /// What a copy or fill moves.
    pub(super) bytes: Option<u64>,
}

impl<'a> OpName<'a> {
    /// Reads a name such as `gemm[SIMD16 {56; 1; 1} {64; 8; 1}]` or `zeCommandListAppendMemoryCopy(M2D)[64]`, perhaps with
    /// the tile before it: `Tile #1: gemm[...]`.
    pub(super) fn read(text: &'a str) -> Self {
        let name = without_sizes(text);
        let bare = text.rsplit(": ").next().unwrap_or_default();
        let kind = match bare {
            _ if bare.contains("MemoryFill") => OpKind::Set,
            _ if ["zeCommandList", "clEnqueue"].iter().any(|start| bare.starts_with(start)) => OpKind::Copy,
            _ => OpKind::Kernel,
        };
        let sizes = text.get(name.len()..).unwrap_or_default();
        let bytes = || sizes.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
        Self { kind, name, bytes: if kind == OpKind::Kernel { None } else { bytes() } }
    }
}

/// A name without the bracket at its end.
fn without_sizes(name: &str) -> &str {
    let sizes = name.rfind('[').filter(|_| name.ends_with(']'));
    sizes.and_then(|at| name.get(..at)).filter(|bare| !bare.is_empty()).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_processes_and_threads_say_device_and_engine_without_the_host() {
        for (process, number) in [
            ("DEVICE<node-7>0:29:0:0 #0", Some("0")),
            ("RANK 3 DEVICE<node-7>0:3a:0:0 #1.1", Some("1.1")),
            ("DEVICE<node-7>[0000:3a:00.0](2)", Some("2")),
            ("DEVICE<node-7>", Some("0")),
            ("RANK 3 HOST<node-7>", None),
            ("", None),
        ] {
            assert_eq!(DeviceName::read(process).map(|device| device.number), number, "{process}");
        }
        assert_eq!((rank("RANK 3 HOST<node-7>"), rank("HOST<RANK 3>")), (Some("3"), None));
        assert_eq!(engine("Thread 4711 L0 Engine<0,0>"), "Engine<0,0>");
        assert_eq!(engine("Thread 4712 CL Queue<0x5>"), "Queue<0x5>");
        assert_eq!(engine("other"), "other");
    }

    #[test]
    fn devices_of_several_ranks_and_hosts_are_labelled_without_the_names_of_the_hosts() {
        let labels = |processes: &[&str]| {
            let (mut devices, mut builder) = (Devices::default(), TraceBuilder::default());
            for process in processes {
                devices.device(&mut builder, process);
            }
            devices.name(&mut builder);
            builder.trace.devices.iter().map(|device| device.id.clone()).collect::<Vec<_>>()
        };
        let one = ["DEVICE<a>0:29:0:0 #0", "DEVICE<a>0:3a:0:0 #1"];
        assert_eq!(labels(&one), ["0", "1"]);
        let ranks = ["RANK 0 DEVICE<a>0:29:0:0 #0", "RANK 1 DEVICE<a>0:3a:0:0 #0", "RANK 0 DEVICE<a>0:29:0:0 #0"];
        assert_eq!(labels(&ranks), ["[rank 0] 0", "[rank 1] 0"]);
        assert_eq!(labels(&["RANK 0 DEVICE<a>0:29:0:0 #0", "RANK 1 DEVICE<a>0:29:0:0 #0"]), ["0"], "one GPU");
        assert_eq!(labels(&["DEVICE<a>0:29:0:0 #0", "DEVICE<b>0:29:0:0 #0"]), ["[machine 1] 0", "[machine 2] 0"]);
        assert_eq!(labels(&["RANK 0 DEVICE<a>", "RANK 1 DEVICE<a>"]), ["[rank 0] 0", "[rank 1] 0"]);
        assert_eq!(labels(&["DEVICE<a>1 #0", "DEVICE<a>2 #0"]), ["[machine 1] 0 (1)", "[machine 1] 0 (2)"]);
    }

    #[test]
    fn the_name_of_an_op_says_its_kind_and_the_bytes_of_a_copy() {
        let read = |text| {
            let op = OpName::read(text);
            (op.kind, op.name, op.bytes)
        };
        let gemm = "Tile #1: gemm[SIMD16 {56; 1; 1} {64; 8; 1}]";
        assert_eq!(read(gemm), (OpKind::Kernel, "Tile #1: gemm", None));
        let copy = "zeCommandListAppendMemoryCopy(M2D)[1048576]";
        assert_eq!(read(copy), (OpKind::Copy, "zeCommandListAppendMemoryCopy(M2D)", Some(1 << 20)));
        assert_eq!(read("zeCommandListAppendMemoryFill[64]").0, OpKind::Set);
        assert_eq!(read("[]"), (OpKind::Kernel, "[]", None));
    }
}
