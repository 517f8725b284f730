//! Sorts with little code for each type, and a small ordered map.

use std::borrow::Borrow;
use std::cmp::Ordering;

/// Returns the indices `0..count` sorted by `compare`; equal indices keep their order.
pub(crate) fn sorted_indices(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    sorted_rows(count, compare).into_iter().map(|row| row as usize).collect()
}

/// The same for the rows of a table, of which there are at most `u32::MAX`.
pub(crate) fn sorted_rows(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..u32::try_from(count).unwrap_or(u32::MAX)).collect();
    // Tables are mostly merged from sorted runs, which the stable sort merges in O(n log runs).
    rows.sort_by(|&a, &b| compare(a as usize, b as usize));
    rows
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

/// An ordered map with little code for each type: sorted pairs in sorted chunks of bounded length. Lookups take O(log n). Inserting a
/// new key moves less than a chunk, in whatever order the keys arrive.
#[derive(Debug, Clone)]
pub(crate) struct VecMap<K, V> {
    /// None is empty.
    chunks: Vec<Vec<(K, V)>>,
}

/// The pairs of a chunk that is divided when another one comes.
const CHUNK: usize = 256;

impl<K: Ord, V> Default for VecMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Eq, V: PartialEq> PartialEq for VecMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq> Eq for VecMap<K, V> {}

impl<K, V> VecMap<K, V> {
    /// Iterates over all pairs, sorted by key.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &(K, V)> + Clone {
        self.chunks.iter().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// All pairs, sorted by key.
    pub(crate) fn into_vec(self) -> Vec<(K, V)> {
        let mut chunks = self.chunks.into_iter();
        let mut pairs = chunks.next().unwrap_or_default();
        chunks.for_each(|chunk| pairs.extend(chunk));
        pairs
    }
}

impl<K: Ord, V> VecMap<K, V> {
    pub(crate) const fn new() -> Self {
        Self { chunks: Vec::new() }
    }

    /// Calls `update` on the value of `key` and returns its result. A missing key is inserted with `initial` first.
    pub(crate) fn update<R>(&mut self, key: K, initial: V, update: impl FnOnce(&mut V) -> R) -> R {
        // A key beyond the last one joins the last chunk.
        let at = self.chunk_of(&key).min(self.chunks.len().saturating_sub(1));
        let Some(chunk) = self.chunks.get_mut(at) else {
            let mut value = initial;
            let result = update(&mut value);
            self.chunks.push(vec![(key, value)]);
            return result;
        };
        let index = chunk.partition_point(|(existing, _)| *existing < key);
        match chunk.get_mut(index) {
            Some((existing, value)) if *existing == key => update(value),
            _ => {
                let mut value = initial;
                let result = update(&mut value);
                chunk.insert(index, (key, value));
                if chunk.len() > CHUNK {
                    let second_half = chunk.split_off(CHUNK / 2);
                    self.chunks.insert(at + 1, second_half);
                }
                result
            }
        }
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let chunk = self.chunks.get(self.chunk_of(key))?;
        let index = chunk.partition_point(|(existing, _)| existing.borrow() < key);
        chunk.get(index).filter(|(existing, _)| existing.borrow() == key).map(|(_, value)| value)
    }

    /// The first chunk that does not end before the key.
    fn chunk_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.chunks.partition_point(|chunk| chunk.last().is_some_and(|(last, _)| last.borrow() < key))
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
        fn vec_map_agrees_with_btree_map(
            changes in prop::collection::vec((0_u32..2_000, 0_u32..65_536), 0..900), step in prop::sample::select(vec![1_u32, 7, 1_999]),
        ) {
            let (mut ours, mut theirs) = (VecMap::new(), std::collections::BTreeMap::new());
            // Runs of rising and of falling keys, which fill and divide chunks, among others.
            let runs = (0..600).map(|number| (number * step % 2_000, number));
            for (key, more) in changes.into_iter().chain(runs) {
                ours.update(key, 7_u64, |sum| *sum += u64::from(more));
                *theirs.entry(key).or_insert(7_u64) += u64::from(more);
            }
            for key in 0..2_001 {
                prop_assert_eq!(ours.get(&key), theirs.get(&key));
            }
            prop_assert_eq!((ours.len(), ours.is_empty()), (theirs.len(), theirs.is_empty()));
            prop_assert!(ours.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.len())), "what an insertion moves is bounded");
            prop_assert!(ours.iter().rev().map(|(key, _)| key).eq(theirs.keys().rev()));
            prop_assert_eq!(ours.into_vec(), theirs.into_iter().collect::<Vec<_>>());
        }
    }
}
