//! Reads the sizes of matrix products from the shapes of CPU ops: `"Input Dims": [[8944, 1024], [1024, 1024]]` of `aten::mm`.
//!
//! Only the events of a few ops are searched, so the cost is a part of their text. Shapes that do not fit give no product.

use super::tensors;
use crate::trace::Precision;

/// The ops, each with the position of its first operand.
const OPS: [(&[u8], usize); 5] =
    [(b"aten::mm", 0), (b"aten::addmm", 1), (b"aten::bmm", 0), (b"aten::baddbmm", 1), (b"aten::_scaled_mm", 0)];

/// The sizes (batch, m, k, n) and the data type of the matrix product in the text of an event; `None` if the event is none or
/// has no shapes.
pub(super) fn read(name: &[u8], event: &[u8]) -> Option<([f64; 4], Precision)> {
    let (_, first) = OPS.iter().find(|(op, _)| *op == name)?;
    let shapes = tensors::shapes(after(event, b"\"Input Dims\":")?).take(first + 2).collect::<Option<Vec<_>>>()?;
    let (left, right) = (shapes.get(*first)?, shapes.get(first + 1)?);
    let sizes = match (left.as_slice(), right.as_slice()) {
        ([m, k], [inner, n]) if k == inner => [1, *m, *k, *n],
        ([batch, m, k], [other, inner, n]) if k == inner && batch == other => [*batch, *m, *k, *n],
        _ => return None,
    };
    let sizes = sizes.map(|size| size as f64);
    let types = after(event, b"\"Input type\":").unwrap_or_default();
    Some((sizes, precision(types, *first)))
}

/// The text after the first occurrence of a key.
fn after<'a>(text: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let start = text.windows(key.len()).position(|window| window == key)?;
    text.get(start + key.len()..)
}

/// The common type of the operands `first` and `first + 1` in a list of type names.
fn precision(types: &[u8], first: usize) -> Precision {
    let of_operand = |index: usize| match tensors::types(types).nth(index) {
        Some("c10::BFloat16" | "c10::Half") => Precision::Half,
        Some(name) if name.starts_with("c10::Float8_") => Precision::Fp8,
        _ => Precision::Other,
    };
    let (left, right) = (of_operand(first), of_operand(first + 1));
    if left == right { left } else { Precision::Other }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_args(name: &str, args: &str) -> Option<([f64; 4], Precision)> {
        read(name.as_bytes(), format!(r#"{{"ph": "X", "name": "{name}", "args": {{{args}}}}}"#).as_bytes())
    }

    #[test]
    fn the_sizes_of_a_product_follow_from_the_shapes_of_its_operands() {
        let half = r#""Input type": ["c10::BFloat16", "c10::BFloat16"], "Input Dims": [[8, 4], [4, 2]]"#;
        assert_eq!(read_args("aten::mm", half), Some(([1.0, 8.0, 4.0, 2.0], Precision::Half)));
        let bias = r#""Input Dims": [[2], [8,4], [4,2], [], []], "Input type": ["float", "c10::Half", "c10::Half", "Scalar", "Scalar"]"#;
        assert_eq!(read_args("aten::addmm", bias), Some(([1.0, 8.0, 4.0, 2.0], Precision::Half)));
        let batch = r#""Input type": ["float", "float"], "Input Dims": [[3, 8, 4], [3, 4, 2]]"#;
        assert_eq!(read_args("aten::bmm", batch), Some(([3.0, 8.0, 4.0, 2.0], Precision::Other)));
        let fp8 = r#""Input type": ["c10::Float8_e4m3fn", "c10::Float8_e4m3fn", "float"], "Input Dims": [[8, 4], [4, 2], []]"#;
        assert_eq!(read_args("aten::_scaled_mm", fp8), Some(([1.0, 8.0, 4.0, 2.0], Precision::Fp8)));
    }

    #[test]
    fn events_without_fitting_shapes_are_no_product() {
        for (name, args) in [
            ("aten::mm", r#""External id": 7"#),
            ("aten::mm", r#""Input Dims": [[8, 4], [5, 2]]"#),
            ("aten::mm", r#""Input Dims": [[8, 4]]"#),
            ("aten::mm", r#""Input Dims": [[[8, 4], [4, 2]], [4, 2]]"#),
            ("aten::mm", r#""Input Dims": [[8, -4], [-4, 2]]"#),
            ("aten::mm", r#""Input Dims": 7"#),
            ("aten::mm", r#""Input Dims": [["#),
            ("aten::add", r#""Input Dims": [[8, 4], [4, 2]]"#),
            ("aten::bmm", r#""Input Dims": [[3, 8, 4], [2, 4, 2]]"#),
        ] {
            assert_eq!(read_args(name, args), None, "{name} {args}");
        }
        let mixed = r#""Input type": ["float", "c10::Half"], "Input Dims": [[8, 4], [4, 2]]"#;
        assert_eq!(read_args("aten::mm", mixed), Some(([1.0, 8.0, 4.0, 2.0], Precision::Other)));
        assert_eq!(
            read_args("aten::mm", r#""Input Dims": [[8, 4], [4, 2]]"#),
            Some(([1.0, 8.0, 4.0, 2.0], Precision::Other))
        );
    }
}
