//! Accepts connections and gives them to a router: a limit on connections, time limits for the head of a request and for a client that
//! takes no bytes of its answer, and a stop that lets requests finish.

use crate::peer::Peer;
use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_io_timeout::TimeoutStream;

/// A client that has not sent the head of a request after this time is disconnected.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// The buffer of a connection. The default grows to 400 KB, which many slow uploads would take at the same time.
const BUFFER_BYTES: usize = 64 * 1024;
/// The most connections; further ones wait until one of them ends.
const MAX_CONNECTIONS: usize = 512;

/// A bound address and what answers there.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    router: Router,
    write_timeout: Duration,
    grace: Duration,
}

/// Ends a server.
#[derive(Debug)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Ends the server when the process receives SIGTERM or Ctrl-C.
    ///
    /// # Errors
    /// The signals cannot be received.
    pub fn at_signal() -> io::Result<Self> {
        let (sender, receiver) = watch::channel(false);
        #[cfg(unix)]
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::spawn(async move {
            #[cfg(unix)]
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            #[cfg(not(unix))]
            let _ = tokio::signal::ctrl_c().await;
            let _ = sender.send(true);
        });
        Ok(Self(receiver))
    }

    /// Ends the server when the returned sender sends or is dropped.
    pub fn by_sender() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(receiver))
    }

    async fn requested(&mut self) {
        // An error means that the sender is gone.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

impl Server {
    /// Answers at a bound address. A client that takes no byte of its answer for `write_timeout` is disconnected.
    pub(crate) fn new(listener: TcpListener, router: Router, write_timeout: Duration, grace: Duration) -> Self {
        Self { listener, router, write_timeout, grace }
    }

    /// The address with the port that was chosen.
    ///
    /// # Errors
    /// The system does not tell it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers requests until `stop`. Then accepts no more, and waits for the requests in progress, at most for the grace period.
    ///
    /// # Errors
    /// None today; an error would end the server.
    pub async fn run(self, mut stop: Stop) -> io::Result<()> {
        let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let graceful = GracefulShutdown::new();
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(BUFFER_BYTES);
        loop {
            let accepted = async {
                let permit = Arc::clone(&connections).acquire_owned().await;
                (permit, self.listener.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                accepted = accepted => accepted,
                () = stop.requested() => break,
            };
            let Ok((stream, _)) = accepted else {
                // Without file descriptors every attempt fails at once: wait for some to be closed.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let peer = Peer::new(stream);
            let mut stream = TimeoutStream::new(peer.clone());
            stream.set_write_timeout(Some(self.write_timeout));
            let answers = TowerToHyperService::new(self.router.clone());
            let service = service_fn(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(peer.clone());
                answers.call(request)
            });
            let connection = graceful.watch(http.serve_connection(TokioIo::new(Box::pin(stream)), service));
            tokio::spawn(async move {
                // A connection that breaks concerns only its client.
                let _ = connection.await;
                drop(permit);
            });
        }
        drop(self.listener);
        if tokio::time::timeout(self.grace, graceful.shutdown()).await.is_err() {
            tracing::warn!("stopped before all requests were answered");
        }
        Ok(())
    }
}
