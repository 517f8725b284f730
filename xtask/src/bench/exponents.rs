//! How processor time and memory of each command grow with a trace: the exponent `log10(large / small)` of two traces of the same
//! shape, one with ten times as many items. 1 is linear, 2 quadratic.
//!
//! What a command costs at the start is measured on a trace of one item and subtracted from both. What remains of the smaller trace
//! can be less than the resolution; then the resolution takes its place, and the exponent is a lower bound.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::shapes::{ALL, Shape};
use super::{Report, measure_with_codes, text};
use crate::command::Run;
use crate::program::PROFILE;
use crate::project;

/// The begin of the title of this section.
pub const TITLE: &str = "How time and memory grow";

/// The target.
const EXPONENT: f64 = 1.15;
/// Less than this is noise.
const RESOLUTION_SECONDS: f64 = 0.02;
const RESOLUTION_BYTES: f64 = 4e6;
/// The least of so many runs counts, except for the largest trace.
const RUNS: usize = 2;
/// Success, findings of `doctor`, and ranks that cannot be grouped.
const CODES: [i64; 3] = [0, 2, 5];

/// Commands; `FILE` is the trace, `OUT` a folder and `COPY` a file.
const COMMANDS: [&str; 20] = [
    "report FILE --format json",
    "report FILE --format json --redact",
    "report FILE --format csv",
    "report FILE --format markdown",
    "report FILE --format html",
    "report FILE",
    "report FILE --all",
    "explain FILE --out OUT",
    "triage FILE",
    "doctor FILE",
    "brief FILE",
    "show FILE kernels",
    "model FILE",
    "what-if FILE",
    "diff FILE FILE",
    "ranks FILE",
    "pivot FILE",
    "facts FILE --out OUT",
    "rules FILE",
    "scrub FILE --out COPY",
];

/// Measures all shapes and commands, and adds the section.
pub fn all(report: &mut Report) -> Result<()> {
    Run::new(&format!("cargo build --quiet --profile {PROFILE} --bin gpuprism")).run()?;
    let directory = project::target_dir()?.join("bench/exponents");
    std::fs::create_dir_all(&directory)?;
    let bench = Bench { program: project::target_dir()?.join(PROFILE).join("gpuprism"), directory };
    heading(report);
    let mut above = 0;
    for shape in ALL {
        let cells = bench.row(&shape)?;
        above +=
            cells.iter().flat_map(|cell| [cell.time, cell.memory]).flatten().filter(|value| *value > EXPONENT).count();
        let _ = write!(report.text, "| {} | {} ", shape.name, shape.largest);
        for cell in &cells {
            let _ = write!(report.text, "| {} ", cell.text());
        }
        let _ = writeln!(report.text, "|");
    }
    let _ = writeln!(report.text, "\nExponents above {EXPONENT}: {above}.");
    Ok(())
}

fn heading(report: &mut Report) {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let _ = write!(
        report.text,
        "\n## {TITLE} with the items of a trace; {cores} cores, profile `{PROFILE}`\n\n\
         Written by `cargo xtask bench exponents`. Each cell has the exponents of user processor time and of peak memory from a tenth \
         of the items to all: 1 is linear, 2 quadratic, the target is at most {EXPONENT}. What the command takes for a trace of one item \
         is subtracted first. A cell above the target is measured again, and the lower value counts. `-`: the larger trace takes less than ten times {} ms or {} MB more than that, which is too little for an \
         exponent.\n\n| shape | items |",
        RESOLUTION_SECONDS * 1e3,
        RESOLUTION_BYTES / 1e6
    );
    for command in COMMANDS {
        let _ = write!(report.text, " `{command}` |");
    }
    let _ = writeln!(report.text, "\n|---|---|{}", "---|".repeat(COMMANDS.len()));
}

/// Time and memory of a run.
#[derive(Clone, Copy)]
struct Cost {
    seconds: f64,
    bytes: f64,
}

/// The exponents of one command; `None` if there is too little growth for one.
struct Cell {
    time: Option<f64>,
    memory: Option<f64>,
}

impl Cell {
    fn of([start, small, large]: [Cost; 3]) -> Self {
        Self {
            time: exponent([start, small, large].map(|cost| cost.seconds), RESOLUTION_SECONDS),
            memory: exponent([start, small, large].map(|cost| cost.bytes), RESOLUTION_BYTES),
        }
    }

    fn is_above(&self) -> bool {
        [self.time, self.memory].into_iter().flatten().any(|value| value > EXPONENT)
    }

    /// The lower of both exponents each.
    fn lower(&self, other: &Self) -> Self {
        let lower = |a: Option<f64>, b: Option<f64>| Some(a?.min(b?));
        Self { time: lower(self.time, other.time), memory: lower(self.memory, other.memory) }
    }

    fn text(&self) -> String {
        let shown = |value: Option<f64>| match value {
            None => "-".to_owned(),
            Some(value) if value > EXPONENT => format!("**{value:.2}**"),
            Some(value) => format!("{value:.2}"),
        };
        format!("{} / {}", shown(self.time), shown(self.memory))
    }
}

/// The exponent between two sizes, of which one is ten times the other, without the cost at the start.
fn exponent([start, small, large]: [f64; 3], resolution: f64) -> Option<f64> {
    let (small, large) = ((small - start).max(resolution), large - start);
    (large >= 10.0 * resolution).then(|| (large / small).log10())
}

struct Bench {
    program: PathBuf,
    directory: PathBuf,
}

impl Bench {
    /// The exponents of all commands.
    fn row(&self, shape: &Shape) -> Result<Vec<Cell>> {
        println!("{}", shape.name);
        let sizes = [1, shape.largest / 10, shape.largest];
        let mut files = Vec::new();
        for size in sizes {
            let path = self.directory.join(format!("{size}.json"));
            let mut out = BufWriter::new(File::create(&path)?);
            shape.write(&mut out, size)?;
            out.flush()?;
            files.push(path);
        }
        let [one, small, large] = files.as_slice() else { return Ok(Vec::new()) };
        COMMANDS.iter().map(|command| self.cell(command, [one, small, large])).collect()
    }

    /// The exponents of a command. Other work on the machine can raise one above the target, so such a cell is measured again: growth of
    /// the command itself stays.
    fn cell(&self, command: &str, [one, small, large]: [&Path; 3]) -> Result<Cell> {
        let cell = Cell::of([self.least(command, one)?, self.least(command, small)?, self.cost(command, large)?]);
        if !cell.is_above() {
            return Ok(cell);
        }
        let again = Cell::of([self.least(command, one)?, self.least(command, small)?, self.least(command, large)?]);
        Ok(cell.lower(&again))
    }

    fn least(&self, command: &str, file: &Path) -> Result<Cost> {
        let mut least = self.cost(command, file)?;
        for _ in 1..RUNS {
            let next = self.cost(command, file)?;
            least = Cost { seconds: least.seconds.min(next.seconds), bytes: least.bytes.min(next.bytes) };
        }
        Ok(least)
    }

    fn cost(&self, command: &str, file: &Path) -> Result<Cost> {
        let (out, copy) = (self.directory.join("out"), self.directory.join("copy.json"));
        if out.exists() {
            std::fs::remove_dir_all(&out)?;
        }
        if copy.exists() {
            std::fs::remove_file(&copy)?;
        }
        let (program, file, out, copy) = (text(&self.program), text(file), text(&out), text(&copy));
        let word = |word| match word {
            "FILE" => file.as_str(),
            "OUT" => out.as_str(),
            "COPY" => copy.as_str(),
            other => other,
        };
        let words: Vec<&str> = std::iter::once(program.as_str()).chain(command.split(' ').map(word)).collect();
        let sample = measure_with_codes(&words, &CODES)?;
        Ok(Cost { seconds: sample.user_seconds, bytes: sample.peak_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::exponent;

    #[test]
    fn the_cost_at_the_start_does_not_hide_growth() {
        let quadratic = exponent([5.0, 5.1, 15.0], 0.01).unwrap();
        assert!((quadratic - 2.0).abs() < 1e-9, "{quadratic}");
        assert_eq!(exponent([5.0, 5.001, 5.01], 0.01), None, "noise has no exponent");
        assert!(
            exponent([5.0, 5.0, 15.0], 0.01).unwrap() > 2.9,
            "a lower bound where the smaller one cannot be measured"
        );
    }
}
