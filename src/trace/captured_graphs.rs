//! The ops that CUDA or HIP graphs replay, known from the traces of their captures: CPU op, arguments, module and code.
//!
//! A replay runs the work of one capture and has no host code of its own. `analysis::graph_captures` joins the replays of a trace
//! with captures and fills this table once, when the files are read. An op of a capture is stored once for all its replays; a
//! replayed op takes 8 bytes. Windows keep the rows of their ops and share the rest.

use super::columns::KeptRows;
use super::{NameId, Names, OpShape};
use std::sync::Arc;

/// The ops of graph replays whose capture is known.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CapturedGraphs {
    /// What the captures tell, the same for a trace and its windows; `None` if there are no captures.
    pub captured: Option<Arc<Captured>>,
    /// Row of the replayed op and index in [`Captured::ops`], sorted by row.
    pub rows: Vec<(u32, u32)>,
}

/// The content of the captures of a trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Captured {
    /// The launches, copies and sets of the captures that replays belong to.
    pub ops: Vec<CapturedOp>,
    /// Names of modules.
    pub modules: Names,
    /// The code around the launches.
    pub sites: Vec<CapturedSite>,
    /// Names and arguments of CPU ops, as in [`super::ShapedOps::shapes`].
    pub shapes: Vec<OpShape>,
    /// What was joined and what was not.
    pub outcome: CaptureOutcome,
}

/// One launch, copy or set of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedOp {
    /// Index of its code in [`Captured::sites`].
    pub site: u32,
    /// The innermost module around the launch, such as `Qwen3Attention_0`, in [`Captured::modules`].
    pub module: Option<NameId>,
    /// The execution of a CPU op with known cost that it is a part of.
    pub execution: Option<CapturedExecution>,
    /// What the join rests on.
    pub proof: CaptureProof,
}

/// The code that launched work in a capture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CapturedSite {
    /// The name of the CPU op, else of the call; empty if unknown.
    pub cpu_op: String,
    /// The source location of the frame with the highest priority; empty if unknown.
    pub location: String,
    /// The source location to display.
    pub display: String,
    /// The innermost informative frames, outermost first.
    pub stack: Vec<String>,
}

/// One execution of a CPU op with known cost during a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CapturedExecution {
    /// A number of its own among all captures.
    pub number: u32,
    /// Index of its name and arguments in [`Captured::shapes`].
    pub shape: u32,
}

/// What a join of replayed ops with a capture rests on, the better first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CaptureProof {
    /// The calls of the capture name their kernels, and the names of the replay are the same.
    Names,
    /// The calls name no kernels: only the number of ops and the places of copies and sets are the same.
    Order,
}

/// What was joined, of which captures, and what was not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaptureOutcome {
    /// The captures that replays belong to.
    pub joined: Vec<JoinedCapture>,
    /// Replays without a capture, by reason.
    pub unjoined: Vec<UnjoinedReplays>,
    /// Files that could not be used, and why.
    pub unusable: Vec<UnusableCapture>,
}

/// A capture with its replays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedCapture {
    /// The file.
    pub file: String,
    /// The size of the batch for which the graph was captured.
    pub batch_size: u64,
    /// The sizes of the batches of the steps that replay it, least and most.
    pub step_sizes: (u64, u64),
    /// Graph launches.
    pub launches: u64,
    /// Their ops.
    pub ops: u64,
    /// Those of the ops that are joined.
    pub joined_ops: u64,
    /// What the join rests on.
    pub proof: CaptureProof,
}

/// Replays that could not be joined for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnjoinedReplays {
    /// The reason.
    pub why: Unjoined,
    /// Graph launches.
    pub launches: u64,
    /// Their ops.
    pub ops: u64,
}

/// Why the ops of a graph launch have no capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unjoined {
    /// No annotation tells the size of the batch of its step.
    NoSize,
    /// No capture has a batch of this size or a larger one.
    NoCapture,
    /// The step has another number of graph launches than the file has captures.
    LaunchesDiffer,
    /// The replay has other kernels than the capture.
    NamesDiffer,
    /// The calls of the capture name no kernels, and the numbers of ops differ.
    CountsDiffer,
    /// Copies and sets are at other places, or the replay used several streams, and the calls of the capture name no kernels.
    OrderDiffers,
}

/// A file that could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableCapture {
    /// The file.
    pub file: String,
    /// The reason.
    pub why: String,
}

impl CapturedGraphs {
    /// The op of the capture that the op in this row replays.
    pub fn of_row(&self, row: u32) -> Option<&CapturedOp> {
        let at = self.rows.binary_search_by_key(&row, |(row, _)| *row).ok()?;
        self.captured.as_ref()?.ops.get(self.rows.get(at)?.1 as usize)
    }

    /// The replayed ops with their rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &CapturedOp)> {
        let ops = self.captured.as_ref().map_or(&[][..], |captured| &captured.ops);
        self.rows.iter().filter_map(|(row, op)| Some((*row, ops.get(*op as usize)?)))
    }

    /// The code that launched an op in its capture.
    pub fn site(&self, op: &CapturedOp) -> Option<&CapturedSite> {
        self.captured.as_ref()?.sites.get(op.site as usize)
    }

    /// Names and arguments of the CPU ops, which [`CapturedExecution::shape`] numbers.
    pub fn shapes(&self) -> &[OpShape] {
        self.captured.as_ref().map_or(&[], |captured| &captured.shapes)
    }

    /// Whether replayed ops are joined with ops that have known arguments.
    pub fn has_shapes(&self) -> bool {
        self.iter().any(|(_, op)| op.execution.is_some())
    }

    /// What was joined and what was not; `None` if there are no captures.
    pub fn outcome(&self) -> Option<&CaptureOutcome> {
        self.captured.as_ref().map(|captured| &captured.outcome)
    }

    pub(super) fn part(&self, kept: &KeptRows) -> Self {
        let rows = self.rows.iter().filter_map(|(row, op)| Some((kept.new_index(*row)?, *op)));
        let mut rows: Vec<(u32, u32)> = rows.collect();
        rows.sort_unstable();
        Self { captured: self.captured.clone(), rows }
    }
}
