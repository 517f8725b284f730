//! `gpuprism graph`: gputrc2graph's job, with its flags and its columns, without its rounding.
//!
//! All devices count as one, as there; seconds 0 means the trace's window, as its help promises. Differences from the
//! original are listed in docs/differences.md.

use super::{files, nsys};
use crate::analysis::CPU;
use crate::analysis::results::{Run, Severity};
use crate::report::{Report, csv_field, html_page};
use crate::session::{self, Choices, Opened};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Make result.csv and result.html as gputrc2graph does: seconds per kernel category, a bar a run.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// FILE,engine,model,seconds: a trace, the rule set, and the wall time without a profiler (0: the trace's window).
    #[arg(long = "in_file", alias = "in-file", required = true, num_args = 1.., value_name = "FILE,ENGINE,MODEL,SECONDS")]
    in_file: Vec<String>,
    /// Where result.csv and result.html go.
    #[arg(long = "out_dir", alias = "out-dir", default_value = ".", value_name = "DIR")]
    out_dir: PathBuf,
    /// The chart's title.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The nsys program that reads an .nsys-rep.
    #[arg(long = "nsys_cmd", alias = "nsys-cmd", default_value = "nsys", value_name = "CMD")]
    nsys_cmd: String,
    /// A rule file to add; may be given again.
    #[arg(long, value_name = "FILE")]
    rules: Vec<PathBuf>,
}

/// One value of `--in_file`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Input {
    path: PathBuf,
    engine: String,
    model: String,
    seconds: String,
}

impl Input {
    /// Splits at the last three commas: a path may hold some.
    fn parse(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.rsplitn(4, ',').collect();
        let [seconds, model, engine, path] = parts[..] else {
            return Err(Error::usage(format!("--in_file {text}"), "four parts are needed: FILE,engine,model,seconds"));
        };
        session::wall(Some(seconds))?;
        let own = |text: &str| text.trim().to_owned();
        Ok(Self { path: PathBuf::from(path), engine: own(engine), model: own(model), seconds: own(seconds) })
    }

    fn label(&self, index: usize) -> String {
        let base = files::label(&self.path).replace(".nsys-rep", "");
        format!("{}_{}_{base}_{index}", self.model, self.engine)
    }
}

pub(super) fn run(args: &Args) -> Result<()> {
    let inputs = args.in_file.iter().map(|text| Input::parse(text)).collect::<Result<Vec<_>>>()?;
    let rules = files::rules(&args.rules)?;
    let (book, _) = session::rule_book(&rules)?;
    for input in &inputs {
        book.select(&input.engine, &input.model)?;
    }
    let failed = |error| Error::io(args.out_dir.display().to_string(), &error);
    std::fs::create_dir_all(&args.out_dir).map_err(failed)?;
    check_outputs(&inputs, &args.out_dir)?;
    let mut runs = Vec::new();
    for (index, input) in inputs.iter().enumerate() {
        let choices = Choices {
            merge_devices: true,
            engine: Some(input.engine.clone()),
            model: Some(input.model.clone()),
            wall_seconds: Some(input.seconds.clone()),
            rules: rules.clone(),
            ..Choices::default()
        };
        let path = readable(&input.path, &args.nsys_cmd)?;
        let Opened::Trace(trace) = files::open(&path)? else {
            return Err(Error::refused(files::label(&path), "no trace; `gpuprism report` shows earlier reports"));
        };
        let mut run = session::run(&trace, &choices)?;
        files::write(&args.out_dir.join(sums_name(&inputs, index)), &kernel_sums(&run))?;
        files::warn_from(&run, Severity::Info);
        run.label = input.label(index);
        runs.push(run);
    }
    write_results(args, Report::new(runs))
}

fn write_results(args: &Args, report: Report) -> Result<()> {
    let (csv_path, html_path) = (args.out_dir.join("result.csv"), args.out_dir.join("result.html"));
    let title = format!("Elapsed time (s) for {}", args.title.as_deref().unwrap_or("Model_Engine"));
    files::write(&csv_path, &result_csv(&report))?;
    files::write(&html_path, &html_page(&report, &title))?;
    super::print(&format!(
        "Finished generating:\n    {} for stack bar chart\n    {} for Kernel-to-Category mapping\n",
        html_path.display(),
        csv_path.display()
    ))
}

/// `BASE_cuda_gpu_kernel_tracesum.csv`, numbered where two inputs have one BASE.
fn sums_name(inputs: &[Input], index: usize) -> String {
    let base = |input: &Input| files::label(&input.path);
    let own = inputs.get(index).map(base).unwrap_or_default();
    let shared = inputs.iter().filter(|input| base(input) == own).count() > 1;
    let number = if shared { format!("_{index}") } else { String::new() };
    format!("{own}{number}_cuda_gpu_kernel_tracesum.csv")
}

/// An input must not be written over.
fn check_outputs(inputs: &[Input], out_dir: &Path) -> Result<()> {
    let outputs = (0..inputs.len()).map(|index| sums_name(inputs, index));
    for name in outputs.chain(["result.csv".to_owned(), "result.html".to_owned()]) {
        let Ok(output) = out_dir.join(&name).canonicalize() else { continue };
        if inputs.iter().any(|input| input.path.canonicalize().is_ok_and(|path| path == output)) {
            return Err(Error::usage(
                name,
                "an input that the results would be written over: choose another `--out_dir`",
            ));
        }
    }
    Ok(())
}

/// `DIR/BASE` with more at the end of BASE.
fn beside(path: &Path, more: &str) -> PathBuf {
    path.with_file_name(files::label(path) + more)
}

/// The file to read: an .nsys-rep's table, made by nsys unless one newer than the report lies beside it.
fn readable(path: &Path, nsys_cmd: &str) -> Result<PathBuf> {
    if !nsys::is_report(path) {
        return Ok(path.to_owned());
    }
    let failed = |error| Error::io(path.display().to_string(), &error);
    let made = std::fs::metadata(path).and_then(|report| report.modified()).map_err(failed)?;
    let table = beside(path, "_cuda_gpu_trace.csv");
    if nsys::written(&table).is_some_and(|table| table > made) {
        return Ok(table);
    }
    // What lies there is older than the report: nsys may end well and write nothing, and then it must not be read.
    if table.exists() {
        std::fs::remove_file(&table).map_err(|error| Error::io(table.display().to_string(), &error))?;
    }
    let mut command = Command::new(nsys_cmd);
    command.args(["stats", "-r", "cuda_gpu_trace", "--format", "csv", "--force-export=true", "--force-overwrite=true"]);
    command.arg("-o").arg(path).arg(path);
    nsys::run(command, nsys_cmd, path, &table, Path::exists)
}

/// gputrc2graph's sum table: a row a kernel, by elapsed time.
fn kernel_sums(run: &Run) -> String {
    let mut text = "Elapsed Time (sec),Total Time (sec),Instances,Name\n".to_owned();
    for kernel in &run.kernels {
        let (elapsed, total) = (seconds(kernel.elapsed_ns), seconds(kernel.duration_ns));
        text += &format!("{elapsed},{total},{},{}\n", kernel.count, csv_field(&kernel.name));
    }
    text
}

/// gputrc2graph's result.csv: all inputs, by category, the CPU row among them.
fn result_csv(report: &Report) -> String {
    let mut text = "Model_Engine,Category,Instances,Name,Elapsed Time (sec)\n".to_owned();
    for run in &report.runs {
        let kernels = run
            .kernels
            .iter()
            .map(|kernel| (kernel.category.as_str(), kernel.count, kernel.name.as_str(), kernel.elapsed_ns));
        let mut rows: Vec<_> = kernels.collect();
        // The original's name for the row has no blank; its readers look for that.
        let cpu = CPU.replace(' ', "");
        rows.push((&cpu, 1, &cpu, run.wall.cpu_ns));
        rows.sort_by(|a, b| a.0.cmp(b.0).then(b.3.cmp(&a.3)));
        for (category, count, name, elapsed_ns) in rows {
            let (label, category, name) = (csv_field(&run.label), csv_field(category), csv_field(name));
            text += &format!("{label},{category},{count},{name},{}\n", seconds(elapsed_ns));
        }
    }
    text
}

/// Nanoseconds as exact decimal seconds: `0.000286857`.
fn seconds(ns: i64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_three_commas_part_an_input() {
        let input = Input::parse("a,b/run.nsys-rep,vllm,gpt-oss,.35").unwrap();
        assert_eq!(input.path, PathBuf::from("a,b/run.nsys-rep"));
        assert_eq!(input.label(2), "gpt-oss_vllm_run_2");
        for bad in ["run.nsys-rep,vllm,llama", "x,vllm,llama,fast", "x,vllm,llama,-1"] {
            assert!(Input::parse(bad).unwrap_err().is_usage(), "{bad}");
        }
    }

    #[test]
    fn seconds_are_exact() {
        for (ns, want) in [(0, "0.0"), (286_857, "0.000286857"), (943_957_143, "0.943957143"), (2_500_000_000, "2.5")] {
            assert_eq!(seconds(ns), want);
        }
    }
}
