//! Measures what gpuprism finds in generated traces whose steps, layers, roles and late host code are known.
//!
//! Real traces of LLM servers have no known truth, and there are few of them. So a small model of a server (`server`) runs the
//! kernels of real engines (`engines.json`) and knows what it did (`truth`): the steps with their stage, the layers of each step
//! with their kinds, the role of each kernel, and the Python function that the host was in while the GPU waited. A capture of
//! it (`capture`) is analyzed as on the command line, and the sections `step_list`, `layers`, `layer_roles`, `idle_blame`,
//! `graph_coverage` and `speculation` are compared with the truth (`score`). Names and usual durations of kernels are facts
//! from real traces; the rest is a model: one host thread, one GPU, two streams.
//!
//! | group | engines | launches | captures | what varies |
//! |---|---|---|---|---|
//! | decode | all six | full graph, eager, piecewise (vLLM) | all four | MoE, dense, alternating sliding and full attention |
//! | prefill | all six | eager prefill between replayed decode steps | all four | |
//! | chunked prefill | three | eager mixed steps between replays | all four | |
//! | speculation | SGLang B300, H100 | full graph | all but frames | three draft steps of one layer, one that verifies |
//! | first layers dense | four | full graph | annotated, plain | three dense layers, then eleven MoE layers |
//! | padding | SGLang B300 | full graph | all four | batch 5 in a graph for 8 |
//! | prefill kernels in decode | SGLang H100 | eager | all four | FlashInfer with tensor cores |
//! | host late | five | all | Python frames | a function before the first kernel or inside of a step |
//! | faults | three | full graph | all four | noise, waiting ranks, second stream, cut, 1 to 20 % of records lost |
//! | pauses | all six | full graph | all four | the server waits before each step: at most 0.5 ms, at most 40 ms |
//! | few steps | all six | full graph, eager | annotated | one to four steps with lost records or cut |
//!
//! Captures: torch.profiler with annotations; without (plain); with Python frames; and names alone, the CSV of
//! `nsys stats -r cuda_gpu_trace`.
//!
//! Each test prints a line per configuration, with precision and recall in per cent (`--nocapture`). A false statement is a row
//! that is not true and not marked as a guess: a step that is not there, another stage, another number or order of layers, time
//! blamed on another function. Missing rows are no false statements: with lost records or a cut capture gpuprism may say
//! nothing. A step that the capture contains only in part may be listed or not.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

mod capture;
mod config;
mod engine;
mod grid;
mod random;
mod score;
mod server;
mod truth;

use config::{Capture, Config, Work};
use engine::Engine;
use gpuprism::analysis::results::Run;
use gpuprism::input::{Imported, Importer};
use gpuprism::session::{self, Choices};
use gpuprism::trace::Trace;
use score::{Count, Score, score};
use truth::Truth;

/// The number of random seeds of each configuration.
const SEEDS: u64 = 3;
/// The least share of true rows, and of rows that are found.
const MIN_RIGHT: f64 = 0.99;

fn import(mut importer: Importer, text: &str) -> Trace {
    importer.feed(text.as_bytes()).unwrap();
    let Imported::Trace(trace) = importer.finish().unwrap() else { panic!("a trace") };
    *trace
}

/// Analyzes a file as the command line does.
fn analyze(text: &str) -> Run {
    let mut trace = import(Importer::new("trace"), text);
    session::look_up_code(&mut trace);
    session::run(&trace, &Choices::default()).unwrap()
}

fn measure(config: &Config, seed: u64) -> Score {
    let engine = Engine::named(config.engine);
    let recording = server::play(config, &engine, seed);
    let captured = capture::capture(config, &engine, &recording, seed);
    let truth = Truth::of(config, &recording, &captured);
    score(config, &truth, &analyze(&captured.text).sections)
}

/// Prints a line for each configuration and the sums, and returns the sums.
fn measure_all(configs: &[Config]) -> Score {
    let mut sum = Score::default();
    println!(
        "{:14} {:26} {:9} {:9}  steps        stages       lengths      layers       roles        blame        graphs       rounds",
        "engine", "", "", ""
    );
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
    fn counts(&mut self) -> [&mut Count; 8] {
        let Self { steps, stages, lengths, layers, roles, blame, graphs, rounds, .. } = self;
        [steps, stages, lengths, layers, roles, blame, graphs, rounds]
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
        let Self { steps, stages, lengths, layers, roles, blame, graphs, rounds, .. } = self;
        [steps, stages, lengths, layers, roles, blame, graphs, rounds].map(text).join("  ")
    }
}

/// Checks that nothing false was found, and that this share of steps and layers was found.
fn check(sum: &Score, min_recall: f64) {
    assert_eq!(sum.lies, [] as [&str; 0]);
    for (what, count) in [("steps", sum.steps), ("layers", sum.layers), ("roles", sum.roles), ("blame", sum.blame)] {
        assert!(count.precision() >= MIN_RIGHT, "{what}: {count:?}");
        assert!(what == "blame" || count.recall() >= min_recall, "{what}: {count:?}");
    }
    for (what, count) in [("graphs", sum.graphs), ("rounds", sum.rounds)] {
        assert!(count.precision().min(count.recall()) >= MIN_RIGHT, "{what}: {count:?}");
    }
}

#[test]
fn complete_traces_are_right_to_99_per_cent() {
    // The order of kernels alone does not show the steps of speculation, because draft steps have too few layers.
    let (unknown, known): (Vec<Config>, Vec<Config>) = grid::complete().into_iter().partition(|config| {
        config.work == Work::Speculation && matches!(config.capture, Capture::Plain | Capture::Names)
    });
    check(&measure_all(&known), MIN_RIGHT);
    check(&measure_all(&unknown), 0.0);
}

#[test]
fn time_of_a_late_host_is_blamed_on_the_right_function() {
    let sum = measure_all(&grid::late());
    check(&sum, MIN_RIGHT);
    assert!(sum.blame.recall() >= MIN_RIGHT, "{:?}", sum.blame);
}

#[test]
fn a_step_lasts_until_the_next_one_however_long_the_server_waits() {
    let sum = measure_all(&grid::pausing());
    check(&sum, MIN_RIGHT);
    assert!(sum.lengths.precision() >= MIN_RIGHT && sum.lengths.truth > 1_000, "{:?}", sum.lengths);
}

#[test]
fn disturbed_traces_are_right() {
    check(&measure_all(&grid::disturbed()), MIN_RIGHT);
}

#[test]
fn with_lost_records_and_cut_captures_nothing_false_is_said() {
    check(&measure_all(&grid::incomplete()), 0.0);
}
