//! The weights that one GPU reads in a step, from the shapes of the products in its layers: without a config of the model. Only if
//! every product of every layer has shapes. O(kernels of the layers).

use super::op_work::{OpWork, ShapeSource, WeightsOfKernels};
use super::role_demand::is_product_of_layer;
use super::stage_layers::{Kind, RoleTime, StageLayers};
use crate::words::step_floor::traced_weights;

/// The weights of the layers of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TracedWeights {
    pub(super) layers: usize,
    pub(super) layer_bytes: f64,
    /// `None` if no product after the layers has shapes.
    pub(super) lm_head_bytes: Option<f64>,
    /// The least time for the products of the one step that has these layers; `None` if several have, because they may compute
    /// different numbers of tokens, or if the peak is not known.
    pub(super) arithmetic_ms: Option<f64>,
    /// The weakest source of the shapes.
    source: ShapeSource,
}

impl TracedWeights {
    /// `None` if a product has no shapes, as in replays of graphs.
    pub(super) fn of(work: &OpWork, stage: &StageLayers) -> Option<Self> {
        let kinds: Vec<Products> = stage.kinds.iter().map(|kind| of_kind(work, kind)).collect::<Option<_>>()?;
        let tail = stage.outside.iter().find(|part| part.role == "lm_head");
        let lm_head = tail.and_then(|part| Products::of(work, part, 1));
        let all = kinds.iter().chain(&lm_head);
        let arithmetic = all.clone().map(|products| products.arithmetic_ns).sum::<Option<f64>>();
        Some(Self {
            layers: stage.order.len(),
            layer_bytes: kinds.iter().map(|products| products.bytes).sum(),
            lm_head_bytes: lm_head.map(|products| products.bytes),
            arithmetic_ms: arithmetic.filter(|_| stage.steps == 1).map(|ns| ns / 1e6),
            source: all.map(|products| products.source).max().unwrap_or(ShapeSource::Trace),
        })
    }

    pub(super) fn bytes(&self) -> f64 {
        self.layer_bytes + self.lm_head_bytes.unwrap_or(0.0)
    }

    pub(super) fn words(&self) -> String {
        traced_weights(self.layers, self.lm_head_bytes.is_some(), self.source.words())
    }
}

/// The products of some kernels.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Products {
    bytes: f64,
    arithmetic_ns: Option<f64>,
    source: ShapeSource,
}

impl Products {
    /// Those of a role in `count` layers.
    fn of(work: &OpWork, role: &RoleTime, count: usize) -> Option<Self> {
        // Layers with another sequence of kernels are not among the rows.
        let in_rows = role.rows.len().checked_div(role.kernels).filter(|layers| *layers > 0)?;
        let WeightsOfKernels { bytes, arithmetic_ns, source } = work.weights_of(&mut role.rows.iter().copied())?;
        let scale = count as f64 / in_rows as f64;
        Some(Self { bytes: bytes * scale, arithmetic_ns: arithmetic_ns.map(|time| time * scale), source })
    }
}

fn of_kind(work: &OpWork, kind: &Kind) -> Option<Products> {
    let products = kind.roles.iter().filter(|role| is_product_of_layer(&role.role));
    let mut sum = Products { bytes: 0.0, arithmetic_ns: Some(0.0), source: ShapeSource::Trace };
    for role in products {
        let products = Products::of(work, role, kind.count)?;
        sum.bytes += products.bytes;
        sum.source = sum.source.max(products.source);
        sum.arithmetic_ns = sum.arithmetic_ns.zip(products.arithmetic_ns).map(|(a, b)| a + b);
    }
    (sum.bytes > 0.0).then_some(sum)
}
