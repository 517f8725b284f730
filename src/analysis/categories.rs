//! The category of each kernel name, from the rules, or from the trace if the name does not decide.
//!
//! The trace is evidence for a kernel that no rule or only a generic rule matches: recorded collectives, the framework op and
//! Python frame that launched it, the range around the launch, and the kernels before and after it, in this order. At least
//! 90 % of the launches of a name must agree. The evidence is computed once for a whole trace and shared by its windows.
//! Cost: one search per name and word, and a pass over the ops for each kind of evidence that the trace has.

use crate::analysis::structure::call_ranges::{NONE, names_around_calls};
use crate::rules::category_words::{CategoryEntry, CategoryWords, NeighbourRule};
use crate::rules::signals::{CallKind, Signals};
use crate::rules::{Certainty, NameMatch, RuleBook, RuleSet, names};
use crate::trace::{CategorySource, CodeOfLaunch, DeviceId, EvidenceByName, NameId, Names, OpKind, Trace};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// The rules and the evidence of one trace.
#[derive(Debug, Clone, Copy)]
pub struct Categories<'a> {
    rules: &'a RuleSet,
    /// `None` if the rules have categories of their own.
    evidence: Option<&'a EvidenceByName>,
}

impl<'a> Categories<'a> {
    /// Categories by these rules. Evidence other than the name applies only to rules with gpuprism's own categories.
    pub fn new(trace: &'a Trace, rules: &'a RuleSet) -> Self {
        Self { rules, evidence: rules.has_own_categories().then(|| evidence(trace)) }
    }

    /// Categories by gpuprism's default rules.
    pub fn by_default_rules(trace: &'a Trace) -> Option<Self> {
        RuleBook::gpuprism_default().map(|rules| Self::new(trace, rules))
    }

    /// The category of a name and how it was found.
    pub fn of(&self, raw: &str, demangled: &str) -> (&'a str, CategorySource) {
        let NameMatch { category, certainty, is_user_rule } = self.rules.classify(raw, demangled);
        let rule = if is_user_rule { CategorySource::UserRule } else { CategorySource::Rule };
        let found = || self.evidence.and_then(|evidence| evidence.get(raw));
        match certainty {
            Certainty::Specific => (category, rule),
            Certainty::Generic => found().map_or((category, rule), |(category, source)| (category.as_str(), *source)),
            Certainty::NoMatch => {
                found().map_or((category, CategorySource::None), |(category, source)| (category.as_str(), *source))
            }
        }
    }
}

/// Computes the evidence of a trace, so that windows cut from it afterwards share it.
pub fn evidence(trace: &Trace) -> &EvidenceByName {
    let find = || RuleBook::gpuprism_default().map_or_else(EvidenceByName::default, |rules| Search::run(trace, rules));
    trace.category_evidence.get_or_compute(find)
}

/// The share of launches that must agree, in percent.
const MIN_AGREEMENT_PCT: u64 = 90;

/// The share of the launches of a name whose origin must be known, in percent.
const MIN_KNOWN_PCT: u64 = 50;

/// By name: whether no rule or only a generic rule of the default rules matches it.
pub(crate) fn undecided_names(trace: &Trace) -> Vec<bool> {
    let Some(rules) = RuleBook::gpuprism_default() else { return Vec::new() };
    let is_open = |name| rules.classify(name, &names::demangle(name)).certainty != Certainty::Specific;
    trace.names.iter().map(is_open).collect()
}

/// The kernels that a call launched on its own: name and row of the call. Launches of graphs do not count: one call launches kernels
/// of many categories.
pub(crate) fn eager_launches(trace: &Trace) -> impl Iterator<Item = (NameId, usize)> {
    let signals = Signals::embedded();
    let is_graph: Vec<bool> =
        trace.calls.names.iter().map(|name| signals.call(name) == CallKind::GraphLaunch).collect();
    let ops = trace.gpu_ops.iter().zip(trace.gpu_ops.launches()).filter(|(op, _)| op.kind == OpKind::Kernel);
    let launched = ops.filter_map(|(op, call)| Some((op.name, call?.0 as usize)));
    launched.filter(move |(_, call)| {
        let name = trace.calls.name(*call);
        name.is_some_and(|name| is_graph.get(name.0 as usize) == Some(&false))
    })
}

/// What is still to be found for one kernel name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    /// The name decides, or evidence was found.
    No,
    /// A generic rule matches.
    Generic,
    /// No rule matches.
    NoMatch,
}

struct Search<'a> {
    trace: &'a Trace,
    /// By name.
    open: Vec<Open>,
    found: EvidenceByName,
}

/// Launches of one name by the category that they indicate.
#[derive(Debug, Clone, Default)]
struct Votes<'a> {
    launches: u64,
    /// Launches whose origin is known.
    known: u64,
    /// Those of them that were looked up: all or a sample.
    asked: u64,
    /// Category, number of launches, and whether it replaces that of a generic rule.
    categories: Vec<(&'a str, u64, bool)>,
}

impl<'a> Votes<'a> {
    fn add(&mut self, category: &'a str, replaces_generic: bool) {
        match self.categories.iter_mut().find(|(known, ..)| *known == category) {
            Some((_, count, replaces)) => {
                *count += 1;
                *replaces &= replaces_generic;
            }
            None => self.categories.push((category, 1, replaces_generic)),
        }
    }

    /// The category on which enough of the launches agree.
    fn winner(&self) -> Option<(&'a str, bool)> {
        let (category, count, replaces_generic) = self.categories.iter().max_by_key(|(_, count, _)| *count)?;
        let is_clear =
            count * 100 >= self.asked * MIN_AGREEMENT_PCT && self.known * 100 >= self.launches * MIN_KNOWN_PCT;
        is_clear.then_some((category, *replaces_generic))
    }
}

impl<'a> Search<'a> {
    fn run(trace: &'a Trace, rules: &RuleSet) -> EvidenceByName {
        let words = CategoryWords::embedded();
        let matches: Vec<NameMatch> =
            trace.names.iter().map(|name| rules.classify(name, &names::demangle(name))).collect();
        let open = matches.iter().map(|found| match found.certainty {
            Certainty::Specific => Open::No,
            Certainty::Generic => Open::Generic,
            Certainty::NoMatch => Open::NoMatch,
        });
        let mut search = Self { trace, open: open.collect(), found: EvidenceByName::default() };
        search.collectives();
        let code = &trace.launch_code;
        search.code(CategorySource::Op, &code.ops, &|launch| launch.op, &|name| words.op(name));
        search.code(CategorySource::Frame, &code.functions, &|launch| launch.function, &|name| words.frame(name));
        search.ranges(&|name| words.range(name));
        search.neighbours(&words.neighbours, &matches);
        search.found
    }

    fn is_open(&self, name: NameId) -> bool {
        self.open.get(name.0 as usize).is_some_and(|open| *open != Open::No)
    }

    /// Assigns the categories on which the launches agree.
    fn accept(&mut self, source: CategorySource, votes: &[Votes]) {
        for ((open, name), votes) in self.open.iter_mut().zip(self.trace.names.iter()).zip(votes) {
            let Some((category, replaces_generic)) = votes.winner() else { continue };
            if *open == Open::NoMatch || *open == Open::Generic && replaces_generic {
                self.found.insert(name.to_owned(), (category.to_owned(), source));
                *open = Open::No;
            }
        }
    }

    /// Kernels for which the profiler recorded a message between GPUs.
    fn collectives(&mut self) {
        if self.trace.collectives.is_empty() {
            return;
        }
        let mut votes = vec![Votes::default(); self.trace.names.len()];
        for op in self.trace.gpu_ops.iter().filter(|op| op.kind == OpKind::Kernel) {
            if let Some(votes) = votes.get_mut(op.name.0 as usize).filter(|_| self.is_open(op.name)) {
                votes.launches += 1;
                votes.known += 1;
                votes.asked += 1;
            }
        }
        for (row, _) in &self.trace.collectives {
            let Some(op) = self.trace.gpu_ops.get(*row as usize) else { continue };
            if let Some(votes) = votes.get_mut(op.name.0 as usize) {
                votes.add("communication", true);
            }
        }
        self.accept(CategorySource::Collective, &votes);
    }

    /// The launches of the kernels that are still open. `None` if there are none.
    fn counted(&self) -> Option<Vec<Votes<'a>>> {
        if self.open.iter().all(|open| *open == Open::No) {
            return None;
        }
        let mut votes = vec![Votes::default(); self.trace.names.len()];
        for op in self.trace.gpu_ops.iter().filter(|op| op.kind == OpKind::Kernel && self.is_open(op.name)) {
            votes.get_mut(op.name.0 as usize).into_iter().for_each(|votes| votes.launches += 1);
        }
        for (kernel, _) in eager_launches(self.trace).filter(|(kernel, _)| self.is_open(*kernel)) {
            votes.get_mut(kernel.0 as usize).into_iter().for_each(|votes| votes.known += 1);
        }
        Some(votes)
    }

    /// The framework ops or the Python functions around a sample of the launches.
    fn code(
        &mut self,
        source: CategorySource,
        names: &Names,
        around: &dyn Fn(&CodeOfLaunch) -> Option<NameId>,
        entry: &dyn Fn(&str) -> Option<&'a CategoryEntry>,
    ) {
        let entries: Vec<Option<&CategoryEntry>> = names.iter().map(entry).collect();
        if entries.iter().all(Option::is_none) {
            return;
        }
        let Some(mut votes) = self.counted() else { return };
        for launch in &self.trace.launch_code.launches {
            let Some(votes) = votes.get_mut(launch.kernel.0 as usize) else { continue };
            votes.asked += 1;
            if let Some(entry) = around(launch).and_then(|name| entries.get(name.0 as usize).copied().flatten()) {
                votes.add(&entry.category, entry.replaces_generic);
            }
        }
        self.accept(source, &votes);
    }

    /// The innermost ranges around all the launches.
    fn ranges(&mut self, entry: &dyn Fn(&str) -> Option<&'a CategoryEntry>) {
        let entries: Vec<Option<&CategoryEntry>> = self.trace.ranges.names.iter().map(entry).collect();
        if entries.iter().all(Option::is_none) {
            return;
        }
        let Some(mut votes) = self.counted() else { return };
        let around = names_around_calls(self.trace, &self.trace.ranges, &|_| true);
        for (kernel, call) in eager_launches(self.trace) {
            let Some(votes) = votes.get_mut(kernel.0 as usize) else { continue };
            votes.asked += 1;
            let name = around.get(call).copied().filter(|name| *name != NONE);
            if let Some(entry) = name.and_then(|name| entries.get(name as usize).copied().flatten()) {
                votes.add(&entry.category, entry.replaces_generic);
            }
        }
        self.accept(CategorySource::Range, &votes);
    }

    /// The kernels before and after a kernel on its stream. Consecutive kernels of one rule count as one.
    fn neighbours(&mut self, rules: &'a [NeighbourRule], matches: &[NameMatch]) {
        let rule_of_name = |(name, open): (&str, &Open)| {
            let rule = rules.iter().position(|rule| rule.fits(name));
            rule.filter(|_| *open != Open::No)
        };
        let rule_of: Vec<Option<usize>> = self.trace.names.iter().zip(&self.open).map(rule_of_name).collect();
        if rule_of.iter().all(Option::is_none) {
            return;
        }
        let category = |name: NameId| {
            let text = self.trace.names.get(name);
            let found = self.found.get(text).map(|(category, _)| category.as_str());
            found.or_else(|| matches.get(name.0 as usize).map(|found| found.category)).unwrap_or_default()
        };
        let is_listed = |list: &[String], name: NameId| list.iter().any(|listed| listed == category(name));
        let mut votes = vec![Votes::default(); rule_of.len()];
        let mut streams: HashMap<(DeviceId, i64), Chain, RandomState> = HashMap::default();
        for op in self.trace.gpu_ops.iter().filter(|op| op.kind == OpKind::Kernel) {
            let chain = streams.entry((op.device, op.stream)).or_default();
            let rule_index = rule_of.get(op.name.0 as usize).copied().flatten();
            if chain.rule != rule_index {
                if let Some(rule) = chain.rule.and_then(|index| rules.get(index))
                    && chain.before.is_some_and(|before| is_listed(&rule.after, before))
                    && is_listed(&rule.before, op.name)
                {
                    for name in &chain.kernels {
                        votes.get_mut(name.0 as usize).into_iter().for_each(|votes| votes.add(&rule.category, true));
                    }
                }
                *chain = Chain { rule: rule_index, before: chain.last, ..Chain::default() };
            }
            chain.last = Some(op.name);
            if rule_index.is_some() {
                chain.kernels.push(op.name);
                if let Some(votes) = votes.get_mut(op.name.0 as usize) {
                    votes.launches += 1;
                    votes.known += 1;
                    votes.asked += 1;
                }
            }
        }
        self.accept(CategorySource::Neighbours, &votes);
    }
}

/// Consecutive kernels of one stream that the same rule is about, or other kernels.
#[derive(Debug, Clone, Default)]
struct Chain {
    rule: Option<usize>,
    /// The kernel before the first one.
    before: Option<NameId>,
    last: Option<NameId>,
    /// The kernels, if there is a rule.
    kernels: Vec<NameId>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::host::code_search::look_up_code;
    use crate::trace::testing::TestTrace;
    use crate::trace::{Collective, Ns, Window};

    fn category(trace: &Trace, name: &str) -> (String, CategorySource) {
        let (category, source) = Categories::by_default_rules(trace).unwrap().of(name, name);
        (category.to_owned(), source)
    }

    fn found(category: &str, source: CategorySource) -> (String, CategorySource) {
        (category.to_owned(), source)
    }

    /// A kernel per launch, each launch 10 ns after the one before it.
    fn launch(trace: &mut TestTrace, name: &str, start: i64) {
        trace.launch(start + 1..start + 3).launches(name, start + 4..start + 6);
    }

    #[test]
    fn a_recorded_collective_makes_an_unknown_kernel_communication() {
        let mut trace = TestTrace::new();
        trace.kernel("my_transport", 0..5).message(Collective::default()).kernel("quux", 6..8);
        let trace = trace.finish();
        assert_eq!(category(&trace, "my_transport"), found("communication", CategorySource::Collective));
        assert_eq!(category(&trace, "quux"), found("misc", CategorySource::None));
    }

    #[test]
    fn a_range_decides_only_if_nine_of_ten_launches_are_in_it() {
        let mut trace = TestTrace::new();
        for index in 0..20 {
            let start = 10 * index;
            trace.range(if index < 18 { "core attention" } else { "other" }, start..start + 4);
            launch(&mut trace, "quux", start);
            if index < 17 {
                trace.range("MoE", 1_000 + start..1_004 + start);
            }
            launch(&mut trace, "quuz", 1_000 + start);
        }
        let trace = trace.finish();
        assert_eq!(category(&trace, "quux"), found("attention", CategorySource::Range));
        assert_eq!(category(&trace, "quuz"), found("misc", CategorySource::None), "17 of 20 are not enough");
    }

    #[test]
    fn a_specific_rule_and_a_rule_of_the_user_win_over_the_trace() {
        let mut trace = TestTrace::new();
        trace.range("MoE", 0..100);
        launch(&mut trace, "nvjet_64x8", 0);
        launch(&mut trace, "my_kernel", 10);
        let trace = trace.finish();
        assert_eq!(category(&trace, "nvjet_64x8"), found("gemm", CategorySource::Rule));
        assert_eq!(category(&trace, "my_kernel"), found("moe", CategorySource::Range));
        let mut book = RuleBook::embedded();
        book.add("mine.json", r#"{"gpuprism": {"default": {"my_kernel": "mine", ".*": "misc"}}}"#).unwrap();
        let rules = book.select("gpuprism", "default").unwrap();
        let categories = Categories::new(&trace, &rules);
        assert_eq!(categories.of("my_kernel", "my_kernel"), ("mine", CategorySource::UserRule));
        assert_eq!(categories.of("quux", "quux"), ("misc", CategorySource::None));
    }

    #[test]
    fn rule_sets_of_other_engines_use_names_only() {
        let mut trace = TestTrace::new();
        trace.range("MoE", 0..100);
        launch(&mut trace, "quux", 0);
        let trace = trace.finish();
        let rules = RuleBook::embedded().select("vllm", "llama").unwrap();
        let (_, source) = Categories::new(&trace, &rules).of("quux", "quux");
        assert_eq!(source, CategorySource::None);
    }

    #[test]
    fn framework_ops_and_python_code_decide_for_unknown_and_generic_names() {
        const MUL: &str = "void at::native::elementwise_kernel<128, 4, mul>(int)";
        let mut trace = TestTrace::coded();
        trace.cpu_op("aten::convolution", 0..8, 1);
        launch(&mut trace, "quux", 0);
        trace.frame("sglang/srt/layers/layernorm.py(60): forward_native", 20..28);
        trace.cpu_op("aten::mul", 20..26, 2);
        launch(&mut trace, MUL, 20);
        let mut whole = trace.finish();
        look_up_code(&mut whole);
        assert_eq!(category(&whole, "quux"), found("conv", CategorySource::Op));
        assert_eq!(category(&whole, MUL), found("norm", CategorySource::Frame));
        // Under aten::mul alone, the name rule stays in force.
        let mut trace = TestTrace::coded();
        trace.cpu_op("aten::mul", 20..26, 2);
        launch(&mut trace, MUL, 20);
        let mut trace = trace.finish();
        look_up_code(&mut trace);
        assert_eq!(category(&trace, MUL), found("elementwise", CategorySource::Rule));
    }

    #[test]
    fn graph_launches_say_nothing_about_single_kernels() {
        let mut trace = TestTrace::new();
        trace.range("MoE", 0..100).call("cudaGraphLaunch", 1..3).launches("quux", 10..20).launches("quuz", 20..30);
        let trace = trace.finish();
        assert_eq!(category(&trace, "quux"), found("misc", CategorySource::None));
    }

    #[test]
    fn a_triton_cat_between_qkv_gemm_and_attention_is_rope() {
        const CAT: &str = "triton_poi_fused_add_cat_mul_sub_3";
        let layer = |trace: &mut TestTrace, start: i64, names: &[&str]| {
            for (index, name) in (0..).zip(names) {
                trace.kernel(name, start + 10 * index..start + 10 * index + 5);
            }
        };
        let mut trace = TestTrace::new();
        for index in 0..3 {
            layer(&mut trace, 100 * index, &["nvjet_qkv", CAT, CAT, "reshape_and_cache_flash", "flash_fwd"]);
        }
        assert_eq!(category(&trace.finish(), CAT), found("rope", CategorySource::Neighbours));
        for index in 0..3 {
            layer(&mut trace, 100 * index, &["nvjet_gate_up", CAT, "nvjet_down"]);
        }
        assert_eq!(category(&trace.finish(), CAT).1, CategorySource::Rule, "between two GEMMs it may be anything");
    }

    #[test]
    fn a_window_does_not_change_a_category() {
        let mut trace = TestTrace::new();
        for index in 0..20 {
            let start = 10 * index;
            trace.range(if index < 10 { "MoE" } else { "other" }, start..start + 4);
            launch(&mut trace, "quux", start);
        }
        let whole = trace.finish();
        evidence(&whole);
        let part = whole.within(Window { start: Ns(0), end: Ns(95) });
        assert_eq!(category(&whole, "quux"), found("misc", CategorySource::None));
        assert_eq!(category(&part, "quux"), found("misc", CategorySource::None));
    }
}
