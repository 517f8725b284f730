//! The loads of a start of a program, from their sums.

use crate::digits::grouped;
use crate::trace::LoadSum;
use crate::words::time_of;

/// `cudaLaunchKernel (first launches) 690.9 ms (20)`
pub(crate) fn load(sum: &LoadSum) -> String {
    let kind = if sum.is_launch { " (first launches)" } else { "" };
    let count = if sum.count > 1 { format!(" ({})", grouped(sum.count)) } else { String::new() };
    format!("{}{kind} {}{count}", sum.name, time_of(sum.time))
}
