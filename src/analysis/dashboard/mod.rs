//! Selects the data of the dashboard's charts from finished sections: rows to show, matching rows of the baseline, the
//! ceilings of the roofline, thinned counter samples. Linear in the rows, except that matching kernels with a baseline is
//! quadratic in the rows of the section `kernels`.
//!
//! Runs may be analyzed now or read from a report.

mod hardware;
mod kernels;
mod links;
mod model;
mod roofline;

pub(crate) use hardware::preset_of_devices;
pub use hardware::{Preset, preset, presets};
pub use kernels::{BaselineRow, KernelBar, KernelSelection, select_kernels};
pub use links::{CounterLines, HoverInterval, Line, counter_lines};
pub use model::{
    LayerBar, LayerColumn, LayerSegment, StepColumn, floors, layer_bars, layer_columns, layer_stage, step_columns,
};
pub use roofline::{Limit, Point, points, points_section};

use super::results::Run;
use super::section::{Record, Section};
use crate::ordering;
use crate::rules::{RuleBook, names};
use crate::trace::{Format, Profiler};
use std::collections::BTreeMap;

/// The number with this key, if it is finite.
pub fn number(row: &Record, key: &str) -> Option<f64> {
    row.number(key).filter(|number| number.is_finite())
}

/// Whether the kernel communicates between GPUs, by gpuprism's own rules, independent of the chosen rules.
pub fn is_communication(kernel: &str) -> bool {
    RuleBook::gpuprism_default().is_some_and(|rules| rules.category(kernel, kernel) == "communication")
}

/// The categories of a run's kernels by demangled name, as in its sections.
#[derive(Debug)]
pub struct Categories<'a>(BTreeMap<String, &'a str>);

impl<'a> Categories<'a> {
    /// The categories of all kernels of the run.
    pub fn of(run: &'a Run) -> Self {
        let named = run.kernels.iter().map(|kernel| (names::demangle(&kernel.name).into_owned(), &*kernel.category));
        Self(named.collect())
    }

    /// The category of a kernel; `misc` if it is not listed.
    pub fn get(&self, kernel: &str) -> &'a str {
        self.0.get(kernel).copied().unwrap_or("misc")
    }
}

/// The rows with the largest absolute deviation from the median rank, largest first.
pub fn most_skewed(section: &Section, max_rows: usize) -> Vec<&Record> {
    let skew = |row: &&Record| number(row, "skew_vs_median_pct").map_or(-1.0, f64::abs);
    let mut rows: Vec<&Record> = section.rows.iter().collect();
    ordering::sort_by(&mut rows, |a, b| skew(b).total_cmp(&skew(a)));
    rows.truncate(max_rows);
    rows
}

/// Whether any operation has more than one rank.
pub fn has_ranks(section: &Section) -> bool {
    let label = |row: &Record| (row.text("op_name").to_owned(), row.text("rank_label").to_owned());
    let mut labels: Vec<(String, String)> = section.rows.iter().map(label).collect();
    ordering::sort_by(&mut labels, Ord::cmp);
    labels.windows(2).any(|pair| matches!(pair, [(one, a), (other, b)] if one == other && a != b))
}

/// How to capture several ranks.
pub fn capture_ranks(format: Format) -> &'static str {
    match format.profiler() {
        Profiler::Torch => "Run torch.profiler on every rank and open the traces together",
        Profiler::Rocprof
        | Profiler::Rpd
        | Profiler::Ascend
        | Profiler::Proton
        | Profiler::Xla
        | Profiler::Unitrace => "Run the profiler on every rank and open the traces together",
        Profiler::Nsys => {
            "nsys profile --trace=cuda,nvtx --cuda-trace-scope=process-tree -o trace torchrun --nproc-per-node=N CMD"
        }
    }
}

/// The first row of another section with equal values for all these keys.
pub fn matching_row<'a>(section: Option<&'a Section>, row: &Record, keys: &[&str]) -> Option<&'a Record> {
    section?.rows.iter().find(|other| keys.iter().all(|key| other.get(key) == row.get(key)))
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::analysis::section::Value;
    use crate::trace::testing::TestTrace;

    /// A run without GPU ops on devices with these names.
    pub(crate) fn run_of(devices: &[&str]) -> Run {
        let mut trace = TestTrace::nsys();
        for (id, name) in devices.iter().enumerate() {
            trace.named_device(id, name);
        }
        trace.run()
    }

    /// A section with these columns and rows.
    pub(crate) fn section<const N: usize>(columns: [&str; N], rows: &[[Value; N]]) -> Section {
        let mut section = Section::new("T", "", &columns);
        rows.iter().for_each(|row| section.row(row.clone()));
        section
    }
}

#[cfg(test)]
mod tests {
    use super::testing::section;
    use super::*;

    #[test]
    fn most_skewed_sorts_by_absolute_deviation() {
        let rows = [("a", 3.0), ("b", -40.0), ("c", 12.0), ("d", 0.0)];
        let rows = rows.map(|(rank, skew)| ["allreduce".into(), rank.into(), skew.into()]);
        let section = section(["op_name", "rank_label", "skew_vs_median_pct"], &rows);
        let ranks: Vec<&str> = most_skewed(&section, 3).into_iter().map(|row| row.text("rank_label")).collect();
        assert_eq!(ranks, ["b", "c", "a"]);
        assert!(has_ranks(&section));
    }

    #[test]
    fn one_rank_in_several_operations_is_not_several_ranks() {
        let rows = [["allreduce".into(), "rank:0".into()], ["allgather".into(), "rank:0".into()]];
        assert!(!has_ranks(&section(["op_name", "rank_label"], &rows)));
        assert!(!has_ranks(&Section::default()));
    }
}
