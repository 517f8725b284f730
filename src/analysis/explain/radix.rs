//! Sorting of millions of short numbers, which exact percentiles need: by digits, in a time that grows with how many there are.

/// So many bits at a time.
const DIGIT_BITS: u32 = 11;
const DIGITS: usize = u32::BITS.div_ceil(DIGIT_BITS) as usize;
const VALUES: usize = 1 << DIGIT_BITS;

/// Fewer are sorted by comparing: counting digits costs as much as that.
const FEW: usize = 1_000;

/// Sorts in place.
pub(super) fn sort(numbers: &mut [u32]) {
    if numbers.len() < FEW {
        return numbers.sort_unstable();
    }
    let counts = counts(numbers);
    let mut other = vec![0; numbers.len()];
    let (mut from, mut to) = (&mut *numbers, other.as_mut_slice());
    let mut is_swapped = false;
    for (place, counts) in (0..).zip(counts) {
        // Of durations the highest digit is zero more often than not.
        if counts.iter().any(|count| *count as usize == from.len()) {
            continue;
        }
        scatter(from, to, place, counts);
        (from, to) = (to, from);
        is_swapped = !is_swapped;
    }
    if is_swapped {
        to.copy_from_slice(from);
    }
}

fn digit(number: u32, place: u32) -> usize {
    (number >> (place * DIGIT_BITS)) as usize % VALUES
}

/// How often each digit stands at each place.
fn counts(numbers: &[u32]) -> Vec<Vec<u32>> {
    let mut counts = vec![vec![0; VALUES]; DIGITS];
    for (place, counts) in (0..).zip(&mut counts) {
        for &number in numbers {
            counts.get_mut(digit(number, place)).into_iter().for_each(|count| *count += 1);
        }
    }
    counts
}

/// Puts numbers in the order of one digit, equal ones as they stand.
fn scatter(from: &[u32], to: &mut [u32], place: u32, mut counts: Vec<u32>) {
    let mut before = 0;
    for count in &mut counts {
        (*count, before) = (before, before + *count);
    }
    for &number in from {
        let Some(next) = counts.get_mut(digit(number, place)) else { continue };
        to.get_mut(*next as usize).into_iter().for_each(|slot| *slot = number);
        *next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_in_the_order_of_the_standard_librarys_sort(
            most in prop_oneof![Just(1_u32), Just(1 << 11), Just(1 << 22), Just(u32::MAX)],
            mut numbers in proptest::collection::vec(any::<u32>(), 0..3_000),
        ) {
            numbers.iter_mut().for_each(|number| *number %= most);
            let mut wanted = numbers.clone();
            wanted.sort_unstable();
            sort(&mut numbers);
            prop_assert_eq!(numbers, wanted);
        }
    }
}
