//! Captures for the page, against an imitated server: who may start them, one at a time, and what becomes readable.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod client;
// The server has more behaviours than are needed here.
#[allow(dead_code, reason = "shared with the tests of the crate")]
#[path = "../../capture/tests/server/fake.rs"]
mod fake;

use client::Reply;
use fake::{Behaviour, Fake, Folder, Kind, Writes};
use gpuprism_capture::Options;
use gpuprism_server::view::{self, Page};
use gpuprism_server::{Stop, run};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

struct Viewing {
    host: String,
    token: String,
    stop: Option<tokio::sync::watch::Sender<bool>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Serves a page that can capture from this server, if one is given. The captures have the short waits of the crate's tests.
fn start(folder: &Folder, fake: Option<&Fake>) -> Viewing {
    let page = folder.join("dist");
    std::fs::create_dir_all(&page).unwrap();
    std::fs::write(page.join("index.html"), "<head></head>").unwrap();
    let options: Option<Options> = fake.map(|fake| fake::options(fake, folder.join("out")));
    let (tell, told) = mpsc::channel();
    let (sender, stop) = Stop::by_sender();
    let thread = std::thread::spawn(move || {
        run(Duration::ZERO, async {
            let view = view::bind(0, Page::Folder(page), &[], options).await?;
            tell.send(view.address.clone()).unwrap();
            view.run(stop).await
        })
        .unwrap();
    });
    let address = told.recv_timeout(Duration::from_secs(10)).unwrap();
    let (host, token) = address.strip_prefix("http://").unwrap().trim_end_matches('/').split_once('/').unwrap();
    Viewing { host: host.to_owned(), token: token.to_owned(), stop: Some(sender), thread: Some(thread) }
}

impl Viewing {
    fn send(&self, method: &str, name: &str, headers: &str, body: &str) -> Reply {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let (host, token) = (&self.host, &self.token);
        let length = body.len();
        write!(
            stream,
            "{method} /{token}/{name} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        )
        .unwrap();
        Reply::read(stream)
    }

    /// A POST of the page.
    fn post(&self, action: &str, body: &Value) -> Reply {
        self.send(
            "POST",
            &format!("api/capture/{action}"),
            &format!("Origin: http://{}\r\n", self.host),
            &body.to_string(),
        )
    }

    fn status(&self) -> Value {
        self.send("GET", "api/capture", "", "").json()
    }

    /// The status when the capture has ended.
    fn ended(&self) -> Value {
        let begin = Instant::now();
        loop {
            let status = self.status();
            if status["state"] != "running" {
                return status;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "{status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn sglang(folder: &Folder) -> Behaviour {
    Behaviour::new(Kind::Sglang, &folder.join(""))
}

fn wait_for_profiler(fake: &Fake) {
    let begin = Instant::now();
    while !fake.is_profiling.load(Ordering::SeqCst) {
        assert!(begin.elapsed() < Duration::from_secs(20), "the profiler never started");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_capture_becomes_readable_and_a_second_one_can_be_compared_with_it() {
    let folder = Folder::new("view-two");
    let fake = Fake::start(sglang(&folder));
    let viewing = start(&folder, Some(&fake));
    let list = viewing.send("GET", "api/files", "", "").json();
    assert_eq!(list["can_capture"], true);
    assert_eq!(viewing.status()["state"], "none");
    assert_eq!(viewing.post("start", &json!({"load": "both", "steps": 2})).status, 200);
    let first = viewing.ended();
    assert_eq!(
        (&first["state"], &first["title"]),
        (&"complete".into(), &"Captured capture-1: 2 traces".into()),
        "{first}"
    );
    assert_eq!(first["comparisons"], json!([]));
    let names: Vec<&str> =
        first["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
    assert_eq!(names[0], "capture-1/server_args.json");
    assert!(names[1].starts_with("capture-1/prefill/") && names[2].starts_with("capture-1/decode/"), "{names:?}");
    let trace = &first["files"][2];
    let bytes = viewing.send("GET", &format!("api/file/{}", trace["id"]), "", "").body;
    assert_eq!(bytes, std::fs::read(folder.join("out").join(names[2])).unwrap());
    assert!(first["progress"].as_array().unwrap().iter().any(|line| line["phase"] == "stop"), "{first}");

    assert_eq!(viewing.post("start", &json!({"load": "decode", "steps": 2})).status, 200);
    let second = viewing.ended();
    let comparison = &second["comparisons"][0];
    assert_eq!(
        (second["comparisons"].as_array().unwrap().len(), &comparison["title"]),
        (1, &"Compare decode with capture-1".into())
    );
    let compared: Vec<&str> =
        comparison["files"].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect();
    assert!(compared[0] == names[2] && compared[1].starts_with("capture-2/decode/"), "{compared:?}");
}

#[test]
fn only_the_page_starts_captures_and_it_chooses_load_and_steps_alone() {
    let folder = Folder::new("view-foreign");
    let fake = Fake::start(sglang(&folder));
    let viewing = start(&folder, Some(&fake));
    let body = json!({"load": "decode", "steps": 2}).to_string();
    let own = format!("Origin: http://{}\r\n", viewing.host);
    for (method, action, headers, body, status) in [
        ("POST", "start", "", body.as_str(), 403),
        ("POST", "start", "Origin: https://example.com\r\n", &body, 403),
        ("POST", "start", "Origin: null\r\n", &body, 403),
        ("POST", "cancel", "", "", 403),
        ("POST", "resume", "Origin: http://127.0.0.1:1\r\n", "", 403),
        ("GET", "start", "", "", 405),
        ("POST", "", &own, "", 405),
        ("POST", "other", &own, "", 404),
        ("POST", "start", &own, "{}", 400),
        ("POST", "start", &own, r#"{"load": "decode", "steps": 0}"#, 400),
        ("POST", "start", &own, r#"{"load": "decode", "steps": 2, "out": "/tmp"}"#, 400),
        ("POST", "start", &own, r#"{"load": "command", "steps": 2}"#, 400),
        ("POST", "cancel", &own, "", 409),
        ("POST", "resume", &own, "", 409),
    ] {
        let reply = viewing.send(method, &format!("api/capture/{action}"), headers, body);
        assert_eq!(reply.status, status, "{method} {action} {headers} {body}: {}", reply.text());
    }
    let large = format!(r#"{{"load": "{}"}}"#, "x".repeat(10_000));
    assert_eq!(viewing.send("POST", "api/capture/start", &own, &large).status, 400);
    assert_eq!(fake.paths(), Vec::<String>::new(), "nothing was sent to the server");
    assert!(!folder.join("out").exists());
    assert_eq!(
        start(&folder, None).send("GET", "api/capture", "", "").status,
        404,
        "without --server there are no captures"
    );
}

#[test]
fn a_running_capture_refuses_another_and_a_cancel_stops_the_profiler() {
    let folder = Folder::new("view-cancel");
    let fake = Fake::start(Behaviour { hangs_while_profiling: true, ..sglang(&folder) });
    let viewing = start(&folder, Some(&fake));
    let body = json!({"load": "prefill", "steps": 2});
    assert_eq!(viewing.post("start", &body).status, 200);
    wait_for_profiler(&fake);
    let refused = viewing.post("start", &body);
    assert_eq!(refused.status, 409, "{}", refused.text());
    assert!(refused.text().contains("A capture is running"), "{}", refused.text());
    assert_eq!(viewing.post("cancel", &json!({})).status, 200);
    let status = viewing.ended();
    assert_eq!((&status["state"], &status["title"]), (&"cancelled".into(), &"The capture was cancelled".into()));
    assert!(!fake.is_profiling.load(Ordering::SeqCst));
    assert_eq!(fake.count("/stop_profile"), 1);
    assert_eq!(viewing.post("start", &body).status, 200, "another capture can start");
}

#[test]
fn the_end_of_the_program_stops_the_profiler() {
    let folder = Folder::new("view-end");
    let fake = Fake::start(Behaviour { hangs_while_profiling: true, ..sglang(&folder) });
    let mut viewing = start(&folder, Some(&fake));
    assert_eq!(viewing.post("start", &json!({"load": "prefill", "steps": 2})).status, 200);
    wait_for_profiler(&fake);
    drop(viewing.stop.take());
    viewing.thread.take().unwrap().join().unwrap();
    assert!(!fake.is_profiling.load(Ordering::SeqCst));
}

#[test]
fn a_server_that_is_down_gives_the_sentence_of_the_capture_and_a_remedy() {
    let folder = Folder::new("view-down");
    let fake = Fake::start(sglang(&folder));
    let viewing = start(&folder, Some(&fake));
    drop(fake);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(viewing.post("start", &json!({"load": "both", "steps": 2})).status, 200);
    let status = viewing.ended();
    assert_eq!(status["state"], "failed");
    assert!(status["problem"].as_str().unwrap().contains("connection refused"), "{status}");
    assert!(!folder.join("out/capture-1").exists(), "no empty folder stays");
    let checks = viewing.send("GET", "api/capture/server", "", "").json();
    assert!(checks[0]["level"] == "problem" && checks[0]["remedy"].is_string(), "{checks}");
}

#[test]
fn traces_that_are_elsewhere_are_found_when_they_were_copied() {
    let folder = Folder::new("view-elsewhere");
    let fake = Fake::start(Behaviour { writes: Writes::Nothing, ..sglang(&folder) });
    let viewing = start(&folder, Some(&fake));
    assert_eq!(viewing.post("start", &json!({"load": "decode", "steps": 2})).status, 200);
    let status = viewing.ended();
    assert_eq!(status["state"], "awaiting_files", "{status}");
    assert!(status["problem"].as_str().unwrap().contains("no trace appeared"), "{status}");
    let commands = status["commands"].as_array().unwrap();
    assert!(commands[0].as_str().unwrap().starts_with("docker cp "), "{status}");
    assert!(commands.iter().all(|command| !command.as_str().unwrap().contains("--resume")), "the page has a button");
    // Not there yet.
    assert_eq!(viewing.post("resume", &json!({})).status, 200);
    assert_eq!(viewing.ended()["state"], "awaiting_files");
    let event = json!({"ph": "X", "cat": "kernel", "name": "k", "ts": 1.0, "dur": 2.0, "pid": 0, "tid": 7});
    let trace = json!({"schemaVersion": 1, "traceEvents": vec![event; 50]}).to_string();
    std::fs::write(folder.join("out/capture-1/decode/a.trace.json.gz"), fake::gzip(trace.as_bytes())).unwrap();
    assert_eq!(viewing.post("resume", &json!({})).status, 200);
    let status = viewing.ended();
    assert_eq!((&status["state"], &status["commands"]), (&"complete".into(), &json!([])), "{status}");
    assert!(status["files"].as_array().unwrap().iter().any(|file| file["name"] == "capture-1/decode/a.trace.json.gz"));
}

#[cfg(unix)]
#[test]
fn a_link_in_place_of_a_captured_trace_is_not_followed() {
    let folder = Folder::new("view-link");
    let fake = Fake::start(sglang(&folder));
    let viewing = start(&folder, Some(&fake));
    assert_eq!(viewing.post("start", &json!({"load": "decode", "steps": 2})).status, 200);
    let status = viewing.ended();
    let trace = status["files"].as_array().unwrap().last().unwrap();
    let path = folder.join("out").join(trace["name"].as_str().unwrap());
    std::fs::remove_file(&path).unwrap();
    std::fs::write(folder.join("secret.json"), "secret").unwrap();
    std::os::unix::fs::symlink(folder.join("secret.json"), &path).unwrap();
    assert_eq!(viewing.send("GET", &format!("api/file/{}", trace["id"]), "", "").status, 404);
}
