//! Small traces for tests: made by hand, the golden fixture of nsys-llm-explainer, and real ones where they are at hand.

use super::Sections;
use crate::input::{Imported, Importer};
use crate::trace::{Format, GpuOp, Ns, OpKind, ProcessId, Span, ThreadId, Trace, TraceBuilder};
use std::path::{Path, PathBuf};

/// A trace that is written down line by line; times in nanoseconds.
pub(super) struct Small(pub(super) TraceBuilder);

impl Small {
    pub(super) fn new() -> Self {
        Self(TraceBuilder::new("small", Format::NsysSqlite))
    }

    fn thread(&mut self, pid: i64, tid: i64) -> ThreadId {
        let process = self.0.process(pid, "");
        self.0.thread(process, tid)
    }

    /// A kernel on device 0.
    pub(super) fn kernel(&mut self, name: &str, pid: i64, (start, end): (i64, i64), launch: Option<u32>) -> &mut Self {
        let (device, process) = (self.0.device("0", ""), self.0.process(pid, ""));
        let name = self.0.trace.names.intern(name);
        let (start, duration) = (Ns(start), Ns(end - start));
        let op = GpuOp { start, duration, name, device, stream: 7, process, kind: OpKind::Kernel };
        self.0.trace.gpu_ops.push(op, launch);
        self
    }

    pub(super) fn call(
        &mut self,
        name: &str,
        (pid, tid): (i64, i64),
        (start, end): (i64, i64),
        id: Option<u32>,
    ) -> &mut Self {
        let thread = self.thread(pid, tid);
        let name = self.0.trace.calls.names.intern(name);
        self.0.call(Span { start: Ns(start), duration: Ns(end - start), name, thread }, id);
        self
    }

    pub(super) fn range(&mut self, name: &str, (pid, tid): (i64, i64), (start, end): (i64, i64)) -> &mut Self {
        let thread = self.thread(pid, tid);
        let name = self.0.trace.ranges.names.intern(name);
        self.0.trace.ranges.push(Span { start: Ns(start), duration: Ns(end - start), name, thread });
        self
    }

    pub(super) fn finish(self) -> Trace {
        self.0.finish()
    }
}

/// A row as `key=value` of the columns asked for, numbers with three digits behind the point.
pub(super) fn rows(sections: &Sections, section: &str, columns: &[&str]) -> Vec<String> {
    let show = |value: &crate::analysis::section::Value| match (value.text(), value.number()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(number)) => format!("{number:.3}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        (None, None) => "-".to_owned(),
    };
    let row = |row: &crate::analysis::section::Record| {
        let values = columns.iter().map(|column| show(row.get(column).unwrap()));
        values.collect::<Vec<_>>().join(" ")
    };
    sections[section].rows.iter().map(row).collect()
}

/// A figure of a section.
pub(super) fn figure(sections: &Sections, section: &str, name: &str) -> f64 {
    sections[section].summary.get(name).and_then(|value| value.number()).unwrap()
}

/// The folder of shared material, where it is.
pub(super) fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared").join(path);
    if !path.exists() {
        println!("skipped: there is no {}", path.display());
    }
    path.exists().then_some(path)
}

/// A real torch trace, where it is at hand.
pub(super) fn torch(file: &str) -> Option<Trace> {
    let bytes = std::fs::read(shared("traces/torch")?.join(file)).unwrap();
    let mut importer = Importer::new(file);
    importer.feed(&bytes).unwrap();
    match importer.finish().unwrap() {
        Imported::Trace(trace) => Some(*trace),
        Imported::Document(_) => None,
    }
}

/// The fixture of nsys-llm-explainer as the reader of Nsight's export would build it.
pub(super) fn fixture() -> Option<Trace> {
    let text = std::fs::read_to_string(shared("spec/data/golden/nsys_fixture.json")?).unwrap();
    let fixture: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rows = |table: &str| -> Vec<Vec<serde_json::Value>> {
        serde_json::from_value(fixture["tables"][table]["rows"].clone()).unwrap()
    };
    let number = |value: &serde_json::Value| value.as_i64().unwrap();
    let strings = rows("StringIds");
    let string =
        |id: &serde_json::Value| strings.iter().find(|row| row[0] == *id).unwrap()[1].as_str().unwrap().to_owned();
    let host = |global: &serde_json::Value| (number(global) >> 24, number(global) & 0xff_ffff);
    let mut trace = Small::new();
    for row in rows("CUPTI_ACTIVITY_KIND_KERNEL") {
        let correlation = Some(number(&row[6]) as u32);
        trace.kernel(&string(&row[7]), host(&row[5]).0, (number(&row[0]), number(&row[1])), correlation);
    }
    for row in rows("CUPTI_ACTIVITY_KIND_RUNTIME") {
        let correlation = row[4].as_i64().map(|id| id as u32);
        trace.call(&string(&row[2]), host(&row[3]), (number(&row[0]), number(&row[1])), correlation);
    }
    for row in rows("CUPTI_ACTIVITY_KIND_MEMCPY") {
        let name = trace.0.trace.names.intern("[CUDA memcpy]");
        let (device, start) = (trace.0.device("0", ""), Ns(number(&row[0])));
        let (duration, process) = (Ns(number(&row[1])).since(start), ProcessId(0));
        let op = GpuOp { start, duration, name, device, stream: 7, process, kind: OpKind::Copy };
        trace.0.trace.gpu_ops.push(op, None);
    }
    for row in rows("NVTX_EVENTS") {
        trace.range(row[3].as_str().unwrap(), host(&row[5]), (number(&row[0]), number(&row[1])));
    }
    Some(trace.finish())
}
