//! Idle time of each device by [`IdleCause`], and the longest idle gaps. From the
//! [`Survey`](crate::analysis::time::survey::Survey) of the context, without another pass over the ops.

use super::calls_in_gaps::{CallsInGap, ProcessGap, calls_in_gaps};
use super::idle_cause::{Drained, IdleCause};
use crate::analysis::context::Context;
use crate::analysis::labels;
use crate::analysis::measure::longest::Event;
use crate::analysis::recapture::{self, MissingData};
use crate::analysis::section::{Answer, At, Ms, Pct, Sections, Stated, TypedSection, Value, first_op, section};
use crate::analysis::time::busy::length;
use crate::analysis::time::gaps::{Busy, Gap};
use crate::trace::{CODE_IS_BUILT, DeviceId, Ns, Trace};
use crate::words::idle as words;

section! {
    /// How long each device was idle between its first and last op, by cause.
    pub(crate) struct GpuIdle("gpu_idle", "GPU idle time");
    row GpuIdleRow {
        device_id: Value = "Device",
        window_ms: Ms,
        busy_ms: Ms,
        idle_ms: Ms,
        idle_pct_of_window: Pct = "Idle",
        turnaround_ms: Ms = "Turnaround",
        host_late_ms: Ms = "Host late",
        drained_ms: Ms,
        other_stream_ms: Ms = "Other stream",
        /// Time in which the device executed work that the trace does not contain; no part of `idle_ms`.
        unseen_ms: Ms = "Unseen work",
        unknown_ms: Ms,
        compiling_ms: Ms,
        /// Time in which the launching thread loaded code while its process started.
        start_up_ms: Ms = "Start-up",
        /// Time in which the serving engine had no request.
        no_requests_ms: Ms = "No requests",
        /// Time in which the profiler held the launching thread.
        profiler_ms: Ms = "Profiler",
        /// Time in which it waited for another GPU of its process.
        other_gpu_ms: Ms = "Other GPU",
        /// The part of the unseen work that belongs to the capture: launches without ops, and waits longer than the ops. The rest was
        /// launched before.
        unrecorded_ms: Ms = "Unrecorded work",
        /// The part of `host_late_ms` in which kernels were launched for the first time, which loads them.
        first_launches_ms: Ms = "Of host late: first launches",
    }
    figures GpuIdleFigures {
        /// The part of the drained time by which the host would be earlier without the blocking calls.
        drained_explained_ms: Stated<Ms> = "Drained, explained by the calls",
        /// Of the process with several GPUs.
        any_gpu_busy_pct: Stated<Pct> = "Time in which at least one GPU of the process works",
    }
}

section! {
    /// The longest idle gaps of all devices.
    pub(crate) struct GpuIdleGaps("gpu_idle_gaps", "Longest idle gaps");
    row GpuIdleGapRow {
        device_id: Value = "Device",
        gap_start_ns: At,
        gap_end_ns: At,
        gap_ms: Ms,
        cause: IdleCause,
        /// Time in which at least one thread of the process that launched the next op was in an API call.
        in_calls_ms: Option<Ms> = "In API calls",
        /// The call with most time in the gap.
        longest_call: String = "Longest call",
        longest_call_ms: Option<Ms> = "Of that call",
    }
    figures GpuIdleGapFigures { first_op_ns: Stated<At> }
}

impl GpuIdleRow {
    /// The window without the time in which the device executed work of before the capture.
    pub(crate) fn own_window_ms(&self) -> f64 {
        self.window_ms.0 - self.unseen_ms.0 + self.unrecorded_ms.0
    }
}

impl GpuIdleGaps {
    /// The longest gap in which the device is known to idle, with its row.
    pub(crate) fn longest(sections: &Sections) -> Option<(usize, GpuIdleGapRow)> {
        Self::rows(sections).into_iter().enumerate().find(|(_, gap)| gap.cause != IdleCause::Unseen)
    }
}

impl GpuIdleGapRow {
    /// `the longest idle gap lasts 2.74 s, 2.70 s of it outside of API calls`: the larger part, if the trace has calls.
    pub(crate) fn words(&self) -> String {
        let in_one = self.longest_call_ms.unwrap_or_default();
        let outside = self.in_calls_ms.map(|in_calls| Ms(self.gap_ms.0 - in_calls.0));
        let host = match outside {
            None => words::InGap::Unknown,
            Some(outside) if in_one > outside => words::InGap::OneCall(in_one, &self.longest_call),
            Some(outside) => words::InGap::OutsideOfCalls(outside),
        };
        words::longest_gap(self.gap_ms, host)
    }
}

const DERIVED_FROM: &str = "start and end of kernels, copies, memsets and whole graphs, and their launch calls";

/// One row per device with work.
pub(crate) fn gpu_idle(context: &Context) -> Answer<GpuIdle> {
    let survey = context.survey();
    if survey.busy.iter().all(Option::is_none) {
        return missing(context);
    }
    let mut answer: Answer<GpuIdle> = answer(context);
    for (device, (busy, idle)) in (0..).zip(survey.busy.iter().zip(&survey.idle)) {
        let Some(Busy { first, last, busy }) = *busy else { continue };
        let window = last.since(first);
        let [turnaround, late, drained, other, unseen, unknown, compiling, start_up, no_requests, profiler, others] =
            idle.times;
        let of_before = length(&idle.of_before);
        let first_launches = context.trace.first_launches.time_in(&idle.late);
        let idle = window.since(busy).since(unseen);
        answer.rows.push(GpuIdleRow {
            device_id: labels::device(context.trace, DeviceId(device)),
            window_ms: window.into(),
            busy_ms: busy.into(),
            idle_ms: idle.into(),
            idle_pct_of_window: Pct::of(idle, window.since(of_before)),
            turnaround_ms: turnaround.into(),
            host_late_ms: late.into(),
            drained_ms: drained.into(),
            other_stream_ms: other.into(),
            unseen_ms: unseen.into(),
            unknown_ms: unknown.into(),
            compiling_ms: compiling.into(),
            start_up_ms: start_up.into(),
            no_requests_ms: no_requests.into(),
            profiler_ms: profiler.into(),
            other_gpu_ms: others.into(),
            unrecorded_ms: unseen.since(of_before).into(),
            first_launches_ms: first_launches.into(),
        });
    }
    let mut drained = Drained::default();
    survey.idle.iter().flat_map(|idle| &idle.drained_by).for_each(|(_, of_call)| drained.add(*of_call));
    let any_gpu_busy_pct = Stated(context.blocking().other_gpus.any_busy().map(|(busy, all)| Pct::of(busy, all)));
    if drained.idle() == Ns::ZERO {
        let figures = GpuIdleFigures { drained_explained_ms: Stated(None), any_gpu_busy_pct };
        return if any_gpu_busy_pct.0.is_some() { answer.with_figures(figures) } else { answer };
    }
    let drained_explained_ms = Stated(Some(drained.explained.into()));
    answer.with_figures(GpuIdleFigures { drained_explained_ms, any_gpu_busy_pct }).limit(
        "Drained, explained by the calls: without its blocking call, the host is earlier by the time that the call took, \
         and no more. The rest of the drained time may have other causes.",
    )
}

pub(crate) fn gpu_idle_gaps(context: &Context) -> Answer<GpuIdleGaps> {
    let survey = context.survey();
    if survey.busy.iter().all(Option::is_none) {
        return missing(context);
    }
    let mut answer: Answer<GpuIdleGaps> =
        answer(context).with_figures(GpuIdleGapFigures { first_op_ns: first_op(context.trace) });
    let gap_and_cause =
        |event: Event| Some((gap_before(context.trace, event.start(), event.row())?, IdleCause::of_tag(event.tag())));
    let gaps: Vec<(Gap, IdleCause)> = survey.longest_gaps.clone().ranked().filter_map(gap_and_cause).collect();
    for ((gap, cause), calls) in gaps.iter().zip(calls_in(context.trace, &gaps)) {
        let (longest_call, longest_call_ms) = match calls.and_then(|calls| calls.longest) {
            Some((name, length)) => (context.trace.calls.names.get(name).to_owned(), Some(length.into())),
            None => (String::new(), None),
        };
        answer.rows.push(GpuIdleGapRow {
            device_id: labels::device(context.trace, DeviceId(gap.device as u32)),
            gap_start_ns: At(gap.start),
            gap_end_ns: At(gap.end),
            gap_ms: gap.length().into(),
            cause: *cause,
            in_calls_ms: calls.map(|calls| calls.in_calls.into()),
            longest_call,
            longest_call_ms,
        });
    }
    answer.rows_in_all = survey.longest_gaps.offered;
    answer
}

/// The calls in each gap; `None` if the trace has no calls, or no op after the gap.
fn calls_in(trace: &Trace, gaps: &[(Gap, IdleCause)]) -> Vec<Option<CallsInGap>> {
    if !CODE_IS_BUILT || trace.calls.is_empty() {
        return vec![None; gaps.len()];
    }
    let process = |gap: &Gap| trace.gpu_ops.get(gap.next_row).map(|op| op.process);
    let of_process =
        |gap: &Gap| ProcessGap { start: gap.start, end: gap.end, process: process(gap).unwrap_or_default() };
    let of_processes: Vec<ProcessGap> = gaps.iter().map(|(gap, _)| of_process(gap)).collect();
    let found = calls_in_gaps(trace, &of_processes);
    gaps.iter().zip(found).map(|((gap, _), calls)| process(gap).map(|_| calls)).collect()
}

/// Returns the gap from `start` to the work in this row, see [`Gap::next_row`]. [`Gap::previous_row`] is not filled in.
pub(crate) fn gap_before(trace: &Trace, start: Ns, next_row: usize) -> Option<Gap> {
    if let (Some(cut), Some(device)) = (&trace.cut, next_row.checked_sub(Gap::first_window_end(trace))) {
        return Some(Gap { device, start, end: cut.window.end, previous_row: None, next_row });
    }
    let (end, device) = match trace.gpu_ops.get(next_row) {
        Some(op) => (op.start, op.device),
        None => trace.graph_replays.get(next_row - trace.gpu_ops.len()).map(|replay| (replay.start, replay.device))?,
    };
    Some(Gap { device: device.0 as usize, start, end, previous_row: None, next_row })
}

fn missing<S: TypedSection>(context: &Context) -> Answer<S> {
    context.lacks("The trace contains no GPU ops.", MissingData::Kernels)
}

fn answer<S: TypedSection>(context: &Context) -> Answer<S> {
    let answer = S::answer(DERIVED_FROM)
        .limit(match context.trace.cut {
            None => "A device's window extends from its first op to its last. Time before and after is not counted.",
            Some(_) => "The cause of a device's last gap is unknown: the op that ends it is after the window.",
        })
        .limit(
            "turnaround: the usual delay between two ops (below 3 us, 10 us next to a graph replay, any length within \
             one). host_late: the host launched the next op too late. drained: the same after a call that had waited \
             until the GPU was empty, for up to 200 launches, unless the host was never ahead of the GPU. other_stream: \
             launched in time, but the op waited for something else. compiling: the launching thread ran torch.compile until \
             the launch. start_up: the launching thread loaded code, in a process that starts in the trace. unknown: no launch \
             is recorded. other_gpu: the launching thread was blocked while another GPU of its process worked, or the op was launched \
             before the other GPUs ran empty and started right after.",
        )
        .limit(
            "unseen: an op starts more than 1 ms after its launch although the GPU did nothing visible, so the GPU executed \
             work that the trace does not contain. The window of the idle share leaves this time out. unrecorded: the part of it \
             in which the work belongs to the capture, because launches have no op or calls waited for longer than the ops ran. \
             The window has it, and whether the GPU was busy then is not known.",
        );
    let answer = match context.trace.worst_clock_lead() {
        Some((_, lead)) => answer.limit(words::clocks_differ(lead.longest)),
        None => answer,
    };
    if context.trace.calls.is_empty() {
        return answer.limit(words::no_calls(&recapture::command(context.trace, MissingData::Calls)));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::section::Fields;
    use crate::analysis::testing::*;
    use crate::analysis::time::survey;
    use crate::trace::testing::TestTrace;
    use proptest::prelude::*;

    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn idle_time_of_the_fixture_matches_the_manual_result_except_for_copies() {
        let (trace, expected) = fixture();
        let context = Context::new(&trace, 30);
        let (idle, gaps, expected) =
            (gpu_idle(&context).section(), gpu_idle_gaps(&context).section(), &expected["gpu_idle"]);
        close(number(&idle.rows[0], "window_ms"), &expected["window_ms"]);
        // nsys-llm-explainer counts copies as idle time: here 0.5 ms of its gap of 1.0 ms, which this report
        // splits in two.
        close(number(&idle.rows[0], "busy_ms"), &serde_json::json!(expected["busy_ms"].as_f64().unwrap() + 0.5));
        assert_eq!(rows_of(&gaps, &["gap_start_ns", "gap_end_ns"]), ["3600000 4000000", "3000000 3100000"]);
    }

    /// Two kernels, each launched shortly before it starts, in a window that starts before the first and ends
    /// after the second.
    #[test]
    fn a_window_counts_idle_time_up_to_its_ends_and_the_last_gap_has_no_known_cause() {
        let mut trace = TestTrace::nsys();
        trace.launch(950..960).launches("k", 1_000..1_500).launch(2_950..2_960).launches("k", 3_000..3_500);
        let part = trace.kernel("later", 9_000..9_100).window(400..5_000);
        let context = Context::new(&part, 30);
        let (idle, gaps) = (gpu_idle(&context).section(), gpu_idle_gaps(&context).section());
        let ns = |column: &str| (number(&idle.rows[0], column) * 1e6).round();
        assert_eq!((ns("window_ms"), ns("busy_ms"), ns("idle_ms")), (4_600.0, 1_000.0, 3_600.0));
        let causes = ["host_late_ms", "unknown_ms"].map(ns);
        assert_eq!(causes, [600.0 + 1_500.0, 1_500.0]);
        let expected = ["1500 3000 host_late", "3500 5000 unknown", "400 1000 host_late"];
        assert_eq!(rows_of(&gaps, &["gap_start_ns", "gap_end_ns", "cause"]), expected);
    }

    #[test]
    fn the_longest_gaps_cover_all_devices_and_the_total_is_stated() {
        let mut trace = TestTrace::nsys();
        for i in 0..40 {
            trace.device(0).kernel("k", 100 * i..100 * i + 50 - i);
            trace.device(1).kernel("k", 1_000 * i..1_000 * i + 10);
        }
        let section = trace.section(gpu_idle_gaps);
        assert_eq!((section.rows.len(), section.rows_in_all), (survey::GAPS_KEPT, 78));
        let count =
            |device: i64| section.rows.iter().filter(|row| row.get("device_id") == Some(&device.into())).count();
        assert_eq!((count(0), count(1)), (11, 39));
        assert!(section.rows.is_sorted_by(|a, b| number(a, "gap_ms") >= number(b, "gap_ms")));
    }

    proptest! {
        #[test]
        fn idle_time_equals_a_count_of_every_tick(ops in grid_ops()) {
            let trace = grid_trace(&ops).finish();
            let context = Context::new(&trace, 30);
            let (idle, gaps) = (gpu_idle(&context).section(), gpu_idle_gaps(&context).section());
            let (mut busy, mut rest) = (0.0, 0.0);
            for row in &idle.rows {
                let by_cause: f64 = GpuIdleRow::COLUMNS[5..13].iter().map(|cause| number(row, cause.key)).sum();
                prop_assert!((number(row, "idle_ms") + number(row, "unseen_ms") - by_cause).abs() < 1e-12);
                prop_assert!((number(row, "window_ms") - number(row, "busy_ms") - by_cause).abs() < 1e-12);
                busy += number(row, "busy_ms");
                rest += by_cause;
            }
            prop_assert!((busy - ticks_ms(&ops, &|now| now.iter().any(|&count| count > 0))).abs() < 1e-12);
            prop_assert!((rest - gaps.rows.iter().map(|gap| number(gap, "gap_ms")).sum::<f64>()).abs() < 1e-12);
        }
    }
}
