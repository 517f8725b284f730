//! The rows of a triage: what is known of a fusion, and how far a kernel is from the limits of its GPU. From counts, names and shares.

use super::{percent_0, percent_1};
use crate::trace::Pct;

/// What a trace shows of a fused path.
#[derive(Debug)]
pub(crate) enum Fusion {
    /// The fused kernel runs.
    Active,
    /// The parts run; any framework could fuse them.
    Split,
    /// The parts run, and this framework has a fused path.
    SplitOfFramework,
    /// The fused path is not merged.
    InFlight,
    /// The fused path has a limit.
    NotApplicable(Limit),
}

/// Why a fused path does not apply.
#[derive(Debug)]
pub(crate) enum Limit {
    Tokens { limit: u64, least: u64 },
    Messages { limit_mib: f64, bytes: f64 },
    Devices(Vec<String>),
    Vendors(Vec<&'static str>),
}

/// The rationale of a row. `note`: the sentence of the pattern. `prs`: its pull requests.
pub(crate) fn rationale(fusion: &Fusion, launches: u64, note: &str, prs: &[u64]) -> String {
    let launches = super::overlap::launches(launches);
    let finding = match fusion {
        Fusion::Active => format!("Already fused: {launches}."),
        Fusion::Split => format!("The parts run separately, one after the other, in {launches}."),
        Fusion::SplitOfFramework => {
            format!("The parts run separately, one after the other, in {launches}; this framework has a fused path.")
        }
        Fusion::InFlight => {
            format!("The parts run separately in {launches}; the fused path is proposed upstream but not merged.")
        }
        Fusion::NotApplicable(why) => {
            format!("The parts run separately in {launches}; the fused path {}.", limit(why))
        }
    };
    let prs: Vec<String> = prs.iter().map(|pr| format!("#{pr}")).collect();
    let prs = if prs.is_empty() { String::new() } else { format!(" Pull request {}.", prs.join(", ")) };
    format!("{finding} {note}{prs}")
}

fn limit(limit: &Limit) -> String {
    match limit {
        Limit::Tokens { limit, least } => {
            format!("takes at most {limit} tokens, and every step here has at least {least}")
        }
        Limit::Messages { limit_mib, bytes } => {
            format!(
                "takes messages of at most {limit_mib} MiB here, and these have {:.1} MiB",
                bytes / f64::from(1 << 20)
            )
        }
        Limit::Devices(devices) => format!("is for {} only", devices.join(", ")),
        Limit::Vendors(vendors) => format!("is for {} only", vendors.join(" and ")),
    }
}

/// A kernel of a fusion, with its share of the stage: `rms_norm (3.1%)`.
pub(crate) fn fused_kernel(name: &str, share: Option<Pct>) -> String {
    let share = super::or_nothing(share, |share| format!(" ({:.1}%)", share.0));
    format!("{name}{share}")
}

/// How far a kernel is from the limits of its GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Distance<'a> {
    /// The part of a limit, in words.
    Reached(&'a str),
    /// What to do to see it.
    Unknown(&'a str),
}

/// A sentence about the kernel of a row. `shapes`: a clause about where they come from.
pub(crate) fn roof(kernel: &str, share: Pct, distance: Distance, shapes: &str) -> String {
    let kernel = format!(" Its kernel {kernel} takes {} of the stage", percent_1(share));
    match distance {
        Distance::Reached(text) => format!("{kernel} and reaches {text}, by the shapes{shapes}."),
        Distance::Unknown(todo) => {
            format!("{kernel}. The trace does not show how far it is from the limits of the GPU: {todo}.")
        }
    }
}

/// A limit of a GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RoofLimit<'a> {
    Arithmetic { precision: &'a str, gpu: &'a str, tflops: f64 },
    Memory { gpu: &'a str, tb_per_s: f64 },
}

/// `61 % of the dense BF16 peak of H200 (989 TFLOP/s)`
pub(crate) fn reached(share: Pct, limit: RoofLimit) -> String {
    let limit = match limit {
        RoofLimit::Arithmetic { precision, gpu, tflops } => format!("{precision} peak of {gpu} ({tflops:.0} TFLOP/s)"),
        RoofLimit::Memory { gpu, tb_per_s } => format!("memory bandwidth of {gpu} ({tb_per_s} TB/s)"),
    };
    format!("{} of the {limit}", percent_0(share))
}

/// How to measure a kernel with the profiler of NVIDIA. `function`: the beginning of its name.
pub(crate) fn profile_with_ncu(function: &str) -> String {
    format!("profile it with `ncu --kernel-name regex:{function}`")
}
