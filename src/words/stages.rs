//! The stages of serving as sentences name them, from their labels in tables.

/// A stage in a sentence: `prefill`; empty if it is not known, such as that of `ProfilerStep#6`.
pub(crate) fn stage(label: &str) -> &str {
    match label {
        "extend/prefill" => "prefill",
        "all" => "",
        other => other,
    }
}

/// A step of a stage in a sentence: `prefill step`, or `step` if the stage is not known.
pub(crate) fn step(label: &str) -> String {
    match stage(label) {
        "" => "step".to_owned(),
        stage => format!("{stage} step"),
    }
}

/// The beginning of a sentence about a stage: `Prefill: `; empty if the stage is not known.
pub(crate) fn heading(label: &str) -> String {
    match stage(label) {
        "" => String::new(),
        stage => format!("{}: ", super::capitalize(stage.to_owned())),
    }
}

/// The same within a sentence: `prefill: `.
pub(crate) fn heading_within(label: &str) -> String {
    match stage(label) {
        "" => String::new(),
        stage => format!("{stage}: "),
    }
}

/// The beginning of a sentence about one of several stages, also of one that is not known.
pub(crate) fn heading_alone(label: &str) -> String {
    format!("{}: ", super::capitalize(stage(label).to_owned()))
}
