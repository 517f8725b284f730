//! The Python package `gpuprism`: opens traces with the library of the command line and hands out its results as tables.
//!
//! `gpuprism.pyi` documents the Python interface. Everything that takes long runs without the GIL (`background`). Nothing is
//! computed here: tables are those of the JSON report (`report::records`), texts and charts those of the other outputs.

mod arrow;
mod background;
mod errors;
mod facts;
mod notebook;
mod open;
mod results;
mod table;
mod trace;

/// The Python module.
#[pyo3::pymodule(name = "gpuprism")]
mod module {
    #[pymodule_export]
    use super::errors::{Error, UsageError};
    #[pymodule_export]
    use super::facts::{facts, files_by_run, is_trace_name};
    #[pymodule_export]
    use super::open::open;
    #[pymodule_export]
    use super::results::{Comparison, Ranks, Results, diff};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::trace::Trace;

    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "the name that Python programs expect")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
