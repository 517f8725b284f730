//! How many layers of a model attend to all tokens, to a window or to a state of constant size, and how many have a mixture of
//! experts. From its config.json; linear in the number of layers.

use super::config_fields::{Fields, Read};
use crate::json::Json;
use crate::words::model_config::Unusable;

/// No model has more layers; the limit keeps a hostile config from costing time.
const MAX_LAYERS: f64 = 10_000.0;

/// The number of layers of each kind, as whole numbers. Full, sliding and linear layers are all layers, as are those with
/// experts and the dense ones.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Layers {
    /// Layers that attend to all tokens.
    pub(crate) full: f64,
    /// Layers that attend to the last `window` tokens.
    pub(crate) sliding: f64,
    /// Layers of linear attention, without a KV cache.
    pub(crate) linear: f64,
    /// The number of tokens to which sliding layers attend.
    pub(crate) window: f64,
    /// Layers with a mixture of experts.
    pub(crate) moe: f64,
    /// Layers without one.
    pub(crate) dense: f64,
}

impl Layers {
    fn of(list: &[LayerKind], window: f64) -> Self {
        let count = |is: &dyn Fn(&&LayerKind) -> bool| list.iter().filter(is).count() as f64;
        Self {
            full: count(&|layer| layer.reach == Reach::Full),
            sliding: count(&|layer| layer.reach == Reach::Sliding),
            linear: count(&|layer| layer.reach == Reach::Linear),
            window,
            moe: count(&|layer| layer.has_experts),
            dense: count(&|layer| !layer.has_experts),
        }
    }

    pub(crate) fn all(&self) -> f64 {
        self.moe + self.dense
    }
}

/// The tokens to which a layer attends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All tokens.
    Full,
    /// The last tokens, as many as the window has.
    Sliding,
    /// A state of constant size.
    Linear,
}

/// One layer of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LayerKind {
    pub(crate) reach: Reach,
    /// Whether it has a mixture of experts.
    pub(crate) has_experts: bool,
}

/// The layers of a config in order, and their numbers.
pub(super) fn layers(fields: &Fields, has_experts: bool) -> Read<(Vec<LayerKind>, Layers)> {
    let count = fields.required(&["num_hidden_layers"])?;
    if count > MAX_LAYERS {
        return Err(Unusable::TooManyLayers);
    }
    let kinds = Kinds::of(fields, count as usize)?;
    let is_moe = if has_experts { Some(MoeLayers::of(fields)?) } else { None };
    let layer = |index: usize| LayerKind {
        reach: kinds.of_layer(index),
        has_experts: is_moe.as_ref().is_some_and(|layers| layers.contains(index)),
    };
    let list: Vec<LayerKind> = (0..count as usize).map(layer).collect();
    let layers = Layers::of(&list, kinds.window);
    Ok((list, layers))
}

/// The attention of each layer.
struct Kinds {
    /// By layer, if the config lists them.
    listed: Vec<Reach>,
    /// Every how many layers one attends to all tokens; zero if none does, one if all do.
    full_interval: usize,
    /// Layers before this one attend to all tokens.
    first_other: usize,
    /// The kind of the other layers.
    other: Reach,
    window: f64,
}

impl Kinds {
    fn of(fields: &Fields, count: usize) -> Read<Self> {
        let window = Self::window(fields)?;
        let all_full = Self { listed: Vec::new(), full_interval: 1, first_other: 0, other: Reach::Sliding, window };
        if let Some(types) = fields.get("layer_types") {
            let listed = types.elements().map(|kind| Self::listed(kind, window)).collect::<Read<Vec<Reach>>>()?;
            if listed.len() != count {
                return Err(Unusable::UnlistedLayers);
            }
            return Ok(Self { listed, ..all_full });
        }
        if let Some(interval) = fields.count(&["full_attention_interval"])?.filter(|interval| *interval > 0.0) {
            return Ok(Self { full_interval: interval as usize, other: Reach::Linear, ..all_full });
        }
        if window == 0.0 {
            return Ok(all_full);
        }
        // `index_topk`: sparse attention reads the chosen tokens only, in every layer.
        let interval = fields.count(&["sliding_window_pattern"])?.unwrap_or(0.0) as usize;
        let first_other = fields.count(&["max_window_layers"])?.filter(|_| fields.is_true("use_sliding_window"));
        Ok(Self { full_interval: interval, first_other: first_other.unwrap_or(0.0) as usize, ..all_full })
    }

    /// The number of tokens of the window; zero without a window.
    fn window(fields: &Fields) -> Read<f64> {
        let is_off = fields.get("use_sliding_window") == Some(Json::Bool(false));
        let keys = ["index_topk", "sliding_window", "attention_chunk_size"];
        let keys = if is_off { &keys[..1] } else { &keys[..] };
        Ok(fields.count(keys)?.unwrap_or(0.0))
    }

    fn listed(kind: Json<'_>, window: f64) -> Read<Reach> {
        match kind.text().as_deref() {
            Some("full_attention") => Ok(Reach::Full),
            Some("linear_attention") => Ok(Reach::Linear),
            Some("sliding_attention" | "chunked_attention") => {
                Ok(if window > 0.0 { Reach::Sliding } else { Reach::Full })
            }
            _ => Err(Unusable::UnknownLayers),
        }
    }

    fn of_layer(&self, index: usize) -> Reach {
        if let Some(kind) = self.listed.get(index) {
            return *kind;
        }
        let is_full = index < self.first_other || (index + 1).checked_rem(self.full_interval) == Some(0);
        if is_full { Reach::Full } else { self.other }
    }
}

/// Which layers have a mixture of experts.
struct MoeLayers {
    first: usize,
    /// Every how many layers one has experts, and the number of the first of them.
    interval: usize,
    offset: usize,
    /// Layers without experts.
    dense: Vec<usize>,
    /// By layer, if the config lists them.
    listed: Option<Vec<bool>>,
}

impl MoeLayers {
    fn of(fields: &Fields) -> Read<Self> {
        let count = |keys: &[&'static str]| Ok::<_, Unusable>(fields.count(keys)?.map(|number| number as usize));
        let listed = match fields.get("moe_layer_freq") {
            Some(flags @ Json::Array(_)) => Some(flags.elements().map(|flag| flag.number() == Some(1.0)).collect()),
            _ => None,
        };
        let by_index = if listed.is_some() { None } else { count(&["moe_layer_freq"])? };
        let by_number = count(&["decoder_sparse_step", "interleave_moe_layer_step"])?;
        let dense = fields.get("mlp_only_layers").into_iter().flat_map(Json::elements);
        Ok(Self {
            first: count(&["first_k_dense_replace"])?.unwrap_or(0),
            interval: by_index.or(by_number).unwrap_or(1).max(1),
            // Layers are counted from zero for `moe_layer_freq`, from one for the others.
            offset: usize::from(by_index.is_none()),
            dense: dense.filter_map(Json::number).map(|number| number as usize).collect(),
            listed,
        })
    }

    fn contains(&self, index: usize) -> bool {
        if let Some(listed) = &self.listed {
            return listed.get(index).copied().unwrap_or(false);
        }
        index >= self.first && (index + self.offset).is_multiple_of(self.interval) && !self.dense.contains(&index)
    }
}
