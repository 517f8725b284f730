//! The process and the device of every GPU op of a file that may contain several ranks.
//!
//! In a torch trace the pid of a GPU op is its GPU. The process that launched it follows from its correlation id. A tool that
//! merges the files of ranks keeps the ids, so that calls of several processes may have the id of an op. Then each GPU of the
//! file belongs to the process whose calls agree with the most of its ops: no op starts before its launch. Where calls of
//! several processes agree, the place in the file decides, because such tools append whole files; without such an order the
//! GPU that starts first belongs to the process that starts first, and its ops count as ambiguous. One launch, unless it is that of a graph, has no ops on two GPUs: what remains
//! belongs to a process that the file does not contain.
//!
//! GPUs of one number that belong to different processes are different devices if the file gives them different pids.
//! Cost: O(1) for a file with one process and GPU; otherwise O(n log n), and at most [`MAX_CANDIDATES`] processes per op.

use super::columns::index;
use super::ops::UNLINKED;
use super::{CODE_IS_BUILT, DeviceId, Format, Ns, OpKind, ProblemKind, ProcessId, Trace, TraceBuilder};
use crate::ordering;
use foldhash::fast::RandomState;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// Clocks of GPU and host may differ by this much.
const MAX_LEAD: Ns = Ns(10_000);
/// Of more processes that have a call with the id of an op, those near it in the file are looked at.
const MAX_CANDIDATES: usize = 64;
const UNKNOWN_PID: i64 = -1;

impl Trace {
    /// The number of ranks that a tool merged into the file: processes with GPU ops, if each has devices of its own. A profiler of
    /// torch records one process.
    pub fn merged_ranks(&self) -> usize {
        if self.format != Format::TorchProfiler {
            return 0;
        }
        let mut owners: Vec<(DeviceId, ProcessId)> = self.gpu_ops.owners().collect();
        ordering::sort_by_key(&mut owners, |owner| *owner);
        owners.dedup();
        let mut processes: Vec<ProcessId> = owners.iter().map(|owner| owner.1).collect();
        ordering::sort_by_key(&mut processes, |process| *process);
        processes.dedup();
        let has_own_devices = owners.iter().zip(owners.iter().skip(1)).all(|(one, next)| one.0 != next.0);
        if has_own_devices && processes.len() > 1 { processes.len() } else { 0 }
    }
}

/// A GPU as the ops of the file name it.
#[derive(Debug, Clone)]
struct OpSource {
    /// Label of the rank, or empty.
    rank: String,
    gpu_pid: String,
    /// Id of the device if no other GPU has it.
    device: String,
    /// The number of ops before its first one in the file.
    first_row: u32,
}

/// The GPUs and processes of a file while it is read. Until [`TraceBuilder::assign_sources`], the device of an op is the
/// number of its source.
#[derive(Debug, Default)]
pub struct OpSources {
    sources: Vec<OpSource>,
    /// The label of the rank of each process.
    ranks: Vec<String>,
    /// The processes of the host events in the order of the file, each with the number of GPU ops before it.
    runs: Vec<(ProcessId, u32)>,
}

/// The call that launched ops with this id, the first one of its process.
#[derive(Debug, Clone, Copy)]
struct Launch {
    id: u32,
    process: ProcessId,
    start: Ns,
    /// Whether it may have ops on several GPUs.
    is_graph: bool,
    /// The source that has its ops, or [`NOBODY`].
    source: u32,
}

const NOBODY: u32 = u32::MAX;

/// How well the launches of a process agree with the ops of a source.
#[derive(Debug, Clone, Copy, Default)]
struct Vote {
    /// Ops that start after a launch with their id.
    agreeing: i64,
    /// Ops that start before it.
    contradicting: i64,
    /// Agreeing ops that follow host events of the process in the file.
    in_place: i64,
    /// Sums of the starts of the agreeing ops and of their launches.
    starts_ns: (i128, i128),
}

impl Vote {
    /// The larger, the surer.
    fn sureness(&self) -> (i64, i64) {
        (self.in_place, self.agreeing - self.contradicting)
    }
}

impl OpSources {
    /// Adds a GPU. `first_row` is the number of ops before its first one.
    pub fn add(&mut self, rank: &str, gpu_pid: &str, device: String, first_row: usize) -> DeviceId {
        let (rank, gpu_pid) = (rank.to_owned(), gpu_pid.to_owned());
        self.sources.push(OpSource { rank, gpu_pid, device, first_row: index(first_row) });
        DeviceId(index(self.sources.len() - 1))
    }

    /// Adds the process of a pid that is not known yet; `text` is the pid as the file writes it.
    pub fn add_process(&mut self, builder: &mut TraceBuilder, rank: &str, pid: Option<i64>, text: &str) -> ProcessId {
        let (known, pid) = (builder.trace.processes.len(), pid.unwrap_or(UNKNOWN_PID));
        let mut process = builder.process(pid, rank);
        if builder.trace.processes.len() == known {
            // Another text contains the same number.
            process = builder.process(pid, text);
        }
        self.ranks.resize(builder.trace.processes.len(), rank.to_owned());
        process
    }

    /// Notes that a host event of this process follows `ops` GPU ops in the file.
    pub fn host_event(&mut self, process: ProcessId, ops: usize) {
        if self.runs.last().is_none_or(|run| run.0 != process) {
            self.runs.push((process, index(ops)));
        }
    }

    fn run_at(&self, row: u32) -> Option<ProcessId> {
        let after = self.runs.partition_point(|run| run.1 <= row);
        self.runs.get(after.saturating_sub(1)).map(|run| run.0)
    }

    /// Whether the file has the events of each process in one piece.
    fn is_in_order(&self) -> bool {
        let mut seen = vec![false; self.ranks.len()];
        let mut is_new =
            |process: &ProcessId| seen.get_mut(process.0 as usize).is_some_and(|seen| !std::mem::replace(seen, true));
        self.runs.iter().all(|(process, _)| is_new(process))
    }

    /// The processes of a rank. `by_rank` are all processes, sorted by rank.
    fn processes_of<'a>(&self, by_rank: &'a [usize], rank: &str) -> &'a [usize] {
        let rank_of = |process: usize| self.ranks.get(process).map_or("", String::as_str);
        let first = by_rank.partition_point(|process| rank_of(*process) < rank);
        let end = by_rank.partition_point(|process| rank_of(*process) <= rank);
        by_rank.get(first..end).unwrap_or_default()
    }

    fn by_rank(&self) -> Vec<usize> {
        ordering::sorted_indices(self.ranks.len(), &|one, other| self.ranks.get(one).cmp(&self.ranks.get(other)))
    }

    /// The process of each source by the order of the file, and whether its rank has no other one; `None` if it has none.
    fn owners_in_file(&self) -> Vec<Option<(ProcessId, bool)>> {
        let by_rank = self.by_rank();
        let owner = |source: &OpSource| {
            let of_rank = self.processes_of(&by_rank, &source.rank);
            let first = ProcessId(index(*of_rank.first()?));
            let near = self.run_at(source.first_row).filter(|near| self.is_of_rank(*near, source));
            Some((near.unwrap_or(first), of_rank.len() == 1))
        };
        self.sources.iter().map(owner).collect()
    }

    fn is_of_rank(&self, process: ProcessId, source: &OpSource) -> bool {
        self.ranks.get(process.0 as usize) == Some(&source.rank)
    }

    /// Whether a rank has several processes or GPUs, so that the process of an op has to be found.
    fn has_choice(&self) -> bool {
        let by_rank = self.by_rank();
        let mut gpu_of_rank: HashMap<&str, &str, RandomState> = HashMap::default();
        self.sources.iter().any(|source| {
            let processes = self.processes_of(&by_rank, &source.rank).len();
            processes > 1
                || processes == 1 && *gpu_of_rank.entry(&source.rank).or_insert(&source.gpu_pid) != source.gpu_pid
        })
    }
}

impl TraceBuilder {
    /// Gives every op its device and process. Call it when all ops and calls are added, in the order of the file. In the page's
    /// first module, which has to be small, the order of the file decides, and devices are not split.
    pub fn assign_sources(&mut self, sources: &OpSources) {
        let in_file = sources.owners_in_file();
        if !CODE_IS_BUILT {
            let place = |(owner, source): (Option<(ProcessId, bool)>, &OpSource)| {
                let owner = owner.map_or_else(|| self.process(UNKNOWN_PID, &source.rank), |(owner, _)| owner);
                (self.device(&source.device, ""), owner)
            };
            let places: Vec<_> = in_file.into_iter().zip(&sources.sources).map(place).collect();
            return self.place(&places, None);
        }
        let mut finder = sources.has_choice().then(|| Finder::new(self, sources));
        let owners = match &mut finder {
            Some(finder) => finder.owners(self, &in_file),
            None => in_file.into_iter().map(|owner| Some(owner?.0)).collect(),
        };
        let owners = self.known_owners(sources, owners);
        let devices = self.devices_of(sources, &owners);
        let processes = finder.as_mut().map(|finder| finder.processes(self, &owners));
        self.count(ProblemKind::AmbiguousLaunch, finder.map_or(0, |finder| finder.ambiguous));
        let places: Vec<_> = devices.into_iter().zip(owners).collect();
        self.place(&places, processes.as_deref());
    }

    /// The owners of all sources. One without a process in the file gets a process without a pid.
    fn known_owners(&mut self, sources: &OpSources, owners: Vec<Option<ProcessId>>) -> Vec<ProcessId> {
        let mut of_number: HashMap<(&str, &str), (&str, bool), RandomState> = HashMap::default();
        for source in &sources.sources {
            let gpu = of_number.entry((&source.rank, &source.device)).or_insert((&source.gpu_pid, true));
            gpu.1 &= gpu.0 == source.gpu_pid;
        }
        let are_numbers_unique = of_number.values().all(|(_, is_unique)| *is_unique);
        let is_without_host = sources.ranks.is_empty();
        let mut owner = |(owner, source): (Option<ProcessId>, &OpSource)| match owner {
            Some(owner) => owner,
            None if !source.rank.is_empty() || is_without_host && are_numbers_unique => {
                self.process(UNKNOWN_PID, &source.rank)
            }
            None => self.process(UNKNOWN_PID, &format!("GPU {}", source.gpu_pid)),
        };
        owners.into_iter().zip(&sources.sources).map(&mut owner).collect()
    }

    /// The device of each source. GPUs of one number are split if they differ in their pid and their process.
    fn devices_of(&mut self, sources: &OpSources, owners: &[ProcessId]) -> Vec<DeviceId> {
        let mut first: HashMap<&str, (&str, ProcessId, bool), RandomState> = HashMap::default();
        for (source, owner) in sources.sources.iter().zip(owners) {
            let gpu = first.entry(&source.device).or_insert((&source.gpu_pid, *owner, true));
            gpu.2 &= gpu.0 == source.gpu_pid || gpu.1 == *owner;
        }
        let mut device = |(source, owner): (&OpSource, &ProcessId)| {
            let is_one = first.get(&*source.device).is_none_or(|(_, _, is_one)| *is_one);
            let process = self.trace.processes.get(owner.0 as usize).filter(|_| !is_one);
            let id = match process {
                Some(_) if !source.rank.is_empty() => source.device.clone(),
                Some(process) if process.pid == UNKNOWN_PID => format!("[{}] {}", source.gpu_pid, source.device),
                Some(process) => format!("[{}] {}", process.pid, source.device),
                _ => source.device.clone(),
            };
            self.device(&id, "")
        };
        sources.sources.iter().zip(owners).map(&mut device).collect()
    }

    /// Sets device and process of all ops and device annotations. `processes` are those of the ops, if they may differ from
    /// those of their source.
    fn place(&mut self, places: &[(DeviceId, ProcessId)], processes: Option<&[ProcessId]>) {
        let place = |source: DeviceId| places.get(source.0 as usize).copied().unwrap_or_default();
        self.trace.gpu_ops.place(place, processes);
        for annotation in self.code.iter_mut().flat_map(|code| &mut code.code.annotations) {
            if let Some(source) = annotation.device {
                let (device, process) = place(source);
                (annotation.device, annotation.process) = (Some(device), process);
            }
        }
    }

    /// The launches of all processes, sorted by id and process.
    fn launches(&self) -> Vec<Launch> {
        let is_graph: Vec<bool> = self.trace.calls.names.iter().map(|name| name.contains("GraphLaunch")).collect();
        let with_id = self.trace.calls.iter().zip(&self.correlations).filter(|(_, id)| **id != UNLINKED);
        let launch = with_id.filter_map(|(call, &id)| {
            let process = self.trace.threads.get(call.thread.0 as usize)?.process;
            let is_graph = is_graph.get(call.name.0 as usize).copied().unwrap_or_default();
            Some(Launch { id, process, start: call.start, is_graph, source: NOBODY })
        });
        let mut launches: Vec<Launch> = launch.collect();
        launches.sort_unstable_by_key(|launch| (launch.id, launch.process, launch.start));
        launches.dedup_by(|next, kept| {
            let is_same = (next.id, next.process) == (kept.id, kept.process);
            kept.is_graph |= is_same && next.is_graph;
            is_same
        });
        launches
    }
}

/// Finds the process of each op.
struct Finder<'a> {
    sources: &'a OpSources,
    launches: Vec<Launch>,
    is_in_order: bool,
    votes: HashMap<(u32, ProcessId), Vote, RandomState>,
    /// Rows of ops with an id, by source.
    rows: Vec<Vec<u32>>,
    /// Ops of sources with several equally likely processes.
    ambiguous: u64,
}

impl<'a> Finder<'a> {
    fn new(builder: &TraceBuilder, sources: &'a OpSources) -> Self {
        Self {
            sources,
            launches: builder.launches(),
            is_in_order: sources.is_in_order(),
            votes: HashMap::default(),
            rows: vec![Vec::new(); sources.sources.len()],
            ambiguous: 0,
        }
    }

    /// The process that the order of the file names for an op.
    fn in_place(&self, row: u32) -> Option<ProcessId> {
        self.sources.run_at(row).filter(|_| self.is_in_order)
    }

    /// The launches with this id of processes of the same rank.
    fn candidates(&self, id: u32, source: u32, row: u32) -> impl Iterator<Item = (usize, Launch)> {
        let first = self.launches.partition_point(|launch| launch.id < id);
        let end = self.launches.partition_point(|launch| launch.id <= id);
        let all = self.launches.get(first..end).unwrap_or_default();
        let skipped = if all.len() > MAX_CANDIDATES {
            let near = self.sources.run_at(row).map_or(0, |near| all.partition_point(|launch| launch.process < near));
            near.saturating_sub(MAX_CANDIDATES / 2).min(all.len() - MAX_CANDIDATES)
        } else {
            0
        };
        let source = self.sources.sources.get(source as usize);
        let near = all.iter().enumerate().skip(skipped).take(MAX_CANDIDATES);
        let of_rank = near
            .filter(move |(_, launch)| source.is_some_and(|source| self.sources.is_of_rank(launch.process, source)));
        of_rank.map(move |(at, launch)| (first + at, *launch))
    }

    fn vote(&mut self, builder: &TraceBuilder) {
        for (row, (op, id)) in (0..).zip(builder.trace.gpu_ops.with_ids()) {
            let source = op.device.0;
            if id == UNLINKED {
                continue;
            }
            let in_place = self.in_place(row);
            let found: Vec<(usize, Launch)> = self.candidates(id, source, row).collect();
            for (_, launch) in found {
                let vote = self.votes.entry((source, launch.process)).or_default();
                if op.start.after(MAX_LEAD) < launch.start {
                    vote.contradicting += 1;
                    continue;
                }
                vote.agreeing += 1;
                vote.in_place += i64::from(in_place == Some(launch.process));
                vote.starts_ns.0 += i128::from(op.start.0);
                vote.starts_ns.1 += i128::from(launch.start.0);
            }
            self.rows.get_mut(source as usize).into_iter().for_each(|rows| rows.push(row));
        }
    }

    /// The owner of each source, the surest first.
    fn owners(&mut self, builder: &TraceBuilder, in_file: &[Option<(ProcessId, bool)>]) -> Vec<Option<ProcessId>> {
        self.vote(builder);
        let mut votes: Vec<((u32, ProcessId), Vote)> =
            self.votes.iter().map(|(key, vote)| (*key, *vote)).filter(|(_, vote)| vote.agreeing > 0).collect();
        votes.sort_unstable_by_key(|(key, vote)| (Reverse(vote.sureness()), vote.starts_ns, *key));
        let mut owners: Vec<Option<ProcessId>> = vec![None; self.sources.sources.len()];
        let mut attempts = vec![0_usize; owners.len()];
        for &((source, process), _) in &votes {
            let at = source as usize;
            let Some(attempts) = attempts.get_mut(at).filter(|attempts| **attempts < MAX_CANDIDATES) else { continue };
            if owners.get(at).is_none_or(Option::is_some) {
                continue;
            }
            *attempts += 1;
            if self.claim(builder, source, process) {
                owners.get_mut(at).into_iter().for_each(|owner| *owner = Some(process));
            }
        }
        self.count_ambiguous(&votes, &owners);
        let is_open: Vec<bool> = attempts.iter().map(|attempts| *attempts == 0).collect();
        self.add_other_owners(&mut owners, &is_open, in_file);
        owners
    }

    /// Owners of sources without launches in the file: that of their GPU, or by the order of the file. A source whose launches
    /// belong to others is of a process without host events.
    fn add_other_owners(
        &self,
        owners: &mut [Option<ProcessId>],
        is_open: &[bool],
        in_file: &[Option<(ProcessId, bool)>],
    ) {
        let gpu = |source: &'a OpSource| (&*source.rank, &*source.gpu_pid);
        let has_source: HashSet<ProcessId, RandomState> = owners.iter().flatten().copied().collect();
        let known =
            self.sources.sources.iter().zip(&*owners).filter_map(|(source, owner)| Some((gpu(source), (*owner)?)));
        let of_gpu: HashMap<(&str, &str), ProcessId, RandomState> = known.collect();
        let sources = self.sources.sources.iter().zip(is_open).zip(in_file);
        for (owner, ((source, is_open), in_file)) in owners.iter_mut().zip(sources) {
            if owner.is_none() && *is_open {
                let free = in_file.filter(|(process, is_only)| *is_only || !has_source.contains(process));
                *owner = of_gpu.get(&gpu(source)).copied().or(free.map(|(process, _)| process));
            }
        }
    }

    /// Counts the ops of sources that could have changed their processes.
    fn count_ambiguous(&mut self, votes: &[((u32, ProcessId), Vote)], owners: &[Option<ProcessId>]) {
        let owner_of = |source: u32| owners.get(source as usize).copied().flatten();
        let mut source_of: HashMap<ProcessId, u32, RandomState> = HashMap::default();
        source_of.extend((0..).zip(owners).filter_map(|(source, owner)| Some(((*owner)?, source))));
        let sureness = |source: u32, process: ProcessId| self.votes.get(&(source, process)).map(Vote::sureness);
        let mut is_ambiguous = vec![false; owners.len()];
        for ((source, other), vote) in votes {
            let (Some(own), Some(rival)) = (owner_of(*source), source_of.get(other)) else { continue };
            let is_tie = own != *other && sureness(*source, own) == Some(vote.sureness());
            if is_tie && sureness(*rival, own).is_some_and(|swapped| Some(swapped) == sureness(*rival, *other)) {
                is_ambiguous.get_mut(*source as usize).into_iter().for_each(|is_ambiguous| *is_ambiguous = true);
            }
        }
        let ambiguous = self.rows.iter().zip(is_ambiguous).filter(|(_, is_ambiguous)| *is_ambiguous);
        self.ambiguous += ambiguous.map(|(rows, _)| rows.len() as u64).sum::<u64>();
    }

    /// Gives the launches of a process to a source, unless another one has most of them.
    fn claim(&mut self, builder: &TraceBuilder, source: u32, process: ProcessId) -> bool {
        let rows = self.rows.get(source as usize).map_or(&[][..], Vec::as_slice);
        let mut own = Vec::new();
        let mut taken = 0;
        for &row in rows {
            let Some((op, id)) = builder.trace.gpu_ops.with_id(row as usize) else { continue };
            let key = (id, process);
            let at = self.launches.partition_point(|launch| (launch.id, launch.process) < key);
            let Some(launch) = self.launches.get(at).filter(|launch| (launch.id, launch.process) == key) else {
                continue;
            };
            // A copy from GPU to GPU may be an op of both.
            if op.start.after(MAX_LEAD) >= launch.start && !launch.is_graph && op.kind != OpKind::Copy {
                own.push(at);
                taken += usize::from(launch.source != NOBODY && launch.source != source);
            }
        }
        if taken * 2 > own.len() {
            return false;
        }
        for at in own {
            let launch = self.launches.get_mut(at).filter(|launch| launch.source == NOBODY);
            launch.into_iter().for_each(|launch| launch.source = source);
        }
        true
    }

    /// The process of each op: the owner of its source, unless only another process has launched it.
    fn processes(&mut self, builder: &TraceBuilder, owners: &[ProcessId]) -> Vec<ProcessId> {
        let mut owned = vec![0_u32; builder.trace.processes.len()];
        owners.iter().for_each(|owner| owned.get_mut(owner.0 as usize).into_iter().for_each(|count| *count += 1));
        let owns_none = |process: ProcessId| owned.get(process.0 as usize) == Some(&0);
        let mut ops_by_id: HashMap<(u32, u32), u32, RandomState> = HashMap::default();
        if self.votes.keys().any(|(_, process)| owns_none(*process)) {
            let with_id = builder.trace.gpu_ops.with_ids().filter(|(_, id)| *id != UNLINKED);
            with_id.for_each(|(op, id)| *ops_by_id.entry((op.device.0, id)).or_default() += 1);
        }
        let mut used = vec![false; self.launches.len()];
        let mut processes = Vec::with_capacity(builder.trace.gpu_ops.len());
        for (row, (op, id)) in (0..).zip(builder.trace.gpu_ops.with_ids()) {
            let source = op.device.0;
            let owner = owners.get(source as usize).copied().unwrap_or_default();
            let in_place = self.in_place(row).filter(|process| *process == owner || owns_none(*process));
            let agrees = |(_, launch): &(usize, Launch)| {
                op.start.after(MAX_LEAD) >= launch.start && (launch.process == owner || owns_none(launch.process))
            };
            let found: Vec<(usize, Launch)> =
                if id == UNLINKED { Vec::new() } else { self.candidates(id, source, row).filter(agrees).collect() };
            let of = |process: ProcessId| found.iter().find(|(_, launch)| launch.process == process);
            let voted = |process: &ProcessId| self.votes.get(&(source, *process)).map_or(0, |vote| vote.agreeing);
            let is_in_place = |launch: &Launch| in_place.is_none_or(|process| process == launch.process);
            processes.push(match found.as_slice() {
                [] => in_place.filter(|process| voted(process) > 0).unwrap_or(owner),
                // A call with the same id does not make an op among those of its rank one of another rank.
                [(_, only)] if is_in_place(only) || in_place != Some(owner) => only.process,
                [_] => owner,
                _ if let Some((_, launch)) = in_place.and_then(of) => launch.process,
                _ => {
                    self.ambiguous += 1;
                    let has_several = ops_by_id.get(&(source, id)).is_some_and(|ops| *ops > 1);
                    match of(owner) {
                        Some((_, launch)) if !has_several => launch.process,
                        _ => earliest_free(&found, &mut used),
                    }
                }
            });
        }
        processes
    }
}

/// Of several launches with one id, the n-th op belongs to the n-th; ops of a graph to the last one.
fn earliest_free(found: &[(usize, Launch)], used: &mut [bool]) -> ProcessId {
    let is_graph = found.iter().any(|(_, launch)| launch.is_graph);
    let last = found.iter().max_by_key(|(_, launch)| launch.start);
    let is_free = |at: usize| used.get(at) == Some(&false);
    let free = found.iter().filter(|(at, _)| is_free(*at)).min_by_key(|(_, launch)| launch.start);
    let chosen = free.filter(|_| !is_graph).or(last);
    let Some((at, launch)) = chosen else { return ProcessId::default() };
    used.get_mut(*at).into_iter().for_each(|used| *used = true);
    launch.process
}
