//! Compares predicted savings with the truth: programs are played on a simulated host and GPU (`machine`), written as
//! torch.profiler traces (`torch`) and analysed as on the command line; then the same programs are played again with a
//! change, such as a function that takes no time. What the change saves in truth must lie in the range that the section
//! `what_if` predicts from the first trace.
//!
//! The error of a prediction is the distance of the true saving from the range, in per cent of the step. A saving that
//! the section does not list is predicted to be zero. The machine has the mechanisms that the replay knows (and, in the
//! programs marked *, others), so this shows that they are recovered from a trace alone; it does not show that real
//! GPUs have no others.
//!
//! | group | programs | what varies |
//! |---|---|---|
//! | inference | single launches, one graph, pieces; two streams; values read | host-bound, GPU-bound, cold |
//! | training | autograd thread, all-reduce, all-gather, data loader | exposed, hidden |
//! | host and copies | pageable and pinned copies, full launch queue, allocations, two threads | |
//! | disturbed (*) | clocks apart, shared memory, missing calls, polls, dependent launches, full GPU, late ranks | |
//!
//! `properties` checks what holds for any trace.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

mod machine;
mod noise;
mod program;
mod programs;
mod properties;
mod scenarios;
mod torch;

use gpuprism::analysis::section::Sections;
use gpuprism::input::Importer;
use gpuprism::session::{self, Choices, Opened};
use machine::{Recording, play};
use program::Change;
use scenarios::Scenario;
use std::collections::BTreeMap;

/// The number of random seeds of each program.
const SEEDS: u64 = 3;
const MAX_MEDIAN_ERROR: f64 = 0.01;
const MAX_ERROR: f64 = 0.05;
/// The share of the traces with steady steps of which nothing is said for certain.
const MAX_ABSTENTIONS: f64 = 0.05;
/// The share of the ranges that are wider than [`MAX_ERROR`].
const MAX_WIDE: f64 = 0.1;
/// Smaller savings, as a share of the step, are not among the large ones.
const LARGE: f64 = 0.01;

/// Analyses a trace as the command line does.
pub(crate) fn sections_of(json: &str) -> Sections {
    let mut importer = Importer::new("trace.json");
    importer.feed(json.as_bytes()).unwrap();
    let Opened::Trace(trace) = session::open("trace.json", importer.finish().unwrap()).unwrap() else {
        panic!("no trace")
    };
    session::run(&trace, &Choices::default()).unwrap().sections
}

/// A prediction and the truth, in milliseconds of the window.
struct Prediction {
    change: Change,
    truth: f64,
    low: f64,
    high: f64,
    length: f64,
}

impl Prediction {
    /// The distance of the truth from the range, as a share of the step.
    fn error(&self) -> f64 {
        (self.low - self.truth).max(self.truth - self.high).max(0.0) / self.length
    }

    fn is_large(&self) -> bool {
        self.truth > LARGE * self.length
    }

    fn is_wide(&self) -> bool {
        self.high - self.low > MAX_ERROR * self.length
    }

    fn text(&self) -> String {
        let Self { change, truth, low, high, length } = self;
        format!("{change:?}: saves {truth:.3} of {length:.3} ms, predicted {low:.3} to {high:.3}")
    }
}

/// What one program showed.
struct Outcome {
    name: &'static str,
    predictions: Vec<Prediction>,
    abstentions: usize,
}

fn predicted(sections: &Sections, change: Change, is_one_of_several_ranks: bool) -> (f64, f64) {
    let id = change.id();
    let rows = sections["what_if"].rows.iter().filter(|row| row.text("id") == id);
    let sum = |key: &str| rows.clone().map(|row| row.amount(key)).sum::<f64>();
    if is_one_of_several_ranks {
        let alone = sum("only_this_rank_ms");
        return (alone, alone);
    }
    (sum("saving_low_ms"), sum("saving_high_ms"))
}

/// Savings of the window by id, at least and at most.
fn savings(sections: &Sections) -> BTreeMap<&str, [f64; 2]> {
    let mut savings = BTreeMap::new();
    for row in &sections["what_if"].rows {
        let sums = savings.entry(row.text("id")).or_insert([0.0, 0.0]);
        sums[0] += row.amount("saving_low_ms");
        sums[1] += row.amount("saving_high_ms");
    }
    savings
}

/// Combinations save no less than each of their parts.
fn check_combinations(name: &str, sections: &Sections) {
    let savings = savings(sections);
    let parts =
        [("between_calls", "code:"), ("host", "between_calls"), ("host", "code:"), ("all_blocking", "blocking:")];
    for (whole, part) in parts {
        let of_whole = savings.get(whole).copied().unwrap_or_default();
        for (id, of_part) in savings.iter().filter(|(id, _)| id.starts_with(part)) {
            let is_less = of_part.iter().zip(of_whole).any(|(part, whole)| *part > whole + 1e-6);
            assert!(!is_less, "{name}: {id} saves {of_part:?}, {whole} {of_whole:?}");
        }
    }
}

fn measure(scenario: &Scenario) -> Outcome {
    let Scenario { name, threads, world, changes, is_one_of_several_ranks, is_cold } = scenario;
    let mut outcome = Outcome { name, predictions: Vec::new(), abstentions: 0 };
    for seed in 0..SEEDS {
        let before = play(threads, *world, seed, &[]);
        let sections = sections_of(&torch::json(&before.events));
        let trust = sections["replay_trust"].rows.first();
        let abstains = trust.is_none_or(|row| row.words("abstains") == "yes");
        outcome.abstentions += usize::from(abstains && !is_cold);
        assert!(trust.is_none_or(|row| row.amount("exactness_ns") == 0.0), "{name}: {trust:?}");
        check_combinations(name, &sections);
        for change in changes {
            let after = play(threads, *world, seed, &[*change]);
            let (low, high) = predicted(&sections, *change, *is_one_of_several_ranks);
            // A cold start is all of its time.
            let length_of = |run: &Recording| run.length + if *is_cold { run.before_first_op } else { 0 };
            let [length, changed] = [&before, &after].map(|run| length_of(run) as f64 / 1e6);
            outcome.predictions.push(Prediction { change: *change, truth: length - changed, low, high, length });
        }
    }
    outcome
}

/// The median and the largest one.
fn median_and_worst(errors: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut errors: Vec<f64> = errors.collect();
    errors.sort_by(f64::total_cmp);
    (errors[errors.len() / 2], errors[errors.len() - 1])
}

impl Outcome {
    fn print(&self) {
        let (median, worst) = median_and_worst(self.predictions.iter().map(Prediction::error));
        let abstains = if self.abstentions > 0 { ", abstains" } else { "" };
        println!(
            "{:45} median {:5.2} %, worst {:5.2} % of the step{abstains}",
            self.name,
            100.0 * median,
            100.0 * worst
        );
        let bad = self.predictions.iter().filter(|prediction| prediction.error() > MAX_MEDIAN_ERROR);
        bad.for_each(|prediction| println!("    {}", prediction.text()));
    }
}

#[test]
fn the_true_saving_lies_in_the_predicted_range() {
    let scenarios = scenarios::all();
    let (first, second) = scenarios.split_at(scenarios.len() / 2);
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let measure_all = |part| scope.spawn(move || Vec::from_iter(<[Scenario]>::iter(part).map(measure)));
        [first, second].map(measure_all).into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    outcomes.iter().for_each(Outcome::print);
    let predictions = || outcomes.iter().flat_map(|outcome| &outcome.predictions);
    let large = || predictions().filter(|one| one.is_large());
    let (count, large_count) = (predictions().count(), large().count());
    let wide = predictions().filter(|one| one.is_wide()).count();
    let (_, worst) = median_and_worst(predictions().map(Prediction::error));
    let (median, _) = median_and_worst(large().map(Prediction::error));
    let abstentions: usize = outcomes.iter().map(|outcome| outcome.abstentions).sum();
    let traces = outcomes.len() * SEEDS as usize;
    println!("{count} predictions of {traces} traces: worst error {:.2} % of the step", 100.0 * worst);
    println!("{large_count} of them are large: median error {:.3} % of the step", 100.0 * median);
    println!("{wide} ranges are wide; of {abstentions} traces nothing is said for certain");
    assert!(median < MAX_MEDIAN_ERROR && worst < MAX_ERROR, "median {median}, worst {worst}");
    assert!(wide as f64 <= MAX_WIDE * count as f64, "{wide} of {count}");
    assert!(abstentions as f64 <= MAX_ABSTENTIONS * traces as f64, "{abstentions} of {traces}");
}
