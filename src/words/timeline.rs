//! The timeline: names of its bars, and figures of one bar in detail. From names, numbers and sizes.

use super::{capitalize, or_nothing};

/// A layer of a model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layer<'a> {
    /// From 0.
    pub(crate) number: usize,
    /// The number of the last layer.
    pub(crate) last: usize,
    /// The letter of its kind, if the model has several kinds.
    pub(crate) kind: Option<&'a str>,
}

impl Layer<'_> {
    /// `layer 3`, or `layer 3 A`: the text on its bar.
    pub(crate) fn label(self) -> String {
        format!("layer {}{}", self.number, or_nothing(self.kind, |kind| format!(" {kind}")))
    }

    /// `layer 3 of 0 to 31`, or `layer 3 of 0 to 31, kind A`.
    pub(crate) fn name(self) -> String {
        self.place() + &or_nothing(self.kind, |kind| format!(", kind {kind}"))
    }

    /// `attention in layer 3 of 0 to 31`
    pub(crate) fn part(self, role: &str) -> String {
        format!("{role} in {}", self.place())
    }

    fn place(self) -> String {
        format!("layer {} of 0 to {}", self.number, self.last)
    }
}

/// A bar with what the program wrote about it: `layer 3 of 0 to 31: layers.3`.
pub(crate) fn annotated(name: &str, annotation: &str) -> String {
    format!("{name}: {annotation}")
}

/// `Decode step`, or `Step` if the stage is not known.
pub(crate) fn step(stage: Option<&str>) -> String {
    stage.map_or_else(|| "Step".to_owned(), |stage| format!("{} step", capitalize(stage.to_owned())))
}

/// `idle: host late`, from the word of the cause.
pub(crate) fn idle(cause: &str) -> String {
    format!("idle: {}", cause.replace('_', " "))
}

/// The title of the code in a gap. `is_late`: the thread launched the next work late.
pub(crate) fn code_in_gap(is_late: bool) -> String {
    let when = if is_late { "before it launched the op after" } else { "meanwhile" };
    format!("What the launching thread ran {when}")
}

/// The name of a function or op below its callers: one mark for each of them.
pub(crate) fn called(name: &str, callers: usize) -> String {
    format!("{}{name}", "› ".repeat(callers))
}

/// A tensor among the arguments of an op: `BF16 [128, 4096]`.
pub(crate) fn tensor(element: &str, lengths: &[u64]) -> String {
    format!("{element} {lengths:?}")
}
