//! Kernels that do not fit the GPU or the work: instructions of older GPUs, FP32 on CUDA cores, operands without alignment,
//! split-K reductions, and attention in separate kernels. The tests are in `patterns/unsuited_kernels.json`.
//!
//! Tests by name need the sums by name only: each name is tested once. Attention in separate kernels follows from the order of
//! the kernels of a device, see [`super::unfused_attention`]. A test that depends on the compute capability is left out for
//! GPUs without one.

use super::kernel_roles::NameRole;
use super::unfused_attention::{self, UnfusedRule};
use crate::analysis::context::Context;
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Answer, KernelName, Ms, Pct, TypedSection, section};
use crate::json::{self, embedded, from_json};
use crate::ordering::{self, VecMap};
use crate::rules::names;
use crate::trace::{DeviceId, NameId, Ns, OpKind, Trace};
use crate::words::labels;
use std::sync::LazyLock;

section! {
    /// Kernels that do not fit the GPU or the work, by problem.
    pub(crate) struct UnsuitedKernels("unsuited_kernels", "Unsuited kernels");
    row UnsuitedKernelRow {
        problem: String,
        kernels: usize,
        launches: u64,
        total_ms: Ms,
        share_of_kernel_time_pct: Pct = "Of kernel time",
        per_step_ms: Option<Ms>,
        capability: Option<String>,
        advice: String,
        confidence: String,
        example_kernel: Option<KernelName>,
    }
}

/// One test of `patterns/unsuited_kernels.json`.
#[derive(Debug)]
pub(crate) struct NameTest {
    pub(crate) problem: String,
    roles: Vec<NameRole>,
    any: Vec<String>,
    all: Vec<String>,
    none: Vec<String>,
    capability_from: u64,
    capability_below: Option<u64>,
    if_unknown: bool,
    min_share_pct: f64,
    pub(crate) confidence: String,
    pub(crate) advice: String,
    /// The least part of the time that the change saves; `None` if that is unknown.
    pub(crate) saved_share: Option<f64>,
    /// Why the change saves that part.
    pub(crate) basis: Option<String>,
}
from_json!(strict NameTest {
    problem, roles, any, all, none, capability_from, capability_below, if_unknown, min_share_pct, confidence, advice,
    saved_share, basis
});

#[derive(Debug)]
struct TestFile {
    tests: Vec<NameTest>,
    unfused_attention: UnfusedRule,
}
from_json!(TestFile { tests, unfused_attention });

static FILE: LazyLock<TestFile> =
    LazyLock::new(|| embedded(json::read(include_str!("../../../patterns/unsuited_kernels.json"))));

impl NameTest {
    /// Whether the test concerns GPUs of this compute capability.
    fn applies(&self, capability: Option<u32>) -> bool {
        capability.map_or(self.if_unknown, |capability| {
            let capability = u64::from(capability);
            capability >= self.capability_from && self.capability_below.is_none_or(|below| capability < below)
        })
    }

    /// `name` is in lower case.
    fn matches(&self, name: &str, role: NameRole) -> bool {
        let contains = |word: &String| contains_word(name, word);
        (self.roles.is_empty() || self.roles.contains(&role))
            && self.any.iter().any(contains)
            && self.all.iter().all(contains)
            && !self.none.iter().any(contains)
    }
}

/// Whether the name contains the word; a word that ends in a digit does not match before another digit.
fn contains_word(name: &str, word: &str) -> bool {
    let ends_in_digit = word.ends_with(|last: char| last.is_ascii_digit());
    let rest = |(start, word): (usize, &str)| name.get(start + word.len()..).unwrap_or_default();
    name.match_indices(word).any(|found| !ends_in_digit || !rest(found).starts_with(|next: char| next.is_ascii_digit()))
}

/// The kernels of one device that a test matches.
#[derive(Debug, Clone)]
pub(crate) struct Hit {
    pub(crate) device: DeviceId,
    pub(crate) test: &'static NameTest,
    pub(crate) launches: u64,
    pub(crate) total: Ns,
    /// Names and their times.
    names: VecMap<NameId, Ns>,
}

impl Hit {
    /// Whether kernels of this name are among them.
    pub(crate) fn contains(&self, name: NameId) -> bool {
        self.names.get(&name).is_some()
    }
}

/// The kernels of each device that a test by name matches, in the order of the tests. O(names + groups of ops).
pub(crate) fn hits(context: &Context) -> Vec<Hit> {
    let matches = matching_names(context);
    let mut hits: VecMap<(usize, DeviceId), Hit> = VecMap::new();
    for group in context.groups().iter().filter(|group| group.kind == OpKind::Kernel) {
        let tests = matches.get(group.name.0 as usize).map_or(&[][..], Vec::as_slice);
        for (index, test) in tests.iter().filter_map(|index| Some((*index, FILE.tests.get(*index)?))) {
            if !test.applies(capability(context.trace, group.device)) {
                continue;
            }
            let none = Hit { device: group.device, test, launches: 0, total: Ns::ZERO, names: VecMap::new() };
            hits.update((index, group.device), none, |hit| {
                hit.launches += group.count;
                hit.total += group.total;
                hit.names.update(group.name, Ns::ZERO, |total| *total += group.total);
            });
        }
    }
    hits.into_vec().into_iter().map(|(_, hit)| hit).collect()
}

/// By name: the indices of the tests that match it on some GPU. A name whose durations may belong to other kernels matches
/// none.
fn matching_names(context: &Context) -> Vec<Vec<usize>> {
    let tests_of = |(id, name): (NameId, &str)| {
        let name = names::demangle(name).to_ascii_lowercase();
        let role = context.name_roles().get(id);
        let is_match = |(index, test): (usize, &NameTest)| test.matches(&name, role).then_some(index);
        let tests: Vec<usize> = FILE.tests.iter().enumerate().filter_map(is_match).collect();
        if !tests.is_empty() && context.shifted_durations().affects(id) { Vec::new() } else { tests }
    };
    (0..).map(NameId).zip(context.trace.names.iter()).map(tests_of).collect()
}

fn capability(trace: &Trace, device: DeviceId) -> Option<u32> {
    trace.devices.get(device.0 as usize).and_then(|device| device.properties.capability)
}

/// A row of the section.
#[derive(Debug)]
struct Problem {
    problem: &'static str,
    launches: u64,
    total: Ns,
    /// Names and their times.
    names: VecMap<NameId, Ns>,
    /// `None` if it is unknown or does not matter.
    capability: Option<u32>,
    confidence: &'static str,
    advice: &'static str,
    min_share_pct: f64,
    /// Its ops, sorted, if they are not all ops of `names`.
    rows: Option<Vec<u32>>,
    /// Mean over the steps; `None` without steps, and for steps of several stages.
    per_step: Option<Ns>,
}

/// One row per problem and compute capability, longest first.
pub(crate) fn unsuited_kernels(context: &Context) -> Answer<UnsuitedKernels> {
    let (trace, kernel_time) = (context.trace, kernel_time(context));
    if kernel_time == Ns::ZERO {
        return context.lacks("The trace contains no kernels.", MissingData::Kernels);
    }
    let mut problems = problems_by_name(context);
    problems.extend(unfused_attention(context));
    let share = |problem: &Problem| 100.0 * problem.total.0 as f64 / kernel_time.0 as f64;
    problems.retain(|problem| share(problem) >= problem.min_share_pct);
    add_times_per_step(context, &mut problems);
    ordering::sort_by_key(&mut problems, |problem| std::cmp::Reverse(problem.total));
    let mut answer = UnsuitedKernels::answer("names and order of kernels, and the compute capability of GPUs")
        .limit(
            "Only problems from 1 % of the kernel time on; split-K reductions from 2 % on. A kernel can have several \
             problems.",
        )
        .limit(
            "Proven: the name of the kernel states the problem. Inferred: name and GPU, or the order of kernels. Guess: \
             the kernel may suit its work, see the advice.",
        );
    if trace.devices.iter().any(|device| device.properties.capability.is_none()) {
        answer = answer.limit(
            "Without the CUDA compute capability of a GPU (not recorded, or a GPU of another maker), kernels for other \
             GPUs are not searched.",
        );
    }
    let example = |problem: &Problem| problem.names.iter().max_by_key(|(_, total)| *total).map(|(name, _)| *name);
    answer.with_rows(problems.iter().map(|problem| UnsuitedKernelRow {
        problem: problem.problem.to_owned(),
        kernels: problem.names.len(),
        launches: problem.launches,
        total_ms: problem.total.into(),
        share_of_kernel_time_pct: Pct::of(problem.total, kernel_time),
        per_step_ms: problem.per_step.map(Ms::from),
        capability: problem.capability.map(labels::compute_capability),
        advice: problem.advice.to_owned(),
        confidence: problem.confidence.to_owned(),
        example_kernel: example(problem).map(|name| names::demangle(trace.names.get(name)).into()),
    }))
}

fn kernel_time(context: &Context) -> Ns {
    let kernels = context.groups().iter().filter(|group| group.kind == OpKind::Kernel);
    kernels.fold(Ns::ZERO, |sum, group| sum + group.total)
}

/// The problems that names show, summed over devices of equal compute capability.
fn problems_by_name(context: &Context) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    let mut last: Option<&'static NameTest> = None;
    for hit in hits(context) {
        let capability = capability(context.trace, hit.device);
        let is_same_test = last.replace(hit.test).is_some_and(|last| std::ptr::eq(last, hit.test));
        let same = problems.last_mut().filter(|problem| is_same_test && problem.capability == capability);
        match same {
            Some(problem) => {
                problem.launches += hit.launches;
                problem.total += hit.total;
                for (name, total) in hit.names.into_vec() {
                    problem.names.update(name, Ns::ZERO, |sum| *sum += total);
                }
            }
            None => problems.push(Problem {
                problem: &hit.test.problem,
                launches: hit.launches,
                total: hit.total,
                names: hit.names,
                capability,
                confidence: &hit.test.confidence,
                advice: &hit.test.advice,
                min_share_pct: hit.test.min_share_pct,
                rows: None,
                per_step: None,
            }),
        }
    }
    problems
}

/// Sets the time per step and device of all problems, if the trace has steps of one stage: one pass over the ops of the steps.
fn add_times_per_step(context: &Context, problems: &mut [Problem]) {
    let (trace, passes) = (context.trace, context.passes());
    let mut stages = passes.stages();
    let (Some(stage), None) = (stages.next(), stages.next()) else { return };
    if problems.is_empty() {
        return;
    }
    // By device and name.
    let mut times = vec![vec![Ns::ZERO; trace.names.len()]; trace.devices.len()];
    let (mut steps, mut rows) = (0, Vec::new());
    for pass in passes.of_stage(stage) {
        steps += 1;
        rows.extend_from_slice(passes.rows(pass));
        for (_, op) in passes.ops(trace, pass).filter(|(_, op)| op.kind == OpKind::Kernel) {
            let time = times.get_mut(op.device.0 as usize).and_then(|names| names.get_mut(op.name.0 as usize));
            time.into_iter().for_each(|time| *time += op.duration);
        }
    }
    rows.sort_unstable();
    let time = |device: usize, name: NameId| times.get(device)?.get(name.0 as usize).copied();
    for problem in problems {
        let total = match &problem.rows {
            // Only some of the ops of a name belong to the problem.
            Some(own) => {
                let inside = own.iter().filter(|row| rows.binary_search(row).is_ok());
                sum(inside.filter_map(|row| trace.gpu_ops.get(*row as usize)).map(|op| op.duration))
            }
            None => {
                let devices = (0..trace.devices.len())
                    .filter(|device| capability(trace, DeviceId(*device as u32)) == problem.capability);
                let of_device = |device| problem.names.iter().filter_map(move |(name, _)| time(device, *name));
                sum(devices.flat_map(of_device))
            }
        };
        problem.per_step = Some(Ns(total.0 / steps.max(1)));
    }
}

fn sum(times: impl Iterator<Item = Ns>) -> Ns {
    times.fold(Ns::ZERO, |sum, time| sum + time)
}

/// Attention in separate kernels; `None` if there is none.
fn unfused_attention(context: &Context) -> Option<Problem> {
    let rule = &FILE.unfused_attention;
    let found = unfused_attention::find(context, rule)?;
    Some(Problem {
        problem: &rule.problem,
        launches: found.count,
        total: found.total,
        per_step: None,
        rows: Some(found.rows),
        names: found.names,
        capability: None,
        confidence: &rule.confidence,
        advice: &rule.advice,
        min_share_pct: rule.min_share_pct,
    })
}

#[cfg(test)]
mod tests;
