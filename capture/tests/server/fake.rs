//! Servers that answer as SGLang 0.5.23, vLLM 0.33, TensorRT-LLM and TokenSpeed do, and write a trace when their profiler stops.
//!
//! They record every request. `real.rs` compares the answers of SGLang 0.5.23 and vLLM 0.33.0 with those of the packages. If a profiler
//! runs already, SGLang answers 500 without a reason and vLLM 409; without one, SGLang answers 500 to a stop, and vLLM 200. A vLLM that
//! is started without a profiler does not have the paths. TensorRT-LLM cannot be compared: its package on PyPI only fetches a wheel from
//! another host. Its `/v1/models` and `/version` are those of `tensorrt_llm/serve/openai_server.py` (`get_model`, `version`), the
//! profiler's paths and members those of the change that added them.

use flate2::Compression;
use flate2::write::GzEncoder;
use gpuprism_capture::{Cancel, Error, Options, Outcome, Pacing, ProbeSize, Progress};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request as the server saw it. `body` is null if it had none.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Value,
    pub(crate) authorization: Option<String>,
}

/// Which server to imitate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sglang,
    /// vLLM 0.33: its profiler takes a body.
    Vllm,
    /// A vLLM whose profiler takes no body.
    OldVllm,
    Trtllm,
    Tokenspeed,
    Unknown,
}

/// What the server writes when its profiler stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    Trace,
    /// One trace per rank.
    Ranks(u32),
    Nothing,
    /// A trace of CPU events only.
    FrontEnd,
    /// The first half of a gzip file.
    Half,
}

/// How a server differs from a healthy one.
#[derive(Clone)]
pub(crate) struct Behaviour {
    pub(crate) kind: Kind,
    pub(crate) writes: Writes,
    /// Answers to a path instead of the normal one.
    pub(crate) refuses: Vec<(&'static str, u16, &'static str)>,
    /// Paths that are answered only after 20 s.
    pub(crate) hangs: Vec<&'static str>,
    /// Whether /generate hangs while the profiler runs.
    pub(crate) hangs_while_profiling: bool,
    /// The server stops listening when it gets this number of POSTs to this path.
    pub(crate) dies: Option<(&'static str, u32)>,
    pub(crate) key: Option<&'static str>,
    /// Members that are added to the settings.
    pub(crate) settings: Value,
    /// The folder of vLLM's profiler.
    pub(crate) folder: PathBuf,
    /// Whether vLLM runs in its development mode, in which it tells its settings.
    pub(crate) tells_settings: bool,
    /// Where a folder on the server's machine really is: the server's path and ours.
    pub(crate) mounted: Option<(String, PathBuf)>,
    /// The allowed origin.
    pub(crate) cors: Option<&'static str>,
}

impl Behaviour {
    pub(crate) fn new(kind: Kind, folder: &Path) -> Self {
        Self {
            kind,
            writes: Writes::Trace,
            refuses: Vec::new(),
            hangs: Vec::new(),
            hangs_while_profiling: false,
            dies: None,
            key: None,
            settings: json!({}),
            folder: folder.to_owned(),
            tells_settings: true,
            mounted: None,
            cors: (kind == Kind::Sglang).then_some("*"),
        }
    }
}

/// A running server.
pub(crate) struct Fake {
    pub(crate) url: String,
    pub(crate) requests: Arc<Mutex<Vec<Request>>>,
    pub(crate) is_profiling: Arc<AtomicBool>,
    is_dead: Arc<AtomicBool>,
}

struct State {
    behaviour: Behaviour,
    requests: Arc<Mutex<Vec<Request>>>,
    is_profiling: Arc<AtomicBool>,
    is_dead: Arc<AtomicBool>,
    start_body: Mutex<Value>,
    posts: AtomicU32,
    stops: AtomicU32,
}

impl Fake {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State {
            behaviour,
            requests: Arc::default(),
            is_profiling: Arc::default(),
            is_dead: Arc::default(),
            start_body: Mutex::default(),
            posts: AtomicU32::new(0),
            stops: AtomicU32::new(0),
        });
        let fake = Self {
            url,
            requests: Arc::clone(&state.requests),
            is_profiling: Arc::clone(&state.is_profiling),
            is_dead: Arc::clone(&state.is_dead),
        };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if state.is_dead.load(Ordering::SeqCst) {
                    return;
                }
                let state = Arc::clone(&state);
                std::thread::spawn(move || state.serve(stream.unwrap()));
            }
        });
        fake
    }

    /// The requests so far, without those that recognise the server.
    pub(crate) fn exchange(&self) -> Vec<Request> {
        let all = self.requests.lock().unwrap().clone();
        // The list of endpoints is the last thing that recognition asks for.
        let start = all.iter().rposition(|request| request.path == "/openapi.json").map_or(0, |at| at + 1);
        all[start..].to_vec()
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|request| request.path.clone()).collect()
    }

    pub(crate) fn count(&self, path: &str) -> usize {
        self.paths().iter().filter(|other| *other == path).count()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.is_dead.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
    }
}

impl State {
    fn serve(&self, stream: TcpStream) {
        let Some(request) = read_request(&stream) else { return };
        let is_authorized = self.behaviour.key.is_none_or(|key| request.authorization == Some(format!("Bearer {key}")));
        self.requests.lock().unwrap().push(request.clone());
        if let Some((path, number)) = self.behaviour.dies
            && path == request.path
            && self.posts.fetch_add(1, Ordering::SeqCst) + 1 == number
        {
            self.is_dead.store(true, Ordering::SeqCst);
        }
        if self.is_dead.load(Ordering::SeqCst) {
            // Closes the connection without an answer, and wakes the listener so that it closes, too.
            let _ = TcpStream::connect(stream.local_addr().unwrap());
            return;
        }
        let hangs_now = self.behaviour.hangs_while_profiling && self.is_profiling.load(Ordering::SeqCst);
        if self.behaviour.hangs.contains(&request.path.as_str()) || (hangs_now && request.path == "/generate") {
            std::thread::sleep(Duration::from_secs(20));
        }
        let (status, body) =
            if is_authorized { self.answer(&request) } else { (401, json!({"error": "Unauthorized"}).to_string()) };
        let cors =
            self.behaviour.cors.map(|origin| format!("access-control-allow-origin: {origin}\r\n")).unwrap_or_default();
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{cors}connection: close\r\n\r\n", body.len());
        let _ = (&stream).write_all(format!("{head}{body}").as_bytes());
    }

    fn answer(&self, request: &Request) -> (u16, String) {
        let path = request.path.as_str();
        if let Some((_, status, body)) = self.behaviour.refuses.iter().find(|(refused, ..)| *refused == path) {
            return (*status, (*body).to_owned());
        }
        let json = |value: Value| (200, value.to_string());
        match (path, self.behaviour.kind) {
            ("/v1/models", kind) => json(models(kind)),
            ("/server_info", Kind::Sglang) => json(self.settings(json!({
                "model_path": "served-model", "tp_size": 1, "pp_size": 1, "disable_cuda_graph": false, "api_key": "secret-1",
                "tokenizer_path": "served-model", "version": "0.5.23", "frontend": "python", "internal_states": [{}],
                "launch_command": "python3 -m sglang.launch_server --model-path served-model --api-key secret-2",
            }))),
            ("/server_info?config_format=json", Kind::Vllm | Kind::OldVllm) if self.behaviour.tells_settings => {
                json(self.settings(json!({
                    "vllm_config": {
                        "model_config": {"enforce_eager": false},
                        "parallel_config": {"tensor_parallel_size": 1, "pipeline_parallel_size": 1},
                        "profiler_config": {"torch_profiler_dir": self.behaviour.folder, "torch_profiler_with_stack": true},
                    },
                })))
            }
            ("/version", Kind::Vllm) => json(json!({"version": "0.33.0"})),
            ("/version", Kind::OldVllm) => json(json!({"version": "0.12.0"})),
            ("/version", Kind::Trtllm) => json(json!({"version": "1.3.0"})),
            ("/openapi.json", kind) => json(endpoints(kind)),
            ("/generate", Kind::Sglang) => json(json!({"text": "x", "meta_info": {"completion_tokens": tokens(&request.body)}})),
            ("/v1/chat/completions" | "/v1/completions", kind) if kind != Kind::Sglang => {
                json(json!({"choices": [], "usage": {"completion_tokens": tokens(&request.body)}}))
            }
            ("/start_profile", kind) if kind != Kind::Unknown => self.start_profiler(request),
            ("/stop_profile", kind) if kind != Kind::Unknown => self.stop_profiler(),
            _ => (404, json!({"detail": "Not Found"}).to_string()),
        }
    }

    fn settings(&self, mut settings: Value) -> Value {
        for (key, value) in self.behaviour.settings.as_object().unwrap() {
            settings[key] = value.clone();
        }
        settings
    }

    fn start_profiler(&self, request: &Request) -> (u16, String) {
        if self.is_profiling.swap(true, Ordering::SeqCst) {
            return match self.behaviour.kind {
                Kind::Vllm => {
                    let message =
                        "A profiling session is already active. Call /stop_profile before starting another session.";
                    let error = json!({"message": message, "type": "Conflict", "param": null, "code": 409});
                    (409, json!({"error": error}).to_string())
                }
                _ => (500, "Internal Server Error".to_owned()),
            };
        }
        *self.start_body.lock().unwrap() = request.body.clone();
        match self.behaviour.kind {
            Kind::Vllm | Kind::OldVllm => (200, String::new()),
            _ => (200, "Start profiling.\n".to_owned()),
        }
    }

    fn stop_profiler(&self) -> (u16, String) {
        let is_vllm = matches!(self.behaviour.kind, Kind::Vllm | Kind::OldVllm);
        if !self.is_profiling.swap(false, Ordering::SeqCst) {
            return if is_vllm { (200, String::new()) } else { (500, "Internal Server Error".to_owned()) };
        }
        let body = self.start_body.lock().unwrap().clone();
        let number = self.stops.fetch_add(1, Ordering::SeqCst);
        let mut folder = body["output_dir"].as_str().map_or_else(|| self.behaviour.folder.clone(), PathBuf::from);
        if let Some((there, here)) = &self.behaviour.mounted {
            folder = here.join(folder.strip_prefix(there).unwrap());
        }
        let word = ["profile_id", "profile_prefix"].iter().find_map(|key| body[*key].as_str()).unwrap_or("trace");
        let ranks = if let Writes::Ranks(ranks) = self.behaviour.writes { ranks } else { 1 };
        for rank in 0..ranks {
            let name = match self.behaviour.writes {
                Writes::FrontEnd => format!("host_{number}.async_llm.pt.trace.json.gz"),
                _ => format!("{word}-{number}-TP-{rank}.trace.json.gz"),
            };
            write_later(folder.join(name), self.behaviour.writes, rank);
        }
        (200, if is_vllm { String::new() } else { "Stop profiling. This will take some time.\n".to_owned() })
    }
}

fn models(kind: Kind) -> Value {
    let owner = match kind {
        Kind::Sglang => "sglang",
        Kind::Vllm | Kind::OldVllm => "vllm",
        Kind::Trtllm => "tensorrt_llm",
        Kind::Tokenspeed => "tokenspeed",
        Kind::Unknown => "organization",
    };
    json!({"object": "list", "data": [{"id": "served-model", "object": "model", "owned_by": owner, "root": "served-model"}]})
}

fn endpoints(kind: Kind) -> Value {
    let post = match kind {
        Kind::Unknown => return json!({"paths": {}}),
        Kind::OldVllm => json!({"summary": "Start Profile"}),
        _ => json!({"requestBody": {}}),
    };
    json!({"paths": {"/start_profile": {"post": post}, "/stop_profile": {"post": {}}}})
}

fn tokens(body: &Value) -> &Value {
    let sampling = &body["sampling_params"]["max_new_tokens"];
    if sampling.is_null() { &body["max_tokens"] } else { sampling }
}

/// Writes a trace as servers do: a while after the answer, and in pieces.
fn write_later(path: PathBuf, writes: Writes, rank: u32) {
    let trace = match writes {
        Writes::Nothing => return,
        Writes::FrontEnd => gzip(&trace("cpu_op")),
        Writes::Half | Writes::Trace | Writes::Ranks(_) => gzip(&trace("kernel")),
    };
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100 + 100 * u64::from(rank)));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let (start, end) = trace.split_at(trace.len() / 2);
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(start).unwrap();
        std::thread::sleep(Duration::from_millis(150));
        if writes != Writes::Half {
            file.write_all(end).unwrap();
        }
    });
}

/// A real trace if there is one beside the project, else a generated one.
fn trace(category: &str) -> Vec<u8> {
    let real = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../shared/traces/torch/sglang_qwen3_8b_mi300_decode.trace.json.gz");
    match std::fs::File::open(real) {
        Ok(file) if category == "kernel" => {
            let mut bytes = Vec::new();
            flate2::read::MultiGzDecoder::new(file).read_to_end(&mut bytes).unwrap();
            bytes
        }
        _ => {
            let event = json!({"ph": "X", "cat": category, "name": "k", "ts": 1.0, "dur": 2.0, "pid": 0, "tid": 7});
            let text = json!({"schemaVersion": 1, "traceEvents": vec![event; 2000]}).to_string();
            text.replace("\"cat\":", "\"cat\": ").into_bytes()
        }
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut authorization) = (0, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap(),
            "authorization" => authorization = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    Some(Request { method, path, body, authorization })
}

/// A folder that is deleted at the end of the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gpuprism-capture-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// All files, by path relative to the folder.
    pub(crate) fn tree(&self, below: &str) -> Vec<String> {
        let root = self.0.join(below);
        let (mut files, mut folders) = (Vec::new(), vec![root.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.push(path.strip_prefix(&root).unwrap().display().to_string());
                }
            }
        }
        files.sort();
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The options of the recorded exchange, with short waits: 2 steps, 3 warm-up steps, prompts of 6 words, 32 tokens.
pub(crate) fn options(fake: &Fake, out: PathBuf) -> Options {
    options_for(&fake.url, out)
}

/// The same for the server at this URL.
pub(crate) fn options_for(url: &str, out: PathBuf) -> Options {
    let milliseconds = Duration::from_millis;
    Options {
        steps: 2,
        probe: ProbeSize {
            warmup_steps: 3,
            requests: 1,
            prefill_input_words: 6,
            prefill_output_tokens: 1,
            decode_input_words: 1,
            decode_output_tokens: Some(32),
        },
        pacing: Pacing {
            poll: milliseconds(30),
            stable: milliseconds(300),
            ranks: milliseconds(600),
            elsewhere: milliseconds(500),
            start_delay: Some(milliseconds(20)),
            wait: Some(milliseconds(1500)),
            load_lead: milliseconds(200),
            probe_request: Duration::from_secs(10),
        },
        ..Options::new(url, out)
    }
}

pub(crate) fn capture(options: &Options) -> Result<Outcome, Error> {
    gpuprism_capture::capture(options, &mut |_: Progress| {}, &Cancel::default())
}

pub(crate) fn resume(options: &Options) -> Result<Outcome, Error> {
    gpuprism_capture::resume(options, &mut |_: Progress| {}, &Cancel::default())
}
