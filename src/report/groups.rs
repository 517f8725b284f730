//! The groups of tables in a report: which tables a report has, and in which order people want them.
//!
//! The groups are listed in `patterns/sections.json`.

use super::sections::{BY_STAGE, section_name, split_stage, stages, table_id};
use super::table::Table;
use super::{Report, is_builtin_table, table as find_table};
use crate::json::{self, from_json};
use crate::ordering::StableSort;
use std::sync::LazyLock;

/// Tables that stand one below the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Stable name.
    pub id: String,
    /// Heading for people.
    pub title: String,
    /// Ids of its tables.
    pub tables: Vec<String>,
}
from_json!(Group { id, title, tables });

struct Words {
    groups: Vec<Group>,
}
from_json!(Words { groups });

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    #[allow(clippy::expect_used, reason = "a file of this crate, read by the tests")]
    json::read(include_str!("../../patterns/sections.json")).expect("patterns/sections.json")
});

/// The ids of all tables that a report can have.
pub fn known_tables() -> impl Iterator<Item = &'static str> {
    WORDS.groups.iter().flat_map(|group| &group.tables).map(String::as_str)
}

/// Can a report have a table of this id? `triage_kernels@decode` is one stage of a table.
pub fn is_known_table(id: &str) -> bool {
    let (table, _) = split_stage(id);
    known_tables().any(|known| known == table)
}

/// The groups of tables that this report has, in the order in which people want them. A section that has no group stands
/// in the one of the notices.
pub fn groups(report: &Report) -> Vec<Group> {
    let present =
        |id: &String| is_builtin_table(id) || report.runs.iter().any(|run| run.sections.contains_key(section_name(id)));
    let mut groups = WORDS.groups.clone();
    groups.iter_mut().for_each(|group| group.tables.retain(present));
    let sections = report.runs.iter().flat_map(|run| run.sections.keys());
    let mut others: Vec<String> =
        sections.map(|name| table_id(name).to_owned()).filter(|id| !known_tables().any(|known| known == id)).collect();
    others.order_by(|a, b| a.cmp(b));
    others.dedup();
    if let Some(last) = groups.last_mut() {
        last.tables.extend(others);
    }
    groups.retain(|group| !group.tables.is_empty());
    groups
}

/// Like [`groups`], with one table a stage where a section has stages.
pub fn groups_by_stage(report: &Report) -> Vec<Group> {
    let mut groups = groups(report);
    for group in &mut groups {
        for id in std::mem::take(&mut group.tables) {
            let stages = if BY_STAGE.contains(&id.as_str()) { stages(&id, report.runs.iter()) } else { Vec::new() };
            for stage in &stages {
                group.tables.push([&id, "@", stage].concat());
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

/// All tables of a report: what costs most, where the time went, then the sections that explain it, group by group.
pub fn all_tables(report: &Report) -> Vec<Table> {
    let mut ids: Vec<String> = groups_by_stage(report).into_iter().flat_map(|group| group.tables).collect();
    ids.order_by_key(|id| (id != "critical_path", !is_builtin_table(id)));
    ids.iter().filter_map(|id| find_table(report, id, None)).collect()
}
