//! The table of the fusions.

use super::super::definitions::CHAINS;
use super::super::view::View;
use super::patterns::{Pattern, Patterns};
use super::run::Run;
use super::{Fusion, Status};
use crate::analysis::section::Section;

/// The columns of the table.
pub const COLUMNS: [&str; 10] = [
    "stage",
    "pattern",
    "status",
    "related_ns",
    "share_pct",
    "rationale",
    "evidence",
    "python_location",
    "candidate_path",
    "confidence",
];

/// The table. `evidence`, `python_location` and `candidate_path` are lists, an item a line. Findings under the bar are
/// counted in the figure `under_the_bar`.
pub fn section(view: &View, fusions: &[Fusion]) -> Section {
    let mut section = Section::new(
        "Fuse patterns",
        "kernel names, CPU ops and functions, and what follows what on a stream",
        &COLUMNS,
    )
    .limit(CHAINS);
    if view.trace.gpu_ops.iter().any(|op| op.stream < 0) {
        section =
            section.limit("Some ops have no stream, so that their order is not known; no split is sought among them.");
    }
    let (patterns, run) = (Patterns::embedded().patterns, Run::of(view));
    let shown = |fusion: &&Fusion| fusion.share_pct >= view.options.min_share_pct;
    for fusion in fusions.iter().filter(shown) {
        if let Some(pattern) = patterns.iter().find(|pattern| pattern.id == fusion.pattern) {
            push(&mut section, fusion, pattern, &run);
        }
    }
    section.figure("patterns_known", patterns.len());
    section.figure("patterns_of_framework", patterns.iter().filter(|pattern| pattern.is_of(view.framework)).count());
    section.figure("under_the_bar", fusions.len() - fusions.iter().filter(shown).count());
    section
}

fn push(section: &mut Section, fusion: &Fusion, pattern: &Pattern, run: &Run) {
    section.row([
        fusion.stage.label().into(),
        pattern.name.as_str().into(),
        fusion.status.label().into(),
        fusion.duration_ns.into(),
        fusion.share_pct.into(),
        rationale(fusion, pattern, run).into(),
        fusion.evidence.join("\n").into(),
        fusion.locations.join("\n").into(),
        pattern.candidate_paths.join("\n").into(),
        fusion.confidence.label().into(),
    ]);
}

fn rationale(fusion: &Fusion, pattern: &Pattern, run: &Run) -> String {
    let launches = match fusion.launches {
        1 => "1 launch".to_owned(),
        launches => format!("{launches} launches"),
    };
    let finding = match fusion.status {
        Status::Active => format!("Already fused: {launches}."),
        Status::Split => format!("Runs apart, one after the other, in {launches}; this framework has a fused path."),
        Status::InFlight => format!("Runs apart in {launches}; the fused path is proposed upstream and not merged."),
        Status::NotApplicable => format!("Runs apart in {launches}; the fused path {}.", limit(fusion, pattern, run)),
    };
    let prs: Vec<String> = pattern.prs.iter().map(|pr| format!("#{pr}")).collect();
    let prs = if prs.is_empty() { String::new() } else { format!(" Pull request {}.", prs.join(", ")) };
    format!("{finding} {}{prs}", pattern.note)
}

/// Why the fused path cannot be taken.
fn limit(fusion: &Fusion, pattern: &Pattern, run: &Run) -> String {
    match (pattern.max_tokens, run.too_many_tokens(pattern, fusion.stage)) {
        (Some(most), Some(tokens)) if run.has_hardware_for(pattern) => {
            format!("takes at most {most} tokens, and every step here has {tokens} or more")
        }
        _ => {
            let vendors: Vec<&str> = pattern.hardware.iter().map(|vendor| vendor.label()).collect();
            format!("is for {} only", vendors.join(" and "))
        }
    }
}
