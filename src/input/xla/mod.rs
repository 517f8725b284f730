//! Readers of the profiles that jax.profiler, TensorFlow and PyTorch/XLA write: the protobuf of XLA (`xspace`) and the Chrome JSON
//! that trace viewer gets (`trace_viewer`). This module has what both say: which stats an event can have, and what they mean.
//!
//! The names of stats, lines and planes are those of XLA (`xla/tsl/profiler/utils/xplane_schema.cc` of openxla/xla) and of XProf
//! (`plugin/xprof/protobuf/xplane.proto` of openxla/xprof, `docs/` for the nesting of TPU ops).

mod details;
mod host;
#[cfg(test)]
mod space_tests;
mod trace_viewer;
mod xspace;

pub(super) use trace_viewer::reader as trace_viewer;
pub(super) use xspace::XSpaceReader;
pub(crate) use xspace::is_xspace;

use super::rocm::kernel_name;
use crate::trace::{GpuOp, GraphReplay, NodeNote, OpKind, TraceBuilder};
use details::{Details, copy_by_direction};
use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A stat that says something about an op or a call. All others are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stat {
    KernelDetails,
    CopyDetails,
    SetDetails,
    /// The event is an allocation of memory or the like.
    NoWork,
    /// The event is a whole CUDA graph.
    WholeGraph,
    Correlation,
    Graph,
    HloOp,
    HloModule,
    /// The op of the program: `jit(step)/dot_general`.
    Path,
    /// The same in TensorFlow, with its type after a colon.
    TfOp,
    /// The annotation stack of TensorFlow.
    Annotation,
    HloCategory,
    StepNumber,
    Other,
}

impl Stat {
    fn named(name: &[u8]) -> Self {
        match name {
            b"kernel_details" => Self::KernelDetails,
            b"memcpy_details" => Self::CopyDetails,
            b"Memset_details" | b"memset_details" => Self::SetDetails,
            b"memalloc_details"
            | b"MemAlloc_details"
            | b"memfree_details"
            | b"MemFree_details"
            | b"MemoryResidency_details" => Self::NoWork,
            b"cuda_graph_exec_id" => Self::WholeGraph,
            b"correlation_id" => Self::Correlation,
            b"cuda_graph_id" => Self::Graph,
            b"hlo_op" => Self::HloOp,
            b"hlo_module" => Self::HloModule,
            b"name" => Self::Path,
            b"tf_op" => Self::TfOp,
            b"annotation" => Self::Annotation,
            b"hlo_category" => Self::HloCategory,
            b"step_num" => Self::StepNumber,
            _ => Self::Other,
        }
    }
}

/// What the stats of one event say. Texts are as the file writes them.
#[derive(Debug, Clone, Copy, Default)]
struct Stats<'a> {
    kernel: Option<&'a [u8]>,
    copy: Option<&'a [u8]>,
    set: Option<&'a [u8]>,
    is_no_work: bool,
    is_whole_graph: bool,
    correlation: Option<u32>,
    graph: Option<u32>,
    step: Option<i64>,
    site: Site<'a>,
}

/// The op of the program that an event belongs to, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Site<'a> {
    hlo_op: &'a [u8],
    hlo_module: &'a [u8],
    path: &'a [u8],
    tf_op: &'a [u8],
    annotation: &'a [u8],
    category: &'a [u8],
}

/// The value of a stat: a text, a number, or both if a number is written as text.
#[derive(Debug, Clone, Copy, Default)]
struct StatValue<'a> {
    text: &'a [u8],
    number: Option<i64>,
}

impl<'a> Stats<'a> {
    /// Takes a stat. One without a value leaves what is known.
    #[inline]
    fn add(&mut self, stat: Stat, value: StatValue<'a>) {
        let small = || value.number.and_then(|number| u32::try_from(number).ok());
        let text = |known: &'a [u8]| if value.text.is_empty() { known } else { value.text };
        let site = &mut self.site;
        match stat {
            Stat::KernelDetails => self.kernel = Some(value.text),
            Stat::CopyDetails => self.copy = Some(value.text),
            Stat::SetDetails => self.set = Some(value.text),
            Stat::NoWork => self.is_no_work = true,
            Stat::WholeGraph => self.is_whole_graph = true,
            Stat::Correlation => self.correlation = small().filter(|id| *id != 0).or(self.correlation),
            Stat::Graph => self.graph = small().or(self.graph),
            Stat::StepNumber => self.step = value.number.or(self.step),
            Stat::HloOp => site.hlo_op = text(site.hlo_op),
            Stat::HloModule => site.hlo_module = text(site.hlo_module),
            Stat::Path => site.path = text(site.path),
            Stat::TfOp => site.tf_op = text(site.tf_op),
            Stat::Annotation => site.annotation = text(site.annotation),
            Stat::HloCategory => site.category = text(site.category),
            Stat::Other => {}
        }
    }

    /// These stats, and for those that are missing the ones of `other`.
    fn or(self, other: &Self) -> Self {
        Self {
            kernel: self.kernel.or(other.kernel),
            copy: self.copy.or(other.copy),
            set: self.set.or(other.set),
            is_no_work: self.is_no_work || other.is_no_work,
            is_whole_graph: self.is_whole_graph || other.is_whole_graph,
            correlation: self.correlation.or(other.correlation),
            graph: self.graph.or(other.graph),
            step: self.step.or(other.step),
            site: self.site.or(&other.site),
        }
    }

    /// What an event of this name on a line of a stream is. The profilers of NVIDIA and AMD tell it by the details; events
    /// without any have the names of CUPTI's or ROCm's records.
    fn work(&self, name: &[u8]) -> Work {
        const NOT_WORK: [&[u8]; 6] =
            [b"MemoryAlloc", b"MemoryFree", b"MemoryReserve", b"MemoryRelease", b"Synchronization", b"MemoryResidency"];
        let starts = |words: [&[u8]; 2]| {
            words.iter().any(|word| name.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)))
        };
        match () {
            () if self.kernel.is_some() => Work::Op(OpKind::Kernel),
            () if self.copy.is_some() => Work::Op(OpKind::Copy),
            () if self.set.is_some() => Work::Op(OpKind::Set),
            () if self.is_no_work || NOT_WORK.contains(&name) => Work::None,
            () if self.is_whole_graph => Work::WholeGraph,
            () if starts([b"memcpy", b"copy"]) => Work::Op(OpKind::Copy),
            () if starts([b"memset", b"fill"]) => Work::Op(OpKind::Set),
            () => Work::Op(OpKind::Kernel),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Op(OpKind),
    WholeGraph,
    None,
}

impl<'a> Site<'a> {
    fn or(self, other: &Self) -> Self {
        let text = |own: &'a [u8], other: &'a [u8]| if own.is_empty() { other } else { own };
        Self {
            hlo_op: text(self.hlo_op, other.hlo_op),
            hlo_module: text(self.hlo_module, other.hlo_module),
            path: text(self.path, other.path),
            tf_op: text(self.tf_op, other.tf_op),
            annotation: text(self.annotation, other.annotation),
            category: text(self.category, other.category),
        }
    }

    /// The op of the program in words: `jit(step)/dot_general (gemm_fusion_dot.1)`, or `jit_step/loop_add_fusion` if XLA alone knows
    /// it; `None` if nothing is known. `text` takes the escapes of the file off.
    fn annotation(&self, text: &dyn Fn(&[u8]) -> Cow<'_, str>) -> Option<String> {
        let [hlo_op, module, path] = [self.hlo_op, self.hlo_module, self.path].map(|raw| text(raw).into_owned());
        let tf_op = text(self.tf_op).into_owned();
        // XLA writes the module as the op of what TensorFlow did not name.
        let tf_op = Some(tf_op).filter(|op| !op.starts_with("XlaModule:")).unwrap_or_default();
        let annotation = text(self.annotation).split('#').next().unwrap_or_default().to_owned();
        let named = [path, tf_op, annotation].into_iter().find(|name| !name.is_empty());
        match (named, hlo_op.is_empty()) {
            (Some(named), true) => Some(named),
            (Some(named), false) => Some(format!("{named} ({hlo_op})")),
            (None, false) if module.is_empty() => Some(hlo_op),
            (None, false) => Some(format!("{module}/{hlo_op}")),
            (None, true) => Some(text(self.category).into_owned()).filter(|category| !category.is_empty()),
        }
    }
}

/// Longer texts of stats and notes are cut: many events may share one.
const MAX_SITE_BYTES: usize = 4 << 10;

/// The texts of a [`Site`], shared with other sites.
type SiteKey = [Arc<[u8]>; 6];

/// Adds ops with what their stats say. A program has few call sites, so each becomes one note.
#[derive(Debug, Default)]
struct OpWriter {
    notes: HashMap<SiteKey, Option<u32>, RandomState>,
    /// The texts of all sites.
    texts: HashSet<Arc<[u8]>, RandomState>,
    /// The note of the op before, which often has the same site.
    last: Option<(SiteKey, Option<u32>)>,
}

impl OpWriter {
    /// Adds a kernel, copy or set.
    fn op(builder: &mut TraceBuilder, op: GpuOp, stats: &Stats<'_>, note: Option<u32>) {
        builder.trace.gpu_ops.push(op, stats.correlation);
        if let Some(bytes) = stats.copy.or(stats.set).and_then(|details| Details(details).bytes()) {
            builder.set_bytes_of_last_op(bytes);
        }
        if let Some(config) = stats.kernel.and_then(|details| Details(details).launch_config()) {
            builder.set_launch_config_of_last_op(config);
        }
        note.into_iter().for_each(|note| builder.set_note_of_last_op(note));
    }

    fn whole_graph(builder: &mut TraceBuilder, op: &GpuOp, stats: &Stats<'_>) {
        let GpuOp { start, duration, device, process, .. } = *op;
        let replay = GraphReplay { start, duration, device, process, graph: stats.graph, launch: None };
        builder.add_graph_replay(replay, stats.correlation);
    }

    /// The note of a call site. `text` takes the escapes of the file off.
    fn note(
        &mut self,
        builder: &mut TraceBuilder,
        site: &Site<'_>,
        text: &dyn Fn(&[u8]) -> Cow<'_, str>,
    ) -> Option<u32> {
        let texts = [site.hlo_op, site.hlo_module, site.path, site.tf_op, site.annotation, site.category];
        if texts.iter().all(|text| text.is_empty()) {
            return None;
        }
        if let Some((last, note)) = &self.last
            && last.iter().zip(texts).all(|(known, text)| **known == *text)
        {
            return *note;
        }
        let key: SiteKey = texts.map(|text| self.shared(text));
        let note = *self.notes.entry(key.clone()).or_insert_with(|| {
            let mut annotation = site.annotation(text)?;
            annotation.truncate(annotation.floor_char_boundary(MAX_SITE_BYTES));
            Some(builder.trace.node_notes.add_note(NodeNote { annotation, ..NodeNote::default() }))
        });
        self.last = Some((key, note));
        note
    }

    fn shared(&mut self, text: &[u8]) -> Arc<[u8]> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<[u8]> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }
}

/// The name of an op as other profilers write it.
fn op_name<'a>(name: &'a str, copy: Option<&[u8]>) -> Cow<'a, str> {
    let Some(details) = copy else { return kernel_name(name).into() };
    let known = Details(details).copy_name().or_else(|| copy_by_direction(name));
    known.map_or(Cow::Borrowed(name), Cow::Owned)
}

/// What a line of a plane of a GPU or TPU has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeviceLine {
    /// The ops of a stream, by its number.
    Stream(i64),
    /// The ops of a TPU core, of which some contain others.
    TpuOps,
    /// Ranges that the profiler derived from ops, overhead, counters.
    Other,
}

/// The device that a plane describes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Plane {
    Gpu(String),
    Tpu(String),
    /// Threads of the host, or API calls.
    Host,
    Other,
}

impl Plane {
    fn named(name: &str) -> Self {
        if let Some(number) = name.strip_prefix("/device:GPU:") {
            Self::Gpu(number.to_owned())
        } else if let Some(number) = name.strip_prefix("/device:TPU:").filter(|number| !number.contains("SparseCore")) {
            Self::Tpu(number.to_owned())
        } else if name.starts_with("/host:") && name != "/host:metadata" {
            Self::Host
        } else {
            Self::Other
        }
    }

    /// The id of the device in reports.
    fn device_id(&self) -> String {
        match self {
            Self::Gpu(number) => number.clone(),
            Self::Tpu(number) => format!("TPU {number}"),
            Self::Host | Self::Other => String::new(),
        }
    }

    /// What the line of this name has.
    fn line(&self, name: &str) -> DeviceLine {
        match self {
            // `Stream #13(Kernel,MemcpyD2D)`.
            Self::Gpu(_) => name.strip_prefix("Stream #").map_or(DeviceLine::Other, |rest| {
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                DeviceLine::Stream(rest.get(..digits).and_then(|digits| digits.parse().ok()).unwrap_or(-1))
            }),
            Self::Tpu(_) if name == "XLA Ops" => DeviceLine::TpuOps,
            _ => DeviceLine::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_an_op_follows_from_its_details_and_only_then_from_its_name() {
        let none = Stats::default();
        let kernel = Stats { kernel: Some(b""), ..none };
        assert_eq!(kernel.work(b"copy_fusion"), Work::Op(OpKind::Kernel));
        assert_eq!(Stats { copy: Some(b""), is_no_work: true, ..none }.work(b"x"), Work::Op(OpKind::Copy));
        assert_eq!(Stats { is_no_work: true, ..none }.work(b"x"), Work::None);
        assert_eq!(Stats { is_whole_graph: true, ..none }.work(b"CudaGraph"), Work::WholeGraph);
        for (name, work) in [
            ("MemcpyD2D", Work::Op(OpKind::Copy)),
            ("CopyHostToDevice", Work::Op(OpKind::Copy)),
            ("Memset", Work::Op(OpKind::Set)),
            ("FillBuffer", Work::Op(OpKind::Set)),
            ("MemoryResidency", Work::None),
            ("gemm", Work::Op(OpKind::Kernel)),
        ] {
            assert_eq!(none.work(name.as_bytes()), work, "{name}");
        }
    }

    #[test]
    fn planes_and_lines_are_told_by_their_names() {
        let gpu = Plane::named("/device:GPU:3");
        assert_eq!((gpu.device_id().as_str(), gpu.line("Stream #13(Kernel,Memset)")), ("3", DeviceLine::Stream(13)));
        for derived in ["XLA Ops", "XLA Modules", "Steps", "CUPTI overhead", "TensorFlow Ops", "_counters_"] {
            assert_eq!(gpu.line(derived), DeviceLine::Other, "{derived}");
        }
        let tpu = Plane::named("/device:TPU:0");
        assert_eq!((tpu.device_id().as_str(), tpu.line("XLA Ops")), ("TPU 0", DeviceLine::TpuOps));
        assert_eq!(tpu.line("Async XLA Ops"), DeviceLine::Other);
        assert_eq!(Plane::named("/host:CPU"), Plane::Host);
        for other in
            ["/host:metadata", "/device:TPU:0 SparseCore 1", "/device:CUSTOM:Megascale Trace", "Task Environment"]
        {
            assert_eq!(Plane::named(other), Plane::Other, "{other}");
        }
    }

    #[test]
    fn a_call_site_is_named_by_the_program_before_xla() {
        let text: &dyn Fn(&[u8]) -> Cow<'_, str> = &|raw| Cow::Owned(String::from_utf8_lossy(raw).into_owned());
        let site = Site { hlo_op: b"dot.1", hlo_module: b"jit_step", tf_op: b"XlaModule:", ..Site::default() };
        assert_eq!(site.annotation(text).unwrap(), "jit_step/dot.1");
        assert_eq!(Site { path: b"jit(step)/dot", ..site }.annotation(text).unwrap(), "jit(step)/dot (dot.1)");
        let tensorflow = Site { annotation: b"layer_5/dropout:Cast#edge=a#", ..Site::default() };
        assert_eq!(tensorflow.annotation(text).unwrap(), "layer_5/dropout:Cast");
        assert_eq!(Site { category: b"fusion", ..Site::default() }.annotation(text).unwrap(), "fusion");
        assert_eq!(Site::default().annotation(text), None);
    }

    #[test]
    fn the_marks_of_amd_symbols_are_no_part_of_a_name() {
        assert_eq!(["a.kd", "void k<1>() [clone .kd]", "b", ".kd"].map(kernel_name), ["a", "void k<1>()", "b", ".kd"]);
    }
}
