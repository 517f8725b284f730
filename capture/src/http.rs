//! A small HTTP client: JSON requests to one server, each bounded in time and size, and each ended by [`Cancel`].
//!
//! A request runs in a thread of its own, because a blocking read cannot be interrupted. A cancelled request is abandoned: its
//! thread ends with the process or at the request's time limit.

use crate::text::{clean, clean_json};
use crate::{Cancel, Error, Result};
use serde_json::Value;
use std::net::{ToSocketAddrs, UdpSocket};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;
use ureq::http::Uri;
use ureq::tls::{RootCerts, TlsConfig};

/// The largest answer that is read. The settings of a server are far smaller.
const MAX_ANSWER_BYTES: u64 = 64 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client of one server.
#[derive(Clone)]
pub(crate) struct Client {
    agent: ureq::Agent,
    base: String,
    host: String,
    key: Option<String>,
    cancel: Cancel,
}

/// An answer of any status.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// The header `access-control-allow-origin`.
    pub(crate) allowed_origin: Option<String>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    Cancelled,
    TimedOut(Duration),
    /// No connection: nothing was sent.
    Unreachable(String),
    /// The connection broke, perhaps after the server got the request.
    Broken(String),
}

impl Failure {
    /// What happened, as a clause.
    pub(crate) fn clause(&self) -> String {
        match self {
            Self::Cancelled => "interrupted".to_owned(),
            Self::TimedOut(limit) => format!("no answer within {} s", limit.as_secs_f64()),
            Self::Unreachable(why) | Self::Broken(why) => why.clone(),
        }
    }
}

impl Answer {
    pub(crate) fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The answer, with texts that are safe to show.
    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok().map(clean_json)
    }

    /// The start of the answer on one line, for messages.
    pub(crate) fn excerpt(&self) -> String {
        const MAX_CHARS: usize = 200;
        let text = String::from_utf8_lossy(&self.body);
        let words: Vec<&str> = text.split_whitespace().collect();
        clean(&words.join(" "), MAX_CHARS)
    }
}

impl Client {
    /// A client of the server at this URL. `http://` may be left out.
    pub(crate) fn new(server: &str, key: Option<&str>, cancel: &Cancel) -> Result<Self> {
        let text = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
        let wrong = |why: &str| Error::usage(format!("--server {server}: {why}"));
        let uri: Uri = text.parse().map_err(|_| wrong("not a URL: give one such as http://127.0.0.1:30000"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(wrong("not http or https: give a URL such as http://127.0.0.1:30000"));
        }
        let Some(authority) = uri.authority() else { return Err(wrong("has no host name")) };
        if authority.as_str().contains('@') {
            return Err(Error::usage("--server: leave out the user name and password: give a key with --api-key"));
        }
        if uri.query().is_some() {
            return Err(wrong("has a query: give only scheme, host, port and, behind a proxy, the path"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // A redirect could send the key and the request elsewhere.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            // Servers close idle connections; a request on a closed one would look like a failure of the server.
            .max_idle_connections(0)
            .user_agent("gpuprism")
            .tls_config(tls);
        if is_this_machine(&host) {
            config = config.proxy(None);
        }
        let base = text.trim_end_matches('/').to_owned();
        let key = key.map(str::to_owned);
        Ok(Self { agent: ureq::Agent::new_with_config(config.build()), base, host, key, cancel: cancel.clone() })
    }

    /// The same client, which no longer heeds the cancellation: to stop the server's profiler.
    pub(crate) fn for_cleanup(&self) -> Self {
        Self { cancel: Cancel::default(), ..self.clone() }
    }

    /// The URL without a slash at the end.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Returns true if the server's address is one of this machine. The server may still run in a container.
    pub(crate) fn is_local(&self) -> bool {
        is_this_machine(&self.host)
    }

    pub(crate) fn get(&self, path: &str, limit: Duration) -> std::result::Result<Answer, Failure> {
        self.get_from_origin(path, None, limit)
    }

    /// Like [`Client::get`], as a page of this origin would ask.
    pub(crate) fn get_from_origin(
        &self,
        path: &str,
        origin: Option<&str>,
        limit: Duration,
    ) -> std::result::Result<Answer, Failure> {
        let mut request = self.agent.get(format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.header("Authorization", format!("Bearer {key}"));
        }
        if let Some(origin) = origin {
            request = request.header("Origin", origin);
        }
        let request = request.config().timeout_global(Some(limit)).build();
        self.run(limit, move || answer(request.call()))
    }

    pub(crate) fn post(
        &self,
        path: &str,
        body: Option<&Value>,
        limit: Duration,
    ) -> std::result::Result<Answer, Failure> {
        let mut request = self.agent.post(format!("{}{path}", self.base)).header("Content-Type", "application/json");
        if let Some(key) = &self.key {
            request = request.header("Authorization", format!("Bearer {key}"));
        }
        let request = request.config().timeout_global(Some(limit)).build();
        let body = body.map(Value::to_string).unwrap_or_default();
        self.run(limit, move || answer(request.send(body)))
    }

    /// Runs the request in a thread and waits for it or for the cancellation.
    fn run(
        &self,
        limit: Duration,
        request: impl FnOnce() -> std::result::Result<Answer, ureq::Error> + Send + 'static,
    ) -> std::result::Result<Answer, Failure> {
        const POLL: Duration = Duration::from_millis(50);
        if self.cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        let (sender, receiver) = sync_channel(1);
        std::thread::spawn(move || {
            // The receiver is gone if the request was cancelled.
            let _ = sender.send(request());
        });
        loop {
            match receiver.recv_timeout(POLL) {
                Ok(result) => return result.map_err(|error| failure(&error, limit)),
                Err(RecvTimeoutError::Timeout) if self.cancel.is_cancelled() => return Err(Failure::Cancelled),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Failure::Broken("the request failed".to_owned())),
            }
        }
    }
}

fn answer(
    response: std::result::Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> std::result::Result<Answer, ureq::Error> {
    let mut response = response?;
    let allowed_origin = response.headers().get("access-control-allow-origin");
    let allowed_origin = allowed_origin.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec()?;
    Ok(Answer { status, body, allowed_origin })
}

fn failure(error: &ureq::Error, limit: Duration) -> Failure {
    match error {
        ureq::Error::Timeout(ureq::Timeout::Connect) => Failure::Unreachable("no connection within 10 s".to_owned()),
        ureq::Error::Timeout(_) => Failure::TimedOut(limit),
        ureq::Error::HostNotFound => Failure::Unreachable("no such host".to_owned()),
        ureq::Error::ConnectionFailed => Failure::Unreachable("the connection failed".to_owned()),
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Failure::Unreachable("connection refused".to_owned())
        }
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => Failure::TimedOut(limit),
        other => Failure::Broken(other.to_string()),
    }
}

/// Returns true if the host has an address of this machine: only those can be bound.
fn is_this_machine(host: &str) -> bool {
    let Ok(mut addresses) = (host, 0).to_socket_addrs() else { return false };
    addresses.any(|address| address.ip().is_loopback() || UdpSocket::bind(address).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(server: &str) -> Result<Client> {
        Client::new(server, None, &Cancel::default())
    }

    #[test]
    fn a_url_may_lack_the_scheme_and_end_with_a_slash() {
        assert_eq!(client("127.0.0.1:30000/").unwrap().base(), "http://127.0.0.1:30000");
        assert_eq!(client("http://[::1]:8000").unwrap().host(), "::1");
    }

    #[test]
    fn a_url_that_is_none_or_has_a_password_is_wrong_usage() {
        for bad in ["ftp://host", "http://", "http://a b", "http://me:pw@host:1", "http://host/?x=1"] {
            let error = client(bad).err().unwrap();
            assert!(error.is_usage() && !error.to_string().contains("pw@"), "{bad}: {error}");
        }
    }

    #[test]
    fn only_addresses_of_this_machine_are_local() {
        assert!(client("localhost:1").unwrap().is_local() && client("127.0.0.1:1").unwrap().is_local());
        // TEST-NET-1, which no machine has.
        assert!(!client("192.0.2.1:1").unwrap().is_local());
    }
}
