//! Hand-made starts.

use super::*;
use crate::session::find_unrecorded_work;
use crate::trace::testing::TestTrace;
use proptest::prelude::*;

fn starts(trace: &mut TestTrace) -> Vec<StartUp> {
    let mut trace = trace.finish();
    find_unrecorded_work(&mut trace);
    trace.start_ups.map_or_else(Vec::new, |starts| starts.processes.clone())
}

/// End of the start and time of the loads, in microseconds.
fn times(trace: &mut TestTrace) -> Vec<(i64, i64)> {
    starts(trace).iter().map(|start| (start.steady_from.0 / 1_000, start.load.0 / 1_000)).collect()
}

/// Adds short kernels every 100 us.
fn steady(trace: &mut TestTrace, from: i64, until: i64) {
    for start in (from..until).step_by(100) {
        trace.launch(start..start + 5).launches("steady", start + 10..start + 70);
    }
}

#[test]
fn a_start_ends_with_its_last_load_and_overlaps_count_once() {
    let mut trace = TestTrace::nsys();
    trace.in_us().call("cuInit", 0..300).call("cuLibraryLoadData", 1_000..9_000);
    trace.call("cuModuleLoadData", 12_000..14_000).launch(10_000..30_000).launches("a", 30_010..30_020);
    steady(&mut trace, 31_000, 90_000);
    let start = starts(&mut trace).remove(0);
    assert_eq!((start.steady_from, start.load), (Ns(30_000_000), Ns(1_000 * (300 + 8_000 + 20_000))));
    let largest = start.largest;
    let names: Vec<(&str, u64)> = largest.iter().map(|sum| (sum.name.as_str(), sum.count)).collect();
    assert_eq!(names, [("cudaLaunchKernel", 1), ("cuLibraryLoadData", 1), ("cuModuleLoadData", 1), ("cuInit", 1)]);
}

#[test]
fn a_load_in_a_running_process_starts_nothing() {
    let mut trace = TestTrace::new();
    trace.in_us();
    steady(&mut trace, 0, 10_000);
    trace.call("cuLibraryLoadData", 10_000..30_000).launch(30_000..60_000).launches("new", 60_010..60_020);
    assert_eq!(times(&mut trace), []);
}

/// `at` is the start of a kernel whose launch the trace does not contain.
#[test]
fn a_process_with_kernels_before_its_first_launch_returns_has_started_earlier() {
    let start = |at: i64| {
        let mut trace = TestTrace::new();
        trace.in_us().kernel("old", at..at + 10);
        trace.call("cuLibraryLoadData", 150..15_000).launch(100..20_000).launches("a", 20_010..20_020);
        steady(&mut trace, 30_000, 40_000);
        times(&mut trace)
    };
    assert_eq!([start(0), start(19_000)], [[], []]);
    assert_eq!(start(25_000).len(), 1);
}

#[test]
fn a_first_launch_that_waited_for_earlier_work_is_no_start() {
    let start = |op: i64| {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..20_000).launches("a", op..op + 10);
        steady(&mut trace, 30_000, 40_000);
        times(&mut trace)
    };
    assert_eq!((start(21_000), start(21_001)), (vec![(20_000, 20_000)], Vec::new()));
}

#[test]
fn a_graph_that_is_instantiated_shows_no_start() {
    let mut trace = TestTrace::new();
    trace.in_us().call("cudaGraphInstantiate", 0..5_000);
    steady(&mut trace, 5_000, 6_000);
    assert_eq!(times(&mut trace), []);
}

#[test]
fn loads_of_a_later_time_belong_to_the_start_only_if_they_are_dense() {
    let end = |pause: i64| {
        let mut trace = TestTrace::new();
        trace.in_us().call("cuModuleLoadData", 0..1_000);
        steady(&mut trace, 1_000, 1_000 + pause);
        trace.call("cuModuleLoadData", 1_000 + pause..2_000 + pause);
        times(&mut trace)[0].0
    };
    // The second load of 1 ms outweighs a tenth of its end minus that of the first.
    assert_eq!((end(8_000), end(10_000)), (10_000, 1_000));
}

#[test]
fn a_preparation_without_loads_does_not_outweigh_them() {
    let mut trace = TestTrace::nsys();
    trace.in_us().call("cuInit", 0..5).call("cudaMalloc", 4_000_000..4_000_010);
    trace.launch(4_100_000..4_120_000).launches("a", 4_120_010..4_120_020);
    steady(&mut trace, 4_121_000, 4_200_000);
    assert_eq!(times(&mut trace), [(4_120_000, 20_005)]);
}

#[test]
fn a_range_that_warms_up_is_part_of_the_start() {
    let mut trace = TestTrace::new();
    trace.in_us().range("warmup", 0..5_000);
    steady(&mut trace, 100, 50_000);
    assert_eq!(times(&mut trace), [(5_000, 5_000)]);
}

#[test]
fn processes_start_on_their_own() {
    let mut trace = TestTrace::new();
    trace.in_us().call("cuInit", 0..3_000).launch(3_000..3_005).launches("a", 3_010..3_020);
    trace.process(2).launch(3_000..3_005).launches("a", 3_010..3_020);
    assert_eq!(times(&mut trace), [(3_000, 3_000)]);
}

proptest! {
    /// One load moves or grows by 1 us: the best sum of loads minus time changes by at most 1 us for each end that
    /// moved.
    #[test]
    fn the_maximum_is_continuous(
        gaps in prop::collection::vec((0_i64..5_000, 1_i64..5_000), 1..12),
        moved in 0_usize..12,
        first_launch in 0_i64..20_000,
    ) {
        let mut at = 0;
        let mut loads: Vec<(Ns, Ns)> = gaps
            .iter()
            .map(|(gap, length)| {
                let start = at + gap + 1;
                at = start + length;
                (Ns(start), Ns(at))
            })
            .collect();
        loads[0].0 = Ns(0);
        let end = Ns(first_launch.max(loads[0].1.0 + 2));
        let before = best(&loads, end);
        let index = moved % loads.len();
        loads[index].1 = loads[index].1 - Ns(1);
        let after = best(&loads, end);
        prop_assert!((before - after).abs() <= 110, "{before} {after}");
    }

    /// The sweep finds the best of all pairs of loads.
    #[test]
    fn the_change_point_is_the_best_of_all(
        gaps in prop::collection::vec((1_i64..500, 1_i64..50), 1..12), first_launch in 1_i64..1_000,
    ) {
        let mut at = 0;
        let loads: Vec<(Ns, Ns)> = gaps
            .iter()
            .map(|(gap, length)| {
                let start = at + gap;
                at = start + length;
                (Ns(start), Ns(at))
            })
            .collect();
        let found = change_point(&loads, Ns(first_launch), 10);
        let value = found.map(|end| value_at(&loads, Ns(first_launch), end));
        let is_seen = loads.first().is_some_and(|load| load.0.0 < first_launch);
        prop_assert_eq!(value, is_seen.then(|| best(&loads, Ns(first_launch))));
    }
}

/// The largest sum that ends with the load that ends at a time.
fn value_at(loads: &[(Ns, Ns)], first_launch_end: Ns, end: Ns) -> i128 {
    let last = loads.iter().position(|load| load.1 == end).unwrap();
    let sums = (0..=last).filter(|first| loads[*first].0 < first_launch_end).map(|first| {
        let load: i128 = loads[first..=last].iter().map(|load| i128::from(load.1.since(load.0).0)).sum();
        100 * load - 10 * i128::from(end.since(loads[first].0).0)
    });
    sums.max().unwrap()
}

fn best(loads: &[(Ns, Ns)], first_launch_end: Ns) -> i128 {
    loads.iter().map(|load| value_at(loads, first_launch_end, load.1)).max().unwrap()
}
