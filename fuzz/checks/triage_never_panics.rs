//! Triage of any trace with code gives a result, and every output can be rendered.
//!
//! Eight bytes encode an event: class, name, start, duration, and the ids that join events. The first half of the events is the
//! trace to triage, the second half the mapping trace.

use super::whole_way;
use gpuprism::analysis::triage::{Options, Request, ServerArgs, Stage, triage};
use gpuprism::analysis::{self, analyze};
use gpuprism::input::{Imported, Importer};
use gpuprism::trace::Trace;

const KERNELS: [&str; 8] = [
    "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(int)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "void cross_device_reduce_1stage<__nv_bfloat16, 2>(int)",
    "nvjet_tst_64x8_64x16_4x1_v_bz_TNT",
    "fused_moe_kernel",
    "void act_and_mul_kernel<silu>(x",
    "Memcpy DtoD (Device -> Device)",
    "void k(f(int))(g) 0x7f00",
];
const FRAMES: [&str; 6] = [
    "/a/python/sglang/srt/layers/layernorm.py(89): forward_cuda",
    "vllm/model_executor/models/qwen3.py(310): forward",
    "tensorrt_llm/_torch/pyexecutor/py_executor.py(1): loop",
    "torch/_ops.py(829): __call__",
    "<built-in method launch>",
    "nn.Module: Qwen3 é(",
];
const ANNOTATIONS: [&str; 6] = [
    "step[EXTEND bs=15 toks=15360]",
    "step[MIXED bs=3 c=1 g=2 c_sq=5 c_sk=6 c_sqsq=7 c_sqsk=8 g_sq=2 g_sk=99]",
    "execute_context_0(0)_generation_12(12)",
    "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
    "ProfilerStep#99999999999999999999",
    "step[DECODE bs=]",
];

fn event(bytes: &[u8; 8]) -> String {
    let [class, name, start, duration, id, correlation, thread, more] = *bytes;
    let of = |names: &[&str]| names[usize::from(name) % names.len()].to_owned();
    let (category, name) = match class % 7 {
        0 | 1 => ("kernel", of(&KERNELS)),
        2 => ("cpu_op", "sgl_kernel::fused_add_rmsnorm".to_owned()),
        3 => ("python_function", of(&FRAMES)),
        4 => (
            "cuda_runtime",
            ["cudaLaunchKernel", "cudaGraphLaunch", "hipMemcpyAsync"][usize::from(name) % 3].to_owned(),
        ),
        5 => ("user_annotation", of(&ANNOTATIONS)),
        _ => ("gpu_user_annotation", of(&ANNOTATIONS)),
    };
    format!(
        r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {}, "tid": {}, "ts": {start}.{more}, "dur": {duration}, "args": {{"External id": {}, "Python id": {id}, "Python parent id": {correlation}, "device": {}, "stream": {}, "correlation": {}, "kernel": "{}"}}}}"#,
        thread % 2,
        thread % 3,
        id % 16,
        thread % 2,
        thread % 5,
        correlation % 16,
        KERNELS[usize::from(more) % KERNELS.len()],
    )
}

fn trace(bytes: &[u8]) -> Option<Trace> {
    let (events, _) = bytes.as_chunks::<8>();
    let events: Vec<String> = events.iter().map(event).collect();
    let mut importer = Importer::with_code("fuzz");
    importer.feed(format!("{{\"traceEvents\": [{}]}}", events.join(",\n")).as_bytes()).ok()?;
    match importer.finish() {
        Ok(Imported::Trace(trace)) => Some(*trace),
        _ => None,
    }
}

/// Checks one input.
pub fn check(data: &[u8]) {
    let (first, second) = data.split_at(data.len() / 16 * 8);
    let (Some(trace), Some(mapping)) = (trace(first), trace(second)) else { return };
    let options = Options { min_share_pct: 0.0, ..Options::default() };
    let server = ServerArgs::default();
    for mapping in [&[][..], &[&mapping]] {
        let request = Request {
            trace: &trace,
            path: "",
            file_stage: Stage::All,
            mapping,
            server: &server,
            framework: None,
            options: &options,
        };
        let mut run =
            analyze(&trace, &whole_way::RULES, &analysis::Options { without_sections: true, ..Default::default() });
        run.sections = triage(&request);
        whole_way::render(vec![run]);
    }
}
