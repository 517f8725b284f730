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
