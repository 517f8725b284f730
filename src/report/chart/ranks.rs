//! Bars of ranks: how the window of a job is divided on each rank. Every bar is as long as the window.

use super::{Bar, Chart, Segment, stacked_bars};
use crate::analysis::communication::ranks::{Job, Rank};
use crate::ordering;
use crate::report::format::{duration, percent};

/// The names of the parts in the legend, in stacking order.
pub const PARTS: [&str; 8] = [
    "compute",
    "compute during communication",
    "copies and graphs",
    "transfer",
    "waiting for a rank",
    "unmatched communication",
    "GPU idle",
    "outside the window",
];

/// The lengths of the [`PARTS`] of one rank in nanoseconds; they add up to the window of its job.
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

/// Draws one bar per rank of every job on one time axis. `width` is in pixels, at least 240.
pub fn rank_bars(jobs: &[Job], width: u32) -> Chart {
    let several = jobs.len() > 1;
    let bar = |job: &Job, rank: &Rank| {
        let segments = PARTS.iter().zip(rank_parts(rank)).map(|(part, ns)| Segment {
            category: (*part).to_owned(),
            elapsed_ns: ns,
            share: ns as f64 / job.window_ns.max(1) as f64,
        });
        let waiting = || format!("others wait {} each", duration(job.per_other_rank(rank.waited_for_ns)));
        let note = if rank.is_straggler { waiting() } else { String::new() };
        let label = if several { format!("{}: {}", job.title, rank.label) } else { rank.label.clone() };
        Bar { label, segments: segments.collect(), note }
    };
    let bars: Vec<Bar> = jobs.iter().flat_map(|job| job.ranks.iter().map(move |rank| bar(job, rank))).collect();
    let summaries: Vec<String> = jobs.iter().map(summary).collect();
    Chart { summary: summaries.join(" "), ..stacked_bars(&bars, &PARTS, &[], width) }
}

/// A sentence about the ranks with the longest waits.
fn summary(job: &Job) -> String {
    const MAX_NAMED: usize = 4;
    let share = |ns: i64| percent(ns as f64 / job.window_ns.max(1) as f64);
    let mut ranks: Vec<&Rank> = job.ranks.iter().collect();
    ordering::sort_by_key(&mut ranks, |rank| std::cmp::Reverse(rank.parts.wait_ns));
    let named = ranks.iter().take(MAX_NAMED).map(|rank| {
        format!("{} waits {} and computes {}", rank.label, share(rank.parts.wait_ns), share(rank.compute_ns))
    });
    let words: Vec<String> = named.collect();
    let more = match ranks.len().checked_sub(MAX_NAMED) {
        Some(more) if more > 0 => format!("; and {more} more ranks"),
        _ => String::new(),
    };
    format!("Time of {} ranks in {}: {}{more}.", ranks.len(), duration(job.window_ns), words.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::communication::ranks::{ComputeBasis, Delay, Source, TimeParts, WindowSelection};
    use crate::report::palette;

    fn rank(label: &str, parts: TimeParts) -> Rank {
        Rank {
            label: label.into(),
            file: "f".into(),
            device: "0".into(),
            source: Source::FileName,
            wall_ns: 0,
            busy_ns: 0,
            compute_ns: parts.compute_ns,
            parts,
            communication_ns: 0,
            wait_ns: 0,
            transfer_ns: 0,
            collectives: 0,
            times_last: 0,
            waited_for_ns: 0,
            waited_for_pct: 0.0,
            compared_ns: 0,
            skew_pct: None,
            delay: Delay::default(),
            slow_kernel: None,
            experts: None,
            is_straggler: false,
        }
    }

    #[test]
    fn every_bar_is_as_long_as_the_window_and_parts_have_distinct_colours() {
        let waits = TimeParts { compute_ns: 30, wait_ns: 50, idle_ns: 20, ..TimeParts::default() };
        let computes = TimeParts { compute_ns: 60, hidden_ns: 10, outside_ns: 30, ..TimeParts::default() };
        let job = Job {
            sends_only: false,
            loss: Default::default(),
            title: "j".into(),
            world_size: None,
            window_ns: 100,
            windows: WindowSelection::None,
            compute: ComputeBasis::All,
            ranks: vec![rank("rank 0", waits), rank("rank 1", computes)],
            matched: 0,
            unmatched: 0,
            limits: Vec::new(),
        };
        let chart = rank_bars(&[job], 900);
        for row in [0.0, 1.0] {
            let rects = chart.nodes.iter().filter(|node| node.tag == "rect" && node.number("data-row") == row);
            let pixels: f64 = rects.map(|node| node.number("data-span")).sum();
            assert!(pixels > 700.0, "{pixels}");
        }
        assert!(chart.summary.starts_with("Time of 2 ranks in 100 ns: rank 0 waits 50.0 %"), "{}", chart.summary);
        // Idle time and time outside the window share a colour; all other parts have their own.
        let mut classes: Vec<String> = PARTS.iter().map(|part| palette::class(part)).collect();
        classes.dedup();
        classes.sort();
        classes.dedup();
        assert_eq!(classes.len(), PARTS.len() - 1, "{classes:?}");
    }
}
