//! What holds for every request and answer of both servers: a request names one host, and an answer is nothing but what
//! its type says, for no other page.

use crate::problem::Problem;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The host that a request names. A request that names two could mean one to a proxy and another one here.
pub(crate) fn host<'a>(headers: &'a HeaderMap, target: &Uri) -> Result<Option<&'a [u8]>, Problem> {
    let mut hosts = headers.get_all(header::HOST).iter().map(HeaderValue::as_bytes);
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Problem::bad_request("The request has more than one Host header."));
    }
    match target.authority() {
        Some(authority) if host != Some(authority.as_str().as_bytes()) => {
            Err(Problem::bad_request("The address in the request is that of another host than its Host header."))
        }
        _ => Ok(host),
    }
}

/// Answers a request that names one host, with the headers that keep browsers from using the answer for anything else.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let mut response = match host(request.headers(), request.uri()) {
        Ok(_) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    for (name, value) in [
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "SAMEORIGIN"),
        // The address of the page contains its token.
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
