//! Two ranks in one file of torch.profiler, as tools leave them that merge files. Each rank is a process with a GPU of its own.

use super::capture::{Captured, Ids, capture, file};
use super::config::Config;
use super::engine::Engine;
use super::machine::Recording;
use super::server;
use super::truth::{Truth, works};
use serde_json::{Value, json};

/// How the file names the processes and GPUs of its ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// Each rank has a GPU number of its own.
    OwnNumbers,
    /// Both call their GPU 0, and the tool moved the pids of the second rank.
    MovedPids,
    /// Both call their GPU 0, and the tool wrote the rank before each pid.
    Labels,
    /// Both call their GPU 0, and it has the same pid.
    OneGpu,
}

/// Two ranks of one server.
#[derive(Debug, Clone)]
pub(crate) struct Merged {
    pub(crate) ranks: [Config; 2],
    pub(crate) naming: Naming,
    /// Whether the correlation ids of both ranks begin with the same number.
    pub(crate) has_equal_ids: bool,
    /// Whether the tool sorted the events by time.
    pub(crate) is_sorted: bool,
    /// How much later the second rank begins, as a share of its first step.
    pub(crate) phase: f64,
}

impl Merged {
    /// The file and its truth.
    pub(crate) fn play(&self, seed: u64) -> (String, Truth) {
        let engine = Engine::named(self.ranks[0].engine);
        let played = self.ranks.iter().enumerate().map(|(rank, config)| self.play_rank(rank, config, &engine, seed));
        let (recordings, captures): (Vec<Recording>, Vec<Captured>) = played.unzip();
        let all: Vec<(&Recording, &Captured)> = recordings.iter().zip(&captures).collect();
        let truths =
            self.ranks.iter().zip(&all).map(|(config, (recording, captured))| Truth::of(config, recording, captured));
        let works = (self.naming == Naming::OneGpu).then(|| works(&all));
        let truth = Truth::merged(truths.collect(), works.as_deref());
        let mut events: Vec<Value> = captures.into_iter().flat_map(|captured| captured.events).collect();
        if self.is_sorted {
            events.sort_by(|a, b| a["ts"].as_f64().unwrap().total_cmp(&b["ts"].as_f64().unwrap()));
        }
        (file(&events, &engine.device), truth)
    }

    fn play_rank(&self, rank: usize, config: &Config, engine: &Engine, seed: u64) -> (Recording, Captured) {
        let mut recording = server::play(config, engine, seed * 2 + rank as u64);
        if rank > 0 {
            let first = |step: usize| recording.ops.iter().filter(|op| op.step == step).map(|op| op.start).min();
            recording.delay(((first(1).unwrap() - first(0).unwrap()) as f64 * self.phase) as i64);
        }
        let captured = capture(config, &engine.device, &recording, &self.ids(rank), seed);
        (recording, captured)
    }

    fn ids(&self, rank: usize) -> Ids {
        let (host, moved) = (4_242 + rank, rank * 1_000_000);
        let (host_pid, gpu_pid, device) = match self.naming {
            Naming::OwnNumbers => (json!(host), json!(rank), rank as u32),
            Naming::MovedPids => (json!(4_242 + moved), json!(moved), 0),
            Naming::Labels => (json!(format!("[TP0{rank}] 4242")), json!(format!("[TP0{rank}] 0")), 0),
            Naming::OneGpu => (json!(host), json!(0), 0),
        };
        let first = if self.has_equal_ids { 1 } else { 1 + rank * 500_000 };
        Ids { host_pid, gpu_pid, device, first }
    }
}
