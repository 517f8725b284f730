//! Can an agent answer questions about real traces from what the tools return?
//!
//! `questions.json` has questions about shared traces, each with the facts that an answer needs. The facts come from programs that
//! share no code with gpuprism (`source`: a file of `shared/oracles/` and its field). A question counts as answered from the
//! brief if the brief of 2,000 tokens contains every fact; else the calls under `ask` are made. Prints the share of both.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

mod skill;

use crate::common;
use common::mcp::Server;
use common::shared;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Question {
    file: String,
    question: String,
    source: String,
    /// Every inner list needs one of its texts in the answer.
    needs: Vec<Vec<String>>,
    /// Calls: `["open"]`, `["show", id]`, or `["table", name, filter]`.
    ask: Vec<Vec<String>>,
}

impl Question {
    fn is_answered_by(&self, text: &str) -> bool {
        let text = text.replace('\\', "");
        self.needs.iter().all(|any| any.iter().any(|words| text.contains(words)))
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn questions_are_answered_within_the_budget_most_by_the_brief_alone() {
    let folder = shared("traces/torch");
    let questions: Vec<Question> = serde_json::from_str(include_str!("questions.json")).unwrap();
    let mut server = Server::start(&folder);
    let mut briefs: BTreeMap<String, String> = BTreeMap::new();
    let (mut by_brief, mut by_calls, mut open) = (0, 0, Vec::new());
    for question in &questions {
        let file = &question.file;
        let brief =
            briefs.entry(file.clone()).or_insert_with(|| server.call("brief", json!({"files": [file]})).unwrap());
        assert!(brief.len() <= 6_000, "{file}: a brief of {} bytes", brief.len());
        if question.is_answered_by(brief) {
            by_brief += 1;
            continue;
        }
        let mut text = brief.clone();
        for call in &question.ask {
            let arguments = match call[0].as_str() {
                "open" => json!({"path": file}),
                "show" => json!({"file": file, "id": call[1]}),
                _ => json!({"file": file, "name": call[1], "filter": call.get(2).cloned().unwrap_or_default()}),
            };
            let answer = server.call(&call[0], arguments).unwrap();
            assert!(answer.len() <= 18_200, "{file} {call:?}: {} bytes", answer.len());
            text += &answer;
        }
        if question.is_answered_by(&text) {
            by_calls += 1;
        } else {
            open.push(format!("{file}: {} ({})", question.question, question.source));
        }
    }
    let all = questions.len();
    println!("{all} questions: {by_brief} answered by the brief alone, {by_calls} more with other tools");
    open.iter().for_each(|question| println!("not answered: {question}"));
    assert!((by_brief + by_calls) * 20 >= all * 19, "{} of {all} are not answered: {}", open.len(), open.join("\n"));
    assert!(by_brief * 5 >= all * 3, "the brief answers only {by_brief} of {all}");
}
