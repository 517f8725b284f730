//! The Chrome JSON that XLA's profilers write for trace viewer, made from XSpace: its planes are processes, its lines threads. Stats
//! are arguments, all of them texts.
//!
//! The names of processes and threads come first. Times are doubles of microseconds printed with 17 digits, so they are rounded to
//! nanoseconds and not cut. The writer keeps the first million events by time. Cost: O(bytes).

use super::host::{HostEvent, HostWriter};
use super::{DeviceLine, OpWriter, Plane, Stat, StatValue, Stats, Work, op_name};
use crate::input::Detail;
use crate::input::chrome::{ChromeReader, Dialect, Event, Output};
use crate::trace::{DeviceId, Format, GpuOp, Ns, OpKind, ProblemKind, ThreadId, is_plausible};
use foldhash::fast::RandomState;
use gpuprism_scan::json::unescape;
use std::collections::HashMap;

pub(in crate::input) fn reader(label: &str, detail: Detail) -> ChromeReader<TraceViewer> {
    let dialect = TraceViewer {
        processes: HashMap::default(),
        lines: HashMap::default(),
        ops: OpWriter::default(),
        host: Some(HostWriter::new(detail)),
        host_events: HashMap::default(),
    };
    ChromeReader::new(label, detail, Format::XlaTraceViewer, dialect)
}

/// The raw bytes of `pid` and `tid`.
type LineKey = (Box<[u8]>, Box<[u8]>);

#[derive(Debug)]
pub(in crate::input) struct TraceViewer {
    processes: HashMap<Box<[u8]>, Plane, RandomState>,
    lines: HashMap<LineKey, Line, RandomState>,
    ops: OpWriter,
    host: Option<HostWriter>,
    /// What events of the host are, by their raw name.
    host_events: HashMap<Box<[u8]>, HostEvent, RandomState>,
}

/// What the events of a thread of the file are.
#[derive(Debug, Clone, Copy)]
enum Line {
    Device { device: DeviceId, stream: i64, is_tpu: bool },
    Host(ThreadId),
    Other,
}

/// The nearest nanosecond of a time in microseconds.
fn rounded(text: Option<&[u8]>) -> Option<Ns> {
    let tenths = Ns::from_decimal(text?.trim_ascii(), 4)?.0;
    Some(Ns(tenths.checked_add(5)?.div_euclid(10)))
}

impl Dialect for TraceViewer {
    fn event(&mut self, out: &mut Output, event: &Event<'_>) {
        match event.phase {
            b"M" => {
                out.builder.trace.events.other += 1;
                self.name(out, event);
            }
            b"X" => {
                let key = (Box::from(event.pid), Box::from(event.tid));
                match self.lines.get(&key).copied().unwrap_or(Line::Other) {
                    Line::Device { device, stream, is_tpu } => self.op(out, event, (device, stream, is_tpu)),
                    Line::Host(thread) => self.host_event(out, event, thread),
                    Line::Other => out.builder.trace.events.other += 1,
                }
            }
            _ => out.builder.trace.events.other += 1,
        }
    }

    fn finish(&mut self, out: &mut Output) {
        if let Some(host) = self.host.take() {
            host.finish(&mut out.builder);
        }
    }
}

impl TraceViewer {
    /// Takes the name of a process or a thread.
    fn name(&mut self, out: &mut Output, event: &Event<'_>) {
        let name = event.arg("name").unwrap_or_default();
        match &*event.name() {
            "process_name" => _ = self.processes.insert(event.pid.into(), Plane::named(&name)),
            "thread_name" => {
                let line = self.line(out, event, &name);
                self.lines.insert((event.pid.into(), event.tid.into()), line);
            }
            _ => {}
        }
    }

    fn line(&self, out: &mut Output, event: &Event<'_>, name: &str) -> Line {
        let Some(plane) = self.processes.get(event.pid) else { return Line::Other };
        let mut device = |stream, is_tpu| {
            let device = out.builder.device(&plane.device_id(), "");
            Line::Device { device, stream, is_tpu }
        };
        match (plane, plane.line(name)) {
            (Plane::Host, _) => {
                let process = out.builder.process(-1, "");
                let tid = name.rsplit_once('/').and_then(|(_, tid)| tid.parse().ok());
                Line::Host(out.builder.thread(process, tid.or_else(|| event.tid_number()).unwrap_or(-1)))
            }
            (_, DeviceLine::Stream(stream)) => device(stream, false),
            (_, DeviceLine::TpuOps) => device(-1, true),
            _ => Line::Other,
        }
    }

    fn op(&mut self, out: &mut Output, event: &Event<'_>, (device, stream, is_tpu): (DeviceId, i64, bool)) {
        let (stats, name) = (stats(event), event.name());
        let work = if is_tpu { Work::Op(OpKind::Kernel) } else { stats.work(name.as_bytes()) };
        if work == Work::None {
            out.builder.trace.events.other += 1;
            return;
        }
        let Some((start, duration)) = rounded(event.start).zip(rounded(event.duration)) else {
            return out.problem(ProblemKind::OpWithoutTime);
        };
        if !is_plausible(start, duration) {
            return out.problem(ProblemKind::ImpossibleDuration);
        }
        let op = GpuOp {
            start,
            duration,
            name: out.builder.trace.names.intern(&op_name(&name, stats.copy)),
            device,
            stream,
            process: out.builder.process(-1, ""),
            kind: if let Work::Op(kind) = work { kind } else { OpKind::Kernel },
        };
        if work == Work::WholeGraph {
            return OpWriter::whole_graph(&mut out.builder, &op, &stats);
        }
        let note = self.ops.note(&mut out.builder, &stats.site, &|raw| unescape(raw).into_owned().into());
        OpWriter::op(&mut out.builder, op, &stats, note);
    }

    fn host_event(&mut self, out: &mut Output, event: &Event<'_>, thread: ThreadId) {
        let Some(times) = rounded(event.start).zip(rounded(event.duration)) else {
            out.builder.trace.events.cpu += 1;
            return out.problem(ProblemKind::HostRowWithoutTime);
        };
        let stats = stats(event);
        let Some(host) = &mut self.host else { return };
        let own;
        let found = match (stats.step, stats.correlation) {
            (Some(number), _) => {
                own = HostWriter::step(&mut out.builder, &event.name(), number);
                &own
            }
            (None, Some(_)) => {
                own = HostWriter::call(&mut out.builder, &event.name());
                &own
            }
            (None, None) => self
                .host_events
                .entry(event.raw_name.into())
                .or_insert_with(|| host.classify(&mut out.builder, &event.name())),
        };
        let at = out.at();
        host.add(&mut out.builder, found, (thread, stats.correlation), times, at);
    }
}

/// What the arguments of an event say.
fn stats<'a>(event: &Event<'a>) -> Stats<'a> {
    let mut stats = Stats::default();
    event.each_arg(&mut |name, value| {
        let stat = Stat::named(name);
        if let (Some(text), true) = (value.scalar(), stat != Stat::Other) {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            stats.add(stat, StatValue { text, number });
        }
    });
    stats
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Importer;
    use crate::input::tests::{problems, read_trace};

    #[test]
    fn times_are_rounded_to_the_nearest_nanosecond() {
        for (text, ns) in
            [("8.3800000000000008", 8_380), ("52.198999999999998", 52_199), ("1e-06", 0), ("9.9999999999999995e-07", 0)]
        {
            assert_eq!(rounded(Some(text.as_bytes())), Some(Ns(ns)), "{text}");
        }
    }

    #[test]
    fn ops_are_on_streams_and_derived_lines_are_none() {
        let name = |kind: &str, pid: u32, tid: u32, name: &str| {
            format!(r#"{{"ph":"M","pid":{pid},"tid":{tid},"name":"{kind}","args":{{"name":"{name}"}}}}"#)
        };
        let event = |pid: u32, tid: u32, ts: &str, name: &str, args: &str| {
            format!(
                r#"{{"ph":"X","pid":{pid},"tid":{tid},"ts":{ts},"dur":2.0009999999999999,"name":"{name}","args":{{{args}}}}}"#
            )
        };
        let events = [
            name("process_name", 1, 0, "/device:GPU:3"),
            name("thread_name", 1, 1, "Stream #7"),
            name("thread_name", 1, 2, "XLA Ops - from #7"),
            name("process_name", 701, 0, "/host:CPU"),
            name("thread_name", 701, 9, "Host Threads/4242"),
            event(
                1,
                1,
                "5",
                "k.kd",
                r#""correlation_id":"8","kernel_details":"grid:1,1,1 block:1,1,1","hlo_op":"dot \"1\"","hlo_module":"jit_f""#,
            ),
            event(1, 1, "9", "MemcpyD2H", r#""memcpy_details":"size:64 dest:0 async:1""#),
            event(1, 2, "5", "dot.1", ""),
            event(701, 9, "1", "hipModuleLaunchKernel", r#""correlation_id":"8""#),
            event(701, 9, "0", "train", r#""step_num":"4""#),
            event(701, 9, "0", "$a.py:1 f", ""),
            "{}".to_owned(),
        ];
        let text = format!(r#"{{"displayTimeUnit":"ns","traceEvents":[{}]}}"#, events.join(","));
        let trace = read_trace(Importer::new("x.trace.json"), [&text]);
        let ops: Vec<_> =
            trace.gpu_ops.iter().map(|op| (trace.names.get(op.name), op.stream, op.start.0, op.duration.0)).collect();
        assert_eq!(ops, [("k", 7, 5_000, 2_001), ("Memcpy DtoH", 7, 9_000, 2_001)]);
        assert_eq!((trace.devices[0].id.as_str(), trace.format), ("3", Format::XlaTraceViewer));
        assert_eq!(trace.gpu_ops.launches().collect::<Vec<_>>(), [Some(crate::trace::CallId(0)), None]);
        assert_eq!(trace.node_notes.of_row(0).unwrap().annotation, "jit_f/dot \"1\"");
        assert_eq!((trace.bytes.clone(), trace.threads[0].tid), (vec![(1, 64)], 4242));
        assert_eq!(trace.ranges.names.iter().collect::<Vec<_>>(), ["train step 4"]);
        assert_eq!(trace.packed_code.unwrap().functions.iter().collect::<Vec<_>>(), ["a.py(1): f"]);
        assert_eq!(problems(&read_trace(Importer::new("x"), [&text])), vec![]);
    }
}
