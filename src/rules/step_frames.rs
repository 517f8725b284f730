//! The Python functions of serving engines that run one step (`patterns/step_frames.json`). A name costs one comparison of
//! its end for each function of the list.

use crate::json::{self, embedded, from_json};
use std::sync::LazyLock;

#[derive(Debug)]
struct StepFrame {
    file: String,
    function: String,
}
from_json!(strict StepFrame { file, function });

#[derive(Debug)]
struct StepFrames {
    frames: Vec<StepFrame>,
}
from_json!(StepFrames { frames });

static FRAMES: LazyLock<StepFrames> =
    LazyLock::new(|| embedded(json::read(include_str!("../../patterns/step_frames.json"))));

impl StepFrame {
    /// `name` is `PATH/FILE(LINE): FUNCTION`.
    fn matches(&self, name: &[u8]) -> bool {
        let before = name.strip_suffix(self.function.as_bytes()).and_then(|rest| rest.strip_suffix(b"): "));
        let before = before.map(without_line).and_then(|rest| rest.strip_suffix(b"("));
        let folder = before.and_then(|rest| rest.strip_suffix(self.file.as_bytes()));
        folder.is_some_and(|folder| folder.last().is_none_or(|byte| *byte == b'/' || *byte == b'\\'))
    }
}

fn without_line(text: &[u8]) -> &[u8] {
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    text.get(..text.len() - digits).unwrap_or_default()
}

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
