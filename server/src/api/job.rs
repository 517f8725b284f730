//! One request for an analysis: upload, decompression, waiting, analysis, answer.

use super::metrics::Counted;
use super::{App, form};
use crate::peer::Peer;
use crate::private;
use crate::problem::Problem;
use crate::spool::Folder;
use crate::unpack;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use gpuprism_capture::Cancel;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::OwnedSemaphorePermit;

/// What a client reads if the analysis panics.
pub(super) const DEFECT: &str = "The analysis stopped because of a defect in the server; its log has the details.";

/// An uploaded trace and what to make of it.
#[derive(Debug, Clone)]
pub struct Job {
    /// The trace, with the file name that the client gave.
    pub trace: PathBuf,
    /// The phase map, if there is one.
    pub phase_map: Option<PathBuf>,
    /// The most rows of the table of kernels.
    pub kernel_limit: usize,
    /// The form of the result.
    pub answer: Answer,
    /// Set when nobody waits for the result any more: the client has left, or the time is over.
    pub cancel: Cancel,
}

/// Cancels an analysis when the request that waits for it ends.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The form of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A JSON object with summary, report and perhaps Markdown.
    Json {
        /// Whether the object has the report as Markdown, too.
        with_markdown: bool,
    },
    /// A ZIP archive of all files.
    Artifacts,
}

/// Why there is no result, as one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The uploaded files are not what the API accepts; answered with 400.
    Input(String),
    /// The analysis of the trace failed; answered with 500.
    Analysis(String),
    /// The analysis needs more than the server allows; answered with 504.
    Limit(String),
}

/// The analysis: from a job to the bytes of the answer. It may block and panic, must leave no files, and should end early once the
/// job is cancelled.
pub type Analyze = dyn Fn(&Job) -> Result<Vec<u8>, Failure> + Send + Sync;

/// The bytes of an answer, which count as a request in progress until the client has taken them.
pub(super) struct JobResult {
    bytes: Bytes,
    _slot: OwnedSemaphorePermit,
}

impl IntoResponse for JobResult {
    fn into_response(self) -> Response {
        const PART_BYTES: usize = 64 * 1024;
        let length = self.bytes.len();
        let parts = stream::unfold(self, |mut rest| async {
            let part = rest.bytes.split_to(rest.bytes.len().min(PART_BYTES));
            (!part.is_empty()).then_some((Ok::<_, std::convert::Infallible>(part), rest))
        });
        ([(header::CONTENT_LENGTH, length)], Body::from_stream(parts)).into_response()
    }
}

/// Receives the upload of a request and analyzes it. Everything in the spool is removed when this future ends or is dropped; if that
/// happens during the analysis, the analysis is cancelled and its files are removed when it ends.
pub(super) async fn analysis(
    app: &Arc<App>,
    request: Request,
    answer: impl FnOnce(bool) -> Answer,
) -> Result<JobResult, Problem> {
    let body = request.into_parts();
    let Ok(slot) = Arc::clone(&app.requests).try_acquire_owned() else {
        form::discard(body.1).await;
        return Err(Problem::busy("The server has too many requests; try again later."));
    };
    let limits = &app.config.limits;
    let upload = tokio::time::timeout(limits.upload, form::receive(app, &body.0.headers, body.1)).await;
    let upload = upload.map_err(|_| {
        let detail = format!("The upload did not finish in {} s.", limits.upload.as_secs());
        Problem::new(StatusCode::REQUEST_TIMEOUT, detail)
    })??;
    let job = Job {
        trace: upload.trace,
        phase_map: upload.phase_map,
        kernel_limit: upload.kernel_limit,
        answer: answer(upload.with_markdown),
        cancel: Cancel::default(),
    };
    let in_time = tokio::time::timeout(limits.analysis, when_possible(app, upload.folder, job));
    let result = tokio::select! {
        result = in_time => result,
        // A client that has left does not read this answer.
        () = left(body.0.extensions.get::<Peer>()) => {
            return Err(Problem::bad_request("More bytes follow the request."));
        }
    };
    let bytes = result.map_err(|_| {
        let detail = format!("The analysis did not finish in {} s.", limits.analysis.as_secs());
        Problem::new(StatusCode::GATEWAY_TIMEOUT, detail)
    })??;
    Ok(JobResult { bytes: bytes.into(), _slot: slot })
}

/// Ends when the client has left; never without a connection.
async fn left(peer: Option<&Peer>) {
    match peer {
        Some(peer) => peer.left().await,
        None => std::future::pending().await,
    }
}

/// Waits for other analyses, and runs this one on a thread of its own.
async fn when_possible(app: &Arc<App>, mut folder: Folder, mut job: Job) -> Result<Vec<u8>, Problem> {
    let waiting = Counted::new(&app.metrics.waiting);
    let permit = Arc::clone(&app.analyses).acquire_owned().await.map_err(|_| Problem::internal(DEFECT))?;
    drop(waiting);
    let _waits_for_result = CancelOnDrop(job.cancel.clone());
    let (running, app) = (Counted::new(&app.metrics.running), Arc::clone(app));
    let span = tracing::Span::current();
    let task = tokio::task::spawn_blocking(move || {
        let _entered = span.entered();
        // All three are held until the analysis ends, also if nobody waits for it any more.
        let _held = (permit, running);
        let start = Instant::now();
        let result = unpacked(&app, &mut folder, &mut job).and_then(|()| (app.analyze)(&job).map_err(problem));
        app.metrics.analysis_seconds.observe(start.elapsed().as_secs_f64());
        drop(folder);
        result
    });
    task.await.map_err(|_| Problem::internal(DEFECT))?
}

fn problem(failure: Failure) -> Problem {
    match failure {
        Failure::Input(why) => Problem::bad_request(why),
        Failure::Analysis(why) => Problem::internal(format!("Analysis failed: {why}")),
        Failure::Limit(why) => Problem::new(StatusCode::GATEWAY_TIMEOUT, why),
    }
}

/// Decompresses the trace of a job within the limits; a plain file stays as it is.
fn unpacked(app: &App, folder: &mut Folder, job: &mut Job) -> Result<(), Problem> {
    if !unpack::is_gzip(&job.trace).map_err(|error| unreadable(&error))? {
        return Ok(());
    }
    let plain = folder.path("plain").join(plain_name(&job.trace));
    private::create_folder(&folder.path("plain")).map_err(|error| unreadable(&error))?;
    unpack::unpack(folder, &job.trace, &plain, app.config.limits.unpacked_bytes, &job.cancel).map_err(not_unpacked)?;
    folder.remove(&job.trace).map_err(|error| unreadable(&error))?;
    job.trace = plain;
    Ok(())
}

/// The file name without `.gz`.
fn plain_name(packed: &Path) -> String {
    let name = packed.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(".gz").unwrap_or(&name).to_owned()
}

fn not_unpacked(failure: unpack::Failure) -> Problem {
    use unpack::Failure;
    match failure {
        Failure::TooLarge(max) => Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("The file is larger than {max} bytes when it is decompressed."),
        ),
        Failure::Nested => Problem::bad_request("The file is compressed twice: upload it with one layer of gzip."),
        Failure::Damaged(bytes) => {
            Problem::bad_request(format!("The gzip data is damaged or cut off after {bytes} bytes of plain data."))
        }
        Failure::Full => form::spool_full(),
        // Nobody reads this answer.
        Failure::Cancelled => Problem::internal("The analysis was cancelled."),
        Failure::Write(error) => unreadable(&error),
    }
}

/// The spool itself fails: no space on its disk, or somebody removed it.
fn unreadable(error: &std::io::Error) -> Problem {
    tracing::error!(%error, "the spool failed");
    Problem::new(StatusCode::INSUFFICIENT_STORAGE, "The server cannot store the upload.")
}
