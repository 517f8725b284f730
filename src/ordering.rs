//! One sorting routine for every table.
//!
//! The standard library's sort is compiled anew for every type and every way of comparing, some five kilobytes each; with
//! forty of them that was a tenth of the page's first load. Here only the way of comparing is compiled anew.

use std::cmp::Ordering;

/// Stable sorting of tables that people read. Columns of millions of rows sort their numbers by the standard library.
pub(crate) trait InOrder<T> {
    /// Sorts by `compare`; equal items keep their order.
    fn order_by(&mut self, compare: impl Fn(&T, &T) -> Ordering);

    /// Sorts by a key; equal keys keep their order.
    fn order_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> InOrder<T> for [T] {
    fn order_by(&mut self, compare: impl Fn(&T, &T) -> Ordering) {
        let order = order(self.len(), &|a, b| match (self.get(a), self.get(b)) {
            (Some(a), Some(b)) => compare(a, b),
            _ => Ordering::Equal,
        });
        put_in_order(&order, &mut |a, b| self.swap(a, b));
    }
}

/// The places `0..count` in this order, equal ones as they stand.
pub(crate) fn order(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_unstable_by(|&a, &b| compare(a, b).then(a.cmp(&b)));
    order
}

/// Swaps items until the one that `order` names first is first, and so on.
fn put_in_order(order: &[usize], swap: &mut dyn FnMut(usize, usize)) {
    let mut place = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        if let Some(slot) = place.get_mut(old) {
            *slot = new;
        }
    }
    for at in 0..order.len() {
        while let Some(&to) = place.get(at).filter(|to| **to != at) {
            swap(at, to);
            place.swap(at, to);
        }
    }
}

/// Values by key, in the order of the keys: for keys that are few beside what is counted under them.
///
/// The standard library's ordered map is compiled anew for every pair of types, some five kilobytes each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ByKey<K, V>(pub(crate) Vec<(K, V)>);

impl<K: Ord, V> Default for ByKey<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V> ByKey<K, V> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Changes the value of this key; a new key begins with `first`.
    pub(crate) fn change<R>(&mut self, key: K, first: V, change: impl FnOnce(&mut V) -> R) -> R {
        let at = self.0.partition_point(|(known, _)| *known < key);
        match self.0.get_mut(at) {
            Some((known, value)) if *known == key => change(value),
            _ => {
                let mut value = first;
                let result = change(&mut value);
                self.0.insert(at, (key, value));
                result
            }
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let at = self.0.partition_point(|(known, _)| known < key);
        self.0.get(at).filter(|(known, _)| known == key).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;

    proptest! {
        #[test]
        fn values_by_key_are_those_of_the_standard_library(changes in prop::collection::vec((0_u8..9, any::<u16>()), 0..60)) {
            let (mut ours, mut theirs) = (ByKey::new(), std::collections::BTreeMap::new());
            for (key, more) in changes {
                ours.change(key, 7_u64, |sum| *sum += u64::from(more));
                *theirs.entry(key).or_insert(7_u64) += u64::from(more);
            }
            for key in 0..9 {
                prop_assert_eq!(ours.get(&key), theirs.get(&key));
            }
            prop_assert_eq!(ours.0, theirs.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn the_order_is_that_of_the_standard_library(mut items in prop::collection::vec((0_u8..9, any::<u16>()), 0..60)) {
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
