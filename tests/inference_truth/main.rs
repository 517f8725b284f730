//! Measures what gpuprism finds in generated traces whose steps, layers, roles and late host code are known.
//!
//! Real traces of LLM servers have no known truth, and there are few of them. So a small model of a server (`server`) or of a
//! training loop (`training`) runs the kernels of real engines (`engines.json`) on one host thread and one GPU with two streams
//! (`machine`), and it is known what it did (`truth`): the steps with their stage and length, the GPU time in them, the layers of each
//! step with their kinds, the role of each kernel, the Python function that the host was in while the GPU waited, in all and
//! between steps, and when the process started. A capture of it (`capture`, `merged`) is analyzed as on the command line, and the
//! sections `step_list`, `steps`, `layers`, `layer_roles`, `idle_blame`, `between_steps`, `graph_coverage`, `speculation` and
//! `start_up` are compared with the truth (`score`). Names and usual durations of kernels are facts from real traces.
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
//! | busy | all six | full graph | all four | the server waits so long that the GPU is busy for 5 to 90 % |
//! | few steps | all six | full graph, eager | annotated | one to four steps with lost records or cut |
//! | one prefill | all six | full graph, eager | plain, names | a prefill of 89 ms among decode steps of 19 ms |
//! | merged ranks | four | full graph, eager | annotated, plain, frames | two ranks of other speed and phase, named in four ways |
//! | loader | training | eager | annotated with and without frames, plain, names | the loader waits for 0.2 to 3 steps |
//! | whole graphs | training | full graph; eager | plain, names; names | steps of 50 to 800 ms |
//! | loads | three | eager; full graph | annotated, plain, frames | cold start; a kernel that is loaded later |
//! | cut | those of the last six | | | the capture begins and ends inside of a step |
//!
//! Captures: torch.profiler with annotations; without (plain); with Python frames; and names alone, the CSV of
//! `nsys stats -r cuda_gpu_trace`.
//!
//! Each test prints a line per configuration, with precision and recall in per cent (`--nocapture`). A false statement is a row
//! that is not true and not marked as a guess: a step that is not there or of another length, another stage, another number or order
//! of layers, time blamed on another function, a start. Missing rows are no false statements: with lost records or a cut capture gpuprism may say
//! nothing. A step that the capture contains only in part may be listed or not.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

mod capture;
mod config;
mod engine;
mod grid;
mod machine;
mod merged;
mod random;
mod score;
mod server;
mod training;
mod truth;

use crate::common::repetitions;
use capture::Ids;
use config::{Capture, Config, Work};
use engine::Engine;
use gpuprism::analysis::results::Run;
use gpuprism::input::Importer;
use gpuprism::session::{self, Choices, Opened};
use merged::Merged;
use score::{Count, Score, score, score_steps};
use std::ops::Range;
use truth::Truth;

/// The number of random seeds of each configuration.
fn seeds() -> u64 {
    repetitions(1, 3)
}

/// The least share of true rows, and of rows that are found.
const MIN_RIGHT: f64 = 0.99;

/// Analyzes a file as the command line does.
fn analyze(text: &str) -> Run {
    let mut importer = Importer::new("trace");
    importer.feed(text.as_bytes()).unwrap();
    let Opened::Trace(trace) = session::open("trace", importer.finish().unwrap()).unwrap() else { panic!("a trace") };
    session::run(&trace, &Choices::default()).unwrap()
}

fn measure(config: &Config, seed: u64) -> Score {
    let is_training = config.work == Work::Training;
    let engine = (!is_training).then(|| Engine::named(config.engine));
    let device = engine.as_ref().map_or(training::DEVICE, |engine| &engine.device);
    let recording = match &engine {
        Some(engine) => server::play(config, engine, seed),
        None => training::play(config, seed),
    };
    let captured = capture::capture(config, device, &recording, &Ids::alone(), seed);
    let truth = Truth::of(config, &recording, &captured);
    let score = if is_training { score_steps } else { score };
    score(config, &truth, &analyze(&captured.text(device)).sections)
}

fn measure_merged(merged: &Merged, seed: u64) -> Score {
    let (text, truth) = merged.play(seed);
    score_steps(&merged.ranks[0], &truth, &analyze(&text).sections)
}

/// Prints a line for each configuration and the sums, and returns the sums.
fn measure_all(configs: &[Config]) -> Score {
    sum(configs, |config| config, 0..seeds(), measure)
}

/// The same for other numbers of seeds, and for files of several ranks.
fn sum<T>(all: &[T], config: fn(&T) -> &Config, seeds: Range<u64>, measure: fn(&T, u64) -> Score) -> Score {
    let mut sum = Score::default();
    let columns = sum.counts().map(|(name, _)| format!("{name:11}")).join("  ");
    println!("{:14} {:26} {:9} {:15}  {columns}", "engine", "", "", "");
    for one in all {
        let mut of_config = Score::default();
        for seed in seeds.clone() {
            of_config.add(measure(one, seed));
        }
        let config = config(one);
        let (launch, capture) = (format!("{:?}", config.launch), format!("{:?}", config.capture));
        println!("{:14} {:26} {launch:9} {capture:15}  {}", config.engine, config.name, of_config.text());
        of_config.lies.iter().take(3).for_each(|lie| println!("    false: {lie}"));
        sum.add(of_config);
    }
    println!("{:68}  {}", "all", sum.text());
    sum
}

impl Score {
    fn counts(&mut self) -> [(&'static str, &mut Count); 12] {
        [
            ("steps", &mut self.steps),
            ("stages", &mut self.stages),
            ("kinds", &mut self.kinds),
            ("lengths", &mut self.lengths),
            ("busy", &mut self.busy),
            ("layers", &mut self.layers),
            ("roles", &mut self.roles),
            ("blame", &mut self.blame),
            ("between", &mut self.between),
            ("graphs", &mut self.graphs),
            ("rounds", &mut self.rounds),
            ("starts", &mut self.starts),
        ]
    }

    fn add(&mut self, mut other: Self) {
        for ((_, sum), (_, count)) in self.counts().into_iter().zip(other.counts()) {
            sum.add(*count);
        }
        self.lies.append(&mut other.lies);
    }

    /// Precision and recall of each count, in per cent.
    fn text(&mut self) -> String {
        let text = |(_, count): (_, &mut Count)| match *count {
            Count { truth: 0, found: 0, .. } => format!("{:11}", "-"),
            count => format!("{:5.1} {:5.1}", 100.0 * count.precision(), 100.0 * count.recall()),
        };
        self.counts().map(text).join("  ")
    }
}

/// Checks that nothing false was found, and that this share of steps and layers was found.
fn check(sum: &Score, min_recall: f64) {
    assert_eq!(sum.lies, [] as [&str; 0]);
    let steps = [("steps", sum.steps), ("lengths", sum.lengths), ("busy", sum.busy)];
    for (what, count) in steps.into_iter().chain([("layers", sum.layers), ("roles", sum.roles)]) {
        assert!(count.precision() >= MIN_RIGHT && count.recall() >= min_recall, "{what}: {count:?}");
    }
    for (what, count) in [("blame", sum.blame), ("between", sum.between)] {
        assert!(count.precision() >= MIN_RIGHT, "{what}: {count:?}");
    }
    for (what, count) in [("graphs", sum.graphs), ("rounds", sum.rounds), ("starts", sum.starts)] {
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
    assert!(sum.lengths.truth > 400, "{:?}", sum.lengths);
}

#[test]
fn a_step_is_as_busy_as_the_server_makes_it() {
    check(&sum(&grid::busy(), |config| config, 0..1, measure), MIN_RIGHT);
}

#[test]
fn one_prefill_among_decode_steps_is_a_kind_of_its_own() {
    let sum = sum(&grid::one_prefill(), |config| config, 0..2, measure);
    check(&sum, MIN_RIGHT);
    assert!(sum.kinds.precision().min(sum.kinds.recall()) >= MIN_RIGHT, "{:?}", sum.kinds);
}

#[test]
fn each_rank_of_a_merged_file_has_the_steps_that_it_has_alone() {
    check(&sum(&grid::merged(), |merged| &merged.ranks[0], 0..1, measure_merged), MIN_RIGHT);
}

#[test]
fn the_data_loader_waits_between_the_steps_of_training() {
    // Without annotations nothing shows where a step of training begins.
    let (marked, unmarked): (Vec<Config>, Vec<Config>) =
        grid::stalled().into_iter().partition(|config| config.capture.has_annotations());
    let sum_of = |configs: &[Config]| sum(configs, |config| config, 0..2, measure);
    let marked = sum_of(&marked);
    check(&marked, MIN_RIGHT);
    assert!(marked.between.recall() >= MIN_RIGHT, "{:?}", marked.between);
    check(&sum_of(&unmarked), 0.0);
}

#[test]
fn steps_of_training_that_nothing_marks_are_right_or_not_found() {
    check(&sum(&grid::whole_graphs(), |config| config, 0..1, measure), 0.0);
}

#[test]
fn steps_of_a_start_are_apart_and_a_late_load_is_no_start() {
    check(&sum(&grid::loading(), |config| config, 0..2, measure), MIN_RIGHT);
}

#[test]
fn disturbed_traces_are_right() {
    check(&measure_all(&grid::disturbed()), MIN_RIGHT);
}

#[test]
fn with_lost_records_and_cut_captures_nothing_false_is_said() {
    // One seed finds too few steps for a share of 99 per cent.
    check(&sum(&grid::incomplete(), |config| config, 0..3, measure), 0.0);
}

#[test]
fn nothing_false_is_said_of_other_scenarios_that_the_capture_cuts() {
    let (servers, training, merged) = grid::cut();
    check(&sum(&[servers, training].concat(), |config| config, 0..1, measure), 0.0);
    check(&sum(&merged, |merged| &merged.ranks[0], 0..1, measure_merged), 0.0);
}
