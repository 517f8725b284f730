//! Resolves the packed ids of nsys to processes, threads and GPUs.

use super::scanner::Scanner;
use super::schema::{CUDA_DEVICES, CUDA_GPUS, GPUS, PROCESSES, Role, Schema, Table};
use crate::input::machines::on_machine;
use crate::trace::{DeviceId, DeviceProperties, ProcessId, ThreadId, TraceBuilder};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};

/// A global id has the thread in bits 0-23, the process in bits 24-47, and the virtual and the real machine above.
const THREAD_BITS: u32 = 24;
const MACHINE_BITS: u32 = 48;
const THREAD_MASK: i64 = (1 << THREAD_BITS) - 1;

/// The number of a process, thread or GPU that is not recorded.
const UNKNOWN: i64 = -1;

/// Columns of a plain process id, which are preferred, and of a global id.
const PLAIN: &[&str] = &["pid", "processId"];
const GLOBAL: &[&str] = &["globalPid", "globalTid", "global_tid"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdFormat {
    Plain,
    Global,
}

impl IdFormat {
    /// Returns the id format of a table, and the candidate names of the id column.
    pub(super) fn of(table: &Table) -> (Self, &'static [&'static str]) {
        if table.column(PLAIN).is_some() { (Self::Plain, PLAIN) } else { (Self::Global, GLOBAL) }
    }

    fn machine(self, value: Option<i64>) -> Option<i64> {
        value.filter(|_| self == Self::Global).map(|global| global >> MACHINE_BITS)
    }

    fn pid(self, value: Option<i64>) -> i64 {
        match (self, value) {
            (_, None) => UNKNOWN,
            (Self::Plain, Some(pid)) => pid,
            (Self::Global, Some(global)) => (global >> THREAD_BITS) & THREAD_MASK,
        }
    }
}

/// A process on a machine. Two machines number their processes and GPUs alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Owner {
    /// The place of the machine in the order of GPU ops.
    machine: usize,
    pid: i64,
}

/// The processes and threads seen so far, with one-entry caches because ids repeat in consecutive rows.
#[derive(Debug, Default)]
pub(super) struct ThreadTable {
    /// By machine, if the table has it, and pid.
    names: HashMap<(Option<i64>, i64), String, RandomState>,
    /// The ids of machines that ran GPU ops. Rows with another id belong to the first.
    machines: Vec<i64>,
    processes: HashMap<Owner, ProcessId, RandomState>,
    last_process: Option<(Owner, ProcessId)>,
    threads: HashMap<i64, ThreadId, RandomState>,
    last_thread: Option<(i64, ThreadId)>,
}

impl ThreadTable {
    pub(super) fn read(scanner: &mut Scanner<'_>, schema: &Schema) -> Self {
        let Some(table) = schema.find(&PROCESSES) else { return Self::default() };
        let (id_format, column) = IdFormat::of(table);
        let by_id = names_by_number(scanner, table, column, &["name"], |id| id);
        let by_id: BTreeMap<i64, String> = by_id.into_iter().collect();
        let mut names = HashMap::default();
        for (id, name) in by_id {
            let (machine, pid) = (id_format.machine(Some(id)), id_format.pid(Some(id)));
            for machine in [machine, None] {
                names.entry((machine, pid)).or_insert_with(|| name.clone());
            }
        }
        Self { names, ..Self::default() }
    }

    /// The process of a GPU op.
    pub(super) fn owner_of_op(&mut self, id_format: IdFormat, value: Option<i64>) -> Owner {
        if let Some(machine) = id_format.machine(value)
            && !self.machines.contains(&machine)
        {
            self.machines.push(machine);
        }
        self.owner(id_format, value)
    }

    /// The process of another row.
    pub(super) fn owner(&self, id_format: IdFormat, value: Option<i64>) -> Owner {
        let machine = id_format.machine(value).and_then(|id| self.machines.iter().position(|known| *known == id));
        Owner { machine: machine.unwrap_or(0), pid: id_format.pid(value) }
    }

    pub(super) fn process(&mut self, builder: &mut TraceBuilder, owner: Owner) -> ProcessId {
        if let Some((last, process)) = self.last_process
            && last == owner
        {
            return process;
        }
        let machine = self.machines.get(owner.machine).copied();
        let name = self.names.get(&(machine, owner.pid)).or_else(|| self.names.get(&(None, owner.pid)));
        let name = name.map_or("", String::as_str);
        let process = *self.processes.entry(owner).or_insert_with(|| match owner.machine {
            0 => builder.process(owner.pid, name),
            machine => builder.process(owner.pid, &on_machine(machine, name)),
        });
        self.last_process = Some((owner, process));
        process
    }

    /// Says of the processes of the first machine, too, on which machine they ran, if there are several.
    pub(super) fn name_machines(&self, builder: &mut TraceBuilder) {
        for (_, process) in self.processes.iter().filter(|(owner, _)| owner.machine == 0 && self.machines.len() > 1) {
            if let Some(process) = builder.trace.processes.get_mut(process.0 as usize) {
                process.name = on_machine(0, &process.name);
            }
        }
    }

    /// Returns the thread of a global thread id; without an id, the unknown thread of the unknown process.
    pub(super) fn thread(&mut self, builder: &mut TraceBuilder, id_format: IdFormat, value: Option<i64>) -> ThreadId {
        let key = value.unwrap_or(i64::MIN);
        if let Some((last, thread)) = self.last_thread
            && last == key
        {
            return thread;
        }
        let thread = match self.threads.get(&key) {
            Some(&thread) => thread,
            None => {
                let process = self.process(builder, self.owner(id_format, value));
                let tid = match (id_format, value) {
                    (IdFormat::Global, Some(global)) => global & THREAD_MASK,
                    _ => UNKNOWN,
                };
                builder.thread(process, tid)
            }
        };
        self.threads.insert(key, thread);
        self.last_thread = Some((key, thread));
        thread
    }

    /// Clears the caches of thread ids. Call it before each table, because tables may have different id formats.
    pub(super) fn start_table(&mut self) {
        self.threads.clear();
        self.last_thread = None;
    }
}

/// Product name and figures of a GPU.
#[derive(Debug, Clone)]
struct Gpu {
    name: String,
    properties: DeviceProperties,
}

/// The GPUs of the machine, and their CUDA device numbers per process.
#[derive(Debug, Default)]
pub(super) struct Gpus {
    /// By device number: that of CUDA, or that of the machine if `machine_numbers` is used.
    gpus: HashMap<i64, Gpu, RandomState>,
    /// Machine number by pid and CUDA number. Empty unless two processes use one CUDA number for two GPUs.
    machine_numbers: HashMap<(i64, i64), i64, RandomState>,
    /// By machine and number.
    devices: HashMap<(usize, i64), DeviceId, RandomState>,
    last: Option<((Owner, i64), DeviceId)>,
}

impl Gpus {
    pub(super) fn read(scanner: &mut Scanner<'_>, schema: &Schema) -> Self {
        let mut gpus = |role: &Role, number: &[&str]| {
            let table = schema.find(role);
            table.map(|table| gpus_by_number(scanner, table, number)).unwrap_or_default()
        };
        let (machine, cuda) = (gpus(&GPUS, &["id", "deviceId"]), gpus(&CUDA_GPUS, &["deviceId"]));
        let mut by_cuda: Vec<(i64, i64, i64)> = Vec::new();
        if let Some(table) = schema.find(&CUDA_DEVICES) {
            let _ = scanner.scan(table, &[&["pid"], &["cudaId"], &["gpuId"]], &mut |cells| {
                if let (Some(pid), Some(cuda), Some(gpu)) = (cells.int(0), cells.int(1), cells.int(2)) {
                    by_cuda.push((pid, cuda, gpu));
                }
            });
        }
        let mut gpu_of_cuda: HashMap<i64, i64, RandomState> = HashMap::default();
        let has_conflict = by_cuda.iter().any(|(_, cuda, gpu)| *gpu_of_cuda.entry(*cuda).or_insert(*gpu) != *gpu);
        if has_conflict {
            let machine_numbers = by_cuda.iter().map(|(pid, cuda, gpu)| ((*pid, *cuda), *gpu)).collect();
            return Self { gpus: machine, machine_numbers, ..Self::default() };
        }
        let mut gpus = cuda;
        for (cuda, gpu) in by_cuda.iter().map(|(_, cuda, gpu)| (cuda, gpu)) {
            if let Some(gpu) = machine.get(gpu) {
                gpus.insert(*cuda, gpu.clone());
            }
        }
        if gpus.is_empty() {
            gpus = machine;
        }
        Self { gpus, ..Self::default() }
    }

    /// Returns the device with this number in the process.
    pub(super) fn device(&mut self, builder: &mut TraceBuilder, owner: Owner, number: Option<i64>) -> DeviceId {
        let number = number.unwrap_or(UNKNOWN);
        if let Some((last, device)) = self.last
            && last == (owner, number)
        {
            return device;
        }
        let of_machine = self.machine_numbers.get(&(owner.pid, number)).copied().unwrap_or(number);
        let device = *self.devices.entry((owner.machine, of_machine)).or_insert_with(|| {
            let gpu = self.gpus.get(&of_machine);
            let id = match owner.machine {
                0 => of_machine.to_string(),
                machine => on_machine(machine, &of_machine.to_string()),
            };
            let device = builder.device(&id, gpu.map_or("", |gpu| gpu.name.as_str()));
            builder.set_properties(device, gpu.map(|gpu| gpu.properties).unwrap_or_default());
            device
        });
        self.last = Some(((owner, number), device));
        device
    }

    /// Says of the devices of the first machine, too, where they are, if there are several machines.
    pub(super) fn name_machines(&self, builder: &mut TraceBuilder) {
        let has_several = self.devices.keys().any(|(machine, _)| *machine > 0);
        for (_, device) in self.devices.iter().filter(|((machine, _), _)| *machine == 0 && has_several) {
            if let Some(device) = builder.trace.devices.get_mut(device.0 as usize) {
                device.id = on_machine(0, &device.id);
            }
        }
    }

    /// Returns the device of this number, if GPU ops ran on it.
    pub(super) fn existing_device(&self, number: i64) -> Option<DeviceId> {
        self.devices.get(&(0, number)).copied()
    }
}

/// Reads a table of GPUs. If it is damaged, only names and figures are lost.
fn gpus_by_number(scanner: &mut Scanner<'_>, table: &Table, number: &[&str]) -> HashMap<i64, Gpu, RandomState> {
    let columns: [&[&str]; 6] = [
        number,
        &["name"],
        &["computeMajor", "computeCapabilityMajor", "smMajor"],
        &["computeMinor", "computeCapabilityMinor", "smMinor"],
        &["smCount", "numMultiprocessors"],
        &["totalMemory", "globalMemorySize"],
    ];
    let mut gpus = HashMap::default();
    let _ = scanner.scan(table, &columns, &mut |cells| {
        let (Some(number), Some(name)) = (cells.int(0), cells.text(1)) else { return };
        let name = name.into_owned();
        let figure = |column| cells.int(column).and_then(|figure| u32::try_from(figure).ok());
        let properties = DeviceProperties {
            capability: figure(2).zip(figure(3)).map(|(major, minor)| major.saturating_mul(10).saturating_add(minor)),
            multiprocessors: figure(4),
            memory_bytes: cells.int(5).and_then(|bytes| u64::try_from(bytes).ok()),
        };
        gpus.entry(number).or_insert(Gpu { name, properties });
    });
    gpus
}

/// Reads a table of names. `key` converts the number of a row to the key of the map. If the table is damaged, only names are
/// lost.
pub(super) fn names_by_number(
    scanner: &mut Scanner<'_>,
    table: &Table,
    number: &[&str],
    name: &[&str],
    key: impl Fn(i64) -> i64,
) -> HashMap<i64, String, RandomState> {
    let mut names = HashMap::default();
    let _ = scanner.scan(table, &[number, name], &mut |cells| {
        if let (Some(number), Some(name)) = (cells.int(0), cells.text(1)) {
            names.entry(key(number)).or_insert_with(|| name.into_owned());
        }
    });
    names
}
