//! Reads how kernels were launched. A table without these columns, or a row that lacks the grid or block, has no configuration.

use super::scanner::Cells;
use crate::trace::{LaunchConfig, LaunchConfigs};

/// The columns of a configuration, in the order that [`launch_config`] expects; none where nothing shows it.
pub(super) const COLUMNS: &[&[&str]] = if LaunchConfigs::ARE_READ { &OF_CONFIG } else { &[] };
const OF_CONFIG: [&[&str]; 9] = [
    &["gridX"],
    &["gridY"],
    &["gridZ"],
    &["blockX"],
    &["blockY"],
    &["blockZ"],
    &["registersPerThread"],
    &["staticSharedMemory"],
    &["dynamicSharedMemory"],
];

/// The configuration in the columns from `first` on.
pub(super) fn launch_config(cells: &Cells<'_>, first: usize) -> Option<LaunchConfig> {
    if !LaunchConfigs::ARE_READ {
        return None;
    }
    let size = |column: usize| cells.int(first + column).and_then(|size| u32::try_from(size).ok());
    let grid = [size(0)?, size(1)?, size(2)?];
    let block = [size(3)?, size(4)?, size(5)?];
    let shared_bytes = size(7).zip(size(8)).and_then(|(fixed, dynamic)| fixed.checked_add(dynamic));
    Some(LaunchConfig { grid, block, registers: size(6), shared_bytes, occupancy_pct: None })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Generation, decode_loop};
    use super::super::open::open;
    use super::super::tests::trace;
    use super::*;
    use crate::analysis::testing::shared;
    use crate::trace::{OpKind, Trace};
    use rusqlite::{Connection, OpenFlags};

    /// The configuration of each kernel.
    fn configs(trace: &Trace) -> Vec<Option<LaunchConfig>> {
        let kernels = trace.gpu_ops.iter().enumerate().filter(|(_, op)| op.kind == OpKind::Kernel);
        kernels.map(|(row, _)| trace.launch_configs.of_row(row).copied()).collect()
    }

    /// Adds columns to the kernels of the decode loop; the value of a column is its default.
    fn loop_with(columns: &[(&str, i64)]) -> Connection {
        let connection = decode_loop(Generation::S3_25);
        for (column, value) in columns {
            let add = format!("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN {column} INTEGER DEFAULT {value}");
            connection.execute_batch(&add).unwrap();
        }
        connection
    }

    const SIZES: [(&str, i64); 6] =
        [("gridX", 16), ("gridY", 2), ("gridZ", 1), ("blockX", 256), ("blockY", 1), ("blockZ", 1)];
    const OF_BLOCK: [(&str, i64); 3] =
        [("registersPerThread", 90), ("staticSharedMemory", 1_024), ("dynamicSharedMemory", 48)];
    const EXPECTED: LaunchConfig = LaunchConfig {
        grid: [16, 2, 1],
        block: [256, 1, 1],
        registers: Some(90),
        shared_bytes: Some(1_072),
        occupancy_pct: None,
    };

    #[test]
    fn kernels_have_their_configurations() {
        let connection = loop_with(&[&SIZES[..], &OF_BLOCK].concat());
        // The last of six kernels, and one whose size is no size.
        let change = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = 17 WHERE start = 45500;
                      UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET blockX = -1 WHERE start = 10000";
        connection.execute_batch(change).unwrap();
        let trace = trace(&connection);
        let usual = Some(EXPECTED);
        let last = Some(LaunchConfig { grid: [17, 2, 1], ..EXPECTED });
        assert_eq!(configs(&trace), [None, usual, usual, usual, usual, last]);
        let copy = trace.gpu_ops.iter().position(|op| op.kind == OpKind::Copy).unwrap();
        assert_eq!(trace.launch_configs.of_row(copy), None);
    }

    #[test]
    fn columns_that_an_export_lacks_are_left_out() {
        let without_registers = trace(&loop_with(&SIZES));
        let expected = LaunchConfig { registers: None, shared_bytes: None, ..EXPECTED };
        assert_eq!(configs(&without_registers), [Some(expected); 6]);
        let without_block = trace(&loop_with(&[&SIZES[..5], &OF_BLOCK].concat()));
        assert!(without_block.launch_configs.is_empty());
    }

    /// In a real export they are what a query finds.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn configurations_are_those_that_a_query_finds() {
        let path = shared("traces/nsys/h100_2gpu_fastvideo_s3.25.sqlite");
        let mut found = configs(&open(&path, "x").unwrap());
        let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let query = "SELECT gridX, gridY, gridZ, blockX, blockY, blockZ, registersPerThread,
                     staticSharedMemory + dynamicSharedMemory FROM CUPTI_ACTIVITY_KIND_KERNEL";
        let mut statement = connection.prepare(query).unwrap();
        let config = |row: &rusqlite::Row<'_>| {
            Ok(Some(LaunchConfig {
                grid: [row.get(0)?, row.get(1)?, row.get(2)?],
                block: [row.get(3)?, row.get(4)?, row.get(5)?],
                registers: Some(row.get(6)?),
                shared_bytes: Some(row.get(7)?),
                occupancy_pct: None,
            }))
        };
        let mut expected: Vec<_> = statement.query_map([], config).unwrap().map(Result::unwrap).collect();
        let key = |config: &Option<LaunchConfig>| {
            config.map(|config| (config.grid, config.block, config.registers, config.shared_bytes))
        };
        found.sort_by_key(key);
        expected.sort_by_key(key);
        assert_eq!(found.len(), 3_442);
        assert!(found == expected);
    }
}
