//! The canonical name, stage and call site of every GPU op of one trace, computed once in linear time from the trace and
//! its mapping traces. All tables of the triage read them from here.

use super::call_sites::CallSites;
use super::kernel_names::{KernelName, kernel_names};
use super::serving::{Framework, ServerArgs};
use super::times::Times;
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::inference::passes::stages_of_ops;
use crate::analysis::structure::stages::Stage;
use crate::analysis::time::attribution::share_out_to_cells;
use crate::analysis::triage::{Options, Request, serving};
use crate::ordering::VecMap;
use crate::trace::{DeviceId, GpuOp, NameId, Ns, Trace};
use std::cell::OnceCell;

/// A trace with the resolved name, stage and call site of every op.
#[derive(Debug)]
pub struct View<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// The meanings of kernel and call names.
    pub context: ClassifiedTrace<'a>,
    /// All distinct op names, indexed by [`NameId`].
    pub names: Vec<KernelName>,
    /// The stage of every op, parallel to the trace's ops; `None` for ops on devices that the options exclude.
    pub stages: Vec<Option<Stage>>,
    /// The stage that the names of the file and its folders state.
    pub file_stage: Stage,
    /// The call site of every op.
    pub call_sites: CallSites,
    /// Whether the request has mapping traces.
    pub has_mapping: bool,
    /// The serving framework.
    pub framework: Framework,
    /// The content of `server_args.json`.
    pub server: &'a ServerArgs,
    /// The options of the request.
    pub options: &'a Options,
    times: OnceCell<Times>,
    /// See [`View::elapsed`]; parallel to the trace's ops.
    elapsed_ns: OnceCell<Vec<i64>>,
}

impl<'a> View<'a> {
    /// Resolves every op of the trace.
    pub fn new(request: &Request<'a>) -> Self {
        let trace = request.trace;
        let is_selected: Vec<bool> = trace.devices.iter().map(|device| request.options.selects(&device.id)).collect();
        let framework = serving::framework(request);
        let stages = stages_of_ops(trace, request.file_stage).into_iter().zip(trace.gpu_ops.iter());
        let stages: Vec<Option<Stage>> =
            stages.map(|(stage, op)| is_selected.get(op.device.0 as usize)?.then_some(stage)).collect();
        let names = kernel_names(trace);
        let call_sites = CallSites::new(trace, &names, &stages, request.mapping);
        Self {
            trace,
            context: ClassifiedTrace::new(trace),
            names,
            stages,
            file_stage: request.file_stage,
            call_sites,
            has_mapping: !request.mapping.is_empty() || !request.trace.captured_graphs.rows.is_empty(),
            framework,
            server: request.server,
            options: request.options,
            times: OnceCell::new(),
            elapsed_ns: OnceCell::new(),
        }
    }

    /// The ops on selected devices, each with its index in the trace and its stage.
    pub fn ops(&self) -> impl Iterator<Item = (usize, Stage, GpuOp)> + '_ {
        let ops = self.trace.gpu_ops.iter().zip(&self.stages).enumerate();
        ops.filter_map(|(index, (op, stage))| Some((index, (*stage)?, op)))
    }

    /// The properties of a name.
    pub fn name(&self, id: NameId) -> Option<&KernelName> {
        self.names.get(id.0 as usize)
    }

    /// The times of all stages, computed at the first call.
    pub(super) fn times(&self) -> &Times {
        self.times.get_or_init(|| Times::new(self.ops().map(|(index, stage, op)| (stage, op, self.elapsed(index)))))
    }

    /// The busy time of an op, by its index in the trace. Ops that run at the same time on a device share it evenly, as in
    /// the report, so that the ops of a device add up to its busy time. Zero for an index past the last op.
    pub(super) fn elapsed(&self, op: usize) -> Ns {
        let elapsed_ns = self.elapsed_ns.get_or_init(|| {
            let (cell_of_op, names) =
                (0_u32..).zip(self.trace.gpu_ops.iter().map(|op| op.name.0)).unzip::<_, _, Vec<u32>, Vec<u32>>();
            share_out_to_cells(self.trace, false, &cell_of_op, &names).fair_ns
        });
        Ns(elapsed_ns.get(op).copied().unwrap_or_default())
    }

    /// The index and stage of the ops of every stream, one list per device and stream, in order of start. Ops without a
    /// stream are left out, because they have no order.
    pub(super) fn streams(&self) -> Vec<Vec<(u32, Stage)>> {
        let mut streams: VecMap<(DeviceId, i64), Vec<(u32, Stage)>> = VecMap::new();
        for (index, stage, op) in self.ops().filter(|(.., op)| op.stream >= 0) {
            let op_index = u32::try_from(index).unwrap_or(u32::MAX);
            streams.update((op.device, op.stream), Vec::new(), |stream| stream.push((op_index, stage)));
        }
        streams.into_vec().into_iter().map(|(_, stream)| stream).collect()
    }
}
