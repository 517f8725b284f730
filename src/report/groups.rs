//! Groups the tables of a report into tabs, in display order. The groups are data: `patterns/sections.json`. A section
//! without a group is shown with the notices.

use super::sections::{BY_STAGE, CONFIG, Group, STAGE_SEPARATOR, section_name, split_stage, stages, table_id};
use super::table::Table;
use super::{Report, is_builtin_table, table as find_table};
use crate::ordering;

/// The ids of all tables that a report can have, except the tables of single stages.
pub fn known_tables() -> impl Iterator<Item = &'static str> {
    CONFIG.groups.iter().flat_map(|group| &group.tables).map(String::as_str)
}

/// Whether a report can have a table with this id, including the tables of single stages.
pub fn is_known_table(id: &str) -> bool {
    let (table, _) = split_stage(id);
    known_tables().any(|known| known == table)
}

/// The groups of this report's tables, in display order. Sections without a group are added to the last one, the
/// notices.
pub fn groups(report: &Report) -> Vec<Group> {
    let is_present =
        |id: &String| is_builtin_table(id) || report.runs.iter().any(|run| run.sections.contains_key(section_name(id)));
    let mut groups = CONFIG.groups.clone();
    groups.iter_mut().for_each(|group| group.tables.retain(is_present));
    let sections = report.runs.iter().flat_map(|run| run.sections.keys());
    let mut others: Vec<String> =
        sections.map(|name| table_id(name).to_owned()).filter(|id| !known_tables().any(|known| known == id)).collect();
    ordering::sort_by(&mut others, Ord::cmp);
    others.dedup();
    if let Some(last) = groups.last_mut() {
        last.tables.extend(others);
    }
    groups.retain(|group| !group.tables.is_empty());
    groups
}

/// Like [`groups`], with one table per stage for the sections that have stages.
pub fn groups_by_stage(report: &Report) -> Vec<Group> {
    let mut groups = groups(report);
    for group in &mut groups {
        for id in std::mem::take(&mut group.tables) {
            let stages = if BY_STAGE.contains(&id.as_str()) { stages(&id, report.runs.iter()) } else { Vec::new() };
            for stage in &stages {
                group.tables.push(format!("{id}{STAGE_SEPARATOR}{stage}"));
            }
            if stages.is_empty() {
                group.tables.push(id);
            }
        }
    }
    groups
}

/// The tables of one group.
pub fn tables_of(report: &Report, group: &str) -> Vec<Table> {
    let mut tables = Vec::new();
    for group in groups_by_stage(report).iter().filter(|known| known.id == group) {
        for id in &group.tables {
            tables.extend(find_table(report, id, None));
        }
    }
    tables
}

/// All tables of a report: the built-in tables, then the sections by group.
pub fn all_tables(report: &Report) -> Vec<Table> {
    let mut ids: Vec<String> = groups_by_stage(report).into_iter().flat_map(|group| group.tables).collect();
    ordering::sort_by_key(&mut ids, |id| !is_builtin_table(id));
    ids.iter().filter_map(|id| find_table(report, id, None)).collect()
}
