//! Measures gpuprism on a large real trace and writes `benches/README.md`.
//!
//! Absolute times depend on the machine and its load, so most targets are ratios to a plain read of the same file, measured in
//! alternating runs.

mod exponents;
mod feel;
mod generated;
mod protobuf;
mod shapes;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command::Run;
use crate::serve::Server;
use crate::wasm::Purpose;
use crate::{page, project, setup};

const TRACE: &str = "../shared/traces/torch/train_v100_216k_events.trace.json.gz";
const SCALE_TOOL: &str = "../shared/tools/scale_trace.py";
const COPIES: u32 = 20;
/// A capture of CUDA graphs, which contains mostly Python frames.
const FRAMES_TRACE: &str = "../shared/traces/torch/vllm_mi300_graph_capture.pt.trace.json.gz";

/// The size of the generated Nsight Systems export: this many million kernels, API calls and NVTX ranges each.
const EXPORT_MILLIONS: u32 = 5;
const EXPORT_ROWS: f64 = 3.0 * EXPORT_MILLIONS as f64 * 1e6;

const GZIP_RUNS: usize = 9;
const JSON_RUNS: usize = 7;
const PAGE_RUNS: usize = 3;
const EXPORT_RUNS: usize = 3;
const TRIAGE_RUNS: usize = 5;
/// Requests of one client after the other, and clients at the same time.
const API_REQUESTS: u32 = 9;
const API_CLIENTS: u32 = 64;

// The targets.
const TIME_OF_GUNZIP: f64 = 1.0;
const GZIPPED_MEMORY_BYTES: f64 = 100e6;
const JSON_BYTES_PER_SECOND: f64 = 600e6;
const MEMORY_OF_JSON: f64 = 0.10;
const TRIAGE_TIME_OF_REPORT: f64 = 2.0;
const TRIAGE_MEMORY_OF_JSON: f64 = 0.15;
const TIME_OF_PAGE_READING: f64 = 2.0;
const PAGE_MEMORY_OF_JSON: f64 = 0.15;
const PAGE_TIME_OF_NATIVE: f64 = 3.0;
const PAGE_MEMORY_OF_EXPORT_BYTES: f64 = 400e6;
const API_TIME_OF_EXPLAIN: f64 = 1.5;
/// Besides the analyses that run at the same time.
const API_MEMORY_PER_CLIENT_BYTES: f64 = 2e6;
const API_ANALYSES: f64 = 2.0;
const API_GROWTH_BYTES: f64 = 10e6;

/// Runs all measurements and writes the report.
pub fn all() -> Result<()> {
    let root = project::root();
    for needed in [TRACE, FRAMES_TRACE, SCALE_TOOL] {
        if !root.join(needed).is_file() {
            bail!(
                "{needed} is missing: the measurements need the traces and tools in ../shared, next to the repository"
            );
        }
    }
    setup::test()?;
    page::build(None, Purpose::Publish)?;
    Run::new("cargo build --release --bin gpuprism").run()?;
    let program = project::target_dir()?.join("release/gpuprism");
    let json = scaled_trace(TRACE, "train_v100")?;
    let frames = scaled_trace(FRAMES_TRACE, "graph_capture")?;

    let mut report = Report::new()?;
    gzipped_trace(&mut report, &program)?;
    plain_trace(&mut report, &program, &json)?;
    triage(&mut report, &program, "kernels and CPU ops", &json)?;
    triage(&mut report, &program, "Python frames", &frames)?;
    page_import(&mut report, &json)?;
    feel::all(&mut report)?;
    exponents::all(&mut report)?;
    nsys_export(&mut report, &program, &generated_export()?)?;
    protobuf::all(&mut report, &program)?;
    api(&mut report, &program)?;
    first_load(&mut report, page::first_load_gzipped(&project::dist())?);
    report.heading("The command-line program");
    report.fact("size of its one file, without the page", &megabytes(program.metadata()?.len() as f64));
    std::fs::create_dir_all(root.join("benches"))?;
    write_readme(&report.text)?;
    print!("{}", report.text);
    Ok(())
}

/// Measures only how the page feels, and renews these sections of the report. Uses the page in `dist`.
pub fn page() -> Result<()> {
    let mut report = Report { text: String::new() };
    feel::all(&mut report)?;
    renew(feel::TITLE, &report)
}

/// Measures only how time and memory grow, and renews this section of the report.
pub fn exponents() -> Result<()> {
    let mut report = Report { text: String::new() };
    exponents::all(&mut report)?;
    renew(exponents::TITLE, &report)
}

/// Measures only the formats in protobuf, and renews these sections of the report.
pub fn protobuf() -> Result<()> {
    Run::new("cargo build --release --bin gpuprism").run()?;
    let mut report = Report { text: String::new() };
    protobuf::all(&mut report, &project::target_dir()?.join("release/gpuprism"))?;
    renew(protobuf::TITLE, &report)
}

/// Replaces the sections of the report whose titles begin with `title`, and prints the new ones.
fn renew(title: &str, report: &Report) -> Result<()> {
    let path = readme();
    let old = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    write_readme(&with_sections(&old, title, &report.text))?;
    print!("{}", report.text);
    Ok(())
}

/// The report with the sections whose titles begin with `title` replaced by others, at the place of the first one or at the end.
fn with_sections(report: &str, title: &str, sections: &str) -> String {
    const HEADING: &str = "\n## ";
    let mut parts: Vec<&str> = report.split(HEADING).collect();
    let place = parts.iter().position(|part| part.starts_with(title)).unwrap_or(parts.len());
    parts.retain(|part| !part.starts_with(title));
    let sections = sections.strip_prefix(HEADING).unwrap_or(sections);
    parts.insert(place, sections);
    parts.join(HEADING)
}

fn readme() -> PathBuf {
    project::root().join("benches/README.md")
}

fn write_readme(text: &str) -> Result<()> {
    std::fs::write(readme(), text).with_context(|| format!("cannot write {}", readme().display()))
}

/// The path of a plain JSON file of about a gigabyte that repeats the trace.
fn scaled_trace(trace: &str, name: &str) -> Result<PathBuf> {
    made_once(&format!("{name}_x{COPIES}.json"), &|path| {
        Run::new("python3").args([SCALE_TOOL, trace, &COPIES.to_string()]).arg(path).run()
    })
}

/// The path of the generated export.
fn generated_export() -> Result<PathBuf> {
    made_once(&format!("export_{EXPORT_MILLIONS}m.sqlite"), &|path| {
        Run::new("cargo run --quiet --release --example nsys_export --")
            .arg(path)
            .arg(EXPORT_MILLIONS.to_string())
            .run()
    })
}

/// The path of a large file in the target folder. `make` writes it unless it is there.
fn made_once(name: &str, make: &dyn Fn(&Path) -> Result<()>) -> Result<PathBuf> {
    let directory = project::target_dir()?.join("bench");
    let path = directory.join(name);
    if !path.is_file() {
        println!("making {}: up to some minutes, once", path.display());
        std::fs::create_dir_all(&directory)?;
        let partial = directory.join(format!("partial_{name}"));
        // From a run that was stopped; not every generator overwrites it.
        if partial.exists() {
            std::fs::remove_file(&partial)?;
        }
        make(&partial)?;
        std::fs::rename(&partial, &path)?;
    }
    Ok(path)
}

fn nsys_export(report: &mut Report, program: &Path, export: &Path) -> Result<()> {
    let (mut native, mut import, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..EXPORT_RUNS {
        native.push(measure(&[&text(program), "report", &text(export), "--format", "json"])?);
        let result = measure_page(export, 1)?;
        import.extend(column(&result, "import_seconds")?);
        memory.extend(column(&result, "wasm_memory_bytes")?);
    }
    let (native, import) = (Measured::of(&native), median(import));
    report.heading(&format!(
        "An Nsight Systems export: {EXPORT_MILLIONS} million kernels, as many calls and NVTX ranges, {}; {EXPORT_RUNS} \
         alternating runs",
        megabytes(export.metadata()?.len() as f64)
    ));
    report.fact("`gpuprism report FILE --format json`", &native.times());
    report.fact("rows per second, median", &rows(EXPORT_ROWS / native.median_seconds));
    report.fact("peak memory of the process", &megabytes(native.peak_bytes));
    report.fact("the page in Chromium, from the picked file to its first results on screen, median", &seconds(import));
    report.fact("rows per second in the page", &rows(EXPORT_ROWS / import));
    report.at_most(
        "time in the page, relative to the command line",
        import / native.median_seconds,
        PAGE_TIME_OF_NATIVE,
        times,
    );
    report.at_most("WebAssembly memory of the export's worker", median(memory), PAGE_MEMORY_OF_EXPORT_BYTES, megabytes);
    Ok(())
}

fn gzipped_trace(report: &mut Report, program: &Path) -> Result<()> {
    let trace = project::root().join(TRACE);
    let unpacked_bytes = unpacked_bytes(&trace)?;
    let (mut gunzip, mut counted, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..GZIP_RUNS {
        gunzip.push(measure(&["gzip", "-dc", &text(&trace)])?);
        counted.push(measure(&["bash", "-c", "gzip -dc \"$0\" | wc -c", &text(&trace)])?);
        ours.push(measure(&[&text(program), "report", &text(&trace), "--format", "json"])?);
    }
    let (gunzip, counted, ours) = (Measured::of(&gunzip), Measured::of(&counted), Measured::of(&ours));
    report.heading(&format!(
        "The command line on a gzipped trace: {} gzipped, {} of JSON; {GZIP_RUNS} alternating runs",
        megabytes(trace.metadata()?.len() as f64),
        megabytes(unpacked_bytes)
    ));
    report.fact("`gzip -dc FILE`", &gunzip.times());
    report.fact("`gzip -dc FILE \\| wc -c`", &counted.times());
    report.fact("`gpuprism report FILE --format json`", &ours.times());
    report.fact("JSON per second, median", &rate(unpacked_bytes / ours.median_seconds));
    report.at_most(
        "median time, relative to `gzip -dc FILE \\| wc -c`",
        ours.median_seconds / counted.median_seconds,
        TIME_OF_GUNZIP,
        times,
    );
    report.at_most("peak memory of the process", ours.peak_bytes, GZIPPED_MEMORY_BYTES, megabytes);
    Ok(())
}

fn plain_trace(report: &mut Report, program: &Path, json: &Path) -> Result<()> {
    let bytes = json.metadata()?.len() as f64;
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..JSON_RUNS {
        bare.push(measure(&["bash", "-c", "cat \"$0\" | wc -c", &text(json)])?);
        ours.push(measure(&[&text(program), "report", &text(json), "--format", "json"])?);
    }
    let (bare, ours) = (Measured::of(&bare), Measured::of(&ours));
    report.heading(&format!(
        "The command line on plain JSON: {} ({COPIES} copies of the same trace); {JSON_RUNS} alternating runs",
        megabytes(bytes)
    ));
    report.fact("`cat FILE \\| wc -c`", &bare.times());
    report.fact("`gpuprism report FILE --format json`", &ours.times());
    report.fact("JSON per second, best", &rate(bytes / ours.best_seconds));
    report.at_least("JSON per second, median", bytes / ours.median_seconds, JSON_BYTES_PER_SECOND, rate);
    report.fact("peak memory of the process", &megabytes(ours.peak_bytes));
    report.at_most("peak memory, relative to the JSON", ours.peak_bytes / bytes, MEMORY_OF_JSON, percent);
    Ok(())
}

fn triage(report: &mut Report, program: &Path, what: &str, json: &Path) -> Result<()> {
    let bytes = json.metadata()?.len() as f64;
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..TRIAGE_RUNS {
        plain.push(measure(&[&text(program), "report", &text(json), "--format", "json"])?);
        ours.push(measure(&[&text(program), "triage", &text(json), "--format", "json"])?);
    }
    let (plain, ours) = (Measured::of(&plain), Measured::of(&ours));
    report.heading(&format!(
        "Triage on plain JSON of {what}: {}, {COPIES} copies of a trace; {TRIAGE_RUNS} alternating runs",
        megabytes(bytes)
    ));
    report.fact("`gpuprism report FILE --format json`", &plain.times());
    report.fact("`gpuprism triage FILE --format json`", &ours.times());
    report.at_most(
        "median time, relative to `report`",
        ours.median_seconds / plain.median_seconds,
        TRIAGE_TIME_OF_REPORT,
        times,
    );
    report.at_most("peak memory, relative to the JSON", ours.peak_bytes / bytes, TRIAGE_MEMORY_OF_JSON, percent);
    Ok(())
}

fn page_import(report: &mut Report, json: &Path) -> Result<()> {
    let result = measure_page(json, PAGE_RUNS)?;
    let reading = median(column(&result, "read_seconds")?);
    let import = median(column(&result, "import_seconds")?);
    let memory = median(column(&result, "wasm_memory_bytes")?);
    let bytes = json.metadata()?.len() as f64;
    report.heading(&format!(
        "The page in Chromium on the same plain JSON, {}; medians of {PAGE_RUNS} alternating runs",
        megabytes(bytes)
    ));
    report.fact("reading the file without parsing it, in a worker, four slices of 8 MiB ahead", &seconds(reading));
    report.fact("import, from the picked file to its first results on screen", &seconds(import));
    report.fact("JSON per second", &rate(bytes / import));
    report.at_most("time, relative to reading", import / reading, TIME_OF_PAGE_READING, times);
    report.fact("WebAssembly memory of the trace's worker", &megabytes(memory));
    report.at_most("WebAssembly memory, relative to the JSON", memory / bytes, PAGE_MEMORY_OF_JSON, percent);
    Ok(())
}

/// Imports the file in Chromium `runs` times.
fn measure_page(file: &Path, runs: usize) -> Result<Value> {
    let url = serve_page()?;
    println!("measuring the page in Chromium");
    let printed = Run::new("node xtask/bench/page.mjs")
        .arg(url)
        .arg(file)
        .arg(runs.to_string())
        .env("CHROMIUM", setup::whole_chromium()?)
        .output()?;
    serde_json::from_str(&printed).context("xtask/bench/page.mjs did not print JSON")
}

/// Serves the built page until this process ends. Returns its address.
fn serve_page() -> Result<String> {
    let server = Server::bind(0)?;
    let url = server.url()?;
    std::thread::spawn(move || server.run(&project::dist()));
    Ok(url)
}

/// `gpuprism serve` on this machine, with a client in Python.
fn api(report: &mut Report, program: &Path) -> Result<()> {
    let trace = project::root().join(TRACE);
    let out = project::target_dir()?.join("bench/explain");
    let explain = [&text(program), "explain", &text(&trace), "--out", &text(&out)];
    let explain: Vec<Sample> = (0..API_REQUESTS).map(|_| measure(&explain)).collect::<Result<_>>()?;
    let explain = Measured::of(&explain);
    let printed = Run::new("python3 xtask/bench/load.py")
        .arg(program)
        .arg(&trace)
        .args([API_REQUESTS.to_string(), API_CLIENTS.to_string()])
        .output()?;
    let load: Value = serde_json::from_str(&printed).context("xtask/bench/load.py did not print JSON")?;
    let number = |key: &str| load[key].as_f64().with_context(|| format!("xtask/bench/load.py returned no {key}"));
    report.heading(&format!(
        "`gpuprism serve` on the gzipped trace: {API_REQUESTS} requests one after the other, then {API_CLIENTS} clients at once"
    ));
    report.fact("`gpuprism explain FILE --out DIR`", &explain.times());
    report.fact("one request, median", &seconds(number("single_seconds")?));
    let relative = number("single_seconds")? / explain.median_seconds;
    report.at_most("time of one request, relative to `explain`", relative, API_TIME_OF_EXPLAIN, times);
    report.fact("requests per second of all clients", &format!("{:.1}", number("requests_per_second")?));
    report.fact("answer of a client, median", &seconds(number("median_seconds")?));
    report.fact("answer of a client, 95th percentile", &seconds(number("p95_seconds")?));
    report.fact("peak memory of `explain`", &megabytes(explain.peak_bytes));
    report.fact("peak memory of the server", &megabytes(number("peak_bytes")?));
    let per_client = (number("peak_bytes")? - API_ANALYSES * explain.peak_bytes) / f64::from(API_CLIENTS);
    report.at_most("memory besides two `explain`, per client", per_client, API_MEMORY_PER_CLIENT_BYTES, megabytes);
    api_faults(report, &number)
}

/// What broken, slow, hostile and forbidden requests, eight rounds of as many clients, do to the good ones and leave behind.
fn api_faults(report: &mut Report, number: &dyn Fn(&str) -> Result<f64>) -> Result<()> {
    report.heading(&format!(
        "`gpuprism serve`, {API_CLIENTS} clients at once, eight times, seven of eight with slow, cut, wrong, damaged, too large or forbidden requests \
         or without reading the answer; then a gzip bomb"
    ));
    report.fact("requests with faults, each answered as it should be", &number("faulty_requests")?.to_string());
    report.fact("answer of a good request meanwhile, median", &seconds(number("good_seconds")?));
    report.fact(
        "until no analysis runs and the spool is empty, after the last answer",
        &seconds(number("idle_seconds")?),
    );
    report.fact("peak memory of the server", &megabytes(number("peak_bytes_with_faults")?));
    let growth = (number("last_resident_bytes")? - number("half_resident_bytes")?).max(0.0);
    report.at_most("more memory after eight rounds than after four", growth, API_GROWTH_BYTES, megabytes);
    let count = |count: f64| count.to_string();
    report.at_most("more open files than before", number("new_open_files")?, 0.0, count);
    report.at_most("files in the spool afterwards", number("spooled_files")?, 0.0, count);
    report.at_most("files that the stopped server leaves", number("left_files")?, 0.0, count);
    Ok(())
}

fn first_load(report: &mut Report, gzipped_bytes: u64) {
    report.heading("The first load of the page");
    report.at_most(
        "HTML, CSS, JavaScript and WebAssembly, gzipped",
        gzipped_bytes as f64,
        page::FIRST_LOAD_BUDGET_BYTES as f64,
        |bytes| format!("{:.1} KB", bytes / 1e3),
    );
}

fn column(result: &Value, name: &str) -> Result<Vec<f64>> {
    let runs = result["runs"].as_array().into_iter().flatten();
    let values: Option<Vec<f64>> = runs.map(|run| run[name].as_f64()).collect();
    values
        .filter(|values| !values.is_empty())
        .with_context(|| format!("xtask/bench/page.mjs returned no number for {name}: {result}"))
}

/// One run of a command.
struct Sample {
    seconds: f64,
    /// Of the processor, outside of the system.
    user_seconds: f64,
    peak_bytes: f64,
}

/// One run, which must succeed.
fn measure(command: &[&str]) -> Result<Sample> {
    measure_with_codes(command, &[0])
}

/// One run, which must end with one of these exit codes.
fn measure_with_codes(command: &[&str], codes: &[i64]) -> Result<Sample> {
    let printed = Run::new("python3 xtask/bench/measure.py").args(command).output()?;
    let result: Value = serde_json::from_str(&printed).context("xtask/bench/measure.py did not print JSON")?;
    let number = |key: &str| {
        let value = result[key].as_f64();
        value.with_context(|| format!("xtask/bench/measure.py returned no {key}"))
    };
    if !codes.contains(&(number("exit_code")? as i64)) {
        bail!("exit code {}: {}", number("exit_code")?, command.join(" "));
    }
    Ok(Sample { seconds: number("seconds")?, user_seconds: number("user_seconds")?, peak_bytes: number("peak_bytes")? })
}

/// The runs of one command in summary.
struct Measured {
    median_seconds: f64,
    best_seconds: f64,
    peak_bytes: f64,
}

impl Measured {
    fn of(samples: &[Sample]) -> Self {
        let times = samples.iter().map(|sample| sample.seconds);
        Self {
            median_seconds: median(times.clone().collect()),
            best_seconds: times.fold(f64::INFINITY, f64::min),
            peak_bytes: samples.iter().map(|sample| sample.peak_bytes).fold(0.0, f64::max),
        }
    }

    fn times(&self) -> String {
        format!("median {}, best {}", seconds(self.median_seconds), seconds(self.best_seconds))
    }
}

/// The median. For an even number of values, the lower one of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len().saturating_sub(1) / 2;
    values.get(middle).copied().unwrap_or(f64::NAN)
}

fn unpacked_bytes(gzipped: &Path) -> Result<f64> {
    let file = std::fs::File::open(gzipped)?;
    let mut decoder = flate2::read::MultiGzDecoder::new(std::io::BufReader::new(file));
    Ok(std::io::copy(&mut decoder, &mut std::io::sink())? as f64)
}

/// The text of `benches/README.md`.
struct Report {
    text: String,
}

impl Report {
    fn new() -> Result<Self> {
        let date = Run::new("date +%Y-%m-%d").output()?;
        let rustc = Run::new("rustc --version").output()?;
        let chromium = Run::program(&setup::whole_chromium()?).arg("--version").output()?;
        let text = format!(
            "# Measurements\n\n\
             Written by `cargo xtask bench`; the sections on how the page feels also by `cargo xtask bench page`, \
             the one on growth by `cargo xtask bench exponents`, \
             those on protobuf by `cargo xtask bench protobuf`. Times on a shared machine vary; values that are compared come from \
             alternating runs. Peak memory is the maximum resident set as the kernel counts it; the measuring script \
             itself needs about 14 MB.\n\n\
             Date {}; {}, {} busy with other work at the start; {}; {}.\n",
            date.trim(),
            machine(),
            busy_processors().map_or_else(|| "an unknown share".to_owned(), percent),
            rustc.trim(),
            chromium.split(" built on").next().unwrap_or_default().trim()
        );
        Ok(Self { text })
    }

    fn heading(&mut self, title: &str) {
        let _ = write!(self.text, "\n## {title}\n\n| what | measured | target | met |\n|---|---|---|---|\n");
    }

    fn fact(&mut self, what: &str, figure: &str) {
        let _ = writeln!(self.text, "| {what} | {figure} | | |");
    }

    fn at_most(&mut self, what: &str, value: f64, target: f64, shown: impl Fn(f64) -> String) {
        self.verdict(what, &shown(value), &format!("at most {}", shown(target)), value <= target);
    }

    fn at_least(&mut self, what: &str, value: f64, target: f64, shown: impl Fn(f64) -> String) {
        self.verdict(what, &shown(value), &format!("at least {}", shown(target)), value >= target);
    }

    fn verdict(&mut self, what: &str, figure: &str, target: &str, holds: bool) {
        let holds = if holds { "yes" } else { "**no**" };
        let _ = writeln!(self.text, "| {what} | {figure} | {target} | {holds} |");
    }
}

/// Cores, processor and memory, from /proc.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let model = value_of("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let memory = value_of("/proc/meminfo", "MemTotal")
        .and_then(|total| total.strip_suffix(" kB")?.parse::<f64>().ok())
        .map_or_else(String::new, |kib| format!(", {:.0} GiB of memory", kib / 1024.0 / 1024.0));
    format!("{cores} cores of {model}{memory}")
}

/// The busy share of all processors over two seconds, from /proc/stat.
fn busy_processors() -> Option<f64> {
    let before = processor_ticks()?;
    std::thread::sleep(std::time::Duration::from_secs(2));
    let after = processor_ticks()?;
    let passed = |column: usize| Some((after.get(column)? - before.get(column)?).max(0.0));
    // user, nice, system, idle, iowait, irq, softirq, steal: proc(5); later columns are parts of the first two.
    let all: f64 = (0..8).filter_map(passed).sum();
    let idle: f64 = (3..5).filter_map(passed).sum();
    (all > 0.0).then(|| (all - idle) / all)
}

fn processor_ticks() -> Option<Vec<f64>> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    text.lines().next()?.split_whitespace().skip(1).map(|ticks| ticks.parse().ok()).collect()
}

fn value_of(file: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    let (_, value) = text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == key)?;
    Some(value.trim().to_owned())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn megabytes(bytes: f64) -> String {
    format!("{:.0} MB", bytes / 1e6)
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.3} s")
}

fn rate(bytes_per_second: f64) -> String {
    format!("{:.0} MB/s", bytes_per_second / 1e6)
}

fn rows(rows_per_second: f64) -> String {
    format!("{:.2} million", rows_per_second / 1e6)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn times(factor: f64) -> String {
    format!("{factor:.2} times")
}

#[cfg(test)]
mod tests {
    use super::{median, with_sections};

    #[test]
    fn the_median_does_not_depend_on_order() {
        assert_eq!(median(vec![9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(vec![4.0, 2.0, 1.0, 3.0]), 2.0);
    }

    #[test]
    fn sections_are_replaced_at_their_place() {
        let report = "# R\n\n## A\n\n1\n\n## B one\n\n2\n\n## B two\n\n3\n\n## C\n\n4\n";
        assert_eq!(with_sections(report, "B", "\n## B new\n\n5\n"), "# R\n\n## A\n\n1\n\n## B new\n\n5\n\n## C\n\n4\n");
        assert_eq!(with_sections("# R\n", "B", "\n## B new\n"), "# R\n\n## B new\n");
    }
}
