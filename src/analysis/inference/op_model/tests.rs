use super::*;
use crate::trace::Element::{Bf16, Bool, Fp8, Fp16, Fp32, Int8, Int64, Other, PackedFp4};
use proptest::prelude::*;

type Tensor<'a> = (&'a [u64], Element);

fn argument(lengths: &[u64], element: Element, value: &str) -> Argument {
    Argument {
        lengths: lengths.to_vec(),
        elements: lengths.iter().fold(1, |product: u64, length| product.saturating_mul(*length)),
        element,
        value: value.to_owned(),
    }
}

fn op(name: &str, tensors: &[Tensor]) -> OpShape {
    let arguments = tensors.iter().map(|(lengths, element)| argument(lengths, *element, "")).collect();
    OpShape { op: name.to_owned(), arguments }
}

/// An op with these tensors and values, where each value follows the last tensor.
fn op_with_values(name: &str, tensors: &[Tensor], values: &[&str]) -> OpShape {
    let mut op = op(name, tensors);
    op.arguments.extend(values.iter().map(|value| argument(&[], Other, value)));
    op
}

/// Shape, types, operations and bytes.
fn figures(op: &OpShape) -> Option<(String, String, Option<f64>, Option<f64>)> {
    cost(op).map(|cost| (cost.shape, cost.types, cost.flop, cost.bytes))
}

#[track_caller]
fn assert_cost(op: &OpShape, shape: &str, types: &str, flop: Option<f64>, bytes: Option<f64>) {
    assert_eq!(figures(op), Some((shape.to_owned(), types.to_owned(), flop, bytes)));
}

#[test]
fn a_product_counts_two_operations_a_term_and_each_matrix_once() {
    // 2 * 8 * 2 * 4 = 128 operations; (8*4 + 4*2 + 8*2) * 2 = 112 bytes.
    let mm = op("aten::mm", &[(&[8, 4], Bf16), (&[4, 2], Bf16)]);
    assert_cost(&mm, "8 x 2 x 4", "BF16", Some(128.0), Some(112.0));
    let addmm = op("aten::addmm", &[(&[2], Bf16), (&[8, 4], Bf16), (&[4, 2], Bf16)]);
    assert_cost(&addmm, "8 x 2 x 4", "BF16", Some(128.0), Some(112.0));
    let linear = op("aten::linear", &[(&[2, 4, 4], Bf16), (&[2, 4], Bf16)]);
    assert_cost(&linear, "8 x 2 x 4", "BF16", Some(128.0), Some(112.0));
    let bmm = op("aten::bmm", &[(&[3, 8, 4], Fp32), (&[3, 4, 2], Fp32)]);
    assert_cost(&bmm, "3 x (8 x 2 x 4)", "FP32", Some(384.0), Some(672.0));
    let unknown = op("aten::mm", &[(&[8, 4], Other), (&[4, 2], Other)]);
    assert_cost(&unknown, "8 x 2 x 4", "", Some(128.0), None);
}

#[test]
fn the_result_of_types_with_eight_bits_or_less_has_sixteen() {
    // 32 + 8 bytes of operands, 16 * 2 of the result.
    let fp8 = op("aten::_scaled_mm", &[(&[8, 4], Fp8), (&[4, 2], Fp8)]);
    assert_cost(&fp8, "8 x 2 x 4", "FP8", Some(128.0), Some(72.0));
    // Each byte has two values: K is 8.
    for fp4 in [
        op("aiter::gemm_a4w4", &[(&[8, 4], Int8), (&[2, 4], Int8)]),
        op("aten::_scaled_mm", &[(&[8, 4], PackedFp4), (&[4, 2], PackedFp4)]),
    ] {
        assert_cost(&fp4, "8 x 2 x 8", "FP4", Some(256.0), Some(72.0));
        assert_eq!(cost(&fp4).unwrap().precision, Some(PackedFp4));
    }
    let mixed = op("aiter::gemm_a16w16", &[(&[8, 4], Bf16), (&[2, 4], Fp8)]);
    assert_cost(&mixed, "8 x 2 x 4", "BF16, FP8", Some(128.0), Some(104.0));
    assert_eq!(cost(&mixed).unwrap().precision, None);
}

#[test]
fn the_layout_of_the_second_matrix_follows_from_its_shape() {
    let cutlass = |b: &[u64]| op("_C::cutlass_scaled_mm", &[(&[8, 2], Bf16), (&[8, 4], Fp8), (b, Fp8)]);
    assert_eq!(figures(&cutlass(&[4, 2])), figures(&cutlass(&[2, 4])));
    let square = op("aten::linear", &[(&[8, 4], Bf16), (&[4, 4], Bf16)]);
    assert_cost(&square, "8 x 4 x 4", "BF16", Some(256.0), Some(160.0));
}

#[test]
fn shapes_that_do_not_fit_have_no_cost() {
    for op in [
        op("aten::mm", &[(&[8, 4], Bf16), (&[5, 2], Bf16)]),
        op("aten::mm", &[(&[8, 4], Bf16)]),
        op("aten::mm", &[(&[4], Bf16), (&[4, 2], Bf16)]),
        op("aten::bmm", &[(&[3, 8, 4], Bf16), (&[2, 4, 2], Bf16)]),
        op("aten::mm", &[]),
        op("aten::empty", &[(&[8, 4], Bf16)]),
        op("aten::_flash_attention_forward", &[(&[9, 2, 4], Bf16), (&[9, 2, 4], Bf16), (&[9, 2, 4], Bf16)]),
        op("aten::mul", &[(&[3], Bf16), (&[2], Bf16)]),
        op("aten::mul", &[(&[3], Other), (&[3], Other)]),
        op("aten::convolution", &[(&[1, 4, 8], Bf16), (&[2, 4, 3], Bf16)]),
    ] {
        assert_eq!(figures(&op), None, "{op:?}");
    }
    let huge = op("aten::mm", &[(&[u64::MAX, u64::MAX], PackedFp4), (&[u64::MAX, u64::MAX], PackedFp4)]);
    assert!(figures(&huge).is_some(), "no overflow");
}

#[test]
fn attention_counts_both_products_and_a_causal_mask_leaves_out_a_triangle() {
    // 2 sequences, 3 heads, 4 queries and keys of size 8: 2 * 2 * 3 * 16 pairs * (8 + 8) = 3072 operations.
    let size: Tensor = (&[2, 3, 4, 8], Fp16);
    let flash = |causal| op_with_values("aten::_scaled_dot_product_flash_attention", &[size; 3], &["0.", causal]);
    // 2 bytes * 2 * (4*3*16 + 4*3*16) = 1536.
    assert_cost(&flash("False"), "batch 2, heads 3/3, 4 x 4, size 8", "FP16", Some(3_072.0), Some(1_536.0));
    assert_cost(&flash("True"), "batch 2, heads 3/3, 4 x 4, size 8 causal", "FP16", Some(1_536.0), Some(1_536.0));
    assert_cost(&flash(""), "batch 2, heads 3/3, 4 x 4, size 8 mask unknown", "FP16", None, Some(1_536.0));
    // Positions before heads; one key head for three query heads; 9 keys for 4 queries: 36 - 8 pairs.
    let (q, k): (Tensor, Tensor) = ((&[2, 4, 3, 8], Fp16), (&[2, 9, 1, 8], Fp8));
    let forward = op_with_values("aten::_flash_attention_forward", &[q, k, k], &["", "", "4", "9", "0.", "True"]);
    // 2 * 2 * 3 * 28 * 16 = 5376; 2 * 16 * (2*4*3 + 9*1) = 1056.
    assert_cost(&forward, "batch 2, heads 3/1, 4 x 9, size 8 causal", "FP16, FP8", Some(5_376.0), Some(1_056.0));
}

#[test]
fn a_convolution_counts_the_terms_of_its_output() {
    // 10 - 3 + 2 = 9, by stride 2: 5 positions. 2 * 1 * 6 channels * 25 * 4 * 9 = 10800 operations.
    let tensors: [Tensor; 3] = [(&[1, 4, 10, 10], Fp16), (&[6, 4, 3, 3], Fp16), (&[6], Fp16)];
    let values = |transposed| ["[2, 2]", "[1, 1]", "[1]", transposed, "[0, 0]", "1"];
    let plain = op_with_values("aten::convolution", &tensors, &values("False"));
    // (400 + 216 + 150) * 2 bytes.
    let shape = "batch 1, 4 to 6 channels, 10 x 10, kernel 3 x 3";
    assert_cost(&plain, shape, "FP16", Some(10_800.0), Some(1_532.0));
    assert_eq!(figures(&op_with_values("aten::convolution", &tensors, &values("True"))), None, "transposed");
    // cuDNN: padding, stride, dilation, groups. Dilation 2: 10 - 2*2 = 6 positions; 2 groups of 2 channels.
    let grouped: [Tensor; 2] = [(&[1, 4, 10], Fp16), (&[6, 2, 3], Fp16)];
    let cudnn = op_with_values("aten::cudnn_convolution", &grouped, &["[0]", "[1]", "[2]", "2", "False"]);
    let shape = "batch 1, 4 to 6 channels, 10, kernel 3, 2 groups";
    assert_cost(&cudnn, shape, "FP16", Some(2.0 * 6.0 * 6.0 * 2.0 * 3.0), Some(2.0 * (40.0 + 36.0 + 36.0)));
    for broken in [["[0]", "[0]", "[1]", "2"], ["[0]", "[1]", "[9]", "2"], ["[0]", "[1]", "[1]", "3"], ["", "", "", ""]]
    {
        assert_eq!(figures(&op_with_values("aten::cudnn_convolution", &grouped, &broken)), None, "{broken:?}");
    }
}

#[test]
fn the_bytes_of_experts_depend_on_the_routing() {
    // 5 tokens choose 2 of 8 experts; h = 4, I = 3: 2 * 5 * 2 * 3 * 4 * 3 = 720 operations.
    let tensors: [Tensor; 5] =
        [(&[5, 4], Bf16), (&[8, 6, 4], Bf16), (&[8, 4, 3], Bf16), (&[5, 2], Fp32), (&[5, 2], Int64)];
    let cost = cost(&op("vllm::inplace_fused_experts", &tensors)).unwrap();
    assert_eq!((cost.shape.as_str(), cost.flop), ("5 tokens, 2 of 8 experts, 4 x 3", Some(720.0)));
    // An expert has 72 bytes, the hidden states 40 in and 40 out; at least 2 and at most all 8 experts are read.
    assert_eq!((cost.bytes, cost.most_bytes), (Some(224.0), Some(656.0)));
}

#[test]
fn ops_that_move_memory_count_what_they_read_and_write() {
    // 4*3 and 3 elements in, 4*3 out.
    let add = op("aten::add", &[(&[4, 3], Bf16), (&[3], Bf16), (&[], Other)]);
    assert_cost(&add, "4 x 3", "BF16", None, Some(54.0));
    let scaled = op("aten::mul", &[(&[4, 3], Bf16), (&[], Element::Fp64)]);
    assert_cost(&scaled, "4 x 3", "BF16, FP64", None, Some(56.0));
    let wider = op("aten::mul", &[(&[4, 3], Bf16), (&[4, 1], Fp32)]);
    assert_cost(&wider, "4 x 3", "BF16, FP32", None, Some(24.0 + 16.0 + 48.0));
    let masked = op("aten::masked_fill_", &[(&[4, 3], Bf16), (&[4, 1], Bool)]);
    assert_cost(&masked, "4 x 3", "BF16, bool", None, Some(24.0 + 4.0 + 24.0));
    let copy = op("aten::copy_", &[(&[4, 3], Bf16), (&[4, 3], Fp32)]);
    assert_cost(&copy, "4 x 3", "FP32, BF16", None, Some(72.0));
    let silu = op("_C::silu_and_mul", &[(&[4, 3], Bf16), (&[4, 6], Bf16)]);
    assert_cost(&silu, "4 x 3", "BF16", None, Some(72.0));
    let norm = op("_C::fused_add_rms_norm", &[(&[4, 3], Bf16), (&[4, 3], Bf16), (&[3], Bf16)]);
    assert_cost(&norm, "4 x 3", "BF16", None, Some(102.0));
    // An expanded source repeats one row of three elements.
    let mut expanded = op("aten::copy_", &[(&[4, 3], Bf16), (&[4, 3], Bf16)]);
    expanded.arguments[1].elements = 3;
    assert_cost(&expanded, "4 x 3", "BF16", None, Some(30.0));
}

proptest! {
    #[test]
    fn no_arguments_panic(
        arguments in prop::collection::vec(
            (prop::collection::vec(prop_oneof![0_u64..4, any::<u64>()], 0..5), "(True|1|\\[[0-9, ]{0,20}\\]?)?"), 0..10),
    ) {
        let arguments: Vec<Argument> =
            arguments.iter().map(|(lengths, value)| argument(lengths, Bf16, value)).collect();
        let names = ["aten::mm", "aten::linear", "aten::add", "aten::convolution", "aten::_flash_attention_forward",
            "aten::_scaled_dot_product_flash_attention", "aiter::fused_moe_", "aiter::gemm_a4w4", "aten::copy_"];
        for name in names {
            let _ = cost(&OpShape { op: name.to_owned(), arguments: arguments.clone() });
        }
    }
}

#[test]
fn grouped_products_read_one_to_all_matrices_of_their_experts() {
    // 6 rows, 4 x 2 weights of each of 3 experts: 96 operations, 48 + 24 bytes of rows, 16 bytes of each matrix.
    let grouped = cost(&op("aten::_grouped_mm", &[(&[6, 4], Bf16), (&[3, 4, 2], Bf16), (&[3], Other)])).unwrap();
    assert_eq!((grouped.shape.as_str(), grouped.flop), ("6 x 2 x 4, 3 experts", Some(96.0)));
    assert_eq!((grouped.bytes, grouped.most_bytes), (Some(72.0 + 16.0), Some(72.0 + 48.0)));
    assert_eq!(cost(&op("aten::_grouped_mm", &[(&[6, 4], Bf16), (&[3, 5, 2], Bf16)])), None, "lengths that do not fit");
}

#[test]
fn the_weights_of_a_product_are_its_second_matrix() {
    let weights = |op: &OpShape| cost(op).unwrap().weight_bytes;
    assert_eq!(weights(&op("aten::mm", &[(&[8, 4], Bf16), (&[4, 2], Bf16)])), Some(16.0));
    assert_eq!(weights(&op("aten::linear", &[(&[8, 4], Fp8), (&[2, 4], Fp8)])), Some(8.0));
    assert_eq!(weights(&op("aten::bmm", &[(&[3, 8, 4], Bf16), (&[3, 4, 2], Bf16)])), None, "both are activations");
}
