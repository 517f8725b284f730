//! What a capture tells its caller while it runs, and how the caller ends it.

use crate::{Error, Result};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One line of progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// What the capture is doing.
    pub phase: Phase,
    /// The line for people.
    pub text: String,
}

/// The phases of a capture, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The server is being recognised.
    Recognise,
    /// Requests that fill caches and compile kernels.
    WarmUp,
    /// The probe without the profiler.
    Unprofiled,
    /// The server's profiler is started.
    Start,
    /// Load while the profiler runs.
    Load,
    /// The server's profiler is stopped.
    Stop,
    /// Waiting until the server has written its traces.
    Wait,
    /// Traces are copied.
    Copy,
    /// Something that the user should know; the capture goes on.
    Note,
    /// The capture is complete.
    Done,
}

/// Ends a capture or other long work from another thread or a signal handler. Copies share one flag.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks the work to end. A capture stops the server's profiler before it returns.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Returns true after [`Cancel::cancel`].
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::cancelled()) } else { Ok(()) }
    }

    /// Sleeps, but returns at once with an error if the capture is cancelled.
    pub(crate) fn sleep(&self, duration: Duration) -> Result<()> {
        const SLICE: Duration = Duration::from_millis(50);
        let end = Instant::now() + duration;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(SLICE));
        }
    }
}

/// The callback of a capture.
pub(crate) struct Reporter<'a>(pub(crate) &'a mut dyn FnMut(Progress));

impl Reporter<'_> {
    pub(crate) fn say(&mut self, phase: Phase, text: impl Into<String>) {
        (self.0)(Progress { phase, text: text.into() });
    }
}
