//! The sentences about a trace, and the only place that formats times, shares, counts and lists for them.
//!
//! The folder lies between `rules` and `analysis`: an analysis decides what is said, calls a function of this folder with typed values
//! (times, shares, counts, names, enums), and puts the text into its section, notice or clause. It formats nothing itself. So this
//! folder knows neither traces nor sections: an enum that only sentences tell apart lies beside them. Sections hold text, because a
//! report is written as JSON and read back; hence the words are needed when a section is built, and not after the analysis.
//!
//! A clause is one piece of text with its own beginning (`; `, ` (`), made by one function. Outside of this folder no code changes the
//! case of a clause or cuts it.
//!
//! - [`times`], [`numbers`], [`phrases`]: the formatters.
//! - [`stages`]: the stages of serving as sentences name them.
//! - One file or folder per source of sentences, with the name of that part of `analysis`.

pub(crate) mod catalog;
pub(crate) mod communication;
pub(crate) mod compare;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod doctor;
pub(crate) mod findings;
pub(crate) mod graph_captures;
pub(crate) mod hardware;
pub(crate) mod idle;
pub(crate) mod kernels;
pub(crate) mod labels;
pub(crate) mod latency;
pub(crate) mod layers;
pub(crate) mod model_config;
pub(crate) mod model_lines;
pub(crate) mod notices;
pub(crate) mod numbers;
pub(crate) mod op_costs;
pub(crate) mod overlap;
pub(crate) mod phrases;
pub(crate) mod ranks;
pub(crate) mod recapture;
pub(crate) mod replay;
pub(crate) mod rules;
pub(crate) mod stages;
pub(crate) mod start_up;
pub(crate) mod step_floor;
pub(crate) mod steps;
pub(crate) mod timeline;
pub(crate) mod times;
pub(crate) mod triage_rows;
pub(crate) mod triage_summary;
pub(crate) mod trust;
pub(crate) mod verdict;

pub(crate) use numbers::{Share, percent_0, percent_1};
pub(crate) use phrases::{capitalize, counted, listed, noun, or_nothing};
pub(crate) use times::{time, time_of, time_per_step};
