//! Names of rows as ids of the string table: stored as ids while rows are read, looked up once at the end.

use super::scanner::{Cells, Lookup, Scanner, lossy};
use super::schema::{STRINGS, Schema};
use crate::trace::{NameId, Names};
use foldhash::fast::RandomState;
use rusqlite::types::ValueRef;
use std::collections::{HashMap, HashSet};

pub(super) type Strings = HashMap<i64, String, RandomState>;

pub(super) const MAX_IDS_PER_NAME: usize = 3;

/// The names of one table that are not looked up yet.
#[derive(Debug, Default)]
pub(super) struct PendingNames {
    /// Indexed by the [`NameId`] that rows have until [`PendingNames::resolve`].
    names: Vec<Pending>,
    /// Texts that rows contain directly.
    texts: Names,
    /// Parallel to `texts`: the index in `names`.
    text_names: Vec<NameId>,
    by_id: HashMap<i64, NameId, RandomState>,
    last: Option<(i64, NameId)>,
    unnamed: Option<NameId>,
}

#[derive(Debug)]
enum Pending {
    /// The first of these ids that the string table contains.
    Ids([Option<i64>; MAX_IDS_PER_NAME]),
    Text(NameId),
    None,
}

impl PendingNames {
    /// Returns the name of a row: the first of these columns that has an id or a text.
    pub(super) fn of_row(&mut self, cells: &Cells<'_>, columns: &[usize]) -> NameId {
        for (index, &column) in columns.iter().enumerate() {
            match cells.value(column) {
                ValueRef::Integer(id) => return self.id(id, || ids(cells, columns.get(index..).unwrap_or_default())),
                ValueRef::Text(bytes) => return self.text(&lossy(bytes)),
                _ => {}
            }
        }
        self.unnamed()
    }

    pub(super) fn text(&mut self, text: &str) -> NameId {
        let NameId(index) = self.texts.intern(text);
        if let Some(&name) = self.text_names.get(index as usize) {
            return name;
        }
        let name = self.add(Pending::Text(NameId(index)));
        self.text_names.push(name);
        name
    }

    fn id(&mut self, id: i64, ids: impl FnOnce() -> [Option<i64>; MAX_IDS_PER_NAME]) -> NameId {
        if let Some((last, name)) = self.last
            && last == id
        {
            return name;
        }
        let name = match self.by_id.get(&id) {
            Some(&name) => name,
            None => {
                let name = self.add(Pending::Ids(ids()));
                self.by_id.insert(id, name);
                name
            }
        };
        self.last = Some((id, name));
        name
    }

    fn unnamed(&mut self) -> NameId {
        let name = self.unnamed.unwrap_or_else(|| self.add(Pending::None));
        self.unnamed = Some(name);
        name
    }

    fn add(&mut self, name: Pending) -> NameId {
        self.names.push(name);
        NameId(u32::try_from(self.names.len() - 1).unwrap_or(u32::MAX))
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = i64> {
        self.names
            .iter()
            .flat_map(|name| match name {
                Pending::Ids(ids) => *ids,
                _ => [None; MAX_IDS_PER_NAME],
            })
            .flatten()
    }

    /// Returns the names, one per distinct text; the new id of each old one; and the number of names without a text.
    pub(super) fn resolve(self, strings: &Strings) -> (Names, Vec<NameId>, u64) {
        let (mut names, mut missing) = (self.texts, 0);
        let mut intern = |pending: &Pending| match pending {
            Pending::Text(name) => *name,
            Pending::None => {
                missing += 1;
                names.intern("(unnamed)")
            }
            Pending::Ids(ids) => match ids.iter().flatten().find_map(|id| strings.get(id)) {
                Some(text) => names.intern(text),
                None => {
                    missing += 1;
                    names.intern(&format!("(name {} is missing)", ids.iter().flatten().next().unwrap_or(&0)))
                }
            },
        };
        let new_ids = self.names.iter().map(&mut intern).collect();
        (names, new_ids, missing)
    }
}

fn ids(cells: &Cells<'_>, columns: &[usize]) -> [Option<i64>; MAX_IDS_PER_NAME] {
    let mut ids = [None; MAX_IDS_PER_NAME];
    for (slot, &column) in ids.iter_mut().zip(columns) {
        *slot = cells.int(column);
    }
    ids
}

/// Returns a lookup of single texts, if the string table has its id as primary key.
pub(super) fn text_lookup<'a>(scanner: &Scanner<'a>, schema: &Schema) -> Option<Lookup<'a>> {
    let table = schema.find(&STRINGS)?;
    let (id, value) = (table.column(&["id"])?, table.column(&["value"])?);
    if table.is_key(id) { scanner.lookup(table, id, value) } else { None }
}

/// Returns the texts of these ids, and the number of ids with a second, different text: the first one counts.
pub(super) fn look_up(scanner: &mut Scanner<'_>, schema: &Schema, ids: impl Iterator<Item = i64>) -> (Strings, u64) {
    let mut wanted: Vec<i64> = ids.collect();
    wanted.sort_unstable();
    wanted.dedup();
    let (mut strings, mut repeated) = (Strings::default(), HashSet::<i64, RandomState>::default());
    let Some(table) = schema.find(&STRINGS) else { return (strings, 0) };
    let (Some(id), Some(value)) = (table.column(&["id"]), table.column(&["value"])) else { return (strings, 0) };
    if table.is_key(id) {
        if let Some(mut texts) = scanner.lookup(table, id, value) {
            strings.extend(wanted.into_iter().filter_map(|id| Some((id, texts.text(id)?))));
        }
        return (strings, 0);
    }
    // Texts that a damaged table does not return are counted as missing names.
    let _ = scanner.scan(table, &[&["id"], &["value"]], &mut |cells| {
        let (Some(id), Some(text)) = (cells.int(0), cells.text(1)) else { return };
        if wanted.binary_search(&id).is_err() {
            return;
        }
        match strings.get(&id) {
            Some(first) if *first != text => {
                repeated.insert(id);
            }
            Some(_) => {}
            None => drop(strings.insert(id, text.into_owned())),
        }
    });
    (strings, repeated.len() as u64)
}
