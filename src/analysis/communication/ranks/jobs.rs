//! Which files and devices are ranks of one job, and why others are not.
//!
//! A file that says which rank wrote it belongs to a job of as many ranks on GPUs of one kind, together with the files whose
//! names agree but for ranks, times and ids; where no names agree, numbers of ranks alone make it a job, which is said. Where
//! a rank is there twice, names with times and ids tell jobs apart. Files that say nothing go by their names alone. A file
//! with several devices is a job by itself.

use crate::analysis::communication::ranks::log::{RankLog, TIMES};
use crate::analysis::communication::ranks::names::{Named, named};
use crate::analysis::communication::ranks::rules::Rules;
use crate::analysis::communication::ranks::{Aside, Source};
use crate::ordering::StableSort;

/// A rank before anything of it is computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// The place of its log.
    pub(crate) log: usize,
    /// Its place in the log.
    pub(crate) device: usize,
    /// In the order of ranks.
    order: Vec<(usize, u32)>,
    /// `rank 3`.
    pub(crate) label: String,
    /// Its number among the ranks of the job, where the file tells it.
    pub(crate) number: Option<u32>,
    /// What says so.
    pub(crate) source: Source,
}

/// Ranks of one job, in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) title: String,
    pub(crate) members: Vec<Member>,
    pub(crate) world_size: Option<u32>,
    /// Why they may be no job after all.
    pub(crate) doubt: Option<&'static str>,
}

/// A file that may be one of several ranks.
struct File {
    member: Member,
    world: Option<u32>,
    /// What moves its messages.
    backend: String,
    /// The product name of its GPU; empty where the trace does not tell.
    gpu: String,
    /// Its name without rank, times and ids.
    loose: String,
    /// Its name without rank.
    stem: String,
    name: String,
}

/// Jobs by title, and files that belong to none.
pub(crate) fn group(logs: &[&RankLog], rules: &Rules) -> (Vec<Group>, Vec<Aside>) {
    let (mut groups, mut aside, mut files) = (Vec::new(), Vec::new(), Vec::new());
    for (at, log) in logs.iter().enumerate() {
        let by_name = named(&log.file, rules);
        let merged = log.devices.len() > 1 && log.devices.iter().all(|device| device.starts_with('['));
        match (told(log).filter(|_| !merged), log.devices.len(), by_name) {
            (_, 0, _) => put_aside(&mut aside, log, "it holds no GPU kernel".to_owned()),
            (Some((rank, world)), ..) => files.push(by_info(log, at, rank, world, rules)),
            (None, 2.., _) => groups.push(by_device(log, at)),
            (None, _, Some(named)) => files.push(by_file_name(log, at, named)),
            (None, _, None) => put_aside(&mut aside, log, why_unknown(log)),
        }
    }
    order(&mut files);
    for files in by_kind(files) {
        by_loose_name(files, &mut groups, &mut aside, logs);
    }
    groups.order_by(|a, b| a.title.cmp(&b.title));
    aside.order_by(|a, b| (&a.file, &a.why).cmp(&(&b.file, &b.why)));
    (groups, aside)
}

/// By rank, then by name, whatever the order in which files were opened.
fn order(files: &mut [File]) {
    files.order_by(|a, b| (&a.member.order, &a.name, a.member.log).cmp(&(&b.member.order, &b.name, b.member.log)));
}

fn put_aside(aside: &mut Vec<Aside>, log: &RankLog, why: String) {
    aside.push(Aside { file: log.file.clone(), why });
}

/// Rank and number of ranks, where the file tells both and they can be.
fn told(log: &RankLog) -> Option<(u32, u32)> {
    let (rank, world) = (u32::try_from(log.rank).ok()?, u32::try_from(log.world_size).ok()?);
    (rank < world).then_some((rank, world))
}

fn why_unknown(log: &RankLog) -> String {
    if log.world_size >= 0 || log.rank >= 0 {
        return format!(
            "it says that it is rank {} of {}, which cannot be, and its name numbers no rank",
            log.rank, log.world_size
        );
    }
    "neither the file nor its name says which rank it is, and it holds one GPU".to_owned()
}

/// Of several devices the one that is busiest: a rank touches others for a copy or a check.
fn busiest(log: &RankLog) -> usize {
    let busy = |device: usize| log.times.get(device * TIMES + 1).copied().unwrap_or(0);
    (0..log.devices.len()).rev().max_by_key(|device| busy(*device)).unwrap_or(0)
}

fn by_info(log: &RankLog, at: usize, rank: u32, world: u32, rules: &Rules) -> File {
    let device = busiest(log);
    let member = Member {
        log: at,
        device,
        order: vec![(0, rank)],
        label: format!("rank {rank}"),
        number: Some(rank),
        source: Source::DistributedInfo,
    };
    let [loose, stem] =
        named(&log.file, rules).map_or_else(|| [log.file.clone(), log.file.clone()], |named| [named.loose, named.stem]);
    file(log, member, Some(world), [loose, stem])
}

fn by_file_name(log: &RankLog, at: usize, named: Named) -> File {
    let Named { numbers, label, stem, loose } = named;
    let member = Member { log: at, device: 0, order: numbers, label, number: None, source: Source::FileName };
    file(log, member, None, [loose, stem])
}

fn file(log: &RankLog, member: Member, world: Option<u32>, [loose, stem]: [String; 2]) -> File {
    let gpu = log.gpus.get(member.device).cloned().unwrap_or_default();
    File { member, world, backend: log.backend.clone(), gpu, loose, stem, name: log.file.clone() }
}

fn by_device(log: &RankLog, at: usize) -> Group {
    let label = |id: &str| match id.strip_prefix('[').and_then(|id| id.split_once(']')) {
        Some((rank, _)) => rank.to_owned(),
        None if id.bytes().all(|byte| byte.is_ascii_digit()) => format!("GPU {id}"),
        None => id.to_owned(),
    };
    let labels: Vec<String> = log.devices.iter().map(|id| label(id)).collect();
    let is_told_apart = |at: usize| labels.iter().filter(|label| Some(*label) == labels.get(at)).count() == 1;
    let members = log.devices.iter().zip(&labels).enumerate().map(|(device, (id, label))| Member {
        log: at,
        device,
        order: vec![(0, u32::try_from(device).unwrap_or(u32::MAX))],
        label: if is_told_apart(device) { label.clone() } else { id.clone() },
        number: None,
        source: Source::Device,
    });
    Group { title: log.file.clone(), members: members.collect(), world_size: None, doubt: None }
}

/// The files by a key, in their order.
fn buckets<K: PartialEq>(files: Vec<File>, key: impl Fn(&File) -> K) -> Vec<Vec<File>> {
    let mut buckets: Vec<(K, Vec<File>)> = Vec::new();
    for file in files {
        let own = key(&file);
        match buckets.iter_mut().find(|(known, _)| *known == own) {
            Some((_, files)) => files.push(file),
            None => buckets.push((own, vec![file])),
        }
    }
    buckets.into_iter().map(|(_, files)| files).collect()
}

/// Files that may be of one job whatever their names: of as many ranks, on GPUs that are not known to differ.
fn by_kind(files: Vec<File>) -> Vec<Vec<File>> {
    let name = |file: &File| file.world.is_none().then(|| file.loose.clone());
    let alike = buckets(files, |file| (file.world, file.backend.clone(), name(file)));
    let mut kinds = Vec::new();
    for files in alike {
        let mut told = files.iter().map(|file| &file.gpu).filter(|gpu| !gpu.is_empty());
        let first = told.next();
        let is_one_gpu = told.all(|gpu| Some(gpu) == first);
        kinds.extend(if is_one_gpu { vec![files] } else { buckets(files, |file| file.gpu.clone()) });
    }
    kinds
}

/// How many ranks there are among files in the order of ranks.
fn ranks(files: &[File]) -> usize {
    files.chunk_by(|a, b| a.member.order == b.member.order).count()
}

/// Makes jobs of files whose names agree but for ranks, times and ids; of all of them where no names agree.
fn by_loose_name(files: Vec<File>, groups: &mut Vec<Group>, aside: &mut Vec<Aside>, logs: &[&RankLog]) {
    let all = ranks(&files);
    let is_whole = files.len() == all && files.iter().all(|file| file.world.map(|world| world as usize) == Some(all));
    let names = buckets(files, |file| file.loose.clone());
    let most = names.iter().map(|files| ranks(files)).max().unwrap_or(0);
    // Hosts have names of their own, and as many ranks each.
    let is_hosts = is_whole && names.iter().all(|files| files.len() == most);
    if names.len() > 1 && all > 1 && (most < 2 || is_hosts) {
        let doubt = if most < 2 { NAMES_SHARE_NOTHING } else { NAMES_OF_HOSTS };
        let mut files: Vec<File> = names.into_iter().flatten().collect();
        order(&mut files);
        let group = job(last_of_each(files, aside), aside, logs);
        groups.extend(group.map(|group| Group { doubt: Some(doubt), ..group }));
        return;
    }
    for files in names {
        match ranks(&files) {
            1 if most > 1 => aside.extend(files.into_iter().map(strange_name)),
            _ => by_stem(files, groups, aside, logs),
        }
    }
}

const NAMES_SHARE_NOTHING: &str =
    "Names of these files share nothing: that they are one job is read from the number of ranks alone.";
const NAMES_OF_HOSTS: &str =
    "Names of these files differ in more than ranks: that they are one job is read from each rank being there once.";

fn strange_name(File { name, member, world, .. }: File) -> Aside {
    let of = world.map_or_else(String::new, |world| format!(" of {world}"));
    let why = format!("it is {}{of}, but its name has nothing in common with those of other such ranks", member.label);
    Aside { file: name, why }
}

/// Where a rank is there twice, names with their times and ids tell jobs apart, unless each rank writes its own.
fn by_stem(files: Vec<File>, groups: &mut Vec<Group>, aside: &mut Vec<Aside>, logs: &[&RankLog]) {
    let (all, ranks_of_all) = (files.len(), ranks(&files));
    if ranks_of_all == all {
        groups.extend(job(files, aside, logs));
        return;
    }
    let stems = buckets(files, |file| file.stem.clone());
    let together: usize = stems.iter().filter(|files| ranks(files) > 1).map(Vec::len).sum();
    // Two ranks may write in the same millisecond.
    if ranks_of_all == 1 || together * 2 > all {
        stems.into_iter().for_each(|files| groups.extend(job(last_of_each(files, aside), aside, logs)));
        return;
    }
    let mut files: Vec<File> = stems.into_iter().flatten().collect();
    order(&mut files);
    groups.extend(job(last_of_each(files, aside), aside, logs));
}

/// Of files of one rank the last by name, which is the newest where names tell times.
fn last_of_each(files: Vec<File>, aside: &mut Vec<Aside>) -> Vec<File> {
    let mut kept: Vec<File> = Vec::new();
    for file in files {
        match kept.last_mut() {
            Some(last) if last.member.order == file.member.order => {
                let why = format!("{} is there already, from {}", file.member.label, file.name);
                let older = std::mem::replace(last, file);
                aside.push(Aside { file: older.name, why });
            }
            _ => kept.push(file),
        }
    }
    kept
}

fn job(files: Vec<File>, aside: &mut Vec<Aside>, logs: &[&RankLog]) -> Option<Group> {
    let first = files.first()?;
    let world_size = first.world;
    if files.len() == 1 {
        let of = match world_size {
            Some(1) => "is the only rank of its job".to_owned(),
            Some(world) => format!("is of {world} ranks, and no other rank of its job is open"),
            None => "by its name, and no other rank of its job is open".to_owned(),
        };
        aside.push(Aside { file: first.name.clone(), why: format!("{} {of}", first.member.label) });
        return None;
    }
    let title = title(&files, logs);
    Some(Group { title, members: files.into_iter().map(|file| file.member).collect(), world_size, doubt: None })
}

/// What the names of the files share, else how many there are.
fn title(files: &[File], logs: &[&RankLog]) -> String {
    let shared = files.first().map(|file| file.loose.clone());
    let shared = shared.filter(|first| files.iter().all(|file| file.loose == *first));
    let first = files.first().and_then(|file| logs.get(file.member.log)).map_or("", |log| log.file.as_str());
    shared.unwrap_or_else(|| format!("{first} and {} more", files.len() - 1))
}
