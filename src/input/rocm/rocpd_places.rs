//! GPUs and processes of a rocpd database. Their ids belong to the tables of one UUID: two hosts number their GPUs alike, and
//! containers their processes. Reads the small tables of all UUIDs once, before the large ones.
//!
//! A GPU is known by its host and its number on the host, which all processes and containers of the host share: the column `uuid` of
//! agents has the PCI id of the model, or differs between processes. A process is known by its host and the UUID of its tables. Labels
//! have only what tells them apart: of a single host, GPUs have their numbers and processes their pids.

use super::Import;
use crate::input::nsys::scanner::Cells;
use crate::input::nsys::schema::Table;
use crate::json::Json;
use crate::trace::Ns;
use std::collections::{BTreeMap, BTreeSet};

/// What the tables of one UUID say about places.
#[derive(Default)]
pub(super) struct Place {
    /// By the id of the row: pid and label.
    pub(super) processes: BTreeMap<i64, (i64, String)>,
    pub(super) agents: BTreeMap<i64, Agent>,
    hosts: BTreeMap<i64, Host>,
    /// By the id of the row of the process: the id of its host.
    host_of_process: BTreeMap<i64, i64>,
}

/// A computer that ran processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Host {
    /// What tells it from others of the same name.
    id: String,
    name: String,
}

/// A CPU or GPU.
pub(super) struct Agent {
    pub(super) is_gpu: bool,
    /// The label of its device.
    pub(super) device: String,
    pub(super) name: String,
    pub(super) compute_units: Option<u32>,
    host: i64,
}

/// The places of all UUIDs, by the endings of their tables.
#[derive(Default)]
pub(super) struct Places(BTreeMap<String, Place>);

impl Places {
    /// Reads the tables with this ending.
    pub(super) fn read<'s>(
        &mut self,
        import: &mut Import<'_>,
        suffix: &str,
        table: &dyn Fn(&str) -> Option<&'s Table>,
    ) {
        let place = self.0.entry(suffix.to_owned()).or_default();
        if let Some(table) = table("rocpd_info_node") {
            import.scan(table, &[&["id"], &["machine_id"], &["hash"], &["hostname"]], &mut |_, cells| {
                let Some(id) = cells.int(0) else { return };
                let text = |cell: usize| cells.text(cell).filter(|text| !text.is_empty()).map(|text| text.into_owned());
                let host_id = text(1).or_else(|| cells.int(2).map(|hash| hash.to_string())).unwrap_or_default();
                place.hosts.insert(id, Host { id: host_id, name: text(3).unwrap_or_default() });
            });
        }
        if let Some(table) = table("rocpd_info_process") {
            import.scan(table, &[&["id"], &["pid"], &["nid"], &["init"], &["fini"]], &mut |builder, cells| {
                if let (Some(start), Some(end)) = (cells.int(3), cells.int(4)) {
                    builder.add_recorded(Ns(start), Ns(end));
                }
                let (Some(id), Some(pid)) = (cells.int(0), cells.int(1)) else { return };
                place.processes.insert(id, (pid, String::new()));
                place.host_of_process.insert(id, cells.int(2).unwrap_or_default());
            });
        }
        if let Some(table) = table("rocpd_info_agent") {
            let columns: &[&[&str]] =
                &[&["id"], &["type"], &["absolute_index"], &["product_name"], &["name"], &["extdata"], &["nid"]];
            import.scan(table, columns, &mut |_, cells| {
                let Some(id) = cells.int(0) else { return };
                place.agents.insert(id, agent(id, cells));
            });
        }
    }

    /// Sets the labels of devices and processes, when all tables are read.
    pub(super) fn label(&mut self) {
        let mut devices = Labels::default();
        let mut processes = Labels::default();
        for (suffix, place) in &self.0 {
            for agent in place.agents.values().filter(|agent| agent.is_gpu) {
                devices.add(place.names_of_device(agent), (place.host(agent.host), agent.device.clone()));
            }
            for (id, (pid, _)) in &place.processes {
                processes.add(place.names_of_process(suffix, *id, *pid), (suffix.clone(), *id));
            }
        }
        let (device_detail, process_detail) = (devices.detail(), processes.detail());
        for (suffix, place) in &mut self.0 {
            let devices: Vec<(i64, String)> = place
                .agents
                .iter()
                .filter_map(|(id, agent)| Some((*id, place.names_of_device(agent).get(device_detail)?.clone())))
                .collect();
            let processes: Vec<(i64, String)> = place
                .processes
                .iter()
                .filter_map(|(id, (pid, _))| {
                    Some((*id, place.names_of_process(suffix, *id, *pid).get(process_detail)?.1.clone()))
                })
                .collect();
            for (id, label) in devices {
                place.agents.get_mut(&id).into_iter().for_each(|agent| agent.device.clone_from(&label));
            }
            for (id, label) in processes {
                place.processes.get_mut(&id).into_iter().for_each(|process| process.1.clone_from(&label));
            }
        }
    }

    /// Takes what the tables with this ending say.
    pub(super) fn take(&mut self, suffix: &str) -> Place {
        self.0.remove(suffix).unwrap_or_default()
    }
}

impl Place {
    /// The host with this id; the only one if there is no such id.
    fn host(&self, id: i64) -> Host {
        let only = || self.hosts.values().next().filter(|_| self.hosts.len() == 1);
        self.hosts.get(&id).or_else(only).cloned().unwrap_or_default()
    }

    /// Labels of a device, each with more detail than the one before. Those with a host are written like those of merged ranks.
    fn names_of_device(&self, agent: &Agent) -> [String; 3] {
        let (host, number) = (self.host(agent.host), &agent.device);
        [number.clone(), format!("[{}] {number}", host.name), format!("[{} {}] {number}", host.name, host.id)]
    }

    /// The same for a process, with its pid.
    fn names_of_process(&self, suffix: &str, id: i64, pid: i64) -> [(i64, String); 4] {
        let host = self.host(self.host_of_process.get(&id).copied().unwrap_or_default());
        [
            (pid, String::new()),
            (pid, format!("[{}]", host.name)),
            (pid, format!("[{} {}]", host.name, host.id)),
            (pid, format!("[{}{suffix}]", host.name)),
        ]
    }
}

/// Finds how much detail labels need so that no two things share one.
struct Labels<L, T, const LEVELS: usize> {
    /// By label of each level of detail: the things that it names.
    levels: [BTreeMap<L, BTreeSet<T>>; LEVELS],
}

impl<L, T, const LEVELS: usize> Default for Labels<L, T, LEVELS> {
    fn default() -> Self {
        Self { levels: std::array::from_fn(|_| BTreeMap::new()) }
    }
}

impl<L: Ord, T: Ord + Clone, const LEVELS: usize> Labels<L, T, LEVELS> {
    fn add(&mut self, labels: [L; LEVELS], thing: T) {
        for (level, label) in self.levels.iter_mut().zip(labels) {
            level.entry(label).or_default().insert(thing.clone());
        }
    }

    /// The first level at which each label names one thing; the last if there is none.
    fn detail(&self) -> usize {
        let is_distinct = |level: &BTreeMap<L, BTreeSet<T>>| level.values().all(|things| things.len() == 1);
        self.levels.iter().position(is_distinct).unwrap_or(self.levels.len() - 1)
    }
}

fn agent(id: i64, cells: &Cells<'_>) -> Agent {
    let name = cells.text(3).filter(|name| !name.is_empty()).or_else(|| cells.text(4)).unwrap_or_default();
    let compute_units = cells.text(5).and_then(|text| Json::parse(&text).ok()?.get_path(&["cu_count"])?.number());
    Agent {
        is_gpu: cells.text(1).is_none_or(|kind| kind == "GPU"),
        device: cells.int(2).unwrap_or(id).to_string(),
        name: name.into_owned(),
        compute_units: compute_units.map(|count| count as u32).filter(|count| *count > 0),
        host: cells.int(6).unwrap_or_default(),
    }
}
