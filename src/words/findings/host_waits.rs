//! `host-waits`: its title, evidence and action.

use super::{Amount, CodeOnPath, Framework};

pub(crate) const TITLE: &str = "waits of the host for another thread or process";

pub(crate) fn evidence(amount: Amount, code: CodeOnPath) -> String {
    format!(
        "{amount}: the launching thread waits in {}, {} on the critical path. What it waits for is not in the trace of this \
         thread",
        code.place,
        code.time(),
    )
}

pub(crate) fn action(framework: Framework) -> &'static str {
    match framework {
        Framework::Training | Framework::Transformers | Framework::Torch => {
            "Make the other side faster or let it work ahead: for a DataLoader, more workers (`num_workers`), a larger \
             `prefetch_factor`, and cheaper transforms."
        }
        Framework::SgLang | Framework::Vllm | Framework::TensorRtLlm | Framework::OtherEngine => {
            "Find out what the other thread or process does: a scheduler without requests is no loss, a busy one must work ahead. Trace \
             it too."
        }
        Framework::Xla | Framework::Program => {
            "Let the other thread or process work ahead, so that its result is ready."
        }
    }
}
