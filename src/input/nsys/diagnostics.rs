//! What nsys wrote about a capture without GPU ops: the warnings and errors in `DIAGNOSTIC_EVENT`. One pass; a few
//! short texts are kept.

use super::Import;
use super::schema::DIAGNOSTICS;
use crate::trace::Trace;

/// Numbers of warnings and errors in `ENUM_DIAGNOSTIC_SEVERITY_LEVEL`.
const SEVERE: &[i64] = &[2, 3];
const MAX_TEXTS: usize = 6;
const MAX_CHARS: usize = 200;

/// Adds the beginning of a text, unless it is known or there are enough.
pub(in crate::input) fn add(texts: &mut Vec<String>, text: &str) {
    let text: String = text.trim().chars().take(MAX_CHARS).collect();
    if texts.len() < MAX_TEXTS && !text.is_empty() && !texts.contains(&text) {
        texts.push(text);
    }
}

/// Reads the texts if the trace has no GPU op: then they may say why.
pub(super) fn read(import: &mut Import<'_>) {
    let Trace { gpu_ops, graph_replays, .. } = &import.builder.trace;
    let Some(table) = import.schema.find(&DIAGNOSTICS).filter(|_| gpu_ops.is_empty() && graph_replays.is_empty())
    else {
        return;
    };
    let mut texts: Vec<String> = Vec::new();
    let read = import.scanner.scan(table, &[&["severity"], &["text"]], &mut |cells| {
        let Some(text) = cells.text(1).filter(|_| cells.int(0).is_some_and(|level| SEVERE.contains(&level))) else {
            return;
        };
        add(&mut texts, &text);
    });
    import.count_damage(read);
    import.builder.trace.diagnostics = texts;
}
