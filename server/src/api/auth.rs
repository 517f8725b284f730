//! The API key: `x-api-key: KEY` or `Authorization: Bearer KEY`. Compared in a time that does not depend on where keys differ.

use axum::http::{HeaderMap, Method, header};
use subtle::ConstantTimeEq;

/// Whether a request may be answered without a key.
pub(super) fn is_public(method: &Method, path: &str) -> bool {
    method == Method::OPTIONS || path == "/" || path == "/healthz"
}

/// Whether the headers contain the key.
pub(super) fn has_key(headers: &HeaderMap, key: &str) -> bool {
    supplied(headers).is_some_and(|supplied| bool::from(supplied.as_bytes().ct_eq(key.as_bytes())))
}

/// `x-api-key` first, because clients that send both mean that one.
fn supplied(headers: &HeaderMap) -> Option<&str> {
    let text =
        |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim).filter(|text| !text.is_empty());
    text(header::HeaderName::from_static("x-api-key")).or_else(|| {
        let (scheme, key) = text(header::AUTHORIZATION)?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
    })
}
