//! The Python stack above every frame: which of its frames tells most, and its last ones.
//!
//! A frame's answer follows from its caller's, so a stack is never walked twice, however deep.

use super::sweep::{Probe, Swept, sweep};
use crate::analysis::triage::frames::FrameRules;
use crate::trace::{Code, NONE, NameId, Span};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// A stack is shown by so many of its innermost frames.
pub(super) const SHOWN: usize = 4;

/// The stacks of a trace, by place of their innermost frame.
pub(super) struct Stacks<'a> {
    code: &'a Code,
    /// By frame name: how much such a frame tells.
    priorities: Vec<i32>,
    /// Of every frame the innermost that was running when it began, or [`NONE`].
    around: Vec<u32>,
    /// Of the frames that were asked for, and of those above them.
    known: HashMap<u32, Telling, RandomState>,
}

/// What a stack tells that ends with some frame.
#[derive(Debug, Clone, Copy)]
struct Telling {
    /// The frame that tells most.
    best: u32,
    /// The innermost frame that tells anything.
    innermost: u32,
}

/// Of a stack, one frame in so many is remembered: all of them would take more than the frames themselves.
const REMEMBERED: usize = 8;

const NOTHING: Telling = Telling { best: NONE, innermost: NONE };

impl<'a> Stacks<'a> {
    /// The stacks, and the innermost frame at each probe, or [`NONE`].
    pub(super) fn new(code: &'a Code, threads: usize, rules: &FrameRules, probes: &[Probe]) -> (Self, Vec<u32>) {
        let Swept { enclosing: around, innermost, .. } = sweep(&code.frames, threads, probes);
        let priorities = code.frames.names.iter().map(|raw| rules.frame_priority(raw, &rules.location(raw))).collect();
        let mut stacks = Self { code, priorities, around, known: HashMap::default() };
        innermost.iter().for_each(|frame| stacks.learn(*frame));
        (stacks, innermost)
    }

    /// Remembers the answer for a frame and for some of those above it, so that no answer is far.
    fn learn(&mut self, innermost: u32) {
        let path = self.unknown_path(innermost);
        let mut above = path.last().map_or(NOTHING, |top| self.telling(self.caller(*top)));
        for (below, frame) in path.into_iter().enumerate().rev() {
            above = self.joined(frame, above);
            if below % REMEMBERED == 0 {
                self.known.insert(frame, above);
            }
        }
    }

    /// What the stack that ends with this frame tells.
    fn telling(&self, frame: u32) -> Telling {
        if let Some(known) = self.known.get(&frame) {
            return *known;
        }
        let path = self.unknown_path(frame);
        let above = path.last().and_then(|top| self.known.get(&self.caller(*top))).copied().unwrap_or(NOTHING);
        path.into_iter().rev().fold(above, |above, frame| self.joined(frame, above))
    }

    /// The frame and those above it, up to one whose answer is known.
    fn unknown_path(&self, innermost: u32) -> Vec<u32> {
        let mut path = Vec::new();
        let mut frame = innermost;
        while frame != NONE && !self.known.contains_key(&frame) {
            path.push(frame);
            frame = self.caller(frame);
        }
        path
    }

    fn joined(&self, frame: u32, above: Telling) -> Telling {
        let best = if self.tells_more(frame, above.best) { frame } else { above.best };
        Telling { best, innermost: if self.priority(frame) > 0 { frame } else { above.innermost } }
    }

    fn caller(&self, frame: u32) -> u32 {
        let at = frame as usize;
        let around = self.around.get(at).copied().unwrap_or(NONE);
        let parent = self.code.frame_parents.get(at).copied().unwrap_or(NONE);
        let caller = caller(self.code, at, around, parent);
        if caller < frame { caller } else { NONE }
    }

    /// Of two frames that tell as much the later one counts, of two that began together the shorter.
    fn tells_more(&self, frame: u32, than: u32) -> bool {
        let rank =
            |at: u32| self.span(at).map(|span| (self.priority(at), span.start, std::cmp::Reverse(span.duration)));
        rank(frame) > rank(than)
    }

    fn span(&self, at: u32) -> Option<Span> {
        self.code.frames.get(at as usize)
    }

    fn priority(&self, at: u32) -> i32 {
        let name = self.span(at).and_then(|span| self.priorities.get(span.name.0 as usize));
        name.copied().unwrap_or(i32::MIN)
    }

    fn name(&self, at: u32) -> u32 {
        self.span(at).map_or(NONE, |span| span.name.0)
    }

    /// The name of the frame that tells most of the stack that ends here, or [`NONE`].
    pub(super) fn best(&self, innermost: u32) -> u32 {
        self.name(self.telling(innermost).best)
    }

    /// The names of the last frames that tell anything, innermost first, then [`NONE`]; the innermost frame where none
    /// does.
    pub(super) fn shown(&self, innermost: u32) -> [u32; SHOWN] {
        let mut shown = [NONE; SHOWN];
        let mut frame = self.telling(innermost).innermost;
        if let (NONE, [first, ..]) = (frame, &mut shown) {
            *first = self.name(innermost);
        }
        for slot in &mut shown {
            if frame == NONE {
                break;
            }
            *slot = self.name(frame);
            frame = self.telling(self.caller(frame)).innermost;
        }
        shown
    }

    /// A name that one of the above gave.
    pub(super) fn text(&self, name: u32) -> &'a str {
        self.code.frames.names.get(NameId(name))
    }
}

/// The frame that called this one: `around` is the innermost that was running when it began, `parent` the one that the
/// trace names.
///
/// Named parents are right where times overlap or threads differ, but traces are known to leave frames out between a
/// parent and its child; a frame that runs within the parent and around the child is one of those.
fn caller(code: &Code, at: usize, around: u32, parent: u32) -> u32 {
    let span = |at: u32| code.frames.get(at as usize);
    // A caller stands before what it calls; anything else is no stack.
    let (Some(frame), Some(named)) = (code.frames.get(at), span(parent).filter(|_| (parent as usize) < at)) else {
        return around;
    };
    let is_running = |caller: Span| caller.thread == frame.thread && caller.end() >= frame.end();
    if is_running(named) && span(around).is_some_and(is_running) { around } else { parent }
}
