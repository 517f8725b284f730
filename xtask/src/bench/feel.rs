//! How the page feels with a trace open: what moves, what blocks, how fast the timeline answers, and memory. Measured in Chromium by
//! `xtask/bench/feel.mjs`, on a trace of a million GPU ops of eight GPUs with ten million Python frames and on a small one.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::generated::{self, FRAMES_PER_OP, GPUS};
use super::{Report, busy_processors, megabytes, percent, seconds, text};
use crate::command::Run;
use crate::setup;

/// The begin of the titles of these sections.
pub const TITLE: &str = "How the page feels";

/// GPU ops of the traces.
const OPS: [u64; 2] = [20_000, 1_000_000];

// The targets.
const SHIFT: f64 = 0.02;
const LONG_TASK_MS: f64 = 100.0;
/// Sixty frames a second, as displays count them: a frame of 16.7 ms.
const FRAME_MS: f64 = 17.0;
const AT_HAND_MS: f64 = 16.0;
const FROM_WORKER_MS: f64 = 100.0;
const FIRST_PIXELS_MS: f64 = 100.0;
const READY_MS: f64 = 1_000.0;
const MEMORY_OF_JSON: f64 = 0.15;

/// Measures both traces and adds a section for each.
pub fn all(report: &mut Report) -> Result<()> {
    for ops in OPS {
        let file = trace(ops)?;
        one(report, ops, &file)?;
    }
    Ok(())
}

/// The path of the generated trace.
fn trace(ops: u64) -> Result<PathBuf> {
    super::made_once(&format!("frames_{ops}_v{}.json", generated::VERSION), &|path| {
        let mut out = BufWriter::new(File::create(path)?);
        generated::write(&mut out, ops)?;
        Ok(out.flush()?)
    })
}

fn one(report: &mut Report, ops: u64, file: &Path) -> Result<()> {
    let busy = busy_processors().map_or_else(|| "an unknown share".to_owned(), percent);
    let date = Run::new("date +%Y-%m-%d").output()?;
    let measured = measure(file)?;
    let bytes = file.metadata()?.len() as f64;
    let number = |path: &str| {
        measured
            .pointer(path)
            .and_then(Value::as_f64)
            .with_context(|| format!("xtask/bench/feel.mjs returned no {path}"))
    };
    let quantiles = |name: &str| -> Result<String> {
        if number(&format!("/{name}/count"))? == 0.0 {
            return Ok("none".to_owned());
        }
        let [median, p95, longest] = ["median", "p95", "longest"].map(|part| number(&format!("/{name}/{part}")));
        let count = number(&format!("/{name}/count"))?;
        Ok(format!("{}, {}, {} of {count}", millis(median?), millis(p95?), millis(longest?)))
    };
    report.heading(&format!(
        "{TITLE}: {} GPU ops on {GPUS} GPUs, {} Python frames, {} of JSON; Chromium, 1440 x 900, on {}, {busy} busy with other \
         work at the start",
        grouped(ops),
        grouped(ops * FRAMES_PER_OP),
        megabytes(bytes),
        date.trim()
    ));
    let ready =
        "from the request for the page, with an empty cache and a server on the same machine, until it takes files";
    report.at_most(ready, number("/ready_ms")?, READY_MS, millis);
    report.fact("from the picked file to its first results on screen", &seconds(number("/import_ms")? / 1e3));
    let drawn = "from the trace being read until the first bars of the timeline are drawn";
    report.fact(drawn, &millis(number("/read_to_bars_ms")?));
    let painted = "the same, until the browser has painted this frame";
    report.at_most(painted, number("/read_to_frame_ms")?, FIRST_PIXELS_MS, millis);
    report.fact("the same, until the browser has painted the verdict", &millis(number("/read_to_head_ms")?));
    report.fact("the same, until all first results are drawn", &millis(number("/read_to_results_ms")?));
    for (when, name) in [
        ("when the page loads", "load"),
        ("after the first results", "results"),
        ("while the timeline is zoomed and panned", "gestures"),
        ("while a window is picked", "window"),
    ] {
        report.at_most(&format!("layout shift {when}"), number(&format!("/shift_on_{name}/sum"))?, SHIFT, shift);
    }
    report.fact("tasks of 50 ms or more after the first bars", &number("/long_tasks/count")?.to_string());
    // Null if there was none.
    let longest = number("/long_tasks/longest").unwrap_or(0.0);
    report.at_most("the longest of them", longest, LONG_TASK_MS, millis);
    report.fact("frames while zooming and panning by wheel: median, 95th percentile, longest", &quantiles("frame")?);
    report.at_most("frame, median", number("/frame/median")?, FRAME_MS, millis);
    for (lanes, name) in [("GPUs", "zoom"), ("threads", "threads")] {
        let (at_hand, from_worker) = (format!("{name}_at_hand"), format!("{name}_from_worker"));
        report.fact(
            &format!("a zoom step over lanes of {lanes} from tiles at hand, without the wait for the frame: the same"),
            &quantiles(&at_hand)?,
        );
        report.at_most("95th percentile of them", number(&format!("/{at_hand}/p95"))?, AT_HAND_MS, millis);
        report.fact(
            &format!(
                "a zoom step over lanes of {lanes} with tiles from the worker, until nothing is missing: the same"
            ),
            &quantiles(&from_worker)?,
        );
        report.at_most("95th percentile of them", number(&format!("/{from_worker}/p95"))?, FROM_WORKER_MS, millis);
    }
    for (layer, what) in [
        ("device", "GPU ops"),
        ("derived", "steps and idle time"),
        ("host", "calls and ranges"),
        ("code", "Python frames"),
    ] {
        report.fact(&format!("a tile of {what}, in the worker: the same"), &quantiles(&format!("tiles/{layer}"))?);
    }
    report.fact("a key of the timeline, to the next picture: the same, of those of 16 ms or more", &quantiles("key")?);
    let wasm = number("/wasm_memory_bytes")?;
    report.fact("WebAssembly memory of the trace's worker after all this", &megabytes(wasm));
    let heap = number("/page_heap_bytes")?;
    report.fact("memory of the page's scripts", &megabytes(heap));
    if ops > 100_000 {
        report.at_most("both, relative to the JSON", (wasm + heap) / bytes, MEMORY_OF_JSON, percent);
    } else {
        // The code of a module alone is a share of a small file.
        report.fact("both, relative to the JSON", &percent((wasm + heap) / bytes));
    }
    if let Ok(peak) = number("/renderer_peak_bytes") {
        report.fact("peak memory of the browser's process of the page, with the browser's own", &megabytes(peak));
    }
    Ok(())
}

fn measure(file: &Path) -> Result<Value> {
    let url = super::serve_page()?;
    println!("measuring how the page feels with {}", file.display());
    let printed = Run::new("node xtask/bench/feel.mjs")
        .arg(url)
        .arg(text(file))
        .env("CHROMIUM", setup::whole_chromium()?)
        .output()?;
    // What moved, and when tasks were long, is for whoever looks for a cause; the report has only figures.
    println!("{printed}");
    serde_json::from_str(&printed).context("xtask/bench/feel.mjs did not print JSON")
}

fn millis(milliseconds: f64) -> String {
    format!("{milliseconds:.1} ms")
}

fn shift(sum: f64) -> String {
    format!("{sum:.4}")
}

/// A count with a comma before every three digits.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let places = digits.chars().enumerate().map(|(index, digit)| (digits.len() - index, digit));
    places
        .flat_map(|(left, digit)| {
            let comma = (left % 3 == 0 && left < digits.len()).then_some(',');
            comma.into_iter().chain([digit])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn counts_are_grouped_from_a_thousand_on() {
        assert_eq!([999, 20_000, 1_000_000].map(grouped), ["999", "20,000", "1,000,000"]);
    }
}
