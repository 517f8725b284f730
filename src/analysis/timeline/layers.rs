//! The bars of the layers of the model: a row of layers, and below each layer the roles of its kernels.

use super::{Style, Timeline};
use crate::analysis::inference::layer_spans::{LayerSpan, layer_spans};
use crate::analysis::inference::model_words::{role_category, role_words};
use crate::ordering;
use crate::trace::{DeviceId, Ns, Trace};

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
    /// The bars that it is compared with: the same kind and role.
    pub(super) group: (usize, String),
}

/// The bars, sorted by start, and whether the trace has too many ops to search for layers.
pub(super) fn layer_bars(trace: &Trace, categories: &[String]) -> (Vec<LayerBar>, bool) {
    if trace.gpu_ops.len() > MAX_OPS {
        return (Vec::new(), true);
    }
    let mut bars: Vec<LayerBar> = layer_spans(trace).iter().flat_map(|span| bars_of(span, categories)).collect();
    ordering::sort_by_key(&mut bars, |bar| (bar.start, bar.depth));
    (bars, false)
}

fn bars_of(span: &LayerSpan, categories: &[String]) -> Vec<LayerBar> {
    let letter = ["A", "B", "C"].get(span.kind).copied().unwrap_or("?");
    let several = span.kinds > 1;
    let place = format!("layer {} of {}", span.number, span.layers);
    let layer = LayerBar {
        start: span.start,
        end: span.end,
        device: span.device,
        depth: 0,
        label: if several { format!("layer {} {letter}", span.number) } else { format!("layer {}", span.number) },
        name: if several { format!("{place}, kind {letter}") } else { place.clone() },
        style: Style::Layer,
        kernels: span.roles.iter().map(|role| role.kernels).sum(),
        group: (span.kind, String::new()),
    };
    let roles = span.roles.iter().map(|role| {
        let words = role_words(&role.role);
        let category = categories.iter().position(|known| known == role_category(&role.role));
        LayerBar {
            start: role.start,
            end: role.end,
            device: span.device,
            depth: 1,
            name: format!("{words} in {place}"),
            label: words,
            style: category.map_or(Style::Layer, Style::Category),
            kernels: role.kernels,
            group: (span.kind, role.role.clone()),
        }
    });
    std::iter::once(layer.clone()).chain(roles).collect()
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
