//! The rates of each role of a layer: operations and bytes a second, and the share of the limit of the GPU. From the shapes of
//! the ops that launched its kernels, or else from the role, the dimensions of the model and the load of the steps. O(kernels of
//! the layers with shapes).
//!
//! A rate above the limit of the GPU proves a wrong assumption. Then the basis says so, and there is no rate; if it is that of a
//! product with weights, no role of the stage has a rate from the dimensions.

use super::counted_rates::CountedRates;
use super::division::Division;
use super::floor::{Load, Roof};
use super::model_config::ModelConfig;
use super::model_layers::LayerKind;
use super::op_work::Work;
use super::role_demand::{Demanded, ExpertRange, RoleDemand, RoleKernels, StepModel, is_product_of_layer};
use super::stage_layers::{Kind, RoleTime, StageLayers};
use crate::analysis::context::Context;
use crate::analysis::dashboard::Preset;
use crate::rules::inference::thresholds;
use crate::rules::names;
use crate::trace::Pct;
use crate::words::op_costs::{self as words, ExpertsRead, ImpossibleRole};

/// The role of the product with the weights of the LM head.
const LM_HEAD: &str = "lm_head";

/// The rates of a role.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) tflops: Option<f64>,
    pub(super) tb_per_s: Option<f64>,
    pub(super) of_peak_pct: Option<f64>,
    /// What they rest on, or why there are none; `None` for roles without a model of their work.
    pub(super) basis: Option<String>,
}

impl Rates {
    fn none(why: impl Into<String>) -> Self {
        Self { basis: Some(why.into()), ..Self::default() }
    }

    /// Puts the bytes by counters in the place of those by a model of the work.
    fn with_counters(self, counted: CountedRates) -> Self {
        // A cache between the L2 cache and the memory may answer, so that more than the memory delivers is no contradiction.
        let of_memory_pct = counted.of_memory_pct.filter(|share| *share <= 100.0).unwrap_or_default();
        Self {
            tflops: self.tflops,
            tb_per_s: counted.tb_per_s.or(self.tb_per_s),
            of_peak_pct: self.of_peak_pct.map(|share| share.max(of_memory_pct)),
            basis: Some(words::with_counters(self.basis.as_deref(), counted.bytes)),
        }
    }
}

/// The rates of the roles of one stage.
pub(super) struct StageRates<'a> {
    context: &'a Context<'a>,
    /// `None` without a config.
    model: Option<Result<Model<'a>, String>>,
}

/// The model that the steps of a stage run.
struct Model<'a> {
    step: StepModel<'a>,
    /// The kind of each layer of the step.
    layers: Vec<LayerKind>,
    roof: Roof,
    preset: &'static Preset,
    division: String,
}

impl<'a> StageRates<'a> {
    pub(super) fn of(context: &'a Context<'a>, stage: &StageLayers) -> Self {
        let config = context.model.and_then(|model| model.config.as_ref());
        let mut rates = Self { context, model: config.map(|config| Model::of(context, config, stage)) };
        if let Some(Ok(model)) = &rates.model
            && let Some(why) = rates.contradiction(stage, model)
        {
            rates.model = Some(Err(why));
        }
        rates
    }

    /// The words for a product with weights that would be faster than the GPU.
    fn contradiction(&self, stage: &StageLayers, model: &Model) -> Option<String> {
        let all = stage.kinds.iter().flat_map(|kind| kind.roles.iter().map(move |role| (Some(kind), role)));
        let all = all.chain(stage.outside.iter().map(|role| (None, role)));
        let mut products = all.filter(|(_, role)| is_product(role) && self.traced(role).is_none());
        products.find_map(|(kind, role)| {
            let demand = model.demand(self.context, stage, kind, role)?.ok()?;
            let share = model.share(&demand, role.median_us?)?;
            (share > 100.0).then(|| model.wrong(&role.role, share))
        })
    }

    /// The rates of a role in a kind of layer, or outside of the layers.
    pub(super) fn rates(&self, stage: &StageLayers, kind: Option<&Kind>, role: &RoleTime) -> Rates {
        let rates = self.modelled_rates(stage, kind, role);
        match CountedRates::of(self.context, role) {
            Some(counted) => rates.with_counters(counted),
            None => rates,
        }
    }

    fn modelled_rates(&self, stage: &StageLayers, kind: Option<&Kind>, role: &RoleTime) -> Rates {
        if let Some(work) = self.traced(role) {
            return of_work(&work);
        }
        match &self.model {
            None => Rates::default(),
            Some(Err(why)) if role.role == "attention" || is_product(role) => Rates::none(why),
            Some(Err(_)) => Rates::default(),
            Some(Ok(model)) => match model.demand(self.context, stage, kind, role) {
                None => Rates::default(),
                Some(Err(why)) => Rates::none(why),
                Some(Ok(demand)) => model.rates(&demand, role),
            },
        }
    }

    /// The work of the ops with shapes that launched the kernels of a role. `None` if that is not known of at least 90 % of their
    /// time, as in replays of graphs.
    fn traced(&self, role: &RoleTime) -> Option<Work> {
        let duration = |row: &u32| Some((*row, self.context.trace.gpu_ops.get(*row as usize)?.duration));
        self.context.op_work().work_of(&mut role.rows.iter().filter_map(duration))
    }
}

/// Whether a role is a product with weights.
fn is_product(role: &RoleTime) -> bool {
    role.role == LM_HEAD || is_product_of_layer(&role.role)
}

fn of_work(work: &Work) -> Rates {
    let of_peak_pct = work.of_peak().map(|(share, _)| share);
    let source = work.source.words();
    if let Some(share) = of_peak_pct.filter(|share| *share > 100.0) {
        return Rates::none(words::impossible_by_shapes(source, Pct(share)));
    }
    let basis = Some(words::role_by_shapes(source));
    Rates { tflops: work.tflops(), tb_per_s: work.tb_per_s(), of_peak_pct, basis }
}

impl<'a> Model<'a> {
    fn of(context: &Context, config: &'a ModelConfig, stage: &StageLayers) -> Result<Self, String> {
        let Some(served) = context.model else { return Err(String::new()) };
        let division = Division::of(context, served);
        let words = division.words.ok_or(Division::UNKNOWN)?;
        let preset = context.preset().ok_or("the figures of the GPU are not known")?;
        let layers = layers(config, division.parallel.pp, stage.forward)?;
        Ok(Self {
            step: StepModel { config, parallel: division.parallel, load: common_load(&stage.loads)? },
            layers,
            roof: Roof::of(preset, config.quantization.compute),
            preset,
            division: words,
        })
    }

    /// The work of a role; `None` for roles without a model of it.
    fn demand(&self, context: &Context, stage: &StageLayers, kind: Option<&Kind>, role: &RoleTime) -> Option<Demanded> {
        role.median_us.filter(|median| *median > 0.0)?;
        let Some(kind) = kind else { return (role.role == LM_HEAD).then(|| self.step.lm_head()) };
        let name = |row: &u32| {
            let op = context.trace.gpu_ops.get(*row as usize)?;
            Some(names::demangle(context.trace.names.get(op.name)).into_owned())
        };
        let names: Vec<String> = role.rows.iter().take(role.kernels).filter_map(name).collect();
        let has_experts_down = kind.roles.iter().any(|role| role.role == "experts_down");
        let kernels = RoleKernels { role: &role.role, names: &names, has_experts_down };
        let in_kind = stage.order.iter().zip(&self.layers).filter(|(number, _)| **number == kind.number);
        let mut demands = in_kind.map(|(_, layer)| self.step.demand(&kernels, *layer));
        let first = demands.next()??;
        let is_same = demands.all(|other| other.as_ref() == Some(&first));
        Some(if is_same { first } else { Err("the layers of this kind differ in the model") })
    }

    fn times_ns(&self, demand: &RoleDemand) -> (f64, [f64; 2]) {
        let tflops =
            if demand.is_narrow { self.roof.narrow_tflops.max(self.roof.half_tflops) } else { self.roof.half_tflops };
        let memory = demand.bytes.map(|bytes| self.roof.read_ms(bytes) * 1e6);
        // TFLOP/s are operations per picosecond.
        (demand.flop.unwrap_or(0.0) / tflops / 1e3, if demand.is_communication { [0.0; 2] } else { memory })
    }

    /// The least share of the nearer limit that the role reaches, in per cent.
    fn share(&self, demand: &RoleDemand, time_us: f64) -> Option<f64> {
        let (arithmetic, [least, _]) = self.times_ns(demand);
        (!demand.is_communication).then(|| arithmetic.max(least) / time_us / 10.0)
    }

    fn rates(&self, demand: &RoleDemand, role: &RoleTime) -> Rates {
        let Some(time_us) = role.median_us.filter(|median| *median > 0.0) else { return Rates::default() };
        let share = self.share(demand, time_us);
        if let Some(share) = share.filter(|share| *share > 100.0) {
            return Rates::none(self.wrong(&role.role, share));
        }
        let [least, most] = demand.bytes;
        // No more can be read in the time of the kernels.
        let readable = time_us * self.roof.memory_tb_per_s * 1e6;
        let most = if demand.is_communication { most } else { most.min(readable) };
        let is_known = most <= thresholds().work.max_known_bytes_ratio.value * least;
        let (arithmetic_ns, _) = self.times_ns(demand);
        let is_arithmetic = arithmetic_ns >= self.roof.read_ms(most) * 1e6;
        let experts = demand.experts.filter(|_| !demand.is_communication);
        let experts = experts.map(|range| experts_read(&range, [least, most]));
        Rates {
            tflops: demand.flop.map(|flop| flop / time_us / 1e6),
            tb_per_s: is_known.then(|| least / time_us / 1e6),
            of_peak_pct: share.filter(|_| is_known || is_arithmetic),
            basis: Some(words::role_by_config(demand.is_communication, experts)),
        }
    }

    /// The words for a role that would be faster than the GPU.
    fn wrong(&self, role: &str, share: f64) -> String {
        words::impossible_role(ImpossibleRole {
            role,
            of_limit: Pct(share),
            quantisation: &self.step.config.quantization.name,
            division: &self.division,
            gpu: &self.preset.title,
        })
    }
}

/// How many experts a role read at most in its time, in which it read at most the second number of bytes.
fn experts_read(range: &ExpertRange, [least, most]: [f64; 2]) -> ExpertsRead {
    let read = range.least + (most - least) / range.bytes_each;
    ExpertsRead {
        least: range.least,
        most: range.most.min(read.floor().max(range.least)),
        count: range.count,
        bytes_each: range.bytes_each,
    }
}

/// The kinds of the layers of a step, if the config has as many.
fn layers(config: &ModelConfig, pp: u64, count: usize) -> Result<Vec<LayerKind>, String> {
    let all = &config.layer_kinds;
    let stages = pp.max(1) as usize;
    let per_stage = all.len() / stages;
    let is_possible = count == per_stage || count == all.len().div_ceil(stages);
    if !is_possible {
        return Err(words::other_layers(count, per_stage));
    }
    if stages == 1 {
        return Ok(all.clone());
    }
    let first = all.first().filter(|first| all.iter().all(|layer| layer == *first));
    let first = first.ok_or("which layers of the model this GPU has is not known")?;
    Ok(vec![*first; count])
}

/// The mean load of the steps, if they are about equal.
fn common_load(loads: &[Load]) -> Result<Load, String> {
    let max_spread = thresholds().work.max_load_spread_share.value;
    let mean = |of: fn(&Load) -> Option<f64>| {
        let values: Vec<f64> = loads.iter().filter_map(of).collect();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let is_near = |value: &f64| (value - mean).abs() <= max_spread * mean;
        (!values.is_empty() && values.len() == loads.len()).then(|| values.iter().all(is_near).then_some(mean))
    };
    let differ = "the steps compute different numbers of tokens";
    let tokens = mean(|load| load.tokens).map(|mean| mean.ok_or(differ)).transpose()?;
    Ok(Load {
        tokens,
        sequences: mean(|load| load.sequences).flatten(),
        logit_tokens: mean(|load| load.logit_tokens).flatten(),
        context: mean(|load| load.context).flatten(),
        keys: mean(|load| load.keys).flatten(),
        pairs: mean(|load| load.pairs).flatten(),
    })
}

#[cfg(test)]
mod tests;
