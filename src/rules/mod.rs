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
mod phase_map;
pub mod phases;
pub mod signals;

pub use book::{Duplicate, RuleBook, RuleSet};
pub use file::{looks_like_phases, looks_like_rules};
pub use phase_map::PhaseMap;
