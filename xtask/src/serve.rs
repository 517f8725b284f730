//! A static file server for the page on http://127.0.0.1, reachable only from this machine.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::wasm::Purpose;
use crate::{offline, page, project};

/// Builds the page and serves it until the process is stopped.
pub fn serve(port: u16) -> Result<()> {
    // Bound before the build, so that a port in use is reported at once and not after minutes.
    let server = Server::bind(port)?;
    println!("building the page; the first time takes some minutes");
    page::build(None, Purpose::Publish)?;
    println!("gpuprism is ready on {} (stop it with Ctrl-C)", server.url()?);
    server.run(&project::dist())
}

pub struct Server {
    listener: TcpListener,
}

impl Server {
    /// Port 0 lets the system choose a port.
    pub fn bind(port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| {
            format!(
                "cannot listen on port {port} (choose another one with `cargo xtask serve --port {}`)",
                port.checked_add(1).unwrap_or(8080)
            )
        })?;
        Ok(Self { listener })
    }

    pub fn url(&self) -> Result<String> {
        Ok(format!("http://{}/", self.listener.local_addr()?))
    }

    /// Serves connections until the process ends, each in its own thread.
    pub fn run(&self, directory: &Path) -> Result<()> {
        let directory = directory.canonicalize().with_context(|| format!("cannot serve {}", directory.display()))?;
        for connection in self.listener.incoming() {
            let Ok(connection) = connection else { continue };
            let directory = directory.clone();
            std::thread::spawn(move || {
                // Errors of one connection, such as an early disconnect, do not matter.
                let _ = answer(connection, &directory);
            });
        }
        Err(anyhow!("the server stopped listening"))
    }
}

fn answer(mut connection: TcpStream, directory: &Path) -> io::Result<()> {
    connection.set_read_timeout(Some(Duration::from_secs(30)))?;
    let request = read_request(&connection)?;
    let reply = reply_to(&request, directory);
    write!(
        connection,
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-cache\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        reply.status, reply.content_type, reply.length
    )?;
    if let Some(mut file) = reply.body {
        io::copy(&mut file, &mut connection)?;
    }
    connection.flush()
}

/// Returns the request line. The headers are read and ignored.
fn read_request(connection: &TcpStream) -> io::Result<String> {
    const MAX_REQUEST_BYTES: u64 = 64 * 1024;
    let mut lines = BufReader::new(connection.take(MAX_REQUEST_BYTES)).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    for header in lines {
        if header?.is_empty() {
            break;
        }
    }
    Ok(request)
}

struct Reply {
    status: &'static str,
    content_type: &'static str,
    length: u64,
    body: Option<File>,
}

impl Reply {
    fn empty(status: &'static str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", length: 0, body: None }
    }
}

fn reply_to(request: &str, directory: &Path) -> Reply {
    let mut words = request.split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Reply::empty("400 Bad Request");
    };
    if method != "GET" && method != "HEAD" {
        return Reply::empty("405 Method Not Allowed");
    }
    // Without the service worker, browsers load the files of the current build and not those of a cached one.
    if target.ends_with(offline::SERVICE_WORKER) {
        return Reply::empty("404 Not Found");
    }
    let Some((path, file, length)) = open(target, directory) else {
        return Reply::empty("404 Not Found");
    };
    Reply { status: "200 OK", content_type: content_type(&path), length, body: (method == "GET").then_some(file) }
}

/// Opens the file of a request target, if it is inside the directory.
fn open(target: &str, directory: &Path) -> Option<(PathBuf, File, u64)> {
    let path = target.split(['?', '#']).next()?.strip_prefix('/')?;
    let wanted = directory.join(percent_decoded(path)?.trim_start_matches('/'));
    let wanted = if wanted.is_dir() { wanted.join("index.html") } else { wanted };
    // Resolves `..` and links, so that the check is safe.
    let real = wanted.canonicalize().ok()?;
    if !real.starts_with(directory) {
        return None;
    }
    let file = File::open(&real).ok()?;
    let metadata = file.metadata().ok()?;
    metadata.is_file().then_some((real, file, metadata.len()))
}

fn percent_decoded(path: &str) -> Option<String> {
    let mut parts = path.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Files `.gz` are sent without Content-Encoding, because the page unpacks them.
fn content_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("gz") => "application/gzip",
        Some("txt" | "md") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::{Server, reply_to};
    use std::fs;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::path::PathBuf;

    /// A directory to serve, next to a file that must not be served.
    fn site(name: &str) -> PathBuf {
        let base = std::env::temp_dir().join(format!("xtask-serve-{name}-{}", std::process::id()));
        let site = base.join("site");
        fs::create_dir_all(site.join("pkg")).unwrap();
        fs::write(base.join("secret.txt"), "secret").unwrap();
        fs::write(site.join("index.html"), "<p>page").unwrap();
        fs::write(site.join("a b.css"), "p {}").unwrap();
        fs::write(site.join("pkg/m.wasm"), [0, 1, 2]).unwrap();
        fs::write(site.join("example.json.gz"), [0x1f, 0x8b]).unwrap();
        site.canonicalize().unwrap()
    }

    #[test]
    fn files_are_served_with_their_types() {
        let site = site("types");
        for (target, content_type) in [
            ("/", "text/html; charset=utf-8"),
            ("/index.html?x=1", "text/html; charset=utf-8"),
            ("/a%20b.css", "text/css; charset=utf-8"),
            ("/pkg/m.wasm", "application/wasm"),
            ("/example.json.gz", "application/gzip"),
        ] {
            let reply = reply_to(&format!("GET {target} HTTP/1.1"), &site);
            assert_eq!(reply.status, "200 OK", "{target}");
            assert_eq!(reply.content_type, content_type, "{target}");
            assert!(reply.body.is_some(), "{target}");
        }
    }

    #[test]
    fn nothing_outside_the_directory_is_served() {
        let site = site("outside");
        #[cfg(unix)]
        std::os::unix::fs::symlink(site.join("../secret.txt"), site.join("link.txt")).unwrap();
        for target in [
            "/../secret.txt",
            "/%2e%2e/secret.txt",
            "/pkg/..%2f..%2fsecret.txt",
            "//etc/passwd",
            "/%2fetc/passwd",
            "/link.txt",
            "/pkg",
            "/missing",
            "/%",
            "/%é",
            "/%00",
            "index.html",
        ] {
            let reply = reply_to(&format!("GET {target} HTTP/1.1"), &site);
            assert_eq!(reply.status, "404 Not Found", "{target}");
            assert!(reply.body.is_none(), "{target}");
        }
        assert_eq!(reply_to("POST / HTTP/1.1", &site).status, "405 Method Not Allowed");
        assert_eq!(reply_to("", &site).status, "400 Bad Request");
    }

    #[test]
    fn head_requests_return_the_length_without_a_body() {
        let site = site("head");
        let server = Server::bind(0).unwrap();
        let address = server.listener.local_addr().unwrap();
        std::thread::spawn(move || server.run(&site));
        let send = |request: &str| {
            let mut connection = TcpStream::connect(address).unwrap();
            write!(connection, "{request} / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut reply = String::new();
            connection.read_to_string(&mut reply).unwrap();
            reply
        };
        assert!(send("GET").ends_with("\r\n\r\n<p>page"));
        let head = send("HEAD");
        assert!(head.contains("\r\nContent-Length: 7\r\n"), "{head}");
        assert!(head.ends_with("\r\n\r\n"), "{head}");
    }
}
