//! Parses and writes the text of a window (`1.25-1.75`, seconds from the first GPU op), and computes the strips
//! from which the user picks one.

use super::{Choices, pick_rules, rule_book};
use crate::analysis::time::strips::{Strips, strips as cut_strips};
use crate::report::format::duration;
use crate::report::html::Overview;
use crate::trace::{Ns, Trace, Window};
use crate::{Error, Result};

/// Decimal digits of a second in a nanosecond time.
const SECONDS: u32 = 9;

/// Parses `FROM-TO`, in seconds from the first GPU op: `1.25-1.75`. A missing number means the start or end of the
/// trace. `None` for an empty text and for a trace without GPU ops.
///
/// # Errors
/// The text is invalid, or the window is empty or outside the trace.
pub fn window(trace: &Trace, text: &str) -> Result<Option<Window>> {
    window_in(trace.span(), text)
}

/// Like [`window()`], from the first start and last end of the trace's GPU ops instead of the trace.
///
/// # Errors
/// Those of [`window()`].
pub fn window_in(whole: Option<Window>, text: &str) -> Result<Option<Window>> {
    let refused = |why: &str| Error::usage(format!("window `{text}`"), why);
    let (Some(whole), false) = (whole, text.trim().is_empty()) else { return Ok(None) };
    let (from, to) = text
        .trim()
        .split_once('-')
        .ok_or_else(|| refused("write two times in seconds from the first GPU op, for example 1.25-1.75"))?;
    let time = |text: &str, default: Ns| match text.trim() {
        "" => Ok(default),
        text => Ns::from_decimal(text.as_bytes(), SECONDS)
            .map(|time| whole.start + time)
            .ok_or_else(|| refused("not two times in seconds: write for example 1.25-1.75")),
    };
    let (start, end) = (time(from, whole.start)?, time(to, whole.end)?.min(whole.end));
    if start >= end {
        let length = duration(whole.length().0);
        return Err(refused(&format!(
            "the window is empty or outside the trace, whose GPU ops take {length} from first to last"
        )));
    }
    Ok(Some(Window { start, end }))
}

/// The text of a window between two positions in the trace, each from 0 (start) to 1 (end). Empty text if the window is
/// the whole trace or empty.
pub fn window_text(trace: &Trace, from: f64, to: f64) -> String {
    let Some(whole) = trace.span() else { return String::new() };
    let length = whole.length().0;
    let time = |position: f64| Ns((position.clamp(0.0, 1.0) * length as f64) as i64);
    let (start, end) = (time(from.min(to)), time(from.max(to)));
    if start >= end || (start == Ns::ZERO && end.0 >= length) { String::new() } else { text(start, end) }
}

/// The text of a window. Times are relative to the first GPU op.
pub fn text(start: Ns, end: Ns) -> String {
    format!("{}-{}", seconds(start), seconds(end))
}

/// Exact decimal seconds: `0.25`.
fn seconds(time: Ns) -> String {
    const SECOND: i64 = 1_000_000_000;
    let digits = format!("{}.{:09}", time.0 / SECOND, time.0 % SECOND);
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Strips of the whole trace, regardless of the chosen window; `None` if the trace has no GPU ops.
///
/// # Errors
/// Those of [`rule_book`] and [`pick_rules`].
pub fn strips(trace: &Trace, choices: &Choices, columns: usize) -> Result<Option<Strips>> {
    let rules = pick_rules(&rule_book(&choices.rules)?.0, choices)?;
    Ok(cut_strips(trace, &rules, columns))
}

/// The strips of the whole trace for an HTML report, with the chosen window; `None` if the trace has no GPU ops.
///
/// # Errors
/// Those of [`rule_book`], [`pick_rules`] and [`window`].
pub fn overview(trace: &Trace, choices: &Choices) -> Result<Option<Overview>> {
    let rules = pick_rules(&rule_book(&choices.rules)?.0, choices)?;
    Ok(Overview::of(super::picked(trace, choices)?, |columns| cut_strips(trace, &rules, columns)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::format::shown;
    use crate::report::{Report, table};
    use crate::session::run;
    use crate::trace::testing::TestTrace;

    /// Three ops of a tenth of a second, at 5.0, 5.2 and 5.9 s, each launched in a step.
    fn trace() -> Trace {
        let mut trace = TestTrace::new();
        for start in [5_000_000_000, 5_200_000_000, 5_900_000_000] {
            trace.range("step[DECODE bs=4]", start - 80..start - 20);
            trace.launch(start - 50..start - 45).launches("gemm", start..start + 100_000_000);
        }
        trace.finish()
    }

    #[test]
    fn windows_are_seconds_from_the_first_op_and_default_to_the_ends_of_the_trace() {
        let parse = |text: &str| window(&trace(), text).map(|found| found.map(|window| (window.start.0, window.end.0)));
        assert_eq!(parse("0.2-0.5"), Ok(Some((5_200_000_000, 5_500_000_000))));
        assert_eq!(parse(" 0.2 - "), Ok(Some((5_200_000_000, 6_000_000_000))));
        assert_eq!(parse("-0.000000001"), Ok(Some((5_000_000_000, 5_000_000_001))));
        assert_eq!(parse("0.5-99"), Ok(Some((5_500_000_000, 6_000_000_000))));
        assert_eq!(parse(""), Ok(None));
        for bad in ["1", "a-b", "0.5-0.5", "0.6-0.2", "7-8", "1e400-2"] {
            let error = parse(bad).unwrap_err();
            assert!(error.is_usage() && error.to_string().contains(bad), "{error}");
        }
    }

    #[test]
    fn the_text_of_a_picked_window_parses_to_the_same_nanoseconds() {
        let trace = trace();
        assert_eq!(window_text(&trace, 0.25, 0.75), "0.25-0.75");
        assert_eq!(window_text(&trace, 0.75, 0.25), "0.25-0.75");
        assert_eq!((window_text(&trace, 0.0, 1.0), window_text(&trace, 0.3, 0.3)), (String::new(), String::new()));
        let text = window_text(&trace, 0.123_456_789_012, f64::INFINITY);
        assert_eq!(text, "0.123456789-1");
        assert_eq!(window(&trace, &text).unwrap().unwrap().start, Ns(5_123_456_789));
    }

    #[test]
    fn tables_show_times_relative_to_the_first_op_of_the_whole_trace() {
        for window in [None, Some("0.25-0.95".to_owned())] {
            let report = Report::new(vec![run(&trace(), &Choices { window, ..Choices::default() }).unwrap()]);
            let gaps = table(&report, "gpu_idle_gaps", None).unwrap();
            let column = gaps.columns.iter().position(|column| column.key == "gap_start_ns").unwrap();
            // The longest gap is the one before the third op; in milliseconds.
            assert_eq!(shown(&gaps)[0][column].text, "300.000");
        }
    }

    #[test]
    fn a_run_of_a_window_counts_only_its_ops_and_states_the_window() {
        let choices = Choices { window: Some("0.25-0.95".to_owned()), ..Choices::default() };
        let run = run(&trace(), &choices).unwrap();
        assert_eq!((run.totals.gpu_ops, run.totals.union_ns, run.wall.wall_ns), (2, 100_000_000, 700_000_000));
        let picked = run.window.as_ref().unwrap();
        assert_eq!((picked.start_ns, picked.end_ns, picked.whole_ns), (250_000_000, 950_000_000, 1_000_000_000));
        let notice = run.notices.iter().find(|notice| notice.code == "window").unwrap();
        assert!(
            notice.message.contains("2 of 3 GPU ops") && notice.message.contains("2 of them"),
            "{}",
            notice.message
        );
    }
}
