//! For the Python stack that ends at a frame: its frame with the highest priority, and its innermost informative frames.
//!
//! The result of a frame follows from the result of its caller, and results are cached (memoized along the path to the
//! root). So the total cost is linear in the number of frames that are on queried stacks, however deep they are.

use super::sweep::{Probe, Swept, sweep};
use crate::analysis::triage::frames::FrameRules;
use crate::trace::{HostCode, NONE, NameId, Span};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Number of innermost frames that represent a stack.
pub(super) const SHOWN: usize = 4;

/// The stacks of a trace, identified by their innermost frame.
pub(super) struct Stacks<'a> {
    code: &'a HostCode,
    /// Priority of each frame name, see [`FrameRules::frame_priority`].
    priorities: Vec<i32>,
    /// For every frame, the innermost frame that was open at its start, or [`NONE`].
    enclosing: Vec<u32>,
    /// Results of queried frames and of some of their callers.
    cache: HashMap<u32, StackBest, RandomState>,
}

/// The informative frames of a stack, or [`NONE`].
#[derive(Debug, Clone, Copy)]
struct StackBest {
    /// The frame with the highest priority.
    best: u32,
    /// The innermost frame with a positive priority.
    innermost: u32,
}

/// One in this many frames of a stack is cached. To cache all would take more memory than the frames.
const CACHE_STRIDE: usize = 8;

const EMPTY: StackBest = StackBest { best: NONE, innermost: NONE };

impl<'a> Stacks<'a> {
    /// Returns the stacks, and the innermost frame at each probe, or [`NONE`].
    pub(super) fn new(code: &'a HostCode, threads: usize, rules: &FrameRules, probes: &[Probe]) -> (Self, Vec<u32>) {
        let Swept { enclosing, innermost, .. } = sweep(&code.frames, threads, probes);
        let priorities = code.frames.names.iter().map(|raw| rules.frame_priority(raw, &rules.location(raw))).collect();
        let mut stacks = Self { code, priorities, enclosing, cache: HashMap::default() };
        innermost.iter().for_each(|frame| stacks.fill_cache(*frame));
        (stacks, innermost)
    }

    /// Caches the results of a frame and of every [`CACHE_STRIDE`]-th caller that has none yet.
    fn fill_cache(&mut self, innermost: u32) {
        let path = self.uncached_path(innermost);
        let mut above = path.last().map_or(EMPTY, |top| self.stack_best(self.caller(*top)));
        for (depth, frame) in path.into_iter().enumerate().rev() {
            above = self.extended(frame, above);
            if depth % CACHE_STRIDE == 0 {
                self.cache.insert(frame, above);
            }
        }
    }

    /// The result for the stack that ends with `frame`.
    fn stack_best(&self, frame: u32) -> StackBest {
        if let Some(cached) = self.cache.get(&frame) {
            return *cached;
        }
        let path = self.uncached_path(frame);
        let above = path.last().and_then(|top| self.cache.get(&self.caller(*top))).copied().unwrap_or(EMPTY);
        path.into_iter().rev().fold(above, |above, frame| self.extended(frame, above))
    }

    /// The frame and its callers, up to the first with a cached result.
    fn uncached_path(&self, innermost: u32) -> Vec<u32> {
        let mut path = Vec::new();
        let mut frame = innermost;
        while frame != NONE && !self.cache.contains_key(&frame) {
            path.push(frame);
            frame = self.caller(frame);
        }
        path
    }

    /// The result of a frame from the result of its caller.
    fn extended(&self, frame: u32, above: StackBest) -> StackBest {
        let best = if self.outranks(frame, above.best) { frame } else { above.best };
        StackBest { best, innermost: if self.priority(frame) > 0 { frame } else { above.innermost } }
    }

    fn caller(&self, frame: u32) -> u32 {
        let index = frame as usize;
        let enclosing = self.enclosing.get(index).copied().unwrap_or(NONE);
        let parent = self.code.frame_parents.get(index).copied().unwrap_or(NONE);
        let caller = caller(self.code, index, enclosing, parent);
        if caller < frame { caller } else { NONE }
    }

    /// Whether `frame` has a higher priority than `other`. Equal priorities are decided by the later start, then by the
    /// shorter duration.
    fn outranks(&self, frame: u32, other: u32) -> bool {
        let rank = |frame: u32| {
            self.span(frame).map(|span| (self.priority(frame), span.start, std::cmp::Reverse(span.duration)))
        };
        rank(frame) > rank(other)
    }

    fn span(&self, frame: u32) -> Option<Span> {
        self.code.frames.get(frame as usize)
    }

    fn priority(&self, frame: u32) -> i32 {
        let name = self.span(frame).and_then(|span| self.priorities.get(span.name.0 as usize));
        name.copied().unwrap_or(i32::MIN)
    }

    fn name(&self, frame: u32) -> u32 {
        self.span(frame).map_or(NONE, |span| span.name.0)
    }

    /// The name of the frame with the highest priority in the stack that ends with `innermost`, or [`NONE`].
    pub(super) fn best(&self, innermost: u32) -> u32 {
        self.name(self.stack_best(innermost).best)
    }

    /// The names of the innermost frames with positive priority, innermost first, padded with [`NONE`]. If no frame has a
    /// positive priority, the name of the innermost frame.
    pub(super) fn shown(&self, innermost: u32) -> [u32; SHOWN] {
        let mut shown = [NONE; SHOWN];
        let mut frame = self.stack_best(innermost).innermost;
        if let (NONE, [first, ..]) = (frame, &mut shown) {
            *first = self.name(innermost);
        }
        for slot in &mut shown {
            if frame == NONE {
                break;
            }
            *slot = self.name(frame);
            frame = self.stack_best(self.caller(frame)).innermost;
        }
        shown
    }

    /// The text of a name that [`Self::best`] or [`Self::shown`] returned.
    pub(super) fn text(&self, name: u32) -> &'a str {
        self.code.frames.names.get(NameId(name))
    }
}

/// Selects the caller of a frame from two candidates: `enclosing` is the innermost frame that was open at its start,
/// `parent` is the one that the trace names.
///
/// The named parent is right if recorded times overlap or threads differ. But traces sometimes omit frames between parent
/// and child. If the child runs within both candidates, `enclosing` is therefore the better one.
fn caller(code: &HostCode, index: usize, enclosing: u32, parent: u32) -> u32 {
    let span = |frame: u32| code.frames.get(frame as usize);
    // A caller is sorted before its callee. This also excludes cycles.
    let (Some(frame), Some(named)) = (code.frames.get(index), span(parent).filter(|_| (parent as usize) < index))
    else {
        return enclosing;
    };
    let encloses = |caller: Span| caller.thread == frame.thread && caller.end() >= frame.end();
    if encloses(named) && span(enclosing).is_some_and(encloses) { enclosing } else { parent }
}
