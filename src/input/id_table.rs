//! Values by the ids of a file. Writers count ids up from zero or one, so most lie in a list; others are in a hash map.
//! Insert and look-up O(1); the list is hardly longer than the number of values.

use foldhash::fast::RandomState;
use std::collections::HashMap;

#[derive(Debug)]
pub(super) struct IdTable<T> {
    dense: Vec<Option<T>>,
    sparse: HashMap<u64, T, RandomState>,
    /// The number of values so far, or the one that is expected.
    values: usize,
    inserted: usize,
}

impl<T> Default for IdTable<T> {
    fn default() -> Self {
        Self::with_expected(0)
    }
}

impl<T> IdTable<T> {
    /// A table for this many values, whose ids may come in any order.
    pub(super) fn with_expected(values: usize) -> Self {
        Self { dense: Vec::new(), sparse: HashMap::default(), values, inserted: 0 }
    }

    /// The value that is inserted last with an id counts.
    pub(super) fn insert(&mut self, id: u64, value: T) {
        const FIRST_IDS: usize = 64;
        // The bound only grows, so an id that is once in the list stays there; `get` asks the list first.
        let bound = self.values.saturating_add(FIRST_IDS);
        self.inserted += 1;
        self.values = self.values.max(self.inserted);
        let Some(index) = usize::try_from(id).ok().filter(|index| *index < bound) else {
            self.sparse.insert(id, value);
            return;
        };
        if index >= self.dense.len() {
            self.dense.resize_with(index + 1, || None);
        }
        if let Some(slot) = self.dense.get_mut(index) {
            *slot = Some(value);
        }
    }

    #[inline]
    pub(super) fn get(&self, id: u64) -> Option<&T> {
        let index = usize::try_from(id).ok();
        match index.and_then(|index| self.dense.get(index)) {
            Some(Some(value)) => Some(value),
            _ if self.sparse.is_empty() => None,
            _ => self.sparse.get(&id),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let index = usize::try_from(id).ok();
        match index.and_then(|index| self.dense.get_mut(index)) {
            Some(Some(value)) => Some(value),
            _ => self.sparse.get_mut(&id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A hash map is the model; ids near each other and far away.
        #[test]
        fn the_last_value_of_an_id_is_found(
            ids in prop::collection::vec(prop_oneof![0_u64..200, any::<u64>()], 0..300),
            expected in 0_usize..100,
        ) {
            let (mut table, mut model) = (IdTable::with_expected(expected), HashMap::new());
            for (value, id) in ids.iter().enumerate() {
                table.insert(*id, value);
                model.insert(*id, value);
            }
            for id in ids.iter().copied().chain([0, 1, u64::MAX]) {
                prop_assert_eq!(table.get(id), model.get(&id));
                prop_assert_eq!(table.get_mut(id), model.get_mut(&id));
            }
            prop_assert!(table.dense.len() <= ids.len().max(expected) + 64);
        }
    }
}
