//! Asks a server whether it is healthy, for the health check of a container that has no other HTTP client.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream, ToSocketAddrs};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Succeeds if the server at this address answers `/healthz` with 200. A server that listens on all addresses is asked on this machine.
///
/// # Errors
/// No server, or another answer.
pub fn check_health(host: &str, port: u16) -> io::Result<()> {
    let mut address = (host, port).to_socket_addrs()?.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        } else {
            IpAddr::V6(Ipv6Addr::LOCALHOST)
        });
    }
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut status = String::new();
    BufReader::new(io::Read::take(stream, 1024)).read_line(&mut status)?;
    match status.split(' ').nth(1) {
        Some("200") => Ok(()),
        _ => Err(io::Error::other(format!("the server answered {:?} instead of 200", status.trim()))),
    }
}
