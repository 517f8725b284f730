//! One case of a clause of the verdict, of a finding or of a row of a table: what it is about, as a text. [`super::cases`] finds it.

/// What a statement or a row is about. The timeline shows the longest case of it, and of steps the one with the median length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Example {
    /// Idle time with one of these causes, in the words of the section `gpu_idle`.
    Idle(Vec<String>),
    /// The same between the first step of a device and the end of its last one.
    IdleInSteps(Vec<String>),
    /// Idle time with this cause on the device with this label.
    IdleOn(String, String),
    /// Idle time with this cause in which the host ran this function: `scheduler.py(812): event_loop`.
    IdleCode(String, String),
    /// The same in which it ran this CPU op outside of Python functions.
    IdleCpuOp(String, String),
    /// Steps of this stage; of all stages if it is empty.
    Step(String),
    /// The step that starts so many nanoseconds after the first GPU op.
    StepAt(i64),
    /// The layers that match.
    Layer(LayerChoice),
    /// Ops of this category.
    Category(String),
    /// Launches of this kernel, with its name as in the file or demangled.
    Kernel(String),
    /// Copies whose names contain one of these words in lower case.
    Copy(Vec<String>),
    /// Communication kernels.
    Communication,
    /// Communication kernels of this operation.
    Collective(String),
    /// The same with a message of so many bytes.
    CollectiveOfSize(String, u64),
    /// The same of a rank, by its label in the section `nccl_rank_skew`.
    CollectiveOn(String, String),
    /// Communication kernels of the process with this id.
    CommunicationOf(String),
    /// API calls of this name.
    Call(String),
    /// The same in the process with this id.
    CallOf(String, String),
    /// Ranges of this name.
    Range(String),
    /// The same in the process with this id.
    RangeOf(String, String),
    /// Samples of a counter, by the label of its device, the stage and its name.
    Counter(String, String, String),
    /// Ops of graphs in the steps of this stage.
    GraphOp(String),
    /// Ops of the steps of this stage in which no graph is launched.
    EagerOp(String),
    /// Ops that no step launched.
    OpOutsideSteps,
    /// Overlap of work of this class with work of another one, in the words of the section `stream_overlap`.
    Overlap(String),
}

/// Which layers of the steps of a stage an [`Example`] is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerChoice {
    /// The stage of their steps.
    pub stage: String,
    /// The letter of their kind, the number of the layer, or the letter and a role in such layers: `A`, `12`, `A attention`.
    pub of: String,
    /// Whether the longest one is shown, or else the one with the median length.
    pub is_longest: bool,
}

impl Example {
    /// The text that [`Example::parse`] reads: `idle host_late drained`.
    pub fn text(&self) -> String {
        match self {
            Self::Idle(causes) => format!("idle {}", causes.join(" ")),
            Self::IdleInSteps(causes) => format!("idle_in_steps {}", causes.join(" ")),
            Self::IdleOn(cause, device) => format!("idle_on {cause} {device}"),
            Self::IdleCode(cause, function) => format!("idle_code {cause} {function}"),
            Self::IdleCpuOp(cause, op) => format!("idle_cpu_op {cause} {op}"),
            Self::Step(stage) => format!("step {stage}"),
            Self::StepAt(ns) => format!("step_at {ns}"),
            Self::Layer(LayerChoice { stage, of, is_longest: false }) => format!("layer {stage} {of}"),
            Self::Layer(LayerChoice { stage, of, is_longest: true }) => format!("longest_layer {stage} {of}"),
            Self::Category(category) => format!("category {category}"),
            Self::Kernel(name) => format!("kernel {name}"),
            Self::Copy(words) => format!("copy {}", words.join(" ")),
            Self::Communication => "communication ".to_owned(),
            Self::Collective(operation) => format!("collective {operation}"),
            Self::CollectiveOfSize(operation, bytes) => format!("collective_of_size {operation} {bytes}"),
            Self::CollectiveOn(operation, rank) => format!("collective_on {operation} {rank}"),
            Self::CommunicationOf(process) => format!("communication_of {process}"),
            Self::Call(name) => format!("call {name}"),
            Self::CallOf(process, name) => format!("call_of {process} {name}"),
            Self::Range(name) => format!("range {name}"),
            Self::RangeOf(process, name) => format!("range_of {process} {name}"),
            Self::Counter(device, stage, name) => format!("counter {device} {stage} {name}"),
            Self::GraphOp(stage) => format!("graph_op {stage}"),
            Self::EagerOp(stage) => format!("eager_op {stage}"),
            Self::OpOutsideSteps => "op_outside_steps ".to_owned(),
            Self::Overlap(class) => format!("overlap {class}"),
        }
    }

    /// `None` for a text that [`Example::text`] did not write.
    ///
    /// ```
    /// use gpuprism::analysis::timeline::Example;
    /// let gap = Example::Idle(vec!["host_late".to_owned(), "drained".to_owned()]);
    /// assert_eq!((Example::parse(&gap.text()), Example::parse("gap")), (Some(gap), None));
    /// let range = Example::RangeOf("12".to_owned(), "step 3".to_owned());
    /// assert_eq!(Example::parse(&range.text()), Some(range));
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, of) = text.split_once(' ')?;
        let words = || of.split_ascii_whitespace().map(str::to_owned).collect();
        let pair = || of.split_once(' ').map(|(first, rest)| (first.to_owned(), rest.to_owned()));
        let layer = |is_longest| {
            let (stage, of) = pair()?;
            Some(Self::Layer(LayerChoice { stage, of, is_longest }))
        };
        Some(match kind {
            "idle" => Self::Idle(words()),
            "idle_in_steps" => Self::IdleInSteps(words()),
            "idle_on" => pair().map(|(cause, device)| Self::IdleOn(cause, device))?,
            "idle_code" => pair().map(|(cause, function)| Self::IdleCode(cause, function))?,
            "idle_cpu_op" => pair().map(|(cause, op)| Self::IdleCpuOp(cause, op))?,
            "step" => Self::Step(of.to_owned()),
            "step_at" => Self::StepAt(of.parse().ok()?),
            "layer" => layer(false)?,
            "longest_layer" => layer(true)?,
            "category" => Self::Category(of.to_owned()),
            "kernel" => Self::Kernel(of.to_owned()),
            "copy" => Self::Copy(words()),
            "communication" => Self::Communication,
            "collective" => Self::Collective(of.to_owned()),
            "collective_of_size" => {
                let (operation, bytes) = pair()?;
                Self::CollectiveOfSize(operation, bytes.parse().ok()?)
            }
            "collective_on" => pair().map(|(operation, rank)| Self::CollectiveOn(operation, rank))?,
            "communication_of" => Self::CommunicationOf(of.to_owned()),
            "call" => Self::Call(of.to_owned()),
            "call_of" => pair().map(|(process, name)| Self::CallOf(process, name))?,
            "range" => Self::Range(of.to_owned()),
            "range_of" => pair().map(|(process, name)| Self::RangeOf(process, name))?,
            "counter" => {
                let (device, of) = pair()?;
                let (stage, name) = of.split_once(' ')?;
                Self::Counter(device, stage.to_owned(), name.to_owned())
            }
            "graph_op" => Self::GraphOp(of.to_owned()),
            "eager_op" => Self::EagerOp(of.to_owned()),
            "op_outside_steps" => Self::OpOutsideSteps,
            "overlap" => Self::Overlap(of.to_owned()),
            _ => return None,
        })
    }
}
