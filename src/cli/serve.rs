//! `gpuprism serve`: the HTTP API of nsys-llm-explainer. The crate `gpuprism-server` receives the uploads; this file analyzes them.

use super::{database, files, print_error};
use crate::files::{Cancel, Watch};
use crate::json::Json;
use crate::report::zip::{self, Entry};
use crate::report::{Report, explain};
use crate::session::{self, Choices, Opened, UserFile};
use crate::trace::DatabaseInfo;
use crate::{Error, Result};
use gpuprism_server::api::{self, Answer, Config, Failure, Job, Limits};
use gpuprism_server::{Server, Stop};
use std::path::Path;
use std::time::Duration;

/// Answer uploaded traces with the report of `gpuprism explain`: the HTTP API of nsys-llm-explainer.
///
/// With the environment variable NSYS_API_KEY, clients must send that key. SIGTERM and Ctrl-C finish the requests in progress.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// The address to listen on.
    #[arg(long, env = "HOST", hide_env_values = true, default_value = "0.0.0.0", value_name = "ADDRESS")]
    host: String,
    /// The port to listen on; 0 lets the system choose one.
    #[arg(long, env = "PORT", hide_env_values = true, default_value_t = 8080, value_name = "N")]
    port: u16,
    /// Analyses at the same time; further requests wait.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..), value_name = "N")]
    max_analyses: u16,
    /// The most disk space for uploads, in GB (10^9 bytes), in the folder for temporary files (TMPDIR).
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..), value_name = "N")]
    spool_gb: u64,
    /// Start no server: ask the one at this address whether it is healthy, and exit with 0 or 1.
    #[arg(long)]
    check_health: bool,
}

/// The time for analyses whose clients have left, after a stop.
const LAST_ANALYSES: Duration = Duration::from_secs(2);

pub(super) fn run(args: &Args) -> Result<()> {
    let failed = |error: std::io::Error| Error::io(format!("{}:{}", args.host, args.port), &error);
    if args.check_health {
        return api::check_health(&args.host, args.port).map_err(failed);
    }
    let key = std::env::var("NSYS_API_KEY").map(|key| key.trim().to_owned()).ok().filter(|key| !key.is_empty());
    let is_public = key.is_none();
    let config = Config {
        service: env!("CARGO_PKG_NAME"),
        version: env!("CARGO_PKG_VERSION"),
        api_key: key,
        spool_parent: std::env::temp_dir(),
        limits: Limits {
            analyses: args.max_analyses.into(),
            spool_bytes: args.spool_gb.saturating_mul(1_000_000_000),
            ..Limits::default()
        },
    };
    let served = gpuprism_server::run(LAST_ANALYSES, async {
        let server = api::bind((&args.host, args.port), config, Box::new(analyze)).await?;
        // Before the announcement: who reads it may stop the server at once.
        let stop = Stop::at_signal()?;
        announce(&server, is_public)?;
        server.run(stop).await
    });
    served.map_err(failed)
}

fn announce(server: &Server, is_public: bool) -> std::io::Result<()> {
    let address = server.address()?;
    print_error(&format!("gpuprism: listening on http://{address}"));
    if is_public && !address.ip().is_loopback() {
        print_error("gpuprism: everyone who reaches this address may use it: set NSYS_API_KEY to require a key");
    }
    Ok(())
}

/// The files of a report.
struct Files {
    json: String,
    /// `None` for a report of another tool that is not complete enough.
    markdown: Option<String>,
    tables: Vec<(String, String)>,
}

fn analyze(job: &Job) -> std::result::Result<Vec<u8>, Failure> {
    let files = analyzed(job)?;
    match job.answer {
        Answer::Json { with_markdown } => {
            let answer = explain::answer(&files.json, with_markdown.then_some(files.markdown));
            answer.map(String::into_bytes).ok_or_else(|| Failure::Analysis("the report is no JSON object".to_owned()))
        }
        Answer::Artifacts => Ok(archive(files)),
    }
}

fn archive(files: Files) -> Vec<u8> {
    let report = [("report.json".to_owned(), files.json)].into_iter();
    let markdown = files.markdown.map(|text| ("report.md".to_owned(), text));
    let tables = files.tables.into_iter().map(|(name, text)| (format!("tables/{name}"), text));
    let entry = |(name, text): (String, String)| Entry { name, rows: 0, text };
    zip::zip(&report.chain(markdown).chain(tables).map(entry).collect::<Vec<Entry>>())
}

/// Ends the reading of a job that nobody waits for.
struct UntilCancelled<'a>(&'a Cancel);

impl Watch for UntilCancelled<'_> {
    fn warn(&self, sentence: &str) {
        files::warn(sentence);
    }

    fn cancel(&self) -> Cancel {
        self.0.clone()
    }
}

/// Analyzes a trace. A report of nsys-llm-explainer is returned as it is, as its own server does.
fn analyzed(job: &Job) -> std::result::Result<Files, Failure> {
    let is_json = job.trace.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    // The original's status codes: 400 for JSON that is not accepted, 500 for a database that cannot be analyzed.
    let failed = |error: Error| {
        if is_json { Failure::Input(error.to_string()) } else { Failure::Analysis(error.to_string()) }
    };
    let phase_map = job.phase_map.as_deref().map(phase_map).transpose()?;
    let choices = Choices { kernel_limit: Some(job.kernel_limit), phase_map, ..Choices::default() };
    match crate::files::open(&job.trace, &UntilCancelled(&job.cancel)) {
        Ok(Opened::Trace(trace)) => {
            let capture = database::describe(&job.trace).map_err(failed)?.unwrap_or_default();
            let report = Report::new(vec![session::run(&trace, &choices).map_err(failed)?]);
            written(&report, &capture).ok_or_else(|| Failure::Analysis("the trace contains no run".to_owned()))
        }
        Ok(Opened::Report(report)) => {
            let files = written(&report, &DatabaseInfo::default());
            let original = original_report(&job.trace);
            let files = files.map(|files| Files { json: original.unwrap_or(files.json), ..files });
            files.ok_or_else(|| Failure::Input("the report contains no run".to_owned()))
        }
        Ok(_) => Err(failed(Error::refused(files::label(&job.trace), "neither a trace nor a report"))),
        Err(error) if job.cancel.is_cancelled() => Err(failed(error)),
        Err(error) => match original_report(&job.trace) {
            Some(json) => Ok(Files { json, markdown: None, tables: Vec::new() }),
            None => Err(failed(error)),
        },
    }
}

/// The phase map, under a name that tells the client nothing of the server's folders.
fn phase_map(path: &Path) -> std::result::Result<UserFile, Failure> {
    let refused = |error| Failure::Input(Error::io("phase map", &error).to_string());
    let text = std::fs::read_to_string(path).map_err(refused)?;
    Ok(UserFile { file: "phase map".to_owned(), text })
}

fn written(report: &Report, capture: &DatabaseInfo) -> Option<Files> {
    let run = report.runs.first()?;
    let (json, markdown) = (explain::json(run, capture), Some(explain::markdown(run)));
    Some(Files { json, markdown, tables: explain::tables(run) })
}

/// The text of a file with the outline of a `report.json` of nsys-llm-explainer, complete or not.
fn original_report(path: &Path) -> Option<String> {
    const MAX_BYTES: u64 = 64 << 20;
    if std::fs::metadata(path).ok()?.len() > MAX_BYTES {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    let json = Json::parse(&text).ok()?;
    let is_object = |key: &str| matches!(json.get_path(&[key]), Some(Json::Object(_)));
    let is_list = |key: &str| matches!(json.get_path(&[key]), Some(Json::Array(_)));
    let has_outline = is_object("tool") && is_object("metrics") && is_list("findings");
    has_outline.then_some(text)
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::io::Write;
    use std::process::Command;

    /// A pipe in place of a file: its writer sees how much is read.
    #[test]
    fn reading_a_trace_that_never_ends_stops_when_it_is_cancelled() {
        const BYTES_BEFORE_CANCEL: usize = 4 << 20;
        const MAX_BYTES: usize = 64 << 20;
        let trace = std::env::temp_dir().join(format!("gpuprism-test-{}-endless.json", std::process::id()));
        let _ = std::fs::remove_file(&trace);
        assert!(Command::new("mkfifo").arg(&trace).status().unwrap().success());
        let cancel = Cancel::default();
        let answer = Answer::Json { with_markdown: true };
        let job = Job { trace: trace.clone(), phase_map: None, kernel_limit: 30, answer, cancel: cancel.clone() };
        let written = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut pipe = std::fs::File::options().write(true).open(&trace).unwrap();
                let event = br#"{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1,"dur":1},"#.repeat(1000);
                let mut written = pipe.write(br#"{"traceEvents":["#).unwrap();
                while written < MAX_BYTES && pipe.write_all(&event).is_ok() {
                    written += event.len();
                    if written > BYTES_BEFORE_CANCEL {
                        cancel.cancel();
                    }
                }
                written
            });
            let failure = analyze(&job).unwrap_err();
            assert!(matches!(&failure, Failure::Input(why) if why.contains("cancelled")), "{failure:?}");
            writer.join().unwrap()
        });
        std::fs::remove_file(trace).unwrap();
        assert!((BYTES_BEFORE_CANCEL..MAX_BYTES / 4).contains(&written), "{written}");
    }
}
