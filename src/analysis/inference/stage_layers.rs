//! The layers of the forward passes of each stage, and the time of each role in them. From the kernel names of at most
//! [`MAX_FOLDED_OPS`] ops of a stage; O(ops).
//!
//! Times per layer are medians over all layers of a kind with the most frequent sequence of kernels. Totals are those of one
//! step, the one with the median length: head, layers, tail and the idle time between their ops add up to that step, to
//! the nanosecond.

use super::floor::Load;
use super::fold::Kinds;
use super::folded_pass::{FoldedPass, Place, Source};
use super::kernel_roles::{Direction, NameRole, NameRoles, roles_of_layer};
use super::passes::Passes;
use super::role_times::{OpTime, op_times};
use super::usual_order::usual_passes;
use crate::analysis::host::idle_cause::IdleTimes;
use crate::analysis::measure::percentiles::{median, of_sorted};
use crate::analysis::structure::stages::Stage;
use crate::ordering::{self, VecMap};
use crate::rules::inference::thresholds;
use crate::trace::{GpuOp, NameId, Ns, Trace};

/// The role of time in which no op of the step runs.
const IDLE: &str = "idle";
/// The number of ops of a stage that are folded, to limit time and memory.
const MAX_FOLDED_OPS: usize = 65_536;

/// The layers of all stages that fold. `idle` has the idle time of each device.
pub(crate) fn stage_layers(trace: &Trace, passes: &Passes, roles: &NameRoles, idle: &[IdleTimes]) -> Vec<StageLayers> {
    if passes.is_empty() {
        return Vec::new();
    }
    let unseen: Vec<Vec<(Ns, Ns)>> = idle.iter().map(|idle| idle.unseen.clone()).collect();
    let source = Source { trace, passes, roles, unseen: &unseen };
    passes.stages().filter_map(|stage| StageLayers::of(&source, stage)).collect()
}

/// The layers of one stage.
#[derive(Debug)]
pub(crate) struct StageLayers {
    pub(crate) stage: Stage,
    /// The number of steps with this sequence of layers.
    pub(crate) steps: usize,
    /// What each of them computes.
    pub(crate) loads: Vec<Load>,
    /// The kind of each layer, numbered by frequency.
    pub(crate) order: Vec<usize>,
    /// The number of layers of the forward pass, which come first: those of the model. The others are those of the backward pass.
    pub(crate) forward: usize,
    pub(crate) kinds: Vec<Kind>,
    /// Head, LM head, sampling, other parts of the tail, and their idle time.
    pub(crate) outside: Vec<RoleTime>,
    /// The share of the step that repeats.
    pub(crate) folded: f64,
}

/// One kind of layer of a stage.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) number: usize,
    pub(crate) count: usize,
    pub(crate) kernels: usize,
    /// Sums of kernel durations of all layers, sorted.
    pub(crate) durations_ns: Vec<i64>,
    pub(crate) equal_layers: usize,
    /// The number of each layer in the step, with the median of its duration over the steps.
    pub(crate) layers: Vec<(usize, f64)>,
    pub(crate) outliers: Vec<usize>,
    pub(crate) roles: Vec<RoleTime>,
}

/// The time of one role in a kind of layer.
#[derive(Debug)]
pub(crate) struct RoleTime {
    pub(crate) role: String,
    /// The place of its first kernel in the layer; `None` for idle time and for ops that most layers do not have.
    pub(crate) position: Option<usize>,
    pub(crate) kernels: usize,
    /// The time in one layer: the sum of the medians of the role's kernels. Of idle time: the median of the layers of the step of
    /// median length.
    pub(crate) median_us: Option<f64>,
    pub(crate) spread_pct: Option<f64>,
    /// In the step of median length.
    pub(crate) total: Ns,
    /// The rows of its ops in the trace: in all layers with the most frequent sequence of kernels, or outside of the layers.
    pub(crate) rows: Vec<u32>,
}

impl StageLayers {
    fn of(source: &Source, stage: Stage) -> Option<Self> {
        let mut kinds = Kinds::default();
        let mut folded: Vec<FoldedPass> = Vec::new();
        let (mut ops, mut tried) = (0, 0);
        for pass in source.passes.of_stage(stage) {
            let found = FoldedPass::of(source, pass, &mut kinds);
            ops += source.passes.rows(pass).len();
            if found.as_ref().is_some_and(|found| found.is_cut(source, pass)) {
                continue;
            }
            folded.extend(found);
            tried += 1;
            if ops >= MAX_FOLDED_OPS {
                break;
            }
        }
        let mut passes = usual_passes(folded, tried, &kinds);
        ordering::sort_by_key(&mut passes, |pass| pass.span);
        let median = passes.get(passes.len().saturating_sub(1) / 2)?;
        let folded = median.folded_share(source);
        if !median.explains_step(source) {
            return None;
        }
        let parts = Parts::of(source, median);
        let kind_count = median.order.iter().max()? + 1;
        let kinds = (0..kind_count).filter_map(|number| Kind::of(source, &passes, number, &parts)).collect();
        let outside = parts.outside();
        let loads = passes.iter().map(|pass| pass.load).collect();
        Some(Self {
            stage,
            steps: passes.len(),
            loads,
            order: median.order.clone(),
            forward: median.folded.forward(),
            kinds,
            outside,
            folded,
        })
    }

    /// Whether the step trains the model: its time is no time of a forward pass.
    pub(crate) fn is_training(&self) -> bool {
        self.forward < self.order.len()
    }

    pub(crate) fn span(&self) -> Ns {
        let inside = self.kinds.iter().flat_map(|kind| &kind.roles);
        inside.chain(&self.outside).fold(Ns::ZERO, |sum, role| sum + role.total)
    }

    fn sum_outside(&self, is_part: impl Fn(&str) -> bool) -> Ns {
        let parts = self.outside.iter().filter(|part| is_part(&part.role));
        parts.fold(Ns::ZERO, |sum, part| sum + part.total)
    }

    pub(crate) fn head(&self) -> Ns {
        self.sum_outside(|role| role.starts_with("head"))
    }

    /// Everything after the last layer.
    pub(crate) fn tail(&self) -> Ns {
        self.sum_outside(|role| !role.starts_with("head"))
    }

    pub(crate) fn median_of_outside(&self, role: &str) -> Option<f64> {
        self.outside.iter().find(|part| part.role == role).and_then(|part| part.median_us)
    }
}

/// The times of one pass by kind of layer and role. They add up to its span.
struct Parts {
    /// By kind and role.
    inside: VecMap<(usize, String), Ns>,
    /// Idle time by kind and number of the layer.
    idle_of_layers: VecMap<(usize, usize), Ns>,
    /// By role.
    outside: VecMap<String, OutsidePart>,
}

/// A part of a pass outside of its layers.
#[derive(Default)]
struct OutsidePart {
    total: Ns,
    longest: Ns,
    /// The rows of its ops in the trace.
    rows: Vec<u32>,
}

impl Parts {
    fn of(source: &Source, pass: &FoldedPass) -> Self {
        let mut parts = Self { inside: VecMap::new(), idle_of_layers: VecMap::new(), outside: VecMap::new() };
        let roles = pass.roles(source);
        let ops = pass.ops.iter().zip(op_times(&pass.ops, source.unseen_of(&pass.ops))).zip(&pass.rows);
        for (((op, row), place), role) in ops.map(|((op, time), row)| ((op, time), *row)).zip(pass.places()).zip(roles)
        {
            let (op, time) = op;
            match place {
                Place::Layer(number) => {
                    parts.add_inside((pass.order.get(number).copied().unwrap_or_default(), number), role, time)
                }
                Place::Head => parts.add_outside("head", "head_idle", (row, op), time),
                Place::Tail => parts.add_outside(tail_role(source.roles.get(op.name)), "tail_idle", (row, op), time),
            }
        }
        parts
    }

    fn add_inside(&mut self, (kind, number): (usize, usize), role: String, time: OpTime) {
        self.idle_of_layers.update((kind, number), Ns::ZERO, |sum| *sum += time.idle);
        self.inside.update((kind, role), Ns::ZERO, |sum| *sum += time.busy);
        self.inside.update((kind, IDLE.to_owned()), Ns::ZERO, |sum| *sum += time.idle);
    }

    fn add_outside(&mut self, role: &str, idle: &str, (row, op): (u32, &GpuOp), time: OpTime) {
        self.outside.update(role.to_owned(), OutsidePart::default(), |part| {
            part.total += time.busy;
            part.longest = part.longest.max(op.duration);
            part.rows.push(row);
        });
        self.outside.update(idle.to_owned(), OutsidePart::default(), |part| part.total += time.idle);
    }

    fn total(&self, kind: usize, role: &str) -> Ns {
        self.inside.get(&(kind, role.to_owned())).copied().unwrap_or_default()
    }

    /// The median idle time of the layers of a kind. One layer may idle much longer than the others.
    fn median_idle_us(&self, kind: usize) -> Option<f64> {
        let of_kind = self.idle_of_layers.iter().filter(|((other, _), _)| *other == kind);
        Some(median(&sorted(of_kind.map(|(_, idle)| idle.0)))? / 1e3)
    }

    fn outside(self) -> Vec<RoleTime> {
        let part = |(role, part): (String, OutsidePart)| RoleTime {
            position: None,
            kernels: part.rows.len(),
            median_us: (role == "lm_head").then_some(part.longest.0 as f64 / 1e3),
            spread_pct: None,
            total: part.total,
            rows: part.rows,
            role,
        };
        self.outside.into_vec().into_iter().map(part).collect()
    }
}

fn tail_role(role: NameRole) -> &'static str {
    match role {
        NameRole::Gemm => "lm_head",
        NameRole::Sampling => "sampling",
        _ => "tail",
    }
}

impl Kind {
    fn of(source: &Source, passes: &[FoldedPass], number: usize, parts: &Parts) -> Option<Self> {
        let mut durations_ns = Vec::new();
        let mut by_number: VecMap<usize, Vec<i64>> = VecMap::new();
        let mut sequences: VecMap<Vec<NameId>, Vec<LayerOps>> = VecMap::new();
        for pass in passes {
            for (index, layer) in pass.layers_of(number) {
                let duration = pass.duration(layer).0;
                durations_ns.push(duration);
                by_number.update(index, Vec::new(), |durations| durations.push(duration));
                let names = pass.layer(layer).map(|op| op.name).collect();
                let durations = pass.layer(layer).map(|op| op.duration.0).collect();
                let ops = LayerOps { durations, rows: pass.rows_of_layer(layer) };
                sequences.update(names, Vec::new(), |layers| layers.push(ops));
            }
        }
        durations_ns.sort_unstable();
        let layers = medians(by_number);
        let (names, equal) = sequences.into_vec().into_iter().max_by_key(|(_, layers)| layers.len())?;
        let raw: Vec<NameRole> = names.iter().map(|name| source.roles.get(*name)).collect();
        let direction = passes.first().map_or(Direction::Forward, |pass| pass.direction_of(number));
        Some(Self {
            number,
            count: layers.len(),
            kernels: names.len(),
            equal_layers: equal.len(),
            outliers: outliers(&layers, median(&durations_ns)?),
            layers,
            durations_ns,
            roles: role_times(&roles_of_layer(&raw, direction), &equal, number, parts),
        })
    }

    pub(crate) fn total(&self) -> Ns {
        self.roles.iter().fold(Ns::ZERO, |sum, role| sum + role.total)
    }
}

fn medians(by_number: VecMap<usize, Vec<i64>>) -> Vec<(usize, f64)> {
    let layer = |(number, durations): (usize, Vec<i64>)| Some((number, median(&sorted(durations.into_iter()))?));
    by_number.into_vec().into_iter().filter_map(layer).collect()
}

/// The numbers of the layers whose median over the steps differs much from the median of their kind.
fn outliers(layers: &[(usize, f64)], median_ns: f64) -> Vec<usize> {
    let max_difference = thresholds().layers.outlier_share.value * median_ns;
    let differs = |duration_ns: f64| (duration_ns - median_ns).abs() > max_difference;
    layers.iter().filter(|(_, duration_ns)| differs(*duration_ns)).map(|(number, _)| *number).collect()
}

/// The ops of one layer by position.
struct LayerOps {
    durations: Vec<i64>,
    /// The rows in the trace.
    rows: Vec<u32>,
}

/// The times of the roles of a kind, largest total first. `layers` are those with the most frequent sequence of kernels.
fn role_times(roles: &[String], layers: &[LayerOps], kind: usize, parts: &Parts) -> Vec<RoleTime> {
    let mut times: Vec<RoleTime> = Vec::new();
    let positions_of = |role: &String| (0..roles.len()).filter(|at| roles.get(*at) == Some(role)).collect::<Vec<_>>();
    let is_first = |(at, role): &(usize, &String)| roles.iter().position(|other| other == *role) == Some(*at);
    for (first, role) in roles.iter().enumerate().filter(is_first) {
        let positions = positions_of(role);
        let column = |at: &usize| sorted(layers.iter().filter_map(|layer| layer.durations.get(*at).copied()));
        let median_us = positions.iter().filter_map(|at| median(&column(at))).sum::<f64>() / 1e3;
        let sum = |layer: &LayerOps| positions.iter().filter_map(|at| layer.durations.get(*at)).sum::<i64>();
        let spread_pct = spread_pct(&sorted(layers.iter().map(sum)));
        let rows_of =
            |layer: &LayerOps| positions.iter().filter_map(|at| layer.rows.get(*at).copied()).collect::<Vec<_>>();
        times.push(RoleTime {
            role: role.clone(),
            position: Some(first),
            kernels: positions.len(),
            median_us: Some(median_us),
            spread_pct,
            total: parts.total(kind, role),
            rows: layers.iter().flat_map(rows_of).collect(),
        });
    }
    // Ops of other streams, and of layers with another sequence, may have other roles.
    let is_new = |role: &String| !times.iter().any(|time| time.role == *role);
    let is_other =
        |((other, role), total): &&((usize, String), Ns)| *other == kind && *total > Ns::ZERO && is_new(role);
    let others = parts.inside.iter().filter(is_other);
    let other = |((_, role), total): &((usize, String), Ns)| RoleTime {
        role: role.clone(),
        position: None,
        kernels: 0,
        median_us: if role == IDLE { parts.median_idle_us(kind) } else { None },
        spread_pct: None,
        total: *total,
        rows: Vec::new(),
    };
    let others: Vec<RoleTime> = others.map(other).collect();
    times.extend(others);
    ordering::sort_by_key(&mut times, |time| std::cmp::Reverse(time.total));
    times
}

fn sorted(values: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    values
}

fn spread_pct(sorted: &[i64]) -> Option<f64> {
    let middle = median(sorted).filter(|middle| *middle > 0.0)?;
    (sorted.len() > 1).then_some(())?;
    Some(100.0 * (of_sorted(sorted, 90)? - of_sorted(sorted, 10)?) / middle)
}
