//! Groups the tables of a report, in display order, and distributes the groups over the tabs of the page. Both are data:
//! `patterns/sections.json`. A section without a group is shown with the notices.

use super::sections::{
    BY_STAGE, CONFIG, Group, STAGE_SEPARATOR, TableChoice, section_name, split_stage, stages, table_id,
};
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
fn groups_by_stage(report: &Report) -> Vec<Group> {
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

/// A tab of the page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tab {
    /// Stable name.
    pub id: String,
    /// Displayed heading.
    pub title: String,
    /// Ids of its groups, which also name it in the page's address.
    pub names: Vec<String>,
    /// Ids of its tables, top to bottom.
    pub tables: Vec<String>,
    /// The table whose short form comes first; may be empty.
    pub in_short: String,
    /// The group whose tables are shown on demand.
    pub folded: Option<Group>,
    /// Tables of which one is shown at a time.
    pub one_of: Vec<TableChoice>,
    /// Whether it is behind the menu "More".
    pub is_more: bool,
}

/// The tabs of the page: those that are always shown, then one for each group of the menu "More" that has tables, or
/// that the page fills.
pub fn tabs(report: &Report) -> Vec<Tab> {
    let groups = groups_by_stage(report);
    let find = |id: &str| {
        let all = || groups.iter().chain(&CONFIG.page_groups);
        all().find(|group| group.id == id && !group.tables.is_empty()).or(all().find(|group| group.id == id))
    };
    let shown = CONFIG.tabs.iter().map(|tab| {
        let tables: Vec<String> =
            tab.groups.iter().filter_map(|id| find(id)).flat_map(|group| group.tables.clone()).collect();
        let is_present = |choice: &&TableChoice| tables.contains(&choice.table);
        Tab {
            id: tab.id.clone(),
            title: tab.title.clone(),
            names: tab.groups.clone(),
            in_short: tab.in_short.clone(),
            folded: find(&tab.folded).cloned(),
            one_of: tab.one_of.iter().filter(is_present).cloned().collect(),
            tables,
            is_more: false,
        }
    });
    let more = CONFIG.more.iter().filter_map(|id| find(id)).map(|group| Tab {
        id: group.id.clone(),
        title: group.title.clone(),
        names: vec![group.id.clone()],
        tables: group.tables.clone(),
        is_more: true,
        ..Tab::default()
    });
    shown.chain(more).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_is_in_exactly_one_tab() {
        let in_tabs = CONFIG.tabs.iter().flat_map(|tab| tab.groups.iter().chain([&tab.folded])).chain(&CONFIG.more);
        let mut placed: Vec<&str> = in_tabs.map(String::as_str).filter(|id| !id.is_empty()).collect();
        placed.sort_unstable();
        let mut all: Vec<&str> =
            CONFIG.groups.iter().chain(&CONFIG.page_groups).map(|group| group.id.as_str()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(placed, all);
    }

    #[test]
    fn short_forms_and_choices_name_tables_of_their_tab() {
        let tables: Vec<&str> = known_tables().collect();
        for tab in &CONFIG.tabs {
            assert!(tab.in_short.is_empty() || CONFIG.short_tables.contains_key(&tab.in_short), "{}", tab.in_short);
            for choice in &tab.one_of {
                assert!(tables.contains(&choice.table.as_str()), "{}", choice.table);
            }
        }
    }
}
