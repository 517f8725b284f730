//! Measures what gpuprism finds in generated traces whose steps, layers, roles and late host code are known.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

mod capture;
mod config;
mod engine;
mod grid;
mod random;
mod score;
mod server;
mod truth;

use config::Config;
use engine::Engine;
use gpuprism::analysis::results::Run;
use gpuprism::input::{Imported, Importer};
use gpuprism::session::{self, Choices};
use gpuprism::trace::Trace;
use score::{Count, Score, score};
use truth::Truth;

const SEEDS: u64 = 4;

fn import(mut importer: Importer, text: &str) -> Trace {
    importer.feed(text.as_bytes()).unwrap();
    let Imported::Trace(trace) = importer.finish().unwrap() else { panic!("a trace") };
    *trace
}

/// Analyzes a file as the command line does.
fn analyze(text: &str) -> Run {
    let mut trace = import(Importer::new("trace"), text);
    if let Some(search) = session::code_search(&trace) {
        trace.late_code = import(Importer::for_code(&trace, &search), text).late_code;
    }
    session::run(&trace, &Choices::default()).unwrap()
}

fn measure(config: &Config, seed: u64) -> Score {
    let engine = Engine::named(config.engine);
    let recording = server::play(config, &engine, seed);
    let captured = capture::capture(config, &engine, &recording, seed);
    if let Ok(folder) = std::env::var("TRUTH_OUT") {
        let name =
            format!("{folder}/{}_{}_{:?}_{:?}_{seed}.json", config.engine, config.name, config.launch, config.capture);
        std::fs::write(name.replace(' ', "_").replace('%', ""), &captured.text).unwrap();
    }
    let truth = Truth::of(config, &recording, &captured);
    score(config, &truth, &analyze(&captured.text).sections)
}

/// Prints a line for each configuration and the sums, and returns the sums.
fn measure_all(configs: &[Config]) -> Score {
    let mut sum = Score::default();
    println!("{:14} {:26} {:9} {:9}  steps        stages       layers       roles        blame", "engine", "", "", "");
    for config in configs {
        let mut of_config = Score::default();
        for seed in 0..SEEDS {
            of_config.add(measure(config, seed));
        }
        let (launch, capture) = (format!("{:?}", config.launch), format!("{:?}", config.capture));
        println!("{:14} {:26} {launch:9} {capture:9}  {}", config.engine, config.name, of_config.text());
        of_config.lies.iter().take(3).for_each(|lie| println!("    false: {lie}"));
        sum.add(of_config);
    }
    println!("{:62}  {}", "all", sum.text());
    sum
}

impl Score {
    fn counts(&mut self) -> [&mut Count; 5] {
        [&mut self.steps, &mut self.stages, &mut self.layers, &mut self.roles, &mut self.blame]
    }

    fn add(&mut self, mut other: Self) {
        for (sum, count) in self.counts().into_iter().zip(other.counts()) {
            sum.add(*count);
        }
        self.lies.append(&mut other.lies);
    }

    /// Precision and recall of each count, in per cent.
    fn text(&self) -> String {
        let text = |count: &Count| match count {
            Count { truth: 0, found: 0, .. } => format!("{:11}", "-"),
            count => format!("{:5.1} {:5.1}", 100.0 * count.precision(), 100.0 * count.recall()),
        };
        [&self.steps, &self.stages, &self.layers, &self.roles, &self.blame].map(text).join("  ")
    }
}

#[test]
fn clean_traces() {
    let sum = measure_all(&grid::clean());
    assert_eq!(sum.lies, [] as [&str; 0]);
}

#[test]
fn late_traces() {
    let sum = measure_all(&grid::late());
    assert_eq!(sum.lies, [] as [&str; 0]);
}

#[test]
fn faulty_traces() {
    let sum = measure_all(&grid::faulty());
    assert_eq!(sum.lies, [] as [&str; 0]);
}
