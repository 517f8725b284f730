//! Lists for each rule of a set the names that it matches first, and the names that it matches after an earlier rule did.
//!
//! Matches are exact for all names. Shadowed names cost one search per rule and name and are computed for the first names of
//! the list only, within a budget of a million searches; [`Usage::fully_tested`] is the number of these names.

use super::book::RuleSet;
use super::matcher::Name;

/// The budget of searches for shadowed names. In the page a regex search costs microseconds.
const MAX_SEARCHES: usize = 1_000_000;

/// The names that one rule matches. Names are indices into the list given to [`RuleSet::usage`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleUse<'a> {
    /// The regex as in the rule file.
    pub regex: &'a str,
    /// The category that the rule assigns.
    pub category: &'a str,
    /// The file that defined the rule last.
    pub file: &'a str,
    /// Names whose first matching rule this is.
    pub matched: Vec<usize>,
    /// Names that this rule matches after an earlier rule did: (name, index of that earlier rule).
    pub shadowed: Vec<(usize, usize)>,
}

/// The names that each rule of a set matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage<'a> {
    /// All rules in the order in which they are tried.
    pub rules: Vec<RuleUse<'a>>,
    /// Names that no rule matches.
    pub unmatched: Vec<usize>,
    /// The number of names, from the start of the list, that were tested against every rule. Later names were tested only up
    /// to their first match.
    pub fully_tested: usize,
}

impl RuleUse<'_> {
    /// Returns true for the rule `.*`, which matches every name.
    pub fn is_catch_all(&self) -> bool {
        self.regex == super::book::CATCH_ALL
    }
}

impl RuleSet {
    /// Computes which of these names (raw and demangled) each rule matches. Put the most important names first, because later
    /// ones may exceed the search budget.
    ///
    /// Every name is in the `matched` list of exactly one rule, or in `unmatched`, consistent with [`RuleSet::category`].
    pub fn usage<'a>(&self, names: impl Iterator<Item = (&'a str, &'a str)>) -> Usage<'_> {
        let rules = self.compiled().map(|(rule, _)| RuleUse {
            regex: &rule.regex,
            category: &rule.category,
            file: &rule.file,
            matched: Vec::new(),
            shadowed: Vec::new(),
        });
        let mut usage = Usage { rules: rules.collect(), unmatched: Vec::new(), fully_tested: 0 };
        let mut searches_left = MAX_SEARCHES;
        for (name_index, (raw, demangled)) in names.enumerate() {
            let name = Name::new(self.matched_name(raw, demangled));
            let mut matches = self.compiled().enumerate().filter(|(_, (_, matcher))| matcher.is_match(&name));
            let first = matches.next().map(|(rule_index, _)| rule_index);
            match first.and_then(|rule_index| usage.rules.get_mut(rule_index)) {
                Some(rule) => rule.matched.push(name_index),
                None => usage.unmatched.push(name_index),
            }
            searches_left = searches_left.saturating_sub(usage.rules.len());
            if searches_left == 0 {
                continue;
            }
            usage.fully_tested = name_index + 1;
            for (rule_index, _) in matches {
                if let (Some(rule), Some(first)) = (usage.rules.get_mut(rule_index), first) {
                    rule.shadowed.push((name_index, first));
                }
            }
        }
        usage
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::RuleBook;

    #[test]
    fn a_name_is_matched_by_the_first_rule_and_shadowed_for_later_ones() {
        let mut book = RuleBook::default();
        book.add("a.json", r#"{"e": {"m": {"gemm": "gemm", "fused_gemm": "moe", "norm": "norm", ".*": "misc"}}}"#)
            .unwrap();
        let rules = book.select("e", "m").unwrap();
        let names = ["fused_gemm_a", "gemm_b", "copy"];
        let usage = rules.usage(names.iter().map(|name| (*name, *name)));
        let [gemm, fused, norm, rest] = &usage.rules[..] else { panic!("four rules") };
        assert_eq!((&gemm.matched[..], &gemm.shadowed[..]), (&[0, 1][..], &[][..]));
        assert_eq!((&fused.matched[..], &fused.shadowed[..]), (&[][..], &[(0, 0)][..]), "shadowed by gemm");
        assert_eq!((norm.matched.len(), norm.shadowed.len()), (0, 0), "matches no name");
        assert_eq!((&rest.matched[..], &rest.shadowed[..]), (&[2][..], &[(0, 0), (1, 0)][..]));
        assert!(rest.is_catch_all() && usage.unmatched.is_empty());
        assert_eq!(usage.fully_tested, 3);
    }

    proptest! {
        #[test]
        fn every_name_is_matched_by_exactly_one_rule_or_unmatched(
            regexes in prop::collection::vec("[ab]{1,2}|a\\.b|\\^b|\\.\\*", 1..6),
            names in prop::collection::vec("[abc]{0,4}", 0..12),
        ) {
            let object: Vec<String> = regexes.iter().enumerate()
                .map(|(index, regex)| format!("{}:\"c{index}\"", serde_json::to_string(regex).unwrap())).collect();
            let mut book = RuleBook::default();
            book.add("a.json", &format!("{{\"e\":{{\"m\":{{{}}}}}}}", object.join(","))).unwrap();
            let rules = book.select("e", "m").unwrap();
            let usage = rules.usage(names.iter().map(|name| (name.as_str(), name.as_str())));
            for (index, name) in names.iter().enumerate() {
                let matching: Vec<_> = usage.rules.iter().filter(|rule| rule.matched.contains(&index)).collect();
                prop_assert_eq!(matching.len() + usize::from(usage.unmatched.contains(&index)), 1);
                prop_assert_eq!(matching.first().map_or("misc", |rule| rule.category), rules.category(name, name));
            }
            for (rule_index, rule) in usage.rules.iter().enumerate() {
                for (name_index, first) in &rule.shadowed {
                    prop_assert!(*first < rule_index && usage.rules[*first].matched.contains(name_index));
                }
            }
        }
    }
}
