//! A report to be shown to others: what tells who made it, where and of what, replaced by placeholders.
//!
//! The report is walked as one JSON value, so that a section that comes later is covered without a word here. How a text is
//! read hangs on its key; under a key that nobody listed it is a name, and a name stays only where each of its words is
//! public (`patterns/redaction.json` and gpuprism's own catalogues). Numbers and categories stay as they are, but for the
//! numbers of processes and threads, which are counted anew.

mod placeholders;
mod rules;
mod scanner;
#[cfg(test)]
mod tests;

use super::Report;
use crate::json::{FromJson, Json};
use placeholders::{Noun, Placeholders, is_placeholder};
use rules::{RULES, is_public};
use scanner::{Scanner, number_of, public_part};
use std::collections::BTreeMap;

/// One kind of what can be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Redaction {
    /// Access tokens, keys, passwords.
    Secrets,
    /// Names of files, folders and places in code.
    Files,
    /// Host names, addresses, user names.
    Machines,
    /// Numbers of processes and threads.
    Processes,
    /// Model names and arguments of the server.
    Models,
    /// Kernel names that are not public.
    Kernels,
    /// Annotations and whatever else is called by words that are not public.
    Names,
}

impl Redaction {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Secrets, Self::Files, Self::Machines, Self::Processes, Self::Models, Self::Kernels, Self::Names];

    /// Stable, for scripts and the page.
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

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Secrets => "Tokens, keys, passwords",
            Self::Files => "File names, paths, places in code",
            Self::Machines => "Hosts, addresses, users",
            Self::Processes => "Process and thread numbers",
            Self::Models => "Models and server arguments",
            Self::Kernels => "Private kernel names",
            Self::Names => "Annotations and other private names",
        }
    }
}

/// What is to be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redactions(Vec<Redaction>);

impl Redactions {
    /// Everything.
    pub fn all() -> Self {
        Self(Redaction::ALL.to_vec())
    }

    /// Those of these ids; what has another id is `Err`.
    ///
    /// # Errors
    /// The first id that is none.
    pub fn of<'a>(ids: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let known =
            |id: &'a str| Redaction::ALL.into_iter().find(|known| known.id() == id).ok_or_else(|| id.to_owned());
        ids.into_iter().map(known).collect::<Result<Vec<_>, _>>().map(Self)
    }

    fn has(&self, redaction: Redaction) -> bool {
        self.0.contains(&redaction)
    }
}

/// What was replaced, of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    /// The kind.
    pub redaction: Redaction,
    /// How many different texts.
    pub count: usize,
    /// The first of them; empty where there is none.
    pub example: String,
}

/// What a redaction replaced: one entry a kind, in the order of [`Redaction::ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted(pub Vec<Replaced>);

/// The report with what was asked for replaced by placeholders. The same text has the same placeholder wherever it
/// stands, and in every redaction of this report that asks for the same.
pub fn redact(report: &Report, what: &Redactions) -> (Report, Redacted) {
    let compact = report.compact();
    let Ok(mut json) = Json::parse(&compact) else { return (Report::new(Vec::new()), Redacted(Vec::new())) };
    let names = Placeholders::new(&compact);
    let mut redactor = Redactor {
        scanner: Scanner { what: what.clone(), names, processes: BTreeMap::new() },
        listed: Vec::new(),
        known: BTreeMap::new(),
    };
    redactor.name_kernels(report);
    redactor.collect(&mut json);
    redactor.known.clear();
    walk(&mut json, &mut |list, key, value| redactor.value(list, key, value));
    // A report whose texts changed is a report.
    let mut redacted = Report::from_json(json).unwrap_or_else(|_| Report::new(Vec::new()));
    for (run, original) in redacted.runs.iter_mut().zip(&report.runs) {
        for (kernel, original) in run.kernels.iter_mut().zip(&original.kernels) {
            if kernel.name != original.name {
                kernel.short_name.clone_from(&kernel.name);
            }
        }
    }
    (redacted, redactor.replaced())
}

/// How a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reading {
    /// A key of the report's own shape.
    Key,
    /// Sentences of gpuprism, and words of a closed set.
    Words,
    File,
    Kernel,
    Place,
    Model,
    Arguments,
    /// Anything else.
    Name,
}

fn reading(list: &str, key: &str) -> Reading {
    let fields = &RULES.fields;
    let is_it = |known: &String| match known.split_once('.') {
        Some((around, within)) => around == list && within == key,
        None => known == key,
    };
    let is_in = |keys: &[String]| keys.iter().any(is_it);
    match () {
        () if is_in(&fields.keys) => Reading::Key,
        () if is_in(&fields.files) => Reading::File,
        () if is_in(&fields.kernels) => Reading::Kernel,
        () if is_in(&fields.places) => Reading::Place,
        () if is_in(&fields.models) => Reading::Model,
        () if is_in(&fields.arguments) => Reading::Arguments,
        () if is_in(&fields.words) => Reading::Words,
        () => Reading::Name,
    }
}

/// A value of the report, or one of its keys.
enum Part<'a> {
    Text(&'a mut String),
    Key(&'a mut String),
    Int(&'a mut i64),
}

/// Shows every text, key and whole number with its key and the key of the list or object around it.
fn walk(json: &mut Json, each: &mut dyn FnMut(&str, &str, Part)) {
    // Optimised for these two known texts, the calls within came to keep the first of them, as Rust 1.95 compiles it.
    let outermost = std::hint::black_box("");
    walk_within(json, outermost, outermost, each);
}

fn walk_within(json: &mut Json, list: &str, key: &str, each: &mut dyn FnMut(&str, &str, Part)) {
    match json {
        Json::String(text) => each(list, key, Part::Text(text)),
        Json::Int(number) => each(list, key, Part::Int(number)),
        Json::Array(elements) => elements.iter_mut().for_each(|element| walk_within(element, list, key, each)),
        Json::Object(members) => {
            for (name, value) in members {
                walk_within(value, key, name, each);
                each(key, name.clone().as_str(), Part::Key(name));
            }
        }
        Json::Null | Json::Bool(_) | Json::Large(_) | Json::Float(_) => {}
    }
}

struct Redactor {
    scanner: Scanner,
    /// Texts of fields and their placeholders, the longest first, to be found in sentences.
    listed: Vec<(String, String)>,
    /// What was said of a text before.
    known: BTreeMap<(Reading, String), String>,
}

impl Redactor {
    /// The short form of a private kernel is called like the kernel.
    fn name_kernels(&mut self, report: &Report) {
        if !self.scanner.what.has(Redaction::Kernels) {
            return;
        }
        for kernel in report.runs.iter().flat_map(|run| &run.kernels) {
            let (name, short) = (&kernel.name, &kernel.short_name);
            if is_public(name) {
                // Its short form may be cut in the middle of a word.
                self.scanner.names.alias(Noun::Kernel, short, short);
            } else if !is_placeholder(name) {
                let placeholder = self.scanner.names.give(Noun::Kernel, name);
                if short != name && !is_public(short) {
                    self.scanner.names.alias(Noun::Kernel, short, &placeholder);
                }
            }
        }
    }

    /// Reads every field first: what it holds may stand in a sentence ahead of it.
    fn collect(&mut self, json: &mut Json) {
        walk(json, &mut |list, key, part| {
            let Part::Text(text) = part else { return };
            self.scanner.learn_users(text);
            let reading = reading(list, key);
            if !matches!(reading, Reading::Words | Reading::Key) {
                self.text(reading, text);
            }
        });
        self.listed = self.scanner.names.longest_first();
        self.listed.retain(|(text, _)| is_telling(text));
        let stems: Vec<(String, String)> = self.listed.iter().filter_map(stem).collect();
        self.listed.extend(stems);
    }

    fn value(&mut self, list: &str, key: &str, part: Part) {
        match part {
            Part::Text(text) => *text = self.text(reading(list, key), text),
            Part::Key(text) => *text = self.text(Reading::Key, text),
            Part::Int(number) if RULES.process_ids.iter().any(|known| known == key) => {
                if self.scanner.what.has(Redaction::Processes) {
                    *number = number_of(&mut self.scanner.processes, *number);
                }
            }
            Part::Int(_) => {}
        }
    }

    fn text(&mut self, reading: Reading, text: &str) -> String {
        if text.is_empty() || is_placeholder(text) {
            return text.to_owned();
        }
        let key = (reading, text.to_owned());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let read = self.read(reading, text);
        self.known.insert(key, read.clone());
        read
    }

    fn read(&mut self, reading: Reading, text: &str) -> String {
        let names = &mut self.scanner.names;
        let has = |redaction| self.scanner.what.has(redaction);
        match reading {
            Reading::Words => self.sentence(text),
            Reading::File if has(Redaction::Files) => names.give(Noun::Run, text),
            Reading::Model if has(Redaction::Models) => names.give(Noun::Model, text),
            Reading::Kernel if is_public(text) => self.scanner.without_secrets(text),
            Reading::Kernel if has(Redaction::Kernels) => names.give(Noun::Kernel, text),
            Reading::Place if has(Redaction::Files) => self.lines(text, Self::place),
            Reading::Arguments if has(Redaction::Models) => self.lines(text, Self::argument),
            Reading::Name if has(Redaction::Names) && !is_public(text) => self.name(text),
            _ => self.scanner.scanned(text),
        }
    }

    fn lines(&mut self, text: &str, line: fn(&mut Self, &str) -> String) -> String {
        text.split('\n').map(|text| line(self, text)).collect::<Vec<String>>().join("\n")
    }

    /// A private name; a kernel is called the same here as in its own columns.
    fn name(&mut self, text: &str) -> String {
        let kernel = self.scanner.names.known(Noun::Kernel, text);
        kernel.unwrap_or_else(|| self.scanner.names.give(Noun::Name, text))
    }

    /// `path:line function` or `function @ path:line`.
    fn place(&mut self, line: &str) -> String {
        let is_path = |word: &&str| word.contains(['/', '\\']) || word.contains(".py");
        let Some(path) = line.split([' ', '(']).find(is_path) else {
            return if is_public(line) {
                self.scanner.scanned(line)
            } else {
                self.scanner.names.give(Noun::Path, line)
            };
        };
        let bare = path.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == ':');
        let around = line.replacen(path, "", 1);
        match public_part(bare) {
            // Inside of an installed package its functions are as public as its files.
            Some(part) if bare.len() != part.len() || is_public(&around) => {
                self.scanner.without_secrets(&line.replacen(bare, part, 1))
            }
            _ => self.scanner.names.give(Noun::Path, line),
        }
    }

    /// `key=value`: switches and numbers stay.
    fn argument(&mut self, line: &str) -> String {
        let Some(at) = line.find(['=', ':', ' ']) else { return self.sentence(line) };
        let (key, value) = line.split_at(at);
        let (sign, value) =
            value.split_at(value.find(|letter| !matches!(letter, '=' | ':' | ' ')).unwrap_or(value.len()));
        let stays = is_public(key) && is_public(value) && !value.contains(['/', '\\']);
        let key = if is_public(key) { key.to_owned() } else { self.scanner.names.give(Noun::Value, key) };
        if stays || value.is_empty() || is_placeholder(value) {
            let value = self.scanner.scanned(value);
            return format!("{key}{sign}{value}");
        }
        let value = self.scanner.names.give(Noun::Value, value);
        format!("{key}{sign}{value}")
    }

    fn sentence(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (listed, placeholder) in &self.listed {
            if text.contains(listed.as_str()) {
                text = replaced_words(&text, listed, placeholder);
            }
        }
        let text = self.scanner.scanned(&text);
        self.scanner.without_identifiers(&text)
    }

    fn replaced(&self) -> Redacted {
        let of = |redaction: Redaction| {
            let mut texts = self.scanner.names.order.iter().filter(|(noun, _)| noun.redaction() == redaction);
            let example = texts.next().map(|(_, text)| text.clone());
            let count = texts.count() + usize::from(example.is_some());
            Replaced { redaction, count, example: example.unwrap_or_default() }
        };
        let mut all: Vec<Replaced> = Redaction::ALL.into_iter().map(of).collect();
        let processes = &self.scanner.processes;
        if let Some(entry) = all.iter_mut().find(|entry| entry.redaction == Redaction::Processes) {
            entry.count = processes.len();
            let first = processes.iter().find(|(_, number)| **number == 1);
            entry.example = first.map(|(id, _)| id.to_string()).unwrap_or_default();
        }
        Redacted(all)
    }
}

/// Would this text stand in a sentence for itself alone? A single public word would not.
fn is_telling(text: &str) -> bool {
    const LEAST_LETTERS: usize = 3;
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphabetic());
    text.len() >= LEAST_LETTERS && !(is_word && is_public(text)) && !text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A file is also called by its name without what is behind the first dot, and without its folders.
fn stem((text, placeholder): &(String, String)) -> Option<(String, String)> {
    placeholder.strip_prefix("run ")?;
    let name = text.rsplit(['/', '\\']).next()?;
    let stem = name.split('.').next()?;
    (stem != text && is_telling(stem) && !is_public(stem)).then(|| (stem.to_owned(), placeholder.clone()))
}

/// Replaces a text where it stands by itself, not in the middle of a longer name.
fn replaced_words(text: &str, from: &str, to: &str) -> String {
    let is_part = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let (starts, ends) = (is_part(from.chars().next()), is_part(from.chars().next_back()));
    let mut out = String::new();
    let mut done = 0;
    for (at, _) in text.match_indices(from) {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + from.len()..).and_then(|after| after.chars().next());
        if at >= done && !(starts && is_part(before)) && !(ends && is_part(after)) {
            out += text.get(done..at).unwrap_or_default();
            out += to;
            done = at + from.len();
        }
    }
    out + text.get(done..).unwrap_or_default()
}
