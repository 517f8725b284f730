//! Ids of the rows of the replay, and columns that are read by id without a bounds panic.

use std::marker::PhantomData;

/// The id of a row.
pub(super) trait Id: Copy {
    fn of(index: usize) -> Self;
    fn index(self) -> usize;
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub(super) struct $name(u32);

        impl Id for $name {
            fn of(index: usize) -> Self {
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )* };
}

ids! {
    /// An outermost call of a launching thread.
    Call;
    /// A GPU op.
    Op;
    /// A stream of a device.
    Lane;
    /// A moment: the start or end of a call or op.
    Node;
    /// A dependency between two moments.
    Edge;
}

/// One value for each row. A row that does not exist has the default value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Column<I, T> {
    values: Vec<T>,
    id: PhantomData<fn(I)>,
}

impl<I, T> Default for Column<I, T> {
    fn default() -> Self {
        Self { values: Vec::new(), id: PhantomData }
    }
}

impl<I: Id, T> Column<I, T> {
    pub(super) fn of(values: Vec<T>) -> Self {
        Self { values, id: PhantomData }
    }

    pub(super) fn filled(len: usize, value: T) -> Self
    where
        T: Clone,
    {
        Self::of(vec![value; len])
    }

    pub(super) fn push(&mut self, value: T) -> I {
        self.values.push(value);
        I::of(self.values.len() - 1)
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    #[inline]
    pub(super) fn at(&self, id: I) -> T
    where
        T: Copy + Default,
    {
        self.values.get(id.index()).copied().unwrap_or_default()
    }

    #[inline]
    pub(super) fn set(&mut self, id: I, value: T) {
        if let Some(slot) = self.values.get_mut(id.index()) {
            *slot = value;
        }
    }

    pub(super) fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.values.len()).map(I::of)
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.values.iter().enumerate().map(|(index, value)| (I::of(index), value))
    }

    pub(super) fn values(&self) -> &[T] {
        &self.values
    }
}

/// Lists of values by row, in one vector.
#[derive(Debug, Clone)]
pub(super) struct Lists<I, T> {
    /// The end of the list of each row.
    ends: Vec<u32>,
    values: Vec<T>,
    id: PhantomData<fn(I)>,
}

impl<I: Id, T> Lists<I, T> {
    /// Groups pairs by their row; the order within a row stays. O(pairs + rows).
    pub(super) fn group(rows: usize, pairs: &[(I, T)]) -> Self
    where
        T: Copy,
    {
        let mut ends = vec![0_u32; rows];
        for (row, _) in pairs {
            ends.get_mut(row.index()).into_iter().for_each(|end| *end += 1);
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        let mut order = vec![None; sum as usize];
        let mut next = ends.clone();
        for (row, value) in pairs.iter().rev() {
            let Some(next) = next.get_mut(row.index()) else { continue };
            *next = next.saturating_sub(1);
            order.get_mut(*next as usize).into_iter().for_each(|slot| *slot = Some(*value));
        }
        Self { ends, values: order.into_iter().flatten().collect(), id: PhantomData }
    }

    pub(super) fn of(&self, row: I) -> &[T] {
        let start = row.index().checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end as usize);
        let end = self.ends.get(row.index()).map_or(start, |end| *end as usize);
        self.values.get(start..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_the_order_of_their_pairs_and_missing_rows_are_empty() {
        let pairs = [(2, 'a'), (0, 'b'), (2, 'c')].map(|(row, value)| (Op::of(row), value));
        let lists = Lists::group(3, &pairs);
        let of = |row| lists.of(Op::of(row)).to_vec();
        assert_eq!((of(0), of(1), of(2), of(9)), (vec!['b'], vec![], vec!['a', 'c'], vec![]));
    }
}
