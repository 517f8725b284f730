//! Which case of a statement the timeline shows: the example of a clause of the verdict or of a finding, from its section and row.

use crate::analysis::findings::{FindingId, FindingRow, Findings, counts_steps_only};
use crate::analysis::results::{Run, VerdictClause};
use crate::analysis::section::TypedSection;
use crate::analysis::timeline::Example;
use serde::Serialize;
use std::borrow::Cow;

/// The causes of idle time that the verdict may be about, with their columns in the section `gpu_idle`.
const CAUSES: [&str; 9] = [
    "host_late",
    "drained",
    "other_stream",
    "unknown",
    "compiling",
    "start_up",
    "no_requests",
    "profiler",
    "other_gpu",
];

/// A link to the timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExampleLink {
    /// The text of an [`Example`].
    pub of: String,
    /// The words of the link.
    pub text: Cow<'static, str>,
    /// The name of the file in which it is, if that is not the run of the statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The index of the run in which it is, if that is not the run of the statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<usize>,
}

impl ExampleLink {
    fn to(example: &Example) -> Self {
        let text = match example {
            Example::Idle(_) | Example::IdleInSteps(_) => "Show the longest such gap",
            Example::Step(_) => "Show a step of median length",
            Example::Copy(_) => "Show the longest such copy",
            _ => "Show the longest such kernel",
        };
        Self { of: example.text(), text: Cow::Borrowed(text), file: None, run: None }
    }
}

/// The link of a clause; `None` for words without one.
pub(super) fn example_of_clause(run: &Run, clause: &VerdictClause) -> Option<ExampleLink> {
    of_clause(run, clause).as_ref().map(ExampleLink::to)
}

/// The link to ops of a category.
pub(super) fn example_of_category(category: &str) -> ExampleLink {
    ExampleLink::to(&Example::Category(category.to_owned()))
}

/// The link to a gap with the cause of most of the idle time; `None` if there is no such time.
pub(super) fn example_of_idle_time(run: &Run) -> Option<ExampleLink> {
    Some(ExampleLink::to(&Example::Idle(vec![main_cause(run)?.to_owned()])))
}

/// The link of a row of the findings; `None` for those of other tools.
pub(super) fn example_of_finding(run: &Run, row: &FindingRow) -> Option<ExampleLink> {
    of_finding(run, row).as_ref().map(ExampleLink::to)
}

fn of_clause(run: &Run, clause: &VerdictClause) -> Option<Example> {
    let section = clause.section.as_deref()?;
    let row = clause.row.and_then(|row| usize::try_from(row).ok());
    match section {
        "steps" => Some(Example::Step(run.rows(section).get(row?)?.text("stage").to_owned())),
        "categories" => Some(Example::Category(run.categories.get(row?)?.category.clone())),
        "findings" => of_finding(run, Findings::rows(&run.sections).get(row?)?),
        "gpu_idle" => Some(Example::Idle(vec![main_cause(run)?.to_owned()])),
        "nccl_ops" | "stream_overlap" => Some(Example::Communication),
        _ => None,
    }
}

/// The cause of most of the idle time.
fn main_cause(run: &Run) -> Option<&'static str> {
    let total = |cause: &str| run.rows("gpu_idle").iter().map(|row| row.amount(&format!("{cause}_ms"))).sum::<f64>();
    let totals = CAUSES.into_iter().map(|cause| (cause, total(cause)));
    let (cause, _) = totals.filter(|(_, ms)| *ms > 0.0).max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(cause)
}

fn of_finding(run: &Run, row: &FindingRow) -> Option<Example> {
    if let Some(cause) = row.id.idle_cause() {
        let causes = vec![cause.word().to_owned()];
        let in_steps = row.id != FindingId::Compilation && counts_steps_only(&run.sections);
        return Some(if in_steps { Example::IdleInSteps(causes) } else { Example::Idle(causes) });
    }
    let copies = |words: &[&str]| Some(Example::Copy(words.iter().map(|word| (*word).to_owned()).collect()));
    match row.id {
        FindingId::PageableCopies => copies(&["pageable"]),
        FindingId::UnifiedMemoryMigration => copies(&["unified"]),
        FindingId::HostCopies => {
            copies(&["htod", "dtoh", "host-to-device", "device-to-host", "hosttodevice", "devicetohost"])
        }
        FindingId::ExposedCommunication | FindingId::CommunicationWaits => Some(Example::Communication),
        FindingId::ShortKernels => Some(Example::Step(String::new())),
        FindingId::UnfusedKernels => (!run.rows("steps").is_empty()).then(|| Example::Step(String::new())),
        FindingId::UnsuitedKernels => {
            let unsuited = run.rows("unsuited_kernels").iter().find(|kernels| kernels.text("problem") == row.title)?;
            Some(Example::Kernel(unsuited.text("example_kernel").to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::findings::testing::late_steps_after_a_pause;
    use crate::analysis::testing::torch;
    use crate::analysis::timeline::Timeline;
    use crate::report::{Report, clauses, findings};
    use crate::rules::RuleBook;
    use crate::session::{Choices, run};

    #[test]
    fn the_gap_of_a_finding_about_steps_is_in_a_step() {
        let trace = late_steps_after_a_pause().finish();
        let report = Report::new(vec![run(&trace, &Choices::default()).unwrap()]);
        let timeline = Timeline::of(&trace, RuleBook::gpuprism_default().unwrap()).unwrap();
        let late = findings(&report).into_iter().find(|finding| finding.id == FindingId::HostLate).unwrap();
        let example = Example::parse(&late.example.unwrap().of).unwrap();
        let place = timeline.example(&trace, &example, timeline.gpu).unwrap();
        assert_eq!(place.end.since(place.start).0, 500_000);
        let longest = timeline.example(&trace, &Example::Idle(vec!["host_late".to_owned()]), timeline.gpu).unwrap();
        assert!(longest.end.since(longest.start).0 > 80_000_000, "the pause before the steps");
    }

    /// The cause with the largest part of the idle time need not have the longest gap, but it has one.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn statements_on_shared_traces_have_a_case_in_the_timeline() {
        let mut shown = 0;
        for file in [
            "sglang_qwen3_30b_b300_decode.trace.json.gz",
            "sglang_qwen3_8b_mi300_decode.trace.json.gz",
            "vllm_b200_eager_prefill.trace.json.gz",
            "nccl_metadata_a100.trace.json.gz",
            "train_a100_rank3of8.trace.json.gz",
            "hf_qwen1.5_0.5b_h100.trace.json.gz",
        ] {
            let trace = torch(file);
            let report = Report::new(vec![run(&trace, &Choices::default()).unwrap()]);
            let timeline = Timeline::of(&trace, RuleBook::gpuprism_default().unwrap()).unwrap();
            let of_clauses = clauses(&report).into_iter().map(|clause| clause.example);
            let of_findings = findings(&report).into_iter().map(|finding| finding.example);
            let (of_clauses, of_findings): (Vec<_>, Vec<_>) = (of_clauses.flatten().collect(), of_findings.collect());
            assert!(!of_clauses.is_empty() && of_findings.iter().all(Option::is_some), "{file}");
            for ExampleLink { of: example, .. } in of_clauses.iter().chain(of_findings.iter().flatten()) {
                let place = timeline.example(&trace, &Example::parse(example).unwrap(), timeline.gpu);
                assert!(place.is_some(), "{file}: {example}");
                shown += 1;
            }
        }
        assert!(shown >= 12, "a clause and a finding of each trace: {shown}");
    }
}
