//! Kernel time by the annotation of each kernel. Only for traces that have annotations: PyTorch's exporters write what
//! `mark_kernels` recorded at the nodes of a graph during its capture, Proton the scopes that were open at a launch. One pass over
//! the kernels, O(n).

use super::ranges::{KERNEL_TIME, kernel_time_row};
use crate::analysis::context::Context;
use crate::analysis::measure::tally::Tally;
use crate::analysis::section::{Section, Value};
use crate::ordering;
use crate::trace::{Format, OpKind};
use std::cmp::Reverse;
use std::collections::HashMap;

const MAX_ROWS: usize = 500;

/// One row per annotation; `None` if no op has a note.
pub(crate) fn graph_annotations(context: &Context) -> Option<Section> {
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
    let mut section = Section::new(title, source, &KERNEL_TIME).limit(limit);
    if moved > 0 {
        section = section.limit("The exporter moved ops to the lanes that the program chose: lanes are not the streams on which they ran. A bar of the timeline has its stream.");
    }
    section.figure("mapped_kernel_count", inside.count);
    section.figure("mapped_kernel_time_ns", inside.total);
    section.figure("coverage_pct", Value::pct(inside.total, all.total));
    section.figure("moved_ops", moved);
    let mut ranked: Vec<(&str, Tally)> = by_annotation.into_iter().collect();
    ordering::sort_by_key(&mut ranked, |(name, tally)| (Reverse(tally.total), *name));
    section.rows_in_all = ranked.len() as u64;
    for (name, tally) in ranked.into_iter().take(MAX_ROWS) {
        section.row(kernel_time_row(name, &tally, all.total));
    }
    Some(section)
}

/// The title, the source and the meaning of a row.
fn words(format: Format) -> [&'static str; 3] {
    if format == Format::ProtonTrace {
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
