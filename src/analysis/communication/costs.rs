//! The cost of collectives by operation, algorithm and message size: how long the transfer takes, how much of the time is
//! waiting, and whether another algorithm fits the size. From the waiting that [`super::waiting`] estimates, one sweep over the
//! work for exposed time, and a sort of the communication kernels: O(n log n).

use super::algorithms::{self, Algorithm};
use super::operations::{Operations, bus_factor};
use super::waiting::{CallWait, Evidence, Reason, Size};
use crate::analysis::context::Context;
use crate::analysis::measure::percentiles::of_sorted;
use crate::analysis::section::{Answer, Ms, TypedSection, Us, section};
use crate::analysis::time::activity::{ActivitySweep, Hidden};
use crate::analysis::time::work::{Class, each_work};
use crate::ordering;
use crate::trace::{Fraction, GpuOp, NameId, Ns, OpKind, Trace};
use crate::words::communication::{self as words, Proof, SizeFrom};
use std::cmp::Reverse;

section! {
    /// One row per operation, algorithm, message size and number of ranks, longest first.
    pub(crate) struct CollectiveCosts("collective_costs", "Costs of collectives");
    row CostRow {
        op_name: String = "Operation",
        algorithm: Option<String>,
        message_bytes: Option<u64> = "Message",
        ranks: Option<u64>,
        count: usize,
        total_time_ms: Ms = "Total",
        median_us: Option<Us>,
        min_us: Option<Us> = "Shortest",
        transfer_us: Option<Us> = "Transfer, estimated",
        bus_bandwidth_gb_per_s: Option<f64>,
        waiting_estimate_ms: Option<Ms> = "Waiting, estimated",
        exposed_ms: Ms,
        fitting_algorithm: Option<String> = "Faster for this size",
        basis: String = "Rests on",
        confidence: String,
    }
}

const MAX_ROWS: usize = 40;
/// The copies around a kernel are searched in so many rows on each side, because other streams run in between.
const NEIGHBOURS: usize = 8;

/// How the size of a message is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SizeSource {
    Recorded,
    /// From equal copies before and after the kernel.
    Copies,
    Unknown,
}

/// What calls of one row have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    operation: NameId,
    /// See [`algorithms::get`].
    algorithm: Option<usize>,
    bytes: Option<u64>,
    source: SizeSource,
    ranks: Option<u64>,
}

/// The calls of one row.
#[derive(Debug)]
struct Cost {
    kind: Kind,
    /// Rows of their ops.
    rows: Vec<usize>,
    /// Sorted.
    durations: Vec<i64>,
    total: Ns,
    /// `None` if no call can be compared.
    waiting: Option<Ns>,
    /// The least time of a call without its estimated waiting, so that transfers and waiting never exceed the total.
    transfer: Ns,
    /// How this call shows its waiting; `None` if it does not wait.
    reason: Option<Reason>,
}

pub(crate) fn collective_costs(context: &Context) -> Answer<CollectiveCosts> {
    let Some(found) = context.collectives() else { return super::collectives::missing(context) };
    let mut costs = costs(context);
    ordering::sort_by_key(&mut costs, |cost| Reverse(cost.total));
    let kinds = costs.len();
    costs.truncate(MAX_ROWS);
    let exposed = exposed(context, &costs);
    let link_gb_per_s = context.preset().and_then(|preset| preset.link_gb_per_s);
    let mut answer = answer(context).with_rows(costs.iter().zip(exposed).map(|(cost, exposed)| {
        let operation = found.operations.get(cost.kind.operation);
        row(cost, operation, exposed, Transfer::of(cost, operation, link_gb_per_s, context))
    }));
    answer.rows_in_all = kinds as u64;
    answer
}

fn answer(context: &Context) -> Answer<CollectiveCosts> {
    let answer = CollectiveCosts::answer("communication kernels, recorded messages, and copies around kernels")
        .limit("The bandwidth is that of the median call over the busiest link, as nccl-tests define it.")
        .limit(
            "Transfer and waiting are estimated from one rank. The traces of all ranks decide: `gpuprism ranks FOLDER`.",
        )
        .limit(
            "Names of NCCL kernels state neither algorithm nor protocol: the kernel named RING_LL runs all of them but \
             trees.",
        );
    if has_ranks(context) {
        answer.limit("The file contains several ranks; their waiting is in the table of collectives.")
    } else {
        answer
    }
}

/// Whether waiting is known from several ranks in the file.
fn has_ranks(context: &Context) -> bool {
    context.waiting().devices.iter().flatten().any(|device| matches!(device.evidence, Evidence::Ranks { .. }))
}

fn row(cost: &Cost, operation: &str, exposed: Hidden, transfer: Transfer) -> CostRow {
    let kind = cost.kind;
    let algorithm = kind.algorithm.and_then(algorithms::get);
    let percentile = |percent| of_sorted(&cost.durations, percent);
    let us = |ns: Option<f64>| ns.map(|ns| Us(ns / 1e3));
    let bus_bytes = kind.bytes.zip(bus_factor(operation, kind.ranks)).map(|(bytes, factor)| bytes as f64 * factor);
    let bandwidth = bus_bytes.zip(percentile(50)).map(|(bytes, ns)| bytes / ns);
    let fitting = algorithm.zip(kind.bytes).zip(kind.ranks);
    let fitting = fitting.and_then(|((algorithm, bytes), ranks)| algorithm.fitting(bytes, ranks));
    CostRow {
        op_name: operation.to_owned(),
        algorithm: algorithm.map(|algorithm| algorithm.name.clone()),
        message_bytes: kind.bytes,
        ranks: kind.ranks,
        count: cost.durations.len(),
        total_time_ms: cost.total.into(),
        median_us: us(percentile(50)),
        min_us: us(percentile(0)),
        transfer_us: transfer.us.map(Us),
        bus_bandwidth_gb_per_s: bandwidth,
        waiting_estimate_ms: cost.waiting.map(Ms::from),
        exposed_ms: Ns(exposed.exposed_ns).into(),
        fitting_algorithm: fitting.map(str::to_owned),
        basis: transfer.basis,
        confidence: transfer.confidence.to_owned(),
    }
}

/// The time of a transfer without waiting, as far as one rank shows it.
struct Transfer {
    us: Option<f64>,
    basis: String,
    confidence: &'static str,
}

impl Transfer {
    fn of(cost: &Cost, operation: &str, link_gb_per_s: Option<f64>, context: &Context) -> Self {
        let kind = cost.kind;
        let algorithm = kind.algorithm.and_then(algorithms::get);
        if algorithm.is_some_and(|algorithm| algorithm.waits_only) {
            let basis = "exchanges sizes and waits, transfers no data".to_owned();
            return Self { us: None, basis, confidence: "inferred" };
        }
        let size = match kind.source {
            SizeSource::Recorded => SizeFrom::Recorded,
            SizeSource::Copies => SizeFrom::Copies,
            SizeSource::Unknown => {
                return Self { us: None, basis: "size not recorded".to_owned(), confidence: "guess" };
            }
        };
        let measured = Self::measured(cost, size);
        let share = context.signals.waiting.reachable_share;
        let over_link = |link: f64| {
            let (us_at_one_gb_per_s, latency_us) = link_us(kind, operation, algorithm, share)?;
            let us = us_at_one_gb_per_s / link + latency_us;
            // A call that takes less time proves more than the link rate.
            let us = (us < cost.transfer.0 as f64 / 1e3).then_some(us)?;
            let basis = words::basis(size, Proof::LinkRate { share: Fraction(share), link });
            Some(Self { us: Some(us), basis, confidence: "guess" })
        };
        match (measured.confidence, link_gb_per_s) {
            ("guess", Some(link)) => over_link(link).unwrap_or(measured),
            _ => measured,
        }
    }

    /// The time without waiting, as the calls show it. A few calls of one size may all wait.
    fn measured(cost: &Cost, size: SizeFrom) -> Self {
        let us = Some(cost.transfer.0 as f64 / 1e3);
        let calls = cost.durations.len() as u64;
        let (proof, confidence) = match cost.reason {
            Some(Reason::Faster { bytes, .. }) if cost.kind.bytes.is_some_and(|own| own < bytes) => {
                (Proof::LargerCall, "inferred")
            }
            Some(Reason::Bandwidth { .. }) => (Proof::FastestCall, "inferred"),
            Some(Reason::SlowNetwork { .. }) => (Proof::SlowNetwork, "guess"),
            _ if calls >= algorithms::min_calls() => (Proof::ShortestOf(calls), "inferred"),
            _ => {
                let basis = words::basis(size, Proof::TooFewCalls);
                return Self { us: None, basis, confidence: "guess" };
            }
        };
        Self { us, basis: words::basis(size, proof), confidence }
    }
}

/// The time of a transfer over a link of 1 GB/s of which this share is reached, and the latency, both in microseconds.
fn link_us(kind: Kind, operation: &str, algorithm: Option<&Algorithm>, share: f64) -> Option<(f64, f64)> {
    let algorithm = algorithm?;
    let ranks = kind.ranks?;
    let factor = if algorithm.reads_all { ranks.saturating_sub(1) as f64 } else { bus_factor(operation, Some(ranks))? };
    Some((kind.bytes? as f64 * factor / share / 1e3, algorithm.latency_us?))
}

/// Groups the communication kernels.
fn costs(context: &Context) -> Vec<Cost> {
    let trace = context.trace;
    let operations = Operations::new(context);
    let algorithm_of: Vec<Option<usize>> = trace
        .names
        .iter()
        .zip((0..).map(NameId))
        .map(|(name, id)| if context.is_communication(id) { algorithms::of_kernel(name) } else { None })
        .collect();
    let world_size = common_group_size(trace);
    let mut calls: Vec<(Kind, &CallWait)> = Vec::new();
    for call in context.call_waits() {
        let Some(op) = trace.gpu_ops.get(call.row) else { continue };
        let message = operations.of(call.row, op.name).and_then(|(_, message)| message);
        let algorithm = algorithm_of.get(op.name.0 as usize).copied().flatten();
        let has_copies = algorithm.and_then(algorithms::get).is_some_and(|algorithm| algorithm.copies_around);
        let copied = || if has_copies { size_of_copies(trace, call.row, &op) } else { None };
        let (bytes, source) = match (call.size, copied) {
            (Size::Bytes(bytes), _) => (Some(bytes), SizeSource::Recorded),
            (_, copied) => copied().map_or((None, SizeSource::Unknown), |bytes| (Some(bytes), SizeSource::Copies)),
        };
        let ranks = message.and_then(|message| message.ranks).or(world_size);
        calls.push((Kind { operation: call.operation(), algorithm, bytes, source, ranks }, call));
    }
    calls.sort_unstable_by_key(|(kind, call)| (*kind, call.row));
    let has_ranks = has_ranks(context);
    calls.chunk_by(|a, b| a.0 == b.0).filter_map(|calls| Cost::of(calls, has_ranks)).collect()
}

impl Cost {
    fn of(calls: &[(Kind, &CallWait)], has_ranks: bool) -> Option<Self> {
        let (kind, _) = calls.first()?;
        let mut durations: Vec<i64> = calls.iter().map(|(_, call)| call.duration.0).collect();
        durations.sort_unstable();
        let total = calls.iter().fold(Ns::ZERO, |sum, (_, call)| sum + call.duration);
        let waits_only = kind.algorithm.and_then(algorithms::get).is_some_and(|algorithm| algorithm.waits_only);
        let mut comparable = calls.iter().filter(|(_, call)| call.has_reference).peekable();
        let waiting = match (has_ranks, waits_only) {
            (true, _) => None,
            (false, true) => Some(total),
            (false, false) if comparable.peek().is_none() => None,
            (false, false) => Some(comparable.fold(Ns::ZERO, |sum, (_, call)| sum + call.waiting)),
        };
        let (_, fastest) = calls.iter().min_by_key(|(_, call)| call.transfer())?;
        let (transfer, reason) = (fastest.transfer(), fastest.reason);
        let rows = calls.iter().map(|(_, call)| call.row).collect();
        Some(Self { kind: *kind, rows, durations, total, waiting, transfer, reason })
    }
}

/// The number of ranks in every process group with several ranks, which then is the number of ranks of a message without a
/// record; `None` if groups differ or are not recorded.
fn common_group_size(trace: &Trace) -> Option<u64> {
    let job = trace.job.as_deref()?;
    let mut sizes = job.groups.iter().map(|group| group.ranks.len()).filter(|ranks| *ranks != 1);
    let first = sizes.next()?;
    (first > 1 && sizes.all(|size| size == first)).then_some(first as u64)
}

/// The bytes of the copies directly before and after a kernel on its stream, if both copy equally much within the device.
fn size_of_copies(trace: &Trace, row: usize, op: &GpuOp) -> Option<u64> {
    let is_beside = |other: &usize| {
        let other = trace.gpu_ops.get(*other);
        other.is_some_and(|other| (other.device, other.process, other.stream) == (op.device, op.process, op.stream))
    };
    let before = (row.saturating_sub(NEIGHBOURS)..row).rev().find(is_beside)?;
    let after = (row + 1..=row + NEIGHBOURS).find(is_beside)?;
    let bytes = copied_bytes(trace, before)?;
    (bytes > 0 && copied_bytes(trace, after) == Some(bytes)).then_some(bytes)
}

/// The bytes of a copy within the device.
fn copied_bytes(trace: &Trace, row: usize) -> Option<u64> {
    let op = trace.gpu_ops.get(row).filter(|op| op.kind == OpKind::Copy)?;
    let name = trace.names.get(op.name).to_ascii_lowercase();
    if !["dtod", "device-to-device", "devicetodevice"].iter().any(|word| name.contains(word)) {
        return None;
    }
    let found = trace.bytes.binary_search_by_key(&row, |(row, _)| *row as usize).ok()?;
    trace.bytes.get(found).map(|(_, bytes)| *bytes)
}

/// The hidden and exposed time of each cost.
fn exposed(context: &Context, costs: &[Cost]) -> Vec<Hidden> {
    let mut cost_of_row: Vec<(usize, usize)> = Vec::new();
    for (index, cost) in costs.iter().enumerate() {
        cost_of_row.extend(cost.rows.iter().map(|row| (*row, index)));
    }
    cost_of_row.sort_unstable();
    let mut sweep = ActivitySweep::new(context.trace, costs.len() + 1);
    let mut next = cost_of_row.into_iter().peekable();
    each_work(context, &mut |work| {
        let cost = match next.peek() {
            Some((row, cost)) if work.class == Class::Communication && *row == work.row => {
                let cost = *cost;
                next.next();
                cost
            }
            _ => costs.len(),
        };
        sweep.add(&work, cost);
    });
    let (_, mut hidden) = sweep.finish();
    hidden.truncate(costs.len());
    hidden
}

#[cfg(test)]
mod tests;
