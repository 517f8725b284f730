//! The code of a thread in an interval as a tree of calls with their times. Calls of the same code from the same callers count as one.

use super::code;
use crate::ordering;
use crate::trace::{CodeEvent, CodeKind, HostInterval, NameId, Ns, Trace};
use foldhash::fast::RandomState;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Functions and ops of a thread in an interval.
#[derive(Debug, Default)]
pub(super) struct CallTree<'a> {
    /// The code around all of it that ran nothing else in the interval, outermost first.
    pub(super) callers: Vec<&'a str>,
    /// What ran, each before what it called; of the same caller, the longest first.
    pub(super) rows: Vec<CallRow<'a>>,
    /// The number of rows before the shortest were left out.
    pub(super) rows_in_all: usize,
    /// The time in which any code ran.
    pub(super) total: Ns,
}

/// Calls of the same code from the same callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallRow<'a> {
    pub(super) name: &'a str,
    /// The number of callers in [`CallTree::rows`].
    pub(super) depth: usize,
    /// With what it called.
    pub(super) total: Ns,
    /// Without what it called.
    pub(super) own: Ns,
}

/// A node of the tree. Its callers have lower indices.
#[derive(Debug)]
struct Node {
    event: CodeEvent,
    children: Vec<usize>,
    total: Ns,
    own: Ns,
}

impl<'a> CallTree<'a> {
    /// The code that ran on the thread of an interval, at most `max_rows` rows. Reads the code near the interval and sorts it.
    pub(super) fn of(trace: &'a Trace, interval: HostInterval, max_rows: usize) -> Self {
        let (nodes, mut tops) = nodes(interval, code::in_interval(trace, interval));
        let total = sum(&nodes, &tops);
        let mut callers = Vec::new();
        while let Some(only) = only_caller(&nodes, &tops) {
            callers.push(code::name(trace, only.event));
            tops.clone_from(&only.children);
        }
        let mut rows = Vec::new();
        let mut open: Vec<(usize, usize)> = Vec::new();
        push_longest_last(&nodes, &tops, 0, &mut open);
        while let Some((index, depth)) = open.pop() {
            let Some(node) = nodes.get(index) else { continue };
            rows.push(CallRow { name: code::name(trace, node.event), depth, total: node.total, own: node.own });
            push_longest_last(&nodes, &node.children, depth + 1, &mut open);
        }
        let rows_in_all = rows.len();
        Self { callers, rows: longest(rows, max_rows), rows_in_all, total }
    }
}

fn sum(nodes: &[Node], of: &[usize]) -> Ns {
    of.iter().filter_map(|index| nodes.get(*index)).fold(Ns::ZERO, |sum, node| sum + node.total)
}

/// The only one of these nodes, if it ran nothing itself and called code.
fn only_caller<'n>(nodes: &'n [Node], of: &[usize]) -> Option<&'n Node> {
    let [only] = of else { return None };
    nodes.get(*only).filter(|node| node.own == Ns::ZERO && !node.children.is_empty())
}

fn push_longest_last(nodes: &[Node], of: &[usize], depth: usize, open: &mut Vec<(usize, usize)>) {
    let mut sorted: Vec<usize> = of.to_vec();
    let total = |index: &usize| nodes.get(*index).map_or(Ns::ZERO, |node| node.total);
    ordering::sort_by_key(&mut sorted, |index| (total(index), Reverse(*index)));
    open.extend(sorted.into_iter().map(|index| (index, depth)));
}

/// The longest rows in their order. A caller is no shorter than what it calls and comes before it, so it is kept with it.
fn longest(rows: Vec<CallRow<'_>>, max: usize) -> Vec<CallRow<'_>> {
    let mut by_time: Vec<usize> = (0..rows.len()).collect();
    ordering::sort_by_key(&mut by_time, |index| Reverse(rows.get(*index).map(|row| row.total)));
    by_time.truncate(max);
    by_time.sort_unstable();
    by_time.into_iter().filter_map(|index| rows.get(index).copied()).collect()
}

/// The nodes, and those without callers. Code that outlasts its caller is cut at the end of this.
fn nodes(interval: HostInterval, mut events: Vec<CodeEvent>) -> (Vec<Node>, Vec<usize>) {
    let (mut nodes, mut tops): (Vec<Node>, Vec<usize>) = Default::default();
    let mut known: HashMap<(Option<usize>, bool, NameId), usize, RandomState> = HashMap::default();
    // The nodes of the open code, with their ends.
    let mut open: Vec<(usize, Ns)> = Vec::new();
    ordering::sort_by_key(&mut events, |event| event.nesting_order());
    for event in events {
        while open.pop_if(|(_, end)| *end <= event.time.start).is_some() {}
        let caller = open.last().copied();
        let end = event.time.end.min(caller.map_or(interval.end, |(_, end)| end)).min(interval.end);
        let time = end.since(event.time.start.max(interval.start));
        if time <= Ns::ZERO {
            continue;
        }
        let caller = caller.map(|(caller, _)| caller);
        let index = *known.entry((caller, event.kind == CodeKind::Function, event.name)).or_insert(nodes.len());
        if index == nodes.len() {
            nodes.push(Node { event, children: Vec::new(), total: Ns::ZERO, own: Ns::ZERO });
            match caller.and_then(|caller| nodes.get_mut(caller)) {
                Some(caller) => caller.children.push(index),
                None => tops.push(index),
            }
        }
        for (index, own, total) in [(Some(index), time, time), (caller, Ns(-time.0), Ns::ZERO)] {
            let Some(node) = index.and_then(|index| nodes.get_mut(index)) else { continue };
            (node.own, node.total) = (node.own + own, node.total + total);
        }
        open.push((index, end));
    }
    (nodes, tops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::ThreadId;
    use crate::trace::testing::TestTrace;

    fn tree_of(trace: &Trace, start: i64, end: i64, max_rows: usize) -> Vec<(String, usize, i64, i64)> {
        let interval = HostInterval { thread: ThreadId(0), start: Ns(start), end: Ns(end) };
        let rows = CallTree::of(trace, interval, max_rows).rows.into_iter();
        rows.map(|row| (row.name.to_owned(), row.depth, row.total.0, row.own.0)).collect()
    }

    /// `main` calls `loop` all the time, which calls `prepare` twice and an op.
    fn looped() -> Trace {
        let mut trace = TestTrace::coded();
        trace.frame("e.py(1): main", 0..1_000).frame("e.py(2): loop", 10..900).frame("e.py(3): prepare", 20..40);
        trace.cpu_op("aten::mm", 50..80, 1).frame("e.py(3): prepare", 100..200).cpu_op("aten::item", 150..180, 2);
        trace.frame("<built-in method sleep>", 110..120);
        trace.launch(890..895).launches("k", 2_000..2_010).finish()
    }

    #[test]
    fn calls_of_the_same_code_count_as_one_and_outer_code_without_own_time_is_apart() {
        let trace = looped();
        let row = |name: &str, depth, total, own| (name.to_owned(), depth, total, own);
        // Of 30..170, the op has 30 and `prepare` 10 + 70, of which 20 are those of its op.
        let expected = [
            row("e.py(2): loop", 0, 140, 30),
            row("e.py(3): prepare", 1, 80, 60),
            row("aten::item", 2, 20, 20),
            row("aten::mm", 1, 30, 30),
        ];
        assert_eq!(tree_of(&trace, 30, 170, 10), expected);
        assert_eq!(tree_of(&trace, 30, 170, 2), expected[..2], "the longest");
        let interval = HostInterval { thread: ThreadId(0), start: Ns(30), end: Ns(170) };
        let tree = CallTree::of(&trace, interval, 2);
        assert_eq!((tree.callers, tree.rows_in_all, tree.total), (vec!["e.py(1): main"], 4, Ns(140)));
    }

    #[test]
    fn code_that_outlasts_its_caller_is_cut_so_that_times_add_up() {
        let mut trace = TestTrace::coded();
        trace.frame("e.py(1): a", 0..100).frame("e.py(2): b", 50..150);
        let trace = trace.launch(0..5).launches("k", 200..210).finish();
        let row = |name: &str, depth, total, own| (name.to_owned(), depth, total, own);
        assert_eq!(tree_of(&trace, 0, 150, 9), [row("e.py(1): a", 0, 100, 50), row("e.py(2): b", 1, 50, 50)]);
        assert!(tree_of(&trace, 150, 200, 9).is_empty() && tree_of(&trace, 10, 10, 9).is_empty());
    }
}
