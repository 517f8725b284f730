//! Runs long work without the GIL and answers Ctrl-C while it runs.

use crate::errors::raised;
use gpuprism::files::{Cancel, Watch};
use pyo3::exceptions::{PyRuntimeError, PyUserWarning};
use pyo3::{PyErr, PyResult, Python};
use std::ffi::CString;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long Ctrl-C may wait.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);
/// The stack of the command line's main thread.
const STACK_BYTES: usize = 8 << 20;

/// Collects the warnings of the library, and tells it to stop.
#[derive(Default)]
pub(crate) struct Watcher {
    warnings: Mutex<Vec<String>>,
    cancel: Cancel,
}

impl Watch for Watcher {
    fn warn(&self, sentence: &str) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(sentence.to_owned());
    }

    fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }
}

/// Does the work in another thread, so that other Python threads go on and Ctrl-C is answered at once. The work ends a little later
/// then, and its result is dropped. Its warnings become Python warnings.
pub(crate) fn run<T: Send + 'static>(
    py: Python,
    work: impl FnOnce(&Watcher) -> gpuprism::Result<T> + Send + 'static,
) -> PyResult<T> {
    let watcher = Arc::new(Watcher::default());
    let (sender, mut receiver) = sync_channel(1);
    let for_work = Arc::clone(&watcher);
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        let _ = sender.send(work(&for_work));
    })?;
    let result = loop {
        let received;
        (received, receiver) = py.detach(move || (receiver.recv_timeout(SIGNAL_INTERVAL), receiver));
        match received {
            Ok(result) => break result,
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals().inspect_err(|_| watcher.cancel.cancel())?;
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("gpuprism failed; its message is on standard error"));
            }
        }
    };
    warn(py, &watcher)?;
    result.map_err(raised)
}

fn warn(py: Python, watcher: &Watcher) -> PyResult<()> {
    let warnings = std::mem::take(&mut *watcher.warnings.lock().unwrap_or_else(PoisonError::into_inner));
    for sentence in warnings {
        let category = py.get_type::<PyUserWarning>();
        // Names in traces may contain zero bytes.
        let sentence = CString::new(sentence.replace('\0', "\u{fffd}")).unwrap_or_default();
        PyErr::warn(py, &category, &sentence, 1)?;
    }
    Ok(())
}
