//! The note on the family that an unexplained chain of kernels resembles. Shared signals add up to points; points and levels are
//! defined in `patterns/fuse_overlap_catalog.json`. Kernel names are not a signal.

use super::chains::Chain;
use super::data::{CATALOG, Family, Level, Relation, Status};
use super::name_words::Words;
use super::stage_rows::{RunContext, SiteNames, StageRows, is_direct};
use crate::trace::{Ns, Pct};
use crate::words::catalog::{self as words, Resemblance};

/// A resemblance; a run has at most one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Note {
    /// `high`, `medium` or `low`.
    pub(super) level: &'static str,
    /// One sentence that names the chain and the family.
    pub(super) sentence: String,
    /// The shared signals with their points.
    pub(super) why: String,
    rank: Rank,
}

/// Sort key, largest is best: level, points, nearness of the family, time.
type Rank = (usize, u32, std::cmp::Reverse<(Relation, Status)>, Ns);

/// One kind of signal that a chain and a family share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Signal<'a> {
    points: u32,
    shared: words::Signal<'a>,
}

/// The note on the family that the chain resembles most, if any.
pub(super) fn note<'f>(
    run: &RunContext,
    stage_rows: &StageRows,
    chain: &Chain,
    families: impl Iterator<Item = &'f Family>,
) -> Option<Note> {
    let sites = site_names(run, chain);
    let note = |family: &Family| {
        let signals = signals(run, stage_rows, chain, &sites, family);
        let level = CATALOG.similarity.levels.iter().position(|level| is_reached(level, &signals))?;
        Some(write_note(run, stage_rows, chain, family, &signals, level))
    };
    families.filter_map(note).reduce(Note::better)
}

impl Note {
    /// The better of two notes; the first if they are equal.
    pub(super) fn better(self, other: Self) -> Self {
        if other.rank > self.rank { other } else { self }
    }
}

fn is_reached(level: &Level, signals: &[Signal]) -> bool {
    let points: u32 = signals.iter().map(|signal| signal.points).sum();
    let has_chain = signals.iter().any(|signal| matches!(signal.shared, words::Signal::Chain(_)));
    points >= level.points && signals.len() >= level.kinds && (has_chain || !level.chain)
}

fn site_names(run: &RunContext, chain: &Chain) -> Vec<SiteNames> {
    let sites = chain.ops.iter().filter_map(|op| run.view.call_sites.of_op(*op));
    sites
        .filter(|site| is_direct(site.resolution))
        .map(|site| SiteNames::new(&site.location, &site.stack, &site.cpu_op))
        .collect()
}

fn signals<'a>(
    run: &RunContext,
    stage_rows: &StageRows,
    chain: &Chain,
    sites: &'a [SiteNames],
    family: &'a Family,
) -> Vec<Signal<'a>> {
    let weights = &CATALOG.similarity;
    let (before, after) = chain.neighbours;
    let rows: Vec<usize> = before.into_iter().chain(chain.rows.iter().copied()).chain(after).collect();
    let has_chain = contain_chain(stage_rows, &rows, family);
    let is_similar = |words: &[&Words], name: &String| words.iter().any(|words| words.is_near(name, &weights.near));
    let is_function = |name: &String| {
        family.gates.whole_name(name).is_some() || is_similar(&[&family.names, &family.functions], name)
    };
    let has_function = sites.iter().any(|site| site.functions.iter().any(is_function));
    let file =
        family.files.iter().find(|file| sites.iter().any(|site| site.files.iter().any(|path| is_file(path, file))));
    let file_only = file.filter(|_| !has_function);
    let op = sites.iter().map(|site| &site.cpu_op.0).find(|op| is_similar(&[&family.names], op));
    // The source file of a model already identifies the model.
    let is_model_file = file_only.is_some_and(|file| file.contains("/models/"));
    let is_its_model = !is_model_file && run.has_model(family) == Some(true);
    let signals = [
        (weights.chain, has_chain.then_some(words::Signal::Chain(&family.chain))),
        (weights.function, has_function.then_some(words::Signal::Function)),
        (weights.file, file_only.map(|file| words::Signal::File(file))),
        (weights.op, op.map(|op| words::Signal::CpuOp(op))),
        // Only a known number of ranks counts: communication in the stage would duplicate the signal of the chain.
        (weights.tensor_parallel, run.has_known_ranks(family).then_some(words::Signal::TensorParallelism)),
        (weights.model, is_its_model.then_some(words::Signal::Model)),
    ];
    signals.into_iter().filter_map(|(points, shared)| Some(Signal { points, shared: shared? })).collect()
}

/// True if these rows contain the categories of the family in order.
pub(super) fn contain_chain(stage_rows: &StageRows, rows: &[usize], family: &Family) -> bool {
    let category = |row: &usize| stage_rows.rows.get(*row).map(|row| row.row.category.as_str());
    let categories: Vec<Option<&str>> = rows.iter().map(category).collect();
    let length = family.chain.len();
    let matches = |part: &[Option<&str>]| {
        part.iter().zip(&family.chain).all(|(category, wanted)| *category == Some(wanted.as_str()))
    };
    length >= 2 && categories.windows(length).any(matches)
}

/// True if the path of a frame is this source file, independent of the install location.
fn is_file(path: &str, file: &str) -> bool {
    let tail = file.strip_prefix("python/").unwrap_or(file);
    path.strip_suffix(tail).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

fn write_note(
    run: &RunContext,
    stage_rows: &StageRows,
    chain: &Chain,
    family: &Family,
    signals: &[Signal],
    level: usize,
) -> Note {
    let levels = &CATALOG.similarity.levels;
    let points: u32 = signals.iter().map(|signal| signal.points).sum();
    let level_name = levels.get(level).map_or("", |level| level.level.as_str());
    let kernels: Vec<&str> = chain.rows.iter().map(|row| stage_rows.short_name(*row)).collect();
    let sentence = words::resemblance(Resemblance {
        kernels: &kernels,
        share: Pct(stage_rows.share_pct(chain.elapsed)),
        stage: stage_rows.stage.label(),
        family: &family.name,
        project: family.origin.label(),
        level: level_name,
    });
    let shared: Vec<words::Signal> = signals.iter().map(|signal| signal.shared).collect();
    let why = words::signals(&shared, points);
    let nearness = std::cmp::Reverse((family.origin.relation_to(run.view.framework), family.status));
    let rank = (levels.len() - level, points, nearness, chain.elapsed);
    Note { level: level_name, sentence, why, rank }
}
