//! The second reading of a file: finds the code around blocking calls (`blocking_sites`) and in the intervals in which a launching
//! thread was late (`late_code`).
//!
//! Only CPU ops and Python frames are parsed, and of them only name, thread and times, by event templates where those match.

use super::blocking_sites::BlockingSiteSearch;
use super::late_code::LateCodeSearch;
use super::templates::{EventTemplates, Owner, TemplateEvent, Values};
use super::{Class, Fields, TorchReader, UNKNOWN_PID, Wanted};
use crate::input::SiteSearch;
use crate::trace::{HostInterval, NONE, Trace, is_plausible};
use std::sync::Arc;

/// What a second reading looks for.
#[derive(Debug)]
pub(super) struct SecondReading {
    blocking: BlockingSiteSearch,
    late: LateCodeSearch,
    templates: EventTemplates,
}

impl SecondReading {
    /// Stores what was found.
    pub(super) fn finish(self, trace: &mut Trace) {
        trace.blocking_sites = Arc::new(self.blocking.finish());
        trace.late_code = Arc::new(self.late.finish());
    }
}

/// Returns true for CPU ops and Python frames.
pub(super) fn is_searched(class: Class) -> bool {
    matches!(class, Class::PythonFrame | Class::CpuOp | Class::Operator)
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
        self.second_reading = Some(SecondReading {
            blocking: BlockingSiteSearch::new(&search.code.blocking),
            late: LateCodeSearch::new(&search.code.late),
            templates: EventTemplates::new(Values::NameAndTime),
        });
    }

    pub(super) fn event_of_second_reading(&mut self, text: &[u8]) {
        self.events += 1;
        if self.skipped_prefixes.class_of(text).is_some() {
            return;
        }
        if let Some(event) = self.second_reading.as_ref().and_then(|search| search.templates.read(text)) {
            return self.search(&event);
        }
        let wanted = Wanted { engine_hints: false, code: false, sites: true };
        let Some((fields, read)) = Fields::read(text, wanted) else { return };
        let class = if fields.phase == Some(b"X") { fields.class.unwrap_or(Class::Other) } else { Class::Other };
        match class {
            _ if is_searched(class) => self.search_parsed(text, &fields, class),
            // Other annotations of torch 1.9 begin like its CPU ops.
            Class::Annotation { .. } => {}
            // One event per process or thread would fill the prefix table.
            _ if fields.phase == Some(b"M") => {}
            _ => self.skipped_prefixes.learn(text.get(..read).unwrap_or_default(), class),
        }
    }

    /// An event that was parsed member by member. Later events of its kind are parsed by a template, but for the CPU ops of
    /// torch 1.9, which begin like its annotations.
    fn search_parsed(&mut self, text: &[u8], fields: &Fields<'_>, class: Class) {
        if let (Some(search), true) = (&mut self.second_reading, class != Class::Operator) {
            search.templates.learn(text, fields, class);
        }
        let (Some((start, duration)), Some(name)) = (fields.times(), fields.name) else { return };
        let owner = Owner::Parsed { pid: fields.pid.unwrap_or_default(), tid: fields.tid.unwrap_or_default() };
        self.search(&TemplateEvent { class, name, owner, start, duration, id: NONE, parent: NONE });
    }

    fn search(&mut self, event: &TemplateEvent<'_>) {
        let TemplateEvent { class, name, owner, start, duration, .. } = *event;
        if !is_plausible(start, duration) {
            return;
        }
        let thread = self.thread_of_event(owner);
        let Some(search) = &mut self.second_reading else { return };
        search.templates.remember(owner, thread);
        let time = HostInterval { thread, start, end: start.after(duration) };
        search.blocking.add(time, class, name);
        search.late.add(time, class, name);
    }
}
