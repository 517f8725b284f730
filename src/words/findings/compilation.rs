//! `compilation`: its title, evidence and action.

use super::Amount;

pub(crate) const TITLE: &str = "compilation during the capture";

pub(crate) fn evidence(amount: Amount) -> String {
    format!(
        "{amount}: the launching thread ran torch.compile until the next launch. The kernels of its autotuning are in the capture, too"
    )
}

pub(crate) const ACTION: &str = "If this is warm-up, run the same work once before the capture, or pick the time after it. If it is not, \
     TORCH_LOGS=recompiles says what is compiled again; mark changing sizes as dynamic, or pad them.";
