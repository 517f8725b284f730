//! One trace as the triage sees it: of every GPU op what it is, in which stage it ran, which code launched it.

use super::call_sites::CallSites;
use super::serving::{Framework, ServerArgs};
use super::times::Times;
use crate::analysis::context::Context;
use crate::analysis::structure::stages;
use crate::analysis::structure::stages::Stage;
use crate::analysis::triage::{Options, Request, serving};
use crate::ordering::VecMap;
use crate::rules::{RuleBook, names};
use crate::trace::{DeviceId, GpuOp, NameId, OpKind, Trace};
use std::cell::OnceCell;

/// See the module's head.
#[derive(Debug)]
pub struct View<'a> {
    /// What is triaged.
    pub trace: &'a Trace,
    /// What the names of kernels and calls mean.
    pub context: Context<'a>,
    /// Every distinct op name, by its id.
    pub names: Vec<KernelName>,
    /// The stage of every op, in the order of the trace's ops; `None` for ops that are left out (another device than the
    /// person asked for).
    pub stages: Vec<Option<Stage>>,
    /// The stage that the names of the file and its folders tell.
    pub file_stage: Stage,
    /// The code that launched every op.
    pub call_sites: CallSites,
    /// True where traces beside this one tell where kernels come from.
    pub has_mapping: bool,
    /// The serving framework.
    pub framework: Framework,
    /// `server_args.json`.
    pub server: &'a ServerArgs,
    /// What the person chose.
    pub options: &'a Options,
    times: OnceCell<Times>,
}

/// What is known of an op by its name alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelName {
    /// Without addresses and, of a `void` kernel, without its arguments; template arguments stay. Rows go by it.
    pub canonical: String,
    /// By gpuprism's own rules: `gemm`, `communication`, ...
    pub category: String,
}

impl<'a> View<'a> {
    /// Looks at every op once.
    pub fn new(request: &Request<'a>) -> Self {
        let trace = request.trace;
        let kept = kept(trace, request.options);
        let framework = serving::framework(request);
        let stages = stages::of_ops(trace, request.file_stage);
        let stages: Vec<_> = stages.into_iter().zip(kept).map(|(stage, kept)| kept.then_some(stage)).collect();
        let names = kernel_names(trace);
        let call_sites = CallSites::new(trace, &names, &stages, request.mapping);
        Self {
            trace,
            context: Context::new(trace, 0),
            names,
            stages,
            file_stage: request.file_stage,
            call_sites,
            has_mapping: !request.mapping.is_empty(),
            framework,
            server: request.server,
            options: request.options,
            times: OnceCell::new(),
        }
    }

    /// The ops that are looked at, with their place in the trace and their stage.
    pub fn ops(&self) -> impl Iterator<Item = (usize, Stage, GpuOp)> + '_ {
        let ops = self.trace.gpu_ops.iter().zip(&self.stages).enumerate();
        ops.filter_map(|(at, (op, stage))| Some((at, (*stage)?, op)))
    }

    /// What is known of this name.
    pub fn name(&self, id: NameId) -> Option<&KernelName> {
        self.names.get(id.0 as usize)
    }

    /// How long the stages take.
    pub(super) fn times(&self) -> &Times {
        self.times.get_or_init(|| Times::new(self))
    }

    /// The ops of every stream of every device, in the order in which they began: place in the trace and stage. What has
    /// no stream has no order.
    pub(super) fn streams(&self) -> Vec<Vec<(u32, Stage)>> {
        let mut streams: VecMap<(DeviceId, i64), Vec<(u32, Stage)>> = VecMap::new();
        for (at, stage, op) in self.ops().filter(|(.., op)| op.stream >= 0) {
            let op_at = (u32::try_from(at).unwrap_or(u32::MAX), stage);
            streams.update((op.device, op.stream), Vec::new(), |stream| stream.push(op_at));
        }
        streams.0.into_iter().map(|(_, stream)| stream).collect()
    }
}

fn kept(trace: &Trace, options: &Options) -> Vec<bool> {
    let wanted = |op: GpuOp| match &options.pid_substring {
        None => true,
        Some(text) => trace.devices.get(op.device.0 as usize).is_some_and(|device| device.id.contains(text)),
    };
    trace.gpu_ops.iter().map(wanted).collect()
}

fn kernel_names(trace: &Trace) -> Vec<KernelName> {
    let rules = RuleBook::gpuprism_default();
    let mut kinds = vec![OpKind::Kernel; trace.names.len()];
    for op in trace.gpu_ops.iter() {
        if let Some(kind) = kinds.get_mut(op.name.0 as usize) {
            *kind = op.kind;
        }
    }
    let name = |(raw, kind): (&str, OpKind)| KernelName {
        canonical: super::frames::canonical(raw),
        category: match (kind, rules) {
            (OpKind::Kernel, Some(rules)) => rules.category(raw, &names::demangle(raw)).to_owned(),
            _ => "memory".to_owned(),
        },
    };
    trace.names.iter().zip(kinds).map(name).collect()
}
