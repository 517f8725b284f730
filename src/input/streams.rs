//! The formats that are read as a stream of bytes, besides torch.profiler JSON and the CSV of nsys: how each is recognized
//! and which reader it has. The readers are not in the page's first module, because it has to be small; recognizing is.
//!
//! A new format is one line in the list below and one module with a [`StreamReader`].

#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
use super::stream_reader::StreamReader;
use crate::trace::Format;
use memchr::memmem::find;

/// One format.
#[derive(Debug)]
pub(super) struct StreamFormat {
    /// The format of the trace that the reader returns.
    #[cfg_attr(not(test), allow(dead_code, reason = "a test checks that each format is listed once"))]
    pub(super) format: Format,
    /// True if a file that starts with these bytes, of which white space is skipped, has this format.
    recognizes: fn(&[u8]) -> bool,
    #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
    pub(super) reader: fn(&str, super::Detail) -> Box<dyn StreamReader>,
}

#[cfg(test)]
impl PartialEq for StreamFormat {
    fn eq(&self, other: &Self) -> bool {
        self.format == other.format
    }
}

macro_rules! formats {
    ($list:ident: $($format:ident if $recognizes:path => $reader:path;)*) => {
        static $list: &[StreamFormat] = &[$(StreamFormat {
            format: Format::$format,
            recognizes: $recognizes,
            #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
            reader: |label, detail| Box::new($reader(label, detail)),
        }),*];
    };
}

// The first module of the page does without their recognizers. It takes these for files of rocmProfileData and torch.profiler, and
// refuses or passes on those of the first two.
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
formats! { FULL_JSON:
    RocprofV1Json if is_rocprof_v1 => super::chrome::rocprof_v1::reader;
    UnitraceJson if is_unitrace => super::chrome::unitrace::reader;
    ProtonTrace if is_proton_scopes => super::chrome::proton::scopes_reader;
}

formats! { JSON:
    RocprofJson if is_rocprof_json => super::rocm::json::RocprofJson::new;
    RpdChromeJson if is_rpd_chrome => super::chrome::rpd::reader;
    ProtonTrace if is_proton_trace => super::chrome::proton::reader;
    NsysChromeJson if is_nsys_chrome => super::chrome::nsys::reader;
    XlaTraceViewer if is_xla_trace_viewer => super::xla::trace_viewer;
    AscendTraceView if is_ascend_trace_view => super::chrome::ascend::reader;
}

#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
formats! { FULL_TEXT:
    RocprofV1Csv if is_rocprof_v1_csv => super::rocm::v1_csv::reader;
    AscendKernelDetails if is_ascend_task_time => super::ascend_csv::reader;
}

formats! { TEXT:
    RocprofCsv if is_rocprof_csv => super::rocm::csv::reader;
    AscendKernelDetails if is_ascend_csv => super::ascend_csv::reader;
}

// The reader of a Perfetto trace finds out who wrote it.
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
formats! { PROTOBUF:
    XlaXspace if super::xla::is_xspace => super::xla::XSpaceReader::new;
    RocprofPerfetto if super::perfetto::is_perfetto => super::perfetto::PerfettoReader::new;
}

/// Returns the format of a protobuf with this beginning, if it is one of these. The first module of the page refuses binary files.
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
pub(super) fn of_protobuf(head: &[u8]) -> Option<&'static StreamFormat> {
    PROTOBUF.iter().find(|format| (format.recognizes)(head))
}

/// Returns the format of a JSON file with this beginning, if it is one of these.
pub(super) fn of_json(head: &[u8]) -> Option<&'static StreamFormat> {
    #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
    if let Some(format) = FULL_JSON.iter().find(|format| (format.recognizes)(head)) {
        return Some(format);
    }
    JSON.iter().find(|format| (format.recognizes)(head))
}

/// Returns the format of a text with this beginning, if it is one of these.
pub(super) fn of_text(head: &[u8]) -> Option<&'static StreamFormat> {
    #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
    if let Some(format) = FULL_TEXT.iter().find(|format| (format.recognizes)(head)) {
        return Some(format);
    }
    TEXT.iter().find(|format| (format.recognizes)(head))
}

/// Whether a JSON file with this beginning is the tree of Proton, which has totals and no times: a document and no trace.
pub(crate) fn is_proton_tree(head: &[u8]) -> bool {
    // The members are sorted, and the first frames may be so deep that their names are not in this part.
    starts_with(head, "[{\"children\":[")
        || head.starts_with(b"[")
            && has(head, "\"frame\"")
            && !has(head, "\"ph\"")
            && (has(head, "\"metrics\"") || has(head, "\"children\""))
}

/// Whether a JSON file with this beginning is of rocprof, the predecessor of rocprofv3. Like the Chrome JSON of
/// rocmProfileData, its list starts with an empty object, but its arguments have times in nanoseconds, and its
/// processes other names.
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
fn is_rocprof_v1(head: &[u8]) -> bool {
    let words = ["\"BeginNs\"", "\"CPU HIP API\"", "\"CPU HSA API\"", "\"Markers and Ranges\"", "\"COPY\""];
    is_rpd_chrome(head) && words.iter().any(|word| has(head, word))
}

/// Whether a JSON file with this beginning is of Intel's unitrace. Torch on XPU also has calls of Level Zero and the category `cpu_op`,
/// after the members that describe its file.
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
fn is_unitrace(head: &[u8]) -> bool {
    let category = |name: &str| has(head, &format!("\"cat\": \"{name}")) || has(head, &format!("\"cat\":\"{name}"));
    let is_process = || {
        let names = ["\"HOST<", " HOST<", "\"DEVICE<", " DEVICE<"];
        has(head, "\"process_name\"") && names.iter().any(|name| has(head, name))
    };
    let is_call = || category("cpu_op\"") && (has(head, "\"name\": \"ze") || has(head, "\"name\":\"ze"));
    let is_torch = || has(head, "\"schemaVersion\"") || has(head, "\"External id\"");
    category("gpu_op\"") || category("Flow_H2D_") || is_process() || is_call() && !is_torch()
}

/// Whether a JSON file with this beginning is of onetrace or cl_tracer, the predecessors of unitrace: their events have no categories,
/// and an id as text for argument.
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
pub(super) fn is_onetrace(head: &[u8]) -> bool {
    let named = |start: &str| has(head, &format!("\"name\":\"{start}")) || has(head, &format!("\"name\": \"{start}"));
    let has_id = has(head, "\"args\":{\"id\":\"") || has(head, "\"args\": {\"id\": \"");
    has(head, "\"traceEvents\"") && !has(head, "\"cat\"") && has_id && (named("ze") || named("cl"))
}

fn has(head: &[u8], word: &str) -> bool {
    find(head, word.as_bytes()).is_some()
}

/// The first bytes without white space.
fn starts_with(head: &[u8], start: &str) -> bool {
    head.iter().filter(|byte| !byte.is_ascii_whitespace()).take(start.len()).eq(start.as_bytes())
}

fn is_rocprof_json(head: &[u8]) -> bool {
    starts_with(head, "{\"rocprofiler-sdk-tool\":")
}

/// The script of rocmProfileData starts the list with an empty object, to write a comma before each event.
fn is_rpd_chrome(head: &[u8]) -> bool {
    starts_with(head, "[{}") || starts_with(head, "{\"traceEvents\":[{}")
}

/// Proton sorts the members of each event: `args`, which starts with `call_stack`, is the first.
fn is_proton_trace(head: &[u8]) -> bool {
    let has_stack = |start: &[u8]| has(start, "\"call_stack\"");
    head.get(..512).map_or(has_stack(head), has_stack) && has(head, "\"traceEvents\"")
}

/// New releases of Proton write one object, and the names of its threads first.
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
fn is_proton_scopes(head: &[u8]) -> bool {
    let has_thread = ["\"GPU Stream ", "\"CPU Thread ", "\"Graph: Stream "].iter().any(|name| has(head, name));
    let has_stacks = has(head, "\"call_stack\"") || has(head, "\"launch->kernel\"");
    has(head, "\"traceEvents\"") && has_thread && has_stacks
}

/// Trace viewer gets the planes of XLA's profile as processes, and their names first.
fn is_xla_trace_viewer(head: &[u8]) -> bool {
    let is_named =
        |start: &str| has(head, &format!("\"name\":\"{start}")) || has(head, &format!("\"name\": \"{start}"));
    has(head, "\"process_name\"") && !has(head, "\"cat\":") && (is_named("/device:") || is_named("/host:"))
}

fn is_nsys_chrome(head: &[u8]) -> bool {
    let category = |name: &str| has(head, &format!("\"cat\": \"{name}")) || has(head, &format!("\"cat\":\"{name}"));
    category("cuda\"") || category("nvtx\"") || category("nvtx-kernel\"") || category("cuda_api\"")
}

/// torch_npu writes a list, with times as text. Old releases of torch also did, with categories of their own.
fn is_ascend_trace_view(head: &[u8]) -> bool {
    let has_text_time = has(head, "\"ts\": \"") || has(head, "\"ts\":\"");
    let is_kineto = ["\"kernel\"", "\"Kernel\"", "\"cuda_runtime\"", "\"Operator\""].iter().any(|name| has(head, name));
    let has_process = ["\"Ascend Hardware\"", "\"CANN\"", "\"Overlap Analysis\""].iter().any(|name| has(head, name));
    head.starts_with(b"[") && (has_text_time && !is_kineto || has_process)
}

/// The table of rocprof, or of rocprofv2, whose titles are nearly those of rocprofv3.
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
fn is_rocprof_v1_csv(head: &[u8]) -> bool {
    let line = first_line(head);
    let has_all = |titles: &[&str]| titles.iter().all(|title| has(line, title));
    has_all(&["KernelName", "gpu-id"])
        || has_all(&["KernelName", "BeginNs", "EndNs"])
        || has_all(&["Dispatch_ID", "GPU_ID", "Kernel_Name", "Start_Timestamp", "End_Timestamp"])
}

fn is_rocprof_csv(head: &[u8]) -> bool {
    let line = first_line(head);
    has(line, "Start_Timestamp") && has(line, "End_Timestamp") || has(line, "Node_Id") && has(line, "Agent_Type")
}

fn is_ascend_csv(head: &[u8]) -> bool {
    let line = first_line(head);
    has(line, "Start Time(us)") && has(line, "Duration(us)")
}

#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
fn is_ascend_task_time(head: &[u8]) -> bool {
    let line = first_line(head);
    has(line, "kernel_type") && has(line, "task_start(us)")
}

fn first_line(head: &[u8]) -> &[u8] {
    head.split(|byte| *byte == b'\n').next().unwrap_or_default()
}
