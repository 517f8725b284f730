//! Which patterns a trace shows: one look at every distinct name and place, then one sweep over the ops of every stream.

use super::super::call_sites::CallSite;
use super::super::kernels::{KernelRow, RowIndex};
use super::super::times::percent;
use super::super::view::View;
use super::patterns::{Chain, Origin, Pattern, Patterns, Sought, Test};
use super::run::Run;
use super::{Confidence, Fusion, Status};
use crate::analysis::structure::stages::Stage;
use crate::ordering::{StableSort, VecMap};
use crate::rules::names::demangle;
use crate::rules::needle::{Haystack, Needle};
use crate::trace::{NONE, NameId, Ns, OpKind};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Rows that a finding names.
const EVIDENCE: usize = 3;
/// Places that a finding names.
const LOCATIONS: usize = 4;

/// Every pattern that applies, in the order of tables: by stage, then the largest first.
pub fn matches(view: &View, rows: &[KernelRow]) -> Vec<Fusion> {
    let all = Patterns::embedded();
    let run = Run::of(view);
    let is_for = |pattern: &Pattern| pattern.is_of(view.framework) && run.has_group_for(pattern);
    let may_be_active = |pattern: &Pattern| {
        let model = run.has_model_for(pattern);
        is_for(pattern)
            && run.has_hardware_for(pattern)
            && model != Some(false)
            && (model.is_some() || pattern.origin != Origin::InFlight)
    };
    let may_be_split = |pattern: &Pattern| is_for(pattern) && run.has_model_for(pattern) == Some(true);
    let sought = Sought::new(&all, &may_be_active, &may_be_split);
    if sought.active.is_empty() && sought.chains.is_empty() {
        return Vec::new();
    }
    let classes = Classes::new(view, &sought);
    let mut findings = active(view, &sought, &classes);
    findings.extend(split(view, &sought, &classes, &|pattern, stage| status_of_split(&all, &run, pattern, stage)));
    keep_most_telling(&mut findings, &all.patterns);
    let table = Rows::new(view, rows);
    let mut fusions: Vec<Fusion> = findings.iter().filter_map(|finding| table.fusion(finding, &all.patterns)).collect();
    fusions.order_by(|a, b| a.stage.cmp(&b.stage).then(b.duration_ns.cmp(&a.duration_ns)));
    fusions
}

fn status_of_split(all: &Patterns, run: &Run, pattern: usize, stage: Stage) -> Status {
    match all.patterns.get(pattern) {
        Some(pattern) if !run.has_hardware_for(pattern) || run.too_many_tokens(pattern, stage).is_some() => {
            Status::NotApplicable
        }
        Some(pattern) if pattern.origin == Origin::InFlight => Status::InFlight,
        _ => Status::Split,
    }
}

/// A pattern in one stage, with the launches that take part.
struct Finding {
    stage: Stage,
    pattern: usize,
    status: Status,
    confidence: Confidence,
    /// Places in the trace, ascending, each once.
    ops: Vec<u32>,
}

/// What the launches of one name from one place are.
#[derive(Clone, Copy)]
struct Class {
    /// A bit a kind.
    kinds: u64,
    /// Where its entry of `Classes::active` begins and ends.
    active: (u32, u32),
}

/// The class of every op. Names and places are looked at once each, however many ops they have.
struct Classes {
    of_op: Vec<u32>,
    classes: Vec<Class>,
    /// Patterns that are active, and whether the kernel's own name says so.
    active: Vec<(usize, bool)>,
}

/// Places by two numbers.
type Places = HashMap<u64, u32, RandomState>;

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// A bit a test.
type Bits = Vec<u64>;

impl Classes {
    fn new(view: &View, sought: &Sought) -> Self {
        let of_names: Vec<Bits> = (0..view.trace.names.len()).map(|id| name_bits(view, sought, id)).collect();
        let of_sites: Vec<Bits> = view.call_sites.distinct.iter().map(|site| site_bits(Some(site), sought)).collect();
        let nowhere = site_bits(None, sought);
        let mut found =
            Self { of_op: Vec::with_capacity(view.trace.gpu_ops.len()), classes: Vec::new(), active: Vec::new() };
        let mut known = Places::default();
        for (at, op) in view.trace.gpu_ops.iter().enumerate() {
            let site = view.call_sites.by_op.get(at).copied().unwrap_or(NONE);
            let class = *known.entry(pair(op.name.0, site)).or_insert_with(|| {
                let name = of_names.get(op.name.0 as usize).map_or(&[] as &[u64], Vec::as_slice);
                let bits: Bits =
                    name.iter().zip(of_sites.get(site as usize).unwrap_or(&nowhere)).map(|(a, b)| a & b).collect();
                found.add(&bits, op.kind, sought)
            });
            found.of_op.push(class);
        }
        found
    }

    fn add(&mut self, bits: &[u64], kind: OpKind, sought: &Sought) -> u32 {
        let mut kinds = 0;
        for (place, tests) in sought.kinds.iter().enumerate() {
            if tests.iter().any(|test| has(bits, *test)) {
                kinds |= 1 << place;
            }
        }
        if kind != OpKind::Kernel {
            kinds |= sought.filler;
        }
        let first = index(self.active.len());
        for &(pattern, test) in sought.active.iter().filter(|(_, test)| has(bits, *test)) {
            let by_name = sought.tests.get(test).is_some_and(|test| test.names_kernel);
            match self.active.get_mut(first as usize..).and_then(<[_]>::last_mut) {
                Some((last, known)) if *last == pattern => *known |= by_name,
                _ => self.active.push((pattern, by_name)),
            }
        }
        self.classes.push(Class { kinds, active: (first, index(self.active.len())) });
        index(self.classes.len() - 1)
    }

    fn of(&self, op: u32) -> Class {
        let class = self.of_op.get(op as usize).and_then(|class| self.classes.get(*class as usize));
        class.copied().unwrap_or(Class { kinds: 0, active: (0, 0) })
    }

    fn active_in(&self, op: u32) -> &[(usize, bool)] {
        let (first, end) = self.of(op).active;
        self.active.get(first as usize..end as usize).unwrap_or_default()
    }
}

fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

fn has(bits: &[u64], test: usize) -> bool {
    bits.get(test / 64).is_some_and(|word| word >> (test % 64) & 1 == 1)
}

fn bits(tests: &[Test], holds: impl Fn(&Test) -> bool) -> Bits {
    let word = |tests: &[Test]| tests.iter().rev().fold(0, |word, test| word << 1 | u64::from(holds(test)));
    tests.chunks(64).map(word).collect()
}

fn name_bits(view: &View, sought: &Sought, id: usize) -> Bits {
    let id = NameId(index(id));
    let name = Haystack::new(&demangle(view.trace.names.get(id)));
    let category = view.name(id).map_or("", |name| &name.category);
    bits(&sought.tests, |test| test.holds_for_kernel(&name, category))
}

fn site_bits(site: Option<&CallSite>, sought: &Sought) -> Bits {
    let op = Haystack::new(site.map_or("", |site| &site.cpu_op));
    let functions = site.map(functions).unwrap_or_default();
    bits(&sought.tests, |test| test.holds_for_site(&op, &functions))
}

/// The functions of a place: `python/sglang/srt/models/qwen3.py:310 forward` ends in one.
fn functions(site: &CallSite) -> Vec<Needle> {
    let places = site.stack.iter().chain([&site.location, &site.display]);
    places.filter_map(|place| Needle::new(place.rsplit_once(' ')?.1)).collect()
}

/// The launches whose kernel, op or function tells that a pattern is active, by stage and pattern.
fn active(view: &View, sought: &Sought, classes: &Classes) -> Vec<Finding> {
    if sought.active.is_empty() {
        return Vec::new();
    }
    let mut found: VecMap<(Stage, usize), (Vec<u32>, bool)> = VecMap::new();
    for (at, stage, _) in view.ops() {
        for &(pattern, by_name) in classes.active_in(index(at)) {
            found.update((stage, pattern), (Vec::new(), false), |(ops, named)| {
                ops.push(index(at));
                *named |= by_name;
            });
        }
    }
    let finding = |((stage, pattern), (ops, named))| {
        let confidence = if named { Confidence::Confirmed } else { Confidence::Likely };
        Finding { stage, pattern, status: Status::Active, confidence, ops }
    };
    found.0.into_iter().map(finding).collect()
}

/// What the sweep finds of one pattern in one stage.
#[derive(Default)]
struct Chained {
    ops: Vec<u32>,
    /// Launches that could begin a chain, and those of them that take part in one.
    beginnings: u64,
    taking_part: u64,
}

/// The launches that stand in a chain, by stage and pattern.
fn split(view: &View, sought: &Sought, classes: &Classes, status: &dyn Fn(usize, Stage) -> Status) -> Vec<Finding> {
    let lanes = view.streams();
    let mut findings = Vec::new();
    let patterns = sought.chains.chunk_by(|a, b| a.pattern == b.pattern);
    for chains in patterns {
        let mut found: VecMap<Stage, Chained> = VecMap::new();
        for lane in &lanes {
            sweep(lane, chains, sought, classes, &mut found);
        }
        let Some(pattern) = chains.first().map(|chain| chain.pattern) else { continue };
        for (stage, mut chained) in found.0 {
            chained.ops.order_by_key(|op| *op);
            chained.ops.dedup();
            if !chained.ops.is_empty() {
                let likely = chained.taking_part * 4 >= chained.beginnings;
                let confidence = if likely { Confidence::Likely } else { Confidence::Possible };
                findings.push(Finding { stage, pattern, status: status(pattern, stage), confidence, ops: chained.ops });
            }
        }
    }
    findings
}

/// The ops of one stream of one device, by start.
type Lane = [(u32, Stage)];

fn sweep(lane: &Lane, chains: &[Chain], sought: &Sought, classes: &Classes, found: &mut VecMap<Stage, Chained>) {
    let first = chains.iter().filter_map(|chain| chain.links.first()).fold(0, |kinds, link| kinds | link.kinds);
    let mut at = 0;
    while let Some(&(op, stage)) = lane.get(at) {
        at += 1;
        if classes.of(op).kinds & first == 0 {
            continue;
        }
        // The longest chain that begins here says most.
        let longest = chains.iter().filter_map(|chain| follow(lane, at - 1, chain, sought.filler, classes));
        let longest = longest.reduce(|a, b| if b.len() > a.len() { b } else { a });
        let links = longest.unwrap_or_default();
        if let Some(last) = links.last() {
            at = last.place + 1;
        }
        found.update(stage, Chained::default(), |chained| {
            chained.beginnings += u64::from(links.is_empty());
            for link in &links {
                let begins = u64::from(classes.of(link.op).kinds & first != 0);
                chained.beginnings += begins;
                chained.taking_part += begins;
                if !link.is_context {
                    chained.ops.push(link.op);
                }
            }
        });
    }
}

/// An op in its place of a chain.
struct Linked {
    /// In the lane.
    place: usize,
    op: u32,
    is_context: bool,
}

/// The ops of the chain that begins at this place of the lane, if one does.
fn follow(lane: &Lane, start: usize, chain: &Chain, filler: u64, classes: &Classes) -> Option<Vec<Linked>> {
    let (_, stage) = *lane.get(start)?;
    let kinds_at = |place: usize| {
        let (op, of) = *lane.get(place)?;
        (of == stage).then(|| (op, classes.of(op).kinds))
    };
    let mut links = Vec::with_capacity(chain.links.len());
    let mut place = start;
    for (number, link) in chain.links.iter().enumerate() {
        let (mut op, mut kinds) = kinds_at(place)?;
        if kinds & link.kinds == 0 && kinds & filler != 0 && number > 0 {
            place += 1;
            (op, kinds) = kinds_at(place)?;
        }
        if kinds & link.kinds == 0 {
            return None;
        }
        links.push(Linked { place, op, is_context: link.is_context });
        place += 1;
    }
    Some(links)
}

/// Leaves out what a more telling finding of the same launches says already; the module's head has the rules.
fn keep_most_telling(findings: &mut Vec<Finding>, patterns: &[Pattern]) {
    let is_usable = |finding: &Finding| finding.status != Status::NotApplicable;
    let competes = |finding: &Finding| {
        !is_usable(finding) && findings.iter().any(|other| is_usable(other) && shares(other, finding))
    };
    let keep: Vec<bool> = findings.iter().map(|finding| !competes(finding)).collect();
    retain(findings, &keep);
    let covered = |less: &Finding, more: &Finding| {
        let subsumes = patterns.get(more.pattern).zip(patterns.get(less.pattern));
        subsumes.is_some_and(|(more, less)| more.subsumes.contains(&less.id))
            && more.status == less.status
            && shares(more, less)
    };
    let left: Vec<Vec<u32>> = findings
        .iter()
        .map(|less| {
            let more: Vec<&Finding> = findings.iter().filter(|more| covered(less, more)).collect();
            let is_left = |op: &&u32| !more.iter().any(|more| more.ops.binary_search(op).is_ok());
            less.ops.iter().filter(is_left).copied().collect()
        })
        .collect();
    for (finding, ops) in findings.iter_mut().zip(left) {
        finding.ops = ops;
    }
    findings.retain(|finding| !finding.ops.is_empty());
}

fn retain(findings: &mut Vec<Finding>, keep: &[bool]) {
    let mut keep = keep.iter();
    findings.retain(|_| keep.next().is_none_or(|keep| *keep));
}

/// Do they have a launch in common?
fn shares(a: &Finding, b: &Finding) -> bool {
    a.stage == b.stage && a.ops.iter().any(|op| b.ops.binary_search(op).is_ok())
}

/// Kernel rows by the names that they stand for.
struct Rows<'a> {
    view: &'a View<'a>,
    rows: &'a [KernelRow],
    places: RowIndex,
}

impl<'a> Rows<'a> {
    fn new(view: &'a View<'a>, rows: &'a [KernelRow]) -> Self {
        Self { view, rows, places: RowIndex::new(rows) }
    }

    fn fusion(&self, finding: &Finding, patterns: &[Pattern]) -> Option<Fusion> {
        let mut parts: VecMap<usize, Ns> = VecMap::new();
        let mut duration = Ns::ZERO;
        for op in finding.ops.iter().filter_map(|op| self.view.trace.gpu_ops.get(*op as usize)) {
            duration += op.duration;
            if let Some(row) = self.places.row(finding.stage, op.name) {
                parts.update(row, Ns::ZERO, |sum| *sum += op.duration);
            }
        }
        let mut parts = parts.0;
        parts.order_by(|a, b| b.1.cmp(&a.1));
        let share = |part: Ns| percent(part, self.view.times().of_stage(finding.stage).duration);
        let evidence = parts.iter().take(EVIDENCE);
        let evidence =
            evidence.filter_map(|(row, part)| Some(format!("{} ({:.1}%)", self.rows.get(*row)?.name, share(*part))));
        Some(Fusion {
            stage: finding.stage,
            pattern: patterns.get(finding.pattern)?.id.clone(),
            status: finding.status,
            confidence: finding.confidence,
            launches: finding.ops.len() as u64,
            duration_ns: duration.0,
            share_pct: share(duration),
            evidence: evidence.collect(),
            locations: self.locations(&finding.ops),
            rows: parts.into_iter().map(|(row, _)| row).collect(),
        })
    }

    /// The places that launch these ops, the one with most time first.
    fn locations(&self, ops: &[u32]) -> Vec<String> {
        let mut times: VecMap<u32, Ns> = VecMap::new();
        for &op in ops {
            let site = self.view.call_sites.by_op.get(op as usize).copied();
            let duration = self.view.trace.gpu_ops.get(op as usize).map_or(Ns::ZERO, |op| op.duration);
            if let Some(site) = site {
                times.update(site, Ns::ZERO, |sum| *sum += duration);
            }
        }
        times.0.order_by(|a, b| b.1.cmp(&a.1));
        let mut locations: Vec<String> = Vec::new();
        for site in times.0.iter().filter_map(|(site, _)| self.view.call_sites.distinct.get(*site as usize)) {
            let location = function_first(if site.display.is_empty() { &site.location } else { &site.display });
            if !location.is_empty() && !locations.contains(&location) {
                locations.push(location);
            }
        }
        locations.truncate(LOCATIONS);
        locations
    }
}

/// `qwen3.py:310 forward` is `forward @ qwen3.py:310`.
fn function_first(location: &str) -> String {
    match location.rsplit_once(' ') {
        Some((place, function)) => format!("{function} @ {place}"),
        None => location.to_owned(),
    }
}
