//! Interned names: each distinct text is stored once, and rows refer to it by a `u32` id.

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
    /// Returns the id of `text`, adding it at first use.
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

    /// Returns the id of `text` if it was interned.
    pub fn find(&self, text: &str) -> Option<NameId> {
        self.ids.get(text).copied()
    }

    /// Returns the text of `id`, or an empty text if `id` is out of range.
    pub fn get(&self, id: NameId) -> &str {
        self.texts.get(id.0 as usize).map_or("", |text| text)
    }

    /// Returns the number of distinct names.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Returns true if nothing was interned.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Iterates over all names in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|text| &**text)
    }
}

/// Assigns new ids to the names that a part of a trace uses, in order of first use.
pub(super) struct NameRemap<'a> {
    old_names: &'a Names,
    /// The names used so far; their ids are the new ones.
    pub(super) names: Names,
    /// The new id of each old one, if assigned.
    new_ids: Vec<Option<NameId>>,
}

impl<'a> NameRemap<'a> {
    pub(super) fn new(old_names: &'a Names) -> Self {
        Self { old_names, names: Names::default(), new_ids: vec![None; old_names.len()] }
    }

    pub(super) fn new_id(&mut self, old: NameId) -> NameId {
        match self.new_ids.get_mut(old.0 as usize) {
            Some(Some(id)) => *id,
            Some(slot) => *slot.insert(self.names.intern(self.old_names.get(old))),
            None => self.names.intern(self.old_names.get(old)),
        }
    }
}
