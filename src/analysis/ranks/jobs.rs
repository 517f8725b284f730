//! Which files and devices are ranks of one job, and why others are not.
//!
//! A file that says which rank wrote it belongs to the job of as many ranks; where a rank is there twice, names of files
//! tell the jobs apart, first without the times and ids in them, then with them. Files that say nothing go by their names
//! alone. A file with several devices is a job by itself.

use super::log::{RankLog, TIMES};
use super::names::{Named, named};
use super::rules::Rules;
use super::{Aside, Source};
use crate::ordering::InOrder;

/// A rank before anything of it is computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    /// The place of its log.
    pub(super) log: usize,
    /// Its place in the log.
    pub(super) device: usize,
    /// In the order of ranks.
    order: Vec<(usize, u32)>,
    /// `rank 3`.
    pub(super) label: String,
    /// Its number among the ranks of the job, where the file tells it.
    pub(super) number: Option<u32>,
    /// What says so.
    pub(super) source: Source,
}

/// Ranks of one job, in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) title: String,
    pub(super) members: Vec<Member>,
    pub(super) world_size: Option<u32>,
}

/// A file that may be one of several ranks.
struct File {
    member: Member,
    world: Option<u32>,
    /// What ranks of a job share: less and less may differ.
    keys: [String; 3],
    name: String,
}

/// Jobs by title, and files that belong to none.
pub(super) fn group(logs: &[&RankLog], rules: &Rules) -> (Vec<Group>, Vec<Aside>) {
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
    // Whatever the order in which files were opened.
    files.order_by(|a, b| (&a.member.order, &a.name, a.member.log).cmp(&(&b.member.order, &b.name, b.member.log)));
    split(files, 0, &mut groups, &mut aside, logs);
    groups.order_by(|a, b| a.title.cmp(&b.title));
    aside.order_by(|a, b| (&a.file, &a.why).cmp(&(&b.file, &b.why)));
    (groups, aside)
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
    let named = named(&log.file, rules);
    let keys = named.map_or_else(|| [log.file.clone(), log.file.clone()], |named| [named.loose, named.stem]);
    let [loose, stem] = keys;
    File {
        member: Member {
            log: at,
            device: busiest(log),
            order: vec![(0, rank)],
            label: format!("rank {rank}"),
            number: Some(rank),
            source: Source::DistributedInfo,
        },
        world: Some(world),
        keys: [format!("{world} {}", log.backend), loose, stem],
        name: log.file.clone(),
    }
}

fn by_file_name(log: &RankLog, at: usize, named: Named) -> File {
    let Named { numbers, label, stem, loose } = named;
    let member = Member { log: at, device: 0, order: numbers, label, number: None, source: Source::FileName };
    File { member, world: None, keys: [loose.clone(), loose, stem], name: log.file.clone() }
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
    Group { title: log.file.clone(), members: members.collect(), world_size: None }
}

/// Makes jobs of files whose keys agree; where a rank is there twice, the next key tells them apart.
fn split(files: Vec<File>, level: usize, groups: &mut Vec<Group>, aside: &mut Vec<Aside>, logs: &[&RankLog]) {
    let mut buckets: Vec<(String, Vec<File>)> = Vec::new();
    for file in files {
        let kind = if file.world.is_some() { "info" } else { "name" };
        let key = format!("{kind} {}", file.keys.get(level).map_or("", String::as_str));
        match buckets.iter_mut().find(|(known, _)| *known == key) {
            Some((_, files)) => files.push(file),
            None => buckets.push((key, vec![file])),
        }
    }
    for (_, files) in buckets {
        let is_twice =
            files.windows(2).any(|pair| if let [a, b] = pair { a.member.order == b.member.order } else { false });
        match (is_twice, level + 1 < 3) {
            (false, _) => groups.extend(job(files, aside, logs)),
            (true, true) => split(files, level + 1, groups, aside, logs),
            (true, false) => groups.extend(job(first_of_each(files, aside), aside, logs)),
        }
    }
}

/// Of files of one rank the first by name; nothing tells which belong together.
fn first_of_each(files: Vec<File>, aside: &mut Vec<Aside>) -> Vec<File> {
    let mut kept: Vec<File> = Vec::new();
    for file in files {
        match kept.last() {
            Some(last) if last.member.order == file.member.order => {
                let why = format!("{} is there already, from {}", file.member.label, last.name);
                aside.push(Aside { file: file.name, why });
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
    Some(Group { title, members: files.into_iter().map(|file| file.member).collect(), world_size })
}

/// What the names of the files share, else how many there are.
fn title(files: &[File], logs: &[&RankLog]) -> String {
    let loose = |file: &File| file.keys.get(1).cloned();
    let shared =
        files.first().and_then(loose).filter(|first| files.iter().all(|file| loose(file).as_ref() == Some(first)));
    let first = files.first().and_then(|file| logs.get(file.member.log)).map_or("", |log| log.file.as_str());
    shared.unwrap_or_else(|| format!("{first} and {} more", files.len() - 1))
}
