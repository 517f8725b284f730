//! The programs: loops of inference and training with the mechanisms that decide how long a step takes.

use super::program::{MAIN, Memory, Thread};

const COPIES: i64 = 13;
const COLLECTIVES: i64 = 20;
const SIDE: i64 = 24;

/// The kernels of a decoder layer, and the function that launches each.
const LAYER: [(&str, &str, bool); 9] = [
    ("norm", "rms_norm", false),
    ("linear", "gemm", true),
    ("rotate", "rope", false),
    ("attend", "attention", false),
    ("linear", "gemm", true),
    ("norm", "rms_norm", false),
    ("linear", "gemm", true),
    ("activate", "silu", false),
    ("linear", "gemm", true),
];

/// Decode steps whose kernels are launched one by one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decode {
    pub(crate) small_us: f64,
    pub(crate) gemm_us: f64,
    /// Each layer reads a value.
    pub(crate) reads_in_layers: bool,
    /// Host code between the copy of the result and the call that waits for it.
    pub(crate) prepare_us: f64,
}

impl Default for Decode {
    fn default() -> Self {
        Self { small_us: 3.0, gemm_us: 11.0, reads_in_layers: false, prepare_us: 0.0 }
    }
}

impl Decode {
    pub(crate) fn threads(self) -> Vec<Thread> {
        let mut host = Thread::default();
        for _ in 0..4 {
            host.begin_step().code("schedule", 170.0).upload(4_096, Memory::Pinned);
            host.begin_region();
            for _ in 0..14 {
                for (function, kernel, is_gemm) in LAYER {
                    let us = if is_gemm { self.gemm_us } else { self.small_us };
                    host.code(function, 7.5).launch(kernel, us);
                }
                if self.reads_in_layers {
                    host.read(8, "is_finished");
                }
            }
            host.end_region().launch("argmax", 8.0);
            if self.prepare_us > 0.0 {
                host.download(256, Memory::Pinned).code("prepare_next", self.prepare_us).synchronize(MAIN, "sample");
            } else {
                host.read(256, "sample");
            }
            host.code("detokenize", 130.0).end_step();
        }
        vec![host]
    }
}

/// Decode steps that are one graph launch each.
pub(crate) fn graph_decode(prepare_us: f64, gemm_us: f64) -> Vec<Thread> {
    let layer = LAYER.map(|(_, kernel, is_gemm)| (kernel, if is_gemm { gemm_us } else { 2.5 }));
    let mut host = Thread::default();
    for _ in 0..5 {
        host.begin_step().code("schedule", prepare_us).code("prepare_inputs", prepare_us / 2.0);
        host.upload(16_384, Memory::Pinned).graph(layer.repeat(24)).launch("argmax", 8.0);
        host.read(256, "sample").code("detokenize", 240.0).end_step();
    }
    vec![host]
}

/// Decode steps of several graphs with attention between them.
pub(crate) fn piecewise_decode(gemm_us: f64) -> Vec<Thread> {
    let mut host = Thread::default();
    for _ in 0..4 {
        host.begin_step().code("schedule", 220.0);
        for _ in 0..12 {
            host.code("run_piece", 9.0);
            host.graph(vec![("rms_norm", 2.5), ("gemm", gemm_us), ("gemm", gemm_us), ("silu", 2.5), ("gemm", gemm_us)]);
            host.code("attend", 21.0).launch("attention", 6.0);
        }
        host.read(256, "sample").code("detokenize", 90.0).end_step();
    }
    vec![host]
}

/// Training with an autograd thread, and all-reduces on a stream of their own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Train {
    pub(crate) kernel_us: f64,
    /// Zero without collectives.
    pub(crate) all_reduce_us: f64,
    pub(crate) reads_loss: bool,
}

impl Train {
    pub(crate) fn threads(self) -> Vec<Thread> {
        let (mut main, mut autograd) = (Thread::default(), Thread::default());
        let us = self.kernel_us;
        let mut event = 0;
        for step in 0..3 {
            main.begin_step().code("get_batch", 160.0).upload(400_000, Memory::Pinned);
            for _ in 0..12 {
                main.code("forward", 17.0).launch("norm_fwd", us * 0.3).code("forward", 17.0).launch("gemm_fwd", us);
                main.code("forward", 17.0).launch("act_fwd", us * 0.2).code("forward", 17.0).launch("gemm_fwd", us);
            }
            main.code("backward", 55.0).signal(2 * step);
            autograd.await_signal(2 * step);
            let first_event = event;
            for layer in 0..12 {
                for index in 0..5 {
                    autograd.code("autograd::engine::evaluate_function: MmBackward0", 13.0);
                    let (kernel, share) = if index % 2 == 1 { ("gemm_bwd", 1.1) } else { ("norm_bwd", 0.4) };
                    autograd.launch(kernel, us * share);
                }
                if self.all_reduce_us > 0.0 && layer % 4 == 3 {
                    autograd.wait_for(COLLECTIVES, MAIN, event);
                    autograd.launch_on(COLLECTIVES, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", self.all_reduce_us);
                    autograd.record(COLLECTIVES, event + 1);
                    event += 2;
                }
            }
            autograd.signal(2 * step + 1);
            main.await_signal(2 * step + 1);
            for event in (first_event..event).skip(1).step_by(2) {
                main.wait_event(MAIN, event);
            }
            for _ in 0..6 {
                main.code("optimizer", 17.0).launch("adam", us);
            }
            if self.reads_loss {
                main.read(4, "loss");
            }
            main.code("log", 85.0).end_step();
        }
        vec![main, autograd]
    }
}

/// Each layer waits for its all-gather, which is launched one layer ahead.
pub(crate) fn sharded(gemm_us: f64, gather_us: f64) -> Vec<Thread> {
    const LAYERS: u32 = 10;
    let mut host = Thread::default();
    for step in 0..3 {
        let gather = |host: &mut Thread, layer: u32| {
            let event = 2 * (step * LAYERS + layer);
            host.wait_for(COLLECTIVES, MAIN, event);
            host.launch_on(COLLECTIVES, "ncclDevKernel_AllGather_RING_LL", gather_us).record(COLLECTIVES, event + 1);
        };
        host.begin_step().code("get_batch", 110.0);
        gather(&mut host, 0);
        for layer in 0..LAYERS {
            if layer + 1 < LAYERS {
                gather(&mut host, layer + 1);
            }
            host.wait_event(MAIN, 2 * (step * LAYERS + layer) + 1);
            for _ in 0..3 {
                host.code("forward", 14.0).launch("gemm", gemm_us);
            }
        }
        host.read(4, "loss").code("log", 65.0).end_step();
    }
    vec![host]
}

/// Batches come from a worker process.
pub(crate) fn loader(worker_us: f64) -> Vec<Thread> {
    let mut host = Thread::default();
    for _ in 0..5 {
        host.begin_step().take_batch(worker_us).upload(2_000_000, Memory::Pinned);
        for _ in 0..24 {
            host.code("forward", 19.0).launch("gemm", 170.0);
        }
        host.read(4, "loss").code("log", 95.0).end_step();
    }
    vec![host]
}

/// Copies that block the host.
pub(crate) fn pageable_copies(bytes: u64, gemm_us: f64) -> Vec<Thread> {
    let mut host = Thread::default();
    for step in 0..4 {
        host.begin_step().code("get_batch", 210.0).upload(bytes, Memory::Pageable);
        for _ in 0..20 {
            host.code("forward", 12.0).launch("relu", 9.0).code("forward", 12.0).launch("gemm", gemm_us);
        }
        if step % 2 == 1 {
            host.read(200_000, "cpu");
        }
        host.code("log", 105.0).end_step();
    }
    host.synchronize_device("end");
    vec![host]
}

/// The next batch is copied on a stream of its own while the GPU computes.
pub(crate) fn prefetched_copies(bytes: u64, gemm_us: f64) -> Vec<Thread> {
    let mut host = Thread::default();
    for step in 0..5 {
        host.begin_step().code("get_batch", 120.0).upload_on(COPIES, bytes, Memory::Pinned);
        host.wait_for(MAIN, COPIES, step);
        for _ in 0..16 {
            host.code("forward", 13.0).launch("gemm", gemm_us);
        }
        host.read(4, "loss").code("log", 70.0).end_step();
    }
    vec![host]
}

/// Far more launches than the queue has room for.
pub(crate) fn full_queue(reads_loss: bool) -> Vec<Thread> {
    let mut host = Thread::default();
    for _ in 0..3 {
        host.begin_step();
        for _ in 0..1_800 {
            host.code("forward", 1.8).launch("gemm", 13.0);
        }
        if reads_loss {
            host.read(4, "loss");
        }
        host.code("log", 2_500.0).end_step();
    }
    vec![host]
}

/// The first launch of some kernels loads code, until the end.
pub(crate) fn cold_start() -> Vec<Thread> {
    let mut host = Thread::default();
    for kernel in 0..60 {
        let first_us = if kernel % 3 == 0 { 5_500.0 } else { 4.2 };
        host.code("forward", 14.0).launch_lazily(format!("kernel_{kernel}"), 19.0, first_us);
    }
    host.read(4, "sample");
    vec![host]
}

/// Memory is allocated and freed in the steps.
pub(crate) fn allocations() -> Vec<Thread> {
    let mut host = Thread::default();
    for _ in 0..4 {
        host.begin_step();
        for layer in 0..20 {
            host.code("forward", 14.0);
            if layer % 5 == 1 {
                host.allocate(135.0);
            }
            if layer % 10 == 9 {
                host.free(170.0);
            }
            let (kernel, us) = if layer % 2 == 1 { ("gemm", 68.0) } else { ("relu", 12.0) };
            host.launch(kernel, us);
        }
        host.read(4, "sample").code("log", 65.0).end_step();
    }
    vec![host]
}

/// Two threads on two streams without any dependency.
pub(crate) fn free_threads() -> Vec<Thread> {
    let mut threads = vec![Thread::default(), Thread::default()];
    for (index, thread) in threads.iter_mut().enumerate() {
        let (stream, function, kernel) = [(MAIN, "forward", "gemm"), (SIDE, "other", "conv")][index];
        let (code_us, kernel_us) = [(9.0, 48.0), (14.0, 15.0)][index];
        for _ in 0..3 {
            if index == 0 {
                thread.begin_step();
            }
            for _ in 0..60 {
                thread.code(function, code_us).launch_on(stream, kernel, kernel_us);
            }
            thread.synchronize(stream, "wait").code("log", 95.0 * (index + 1) as f64);
            if index == 0 {
                thread.end_step();
            }
        }
    }
    threads
}

/// Small kernels on a second stream behind long ones, for which the host waits.
pub(crate) fn side_stream() -> Vec<Thread> {
    let mut host = Thread::default();
    for _ in 0..3 {
        host.begin_step();
        for _ in 0..8 {
            host.code("forward", 30.0).launch("embedding_bwd", 850.0);
            host.code("sparse", 60.0).launch_on(SIDE, "permute", 20.0).synchronize(SIDE, "lengths");
        }
        host.code("log", 210.0).end_step();
    }
    vec![host]
}

/// Two branches on two streams that join again, so that shorter kernels of one of them save nothing.
pub(crate) fn branches(left_us: f64, right_us: f64) -> Vec<Thread> {
    let mut host = Thread::default();
    let mut event = 0;
    for _ in 0..4 {
        host.begin_step().code("schedule", 90.0);
        for _ in 0..6 {
            host.wait_for(SIDE, MAIN, event);
            for _ in 0..4 {
                host.code("left", 6.0).launch("left_gemm", left_us);
                host.code("right", 6.0).launch_on(SIDE, "right_gemm", right_us);
            }
            host.wait_for(MAIN, SIDE, event + 1).code("join", 6.0).launch("add", 20.0);
            event += 2;
        }
        host.read(4, "sample").code("log", 60.0).end_step();
    }
    vec![host]
}

/// Two places of a step wait for the GPU.
pub(crate) fn two_reads() -> Vec<Thread> {
    let mut host = Thread::default();
    for _ in 0..4 {
        host.begin_step().code("schedule", 140.0);
        for _ in 0..30 {
            host.code("forward", 8.0).launch("gemm", 15.0);
        }
        host.read(4, "clip_grad_norm").code("check", 120.0);
        for _ in 0..20 {
            host.code("forward", 8.0).launch("gemm", 15.0);
        }
        host.read(4, "loss").code("log", 180.0).end_step();
    }
    vec![host]
}
