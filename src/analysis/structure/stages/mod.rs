//! The serving stage of every GPU op (prefill, decode, ...) and the steps of the serving engine, from annotations of device
//! and host, and from the names of files and folders. Nested annotations are flattened to a `Timeline`, so the cost is
//! O((a + n) log a) for `a` annotations and `n` ops.

mod extents;
mod launch_labels;
mod phase_ends;
mod step;
mod step_info;
mod step_list;
mod step_time;
mod timeline;
mod word_ranges;

pub use step::{Basis, Step};
pub use step_info::{Form, StepInfo, TokenSums};
pub use step_list::{HostStep, count_stage_conflicts, steps, steps_by_op, steps_from_ranges};
pub(crate) use step_list::{NO_NAME, has_marked_steps};
pub(crate) use step_time::{TimedStep, extents_of_steps, representative, time_between, timed};

use crate::analysis::section::words;
use crate::ordering;
use crate::rules::inference::thresholds;
use crate::trace::{Annotation, DeviceId, GpuOp, HostCode, NONE, Names, Ns, ProcessId, Trace};
use timeline::{Segment, Timeline};

/// A stage of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Stage {
    /// Processes prompts. SGLang calls it extend.
    Prefill,
    /// Generates one token per request.
    Decode,
    /// Prefill and decode in one batch.
    Mixed,
    /// A step of a draft model (speculative decoding).
    Draft,
    /// Verifies the tokens of a draft model.
    Verify,
    /// A step without requests.
    Idle,
    /// The steps of the kind with most work, of kinds that nothing names.
    KindA,
    /// Those of the next kind.
    KindB,
    /// Those of the third.
    KindC,
    /// A step of another kind.
    Other,
    /// Unknown: no annotation or name states a stage.
    #[default]
    All,
}

impl Stage {
    /// All stages in the order of tables.
    pub const ALL: [Self; 11] = [
        Self::Prefill,
        Self::Decode,
        Self::Mixed,
        Self::Draft,
        Self::Verify,
        Self::Idle,
        Self::KindA,
        Self::KindB,
        Self::KindC,
        Self::Other,
        Self::All,
    ];

    /// Whether the stage is known, and not only that steps are alike.
    pub(crate) fn is_named(self) -> bool {
        !matches!(self, Self::KindA | Self::KindB | Self::KindC | Self::All)
    }

    /// The label in tables: `extend/prefill`, `decode`, `all`.
    pub fn label(self) -> &'static str {
        self.word()
    }

    /// What people read where it stands alone: the label, but `step` for a step without a stage. Exports have the label.
    pub fn title(self) -> &'static str {
        if self == Self::All { "step" } else { self.label() }
    }
}

words! {
    Stage:
    Prefill = "extend/prefill",
    Decode = "decode",
    Mixed = "mixed",
    Draft = "draft",
    Verify = "verify",
    Idle = "idle",
    KindA = "kind A",
    KindB = "kind B",
    KindC = "kind C",
    Other = "other",
    All = "all",
}

/// The stage that the names of a file and its folders state. The file name comes first, then the nearest folder: SGLang
/// writes `1731-TP-0-EXTEND.trace.json.gz`. A name with two stages is ignored. Returns [`Stage::All`] if no name has one.
///
/// ```
/// use gpuprism::analysis::structure::stages::{Stage, stage_of_path};
/// assert_eq!(stage_of_path("out/prefill/1731-TP-0-DECODE.trace.json.gz"), Stage::Decode);
/// assert_eq!(stage_of_path("out/prefill/1731-TP-0.trace.json.gz"), Stage::Prefill);
/// assert_eq!(stage_of_path("decoder/prefills.json"), Stage::All);
/// ```
pub fn stage_of_path(path: &str) -> Stage {
    /// Folders further up describe the machine, not the trace.
    const MAX_NAMES: usize = 6;
    let names = path.rsplit(['/', '\\']).filter(|name| !name.is_empty());
    names.take(MAX_NAMES).find_map(stage_of_name).unwrap_or(Stage::All)
}

fn stage_of_name(name: &str) -> Option<Stage> {
    // Only the part of a word before a dot counts: the `decode` of `x.decode.json` is a file extension.
    let words = name.split(['-', '_']).map(|word| word.split('.').next().unwrap_or(word));
    let mut stages = words.filter_map(|word| match word.to_ascii_lowercase().as_str() {
        "extend" | "prefill" => Some(Stage::Prefill),
        "decode" => Some(Stage::Decode),
        _ => None,
    });
    let stage = stages.next()?;
    stages.all(|other| other == stage).then_some(stage)
}

/// The stage of every GPU op. If `file_stage` is a known stage, it is the stage of all ops.
///
/// Otherwise the first of these decides: the annotation with the external id of the op; the innermost device annotation at
/// the start of the op; the innermost host annotation at the start of its launch (host and device are not in step); the
/// nearest of these annotations, up to 20 ms away.
pub fn of_ops(trace: &Trace, file_stage: Stage) -> Vec<Stage> {
    match &trace.code {
        Some(code) if file_stage == Stage::All => {
            let resolver = StageResolver::new(trace, code);
            trace.gpu_ops.iter().enumerate().map(|(index, op)| resolver.stage(index, op)).collect()
        }
        _ => vec![file_stage; trace.gpu_ops.len()],
    }
}

/// Parses each distinct annotation text. If any has the form of a serving engine, plain words and numbers are ignored, because inside
/// a step they name a part of it (`decode attention` in a mixed batch).
fn parse_steps(texts: &Names) -> Vec<Option<StepInfo>> {
    let mut steps: Vec<Option<StepInfo>> = texts.iter().map(StepInfo::parse).collect();
    if steps.iter().flatten().any(|step| step.form == Form::Engine) {
        let is_plain = |step: &&mut Option<StepInfo>| step.is_some_and(|step| step.form.is_plain());
        steps.iter_mut().filter(is_plain).for_each(|step| *step = None);
    }
    steps
}

/// Finds the stage of an op by id and time.
struct StageResolver<'a> {
    trace: &'a Trace,
    code: &'a HostCode,
    infos: Vec<Option<StepInfo>>,
    /// Annotations with a stage and an external id, sorted by process and id.
    by_id: Vec<Annotation>,
    /// Device annotations, by device.
    device: Vec<Timeline>,
    /// The process of each device.
    owners: Vec<Option<ProcessId>>,
    /// Device annotations, by process: for devices without annotations.
    devices_of_process: Vec<Timeline>,
    /// Host annotations, by process.
    host: Vec<Timeline>,
}

impl<'a> StageResolver<'a> {
    fn new(trace: &'a Trace, code: &'a HostCode) -> Self {
        let infos = parse_steps(&code.annotation_names);
        let stage = |annotation: &Annotation| stage_of(&infos, annotation);
        let has_stage = |annotation: &Annotation| stage(annotation).is_some();
        let annotations: Vec<Annotation> = code.annotations.iter().copied().filter(has_stage).collect();
        let mut device = vec![Vec::new(); trace.devices.len()];
        let [mut devices_of_process, mut host] = [(); 2].map(|()| vec![Vec::new(); trace.processes.len()]);
        for annotation in &annotations {
            let Some(label) = stage(annotation).map(|stage| stage as u32) else { continue };
            let segment = Segment { start: annotation.start, end: annotation.end(), label };
            let own = annotation.device.map(|id| device.get_mut(id.0 as usize));
            let of_process = if own.is_some() { &mut devices_of_process } else { &mut host };
            let of_process = of_process.get_mut(annotation.process.0 as usize);
            own.flatten().into_iter().chain(of_process).for_each(|segments| segments.push(segment));
        }
        let timelines = |segments: Vec<Vec<Segment>>| segments.into_iter().map(Timeline::new).collect();
        let has_id = |annotation: &Annotation| annotation.id != NONE;
        let mut by_id: Vec<Annotation> = annotations.iter().copied().filter(has_id).collect();
        ordering::sort_by_key(&mut by_id, |annotation| (annotation.process, annotation.id));
        Self {
            trace,
            code,
            infos,
            by_id,
            device: timelines(device),
            owners: owners(trace),
            devices_of_process: timelines(devices_of_process),
            host: timelines(host),
        }
    }

    fn stage(&self, index: usize, op: GpuOp) -> Stage {
        let launch = self.trace.gpu_ops.launch(index).and_then(|call| self.trace.calls.get(call.0 as usize));
        let launch_time = launch.map(|call| call.start);
        if let Some(stage) = self.stage_by_id(index, op, launch_time) {
            return stage;
        }
        let device = self.timeline_of_device(op.device).and_then(|timeline| timeline.nearest(op.start));
        let host = self.host.get(op.process.0 as usize);
        let host = host.and_then(|timeline| timeline.nearest(launch_time.unwrap_or(op.start)));
        let best = match (device, host) {
            (Some(device), Some(host)) => Some(if host.0 < device.0 { host } else { device }),
            (device, host) => device.or(host),
        };
        let max_distance = Ns(1_000_000 * thresholds().step_times.max_annotation_distance_ms.value as i64);
        let near = best.filter(|(distance, _)| *distance <= max_distance);
        near.and_then(|(_, stage)| Stage::ALL.get(stage as usize).copied()).unwrap_or(Stage::All)
    }

    /// The annotations of a device; if it has none, those of all devices of its process.
    fn timeline_of_device(&self, device: DeviceId) -> Option<&Timeline> {
        let own = self.device.get(device.0 as usize).filter(|own| !own.is_empty());
        let owner = || self.owners.get(device.0 as usize).copied().flatten();
        own.or_else(|| self.devices_of_process.get(owner()?.0 as usize))
    }

    /// The stage of the annotation with the external id of an op. Profilers reuse ids, so the annotation must also be on the
    /// device of the op or, on the host, contain its launch.
    fn stage_by_id(&self, index: usize, op: GpuOp, launch_time: Option<Ns>) -> Option<Stage> {
        /// An id of more annotations is ignored, because some profilers write one id for all.
        const MAX_SAME_ID: usize = 64;
        let id = (op.process, *self.code.op_ids.get(index).filter(|id| **id != NONE)?);
        let id_of = |annotation: &Annotation| (annotation.process, annotation.id);
        let first = self.by_id.partition_point(|annotation| id_of(annotation) < id);
        if self.by_id.get(first + MAX_SAME_ID).is_some_and(|annotation| id_of(annotation) == id) {
            return None;
        }
        let same_id = self.by_id.iter().skip(first).take_while(|annotation| id_of(annotation) == id);
        let contains_op = |annotation: &&Annotation| match annotation.device {
            Some(device) => device == op.device,
            None => launch_time.is_none_or(|time| annotation.start <= time && time <= annotation.end()),
        };
        let best =
            same_id.filter(contains_op).max_by_key(|annotation| (annotation.device.is_some(), annotation.duration))?;
        stage_of(&self.infos, best)
    }
}

/// The process that uses each device.
fn owners(trace: &Trace) -> Vec<Option<ProcessId>> {
    let mut owners = vec![None; trace.devices.len()];
    for op in trace.gpu_ops.iter() {
        if let Some(owner) = owners.get_mut(op.device.0 as usize) {
            *owner = Some(op.process);
        }
    }
    owners
}

/// The stage that an annotation states.
fn stage_of(infos: &[Option<StepInfo>], annotation: &Annotation) -> Option<Stage> {
    let info = infos.get(annotation.name.0 as usize)?.as_ref()?;
    (info.stage != Stage::All).then_some(info.stage)
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
