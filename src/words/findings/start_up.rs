//! `start-up`: its title, evidence and action.

use super::Amount;
use crate::trace::Vendor;
use crate::words::or_nothing;

pub(crate) const TITLE: &str = "start of the program in the capture";

/// `largest_loads`: of the process that loads longest, see [`crate::words::start_up::load`].
pub(crate) fn evidence(amount: Amount, largest_loads: Option<&str>) -> String {
    format!(
        "{amount}: the launching thread loads or compiles code before the next launch, in a process that starts in the capture. \
         Largest loads{}",
        or_nothing(largest_loads, |loads| format!(": {loads}"))
    )
}

pub(crate) fn action(vendor: Vendor) -> &'static str {
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
