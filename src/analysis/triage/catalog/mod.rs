//! The catalog of known fusions and overlaps: which of them bear on this run, the switches that turn them on or off, and
//! at most one note on a family that the run resembles.
//!
//! `data` is the catalog, `seen` a stage made ready to be searched, `consult` the rule by which families are found,
//! `chains` who follows whom on a stream, `similarity` the note.

mod chains;
mod consult;
mod data;
mod seen;
mod similarity;
mod switches;
mod words;

use data::{Catalog, Family};

use super::definitions::{CATALOG_DATE, CATALOG_REACH};
use super::fuse::Fusion;
use super::kernels::KernelRow;
use super::times::percent;
use super::view::View;
use crate::analysis::section::{Section, Value};
use crate::trace::Ns;
use chains::{COMMUNICATION, Chain, Streams};
use consult::{Consulted, Finding, Verdict};
use seen::{Run, Seen};
use similarity::Note;

/// The columns of the table.
pub const COLUMNS: [&str; 8] =
    ["stage", "family", "finding", "advice", "evidence", "source_location", "switches", "kind"];

/// Lines of a cell; what is beyond is counted.
const LINES: usize = 3;

/// Catalog rows that apply; the similarity note is the figure `similarity` with `similarity_level` and `similarity_why`.
pub fn section(view: &View, rows: &[KernelRow], fusions: &[Fusion]) -> Section {
    let title = "Known fusions and overlaps";
    let catalog =
        format!("the catalog of {} known families of fused kernels and overlaps", Catalog::embedded().families.len());
    let mut section = Section::new(title, &catalog, &COLUMNS).limit(CATALOG_DATE).limit(CATALOG_REACH);
    if view.server.0.is_empty() {
        section = section.limit("Without server arguments the state of switches is not known.");
    }
    let run = Run::new(view);
    let (streams, alone) = (Streams::of_stages(view, rows), chains::alone(view, rows));
    let mut note = None;
    for stage in view.times().stages() {
        let (seen, Some(streams)) = (Seen::new(view, stage, rows), streams.get(stage as usize)) else { continue };
        let consulted = consult::consult(&run, &seen, fusions, streams);
        consulted.findings.iter().for_each(|finding| put_finding(&mut section, &run, &seen, finding));
        let chains = streams.unexplained(&seen, &consulted.explained, &Catalog::embedded().new);
        put_new(&mut section, &run, &seen, &chains);
        put_alone(&mut section, &seen, &consulted, &alone);
        note = better(note, note_of_stage(&run, &seen, &consulted, &chains));
    }
    if let Some(note) = note {
        section.figure("similarity", note.sentence);
        section.figure("similarity_level", note.level);
        section.figure("similarity_why", note.why);
    }
    section
}

fn better(first: Option<Note>, second: Option<Note>) -> Option<Note> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.better(second)),
        (first, second) => first.or(second),
    }
}

/// The best note of a stage: chains against families that nothing was found of.
fn note_of_stage(run: &Run, seen: &Seen, consulted: &Consulted, chains: &[Chain]) -> Option<Note> {
    let is_open = |family: &&Family| {
        run.has_hardware(family)
            && run.has_model(family) != Some(false)
            && !consulted.findings.iter().any(|finding| finding.family.id == family.id)
    };
    let open: Vec<&Family> = Catalog::embedded().families.iter().filter(is_open).collect();
    let is_material = |chain: &&Chain| seen.share_pct(chain.duration) >= Catalog::embedded().similarity.min_share_pct;
    let notes =
        chains.iter().filter(is_material).filter_map(|chain| similarity::note(run, seen, chain, open.iter().copied()));
    notes.reduce(Note::better)
}

fn put_finding(section: &mut Section, run: &Run, seen: &Seen, finding: &Finding) {
    let family = finding.family;
    let share = seen.share_pct(finding.duration);
    let mut evidence = vec![format!("{share:.1} % of the stage: {}", finding.sign)];
    evidence.extend(row_lines(seen, &finding.rows));
    let switches: Vec<String> = finding.switches.iter().map(|switch| switch.line()).collect();
    section.row([
        seen.stage.label().into(),
        family.name.as_str().into(),
        finding.verdict.label().into(),
        advice(run, finding).into(),
        lines(evidence),
        lines(first(&family.files)),
        lines(switches),
        family.kind.as_str().into(),
    ]);
}

/// What to do about it, a sentence or two.
fn advice(run: &Run, finding: &Finding) -> String {
    let (family, framework) = (finding.family, run.view.framework.label());
    let note = &family.note;
    match finding.verdict {
        Verdict::Active => format!("It runs; look elsewhere for time. {note}"),
        Verdict::Disabled => {
            let off: Vec<&str> = finding
                .switches
                .iter()
                .filter(|switch| switch.disables())
                .map(|switch| switch.toggle.toggle.as_str())
                .collect();
            format!("{framework} has it, but {} keeps it off: change that and measure again. {note}", off.join(", "))
        }
        Verdict::ShouldApply => {
            format!(
                "{framework} has it: find out why it does not run here (shape, data type, backend, version) before writing anything new. {note}"
            )
        }
        Verdict::InFlight => format!("It is on its way{}: follow or try it. {note}", requests(family)),
        Verdict::Elsewhere => {
            format!(
                "{} has it{}, {framework} is not known to: a port is what to propose. {note}",
                family.origin.label(),
                requests(family)
            )
        }
    }
}

fn requests(family: &Family) -> String {
    let numbers: Vec<String> = family.prs.iter().map(|number| format!("#{number}")).collect();
    if numbers.is_empty() { String::new() } else { format!(" ({} {})", family.origin.label(), numbers.join(", ")) }
}

/// Rows for chains of small kernels that no family explains.
fn put_new(section: &mut Section, run: &Run, seen: &Seen, chains: &[Chain]) {
    let new = &Catalog::embedded().new;
    for chain in chains.iter().filter(|chain| !fits_a_family(run, seen, chain)) {
        let share = seen.share_pct(chain.duration);
        if share >= new.min_share_pct && chain.launches >= new.min_launches && chain.rows.len() > 1 {
            let head =
                format!("{share:.1} % of the stage: {} kernels in a row, {} times", chain.rows.len(), chain.launches);
            let evidence = [head, similarity::title(seen, chain)];
            let advice = "No family of the catalog covers these kernels: one kernel for all of them would be new.";
            put_opportunity(section, seen, "fuse", evidence, sources(run, chain), advice);
        }
    }
}

/// Rows for communication that no family explains and that runs alone; `alone` is by place among all rows.
fn put_alone(section: &mut Section, seen: &Seen, consulted: &Consulted, alone: &[Ns]) {
    let new = &Catalog::embedded().new;
    let communication = seen.rows.iter().enumerate().filter(|(_, seen)| seen.row.category == COMMUNICATION);
    for (row, seen_row) in communication {
        let duration = Ns(seen_row.row.duration_ns);
        let share = seen.share_pct(duration);
        let alone_pct = percent(alone.get(seen_row.at).copied().unwrap_or_default(), duration);
        let is_explained = consulted.explained.get(row).copied().unwrap_or(true);
        if !is_explained && share >= new.min_share_pct && alone_pct >= new.min_alone_pct {
            let head = format!("{alone_pct:.1} % of it runs with no other work on its device");
            let evidence = [head, seen.line(row).unwrap_or_default()];
            let sources =
                seen_row.row.call_sites.iter().map(|site| site.display.clone()).filter(|site| !site.is_empty());
            let advice = "No family of the catalog hides this communication: look for work that does not wait for it.";
            put_opportunity(section, seen, "overlap", evidence, sources.take(LINES).collect(), advice);
        }
    }
}

/// Does a family of language models join kernels of these categories here? Then the chain is not new, even where no name
/// tells that it is that family's.
fn fits_a_family(run: &Run, seen: &Seen, chain: &Chain) -> bool {
    let is_told =
        |family: &&Family| !family.kind.contains('(') && family.chain.iter().any(|part| part != "elementwise");
    let fits = |family: &Family| {
        run.has_hardware(family)
            && run.has_ranks(family, seen)
            && (family.model.is_empty() || run.has_model(family) == Some(true))
            && similarity::is_inside(seen, chain, family)
    };
    Catalog::embedded().families.iter().filter(is_told).any(fits)
}

fn put_opportunity(
    section: &mut Section,
    seen: &Seen,
    kind: &str,
    evidence: [String; 2],
    sources: Vec<String>,
    advice: &str,
) {
    section.row([
        seen.stage.label().into(),
        "none of the catalog".into(),
        "new opportunity".into(),
        advice.into(),
        lines(Vec::from(evidence)),
        lines(sources),
        Value::Null,
        kind.into(),
    ]);
}

/// Where the first launch of a chain comes from, each place once.
fn sources(run: &Run, chain: &Chain) -> Vec<String> {
    let mut sources: Vec<String> = Vec::new();
    for site in chain.ops.iter().filter_map(|op| run.view.call_sites.of_op(*op)) {
        if !site.display.is_empty() && !sources.contains(&site.display) && sources.len() < LINES {
            sources.push(site.display.clone());
        }
    }
    sources
}

fn row_lines(seen: &Seen, rows: &[usize]) -> Vec<String> {
    let mut lines: Vec<String> = rows.iter().take(LINES).filter_map(|row| seen.line(*row)).collect();
    if rows.len() > LINES {
        lines.push(format!("and {} more", rows.len() - LINES));
    }
    lines
}

fn first(lines: &[String]) -> Vec<String> {
    lines.iter().take(LINES).cloned().collect()
}

/// A cell of several lines; nothing where there are none.
fn lines(lines: Vec<String>) -> Value {
    if lines.is_empty() { Value::Null } else { lines.join("\n").into() }
}
