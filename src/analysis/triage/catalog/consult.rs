//! Which known families bear on a stage, by the rule of the catalog: mainline first, then in flight, and only what
//! specific names, functions or a fuse pattern with enough time show.

use super::chains::{Launches, Streams};
use super::data::{Catalog, Family, Relation, Status};
use super::seen::{By, Hit, Run, Seen};
use super::switches::{self, Switch};
use crate::analysis::triage::fuse::{self, Fusion};
use crate::ordering::{StableSort, VecMap};
use crate::trace::Ns;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// What the run says of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// Its parts run apart, and a switch explains it.
    Disabled,
    /// Its parts run apart, although this framework has it.
    ShouldApply,
    /// It runs.
    Active,
    /// Its parts run apart; it is proposed in this framework.
    InFlight,
    /// Its parts run apart; another framework has it.
    Elsewhere,
}

impl Verdict {
    /// As the table says it.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Disabled => "seems disabled",
            Self::ShouldApply => "should apply",
            Self::Active => "active",
            Self::InFlight => "in flight",
            Self::Elsewhere => "elsewhere",
        }
    }
}

/// A family that bears on a stage.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    /// Which.
    pub(super) family: &'static Family,
    /// What the run says of it.
    pub(super) verdict: Verdict,
    /// Places of the rows in the stage that say so, the longest time first.
    pub(super) rows: Vec<usize>,
    /// Duration of what says so.
    pub(super) duration: Ns,
    /// How it shows, a phrase.
    pub(super) sign: String,
    /// Its switches.
    pub(super) switches: Vec<Switch<'static>>,
}

/// What the catalog says of a stage.
#[derive(Debug)]
pub(super) struct Consulted {
    /// What bears on it: mainline, then in flight, then elsewhere; within these by time.
    pub(super) findings: Vec<Finding>,
    /// Of every row of the stage: does a family or a fuse pattern explain it?
    pub(super) explained: Vec<bool>,
}

/// Consults the catalog.
pub(super) fn consult(run: &Run, seen: &Seen, fusions: &[Fusion], streams: &Streams) -> Consulted {
    let owners = owners(run, seen);
    let mut explained: Vec<bool> = owners.iter().map(Option::is_some).collect();
    let mut findings = active(run, seen, &owners);
    let mut found: Vec<Finding> = split(run, seen, fusions);
    found.extend(gated(run, seen, streams));
    found.extend(apart(run, seen, streams));
    for finding in found {
        let is_known = findings.iter().any(|known| known.family.id == finding.family.id);
        if !is_known && is_material(run, seen, finding.duration) {
            findings.push(finding);
        }
    }
    for row in findings.iter().flat_map(|finding| &finding.rows).chain(&rows_of_fusions(seen, fusions)) {
        explained.get_mut(*row).into_iter().for_each(|is| *is = true);
    }
    drop_covered(run, &mut findings);
    findings.order_by(|a, b| order(a).cmp(&order(b)));
    Consulted { findings, explained }
}

fn order(finding: &Finding) -> (Verdict, Reverse<Ns>) {
    (finding.verdict, Reverse(finding.duration))
}

fn is_material(run: &Run, seen: &Seen, duration: Ns) -> bool {
    duration > Ns::ZERO && seen.share_pct(duration) >= run.view.options.min_share_pct
}

/// Of every row the family that it belongs to: the framework's own before others, then the one whose word says most.
fn owners(run: &Run, seen: &Seen) -> Vec<Option<(usize, Hit)>> {
    let families = &Catalog::embedded().families;
    let owner = |row: &super::seen::SeenRow| {
        let hits = families.iter().enumerate().filter_map(|(at, family)| Some((at, family, row.hit(family)?)));
        let best = hits.min_by_key(|(_, family, hit)| {
            (family.origin.to(run.view.framework), hit.by, Reverse(hit.length), family.status)
        });
        best.map(|(at, _, hit)| (at, hit))
    };
    seen.rows.iter().map(owner).collect()
}

fn active(run: &Run, seen: &Seen, owners: &[Option<(usize, Hit)>]) -> Vec<Finding> {
    let mut families: VecMap<usize, (Vec<usize>, Ns, By)> = VecMap::new();
    for (row, owner) in owners.iter().enumerate() {
        if let Some((family, hit)) = owner {
            families.update(*family, (Vec::new(), Ns::ZERO, By::Function), |(rows, sum, by)| {
                rows.push(row);
                *sum += hit.duration;
                *by = hit.by.min(*by);
            });
        }
    }
    let finding = |(at, (rows, duration, by)): (usize, (Vec<usize>, Ns, By))| {
        let family = Catalog::embedded().families.get(at)?;
        let sign = match by {
            By::Kernel => "its kernels run",
            By::Op => "its CPU op runs",
            By::Function => "its function runs",
        };
        let sign = sign.to_owned();
        let switches = switches::of(family, run.view.server);
        is_material(run, seen, duration).then_some(Finding {
            family,
            verdict: Verdict::Active,
            rows,
            duration,
            sign,
            switches,
        })
    };
    families.0.into_iter().filter_map(finding).collect()
}

/// What fuse patterns say of the families that they have in common.
fn split(run: &Run, seen: &Seen, fusions: &[Fusion]) -> Vec<Finding> {
    let families = &Catalog::embedded().families;
    let mut findings = Vec::new();
    for fusion in fusions.iter().filter(|fusion| fusion.stage == seen.stage) {
        let Some(family) = families.iter().find(|family| family.pattern() == fusion.pattern) else { continue };
        let Some(verdict) = verdict_of_split(run, family, fusion.status) else { continue };
        let rows = places(seen, &fusion.rows);
        if verdict != Verdict::Active && !is_apart(family, &rows) {
            continue;
        }
        let sign = match verdict {
            Verdict::Active => "its fused kernel runs",
            _ => "its parts run apart, one after the other",
        };
        findings.push(finding(run, family, verdict, (rows, Ns(fusion.duration_ns)), sign));
    }
    findings
}

/// Are there parts to join? One row alone has none, unless the family joins kernels that are alike.
fn is_apart(family: &Family, rows: &[usize]) -> bool {
    rows.len() > 1 || family.chain.windows(2).all(|pair| pair.first() == pair.last())
}

fn verdict_of_split(run: &Run, family: &Family, status: fuse::Status) -> Option<Verdict> {
    let relation = family.origin.to(run.view.framework);
    match (status, relation, family.status) {
        (fuse::Status::Active, ..) => Some(Verdict::Active),
        _ if !run.has_hardware(family) || run.has_model(family) == Some(false) => None,
        (_, Relation::Own, Status::Mainline) if status != fuse::Status::NotApplicable => Some(Verdict::ShouldApply),
        (_, Relation::Own, Status::InFlight) if status != fuse::Status::NotApplicable => Some(Verdict::InFlight),
        (_, Relation::Library | Relation::Elsewhere, Status::Mainline) => Some(Verdict::Elsewhere),
        _ => None,
    }
}

/// Families of this framework whose gates launched their parts in a row, while nothing of theirs runs.
fn gated(run: &Run, seen: &Seen, streams: &Streams) -> Vec<Finding> {
    let is_candidate = |family: &&Family| {
        !family.gates.is_empty()
            && !family.chain.is_empty()
            && family.origin.to(run.view.framework) == Relation::Own
            && family.status != Status::Closed
            && run.has_hardware(family)
            && run.has_ranks(family, seen)
            && (family.model.is_empty() || run.has_model(family) == Some(true))
            && !seen.rows.iter().any(|row| row.hit(family).is_some())
    };
    let families = Catalog::embedded().families.iter().filter(is_candidate);
    let of = |family: &'static Family| {
        let launches = streams.gated(run.view, seen, family);
        let Launches { count, duration, copies, .. } = launches;
        let verdict = if family.status == Status::Mainline { Verdict::ShouldApply } else { Verdict::InFlight };
        let copies = match copies {
            Ns::ZERO => String::new(),
            _ => format!(", copies of another {:.1} % between them", seen.share_pct(copies)),
        };
        let chain = family.chain.join(", ");
        let sign = format!("{chain} follow each other {count} times{copies}; no kernel of the family runs");
        (count > 0).then(|| finding(run, family, verdict, (launches.rows(seen), duration), &sign))
    };
    families.filter_map(of).collect()
}

/// Families whose work is done kernel by kernel, by this framework or by plain PyTorch.
fn apart(run: &Run, seen: &Seen, streams: &Streams) -> Vec<Finding> {
    let is_candidate = |family: &&Family| !family.apart.is_empty() && run.has_few_tokens(family, seen.stage);
    let families = Catalog::embedded().families.iter().filter(is_candidate);
    let of = |family: &'static Family| {
        let launches = streams.apart(seen, family);
        let Launches { count, duration, longest, .. } = launches;
        let verdict = verdict_of_split(run, family, fuse::Status::Split)?;
        let who = if verdict == Verdict::Elsewhere { "plain PyTorch runs" } else { "there run" };
        let sign = format!("{who} {longest} kernels in its place, {count} times");
        (count > 0).then(|| finding(run, family, verdict, (launches.rows(seen), duration), &sign))
    };
    families.filter_map(of).collect()
}

fn finding(
    run: &Run,
    family: &'static Family,
    verdict: Verdict,
    (rows, duration): (Vec<usize>, Ns),
    sign: &str,
) -> Finding {
    let switches = switches::of(family, run.view.server);
    let is_off = verdict == Verdict::ShouldApply && switches.iter().any(Switch::disables);
    let verdict = if is_off { Verdict::Disabled } else { verdict };
    Finding { family, verdict, rows, duration, sign: sign.to_owned(), switches }
}

/// Where the stage has these rows of the run.
fn places(seen: &Seen, rows: &[usize]) -> Vec<usize> {
    rows.iter().filter_map(|at| seen.rows.binary_search_by_key(at, |row| row.at).ok()).collect()
}

fn rows_of_fusions(seen: &Seen, fusions: &[Fusion]) -> Vec<usize> {
    let of_stage = fusions.iter().filter(|fusion| fusion.stage == seen.stage);
    of_stage.flat_map(|fusion| places(seen, &fusion.rows)).collect()
}

/// What another framework has is no news where nearer families say it all.
fn drop_covered(run: &Run, findings: &mut Vec<Finding>) {
    let is_far = |finding: &Finding| finding.verdict == Verdict::Elsewhere;
    findings.order_by_key(|finding| (is_far(finding), finding.family.origin.to(run.view.framework)));
    let mut covered: BTreeSet<usize> = BTreeSet::new();
    findings.retain(|finding| {
        let is_news = !is_far(finding) || finding.rows.iter().any(|row| !covered.contains(row));
        covered.extend(&finding.rows);
        is_news
    });
}
