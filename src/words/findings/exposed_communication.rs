//! `exposed-communication`: its title, evidence and action.

use super::{Cost, Framework};
use crate::trace::Ms;
use crate::words::{capitalize, or_nothing, time};

pub(crate) const TITLE: &str = "communication without compute";

/// `waiting`: the time that is a finding of its own. `knows_waiting`: the file has the other ranks.
pub(crate) fn evidence(cost: Cost, waiting: Option<Ms>, knows_waiting: bool) -> String {
    format!(
        "{}communication runs without compute{}{}{}",
        cost.with_reason("saved if communication takes no time"),
        cost.measured(),
        or_nothing(waiting, |waiting| format!("; at least another {} is waiting for other ranks", time(waiting))),
        if knows_waiting { "" } else { "; one rank alone does not show how much of it is waiting" }
    )
}

/// `gathers`: most of the communication is all-gathers.
pub(crate) fn action(framework: Framework, knows_waiting: bool, gathers: bool) -> String {
    let first = if knows_waiting {
        ""
    } else {
        "First compare the traces of all ranks with `gpuprism ranks`: it names the rank that arrives last, and no faster transfer shortens the \
         wait for it. If the rest is worth it, "
    };
    let rest = match framework {
        Framework::SgLang => {
            "fuse the all-reduce with the norm (`--enable-flashinfer-allreduce-fusion`). With expert parallelism \
             (`--moe-a2a-backend` other than none), overlap two batches (`--enable-two-batch-overlap`)."
        }
        Framework::Vllm => {
            "fuse the all-reduce with the norm (`fuse_allreduce_rms` in `pass_config` of `--compilation-config`). \
             With data and expert parallelism over DeepEP, overlap two batches (`--enable-dbo`)."
        }
        Framework::TensorRtLlm => {
            "choose the algorithm for the message size (`allreduce_strategy`), or overlap it with compute."
        }
        Framework::OtherEngine => "overlap it with compute of another batch, or use a fused collective.",
        Framework::Xla => {
            "let XLA schedule collectives ahead of their use (on GPUs `--xla_gpu_enable_latency_hiding_scheduler=true` in \
             `XLA_FLAGS`), or shard the arrays so that fewer are needed."
        }
        Framework::Transformers | Framework::Training | Framework::Torch if gathers => {
            "fetch sharded parameters of the next layer while this one computes (FSDP: `forward_prefetch`, `backward_prefetch`, in FSDP2 \
             `set_modules_to_forward_prefetch`), or shard over fewer GPUs, for example within a node: all-gathers take most of the time of \
             communication."
        }
        Framework::Transformers | Framework::Training | Framework::Torch | Framework::Program => {
            "start the collectives earlier on a stream of their own, so that they overlap compute: for gradients, tune the \
             bucket size (`bucket_cap_mb` of DistributedDataParallel)."
        }
    };
    if knows_waiting { capitalize(rest.to_owned()) } else { format!("{first}{rest}") }
}
