//! The code around blocking calls: which CPU op and Python frame made a call that drained a GPU.
//!
//! If blocking calls cost much GPU time, `analysis::host::drains` finds the calls, and `analysis::host::code_search` the innermost
//! op and frame around each of them in [`super::PackedCode`]. There are at most [`MAX_LOCATED_CALLS`] calls. Windows of the trace
//! share the result.

use super::{NONE, Ns, ThreadId};

/// The maximum number of calls whose code is looked up. An event is compared with the calls that it contains, so this also limits
/// the time of the search.
pub const MAX_LOCATED_CALLS: usize = 1_000;

/// A time interval on a host thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostInterval {
    /// The thread.
    pub thread: ThreadId,
    /// Start.
    pub start: Ns,
    /// End.
    pub end: Ns,
}

/// A path without the folder of installed packages: `transformers/masking.py`.
pub(crate) fn without_install_folder(path: &str) -> &str {
    let installed = ["site-packages/", "dist-packages/"].iter().find_map(|folder| path.rsplit_once(folder));
    installed.map_or(path, |(_, path)| path)
}

/// The code that made a blocking call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockingSite {
    /// The innermost CPU op around the call: `aten::item`; empty if there is none. Ops that an op calls internally, such as
    /// `aten::_local_scalar_dense`, count only if there is no other.
    pub op: String,
    /// The innermost Python frame around the call that is not in PyTorch itself: `schedule_batch.py(123): get_next_batch`; else
    /// the innermost one that has a file; empty if there is none.
    pub frame: String,
}

impl BlockingSite {
    /// A path without the folder of installed packages: `transformers/masking.py(243): f`.
    fn short_frame(&self) -> &str {
        without_install_folder(&self.frame)
    }

    /// `aten::item, called from schedule_batch.py(123): get_next_batch`, or the part of it that is known.
    pub fn text(&self) -> String {
        match (self.op.as_str(), self.short_frame()) {
            (op, "") => op.to_owned(),
            ("", frame) => frame.to_owned(),
            (op, frame) => format!("{op}, called from {frame}"),
        }
    }

    /// `cudaStreamSynchronize in aten::item, called from schedule_batch.py(123): get_next_batch`.
    pub fn text_of_call(&self, call: &str) -> String {
        let link = if self.op.is_empty() { ", called from" } else { " in" };
        format!("{call}{link} {}", self.text())
    }
}

/// A row of [`BlockingSites`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SiteId(u32);

/// The code around blocking calls of a trace, by call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BlockingSites {
    /// Sorted, with an index into `sites`; without calls for which neither op nor frame was found.
    calls: Vec<(HostInterval, SiteId)>,
    /// Distinct.
    sites: Vec<BlockingSite>,
}

impl BlockingSites {
    /// Returns the site of the call of `thread` that was running at `time`. Binary search.
    pub fn at(&self, thread: ThreadId, time: Ns) -> Option<SiteId> {
        let started = self.calls.partition_point(|(call, _)| (call.thread, call.start) <= (thread, time));
        let (call, site) = self.calls.get(started.checked_sub(1)?)?;
        (call.thread == thread && time <= call.end).then_some(*site)
    }

    /// Returns the code of a site.
    pub fn get(&self, site: SiteId) -> Option<&BlockingSite> {
        self.sites.get(site.0 as usize)
    }

    /// Adds a call. Calls must be added sorted.
    pub(crate) fn add(&mut self, call: HostInterval, site: BlockingSite) {
        let row = self.sites.iter().position(|known| *known == site).unwrap_or_else(|| {
            self.sites.push(site);
            self.sites.len() - 1
        });
        self.calls.push((call, SiteId(u32::try_from(row).unwrap_or(NONE))));
    }
}
