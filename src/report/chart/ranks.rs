//! Bars of ranks: where the window of a job went on each of its ranks, every bar as long as the window.

use super::{Bar, Chart, Segment, stacked_bars};
use crate::analysis::ranks::{Job, Rank};
use crate::ordering::InOrder;
use crate::report::format::{duration, percent};

/// The parts of a bar, as the legend names them, in the order in which they stand.
pub const PARTS: [&str; 8] = [
    "compute",
    "compute beside communication",
    "copies and graphs",
    "transfer",
    "waiting for a rank",
    "unmatched communication",
    "idle",
    "outside its window",
];

/// The lengths of the [`PARTS`] of one rank; they add up to the window of its job.
pub fn rank_parts(rank: &Rank) -> [i64; PARTS.len()] {
    let parts = &rank.parts;
    [
        parts.compute_ns,
        parts.hidden_ns,
        parts.other_ns,
        parts.transfer_ns,
        parts.wait_ns,
        parts.unmatched_ns,
        parts.idle_ns,
        parts.outside_ns,
    ]
}

/// A bar a rank, of every job, on one time axis.
///
/// Parts in `hidden` are left out and the rest moves up. `width` is in pixels, at least 240.
pub fn rank_bars(jobs: &[Job], hidden: &[&str], width: u32) -> Chart {
    let several = jobs.len() > 1;
    let bar = |job: &Job, rank: &Rank| {
        let segments = PARTS.iter().zip(rank_parts(rank)).map(|(part, ns)| Segment {
            category: (*part).to_owned(),
            elapsed_ns: ns,
            share: ns as f64 / job.window_ns.max(1) as f64,
        });
        let note =
            if rank.is_straggler { format!("others wait {}", duration(rank.waited_for_ns)) } else { String::new() };
        let label = if several { format!("{}: {}", job.title, rank.label) } else { rank.label.clone() };
        Bar { label, segments: segments.collect(), note }
    };
    let bars: Vec<Bar> = jobs.iter().flat_map(|job| job.ranks.iter().map(move |rank| bar(job, rank))).collect();
    let summaries: Vec<String> = jobs.iter().map(summary).collect();
    Chart { summary: summaries.join(" "), ..stacked_bars(&bars, &PARTS, hidden, width) }
}

/// Who computes most and who waits most: more than eight bars in words is no help.
fn summary(job: &Job) -> String {
    const NAMED: usize = 4;
    let share = |ns: i64| percent(ns as f64 / job.window_ns.max(1) as f64);
    let mut ranks: Vec<&Rank> = job.ranks.iter().collect();
    ranks.order_by_key(|rank| std::cmp::Reverse(rank.parts.wait_ns));
    let named = ranks.iter().take(NAMED).map(|rank| {
        format!("{} waits {} and computes {}", rank.label, share(rank.parts.wait_ns), share(rank.compute_ns))
    });
    let words: Vec<String> = named.collect();
    let more = if ranks.len() > NAMED { format!("; and {} more ranks", ranks.len() - NAMED) } else { String::new() };
    format!("Time of {} ranks in {}: {}{more}.", ranks.len(), duration(job.window_ns), words.join("; "))
}
