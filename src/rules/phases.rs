//! Derives the serving phase (prefill, decode, sampling) of a range from its name: `prefill_stage`, `step[DECODE bs=16]`,
//! `execute_context_1(888)_generation_0(0)`. The words are in `patterns/signals.json`.
//!
//! A word must stand alone: `token` does not match `max_tokens_x`, `decode` does not match `decoder.py`. vLLM's names contain
//! the number of requests per phase after the word. A word with count zero does not match. A word with a positive count is
//! strong evidence, even if the word is a common one. If a name matches several phases, the first phase in the list wins.

use super::signals::Phase;
use crate::trace::Names;

/// How strongly a name indicates a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Weak,
    Strong,
}

/// For each name the index of its phase in `phases`, if it has one.
///
/// Weak matches are used only if no name in the list has a strong one.
pub fn phases_of(phases: &[Phase], names: &Names) -> Vec<Option<usize>> {
    let matches: Vec<Option<(Strength, usize)>> = names.iter().map(|name| phase_of(phases, name)).collect();
    let has_strong = matches.iter().flatten().any(|(strength, _)| *strength == Strength::Strong);
    let min_strength = if has_strong { Strength::Strong } else { Strength::Weak };
    let phase = |(strength, phase)| (strength >= min_strength).then_some(phase);
    matches.into_iter().map(|found| found.and_then(phase)).collect()
}

/// The first phase with a strong match, else the first with a weak match.
fn phase_of(phases: &[Phase], name: &str) -> Option<(Strength, usize)> {
    let mut weak = None;
    for (index, phase) in phases.iter().enumerate() {
        match strength(phase, name) {
            Some(Strength::Strong) => return Some((Strength::Strong, index)),
            Some(Strength::Weak) => weak = weak.or(Some((Strength::Weak, index))),
            None => {}
        }
    }
    weak
}

fn strength(phase: &Phase, name: &str) -> Option<Strength> {
    let has_word = phase.words.iter().filter_map(|word| find(name, word)).any(|count| count != Some(0));
    let weak = || phase.weak_words.iter().filter_map(|word| find(name, word));
    if has_word || weak().any(|count| count.is_some_and(|count| count > 0)) {
        return Some(Strength::Strong);
    }
    weak().any(|count| count.is_none()).then_some(Strength::Weak)
}

/// Searches a word of ASCII letters, ignoring case. Returns the number of requests after the word, if there is one.
fn find(name: &str, word: &str) -> Option<Option<u64>> {
    let (name, word) = (name.as_bytes(), word.as_bytes());
    let found = name.windows(word.len().max(1)).enumerate().find(|(start, window)| {
        window.eq_ignore_ascii_case(word)
            && !is_same_word(start.checked_sub(1).and_then(|before| name.get(before)), window.first())
            && !is_same_word(window.last(), name.get(start + word.len()))
    });
    found.map(|(start, _)| name.get(start + word.len()..).and_then(request_count))
}

/// Returns true if two adjacent letters belong to one word. A capital after a small letter starts a new word.
fn is_same_word(before: Option<&u8>, after: Option<&u8>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return false };
    let letters = before.is_ascii_alphabetic() && after.is_ascii_alphabetic();
    letters && !(before.is_ascii_lowercase() && after.is_ascii_uppercase())
}

/// Parses the 15 of `_15(`.
fn request_count(rest: &[u8]) -> Option<u64> {
    let rest = rest.strip_prefix(b"_")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = rest.split_at_checked(digits)?;
    if rest.first() != Some(&b'(') {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::signals::Signals;

    fn phases(names: &[&str]) -> Vec<Option<String>> {
        let (signals, mut interned) = (Signals::embedded(), Names::default());
        names.iter().for_each(|name| {
            interned.intern(name);
        });
        let found = phases_of(&signals.phases, &interned);
        found.into_iter().map(|phase| phase.map(|phase| signals.phases[phase].phase.clone())).collect()
    }

    fn phase(name: &str) -> Option<String> {
        phases(&[name]).pop().unwrap()
    }

    #[test]
    fn range_names_of_engines_have_the_right_phase() {
        for (name, want) in [
            ("step[DECODE bs=16]", Some("decode")),
            ("step[EXTEND bs=15 toks=15360]", Some("prefill")),
            ("execute_context_1(888_788544)_generation_0(0)", Some("prefill")),
            ("execute_15360_context_15(sq15360sk15360)_generation_0(sq0sk0sqsq0sqsk0)", Some("prefill")),
            ("execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk8193)", Some("decode")),
            ("execute_8192_context_9(sq8155)_generation_37(sq37sk34489)", Some("prefill")),
            ("execute_0_context_0(sq0)_generation_0(sq0)", None),
            ("prefill_stage", Some("prefill")),
            ("runPrefill", Some("prefill")),
            ("PrefillStage2", Some("prefill")),
            ("gpu_model_runner: sample", Some("sampling")),
            ("Sampler.forward", Some("sampling")),
        ] {
            assert_eq!(phase(name).as_deref(), want, "{name}");
        }
    }

    #[test]
    fn a_word_inside_another_word_does_not_match() {
        for name in
            ["/models/max_tokens_x/decoder.py", "regenerate", "resampled", "ExtendedStep", "", "\u{e9}", "aten::mm"]
        {
            assert_eq!(phase(name), None, "{name}");
        }
    }

    #[test]
    fn weak_words_count_only_if_no_name_has_a_strong_match() {
        let want = |phase: &str| Some(phase.to_owned());
        assert_eq!(phases(&["context", "token 5"]), [want("prefill"), want("decode")]);
        assert_eq!(phases(&["context", "token 5", "decode"]), [None, None, want("decode")]);
        assert_eq!(phases(&["context_3(5)", "token 5"]), [want("prefill"), None], "a count makes the match strong");
    }
}
