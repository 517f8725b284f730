use super::*;
use crate::analysis::communication::collectives::nccl_ops;
use crate::analysis::testing::{number, read_json, rows_of, torch};
use crate::trace::testing::TestTrace;
use crate::trace::{Collective, Job, ProcessGroup};
use proptest::prelude::*;

const MULTICAST: &str = "multimem_all_reduce_kernel<c10::BFloat16, 16>";
const COPY: &str = "Memcpy DtoD (Device -> Device)";

fn message(bytes: u64, ranks: u64) -> Collective {
    let (bytes_in, bytes_out) = (Some(bytes), Some(bytes));
    Collective { operation: "allreduce".to_owned(), bytes_in, bytes_out, ranks: Some(ranks), ..Collective::default() }
}

/// All-reduces of one kernel with these durations in microseconds, 1 ms apart.
fn calls(kernel: &str, bytes: u64, ranks: u64, durations_us: &[i64]) -> TestTrace {
    let mut trace = TestTrace::new();
    trace.in_us();
    for (start, duration) in (0..).step_by(1_000).zip(durations_us) {
        trace.kernel(kernel, start..start + duration).message(message(bytes, ranks));
    }
    trace
}

#[test]
fn the_shortest_of_five_calls_of_one_size_is_the_transfer() {
    let transfer = |durations: &[i64]| {
        let section =
            calls("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 1_000_000, 8, durations).section(collective_costs);
        rows_of(&section, &["algorithm", "count", "median_us", "min_us", "transfer_us", "confidence"]).join("; ")
    };
    assert_eq!(transfer(&[30, 20, 40, 50, 25]), "NCCL 5 30 20 20 inferred");
    assert_eq!(transfer(&[30, 20, 40, 50]), "NCCL 4 35 20 - guess");
}

/// Ten MB cross the link twice in 1,000 us: 10 GB/s. The other 1 MB messages need 100 us and the latency of 10 us, so those that
/// take 1,110 us wait 1,000 us each. The shortest of them is no transfer.
#[test]
fn where_all_calls_of_a_size_wait_the_transfer_is_what_their_waiting_leaves() {
    let mut trace = calls("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 10_000_000, 2, &[1_000; 5]);
    for start in (5_000..).step_by(2_000).take(5) {
        trace.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", start..start + 1_110).message(message(1_000_000, 2));
    }
    let columns = ["message_bytes", "transfer_us", "waiting_estimate_ms", "basis"];
    assert_eq!(
        rows_of(&trace.section(collective_costs), &columns),
        [
            "1000000 110 5 recorded size, at the bandwidth of the fastest large call",
            "10000000 1000 0 recorded size, shortest of 5 calls"
        ]
    );
}

#[test]
fn a_message_transfers_no_longer_than_a_larger_one() {
    let mut trace = calls("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 400_000, 2, &[50]);
    trace.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 5_000..5_500).message(message(200_000, 2));
    let columns = ["message_bytes", "transfer_us", "waiting_estimate_ms", "basis"];
    assert_eq!(
        rows_of(&trace.section(collective_costs), &columns),
        ["200000 50 0.45 recorded size, a larger call takes no longer", "400000 - 0 recorded size, too few calls"]
    );
}

proptest! {
    /// The transfers of a row and its waiting are parts of its time.
    #[test]
    fn transfers_and_waiting_of_a_row_never_exceed_its_time(
        calls in prop::collection::vec((1_i64..3_000, 0_usize..4, 7_i64..9, any::<bool>()), 1..40),
        has_known_link in any::<bool>(),
    ) {
        let mut trace = TestTrace::new();
        trace.in_us().named_device(0, if has_known_link { "NVIDIA H100 80GB HBM3" } else { "" });
        for (start, (duration, size, stream, has_ranks)) in (0..).step_by(5_000).zip(calls) {
            let bytes = [4_096, 300_000, 2_000_000, 90_000_000][size];
            let ranks = has_ranks.then_some(8);
            let kernel = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";
            trace.stream(stream).kernel(kernel, start..start + duration);
            trace.message(Collective { ranks, ..message(bytes, 8) });
        }
        let section = trace.section(collective_costs);
        prop_assert!(!section.rows.is_empty());
        for row in &section.rows {
            let transfers_ms = row.amount("count") * row.amount("transfer_us") / 1e3;
            let sum_ms = transfers_ms + row.amount("waiting_estimate_ms");
            prop_assert!(sum_ms <= row.amount("total_time_ms") + 1e-6, "{row:?}");
        }
    }
}

#[test]
fn over_a_link_a_transfer_takes_its_bytes_at_the_reachable_rate_and_the_latency() {
    let us = |kernel: &str, bytes, ranks| {
        let algorithm = algorithms::of_kernel(kernel);
        let source = SizeSource::Recorded;
        let kind = Kind { operation: NameId(0), algorithm, bytes: Some(bytes), source, ranks: Some(ranks) };
        let (us_at_one_gb_per_s, latency_us) = link_us(kind, "allreduce", algorithm.and_then(algorithms::get), 0.7)?;
        Some(us_at_one_gb_per_s / 450.0 + latency_us)
    };
    // 630 MB at 315 GB/s, twice 7 of 8 parts.
    let nccl = us("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 630_000_000, 8).unwrap();
    assert!((nccl - (1.75 * 2_000.0 + 10.0)).abs() < 1e-6, "{nccl}");
    // One stage reads the messages of the seven others.
    let one_stage = us("cross_device_reduce_1stage", 315_000, 8).unwrap();
    assert!((one_stage - (7.0 + 5.0)).abs() < 1e-6, "{one_stage}");
    assert_eq!(us("some_all_reduce", 1, 8), None, "an unknown algorithm");
}

#[test]
fn the_bandwidth_is_that_of_the_median_call() {
    // 1 MB crosses the busiest link 2 * 7 / 8 times in 50 us.
    let section = calls("cross_device_reduce_2stage", 1_000_000, 8, &[40, 50, 90]).section(collective_costs);
    assert_eq!(rows_of(&section, &["bus_bandwidth_gb_per_s", "total_time_ms", "exposed_ms"]), ["35 0.18 0.18"]);
}

#[test]
fn one_stage_is_too_slow_for_large_messages_of_many_ranks() {
    let fitting = |kernel: &str, bytes, ranks| {
        let section = calls(kernel, bytes, ranks, &[50]).section(collective_costs);
        rows_of(&section, &["fitting_algorithm"]).join("")
    };
    assert_eq!(fitting("cross_device_reduce_1stage", 1 << 20, 8), "two stages or NCCL");
    assert_eq!(fitting("cross_device_reduce_1stage", 1 << 16, 8), "-");
    assert_eq!(fitting("cross_device_reduce_2stage", 1 << 20, 8), "-");
    assert_eq!(fitting("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 1 << 30, 8), "-", "the name states no protocol");
}

/// A kernel between two copies of these sizes, with work of another stream in between.
fn between_copies(kernel: &str, before: u64, after: u64) -> String {
    let mut trace = TestTrace::new();
    trace.kernel(COPY, 0..10).bytes(before).stream(8).kernel("k", 11..12).stream(7);
    trace.kernel(kernel, 12..20).kernel(COPY, 20..30).bytes(after);
    rows_of(&trace.section(collective_costs), &["message_bytes", "basis"]).join("")
}

#[test]
fn equal_copies_around_a_kernel_of_symmetric_memory_have_the_size_of_its_message() {
    assert_eq!(between_copies(MULTICAST, 64, 64), "64 size of the copies before and after, too few calls");
    assert_eq!(between_copies(MULTICAST, 64, 32), "- size not recorded");
    assert_eq!(between_copies("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 64, 64), "- size not recorded");
}

#[test]
fn the_number_of_ranks_follows_from_the_process_groups_if_all_are_equal() {
    let ranks = |groups: &[usize]| {
        let group = |size: &usize| ProcessGroup { name: size.to_string(), ranks: (0..*size as u32).collect() };
        let groups = groups.iter().map(group).collect();
        let mut trace = TestTrace::new();
        trace.kernel(MULTICAST, 0..10);
        trace.builder.trace.job = Some(Box::new(Job { world_size: 8, groups, ..Job::default() }));
        rows_of(&trace.section(collective_costs), &["ranks"]).join("")
    };
    assert_eq!(ranks(&[8, 8, 1]), "8");
    assert_eq!(ranks(&[8, 4]), "-");
    assert_eq!(ranks(&[8, 0]), "-", "a group without a record");
    assert_eq!(ranks(&[]), "-");
}

#[test]
fn kernels_that_exchange_sizes_only_wait() {
    let mut trace = TestTrace::new();
    trace.in_us().kernel("void deep_ep::intranode::notify_dispatch<8>", 0..100);
    trace.kernel("void deep_ep::intranode::dispatch<8, 768>", 100..150);
    let section = trace.section(collective_costs);
    assert_eq!(
        rows_of(&section, &["algorithm", "transfer_us", "waiting_estimate_ms"]),
        ["DeepEP notify - 0.1", "DeepEP dispatch - -"]
    );
}

#[test]
fn without_communication_the_section_says_so() {
    assert!(TestTrace::new().kernel("k", 0..1).section(collective_costs).missing.is_some());
}

/// An independent program groups calls by recorded size. It takes the size of multicast calls from the first one.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn costs_of_shared_traces_match_an_independent_program() {
    for name in ["nccl_metadata_a100", "vllm_b200_eager_prefill", "train_a100_rank3of8"] {
        let oracle = read_json(&format!("oracles/inference/{name}.json"));
        let trace = torch(&format!("{name}.trace.json.gz"));
        let section = collective_costs(&Context::new(&trace, 30)).section();
        let sum = |column| section.rows.iter().map(|row| number(row, column)).sum::<f64>();
        let oracle = &oracle["comm"];
        assert_eq!(sum("count"), oracle["kernels"].as_f64().unwrap(), "{name}");
        close(1e3 * sum("total_time_ms"), &oracle["sum_us"]);
        for theirs in oracle["rows"].as_array().unwrap().iter().filter(|row| row["bus_gb_per_s_median"].is_number()) {
            let is_same = |row: &&crate::analysis::section::Record| {
                let bytes = theirs["bytes_in"].as_f64().unwrap();
                let sent = if row.text("op_name") == "allgather" { bytes * 8.0 } else { bytes };
                number(row, "message_bytes") == sent
            };
            let ours = section.rows.iter().find(is_same).unwrap();
            assert_eq!(number(ours, "count"), theirs["n"].as_f64().unwrap());
            close(number(ours, "median_us"), &theirs["median_us"]);
            close(number(ours, "min_us"), &theirs["min_us"]);
            let bandwidth = number(ours, "bus_bandwidth_gb_per_s");
            // Two digits. The program divides the input of an all-gather, which is an eighth of its output, and takes half of a
            // broadcast of two ranks; nccl-tests take all of it.
            let factor = match ours.text("op_name") {
                "allgather" => 8.0,
                "broadcast" => 2.0,
                _ => 1.0,
            };
            let expected = factor * theirs["bus_gb_per_s_median"].as_f64().unwrap();
            assert!((bandwidth - expected).abs() < 0.03 + 0.01 * expected, "{bandwidth} {expected}");
        }
    }
}

fn close(ours: f64, theirs: &serde_json::Value) {
    let theirs = theirs.as_f64().unwrap();
    assert!((ours - theirs).abs() <= 0.1 + 0.001 * theirs.abs(), "{ours} is not {theirs}");
}

/// 37 copies of 888 rows of 2,880 numbers, 36 of 3,072, which the experts pad. The first call waits for the other ranks.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn a_real_prefill_shows_the_sizes_and_the_bandwidth_of_its_multicast_all_reduces() {
    let trace = torch("vllm_b200_eager_prefill.trace.json.gz");
    let section = collective_costs(&Context::new(&trace, 30)).section();
    let columns = ["algorithm", "message_bytes", "ranks", "count", "min_us", "bus_bandwidth_gb_per_s"];
    assert_eq!(
        rows_of(&section, &columns)[..2],
        ["multicast (NVLS) 5114880 8 37 24.704 357.698", "multicast (NVLS) 5455872 8 36 27.36 345.333"]
    );
    assert!((number(&section.rows[0], "waiting_estimate_ms") - (223.2 - 24.704) / 1e3).abs() < 1e-3);
    let exposed: f64 = section.rows.iter().map(|row| number(row, "exposed_ms")).sum();
    assert!((exposed - 2.1415).abs() < 0.001, "{exposed}");
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn waiting_adds_up_to_that_of_the_collectives() {
    for name in ["nccl_metadata_a100.trace.json.gz", "train_a100_rank3of8.trace.json.gz"] {
        let trace = torch(name);
        let context = Context::new(&trace, 30);
        let of = |section: crate::analysis::section::Section| {
            section.rows.iter().map(|row| row.amount("waiting_estimate_ms")).sum::<f64>()
        };
        let (costs, collectives) = (of(collective_costs(&context).section()), of(nccl_ops(&context).section()));
        assert!(costs > 0.0 && (costs - collectives).abs() < 1e-6, "{costs} {collectives}");
        for row in &collective_costs(&context).section().rows {
            let transfers_ms = row.amount("count") * row.amount("transfer_us") / 1e3;
            let is_part = transfers_ms + row.amount("waiting_estimate_ms") <= row.amount("total_time_ms") + 1e-6;
            assert!(is_part, "{name}: {row:?}");
        }
    }
}
