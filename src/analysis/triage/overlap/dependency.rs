//! Whether an op could run at another time: what stands close before and behind it on its stream, over all its launches.
//!
//! A neighbour is close where the gap is short beside the op. It makes the launch serial where it comes from the same
//! place in the code or op, or where one of the two is of a kind that produces or consumes for the other. A longer gap
//! in which the device had nothing else to do tells nothing: the host was late, or launches take their time; only where
//! other streams work meanwhile did the op stand apart.

use super::rules::{Class, Thresholds};
use super::sweep::{Piece, Swept};
use crate::analysis::triage::View;
use crate::analysis::triage::call_sites::{CallSite, Resolution};
use crate::trace::Ns;

/// What the neighbours of launches say; a launch is counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Neighbours {
    /// A close neighbour that depends on it or that it depends on.
    pub(super) serial: u64,
    /// A close neighbour of which the trace does not tell.
    pub(super) unclear: u64,
    /// The device ran dry, so that the gap tells nothing.
    pub(super) dry: u64,
    /// Nothing close.
    pub(super) loose: u64,
    /// Of all, those with a close neighbour, whatever it is.
    pub(super) close: u64,
}

/// How likely an op has to run where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Risk {
    Low,
    Unclear,
    High,
}

impl Risk {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Unclear => "unclear",
            Self::High => "high",
        }
    }
}

impl Neighbours {
    /// By the shares of launches, so that a few of another kind do not decide.
    pub(super) fn risk(&self, thresholds: &Thresholds) -> Risk {
        let all = (self.serial + self.unclear + self.dry + self.loose) as f64;
        if self.serial as f64 >= thresholds.risk_ratio * all && self.serial > 0 {
            Risk::High
        } else if self.loose as f64 >= thresholds.loose_ratio * all {
            Risk::Low
        } else {
            Risk::Unclear
        }
    }

    fn add(&mut self, launch: Launch) {
        let Launch { said, close } = launch;
        self.close += u64::from(close);
        match said {
            Side::Loose => self.loose += 1,
            Side::Dry => self.dry += 1,
            Side::Unclear => self.unclear += 1,
            Side::Serial => self.serial += 1,
        }
    }
}

/// What one neighbour says; of two the later of these counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Loose,
    Dry,
    Unclear,
    Serial,
}

#[derive(Debug, Clone, Copy)]
struct Launch {
    said: Side,
    close: bool,
}

impl Launch {
    fn meet(&mut self, side: Side, close: bool) {
        self.said = self.said.max(side);
        self.close |= close;
    }
}

/// What the neighbours of each row say, in the order of the rows; `dry` says of every op of the trace whether nothing ran
/// on its device before it.
pub(super) fn neighbours(view: &View, swept: &Swept, thresholds: &Thresholds, dry: &[bool]) -> Vec<Neighbours> {
    let mut rows = vec![Neighbours::default(); swept.rows.len()];
    let lanes = swept.pieces.iter().map(|piece| piece.lane + 1).max().unwrap_or(0);
    let mut last: Vec<Option<(Piece, Launch)>> = vec![None; lanes];
    let mut count = |piece: Piece, launch: Launch| {
        if let Some(row) = rows.get_mut(piece.row) {
            row.add(launch);
        }
    };
    for piece in &swept.pieces {
        let Some(last) = last.get_mut(piece.lane) else { continue };
        let mut launch = Launch { said: Side::Loose, close: false };
        if let Some((before, mut launched)) = last.take() {
            let was_dry = dry.get(piece.at).copied().unwrap_or(false);
            let gap = piece.start.since(before.end).max(Ns::ZERO);
            let serial = are_serial(view, swept, &before, piece);
            for (op, launch) in [(&before, &mut launched), (piece, &mut launch)] {
                let close = gap <= tight(thresholds, op.end.since(op.start));
                launch.meet(side(close, was_dry, serial), close);
            }
            count(before, launched);
        }
        *last = Some((*piece, launch));
    }
    last.into_iter().flatten().for_each(|(piece, launch)| count(piece, launch));
    rows
}

fn side(close: bool, was_dry: bool, serial: Option<bool>) -> Side {
    match (close, serial) {
        (true, Some(true)) => Side::Serial,
        (true, None) => Side::Unclear,
        (true, Some(false)) => Side::Loose,
        (false, _) if was_dry => Side::Dry,
        (false, _) => Side::Loose,
    }
}

/// The longest gap that is close beside an op of this duration.
fn tight(thresholds: &Thresholds, duration: Ns) -> Ns {
    let part = (duration.0 as f64 * thresholds.tight_ratio).min(thresholds.tight_most_us * 1e3);
    Ns(part.max(thresholds.tight_least_us * 1e3) as i64)
}

/// Does one of two neighbours depend on the other? `None` where the trace does not tell.
fn are_serial(view: &View, swept: &Swept, one: &Piece, other: &Piece) -> Option<bool> {
    let class = |piece: &Piece| swept.rows.get(piece.row).map_or(Class::Other, |row| row.class);
    if hand_over(class(one), class(other)) {
        return Some(true);
    }
    let (one, other) = (view.call_sites.of_op(one.at)?, view.call_sites.of_op(other.at)?);
    if is_one_op(one, other) || is_one_place(one, other) {
        return Some(true);
    }
    (!one.location.is_empty() && !other.location.is_empty()).then_some(false)
}

/// Small math and memory ops work on what their neighbours made or make what those need; so does communication.
fn hand_over(one: Class, other: Class) -> bool {
    use Class::{Communication, Other};
    match (one, other) {
        (Communication, Communication) => false,
        (Communication, _) | (_, Communication) => true,
        (Other, _) | (_, Other) => false,
        _ => one.is_light() || other.is_light(),
    }
}

fn is_one_op(one: &CallSite, other: &CallSite) -> bool {
    // Ops of a graph share the call that replays it.
    one.resolution != Resolution::Replay && !one.cpu_op.is_empty() && one.cpu_op == other.cpu_op
}

/// The same file, or the same function of another: `python/sglang/srt/models/qwen3.py:310 forward`.
fn is_one_place(one: &CallSite, other: &CallSite) -> bool {
    let same = |one: &str, other: &str| !one.is_empty() && one == other;
    let (one, other) = (parts(&one.location), parts(&other.location));
    same(one.0, other.0) || same(one.1, other.1)
}

fn parts(location: &str) -> (&str, &str) {
    let (place, function) = location.split_once(' ').unwrap_or((location, ""));
    (place.rsplit_once(':').map_or(place, |(path, _)| path), function)
}
