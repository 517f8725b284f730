//! `far-from-roof`: its title, evidence and action.

use super::{Amount, Framework};

pub(crate) const TITLE: &str = "kernels far from the roof of the GPU";

/// `basis`: what the saving rests on, see [`crate::words::replay::far_from_roof`].
pub(crate) fn evidence(amount: Amount, op: &str, basis: &str) -> String {
    format!("{amount}: {op}: {basis}")
}

pub(crate) fn action(framework: Framework, op: &str) -> String {
    let op = op.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| op.contains(word));
    if has(&["attention", "mha", "fmha", "flash"]) {
        let backend = match framework {
            Framework::SgLang => " (`--attention-backend`)",
            _ => "",
        };
        return format!(
            "Try another attention kernel for this shape{backend}, one that splits the keys if there are few queries, and compare the \
             rates in `op_costs`."
        );
    }
    if has(&["::mm", "addmm", "bmm", "matmul", "linear", "gemm", "conv"]) {
        return "Try other kernels for this shape: `torch.compile` with `max-autotune`, a tuned library, sizes that are multiples of 64, or \
                a larger batch, which does more operations for each byte."
            .to_owned();
    }
    "Fuse it with its neighbours, so that the data are read once: `gpuprism triage` lists sequences that have a fused kernel.".to_owned()
}
