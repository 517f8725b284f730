//! What stands behind the tables, the most pressing first: what is wrong with the input, what was met in this trace, what is
//! not shown, what was set aside; last what figures are of, which is the same for every trace.

use super::super::words::notice_lines;
use super::tables::THREE;
use super::{Style, View};
use crate::analysis::results::{Run, Severity};
use crate::analysis::section::{Section, Value};
use crate::analysis::triage::definitions::is_definition;

/// Tables of our own, the summary's warnings first.
const OWN: [&str; 3] = ["triage_summary", "triage_steps", "triage_catalog"];

/// Sentences, each once.
#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    fn say(&mut self, line: String) {
        if !self.0.contains(&line) {
            self.0.push(line);
        }
    }

    fn under(&self, style: Style, heading: &str) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let items = self.0.iter().map(|line| style.item(line.trim_end()));
        style.heading(heading) + &items.collect::<String>()
    }
}

impl View<'_> {
    pub(super) fn notes(&self) -> String {
        let (mut notes, mut definitions) = (Lines::default(), Lines::default());
        self.notices(&mut notes, |severity| severity != Severity::Info);
        for (of, section) in self.sections_in_order() {
            for limit in &section.limits {
                match is_definition(limit) {
                    false => notes.say(format!("{of}{limit}")),
                    // Nothing is defined of a table without rows.
                    true if !section.rows.is_empty() => definitions.say(format!("{of}{limit}")),
                    true => {}
                }
            }
        }
        for layout in &THREE {
            let missing = self.sections(layout.section).filter_map(|section| section.missing.as_ref());
            missing.for_each(|missing| notes.say(format!("{}: {} {}", layout.title, missing.why, missing.recapture)));
        }
        let labels = self.report.labels();
        for (run, label) in self.report.runs.iter().zip(&labels) {
            let label = if labels.len() > 1 { format!("{label}: ") } else { String::new() };
            hidden(run).into_iter().for_each(|line| notes.say(format!("{label}{line}")));
        }
        self.notices(&mut notes, |severity| severity == Severity::Info);
        notes.under(self.style, "Notes") + &definitions.under(self.style, "Definitions")
    }

    fn notices(&self, notes: &mut Lines, is_wanted: fn(Severity) -> bool) {
        for run in &self.report.runs {
            let lines = run.notices.iter().zip(notice_lines(run));
            lines.filter(|(notice, _)| is_wanted(notice.severity)).for_each(|(_, line)| notes.say(line));
        }
    }

    /// Each section with the words that say whose it is.
    fn sections_in_order(&self) -> impl Iterator<Item = (String, &Section)> {
        let three = THREE.iter().map(|layout| (format!("{}: ", layout.title), layout.section));
        let all = OWN.iter().map(|name| (String::new(), *name)).chain(three);
        all.flat_map(|(of, name)| self.sections(name).map(move |section| (of.clone(), section)))
    }
}

/// Rows that there are and that are not shown.
fn hidden(run: &Run) -> Vec<String> {
    let number = |section: &str, figure: &str| {
        let section = run.sections.get(section)?;
        section.summary.get(figure).and_then(Value::number).filter(|number| *number > 0.0)
    };
    let mut lines = Vec::new();
    if let Some(kernels) = number("triage_kernels", "hidden_rows") {
        let all = run.sections.get("triage_kernels").map_or(0, |section| section.rows_in_all);
        let share = number("triage_kernels", "hidden_share_pct").unwrap_or_default();
        lines.push(format!(
            "Kernel Table: {kernels} of {all} kernels are not shown, {share:.1} % of the GPU time; --min-share 0 shows \
             them.",
        ));
    }
    if let Some(serial) = number("triage_overlap", "serial_rows") {
        lines.push(format!(
            "Overlap Opportunity Table: {serial} kernels that run alone are not listed: what runs before and after \
             them on their stream speaks against moving them.",
        ));
    }
    for (title, section, figure) in [
        ("Overlap Opportunity Table", "triage_overlap", "rows_below_bar"),
        ("Fuse Opportunity Table", "triage_fuse", "under_the_bar"),
    ] {
        if let Some(rows) = number(section, figure) {
            lines.push(format!("{title}: {rows} rows below the bar are not shown; --min-share 0 shows them."));
        }
    }
    lines
}
