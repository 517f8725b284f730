//! Reads the call tree of Proton (`.hatchet`) into a [`Run`]: the time and number of calls of each kernel by device, and FLOPs and
//! bytes where the program names them. The tree has totals and no times, so there is no timeline; a notice says so.
//!
//! One pass over the text, O(bytes), without recursion: trees are as deep as the Python stacks in them. The members of a frame
//! are sorted, so its children come before its own metrics. A frame is a kernel if its metrics have a device. The frames that
//! are complete before a cut or damage count.

use super::foreign::{self, BusyTime};
use crate::analysis::kernels::totals_only::{KernelTotals, KernelsOfDevices};
use crate::analysis::results::{Format, Notice, Run, Sections, Severity, TOTALS_ONLY};
use crate::input::is_proton_tree;
use crate::json::Json;
use crate::ordering::VecMap;
use crate::trace::Ns;
use crate::{Error, Result};
use gpuprism_scan::json::unescape;
use memchr::memchr2;

/// Whether the text is the tree of Proton, by its beginning.
pub(crate) fn is_tree(text: &str) -> bool {
    const HEAD_BYTES: usize = 16 << 10;
    let text = text.trim_start_matches('\u{feff}').trim_start().as_bytes();
    is_proton_tree(text.get(..HEAD_BYTES).unwrap_or(text))
}

/// Reads a tree.
///
/// # Errors
/// The tree has no complete kernel.
pub(crate) fn read(label: &str, text: &str) -> Result<Run> {
    let mut tree = Tree::default();
    let end = tree.read(text.as_bytes());
    let kernels = KernelsOfDevices::new(tree.kernels);
    if kernels.is_empty() {
        let why = match end {
            End::Complete => "a Proton tree without the time of a kernel: record again while kernels run",
            End::Cut | End::Damaged(_) => "a Proton tree that is cut or damaged before its first kernel: copy it again",
        };
        return Err(Error::refused(label, why));
    }
    let mut sections = Sections::new();
    kernels.section("frames of the tree that have a device").put(&mut sections);
    if let Some(roofline) = kernels.roofline("FLOPs and bytes that the program gave to Proton") {
        roofline.put(&mut sections);
    }
    let sum = kernels.sum();
    let busy = BusyTime { devices: kernels.devices(), window_ns: 0, kernel_ns: sum.time.0 };
    Ok(foreign::run((label, Format::ProtonTree), sections, busy, sum.count, notices(&end, tree.unusable)))
}

fn notices(end: &End, unusable: u64) -> Vec<Notice> {
    let capture =
        "Record a trace instead: `proton_data: trace` in --profiler-config of vLLM, or proton.start(data=\"trace\").";
    let message = "a Proton tree has totals of kernels and no times: there is no timeline, the bar is the summed kernel time, and \
                   idle time, overlap, and the shortest and longest call of a kernel are unknown";
    let mut notices = vec![Notice::new(Severity::Warning, TOTALS_ONLY, message, capture)];
    let again = "Copy the file again.";
    match end {
        End::Complete => {}
        End::Cut => {
            let message = "the file is cut: the frames after that are missing";
            notices.insert(0, Notice::new(Severity::Error, "truncated", message, again));
        }
        End::Damaged(at) => {
            let message = format!("the file is damaged at byte {at}: the frames after that are missing");
            notices.insert(0, Notice::new(Severity::Error, "damaged", message, again));
        }
    }
    if unusable > 0 {
        let message = "frames with a device, but without a usable time or count, are left out";
        notices.push(Notice { count: unusable, ..Notice::new(Severity::Warning, "unreadable_rows", message, again) });
    }
    notices
}

/// Where the text ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Complete,
    Cut,
    Damaged(usize),
}

/// What an open bracket contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Frames: the whole text, or the children of a frame.
    Frames,
    /// A frame with its name, metrics and children.
    Frame,
    /// Its name and type.
    Name,
    Metrics,
    Other {
        is_object: bool,
    },
}

impl Level {
    fn is_object(self) -> bool {
        matches!(self, Self::Frame | Self::Name | Self::Metrics | Self::Other { is_object: true })
    }
}

/// An open frame.
#[derive(Debug, Default)]
struct Frame {
    name: String,
    time: Option<Ns>,
    count: Option<u64>,
    device: Option<String>,
    flops: f64,
    bytes: f64,
}

#[derive(Debug, Default)]
struct Tree {
    levels: Vec<Level>,
    frames: Vec<Frame>,
    /// By name and device.
    kernels: VecMap<(String, String), KernelTotals>,
    unusable: u64,
}

impl Tree {
    fn read(&mut self, text: &[u8]) -> End {
        let mut key: &[u8] = b"";
        // True if a string is the key of a member.
        let mut is_key = false;
        let mut at = 0;
        while let Some(byte) = text.get(at).copied() {
            match byte {
                b'{' | b'[' => {
                    self.open(byte == b'{', key);
                    is_key = byte == b'{';
                }
                b'}' | b']' => {
                    let Some(level) = self.levels.pop() else { return End::Damaged(at) };
                    if level.is_object() != (byte == b'}') {
                        return End::Damaged(at);
                    }
                    if level == Level::Frame {
                        self.close_frame();
                    }
                    is_key = false;
                }
                b',' => is_key = self.levels.last().is_some_and(|level| level.is_object()),
                b':' => is_key = false,
                b'"' => {
                    let Some(length) = string_length(text.get(at + 1..).unwrap_or_default()) else { return End::Cut };
                    let string = text.get(at + 1..at + 1 + length).unwrap_or_default();
                    if is_key {
                        key = string;
                    } else {
                        self.value(key, string);
                    }
                    at += length + 1;
                }
                _ if byte.is_ascii_whitespace() => {}
                _ if byte.is_ascii_digit() || byte.is_ascii_alphabetic() || byte == b'-' => {
                    let rest = text.get(at..).unwrap_or_default();
                    let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b':') || byte.is_ascii_whitespace();
                    let Some(length) = rest.iter().position(ends) else { return End::Cut };
                    self.value(key, rest.get(..length).unwrap_or_default());
                    at += length - 1;
                }
                _ => return End::Damaged(at),
            }
            at += 1;
        }
        if self.levels.is_empty() { End::Complete } else { End::Cut }
    }

    fn open(&mut self, is_object: bool, key: &[u8]) {
        let level = match (self.levels.last(), is_object, key) {
            (None, false, _) | (Some(Level::Frame), false, b"children") => Level::Frames,
            (Some(Level::Frames), true, _) => {
                self.frames.push(Frame::default());
                Level::Frame
            }
            (Some(Level::Frame), true, b"frame") => Level::Name,
            (Some(Level::Frame), true, b"metrics") => Level::Metrics,
            _ => Level::Other { is_object },
        };
        self.levels.push(level);
    }

    /// Takes a text, without its quotes, or a number.
    fn value(&mut self, key: &[u8], value: &[u8]) {
        let Some(frame) = self.frames.last_mut() else { return };
        match (self.levels.last(), key) {
            (Some(Level::Name), b"name") => frame.name = unescape(value).into_owned(),
            (Some(Level::Metrics), b"time (ns)") => {
                frame.time = Ns::from_decimal(value, 0).filter(|time| *time >= Ns::ZERO);
            }
            (Some(Level::Metrics), b"count") => {
                frame.count = std::str::from_utf8(value).ok().and_then(|count| count.parse().ok());
            }
            (Some(Level::Metrics), b"device_id") => frame.device = Some(unescape(value).into_owned()),
            (Some(Level::Metrics), b"bytes") => frame.bytes += number(value),
            (Some(Level::Metrics), key) if key.starts_with(b"flops") => frame.flops += number(value),
            _ => {}
        }
    }

    fn close_frame(&mut self) {
        let Some(Frame { name, time, count, device: Some(device), flops, bytes }) = self.frames.pop() else {
            return;
        };
        let (Some(time), Some(count)) = (time, count) else {
            self.unusable += 1;
            return;
        };
        let own = KernelTotals { time, count, flops, bytes };
        self.kernels.update((name, device), KernelTotals::default(), |totals| totals.add(&own));
    }
}

/// The length of a string after its opening quote. `None` if it does not end.
fn string_length(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text.get(at) == Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

/// A number, at least 0; 0 for anything else.
fn number(text: &[u8]) -> f64 {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| Json::parse(text).ok()?.number());
    parsed.filter(|number| number.is_finite() && *number > 0.0).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two kernels: f twice below different scopes, once with work; g on another device. 100 + 20 ns and 30 ns.
    const TREE: &str = r#"[{"children": [
        {"children": [{"children": [], "frame": {"name": "f\"x", "type": "function"},
            "metrics": {"count": 2, "device_id": "0", "device_type": "CUDA", "time (ns)": 100, "flops8": 5e3, "bytes": 50}}],
         "frame": {"name": "scope", "type": "function"}, "metrics": {"own": [1, 2]}},
        {"children": [], "frame": {"name": "f\"x"}, "metrics": {"count": 1, "device_id": "0", "time (ns)": 20}},
        {"children": [], "frame": {"name": "g"}, "metrics": {"count": 3, "device_id": "1", "time (ns)": 30}},
        {"children": [], "frame": {"name": "h"}, "metrics": {"count": 3, "device_id": "1"}}],
        "frame": {"name": "ROOT"}, "metrics": {"count": 0, "time (ns)": 0}},
        {"CUDA": {"0": {"arch": "90", "bus_width": 5120}}}]"#;

    #[test]
    fn frames_with_a_device_are_kernels_and_their_totals_add_up() {
        assert!(is_tree(TREE) && !is_tree("[{\"ph\": \"X\", \"frame\": 1, \"metrics\": 2}]"));
        let run = read("p.hatchet", TREE).unwrap();
        let kernels: Vec<(&str, u64, i64)> =
            run.kernels.iter().map(|kernel| (kernel.name.as_str(), kernel.count, kernel.duration_ns)).collect();
        assert_eq!(kernels, [("f\"x", 3, 120), ("g", 3, 30)]);
        let devices: Vec<(&str, u64, i64)> =
            run.devices.iter().map(|device| (device.id.as_str(), device.gpu_ops, device.duration_ns)).collect();
        assert_eq!(devices, [("0", 3, 120), ("1", 3, 30)]);
        assert_eq!((run.totals.kernels, run.totals.kernel_duration_ns, run.totals.elapsed_ns), (6, 150, 150));
        assert!(
            run.kernels.iter().all(|kernel| kernel.min_ns.is_none() && kernel.max_ns.is_none()),
            "a tree has no times"
        );
        assert_eq!((run.wall.bar_ns, run.wall.cpu_ns, run.totals.window_ns), (150, 0, 0));
        let work = &run.sections["roofline"].rows;
        assert_eq!(
            (work.len(), work[0].number("flops"), work[0].number("arithmetic_intensity")),
            (1, Some(5e3), Some(100.0))
        );
        let notices: Vec<(&str, u64)> = run.notices.iter().map(|notice| (notice.code.as_str(), notice.count)).collect();
        assert_eq!(notices, [("totals_only", 1), ("unreadable_rows", 1)]);
    }

    #[test]
    fn a_tree_that_is_cut_at_any_byte_has_the_frames_before_the_cut_or_is_refused() {
        let whole = read("p", TREE).unwrap().totals.kernel_duration_ns;
        let mut least = 0;
        for end in 0..TREE.trim_end().len() {
            match read("p", TREE.get(..end).unwrap()) {
                Ok(run) => {
                    let time = run.totals.kernel_duration_ns;
                    assert!(least <= time && time <= whole && run.notices[0].code == "truncated", "{end}");
                    least = time;
                }
                Err(error) => assert!(least == 0 && error.to_string().contains("Proton tree"), "{end}: {error}"),
            }
        }
        assert_eq!(least, whole);
    }

    #[test]
    fn a_deep_tree_needs_no_stack_and_damage_ends_the_tree() {
        let kernel =
            r#"{"children": [], "frame": {"name": "k"}, "metrics": {"count": 1, "device_id": "0", "time (ns)": 7}}"#;
        let deep = format!("{}{kernel}{}", "[{\"children\": ".repeat(200_000), "}]".repeat(200_000));
        let deep = deep.replace("\"children\": {", "\"children\": [{").replace("7}}}", "7}}]}");
        assert_eq!(read("p", &deep).unwrap().totals.kernel_duration_ns, 7);
        for damaged in [format!("[{kernel}}}, {kernel}]"), format!("[{kernel}, \u{1}{kernel}]")] {
            let run = read("p", &damaged).unwrap();
            assert_eq!((run.totals.kernel_duration_ns, run.notices[0].code.as_str()), (7, "damaged"));
        }
        for nothing in ["[]", "[{}]", "[{\"frame\": {\"name\": \"k\"}, \"metrics\": {\"device_id\": \"0\"}}]"] {
            assert!(read("p", nothing).is_err(), "{nothing}");
        }
    }
}
