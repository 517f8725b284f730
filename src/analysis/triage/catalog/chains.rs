//! Who follows whom on a stream: launches of a family's parts in a row, chains of kernels that no family explains, and
//! communication that runs alone.

use super::data::{Family, NewWork};
use super::seen::{Place, Seen, SeenRow, is_own};
use super::words::Part;
use crate::analysis::triage::View;
use crate::analysis::triage::sites::Site;
use crate::ordering::{ByKey, InOrder};
use crate::trace::{DeviceId, Ns};

/// A longer run of small kernels is no pattern of its own: it is cut.
const LONGEST: usize = 12;

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
    pub(super) duration_ns: i64,
}

/// The ops of a stage, a list a stream, in the order in which they began.
pub(super) struct Streams(Vec<Vec<Link>>);

/// Launches of a family's parts in a row.
pub(super) struct Launches {
    /// Of their rows the place in the stage, and how long they ran of it.
    rows: ByKey<usize, i64>,
    /// How often.
    pub(super) count: u64,
    /// Sum of their durations.
    pub(super) duration_ns: i64,
    /// Sum of the durations of copies that stand between them.
    pub(super) copies_ns: i64,
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
    pub(super) duration_ns: i64,
}

impl Streams {
    /// The streams of this stage.
    pub(super) fn new(view: &View, seen: &Seen) -> Self {
        let mut row_of = vec![None; view.trace.names.len()];
        for (at, row) in seen.rows.iter().enumerate() {
            for id in &row.row.ids {
                if let Some(slot) = row_of.get_mut(id.0 as usize) {
                    *slot = Some(at);
                }
            }
        }
        let mut streams: ByKey<(DeviceId, i64), Vec<Link>> = ByKey::new();
        for (op, stage, gpu_op) in view.ops() {
            let row = row_of.get(gpu_op.name.0 as usize).copied().flatten();
            if let (true, Some(row)) = (stage == seen.stage, row) {
                let link = Link { op, row, duration_ns: gpu_op.duration.0 };
                streams.change((gpu_op.device, gpu_op.stream), Vec::new(), |links| links.push(link));
            }
        }
        Self(streams.0.into_iter().map(|(_, links)| links).collect())
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
        let parts: Vec<Part> = family.chain.iter().map(|category| Part::of_category(category)).collect();
        self.launches(seen, &parts, &|links| links.iter().any(is_gated))
    }

    /// Launches of the kernels that run in the family's place.
    pub(super) fn apart(&self, seen: &Seen, family: &Family) -> Launches {
        self.launches(seen, &family.apart, &|_| true)
    }

    /// Launches of these parts in a row; none is counted twice.
    fn launches(&self, seen: &Seen, parts: &[Part], is_wanted: &dyn Fn(&[Link]) -> bool) -> Launches {
        let mut launches = Launches { rows: ByKey::new(), count: 0, duration_ns: 0, copies_ns: 0, longest: 0 };
        for links in &self.0 {
            let mut from = 0;
            while let Some(rest) = links.get(from..).filter(|rest| !rest.is_empty()) {
                let Some(found) = window(seen, rest, parts).filter(|found| is_wanted(&found.links)) else {
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
                    chain.duration_ns = part.iter().fold(chain.duration_ns, |sum, link| sum + link.duration_ns);
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
        chains.order_by(|a, b| b.duration_ns.cmp(&a.duration_ns));
        chains
    }
}

impl Launches {
    fn add(&mut self, window: &Window) {
        self.count += 1;
        self.copies_ns = self.copies_ns.saturating_add(window.copies_ns);
        self.longest = self.longest.max(window.links.len());
        for link in &window.links {
            self.duration_ns = self.duration_ns.saturating_add(link.duration_ns);
            self.rows.change(link.row, 0_i64, |sum| *sum = sum.saturating_add(link.duration_ns));
        }
    }

    /// Places of the rows that they are at least half of. A kernel that mostly runs elsewhere, such as a product, tells
    /// little of them, and they little of it.
    pub(super) fn rows(&self, seen: &Seen) -> Vec<usize> {
        let is_mostly = |(row, part): &&(usize, i64)| {
            seen.rows.get(*row).is_some_and(|row| part.saturating_mul(2) >= row.row.duration_ns)
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
            duration_ns: 0,
        }
    }
}

/// The launches that fill a row of parts.
#[derive(Default)]
struct Window {
    /// Those that would be joined.
    links: Vec<Link>,
    copies_ns: i64,
}

/// The first links, if they are these parts in this order; copies in between are passed over.
fn window(seen: &Seen, links: &[Link], parts: &[Part]) -> Option<Window> {
    let mut found = Window::default();
    let (mut rest, mut copies_ns, mut is_after_optional) = (parts, 0, false);
    for link in links {
        let row = seen.rows.get(link.row)?;
        match place(row, rest) {
            Some((part, after)) => {
                (rest, is_after_optional) = (after, part.is_optional);
                found.copies_ns += copies_ns;
                copies_ns = 0;
                found.links.extend(part.is_joined.then_some(*link));
            }
            // An optional part is itself a copy: the nearest one is meant.
            None if rest.is_empty() || found.links.is_empty() || is_after_optional => break,
            None if row.row.category != "memory" => break,
            None => copies_ns += link.duration_ns,
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

/// Of every row of the stage, how long its ops ran with nothing but communication beside them on their device.
pub(super) fn alone_ns(view: &View, seen: &Seen) -> Vec<(usize, i64)> {
    let mut category_of = vec![None; view.trace.names.len()];
    for (at, row) in seen.rows.iter().enumerate().filter(|(_, row)| row.row.category == "communication") {
        for id in &row.row.ids {
            if let Some(slot) = category_of.get_mut(id.0 as usize) {
                *slot = Some(at);
            }
        }
    }
    let is_communication = |id: u32| view.names.get(id as usize).is_some_and(|name| name.category == "communication");
    let mut busy: Vec<Vec<(Ns, Ns)>> = vec![Vec::new(); view.trace.devices.len()];
    for op in view.trace.gpu_ops.iter().filter(|op| !is_communication(op.name.0)) {
        let Some(spans) = busy.get_mut(op.device.0 as usize) else { continue };
        match spans.last_mut() {
            Some((_, end)) if op.start <= *end => *end = (*end).max(op.end()),
            _ => spans.push((op.start, op.end())),
        }
    }
    let mut alone: ByKey<usize, i64> = ByKey::new();
    for (_, stage, op) in view.ops() {
        let row = category_of.get(op.name.0 as usize).copied().flatten();
        if let (true, Some(row), Some(spans)) = (stage == seen.stage, row, busy.get(op.device.0 as usize)) {
            let time = op.duration.0 - covered(spans, op.start, op.end());
            alone.change(row, 0, |sum| *sum += time);
        }
    }
    alone.0
}

/// How much of a time the spans cover, which stand in order and apart.
fn covered(spans: &[(Ns, Ns)], start: Ns, end: Ns) -> i64 {
    let first = spans.partition_point(|span| span.1 <= start);
    let later = spans.iter().skip(first).take_while(|span| span.0 < end);
    later.fold(0, |sum, span| sum + span.1.min(end).since(span.0.max(start)).0)
}
