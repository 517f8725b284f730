//! What stands behind the tables, the most pressing first: what is wrong with the input, what was met in this trace, what is
//! not shown, what was set aside; last what figures are of, which is the same for every trace.

use super::super::text::notice_lines;
use super::tables::THREE;
use super::{Style, View};
use crate::analysis::results::{Run, Severity};
use crate::analysis::section::Value;
use crate::analysis::triage::definitions::is_definition;

/// Tables of our own, the summary's warnings first.
const OWN: [&str; 3] = ["triage_summary", "triage_steps", "triage_catalog"];

/// Sentences, each once, with the runs that say it.
#[derive(Default)]
struct Lines(Vec<(String, Vec<String>)>);

impl Lines {
    fn say(&mut self, run: &str, line: String) {
        match self.0.iter_mut().find(|(known, _)| *known == line) {
            Some((_, runs)) if runs.iter().any(|known| known == run) => {}
            Some((_, runs)) => runs.push(run.to_owned()),
            None => self.0.push((line, vec![run.to_owned()])),
        }
    }

    /// A sentence that not all of so many runs say names those that do.
    fn under(&self, style: Style, heading: &str, runs: usize) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let item = |(line, of): &(String, Vec<String>)| {
            let line = line.trim_end();
            if of.len() < runs { style.item(&format!("{}: {line}", of.join(", "))) } else { style.item(line) }
        };
        style.heading(heading) + &self.0.iter().map(item).collect::<String>()
    }
}

impl View<'_> {
    pub(super) fn notes(&self) -> String {
        let (mut notes, mut definitions) = (Lines::default(), Lines::default());
        let labels = self.report.labels();
        let runs: Vec<(&str, &Run)> = labels.iter().map(String::as_str).zip(&self.report.runs).collect();
        let notices = |notes: &mut Lines, is_wanted: fn(Severity) -> bool| {
            for (label, run) in &runs {
                let lines = run.notices.iter().zip(notice_lines(run));
                lines.filter(|(notice, _)| is_wanted(notice.severity)).for_each(|(_, line)| notes.say(label, line));
            }
        };
        notices(&mut notes, |severity| severity != Severity::Info);
        for (of, name) in sections_in_order() {
            for (label, section) in runs.iter().filter_map(|(label, run)| Some((label, run.sections.get(name)?))) {
                let (same, own): (Vec<&String>, Vec<&String>) =
                    section.limits.iter().partition(|limit| is_definition(limit));
                own.into_iter().for_each(|limit| notes.say(label, format!("{of}{limit}")));
                // Nothing is defined of a table without rows. What is, is so for all runs.
                let defined = same.into_iter().filter(|_| !section.rows.is_empty());
                defined.for_each(|limit| definitions.say("", format!("{of}{limit}")));
                if let Some(missing) = section.missing.as_ref().filter(|_| !of.is_empty()) {
                    notes.say(label, format!("{of}{} {}", missing.why, missing.recapture));
                }
            }
        }
        runs.iter().for_each(|(label, run)| hidden(run).into_iter().for_each(|line| notes.say(label, line)));
        notices(&mut notes, |severity| severity == Severity::Info);
        notes.under(self.style, "Notes", runs.len()) + &definitions.under(self.style, "Definitions", 0)
    }
}

/// Each section, before it the words that say whose a sentence is. What our own tables miss stands at their place.
fn sections_in_order() -> impl Iterator<Item = (String, &'static str)> {
    let three = THREE.iter().map(|layout| (format!("{}: ", layout.title), layout.section));
    OWN.iter().map(|name| (String::new(), *name)).chain(three)
}

/// Rows that there are and that are not shown, in a sentence or two.
fn hidden(run: &Run) -> Vec<String> {
    let number = |section: &str, figure: &str| {
        let section = run.sections.get(section)?;
        section.summary.get(figure).and_then(Value::number).filter(|number| *number > 0.0)
    };
    let (mut below, mut lines) = (Vec::new(), Vec::new());
    if let Some(kernels) = number("triage_kernels", "hidden_rows") {
        let all = run.sections.get("triage_kernels").map_or(0, |section| section.rows_in_all);
        let share = number("triage_kernels", "hidden_share_pct").unwrap_or_default();
        below.push(format!("{kernels} of {all} kernels ({share:.1} % of the GPU time)"));
    }
    for (section, figure, what) in
        [("triage_overlap", "rows_below_bar", "overlap row"), ("triage_fuse", "under_the_bar", "fuse pattern")]
    {
        below.extend(number(section, figure).map(|rows| counted(rows, what)));
    }
    if !below.is_empty() {
        lines.push(format!("Below the bar and not shown: {}; --min-share 0 shows them.", below.join(", ")));
    }
    if let Some(serial) = number("triage_overlap", "serial_rows") {
        lines.push(format!(
            "Not among the overlap opportunities: {} running alone, because what runs before and after on the same stream \
             speaks against moving it.",
            counted(serial, "kernel"),
        ));
    }
    lines
}

fn counted(count: f64, what: &str) -> String {
    if count == 1.0 { format!("{count} {what}") } else { format!("{count} {what}s") }
}
