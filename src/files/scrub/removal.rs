//! What is removed from a trace as a whole (`patterns/scrub.json`), and the count of what was removed.

use crate::json::{self, embedded, from_json};
use crate::report::redact::Redaction;
use crate::report::redact::mask::Mask;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Kinds of removed things, by title, and the names that tell them.
type Kinds = BTreeMap<String, Vec<String>>;

struct Rules {
    environment: String,
    names: String,
    name_variables: Vec<String>,
    name_settings: Vec<String>,
    keys: Kinds,
    tables: Kinds,
    setting_rows: Kinds,
    unread: String,
    messages: BTreeMap<String, BTreeMap<String, String>>,
}
from_json!(Rules { environment, names, name_variables, name_settings, keys, tables, setting_rows, unread, messages });

static RULES: LazyLock<Rules> = LazyLock::new(|| embedded(json::read(include_str!("../../../patterns/scrub.json"))));

/// The kind of a member of an object or a column of a table that is emptied.
pub(super) fn kind_of_key(key: &str) -> Option<&'static str> {
    kind(&RULES.keys, |name| name.eq_ignore_ascii_case(key))
}

/// The kind of a table that loses all rows. Tables of rocpd have a suffix of their own in each file.
pub(super) fn kind_of_table(table: &str) -> Option<&'static str> {
    kind(&RULES.tables, |name| match name.strip_suffix('*') {
        Some(beginning) => table.starts_with(beginning),
        None => table.strip_prefix(name).is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('_')),
    })
}

/// The kind of a row with this name in a table of settings.
pub(super) fn kind_of_setting(name: &str) -> Option<&'static str> {
    kind(&RULES.setting_rows, |part| name.contains(part))
}

/// The kind of parts that no reader needs.
pub(super) fn kind_of_unread() -> &'static str {
    &RULES.unread
}

/// The fields of messages of protocol buffers, by the name of the message.
pub(super) fn messages() -> &'static BTreeMap<String, BTreeMap<String, String>> {
    &RULES.messages
}

/// The kind with this title.
pub(super) fn kind_titled(title: &str) -> Option<&'static str> {
    RULES.keys.keys().find(|kind| *kind == title).map(String::as_str)
}

/// Whether a member or variable of this name is removed, or tells the name of a host or user.
pub(super) fn is_private_key(key: &str) -> bool {
    kind_of_key(key).is_some() || is_name(key)
}

/// Whether the values of a kind are names of hosts and users.
pub(super) fn is_of_names(kind: &str) -> bool {
    kind == RULES.names
}

/// Whether a kind of removed things is the variables of the environment.
pub(super) fn is_environment(kind: &str) -> bool {
    kind == RULES.environment
}

/// Whether the value of this member or variable is the name of a host or user.
fn is_name(key: &str) -> bool {
    kind_of_key(key) == Some(RULES.names.as_str())
        || RULES.name_variables.iter().any(|name| name.eq_ignore_ascii_case(key))
}

fn kind(kinds: &'static Kinds, is: impl Fn(&str) -> bool) -> Option<&'static str> {
    kinds.iter().find(|(_, names)| names.iter().any(|name| is(name))).map(|(kind, _)| kind.as_str())
}

/// Replaces private words, and counts what was removed. Reads a trace first to learn the names of hosts and users in it, because they
/// may stand in texts before the member that tells them.
#[derive(Debug, Default)]
pub(super) struct Removal {
    mask: Mask,
    counts: BTreeMap<&'static str, u64>,
    has_learned: bool,
}

impl Removal {
    /// The trace was read once.
    pub(super) fn end_learning(&mut self) {
        self.has_learned = true;
    }

    pub(super) fn text<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if self.has_learned {
            return self.mask.text(text);
        }
        self.mask.learn_users(text);
        Cow::Borrowed(text)
    }

    /// A member of an object, or a variable, with its value.
    pub(super) fn learn(&mut self, key: &str, value: &str) {
        if !self.has_learned && is_name(key) {
            self.mask.learn_name(value);
        }
    }

    /// The name of a host or user.
    pub(super) fn learn_name(&mut self, name: &str) {
        if !self.has_learned {
            self.mask.learn_name(name);
        }
    }

    /// A row of a table of settings.
    pub(super) fn learn_setting(&mut self, texts: &[String]) {
        let is_name = |text: &String| RULES.name_settings.iter().any(|name| text.ends_with(name.as_str()));
        if let Some(value) = texts.last().filter(|_| !self.has_learned && texts.iter().any(is_name)) {
            self.mask.learn_name(value);
        }
        for (variable, value) in texts.iter().filter_map(|text| text.split_once('=')) {
            self.learn(variable, value);
        }
    }

    pub(super) fn add(&mut self, kind: &'static str, count: u64) {
        if self.has_learned {
            *self.counts.entry(kind).or_default() += count;
        }
    }

    /// The removed things, by title.
    pub(super) fn counts(self) -> Vec<(String, u64)> {
        let title = |kind| match kind {
            Redaction::Secrets => "tokens and keys in texts",
            Redaction::Machines => "hosts and addresses in texts",
            _ => "private words in names and texts",
        };
        let words = self.mask.counts().into_iter().map(|(kind, count)| (title(kind).to_owned(), count));
        self.counts.into_iter().map(|(kind, count)| (kind.to_owned(), count)).chain(words).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_keys_tables_and_rows() {
        assert!(kind_of_key("Environ").is_some_and(is_environment));
        assert_eq!((kind_of_key("args"), kind_of_key("name")), (None, None));
        assert!(kind_of_table("META_DATA_CAPTURE").is_some() && kind_of_table("rocpd_metadata_a1").is_some());
        assert_eq!((kind_of_table("StringIds"), kind_of_table("TARGET_INFO_GPU")), (None, None));
        assert!(kind_of_setting("PROCESS_0:ENVIRONMENT_VARIABLE").is_some_and(is_environment));
    }
}
