//! Reads the GPU tables: kernels, copies, sets, and CUDA graphs that were traced as a whole.

use super::launch_configs::{self, launch_config};
use super::names::PendingNames;
use super::packed_ids::{IdFormat, names_by_number};
use super::scanner::Cells;
use super::schema::{COPIES, COPY_KINDS, GRAPHS, KERNELS, Role, SETS};
use super::{CORRELATION, Import, correlation, times};
use crate::trace::{GpuOp, GraphReplay, NameId, OpKind, ProblemKind};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Indices of the columns that all GPU tables share; 0 and 1 are start and end.
const OWNER: usize = 2;
const DEVICE: usize = 3;
const STREAM: usize = 4;
const CORRELATION_ID: usize = 5;
/// Index of the first column that only this table has.
const FIRST_OWN: usize = 6;
/// The number of columns of kernels before those of their configurations.
const NAMES_OF_KERNELS: usize = 4;

/// Labels of copy kinds by their number in nsys, for exports without a table of them.
const COPY_LABELS: &[&str] = &[
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

/// Reads all GPU ops. Returns their names, to be looked up later.
pub(super) fn read_ops(import: &mut Import<'_>) -> PendingNames {
    for role in [&KERNELS, &COPIES, &SETS] {
        let rows_without_times: u64 =
            import.schema.incomplete_tables(role).map(|table| import.scanner.max_rows(Some(table)) as u64).sum();
        if rows_without_times > 0 {
            import.builder.trace.problems.add(ProblemKind::NoTimes, rows_without_times, 0);
        }
    }
    let rows = |role: &Role| import.scanner.max_rows(import.schema.find(role));
    let (kernels, copies, sets) = (rows(&KERNELS), rows(&COPIES), rows(&SETS));
    import.builder.trace.gpu_ops.reserve(kernels + copies + sets);
    import.builder.trace.bytes.reserve_exact(copies + sets);
    let mut names = PendingNames::default();
    let named = &[FIRST_OWN, FIRST_OWN + 1, FIRST_OWN + 2, FIRST_OWN + 3];
    let names_of_kernels: [&[&str]; NAMES_OF_KERNELS] =
        [&["demangledName"], &["shortName"], &["mangledName"], &["name"]];
    let columns = [&names_of_kernels[..], launch_configs::COLUMNS].concat();
    read_table(import, &KERNELS, OpKind::Kernel, &columns, &mut |cells| names.of_row(cells, named));
    let mut copy_names = CopyNames::new(import);
    let columns: &[&[&str]] = &[&["copyKind"], &["bytes"], &["srcKind"], &["dstKind"]];
    read_table(import, &COPIES, OpKind::Copy, columns, &mut |cells| {
        let memory = (cells.int(FIRST_OWN + 2), cells.int(FIRST_OWN + 3));
        copy_names.name(&mut names, cells.int(FIRST_OWN), memory)
    });
    read_table(import, &SETS, OpKind::Set, &[&[], &["bytes"]], &mut |_| names.text("[CUDA memset]"));
    names
}

/// Reads the table of a role. `own_columns` are those that only this table has; copies and sets have their size second, kernels their
/// names and then their configurations.
fn read_table(
    import: &mut Import<'_>,
    role: &Role,
    kind: OpKind,
    own_columns: &[&[&str]],
    name: &mut dyn FnMut(&Cells<'_>) -> NameId,
) {
    let Some(table) = import.schema.find(role) else { return };
    if table.column(&["deviceId"]).is_none() {
        let rows = import.scanner.max_rows(Some(table)) as u64;
        if rows > 0 {
            import.builder.trace.problems.add(ProblemKind::NoDevices, rows, 0);
        }
    }
    let (id_format, owner) = IdFormat::of(table);
    let shared: &[&[&str]] = &[&["start"], &["end"], owner, &["deviceId"], &["streamId"], CORRELATION];
    let columns = [shared, own_columns].concat();
    let (builder, threads, gpus) = (&mut import.builder, &mut import.threads, &mut import.gpus);
    let read = import.scanner.scan(table, &columns, &mut |cells| {
        let (start, duration) = match times(cells) {
            Ok(time) => time,
            Err(problem) => return builder.trace.problems.add(problem, 1, cells.at),
        };
        let owner = threads.owner_of_op(id_format, cells.int(OWNER));
        let op = GpuOp {
            start,
            duration,
            name: name(cells),
            device: gpus.device(builder, owner, cells.int(DEVICE)),
            stream: cells.int(STREAM).unwrap_or(-1),
            process: threads.process(builder, owner),
            kind,
        };
        builder.trace.gpu_ops.push(op, correlation(cells, CORRELATION_ID));
        if kind == OpKind::Kernel {
            let config = launch_config(cells, FIRST_OWN + NAMES_OF_KERNELS);
            config.into_iter().for_each(|config| builder.set_launch_config_of_last_op(config));
        } else if let Some(bytes) = cells.int(FIRST_OWN + 1).and_then(|bytes| u64::try_from(bytes).ok()) {
            builder.set_bytes_of_last_op(bytes);
        }
    });
    import.count_damage(read);
}

/// Numbers of `ENUM_CUDA_MEM_KIND`. They are those of nsys, not of CUPTI, where 0 is unknown.
const PAGEABLE: Option<i64> = Some(0);
const DEVICE_MEMORY: Option<i64> = Some(2);

struct CopyNames {
    labels: HashMap<i64, String, RandomState>,
    names: HashMap<i64, NameId, RandomState>,
    /// Names of copies from pageable memory and to it.
    pageable_names: [HashMap<i64, NameId, RandomState>; 2],
}

impl CopyNames {
    fn new(import: &mut Import<'_>) -> Self {
        let mut labels: HashMap<i64, String, RandomState> =
            (0..).zip(COPY_LABELS).map(|(kind, label)| (kind, (*label).to_owned())).collect();
        if let Some(table) = import.schema.find(&COPY_KINDS) {
            labels.extend(names_by_number(&mut import.scanner, table, &["id"], &["label"], |kind| kind));
        }
        Self { labels, names: HashMap::default(), pageable_names: Default::default() }
    }

    /// Returns the name as `nsys stats -r cuda_gpu_trace` prints it. If one side is pageable memory, the name says so, as those
    /// of `torch.profiler` do. `memory` are the kinds of the source and the target. The other side must be device memory,
    /// because an exporter that does not know the kinds could write zeros.
    fn name(&mut self, names: &mut PendingNames, kind: Option<i64>, memory: (Option<i64>, Option<i64>)) -> NameId {
        let kind = kind.unwrap_or(0);
        let label = self.labels.get(&kind).map_or("Unknown", String::as_str);
        let [from_pageable, to_pageable] = &mut self.pageable_names;
        let (known, suffix) = match memory {
            (PAGEABLE, DEVICE_MEMORY) => (from_pageable, " (Pageable -> Device)"),
            (DEVICE_MEMORY, PAGEABLE) => (to_pageable, " (Device -> Pageable)"),
            _ => (&mut self.names, ""),
        };
        *known.entry(kind).or_insert_with(|| names.text(&format!("[CUDA memcpy {label}]{suffix}")))
    }
}

/// Reads CUDA graphs that were traced as a whole.
pub(super) fn read_graph_replays(import: &mut Import<'_>) {
    let Some(table) = import.schema.find(&GRAPHS) else { return };
    let (id_format, owner) = IdFormat::of(table);
    let (builder, threads, gpus) = (&mut import.builder, &mut import.threads, &mut import.gpus);
    let columns = [&["start"], &["end"], owner, &["deviceId"], CORRELATION, &["graphExecId", "graphId"]];
    let read = import.scanner.scan(table, &columns, &mut |cells| match times(cells) {
        Ok((start, duration)) => {
            let owner = threads.owner_of_op(id_format, cells.int(OWNER));
            let device = gpus.device(builder, owner, cells.int(DEVICE));
            let process = threads.process(builder, owner);
            let graph = cells.int(DEVICE + 2).and_then(|graph| u32::try_from(graph).ok());
            let replay = GraphReplay { start, duration, device, process, graph, launch: None };
            builder.add_graph_replay(replay, correlation(cells, DEVICE + 1));
        }
        Err(problem) => builder.trace.problems.add(problem, 1, cells.at),
    });
    import.count_damage(read);
}
