//! The floor of the steps of each stage: the least time that the GPU needs for the step with the median busy time, next to
//! that time. From the measured steps, the model (config.json, the size of its weights, or the shapes of its products) and the
//! peaks of the GPU; no pass over the ops.
//!
//! If a step was faster than its floor, an assumption is wrong. Then the row says which could be, and has no floor.

use super::division::Division;
use super::floor::{Demand, Load, Roof};
use super::quantization::{Compute, HALF_BITS};
use super::served_model::ServedModel;
use super::stage_layers::StageLayers;
use super::traced_weights::TracedWeights;
use crate::analysis::context::Context;
use crate::analysis::dashboard::Preset;
use crate::analysis::section::{Answer, Ms, Pct, Sections, TypedSection, section};
use crate::analysis::structure::measured_steps::MeasuredStep;
use crate::analysis::structure::stages::{Form, Stage, StepInfo, representative};
use crate::analysis::structure::steps::{evidence, no_steps};
use crate::ordering;
use crate::words::step_floor as words;

section! {
    /// The least time for the step of each stage, next to the measured one.
    pub(crate) struct FloorOfSteps("step_floor", "Floor of the steps");
    row StepFloorRow {
        stage: Stage,
        floor_ms: Option<Ms>,
        floor_uniform_ms: Option<Ms> = "Floor, uniform routing",
        measured_ms: Ms,
        mbu_pct: Option<Pct> = "MBU",
        mbu_uniform_pct: Option<Pct> = "MBU, uniform routing",
        mfu_pct: Option<Pct> = "MFU",
        ms_per_token: Option<f64> = "Per token (ms)",
        bound_by: Option<String>,
        weights_gb: Option<f64> = "Weights read (GB)",
        kv_gb: Option<f64> = "KV cache read (GB)",
        basis: String = "Rests on",
        confidence: Option<String>,
    }
    figures StepFloorFigures {
        weights_in_all: f64 = "Weights of the model",
        kv_gb_per_1000_tokens: f64 = "KV cache of 1,000 tokens (GB)",
    }
}

impl StepFloorRow {
    /// The floor of the steps of a stage if it is not guessed, and no more than what a step takes: another one rests on a wrong
    /// assumption. Also its index among the rows.
    pub(crate) fn sure(sections: &Sections, stage: Stage, step_ms: f64) -> Option<(usize, Self, Ms)> {
        let rows = FloorOfSteps::rows(sections).into_iter().enumerate();
        let mut of_stage = rows.filter(|(_, row)| row.stage == stage && row.is_sure());
        let (index, row) = of_stage.next()?;
        let floor = row.floor_ms.filter(|Ms(floor)| *floor > 0.0 && *floor <= step_ms)?;
        Some((index, row, floor))
    }

    /// Whether the floor is not guessed.
    pub(crate) fn is_sure(&self) -> bool {
        matches!(self.confidence.as_deref(), Some("proven" | "inferred"))
    }
}

/// The stages whose work follows from the model. Draft steps run another model.
const STAGES: [Stage; 4] = [Stage::Prefill, Stage::Decode, Stage::Mixed, Stage::Verify];

/// One row per stage.
pub(crate) fn step_floor(context: &Context) -> Answer<FloorOfSteps> {
    if context.measured_steps().steps.is_empty() {
        return no_steps(context);
    }
    let nothing = ServedModel::default();
    let model = context.model.unwrap_or(&nothing);
    let traced = traced_weights(context);
    if model.config.is_none() && model.weights_gb.is_none() && traced.is_empty() {
        return FloorOfSteps::missing(words::NO_MODEL, "");
    }
    let Some(preset) = context.preset() else {
        let why =
            "The memory bandwidth is not known, because the trace names no known GPU, several kinds, or a part of one.";
        return FloorOfSteps::missing(why, "");
    };
    let source = "the measured steps, the model or the shapes of its products, and the data sheet of the GPU";
    let mut answer = FloorOfSteps::answer(source)
        .limit(
            "The row is about the step with the median busy time. The floor is the larger of two times: to read the weights and \
             the KV cache once at the full memory bandwidth, and to compute their products at the full rate. Activations, norms \
             and writes are not counted.",
        )
        .limit(
            "MBU and MFU are the parts of the measured busy time that reading and computing need at least. Of a mixture of \
             experts, the floor reads the experts of one token; the uniform one those of uniform independent routing. Real \
             routing is between the two.",
        )
        .limit("Steps of a draft model, without requests, or of unknown stage have a row only if all products of their layers have shapes.")
        .limit("Weights inferred from shapes are a lower bound: those of the products of all layers and of the LM head, without experts beyond those of one token. The KV cache is then not counted.");
    answer.figures = model.config.as_ref().map(|config| StepFloorFigures {
        weights_in_all: config.weights().total(),
        kv_gb_per_1000_tokens: config.kv_gb_per_1000_tokens(model.parallel.unwrap_or_default()),
    });
    let stages = Stages::of(context, model, preset, traced);
    answer.rows.extend(Stage::ALL.iter().filter_map(|stage| stages.row(*stage, &context.measured_steps().steps)));
    if answer.rows.is_empty() {
        let why = "What the steps compute is not known: none is marked as prefill, decode, mixed or verify.";
        return FloorOfSteps::missing(why, "");
    }
    answer
}

/// What all rows have in common.
struct Stages<'a> {
    model: &'a ServedModel,
    preset: &'a Preset,
    roof: Roof,
    division: Division,
    /// By stage, if all products of its layers have shapes.
    traced: Vec<(Stage, TracedWeights)>,
}

/// The weights of the layers of each stage whose products have shapes.
fn traced_weights(context: &Context) -> Vec<(Stage, TracedWeights)> {
    let of_stage = |stage: &StageLayers| Some((stage.stage, TracedWeights::of(context.op_work(), stage)?));
    // A training step reads the weights more than once, and much else.
    context.layers().iter().filter(|stage| !stage.is_training()).filter_map(of_stage).collect()
}

/// The work of one step, and the least times for it.
#[derive(Debug, Clone, Copy, Default)]
struct StepFloor {
    load: Load,
    weights_bytes: Option<f64>,
    kv_bytes: Option<f64>,
    read_ms: Option<f64>,
    uniform_read_ms: Option<f64>,
    compute_ms: Option<f64>,
    /// The source of the weights, if neither the config nor the user gives them.
    traced: Option<TracedWeights>,
}

impl StepFloor {
    fn least_ms(&self) -> Option<f64> {
        larger(self.read_ms, self.compute_ms)
    }

    fn uniform_ms(&self) -> Option<f64> {
        larger(self.uniform_read_ms, self.compute_ms)
    }
}

/// The larger of the time to read and the time to compute, if that is known.
fn larger(read_ms: Option<f64>, compute_ms: Option<f64>) -> Option<f64> {
    read_ms.map(|read| compute_ms.map_or(read, |compute| compute.max(read)))
}

impl<'a> Stages<'a> {
    fn of(context: &Context, model: &'a ServedModel, preset: &'a Preset, traced: Vec<(Stage, TracedWeights)>) -> Self {
        let compute = model.config.as_ref().map_or(Compute::Half, |config| config.quantization.compute);
        Self { model, preset, roof: Roof::of(preset, compute), division: Division::of(context, model), traced }
    }

    /// The row of a stage; `None` without steps.
    fn row(&self, stage: Stage, steps: &[MeasuredStep]) -> Option<StepFloorRow> {
        let is_of_stage = |step: &&MeasuredStep| step.step.info.stage == stage && step.step.device.is_some();
        let of_stage: Vec<MeasuredStep> = steps.iter().filter(is_of_stage).copied().collect();
        let mut counted: Vec<&MeasuredStep> = representative(&of_stage, |step| step.reaches_next).collect();
        ordering::sort_by_key(&mut counted, |step| step.busy);
        let median = counted.get(counted.len().checked_sub(1)? / 2)?;
        let info = &median.step.info;
        let measured_ms = median.busy.0 as f64 / 1e6;
        let is_single = counted.len() == 1;
        let floor = self.floor(info, is_single);
        let is_modelled = STAGES.contains(&stage) || floor.traced.is_some();
        if !is_modelled {
            return None;
        }
        let too_fast = counted.iter().find_map(|step| {
            let floor = self.floor(&step.step.info, is_single);
            let (floor_ms, busy_ms) = (floor.least_ms()?, step.busy.0 as f64 / 1e6);
            (floor_ms > busy_ms).then_some((floor_ms, busy_ms))
        });
        let tokens = floor.load.tokens.filter(|tokens| *tokens > 0.0);
        let without_floor = |basis| StepFloorRow {
            stage,
            measured_ms: Ms(measured_ms),
            ms_per_token: tokens.map(|tokens| measured_ms / tokens),
            basis,
            ..StepFloorRow::default()
        };
        if let Some((floor_ms, busy_ms)) = too_fast {
            return Some(without_floor(self.contradiction(&floor, floor_ms, busy_ms)));
        }
        if floor.read_ms.is_none() {
            return Some(without_floor(self.why_unknown()));
        }
        let share = |ms: Option<f64>| ms.filter(|_| measured_ms > 0.0).map(|ms| Pct(100.0 * ms / measured_ms));
        // Faster than uniform routing allows: routing is not uniform.
        let uniform_ms = floor.uniform_ms().filter(|uniform| *uniform <= measured_ms);
        let is_compute_bound = floor.compute_ms > floor.read_ms;
        Some(StepFloorRow {
            floor_ms: floor.least_ms().map(Ms),
            floor_uniform_ms: uniform_ms.map(Ms),
            mbu_pct: share(floor.read_ms),
            mbu_uniform_pct: share(floor.uniform_read_ms.filter(|_| uniform_ms.is_some())),
            mfu_pct: share(floor.compute_ms),
            bound_by: Some(if is_compute_bound { "arithmetic" } else { "memory bandwidth" }.to_owned()),
            weights_gb: floor.weights_bytes.map(|bytes| bytes / 1e9),
            kv_gb: floor.kv_bytes.map(|bytes| bytes / 1e9),
            confidence: Some(self.confidence(info.form, &floor).to_owned()),
            ..without_floor(self.basis(info, &floor, measured_ms))
        })
    }

    /// `is_single` says that the stage has one step, which then has the products with shapes.
    fn floor(&self, info: &StepInfo, is_single: bool) -> StepFloor {
        let load = Load::of(info);
        let is_modelled = STAGES.contains(&info.stage);
        let given = self.model.weights_gb.filter(|_| is_modelled).map(|gb| gb * 1e9);
        let known = self.model.config.as_ref().filter(|_| is_modelled && self.division.words.is_some());
        let demand = known.map(|config| Demand::of(config, load, self.division.parallel)).unwrap_or_default();
        let read_ms = |weights: Option<f64>| Some(self.roof.read_ms(weights? + demand.kv.unwrap_or(0.0)));
        let of_model = given.or(demand.least_weights);
        if let (None, Some((_, traced))) = (of_model, self.traced.iter().find(|(stage, _)| *stage == info.stage)) {
            return StepFloor {
                load,
                weights_bytes: Some(traced.bytes()),
                read_ms: Some(self.roof.read_ms(traced.bytes())),
                compute_ms: traced.arithmetic_ms.filter(|_| is_single),
                traced: Some(*traced),
                ..StepFloor::default()
            };
        }
        let kv_bits = known.map_or(HALF_BITS, |config| config.quantization.kv_bits);
        StepFloor {
            load,
            weights_bytes: of_model,
            kv_bytes: demand.kv,
            read_ms: read_ms(of_model),
            uniform_read_ms: read_ms(given.or(demand.uniform_weights)),
            compute_ms: self.roof.compute_ms(&demand, kv_bits),
            traced: None,
        }
    }

    /// The words for a floor above the measured time.
    fn contradiction(&self, floor: &StepFloor, floor_ms: f64, busy_ms: f64) -> String {
        let division = self.division.words.as_deref();
        words::contradiction(&self.weights(floor), division, &self.preset.title, Ms(busy_ms), Ms(floor_ms))
    }

    fn weights(&self, floor: &StepFloor) -> words::Weights<'_> {
        match (&floor.traced, self.model.weights_gb, &self.model.config) {
            (Some(traced), ..) => words::Weights::Traced(traced.words()),
            (None, Some(gb), _) => words::Weights::Given(gb),
            (None, None, Some(config)) => words::Weights::OfModel(&config.quantization.name),
            (None, None, None) => words::Weights::Unknown,
        }
    }

    fn why_unknown(&self) -> String {
        match (&self.division.words, &self.model.config) {
            (None, _) => Division::UNKNOWN.to_owned(),
            (_, Some(config)) => words::unknown_bits(&config.quantization.name),
            (_, None) => words::NO_MODEL.to_owned(),
        }
    }

    /// What the floor of a step rests on.
    fn basis(&self, info: &StepInfo, floor: &StepFloor, measured_ms: f64) -> String {
        let has_config = self.model.config.is_some() && floor.traced.is_none();
        let division = self.division.words.as_deref();
        let Roof { memory_tb_per_s, half_tflops, narrow_tflops } = self.roof;
        words::basis(&words::Basis {
            weights: self.weights(floor),
            division: division.filter(|_| has_config && self.model.weights_gb.is_none()),
            batch: info.batch_size,
            tokens: floor.load.tokens,
            context: match floor.load.context {
                _ if !has_config => words::ContextLength::WeightsAlone,
                None => words::ContextLength::Unknown,
                Some(tokens) => words::ContextLength::Tokens(tokens),
            },
            roof: words::RoofOfGpu {
                is_about: self.preset.is_about,
                memory_tb_per_s,
                half_tflops,
                narrow_tflops,
                title: &self.preset.title,
            },
            uniform: floor.uniform_ms().filter(|uniform| *uniform > measured_ms).map(Ms),
        })
    }

    /// Proven if no input is assumed.
    fn confidence(&self, form: Form, floor: &StepFloor) -> &'static str {
        let [_, steps] = evidence(form);
        let is_whole = self.model.weights_gb.is_none()
            && floor.traced.is_none()
            && floor.load.tokens.is_some()
            && floor.kv_bytes.is_some();
        if is_whole && self.division.is_certain && !self.preset.is_about { steps } else { "inferred" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Options;
    use crate::analysis::inference::model_config::ModelConfig;
    use crate::analysis::section::{Fields, Section};
    use crate::analysis::testing::{read_json, torch};
    use crate::rules::RuleBook;
    use crate::trace::Trace;
    use crate::trace::testing::TestTrace;

    fn section(trace: &Trace, model: ServedModel) -> Section {
        let options = Options { model, ..Options::default() };
        let rules = RuleBook::gpuprism_default().unwrap();
        crate::analysis::analyze(trace, rules, &options).sections.remove("step_floor").unwrap()
    }

    fn with_config(text: &str) -> ServedModel {
        ServedModel { config: Some(ModelConfig::parse("config.json", text).unwrap()), ..ServedModel::default() }
    }

    /// Floors and MBU of an independent program on the same traces.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn floors_of_shared_traces_match_an_independent_program() {
        let oracle = read_json("oracles/inference/floor.json");
        let cases = oracle["cases"].as_array().unwrap().iter().filter(|case| case["trace"].is_string());
        for case in cases {
            let trace = torch(&format!("{}.trace.json.gz", case["trace"].as_str().unwrap()));
            let mut config = oracle["models"][case["model"].as_str().unwrap()]["config"].clone();
            if case["options"]["expert_bits"] == 4.25 {
                config["quantization_config"] = serde_json::json!({"quant_method": "mxfp4"});
            }
            let section = section(&trace, with_config(&config.to_string()));
            let [row] = &section.rows[..] else { panic!("{section:?}") };
            let (least, uniform) = (&case["floor"]["least"], &case["floor"]["uniform"]);
            for (column, theirs) in [
                ("floor_ms", least["bytes_ms"].as_f64().unwrap()),
                ("floor_uniform_ms", uniform["bytes_ms"].as_f64().unwrap()),
                ("measured_ms", case["busy_ms"].as_f64().unwrap()),
                ("mbu_pct", 100.0 * least["mbu_of_busy"].as_f64().unwrap()),
                ("mbu_uniform_pct", 100.0 * uniform["mbu_of_busy"].as_f64().unwrap()),
                ("weights_gb", least["weights_gb"].as_f64().unwrap()),
                ("kv_gb", least["kv_gb"].as_f64().unwrap()),
            ] {
                // The shares are rounded to four digits.
                let ours = row.number(column).unwrap();
                assert!((ours - theirs).abs() <= 0.001 * theirs + 0.005, "{column}: {ours} is not {theirs} in {case}");
            }
        }
    }

    /// One decode step of `busy_us` on a GPU with 3.35 TB/s.
    fn decode(name: &str, busy_us: i64) -> Trace {
        let mut trace = TestTrace::new();
        trace.in_us().named_device(0, "NVIDIA H100 80GB HBM3");
        trace.range(name, 0..50).launch(1..2).launches("k", 100..100 + busy_us).finish()
    }

    fn row(section: &Section) -> StepFloorRow {
        StepFloorRow::read(section.rows.first().unwrap_or_else(|| panic!("{section:?}")))
    }

    /// 4 layers of 256 experts with 3 x 1,024 x 1,024 weights, of which a token uses one: 6.3 MB an expert, 1.6 GB a layer.
    const MOE: &str = r#"{"hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8, "vocab_size": 1000,
        "num_experts": 256, "num_experts_per_tok": 1, "moe_intermediate_size": 1024}"#;

    #[test]
    fn routing_that_is_not_uniform_has_no_uniform_floor() {
        let slow = row(&section(&decode("step[DECODE bs=64]", 2_000), with_config(MOE)));
        let uniform = slow.floor_uniform_ms.unwrap().0;
        // 64 tokens use 57 of 256 experts of a layer.
        assert!((0.42..0.45).contains(&uniform), "{uniform}");
        assert_eq!(slow.kv_gb, None);
        assert!(slow.basis.contains("KV cache not counted"), "{slow:?}");
        let fast = row(&section(&decode("step[DECODE bs=64]", 300), with_config(MOE)));
        assert_eq!((fast.floor_uniform_ms, fast.mbu_uniform_pct), (None, None));
        assert!(fast.floor_ms.is_some());
        assert!(fast.basis.contains("so fewer experts were read"), "{fast:?}");
    }

    #[test]
    fn an_unknown_quantisation_asks_for_the_size_of_the_weights() {
        let text = MOE.replacen('{', r#"{"quantization_config": {"quant_method": "tomorrow"}, "#, 1);
        let unknown = row(&section(&decode("step[DECODE bs=1]", 2_000), with_config(&text)));
        assert_eq!(unknown.floor_ms, None);
        assert!(unknown.basis.ends_with("give --weights-gb."), "{unknown:?}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let why = |trace: &Trace, model: ServedModel| section(trace, model).missing.unwrap().why;
        let weights = || ServedModel { weights_gb: Some(1.0), ..ServedModel::default() };
        let decode = decode("step[DECODE bs=1]", 2_000);
        assert!(why(&decode, ServedModel::default()).contains("--config"));
        let unnamed = TestTrace::new().range("step[DECODE bs=1]", 0..50).launch(1..2).launches("k", 60..90).finish();
        assert!(why(&unnamed, weights()).contains("bandwidth is not known"));
        assert!(why(&self::decode("step[IDLE bs=0]", 9), weights()).contains("What the steps compute is not known"));
        assert!(why(&TestTrace::new().kernel("k", 0..1).finish(), weights()).contains("no"));
    }

    /// 36 layers of 4,096 x 6,144 + 4,096^2 + 4,096 x 24,576 + 12,288 x 4,096 weights and an LM head of 4,096 x 151,936, of 15,360
    /// and 15 tokens: 15.136 GB and 213,392.6 GFLOP at 1,307 TFLOP/s.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn shapes_of_all_products_give_the_floor_of_the_weights_without_a_config() {
        let trace = torch("sglang_qwen3_8b_mi300_extend.trace.json.gz");
        let section = section(&trace, ServedModel::default());
        assert_eq!(section.rows.len(), 1);
        let row = row(&section);
        assert_eq!((row.stage, row.confidence.as_deref()), (Stage::Prefill, Some("inferred")));
        let basis = &row.basis;
        assert!(basis.starts_with("weights of 36 layers and the LM head inferred from shapes; batch 15"), "{basis}");
        assert!(basis.contains("weights alone"), "{basis}");
        assert!((row.weights_gb.unwrap() - 15.136_2).abs() < 1e-4, "{row:?}");
        let floor_ms = 213_392.6 / 1_307.0;
        assert!((row.floor_ms.unwrap().0 - floor_ms).abs() < 0.001 * floor_ms, "{row:?}");
        let mbu_pct = 100.0 * 15.136_2 / 5.3 / row.measured_ms.0;
        assert!((row.mbu_pct.unwrap().0 - mbu_pct).abs() < 0.001, "{row:?}");
        assert_eq!((row.kv_gb, row.floor_uniform_ms), (None, None));
    }

    /// 24 layers of 4 x 1,024^2 + 3 x 1,024 x 2,816 weights, 16 x 559 tokens, on an H100.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn a_step_of_unknown_stage_has_a_floor_if_its_products_have_shapes() {
        let trace = torch("hf_qwen1.5_0.5b_h100.trace.json.gz");
        let section = section(&trace, ServedModel::default());
        assert_eq!(section.rows.len(), 1);
        let row = row(&section);
        let weights = 24.0 * (4.0 * 1_024.0 * 1_024.0 + 3.0 * 1_024.0 * 2_816.0);
        assert_eq!((row.stage, row.weights_gb), (Stage::All, Some(2.0 * weights / 1e9)));
        let floor_ms = 2.0 * weights * 8_944.0 / 989e9;
        assert!((row.floor_ms.unwrap().0 - floor_ms).abs() < 1e-6, "{row:?}");
        assert!(row.basis.starts_with("weights of 24 layers inferred from shapes"), "{row:?}");
    }

    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn products_without_shapes_give_no_floor() {
        for name in ["vllm_b200_eager_prefill", "sglang_qwen3_8b_mi300_decode", "vllm_mi300_piecewise_graph"] {
            let trace = torch(&format!("{name}.trace.json.gz"));
            let why = section(&trace, ServedModel::default()).missing.unwrap().why;
            assert!(why.contains("not all products of a layer have shapes"), "{name}: {why}");
        }
    }
}
