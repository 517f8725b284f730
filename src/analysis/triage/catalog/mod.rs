//! The table of known fusions and overlaps: families of the catalog that apply to this run with their switches, and at most
//! one note on a family that the run resembles.
//!
//! `data` reads the catalog, `stage_rows` prepares the kernel rows of a stage for name search, `findings` selects the families,
//! `chains` finds sequences of ops on a stream, `switches` reads the server arguments, `similarity` writes the note. The catalog
//! is in `patterns/fuse_overlap_catalog.json` and `patterns/toggles.json`.

mod chains;
mod data;
mod findings;
mod name_words;
mod similarity;
mod stage_rows;
mod switches;

use data::{CATALOG, Family};

use super::definitions::{CATALOG_DATE, CATALOG_REACH};
use super::fuse::Fusion;
use super::kernels::KernelRow;
use super::roof::Roofs;
use super::view::View;
use crate::analysis::section::{Answer, Pct, Place, Section, TypedSection, section};
use crate::analysis::structure::stages::Stage;
use crate::words::catalog::{self as words, Advice, Requests};
use chains::{Chain, Streams};
use findings::{Finding, StageFindings, Verdict};
use similarity::Note;
use stage_rows::{RunContext, StageRows};

section! {
    /// Families of the catalog that apply to the run.
    pub(crate) struct TriageCatalog("triage_catalog", "Known fusions and overlaps");
    row TriageCatalogRow {
        stage: Stage,
        family: String,
        finding: String,
        advice: String,
        evidence: Option<String>,
        source_location: Option<Place>,
        switches: Option<String>,
        kind: String,
    }
    figures TriageCatalogFigures {
        /// The note on the family that the run resembles.
        similarity: String,
        similarity_level: String,
        similarity_why: String,
    }
}

/// The maximum number of lines in a cell.
const MAX_LINES: usize = 3;

/// The table in the form of JSON.
pub fn section(view: &View, rows: &[KernelRow], fusions: &[Fusion], roofs: &Roofs) -> Section {
    table(view, rows, fusions, roofs).section()
}

/// Builds the table. The similarity note is the figure `similarity`, with `similarity_level` and `similarity_why`.
pub(crate) fn table(view: &View, rows: &[KernelRow], fusions: &[Fusion], roofs: &Roofs) -> Answer<TriageCatalog> {
    let source = words::source(CATALOG.families.len());
    let mut answer = TriageCatalog::answer(source).limit(CATALOG_DATE).limit(CATALOG_REACH);
    if view.server.0.is_empty() {
        answer = answer.limit("The state of switches is unknown without server arguments.");
    }
    let run = RunContext::new(view);
    let streams = Streams::of_stages(view, rows);
    let mut note = None;
    for stage in view.times().stages() {
        let (stage_rows, Some(streams)) = (StageRows::new(view, stage, rows), streams.get(stage as usize)) else {
            continue;
        };
        let found = findings::find_families(&run, &stage_rows, fusions, streams);
        answer.rows.extend(found.findings.iter().map(|finding| table_row(&run, &stage_rows, finding, roofs)));
        let chains = streams.unexplained(&stage_rows, &found.is_explained, &CATALOG.new);
        note = note.into_iter().chain(note_of_stage(&run, &stage_rows, &found, &chains)).reduce(Note::better);
    }
    answer.figures = note.map(|note| TriageCatalogFigures {
        similarity: note.sentence,
        similarity_level: note.level.into(),
        similarity_why: note.why,
    });
    answer
}

/// The best note of a stage; compares unexplained chains with families that have no finding.
fn note_of_stage(run: &RunContext, stage_rows: &StageRows, found: &StageFindings, chains: &[Chain]) -> Option<Note> {
    let is_candidate = |family: &&Family| {
        run.has_hardware(family)
            && run.has_model(family) != Some(false)
            && !found.findings.iter().any(|finding| finding.family.id == family.id)
    };
    let candidates: Vec<&Family> = CATALOG.families.iter().filter(is_candidate).collect();
    let is_material = |chain: &&Chain| stage_rows.share_pct(chain.elapsed) >= CATALOG.similarity.min_share_pct;
    let notes = chains
        .iter()
        .filter(is_material)
        .filter_map(|chain| similarity::note(run, stage_rows, chain, candidates.iter().copied()));
    notes.reduce(Note::better)
}

fn table_row(run: &RunContext, stage_rows: &StageRows, finding: &Finding, roofs: &Roofs) -> TriageCatalogRow {
    let rows = finding.rows.iter().filter_map(|row| Some(stage_rows.rows.get(*row)?.index));
    let roof = if finding.verdict == Verdict::Active { roofs.sentence(rows) } else { String::new() };
    let family = finding.family;
    let share = stage_rows.share_of_rows(&finding.rows, finding.elapsed);
    let mut evidence = vec![words::evidence(finding.evidence, share.map(Pct))];
    evidence.extend(row_lines(stage_rows, &finding.rows));
    let switches: Vec<String> = finding.switches.iter().map(|switch| switch.line()).collect();
    TriageCatalogRow {
        stage: stage_rows.stage,
        family: family.name.clone(),
        finding: finding.verdict.label().to_owned(),
        advice: words::advice(&advice(run, finding), &family.note) + &roof,
        evidence: lines(evidence),
        source_location: lines(family.files.iter().take(MAX_LINES).cloned().collect()).map(Place),
        switches: lines(switches),
        kind: family.kind.clone(),
    }
}

fn advice<'a>(run: &RunContext, finding: &'a Finding) -> Advice<'a> {
    let (family, framework) = (finding.family, run.view.framework.label());
    let requests = Requests { project: family.origin.label(), numbers: &family.prs };
    match finding.verdict {
        Verdict::Active => Advice::Keep,
        Verdict::Disabled => {
            let off = finding.switches.iter().filter(|switch| switch.disables());
            Advice::Enable { framework, switches: off.map(|switch| switch.toggle.toggle.as_str()).collect() }
        }
        Verdict::ShouldApply => Advice::FindOut { framework },
        Verdict::InFlight => Advice::Follow(requests),
        Verdict::Elsewhere => Advice::Port { framework, requests },
    }
}

fn row_lines(stage_rows: &StageRows, rows: &[usize]) -> Vec<String> {
    let mut lines: Vec<String> = rows.iter().take(MAX_LINES).filter_map(|row| stage_rows.evidence_line(*row)).collect();
    if rows.len() > MAX_LINES {
        lines.push(words::more_rows(rows.len() - MAX_LINES));
    }
    lines
}

/// A cell of several lines; `None` if there are none.
fn lines(lines: Vec<String>) -> Option<String> {
    (!lines.is_empty()).then(|| lines.join("\n"))
}
