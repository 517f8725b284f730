//! Compares the sections of a report with the truth.

use super::config::{Config, Launch};
use super::engine::Stage;
use super::truth::{Layers, Roles, Round, Step, Truth};
use gpuprism::analysis::section::{Record, Section, Sections};
use std::collections::BTreeMap;

/// Counts of what is true, what was found, and what of it is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count {
    pub(crate) truth: u64,
    pub(crate) found: u64,
    pub(crate) right: u64,
}

impl Count {
    pub(crate) fn precision(self) -> f64 {
        if self.found == 0 { 1.0 } else { self.right as f64 / self.found as f64 }
    }

    pub(crate) fn recall(self) -> f64 {
        if self.truth == 0 { 1.0 } else { self.right.min(self.truth) as f64 / self.truth as f64 }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.truth += other.truth;
        self.found += other.found;
        self.right += other.right;
    }
}

/// The score of one trace.
#[derive(Debug, Default)]
pub(crate) struct Score {
    pub(crate) steps: Count,
    /// Steps whose stage is stated.
    pub(crate) stages: Count,
    /// Steps under a label that steps of other stages do not have.
    pub(crate) kinds: Count,
    /// Steps that last until the next one, with their durations.
    pub(crate) lengths: Count,
    /// The same for the GPU time in them.
    pub(crate) busy: Count,
    pub(crate) layers: Count,
    pub(crate) roles: Count,
    /// In microseconds.
    pub(crate) blame: Count,
    /// The same between steps.
    pub(crate) between: Count,
    /// Figures of graph replays.
    pub(crate) graphs: Count,
    /// Figures of speculation.
    pub(crate) rounds: Count,
    /// Figures of the start of the process.
    pub(crate) starts: Count,
    /// False statements with a confidence of inferred or proven.
    pub(crate) lies: Vec<String>,
}

/// Compares all sections of a report about a server.
pub(crate) fn score(config: &Config, truth: &Truth, sections: &Sections) -> Score {
    let mut score = score_steps(config, truth, sections);
    score.add_layers(config, truth, &sections["layers"], &sections["layer_roles"]);
    score.blame.add(blamed(&truth.blame, &sections["idle_blame"], &mut score.lies));
    score.add_graphs(config, truth, &sections["graph_coverage"]);
    score.add_rounds(config, truth, sections.get("speculation"));
    score
}

/// Compares the sections about steps, what is between them, and the start of the process.
pub(crate) fn score_steps(config: &Config, truth: &Truth, sections: &Sections) -> Score {
    let mut score = Score::default();
    score.add_steps(config, truth, &sections["step_list"]);
    score.add_start(truth, sections);
    if let Some(section) = sections.get("between_steps") {
        score.between = blamed(&truth.between, section, &mut score.lies);
    }
    score
}

/// Whether a label states the stage. A step that runs only prefill kernels may be called prefill if no annotation says that it
/// also decodes.
fn is_stage(label: &str, stage: Stage, config: &Config) -> bool {
    let is_mixed = !config.capture.has_annotations() && stage == Stage::Mixed;
    label == stage.label() || is_mixed && label == Stage::Prefill.label()
}

/// Whether a label states no stage: steps are of unknown or of unnamed kinds.
fn is_unnamed(label: &str) -> bool {
    label == "all" || label.starts_with("kind ")
}

impl Score {
    fn add_steps(&mut self, config: &Config, truth: &Truth, section: &Section) {
        self.steps.truth = truth.steps.iter().filter(|step| step.is_whole).count() as u64;
        [self.stages.truth, self.kinds.truth] = [self.steps.truth; 2];
        self.lengths.truth = truth.steps.iter().filter(|step| step.time.is_some()).count() as u64;
        self.busy.truth = self.lengths.truth;
        // A step without device is a host range whose ops are not in the trace.
        let on_device = |row: &&Record| !row.words("device_id").is_empty();
        let mut stages_of_kinds: BTreeMap<&str, Stage> = BTreeMap::new();
        let mut labels: Vec<(&str, Stage)> = Vec::new();
        let mut is_known = vec![false; truth.steps.len()];
        for row in section.rows.iter().filter(on_device) {
            self.steps.found += 1;
            let (start, label) = (row.amount("start_ns") as i64, row.text("stage"));
            let starts = |step: &Step| match step.is_whole {
                true => [step.begin, step.start, step.first_start],
                false => [step.launched_start, step.start, step.first_start],
            };
            let distance = |step: &Step| starts(step).map(|time| time.abs_diff(start)).into_iter().min().unwrap();
            let index = (0..truth.steps.len()).min_by_key(|index| distance(&truth.steps[*index])).unwrap();
            let nearest = &truth.steps[index];
            let is_second = std::mem::replace(&mut is_known[index], true);
            let is_there = distance(nearest) * 20 <= (nearest.end - nearest.start) as u64 && !is_second;
            self.steps.right += u64::from(is_there && nearest.is_whole);
            // A step of which the capture has only a part is no false one.
            self.steps.found -= u64::from(is_there && !nearest.is_whole);
            let is_time_right = !is_there || self.add_time(nearest, row);
            if nearest.is_whole {
                labels.push((label, nearest.stage));
            }
            if !is_unnamed(label) && nearest.is_whole {
                self.stages.found += 1;
                self.stages.right += u64::from(is_stage(label, nearest.stage, config));
            }
            // All steps of an unnamed kind are of one stage.
            let is_one_stage =
                !label.starts_with("kind ") || nearest.stage == *stages_of_kinds.entry(label).or_insert(nearest.stage);
            let is_right = is_there && is_one_stage && (is_unnamed(label) || is_stage(label, nearest.stage, config));
            if !(is_right && is_time_right) && row.text("confidence") != "guess" {
                let [start, true_start] = [start, nearest.start].map(|time| time / 1_000);
                let (stage, length) = (nearest.stage.label(), row.amount("duration_ns") as i64 / 1_000);
                let times = nearest.time.map(|time| time.length / 1_000);
                self.lies.push(format!(
                    "step {label} at {start} us of {length} us, but the nearest is {stage} at {true_start} us of {times:?}"
                ));
            }
        }
        self.kinds.found = labels.len() as u64;
        let is_alone =
            |(label, stage): &&(&str, Stage)| labels.iter().all(|other| other.0 != *label || other.1 == *stage);
        self.kinds.right = labels.iter().filter(is_alone).count() as u64;
    }

    /// Counts the length of a step and its GPU time. Returns whether the length is right, as far as it is known.
    fn add_time(&mut self, step: &Step, row: &Record) -> bool {
        let Some(time) = step.time else { return true };
        let is_right = |key: &str, expected: i64| {
            u64::from(expected.abs_diff(row.amount(key) as i64) * 20 <= expected.unsigned_abs())
        };
        let (length, busy) = (is_right("duration_ns", time.length), is_right("busy_ns", time.busy));
        self.lengths.add(Count { truth: 0, found: 1, right: length });
        self.busy.add(Count { truth: 0, found: 1, right: busy });
        length == 1
    }

    /// A process that is not seen starting has no row.
    fn add_start(&mut self, truth: &Truth, sections: &Sections) {
        let rows = sections.get("start_up").map_or(&[][..], |section| section.rows.as_slice());
        let Some(start) = &truth.start else {
            if let Some(row) = rows.first().filter(|_| !truth.has_part_of_start) {
                self.lies.push(format!("a start of {} ms", row.amount("length_ms")));
            }
            return;
        };
        let steps = truth.steps.iter().filter(|step| step.is_whole).count();
        let measured = sections["steps"].rows.iter().map(|row| row.amount("steps")).sum::<f64>();
        let listed = sections["step_list"].rows.iter().filter(|row| row.words("in_start_up") == "yes").count();
        let figures = [
            ("steady_from_ns", start.steady_from as f64),
            ("length_ms", start.length as f64 / 1e6),
            ("steps_left_out", start.steps as f64),
            ("steps_after", (steps - start.steps) as f64),
            ("measured", (steps - start.steps) as f64),
            ("listed", start.steps as f64),
        ];
        let of_row = |key: &str| match key {
            "measured" => Some(measured),
            "listed" => Some(listed as f64),
            _ => rows.first().map(|row| row.amount(key)),
        };
        let count = compared(&figures, &of_row, &mut self.lies);
        self.starts.add(count);
    }

    fn add_layers(&mut self, config: &Config, truth: &Truth, layers: &Section, roles: &Section) {
        // Layers of a step that the capture contains only in part may be listed or not.
        let folds = |layers: &&Layers| layers.order.len() > 1 && layers.steps > 0;
        self.layers.truth = truth.layers.values().filter(folds).map(|layers| layers.order.len() as u64).sum();
        let mut seen: Vec<&str> = Vec::new();
        for row in &layers.rows {
            let (label, pattern) = (row.text("stage"), row.text("pattern"));
            if seen.contains(&label) {
                continue;
            }
            seen.push(label);
            let order = expand(pattern);
            let fits = |stage: Stage| is_unnamed(label) || is_stage(label, stage, config);
            let fitting = truth.layers.iter().filter(|(stage, _)| fits(**stage)).map(|(_, layers)| layers);
            let same = fitting.filter(|layers| layers.order == renumbered(&order)).max_by_key(|layers| layers.steps);
            // A row without a known stage speaks for all stages.
            let times = if label == "all" { truth.layers.values().filter(folds).count().max(1) } else { 1 };
            self.layers.found += (order.len() * times) as u64;
            match same {
                Some(same) => {
                    self.layers.right += (order.len() * times) as u64;
                    self.add_roles(same, label, &order, roles);
                }
                None => self.lies.push(format!("layers of {label} {pattern}")),
            }
        }
    }

    fn add_roles(&mut self, truth: &Layers, stage: &str, order: &[usize], roles: &Section) {
        for (kind, expected) in truth.roles.iter().enumerate() {
            let number = order[truth.order.iter().position(|other| *other == kind).unwrap()];
            let letter = ["A", "B", "C"][number];
            let is_kind = |row: &&Record| row.text("stage") == stage && row.text("kind") == letter;
            let mut found = Roles::new();
            for row in roles.rows.iter().filter(is_kind) {
                *found.entry(row.text("role").to_owned()).or_default() += row.amount("kernels") as usize;
            }
            self.roles.truth += expected.values().sum::<usize>() as u64;
            self.roles.found += found.values().sum::<usize>() as u64;
            let right = |(role, count): (&String, &usize)| found.get(role).copied().unwrap_or(0).min(*count) as u64;
            self.roles.right += expected.iter().map(right).sum::<u64>();
        }
    }

    fn add_graphs(&mut self, config: &Config, truth: &Truth, section: &Section) {
        for (stage, graphs) in &truth.graphs {
            let row = section.rows.iter().find(|row| row.text("stage") == stage.label());
            let is_mode = row.is_some_and(|row| row.text("mode") == mode(config, *stage));
            self.graphs.add(Count { truth: 1, found: 1, right: u64::from(is_mode) });
            let figures = [
                ("steps", graphs.steps as f64),
                ("replayed_ops_pct", graphs.replayed_ops_pct()),
                ("replayed_time_pct", graphs.replayed_time_pct()),
                ("graph_launches_per_step", graphs.launches_per_step() as f64),
            ];
            let of_row = |key: &str| row.map(|row| row.amount(key));
            let count = compared(&figures, &of_row, &mut self.lies);
            self.graphs.add(count);
            // The annotations of these engines do not state the size that a graph was captured for.
            if row.is_some_and(|row| !row.words("padding_pct").is_empty()) {
                self.lies.push(format!("padding of {}", stage.label()));
            }
        }
    }

    fn add_rounds(&mut self, config: &Config, truth: &Truth, section: Option<&Section>) {
        if truth.rounds.is_empty() {
            return;
        }
        let of = |part: fn(&Round) -> i64| median(truth.rounds.iter().map(part).collect());
        let figures = [
            ("rounds", truth.rounds.len() as f64),
            ("batch", config.batch as f64),
            ("round_ns", of(|round| round.time)),
            ("verify_ns", of(|round| round.verify)),
            ("draft_ns", of(|round| round.draft)),
            ("draft_steps_per_round", of(|round| round.drafts as i64)),
        ];
        let row = section.and_then(|section| section.rows.first());
        let count = compared(&figures, &|key| row.map(|row| row.amount(key)), &mut self.lies);
        self.rounds.add(count);
    }
}

/// Compares the time of functions. In microseconds.
fn blamed(truth: &BTreeMap<String, i64>, section: &Section, lies: &mut Vec<String>) -> Count {
    let mut count = Count::default();
    if truth.is_empty() {
        return count;
    }
    let mut found: BTreeMap<String, i64> = BTreeMap::new();
    for row in section.rows.iter().filter(|row| !row.words("line").is_empty()) {
        let name = format!("{}({}): {}", row.text("file"), row.words("line"), row.text("function"));
        *found.entry(name).or_default() += (row.amount("total_ms") * 1e6) as i64;
    }
    let us = |ns: i64| (ns / 1_000) as u64;
    let all = truth.values().sum::<i64>();
    count.truth = us(all);
    for (function, ns) in &found {
        let true_ns = truth.get(function).copied().unwrap_or_default();
        count.found += us(*ns);
        count.right += us((*ns).min(true_ns));
        if ns - true_ns > all / 50 + 10_000 {
            lies.push(format!("blame of {function}: {} us instead of {}", us(*ns), us(true_ns)));
        }
    }
    count
}

/// Counts the figures that a row states, and those that are right to 0.1 %.
fn compared(figures: &[(&str, f64)], of_row: &dyn Fn(&str) -> Option<f64>, lies: &mut Vec<String>) -> Count {
    let mut count = Count { truth: figures.len() as u64, ..Count::default() };
    for (key, expected) in figures {
        let Some(found) = of_row(key) else { continue };
        let is_right = (found - expected).abs() <= expected * 1e-3;
        count.found += 1;
        count.right += u64::from(is_right);
        if !is_right {
            lies.push(format!("{key}: {found} instead of {expected}"));
        }
    }
    count
}

/// How the launches of a stage are called in the report.
fn mode(config: &Config, stage: Stage) -> &'static str {
    match config.launch_of(stage) {
        Launch::Full => "full",
        Launch::Piecewise => "piecewise",
        Launch::Eager => "eager",
    }
}

/// The mean of the two middle values if their number is even.
fn median(mut values: Vec<i64>) -> f64 {
    values.sort_unstable();
    let middle = (values.len() - 1) / 2;
    (values[middle] + values[values.len() / 2]) as f64 / 2.0
}

/// The kinds of the layers that a pattern describes: `A48`, `A3B58`, `(AB)12`.
fn expand(pattern: &str) -> Vec<usize> {
    if let Some((block, times)) = pattern.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        return expand(block).repeat(times.parse().unwrap());
    }
    let mut order = Vec::new();
    let mut rest = pattern;
    while let Some(letter) = rest.bytes().next() {
        rest = &rest[1..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let count = rest[..digits].parse().unwrap_or(1);
        rest = &rest[digits..];
        order.extend(std::iter::repeat_n(usize::from(letter - b'A'), count));
    }
    order
}

/// Kinds numbered by their first layer.
fn renumbered(order: &[usize]) -> Vec<usize> {
    let mut kinds: Vec<usize> = Vec::new();
    let number = |kind: &usize| {
        kinds.iter().position(|other| other == kind).unwrap_or_else(|| {
            kinds.push(*kind);
            kinds.len() - 1
        })
    };
    order.iter().map(number).collect()
}
