//! The points of the roofline: kernels with counters for operations and bytes, or else framework ops with both from the shapes
//! of their arguments, and their share of the ceiling.

use super::{Categories, Preset, is_communication, matching_row, number};
use crate::analysis::results::Run;
use crate::analysis::section::Record;
use crate::words;

/// The section with points from counters.
const COUNTERS: &str = "roofline";
/// The section with points from shapes.
const SHAPES: &str = "op_costs";

/// A kernel or an op as a point.
#[derive(Debug)]
pub struct Point<'a> {
    /// The row of the section.
    pub row: &'a Record,
    /// The kernel; the longest one of an op.
    pub kernel: &'a str,
    /// The name and shape of an op; `None` for a point from counters.
    pub op: Option<String>,
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
    let (x, y) = match (number(row, "arithmetic_intensity"), number(row, "achieved_tflops")) {
        (Some(x), Some(y)) => (x, y),
        _ => (1e3 * number(row, "gflop")? / number(row, "mb")?, number(row, "tflops")?),
    };
    (x > 0.0 && y > 0.0 && x.is_finite()).then_some((x, y))
}

/// The section, and table, with the numbers of the points.
pub fn points_section(run: &Run) -> &'static str {
    let has_points = |name: &str| run.sections.get(name).is_some_and(|section| section.rows.iter().any(has_point));
    if !has_points(COUNTERS) && has_points(SHAPES) { SHAPES } else { COUNTERS }
}

fn has_point(row: &Record) -> bool {
    coordinates(row).is_some()
}

/// The points of a run with the ceilings of a preset, in the order of the rows.
pub fn points<'a>(
    run: &'a Run,
    baseline: Option<&'a Run>,
    preset: Option<&Preset>,
    communication: bool,
) -> Vec<Point<'a>> {
    let source = |run: &'a Run| run.sections.get(points_section(run));
    let Some(section) = source(run) else { return Vec::new() };
    let categories = Categories::of(run);
    let others = baseline.and_then(source);
    let point = |row: &'a Record| {
        let (flop_per_byte, tflops) = coordinates(row)?;
        let is_op = row.get("op").is_some();
        let kernel = row.text(if is_op { "kernel" } else { "kernel_name" });
        if !communication && is_communication(kernel) {
            return None;
        }
        // The ceiling of a preset is that of types with 16 bits.
        let has_ceiling = !is_op || matches!(row.text("dtype"), "BF16" | "FP16");
        let limit = preset.filter(|_| has_ceiling).map(|preset| {
            let is_memory_bound = flop_per_byte < preset.ridge_flop_per_byte();
            let limit = if is_memory_bound { Limit::Memory } else { Limit::Arithmetic };
            (limit, 100.0 * tflops / preset.roof_tflops(flop_per_byte))
        });
        let key: &[&str] = if is_op { &["op", "shape", "dtype"] } else { &["kernel_name"] };
        let baseline = matching_row(others, row, key).and_then(coordinates);
        let op = is_op.then(|| words::labels::op(row.text("op"), row.text("shape")));
        Some(Point { row, kernel, op, flop_per_byte, tflops, category: categories.get(kernel), limit, baseline })
    };
    section.rows.iter().filter_map(point).collect()
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
        let on_unknown_gpu = points(&ours, None, None, true);
        assert_eq!(on_unknown_gpu.iter().map(|point| point.limit).collect::<Vec<_>>(), [None, None]);
    }

    #[test]
    fn communication_can_be_switched_off() {
        let ours = run(&[("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 1.0, 1.0), ("gemm", 1.0, 1.0)]);
        assert_eq!((points(&ours, None, None, true).len(), points(&ours, None, None, false).len()), (2, 1));
        assert!(points(&testing::run_of(&[]), None, None, true).is_empty());
    }

    #[test]
    fn without_counters_ops_with_shapes_are_points() {
        let mut ours = run_of(&[]);
        let columns = ["op", "shape", "dtype", "kernel", "gflop", "mb", "tflops"];
        let row = |dtype: &str, gflop: Value| {
            ["aten::mm".into(), "8 x 2 x 4".into(), dtype.into(), "gemm".into(), gflop, 2.0.into(), 494.5.into()]
        };
        let rows = [row("BF16", 2.0.into()), row("FP8", 2.0.into()), row("BF16", Value::Null)];
        ours.sections.insert("op_costs".into(), section(columns, &rows));
        let h100 = presets().iter().find(|preset| preset.id == "h100-sxm5");
        let found = points(&ours, Some(&ours), h100, true);
        let shown = |point: &Point| (point.op.clone().unwrap(), point.flop_per_byte, point.limit, point.baseline);
        let name = "aten::mm 8 x 2 x 4".to_owned();
        let at = Some((1_000.0, 494.5));
        // The peak of FP8 is another one.
        let expected = [(name.clone(), 1_000.0, Some((Limit::Arithmetic, 50.0)), at), (name, 1_000.0, None, at)];
        assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), expected);
        let counters = run(&[("gemm", 1_000.0, 494.5)]);
        ours.sections.extend(counters.sections);
        let ops: Vec<_> = points(&ours, None, h100, true).into_iter().map(|point| point.op).collect();
        assert_eq!(ops, [None], "counters win");
    }
}
