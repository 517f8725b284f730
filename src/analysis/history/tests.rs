//! Promises of the history: a shift is found where it is, noise alone is not, and the order of the files does not matter.

use super::*;
use crate::analysis::measure::percentiles;
use proptest::prelude::*;

const DAY_MS: i64 = 86_400_000;

fn point(day: i64, median_ns: i64) -> Point {
    Point { run: format!("r{day:03}"), date_unix_ms: Some(day * DAY_MS), median_ns, ..Point::default() }
}

fn known() -> Key {
    Key { model: Some("M".to_owned()), ..Key::default() }
}

fn points(times: &[i64]) -> Vec<(Key, Point)> {
    times.iter().zip(0..).map(|(time, day)| (known(), point(day, *time))).collect()
}

fn one(points: Vec<(Key, Point)>) -> Series {
    let mut all = series(points);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn outcomes(series: &Series) -> Vec<Outcome> {
    series.points.iter().map(|judged| judged.outcome).collect()
}

#[test]
fn the_thresholds_make_sense() {
    let Thresholds { samples, max_runs, sigmas_of_steps, min_relative_change, max_load_change, base_runs, recent_runs } =
        &*THRESHOLDS;
    assert!(*base_runs >= min_runs() && *recent_runs >= 3 && recent_runs <= base_runs);
    // A deviation of fewer than three runs says nothing. More runs tell it better.
    assert!((3..=*max_runs).contains(&min_runs()));
    for pair in samples.windows(2) {
        assert!(pair[0].runs < pair[1].runs && pair[0].sigmas > pair[1].sigmas, "{pair:?}");
        assert!(
            pair[0].outlier_sigmas >= pair[1].outlier_sigmas && pair[1].outlier_sigmas > pair[1].sigmas,
            "{pair:?}"
        );
    }
    assert!(samples.iter().all(|sample| sample.sigmas > *sigmas_of_steps) && *sigmas_of_steps >= 3.0);
    assert!((0.0..0.5).contains(min_relative_change) && (0.0..1.0).contains(max_load_change));
}

/// By hand: the median of 98, 99, 100, 101, 102 us is 100 us, and their variance (4 + 1 + 0 + 1 + 4) / 4 = 2.5 us^2. Half the width is
/// 8.61 * sqrt(2.5) * sqrt(1 + pi / 2 / 5) = 15.606 us.
#[test]
fn the_band_is_as_wide_as_the_runs_before_scatter() {
    let series = one(points(&[98_000, 102_000, 100_000, 101_000, 99_000, 115_605, 115_610]));
    let band = Band { low_ns: 84_394, middle_ns: 100_000, high_ns: 115_606, runs: 5 };
    assert_eq!(series.points[5].band, Some(band));
    assert_eq!(outcomes(&series)[5], Outcome::Within);
    assert!(series.points[4].band.is_none() && outcomes(&series)[4] == Outcome::TooFew);
}

/// Equal runs have no deviation: the band is 1 % wide on each side.
#[test]
fn a_band_has_a_least_width() {
    let newest = |time: i64| *outcomes(&one(points(&[[100_000; 5].as_slice(), &[time]].concat()))).last().unwrap();
    use Outcome::{Faster, Slower, Within};
    assert_eq!([101_000, 101_001, 99_000, 98_999].map(newest), [Within, Slower, Within, Faster]);
}

/// By hand: the steps of a run with p10 and p90 4 us apart deviate by 4 / 2.5631 us, and the median of 100 of them by
/// sqrt(pi / 2 / 100) of that, 0.1956 us. Half the width is 3.29 * 0.1956 * sqrt(1 + pi / 2 / 5) = 0.7377 us: equal runs do not make it
/// narrower. A run of four such steps has an error of 0.9779 us, and half the width is sqrt(0.7377^2 + 3.29^2 * (0.9779^2 - 0.1956^2)).
#[test]
fn the_band_is_at_least_as_wide_as_the_steps_of_the_runs_let_expect() {
    let of_steps = |steps| median_error_ns(18_000.0, 22_000.0, steps);
    assert_eq!(of_steps(100).map(f64::round), Some(196.0));
    let mut all = points(&[20_000; 7]);
    all.iter_mut().for_each(|(_, point)| point.error_ns = of_steps(100));
    all[6].1.error_ns = of_steps(4);
    let widths: Vec<i64> = one(all).points[5..].iter().map(|judged| judged.band.unwrap().high_ns - 20_000).collect();
    assert_eq!(widths[0], 738);
    assert!((3_200..3_260).contains(&widths[1]), "{widths:?}");
    assert_eq!((median_error_ns(1.0, 2.0, 1), median_error_ns(2.0, 1.0, 9)), (None, None));
}

#[test]
fn one_odd_run_among_the_first_ones_does_not_hide_a_change() {
    let series = one(points(&[150, 100, 101, 99, 100, 100, 110].map(|us| us * 1000)));
    assert_eq!(series.first_slower().unwrap().point.run, "r006");
}

/// The band of few runs is wide, but has the least width for equal ones.
#[test]
fn a_change_of_two_and_a_half_per_cent_of_equal_runs_is_found_both_ways() {
    let newest =
        |before: i64, after: i64| *outcomes(&one(points(&[[before; 6].as_slice(), &[after]].concat()))).last().unwrap();
    assert_eq!([newest(790_000, 810_000), newest(810_000, 790_000)], [Outcome::Slower, Outcome::Faster]);
}

#[test]
fn runs_of_an_unknown_model_are_not_judged() {
    let unknown = points(&[100, 100, 100, 100, 100, 100, 200]).into_iter().map(|(_, point)| (Key::default(), point));
    let series = one(unknown.collect());
    assert!(outcomes(&series).iter().all(|outcome| *outcome == Outcome::UnknownModel));
    assert!(series.first_slower().is_none());
}

#[test]
fn the_first_run_of_a_lasting_shift_is_named() {
    let series = one(points(&[100, 101, 99, 100, 100, 101, 150, 149, 151].map(|us| us * 1000)));
    assert_eq!(series.first_slower().unwrap().point.run, "r006");
    assert_eq!((series.outside().len(), series.came_back()), (3, 0));
}

#[test]
fn a_run_that_later_ones_came_back_from_is_counted_and_is_no_alarm() {
    let series = one(points(&[100, 100, 100, 100, 100, 150, 100, 100].map(|us| us * 1000)));
    assert!(series.first_slower().is_none());
    assert_eq!((series.count(Outcome::Slower), series.came_back()), (1, 1));
}

#[test]
fn faster_runs_become_the_level_and_a_return_to_the_old_one_is_slower() {
    let mut times = vec![100_000; 6];
    times.extend([80_000; 5]);
    times.push(100_000);
    let series = one(points(&times));
    assert_eq!(outcomes(&series)[6..11], [Outcome::Faster; 5]);
    assert_eq!(series.first_slower().unwrap().point.run, "r011");
}

#[test]
fn slower_runs_never_become_the_level() {
    let mut times = vec![100_000; 5];
    times.extend([120_000; 50]);
    let series = one(points(&times));
    assert_eq!(series.outside().len(), 50);
    assert_eq!(series.first_slower().unwrap().point.run, "r005");
}

#[test]
fn a_run_with_another_load_is_not_judged() {
    let mut all = points(&[100_000, 100_000, 100_000, 100_000, 100_000, 150_000, 100_000]);
    for (_, point) in &mut all {
        point.batch = Some(if point.median_ns > 100_000 { 16.0 } else { 8.0 });
    }
    let series = one(all);
    assert_eq!(outcomes(&series)[5..], [Outcome::OtherLoad, Outcome::Within]);
    // From then on all runs have the other load: after five of them, they are the level.
    let mut all = points(&[100_000, 100_000, 150_000, 150_000, 150_000, 150_000, 150_000, 200_000]);
    all.iter_mut().for_each(|(_, point)| point.tokens = Some(if point.median_ns > 100_000 { 4096.0 } else { 1024.0 }));
    assert_eq!(one(all).first_slower().unwrap().point.run, "r007");
}

#[test]
fn another_gpu_is_another_series() {
    let mut all = points(&[100_000, 100_000, 100_000, 100_000, 100_000, 200_000]);
    all[5].0.gpu = Some("other".to_owned());
    let found = series(all);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|series| series.first_slower().is_none()));
}

#[test]
fn a_run_without_a_date_is_not_judged() {
    let mut all = points(&[100_000, 100_000, 100_000, 100_000, 100_000, 200_000]);
    all[5].1.date_unix_ms = None;
    let series = one(all);
    assert_eq!(outcomes(&series)[0], Outcome::Undated);
    assert_eq!(series.count(Outcome::TooFew), 5);
}

/// Uniform and normal numbers from a fixed start.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// By the sum of twelve uniform numbers.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// A run of so many steps of about `step_ns`, which differ by 1 %.
    fn run(&mut self, day: i64, steps: usize, step_ns: f64) -> (Key, Point) {
        let mut times: Vec<i64> = (0..steps).map(|_| (step_ns * (1.0 + 0.01 * self.normal())) as i64).collect();
        times.sort_unstable();
        let [p10, p50, p90] = [10, 50, 90].map(|percent| percentiles::of_sorted(&times, percent).unwrap());
        let error_ns = median_error_ns(p10, p90, steps as i64);
        (known(), Point { error_ns, ..point(day, p50 as i64) })
    }
}

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// Of 400 series with 45 judged runs, one of 2,000 on the slower side is 9 alarms, and three deviations of such a count are 9.
#[test]
fn normal_noise_rarely_alarms() {
    let mut random = Random(SEED);
    for noise in [0.01, 0.03, 0.1] {
        let mut alarms = 0;
        for _ in 0..400 {
            let times: Vec<i64> = (0..50).map(|_| (1e7 * (1.0 + noise * random.normal())) as i64).collect();
            alarms += usize::from(one(points(&times)).points.iter().any(|judged| judged.outcome.is_slow()));
        }
        assert!(alarms <= 18, "{alarms} of 400 series with noise {noise}");
    }
}

/// The newest of 6 to 12 runs that differ by chance alone: of their steps, and by 0, 0.5 or 2 % as a whole.
#[test]
fn equal_runs_alarm_in_less_than_one_of_a_hundred_cases() {
    let mut random = Random(SEED);
    for (between, steps) in [(0.0, 4), (0.0, 40), (0.005, 40), (0.02, 10)] {
        let mut alarms = 0;
        for series in 0..1_000 {
            let runs = (0..6 + series % 7).map(|day| {
                let step_ns = 1e7 * (1.0 + between * random.normal());
                random.run(day, steps, step_ns)
            });
            alarms += usize::from(!one(runs.collect()).outside().is_empty());
        }
        assert!(alarms < 10, "{alarms} of 1,000 series of runs with {steps} steps that differ by {between}");
    }
}

#[test]
fn five_per_cent_more_after_six_runs_of_noisy_steps_begin_where_they_begin() {
    let mut random = Random(SEED);
    for _ in 0..300 {
        let runs = (0..9).map(|day| random.run(day, 40, if day < 6 { 1e7 } else { 1.05e7 }));
        let series = one(runs.collect());
        assert_eq!(series.first_slower().map(|first| first.point.run.as_str()), Some("r006"), "{series:?}");
        assert_eq!(series.outside().len(), 3);
    }
}

/// By hand: the median of the first ten runs is 100 us, their variance 20 / 9 us^2, and half the width of their band is
/// 4.78 * sqrt(20 / 9) * sqrt(1 + pi / 2 / 10) = 7.665 us. From then on each run takes 1 us more. The band of the runs before it widens
/// with them, and no run leaves it. The median of the newest five is above 107.665 us for the first time at 106, 107, 108, 109, 110 us.
/// Before that, the 17 runs up to 107 us grow by 3.42 deviations, and 107 us is above the noise around the beginning of their line, as a
/// program of a few lines computes it.
#[test]
fn a_slow_drift_is_found_although_no_run_leaves_its_band() {
    let base = [98_000, 102_000, 100_000, 101_000, 99_000];
    let mut times = [base, base].concat();
    times.extend((101..=120).map(|us| us * 1000));
    let series = one(points(&times));
    let first = series.first_slower().unwrap();
    let band = Band { low_ns: 90_516, middle_ns: 97_750, high_ns: 104_984, runs: 17 };
    assert_eq!((first.point.median_ns, first.outcome, first.band), (107_000, Outcome::Climbed, Some(band)));
    assert_eq!((series.count(Outcome::Slower), series.outside().len(), series.came_back()), (0, 14, 0));
    let drifted = series.points.iter().find(|judged| judged.outcome == Outcome::Drifted).unwrap();
    let band = Band { low_ns: 92_335, middle_ns: 100_000, high_ns: 107_665, runs: 10 };
    assert_eq!((drifted.point.median_ns, drifted.band), (110_000, Some(band)));
    // Runs that come back end the alarm.
    times.extend([100_000; 3]);
    let series = one(points(&times));
    assert!(series.first_slower().is_none() && series.came_back() > 0);
}

/// By hand: eight runs, each 1 % of the first slower. All 28 pairs grow: 28 / sqrt(8 * 7 * 21 / 18) = 3.46 deviations. Without their slope
/// all runs take 100 us, so the band is the least one: 1 % on each side. With seven runs it is 21 / sqrt(7 * 6 * 19 / 18) = 3.15.
#[test]
fn eight_runs_that_grow_steadily_are_slower_from_run_to_run() {
    let times: Vec<i64> = (100..108).map(|us| us * 1000).collect();
    let series = one(points(&times));
    let newest = series.newest().unwrap();
    let band = Band { low_ns: 99_000, middle_ns: 100_000, high_ns: 101_000, runs: 8 };
    assert_eq!((newest.outcome, newest.band), (Outcome::Climbed, Some(band)));
    assert!(one(points(&times[..7])).first_slower().is_none());
    // As many faster ones are no reason for an alarm.
    let falling: Vec<i64> = times.iter().rev().copied().collect();
    assert!(one(points(&falling)).first_slower().is_none());
}

#[test]
fn a_slow_drift_back_from_a_faster_time_is_found_too() {
    let mut times = vec![200_000; 10];
    times.extend((100..200).rev().map(|us| us * 1000));
    times.extend([100_000; 30]);
    assert!(one(points(&times)).first_slower().is_none());
    times.extend((100..150).map(|us| us * 1000));
    assert!(one(points(&times)).first_slower().is_some());
}

proptest! {
    /// Noise of 0.2 % and 0.3 % more each run. The first ten runs differ by at most 310 us, so they deviate by at most 164 us, and half
    /// their band is at most 4.78 * 1.08 * 164 us = 0.85 ms, up to 11.2 ms; the last five of 200 runs take at least 15.8 ms.
    #[test]
    fn a_drift_is_found_at_last(noise in prop::collection::vec(-20_000_i64..=20_000, 200)) {
        let times: Vec<i64> = noise.iter().zip(0..).map(|(noise, run)| 10_000_000 + run * 30_000 + noise).collect();
        prop_assert!(one(points(&times)).first_slower().is_some());
    }

    /// Noise below the least width never alarms: two runs differ by less than 1 % of the median.
    #[test]
    fn small_noise_never_alarms(times in prop::collection::vec(9_951_000_i64..=10_049_000, 0..80)) {
        let found = series(points(&times));
        let alarms = found.iter().flat_map(|series| &series.points).filter(|judged| {
            judged.outcome.is_slow() || judged.outcome == Outcome::Faster
        });
        prop_assert_eq!(alarms.count(), 0);
    }

    /// Runs within 1 % of 10 ms, then runs of 11.3 ms: five runs deviate by at most 1.1 %, so half a band is at most
    /// 8.61 * 1.146 * 1.1 % = 10.9 %, from at most 10.1 ms. More runs have narrower bands.
    #[test]
    fn a_large_shift_is_found_where_it_is(
        before in prop::collection::vec(9_900_000_i64..=10_100_000, 5..40),
        after in prop::collection::vec(11_300_000_i64..=11_600_000, 1..40),
    ) {
        let found = one(points(&[before.clone(), after.clone()].concat()));
        prop_assert_eq!(&found.first_slower().unwrap().point.run, &format!("r{:03}", before.len()));
        prop_assert_eq!(found.outside().len(), after.len());
    }

    #[test]
    fn the_order_of_the_points_does_not_matter(
        times in prop::collection::vec(1_i64..=20_000_000, 1..60), seed in any::<u64>(),
    ) {
        let mut all = points(&times);
        for (index, (key, point)) in all.iter_mut().enumerate() {
            key.stage = if index % 3 == 0 { "prefill" } else { "decode" }.to_owned();
            // Several runs have the same date.
            point.date_unix_ms = Some(index as i64 / 2);
        }
        let expected = series(all.clone());
        let (mut mixed, mut state) = (Vec::new(), seed);
        while !all.is_empty() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            mixed.push(all.swap_remove((state >> 33) as usize % all.len()));
        }
        prop_assert_eq!(series(mixed), expected);
    }

    #[test]
    fn no_number_panics(
        times in prop::collection::vec(any::<i64>(), 0..40), loads in prop::collection::vec(any::<f64>(), 40),
    ) {
        let mut all = points(&times);
        for ((_, point), load) in all.iter_mut().zip(loads) {
            (point.batch, point.tokens) = (Some(load), Some(-load));
        }
        for series in series(all) {
            let _ = (series.outside(), series.came_back());
        }
    }
}
