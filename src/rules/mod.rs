//! Interprets names: kernel categories, readable kernel names, serving engines and phases, and kinds of API calls.
//!
//! The data is in `patterns/`; this code does no I/O. [`RuleBook`] merges rule files in gputrc2graph's format and selects one
//! [`RuleSet`], which maps kernel names to categories. [`names`] demangles and shortens kernel names. [`phases`] and
//! [`PhaseMap`] derive the serving phase from range names. [`engines`] detects the serving engine. [`signals`] classifies API
//! calls, collectives and counters by name. [`is_step_frame`] recognises the functions that run a step, [`is_waiting_code`] those in
//! which a thread only waits. [`op_models`] lists the framework ops whose cost follows from shapes.
//!
//! The rule workbench of the page lets a person inspect and edit rules. [`RuleSet::usage`] reports which names each rule
//! matches and which it loses to earlier rules. [`check_user_file`] and [`add_rule`] validate and edit the person's own file.
//! The tables are in `analysis::rule_use`, the editor is in `www/rules.js`.

mod book;
pub mod category_words;
mod code_name;
mod editing;
pub mod engines;
mod file;
pub(crate) mod inference;
mod matcher;
pub mod names;
pub mod needle;
pub mod op_models;
mod phase_map;
pub mod phases;
pub mod signals;
mod step_frames;
mod training;
mod usage;
mod waiting_code;

pub(crate) use book::MISC;
pub use book::{Certainty, Duplicate, NameMatch, RuleBook, RuleSet};
pub use editing::{add_rule, check_user_file, put_rule};
pub use file::{looks_like_phase_map, looks_like_rules};
pub use phase_map::PhaseMap;
pub use step_frames::{is_numbered_step, is_step_frame};
pub use training::{
    RecomputeSign, TrainingPart, is_optimizer_kernel, recompute_sign, training_part_of_code, training_part_of_range,
};
pub use usage::{RuleUse, Usage};
pub(crate) use waiting_code::RequestCode;
pub use waiting_code::{is_waiting_code, waiting_function};

/// The category of the time in which a device runs nothing. gputrc2graph uses the same name.
pub const CPU: &str = "CPU (non-GPU)";
/// The category of the time in which several ops run, if ops own only the time in which they run alone.
pub const SHARED: &str = "shared by several ops";
/// The category of the time in which a device runs only CUDA graphs that were traced as a whole, so that their kernels are not known.
pub const GRAPHS: &str = "CUDA graph";
