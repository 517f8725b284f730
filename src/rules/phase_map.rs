//! Finds the phase of a range name by the user's patterns. A phase map is a JSON object from phase to pattern or list of
//! patterns, in the format of nsys-llm-explainer. Cost: one search per pattern and name.
//!
//! A pattern that starts with `re:` is a regex. Any other pattern is a substring and ignores the case of ASCII letters. Names
//! are matched without leading and trailing white space. The first phase in the file with a matching pattern wins.

use super::file::{MAX_FILE_BYTES, MAX_RULES, read_json};
use super::matcher::{Matcher, Name};
use crate::json::Json;
use crate::{Error, Result};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// A parsed phase map; the module documentation describes the format.
#[derive(Debug, Clone)]
pub struct PhaseMap {
    phases: Vec<Phase>,
}

#[derive(Debug, Clone)]
struct Phase {
    name: String,
    patterns: Vec<Pattern>,
}

#[derive(Debug, Clone)]
enum Pattern {
    Regex(Matcher),
    /// In lower case.
    Substring(String),
}

impl PhaseMap {
    /// Parses a phase map.
    ///
    /// # Errors
    /// The text is not a phase map, is too large, or contains an empty pattern or a regex that does not compile. The message
    /// names file, phase and pattern.
    ///
    /// ```
    /// use gpuprism::rules::PhaseMap;
    /// let map = PhaseMap::parse("map.json", r#"{"prefill": ["extend", "re:^context_[1-9]"], "decode": "decode"}"#)?;
    /// assert_eq!(map.phase_of("step[EXTEND bs=4]"), Some(0));
    /// assert_eq!(map.phase_of("context_0"), None);
    /// assert_eq!(map.names().collect::<Vec<_>>(), ["prefill", "decode"]);
    /// # Ok::<(), gpuprism::Error>(())
    /// ```
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        if text.len() > MAX_FILE_BYTES {
            return Err(Error::rules(file, "larger than 4 MiB, the limit for a phase map"));
        }
        let entries = match read_json(file, text)? {
            json @ Json::Object(entries) if !entries.is_empty() => json.members(),
            Json::Object(_) => return Err(wrong_structure(file, "no phase")),
            other => return Err(wrong_structure(file, other.kind())),
        };
        let (mut phases, mut row_of) = (Vec::<Phase>::new(), HashMap::<String, usize, RandomState>::default());
        for (name, value) in entries {
            let patterns = patterns(&format!("{file}: {name}"), value)?;
            // A phase that occurs twice in the file keeps its first position.
            let row = *row_of.entry(name.clone().into_owned()).or_insert(phases.len());
            match phases.get_mut(row) {
                Some(phase) => phase.patterns.extend(patterns),
                None => phases.push(Phase { name: name.into_owned(), patterns }),
            }
        }
        if phases.iter().map(|phase| phase.patterns.len()).sum::<usize>() > MAX_RULES {
            return Err(Error::rules(file, format!("more than {MAX_RULES} patterns, the limit for a phase map")));
        }
        Ok(Self { phases })
    }

    /// The first phase with a pattern that matches this name, as an index into [`PhaseMap::names`].
    pub fn phase_of(&self, name: &str) -> Option<usize> {
        let name = name.trim();
        let (prepared, lower_case) = (Name::new(name), name.to_ascii_lowercase());
        let is_match = |pattern: &Pattern| match pattern {
            Pattern::Regex(regex) => regex.is_match(&prepared),
            Pattern::Substring(text) => lower_case.contains(text.as_str()),
        };
        self.phases.iter().position(|phase| phase.patterns.iter().any(is_match))
    }

    /// The names of the phases in file order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.phases.iter().map(|phase| phase.name.as_str())
    }
}

fn wrong_structure(location: &str, found: &str) -> Error {
    let why =
        format!("expected {{\"phase\": \"pattern\"}} or {{\"phase\": [\"pattern\", \"re:regex\"]}}, found {found}");
    Error::rules(location, why)
}

fn patterns(location: &str, value: Json<'_>) -> Result<Vec<Pattern>> {
    let one = if let Json::Array(_) = value { None } else { Some(value) };
    let mut patterns = Vec::new();
    for element in one.into_iter().chain(value.elements()) {
        match element {
            Json::String(text) => patterns.push(pattern(location, &text.unescaped())?),
            other => return Err(wrong_structure(location, other.kind())),
        }
    }
    if patterns.is_empty() { Err(wrong_structure(location, "no pattern")) } else { Ok(patterns) }
}

fn pattern(location: &str, text: &str) -> Result<Pattern> {
    let location = || format!("{location} / {text}");
    if text.trim().is_empty() || text == "re:" {
        return Err(Error::rules(location(), "empty pattern: it would match every name"));
    }
    let Some(regex) = text.strip_prefix("re:") else { return Ok(Pattern::Substring(text.trim().to_ascii_lowercase())) };
    let refused = |why| Error::rules(location(), format!("unusable regex: {why}"));
    Matcher::new(regex).map(Pattern::Regex).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_matching_phase_in_file_order_wins() {
        let text = r#"{"z": "Step", "a": ["re:DECODE", "  bs=4 "], "z ": "x", "a": "late"}"#;
        let map = PhaseMap::parse("m", text).unwrap();
        assert_eq!(map.names().collect::<Vec<_>>(), ["z", "a", "z "]);
        for (name, want) in [
            ("step[DECODE bs=4]", Some(0)),
            ("DECODE", Some(1)),
            ("decode", None),
            ("BS=4", Some(1)),
            ("too late", Some(1)),
            ("x", Some(2)),
            ("", None),
        ] {
            assert_eq!(map.phase_of(name), want, "{name}");
        }
        let anchored = PhaseMap::parse("m", r#"{"p": "re:^run$"}"#).unwrap();
        assert_eq!(anchored.phase_of(" run\n"), Some(0), "outer white space is removed before the match");
    }

    #[test]
    fn an_error_names_file_phase_and_pattern() {
        for (text, parts) in [
            (r#"{"p": ["ok", "re:a("]}"#, ["m.json: p / re:a(", "unusable regex"]),
            (r#"{"p": 3}"#, ["m.json: p", "found a number"]),
            (r#"{"p": ["x", null]}"#, ["m.json: p", "found null"]),
            (r#"{"p": []}"#, ["m.json: p", "no pattern"]),
            (r#"{"p": " "}"#, ["m.json: p /  ", "empty pattern"]),
            (r#"{"p": "re:"}"#, ["m.json: p / re:", "empty pattern"]),
            (r#"["p"]"#, ["m.json", "found an array"]),
            ("{}", ["m.json", "no phase"]),
            ("{", ["m.json", "not valid JSON"]),
        ] {
            let error = PhaseMap::parse("m.json", text).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
