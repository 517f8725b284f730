//! How kernels were launched: grid, block, registers and shared memory.
//!
//! A program launches its kernels in few configurations, so each is stored once and an op takes 4 bytes, if the profiler recorded any.

use super::NONE;
use super::columns::{KeptRows, index, reorder};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// More distinct configurations are not stored.
const MAX_CONFIGS: usize = 1 << 16;

/// The configuration of a launch, as the profiler recorded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LaunchConfig {
    /// Blocks of the grid in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Registers of a thread.
    pub registers: Option<u32>,
    /// Shared memory of a block in bytes, static and dynamic.
    pub shared_bytes: Option<u32>,
    /// The profiler's estimate of the achieved occupancy in per cent, from the size of the launch.
    pub occupancy_pct: Option<u32>,
}

/// The configurations of the kernels of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LaunchConfigs {
    configs: Vec<LaunchConfig>,
    /// While the trace is read.
    ids: HashMap<LaunchConfig, u32, RandomState>,
    /// By row of the op: index of its configuration, or [`NONE`]. Empty or shorter than the table of ops if no further op has one.
    of_op: Vec<u32>,
}

impl LaunchConfigs {
    /// Whether this build reads them. Only the page's timeline shows them, and they would take about a tenth of the time of a report
    /// on an export of Nsight Systems, a third if it has little but kernels.
    pub(crate) const ARE_READ: bool = cfg!(any(all(target_arch = "wasm32", feature = "full"), test));

    /// The index of a configuration, which is added if it is new; `None` if there are too many.
    pub fn add(&mut self, config: LaunchConfig) -> Option<u32> {
        if let Some(known) = self.ids.get(&config) {
            return Some(*known);
        }
        if self.configs.len() >= MAX_CONFIGS {
            return None;
        }
        self.configs.push(config);
        let id = index(self.configs.len() - 1);
        self.ids.insert(config, id);
        Some(id)
    }

    /// Gives the op in this row, which is later than all with one, the configuration with this index.
    pub(super) fn set(&mut self, row: usize, config: u32) {
        self.of_op.resize(row, NONE);
        self.of_op.push(config);
    }

    /// The configuration of the op in this row, if known.
    pub fn of_row(&self, row: usize) -> Option<&LaunchConfig> {
        self.configs.get(*self.of_op.get(row)? as usize)
    }

    /// Returns true if no op has a known configuration.
    pub fn is_empty(&self) -> bool {
        self.of_op.is_empty()
    }

    /// `order` has the old row of each op that is kept.
    pub(super) fn reorder(&mut self, order: &[u32]) {
        if !self.is_empty() {
            self.of_op.resize(self.of_op.len().max(order.len()), NONE);
            reorder(&mut self.of_op, order);
        }
    }

    pub(super) fn part(&self, kept: &KeptRows) -> Self {
        if self.is_empty() {
            return Self::default();
        }
        let of_op = kept.iter().map(|row| self.of_op.get(row as usize).copied().unwrap_or(NONE)).collect();
        Self { configs: self.configs.clone(), ids: HashMap::default(), of_op }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;
    use crate::trace::{Ns, Window};

    #[test]
    fn configurations_follow_their_ops_when_these_are_sorted_and_into_windows() {
        let config = |blocks: u32| LaunchConfig { grid: [blocks, 1, 1], block: [128, 1, 1], ..Default::default() };
        let mut trace = TestTrace::new();
        trace.kernel("late", 50..60);
        trace.builder.set_launch_config_of_last_op(config(3));
        trace.kernel("unknown", 20..30).kernel("first", 0..10);
        trace.builder.set_launch_config_of_last_op(config(1));
        trace.kernel("again", 30..40);
        trace.builder.set_launch_config_of_last_op(config(3));
        let trace = trace.kernel("last", 70..80).finish();
        let grids = |trace: &crate::trace::Trace| -> Vec<Option<u32>> {
            (0..trace.gpu_ops.len()).map(|row| Some(trace.launch_configs.of_row(row)?.grid[0])).collect()
        };
        assert_eq!(grids(&trace), [Some(1), None, Some(3), Some(3), None]);
        assert_eq!(grids(&trace.within(Window { start: Ns(25), end: Ns(75) })), [None, Some(3), Some(3), None]);
        assert_eq!(trace.launch_configs.configs.len(), 2);
        assert!(TestTrace::new().kernel("k", 0..1).finish().launch_configs.is_empty());
    }
}
