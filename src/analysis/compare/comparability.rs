//! Decides whether two runs can be compared, and collects the caveats if they can.

use super::breakdown::{PartPair, Presence};
use super::rules::{Rules, Thresholds};
use super::steps::{StageSteps, Steps};
use super::units::{self, LaunchRatio};
use super::{Basis, Candidate, StageShift, TrustRow};
use crate::analysis::results::{Attribution, Run, WallSource};
use crate::analysis::section::Value;
use crate::analysis::structure::stages::stage_of_path;
use crate::analysis::structure::start_up::SaidStart;
use crate::analysis::triage::Stage;
use crate::analysis::trust::{Trust, TrustId};
use crate::ordering;
use crate::trace::{Fraction, MeanNs, ProblemKind};
use crate::words::{compare as words, stages, time};

/// Collects the sentences about one pair of runs.
struct Sentences<'a> {
    rules: &'a Rules,
    baseline: &'a str,
    run: &'a str,
    sentences: Vec<String>,
}

impl<'a> Sentences<'a> {
    fn new(rules: &'a Rules, baseline: &'a Candidate, run: &'a Candidate) -> Self {
        Self { rules, baseline: baseline.label, run: run.label, sentences: Vec::new() }
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

/// Whether launches have no GPU op, so that kernels are missing.
fn has_lost_launches(run: &Run) -> bool {
    let ids = [TrustId::LaunchWorkMissing, TrustId::GraphWorkMissing, TrustId::LaunchesAtEnd];
    ids.into_iter().any(|id| Trust::has(&run.sections, id))
}

/// Reasons against a comparison that hold for either basis.
pub(super) fn reasons(rules: &Rules, first: &Candidate, other: &Candidate) -> Vec<String> {
    let (a, b) = (first.run, other.run);
    let mut found = Sentences::new(rules, first, other);
    for (candidate, run) in [(first, a), (other, b)] {
        if run.totals.gpu_ops == 0 && run.kernels.is_empty() {
            return vec![rules.reason("no_gpu_ops", &[("run", candidate.label)])];
        }
    }
    for (candidate, run) in [(first, a), (other, b)] {
        if ProblemKind::CUT_SHORT.iter().any(|kind| has_notice(run, kind.code())) {
            found.reason("incomplete", &[("cut", candidate.label)]);
        }
    }
    for (candidate, run) in [(first, a), (other, b)] {
        if SaidStart::of(&run.sections).is_some_and(|start| start.is_cold()) {
            found.reason("cold_start", &[("cold", candidate.label)]);
        }
    }
    if a.attribution != b.attribution {
        found.reason("attribution", &[("a", attribution(a)), ("b", attribution(b))]);
    }
    let (devices_a, devices_b) = (working_devices(a), working_devices(b));
    if a.devices_merged != b.devices_merged && devices_a.max(devices_b) > 1 {
        found.reason("merged", &[]);
    } else if devices_a != devices_b && devices_a.min(devices_b) > 0 {
        found.reason("device_count", &[("a", &devices_a.to_string()), ("b", &devices_b.to_string())]);
    }
    if has_notice(a, GRAPHS_TRACED_WHOLE) != has_notice(b, GRAPHS_TRACED_WHOLE) {
        found.reason("graphs_hidden", &[]);
    }
    if a.rules != b.rules {
        found.reason("rules", &[("a", &a.rules), ("b", &b.rules)]);
    }
    if (a.wall.source == WallSource::Window) != (b.wall.source == WallSource::Window) {
        found.reason("wall", &[]);
    }
    if !other.is_compared_by_stage() {
        stage_reason(&mut found, first, other);
    }
    found.sentences
}

/// True if a difference in time says nothing on the software alone: other GPUs or another engine.
pub(super) fn is_other_setup(rules: &Rules, a: &Run, b: &Run) -> bool {
    let is_other_engine = a.engine.as_ref().zip(b.engine.as_ref()).is_some_and(|(a, b)| a != b);
    is_other_engine || other_gpus(rules, a, b).is_some()
}

/// What differs in the records of the captures, if both runs have one: the words, and the values of both.
pub(super) fn setup_differences(a: &Run, b: &Run) -> Vec<(&'static str, String, String)> {
    const FACTS: [(&str, &str); 6] = [
        ("framework", "the framework"),
        ("framework_version", "the version"),
        ("model", "the model"),
        ("captured_stage", "the stage"),
        ("graphs", "CUDA graphs"),
        ("load", "the load"),
    ];
    let (Some(a), Some(b)) = (a.sections.get("capture"), b.sections.get("capture")) else { return Vec::new() };
    let differs = |(key, words): &(&str, &'static str)| {
        let (a, b) = (a.summary.text(key), b.summary.text(key));
        (!a.is_empty() && !b.is_empty() && a != b).then(|| (*words, a.to_owned(), b.to_owned()))
    };
    FACTS.iter().filter_map(differs).collect()
}

/// Reasons against a comparison because the runs did different work.
pub(super) fn workload_reasons(
    rules: &Rules,
    basis: Basis,
    first: &Candidate,
    other: &Candidate,
    launches: LaunchRatio,
) -> Vec<String> {
    let mut found = Sentences::new(rules, first, other);
    match (&first.steps, &other.steps) {
        (Some(a), Some(b)) if matches!(basis, Basis::Step | Basis::Token) => {
            for (candidate, steps) in [(first, a), (other, b)] {
                let outside = steps.work_outside_share;
                if candidate.run.window.is_some() && outside > rules.thresholds.notable_work_outside_steps {
                    found.reason(
                        "parts_of_steps",
                        &[("cut", candidate.label), ("pct", &words::pct_0(Fraction(outside)))],
                    );
                }
            }
            if basis == Basis::Step && other.is_compared_by_stage() {
                return found.sentences;
            }
            if let Some(effect) = mix_effect(a, b).filter(|effect| effect.abs() > rules.thresholds.max_mix_effect) {
                let pct = words::change_pct(Fraction(effect));
                found.reason("mix", &[("a", &a.mix()), ("b", &b.mix()), ("pct", &pct)]);
            } else if let Some((what, mean_a, mean_b)) =
                differing_work_per_step(a, b, rules.thresholds.max_work_per_step_ratio)
                    .filter(|_| basis == Basis::Step || !is_other_setup(rules, first.run, other.run))
            {
                found.reason("work_of_a_step", &[("what", what), ("a", &mean_a), ("b", &mean_b)]);
            }
        }
        // Steps are comparable in any window; the total of a window is not comparable with the total of a whole trace.
        _ if first.run.window.is_some() != other.run.window.is_some() => found.reason("window", &[]),
        _ if basis == Basis::Range => {
            let ratio = launches.ratio().zip(ratio_of_counts(basis, first, other)).map(|(all, ranges)| all / ranges);
            let limit = rules.thresholds.max_launch_ratio;
            if let Some(ratio) = ratio.filter(|ratio| *ratio > limit || *ratio * limit < 1.0) {
                found.reason("work_of_a_range", &[("range", range_name(first)), ("ratio", &words::ratio(ratio))]);
            }
        }
        _ => match launches {
            LaunchRatio::Common { .. } => {}
            LaunchRatio::Differing { median, agreement } => {
                let (ratio, pct) = (words::ratio(median), words::pct_0(Fraction(agreement)));
                found.reason("no_common_ratio", &[("ratio", &ratio), ("pct", &pct)]);
            }
            LaunchRatio::Unmatched => found.reason("no_shared_kernel", &[]),
        },
    }
    found.sentences
}

fn range_name<'a>(candidate: &'a Candidate) -> &'a str {
    candidate.range.as_ref().map_or("", |range| range.name.as_str())
}

/// Units of work in the other run over units in the baseline.
fn ratio_of_counts(basis: Basis, first: &Candidate, other: &Candidate) -> Option<f64> {
    let (a, b) = (units::count(basis, first, None)?, units::count(basis, other, None)?);
    (a > 0.0).then(|| b / a)
}

/// A row that warns of totals, if both captures are equally long but did different work.
pub(super) fn fixed_time(
    rules: &Rules,
    basis: Basis,
    first: &Candidate,
    other: &Candidate,
    launches: LaunchRatio,
) -> Option<TrustRow> {
    let (a, b) = (first.run.totals.window_ns as f64, other.run.totals.window_ns as f64);
    if (a - b).abs() > rules.thresholds.equal_length * a.max(b) {
        return None;
    }
    let ratio = match (basis, launches) {
        (Basis::Step | Basis::Token | Basis::Range, _) => ratio_of_counts(basis, first, other)?,
        (_, LaunchRatio::Common { .. }) => launches.ratio()?,
        _ => f64::NAN,
    };
    if (ratio - 1.0).abs() <= rules.thresholds.unequal_work {
        return None;
    }
    let labels = [("run", other.label), ("baseline", first.label)];
    let text = if ratio.is_nan() {
        rules.trust("fixed_time_unknown", &labels)
    } else {
        rules.trust("fixed_time", &[&labels[..], &[("ratio", &words::ratio(ratio))]].concat())
    };
    Some(TrustRow { id: "fixed-time-window", run: 0, text, affects: rules.trust("fixed_time_affects", &[]) })
}

/// What the launches of common kernels tell of a run that cannot be compared.
pub(super) fn estimate(
    rules: &Rules,
    first: &Candidate,
    other: &Candidate,
    launches: Option<LaunchRatio>,
) -> Option<String> {
    let labels = [("run", other.label), ("baseline", first.label)];
    let (ratio, agreement) = match launches? {
        LaunchRatio::Differing { median, agreement } => (median, agreement),
        LaunchRatio::Common { .. } | LaunchRatio::Unmatched => return None,
    };
    let before_ns = units::time_per_timeline(first.run);
    let after_ns = units::time_per_timeline(other.run) / ratio;
    let (before, after) = (time(MeanNs(before_ns).into()), time(MeanNs(after_ns).into()));
    let (ratio, pct) = (words::ratio(ratio), words::pct_0(Fraction(agreement)));
    let values = [("ratio", ratio.as_str()), ("pct", &pct), ("before", &before), ("after", &after)];
    Some(rules.estimate("launches", &[&labels[..], &values].concat()))
}

/// Whether the mean steps of the runs differ already because other stages or loads are in them.
pub(super) fn has_other_mix(rules: &Rules, first: &Candidate, other: &Candidate) -> bool {
    let steps = first.steps.as_ref().zip(other.steps.as_ref());
    steps.is_some_and(|(a, b)| {
        let has_start = a.in_start_up + b.in_start_up > 0;
        let is_other_load = differing_work_per_step(a, b, rules.thresholds.max_work_per_step_ratio).is_some();
        has_start || is_other_load || mixes_stages_otherwise(&rules.thresholds, a, b)
    })
}

fn mixes_stages_otherwise(thresholds: &Thresholds, a: &Steps, b: &Steps) -> bool {
    let is_foreign = foreign_share(a, b).max(foreign_share(b, a)) > thresholds.max_foreign_steps;
    is_foreign || mix_effect(a, b).is_some_and(|effect| effect.abs() > thresholds.max_mix_effect)
}

/// Caveats for two runs that are compared.
pub(super) fn warnings(
    rules: &Rules,
    basis: Basis,
    first: &Candidate,
    other: &Candidate,
    pairs: &[PartPair],
    is_noise_known: bool,
) -> Vec<String> {
    let (a, b) = (first.run, other.run);
    let mut found = Sentences::new(rules, first, other);
    let gpus = other_gpus(rules, a, b);
    if let Some([gpu_a, gpu_b]) = &gpus {
        found.warning("gpu", &[("a", gpu_a), ("b", gpu_b)]);
    }
    workload_warnings(&mut found, basis, first, other);
    if gpu_names(a).is_empty() || gpu_names(b).is_empty() {
        found.warning("gpu_unknown", &[]);
    }
    if has_notice(a, GRAPHS_TRACED_WHOLE) && has_notice(b, GRAPHS_TRACED_WHOLE) {
        found.warning("graphs_hidden", &[]);
    }
    let is_shifted = |run: &Run| run.kernels.iter().any(|kernel| kernel.elapsed_share.is_none());
    if is_shifted(a) || is_shifted(b) {
        found.warning("durations_shifted", &[]);
    }
    if has_lost_launches(a) || has_lost_launches(b) {
        found.warning("lost_launches", &[]);
    }
    if let (Some(engine_a), Some(engine_b)) = (&a.engine, &b.engine)
        && engine_a != engine_b
    {
        found.warning("engine", &[("a", engine_a), ("b", engine_b)]);
    }
    if let (Some(model_a), Some(model_b)) = (model(a), model(b))
        && model_a != model_b
    {
        found.warning("model", &[("a", model_a), ("b", model_b)]);
    }
    for (what, of_a, of_b) in setup_differences(a, b) {
        found.warning("setup", &[("what", what), ("a", &of_a), ("b", &of_b)]);
    }
    if a.format != b.format {
        found.warning("format", &[]);
    }
    let matched = matched_time_share(pairs);
    // On another GPU, kernels have other names.
    if matched < rules.thresholds.min_matched_time && gpus.is_none() {
        found.warning("few_matched", &[("pct", &words::pct_0(Fraction(matched)))]);
    }
    match basis {
        Basis::Step | Basis::Token if is_noise_known => {}
        Basis::Step | Basis::Token => {
            found.warning("noise_one", &[("min_steps", &rules.thresholds.min_steps_for_noise.to_string())]);
        }
        Basis::Range | Basis::Launches | Basis::Total => found.warning("noise_none", &[]),
    }
    found.sentences
}

/// The warning that another stage than the main one changed.
pub(super) fn changed_stage(rules: &Rules, first: &Candidate, other: &Candidate, stage: &StageShift) -> String {
    let what = stages::step(stage.stage.label());
    let time = |ns: f64| time(MeanNs(ns).into());
    let ends = stage.interval_ns.map_or([0, 0], |(low, high)| [low.unsigned_abs(), high.unsigned_abs()]);
    let [least, most] = [ends.iter().min(), ends.iter().max()].map(|end| time(end.copied().unwrap_or_default() as f64));
    let values = [
        ("run", other.label),
        ("baseline", first.label),
        ("what", what.as_str()),
        ("pct", &words::pct_1(stage.pct().unwrap_or_default().abs())),
        ("word", if stage.shift_ns > 0.0 { "longer" } else { "shorter" }),
        ("change", &time(stage.shift_ns.abs())),
        ("least", &least),
        ("most", &most),
    ];
    rules.warning("changed_stage", &values)
}

fn workload_warnings(found: &mut Sentences, basis: Basis, first: &Candidate, other: &Candidate) {
    let thresholds = found.rules.thresholds;
    let range = range_name(first);
    let (a, b) = match (basis, &first.steps, &other.steps) {
        (Basis::Step | Basis::Token, Some(a), Some(b)) => (a, b),
        (Basis::Range, ..) => {
            found.warning("same_work_per_range", &[("range", range)]);
            let outside = [first, other].into_iter().filter_map(|run| run.range.as_ref());
            let outside = outside.map(|range| range.outside_share).fold(0.0, f64::max);
            if outside > thresholds.notable_work_outside_ranges {
                let pct = words::pct_0(Fraction(outside));
                found.warning("outside_ranges", &[("pct", &pct), ("range", range)]);
            }
            return;
        }
        (Basis::Launches, ..) => return found.warning("same_work_per_launch", &[]),
        _ => return found.warning("same_work", &[]),
    };
    if a.in_start_up + b.in_start_up > 0 {
        found.warning("start", &[]);
    }
    if mixes_stages_otherwise(&thresholds, a, b) {
        found.warning("other_mix", &[("a", &a.mix()), ("b", &b.mix())]);
    } else if let Some((what, mean_a, mean_b)) = differing_work_per_step(a, b, thresholds.notable_work_per_step_ratio) {
        let warning = if basis == Basis::Token { "work_of_a_token" } else { "work_of_a_step" };
        found.warning(warning, &[("what", what), ("a", &mean_a), ("b", &mean_b)]);
    }
    let outside = a.work_outside_share.max(b.work_outside_share);
    if outside > thresholds.notable_work_outside_steps {
        found.warning("outside_steps", &[("pct", &words::pct_0(Fraction(outside)))]);
    }
}

/// The mean tokens or requests per step, if they differ by more than the factor `ratio`: their name and both means.
pub(super) fn differing_work_per_step(a: &Steps, b: &Steps, ratio: f64) -> Option<(&'static str, String, String)> {
    let differing = |what, value: fn(&StageSteps) -> Option<f64>| {
        let (mean_a, mean_b) = (a.mean(value)?, b.mean(value)?);
        let is_different = mean_a.max(mean_b) > mean_a.min(mean_b) * ratio;
        is_different.then(|| (what, words::mean(mean_a), words::mean(mean_b)))
    };
    differing("tokens", |stage| stage.tokens).or_else(|| differing("requests", |stage| stage.batch_size))
}

/// Code of the notice that CUDA graphs were traced as a whole.
const GRAPHS_TRACED_WHOLE: &str = "graphs_traced_whole";

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

/// The number of devices that ran GPU ops.
pub(super) fn working_devices(run: &Run) -> usize {
    run.devices.iter().filter(|device| device.gpu_ops > 0).count()
}

/// The distinct product names of the devices that ran GPU ops; empty if one of them has no name.
pub(super) fn gpu_names(run: &Run) -> Vec<String> {
    let names = run.devices.iter().filter(|device| device.gpu_ops > 0).map(|device| device.name.trim().to_owned());
    let mut names: Vec<String> = names.collect();
    ordering::sort_by(&mut names, Ord::cmp);
    names.dedup();
    if names.iter().any(String::is_empty) { Vec::new() } else { names }
}

/// The GPUs of both runs in words, if they differ: by product names, or by vendors if not all products are named.
pub(super) fn other_gpus(rules: &Rules, a: &Run, b: &Run) -> Option<[String; 2]> {
    let (gpus_a, gpus_b) = (gpu_names(a), gpu_names(b));
    let both_named = !gpus_a.is_empty() && !gpus_b.is_empty();
    let vendors = (rules.vendor(a), rules.vendor(b));
    let is_different = match vendors {
        _ if both_named => !same_gpus(&gpus_a, &gpus_b),
        (Some(a), Some(b)) => a != b,
        _ => false,
    };
    let describe = |gpus: &[String], vendor: Option<&str>| match vendor {
        Some(vendor) if gpus.is_empty() => words::gpu_by_names(vendor),
        _ => gpus.join(" and "),
    };
    is_different.then(|| [describe(&gpus_a, vendors.0), describe(&gpus_b, vendors.1)])
}

fn same_gpus(a: &[String], b: &[String]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.eq_ignore_ascii_case(b))
}

fn model(run: &Run) -> Option<&str> {
    run.sections.get("triage_summary")?.summary.get("model").and_then(Value::text)
}

/// Adds a reason if the runs are from different stages of serving, according to their steps, else to their file names.
fn stage_reason(found: &mut Sentences, first: &Candidate, other: &Candidate) {
    let max_foreign = found.rules.thresholds.max_foreign_steps;
    if let (Some(a), Some(b)) = (&first.steps, &other.steps) {
        let has_stages = |steps: &Steps| steps.stages.iter().all(|stage| is_named(&stage.stage));
        if has_stages(a) && has_stages(b) && foreign_share(a, b).max(foreign_share(b, a)) > max_foreign {
            found.reason("stages", &[("a", &a.mix()), ("b", &b.mix())]);
        }
        return;
    }
    let only_stage = |candidate: &Candidate| match &candidate.steps {
        Some(steps) => match steps.stages.as_slice() {
            [only] => only.stage.clone(),
            _ => Stage::All.label().to_owned(),
        },
        None => stage_of_path(candidate.label).label().to_owned(),
    };
    let (a, b) = (only_stage(first), only_stage(other));
    if a != b && is_named(&a) && is_named(&b) {
        found.reason("stages", &[("a", &a), ("b", &b)]);
    }
}

/// Whether a label is that of a known stage.
fn is_named(label: &str) -> bool {
    Stage::ALL.into_iter().any(|stage| stage.label() == label && stage.is_named())
}

/// The share of steps in `one` that belong to stages which `other` does not have.
fn foreign_share(one: &Steps, other: &Steps) -> f64 {
    let foreign = one.stages.iter().filter(|stage| other.share_of_stage(&stage.stage) == 0.0);
    foreign.map(|stage| one.share_of_stage(&stage.stage)).fold(0.0, |sum, share| sum + share)
}

/// The relative change of the baseline's time per step if its stages were mixed as in the other run while each stage kept
/// its mean step time.
fn mix_effect(baseline: &Steps, other: &Steps) -> Option<f64> {
    let step_time = |mix: &Steps| {
        let stages = baseline.stages.iter();
        let (time, shares) = stages.fold((0.0, 0.0), |(time, shares), stage| {
            let share = mix.share_of_stage(&stage.stage);
            (time + share * stage.mean_interval_ns, shares + share)
        });
        if shares > 0.0 { time / shares } else { 0.0 }
    };
    let (own_mix, other_mix) = (step_time(baseline), step_time(other));
    // Without a common stage, the mix of the other run has no time.
    (own_mix > 0.0 && other_mix > 0.0).then(|| (other_mix - own_mix) / own_mix)
}

/// The share of the kernel time of both runs that is in kernels which both have.
fn matched_time_share(pairs: &[PartPair]) -> f64 {
    let (mut both, mut all) = (0.0, 0.0);
    for pair in pairs {
        let is_kernel = pair.part().is_some_and(|part| part.launches > 0);
        let (a, b) = pair.times_ns();
        let time = if is_kernel { a as f64 + b as f64 } else { 0.0 };
        all += time;
        both += if pair.presence() == Presence::Both { time } else { 0.0 };
    }
    if all > 0.0 { both / all } else { 1.0 }
}
