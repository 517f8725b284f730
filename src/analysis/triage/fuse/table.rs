//! Builds the table of fusions.

use super::super::definitions::{CHAINS, FUSE_SHARES};
use super::super::roof::Roofs;
use super::super::serving::Deployment;
use super::super::view::View;
use super::patterns::{Origin, Pattern, Patterns};
use super::{Fusion, Status};
use crate::analysis::section::{Answer, Pct, Place, Section, TypedSection, section};
use crate::analysis::structure::stages::Stage;
use crate::trace::Ns;
use crate::words::triage_rows::{self as words, Limit};

section! {
    /// Known fusions that are active, split or absent.
    pub(crate) struct TriageFuse("triage_fuse", "Fuse patterns");
    row TriageFuseRow {
        stage: Stage,
        pattern: String,
        status: String,
        related_ns: Ns = "Related time",
        elapsed_share_pct: Option<Pct> = "Of busy time",
        share_pct: Option<Pct>,
        rationale: String,
        evidence: String,
        python_location: Place,
        candidate_path: Place = "Fused path",
        confidence: String,
    }
    figures TriageFuseFigures {
        patterns_known: usize,
        patterns_of_framework: usize,
        under_the_bar: usize = "Below the minimum share",
    }
}

/// The table in the form of JSON.
pub fn section(view: &View, fusions: &[Fusion], roofs: &Roofs) -> Section {
    table(view, fusions, roofs).section()
}

/// Builds the table. `evidence`, `python_location` and `candidate_path` are lists with one item per line. The figure
/// `under_the_bar` counts findings below the minimum share.
pub(crate) fn table(view: &View, fusions: &[Fusion], roofs: &Roofs) -> Answer<TriageFuse> {
    let mut answer = TriageFuse::answer("kernel names, CPU ops and functions, and the order of ops on a stream")
        .limit(FUSE_SHARES)
        .limit(CHAINS);
    if view.trace.gpu_ops.iter().any(|op| op.stream < 0) {
        answer = answer
            .limit("Some ops have no stream, so their order is unknown; they are not searched for unfused chains.");
    }
    let (patterns, run) = (Patterns::embedded().patterns, Deployment::new(view));
    let share = |fusion: &Fusion| fusion.elapsed_share_pct.unwrap_or(fusion.share_pct);
    let is_shown = |fusion: &&Fusion| share(fusion) >= view.options.min_share_pct;
    for fusion in fusions.iter().filter(is_shown) {
        let pattern = patterns.iter().find(|pattern| pattern.id == fusion.pattern);
        answer.rows.extend(pattern.map(|pattern| row(fusion, pattern, &run, roofs)));
    }
    let is_of_framework = |pattern: &&Pattern| pattern.frameworks.contains(&view.framework);
    answer.with_figures(TriageFuseFigures {
        patterns_known: patterns.len(),
        patterns_of_framework: patterns.iter().filter(is_of_framework).count(),
        under_the_bar: fusions.len() - fusions.iter().filter(is_shown).count(),
    })
}

fn row(fusion: &Fusion, pattern: &Pattern, run: &Deployment, roofs: &Roofs) -> TriageFuseRow {
    let is_active = fusion.status == Status::Active;
    let roof = if is_active { roofs.sentence(fusion.rows.iter().copied()) } else { String::new() };
    TriageFuseRow {
        stage: fusion.stage,
        pattern: pattern.name.clone(),
        status: fusion.status.label().to_owned(),
        related_ns: Ns(fusion.duration_ns),
        elapsed_share_pct: fusion.elapsed_share_pct.map(Pct),
        share_pct: fusion.elapsed_share_pct.map(|_| Pct(fusion.share_pct)),
        rationale: rationale(fusion, pattern, run) + &roof,
        evidence: fusion.evidence.join("\n"),
        python_location: fusion.locations.join("\n").into(),
        candidate_path: pattern.candidate_paths.join("\n").into(),
        confidence: fusion.confidence.label().to_owned(),
    }
}

fn rationale(fusion: &Fusion, pattern: &Pattern, run: &Deployment) -> String {
    let finding = match fusion.status {
        Status::Active => words::Fusion::Active,
        Status::Split if pattern.origin == Origin::General => words::Fusion::Split,
        Status::Split => words::Fusion::SplitOfFramework,
        Status::InFlight => words::Fusion::InFlight,
        Status::NotApplicable => words::Fusion::NotApplicable(limit(fusion, pattern, run)),
    };
    words::rationale(&finding, fusion.launches, &pattern.note, &pattern.prs)
}

/// Why the fused path does not apply.
fn limit(fusion: &Fusion, pattern: &Pattern, run: &Deployment) -> Limit {
    match (pattern.max_tokens, run.too_many_tokens(pattern, fusion.stage)) {
        (Some(limit), Some(least)) if run.has_hardware_for(pattern) => Limit::Tokens { limit, least },
        _ if let Some(limit_mib) = run.too_large_messages(pattern, fusion.messages) => {
            Limit::Messages { limit_mib, bytes: fusion.messages.bytes.unwrap_or_default() as f64 }
        }
        _ if !run.has_device_for(pattern) => Limit::Devices(pattern.devices.clone()),
        _ => Limit::Vendors(pattern.hardware.iter().map(|vendor| vendor.label()).collect()),
    }
}
