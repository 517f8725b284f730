//! Captures from the HTTP layers of SGLang and vLLM themselves, and compares the imitations of `fake.rs` with them.
//!
//! `real_servers/serve.py` serves the routes of a wheel from PyPI with an engine that needs no GPU. TensorRT-LLM is not among them: its
//! package on PyPI is an installer for a wheel on another host. The wheels are large, so the tests run only if GPUPRISM_REAL_SERVERS is
//! set, as `cargo xtask test` does.

use crate::fake::{Behaviour, Fake, Folder, Kind, options_for};
use gpuprism_capture::record::State;
use gpuprism_capture::{Cancel, Progress};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What `serve.py` imports of the packages, and what they import of others.
const LIBRARIES: [&str; 7] = [
    "fastapi==0.165.0",
    "uvicorn==0.54.0",
    "regex==2026.11.19",
    "msgspec==0.22.0",
    "orjson==3.13.0",
    "python-multipart==0.0.34",
    "uvloop==0.23.0",
];

/// A server in Python; it ends when it is dropped.
struct Real {
    process: Child,
    url: String,
}

impl Real {
    /// Starts the server of this wheel; `None`, with the reason printed, if that is not possible here.
    fn start(package: &str, version: &str, folder: &Path) -> Option<Self> {
        if std::env::var_os("GPUPRISM_REAL_SERVERS").is_none() {
            println!("skipped: set GPUPRISM_REAL_SERVERS=1 to download {package} {version}");
            return None;
        }
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("real_servers").join(package);
        let python = python(&place)?;
        let wheel = wheel(&python, &place, package, version)?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real_servers/serve.py");
        let mut process = Command::new(python)
            .arg(script)
            .arg(package)
            .arg(wheel)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Some(Self { process, url: format!("http://127.0.0.1:{}", port.trim().parse::<u16>().unwrap()) })
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether the command succeeds; prints why the test is skipped if not.
fn succeeds(command: &mut Command, skipped: &str) -> bool {
    let is_done = command.stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    if !is_done {
        println!("skipped: {skipped}");
    }
    is_done
}

fn pip(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "--quiet", "--retries", "0", "--timeout", "30"]);
    command
}

/// A Python with the libraries, in a virtual environment that is kept for the next run.
fn python(place: &Path) -> Option<PathBuf> {
    let environment = place.join("environment");
    let python = environment.join("bin/python3");
    if !python.is_file()
        && !succeeds(Command::new("python3").args(["-m", "venv"]).arg(&environment), "no python3 with venv")
    {
        return None;
    }
    succeeds(pip(&python).arg("install").args(LIBRARIES), "pip cannot install fastapi and others").then_some(python)
}

/// The wheel of the package, without what it depends on.
fn wheel(python: &Path, place: &Path, package: &str, version: &str) -> Option<PathBuf> {
    let found = || {
        let mut files = std::fs::read_dir(place).unwrap().flatten().map(|entry| entry.path());
        files.find(|file| file.extension().is_some_and(|extension| extension == "whl"))
    };
    if let Some(wheel) = found() {
        return Some(wheel);
    }
    let mut download = pip(python);
    download.args(["download", "--no-deps", "--only-binary", ":all:", "--dest"]).arg(place);
    let requirement = format!("{package}=={version}");
    succeeds(download.arg(&requirement), &format!("pip cannot download {requirement}")).then(found)?
}

/// Status and body of the answer.
fn ask(url: &str, method: &str, path: &str, body: &Value) -> (u16, String) {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let url = format!("{url}{path}");
    let mut response = match (method, body) {
        ("GET", _) => agent.get(url).call(),
        (_, Value::Null) => agent.post(url).send_empty(),
        (_, body) => agent.post(url).header("content-type", "application/json").send(body.to_string()),
    }
    .unwrap();
    (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
}

/// Fails if the imitation has a member that the original lacks, or one of another type.
fn assert_is_part(imitation: &Value, original: &Value, place: &str) {
    match (imitation, original) {
        (Value::Object(imitation), Value::Object(original)) => {
            for (key, value) in imitation {
                let other = original.get(key).unwrap_or_else(|| panic!("{place}: the original has no {key}"));
                assert_is_part(value, other, &format!("{place}.{key}"));
            }
        }
        (Value::Array(imitation), Value::Array(original)) => {
            for (value, other) in imitation.iter().zip(original) {
                assert_is_part(value, other, place);
            }
        }
        _ => assert_eq!(std::mem::discriminant(imitation), std::mem::discriminant(original), "{place}: {original}"),
    }
}

/// Asks both servers the same, in this order.
fn assert_same_answers(fake: &Fake, real: &Real, requests: &[(&str, &str, Value)]) {
    for (method, path, body) in requests {
        let (imitation, original) = (ask(&fake.url, method, path, body), ask(&real.url, method, path, body));
        let place = format!("{method} {path} {body}");
        assert_eq!(imitation.0, original.0, "{place}: {imitation:?} instead of {original:?}");
        match (serde_json::from_str(&imitation.1), serde_json::from_str(&original.1)) {
            (Ok(Value::Object(imitation)), Ok(original)) => assert_is_part(&imitation.into(), &original, &place),
            _ => assert_eq!(imitation.1, original.1, "{place}"),
        }
    }
}

/// Captures both stages.
fn assert_captured(real: &Real, out: PathBuf, version: &str) {
    let outcome =
        gpuprism_capture::capture(&options_for(&real.url, out), &mut |_: Progress| {}, &Cancel::default()).unwrap();
    assert_eq!(outcome.missing, None);
    assert_eq!(outcome.record.framework_version.as_deref(), Some(version));
    let states: Vec<(State, usize)> =
        outcome.record.captures.iter().map(|capture| (capture.state, capture.files.len())).collect();
    assert_eq!(states, [(State::Complete, 1); 2]);
}

#[test]
fn sglang_is_captured_through_its_own_http_layer_and_imitated_truly() {
    let folder = Folder::new("real-sglang");
    let Some(real) = Real::start("sglang", "0.5.23", &folder.join("server")) else { return };
    assert_captured(&real, folder.join("out"), "0.5.23");
    let fake = Fake::start(Behaviour::new(Kind::Sglang, &folder.join("fake")));
    let start = json!({
        "output_dir": folder.join("compared"), "num_steps": 3, "activities": ["CPU", "GPU"], "profile_by_stage": false,
        "merge_profiles": false, "profile_id": "compared",
    });
    let generate = json!({"text": "word", "sampling_params": {"temperature": 0, "max_new_tokens": 3}});
    assert_same_answers(
        &fake,
        &real,
        &[
            ("GET", "/v1/models", Value::Null),
            ("GET", "/server_info", Value::Null),
            ("GET", "/openapi.json", Value::Null),
            ("GET", "/version", Value::Null),
            ("POST", "/generate", generate),
            ("POST", "/stop_profile", Value::Null),
            ("POST", "/start_profile", start.clone()),
            ("POST", "/start_profile", start),
            ("POST", "/stop_profile", Value::Null),
        ],
    );
}

#[test]
fn vllm_is_captured_through_its_own_http_layer_and_imitated_truly() {
    let folder = Folder::new("real-vllm");
    let Some(real) = Real::start("vllm", "0.33.0", &folder.join("server")) else { return };
    assert_captured(&real, folder.join("out"), "0.33.0");
    let fake = Fake::start(Behaviour::new(Kind::Vllm, &folder.join("fake")));
    let start = json!({"profile_prefix": "compared", "max_iterations": 3});
    assert_same_answers(
        &fake,
        &real,
        &[
            ("GET", "/v1/models", Value::Null),
            ("GET", "/version", Value::Null),
            ("GET", "/server_info?config_format=json", Value::Null),
            ("GET", "/openapi.json", Value::Null),
            ("GET", "/get_server_info", Value::Null),
            ("POST", "/stop_profile", Value::Null),
            ("POST", "/start_profile", start.clone()),
            ("POST", "/start_profile", start),
            ("POST", "/stop_profile", Value::Null),
        ],
    );
}
