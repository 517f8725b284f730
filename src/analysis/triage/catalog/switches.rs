//! Where the switches of known families stand, by the server's arguments.

use super::data::{Family, Position, Toggle, Turns};
use crate::analysis::triage::ServerArgs;
use serde_json::Value;

/// How deep arguments are looked into: `compilation_config` holds `pass_config`, as objects or as JSON in a text.
const DEPTH: u8 = 6;

/// Where a switch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The arguments turn it on.
    On,
    /// The arguments turn it off.
    Off,
    /// The arguments do not set it, and what holds then is known.
    Default(Position),
    /// Nothing tells.
    Unknown,
}

/// A switch of a family and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Switch<'a> {
    /// The switch.
    pub(super) toggle: &'a Toggle,
    /// Where it stands.
    pub(super) state: State,
}

/// The switches of this family.
pub(super) fn of(family: &Family, server: &ServerArgs) -> Vec<Switch<'static>> {
    let bears_on = |toggle: &&Toggle| toggle.families.contains(&family.id);
    Toggle::embedded().iter().filter(bears_on).map(|toggle| Switch { toggle, state: state(toggle, server) }).collect()
}

impl Switch<'_> {
    /// Does it, as it stands, keep its families from running?
    pub(super) fn disables(&self) -> bool {
        let is_on = match self.state {
            State::On | State::Default(Position::On) => true,
            State::Off | State::Default(Position::Off) => false,
            State::Unknown => return false,
        };
        match self.toggle.turns {
            Turns::On => !is_on,
            Turns::Off => is_on,
            Turns::Changes => false,
        }
    }

    /// A line of the table.
    pub(super) fn line(&self) -> String {
        let state = match self.state {
            State::On => "on",
            State::Off => "off",
            State::Default(Position::On) => "not set, on by default",
            State::Default(Position::Off) => "not set, off by default",
            State::Unknown => "not known here",
        };
        let turns = match self.toggle.turns {
            Turns::On => "",
            Turns::Off => "; on, it turns this off",
            Turns::Changes => "; it changes how this looks",
        };
        format!("{}: {state} ({}{turns})", self.toggle.toggle, self.toggle.effect)
    }
}

fn state(toggle: &Toggle, server: &ServerArgs) -> State {
    let own = std::slice::from_ref(&toggle.toggle);
    let keys = toggle.keys.as_deref().unwrap_or(own);
    let found = keys.iter().find_map(|key| find(&server.0, key, DEPTH));
    match found {
        Some(value) => position(&value, &toggle.values),
        // What the arguments do not list may still stand in the environment, whose names are capitals.
        None if server.0.is_empty() || keys.iter().all(|key| !key.bytes().any(|byte| byte.is_ascii_lowercase())) => {
            State::Unknown
        }
        None => toggle.default.map_or(State::Unknown, State::Default),
    }
}

/// The value of a key, wherever it stands; a name with dots is a path.
fn find(arguments: &serde_json::Map<String, Value>, key: &str, depth: u8) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    if let Some((_, value)) = arguments.iter().find(|(name, value)| is_key(name, key) && !value.is_null()) {
        return Some(value.clone());
    }
    if let Some((outer, inner)) = key.split_once('.') {
        let (_, value) = arguments.iter().find(|(name, _)| is_key(name, outer))?;
        return find(&object(value)?, inner, depth);
    }
    arguments.iter().find_map(|(_, value)| find(&object(value)?, key, depth))
}

fn object(value: &Value) -> Option<serde_json::Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object.clone()),
        Value::String(text) if text.trim_start().starts_with('{') => serde_json::from_str(text).ok(),
        _ => None,
    }
}

/// `--enable-foo` is `enable_foo`.
fn is_key(name: &str, key: &str) -> bool {
    let letters = |text: &str| text.trim_start_matches('-').replace('-', "_").to_ascii_lowercase();
    letters(name) == letters(key)
}

fn position(value: &Value, words: &[String]) -> State {
    let is_on = match value {
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) if words.is_empty() => {
            !matches!(text.to_ascii_lowercase().as_str(), "" | "0" | "false" | "off" | "no" | "none")
        }
        Value::String(text) => words.iter().any(|word| text.eq_ignore_ascii_case(word)),
        _ => return State::Unknown,
    };
    if is_on { State::On } else { State::Off }
}
