//! `gpuprism bundle`: the texts of several triages in one Markdown document, by model and framework.

use super::{files, print};
use crate::ordering::StableSort;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Put the texts of several triages into one Markdown document. It carries no date: the same texts give the same bytes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A folder with analysis*.txt and analysis*.md, in it or below; the folder of each is its label.
    #[arg(long = "analysis-root", value_name = "DIR")]
    analysis_root: Vec<PathBuf>,
    /// One text, of this triage or of the original's; without a label that of its folder. May be given again.
    #[arg(long = "analysis-file", value_name = "[LABEL=]PATH")]
    analysis_file: Vec<String>,
    /// The heading of the document.
    #[arg(long, default_value = "Torch profile triage", value_name = "TEXT")]
    title: String,
    /// Where it goes; otherwise to standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Begin with a table of contents; this is so without the flag.
    #[arg(long = "include-toc", overrides_with = "no_include_toc")]
    include_toc: bool,
    /// Leave the table of contents out.
    #[arg(long = "no-include-toc")]
    no_include_toc: bool,
}

/// Words in a file's name or on its `Framework:` line, and what they stand for, in the order of the document.
const FRAMEWORKS: [(&str, &[&str]); 5] = [
    ("SGLang", &["sglang"]),
    ("vLLM", &["vllm"]),
    ("TensorRT-LLM", &["trtllm", "tensorrt"]),
    ("TokenSpeed", &["tokenspeed"]),
    ("Other", &[]),
];

/// One text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Analysis {
    label: String,
    source: String,
    text: String,
}

pub(super) fn run(args: &Args) -> Result<()> {
    if args.analysis_root.is_empty() && args.analysis_file.is_empty() {
        return Err(Error::usage("bundle", "give --analysis-root DIR or --analysis-file PATH"));
    }
    let mut analyses = Vec::new();
    for root in &args.analysis_root {
        analyses.extend(below(root, args.output.as_deref())?);
    }
    for argument in &args.analysis_file {
        let (label, path) = labelled(argument);
        analyses.push(read(&path, label)?);
    }
    let document = document(&args.title, &analyses, !args.no_include_toc);
    match &args.output {
        Some(path) => files::write(path, &document),
        None => print(&document),
    }
}

/// A label before `=`, unless the whole is a file that has such a name.
fn labelled(argument: &str) -> (Option<&str>, PathBuf) {
    match argument.split_once('=') {
        Some((label, path)) if !label.is_empty() && !Path::new(argument).exists() => (Some(label), path.into()),
        _ => (None, argument.into()),
    }
}

/// The texts in a folder and below; what an earlier call wrote to the same place is none of them.
fn below(root: &Path, output: Option<&Path>) -> Result<Vec<Analysis>> {
    let is_analysis = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.starts_with("analysis") && (name.ends_with(".txt") || name.ends_with(".md"))
    };
    let output = output.and_then(|path| path.canonicalize().ok());
    let is_output = |path: &str| output.is_some() && root.join(path).canonicalize().ok() == output;
    let entries = files::entries(root)?;
    let found = entries.iter().filter(|entry| is_analysis(&entry.path) && !is_output(&entry.path));
    let analyses: Vec<Analysis> = found.map(|entry| read(&root.join(&entry.path), None)).collect::<Result<_>>()?;
    if analyses.is_empty() {
        let why = "no analysis*.txt or analysis*.md in it or below: write some with `gpuprism triage ... > analysis_NAME.txt`";
        return Err(Error::refused(root.display().to_string(), why));
    }
    Ok(analyses)
}

fn read(path: &Path, label: Option<&str>) -> Result<Analysis> {
    let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
    let text = String::from_utf8_lossy(&std::fs::read(path).map_err(failed)?).into_owned();
    if text.trim_start().starts_with('{') {
        let why = "JSON, not a text: give what `gpuprism triage` prints as text or with `--format markdown`";
        return Err(Error::refused(path.display().to_string(), why));
    }
    // `.` has no name of its own.
    let folder = path.canonicalize().ok().and_then(|path| path.parent().map(files::label));
    let label = label.map(str::to_owned).or(folder).unwrap_or_default();
    Ok(Analysis { label, source: path.display().to_string(), text })
}

impl Analysis {
    /// The place of its framework among all: by the file's name, else by what the text says.
    fn framework(&self) -> usize {
        let of = |text: &str| {
            let text = text.to_ascii_lowercase();
            FRAMEWORKS.iter().position(|(_, words)| words.iter().any(|word| text.contains(word)))
        };
        let name = of(&files::label(Path::new(&self.source)));
        name.or_else(|| self.fact("Framework").and_then(of)).unwrap_or(FRAMEWORKS.len() - 1)
    }

    /// What stands on the line `NAME: ...`, in a list or not.
    fn fact(&self, name: &str) -> Option<&str> {
        let facts = self.text.lines().map(|line| line.trim_start_matches("- "));
        facts
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            .map(str::trim)
            .find(|fact| !fact.is_empty())
    }
}

fn document(title: &str, analyses: &[Analysis], with_contents: bool) -> String {
    let mut labels: Vec<&str> = Vec::new();
    for analysis in analyses {
        if !labels.contains(&analysis.label.as_str()) {
            labels.push(&analysis.label);
        }
    }
    let names: Vec<String> = labels.iter().map(|label| model(label, analyses)).collect();
    let mut text = format!("# {}\n", one_line(title));
    if with_contents {
        text += "\n## Contents\n\n";
        let headings = ["Contents".to_owned()].into_iter().chain(names.iter().cloned()).collect::<Vec<_>>();
        for (name, anchor) in names.iter().zip(anchors(&headings).into_iter().skip(1)) {
            text += &format!("- [{}](#{anchor})\n", one_line(name).replace(['[', ']'], ""));
        }
    }
    for (label, name) in labels.iter().zip(&names) {
        text += &format!("\n## {}\n\nModel id: {}\n", one_line(name), one_line(label));
        let mut own: Vec<&Analysis> = analyses.iter().filter(|analysis| analysis.label == *label).collect();
        own.order_by_key(|analysis| analysis.framework());
        for analysis in own {
            let framework = FRAMEWORKS.get(analysis.framework()).map_or("Other", |(name, _)| name);
            text += &format!("\n### {framework}\n\nSource: {}\n\n{}", one_line(&analysis.source), body(&analysis.text));
        }
    }
    text
}

/// The longest name that a text of this label gives its model; the label where none does.
fn model(label: &str, analyses: &[Analysis]) -> String {
    let own = analyses.iter().filter(|analysis| analysis.label == label);
    let names = own.filter_map(|analysis| analysis.fact("Model"));
    // Of equally long ones the first.
    let longest = names.fold("", |longest, name| if name.len() > longest.len() { name } else { longest });
    if longest.is_empty() { label.to_owned() } else { longest.to_owned() }
}

/// The anchors that GitHub gives headings of these texts.
fn anchors(headings: &[String]) -> Vec<String> {
    let slug = |heading: &String| -> String {
        let kept = heading
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '))
            .collect::<String>();
        kept.replace(' ', "-")
    };
    let slugs: Vec<String> = headings.iter().map(slug).collect();
    let times = |at: usize, slug: &String| slugs.iter().take(at).filter(|other| *other == slug).count();
    let numbered = |(at, slug): (usize, &String)| match times(at, slug) {
        0 => slug.clone(),
        before => format!("{slug}-{before}"),
    };
    slugs.iter().enumerate().map(numbered).collect()
}

/// A text under a heading of the third level: its own headings become the fourth, and no name becomes markup.
fn body(text: &str) -> String {
    if text.trim().is_empty() {
        return "_Nothing in this file._\n".to_owned();
    }
    let (mut out, mut before_is_blank, mut in_facts) = (String::new(), true, false);
    for line in text.trim().lines() {
        let line = plain(line.trim_end());
        let is_title = before_is_blank && is_title(&line);
        let demoted = demoted(&line);
        if is_title {
            out += &format!("#### {line}\n\n");
        } else if let Some(heading) = demoted {
            out += &heading;
        } else if in_facts && !line.is_empty() {
            out += &format!("- {line}\n");
        } else {
            out += &format!("{line}\n");
        }
        in_facts = if is_title { line == "Triage View" } else { in_facts && !line.is_empty() };
        before_is_blank = line.is_empty();
    }
    out
}

/// `Kernel Table`: a line by itself that a table, a list or facts follow.
fn is_title(line: &str) -> bool {
    const LONGEST: usize = 60;
    line.starts_with(|first: char| first.is_ascii_alphabetic())
        && line.len() <= LONGEST
        && !line.contains([':', '.', '|'])
}

/// A heading of Markdown, two levels down; a stage's heading in a text has its level already.
fn demoted(line: &str) -> Option<String> {
    const STAGE: usize = 5;
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let words = line.get(level..)?.strip_prefix(' ')?;
    (level > 0).then(|| format!("{} {words}\n", "#".repeat((level + 2).min(STAGE))))
}

/// Takes the meaning from tags other than the `<br>` of a cell, and from what could command a terminal.
fn plain(line: &str) -> String {
    crate::report::format::clean(line).replace('<', "&lt;").replace("&lt;br>", "<br>")
}

fn one_line(text: &str) -> String {
    plain(&text.replace(['\n', '\r'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn analysis(label: &str, source: &str, text: &str) -> Analysis {
        Analysis { label: label.into(), source: source.into(), text: text.into() }
    }

    #[test]
    fn the_layout_is_model_framework_source_and_text_one_below_the_other() {
        let original = "Triage View\nMode: single-trace\nModel: Qwen/Qwen3\n\nKernel Table\n##### decode\n| Kernel |\n| --- |\n| void f<int><br>x |\n";
        let ours = "## Triage View\n\n- Mode: single-trace\n- Framework: SGLang\n- Model: Q\n\n## Kernel Table\n\n### decode\n\n| Kernel |\n";
        let analyses = [
            analysis("qwen", "r/analysis_vllm.txt", original),
            analysis("qwen", "r/analysis.md", ours),
            analysis("none", "r/analysis_x.txt", " \n"),
        ];
        let want = "# T\n\n## Contents\n\n- [Qwen/Qwen3](#qwenqwen3)\n- [none](#none)\n\n## Qwen/Qwen3\n\nModel id: qwen\n\n\
                    ### SGLang\n\nSource: r/analysis.md\n\n#### Triage View\n\n- Mode: single-trace\n- Framework: SGLang\n- Model: Q\n\n\
                    #### Kernel Table\n\n##### decode\n\n| Kernel |\n\n\
                    ### vLLM\n\nSource: r/analysis_vllm.txt\n\n#### Triage View\n\n- Mode: single-trace\n- Model: Qwen/Qwen3\n\n\
                    #### Kernel Table\n\n##### decode\n| Kernel |\n| --- |\n| void f&lt;int><br>x |\n\n\
                    ## none\n\nModel id: none\n\n### Other\n\nSource: r/analysis_x.txt\n\n_Nothing in this file._\n";
        assert_eq!(document("T", &analyses, true), want);
        assert!(!document("T", &analyses, false).contains("Contents"));
    }

    #[test]
    fn anchors_of_equal_names_are_numbered() {
        assert_eq!(anchors(&["A B!".into(), "a b".into(), "c".into()]), ["a-b", "a-b-1", "c"]);
    }

    #[test]
    fn a_label_is_what_stands_before_the_first_equals_sign() {
        assert_eq!(labelled("qwen=a=b.txt"), (Some("qwen"), "a=b.txt".into()));
        assert_eq!(labelled("a.txt"), (None, "a.txt".into()));
    }
}
