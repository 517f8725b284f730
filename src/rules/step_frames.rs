//! Names that mark steps (`patterns/step_frames.json`): Python functions of serving engines that run one step, and words of numbered
//! ranges. A name costs one comparison of its end for each function, or of its beginning for each word.

use super::code_name::CodeName;
use crate::json::{self, embedded, from_json};
use std::sync::LazyLock;

#[derive(Debug)]
struct StepFrames {
    frames: Vec<CodeName>,
    numbered: Vec<String>,
}
from_json!(StepFrames { frames, numbered });

static FRAMES: LazyLock<StepFrames> =
    LazyLock::new(|| embedded(json::read(include_str!(concat!(env!("OUT_DIR"), "/step_frames.json")))));

/// Whether a Python frame of this name runs one step of a serving engine.
///
/// ```
/// use gpuprism::rules::is_step_frame;
/// assert!(is_step_frame(b"vllm/v1/worker/gpu_model_runner.py(2154): execute_model"));
/// assert!(!is_step_frame(b"vllm/v1/worker/gpu_model_runner.py(88): _prepare_inputs"));
/// assert!(!is_step_frame(b"my_scheduler.py(7): run_batch"));
/// ```
pub fn is_step_frame(name: &[u8]) -> bool {
    FRAMES.frames.iter().any(|frame| frame.matches(name))
}

/// Whether a range of this name is a numbered step: a word of the list, then a number, or a number of a total.
///
/// ```
/// use gpuprism::rules::is_numbered_step;
/// assert!(is_numbered_step("step 12") && is_numbered_step("Iteration#5/100") && is_numbered_step("[train_step 7]"));
/// assert!(!is_numbered_step("step") && !is_numbered_step("step 12 attention") && !is_numbered_step("layer 3"));
/// ```
pub fn is_numbered_step(name: &str) -> bool {
    const SEPARATORS: [char; 6] = [' ', '_', '#', ':', '=', '-'];
    let name = name.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(name);
    let without_number = |text: &str| {
        let rest = text.trim_end_matches(|last: char| last.is_ascii_digit());
        (rest.len() < text.len()).then_some(rest.len())
    };
    let end = without_number(name).and_then(|end| name.get(..end));
    let of_total = end.and_then(|rest| rest.strip_suffix('/')).and_then(|rest| rest.get(..without_number(rest)?));
    let word = of_total.or(end).map(|rest| rest.trim_end_matches(SEPARATORS));
    word.is_some_and(|word| FRAMES.numbered.iter().any(|known| known.eq_ignore_ascii_case(word)))
}
