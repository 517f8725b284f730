//! The kernels of the waterfall, and those of a baseline beside them.

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
    /// The category of its name.
    pub category: &'a str,
    /// The same kernel in the baseline.
    pub beside: Beside<'a>,
}

/// A kernel in the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Beside<'a> {
    /// No baseline was chosen.
    Unasked,
    /// Its row there.
    Row(&'a Record),
    /// It ran there, too briefly for a row of its own.
    BelowItsRows,
    /// It did not run there.
    New,
}

/// The bars, and how many rows are none.
#[derive(Debug, Default)]
pub struct Waterfall<'a> {
    /// The longest first.
    pub bars: Vec<KernelBar<'a>>,
    /// Rows below the threshold.
    pub below_threshold: usize,
    /// Communication that was switched off.
    pub communication: usize,
    /// Further rows.
    pub more: usize,
}

/// The `most` kernels with the most time, of those that take at least so long in all.
pub fn waterfall<'a>(
    run: &'a Run,
    baseline: Option<&'a Run>,
    threshold_ms: f64,
    communication: bool,
    most: usize,
) -> Waterfall<'a> {
    let mut found = Waterfall::default();
    let Some(section) = run.sections.get("kernels") else { return found };
    let categories = Categories::of(run);
    let mut others = baseline.map(|baseline| Others::of(baseline, section));
    for row in &section.rows {
        let (name, time_ms) = (row.text("kernel_name"), number(row, "total_time_ms").unwrap_or(0.0));
        let beside = others.as_mut().map_or(Beside::Unasked, |others| others.take(row));
        if !communication && is_communication(name) {
            found.communication += 1;
        } else if time_ms < threshold_ms {
            found.below_threshold += 1;
        } else if found.bars.len() == most {
            found.more += 1;
        } else {
            found.bars.push(KernelBar { row, category: categories.get(name), beside });
        }
    }
    found
}

fn is_of_one_device(section: &Section) -> bool {
    let device = |row: &Record| row.get("device_id").cloned();
    section.rows.iter().all(|row| Some(device(row)) == section.rows.first().map(device))
}

/// The baseline's rows, each of which stands beside one of ours at most.
struct Others<'a> {
    run: &'a Run,
    rows: Vec<(&'a Record, String, bool)>,
    names: Vec<String>,
    /// Both runs have rows of one device, whatever its number.
    is_one_device: bool,
}

impl<'a> Others<'a> {
    fn of(run: &'a Run, ours: &Section) -> Self {
        let section = run.sections.get("kernels");
        let is_one_device = is_of_one_device(ours) && section.is_some_and(is_of_one_device);
        let rows = section.iter().flat_map(|section| &section.rows);
        let rows = rows.map(|row| (row, canonical(row.text("kernel_name")), false)).collect();
        let names = run.kernels.iter().map(|kernel| canonical(&names::demangle(&kernel.name))).collect();
        Self { run, rows, names, is_one_device }
    }

    /// The row of the same name on the same device; else the longest of the same canonical name there.
    fn take(&mut self, row: &Record) -> Beside<'a> {
        let (name, device) = (row.text("kernel_name"), row.get("device_id"));
        let wanted = canonical(name);
        let is_one_device = self.is_one_device;
        let on_device = |(_, (other, known, taken)): &(usize, &(&Record, String, bool))| {
            !taken && *known == wanted && (is_one_device || other.get("device_id") == device)
        };
        let mut alike = self.rows.iter().enumerate().filter(on_device);
        let exactly = alike.clone().find(|(_, (other, ..))| other.text("kernel_name") == name);
        let found = exactly.or_else(|| alike.next()).map(|(at, _)| at);
        match found.and_then(|at| self.rows.get_mut(at)) {
            Some((other, _, taken)) => {
                *taken = true;
                Beside::Row(other)
            }
            None if self.names.contains(&wanted) && !self.run.kernels.is_empty() => Beside::BelowItsRows,
            None => Beside::New,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run_of, section};
    use super::*;
    use crate::analysis::results::Kernel;
    use crate::analysis::section::Value;

    fn run(rows: &[(&str, i64, f64)]) -> Run {
        let mut run = run_of(&["NVIDIA H200"]);
        let row = |(name, device, ms): &(&str, i64, f64)| [Value::from(*name), (*device).into(), (*ms).into()];
        let rows: Vec<[Value; 3]> = rows.iter().map(row).collect();
        run.sections.insert("kernels".into(), section(["kernel_name", "device_id", "total_time_ms"], &rows));
        run
    }

    fn kernel(name: &str, category: &str) -> Kernel {
        Kernel {
            name: name.into(),
            short_name: name.into(),
            category: category.into(),
            count: 1,
            duration_ns: 1,
            elapsed_ns: 1,
            exclusive_ns: 1,
            fair_ns: 1,
            elapsed_share: 0.0,
            mean_ns: 1.0,
            min_ns: 1,
            max_ns: 1,
        }
    }

    const ALLREDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

    #[test]
    fn every_row_is_a_bar_or_is_counted() {
        let ours =
            run(&[("a", 0, 9.0), (ALLREDUCE, 0, 8.0), ("b", 0, 7.0), ("c", 0, 6.0), ("d", 0, 0.5), ("e", 0, 0.4)]);
        let names = |found: &Waterfall| -> Vec<String> {
            found.bars.iter().map(|bar| bar.row.text("kernel_name").to_owned()).collect()
        };
        let all = waterfall(&ours, None, 0.5, true, 3);
        assert_eq!(
            (names(&all), all.below_threshold, all.communication, all.more),
            (vec!["a".into(), ALLREDUCE.into(), "b".into()], 1, 0, 2)
        );
        let without = waterfall(&ours, None, 0.5, false, 3);
        assert_eq!((names(&without), without.communication), (vec!["a".into(), "b".into(), "c".into()], 1));
        assert!(without.bars.iter().all(|bar| bar.beside == Beside::Unasked));
    }

    #[test]
    fn a_kernel_stands_beside_the_same_one_of_the_baseline_on_the_same_device() {
        let ours = run(&[("void f<1>(int)", 0, 9.0), ("void f<1>(int)", 1, 8.0), ("new", 0, 7.0), ("brief", 0, 1.0)]);
        let mut theirs = run(&[("void f<1>(int)", 1, 5.0), ("void f<1>(float)", 0, 4.0)]);
        theirs.kernels = vec![kernel("brief", "gemm")];
        let found = waterfall(&ours, Some(&theirs), 0.0, true, 20);
        let beside: Vec<Option<f64>> = found
            .bars
            .iter()
            .map(|bar| if let Beside::Row(row) = bar.beside { number(row, "total_time_ms") } else { None })
            .collect();
        assert_eq!(beside, [Some(4.0), Some(5.0), None, None]);
        assert_eq!((found.bars[2].beside, found.bars[3].beside), (Beside::New, Beside::BelowItsRows));
    }

    #[test]
    fn two_kernels_of_one_canonical_name_do_not_share_a_row_of_the_baseline() {
        let ours = run(&[("void f(int)", 0, 9.0), ("void f(float)", 0, 8.0)]);
        let theirs = run(&[("void f(float)", 0, 5.0)]);
        let found = waterfall(&ours, Some(&theirs), 0.0, true, 20);
        let rows = found.bars.iter().filter(|bar| matches!(bar.beside, Beside::Row(_))).count();
        assert_eq!(rows, 1);
    }

    #[test]
    fn a_bar_has_the_category_of_its_name_in_the_run() {
        let mut ours = run(&[("f(int)", 0, 9.0), ("unknown", 0, 1.0)]);
        ours.kernels = vec![kernel("_Z1fi", "attention")];
        let found = waterfall(&ours, None, 0.0, true, 20);
        assert_eq!(found.bars.iter().map(|bar| bar.category).collect::<Vec<_>>(), ["attention", "misc"]);
    }

    #[test]
    fn rows_of_any_shape_are_no_trouble() {
        let mut ours = run(&[]);
        let rows: Vec<[Value; 2]> = (0..5_000).map(|at| [Value::Null, i64::from(at).into()]).collect();
        ours.sections.insert("kernels".into(), section(["total_time_ms", "kernel_name"], &rows));
        let found = waterfall(&ours, Some(&ours), 0.0, false, 20);
        assert_eq!(found.bars.len() + found.more, 5_000);
        ours.sections.clear();
        assert!(waterfall(&ours, Some(&ours), f64::NAN, true, 20).bars.is_empty());
    }
}
