//! What ran on the GPUs: kernels, copies, sets, and CUDA graphs that were traced as a whole.

use super::names::PendingNames;
use super::packed_ids::IdFormat;
use super::scan::{Cells, Damaged};
use super::schema::{COPIES, COPY_KINDS, GRAPHS, KERNELS, Role, SETS};
use super::{CORRELATION, Import, correlation, time};
use crate::ordering::StableSort;
use crate::trace::{GpuOp, GraphReplay, NameId, OpKind, ProblemKind};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Places of the columns that all GPU tables share.
const OWNER: usize = 2;
const DEVICE: usize = 3;
const STREAM: usize = 4;
const CORRELATION_ID: usize = 5;
const MORE: usize = 6;

/// Labels of the kinds of copies as nsys numbers them, for exports without the table that tells.
const KINDS: &[&str] = &[
    "Unknown",
    "Host-to-Device",
    "Device-to-Host",
    "Host-to-Array",
    "Array-to-Host",
    "Array-to-Array",
    "Array-to-Device",
    "Device-to-Array",
    "Device-to-Device",
    "Host-to-Host",
    "Peer-to-Peer",
    "Unified Host-to-Device",
    "Unified Device-to-Host",
    "Unified Device-to-Device",
];

/// Reads all GPU ops; their names wait in the result.
pub(super) fn read_ops(import: &mut Import<'_>) -> PendingNames {
    for role in [&KERNELS, &COPIES, &SETS] {
        let left_out: u64 =
            import.schema.lacking(role).map(|table| import.scanner.rows_at_most(Some(table)) as u64).sum();
        if left_out > 0 {
            import.builder.trace.problems.add(ProblemKind::NoTimes, left_out, 0);
        }
    }
    let rows = |role: &Role| import.scanner.rows_at_most(import.schema.find(role));
    let (kernels, copies, sets) = (rows(&KERNELS), rows(&COPIES), rows(&SETS));
    import.builder.trace.gpu_ops.reserve(kernels + copies + sets);
    import.builder.trace.bytes.reserve_exact(copies + sets);
    let mut names = PendingNames::default();
    let named = &[MORE, MORE + 1, MORE + 2, MORE + 3];
    let columns: &[&[&str]] = &[&["demangledName"], &["shortName"], &["mangledName"], &["name"]];
    read_table(import, &KERNELS, OpKind::Kernel, columns, &mut |cells| names.of_row(cells, named));
    let mut copy_names = CopyNames::new(import);
    let columns: &[&[&str]] = &[&["copyKind"], &["bytes"]];
    read_table(import, &COPIES, OpKind::Copy, columns, &mut |cells| copy_names.name(&mut names, cells.int(MORE)));
    let set = || names.text("[CUDA memset]");
    read_sets(import, set);
    names
}

fn read_sets(import: &mut Import<'_>, mut name: impl FnMut() -> NameId) {
    read_table(import, &SETS, OpKind::Set, &[&[], &["bytes"]], &mut |_| name());
}

/// Reads the table of a role. `more` are its own columns; copies and sets have their bytes second among them.
fn read_table(
    import: &mut Import<'_>,
    role: &Role,
    kind: OpKind,
    more: &[&[&str]],
    name: &mut dyn FnMut(&Cells<'_>) -> NameId,
) {
    let Some(table) = import.schema.find(role) else { return };
    if table.column(&["deviceId"]).is_none() {
        let rows = import.scanner.rows_at_most(Some(table)) as u64;
        if rows > 0 {
            import.builder.trace.problems.add(ProblemKind::NoDevices, rows, 0);
        }
    }
    let (packing, owner) = IdFormat::of(table);
    let shared: &[&[&str]] = &[&["start"], &["end"], owner, &["deviceId"], &["streamId"], CORRELATION];
    let columns = [shared, more].concat();
    let (builder, hosts, gpus) = (&mut import.builder, &mut import.threads, &mut import.gpus);
    let read = import.scanner.scan(table, &columns, &mut |cells| {
        let (start, duration) = match time(cells) {
            Ok(time) => time,
            Err(problem) => return builder.trace.problems.add(problem.of_op(), 1, cells.at),
        };
        let pid = packing.pid(cells.int(OWNER));
        let op = GpuOp {
            start,
            duration,
            name: name(cells),
            device: gpus.device(builder, pid, cells.int(DEVICE)),
            stream: cells.int(STREAM).unwrap_or(-1),
            process: hosts.process(builder, pid),
            kind,
        };
        builder.trace.gpu_ops.push(op, correlation(cells, CORRELATION_ID));
        if kind != OpKind::Kernel
            && let Some(bytes) = cells.int(MORE + 1).and_then(|bytes| u64::try_from(bytes).ok())
        {
            builder.set_bytes_of_last_op(bytes);
        }
    });
    import.note(read);
}

/// Names of copies by their kind.
struct CopyNames {
    labels: HashMap<i64, String, RandomState>,
    names: HashMap<i64, NameId, RandomState>,
}

impl CopyNames {
    fn new(import: &mut Import<'_>) -> Self {
        let number = |at: usize| i64::try_from(at).unwrap_or(i64::MAX);
        let mut labels: HashMap<i64, String, RandomState> =
            KINDS.iter().enumerate().map(|(at, label)| (number(at), (*label).to_owned())).collect();
        if let Some(table) = import.schema.find(&COPY_KINDS) {
            // Where the table is damaged the usual labels stand.
            let _: Result<(), Damaged> = import.scanner.scan(table, &[&["id"], &["label"]], &mut |cells| {
                if let (Some(kind), Some(label)) = (cells.int(0), cells.text(1)) {
                    labels.insert(kind, label.into_owned());
                }
            });
        }
        Self { labels, names: HashMap::default() }
    }

    /// As `nsys stats -r cuda_gpu_trace` prints it.
    fn name(&mut self, names: &mut PendingNames, kind: Option<i64>) -> NameId {
        let kind = kind.unwrap_or(0);
        let label = self.labels.get(&kind).map_or("Unknown", String::as_str);
        *self.names.entry(kind).or_insert_with(|| names.text(&format!("[CUDA memcpy {label}]")))
    }
}

/// Reads CUDA graphs that were traced as a whole, by start.
pub(super) fn read_graph_replays(import: &mut Import<'_>) {
    let Some(table) = import.schema.find(&GRAPHS) else { return };
    let (packing, owner) = IdFormat::of(table);
    let (builder, gpus) = (&mut import.builder, &mut import.gpus);
    let read =
        import.scanner.scan(table, &[&["start"], &["end"], owner, &["deviceId"]], &mut |cells| match time(cells) {
            Ok((start, duration)) => {
                let device = gpus.device(builder, packing.pid(cells.int(OWNER)), cells.int(DEVICE));
                builder.trace.graph_replays.push(GraphReplay { start, duration, device });
            }
            Err(problem) => builder.trace.problems.add(problem.of_op(), 1, cells.at),
        });
    builder.trace.graph_replays.order_by_key(|replay| replay.start);
    import.note(read);
}
