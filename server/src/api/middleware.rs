//! What happens around every request: an id, a log line, a counter, one host, the key, and an answer after a panic.

use super::{App, auth, form};
use crate::guard::guard;
use crate::problem::Problem;
use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use std::any::Any;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{MakeRequestId, PropagateRequestIdLayer, RequestId, SetRequestIdLayer};
use tower_http::trace::TraceLayer;
use tracing::{Span, info, info_span};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// A longer id of a client is replaced.
const MAX_ID_LENGTH: usize = 64;

/// Adds the layers; the last one is the outermost.
pub(super) fn wrap(routes: Router, app: Arc<App>) -> Router {
    let trace = TraceLayer::new_for_http().make_span_with(span).on_request(()).on_response(log).on_failure(());
    routes
        .layer(CatchPanicLayer::custom(after_panic))
        .layer(from_fn_with_state(Arc::clone(&app), require_key))
        .layer(from_fn(guard))
        .layer(from_fn_with_state(app, count))
        .layer(trace)
        .layer(PropagateRequestIdLayer::new(REQUEST_ID))
        .layer(SetRequestIdLayer::new(REQUEST_ID, RandomIds))
        .layer(from_fn(drop_unusual_id))
}

#[derive(Clone)]
struct RandomIds;

impl MakeRequestId for RandomIds {
    fn make_request_id<B>(&mut self, _: &axum::http::Request<B>) -> Option<RequestId> {
        // The keys of a RandomState are random; the id need not be secret.
        let id = format!("{:016x}", RandomState::new().hash_one(0));
        HeaderValue::from_str(&id).ok().map(RequestId::new)
    }
}

/// The id of a client appears in the log and in the answer, so only plain ones are kept.
async fn drop_unusual_id(mut request: Request, next: Next) -> Response {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let is_usual = |id: &HeaderValue| id.len() <= MAX_ID_LENGTH && !id.is_empty() && id.as_bytes().iter().all(is_plain);
    if !request.headers().get(&REQUEST_ID).is_some_and(is_usual) {
        request.headers_mut().remove(&REQUEST_ID);
    }
    next.run(request).await
}

fn span(request: &axum::http::Request<axum::body::Body>) -> Span {
    let id = request.headers().get(&REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default();
    // No query: a client may have put a key there.
    info_span!("request", id, method = %request.method(), path = request.uri().path())
}

fn log<B>(response: &axum::http::Response<B>, latency: Duration, _: &Span) {
    info!(status = response.status().as_u16(), ms = latency.as_millis(), "answered");
}

async fn count(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let path =
        request.extensions().get::<MatchedPath>().map_or_else(|| "other".to_owned(), |path| path.as_str().to_owned());
    let response = next.run(request).await;
    app.metrics.answered(&path, response.status().as_u16());
    response
}

async fn require_key(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let Some(key) = &app.config.api_key else { return next.run(request).await };
    if auth::is_public(request.method(), request.uri().path()) || auth::has_key(request.headers(), key) {
        return next.run(request).await;
    }
    form::discard(request.into_body()).await;
    let detail = "Unauthorized. Send the key as x-api-key or as Authorization: Bearer KEY.";
    Problem::new(StatusCode::UNAUTHORIZED, detail).into_response()
}

fn after_panic(_: Box<dyn Any + Send>) -> Response {
    Problem::internal(super::job::DEFECT).into_response()
}
