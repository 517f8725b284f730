//! The rows and columns of a pivot table: their labels, their order, and which of them are summed into one.
//! Cost: one hash lookup per added cell, and one sort of the members.

use crate::analysis::pivot::cells::{Axis, OUTSIDE, PivotCells, TRACE_AXES, UNKNOWN};
use crate::analysis::pivot::layout::{Member, NOT_IN_REPORT, Source};
use crate::analysis::results::Kernel;
use crate::analysis::triage::Stage;
use crate::analysis::{CPU, SHARED};
use crate::ordering;
use crate::words::labels;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The label of a kernel on an axis. `cell` is its cell with the [`PivotCells`] that contain it; `None` for a report.
pub(crate) fn label(axis: Axis, source: &Source, kernel: &Kernel, cell: Option<(&PivotCells, &[i64])>) -> String {
    match axis {
        Axis::Category => kernel.category.clone(),
        Axis::Kernel => kernel.name.clone(),
        Axis::Run => source.label.to_owned(),
        _ => match cell {
            Some((cells, cell)) => label_in_cell(axis, cells, cell).unwrap_or_else(|| UNKNOWN.to_owned()),
            None => match source.run.devices.as_slice() {
                [only] if axis == Axis::Device => labels::device(&only.id),
                _ => NOT_IN_REPORT.to_owned(),
            },
        },
    }
}

fn label_in_cell(axis: Axis, cells: &PivotCells, cell: &[i64]) -> Option<String> {
    let axis_index = TRACE_AXES.iter().position(|trace_axis| *trace_axis == axis)?;
    let member = usize::try_from(*cell.get(axis_index + 1)?).ok()?;
    cells.members.get(axis_index)?.get(member).cloned()
}

/// All members of one axis, in order of appearance.
pub(crate) struct Members {
    axis: Axis,
    labels: Vec<String>,
    index_by_label: HashMap<String, usize>,
}

/// The members as the table shows them.
pub(crate) struct Arrangement {
    pub(crate) shown: Vec<Member>,
    /// Position in `shown` by index of appearance.
    positions: Vec<usize>,
}

impl Arrangement {
    /// The position in `shown` of the member with this index of appearance.
    pub(crate) fn position(&self, index: usize) -> usize {
        self.positions.get(index).copied().unwrap_or(0)
    }
}

impl Members {
    pub(crate) fn new(axis: Axis) -> Self {
        Self { axis, labels: Vec::new(), index_by_label: HashMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns the index of a member; appends a new one.
    pub(crate) fn index_of(&mut self, label: String) -> usize {
        if let Some(index) = self.index_by_label.get(&label) {
            return *index;
        }
        self.labels.push(label.clone());
        self.index_by_label.insert(label, self.labels.len() - 1);
        self.labels.len() - 1
    }

    /// Sorts the members and sums all but the `max_shown` largest into one. Placeholders such as [`UNKNOWN`] are
    /// always shown.
    pub(crate) fn arrange(&self, totals: &[i64], max_shown: usize) -> Arrangement {
        let largest_first = |index: usize| Reverse(totals.get(index).copied().unwrap_or(0));
        let is_regular = |index: &usize| placeholder_rank(self.label(*index)) == 0;
        let mut shown: Vec<usize> = (0..self.labels.len()).filter(is_regular).collect();
        ordering::sort_by_key(&mut shown, |index| (largest_first(*index), self.labels.get(*index)));
        shown.truncate(max_shown);
        shown.extend((0..self.labels.len()).filter(|index| !is_regular(index)));
        match self.axis {
            Axis::Category | Axis::Kernel => {
                ordering::sort_by_key(&mut shown, |index| placeholder_rank(self.label(*index)))
            }
            Axis::Run => shown.sort_unstable(),
            _ => ordering::sort_by_key(&mut shown, |index| {
                let label = self.label(*index);
                (placeholder_rank(label), natural_key(label))
            }),
        }
        let mut positions = vec![shown.len(); self.labels.len()];
        for (position, index) in shown.iter().enumerate() {
            positions.get_mut(*index).into_iter().for_each(|slot| *slot = position);
        }
        let others = self.labels.len() - shown.len();
        let mut shown: Vec<Member> =
            shown.into_iter().map(|index| Member::Named(self.label(index).to_owned())).collect();
        if others > 0 {
            shown.push(Member::Others(others));
        }
        Arrangement { shown, positions }
    }

    fn label(&self, index: usize) -> &str {
        self.labels.get(index).map_or("", String::as_str)
    }
}

/// 0 for a regular member. Placeholders have higher ranks and sort last.
fn placeholder_rank(label: &str) -> u8 {
    match label {
        SHARED => 1,
        CPU => 2,
        OUTSIDE | UNKNOWN | NOT_IN_REPORT => 3,
        _ => 0,
    }
}

/// Sort key for stages in the order of [`Stage::ALL`], then for other labels in natural order: `step 2 decode` before
/// `step 10 decode`.
fn natural_key(label: &str) -> (usize, Vec<(String, u64)>) {
    let stage = Stage::ALL.iter().position(|stage| stage.label() == label).unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    for word in label.split(' ') {
        let digits = word.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (head, tail) = word.split_at(word.len() - digits);
        parts.push((head.to_owned(), tail.parse().unwrap_or(0)));
    }
    (stage, parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(axis: Axis, labels: &[&str], totals: &[i64], max_shown: usize) -> Vec<String> {
        let mut members = Members::new(axis);
        labels.iter().for_each(|label| {
            members.index_of((*label).to_owned());
        });
        let shown = members.arrange(totals, max_shown).shown;
        shown
            .into_iter()
            .map(|member| match member {
                Member::Named(name) => name,
                Member::Others(count) => format!("+{count}"),
            })
            .collect()
    }

    #[test]
    fn steps_stages_and_runs_keep_their_order_and_categories_sort_by_size() {
        let steps = ["step 10 decode", "(outside steps)", "step 2 decode", "step 1 extend/prefill"];
        assert_eq!(
            shown(Axis::Step, &steps, &[9, 9, 1, 2], 9),
            ["step 1 extend/prefill", "step 2 decode", "step 10 decode", "(outside steps)"]
        );
        assert_eq!(shown(Axis::Stage, &["decode", "extend/prefill"], &[9, 1], 9), ["extend/prefill", "decode"]);
        assert_eq!(shown(Axis::Category, &[CPU, "norm", "gemm"], &[50, 1, 2], 9), ["gemm", "norm", CPU]);
        assert_eq!(shown(Axis::Run, &["b", "a"], &[1, 2], 9), ["b", "a"]);
    }

    #[test]
    fn the_largest_members_are_shown_in_axis_order() {
        let gpus = ["GPU 0", "GPU 1", "GPU 2", "GPU 10"];
        assert_eq!(shown(Axis::Device, &gpus, &[1, 5, 4, 5], 2), ["GPU 1", "GPU 10", "+2"]);
        assert_eq!(shown(Axis::Device, &gpus, &[1, 5, 4, 5], 4), gpus);
    }
}
