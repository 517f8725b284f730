//! Tables of collectives and point-to-point messages by operation, rank and process. From the communication
//! kernels, summed in one pass over the ops.

use super::operations::{Collectives, Tally};
use super::waiting::Evidence;
use super::{median, percent};
use crate::analysis::context::Context;
use crate::analysis::labels;
use crate::analysis::recapture::{self, MissingData};
use crate::analysis::section::{Answer, KernelName, Ms, Pct, TypedSection, Us, Value, section};
use crate::analysis::time::activity::{Activity, Hidden};
use crate::analysis::time::gaps::Busy;
use crate::ordering;
use crate::ordering::VecMap;
use crate::trace::{Format, NameId, Ns, ProcessId, Trace};
use crate::words::communication as words;

section! {
    /// Time, overlap, straggler and bandwidth of each operation.
    pub(crate) struct NcclOps("nccl_ops", "Collectives");
    row NcclOpRow {
        op_name: String = "Operation",
        raw_name_example: KernelName = "Example",
        source: String,
        count: u64,
        total_time_ms: Ms = "Total",
        max_duration_ms: Ms = "Max",
        avg_duration_us: Us = "Mean",
        compute_overlap_ms: Ms = "Hidden by compute",
        compute_overlap_pct: Pct = "Hidden by compute",
        straggler: String,
        straggler_total_ms: Ms = "Straggler's total",
        straggler_max_ms: Ms = "Straggler's max",
        bytes_total: Option<u64>,
        algorithm_bandwidth_gb_per_s: Option<f64>,
        bus_bandwidth_gb_per_s: Option<f64>,
        exposed_ms: Ms,
        waiting_estimate_ms: Option<Ms> = "Waiting, estimated",
    }
    figures NcclFigures {
        count: u64,
        total_time_ms: Ms = "Total",
        compute_overlap_pct: Pct = "Hidden by compute",
        exposed_ms: Ms,
        exposed_pct_of_window: Pct,
    }
}

section! {
    /// The deviation of each rank from the median total time, by operation.
    pub(crate) struct NcclRankSkew("nccl_rank_skew", "Collectives by rank");
    row NcclRankRow {
        op_name: String = "Operation",
        rank_label: String = "Rank",
        total_time_ms: Ms = "Total",
        max_duration_ms: Ms = "Max",
        skew_vs_median_pct: Pct = "Deviation from median",
    }
}

section! {
    /// Communication time of each process.
    pub(crate) struct NcclByPid("nccl_by_pid", "Collectives by process");
    row NcclProcessRow {
        pid: Value,
        total_nccl_time_ms: Ms = "Total",
        nccl_event_count: u64 = "Count",
        max_duration_ms: Ms = "Max",
        top_nccl_op: String = "Top operation",
    }
}

const MAX_ROWS: usize = 20;
const DERIVED_FROM: &str = "communication kernels; host range times are not used";

pub(crate) fn nccl_ops(context: &Context) -> Answer<NcclOps> {
    let trace = context.trace;
    let Some(found) = context.collectives() else { return missing(context) };
    let waiting = context.waiting();
    let by_label = found.by_label(trace);
    let has_one_rank = by_label.iter().zip(by_label.iter().skip(1)).all(|(((_, a), _), ((_, b), _))| a == b);
    let stragglers = stragglers(by_label);
    let mut rows: Vec<(&str, (NameId, Tally))> = found.by_operation();
    ordering::sort_by_key(&mut rows, |(_, (_, tally))| std::cmp::Reverse((tally.total, tally.longest)));
    let op_rows = rows.iter().map(|(_, (operation, tally))| {
        let hidden = context.survey().hidden_of(found.operations.get(*operation));
        let waiting = waiting.of_operation(*operation);
        op_row(trace, found, (*operation, tally), hidden, waiting, stragglers.get(operation))
    });
    let mut answer: Answer<NcclOps> = answer(context)
        .limit("Kernel times include waiting for other ranks, so bandwidths are effective rates, not link rates.")
        .limit("Exposed time is time in which the device of the kernel runs no kernel that computes; copies do not hide communication.")
        .with_figures(figures(context, &rows))
        .with_rows(op_rows);
    if has_one_rank {
        // With one rank there is no straggler.
        answer.hidden = vec![NcclOpRow::straggler, NcclOpRow::straggler_total_ms, NcclOpRow::straggler_max_ms];
    }
    answer.limits.extend(waiting_limit(context).map(str::to_owned));
    answer.truncate(MAX_ROWS);
    answer.limits.extend(message_limits(trace, found));
    if !trace.graph_replays.is_empty() {
        answer.limits.push("Communication in CUDA graphs that were traced as a whole is not visible.".to_owned());
    }
    answer
}

/// States how waiting was estimated, if there is any.
fn waiting_limit(context: &Context) -> Option<&'static str> {
    let mut found = context.waiting().devices.iter().flatten().filter(|device| device.waiting > Ns::ZERO);
    match found.next()?.evidence {
        evidence if evidence.is_undecided() => None,
        Evidence::Ranks { .. } => {
            Some("Waiting is the time in an operation beyond that of the rank that spends the least time in it.")
        }
        _ => Some(
            "Waiting is estimated from one rank: calls that take at least twice as long as a call of the same kernel that \
             sends as much or more. The traces of all ranks decide: `gpuprism ranks FOLDER`.",
        ),
    }
}

/// States the source of message sizes, and the number of kernels whose size is known.
fn message_limits(trace: &Trace, found: &Collectives) -> Vec<String> {
    let known = found.messages.iter().map(|messages| messages.count).sum::<u64>();
    let kernels = found.cells.iter().map(|(_, cell)| cell.count).sum::<u64>();
    let is_nsys = trace.format == Format::NsysSqlite;
    let mut limits = Vec::new();
    match known {
        0 if is_nsys => limits.push(
            "The trace does not record message sizes. Export with --include-json true to get them from NCCL's NVTX ranges."
                .to_owned(),
        ),
        0 => limits.push("The trace does not record message sizes.".to_owned()),
        _ if known < kernels => limits.push(words::known_sizes(known, kernels)),
        _ => {}
    }
    if known > 0 && is_nsys {
        limits.push(
            "Message sizes come from the NVTX payload of the NCCL call that contains the launch, or of all calls in its group."
                .to_owned(),
        );
    }
    limits
}

fn op_row(
    trace: &Trace,
    found: &Collectives,
    (operation, tally): (NameId, &Tally),
    hidden: Hidden,
    waiting: Option<Ns>,
    straggler: Option<&(Tally, String)>,
) -> NcclOpRow {
    let (straggler, slowest) = straggler.map_or(("", Tally::default()), |(tally, label)| (label, *tally));
    let messages = found.messages.get(operation.0 as usize).copied().unwrap_or_default();
    let example = found.example.get(operation.0 as usize).map_or("", |name| trace.names.get(*name));
    NcclOpRow {
        op_name: found.operations.get(operation).to_owned(),
        raw_name_example: example.into(),
        source: "kernel".to_owned(),
        count: tally.count,
        total_time_ms: tally.total.into(),
        max_duration_ms: tally.longest.into(),
        avg_duration_us: Us(tally.total.0 as f64 / tally.count as f64 / 1e3),
        compute_overlap_ms: Ns(hidden.compute_overlap_ns).into(),
        compute_overlap_pct: Pct::of(Ns(hidden.compute_overlap_ns), tally.total),
        straggler: straggler.to_owned(),
        straggler_total_ms: slowest.total.into(),
        straggler_max_ms: slowest.longest.into(),
        bytes_total: messages.total(),
        algorithm_bandwidth_gb_per_s: Some(messages.bytes as f64 / messages.time.0 as f64),
        bus_bandwidth_gb_per_s: Some(messages.bus_bytes / messages.bus_time.0 as f64),
        exposed_ms: Ns(hidden.exposed_ns).into(),
        waiting_estimate_ms: waiting.map(Ms::from),
    }
}

/// Returns for each operation the rank with the largest total time.
fn stragglers(by_label: Vec<((NameId, String), Tally)>) -> VecMap<NameId, (Tally, String)> {
    let mut slowest = VecMap::new();
    for ((operation, label), tally) in by_label {
        // The first rank of an operation replaces the empty tally.
        slowest.update(operation, (Tally::default(), String::new()), |slowest: &mut (Tally, String)| {
            if (tally.total, tally.longest) >= (slowest.0.total, slowest.0.longest) {
                *slowest = (tally, label);
            }
        });
    }
    slowest
}

/// Sums over all operations, and the share of the devices' windows in which communication is exposed.
fn figures(context: &Context, rows: &[(&str, (NameId, Tally))]) -> NcclFigures {
    let survey = context.survey();
    let mut all = Tally::default();
    rows.iter().for_each(|(_, (_, tally))| all.add(*tally));
    let compute_overlap = survey.hidden().fold(Ns::ZERO, |sum, hidden| sum + Ns(hidden.compute_overlap_ns));
    let exposed = survey.activities.iter().fold(Ns::ZERO, |sum, device: &Activity| sum + Ns(device.exposed()));
    let lengths = survey.busy.iter().flatten().map(|busy: &Busy| busy.last.since(busy.first));
    let window = lengths.fold(Ns::ZERO, |sum, length| sum + length);
    NcclFigures {
        count: all.count,
        total_time_ms: all.total.into(),
        compute_overlap_pct: Pct::of(compute_overlap, all.total),
        exposed_ms: exposed.into(),
        exposed_pct_of_window: Pct::of(exposed, window),
    }
}

pub(crate) fn nccl_rank_skew(context: &Context) -> Answer<NcclRankSkew> {
    let trace = context.trace;
    let Some(found) = context.collectives() else { return missing(context) };
    let by_label = found.by_label(trace);
    let mut answer: Answer<NcclRankSkew> = answer(context)
        .limit("The rank that arrives last waits least, so the rank with the shortest total may delay the others.");
    let mut has_one_rank = true;
    for (operation, (id, _)) in found.by_operation() {
        let before = by_label.partition_point(|((other, _), _)| *other < id);
        let of_operation = by_label.iter().skip(before).take_while(|((other, _), _)| *other == id);
        let mut rows: Vec<(i64, &str, &Tally)> =
            of_operation.map(|((_, label), tally)| (tally.total.0, label.as_str(), tally)).collect();
        has_one_rank &= rows.len() < 2;
        let median = median(rows.iter().map(|row| row.0).collect());
        let skew = |total: i64| percent(total as f64 - median, median);
        ordering::sort_by(&mut rows, |a, b| skew(b.0).abs().total_cmp(&skew(a.0).abs()).then_with(|| a.1.cmp(b.1)));
        answer.rows.extend(rows.into_iter().map(|(total, label, tally)| NcclRankRow {
            op_name: operation.to_owned(),
            rank_label: label.to_owned(),
            total_time_ms: tally.total.into(),
            max_duration_ms: tally.longest.into(),
            skew_vs_median_pct: Pct(skew(total)),
        }));
    }
    if has_one_rank {
        answer = answer.limit("The trace contains only one rank. Skew requires a trace that contains all ranks.");
    }
    answer
}

pub(crate) fn nccl_by_pid(context: &Context) -> Answer<NcclByPid> {
    let trace = context.trace;
    let Some(found) = context.collectives() else { return missing(context) };
    let mut top = VecMap::new();
    for ((process, operation), tally) in found.by(&|operation, unit| (unit.0, operation)) {
        top.update(process, (Ns(-1), ""), |best: &mut (Ns, &str)| {
            if tally.total > best.0 {
                *best = (tally.total, found.operations.get(operation));
            }
        });
    }
    let mut rows: Vec<(ProcessId, Tally)> = found.by(&|_, unit| unit.0);
    ordering::sort_by_key(&mut rows, |(_, tally)| std::cmp::Reverse((tally.total, tally.count)));
    answer(context).with_rows(rows.into_iter().map(|(process, tally)| NcclProcessRow {
        pid: labels::pid(trace, process),
        total_nccl_time_ms: tally.total.into(),
        nccl_event_count: tally.count,
        max_duration_ms: tally.longest.into(),
        top_nccl_op: top.get(&process).map_or("", |top| top.1).to_owned(),
    }))
}

pub(super) fn missing<S: TypedSection>(context: &Context) -> Answer<S> {
    let trace = context.trace;
    let may_be_hidden = !trace.graph_replays.is_empty() || trace.gpu_ops.is_empty();
    let why = match (trace.gpu_ops.is_empty(), trace.graph_replays.is_empty()) {
        (true, true) => "The trace contains no GPU ops.",
        (_, false) => "No communication kernel was traced. CUDA graphs that were traced as a whole may contain some.",
        (false, true) => "No communication kernel ran.",
    };
    let recapture = if may_be_hidden { recapture::command(trace, MissingData::Kernels) } else { String::new() };
    S::missing(why, recapture)
}

fn answer<S: TypedSection>(context: &Context) -> Answer<S> {
    let answer = S::answer(DERIVED_FROM);
    if context.trace.devices.len() > 1 { answer.limit("Times are summed over devices.") } else { answer }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::*;
    use crate::trace::testing::TestTrace;
    use crate::trace::{Collective, OpKind};
    use proptest::prelude::*;

    fn message(operation: &str, bytes_in: u64, bytes_out: u64, ranks: u64) -> Collective {
        Collective {
            operation: operation.to_owned(),
            bytes_in: Some(bytes_in),
            bytes_out: Some(bytes_out),
            ranks: Some(ranks),
            ..Collective::default()
        }
    }

    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn collectives_of_the_fixture_match_the_manual_result() {
        let (trace, expected) = fixture();
        let context = Context::new(&trace, 30);
        let (ops, by_pid) = (nccl_ops(&context).section(), nccl_by_pid(&context).section());
        let expected = expected["nccl_ops"].as_array().unwrap();
        assert_eq!((ops.rows.len(), by_pid.rows.len()), (expected.len(), 2));
        for (ours, theirs) in ops.rows.iter().zip(expected) {
            for text in ["op_name", "source", "straggler"] {
                assert_eq!(words(ours, text), theirs[text]);
            }
            close(number(ours, "total_time_ms"), &theirs["total_ms"]);
            close(number(ours, "compute_overlap_ms"), &theirs["compute_overlap_ms"]);
            close(number(ours, "compute_overlap_pct"), &theirs["compute_overlap_pct"]);
        }
        // Device 0 runs no other kernel beside the all-reduce in [1.0, 1.5) and [2.5, 3.0) ms, and beside the broadcast in
        // [4.0, 4.2) and [4.8, 5.5) ms. A copy runs in [4.85, 5.15) ms.
        let exposed: Vec<f64> = ops.rows.iter().map(|row| number(row, "exposed_ms")).collect();
        assert!((exposed[0] - 1.0).abs() < 1e-12 && (exposed[1] - 0.9).abs() < 1e-12, "{exposed:?}");
        assert_eq!(words(&by_pid.rows[0], "top_nccl_op"), "allreduce");
    }

    #[test]
    fn compute_on_another_gpu_does_not_hide_communication() {
        let mut trace = TestTrace::nsys();
        trace.device(0).kernel(KINDS[ALLREDUCE], 0..100).device(1).kernel(KINDS[COMPUTE], 0..100);
        let section = trace.section(nccl_ops);
        assert_eq!(number(&section.rows[0], "compute_overlap_ms"), 0.0);
        assert_eq!(number(&section.rows[0], "exposed_ms"), 1e-4);
        assert_eq!(number(&section.summary, "exposed_pct_of_window"), 50.0, "100 ns of two windows of 100 ns");
    }

    #[test]
    fn kernels_hide_communication_but_copies_and_sets_do_not() {
        let mut trace = TestTrace::nsys();
        trace.kernel(KINDS[ALLREDUCE], 0..100).kernel("gemm", 60..70);
        trace.op("[CUDA memcpy DtoH]", OpKind::Copy, 20..40, None).op("[CUDA memset]", OpKind::Set, 50..65, None);
        let section = trace.section(nccl_ops);
        assert_eq!(number(&section.rows[0], "compute_overlap_ms"), 1e-5, "the 10 ns of the GEMM");
        assert_eq!(number(&section.rows[0], "exposed_ms"), 9e-5, "100 ns without them");
        assert_eq!(number(&section.summary, "exposed_ms"), 9e-5);
    }

    #[test]
    fn other_kernels_and_ranges_with_collective_words_are_not_collectives() {
        let mut trace = TestTrace::nsys();
        trace.range("nccl:all_gather", 0..9).kernel("void at::native::elementwise_kernel<broadcast>(int)", 0..10);
        let section = trace.kernel("void at::native::reduce_kernel<512, 1>(int)", 10..20).section(nccl_ops);
        assert!(section.missing.is_some() && section.rows.is_empty());
    }

    #[test]
    fn bandwidth_follows_the_definition_of_nccl_tests() {
        let mut trace = TestTrace::nsys();
        // 8 ranks: an all-reduce of 1000 bytes in 100 ns, then an all-gather of 8 times 500 bytes in 200 ns.
        trace.kernel(KINDS[ALLREDUCE], 0..100).message(message("allreduce", 1_000, 1_000, 8));
        trace.kernel(KINDS[ALLGATHER], 100..300).message(message("_allgather_base", 500, 4_000, 8));
        let section = trace.kernel("ncclDevKernel_Broadcast_RING", 300..400).section(nccl_ops);
        let figures = |operation| {
            let row = row(&section, "op_name", operation);
            (
                number(row, "algorithm_bandwidth_gb_per_s"),
                number(row, "bus_bandwidth_gb_per_s"),
                number(row, "bytes_total"),
            )
        };
        assert_eq!(figures("allreduce"), (10.0, 17.5, 1_000.0));
        assert_eq!(figures("allgather"), (20.0, 17.5, 4_000.0));
        let unknown = row(&section, "op_name", "broadcast");
        for column in ["bytes_total", "algorithm_bandwidth_gb_per_s", "bus_bandwidth_gb_per_s"] {
            assert_eq!(unknown.get(column), Some(&Value::Null), "{column}");
        }
    }

    #[test]
    fn a_partial_size_is_not_used_and_unknown_sizes_are_counted() {
        let mut trace = TestTrace::nsys();
        let without_output = Collective { bytes_out: None, ..message("ncclAllGather", 500, 0, 8) };
        trace.kernel(KINDS[ALLGATHER], 0..100).message(without_output);
        let without_input = Collective { bytes_in: None, ..message("ncclReduceScatter", 0, 500, 8) };
        trace.kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", 100..200).message(without_input);
        trace.kernel(KINDS[ALLREDUCE], 200..300).message(message("ncclAllReduce", 0, 0, 8));
        let section = trace.section(nccl_ops);
        let bytes = |operation| row(&section, "op_name", operation).get("bytes_total").cloned();
        assert_eq!(bytes("allgather"), Some(Value::Null));
        assert_eq!(bytes("reducescatter"), Some(Value::Null));
        assert_eq!(bytes("allreduce"), Some(Value::from(0_u64)), "zero bytes are a known size");
        assert!(section.limits.iter().any(|limit| limit.contains("1 of 3 messages")), "{:?}", section.limits);
    }

    #[test]
    fn the_recorded_operation_takes_precedence_over_the_kernel_name() {
        let mut trace = TestTrace::nsys();
        trace.kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 0..100);
        let section = trace.message(message("all_to_allv", 800, 800, 4)).section(nccl_ops);
        assert_eq!(words(&section.rows[0], "op_name"), "alltoall");
        assert_eq!(number(&section.rows[0], "bus_bandwidth_gb_per_s"), 6.0, "8 GB/s of which 3/4 leave the rank");
    }

    #[test]
    fn the_straggler_is_labelled_by_rank_device_or_process() {
        let labels = |processes: [(i64, &str); 3]| {
            let mut trace = TestTrace::nsys();
            for (device, (pid, name)) in (0..).zip(processes) {
                trace.named_process(pid, name).device(device).kernel(KINDS[ALLREDUCE], 0..100 * (1 + device));
            }
            let sections = trace.sections();
            let skews = rows(&sections, "nccl_rank_skew", &["rank_label", "skew_vs_median_pct"]);
            [rows(&sections, "nccl_ops", &["straggler"]), skews].concat()
        };
        let ranks = labels([(-1, "[TP00]"), (-1, "[TP01]"), (-1, "[TP02]")]);
        assert_eq!(ranks, ["rank:TP02", "rank:TP00 -50", "rank:TP02 50", "rank:TP01 0"]);
        let one_process = labels([(5, "python"), (5, "python"), (5, "python")]);
        assert_eq!(one_process, ["device:2", "device:0 -50", "device:2 50", "device:1 0"]);
        let processes = labels([(5, "python"), (6, "python"), (7, "python")]);
        assert_eq!(processes, ["pid:7", "pid:5 -50", "pid:7 50", "pid:6 0"]);
    }

    #[test]
    fn a_single_rank_has_no_straggler_columns() {
        let keys = |pids: &[i64]| {
            let mut trace = TestTrace::nsys();
            for (device, pid) in pids.iter().enumerate() {
                trace.process(*pid).device(device).kernel(KINDS[ALLREDUCE], 0..100);
            }
            let section = trace.section(nccl_ops);
            let keys: Vec<String> = section.rows[0].0.iter().map(|(key, _)| key.to_string()).collect();
            assert_eq!(keys, section.columns);
            keys.into_iter().filter(|key| key.contains("straggler")).count()
        };
        assert_eq!((keys(&[5]), keys(&[5, 6])), (0, 3));
    }

    /// An independent program reads the same sizes from the annotations around the launches.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn sizes_that_torch_records_with_the_annotation_are_read() {
        let sizes = |file: &str| {
            let messages = torch(file).collectives;
            messages.into_iter().filter_map(|(_, message)| message.bytes_in).collect::<Vec<u64>>()
        };
        let rank0 = sizes("dlrm_v100_8ranks/rank0.pt.trace.json.gz");
        let train = sizes("train_a100_rank3of8.trace.json.gz");
        assert_eq!(rank0, [24_576, 192, 1_536, 13_568, 1_576_964, 24_576, 448, 907_840]);
        let large = train.iter().filter(|bytes| **bytes == 288_882_688).count();
        assert_eq!((train.len(), large, train.iter().sum::<u64>()), (60, 6, 5_065_412_632));
    }

    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn messages_of_a_real_torch_trace_are_counted_and_named() {
        let trace = torch("nccl_metadata_a100.trace.json.gz");
        let section = nccl_ops(&Context::new(&trace, 30)).section();
        assert_eq!(number(&section.summary, "count"), 21.0);
        let allreduce = row(&section, "op_name", "allreduce");
        // 15 all-reduces of 76,671,096 floats in total, in 46,762,159 ns; with two ranks both bandwidths are
        // equal.
        let bus = number(allreduce, "bus_bandwidth_gb_per_s");
        assert!((bus - 306_684_384.0 / 46_762_159.0).abs() < 1e-12, "{bus} GB/s");
        assert_eq!(bus, number(allreduce, "algorithm_bandwidth_gb_per_s"));
    }

    proptest! {
        #[test]
        fn overlap_and_exposed_time_equal_a_count_of_every_tick(ops in grid_ops()) {
            let section = grid_trace(&ops).section(nccl_ops);
            for (kind, operation) in [(ALLREDUCE, "allreduce"), (ALLGATHER, "allgather")] {
                let of_kind = || ops.iter().filter(|op| op.kind == kind);
                if of_kind().count() == 0 {
                    continue;
                }
                let row = row(&section, "op_name", operation);
                let compute_overlap = of_kind().map(|op| {
                    let ticks = op.start..op.start + op.duration;
                    ticks.filter(|&tick| running(&ops, op.device, tick)[COMPUTE] > 0).count()
                });
                let compute_overlap = compute_overlap.sum::<usize>() as f64 / 1e6;
                prop_assert!((number(row, "compute_overlap_ms") - compute_overlap).abs() < 1e-12);
                prop_assert!(number(row, "compute_overlap_pct") <= 100.0);
                let exposed = ticks_ms(&ops, &|now| now[kind] > 0 && now[COMPUTE] + now[5] == 0);
                prop_assert!((number(row, "exposed_ms") - exposed).abs() < 1e-12);
            }
        }
    }
}
