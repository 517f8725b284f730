//! The inference lens: where the time of one forward pass goes, from the trace alone.
//!
//! - [`passes`]: the forward passes (engine steps) with their ops, by the launch of each op.
//! - `stage_by_kernels`: the stage of a step without an annotation.
//! - `unnamed_stages`: the kinds of steps that nothing names, by what they run.
//! - `inferred_steps`: finds the passes of a trace without annotations, from the order of its kernels.
//! - `periods`: finds the steps of other traces without annotations, by kernels and graphs that repeat at an even distance.
//! - [`graph_coverage`]: how much of a pass CUDA or HIP graphs replay, by stage.
//! - [`speculation`]: what rounds of speculative decoding cost.
//! - [`kernel_roles`]: the role of an op in a layer, by its name and place.
//! - `fold`, `folded_pass`: divide a pass into its repeated layers.
//! - `usual_order`: the sequence of layers that the passes of a stage agree on.
//! - `stage_layers`: the kinds of layers of a stage, and the time of each role; [`layers`]: their sections.
//! - `layer_spans`: when each layer ran, for the timeline.
//! - [`unsuited_kernels`]: kernels that do not fit the GPU or the work; `unfused_attention`: attention in separate kernels.
//! - `op_model`: operations and bytes of a framework op; `varlen_attention`: attention whose cost depends on the step;
//!   `op_work`: the kernels of each op; [`op_costs`]: their section.
//! - [`model_config`]: the dimensions and weights of a model from its config.json.
//! - [`floor`]: the least time of a step on its hardware; `step_floor`: its section; `division`: how GPUs share the model;
//!   `traced_weights`: the weights by the shapes of products.
//! - `role_demand`: operations and bytes of one part of a layer from the dimensions of the model; `role_rates`: its rates.
//! - `step_tokens`: the tokens of a step without an annotation, from the shapes of its products.
//! - `step_time_fit`: how the time of decode steps grows with batch and context.
//! - `model_words`: the words of roles in sentences and charts.
//!
//! All of them read [`passes::Passes`], which [`super::context::Context`] computes once: one pass over the ops. Layers are
//! folded from a bounded number of ops per stage, so windows of large traces stay fast.

mod config_fields;
mod counted_rates;
mod division;
pub mod floor;
pub(crate) mod fold;
mod fold_training;
mod folded_pass;
pub mod graph_coverage;
mod inferred_steps;
pub mod kernel_roles;
pub(crate) mod layer_spans;
pub mod layers;
pub mod model_config;
mod model_layers;
pub(crate) mod model_words;
pub(crate) mod op_costs;
pub(crate) mod op_model;
pub(crate) mod op_work;
mod optimizer_steps;
pub(crate) mod passes;
mod periods;
mod quantization;
mod role_demand;
mod role_rates;
mod role_times;
pub mod served_model;
pub mod speculation;
mod stage_by_kernels;
pub(crate) mod stage_layers;
pub mod step_floor;
pub(crate) mod step_time_fit;
pub(crate) mod step_tokens;
mod traced_weights;
mod unfused_attention;
mod unnamed_stages;
pub mod unsuited_kernels;
mod usual_order;
mod varlen_attention;

/// The first `max` of some numbers, and how many more there are; empty without numbers.
fn first_numbers<T: ToString>(numbers: &[T], max: usize) -> String {
    let shown: Vec<String> = numbers.iter().take(max).map(T::to_string).collect();
    crate::words::phrases::named_and_more(&shown, numbers.len() - shown.len())
}
