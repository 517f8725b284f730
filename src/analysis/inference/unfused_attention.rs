//! Attention in separate kernels: a matrix product, a softmax and a matrix product, several times on one device. One sweep
//! over the ops, only if a softmax ran.

use super::kernel_roles::NameRole;
use crate::analysis::context::Context;
use crate::json::from_json;
use crate::ordering::VecMap;
use crate::rules::names;
use crate::trace::{GpuOp, NameId, Ns, OpKind};
use std::collections::VecDeque;

/// The rule of `patterns/unsuited_kernels.json`.
#[derive(Debug)]
pub(super) struct UnfusedRule {
    pub(super) problem: String,
    /// Words in names of softmax kernels that attention uses.
    softmax: Vec<String>,
    /// Words in names of other softmax kernels, such as those of a loss.
    not_softmax: Vec<String>,
    /// Words in names of kernels that do not run between the softmax of attention and its second product.
    broken_by: Vec<String>,
    /// Maximum distance of a product from the softmax in kernels.
    window: u64,
    min_count: u64,
    pub(super) min_share_pct: f64,
    pub(super) confidence: String,
    pub(super) advice: String,
}
from_json!(strict UnfusedRule {
    problem, softmax, not_softmax, broken_by, window, min_count, min_share_pct, confidence, advice
});

/// The attention of all devices.
#[derive(Debug, Default)]
pub(super) struct Unfused {
    /// Number of softmax kernels with their products.
    pub(super) count: u64,
    /// Time of these kernels and products.
    pub(super) total: Ns,
    pub(super) names: VecMap<NameId, Ns>,
    /// Their rows, sorted.
    pub(super) rows: Vec<u32>,
}

/// The part of a kernel in attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Product,
    Softmax,
    Breaks,
    Other,
}

impl UnfusedRule {
    fn part(&self, name: &str, role: NameRole) -> Part {
        let name = names::demangle(name).to_ascii_lowercase();
        let has = |words: &[String]| words.iter().any(|word| name.contains(word.as_str()));
        match role {
            _ if has(&self.broken_by) => Part::Breaks,
            NameRole::Gemm | NameRole::Experts => Part::Product,
            NameRole::Sampling | NameRole::Embedding => Part::Breaks,
            _ if has(&self.softmax) && !has(&self.not_softmax) && !is_log_softmax(&name) => Part::Softmax,
            _ => Part::Other,
        }
    }
}

/// The fifth argument of PyTorch's template states whether the kernel computes the logarithm, which a loss needs.
fn is_log_softmax(name: &str) -> bool {
    let Some((_, arguments)) = name.split_once("softmax_warp_forward<") else { return false };
    arguments.split(',').nth(4).is_some_and(|argument| matches!(argument.trim(), "true" | "(bool)1"))
}

/// The sweep over the kernels of one device.
#[derive(Debug, Default)]
struct Lane {
    /// The number of kernels so far.
    index: u64,
    /// Number and row of the last product.
    product: Option<(u64, u32)>,
    /// Numbers and rows of the softmax kernels that wait for their second product; at most one per kernel of the window.
    waiting: VecDeque<(u64, u32)>,
    count: u64,
    rows: Vec<u32>,
}

impl Lane {
    fn add(&mut self, row: u32, part: Part, window: u64) {
        self.index += 1;
        match part {
            Part::Breaks => self.waiting.clear(),
            Part::Softmax => {
                while self.waiting.front().is_some_and(|(index, _)| self.index - index > window) {
                    self.waiting.pop_front();
                }
                if self.product.is_some_and(|(index, _)| self.index - index <= window) {
                    self.waiting.push_back((self.index, row));
                }
            }
            Part::Product => {
                let before = self.product.replace((self.index, row)).map(|(_, row)| row);
                let is_near = |(index, _): &(u64, u32)| self.index - index <= window;
                let softmax: Vec<u32> = self.waiting.drain(..).filter(is_near).map(|(_, row)| row).collect();
                if !softmax.is_empty() {
                    self.count += softmax.len() as u64;
                    self.rows.extend(before.into_iter().chain(softmax).chain([row]));
                }
            }
            Part::Other => {}
        }
    }
}

/// Finds attention on all devices; `None` if no device has enough of it.
pub(super) fn find(context: &Context, rule: &UnfusedRule) -> Option<Unfused> {
    let trace = context.trace;
    let part = |(id, name)| rule.part(name, context.name_roles().get(id));
    let parts: Vec<Part> = (0..).map(NameId).zip(trace.names.iter()).map(part).collect();
    if !parts.contains(&Part::Softmax) {
        return None;
    }
    let mut lanes: Vec<Lane> = trace.devices.iter().map(|_| Lane::default()).collect();
    for (row, op) in (0..).zip(trace.gpu_ops.iter()).filter(|(_, op)| op.kind == OpKind::Kernel) {
        let part = parts.get(op.name.0 as usize).copied().unwrap_or(Part::Other);
        let lane = lanes.get_mut(op.device.0 as usize);
        lane.into_iter().for_each(|lane| lane.add(row, part, rule.window));
    }
    lanes.retain(|lane| lane.count >= rule.min_count);
    let mut found = Unfused { count: lanes.iter().map(|lane| lane.count).sum(), ..Unfused::default() };
    found.rows = lanes.into_iter().flat_map(|lane| lane.rows).collect();
    found.rows.sort_unstable();
    // A product can be the second of one attention and the first of the next.
    found.rows.dedup();
    for op in found.rows.iter().filter_map(|row| trace.gpu_ops.get(*row as usize)) {
        let GpuOp { name, duration, .. } = op;
        found.total += duration;
        found.names.update(name, Ns::ZERO, |total| *total += duration);
    }
    (found.count > 0 && !found.names.iter().any(|(name, _)| context.shifted_durations().affects(*name)))
        .then_some(found)
}
