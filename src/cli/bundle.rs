//! `gpuprism bundle`: combines the texts of several triages into one Markdown document, grouped by model and framework.

use super::{files, print};
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Combine the output of several triages into one Markdown document.
///
/// The document contains no date, so the same input gives the same document.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A folder with files analysis*.txt and analysis*.md, also in subfolders. The label of a file is the name of its folder.
    /// May be given several times.
    #[arg(long, value_name = "DIR")]
    analysis_root: Vec<PathBuf>,
    /// The output of `gpuprism triage` or of the original triage. The default label is the name of its folder. May be given several
    /// times.
    #[arg(long, value_name = "[LABEL=]PATH")]
    analysis_file: Vec<String>,
    /// The heading of the document.
    #[arg(long, default_value = "Torch profile triage", value_name = "TEXT")]
    title: String,
    /// Write the document to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Include a table of contents (the default).
    #[arg(long, overrides_with = "no_include_toc")]
    include_toc: bool,
    /// Omit the table of contents.
    #[arg(long)]
    no_include_toc: bool,
}

/// Frameworks in document order, with the words that identify them in a file name or on a `Framework:` line.
const FRAMEWORKS: [(&str, &[&str]); 5] = [
    ("SGLang", &["sglang"]),
    ("vLLM", &["vllm"]),
    ("TensorRT-LLM", &["trtllm", "tensorrt"]),
    ("TokenSpeed", &["tokenspeed"]),
    ("Other", &[]),
];

/// The text of one triage.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Analysis {
    label: String,
    source: String,
    text: String,
}

pub(super) fn run(args: &Args) -> Result<()> {
    if args.analysis_root.is_empty() && args.analysis_file.is_empty() {
        return Err(Error::usage("bundle", "no input: give --analysis-root DIR or --analysis-file PATH"));
    }
    let mut analyses = Vec::new();
    for root in &args.analysis_root {
        analyses.extend(read_folder(root, args.output.as_deref())?);
    }
    for argument in &args.analysis_file {
        let (label, path) = split_label(argument);
        analyses.push(read(&path, label)?);
    }
    let document = document(&args.title, &analyses, !args.no_include_toc);
    match &args.output {
        Some(path) => files::write(path, &document),
        None => print(&document),
    }
}

/// Splits `LABEL=PATH`, unless a file with the whole name exists.
fn split_label(argument: &str) -> (Option<&str>, PathBuf) {
    match argument.split_once('=') {
        Some((label, path)) if !label.is_empty() && !Path::new(argument).exists() => (Some(label), path.into()),
        _ => (None, argument.into()),
    }
}

/// Reads all texts of a folder and its subfolders, except the output file of an earlier call.
fn read_folder(root: &Path, output: Option<&Path>) -> Result<Vec<Analysis>> {
    let is_analysis = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.starts_with("analysis") && (name.ends_with(".txt") || name.ends_with(".md"))
    };
    let output = output.and_then(|path| path.canonicalize().ok());
    let is_output = |path: &str| output.is_some() && root.join(path).canonicalize().ok() == output;
    let entries = files::entries(root, None, &files::StandardError)?;
    let found = entries.iter().filter(|entry| is_analysis(&entry.path) && !is_output(&entry.path));
    let analyses: Vec<Analysis> = found.map(|entry| read(&root.join(&entry.path), None)).collect::<Result<_>>()?;
    if analyses.is_empty() {
        let why = "no analysis*.txt or analysis*.md in this folder or its subfolders: create them with \
                   `gpuprism triage ... --format text > analysis_NAME.txt`";
        return Err(Error::refused(root.display().to_string(), why));
    }
    Ok(analyses)
}

fn read(path: &Path, label: Option<&str>) -> Result<Analysis> {
    let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
    let text = String::from_utf8_lossy(&std::fs::read(path).map_err(failed)?).into_owned();
    if text.trim_start().starts_with('{') {
        let why = "JSON instead of text: give the output of `gpuprism triage` in the format text or markdown";
        return Err(Error::refused(path.display().to_string(), why));
    }
    // Relative paths such as `.` have no folder name.
    let folder = path.canonicalize().ok().and_then(|path| path.parent().map(files::label));
    let label = label.map(str::to_owned).or(folder).unwrap_or_default();
    Ok(Analysis { label, source: path.display().to_string(), text })
}

impl Analysis {
    /// The index into [`FRAMEWORKS`], from the file name, else from the text.
    fn framework(&self) -> usize {
        let detect = |text: &str| {
            let text = text.to_ascii_lowercase();
            FRAMEWORKS.iter().position(|(_, words)| words.iter().any(|word| text.contains(word)))
        };
        let by_name = detect(&files::label(Path::new(&self.source)));
        by_name.or_else(|| self.fact("Framework").and_then(detect)).unwrap_or(FRAMEWORKS.len() - 1)
    }

    /// The value of the first line `NAME: value` or list item `- NAME: value`.
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
        let mut labeled: Vec<&Analysis> = analyses.iter().filter(|analysis| analysis.label == *label).collect();
        labeled.sort_by_key(|analysis| analysis.framework());
        for analysis in labeled {
            let framework = FRAMEWORKS.get(analysis.framework()).map_or("Other", |(name, _)| name);
            text += &format!("\n### {framework}\n\nSource: {}\n\n{}", one_line(&analysis.source), body(&analysis.text));
        }
    }
    text
}

/// The longest model name in the texts with this label (the first of equally long ones), else the label.
fn model(label: &str, analyses: &[Analysis]) -> String {
    let labeled = analyses.iter().filter(|analysis| analysis.label == label);
    let names = labeled.filter_map(|analysis| analysis.fact("Model"));
    let longest = names.fold("", |longest, name| if name.len() > longest.len() { name } else { longest });
    if longest.is_empty() { label.to_owned() } else { longest.to_owned() }
}

/// The anchors that GitHub generates for these headings.
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
    let count_before = |index: usize, slug: &String| slugs.iter().take(index).filter(|other| *other == slug).count();
    let numbered = |(index, slug): (usize, &String)| match count_before(index, slug) {
        0 => slug.clone(),
        count => format!("{slug}-{count}"),
    };
    slugs.iter().enumerate().map(numbered).collect()
}

/// The text below a third-level heading: its headings are moved down, plain titles become fourth-level headings, and names are
/// escaped.
fn body(text: &str) -> String {
    if text.trim().is_empty() {
        return "_Nothing in this file._\n".to_owned();
    }
    let (mut out, mut is_after_blank, mut is_in_facts) = (String::new(), true, false);
    for line in text.trim().lines() {
        let line = plain(line.trim_end());
        let is_title = is_after_blank && is_title(&line);
        let demoted = demoted(&line);
        if is_title {
            out += &format!("#### {line}\n\n");
        } else if let Some(heading) = demoted {
            out += &heading;
        } else if is_in_facts && !line.is_empty() {
            out += &format!("- {line}\n");
        } else {
            out += &format!("{line}\n");
        }
        is_in_facts = if is_title { line == "Triage View" } else { is_in_facts && !line.is_empty() };
        is_after_blank = line.is_empty();
    }
    out
}

/// Returns true for a short line of plain words, such as `Kernel Table`.
fn is_title(line: &str) -> bool {
    const MAX_BYTES: usize = 60;
    line.starts_with(|first: char| first.is_ascii_alphabetic())
        && line.len() <= MAX_BYTES
        && !line.contains([':', '.', '|'])
}

/// Moves a Markdown heading two levels down, at most to the fifth level, which the headings of stages already have.
fn demoted(line: &str) -> Option<String> {
    const MAX_LEVEL: usize = 5;
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    let words = line.get(level..)?.strip_prefix(' ')?;
    (level > 0).then(|| format!("{} {words}\n", "#".repeat((level + 2).min(MAX_LEVEL))))
}

/// Escapes tags except the `<br>` of table cells, and removes control characters.
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
    fn a_document_is_ordered_by_model_framework_and_source() {
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
    fn a_label_ends_at_the_first_equals_sign() {
        assert_eq!(split_label("qwen=a=b.txt"), (Some("qwen"), "a=b.txt".into()));
        assert_eq!(split_label("a.txt"), (None, "a.txt".into()));
    }
}
