//! The history of step times: which run left the noise of the runs before it. From one point per run and stage; cost O(runs) per series,
//! because a band is computed from a bounded number of runs.
//!
//! Points of the same known model, GPU, framework and stage are a series, in the order of their dates. The band of a run ([`band`]) is
//! around the median of the runs before it, and as wide as these scatter. A run outside its band does not widen the band of later runs.
//! When several runs in succession are faster, or did other work, they are the new level; slower runs never are, so that a regression
//! does not become the norm.
//!
//! A slow drift widens the band of each run and leaves none. So the newest runs are also tested for a trend; if they grow, the band around
//! the beginning of their line ([`trend`]) tells whether the newest run has left it. And the median of the newest runs is compared with
//! the band of the first runs of the level. If it is above, the newest run is slower by drift.
//!
//! Thresholds are in `patterns/trend.json`.

use crate::analysis::measure::percentiles::median;
use crate::analysis::measure::trend::trend;
use crate::json::{self, embedded, from_json};
use band::Sample;
use std::collections::BTreeMap;
use std::sync::LazyLock;

mod band;

pub use band::{Band, median_error_ns};

#[derive(Debug)]
struct Thresholds {
    max_runs: usize,
    samples: Vec<Sample>,
    sigmas_of_steps: f64,
    min_relative_change: f64,
    base_runs: usize,
    recent_runs: usize,
    max_load_change: f64,
}
from_json!(Thresholds {
    max_runs,
    samples,
    sigmas_of_steps,
    min_relative_change,
    base_runs,
    recent_runs,
    max_load_change
});

static THRESHOLDS: LazyLock<Thresholds> =
    LazyLock::new(|| embedded(json::read(include_str!("../../patterns/trend.json"))));

/// The runs that a band needs before a run is judged.
pub fn min_runs() -> usize {
    THRESHOLDS.samples.first().map_or(usize::MAX, |smallest| smallest.runs)
}

/// The first runs of a level, and the newest runs whose median is compared with them.
pub fn runs_of_drift() -> (usize, usize) {
    (THRESHOLDS.base_runs, THRESHOLDS.recent_runs)
}

/// What runs have in common that are compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Key {
    /// The model, if it is known.
    pub model: Option<String>,
    /// The name of the GPU, if it is known.
    pub gpu: Option<String>,
    /// The number of GPUs in the trace.
    pub gpus: Option<i64>,
    /// The framework or serving engine, if it is known.
    pub framework: Option<String>,
    /// The stage of the steps.
    pub stage: String,
}

/// The steps of a run in one stage.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Point {
    /// The id of the run.
    pub run: String,
    /// Its label, the name of its file.
    pub label: String,
    /// When it was captured, in milliseconds since 1970.
    pub date_unix_ms: Option<i64>,
    /// The commit, from the tag of this name.
    pub commit: Option<String>,
    /// The version of the framework.
    pub version: Option<String>,
    /// The number of steps.
    pub steps: Option<i64>,
    /// The mean batch size of a step.
    pub batch: Option<f64>,
    /// The mean number of tokens of a step.
    pub tokens: Option<f64>,
    /// The median duration of a step, on the slowest rank.
    pub median_ns: i64,
    /// Its standard error, by the spread of the steps.
    pub error_ns: Option<f64>,
    /// The ranks of the capture that were read.
    pub ranks: usize,
    /// The median duration on the fastest rank, if there are several.
    pub fastest_ns: Option<i64>,
}

/// What a point is, compared with the points before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// There are too few runs before it.
    TooFew,
    /// It has no date, so its place is unknown.
    Undated,
    /// Its model is unknown, so the runs before it may have run anything.
    UnknownModel,
    /// Its batch or tokens differ from those of the runs before it.
    OtherLoad,
    /// It is within the band.
    Within,
    /// It is above the band.
    Slower,
    /// It is within the band, but the median of the newest runs is above the band of the first ones, which is the band of this point.
    Drifted,
    /// It is within the band, but the newest runs get slower from one to the next, and it is above the noise around the beginning of the
    /// line through them, which is the band of this point.
    Climbed,
    /// It is below the band.
    Faster,
}

impl Outcome {
    /// The word in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::TooFew => "too few runs",
            Self::Undated => "no date",
            Self::UnknownModel => "unknown model",
            Self::OtherLoad => "other load",
            Self::Within => "within noise",
            Self::Slower => "slower",
            Self::Drifted => "slower by drift",
            Self::Climbed => "slower from run to run",
            Self::Faster => "faster",
        }
    }

    fn is_judged(self) -> bool {
        matches!(self, Self::Within | Self::Faster) || self.is_slow()
    }

    /// Whether it is slower than the runs before it, at once or by drift.
    pub fn is_slow(self) -> bool {
        matches!(self, Self::Slower | Self::Drifted | Self::Climbed)
    }
}

/// A point and what was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The point.
    pub point: Point,
    /// The noise of the runs before it; `None` if it was not judged.
    pub band: Option<Band>,
    /// What it is.
    pub outcome: Outcome,
}

/// The points of a key, in the order of their dates; those without a date come first.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What its points have in common.
    pub key: Key,
    /// The points.
    pub points: Vec<Judged>,
}

impl Series {
    /// The newest run that was judged.
    pub fn newest(&self) -> Option<&Judged> {
        self.points.iter().rev().find(|judged| judged.outcome.is_judged())
    }

    /// The runs that are outside their bands now, oldest first: the newest judged run and those directly before it that are slower,
    /// or faster, too. Empty if the newest one is within its band.
    pub fn outside(&self) -> Vec<&Judged> {
        let judged = self.points.iter().rev().filter(|judged| judged.outcome.is_judged());
        let Some(outcome) = self.newest().map(|newest| newest.outcome).filter(|found| *found != Outcome::Within) else {
            return Vec::new();
        };
        let mut outside: Vec<&Judged> = judged
            .take_while(|judged| judged.outcome == outcome || judged.outcome.is_slow() && outcome.is_slow())
            .collect();
        outside.reverse();
        outside
    }

    /// The first run that was slower than its band, if the newest run still is.
    pub fn first_slower(&self) -> Option<&Judged> {
        self.outside().first().copied().filter(|judged| judged.outcome.is_slow())
    }

    /// The number of slower runs that later runs came back from.
    pub fn came_back(&self) -> usize {
        let slower = self.points.iter().filter(|judged| judged.outcome.is_slow()).count();
        let now = self.first_slower().map_or(0, |_| self.outside().len());
        slower - now
    }

    /// The number of points with this outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.points.iter().filter(|judged| judged.outcome == outcome).count()
    }
}

/// Judges all points. Their order does not matter: points of the same date are in the order of their ids.
pub fn series(points: Vec<(Key, Point)>) -> Vec<Series> {
    let mut by_key: BTreeMap<Key, Vec<Point>> = BTreeMap::new();
    for (key, point) in points {
        by_key.entry(key).or_default().push(point);
    }
    let judged = |(key, mut points): (Key, Vec<Point>)| {
        points.sort_by(|a, b| (a.date_unix_ms, &a.run).cmp(&(b.date_unix_ms, &b.run)));
        let is_known = key.model.is_some();
        Series { key, points: judge(points, is_known) }
    };
    by_key.into_iter().map(judged).collect()
}

/// Runs of unknown models are listed and not judged.
fn judge(points: Vec<Point>, is_model_known: bool) -> Vec<Judged> {
    let (mut level, mut judged) = (Level::default(), Vec::with_capacity(points.len()));
    for point in points {
        let (outcome, band) = match point.date_unix_ms {
            None => (Outcome::Undated, None),
            Some(_) if !is_model_known => (Outcome::UnknownModel, None),
            Some(_) => level.take(&point),
        };
        judged.push(Judged { point, band, outcome });
    }
    judged
}

/// The runs that later runs are compared with.
#[derive(Debug, Default)]
struct Level {
    runs: Vec<Measured>,
    /// The first of them that shows a drift.
    base_start: usize,
    /// Runs in succession that may become the next level, and what they have in common.
    next: Vec<Measured>,
    next_outcome: Option<Outcome>,
}

/// What is compared of a run.
#[derive(Debug, Clone, Copy)]
struct Measured {
    median_ns: i64,
    error_ns: Option<f64>,
    batch: Option<f64>,
    tokens: Option<f64>,
}

impl Level {
    fn take(&mut self, point: &Point) -> (Outcome, Option<Band>) {
        let Point { median_ns, error_ns, batch, tokens, .. } = *point;
        let run = Measured { median_ns, error_ns, batch, tokens };
        if self.is_other_load(&run) {
            self.may_be_next(run, Outcome::OtherLoad);
            return (Outcome::OtherLoad, None);
        }
        let band = band::band(self.newest(), error_ns);
        let outcome = match band {
            None => Outcome::TooFew,
            Some(band) if run.median_ns > band.high_ns => Outcome::Slower,
            Some(band) if run.median_ns < band.low_ns => Outcome::Faster,
            Some(_) => Outcome::Within,
        };
        match outcome {
            Outcome::Faster => self.may_be_next(run, outcome),
            Outcome::Slower => self.next.clear(),
            _ => {
                self.next.clear();
                self.runs.push(run);
                // A run that is no slower than the first ones ends a drift at once.
                if let Some(base) = self.drift().filter(|base| run.median_ns > base.high_ns) {
                    return (Outcome::Drifted, Some(base));
                }
                if let Some(begin) = self.climb().filter(|begin| run.median_ns > begin.high_ns) {
                    return (Outcome::Climbed, Some(begin));
                }
            }
        }
        (outcome, band)
    }

    /// The band of the first runs if the median of the newest ones is above it. If it is below, the newest ones are the first ones
    /// from now on.
    fn drift(&mut self) -> Option<Band> {
        let first = self.runs.get(self.base_start..)?;
        let (base, later) = first.split_at_checked(THRESHOLDS.base_runs)?;
        let recent = later.get(later.len().checked_sub(THRESHOLDS.recent_runs)?..)?;
        let mut recent: Vec<i64> = recent.iter().map(|run| run.median_ns).collect();
        recent.sort_unstable();
        let (now_ns, band) = (median(&recent)?, band::band(base, None)?);
        if now_ns < band.low_ns as f64 {
            self.base_start = self.runs.len() - recent.len();
        }
        (now_ns > band.high_ns as f64).then_some(band)
    }

    /// The band around the beginning of the line through the newest runs, if they grow by more than chance.
    fn climb(&self) -> Option<Band> {
        let runs = self.newest();
        let times: Vec<i64> = runs.iter().map(|run| run.median_ns).collect();
        let line = trend(&times).filter(|line| line.sigmas > THRESHOLDS.sigmas_of_steps)?;
        let slope_ns = (line.last - line.first) / (times.len() - 1) as f64;
        let at_begin = |(index, run): (usize, &Measured)| {
            let grown_ns = (slope_ns * index as f64).round() as i64;
            Measured { median_ns: run.median_ns.saturating_sub(grown_ns), ..*run }
        };
        band::band(&runs.iter().enumerate().map(at_begin).collect::<Vec<_>>(), None)
    }

    /// Enough runs in succession that are faster, or have another load, are the new level.
    fn may_be_next(&mut self, run: Measured, outcome: Outcome) {
        if self.next_outcome != Some(outcome) {
            self.next.clear();
        }
        self.next_outcome = Some(outcome);
        self.next.push(run);
        if self.next.len() >= min_runs() {
            self.runs = std::mem::take(&mut self.next);
            self.base_start = 0;
        }
    }

    fn newest(&self) -> &[Measured] {
        self.runs.get(self.runs.len().saturating_sub(THRESHOLDS.max_runs)..).unwrap_or_default()
    }

    fn is_other_load(&self, run: &Measured) -> bool {
        let differs = |of: fn(&Measured) -> Option<f64>| {
            let usual = middle(self.newest().iter().filter_map(of).collect())?;
            let ratio = of(run)? / usual;
            Some(ratio.is_finite() && (ratio - 1.0).abs() > THRESHOLDS.max_load_change)
        };
        differs(|run| run.batch).unwrap_or(false) || differs(|run| run.tokens).unwrap_or(false)
    }
}

/// The value in the middle, the upper one of two.
fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests;
