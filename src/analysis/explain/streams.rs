//! How far computing, communication and copies run at the same time.

use super::Context;
use super::intervals::{Activity, Class, sweep};
use super::recapture::{self, Lacks};
use crate::analysis::section::{Section, Value};
use crate::trace::Ns;

const TITLE: &str = "Overlap of streams";
const COLUMNS: [&str; 3] = ["label", "total_time_ms", "overlap_pct"];

/// How long each class of work runs on its device, and how much of that beside another class.
pub(super) fn stream_overlap(context: &Context) -> Section {
    let trace = context.trace;
    if trace.gpu_ops.is_empty() && trace.graph_replays.is_empty() {
        let recapture = recapture::command(trace.format, Lacks::Kernels);
        return Section::missing(TITLE, &COLUMNS, "The trace holds no GPU ops.", &recapture);
    }
    let (devices, _) = sweep(context, 0, &mut |_| 0);
    let sum = |of: &dyn Fn(&Activity) -> i64| devices.iter().fold(Ns::ZERO, |sum, device| sum + Ns(of(device)));
    let mut section = Section::new(TITLE, "start and end of every GPU op", &COLUMNS)
        .limit("Overlap is counted between ops of the same device and summed over devices.")
        .limit("Ops that run at the same time may still wait for each other's resources.");
    for class in Class::ALL {
        let total = sum(&|device| device.with_all(class.bit()));
        let always = matches!(class, Class::Compute | Class::Communication | Class::Copy);
        if always || total > Ns::ZERO {
            section.row([
                label(class).into(),
                Value::ms(total),
                Value::pct(sum(&|device| device.shared(class)), total),
            ]);
        }
    }
    if !trace.graph_replays.is_empty() {
        section.limits.push("CUDA graphs that were traced as a whole hide what their kernels overlap with.".to_owned());
    }
    for (name, one, other) in [
        ("compute_nccl_overlap_ms", Class::Compute, Class::Communication),
        ("compute_memcpy_overlap_ms", Class::Compute, Class::Copy),
        ("nccl_memcpy_overlap_ms", Class::Communication, Class::Copy),
    ] {
        section.figure(name, Value::ms(sum(&|device| device.with_all(one.bit() | other.bit()))));
    }
    let most = devices.iter().map(|device| device.most).max().unwrap_or(0);
    section.figure("max_concurrent_gpu_ops", most);
    section
}

fn label(class: Class) -> &'static str {
    match class {
        Class::Compute => "Compute",
        Class::Communication => "NCCL",
        Class::Copy => "Memcpy",
        Class::Set => "Memset",
        Class::Replay => "CUDA graph",
    }
}
