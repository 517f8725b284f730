//! In which stage of serving an op ran: by the names of files and folders, and by annotations, the device's before the
//! host's.

mod step_info;
mod step_list;
mod windows;

pub use step_info::{Form, StepInfo, Sums};
pub use step_list::Stretch;
pub use step_list::{Basis, HostStep, Step, count_stage_conflicts, steps, steps_by_op, steps_from_ranges};

use crate::ordering::StableSort;
use crate::trace::{Annotation, Code, DeviceId, GpuOp, NONE, Names, Ns, ProcessId, Trace};
use windows::Windows;

/// A stage of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Reads prompts; SGLang says extend.
    Prefill,
    /// Writes one token a request.
    Decode,
    /// Both in one batch.
    Mixed,
    /// A draft model's step.
    Draft,
    /// Verifies what a draft model wrote.
    Verify,
    /// A step without requests.
    Idle,
    /// A step of another kind.
    Other,
    /// No step is known.
    All,
}

impl Stage {
    /// In the order of tables.
    pub const ALL: [Self; 8] =
        [Self::Prefill, Self::Decode, Self::Mixed, Self::Draft, Self::Verify, Self::Idle, Self::Other, Self::All];

    /// As tables name it: `extend/prefill`, `decode`, `all`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Prefill => "extend/prefill",
            Self::Decode => "decode",
            Self::Mixed => "mixed",
            Self::Draft => "draft",
            Self::Verify => "verify",
            Self::Idle => "idle",
            Self::Other => "other",
            Self::All => "all",
        }
    }
}

/// The stage that the names of a file and its folders tell, the nearest name first: SGLang writes
/// `1731-TP-0-EXTEND.trace.json.gz`. A name of two stages tells none; [`Stage::All`] where no name tells.
///
/// ```
/// use gpuprism::analysis::triage::stages::{Stage, stage_of_path};
/// assert_eq!(stage_of_path("out/prefill/1731-TP-0-DECODE.trace.json.gz"), Stage::Decode);
/// assert_eq!(stage_of_path("out/prefill/1731-TP-0.trace.json.gz"), Stage::Prefill);
/// assert_eq!(stage_of_path("decoder/prefills.json"), Stage::All);
/// ```
pub fn stage_of_path(path: &str) -> Stage {
    /// Farther up a path speaks of the machine, not of the trace.
    const NEAREST: usize = 6;
    let names = path.rsplit(['/', '\\']).filter(|name| !name.is_empty());
    names.take(NEAREST).find_map(stage_of_name).unwrap_or(Stage::All)
}

fn stage_of_name(name: &str) -> Option<Stage> {
    // A dot ends the words of a name and begins none: `x.decode.json` is an ending.
    let words = name.split(['-', '_']).map(|word| word.split('.').next().unwrap_or(word));
    let mut stages = words.filter_map(|word| match word.to_ascii_lowercase().as_str() {
        "extend" | "prefill" => Some(Stage::Prefill),
        "decode" => Some(Stage::Decode),
        _ => None,
    });
    let stage = stages.next()?;
    stages.all(|other| other == stage).then_some(stage)
}

/// The stage of every GPU op. What the file's name tells counts for all of them.
///
/// Otherwise: the annotation with the op's external id; the innermost of the annotations of its device that runs when
/// the op starts; the innermost of the host's that runs when its launch starts, because host and device are not in
/// step; the nearest of them up to 20 ms away.
pub fn of_ops(trace: &Trace, file_stage: Stage) -> Vec<Stage> {
    match &trace.code {
        Some(code) if file_stage == Stage::All => {
            let clock = Clock::new(trace, code);
            trace.gpu_ops.iter().enumerate().map(|(at, op)| clock.stage(at, op)).collect()
        }
        _ => vec![file_stage; trace.gpu_ops.len()],
    }
}

/// What each distinct text of the annotations says. Plain words count only where no annotation has an engine's form:
/// inside an engine's step they name a part of it (`decode attention` of a mixed batch).
fn infos(texts: &Names) -> Vec<Option<StepInfo>> {
    let mut said: Vec<Option<StepInfo>> = texts.iter().map(StepInfo::parse).collect();
    if said.iter().flatten().any(|step| step.form == Form::Engine) {
        let is_word = |step: &&mut Option<StepInfo>| step.is_some_and(|step| step.form == Form::Word);
        said.iter_mut().filter(is_word).for_each(|step| *step = None);
    }
    said
}

/// Tells the stage at a moment.
struct Clock<'a> {
    trace: &'a Trace,
    code: &'a Code,
    infos: Vec<Option<StepInfo>>,
    /// Annotations that name a stage and have an external id, by process and id.
    by_id: Vec<Annotation>,
    /// Of each device; of all devices of its process where it has none of its own.
    device: Vec<Windows>,
    /// Of each process.
    host: Vec<Windows>,
}

impl<'a> Clock<'a> {
    fn new(trace: &'a Trace, code: &'a Code) -> Self {
        let infos = infos(&code.annotation_names);
        let stage = |mark: &Annotation| stage_of(&infos, mark);
        let marks: Vec<Annotation> = code.annotations.iter().copied().filter(|mark| stage(mark).is_some()).collect();
        let windows = |wanted: &dyn Fn(&Annotation) -> bool| {
            let wanted = marks.iter().filter(|mark| wanted(mark));
            Windows::new(wanted.filter_map(|mark| Some((mark.start, mark.end(), stage(mark)? as u32))).collect())
        };
        let of_device = |(device, owner): (DeviceId, Option<ProcessId>)| {
            let own = windows(&|mark| mark.device == Some(device));
            if own.is_empty() { windows(&|mark| mark.device.is_some() && Some(mark.process) == owner) } else { own }
        };
        let device = (0..).map(DeviceId).zip(owners(trace)).map(of_device).collect();
        let of_process = |process| windows(&|mark| mark.device.is_none() && mark.process == process);
        let host = (0..).map(ProcessId).take(trace.processes.len()).map(of_process).collect();
        let mut by_id: Vec<Annotation> = marks.iter().copied().filter(|mark| mark.id != NONE).collect();
        by_id.order_by_key(|mark| (mark.process, mark.id));
        Self { trace, code, infos, by_id, device, host }
    }

    fn stage(&self, at: usize, op: GpuOp) -> Stage {
        /// As far from a step an op may still be its: what it prepares and copies back.
        const NEAR: Ns = Ns(20_000_000);
        let launch = self.trace.gpu_ops.launch(at).and_then(|call| self.trace.calls.get(call.0 as usize));
        let launched = launch.map(|call| call.start);
        if let Some(stage) = self.stage_by_id(at, op, launched) {
            return stage;
        }
        let device = self.device.get(op.device.0 as usize).and_then(|windows| windows.nearest(op.start));
        let host = self.host.get(op.process.0 as usize);
        let host = host.and_then(|windows| windows.nearest(launched.unwrap_or(op.start)));
        let best = match (device, host) {
            (Some(device), Some(host)) => Some(if host.0 < device.0 { host } else { device }),
            (device, host) => device.or(host),
        };
        let near = best.filter(|(distance, _)| *distance <= NEAR);
        near.and_then(|(_, stage)| Stage::ALL.get(stage as usize).copied()).unwrap_or(Stage::All)
    }

    /// Ids are told anew while a profiler runs: an annotation counts where the op can be its.
    fn stage_by_id(&self, at: usize, op: GpuOp, launched: Option<Ns>) -> Option<Stage> {
        /// An id that more annotations have tells nothing: some profilers write the same for all.
        const TELLING: usize = 64;
        let id = (op.process, *self.code.op_ids.get(at).filter(|id| **id != NONE)?);
        let id_of = |mark: &Annotation| (mark.process, mark.id);
        let first = self.by_id.partition_point(|mark| id_of(mark) < id);
        if self.by_id.get(first + TELLING).is_some_and(|mark| id_of(mark) == id) {
            return None;
        }
        let marks = self.by_id.iter().skip(first).take_while(|mark| id_of(mark) == id);
        let holds = |mark: &&Annotation| match mark.device {
            Some(device) => device == op.device,
            None => launched.is_none_or(|launched| mark.start <= launched && launched <= mark.end()),
        };
        let best = marks.filter(holds).max_by_key(|mark| (mark.device.is_some(), mark.duration))?;
        stage_of(&self.infos, best)
    }
}

/// Whose work each device does.
fn owners(trace: &Trace) -> Vec<Option<ProcessId>> {
    let mut owners = vec![None; trace.devices.len()];
    for op in trace.gpu_ops.iter() {
        if let Some(owner) = owners.get_mut(op.device.0 as usize) {
            *owner = Some(op.process);
        }
    }
    owners
}

/// The stage that an annotation names.
fn stage_of(infos: &[Option<StepInfo>], mark: &Annotation) -> Option<Stage> {
    let info = infos.get(mark.name.0 as usize)?.as_ref()?;
    (info.stage != Stage::All).then_some(info.stage)
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
