//! Exact percentiles of millions of numbers, without sorting them.

use crate::ordering::InOrder;

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
pub(super) fn interpolate(count: usize, percent: u64, at: &dyn Fn(usize) -> Option<i64>) -> Option<f64> {
    let place = Place::of(count, percent)?;
    let [low, high] = place.ends().map(at);
    Some(Place::between([low?, high?], place.part))
}

/// Numbers in any order, of which percentiles are asked; those that do not fit 32 bits, some four seconds, stand apart.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub(super) short: Vec<u32>,
    pub(super) long: Vec<i64>,
}

impl Numbers {
    pub(super) fn push(&mut self, number: i64) {
        match u32::try_from(number) {
            Ok(short) => self.short.push(short),
            Err(_) => self.long.push(number),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = i64> {
        self.short.iter().map(|&short| i64::from(short)).chain(self.long.iter().copied())
    }

    /// These percentiles of all of these together; `None` of none.
    pub(super) fn percentiles(all: &[&Self], percents: &[u64]) -> Vec<Option<f64>> {
        let pieces: Vec<&[u32]> = all.iter().map(|numbers| numbers.short.as_slice()).collect();
        let long = all.iter().flat_map(|numbers| &numbers.long).copied().collect();
        percentiles(&pieces, pieces.iter().map(|piece| piece.len()).sum(), long, percents)
    }
}

/// These percentiles of so many short numbers, which stand in pieces, in any order, and of long ones; `None` of none. The pieces
/// may hold the largest number for each of the long ones.
pub(super) fn percentiles(pieces: &[&[u32]], shorts: usize, mut long: Vec<i64>, percents: &[u64]) -> Vec<Option<f64>> {
    let count = shorts + long.len();
    let ends = percents.iter().filter_map(|percent| Place::of(count, *percent)).flat_map(Place::ends);
    let mut places: Vec<usize> = ends.collect();
    places.order_by(|a, b| a.cmp(b));
    places.dedup();
    // Whatever is long comes behind what is short.
    let (of_short, of_long) = places.split_at(places.partition_point(|place| *place < shorts));
    let mut found = Vec::with_capacity(places.len());
    let highest = pieces.iter().copied().flatten().copied().max().unwrap_or(0);
    choose(pieces, 0, u32::BITS - highest.leading_zeros(), of_short, &mut found);
    long.order_by(|a, b| a.cmp(b));
    found.extend(of_long.iter().filter_map(|place| long.get(place - shorts)));
    let value = |place: usize| Some(found.get(places.binary_search(&place).ok()?).copied().unwrap_or(0));
    percents.iter().map(|percent| interpolate(count, *percent, &value)).collect()
}

/// So many bits at a time.
const DIGIT_BITS: u32 = 11;

/// Adds the numbers that would stand at these places, which grow, if all were sorted: numbers of `bits` bits above `lowest`. They
/// are counted by their highest digit; of those that share it with one that is wanted, the next digit is looked at.
fn choose(pieces: &[&[u32]], lowest: u32, bits: u32, places: &[usize], found: &mut Vec<i64>) {
    let shift = bits.saturating_sub(DIGIT_BITS);
    let mut counts = [0_u32; 1 << DIGIT_BITS];
    let digit = |number: u32| (number.wrapping_sub(lowest) >> shift) as usize;
    for &number in pieces.iter().copied().flatten() {
        counts.get_mut(digit(number)).into_iter().for_each(|count| *count += 1);
    }
    let (mut rest, mut before) = (places, 0);
    for (at, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (here, behind) = rest.split_at(rest.partition_point(|place| *place < before + count as usize));
        let lowest = lowest.wrapping_add((at as u32) << shift);
        if shift == 0 {
            found.extend(here.iter().map(|_| i64::from(lowest)));
        } else if !here.is_empty() {
            let places: Vec<usize> = here.iter().map(|place| place - before).collect();
            let all: usize = pieces.iter().map(|piece| piece.len()).sum();
            // Most durations share their highest digit, which is zero: millions are not copied for that.
            if all == count as usize {
                choose(pieces, lowest, shift, &places, found);
            } else {
                let mut alike = Vec::with_capacity(count as usize);
                alike.extend(pieces.iter().copied().flatten().filter(|number| digit(**number) == at));
                choose(&[&alike], lowest, shift, &places, found);
            }
        }
        (rest, before) = (behind, before + count as usize);
        if rest.is_empty() {
            break;
        }
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
        fn percentiles_are_those_of_the_definition(
            values in prop::collection::vec(prop_oneof![0_i64..50, 0_i64..5_000, 0_i64..8_589_934_592], 0..300),
        ) {
            const PERCENTS: [u64; 7] = [50, 0, 1, 99, 90, 95, 100];
            let (mut some, mut others) = (Numbers::default(), Numbers::default());
            values.iter().enumerate().for_each(|(at, value)| if at % 3 == 0 { &mut some } else { &mut others }.push(*value));
            let found = Numbers::percentiles(&[&some, &others], &PERCENTS);
            for (ours, percent) in found.into_iter().zip(PERCENTS) {
                let want = naive(values.clone(), percent);
                prop_assert_eq!(ours.is_some(), want.is_some());
                prop_assert!((ours.unwrap_or(0.0) - want.unwrap_or(0.0)).abs() < 1e-3, "{:?} {:?}", ours, want);
            }
        }
    }
}
