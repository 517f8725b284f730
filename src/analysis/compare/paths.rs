//! Explains the change of a step by the difference of the two critical paths. From the sections `critical_path` and `replay_trust`;
//! linear in their rows.
//!
//! The parts of a path add up to the mean step of its window, so the rows of a stage add up to the change of that step. A part that only
//! one run has, such as a kernel of another name, is empty on the other side.

use super::Candidate;
use crate::analysis::replay::sections::{CriticalPathRow, CriticalPathRows, PathKind, ReplayTrust};
use crate::analysis::results::Run;
use crate::analysis::section::{Answer, Ms, TypedSection, section};
use crate::analysis::structure::stages::Stage;
use crate::ordering;

section! {
    /// One row per run, stage and part of the critical path, the largest change first.
    pub(crate) struct ComparePaths("compare_paths", "Changes on the critical path");
    row ComparePathRow {
        run: String,
        stage: Stage,
        kind: PathKind,
        name: String,
        file: String,
        line: Option<u64>,
        path_baseline_ms: Option<Ms> = "Per step, base",
        path_compared_ms: Option<Ms> = "Per step",
        path_delta_ms: Ms = "Change",
    }
}

/// The rows of all runs whose paths are known, as that of the baseline is.
pub(super) fn paths(baseline: &Candidate, others: &[&Candidate]) -> Answer<ComparePaths> {
    let mut answer = ComparePaths::answer("the critical paths of the replayed steps of both runs")
        .limit("The rows of a stage add up to the change of its mean replayed step. What a cause costs is in the findings: on two chains of equal length only one is the critical path.");
    let before = parts(baseline.run);
    for other in others {
        let after = parts(other.run);
        let has = |parts: &[CriticalPathRow], stage: Stage| parts.iter().any(|part| part.stage == stage);
        let mut rows: Vec<ComparePathRow> = Vec::new();
        let of_both = |part: &&CriticalPathRow| has(&before, part.stage) && has(&after, part.stage);
        for part in before.iter().filter(of_both) {
            let index = row_of(&mut rows, other.label, part);
            rows.get_mut(index).into_iter().for_each(|row| row.path_baseline_ms = Some(part.per_step_ms));
        }
        for part in after.iter().filter(of_both) {
            let index = row_of(&mut rows, other.label, part);
            rows.get_mut(index).into_iter().for_each(|row| row.path_compared_ms = Some(part.per_step_ms));
        }
        for row in &mut rows {
            let ms = |side: Option<Ms>| side.map_or(0.0, |ms| ms.0);
            row.path_delta_ms = Ms(ms(row.path_compared_ms) - ms(row.path_baseline_ms));
        }
        ordering::sort_by(&mut rows, |a, b| {
            a.stage.cmp(&b.stage).then(b.path_delta_ms.0.abs().total_cmp(&a.path_delta_ms.0.abs()))
        });
        answer.rows.extend(rows);
    }
    answer
}

/// The parts of the path of a run; none if the replay abstains.
fn parts(run: &Run) -> Vec<CriticalPathRow> {
    let abstains = ReplayTrust::rows(&run.sections).iter().any(|row| row.abstains);
    if abstains { Vec::new() } else { CriticalPathRows::rows(&run.sections) }
}

/// The index of the row of a part, new if no other part has its name. The line of a function may differ between versions of a program.
fn row_of(rows: &mut Vec<ComparePathRow>, run: &str, part: &CriticalPathRow) -> usize {
    let is_same = |row: &ComparePathRow| {
        (row.stage, row.kind, row.name.as_str(), row.file.as_str())
            == (part.stage, part.kind, part.name.as_str(), part.file.as_str())
    };
    rows.iter().position(is_same).unwrap_or_else(|| {
        rows.push(ComparePathRow {
            run: run.to_owned(),
            stage: part.stage,
            kind: part.kind,
            name: part.name.clone(),
            file: part.file.clone(),
            line: part.line,
            ..ComparePathRow::default()
        });
        rows.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::compare::Rules;
    use crate::trace::testing::TestTrace;

    /// Ten steps of one kernel after host work of `host_us`, which a synchronisation ends.
    fn run(kernel: &str, kernel_us: i64, host_us: i64) -> Run {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in (0..10).map(|step| step * (kernel_us + host_us)) {
            trace.range("step[DECODE bs=2]", start..start + host_us);
            trace.launch(start + host_us - 5..start + host_us);
            trace.launches(kernel, start + host_us..start + host_us + kernel_us);
            trace.call("cudaStreamSynchronize", start + host_us..start + host_us + kernel_us);
        }
        trace.run()
    }

    #[test]
    fn the_rows_add_up_to_the_change_of_the_step() {
        let (slow, fast) = (run("gemm", 500, 300), run("flash_fwd", 350, 200));
        let rules = Rules::embedded();
        let (before, after) = (Candidate::new("before", &slow, rules), Candidate::new("after", &fast, rules));
        let rows = paths(&before, &[&after]).rows;
        let sum: f64 = rows.iter().map(|row| row.path_delta_ms.0).sum();
        assert!((sum - (0.55 - 0.8)).abs() < 0.01, "{sum} {rows:?}");
        let kernel = |name: &str| rows.iter().find(|row| row.name == name).unwrap();
        assert_eq!((kernel("gemm").path_baseline_ms, kernel("gemm").path_compared_ms), (Some(Ms(0.5)), None));
        assert_eq!(kernel("flash_fwd").path_delta_ms, Ms(0.35));
    }
}
