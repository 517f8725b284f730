//! Sizes of collectives from the tensors of the `nccl:` annotation around their launch, for torch versions that do not write
//! the message with the kernel. O(k log r) for k kernels and r annotations; only annotations of collectives are stored.
//!
//! torch records the input tensors of the collective there (with `record_shapes`). The size of the output is not recorded.

use super::tensors;
use crate::ordering;
use crate::trace::{Collective, OpKind, Span, Trace};

/// An annotation of torch around the launch of a collective, and the bytes of its input tensors.
#[derive(Debug)]
pub(super) struct MessageRange {
    pub(super) span: Span,
    pub(super) bytes: u64,
}

/// True for annotations such as `nccl:all_reduce`.
pub(super) fn is_collective(name: &[u8]) -> bool {
    name.starts_with(b"nccl:")
}

/// Returns the size of all tensors with these `Input Dims` (`[[8, 1024], [2]]`) and this `Input type` (`["float", "int"]`);
/// `None` if one of them is not a tensor of a known type.
pub(super) fn bytes_of(dims: &[u8], types: &[u8]) -> Option<u64> {
    let mut types = tensors::types(types);
    let mut total = 0_u64;
    for shape in tensors::shapes(dims) {
        let bytes = tensors::element(types.next()?).bytes()?;
        let bytes = shape?.into_iter().try_fold(bytes, u64::checked_mul)?;
        total = total.checked_add(bytes)?;
    }
    (types.next().is_none() && total > 0).then_some(total)
}

/// Adds the message of each range to the kernel that was launched in it. A range with several kernels does not show the size
/// of each.
pub(super) fn join(trace: &mut Trace, mut ranges: Vec<MessageRange>) {
    ordering::sort_by_key(&mut ranges, |range| (range.span.thread, range.span.start));
    let enclosing = |call: Span| {
        let after = ranges.partition_point(|range| (range.span.thread, range.span.start) <= (call.thread, call.start));
        let index = after.checked_sub(1)?;
        let span = ranges.get(index)?.span;
        (span.thread == call.thread && call.end() <= span.end()).then_some(index)
    };
    let is_nccl: Vec<bool> = trace.names.iter().map(|name| name.contains("ccl")).collect();
    // By range: the number of its kernels, and the row of the last one.
    let mut kernels = vec![(0_u32, 0_u32); ranges.len()];
    for ((op, launch), row) in trace.gpu_ops.iter().zip(trace.gpu_ops.launches()).zip(0..) {
        if op.kind == OpKind::Kernel
            && is_nccl.get(op.name.0 as usize) == Some(&true)
            && let Some(call) = launch.and_then(|call| trace.calls.get(call.0 as usize))
            && let Some(range) = enclosing(call).and_then(|range| kernels.get_mut(range))
        {
            *range = (range.0 + 1, row);
        }
    }
    let recorded = trace.collectives.len();
    for ((count, row), range) in kernels.into_iter().zip(&ranges) {
        let recorded = trace.collectives.get(..recorded).unwrap_or_default();
        if count == 1 && recorded.binary_search_by_key(&row, |(row, _)| *row).is_err() {
            let operation = trace.ranges.names.get(range.span.name).to_owned();
            let message = Collective { operation, bytes_in: Some(range.bytes), ..Collective::default() };
            trace.collectives.push((row, message));
        }
    }
    ordering::sort_by_key(&mut trace.collectives, |(row, _)| *row);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_the_sum_over_all_tensors() {
        let bytes = |dims: &str, types: &str| bytes_of(dims.as_bytes(), types.as_bytes());
        assert_eq!(bytes("[[8, 1024, 8816]]", r#"["float"]"#), Some(288_882_688));
        assert_eq!(bytes("[[24]]", r#"["long int"]"#), Some(192));
        assert_eq!(bytes("[[3,2], []]", r#"["c10::BFloat16","double"]"#), Some(20), "no dimension is one element");
        for (dims, types) in [
            ("[[3]]", r#"["TensorList"]"#),
            ("[[3], [4]]", r#"["float"]"#),
            ("[[3]]", r#"["float", "float"]"#),
            ("[[[3], [4]]]", r#"["float"]"#),
            ("[[-3]]", r#"["float"]"#),
            ("[[0]]", r#"["float"]"#),
            ("[[9999999999, 9999999999]]", r#"["float"]"#),
            ("[]", "[]"),
            ("[[3", r#"["float"]"#),
            ("", ""),
        ] {
            assert_eq!(bytes(dims, types), None, "{dims} {types}");
        }
    }
}
