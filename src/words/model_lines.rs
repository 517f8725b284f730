//! The sentences about a model: one on the steps of a stage, one on a kind of layer, one on the host. All numbers of a sentence have the
//! unit of its first.

use super::findings::CodeOnPath;
use super::numbers::{mean_count, short, short_part, trimmed};
use super::steps::StepCount;
use super::times::SentenceUnit;
use super::{noun, or_nothing, stages};
use crate::digits::grouped;
use crate::trace::{MeanNs, Ms, Us};

/// The steps of a stage.
#[derive(Debug)]
pub(crate) struct StageSteps<'a> {
    /// The label of the stage.
    pub(crate) stage: &'a str,
    pub(crate) count: StepCount,
    pub(crate) median: MeanNs,
    /// The parts of the median step.
    pub(crate) parts: Vec<(MeanNs, &'a str)>,
    pub(crate) batch: Option<f64>,
    /// Left out if they are the batch: in decode, each request has one token.
    pub(crate) tokens: Option<f64>,
    pub(crate) floor: Option<Floor>,
}

/// The least time of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Floor {
    pub(crate) floor: Ms,
    /// The same with uniform routing, where it is more: which experts a step reads is not known.
    pub(crate) uniform: Option<Ms>,
    pub(crate) step: Ms,
    /// What a step reads at least, if that decides its floor.
    pub(crate) read: Option<Read>,
}

/// Bytes that a step reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    pub(crate) weights_gb: f64,
    pub(crate) cache_gb: f64,
}

impl Floor {
    /// Whether the floor with uniform routing has another share of the step.
    pub(crate) fn differs(self, uniform: Ms) -> bool {
        self.share(uniform) != self.share(self.floor)
    }

    fn share(self, time: Ms) -> String {
        format!("{:.0}", 100.0 * time.0 / self.step.0)
    }
}

/// `Decode: 9 steps, median 18.9 ms (16.6 busy, 1.5 host late, 0.8 turnaround), batch 1; floor ...`
pub(crate) fn steps(steps: &StageSteps) -> String {
    let head = stages::heading(steps.stage);
    let unit = SentenceUnit::of(steps.median);
    let length = match steps.count {
        StepCount::OfOne(1) => "1 step of ".to_owned(),
        count => format!("{}, median ", count.words()),
    };
    format!(
        "{head}{length}{}{}{}{}{}.",
        unit.text(steps.median),
        step_parts(unit, &steps.parts),
        or_nothing(steps.batch, |batch| format!(", batch {}", mean_count(batch))),
        or_nothing(steps.tokens, |tokens| format!(", {} tokens", mean_count(tokens))),
        or_nothing(steps.floor, floor)
    )
}

/// The parts in the unit of the step. Parts below 0.05 of the unit are left out.
fn step_parts(unit: SentenceUnit, parts: &[(MeanNs, &str)]) -> String {
    let shown = parts.iter().map(|(time, words)| (unit.amount(*time), words)).filter(|(amount, _)| *amount >= 0.05);
    let shown: Vec<String> = shown.map(|(amount, words)| format!("{amount:.1} {words}")).collect();
    if shown.is_empty() { String::new() } else { format!(" ({})", shown.join(", ")) }
}

/// `; floor 10.6 ms (35.3 GB of weights at 3.35 TB/s): 56 % of the hardware`
fn floor(of_step: Floor) -> String {
    let Floor { floor, uniform, read, .. } = of_step;
    let text = |time: Ms| SentenceUnit::of(time).text(time);
    let shares = match uniform {
        Some(uniform) => format!("{} to {}", of_step.share(floor), of_step.share(uniform)),
        None => of_step.share(floor),
    };
    format!(
        "; floor {}{}{}: {shares} % of the hardware",
        text(floor),
        or_nothing(read, |read| read_words(read, floor)),
        or_nothing(uniform, |uniform| format!(", {} with uniform routing", text(uniform)))
    )
}

/// ` (35.3 GB of weights at 3.35 TB/s)`
fn read_words(Read { weights_gb, cache_gb }: Read, floor: Ms) -> String {
    let cache = if cache_gb >= 0.05 { format!(" and {cache_gb:.1} GB of KV cache") } else { String::new() };
    // Gigabytes in a millisecond are terabytes in a second.
    let rate = trimmed((weights_gb + cache_gb) / floor.0);
    format!(" ({weights_gb:.1} GB of weights{cache} at {rate} TB/s)")
}

/// The layers of a kind.
#[derive(Debug)]
pub(crate) struct LayersOfKind<'a> {
    /// The label of the stage, if there are several.
    pub(crate) stage: Option<&'a str>,
    pub(crate) count: u64,
    /// The kind, if the stage has several.
    pub(crate) kind: Option<&'a str>,
    /// The median time of a layer.
    pub(crate) time: Us,
    /// If its kernels overlap notably.
    pub(crate) with_overlap: Option<Us>,
    pub(crate) parts: Vec<LayerPart>,
    /// The sum of the parts that are not named.
    pub(crate) other: Us,
    /// Without parts if the times of single kernels are not known.
    pub(crate) has_parts: bool,
}

/// A part of a layer.
#[derive(Debug)]
pub(crate) struct LayerPart {
    pub(crate) name: String,
    pub(crate) time: Us,
    /// The number of kernels, for parts whose kernels are alike.
    pub(crate) kernels: Option<u64>,
}

/// `80 layers of 198 us: gate/up 62, down 45, qkv 18, o 17, communication 2 x 5, turnaround 14.`
pub(crate) fn layers(layers: &LayersOfKind) -> String {
    let unit = SentenceUnit::of_layer(layers.time);
    let head = format!(
        "{}{} {}{} of {}{}",
        or_nothing(layers.stage, stages::heading_alone),
        grouped(layers.count),
        noun(layers.count, "layer", "layers"),
        or_nothing(layers.kind, |kind| format!(" of kind {kind}")),
        unit.text(layers.time),
        or_nothing(layers.with_overlap, |time| format!(", {} with overlap", unit.text(time)))
    );
    let mut parts: Vec<String> = layers.parts.iter().map(|part| layer_part(unit, part)).collect();
    let other = short(unit.amount(layers.other));
    if !["0", "0.0"].contains(&other.as_str()) {
        parts.push(format!("other {other}"));
    }
    if parts.is_empty() || !layers.has_parts { format!("{head}.") } else { format!("{head}: {}.", parts.join(", ")) }
}

fn layer_part(unit: SentenceUnit, LayerPart { name, time, kernels }: &LayerPart) -> String {
    match *kernels {
        Some(several @ 2..) => format!("{name} {several} x {}", short(unit.amount(Us(time.0 / several as f64)))),
        _ => format!("{name} {}", short(unit.amount(*time))),
    }
}

/// What the host did while the GPU waited.
#[derive(Debug)]
pub(crate) struct Host<'a> {
    pub(crate) late: Ms,
    pub(crate) extent: Extent,
    pub(crate) is_before_layers: bool,
    pub(crate) code: Option<HostCode<'a>>,
    /// The profiler slows the host down.
    pub(crate) is_upper_bound: bool,
}

/// The time in which the host was late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// One step.
    Step,
    /// The mean of several steps. The sentence on the steps has the times of the median step.
    MeanStep,
    /// Also the start of a program and first uses.
    WholeCapture,
    Window,
}

/// The code that the sentence names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HostCode<'a> {
    /// The code with most time on the critical path, which the findings name, too.
    OnPath(CodeOnPath<'a>),
    /// The code with most of the late time.
    Late { function: &'a str, file: &'a str, time: Ms },
}

/// `Host: 1.5 ms a step before the first layer; of its time on the critical path most is in _prepare_inputs (gpu_model_runner.py:120), 450 us a step.`
pub(crate) fn host(host: &Host) -> String {
    let unit = SentenceUnit::of(host.late);
    let (on_average, per_step, extent) = match host.extent {
        Extent::Step => ("", " a step", ""),
        Extent::MeanStep => ("on average ", " a step", ""),
        Extent::WholeCapture => ("", "", " in the whole capture"),
        Extent::Window => ("", "", " in the window"),
    };
    let place = if host.is_before_layers { "before the first layer" } else { "of late launches" };
    let code = or_nothing(host.code, |code| match code {
        HostCode::OnPath(code) => format!("; of its time on the critical path {}", code.part()),
        HostCode::Late { function, file, time } => {
            format!(", {} of it in {function} ({file})", short_part(unit.amount(time)))
        }
    });
    let bound = if host.is_upper_bound { "; the profiler slows the host, so this is an upper bound" } else { "" };
    format!("Host: {on_average}{}{per_step} {place}{extent}{code}{bound}.", unit.text(host.late))
}
