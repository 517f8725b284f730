//! How the cost of a framework op follows from the shapes of its arguments: the catalog `patterns/op_models.json`. Readers
//! store the ops of the catalog, `analysis::inference` computes their cost. A lookup is one hash.

use crate::json::{self, embedded, from_json};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The formula for the cost of an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Formula {
    /// A product of two matrices, or of a batch of them.
    Product,
    /// Attention with separate queries, keys and values.
    Attention,
    /// Attention of requests whose lengths the arguments do not show.
    VarlenAttention,
    /// A convolution.
    Convolution,
    /// The feed-forward networks of a mixture of experts.
    Experts,
    /// The same, with weights that are no arguments.
    HiddenExperts,
    /// Products of groups of rows with matrices of their own.
    GroupedProduct,
    /// Memory traffic only.
    Bytes,
}
from_json!(Formula =
    "product" => Product,
    "attention" => Attention,
    "varlen_attention" => VarlenAttention,
    "convolution" => Convolution,
    "experts" => Experts,
    "hidden_experts" => HiddenExperts,
    "grouped_product" => GroupedProduct,
    "bytes" => Bytes
);

/// The formula of some ops and the positions of the arguments that it needs. The catalog describes the lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpModel {
    /// The formula.
    pub model: Formula,
    /// Tensors that the op reads.
    pub tensors: Vec<usize>,
    /// Other arguments.
    pub values: Vec<usize>,
    /// Tensors that the op writes.
    pub writes: Vec<usize>,
    /// Arguments with which the formula does not hold.
    pub absent: Vec<usize>,
    /// The op also writes a result in the common shape of its tensors.
    pub broadcast: bool,
    /// The second matrix is stored as `[N, K]`.
    pub b_is_nk: bool,
    /// Each byte of the matrices has two values.
    pub packed_fp4: bool,
    /// The heads are the second dimension, the positions the third.
    pub heads_first: bool,
    ops: Vec<String>,
}
from_json!(strict OpModel { model, ops, tensors; values, writes, absent, broadcast, b_is_nk, packed_fp4, heads_first });

#[derive(Debug)]
struct Catalog {
    models: Vec<OpModel>,
}
from_json!(Catalog { models });

type ByName = HashMap<&'static [u8], &'static OpModel, RandomState>;

static CATALOG: LazyLock<Catalog> =
    LazyLock::new(|| embedded(json::read(include_str!("../../patterns/op_models.json"))));
static BY_NAME: LazyLock<ByName> = LazyLock::new(|| {
    let ops = |model: &'static OpModel| model.ops.iter().map(move |op| (op.as_bytes(), model));
    CATALOG.models.iter().flat_map(ops).collect()
});

/// The model of the op with this name; `None` if its cost is unknown.
pub fn op_model(name: &[u8]) -> Option<&'static OpModel> {
    BY_NAME.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_op_has_one_model_with_the_arguments_that_its_formula_needs() {
        let names: usize = CATALOG.models.iter().map(|model| model.ops.len()).sum();
        assert_eq!(BY_NAME.len(), names, "an op is listed twice");
        for model in &CATALOG.models {
            let (tensors, values) = match model.model {
                Formula::Product => (2..=2, 0..=0),
                Formula::Attention => (3..=3, 1..=1),
                Formula::VarlenAttention => (3..=3, 0..=3),
                Formula::GroupedProduct | Formula::HiddenExperts => (2..=2, 0..=0),
                Formula::Convolution => (2..=2, 4..=5),
                Formula::Experts => (4..=4, 0..=0),
                Formula::Bytes => (0..=3, 0..=0),
            };
            assert!(tensors.contains(&model.tensors.len()) && values.contains(&model.values.len()), "{model:?}");
            assert!(model.model != Formula::Bytes || model.broadcast || !model.writes.is_empty(), "{model:?}");
        }
        assert_eq!(op_model(b"aten::addmm").map(|model| &*model.tensors), Some(&[1, 2][..]), "argument 0 is the bias");
        assert_eq!(op_model(b"aten::empty"), None);
    }
}
