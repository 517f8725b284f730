//! Whose a row is: the process, thread and GPU behind the numbers that nsys packs.

use super::scan::Scanner;
use super::schema::{CUDA_DEVICES, CUDA_GPUS, GPUS, PROCESSES, Schema, Table};
use crate::trace::{DeviceId, ProcessId, ThreadId, TraceBuilder};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// A global id holds the process in the bits above these, and the thread in these.
const THREAD_BITS: u32 = 24;
const LOW_BITS: i64 = (1 << THREAD_BITS) - 1;

/// What the trace calls a process, thread or GPU that a row does not tell.
const UNKNOWN: i64 = -1;

/// The columns that tell a process, the plain ones first.
const PLAIN: &[&str] = &["pid", "processId"];
const GLOBAL: &[&str] = &["globalPid", "globalTid", "global_tid"];

/// How the rows of one table tell their process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdFormat {
    Plain,
    Global,
}

impl IdFormat {
    /// The packing of a table, and the names of the column to ask for.
    pub(super) fn of(table: &Table) -> (Self, &'static [&'static str]) {
        if table.column(PLAIN).is_some() { (Self::Plain, PLAIN) } else { (Self::Global, GLOBAL) }
    }

    pub(super) fn pid(self, value: Option<i64>) -> i64 {
        match (self, value) {
            (_, None) => UNKNOWN,
            (Self::Plain, Some(pid)) => pid,
            (Self::Global, Some(global)) => (global >> THREAD_BITS) & LOW_BITS,
        }
    }
}

/// The processes and threads met so far.
#[derive(Debug, Default)]
pub(super) struct ThreadTable {
    names: HashMap<i64, String, RandomState>,
    processes: HashMap<i64, ProcessId, RandomState>,
    last_process: Option<(i64, ProcessId)>,
    threads: HashMap<i64, ThreadId, RandomState>,
    last_thread: Option<(i64, ThreadId)>,
}

impl ThreadTable {
    pub(super) fn read(scanner: &mut Scanner<'_>, schema: &Schema) -> Self {
        let mut hosts = Self::default();
        if let Some(table) = schema.find(&PROCESSES) {
            let (packing, column) = IdFormat::of(table);
            // Names alone are lost where the table is damaged.
            let _ = scanner.scan(table, &[column, &["name"]], &mut |cells| {
                if let (Some(global), Some(name)) = (cells.int(0), cells.text(1)) {
                    hosts.names.entry(packing.pid(Some(global))).or_insert_with(|| name.into_owned());
                }
            });
        }
        hosts
    }

    pub(super) fn process(&mut self, builder: &mut TraceBuilder, pid: i64) -> ProcessId {
        if let Some((last, process)) = self.last_process
            && last == pid
        {
            return process;
        }
        let name = self.names.get(&pid).map_or("", String::as_str);
        let process = *self.processes.entry(pid).or_insert_with(|| builder.process(pid, name));
        self.last_process = Some((pid, process));
        process
    }

    /// The thread behind a global thread id, or the unknown thread of the unknown process.
    pub(super) fn thread(&mut self, builder: &mut TraceBuilder, packing: IdFormat, value: Option<i64>) -> ThreadId {
        let key = value.unwrap_or(i64::MIN);
        if let Some((last, thread)) = self.last_thread
            && last == key
        {
            return thread;
        }
        let thread = match self.threads.get(&key) {
            Some(&thread) => thread,
            None => {
                let process = self.process(builder, packing.pid(value));
                let tid = match (packing, value) {
                    (IdFormat::Global, Some(global)) => global & LOW_BITS,
                    _ => UNKNOWN,
                };
                builder.thread(process, tid)
            }
        };
        self.threads.insert(key, thread);
        self.last_thread = Some((key, thread));
        thread
    }

    /// Another table may pack its ids differently.
    pub(super) fn next_table(&mut self) {
        self.threads.clear();
        self.last_thread = None;
    }
}

/// The GPUs of the machine and what CUDA calls them.
#[derive(Debug, Default)]
pub(super) struct Gpus {
    /// By the number that kernels carry, or by the machine's number where those collide.
    names: HashMap<i64, String, RandomState>,
    /// The machine's number by process and CUDA's number; only where two processes call two GPUs by one number.
    renumbered: HashMap<(i64, i64), i64, RandomState>,
    known: HashMap<i64, DeviceId, RandomState>,
    last: Option<((i64, i64), DeviceId)>,
}

impl Gpus {
    pub(super) fn read(scanner: &mut Scanner<'_>, schema: &Schema) -> Self {
        let machine = machine_gpus(scanner, schema);
        let mut by_cuda: Vec<(i64, i64, i64)> = Vec::new();
        if let Some(table) = schema.find(&CUDA_DEVICES) {
            let _ = scanner.scan(table, &[&["pid"], &["cudaId"], &["gpuId"]], &mut |cells| {
                if let (Some(pid), Some(cuda), Some(gpu)) = (cells.int(0), cells.int(1), cells.int(2)) {
                    by_cuda.push((pid, cuda, gpu));
                }
            });
        }
        let mut gpu_of_cuda: HashMap<i64, i64, RandomState> = HashMap::default();
        let collide = by_cuda.iter().any(|(_, cuda, gpu)| *gpu_of_cuda.entry(*cuda).or_insert(*gpu) != *gpu);
        if collide {
            let renumbered = by_cuda.iter().map(|(pid, cuda, gpu)| ((*pid, *cuda), *gpu)).collect();
            return Self { names: machine, renumbered, ..Self::default() };
        }
        let mut names = cuda_gpus(scanner, schema);
        for (cuda, gpu) in by_cuda.iter().map(|(_, cuda, gpu)| (cuda, gpu)) {
            if let Some(name) = machine.get(gpu) {
                names.insert(*cuda, name.clone());
            }
        }
        if names.is_empty() {
            names = machine;
        }
        Self { names, ..Self::default() }
    }

    /// The device that this process calls by this number.
    pub(super) fn device(&mut self, builder: &mut TraceBuilder, pid: i64, number: Option<i64>) -> DeviceId {
        let key = (pid, number.unwrap_or(UNKNOWN));
        if let Some((last, device)) = self.last
            && last == key
        {
            return device;
        }
        let number = self.renumbered.get(&key).copied().unwrap_or(key.1);
        let name = self.names.get(&number).map_or("", String::as_str);
        let device = *self.known.entry(number).or_insert_with(|| builder.device(&number.to_string(), name));
        self.last = Some((key, device));
        device
    }

    /// The device of this number, where GPU ops ran on it.
    pub(super) fn known(&self, number: i64) -> Option<DeviceId> {
        self.known.get(&number).copied()
    }
}

type GpuNames = HashMap<i64, String, RandomState>;

fn machine_gpus(scanner: &mut Scanner<'_>, schema: &Schema) -> GpuNames {
    gpu_names(scanner, schema.find(&GPUS), &["id", "deviceId"])
}

fn cuda_gpus(scanner: &mut Scanner<'_>, schema: &Schema) -> GpuNames {
    gpu_names(scanner, schema.find(&CUDA_GPUS), &["deviceId"])
}

fn gpu_names(scanner: &mut Scanner<'_>, table: Option<&Table>, number: &[&str]) -> GpuNames {
    let mut names = GpuNames::default();
    if let Some(table) = table {
        // Names alone are lost where the table is damaged.
        let _ = scanner.scan(table, &[number, &["name"]], &mut |cells| {
            if let (Some(number), Some(name)) = (cells.int(0), cells.text(1)) {
                names.entry(number).or_insert_with(|| name.into_owned());
            }
        });
    }
    names
}
