//! Rows and columns of a pivot: what they are called, in which order they stand, and which of them are summed up.

use crate::analysis::pivot::cells::{Axis, Cube, OUTSIDE, PLACES, UNKNOWN, device_label};
use crate::analysis::pivot::layout::{Member, NOT_HELD, Source};
use crate::analysis::results::Kernel;
use crate::analysis::triage::Stage;
use crate::analysis::{CPU, SHARED};
use std::cmp::Reverse;
use std::collections::HashMap;

/// What ops of this kernel, in a cell of a cube or in a report, are on an axis.
pub(crate) fn of_cell(axis: Axis, source: &Source, kernel: &Kernel, cell: Option<(&Cube, &[i64])>) -> String {
    match axis {
        Axis::Category => kernel.category.clone(),
        Axis::Kernel => kernel.name.clone(),
        Axis::Run => source.label.to_owned(),
        _ => match cell {
            Some((cube, cell)) => place(axis, cube, cell).unwrap_or_else(|| UNKNOWN.to_owned()),
            None => match source.run.devices.as_slice() {
                [only] if axis == Axis::Device => device_label(&only.id),
                _ => NOT_HELD.to_owned(),
            },
        },
    }
}

fn place(axis: Axis, cube: &Cube, cell: &[i64]) -> Option<String> {
    let at = PLACES.iter().position(|known| *known == axis)?;
    let place = usize::try_from(*cell.get(at + 1)?).ok()?;
    cube.places.get(at)?.get(place).cloned()
}

/// All members of one axis, in order of appearance.
pub(crate) struct Members {
    axis: Axis,
    labels: Vec<String>,
    places: HashMap<String, usize>,
}

/// What is left of them, in the order of the table.
pub(crate) struct Order {
    pub(crate) shown: Vec<Member>,
    now: Vec<usize>,
}

impl Order {
    /// Where the member that came as this one stands.
    pub(crate) fn now(&self, came: usize) -> usize {
        self.now.get(came).copied().unwrap_or(0)
    }
}

impl Members {
    pub(crate) fn new(axis: Axis) -> Self {
        Self { axis, labels: Vec::new(), places: HashMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    pub(crate) fn place(&mut self, label: String) -> usize {
        if let Some(known) = self.places.get(&label) {
            return *known;
        }
        self.labels.push(label.clone());
        self.places.insert(label, self.labels.len() - 1);
        self.labels.len() - 1
    }

    /// Puts them in order; of more than `most` the largest stay, and the others are one. What is no member proper always stays.
    pub(crate) fn order(&self, wholes: &[i64], most: usize) -> Order {
        let whole = |at: usize| Reverse(wholes.get(at).copied().unwrap_or(0));
        let is_proper = |at: &usize| rank(self.label(*at)) == 0;
        let mut by_size: Vec<usize> = (0..self.labels.len()).filter(is_proper).collect();
        by_size.sort_by_key(|at| (whole(*at), self.labels.get(*at)));
        by_size.truncate(most);
        let mut shown = by_size;
        shown.extend((0..self.labels.len()).filter(|at| !is_proper(at)));
        match self.axis {
            Axis::Category | Axis::Kernel => shown.sort_by_key(|at| rank(self.label(*at))),
            Axis::Run => shown.sort(),
            _ => shown.sort_by_key(|at| (rank(self.label(*at)), natural(self.label(*at)))),
        }
        let mut now = vec![shown.len(); self.labels.len()];
        for (new, came) in shown.iter().enumerate() {
            now.get_mut(*came).into_iter().for_each(|slot| *slot = new);
        }
        let others = self.labels.len() - shown.len();
        let mut shown: Vec<Member> = shown.into_iter().map(|at| Member::Named(self.label(at).to_owned())).collect();
        if others > 0 {
            shown.push(Member::Others(others));
        }
        Order { shown, now }
    }

    fn label(&self, at: usize) -> &str {
        self.labels.get(at).map_or("", String::as_str)
    }
}

/// What is no member proper stands behind those that are.
fn rank(label: &str) -> u8 {
    match label {
        SHARED => 1,
        CPU => 2,
        OUTSIDE | UNKNOWN | NOT_HELD => 3,
        _ => 0,
    }
}

/// Stages in the order of tables, then numbers in words as numbers: `step 2 decode` before `step 10 decode`.
fn natural(label: &str) -> (usize, Vec<(String, u64)>) {
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

    fn shown(axis: Axis, labels: &[&str], wholes: &[i64], most: usize) -> Vec<String> {
        let mut members = Members::new(axis);
        labels.iter().for_each(|label| {
            members.place((*label).to_owned());
        });
        let shown = members.order(wholes, most).shown;
        shown
            .into_iter()
            .map(|member| match member {
                Member::Named(name) => name,
                Member::Others(count) => format!("+{count}"),
            })
            .collect()
    }

    #[test]
    fn what_has_an_order_keeps_it_and_the_rest_goes_by_size() {
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
    fn of_too_many_the_largest_stay_in_their_order() {
        let gpus = ["GPU 0", "GPU 1", "GPU 2", "GPU 10"];
        assert_eq!(shown(Axis::Device, &gpus, &[1, 5, 4, 5], 2), ["GPU 1", "GPU 10", "+2"]);
        assert_eq!(shown(Axis::Device, &gpus, &[1, 5, 4, 5], 4), gpus);
    }
}
