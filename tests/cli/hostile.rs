//! Names in a trace are untrusted text: no output format may interpret them.

use crate::cli::example::{op, write_events};
use crate::common::{csv_rows, directory, json_runs, printed};
use std::path::PathBuf;

const FILE: &str = "=1+1 <b>|.json";

fn names() -> Vec<String> {
    let long = "x".repeat(5_000);
    let names = [
        "<img src=x onerror=alert(1)>",
        "</script><script>alert(1)</script>",
        "\"><svg/onload=alert(1)>",
        "=cmd|' /C calc'!A0",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "a|b\nc",
        "a\r\nb,\"c\"",
        "\u{1b}[2J\u{7}\u{9b}31m\u{0}\u{7f}",
        "[x](javascript:alert(1)) `code` *bold* <!-- -->",
        "![x](http://example.com/x.png)",
        "&amp;&#60;",
        "\u{202e}gpj.exe\u{2066}",
        "",
        &long,
    ];
    names.map(str::to_owned).into()
}

fn hostile(test: &str) -> PathBuf {
    let folder = directory(test);
    let events: Vec<String> = (0..).zip(names()).map(|(n, name)| op("kernel", &name, 0, 7, n * 10, 5)).collect();
    write_events(&folder, FILE, &events);
    folder
}

/// Characters that no output of any format has. Line ends and tabs have a meaning in most formats.
fn controls_terminal(character: char) -> bool {
    let turns = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    (character.is_control() && !['\n', '\r', '\t'].contains(&character)) || turns
}

fn show(format: &str) -> String {
    printed(&hostile(&format!("hostile_{format}")), ["report", FILE, "--limit", "0", "--format", format])
}

#[test]
fn json_keeps_names_unchanged() {
    let run = &json_runs(&hostile("hostile_json"), &[FILE])[0];
    let kernels = run["kernels"].as_array().unwrap().iter();
    let mut found: Vec<&str> = kernels.map(|kernel| kernel["name"].as_str().unwrap()).collect();
    let mut wanted = names();
    wanted.sort();
    found.sort_unstable();
    assert_eq!(found, wanted);
}

#[test]
fn csv_quotes_names_that_a_spreadsheet_would_run_as_formulas() {
    let folder = hostile("hostile_csv");
    for table in ["kernels", "pivot", "categories", "devices", "notices"] {
        let rows = csv_rows(&printed(&folder, ["report", FILE, "--format", "csv", "--table", table]));
        for row in &rows {
            assert_eq!(row.len(), rows[0].len(), "{table}: {row:?}");
            let acts =
                |cell: &&String| cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>() != Ok(-1.0);
            assert_eq!(row.iter().find(acts), None, "{table}");
            assert!(!row.contains(&"-1".to_owned()), "{table}: {row:?}");
        }
        if table == "kernels" {
            let guarded = |name: String| {
                let name = name.replace(controls_terminal, "\u{fffd}");
                if name.starts_with(['=', '+', '-', '@', '\t']) { format!("'{name}") } else { name }
            };
            let mut wanted: Vec<String> = names().into_iter().map(guarded).collect();
            let mut found: Vec<String> = rows[1..].iter().map(|row| row[1].clone()).collect();
            wanted.sort();
            found.sort();
            assert_eq!(found, wanted);
        }
    }
}

#[test]
fn markdown_escapes_markup_in_names() {
    let text = show("markdown");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    // Without escaped characters.
    let unescaped = text.replace(r"\\", "").replace(r"\]", "").replace(r"\!", "").replace(r"\`", "");
    for markup in ["<", "](", "!", "`"] {
        assert!(!unescaped.contains(markup), "{markup} in {unescaped}");
    }
    let bars = |line: &str| line.replace(r"\\", "").replace(r"\|", "").matches('|').count();
    let mut columns = None;
    for line in text.lines() {
        if !line.starts_with('|') {
            columns = None;
            continue;
        }
        assert_eq!(bars(line), *columns.get_or_insert(bars(line)), "{line}");
    }
    let kernels = text.split("## Kernels").nth(1).unwrap().split("##").next().unwrap();
    // The kernels, a header, a separator and a total.
    assert_eq!(kernels.lines().filter(|line| line.starts_with('|')).count(), names().len() + 3, "{kernels}");
}

#[test]
fn html_escapes_every_name() {
    let page = show("html");
    assert!(!page.contains(|c: char| c.is_control() && !['\n', '\t'].contains(&c)), "a control character");
    assert_eq!((page.matches("<script").count(), page.matches("</script>").count()), (1, 1));
    for tag in ["<img", "<svg/", "<b>", "<!--"] {
        assert!(!page.contains(tag), "{tag}");
    }
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
    assert!(page.contains(&"x".repeat(5_000)), "the whole name");
}

#[test]
fn the_terminal_output_has_no_control_characters_and_no_long_lines() {
    let text = show("terminal");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    assert!(!text.contains(['\u{202e}', '\u{2066}']), "a name turns the direction of its line");
    let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(longest < 250, "a line of {longest}");
}

/// A trace with hostile text wherever a profiler writes names, and the name that begins a line of its own.
fn hostile_everywhere(test: &str) -> (PathBuf, &'static str) {
    const LINE: &str = "FORGED";
    let folder = directory(test);
    let name = |word: &str| {
        let text = format!("{word}\n{LINE} line\rback\u{1b}[31m\u{7}\u{9b}32m\u{202e}turned\u{200f}\u{85}\u{2028}next");
        serde_json::to_string(&text).unwrap()
    };
    let event = |category: &str, word: &str, (process, thread): (u32, u32), (start, us): (u32, u32), args: &str| {
        format!(
            r#"{{"ph": "X", "cat": "{category}", "name": {}, "pid": {process}, "tid": {thread}, "ts": {start}, "dur": {us}, "args": {{{args}}}}}"#,
            name(word)
        )
    };
    let mut events = Vec::new();
    for step in 0..12_u32 {
        let start = 1000 + step * 1000;
        let correlation = format!(r#""correlation": {0}, "External id": {0}"#, step + 1);
        let gpu = format!(r#""device": 0, "stream": 7, {correlation}"#);
        events.push(event("user_annotation", "step[DECODE bs=4]", (1, 1), (start, 900), ""));
        events.push(event("cpu_op", "aten::mm", (1, 1), (start + 10, 40), &correlation));
        events.push(event("python_function", "model.py(3): forward", (1, 1), (start + 10, 40), r#""Python id": 1"#));
        events.push(event("cuda_runtime", "cudaLaunchKernel", (1, 1), (start + 20, 5), &correlation));
        events.push(event("kernel", "gemm", (0, 7), (start + 100, 500), &gpu));
        events.push(event("kernel", "ncclDevKernel_AllReduce", (0, 7), (start + 600, 100), &gpu));
    }
    let devices = format!(r#"[{{"id": 0, "name": {}}}]"#, name("NVIDIA H100"));
    let text = format!(r#"{{"deviceProperties": {devices}, "traceEvents": [{}]}}"#, events.join(",\n"));
    for file in ["a.json", "b.json"] {
        std::fs::write(folder.join(file), &text).unwrap();
    }
    (folder, LINE)
}

#[test]
fn no_output_of_any_command_controls_the_terminal_and_none_but_csv_lets_a_name_begin_a_line() {
    let (folder, line) = hostile_everywhere("hostile_everywhere");
    let commands = [
        "report a.json",
        "report a.json --all",
        "report a.json --format csv",
        "report a.json --format csv --table idle_blame",
        "report a.json --format json",
        "report a.json --format markdown",
        "report a.json --format html",
        "pivot a.json",
        "pivot a.json --format csv",
        "pivot a.json --format json",
        "pivot a.json --format markdown",
        "diff a.json b.json",
        "diff a.json b.json --format csv",
        "diff a.json b.json --format json",
        "model a.json --format csv",
        "triage a.json",
        "triage a.json --format text",
        "triage a.json --format csv",
        "triage a.json --format json",
        "triage a.json --format markdown",
        "rules a.json",
        "brief a.json b.json",
        "show a.json kernels",
        "doctor a.json",
        "explain a.json --out explained",
    ];
    for command in commands {
        let output = crate::common::gpuprism(&folder, command.split(' '));
        assert!(output.status == 0 || output.status == 5, "{command}: {output:?}");
        for text in [&output.stdout, &output.stderr] {
            let found = text.chars().find(|character| controls_terminal(*character) || *character == '\r');
            assert_eq!(found, None, "{command}");
            // A line end is a part of a quoted field of CSV, and white space in HTML.
            let may_begin = command.contains("csv") || command.contains("html");
            assert!(may_begin || !text.lines().any(|found| found.starts_with(line)), "{command}: {text}");
        }
    }
    for file in ["report.md", "report.json", "tables/kernels.csv"] {
        let text = std::fs::read_to_string(folder.join("explained").join(file)).unwrap();
        assert_eq!(text.chars().find(|character| controls_terminal(*character)), None, "{file}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&printed(&folder, ["report", "a.json", "--format", "json"])).unwrap();
    let kernels = json["runs"][0]["kernels"].as_array().unwrap();
    let is_whole = |name: &str| name.contains("\u{1b}[31m\u{7}\u{9b}32m\u{202e}turned");
    assert!(kernels.iter().all(|kernel| is_whole(kernel["name"].as_str().unwrap())), "escapes keep the name");
}

#[cfg(unix)]
#[test]
fn an_error_names_a_file_without_control_characters() {
    let folder = directory("hostile_file_name");
    let name = "x\u{1b}[31m\nFORGED\u{202e}\u{9b}.json";
    std::fs::write(folder.join(name), "nothing").unwrap();
    for name in [name, "missing\u{1b}\nFORGED"] {
        let output = crate::common::gpuprism(&folder, ["report", name]);
        assert!(output.status == 1 && output.stderr.lines().count() == 1, "{output:?}");
        assert!(!output.stderr.chars().any(controls_terminal), "{output:?}");
    }
}
