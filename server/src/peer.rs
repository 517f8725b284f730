//! A connection that can be asked whether its client has left.
//!
//! The HTTP library notices that only when it reads, and it does not read while bytes of a next request, or of a body
//! that nobody needs, are waiting. The system is asked here instead: it knows of a closed connection, whatever was sent
//! before.

use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// The time between two looks at a connection that has unread bytes; without those, the system tells at once.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// More bytes after a request are not those of a next one that a client sends ahead. They would fill the system's
/// buffer, and the end of the connection would wait behind them.
const MAX_UNREAD_BYTES: usize = 16 * 1024;
/// A client that is switched off or cut off sends no end. The system asks a silent one whether it is still there: after
/// this time, and then several times more.
const SILENCE: Duration = Duration::from_secs(30);
const BETWEEN_PROBES: Duration = Duration::from_secs(5);

/// A connection. Copies share it.
#[derive(Debug, Clone)]
pub(crate) struct Peer(Arc<TcpStream>);

impl Peer {
    pub(crate) fn new(stream: TcpStream) -> Self {
        let _ = stream.set_nodelay(true);
        let keepalive = TcpKeepalive::new().with_time(SILENCE).with_interval(BETWEEN_PROBES);
        // Without it, a client that is cut off is noticed at the time limit of its request.
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        Self(Arc::new(stream))
    }

    /// Ends when the client has closed its end of the connection, when the connection is broken, or when too many bytes
    /// follow the request. To be asked when the body of the request is read.
    pub(crate) async fn left(&self) {
        let mut unread = vec![0; MAX_UNREAD_BYTES];
        while let Ok(ready) = self.0.ready(Interest::READABLE).await
            && !ready.is_read_closed()
            && let Ok(1..MAX_UNREAD_BYTES) = self.0.peek(&mut unread).await
        {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

impl AsyncRead for Peer {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read.map(|bytes| buffer.advance(bytes))),
            }
        }
    }
}

impl AsyncWrite for Peer {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write_vectored(parts) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.0).shutdown(Shutdown::Write))
    }
}
