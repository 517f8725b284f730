//! The form of a request for an analysis: `multipart/form-data` with the trace and its options, in any order.
//!
//! The trace is written to the spool part by part. In memory are at most a few parts of the body, because the parser gets one at a time
//! and too long headers of a field are refused.

use super::App;
use crate::private;
use crate::problem::Problem;
use crate::spool::Folder;
use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use multer::{Field, Multipart};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use tokio::time::{Sleep, sleep};

/// The ends of the names of files that the API accepts, each also with `.gz`.
pub const SUFFIXES: [&str; 3] = [".sqlite", ".db", ".json"];
/// The name of a file that has none, as in nsys-llm-explainer.
const DEFAULT_NAME: &str = "upload.sqlite";
const MAX_NAME_BYTES: usize = 120;
const MAX_PHASE_MAP_BYTES: u64 = 1 << 20;
/// The most bytes of a form besides the trace: a phase map, and the headers of fields.
const MAX_REST_BYTES: u64 = MAX_PHASE_MAP_BYTES + (1 << 20);
const MAX_TEXT_BYTES: u64 = 64;
/// More bytes than this around the contents of fields are no form.
const MAX_UNPARSED_BYTES: usize = 1 << 20;
const DEFAULT_KERNEL_LIMIT: usize = 30;
const MAX_KERNEL_LIMIT: usize = 500;

/// A received form.
pub(super) struct Upload {
    pub(super) folder: Folder,
    pub(super) trace: PathBuf,
    pub(super) phase_map: Option<PathBuf>,
    pub(super) kernel_limit: usize,
    pub(super) with_markdown: bool,
}

/// Receives the form in a body. If it is refused, the rest of the body is read for a while, so that the client gets the answer.
pub(super) async fn receive(app: &App, headers: &HeaderMap, body: Body) -> Result<Upload, Problem> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let boundary = match multer::parse_boundary(content_type) {
        Ok(boundary) => boundary,
        Err(_) => {
            discard(body).await;
            let detail = "The request is not multipart/form-data: send the trace as the field `file` of a form.";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
        }
    };
    let limit = app.config.limits.upload_bytes;
    if content_length(headers).is_some_and(|length| length > limit.saturating_add(MAX_REST_BYTES)) {
        discard(body).await;
        return Err(too_large(limit));
    }
    let unparsed = Arc::new(AtomicUsize::new(0));
    let parts = SharedParts::new(Parts::new(body, app.config.limits.pause, Arc::clone(&unparsed)));
    let mut form = Form { app, multipart: Multipart::new(parts.clone(), boundary), parts, unparsed };
    let result = form.read().await;
    if result.is_err() {
        form.discard().await;
    }
    result
}

/// How long and how much of a body is read that nobody needs: a client that is still sending cannot receive the answer.
const DISCARD_TIME: Duration = Duration::from_secs(2);
const DISCARD_PARTS: usize = 2000;

/// Reads a body that nobody needs, for a while.
pub(super) async fn discard(body: Body) {
    let mut parts = body.into_data_stream().take(DISCARD_PARTS);
    let all = async { while let Some(Ok(_)) = parts.next().await {} };
    let _ = tokio::time::timeout(DISCARD_TIME, all).await;
}

/// What a full spool answers.
pub(super) fn spool_full() -> Problem {
    Problem::busy("The server has no room for the upload now; try again later.")
}

struct Form<'a> {
    app: &'a App,
    multipart: Multipart<'static>,
    /// The body, which may go on after the end of the form.
    parts: SharedParts,
    /// Bytes that the parser got and that are not yet part of a field.
    unparsed: Arc<AtomicUsize>,
}

impl Form<'_> {
    async fn read(&mut self) -> Result<Upload, Problem> {
        let mut folder = self.app.spool.folder().map_err(|error| storage(&error))?;
        let (mut trace, mut phase_map) = (None, None);
        let (mut kernel_limit, mut with_markdown) = (DEFAULT_KERNEL_LIMIT, true);
        while let Some(mut field) = self.next_field().await? {
            match field.name().unwrap_or_default() {
                "file" => {
                    if trace.is_some() {
                        return Err(Problem::bad_request(
                            "The form has more than one file: send one trace per request.",
                        ));
                    }
                    let name = trace_name(field.file_name())?;
                    trace =
                        Some(self.store(&mut field, &mut folder, &name, self.app.config.limits.upload_bytes).await?);
                }
                "phase_map" => {
                    phase_map = Some(self.store(&mut field, &mut folder, "phase map", MAX_PHASE_MAP_BYTES).await?);
                }
                "kernel_limit" => kernel_limit = parsed_limit(&self.text(&mut field).await?)?,
                "include_markdown" => with_markdown = parsed_bool(&self.text(&mut field).await?)?,
                _ => while self.chunk(&mut field).await?.is_some() {},
            }
        }
        self.rest().await?;
        let Some(trace) = trace else {
            let detail = "The form has no trace: send it as the field `file`.";
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
        };
        Ok(Upload { folder, trace, phase_map, kernel_limit, with_markdown })
    }

    async fn next_field(&mut self) -> Result<Option<Field<'static>>, Problem> {
        let field = self.multipart.next_field().await.map_err(|error| broken(&error))?;
        self.unparsed.store(0, Ordering::Relaxed);
        Ok(field)
    }

    async fn chunk(&self, field: &mut Field<'static>) -> Result<Option<Bytes>, Problem> {
        let chunk = field.chunk().await.map_err(|error| broken(&error))?;
        self.unparsed.store(0, Ordering::Relaxed);
        Ok(chunk)
    }

    /// Reads what follows the form. Left unread, it would hide that the client leaves.
    async fn rest(&mut self) -> Result<(), Problem> {
        while let Some(part) = self.parts.next().await {
            part.map_err(|cut| cut_short(&cut))?;
        }
        Ok(())
    }

    /// Writes a field to a file of the spool.
    async fn store(
        &self,
        field: &mut Field<'static>,
        folder: &mut Folder,
        name: &str,
        max_bytes: u64,
    ) -> Result<PathBuf, Problem> {
        let path = folder.path(name);
        let mut file = File::from_std(private::create_file(&path).map_err(|error| storage(&error))?);
        let mut bytes = 0;
        while let Some(chunk) = self.chunk(field).await? {
            bytes += chunk.len() as u64;
            if bytes > max_bytes {
                return Err(too_large(max_bytes));
            }
            folder.reserve(chunk.len() as u64).map_err(|_| spool_full())?;
            self.app.metrics.upload_bytes.inc_by(chunk.len() as u64);
            file.write_all(&chunk).await.map_err(|error| storage(&error))?;
        }
        file.flush().await.map_err(|error| storage(&error))?;
        if bytes == 0 {
            return Err(Problem::bad_request("The uploaded file is empty."));
        }
        Ok(path)
    }

    /// A short field as text.
    async fn text(&self, field: &mut Field<'static>) -> Result<String, Problem> {
        let mut text = Vec::new();
        while let Some(chunk) = self.chunk(field).await? {
            text.extend_from_slice(&chunk);
            if text.len() as u64 > MAX_TEXT_BYTES {
                return Err(invalid("A field of the form is too long."));
            }
        }
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    }

    /// Reads the rest of a form that is refused, for a while.
    async fn discard(&mut self) {
        let all = async {
            while let Ok(Some(mut field)) = self.multipart.next_field().await {
                while let Ok(Some(_)) = field.chunk().await {
                    self.unparsed.store(0, Ordering::Relaxed);
                }
            }
        };
        let _ = tokio::time::timeout(DISCARD_TIME, all).await;
    }
}

/// The name for the file in the spool, from the name that the client gave: without folders and control characters.
fn trace_name(given: Option<&str>) -> Result<String, Problem> {
    let given = given.filter(|name| !name.is_empty()).unwrap_or(DEFAULT_NAME);
    let name = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String = name.chars().filter(|letter| !letter.is_control()).collect();
    let lower = name.to_lowercase();
    let plain = lower.strip_suffix(".gz").unwrap_or(&lower);
    if !SUFFIXES.iter().any(|suffix| plain.ends_with(suffix)) {
        return Err(Problem::bad_request(
            "Only .sqlite, .db, or .json files are supported, plain or gzipped (.gz); export an .nsys-rep with `nsys export --type sqlite`.",
        ));
    }
    // A long name is cut at its start, because its end has the suffix.
    let from = name.ceil_char_boundary(name.len().saturating_sub(MAX_NAME_BYTES));
    Ok(name.get(from..).unwrap_or_default().to_owned())
}

fn parsed_limit(text: &str) -> Result<usize, Problem> {
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let digits = if is_negative { digits } else { digits.strip_prefix('+').unwrap_or(digits) };
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(invalid("kernel_limit is not a whole number."));
    }
    // More digits than a number of this type has are above the largest limit, too.
    let limit = if is_negative { 0 } else { digits.parse().unwrap_or(usize::MAX) };
    Ok(limit.clamp(1, MAX_KERNEL_LIMIT))
}

fn parsed_bool(text: &str) -> Result<bool, Problem> {
    match text.to_lowercase().as_str() {
        "true" | "1" | "yes" | "on" | "t" | "y" => Ok(true),
        "false" | "0" | "no" | "off" | "f" | "n" => Ok(false),
        _ => Err(invalid("include_markdown is neither true nor false.")),
    }
}

fn invalid(detail: &str) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
}

fn too_large(max_bytes: u64) -> Problem {
    let detail = format!("The uploaded file is larger than the limit of {max_bytes} bytes.");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn storage(error: &std::io::Error) -> Problem {
    tracing::error!(%error, "the spool failed");
    Problem::new(StatusCode::INSUFFICIENT_STORAGE, "The server cannot store the upload.")
}

fn broken(error: &multer::Error) -> Problem {
    if let multer::Error::StreamReadFailed(why) = error
        && let Some(cut) = why.downcast_ref::<Cut>()
    {
        return cut_short(cut);
    }
    Problem::bad_request(format!("The form is broken: {error}."))
}

fn cut_short(cut: &Cut) -> Problem {
    match cut {
        Cut::Paused(pause) => {
            Problem::new(StatusCode::REQUEST_TIMEOUT, format!("The upload paused for more than {} s.", pause.as_secs()))
        }
        Cut::NoForm => Problem::bad_request(
            "The form is broken: a field has no end of its headers, or more than a MiB follows the form.",
        ),
        Cut::Disconnected => Problem::bad_request("The upload ended early."),
    }
}

/// Why a body ended early.
#[derive(Debug)]
enum Cut {
    Paused(Duration),
    NoForm,
    Disconnected,
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Cut {}

/// The parts of a body for the parser, which otherwise takes all that there are: one part per poll, none after too many that did not
/// become contents of a field, and none after a pause that is too long.
struct Parts {
    body: BodyDataStream,
    pause: Duration,
    timer: Pin<Box<Sleep>>,
    unparsed: Arc<AtomicUsize>,
    has_yielded: bool,
}

impl Parts {
    fn new(body: Body, pause: Duration, unparsed: Arc<AtomicUsize>) -> Self {
        Self { body: body.into_data_stream(), pause, timer: Box::pin(sleep(pause)), unparsed, has_yielded: false }
    }

    fn received(&mut self, part: Result<Bytes, axum::Error>) -> Result<Bytes, Cut> {
        let part = part.map_err(|_| Cut::Disconnected)?;
        if self.unparsed.fetch_add(part.len(), Ordering::Relaxed) > MAX_UNPARSED_BYTES {
            return Err(Cut::NoForm);
        }
        self.timer.as_mut().reset(tokio::time::Instant::now() + self.pause);
        self.has_yielded = true;
        Ok(part)
    }
}

impl Stream for Parts {
    type Item = Result<Bytes, Cut>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.has_yielded) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match self.body.poll_next_unpin(cx) {
            Poll::Ready(part) => Poll::Ready(part.map(|part| self.received(part))),
            Poll::Pending => self.timer.as_mut().poll(cx).map(|()| Some(Err(Cut::Paused(self.pause)))),
        }
    }
}

/// The parts for the parser, and for who reads what it leaves.
#[derive(Clone)]
struct SharedParts(Arc<Mutex<Parts>>);

impl SharedParts {
    fn new(parts: Parts) -> Self {
        Self(Arc::new(Mutex::new(parts)))
    }
}

impl Stream for SharedParts {
    type Item = Result<Bytes, Cut>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).poll_next_unpin(cx)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_file_name_of_a_client_never_leaves_its_folder() {
        for (given, want) in [
            ("trace.sqlite", "trace.sqlite"),
            ("/etc/../x/rank 0.JSON.gz", "rank 0.JSON.gz"),
            ("..\\..\\a.db", "a.db"),
            ("a\n\u{1b}[31m.json", "a[31m.json"),
            (".json", ".json"),
        ] {
            let name = trace_name(Some(given)).unwrap();
            assert_eq!(name, want);
            let path = std::path::Path::new(&name);
            assert!(path.components().count() == 1 && path.file_name().is_some());
        }
        let long = trace_name(Some(&format!("{}.json", "é".repeat(200)))).unwrap();
        assert!(long.len() <= MAX_NAME_BYTES && long.ends_with(".json"));
        assert_eq!(trace_name(None).unwrap(), DEFAULT_NAME);
        assert_eq!(trace_name(Some("")).unwrap(), DEFAULT_NAME);
    }

    #[test]
    fn other_suffixes_are_refused_with_the_supported_ones() {
        for given in ["trace.nsys-rep", "a.zip", "sqlite", "a.sqlite/", "a.gz"] {
            let problem = trace_name(Some(given)).unwrap_err();
            assert_eq!(problem.status, StatusCode::BAD_REQUEST, "{given}");
            assert!(problem.detail.starts_with("Only .sqlite, .db, or .json files are supported"));
        }
    }

    #[test]
    fn the_kernel_limit_is_clamped_to_1_to_500() {
        let huge = "9".repeat(60);
        let texts = ["-3", "0", "1", "+30", "500", "501", &huge, &format!("-{huge}")];
        assert_eq!(texts.map(|text| parsed_limit(text).unwrap()), [1, 1, 1, 30, 500, 500, 500, 1]);
        for text in ["many", "", "-", "+-1", "3.5", "1e2", " 1 2"] {
            assert_eq!(parsed_limit(text).unwrap_err().status, StatusCode::UNPROCESSABLE_ENTITY, "{text}");
        }
        // Python's `str(True)`.
        assert_eq!(parsed_bool("True"), Ok(true));
        assert_eq!(parsed_bool("False"), Ok(false));
        assert!(parsed_bool("maybe").is_err());
    }
}
