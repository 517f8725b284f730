//! Why the config.json of a model cannot be used, and what to give instead. From the names of its members.

/// Why a config.json cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It has more bytes than any config.json.
    TooLarge,
    /// What the parser says.
    NotJson(String),
    NotOfModel,
    /// It lacks this member.
    Misses(&'static str),
    /// The value of this member is no plausible number.
    NoWholeNumber(&'static str),
    TooManyLayers,
    /// The list of layers has another length than the number of layers.
    UnlistedLayers,
    /// The list of layers has another kind of layer than those whose weights are counted.
    UnknownLayers,
    /// This member speaks of layers whose weights are not counted.
    UncountedLayers(String),
    /// This member speaks of experts whose number is not known.
    UncountedExperts(String),
}

const EXPECTED: &str = "give the config.json in the folder of the model's weights";
const OWN_CONFIG: &str = "give the model's own config.json";
const WEIGHTS: &str = "give the weights with --weights-gb instead";

/// What is wrong with a config.json, and the remedy.
pub(crate) fn unusable(why: &Unusable) -> String {
    match why {
        Unusable::TooLarge => format!("larger than 4 MiB, the limit for a config.json: {EXPECTED}"),
        Unusable::NotJson(error) => format!("not valid JSON: {error}; {EXPECTED}"),
        Unusable::NotOfModel => format!("not the config.json of a model: {EXPECTED}"),
        Unusable::Misses(name) => {
            format!("the config misses `{name}`: give the complete config.json, or only the weights with --weights-gb")
        }
        Unusable::NoWholeNumber(name) => {
            format!("`{name}` is no plausible whole number: {OWN_CONFIG}, or the weights with --weights-gb")
        }
        Unusable::TooManyLayers => format!("`num_hidden_layers` is not a plausible number of layers: {OWN_CONFIG}"),
        Unusable::UnlistedLayers => format!("`layer_types` does not list every layer: {OWN_CONFIG}"),
        Unusable::UnknownLayers => {
            format!("`layer_types` has a kind of layer whose weights gpuprism does not count: {WEIGHTS}")
        }
        Unusable::UncountedLayers(name) => {
            format!("the config has `{name}`, of layers whose weights gpuprism does not count: {WEIGHTS}")
        }
        Unusable::UncountedExperts(name) => {
            format!("the config has `{name}` but not the number of experts under a known name: {WEIGHTS}")
        }
    }
}
