//! What Intel's unitrace calls devices, engines and ops: the same in its Chrome JSON (`chrome::unitrace`) and in its Perfetto
//! trace (`perfetto`). Computes what a name says, from the name alone, in one pass over it.
//!
//! A device is a process, `DEVICE<host>0:29:0:0 #0` or, of a tile, `... #0.1`; an engine or a queue is one or more of its
//! threads, `Thread 4711 L0 Engine<0,0>`. The name of the host is in these names; it is private and not kept.

use crate::trace::OpKind;

/// The number of a device in the name of its process; `None` if the process is no device.
pub(super) fn device(process: &str) -> Option<&str> {
    let (_, device) = process.split_once("DEVICE<")?;
    let ordinal = || device.strip_suffix(')')?.rsplit_once('(').map(|(_, number)| number);
    Some(device.rsplit_once('#').map(|(_, number)| number).or_else(ordinal).unwrap_or("0"))
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
            assert_eq!(device(process), number, "{process}");
        }
        assert_eq!(engine("Thread 4711 L0 Engine<0,0>"), "Engine<0,0>");
        assert_eq!(engine("Thread 4712 CL Queue<0x5>"), "Queue<0x5>");
        assert_eq!(engine("other"), "other");
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
