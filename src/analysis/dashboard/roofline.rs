//! The points of the roofline: kernels with counters for operations and bytes, and their share of the ceiling.

use super::{Categories, Preset, is_communication, matching_row, number};
use crate::analysis::results::Run;
use crate::analysis::section::Record;

/// A row of the section `roofline` as a point.
#[derive(Debug)]
pub struct Point<'a> {
    /// The row.
    pub row: &'a Record,
    /// Arithmetic intensity; above zero.
    pub flop_per_byte: f64,
    /// Throughput; above zero.
    pub tflops: f64,
    /// The category of the kernel.
    pub category: &'a str,
    /// The limiting ceiling and the share of it that is reached, in per cent; `None` without a preset.
    pub limit: Option<(Limit, f64)>,
    /// Arithmetic intensity and throughput of the same kernel in the baseline.
    pub baseline: Option<(f64, f64)>,
}

/// The ceiling that limits a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Memory bandwidth.
    Memory,
    /// Peak arithmetic throughput.
    Arithmetic,
}

/// Arithmetic intensity and throughput, if both are positive.
fn coordinates(row: &Record) -> Option<(f64, f64)> {
    let (x, y) = (number(row, "arithmetic_intensity")?, number(row, "achieved_tflops")?);
    (x > 0.0 && y > 0.0).then_some((x, y))
}

/// The points of a run with the ceilings of a preset, in the order of the rows.
pub fn points<'a>(
    run: &'a Run,
    baseline: Option<&'a Run>,
    preset: Option<&Preset>,
    communication: bool,
) -> Vec<Point<'a>> {
    let Some(section) = run.sections.get("roofline") else { return Vec::new() };
    let categories = Categories::of(run);
    let others = baseline.and_then(|baseline| baseline.sections.get("roofline"));
    let is_shown = |row: &&Record| communication || !is_communication(row.text("kernel_name"));
    let point = |row: &'a Record| {
        let (flop_per_byte, tflops) = coordinates(row)?;
        let limit = preset.map(|preset| {
            let is_memory_bound = flop_per_byte < preset.ridge_flop_per_byte();
            let limit = if is_memory_bound { Limit::Memory } else { Limit::Arithmetic };
            (limit, 100.0 * tflops / preset.roof_tflops(flop_per_byte))
        });
        let baseline = matching_row(others, row, &["kernel_name"]).and_then(coordinates);
        let category = categories.get(row.text("kernel_name"));
        Some(Point { row, flop_per_byte, tflops, category, limit, baseline })
    };
    section.rows.iter().filter(is_shown).filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run_of, section};
    use super::super::{presets, testing};
    use super::*;
    use crate::analysis::section::Value;

    const COLUMNS: [&str; 3] = ["kernel_name", "arithmetic_intensity", "achieved_tflops"];

    fn run(rows: &[(&str, f64, f64)]) -> Run {
        let mut run = run_of(&[]);
        let row = |(name, x, y): &(&str, f64, f64)| [Value::from(*name), Value::Float(*x), Value::Float(*y)];
        run.sections.insert("roofline".into(), section(COLUMNS, &rows.iter().map(row).collect::<Vec<_>>()));
        run
    }

    #[test]
    fn a_point_has_its_limit_and_the_share_reached() {
        let ours =
            run(&[("stream", 10.0, 16.75), ("gemm", 1_000.0, 494.5), ("nothing", 0.0, 5.0), ("broken", f64::NAN, 5.0)]);
        let theirs = run(&[("gemm", 900.0, 400.0)]);
        let h100 = presets().iter().find(|preset| preset.id == "h100-sxm5");
        let found = points(&ours, Some(&theirs), h100, true);
        let limits: Vec<_> = found.iter().map(|point| point.limit).collect();
        assert_eq!(limits, [Some((Limit::Memory, 50.0)), Some((Limit::Arithmetic, 50.0))]);
        assert_eq!(found.iter().map(|point| point.baseline).collect::<Vec<_>>(), [None, Some((900.0, 400.0))]);
        assert!(points(&ours, None, None, true).iter().all(|point| point.limit.is_none()));
    }

    #[test]
    fn communication_can_be_switched_off() {
        let ours = run(&[("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 1.0, 1.0), ("gemm", 1.0, 1.0)]);
        assert_eq!((points(&ours, None, None, true).len(), points(&ours, None, None, false).len()), (2, 1));
        assert!(points(&testing::run_of(&[]), None, None, true).is_empty());
    }
}
