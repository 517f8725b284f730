//! What the names of calls and copies mean for the replay, once per name.

use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::host::load_words::LoadWords;
use crate::rules::signals::CallKind;
use crate::trace::NameId;

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CallTraits {
    pub(super) launches: bool,
    pub(super) launches_graph: bool,
    pub(super) copies: bool,
    /// Returns before the copy ends.
    pub(super) is_async: bool,
    pub(super) synchronizes: bool,
    /// Waits for all streams of the device.
    pub(super) of_device: bool,
    /// Waits for an event.
    pub(super) of_event: bool,
    pub(super) allocates: bool,
    pub(super) frees: bool,
    /// Asks whether an event or a stream is done.
    pub(super) polls: bool,
    /// Makes a stream wait for an event.
    pub(super) waits_for_event: bool,
    /// Neither launches nor waits for the GPU.
    pub(super) manages: bool,
    /// Loads code, creates a context or makes a graph.
    pub(super) loads: bool,
}

/// What a copy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CopyTraits {
    pub(super) to_device: bool,
    pub(super) pageable: bool,
    /// A migration of managed memory: it is part of the kernel that faults.
    pub(super) migrates: bool,
}

/// By name.
#[derive(Debug)]
pub(super) struct Words {
    calls: Vec<CallTraits>,
    copies: Vec<CopyTraits>,
}

impl Words {
    pub(super) fn of(trace: &ClassifiedTrace) -> Self {
        let loads = LoadWords::embedded();
        let call = |(index, name): (usize, &str)| {
            let kind = trace.call_kind(NameId(u32::try_from(index).unwrap_or(u32::MAX)));
            traits(name, kind, loads.of_call(name).is_some() || kind == CallKind::EndCapture)
        };
        let copy = |name: &str| CopyTraits {
            to_device: name.contains("HtoD") || name.contains("Host-to-Device"),
            pageable: name.contains("Pageable"),
            migrates: name.starts_with("[CUDA memcpy Unified"),
        };
        Self {
            calls: trace.trace.calls.names.iter().enumerate().map(call).collect(),
            copies: trace.trace.names.iter().map(copy).collect(),
        }
    }

    pub(super) fn of_call(&self, name: NameId) -> CallTraits {
        self.calls.get(name.0 as usize).copied().unwrap_or_default()
    }

    pub(super) fn of_copy(&self, name: NameId) -> CopyTraits {
        self.copies.get(name.0 as usize).copied().unwrap_or_default()
    }
}

fn traits(name: &str, kind: CallKind, loads: bool) -> CallTraits {
    CallTraits {
        launches: matches!(kind, CallKind::Launch | CallKind::GraphLaunch),
        launches_graph: kind == CallKind::GraphLaunch,
        copies: matches!(kind, CallKind::CopyAsync | CallKind::CopyBlocking),
        is_async: name.contains("Async"),
        synchronizes: kind == CallKind::Synchronize,
        of_device: name.contains("Device") || name.contains("Ctx"),
        of_event: kind == CallKind::Synchronize && name.contains("Event"),
        allocates: kind == CallKind::Allocation,
        frees: kind == CallKind::Allocation && name.contains("Free") && !name.contains("Async"),
        polls: name.contains("EventQuery") || name.contains("StreamQuery"),
        waits_for_event: name.contains("StreamWaitEvent"),
        manages: matches!(kind, CallKind::Allocation | CallKind::Other),
        loads,
    }
}
