//! Exact percentiles of millions of numbers, without sorting them.

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

    pub(super) fn append(&mut self, more: &Self) {
        self.short.extend_from_slice(&more.short);
        self.long.extend_from_slice(&more.long);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = i64> {
        self.short.iter().map(|&short| i64::from(short)).chain(self.long.iter().copied())
    }

    /// These percentiles; `None` of none. It puts the numbers into another order.
    pub(super) fn percentiles<const N: usize>(&mut self, percents: [u64; N]) -> [Option<f64>; N] {
        let count = self.len();
        let ends = percents.iter().filter_map(|percent| Place::of(count, *percent)).flat_map(Place::ends);
        let mut places: Vec<usize> = ends.collect();
        places.sort_unstable();
        places.dedup();
        let found = self.at(&places);
        let value = |place: usize| Some(found.get(places.binary_search(&place).ok()?).copied().unwrap_or(0));
        percents.map(|percent| interpolate(count, percent, &value))
    }

    /// The numbers that would stand at these places, which grow, if all were sorted.
    fn at(&mut self, places: &[usize]) -> Vec<i64> {
        self.long.sort_unstable();
        // Whatever is long comes behind whatever is short.
        let (long, mut rest) = (&self.long, self.short.as_mut_slice());
        let shorts = rest.len();
        let mut found = Vec::with_capacity(places.len());
        // From the last place on, so that each choice leaves fewer numbers to choose from.
        for &place in places.iter().rev() {
            found.push(match place.checked_sub(shorts) {
                Some(at) => long.get(at).copied().unwrap_or(0),
                None => {
                    let (before, number, _) = rest.select_nth_unstable(place);
                    rest = before;
                    i64::from(*number)
                }
            });
        }
        found.reverse();
        found
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
            values in prop::collection::vec(prop_oneof![0_i64..50, 0_i64..8_589_934_592], 0..300),
        ) {
            const PERCENTS: [u64; 7] = [50, 0, 1, 99, 90, 95, 100];
            let mut numbers = Numbers::default();
            values.iter().for_each(|value| numbers.push(*value));
            for (ours, percent) in numbers.percentiles(PERCENTS).into_iter().zip(PERCENTS) {
                let want = naive(values.clone(), percent);
                prop_assert_eq!(ours.is_some(), want.is_some());
                prop_assert!((ours.unwrap_or(0.0) - want.unwrap_or(0.0)).abs() < 1e-3, "{:?} {:?}", ours, want);
            }
            let mut kept: Vec<i64> = numbers.iter().collect();
            let mut all = values;
            kept.sort_unstable();
            all.sort_unstable();
            prop_assert_eq!(kept, all);
        }
    }
}
