//! `gpuprism graph`: does the job of gputrc2graph, with the same flags and columns but without rounding.
//!
//! As in gputrc2graph, the op that started first owns an overlap, all devices are merged, and 0 seconds means the time span of the trace. docs/differences.md lists the differences.

use super::{files, nsys};
use crate::analysis::CPU;
use crate::analysis::results::{Attribution, Run, Severity};
use crate::report::{Report, csv_field, html_page};
use crate::session::{self, Choices};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Write result.csv and result.html like gputrc2graph: seconds per kernel category, one bar per run.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A trace, the engine and model of the rule set, and the wall time without a profiler in seconds (0: the time span of the
    /// trace).
    #[arg(long = "in_file", alias = "in-file", required = true, num_args = 1.., value_name = "FILE,ENGINE,MODEL,SECONDS")]
    in_file: Vec<String>,
    /// The output folder for result.csv and result.html.
    #[arg(long = "out_dir", alias = "out-dir", default_value = ".", value_name = "DIR")]
    out_dir: PathBuf,
    /// The title of the chart.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The nsys program that reads an .nsys-rep.
    #[arg(long = "nsys_cmd", alias = "nsys-cmd", default_value = "nsys", value_name = "CMD")]
    nsys_cmd: String,
    /// Add a rule file in gputrc2graph's format. May be given several times.
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
    /// Splits at the last three commas, because a path may contain commas.
    fn parse(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.rsplitn(4, ',').collect();
        let [seconds, model, engine, path] = parts[..] else {
            return Err(Error::usage(
                format!("--in_file {text}"),
                "not FILE,ENGINE,MODEL,SECONDS: four values separated by commas are needed",
            ));
        };
        session::wall(Some(seconds))?;
        let [engine, model, seconds] = [engine, model, seconds].map(|text| text.trim().to_owned());
        Ok(Self { path: path.into(), engine, model, seconds })
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
            attribution: Attribution::FirstCome,
            merge_devices: true,
            engine: Some(input.engine.clone()),
            model: Some(input.model.clone()),
            wall_seconds: Some(input.seconds.clone()),
            rules: rules.clone(),
            ..Choices::default()
        };
        let path = trace_file(&input.path, &args.nsys_cmd)?;
        let mut run = session::run(&*files::open_trace(&path)?, &choices)?;
        files::write(&args.out_dir.join(sums_name(&inputs, index)), &kernel_sums(&run))?;
        files::print_notices(&run, Severity::Info);
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

/// Refuses to overwrite an input file.
fn check_outputs(inputs: &[Input], out_dir: &Path) -> Result<()> {
    let outputs = (0..inputs.len()).map(|index| sums_name(inputs, index));
    for name in outputs.chain(["result.csv".to_owned(), "result.html".to_owned()]) {
        let Ok(output) = out_dir.join(&name).canonicalize() else { continue };
        if inputs.iter().any(|input| input.path.canonicalize().is_ok_and(|path| path == output)) {
            return Err(Error::usage(name, "the results would overwrite this input file: choose another `--out_dir`"));
        }
    }
    Ok(())
}

/// Returns the file to read. For an `.nsys-rep`, this is the CSV table that `nsys stats` writes to the same folder, unless
/// that table exists and is newer than the report.
fn trace_file(path: &Path, nsys_cmd: &str) -> Result<PathBuf> {
    if !nsys::is_report(path) {
        return Ok(path.to_owned());
    }
    let failed = |error| Error::io(path.display().to_string(), &error);
    let report_time = std::fs::metadata(path).and_then(|report| report.modified()).map_err(failed)?;
    let table = path.with_file_name(files::label(path) + "_cuda_gpu_trace.csv");
    if nsys::modified(&table).is_some_and(|table_time| table_time > report_time) {
        return Ok(table);
    }
    // nsys may succeed and write nothing. Then the old table must not be read.
    if table.exists() {
        std::fs::remove_file(&table).map_err(|error| Error::io(table.display().to_string(), &error))?;
    }
    let mut command = Command::new(nsys_cmd);
    command.args(["stats", "-r", "cuda_gpu_trace", "--format", "csv", "--force-export=true", "--force-overwrite=true"]);
    command.arg("-o").arg(path).arg(path);
    nsys::run(command, nsys_cmd, path, &table, Path::exists)
}

/// gputrc2graph's table of sums: one row per kernel, sorted by elapsed time.
fn kernel_sums(run: &Run) -> String {
    let mut text = "Elapsed Time (sec),Total Time (sec),Instances,Name\n".to_owned();
    for kernel in &run.kernels {
        let (elapsed, total) = (seconds(kernel.elapsed_ns), seconds(kernel.duration_ns));
        text += &format!("{elapsed},{total},{},{}\n", kernel.count, csv_field(&kernel.name));
    }
    text
}

/// gputrc2graph's result.csv: for each input its kernels and one CPU row, sorted by category and then by elapsed time.
fn result_csv(report: &Report) -> String {
    let mut text = "Model_Engine,Category,Instances,Name,Elapsed Time (sec)\n".to_owned();
    for run in &report.runs {
        let kernels = run
            .kernels
            .iter()
            .map(|kernel| (kernel.category.as_str(), kernel.count, kernel.name.as_str(), kernel.elapsed_ns));
        let mut rows: Vec<_> = kernels.collect();
        // gputrc2graph writes the name without a space, and programs that read the file rely on it.
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
    fn an_input_is_split_at_its_last_three_commas() {
        let input = Input::parse("a,b/run.nsys-rep,vllm,gpt-oss,.35").unwrap();
        assert_eq!(input.path, PathBuf::from("a,b/run.nsys-rep"));
        assert_eq!(input.label(2), "gpt-oss_vllm_run_2");
        for bad in ["run.nsys-rep,vllm,llama", "x,vllm,llama,fast", "x,vllm,llama,-1"] {
            assert!(Input::parse(bad).unwrap_err().is_usage(), "{bad}");
        }
    }

    #[test]
    fn seconds_keep_all_nanoseconds() {
        for (ns, want) in [(0, "0.0"), (286_857, "0.000286857"), (943_957_143, "0.943957143"), (2_500_000_000, "2.5")] {
            assert_eq!(seconds(ns), want);
        }
    }
}
