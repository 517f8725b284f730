//! Who follows whom on a stream: launches of a family's parts in a row, chains of kernels that no family explains, and
//! communication that runs alone.

use super::data::{Family, NewWork};
use super::seen::{Place, Seen, SeenRow, is_own};
use crate::analysis::triage::kernels::{KernelRow, RowPlaces};
use crate::analysis::triage::sites::Site;
use crate::analysis::triage::times::Busy;
use crate::analysis::triage::{Stage, View};
use crate::ordering::{ByKey, InOrder};
use crate::trace::Ns;

/// A longer run of small kernels is no pattern of its own: it is cut.
const LONGEST: usize = 12;
/// So many copies may stand between two parts of a chain; more are work of their own.
const COPIES: usize = 8;
/// The category of collectives.
pub(super) const COMMUNICATION: &str = "communication";

/// How often which rows stand before and after a chain.
type Sides = ByKey<(Option<usize>, Option<usize>), u64>;

/// One op of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    /// Its place among the ops of the trace.
    pub(super) op: usize,
    /// The place of its row in the stage.
    pub(super) row: usize,
    /// How long it ran.
    pub(super) duration: Ns,
}

/// The ops of a stage, a list a stream, in the order in which they began.
pub(super) struct Streams(Vec<Vec<Link>>);

/// Launches of a family's parts in a row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Launches {
    /// Places of their rows in the stage.
    pub(super) rows: Vec<usize>,
    /// How often.
    pub(super) count: u64,
    /// Sum of their durations.
    pub(super) duration: Ns,
}

/// Kernels in a row that no family explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    /// Places of their rows in the stage, in order.
    pub(super) rows: Vec<usize>,
    /// The rows that stand before and after most often.
    pub(super) around: (Option<usize>, Option<usize>),
    /// The ops of its first launch.
    pub(super) ops: Vec<usize>,
    /// How often.
    pub(super) launches: u64,
    /// Sum of their durations.
    pub(super) duration: Ns,
}

impl Streams {
    /// The streams of every stage, by [`Stage::ALL`]. Where work of another stage lies between, a stream begins anew.
    pub(super) fn of_stages(view: &View, rows: &[KernelRow]) -> Vec<Self> {
        let mut stages: Vec<Self> = Stage::ALL.iter().map(|_| Self(Vec::new())).collect();
        let (places, in_stage) = (RowPlaces::new(rows), places_in_stage(rows));
        let link = |&(at, stage): &(u32, Stage)| {
            let op = view.trace.gpu_ops.get(at as usize)?;
            let row = *in_stage.get(places.of(stage, op.name)?)?;
            Some(Link { op: at as usize, row, duration: op.duration })
        };
        let streams = view.streams();
        for part in streams.iter().flat_map(|stream| stream.chunk_by(|a, b| a.1 == b.1)) {
            let stage = part.first().and_then(|(_, stage)| stages.get_mut(*stage as usize));
            stage.into_iter().for_each(|stage| stage.0.push(part.iter().filter_map(link).collect()));
        }
        stages
    }

    /// Launches of the family's chain that one of its gates launched. Copies between its parts do not part them.
    pub(super) fn gated(&self, view: &View, seen: &Seen, family: &Family) -> Launches {
        let has_gate = |site: &Site| {
            let place = Place::new(&site.location, &site.stack, &site.cpu_op);
            is_own(site.found) && place.functions.iter().any(|name| family.gates.whole(name).is_some())
        };
        let gated: Vec<bool> = view.sites.sites.iter().map(has_gate).collect();
        let is_gated = |link: &Link| {
            view.sites.of_op.get(link.op).and_then(|site| gated.get(*site as usize)).is_some_and(|is| *is)
        };
        let is_part =
            |part: usize, row: &SeenRow| family.chain.get(part).is_some_and(|wanted| row.row.category == *wanted);
        self.launches(seen, family.chain.len(), &is_part, &|links| links.iter().any(is_gated))
    }

    /// Launches of the kernels that plain PyTorch runs in the family's place.
    pub(super) fn apart(&self, seen: &Seen, family: &Family) -> Launches {
        let is_part = |part: usize, row: &SeenRow| family.apart.get(part).is_some_and(|words| row.is_named(words));
        self.launches(seen, family.apart.len(), &is_part, &|_| true)
    }

    /// Launches of so many parts in a row; none is counted twice.
    fn launches(
        &self,
        seen: &Seen,
        parts: usize,
        is_part: &dyn Fn(usize, &SeenRow) -> bool,
        is_wanted: &dyn Fn(&[Link]) -> bool,
    ) -> Launches {
        let mut launches = Launches::default();
        for links in &self.0 {
            let mut from = 0;
            while let Some(rest) = links.get(from..).filter(|rest| !rest.is_empty()) {
                let Some(found) = window(seen, rest, parts, is_part).filter(|found| is_wanted(found)) else {
                    from += 1;
                    continue;
                };
                from += rest.iter().position(|link| Some(link) == found.last()).unwrap_or(0) + 1;
                launches.add(&found);
            }
        }
        launches
    }

    /// Chains of at least one kernel that may be fused and that nothing explains, the longest time first.
    pub(super) fn unexplained(&self, seen: &Seen, explained: &[bool], new: &NewWork) -> Vec<Chain> {
        let is_open = |link: &Link| {
            let category = seen.rows.get(link.row).map(|row| &row.row.category);
            category.is_some_and(|category| new.fusable.contains(category))
                && !explained.get(link.row).copied().unwrap_or(true)
        };
        let mut chains: ByKey<Vec<usize>, (Chain, Sides)> = ByKey::new();
        for links in &self.0 {
            for (from, to) in runs(links, &is_open) {
                let Some(part) = links.get(from..to) else { continue };
                let row_at = |at: Option<usize>| links.get(at?).map(|link| link.row);
                let around = (row_at(from.checked_sub(1)), row_at(Some(to)));
                let empty = (Chain::of(part), ByKey::new());
                let rows: Vec<usize> = part.iter().map(|link| link.row).collect();
                chains.change(rows, empty, |(chain, sides)| {
                    chain.launches += 1;
                    chain.duration = part.iter().fold(chain.duration, |sum, link| sum + link.duration);
                    sides.change(around, 0, |count| *count += 1);
                });
            }
        }
        let with_sides = |(_, (mut chain, sides)): (_, (Chain, Sides))| {
            let often = sides.0.iter().rev().max_by_key(|(_, count)| *count);
            chain.around = often.map_or((None, None), |(around, _)| *around);
            chain
        };
        let mut chains: Vec<Chain> = chains.0.into_iter().map(with_sides).collect();
        chains.order_by(|a, b| b.duration.cmp(&a.duration));
        chains
    }
}

impl Launches {
    fn add(&mut self, links: &[Link]) {
        self.count += 1;
        for link in links {
            self.duration += link.duration;
            if !self.rows.contains(&link.row) {
                self.rows.push(link.row);
            }
        }
    }
}

impl Chain {
    fn of(part: &[Link]) -> Self {
        Self {
            rows: part.iter().map(|link| link.row).collect(),
            around: (None, None),
            ops: part.iter().map(|link| link.op).collect(),
            launches: 0,
            duration: Ns::ZERO,
        }
    }
}

/// The first links, if they are these parts in this order; copies in between are passed over.
fn window(seen: &Seen, links: &[Link], parts: usize, is_part: &dyn Fn(usize, &SeenRow) -> bool) -> Option<Vec<Link>> {
    let (mut found, mut copies) = (Vec::new(), 0);
    for link in links {
        if found.len() == parts {
            break;
        }
        let row = seen.rows.get(link.row)?;
        if is_part(found.len(), row) {
            found.push(*link);
            copies = 0;
        } else if found.is_empty() || row.row.category != "memory" || copies == COPIES {
            return None;
        } else {
            copies += 1;
        }
    }
    (!found.is_empty() && found.len() == parts).then_some(found)
}

/// From where to where links that are open stand in a row.
fn runs(links: &[Link], is_open: &dyn Fn(&Link) -> bool) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, _) in links.iter().enumerate().filter(|(_, link)| is_open(link)) {
        match runs.last_mut() {
            Some((from, to)) if *to == at && at - *from < LONGEST => *to = at + 1,
            _ => runs.push((at, at + 1)),
        }
    }
    runs
}

/// Of every row its place among those of its stage.
fn places_in_stage(rows: &[KernelRow]) -> Vec<usize> {
    let mut counts = [0_usize; Stage::ALL.len()];
    let place = |row: &KernelRow| {
        let count = counts.get_mut(row.stage as usize)?;
        *count += 1;
        Some(*count - 1)
    };
    rows.iter().map(place).map(Option::unwrap_or_default).collect()
}

/// Of every row of communication, how long its ops ran with nothing but communication beside them on their device; zero
/// for other rows.
pub(super) fn alone(view: &View, rows: &[KernelRow]) -> Vec<Ns> {
    let is_communication = |at: usize| {
        let name = view.trace.gpu_ops.get(at).and_then(|op| view.name(op.name));
        name.is_some_and(|name| name.category == COMMUNICATION)
    };
    let (others, places) = (Busy::new(view, |at| !is_communication(at)), RowPlaces::new(rows));
    let mut alone = vec![Ns::ZERO; rows.len()];
    for (_, stage, op) in view.ops().filter(|(at, ..)| is_communication(*at)) {
        let row = places.of(stage, op.name).and_then(|row| alone.get_mut(row));
        let time = op.duration - others.between(op.device, op.start, op.end());
        row.into_iter().for_each(|sum| *sum += time);
    }
    alone
}
