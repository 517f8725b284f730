//! Exceptions: the library's errors with the sentences of the command line.

use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::PyException;

create_exception!(gpuprism, Error, PyException, "A file that cannot be read, or a wrong argument, in one sentence.");
create_exception!(gpuprism, UsageError, Error, "A wrong argument: the call must change, not the file.");

/// The exception for an error of the library.
pub(crate) fn raised(error: gpuprism::Error) -> PyErr {
    if error.is_usage() { UsageError::new_err(error.to_string()) } else { Error::new_err(error.to_string()) }
}
