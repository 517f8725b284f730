//! Who follows whom on a stream: launches of a family's parts in a row, chains of kernels that no family explains, and
//! communication that runs alone.

use super::data::{Family, NewWork};
use super::seen::{Place, Seen, SeenRow, is_own};
use super::words::Part;
use crate::analysis::triage::call_sites::CallSite;
use crate::analysis::triage::kernels::{KernelRow, RowIndex};
use crate::analysis::triage::times::BusyTime;
use crate::analysis::triage::{Stage, View};
use crate::ordering::{StableSort, VecMap};
use crate::trace::Ns;

/// A longer run of small kernels is no pattern of its own: it is cut.
const LONGEST: usize = 12;
/// So many copies may stand between two parts of a chain; more are work of their own.
const COPIES: usize = 8;
/// The category of collectives.
pub(super) const COMMUNICATION: &str = "communication";

/// How often which rows stand before and after a chain.
type Sides = VecMap<(Option<usize>, Option<usize>), u64>;

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
pub(super) struct Launches {
    /// Of their rows the place in the stage, and how long they ran of it.
    rows: VecMap<usize, Ns>,
    /// How often.
    pub(super) count: u64,
    /// Sum of their durations.
    pub(super) duration: Ns,
    /// Sum of the durations of copies that stand between them.
    pub(super) copies: Ns,
    /// The most kernels that one of them has.
    pub(super) longest: usize,
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
        let (places, in_stage) = (RowIndex::new(rows), places_in_stage(rows));
        let link = |&(at, stage): &(u32, Stage)| {
            let op = view.trace.gpu_ops.get(at as usize)?;
            let row = *in_stage.get(places.row(stage, op.name)?)?;
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
        let has_gate = |site: &CallSite| {
            let place = Place::new(&site.location, &site.stack, &site.cpu_op);
            is_own(site.resolution) && place.functions.iter().any(|name| family.gates.whole(name).is_some())
        };
        let gated: Vec<bool> = view.call_sites.distinct.iter().map(has_gate).collect();
        let is_gated = |link: &Link| {
            view.call_sites.by_op.get(link.op).and_then(|site| gated.get(*site as usize)).is_some_and(|is| *is)
        };
        let is_anywhere = gated.contains(&true);
        let categories = family.chain.iter().filter(|_| is_anywhere);
        let parts: Vec<Part> = categories.map(|category| Part::of_category(category)).collect();
        self.launches(seen, &parts, &|links| links.iter().any(is_gated))
    }

    /// Launches of the kernels that run in the family's place.
    pub(super) fn apart(&self, seen: &Seen, family: &Family) -> Launches {
        self.launches(seen, &family.apart, &|_| true)
    }

    /// Launches of these parts in a row; none is counted twice.
    fn launches(&self, seen: &Seen, parts: &[Part], is_wanted: &dyn Fn(&[Link]) -> bool) -> Launches {
        let (duration, copies) = (Ns::ZERO, Ns::ZERO);
        let mut launches = Launches { rows: VecMap::new(), count: 0, duration, copies, longest: 0 };
        // Names are looked at once a row, not once a launch.
        let begins: Vec<bool> = seen.rows.iter().map(|row| place(row, parts).is_some()).collect();
        if !begins.contains(&true) {
            return launches;
        }
        let may_begin = |link: &Link| begins.get(link.row) == Some(&true);
        for links in &self.0 {
            let mut from = 0;
            while let Some(rest) = links.get(from..).filter(|rest| !rest.is_empty()) {
                let found = rest.first().filter(|link| may_begin(link)).and_then(|_| window(seen, rest, parts));
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

    /// Chains of at least one kernel that may be fused and that nothing explains, the longest time first.
    pub(super) fn unexplained(&self, seen: &Seen, explained: &[bool], new: &NewWork) -> Vec<Chain> {
        let is_open = |link: &Link| {
            let category = seen.rows.get(link.row).map(|row| &row.row.category);
            category.is_some_and(|category| new.fusable.contains(category))
                && !explained.get(link.row).copied().unwrap_or(true)
        };
        let mut chains: VecMap<Vec<usize>, (Chain, Sides)> = VecMap::new();
        for links in &self.0 {
            for (from, to) in runs(links, &is_open) {
                let Some(part) = links.get(from..to) else { continue };
                let row_at = |at: Option<usize>| links.get(at?).map(|link| link.row);
                let around = (row_at(from.checked_sub(1)), row_at(Some(to)));
                let empty = (Chain::of(part), VecMap::new());
                let rows: Vec<usize> = part.iter().map(|link| link.row).collect();
                chains.update(rows, empty, |(chain, sides)| {
                    chain.launches += 1;
                    chain.duration = part.iter().fold(chain.duration, |sum, link| sum + link.duration);
                    sides.update(around, 0, |count| *count += 1);
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
    fn add(&mut self, window: &Window) {
        self.count += 1;
        self.copies += window.copies;
        self.longest = self.longest.max(window.links.len());
        for link in &window.links {
            self.duration += link.duration;
            self.rows.update(link.row, Ns::ZERO, |sum| *sum += link.duration);
        }
    }

    /// Places of the rows that they are at least half of. A kernel that mostly runs elsewhere, such as a product, tells
    /// little of them, and they little of it.
    pub(super) fn rows(&self, seen: &Seen) -> Vec<usize> {
        let is_mostly = |(row, part): &&(usize, Ns)| {
            seen.rows.get(*row).is_some_and(|row| *part + *part >= Ns(row.row.duration_ns))
        };
        self.rows.0.iter().filter(is_mostly).map(|(row, _)| *row).collect()
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

/// The launches that fill a row of parts.
#[derive(Default)]
struct Window {
    /// Those that would be joined.
    links: Vec<Link>,
    copies: Ns,
}

/// The first links, if they are these parts in this order; copies in between are passed over.
fn window(seen: &Seen, links: &[Link], parts: &[Part]) -> Option<Window> {
    let mut found = Window::default();
    let (mut rest, mut copies, mut is_after_optional) = (parts, Ns::ZERO, false);
    let mut copies_in_a_row = 0;
    for link in links {
        let row = seen.rows.get(link.row)?;
        match place(row, rest) {
            Some((part, after)) => {
                (rest, is_after_optional) = (after, part.is_optional);
                found.copies += copies;
                (copies, copies_in_a_row) = (Ns::ZERO, 0);
                found.links.extend(part.is_joined.then_some(*link));
            }
            // An optional part is itself a copy: the nearest one is meant.
            None if rest.is_empty() || found.links.is_empty() || is_after_optional => break,
            None if row.row.category != "memory" || copies_in_a_row == COPIES => break,
            None => {
                copies += link.duration;
                copies_in_a_row += 1;
            }
        }
    }
    (!found.links.is_empty() && rest.iter().all(|part| part.is_optional)).then_some(found)
}

/// The first of these parts that the row can be, and the parts after it; only optional ones are left out.
fn place<'a>(row: &SeenRow, parts: &'a [Part]) -> Option<(&'a Part, &'a [Part])> {
    let (part, after) = parts.split_first()?;
    if row.can_be(part) {
        return Some((part, after));
    }
    part.is_optional.then(|| place(row, after)).flatten()
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
    let (others, places) = (BusyTime::new(view, |at| !is_communication(at)), RowIndex::new(rows));
    let mut alone = vec![Ns::ZERO; rows.len()];
    for (_, stage, op) in view.ops().filter(|(at, ..)| is_communication(*at)) {
        let row = places.row(stage, op.name).and_then(|row| alone.get_mut(row));
        let time = op.duration - others.between(op.device, op.start, op.end());
        row.into_iter().for_each(|sum| *sum += time);
    }
    alone
}
