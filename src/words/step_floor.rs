//! What the floor of a step rests on, and why there is none. From the inputs of the floor.

use crate::digits::grouped;
use crate::trace::Ms;

/// Neither the model nor its weights are known.
pub(crate) const NO_MODEL: &str = "The floor of a step needs the model: its config.json (--config, or opened on the page together with the \
     trace), or the weights that one GPU reads in a step (--weights-gb). The shapes of the products do not give them, because not all \
     products of a layer have shapes.";

/// Where the weights of a step come from.
#[derive(Debug, Clone)]
pub(crate) enum Weights<'a> {
    /// Inferred from shapes, in words.
    Traced(String),
    /// Gigabytes that the user gives.
    Given(f64),
    /// A model with this quantisation.
    OfModel(&'a str),
    Unknown,
}

/// The weights that shapes show. `source`: a clause about where the shapes come from.
pub(crate) fn traced_weights(layers: usize, has_lm_head: bool, source: &str) -> String {
    let lm_head = if has_lm_head { " and the LM head" } else { "" };
    format!("weights of {layers} layers{lm_head} inferred from shapes{source}")
}

/// The division of a model over GPUs: `TP 2, EP 1, PP 1, DP 1`. The arguments of a server do not tell the last.
pub(crate) fn division([tp, ep, pp, dp]: [u64; 4], is_by_server: bool) -> String {
    let last = if is_by_server { " by server_args.json".to_owned() } else { format!(", DP {dp}") };
    format!("TP {tp}, EP {ep}, PP {pp}{last}")
}

/// A step took less than its floor. `division`: over GPUs, in words.
pub(crate) fn contradiction(weights: &Weights, division: Option<&str>, gpu: &str, busy: Ms, floor: Ms) -> String {
    let head =
        format!("no floor: a step took {:.3} ms but would need {:.3} ms, so one of these is wrong", busy.0, floor.0);
    let weights = match weights {
        Weights::Traced(words) => return format!("{head}: {words}, the GPU ({gpu})"),
        Weights::Given(gb) => format!("{gb} GB of weights"),
        Weights::OfModel(quantisation) => format!("the model, its quantisation ({quantisation})"),
        Weights::Unknown => "the model".to_owned(),
    };
    let division = division.unwrap_or("one GPU assumed");
    format!("{head}: {weights}, the division over GPUs ({division}), the GPU ({gpu})")
}

/// The bits of the weights are not known.
pub(crate) fn unknown_bits(quantisation: &str) -> String {
    format!("The bits of the weights are not known from the quantisation `{quantisation}`: give --weights-gb.")
}

/// What the floor of a step rests on.
#[derive(Debug, Clone)]
pub(crate) struct Basis<'a> {
    pub(crate) weights: Weights<'a>,
    /// The division over GPUs in words, if the floor rests on it.
    pub(crate) division: Option<&'a str>,
    pub(crate) batch: Option<u64>,
    pub(crate) tokens: Option<f64>,
    pub(crate) context: ContextLength,
    pub(crate) roof: RoofOfGpu<'a>,
    /// What uniform routing would need, if that is more than was measured.
    pub(crate) uniform: Option<Ms>,
}

/// The length of the context, on which the KV cache depends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ContextLength {
    /// The model is not known.
    WeightsAlone,
    Unknown,
    Tokens(f64),
}

/// The limits of a GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoofOfGpu<'a> {
    pub(crate) is_about: bool,
    pub(crate) memory_tb_per_s: f64,
    pub(crate) half_tflops: f64,
    pub(crate) narrow_tflops: f64,
    pub(crate) title: &'a str,
}

/// `35.3 GB of weights a GPU as given; batch 1; ...`
pub(crate) fn basis(basis: &Basis) -> String {
    let count = |number: f64| grouped(number as u64);
    let weights = match &basis.weights {
        Weights::Traced(words) => words.clone(),
        Weights::Given(gb) => format!("{gb} GB of weights a GPU as given"),
        Weights::OfModel(quantisation) => format!("weights by config.json in {quantisation}"),
        Weights::Unknown => String::new(),
    };
    let context = match basis.context {
        ContextLength::WeightsAlone => "weights alone".to_owned(),
        ContextLength::Unknown => "KV cache not counted, because the length of the context is not known".to_owned(),
        ContextLength::Tokens(tokens) => format!("context of {} tokens", count(tokens)),
    };
    let parts = [
        Some(weights),
        basis.division.map(str::to_owned),
        basis.batch.map(|batch| format!("batch {}", grouped(batch))),
        basis.tokens.map(|tokens| format!("{} tokens", count(tokens))),
        Some(context),
        Some(roof(basis.roof)),
        basis
            .uniform
            .map(|uniform| format!("uniform routing would need {:.3} ms, so fewer experts were read", uniform.0)),
    ];
    parts.into_iter().flatten().collect::<Vec<String>>().join("; ")
}

fn roof(roof: RoofOfGpu) -> String {
    let RoofOfGpu { memory_tb_per_s, half_tflops, narrow_tflops, title, .. } = roof;
    let about = if roof.is_about { "about " } else { "" };
    let narrow =
        if narrow_tflops > half_tflops { format!(" ({narrow_tflops} for narrow weights)") } else { String::new() };
    format!("{about}{memory_tb_per_s} TB/s and {half_tflops} TFLOP/s{narrow} of {title}")
}
