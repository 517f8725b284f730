//! The HTTP API of nsys-llm-explainer: uploads a trace, answers with its analysis.
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | name, version, endpoints |
//! | `GET /healthz` | `ok` |
//! | `GET /metrics` | counters for Prometheus |
//! | `POST /v1/analyze/json` | summary, report and, unless refused, Markdown |
//! | `POST /v1/analyze/artifacts` | a ZIP archive of all files |
//!
//! An upload is written to the spool as it arrives, so the memory of a request is that of the analysis. Analyses run a few at a time;
//! further requests wait with their upload in the spool.

mod auth;
mod form;
mod health;
mod job;
mod metrics;
mod middleware;

pub use form::SUFFIXES;
pub use gpuprism_capture::Cancel;
pub use health::check_health;
pub use job::{Analyze, Answer, Failure, Job};

use crate::listen::Server;
use crate::problem::Problem;
use crate::spool::Spool;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use metrics::Metrics;
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

const ENDPOINTS: [&str; 3] = ["/healthz", "/v1/analyze/json", "/v1/analyze/artifacts"];

/// What a server is called, what it may use, and who may use it.
#[derive(Debug, Clone)]
pub struct Config {
    /// The name in the answers of `/` and `/healthz`.
    pub service: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The key that clients must send; `None` for a public server.
    pub api_key: Option<String>,
    /// The folder for the spool.
    pub spool_parent: PathBuf,
    /// Limits of size, number and time.
    pub limits: Limits,
}

/// Limits of a server.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The size of an uploaded file.
    pub upload_bytes: u64,
    /// The size of an uploaded file after decompression.
    pub unpacked_bytes: u64,
    /// The size of all files in the spool.
    pub spool_bytes: u64,
    /// Analyses at the same time.
    pub analyses: usize,
    /// Requests for an analysis at the same time, also those that upload, wait, or receive their answer; further ones are answered with
    /// 503.
    pub requests: usize,
    /// The time between two parts of an upload, and in which a client takes no byte of its answer.
    pub pause: Duration,
    /// The time of a whole upload.
    pub upload: Duration,
    /// The time from the end of the upload to the result. Then the analysis is cancelled.
    pub analysis: Duration,
    /// The time that requests have to finish when the server stops.
    pub grace: Duration,
}

impl Default for Limits {
    /// The limits of nsys-llm-explainer where it has one; its client waits 300 s for an answer.
    fn default() -> Self {
        const GIB: u64 = 1 << 30;
        Self {
            upload_bytes: 2 * GIB,
            unpacked_bytes: 8 * GIB,
            spool_bytes: 16 * GIB,
            analyses: 2,
            requests: 128,
            pause: Duration::from_secs(30),
            upload: Duration::from_secs(1800),
            analysis: Duration::from_secs(290),
            grace: Duration::from_secs(25),
        }
    }
}

/// What all requests share.
struct App {
    config: Config,
    analyze: Box<Analyze>,
    spool: Spool,
    metrics: Metrics,
    requests: Arc<Semaphore>,
    analyses: Arc<Semaphore>,
}

/// Binds the API to an address; port 0 lets the system choose one.
///
/// # Errors
/// The address cannot be bound, or the spool cannot be created.
pub async fn bind(address: (&str, u16), config: Config, analyze: Box<Analyze>) -> io::Result<Server> {
    let Limits { pause, grace, .. } = config.limits;
    let app = App {
        spool: Spool::new(&config.spool_parent, config.limits.spool_bytes)?,
        metrics: Metrics::new(),
        requests: Arc::new(Semaphore::new(config.limits.requests)),
        analyses: Arc::new(Semaphore::new(config.limits.analyses)),
        analyze,
        config,
    };
    Ok(Server::new(TcpListener::bind(address).await?, router(Arc::new(app)), pause, grace))
}

fn router(app: Arc<App>) -> Router {
    let routes = Router::new()
        .route("/", get(root))
        .route("/healthz", get(health))
        .route("/metrics", get(metrics_text))
        .route("/v1/analyze/json", post(analyze_json))
        .route("/v1/analyze/artifacts", post(analyze_artifacts))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(Arc::clone(&app));
    middleware::wrap(routes, app)
}

async fn root(State(app): State<Arc<App>>) -> Json<Value> {
    let auth_mode = if app.config.api_key.is_some() { "api_key" } else { "public" };
    let Config { service, version, .. } = app.config;
    Json(json!({ "service": service, "version": version, "auth_mode": auth_mode, "endpoints": ENDPOINTS }))
}

async fn health(State(app): State<Arc<App>>) -> Json<Value> {
    let Config { service, version, .. } = app.config;
    Json(json!({ "ok": true, "service": service, "version": version, "auth_enabled": app.config.api_key.is_some() }))
}

async fn metrics_text(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let text = app.metrics.text(app.spool.bytes()).map_err(|_| Problem::internal("The metrics cannot be written."))?;
    Ok(([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

async fn unknown_path() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, format!("There is no such path. The paths are {}.", ENDPOINTS.join(", ")))
}

async fn wrong_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "The path does not have this method: analyses are POST, all else is GET.",
    )
}

async fn analyze_json(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    let answer = |with_markdown| Answer::Json { with_markdown };
    let result = job::analysis(&app, request, answer).await?;
    Ok(([(header::CONTENT_TYPE, "application/json")], result).into_response())
}

async fn analyze_artifacts(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    let result = job::analysis(&app, request, |_| Answer::Artifacts).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/zip"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"nsys_llm_artifacts.zip\""),
    ];
    Ok((headers, result).into_response())
}
