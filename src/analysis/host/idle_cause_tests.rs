use super::*;
use crate::analysis::context::Context;
use crate::analysis::host::idle;
use crate::analysis::testing::*;
use crate::trace::Trace;
use crate::trace::testing::TestTrace;

/// The gaps in time order with their causes, as `us cause`.
fn gaps(trace: &mut TestTrace) -> Vec<String> {
    gaps_of(&trace.finish())
}

fn gaps_of(trace: &Trace) -> Vec<String> {
    let mut gaps = Vec::new();
    each_gap(&ClassifiedTrace::new(trace), &mut |gap, parts| {
        let parts = parts.0.into_iter().filter(|part| part.1 > Ns::ZERO);
        let parts: Vec<String> =
            parts.map(|(cause, length)| format!("{} {}", length.0 / 1_000, cause.word())).collect();
        gaps.push(format!("{}: {}", gap.start.0 / 1_000, parts.join(", ")));
    });
    gaps
}

#[test]
fn a_launch_after_the_gap_began_is_host_late_and_one_before_is_not() {
    let mut trace = TestTrace::new();
    trace.in_us().launch(0..2).launches("k", 10..20);
    trace.launch(25..28).launches("k", 30..40); // launched in the gap
    trace.launch(38..45).launches("k", 48..60); // the launch call runs when the gap begins
    trace.launch(50..55).launches("k", 62..70); // launched in time, 2 us
    trace.launch(56..57).launches("k", 75..80); // launched in time, 5 us
    trace.kernel("k", 90..100); // no launch recorded
    let expected = [
        "20: 8 host_late, 2 host_late",
        "40: 5 host_late, 3 host_late",
        "60: 2 turnaround",
        "70: 5 other_stream",
        "80: 10 unknown",
    ];
    assert_eq!(gaps(&mut trace), expected);
}

/// The share of idle time that counts as late falls with the time by which ops precede their launch, and never jumps.
#[test]
fn late_launches_are_proven_only_as_far_as_the_clocks_prove_them() {
    let causes = |lead: i64| {
        let mut trace = TestTrace::new();
        // The first op precedes its launch by `lead`. The second is launched 100 us after the device is idle.
        trace.launch(1_000_000..1_002_000).launches("k", 1_000_000 - lead..1_500_000);
        trace.launch(1_598_000..1_600_000).launches("k", 1_602_000..1_700_000);
        gaps(&mut trace)
    };
    assert_eq!(causes(0), ["1500: 100 host_late, 2 host_late"]);
    assert_eq!(causes(1_000), causes(0), "rounding of times");
    assert_eq!(causes(11_000), ["1500: 80 host_late, 1 host_late, 20 unknown"]);
    assert_eq!(causes(26_000), ["1500: 50 host_late, 1 host_late, 51 unknown"]);
    assert_eq!(causes(51_000), ["1500: 102 unknown"]);
    assert_eq!(causes(900_000), causes(51_000));
    let in_time = |lead: i64| {
        let mut trace = TestTrace::new();
        trace.in_us().launch(1_000..1_002).launches("k", 1_000 - lead..1_500);
        gaps(trace.launch(1_400..1_402).launches("k", 1_520..1_600))
    };
    assert_eq!(in_time(500), in_time(0), "a launch that was early stays early");
}

#[test]
fn gaps_within_a_graph_replay_are_turnaround_and_its_edges_may_last_ten_microseconds() {
    let mut trace = TestTrace::new();
    trace.in_us().launch(0..1).launches("k", 10..20);
    trace.call("cudaGraphLaunch", 2..4).launches("node", 29..40).launches("node", 90..100).launches("node", 101..110);
    trace.launch(5..6).launches("k", 119..130);
    trace.launch(7..8).launches("k", 139..150); // 9 us between eager kernels
    let expected =
        ["20: 9 turnaround", "40: 50 turnaround", "100: 1 turnaround", "110: 9 turnaround", "130: 9 other_stream"];
    assert_eq!(gaps(&mut trace), expected);
}

/// A kernel of a thread on one GPU, and one on another that starts right after it. The thread waits for both before it launches the next two.
#[test]
fn a_gpu_that_waits_for_another_one_of_its_process_is_not_late() {
    let mut trace = TestTrace::new();
    trace.in_us().device(0).launch(0..2).launches("k", 5..100);
    trace.device(1).launch(10..12).launches("k", 102..200).call("cudaStreamSynchronize", 20..203);
    trace.device(0).launch(220..222).launches("k", 225..300);
    trace.device(1).launch(230..232).launches("k", 302..400);
    // GPU 0 idles while the call waits for GPU 1, and then for the host. GPU 1 is launched 32 us after it is idle, and has to wait for GPU 0
    // longer than that.
    let expected = ["100: 98 other_gpu, 24 drained, 3 drained", "200: 25 drained, 75 other_gpu, 2 drained"];
    assert_eq!(gaps(&mut trace), expected);
    let mut of_another_process = TestTrace::new();
    of_another_process.in_us().process(1).device(0).launch(0..2).launches("k", 5..100);
    of_another_process.call("cudaStreamSynchronize", 20..203).launch(220..222).launches("k", 225..300);
    of_another_process.process(2).device(1).kernel("k", 102..200);
    assert_eq!(gaps(&mut of_another_process), ["100: 122 drained, 3 drained"]);
}

/// As Nsight Systems records graphs by default.
#[test]
fn a_gap_before_a_graph_that_was_traced_as_a_whole_has_the_cause_of_its_launch() {
    let mut trace = TestTrace::nsys();
    trace.in_us().call("cudaGraphLaunch_v10000", 0..5).launches_replay(10..100);
    trace.call("cudaGraphLaunch_v10000", 20..25).launches_replay(109..200); // launched in time, 9 us
    trace.call("cudaGraphLaunch_v10000", 210..215).launches_replay(220..300); // launched in the gap
    trace
        .call("cudaStreamSynchronize_v3020", 216..301)
        .call("cudaGraphLaunch_v10000", 320..325)
        .launches_replay(330..400);
    trace.replay(450..500); // no launch recorded
    let expected =
        ["100: 9 turnaround", "200: 15 host_late, 5 host_late", "300: 25 drained, 5 drained", "400: 50 unknown"];
    assert_eq!(gaps(&mut trace), expected);
}

#[test]
fn idle_time_after_a_call_that_waited_for_the_device_is_drained() {
    let drained = |sync: std::ops::Range<i64>, thread: i64| {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..1).launches("k", 10..20).thread(thread).call("cudaStreamSynchronize", sync);
        gaps(trace.thread(1).launch(50..52).launches("k", 60..70))
    };
    // The clocks of host and device differ by a few microseconds.
    for end in [21, 19, 15] {
        assert_eq!(drained(5..end, 1), ["20: 32 drained, 8 drained"], "{end}");
    }
    // The call began after the device was empty, returned before, belongs to another thread, or still runs at the launch.
    for (sync, thread) in [(22..23, 1), (5..14, 1), (5..21, 2), (5..51, 1)] {
        assert_eq!(drained(sync.clone(), thread), ["20: 32 host_late, 8 host_late"], "{sync:?} {thread}");
    }
}

#[test]
fn an_asynchronous_copy_that_returned_after_its_op_drains_the_device() {
    let copied = |call: std::ops::Range<i64>, name: &str| {
        let mut trace = TestTrace::new();
        trace.in_us().call("cudaMemcpyAsync", call).launches(name, 10..20);
        gaps(trace.launch(50..52).launches("k", 60..70))
    };
    assert_eq!(copied(5..22, "Memcpy DtoH (Device -> Pageable)"), ["20: 32 drained, 8 drained"]);
    assert_eq!(copied(5..7, "Memcpy DtoH (Device -> Pageable)"), ["20: 32 host_late, 8 host_late"]);
    // Copies of other memory return at once; a slow call is not a wait.
    for name in ["Memcpy DtoH (Device -> Pinned)", "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoD (Device -> Device)"] {
        assert_eq!(copied(5..22, name), ["20: 32 host_late, 8 host_late"], "{name}");
    }
}

#[test]
fn a_hip_call_may_return_shortly_before_the_op_for_which_it_waited_ends() {
    let synchronized = |call: &str, launch: i64, wait: std::ops::Range<i64>| {
        let mut trace = TestTrace::new();
        trace.in_us().call("hipLaunchKernel", launch..launch + 1).launches("k", 20..100).call(call, wait);
        gaps(trace.call("hipLaunchKernel", 130..132).launches("k", 140..150))
    };
    assert_eq!(synchronized("hipDeviceSynchronize", 0, 5..92), ["100: 32 drained, 8 drained"]);
    // It returned too early, it is not a HIP call, or the op was launched after it.
    for (call, launch, wait) in
        [("hipDeviceSynchronize", 0, 5..84), ("cudaDeviceSynchronize", 0, 5..92), ("hipDeviceSynchronize", 10, 5..92)]
    {
        assert_eq!(synchronized(call, launch, wait.clone()), ["100: 32 host_late, 8 host_late"], "{call} {wait:?}");
    }
}

#[test]
fn a_refill_ends_with_a_launch_call_that_takes_a_millisecond_itself() {
    let launched = |call: &str, duration: i64| {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..1).launches("k", 10..200).call("cudaDeviceSynchronize", 5..201);
        trace.launch(210..212).launches("k", 220..230);
        trace.call(call, 240..240 + duration).launches("k", 241 + duration..2_000);
        gaps(trace.launch(2_010..2_010).launches("k", 2_010..2_020))
    };
    let expected = ["200: 12 drained, 8 drained", "230: 1010 drained, 1 drained", "2000: 10 drained"];
    assert_eq!(launched("cudaLaunchKernel", 1_000), expected);
    let expected = ["200: 12 drained, 8 drained", "230: 1011 host_late, 1 host_late", "2000: 10 host_late"];
    assert_eq!(launched("cudaLaunchKernel", 1_001), expected);
    // The launch of a large graph.
    let expected = ["200: 12 drained, 8 drained", "230: 1011 drained, 1 drained", "2000: 10 drained"];
    assert_eq!(launched("cudaGraphLaunch", 1_001), expected);
}

/// Every launch is late and follows a synchronization that waited for the op before.
#[test]
fn drained_time_of_a_host_that_was_never_ahead_is_host_late() {
    let times = |wait: i64| {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in (0..20).map(|index| index * 1_000) {
            trace.launch(start..start).launches("k", start..start + 100);
            trace.call("cudaStreamSynchronize", start + 100 - wait..start + 101);
        }
        let trace = trace.finish();
        let context = Context::new(&trace, 30);
        let idle = context.survey().idle[0].clone();
        let cause = rows_of(&idle::gpu_idle_gaps(&context).section(), &["cause"]).remove(0);
        (cause, idle.times.map(|time| time.0 / 1_000)[1..3].to_vec(), idle.drained_by.len())
    };
    assert_eq!(times(48), ("host_late".to_owned(), vec![19 * 900, 0], 0));
    assert_eq!(times(50), ("drained".to_owned(), vec![0, 19 * 900], 1));
}

/// Late launches after a drain belong to it until an op is launched in time.
#[test]
fn a_refill_ends_with_the_first_op_that_was_launched_in_time() {
    let mut trace = TestTrace::new();
    trace.in_us().launch(0..1).launches("k", 10..20).call("cudaDeviceSynchronize", 5..21);
    trace.launch(30..30).launches("k", 30..40);
    trace.launch(50..50).launches("k", 50..80);
    trace.launch(60..60).launches("k", 80..90);
    trace.launch(100..100).launches("k", 100..110);
    assert_eq!(gaps(&mut trace), ["20: 10 drained", "40: 10 drained", "90: 10 host_late"]);
}

#[test]
fn a_refill_ends_after_200_launches() {
    let mut trace = TestTrace::new();
    trace.in_us().launch(0..1).launches("k", 10..20).call("cudaDeviceSynchronize", 5..21);
    for launch in 0..250 {
        let start = 30 + 20 * launch;
        trace.launch(start..start).launches("k", start..start + 10);
    }
    let gaps = gaps(&mut trace);
    assert_eq!(gaps.iter().filter(|gap| gap.ends_with("drained")).count(), 201, "the first one and 200 more");
    // One gap before each of the 250 launches.
    assert_eq!(gaps.len(), 250);
    assert!(gaps[201..].iter().all(|gap| gap.ends_with("host_late")));
}

#[test]
fn an_op_that_waits_a_millisecond_on_an_idle_device_proves_unseen_work() {
    let waited = |launch: &str, start: i64, other_device: Option<i64>| {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..1).launches("k", 10..20).call(launch, 30..35).launches("k", start..start + 10);
        if let Some(start) = other_device {
            trace.device(1).launch(30..31).launches("k", start..start + 1_000);
        }
        gaps(&mut trace)
    };
    assert_eq!(waited("cudaLaunchKernel", 1_036, None), ["20: 15 host_late, 1001 unseen"]);
    assert_eq!(waited("cudaLaunchKernel", 1_035, None), ["20: 15 host_late, 1000 host_late"]);
    // A graph may be uploaded first, and the op may have waited for an op of another device.
    assert_eq!(waited("cudaGraphLaunch", 1_036, None), ["20: 15 host_late, 1001 other_stream"]);
    assert_eq!(waited("cudaLaunchKernel", 1_036, Some(36)), ["20: 15 host_late, 1001 other_stream"]);
    // The other device finished before.
    assert_eq!(waited("cudaLaunchKernel", 2_036, Some(-1_000)), ["20: 15 host_late, 2001 unseen"]);
}

/// The same for a trace whose unrecorded work was looked up, as when a file is read.
fn gaps_of_a_file(trace: &mut TestTrace) -> Vec<String> {
    gaps_of(&read(trace))
}

fn read(trace: &mut TestTrace) -> Trace {
    let mut trace = trace.finish();
    crate::session::find_unrecorded_work(&mut trace);
    trace
}

#[test]
fn an_op_that_waits_after_another_of_its_stream_was_not_held_back_by_work_from_before() {
    let waited = |stream: i64| {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..2).launches("k", 10..20).stream(stream).launch(33..35);
        gaps_of_a_file(trace.launches("k", 2_036..2_050))
    };
    assert_eq!(waited(8), ["20: 15 host_late, 2001 unseen"]);
    assert_eq!(waited(7), ["20: 15 host_late, 2001 unknown"]);
}

#[test]
fn the_time_in_which_a_call_outlasts_the_ops_is_unseen_and_the_rest_of_the_gap_drained() {
    let mut trace = TestTrace::new();
    trace.in_us().launch(0..2).launches("k", 10..100).call("cudaStreamSynchronize", 20..2_000);
    trace.launch(2_100..2_102).launches("k", 2_110..2_200);
    let trace = read(&mut trace);
    assert_eq!(gaps_of(&trace), ["100: 1900 unseen, 102 drained, 8 drained"]);
    let context = Context::new(&trace, 30);
    let idle = &context.survey().idle[0];
    assert_eq!((idle.unseen.clone(), idle.of_before.clone()), (vec![(Ns(100_000), Ns(2_000_000))], vec![]));
}

#[test]
fn a_gap_after_a_lost_launch_is_unseen_from_the_launch_on() {
    let mut trace = TestTrace::new();
    trace.in_us().launch(0..2).launches("k", 10..20).launch(50..52).launch(60..62).launches("k", 100..110);
    assert_eq!(gaps_of_a_file(&mut trace), ["20: 30 host_late, 50 unseen"]);
}

#[test]
fn gaps_of_a_few_nanoseconds_are_rounding() {
    let mut trace = TestTrace::new();
    trace.kernel("k", 0..100).kernel("k", 109..200).kernel("k", 210..300);
    let context = trace.finish();
    let context = Context::new(&context, 30);
    assert_eq!(rows_of(&idle::gpu_idle_gaps(&context).section(), &["cause"]), ["unknown", "turnaround"]);
}

/// Idle time of shared traces in nanoseconds, in the order of [`IdleCause::ALL`]. They agree with an independent program
/// (`spec/inference.md`, section 5) except where noted.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn idle_times_of_shared_traces_match_an_independent_program() {
    for (file, expected) in [
        ("sglang_qwen3_30b_b300_decode", [3_712, 2_109_487, 0, 6_624, 0, 0, 0, 0, 0, 0, 0]),
        ("sglang_qwen3_30b_mi300_decode", [218_445, 1_509_693, 0, 11_241, 0, 0, 0, 0, 0, 0, 0]),
        ("vllm_mi300_decode_full_graph", [430, 0, 0, 25_043, 0, 0, 0, 0, 0, 0, 0]),
        // Drained and host late agree in their sum. A launch call that runs when a gap of a refill begins belongs to the
        // refill here.
        ("hf_qwen1.5_0.5b_h100", [1_732_580, 331_904, 1_213_405, 0, 0, 727_643, 0, 0, 0, 0, 0]),
        // Here a copy whose call still runs when the copy starts was launched in time: 37 us of host late there. The host
        // is never ahead, so 1.88 ms after two pageable copies of 16 bytes are host late.
        ("vllm_b200_eager_prefill", [119_262, 72_715_436, 0, 55_998, 0, 0, 0, 0, 0, 0, 0]),
        // There `hipMemcpyWithStream` is no blocking call, and unseen work counts as host late.
        ("sglang_qwen3_8b_mi300_decode", [282_972, 43_647, 398_640, 0, 463_251_758, 0, 0, 0, 0, 0, 0]),
        ("sglang_qwen3_8b_mi300_extend", [514, 44_608, 1_197_767, 0, 493_239_121, 0, 0, 0, 0, 0, 0]),
    ] {
        let trace = torch(&format!("{file}.trace.json.gz"));
        let context = Context::new(&trace, 30);
        let [idle] = context.survey().idle.as_slice() else { panic!("{file}: several devices") };
        assert_eq!(idle.times.map(|time| time.0), expected, "{file}");
        assert_late_intervals(idle, &trace);
    }
}

/// No gap is as long.
const LONG: Ns = Ns(i64::MAX);

/// The intervals in which the host was late have the lengths of the sums by cause and by call.
fn assert_late_intervals(idle: &IdleTimes, trace: &Trace) {
    let known = |sites: Vec<(DrainKey, Drained)>| {
        sites
            .into_iter()
            .filter(|(_, drained)| drained.idle() > Ns::ZERO)
            .map(|(site, drained)| (site, drained.direct, drained.refill))
            .collect::<Vec<_>>()
    };
    let span = trace.span().unwrap();
    let middle = Ns(span.start.0.midpoint(span.end.0));
    let (whole, halves) = (
        idle.late_between(span.start, span.end, LONG),
        [(span.start, middle), (middle, span.end)].map(|(from, to)| idle.late_between(from, to, LONG)),
    );
    assert_eq!(whole.0.total, idle.times[IdleCause::HostLate as usize]);
    assert_eq!(known(whole.1.clone()), known(idle.drained_by.clone()));
    let sum = |late: &(Gaps, Vec<(DrainKey, Drained)>)| {
        late.1.iter().fold(late.0.total, |sum, (_, drained)| sum + drained.idle())
    };
    assert_eq!(sum(&halves[0]) + sum(&halves[1]), sum(&whole));
}

#[test]
fn late_intervals_of_a_refill_belong_to_the_call_before_it() {
    let mut trace = TestTrace::new();
    trace.in_us().launch(0..1).launches("k", 10..20).call("cudaStreamSynchronize", 5..21);
    // Three late launches after the drain, one in time, and a late one without a drain.
    for start in [60, 80, 100] {
        trace.launch(start - 5..start - 3).launches("k", start..start + 10);
    }
    trace.launch(101..102).launches("k", 112..120).launch(140..142).launches("k", 150..160);
    let trace = trace.finish();
    let context = Context::new(&trace, 30);
    let idle = &context.survey().idle[0];
    assert_late_intervals(idle, &trace);
    let (late, drained) = idle.late_between(Ns(0), Ns(125_000), LONG);
    // The GPU ran empty at 20 us, in a call of 16 us: 40 us to the next op, and 10 us in each of two gaps after it.
    let direct = Drained { direct: Ns(40_000), refill: Ns(20_000), explained: Ns(16_000), blocked: Ns(16_000) };
    assert_eq!((late.total.0, drained.iter().map(|(_, drained)| *drained).collect::<Vec<_>>()), (5_000, vec![direct]));
}

/// A program loads a library for 2 ms and then launches slowly; both are in the gap before its second kernel.
#[test]
fn only_the_loads_of_the_launching_thread_are_told_from_a_late_launch() {
    let times = |thread: i64| {
        let mut trace = TestTrace::new();
        trace.in_us().call("cuInit", 0..5).launch(10..15).launches("a", 20..100);
        trace.thread(thread).call("cuLibraryLoadData", 1_000..3_000).thread(1);
        trace.launch(4_000..8_000).launches("b", 8_010..8_100);
        let mut trace = trace.finish();
        crate::session::find_unrecorded_work(&mut trace);
        let context = Context::new(&trace, 30);
        let idle = &context.survey().idle[0];
        let [late, start_up] =
            [IdleCause::HostLate, IdleCause::StartUp].map(|cause| idle.times[cause as usize].0 / 1_000);
        assert_eq!(idle.late, [(Ns(100_000), Ns(100_000 + 1_000 * late))]);
        (late, start_up)
    };
    // The gap is from 100 us to 8,010 us.
    assert_eq!((times(1), times(2)), ((7_910 - 6_000, 6_000), (7_910 - 4_000, 4_000)));
}

/// The GPU idles for 910 us, in 700 us of which the profiler holds the thread that launches the next kernel.
#[test]
fn a_pause_of_the_profiler_is_told_from_a_late_launch() {
    let mut trace = TestTrace::new();
    trace.in_us().launch(0..5).launches("a", 10..100).launch(1_000..1_005).launches("b", 1_010..1_100);
    let mut trace = trace.finish();
    trace.profiler_overheads = vec![(Ns(200_000), Ns(900_000))];
    crate::session::look_up_code(&mut trace);
    let context = Context::new(&trace, 30);
    let idle = &context.survey().idle[0];
    let times = [IdleCause::HostLate, IdleCause::Profiler].map(|cause| idle.times[cause as usize].0 / 1_000);
    assert_eq!(times, [210, 700]);
}

proptest::proptest! {
    /// No end of a load or launch makes a time jump when it moves by a microsecond.
    #[test]
    fn idle_times_of_a_start_are_continuous(
        load in 100_i64..900, launch in 1_500_i64..1_600, slow in 1_i64..3_000, moved in 0_usize..3,
    ) {
        let times = |load: i64, launch: i64, slow: i64| {
            let mut trace = TestTrace::new();
            trace.in_us().call("cuInit", 0..5).launch(10..15).launches("a", 20..100);
            trace.call("cuModuleLoadData", 50..50 + load);
            trace.launch(launch..launch + slow).launches("b", 10_000..10_010);
            let mut trace = trace.finish();
            crate::session::find_unrecorded_work(&mut trace);
            let context = Context::new(&trace, 30);
            context.survey().idle[0].times.map(|time| time.0)
        };
        let by = |index: usize| i64::from(moved == index);
        let (before, after) = (times(load, launch, slow), times(load + by(0), launch + by(1), slow + by(2)));
        proptest::prop_assert_eq!(before.iter().sum::<i64>(), after.iter().sum::<i64>());
        // A slow launch counts twice beyond 1 ms.
        proptest::prop_assert!(before.iter().zip(after).all(|(a, b)| (a - b).abs() <= 3_000), "{before:?} {after:?}");
    }
}
