//! Parses annotation texts that describe a step of a serving engine, in linear time: `step[DECODE bs=16]` of SGLang,
//! `execute_context_1(888)_generation_0(0)` of vLLM, `[Executor] _forward_step 7: 2 ctx reqs, 5 gen reqs` of TensorRT-LLM,
//! `ProfilerStep#6` of torch.profiler, `step 12` of a program.

use crate::analysis::structure::stages::Stage;
use crate::rules::is_numbered_step;
use crate::rules::needle::{Haystack, Needle};

/// Sums over the requests of one group. N is the number of query tokens of a request, M the number of tokens that they
/// attend to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct TokenSums {
    /// Sum of N.
    pub sq: u64,
    /// Sum of M.
    pub sk: u64,
    /// Sum of N x N.
    pub sqsq: u64,
    /// Sum of N x M.
    pub sqsk: u64,
}

/// The form of an annotation text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The exact form of a known serving engine.
    Engine,
    /// A text with one of the words `prefill`, `extend` and `decode`.
    Word,
    /// `step 12` or `Iteration 5/100`, which states no stage.
    Numbered,
    /// `ProfilerStep#6`, which states no stage.
    Profiler,
    /// A Python function of a serving engine that runs one step.
    Frame,
    /// No text: the order of the kernels shows the step.
    Inferred,
    /// No text: the kernels repeat at an even distance.
    Period,
    /// The same, and a graph begins the step.
    Replay,
    /// A part of a profiler's step, which ends with a call of the optimizer.
    Optimizer,
}

impl Form {
    /// Whether a text of this form may also name a part of a step.
    pub(crate) fn is_plain(self) -> bool {
        matches!(self, Self::Word | Self::Numbered)
    }

    /// Whether no text and no function marks the step, but what runs in it.
    pub(crate) fn is_inferred(self) -> bool {
        matches!(self, Self::Inferred | Self::Period | Self::Replay | Self::Optimizer)
    }
}

/// The description of a step in an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepInfo {
    /// The stage; [`Stage::All`] if the text states none.
    pub stage: Stage,
    /// The form of the text.
    pub form: Form,
    /// Number of requests in the batch.
    pub batch_size: Option<u64>,
    /// The part of `batch_size` that are requests, if the batch was padded to the size of a captured graph.
    pub unpadded_batch: Option<u64>,
    /// Number of query tokens in the batch.
    pub tokens: Option<u64>,
    /// Sums over the requests in prefill.
    pub context: Option<TokenSums>,
    /// Sums over the requests in decode.
    pub generation: Option<TokenSums>,
}

impl StepInfo {
    pub(crate) fn of_stage(stage: Stage, form: Form) -> Self {
        Self { stage, form, batch_size: None, unpadded_batch: None, tokens: None, context: None, generation: None }
    }

    /// Parses a text. Returns `None` if it does not describe a step.
    ///
    /// ```
    /// use gpuprism::analysis::structure::stages::{Stage, StepInfo};
    /// let step = StepInfo::parse("execute_context_0(0)_generation_24(24)").unwrap();
    /// assert_eq!((step.stage, step.batch_size), (Stage::Decode, Some(24)));
    /// assert_eq!(StepInfo::parse("nccl:all_reduce"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let engine = sglang(text).or_else(|| vllm(text)).or_else(|| trt_llm(text)).or_else(|| profiler(text));
        engine.or_else(|| if is_op(text) { None } else { word(text).or_else(|| numbered(text)) })
    }
}

/// `step[MODE key=number ...]` of SGLang.
fn sglang(text: &str) -> Option<StepInfo> {
    let mut words = text.strip_prefix("step[")?.split(']').next()?.split_ascii_whitespace();
    let mode = words.next().filter(|mode| mode.starts_with(|first: char| first.is_ascii_uppercase()))?;
    let mut step = StepInfo::of_stage(stage_of_mode(mode), Form::Engine);
    for (key, value) in words.filter_map(|word| word.split_once('=')) {
        let Ok(value) = value.parse::<u64>() else { continue };
        match key {
            "bs" => step.batch_size = Some(value),
            "raw_bs" => step.unpadded_batch = Some(value),
            "toks" => step.tokens = Some(value),
            _ => add_sum(&mut step, key, value),
        }
    }
    let sums = [step.context, step.generation].into_iter().flatten().map(|sums| sums.sq);
    let counted = sums.reduce(u64::saturating_add);
    // DECODE means one token per request; verify and draft are separate modes.
    let implied = if mode == "DECODE" { step.batch_size } else { None };
    step.tokens = step.tokens.or(counted).or(implied);
    Some(step)
}

fn stage_of_mode(mode: &str) -> Stage {
    match mode {
        "EXTEND" | "SPLIT_PREFILL" => Stage::Prefill,
        "DECODE" => Stage::Decode,
        "MIXED" => Stage::Mixed,
        "VERIFY" | "TARGET_VERIFY" => Stage::Verify,
        "IDLE" => Stage::Idle,
        _ if mode.starts_with("DRAFT") => Stage::Draft,
        // A diffusion step (DLLM_EXTEND) is neither prefill nor decode. A PREBUILT batch computes nothing.
        _ => Stage::Other,
    }
}

/// Adds a sum by its key, such as `c_sqsk` or `g_sq`.
fn add_sum(step: &mut StepInfo, key: &str, value: u64) {
    let (group, key) = match (key.strip_prefix("c_"), key.strip_prefix("g_")) {
        (Some(key), _) => (&mut step.context, key),
        (_, Some(key)) => (&mut step.generation, key),
        _ => return,
    };
    let mut sums = group.unwrap_or_default();
    if let Some(sum) = sums.field_mut(key) {
        *sum = value;
        *group = Some(sums);
    }
}

impl TokenSums {
    fn field_mut(&mut self, key: &str) -> Option<&mut u64> {
        match key {
            "sq" => Some(&mut self.sq),
            "sk" => Some(&mut self.sk),
            "sqsq" => Some(&mut self.sqsq),
            "sqsk" => Some(&mut self.sqsk),
            _ => None,
        }
    }
}

/// `execute_context_C(T)_generation_G(U)` of vLLM, with sums in the parentheses if the user enabled details.
fn vllm(text: &str) -> Option<StepInfo> {
    let rest = text.strip_prefix("execute_")?;
    let after_total = number(rest).and_then(|(_, rest)| rest.strip_prefix('_')).unwrap_or(rest);
    let (context, rest) = group(after_total.strip_prefix("context_")?)?;
    let (generation, _) = group(rest.strip_prefix("_generation_")?)?;
    let mut step = StepInfo::of_stage(stage_of_counts(context.requests, generation.requests), Form::Engine);
    step.batch_size = Some(context.requests.saturating_add(generation.requests));
    step.tokens = context.tokens.zip(generation.tokens).map(|(context, generation)| context.saturating_add(generation));
    (step.context, step.generation) = (context.sums, generation.sums);
    Some(step)
}

fn stage_of_counts(context: u64, generation: u64) -> Stage {
    match (context > 0, generation > 0) {
        (true, false) => Stage::Prefill,
        (false, true) => Stage::Decode,
        (true, true) => Stage::Mixed,
        (false, false) => Stage::Idle,
    }
}

struct Group {
    requests: u64,
    tokens: Option<u64>,
    sums: Option<TokenSums>,
}

/// Parses `15(sq15360sk15360sqsq15728640sqsk15728640)`, `1(888)` or `1(888_788544)`, and returns the rest of the text.
fn group(text: &str) -> Option<(Group, &str)> {
    let (requests, rest) = number(text)?;
    let (inside, rest) = rest.strip_prefix('(')?.split_once(')')?;
    let sums = concatenated_sums(inside);
    let tokens = sums.map(|sums| sums.sq).or_else(|| number(inside).map(|(tokens, _)| tokens));
    Some((Group { requests, tokens, sums }, rest))
}

/// Parses `sq37sk34489sqsq37sqsk34489`.
fn concatenated_sums(text: &str) -> Option<TokenSums> {
    let (mut sums, mut rest) = (TokenSums::default(), text);
    while !rest.is_empty() {
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (key, after_key) = rest.split_at_checked(letters)?;
        let (value, after_value) = number(after_key)?;
        *sums.field_mut(key)? = value;
        rest = after_value;
    }
    Some(sums).filter(|_| !text.is_empty())
}

/// Parses the number at the beginning of a text and returns the rest.
fn number(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at_checked(digits)?;
    Some((digits.parse().ok()?, rest))
}

/// `[Executor] _forward_step 12: 1 ctx reqs, 640 ctx tokens, 5 gen reqs` of TensorRT-LLM. Releases differ in
/// the counts that they write.
fn trt_llm(text: &str) -> Option<StepInfo> {
    let (_, rest) = text.split_once("_forward_step")?;
    let (_, counts) = rest.split_once(':')?;
    let count = |what: [&str; 2]| {
        let mut fields = counts.split(',').map(str::trim_start).filter_map(number);
        fields.find(|(_, name)| name.split_ascii_whitespace().eq(what)).map(|(value, _)| value)
    };
    let (context, generation) = (count(["ctx", "reqs"])?, count(["gen", "reqs"])?);
    let mut step = StepInfo::of_stage(stage_of_counts(context, generation), Form::Engine);
    step.batch_size = Some(context.saturating_add(generation));
    // The tokens of generation requests are not recorded: a request that verifies a draft has more than one.
    step.tokens = count(["ctx", "tokens"]).filter(|_| generation == 0);
    Some(step)
}

fn profiler(text: &str) -> Option<StepInfo> {
    let (number, rest) = number(text.strip_prefix("ProfilerStep#")?)?;
    (number < u64::MAX && rest.is_empty()).then(|| StepInfo::of_stage(Stage::All, Form::Profiler))
}

/// Whether a text is the range of a framework op, as `torch.autograd.profiler.emit_nvtx` writes it: `aten::add, seq = 12, op_id = 5`.
fn is_op(text: &str) -> bool {
    text.contains(", op_id = ") || text.contains(", seq = ")
}

fn numbered(text: &str) -> Option<StepInfo> {
    is_numbered_step(text).then(|| StepInfo::of_stage(Stage::All, Form::Numbered))
}

/// A text with a word for a stage. A text with words for two stages is ignored.
fn word(text: &str) -> Option<StepInfo> {
    const WORDS: [(&str, Stage); 3] =
        [("prefill", Stage::Prefill), ("extend", Stage::Prefill), ("decode", Stage::Decode)];
    let text = Haystack::new(text);
    let mut matches = WORDS.iter().filter(|(word, _)| Needle::new(word).is_some_and(|word| word.is_in(&text)));
    let stage = matches.next()?.1;
    matches.all(|(_, other)| *other == stage).then(|| StepInfo::of_stage(stage, Form::Word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Stage, requests, tokens.
    fn parsed(text: &str) -> (Stage, Option<u64>, Option<u64>) {
        let step = StepInfo::parse(text).unwrap_or_else(|| panic!("{text} is a step"));
        (step.stage, step.batch_size, step.tokens)
    }

    fn sums(sq: u64, sk: u64, sqsq: u64, sqsk: u64) -> Option<TokenSums> {
        Some(TokenSums { sq, sk, sqsq, sqsk })
    }

    #[test]
    fn sglang_steps_have_a_mode_and_a_batch_size() {
        for (text, expected) in [
            ("step[EXTEND bs=15 toks=15360]", (Stage::Prefill, Some(15), Some(15360))),
            ("step[DECODE bs=16]", (Stage::Decode, Some(16), Some(16))),
            ("step[MIXED bs=9 toks=520]", (Stage::Mixed, Some(9), Some(520))),
            ("step[IDLE bs=0]", (Stage::Idle, Some(0), None)),
            ("step[VERIFY bs=4]", (Stage::Verify, Some(4), None)),
            ("step[TARGET_VERIFY bs=4]", (Stage::Verify, Some(4), None)),
            ("step[DRAFT bs=4]", (Stage::Draft, Some(4), None)),
            ("step[DRAFT_EXTEND_V2 bs=3]", (Stage::Draft, Some(3), None)),
            ("step[DRAFT_LOOP raw_bs=3 bs=4 topk=1]", (Stage::Draft, Some(4), None)),
            ("step[PREBUILT bs=2]", (Stage::Other, Some(2), None)),
            ("step[SPLIT_PREFILL bs=1]", (Stage::Prefill, Some(1), None)),
            ("step[DLLM_EXTEND bs=2]", (Stage::Other, Some(2), None)),
            ("step[DECODE]", (Stage::Decode, None, None)),
            ("step[A_MODE_OF_TOMORROW bs=2]", (Stage::Other, Some(2), None)),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }

    #[test]
    fn a_padded_batch_has_the_number_of_its_requests() {
        let padded = StepInfo::parse("step[DRAFT_LOOP raw_bs=3 bs=4 topk=1]").unwrap();
        assert_eq!((padded.batch_size, padded.unpadded_batch), (Some(4), Some(3)));
        assert_eq!(StepInfo::parse("step[DECODE bs=4]").unwrap().unpadded_batch, None);
    }

    #[test]
    fn sglang_sums_parse_per_group_in_any_order() {
        let decode = StepInfo::parse("step[DECODE bs=16 g_sq=16 g_sqsq=16 g_sqsk=65536 g_sk=65536]").unwrap();
        assert_eq!((decode.context, decode.generation), (None, sums(16, 65536, 16, 65536)));
        assert_eq!((decode.batch_size, decode.tokens), (Some(16), Some(16)));
        let verify = StepInfo::parse("step[VERIFY bs=4 g_sq=16 g_sk=900 g_sqsq=64 g_sqsk=3600 forward_id=7]").unwrap();
        assert_eq!((verify.stage, verify.tokens), (Stage::Verify, Some(16)), "four tokens per request");
        let extend = "step[EXTEND bs=2 toks=30 c_sq=30 c_sk=50 c_sqsq=500 c_sqsk=800]";
        assert_eq!(StepInfo::parse(extend).unwrap().context, sums(30, 50, 500, 800));
        let mixed =
            "step[MIXED bs=3 toks=12 c=1 g=2 c_sq=10 c_sk=10 c_sqsq=100 c_sqsk=100 g_sq=2 g_sk=40 g_sqsq=2 g_sqsk=40]";
        let mixed = StepInfo::parse(mixed).unwrap();
        assert_eq!((mixed.stage, mixed.batch_size, mixed.tokens), (Stage::Mixed, Some(3), Some(12)));
        assert_eq!((mixed.context, mixed.generation), (sums(10, 10, 100, 100), sums(2, 40, 2, 40)));
        assert_eq!(parsed("step[DRAFT_EXTEND_V2 bs=2 c_sq=8 c_sk=90 c_sqsq=32 c_sqsk=360]").2, Some(8));
    }

    #[test]
    fn vllm_steps_count_the_requests_of_each_group() {
        for (text, expected) in [
            ("execute_context_1(888)_generation_0(0)", (Stage::Prefill, Some(1), Some(888))),
            ("execute_context_1(888_788544)_generation_0(0)", (Stage::Prefill, Some(1), Some(888))),
            ("execute_context_0(0)_generation_1(1)", (Stage::Decode, Some(1), Some(1))),
            ("execute_context_0(0)_generation_2(2)", (Stage::Decode, Some(2), Some(2))),
            ("execute_context_0(0)_generation_37(40)", (Stage::Decode, Some(37), Some(40))),
            ("execute_context_1(100)_generation_12(12)", (Stage::Mixed, Some(13), Some(112))),
            ("execute_context_0(0)_generation_0(0)", (Stage::Idle, Some(0), Some(0))),
            (
                "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
                (Stage::Decode, Some(32), Some(32)),
            ),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
        let mixed =
            "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)";
        let mixed = StepInfo::parse(mixed).unwrap();
        assert_eq!((mixed.stage, mixed.batch_size, mixed.tokens), (Stage::Mixed, Some(46), Some(8192)));
        assert_eq!(mixed.context, sums(8155, 8430, 7_475_785, 7_671_310));
        assert_eq!(mixed.generation, sums(37, 34489, 37, 34489));
    }

    #[test]
    fn tensorrt_llm_steps_count_requests_and_in_some_releases_tokens() {
        for (text, expected) in [
            (
                "[Executor] _forward_step 12: 1 ctx reqs, 640 ctx tokens, 0 gen reqs",
                (Stage::Prefill, Some(1), Some(640)),
            ),
            ("[Executor] _forward_step 60000: 0 ctx reqs, 0 ctx tokens, 32 gen reqs", (Stage::Decode, Some(32), None)),
            ("[Executor] _forward_step 5: 2 ctx reqs, 64 ctx tokens, 3 gen reqs", (Stage::Mixed, Some(5), None)),
            ("[Executor] _forward_step 5: 0 ctx reqs, 3 gen reqs", (Stage::Decode, Some(3), None)),
            ("[Executor] _forward_step: 2 ctx reqs, 0 gen reqs", (Stage::Prefill, Some(2), None)),
            ("[Executor] _forward_step 9: 0 ctx reqs, 0 gen reqs", (Stage::Idle, Some(0), None)),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
        assert_eq!(StepInfo::parse("_forward_step"), None);
    }

    #[test]
    fn other_texts_parse_as_profiler_steps_or_whole_stage_words_only() {
        assert_eq!(parsed("ProfilerStep#6").0, Stage::All);
        for (text, expected) in [
            ("prefill", Stage::Prefill),
            ("run_extend", Stage::Prefill),
            ("runDecode", Stage::Decode),
            ("Decode batch 3", Stage::Decode),
            ("prefill (extend)", Stage::Prefill),
        ] {
            let step = StepInfo::parse(text).unwrap();
            assert_eq!((step.stage, step.form), (expected, Form::Word), "{text}");
        }
        for text in [
            "run_batch",
            "decoder.py(337)",
            "prefills",
            "prefill_or_decode",
            "extended",
            "## Call CompiledFxGraph fud64jsr ##",
            "ProfilerStep#",
            "ProfilerStep#6x",
            "nccl:all_reduce",
            "",
            "step[",
            "step[3]",
            "loss step[VERIFY bs=2]",
            "execute_context_",
            "execute_context_1(",
            "capture_32_FULL",
        ] {
            assert_eq!(StepInfo::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_stage_of_a_vllm_step_follows_from_its_two_counts(context in 0_u64..300, generation in 0_u64..300) {
            let text = format!("execute_context_{context}({context})_generation_{generation}({generation})");
            let expected = match (context, generation) {
                (0, 0) => Stage::Idle,
                (0, _) => Stage::Decode,
                (_, 0) => Stage::Prefill,
                _ => Stage::Mixed,
            };
            prop_assert_eq!(parsed(&text), (expected, Some(context + generation), Some(context + generation)));
        }

        #[test]
        fn parsing_never_panics(text in "(step\\[|execute_|context_|_generation_|_forward_step|:|\\(|\\)|\\]|[0-9]{1,30}|sq|bs=|é| |,|ctx reqs){0,12}") {
            let _ = StepInfo::parse(&text);
        }
    }
}
