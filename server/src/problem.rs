//! Answers that are not a result: a status and one sentence, as `{"detail": "..."}`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use gpuprism_capture::text::clean;

/// A longer sentence is cut: it would only repeat what the client sent.
const MAX_DETAIL_CHARS: usize = 2000;

/// What is wrong with a request, or with the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) detail: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: clean(&detail.into(), MAX_DETAIL_CHARS) }
    }

    /// The request cannot be used as it is.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// The server has no room for the request now.
    pub(crate) fn busy(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    /// The server failed for a reason that the client cannot change.
    pub(crate) fn internal(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("10");
        let body = axum::Json(serde_json::json!({ "detail": self.detail }));
        let mut response = (self.status, body).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        response
    }
}
