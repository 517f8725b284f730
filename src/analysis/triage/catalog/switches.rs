//! The states of the switches of known families according to the server arguments.

use super::data::{Family, Position, Toggle, Turns};
use crate::analysis::triage::ServerArgs;
use serde_json::Value;

/// The state of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The arguments turn it on.
    On,
    /// The arguments turn it off.
    Off,
    /// The arguments do not set it, and its default is known.
    Default(Position),
    /// The state is unknown.
    Unknown,
}

/// A switch with its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Switch<'a> {
    pub(super) toggle: &'a Toggle,
    pub(super) state: State,
}

/// The switches that affect this family.
pub(super) fn of(family: &Family, server: &ServerArgs) -> Vec<Switch<'static>> {
    let affects = |toggle: &&Toggle| toggle.families.contains(&family.id);
    Toggle::embedded().iter().filter(affects).map(|toggle| Switch { toggle, state: state(toggle, server) }).collect()
}

impl Switch<'_> {
    /// True if its state prevents its families from running.
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

    /// The line in the table.
    pub(super) fn line(&self) -> String {
        let state = match self.state {
            State::On => "on",
            State::Off => "off",
            State::Default(Position::On) => "not set, on by default",
            State::Default(Position::Off) => "not set, off by default",
            State::Unknown => "unknown",
        };
        let turns = match self.toggle.turns {
            Turns::On => "",
            Turns::Off => "; turns this off when on",
            Turns::Changes => "; changes how this runs",
        };
        format!("{}: {state} ({}{turns})", self.toggle.toggle, self.toggle.effect)
    }
}

fn state(toggle: &Toggle, server: &ServerArgs) -> State {
    let own = std::slice::from_ref(&toggle.toggle);
    let keys = toggle.keys.as_deref().unwrap_or(own);
    let found = keys.iter().find_map(|key| find(server, key));
    match found {
        Some(value) => position(&value, &toggle.values),
        // Switches in capitals are environment variables, which the arguments do not list.
        None if server.0.is_empty() || keys.iter().all(|key| !key.bytes().any(|byte| byte.is_ascii_lowercase())) => {
            State::Unknown
        }
        None => toggle.default.map_or(State::Unknown, State::Default),
    }
}

/// The value of a key; `outer.inner` is a key in a nested object.
fn find(server: &ServerArgs, key: &str) -> Option<Value> {
    let key = key.to_ascii_lowercase();
    let nested = || {
        let (outer, inner) = key.split_once('.')?;
        let Value::Object(object) = server.find(outer)? else { return None };
        ServerArgs(object).find(inner)
    };
    server.find(&key).or_else(nested)
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
