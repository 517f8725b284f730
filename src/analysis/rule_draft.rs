//! What a rule takes that is being written: its kernels in the runs, with their categories so far.
//!
//! The rule is tried as it would be in force, so a name that another rule takes first is not in the list. Launches and elapsed time
//! are summed over the runs. Cost: a search for each distinct name and rule.

use super::results::Run;
use super::rule_use::{KernelSum, sum_kernels, sums};
use super::section::{CategoryName, KernelName, Pct, Section, TypedSection, section};
use crate::rules::{RuleSet, names};
use crate::trace::Ns;
use crate::words::rules as words;
use std::collections::BTreeMap;

/// The most kernels that are listed; the figures count all.
const MAX_ROWS: usize = 10;

section! {
    /// What a rule takes that is being written.
    pub(crate) struct RuleDraft("rule_draft", "What the rule takes");
    row DraftRow {
        kernel_name: KernelName = "Kernel",
        category: CategoryName,
        launches: u64,
        elapsed_ns: Ns,
        share_pct: Pct,
    }
    figures DraftFigures { names: usize, launches: u64, elapsed_ns: Ns, share_pct: Pct }
}

/// The kernels of the runs that the rule with this regex takes in `rules`, the longest first.
pub fn rule_draft(rules: &RuleSet, regex: &str, runs: &[&Run]) -> Section {
    let kernels = sum_kernels(runs);
    let categories = categories(runs);
    let is_taken = |kernel: &KernelSum| rules.regex_of(kernel.name, &kernel.demangled) == Some(regex);
    let taken: Vec<usize> =
        kernels.iter().enumerate().filter(|(_, kernel)| is_taken(kernel)).map(|(index, _)| index).collect();
    let (_, total) = sums(&kernels, 0..kernels.len());
    let (launches, elapsed) = sums(&kernels, taken.iter().copied());
    let share_pct = |elapsed| Pct::of(Ns(elapsed), Ns(total));
    let row = |kernel: &KernelSum| DraftRow {
        kernel_name: kernel.name.into(),
        category: categories.get(kernel.name).copied().unwrap_or_default().into(),
        launches: kernel.launches,
        elapsed_ns: Ns(kernel.elapsed_ns),
        share_pct: share_pct(kernel.elapsed_ns),
    };
    let figures = DraftFigures { names: taken.len(), launches, elapsed_ns: Ns(elapsed), share_pct: share_pct(elapsed) };
    let mut answer = RuleDraft::answer("the kernel names of the runs shown")
        .limit(words::draft(MAX_ROWS))
        .with_figures(figures)
        .with_rows(taken.iter().take(MAX_ROWS).filter_map(|index| kernels.get(*index)).map(row));
    answer.rows_in_all = taken.len() as u64;
    answer.section()
}

/// A kernel of the runs: the name in the trace and the category so far. The name may be demangled.
pub fn kernel_of<'a>(runs: &[&'a Run], name: &str) -> Option<(&'a str, &'a str)> {
    let mut kernels = runs.iter().flat_map(|run| &run.kernels);
    let found = kernels.clone().find(|kernel| kernel.name == name);
    let found = found.or_else(|| kernels.find(|kernel| names::demangle(&kernel.name) == name));
    found.map(|kernel| (kernel.name.as_str(), kernel.category.as_str()))
}

/// The category of each name, in the last of the runs that has it.
fn categories<'a>(runs: &[&'a Run]) -> BTreeMap<&'a str, &'a str> {
    runs.iter().flat_map(|run| &run.kernels).map(|kernel| (kernel.name.as_str(), kernel.category.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::rows_of;
    use crate::rules::RuleBook;
    use crate::trace::testing::TestTrace;

    const RULES: &str = r#"{"e": {"m": {"gemm": "gemm", ".*": "misc"}}}"#;

    fn rules(own: &str) -> RuleSet {
        let mut book = RuleBook::default();
        book.add("r.json", RULES).unwrap();
        book.add("own.json", own).unwrap();
        book.select("e", "m").unwrap()
    }

    /// 2 x 100 us, 50 us and 50 us, one after the other.
    fn run() -> Run {
        let mut trace = TestTrace::new();
        trace.in_us().kernel("my_gemm", 0..100).kernel("my_gemm", 200..300);
        trace.kernel("my_scan", 400..450).kernel("other", 500..550);
        crate::analysis::analyze(&trace.finish(), &rules(RULES), &crate::analysis::Options::default())
    }

    fn figures(section: &Section) -> Vec<f64> {
        ["names", "launches", "elapsed_ns", "share_pct"].map(|name| section.summary.amount(name)).to_vec()
    }

    #[test]
    fn a_draft_lists_the_kernels_it_takes_with_their_categories_so_far() {
        let run = run();
        let own = rules(r#"{"e": {"m": {"my_": "mine"}}}"#);
        let draft = rule_draft(&own, "my_", &[&run, &run]);
        // Of two runs: 2 x 250 of 2 x 300 us.
        assert_eq!(figures(&draft), [2.0, 6.0, 500_000.0, 500.0 / 6.0]);
        assert_eq!(rows_of(&draft, &["kernel_name", "category"]), ["my_gemm gemm", "my_scan misc"]);
    }

    #[test]
    fn a_draft_takes_only_what_it_would_take_in_force() {
        let run = run();
        let first = rules(r#"{"e": {"m": {"scan": "s", "my_": "mine"}}}"#);
        assert_eq!(figures(&rule_draft(&first, "my_", &[&run]))[..2], [1.0, 2.0]);
        let nothing = rules(r#"{"e": {"m": {"zzz": "z"}}}"#);
        assert_eq!(figures(&rule_draft(&nothing, "zzz", &[&run])), [0.0; 4]);
        // A final `.*` stays the last rule.
        let all = rules(r#"{"e": {"m": {".*": "rest"}}}"#);
        assert_eq!(rows_of(&rule_draft(&all, ".*", &[&run]), &["kernel_name"]), ["my_scan", "other"]);
    }

    #[test]
    fn a_kernel_is_found_by_either_form_of_its_name() {
        let mut trace = TestTrace::new();
        let run = trace.kernel("_ZN4vllm3runEv", 0..10).run();
        assert_eq!(kernel_of(&[&run], "vllm::run()").map(|(raw, _)| raw), Some("_ZN4vllm3runEv"));
        assert_eq!(kernel_of(&[&run], "_ZN4vllm3runEv").map(|(raw, _)| raw), Some("_ZN4vllm3runEv"));
        assert_eq!(kernel_of(&[&run], "run"), None);
    }
}
