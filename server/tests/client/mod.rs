//! A server in a thread, and a client that sends what real clients do not.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests; each uses a part of it"
)]

use gpuprism_server::api::{Analyze, Answer, Config, Job, Limits};
use gpuprism_server::{Stop, api};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A running server; it stops and ends when it is dropped.
pub struct Running {
    pub address: SocketAddr,
    spool: tempfile::TempDir,
    stop: Option<tokio::sync::watch::Sender<bool>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

pub fn limits() -> Limits {
    Limits { grace: Duration::from_secs(5), ..Limits::default() }
}

/// Starts a server with this key, these limits and this analysis.
pub fn start(api_key: Option<&str>, limits: Limits, analyze: Box<Analyze>) -> Running {
    let spool = tempfile::tempdir().unwrap();
    let config = Config {
        service: "test",
        version: "1.2.3",
        api_key: api_key.map(str::to_owned),
        spool_parent: spool.path().to_owned(),
        limits,
    };
    let (tell, told) = mpsc::channel();
    let (sender, stop) = Stop::by_sender();
    let thread = std::thread::spawn(move || {
        gpuprism_server::run(Duration::from_secs(5), async {
            let server = api::bind(("127.0.0.1", 0), config, analyze).await?;
            tell.send(server.address()?).unwrap();
            server.run(stop).await
        })
        .unwrap();
    });
    Running { address: told.recv().unwrap(), spool, stop: Some(sender), thread: Some(thread) }
}

/// A public server whose analysis says what it got: file name, size, phase map, limit and form of the answer.
pub fn start_echo() -> Running {
    start(None, limits(), Box::new(echo))
}

pub fn echo(job: &Job) -> Result<Vec<u8>, api::Failure> {
    let name = job.trace.file_name().unwrap().to_string_lossy();
    let bytes = std::fs::metadata(&job.trace).unwrap().len();
    let phase_map = job.phase_map.as_ref().map(|path| std::fs::read_to_string(path).unwrap());
    let form = match job.answer {
        Answer::Json { with_markdown } => format!("json {with_markdown}"),
        Answer::Artifacts => "artifacts".to_owned(),
    };
    Ok(format!("{name}|{bytes}|{phase_map:?}|{}|{form}", job.kernel_limit).into_bytes())
}

impl Running {
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    pub fn get(&self, path: &str, headers: &str) -> Reply {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n"), &[])
    }

    pub fn post(&self, path: &str, headers: &str, form: &Form) -> Reply {
        let body = form.bytes();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {}\r\nContent-Length: {}\r\n{headers}\r\n",
            Form::TYPE,
            body.len()
        );
        self.send(&head, &body)
    }

    pub fn send(&self, head: &str, body: &[u8]) -> Reply {
        let mut stream = self.connect();
        stream.write_all(head.as_bytes()).unwrap();
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(body);
        Reply::read(stream)
    }

    /// Bytes and files below the spool, without the lock.
    pub fn spooled(&self) -> (u64, usize) {
        let (mut bytes, mut files) = (0, 0);
        let mut folders = vec![self.spool.path().to_owned()];
        while let Some(folder) = folders.pop() {
            // A folder may be removed meanwhile.
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() {
                    folders.push(entry.path());
                    files += usize::from(entry.file_name().to_string_lossy().starts_with("upload-"));
                } else if entry.file_name() != "lock" {
                    bytes += metadata.len();
                    files += 1;
                }
            }
        }
        (bytes, files)
    }

    /// Waits until the spool is empty; fails if that takes longer than requests may take.
    pub fn assert_spool_becomes_empty(&self) {
        let start = Instant::now();
        while self.spooled().1 > 0 {
            assert!(start.elapsed() < Duration::from_secs(20), "the spool still has {:?}", self.spooled());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn spool_parent(&self) -> &Path {
        self.spool.path()
    }

    /// Tells the server to stop.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until the server has ended.
    pub fn join(&mut self) {
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take()
            && !std::thread::panicking()
        {
            thread.join().unwrap();
            assert_eq!(std::fs::read_dir(self.spool.path()).unwrap().count(), 0, "the spool is gone");
        }
    }
}

/// What a server answered.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    /// Reads until the server closes the connection.
    pub fn read(stream: TcpStream) -> Self {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                break;
            }
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let mut body = Vec::new();
        let _ = reader.read_to_end(&mut body);
        Self { status, head: head.to_lowercase(), body }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The sentence of an error.
    pub fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap().to_owned()
    }
}

/// A `multipart/form-data` body.
#[derive(Default)]
pub struct Form(Vec<u8>);

impl Form {
    pub const TYPE: &str = "multipart/form-data; boundary=XyZ";

    pub fn of(name: &str, contents: impl AsRef<[u8]>) -> Self {
        Self::default().file("file", name, contents)
    }

    pub fn file(mut self, field: &str, name: &str, contents: impl AsRef<[u8]>) -> Self {
        let head = format!("--XyZ\r\nContent-Disposition: form-data; name=\"{field}\"; filename=\"{name}\"\r\n\r\n");
        self.0.extend(head.as_bytes());
        self.0.extend(contents.as_ref());
        self.0.extend(b"\r\n");
        self
    }

    pub fn text(mut self, field: &str, text: &str) -> Self {
        let part = format!("--XyZ\r\nContent-Disposition: form-data; name=\"{field}\"\r\n\r\n{text}\r\n");
        self.0.extend(part.as_bytes());
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        [self.0.as_slice(), b"--XyZ--\r\n"].concat()
    }
}
