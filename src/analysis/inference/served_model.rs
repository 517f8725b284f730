//! What the user says about the model that the traced server runs, from which the floor of a step follows.

use super::floor::Parallel;
use super::model_config::ModelConfig;

/// What the user says about the model that the traced server runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServedModel {
    /// Its dimensions.
    pub config: Option<ModelConfig>,
    /// The weights that one GPU reads in a step, in GB, instead of those that follow from the dimensions.
    pub weights_gb: Option<f64>,
    /// How it is divided over GPUs; `None` if not given.
    pub parallel: Option<Parallel>,
}
