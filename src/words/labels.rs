//! Labels of devices, streams, processes, threads, steps and layers, in tables and on bars; from their numbers and names.

use super::{or_nothing, percent_1};
use crate::trace::Fraction;

/// A GPU by its number: `GPU 3`.
pub(crate) fn gpu(id: &str) -> String {
    format!("GPU {id}")
}

/// A device: `GPU 0` if the id is a number, otherwise the id.
pub(crate) fn device(id: &str) -> String {
    let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { gpu(id) } else { id.to_owned() }
}

/// `stream 7`
pub(crate) fn stream(stream: i64) -> String {
    format!("stream {stream}")
}

/// `Copy stream 7` for the head `Copy`; with the device if there are several. If the stream is not known, only the device.
pub(crate) fn lane(head: &str, device: &str, has_several: bool, stream: Option<i64>) -> String {
    match stream {
        Some(stream) if has_several => format!("{head} {device} stream {stream}"),
        Some(stream) => format!("{head} stream {stream}"),
        None => format!("{head} device {device}"),
    }
}

/// `CPU pid 12 tid 34`
pub(crate) fn thread(pid: i64, tid: i64) -> String {
    format!("CPU pid {pid} tid {tid}")
}

/// `python 12`, or `process 12` without a name.
pub(crate) fn process(pid: i64, name: &str) -> String {
    format!("{} {pid}", if name.is_empty() { "process" } else { name })
}

/// `step 3 decode`, or `step 3` if the stage is not known.
pub(crate) fn step(number: u32, stage: Option<&str>) -> String {
    let stage = or_nothing(stage, |stage| format!(" {stage}"));
    format!("step {number}{stage}")
}

/// `step 1 to 5`
pub(crate) fn steps(first: u32, last: u32) -> String {
    format!("step {first} to {last}")
}

/// `GPU idle (host_late)`
pub(crate) fn idle(cause: &str) -> String {
    format!("GPU idle ({cause})")
}

/// An op of a framework with the shape of its arguments.
pub(crate) fn op(op: &str, shape: &str) -> String {
    format!("{op} {shape}")
}

/// A source location with the share of it among those of a kernel: `model.py:12 (site share 40%)`.
pub(crate) fn site(location: &str, share_pct: Option<f64>) -> String {
    let share = or_nothing(share_pct, |share| format!(" (site share {share:.0}%)"));
    format!("{location}{share}")
}

/// The largest part of the bar of a run: `gemm, 40.1 % of wall time`.
pub(crate) fn bottleneck(part: &str, of_wall: Fraction) -> String {
    format!("{part}, {} of wall time", percent_1(of_wall))
}

/// The compute capability of CUDA, `9.0` for 90.
pub(crate) fn compute_capability(capability: u32) -> String {
    format!("{}.{}", capability / 10, capability % 10)
}
