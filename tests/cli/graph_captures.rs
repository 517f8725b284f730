//! Graph replays with the traces of their captures beside the trace: which ops inherit shapes, and which must not.
//!
//! The generated server runs decode steps of 30 requests with the graph of batch 32. A layer is `rmsnorm`, the product `qkv` (32 x 6,144
//! x 4,096), attention, the product `o` (32 x 4,096 x 4,096); there are two layers. Expected values are worked by hand.

use crate::common::{directory, json_runs, printed, shared};
use serde_json::{Value, json};
use std::path::Path;

/// Which profiler wrote the capture.
#[derive(Clone, Copy, PartialEq)]
enum Maker {
    /// Calls name their kernels.
    Hip,
    /// They do not.
    Cuda,
}

/// A node of the graph: its kernel, and the CPU op with its shapes if the profiler recorded one.
#[derive(Clone, Copy)]
struct Node {
    kernel: &'static str,
    op: &'static str,
    module: &'static str,
    /// Shapes of the arguments, by the batch.
    shapes: fn(u64) -> Value,
    us: f64,
}

const NORM: &str = "rms_norm_kernel";
const GEMM: &str = "Cijk_Alik_Bljk_BBS_BH_MT32x32x256";
const ATTENTION: &str = "paged_attention_v2_kernel";

const LAYER: [Node; 4] = [
    Node {
        kernel: NORM,
        op: "_C::rms_norm",
        module: "RMSNorm_0",
        shapes: |m| json!([[m, 4096], [m, 4096], [4096]]),
        us: 5.0,
    },
    Node {
        kernel: GEMM,
        op: "aten::mm",
        module: "QKVParallelLinear_0",
        shapes: |m| json!([[m, 4096], [4096, 6144]]),
        us: 20.0,
    },
    Node {
        kernel: ATTENTION,
        op: "_C::paged_attention",
        module: "Attention_0",
        shapes: |m| json!([[m, 32, 128]]),
        us: 30.0,
    },
    Node {
        kernel: GEMM,
        op: "aten::mm",
        module: "RowParallelLinear_0",
        shapes: |m| json!([[m, 4096], [4096, 4096]]),
        us: 10.0,
    },
];

fn graph() -> Vec<Node> {
    [LAYER, LAYER].concat()
}

fn event(category: &str, name: &str, [at, dur]: [f64; 2], args: Value) -> Value {
    json!({"ph": "X", "cat": category, "name": name, "pid": 9, "tid": 9, "ts": at, "dur": dur, "args": args})
}

fn write(folder: &Path, name: &str, events: &[Value]) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let device = json!([{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}]);
    std::fs::write(path, json!({"deviceProperties": device, "traceEvents": events}).to_string()).unwrap();
}

/// The events of one captured graph, which begins at `at`: each node is an op in a module with one call.
fn captured_graph(maker: Maker, batch: u64, nodes: &[Node], at: f64) -> Vec<Value> {
    let prefix = if maker == Maker::Hip { "hip" } else { "cuda" };
    let mut events = vec![event("cuda_runtime", &format!("{prefix}StreamBeginCapture"), [at, 1.0], json!({}))];
    for (index, node) in nodes.iter().enumerate() {
        let start = at + 10.0 + 20.0 * index as f64;
        let shapes = (node.shapes)(batch);
        let types = vec!["c10::BFloat16"; shapes.as_array().unwrap().len()];
        let frame = |name: &str, time: [f64; 2]| event("python_function", name, time, json!({"Python id": index}));
        events.push(frame(&format!("nn.Module: {}", node.module), [start, 18.0]));
        events.push(frame(&format!("vllm/model_executor/layers/{}.py(7): forward", node.module), [start + 1.0, 16.0]));
        let args = json!({"External id": index, "Input Dims": shapes, "Input type": types});
        events.push(event("cpu_op", node.op, [start + 2.0, 10.0], args));
        let args = if maker == Maker::Hip { json!({"kernel": node.kernel}) } else { json!({}) };
        events.push(event("cuda_runtime", &format!("{prefix}LaunchKernel"), [start + 4.0, 2.0], args));
    }
    let end = at + 10.0 + 20.0 * nodes.len() as f64;
    events.push(event("cuda_runtime", &format!("{prefix}StreamEndCapture"), [end, 1.0], json!({})));
    events
}

/// A file with one graph, in an annotation if the writer has one.
fn write_capture(folder: &Path, name: &str, maker: Maker, batch: u64, nodes: &[Node], label: Option<&str>) {
    // A warm-up launches the same kernel before the capture.
    let warm_up = json!({"kernel": GEMM});
    let mut events = vec![event("cuda_runtime", "hipLaunchKernel", [10.0, 2.0], warm_up)];
    events.extend(label.map(|label| event("user_annotation", label, [50.0, 2000.0], json!({}))));
    events.extend(captured_graph(maker, batch, nodes, 100.0));
    write(folder, name, &events);
}

/// The trace of steps with these labels: each launches a graph with these kernels.
fn write_steps(folder: &Path, labels: &[&str], kernels: &[(&str, f64)]) {
    write_steps_every(1e3, folder, labels, kernels);
}

/// The same with a step in each period.
fn write_steps_every(period_us: f64, folder: &Path, labels: &[&str], kernels: &[(&str, f64)]) {
    let mut events = Vec::new();
    for (index, label) in labels.iter().enumerate() {
        let at = 1e6 + period_us * index as f64;
        events.push(event("user_annotation", label, [at, 100.0], json!({})));
        let correlation = 10 + index;
        events.push(event("cuda_runtime", "hipGraphLaunch", [at + 10.0, 5.0], json!({"correlation": correlation})));
        let mut start = at + 20.0;
        for (kernel, us) in kernels {
            let args = json!({"device": 0, "stream": 7, "correlation": correlation});
            let mut op = event("kernel", kernel, [start, *us], args);
            (op["pid"], op["tid"]) = (json!(0), json!(7));
            events.push(op);
            start += us + 1.0;
        }
    }
    write(folder, "t.json", &events);
}

fn kernels(nodes: &[Node]) -> Vec<(&'static str, f64)> {
    nodes.iter().map(|node| (node.kernel, node.us)).collect()
}

fn report(folder: &Path) -> Value {
    json_runs(folder, &["t.json"]).remove(0)
}

/// Op, shape, count and GFLOP of the products in `op_costs`.
fn products(run: &Value) -> Vec<(String, String, u64, f64)> {
    let rows = run["sections"]["op_costs"]["rows"].as_array().cloned().unwrap_or_default();
    let row = |row: &Value| {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        (text("op"), text("shape"), row["count"].as_u64().unwrap(), row["gflop"].as_f64().unwrap_or_default())
    };
    let mut rows: Vec<_> = rows.iter().map(row).filter(|(op, ..)| op == "aten::mm").collect();
    rows.sort_by(|a, b| a.1.cmp(&b.1));
    rows
}

/// The notice about captures; empty without one.
fn notice(run: &Value) -> String {
    let notices = run["notices"].as_array().unwrap();
    let found = notices.iter().find(|notice| notice["code"] == "graph_captures");
    found.map_or(String::new(), |notice| notice["message"].as_str().unwrap().to_owned())
}

/// The products of the graph in `steps` steps: 2 x 32 x 6,144 x 4,096 and 2 x 32 x 4,096 x 4,096 operations, twice a step.
fn expected_products(steps: u64) -> Vec<(String, String, u64, f64)> {
    let row = |shape: &str, gflop: f64| ("aten::mm".to_owned(), shape.to_owned(), 2 * steps, gflop);
    vec![row("32 x 4096 x 4096", 1.073741824), row("32 x 6144 x 4096", 1.610612736)]
}

const VLLM: &str = "execute_context_0(0)_generation_30(30)";
const SGLANG: &str = "step[DECODE bs=30]";

#[test]
fn replays_inherit_the_shapes_of_the_capture_whose_batch_is_padded() {
    let writers: [(&str, &str, Option<&str>); 5] = [
        (VLLM, "graph_capture_rank_0.1756000000000000000.pt.trace.json", Some("capture_32_FULL")),
        (SGLANG, "bs_32_rank0.json", Some("capture_32_DECODE")),
        (SGLANG, "capture_graph_bs_32.json", None),
        ("decode[bs=30/32 tok=30]", "capture_graph_bs_32.json", None),
        // Only the shapes tell the batch.
        (VLLM, "graph_capture_rank_0.1756000000000000000.pt.trace.json", None),
    ];
    for (label, file, annotation) in writers {
        let folder = directory("graph_captures_padded");
        let path = format!("capture_traces/{file}");
        write_capture(&folder, &path, Maker::Hip, 32, &graph(), annotation);
        write_steps(&folder, &[label, label, label], &kernels(&graph()));
        let run = report(&folder);
        assert_eq!(products(&run), expected_products(3), "{file}");
        // The label of ATOM states the padded batch.
        let of_steps = if label.starts_with("decode") { "" } else { " for steps of 30" };
        let expected = format!(
            "24 of the 24 ops that graphs replay are joined with the traces of graph captures; {path} (batch 32{of_steps}): \
             24 of 24 ops of 3 launches, by kernel names"
        );
        assert_eq!(notice(&run), expected);
        let window = json_runs(&folder, &["t.json", "--window", "0-0.0005"]).remove(0);
        assert_eq!(products(&window), expected_products(1), "the first step");
        let qkv = run["sections"]["op_costs"]["rows"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["shape"] == "32 x 6144 x 4096");
        // 1,610,612,736 operations in 20 us.
        assert_eq!(qkv.unwrap()["tflops"], 80.5306368);
        assert_eq!(qkv.unwrap()["basis"], "shapes of the graph's capture");
    }
}

/// The kernels of the products have a name that no rule knows. The CPU ops of the capture tell what they are.
#[test]
fn a_kernel_of_unknown_name_has_the_role_of_the_op_that_was_captured() {
    let mm = |us, shapes| Node { kernel: GEMM, op: "aten::mm", module: "MLP_0", shapes, us };
    let gate_up = mm(40.0, |m| json!([[m, 4096], [4096, 28672]]));
    let down = mm(20.0, |m| json!([[m, 14336], [14336, 4096]]));
    let activation =
        Node { kernel: "silu_and_mul_kernel", op: "_C::silu_and_mul", shapes: |m| json!([[m, 14336]]), ..LAYER[0] };
    let layer = [&LAYER[..], &[LAYER[0], gate_up, activation, down]].concat();
    let named = |node: &Node| Node { kernel: if node.op == "aten::mm" { "xq_17_tile" } else { node.kernel }, ..*node };
    // Eight equal layers prove that they are layers.
    let layers: Vec<Node> = (0..8).flat_map(|_| layer.iter().map(named)).collect();
    let folder = directory("graph_captures_roles");
    // The kernels and the pauses between them take 8 x 143 us.
    write_steps_every(1150.0, &folder, &[SGLANG, SGLANG, SGLANG], &kernels(&layers));
    let roles = |run: &Value| {
        let rows = run["sections"]["layer_roles"]["rows"].as_array().cloned().unwrap_or_default();
        ["qkv", "o_proj", "gate_up", "down"].map(|role| rows.iter().any(|row| row["role"] == role))
    };
    assert_eq!(roles(&report(&folder)), [false; 4]);
    write_capture(&folder, "capture_traces/bs_32_rank0.json", Maker::Hip, 32, &layers, Some("capture_32_DECODE"));
    assert_eq!(roles(&report(&folder)), [true; 4]);
}

#[test]
fn a_folder_with_captures_is_the_run_of_its_one_trace() {
    let folder = directory("graph_captures_folder");
    write_capture(&folder, "capture_traces/bs_32_rank0.json", Maker::Hip, 32, &graph(), Some("capture_32_DECODE"));
    write_steps(&folder, &[SGLANG], &kernels(&graph()));
    let runs = json_runs(&folder, &["."]);
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0]["label"].as_str(), products(&runs[0])), (Some("t.json"), expected_products(1)));
}

#[test]
fn the_order_of_captures_of_nvidia_is_used_and_called_unproven() {
    let folder = directory("graph_captures_cuda");
    write_capture(&folder, "capture_traces/bs_32_rank0.json", Maker::Cuda, 32, &graph(), Some("capture_32_DECODE"));
    write_steps(&folder, &[SGLANG], &kernels(&graph()));
    let run = report(&folder);
    assert_eq!(products(&run), expected_products(1));
    assert!(notice(&run).contains("by order only, not proven"), "{}", notice(&run));
    let rows = run["sections"]["op_costs"]["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["basis"].as_str().unwrap().contains("by order only")), "{rows:?}");
    // One kernel more: nothing proves which.
    write_steps(&folder, &[SGLANG], &[&kernels(&graph())[..], &[(NORM, 5.0)]].concat());
    let run = report(&folder);
    assert_eq!(products(&run), []);
    assert!(
        notice(&run).contains("1 launch with 9 ops not joined: they have another number of ops"),
        "{}",
        notice(&run)
    );
}

#[test]
fn nothing_is_joined_that_neither_label_nor_names_prove() {
    let all = kernels(&graph());
    let mut other = all.clone();
    other[1].0 = "Cijk_another_tile";
    for (label, kernels, batch, why) in [
        ("decode", &all, 32, "no annotation states the batch of their step"),
        (SGLANG, &all, 16, "no capture has a batch as large as their step"),
        (SGLANG, &other, 32, "they ran other kernels than the capture"),
    ] {
        let folder = directory("graph_captures_unproven");
        let annotation = format!("capture_{batch}_DECODE");
        let file = format!("capture_traces/bs_{batch}_rank0.json");
        write_capture(&folder, &file, Maker::Hip, batch, &graph(), Some(&annotation));
        write_steps(&folder, &[label], kernels);
        let run = report(&folder);
        assert_eq!(products(&run), [], "{why}");
        assert!(notice(&run).contains(&format!("1 launch with 8 ops not joined: {why}")), "{}", notice(&run));
    }
}

/// The profiler lost the last op, a product: both products have the same kernel, so that no product is joined.
#[test]
fn a_replay_with_fewer_ops_inherits_only_where_names_are_certain() {
    let folder = directory("graph_captures_lost");
    write_capture(&folder, "capture_traces/bs_32_rank0.json", Maker::Hip, 32, &graph(), Some("capture_32_DECODE"));
    write_steps(&folder, &[SGLANG], &kernels(&graph()[..7]));
    let run = report(&folder);
    assert_eq!(products(&run), []);
    assert!(notice(&run).starts_with("4 of the 7 ops that graphs replay"), "{}", notice(&run));
}

#[test]
fn the_smallest_sufficient_capture_counts_and_captures_of_other_ranks_do_not() {
    let folder = directory("graph_captures_sizes");
    for (batch, rank) in [(16, 0), (32, 0), (64, 0), (31, 1)] {
        let file = format!("capture_traces/bs_{batch}_rank{rank}.json");
        write_capture(&folder, &file, Maker::Hip, batch, &graph(), Some(&format!("capture_{batch}_DECODE")));
    }
    write_steps(&folder, &[SGLANG], &kernels(&graph()));
    // The trace does not tell its rank, and the files are of two.
    assert_eq!(products(&report(&folder)), []);
    std::fs::rename(folder.join("t.json"), folder.join("x-rank0.json")).unwrap();
    let run = json_runs(&folder, &["x-rank0.json"]).remove(0);
    assert_eq!(products(&run), expected_products(1));
}

#[test]
fn the_kth_launch_of_a_piecewise_step_replays_the_kth_capture() {
    let folder = directory("graph_captures_piecewise");
    let mut capture = captured_graph(Maker::Hip, 32, &graph()[..2], 100.0);
    capture.extend(captured_graph(Maker::Hip, 32, &graph()[3..4], 500.0));
    write(&folder, "capture_traces/graph_capture_rank_0.17.pt.trace.json", &capture);
    let details = json!([{"file": "graph_capture_rank_0.17.pt.trace.json", "batch_size": 32, "mode": "PIECEWISE"}]);
    std::fs::write(folder.join("capture_traces/execution_details.json"), details.to_string()).unwrap();
    let mut events = vec![event("user_annotation", VLLM, [1000.0, 500.0], json!({}))];
    for (correlation, at, nodes) in [(1, 1100.0, &graph()[..2]), (2, 1200.0, &graph()[3..4])] {
        events.push(event("cuda_runtime", "hipGraphLaunch", [at, 5.0], json!({"correlation": correlation})));
        for (index, node) in nodes.iter().enumerate() {
            let args = json!({"device": 0, "stream": 7, "correlation": correlation});
            events.push(event("kernel", node.kernel, [at + 10.0 + 30.0 * index as f64, node.us], args));
        }
    }
    write(&folder, "t.json", &events);
    let expected: Vec<_> = expected_products(1).into_iter().map(|row| (row.0, row.1, 1, row.3)).collect();
    assert_eq!(products(&report(&folder)), expected);
}

#[test]
fn a_damaged_capture_changes_nothing_but_a_notice() {
    let folder = directory("graph_captures_damaged");
    write_steps(&folder, &[SGLANG], &kernels(&graph()));
    let without = report(&folder);
    write_capture(&folder, "whole.json", Maker::Hip, 32, &graph(), Some("capture_32_DECODE"));
    let whole = std::fs::read_to_string(folder.join("whole.json")).unwrap();
    std::fs::create_dir_all(folder.join("capture_traces")).unwrap();
    for (text, why) in [
        (&whole[..whole.len() / 2], "the file is cut short"),
        (r#"{"benchmark": 1}"#, "not"),
        ("", "empty"),
        (
            r#"{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]}"#,
            "no capture",
        ),
    ] {
        std::fs::write(folder.join("capture_traces/bs_32_rank0.json"), text).unwrap();
        let mut run = report(&folder);
        let said = notice(&run);
        assert!(said.contains("capture_traces/bs_32_rank0.json is not used: ") && said.contains(why), "{said}");
        run["notices"].as_array_mut().unwrap().retain(|notice| notice["code"] != "graph_captures");
        let sections = |run: &Value| run["sections"]["kernels"].clone();
        assert_eq!(sections(&run), sections(&without));
        assert_eq!(run["notices"], without["notices"]);
        assert_eq!(run["verdict"], without["verdict"]);
    }
}

#[test]
fn the_triage_names_the_code_that_was_captured() {
    let folder = directory("graph_captures_triage");
    write_capture(&folder, "capture_traces/bs_32_rank0.json", Maker::Hip, 32, &graph(), Some("capture_32_DECODE"));
    write_steps(&folder, &[SGLANG], &kernels(&graph()));
    let run =
        serde_json::from_str::<Value>(&printed(&folder, ["triage", "t.json", "--format", "json"])).unwrap()["runs"][0]
            .clone();
    let rows = run["sections"]["triage_kernels"]["rows"].as_array().unwrap().clone();
    let of_gemm = |row: &&Value| row["kernel_name"].as_str().unwrap().contains("Cijk");
    let places: Vec<&str> = rows.iter().filter(of_gemm).map(|row| row["python_location"].as_str().unwrap()).collect();
    // Both products have the same kernel; the first takes 20 us and the second 10 us.
    let place =
        |module: &str, share: u32| format!("vllm/model_executor/layers/{module}.py:7 forward (site share {share}%)");
    let expected = [place("QKVParallelLinear_0", 67), place("RowParallelLinear_0", 33)].join("\n");
    assert_eq!(places, [expected]);
    let text = printed(&folder, ["triage", "t.json", "--format", "text"]);
    assert!(text.contains("Mapping traces: capture_traces/bs_32_rank0.json\n"), "{text}");
}

#[test]
fn captures_are_no_ranks_and_no_runs_of_a_folder() {
    let folder = directory("graph_captures_ranks");
    write_capture(&folder, "capture_traces/bs_32_rank0.json", Maker::Hip, 32, &graph(), Some("capture_32_DECODE"));
    write_capture(&folder, "capture_traces/bs_32_rank1.json", Maker::Hip, 32, &graph(), Some("capture_32_DECODE"));
    write_steps(&folder, &[SGLANG], &kernels(&graph()));
    let runs = json_runs(&folder, &["."]);
    assert_eq!(runs.iter().map(|run| run["label"].as_str().unwrap()).collect::<Vec<_>>(), ["t.json"]);
}

/// A recorded capture of vLLM and the trace of a step that replays it. A separate look at the raw events found 421 launches between
/// begin and end and 421 replayed ops, with the same names in the same order, and 24 products of 32 x 5,120 x 2,880.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn a_recorded_capture_gives_all_ops_of_its_replay_their_shapes() {
    let folder = directory("graph_captures_recorded");
    std::fs::create_dir_all(folder.join("capture_traces")).unwrap();
    let copy = |from: &str, to: &str| {
        std::fs::copy(shared("traces/torch").join(from), folder.join(to)).unwrap();
    };
    copy("vllm_mi300_decode_full_graph.trace.json.gz", "t.json.gz");
    copy("vllm_mi300_graph_capture.pt.trace.json.gz", "capture_traces/graph_capture_rank_0.17.pt.trace.json.gz");
    let run = json_runs(&folder, &["t.json.gz"]).remove(0);
    assert!(notice(&run).contains("(batch 32): 421 of 421 ops of 1 launch, by kernel names"), "{}", notice(&run));
    let rows = run["sections"]["op_costs"]["rows"].as_array().unwrap();
    let qkv = rows.iter().find(|row| row["shape"] == "32 x 5120 x 2880").unwrap();
    assert_eq!(
        (qkv["op"].as_str(), qkv["count"].as_u64(), qkv["gflop"].as_f64()),
        (Some("aten::addmm"), Some(24), Some(0.9437184))
    );
    let roles = run["sections"]["layer_roles"]["rows"].as_array().unwrap();
    let of_qkv = roles.iter().filter(|row| row["role"] == "qkv");
    assert!(
        of_qkv.clone().count() > 0 && of_qkv.clone().all(|row| row["tflops"].as_f64().is_some_and(|rate| rate > 50.0))
    );
}
