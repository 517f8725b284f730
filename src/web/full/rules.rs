//! The rules tab: which kernels each rule matches, checks of the user's own rules, and the rules in use as a file.

use super::Tools;
use crate::analysis::results::Run;
use crate::analysis::rule_use;
use crate::json;
use crate::report::{self, TableRequest, section_table, table::Table};
use crate::rules::{self, RuleSet, names};
use crate::session::{self, Choices};
use crate::web::{JsResult, to_js, to_js_error, view};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
impl Tools {
    /// A table of rules or of unmatched kernels under these choices.
    ///
    /// # Errors
    /// An invalid rule file, invalid choices or an invalid request.
    pub fn workbench(&self, choices: &str, request: &str) -> JsResult<JsValue> {
        let request: TableRequest = json::read(request).map_err(to_js_error)?;
        let table = self.rule_table(choices, &request)?;
        to_js(&table.map(|table| view::PagedTable::new(table, &request, false).view(&request)))
    }

    /// The same table as CSV with all rows.
    ///
    /// # Errors
    /// Those of [`Tools::workbench`].
    pub fn workbench_csv(&self, choices: &str, request: &str) -> JsResult<String> {
        let request: TableRequest = json::read(request).map_err(to_js_error)?;
        Ok(self.rule_table(choices, &request)?.map(|table| report::csv(&table)).unwrap_or_default())
    }

    /// The rules in use as a rule file of gputrc2graph: the file name that this tool expects, and the text.
    ///
    /// # Errors
    /// An invalid rule file.
    pub fn rules_json(&self, choices: &str) -> JsResult<Vec<String>> {
        let rules = rules_in_use(choices)?;
        Ok(vec![rules.file_name(), rules.to_json()])
    }

    /// The error in a rule file that is being edited. Empty if there is none.
    pub fn check_rules(&self, file: &str, text: &str) -> String {
        rules::check_user_file(file, text).err().map(|error| error.to_string()).unwrap_or_default()
    }

    /// Adds a rule for kernels like this one, with an empty category, to the text of a rule file. Returns the text and the rule's
    /// regular expression as it is written there.
    ///
    /// # Errors
    /// The text is no rule file.
    pub fn rule_for_kernel(&self, choices: &str, file: &str, text: &str, kernel: &str) -> JsResult<Vec<String>> {
        let rules = rules_in_use(choices)?;
        let demangled = names::demangle(kernel);
        let regex = rules.suggest_regex(kernel, &demangled);
        Ok(vec![rules::add_rule(file, text, &rules, &regex, "").map_err(to_js_error)?, json::write(&regex)])
    }

    /// Adds a copy of a rule in use to the text of a rule file. Returns the same as [`Tools::rule_for_kernel`].
    ///
    /// # Errors
    /// The text is no rule file.
    pub fn rule_to_edit(&self, choices: &str, file: &str, text: &str, regex: &str) -> JsResult<Vec<String>> {
        let rules = rules_in_use(choices)?;
        let category = rules.category_of(regex).unwrap_or_default();
        Ok(vec![rules::add_rule(file, text, &rules, regex, category).map_err(to_js_error)?, json::write(&regex)])
    }
}

impl Tools {
    fn rule_table(&self, choices: &str, request: &TableRequest) -> JsResult<Option<Table>> {
        let rules = rules_in_use(choices)?;
        let runs = self.report.runs.iter().enumerate().filter(|(index, _)| request.run.is_none_or(|run| run == *index));
        let runs: Vec<&Run> = runs.map(|(_, run)| run).collect();
        Ok(rule_use(&rules, &runs).get(&request.id).map(|section| section_table(&request.id, section)))
    }
}

fn rules_in_use(choices: &str) -> JsResult<RuleSet> {
    let choices: Choices = json::read(choices).map_err(to_js_error)?;
    let (book, _) = session::rule_book(&choices.rules).map_err(to_js_error)?;
    session::pick_rules(&book, &choices).map_err(to_js_error)
}
