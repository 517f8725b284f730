"""Hand-worked small cases for every module. Needs no file; all times are worked out in the test.

Run: python3 -m unittest discover -s tests/oracle   (from the repository root)
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from oracle import blame, costs, graphs, layers, roles, steps, trace, unsuited  # noqa: E402

HOST = (1, 1)


def us(value):
    return round(value * 1000)


def op(start, duration, name="k", launch=None, kind="kernel", stream=7, grid=None, size=None):
    """A GPU op; `launch` is (start, end, call name, correlation), all times in microseconds."""
    call, correlation = None, None
    if launch is not None:
        begin, end, call_name, correlation = launch
        call = trace.Call(call_name, HOST, us(begin), us(end), correlation)
    return trace.Op(name, kind, 0, stream, us(start), us(start + duration), correlation, grid, size, call)


def launched(begin, end, correlation, name="cudaLaunchKernel"):
    return (begin, end, name, correlation)


def sequence(names, start=0.0):
    """Ops of 10 us without gaps, launched in order on one thread."""
    return [op(start + 10 * i, 10, name, launched(start + i * 0.1, start + i * 0.1 + 0.05, i))
            for i, name in enumerate(names)]


LAYER = ["rmsnorm", "nvjet_qkv", "rotary", "reshape_and_cache", "fmha_fwd", "nvjet_o", "fused_add_rmsnorm",
         "nvjet_gate_up", "silu_and_mul", "nvjet_down"]


class Reading(unittest.TestCase):
    def test_microseconds_keep_every_digit(self):
        self.assertEqual(trace.nanoseconds("7721328753776.237"), 7721328753776237)
        self.assertEqual(trace.nanoseconds("12.5"), 12500)
        self.assertEqual(trace.nanoseconds(3), 3000)
        self.assertEqual(trace.nanoseconds("-0.25"), -250)
        self.assertEqual(trace.nanoseconds("1e3"), 1_000_000)
        self.assertEqual([trace.nanoseconds(t) for t in ("0.0005", "0.0015", "0.0016")], [0, 2, 2])

    def test_torch_events_become_ops_with_launches(self):
        events = [
            {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": "20.001", "dur": "2.5",
             "args": {"device": 0, "stream": 7, "correlation": 5, "grid": [4, 1, 1]}},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": 10, "dur": "3.1",
             "args": {"correlation": 5}},
            {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH", "pid": 0, "tid": 7, "ts": 30, "dur": 1,
             "args": {"device": 0, "stream": 7, "correlation": 6, "bytes": 64}},
            {"ph": "M", "name": "process_name"},
        ]
        read = trace.read_torch(events, [{"id": 0, "name": "G", "computeMajor": 9, "computeMinor": 0}])
        self.assertEqual([(o.start, o.duration) for o in read.ops], [(20001, 2500), (30000, 1000)])
        self.assertEqual(read.ops[0].launch.end, 13100)
        self.assertIsNone(read.ops[1].launch)
        self.assertEqual(read.capability, 90)

    def test_union_counts_overlap_once(self):
        self.assertEqual(trace.union_ns([(0, 10), (5, 12), (20, 30), (21, 22)]), 22)


class Graphs(unittest.TestCase):
    def test_replayed_ops_share(self):
        ops = [op(0, 1, launch=launched(0, 1, 1)), op(2, 6, launch=launched(1, 2, 2, "cudaGraphLaunch")),
               op(9, 2, launch=launched(1, 2, 2, "cudaGraphLaunch")), op(12, 1)]
        row = graphs.coverage(ops)
        self.assertEqual((row["launches"], row["replayed_ops"], row["eager_ops"]), (1, 2, 2))
        self.assertEqual((row["replayed_ops_percent"], row["replayed_time_percent"]), (50.0, 80.0))
        self.assertEqual(row["eager_us"], 2.0)
        self.assertEqual(row["ops_without_launch"], 1)

    def test_driver_form_is_a_replay(self):
        self.assertTrue(trace.is_graph_launch("hipGraphLaunch"))
        self.assertTrue(trace.is_graph_launch("cudaGraphLaunch_ptsz"))
        self.assertFalse(trace.is_graph_launch("cudaGraphInstantiate"))


class Steps(unittest.TestCase):
    def capture(self, spans, ops, frames=()):
        return trace.Trace(ops=ops, annotations=list(spans), frames=list(frames))

    def test_nested_annotations_count_once_and_sampling_belongs(self):
        spans = []
        ops = []
        for i in range(3):
            at = 1000 * i
            spans.append(trace.Span("execute_2_context_0(sq0)_generation_2(sq2)", HOST, us(at), us(at + 50)))
            spans.append(trace.Span("step[DECODE bs=2]", HOST, us(at + 10), us(at + 40)))
            ops += [op(at + 100 + 10 * j, 4, launch=launched(at + 20 + j * 10, at + 21 + j * 10, 100 * i + j))
                    for j in range(9)]
        found = steps.find(self.capture(spans, ops))
        self.assertEqual((found["found_by"], len(found["steps"])), ("annotation", 3))
        first = found["steps"][0]
        self.assertEqual((first["kind"], first["sequences"], first["tokens"]), ("decode", 2, 2))
        self.assertEqual((first["op_count"], first["busy_us"], first["span_us"], first["wall_us"]), (9, 36, 84, 1000))
        self.assertEqual(found["median_wall_us"], 1000)

    def test_last_step_is_left_out_of_the_median_wall(self):
        spans, ops = [], []
        for i, at in enumerate((0, 1000, 3000)):
            spans.append(trace.Span(f"ProfilerStep#{i}", HOST, us(at), us(at + 900)))
            ops += [op(at + 10 * j, 4, launch=launched(at + j, at + j + 0.5, 100 * i + j)) for j in range(9)]
        found = steps.find(self.capture(spans, ops))
        self.assertEqual([s["wall_us"] for s in found["steps"]], [1000, 2000, 84])
        self.assertEqual(found["median_wall_us"], 1500)

    def test_mixed_annotation(self):
        name = "execute_8192_context_9(sq8155sk8430sqsq1sqsk2)_generation_37(sq37sk34489sqsq37sqsk34489)"
        self.assertEqual(steps.kind_of_annotation(name), ("mixed", 46, 8192))
        self.assertEqual(steps.kind_of_annotation("step[EXTEND bs=3 toks=77]"), ("prefill", 3, 77))
        self.assertEqual(steps.kind_of_annotation("ProfilerStep#4")[0], "iteration")

    def test_host_frames_only_with_kernels(self):
        frames = [trace.Span("vllm/v1/worker/gpu_model_runner.py(10): execute_model", HOST, us(a), us(a + 5))
                  for a in (0, 100, 200)]
        ops = [op(300 + i, 1, launch=launched(a + 1 + i, a + 1.5 + i, i + int(a))) for a in (100.0, 200.0)
               for i in range(8)]
        found = steps.find(self.capture([], ops, frames))
        self.assertEqual((found["found_by"], [s["op_count"] for s in found["steps"]]), ("host_frame", [8, 8]))

    def test_graph_launch_between_sampling_tails(self):
        ops = []
        for i in range(2):
            at = 1000 * i
            replay = launched(at, at + 2, 10 + i, "cudaGraphLaunch")
            ops += [op(at + 10 * j, 9, name, replay) for j, name in enumerate(LAYER * 2)]
            ops.append(op(at + 300, 5, "reduce_kernel<ArgMaxOps<float>>", launched(at + 3, at + 4, 20 + i), grid=[6, 1, 1]))
            ops.append(op(at + 306, 1, "Memcpy DtoH", launched(at + 5, at + 6, 30 + i), "memcpy", size=48))
        found = steps.find(trace.Trace(ops=ops))
        self.assertEqual((found["found_by"], len(found["steps"])), ("graph_launch", 2))
        self.assertEqual([s["graph_launches"] for s in found["steps"]], [1, 1])
        self.assertEqual(found["steps"][0]["sequences"], 6)

    def test_repeated_blocks_are_no_steps(self):
        found = steps.find(trace.Trace(ops=sequence(LAYER * 20)))
        self.assertEqual((found["found_by"], found["steps"]), (None, []))
        self.assertEqual((found["period"]["unit_ops"], found["period"]["unit"]), (10, "block of layers"))

    def test_optimiser_makes_a_period_a_step(self):
        names = [f"kernel_{i}" for i in range(9)] + ["multi_tensor_apply_kernel<Adam>"]
        found = steps.find(trace.Trace(ops=sequence(names * 5)))
        self.assertEqual((found["found_by"], len(found["steps"])), ("periodicity", 5))
        self.assertEqual({s["op_count"] for s in found["steps"]}, {10})


class Layers(unittest.TestCase):
    def test_roles_by_name(self):
        for name, role in (("triton_red_fused_all_reduce_add", "elementwise"), ("multimem_all_reduce_kernel", "communication"),
                           ("reshape_and_cache_flash_kernel", "kv_write"), ("paged_attention_ll4mi_reduce_kernel", "attention_reduce"),
                           ("routingRenormalize", "moe_route"), ("_fused_qk_rope_reshape_and_cache_kernel", "rope"),
                           ("create_flashinfer_kv_indices_triton", "attention_metadata"), ("fused_qknorm_warp", "qk_norm"),
                           ("bmm_Bfloat16_x", "experts"), ("distribution_normal_kernel", "elementwise")):
            self.assertEqual(roles.role_of(name), role, name)

    def test_fold_counts_layers_and_names_roles(self):
        names = ["embedding"] + LAYER * 6 + ["fused_add_rmsnorm", "nvjet_lm_head", "argmax"]
        folded = layers.fold(sequence(names))
        self.assertEqual((folded["layers"], folded["pattern"]), (6, "A6"))
        self.assertEqual((folded["prologue_ops"], folded["tail_ops"], folded["lm_head_us"]), (1, 3, 10))
        only = folded["types"][0]
        self.assertEqual((only["ops_per_layer"], only["median_us"]), (10, 100))
        self.assertEqual([p["role"] for p in only["positions"]],
                         ["norm", "qkv", "rope", "kv_write", "attention", "o_proj", "norm", "gate_up", "activation", "down"])

    def test_two_types_and_leading_dense_layers(self):
        sliding = [name if name != "fmha_fwd" else "fmha_sliding" for name in LAYER]
        self.assertEqual(layers.fold(sequence((LAYER + sliding) * 4 + ["rmsnorm"]))["pattern"], "(AB)4")
        self.assertEqual(layers.pattern(list("ABBB")), "AB3")
        self.assertEqual(layers.pattern(list("AAABAAAB")), "(A3B)2")

    def test_plain_first_norm_is_a_variant_and_other_experts_a_type(self):
        added = ["fused_add_rmsnorm"] + LAYER[1:]
        self.assertEqual(layers.fold(sequence(LAYER + added * 5 + ["rmsnorm"]))["pattern"], "A6")
        half = added[:5] + ["cutlass_gemm", "layernorm", "cutlass_gemm_2", "gelu", "cutlass_gemm_3"]
        self.assertEqual(layers.fold(sequence(added + half * 5 + ["rmsnorm"]))["pattern"], "AB5")

    def test_separate_up_projection_is_not_down(self):
        names = ["rmsnorm", "nvjet_qkv", "fmha_fwd", "nvjet_o", "rmsnorm", "nvjet_gate", "silu", "nvjet_up", "mul", "nvjet_down"]
        placed = layers.role_by_place(sequence(names))
        self.assertEqual([placed[5], placed[7], placed[9]], ["gate_up", "gate_up", "down"])

    def test_no_attention_means_no_layers(self):
        self.assertEqual(layers.fold(sequence(["nvjet", "relu"] * 10))["layers"], 0)


class Blame(unittest.TestCase):
    def classes(self, ops, calls=()):
        return [(gap["class"], gap["end"] - gap["start"]) for gap in blame.gaps(ops, list(calls))]

    def test_each_class(self):
        graph = launched(60, 61, 9, "cudaGraphLaunch")
        ops = [op(0, 10, launch=launched(-5, -4, 1)),
               op(30, 10, launch=launched(25, 27, 2)),          # host late: launched 15 us after the end
               op(45, 10, launch=launched(39, 43, 3)),          # launch running at 40
               op(57, 10, launch=launched(44, 45, 4)),          # in time, 2 us
               op(80, 5, launch=graph),                         # in time, 13 us at a replay
               op(86, 5, launch=graph),                         # same replay
               op(95, 5, launch=launched(70, 71, 5)),           # in time, 4 us, replay ends
               op(120, 5, launch=launched(75, 76, 6)),          # in time, 20 us
               op(130, 5)]                                      # no launch
        self.assertEqual(self.classes(ops), [
            ("host_late", 20000), ("launch_running", 5000), ("turnaround", 2000), ("other_wait", 13000),
            ("in_graph", 1000), ("turnaround", 4000), ("other_wait", 20000), ("unknown", 5000)])

    def test_drain_then_refill_until_the_host_is_ahead(self):
        wait = trace.Call("cudaStreamSynchronize", HOST, us(5), us(11))
        ops = [op(0, 10, launch=launched(-5, -4, 1)),
               op(22, 4, launch=launched(20, 21, 2)),           # drain
               op(32, 4, launch=launched(30, 31, 3)),           # refill
               op(36, 10, launch=launched(33, 34, 4)),          # in time: refill is over
               op(60, 4, launch=launched(55, 56, 5))]           # host late again
        self.assertEqual([name for name, _ in self.classes(ops, [wait])], ["drain", "refill", "host_late"])

    def test_launch_that_still_runs_does_not_end_a_refill(self):
        wait = trace.Call("cudaStreamSynchronize", HOST, us(5), us(11))
        ops = [op(0, 10, launch=launched(-5, -4, 1)), op(22, 4, launch=launched(20, 21, 2)),
               op(29, 4, launch=launched(25, 28, 3)), op(50, 4, launch=launched(45, 46, 4))]
        self.assertEqual([name for name, _ in self.classes(ops, [wait])], ["drain", "launch_running", "refill"])

    def test_wait_that_ended_before_the_gap_is_no_drain(self):
        wait = trace.Call("cudaDeviceSynchronize", HOST, us(2), us(9))
        ops = [op(0, 10, launch=launched(-5, -4, 1)), op(22, 4, launch=launched(20, 21, 2))]
        self.assertEqual(self.classes(ops, [wait]), [("host_late", 12000)])

    def test_gap_owner_is_the_op_that_ended_last(self):
        ops = [op(0, 50, launch=launched(-5, -4, 1)), op(10, 5, launch=launched(-3, -2, 2)),
               op(52, 5, launch=launched(-1, 0, 3))]
        self.assertEqual(self.classes(ops), [("turnaround", 2000)])

    def test_time_goes_to_the_innermost_python_frame(self):
        ops = [op(0, 10, launch=launched(-5, -4, 1)), op(40, 5, launch=launched(30, 35, 2))]
        frames = [trace.Span("a.py(1): outer", HOST, 0, us(100)), trace.Span("b.py(2): inner", HOST, us(12), us(20)),
                  trace.Span("<built-in method x>", HOST, us(20), us(28))]
        capture = trace.Trace(ops=ops, frames=frames)
        rows = blame.blame(blame.gaps(ops, []), capture)
        self.assertEqual({name: row["us"] for name, row in rows.items()},
                         {"a.py(1): outer": 17, "b.py(2): inner": 8, "launch latency": 5})

    def test_without_frames_the_innermost_host_op_then_the_call(self):
        ops = [op(0, 10, launch=launched(-5, -4, 1)), op(30, 5, launch=launched(24, 30, 2))]
        capture = trace.Trace(ops=ops, calls=[ops[1].launch],
                              cpu_ops=[trace.Span("aten::linear", HOST, us(12), us(22)),
                                       trace.Span("aten::mm", HOST, us(14), us(18))])
        rows = blame.blame(blame.gaps(ops, []), capture)
        self.assertEqual({name: row["us"] for name, row in rows.items()},
                         {"aten::linear": 6, "aten::mm": 4, "cudaLaunchKernel": 6, "no host event": 4})


class Unsuited(unittest.TestCase):
    def test_old_gemm_needs_a_newer_capability(self):
        ops = [op(0, 30, "sm80_xmma_gemm_bf16"), op(30, 70, "nvjet_tst")]
        self.assertEqual(unsuited.find(ops, 90)["old_gemm"], {"n": 1, "us": 30.0, "percent": 30.0})
        for capability in (80, 86, 89, None):
            self.assertNotIn("old_gemm", unsuited.find(ops, capability))

    def test_same_family_is_not_wrong(self):
        self.assertEqual(unsuited.find([op(0, 1, "sm90_xmma_gemm")], 90), {})
        self.assertEqual(unsuited.find([op(0, 1, "bmm_sm100f")], 103), {})
        self.assertEqual(unsuited.find([op(0, 1, "flash::compute_attn_ws<x>")], 90), {})

    def test_softmax_between_products_three_times(self):
        part = ["gemm_qk", "softmax_warp_forward<c10::Half, float, float, 7, false, false>", "gemm_pv"]
        self.assertEqual(unsuited.find(sequence(part * 3), 80)["unfused_attention"]["n"], 3)
        near = part[:1] + ["scale"] * 7 + part[1:2] + ["cast"] * 7 + part[2:] + ["add"] * 9
        self.assertEqual(unsuited.find(sequence(near * 3), 80)["unfused_attention"]["n"], 3)
        far = part[:1] + ["scale"] * 8 + part[1:] + ["add"] * 9
        self.assertNotIn("unfused_attention", unsuited.find(sequence(far * 3), 80))
        self.assertNotIn("unfused_attention", unsuited.find(sequence(part * 2), 80))
        loss = [name.replace("7, false", "7, true") for name in part]
        self.assertNotIn("unfused_attention", unsuited.find(sequence(loss * 5), 80))
        routed = part[:2] + ["topk_kernel"] + part[2:]
        self.assertNotIn("unfused_attention", unsuited.find(sequence(routed * 5), 80))


class Costs(unittest.TestCase):
    def test_addmm_and_inner_owner(self):
        args = {"Input Dims": [[8], [4, 16], [16, 8]], "Input type": ["c10::BFloat16"] * 3}
        host = [trace.Span("aten::addmm", HOST, 0, us(50), args), trace.Span("aten::copy_", HOST, us(5), us(9), {})]
        ops = [op(20, 3, "copy", launched(6, 7, 1)), op(30, 4, "nvjet", launched(20, 21, 2)),
               op(33, 3, "splitKreduce", launched(22, 23, 3)), op(90, 5, "other", launched(60, 61, 4))]
        row, = costs.table(trace.Trace(ops=ops, cpu_ops=host))
        self.assertEqual((row["m"], row["n"], row["k"], row["count"], row["median_us"]), (4, 8, 16, 1, 6))
        self.assertEqual(row["gflop"] * 1e9, 2 * 4 * 8 * 16)
        self.assertAlmostEqual(row["mb"] * 1e6, 2 * (4 * 16 + 16 * 8 + 4 * 8))
        self.assertAlmostEqual(row["tflop_per_s"], 1024 / 6e-6 / 1e12)

    def test_linear_holds_its_weight_transposed(self):
        span = trace.Span("aten::linear", HOST, 0, 1, {"Input Dims": [[2, 3, 16], [8, 16], []],
                                                       "Input type": ["float", "float", ""]})
        self.assertEqual(costs.product_shape(span)[:4], (1, 6, 8, 16))


if __name__ == "__main__":
    unittest.main()
