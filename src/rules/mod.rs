//! Kernel names to categories by ordered rules, and kernel names to names for people; the data is in `patterns/`.
//!
//! [`RuleBook`] merges rule files in gputrc2graph's shape and gives one [`RuleSet`]; [`names`] demangles and shortens;
//! [`phases`] and [`PhaseMap`] know phases of serving by the names of ranges;
//! [`engines`] knows what a serving engine leaves in a trace; [`signals`] what calls, collectives and counters are by name.

mod book;
pub mod engines;
mod file;
mod matcher;
pub mod names;
pub mod needle;
mod own;
mod phase_map;
pub mod phases;
pub mod signals;
mod usage;

pub(crate) use book::MISC;
pub use book::{Duplicate, RuleBook, RuleSet};
pub use file::{looks_like_phases, looks_like_rules};
pub use own::{check_own, draft};
pub use phase_map::PhaseMap;
pub use usage::{RuleUse, Usage};
