//! Replaces private texts in a report by placeholders, for sharing. Two passes over the report, linear in its size.
//!
//! A text is public if each of its words is: a word that gpuprism itself can say, or a word of public kernels and libraries
//! (`vocabulary`). This does not depend on the place of the text: the report is processed as one JSON value, so new sections are
//! covered without changes here. The key of a text (`fields` in `patterns/redaction.json`) decides only the form of the
//! replacement: in a sentence each private word is replaced, other texts as a whole; labels of runs and models always are. A
//! name that a rule or a public namespace matches may still be private: rules match parts of names (`zorblax_gemm`), and template
//! arguments may be private.
//!
//! The first pass assigns placeholders to all fields, because a sentence may quote a field that comes later. The second pass
//! replaces the texts. In all of them it also finds secrets, addresses, paths and process ids,
//! which may consist of public words.
//!
//! Placeholders are numbered by first appearance, above the numbers of an earlier redaction, so redacting again changes
//! nothing. The label of a run keeps its rank and stage (`run 1 TP0 DECODE`), which comparisons need. Process and thread ids
//! are renumbered; other numbers and categories do not change.
//!
//! By default, the page replaces all kinds in a link, because links are pasted into chats and stay in browser histories, but
//! only secrets in a saved file.

#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod mask;
mod placeholders;
mod rules;
mod scanner;
#[cfg(test)]
mod tests;
mod vocabulary;
mod words;

use super::Report;
use crate::json::{self, FromJson, Json};
#[cfg(feature = "facts")]
pub(crate) use placeholders::rank_and_stage;
use placeholders::{Noun, Placeholders, is_placeholder};
use rules::RULES;
use scanner::{Scanner, number_of, public_part};
use serde::Serialize;
use std::collections::BTreeMap;
use vocabulary::is_public;

/// A kind of private text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Redaction {
    /// Access tokens, keys, passwords.
    Secrets,
    /// Names of files and folders, and code locations.
    Files,
    /// Host names, addresses, user names.
    Machines,
    /// Process and thread ids.
    Processes,
    /// Model names and server arguments.
    Models,
    /// Kernel names with private words.
    Kernels,
    /// Annotations, categories and all other names with private words.
    Names,
}

impl Redaction {
    /// All kinds, in display order.
    pub const ALL: [Self; 7] =
        [Self::Secrets, Self::Files, Self::Machines, Self::Processes, Self::Models, Self::Kernels, Self::Names];

    /// The stable id used by scripts and the page.
    pub fn id(self) -> &'static str {
        match self {
            Self::Secrets => "secrets",
            Self::Files => "files",
            Self::Machines => "machines",
            Self::Processes => "processes",
            Self::Models => "models",
            Self::Kernels => "kernels",
            Self::Names => "names",
        }
    }

    /// The displayed name.
    pub fn title(self) -> &'static str {
        match self {
            Self::Secrets => "Tokens, keys, passwords",
            Self::Files => "File names, paths, code locations",
            Self::Machines => "Hosts, addresses, users",
            Self::Processes => "Process and thread ids",
            Self::Models => "Models and server arguments",
            Self::Kernels => "Private kernel names",
            Self::Names => "Annotations and other private names",
        }
    }
}

/// The kinds of text to replace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redactions(Vec<Redaction>);

impl Redactions {
    /// All kinds.
    pub fn all() -> Self {
        Self(Redaction::ALL.to_vec())
    }

    /// The kinds with these ids.
    ///
    /// # Errors
    /// Returns the first unknown id.
    pub fn of<'a>(ids: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let find = |id: &'a str| Redaction::ALL.into_iter().find(|kind| kind.id() == id).ok_or_else(|| id.to_owned());
        ids.into_iter().map(find).collect::<Result<Vec<_>, _>>().map(Self)
    }

    fn has(&self, redaction: Redaction) -> bool {
        self.0.contains(&redaction)
    }
}

/// The replaced texts of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// The kind.
    pub redaction: Redaction,
    /// The number of distinct texts.
    pub count: usize,
    /// The first text; empty if there is none.
    pub example: String,
}

/// A summary of a redaction: one entry per kind, in the order of [`Redaction::ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted(pub Vec<Replaced>);

/// Replaces all private texts of the given kinds by placeholders. Equal texts get equal placeholders. The result depends
/// only on the report and the kinds.
pub fn redact(report: &Report, kinds: &Redactions) -> (Report, Redacted) {
    let (redacted, redactor) = Redactor::redact(report, kinds);
    (redacted, redactor.summary())
}

/// The kind of text in a field, from the list of `fields` in `patterns/redaction.json` that contains its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FieldKind {
    /// Sentences that gpuprism wrote, and labels that contain names.
    Sentences,
    File,
    Kernel,
    Category,
    CodeLocation,
    Model,
    Arguments,
    /// The text of an unlisted key.
    Name,
}

/// The kind of the field `key` in an object under the key `list`.
fn field_kind(list: &str, key: &str) -> FieldKind {
    let fields = &RULES.fields;
    let matches = |listed: &String| match listed.split_once('.') {
        Some((parent, child)) => parent == list && child == key,
        None => listed == key,
    };
    let kinds = [
        (&fields.categories, FieldKind::Category),
        (&fields.files, FieldKind::File),
        (&fields.kernels, FieldKind::Kernel),
        (&fields.places, FieldKind::CodeLocation),
        (&fields.models, FieldKind::Model),
        (&fields.arguments, FieldKind::Arguments),
        (&fields.words, FieldKind::Sentences),
    ];
    kinds.into_iter().find(|(keys, _)| keys.iter().any(matches)).map_or(FieldKind::Name, |(_, kind)| kind)
}

/// A text, key or integer in the JSON of the report.
enum Part<'a> {
    Text(&'a mut String),
    Key(&'a mut String),
    Int(&'a mut i64),
}

/// Calls `each` for every text, key and integer with the key of its list or object and its own key. Returns the JSON
/// with what `each` made of them. O(text * levels).
fn rewrite(json: Json<'_>, each: &mut dyn FnMut(&str, &str, Part)) -> String {
    // `black_box` works around a fault of LLVM 21 and 22: with constant arguments, the inner calls would keep the constant
    // `list` instead of the key passed to them. See docs/decisions/017-optimiser-fault.md.
    let outermost = std::hint::black_box("");
    let mut out = String::new();
    rewrite_within(json, (outermost, outermost), each, &mut out);
    out
}

fn rewrite_within(json: Json<'_>, (list, key): (&str, &str), each: &mut dyn FnMut(&str, &str, Part), out: &mut String) {
    match json {
        Json::String(text) => {
            let mut text = text.unescaped().into_owned();
            each(list, key, Part::Text(&mut text));
            *out += &json::write(&text);
        }
        Json::Int(mut number) => {
            each(list, key, Part::Int(&mut number));
            *out += &number.to_string();
        }
        Json::Array(_) => {
            out.push('[');
            for element in json.elements() {
                separate(out);
                rewrite_within(element, (list, key), each, out);
            }
            out.push(']');
        }
        Json::Object(_) => {
            out.push('{');
            for (name, value) in json.members() {
                // A key is redacted after its value, so that the numbers of placeholders follow the values.
                let mut inside = String::new();
                rewrite_within(value, (key, &name), each, &mut inside);
                let mut new_name = name.clone().into_owned();
                each(key, &name, Part::Key(&mut new_name));
                separate(out);
                *out += &json::write(&new_name);
                out.push(':');
                *out += &inside;
            }
            out.push('}');
        }
        Json::Null => *out += "null",
        Json::Bool(value) => *out += if value { "true" } else { "false" },
        Json::Large(number) => *out += &number.to_string(),
        Json::Float(number) => *out += &json::write(&number),
    }
}

/// Writes a comma unless a list or object starts here.
fn separate(out: &mut String) {
    if !out.ends_with(['[', '{']) {
        out.push(',');
    }
}

/// Replaces private texts, in a report and in what is drawn beside it.
#[derive(Debug)]
pub struct Redactor {
    scanner: Scanner,
    /// Texts of fields and their placeholders, longest first, to be replaced in sentences.
    field_texts: Vec<(String, String)>,
    /// Redacted texts by kind and original text.
    cache: BTreeMap<(FieldKind, String), String>,
}

impl Redactor {
    /// The redacted report, and what redacts other results of the same traces with the same placeholders.
    pub fn redact(report: &Report, kinds: &Redactions) -> (Report, Self) {
        let kernels = report.runs.iter().flat_map(|run| &run.kernels);
        let kernels = kernels.map(|kernel| (kernel.name.as_str(), kernel.short_name.as_str()));
        let (redacted, redactor) = Self::redact_json(&report.compact(), kernels, kinds);
        let mut redacted = redacted.unwrap_or_else(|| Report::new(Vec::new()));
        for (run, original) in redacted.runs.iter_mut().zip(&report.runs) {
            for (kernel, original) in run.kernels.iter_mut().zip(&original.kernels) {
                if kernel.name != original.name {
                    kernel.short_name.clone_from(&kernel.name);
                }
            }
        }
        (redacted, redactor)
    }

    /// What redacts sentences that belong to no report.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn empty(kinds: &Redactions) -> Self {
        Self::new("", kinds)
    }

    /// A redacted copy of results that are no report, of which `kernels` are the kernels with their short names; `None` if they cannot be
    /// written as JSON and read again.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn redact_results<'a, T: Serialize + FromJson>(
        results: &T,
        kernels: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Option<T> {
        Self::redact_json(&json::write(results), kernels, &Redactions::all()).0
    }

    /// A sentence without its private words.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn sentence(&mut self, text: &str) -> String {
        self.redacted(FieldKind::Sentences, text)
    }

    fn new(json: &str, kinds: &Redactions) -> Self {
        let scanner =
            Scanner { kinds: kinds.clone(), placeholders: Placeholders::new(json), processes: BTreeMap::new() };
        Self { scanner, field_texts: Vec::new(), cache: BTreeMap::new() }
    }

    /// The results in a JSON text, redacted, and what redacted them. Only texts and ids change, so the JSON still matches the schema.
    fn redact_json<'a, T: FromJson>(
        text: &str,
        kernels: impl Iterator<Item = (&'a str, &'a str)>,
        kinds: &Redactions,
    ) -> (Option<T>, Self) {
        let mut redactor = Self::new(text, kinds);
        let Ok(json) = Json::parse(text) else { return (None, redactor) };
        redactor.assign_kernels(kernels);
        redactor.assign_fields(json);
        redactor.cache.clear();
        (redactor.replaced(json), redactor)
    }

    /// A redacted copy of another result; `None` if it cannot be written as JSON and read again.
    pub(crate) fn redact_also<T: Serialize + FromJson>(&mut self, result: &T) -> Option<T> {
        self.replaced(Json::parse(&json::write(result)).ok()?)
    }

    /// The redacted name of a GPU op.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn redact_kernel(&mut self, name: &str) -> String {
        self.redacted(FieldKind::Kernel, name)
    }

    /// The redacted name of a call or range.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn redact_name(&mut self, name: &str) -> String {
        self.redacted(FieldKind::Name, name)
    }

    /// A redacted label, which contains names.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn redact_label(&mut self, label: &str) -> String {
        self.redacted(FieldKind::Sentences, label)
    }

    fn replaced<T: FromJson>(&mut self, json: Json<'_>) -> Option<T> {
        json::read(&rewrite(json, &mut |list, key, part| self.replace_value(list, key, part))).ok()
    }

    /// Assigns placeholders to private kernels. The short form of a name gets the same placeholder.
    fn assign_kernels<'a>(&mut self, kernels: impl Iterator<Item = (&'a str, &'a str)>) {
        if !self.scanner.kinds.has(Redaction::Kernels) {
            return;
        }
        for (name, short) in kernels {
            if is_public(name) {
                // Its short form is public too, but may be cut in the middle of a word and then not look public.
                self.scanner.placeholders.alias(Noun::Kernel, short, short);
            } else if !is_placeholder(name) {
                let placeholder = self.scanner.placeholders.assign(Noun::Kernel, name);
                if short != name && !is_public(short) {
                    self.scanner.placeholders.alias(Noun::Kernel, short, &placeholder);
                }
            }
        }
    }

    /// Assigns placeholders to all fields, and collects them in `field_texts` for sentences that quote them.
    fn assign_fields(&mut self, json: Json<'_>) {
        rewrite(json, &mut |list, key, part| {
            let Part::Text(text) = part else { return };
            self.scanner.learn_users(text);
            let kind = field_kind(list, key);
            if kind != FieldKind::Sentences {
                self.redacted(kind, text);
            }
        });
        self.field_texts = self.scanner.placeholders.longest_first();
        self.field_texts.retain(|(text, _)| is_specific(text));
        let stems: Vec<(String, String)> = self.field_texts.iter().filter_map(file_stem).collect();
        self.field_texts.extend(stems);
    }

    fn replace_value(&mut self, list: &str, key: &str, part: Part) {
        match part {
            Part::Text(text) => *text = self.redacted(field_kind(list, key), text),
            Part::Key(text) => *text = self.redacted(FieldKind::Name, text),
            Part::Int(number) if RULES.process_ids.iter().any(|id| id == key) => {
                if self.scanner.kinds.has(Redaction::Processes) {
                    *number = number_of(&mut self.scanner.processes, *number);
                }
            }
            Part::Int(_) => {}
        }
    }

    /// The text without its private parts, from the cache if possible.
    fn redacted(&mut self, kind: FieldKind, text: &str) -> String {
        if text.is_empty() || is_placeholder(text) {
            return text.to_owned();
        }
        let key = (kind, text.to_owned());
        if let Some(cached) = self.cache.get(&key) {
            return cached.clone();
        }
        let redacted = self.redact_text(kind, text);
        self.cache.insert(key, redacted.clone());
        redacted
    }

    fn redact_text(&mut self, kind: FieldKind, text: &str) -> String {
        let placeholders = &mut self.scanner.placeholders;
        let has = |redaction| self.scanner.kinds.has(redaction);
        match kind {
            FieldKind::Sentences => self.without_private_parts(text),
            FieldKind::File if has(Redaction::Files) => placeholders.assign(Noun::Run, text),
            FieldKind::Model if has(Redaction::Models) => placeholders.assign(Noun::Model, text),
            FieldKind::Kernel if is_public(text) => self.scanner.without_secrets(text),
            FieldKind::Kernel if has(Redaction::Kernels) => placeholders.assign(Noun::Kernel, text),
            FieldKind::CodeLocation if has(Redaction::Files) => self.each_line(text, Self::code_location),
            FieldKind::Arguments if has(Redaction::Models) => self.each_line(text, Self::argument),
            FieldKind::Category if has(Redaction::Names) && !is_public(text) => {
                placeholders.assign(Noun::Category, text)
            }
            FieldKind::Name if has(Redaction::Names) && !is_public(text) => self.name(text),
            _ => self.scanner.scanned(text),
        }
    }

    fn each_line(&mut self, text: &str, redact_line: fn(&mut Self, &str) -> String) -> String {
        text.split('\n').map(|line| redact_line(self, line)).collect::<Vec<String>>().join("\n")
    }

    /// The placeholder of a private name. If the name is a kernel or a category, its placeholder.
    fn name(&mut self, text: &str) -> String {
        let placeholders = &mut self.scanner.placeholders;
        let known = [Noun::Kernel, Noun::Category].into_iter().find_map(|noun| placeholders.get(noun, text));
        known.unwrap_or_else(|| placeholders.assign(Noun::Name, text))
    }

    /// Redacts a line of the form `path:line function` or `function @ path:line`.
    fn code_location(&mut self, line: &str) -> String {
        let is_path = |word: &&str| word.contains(['/', '\\']) || word.contains(".py");
        let Some(path) = line.split([' ', '(']).find(is_path) else {
            return if is_public(line) {
                self.scanner.scanned(line)
            } else {
                self.scanner.placeholders.assign(Noun::Path, line)
            };
        };
        let file = path.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == ':');
        let function = line.replacen(path, "", 1);
        match public_part(file) {
            Some(part) if is_public(&function) => self.scanner.without_secrets(&line.replacen(file, part, 1)),
            _ => self.scanner.placeholders.assign(Noun::Path, line),
        }
    }

    /// Redacts a line of the form `key=value`. Public values, such as switches and numbers, do not change.
    fn argument(&mut self, line: &str) -> String {
        let Some(key_end) = line.find(['=', ':', ' ']) else { return self.without_private_parts(line) };
        let (key, value) = line.split_at(key_end);
        let (separator, value) =
            value.split_at(value.find(|letter| !matches!(letter, '=' | ':' | ' ')).unwrap_or(value.len()));
        let is_public_value = is_public(key) && is_public(value) && !value.contains(['/', '\\']);
        let key = if is_public(key) { key.to_owned() } else { self.scanner.placeholders.assign(Noun::Value, key) };
        let value = if is_public_value || value.is_empty() || is_placeholder(value) {
            self.scanner.scanned(value)
        } else {
            self.scanner.placeholders.assign(Noun::Value, value)
        };
        format!("{key}{separator}{value}")
    }

    fn without_private_parts(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (field_text, placeholder) in &self.field_texts {
            if text.contains(field_text.as_str()) {
                text = replace_words(&text, field_text, placeholder);
            }
        }
        let text = self.scanner.scanned(&text);
        self.scanner.without_private_words(&text)
    }

    fn summary(&self) -> Redacted {
        let summary_of = |redaction: Redaction| {
            let mut texts = self.scanner.placeholders.order.iter().filter(|(noun, _)| noun.redaction() == redaction);
            let example = texts.next().map(|(_, text)| text.clone());
            let count = texts.count() + usize::from(example.is_some());
            Replaced { redaction, count, example: example.unwrap_or_default() }
        };
        let mut all: Vec<Replaced> = Redaction::ALL.into_iter().map(summary_of).collect();
        let processes = &self.scanner.processes;
        if let Some(entry) = all.iter_mut().find(|entry| entry.redaction == Redaction::Processes) {
            entry.count = processes.len();
            let first = processes.iter().find(|(_, number)| **number == 1);
            entry.example = first.map(|(id, _)| id.to_string()).unwrap_or_default();
        }
        Redacted(all)
    }
}

/// Whether a field text is replaced in sentences. Short texts, numbers and single public words would match by chance.
fn is_specific(text: &str) -> bool {
    const MIN_LENGTH: usize = 3;
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphabetic());
    text.len() >= MIN_LENGTH && !(is_word && is_public(text)) && !text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The file name of a run without folders and extensions (all after the first dot), with the placeholder of the run.
fn file_stem((text, placeholder): &(String, String)) -> Option<(String, String)> {
    placeholder.strip_prefix("run ")?;
    let name = text.rsplit(['/', '\\']).next()?;
    let stem = name.split('.').next()?;
    (stem != text && is_specific(stem) && !is_public(stem)).then(|| (stem.to_owned(), placeholder.clone()))
}

/// Replaces all occurrences of `from` that are not part of a longer word.
fn replace_words(text: &str, from: &str, to: &str) -> String {
    let is_word = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let (starts_word, ends_word) = (is_word(from.chars().next()), is_word(from.chars().next_back()));
    let mut out = String::new();
    let mut copied = 0;
    for (start, _) in text.match_indices(from) {
        let before = text.get(..start).and_then(|before| before.chars().next_back());
        let after = text.get(start + from.len()..).and_then(|after| after.chars().next());
        if start >= copied && !(starts_word && is_word(before)) && !(ends_word && is_word(after)) {
            out += text.get(copied..start).unwrap_or_default();
            out += to;
            copied = start + from.len();
        }
    }
    out + text.get(copied..).unwrap_or_default()
}
