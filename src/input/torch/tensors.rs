//! Reads the shapes and element types of tensors, as torch writes them with `record_shapes`: `"Input Dims": [[8, 1024], [2]]`
//! and `"Input type": ["float", "c10::Half"]`. Linear in the text that is consumed.

use crate::trace::Element;

/// The shapes in a list such as `[[8, 1024], [], [2]]`; text after the list is ignored. The iterator ends with `None` as item
/// at the first element that is no shape, such as a list of tensors, and if the list is not closed.
pub(super) fn shapes(list: &[u8]) -> impl Iterator<Item = Option<Vec<u64>>> {
    let mut rest = Some(list.trim_ascii_start().strip_prefix(b"[").unwrap_or_default());
    std::iter::from_fn(move || {
        let text = rest.take()?.trim_ascii_start();
        if text.starts_with(b"]") {
            return None;
        }
        let parsed = shape(text);
        rest = parsed.as_ref().map(|(_, after)| {
            let after = after.trim_ascii_start();
            after.strip_prefix(b",").unwrap_or(after)
        });
        Some(parsed.map(|(lengths, _)| lengths))
    })
}

/// The lengths in `[8, 1024]`, and the text after it.
fn shape(text: &[u8]) -> Option<(Vec<u64>, &[u8])> {
    let text = text.strip_prefix(b"[")?;
    let end = text.iter().position(|byte| *byte == b']')?;
    let (lengths, after) = text.split_at_checked(end)?;
    let lengths = std::str::from_utf8(lengths).ok()?.split(',').map(str::trim).filter(|length| !length.is_empty());
    Some((lengths.map(|length| length.parse().ok()).collect::<Option<_>>()?, after.strip_prefix(b"]")?))
}

/// The names in a list such as `["float", "c10::Half"]`; text after the list is ignored.
pub(super) fn types(list: &[u8]) -> impl Iterator<Item = &str> {
    let list = list.split(|byte| *byte == b']').next().unwrap_or_default();
    // Names are the odd parts between quotation marks.
    list.split(|byte| *byte == b'"').skip(1).step_by(2).map(|name| std::str::from_utf8(name).unwrap_or_default())
}

/// The element type with a C++ name, as torch writes it.
pub(super) fn element(name: &str) -> Element {
    match name {
        "double" => Element::Fp64,
        "float" => Element::Fp32,
        "c10::Half" => Element::Fp16,
        "c10::BFloat16" => Element::Bf16,
        "long" | "long int" => Element::Int64,
        "int" => Element::Int32,
        "short" | "short int" => Element::Int16,
        "unsigned char" | "signed char" => Element::Int8,
        "bool" => Element::Bool,
        float8 if float8.starts_with("c10::Float8_") => Element::Fp8,
        float4 if float4.starts_with("c10::Float4_") => Element::PackedFp4,
        _ => Element::Other,
    }
}

/// The texts in a list such as `["", "[1, 1]", "True"]`, up to the first with an escape; text after the list is ignored.
pub(super) fn texts(list: &[u8]) -> impl Iterator<Item = &str> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let start = memchr::memchr2(b'"', b']', rest).filter(|at| rest.get(*at) == Some(&b'"'))?;
        let text = rest.get(start + 1..)?;
        let end = memchr::memchr2(b'"', b'\\', text).filter(|at| text.get(*at) == Some(&b'"'))?;
        rest = text.get(end + 1..)?;
        std::str::from_utf8(text.get(..end)?).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_end_at_the_first_element_that_is_none() {
        let read = |list: &str| shapes(list.as_bytes()).collect::<Vec<_>>();
        assert_eq!(read("[[8, 1024], [] , [2]], [[7]]"), [Some(vec![8, 1024]), Some(vec![]), Some(vec![2])]);
        assert_eq!(read("[]"), []);
        assert_eq!(read("[[3], [[4]], [5]]"), [Some(vec![3]), None]);
        for broken in ["", "7", "[", "[[", "[[3", "[[-3]]", "[[3 4]]", "[[\u{e9}]]"] {
            assert_eq!(read(broken), [None], "{broken}");
        }
        assert_eq!(read("[[3]"), [Some(vec![3]), None], "the list is not closed");
    }

    #[test]
    fn texts_may_contain_brackets() {
        let read = |list: &str| texts(list.as_bytes()).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(read(r#"["", "[1, 1]", "True"], "other": ["7"]"#), ["", "[1, 1]", "True"]);
        assert_eq!(read(r#"["1", "a\"b", "2"]"#), ["1"], "an escape ends the list");
        for empty in ["", "[]", "[", "[\"", "7"] {
            assert_eq!(read(empty), [""; 0], "{empty}");
        }
    }

    #[test]
    fn types_are_the_names_in_the_first_list() {
        let read = |list: &str| types(list.as_bytes()).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(read(r#"["float","c10::Half"], "other": ["int"]"#), ["float", "c10::Half"]);
        assert_eq!(read("[]"), [""; 0]);
        assert_eq!(read(r#"["flo"#), ["flo"]);
    }
}
