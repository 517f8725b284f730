//! What each rule of a set does to a list of names: which it takes, which an earlier rule took from it.

use super::book::RuleSet;
use super::matcher::Name;

/// Searches spent on what rules would take behind the first that matches. A regex costs microseconds in the page.
const MOST_SEARCHES: usize = 1_000_000;

/// What one rule does. Names are places in the list that was asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleUse<'a> {
    /// As in the rule file.
    pub regex: &'a str,
    /// What it makes of a name.
    pub category: &'a str,
    /// The file that brought it last.
    pub file: &'a str,
    /// Names that it takes.
    pub taken: Vec<usize>,
    /// Names that it matches and an earlier rule takes, with that rule's place.
    pub lost: Vec<(usize, usize)>,
}

/// What a rule set does to a list of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage<'a> {
    /// In the order in which they are tried.
    pub rules: Vec<RuleUse<'a>>,
    /// Names that no rule matches.
    pub unmatched: Vec<usize>,
    /// For so many names, the first of the list, every rule was asked; for the others only up to the one that takes them.
    pub asked_all: usize,
}

impl RuleUse<'_> {
    /// Does it match any name, so that it only closes the list?
    pub fn is_catch_all(&self) -> bool {
        self.regex == super::book::CATCH_ALL
    }
}

impl RuleSet {
    /// What each rule does to these names, given raw and demangled; the weightiest should come first.
    ///
    /// Every name is taken by exactly one rule or by none, as [`RuleSet::category`] says.
    pub fn usage<'a>(&self, names: impl Iterator<Item = (&'a str, &'a str)>) -> Usage<'_> {
        let rules = self.compiled().map(|(rule, _)| RuleUse {
            regex: &rule.regex,
            category: &rule.category,
            file: &rule.file,
            taken: Vec::new(),
            lost: Vec::new(),
        });
        let mut usage = Usage { rules: rules.collect(), unmatched: Vec::new(), asked_all: 0 };
        let mut searches = MOST_SEARCHES;
        for (at, (raw, demangled)) in names.enumerate() {
            let name = Name::new(self.side(raw, demangled));
            let mut matching = self.compiled().enumerate().filter(|(_, (_, matcher))| matcher.is_match(&name));
            let taker = matching.next().map(|(place, _)| place);
            match taker.and_then(|place| usage.rules.get_mut(place)) {
                Some(rule) => rule.taken.push(at),
                None => usage.unmatched.push(at),
            }
            searches = searches.saturating_sub(usage.rules.len());
            if searches == 0 {
                continue;
            }
            usage.asked_all = at + 1;
            for (place, _) in matching {
                if let (Some(rule), Some(taker)) = (usage.rules.get_mut(place), taker) {
                    rule.lost.push((at, taker));
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
    fn a_name_goes_to_the_first_rule_and_the_later_ones_lose_it() {
        let mut book = RuleBook::default();
        book.add("a.json", r#"{"e": {"m": {"gemm": "gemm", "fused_gemm": "moe", "norm": "norm", ".*": "misc"}}}"#)
            .unwrap();
        let rules = book.select("e", "m").unwrap();
        let names = ["fused_gemm_a", "gemm_b", "copy"];
        let usage = rules.usage(names.iter().map(|name| (*name, *name)));
        let [gemm, fused, norm, rest] = &usage.rules[..] else { panic!("four rules") };
        assert_eq!((&gemm.taken[..], &gemm.lost[..]), (&[0, 1][..], &[][..]));
        assert_eq!((&fused.taken[..], &fused.lost[..]), (&[][..], &[(0, 0)][..]), "shadowed by gemm");
        assert_eq!((norm.taken.len(), norm.lost.len()), (0, 0), "never hit");
        assert_eq!((&rest.taken[..], &rest.lost[..]), (&[2][..], &[(0, 0), (1, 0)][..]));
        assert!(rest.is_catch_all() && usage.unmatched.is_empty());
        assert_eq!(usage.asked_all, 3);
    }

    proptest! {
        #[test]
        fn every_name_is_taken_by_exactly_one_rule_or_by_none(
            regexes in prop::collection::vec("[ab]{1,2}|a\\.b|\\^b|\\.\\*", 1..6),
            names in prop::collection::vec("[abc]{0,4}", 0..12),
        ) {
            let object: Vec<String> = regexes.iter().enumerate()
                .map(|(at, regex)| format!("{}:\"c{at}\"", serde_json::to_string(regex).unwrap())).collect();
            let mut book = RuleBook::default();
            book.add("a.json", &format!("{{\"e\":{{\"m\":{{{}}}}}}}", object.join(","))).unwrap();
            let rules = book.select("e", "m").unwrap();
            let usage = rules.usage(names.iter().map(|name| (name.as_str(), name.as_str())));
            for (at, name) in names.iter().enumerate() {
                let takers: Vec<_> = usage.rules.iter().filter(|rule| rule.taken.contains(&at)).collect();
                prop_assert_eq!(takers.len() + usize::from(usage.unmatched.contains(&at)), 1);
                prop_assert_eq!(takers.first().map_or("misc", |rule| rule.category), rules.category(name, name));
            }
            for (place, rule) in usage.rules.iter().enumerate() {
                for (at, taker) in &rule.lost {
                    prop_assert!(*taker < place && usage.rules[*taker].taken.contains(at));
                }
            }
        }
    }
}
