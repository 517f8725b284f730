//! Names of functions and ops in which a thread only waits for another thread or process, and of functions of serving engines that wait
//! for requests (`patterns/waiting_code.json`).

use super::code_name::CodeName;
use crate::json::{self, embedded, from_json};
use std::sync::LazyLock;

#[derive(Debug)]
struct WaitingCode {
    /// The begin of a built-in Python function.
    functions: Vec<String>,
    /// Python functions that wait, with what they call.
    code: Vec<CodeName>,
    /// A part of the name of a range.
    ops: Vec<String>,
    /// Functions of serving engines that wait for requests, if a function blocks in them.
    takes_requests: Vec<CodeName>,
    /// Functions that the loop of an engine calls in each iteration.
    chooses_batch: Vec<CodeName>,
    /// Functions that it calls then if there is a batch.
    runs_batch: Vec<CodeName>,
}
from_json!(WaitingCode { functions, code, ops, takes_requests, chooses_batch, runs_batch });

static WORDS: LazyLock<WaitingCode> =
    LazyLock::new(|| embedded(json::read(include_str!(concat!(env!("OUT_DIR"), "/waiting_code.json")))));

/// The built-in Python function of this raw name, if a thread only waits in it.
///
/// ```
/// use gpuprism::rules::waiting_function;
/// assert_eq!(waiting_function(b"<built-in method acquire of _thread.lock object at 0x7f>"), Some("<built-in method acquire"));
/// assert_eq!(waiting_function(b"<built-in method item of Tensor object at 0x7f>"), None);
/// ```
pub fn waiting_function(name: &[u8]) -> Option<&'static str> {
    let is_begin = |begin: &&String| name.starts_with(begin.as_bytes());
    let begin = WORDS.functions.iter().find(is_begin).map(String::as_str)?;
    let next = name.get(begin.len());
    next.is_none_or(|next| matches!(next, b' ' | b'>')).then_some(begin)
}

/// Whether a thread only waits in this function, op or range.
///
/// ```
/// use gpuprism::rules::is_waiting_code;
/// assert!(is_waiting_code("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"));
/// assert!(is_waiting_code("vllm/distributed/utils.py(40): sched_yield"));
/// assert!(!is_waiting_code("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"));
/// ```
pub fn is_waiting_code(name: &str) -> bool {
    waiting_function(name.as_bytes()).is_some()
        || WORDS.ops.iter().any(|part| name.contains(part.as_str()))
        || WORDS.code.iter().any(|known| known.matches(name.as_bytes()))
}

/// What a function tells about the requests of a serving engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestCode {
    /// The engine has no request while a function blocks in it.
    Takes,
    /// A thread waits in it, for whatever it is.
    Blocks,
    /// An iteration of the engine's loop chooses what to run next.
    ChoosesBatch,
    /// It runs a batch.
    RunsBatch,
}

impl RequestCode {
    /// The kind of the function with this raw name; `None` for others.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let kinds = [
            (&WORDS.takes_requests, Self::Takes),
            (&WORDS.chooses_batch, Self::ChoosesBatch),
            (&WORDS.runs_batch, Self::RunsBatch),
        ];
        let known = kinds.into_iter().find(|(names, _)| names.iter().any(|known| known.matches(name.as_bytes())));
        known.map(|(_, kind)| kind).or_else(|| waiting_function(name.as_bytes()).map(|_| Self::Blocks))
    }
}
