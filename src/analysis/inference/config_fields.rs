//! Reads members of a config.json of a model by their names. A model that also reads images has its language model in a
//! member of its own.

use crate::json::Json;
use crate::words::model_config::Unusable;

/// Members with the language model of a model that also reads images or sound.
pub(super) const TEXT_CONFIGS: [&str; 4] = ["text_config", "llm_config", "language_config", "thinker_config"];
/// Larger numbers are no dimensions of a model. Products of six of them are finite, and sums of real models exact in `f64`.
const MAX_NUMBER: f64 = 1e9;

/// The members of a config.
pub(super) struct Fields<'a> {
    /// Those of the language model.
    pub(super) text: Json<'a>,
    /// Those of the whole model.
    whole: Json<'a>,
}

/// What reading a config gives, or the reason why it cannot be used.
pub(super) type Read<T> = std::result::Result<T, Unusable>;

impl<'a> Fields<'a> {
    pub(super) fn of(whole: Json<'a>) -> Self {
        let inner =
            TEXT_CONFIGS.iter().find_map(|key| whole.get_path(&[key]).filter(|inner| inner.members().next().is_some()));
        Self { text: inner.unwrap_or(whole), whole }
    }

    /// A member of the language model or of the whole model; `None` if it is null.
    pub(super) fn get(&self, key: &str) -> Option<Json<'a>> {
        let of = |json: Json<'a>| json.get_path(&[key]).filter(|value| *value != Json::Null);
        of(self.text).or_else(|| of(self.whole))
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        self.get(key) == Some(Json::Bool(true))
    }

    /// A whole number; `None` if there is none of these members.
    pub(super) fn count(&self, keys: &[&'static str]) -> Read<Option<f64>> {
        let Some((key, value)) = keys.iter().find_map(|key| Some((key, self.get(key)?))) else { return Ok(None) };
        match value.number() {
            Some(number) if (0.0..=MAX_NUMBER).contains(&number) && number.fract() == 0.0 => Ok(Some(number)),
            _ => Err(Unusable::NoWholeNumber(key)),
        }
    }

    pub(super) fn required(&self, keys: &[&'static str]) -> Read<f64> {
        let found = self.count(keys)?.filter(|number| *number > 0.0);
        let name = keys.first().copied().unwrap_or_default();
        found.ok_or(Unusable::Misses(name))
    }
}
