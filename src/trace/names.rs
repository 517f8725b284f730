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
