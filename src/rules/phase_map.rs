//! The person's own phases: a JSON object of phase -> pattern or list of patterns, in the shape of nsys-llm-explainer.
//!
//! A pattern `re:...` is a regex, searched in the name without its outer blanks; any other is a part of the name, `A` to
//! `Z` in either case. The first phase of the file that has a pattern in a name is the name's phase.

use super::file::{MAX_FILE_BYTES, MAX_RULES, read_json};
use super::matcher::{Matcher, Name};
use crate::json::Json;
use crate::{Error, Result};

/// See the module's head.
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
    /// In small letters.
    Part(String),
}

impl PhaseMap {
    /// Reads a phase map.
    ///
    /// # Errors
    /// What is no such object, an empty pattern or a regex that does not compile, by file, phase and pattern.
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
            return Err(Error::rules(file, "is larger than 4 MiB, which no phase map is"));
        }
        let entries = match read_json(file, text)? {
            Json::Object(entries) if !entries.is_empty() => entries,
            Json::Object(_) => return Err(shape(file, "no phase")),
            other => return Err(shape(file, other.kind())),
        };
        let mut phases: Vec<Phase> = Vec::new();
        for (name, value) in entries {
            let patterns = patterns(&format!("{file}: {name}"), value)?;
            // A phase that stands in the file twice keeps its first place.
            match phases.iter_mut().find(|phase| phase.name == name) {
                Some(phase) => phase.patterns.extend(patterns),
                None => phases.push(Phase { name, patterns }),
            }
        }
        if phases.iter().map(|phase| phase.patterns.len()).sum::<usize>() > MAX_RULES {
            return Err(Error::rules(file, format!("holds more than {MAX_RULES} patterns")));
        }
        Ok(Self { phases })
    }

    /// The index in [`PhaseMap::names`] of the name's phase.
    pub fn phase_of(&self, name: &str) -> Option<usize> {
        let name = name.trim();
        let (searched, small) = (Name::new(name), name.to_ascii_lowercase());
        let hits = |pattern: &Pattern| match pattern {
            Pattern::Regex(regex) => regex.is_match(&searched),
            Pattern::Part(part) => small.contains(part.as_str()),
        };
        self.phases.iter().position(|phase| phase.patterns.iter().any(hits))
    }

    /// The phases in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.phases.iter().map(|phase| phase.name.as_str())
    }
}

fn shape(place: &str, found: &str) -> Error {
    let why =
        format!("expected {{\"phase\": \"pattern\"}} or {{\"phase\": [\"pattern\", \"re:regex\"]}}, found {found}");
    Error::rules(place, why)
}

fn patterns(place: &str, value: Json) -> Result<Vec<Pattern>> {
    let elements = match value {
        Json::Array(elements) => elements,
        one => vec![one],
    };
    let mut patterns = Vec::with_capacity(elements.len());
    for element in elements {
        match element {
            Json::String(text) => patterns.push(pattern(place, &text)?),
            other => return Err(shape(place, other.kind())),
        }
    }
    if patterns.is_empty() { Err(shape(place, "no pattern")) } else { Ok(patterns) }
}

fn pattern(place: &str, text: &str) -> Result<Pattern> {
    let place = || format!("{place} / {text}");
    if text.trim().is_empty() || text == "re:" {
        return Err(Error::rules(place(), "an empty pattern would stand in every name"));
    }
    let Some(regex) = text.strip_prefix("re:") else { return Ok(Pattern::Part(text.trim().to_ascii_lowercase())) };
    let matcher = Matcher::new(regex);
    let matcher = matcher.map_err(|why| Error::rules(place(), format!("not a regex that can be used: {why}")));
    matcher.map(Pattern::Regex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_phase_in_the_order_of_the_file_wins() {
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
        assert_eq!(anchored.phase_of(" run\n"), Some(0), "a regex sees the name without its outer blanks");
    }

    #[test]
    fn what_is_wrong_is_named_by_file_phase_and_pattern() {
        for (text, parts) in [
            (r#"{"p": ["ok", "re:a("]}"#, ["m.json: p / re:a(", "not a regex"]),
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
