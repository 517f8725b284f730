//! Writes a large torch.profiler trace for measurements of the page: eight GPUs of one process, and ten Python frames for each
//! GPU op. Time and output grow with the ops: a million takes a minute and 2.3 GB. No number in it was measured.
//!
//! Each GPU has a thread that runs steps of [`OPS_PER_STEP`] ops, each in one call of the engine's [`STEP_FUNCTION`]. An op is launched from the innermost of nested frames, and runs
//! on the compute stream, or, one in [`OPS_PER_COLLECTIVE`], as a collective on a second one. Between steps the GPU is idle.

use std::io::{self, Write};

/// Increases with every change of what is written, so that files of another version are not reused.
pub const VERSION: u32 = 1;
/// The GPUs of the trace, each with its thread.
pub const GPUS: u64 = 8;
/// The Python frames around each GPU op.
pub const FRAMES_PER_OP: u64 = 10;

const OPS_PER_STEP: u64 = 500;
const OPS_PER_COLLECTIVE: u64 = 8;
/// From one launch to the next.
const OP_NS: u64 = 20_000;
const PAUSE_NS: u64 = 400_000;
const START_NS: u64 = 5_403_118_204_112_345;

const KERNELS: [&str; 7] = [
    "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, unsigned int, float)",
    "nvjet_hsh_64x32_64x16_2x1_v_bz_TNT",
    "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>, cute::C<128> >, 5, 256, 1> >(Params)",
    "nvjet_hsh_128x32_64x10_2x1_v_bz_TNT",
    "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &silu>(__nv_bfloat16*, __nv_bfloat16 const*, int)",
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>(int)",
    "void sglang::moe_align_block_size_kernel<int>(int*, int*, int)",
];
const COLLECTIVE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
/// The function around a step.
const STEP_FUNCTION: &str = "sglang/srt/managers/scheduler.py(2206): run_batch";
/// The frames around an op, from the outermost.
const FUNCTIONS: [&str; FRAMES_PER_OP as usize] = [
    "sglang/srt/models/qwen3.py(420): forward",
    "torch/utils/_contextlib.py(116): decorate_context",
    "sglang/srt/models/qwen2.py(360): forward",
    "torch/nn/modules/module.py(1779): _call_impl",
    "sglang/srt/models/qwen3.py(310): forward",
    "torch/nn/modules/module.py(1790): _wrapped_call_impl",
    "sglang/srt/models/qwen3.py(190): forward_core",
    "sglang/srt/layers/linear.py(1280): forward",
    "sglang/srt/layers/quantization/unquant.py(120): apply",
    "torch/nn/functional.py(2401): linear",
];

/// Writes a trace with about this many GPU ops: whole steps of all GPUs, at least one.
pub fn write(out: &mut impl Write, ops: u64) -> io::Result<()> {
    writeln!(
        out,
        "{{\"schemaVersion\": 1, \"deviceProperties\": [{{\"id\": 0, \"name\": \"NVIDIA H100 80GB HBM3\"}}], \"with_stack\": 1, \
         \"baseTimeNanoseconds\": 1700000000000000000, \"traceEvents\": ["
    )?;
    for step in 0..(ops / GPUS / OPS_PER_STEP).max(1) {
        for gpu in 0..GPUS {
            write_step(out, gpu, step)?;
        }
    }
    // The last event has no comma after it.
    writeln!(
        out,
        "{{\"ph\": \"i\", \"s\": \"g\", \"name\": \"Record Window End\", \"pid\": \"\", \"tid\": \"\", \"ts\": {}}}\n]}}",
        Micros(START_NS)
    )
}

fn write_step(out: &mut impl Write, gpu: u64, step: u64) -> io::Result<()> {
    let begin_ns = START_NS + step * (OPS_PER_STEP * OP_NS + PAUSE_NS);
    let thread = 3187 + gpu;
    event(
        out,
        &Event {
            category: "user_annotation",
            name: &format!("ProfilerStep#{step}"),
            process: 3187,
            thread,
            begin_ns,
            length_ns: OPS_PER_STEP * OP_NS,
        },
        format_args!("\"Record function id\": 0"),
    )?;
    let frame = Event {
        category: "python_function",
        name: STEP_FUNCTION,
        process: 3187,
        thread,
        begin_ns,
        length_ns: OPS_PER_STEP * OP_NS,
    };
    // Its id is none of those of the frames around ops.
    event(out, &frame, format_args!("\"Python parent id\": null, \"Python id\": 0"))?;
    for index in 0..OPS_PER_STEP {
        let number = (step * GPUS + gpu) * OPS_PER_STEP + index;
        write_op(out, gpu, number, begin_ns + index * OP_NS)?;
    }
    Ok(())
}

/// Writes the frames, the launch and the op.
fn write_op(out: &mut impl Write, gpu: u64, number: u64, begin_ns: u64) -> io::Result<()> {
    let thread = 3187 + gpu;
    for (name, depth) in FUNCTIONS.into_iter().zip(0..) {
        let id = number * FRAMES_PER_OP + depth + 1;
        let frame = Event {
            category: "python_function",
            name,
            process: 3187,
            thread,
            begin_ns: begin_ns + depth * 400,
            length_ns: 19_000 - depth * 900,
        };
        let parent = if depth == 0 { "null".to_owned() } else { (id - 1).to_string() };
        event(out, &frame, format_args!("\"Python parent id\": {parent}, \"Python id\": {id}"))?;
    }
    let launch = Event {
        category: "cuda_runtime",
        name: "cudaLaunchKernel",
        process: 3187,
        thread,
        begin_ns: begin_ns + 5_000,
        length_ns: 3_000,
    };
    event(out, &launch, format_args!("\"cbid\": 211, \"correlation\": {}", number + 1))?;
    let is_collective = number.is_multiple_of(OPS_PER_COLLECTIVE);
    let stream = if is_collective { 20 } else { 7 };
    let kernel = KERNELS.iter().cycle().nth((number % KERNELS.len() as u64) as usize).copied().unwrap_or_default();
    let op = Event {
        category: "kernel",
        name: if is_collective { COLLECTIVE } else { kernel },
        process: gpu,
        thread: stream,
        begin_ns: begin_ns + 9_000,
        // Between 8 and 16 us, without a pattern that bars of the timeline could show.
        length_ns: 8_000 + number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 8_000,
    };
    event(
        out,
        &op,
        format_args!(
            "\"device\": {gpu}, \"stream\": {stream}, \"correlation\": {}, \"grid\": [132, 1, 1], \"block\": [384, 1, 1]",
            number + 1
        ),
    )
}

/// A complete event without its arguments.
pub(super) struct Event<'a> {
    pub(super) category: &'a str,
    pub(super) name: &'a str,
    pub(super) process: u64,
    pub(super) thread: u64,
    pub(super) begin_ns: u64,
    pub(super) length_ns: u64,
}

/// Writes an event and a comma.
pub(super) fn event(out: &mut impl Write, event: &Event<'_>, arguments: std::fmt::Arguments<'_>) -> io::Result<()> {
    let Event { category, name, process, thread, begin_ns, length_ns } = event;
    writeln!(
        out,
        "{{\"ph\": \"X\", \"cat\": \"{category}\", \"name\": \"{name}\", \"pid\": {process}, \"tid\": {thread}, \"ts\": {}, \"dur\": {}, \
         \"args\": {{{arguments}}}}},",
        Micros(*begin_ns),
        Micros(*length_ns)
    )
}

/// Nanoseconds as the microseconds of the format.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{:03}", self.0 / 1_000, self.0 % 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::{FRAMES_PER_OP, GPUS, write};

    #[test]
    fn the_trace_has_the_ops_frames_and_launches_that_were_asked_for() {
        let mut text = Vec::new();
        write(&mut text, 8_000).unwrap();
        let trace: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let count = |category: &str| events.iter().filter(|event| event["cat"] == category).count() as u64;
        assert_eq!(count("kernel"), 8_000);
        assert_eq!(count("cuda_runtime"), 8_000);
        assert_eq!(count("python_function"), 8_000 * FRAMES_PER_OP + 2 * GPUS);
        assert_eq!(count("user_annotation"), 2 * GPUS);
    }
}
