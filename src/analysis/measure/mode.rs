//! The most frequent of some numbers. O(n log n).

/// The most frequent number; of equally frequent ones, the smallest.
pub(crate) fn mode(mut numbers: Vec<i64>) -> Option<i64> {
    numbers.sort_unstable();
    let runs = numbers.chunk_by(|a, b| a == b);
    // `max_by_key` returns the last of several maxima.
    runs.rev().max_by_key(|run| run.len())?.first().copied()
}

#[cfg(test)]
mod tests {
    use super::mode;

    #[test]
    fn the_smallest_of_equally_frequent_numbers_counts() {
        assert_eq!(mode(vec![3, 1, 3, 1, 2]), Some(1));
        assert_eq!(mode(vec![2, 7, 7]), Some(7));
        assert_eq!(mode(Vec::new()), None);
    }
}
