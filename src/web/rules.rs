//! The rule workbench in the page: what rules do, the person's own rules checked while they are written, and rules as a file.

use super::{Desk, Thrown, thrown, to_js, view};
use crate::analysis::results::Run;
use crate::analysis::rule_use;
use crate::json;
use crate::report::{self, TableRequest, section_table, table::Table};
use crate::rules::{self, RuleSet, names};
use crate::session::{self, Choices};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
impl Desk {
    /// A table of the workbench under these choices, as `Desk.table` gives those of the comparison.
    ///
    /// # Errors
    /// Rules that cannot be used; texts of another shape.
    pub fn workbench(&self, choices: &str, request: &str) -> Thrown<JsValue> {
        let request: TableRequest = json::read(request).map_err(thrown)?;
        let whole = self.rule_table(choices, &request)?;
        to_js(&whole.map(|whole| view::Arranged::table(whole, &request, false).view(&request)))
    }

    /// The same as CSV, with all its rows.
    ///
    /// # Errors
    /// Those of [`Desk::workbench`].
    pub fn workbench_csv(&self, choices: &str, request: &str) -> Thrown<String> {
        let request: TableRequest = json::read(request).map_err(thrown)?;
        Ok(self.rule_table(choices, &request)?.map(|table| report::csv(&table)).unwrap_or_default())
    }

    /// The rule set in force as a rule file of gputrc2graph's shape: what to call it, where that tool looks for it, and its text.
    ///
    /// # Errors
    /// Rules that cannot be used.
    pub fn rules_json(&self, choices: &str) -> Thrown<Vec<String>> {
        let rules = in_force(choices)?;
        Ok(vec![rules.file_name(), rules.to_json()])
    }

    /// What is wrong with a rule file that is being written; empty where nothing is.
    pub fn check_rules(&self, file: &str, text: &str) -> String {
        rules::check_user_file(file, text).err().map(|error| error.to_string()).unwrap_or_default()
    }

    /// The text of a person's rule file with a rule for kernels like this one, whose category is left to fill in.
    ///
    /// # Errors
    /// A text that is no rule file.
    pub fn rule_for_kernel(&self, choices: &str, file: &str, text: &str, kernel: &str) -> Thrown<Vec<String>> {
        let rules = in_force(choices)?;
        let readable = names::demangle(kernel);
        let regex = rules.suggest_regex(kernel, &readable);
        Ok(vec![rules::add_rule(file, text, &rules, &regex, "").map_err(thrown)?, json::write(&regex)])
    }

    /// The text of a person's rule file with a rule in force in it, to be changed.
    ///
    /// # Errors
    /// A text that is no rule file.
    pub fn rule_to_edit(&self, choices: &str, file: &str, text: &str, regex: &str) -> Thrown<Vec<String>> {
        let rules = in_force(choices)?;
        let category = rules.category_of(regex).unwrap_or_default();
        Ok(vec![rules::add_rule(file, text, &rules, regex, category).map_err(thrown)?, json::write(&regex)])
    }
}

impl Desk {
    fn rule_table(&self, choices: &str, request: &TableRequest) -> Thrown<Option<Table>> {
        let rules = in_force(choices)?;
        let runs = self.report.runs.iter().enumerate().filter(|(at, _)| request.run.is_none_or(|run| run == *at));
        let runs: Vec<&Run> = runs.map(|(_, run)| run).collect();
        Ok(rule_use(&rules, &runs).get(&request.id).map(|section| section_table(&request.id, section)))
    }
}

fn in_force(choices: &str) -> Thrown<RuleSet> {
    let choices: Choices = json::read(choices).map_err(thrown)?;
    let (book, _) = session::rule_book(&choices.rules).map_err(thrown)?;
    session::pick_rules(&book, &choices).map_err(thrown)
}
