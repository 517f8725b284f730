//! Kernels that are known to be able to take less time on this GPU, as changes to replay: those of the tests of
//! `patterns/unsuited_kernels.json` whose saving is known, and those of ops whose rate is far from the roof of the GPU.
//! O(names + groups of ops + kernels of ops with shapes).
//!
//! The roof of an op is the time that its operations need at the peak of the GPU for their type, or its bytes at the bandwidth of the
//! memory, whichever is longer. The saving is stated for an efficiency that real kernels reach, and a kernel has a least time, so that
//! small ones are not called slow (`patterns/signals.json`).

use super::cause::Cause;
use crate::analysis::context::Context;
use crate::analysis::inference::op_work::{Execution, OpWork, shapes};
use crate::analysis::inference::unsuited_kernels::hits;
use crate::ordering::{self, VecMap};
use crate::trace::{Fraction, MeanNs, NameId, OpKind, Pct};
use crate::words::replay as words;
use std::borrow::Cow;

/// The maximum number of ops that are replayed at a better rate.
const MAX_OPS: usize = 3;

/// Kernels that can be faster.
#[derive(Debug)]
pub(super) struct FasterKernels {
    pub(super) cause: Cause,
    pub(super) change: &'static str,
    /// The problem that they have, or the op that launches them.
    pub(super) subject: String,
    /// By name of an op: the part of its time that remains.
    pub(super) remains: Vec<f64>,
    pub(super) basis: Cow<'static, str>,
}

/// One for each problem whose saving is known, and for the ops that are farthest from their roof.
pub(super) fn faster_kernels(context: &Context) -> Vec<FasterKernels> {
    let mut all = unsuited(context);
    all.extend(far_from_roof(context));
    all
}

fn unsuited(context: &Context) -> Vec<FasterKernels> {
    let mut found: VecMap<&str, FasterKernels> = VecMap::new();
    for hit in hits(context) {
        let Some(saved) = hit.test.saved_share.filter(|saved| (0.0..1.0).contains(saved)) else { continue };
        let basis = hit.test.basis.as_deref().unwrap_or("the least part of their time that other kernels save");
        let none = FasterKernels {
            cause: Cause::Unsuited,
            change: "kernels that fit the GPU",
            subject: hit.test.problem.clone(),
            remains: vec![1.0; context.trace.names.len()],
            basis: Cow::Borrowed(basis),
        };
        found.update(hit.test.problem.as_str(), none, |kernels| {
            for (remains, name) in kernels.remains.iter_mut().zip((0..).map(NameId)) {
                *remains = if hit.contains(name) { 1.0 - saved } else { *remains };
            }
        });
    }
    found.into_vec().into_iter().map(|(_, kernels)| kernels).collect()
}

/// What the kernels of one op take, in nanoseconds.
#[derive(Debug, Clone, Default)]
struct OfOp {
    time: f64,
    roof: f64,
    /// The time above the stated efficiency.
    saved: f64,
    saved_by_name: VecMap<NameId, f64>,
    /// The part of the roof that is the arithmetic peak.
    arithmetic: f64,
}

fn far_from_roof(context: &Context) -> Vec<FasterKernels> {
    let work = context.op_work();
    let Some(preset) = work.limits() else { return Vec::new() };
    let shapes = shapes(context.trace);
    let mut ops: VecMap<&str, OfOp> = VecMap::new();
    for (row, execution) in work.owned() {
        let op = shapes.get(execution.shape as usize).map(|shape| shape.op.as_str());
        let (Some(op), Some(kernel)) = (op, context.trace.gpu_ops.get(row as usize)) else { continue };
        let Some(rate) = Rate::of(context, work, execution) else { continue };
        let time = kernel.duration.0 as f64;
        ops.update(op, OfOp::default(), |sums| {
            sums.time += time;
            sums.roof += time * rate.roof;
            sums.saved += time * rate.saved;
            sums.arithmetic += if rate.is_arithmetic { time * rate.roof } else { 0.0 };
            sums.saved_by_name.update(kernel.name, 0.0, |saved| *saved += time * rate.saved);
        });
    }
    let mut ops: Vec<(&str, OfOp)> = ops.into_vec().into_iter().filter(|(_, sums)| sums.saved > 0.0).collect();
    ordering::sort_by(&mut ops, |(_, a), (_, b)| b.saved.total_cmp(&a.saved));
    ops.truncate(MAX_OPS);
    let times = times_by_name(context);
    let remains = |sums: &OfOp| {
        let mut remains = vec![1.0; times.len()];
        for (name, saved) in sums.saved_by_name.iter() {
            let time = times.get(name.0 as usize).copied().unwrap_or_default();
            let of_name = remains.get_mut(name.0 as usize).filter(|_| time > 0.0);
            of_name.into_iter().for_each(|remains| *remains = (1.0 - saved / time).max(0.0));
        }
        remains
    };
    let usual = Fraction(context.signals.thresholds.roof_efficiency);
    let faster = |(op, sums): (&str, OfOp)| FasterKernels {
        cause: Cause::Roof,
        change: "at a usual rate of the GPU",
        subject: op.to_owned(),
        remains: remains(&sums),
        basis: Cow::Owned(words::far_from_roof(words::FarFromRoof {
            time: MeanNs(sums.time),
            reached: Pct(100.0 * sums.roof / sums.time),
            is_arithmetic: 2.0 * sums.arithmetic >= sums.roof,
            gpu: &preset.title,
            usual,
        })),
    };
    ops.into_iter().map(faster).collect()
}

/// How fast an op ran, as parts of its time.
struct Rate {
    /// The roof.
    roof: f64,
    /// What is above the stated efficiency and the least time of its kernels.
    saved: f64,
    is_arithmetic: bool,
}

impl Rate {
    /// `None` if its work or the peak for its type is not known.
    fn of(context: &Context, work: &OpWork, execution: &Execution) -> Option<Self> {
        let cost = work.cost(execution.cost).filter(|cost| cost.unknown.is_none())?;
        let time = execution.time.0 as f64;
        let (of_peak_pct, is_arithmetic) = work.work(cost, time).of_peak()?;
        let thresholds = &context.signals.thresholds;
        let least = f64::from(execution.kernels) * thresholds.least_kernel_us * 1e3 / time;
        let roof = of_peak_pct / 100.0;
        let usual = (roof / thresholds.roof_efficiency).max(least);
        Some(Self { roof, saved: (1.0 - usual).max(0.0), is_arithmetic })
    }
}

/// By name, the time of all kernels with a launch. Others were launched before the trace, so no op is known for them, and they are
/// in no step.
fn times_by_name(context: &Context) -> Vec<f64> {
    let mut times = vec![0.0; context.trace.names.len()];
    let ops = context.trace.gpu_ops.iter().zip(context.trace.gpu_ops.launches());
    for (op, _) in ops.filter(|(op, launch)| op.kind == OpKind::Kernel && launch.is_some()) {
        times.get_mut(op.name.0 as usize).into_iter().for_each(|time| *time += op.duration.0 as f64);
    }
    times
}
