//! One rule file, from its text to lists of rules: both shapes of gputrc2graph, errors by place.

use super::matcher::Matcher;
use crate::analysis::{CPU, SHARED};
use crate::json::Json;
use crate::{Error, Result};

/// The engine that a rule file without an engine level is filed under.
const NAMELESS_ENGINE: &str = "custom";

/// Far above any real rule file (the largest known holds 25 rules), far below what would stall a browser tab.
pub(super) const MAX_FILE_BYTES: usize = 4 << 20;
pub(super) const MAX_RULES: usize = 10_000;

/// The rules of one model, in their order; a regex may still stand twice.
#[derive(Debug, PartialEq)]
pub(super) struct ModelRules {
    pub(super) engine: String,
    pub(super) model: String,
    pub(super) rules: Vec<Rule>,
}

/// One line of a rule file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) regex: String,
    pub(super) category: String,
    /// The file that brought it, once it is in a book.
    pub(super) file: String,
}

/// Reads the text of a rule file; the regexes are not compiled yet.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<ModelRules>> {
    if text.len() > MAX_FILE_BYTES {
        return Err(Error::rules(file, "is larger than 4 MiB, which no rule file is"));
    }
    let mut sets = Vec::new();
    for (name, value) in object(file, read_json(file, text)?)? {
        let place = format!("{file}: {name}");
        let entries = object(&place, value)?;
        if is_layered(&entries) {
            let rules = rules_of(&place, entries)?;
            sets.push(ModelRules { engine: NAMELESS_ENGINE.to_owned(), model: name, rules });
            continue;
        }
        for (model, value) in entries {
            let place = format!("{place} / {model}");
            let rules = rules_of(&place, object(&place, value)?)?;
            sets.push(ModelRules { engine: name.clone(), model, rules });
        }
    }
    if sets.is_empty() {
        return Err(Error::rules(
            file,
            "holds no rules; expected {\"engine\": {\"model\": {\"regex\": \"category\"}}}",
        ));
    }
    if sets.iter().map(|set| set.rules.len()).sum::<usize>() > MAX_RULES {
        return Err(Error::rules(file, format!("holds more than {MAX_RULES} rules")));
    }
    Ok(sets)
}

/// Is this JSON text a rule file of either shape, be it with mistakes in single rules?
///
/// True where every top-level value is an object of objects and some string stands in one of these; a trace or a report never is.
pub fn looks_like_rules(text: &str) -> bool {
    if text.len() > MAX_FILE_BYTES {
        return false;
    }
    let Ok(Json::Object(engines)) = read_json("", text) else {
        return false;
    };
    let mut models = Vec::new();
    for (_, engine) in &engines {
        let Json::Object(entries) = engine else {
            return false;
        };
        models.extend(entries.iter().map(|(_, model)| model));
    }
    models.iter().all(|model| matches!(model, Json::Object(_))) && models.into_iter().any(holds_a_string)
}

/// Does this JSON text have the shape of a phase map: names whose values are texts or lists?
pub fn looks_like_phases(text: &str) -> bool {
    let is_patterns = |value: &Json| matches!(value, Json::String(_) | Json::Array(_));
    let Ok(Json::Object(phases)) = read_json("", text) else { return false };
    text.len() <= MAX_FILE_BYTES && !phases.is_empty() && phases.iter().all(|(_, value)| is_patterns(value))
}

/// Compiles one rule; `place` names file, engine and model.
pub(super) fn compile(place: &str, rule: &Rule) -> Result<Matcher> {
    Matcher::new(&rule.regex).map_err(|why| {
        Error::rules(format!("{place} / {}", rule.regex), format!("not a regex that can be used: {why}"))
    })
}

pub(super) fn read_json(file: &str, text: &str) -> Result<Json> {
    // Editors on Windows put a byte order mark in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    Json::parse(text).map_err(|error| {
        Error::rules(
            file,
            format!("not valid JSON: {error} (keys and strings stand in double quotes, no comma after the last entry)"),
        )
    })
}

fn object(place: &str, value: Json) -> Result<Vec<(String, Json)>> {
    match value {
        Json::Object(entries) => Ok(entries),
        other => Err(Error::rules(
            place,
            format!(
                "expected an object, found {}; the shape is {{\"engine\": {{\"model\": {{\"regex\": \"category\"}}}}}}",
                other.kind()
            ),
        )),
    }
}

/// The first gputrc2graph put every model's rules under `layer_anno`, beside a constant `Stage`.
fn is_layered(model: &[(String, Json)]) -> bool {
    matches!(model, [(key, Json::Object(layers))] if key == "layer_anno" && layers.iter().any(|(layer, _)| layer == "Substage"))
}

/// Parts of a bar that are no category of any op.
const RESERVED: [&str; 2] = [CPU, SHARED];

fn rules_of(place: &str, model: Vec<(String, Json)>) -> Result<Vec<Rule>> {
    let entries = if is_layered(&model) { substage(place, model)? } else { model };
    let mut rules = Vec::with_capacity(entries.len());
    for (regex, value) in entries {
        match value {
            Json::String(category) if RESERVED.contains(&category.as_str()) => {
                let why = format!(
                    "`{category}` is what gpuprism calls time without GPU work or of several ops at once: take another name"
                );
                return Err(Error::rules(format!("{place} / {regex}"), why));
            }
            Json::String(category) => rules.push(Rule { regex, category, file: String::new() }),
            other => {
                let why = format!("the category must be a string, found {}", other.kind());
                return Err(Error::rules(format!("{place} / {regex}"), why));
            }
        }
    }
    if rules.is_empty() {
        return Err(Error::rules(place, "holds no rules"));
    }
    Ok(rules)
}

fn substage(place: &str, model: Vec<(String, Json)>) -> Result<Vec<(String, Json)>> {
    let mut rules = Vec::new();
    for (key, layers) in model {
        let place = format!("{place} / {key}");
        for (layer, value) in object(&place, layers)? {
            let place = format!("{place} / {layer}");
            match layer.as_str() {
                "Substage" => rules.extend(object(&place, value)?),
                "Stage" => {}
                _ => {
                    return Err(Error::rules(place, "unknown layer; expected Stage and Substage"));
                }
            }
        }
    }
    Ok(rules)
}

fn holds_a_string(value: &Json) -> bool {
    match value {
        Json::Object(entries) => entries.iter().any(|(_, value)| holds_a_string(value)),
        Json::String(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        parse("a.json", text).unwrap_err().to_string()
    }

    #[test]
    fn the_nested_shape_gives_the_rules_of_its_substage() {
        let nested =
            r#"{"llama": {"layer_anno": {"Stage": {".*": "layer"}, "Substage": {"gemm": "gemm", ".*": "misc"}}}}"#;
        let with_engine = format!(r#"{{"vllm": {nested}}}"#);
        let flat = parse("a.json", r#"{"vllm": {"llama": {"gemm": "gemm", ".*": "misc"}}}"#).unwrap();
        assert_eq!(parse("a.json", &with_engine).unwrap(), flat);
        let without_engine = parse("a.json", nested).unwrap();
        assert_eq!((without_engine[0].engine.as_str(), without_engine[0].model.as_str()), ("custom", "llama"));
        assert_eq!(without_engine[0].rules, flat[0].rules);
    }

    #[test]
    fn an_error_names_file_engine_model_and_rule() {
        assert_eq!(
            said(r#"{"e": {"m": {"gemm": 1}}}"#),
            "a.json: e / m / gemm: the category must be a string, found a number"
        );
        assert_eq!(
            said(r#"{"e": {"m": {"gemm": {"x": "y"}}}}"#),
            "a.json: e / m / gemm: the category must be a string, found an object"
        );
        assert!(
            said(r#"{"e": {"m": {"nccl": "CPU (non-GPU)"}}}"#)
                .starts_with("a.json: e / m / nccl: `CPU (non-GPU)` is what")
        );
        assert!(said(r#"{"e": {"m": ["gemm"]}}"#).starts_with("a.json: e / m: expected an object, found an array"));
        assert!(said(r#"{"e": "gemm"}"#).starts_with("a.json: e: expected an object, found a string"));
        assert!(said("[]").starts_with("a.json: expected an object, found an array"));
        assert_eq!(said(r#"{"e": {"m": {}}}"#), "a.json: e / m: holds no rules");
        assert!(said(r#"{"e": {}}"#).starts_with("a.json: holds no rules"));
        let layer = r#"{"m": {"layer_anno": {"Substage": {"a": "b"}, "Kernel": {"a": "b"}}}}"#;
        assert_eq!(said(layer), "a.json: m / layer_anno / Kernel: unknown layer; expected Stage and Substage");
    }

    #[test]
    fn invalid_json_is_named_by_line_and_column() {
        let error = said("{'e': {'m': {'gemm': 'gemm'}}}");
        assert!(error.starts_with("a.json: not valid JSON: ") && error.contains("line 1 column 2"), "{error}");
        assert!(error.contains("double quotes"), "{error}");
        assert!(said("{\"e\": {\n\"m\": {\"a\": \"b\",}}}").contains("line 2 column 16"));
        assert!(said("").contains("not valid JSON"));
    }

    #[test]
    fn hostile_files_are_refused_in_a_sentence() {
        assert!(said(&"{\"a\":".repeat(100_000)).contains("not valid JSON"));
        assert!(said(&" ".repeat(MAX_FILE_BYTES + 1)).contains("larger than 4 MiB"));
        let rules: Vec<String> = (0..=MAX_RULES).map(|rule| format!("\"r{rule}\":\"c\"")).collect();
        assert!(said(&format!("{{\"e\":{{\"m\":{{{}}}}}}}", rules.join(","))).contains("more than 10000 rules"));
    }

    #[test]
    fn a_byte_order_mark_is_no_error() {
        assert_eq!(parse("a.json", "\u{feff}{\"e\": {\"m\": {\"a\": \"b\"}}}").unwrap().len(), 1);
    }

    #[test]
    fn rule_files_are_told_from_traces_and_reports() {
        for text in [
            r#"{"e": {"m": {"gemm": "gemm"}}}"#,
            r#"{"m": {"layer_anno": {"Stage": {".*": "layer"}, "Substage": {"a": "b"}}}}"#,
            r#"{"e": {"m": {"gemm": "gemm", "norm": 3}}}"#,
        ] {
            assert!(looks_like_rules(text), "{text}");
        }
        for text in [
            "",
            "{}",
            "[]",
            r#"{"e": {}}"#,
            r#"{"e": {"m": {}}}"#,
            r#"{"traceEvents": [], "schemaVersion": 1}"#,
            r#"{"traceEvents": [{"ph": "X"}]}"#,
            r#"{"version": 1, "runs": []}"#,
            "{'e': {'m': {'gemm': 'gemm'}}}",
        ] {
            assert!(!looks_like_rules(text), "{text}");
        }
    }
}
