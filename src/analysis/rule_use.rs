//! The workbench of rules: what each rule in force does to the kernels of these runs, and what is left in `misc`.

use super::results::Run;
use super::section::{Section, Value};
use crate::ordering::StableSort;
use crate::rules::{MISC, RuleSet, RuleUse, Usage, names};
use crate::trace::Ns;
use std::collections::BTreeMap;

/// The ids of the two tables.
const TABLES: [&str; 2] = ["rules_in_force", "rules_misc"];

/// Rules that are named as those that took another rule's kernels.
const MOST_TAKERS: usize = 3;

/// A kernel over all runs.
struct Work<'a> {
    name: &'a str,
    readable: String,
    launches: u64,
    elapsed_ns: i64,
}

/// The sections `rules_in_force` and `rules_misc` of these runs together, under these rules.
pub fn rule_use(rules: &RuleSet, runs: &[&Run]) -> BTreeMap<String, Section> {
    let works = works(runs);
    let usage = rules.usage(works.iter().map(|work| (work.name, work.readable.as_str())));
    let mut sections = [in_force(rules, &works, &usage), misc(&works, &usage)];
    if let Some(said) = counted_otherwise(rules, runs) {
        sections.iter_mut().for_each(|section| section.limits.push(said.clone()));
    }
    TABLES.iter().map(|id| (*id).to_owned()).zip(sections).collect()
}

fn works<'a>(runs: &[&'a Run]) -> Vec<Work<'a>> {
    let mut sums: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    for kernel in runs.iter().flat_map(|run| &run.kernels) {
        let (launches, elapsed_ns) = sums.entry(&kernel.name).or_default();
        *launches += kernel.count;
        *elapsed_ns = elapsed_ns.saturating_add(kernel.elapsed_ns);
    }
    let work = |(name, (launches, elapsed_ns))| Work {
        name,
        readable: names::demangle(name).into_owned(),
        launches,
        elapsed_ns,
    };
    let mut works: Vec<Work> = sums.into_iter().map(work).collect();
    works.order_by_key(|work| std::cmp::Reverse(work.elapsed_ns));
    works
}

/// Launches and time of the kernels at these places.
fn sums(works: &[Work], places: impl Iterator<Item = usize>) -> (u64, i64) {
    places
        .filter_map(|at| works.get(at))
        .fold((0, 0), |(launches, elapsed), work| (launches + work.launches, elapsed.saturating_add(work.elapsed_ns)))
}

fn in_force(rules: &RuleSet, works: &[Work], usage: &Usage) -> Section {
    const COLUMNS: [&str; 12] = [
        "rule_place",
        "regex",
        "category",
        "rule_state",
        "rule_names",
        "launches",
        "elapsed_ns",
        "share_pct",
        "shadowed_names",
        "shadowed_ns",
        "shadowed_by",
        "rule_file",
    ];
    let derived = format!(
        "the rules {} and the kernel names of the runs shown, in the order in which rules are tried",
        rules.label()
    );
    let mut section = Section::new("Rules in force", &derived, &COLUMNS)
        .limit("The first rule that is found in a name takes it. Shadowed are names that a rule matches and an earlier one takes");
    if usage.fully_tested < works.len() {
        section = section.limit(format!(
            "Shadowing is known for the {} names that cost most, of {}; what rules take is known for all",
            usage.fully_tested,
            works.len()
        ));
    }
    let (_, total) = sums(works, 0..works.len());
    let mut states = [0_u64; 3];
    for (place, rule) in usage.rules.iter().enumerate() {
        let (launches, elapsed) = sums(works, rule.matched.iter().copied());
        let lost: &[(usize, usize)] = if rule.is_catch_all() { &[] } else { &rule.shadowed };
        let (_, shadowed) = sums(works, lost.iter().map(|(at, _)| *at));
        let state = state(rule);
        for (count, word) in states.iter_mut().zip([IN_USE, SHADOWED, NEVER_HIT]) {
            *count += u64::from(state == word);
        }
        section.row([
            (place + 1).into(),
            rule.regex.into(),
            rule.category.into(),
            state.into(),
            rule.matched.len().into(),
            launches.into(),
            elapsed.into(),
            Value::pct(Ns(elapsed), Ns(total)),
            lost.len().into(),
            shadowed.into(),
            takers(lost, usage).into(),
            rule.file.into(),
        ]);
    }
    for (name, count) in ["rules_in_use", "rules_shadowed", "rules_never_hit"].iter().zip(states) {
        section.figure(name, count);
    }
    section
}

const IN_USE: &str = "in use";
const SHADOWED: &str = "shadowed";
const NEVER_HIT: &str = "never hit";

fn state(rule: &RuleUse) -> &'static str {
    match (rule.matched.is_empty(), rule.shadowed.is_empty()) {
        (false, _) => IN_USE,
        (true, false) if rule.is_catch_all() => NEVER_HIT,
        (true, false) => SHADOWED,
        (true, true) => NEVER_HIT,
    }
}

/// The rules that took these names, by how many they took, an item a line.
fn takers(lost: &[(usize, usize)], usage: &Usage) -> String {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for (_, taker) in lost {
        *counts.entry(*taker).or_default() += 1;
    }
    let mut counts: Vec<(usize, usize)> = counts.into_iter().collect();
    counts.order_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = counts.len().saturating_sub(MOST_TAKERS);
    let named = counts.iter().take(MOST_TAKERS).filter_map(|(taker, count)| {
        let rule = usage.rules.get(*taker)?;
        let names = if *count == 1 { "name" } else { "names" };
        Some(format!("rule {} ({}): {count} {names}", taker + 1, rule.category))
    });
    let more = (more > 0).then(|| format!("and {more} more"));
    named.chain(more).collect::<Vec<_>>().join("\n")
}

fn misc(works: &[Work], usage: &Usage) -> Section {
    const COLUMNS: [&str; 5] = ["kernel_name", "launches", "elapsed_ns", "share_pct", "taken_by"];
    let mut section = Section::new("What is in misc", "the kernel names of the runs shown", &COLUMNS)
        .limit("Names that no rule matches, that only the closing rule .* takes, or that a rule puts into misc");
    let caught = usage.rules.iter().enumerate().filter(|(_, rule)| rule.is_catch_all() || rule.category == MISC);
    let caught = caught.flat_map(|(place, rule)| rule.matched.iter().map(move |at| (*at, Some((place, rule.regex)))));
    let mut left: Vec<(usize, Option<(usize, &str)>)> =
        caught.chain(usage.unmatched.iter().map(|at| (*at, None))).collect();
    left.order_by_key(|(at, _)| *at);
    let (_, total) = sums(works, 0..works.len());
    for (at, rule) in &left {
        let Some(work) = works.get(*at) else { continue };
        section.row([
            work.name.into(),
            work.launches.into(),
            work.elapsed_ns.into(),
            Value::pct(Ns(work.elapsed_ns), Ns(total)),
            rule.map(|(place, regex)| format!("rule {}: {regex}", place + 1)).into(),
        ]);
    }
    let (launches, elapsed) = sums(works, left.iter().map(|(at, _)| *at));
    section.figure("names", left.len());
    section.figure("launches", launches);
    section.figure("elapsed_ns", elapsed);
    section.figure("share_pct", Value::pct(Ns(elapsed), Ns(total)));
    section
}

/// Runs of reports that were read back keep the categories that they came with.
fn counted_otherwise(rules: &RuleSet, runs: &[&Run]) -> Option<String> {
    let differs = |run: &&&Run| {
        let other = |kernel: &super::results::Kernel| {
            rules.category(&kernel.name, &names::demangle(&kernel.name)) != kernel.category
        };
        run.rules != rules.label() || run.kernels.iter().any(other)
    };
    let labels: Vec<&str> = runs.iter().filter(differs).map(|run| run.label.as_str()).collect();
    (!labels.is_empty()).then(|| {
        format!(
            "The categories of {} are of other rules: a report that was opened again is not counted anew",
            labels.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::RuleBook;
    use crate::session::{self, Choices, Opened, RuleFile};

    const RULES: &str = r#"{"e": {"m": {"gemm": "gemm", "fused_gemm": "moe", "norm": "norm", ".*": "misc"}}}"#;

    /// Three names: 2 x 100 ns, 50 ns, 30 ns, one after the other.
    fn run() -> Run {
        let event = |name: &str, ts: u32, dur: u32| {
            format!(
                r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":7,"ts":{ts},"dur":{dur},"args":{{"device":0,"stream":7}}}}"#
            )
        };
        let events = [
            event("fused_gemm_a", 0, 100),
            event("fused_gemm_a", 200, 100),
            event("gemm_b", 400, 50),
            event("scan", 500, 30),
        ];
        let text = format!(r#"{{"schemaVersion":1,"traceEvents":[{}]}}"#, events.join(","));
        let mut importer = crate::input::Importer::new("t.json");
        importer.feed(text.as_bytes()).unwrap();
        let Opened::Trace(trace) = session::open("t.json", importer.finish().unwrap()).unwrap() else {
            panic!("a trace")
        };
        let rules = vec![RuleFile { file: "r.json".to_owned(), text: RULES.to_owned() }];
        session::run(&trace, &Choices { rules, ..Choices::default() }).unwrap()
    }

    fn rules() -> RuleSet {
        let mut book = RuleBook::default();
        book.add("r.json", RULES).unwrap();
        book.select("e", "m").unwrap()
    }

    fn number(row: &super::super::section::Record, key: &str) -> f64 {
        row.get(key).and_then(Value::number).unwrap()
    }

    #[test]
    fn each_rule_says_what_it_takes_and_what_it_loses_to_which() {
        let run = run();
        let sections = rule_use(&rules(), &[&run]);
        let rows = &sections["rules_in_force"].rows;
        let states: Vec<&str> = rows.iter().map(|row| row.get("rule_state").and_then(Value::text).unwrap()).collect();
        assert_eq!(states, ["in use", "shadowed", "never hit", "in use"]);
        let [gemm, fused, _, rest] = &rows[..] else { panic!("four rules") };
        let taken = |row| ["rule_names", "launches", "elapsed_ns"].map(|key| number(row, key));
        assert_eq!((taken(gemm), taken(fused), taken(rest)), ([2.0, 3.0, 250_000.0], [0.0; 3], [1.0, 1.0, 30_000.0]));
        assert_eq!((number(fused, "shadowed_names"), number(fused, "shadowed_ns")), (1.0, 200_000.0));
        assert_eq!(fused.get("shadowed_by").and_then(Value::text), Some("rule 1 (gemm): 1 name"));
        assert_eq!(number(rest, "shadowed_names"), 0.0, "what a closing rule does not get says nothing");
        let misc = &sections["rules_misc"];
        assert_eq!(misc.rows.len(), 1);
        assert_eq!(misc.rows[0].get("kernel_name").and_then(Value::text), Some("scan"));
        assert_eq!(misc.rows[0].get("taken_by").and_then(Value::text), Some("rule 4: .*"));
    }

    #[test]
    fn what_rules_take_and_what_none_takes_is_all_there_is() {
        let run = run();
        let own = RuleBook::embedded().select("gpuprism", "default").unwrap();
        let none = {
            let mut book = RuleBook::default();
            book.add("r", r#"{"e": {"m": {"zzz": "z"}}}"#).unwrap();
            book.select("e", "m").unwrap()
        };
        for rules in [rules(), own, none] {
            let sections = rule_use(&rules, &[&run, &run]);
            let matched = &sections["rules_in_force"].rows;
            let unmatched = sections["rules_misc"].rows.iter().filter(|row| row.get("taken_by") == Some(&Value::Null));
            let sum = |key| matched.iter().chain(unmatched.clone()).map(|row| number(row, key)).sum::<f64>();
            assert_eq!(sum("elapsed_ns"), 2.0 * run.totals.elapsed_ns as f64);
            assert_eq!(sum("launches"), 2.0 * run.totals.gpu_ops as f64);
        }
    }

    #[test]
    fn a_report_counted_by_other_rules_is_told() {
        let run = run();
        let said = |sections: &BTreeMap<String, Section>| {
            sections["rules_misc"].limits.iter().any(|limit| limit.contains("t.json"))
        };
        assert!(!said(&rule_use(&rules(), &[&run])));
        assert!(said(&rule_use(&RuleBook::embedded().select("gpuprism", "default").unwrap(), &[&run])));
    }
}
