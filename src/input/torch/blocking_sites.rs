//! Finds the code around blocking calls in a second reading of the file: [`crate::trace::BlockingSites`].
//!
//! Only CPU ops and Python frames are parsed, and of them only name, thread and times. Cost: O(log n) for each of them, with n
//! calls, plus O(1) for each call that it contains.

use super::late_code::LateCodeSearch;
use super::{Class, Fields, TorchReader, UNKNOWN_PID, Wanted};
use crate::input::SiteSearch;
use crate::trace::{BlockingSite, BlockingSites, HostInterval, Ns};
use gpuprism_scan::json::unescape;
use memchr::memmem;

/// Finds the innermost CPU op and Python frame around each of some calls. Events may arrive in any order.
#[derive(Debug)]
pub(super) struct BlockingSiteSearch {
    /// Sorted by thread and start.
    calls: Vec<Found>,
}

/// What was found around one call.
#[derive(Debug)]
struct Found {
    call: HostInterval,
    op: Option<Enclosing>,
    /// An op whose name begins with an underscore.
    internal_op: Option<Enclosing>,
    frame: Option<Enclosing>,
    /// A frame of PyTorch itself.
    torch_frame: Option<Enclosing>,
}

/// An event around a call, with the raw bytes of its name.
#[derive(Debug)]
struct Enclosing {
    start: Ns,
    end: Ns,
    name: Box<[u8]>,
}

impl BlockingSiteSearch {
    fn new(calls: &[HostInterval]) -> Self {
        let found =
            |call: &HostInterval| Found { call: *call, op: None, internal_op: None, frame: None, torch_frame: None };
        Self { calls: calls.iter().map(found).collect() }
    }

    /// Adds a CPU op or Python frame. `name` is its raw JSON text. Frames without a file, such as built-in methods, are skipped.
    fn add(&mut self, time: HostInterval, class: Class, name: &[u8]) {
        if class != Class::PythonFrame && memmem::find(name, b"::_").is_some() {
            self.add_to(time, name, &|found| &mut found.internal_op);
        } else if class != Class::PythonFrame {
            self.add_to(time, name, &|found| &mut found.op);
        } else if is_torch_frame(name) {
            self.add_to(time, name, &|found| &mut found.torch_frame);
        } else if memmem::find(name, b".py(").is_some() {
            self.add_to(time, name, &|found| &mut found.frame);
        }
    }

    /// An event contains a call if the call begins in it: some traces round the ends of events to microseconds.
    fn add_to(&mut self, time: HostInterval, name: &[u8], slot: &dyn Fn(&mut Found) -> &mut Option<Enclosing>) {
        let HostInterval { thread, start, end } = time;
        let first = self.calls.partition_point(|found| (found.call.thread, found.call.start) < (thread, start));
        let calls = self.calls.iter_mut().skip(first);
        for found in calls.take_while(|found| found.call.thread == thread && found.call.start < end) {
            let slot = slot(found);
            if slot.as_ref().is_none_or(|known| (start, known.end) >= (known.start, end)) {
                *slot = Some(Enclosing { start, end, name: name.into() });
            }
        }
    }

    /// Returns the sites of the calls around which something was found.
    fn finish(self) -> BlockingSites {
        let mut sites = BlockingSites::default();
        let text =
            |event: Option<Enclosing>| event.map_or_else(String::new, |event| unescape(&event.name).into_owned());
        for Found { call, op, internal_op, frame, torch_frame } in self.calls {
            let site = BlockingSite { op: text(op.or(internal_op)), frame: text(frame.or(torch_frame)) };
            if site != BlockingSite::default() {
                sites.add(call, site);
            }
        }
        sites
    }
}

/// Returns true for CPU ops and Python frames.
pub(super) fn is_searched(class: Class) -> bool {
    matches!(class, Class::PythonFrame | Class::CpuOp | Class::Operator)
}

/// Returns true for a frame of a file of PyTorch.
fn is_torch_frame(name: &[u8]) -> bool {
    let is_in_torch = name.starts_with(b"torch/")
        || ["/torch/", "\\torch\\"].iter().any(|folder| memmem::find(name, folder.as_bytes()).is_some());
    is_in_torch && memmem::find(name, b".py(").is_some()
}

impl TorchReader {
    /// Makes this reader find code instead of reading the trace. Threads get the same ids as in the trace.
    pub(in crate::input) fn search_sites(&mut self, search: SiteSearch) {
        for process in &search.processes {
            self.builder.process(UNKNOWN_PID, &process.name);
        }
        for thread in &search.threads {
            self.builder.thread(thread.process, thread.tid);
        }
        self.site_search = Some(BlockingSiteSearch::new(&search.code.blocking));
        self.late_code = LateCodeSearch::new(&search.code.late);
    }

    pub(super) fn event_of_search(&mut self, text: &[u8]) {
        self.events += 1;
        if self.skipped_prefixes.class_of(text).is_some() {
            return;
        }
        let wanted = Wanted { engine_hints: false, code: false, sites: true };
        let Some((fields, read)) = Fields::read(text, wanted) else { return };
        let class = if fields.phase == Some(b"X") { fields.class.unwrap_or(Class::Other) } else { Class::Other };
        match class {
            _ if is_searched(class) => {
                let (Some((start, duration)), Some(name)) = (fields.plausible_times(), fields.name) else { return };
                let time = HostInterval { thread: self.thread_of(&fields), start, end: start.after(duration) };
                self.site_search.iter_mut().for_each(|search| search.add(time, class, name));
                self.late_code.add(time, class, name);
            }
            // Other annotations of torch 1.9 begin like its CPU ops.
            Class::Annotation { .. } => {}
            // One event per process or thread would fill the prefix table.
            _ if fields.phase == Some(b"M") => {}
            _ => self.skipped_prefixes.learn(text.get(..read).unwrap_or_default(), class),
        }
    }

    pub(super) fn found_sites(&mut self) -> BlockingSites {
        self.site_search.take().map(BlockingSiteSearch::finish).unwrap_or_default()
    }
}
