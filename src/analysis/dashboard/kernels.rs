//! Selects the kernels for the bars of the dashboard and finds the same kernels in the baseline.

use super::{Categories, is_communication, number};
use crate::analysis::results::Run;
use crate::analysis::section::{Record, Section};
use crate::analysis::triage::frames::canonical;
use crate::rules::names;

/// A row of the section `kernels` as a bar.
#[derive(Debug)]
pub struct KernelBar<'a> {
    /// The row.
    pub row: &'a Record,
    /// Its category.
    pub category: &'a str,
    /// The same kernel in the baseline.
    pub baseline: BaselineRow<'a>,
}

/// The row of a kernel in the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BaselineRow<'a> {
    /// There is no baseline.
    NoBaseline,
    /// The row.
    Row(&'a Record),
    /// The kernel ran in the baseline, but its time was too short for a row.
    TooShort,
    /// The kernel did not run in the baseline.
    New,
}

/// The selected kernels, and the number of rows left out.
#[derive(Debug, Default)]
pub struct KernelSelection<'a> {
    /// The bars in the order of the section, which is by time.
    pub bars: Vec<KernelBar<'a>>,
    /// Rows below the threshold.
    pub below_threshold: usize,
    /// Communication kernels, if communication is switched off.
    pub communication: usize,
    /// Kernels of hidden categories.
    pub hidden: usize,
    /// Kernels beyond the maximum number of bars.
    pub more: usize,
}

/// Selects at most `max_bars` kernels with the most time, at least `threshold_ms` in total, whose category is not `hidden`.
pub fn select_kernels<'a>(
    run: &'a Run,
    baseline: Option<&'a Run>,
    threshold_ms: f64,
    communication: bool,
    hidden: &[String],
    max_bars: usize,
) -> KernelSelection<'a> {
    let mut selection = KernelSelection::default();
    let Some(section) = run.sections.get("kernels") else { return selection };
    let categories = Categories::of(run);
    let mut baseline_kernels = baseline.map(|baseline| BaselineKernels::new(baseline, section));
    for row in &section.rows {
        let (name, time_ms) = (row.text("kernel_name"), number(row, "total_time_ms").unwrap_or(0.0));
        let baseline = baseline_kernels.as_mut().map_or(BaselineRow::NoBaseline, |kernels| kernels.take(row));
        if !communication && is_communication(name) {
            selection.communication += 1;
        } else if hidden.iter().any(|hidden| hidden == categories.get(name)) {
            selection.hidden += 1;
        } else if time_ms < threshold_ms {
            selection.below_threshold += 1;
        } else if selection.bars.len() == max_bars {
            selection.more += 1;
        } else {
            selection.bars.push(KernelBar { row, category: categories.get(name), baseline });
        }
    }
    // The section itself may have the first rows only, as in a report.
    selection.more += usize::try_from(section.rows_in_all).unwrap_or_default().saturating_sub(section.rows.len());
    selection
}

fn has_one_device(section: &Section) -> bool {
    let device = |row: &Record| row.get("device_id").cloned();
    section.rows.iter().all(|row| Some(device(row)) == section.rows.first().map(device))
}

/// The rows of the baseline. Each row is matched at most once.
struct BaselineKernels<'a> {
    run: &'a Run,
    /// Row, canonical name, and whether the row is already matched.
    rows: Vec<(&'a Record, String, bool)>,
    /// Canonical names of all kernels of the baseline.
    names: Vec<String>,
    /// Both runs have a single device each, so device ids are ignored.
    is_one_device: bool,
}

impl<'a> BaselineKernels<'a> {
    fn new(run: &'a Run, ours: &Section) -> Self {
        let section = run.sections.get("kernels");
        let is_one_device = has_one_device(ours) && section.is_some_and(has_one_device);
        let rows = section.iter().flat_map(|section| &section.rows);
        let rows = rows.map(|row| (row, canonical(row.text("kernel_name")), false)).collect();
        let names = run.kernels.iter().map(|kernel| canonical(&names::demangle(&kernel.name))).collect();
        Self { run, rows, names, is_one_device }
    }

    /// Takes the row with the same name on the same device, or else the longest one with the same canonical name.
    fn take(&mut self, row: &Record) -> BaselineRow<'a> {
        let (name, device) = (row.text("kernel_name"), row.get("device_id"));
        let wanted = canonical(name);
        let is_one_device = self.is_one_device;
        let is_candidate = |(_, (other, canonical_name, taken)): &(usize, &(&Record, String, bool))| {
            !taken && *canonical_name == wanted && (is_one_device || other.get("device_id") == device)
        };
        let mut candidates = self.rows.iter().enumerate().filter(is_candidate);
        let exact = candidates.clone().find(|(_, (other, ..))| other.text("kernel_name") == name);
        let index = exact.or_else(|| candidates.next()).map(|(index, _)| index);
        match index.and_then(|index| self.rows.get_mut(index)) {
            Some((other, _, taken)) => {
                *taken = true;
                BaselineRow::Row(other)
            }
            None if self.names.contains(&wanted) && !self.run.kernels.is_empty() => BaselineRow::TooShort,
            None => BaselineRow::New,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run_of, section};
    use super::*;
    use crate::analysis::results::Kernel;
    use crate::analysis::section::Value;
    use crate::trace::testing::TestTrace;

    fn run(rows: &[(&str, i64, f64)]) -> Run {
        let mut run = run_of(&["NVIDIA H200"]);
        let row = |(name, device, ms): &(&str, i64, f64)| [Value::from(*name), (*device).into(), (*ms).into()];
        let rows: Vec<[Value; 3]> = rows.iter().map(row).collect();
        run.sections.insert("kernels".into(), section(["kernel_name", "device_id", "total_time_ms"], &rows));
        run
    }

    fn kernel(name: &str, category: &str) -> Kernel {
        let kernel = TestTrace::new().kernel(name, 0..1).run().kernels.remove(0);
        Kernel { category: category.into(), ..kernel }
    }

    const ALLREDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

    #[test]
    fn every_row_is_a_bar_or_is_counted() {
        let ours =
            run(&[("a", 0, 9.0), (ALLREDUCE, 0, 8.0), ("b", 0, 7.0), ("c", 0, 6.0), ("d", 0, 0.5), ("e", 0, 0.4)]);
        let names = |found: &KernelSelection| -> Vec<String> {
            found.bars.iter().map(|bar| bar.row.text("kernel_name").to_owned()).collect()
        };
        let all = select_kernels(&ours, None, 0.5, true, &[], 3);
        assert_eq!(
            (names(&all), all.below_threshold, all.communication, all.more),
            (vec!["a".into(), ALLREDUCE.into(), "b".into()], 1, 0, 2)
        );
        let without = select_kernels(&ours, None, 0.5, false, &[], 3);
        assert_eq!((names(&without), without.communication), (vec!["a".into(), "b".into(), "c".into()], 1));
        assert!(without.bars.iter().all(|bar| bar.baseline == BaselineRow::NoBaseline));
    }

    #[test]
    fn a_kernel_is_matched_with_the_same_kernel_on_the_same_device() {
        let ours = run(&[("void f<1>(int)", 0, 9.0), ("void f<1>(int)", 1, 8.0), ("new", 0, 7.0), ("brief", 0, 1.0)]);
        let mut theirs = run(&[("void f<1>(int)", 1, 5.0), ("void f<1>(float)", 0, 4.0)]);
        theirs.kernels = vec![kernel("brief", "gemm")];
        let found = select_kernels(&ours, Some(&theirs), 0.0, true, &[], 20);
        let baseline_ms: Vec<Option<f64>> = found
            .bars
            .iter()
            .map(|bar| if let BaselineRow::Row(row) = bar.baseline { number(row, "total_time_ms") } else { None })
            .collect();
        assert_eq!(baseline_ms, [Some(4.0), Some(5.0), None, None]);
        assert_eq!((found.bars[2].baseline, found.bars[3].baseline), (BaselineRow::New, BaselineRow::TooShort));
    }

    #[test]
    fn kernels_with_the_same_canonical_name_do_not_share_a_baseline_row() {
        let ours = run(&[("void f(int)", 0, 9.0), ("void f(float)", 0, 8.0)]);
        let theirs = run(&[("void f(float)", 0, 5.0)]);
        let found = select_kernels(&ours, Some(&theirs), 0.0, true, &[], 20);
        let rows = found.bars.iter().filter(|bar| matches!(bar.baseline, BaselineRow::Row(_))).count();
        assert_eq!(rows, 1);
    }

    #[test]
    fn a_bar_has_the_category_of_its_kernel() {
        let mut ours = run(&[("f(int)", 0, 9.0), ("unknown", 0, 1.0)]);
        ours.kernels = vec![kernel("_Z1fi", "attention")];
        let found = select_kernels(&ours, None, 0.0, true, &[], 20);
        assert_eq!(found.bars.iter().map(|bar| bar.category).collect::<Vec<_>>(), ["attention", "misc"]);
    }

    #[test]
    fn kernels_that_the_section_does_not_list_count_as_left_out() {
        let mut ours = run(&[("a", 0, 9.0), ("b", 0, 2.0), ("c", 0, 1.0)]);
        ours.sections.get_mut("kernels").unwrap().rows_in_all = 80;
        let found = select_kernels(&ours, None, 0.0, true, &[], 2);
        assert_eq!((found.bars.len(), found.more), (2, 78));
    }

    #[test]
    fn malformed_rows_do_not_panic() {
        let mut ours = run(&[]);
        let rows: Vec<[Value; 2]> = (0..5_000).map(|at| [Value::Null, i64::from(at).into()]).collect();
        ours.sections.insert("kernels".into(), section(["total_time_ms", "kernel_name"], &rows));
        let found = select_kernels(&ours, Some(&ours), 0.0, false, &[], 20);
        assert_eq!(found.bars.len() + found.more, 5_000);
        ours.sections.clear();
        assert!(select_kernels(&ours, Some(&ours), f64::NAN, true, &[], 20).bars.is_empty());
    }
}
