//! The name of a Python function in a trace, `PATH/FILE(LINE): FUNCTION`, compared with a file and a function of a list. A name costs one
//! comparison of its end.

use crate::json::from_json;

/// A function of a file. The file may have folders before its name.
#[derive(Debug)]
pub(super) struct CodeName {
    file: String,
    function: String,
}
from_json!(strict CodeName { file, function });

impl CodeName {
    /// Whether the raw name of a frame is this function.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
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
