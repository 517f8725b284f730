//! Derives findings from the rows and figures of all other sections, sorted by cost,
//! Cost: O(rows of the sections), plus one pass over the kernel names.
//!
//! The cost of a finding is an upper bound on the time that fixing it could save: GPU time in which the device
//! idles, only communicates or runs one kernel, or host time in which a thread is blocked. Two findings can
//! include the same time, so their costs do not add up.

use crate::analysis::context::Context;
use crate::analysis::labels;
use crate::analysis::section::{Record, Section, Sections, Value};
use crate::digits::grouped;
use crate::ordering;
use crate::rules::names;
use crate::rules::signals::Thresholds;
use crate::trace::NameId;

/// The severity of a finding, by thresholds on its share of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    Low,
    Medium,
    High,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// High if the share is at least `high`, medium if it is at least `medium`, otherwise `None`.
    fn from_share(share: f64, medium: f64, high: f64) -> Option<Self> {
        match share {
            share if share >= high => Some(Self::High),
            share if share >= medium => Some(Self::Medium),
            _ => None,
        }
    }
}

struct Finding {
    severity: Severity,
    title: String,
    cost_ms: f64,
    evidence: String,
    action: &'static str,
    /// The section with the evidence.
    section: &'static str,
}

const COLUMNS: &[&str] = &["severity", "title", "cost_ms", "evidence", "action", "section"];

/// Evaluates all rules and lists the findings by cost, each with an action.
pub(crate) fn findings(context: &Context, sections: &Sections) -> Section {
    let ids = (0..).map(NameId).take(context.trace.names.len());
    let communication_kernels =
        ids.filter(|id| context.is_communication(*id)).map(|id| labels::kernel(context.trace, id)).collect();
    let rules = Rules { sections, thresholds: &context.signals.thresholds, communication_kernels };
    let idle_ms = context.survey().idle_while_blocked.0 as f64 / 1e6;
    let results = [
        rules.idle(),
        rules.exposed_communication(),
        rules.straggler(),
        rules.top_kernel(),
        rules.copies(),
        rules.launch_storm(),
        rules.synchronization(idle_ms),
        rules.blocking_copies(),
        rules.phase(),
        hidden_graphs(context),
        rules.uncovered(),
    ];
    let mut findings: Vec<Finding> = results.into_iter().flatten().collect();
    ordering::sort_by(&mut findings, |a, b| b.cost_ms.total_cmp(&a.cost_ms).then(b.severity.cmp(&a.severity)));
    let mut section = Section::new("Findings", "all other sections", COLUMNS)
        .limit("The cost is an upper bound on the time that a fix could save. Two findings can include the same time.");
    for finding in findings {
        section.row([
            finding.severity.name().into(),
            finding.title.into(),
            finding.cost_ms.into(),
            finding.evidence.into(),
            finding.action.into(),
            finding.section.into(),
        ]);
    }
    section
}

/// One method per rule, each with the finding or `None`.
struct Rules<'a> {
    sections: &'a Sections,
    thresholds: &'a Thresholds,
    /// Labels of the communication kernels.
    communication_kernels: Vec<Value>,
}

impl<'a> Rules<'a> {
    fn section(&self, name: &str) -> Option<&'a Section> {
        self.sections.get(name).filter(|section| section.missing.is_none())
    }

    fn idle(&self) -> Option<Finding> {
        let row = max_row(self.section("gpu_idle"), "idle_pct_of_window")?;
        let share = row.amount("idle_pct_of_window");
        let idle_ms = row.amount("idle_ms") - row.amount("unseen_ms");
        let severity = Severity::from_share(share / 100.0, self.thresholds.idle_medium, self.thresholds.idle_high)?;
        let pct_of_idle = |column: &str| if idle_ms > 0.0 { 100.0 * row.amount(column) / idle_ms } else { 0.0 };
        let host = pct_of_idle("host_late_ms") + pct_of_idle("drained_ms");
        let reason = if pct_of_idle("unknown_ms") > 50.0 {
            "the trace does not show the cause".to_owned()
        } else {
            format!("{host:.0} % of the idle time waits for a launch")
        };
        let action = if host >= 50.0 {
            "The GPU waits for the host. Use CUDA graphs, move work off the launching thread, and check the barriers \
             for what blocks it."
        } else {
            "Check what the host and the other streams did during the longest gaps."
        };
        Some(Finding {
            severity,
            title: "The GPU is idle for a large part of the window".to_owned(),
            cost_ms: idle_ms,
            evidence: format!(
                "GPU {} is idle for {share:.1} % of its window ({} of {}); {reason}",
                row.words("device_id"),
                format_time(idle_ms),
                format_time(row.amount("window_ms"))
            ),
            action,
            section: "gpu_idle",
        })
    }

    fn exposed_communication(&self) -> Option<Finding> {
        let section = self.section("nccl_ops")?;
        // Collectives that overlap have the same exposed time in each row. The figures count it once.
        let exposed_ms = section.summary.amount("exposed_ms");
        let share = section.summary.amount("exposed_pct_of_window") / 100.0;
        let medium = self.thresholds.exposed_communication;
        let severity = Severity::from_share(share, medium, 4.0 * medium)?;
        let row = max_row(Some(section), "exposed_ms")?;
        Some(Finding {
            severity,
            title: "Communication not overlapped with compute".to_owned(),
            cost_ms: exposed_ms,
            evidence: format!(
                "only communication runs for {}, {:.1} % of the devices' windows; the largest part is {}, of which \
                 {:.1} % overlaps compute",
                format_time(exposed_ms),
                100.0 * share,
                row.words("op_name"),
                row.amount("compute_overlap_pct")
            ),
            action: "Overlap it with compute on another stream, fuse it with adjacent kernels (all-reduce \
                             with norm), or send smaller or fewer messages.",
            section: "nccl_ops",
        })
    }

    fn straggler(&self) -> Option<Finding> {
        let row = max_row(self.section("nccl_rank_skew"), "skew_vs_median_pct")?;
        let skew = row.amount("skew_vs_median_pct");
        let severity = Severity::from_share(skew / 100.0, self.thresholds.skew, 5.0 * self.thresholds.skew)?;
        let total_ms = row.amount("total_time_ms");
        Some(Finding {
            severity,
            title: "One rank spends longer in a collective than the others".to_owned(),
            cost_ms: total_ms - total_ms / (1.0 + skew / 100.0),
            evidence: format!(
                "{} spends {} in {}, {skew:.0} % above the median rank",
                row.words("rank_label"),
                format_time(total_ms),
                row.words("op_name")
            ),
            action: "The rank that waits longest arrives first. Find out what delays the others: uneven work \
                             or a slow host.",
            section: "nccl_rank_skew",
        })
    }

    fn top_kernel(&self) -> Option<Finding> {
        let section = self.section("kernels")?;
        // The action, to profile one kernel or choose another backend, does not apply to communication.
        let is_compute =
            |row: &&Record| row.get("kernel_name").is_none_or(|name| !self.communication_kernels.contains(name));
        // A kernel has one row per device.
        let first = section.rows.iter().find(is_compute)?;
        let name = first.words("kernel_name");
        let rows: Vec<&Record> = section.rows.iter().filter(|row| row.words("kernel_name") == name).collect();
        let share: f64 = rows.iter().map(|row| row.amount("pct_total_kernel_time")).sum();
        let cost_ms: f64 = rows.iter().map(|row| row.amount("total_time_ms")).sum();
        // If copies take most of the busy time, a large share of kernel time is still a small share of busy time.
        let share_of_busy = self.busy_ms().map_or(1.0, |busy| cost_ms / busy);
        let (medium, high) = (self.thresholds.top_kernel_medium, self.thresholds.top_kernel_high);
        let severity = Severity::from_share(share_of_busy.min(share / 100.0), medium, high)?;
        Some(Finding {
            severity,
            title: "One kernel takes a large share of kernel time".to_owned(),
            cost_ms,
            evidence: format!(
                "{share:.1} % of kernel time, {}: {}",
                format_time(cost_ms),
                names::short(&names::demangle(&name))
            ),
            action: "Profile this kernel with Nsight Compute or rocprof-compute, or try a faster backend for \
                             its shapes.",
            section: "kernels",
        })
    }

    /// Copies to or from the host, in the direction that takes longer.
    fn copies(&self) -> Option<Finding> {
        let summary = &self.section("copy_engine_events")?.summary;
        let figure = |direction: &str, name: &str| summary.amount(&format!("{direction}_{name}"));
        let directions = [("h2d", "from host to device"), ("d2h", "from device to host")];
        let (direction, words) =
            directions.into_iter().max_by(|a, b| figure(a.0, "busy_ms").total_cmp(&figure(b.0, "busy_ms")))?;
        let cost_ms = figure(direction, "busy_ms");
        let share = cost_ms / self.busy_ms()?;
        let severity = Severity::from_share(share, self.thresholds.copies_medium, self.thresholds.copies_high)?;
        Some(Finding {
            severity,
            title: format!("Copies {words} take much of the GPU's busy time"),
            cost_ms,
            evidence: format!(
                "{} in {:.0} cop{}, {:.1} % of busy time{}",
                format_time(cost_ms),
                figure(direction, "count"),
                if figure(direction, "count") == 1.0 { "y" } else { "ies" },
                100.0 * share,
                match figure(direction, "bytes") {
                    0.0 => String::new(),
                    bytes => format!("; {:.2} GB at {:.1} GB/s", bytes / 1e9, figure(direction, "gb_per_s")),
                }
            ),
            action: "Keep weights and caches on the GPU instead of offloading them, use pinned host memory, \
                             and copy on a separate stream while kernels run.",
            section: "copy_engine_events",
        })
    }

    /// Busy time summed over all devices; `None` if it is unknown or zero.
    fn busy_ms(&self) -> Option<f64> {
        let rows = &self.section("gpu_idle")?.rows;
        let busy = rows.iter().fold(0.0, |sum, row| sum + row.amount("busy_ms"));
        (busy > 0.0).then_some(busy)
    }

    /// Checks each process separately, because processes launch in parallel. Skips processes with few kernels,
    /// and those with few host launches per second, whose kernels come from graph replays.
    fn launch_storm(&self) -> Option<Finding> {
        let rows = &self.section("launch_storm_by_pid")?.rows;
        let min_launches_per_s =
            self.thresholds.launch_storm.iter().map(|storm| storm.launches_per_s).fold(f64::MAX, f64::min);
        let is_storm = |row: &&Record| {
            let is_replayed =
                row.amount("host_launches") > 0.0 && row.amount("host_launches_per_s") < min_launches_per_s;
            let is_small = row.amount("total_launches") < self.thresholds.launch_storm_min;
            row.get("is_launch_storm") == Some(&Value::Bool(true)) && !is_replayed && !is_small
        };
        let row = rows.iter().find(is_storm)?;
        let (rate, median) = (row.amount("launches_per_s"), row.amount("median_kernel_us"));
        let (process, section) = match rows.len() {
            1 => (String::new(), "launch_storm"),
            _ => (format!("process {}: ", row.words("pid")), "launch_storm_by_pid"),
        };
        let idle = max_row(self.section("gpu_idle"), "idle_ms");
        Some(Finding {
            severity: Severity::High,
            title: "Launch storm of very short kernels".to_owned(),
            cost_ms: idle.map_or(0.0, |row| row.amount("host_late_ms") + row.amount("drained_ms")),
            evidence: format!(
                "{process}{} kernels per second with a median of {median:.1} us",
                grouped(rate.round() as u64)
            ),
            action: "Fuse them (torch.compile, fused ops), use larger batches, or replay them as a CUDA graph.",
            section,
        })
    }

    /// `idle_ms` is the part of the blocked host time in which no GPU works.
    fn synchronization(&self, idle_ms: f64) -> Option<Finding> {
        let section = self.section("sync")?;
        // The figure counts a driver call within a runtime call once.
        let total_ms = section.summary.amount("sync_total_time_ms");
        let calls = section.rows.iter().fold(0.0, |sum, row| sum + row.amount("call_count"));
        let row = section.rows.first().filter(|_| idle_ms >= self.thresholds.synchronize_min_ms)?;
        let severity = if idle_ms >= self.thresholds.synchronize_medium_ms { Severity::Medium } else { Severity::Low };
        Some(Finding {
            severity,
            title: "The host waits for the GPU".to_owned(),
            cost_ms: idle_ms,
            evidence: format!(
                "{calls:.0} blocking call{}, {} of host time, most of it in {}; for {} a thread was blocked while all \
                 GPUs were idle",
                if calls == 1.0 { "" } else { "s" },
                format_time(total_ms),
                row.words("api_name"),
                format_time(idle_ms)
            ),
            action: "Blocked host time matters if it leaves the GPU idle. Remove .item(), .cpu() and \
                             explicit synchronization from the loop, or schedule the next step in the meantime.",
            section: "sync",
        })
    }

    fn blocking_copies(&self) -> Option<Finding> {
        let rows = &self.section("barriers")?.rows;
        let copies = || rows.iter().filter(|row| row.words("barrier_kind") == "blocking_memcpy");
        let total_ms: f64 = copies().map(|row| row.amount("total_time_ms")).sum();
        let row = copies().next().filter(|_| total_ms >= self.thresholds.synchronize_medium_ms)?;
        Some(Finding {
            severity: Severity::Medium,
            title: "Copies that block the host".to_owned(),
            cost_ms: total_ms,
            evidence: format!("{} of host time in {}", format_time(total_ms), row.words("api_name")),
            action: "Use pinned memory and non_blocking=True, and copy once per step instead of once per \
                             tensor.",
            section: "barriers",
        })
    }

    fn phase(&self) -> Option<Finding> {
        let section = self.section("phase_split")?;
        let row = section.rows.iter().find(|row| row.words("phase") != "unclassified")?;
        // If the trace has only one phase, the share is not informative.
        let is_other = |phase: &str| phase != row.words("phase") && phase != "unclassified";
        section.rows.iter().find(|other| is_other(&other.words("phase")) && other.amount("total_time_ms") > 0.0)?;
        let by_kernels = section.summary.words("source") == "nvtx_kernel_time";
        let base = if by_kernels { "all kernel time" } else { "the time in which a range is open" };
        let share = row.amount("pct_of_total");
        (share / 100.0 >= self.thresholds.phase_dominates).then(|| Finding {
            severity: Severity::Low,
            title: format!("Most of the time is spent in {}", row.words("phase")),
            cost_ms: row.amount("total_time_ms"),
            evidence: format!("{share:.1} % of {base}"),
            action: "Tune this phase first. Improving another phase cannot change the total much.",
            section: "phase_split",
        })
    }

    fn uncovered(&self) -> Option<Finding> {
        let section = self.section("nvtx_kernel_time")?;
        let covered = section.summary.amount("coverage_fraction");
        (covered < self.thresholds.nvtx_coverage).then(|| Finding {
            severity: Severity::Low,
            title: "Much kernel time is not covered by any range".to_owned(),
            cost_ms: 0.0,
            evidence: format!("{:.1} % of kernel time is attributed to a range", 100.0 * covered),
            action:
                "The tables of ranges and phases cover only this part. Mark the steps of every process with ranges.",
            section: "nvtx_kernel_time",
        })
    }
}

/// Graph-level tracing records each replay as one interval without its kernels.
fn hidden_graphs(context: &Context) -> Option<Finding> {
    let replays = &context.trace.graph_replays;
    if replays.is_empty() {
        return None;
    }
    let total_ns = replays.iter().fold(0_i64, |sum, replay| sum.saturating_add(replay.duration.0));
    Some(Finding {
        severity: Severity::High,
        title: "CUDA graphs were traced as a whole, which hides their kernels".to_owned(),
        cost_ms: total_ns as f64 / 1e6,
        evidence: format!("the kernels of {} graph replays are missing", grouped(replays.len() as u64)),
        action: "Capture again with `--cuda-graph-trace=node`.",
        section: "gpu_idle",
    })
}

/// Formats a time in s, ms or us.
fn format_time(ms: f64) -> String {
    match ms {
        ms if ms >= 1e3 => format!("{:.2} s", ms / 1e3),
        ms if ms >= 1.0 => format!("{ms:.1} ms"),
        ms => format!("{:.1} us", ms * 1e3),
    }
}

/// The row with the largest value in this column.
fn max_row<'a>(section: Option<&'a Section>, column: &str) -> Option<&'a Record> {
    section?.rows.iter().max_by(|a, b| a.amount(column).total_cmp(&b.amount(column)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::{ALLGATHER, ALLREDUCE, KINDS, number, row, words};
    use crate::trace::testing::TestTrace;

    fn findings_of(trace: &mut TestTrace) -> Section {
        trace.sections().remove("findings").unwrap()
    }

    #[test]
    fn exposed_time_of_overlapping_collectives_counts_once() {
        let mut trace = TestTrace::nsys();
        trace.in_us().kernel(KINDS[ALLREDUCE], 0..1_000).kernel(KINDS[ALLGATHER], 0..1_000);
        let section = findings_of(trace.kernel("gemm", 1_000..4_000));
        let finding = row(&section, "title", "Communication not overlapped with compute");
        assert_eq!((number(finding, "cost_ms"), words(finding, "severity")), (1.0, "high"));
        assert!(words(finding, "evidence").contains("25.0 % of the devices' windows"), "{finding:?}");
    }

    /// The threshold of a storm is 50,000 kernels a second. Two processes with 40,000 each are below it, although
    /// their sum is not.
    #[test]
    fn launch_storms_are_detected_per_process() {
        let storm = |pauses_us: [usize; 2]| {
            let mut trace = TestTrace::nsys();
            trace.in_us();
            for (device, pause_us) in (0..).zip(pauses_us) {
                trace.device(device).process(5 + device);
                for start in (0..20_000).step_by(pause_us) {
                    trace.kernel("k", start..start + 2);
                }
            }
            let section = findings_of(&mut trace);
            let storm = section.rows.iter().find(|row| words(row, "title") == "Launch storm of very short kernels");
            storm.map(|row| (words(row, "evidence").to_owned(), words(row, "section").to_owned()))
        };
        assert_eq!(storm([25, 25]), None, "40,000 kernels a second each");
        let (evidence, section) = storm([100, 5]).unwrap();
        assert!(
            evidence.starts_with("process 6: 200,0") && evidence.ends_with("with a median of 2.0 us"),
            "{evidence}"
        );
        assert_eq!(section, "launch_storm_by_pid");
    }

    #[test]
    fn long_copies_are_a_finding_and_hide_a_short_top_kernel() {
        let mut trace = TestTrace::nsys();
        // The second copy overlaps the first one, so its time counts once.
        trace.in_us().kernel("[CUDA memcpy Host-to-Device]", 0..8_000);
        trace.kernel("[CUDA memcpy Host-to-Device]", 1_000..7_000).kernel("gemm", 8_000..10_000);
        let section = findings_of(&mut trace);
        let finding = row(&section, "title", "Copies from host to device take much of the GPU's busy time");
        assert_eq!((number(finding, "cost_ms"), words(finding, "severity")), (8.0, "high"));
        assert_eq!(words(finding, "evidence"), "8.0 ms in 2 copies, 80.0 % of busy time");
        let has_kernel_finding = |section: &Section| section.rows.iter().any(|row| words(row, "section") == "kernels");
        assert!(!has_kernel_finding(&section), "all of kernel time, but a fifth of busy time");
        trace.in_us().kernel("[CUDA memcpy Device-to-Host]", 0..1_000).kernel("gemm", 1_000..10_000);
        let section = findings_of(&mut trace);
        assert!(has_kernel_finding(&section) && !section.rows.iter().any(|row| words(row, "title").contains("Copies")));
    }

    #[test]
    fn short_waits_and_communication_kernels_are_not_findings() {
        let mut trace = TestTrace::nsys();
        // The host is blocked, but the GPU is idle for only 5 us of that time.
        trace.in_us().call("cudaStreamSynchronize_v3020", 0..3_000);
        trace.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 0..1_000);
        let section = findings_of(trace.kernel("gemm", 1_005..1_400).kernel("norm", 1_400..1_500));
        assert!(!section.rows.iter().any(|row| words(row, "title") == "The host waits for the GPU"), "{section:?}");
        let kernel = row(&section, "title", "One kernel takes a large share of kernel time");
        assert_eq!(words(kernel, "evidence"), "26.4 % of kernel time, 395.0 us: gemm");
    }

    #[test]
    fn a_driver_call_within_a_runtime_call_counts_once() {
        let mut trace = TestTrace::nsys();
        trace.call("cudaStreamSynchronize_v3020", 0..3_000_000).call("cuStreamSynchronize", 100..2_999_900);
        let section = findings_of(trace.kernel("k", 0..1_000).kernel("k", 3_000_100..3_000_200));
        let finding = row(&section, "title", "The host waits for the GPU");
        assert!(words(finding, "evidence").contains("blocking calls, 3.0 ms of host time"), "{finding:?}");
    }
}
