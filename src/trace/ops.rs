//! GPU ops as columns: one vector a field, so that a pass over starts touches starts alone.

use super::{NameId, Ns};

/// What a GPU op does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind {
    /// A kernel.
    Kernel,
    /// A memory copy.
    Copy,
    /// A memory set.
    Set,
}

/// The index of a device in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

/// One GPU op, as readers hand it over and analyses read it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuOp {
    /// When it began, on the trace's clock.
    pub start: Ns,
    /// How long it ran; zero is legal.
    pub duration: Ns,
    /// Its name.
    pub name: NameId,
    /// Where it ran.
    pub device: DeviceId,
    /// The stream on its device; -1 where the trace does not tell.
    pub stream: i64,
    /// Kernel, copy or set.
    pub kind: OpKind,
}

impl GpuOp {
    /// When it ended.
    pub fn end(&self) -> Ns {
        self.start + self.duration
    }
}

/// False for times that no profiler means: a negative duration, or one that does not fit with others in 64 bits.
pub fn is_plausible(start: Ns, duration: Ns) -> bool {
    const FAR: i64 = 1 << 62;
    (-FAR / 2..FAR).contains(&start.0) && (0..FAR / 2).contains(&duration.0)
}

/// Columns of GPU ops.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GpuOps {
    start: Vec<Ns>,
    duration: Vec<Ns>,
    name: Vec<NameId>,
    device: Vec<DeviceId>,
    stream: Vec<i64>,
    kind: Vec<OpKind>,
}

impl GpuOps {
    /// Adds one op at the end.
    pub fn push(&mut self, op: GpuOp) {
        self.start.push(op.start);
        self.duration.push(op.duration);
        self.name.push(op.name);
        self.device.push(op.device);
        self.stream.push(op.stream);
        self.kind.push(op.kind);
    }

    /// How many ops there are.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// True for a trace without GPU ops.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// All ops in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = GpuOp> + Clone {
        (0..self.len()).map(|index| self.at(index))
    }

    #[allow(clippy::indexing_slicing, reason = "index < len, and push keeps all columns equally long")]
    fn at(&self, index: usize) -> GpuOp {
        GpuOp {
            start: self.start[index],
            duration: self.duration[index],
            name: self.name[index],
            device: self.device[index],
            stream: self.stream[index],
            kind: self.kind[index],
        }
    }

    pub(super) fn renumber_devices(&mut self, rank: &[DeviceId]) {
        for device in &mut self.device {
            *device = rank.get(device.0 as usize).copied().unwrap_or(*device);
        }
    }

    /// Sorts by start; equal starts keep the order of the file.
    pub(super) fn sort_by_start(&mut self) {
        if self.start.is_sorted() {
            return;
        }
        let mut order: Vec<u32> = (0..u32::try_from(self.len()).unwrap_or(u32::MAX)).collect();
        order.sort_by_key(|&index| self.start.get(index as usize).copied());
        self.start = gather(&self.start, &order);
        self.duration = gather(&self.duration, &order);
        self.name = gather(&self.name, &order);
        self.device = gather(&self.device, &order);
        self.stream = gather(&self.stream, &order);
        self.kind = gather(&self.kind, &order);
    }
}

fn gather<T: Copy>(column: &[T], order: &[u32]) -> Vec<T> {
    order.iter().filter_map(|&index| column.get(index as usize).copied()).collect()
}
