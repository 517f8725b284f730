//! The page and local files for a browser on this machine.
//!
//! | address | answer |
//! |---|---|
//! | `/TOKEN/` and names below it | the page |
//! | `/TOKEN/api/files` | the list of files |
//! | `/TOKEN/api/file/N` | the file with this number, also parts of it (`Range`) |
//! | `/TOKEN/api/capture` and below it | captures from the server that was named, if one was |
//!
//! Who does not know the random token gets nothing. Pages of other sites cannot use the server either: `Host` and `Origin` must be those
//! of the server, so that neither a foreign name for 127.0.0.1 nor a foreign page reaches it. What starts or ends a capture is a POST,
//! which must have an `Origin`: browsers send it with every POST.

mod capture;
mod files;
mod page;

pub use page::Page;

use crate::guard::{guard, host};
use crate::listen::{Server, Stop};
use crate::problem::Problem;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use capture::{Captures, Start};
use files::Files;
use gpuprism_capture::Options;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tower_http::services::ServeFile;

const FILE_LIST: &str = "api/files";
const FILE: &str = "api/file/";
const CAPTURE: &str = "api/capture";
const GRACE: Duration = Duration::from_secs(1);
/// The page takes its answers as they come; a tab that stops reading for this time is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// The body of a POST has a few words.
const MAX_BODY_BYTES: usize = 4096;

/// A bound server of the page.
pub struct View {
    server: Server,
    captures: Option<Arc<Captures>>,
    /// The address of the page, with its token.
    pub address: String,
}

impl View {
    /// Answers requests until `stop`. Ends a running capture, with the profiler of its server stopped, before it returns.
    ///
    /// # Errors
    /// As [`Server::run`].
    pub async fn run(self, stop: Stop) -> io::Result<()> {
        let result = self.server.run(stop).await;
        if let Some(captures) = self.captures {
            captures.end().await;
        }
        result
    }
}

/// What all requests share.
struct Shared {
    page: Page,
    files: Arc<Files>,
    captures: Option<Arc<Captures>>,
    token: String,
    /// The values of `Host` that name this server.
    hosts: [String; 2],
}

/// Binds the page, these files and at most one folder to a port of this machine; port 0 lets the system choose one. With `capture`,
/// the page can capture traces from that server into folders below `capture.out`.
///
/// # Errors
/// A path cannot be read, there are two folders, the port cannot be bound, or the system has no random numbers.
pub async fn bind(port: u16, page: Page, paths: &[PathBuf], capture: Option<Options>) -> io::Result<View> {
    let files = Arc::new(Files::new(paths)?);
    let captures = capture.map(Captures::new).transpose()?.map(Arc::new);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let port = listener.local_addr()?.port();
    let token = random_token()?;
    let address = format!("http://127.0.0.1:{port}/{token}/");
    let hosts = ["127.0.0.1", "localhost"].map(|host| format!("{host}:{port}"));
    let shared = Arc::new(Shared { page, files, captures: captures.clone(), token, hosts });
    let router = Router::new().fallback(any(answer)).with_state(shared).layer(from_fn(guard));
    Ok(View { server: Server::new(listener, router, WRITE_TIMEOUT, GRACE), captures, address })
}

/// Opens an address in the person's browser, without waiting for it.
///
/// # Errors
/// There is no program that opens addresses.
pub fn open_browser(address: &str) -> io::Result<()> {
    open::that_detached(address)
}

/// 128 random bits.
fn random_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.checked_answer(request).await.unwrap_or_else(Problem::into_response)
}

impl Shared {
    async fn checked_answer(self: &Arc<Self>, request: Request) -> Result<Response, Problem> {
        if !self.is_for_this_server(&request) {
            let detail = "The request is for another host or from another site.";
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        let path = request.uri().path().to_owned();
        let name = self.name(&path).ok_or_else(not_found)?;
        if let Some(action) = name.strip_prefix(CAPTURE) {
            return self.capture(action.trim_start_matches('/'), request).await;
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return Err(method_not_allowed());
        }
        if name == FILE_LIST {
            return self.list().await;
        }
        match name.strip_prefix(FILE) {
            Some(id) => self.file(id.parse().map_err(|_| not_found())?, request).await,
            None => self.page_file(name),
        }
    }

    /// A browser sends the name that the address has, and the origin of the page that asks, if that is another one.
    fn is_for_this_server(&self, request: &Request) -> bool {
        let headers = request.headers();
        let is_ours = |host: &[u8]| self.hosts.iter().any(|ours| host == ours.as_bytes());
        let named = host(headers, request.uri()).ok().flatten();
        let is_our_origin = |origin: &HeaderValue| {
            let host = origin.as_bytes().strip_prefix(b"http://");
            self.hosts.iter().any(|ours| host == Some(ours.as_bytes()))
        };
        named.is_some_and(is_ours) && headers.get_all(header::ORIGIN).iter().all(is_our_origin)
    }

    /// The part of a path after the token.
    fn name<'a>(&self, path: &'a str) -> Option<&'a str> {
        let (token, name) = path.strip_prefix('/')?.split_once('/')?;
        bool::from(token.as_bytes().ct_eq(self.token.as_bytes())).then_some(name)
    }

    async fn list(self: &Arc<Self>) -> Result<Response, Problem> {
        let shared = Arc::clone(self);
        let list = tokio::task::spawn_blocking(move || shared.files.list()).await;
        let mut list = list.map_err(|_| Problem::internal("The files cannot be listed."))?;
        list.can_capture = self.captures.is_some();
        Ok(axum::Json(list).into_response())
    }

    /// The state of captures, or a change of it. The answer to a change is the new state.
    async fn capture(&self, action: &str, request: Request) -> Result<Response, Problem> {
        let captures = self.captures.as_ref().ok_or_else(not_found)?;
        match (request.method(), action) {
            (&Method::GET, "server") => return Ok(axum::Json(captures.check_server().await?).into_response()),
            (&Method::GET, "") => {}
            (&Method::POST, "start" | "cancel" | "resume") if !request.headers().contains_key(header::ORIGIN) => {
                return Err(Problem::new(StatusCode::FORBIDDEN, "The request does not come from the page."));
            }
            (&Method::POST, "start") => captures.start(&start(request).await?, &self.files)?,
            (&Method::POST, "cancel") => captures.cancel()?,
            (&Method::POST, "resume") => captures.resume(&self.files)?,
            (_, "" | "server" | "start" | "cancel" | "resume") => return Err(method_not_allowed()),
            _ => return Err(not_found()),
        }
        Ok(axum::Json(captures.status()).into_response())
    }

    /// The file, streamed from the disk. It is data, whatever its name says: the page of this origin could read all other files.
    async fn file(&self, id: usize, request: Request) -> Result<Response, Problem> {
        let path = self.files.path(id).ok_or_else(not_found)?;
        let response = ServeFile::new(path).try_call(request).await.map_err(|_| not_found())?;
        let mut response = response.map(Body::new);
        let data = HeaderValue::from_static("application/octet-stream");
        response.headers_mut().insert(header::CONTENT_TYPE, data);
        Ok(response)
    }

    fn page_file(&self, name: &str) -> Result<Response, Problem> {
        let mut asset = self.page.asset(name).ok_or_else(not_found)?;
        if name.is_empty() || name == "index.html" {
            asset = page::with_file_list(asset, FILE_LIST);
        }
        Ok(([(header::CONTENT_TYPE, asset.content_type)], asset.bytes).into_response())
    }
}

async fn start(request: Request) -> Result<Start, Problem> {
    let body = axum::body::to_bytes(request.into_body(), MAX_BODY_BYTES).await;
    let body = body.map_err(|_| Problem::bad_request("The request is too large or was cut off."))?;
    serde_json::from_slice(&body)
        .map_err(|error| Problem::bad_request(format!("Give the load and the steps: {error}.")))
}

fn method_not_allowed() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "This address does not take that method.")
}

fn not_found() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "There is nothing here. Open the address that gpuprism printed, with its token.",
    )
}
