//! Plays a program on a host and a GPU and records what a profiler would see. All dependencies are known, because the
//! machine makes them.
//!
//! Host threads run instruction by instruction, the earliest first. Streams run their ops in order; an op starts when
//! its launch has arrived, the op before has ended, and what the stream waits for has ended. Launches return at once,
//! unless the launch queue is full. [`World`] has what hardware and surroundings add.

use super::noise::{Of, Place};
use super::program::{Change, Direction, Instruction, MAIN, Memory, TAKES_BATCH, Thread, code_name};
use super::torch::{Category, Event};
use std::collections::{BTreeMap, BTreeSet};

const US: f64 = 1_000.0;
/// When the program begins.
const BEGIN: i64 = 2_000_000;
const LAUNCH_CALL_US: f64 = 4.2;
const GRAPH_CALL_US: f64 = 10.0;
const LATENCY_US: f64 = 5.5;
const TURNAROUND_US: f64 = 1.2;
const GRAPH_TURNAROUND_US: f64 = 0.7;
const COPY_CALL_US: f64 = 5.5;
const SYNCHRONIZE_US: f64 = 2.4;
const RETURN_US: f64 = 4.5;
/// What a thread needs to wake another one.
const WAKE_US: f64 = 25.0;
/// Copies to the device from pageable memory return at once up to this size.
const STAGED_BYTES: u64 = 65_536;
const COPIED_BYTES_PER_US: f64 = 12_000.0;
const STAGED_BYTES_PER_US: f64 = 10_000.0;
/// A kernel of this length fills the GPU.
const FILLING: i64 = 50_000;

/// What hardware and surroundings do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct World {
    pub(crate) queue_depth: usize,
    /// A full queue has room again when this many launches are finished.
    pub(crate) queue_batch: usize,
    /// The clock of the GPU is late by this, and by up to about as much again at random.
    pub(crate) skew_us: f64,
    pub(crate) jitter_us: f64,
    /// Ops take this much longer while another stream is busy.
    pub(crate) contention: f64,
    /// Kernels start this long before the one before ends (programmatic dependent launch).
    pub(crate) overlap_us: f64,
    /// Kernels of other streams start when a long kernel of the main stream is nearly done.
    pub(crate) has_full_gpu: bool,
    /// The host asks for the end of work again and again.
    pub(crate) polls: bool,
    /// The trace has no calls for events.
    pub(crate) hides_events: bool,
    /// Each collective ends no earlier than the other ranks allow: one every so many microseconds.
    pub(crate) rank_period_us: Option<f64>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            queue_depth: 1_024,
            queue_batch: 1,
            skew_us: 0.0,
            jitter_us: 0.0,
            contention: 1.0,
            overlap_us: 0.0,
            has_full_gpu: false,
            polls: false,
            hides_events: false,
            rank_period_us: None,
        }
    }
}

/// What happened.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) events: Vec<Event>,
    /// The time from the start of the first GPU op to the end of the last one: a step is measured from its first op on.
    pub(crate) length: i64,
    /// The time before it.
    pub(crate) before_first_op: i64,
}

/// Plays a program with these changes.
pub(crate) fn play(threads: &[Thread], world: World, seed: u64, changes: &[Change]) -> Recording {
    let mut machine = Machine::new(threads.len(), world, seed, changes);
    while let Some(index) = machine.next_thread(threads) {
        machine.step(index, threads);
    }
    let ops = || machine.events.iter().filter(|event| event.is_gpu_op());
    let first_start = ops().map(|event| event.start).min().unwrap_or(BEGIN);
    let length = ops().map(Event::end).max().unwrap_or(BEGIN) - first_start;
    let (skew, jitter) = (world.skew_us * US, world.jitter_us * US);
    if skew != 0.0 || jitter != 0.0 {
        for (index, event) in machine.events.iter_mut().enumerate().filter(|(_, event)| event.is_gpu_op()) {
            let place = Place { seed, thread: 0, instruction: index, kernel: 0 };
            event.start += (skew + jitter * (place.factor(Of::Clock, 0.5) - 1.0)) as i64;
        }
    }
    if world.hides_events {
        machine.events.retain(|event| !event.name.contains("Event"));
    }
    Recording { events: machine.events, length, before_first_op: first_start - BEGIN }
}

#[derive(Default)]
struct Stream {
    /// The end of its last op.
    end: Option<i64>,
    /// Its next op waits for this time.
    gate: Option<i64>,
    launch_ends: Vec<i64>,
    spans: Vec<(i64, i64)>,
}

#[derive(Default)]
struct HostThread {
    now: i64,
    instruction: usize,
    step: usize,
    step_start: i64,
    /// In a region that is launched as one graph: when its launch arrives.
    graph_arrival: Option<i64>,
    graph_correlation: u64,
}

/// A worker that makes batches.
#[derive(Default)]
struct Worker {
    ready: i64,
    taken: Vec<i64>,
}

struct Machine<'a> {
    world: World,
    seed: u64,
    changes: &'a [Change],
    threads: Vec<HostThread>,
    streams: BTreeMap<i64, Stream>,
    recorded: BTreeMap<u32, i64>,
    signals: BTreeMap<u32, i64>,
    seen_kernels: BTreeSet<String>,
    worker: Worker,
    collectives: usize,
    correlation: u64,
    events: Vec<Event>,
    /// The thread and place of the instruction that runs.
    thread: usize,
    place: Place,
}

/// A GPU op that was launched.
struct Launched<'a> {
    category: Category,
    name: &'a str,
    stream: i64,
    us: f64,
    arrival: i64,
    turnaround_us: f64,
    correlation: u64,
    bytes: u64,
}

impl<'a> Machine<'a> {
    fn new(threads: usize, world: World, seed: u64, changes: &'a [Change]) -> Self {
        let thread = |index: usize| HostThread { now: BEGIN + 3_000 * index as i64, ..HostThread::default() };
        Self {
            world,
            seed,
            changes,
            threads: (0..threads).map(thread).collect(),
            streams: BTreeMap::new(),
            recorded: BTreeMap::new(),
            signals: BTreeMap::new(),
            seen_kernels: BTreeSet::new(),
            worker: Worker { ready: BEGIN, taken: Vec::new() },
            collectives: 0,
            correlation: 0,
            events: Vec::new(),
            thread: 0,
            place: Place { seed, thread: 0, instruction: 0, kernel: 0 },
        }
    }

    fn has(&self, change: Change) -> bool {
        self.changes.contains(&change)
    }

    /// The earliest thread that can go on.
    fn next_thread(&self, threads: &[Thread]) -> Option<usize> {
        let can_go_on = |index: &usize| match threads[*index].0.get(self.threads[*index].instruction) {
            Some(Instruction::Await(signal)) => self.signals.contains_key(signal),
            instruction => instruction.is_some(),
        };
        (0..threads.len()).filter(can_go_on).min_by_key(|index| self.threads[*index].now)
    }

    fn now(&mut self) -> &mut i64 {
        &mut self.threads[self.thread].now
    }

    fn factor(&self, of: Of, spread: f64) -> f64 {
        self.place.factor(of, spread)
    }

    fn step(&mut self, index: usize, threads: &[Thread]) {
        let instruction = self.threads[index].instruction;
        self.thread = index;
        self.place = Place { seed: self.seed, thread: index, instruction, kernel: 0 };
        self.threads[index].instruction += 1;
        self.execute(&threads[index].0[instruction]);
    }

    fn execute(&mut self, instruction: &Instruction) {
        let is_in_graph = self.threads[self.thread].graph_arrival.is_some();
        match instruction {
            Instruction::BeginStep => self.threads[self.thread].step_start = self.threads[self.thread].now,
            Instruction::EndStep => self.end_step(),
            Instruction::Code { function, us } if !is_in_graph => self.code(function, *us),
            Instruction::Code { .. } => {}
            Instruction::Launch { kernel, us, stream, first_us } => self.launch(kernel, *us, *stream, *first_us),
            Instruction::Graph { kernels, stream } => self.graph(kernels, *stream),
            Instruction::BeginRegion => self.begin_region(),
            Instruction::EndRegion => self.threads[self.thread].graph_arrival = None,
            Instruction::Copy { direction, bytes, memory, stream } => self.copy(*direction, *bytes, *memory, *stream),
            Instruction::Synchronize { stream, function } => self.synchronize(*stream, function),
            Instruction::Record { event, stream } => {
                self.call("cudaEventRecord", 0.9);
                let end = self.streams.entry(*stream).or_default().end.unwrap_or_default();
                self.recorded.insert(*event, end);
            }
            Instruction::WaitEvent { event, stream } => {
                self.call("cudaStreamWaitEvent", 0.9);
                let end = self.recorded.get(event).copied();
                let stream = self.streams.entry(*stream).or_default();
                stream.gate = stream.gate.max(end);
            }
            Instruction::Allocate { us } => drop(self.allocation("cudaMalloc", *us)),
            Instruction::Free { us } => self.free(*us),
            Instruction::TakeBatch { worker_us } => self.take_batch(*worker_us),
            Instruction::Signal(signal) => drop(self.signals.insert(*signal, self.threads[self.thread].now)),
            Instruction::Await(signal) => {
                let wake = if self.has(Change::WithoutHost) { 0.0 } else { WAKE_US };
                let woken = self.signals[signal] + (wake * US) as i64;
                *self.now() = woken.max(*self.now());
            }
        }
    }

    fn host_event(&mut self, category: Category, name: String, start: i64, correlation: u64) -> usize {
        let thread = &self.threads[self.thread];
        let duration = thread.now - start;
        let row = self.thread as i64 + 1;
        self.events.push(Event { category, name, row, start, duration, correlation, bytes: 0 });
        self.events.len() - 1
    }

    /// The last call lasts until now.
    fn extend(&mut self, call: usize, until: i64) {
        let now = until.max(*self.now());
        *self.now() = now;
        self.events[call].duration = now - self.events[call].start;
    }

    fn end_step(&mut self) {
        let (step, start) = (self.threads[self.thread].step, self.threads[self.thread].step_start);
        self.host_event(Category::Step, format!("ProfilerStep#{step}"), start, 0);
        self.threads[self.thread].step += 1;
    }

    fn code(&mut self, function: &'static str, us: f64) {
        let gone = [Change::WithoutCode(function), Change::WithoutHost, Change::WithoutCodeBetweenCalls];
        if us == 0.0 || gone.iter().any(|change| self.has(*change)) {
            return;
        }
        let start = *self.now();
        *self.now() += (us * US * self.factor(Of::Code, 0.15)) as i64;
        let category = if function.contains("::") { Category::CpuOp } else { Category::Function };
        self.host_event(category, code_name(function), start, 0);
    }

    /// The own time of a call. Returns its event and its start.
    fn call(&mut self, name: &str, us: f64) -> (usize, i64) {
        let own = if self.has(Change::WithoutHost) { 0.0 } else { us * US * self.factor(Of::Call, 0.15) };
        let start = *self.now();
        *self.now() += own as i64;
        self.correlation += 1;
        (self.host_event(Category::Call, name.to_owned(), start, self.correlation), start)
    }

    fn begin_region(&mut self) {
        if self.has(Change::Graphs) {
            let (_, start) = self.call("cudaGraphLaunch", GRAPH_CALL_US);
            let thread = &mut self.threads[self.thread];
            thread.graph_arrival = Some(start + (LATENCY_US * US) as i64);
            thread.graph_correlation = self.correlation;
        }
    }

    fn launch(&mut self, kernel: &str, us: f64, stream: i64, first_us: Option<f64>) {
        let op = |arrival, correlation, turnaround_us| Launched {
            category: Category::Kernel,
            name: kernel,
            stream,
            us,
            arrival,
            turnaround_us,
            correlation,
            bytes: 0,
        };
        let thread = &self.threads[self.thread];
        if let Some(arrival) = thread.graph_arrival {
            self.run(&op(arrival, thread.graph_correlation, GRAPH_TURNAROUND_US));
            return;
        }
        let is_new = self.seen_kernels.insert(kernel.to_owned());
        let loads = first_us.filter(|_| is_new && !self.has(Change::WarmedUp));
        let (call, start) = self.call("cudaLaunchKernel", loads.unwrap_or(LAUNCH_CALL_US));
        self.wait_for_room(stream, call, start);
        let latency = (LATENCY_US * US * self.factor(Of::Latency, 0.08)) as i64;
        let arrival = if loads.is_some() { *self.now() + 1_500 } else { start + latency };
        let end = self.run(&op(arrival, self.correlation, TURNAROUND_US));
        self.enqueue(stream, end);
    }

    /// A launch is in the queue of its stream until its last op ends.
    fn enqueue(&mut self, stream: i64, end: i64) {
        self.streams.entry(stream).or_default().launch_ends.push(end);
    }

    /// A launch returns only when the queue has room.
    fn wait_for_room(&mut self, stream: i64, call: usize, start: i64) {
        let ends = &self.streams.entry(stream).or_default().launch_ends;
        let Some(oldest) = ends.len().checked_sub(self.world.queue_depth).filter(|oldest| ends[*oldest] > start) else {
            return;
        };
        let frees = ends[(oldest + self.world.queue_batch - 1).min(ends.len() - 1)];
        self.extend(call, frees + 1_000);
    }

    fn graph(&mut self, kernels: &[(&'static str, f64)], stream: i64) {
        let (call, start) = self.call("cudaGraphLaunch", GRAPH_CALL_US);
        self.wait_for_room(stream, call, start);
        let arrival = start + (8.0 * US * self.factor(Of::Latency, 0.08)) as i64;
        let correlation = self.correlation;
        let mut end = arrival;
        for (index, (kernel, us)) in kernels.iter().enumerate() {
            self.place.kernel = index;
            end = self.run(&Launched {
                category: Category::Kernel,
                name: kernel,
                stream,
                us: *us,
                arrival,
                turnaround_us: GRAPH_TURNAROUND_US,
                correlation,
                bytes: 0,
            });
        }
        self.enqueue(stream, end);
    }

    fn copy(&mut self, direction: Direction, bytes: u64, memory: Memory, stream: i64) {
        let is_pageable = memory == Memory::Pageable && !self.has(Change::Pinned);
        let side = if is_pageable { "Pageable" } else { "Pinned" };
        let (name, stages, blocks) = match direction {
            Direction::ToDevice => (format!("Memcpy HtoD ({side} -> Device)"), is_pageable, bytes > STAGED_BYTES),
            Direction::FromDevice => (format!("Memcpy DtoH (Device -> {side})"), false, true),
        };
        let (call, start) = self.call("cudaMemcpyAsync", COPY_CALL_US);
        let staging = if stages { bytes.min(1 << 20) as f64 / STAGED_BYTES_PER_US } else { 0.0 };
        let end = self.run(&Launched {
            category: Category::Copy,
            name: &name,
            stream,
            us: 1.4 + bytes as f64 / COPIED_BYTES_PER_US,
            arrival: start + ((LATENCY_US + staging) * US) as i64,
            turnaround_us: TURNAROUND_US,
            correlation: self.correlation,
            bytes,
        });
        self.enqueue(stream, end);
        if is_pageable && blocks && !self.has(Change::WithoutBlocking) {
            let returns = (4.0 * US * self.factor(Of::Return, 0.2)) as i64;
            self.extend(call, end + returns);
        }
    }

    fn synchronize(&mut self, stream: Option<i64>, function: &'static str) {
        let frame_start = *self.now();
        let name = if stream.is_some() { "cudaStreamSynchronize" } else { "cudaDeviceSynchronize" };
        let end = match stream {
            Some(stream) => self.streams.entry(stream).or_default().end,
            None => self.streams.values().filter_map(|stream| stream.end).max(),
        };
        let waits = !self.has(Change::WithoutBlocking) && !self.has(Change::WithoutBlockingAt(function));
        let end = end.filter(|end| waits && *end > frame_start);
        if self.world.polls {
            self.poll(end.unwrap_or_default());
        } else {
            let (call, _) = self.call(name, SYNCHRONIZE_US);
            let returns = (RETURN_US * US * self.factor(Of::Return, 0.2)) as i64;
            if let Some(end) = end {
                self.extend(call, end + returns);
            }
        }
        self.host_event(Category::Function, code_name(function), frame_start, 0);
    }

    fn poll(&mut self, end: i64) {
        loop {
            let is_done = *self.now() >= end;
            let (call, start) = self.call("cudaEventQuery", 0.0);
            self.extend(call, start + 1_200);
            if is_done {
                return;
            }
            *self.now() += 9_500;
        }
    }

    fn allocation(&mut self, name: &str, us: f64) -> usize {
        let us = if self.has(Change::FreeAllocations) { 0.0 } else { us };
        self.call(name, us).0
    }

    /// Frees memory when the device is done. What the call does then is its return, also where host time is zero.
    fn free(&mut self, us: f64) {
        let start = *self.now();
        let call = self.allocation("cudaFree", us);
        let after = (us * US * self.factor(Of::Call, 0.15)) as i64;
        let end = self.streams.values().filter_map(|stream| stream.end).max().filter(|end| *end > start);
        if let Some(end) = end.filter(|_| !self.has(Change::FreeAllocations) && !self.has(Change::WithoutBlocking)) {
            self.extend(call, end + after);
        }
    }

    fn take_batch(&mut self, worker_us: f64) {
        let two_before = self.worker.taken.len().checked_sub(2).map_or(BEGIN, |index| self.worker.taken[index]);
        let ready = self.worker.ready.max(two_before) + (worker_us * US * self.factor(Of::Worker, 0.03)) as i64;
        let start = *self.now();
        self.worker.ready = if self.has(Change::WithoutBatchWait) { ready.min(start) } else { ready };
        *self.now() = self.worker.ready.max(start) + 8_000;
        self.host_event(Category::Function, TAKES_BATCH.to_owned(), start, 0);
        let inner = "<method 'acquire' of '_thread.lock' objects>".to_owned();
        let inner = self.host_event(Category::Function, inner, start + 500, 0);
        self.events[inner].duration -= 500;
        let now = *self.now();
        self.worker.taken.push(now);
    }

    /// Runs an op on its stream. Returns its end.
    fn run(&mut self, op: &Launched) -> i64 {
        let duration = self.duration(op);
        let turnaround = if self.has(Change::WithoutTurnaround) {
            0
        } else {
            (op.turnaround_us * US * self.factor(Of::Turnaround, 0.1)) as i64
        };
        let stream = self.streams.entry(op.stream).or_default();
        let (before, gate) = (stream.end, stream.gate);
        let after_before = before.map(|end| end + turnaround);
        let after_gate = gate.map(|end| end + (TURNAROUND_US * US) as i64);
        let start = op.arrival.max(after_before.unwrap_or_default()).max(after_gate.unwrap_or_default());
        let start = self.when_gpu_has_room(op, start);
        let duration = self.contended(op, start, duration);
        let (start, end) = self.dependent(op, before, start, self.with_other_ranks(op, start, duration));
        let Launched { category, stream, correlation, bytes, .. } = *op;
        let name = op.name.to_owned();
        self.events.push(Event { category, name, row: stream, start, duration: end - start, correlation, bytes });
        self.collectives += usize::from(op.name.contains("nccl"));
        let stream = self.streams.entry(stream).or_default();
        stream.end = Some(end);
        stream.spans.push((start, end));
        end
    }

    fn duration(&self, op: &Launched) -> i64 {
        if op.name.contains("nccl") && self.has(Change::WithoutCommunication) {
            return 0;
        }
        let is_fast = self.changes.iter().any(|change| matches!(change, Change::TwiceAsFast(name) if *name == op.name));
        let us = if is_fast { op.us / 2.0 } else { op.us };
        (us * US * self.factor(Of::Gpu, 0.02)) as i64
    }

    /// A long kernel of the main stream leaves room for other streams when it is nearly done.
    fn when_gpu_has_room(&mut self, op: &Launched, mut start: i64) -> i64 {
        if self.world.has_full_gpu && op.stream != MAIN {
            for (from, until) in self.streams.entry(MAIN).or_default().spans.iter().rev().take(40).rev() {
                let frees = until - (until - from) / 50;
                if (*from..frees).contains(&start) && until - from > FILLING {
                    start = frees;
                }
            }
        }
        start
    }

    fn contended(&self, op: &Launched, start: i64, duration: i64) -> i64 {
        let others = self.streams.iter().filter(|(stream, _)| **stream != op.stream);
        let mut spans = others.flat_map(|(_, stream)| stream.spans.iter().rev().take(30));
        let is_shared = spans.any(|(from, until)| *from < start + duration && *until > start);
        if is_shared { (duration as f64 * self.world.contention) as i64 } else { duration }
    }

    /// A collective waits for the other ranks, which come at their own pace.
    fn with_other_ranks(&self, op: &Launched, start: i64, duration: i64) -> i64 {
        let period = self.world.rank_period_us.filter(|_| op.name.contains("nccl"));
        let come = period.map(|period| BEGIN + (period * US * (1 + self.collectives) as f64) as i64);
        duration + come.map_or(0, |come| (come - start).max(0))
    }

    /// A dependent launch starts a little before the kernel before ends, and ends as late.
    fn dependent(&self, op: &Launched, before: Option<i64>, start: i64, duration: i64) -> (i64, i64) {
        let overlap = (self.world.overlap_us * US) as i64;
        let before = before.filter(|before| overlap > 0 && op.category == Category::Kernel && start - before < 3_000);
        match before {
            Some(before) => (before - overlap.min(duration * 2 / 5), before + duration),
            None => (start, start + duration),
        }
    }
}
