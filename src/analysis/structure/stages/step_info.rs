//! What the text of an annotation says of a step of the engine: `step[DECODE bs=16]`,
//! `execute_context_1(888)_generation_0(0)`, `[Executor] _forward_step 7: 2 ctx reqs, 5 gen reqs`, `ProfilerStep#6`.

use crate::analysis::structure::stages::Stage;
use crate::rules::needle::{Haystack, Needle};

/// Sums over the requests of one group, of query tokens N and of tokens M that they attend to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// Sum of N.
    pub sq: u64,
    /// Sum of M.
    pub sk: u64,
    /// Sum of N x N.
    pub sqsq: u64,
    /// Sum of N x M.
    pub sqsk: u64,
}

/// How a text speaks of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// In a form of a serving engine that is known exactly.
    Engine,
    /// By a plain word: `prefill`, `extend`, `decode`.
    Word,
    /// As `ProfilerStep#6`, which names no stage.
    Profiler,
}

/// What an annotation says of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepInfo {
    /// Its stage; [`Stage::All`] where the text names none.
    pub stage: Stage,
    /// How the text says it.
    pub form: Form,
    /// Requests in the batch.
    pub batch_size: Option<u64>,
    /// Query tokens of the batch.
    pub tokens: Option<u64>,
    /// Sums over requests whose prompt is read.
    pub context: Option<Sums>,
    /// Sums over requests that generate.
    pub generation: Option<Sums>,
}

impl StepInfo {
    fn new(stage: Stage, form: Form) -> Self {
        Self { stage, form, batch_size: None, tokens: None, context: None, generation: None }
    }

    /// What the text says; `None` for one that speaks of no step.
    ///
    /// ```
    /// use gpuprism::analysis::triage::{Stage, stages::StepInfo};
    /// let step = StepInfo::parse("execute_context_0(0)_generation_24(24)").unwrap();
    /// assert_eq!((step.stage, step.batch_size), (Stage::Decode, Some(24)));
    /// assert_eq!(StepInfo::parse("nccl:all_reduce"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        sglang(text).or_else(|| vllm(text)).or_else(|| trt_llm(text)).or_else(|| profiler(text)).or_else(|| word(text))
    }
}

/// `step[MODE key=number ...]` of SGLang.
fn sglang(text: &str) -> Option<StepInfo> {
    let mut words = text.strip_prefix("step[")?.split(']').next()?.split_ascii_whitespace();
    let mode = words.next().filter(|mode| mode.starts_with(|first: char| first.is_ascii_uppercase()))?;
    let mut step = StepInfo::new(stage_of_mode(mode), Form::Engine);
    for (key, value) in words.filter_map(|word| word.split_once('=')) {
        let Ok(value) = value.parse::<u64>() else { continue };
        match key {
            "bs" => step.batch_size = Some(value),
            "toks" => step.tokens = Some(value),
            _ => add_sum(&mut step, key, value),
        }
    }
    let sums = [step.context, step.generation].into_iter().flatten().map(|sums| sums.sq);
    let counted = sums.reduce(u64::saturating_add);
    // One token a request is what the mode means; verifying and drafting are modes of their own.
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
        // A step of a diffusion model is neither prefill nor decode, a prebuilt batch computes nothing.
        _ => Stage::Other,
    }
}

/// `c_sqsk`, `g_sq`, ...
fn add_sum(step: &mut StepInfo, key: &str, value: u64) {
    let (group, key) = match (key.strip_prefix("c_"), key.strip_prefix("g_")) {
        (Some(key), _) => (&mut step.context, key),
        (_, Some(key)) => (&mut step.generation, key),
        _ => return,
    };
    let mut sums = group.unwrap_or_default();
    if let Some(sum) = sums.named(key) {
        *sum = value;
        *group = Some(sums);
    }
}

impl Sums {
    fn named(&mut self, key: &str) -> Option<&mut u64> {
        match key {
            "sq" => Some(&mut self.sq),
            "sk" => Some(&mut self.sk),
            "sqsq" => Some(&mut self.sqsq),
            "sqsk" => Some(&mut self.sqsk),
            _ => None,
        }
    }
}

/// `execute_context_C(T)_generation_G(U)` of vLLM, with sums in the brackets where the person asked for details.
fn vllm(text: &str) -> Option<StepInfo> {
    let rest = text.strip_prefix("execute_")?;
    let after_total = number(rest).and_then(|(_, rest)| rest.strip_prefix('_')).unwrap_or(rest);
    let (context, rest) = group(after_total.strip_prefix("context_")?)?;
    let (generation, _) = group(rest.strip_prefix("_generation_")?)?;
    let mut step = StepInfo::new(stage_of_counts(context.requests, generation.requests), Form::Engine);
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
    sums: Option<Sums>,
}

/// `15(sq15360sk15360sqsq15728640sqsk15728640)`, `1(888)` or `1(888_788544)`, and what follows.
fn group(text: &str) -> Option<(Group, &str)> {
    let (requests, rest) = number(text)?;
    let (inside, rest) = rest.strip_prefix('(')?.split_once(')')?;
    let sums = sums_in_a_row(inside);
    let tokens = sums.map(|sums| sums.sq).or_else(|| number(inside).map(|(tokens, _)| tokens));
    Some((Group { requests, tokens, sums }, rest))
}

/// `sq37sk34489sqsq37sqsk34489`; `None` where it is anything else.
fn sums_in_a_row(text: &str) -> Option<Sums> {
    let (mut sums, mut left) = (Sums::default(), text);
    while !left.is_empty() {
        let letters = left.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (key, rest) = left.split_at_checked(letters)?;
        let (value, rest) = number(rest)?;
        *sums.named(key)? = value;
        left = rest;
    }
    Some(sums).filter(|_| !text.is_empty())
}

fn number(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at_checked(digits)?;
    Some((digits.parse().ok()?, rest))
}

/// `[Executor] _forward_step 12: 1 ctx reqs, 640 ctx tokens, 5 gen reqs` of TensorRT-LLM; its releases differ in what
/// they count.
fn trt_llm(text: &str) -> Option<StepInfo> {
    let (_, rest) = text.split_once("_forward_step")?;
    let (_, counts) = rest.split_once(':')?;
    let count = |what: [&str; 2]| {
        let mut stated = counts.split(',').map(str::trim_start).filter_map(number);
        stated.find(|(_, name)| name.split_ascii_whitespace().eq(what)).map(|(value, _)| value)
    };
    let (context, generation) = (count(["ctx", "reqs"])?, count(["gen", "reqs"])?);
    let mut step = StepInfo::new(stage_of_counts(context, generation), Form::Engine);
    step.batch_size = Some(context.saturating_add(generation));
    // What a generating request writes is not told: more than one token where a draft is verified.
    step.tokens = count(["ctx", "tokens"]).filter(|_| generation == 0);
    Some(step)
}

fn profiler(text: &str) -> Option<StepInfo> {
    let (number, rest) = number(text.strip_prefix("ProfilerStep#")?)?;
    (number < u64::MAX && rest.is_empty()).then(|| StepInfo::new(Stage::All, Form::Profiler))
}

/// A plain word that names a stage. Two stages in one text name none.
fn word(text: &str) -> Option<StepInfo> {
    const WORDS: [(&str, Stage); 3] =
        [("prefill", Stage::Prefill), ("extend", Stage::Prefill), ("decode", Stage::Decode)];
    let text = Haystack::new(text);
    let mut named = WORDS.iter().filter(|(word, _)| Needle::new(word).is_some_and(|word| word.is_in(&text)));
    let stage = named.next()?.1;
    named.all(|(_, other)| *other == stage).then(|| StepInfo::new(stage, Form::Word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Stage, requests, tokens.
    fn said(text: &str) -> (Stage, Option<u64>, Option<u64>) {
        let step = StepInfo::parse(text).unwrap_or_else(|| panic!("{text} is a step"));
        (step.stage, step.batch_size, step.tokens)
    }

    fn sums(sq: u64, sk: u64, sqsq: u64, sqsk: u64) -> Option<Sums> {
        Some(Sums { sq, sk, sqsq, sqsk })
    }

    #[test]
    fn sglang_names_the_mode_of_a_step() {
        for (text, want) in [
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
            assert_eq!(said(text), want, "{text}");
        }
    }

    #[test]
    fn sglang_tells_sums_per_group_in_any_order() {
        let decode = StepInfo::parse("step[DECODE bs=16 g_sq=16 g_sqsq=16 g_sqsk=65536 g_sk=65536]").unwrap();
        assert_eq!((decode.context, decode.generation), (None, sums(16, 65536, 16, 65536)));
        assert_eq!((decode.batch_size, decode.tokens), (Some(16), Some(16)));
        let verify = StepInfo::parse("step[VERIFY bs=4 g_sq=16 g_sk=900 g_sqsq=64 g_sqsk=3600 forward_id=7]").unwrap();
        assert_eq!((verify.stage, verify.tokens), (Stage::Verify, Some(16)), "four tokens a request");
        let extend = "step[EXTEND bs=2 toks=30 c_sq=30 c_sk=50 c_sqsq=500 c_sqsk=800]";
        assert_eq!(StepInfo::parse(extend).unwrap().context, sums(30, 50, 500, 800));
        let mixed =
            "step[MIXED bs=3 toks=12 c=1 g=2 c_sq=10 c_sk=10 c_sqsq=100 c_sqsk=100 g_sq=2 g_sk=40 g_sqsq=2 g_sqsk=40]";
        let mixed = StepInfo::parse(mixed).unwrap();
        assert_eq!((mixed.stage, mixed.batch_size, mixed.tokens), (Stage::Mixed, Some(3), Some(12)));
        assert_eq!((mixed.context, mixed.generation), (sums(10, 10, 100, 100), sums(2, 40, 2, 40)));
        assert_eq!(said("step[DRAFT_EXTEND_V2 bs=2 c_sq=8 c_sk=90 c_sqsq=32 c_sqsk=360]").2, Some(8));
    }

    #[test]
    fn vllm_counts_the_requests_of_each_group() {
        for (text, want) in [
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
            assert_eq!(said(text), want, "{text}");
        }
        let mixed =
            "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)";
        let mixed = StepInfo::parse(mixed).unwrap();
        assert_eq!((mixed.stage, mixed.batch_size, mixed.tokens), (Stage::Mixed, Some(46), Some(8192)));
        assert_eq!(mixed.context, sums(8155, 8430, 7_475_785, 7_671_310));
        assert_eq!(mixed.generation, sums(37, 34489, 37, 34489));
    }

    #[test]
    fn tensorrt_llm_counts_requests_and_in_some_releases_tokens() {
        for (text, want) in [
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
            assert_eq!(said(text), want, "{text}");
        }
        assert_eq!(StepInfo::parse("_forward_step"), None);
    }

    #[test]
    fn other_texts_name_a_step_or_a_stage_by_a_whole_word_or_nothing() {
        assert_eq!(said("ProfilerStep#6").0, Stage::All);
        for (text, want) in [
            ("prefill", Stage::Prefill),
            ("run_extend", Stage::Prefill),
            ("runDecode", Stage::Decode),
            ("Decode batch 3", Stage::Decode),
            ("prefill (extend)", Stage::Prefill),
        ] {
            let step = StepInfo::parse(text).unwrap();
            assert_eq!((step.stage, step.form), (want, Form::Word), "{text}");
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
        fn vllm_s_stage_follows_from_its_two_counts(context in 0_u64..300, generation in 0_u64..300) {
            let text = format!("execute_context_{context}({context})_generation_{generation}({generation})");
            let want = match (context, generation) {
                (0, 0) => Stage::Idle,
                (0, _) => Stage::Decode,
                (_, 0) => Stage::Prefill,
                _ => Stage::Mixed,
            };
            prop_assert_eq!(said(&text), (want, Some(context + generation), Some(context + generation)));
        }

        #[test]
        fn no_text_is_too_odd(text in "(step\\[|execute_|context_|_generation_|_forward_step|:|\\(|\\)|\\]|[0-9]{1,30}|sq|bs=|é| |,|ctx reqs){0,12}") {
            let _ = StepInfo::parse(&text);
        }
    }
}
