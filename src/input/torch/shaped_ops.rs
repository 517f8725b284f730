//! Reads [`crate::trace::ShapedOps`]: the CPU ops of the catalog `patterns/op_models.json`, with the shapes that torch writes
//! with `record_shapes`.
//!
//! Cost: other CPU ops are skipped by their name; those of the catalog are parsed member by member. If the first [`PROBED_OPS`] ops of the catalog have no shapes, the file has none and the rest is not searched.
//! Arguments with the same text are parsed once.

use super::{MICROSECONDS, TorchReader, tensors};
use crate::rules::op_models::{Formula, op_model};
use crate::trace::{Argument, CODE_IS_BUILT, MAX_SHAPES, Ns, OpShape, ShapedOp, ShapedOps, ThreadId, is_plausible};
use foldhash::fast::RandomState;
use gpuprism_scan::json::{Cursor, Step, Value, unescape};
use std::collections::HashMap;

/// The number of ops of the catalog after which a file without shapes is recognised.
const PROBED_OPS: u32 = 1_024;
/// Longer arguments are not stored, to limit memory.
const MAX_TEXT_BYTES: usize = 4_096;

/// The ops read so far.
#[derive(Debug, Default)]
pub(super) struct ShapeReader {
    table: ShapedOps,
    /// Indices of the shapes by the text of name and arguments.
    known: HashMap<Box<[u8]>, u32, RandomState>,
    text: Vec<u8>,
    probed: u32,
}

/// The members of an op's event, as text.
#[derive(Debug, Default)]
struct Members<'a> {
    name: Option<&'a [u8]>,
    pid: Option<&'a [u8]>,
    tid: Option<&'a [u8]>,
    start: Option<&'a [u8]>,
    duration: Option<&'a [u8]>,
    lengths: Option<&'a [u8]>,
    strides: Option<&'a [u8]>,
    types: Option<&'a [u8]>,
    values: Option<&'a [u8]>,
}

impl<'a> Members<'a> {
    /// `None` if the event is damaged.
    fn read(event: &'a [u8]) -> Option<Self> {
        let mut members = Self::default();
        let mut cursor = Cursor::new(event);
        if !cursor.enter() {
            return None;
        }
        let mut is_in_args = false;
        loop {
            match cursor.key() {
                Step::Key(b"args") if !is_in_args => is_in_args = cursor.enter() || cursor.value().map(|_| false)?,
                Step::Key(key) => members.take(key, cursor.value()?, is_in_args),
                Step::End if is_in_args => is_in_args = false,
                Step::End => return Some(members),
                Step::Damaged => return None,
            }
        }
    }

    fn take(&mut self, key: &[u8], value: Value<'a>, is_in_args: bool) {
        let slot = match (is_in_args, key) {
            (false, b"name") => &mut self.name,
            (false, b"pid") => &mut self.pid,
            (false, b"tid") => &mut self.tid,
            (false, b"ts") => &mut self.start,
            (false, b"dur") => &mut self.duration,
            (true, b"Input Dims") => &mut self.lengths,
            (true, b"Input Strides") => &mut self.strides,
            (true, b"Input type") => &mut self.types,
            (true, b"Concrete Inputs") => &mut self.values,
            _ => return,
        };
        *slot = match value {
            Value::Container(list) => Some(list),
            other => other.scalar(),
        };
    }

    fn times(&self) -> Option<(Ns, Ns)> {
        let time = |text: Option<&[u8]>| Ns::from_decimal(text?, MICROSECONDS);
        Some((time(self.start)?, time(self.duration)?)).filter(|(start, duration)| is_plausible(*start, *duration))
    }
}

impl ShapeReader {
    fn is_searching(&self) -> bool {
        self.probed < PROBED_OPS || !self.table.shapes.is_empty()
    }

    /// The index of the name and arguments; `None` if they are not recorded or a limit is reached.
    fn shape(&mut self, name: &[u8], members: &Members) -> Option<u32> {
        let lengths = members.lengths?;
        let model = op_model(name)?;
        // Other formulas do not depend on values and strides, and without them more ops have the same shape.
        let values = members.values.filter(|_| !model.values.is_empty()).unwrap_or_default();
        let strides = members.strides.filter(|_| model.model == Formula::Bytes).unwrap_or_default();
        let types = members.types.unwrap_or_default();
        self.text.clear();
        for part in [name, lengths, strides, types, values] {
            self.text.extend_from_slice(part);
            self.text.push(0);
        }
        if let Some(index) = self.known.get(self.text.as_slice()) {
            return Some(*index);
        }
        if self.text.len() > MAX_TEXT_BYTES || self.table.shapes.len() >= MAX_SHAPES {
            self.table.left_out += 1;
            return None;
        }
        let index = u32::try_from(self.table.shapes.len()).ok()?;
        self.known.insert(self.text.as_slice().into(), index);
        let arguments = arguments([lengths, strides, types, values]);
        self.table.shapes.push(OpShape { op: unescape(name).into_owned(), arguments });
        Some(index)
    }

    /// The table, sorted, with the threads of the trace. Ops of threads without a stored call or range are dropped, because
    /// they launched nothing.
    pub(super) fn finish(mut self, threads: &[Option<ThreadId>]) -> ShapedOps {
        let id = |thread: ThreadId| threads.get(thread.0 as usize).copied().flatten();
        self.table.ops.retain_mut(|op| match id(op.thread) {
            Some(thread) => {
                op.thread = thread;
                true
            }
            None => false,
        });
        self.table.sort();
        self.table
    }
}

/// The arguments of an op from the lists of `args`, up to the first that is no tensor or scalar, such as a list of tensors.
fn arguments([lengths, strides, types, values]: [&[u8]; 4]) -> Vec<Argument> {
    let (mut types, mut values) = (tensors::types(types), tensors::texts(values));
    let mut strides = tensors::shapes(strides).map_while(|strides| strides);
    let argument = |lengths: Vec<u64>| Argument {
        elements: elements(&lengths, &strides.next().unwrap_or_default()),
        lengths,
        element: types.next().map(tensors::element).unwrap_or_default(),
        value: values.next().unwrap_or_default().to_owned(),
    };
    tensors::shapes(lengths).map_while(|lengths| lengths).map(argument).collect()
}

/// The number of elements in memory; a missing stride counts as positive.
fn elements(lengths: &[u64], strides: &[u64]) -> u64 {
    let is_stored = |dimension: &(usize, &u64)| strides.get(dimension.0) != Some(&0);
    lengths.iter().enumerate().filter(is_stored).fold(1, |product, (_, length)| product.saturating_mul(*length))
}

impl TorchReader {
    /// Adds a CPU op if it is in the catalog and has shapes; returns false if its event is damaged. The page's first module has no use
    /// for shapes.
    pub(super) fn shaped_op(&mut self, event: &[u8], name: &[u8]) -> bool {
        if !CODE_IS_BUILT || self.gpu_ops_only || !self.shapes.is_searching() || op_model(name).is_none() {
            return true;
        }
        let Some(members) = Members::read(event) else { return false };
        self.shapes.probed = self.shapes.probed.saturating_add(1);
        if let (Some((start, duration)), Some(shape)) = (members.times(), self.shapes.shape(name, &members)) {
            let (pid, tid) = (members.pid.unwrap_or_default(), members.tid.unwrap_or_default());
            let thread = ThreadId(self.file_threads.number(pid, tid));
            self.shapes.table.push(ShapedOp { start, duration, thread, shape });
        }
        true
    }
}

#[cfg(test)]
mod tests;
