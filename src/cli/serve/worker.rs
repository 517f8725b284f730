//! Each analysis runs in a process of its own: the same program, started again with a hidden command.
//!
//! A process can be ended at any point of its work, whatever it is doing, and takes its memory along. So an analysis
//! that nobody waits for ends at once, the system bounds its CPU time, and a defect or a lack of memory ends one
//! request and not the server. It costs the start of a process, some milliseconds.
//!
//! The worker reads its work from standard input, as one line of JSON, and writes the answer to standard output; its
//! exit status says what the answer is. Standard input stays open as long as somebody waits: when the server dies, it
//! closes, and the worker ends.

use super::analysis;
use crate::{Error, Result};
use gpuprism_server::api::{Answer, Cancel, Failure, Job};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The hidden command of the program.
pub(super) const COMMAND: &str = "serve-worker";
/// The time between two looks at whether somebody still waits for an analysis.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Exit statuses of a worker whose output is one sentence.
const REFUSED: u8 = 3;
const FAILED: u8 = 4;

/// What a worker does, in the folder of the trace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Work {
    /// The name of the trace.
    pub(super) trace: String,
    /// The text of the phase map, if there is one.
    pub(super) phase_map: Option<String>,
    /// The most rows of the table of kernels.
    pub(super) kernel_limit: usize,
    /// The form of the answer.
    pub(super) answer: Form,
    /// The most CPU time of all threads together.
    pub(super) max_cpu_s: u64,
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Form {
    Json,
    JsonWithMarkdown,
    Artifacts,
}

impl Work {
    fn of(job: &Job, max_cpu_s: u64) -> std::result::Result<Self, Failure> {
        // Under a name that tells the client nothing of the server's folders.
        let refused = |error| Failure::Input(Error::io("phase map", &error).to_string());
        let phase_map = job.phase_map.as_deref().map(std::fs::read_to_string).transpose().map_err(refused)?;
        Ok(Self {
            trace: job.trace.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            phase_map,
            kernel_limit: job.kernel_limit,
            answer: match job.answer {
                Answer::Json { with_markdown: true } => Form::JsonWithMarkdown,
                Answer::Json { with_markdown: false } => Form::Json,
                Answer::Artifacts => Form::Artifacts,
            },
            max_cpu_s,
        })
    }
}

/// Analyzes a job in a new process, which ends when the job is cancelled.
pub(super) fn analyze(job: &Job, max_cpu_s: u64) -> std::result::Result<Vec<u8>, Failure> {
    let work = Work::of(job, max_cpu_s)?;
    let folder = job.trace.parent().unwrap_or(Path::new("."));
    let program = program().map_err(|error| unstarted(&error))?;
    let mut command = Command::new(program);
    command.arg(COMMAND).current_dir(folder);
    // Temporary files go with the upload. The worker needs no key.
    command.env("TMPDIR", ".").env_remove("NSYS_API_KEY");
    run(&mut command, &work, &job.cancel)
}

/// This program. On Linux under a name that stays right if an update replaces the file; where the system does not tell
/// it, as in a container without `/proc`, the name by which it was called.
fn program() -> std::io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && running.exists() {
        return Ok(running);
    }
    let called = || std::env::args_os().next().and_then(|name| std::path::absolute(name).ok());
    std::env::current_exe().or_else(|error| called().ok_or(error))
}

/// Runs a worker until it ends or nobody waits for it.
fn run(command: &mut Command, work: &Work, cancel: &Cancel) -> std::result::Result<Vec<u8>, Failure> {
    let line = crate::json::write(work) + "\n";
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| unstarted(&error))?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let (_waits, nobody_waits) = channel::<()>();
    std::thread::spawn(move || {
        let Some(mut stdin) = stdin else { return };
        // An error means that the worker has ended, which its exit status explains.
        let _ = stdin.write_all(line.as_bytes());
        let _ = nobody_waits.recv();
    });
    let (send, received) = channel();
    std::thread::spawn(move || {
        let mut output = Vec::new();
        let read = stdout.map(|mut stdout| stdout.read_to_end(&mut output)).transpose();
        // Nobody receives it if the job was cancelled.
        let _ = send.send(read.map(|_| output));
    });
    let output = loop {
        match received.recv_timeout(LOOK_AGAIN) {
            Ok(output) => break output,
            Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => return Err(ended(&mut child)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break Ok(Vec::new()),
        }
    };
    let status = child.wait().map_err(|error| unstarted(&error))?;
    result(status, output.map_err(|error| unstarted(&error))?, work.max_cpu_s)
}

/// Ends a worker, and returns when it is gone.
fn ended(child: &mut Child) -> Failure {
    let _ = child.kill();
    let _ = child.wait();
    // Nobody reads this answer.
    Failure::Analysis("the analysis was cancelled".to_owned())
}

fn unstarted(error: &std::io::Error) -> Failure {
    Failure::Analysis(format!("the server cannot start a process for it ({error})"))
}

fn result(status: ExitStatus, output: Vec<u8>, max_cpu_s: u64) -> std::result::Result<Vec<u8>, Failure> {
    let sentence = |output: Vec<u8>| String::from_utf8_lossy(&output).into_owned();
    match status.code() {
        Some(0) => Ok(output),
        Some(code) if code == i32::from(REFUSED) => Err(Failure::Input(sentence(output))),
        Some(code) if code == i32::from(FAILED) => Err(Failure::Analysis(sentence(output))),
        Some(_) => {
            Err(Failure::Analysis("it stopped because of a defect; the server's log has the details".to_owned()))
        }
        None => Err(stopped(status, max_cpu_s)),
    }
}

/// Why the system stopped a worker.
#[cfg(unix)]
fn stopped(status: ExitStatus, max_cpu_s: u64) -> Failure {
    use nix::sys::signal::Signal;
    use std::os::unix::process::ExitStatusExt;
    match status.signal().and_then(|signal| Signal::try_from(signal).ok()) {
        Some(Signal::SIGXCPU) => Failure::Limit(format!(
            "The analysis needs more than {max_cpu_s} s of CPU time: upload a shorter trace, or start the server with a \
             larger --cpu-seconds."
        )),
        Some(Signal::SIGKILL) => {
            Failure::Analysis("the system stopped it, probably because it needs more memory than there is".to_owned())
        }
        _ => Failure::Analysis("it stopped because of a defect; the server's log has the details".to_owned()),
    }
}

#[cfg(not(unix))]
fn stopped(_: ExitStatus, _: u64) -> Failure {
    Failure::Analysis("it stopped because of a defect; the server's log has the details".to_owned())
}

/// The worker itself. Never returns with an error that its exit status does not tell.
pub(in crate::cli) fn main() -> Result<u8> {
    let failed = |error: std::io::Error| Error::io("standard input", &error);
    let mut input = BufReader::new(std::io::stdin());
    let mut line = String::new();
    input.read_line(&mut line).map_err(failed)?;
    let work: Work = serde_json::from_str(&line).map_err(|error| failed(error.into()))?;
    limit(work.max_cpu_s)?;
    // Signals for the whole group are for the server, which lets requests finish.
    ctrlc::set_handler(|| ()).map_err(|error| Error::refused("signals", error.to_string()))?;
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut input, &mut std::io::sink());
        std::process::exit(1);
    });
    let (status, output) = match analysis::analyze(&work) {
        Ok(answer) => (0, answer),
        Err(Failure::Input(why) | Failure::Limit(why)) => (REFUSED, why.into_bytes()),
        Err(Failure::Analysis(why)) => (FAILED, why.into_bytes()),
    };
    let written = std::io::stdout().lock().write_all(&output);
    written.map_err(|error| Error::io("standard output", &error))?;
    Ok(status)
}

/// Bounds the CPU time of this process, and leaves no image of its memory, which contains the trace, on the disk.
#[cfg(unix)]
fn limit(max_cpu_s: u64) -> Result<()> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let failed = |error: nix::Error| Error::io("limits of the process", &error.into());
    let (_, hard) = getrlimit(Resource::RLIMIT_CPU).map_err(failed)?;
    setrlimit(Resource::RLIMIT_CPU, max_cpu_s.min(hard), hard).map_err(failed)?;
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(failed)
}

#[cfg(not(unix))]
fn limit(_: u64) -> Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn work() -> Work {
        Work { trace: "a.json".to_owned(), phase_map: None, kernel_limit: 30, answer: Form::Json, max_cpu_s: 1 }
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_worker_that_never_ends_is_gone_when_its_job_is_cancelled() {
        let folder = std::env::temp_dir().join(format!("gpuprism-worker-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        // It does not read its input, which is longer than a pipe, and heeds no polite signal.
        let work = Work { phase_map: Some("x".repeat(1 << 20)), ..work() };
        let mut command = shell("trap '' TERM INT; echo $$ > pid; while :; do sleep 1; done");
        let cancel = Cancel::default();
        let result = std::thread::scope(|scope| {
            let running = scope.spawn(|| run(command.current_dir(&folder), &work, &cancel));
            while std::fs::read_to_string(folder.join("pid")).map_or(true, |pid| !pid.ends_with('\n')) {
                std::thread::sleep(LOOK_AGAIN);
            }
            cancel.cancel();
            running.join().unwrap()
        });
        assert!(matches!(&result, Err(Failure::Analysis(why)) if why.contains("cancelled")), "{result:?}");
        let pid = std::fs::read_to_string(folder.join("pid")).unwrap();
        let is_there = Command::new("kill").args(["-0", pid.trim()]).stderr(Stdio::null()).status().unwrap().success();
        assert!(!is_there, "the process still runs");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_ends_a_worker_is_the_answer() {
        let result = |script: &str| run(&mut shell(script), &work(), &Cancel::default());
        assert_eq!(result("echo the answer"), Ok(b"the answer\n".to_vec()));
        assert_eq!(result("printf no; exit 3"), Err(Failure::Input("no".to_owned())));
        assert_eq!(result("printf no; exit 4"), Err(Failure::Analysis("no".to_owned())));
        let because = |script: &str| match result(script).unwrap_err() {
            Failure::Input(why) | Failure::Analysis(why) | Failure::Limit(why) => why,
        };
        assert!(because("exit 101").contains("defect") && because("kill -ABRT $$").contains("defect"));
        assert!(because("kill -KILL $$").contains("memory"));
        assert!(matches!(result("kill -XCPU $$"), Err(Failure::Limit(why)) if why.contains("1 s of CPU time")));
    }
}
