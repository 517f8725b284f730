//! By how much the clock of the device is late against that of the host: ops end after the synchronisation that waited for them returned.
//! The times of the ops are moved back by it when the file is read. One pass over the ops and one over the calls.
//!
//! A synchronisation returns after the work that its thread launched since the one before, if that is on one stream. If most of them return
//! earlier, the clock is late by the median of these times at least. No op is moved before its launch, so where a thread only waits for
//! other streams the times move by less than a launch takes. Only for traces of one device: each device has its own clock.

use super::{CallRole, GraphReplay, Ns, Trace};

/// Fewer synchronisations prove nothing.
const MIN_WAITS: usize = 5;
/// Within this time all rules let a call return before its op ends, so that nothing jumps where the correction begins.
const TOLERATED: Ns = Ns(5_000);

/// What a thread launched since its last synchronisation.
#[derive(Debug, Clone, Copy)]
struct Launched {
    end: Ns,
    stream: i64,
    is_on_one_stream: bool,
}

impl Launched {
    fn and(self, other: Self) -> Self {
        let is_on_one_stream = self.is_on_one_stream && other.is_on_one_stream && self.stream == other.stream;
        Self { end: self.end.max(other.end), stream: other.stream, is_on_one_stream }
    }
}

impl Trace {
    /// Moves the ops back by the time by which the clock of the device is late, and keeps that time in [`Trace::clock_lag`]. `role` decides by
    /// the name of a call.
    pub(crate) fn correct_clock_lag(&mut self, role: &dyn Fn(&str) -> CallRole) {
        if self.devices.len() != 1 {
            return;
        }
        let lag = self.lag(role);
        if lag > TOLERATED {
            self.gpu_ops.move_back(lag);
            self.graph_replays.iter_mut().for_each(|GraphReplay { start, .. }| *start = *start - lag);
            self.clock_lag = lag;
        }
    }

    fn lag(&self, role: &dyn Fn(&str) -> CallRole) -> Ns {
        // An event may be that of earlier work.
        let waits = |name: &str| role(name) == CallRole::Synchronizes && !name.contains("Event");
        let waits: Vec<bool> = self.calls.names.iter().map(waits).collect();
        if !waits.contains(&true) {
            return Ns::ZERO;
        }
        let (launched, fastest) = self.launched_by_call();
        let mut of_threads: Vec<Option<Launched>> = vec![None; self.threads.len()];
        let mut early: Vec<Ns> = Vec::new();
        for (call, launched) in self.calls.iter().zip(launched) {
            let Some(of_thread) = of_threads.get_mut(call.thread.0 as usize) else { continue };
            if let Some(launched) = launched {
                *of_thread = Some(of_thread.map_or(launched, |known| known.and(launched)));
            }
            if waits.get(call.name.0 as usize) == Some(&true)
                && let Some(work) = of_thread.take()
                && work.is_on_one_stream
                && work.end > call.start
            {
                early.push(work.end.since(call.end()));
            }
        }
        early.sort_unstable();
        let median = early.get(early.len() / 2).filter(|_| early.len() >= MIN_WAITS);
        median.copied().unwrap_or_default().min(fastest.unwrap_or_default())
    }

    /// What each call launched, and the shortest time from the begin of a call to its op.
    fn launched_by_call(&self) -> (Vec<Option<Launched>>, Option<Ns>) {
        let mut launched: Vec<Option<Launched>> = vec![None; self.calls.len()];
        let mut fastest: Option<Ns> = None;
        for (op, launch) in self.gpu_ops.iter().zip(self.gpu_ops.launches()) {
            let Some(launch) = launch.map(|call| call.0 as usize) else { continue };
            let (Some(of_call), Some(start)) = (launched.get_mut(launch), self.calls.start(launch)) else { continue };
            let latency = op.start.since(start);
            fastest = Some(fastest.map_or(latency, |fastest| fastest.min(latency)));
            let own = Launched { end: op.end(), stream: op.stream, is_on_one_stream: true };
            *of_call = Some(of_call.map_or(own, |known| known.and(own)));
        }
        (launched, fastest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;

    /// Ten steps of a kernel of 500 us and a synchronisation that returns 3 us after it. The device's clock is late by `lag`.
    fn steps(lag: i64, stream_of: impl Fn(i64) -> i64) -> Trace {
        let mut trace = TestTrace::new();
        trace.in_us();
        for (step, start) in (0..).zip((0..10_000).step_by(1_000)) {
            trace.stream(stream_of(step)).launch(start..start + 5);
            trace.launches("k", start + 8 + lag..start + 508 + lag);
            trace.call("cudaStreamSynchronize", start + 10..start + 511);
        }
        trace.finish()
    }

    fn corrected(mut trace: Trace) -> (i64, i64) {
        let role = |name: &str| match name {
            "cudaStreamSynchronize" => CallRole::Synchronizes,
            _ => CallRole::LaunchesKernel,
        };
        trace.correct_clock_lag(&role);
        (trace.clock_lag.0 / 1_000, trace.gpu_ops.get(0).unwrap().start.0 / 1_000)
    }

    #[test]
    fn ops_move_back_until_they_end_when_their_synchronisation_returns() {
        assert_eq!(corrected(steps(40, |_| 7)), (37, 11));
        assert_eq!(corrected(steps(200, |_| 7)), (197, 11));
        assert_eq!(corrected(steps(0, |_| 7)), (0, 8));
    }

    #[test]
    fn no_op_moves_before_its_launch() {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..5).launches("first", 6..7);
        for start in (1_000..11_000).step_by(1_000) {
            // The thread waits for another stream.
            trace
                .launch(start..start + 5)
                .launches("k", start + 40..start + 900)
                .call("cudaStreamSynchronize", start + 10..start + 50);
        }
        assert_eq!(corrected(trace.finish()), (6, 0));
    }

    #[test]
    fn work_on_several_streams_and_on_several_devices_proves_nothing() {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in (0..10_000).step_by(1_000) {
            for stream in [7, 8] {
                trace.stream(stream).launch(start..start + 1).launches("k", start + 100..start + 600);
            }
            trace.call("cudaStreamSynchronize", start + 10..start + 511);
        }
        assert_eq!(corrected(trace.finish()), (0, 100));
    }
}
