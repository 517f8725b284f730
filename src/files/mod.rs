//! Files on disk: reads traces, reports and what lies beside them, and analyzes them. For the command line and the Python
//! package; the page gets its bytes from the browser.

pub mod analyze;
pub(crate) mod captured;
pub(crate) mod database;
mod entries;
mod graph_captures;
mod io;
pub(crate) mod neighbours;
pub(crate) mod nsys;
mod open;
mod parquet_folder;
pub mod ranks;
mod scrub;
mod simulated;
mod watch;

pub(crate) use entries::{entries, traces_in};
pub use io::label;
pub(crate) use io::{CHUNK_BYTES, is_standard_input};
pub use neighbours::Neighbours;
pub use open::{RunSource, by_run, read_run, read_text, rules};
pub(crate) use open::{open, open_trace, open_with_code, read, read_without_captures, trace_in};
pub(crate) use scrub::scrub;
pub(crate) use simulated::write_simulated;
#[cfg(feature = "cli")]
pub(crate) use watch::Quiet;
pub use watch::{Cancel, Done, Progress, Watch};
