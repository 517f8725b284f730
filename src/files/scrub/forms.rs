//! What the fields of messages of protocol buffers hold (`messages` in `patterns/scrub.json`), found by number in a short list.

use super::removal::{kind_titled, messages};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What a field holds, or what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Message(FormId),
    Text,
    /// The name of a plane or line.
    Name,
    Packed,
    /// What the message is about: a text, or the number of one.
    Key,
    Removed(&'static str),
    Unread,
}

/// A message, by its place in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FormId(usize);

/// The fields of a message.
#[derive(Debug, Default)]
pub(super) struct Form(Vec<(u32, Holds)>);

impl Form {
    #[inline]
    pub(super) fn holds(&self, number: u32) -> Holds {
        self.0.iter().find(|(known, _)| *known == number).map_or(Holds::Unread, |(_, holds)| *holds)
    }

    pub(super) fn has_key(&self) -> bool {
        self.0.iter().any(|(_, holds)| *holds == Holds::Key)
    }
}

static FORMS: LazyLock<Vec<Form>> = LazyLock::new(|| {
    let fields = |form: &BTreeMap<String, String>| {
        let field = |(number, what): (&String, &String)| Some((number.parse().ok()?, holds(what)?));
        Form(form.iter().filter_map(field).collect())
    };
    messages().values().map(fields).collect()
});

fn holds(what: &str) -> Option<Holds> {
    Some(match what {
        "text" => Holds::Text,
        "name" => Holds::Name,
        "packed" => Holds::Packed,
        "key" => Holds::Key,
        _ => match form_named(what) {
            Some(form) => Holds::Message(form),
            None => Holds::Removed(kind_titled(what)?),
        },
    })
}

/// The message of this name.
pub(super) fn form_named(name: &str) -> Option<FormId> {
    messages().keys().position(|known| known == name).map(FormId)
}

/// The fields of a message.
pub(super) fn form(FormId(place): FormId) -> &'static Form {
    static NONE: Form = Form(Vec::new());
    FORMS.get(place).unwrap_or(&NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_in_the_list_is_known() {
        let described: usize = messages().values().map(BTreeMap::len).sum();
        assert_eq!(FORMS.iter().map(|form| form.0.len()).sum::<usize>(), described);
        for outermost in ["perfetto", "xspace"] {
            assert!(form_named(outermost).is_some(), "{outermost}");
        }
    }
}
