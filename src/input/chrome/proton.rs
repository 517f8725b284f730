//! The timeline of Proton, the profiler of Triton. Old releases write one object per line and stream, whose number is the thread; new
//! ones write one object and name its threads: `GPU Stream 7` has kernels, `CPU Thread 0` the scopes of the host, and `Graph:
//! Stream 7` scopes that follow from the kernels. The kernel `<metric>` is Proton's own.
//!
//! The event of a kernel has its scopes and Python frames in `call_stack`, which become the annotation of the kernel:
//! `decode/layer.0`. Neither devices nor calls of the host are recorded, and times start at zero. One pass; memory for the threads and
//! the different stacks.

use super::{ChromeReader, Dialect, Event, Output, number};
use crate::input::Detail;
use crate::trace::{Format, GpuOp, NodeNote, OpKind};
use std::collections::{BTreeMap, HashMap};

/// Reads the form with an object per line.
pub(crate) fn reader(label: &str, detail: Detail) -> ChromeReader<Proton> {
    scopes_reader(label, detail).by_line()
}

/// Reads the form with one object.
pub(crate) fn scopes_reader(label: &str, detail: Detail) -> ChromeReader<Proton> {
    ChromeReader::new(label, detail, Format::ProtonTrace, Proton::default())
}

#[derive(Debug, Default)]
pub(crate) struct Proton {
    /// The annotation of each call stack; `None` for those without a scope.
    known_stacks: HashMap<Box<[u8]>, Option<u32>>,
    /// What the named threads show, by their number as it is written.
    threads: BTreeMap<Vec<u8>, Thread>,
}

#[derive(Debug, Clone, Copy)]
enum Thread {
    Stream(i64),
    Host,
    Derived,
}

impl Thread {
    fn named(name: &str) -> Self {
        match name.strip_prefix("GPU Stream") {
            Some(stream) => Self::Stream(number(stream.as_bytes()).unwrap_or(-1)),
            None if name.starts_with("CPU") => Self::Host,
            None => Self::Derived,
        }
    }
}

impl Dialect for Proton {
    fn event(&mut self, out: &mut Output, event: &Event<'_>) {
        let thread = self.threads.get(event.tid).copied();
        match (event.phase, event.category, thread) {
            (b"M", ..) => {
                if event.raw_name == b"thread_name"
                    && let Some(name) = event.arg("name")
                {
                    self.threads.insert(event.tid.to_owned(), Thread::named(&name));
                }
                out.builder.trace.events.other += 1;
            }
            (b"X", b"kernel", None | Some(Thread::Stream(_))) if event.raw_name != b"<metric>" => {
                let stream = if let Some(Thread::Stream(stream)) = thread { Some(stream) } else { event.tid_number() };
                self.kernel(out, event, stream.unwrap_or(-1));
            }
            (b"X", b"scope", Some(Thread::Host)) => {
                out.builder.trace.events.cpu += 1;
                if let Some(times) = out.host_times(event) {
                    out.range(event, &event.name(), times);
                }
            }
            _ => out.builder.trace.events.other += 1,
        }
    }
}

impl Proton {
    fn kernel(&mut self, out: &mut Output, event: &Event<'_>, stream: i64) {
        let Some((start, duration)) = out.op_times(event) else { return };
        // Old releases write the stream in place of the process, or nothing.
        let pid = if self.threads.is_empty() { -1 } else { event.pid_number() };
        let op = GpuOp {
            start,
            duration,
            name: out.builder.trace.names.intern(&event.name()),
            device: out.builder.device("0", ""),
            stream,
            process: out.builder.process(pid, ""),
            kind: OpKind::Kernel,
        };
        out.builder.trace.gpu_ops.push(op, None);
        let stack = event.container_arg("call_stack").unwrap_or_default();
        let note = match self.known_stacks.get(stack) {
            Some(known) => *known,
            None => {
                let annotation = scopes(stack, &event.name());
                let note = annotation.map(|annotation| NodeNote { annotation, ..NodeNote::default() });
                let note = note.map(|note| out.builder.trace.node_notes.add_note(note));
                self.known_stacks.insert(stack.into(), note);
                note
            }
        };
        note.into_iter().for_each(|note| out.builder.set_note_of_last_op(note));
    }
}

/// The parts of a call stack (`["ROOT", "decode", "layer.0", "gemm"]`) between its root and the kernel, outermost first, with slashes.
fn scopes(stack: &[u8], kernel: &str) -> Option<String> {
    let stack: Vec<String> = serde_json::from_slice(stack).ok()?;
    let inside = stack.strip_prefix(&["ROOT".to_owned()]).unwrap_or(&stack);
    let inside = inside.split_last().filter(|(last, _)| *last == kernel).map_or(inside, |(_, scopes)| scopes);
    // Marks of Proton itself, such as `<captured_at>`, are no scopes.
    let scopes: Vec<&str> = inside.iter().map(String::as_str).filter(|name| !name.starts_with('<')).collect();
    (!scopes.is_empty()).then(|| scopes.join("/"))
}

#[cfg(test)]
mod tests {
    use crate::input::Importer;
    use crate::input::tests::{problems, read_trace};
    use crate::trace::Format;

    #[test]
    fn kernels_and_scopes_of_a_trace_with_named_threads_are_read() {
        let name = |tid: u32, name: &str| {
            format!(r#"{{"ph":"M","pid":0,"tid":{tid},"name":"thread_name","args":{{"name":"{name}"}}}}"#)
        };
        let event = |category: &str, name: &str, tid: u32, (ts, duration): (u32, u32), stack: &str| {
            format!(
                r#"{{"args":{{"call_stack":["ROOT",{stack}"{name}"]}},"cat":"{category}","dur":{duration},"name":"{name}","ph":"X","pid":0,"tid":{tid},"ts":{ts}}}"#
            )
        };
        let events = [
            name(1, "CPU Thread 0"),
            name(100_007, "Graph: Stream 7"),
            name(200_007, "GPU Stream 7"),
            event("scope", "step", 1, (0, 90), ""),
            event("scope", "layer0", 100_007, (10, 44), ""),
            event("kernel", "matmul", 200_007, (10, 40), r#""step","<captured_at>","layer0","#),
            event("kernel", "<metric>", 200_007, (51, 1), r#""step","#),
        ];
        let text = format!("{{\"displayTimeUnit\":\"us\",\n\"traceEvents\":[{}]}}", events.join(",\n"));
        let trace = read_trace(Importer::new("p.chrome_trace"), [&text]);
        let ops: Vec<_> =
            trace.gpu_ops.iter().map(|op| (trace.names.get(op.name), op.start.0, op.duration.0, op.stream)).collect();
        assert_eq!((trace.format, ops), (Format::ProtonTrace, vec![("matmul", 10_000, 40_000, 7)]));
        assert_eq!(trace.ranges.names.iter().collect::<Vec<_>>(), ["step"]);
        assert_eq!(problems(&trace), []);
        assert!(format!("{:?}", trace.node_notes).contains("step/layer0"));
    }
}
