//! Groups files and devices into jobs, and gives a reason for each file that belongs to none.
//!
//! - A file without `distributedInfo` that has several devices, or a file of merged ranks, is a job by itself; each device is a rank.
//! - Other files are grouped by world size, backend and kind of GPU. Within such a set, files whose names agree except for rank
//!   numbers, times and ids form a job. Files without `distributedInfo` need a rank number in their name and are grouped by name
//!   alone.
//! - If no names agree, or if they differ by host and every rank occurs exactly once, all files of the set form one job; its
//!   limits then state the doubt.
//! - If a rank occurs twice in a job, the times and ids in the names separate several jobs, provided that this puts most files
//!   together. Otherwise the last file by name is used for each rank and the others are left out.

use super::file_names::{self, RankName};
use super::log::{RankLog, TIME_COLUMNS};
use super::rules::Rules;
use super::{Source, UngroupedFile};
use crate::ordering;
use crate::words::ranks as words;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// One rank of a job: a device of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) log: usize,
    pub(super) device: usize,
    /// Sort key: kinds of parallelism with numbers.
    order: Vec<(usize, u32)>,
    /// `rank 3`.
    pub(super) label: String,
    /// The rank number according to `distributedInfo`.
    pub(super) number: Option<u32>,
    pub(super) source: Source,
}

/// The ranks of one job, in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobGroup {
    pub(super) title: String,
    pub(super) members: Vec<Member>,
    pub(super) world_size: Option<u32>,
    /// Why the files may not belong together after all.
    pub(super) doubt: Option<&'static str>,
}

impl JobGroup {
    /// For each log of the job the rank of each device. A log can have many ranks, so what computes something for each of them reads the
    /// log once.
    pub(super) fn ranks_by_log(&self) -> BTreeMap<usize, BTreeMap<i64, usize>> {
        let mut ranks: BTreeMap<usize, BTreeMap<i64, usize>> = BTreeMap::new();
        for (rank, member) in self.members.iter().enumerate() {
            if let Ok(device) = i64::try_from(member.device) {
                ranks.entry(member.log).or_default().insert(device, rank);
            }
        }
        ranks
    }
}

/// A file with one rank, before it is grouped.
struct RankFile {
    member: Member,
    world_size: Option<u32>,
    backend: String,
    /// Product name of its GPU; empty if unknown.
    gpu: String,
    /// The file name without rank numbers, times and ids.
    pattern: String,
    /// The file name without rank numbers.
    without_rank: String,
    name: String,
}

/// Returns jobs sorted by title, and the files that belong to none.
pub(super) fn group(logs: &[&RankLog], rules: &Rules) -> (Vec<JobGroup>, Vec<UngroupedFile>) {
    let (mut grouping, mut files) = (Grouping { logs, groups: Vec::new(), ungrouped: Vec::new() }, Vec::new());
    for (index, log) in logs.iter().enumerate() {
        let name = file_names::parse(&log.file, rules);
        let is_merged = log.devices.len() > 1 && log.devices.iter().all(|device| device.starts_with('['));
        match (recorded_rank(log).filter(|_| !is_merged), log.devices.len(), name) {
            (_, 0, _) => grouping.leave_out(log.file.clone(), "it has no GPU kernel".to_owned()),
            (Some((rank, world_size)), ..) => files.push(file_by_info(log, index, rank, world_size, rules)),
            (None, 2.., _) => grouping.groups.push(group_of_devices(log, index)),
            (None, _, Some(name)) => files.push(file_by_name(log, index, name)),
            (None, _, None) => grouping.leave_out(log.file.clone(), why_rank_is_unknown(log)),
        }
    }
    sort(&mut files);
    split_by_kind(files).into_iter().for_each(|files| grouping.group_by_pattern(files));
    let Grouping { mut groups, mut ungrouped, .. } = grouping;
    ordering::sort_by(&mut groups, |a, b| a.title.cmp(&b.title));
    ordering::sort_by(&mut ungrouped, |a, b| (&a.file, &a.reason).cmp(&(&b.file, &b.reason)));
    (groups, ungrouped)
}

/// Sorts by rank, then by name, so that the order in which files were opened does not matter.
fn sort(files: &mut Vec<RankFile>) {
    ordering::sort_by(files, |a, b| {
        (&a.member.order, &a.name, a.member.log).cmp(&(&b.member.order, &b.name, b.member.log))
    });
}

/// Rank and world size according to `distributedInfo`, if both are known and plausible.
fn recorded_rank(log: &RankLog) -> Option<(u32, u32)> {
    let (rank, world_size) = (u32::try_from(log.rank).ok()?, u32::try_from(log.world_size).ok()?);
    (rank < world_size).then_some((rank, world_size))
}

fn why_rank_is_unknown(log: &RankLog) -> String {
    if log.world_size >= 0 || log.rank >= 0 {
        return words::impossible_rank(log.rank, log.world_size);
    }
    "neither the file nor its name gives a rank number, and it has one GPU".to_owned()
}

/// The index of the busiest device. A rank may use other devices for a copy or a check.
fn busiest_device(log: &RankLog) -> usize {
    let busy = |device: usize| log.times.get(device * TIME_COLUMNS + 1).copied().unwrap_or(0);
    (0..log.devices.len()).rev().max_by_key(|device| busy(*device)).unwrap_or(0)
}

fn file_by_info(log: &RankLog, index: usize, rank: u32, world_size: u32, rules: &Rules) -> RankFile {
    let device = busiest_device(log);
    let member = Member {
        log: index,
        device,
        order: vec![(0, rank)],
        label: words::rank(rank),
        number: Some(rank),
        source: Source::DistributedInfo,
    };
    let names = file_names::parse(&log.file, rules).map(|name| [name.pattern, name.without_rank]);
    rank_file(log, member, Some(world_size), names.unwrap_or_else(|| [log.file.clone(), log.file.clone()]))
}

fn file_by_name(log: &RankLog, index: usize, name: RankName) -> RankFile {
    let RankName { numbers, label, without_rank, pattern } = name;
    let member = Member { log: index, device: 0, order: numbers, label, number: None, source: Source::FileName };
    rank_file(log, member, None, [pattern, without_rank])
}

fn rank_file(log: &RankLog, member: Member, world_size: Option<u32>, [pattern, without_rank]: [String; 2]) -> RankFile {
    let gpu = log.gpus.get(member.device).cloned().unwrap_or_default();
    let (backend, name) = (log.backend.clone(), log.file.clone());
    RankFile { member, world_size, backend, gpu, pattern, without_rank, name }
}

fn group_of_devices(log: &RankLog, index: usize) -> JobGroup {
    let label = |id: &str| match id.strip_prefix('[').and_then(|id| id.split_once(']')) {
        Some((rank, _)) => rank.to_owned(),
        None if id.bytes().all(|byte| byte.is_ascii_digit()) => crate::words::labels::gpu(id),
        None => id.to_owned(),
    };
    let labels: Vec<String> = log.devices.iter().map(|id| label(id)).collect();
    let mut counts: HashMap<&String, usize> = HashMap::new();
    labels.iter().for_each(|label| *counts.entry(label).or_default() += 1);
    let members = log.devices.iter().zip(&labels).enumerate().map(|(device, (id, label))| Member {
        log: index,
        device,
        order: vec![(0, u32::try_from(device).unwrap_or(u32::MAX))],
        label: if counts.get(label) == Some(&1) { label.clone() } else { id.clone() },
        number: None,
        source: Source::Device,
    });
    JobGroup { title: log.file.clone(), members: members.collect(), world_size: None, doubt: None }
}

/// Partitions the files by a key; keeps their order.
fn partition_by<K: Eq + Hash>(files: Vec<RankFile>, key: impl Fn(&RankFile) -> K) -> Vec<Vec<RankFile>> {
    let (mut buckets, mut bucket_of) = (Vec::<Vec<RankFile>>::new(), HashMap::<K, usize>::new());
    for file in files {
        let bucket = *bucket_of.entry(key(&file)).or_insert(buckets.len());
        match buckets.get_mut(bucket) {
            Some(files) => files.push(file),
            None => buckets.push(vec![file]),
        }
    }
    buckets
}

/// Partitions the files by world size, backend and known kind of GPU; files without a world size also by name.
fn split_by_kind(files: Vec<RankFile>) -> Vec<Vec<RankFile>> {
    let pattern = |file: &RankFile| file.world_size.is_none().then(|| file.pattern.clone());
    let sets = partition_by(files, |file| (file.world_size, file.backend.clone(), pattern(file)));
    let mut kinds = Vec::new();
    for files in sets {
        let mut known_gpus = files.iter().map(|file| &file.gpu).filter(|gpu| !gpu.is_empty());
        let first = known_gpus.next();
        let is_one_gpu = known_gpus.all(|gpu| Some(gpu) == first);
        kinds.extend(if is_one_gpu { vec![files] } else { partition_by(files, |file| file.gpu.clone()) });
    }
    kinds
}

/// The number of distinct ranks among files sorted by rank.
fn count_ranks(files: &[RankFile]) -> usize {
    files.chunk_by(|a, b| a.member.order == b.member.order).count()
}

const UNRELATED_NAMES: &str =
    "The file names have nothing in common: the files are grouped only because their number of ranks is the same.";
const NAMES_BY_HOST: &str =
    "The file names differ in more than the rank: the files are grouped only because each rank occurs once.";

/// The jobs so far, and the files that belong to none.
struct Grouping<'a> {
    logs: &'a [&'a RankLog],
    groups: Vec<JobGroup>,
    ungrouped: Vec<UngroupedFile>,
}

impl Grouping<'_> {
    fn leave_out(&mut self, file: String, reason: String) {
        self.ungrouped.push(UngroupedFile { file, reason });
    }

    /// Makes jobs of files whose names agree except for rank numbers, times and ids; one job of all files if no names agree.
    fn group_by_pattern(&mut self, files: Vec<RankFile>) {
        let ranks = count_ranks(&files);
        let has_rank_count = |file: &RankFile| file.world_size.map(|size| size as usize) == Some(ranks);
        let is_complete = files.len() == ranks && files.iter().all(has_rank_count);
        let by_pattern = partition_by(files, |file| file.pattern.clone());
        let max_ranks = by_pattern.iter().map(|files| count_ranks(files)).max().unwrap_or(0);
        // Names that contain the host: each host has the same number of ranks.
        let is_by_host = is_complete && by_pattern.iter().all(|files| files.len() == max_ranks);
        if by_pattern.len() > 1 && ranks > 1 && (max_ranks < 2 || is_by_host) {
            let doubt = Some(if max_ranks < 2 { UNRELATED_NAMES } else { NAMES_BY_HOST });
            self.add_job_of_latest(by_pattern.into_iter().flatten().collect(), doubt);
            return;
        }
        for files in by_pattern {
            match count_ranks(&files) {
                1 if max_ranks > 1 => files.into_iter().for_each(|file| self.leave_out_unrelated(file)),
                _ => self.group_by_time(files),
            }
        }
    }

    fn leave_out_unrelated(&mut self, RankFile { name, member, world_size, .. }: RankFile) {
        self.leave_out(name, words::unrelated(&member.label, world_size));
    }

    /// If a rank occurs twice, separates jobs by the times and ids in their names, unless each rank has its own time.
    fn group_by_time(&mut self, files: Vec<RankFile>) {
        let (file_count, ranks) = (files.len(), count_ranks(&files));
        if ranks == file_count {
            self.add_job(files, None);
            return;
        }
        let by_time = partition_by(files, |file| file.without_rank.clone());
        let grouped: usize = by_time.iter().filter(|files| count_ranks(files) > 1).map(Vec::len).sum();
        // Require more than half: two ranks of different runs may have the same time by accident.
        if ranks == 1 || grouped * 2 > file_count {
            by_time.into_iter().for_each(|files| self.add_job_of_latest(files, None));
        } else {
            self.add_job_of_latest(by_time.into_iter().flatten().collect(), None);
        }
    }

    /// Makes a job of the last file by name of each rank, which is the newest one if names contain times.
    fn add_job_of_latest(&mut self, mut files: Vec<RankFile>, doubt: Option<&'static str>) {
        sort(&mut files);
        let mut latest: Vec<RankFile> = Vec::new();
        for file in files {
            match latest.last_mut() {
                Some(last) if last.member.order == file.member.order => {
                    let reason = words::already_present(&file.member.label, &file.name);
                    let older = std::mem::replace(last, file);
                    self.leave_out(older.name, reason);
                }
                _ => latest.push(file),
            }
        }
        self.add_job(latest, doubt);
    }

    fn add_job(&mut self, files: Vec<RankFile>, doubt: Option<&'static str>) {
        let Some(RankFile { member, world_size, name, .. }) = files.first() else { return };
        let (label, world_size) = (&member.label, *world_size);
        if files.len() == 1 {
            return self.leave_out(name.clone(), words::alone(label, world_size));
        }
        let title = title(&files, self.logs);
        let members = files.into_iter().map(|file| file.member).collect();
        self.groups.push(JobGroup { title, members, world_size, doubt });
    }
}

/// The common pattern of the file names, else the first name and the number of other files.
fn title(files: &[RankFile], logs: &[&RankLog]) -> String {
    let shared = files.first().map(|file| file.pattern.clone());
    let shared = shared.filter(|first| files.iter().all(|file| file.pattern == *first));
    let first = files.first().and_then(|file| logs.get(file.member.log)).map_or("", |log| log.file.as_str());
    shared.unwrap_or_else(|| words::first_and_others(first, files.len() - 1))
}
