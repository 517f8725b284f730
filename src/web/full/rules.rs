//! The rules tab: which kernels each rule matches, checks of the user's own rules, and the rules in use as a file.

use super::Tools;
use crate::analysis::results::Run;
use crate::analysis::rule_draft::{kernel_of, rule_draft};
use crate::analysis::rule_use;
use crate::json;
use crate::ordering;
use crate::report::palette;
use crate::report::{self, TableRequest, section_table, table::Table};
use crate::rules::{self, RuleSet, names};
use crate::session::{self, Choices, UserFile};
use crate::web::{JsResult, to_js, to_js_error, view};
use serde::Serialize;
use wasm_bindgen::prelude::*;

/// A rule for a kernel that is being written.
#[derive(Serialize)]
struct DraftView {
    /// Its regular expression: the one asked for, else one that matches kernels like this one.
    regex: String,
    /// The category of the kernel so far.
    category: String,
    /// The categories to choose from.
    categories: Vec<CategoryChoice>,
    /// What is wrong with the rule; empty if nothing is.
    problem: String,
    /// What the rule takes; `None` if it is wrong.
    table: Option<view::TableView>,
    /// The rule file with the rule; empty if the rule is wrong.
    text: String,
}

#[derive(Serialize)]
struct CategoryChoice {
    name: String,
    title: String,
}

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

    /// A rule that puts a kernel and those like it into a category: what it takes, and the text of the rule file with it. An empty
    /// `regex` stands for a suggestion. Null if no run has the kernel.
    ///
    /// # Errors
    /// Invalid choices. What is wrong with the rule is part of the answer.
    pub fn rule_draft(
        &self,
        choices: &str,
        file: &str,
        text: &str,
        kernel: &str,
        regex: &str,
        category: &str,
    ) -> JsResult<JsValue> {
        let choices: Choices = json::read(choices).map_err(to_js_error)?;
        let rules = rules_of(&choices)?;
        let runs: Vec<&Run> = self.report.runs.iter().collect();
        let Some((raw, so_far)) = kernel_of(&runs, kernel) else { return Ok(JsValue::NULL) };
        let regex = if regex.is_empty() { rules.suggest_regex(raw, &names::demangle(raw)) } else { regex.to_owned() };
        let category = if category.is_empty() { so_far } else { category };
        let drafted = with_rule(&choices, file, text, &rules, (&regex, category));
        let (problem, draft) = match drafted {
            Ok(draft) => (String::new(), Some(draft)),
            Err(error) => (error.to_string(), None),
        };
        let table = draft.as_ref().map(|(_, with_rule)| {
            let request = TableRequest::default();
            let section = rule_draft(with_rule, &regex, &runs);
            view::PagedTable::new(section_table("rule_draft", &section), &request, true).view(&request)
        });
        to_js(&DraftView {
            category: so_far.to_owned(),
            categories: category_choices(&rules, &runs),
            problem,
            table,
            text: draft.map(|(text, _)| text).unwrap_or_default(),
            regex,
        })
    }
}

/// The text of the rule file with this rule, and all rules with it.
fn with_rule(
    choices: &Choices,
    file: &str,
    text: &str,
    rules: &RuleSet,
    (regex, category): (&str, &str),
) -> crate::Result<(String, RuleSet)> {
    let text = rules::put_rule(file, text, rules, regex, category)?;
    rules::check_user_file(file, &text)?;
    let (engine, model) = rules.label().split_once('/').unwrap_or((rules.label(), ""));
    let mut files: Vec<UserFile> = choices.rules.iter().filter(|other| other.file != file).cloned().collect();
    files.push(UserFile { file: file.to_owned(), text: text.clone() });
    let (book, _) = session::rule_book(&files)?;
    Ok((text, book.select(engine, model)?))
}

/// The categories of the rules and of the kernels, in alphabetical order of their titles.
fn category_choices(rules: &RuleSet, runs: &[&Run]) -> Vec<CategoryChoice> {
    let mut names = rules.categories();
    names.extend(runs.iter().flat_map(|run| &run.kernels).map(|kernel| kernel.category.as_str()));
    let choice = |name: &str| CategoryChoice { name: name.to_owned(), title: palette::title(name).to_owned() };
    let mut choices: Vec<CategoryChoice> = names.into_iter().map(choice).collect();
    ordering::sort_by_key(&mut choices, |choice| choice.title.to_lowercase());
    choices
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
    rules_of(&json::read(choices).map_err(to_js_error)?)
}

fn rules_of(choices: &Choices) -> JsResult<RuleSet> {
    let (book, _) = session::rule_book(&choices.rules).map_err(to_js_error)?;
    session::pick_rules(&book, choices).map_err(to_js_error)
}
