//! An upload needs no memory for its body. Alone in its process, because the peak is that of the whole process.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "tests")]

mod client;

use client::{Form, Reply, Running, start_echo};
use std::io::Write;

const MIB: usize = 1 << 20;
const BODY_BYTES: usize = 192 * MIB;
/// What the server may need for a request: buffers of the connection, of the form and of the file.
const MAX_GROWTH_BYTES: u64 = 24 << 20;

/// The peak memory of this process; `None` where the system does not tell it.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// Sends a body of `BODY_BYTES` between these texts, a MiB at a time.
fn send(server: &Running, before: &str, after: &str) -> Reply {
    let mut stream = server.connect();
    let head = format!(
        "POST /v1/analyze/json HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{before}",
        Form::TYPE,
        before.len() + BODY_BYTES + after.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let part = vec![b'a'; MIB];
    for _ in 0..BODY_BYTES / MIB {
        // The server may refuse the body before its end.
        if stream.write_all(&part).is_err() {
            break;
        }
    }
    let _ = stream.write_all(after.as_bytes());
    Reply::read(stream)
}

#[test]
fn neither_a_large_file_nor_an_endless_header_is_held_in_memory() {
    let server = start_echo();
    assert_eq!(server.post("/v1/analyze/json", "", &Form::of("a.json", vec![b' '; MIB])).status, 200);
    let Some(before) = peak_bytes() else {
        println!("skipped: the system does not tell the peak memory");
        return;
    };
    let file = "--XyZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.sqlite\"\r\n\r\n";
    let reply = send(&server, file, "\r\n--XyZ--\r\n");
    assert_eq!((reply.status, reply.text()), (200, format!("a.sqlite|{BODY_BYTES}|None|30|json true")));
    let reply = send(&server, "--XyZ\r\nContent-Disposition: ", "");
    // 0 if the server has closed the connection before the client read the answer.
    assert!([400, 0].contains(&reply.status), "{reply:?}");
    let growth = peak_bytes().unwrap() - before;
    assert!(growth < MAX_GROWTH_BYTES, "{} MiB more", growth >> 20);
    server.assert_spool_becomes_empty();
}
