//! Sequences of ops on a stream: consecutive launches of a family's parts, and chains of kernels that no family
//! explains. Linear in the number of ops.

use super::data::{Family, NewWork};
use super::name_words::ChainPart;
use super::stage_rows::{SiteNames, StageRow, StageRows, is_direct};
use crate::analysis::triage::call_sites::CallSite;
use crate::analysis::triage::kernels::{KernelRow, RowIndex};
use crate::analysis::triage::{Stage, View};
use crate::ordering::VecMap;
use crate::trace::Ns;
use std::cmp::Reverse;

/// Longer sequences of small kernels are split.
const MAX_CHAIN_LENGTH: usize = 12;
/// At most this many copies may lie between two parts of a chain.
const MAX_COPIES_BETWEEN: usize = 8;

/// How often each pair of rows occurs before and after a chain.
type NeighbourCounts = VecMap<(Option<usize>, Option<usize>), u64>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamOp {
    /// Index of the op in the trace.
    pub(super) op: usize,
    /// Index of its row in the stage.
    pub(super) row: usize,
    /// See [`View::elapsed`].
    pub(super) elapsed: Ns,
}

/// The ops of a stage: one list per stream, sorted by start. Work of another stage in between starts a new list.
pub(super) struct Streams(Vec<Vec<StreamOp>>);

/// Sums over the consecutive launches of a family's parts.
#[derive(Default)]
pub(super) struct Launches {
    /// Time by row index.
    rows: VecMap<usize, Ns>,
    pub(super) count: u64,
    /// Sum over the launches.
    pub(super) elapsed: Ns,
    /// Time of the copies between the parts.
    pub(super) copies: Ns,
    /// The largest number of kernels in one occurrence.
    pub(super) max_kernels: usize,
}

/// Consecutive kernels that no family explains.
#[derive(Debug, Default)]
pub(super) struct Chain {
    /// Indices of their rows in the stage, in order.
    pub(super) rows: Vec<usize>,
    /// The most frequent pair of rows before and after the chain.
    pub(super) neighbours: (Option<usize>, Option<usize>),
    /// The ops of its first occurrence.
    pub(super) ops: Vec<usize>,
    pub(super) launches: u64,
    /// Sum over the launches.
    pub(super) elapsed: Ns,
}

impl Streams {
    /// The streams of every stage, indexed by [`Stage::ALL`].
    pub(super) fn of_stages(view: &View, rows: &[KernelRow]) -> Vec<Self> {
        let mut stages: Vec<Self> = Stage::ALL.iter().map(|_| Self(Vec::new())).collect();
        let (row_index, index_in_stage) = (RowIndex::new(rows), indices_in_stage(rows));
        let link = |&(op_index, stage): &(u32, Stage)| {
            let op = view.trace.gpu_ops.get(op_index as usize)?;
            let row = *index_in_stage.get(row_index.row(stage, op.name)?)?;
            Some(StreamOp { op: op_index as usize, row, elapsed: view.elapsed(op_index as usize) })
        };
        let streams = view.streams();
        for part in streams.iter().flat_map(|stream| stream.chunk_by(|a, b| a.1 == b.1)) {
            let stage = part.first().and_then(|(_, stage)| stages.get_mut(*stage as usize));
            stage.into_iter().for_each(|stage| stage.0.push(part.iter().filter_map(link).collect()));
        }
        stages
    }

    /// Launches of the family's chain in which a gate function of the family launched at least one kernel.
    pub(super) fn launched_by_gates(&self, view: &View, stage_rows: &StageRows, family: &Family) -> Launches {
        let has_gate = |site: &CallSite| {
            let names = SiteNames::new(&site.location, &site.stack, &site.cpu_op);
            is_direct(site.resolution) && names.functions.iter().any(|name| family.gates.whole_name(name).is_some())
        };
        let gated: Vec<bool> = view.call_sites.distinct.iter().map(has_gate).collect();
        let is_gated = |link: &StreamOp| {
            view.call_sites.by_op.get(link.op).and_then(|site| gated.get(*site as usize)).is_some_and(|is| *is)
        };
        let is_anywhere = gated.contains(&true);
        let categories = family.chain.iter().filter(|_| is_anywhere);
        let parts: Vec<ChainPart> = categories.map(|category| ChainPart::of_category(category)).collect();
        self.launches(stage_rows, &parts, &|links| links.iter().any(is_gated))
    }

    /// Launches of the separate kernels that the family would replace.
    pub(super) fn unfused(&self, stage_rows: &StageRows, family: &Family) -> Launches {
        self.launches(stage_rows, &family.unfused, &|_| true)
    }

    /// Consecutive launches of these parts, without overlaps.
    fn launches(
        &self,
        stage_rows: &StageRows,
        parts: &[ChainPart],
        is_wanted: &dyn Fn(&[StreamOp]) -> bool,
    ) -> Launches {
        let mut launches = Launches::default();
        // Match names once per row, not once per launch.
        let can_start: Vec<bool> = stage_rows.rows.iter().map(|row| match_part(row, parts).is_some()).collect();
        if !can_start.contains(&true) {
            return launches;
        }
        let is_start = |link: &StreamOp| can_start.get(link.row) == Some(&true);
        for links in &self.0 {
            let mut from = 0;
            while let Some(rest) = links.get(from..).filter(|rest| !rest.is_empty()) {
                let found =
                    rest.first().filter(|link| is_start(link)).and_then(|_| match_sequence(stage_rows, rest, parts));
                let Some(found) = found.filter(|found| is_wanted(&found.links)) else {
                    from += 1;
                    continue;
                };
                from += rest.iter().position(|link| Some(link) == found.links.last()).unwrap_or(0) + 1;
                launches.add(&found);
            }
        }
        launches
    }

    /// Chains of fusable kernels that no family explains, longest time first.
    pub(super) fn unexplained(&self, stage_rows: &StageRows, is_explained: &[bool], new: &NewWork) -> Vec<Chain> {
        let is_candidate = |link: &StreamOp| {
            let category = stage_rows.rows.get(link.row).map(|row| &row.row.category);
            category.is_some_and(|category| new.fusable.contains(category))
                && !is_explained.get(link.row).copied().unwrap_or(true)
        };
        let mut chains: VecMap<Vec<usize>, (Chain, NeighbourCounts)> = VecMap::new();
        for links in &self.0 {
            for (from, to) in find_runs(links, &is_candidate) {
                let Some(part) = links.get(from..to) else { continue };
                let row_at = |index: Option<usize>| links.get(index?).map(|link| link.row);
                let neighbours = (row_at(from.checked_sub(1)), row_at(Some(to)));
                let ops = part.iter().map(|link| link.op).collect();
                let new = (Chain { ops, ..Chain::default() }, VecMap::new());
                let rows: Vec<usize> = part.iter().map(|link| link.row).collect();
                chains.update(rows, new, |(chain, counts)| {
                    chain.launches += 1;
                    chain.elapsed = part.iter().fold(chain.elapsed, |sum, link| sum + link.elapsed);
                    counts.update(neighbours, 0, |count| *count += 1);
                });
            }
        }
        let with_neighbours = |(rows, (chain, counts)): (Vec<usize>, (Chain, NeighbourCounts))| {
            let most_frequent = counts.iter().rev().max_by_key(|(_, count)| *count);
            let neighbours = most_frequent.map(|(neighbours, _)| *neighbours).unwrap_or_default();
            Chain { rows, neighbours, ..chain }
        };
        let mut chains: Vec<Chain> = chains.into_vec().into_iter().map(with_neighbours).collect();
        chains.sort_by_key(|chain| Reverse(chain.elapsed));
        chains
    }
}

impl Launches {
    fn add(&mut self, found: &Occurrence) {
        self.count += 1;
        self.copies += found.copies;
        self.max_kernels = self.max_kernels.max(found.links.len());
        for link in &found.links {
            self.elapsed += link.elapsed;
            self.rows.update(link.row, Ns::ZERO, |sum| *sum += link.elapsed);
        }
    }

    /// Indices of the rows that spend at least half of their time in these launches. Kernels that mostly run elsewhere, such as
    /// a GEMM, are no evidence for the family.
    pub(super) fn rows(&self, stage_rows: &StageRows) -> Vec<usize> {
        let is_mostly = |(row, part): &&(usize, Ns)| {
            stage_rows.rows.get(*row).is_some_and(|row| *part + *part >= Ns(row.row.elapsed_ns))
        };
        self.rows.iter().filter(is_mostly).map(|(row, _)| *row).collect()
    }
}

/// One match of a sequence of parts.
#[derive(Default)]
struct Occurrence {
    /// The ops that the family would join.
    links: Vec<StreamOp>,
    copies: Ns,
}

/// Matches the first ops with these parts in order; copies in between are skipped.
fn match_sequence(stage_rows: &StageRows, links: &[StreamOp], parts: &[ChainPart]) -> Option<Occurrence> {
    let mut found = Occurrence::default();
    let (mut rest, mut copies, mut is_after_optional) = (parts, Ns::ZERO, false);
    let mut copies_in_a_row = 0;
    for link in links {
        let row = stage_rows.rows.get(link.row)?;
        match match_part(row, rest) {
            Some((part, after)) => {
                (rest, is_after_optional) = (after, part.is_optional);
                found.copies += copies;
                (copies, copies_in_a_row) = (Ns::ZERO, 0);
                found.links.extend(part.is_joined.then_some(*link));
            }
            // An optional part may itself be a copy: the nearest one belongs to the sequence.
            None if rest.is_empty() || found.links.is_empty() || is_after_optional => break,
            None if row.row.category != "memory" || copies_in_a_row == MAX_COPIES_BETWEEN => break,
            None => {
                copies += link.elapsed;
                copies_in_a_row += 1;
            }
        }
    }
    (!found.links.is_empty() && rest.iter().all(|part| part.is_optional)).then_some(found)
}

/// The first of these parts that matches the row, and the parts after it; only optional parts are skipped.
fn match_part<'a>(row: &StageRow, parts: &'a [ChainPart]) -> Option<(&'a ChainPart, &'a [ChainPart])> {
    let (part, after) = parts.split_first()?;
    if row.matches_part(part) {
        return Some((part, after));
    }
    part.is_optional.then(|| match_part(row, after)).flatten()
}

/// Start and end of each run of consecutive candidates.
fn find_runs(links: &[StreamOp], is_candidate: &dyn Fn(&StreamOp) -> bool) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (index, _) in links.iter().enumerate().filter(|(_, link)| is_candidate(link)) {
        match runs.last_mut() {
            Some((from, to)) if *to == index && index - *from < MAX_CHAIN_LENGTH => *to = index + 1,
            _ => runs.push((index, index + 1)),
        }
    }
    runs
}

/// The index of every row among the rows of its stage.
fn indices_in_stage(rows: &[KernelRow]) -> Vec<usize> {
    let mut counts = [0_usize; Stage::ALL.len()];
    let next_index = |row: &KernelRow| {
        let count = counts.get_mut(row.stage as usize)?;
        *count += 1;
        Some(*count - 1)
    };
    rows.iter().map(next_index).map(Option::unwrap_or_default).collect()
}
