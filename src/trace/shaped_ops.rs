//! Framework ops on the host with the shapes of their arguments, from which the cost of their kernels follows.
//!
//! A reader stores only the ops whose cost is known how to compute (`patterns/op_models.json`). Equal names and arguments are
//! stored once. An op takes 24 bytes. Windows of the trace share the table, because ops are joined with kernels by the time
//! of the launch call, which windows keep in full.

use super::{Ns, ThreadId};
use crate::ordering;
use std::cmp::Reverse;

/// The maximum number of ops, to limit memory.
pub const MAX_SHAPED_OPS: usize = 4_000_000;
/// The maximum number of different shapes.
pub const MAX_SHAPES: usize = 65_536;

/// The ops with known arguments.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ShapedOps {
    /// Sorted by start, outer before inner.
    pub ops: Vec<ShapedOp>,
    /// Names and arguments, which [`ShapedOp::shape`] numbers.
    pub shapes: Vec<OpShape>,
    /// The longest duration of an op.
    pub longest: Ns,
    /// The number of ops that were not stored because a limit was reached.
    pub left_out: u64,
}

/// One execution of an op on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShapedOp {
    /// Start on the clock of the GPU ops.
    pub start: Ns,
    /// Duration.
    pub duration: Ns,
    /// The thread that ran it.
    pub thread: ThreadId,
    /// Index of its name and arguments in [`ShapedOps::shapes`].
    pub shape: u32,
}

impl ShapedOp {
    /// Returns the end time.
    pub fn end(&self) -> Ns {
        self.start.after(self.duration)
    }
}

/// The name of an op and its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpShape {
    /// The name: `aten::mm`.
    pub op: String,
    /// The arguments up to the first that could not be read.
    pub arguments: Vec<Argument>,
}

/// One argument of an op.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Argument {
    /// The lengths of the dimensions of a tensor; empty for a tensor of one element and for other arguments.
    pub lengths: Vec<u64>,
    /// The number of elements in memory. Dimensions with stride 0 repeat the same elements.
    pub elements: u64,
    /// The type of the elements of a tensor; [`Element::Other`] for other arguments.
    pub element: Element,
    /// The value of an argument that is no tensor (`True`, `[1, 1]`); empty if not recorded.
    pub value: String,
}

/// The type of the elements of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Element {
    /// Floating point with 64 bits.
    Fp64,
    /// Floating point with 32 bits.
    Fp32,
    /// IEEE floating point with 16 bits.
    Fp16,
    /// bfloat16.
    Bf16,
    /// A floating-point format with 8 bits.
    Fp8,
    /// Two values of a floating-point format with 4 bits, packed into one byte.
    PackedFp4,
    /// Integers with 64 bits.
    Int64,
    /// Integers with 32 bits.
    Int32,
    /// Integers with 16 bits.
    Int16,
    /// Integers with 8 bits.
    Int8,
    /// Boolean values.
    Bool,
    /// Another type, or no tensor.
    #[default]
    Other,
}

impl Argument {
    /// The bytes of a tensor in memory, zero for other arguments; `None` if the type is unknown.
    pub fn bytes(&self) -> Option<f64> {
        match self.element.bytes() {
            Some(bytes) => Some(bytes as f64 * self.elements as f64),
            None => self.lengths.is_empty().then_some(0.0),
        }
    }
}

impl Element {
    /// The size of one element as it is stored.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::Fp64 | Self::Int64 => Some(8),
            Self::Fp32 | Self::Int32 => Some(4),
            Self::Fp16 | Self::Bf16 | Self::Int16 => Some(2),
            Self::Fp8 | Self::PackedFp4 | Self::Int8 | Self::Bool => Some(1),
            Self::Other => None,
        }
    }

    /// The name in tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Fp64 => "FP64",
            Self::Fp32 => "FP32",
            Self::Fp16 => "FP16",
            Self::Bf16 => "BF16",
            Self::Fp8 => "FP8",
            Self::PackedFp4 => "FP4",
            Self::Int64 => "INT64",
            Self::Int32 => "INT32",
            Self::Int16 => "INT16",
            Self::Int8 => "INT8",
            Self::Bool => "bool",
            Self::Other => "other",
        }
    }
}

impl ShapedOps {
    /// Returns true if no op has known arguments.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Adds an op, unless the table is full.
    pub fn push(&mut self, op: ShapedOp) {
        if self.ops.len() >= MAX_SHAPED_OPS {
            self.left_out += 1;
            return;
        }
        self.longest = self.longest.max(op.duration);
        self.ops.push(op);
    }

    /// Sorts the ops; call it when all are added.
    pub fn sort(&mut self) {
        let key = |op: &ShapedOp| (op.start, Reverse(op.duration));
        if !self.ops.is_sorted_by_key(key) {
            ordering::sort_by_key(&mut self.ops, key);
        }
    }
}
