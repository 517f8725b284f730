//! Guesses which serving engine wrote a trace, from the names in it. See [`crate::rules::engines`].

use crate::rules::engines::{Engines, Evidence};
use crate::trace::Trace;

/// Returns the label of the engine, such as `SGLang`; `None` if no name identifies one.
pub(crate) fn engine(trace: &Trace) -> Option<String> {
    let engines = Engines::embedded();
    let mut guess = engines.guess();
    trace.engine_hints.python_frames.iter().for_each(|name| guess.add(Evidence::Frame, name.as_bytes()));
    trace.engine_hints.annotations.iter().for_each(|name| guess.add(Evidence::Annotation, name.as_bytes()));
    trace.names.iter().for_each(|name| guess.add(Evidence::Kernel, name.as_bytes()));
    guess.label().map(str::to_owned)
}
