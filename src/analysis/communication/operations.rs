//! Communication kernels and the operation of each (`allreduce`, `sendrecv`, ...). One pass over the ops;
//! names are classified once.
//!
//! The operation recorded with the kernel is used (torch's collective name, NCCL's NVTX payload). If there is
//! none, the operation follows from the kernel's name.

use crate::analysis::classified::{ClassifiedTrace, KernelKind};
use crate::ordering::VecMap;
use crate::trace::{Collective, DeviceId, GpuOp, NameId, Names, Ns, OpKind, ProcessId, Trace};

/// The operation of point-to-point messages, send or receive.
pub(crate) const SEND_RECEIVE: &str = "sendrecv";

/// Count, sum and maximum of durations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) total: Ns,
    pub(crate) longest: Ns,
}

impl Tally {
    pub(crate) fn add(&mut self, more: Self) {
        self.count += more.count;
        self.total += more.total;
        self.longest = self.longest.max(more.longest);
    }
}

/// Sums over the messages of one operation whose size is known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Messages {
    pub(crate) count: u64,
    /// Their size, see [`size_bytes`].
    pub(crate) bytes: u64,
    /// Sum of the durations of their kernels.
    pub(crate) time: Ns,
    /// Bytes over the busiest link of each rank, summed over messages whose number of ranks is known.
    pub(crate) bus_bytes: f64,
    /// Sum of the durations of these messages.
    pub(crate) bus_time: Ns,
}

/// A process on a device: the finest unit by which a trace distinguishes ranks.
pub(crate) type Unit = (ProcessId, DeviceId);

/// Counts, times and sizes of messages by operation, process and device.
#[derive(Debug)]
pub(crate) struct Collectives {
    pub(crate) operations: Names,
    /// By operation: the name of its first kernel.
    pub(crate) example: Vec<NameId>,
    pub(crate) messages: Vec<Messages>,
    pub(crate) cells: VecMap<(NameId, Unit), Tally>,
}

/// Finds the operation of each communication kernel.
#[derive(Debug)]
pub(crate) struct Operations<'a> {
    trace: &'a Trace,
    names: Names,
    /// By kernel name: its operation; `None` if the kernel does not communicate.
    of_kernel: Vec<Option<NameId>>,
    /// The distinct texts that the trace recorded, and the operation of each if the text is recognized.
    of_message: (Names, Vec<Option<NameId>>),
}

impl<'a> Operations<'a> {
    pub(crate) fn new(classified: &ClassifiedTrace<'a>) -> Self {
        let trace = classified.trace;
        let mut names = Names::default();
        let mut of_kernel = Vec::with_capacity(trace.names.len());
        for (id, _) in (0..).map(NameId).zip(trace.names.iter()) {
            of_kernel.push(match classified.kernel_kind(id) {
                KernelKind::Communication(operation) => Some(names.intern(operation)),
                KernelKind::Compute => None,
            });
        }
        let mut of_message = (Names::default(), Vec::new());
        for (_, message) in &trace.collectives {
            if of_message.0.intern(&message.operation).0 as usize == of_message.1.len() {
                of_message.1.push(classified.signals.collective(&message.operation).map(|name| names.intern(name)));
            }
        }
        Self { trace, names, of_kernel, of_message }
    }

    /// The names of all operations.
    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// The name of the operation of the op in this row; `None` if it does not communicate.
    pub(crate) fn name_of(&self, row: usize, op: GpuOp) -> Option<&str> {
        let (operation, _) = self.of(row, op.name).filter(|_| op.kind == OpKind::Kernel)?;
        Some(self.names.get(operation))
    }

    /// Returns the operation of the kernel in this row and its recorded message; `None` if the kernel does
    /// not communicate.
    pub(crate) fn of(&self, row: usize, name: NameId) -> Option<(NameId, Option<&'a Collective>)> {
        let operation = self.of_kernel.get(name.0 as usize).copied().flatten()?;
        let Some(message) = self.message(row) else { return Some((operation, None)) };
        let recorded = self.of_message.0.find(&message.operation);
        let recorded = recorded.and_then(|id| self.of_message.1.get(id.0 as usize).copied().flatten());
        Some((recorded.unwrap_or(operation), Some(message)))
    }

    /// Returns the recorded message of the kernel in this row. Binary search.
    fn message(&self, row: usize) -> Option<&'a Collective> {
        let messages = self.trace.collectives.as_slice();
        let found = messages.binary_search_by_key(&row, |(row, _)| *row as usize).ok()?;
        messages.get(found).map(|(_, message)| message)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    /// Its row among the GPU ops.
    pub(crate) row: usize,
    pub(crate) op: GpuOp,
    /// `allreduce`, `sendrecv`, ...
    pub(crate) operation: &'a str,
    pub(crate) message: Option<&'a Collective>,
    /// Size of the message, see [`size_bytes`]; `None` if it is not recorded.
    pub(crate) bytes: Option<u64>,
}

/// Visits all communication kernels, sorted by start.
pub(crate) fn each_call(classified: &ClassifiedTrace, visit: &mut dyn FnMut(Call)) {
    let operations = Operations::new(classified);
    each_kernel(classified, &operations, &mut |row, op, operation, message| {
        let operation = operations.names.get(operation);
        let bytes = message.and_then(|message| size_bytes(operation, message));
        visit(Call { row, op, operation, message, bytes });
    });
}

/// The labels of all ranks that communicate, as in the section `nccl_rank_skew`.
pub(crate) fn rank_labels(classified: &ClassifiedTrace) -> VecMap<Unit, String> {
    Collectives::of(classified).map(|found| found.labels(classified.trace)).unwrap_or_default()
}

type KernelVisitor<'v, 'a> = &'v mut dyn FnMut(usize, GpuOp, NameId, Option<&'a Collective>);

fn each_kernel<'a>(classified: &ClassifiedTrace<'a>, operations: &Operations<'a>, visit: KernelVisitor<'_, 'a>) {
    if operations.names.is_empty() {
        return;
    }
    for (row, op) in classified.trace.gpu_ops.iter().enumerate().filter(|(_, op)| op.kind == OpKind::Kernel) {
        if let Some((operation, message)) = operations.of(row, op.name) {
            visit(row, op, operation, message);
        }
    }
}

impl Collectives {
    /// Whether ranks exchange data by Send/Recv only, as the stages of a pipeline do. Then a rank waits for the work of another one, and
    /// for no rank that is late.
    pub(crate) fn sends_only(&self) -> bool {
        !self.cells.is_empty()
            && self.cells.iter().all(|((operation, _), _)| self.operations.get(*operation) == SEND_RECEIVE)
    }

    /// Computes the sums in one pass over the ops; `None` for a trace without communication.
    pub(crate) fn of(classified: &ClassifiedTrace) -> Option<Self> {
        let operations = Operations::new(classified);
        let count = operations.names.len();
        let mut found = Self {
            example: vec![NameId(0); count],
            messages: vec![Messages::default(); count],
            operations: operations.names.clone(),
            cells: VecMap::new(),
        };
        each_kernel(classified, &operations, &mut |_, op, operation, message| found.add(op, operation, message));
        (!found.cells.is_empty()).then_some(found)
    }

    pub(crate) fn add(&mut self, op: GpuOp, operation: NameId, message: Option<&Collective>) {
        let count = self.cells.update((operation, (op.process, op.device)), Tally::default(), |cell| {
            cell.add(Tally { count: 1, total: op.duration, longest: op.duration });
            cell.count
        });
        if let (1, Some(example)) = (count, self.example.get_mut(operation.0 as usize)) {
            *example = op.name;
        }
        if let (Some(message), Some(messages)) = (message, self.messages.get_mut(operation.0 as usize)) {
            messages.add(self.operations.get(operation), message, op.duration);
        }
    }

    /// Sums the cells by a key.
    pub(crate) fn by<K: Ord>(&self, key: &dyn Fn(NameId, Unit) -> K) -> Vec<(K, Tally)> {
        let mut sums = VecMap::new();
        for &((operation, unit), cell) in self.cells.iter() {
            sums.update(key(operation, unit), Tally::default(), |sum| sum.add(cell));
        }
        sums.into_vec()
    }

    /// Sums by operation, sorted by name of the operation.
    pub(crate) fn by_operation(&self) -> Vec<(&str, (NameId, Tally))> {
        let mut sums = VecMap::new();
        for &((operation, _), cell) in self.cells.iter() {
            let first = (operation, Tally::default());
            sums.update(self.operations.get(operation), first, |sum: &mut (NameId, Tally)| sum.1.add(cell));
        }
        sums.into_vec()
    }

    fn labels(&self, trace: &Trace) -> VecMap<Unit, String> {
        let units: Vec<Unit> = self.by(&|_, unit| unit).into_iter().map(|(unit, _)| unit).collect();
        let mut labels = VecMap::new();
        units.iter().for_each(|unit| labels.update(*unit, label(trace, *unit, &units), |_| ()));
        labels
    }

    /// Sums by operation and rank label.
    pub(crate) fn by_label(&self, trace: &Trace) -> Vec<((NameId, String), Tally)> {
        let labels = self.labels(trace);
        self.by(&|operation, unit| (operation, labels.get(&unit).cloned().unwrap_or_default()))
    }
}

impl Messages {
    pub(crate) fn add(&mut self, operation: &str, message: &Collective, duration: Ns) {
        let Some(bytes) = size_bytes(operation, message) else { return };
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.time += duration;
        if let Some(factor) = bus_factor(operation, message.ranks) {
            self.bus_bytes += bytes as f64 * factor;
            self.bus_time += duration;
        }
    }

    pub(crate) fn total(&self) -> Option<u64> {
        (self.count > 0).then_some(self.bytes)
    }
}

/// Returns the size of a message as nccl-tests define it: the larger of input and output. For an allgather
/// this is the output (data of all ranks), for a reduce-scatter the input.
fn size_bytes(operation: &str, message: &Collective) -> Option<u64> {
    match operation {
        "allgather" => message.bytes_out,
        "reducescatter" => message.bytes_in,
        _ => message.bytes_in.max(message.bytes_out),
    }
}

/// Returns the ratio of bus bandwidth to algorithm bandwidth, as nccl-tests define it; `None` if the number
/// of ranks is needed but unknown.
pub(crate) fn bus_factor(operation: &str, ranks: Option<u64>) -> Option<f64> {
    let factor = match operation {
        "allreduce" => 2.0,
        "allgather" | "reducescatter" | "alltoall" => 1.0,
        _ => return Some(1.0),
    };
    let ranks = ranks.filter(|ranks| *ranks > 0)? as f64;
    Some(factor * (ranks - 1.0) / ranks)
}

/// Returns the label of a rank: `rank:TP00` in merged traces; the process if it uses one device; the device
/// if there is only one process or the process has no id; otherwise both. `units` are all units, sorted.
fn label(trace: &Trace, unit: Unit, units: &[Unit]) -> String {
    let (pid, name) =
        trace.processes.get(unit.0.0 as usize).map_or((-1, ""), |process| (process.pid, process.name.as_str()));
    if let Some(rank) = name.strip_prefix('[').and_then(|rank| rank.strip_suffix(']')) {
        return format!("rank:{rank}");
    }
    let device = trace.devices.get(unit.1.0 as usize).map_or("", |device| device.id.as_str());
    let before = units.partition_point(|other| other.0 < unit.0);
    let devices = units.partition_point(|other| other.0 <= unit.0) - before;
    let (has_one_process, has_one_device) = (devices == units.len(), devices == 1);
    match (has_one_device && pid >= 0, has_one_process || pid < 0) {
        (true, _) => format!("pid:{pid}"),
        (false, true) => format!("device:{device}"),
        (false, false) => format!("pid:{pid} device:{device}"),
    }
}
