//! A stable sort and an ordered map that keep the WebAssembly module small.
//!
//! The standard library's sort and `BTreeMap` are monomorphised for every element type and comparison, about 5 KB each. With
//! forty sorts that was a tenth of the page's first download. Here only the comparison is monomorphised.

use std::cmp::Ordering;

/// A stable sort for tables shown to people. Columns of millions of rows use the standard library's faster sort.
pub(crate) trait StableSort<T> {
    /// Sorts by `compare`. Equal items keep their order.
    fn order_by(&mut self, compare: impl Fn(&T, &T) -> Ordering);

    /// Sorts by a key. Items with equal keys keep their order.
    fn order_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> StableSort<T> for [T] {
    fn order_by(&mut self, compare: impl Fn(&T, &T) -> Ordering) {
        let order = order(self.len(), &|a, b| match (self.get(a), self.get(b)) {
            (Some(a), Some(b)) => compare(a, b),
            _ => Ordering::Equal,
        });
        apply_order(&order, &mut |a, b| self.swap(a, b));
    }
}

/// Returns the indices `0..count` sorted by `compare`; equal indices keep their order.
pub(crate) fn order(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_unstable_by(|&a, &b| compare(a, b).then(a.cmp(&b)));
    order
}

/// Permutes items in place, by swaps, so that item `order[i]` ends at index `i`.
fn apply_order(order: &[usize], swap: &mut dyn FnMut(usize, usize)) {
    let mut target = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        if let Some(slot) = target.get_mut(old) {
            *slot = new;
        }
    }
    for index in 0..order.len() {
        while let Some(&to) = target.get(index).filter(|to| **to != index) {
            swap(index, to);
            target.swap(index, to);
        }
    }
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
    use std::cmp::Reverse;

    proptest! {
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

        #[test]
        fn stable_sort_agrees_with_the_standard_library(mut items in prop::collection::vec((0_u8..9, any::<u16>()), 0..60)) {
            let (mut up, mut down) = (items.clone(), items.clone());
            up.sort_by_key(|item| item.0);
            down.sort_by_key(|item| Reverse(item.0));
            let mut largest_first = items.clone();
            items.order_by_key(|item| item.0);
            largest_first.order_by_key(|item| Reverse(item.0));
            prop_assert_eq!(items, up);
            prop_assert_eq!(largest_first, down);
        }
    }
}
