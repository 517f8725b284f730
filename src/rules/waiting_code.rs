//! Names of functions and ops in which a thread only waits for another thread or process (`patterns/waiting_code.json`).

use crate::json::{self, embedded, from_json};
use std::sync::LazyLock;

#[derive(Debug)]
struct WaitingCode {
    /// The begin of a built-in Python function.
    functions: Vec<String>,
    /// A part of the name of a range.
    ops: Vec<String>,
}
from_json!(strict WaitingCode { functions, ops });

static WORDS: LazyLock<WaitingCode> =
    LazyLock::new(|| embedded(json::read(include_str!("../../patterns/waiting_code.json"))));

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
/// assert!(!is_waiting_code("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"));
/// ```
pub fn is_waiting_code(name: &str) -> bool {
    waiting_function(name.as_bytes()).is_some() || WORDS.ops.iter().any(|part| name.contains(part.as_str()))
}
