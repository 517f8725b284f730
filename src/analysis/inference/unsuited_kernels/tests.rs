use super::*;
use crate::analysis::testing::{number, read_json, row, rows_of, shared, torch, words};
use crate::input::nsys;
use crate::trace::testing::TestTrace;
use std::collections::BTreeMap;

const OLD: &str = "Matrix products for older GPUs";
const ALIGNMENT: &str = "Matrix operands without alignment";
const FP32: &str = "FP32 matrix products on CUDA cores";
const FLASH2: &str = "FlashAttention 2";
const SPLIT_K: &str = "Reductions of split-K products";
const UNFUSED: &str = "Attention in separate kernels";

/// The problems of kernels that run for 10 us each, one after the other, on a GPU of this compute capability.
fn problems(capability: Option<u32>, kernels: &[&str]) -> Vec<String> {
    let mut trace = TestTrace::new();
    trace.in_us();
    capability.into_iter().for_each(|capability| {
        trace.capability(capability);
    });
    for (start, kernel) in (0..).step_by(10).zip(kernels) {
        trace.kernel(kernel, start..start + 10);
    }
    rows_of(&trace.section(unsuited_kernels), &["problem", "launches"])
}

#[test]
fn every_test_is_well_formed() {
    let is_word = |word: &String| !word.is_empty() && *word == word.to_lowercase();
    for test in &FILE.tests {
        assert!(!test.any.is_empty() && test.any.iter().chain(&test.all).chain(&test.none).all(is_word), "{test:?}");
        assert!(["proven", "inferred", "guess"].contains(&test.confidence.as_str()), "{test:?}");
        assert!(test.capability_below.is_none_or(|below| below > test.capability_from), "{test:?}");
        assert!(test.advice.ends_with('.') && test.min_share_pct >= 1.0, "{test:?}");
        assert_eq!(test.saved_share.is_some(), test.basis.is_some(), "{test:?}");
        let is_proven = test.confidence == "proven";
        assert!(test.saved_share.is_none_or(|share| is_proven && share > 0.0 && share < 1.0), "{test:?}");
        // It becomes the title of a finding, which the verdict repeats within a sentence.
        let first_word = test.problem.split(' ').next().unwrap_or_default();
        let is_name = first_word.chars().skip(1).any(|letter| letter.is_uppercase() || letter.is_ascii_digit());
        assert!(test.saved_share.is_none() || is_name, "{test:?}");
    }
}

#[test]
fn instructions_of_older_gpus_are_a_problem_only_where_newer_ones_exist() {
    let sm80 = ["sm80_xmma_gemm_bf16bf16_bf16f32"];
    for (capability, expected) in
        [(Some(80), 0), (Some(86), 0), (Some(89), 0), (Some(90), 1), (Some(100), 1), (Some(103), 1), (None, 0)]
    {
        assert_eq!(problems(capability, &sm80).len(), expected, "{capability:?}");
    }
    assert!(problems(Some(120), &sm80).is_empty(), "these GPUs have the instructions of 8.0 and no others");
    let sm90 = ["cutlass3x_sm90_gemm"];
    assert!(problems(Some(90), &sm90).is_empty());
    assert_eq!(problems(Some(103), &sm90), ["Matrix products for compute capability 9.0 1"]);
    assert!(problems(Some(103), &["bmm_Bfloat16_sm100f"]).is_empty(), "one family");
    assert!(problems(Some(90), &["ampere_elementwise"]).is_empty(), "no matrix product");
    assert_eq!(problems(Some(90), &["cutlass_80_simt_sgemm"]), [format!("{FP32} 1")], "no GPU has newer ones for FP32");
}

#[test]
fn flash_attention_2_is_a_problem_only_where_a_newer_version_exists() {
    let kernel = ["void pytorch_flash::flash_fwd_kernel<...>"];
    assert_eq!(problems(Some(90), &kernel), [format!("{FLASH2} 1")]);
    assert_eq!(problems(Some(103), &kernel), [format!("{FLASH2} 1")]);
    assert!(problems(Some(89), &kernel).is_empty() && problems(Some(120), &kernel).is_empty());
    assert!(problems(Some(90), &["cutlass::device_kernel<flash::FlashAttnFwdSm90<...>>"]).is_empty());
    assert!(problems(Some(90), &["flash::compute_attn_ws<...>"]).is_empty());
}

#[test]
fn alignment_and_data_types_follow_from_the_name() {
    assert_eq!(problems(Some(80), &["tensorop_s1688gemm_64x64_nn_align1"]), [format!("{ALIGNMENT} 1")]);
    assert!(problems(Some(80), &["tensorop_s1688gemm_64x64_nn_align16"]).is_empty());
    assert_eq!(problems(Some(80), &["ampere_sgemm_128x128_tn"]), [format!("{FP32} 1")]);
    assert!(problems(Some(80), &["ampere_fp16_sgemm_fp16_128x64_tn"]).is_empty(), "operands of 16 bits");
    assert!(problems(Some(80), &["cutlass_80_simt_dgemm_128x32"]).is_empty(), "FP64");
    assert!(problems(Some(60), &["maxwell_sgemm_128x64_tn"]).is_empty(), "no tensor cores");
}

#[test]
fn advice_for_fp32_fits_the_gpu() {
    let advice = |capability| {
        let mut trace = TestTrace::new();
        let section = trace.capability(capability).kernel("volta_sgemm_128x32_nt", 0..10).section(unsuited_kernels);
        words(&section.rows[0], "advice").to_owned()
    };
    assert!(advice(90).contains("TF32") && !advice(90).contains("neither"));
    assert!(advice(70).contains("neither BF16 nor TF32"));
    assert!(advice(120).contains("GeForce"));
    let mut unknown = TestTrace::new();
    let section = unknown.kernel("volta_sgemm_128x32_nt", 0..10).section(unsuited_kernels);
    assert!(!words(&section.rows[0], "advice").contains("GeForce"), "nothing is claimed for a GPU that is not known");
}

#[test]
fn small_problems_are_left_out() {
    let share = |split_k: i64| {
        let mut trace = TestTrace::new();
        let section = trace.kernel("k", 0..1_000 - split_k).kernel("splitKreduce_kernel", 2_000..2_000 + split_k);
        section.section(unsuited_kernels).rows.len()
    };
    assert_eq!((share(19), share(20)), (0, 1));
}

#[test]
fn a_product_a_softmax_and_a_product_in_turn_are_attention() {
    let softmax = "softmax_warp_forward<c10::Half, float, float, 7, false, false>";
    let repeated = |part: &[&str], times: usize| problems(Some(80), &part.repeat(times));
    let attention = ["gemm_qk", softmax, "gemm_pv"];
    assert_eq!(repeated(&attention, 3), [format!("{UNFUSED} 3")]);
    assert!(repeated(&attention, 2).is_empty(), "chance");
    let spaced = |distance: usize| {
        let others = vec!["add"; distance - 1];
        [&["gemm_qk"][..], &others, &[softmax], &others, &["gemm_pv"], &["add"; 9]].concat()
    };
    assert_eq!(repeated(&spaced(8), 3), [format!("{UNFUSED} 3")]);
    assert!(repeated(&spaced(9), 3).is_empty());
    let loss = "softmax_warp_forward<float, float, float, 7, true, false>";
    assert!(repeated(&["gemm", loss, "gemm"], 5).is_empty(), "a logarithm, which a loss needs");
    assert!(repeated(&["gemm_router", softmax, "gatherTopK", "gemm_experts"], 5).is_empty(), "selection of experts");
    assert!(repeated(&["gemm_lm_head", softmax, "multinomial", "gemm_qkv"], 5).is_empty(), "selection of tokens");
}

#[test]
fn the_time_per_step_counts_ops_of_steps_only() {
    let mut trace = TestTrace::new();
    trace.in_us().capability(80);
    for start in [0, 1_000] {
        trace.range("step[DECODE bs=2]", start..start + 50).launch(start..start + 1);
        trace.launches("ampere_sgemm_128x128_tn", start + 100..start + 130);
    }
    trace.kernel("ampere_sgemm_128x128_tn", 3_000..3_100);
    let section = trace.section(unsuited_kernels);
    let found = &section.rows[0];
    assert_eq!((number(found, "total_ms"), number(found, "per_step_ms")), (0.16, 0.03));
    assert_eq!(words(found, "capability"), "8.0");
}

#[test]
fn without_kernels_the_section_says_what_to_capture() {
    assert!(TestTrace::new().section(unsuited_kernels).missing.is_some());
}

/// Counts and times of an independent program, which does not know the compute capability of Nsight exports.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn kernels_of_shared_traces_match_an_independent_program() {
    const TESTS: [(&str, &str); 5] = [
        ("gemm built for sm80", OLD),
        ("gemm on FP32 CUDA cores", FP32),
        ("gemm with alignment 1", ALIGNMENT),
        ("FlashAttention 2 kernel", FLASH2),
        ("split-K or its reduction", SPLIT_K),
    ];
    for name in [
        "h100_2gpu_fastvideo_s3.25.sqlite",
        "h100_nvl_small.pt.trace.json.gz",
        "hf_qwen1.5_0.5b_h100.trace.json.gz",
        "hf_qwen1.5_0.5b_mi300.trace.json.gz",
        "nccl_metadata_a100.trace.json.gz",
        "particle_transformer_a100.pt.trace.json.gz",
        "resnet50_v100_torch1.9.pt.trace.json.gz",
        "sglang_qwen3_30b_b300_decode.trace.json.gz",
        "sglang_qwen3_30b_mi300_decode.trace.json.gz",
        "sglang_qwen3_8b_mi300_extend.trace.json.gz",
        "train_a100_rank3of8.trace.json.gz",
        "vllm_b200_eager_prefill.trace.json.gz",
        "vllm_mi300_decode_full_graph.trace.json.gz",
    ] {
        let id =
            name.split_once(".pt.").or_else(|| name.split_once(".trace.")).or_else(|| name.rsplit_once('.')).unwrap().0;
        let trace = trace(name);
        let context = Context::new(&trace, 30);
        let mut found: BTreeMap<&str, (u64, f64)> = BTreeMap::new();
        for hit in hits(&context) {
            let sum = found.entry(hit.test.problem.as_str()).or_default();
            *sum = (sum.0 + hit.launches, sum.1 + hit.total.0 as f64 / 1e3);
        }
        let oracle = read_json(&format!("oracles/inference/{id}.json"));
        for (theirs, ours) in TESTS {
            let (count, us) = found.get(ours).copied().unwrap_or_default();
            let expected = &oracle["kernels"]["tests"][theirs];
            let (mut expected_count, expected_us) = (expected["n"].as_u64().unwrap_or(0), &expected["us"]);
            match (id, ours) {
                // The oracle lists these kernels for GPUs of every capability, and FP32 kernels twice: all on GPUs from 9.0 on.
                (_, OLD) => expected_count = 0,
                // Operands of 16 bits.
                ("particle_transformer_a100", FP32) => expected_count = 0,
                // The oracle also counts products, here without their reductions.
                ("resnet50_v100_torch1.9", SPLIT_K) => assert_eq!(expected_count, 12),
                _ => {}
            }
            assert_eq!(count, expected_count, "{id}: {ours}");
            if count > 0 {
                let expected_us = expected_us.as_f64().unwrap();
                assert!((us - expected_us).abs() <= 0.1 + 0.001 * expected_us, "{id}: {ours} {us} {expected_us}");
            }
        }
    }
}

/// The trace of this name, from either folder.
fn trace(name: &str) -> Trace {
    if !name.ends_with(".sqlite") {
        return torch(name);
    }
    nsys::open(&shared(&format!("traces/nsys/{name}")), name).unwrap()
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn attention_of_shared_traces_matches_an_independent_program() {
    for (name, count, us) in [
        // Of two devices.
        ("h100_2gpu_fastvideo_s3.25.sqlite", Some(56), None),
        // Two of the ten begin with a product of a matrix and a vector, which the other program does not know: 34 us.
        ("particle_transformer_a100.pt.trace.json.gz", Some(10), Some(8_690.5 + 34.4)),
        // A loss.
        ("h100_nvl_small.pt.trace.json.gz", None, None),
        ("hf_qwen1.5_0.5b_h100.trace.json.gz", None, None),
    ] {
        let trace = trace(name);
        let found = super::unfused_attention(&Context::new(&trace, 30));
        assert_eq!(found.as_ref().map(|found| found.launches), count, "{name}");
        if let Some(us) = us {
            assert!((found.unwrap().total.0 as f64 / 1e3 - us).abs() < 1.0);
        }
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn a_report_of_a_real_decode_step_shows_its_reductions() {
    let trace = torch("sglang_qwen3_30b_b300_decode.trace.json.gz");
    let section = unsuited_kernels(&Context::new(&trace, 30)).section();
    let found = row(&section, "problem", SPLIT_K);
    assert_eq!((number(found, "launches"), words(found, "capability")), (96.0, "10.3"));
    assert!((number(found, "per_step_ms") - 0.302).abs() < 0.001);
    assert!((number(found, "share_of_kernel_time_pct") - 4.80).abs() < 0.01);
    assert_eq!(section.rows.len(), 1, "kernels for 10.0 are right on 10.3");
}
