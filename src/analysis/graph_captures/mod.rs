//! Joins the replays of CUDA or HIP graphs with the traces of their captures, so that each replayed op inherits the CPU op with
//! its arguments, the module and the code of its launch in the capture.
//!
//! vLLM, SGLang and ATOM write such traces into `capture_traces/`: torch.profiler JSON with CPU ops, shapes and frames, and with
//! launch calls that ran nothing. [`GraphCaptures`] takes one file after the other (`capture`) and keeps only the launches. In the end
//! [`GraphCaptures::join`] fills [`Trace::captured_graphs`], from which the costs of ops, the rates of roles and the floor follow.
//!
//! - The annotation of the step states the size of its batch. Its capture is that of the smallest batch that is not smaller. The
//!   k-th graph launch of a step replays the k-th capture of the file, or the only one (`join`).
//! - `matching` decides which op of the capture a replayed op is. Calls of HIP name their kernels, and equal names prove the join.
//!   Calls of CUDA do not: then the order counts if the numbers of ops are equal, and outputs say that it is not proven. Otherwise
//!   nothing is joined, and the ops are counted by reason.
//!
//! O(n log n) in the events of the captures and the ops of the replays. The memory that remains is that of the captured launches.

mod capture;
mod join;
mod matching;
mod notice;

pub(crate) use capture::capture_times;
pub(crate) use join::{replays_graphs, sizes_of_replays};
pub(crate) use notice::notice;

use crate::trace::{Captured, Names, Trace, UnusableCapture};
use capture::Capture;

/// The captures that were read so far.
#[derive(Debug, Default)]
pub struct GraphCaptures {
    captures: Vec<Capture>,
    /// Kernel names without the parts that differ from run to run.
    kernels: Names,
    content: Captured,
    /// The number of executions of CPU ops with known cost.
    executions: u32,
}

impl GraphCaptures {
    /// Adds a file that could not be used.
    pub fn add_unusable(&mut self, file: &str, why: &str) {
        self.content.outcome.unusable.push(UnusableCapture { file: file.to_owned(), why: why.to_owned() });
    }

    /// Adds the captures in a trace that was read with its code. `batch_size` is what is known of the file, for captures without
    /// an annotation.
    pub fn add(&mut self, file: &str, trace: &Trace, batch_size: Option<u64>) {
        if let Err(why) = capture::add(self, file, trace, batch_size) {
            self.add_unusable(file, why);
        }
    }

    /// Joins the replays of a trace with the captures.
    pub fn join(self, trace: &mut Trace) {
        join::join(self, trace);
    }
}
