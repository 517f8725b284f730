//! Exact percentiles of millions of numbers without sorting them: radix selection.
//!
//! One pass counts the numbers by bucket: floating-point-like buckets of the highest bits, so that small
//! numbers are resolved as well as large ones. A second pass collects the numbers of the buckets that contain
//! a wanted rank, which are selected by further digits. O(n) for any number of percentiles.

/// The rank of a percentile among `count` sorted values: `percent/100 * (count - 1)`, usually between two
/// values.
#[derive(Debug, Clone, Copy)]
struct Rank {
    lower: usize,
    /// Hundredths of the way to the next value.
    fraction: u64,
}

impl Rank {
    fn of(count: usize, percent: u64) -> Option<Self> {
        let rank = percent.min(100) * (count as u64).checked_sub(1)?;
        Some(Self { lower: (rank / 100) as usize, fraction: rank % 100 })
    }

    /// The ranks of the two values to interpolate between; equal if the rank is exact.
    fn neighbours(self) -> [usize; 2] {
        [self.lower, self.lower + usize::from(self.fraction > 0)]
    }

    fn interpolate([low, high]: [i64; 2], fraction: u64) -> f64 {
        low as f64 + if fraction == 0 { 0.0 } else { high.saturating_sub(low) as f64 * fraction as f64 / 100.0 }
    }
}

/// Returns a percentile of `count` sorted values by linear interpolation; `None` if there are none.
pub(crate) fn interpolate(count: usize, percent: u64, value_at: &dyn Fn(usize) -> Option<i64>) -> Option<f64> {
    let rank = Rank::of(count, percent)?;
    let [low, high] = rank.neighbours().map(value_at);
    Some(Rank::interpolate([low?, high?], rank.fraction))
}

/// A percentile of sorted values by linear interpolation; `None` if there are none.
pub(crate) fn of_sorted(sorted: &[i64], percent: u64) -> Option<f64> {
    interpolate(sorted.len(), percent, &|index| sorted.get(index).copied())
}

/// The median of sorted values; `None` if there are none.
pub(crate) fn median(sorted: &[i64]) -> Option<f64> {
    of_sorted(sorted, 50)
}

/// A multiset of numbers, mostly durations in nanoseconds. Takes four bytes per number; numbers of more than
/// 32 bits (durations above 4.3 s) are stored separately.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples {
    short: Vec<u32>,
    long: Vec<i64>,
}

impl Samples {
    /// An empty set with capacity for exactly `count` numbers of up to 32 bits.
    pub(crate) fn with_capacity(count: usize) -> Self {
        let mut short = Vec::new();
        short.reserve_exact(count);
        Self { short, long: Vec::new() }
    }

    pub(crate) fn push(&mut self, number: i64) {
        match u32::try_from(number) {
            Ok(short) => self.short.push(short),
            Err(_) => self.long.push(number),
        }
    }

    pub(crate) fn append(&mut self, other: &Self) {
        self.short.extend_from_slice(&other.short);
        self.long.extend_from_slice(&other.long);
    }

    pub(crate) fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = i64> {
        self.short.iter().map(|&short| i64::from(short)).chain(self.long.iter().copied())
    }

    /// Returns percentiles of several sets combined, by linear interpolation; `None` if all sets are empty.
    pub(crate) fn percentiles(sets: &[&Self], percents: &[u64]) -> Vec<Option<f64>> {
        let runs: Vec<&[u32]> = sets.iter().map(|samples| samples.short.as_slice()).collect();
        let short_count = runs.iter().map(|run| run.len()).sum::<usize>();
        let mut long: Vec<i64> = sets.iter().flat_map(|samples| &samples.long).copied().collect();
        let count = short_count + long.len();
        let neighbours = percents.iter().filter_map(|percent| Rank::of(count, *percent)).flat_map(Rank::neighbours);
        let mut ranks: Vec<usize> = neighbours.collect();
        ranks.sort_unstable();
        ranks.dedup();
        // Every long number is larger than every short one.
        let (short_ranks, long_ranks) = ranks.split_at(ranks.partition_point(|rank| *rank < short_count));
        let mut found = Vec::with_capacity(ranks.len());
        select(&runs, short_ranks, &mut found);
        long.sort_unstable();
        found.extend(long_ranks.iter().filter_map(|rank| long.get(rank - short_count)));
        let value = |rank: usize| Some(found.get(ranks.binary_search(&rank).ok()?).copied().unwrap_or(0));
        percents.iter().map(|percent| interpolate(count, *percent, &value)).collect()
    }
}

/// The bits after the leading one that determine the bucket of a number, as the mantissa of a float does.
const BUCKET_BITS: u32 = 6;
const BUCKETS: usize = ((u32::BITS - BUCKET_BITS + 1) << BUCKET_BITS) as usize;

fn bucket_of(number: u32) -> usize {
    let shift = (u32::BITS - 1 - BUCKET_BITS) - (number | 1 << BUCKET_BITS).leading_zeros();
    ((shift << BUCKET_BITS) + (number >> shift)) as usize
}

/// The lowest number of a bucket, and the number of low bits in which its numbers differ.
fn bucket_start(bucket: usize) -> (u32, u32) {
    let shift = (bucket as u32 >> BUCKET_BITS).saturating_sub(1);
    ((bucket as u32 - (shift << BUCKET_BITS)) << shift, shift)
}

struct WantedBucket {
    lowest: u32,
    bits: u32,
    /// Ranks within the bucket, ascending.
    ranks: Vec<usize>,
    /// The numbers in the bucket; empty if the bucket has only one possible number.
    numbers: Vec<u32>,
}

/// Appends the numbers with these ranks among the numbers of all runs. `ranks` is ascending.
fn select(runs: &[&[u32]], ranks: &[usize], found: &mut Vec<i64>) {
    let mut counts = [0_u32; BUCKETS];
    for &number in runs.iter().copied().flatten() {
        counts.get_mut(bucket_of(number)).into_iter().for_each(|count| *count += 1);
    }
    let mut wanted: Vec<WantedBucket> = Vec::new();
    let mut slots = [u8::MAX; BUCKETS];
    let (mut rest, mut before) = (ranks, 0);
    for ((bucket, count), slot) in counts.iter().enumerate().zip(&mut slots) {
        let (here, later) = rest.split_at(rest.partition_point(|rank| *rank < before + *count as usize));
        if !here.is_empty() {
            let (lowest, bits) = bucket_start(bucket);
            let ranks = here.iter().map(|rank| rank - before).collect();
            let numbers = if bits > 0 { Vec::with_capacity(*count as usize) } else { Vec::new() };
            if bits > 0 {
                *slot = wanted.len() as u8;
            }
            wanted.push(WantedBucket { lowest, bits, ranks, numbers });
        }
        (rest, before) = (later, before + *count as usize);
    }
    for &number in runs.iter().copied().flatten() {
        let slot = slots.get(bucket_of(number)).copied().unwrap_or(u8::MAX);
        wanted.get_mut(usize::from(slot)).into_iter().for_each(|wanted| wanted.numbers.push(number));
    }
    for WantedBucket { lowest, bits, ranks, numbers } in wanted {
        select_by_digits(&numbers, lowest, bits, &ranks, found);
    }
}

const DIGIT_BITS: u32 = 11;

/// Appends the numbers with these ranks; all numbers are in `lowest..lowest + 2^bits`. Counts them by their
/// highest digit, then recurses into the digits that contain a wanted rank.
fn select_by_digits(numbers: &[u32], lowest: u32, bits: u32, ranks: &[usize], found: &mut Vec<i64>) {
    if bits == 0 {
        found.extend(ranks.iter().map(|_| i64::from(lowest)));
        return;
    }
    let shift = bits.saturating_sub(DIGIT_BITS);
    let mut counts = [0_u32; 1 << DIGIT_BITS];
    let digit = |number: u32| (number.wrapping_sub(lowest) >> shift) as usize;
    for &number in numbers {
        counts.get_mut(digit(number)).into_iter().for_each(|count| *count += 1);
    }
    let (mut rest, mut before) = (ranks, 0);
    for (value, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (here, later) = rest.split_at(rest.partition_point(|rank| *rank < before + count as usize));
        if !here.is_empty() {
            let ranks: Vec<usize> = here.iter().map(|rank| rank - before).collect();
            let same: Vec<u32> =
                numbers.iter().copied().filter(|number| shift > 0 && digit(*number) == value).collect();
            select_by_digits(&same, lowest.wrapping_add((value as u32) << shift), shift, &ranks, found);
        }
        (rest, before) = (later, before + count as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Percentile by the definition: interpolated at rank `q * (n - 1)` of the sorted values.
    fn naive(mut values: Vec<i64>, percent: u64) -> Option<f64> {
        values.sort_unstable();
        let rank = percent as f64 * values.len().checked_sub(1)? as f64 / 100.0;
        let (low, high) = (values[rank.floor() as usize], values[rank.ceil() as usize]);
        Some(low as f64 + (high - low) as f64 * rank.fract())
    }

    proptest! {
        #[test]
        fn a_bucket_covers_the_numbers_up_to_the_start_of_the_next(number in prop_oneof![0_u32..300, any::<u32>()]) {
            let bucket = bucket_of(number);
            let (lowest, bits) = bucket_start(bucket);
            prop_assert!(bucket < BUCKETS && lowest <= number && number - lowest < 1 << bits);
            prop_assert_eq!(bucket_start(bucket + 1).0.wrapping_sub(lowest), 1 << bits);
        }

        #[test]
        fn percentiles_match_the_definition(
            values in prop::collection::vec(prop_oneof![0_i64..50, 0_i64..5_000, 0_i64..8_589_934_592], 0..300),
        ) {
            const PERCENTS: [u64; 7] = [50, 0, 1, 99, 90, 95, 100];
            let (mut first, mut second) = (Samples::default(), Samples::default());
            values.iter().enumerate().for_each(|(index, value)| if index % 3 == 0 { &mut first } else { &mut second }.push(*value));
            let found = Samples::percentiles(&[&first, &second], &PERCENTS);
            for (ours, percent) in found.into_iter().zip(PERCENTS) {
                let expected = naive(values.clone(), percent);
                prop_assert_eq!(ours.is_some(), expected.is_some());
                prop_assert!((ours.unwrap_or(0.0) - expected.unwrap_or(0.0)).abs() < 1e-3, "{:?} {:?}", ours, expected);
            }
            first.append(&second);
            prop_assert_eq!(first.len(), values.len());
            prop_assert_eq!(first.iter().sum::<i64>(), values.iter().sum::<i64>());
        }
    }
}
