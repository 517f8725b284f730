//! Reads values from the `server_args.json` of any framework. Keys may be in nested objects, in lists of objects, and in
//! objects that are encoded as text. A search is breadth-first and limited in depth.

use super::Data;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The content of `server_args.json`; empty if there is none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServerArgs(pub Map<String, Value>);

/// The role of a server in a disaggregated deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::analysis::triage) enum Role {
    /// Processes prompts and passes their KV cache on.
    Prefill,
    /// Generates tokens for prompts that another server processed.
    Decode,
}

impl Role {
    pub(in crate::analysis::triage) fn label(self) -> &'static str {
        match self {
            Self::Prefill => "prefill worker",
            Self::Decode => "decode worker",
        }
    }
}

/// The model dimensions that determine the work of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelShape {
    /// Number of layers with attention.
    pub layers: u32,
    /// Number of query heads per layer.
    pub heads: u32,
    /// Dimension of a head.
    pub head_dim: u32,
}

impl ServerArgs {
    /// The least nested value of an argument that is not `null`.
    pub(in crate::analysis::triage) fn find(&self, key: &str) -> Option<Value> {
        self.search(key, |value| !value.is_null())
    }

    fn search(&self, key: &str, predicate: fn(&Value) -> bool) -> Option<Value> {
        /// No framework nests deeper.
        const MAX_DEPTH: usize = 4;
        let mut level = vec![self.0.clone()];
        for _ in 0..MAX_DEPTH {
            let mut found = level.iter().flatten().filter(|(name, value)| is_key(name, key) && predicate(value));
            if let Some((_, value)) = found.next() {
                return Some(value.clone());
            }
            level = level.into_iter().flatten().flat_map(|(_, value)| objects(value)).collect();
        }
        None
    }

    fn number(&self, keys: &[String]) -> Option<u64> {
        let number = |value: Value| value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
        keys.iter().find_map(|key| self.find(key).and_then(number))
    }

    /// All text values of the outermost object, except those of backends, which may have the name of another framework.
    pub(super) fn texts(&self) -> Vec<&str> {
        self.0.iter().filter(|(key, _)| !key.contains("backend")).filter_map(|(_, value)| value.as_str()).collect()
    }

    pub(in crate::analysis::triage) fn model(&self) -> Option<String> {
        let value = Data::embedded().model.iter().find_map(|key| self.find(key))?;
        value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// The tensor-parallel size: the number of GPUs that share each layer.
    pub(in crate::analysis::triage) fn tp_size(&self) -> Option<u64> {
        self.number(&Data::embedded().tensor_parallel).filter(|size| *size > 0)
    }

    /// The role in a disaggregated deployment; `None` for a server that does both prefill and decode.
    pub(in crate::analysis::triage) fn role(&self) -> Option<Role> {
        Data::embedded().roles.into_iter().find_map(|role| {
            let value = self.find(&role.key)?.as_str()?.to_ascii_lowercase();
            if role.prefill.contains(&value) {
                Some(Role::Prefill)
            } else {
                role.decode.contains(&value).then_some(Role::Decode)
            }
        })
    }

    /// The model dimensions, if the arguments contain the model configuration.
    pub(in crate::analysis::triage) fn model_shape(&self) -> Option<ModelShape> {
        let data = Data::embedded();
        let number = |keys: &[String]| self.number(keys).and_then(|value| u32::try_from(value).ok());
        let (layers, heads) = (number(&data.layers)?, number(&data.heads)?);
        let head_dim = number(&data.head_dim).or_else(|| number(&data.hidden)?.checked_div(heads))?;
        Some(ModelShape { layers, heads, head_dim })
    }

    /// The arguments that affect how a trace must be interpreted, as `key=value`.
    pub(in crate::analysis::triage) fn relevant_arguments(&self) -> Vec<String> {
        let data = Data::embedded();
        let null = |key: &String| self.search(key, Value::is_null).filter(|_| data.meaningful_null.contains(key));
        let shown = |key: &String| {
            let value = self.find(key).or_else(|| null(key))?;
            Some(format!("{key}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
        };
        data.arguments.iter().filter_map(shown).collect()
    }
}

/// Compares an argument name with a key in snake case: `--tp-size` equals `tp_size`.
fn is_key(name: &str, key: &str) -> bool {
    let name = name.trim_start_matches('-').bytes();
    name.map(|byte| if byte == b'-' { b'_' } else { byte.to_ascii_lowercase() }).eq(key.bytes())
}

/// The objects that a value contains directly.
fn objects(value: Value) -> Vec<Map<String, Value>> {
    match value {
        Value::Object(object) => vec![object],
        Value::Array(list) => list.into_iter().filter_map(object).collect(),
        Value::String(text) if text.starts_with('{') => {
            serde_json::from_str(&text).ok().and_then(object).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn object(value: Value) -> Option<Map<String, Value>> {
    if let Value::Object(object) = value { Some(object) } else { None }
}
