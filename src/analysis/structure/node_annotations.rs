//! Kernel time by the annotation of each kernel. Only for traces that have annotations: PyTorch's exporters write what
//! `mark_kernels` recorded at the nodes of a graph during its capture, Proton the scopes that were open at a launch. One pass over
//! the kernels, O(n).

use crate::analysis::context::Context;
use crate::analysis::measure::tally::Tally;
use crate::analysis::section::{Answer, Ms, Pct, TypedSection, Us, section};
use crate::ordering;
use crate::trace::{Format, Ns, OpKind, Profiler};
use std::cmp::Reverse;
use std::collections::HashMap;

section! {
    /// Kernel time by annotation. The title depends on what wrote the annotations.
    pub(crate) struct GraphAnnotations("graph_annotations", "Kernel time by annotation in CUDA graphs");
    row GraphAnnotationRow {
        range_name: String = "Range",
        kernel_count: u64,
        total_kernel_time_ns: Ns = "Kernel time",
        total_kernel_time_ms: Ms = "Kernel time",
        avg_kernel_duration_us: Us = "Mean",
        pct_of_total_kernel_time: Pct = "Of summed kernel time",
    }
    figures GraphAnnotationFigures {
        mapped_kernel_count: u64,
        mapped_kernel_time_ns: Ns,
        coverage_pct: Pct,
        moved_ops: u64,
    }
}

const MAX_ROWS: usize = 500;

/// One row per annotation; `None` if no op has a note.
pub(crate) fn graph_annotations(context: &Context) -> Option<Answer<GraphAnnotations>> {
    let trace = context.trace;
    if trace.node_notes.is_empty() {
        return None;
    }
    let (mut by_annotation, mut all, mut inside, mut moved) =
        (HashMap::<&str, Tally>::new(), Tally::default(), Tally::default(), 0_u64);
    for (row, op) in trace.gpu_ops.iter().enumerate() {
        let note = trace.node_notes.of_row(row);
        moved += u64::from(note.is_some_and(|note| note.original_stream.is_some()));
        if op.kind != OpKind::Kernel {
            continue;
        }
        all.add(op.duration);
        if let Some(note) = note.filter(|note| !note.annotation.is_empty()) {
            inside.add(op.duration);
            by_annotation.entry(&note.annotation).or_default().add(op.duration);
        }
    }
    let [title, source, limit] = words(trace.format);
    let mut answer = GraphAnnotations::answer(source).limit(limit).with_figures(GraphAnnotationFigures {
        mapped_kernel_count: inside.count,
        mapped_kernel_time_ns: inside.total,
        coverage_pct: Pct::of(inside.total, all.total),
        moved_ops: moved,
    });
    answer.title = title;
    if moved > 0 {
        answer = answer.limit("The exporter moved ops to the lanes that the program chose: lanes are not the streams on which they ran. A bar of the timeline has its stream.");
    }
    let mut ranked: Vec<(&str, Tally)> = by_annotation.into_iter().collect();
    ordering::sort_by_key(&mut ranked, |(name, tally)| (Reverse(tally.total), *name));
    answer.rows_in_all = ranked.len() as u64;
    Some(answer.with_rows(ranked.into_iter().take(MAX_ROWS).map(|(name, tally)| GraphAnnotationRow {
        range_name: name.to_owned(),
        kernel_count: tally.count,
        total_kernel_time_ns: tally.total,
        total_kernel_time_ms: tally.total.into(),
        avg_kernel_duration_us: tally.mean(),
        pct_of_total_kernel_time: Pct::of(tally.total, all.total),
    })))
}

/// The title, the source and the meaning of a row.
fn words(format: Format) -> [&'static str; 3] {
    if format.profiler() == Profiler::Xla {
        [
            "Kernel time by op of the program",
            "the ops of JAX or TensorFlow, and of XLA's HLO, that the profiler recorded with each kernel",
            "A row is an op as the program calls it, with the HLO op in brackets, or `module/op` if XLA alone made it.",
        ]
    } else if format.profiler() == Profiler::Proton {
        [
            "Kernel time by scope",
            "the scopes and Python frames that Proton recorded at each launch",
            "A row has all scopes that were open when a kernel was launched, outermost first.",
        ]
    } else {
        [
            "Kernel time by annotation in CUDA graphs",
            "what the program wrote at the nodes of its graphs",
            "A kernel has the innermost annotation that was open when its graph was captured.",
        ]
    }
}
