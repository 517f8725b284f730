//! Guesses which serving engine wrote a trace, from substrings of the names in it (`patterns/engines.json`).
//!
//! Python frames are the strongest evidence, then annotations, then kernel names: engines share kernels, not source files.
//! A guess costs one substring search per word and name until it cannot improve.

use crate::json::{self, from_json};
use memchr::memmem::Finder;

/// The kind of name, weakest evidence first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// The name of a GPU kernel.
    Kernel,
    /// The name of a range that the engine annotated.
    Annotation,
    /// The name of a Python frame: `sglang/srt/managers/scheduler.py(812): event_loop_overlap`.
    Frame,
}

/// The known engines and the substrings that identify them.
#[derive(Debug)]
pub struct Engines {
    engines: Vec<Engine>,
}

#[derive(Debug)]
struct Engine {
    label: String,
    frames: Vec<Finder<'static>>,
    annotations: Vec<Finder<'static>>,
    kernels: Vec<Finder<'static>>,
}

struct EngineEntry {
    label: String,
    python_function: Vec<String>,
    annotation: Vec<String>,
    kernel: Vec<String>,
}
from_json!(EngineEntry { label, python_function, annotation, kernel });

impl Engines {
    /// The list of `patterns/engines.json`.
    pub fn embedded() -> Self {
        // A test checks that the file parses.
        let entries: Vec<EngineEntry> = json::read(include_str!("../../patterns/engines.json")).unwrap_or_default();
        Self { engines: entries.into_iter().map(Engine::new).collect() }
    }

    /// The label of the first engine in the list with a word that occurs in `text`.
    ///
    /// ```
    /// use gpuprism::rules::engines::{Engines, Evidence};
    /// let engines = Engines::embedded();
    /// assert_eq!(engines.detect(Evidence::Annotation, b"step[DECODE bs=16]"), Some("SGLang"));
    /// assert_eq!(engines.detect(Evidence::Frame, b"json/decoder.py(337): decode"), None);
    /// ```
    pub fn detect(&self, source: Evidence, text: &[u8]) -> Option<&str> {
        self.find(source, text, self.engines.len()).map(|(_, engine)| engine.label.as_str())
    }

    /// Starts a guess that collects evidence name by name.
    pub fn guess(&self) -> Guess<'_> {
        Guess { engines: self, best: None }
    }

    /// The first match among the first `count` engines, with its index.
    fn find(&self, source: Evidence, text: &[u8], count: usize) -> Option<(usize, &Engine)> {
        let has_word = |engine: &&Engine| engine.words(source).iter().any(|word| word.find(text).is_some());
        self.engines.iter().enumerate().take(count).find(|(_, engine)| has_word(engine))
    }
}

/// The most likely engine for the names added so far. The strongest [`Evidence`] wins. With equal evidence, the engine that
/// comes first in the list wins, because SGLang calls parts of vLLM and not the reverse.
#[derive(Debug)]
pub struct Guess<'a> {
    engines: &'a Engines,
    best: Option<(Evidence, usize)>,
}

impl Guess<'_> {
    /// Adds one name. Skips the search if the name cannot improve the guess.
    pub fn add(&mut self, source: Evidence, text: &[u8]) {
        let candidates = match self.best {
            Some((best, _)) if best > source => return,
            Some((best, index)) if best == source => index,
            _ => self.engines.engines.len(),
        };
        if let Some((index, _)) = self.engines.find(source, text, candidates) {
            self.best = Some((source, index));
        }
    }

    /// The engine's label: `SGLang`, `vLLM`, `TensorRT-LLM`, ...
    pub fn label(&self) -> Option<&str> {
        self.best.and_then(|(_, index)| self.engines.engines.get(index)).map(|engine| engine.label.as_str())
    }
}

impl Engine {
    fn new(entry: EngineEntry) -> Self {
        let finders = |list: Vec<String>| list.iter().map(|word| Finder::new(word.as_bytes()).into_owned()).collect();
        Self {
            label: entry.label,
            frames: finders(entry.python_function),
            annotations: finders(entry.annotation),
            kernels: finders(entry.kernel),
        }
    }

    fn words(&self, source: Evidence) -> &[Finder<'static>] {
        match source {
            Evidence::Frame => &self.frames,
            Evidence::Annotation => &self.annotations,
            Evidence::Kernel => &self.kernels,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_is_detected_from_its_own_frames_annotations_and_kernels() {
        let engines = Engines::embedded();
        let cases = [
            (Evidence::Frame, "/x/python/sglang/srt/managers/scheduler.py(812): event_loop_overlap", Some("SGLang")),
            (Evidence::Frame, "vllm/v1/worker/gpu_model_runner.py(2254): execute_model", Some("vLLM")),
            (Evidence::Frame, "tensorrt_llm/_torch/pyexecutor/py_executor.py(700): _loop", Some("TensorRT-LLM")),
            (Evidence::Frame, "torch/nn/modules/module.py(1747): _call_impl", None),
            (Evidence::Annotation, "step[EXTEND bs=15 toks=15360]", Some("SGLang")),
            (Evidence::Annotation, "step[DRAFT_LOOP raw_bs=3 bs=4 topk=1]", Some("SGLang")),
            (Evidence::Annotation, "execute_context_1(888)_generation_0(0)", Some("vLLM")),
            (Evidence::Annotation, "execute_32_context_0(sq0sk0sqsq0)_generation_32(sq32sk50sqsq32)", Some("vLLM")),
            (Evidence::Annotation, "ProfilerStep#6", None),
            (Evidence::Kernel, "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*)", Some("vLLM")),
            (Evidence::Kernel, "nvjet_tst_64x8_64x16_4x1_v_bz_TNT", None),
        ];
        for (source, text, label) in cases {
            assert_eq!(engines.detect(source, text.as_bytes()), label, "{text}");
        }
    }

    #[test]
    fn frames_beat_annotations_and_annotations_beat_kernels() {
        let engines = Engines::embedded();
        let mut guess = engines.guess();
        assert_eq!(guess.label(), None);
        guess.add(Evidence::Kernel, b"void vllm::rms_norm_kernel<float>(float*)");
        assert_eq!(guess.label(), Some("vLLM"));
        guess.add(Evidence::Annotation, b"step[DECODE bs=16]");
        assert_eq!(guess.label(), Some("SGLang"));
        guess.add(Evidence::Frame, b"vllm/v1/engine/core.py(300): step");
        guess.add(Evidence::Annotation, b"step[DECODE bs=16]");
        assert_eq!(guess.label(), Some("vLLM"));
    }

    #[test]
    fn with_equal_evidence_the_first_engine_in_the_list_wins_in_any_order_of_names() {
        let engines = Engines::embedded();
        let names: [&[u8]; 2] = [b"execute_16_context_0(sq0)_generation_16(sq16)", b"step[DECODE bs=16]"];
        for order in [[0, 1], [1, 0]] {
            let mut guess = engines.guess();
            for index in order {
                guess.add(Evidence::Annotation, names[index]);
            }
            assert_eq!(guess.label(), Some("SGLang"));
        }
    }
}
