//! The programs with the world that they run in and the changes that are predicted.

use super::machine::World;
use super::program::{Change, Thread};
use super::programs::{self, Decode, Train};
use Change::{
    FreeAllocations, Graphs, Pinned, WarmedUp, WithoutBatchWait, WithoutBlocking, WithoutCodeBetweenCalls,
    WithoutCommunication, WithoutHost, WithoutTurnaround,
};

/// A program that is predicted.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) threads: Vec<Thread>,
    pub(crate) world: World,
    pub(crate) changes: Vec<Change>,
    /// The other ranks of a collective do not get faster.
    pub(crate) is_one_of_several_ranks: bool,
    /// It has no steady step, so that saying nothing of steps is right.
    pub(crate) is_cold: bool,
}

fn scenario(name: &'static str, threads: Vec<Thread>, changes: &[Change]) -> Scenario {
    let changes = changes.to_vec();
    Scenario { name, threads, world: World::default(), changes, is_one_of_several_ranks: false, is_cold: false }
}

fn in_world(name: &'static str, threads: Vec<Thread>, world: World, changes: &[Change]) -> Scenario {
    Scenario { world, ..scenario(name, threads, changes) }
}

fn code(function: &'static str) -> Change {
    Change::WithoutCode(function)
}

fn unblocked(function: &'static str) -> Change {
    Change::WithoutBlockingAt(function)
}

fn faster(kernel: &'static str) -> Change {
    Change::TwiceAsFast(kernel)
}

pub(crate) fn all() -> Vec<Scenario> {
    [inference(), training(), host_and_copies(), disturbed()].into_iter().flatten().collect()
}

fn inference() -> Vec<Scenario> {
    let decode = Decode::default();
    vec![
        scenario(
            "decode, host-bound",
            decode.threads(),
            &[
                code("linear"),
                code("schedule"),
                code("detokenize"),
                faster("gemm"),
                WithoutHost,
                WithoutCodeBetweenCalls,
                Graphs,
                WithoutBlocking,
                WithoutTurnaround,
            ],
        ),
        scenario(
            "decode, balanced",
            Decode { gemm_us: 36.0, small_us: 6.0, ..decode }.threads(),
            &[
                code("linear"),
                code("schedule"),
                faster("gemm"),
                faster("attention"),
                WithoutHost,
                Graphs,
                WithoutBlocking,
                WithoutTurnaround,
            ],
        ),
        scenario(
            "decode, GPU-bound",
            Decode { gemm_us: 85.0, small_us: 9.0, ..decode }.threads(),
            &[
                code("linear"),
                code("detokenize"),
                faster("gemm"),
                faster("attention"),
                WithoutHost,
                WithoutBlocking,
                WithoutTurnaround,
            ],
        ),
        scenario(
            "decode, a value read in each layer",
            Decode { gemm_us: 19.0, reads_in_layers: true, ..decode }.threads(),
            &[code("attend"), code("schedule"), faster("gemm"), WithoutHost, WithoutBlocking, unblocked("is_finished")],
        ),
        scenario(
            "decode, the result is there when asked for",
            Decode { gemm_us: 28.0, prepare_us: 880.0, ..decode }.threads(),
            &[code("prepare_next"), code("linear"), faster("gemm"), WithoutHost, WithoutBlocking],
        ),
        scenario(
            "graph decode, host-bound",
            programs::graph_decode(850.0, 6.0),
            &[
                code("schedule"),
                code("prepare_inputs"),
                code("detokenize"),
                faster("gemm"),
                WithoutHost,
                WithoutTurnaround,
                WithoutBlocking,
                unblocked("sample"),
            ],
        ),
        scenario(
            "graph decode, GPU-bound",
            programs::graph_decode(280.0, 55.0),
            &[code("schedule"), faster("gemm"), faster("attention"), WithoutHost, WithoutTurnaround, WithoutBlocking],
        ),
        scenario(
            "piecewise graphs",
            programs::piecewise_decode(7.0),
            &[
                code("attend"),
                code("run_piece"),
                faster("gemm"),
                WithoutHost,
                WithoutCodeBetweenCalls,
                WithoutTurnaround,
            ],
        ),
        scenario(
            "two branches",
            programs::branches(60.0, 45.0),
            &[faster("left_gemm"), faster("right_gemm"), faster("add"), WithoutHost, code("log")],
        ),
        scenario(
            "two reads",
            programs::two_reads(),
            &[
                unblocked("clip_grad_norm"),
                unblocked("loss"),
                WithoutBlocking,
                code("check"),
                code("log"),
                faster("gemm"),
            ],
        ),
        Scenario { is_cold: true, ..scenario("cold start", programs::cold_start(), &[WarmedUp]) },
    ]
}

fn training() -> Vec<Scenario> {
    let train = |kernel_us, all_reduce_us, reads_loss| Train { kernel_us, all_reduce_us, reads_loss }.threads();
    vec![
        scenario(
            "training, host-bound",
            train(9.0, 280.0, true),
            &[
                code("forward"),
                code("optimizer"),
                code("get_batch"),
                code("autograd::engine::evaluate_function: MmBackward0"),
                faster("gemm_bwd"),
                WithoutHost,
                WithoutCommunication,
                WithoutBlocking,
            ],
        ),
        scenario(
            "training, hidden all-reduce",
            train(85.0, 280.0, true),
            &[
                code("forward"),
                code("get_batch"),
                faster("gemm_bwd"),
                faster("adam"),
                WithoutCommunication,
                WithoutHost,
                WithoutTurnaround,
            ],
        ),
        scenario(
            "training, exposed all-reduce",
            train(38.0, 1_400.0, true),
            &[WithoutCommunication, faster("gemm_bwd"), faster("gemm_fwd"), code("forward"), WithoutHost],
        ),
        scenario(
            "training, nothing read",
            train(38.0, 0.0, false),
            &[code("forward"), code("log"), faster("gemm_bwd"), WithoutHost],
        ),
        scenario(
            "sharded, exposed all-gather",
            programs::sharded(52.0, 230.0),
            &[WithoutCommunication, faster("gemm"), code("forward"), WithoutHost],
        ),
        scenario(
            "sharded, hidden all-gather",
            programs::sharded(105.0, 230.0),
            &[WithoutCommunication, faster("gemm"), code("forward"), WithoutHost],
        ),
        scenario(
            "slow data loader",
            programs::loader(8_500.0),
            &[WithoutBatchWait, faster("gemm"), code("forward"), code("log"), WithoutHost],
        ),
        scenario(
            "fast data loader",
            programs::loader(1_900.0),
            &[faster("gemm"), code("forward"), code("log"), WithoutHost],
        ),
    ]
}

fn host_and_copies() -> Vec<Scenario> {
    let short_queue = World { queue_depth: 640, ..World::default() };
    vec![
        scenario(
            "pageable copies",
            programs::pageable_copies(8_000_000, 58.0),
            &[Pinned, faster("gemm"), code("get_batch"), code("forward"), WithoutHost],
        ),
        scenario(
            "pageable copies, host-bound",
            programs::pageable_copies(2_000_000, 8.0),
            &[Pinned, faster("gemm"), code("get_batch"), code("forward")],
        ),
        scenario(
            "copies on their own stream",
            programs::prefetched_copies(6_000_000, 30.0),
            &[faster("gemm"), code("get_batch"), code("log"), WithoutHost],
        ),
        in_world(
            "full launch queue",
            programs::full_queue(true),
            short_queue,
            &[faster("gemm"), code("forward"), code("log"), WithoutHost, WithoutBlocking, WithoutTurnaround],
        ),
        in_world(
            "full launch queue, nothing read",
            programs::full_queue(false),
            short_queue,
            &[faster("gemm"), code("forward"), code("log"), WithoutTurnaround],
        ),
        scenario(
            "allocations",
            programs::allocations(),
            &[FreeAllocations, faster("gemm"), code("forward"), WithoutHost],
        ),
        scenario(
            "two free threads",
            programs::free_threads(),
            &[code("forward"), code("other"), faster("gemm"), faster("conv")],
        ),
    ]
}

/// Worlds that break assumptions of the model.
fn disturbed() -> Vec<Scenario> {
    let world = World::default();
    let train = |kernel_us, all_reduce_us| Train { kernel_us, all_reduce_us, reads_loss: true }.threads();
    let decode = |gemm_us, small_us| Decode { gemm_us, small_us, ..Decode::default() }.threads();
    vec![
        in_world(
            "* clocks 4 us apart",
            decode(29.0, 5.0),
            World { skew_us: -4.0, jitter_us: 1.0, ..world },
            &[code("linear"), code("schedule"), faster("gemm"), WithoutHost, WithoutBlocking],
        ),
        in_world(
            "* streams share the memory",
            train(85.0, 280.0),
            World { contention: 1.2, ..world },
            &[code("get_batch"), faster("gemm_bwd"), faster("adam"), WithoutCommunication, WithoutHost],
        ),
        in_world(
            "* waits not recorded, all-reduce",
            train(58.0, 680.0),
            World { hides_events: true, ..world },
            &[code("get_batch"), faster("gemm_bwd"), WithoutCommunication, WithoutHost],
        ),
        in_world(
            "* waits not recorded, all-gather",
            programs::sharded(52.0, 230.0),
            World { hides_events: true, ..world },
            &[WithoutCommunication, faster("gemm"), WithoutHost],
        ),
        in_world(
            "* queue frees 200 at once",
            programs::full_queue(true),
            World { queue_depth: 640, queue_batch: 200, ..world },
            &[faster("gemm"), code("forward"), code("log"), WithoutBlocking],
        ),
        in_world(
            "* polls",
            Decode { gemm_us: 38.0, prepare_us: 40.0, ..Decode::default() }.threads(),
            World { polls: true, ..world },
            &[code("linear"), code("schedule"), code("detokenize"), faster("gemm")],
        ),
        in_world(
            "* dependent launches",
            decode(38.0, 8.0),
            World { overlap_us: 2.0, ..world },
            &[code("schedule"), faster("gemm"), faster("attention"), WithoutHost],
        ),
        in_world(
            "* second stream behind a full GPU",
            programs::side_stream(),
            World { has_full_gpu: true, ..world },
            &[faster("embedding_bwd"), faster("permute"), code("sparse"), code("log"), WithoutHost],
        ),
        Scenario {
            is_one_of_several_ranks: true,
            ..in_world(
                "* other ranks late",
                train(19.0, 190.0),
                World { rank_period_us: Some(1_300.0), ..world },
                &[code("forward"), code("log"), faster("gemm_bwd"), faster("adam")],
            )
        },
    ]
}
