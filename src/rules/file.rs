//! Parses the text of one rule file into lists of rules. Regexes are compiled later.
//!
//! Two layouts of gputrc2graph are accepted: `{"engine": {"model": {"regex": "category"}}}`, and an older one with the rules
//! of a model under `layer_anno` / `Substage`. The older one may lack the engine level; its engine is then `custom`.
//! A category may be an object `{"category": "reduce", "generic": true}`: other evidence than the name may replace it.
//! Error messages name file, engine, model and rule.

use super::matcher::Matcher;
use super::{CPU, GRAPHS, SHARED};
use crate::json::Json;
use crate::{Error, Result};

/// The engine of rules from a file without an engine level.
const DEFAULT_ENGINE: &str = "custom";

/// Far above any real rule file (the largest known one has 25 rules) and far below a size that would stall a browser tab.
pub(super) const MAX_FILE_BYTES: usize = 4 << 20;
pub(super) const MAX_RULES: usize = 10_000;

/// The rules of one engine and model, in order. In a file, a regex may occur twice.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelRules {
    pub(super) engine: String,
    pub(super) model: String,
    pub(super) rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) regex: String,
    pub(super) category: String,
    /// The file that defined it last; empty before the rule is merged into a book.
    pub(super) file: String,
    /// The regex matches kernels of several categories, so better evidence than the name may replace the category.
    pub(super) is_generic: bool,
    pub(super) is_built_in: bool,
}

impl Rule {
    pub(super) fn new(regex: String, category: String) -> Self {
        Self { regex, category, file: String::new(), is_generic: false, is_built_in: false }
    }
}

/// Parses the text of a rule file without compiling the regexes.
pub(super) fn parse(file: &str, text: &str) -> Result<Vec<ModelRules>> {
    if text.len() > MAX_FILE_BYTES {
        return Err(Error::rules(file, "larger than 4 MiB, the limit for a rule file"));
    }
    let mut sets = Vec::new();
    for (name, value) in object(file, read_json(file, text)?)?.members() {
        let location = format!("{file}: {name}");
        let entries = object(&location, value)?;
        if is_layered(entries) {
            let rules = rules_of(&location, entries)?;
            sets.push(ModelRules { engine: DEFAULT_ENGINE.to_owned(), model: name.into_owned(), rules });
            continue;
        }
        for (model, value) in entries.members() {
            let location = format!("{location} / {model}");
            let rules = rules_of(&location, object(&location, value)?)?;
            sets.push(ModelRules { engine: name.clone().into_owned(), model: model.into_owned(), rules });
        }
    }
    if sets.is_empty() {
        let why = r#"no rules in the file; expected {"engine": {"model": {"regex": "category"}}}"#;
        return Err(Error::rules(file, why));
    }
    if sets.iter().map(|set| set.rules.len()).sum::<usize>() > MAX_RULES {
        return Err(Error::rules(file, format!("more than {MAX_RULES} rules, the limit for a rule file")));
    }
    Ok(sets)
}

/// Returns true if the text is a JSON rule file of either layout, even if single rules in it are invalid.
///
/// The test: every top-level value is an object of objects, and at least one of these contains a string. Traces and reports
/// never pass it.
pub fn looks_like_rules(text: &str) -> bool {
    if text.len() > MAX_FILE_BYTES {
        return false;
    }
    let Ok(json @ Json::Object(_)) = read_json("", text) else { return false };
    let is_object = |json: Json| matches!(json, Json::Object(_));
    let is_engine = |engine: Json| is_object(engine) && engine.members().all(|(_, model)| is_object(model));
    json.members().all(|(_, engine)| is_engine(engine))
        && json.members().any(|(_, engine)| engine.members().any(|(_, model)| contains_string(model)))
}

/// Returns true if the text is a JSON object whose values are all strings or lists, as in a phase map.
pub fn looks_like_phase_map(text: &str) -> bool {
    let is_patterns = |value: Json| matches!(value, Json::String(_) | Json::Array(_));
    let small = Some(text).filter(|text| text.len() <= MAX_FILE_BYTES);
    let Some(Ok(json @ Json::Object(phases))) = small.map(|text| read_json("", text)) else { return false };
    !phases.is_empty() && json.members().all(|(_, value)| is_patterns(value))
}

/// Compiles one rule. `location` names file, engine and model in the error message.
pub(super) fn compile(location: &str, rule: &Rule) -> Result<Matcher> {
    Matcher::new(&rule.regex)
        .map_err(|why| Error::rules(format!("{location} / {}", rule.regex), format!("unusable regex: {why}")))
}

pub(super) fn read_json<'a>(file: &str, text: &'a str) -> Result<Json<'a>> {
    // Some editors on Windows start a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    Json::parse(text).map_err(|error| {
        let advice = "use double quotes for keys and strings, and no comma after the last entry";
        Error::rules(file, format!("not valid JSON: {error} ({advice})"))
    })
}

fn object<'a>(location: &str, value: Json<'a>) -> Result<Json<'a>> {
    match value {
        Json::Object(_) => Ok(value),
        other => {
            let structure = r#"{"engine": {"model": {"regex": "category"}}}"#;
            let why = format!("expected an object, found {}; the structure is {structure}", other.kind());
            Err(Error::rules(location, why))
        }
    }
}

/// The first version of gputrc2graph put the rules of a model under `layer_anno` / `Substage`, next to a constant `Stage`.
fn is_layered(model: Json<'_>) -> bool {
    let mut members = model.members();
    let only = members.next().filter(|_| members.next().is_none());
    only.is_some_and(|(key, layers)| key == "layer_anno" && layers.get_path(&["Substage"]).is_some())
}

/// Names that gpuprism uses for parts of the time bar that belong to no GPU op or to several.
const RESERVED: [&str; 3] = [CPU, SHARED, GRAPHS];

fn rules_of(location: &str, model: Json<'_>) -> Result<Vec<Rule>> {
    let entries = if is_layered(model) { substage(location, model)? } else { vec![model] };
    let mut rules = Vec::new();
    for (regex, value) in entries.into_iter().flat_map(Json::members) {
        rules.push(rule(&format!("{location} / {regex}"), regex.clone().into_owned(), value)?);
    }
    if rules.is_empty() {
        return Err(Error::rules(location, "no rules in this entry"));
    }
    Ok(rules)
}

fn rule(location: &str, regex: String, value: Json<'_>) -> Result<Rule> {
    let (value, is_generic) = category_and_flag(location, value)?;
    let Some(category) = value.text() else {
        return Err(Error::rules(location, format!("the category must be a string, found {}", value.kind())));
    };
    if RESERVED.contains(&category.as_ref()) {
        let why = format!(
            "the category name `{category}` is reserved for time without GPU work or with several GPU ops at once: use \
             another name"
        );
        return Err(Error::rules(location, why));
    }
    Ok(Rule { is_generic, ..Rule::new(regex, category.into_owned()) })
}

/// Splits the value of a rule: a category, or an object `{"category": "reduce", "generic": true}`.
fn category_and_flag<'a>(location: &str, value: Json<'a>) -> Result<(Json<'a>, bool)> {
    match value {
        Json::Object(_) if value.get_path(&["category"]).is_some() => {
            let (mut category, mut is_generic) = (Json::Null, false);
            for (key, value) in value.members() {
                match (key.as_ref(), value) {
                    ("category", value) => category = value,
                    ("generic", Json::Bool(flag)) => is_generic = flag,
                    _ => {
                        let why =
                            format!("unexpected member `{key}`: expected `category` and `generic` (true or false)");
                        return Err(Error::rules(location, why));
                    }
                }
            }
            Ok((category, is_generic))
        }
        other => Ok((other, false)),
    }
}

/// The objects with the rules of a model in the older layout.
fn substage<'a>(location: &str, model: Json<'a>) -> Result<Vec<Json<'a>>> {
    let mut rules = Vec::new();
    for (key, layers) in model.members() {
        let location = format!("{location} / {key}");
        for (layer, value) in object(&location, layers)?.members() {
            let location = format!("{location} / {layer}");
            match layer.as_ref() {
                "Substage" => rules.push(object(&location, value)?),
                "Stage" => {}
                _ => return Err(Error::rules(location, "unknown layer; expected Stage and Substage")),
            }
        }
    }
    Ok(rules)
}

fn contains_string(value: Json<'_>) -> bool {
    match value {
        Json::Object(_) => value.members().any(|(_, value)| contains_string(value)),
        Json::String(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(text: &str) -> String {
        parse("a.json", text).unwrap_err().to_string()
    }

    #[test]
    fn the_layered_layout_yields_the_rules_of_its_substage() {
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
        for (text, expected) in [
            (r#"{"e": {"m": {"gemm": 1}}}"#, "e / m / gemm: the category must be a string, found a number"),
            (r#"{"e": {"m": {"gemm": {"x": "y"}}}}"#, "e / m / gemm: the category must be a string, found an object"),
            (r#"{"e": {"m": {"a": "CPU (non-GPU)"}}}"#, "e / m / a: the category name `CPU (non-GPU)` is reserved"),
            (r#"{"e": {"m": ["gemm"]}}"#, "e / m: expected an object, found an array"),
            (r#"{"e": "gemm"}"#, "e: expected an object, found a string"),
            ("[]", "expected an object, found an array"),
            (r#"{"e": {"m": {}}}"#, "e / m: no rules in this entry"),
            (r#"{"e": {}}"#, "no rules in the file"),
            (
                r#"{"m": {"layer_anno": {"Substage": {"a": "b"}, "Kernel": {"a": "b"}}}}"#,
                "m / layer_anno / Kernel: unknown layer; expected Stage and Substage",
            ),
        ] {
            let error = error_of(text);
            assert!(error.starts_with(&format!("a.json: {expected}")), "{error}");
        }
    }

    #[test]
    fn an_error_for_invalid_json_names_line_and_column() {
        let error = error_of("{'e': {'m': {'gemm': 'gemm'}}}");
        assert!(error.starts_with("a.json: not valid JSON: ") && error.contains("line 1 column 2"), "{error}");
        assert!(error.contains("double quotes"), "{error}");
        assert!(error_of("{\"e\": {\n\"m\": {\"a\": \"b\",}}}").contains("line 2 column 16"));
        assert!(error_of("").contains("not valid JSON"));
    }

    #[test]
    fn deeply_nested_and_oversized_files_are_rejected() {
        assert!(error_of(&"{\"a\":".repeat(100_000)).contains("not valid JSON"));
        assert!(error_of(&" ".repeat(MAX_FILE_BYTES + 1)).contains("larger than 4 MiB"));
        let rules: Vec<String> = (0..=MAX_RULES).map(|rule| format!("\"r{rule}\":\"c\"")).collect();
        assert!(error_of(&format!("{{\"e\":{{\"m\":{{{}}}}}}}", rules.join(","))).contains("more than 10000 rules"));
    }

    #[test]
    fn a_byte_order_mark_is_accepted() {
        assert_eq!(parse("a.json", "\u{feff}{\"e\": {\"m\": {\"a\": \"b\"}}}").unwrap().len(), 1);
    }

    #[test]
    fn rule_files_are_distinguished_from_traces_and_reports() {
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
