//! What the host threads of a program do, as lists of instructions. Times are in microseconds.

/// The main stream.
pub(crate) const MAIN: i64 = 7;

/// The memory of the host that a copy reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    Pageable,
    Pinned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    ToDevice,
    FromDevice,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Instruction {
    BeginStep,
    EndStep,
    /// Code of a function: a Python function, or a CPU op if its name contains `::`.
    Code {
        function: &'static str,
        us: f64,
    },
    /// The launch of a kernel. With `first_us`, the first launch of a kernel of this name takes that long, because it
    /// loads code.
    Launch {
        kernel: String,
        us: f64,
        stream: i64,
        first_us: Option<f64>,
    },
    /// The launch of a graph of kernels.
    Graph {
        kernels: Vec<(&'static str, f64)>,
        stream: i64,
    },
    /// The launches until the end of the region could be one graph.
    BeginRegion,
    EndRegion,
    Copy {
        direction: Direction,
        bytes: u64,
        memory: Memory,
        stream: i64,
    },
    /// Waits for a stream, or for the device, in this function.
    Synchronize {
        stream: Option<i64>,
        function: &'static str,
    },
    /// Marks the work of a stream so far.
    Record {
        event: u32,
        stream: i64,
    },
    /// Makes a stream wait for what an event marks.
    WaitEvent {
        event: u32,
        stream: i64,
    },
    Allocate {
        us: f64,
    },
    /// Frees memory, which waits for the device.
    Free {
        us: f64,
    },
    /// Takes the next batch from a worker process, which needs this long for one and works two batches ahead.
    TakeBatch {
        worker_us: f64,
    },
    /// Wakes the thread that awaits this signal.
    Signal(u32),
    Await(u32),
}

/// A host thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Thread(pub(crate) Vec<Instruction>);

impl Thread {
    fn add(&mut self, instruction: Instruction) -> &mut Self {
        self.0.push(instruction);
        self
    }

    pub(crate) fn begin_step(&mut self) -> &mut Self {
        self.add(Instruction::BeginStep)
    }

    pub(crate) fn end_step(&mut self) -> &mut Self {
        self.add(Instruction::EndStep)
    }

    pub(crate) fn code(&mut self, function: &'static str, us: f64) -> &mut Self {
        self.add(Instruction::Code { function, us })
    }

    pub(crate) fn launch(&mut self, kernel: &str, us: f64) -> &mut Self {
        self.launch_on(MAIN, kernel, us)
    }

    pub(crate) fn launch_on(&mut self, stream: i64, kernel: &str, us: f64) -> &mut Self {
        self.add(Instruction::Launch { kernel: kernel.to_owned(), us, stream, first_us: None })
    }

    /// A launch that loads the kernel if it is the first.
    pub(crate) fn launch_lazily(&mut self, kernel: String, us: f64, first_us: f64) -> &mut Self {
        self.add(Instruction::Launch { kernel, us, stream: MAIN, first_us: Some(first_us) })
    }

    pub(crate) fn graph(&mut self, kernels: Vec<(&'static str, f64)>) -> &mut Self {
        self.add(Instruction::Graph { kernels, stream: MAIN })
    }

    pub(crate) fn begin_region(&mut self) -> &mut Self {
        self.add(Instruction::BeginRegion)
    }

    pub(crate) fn end_region(&mut self) -> &mut Self {
        self.add(Instruction::EndRegion)
    }

    pub(crate) fn upload(&mut self, bytes: u64, memory: Memory) -> &mut Self {
        self.upload_on(MAIN, bytes, memory)
    }

    pub(crate) fn upload_on(&mut self, stream: i64, bytes: u64, memory: Memory) -> &mut Self {
        self.add(Instruction::Copy { direction: Direction::ToDevice, bytes, memory, stream })
    }

    /// Copies a value to pageable memory and waits for it, as `Tensor.item` does.
    pub(crate) fn read(&mut self, bytes: u64, function: &'static str) -> &mut Self {
        self.download(bytes, Memory::Pageable).synchronize(MAIN, function)
    }

    pub(crate) fn download(&mut self, bytes: u64, memory: Memory) -> &mut Self {
        self.add(Instruction::Copy { direction: Direction::FromDevice, bytes, memory, stream: MAIN })
    }

    pub(crate) fn synchronize(&mut self, stream: i64, function: &'static str) -> &mut Self {
        self.add(Instruction::Synchronize { stream: Some(stream), function })
    }

    pub(crate) fn synchronize_device(&mut self, function: &'static str) -> &mut Self {
        self.add(Instruction::Synchronize { stream: None, function })
    }

    /// Makes a stream wait for the work so far of another one.
    pub(crate) fn wait_for(&mut self, stream: i64, other: i64, event: u32) -> &mut Self {
        self.add(Instruction::Record { event, stream: other }).add(Instruction::WaitEvent { event, stream })
    }

    pub(crate) fn record(&mut self, stream: i64, event: u32) -> &mut Self {
        self.add(Instruction::Record { event, stream })
    }

    pub(crate) fn wait_event(&mut self, stream: i64, event: u32) -> &mut Self {
        self.add(Instruction::WaitEvent { event, stream })
    }

    pub(crate) fn allocate(&mut self, us: f64) -> &mut Self {
        self.add(Instruction::Allocate { us })
    }

    pub(crate) fn free(&mut self, us: f64) -> &mut Self {
        self.add(Instruction::Free { us })
    }

    pub(crate) fn take_batch(&mut self, worker_us: f64) -> &mut Self {
        self.add(Instruction::TakeBatch { worker_us })
    }

    pub(crate) fn signal(&mut self, signal: u32) -> &mut Self {
        self.add(Instruction::Signal(signal))
    }

    pub(crate) fn await_signal(&mut self, signal: u32) -> &mut Self {
        self.add(Instruction::Await(signal))
    }
}

/// How a function is named in the trace.
pub(crate) fn code_name(function: &str) -> String {
    if function.contains("::") { function.to_owned() } else { format!("model.py(10): {function}") }
}

/// What is different in the changed program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    WithoutCode(&'static str),
    /// Batches are always there.
    WithoutBatchWait,
    WithoutHost,
    WithoutCodeBetweenCalls,
    WithoutBlocking,
    WithoutBlockingAt(&'static str),
    Graphs,
    TwiceAsFast(&'static str),
    WithoutCommunication,
    Pinned,
    FreeAllocations,
    WarmedUp,
    WithoutTurnaround,
}

/// The function in which a program waits for a batch.
pub(crate) const TAKES_BATCH: &str = "torch/utils/data/dataloader.py(1132): _try_get_data";

impl Change {
    /// The id of the change in the section `what_if`.
    pub(crate) fn id(self) -> String {
        match self {
            Self::WithoutCode(function) => format!("code:{}", code_name(function)),
            Self::WithoutBatchWait => format!("wait:{TAKES_BATCH}"),
            Self::WithoutHost => "host".to_owned(),
            Self::WithoutCodeBetweenCalls => "between_calls".to_owned(),
            Self::WithoutBlocking => "all_blocking".to_owned(),
            Self::WithoutBlockingAt(function) => format!("blocking:{} / ProfilerStep", code_name(function)),
            Self::Graphs => "graph".to_owned(),
            Self::TwiceAsFast(kernel) => format!("kernel:{kernel}"),
            Self::WithoutCommunication => "communication".to_owned(),
            Self::Pinned => "pinned".to_owned(),
            Self::FreeAllocations => "allocations".to_owned(),
            Self::WarmedUp => "start_up".to_owned(),
            Self::WithoutTurnaround => "turnaround".to_owned(),
        }
    }
}
