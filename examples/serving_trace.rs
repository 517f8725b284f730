//! Writes a small torch.profiler trace of an LLM server, the same bytes on every run.
//!
//! `cargo run --example serving_trace -- OUT.json` (gzipped if OUT ends in `.gz`).
//!
//! It models rank 0 of a 32-layer, 8-billion-parameter Llama-like model in bf16, tensor-parallel over two H100s, served by
//! SGLang: one prefill step of four requests (2,048 tokens, launched kernel by kernel, with NCCL all-reduces on a second
//! stream that overlap the second half of each row-parallel GEMM), then twelve decode steps of 32 requests, each one CUDA
//! graph launch with one-shot custom all-reduces. Between steps the host processes the tokens while the GPU waits.
//! Durations follow from the sizes: decode GEMMs read their weights at about 3 TB/s, prefill GEMMs run at about 600 TFLOP/s.
//! No number here was measured. The text has the layout of Kineto's files.

use flate2::{Compression, GzBuilder};
use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;

const LAYERS: usize = 32;
const DECODE_STEPS: usize = 12;
const PROCESS: u32 = 3187;
const COMPUTE: usize = 7;
const COLLECTIVES: usize = 21;
/// Start of the trace on the profiler's clock, relative to `baseTimeNanoseconds`.
const BEGIN_NS: i64 = 5_403_118_204_112_345;

const MAIN_LOOP: &str = "sglang/srt/managers/scheduler.py(1124): event_loop_normal";
const RUN_BATCH: &str = "sglang/srt/managers/scheduler.py(2206): run_batch";
const FORWARD: &str = "sglang/srt/model_executor/model_runner.py(2250): forward";
const RESULTS: &str = "sglang/srt/managers/scheduler_output_processor_mixin.py(351): process_batch_result_decode";
const NEXT_BATCH: &str = "sglang/srt/managers/scheduler.py(1760): get_next_batch_to_run";
const PREPARE: &str = "sglang/srt/managers/schedule_batch.py(1650): prepare_for_decode";
const SAMPLE: &str = "sglang/srt/layers/sampler.py(60): forward";

/// A kernel, its usual duration, and the operator that launches it outside a graph.
struct Kernel {
    name: &'static str,
    operator: &'static str,
    duration_ns: i64,
    grid: u32,
    block: u32,
    registers: u32,
}

const fn kernel(
    name: &'static str,
    operator: &'static str,
    duration_ns: i64,
    grid: u32,
    block: u32,
    registers: u32,
) -> Kernel {
    Kernel { name, operator, duration_ns, grid, block, registers }
}

const NORM: &str = "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, unsigned int, unsigned int, unsigned int, float, float)";
const ROPE: &str = "void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheKernel<false, 128u, 8u, 16u, __nv_bfloat16, long>(__nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, float*, long*, unsigned int, unsigned int, unsigned int, unsigned int, unsigned long, unsigned long, unsigned long, unsigned long)";
const STORE: &str = "void (anonymous namespace)::store_kv_cache_256x1<long>(uint4*, uint4*, long const*, uint4 const*, uint4 const*, unsigned long, unsigned long, unsigned long, unsigned long)";
const SILU: &str =
    "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &silu>(__nv_bfloat16*, __nv_bfloat16 const*, int)";
const ONE_SHOT: &str = "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 2>(sglang::RankData*, sglang::RankSignals, sglang::Signal*, __nv_bfloat16*, int, int)";
const NCCL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const NCCL_GATHER: &str = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const ATTEND: &str = "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, cute::tuple<cute::C<128>, cute::C<128>, cute::C<128> >, 128, cutlass::bfloat16_t, float, cutlass::arch::Sm90, true, false, false, true, true, true, false, false, true, true, false, false, true>, flash::CollectiveEpilogueFwd<cute::tuple<cute::C<128>, cute::C<128>, cute::C<128> >, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, cutlass::bfloat16_t, cutlass::arch::Sm90, 256, true, true, true, false>, flash::VarlenDynamicPersistentTileScheduler<128, 256, 128, true, true, true> > > >(flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<> >::Params)";
const COMBINE: &str = "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>, cute::C<128> >, 5, 256, 1, true, true, cutlass::bfloat16_t, float, cutlass::arch::Sm90> >(flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>, cute::C<128> >, 5, 256, 1, true, true, cutlass::bfloat16_t, float, cutlass::arch::Sm90>::Params)";
const EMBED: &str = "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, true>(at::cuda::detail::TensorInfo<c10::BFloat16, unsigned int>, at::cuda::detail::TensorInfo<c10::BFloat16 const, unsigned int>, at::cuda::detail::TensorInfo<long const, unsigned int>, int, int, unsigned int, unsigned int, long)";

/// One layer of a decode step, as captured in the graph.
const DECODE_LAYER: [Kernel; 13] = [
    kernel(NORM, "", 2_650, 32, 512, 40),
    kernel("nvjet_hsh_64x32_64x16_2x1_v_bz_TNT", "", 9_400, 96, 384, 168),
    kernel(ROPE, "", 2_300, 40, 128, 32),
    kernel(STORE, "", 1_850, 32, 256, 24),
    kernel(ATTEND, "", 17_600, 132, 384, 168),
    kernel(COMBINE, "", 2_700, 128, 256, 64),
    kernel("nvjet_hsh_64x32_64x16_4x1_v_bz_splitK_TNT", "", 7_300, 64, 384, 168),
    kernel(ONE_SHOT, "", 8_900, 36, 512, 48),
    kernel(NORM, "", 2_650, 32, 512, 40),
    kernel("nvjet_hsh_128x32_64x10_2x1_v_bz_TNT", "", 40_200, 112, 384, 168),
    kernel(SILU, "", 2_900, 32, 1024, 32),
    kernel("nvjet_hsh_64x32_64x16_4x1_v_bz_TNT", "", 21_300, 64, 384, 168),
    kernel(ONE_SHOT, "", 8_900, 36, 512, 48),
];

/// The start of a prefill layer, up to the first row-parallel GEMM.
const PREFILL_ATTENTION: [Kernel; 5] = [
    kernel(NORM, "sgl_kernel::fused_add_rmsnorm", 13_800, 2048, 512, 40),
    kernel("nvjet_hsh_256x128_64x4_2x1_v_bz_coopA_TNT", "aten::mm", 86_500, 132, 384, 168),
    kernel(ROPE, "sgl_kernel::apply_rope_pos_ids_cos_sin_cache", 8_400, 2560, 128, 32),
    kernel(STORE, "sgl_kernel::store_kv_cache", 5_600, 2048, 256, 24),
    kernel(ATTEND, "sgl_kernel::fwd", 43_000, 132, 384, 168),
];
/// Half of the output projection. Its all-reduce overlaps the computation of the other half.
const PREFILL_OUTPUT: Kernel = kernel("nvjet_hsh_128x256_64x4_1x2_h_bz_coopB_TNT", "aten::mm", 30_200, 128, 384, 168);
const PREFILL_MLP: [Kernel; 3] = [
    kernel(NORM, "sgl_kernel::fused_add_rmsnorm", 13_800, 2048, 512, 40),
    kernel("nvjet_hsh_256x128_64x4_2x1_v_bz_coopA_TNT", "aten::mm", 401_000, 132, 384, 168),
    kernel(SILU, "sgl_kernel::silu_and_mul", 29_500, 2048, 1024, 32),
];
const PREFILL_DOWN: Kernel = kernel("nvjet_hsh_128x256_64x4_1x2_h_bz_coopB_TNT", "aten::mm", 103_000, 128, 384, 168);
const PREFILL_REDUCE: Kernel = kernel(NCCL_REDUCE, "c10d::allreduce_", 47_000, 16, 640, 96);

const FINAL_NORM: Kernel = kernel(NORM, "sgl_kernel::fused_add_rmsnorm", 2_700, 32, 512, 40);
const LM_HEAD: Kernel = kernel("nvjet_hsh_128x32_64x10_2x1_v_bz_TNT", "aten::mm", 178_000, 501, 384, 168);
const GATHER: Kernel = kernel(NCCL_GATHER, "c10d::_allgather_base_", 31_000, 8, 640, 96);
const EMBEDDING: Kernel = kernel(EMBED, "aten::embedding", 3_400, 256, 128, 40);

/// The kernels after the logits, which are launched one by one even after a graph.
const SAMPLING: [Kernel; 5] = [
    kernel(
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul>, 4, TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1> >(int, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul>, TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1>)",
        "aten::to",
        11_200,
        4008,
        128,
        32,
    ),
    kernel(
        "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, at::native::binary_internal::DivFunctor<float> > >(at::TensorIteratorBase&, at::native::BinaryFunctor<float, float, float, at::native::binary_internal::DivFunctor<float> > const&)::{lambda(int)#1}>(int, at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, at::native::binary_internal::DivFunctor<float> > >(at::TensorIteratorBase&, at::native::BinaryFunctor<float, float, float, at::native::binary_internal::DivFunctor<float> > const&)::{lambda(int)#1})",
        "aten::div_",
        13_700,
        16032,
        128,
        28,
    ),
    kernel(
        "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, at::native::(anonymous namespace)::SoftMaxForwardEpilogue>(float*, float const*, int)",
        "aten::softmax",
        24_800,
        32,
        1024,
        40,
    ),
    kernel(
        "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u, (cub::BlockScanAlgorithm)2, (cub::BlockReduceAlgorithm)2, 4u, true, float, int>(float*, int*, float*, int*, int*, unsigned int, float, unsigned int, unsigned long, unsigned long)",
        "sgl_kernel::top_k_top_p_sampling_from_probs",
        52_600,
        32,
        1024,
        64,
    ),
    kernel(
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#4}::operator()() const::{lambda(long)#1}, std::array<char*, 2ul>, 4, TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1> >(int, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#4}::operator()() const::{lambda(long)#1}, std::array<char*, 2ul>, TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1>)",
        "aten::to",
        1_700,
        1,
        128,
        28,
    ),
];

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: serving_trace OUT.json[.gz]")?;
    let text = Recording::new().serve().into_json(path.trim_end_matches(".gz"))?;
    let mut file = File::create(&path)?;
    if path.ends_with(".gz") {
        // No timestamp in the header, so that the compressed bytes are reproducible.
        let mut gzip = GzBuilder::new().mtime(0).write(file, Compression::best());
        gzip.write_all(text.as_bytes())?;
        gzip.finish()?;
    } else {
        file.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// An open Python frame.
struct Frame {
    name: String,
    id: u64,
    begin_ns: i64,
}

/// The simulated server: the current times of host and streams, and the recorded events as (start, event text).
struct Recording {
    random: u64,
    host_ns: i64,
    compute_ns: i64,
    collectives_ns: i64,
    correlation: u64,
    external: u64,
    python_id: u64,
    frames: Vec<Frame>,
    host_events: Vec<(i64, String)>,
    device_events: Vec<(i64, String)>,
}

impl Recording {
    fn new() -> Self {
        Self {
            random: 0x9e37_79b9_7f4a_7c15,
            host_ns: BEGIN_NS,
            compute_ns: BEGIN_NS,
            collectives_ns: BEGIN_NS,
            correlation: 48_200,
            external: 1_024,
            python_id: 0,
            frames: Vec::new(),
            host_events: Vec::new(),
            device_events: Vec::new(),
        }
    }

    /// Simulates one prefill step, then the decode steps.
    fn serve(mut self) -> Self {
        self.enter(MAIN_LOOP);
        self.prefill();
        for _ in 0..DECODE_STEPS {
            self.between_steps();
            self.decode();
        }
        self.work(420_000);
        self.leave();
        self
    }

    fn prefill(&mut self) {
        self.enter(RUN_BATCH);
        let (annotation, begin_ns) = (self.next_external(), self.host_ns);
        for bytes in [16_384, 64, 16_384] {
            self.copy_to_device(bytes);
        }
        self.enter(FORWARD);
        self.enter("nn.Module: LlamaForCausalLM_0");
        self.launch(&EMBEDDING);
        for layer in 0..LAYERS {
            self.prefill_layer(layer);
        }
        self.launch(&FINAL_NORM);
        self.launch(&LM_HEAD);
        self.reduce(&GATHER, "_allgather_base", 256_512);
        self.compute_ns = self.compute_ns.max(self.collectives_ns);
        self.leave();
        self.leave();
        self.sample(4 * 8);
        self.annotate("step[EXTEND bs=4 toks=2048]", annotation, begin_ns);
        self.leave();
    }

    fn prefill_layer(&mut self, layer: usize) {
        self.enter(&format!("nn.Module: LlamaDecoderLayer_{layer}"));
        self.enter(&format!("nn.Module: LlamaAttention_{layer}"));
        PREFILL_ATTENTION.iter().for_each(|kernel| self.launch(kernel));
        self.row_parallel(&PREFILL_OUTPUT);
        self.leave();
        self.enter(&format!("nn.Module: LlamaMLP_{layer}"));
        PREFILL_MLP.iter().for_each(|kernel| self.launch(kernel));
        self.row_parallel(&PREFILL_DOWN);
        self.leave();
        self.leave();
    }

    /// Runs a GEMM in two halves. The all-reduce of the first half overlaps the second half.
    fn row_parallel(&mut self, half: &Kernel) {
        for _ in 0..2 {
            self.launch(half);
            self.reduce(&PREFILL_REDUCE, "allreduce", 4_194_304);
        }
        self.compute_ns = self.compute_ns.max(self.collectives_ns);
    }

    fn decode(&mut self) {
        self.enter(RUN_BATCH);
        let (annotation, begin_ns) = (self.next_external(), self.host_ns);
        for bytes in [256, 128, 256] {
            self.copy_to_device(bytes);
        }
        self.enter(FORWARD);
        self.enter("sglang/srt/model_executor/cuda_graph_runner.py(780): replay");
        self.launch_graph();
        self.leave();
        self.leave();
        self.sample(32 * 8);
        self.annotate("step[DECODE bs=32]", annotation, begin_ns);
        self.leave();
    }

    fn launch_graph(&mut self) {
        self.work(38_000);
        let correlation = self.next_correlation();
        let took = self.about(212_000);
        self.runtime("cudaGraphLaunch", 311, correlation, None, took);
        self.compute_ns = self.compute_ns.max(self.host_ns - took / 3);
        self.in_graph(&EMBEDDING, correlation);
        for _ in 0..LAYERS {
            DECODE_LAYER.iter().for_each(|kernel| self.in_graph(kernel, correlation));
        }
        self.in_graph(&FINAL_NORM, correlation);
        self.in_graph(&LM_HEAD, correlation);
        self.in_graph(&GATHER, correlation);
    }

    fn in_graph(&mut self, kernel: &Kernel, correlation: u64) {
        let begin_ns = self.compute_ns + self.about(820);
        self.compute_ns = self.device_kernel(kernel, COMPUTE, begin_ns, (None, correlation), "");
    }

    fn sample(&mut self, bytes: u64) {
        self.enter(SAMPLE);
        SAMPLING.iter().for_each(|kernel| self.launch(kernel));
        self.leave();
        self.copy_to_host(bytes);
    }

    /// Simulates the host between steps: it waits for the tokens, streams them out and builds the next batch. The GPU is idle.
    fn between_steps(&mut self) {
        let correlation = self.next_correlation();
        let wait = (self.compute_ns - self.host_ns).max(0) + self.about(9_000);
        self.runtime("cudaEventSynchronize", 137, correlation, None, wait);
        self.enter(RESULTS);
        self.work(310_000);
        for _ in 0..4 {
            self.enter("sglang/srt/managers/schedule_batch.py(905): check_finished");
            self.work(24_000);
            self.leave();
        }
        self.enter("sglang/srt/managers/scheduler_output_processor_mixin.py(812): stream_output_generation");
        self.work(260_000);
        self.leave();
        self.leave();
        self.enter(NEXT_BATCH);
        self.work(120_000);
        self.enter(PREPARE);
        self.work(330_000);
        self.leave();
        self.leave();
    }

    /// Runs an operator that launches one kernel on the compute stream.
    fn launch(&mut self, kernel: &Kernel) {
        let (external, correlation) = self.operator(kernel, "cudaLaunchKernel", 211);
        let begin_ns = (self.host_ns - 1_200).max(self.compute_ns + self.about(950));
        self.compute_ns = self.device_kernel(kernel, COMPUTE, begin_ns, (Some(external), correlation), "");
    }

    /// Runs a collective on its own stream, after the work of the compute stream so far.
    fn reduce(&mut self, kernel: &Kernel, collective: &str, elements: u64) {
        let (external, correlation) = self.operator(kernel, "cudaLaunchKernelExC", 430);
        let ready_ns = self.compute_ns.max(self.collectives_ns) + self.about(2_100);
        let begin_ns = ready_ns.max(self.host_ns - 1_200);
        let collective = format!(
            ", \"Collective name\": \"{collective}\", \"In msg nelems\": {elements}, \"Out msg nelems\": {elements}, \"Group size\": 2, \"dtype\": \"BFloat16\", \"In split size\": \"[]\", \"Out split size\": \"[]\", \"Process Group Name\": \"3\", \"Process Group Description\": \"undefined\", \"Process Group Ranks\": \"[0, 1]\""
        );
        let link = (Some(external), correlation);
        self.collectives_ns = self.device_kernel(kernel, COLLECTIVES, begin_ns, link, &collective);
    }

    fn copy_to_device(&mut self, bytes: u64) {
        self.copy("Memcpy HtoD (Pinned -> Device)", bytes, 1_500);
    }

    fn copy_to_host(&mut self, bytes: u64) {
        self.copy("Memcpy DtoH (Device -> Pinned)", bytes, 1_700);
    }

    fn copy(&mut self, name: &'static str, bytes: u64, duration_ns: i64) {
        let copy = kernel(name, "aten::copy_", duration_ns, 0, 0, 0);
        let (external, correlation) = self.operator(&copy, "cudaMemcpyAsync", 41);
        let begin_ns = (self.host_ns - 1_000).max(self.compute_ns + self.about(900));
        let took = self.about(duration_ns);
        let rate = bytes * 1_000 / took.unsigned_abs();
        let args = format!(
            "\"External id\": {external},      \"device\": 0, \"context\": 1,      \"stream\": {COMPUTE}, \"correlation\": {correlation},      \"bytes\": {bytes}, \"memory bandwidth (GB/s)\": {}.{:03}",
            rate / 1_000,
            rate % 1_000
        );
        self.device(begin_ns, COMPUTE, ("gpu_memcpy", name, took), &args, Some(correlation));
        self.compute_ns = begin_ns + took;
    }

    /// Records an operator on the host that makes one runtime call. Returns external id and correlation id.
    fn operator(&mut self, kernel: &Kernel, call: &str, cbid: u32) -> (u64, u64) {
        let (external, correlation) = (self.next_external(), self.next_correlation());
        let begin_ns = self.host_ns;
        self.work(3_900);
        let took = self.about(4_600);
        self.runtime(call, cbid, correlation, Some(external), took);
        self.work(1_100);
        let args = format!("\"External id\": {external},\"Record function id\": 0, \"Ev Idx\": {external}");
        self.host("cpu_op", kernel.operator, begin_ns, &args);
        (external, correlation)
    }

    /// Records a runtime call of `took` ns from now on, and the start of its flow arrow to the device.
    fn runtime(&mut self, name: &str, cbid: u32, correlation: u64, external: Option<u64>, took: i64) {
        let begin_ns = self.host_ns;
        self.host_ns += took;
        let external = external.map(|id| format!("\"External id\": {id}, ")).unwrap_or_default();
        let args = format!("{external}\"cbid\": {cbid}, \"correlation\": {correlation}");
        self.host("cuda_runtime", name, begin_ns, &args);
        let arrow = format!(
            "    \"ph\": \"s\", \"id\": {correlation}, \"pid\": {PROCESS}, \"tid\": {PROCESS}, \"ts\": {},\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"",
            microseconds(begin_ns)
        );
        if name != "cudaEventSynchronize" {
            self.host_events.push((begin_ns, arrow));
        }
    }

    fn device_kernel(
        &mut self,
        kernel: &Kernel,
        stream: usize,
        begin_ns: i64,
        (external, correlation): (Option<u64>, u64),
        more: &str,
    ) -> i64 {
        let took = self.about(kernel.duration_ns);
        let external = external.map(|id| format!("\"External id\": {id},")).unwrap_or_default();
        let Kernel { grid, block, registers, .. } = kernel;
        let args = format!(
            "{external}      \"queued\": 0, \"device\": 0, \"context\": 1,      \"stream\": {stream}, \"correlation\": {correlation},      \"registers per thread\": {registers},      \"shared memory\": 0,      \"grid\": [{grid}, 1, 1],      \"block\": [{block}, 1, 1]{more}"
        );
        self.device(begin_ns, stream, ("kernel", kernel.name, took), &args, Some(correlation));
        begin_ns + took
    }

    /// Records a span on a stream and, if a call launched it, the end of the flow arrow.
    fn device(
        &mut self,
        begin_ns: i64,
        stream: usize,
        (category, name, took): (&str, &str, i64),
        args: &str,
        arrow: Option<u64>,
    ) {
        let text = span(category, name, (0, stream), (begin_ns, took), args);
        self.device_events.push((begin_ns, text));
        if let Some(correlation) = arrow {
            let text = format!(
                "    \"ph\": \"f\", \"id\": {correlation}, \"pid\": 0, \"tid\": {stream}, \"ts\": {},\n    \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"",
                microseconds(begin_ns)
            );
            self.device_events.push((begin_ns, text));
        }
    }

    /// Records a span on the host from `begin_ns` until now.
    fn host(&mut self, category: &str, name: &str, begin_ns: i64, args: &str) {
        let thread = (PROCESS, PROCESS as usize);
        let text = span(category, name, thread, (begin_ns, self.host_ns - begin_ns), args);
        self.host_events.push((begin_ns, text));
    }

    /// Records the annotation of a step, on the host and on the compute stream.
    fn annotate(&mut self, name: &str, external: u64, begin_ns: i64) {
        let args = format!("\"External id\": {external},\"Record function id\": 0, \"Ev Idx\": {external}");
        self.host("user_annotation", name, begin_ns, &args);
        let caused = self.device_events.iter().map(|(ns, _)| *ns).filter(|ns| *ns >= begin_ns);
        let first = caused.min().unwrap_or(begin_ns) - 1;
        let whole = ("gpu_user_annotation", name, self.compute_ns - first);
        self.device(first, COMPUTE, whole, &format!("\"External id\": {external}"), None);
    }

    fn enter(&mut self, name: &str) {
        self.work(2_600);
        self.python_id += 1;
        self.frames.push(Frame { name: name.to_owned(), id: self.python_id, begin_ns: self.host_ns });
    }

    fn leave(&mut self) {
        self.work(1_300);
        let Some(frame) = self.frames.pop() else {
            return;
        };
        let parent = self.frames.last().map_or_else(|| "null".to_owned(), |parent| parent.id.to_string());
        let module = if frame.name.starts_with("nn.Module") { "\"Python module id\": 0, " } else { "" };
        let args = format!(
            "\"Python parent id\": {parent}, \"Python id\": {}, {module}\"Ev Idx\": {}",
            frame.id,
            100_000 + frame.id
        );
        self.host("python_function", &frame.name, frame.begin_ns, &args);
    }

    fn work(&mut self, about_ns: i64) {
        self.host_ns += self.about(about_ns);
    }

    /// Returns `ns` with a random deviation of up to four per cent (xorshift64*).
    fn about(&mut self, ns: i64) -> i64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let thousandths = i64::from((self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8) * 80 / 255;
        ns * (960 + thousandths) / 1_000
    }

    fn next_correlation(&mut self) -> u64 {
        self.correlation += 7;
        self.correlation
    }

    fn next_external(&mut self) -> u64 {
        self.external += 1;
        self.external
    }

    /// Returns the text of the file.
    fn into_json(mut self, name: &str) -> Result<String, Box<dyn Error>> {
        // A stable sort keeps an arrow after its span.
        self.host_events.sort_by_key(|(begin_ns, _)| *begin_ns);
        self.device_events.sort_by_key(|(begin_ns, _)| *begin_ns);
        let mut text = String::from(HEADER);
        for (_, event) in self.host_events.iter().chain(&self.device_events) {
            writeln!(text, "  {{\n{event}\n  }},")?;
        }
        let end_ns = self.host_ns;
        text += &metadata("process_name", u64::from(PROCESS), 0, "\"name\": \"sglang::scheduler_TP0\"");
        text += &metadata("process_labels", u64::from(PROCESS), 0, "\"labels\": \"CPU\"");
        text += &metadata("process_sort_index", u64::from(PROCESS), 0, "\"sort_index\": 3187");
        text += &metadata("process_name", 0, 0, "\"name\": \"python\"");
        text += &metadata("process_labels", 0, 0, "\"labels\": \"GPU 0\"");
        text += &metadata("process_sort_index", 0, 0, "\"sort_index\": 5000000");
        for stream in [COMPUTE, COLLECTIVES] {
            text += &metadata("thread_name", 0, stream, &format!("\"name\": \"stream {stream} \""));
            text += &metadata("thread_sort_index", 0, stream, &format!("\"sort_index\": {stream}"));
        }
        let (begin, took) = (microseconds(BEGIN_NS), microseconds(end_ns - BEGIN_NS));
        writeln!(
            text,
            "  {{\n    \"ph\": \"X\", \"cat\": \"Trace\", \"ts\": {begin}, \"dur\": {took},\n    \"pid\": \"Spans\", \"tid\": \"PyTorch Profiler\",\n    \"name\": \"PyTorch Profiler (0)\",\n    \"args\": {{\n      \"Op count\": 0\n    }}\n  }},"
        )?;
        writeln!(
            text,
            "  {{\n    \"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\",\n    \"pid\": \"\", \"tid\": \"\", \"ts\": {}\n  }}\n  ],",
            microseconds(end_ns)
        )?;
        let base = name.rsplit('/').next().unwrap_or(name);
        writeln!(text, "  \"traceName\": {}\n}}", serde_json::to_string(base)?)?;
        Ok(text)
    }
}

/// Returns a complete event (`X`) of Kineto, without its braces.
fn span(
    category: &str,
    name: &str,
    (process, thread): (u32, usize),
    (begin_ns, took_ns): (i64, i64),
    args: &str,
) -> String {
    let name = serde_json::Value::from(name);
    format!(
        "    \"ph\": \"X\", \"cat\": \"{category}\", \"name\": {name}, \"pid\": {process}, \"tid\": {thread},\n    \"ts\": {}, \"dur\": {},\n    \"args\": {{\n      {args}\n    }}",
        microseconds(begin_ns),
        microseconds(took_ns)
    )
}

fn metadata(name: &str, process: u64, thread: usize, args: &str) -> String {
    format!(
        "  {{\n    \"name\": \"{name}\", \"ph\": \"M\", \"ts\": {}, \"pid\": {process}, \"tid\": {thread},\n    \"args\": {{\n      {args}\n    }}\n  }},\n",
        microseconds(BEGIN_NS)
    )
}

/// Formats a time as Kineto does: microseconds with three decimals.
fn microseconds(ns: i64) -> String {
    format!("{}.{:03}", ns / 1_000, ns % 1_000)
}

const HEADER: &str = r#"{
  "schemaVersion": 1,
  "deviceProperties": [
    {
      "id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 84929347584,
      "computeMajor": 9, "computeMinor": 0,
      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
      "regsPerBlock": 65536, "warpSize": 32,
      "sharedMemPerBlock": 49152, "numSms": 132
    , "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 232448, "sharedMemPerMultiprocessor": 233472
    },
    {
      "id": 1, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 84929347584,
      "computeMajor": 9, "computeMinor": 0,
      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
      "regsPerBlock": 65536, "warpSize": 32,
      "sharedMemPerBlock": 49152, "numSms": 132
    , "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 232448, "sharedMemPerMultiprocessor": 233472
    }
  ],
  "cupti_version": 26,
  "cuda_runtime_version": 12080,
  "cuda_driver_version": 12080,
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2, "pg_count": 2, "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 2, "ranks": [0, 1]}, {"pg_name": "3", "pg_desc": "undefined", "backend_config": "cuda:nccl", "pg_size": 2, "ranks": [0, 1]}], "nccl_version": "2.26.2"},
  "with_stack": 1,
  "trace_id": "6B1F0C52A7D94E0E8C3A5D7729E1B480",
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1759300074000000000,
  "traceEvents": [
"#;
