//! Tables of the rule editor: which kernels of the runs each rule in force takes, and which kernels are left in `misc`.
//!
//! Rules are applied by kernel name, so finished runs are enough. Launches and elapsed time are summed over the runs. The kernels
//! that a rule takes are exact; shadowed kernels are counted only for the most expensive names, within the search limit of
//! [`RuleSet::usage`].

use super::results::Run;
use super::section::{Answer, CategoryName, KernelName, Pct, Sections, TypedSection, section};
use crate::ordering;
use crate::rules::{MISC, RuleSet, RuleUse, Usage, names};
use crate::trace::Ns;
use crate::words::rules as words;
use std::collections::BTreeMap;

section! {
    /// What each rule takes.
    pub(crate) struct RulesInForce("rules_in_force", "Active rules");
    row RuleRow {
        rule_place: usize = "#",
        regex: String = "Rule",
        category: CategoryName,
        rule_state: String = "State",
        rule_names: usize = "Names",
        launches: u64,
        elapsed_ns: Ns,
        share_pct: Pct,
        shadowed_names: usize,
        shadowed_ns: Ns = "Shadowed time",
        shadowed_by: String,
        rule_file: String = "File",
    }
    figures RuleFigures { rules_in_use: u64, rules_shadowed: u64, rules_never_hit: u64 }
}

section! {
    /// Kernels without a category of their own.
    pub(crate) struct RulesMisc("rules_misc", "Kernels in misc");
    row MiscRow {
        kernel_name: KernelName = "Kernel",
        launches: u64,
        elapsed_ns: Ns,
        share_pct: Pct,
        taken_by: Option<String>,
    }
    figures MiscFigures { names: usize, launches: u64, elapsed_ns: Ns, share_pct: Pct }
}

/// The maximum number of shadowing rules that are listed per rule.
const MAX_SHADOWING_RULES: usize = 3;

/// A kernel name with its sums over all runs.
pub(super) struct KernelSum<'a> {
    pub(super) name: &'a str,
    pub(super) demangled: String,
    pub(super) launches: u64,
    pub(super) elapsed_ns: i64,
    /// In all runs the trace, not a rule, shows the category.
    is_from_trace: bool,
}

/// Builds the sections `rules_in_force` and `rules_misc` of all runs together.
pub fn rule_use(rules: &RuleSet, runs: &[&Run]) -> Sections {
    let kernels = sum_kernels(runs);
    let usage = rules.usage(kernels.iter().map(|kernel| (kernel.name, kernel.demangled.as_str())));
    let mut sections = Sections::new();
    rules_in_force(rules, &kernels, &usage).put(&mut sections);
    misc(&kernels, &usage).put(&mut sections);
    if let Some(limit) = other_rules_limit(rules, runs) {
        sections.values_mut().for_each(|section| section.limits.push(limit.clone()));
    }
    sections
}

pub(super) fn sum_kernels<'a>(runs: &[&'a Run]) -> Vec<KernelSum<'a>> {
    let mut sums: BTreeMap<&str, (u64, i64, bool)> = BTreeMap::new();
    for kernel in runs.iter().flat_map(|run| &run.kernels) {
        let (launches, elapsed_ns, is_from_trace) = sums.entry(&kernel.name).or_insert((0, 0, true));
        *is_from_trace &= kernel.category_source.is_from_trace();
        *launches += kernel.count;
        *elapsed_ns = elapsed_ns.saturating_add(kernel.elapsed_ns);
    }
    let kernel_sum = |(name, (launches, elapsed_ns, is_from_trace))| KernelSum {
        name,
        demangled: names::demangle(name).into_owned(),
        launches,
        elapsed_ns,
        is_from_trace,
    };
    let mut kernels: Vec<KernelSum> = sums.into_iter().map(kernel_sum).collect();
    ordering::sort_by_key(&mut kernels, |kernel| std::cmp::Reverse(kernel.elapsed_ns));
    kernels
}

/// Launches and elapsed time of the kernels at these indices.
pub(super) fn sums(kernels: &[KernelSum], indices: impl Iterator<Item = usize>) -> (u64, i64) {
    indices.filter_map(|index| kernels.get(index)).fold((0, 0), |(launches, elapsed), kernel| {
        (launches + kernel.launches, elapsed.saturating_add(kernel.elapsed_ns))
    })
}

fn rules_in_force(rules: &RuleSet, kernels: &[KernelSum], usage: &Usage) -> Answer<RulesInForce> {
    let mut answer = RulesInForce::answer(words::in_force(rules.label()))
        .limit("The first rule that matches a name takes it. A name is shadowed if the rule matches it but an earlier rule takes it");
    if usage.fully_tested < kernels.len() {
        answer = answer.limit(words::shadowing_of_some(usage.fully_tested, kernels.len()));
    }
    let (_, total) = sums(kernels, 0..kernels.len());
    let mut states = [0_u64; 3];
    for (index, rule) in usage.rules.iter().enumerate() {
        let (launches, elapsed) = sums(kernels, rule.matched.iter().copied());
        let shadowed: &[(usize, usize)] = if rule.is_catch_all() { &[] } else { &rule.shadowed };
        let (_, shadowed_ns) = sums(kernels, shadowed.iter().map(|(kernel, _)| *kernel));
        let state = state(rule);
        for (count, word) in states.iter_mut().zip([IN_USE, SHADOWED, NEVER_HIT]) {
            *count += u64::from(state == word);
        }
        answer.rows.push(RuleRow {
            rule_place: index + 1,
            regex: rule.regex.into(),
            category: rule.category.into(),
            rule_state: state.to_owned(),
            rule_names: rule.matched.len(),
            launches,
            elapsed_ns: Ns(elapsed),
            share_pct: Pct::of(Ns(elapsed), Ns(total)),
            shadowed_names: shadowed.len(),
            shadowed_ns: Ns(shadowed_ns),
            shadowed_by: shadowing_rules(shadowed, usage),
            rule_file: rule.file.into(),
        });
    }
    let [rules_in_use, rules_shadowed, rules_never_hit] = states;
    answer.with_figures(RuleFigures { rules_in_use, rules_shadowed, rules_never_hit })
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

/// The rules that take shadowed names, by number of names, one per line.
fn shadowing_rules(shadowed: &[(usize, usize)], usage: &Usage) -> String {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for (_, rule) in shadowed {
        *counts.entry(*rule).or_default() += 1;
    }
    let mut counts: Vec<(usize, usize)> = counts.into_iter().collect();
    ordering::sort_by_key(&mut counts, |(_, count)| std::cmp::Reverse(*count));
    let more = counts.len().saturating_sub(MAX_SHADOWING_RULES);
    let named = counts.iter().take(MAX_SHADOWING_RULES).filter_map(|(index, count)| {
        let rule = usage.rules.get(*index)?;
        Some(words::shadowing(index + 1, rule.category, *count))
    });
    let more = (more > 0).then(|| words::more_rules(more));
    named.chain(more).collect::<Vec<_>>().join("\n")
}

fn misc(kernels: &[KernelSum], usage: &Usage) -> Answer<RulesMisc> {
    let mut answer = RulesMisc::answer("the kernel names of the runs shown").limit(
        "Names that no rule matches, that only the final rule .* takes, or that a rule assigns to misc; without names \
             whose category the trace shows",
    );
    let caught = usage.rules.iter().enumerate().filter(|(_, rule)| rule.is_catch_all() || rule.category == MISC);
    let caught =
        caught.flat_map(|(index, rule)| rule.matched.iter().map(move |name| (*name, Some((index, rule.regex)))));
    let mut in_misc: Vec<(usize, Option<(usize, &str)>)> =
        caught.chain(usage.unmatched.iter().map(|name| (*name, None))).collect();
    in_misc.retain(|(index, _)| kernels.get(*index).is_some_and(|kernel| !kernel.is_from_trace));
    ordering::sort_by_key(&mut in_misc, |(kernel, _)| *kernel);
    let (_, total) = sums(kernels, 0..kernels.len());
    for (index, rule) in &in_misc {
        let Some(kernel) = kernels.get(*index) else { continue };
        answer.rows.push(MiscRow {
            kernel_name: kernel.name.into(),
            launches: kernel.launches,
            elapsed_ns: Ns(kernel.elapsed_ns),
            share_pct: Pct::of(Ns(kernel.elapsed_ns), Ns(total)),
            taken_by: rule.map(|(index, regex)| words::rule(index + 1, regex)),
        });
    }
    let (launches, elapsed) = sums(kernels, in_misc.iter().map(|(kernel, _)| *kernel));
    answer.with_figures(MiscFigures {
        names: in_misc.len(),
        launches,
        elapsed_ns: Ns(elapsed),
        share_pct: Pct::of(Ns(elapsed), Ns(total)),
    })
}

/// The limit for runs with categories of other rules. Reports that were read back keep their categories.
fn other_rules_limit(rules: &RuleSet, runs: &[&Run]) -> Option<String> {
    let has_other_rules = |run: &&&Run| {
        let is_different = |kernel: &super::results::Kernel| {
            !kernel.category_source.is_from_trace()
                && rules.category(&kernel.name, &names::demangle(&kernel.name)) != kernel.category
        };
        run.rules != rules.label() || run.kernels.iter().any(is_different)
    };
    let labels: Vec<&str> = runs.iter().filter(has_other_rules).map(|run| run.label.as_str()).collect();
    (!labels.is_empty()).then(|| words::other_rules(&labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::section::Value;
    use crate::analysis::testing::{number, rows_of};
    use crate::rules::RuleBook;
    use crate::trace::testing::TestTrace;

    const RULES: &str = r#"{"e": {"m": {"gemm": "gemm", "fused_gemm": "moe", "norm": "norm", ".*": "misc"}}}"#;

    /// Three names: 2 x 100 us, 50 us and 30 us, one after the other.
    fn run() -> Run {
        let mut trace = TestTrace::new();
        trace.label("t.json").in_us().kernel("fused_gemm_a", 0..100).kernel("fused_gemm_a", 200..300);
        trace.kernel("gemm_b", 400..450).kernel("scan", 500..530);
        crate::analysis::analyze(&trace.finish(), &rules(RULES), &crate::analysis::Options::default())
    }

    fn rules(text: &str) -> RuleSet {
        let mut book = RuleBook::default();
        book.add("r.json", text).unwrap();
        book.select("e", "m").unwrap()
    }

    #[test]
    fn each_rule_has_its_taken_and_shadowed_names() {
        let run = run();
        let sections = rule_use(&rules(RULES), &[&run]);
        let in_force = &sections["rules_in_force"];
        let taken = rows_of(in_force, &["rule_state", "rule_names", "launches", "elapsed_ns"]);
        assert_eq!(taken, ["in use 2 3 250000", "shadowed 0 0 0", "never hit 0 0 0", "in use 1 1 30000"]);
        // The last rule is a catch-all rule, which has no shadowed names.
        let shadowed = rows_of(in_force, &["shadowed_names", "shadowed_ns", "shadowed_by"]);
        assert_eq!(shadowed, ["0 0 ", "1 200000 rule 1 (gemm): 1 name", "0 0 ", "0 0 "]);
        assert_eq!(rows_of(&sections["rules_misc"], &["kernel_name", "taken_by"]), ["scan rule 4: .*"]);
    }

    #[test]
    fn taken_and_unmatched_names_add_up_to_the_runs() {
        let run = run();
        let own = RuleBook::embedded().select("gpuprism", "default").unwrap();
        for rules in [rules(RULES), own, rules(r#"{"e": {"m": {"zzz": "z"}}}"#)] {
            let sections = rule_use(&rules, &[&run, &run]);
            let matched = &sections["rules_in_force"].rows;
            let unmatched = sections["rules_misc"].rows.iter().filter(|row| row.get("taken_by") == Some(&Value::Null));
            let sum = |key| matched.iter().chain(unmatched.clone()).map(|row| number(row, key)).sum::<f64>();
            assert_eq!(sum("elapsed_ns"), 2.0 * run.totals.elapsed_ns as f64);
            assert_eq!(sum("launches"), 2.0 * run.totals.gpu_ops as f64);
        }
    }

    #[test]
    fn a_run_with_other_rules_has_a_limit() {
        let run = run();
        let has_limit =
            |sections: &Sections| sections["rules_misc"].limits.iter().any(|limit| limit.contains("t.json"));
        assert!(!has_limit(&rule_use(&rules(RULES), &[&run])));
        assert!(has_limit(&rule_use(&RuleBook::embedded().select("gpuprism", "default").unwrap(), &[&run])));
    }
}
