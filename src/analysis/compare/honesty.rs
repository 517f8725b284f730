//! Whether two runs compare at all, and what to mind where they do.

use super::parts::{Found, Pair};
use super::rules::Rules;
use super::steps::{StageSteps, Steps};
use super::{Basis, Subject};
use crate::analysis::results::{Attribution, Run, WallSource};
use crate::analysis::section::Value;
use crate::analysis::triage::Stage;
use crate::analysis::triage::stages::stage_of_path;
use crate::ordering::InOrder;
use crate::trace::ProblemKind;

/// Says the sentences of one pair of runs.
struct Said<'a> {
    rules: &'a Rules,
    baseline: &'a str,
    run: &'a str,
    sentences: Vec<String>,
}

impl<'a> Said<'a> {
    fn of(rules: &'a Rules, baseline: &'a Subject, subject: &'a Subject) -> Self {
        Self { rules, baseline: baseline.label, run: subject.label, sentences: Vec::new() }
    }

    fn values<'b>(&'b self, more: &[(&'b str, &'b str)]) -> Vec<(&'b str, &'b str)> {
        [&[("run", self.run), ("baseline", self.baseline)], more].concat()
    }

    fn reason(&mut self, name: &str, more: &[(&str, &str)]) {
        let sentence = self.rules.reason(name, &self.values(more));
        self.sentences.push(sentence);
    }

    fn warning(&mut self, name: &str, more: &[(&str, &str)]) {
        let sentence = self.rules.warning(name, &self.values(more));
        self.sentences.push(sentence);
    }
}

/// Why two runs do not compare, whatever is compared.
pub(super) fn reasons(rules: &Rules, first: &Subject, other: &Subject) -> Vec<String> {
    let (a, b) = (first.run, other.run);
    let mut said = Said::of(rules, first, other);
    for (subject, run) in [(first, a), (other, b)] {
        if run.totals.gpu_ops == 0 && run.kernels.is_empty() {
            return vec![rules.reason("no_gpu_ops", &[("run", subject.label)])];
        }
    }
    for (subject, run) in [(first, a), (other, b)] {
        if ProblemKind::CUT_SHORT.iter().any(|kind| has_notice(run, kind.code())) {
            said.reason("incomplete", &[("cut", subject.label)]);
        }
    }
    if a.attribution != b.attribution {
        said.reason("attribution", &[("a", attribution(a)), ("b", attribution(b))]);
    }
    let (on_a, on_b) = (working(a), working(b));
    if a.devices_merged != b.devices_merged && on_a.max(on_b) > 1 {
        said.reason("merged", &[]);
    } else if on_a != on_b && on_a.min(on_b) > 0 {
        said.reason("device_count", &[("a", &on_a.to_string()), ("b", &on_b.to_string())]);
    }
    other_gpu(&mut said, a, b);
    if has_notice(a, HIDDEN) != has_notice(b, HIDDEN) {
        said.reason("graphs_hidden", &[]);
    }
    if a.rules != b.rules {
        said.reason("rules", &[("a", &a.rules), ("b", &b.rules)]);
    }
    if (a.wall.source == WallSource::Window) != (b.wall.source == WallSource::Window) {
        said.reason("wall", &[]);
    }
    stages(&mut said, first, other);
    said.sentences
}

/// Why the work of two runs is not the same work.
pub(super) fn reasons_of_work(rules: &Rules, basis: Basis, first: &Subject, other: &Subject) -> Vec<String> {
    let mut said = Said::of(rules, first, other);
    match (&first.steps, &other.steps) {
        (Some(a), Some(b)) if basis == Basis::Step => {
            for (subject, steps) in [(first, a), (other, b)] {
                let outside = steps.work_outside;
                if subject.run.window.is_some() && outside > rules.thresholds.work_outside_worth_a_word {
                    said.reason(
                        "parts_of_steps",
                        &[("cut", subject.label), ("pct", &format!("{:.0}", 100.0 * outside))],
                    );
                }
            }
            if let Some(effect) = mix_effect(a, b).filter(|effect| effect.abs() > rules.thresholds.mix_effect) {
                let pct = format!("{:+.0}", 100.0 * effect);
                said.reason("mix", &[("a", &a.mix()), ("b", &b.mix()), ("pct", &pct)]);
            } else if let Some((what, of_a, of_b)) = work_of_a_step(a, b, rules.thresholds.other_work_of_a_step_ratio) {
                said.reason("work_of_a_step", &[("what", what), ("a", &of_a), ("b", &of_b)]);
            }
        }
        // A whole step is a step in any window; a part and the whole differ by what the part leaves out.
        _ if first.run.window.is_some() != other.run.window.is_some() => said.reason("window", &[]),
        _ => {
            let ratio = launch_ratio(first.run, other.run).unwrap_or(1.0);
            let limit = rules.thresholds.same_work_ratio;
            if ratio > limit || ratio * limit < 1.0 {
                said.reason("other_work", &[("ratio", &format!("{ratio:.2}"))]);
            }
        }
    }
    said.sentences
}

/// What to mind about two runs that compare.
pub(super) fn warnings(
    rules: &Rules,
    basis: Basis,
    first: &Subject,
    other: &Subject,
    pairs: &[Pair],
    is_noise_known: bool,
) -> Vec<String> {
    let (a, b) = (first.run, other.run);
    let mut said = Said::of(rules, first, other);
    about_work(&mut said, basis, first, other);
    if gpus(a).is_empty() || gpus(b).is_empty() {
        said.warning("gpu_unknown", &[]);
    }
    if has_notice(a, HIDDEN) && has_notice(b, HIDDEN) {
        said.warning("graphs_hidden", &[]);
    }
    if let (Some(engine_a), Some(engine_b)) = (&a.engine, &b.engine)
        && engine_a != engine_b
    {
        said.warning("engine", &[("a", engine_a), ("b", engine_b)]);
    }
    if let (Some(model_a), Some(model_b)) = (model(a), model(b))
        && model_a != model_b
    {
        said.warning("model", &[("a", model_a), ("b", model_b)]);
    }
    if a.format != b.format {
        said.warning("format", &[]);
    }
    let matched = matched_part(pairs);
    if matched < rules.thresholds.least_matched_part {
        said.warning("few_matched", &[("pct", &format!("{:.0}", 100.0 * matched))]);
    }
    match basis {
        Basis::Step if is_noise_known => {}
        Basis::Step => {
            said.warning("noise_one", &[("least", &rules.thresholds.least_steps_for_noise.to_string())]);
        }
        Basis::Total => said.warning("noise_none", &[]),
    }
    said.sentences
}

fn about_work(said: &mut Said, basis: Basis, first: &Subject, other: &Subject) {
    let thresholds = said.rules.thresholds;
    let (Basis::Step, Some(a), Some(b)) = (basis, &first.steps, &other.steps) else {
        said.warning("same_work", &[]);
        return;
    };
    if let Some((what, of_a, of_b)) = work_of_a_step(a, b, thresholds.work_of_a_step_ratio) {
        said.warning("work_of_a_step", &[("what", what), ("a", &of_a), ("b", &of_b)]);
    }
    let outside = a.work_outside.max(b.work_outside);
    if outside > thresholds.work_outside_worth_a_word {
        said.warning("outside_steps", &[("pct", &format!("{:.0}", 100.0 * outside))]);
    }
}

/// Tokens or requests of a step on average, where they differ by more than this factor.
fn work_of_a_step(a: &Steps, b: &Steps, ratio: f64) -> Option<(&'static str, String, String)> {
    let differ = |what, of: fn(&StageSteps) -> Option<f64>| {
        let (of_a, of_b) = (a.mean(of)?, b.mean(of)?);
        (of_a.max(of_b) > of_a.min(of_b) * ratio).then(|| (what, format!("{of_a:.0}"), format!("{of_b:.0}")))
    };
    differ("tokens", |stage| stage.tokens).or_else(|| differ("requests", |stage| stage.batch_size))
}

/// The notice that CUDA graphs were traced as a whole.
const HIDDEN: &str = "graphs_traced_whole";

fn has_notice(run: &Run, code: &str) -> bool {
    run.notices.iter().any(|notice| notice.code == code)
}

fn attribution(run: &Run) -> &'static str {
    match run.attribution {
        Attribution::FirstCome => "first-come",
        Attribution::Fair => "fair",
        Attribution::Exclusive => "exclusive",
    }
}

/// Devices with work.
fn working(run: &Run) -> usize {
    run.devices.iter().filter(|device| device.gpu_ops > 0).count()
}

/// The products that did work, each once; empty where one of them has no name.
fn gpus(run: &Run) -> Vec<String> {
    let names = run.devices.iter().filter(|device| device.gpu_ops > 0).map(|device| device.name.trim().to_owned());
    let mut names: Vec<String> = names.collect();
    names.order_by(|a, b| a.cmp(b));
    names.dedup();
    if names.iter().any(String::is_empty) { Vec::new() } else { names }
}

/// By the names of the products, or by their makers where not both are named.
fn other_gpu(said: &mut Said, a: &Run, b: &Run) {
    let (gpus_a, gpus_b) = (gpus(a), gpus(b));
    let both_named = !gpus_a.is_empty() && !gpus_b.is_empty();
    let makers = (said.rules.maker(a), said.rules.maker(b));
    let is_other = match makers {
        _ if both_named => !same_gpus(&gpus_a, &gpus_b),
        (Some(a), Some(b)) => a != b,
        _ => false,
    };
    let words = |gpus: &[String], maker: Option<&str>| match maker {
        Some(maker) if gpus.is_empty() => format!("a GPU of {maker}, by its kernels"),
        _ => gpus.join(" and "),
    };
    if is_other {
        let (a, b) = (words(&gpus_a, makers.0), words(&gpus_b, makers.1));
        said.reason("gpu", &[("a", &a), ("b", &b)]);
    }
}

fn same_gpus(a: &[String], b: &[String]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.eq_ignore_ascii_case(b))
}

fn model(run: &Run) -> Option<&str> {
    run.sections.get("triage_summary")?.summary.get("model").and_then(Value::text)
}

/// A stage that only one of them has: by the steps, by the name of the file where there are none.
fn stages(said: &mut Said, first: &Subject, other: &Subject) {
    let least = said.rules.thresholds.foreign_steps_part;
    if let (Some(a), Some(b)) = (&first.steps, &other.steps) {
        let named = |steps: &Steps| steps.stages.iter().all(|stage| stage.stage != Stage::All.label());
        if named(a) && named(b) && foreign(a, b).max(foreign(b, a)) > least {
            said.reason("stages", &[("a", &a.mix()), ("b", &b.mix())]);
        }
        return;
    }
    let only = |subject: &Subject| match &subject.steps {
        Some(steps) => match steps.stages.as_slice() {
            [only] => only.stage.clone(),
            _ => Stage::All.label().to_owned(),
        },
        None => stage_of_path(subject.label).label().to_owned(),
    };
    let (a, b) = (only(first), only(other));
    if a != b && a != Stage::All.label() && b != Stage::All.label() {
        said.reason("stages", &[("a", &a), ("b", &b)]);
    }
}

/// The part of one's steps that is of stages which the other lacks.
fn foreign(one: &Steps, other: &Steps) -> f64 {
    let lacking = one.stages.iter().filter(|stage| other.part(&stage.stage) == 0.0);
    lacking.map(|stage| one.part(&stage.stage)).fold(0.0, |sum, part| sum + part)
}

/// By which part the baseline's time per step would change if its steps were mixed as the other run's, each stage taking
/// as long as it does in the baseline.
fn mix_effect(baseline: &Steps, other: &Steps) -> Option<f64> {
    let as_mixed_in = |mix: &Steps| {
        let stages = baseline.stages.iter();
        let (time, part) = stages.fold((0.0, 0.0), |(time, all), stage| {
            let part = mix.part(&stage.stage);
            (time + part * stage.interval_ns, all + part)
        });
        if part > 0.0 { time / part } else { 0.0 }
    };
    let (own, others) = (as_mixed_in(baseline), as_mixed_in(other));
    (own > 0.0).then(|| (others - own) / own)
}

/// How many times as often the other run launches the kernels that both have: the median, by their time in the baseline.
fn launch_ratio(baseline: &Run, other: &Run) -> Option<f64> {
    let (a, b) = (super::Parts::of(baseline, 1, 0), super::Parts::of(other, 1, 0));
    let pairs = super::matched(&a, &b);
    let mut ratios: Vec<(f64, i64)> = Vec::new();
    for pair in &pairs {
        if let (Some(before), Some(after)) = (pair.baseline, pair.other)
            && before.launches > 0
        {
            ratios.push((after.launches as f64 / before.launches as f64, before.time_ns));
        }
    }
    ratios.order_by(|a, b| a.0.total_cmp(&b.0));
    let half = ratios.iter().fold(0, |sum: i64, ratio| sum.saturating_add(ratio.1)) / 2;
    let mut sum = 0_i64;
    ratios.iter().find_map(|(ratio, time)| {
        sum = sum.saturating_add(*time);
        (sum >= half).then_some(*ratio)
    })
}

/// Of the time of kernels in both runs, the part that is of kernels which both have.
fn matched_part(pairs: &[Pair]) -> f64 {
    let (mut both, mut all) = (0.0, 0.0);
    for pair in pairs {
        let is_kernel = pair.part().is_some_and(|part| part.launches > 0);
        let (a, b) = pair.times_ns();
        let time = if is_kernel { a as f64 + b as f64 } else { 0.0 };
        all += time;
        both += if pair.found() == Found::Both { time } else { 0.0 };
    }
    if all > 0.0 { both / all } else { 1.0 }
}
