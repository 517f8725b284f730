//! The catalog of known fusions and overlaps: its data, the selection of families, the note on resemblance, and the rows of real
//! traces compared with manual labels.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

use crate::{common, testing};
use gpuprism::analysis::section::{Section, Value};
use gpuprism::analysis::triage::call_sites::{CallSite, Resolution};
use gpuprism::analysis::triage::frames;
use gpuprism::analysis::triage::fuse::{self, Confidence, Fusion, Messages, Status};
use gpuprism::analysis::triage::kernels::{self, KernelRow};
use gpuprism::analysis::triage::roof::Roofs;
use gpuprism::analysis::triage::{Framework, Options, Request, ServerArgs, Stage, View, catalog};
use gpuprism::trace::NONE;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use testing::TestTrace;

const CATALOG: &str = include_str!("../patterns/fuse_overlap_catalog.json");
const TOGGLES: &str = include_str!("../patterns/toggles.json");
const LABELS: &str = include_str!("data/triage_labels/catalog.json");

/// A run of a few kernels with their call sites, server arguments and fuse patterns.
struct Case {
    trace: TestTrace,
    sites: Vec<CallSite>,
    site_of_op: Vec<u32>,
    /// The start of the next op, in ns.
    next_start: i64,
    framework: Framework,
    server: ServerArgs,
    fusions: Vec<(&'static str, Status, Vec<&'static str>)>,
}

impl Case {
    fn new(framework: Framework, device: &'static str) -> Self {
        let mut trace = TestTrace::new();
        trace.named_device(0, device);
        Self {
            trace,
            sites: Vec::new(),
            site_of_op: Vec::new(),
            next_start: 0,
            framework,
            server: ServerArgs::default(),
            fusions: Vec::new(),
        }
    }

    fn server(mut self, arguments: Json) -> Self {
        self.server = ServerArgs(arguments.as_object().unwrap().clone());
        self
    }

    fn fusion(mut self, pattern: &'static str, status: Status, kernels: &[&'static str]) -> Self {
        self.fusions.push((pattern, status, kernels.to_vec()));
        self
    }

    /// Adds a kernel on stream 7 without a known call site.
    fn kernel(self, name: &str, duration_us: i64) -> Self {
        self.op(name, duration_us, 7, None)
    }

    fn kernel_at(self, name: &str, duration_us: i64, stack: &[&str], cpu_op: &str) -> Self {
        let stack: Vec<String> = stack.iter().map(|frame| (*frame).to_owned()).collect();
        let location = stack.last().cloned().unwrap_or_default();
        let site = CallSite {
            display: location.clone(),
            location,
            stack,
            cpu_op: cpu_op.to_owned(),
            resolution: Resolution::Exact,
        };
        self.op(name, duration_us, 7, Some(site))
    }

    fn op(mut self, name: &str, duration_us: i64, stream: i64, site: Option<CallSite>) -> Self {
        let site = site.map_or(NONE, |site| {
            self.sites.push(site);
            u32::try_from(self.sites.len() - 1).unwrap()
        });
        self.site_of_op.push(site);
        let end = self.next_start + 1000 * duration_us;
        self.trace.stream(stream).kernel(name, self.next_start..end);
        self.next_start = end + 100;
        self
    }

    /// Adds an annotation of a step that covers all kernels so far.
    fn step(mut self, text: &str) -> Self {
        self.trace.with_code().annotation(text, 0..self.next_start);
        self
    }

    fn section(self) -> Section {
        self.section_with(Options::default())
    }

    fn section_with(mut self, options: Options) -> Section {
        let trace = self.trace.finish();
        let request = Request {
            trace: &trace,
            path: "",
            file_stage: Stage::Decode,
            mapping: &[],
            server: &self.server,
            framework: Some(self.framework),
            options: &options,
        };
        let mut view = View::new(&request);
        view.framework = self.framework;
        view.stages = vec![Some(Stage::Decode); trace.gpu_ops.len()];
        view.call_sites.distinct = self.sites;
        view.call_sites.by_op = self.site_of_op;
        let rows = kernels::rows(&view);
        let fusion = |(pattern, status, kernels): &(&str, Status, Vec<&str>)| {
            let names: Vec<String> = kernels.iter().map(|name| frames::canonical(name)).collect();
            let matching = |(index, row): (usize, &KernelRow)| names.contains(&row.name).then_some(index);
            let indices: Vec<usize> = rows.iter().enumerate().filter_map(matching).collect();
            let duration_ns = indices.iter().map(|index| rows[*index].duration_ns).sum();
            Fusion {
                stage: Stage::Decode,
                pattern: (*pattern).to_owned(),
                status: *status,
                confidence: Confidence::Likely,
                rows: indices,
                launches: 1,
                messages: Messages::default(),
                duration_ns,
                elapsed_ns: duration_ns,
                elapsed_share_pct: None,
                share_pct: 0.0,
                evidence: Vec::new(),
                locations: Vec::new(),
            }
        };
        let fusions: Vec<Fusion> = self.fusions.iter().map(fusion).collect();
        catalog::section(&view, &rows, &fusions, &Roofs::new(&view, &rows))
    }
}

/// Family and finding of every row.
fn findings(section: &Section) -> Vec<(String, String)> {
    let cell = |row: &gpuprism::analysis::section::Record, key| row.get(key).unwrap().text().unwrap().to_owned();
    section.rows.iter().map(|row| (cell(row, "family"), cell(row, "finding"))).collect()
}

fn only(section: &Section, key: &str) -> String {
    assert_eq!(section.rows.len(), 1, "{:?}", findings(section));
    section.rows[0].get(key).and_then(Value::text).unwrap_or_default().to_owned()
}

fn figure(section: &Section, key: &str) -> Option<String> {
    Some(section.summary.get(key)?.text()?.to_owned())
}

const B300: &str = "NVIDIA B300 SXM6 AC";
const MI300: &str = "AMD Instinct MI300X";
const GEMM: &str = "nvjet_sm103_tst_32x64_64x16_4x1_v_bz_splitK_TNN";
const ALL_REDUCE: &str = "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 2>(int)";
const NORM: &str = "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(int)";
const FUSED_NORM: &str = "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(int)";
const FUSED_ALL_REDUCE: &str =
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<4>(int)";
const RESHAPE_AND_CACHE: &str = "void vllm::reshape_and_cache_flash_kernel<__hip_bfloat16>()";
const ALL_REDUCE_FAMILY: &str = "FlashInfer unified allreduce_fusion";
const GATE: [&str; 2] = [
    "python/sglang/srt/layers/communicator.py:665 prepare_mlp",
    "python/sglang/srt/layers/layernorm.py:401 forward_with_allreduce_fusion",
];

fn one(family: &str, finding: &str) -> Vec<(String, String)> {
    vec![(family.to_owned(), finding.to_owned())]
}

// The data.

fn families() -> Vec<Json> {
    serde_json::from_str::<Json>(CATALOG).unwrap()["families"].as_array().unwrap().clone()
}

fn ids() -> BTreeSet<String> {
    families().iter().map(|family| family["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_catalog_has_168_families_with_unique_ids_and_valid_pull_requests() {
    let families = families();
    assert_eq!((families.len(), ids().len()), (168, 168));
    for family in &families {
        let numbers = family["prs"].as_array().map_or(&[][..], Vec::as_slice);
        assert!(numbers.iter().all(|number| number.as_u64().is_some_and(|number| number > 0)), "{family}");
        assert!(family["note"].as_str().unwrap().ends_with('.'), "{family}");
        assert!(family["status"] != "in-flight" || !numbers.is_empty(), "{family}");
    }
    assert_eq!(Case::new(Framework::Plain, "").section().columns.len(), 8, "the catalog loads");
}

#[test]
fn every_switch_refers_to_existing_families() {
    let ids = ids();
    let toggles = serde_json::from_str::<Json>(TOGGLES).unwrap()["toggles"].as_array().unwrap().clone();
    for toggle in &toggles {
        let families = toggle["families"].as_array().unwrap();
        assert!(!families.is_empty(), "{toggle}");
        families.iter().for_each(|id| assert!(ids.contains(id.as_str().unwrap()), "{toggle}"));
    }
    let names: BTreeSet<&str> = toggles.iter().map(|toggle| toggle["toggle"].as_str().unwrap()).collect();
    assert_eq!((toggles.len(), names.len()), (44, 44));
}

#[test]
fn words_of_families_are_specific() {
    // These words occur in almost any name, so none of them may identify a family.
    let common = ["silu", "mul", "add", "norm", "rmsnorm", "rope", "rotary", "topk", "softmax", "cache", "all_reduce"];
    let more = ["quant", "fp8", "gemm", "moe", "attention", "gate", "router", "combine", "dispatch", "copy", "forward"];
    for family in families() {
        for field in ["names", "kernels", "functions", "gates"] {
            let words = family[field].as_array().map_or(&[][..], Vec::as_slice);
            for word in words.iter().map(|word| word.as_str().unwrap()) {
                assert!(word.len() >= 5 && !common.contains(&word) && !more.contains(&word), "{word}: {family}");
                assert!(!word.contains(".py") && !word.contains('/'), "a path is not a name: {family}");
            }
        }
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_catalog_has_every_row_of_the_reference_data() {
    let folder = common::shared("spec/data");
    let text = std::fs::read_to_string(folder.join("catalog_fuse_overlap.json")).unwrap();
    let ours: BTreeMap<String, Json> =
        families().into_iter().map(|family| (family["id"].as_str().unwrap().to_owned(), family)).collect();
    for fact in serde_json::from_str::<Json>(&text).unwrap()["rows"].as_array().unwrap() {
        let family = &ours[fact["id"].as_str().unwrap()];
        assert_eq!((&family["origin"], &family["kind"]), (&fact["origin"], &fact["kind"]), "{family}");
        let status = match fact["status"].as_str().unwrap() {
            "in-flight" => "in-flight",
            status if status.starts_with("closed") => "closed",
            _ => "mainline",
        };
        assert_eq!(family["status"], status, "{family}");
        let is_elsewhere = fact["status"] == "mainline-elsewhere";
        assert!(
            !is_elsewhere || fact["origin"] != "sglang",
            "a family from elsewhere must have another origin: {family}"
        );
        let ours: Vec<u64> =
            family["prs"].as_array().map_or(Vec::new(), |all| all.iter().filter_map(Json::as_u64).collect());
        for number in fact["prs"].as_array().unwrap() {
            assert!(ours.contains(&number.as_str().unwrap().parse().unwrap()), "{family}");
        }
        let files = family["files"].as_array().map_or(&[][..], Vec::as_slice);
        for file in fact["source_locations"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()) {
            let file = file.split("::").next().unwrap();
            assert!(file.starts_with("torch.") || files.contains(&file.into()), "{file}: {family}");
        }
    }
    let text = std::fs::read_to_string(folder.join("catalog_toggles_and_vllm_passes.json")).unwrap();
    for fact in serde_json::from_str::<Json>(&text).unwrap()["toggles"].as_array().unwrap() {
        assert!(TOGGLES.contains(&fact["toggle"].to_string()), "{fact}");
    }
}

// Selection of families.

#[test]
fn a_family_is_active_if_its_kernels_run_and_own_families_come_first() {
    let section = Case::new(Framework::Sglang, B300).kernel(GEMM, 90).kernel(FUSED_NORM, 10).section();
    assert_eq!(findings(&section), one("Fused residual add + RMSNorm", "active"));
    assert!(only(&section, "evidence").starts_with("10.0 % of the stage: its kernels run\n"), "{section:?}");
    let section = Case::new(Framework::TrtLlm, B300).kernel(GEMM, 90).kernel(FUSED_NORM, 10).section();
    assert_eq!(findings(&section), one("TensorRT-LLM FlashInfer residual add + RMSNorm", "active"));
}

#[test]
fn a_family_is_active_if_its_cpu_op_or_function_runs() {
    let by_op =
        Case::new(Framework::Sglang, B300).kernel(GEMM, 90).kernel_at("kernel_0", 10, &[], "sgl_kernel::silu_and_mul");
    assert_eq!(findings(&by_op.section()), one("Fused activation-and-mul (SwiGLU / GeGLU)", "active"));
    let stack =
        ["python/sglang/srt/layers/layernorm.py:281 forward_aiter", "aiter/ops/rmsnorm.py:76 rmsnorm2d_fwd_with_add"];
    let by_function = Case::new(Framework::Sglang, MI300).kernel(GEMM, 90).kernel_at("kernel_0", 10, &stack, "");
    assert_eq!(findings(&by_function.section()), one("Fused residual add + RMSNorm", "active"));
}

#[test]
fn a_family_below_the_minimum_share_is_not_shown() {
    let case = || Case::new(Framework::Sglang, B300).kernel(GEMM, 995).kernel(FUSED_NORM, 5);
    assert_eq!(findings(&case().section()), []);
    let options = Options { min_share_pct: 0.5, ..Options::default() };
    assert_eq!(findings(&case().section_with(options)), one("Fused residual add + RMSNorm", "active"));
}

#[test]
fn paths_and_parts_of_words_do_not_match_a_family() {
    let stack =
        ["python/sglang/srt/layers/silu_and_mul/fused_add_rmsnorm.py:1 forward", "x.py:2 not_silu_and_multiply"];
    let case = Case::new(Framework::Sglang, B300).kernel_at("void prefused_add_rmsnorms<1>()", 50, &stack, "aten::mul");
    assert_eq!(findings(&case.section()), []);
}

/// Nine layers with separate all-reduce and norm, launched by the function that could choose the fused op.
fn unfused_layers(device: &'static str, gate: &[&str]) -> Case {
    (0..9).fold(Case::new(Framework::Sglang, device), |case, _| {
        case.kernel(GEMM, 70).kernel_at(ALL_REDUCE, 20, gate, "").kernel_at(NORM, 10, gate, "")
    })
}

#[test]
fn an_own_family_whose_parts_run_separately_should_apply() {
    let section = unfused_layers(B300, &GATE).section();
    assert_eq!(findings(&section), one(ALL_REDUCE_FAMILY, "should apply"));
    let evidence = only(&section, "evidence");
    assert!(evidence.starts_with("30.0 % of the stage: communication, norm follow each other 9 times"), "{evidence}");
    assert!(only(&section, "source_location").contains("python/sglang/srt/layers/flashinfer_comm_fusion.py"));
    let switches = only(&section, "switches");
    assert!(switches.starts_with("enable_flashinfer_allreduce_fusion: unknown"), "{switches}");
}

#[test]
fn the_family_matches_the_vendor_of_the_device() {
    assert_eq!(findings(&unfused_layers(MI300, &GATE).section()), one("AITER allreduce fusion", "should apply"));
}

#[test]
fn parts_that_are_not_consecutive_or_not_launched_by_a_gate_are_no_evidence() {
    let families = |section: Section| -> Vec<String> { findings(&section).into_iter().map(|(name, _)| name).collect() };
    let separated = (0..9).fold(Case::new(Framework::Sglang, B300), |case, _| {
        case.kernel_at(ALL_REDUCE, 20, &GATE, "").kernel(GEMM, 70).kernel_at(NORM, 10, &GATE, "")
    });
    let concurrent = (0..9).fold(Case::new(Framework::Sglang, B300), |case, _| {
        let site = |case: Case| case.kernel_at(NORM, 10, &GATE, "");
        let case = site(case.kernel(GEMM, 70));
        case.op(ALL_REDUCE, 20, 8, None)
    });
    let other_code = unfused_layers(B300, &["python/sglang/srt/layers/layernorm.py:100 forward_cuda"]);
    let one_rank = unfused_layers(B300, &GATE).server(json!({"tp_size": 1}));
    for case in [separated, concurrent, other_code, one_rank] {
        assert_eq!(families(case.section()), Vec::<String>::new());
    }
}

#[test]
fn a_switch_in_the_arguments_explains_why_a_family_does_not_run() {
    for arguments in [json!({"tp_size": 2, "enable_flashinfer_allreduce_fusion": false}), json!({"tp_size": 2})] {
        let section = unfused_layers(B300, &GATE).server(arguments.clone()).section();
        assert_eq!(findings(&section), one(ALL_REDUCE_FAMILY, "seems disabled"), "{arguments}");
        assert!(only(&section, "advice").contains("enable_flashinfer_allreduce_fusion disables it"), "{section:?}");
    }
    let section = unfused_layers(B300, &GATE).server(json!({"tp_size": 2})).section();
    assert!(only(&section, "switches").contains("not set, off by default"), "{section:?}");
    let section = unfused_layers(B300, &GATE).server(json!({"--enable-flashinfer-allreduce-fusion": "true"})).section();
    assert_eq!(findings(&section), one(ALL_REDUCE_FAMILY, "should apply"), "switched on, but it does not run");
    assert!(only(&section, "switches").starts_with("enable_flashinfer_allreduce_fusion: on "), "{section:?}");
}

#[test]
fn a_switch_is_found_in_a_configuration_given_as_text() {
    let stack = ["vllm/distributed/communication_op.py:12 tensor_model_parallel_all_reduce"];
    let case = || {
        (0..9).fold(Case::new(Framework::Vllm, B300), |case, _| {
            let case = case.kernel(GEMM, 70).kernel_at(
                "void (anonymous namespace)::multimem_all_reduce_kernel<1>()",
                15,
                &stack,
                "",
            );
            case.kernel("Memcpy DtoD (Device -> Device)", 5).kernel("void vllm::rms_norm_kernel<1>()", 10)
        })
    };
    let family = "AllReduce + RMSNorm [+ residual] [+ quant]";
    let found = findings(&case().section());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].1, "should apply", "{family}");
    let evidence = only(&case().section(), "evidence");
    assert!(
        evidence.starts_with(
            "25.0 % of the stage: communication, norm follow each other 9 times, with copies of another 5.0 % "
        ),
        "{evidence}"
    );
    let section =
        case().server(json!({"compilation_config": "{\"pass_config\": {\"fuse_allreduce_rms\": false}}"})).section();
    assert_eq!(findings(&section)[0].1, "seems disabled");
    assert!(only(&section, "switches").starts_with("PassConfig.fuse_allreduce_rms: off "), "{section:?}");
}

#[test]
fn a_switch_that_disables_families_is_named_if_it_is_on() {
    let stack = ["python/sglang/srt/models/utils.py:416 apply_qk_norm"];
    let case = || {
        (0..9).fold(Case::new(Framework::Sglang, B300), |case, _| {
            case.kernel(GEMM, 80).kernel_at(NORM, 10, &stack, "").kernel_at(NORM, 10, &stack, "")
        })
    };
    assert_eq!(findings(&case().section()), one("In-place QK RMSNorm", "should apply"));
    let section = case().server(json!({"enable_deterministic_inference": true})).section();
    assert_eq!(findings(&section), one("In-place QK RMSNorm", "seems disabled"));
    assert!(only(&section, "advice").contains("enable_deterministic_inference disables it"), "{section:?}");
}

#[test]
fn an_active_family_is_not_also_reported_as_missing() {
    let section = unfused_layers(B300, &GATE).kernel(FUSED_ALL_REDUCE, 100).section();
    assert_eq!(findings(&section)[0], (ALL_REDUCE_FAMILY.to_owned(), "active".to_owned()));
    assert!(findings(&section).iter().all(|(_, finding)| finding != "should apply"), "{section:?}");
}

#[test]
fn fuse_patterns_are_evidence_for_their_families() {
    let rope = "void rotary_embedding_kernel<c10::BFloat16, true>()";
    let store = "void (anonymous namespace)::store_kvcache<2048l, 4, false, long>()";
    let case = |framework, status| {
        let case = Case::new(framework, MI300).kernel(GEMM, 80).kernel(rope, 10).kernel(store, 10);
        case.fusion("fused-qk-rope-reshape-kv-cache-write", status, &[rope, store])
    };
    let family = "Fused QK RoPE reshape + KV cache write";
    assert_eq!(findings(&case(Framework::Sglang, Status::Split).section()), one(family, "should apply"));
    assert_eq!(findings(&case(Framework::Sglang, Status::Active).section()), one(family, "active"));
    assert_eq!(findings(&case(Framework::Vllm, Status::NotApplicable).section()), one(family, "elsewhere"));
    assert_eq!(findings(&case(Framework::Sglang, Status::NotApplicable).section()), []);
}

#[test]
fn a_proposed_family_is_in_flight_and_sorted_after_mainline() {
    let (norm, quant) = ("void vllm::rms_norm_kernel<1>()", "void vllm::per_token_quant_fp8_kernel<1>()");
    let case =
        Case::new(Framework::Sglang, B300).kernel(GEMM, 60).kernel(norm, 20).kernel(quant, 10).kernel(FUSED_NORM, 10);
    let section =
        case.fusion("pr-22005-fused-add-rmsnorm-per-token-fp8-quant", Status::InFlight, &[norm, quant]).section();
    let found: Vec<String> = findings(&section).into_iter().map(|(_, finding)| finding).collect();
    assert_eq!(found, ["active", "in flight"]);
    let advice = section.rows[1].get("advice").unwrap().text().unwrap();
    assert!(advice.contains("#22005"), "{advice}");
}

#[test]
fn a_family_of_another_framework_is_elsewhere_unless_an_own_family_covers_it() {
    let (silu, quant) = ("void silu_kernel()", "void vllm::scaled_fp8_quant_kernel<1>()");
    let case = || Case::new(Framework::Sglang, B300).kernel(GEMM, 80).kernel(silu, 10).kernel(quant, 10);
    let elsewhere = case().fusion("vllm-origin-silu-mul-quantization", Status::NotApplicable, &[silu, quant]);
    let section = elsewhere.section();
    assert_eq!(findings(&section), one("SiLU+Mul + quant", "elsewhere"));
    assert!(only(&section, "advice").starts_with("vLLM has this path"), "{section:?}");
    let both = case().fusion("vllm-origin-silu-mul-quantization", Status::NotApplicable, &[silu, quant]).fusion(
        "fused-moe-activation-quant-re-quant",
        Status::Split,
        &[silu, quant],
    );
    assert_eq!(findings(&both.section()), one("Fused MoE activation + quant / re-quant", "should apply"));
}

#[test]
fn separate_kernels_of_pytorch_match_a_family_of_an_engine() {
    let names = [
        "pow_tensor_scalar_kernel_impl<float>",
        "MeanOps<float>",
        "CUDAFunctorOnSelf_add<float>",
        "rsqrt_kernel_cuda",
        "MulFunctor<float>",
    ];
    let kernel = |name: &str| format!("void at::native::vectorized_elementwise_kernel<4, at::native::{name}>()");
    let case = |framework| {
        (0..9).fold(Case::new(framework, B300), |case, _| {
            names.iter().fold(case.kernel(GEMM, 50), |case, name| case.kernel(&kernel(name), 10))
        })
    };
    let found = |framework| findings(&case(framework).section());
    assert_eq!(found(Framework::Plain), [], "the kernel of an engine is no advice for plain PyTorch");
    assert_eq!(found(Framework::Sglang), one("Fused residual add + RMSNorm", "should apply"));
    let separated = (0..9).fold(Case::new(Framework::Sglang, B300), |case, _| {
        names.iter().fold(case, |case, name| case.kernel(&kernel(name), 10).kernel(GEMM, 10))
    });
    assert_eq!(findings(&separated.section()), [], "the same kernels, each between two GEMMs");
}

#[test]
fn casts_and_the_weight_multiplication_belong_to_an_unfused_norm() {
    let kernel = |name: &str| format!("void at::native::vectorized_elementwise_kernel<4, at::native::{name}>()");
    let names = [
        "direct_copy_kernel_cuda",
        "pow_tensor_scalar_kernel_impl<float>",
        "MeanOps<float>",
        "CUDAFunctorOnSelf_add<float>",
        "rsqrt_kernel_cuda",
        "MulFunctor<float>",
        "bfloat16_copy_kernel_cuda",
        "MulFunctor<c10::BFloat16>",
    ];
    // Only the nearest copy belongs to the norm.
    let section = (0..9).fold(Case::new(Framework::Sglang, B300), |case, _| {
        let case = case.kernel(GEMM, 60).kernel(&kernel("direct_copy_kernel_cuda"), 20);
        names.iter().fold(case, |case, name| case.kernel(&kernel(name), 5))
    });
    let evidence = only(&section.section(), "evidence");
    assert!(evidence.starts_with("33.3 % of the stage: 8 kernels run instead, 9 times"), "{evidence}");
    assert!(!evidence.contains("direct_copy_kernel_cuda"), "most of the time of this kernel is elsewhere: {evidence}");
}

#[test]
fn unfused_parts_are_found_without_call_sites() {
    let (rope, store) = ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>()", RESHAPE_AND_CACHE);
    let layers = |device| {
        (0..9).fold(Case::new(Framework::Vllm, device), |case, _| {
            case.kernel(GEMM, 80).kernel(rope, 10).kernel(store, 10)
        })
    };
    let joined = ("Fused RoPE + KV cache update".to_owned(), "should apply".to_owned());
    let section = layers(MI300).section();
    assert_eq!(findings(&section)[0], joined);
    assert!(
        section.rows[0].get("evidence").unwrap().text().unwrap().starts_with("20.0 % of the stage: 2 kernels run in")
    );
    assert!(!findings(&layers(B300).section()).contains(&joined), "the pass is for ROCm");
    assert_eq!(findings(&layers(MI300).step("step[DECODE bs=256]").section())[0], joined);
    let many = layers(MI300).step("step[DECODE bs=257]").section();
    assert!(!findings(&many).contains(&joined), "the pass takes at most 256 tokens");
}

#[test]
fn a_required_kernel_that_is_not_joined_does_not_count() {
    let (router, pad) =
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT16x16x256", "triton_poi_fused_constant_pad_nd_0");
    let norm = "void ck_tile::kentry<1, ck_tile::Rmsnorm2dFwd<ck_tile::Rmsnorm2dFwdTraits<(ck_tile::Rmsnorm2dFusedAddEnum)1> > >()";
    let layers = |between: &str| {
        (0..9).fold(Case::new(Framework::Vllm, MI300), |case, _| {
            case.kernel(GEMM, 60).kernel(norm, 10).kernel(between, 20).kernel(pad, 10)
        })
    };
    let evidence_with = |between| {
        let section = layers(between).section();
        let index = findings(&section).iter().position(|(family, _)| family == "Add + RMSNorm + pad")?;
        section.rows[index].get("evidence")?.text().map(str::to_owned)
    };
    let evidence = evidence_with(router).unwrap();
    assert!(evidence.starts_with("20.0 % of the stage: 2 kernels run instead, 9 times"), "{evidence}");
    assert_eq!(evidence_with(RESHAPE_AND_CACHE), None, "the padding does not belong to the norm");
}

#[test]
fn an_unexplained_chain_or_exposed_communication_is_no_opportunity_by_itself() {
    let (first, second) = ("void at::native::elementwise_kernel<4, tanh_kernel>()", "void my::reduce_kernel<1>()");
    let nccl = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    let case = (0..9).fold(Case::new(Framework::Sglang, B300), |case, _| {
        case.kernel(GEMM, 80).kernel(first, 10).kernel(second, 10).op(nccl, 20, 8, None)
    });
    assert_eq!(findings(&case.section()), []);
}

// The note on resemblance.

const ROTATE: &str = "void drifted::rotary_embedding_kernel<2>()";
const WRITE: &str = "void drifted::store_kvcache<2048l>()";

/// Consecutive rotary embedding and cache write with optional signals of a family.
fn resembling(stack: &[&str], cpu_op: &str, server: Json) -> Section {
    let case = (0..3).fold(Case::new(Framework::Vllm, MI300).server(server), |case, _| {
        case.kernel(GEMM, 80).kernel_at(ROTATE, 10, stack, cpu_op).kernel_at(WRITE, 10, stack, cpu_op)
    });
    case.section()
}

fn level(section: &Section) -> Option<String> {
    figure(section, "similarity_level")
}

/// `fused-rope-kv-cache-update`: rope -> kv_cache, its functions and ops are `fused_rope_and_unified_kv_cache_update`,
/// its file `vllm/_aiter_ops.py`.
#[test]
fn a_chain_alone_is_no_resemblance_and_with_the_source_file_a_low_one() {
    let none = json!({});
    assert_eq!(level(&resembling(&[], "", none.clone())), None, "4 points of one kind");
    let section = resembling(&["/opt/vllm/_aiter_ops.py:900 rotate_then_write"], "", none.clone());
    assert_eq!(level(&section).as_deref(), Some("low"), "4 + 2 points of two kinds");
    let why = figure(&section, "similarity_why").unwrap();
    assert!(why.contains("on one stream rope -> kv_cache") && why.contains("vllm/_aiter_ops.py"), "{why}");
    assert!(why.ends_with("(6 points from 2 kinds of signals)"), "{why}");
    assert_eq!(level(&resembling(&["/opt/not_vllm/_aiter_ops.py:9 f"], "", none)), None, "another path");
}

#[test]
fn a_kernel_name_is_not_a_signal() {
    let near = "void my_fused_rope_and_unified_kv_caches_update_v2<1>()";
    let section = Case::new(Framework::Vllm, MI300).kernel(GEMM, 50).kernel(near, 50).section();
    assert_eq!((level(&section), findings(&section)), (None, Vec::new()));
}

/// A run that resembles a family with a gate, ranks and a chain: `minimax-allreduce-rms` (communication -> norm; tensor
/// parallelism; MiniMax).
fn minimax(server: Json, stack: &[&str]) -> Section {
    let case = (0..3).fold(Case::new(Framework::Sglang, MI300).server(server), |case, _| {
        case.kernel(GEMM, 80).kernel(ALL_REDUCE, 2).kernel_at("void drifted::rms_norm_kernel<2>()", 10, stack, "")
    });
    case.section()
}

#[test]
fn several_signals_make_a_medium_or_high_resemblance() {
    let file = ["vllm/model_executor/models/minimax_m2.py:77 forward"];
    // chain 4 + tensor parallelism 1: two kinds.
    assert_eq!(level(&minimax(json!({"tp_size": 2}), &[])).as_deref(), Some("low"));
    // chain 4 + tensor parallelism 1 + model 1 = 6 of three kinds: not yet medium.
    assert_eq!(
        level(&minimax(json!({"tp_size": 2, "model_path": "MiniMaxAI/MiniMax-M2"}), &[])).as_deref(),
        Some("low")
    );
    // chain 4 + file 2 + tensor parallelism 1 + model 1 = 8 of four kinds.
    let section = minimax(json!({"tp_size": 2}), &file);
    assert_eq!(level(&section).as_deref(), Some("medium"));
    assert!(figure(&section, "similarity").unwrap().contains("vLLM: several signals agree"), "{section:?}");
}

/// chain 4 + function 3 + CPU op 2 + tensor parallelism 1 = 10 of four kinds; each missing signal lowers the level.
#[test]
fn a_chain_with_similar_names_and_ranks_is_a_high_resemblance() {
    let stack = ["vllm/other.py:9 minimax_qk_norm_fused_v2"];
    let run = |stack: &[&str], op: &str, chain: bool, ranks: u64| {
        let case = Case::new(Framework::Sglang, MI300).server(json!({"tp_size": ranks}));
        let case = (0..3).fold(case, |case, _| {
            let case = case.kernel(GEMM, 80);
            let case = if chain { case.kernel(ALL_REDUCE, 2) } else { case };
            case.kernel_at("void drifted::rms_norm_kernel<2>()", 10, stack, op)
        });
        level(&case.section())
    };
    let op = "vllm::minimax_qk_norm_fusion_fused";
    assert_eq!(run(&stack, op, true, 2).as_deref(), Some("high"));
    assert_eq!(run(&stack, op, true, 1).as_deref(), Some("medium"), "9 points of three kinds");
    assert_eq!(run(&stack, "", true, 2).as_deref(), Some("medium"), "8 points of three kinds");
    assert_eq!(run(&stack, op, false, 2).as_deref(), Some("low"), "6 points of three kinds, without the chain");
    assert_eq!(run(&[], op, true, 1).as_deref(), Some("low"), "6 points of two kinds");
    assert_eq!(run(&[], op, false, 1), None, "one kind");
    assert_eq!(run(&stack, "", false, 1), None, "one kind");
    assert_eq!(run(&["vllm/other.py:9 minimax_norm"], "vllm::fused_qk", false, 2), None, "too few words in common");
}

#[test]
fn there_is_at_most_one_note_and_none_if_a_family_explains_the_work() {
    let file = ["vllm/model_executor/models/minimax_m2.py:77 forward"];
    let section = minimax(json!({"tp_size": 2}), &file);
    let figures = section.summary.0.iter().filter(|(key, _)| key == "similarity").count();
    assert_eq!(figures, 1);
    let explained = unfused_layers(B300, &GATE).section();
    assert_eq!(level(&explained), None, "a family explains this work");
    let small = (0..3).fold(Case::new(Framework::Sglang, MI300).server(json!({"tp_size": 2})), |case, _| {
        case.kernel(GEMM, 8000).kernel(ALL_REDUCE, 2).kernel_at("void drifted::rms_norm_kernel<2>()", 10, &file, "")
    });
    assert_eq!(level(&small.section()), None, "below the minimum share");
}

// Real traces.

#[derive(serde::Deserialize)]
struct Label {
    trace: String,
    framework: String,
    stage: String,
    rows: Vec<LabelledRow>,
    /// Level of the note on resemblance.
    note: Option<String>,
}

/// A row found by hand in the kernels and stacks of the trace, with the share of the busy time computed from the
/// file: ops that run at the same time on a device share it evenly.
#[derive(serde::Deserialize)]
struct LabelledRow {
    family: String,
    finding: String,
    share_pct: Option<f64>,
}

fn section_of_trace(label: &Label, folder: &Path) -> Section {
    let trace = common::import_with_code(&folder.join(&label.trace));
    let framework = match label.framework.as_str() {
        "sglang" => Framework::Sglang,
        "vllm" => Framework::Vllm,
        _ => Framework::Plain,
    };
    let stage = Stage::ALL.into_iter().find(|stage| stage.label() == label.stage).unwrap();
    let (options, server) = (Options::default(), ServerArgs::default());
    let request = Request {
        trace: &trace,
        path: &label.trace,
        file_stage: stage,
        mapping: &[],
        server: &server,
        framework: Some(framework),
        options: &options,
    };
    let view = View::new(&request);
    let rows = kernels::rows(&view);
    let fusions = fuse::matches(&view, &rows);
    catalog::section(&view, &rows, &fusions, &Roofs::new(&view, &rows))
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn rows_of_real_traces_are_exactly_the_labelled_ones() {
    let folder = common::shared("traces/torch");
    let labels: Vec<Label> = serde_json::from_str(LABELS).unwrap();
    let (mut correct, mut errors) = (0, Vec::new());
    for label in &labels {
        let section = section_of_trace(label, &folder);
        let mut found = findings(&section);
        for row in &label.rows {
            let Some(index) =
                found.iter().position(|(family, finding)| (family, finding) == (&row.family, &row.finding))
            else {
                errors.push(format!("{}: missing {}, {}", label.trace, row.family, row.finding));
                continue;
            };
            found[index].1.clear();
            correct += 1;
            let evidence = section.rows[index].get("evidence").unwrap().text().unwrap();
            let share: f64 = evidence.split(' ').next().unwrap().parse().unwrap();
            if row.share_pct.is_some_and(|labelled| (labelled - share).abs() > 0.06) {
                errors.push(format!("{}: {share} % of {}", label.trace, row.family));
            }
        }
        let unlabelled = found.iter().filter(|(_, finding)| !finding.is_empty());
        errors.extend(unlabelled.map(|(family, finding)| format!("{}: unlabelled {family}, {finding}", label.trace)));
        if level(&section) != label.note {
            errors.push(format!("{}: {:?}", label.trace, section.summary));
        }
    }
    let missing = errors.iter().filter(|line| line.contains(": missing ")).count();
    let unlabelled = errors.iter().filter(|line| line.contains(": unlabelled ")).count();
    println!("{} traces: {correct} rows correct, {missing} missing, {unlabelled} unlabelled", labels.len());
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}
