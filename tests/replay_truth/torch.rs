//! Writes the events of a run as the JSON of torch.profiler.

use std::fmt::Write as _;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Category {
    Kernel,
    Copy,
    Call,
    Function,
    CpuOp,
    Step,
}

/// An event. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) category: Category,
    pub(crate) name: String,
    /// The thread, or the stream of a GPU op.
    pub(crate) row: i64,
    pub(crate) start: i64,
    pub(crate) duration: i64,
    /// Zero without.
    pub(crate) correlation: u64,
    pub(crate) bytes: u64,
}

impl Event {
    pub(crate) fn end(&self) -> i64 {
        self.start + self.duration
    }

    pub(crate) fn is_gpu_op(&self) -> bool {
        matches!(self.category, Category::Kernel | Category::Copy)
    }
}

const PROCESS: u32 = 4_242;

pub(crate) fn json(events: &[Event]) -> String {
    let mut text = String::from("{\"traceEvents\":[");
    for (index, event) in events.iter().enumerate() {
        let category = match event.category {
            Category::Kernel => "kernel",
            Category::Copy => "gpu_memcpy",
            Category::Call => "cuda_runtime",
            Category::Function => "python_function",
            Category::CpuOp => "cpu_op",
            Category::Step => "user_annotation",
        };
        let us = |ns: i64| format!("{}{}.{:03}", if ns < 0 { "-" } else { "" }, ns.abs() / 1_000, ns.abs() % 1_000);
        let (process, row) = if event.is_gpu_op() { (0, event.row) } else { (PROCESS, event.row) };
        let name = event.name.replace('"', "'");
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        write!(
            text,
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{process},"tid":{row},"ts":{},"dur":{},"args":{{"#,
            us(event.start),
            us(event.duration)
        )
        .unwrap();
        let mut args = Vec::new();
        if event.is_gpu_op() {
            args.push(format!(r#""device":0,"stream":{}"#, event.row));
        }
        if event.correlation > 0 {
            args.push(format!(r#""correlation":{}"#, event.correlation));
        }
        if event.bytes > 0 {
            args.push(format!(r#""bytes":{}"#, event.bytes));
        }
        text.push_str(&args.join(","));
        text.push_str("}}");
    }
    text.push_str("\n]}");
    text
}
