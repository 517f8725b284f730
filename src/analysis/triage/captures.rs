//! Matches the kernels of a graph replay with the launches of the graph's capture, in linear time per capture.
//!
//! The launches in a CUDA or HIP graph capture are recorded with their call stacks and run no kernel. A replay runs the
//! kernels of one capture in the same order. The n-th kernel of a replay is therefore the n-th launch of the capture. This
//! also separates kernels of the same name that different code launches.

/// The launches of one capture, in order: the id of each kernel's name, or `None` if the call does not record it (CUDA).
pub(super) type Capture = Vec<Option<u32>>;

/// Finds the capture of a replay: the index of the capture and the index of the launch of the replay's first kernel.
///
/// A capture with kernel names matches if it contains the names of the replay as a contiguous subsequence; the first match
/// is returned. Otherwise a capture without any names matches if it has as many launches as the replay has kernels, and no
/// other such capture has the same length.
pub(super) fn find(captures: &[Capture], replay: &[u32]) -> Option<(usize, usize)> {
    if replay.is_empty() {
        return None;
    }
    let named = captures.iter().enumerate().filter(|(_, capture)| capture.iter().any(Option::is_some));
    let by_name = named.filter_map(|(index, capture)| Some((index, find_in(capture, replay)?))).next();
    by_name.or_else(|| by_length(captures, replay.len()).map(|index| (index, 0)))
}

fn by_length(captures: &[Capture], length: usize) -> Option<usize> {
    let fits = |capture: &Capture| capture.len() == length && capture.iter().all(Option::is_none);
    let mut found = captures.iter().enumerate().filter(|(_, capture)| fits(capture));
    let (index, _) = found.next()?;
    found.next().is_none().then_some(index)
}

/// The index of the first occurrence of `replay` in `capture` (Knuth-Morris-Pratt, linear time).
fn find_in(capture: &Capture, replay: &[u32]) -> Option<usize> {
    let borders = border_lengths(replay);
    let mut matched = 0;
    for (index, name) in capture.iter().enumerate() {
        while matched > 0 && *name != replay.get(matched).copied() {
            matched = borders.get(matched - 1).copied().unwrap_or(0);
        }
        if name.is_some() && *name == replay.get(matched).copied() {
            matched += 1;
        }
        if matched == replay.len() {
            return Some(index + 1 - matched);
        }
    }
    None
}

/// The failure function of Knuth-Morris-Pratt: for every prefix, the length of its longest proper prefix that is also a
/// suffix.
fn border_lengths(replay: &[u32]) -> Vec<usize> {
    let mut borders = vec![0; replay.len()];
    let mut length = 0;
    for index in 1..replay.len() {
        while length > 0 && replay.get(index) != replay.get(length) {
            length = borders.get(length - 1).copied().unwrap_or(0);
        }
        length += usize::from(replay.get(index) == replay.get(length));
        if let Some(slot) = borders.get_mut(index) {
            *slot = length;
        }
    }
    borders
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(names: &[u32]) -> Capture {
        names.iter().copied().map(Some).collect()
    }

    #[test]
    fn a_replay_matches_a_contiguous_part_of_a_capture() {
        let captures = [named(&[9, 9, 1, 2, 1, 3, 8]), named(&[1, 2, 2, 3])];
        assert_eq!(find(&captures, &[1, 2, 1, 3]), Some((0, 2)));
        assert_eq!(find(&captures, &[1, 2, 2, 3]), Some((1, 0)));
        assert_eq!(find(&captures, &[1, 3, 2]), None, "no capture has this order");
        assert_eq!(find(&captures, &[]), None);
    }

    #[test]
    fn a_capture_without_names_matches_by_unique_length() {
        let captures = [vec![None; 4], vec![None; 3], vec![None; 4]];
        assert_eq!(find(&captures, &[5, 6, 7]), Some((1, 0)));
        assert_eq!(find(&captures, &[5, 6, 7, 8]), None, "two captures have this length");
        assert_eq!(find(&captures, &[5, 6]), None);
    }

    proptest! {
        #[test]
        fn the_result_is_the_first_occurrence_of_the_replay(
            capture in prop::collection::vec(prop::option::weighted(0.9, 0_u32..3), 0..30),
            replay in prop::collection::vec(0_u32..3, 1..6),
        ) {
            let expected: Vec<Option<u32>> = replay.iter().copied().map(Some).collect();
            let first = capture.windows(replay.len()).position(|window| window == expected);
            prop_assert_eq!(find_in(&capture, &replay), first);
        }
    }
}
