//! Kernels for which others are known to take less time on this GPU, as changes to replay. From the tests of
//! `patterns/unsuited_kernels.json` whose saving is known. O(names + groups of ops).

use crate::analysis::context::Context;
use crate::analysis::inference::unsuited_kernels::hits;
use crate::ordering::VecMap;
use crate::trace::NameId;

/// The id of the rows of `what_if` for these kernels, followed by the problem.
pub(super) const UNSUITED: &str = "unsuited";

/// Kernels that can be faster by a factor.
#[derive(Debug)]
pub(super) struct FasterKernels {
    pub(super) id: &'static str,
    /// The problem that they have.
    pub(super) subject: String,
    /// By name of an op.
    pub(super) kernels: Vec<bool>,
    /// Greater than 1.
    pub(super) factor: f64,
    pub(super) basis: &'static str,
}

/// One for each problem whose saving is known.
pub(super) fn faster_kernels(context: &Context) -> Vec<FasterKernels> {
    let mut found: VecMap<&str, FasterKernels> = VecMap::new();
    let names = context.trace.names.len();
    for hit in hits(context) {
        let Some(saved) = hit.test.saved_share.filter(|saved| (0.0..1.0).contains(saved)) else { continue };
        let none = FasterKernels {
            id: UNSUITED,
            subject: hit.test.problem.clone(),
            kernels: vec![false; names],
            factor: 1.0 / (1.0 - saved),
            basis: hit.test.basis.as_deref().unwrap_or("the least part of their time that other kernels save"),
        };
        found.update(hit.test.problem.as_str(), none, |kernels| {
            for (is_one, name) in kernels.kernels.iter_mut().zip((0..).map(NameId)) {
                *is_one |= hit.contains(name);
            }
        });
    }
    found.into_vec().into_iter().map(|(_, kernels)| kernels).collect()
}
