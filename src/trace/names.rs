//! Interned names: each distinct text is stored once, and rows refer to it by a `u32` id.

use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::Arc;

/// The id of a name in [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NameId(pub u32);

/// Longer names are shortened: rules search each name with regexes, and tables and viewers show it whole. The longest
/// names of recorded traces, of C++ templates, have a tenth of it.
const MAX_NAME_BYTES: usize = 64 << 10;

/// Distinct texts in order of first appearance.
#[derive(Debug, Clone, Default)]
pub struct Names {
    texts: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, NameId, RandomState>,
    shortened: u64,
}

impl PartialEq for Names {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl Names {
    /// Returns the id of `text`, adding it at first use.
    pub fn intern(&mut self, text: &str) -> NameId {
        if text.len() > MAX_NAME_BYTES {
            let (short, known) = (shortened(text), self.len());
            let id = self.intern(&short);
            self.shortened += (self.len() - known) as u64;
            return id;
        }
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

    /// Returns the number of distinct names that were too long and shortened.
    pub fn shortened(&self) -> u64 {
        self.shortened
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

/// The beginning of a long text, with its length and a hash (FNV-1a), so that different texts stay different.
fn shortened(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let end = format!("... ({} bytes, {hash:016x})", text.len());
    let kept = text.floor_char_boundary(MAX_NAME_BYTES - end.len());
    text.get(..kept).unwrap_or_default().to_owned() + &end
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_shortened_counted_and_stay_different() {
        let mut names = Names::default();
        let long = |end: &str| "\u{e9}".repeat(MAX_NAME_BYTES) + end;
        let ids = ["a", "b", "a"].map(|end| names.intern(&long(end)));
        assert_eq!((ids[0] == ids[1], ids[0] == ids[2], names.shortened()), (false, true, 2));
        assert!(names.iter().all(|name| name.len() <= MAX_NAME_BYTES && name.ends_with(')')));
        names.intern(&"x".repeat(MAX_NAME_BYTES));
        assert_eq!((names.len(), names.shortened()), (3, 2));
    }
}
