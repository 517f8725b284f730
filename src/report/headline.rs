//! What the page shows below the verdict: the critical path of the main stage as a bar, the largest saving with what to do next, and the
//! layers of the model. Read from finished sections, so that it is also made for an earlier report; linear in their rows.

use super::chart::{Chart, PathBar, PathGroupBar, PathPart, path_bars};
use super::examples::{ExampleLink, example_of_clause, example_of_finding};
use super::format::{duration, percent};
use super::sections::table_id;
use super::{Report, palette};
use crate::analysis::GRAPHS;
use crate::analysis::inference::layers::Layers;
use crate::analysis::model_lines::model_lines;
use crate::analysis::replay::cause::{Cause, CauseId};
use crate::analysis::replay::costs::{Costs, PathGroup, is_named};
use crate::analysis::replay::sections::{CriticalPathRow, CriticalPathRows, PathKind, ReplayTrust, WhatIf, WhatIfRow};
use crate::analysis::results::{Run, VerdictClause};
use crate::analysis::section::{Plain, TypedSection, Value};
use crate::analysis::structure::stages::Stage;
use crate::analysis::unit::Unit;
use crate::analysis::verdict::largest_saving;
use crate::ordering;
use crate::rules::names::unabridged;
use crate::rules::signals::Signals;
use crate::words::stages;
use serde::Serialize;
use std::collections::HashMap;

/// With more runs their bars would fill the first screen.
const MAX_BARS: usize = 4;
/// Of a group the smaller parts are one.
const MAX_PARTS: usize = 9;
/// Rows of causes.
const MAX_CAUSES: usize = 10;
/// Kernels that are named in the tooltip of a category.
const MAX_DETAILS: usize = 4;

/// The lines below the verdict.
#[derive(Debug, Default, Serialize)]
pub struct Headline {
    /// What the bars are: `Critical path of a decode step`. Empty without a path.
    pub title: String,
    /// The critical paths on one scale.
    pub path: Option<Chart>,
    /// Why there is no path, or what is doubtful about it; may be empty.
    pub note: String,
    /// The largest saving of the runs.
    pub saving: Option<SavingLine>,
    /// The layers of the model; only of a single run.
    pub layers: Option<Line>,
    /// What would be saved without each cause, as in the section `what_if`; only of a single run.
    pub causes: Vec<CauseLine>,
}

/// A row of `what_if`.
#[derive(Debug, Serialize)]
pub struct CauseLine {
    /// Its id, to ask for it.
    pub id: String,
    /// What would be different.
    pub change: String,
    /// The function, op or kernel; may be empty.
    pub subject: String,
    /// What a step takes less, at least and at most: `0.52 to 1.06 ms`.
    pub saves: String,
    /// At most, of the step.
    pub share: String,
    /// `high`, `medium` or `low`.
    pub confidence: &'static str,
    /// What the figure rests on.
    pub basis: String,
}

/// A sentence with its table and a case in the timeline.
#[derive(Debug, Serialize)]
pub struct Line {
    /// The sentence.
    pub text: String,
    /// Id of the table with the numbers.
    pub table: String,
    /// One case of it in the timeline.
    pub example: Option<ExampleLink>,
    /// The number of its run in the report, from 0.
    pub run_index: usize,
}

/// What saves most, where it is, and what to do next.
#[derive(Debug, Serialize)]
pub struct SavingLine {
    /// The title of the finding.
    pub finding: Line,
    /// `up to 2.1 ms a step, 27.6 % of the time`.
    pub saves: String,
    /// The function or kernel with most of it; empty if it is unknown.
    pub place: String,
    /// The next thing to do; may be empty.
    pub action: String,
}

/// The lines about all runs of a report. `width` is that of the bars in pixels.
pub fn headline(report: &Report, width: u32) -> Headline {
    let labels = report.labels();
    let paths: Vec<PathOfStage> = report.runs.iter().take(MAX_BARS).filter_map(PathOfStage::of).collect();
    let is_single = report.runs.len() == 1;
    let has_all = report.runs.len() <= MAX_BARS && paths.len() == report.runs.len();
    let of_one_stage = paths.iter().all(|path| Some(path.stage) == paths.first().map(|path| path.stage));
    let is_drawn = !paths.is_empty() && has_all && of_one_stage;
    let bars = labels.iter().zip(&paths).map(|(label, path)| PathBar {
        label: if is_single { String::new() } else { label.clone() },
        groups: path.groups.iter().map(PathGroupBar::clone).collect(),
    });
    let bars: Vec<PathBar> = if is_drawn { bars.collect() } else { Vec::new() };
    let first = report.runs.first().filter(|_| is_single);
    Headline {
        title: paths.first().filter(|_| is_drawn).map(|path| path.title(is_single)).unwrap_or_default(),
        path: is_drawn.then(|| path_bars(&bars, width)),
        note: first.map(note).unwrap_or_default(),
        saving: first.and_then(saving),
        layers: first.and_then(layers),
        causes: first.map(causes).unwrap_or_default(),
    }
}

/// The critical path of the stage with most time.
struct PathOfStage {
    stage: Stage,
    time_ns: i64,
    has_steps: bool,
    groups: Vec<PathGroupBar>,
}

impl PathOfStage {
    /// `None` without a path. Host time before the first op is left out, because no figure of a step has it.
    fn of(run: &Run) -> Option<Self> {
        let rows = CriticalPathRows::rows(&run.sections);
        let stage = rows.first()?.stage;
        let categories: HashMap<String, &str> =
            run.kernels.iter().map(|kernel| (unabridged(&kernel.name), kernel.category.as_str())).collect();
        let mut groups: Vec<(PathGroup, Vec<Named>)> = Vec::new();
        let is_of_step = |row: &&CriticalPathRow| row.kind != PathKind::BeforeFirstOp && row.per_step_ms.0 != 0.0;
        for row in rows.iter().filter(|row| row.stage == stage).filter(is_of_step) {
            let group = PathGroup::of(row.kind);
            let at = groups.iter().position(|(other, _)| *other == group).unwrap_or_else(|| {
                groups.push((group, Vec::new()));
                groups.len() - 1
            });
            if let Some((_, parts)) = groups.get_mut(at) {
                add(parts, row, &categories);
            }
        }
        ordering::sort_by_key(&mut groups, |(group, _)| *group);
        let groups: Vec<PathGroupBar> = groups.into_iter().map(|(group, parts)| group_bar(group, parts)).collect();
        let time_ns = groups.iter().map(|group| group.time_ns).fold(0, i64::saturating_add);
        let has_steps = ReplayTrust::rows(&run.sections).first().is_some_and(|trust| trust.steps > 0);
        Some(Self { stage, time_ns, has_steps, groups }).filter(|path| path.time_ns > 0)
    }

    /// `Critical path of a decode step, 7.51 ms`.
    fn title(&self, is_single: bool) -> String {
        let stage = stages::stage(self.stage.label());
        let of = match (self.has_steps, stage.is_empty()) {
            (true, false) => format!("a {stage} step"),
            (true, true) => "a step".to_owned(),
            (false, _) => "the replayed time".to_owned(),
        };
        let time = if is_single { format!(", {}", duration(self.time_ns)) } else { String::new() };
        format!("Critical path of {of}{time}")
    }
}

/// Rows of one category or one function.
struct Named {
    name: String,
    class: String,
    time_ns: i64,
    kernels: Vec<(String, i64)>,
}

fn add(parts: &mut Vec<Named>, row: &CriticalPathRow, categories: &HashMap<String, &str>) {
    let time_ns = (row.per_step_ms.0 * 1e6).round() as i64;
    let (name, class, kernel) = match row.kind {
        PathKind::Kernel | PathKind::Communication | PathKind::Copy | PathKind::Set => {
            match categories.get(&row.name) {
                Some(category) => (palette::title(category).to_owned(), palette::class(category), Some(&row.name)),
                // The rows with little time are one.
                None => ("other kernels".to_owned(), palette::class("misc"), None),
            }
        }
        PathKind::WholeGraph => (palette::title(GRAPHS).to_owned(), palette::class(GRAPHS), None),
        PathKind::HostCode | PathKind::Call | PathKind::FirstUse | PathKind::Waiting if !row.name.is_empty() => {
            (row.name.clone(), HATCHED.to_owned(), None)
        }
        kind => (kind.word().to_owned(), HATCHED.to_owned(), None),
    };
    let kernel = kernel.map(|name| (name.clone(), time_ns));
    match parts.iter_mut().find(|part| part.name == name && part.class == class) {
        Some(part) => {
            part.time_ns += time_ns;
            part.kernels.extend(kernel);
        }
        None => parts.push(Named { name, class, time_ns, kernels: kernel.into_iter().collect() }),
    }
}

/// The class of time without GPU work.
const HATCHED: &str = "cat-cpu";

fn group_bar(group: PathGroup, mut parts: Vec<Named>) -> PathGroupBar {
    let time_ns = parts.iter().map(|part| part.time_ns).fold(0, i64::saturating_add);
    ordering::sort_by_key(&mut parts, |part| std::cmp::Reverse(part.time_ns));
    let small = parts.split_off(MAX_PARTS.min(parts.len()));
    let is_gpu_work = matches!(group, PathGroup::GpuWork | PathGroup::Communication);
    if !small.is_empty() {
        parts.push(Named {
            name: format!("{} others", small.len()),
            class: if is_gpu_work { palette::class("misc") } else { HATCHED.to_owned() },
            time_ns: small.iter().map(|part| part.time_ns).sum(),
            kernels: small.into_iter().map(|part| (part.name, part.time_ns)).collect(),
        });
    }
    let part = |part: Named| PathPart {
        details: details(&part.kernels),
        name: part.name,
        time_ns: part.time_ns,
        class: part.class,
        is_gpu_work,
    };
    PathGroupBar { title: group.words().to_owned(), time_ns, parts: parts.into_iter().map(part).collect() }
}

/// A line for each of the first kernels.
fn details(kernels: &[(String, i64)]) -> String {
    let first = kernels.iter().take(MAX_DETAILS).map(|(name, time)| format!("{} {name}", duration(*time)));
    let more = kernels.len().saturating_sub(MAX_DETAILS);
    let more = (more > 0).then(|| format!("and {more} more"));
    first.chain(more).collect::<Vec<_>>().join("\n")
}

/// Why there is no path, or why its savings are ranges.
fn note(run: &Run) -> String {
    let Some(section) = run.sections.get(CriticalPathRows::SPEC.name) else { return String::new() };
    if let Some(missing) = section.missing.as_ref().filter(|_| section.rows.is_empty()) {
        return missing.why.clone();
    }
    let trust = ReplayTrust::rows(&run.sections).into_iter().next();
    trust.filter(|trust| trust.abstains).map(|trust| trust.why).unwrap_or_default()
}

/// The finding that saves most.
fn saving(run: &Run) -> Option<SavingLine> {
    let (row, saves) = largest_saving(run, &Signals::embedded().verdict)?;
    let finding = Line {
        text: row.title.clone(),
        table: table_id(&row.section).to_owned(),
        example: example_of_finding(run, &row),
        run_index: 0,
    };
    let action = row.action.lines().next().unwrap_or_default().to_owned();
    let id = row.what_if.as_deref().and_then(|id| CauseId::of_value(&Value::from(id)));
    Some(SavingLine { finding, saves, place: place(run, id.unwrap_or_default()), action })
}

/// The name of a kernel as in the tables.
fn short_name(run: &Run, unabridged_name: String) -> String {
    let known = run.kernels.iter().find(|kernel| unabridged(&kernel.name) == unabridged_name);
    known.map_or(unabridged_name, |kernel| kernel.short_name.clone())
}

/// The function or kernel of a cause with most time on the critical path: `_prepare_inputs (gpu_model_runner.py:1002)`.
fn place(run: &Run, id: CauseId) -> String {
    let group = match id.cause {
        Cause::Host | Cause::BetweenCalls => PathGroup::Host,
        Cause::Communication => PathGroup::Communication,
        Cause::GpuWork => PathGroup::GpuWork,
        _ => return id.subject,
    };
    let rows = CriticalPathRows::rows(&run.sections);
    let of_group = |row: &&CriticalPathRow| {
        Some(row.stage) == rows.first().map(|first| first.stage)
            && PathGroup::of(row.kind) == group
            && row.kind != PathKind::BeforeFirstOp
    };
    // If the trace does not name the largest part, a smaller one does not have most.
    let Some(row) = rows.iter().find(of_group).filter(|row| is_named(row)) else { return String::new() };
    if matches!(group, PathGroup::GpuWork | PathGroup::Communication) {
        return short_name(run, row.name.clone());
    }
    let file = row.file.rsplit('/').next().filter(|file| !file.is_empty());
    match (file, row.line) {
        (Some(file), Some(line)) => format!("{} ({file}:{line})", row.name),
        (Some(file), None) => format!("{} ({file})", row.name),
        (None, _) => row.name.clone(),
    }
}

/// The sentence on the first kind of layers of the main stage, or else of any.
fn layers(run: &Run) -> Option<Line> {
    let main = CriticalPathRows::rows(&run.sections).first().map(|row| row.stage);
    let stages: Vec<Stage> = Layers::rows(&run.sections).iter().map(|row| row.stage).collect();
    let at = stages.iter().position(|stage| Some(*stage) == main).unwrap_or(0) as u64;
    let is_it = |line: &VerdictClause| line.section.as_deref() == Some(Layers::SPEC.name) && line.row == Some(at);
    let line = model_lines(run).into_iter().find(is_it)?;
    Some(Line {
        example: example_of_clause(run, &line),
        text: line.text,
        table: Layers::SPEC.name.to_owned(),
        run_index: 0,
    })
}

/// The rows of the main stage, without those of all changes together.
fn causes(run: &Run) -> Vec<CauseLine> {
    let rows = WhatIf::rows(&run.sections);
    let main = CriticalPathRows::rows(&run.sections).first().map(|row| row.stage);
    let own = rows.into_iter().filter(|row| Some(row.stage) == main && row.id.cause != Cause::Together);
    let line = |row: WhatIfRow| CauseLine {
        id: row.id.to_string(),
        change: row.change,
        subject: row.subject,
        saves: between(row.per_step_low_ms.0, row.per_step_high_ms.0),
        share: percent(row.share_high_pct.0 / 100.0),
        confidence: row.confidence.word(),
        basis: row.basis,
    };
    own.take(MAX_CAUSES).map(line).collect()
}

/// `With these changes a step takes 4.20 ms to 5.02 ms instead of 7.51 ms`; `None` if no change was asked for.
pub fn simulated(run: &Run) -> Option<String> {
    let is_asked = |row: &WhatIfRow| row.id.cause == Cause::Together;
    WhatIf::rows(&run.sections).into_iter().find(is_asked)?;
    let unit = Unit::of(&run.sections, &Signals::embedded().verdict);
    let costs = Costs::of(&run.sections, unit)?;
    let step = costs.median_step(&costs.saving(&Cause::Together.into()));
    let [least, most] = step.without_ms;
    let work = if costs.has_steps { "a step" } else { "the work" };
    let measured = duration(ns(step.measured_ms));
    Some(format!("With these changes {work} takes {} instead of {measured}", between(least, most)))
}

fn ns(ms: f64) -> i64 {
    (ms * 1e6).round() as i64
}

/// `0.52 ms to 1.06 ms`, `up to 1.06 ms`, or one time if both are the same in three digits.
fn between(low_ms: f64, high_ms: f64) -> String {
    let [low, high] = [low_ms, high_ms].map(|ms| duration(ns(ms)));
    match low == high {
        true => low,
        false if ns(low_ms) == 0 => format!("up to {high}"),
        false => format!("{low} to {high}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests_support::empty_run;
    use crate::trace::testing::TestTrace;

    /// Four decode steps of 1 ms: the host computes for 300 us before it launches the kernel of each.
    fn decodes() -> Run {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in [0, 1_000, 2_000, 3_000] {
            trace.range("step[DECODE bs=2]", start..start + 990);
            trace.launch(start + 290..start + 300).launches("gemm", start + 300..start + 980);
            trace.call("cudaStreamSynchronize", start + 310..start + 990);
        }
        trace.run()
    }

    #[test]
    fn the_parts_of_the_bar_add_up_to_the_step_of_the_title() {
        let run = decodes();
        let path = PathOfStage::of(&run).unwrap();
        let parts: i64 = path.groups.iter().flat_map(|group| &group.parts).map(|part| part.time_ns).sum();
        assert_eq!(parts, path.time_ns);
        assert_eq!(path.groups.first().map(|group| group.title.as_str()), Some("GPU work"));
        let of_gpu = path.groups.iter().flat_map(|group| &group.parts).find(|part| part.is_gpu_work).unwrap();
        assert_eq!((of_gpu.name.as_str(), of_gpu.class.as_str()), ("gemm", "cat-gemm"));
        let shown = headline(&Report::new(vec![run]), 1_000);
        assert!(shown.title.starts_with("Critical path of a decode step, "), "{}", shown.title);
        assert!(shown.path.is_some() && !shown.causes.is_empty());
    }

    #[test]
    fn the_saving_is_the_finding_with_the_largest_cost() {
        let run = decodes();
        let largest = |run: &Run| {
            let rows = run.rows("findings").iter();
            rows.max_by(|a, b| a.amount("cost_ms").total_cmp(&b.amount("cost_ms"))).map(|row| row.words("title"))
        };
        let shown = headline(&Report::new(vec![run.clone()]), 1_000);
        assert_eq!(shown.saving.map(|saving| saving.finding.text), largest(&run));
    }

    #[test]
    fn runs_without_a_path_and_several_runs_have_fewer_lines() {
        let none = headline(&Report::new(vec![empty_run("a")]), 1_000);
        assert!(none.path.is_none() && none.saving.is_none() && none.causes.is_empty());
        let two = headline(&Report::new(vec![decodes(), decodes()]), 1_000);
        assert!(two.path.is_some() && two.saving.is_none() && two.causes.is_empty());
        assert_eq!(two.title, "Critical path of a decode step");
    }

    #[test]
    fn a_range_of_times_is_short() {
        assert_eq!(
            [between(0.0, 1.0), between(1.0, 1.0), between(0.5, 1.0)],
            ["up to 1.00 ms", "1.00 ms", "500 us to 1.00 ms"]
        );
    }

    #[test]
    fn without_changes_nothing_is_simulated() {
        assert_eq!(simulated(&decodes()), None);
    }
}
