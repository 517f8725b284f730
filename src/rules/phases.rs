//! Which phase of serving a range is by its name: `prefill_stage`, `step[DECODE bs=16]`,
//! `execute_context_1(888)_generation_0(0)`.
//!
//! A word counts where it stands alone: `token` is no part of `max_tokens_x`, `decode` none of `decoder.py`. vLLM's names
//! tell how many requests of each phase a step holds: a word with such a count of zero says nothing, and one with
//! another count says its phase however common the word is. A step of both phases is the first of the list.

use super::signals::Phase;
use crate::trace::Names;

/// How clearly a name speaks of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Weakly,
    Clearly,
}

/// For each name the index of its phase in `phases`, if it has one.
///
/// Weak words count only where no name speaks clearly.
pub fn phases_of(phases: &[Phase], names: &Names) -> Vec<Option<usize>> {
    let said: Vec<Option<(Said, usize)>> = names.iter().map(|name| phase_of(phases, name)).collect();
    let least = if said.iter().flatten().any(|said| said.0 == Said::Clearly) { Said::Clearly } else { Said::Weakly };
    said.into_iter().map(|said| said.filter(|said| said.0 >= least).map(|(_, phase)| phase)).collect()
}

/// The first phase that the name speaks of clearly, else the first it speaks of at all.
fn phase_of(phases: &[Phase], name: &str) -> Option<(Said, usize)> {
    let mut weak = None;
    for (index, phase) in phases.iter().enumerate() {
        match said(phase, name) {
            Some(Said::Clearly) => return Some((Said::Clearly, index)),
            Some(Said::Weakly) => weak = weak.or(Some((Said::Weakly, index))),
            None => {}
        }
    }
    weak
}

fn said(phase: &Phase, name: &str) -> Option<Said> {
    let strong = phase.words.iter().filter_map(|word| find(name, word)).any(|count| count != Some(0));
    let weak = || phase.weak_words.iter().filter_map(|word| find(name, word));
    if strong || weak().any(|count| count.is_some_and(|count| count > 0)) {
        return Some(Said::Clearly);
    }
    weak().any(|count| count.is_none()).then_some(Said::Weakly)
}

/// Looks for a word of ASCII letters, whatever their case, and tells the count of requests behind it, if there is one.
fn find(name: &str, word: &str) -> Option<Option<u64>> {
    let (name, word) = (name.as_bytes(), word.as_bytes());
    let at = name.windows(word.len().max(1)).enumerate().find(|(at, window)| {
        window.eq_ignore_ascii_case(word)
            && !joins(at.checked_sub(1).and_then(|before| name.get(before)), window.first())
            && !joins(window.last(), name.get(at + word.len()))
    });
    at.map(|(at, _)| name.get(at + word.len()..).and_then(count_of_requests))
}

/// Do two letters belong to one word? A capital after a small letter begins the next.
fn joins(before: Option<&u8>, after: Option<&u8>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return false };
    let letters = before.is_ascii_alphabetic() && after.is_ascii_alphabetic();
    letters && !(before.is_ascii_lowercase() && after.is_ascii_uppercase())
}

/// The 15 of `_15(`.
fn count_of_requests(rest: &[u8]) -> Option<u64> {
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
    fn engines_names_say_their_phase() {
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
    fn a_word_inside_another_word_says_nothing() {
        for name in
            ["/models/max_tokens_x/decoder.py", "regenerate", "resampled", "ExtendedStep", "", "\u{e9}", "aten::mm"]
        {
            assert_eq!(phase(name), None, "{name}");
        }
    }

    #[test]
    fn common_words_count_only_where_no_range_says_it_better() {
        let want = |phase: &str| Some(phase.to_owned());
        assert_eq!(phases(&["context", "token 5"]), [want("prefill"), want("decode")]);
        assert_eq!(phases(&["context", "token 5", "decode"]), [None, None, want("decode")]);
        assert_eq!(phases(&["context_3(5)", "token 5"]), [want("prefill"), None], "a count makes a word clear");
    }
}
