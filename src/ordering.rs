//! Sorts with little code for each type, and a small ordered map.

use std::cmp::Ordering;

/// Returns the indices `0..count` sorted by `compare`; equal indices keep their order.
pub(crate) fn sorted_indices(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..count).collect();
    indices.sort_unstable_by(|&a, &b| compare(a, b).then(a.cmp(&b)));
    indices
}

/// Sorts like [`Vec::sort_by`], at a tenth of its code size for each type of item. For lists outside of loops over ops.
pub(crate) fn sort_by<T>(items: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
    let order = sorted_indices(items.len(), &|a, b| match (items.get(a), items.get(b)) {
        (Some(a), Some(b)) => compare(a, b),
        _ => Ordering::Equal,
    });
    let mut unsorted: Vec<Option<T>> = std::mem::take(items).into_iter().map(Some).collect();
    items.extend(order.into_iter().filter_map(|index| unsorted.get_mut(index)?.take()));
}

/// [`sort_by`] a key.
pub(crate) fn sort_by_key<T, K: Ord>(items: &mut Vec<T>, key: impl Fn(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// Like [`slice::partition_point`], in O(1) if `guess` is the result: for searches whose result is mostly that of the search before.
pub(crate) fn partition_point_near<T>(items: &[T], guess: usize, is_before: impl Fn(&T) -> bool) -> usize {
    let is_after_others = guess.checked_sub(1).is_none_or(|last| items.get(last).is_some_and(&is_before));
    let is_result = is_after_others && items.get(guess).is_none_or(|next| !is_before(next));
    if is_result { guess } else { items.partition_point(is_before) }
}

/// An ordered map as a sorted vector of pairs: lookups take O(log n), inserting a new key O(n). For maps with few keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VecMap<K, V>(pub(crate) Vec<(K, V)>);

impl<K: Ord, V> Default for VecMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V> VecMap<K, V> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Calls `update` on the value of `key` and returns its result. A missing key is inserted with `initial` first.
    pub(crate) fn update<R>(&mut self, key: K, initial: V, update: impl FnOnce(&mut V) -> R) -> R {
        let index = self.0.partition_point(|(existing, _)| *existing < key);
        match self.0.get_mut(index) {
            Some((existing, value)) if *existing == key => update(value),
            _ => {
                let mut value = initial;
                let result = update(&mut value);
                self.0.insert(index, (key, value));
                result
            }
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let index = self.0.partition_point(|(existing, _)| existing < key);
        self.0.get(index).filter(|(existing, _)| existing == key).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sort_by_key_agrees_with_the_standard_library(keys in prop::collection::vec(0_u8..9, 0..40)) {
            let (mut ours, mut theirs): (Vec<_>, Vec<_>) = ((0..).zip(keys.clone()).collect(), (0..).zip(keys).collect());
            sort_by_key(&mut ours, |(_, key): &(usize, u8)| *key);
            theirs.sort_by_key(|(_, key): &(usize, u8)| *key);
            prop_assert_eq!(ours, theirs, "equal items keep their order");
        }

        #[test]
        fn a_search_with_any_guess_finds_the_partition_point(
            mut items in prop::collection::vec(0_u8..9, 0..20), limit in 0_u8..10, guess in 0_usize..25,
        ) {
            items.sort_unstable();
            let expected = items.partition_point(|item| *item < limit);
            prop_assert_eq!(partition_point_near(&items, guess, |item| *item < limit), expected);
        }

        #[test]
        fn vec_map_agrees_with_btree_map(changes in prop::collection::vec((0_u8..9, any::<u16>()), 0..60)) {
            let (mut ours, mut theirs) = (VecMap::new(), std::collections::BTreeMap::new());
            for (key, more) in changes {
                ours.update(key, 7_u64, |sum| *sum += u64::from(more));
                *theirs.entry(key).or_insert(7_u64) += u64::from(more);
            }
            for key in 0..9 {
                prop_assert_eq!(ours.get(&key), theirs.get(&key));
            }
            prop_assert_eq!(ours.0, theirs.into_iter().collect::<Vec<_>>());
        }
    }
}
