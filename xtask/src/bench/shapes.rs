//! Small torch.profiler traces of one shape at any size: many streams, devices, names, nested ranges, ... What takes quadratic time or
//! memory in one of them would take a server down. Time and output grow with the size. No number in them was measured.

use std::fmt::Display;
use std::io::{self, Write};

use super::generated::{Event, event};

/// A shape, with the size at which a command takes about a second.
pub struct Shape {
    pub name: &'static str,
    pub largest: u64,
    /// Writes the events of the item with this number, from 1, of so many.
    item: fn(&mut Vec<u8>, Item) -> io::Result<()>,
}

/// The number of an item and of all items.
#[derive(Clone, Copy)]
struct Item {
    number: u64,
    of: u64,
}

/// From one item to the next.
const ITEM_NS: u64 = 10_000;
const HOST: u64 = 1_000_000;
const COLLECTIVE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

/// All shapes.
pub const ALL: [Shape; 26] = [
    Shape { name: "launches and kernels", largest: 20_000, item: |out, item| item.pair(out, "gemm", 0, 7, 1) },
    Shape { name: "streams", largest: 20_000, item: |out, item| item.pair(out, "gemm", 0, item.number, 1) },
    Shape {
        name: "streams in another order",
        largest: 20_000,
        item: |out, item| item.pair(out, "gemm", 0, item.shuffled(), 1),
    },
    Shape {
        name: "streams that nest",
        largest: 20_000,
        item: |out, item| {
            let (begin_ns, length_ns) = item.nested();
            item.kernel(out, "gemm", 0, item.number, (begin_ns, length_ns))
        },
    },
    Shape {
        name: "kernels at the same time",
        largest: 20_000,
        item: |out, item| item.kernel(out, "gemm", 0, item.number % 3, (ITEM_NS, ITEM_NS)),
    },
    Shape { name: "devices", largest: 10_000, item: |out, item| item.pair(out, "gemm", item.number, 7, 1) },
    Shape {
        name: "devices in another order",
        largest: 10_000,
        item: |out, item| item.pair(out, "gemm", item.shuffled(), 7, 1),
    },
    Shape {
        name: "kernel names",
        largest: 10_000,
        item: |out, item| item.pair(out, &format!("kernel_{}", item.number), 0, 7, 1),
    },
    Shape { name: "threads", largest: 20_000, item: |out, item| item.pair(out, "gemm", 0, 7, item.number) },
    Shape {
        name: "processes",
        largest: 20_000,
        item: |out, item| {
            item.host_span(out, "cpu_op", "aten::mm", HOST + item.number, 1, item.around())?;
            item.launch(out, HOST + item.number, 1)?;
            item.kernel(out, "gemm", 0, 7, item.own())
        },
    },
    Shape {
        name: "range names",
        largest: 10_000,
        item: |out, item| {
            item.range(out, &format!("range {}", item.number), item.around())?;
            item.pair(out, "gemm", 0, 7, 1)
        },
    },
    Shape {
        name: "ranges that nest",
        largest: 10_000,
        item: |out, item| {
            item.range(out, "range", item.nested())?;
            item.pair(out, "gemm", 0, 7, 1)
        },
    },
    Shape {
        name: "steps",
        largest: 10_000,
        item: |out, item| {
            item.range(out, "step[DECODE bs=8 toks=8]", item.around())?;
            item.pair(out, "gemm", 0, 7, 1)
        },
    },
    Shape {
        name: "steps of many names",
        largest: 10_000,
        item: |out, item| {
            item.range(out, &format!("ProfilerStep#{}", item.number), item.around())?;
            item.pair(out, "gemm", 0, 7, 1)
        },
    },
    Shape {
        name: "steps on many devices",
        largest: 10_000,
        item: |out, item| {
            item.host_span(out, "user_annotation", "step[DECODE bs=8 toks=8]", HOST, item.number, item.around())?;
            item.pair(out, "gemm", item.number, 7, item.number)
        },
    },
    Shape {
        name: "collectives of many groups",
        largest: 10_000,
        item: |out, item| item.collective(out, COLLECTIVE, item.number, 0),
    },
    Shape {
        name: "collectives of many devices",
        largest: 10_000,
        item: |out, item| item.collective(out, COLLECTIVE, 0, item.number),
    },
    Shape {
        name: "collectives of many names",
        largest: 10_000,
        item: |out, item| item.collective(out, &format!("ncclDevKernel_Op{}(x)", item.number), 0, item.shuffled()),
    },
    Shape {
        name: "collectives of many names in steps",
        largest: 10_000,
        item: |out, item| {
            item.range(out, "step[DECODE bs=8 toks=8]", item.around())?;
            item.collective(out, &format!("ncclDevKernel_AllReduce_Sum_{}(x)", item.number), 0, 0)
        },
    },
    Shape {
        name: "CPU ops that nest",
        largest: 10_000,
        item: |out, item| {
            item.host_span(out, "cpu_op", "aten::linear", HOST, 1, item.nested())?;
            item.pair(out, "gemm", 0, 7, 1)
        },
    },
    Shape {
        name: "Python frames that nest",
        largest: 10_000,
        item: |out, item| {
            item.host_span(out, "python_function", &format!("a.py({}): f", item.number), HOST, 1, item.nested())?;
            item.pair(out, "gemm", 0, 7, 1)
        },
    },
    Shape {
        name: "CPU ops in one gap",
        largest: 10_000,
        item: |out, item| {
            if [1, item.of].contains(&item.number) {
                item.pair(out, "gemm", 0, 7, 1)?;
            }
            item.host_span(out, "cpu_op", &format!("aten::op{}", item.number), HOST, 1, item.own())
        },
    },
    Shape {
        name: "late launches after many functions",
        largest: 10_000,
        item: |out, item| {
            let name = format!("a{0}.py({0}): f", item.number);
            item.host_span(out, "python_function", &name, HOST, 1, (item.own().0 - 9_000, 8_000))?;
            item.launch(out, HOST, 1)?;
            item.kernel(out, "gemm", 0, 7, (item.own().0, 1_000))
        },
    },
    Shape {
        name: "blocking calls",
        largest: 10_000,
        item: |out, item| {
            item.host_span(out, "cuda_runtime", "cudaStreamSynchronize", HOST, 1, (item.own().0 - 9_000, 6_000))?;
            item.launch(out, HOST, 1)?;
            item.kernel(out, "gemm", 0, 7, (item.own().0, 3_000))
        },
    },
    Shape {
        name: "graph replays",
        largest: 10_000,
        item: |out, item| {
            item.host_span(out, "cuda_runtime", "cudaGraphLaunch", HOST, 1, (item.own().0 - 5_000, 2_000))?;
            item.kernel(out, &format!("kernel_{}", item.number % 50), 0, 7, item.own())
        },
    },
    Shape {
        name: "ranks merged into one file",
        largest: 10_000,
        item: |out, item| {
            writeln!(
                out,
                "{{\"ph\": \"M\", \"name\": \"process_labels\", \"pid\": {0}, \"args\": {{\"labels\": \"[TP{0}] GPU\"}}}},",
                item.number
            )?;
            item.pair(out, "gemm", item.number, 7, 1)
        },
    },
];

impl Shape {
    /// Writes a trace of so many items.
    pub fn write(&self, out: &mut impl Write, items: u64) -> io::Result<()> {
        out.write_all(b"{\"schemaVersion\": 1, \"traceEvents\": [\n")?;
        let mut text = Vec::new();
        for number in 1..=items {
            (self.item)(&mut text, Item { number, of: items })?;
            out.write_all(&text)?;
            text.clear();
        }
        // Each event ends with a comma.
        out.write_all(b"{\"ph\": \"i\", \"name\": \"end\", \"pid\": 1, \"tid\": 1, \"ts\": 0}]}\n")
    }
}

/// Begin and length.
type Time = (u64, u64);

impl Item {
    /// The time of the item on a GPU, which follows that of the item before.
    fn own(self) -> Time {
        ((self.number + self.of) * ITEM_NS, ITEM_NS - 1_000)
    }

    /// A time on the host around the launch.
    fn around(self) -> Time {
        (self.own().0 - 6_000, 9_000)
    }

    /// A time inside that of the item before, and around the own times of all items.
    fn nested(self) -> Time {
        (self.number, (2 * self.of + 2) * ITEM_NS - 2 * self.number)
    }

    /// Another number for each item, neither rising nor falling: the multiples of a prime.
    fn shuffled(self) -> u64 {
        const PRIME: u64 = 7_368_787;
        self.number * PRIME % 104_729
    }

    fn host_span(
        self,
        out: &mut Vec<u8>,
        category: &str,
        name: &str,
        process: u64,
        thread: u64,
        time: Time,
    ) -> io::Result<()> {
        self.event(out, category, name, (process, thread), time, format_args!("\"correlation\": {}", self.number))
    }

    fn range(self, out: &mut Vec<u8>, name: &str, time: Time) -> io::Result<()> {
        self.host_span(out, "user_annotation", name, HOST, 1, time)
    }

    fn launch(self, out: &mut Vec<u8>, process: u64, thread: u64) -> io::Result<()> {
        self.host_span(out, "cuda_runtime", "cudaLaunchKernel", process, thread, (self.own().0 - 5_000, 2_000))
    }

    fn kernel(self, out: &mut Vec<u8>, name: &str, device: u64, stream: u64, time: Time) -> io::Result<()> {
        self.gpu_op(out, name, (device, stream), time, &"")
    }

    fn gpu_op(
        self,
        out: &mut Vec<u8>,
        name: &str,
        (device, stream): (u64, u64),
        time: Time,
        more: &dyn Display,
    ) -> io::Result<()> {
        let arguments =
            format_args!("\"device\": {device}, \"stream\": {stream}, \"correlation\": {}{more}", self.number);
        self.event(out, "kernel", name, (device, stream), time, arguments)
    }

    /// A kernel and its launch.
    fn pair(self, out: &mut Vec<u8>, name: &str, device: u64, stream: u64, thread: u64) -> io::Result<()> {
        self.launch(out, HOST, thread)?;
        self.kernel(out, name, device, stream, self.own())
    }

    fn collective(self, out: &mut Vec<u8>, name: &str, group: u64, device: u64) -> io::Result<()> {
        let group = format!(
            ", \"Collective name\": \"allreduce\", \"In msg nelems\": 1024, \"Out msg nelems\": 1024, \"Group size\": 2, \
             \"dtype\": \"BFloat16\", \"Process Group Name\": \"{group}\", \"Process Group Ranks\": \"[0, {}]\"",
            group + 1
        );
        self.launch(out, HOST, 1)?;
        self.gpu_op(out, name, (device, 20), self.own(), &group)
    }

    fn event(
        self,
        out: &mut Vec<u8>,
        category: &str,
        name: &str,
        (process, thread): (u64, u64),
        (begin_ns, length_ns): Time,
        arguments: std::fmt::Arguments<'_>,
    ) -> io::Result<()> {
        event(out, &Event { category, name, process, thread, begin_ns, length_ns }, arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn each_shape_is_json_with_work_and_grows_with_its_items() {
        for shape in ALL {
            let events = |items: u64| {
                let mut text = Vec::new();
                shape.write(&mut text, items).unwrap();
                let trace: serde_json::Value = serde_json::from_slice(&text).unwrap();
                let events = trace["traceEvents"].as_array().unwrap().clone();
                assert!(events.iter().any(|event| event["cat"] == "kernel"), "{}", shape.name);
                events.len()
            };
            assert!(events(40) >= 3 * events(10), "{}", shape.name);
        }
    }
}
