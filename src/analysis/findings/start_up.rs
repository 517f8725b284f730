//! `start-up`: the GPU idles while the launching thread loads code and the program starts. It is no delay of the
//! workload, but it takes time of the capture.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::Situation;
use crate::analysis::structure::start_up::StartUpTimes;
use crate::words::findings::start_up as words;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    let (device, cost_ms) = situation.worst(|device| device.start_up_ms)?;
    if cost_ms < situation.context.signals.thresholds.min_host_delay_ms {
        return None;
    }
    let rows = situation.rows::<StartUpTimes>();
    let of_device = rows.iter().filter(|row| row.device_id.words() == device.label);
    let longest = of_device.max_by(|a, b| a.loading_ms.0.total_cmp(&b.loading_ms.0));
    let loads = longest.map(|row| row.largest_loads.as_str());
    Some(Finding {
        id: FindingId::StartUp,
        confidence: Confidence::High,
        title: words::TITLE,
        cost_ms,
        evidence: words::evidence(situation.amount_of_capture(device, cost_ms), loads),
        action: words::action(situation.vendor).to_owned(),
        same_as: None,
        what_if: None,
        section: "start_up",
    })
}
