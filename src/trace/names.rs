//! Interned names: every distinct text once, a `u32` everywhere else.

use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::Arc;

/// The id of a name in [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u32);

/// Distinct texts in order of first appearance.
#[derive(Debug, Clone, Default)]
pub struct Names {
    texts: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, NameId, RandomState>,
}

impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl Names {
    /// The id of `text`, new or known.
    pub fn intern(&mut self, text: &str) -> NameId {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = NameId(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        let text: Arc<str> = text.into();
        self.texts.push(Arc::clone(&text));
        self.ids.insert(text, id);
        id
    }

    /// The id of `text` where it is known.
    pub fn find(&self, text: &str) -> Option<NameId> {
        self.ids.get(text).copied()
    }

    /// The text of an id of these names; empty for a stranger's.
    pub fn get(&self, id: NameId) -> &str {
        self.texts.get(id.0 as usize).map_or("", |text| text)
    }

    /// How many distinct names there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// True where nothing was interned.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// All names in order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|text| &**text)
    }
}

/// Names as they are met in a part of a table, numbered anew in that order.
pub(super) struct Renaming<'a> {
    all: &'a Names,
    pub(super) names: Names,
    now: Vec<Option<NameId>>,
}

impl<'a> Renaming<'a> {
    pub(super) fn of(all: &'a Names) -> Self {
        Self { all, names: Names::default(), now: vec![None; all.len()] }
    }

    /// Numbers a name if it is new.
    pub(super) fn see(&mut self, old: NameId) {
        self.now(old);
    }

    /// The new id of an old one.
    pub(super) fn now(&mut self, old: NameId) -> NameId {
        match self.now.get_mut(old.0 as usize) {
            Some(Some(now)) => *now,
            Some(slot) => *slot.insert(self.names.intern(self.all.get(old))),
            None => self.names.intern(self.all.get(old)),
        }
    }
}
