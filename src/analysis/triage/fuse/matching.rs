//! Finds the patterns in a trace. Every distinct kernel name and call site is tested once; then one pass over the ops of every stream
//! per pattern follows its chains.

use super::super::call_sites::CallSite;
use super::super::kernels::{KernelRow, RowIndex};
use super::super::serving::Deployment;
use super::super::view::View;
use super::patterns::{Chain, Origin, Pattern, Patterns, Repeat, SearchPlan, Test};
use super::requirements::Messages;
use super::{Confidence, Fusion, Status};
use crate::analysis::structure::stages::Stage;
use crate::ordering::VecMap;
use crate::rules::names::demangle;
use crate::rules::needle::{Haystack, Needle};
use crate::trace::{NONE, NameId, Ns, OpKind, Pct};
use crate::words::triage_rows::fused_kernel;
use foldhash::fast::RandomState;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The maximum number of kernels named as evidence.
const MAX_EVIDENCE: usize = 3;
/// The maximum number of call sites of a finding.
const MAX_LOCATIONS: usize = 4;

/// All patterns that apply, sorted by stage and then by duration, largest first.
pub fn matches(view: &View, rows: &[KernelRow]) -> Vec<Fusion> {
    let all = Patterns::embedded();
    let run = Deployment::new(view);
    let is_relevant = |pattern: &Pattern| pattern.frameworks.contains(&view.framework) && run.has_group_for(pattern);
    let may_be_active = |pattern: &Pattern| {
        let model = run.has_model_for(pattern);
        is_relevant(pattern)
            && run.has_hardware_for(pattern)
            && model != Some(false)
            && (model.is_some() || pattern.origin != Origin::InFlight)
    };
    let may_be_split = |pattern: &Pattern| is_relevant(pattern) && run.has_model_for(pattern) == Some(true);
    let plan = SearchPlan::new(&all, &may_be_active, &may_be_split);
    if plan.active.is_empty() && plan.chains.is_empty() {
        return Vec::new();
    }
    let classes = Classes::new(view, &plan);
    let mut findings = active(view, &plan, &classes);
    findings.extend(split(view, &plan, &classes, &|pattern, stage, ops| {
        let messages = Messages::of(view, ops);
        status_of_split(&all, &run, pattern, stage, messages)
    }));
    drop_redundant(&mut findings, &all.patterns);
    let rows = RowLookup::new(view, rows);
    let mut fusions: Vec<Fusion> = findings.iter().filter_map(|finding| rows.fusion(finding, &all.patterns)).collect();
    fusions.sort_by(|a, b| a.stage.cmp(&b.stage).then(b.duration_ns.cmp(&a.duration_ns)));
    fusions
}

fn status_of_split(all: &Patterns, run: &Deployment, pattern: usize, stage: Stage, messages: Messages) -> Status {
    match all.patterns.get(pattern) {
        Some(pattern)
            if !run.has_hardware_for(pattern)
                || !run.has_device_for(pattern)
                || run.too_many_tokens(pattern, stage).is_some()
                || run.too_large_messages(pattern, messages).is_some() =>
        {
            Status::NotApplicable
        }
        Some(pattern) if pattern.origin == Origin::InFlight => Status::InFlight,
        _ => Status::Split,
    }
}

/// A pattern in a stage with the launches that take part.
struct Finding {
    stage: Stage,
    pattern: usize,
    status: Status,
    confidence: Confidence,
    /// Indices of the ops in the trace, ascending and distinct.
    ops: Vec<u32>,
}

/// The classification of all launches with the same kernel name and call site.
#[derive(Clone, Copy)]
struct Class {
    /// Bit mask of kinds.
    kinds: u128,
    /// Range of its entries in `Classes::active`.
    active: (u32, u32),
}

struct Classes {
    class_of_op: Vec<u32>,
    classes: Vec<Class>,
    /// Active patterns of the classes, and whether the kernel name matches.
    active: Vec<(usize, bool)>,
}

/// One bit per test.
type Bits = Vec<u64>;

impl Classes {
    fn new(view: &View, plan: &SearchPlan) -> Self {
        let bits_of_names: Vec<Bits> = (0..view.trace.names.len()).map(|id| name_bits(view, plan, id)).collect();
        let bits_of_sites: Vec<Bits> =
            view.call_sites.distinct.iter().map(|site| site_bits(Some(site), plan)).collect();
        let bits_without_site = site_bits(None, plan);
        let mut classes =
            Self { class_of_op: Vec::with_capacity(view.trace.gpu_ops.len()), classes: Vec::new(), active: Vec::new() };
        // By kernel name and call site.
        let mut class_of: HashMap<u64, u32, RandomState> = HashMap::default();
        for (index, op) in view.trace.gpu_ops.iter().enumerate() {
            let site = view.call_sites.by_op.get(index).copied().unwrap_or(NONE);
            let class = *class_of.entry(u64::from(op.name.0) << 32 | u64::from(site)).or_insert_with(|| {
                let name = bits_of_names.get(op.name.0 as usize).map_or(&[] as &[u64], Vec::as_slice);
                let bits: Bits = name
                    .iter()
                    .zip(bits_of_sites.get(site as usize).unwrap_or(&bits_without_site))
                    .map(|(a, b)| a & b)
                    .collect();
                classes.add(&bits, op.kind, plan)
            });
            classes.class_of_op.push(class);
        }
        classes
    }

    fn add(&mut self, bits: &[u64], kind: OpKind, plan: &SearchPlan) -> u32 {
        let mut kinds = 0;
        for (index, tests) in plan.kinds.iter().enumerate() {
            if tests.iter().any(|test| has(bits, *test)) {
                kinds |= 1 << index;
            }
        }
        if kind != OpKind::Kernel {
            kinds |= plan.filler;
        }
        let first = to_u32(self.active.len());
        for &(pattern, test) in plan.active.iter().filter(|(_, test)| has(bits, *test)) {
            let by_name = plan.tests.get(test).is_some_and(|test| test.names_kernel);
            match self.active.get_mut(first as usize..).and_then(<[_]>::last_mut) {
                Some((last, is_named)) if *last == pattern => *is_named |= by_name,
                _ => self.active.push((pattern, by_name)),
            }
        }
        self.classes.push(Class { kinds, active: (first, to_u32(self.active.len())) });
        to_u32(self.classes.len() - 1)
    }

    fn of(&self, op: u32) -> Class {
        let class = self.class_of_op.get(op as usize).and_then(|class| self.classes.get(*class as usize));
        class.copied().unwrap_or(Class { kinds: 0, active: (0, 0) })
    }

    fn active_in(&self, op: u32) -> &[(usize, bool)] {
        let (first, end) = self.of(op).active;
        self.active.get(first as usize..end as usize).unwrap_or_default()
    }
}

fn to_u32(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

fn has(bits: &[u64], test: usize) -> bool {
    bits.get(test / 64).is_some_and(|word| word >> (test % 64) & 1 == 1)
}

fn bits(tests: &[Test], matches: impl Fn(&Test) -> bool) -> Bits {
    let word = |tests: &[Test]| tests.iter().rev().fold(0, |word, test| word << 1 | u64::from(matches(test)));
    tests.chunks(64).map(word).collect()
}

fn name_bits(view: &View, plan: &SearchPlan, id: usize) -> Bits {
    let id = NameId(to_u32(id));
    let name = Haystack::new(&demangle(view.trace.names.get(id)));
    let category = view.name(id).map_or("", |name| &name.category);
    bits(&plan.tests, |test| test.matches_kernel(&name, category))
}

fn site_bits(site: Option<&CallSite>, plan: &SearchPlan) -> Bits {
    let op = Haystack::new(site.map_or("", |site| &site.cpu_op));
    let functions = site.map(functions).unwrap_or_default();
    bits(&plan.tests, |test| test.matches_site(&op, &functions))
}

/// The functions of a call site, such as `forward` in `python/sglang/srt/models/qwen3.py:310 forward`.
fn functions(site: &CallSite) -> Vec<Needle> {
    let frames = site.stack.iter().chain([&site.location, &site.display]);
    frames.filter_map(|frame| Needle::new(frame.rsplit_once(' ')?.1)).collect()
}

/// The launches that show that a pattern is active, by stage and pattern.
fn active(view: &View, plan: &SearchPlan, classes: &Classes) -> Vec<Finding> {
    if plan.active.is_empty() {
        return Vec::new();
    }
    let mut found: VecMap<(Stage, usize), (Vec<u32>, bool)> = VecMap::new();
    for (op, stage, _) in view.ops() {
        for &(pattern, by_name) in classes.active_in(to_u32(op)) {
            found.update((stage, pattern), (Vec::new(), false), |(ops, named)| {
                ops.push(to_u32(op));
                *named |= by_name;
            });
        }
    }
    let finding = |((stage, pattern), (ops, named))| {
        let confidence = if named { Confidence::Confirmed } else { Confidence::Likely };
        Finding { stage, pattern, status: Status::Active, confidence, ops }
    };
    found.into_vec().into_iter().map(finding).collect()
}

/// The launches in chains of one pattern in one stage.
#[derive(Default)]
struct ChainedOps {
    ops: Vec<u32>,
    /// Number of chains.
    occurrences: u64,
    /// Launches that could start a chain.
    possible_starts: u64,
    /// Those of them that take part in a chain.
    chained_starts: u64,
}

/// The launches that take part in a chain, by stage and pattern.
fn split(
    view: &View,
    plan: &SearchPlan,
    classes: &Classes,
    status: &dyn Fn(usize, Stage, &[u32]) -> Status,
) -> Vec<Finding> {
    let streams = view.streams();
    let mut findings = Vec::new();
    let patterns = plan.chains.chunk_by(|a, b| a.pattern == b.pattern);
    for chains in patterns {
        let mut found: VecMap<Stage, ChainedOps> = VecMap::new();
        for stream in &streams {
            find_chains(stream, chains, plan, classes, &mut found);
        }
        let Some(pattern) = chains.first().map(|chain| chain.pattern) else { continue };
        let min_occurrences = plan.min_occurrences(pattern);
        for (stage, mut chained) in found.into_vec() {
            chained.ops.sort_by_key(|op| *op);
            chained.ops.dedup();
            if !chained.ops.is_empty() && chained.occurrences >= min_occurrences {
                let is_likely = chained.chained_starts * 4 >= chained.possible_starts;
                let confidence = if is_likely { Confidence::Likely } else { Confidence::Possible };
                let status = status(pattern, stage, &chained.ops);
                findings.push(Finding { stage, pattern, status, confidence, ops: chained.ops });
            }
        }
    }
    findings
}

/// The ops of one stream, sorted by start.
type StreamOps = [(u32, Stage)];

fn find_chains(
    stream: &StreamOps,
    chains: &[Chain],
    plan: &SearchPlan,
    classes: &Classes,
    found: &mut VecMap<Stage, ChainedOps>,
) {
    let start_kinds = chains.iter().filter_map(|chain| chain.links.first()).fold(0, |kinds, link| kinds | link.kinds);
    let mut next = 0;
    while let Some(&(op, stage)) = stream.get(next) {
        next += 1;
        if classes.of(op).kinds & start_kinds == 0 {
            continue;
        }
        let longest_from = |start: usize| {
            let found = chains.iter().filter_map(|chain| follow(stream, start, chain, plan.filler, classes));
            found.reduce(|a, b| if b.len() > a.len() { b } else { a }).unwrap_or_default()
        };
        let links = longest_from(next - 1);
        // Of several copies before a chain, the last one belongs to it.
        let skips_filler = links.get(1).is_some_and(|second| second.index > next);
        if skips_filler && classes.of(op).kinds & plan.filler != 0 && longest_from(next).len() >= links.len() {
            continue;
        }
        if let Some(last) = links.last() {
            next = last.index + 1;
        }
        found.update(stage, ChainedOps::default(), |chained| {
            chained.occurrences += u64::from(!links.is_empty());
            chained.possible_starts += u64::from(links.is_empty());
            for link in &links {
                let is_start = u64::from(classes.of(link.op).kinds & start_kinds != 0);
                chained.possible_starts += is_start;
                chained.chained_starts += is_start;
                if !link.is_context {
                    chained.ops.push(link.op);
                }
            }
        });
    }
}

/// An op that matches a link of a chain.
struct LinkedOp {
    index: usize,
    op: u32,
    is_context: bool,
}

/// The ops of the chain that starts at this index of the stream, if there is one.
fn follow(stream: &StreamOps, start: usize, chain: &Chain, filler: u128, classes: &Classes) -> Option<Vec<LinkedOp>> {
    let (_, stage) = *stream.get(start)?;
    let kinds_at = |index: usize| {
        let (op, op_stage) = *stream.get(index)?;
        (op_stage == stage).then(|| (op, classes.of(op).kinds))
    };
    let mut links = Vec::with_capacity(chain.links.len());
    let mut index = start;
    for (number, link) in chain.links.iter().enumerate() {
        let mut count = 0;
        while count < link.repeat.max() {
            let mut at = index;
            let mut found = kinds_at(at);
            if found.is_some_and(|(_, kinds)| kinds & link.kinds == 0 && kinds & filler != 0) && number > 0 {
                at += 1;
                found = kinds_at(at);
            }
            let Some((op, _)) = found.filter(|(_, kinds)| kinds & link.kinds != 0) else { break };
            links.push(LinkedOp { index: at, op, is_context: link.is_context });
            index = at + 1;
            count += 1;
        }
        if count == 0 && link.repeat == Repeat::One {
            return None;
        }
    }
    Some(links)
}

/// Drops findings that another finding of the same launches replaces; see the module documentation of `fuse`.
fn drop_redundant(findings: &mut Vec<Finding>, patterns: &[Pattern]) {
    let is_applicable = |finding: &Finding| finding.status != Status::NotApplicable;
    // A kernel that is already fused may still be a part of a larger fusion.
    let is_usable = |finding: &Finding| is_applicable(finding) && finding.status != Status::Active;
    let has_usable_rival = |finding: &Finding| {
        !is_applicable(finding) && findings.iter().any(|other| is_usable(other) && shares_op(other, finding))
    };
    let keep: Vec<bool> = findings.iter().map(|finding| !has_usable_rival(finding)).collect();
    let mut keep = keep.into_iter();
    findings.retain(|_| keep.next().unwrap_or(true));
    let is_subsumed = |general: &Finding, specific: &Finding| {
        let both = patterns.get(specific.pattern).zip(patterns.get(general.pattern));
        both.is_some_and(|(specific, general)| specific.subsumes.contains(&general.id))
            && specific.status == general.status
            && shares_op(specific, general)
    };
    let remaining: Vec<Vec<u32>> = findings
        .iter()
        .map(|finding| {
            let specific: Vec<&Finding> = findings.iter().filter(|other| is_subsumed(finding, other)).collect();
            let is_free = |op: &&u32| !specific.iter().any(|other| other.ops.binary_search(op).is_ok());
            finding.ops.iter().filter(is_free).copied().collect()
        })
        .collect();
    for (finding, ops) in findings.iter_mut().zip(remaining) {
        finding.ops = ops;
    }
    findings.retain(|finding| !finding.ops.is_empty());
}

/// True if two findings have a launch in common.
fn shares_op(a: &Finding, b: &Finding) -> bool {
    a.stage == b.stage && a.ops.iter().any(|op| b.ops.binary_search(op).is_ok())
}

/// Kernel rows with an index by name.
struct RowLookup<'a> {
    view: &'a View<'a>,
    rows: &'a [KernelRow],
    index: RowIndex,
}

impl<'a> RowLookup<'a> {
    fn new(view: &'a View<'a>, rows: &'a [KernelRow]) -> Self {
        Self { view, rows, index: RowIndex::new(rows) }
    }

    fn fusion(&self, finding: &Finding, patterns: &[Pattern]) -> Option<Fusion> {
        let mut parts: VecMap<usize, Ns> = VecMap::new();
        let (mut duration, mut elapsed) = (Ns::ZERO, Ns::ZERO);
        for index in &finding.ops {
            let Some(op) = self.view.trace.gpu_ops.get(*index as usize) else { continue };
            let elapsed_of_op = self.view.elapsed(*index as usize);
            (duration, elapsed) = (duration + op.duration, elapsed + elapsed_of_op);
            if let Some(row) = self.index.row(finding.stage, op.name) {
                parts.update(row, Ns::ZERO, |sum| *sum += elapsed_of_op);
            }
        }
        let mut parts = parts.into_vec();
        parts.sort_by_key(|part| Reverse(part.1));
        let stage_time = self.view.times().of_stage(finding.stage);
        let part_of_row = |(row, part): &(usize, Ns)| {
            let row = self.rows.get(*row)?;
            let share = row.share_of_busy_time().map(|_| Pct::of(*part, stage_time.elapsed));
            Some(fused_kernel(&row.name, share))
        };
        let evidence = parts.iter().take(MAX_EVIDENCE).filter_map(part_of_row);
        let is_shifted = |(row, _): &(usize, Ns)| self.rows.get(*row).is_some_and(|row| row.has_shifted_durations);
        let has_share = !parts.iter().any(is_shifted);
        Some(Fusion {
            stage: finding.stage,
            pattern: patterns.get(finding.pattern)?.id.clone(),
            status: finding.status,
            confidence: finding.confidence,
            launches: finding.ops.len() as u64,
            messages: Messages::of(self.view, &finding.ops),
            duration_ns: duration.0,
            elapsed_ns: elapsed.0,
            elapsed_share_pct: has_share.then(|| Pct::of(elapsed, stage_time.elapsed).0),
            share_pct: Pct::of(duration, stage_time.duration).0,
            evidence: evidence.collect(),
            locations: self.locations(&finding.ops),
            rows: parts.into_iter().map(|(row, _)| row).collect(),
        })
    }

    /// The call sites of these ops, longest time first.
    fn locations(&self, ops: &[u32]) -> Vec<String> {
        let mut times: VecMap<u32, Ns> = VecMap::new();
        for &op in ops {
            let site = self.view.call_sites.by_op.get(op as usize).copied();
            let duration = self.view.trace.gpu_ops.get(op as usize).map_or(Ns::ZERO, |op| op.duration);
            if let Some(site) = site {
                times.update(site, Ns::ZERO, |sum| *sum += duration);
            }
        }
        let mut times = times.into_vec();
        times.sort_by_key(|time| Reverse(time.1));
        let mut locations: Vec<String> = Vec::new();
        for site in times.iter().filter_map(|(site, _)| self.view.call_sites.distinct.get(*site as usize)) {
            if locations.len() == MAX_LOCATIONS {
                break;
            }
            let location = function_first(if site.display.is_empty() { &site.location } else { &site.display });
            if !location.is_empty() && !locations.contains(&location) {
                locations.push(location);
            }
        }
        locations
    }
}

/// Rewrites `qwen3.py:310 forward` as `forward @ qwen3.py:310`.
fn function_first(location: &str) -> String {
    match location.rsplit_once(' ') {
        Some((file, function)) => format!("{function} @ {file}"),
        None => location.to_owned(),
    }
}
