//! Generates the JSON reference of the documentation in two parts: the fields of a report, from the types and doc comments in the
//! source code, and the columns of all sections, from the output of each command for the example trace.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use syn::{Attribute, Fields, GenericArgument, Item, PathArguments, Type};

use super::{Program, cell};
use crate::project;

/// The type of a report. Its fields lead to all other types.
const ROOT: &str = "Report";

/// Types that the reference does not list, and how it describes their JSON.
const LEAF_TYPES: [(&str, &str); 8] = [
    ("String", "text"),
    ("bool", "boolean"),
    ("u64", "integer"),
    ("u32", "integer"),
    ("usize", "integer"),
    ("i64", "integer"),
    ("f64", "number"),
    ("Record", "object; each value is text, a number, a boolean or null"),
];

pub fn reference(program: &Program) -> Result<String> {
    let mut text = types(&Sources::read(&project::root().join("src"))?)?;
    text += &sections(program)?;
    Ok(text.trim_end().to_owned() + "\n")
}

/// The serialised types of the library by name, and its type aliases.
#[derive(Default)]
struct Sources {
    types: BTreeMap<String, Vec<(PathBuf, Item)>>,
    aliases: BTreeMap<String, Type>,
}

impl Sources {
    fn read(directory: &Path) -> Result<Self> {
        let mut sources = Self::default();
        for path in crate::page::files_under(directory)? {
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = fs::read_to_string(&path)?;
            let file = syn::parse_file(&text).with_context(|| format!("cannot parse {}", path.display()))?;
            file.items.into_iter().for_each(|item| sources.add(&path, item));
        }
        Ok(sources)
    }

    fn add(&mut self, path: &Path, item: Item) {
        match &item {
            Item::Struct(found) if is_serialised(&found.attrs) => {
                self.types.entry(found.ident.to_string()).or_default().push((path.to_owned(), item));
            }
            Item::Enum(found) if is_serialised(&found.attrs) => {
                self.types.entry(found.ident.to_string()).or_default().push((path.to_owned(), item));
            }
            Item::Type(alias) if alias.generics.params.is_empty() => {
                self.aliases.insert(alias.ident.to_string(), (*alias.ty).clone());
            }
            _ => {}
        }
    }

    /// Finds the type that a name in the file `used_in` refers to: the type of this file, or the only type of this name.
    fn find(&self, name: &str, used_in: &Path) -> Result<&(PathBuf, Item)> {
        let types = self.types.get(name).map_or(&[][..], Vec::as_slice);
        match (types.iter().find(|(path, _)| path == used_in), types) {
            (Some(found), _) | (None, [found]) => Ok(found),
            _ => bail!("{} serialised types are called {name}: the JSON reference needs one", types.len()),
        }
    }
}

fn types(sources: &Sources) -> Result<String> {
    let mut text = "## Fields of a report\n\n".to_owned();
    // The names of the types to list, each with the first file that uses it.
    let mut queue = vec![(ROOT.to_owned(), project::root().join("src/report/mod.rs"))];
    let mut next = 0;
    while let Some((name, used_in)) = queue.get(next).cloned() {
        next += 1;
        let (path, item) = sources.find(&name, &used_in)?;
        let mut describe_and_queue = |field: &Type| -> Result<String> {
            let (description, links) = describe(field, sources)?;
            for name in links {
                if queue.iter().all(|(known, _)| *known != name) {
                    queue.push((name, path.clone()));
                }
            }
            Ok(description)
        };
        match item {
            Item::Struct(found) => {
                text += &format!("### {name}\n\n{}\n\n", docs(&found.attrs));
                text += "| field | type | unit | meaning |\n|---|---|---|---|\n";
                let Fields::Named(fields) = &found.fields else { bail!("{name} has fields without names") };
                for field in &fields.named {
                    let key = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
                    let description = describe_and_queue(&field.ty)?;
                    text += &format!("| `{key}` | {description} | {} | {} |\n", unit(&key), cell(&docs(&field.attrs)));
                }
            }
            Item::Enum(found) => {
                text += &format!("### {name}\n\n{}\n\n| value | meaning |\n|---|---|\n", docs(&found.attrs));
                for variant in &found.variants {
                    let value = snake_case(&variant.ident.to_string());
                    text += &format!("| `\"{value}\"` | {} |\n", cell(&docs(&variant.attrs)));
                }
            }
            _ => {}
        }
        text.push('\n');
    }
    Ok(text)
}

/// Describes the JSON of a field's type. Also returns the names of the types that the description links to.
fn describe(field: &Type, sources: &Sources) -> Result<(String, Vec<String>)> {
    let Type::Path(path) = field else { bail!("the JSON reference knows no type of this form") };
    let Some(last) = path.path.segments.last() else { bail!("a type without a name") };
    let name = last.ident.to_string();
    let inner: Vec<&Type> = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => {
            let types = arguments.args.iter();
            types
                .filter_map(|argument| if let GenericArgument::Type(inner) = argument { Some(inner) } else { None })
                .collect()
        }
        _ => Vec::new(),
    };
    if let Some((_, description)) = LEAF_TYPES.iter().find(|(leaf, _)| *leaf == name) {
        return Ok(((*description).to_owned(), Vec::new()));
    }
    if let Some(alias) = sources.aliases.get(&name) {
        return describe(alias, sources);
    }
    match (name.as_str(), inner.as_slice()) {
        ("Option", [value]) => describe(value, sources).map(|(text, links)| (format!("{text}, or null"), links)),
        ("Vec", [element]) => describe(element, sources).map(|(text, links)| (format!("list: {text}"), links)),
        ("BTreeMap", [_, value]) => {
            describe(value, sources).map(|(text, links)| (format!("object: name to {text}"), links))
        }
        (_, []) => Ok((format!("[{name}](#{})", name.to_lowercase()), vec![name])),
        _ => bail!("the JSON reference does not know the type {name}"),
    }
}

fn is_serialised(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let mut serialised = false;
        if attribute.path().is_ident("derive") {
            let _ = attribute.parse_nested_meta(|meta| {
                serialised |= meta.path.is_ident("Serialize");
                Ok(())
            });
        }
        serialised
    })
}

/// The doc comment in one line. Links to code become plain code.
fn docs(attributes: &[Attribute]) -> String {
    let mut words = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let syn::Meta::NameValue(pair) = &attribute.meta
            && let syn::Expr::Lit(literal) = &pair.value
            && let syn::Lit::Str(line) = &literal.lit
        {
            words.push(line.value().trim().to_owned());
        }
    }
    words.join(" ").replace("[`", "`").replace("`]", "`").trim().to_owned()
}

/// The unit by the suffix of a key; empty if there is none.
fn unit(key: &str) -> &'static str {
    UNITS.iter().find(|(suffix, _)| key.ends_with(suffix)).map_or("", |(_, unit)| unit)
}

/// Suffixes of keys and their units.
const UNITS: [(&str, &str); 11] = [
    ("gb_per_s", "GB/s"),
    ("tb_per_s", "TB/s"),
    ("_per_s", "1/s"),
    ("_ns", "ns"),
    ("_us", "µs"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("_pct", "%"),
    ("_share", "0 to 1"),
    ("_fraction", "0 to 1"),
    ("bytes", "bytes"),
];

fn snake_case(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

/// Describes the columns and figures of each section that a command writes for the example trace.
fn sections(program: &Program) -> Result<String> {
    let (mut sections, mut all) = (BTreeMap::new(), Vec::new());
    for (command, output) in outputs(program)? {
        let places = ["/runs/0/sections", "/sections", ""];
        let found = places.iter().filter_map(|place| output.pointer(place)?.as_object());
        for (name, section) in found.flatten().filter(|(_, section)| section.get("columns").is_some()) {
            all.push(section.clone());
            sections.entry(name.clone()).or_insert_with(|| (command, section.clone()));
        }
    }
    let types = value_types(all.iter());
    let declared = program.declared_sections()?;
    let titles = Titles::read(&declared)?;
    let mut text = "## Sections\n\n".to_owned();
    for (name, (command, section)) in &sections {
        let text_of = |key: &str| section[key].as_str().unwrap_or_default();
        text += &format!("### {name}\n\n{} (`gpuprism {command}`).", text_of("title"));
        if !text_of("derived_from").is_empty() {
            text += &format!(" Derived from: {}.", text_of("derived_from").trim_end_matches('.'));
        }
        text += "\n\n";
        let columns = section["columns"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let figures = section["summary"].as_object().into_iter().flatten().map(|(figure, _)| figure.as_str());
        for (heading, keys) in [("column", columns.collect::<Vec<_>>()), ("figure of `summary`", figures.collect())] {
            if keys.is_empty() {
                continue;
            }
            text += &format!("| {heading} | type | unit | title |\n|---|---|---|---|\n");
            for key in keys {
                // A key without values in the example gets its type from its unit.
                let default = match unit(key) {
                    "" => "",
                    "ns" => "integer",
                    _ => "number",
                };
                let kind = types.get(key).copied().unwrap_or(default);
                text += &format!("| `{key}` | {kind} | {} | {} |\n", unit(key), cell(&titles.of(name, key)));
            }
            text.push('\n');
        }
    }
    Ok(text)
}

/// The type of each key, from its values in all sections; `number` if only some values are integers.
fn value_types<'a>(sections: impl Iterator<Item = &'a Value>) -> BTreeMap<&'a str, &'static str> {
    let mut types = BTreeMap::new();
    for section in sections {
        let rows = section["rows"].as_array().into_iter().flatten();
        for (key, value) in rows.chain([&section["summary"]]).filter_map(Value::as_object).flatten() {
            let kind = match value {
                Value::Number(number) if number.is_f64() => "number",
                Value::Number(_) => "integer",
                Value::String(_) => "text",
                Value::Bool(_) => "boolean",
                _ => continue,
            };
            let known = types.entry(key.as_str()).or_insert(kind);
            if kind == "number" {
                *known = kind;
            }
        }
    }
    types
}

/// Titles of columns.
struct Titles<'a> {
    /// By section and key, from the declarations of the sections.
    declared: BTreeMap<(&'a str, &'a str), &'a str>,
    /// `patterns/sections.json`.
    config: Value,
}

impl<'a> Titles<'a> {
    /// `declared` has lines of section, key and title, separated by tabs.
    fn read(declared: &'a str) -> Result<Self> {
        let path = project::root().join("patterns/sections.json");
        let config = serde_json::from_str(&fs::read_to_string(path)?)?;
        let columns = declared.lines().filter_map(|line| {
            let (section, column) = line.split_once('\t')?;
            let (key, title) = column.split_once('\t')?;
            Some(((section, key), title))
        });
        Ok(Self { declared: columns.collect(), config })
    }

    /// The title without its unit: the declared one, or that of the key, or the words of the key as a title.
    fn of(&self, section: &str, key: &str) -> String {
        let stem = UNITS
            .iter()
            .find_map(|(suffix, _)| key.strip_suffix(suffix))
            .map_or(key, |stem| stem.trim_end_matches('_'));
        let stem = if stem.is_empty() { key } else { stem };
        let declared = self.declared.get(&(section, key)).copied();
        let listed = || [key, stem].into_iter().find_map(|name| self.config["columns"][name].as_str());
        let words = stem.split('_').map(|word| self.config["words"][word].as_str().unwrap_or(word));
        declared.or_else(listed).map_or_else(|| capitalized(&words.collect::<Vec<_>>().join(" ")), str::to_owned)
    }
}

/// The words with a capital at the beginning.
fn capitalized(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The JSON output of each command for the example trace.
fn outputs(program: &Program) -> Result<Vec<(&'static str, Value)>> {
    let directory = std::env::temp_dir().join(format!("gpuprism-book-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let (first, second) = (directory.join("rank0.json"), directory.join("rank1.json"));
    let phases = directory.join("phases.json");
    program.write_example(&first)?;
    // `ranks` needs the traces of two ranks, so the second trace is a copy with another rank.
    let text = fs::read_to_string(&first)?;
    let other = text.replacen("\"rank\": 0", "\"rank\": 1", 1).replacen("\"rank\":0", "\"rank\":1", 1);
    fs::write(&second, other)?;
    let start = directory.join("start.json");
    fs::write(&start, with_start(&text)?)?;
    fs::write(&phases, r#"{"prefill": "prefill", "decode": "decode"}"#)?;
    let (first, second, phases) = (first.to_string_lossy(), second.to_string_lossy(), phases.to_string_lossy());
    let start = start.to_string_lossy();
    let mut outputs = Vec::new();
    for (command, arguments) in [
        ("report", vec!["--phase-map", &phases, &first]),
        ("report", vec![&*start]),
        ("triage", vec![&*first]),
        ("diff", vec![&first, &second]),
        ("ranks", vec![&first, &second]),
        ("rules", vec![&first]),
        ("pivot", vec!["--rows", "category", &first]),
    ] {
        let printed = program.gpuprism(&[&[command, "--format", "json"], arguments.as_slice()].concat())?;
        outputs.push((command, serde_json::from_str(&printed).with_context(|| format!("{command} printed no JSON"))?));
    }
    fs::remove_dir_all(&directory)?;
    Ok(outputs)
}

/// The example trace with a program that loads code until its first step has begun.
fn with_start(trace: &str) -> Result<String> {
    const LOAD_US: f64 = 10_000.0;
    let mut trace: Value = serde_json::from_str(trace)?;
    let events = trace["traceEvents"].as_array_mut().context("the example has no events")?;
    let of_class = |event: &&Value, class: &str| event["cat"] == class;
    let first_start = |class: &str| {
        let starts = events.iter().filter(|event| of_class(event, class)).filter_map(|event| event["ts"].as_f64());
        starts.min_by(f64::total_cmp).with_context(|| format!("the example has no {class}"))
    };
    let end = first_start("user_annotation")?.max(first_start("cuda_runtime")?) + 1.0;
    let mut load = events.iter().find(|event| of_class(event, "cuda_runtime")).context("no call")?.clone();
    for (key, value) in [
        ("name", Value::from("cuLibraryLoadData")),
        ("ts", Value::from(end - LOAD_US)),
        ("dur", Value::from(LOAD_US)),
        ("args", serde_json::json!({})),
    ] {
        load[key] = value;
    }
    events.push(load);
    Ok(trace.to_string())
}

/// Checks that the prose of the JSON chapter names every key in the output of `diff`, `ranks` and `pivot`. These outputs are not
/// reports, so the reference does not list their fields.
pub fn check_prose(chapter: &str, prose: &str, program: &Program) -> Result<()> {
    if chapter != "json.md" {
        return Ok(());
    }
    for (command, output) in outputs(program)? {
        if matches!(command, "diff" | "ranks" | "pivot") {
            let missing: Vec<String> = keys(&output).filter(|key| !prose.contains(&format!("`{key}`"))).collect();
            if !missing.is_empty() {
                bail!("docs/json.md does not describe these keys of `{command}`: {}", missing.join(", "));
            }
        }
    }
    Ok(())
}

/// The keys of an object and of all objects in it, except those in `sections`. Only the first element of an array counts.
fn keys(value: &Value) -> Box<dyn Iterator<Item = String> + '_> {
    match value {
        Value::Object(members) => Box::new(
            members
                .iter()
                .filter(|(key, _)| *key != "sections")
                .flat_map(|(key, value)| std::iter::once(key.clone()).chain(keys(value))),
        ),
        Value::Array(elements) => Box::new(elements.first().into_iter().flat_map(keys)),
        _ => Box::new(std::iter::empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::{docs, snake_case, unit};

    #[test]
    fn names_units_and_docs_follow_the_source() {
        assert_eq!(snake_case("RaisedToBusy"), "raised_to_busy");
        assert_eq!((unit("wall_ns"), unit("busy_share"), unit("count")), ("ns", "0 to 1", ""));
        let item: syn::ItemStruct = syn::parse_quote! {
            /// Of [`Wall::bar_ns`],
            /// in parts.
            struct A;
        };
        assert_eq!(docs(&item.attrs), "Of `Wall::bar_ns`, in parts.");
    }
}
