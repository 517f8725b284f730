//! Traces for tests: built op by op, made of random work, the fixture of nsys-llm-explainer, and recorded
//! traces.

use crate::analysis::Options;
use crate::analysis::context::Context;
use crate::analysis::results::Run;
use crate::analysis::section::{Record, Section, Sections, TypedSection, Value};
use crate::analysis::sections::explain;
use crate::input::{Imported, Importer};
use crate::rules::RuleBook;
use crate::trace::testing::TestTrace;
use crate::trace::{NONE, Trace};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

impl TestTrace {
    /// One section of the report of the finished trace.
    pub(crate) fn section<S: Into<Section>>(&mut self, section: fn(&Context) -> S) -> Section {
        section(&Context::new(&self.finish(), 30)).into()
    }

    /// All sections of the report of the finished trace.
    pub(crate) fn sections(&mut self) -> Sections {
        explain(&Context::new(&self.finish(), 30))
    }

    /// The results of the finished trace with the default rules and options.
    pub(crate) fn run(&mut self) -> Run {
        analyze(&self.finish())
    }
}

/// One replay of ten layers, three fifths of whose time are communication. After `lost_at`, each name has the duration of
/// the next kernel, as if the profiler had lost a record.
pub(crate) fn replay_of_layers(lost_at: usize) -> TestTrace {
    const LAYER: [(&str, i64); 5] = [
        ("rms_norm", 4),
        ("gemm_kernel", 60),
        ("flash_fwd_kernel", 25),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 200),
        ("silu_and_mul", 9),
    ];
    let mut trace = TestTrace::new();
    trace.in_us().call("hipGraphLaunch", 0..5);
    let mut start = 10;
    for index in 0..10 * LAYER.len() {
        let (name, _) = LAYER[index % LAYER.len()];
        let (_, duration) = LAYER[(index + usize::from(index >= lost_at)) % LAYER.len()];
        trace.launches(name, start..start + duration);
        start += duration + 1;
    }
    trace
}

/// Analyzes a trace with the default rules and options.
pub(crate) fn analyze(trace: &Trace) -> Run {
    crate::analysis::analyze(trace, RuleBook::gpuprism_default().unwrap(), &Options::default())
}

/// The path of a file below `../shared`, which must exist: tests that read one are ignored without the folder (`build.rs`).
pub(crate) fn shared(file: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared").join(file);
    assert!(path.exists(), "the recorded traces are incomplete: there is no {}", path.display());
    path
}

#[test]
fn tests_of_recorded_traces_run_where_the_traces_are() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traces");
    assert_eq!(
        folder.is_dir(),
        cfg!(recorded_traces),
        "the folder came or went since the last build: `touch build.rs`"
    );
}

pub(crate) fn read_json(file: &str) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(shared(file)).unwrap()).unwrap()
}

/// Parses a trace; panics if the bytes are another document.
pub(crate) fn import(mut importer: Importer, bytes: &[u8]) -> Trace {
    importer.feed(bytes).unwrap();
    let Imported::Trace(trace) = importer.finish().unwrap() else { panic!("a trace") };
    *trace
}

/// Reads a real torch trace.
pub(crate) fn torch(file: &str) -> Trace {
    let bytes = std::fs::read(shared(&format!("traces/torch/{file}"))).unwrap();
    import(Importer::new(file), &bytes)
}

/// The fixture of nsys-llm-explainer as a trace, with its hand-computed values.
pub(crate) fn fixture() -> (Trace, serde_json::Value) {
    const FOLDER: &str = "spec/data/golden";
    let tables = read_json(&format!("{FOLDER}/nsys_fixture.json"))["tables"].take();
    let expected = read_json(&format!("{FOLDER}/nsys_fixture.expected.json"))["expected"].take();
    let rows = |table: &str| tables[table]["rows"].as_array().unwrap().clone();
    let strings: Vec<(i64, String)> = rows("StringIds").iter().map(|row| (int(&row[0]), text(&row[1]))).collect();
    let string = |id: &serde_json::Value| strings.iter().find(|entry| entry.0 == int(id)).unwrap().1.clone();
    let mut trace = TestTrace::nsys();
    let time = |row: &serde_json::Value| int(&row[0])..int(&row[1]);
    for row in rows("CUPTI_ACTIVITY_KIND_KERNEL") {
        trace.process(int(&row[5]) >> 24).device(&row[2]).stream(int(&row[4]));
        trace.kernel_with_id(&string(&row[7]), time(&row), int(&row[6]) as u32);
    }
    for row in rows("CUPTI_ACTIVITY_KIND_MEMCPY") {
        let name = ["", "[CUDA memcpy Host-to-Device]", "[CUDA memcpy Device-to-Host]"][int(&row[5]) as usize];
        trace.process(-1).device(&row[2]).stream(int(&row[3]));
        trace.kernel(name, time(&row)).bytes(int(&row[4]) as u64);
    }
    for row in rows("CUPTI_ACTIVITY_KIND_RUNTIME") {
        let correlation = row[4].as_u64().map_or(NONE, |id| id as u32);
        trace.process(int(&row[3]) >> 24).thread(int(&row[3]) & 0xff_ffff);
        trace.call_with_id(&string(&row[2]), time(&row), correlation);
    }
    for row in rows("NVTX_EVENTS") {
        trace.process(int(&row[5]) >> 24).thread(int(&row[5]) & 0xff_ffff).range(&text(&row[3]), time(&row));
    }
    for row in rows("TARGET_INFO_GPU_METRICS") {
        let samples = rows("GPU_METRICS").into_iter().filter(|sample| sample[1] == row[0]);
        let samples: Vec<(i64, f64)> = samples.map(|sample| (int(&sample[0]), sample[3].as_f64().unwrap())).collect();
        trace.device(0).metric(&text(&row[1]), &samples);
    }
    (trace.finish(), expected)
}

fn int(value: &serde_json::Value) -> i64 {
    value.as_i64().unwrap()
}

fn text(value: &serde_json::Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The keys of the columns of a section.
pub(crate) fn keys<S: TypedSection>() -> Vec<&'static str> {
    S::SPEC.columns.iter().map(|column| column.key).collect()
}

/// Each row of a section as the values of these columns, separated by spaces.
pub(crate) fn rows(sections: &Sections, section: &str, columns: &[&str]) -> Vec<String> {
    rows_of(&sections[section], columns)
}

/// Each row as the values of these columns, separated by spaces. Numbers are rounded to three decimal places.
pub(crate) fn rows_of(section: &Section, columns: &[&str]) -> Vec<String> {
    let show = |value: &Value| match (value.text(), value.number()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(number)) => format!("{number:.3}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        (None, None) => "-".to_owned(),
    };
    let row = |row: &Record| {
        let values = columns.iter().map(|column| show(row.get(column).unwrap()));
        values.collect::<Vec<_>>().join(" ")
    };
    section.rows.iter().map(row).collect()
}

/// The value of a figure.
pub(crate) fn figure(sections: &Sections, section: &str, name: &str) -> f64 {
    number(&sections[section].summary, name)
}

/// The number in a column; panics if it is missing.
pub(crate) fn number(record: &Record, name: &str) -> f64 {
    record.get(name).and_then(Value::number).unwrap_or_else(|| panic!("{name} in {record:?}"))
}

/// The text in a column; panics if it is missing.
pub(crate) fn words<'a>(record: &'a Record, name: &str) -> &'a str {
    record.get(name).and_then(Value::text).unwrap_or_else(|| panic!("{name} in {record:?}"))
}

/// The first row with this text in a column; panics if there is none.
pub(crate) fn row<'a>(section: &'a Section, column: &str, value: &str) -> &'a Record {
    section.rows.iter().find(|row| row.get(column).and_then(Value::text) == Some(value)).unwrap()
}

/// Asserts equality within a relative tolerance of 1e-9.
pub(crate) fn close(ours: f64, theirs: &serde_json::Value) {
    let theirs = theirs.as_f64().unwrap();
    assert!((ours - theirs).abs() <= 1e-9 * theirs.abs().max(1.0), "{ours} is not {theirs}");
}

/// Op names of random work. The empty name is a graph that was traced as a whole.
pub(crate) const KINDS: [&str; 6] = [
    "gemm",
    "ncclDevKernel_AllReduce_Sum",
    "ncclDevKernel_AllGather",
    "Memcpy HtoD (Pageable -> Device)",
    "Memset",
    "",
];
pub(crate) const COMPUTE: usize = 0;
pub(crate) const ALLREDUCE: usize = 1;
pub(crate) const ALLGATHER: usize = 2;
pub(crate) const COPY: usize = 3;
pub(crate) const DEVICES: u32 = 3;
pub(crate) const TICKS: i64 = 32;

/// An op or graph replay on a coarse time grid, so that tests can check every tick.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GridOp {
    pub(crate) device: u32,
    pub(crate) kind: usize,
    pub(crate) start: i64,
    pub(crate) duration: i64,
}

pub(crate) fn grid_ops() -> impl Strategy<Value = Vec<GridOp>> {
    // An op at time zero without a duration has no recorded time.
    let op = (0..DEVICES, 0..KINDS.len(), 1..TICKS - 8, 0_i64..8);
    let op = op.prop_map(|(device, kind, start, duration)| GridOp { device, kind, start, duration });
    proptest::collection::vec(op, 1..30)
}

/// A trace with these ops on [`DEVICES`] devices.
pub(crate) fn grid_trace(ops: &[GridOp]) -> TestTrace {
    let mut trace = TestTrace::nsys();
    for device in 0..DEVICES {
        trace.device(device);
    }
    for op in ops {
        let time = op.start..op.start + op.duration;
        match KINDS[op.kind] {
            "" => trace.device(op.device).replay(time),
            name => trace.device(op.device).kernel(name, time),
        };
    }
    trace
}

/// The number of ops of each kind that run on the device from this tick to the next.
pub(crate) fn running(ops: &[GridOp], device: u32, tick: i64) -> [usize; KINDS.len()] {
    let mut running = [0; KINDS.len()];
    for op in ops.iter().filter(|op| op.device == device) {
        running[op.kind] += usize::from(op.start <= tick && tick < op.start + op.duration);
    }
    running
}

/// The number of ticks on all devices that satisfy the predicate, in milliseconds at one nanosecond per tick.
pub(crate) fn ticks_ms(ops: &[GridOp], predicate: &dyn Fn([usize; KINDS.len()]) -> bool) -> f64 {
    let ticks = (0..DEVICES).flat_map(|device| (0..TICKS).map(move |tick| (device, tick)));
    ticks.filter(|&(device, tick)| predicate(running(ops, device, tick))).count() as f64 / 1e6
}
