//! The command-line reference: the help of every command as Markdown tables.

use anyhow::Result;

use super::{Program, cell};

pub fn reference(program: &Program) -> Result<String> {
    let mut text = String::new();
    for command in commands(&program.gpuprism(&["--help"])?) {
        let help = Help::parse(&program.gpuprism(&[&command, "--help"])?);
        text += &format!("## gpuprism {command}\n\n{}\n\n    {}\n\n", cell(&help.about), help.usage);
        for (heading, entries) in help.tables {
            text += &format!("| {heading} | meaning |\n|---|---|\n");
            for (name, meaning) in entries {
                text += &format!("| `{}` | {} |\n", name.replace('|', "\\|"), cell(&meaning));
            }
            text.push('\n');
        }
    }
    Ok(text.trim_end().to_owned() + "\n")
}

/// The names under `Commands:`, without clap's own `help`.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[derive(Default)]
struct Help {
    about: String,
    usage: String,
    /// Heading (argument, option) and the rows: name and meaning.
    tables: Vec<(&'static str, Vec<(String, String)>)>,
}

impl Help {
    /// Parses clap's layout: paragraphs, `Usage:`, then blocks whose entries are indented by at most six columns and whose
    /// meanings follow two blanks or stand on deeper indented lines.
    fn parse(help: &str) -> Self {
        let mut parsed = Self::default();
        for line in help.lines() {
            let words = line.trim();
            let indent = line.len() - line.trim_start().len();
            if let Some(usage) = line.strip_prefix("Usage: ") {
                parsed.usage = usage.to_owned();
            } else if matches!(line, "Arguments:" | "Options:") {
                parsed.tables.push((if line == "Options:" { "option" } else { "argument" }, Vec::new()));
            } else if let Some((_, entries)) = parsed.tables.last_mut() {
                if indent <= 6 && words.starts_with(['-', '<', '[']) {
                    let (name, meaning) = words.split_once("  ").unwrap_or((words, ""));
                    entries.push((name.to_owned(), meaning.trim().to_owned()));
                } else if let Some((_, meaning)) = entries.last_mut().filter(|_| !words.is_empty()) {
                    *meaning = format!("{meaning} {words}").trim().to_owned();
                }
            } else if parsed.usage.is_empty() {
                parsed.about += &format!("{words}\n");
            }
        }
        parsed.about = parsed.about.trim().to_owned();
        for (_, entries) in &mut parsed.tables {
            entries.retain(|(name, _)| !name.starts_with("-h,"));
        }
        parsed.tables.retain(|(_, entries)| !entries.is_empty());
        parsed
    }
}

#[cfg(test)]
mod tests {
    use super::{Help, commands};

    #[test]
    fn short_and_long_help_give_the_same_tables() {
        let short = "Does it.\n\nUsage: p run [OPTIONS] <FILE>\n\nArguments:\n  <FILE>  A file\n\nOptions:\n      \
                     --top <N>  Rows [default: 3]\n  -h, --help     Print help\n";
        let long = "Does it.\n\nUsage: p run [OPTIONS] <FILE>\n\nArguments:\n  <FILE>\n          A file\n\nOptions:\n      \
                    --top <N>\n          Rows\n          \n          [default: 3]\n\n  -h, --help\n          Print help\n";
        for help in [short, long] {
            let help = Help::parse(help);
            assert_eq!((help.about.as_str(), help.usage.as_str()), ("Does it.", "p run [OPTIONS] <FILE>"));
            let entry = |name: &str, meaning: &str| vec![(name.to_owned(), meaning.to_owned())];
            let tables = [("argument", entry("<FILE>", "A file")), ("option", entry("--top <N>", "Rows [default: 3]"))];
            assert_eq!(help.tables, tables);
        }
    }

    #[test]
    fn commands_are_listed_without_help() {
        let help = "About.\n\nCommands:\n  report  Show\n  help    Print this\n\nOptions:\n  -h  Print\n";
        assert_eq!(commands(help), ["report"]);
    }
}
