//! Reads how Kineto says that kernels were launched: `"registers per thread": 32, "shared memory": 0, .., "grid": [1, 1, 1],
//! "block": [128, 1, 1], "est. achieved occupancy %": 25`. AMD's have grid and block only.
//!
//! These members follow the last one that the reader needs of an op. Launches of one configuration are written alike, so each
//! text is parsed once. Cost: for a kernel that is launched as before, a comparison of some 200 bytes; for others a search for the members
//! and a hash lookup. If the first [`PROBED_KERNELS`] have no such members, the rest is not searched.

use super::{TorchReader, number};
use crate::trace::{LaunchConfig, NameId};
use foldhash::fast::RandomState;
use gpuprism_scan::json::{Cursor, Step, Value};
use memchr::memchr;
use memchr::memmem::Finder;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

// The quote and colon after them are no part of any string.
static REGISTERS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"registers per thread\":"));
static GRID: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"grid\":"));
static BLOCK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"block\":"));

/// The number of kernels after which a file without configurations is recognised.
const PROBED_KERNELS: u32 = 1_024;
/// Longer texts of the members, or more of them, are not kept; they are parsed each time.
const MAX_TEXT_BYTES: usize = 512;
const MAX_TEXTS: usize = 1 << 16;

/// The configurations read so far.
#[derive(Debug, Default)]
pub(super) struct KnownConfigs {
    /// Indices of configurations by the text of their members; `None` for a text without one.
    by_text: HashMap<Box<[u8]>, Option<u32>, RandomState>,
    /// By name of the kernel: what followed the parsed part of its first event, up to the end of these members, and the index.
    by_name: Vec<Option<(Box<[u8]>, u32)>>,
    /// The number of kernels without such members.
    kernels_without: u32,
}

impl TorchReader {
    /// Gives the kernel that was pushed last its configuration, if its event has one. `read` is the number of bytes that were parsed.
    pub(super) fn launch_config_of_last_op(&mut self, event: &[u8], read: usize, name: NameId) {
        let (known, unread) = (&mut self.known_configs, event.get(read..).unwrap_or_default());
        if let Some(Some((text, config))) = known.by_name.get(name.0 as usize)
            && unread.starts_with(text)
        {
            return self.builder.set_launch_config_id_of_last_op(*config);
        }
        if known.by_text.is_empty() && known.kernels_without >= PROBED_KERNELS {
            return;
        }
        // Events that were parsed to the end have the members before it.
        let in_unread = config_members(unread);
        // With the byte after them, which ends the last number.
        let with_end = in_unread.as_ref().and_then(|at| unread.get(..=at.end));
        let members = match in_unread {
            Some(at) => unread.get(at),
            None => config_members(event).and_then(|at| event.get(at)),
        };
        let Some(members) = members else {
            known.kernels_without = known.kernels_without.saturating_add(1);
            return;
        };
        let config = match known.by_text.get(members) {
            Some(known) => *known,
            None => {
                let config = config_in(members).and_then(|config| self.builder.trace.launch_configs.add(config));
                if members.len() <= MAX_TEXT_BYTES && known.by_text.len() < MAX_TEXTS {
                    known.by_text.insert(members.into(), config);
                }
                config
            }
        };
        let Some(config) = config else { return };
        if let Some(text) = with_end.filter(|text| text.len() <= MAX_TEXT_BYTES) {
            known.remember(name, text, config);
        }
        self.builder.set_launch_config_id_of_last_op(config);
    }
}

impl KnownConfigs {
    /// Keeps the first text of a kernel.
    fn remember(&mut self, name: NameId, text: &[u8], config: u32) {
        let index = name.0 as usize;
        if index >= self.by_name.len() && index < MAX_TEXTS {
            self.by_name.resize(index + 1, None);
        }
        let slot = self.by_name.get_mut(index).filter(|slot| slot.is_none());
        slot.into_iter().for_each(|slot| *slot = Some((text.into(), config)));
    }
}

/// Where the members of a configuration are: from the first up to the list of `block` and, if it comes next, the occupancy.
fn config_members(text: &[u8]) -> Option<Range<usize>> {
    let first = REGISTERS.find(text).or_else(|| GRID.find(text))?;
    let block = first + BLOCK.find(text.get(first..)?)?;
    let end = block + memchr(b']', text.get(block..)?)? + 1;
    let rest = text.get(end..)?;
    let more = match rest.iter().position(|byte| !b", \t\r\n".contains(byte)) {
        Some(next) if rest.get(next..)?.starts_with(b"\"est. achieved occupancy %\":") => {
            rest.iter().skip(next).position(|byte| b",}".contains(byte)).map_or(0, |length| next + length)
        }
        _ => 0,
    };
    Some(first..end + more)
}

/// `None` without grid and block.
fn config_in(members: &[u8]) -> Option<LaunchConfig> {
    let (mut cursor, mut config, mut grid, mut block) = (Cursor::new(members), LaunchConfig::default(), None, None);
    while let Step::Key(key) = cursor.key() {
        // The members end without the end of their object.
        let Some(value) = cursor.value() else { break };
        match (key, value) {
            (b"grid", Value::Container(list)) => grid = sizes(list),
            (b"block", Value::Container(list)) => block = sizes(list),
            (b"registers per thread", value) => config.registers = value.scalar().and_then(number),
            (b"shared memory", value) => config.shared_bytes = value.scalar().and_then(number),
            (b"est. achieved occupancy %", value) => {
                // A kernel that ran occupied something: zero stands for no estimate.
                let is_known = |per_cent: &f64| *per_cent > 0.0 && *per_cent <= 100.0;
                let per_cent = value.scalar().and_then(number::<f64>).filter(is_known);
                config.occupancy_pct = per_cent.map(|per_cent| per_cent.round() as u32);
            }
            _ => {}
        }
    }
    Some(LaunchConfig { grid: grid?, block: block?, ..config })
}

/// `[512, 1, 1]`. `None` for another number of elements, or one that is no size.
fn sizes(list: &[u8]) -> Option<[u32; 3]> {
    let list = list.strip_prefix(b"[").unwrap_or(list);
    let list = list.strip_suffix(b"]").unwrap_or(list);
    let mut sizes = list.split(|byte| *byte == b',').map(|size| number(size.trim_ascii()));
    let three = [sizes.next()??, sizes.next()??, sizes.next()??];
    sizes.next().is_none().then_some(three)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::torch;
    use crate::input::Importer;
    use crate::input::tests::read_trace;
    use crate::trace::OpKind;

    #[test]
    fn the_members_of_both_makers_are_read() {
        let nvidia = br#"{"args": {"External id": 5, "stream": 7, "correlation": 9, "registers per thread": 40,
            "shared memory": 400, "blocks per SM": 4.7, "warps per SM": 75.8, "grid": [512, 2, 1], "block": [64, 1, 1],
            "est. achieved occupancy %": 75, "graph node id": 12}}"#;
        let members = &nvidia[config_members(nvidia).unwrap()];
        assert!(members.starts_with(b"\"registers") && members.ends_with(b": 75"), "the id of the node differs");
        let expected = LaunchConfig {
            grid: [512, 2, 1],
            block: [64, 1, 1],
            registers: Some(40),
            shared_bytes: Some(400),
            occupancy_pct: Some(75),
        };
        assert_eq!(config_in(members), Some(expected));
        let amd = br#"{"args": {"kind": "Dispatch Kernel", "grid":     [1, 1, 1], "block":     [256, 1, 1]    }  }"#;
        let expected = LaunchConfig { grid: [1, 1, 1], block: [256, 1, 1], ..LaunchConfig::default() };
        assert_eq!(config_members(amd).and_then(|at| config_in(&amd[at])), Some(expected));
    }

    /// Three launches: one with another grid, and one with another occupancy that begins with the same digit.
    #[test]
    fn launches_of_a_kernel_have_their_own_configurations() {
        let event = |ts: u32, blocks: u32, occupancy: u32| {
            format!(
                r#"{{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": {ts}, "dur": 1, "args": {{"device": 0,
                "stream": 7, "correlation": {ts}, "registers per thread": 16, "shared memory": 0, "grid": [{blocks}, 1, 1],
                "block": [64, 1, 1], "est. achieved occupancy %": {occupancy}}}}}"#
            )
        };
        let events = [event(1, 8, 7), event(2, 8, 7), event(3, 9, 7), event(4, 8, 75), event(5, 8, 7)].join(",");
        let text = format!(r#"{{"schemaVersion": 1, "traceEvents": [{events}]}}"#);
        let trace = read_trace(Importer::new("t.json"), [text.as_str()]);
        let found =
            (0..5).map(|row| trace.launch_configs.of_row(row).map(|config| (config.grid[0], config.occupancy_pct)));
        let expected = [(8, 7), (8, 7), (9, 7), (8, 75), (8, 7)].map(|(blocks, pct)| Some((blocks, Some(pct))));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    /// Every kernel of these traces has one; those of NCCL are parsed to the end.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn all_kernels_of_shared_traces_have_their_configurations() {
        for file in ["nccl_metadata_a100.trace.json.gz", "sglang_qwen3_30b_b300_decode.trace.json.gz"] {
            let trace = torch(file);
            let kernels = trace.gpu_ops.iter().enumerate().filter(|(_, op)| op.kind == OpKind::Kernel);
            let is_known = |row: usize| {
                let config = trace.launch_configs.of_row(row);
                config.is_some_and(|config| config.block[0] > 0 && config.registers.is_some())
            };
            assert!(kernels.clone().count() > 100 && kernels.clone().all(|(row, _)| is_known(row)), "{file}");
        }
    }

    #[test]
    fn other_texts_have_no_configuration() {
        for text in [
            "{}",
            r#"{"grid": [1, 1, 1]}"#,
            r#"{"grid": [1, 1], "block": [1, 1, 1]}"#,
            r#"{"grid": [1,1,-1], "block": [1,1,1]}"#,
            r#"{"grid": 5, "block": []}"#,
            r#"{"grid": [1,1,1], "block": [1,1"#,
            r#"{"grid": [1,1,1,1], "block": [1,1,1]}"#,
        ] {
            let text = text.as_bytes();
            assert_eq!(config_members(text).and_then(|at| config_in(&text[at])), None);
        }
    }
}
