//! The states of the switches of known families according to the server arguments.

use super::data::{Family, Position, TOGGLES, Toggle, Turns};
use crate::analysis::triage::ServerArgs;
use crate::words::catalog::{self, SwitchEffect};
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Switch<'a> {
    pub(super) toggle: &'a Toggle,
    /// `None` if unknown.
    position: Option<Position>,
    /// True if the arguments do not set it.
    is_default: bool,
}

/// The switches that affect this family.
pub(super) fn of(family: &Family, server: &ServerArgs) -> Vec<Switch<'static>> {
    let affects = |toggle: &&Toggle| toggle.families.contains(&family.id);
    TOGGLES.iter().filter(affects).map(|toggle| switch(toggle, server)).collect()
}

impl Switch<'_> {
    /// True if its position prevents its families from running.
    pub(super) fn disables(&self) -> bool {
        matches!(
            (self.toggle.turns, self.position),
            (Turns::On, Some(Position::Off)) | (Turns::Off, Some(Position::On))
        )
    }

    pub(super) fn line(&self) -> String {
        let is_on = self.position.map(|position| position == Position::On);
        let effect = match self.toggle.turns {
            Turns::On => SwitchEffect::TurnsOn,
            Turns::Off => SwitchEffect::TurnsOff,
            Turns::Changes => SwitchEffect::Changes,
        };
        catalog::switch(&self.toggle.toggle, is_on, self.is_default, &self.toggle.effect, effect)
    }
}

fn switch<'a>(toggle: &'a Toggle, server: &ServerArgs) -> Switch<'a> {
    let own = std::slice::from_ref(&toggle.toggle);
    let keys = toggle.keys.as_deref().unwrap_or(own);
    if let Some(value) = keys.iter().find_map(|key| find(server, key)) {
        return Switch { toggle, position: position(&value, &toggle.values), is_default: false };
    }
    // Switches in capitals are environment variables, which the arguments do not list.
    let is_argument = keys.iter().any(|key| key.bytes().any(|byte| byte.is_ascii_lowercase()));
    let position = toggle.default.filter(|_| is_argument && !server.0.is_empty());
    Switch { toggle, position, is_default: true }
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

fn position(value: &Value, words: &[String]) -> Option<Position> {
    let is_on = match value {
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) if words.is_empty() => {
            !matches!(text.to_ascii_lowercase().as_str(), "" | "0" | "false" | "off" | "no" | "none")
        }
        Value::String(text) => words.iter().any(|word| text.eq_ignore_ascii_case(word)),
        _ => return None,
    };
    Some(if is_on { Position::On } else { Position::Off })
}
