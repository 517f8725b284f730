//! `start-up`: the GPU idles while the launching thread loads code and the program starts. It is no delay of the
//! workload, but it takes time of the capture.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::Situation;
use crate::analysis::structure::start_up::StartUpTimes;
use crate::trace::Vendor;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    let (device, cost_ms) = situation.worst(|device| device.start_up_ms)?;
    if cost_ms < situation.context.signals.thresholds.min_host_delay_ms {
        return None;
    }
    let rows = situation.rows::<StartUpTimes>();
    let of_device = rows.iter().filter(|row| row.device_id.words() == device.label);
    let longest = of_device.max_by(|a, b| a.loading_ms.0.total_cmp(&b.loading_ms.0));
    let loads = longest.map_or(String::new(), |row| format!(": {}", row.largest_loads));
    Some(Finding {
        id: FindingId::StartUp,
        confidence: Confidence::High,
        title: "Start of the program in the capture",
        cost_ms,
        evidence: format!(
            "{}: the launching thread loads or compiles code before the next launch, in a process that starts in the capture. \
             Largest loads{loads}",
            situation.amount_of_capture(device, cost_ms)
        ),
        action: action(situation.vendor).to_owned(),
        what_if: None,
        section: "start_up",
    })
}

fn action(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nvidia => {
            "Warm up before the capture, then capture again: run the same work several times, because code is loaded once. \
             To load all of it at the start, set `CUDA_MODULE_LOADING=EAGER`."
        }
        Vendor::Amd | Vendor::Intel | Vendor::Huawei | Vendor::Google => {
            "Warm up before the capture, then capture again: run the same work several times, because code is loaded once."
        }
    }
}
