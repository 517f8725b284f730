//! Exact percentiles of millions of numbers, without sorting them.

use crate::ordering::StableSort;

/// Where a percentile of `count` values lies: at `percent/100 * (count - 1)`, mostly between two of them.
#[derive(Debug, Clone, Copy)]
struct Place {
    below: usize,
    /// Hundredths of the way to the next value.
    part: u64,
}

impl Place {
    fn of(count: usize, percent: u64) -> Option<Self> {
        let place = percent.min(100) * (count as u64).checked_sub(1)?;
        Some(Self { below: (place / 100) as usize, part: place % 100 })
    }

    /// The places of the values that it lies between.
    fn ends(self) -> [usize; 2] {
        [self.below, self.below + usize::from(self.part > 0)]
    }

    fn between([low, high]: [i64; 2], part: u64) -> f64 {
        low as f64 + if part == 0 { 0.0 } else { high.saturating_sub(low) as f64 * part as f64 / 100.0 }
    }
}

/// This percentile of `count` sorted values by linear interpolation; `None` of none.
pub(crate) fn interpolate(count: usize, percent: u64, at: &dyn Fn(usize) -> Option<i64>) -> Option<f64> {
    let place = Place::of(count, percent)?;
    let [low, high] = place.ends().map(at);
    Some(Place::between([low?, high?], place.part))
}

/// Numbers in any order, of which percentiles are asked; those that do not fit 32 bits, some four seconds, stand apart.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    short: Vec<u32>,
    long: Vec<i64>,
    is_sorted: bool,
}

impl Numbers {
    /// With room for exactly so many.
    pub(crate) fn with_room(count: usize) -> Self {
        let mut short = Vec::new();
        short.reserve_exact(count);
        Self { short, ..Self::default() }
    }

    pub(crate) fn push(&mut self, number: i64) {
        match u32::try_from(number) {
            Ok(short) => self.short.push(short),
            Err(_) => self.long.push(number),
        }
    }

    /// For whoever asks for percentiles of them again and again.
    pub(crate) fn sort(&mut self) {
        self.short.sort_unstable();
        self.short.shrink_to_fit();
        self.is_sorted = true;
    }

    pub(crate) fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = i64> {
        self.short.iter().map(|&short| i64::from(short)).chain(self.long.iter().copied())
    }

    /// How many fall into each of so many bins; no number falls into a later one than a larger number.
    pub(crate) fn count_into(&self, counts: &mut [u64], bin_of: &dyn Fn(i64) -> usize) {
        let mut add = |bin: usize, more: u64| counts.get_mut(bin).into_iter().for_each(|count| *count += more);
        self.long.iter().for_each(|number| add(bin_of(*number), 1));
        let mut rest = self.short.as_slice();
        while let (true, Some(&first)) = (self.is_sorted, rest.first()) {
            let bin = bin_of(i64::from(first));
            let (here, behind) = rest.split_at(rest.partition_point(|number| bin_of(i64::from(*number)) == bin));
            add(bin, here.len() as u64);
            rest = behind;
        }
        rest.iter().for_each(|number| add(bin_of(i64::from(*number)), 1));
    }

    /// These percentiles of all of these together; `None` of none.
    pub(crate) fn percentiles(all: &[&Self], percents: &[u64]) -> Vec<Option<f64>> {
        let pieces: Vec<&[u32]> = all.iter().map(|numbers| numbers.short.as_slice()).collect();
        let shorts = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let mut long: Vec<i64> = all.iter().flat_map(|numbers| &numbers.long).copied().collect();
        let count = shorts + long.len();
        let ends = percents.iter().filter_map(|percent| Place::of(count, *percent)).flat_map(Place::ends);
        let mut places: Vec<usize> = ends.collect();
        places.order_by(|a, b| a.cmp(b));
        places.dedup();
        // Whatever is long comes behind what is short.
        let (of_short, of_long) = places.split_at(places.partition_point(|place| *place < shorts));
        let mut found = Vec::with_capacity(places.len());
        if all.iter().all(|numbers| numbers.is_sorted) {
            choose_sorted(pieces, 0, of_short, &mut found);
        } else {
            choose(&pieces, of_short, &mut found);
        }
        long.order_by(|a, b| a.cmp(b));
        found.extend(of_long.iter().filter_map(|place| long.get(place - shorts)));
        let value = |place: usize| Some(found.get(places.binary_search(&place).ok()?).copied().unwrap_or(0));
        percents.iter().map(|percent| interpolate(count, *percent, &value)).collect()
    }
}

/// Adds the numbers that would stand at these places, which grow, if all of these sorted pieces were one; so many numbers are
/// below all of them. Pieces are halved by value, and halves in which none is wanted are not looked at again.
fn choose_sorted(mut pieces: Vec<&[u32]>, below: usize, places: &[usize], found: &mut Vec<i64>) {
    /// So few are sorted.
    const FEW: usize = 64;
    pieces.retain(|piece| !piece.is_empty());
    let lowest = pieces.iter().filter_map(|piece| piece.first()).min().copied().unwrap_or(0);
    let highest = pieces.iter().filter_map(|piece| piece.last()).max().copied().unwrap_or(0);
    let count = pieces.iter().map(|piece| piece.len()).sum::<usize>();
    if places.is_empty() || lowest == highest {
        return found.extend(places.iter().map(|_| i64::from(lowest)));
    }
    if count <= FEW {
        let mut all: Vec<u32> = pieces.concat();
        all.order_by(|a, b| a.cmp(b));
        return found.extend(places.iter().filter_map(|place| all.get(place - below)).map(|number| i64::from(*number)));
    }
    let middle = lowest + (highest - lowest) / 2;
    let halves = pieces.into_iter().map(|piece| piece.split_at(piece.partition_point(|number| *number <= middle)));
    let (low, high): (Vec<&[u32]>, Vec<&[u32]>) = halves.unzip();
    let in_low = below + low.iter().map(|piece| piece.len()).sum::<usize>();
    let (of_low, of_high) = places.split_at(places.partition_point(|place| *place < in_low));
    choose_sorted(low, below, of_low, found);
    choose_sorted(high, in_low, of_high, found);
}

/// Numbers fall into buckets by their highest binary places, so that those far below the largest are told apart as well.
const HIGHEST: u32 = 6;
const BUCKETS: usize = ((u32::BITS - HIGHEST + 1) << HIGHEST) as usize;

fn bucket_of(number: u32) -> usize {
    let shift = (u32::BITS - 1 - HIGHEST) - (number | 1 << HIGHEST).leading_zeros();
    ((shift << HIGHEST) + (number >> shift)) as usize
}

/// The lowest number of a bucket, and how many binary places its numbers differ in.
fn lowest_of(bucket: usize) -> (u32, u32) {
    let shift = (bucket as u32 >> HIGHEST).saturating_sub(1);
    ((bucket as u32 - (shift << HIGHEST)) << shift, shift)
}

/// A bucket of which numbers are wanted.
struct Wanted {
    lowest: u32,
    bits: u32,
    /// Places in the bucket, growing.
    places: Vec<usize>,
    /// What the bucket holds, unless it is one number over and over.
    numbers: Vec<u32>,
}

/// Adds the numbers that would stand at these places, which grow, if all were sorted. All are counted by bucket; those of a bucket
/// in which one is wanted are looked at again.
fn choose(pieces: &[&[u32]], places: &[usize], found: &mut Vec<i64>) {
    let mut counts = [0_u32; BUCKETS];
    for &number in pieces.iter().copied().flatten() {
        counts.get_mut(bucket_of(number)).into_iter().for_each(|count| *count += 1);
    }
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut slots = [u8::MAX; BUCKETS];
    let (mut rest, mut before) = (places, 0);
    for ((bucket, count), slot) in counts.iter().enumerate().zip(&mut slots) {
        let (here, behind) = rest.split_at(rest.partition_point(|place| *place < before + *count as usize));
        if !here.is_empty() {
            let (lowest, bits) = lowest_of(bucket);
            let places = here.iter().map(|place| place - before).collect();
            let numbers = if bits > 0 { Vec::with_capacity(*count as usize) } else { Vec::new() };
            if bits > 0 {
                *slot = wanted.len() as u8;
            }
            wanted.push(Wanted { lowest, bits, places, numbers });
        }
        (rest, before) = (behind, before + *count as usize);
    }
    for &number in pieces.iter().copied().flatten() {
        let slot = slots.get(bucket_of(number)).copied().unwrap_or(u8::MAX);
        wanted.get_mut(usize::from(slot)).into_iter().for_each(|wanted| wanted.numbers.push(number));
    }
    for Wanted { lowest, bits, places, numbers } in wanted {
        by_digits(&numbers, lowest, bits, &places, found);
    }
}

/// So many bits at a time.
const DIGIT_BITS: u32 = 11;

/// Adds the numbers that would stand at these places, of numbers of `bits` bits above `lowest`, by their highest digit and, of those
/// that share it with one that is wanted, by the next.
fn by_digits(numbers: &[u32], lowest: u32, bits: u32, places: &[usize], found: &mut Vec<i64>) {
    if bits == 0 {
        found.extend(places.iter().map(|_| i64::from(lowest)));
        return;
    }
    let shift = bits.saturating_sub(DIGIT_BITS);
    let mut counts = [0_u32; 1 << DIGIT_BITS];
    let digit = |number: u32| (number.wrapping_sub(lowest) >> shift) as usize;
    for &number in numbers {
        counts.get_mut(digit(number)).into_iter().for_each(|count| *count += 1);
    }
    let (mut rest, mut before) = (places, 0);
    for (at, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (here, behind) = rest.split_at(rest.partition_point(|place| *place < before + count as usize));
        if !here.is_empty() {
            let places: Vec<usize> = here.iter().map(|place| place - before).collect();
            let alike: Vec<u32> = numbers.iter().copied().filter(|number| shift > 0 && digit(*number) == at).collect();
            by_digits(&alike, lowest.wrapping_add((at as u32) << shift), shift, &places, found);
        }
        (rest, before) = (behind, before + count as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `q * (n - 1)` and its neighbours, from the definition.
    fn naive(mut values: Vec<i64>, percent: u64) -> Option<f64> {
        values.sort_unstable();
        let place = percent as f64 * values.len().checked_sub(1)? as f64 / 100.0;
        let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
        Some(low as f64 + (high - low) as f64 * place.fract())
    }

    proptest! {
        #[test]
        fn a_bucket_holds_what_lies_between_its_lowest_number_and_that_of_the_next(number in prop_oneof![0_u32..300, any::<u32>()]) {
            let bucket = bucket_of(number);
            let (lowest, bits) = lowest_of(bucket);
            prop_assert!(bucket < BUCKETS && lowest <= number && number - lowest < 1 << bits);
            prop_assert_eq!(lowest_of(bucket + 1).0.wrapping_sub(lowest), 1 << bits);
        }

        #[test]
        fn percentiles_are_those_of_the_definition(
            values in prop::collection::vec(prop_oneof![0_i64..50, 0_i64..5_000, 0_i64..8_589_934_592], 0..300),
        ) {
            const PERCENTS: [u64; 7] = [50, 0, 1, 99, 90, 95, 100];
            let (mut some, mut others) = (Numbers::default(), Numbers::default());
            values.iter().enumerate().for_each(|(at, value)| if at % 3 == 0 { &mut some } else { &mut others }.push(*value));
            for _ in ["in any order", "sorted"] {
                let found = Numbers::percentiles(&[&some, &others], &PERCENTS);
                for (ours, percent) in found.into_iter().zip(PERCENTS) {
                    let want = naive(values.clone(), percent);
                    prop_assert_eq!(ours.is_some(), want.is_some());
                    prop_assert!((ours.unwrap_or(0.0) - want.unwrap_or(0.0)).abs() < 1e-3, "{:?} {:?}", ours, want);
                }
                let mut counts = [0; 4];
                let bin_of = |number: i64| (number / 40).min(3) as usize;
                [&some, &others].into_iter().for_each(|numbers| numbers.count_into(&mut counts, &bin_of));
                let count = |bin: usize| values.iter().filter(|value| bin_of(**value) == bin).count() as u64;
                prop_assert_eq!(counts, [0, 1, 2, 3].map(count));
                some.sort();
                others.sort();
            }
        }
    }
}
