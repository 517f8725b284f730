//! `gpuprism serve`: uploads over HTTP get the files of `gpuprism explain`, and the spool is empty afterwards.

use crate::cli::example::{NCCL, op, write_events, write_torch};
use crate::common::{directory, printed, read_json, shared};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A running `gpuprism serve`, whose folder for temporary files is in `folder`.
pub(crate) struct Serve {
    pub(crate) child: Child,
    address: String,
    key: Option<String>,
    pub(crate) spool: PathBuf,
}

impl Serve {
    fn start(folder: &Path, key: Option<&str>) -> Self {
        Self::with_flags(folder, key, &[])
    }

    fn with_flags(folder: &Path, key: Option<&str>, flags: &[&str]) -> Self {
        let spool = folder.join("tmp");
        std::fs::create_dir_all(&spool).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuprism"));
        command.args(["serve", "--host", "127.0.0.1", "--port", "0"]).env("TMPDIR", &spool).env_remove("NSYS_API_KEY");
        command.args(flags);
        Self::of(&mut command, spool, key)
    }

    /// The server that this command starts, with this folder for temporary files.
    pub(crate) fn of(command: &mut Command, spool: PathBuf, key: Option<&str>) -> Self {
        if let Some(key) = key {
            command.env("NSYS_API_KEY", key);
        }
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("gpuprism: listening on http://").unwrap().to_owned();
        // The log must be read, or the server would wait for space in the pipe.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { child, address, key: key.map(str::to_owned), spool }
    }

    /// Status and body of the answer to a form with these fields: name, file name, contents.
    fn post(&self, path: &str, fields: &[(&str, &str, &[u8])]) -> (u16, Vec<u8>) {
        let mut reply = Vec::new();
        self.send(path, fields).read_to_end(&mut reply).unwrap();
        let end = reply.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let status = String::from_utf8_lossy(&reply[9..12]).parse().unwrap();
        (status, reply.split_off(end))
    }

    /// A connection on which the form was sent.
    fn send(&self, path: &str, fields: &[(&str, &str, &[u8])]) -> TcpStream {
        let mut body = Vec::new();
        for (name, file, contents) in fields {
            let file = if file.is_empty() { String::new() } else { format!("; filename=\"{file}\"") };
            write!(body, "--b\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n").unwrap();
            body.extend(*contents);
            body.extend(b"\r\n");
        }
        body.extend(b"--b--\r\n");
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let key = self.key.as_ref().map(|key| format!("x-api-key: {key}\r\n")).unwrap_or_default();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=b\r\n\
             Content-Length: {length}\r\n{key}\r\n"
        )
        .unwrap();
        stream.write_all(&body).unwrap();
        stream
    }

    /// Whether so many analyses run.
    fn runs_analyses(&self, count: usize) -> bool {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply.contains(&format!("gpuprism_analyses_running {count}\n"))
    }

    pub(crate) fn json(&self, fields: &[(&str, &str, &[u8])]) -> (u16, Value) {
        let (status, body) = self.post("/v1/analyze/json", fields);
        (status, serde_json::from_slice(&body).unwrap())
    }

    pub(crate) fn files_in_spool(&self) -> usize {
        let entries = std::fs::read_dir(&self.spool).unwrap().flatten();
        entries.flat_map(|entry| std::fs::read_dir(entry.path()).into_iter().flatten().flatten()).count()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The files that `gpuprism explain` writes for a trace.
fn explained(folder: &Path, trace: &Path) -> PathBuf {
    let out = folder.join("explained");
    printed(folder, [Path::new("explain"), trace, Path::new("--out"), &out].map(Path::as_os_str));
    out
}

#[test]
fn a_torch_trace_gets_the_report_of_explain() {
    let folder = directory("serve_torch");
    write_torch(&folder, "five.json");
    let server = Serve::start(&folder, None);
    let trace = std::fs::read(folder.join("five.json")).unwrap();
    let (status, answer) = server.json(&[("file", "five.json", &trace)]);
    let out = explained(&folder, &folder.join("five.json"));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["report"], read_json(&out.join("report.json")));
    assert_eq!(answer["markdown"], std::fs::read_to_string(out.join("report.md")).unwrap());
    // 10 of 38 us.
    let kernel = &answer["summary"]["top_kernel"];
    assert_eq!((kernel["name"].as_str().unwrap(), kernel["total_time_ms"].as_f64().unwrap()), (NCCL, 0.01));
    assert_eq!(answer["summary"]["findings_count"], answer["report"]["findings"].as_array().unwrap().len());
    let (_, short) = server.json(&[
        ("kernel_limit", "", b"1"),
        ("include_markdown", "", b"False"),
        ("file", "five.json", &trace),
        ("phase_map", "map.json", br#"{"mine": "step"}"#),
    ]);
    assert!(short.get("markdown").is_none());
    assert_eq!(short["report"]["metrics"]["top_kernels"]["kernels"].as_array().unwrap().len(), 1);
    assert_eq!(server.files_in_spool(), 1, "the lock alone");
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_archive_has_the_files_of_explain() {
    let traces = shared("traces/nsys");
    let folder = directory("serve_archive");
    let trace = traces.join("h100_nvfuser_s3.16.sqlite");
    let out = explained(&folder, &trace);
    let server = Serve::start(&folder, None);
    let (status, archive) =
        server.post("/v1/analyze/artifacts", &[("file", "h100_nvfuser_s3.16.sqlite", &std::fs::read(&trace).unwrap())]);
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&archive));
    std::fs::write(folder.join("a.zip"), archive).unwrap();
    let script = "import zipfile; z = zipfile.ZipFile('a.zip'); assert z.testzip() is None; z.extractall('unpacked')";
    match Command::new("python3").args(["-c", script]).current_dir(&folder).status() {
        Ok(status) => assert!(status.success()),
        Err(_) => {
            println!("skipped: no python3 to unpack with");
            return;
        }
    }
    let unpacked = folder.join("unpacked");
    for name in ["report.json", "report.md", "tables/kernels.csv", "tables/gpu_idle_gaps.csv"] {
        assert_eq!(std::fs::read(unpacked.join(name)).unwrap(), std::fs::read(out.join(name)).unwrap(), "{name}");
    }
    let count = |folder: PathBuf| std::fs::read_dir(folder).unwrap().count();
    assert_eq!(count(unpacked.join("tables")), count(out.join("tables")));
}

#[test]
fn a_report_of_the_original_is_returned_as_it_is() {
    let folder = directory("serve_report");
    let server = Serve::start(&folder, None);
    let report = json!({"tool": {"version": "0.3.1"}, "metrics": {}, "findings": [], "warnings": []});
    let (status, answer) = server.json(&[("file", "report.json", report.to_string().as_bytes())]);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["report"], report);
    assert_eq!(answer["summary"]["tool_version"], "0.3.1");
    assert_eq!(answer["summary"]["top_kernel"], Value::Null);
    write_torch(&folder, "five.json");
    let own = std::fs::read(explained(&folder, &folder.join("five.json")).join("report.json")).unwrap();
    let (_, answer) = server.json(&[("file", "report.json", &own)]);
    assert_eq!(answer["report"], serde_json::from_slice::<Value>(&own).unwrap());
    assert_eq!(answer["summary"]["top_kernel"]["name"], NCCL);
}

#[test]
fn wrong_files_are_refused_with_one_sentence() {
    let folder = directory("serve_wrong");
    write_torch(&folder, "five.json");
    let trace = std::fs::read(folder.join("five.json")).unwrap();
    let server = Serve::start(&folder, None);
    for (fields, status, words) in [
        (vec![("file", "a.json", br#"{"a": 1}"#.as_slice())], 400, "no trace"),
        (vec![("file", "a.json", b"\x00\x01\x02 nothing")], 400, "a.json"),
        (vec![("file", "a.sqlite", b"SQLite format 3\0 and no more")], 500, "Analysis failed: "),
        (vec![("file", "a.db", b"PK\x03\x04 an archive")], 400, "a zip archive"),
        (vec![("file", "a.sqlite", b"text\n")], 400, "text without the header of a table"),
        (
            vec![("file", "a.sqlite", b"text\n")],
            400,
            "The API accepts files that end in .sqlite, .db, .json, also gzipped: ",
        ),
        (vec![("file", "a.json", br#"{"gpuprism": {"default": {"gemm": "gemm"}}}"#)], 400, "The API accepts"),
        (vec![("file", "five.json", &trace), ("phase_map", "m.json", br#"{"mine": ["re:("]}"#)], 400, "phase map"),
    ] {
        let (got, answer) = server.json(&fields);
        let detail = answer["detail"].as_str().unwrap();
        assert_eq!(got, status, "{detail}");
        assert!(detail.contains(words) && !detail.contains('\n') && !detail.contains("spool"), "{detail}");
        assert!(!detail.contains("CSV") && !detail.contains("csv"), "a format that the API does not accept: {detail}");
    }
    assert_eq!(server.files_in_spool(), 1, "the lock alone");
}

#[test]
fn a_server_that_others_reach_needs_a_key_or_the_flag_for_none() {
    let folder = directory("serve_open");
    let refused = |key: Option<&str>, flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuprism"));
        command.args(["serve", "--port", "0"]).args(flags).env("TMPDIR", &folder).env_remove("NSYS_API_KEY");
        key.map(|key| command.env("NSYS_API_KEY", key));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (key, flags, words) in [
        (None, &[][..], "--no-key"),
        (None, &["--host", "0.0.0.0"], "NSYS_API_KEY"),
        (Some(""), &["--host", "127.0.0.1"], "blank"),
        (Some(" \t"), &["--no-key"], "remove one of both"),
        (Some("  "), &[], "blank"),
    ] {
        let (status, error) = refused(key, flags);
        assert!(status == Some(2) && error.contains(words) && error.lines().count() == 1, "{key:?} {flags:?}: {error}");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "no spool is left");
    // The last of two addresses counts.
    for (key, flags) in [(None, &["--host", "0.0.0.0", "--no-key"][..]), (Some("k"), &["--host", "0.0.0.0"])] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuprism"));
        command.args(["serve", "--port", "0"]).args(flags).env("TMPDIR", &folder).env_remove("NSYS_API_KEY");
        drop(Serve::of(&mut command, folder.clone(), key));
    }
}

#[test]
fn the_kernel_limit_holds_for_every_table_of_kernels() {
    let folder = directory("serve_limit");
    let ops: Vec<String> = (0..60).map(|n| op("kernel", &format!("kernel{n:02}"), 0, 7, n * 100, n + 1)).collect();
    write_events(&folder, "many.json", &ops);
    let trace = std::fs::read(folder.join("many.json")).unwrap();
    let server = Serve::start(&folder, None);
    for (given, rows) in [("1", 1), ("45", 45), ("500", 60), ("0", 1), ("99999999999999999999", 60)] {
        let (status, answer) =
            server.json(&[("kernel_limit", "", given.as_bytes()), ("file", "many.json", trace.as_slice())]);
        assert_eq!(status, 200, "{answer}");
        let listed = answer["report"]["metrics"]["top_kernels"]["kernels"].as_array().unwrap().len();
        let markdown = answer["markdown"].as_str().unwrap();
        let table = markdown.split("top CUDA kernels").nth(1).unwrap().split("\n## ").next().unwrap();
        let lines = table.lines().filter(|line| line.starts_with("| kernel")).count();
        // The first line is that of the titles.
        assert_eq!((listed, lines - 1), (rows, rows), "{given}: {table}");
    }
}

/// The only process that this one has started; none while there is none.
#[cfg(target_os = "linux")]
fn worker(server: &Child) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.id())).unwrap_or_default();
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap().flatten();
    let of_task = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).ok();
    let all = children + &tasks.filter_map(of_task).collect::<String>();
    all.split_whitespace().next().and_then(|id| id.parse().ok())
}

/// An analysis that was stopped by a signal never ends by itself: only its end by force frees its place.
#[cfg(target_os = "linux")]
#[test]
fn an_analysis_ends_at_once_when_its_client_leaves_whatever_it_does() {
    let folder = directory("serve_leaves");
    let server = Serve::with_flags(&folder, None, &["--max-analyses", "1"]);
    let event = op("kernel", "gemm", 0, 7, 1, 1);
    let trace = format!("{{\"traceEvents\": [{}]}}", vec![event; 400_000].join(","));
    let stopped = || loop {
        let stream = server.send("/v1/analyze/json", &[("file", "long.json", trace.as_bytes())]);
        while !server.runs_analyses(1) {}
        while let Some(id) = worker(&server.child).filter(|_| server.runs_analyses(1)) {
            if Command::new("kill").args(["-STOP", &id.to_string()]).status().unwrap().success() {
                return (stream, id);
            }
        }
        // It was faster than this test: once more.
    };
    for _ in 0..2 {
        let (stream, id) = stopped();
        drop(stream);
        let start = Instant::now();
        while !server.runs_analyses(0) {
            assert!(start.elapsed() < Duration::from_secs(60), "the place is never free");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!Path::new(&format!("/proc/{id}")).exists(), "the process is gone");
    }
    write_torch(&folder, "five.json");
    let (status, _) = server.json(&[("file", "five.json", &std::fs::read(folder.join("five.json")).unwrap())]);
    assert_eq!(status, 200);
    assert_eq!(server.files_in_spool(), 1, "the lock alone");
}

/// A pipe in place of a trace never ends, so the worker works until its time is over.
#[cfg(target_os = "linux")]
#[test]
fn a_worker_ends_when_its_cpu_time_is_over_and_when_nobody_waits_for_it() {
    use std::os::unix::process::ExitStatusExt;
    const SIGXCPU: i32 = 24;
    let folder = directory("serve_worker");
    let pipe = folder.join("endless.json");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let start = |max_cpu_s: u64| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuprism"));
        let mut child = command.arg("serve-worker").current_dir(&folder).stdin(Stdio::piped()).spawn().unwrap();
        let work = json!({
            "trace": "endless.json", "phase_map": null, "kernel_limit": 30, "answer": "json", "max_cpu_s": max_cpu_s,
        });
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "{work}").unwrap();
        let mut writer = std::fs::File::options().write(true).open(&pipe).unwrap();
        writer.write_all(b"{\"traceEvents\": [").unwrap();
        (child, input, writer)
    };
    let events = (op("kernel", "gemm", 0, 7, 1, 1) + ",").repeat(1000);
    let (mut child, _input, mut writer) = start(1);
    while writer.write_all(events.as_bytes()).is_ok() {}
    assert_eq!(child.wait().unwrap().signal(), Some(SIGXCPU));

    // It waits for more of the trace, which never comes.
    let (mut child, input, _writer) = start(100);
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// Sends SIGTERM and waits for the end of the process.
#[cfg(unix)]
pub(crate) fn ended(child: &mut Child) -> ExitStatus {
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "the server still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(unix)]
#[test]
fn sigterm_ends_the_server_and_its_spool() {
    let folder = directory("serve_stop");
    let mut server = Serve::start(&folder, None);
    assert!(std::fs::read_dir(&server.spool).unwrap().count() == 1);
    assert_eq!(ended(&mut server.child).code(), Some(0));
    assert_eq!(std::fs::read_dir(&server.spool).unwrap().count(), 0);
}

#[test]
fn the_health_check_asks_a_running_server() {
    let folder = directory("serve_health");
    let server = Serve::start(&folder, Some("secret"));
    let port = server.address.rsplit(':').next().unwrap().to_owned();
    let check = ["serve", "--check-health", "--port", &port];
    assert_eq!(printed(&folder, check), "");
    drop(server);
    let output = crate::common::gpuprism(&folder, check);
    assert_eq!((output.status, output.stderr.lines().count()), (1, 1), "{output:?}");
}

/// Calls the API as the client of nsys-llm-explainer does. That client is not on the Python package index, so `serve_client.py` sends
/// its requests, with the library that it uses.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_python_client_of_the_original_works() {
    let traces = shared("traces/nsys");
    let folder = directory("serve_python");
    let Some(python) = python_with_requests(&folder) else { return };
    let server = Serve::start(&folder, Some("secret"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/serve_client.py");
    let output = Command::new(python)
        .arg(script)
        .arg(format!("http://{}", server.address))
        .arg(traces.join("h100_nvfuser_s3.16.sqlite"))
        .arg(&folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(server.files_in_spool(), 1, "the lock alone");
}

/// A Python that has `requests`: that of the machine, or a new virtual environment. If neither is possible, prints why.
fn python_with_requests(folder: &Path) -> Option<PathBuf> {
    let succeeds = |program: &Path, args: &[&str]| {
        Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
    };
    let python = PathBuf::from("python3");
    if succeeds(&python, &["-c", "import requests"]) {
        return Some(python);
    }
    let environment = folder.join("venv");
    let own = environment.join("bin/python3");
    if !succeeds(&python, &["-m", "venv", &environment.to_string_lossy()]) {
        println!("skipped: no python3 with venv");
        return None;
    }
    if !succeeds(&own, &["-m", "pip", "install", "--quiet", "--retries", "0", "--timeout", "15", "requests"]) {
        println!("skipped: pip cannot install requests");
        return None;
    }
    Some(own)
}
