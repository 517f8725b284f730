//! Reader of the SQLite database of rocprofv3 (ROCm 7). The names of its tables end in the UUID of a process; a database of
//! several processes has each table several times. The views that unite them are not read: they would run SQL of the file.
//!
//! A kernel and the call that launched it have events with the same `stack_id`. One pass per table in rowid order; 16 bytes
//! per event for the join.

use super::counted::{Counter, bytes};
use super::rocpd_places::{Agent, Place, Places};
use super::{Domain, Import, TextNames, copy_name, row_times};
use crate::input::nsys::environment;
use crate::input::nsys::schema::{Schema, Table};
use crate::input::torch::is_stored_call;
use crate::json::Json;
use crate::trace::{
    DeviceProperties, Environment, GpuOp, MemoryTraffic, NameId, OpKind, ProblemKind, ProcessId, Span, TraceBuilder,
};
use std::collections::BTreeMap;

pub(in crate::input) const KERNELS: &str = "rocpd_kernel_dispatch";

/// What the small tables of one UUID say.
#[derive(Default)]
struct Infos {
    /// Pids and labels of processes, and tids, by the id of their row.
    processes: BTreeMap<i64, (i64, String)>,
    tids: BTreeMap<i64, i64>,
    agents: BTreeMap<i64, Agent>,
    /// Event, its stack id and its category; sorted by event.
    events: Vec<(i64, u32, i32)>,
    /// The counters of bytes by the id of their row; there is one per GPU.
    counters: BTreeMap<i64, Counter>,
    environment: Environment,
}

impl Infos {
    fn event(&self, id: Option<i64>) -> Option<(u32, i32)> {
        let id = id?;
        // The ids of a whole table have no gaps.
        let place = self.events.first().and_then(|first| usize::try_from(id.checked_sub(first.0)?).ok());
        let at_place = place.and_then(|place| self.events.get(place)).filter(|event| event.0 == id);
        let by_search = || self.events.get(self.events.binary_search_by_key(&id, |event| event.0).ok()?);
        at_place.or_else(by_search).map(|event| (event.1, event.2))
    }

    fn correlation(&self, event: Option<i64>) -> Option<u32> {
        self.event(event).map(|event| event.0).filter(|stack| *stack != 0)
    }

    fn process(&self, builder: &mut TraceBuilder, id: Option<i64>) -> ProcessId {
        let known = id.and_then(|id| self.processes.get(&id));
        let (pid, label) = known.map_or((-1, ""), |(pid, label)| (*pid, label.as_str()));
        builder.process(pid, label)
    }

    fn device(&self, builder: &mut TraceBuilder, id: i64) -> crate::trace::DeviceId {
        let Some(agent) = self.agents.get(&id) else { return builder.device(&id.to_string(), "") };
        let device = builder.device(&agent.device, &agent.name);
        let properties = DeviceProperties { multiprocessors: agent.compute_units, ..DeviceProperties::default() };
        builder.set_properties(device, properties);
        device
    }
}

/// Reads the database.
pub(in crate::input) fn read(import: &mut Import<'_>, schema: &Schema) {
    let suffixes: Vec<&str> = schema.tables.iter().filter_map(|table| table.name.strip_prefix(KERNELS)).collect();
    // The tables are sorted by name; there may be many.
    let table = |suffix: &str, name: &str| {
        let name = format!("{name}{suffix}");
        let found = schema.tables.binary_search_by(|table| table.name.cmp(&name)).ok()?;
        schema.tables.get(found)
    };
    let mut places = Places::default();
    suffixes.iter().for_each(|suffix| places.read(import, suffix, &|name| table(suffix, name)));
    places.label();
    let mut missing = 0;
    for suffix in suffixes {
        missing += read_process(import, places.take(suffix), &|name| table(suffix, name));
    }
    import.count_missing_names(missing);
}

/// Reads the tables with one UUID. Returns the number of names without a text.
fn read_process<'s>(import: &mut Import<'_>, place: Place, table: &dyn Fn(&str) -> Option<&'s Table>) -> u64 {
    let infos = read_infos(import, place, table);
    import.builder.trace.environment += infos.environment;
    let mut kernels = TextNames::new(
        &import.scanner,
        table("rocpd_info_kernel_symbol"),
        &["display_name", "formatted_kernel_name", "kernel_name"],
    );
    if let Some(kernel_table) = table(KERNELS) {
        let rows = read_kernels(import, kernel_table, &infos, &mut kernels);
        if let Some(values) = table("rocpd_pmc_event").filter(|_| !infos.counters.is_empty()) {
            read_counters(import, values, &infos, rows);
        }
    }
    let mut texts = TextNames::new(&import.scanner, table("rocpd_string"), &["string"]);
    if let Some(copies) = table("rocpd_memory_copy") {
        read_copies(import, copies, &infos, &mut texts);
    }
    if let Some(regions) = table("rocpd_region") {
        read_regions(import, regions, &infos, &mut texts);
    }
    kernels.missing + texts.missing
}

fn read_infos<'s>(import: &mut Import<'_>, place: Place, table: &dyn Fn(&str) -> Option<&'s Table>) -> Infos {
    let mut infos = Infos { processes: place.processes, agents: place.agents, ..Infos::default() };
    if let Some(table) = table("rocpd_info_process") {
        import.scan(table, &[&["environment"]], &mut |_, cells| {
            let text = cells.text(0).unwrap_or_default();
            environment::add_object(&mut infos.environment, &text);
        });
    }
    if let Some(table) = table("rocpd_info_thread") {
        import.scan(table, &[&["id"], &["tid"]], &mut |_, cells| {
            infos.tids.extend(cells.int(0).zip(cells.int(1)));
        });
    }
    if let Some(table) = table("rocpd_info_pmc") {
        import.scan(table, &[&["id"], &["name"]], &mut |_, cells| {
            let counter = cells.text(1).and_then(|name| Counter::named(name.as_bytes()));
            infos.counters.extend(cells.int(0).zip(counter));
        });
    }
    if let Some(table) = table("rocpd_event") {
        import.scan(table, &[&["id"], &["stack_id"], &["category_id"]], &mut |_, cells| {
            let Some(id) = cells.int(0) else { return };
            let stack = cells.int(1).and_then(|stack| u32::try_from(stack).ok()).unwrap_or_default();
            let category = cells.int(2).and_then(|category| i32::try_from(category).ok()).unwrap_or_default();
            infos.events.push((id, stack, category));
        });
        infos.events.sort_unstable();
    }
    infos
}

/// Reads the kernels. If there are counters, returns the event and the row of each kernel that has an event of its
/// own, sorted.
fn read_kernels(import: &mut Import<'_>, table: &Table, infos: &Infos, names: &mut TextNames<'_>) -> Vec<(i64, u32)> {
    let mut row_of_event = Vec::new();
    let (mut devices, mut processes) = (BTreeMap::new(), BTreeMap::new());
    let rows = import.scanner.max_rows(Some(table));
    import.builder.trace.gpu_ops.reserve(rows);
    let columns: &[&[&str]] =
        &[&["start"], &["end"], &["pid"], &["agent_id"], &["stream_id", "queue_id"], &["kernel_id"], &["event_id"]];
    import.scan(table, columns, &mut |builder, cells| {
        let Some((start, duration)) = row_times(builder, cells, true) else { return };
        let op = GpuOp {
            start,
            duration,
            name: names.name(&mut builder.trace.names, cells.int(5).unwrap_or_default()),
            device: *devices
                .entry(cells.int(3))
                .or_insert_with(|| infos.device(builder, cells.int(3).unwrap_or_default())),
            stream: cells.int(4).unwrap_or(-1),
            process: *processes.entry(cells.int(2)).or_insert_with(|| infos.process(builder, cells.int(2))),
            kind: OpKind::Kernel,
        };
        if let Some(event) = cells.int(6).filter(|_| !infos.counters.is_empty()) {
            row_of_event.push((event, builder.trace.gpu_ops.len() as u32));
        }
        builder.trace.gpu_ops.push(op, infos.correlation(cells.int(6)));
    });
    row_of_event.sort_unstable();
    // Which of several kernels with one event was counted is not known.
    row_of_event
        .chunk_by(|a, b| a.0 == b.0)
        .filter_map(|same| if let [only] = same { Some(*only) } else { None })
        .collect()
}

/// Gives the kernels the bytes of their counters, which have the same event. A counter may have a row per instance.
fn read_counters(import: &mut Import<'_>, table: &Table, infos: &Infos, row_of_event: Vec<(i64, u32)>) {
    let mut traffic: BTreeMap<u32, MemoryTraffic> = BTreeMap::new();
    import.scan(table, &[&["event_id"], &["pmc_id"], &["value"]], &mut |builder, cells| {
        let Some(counter) = cells.int(1).and_then(|id| infos.counters.get(&id)) else {
            builder.trace.events.other += 1;
            return;
        };
        let event = cells.int(0);
        let found = row_of_event.binary_search_by_key(&event, |(event, _)| Some(*event)).ok();
        let row = found.and_then(|found| row_of_event.get(found)).map(|(_, row)| *row);
        match (row, cells.number(2).and_then(bytes)) {
            (Some(row), Some(bytes)) => counter.add(bytes, traffic.entry(row).or_default()),
            _ => builder.trace.problems.add(ProblemKind::UnknownCounter, 1, cells.at),
        }
    });
    import.builder.trace.memory_traffic.extend(traffic);
}

fn read_copies(import: &mut Import<'_>, table: &Table, infos: &Infos, texts: &mut TextNames<'_>) {
    let mut names: BTreeMap<i64, String> = BTreeMap::new();
    let columns: &[&[&str]] = &[
        &["start"],
        &["end"],
        &["pid"],
        &["dst_agent_id"],
        &["src_agent_id"],
        &["stream_id", "queue_id"],
        &["name_id"],
        &["event_id"],
        &["size"],
    ];
    import.scan(table, columns, &mut |builder, cells| {
        let Some((start, duration)) = row_times(builder, cells, true) else { return };
        let name_id = cells.int(6).unwrap_or_default();
        let direction = names.entry(name_id).or_insert_with(|| texts.text(name_id).unwrap_or_default());
        let is_gpu = |id: &i64| infos.agents.get(id).is_none_or(|agent| agent.is_gpu);
        let agent = cells.int(3).filter(is_gpu).or_else(|| cells.int(4)).unwrap_or_default();
        let op = GpuOp {
            start,
            duration,
            name: builder.trace.names.intern(&copy_name(direction)),
            device: infos.device(builder, agent),
            stream: cells.int(5).unwrap_or(-1),
            process: infos.process(builder, cells.int(2)),
            kind: OpKind::Copy,
        };
        builder.trace.gpu_ops.push(op, infos.correlation(cells.int(7)));
        if let Some(size) = cells.int(8).and_then(|size| u64::try_from(size).ok()) {
            builder.set_bytes_of_last_op(size);
        }
    });
}

/// What the name of a region says.
struct RegionName {
    text: String,
    is_stored_call: bool,
    /// Its name among the calls, once there is one.
    call: Option<NameId>,
}

/// Regions are API calls and markers, told apart by the category of their event. Names and categories are looked up once.
fn read_regions(import: &mut Import<'_>, table: &Table, infos: &Infos, texts: &mut TextNames<'_>) {
    let is_gpu_only = import.is_gpu_only;
    let (mut domains, mut processes) = (BTreeMap::new(), BTreeMap::new());
    let mut names: BTreeMap<i64, RegionName> = BTreeMap::new();
    let columns: &[&[&str]] = &[&["start"], &["end"], &["pid"], &["tid"], &["name_id"], &["event_id"], &["extdata"]];
    import.scan(table, columns, &mut |builder, cells| {
        builder.trace.events.cpu += 1;
        let event = infos.event(cells.int(5));
        let category = event.map(|event| i64::from(event.1));
        let domain = *domains
            .entry(category)
            .or_insert_with(|| Domain::of(&category.and_then(|id| texts.text(id)).unwrap_or_default()));
        let name_id = cells.int(4).unwrap_or_default();
        let name = names.entry(name_id).or_insert_with(|| {
            let text = texts.text(name_id).unwrap_or_default();
            RegionName { is_stored_call: is_stored_call(text.as_bytes()), text, call: None }
        });
        if domain == Domain::Inner || domain == Domain::Call && !name.is_stored_call {
            return;
        }
        if is_gpu_only {
            return builder.trace.problems.add(ProblemKind::LeftOut, 1, cells.at);
        }
        let Some((start, duration)) = row_times(builder, cells, false) else { return };
        let process = *processes.entry(cells.int(2)).or_insert_with(|| infos.process(builder, cells.int(2)));
        let tid = cells.int(3).and_then(|id| infos.tids.get(&id)).copied().unwrap_or(-1);
        let thread = builder.thread(process, tid);
        if domain == Domain::Marker {
            let message = |text: &str| Some(Json::parse(text).ok()?.get_path(&["message"])?.text()?.into_owned());
            let message = cells.text(6).and_then(|text| message(&text));
            let text = message.filter(|text| !text.is_empty()).unwrap_or_else(|| name.text.clone());
            return builder.add_range(&text, (thread, start, duration));
        }
        let name = *name.call.get_or_insert_with(|| builder.trace.calls.names.intern(&name.text));
        let correlation = event.map(|event| event.0).filter(|stack| *stack != 0);
        builder.add_call(Span { start, duration, name, thread }, correlation);
    });
}
