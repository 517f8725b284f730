//! `single-step`: one step has no spread. From the section of steps.

use super::row::{TrustId, TrustRow};
use crate::analysis::section::{Sections, TypedSection};
use crate::analysis::structure::steps::Steps;
use crate::trace::Trace;
use crate::words;

pub(super) fn find(trace: &Trace, sections: &Sections) -> Option<TrustRow> {
    let count: usize = Steps::rows(sections).iter().map(|row| row.steps).sum();
    (count == 1).then(|| TrustRow::new(TrustId::SingleStep, words::trust::single_step(trace.cut.is_some())))
}
