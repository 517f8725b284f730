//! The GPU ops whose name or category contains words, as the tables filter their rows: how many there are, the one after or before
//! another, and where those in view are. A pass over the names and one over the ops for each answer.

use super::{LaneKind, Place, Timeline};
use crate::rules::names::demangle;
use crate::trace::{Ns, Trace, Window};
use std::ops::Range;

/// Which op to go to from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Toward {
    /// The first one after it; after the last, the first of all.
    Next,
    /// The last one before it; before the first, the last of all.
    Previous,
}

/// The ops that a text is found in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hits {
    /// By name of an op.
    is_hit: Vec<bool>,
    /// Those that start in this time count.
    within: Window,
}

/// One of the ops that a text is found in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// Its bar.
    pub place: Place,
    /// Its number in the order of time, from 1.
    pub number: usize,
}

/// Hits of a lane that are too near to be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HitSpan {
    /// The lane.
    pub lane: usize,
    /// The start of the first.
    pub start: Ns,
    /// The last end.
    pub end: Ns,
}

impl Timeline {
    /// The ops that start in a window and whose name or category contains each word of a text. ASCII case is ignored.
    pub fn search(&self, trace: &Trace, text: &str, within: Window) -> Hits {
        let words: Vec<String> = text.split_ascii_whitespace().map(str::to_ascii_lowercase).collect();
        let is_hit = |texts: &String| !words.is_empty() && words.iter().all(|word| texts.contains(word));
        Hits { is_hit: self.search_texts(trace).iter().map(is_hit).collect(), within }
    }

    /// By name of an op: the name and the category in lower case, on two lines.
    fn search_texts(&self, trace: &Trace) -> &[String] {
        let category = |name: usize| self.category_of_name.get(name).and_then(|index| self.categories.get(*index));
        let texts = |(index, name): (usize, &str)| {
            let category = category(index).map_or("", String::as_str);
            format!("{}\n{category}", demangle(name)).to_ascii_lowercase()
        };
        self.search_texts.get_or_init(|| trace.names.iter().enumerate().map(texts).collect())
    }

    /// The hit after or before an op, by its row; without one, the first or the last. `None` without hits.
    pub fn hit(&self, trace: &Trace, hits: &Hits, from: Option<usize>, toward: Toward) -> Option<Hit> {
        let rows = || hits.rows(trace, hits.rows_within(trace));
        let row = match (toward, from) {
            (Toward::Next, Some(from)) => rows().find(|row| *row > from).or_else(|| rows().next()),
            (Toward::Next, None) => rows().next(),
            (Toward::Previous, Some(from)) => rows().take_while(|row| *row < from).last().or_else(|| rows().last()),
            (Toward::Previous, None) => rows().last(),
        }?;
        let number = rows().take_while(|other| *other <= row).count();
        Some(Hit { place: self.place_of_op(trace, row)?, number })
    }

    /// Where the hits in a part of the time are, by lane in the order of time. Hits of a lane that are nearer than `least` are one.
    pub fn hit_spans(&self, trace: &Trace, hits: &Hits, part: Window, least: Ns) -> Vec<HitSpan> {
        let lanes: Vec<Option<usize>> =
            trace.gpu_ops.streams().map(|(device, stream)| self.lane(LaneKind::Stream(device, stream))).collect();
        let mut spans: Vec<Vec<HitSpan>> = vec![Vec::new(); self.lanes.len()];
        let in_part = trace.gpu_ops.first_reaching(part.start)..trace.gpu_ops.count_starting_before(part.end);
        for row in hits.rows(trace, in_part) {
            let Some(op) = trace.gpu_ops.get(row) else { break };
            let lane = trace.gpu_ops.stream_index(row).and_then(|index| lanes.get(index).copied().flatten());
            let Some((lane, spans)) = lane.and_then(|lane| Some((lane, spans.get_mut(lane)?))) else { continue };
            match spans.last_mut().filter(|last| op.start.since(last.end) < least) {
                Some(last) => last.end = last.end.max(op.end()),
                None => spans.push(HitSpan { lane, start: op.start, end: op.end() }),
            }
        }
        spans.into_iter().flatten().collect()
    }
}

impl Hits {
    /// How many there are.
    pub fn count(&self, trace: &Trace) -> usize {
        self.rows(trace, self.rows_within(trace)).count()
    }

    /// The rows of all ops that start in the window.
    fn rows_within(&self, trace: &Trace) -> Range<usize> {
        let count_before = |time: Ns| trace.gpu_ops.count_starting_before(time);
        count_before(self.within.start)..count_before(self.within.end)
    }

    /// Those of these rows that are hits, in the order of time.
    fn rows(&self, trace: &Trace, rows: Range<usize>) -> impl Iterator<Item = usize> {
        rows.filter(|row| {
            let name = trace.gpu_ops.get(*row).map(|op| op.name.0 as usize);
            name.and_then(|name| self.is_hit.get(name)).copied().unwrap_or(false)
        })
    }
}
