//! Which captured launch a graph replay's kernel comes from: by its place in the order of launches.
//!
//! While a CUDA or HIP graph is captured its launches are recorded with their code and run nothing; a replay runs the kernels
//! of one capture in the same order. So the n-th kernel of a replay is the n-th launch of the capture, which tells apart
//! kernels of one name that different code launches.

/// The launches of one capture, in order: of each the kernel's name as a number, or `None` where the call does not tell
/// (NVIDIA's).
pub(super) type Capture = Vec<Option<u32>>;

/// Where in `captures` the kernels of a replay were launched: the capture, and the place of the first.
///
/// Launches that name their kernels must do so in the replay's order, whatever stands before and after them. Those that
/// do not must be as many as the replay's kernels, and no other capture may be as long.
pub(super) fn find(captures: &[Capture], replay: &[u32]) -> Option<(usize, usize)> {
    if replay.is_empty() {
        return None;
    }
    let named = captures.iter().enumerate().filter(|(_, capture)| capture.iter().any(Option::is_some));
    let by_name = named.filter_map(|(at, capture)| Some((at, find_in(capture, replay)?))).next();
    by_name.or_else(|| by_length(captures, replay.len()).map(|at| (at, 0)))
}

fn by_length(captures: &[Capture], length: usize) -> Option<usize> {
    let fits = |capture: &Capture| capture.len() == length && capture.iter().all(Option::is_none);
    let mut found = captures.iter().enumerate().filter(|(_, capture)| fits(capture));
    let (at, _) = found.next()?;
    found.next().is_none().then_some(at)
}

/// The first place where the whole replay stands in a row (Knuth, Morris and Pratt: one pass, whatever repeats).
fn find_in(capture: &Capture, replay: &[u32]) -> Option<usize> {
    let borders = borders(replay);
    let mut matched = 0;
    for (at, name) in capture.iter().enumerate() {
        while matched > 0 && *name != replay.get(matched).copied() {
            matched = borders.get(matched - 1).copied().unwrap_or(0);
        }
        if name.is_some() && *name == replay.get(matched).copied() {
            matched += 1;
        }
        if matched == replay.len() {
            return Some(at + 1 - matched);
        }
    }
    None
}

/// Of every beginning of the replay, how long a shorter beginning is its end.
fn borders(replay: &[u32]) -> Vec<usize> {
    let mut borders = vec![0; replay.len()];
    let mut length = 0;
    for at in 1..replay.len() {
        while length > 0 && replay.get(at) != replay.get(length) {
            length = borders.get(length - 1).copied().unwrap_or(0);
        }
        length += usize::from(replay.get(at) == replay.get(length));
        if let Some(slot) = borders.get_mut(at) {
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
    fn a_replay_is_found_among_the_launches_around_its_capture() {
        let captures = [named(&[9, 9, 1, 2, 1, 3, 8]), named(&[1, 2, 2, 3])];
        assert_eq!(find(&captures, &[1, 2, 1, 3]), Some((0, 2)));
        assert_eq!(find(&captures, &[1, 2, 2, 3]), Some((1, 0)));
        assert_eq!(find(&captures, &[1, 3, 2]), None, "another order is another graph");
        assert_eq!(find(&captures, &[]), None);
    }

    #[test]
    fn launches_without_names_are_known_by_their_number_alone() {
        let captures = [vec![None; 4], vec![None; 3], vec![None; 4]];
        assert_eq!(find(&captures, &[5, 6, 7]), Some((1, 0)));
        assert_eq!(find(&captures, &[5, 6, 7, 8]), None, "two captures are as long");
        assert_eq!(find(&captures, &[5, 6]), None);
    }

    proptest! {
        #[test]
        fn the_place_is_the_first_at_which_the_whole_replay_stands(
            capture in prop::collection::vec(prop::option::weighted(0.9, 0_u32..3), 0..30),
            replay in prop::collection::vec(0_u32..3, 1..6),
        ) {
            let wanted: Vec<Option<u32>> = replay.iter().copied().map(Some).collect();
            let first = capture.windows(replay.len()).position(|window| window == wanted);
            prop_assert_eq!(find_in(&capture, &replay), first);
        }
    }
}
