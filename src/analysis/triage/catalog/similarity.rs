//! The note on a family that an unexplained chain of kernels resembles: which signals they share, counted by a rule whose
//! points stand in `patterns/fuse_overlap_catalog.json`. The name of a kernel is no signal.

use super::chains::Chain;
use super::data::{Catalog, Family, Level, Relation, Status, Weights};
use super::seen::{Place, Run, Seen, is_own};
use super::words::Words;
use crate::rules::names;
use crate::trace::Ns;

/// At most one a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Note {
    /// `high`, `medium` or `low`.
    pub(super) level: &'static str,
    /// What resembles what, a sentence.
    pub(super) sentence: String,
    /// The signals, and what they are worth.
    pub(super) why: String,
    rank: Rank,
}

/// The better, the larger: level, points, nearness of the family, duration.
type Rank = (usize, u32, std::cmp::Reverse<(Relation, Status)>, Ns);

/// One kind of signal that a chain and a family share.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Signal {
    points: u32,
    is_chain: bool,
    why: String,
}

/// The family of these that the chain resembles most, if it resembles any.
pub(super) fn note<'f>(
    run: &Run,
    seen: &Seen,
    chain: &Chain,
    families: impl Iterator<Item = &'f Family>,
) -> Option<Note> {
    let weights = &Catalog::embedded().similarity;
    let places = places(run, chain);
    let of = |family: &Family| {
        let signals = signals(run, seen, chain, &places, family, weights);
        let level = weights.levels.iter().position(|level| holds(level, &signals))?;
        Some(write(run, seen, chain, family, &signals, level, weights))
    };
    families.filter_map(of).reduce(Note::better)
}

impl Note {
    /// The one that says more; of equal ones the first.
    pub(super) fn better(self, other: Self) -> Self {
        if other.rank > self.rank { other } else { self }
    }
}

fn holds(level: &Level, signals: &[Signal]) -> bool {
    let points: u32 = signals.iter().map(|signal| signal.points).sum();
    let has_chain = signals.iter().any(|signal| signal.is_chain);
    points >= level.points && signals.len() >= level.kinds && (has_chain || !level.chain)
}

fn places(run: &Run, chain: &Chain) -> Vec<Place> {
    let sites = chain.ops.iter().filter_map(|op| run.view.call_sites.of_op(*op));
    sites
        .filter(|site| is_own(site.resolution))
        .map(|site| Place::new(&site.location, &site.stack, &site.cpu_op))
        .collect()
}

fn signals(run: &Run, seen: &Seen, chain: &Chain, places: &[Place], family: &Family, weights: &Weights) -> Vec<Signal> {
    let mut signals = Vec::new();
    let mut add = |is_there: bool, points: u32, is_chain: bool, why: String| {
        if is_there {
            signals.push(Signal { points, is_chain, why });
        }
    };
    add(is_chain(seen, chain, family), weights.chain, true, format!("on one stream {}", family.chain.join(" -> ")));
    let like = |words: &[&Words], name: &String| words.iter().any(|words| words.near(name, &weights.near));
    let is_function =
        |name: &String| family.gates.whole(name).is_some() || like(&[&family.names, &family.functions], name);
    let has_function = places.iter().any(|place| place.functions.iter().any(is_function));
    let file =
        family.files.iter().find(|file| places.iter().any(|place| place.files.iter().any(|at| is_file(at, file))));
    add(has_function, weights.function, false, "a function of the family in the stack".to_owned());
    let file_alone = file.filter(|_| !has_function);
    add(file_alone.is_some(), weights.file, false, format!("its source file {}", file.map_or("", String::as_str)));
    let op = places.iter().map(|place| &place.op.0).find(|op| like(&[&family.names], op));
    add(op.is_some(), weights.op, false, format!("the CPU op {}", op.map_or("", String::as_str)));
    // Told by communication in the stage it would be no signal of its own beside the chain.
    add(run.is_told_ranks(family), weights.tensor_parallel, false, "tensor parallelism, which it needs".to_owned());
    // A model's own source file tells the model: it is one signal, not two.
    let is_told = file_alone.is_some_and(|file| file.contains("/models/"));
    add(!is_told && run.has_model(family) == Some(true), weights.model, false, "its model".to_owned());
    signals
}

/// Do the chain and what stands around it have the family's categories in a row, at least one of them in the chain?
fn is_chain(seen: &Seen, chain: &Chain, family: &Family) -> bool {
    let rows: Vec<Option<usize>> =
        [chain.around.0].into_iter().chain(chain.rows.iter().copied().map(Some)).chain([chain.around.1]).collect();
    let category = |row: &Option<usize>| seen.rows.get((*row)?).map(|row| row.row.category.as_str());
    let categories: Vec<Option<&str>> = rows.iter().map(category).collect();
    let wanted = family.chain.len();
    let fits = |(at, part): (usize, &[Option<&str>])| {
        let is_inside = at + wanted > 1 && at + 1 < categories.len();
        is_inside && part.iter().zip(&family.chain).all(|(category, wanted)| *category == Some(wanted.as_str()))
    };
    wanted >= 2 && categories.windows(wanted).enumerate().any(fits)
}

/// Does the chain by itself have the family's categories in a row?
pub(super) fn is_inside(seen: &Seen, chain: &Chain, family: &Family) -> bool {
    let category = |row: &usize| seen.rows.get(*row).map(|row| row.row.category.as_str());
    let categories: Vec<Option<&str>> = chain.rows.iter().map(category).collect();
    let wanted = family.chain.len();
    let fits = |part: &[Option<&str>]| part.iter().zip(&family.chain).all(|(is, wanted)| *is == Some(wanted.as_str()));
    wanted >= 2 && categories.windows(wanted).any(fits)
}

/// Is the path of a frame this source file, wherever it is installed?
fn is_file(path: &str, file: &str) -> bool {
    let tail = file.strip_prefix("python/").unwrap_or(file);
    path.strip_suffix(tail).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

fn write(
    run: &Run,
    seen: &Seen,
    chain: &Chain,
    family: &Family,
    signals: &[Signal],
    level: usize,
    weights: &'static Weights,
) -> Note {
    let points: u32 = signals.iter().map(|signal| signal.points).sum();
    let level_name = weights.levels.get(level).map_or("", |level| level.level.as_str());
    let meaning = match level_name {
        "high" => "very likely the same family; a drifted name or a small reshaping is the main doubt",
        "medium" => "several signals agree, one important piece is unclear",
        _ => "a weak resemblance, worth a look",
    };
    let sentence = format!(
        "{} ({:.1} % of {}) resembles {} of {}: {meaning}.",
        title(seen, chain),
        seen.share_pct(chain.duration),
        seen.stage.label(),
        family.name,
        family.origin.label(),
    );
    let whys: Vec<&str> = signals.iter().map(|signal| signal.why.as_str()).collect();
    let why = format!("{} ({points} points of {} kinds of signals)", whys.join("; "), signals.len());
    let nearness = std::cmp::Reverse((family.origin.to(run.view.framework), family.status));
    let rank = (weights.levels.len() - level, points, nearness, chain.duration);
    Note { level: level_name, sentence, why, rank }
}

/// The kernels of a chain in order.
pub(super) fn title(seen: &Seen, chain: &Chain) -> String {
    let name = |row: &usize| Some(names::short(&names::demangle(&seen.rows.get(*row)?.row.name)));
    let names: Vec<String> = chain.rows.iter().filter_map(name).collect();
    names.join(" -> ")
}
