//! How kernels were launched, from the columns `GrdX` to `DymSMem`. The rows of copies and sets leave them empty.
//!
//! nsys usually rounds shared memory to a thousandth of a megabyte. It is read only if the title says that it is in bytes.

use super::Fields;
use crate::trace::{LaunchConfig, LaunchConfigs};

/// Units of an exact size, in lower case.
const BYTES: [&str; 3] = ["b", "byte", "bytes"];

/// Indices of the columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaunchColumns {
    grid: [usize; 3],
    block: [usize; 3],
    registers: Option<usize>,
    /// Static and dynamic, in bytes.
    shared: Option<[usize; 2]>,
}

impl LaunchColumns {
    /// `None` without grid and block, and where nothing shows them.
    pub(super) fn find(titles: &[String]) -> Option<Self> {
        if !LaunchConfigs::ARE_READ {
            return None;
        }
        let at = |wanted: &str| titles.iter().position(|title| title == wanted);
        let in_bytes = |word: &str| titles.iter().position(|title| title.strip_prefix(word).is_some_and(is_in_bytes));
        Some(Self {
            grid: [at("GrdX")?, at("GrdY")?, at("GrdZ")?],
            block: [at("BlkX")?, at("BlkY")?, at("BlkZ")?],
            registers: at("Reg/Trd"),
            shared: in_bytes("StcSMem").zip(in_bytes("DymSMem")).map(<[usize; 2]>::from),
        })
    }

    pub(super) fn config(&self, fields: &Fields<'_>) -> Option<LaunchConfig> {
        let size = |column: usize| std::str::from_utf8(fields.get(column)?).ok()?.trim().parse::<u32>().ok();
        let sizes = |[x, y, z]: [usize; 3]| Some([size(x)?, size(y)?, size(z)?]);
        let shared = |[fixed, dynamic]: [usize; 2]| size(fixed)?.checked_add(size(dynamic)?);
        Some(LaunchConfig {
            grid: sizes(self.grid)?,
            block: sizes(self.block)?,
            registers: self.registers.and_then(size),
            shared_bytes: self.shared.and_then(shared),
            occupancy_pct: None,
        })
    }
}

/// Returns true for what follows the word in `StcSMem (B)` or `StcSMem:mem_B`.
fn is_in_bytes(rest: &str) -> bool {
    let in_brackets = rest.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let unit = in_brackets.or_else(|| rest.strip_prefix(':')?.rsplit('_').next());
    unit.is_some_and(|unit| BYTES.contains(&unit.trim().to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use crate::input::Importer;
    use crate::input::tests::read_trace;
    use crate::trace::{LaunchConfig, Trace};

    const TITLES: &str = "GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (B),DymSMem (B)";

    /// The configuration of each op of rows with these cells.
    fn configs(titles: &str, rows: &[&str]) -> Vec<Option<LaunchConfig>> {
        let row = |(start, cells): (usize, &&str)| format!("{start},1,{cells},H100 (0),7,k\n");
        let rows: String = rows.iter().enumerate().map(row).collect();
        let text = format!("Start (ns),Duration (ns),{titles},Device,Strm,Name\n{rows}");
        let trace: Trace = read_trace(Importer::new("t.csv"), [text.as_str()]);
        (0..trace.gpu_ops.len()).map(|row| trace.launch_configs.of_row(row).copied()).collect()
    }

    #[test]
    fn kernels_have_their_configurations_and_copies_have_none() {
        let found =
            configs(TITLES, &["16,2,1,256,1,1,90,1024,48", ",,,,,,,,", "16,2,1,-1,1,1,90,0,0", "1,1,1,32,1,1,,0,"]);
        let first = LaunchConfig {
            grid: [16, 2, 1],
            block: [256, 1, 1],
            registers: Some(90),
            shared_bytes: Some(1072),
            occupancy_pct: None,
        };
        let last = LaunchConfig { grid: [1, 1, 1], block: [32, 1, 1], ..LaunchConfig::default() };
        assert_eq!(found, [Some(first), None, None, Some(last)]);
    }

    #[test]
    fn rounded_shared_memory_is_left_out() {
        let row = "1,1,1,32,1,1,16,4,8";
        let shared = |unit: &str| {
            let titles = TITLES.replace(" (B)", unit);
            configs(&titles, &[row]).first().copied().flatten().map(|config| config.shared_bytes)
        };
        for unit in [" (byte)", " (bytes)", ":mem_B"] {
            assert_eq!(shared(unit), Some(Some(12)), "{unit}");
        }
        for unit in [" (MB)", "", " (KiB)", ":mem_MB"] {
            assert_eq!(shared(unit), Some(None), "{unit}");
        }
    }

    #[test]
    fn a_table_without_grids_has_no_configurations() {
        assert_eq!(configs("GrdX,BlkX,Reg/Trd", &["1,32,16"]), [None]);
    }
}
