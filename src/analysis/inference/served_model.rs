//! What is known of the model that the traced server runs, from which the floor of a step follows: from the user, and from the
//! arguments of the server, which SGLang writes next to its traces. Linear in the text.

use super::floor::Parallel;
use super::model_config::ModelConfig;
use super::quantization::CATALOG_TEXT;
use crate::json::{self, Json, from_json};
use std::sync::OnceLock;

/// What is known of the model that the traced server runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServedModel {
    /// Its dimensions.
    pub config: Option<ModelConfig>,
    /// The weights that one GPU reads in a step, in GB, instead of those that follow from the dimensions.
    pub weights_gb: Option<f64>,
    /// How it is divided over GPUs; `None` if not given.
    pub parallel: Option<Parallel>,
    /// Whether `parallel` is that of the arguments of the server.
    pub is_by_server: bool,
}

/// The names of members in `server_args.json`.
#[derive(Debug)]
struct ServerKeys {
    tp: String,
    ep: String,
    pp: String,
    unknown_if: String,
}
from_json!(strict ServerKeys { tp, ep, pp, unknown_if });

#[derive(Debug)]
struct Catalog {
    server_args: ServerKeys,
}
from_json!(Catalog { server_args });

fn keys() -> &'static ServerKeys {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    &CATALOG.get_or_init(|| json::embedded(json::read(CATALOG_TEXT))).server_args
}

impl Parallel {
    /// The division that a `server_args.json` states; `None` if it states none, or one that [`Parallel`] cannot express.
    pub fn of_server_args(text: &str) -> Option<Self> {
        let arguments = Json::parse(text).ok()?;
        let keys = keys();
        let get = |key: &str| arguments.get_path(&[key]);
        if get(&keys.unknown_if) == Some(Json::Bool(true)) {
            return None;
        }
        let count = |key: &str| match get(key) {
            Some(Json::Int(count @ 1..=MAX_GPUS)) => Some(count as u64),
            _ => None,
        };
        let tp = count(&keys.tp)?;
        // Data-parallel replicas share nothing. All GPUs of a tensor-parallel group share the experts, also if several of them share
        // each expert.
        let ep = count(&keys.ep).filter(|ep| *ep > 1).map_or(1, |ep| ep.max(tp));
        Some(Self { tp, ep, pp: count(&keys.pp).unwrap_or(1), dp: 1 })
    }
}

/// No server has more GPUs.
const MAX_GPUS: i64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_division_is_that_of_the_server_arguments() {
        let of = Parallel::of_server_args;
        let one = Parallel::default();
        assert_eq!(of(r#"{"model_path": "m", "tp_size": 8}"#), Some(Parallel { tp: 8, ..one }));
        assert_eq!(of(r#"{"tp_size": 4, "pp_size": 2, "ep_size": 1}"#), Some(Parallel { tp: 4, pp: 2, ..one }));
        // Two GPUs share each of the experts that four share together.
        assert_eq!(of(r#"{"tp_size": 4, "ep_size": 2}"#), Some(Parallel { tp: 4, ep: 4, ..one }));
        assert_eq!(of(r#"{"tp_size": 2, "dp_size": 4}"#), Some(Parallel { tp: 2, ..one }), "replicas share nothing");
    }

    #[test]
    fn a_division_that_is_not_certain_stays_unknown() {
        for text in [
            "",
            "[1]",
            "{}",
            r#"{"tp_size": 0}"#,
            r#"{"tp_size": "8"}"#,
            r#"{"tp_size": null}"#,
            r#"{"tp_size": 1e9}"#,
            r#"{"tp_size": 8, "dp_size": 8, "enable_dp_attention": true}"#,
        ] {
            assert_eq!(Parallel::of_server_args(text), None, "{text}");
        }
    }
}
