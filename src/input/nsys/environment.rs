//! Counts the variables of the environment that an export contains, and those whose names tell a secret. Their values are not
//! kept. One pass over the table of settings.

use super::Import;
use super::schema::SETTINGS;
use crate::json::{self, Json, embedded, from_json};
use crate::trace::Environment;
use std::sync::LazyLock;

struct Words {
    secret_words: Vec<String>,
}
from_json!(Words { secret_words });

static WORDS: LazyLock<Words> = LazyLock::new(|| embedded(json::read(include_str!("../../../patterns/scrub.json"))));

/// The end of the name of a setting that holds one variable, as `NAME=value`.
const SETTING: &str = "ENVIRONMENT_VARIABLE";

/// Counts the variables among the settings of Nsight Systems.
pub(super) fn read(import: &mut Import<'_>) {
    let Some(table) = import.schema.find(&SETTINGS) else { return };
    let mut environment = Environment::default();
    let read = import.scanner.scan(table, &[&["name"], &["value"]], &mut |cells| {
        if cells.text(0).is_some_and(|name| name.contains(SETTING)) {
            let variable = cells.text(1).unwrap_or_default();
            add(&mut environment, variable.split('=').next().unwrap_or_default());
        }
    });
    import.count_damage(read);
    import.builder.trace.environment = environment;
}

/// Counts the variables of a JSON object, as rocpd writes them.
pub(in crate::input) fn add_object(environment: &mut Environment, text: &str) {
    let Ok(json) = Json::parse(text) else { return };
    json.members().for_each(|(name, _)| add(environment, &name));
}

fn add(environment: &mut Environment, name: &str) {
    let name = name.to_ascii_lowercase();
    environment.variables += 1;
    environment.like_secrets += u64::from(WORDS.secret_words.iter().any(|word| name.contains(word)));
}
