//! Selects the known families that apply to a stage. A family needs evidence with enough time: its kernels, CPU ops or functions,
//! a fuse pattern, its gate functions, or the separate kernels that it would replace.

use super::chains::{Launches, Streams};
use super::data::{CATALOG, Family, Relation, Status};
use super::stage_rows::{FamilyMatch, MatchedIn, RunContext, StageRow, StageRows};
use super::switches::{self, Switch};
use crate::analysis::triage::Framework;
use crate::analysis::triage::fuse::{self, Fusion};
use crate::ordering::VecMap;
use crate::trace::{Ns, Pct};
use crate::words::catalog::Evidence;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// The state of a family in the run, in the order of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// Its parts run separately, and a switch explains it.
    Disabled,
    /// Its parts run separately, although this framework has the family.
    ShouldApply,
    /// Its fused kernel runs.
    Active,
    /// Its parts run separately; the family is proposed in this framework.
    InFlight,
    /// Its parts run separately; another framework has the family.
    Elsewhere,
}

impl Verdict {
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

/// A family that applies to a stage.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) family: &'static Family,
    pub(super) verdict: Verdict,
    /// Indices of the rows in the stage that are evidence, longest time first.
    pub(super) rows: Vec<usize>,
    pub(super) elapsed: Ns,
    pub(super) evidence: Evidence<'static>,
    pub(super) switches: Vec<Switch<'static>>,
}

#[derive(Debug)]
pub(super) struct StageFindings {
    /// Sorted by verdict, then by time.
    pub(super) findings: Vec<Finding>,
    /// For every row of the stage, true if a family or a fuse pattern explains it.
    pub(super) is_explained: Vec<bool>,
}

pub(super) fn find_families(
    run: &RunContext,
    stage_rows: &StageRows,
    fusions: &[Fusion],
    streams: &Streams,
) -> StageFindings {
    let owners = owners(run, stage_rows);
    let mut is_explained: Vec<bool> = owners.iter().map(Option::is_some).collect();
    let mut findings = active(run, stage_rows, &owners);
    let mut missing: Vec<Finding> = by_fuse_patterns(run, stage_rows, fusions);
    missing.extend(by_gates(run, stage_rows, streams));
    missing.extend(by_unfused_kernels(run, stage_rows, streams));
    for finding in missing {
        let is_present = findings.iter().any(|other| other.family.id == finding.family.id);
        if !is_present
            && !exceeds_limits(run, finding.family, stage_rows, fusions)
            && is_material(run, stage_rows, finding.elapsed)
        {
            findings.push(finding);
        }
    }
    for row in findings.iter().flat_map(|finding| &finding.rows).chain(&rows_of_fusions(stage_rows, fusions)) {
        is_explained.get_mut(*row).into_iter().for_each(|flag| *flag = true);
    }
    drop_covered(run, &mut findings);
    findings.sort_by_key(|finding| (finding.verdict, Reverse(finding.elapsed)));
    StageFindings { findings, is_explained }
}

/// True if a fuse pattern found the parts of this family of the framework, but not within the limits of its kernel.
fn exceeds_limits(run: &RunContext, family: &Family, stage_rows: &StageRows, fusions: &[Fusion]) -> bool {
    let mut of_family =
        fusions.iter().filter(|fusion| fusion.stage == stage_rows.stage && fusion.pattern == family.pattern_id());
    family.origin.relation_to(run.view.framework) == Relation::Own
        && of_family.any(|fusion| fusion.status == fuse::Status::NotApplicable)
}

fn is_material(run: &RunContext, stage_rows: &StageRows, elapsed: Ns) -> bool {
    elapsed > Ns::ZERO && stage_rows.share_pct(elapsed) >= run.view.options.min_share_pct
}

/// The family of every row: the framework's own families first, then the best and longest match.
fn owners(run: &RunContext, stage_rows: &StageRows) -> Vec<Option<(usize, FamilyMatch)>> {
    let families = &CATALOG.families;
    let owner = |row: &StageRow| {
        let hits =
            families.iter().enumerate().filter_map(|(index, family)| Some((index, family, row.match_family(family)?)));
        let best = hits.min_by_key(|(_, family, hit)| {
            (family.origin.relation_to(run.view.framework), hit.matched_in, Reverse(hit.length), family.status)
        });
        best.map(|(index, _, hit)| (index, hit))
    };
    stage_rows.rows.iter().map(owner).collect()
}

/// Families whose fused kernels, CPU ops or functions run.
fn active(run: &RunContext, stage_rows: &StageRows, owners: &[Option<(usize, FamilyMatch)>]) -> Vec<Finding> {
    let mut families: VecMap<usize, (Vec<usize>, Ns, MatchedIn)> = VecMap::new();
    for (row, owner) in owners.iter().enumerate() {
        if let Some((family, hit)) = owner {
            families.update(*family, (Vec::new(), Ns::ZERO, MatchedIn::Function), |(rows, sum, matched_in)| {
                rows.push(row);
                *sum += hit.elapsed;
                *matched_in = hit.matched_in.min(*matched_in);
            });
        }
    }
    let to_finding = |(index, (rows, elapsed, matched_in)): (usize, (Vec<usize>, Ns, MatchedIn))| {
        let family = CATALOG.families.get(index)?;
        let evidence = match matched_in {
            MatchedIn::Kernel => Evidence::Kernels,
            MatchedIn::CpuOp => Evidence::CpuOp,
            MatchedIn::Function => Evidence::Function,
        };
        let is_material = is_material(run, stage_rows, elapsed);
        is_material.then(|| finding(run, family, Verdict::Active, (rows, elapsed), evidence))
    };
    families.into_vec().into_iter().filter_map(to_finding).collect()
}

/// Findings from fuse patterns that have a family in the catalog.
fn by_fuse_patterns(run: &RunContext, stage_rows: &StageRows, fusions: &[Fusion]) -> Vec<Finding> {
    let families = &CATALOG.families;
    let mut findings = Vec::new();
    for fusion in fusions.iter().filter(|fusion| fusion.stage == stage_rows.stage) {
        let Some(family) = families.iter().find(|family| family.pattern_id() == fusion.pattern) else { continue };
        let Some(verdict) = verdict_of_unfused(run, family, fusion.status) else { continue };
        let rows = indices_in_stage(stage_rows, &fusion.rows);
        if verdict != Verdict::Active && !has_several_parts(family, &rows) {
            continue;
        }
        let is_active = verdict == Verdict::Active;
        let evidence = if is_active { Evidence::FusedKernel } else { Evidence::SeparateParts };
        findings.push(finding(run, family, verdict, (rows, Ns(fusion.elapsed_ns)), evidence));
    }
    findings
}

/// True if there is something to join: several rows, or a family that joins equal kernels.
fn has_several_parts(family: &Family, rows: &[usize]) -> bool {
    rows.len() > 1 || family.chain.windows(2).all(|pair| pair.first() == pair.last())
}

fn verdict_of_unfused(run: &RunContext, family: &Family, status: fuse::Status) -> Option<Verdict> {
    let relation = family.origin.relation_to(run.view.framework);
    match (status, relation, family.status) {
        (fuse::Status::Active, ..) => Some(Verdict::Active),
        _ if !run.has_hardware(family) || run.has_model(family) == Some(false) => None,
        (_, Relation::Own, Status::Mainline) if status != fuse::Status::NotApplicable => Some(Verdict::ShouldApply),
        (_, Relation::Own, Status::InFlight) if status != fuse::Status::NotApplicable => Some(Verdict::InFlight),
        // The kernel of an engine is no advice for a program without one.
        (_, Relation::Library | Relation::Elsewhere, Status::Mainline) if run.view.framework != Framework::Plain => {
            Some(Verdict::Elsewhere)
        }
        _ => None,
    }
}

/// Families of this framework whose gate functions launched their parts one after the other, while no fused kernel runs.
fn by_gates(run: &RunContext, stage_rows: &StageRows, streams: &Streams) -> Vec<Finding> {
    let is_candidate = |family: &&Family| {
        !family.gates.is_empty()
            && !family.chain.is_empty()
            && family.origin.relation_to(run.view.framework) == Relation::Own
            && family.status != Status::Closed
            && run.supports(family, stage_rows)
            && !stage_rows.rows.iter().any(|row| row.match_family(family).is_some())
    };
    let families = CATALOG.families.iter().filter(is_candidate);
    let to_finding = |family: &'static Family| {
        let launches = streams.launched_by_gates(run.view, stage_rows, family);
        let Launches { count, elapsed, copies, .. } = launches;
        let verdict = if family.status == Status::Mainline { Verdict::ShouldApply } else { Verdict::InFlight };
        let copies = (copies != Ns::ZERO).then(|| Pct(stage_rows.share_pct(copies)));
        let evidence = Evidence::Chain { parts: &family.chain, times: count, copies };
        (count > 0).then(|| finding(run, family, verdict, (launches.rows(stage_rows), elapsed), evidence))
    };
    families.filter_map(to_finding).collect()
}

/// Families whose work is done by separate kernels, of this framework or of plain PyTorch.
fn by_unfused_kernels(run: &RunContext, stage_rows: &StageRows, streams: &Streams) -> Vec<Finding> {
    let is_candidate = |family: &&Family| !family.unfused.is_empty() && run.has_few_tokens(family, stage_rows.stage);
    let families = CATALOG.families.iter().filter(is_candidate);
    let to_finding = |family: &'static Family| {
        let launches = streams.unfused(stage_rows, family);
        let Launches { count, elapsed, max_kernels, .. } = launches;
        let verdict = verdict_of_unfused(run, family, fuse::Status::Split)?;
        let are_plain = verdict == Verdict::Elsewhere;
        let evidence = Evidence::Unfused { kernels: max_kernels, are_plain, times: count };
        (count > 0).then(|| finding(run, family, verdict, (launches.rows(stage_rows), elapsed), evidence))
    };
    families.filter_map(to_finding).collect()
}

fn finding(
    run: &RunContext,
    family: &'static Family,
    verdict: Verdict,
    (rows, elapsed): (Vec<usize>, Ns),
    evidence: Evidence<'static>,
) -> Finding {
    let switches = switches::of(family, run.view.server);
    let is_off = verdict == Verdict::ShouldApply && switches.iter().any(Switch::disables);
    let verdict = if is_off { Verdict::Disabled } else { verdict };
    Finding { family, verdict, rows, elapsed, evidence, switches }
}

/// The indices in the stage of these rows of the run.
fn indices_in_stage(stage_rows: &StageRows, rows: &[usize]) -> Vec<usize> {
    rows.iter().filter_map(|index| stage_rows.rows.binary_search_by_key(index, |row| row.index).ok()).collect()
}

fn rows_of_fusions(stage_rows: &StageRows, fusions: &[Fusion]) -> Vec<usize> {
    let of_stage = fusions.iter().filter(|fusion| fusion.stage == stage_rows.stage);
    of_stage.flat_map(|fusion| indices_in_stage(stage_rows, &fusion.rows)).collect()
}

/// Drops families of other frameworks whose rows are all covered by nearer families.
fn drop_covered(run: &RunContext, findings: &mut Vec<Finding>) {
    let is_elsewhere = |finding: &Finding| finding.verdict == Verdict::Elsewhere;
    findings.sort_by_key(|finding| (is_elsewhere(finding), finding.family.origin.relation_to(run.view.framework)));
    let mut covered: BTreeSet<usize> = BTreeSet::new();
    findings.retain(|finding| {
        let adds_rows = !is_elsewhere(finding) || finding.rows.iter().any(|row| !covered.contains(row));
        covered.extend(&finding.rows);
        adds_rows
    });
}
