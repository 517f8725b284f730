//! Compares the ranks of a job from the rank logs of their traces, whole or in a window.

use super::watch::Watch;
use crate::analysis::communication::ranks;
use crate::analysis::communication::ranks::{JobClocks, RankInput, RankLog, RankWindow, Ranks};
use crate::report::ranks::ungrouped;
use crate::session::window_in;
use crate::trace::Window;
use crate::{Error, Result};

/// Computes what a trace, given by the index of its log, contains in a window of its own time.
pub type WindowLogs<'a> = dyn Fn(&[(usize, Window)]) -> Vec<Result<RankWindow>> + 'a;

/// Compares the ranks of all jobs. `window` is a text as in [`window_in`], in the time of the first rank of a job; for the other
/// ranks, it is the time between the same collectives.
///
/// # Errors
/// No two logs are of one job, the window is invalid for all jobs, or `window_logs` fails.
pub fn compare_ranks(
    logs: &[RankLog],
    window: Option<&str>,
    window_logs: &WindowLogs,
    watch: &dyn Watch,
) -> Result<Ranks> {
    let windows = match window {
        Some(window) => rank_windows(logs, window, window_logs, watch)?,
        None => vec![None; logs.len()],
    };
    let inputs = logs.iter().zip(&windows).map(|(log, window)| RankInput { log, window: window.as_ref() });
    let ranks = ranks::ranks(&inputs.collect::<Vec<_>>());
    if ranks.jobs.is_empty() {
        ungrouped(&ranks).iter().for_each(|sentence| watch.warn(sentence));
        let why = "these files do not contain two ranks of one job: add the traces of other ranks";
        return Err(Error::usage("ranks", why));
    }
    Ok(ranks)
}

/// For each log the results of its ranks in the chosen window; `None` if the window cannot be converted to its time.
fn rank_windows(
    logs: &[RankLog],
    text: &str,
    window_logs: &WindowLogs,
    watch: &dyn Watch,
) -> Result<Vec<Option<RankWindow>>> {
    let mut windows: Vec<Option<Window>> = vec![None; logs.len()];
    let mut window_error = None;
    let borrowed: Vec<&RankLog> = logs.iter().collect();
    let jobs = JobClocks::new(&borrowed);
    for first in jobs.first_logs() {
        let Some(log) = logs.get(first) else { continue };
        let window = match window_in(log.span(), text) {
            Ok(Some(window)) => window,
            Ok(None) => continue,
            Err(error) => {
                watch.warn(&format!("{}: {error}", log.file));
                window_error = Some(error);
                continue;
            }
        };
        for (index, found) in jobs.windows(first, window) {
            if found.is_none() {
                let file = logs.get(index).map_or("", |log| log.file.as_str());
                watch.warn(&format!(
                    "{file}: the window of {} cannot be converted to the time of this trace, or the trace has no work in it: \
                     whole traces of the job are compared",
                    log.file
                ));
            }
            windows.get_mut(index).into_iter().for_each(|slot| *slot = found);
        }
    }
    if let Some(error) = window_error.filter(|_| windows.iter().all(Option::is_none)) {
        return Err(error);
    }
    let with_window: Vec<(usize, Window)> =
        windows.iter().enumerate().filter_map(|(index, window)| Some((index, (*window)?))).collect();
    let mut results = window_logs(&with_window).into_iter();
    windows.into_iter().map(|window| window.and_then(|_| results.next()).transpose()).collect()
}
