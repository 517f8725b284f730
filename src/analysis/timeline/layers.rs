//! The bars of the layers of the model: a row of layers, and below each layer the roles of its kernels. If the program annotated
//! the graph nodes of the kernels of a bar, the bar has the name that they share.

use super::table_row::TableRow;
use super::{Style, Timeline};
use crate::analysis::inference::fold::label;
use crate::analysis::inference::layer_spans::{LayerSpan, layer_spans};
use crate::analysis::inference::model_words::{role_category, role_words};
use crate::ordering;
use crate::trace::{DeviceId, Ns, Trace};
use crate::words::timeline as words;

/// No layers are searched in traces with more ops, because the timeline would open late.
const MAX_OPS: usize = 300_000;

/// A layer, or a role in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LayerBar {
    pub(super) start: Ns,
    pub(super) end: Ns,
    pub(super) device: DeviceId,
    /// 0 for a layer, 1 for a role.
    pub(super) depth: u8,
    /// `layer 12 B`, `attention`.
    pub(super) label: String,
    /// Its full name: `Layer 12 of 48, kind B`, `Attention in layer 12 of 48`.
    pub(super) name: String,
    pub(super) style: Style,
    pub(super) kernels: usize,
    /// The place of its layer in the step, from 0 as in the section `layer_list`.
    number: usize,
    /// The bars that it is compared with: the same kind and role.
    pub(super) group: (usize, String),
}

impl LayerBar {
    /// Its row in the tables of layers.
    pub(super) fn table_row(&self, stage: &str) -> TableRow {
        let (kind, role) = &self.group;
        let mut row = TableRow::new("layer_list", "Layers over a step", "layer", self.number);
        if !role.is_empty() {
            row = TableRow::new("layer_roles", "Parts of a layer", "role", role);
            row.cells.push(("kind", label(*kind).to_owned()));
        }
        row.cells.push(("stage", stage.to_owned()));
        row
    }

    /// Whether this is a layer of this kind or with this number, or a role in layers of a kind: `A`, `12`, `A attention`.
    pub(super) fn is_chosen_by(&self, text: &str) -> bool {
        let (kind, role) = &self.group;
        let (of, wanted_role) = text.split_once(' ').unwrap_or((text, ""));
        role == wanted_role && (of == label(*kind) || (role.is_empty() && of.parse() == Ok(self.number)))
    }
}

/// The bars, sorted by start, and whether the trace has too many ops to search for layers.
pub(super) fn layer_bars(trace: &Trace, categories: &[String]) -> (Vec<LayerBar>, bool) {
    if trace.gpu_ops.len() > MAX_OPS {
        return (Vec::new(), true);
    }
    let mut bars: Vec<LayerBar> = layer_spans(trace).iter().flat_map(|span| bars_of(span, categories)).collect();
    bars.iter_mut().for_each(|bar| name_by_annotation(bar, trace));
    ordering::sort_by_key(&mut bars, |bar| (bar.start, bar.depth));
    (bars, false)
}

fn bars_of(span: &LayerSpan, categories: &[String]) -> Vec<LayerBar> {
    let letter = label(span.kind);
    let number = span.number.saturating_sub(1);
    let named = words::Layer { number, last: span.layers.saturating_sub(1), kind: (span.kinds > 1).then_some(letter) };
    let layer = LayerBar {
        start: span.start,
        end: span.end,
        device: span.device,
        depth: 0,
        label: named.label(),
        name: named.name(),
        style: Style::Layer,
        kernels: span.roles.iter().map(|role| role.kernels).sum(),
        number,
        group: (span.kind, String::new()),
    };
    let roles = span.roles.iter().map(|role| {
        let role_words = role_words(&role.role);
        let category = categories.iter().position(|known| known == role_category(&role.role));
        LayerBar {
            start: role.start,
            end: role.end,
            device: span.device,
            depth: 1,
            name: named.part(&role_words),
            label: role_words,
            style: category.map_or(Style::Layer, Style::Category),
            kernels: role.kernels,
            number,
            group: (span.kind, role.role.clone()),
        }
    });
    std::iter::once(layer.clone()).chain(roles).collect()
}

fn name_by_annotation(bar: &mut LayerBar, trace: &Trace) {
    let ops = &trace.gpu_ops;
    let rows = ops.count_starting_before(bar.start)..ops.count_starting_before(bar.end);
    let on_device = |row: usize| ops.get(row).is_some_and(|op| op.device == bar.device);
    let notes = trace.node_notes.between(rows).filter(|(row, note)| on_device(*row) && !note.annotation.is_empty());
    if let Some(annotation) = shared_name(notes.map(|(_, note)| note.annotation.as_str())) {
        bar.name = words::annotated(&bar.name, annotation);
        annotation.clone_into(&mut bar.label);
    }
}

/// The name that all annotations are or are in: `layers.7` of `layers.7.attention` and `layers.7.mlp`. A part that they share has
/// a number, because `layers` names no layer.
pub(super) fn shared_name<'a>(mut annotations: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let first = annotations.next()?;
    let shared = annotations.try_fold(first, shared_part)?;
    (shared == first || shared.contains(|char: char| char.is_ascii_digit())).then_some(shared)
}

/// The longest beginning of both names that ends at a dot, a slash or their end.
fn shared_part<'a>(first: &'a str, second: &str) -> Option<&'a str> {
    const SEPARATORS: [char; 2] = ['.', '/'];
    let ends = first.match_indices(SEPARATORS).map(|(at, _)| at).chain([first.len()]);
    let mut parts = ends.filter_map(|end| first.get(..end));
    let is_in_second =
        |part: &&str| second.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with(SEPARATORS));
    parts.rfind(is_in_second).filter(|part| !part.is_empty())
}

impl Timeline {
    /// The label of a bar of layers; empty if there is no such bar.
    pub fn layer_label(&self, row: usize) -> &str {
        self.layers.get(row).map_or("", |bar| bar.label.as_str())
    }

    /// The median length of the bars like this one, and their number.
    pub(super) fn median_of_layers(&self, bar: &LayerBar) -> (Option<Ns>, usize) {
        let alike = self.layers.iter().filter(|other| (other.depth, &other.group) == (bar.depth, &bar.group));
        let mut lengths: Vec<Ns> = alike.map(|other| other.end.since(other.start)).collect();
        lengths.sort_unstable();
        (lengths.get(lengths.len().saturating_sub(1) / 2).copied(), lengths.len())
    }
}
