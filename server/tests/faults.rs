//! Broken, slow, hostile and too many requests: each gets one clear answer, the server goes on, and the spool is empty afterwards.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod client;

use client::{Form, Reply, Running, limits, start, start_echo};
use flate2::{Compression, write::GzEncoder};
use gpuprism_server::api::{Failure, Job, Limits};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

const JSON: &str = "/v1/analyze/json";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The head of a request with a form of this length.
fn head(length: usize) -> String {
    format!(
        "POST {JSON} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {}\r\nContent-Length: {length}\r\n\r\n",
        Form::TYPE
    )
}

/// A server in the middle of an analysis, the connection that asked for it, and what lets the analysis end when dropped.
fn in_an_analysis() -> (Running, TcpStream, mpsc::Sender<()>) {
    let (started, starts) = mpsc::channel();
    let (go_on, may_end) = mpsc::channel::<()>();
    let (started, may_end) = (Mutex::new(started), Mutex::new(may_end));
    let server = start(
        None,
        limits(),
        Box::new(move |job| {
            // Only the first analysis is waited for.
            let _ = started.lock().unwrap().send(());
            let _ = may_end.lock().unwrap().recv();
            client::echo(job)
        }),
    );
    let mut stream = server.connect();
    let body = Form::of("a.sqlite", "x").bytes();
    stream.write_all(head(body.len()).as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    starts.recv().unwrap();
    (server, stream, go_on)
}

fn assert_alive(server: &Running) {
    server.assert_spool_becomes_empty();
    assert_eq!(server.post(JSON, "", &Form::of("a.json", "{}")).status, 200);
    server.assert_spool_becomes_empty();
}

#[test]
fn a_cut_connection_leaves_nothing_in_the_spool() {
    let server = start_echo();
    let body = Form::of("a.sqlite", vec![7; 3 << 20]).bytes();
    for sent in [10, 200, 1 << 20, body.len() - 3] {
        let mut stream = server.connect();
        stream.write_all(head(body.len()).as_bytes()).unwrap();
        stream.write_all(&body[..sent]).unwrap();
        drop(stream);
    }
    // Closed for writing only: the client still reads the answer.
    let mut stream = server.connect();
    stream.write_all(head(body.len()).as_bytes()).unwrap();
    stream.write_all(&body[..1 << 20]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    drop(stream);
    assert_alive(&server);
}

#[test]
fn a_client_that_leaves_during_its_analysis_leaves_nothing_in_the_spool() {
    let (server, stream, go_on) = in_an_analysis();
    drop(stream);
    drop(go_on);
    assert_alive(&server);
}

#[test]
fn a_body_that_pauses_or_never_ends_is_answered_with_408() {
    let short = Limits { pause: Duration::from_millis(200), ..limits() };
    let server = start(None, short, Box::new(client::echo));
    let body = Form::of("a.sqlite", vec![7; 10_000]).bytes();
    let mut stream = server.connect();
    stream.write_all(head(body.len()).as_bytes()).unwrap();
    stream.write_all(&body[..5000]).unwrap();
    let reply = Reply::read(stream);
    assert_eq!(reply.status, 408, "{}", reply.text());
    assert!(reply.detail().contains("paused"), "{}", reply.text());
    assert_alive(&server);

    let short = Limits { upload: Duration::from_millis(300), ..limits() };
    let server = start(None, short, Box::new(client::echo));
    let mut stream = server.connect();
    stream.write_all(head(1 << 20).as_bytes()).unwrap();
    stream.write_all(&body[..5000]).unwrap();
    let reply = Reply::read(stream);
    assert_eq!(reply.status, 408, "{}", reply.text());
    assert!(reply.detail().contains("did not finish"), "{}", reply.text());
    assert_alive(&server);
}

/// Reads a trace that never ends, as long as somebody waits for the result. Other names are analyzed at once.
fn endless(job: &Job) -> Result<Vec<u8>, Failure> {
    if job.trace.ends_with("endless.sqlite") {
        while !job.cancel.is_cancelled() {
            std::thread::sleep(Duration::from_millis(5));
        }
        return Err(Failure::Analysis("cancelled".to_owned()));
    }
    client::echo(job)
}

#[test]
fn an_analysis_that_takes_too_long_is_answered_with_504_and_its_place_is_free_again() {
    let one = Limits { analyses: 1, requests: 1, analysis: Duration::from_millis(500), ..limits() };
    let server = start(None, one, Box::new(endless));
    for _ in 0..3 {
        let reply = server.post(JSON, "", &Form::of("endless.sqlite", vec![7; 1 << 20]));
        assert_eq!(reply.status, 504, "{}", reply.text());
        assert_alive(&server);
    }
    assert!(server.get("/metrics", "").text().contains("gpuprism_analyses_running 0\n"));
}

#[test]
fn an_analysis_ends_when_its_client_leaves() {
    let one = Limits { analyses: 1, ..limits() };
    let server = start(None, one, Box::new(endless));
    let body = Form::of("endless.sqlite", vec![7; 1 << 20]).bytes();
    for _ in 0..3 {
        let mut stream = server.connect();
        stream.write_all(head(body.len()).as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
        while !server.get("/metrics", "").text().contains("gpuprism_analyses_running 1\n") {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(stream);
        assert_alive(&server);
    }
}

/// The system tells that a connection is closed only after all bytes before: those after the form, and those after the
/// request.
#[test]
fn an_analysis_ends_when_its_client_leaves_with_more_bytes_unread() {
    let one = Limits { analyses: 1, ..limits() };
    let server = start(None, one, Box::new(endless));
    let form = Form::of("endless.sqlite", vec![7; 1 << 20]).bytes();
    let next = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    let many = vec![b'x'; 900_000];
    for (in_body, after) in [(&b""[..], &next[..]), (&many, b""), (b"", &many), (b"\r\n epilogue", next)] {
        let mut stream = server.connect();
        let sent = [head(form.len() + in_body.len()).as_bytes(), &form, in_body, after].concat();
        // Does not wait for a server that reads no more.
        let mut copy = stream.try_clone().unwrap();
        let sending = std::thread::spawn(move || copy.write_all(&sent));
        if after.len() < many.len() {
            while !server.get("/metrics", "").text().contains("gpuprism_analyses_running 1\n") {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = stream.shutdown(std::net::Shutdown::Both);
        } else {
            // Refused at once: so much is no next request.
            let _ = stream.read_to_end(&mut Vec::new());
        }
        let _ = sending.join();
        drop(stream);
        assert_alive(&server);
        assert!(server.get("/metrics", "").text().contains("gpuprism_analyses_running 0\n"));
    }
}

#[test]
fn a_form_is_answered_with_a_next_request_behind_it_and_refused_with_too_many_bytes() {
    let server = start_echo();
    let form = Form::of("a.json", "{}").bytes();
    let mut longer = form.clone();
    longer.extend(b"\r\nan epilogue");
    assert_eq!(server.send(&head(longer.len()), &longer).status, 200);
    longer.extend(vec![b' '; 3 << 20]);
    assert_eq!(server.send(&head(longer.len()), &longer).status, 400);
    assert_alive(&server);
}

#[test]
fn a_client_that_does_not_take_its_answer_is_disconnected_and_its_place_is_free_again() {
    const ANSWER_BYTES: usize = 64 << 20;
    let short = Limits { requests: 1, pause: Duration::from_millis(500), ..limits() };
    let large = |_: &Job| Ok(vec![b'a'; ANSWER_BYTES]);
    let server = start(None, short, Box::new(large));
    let body = Form::of("a.sqlite", "x").bytes();
    let ask = || {
        let mut stream = server.connect();
        stream.write_all(head(body.len()).as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
        // The answer has begun.
        stream.peek(&mut [0]).unwrap();
        stream
    };
    let waiting = ask();
    assert_eq!(server.post(JSON, "", &Form::of("b.json", "{}")).status, 503, "the answer still takes memory");
    let start = Instant::now();
    while server.post(JSON, "", &Form::of("b.json", "{}")).status != 200 {
        assert!(start.elapsed() < Duration::from_secs(20), "the place of the first request is never free");
        std::thread::sleep(Duration::from_millis(50));
    }
    let received = Reply::read(waiting).body.len();
    assert!(received < ANSWER_BYTES, "the rest of the answer was not kept");

    // Slow, but never for half a second without a byte.
    let mut slow = ask();
    let mut part = vec![0; 1 << 20];
    let mut received = 0;
    loop {
        let read = slow.read(&mut part).unwrap();
        if read == 0 {
            break;
        }
        received += read;
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(received > ANSWER_BYTES, "head and body");
}

#[test]
fn broken_forms_are_refused() {
    let server = start_echo();
    let send = |content_type: &str, body: &[u8]| {
        let head = format!(
            "POST {JSON} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        server.send(&head, body)
    };
    let good = Form::of("a.json", "{}").bytes();
    for (content_type, body, status) in [
        ("application/json", good.as_slice(), 422),
        ("multipart/form-data", &good, 422),
        ("multipart/form-data; boundary=other", &good, 400),
        (Form::TYPE, b"", 400),
        (Form::TYPE, b"no form at all", 400),
        (Form::TYPE, &good[..good.len() - 9], 400),
        (Form::TYPE, b"--XyZ\r\nno header\r\n\r\nx\r\n--XyZ--\r\n", 400),
        (Form::TYPE, b"--XyZ--\r\n", 422),
    ] {
        let reply = send(content_type, body);
        assert_eq!(reply.status, status, "{content_type} {}: {}", String::from_utf8_lossy(body), reply.text());
        assert!(reply.detail().ends_with('.'), "{}", reply.text());
    }
    assert_alive(&server);
}

#[test]
fn endless_headers_of_a_field_do_not_fill_the_memory() {
    let server = start_echo();
    for start in ["--XyZ\r\nContent-Disposition: ", "", "--XyZ\r\n"] {
        let mut body = start.as_bytes().to_vec();
        body.resize(16 << 20, b'a');
        let reply = server.send(&head(body.len()), &body);
        assert_eq!(reply.status, 400, "{start}: {}", reply.text());
    }
    assert_alive(&server);
}

#[test]
fn files_over_the_limits_are_refused_with_413() {
    let small = Limits { upload_bytes: 1000, unpacked_bytes: 100_000, ..limits() };
    let server = start(None, small, Box::new(client::echo));
    assert_eq!(server.post(JSON, "", &Form::of("a.json", vec![b' '; 1000])).status, 200);
    let reply = server.post(JSON, "", &Form::of("a.json", vec![b' '; 1001]));
    assert_eq!(reply.status, 413, "{}", reply.text());
    assert!(reply.detail().contains("limit of 1000 bytes"), "{}", reply.text());
    // Known from the length alone.
    let reply = server.send(&head(1 << 30), b"--XyZ\r\n");
    assert_eq!(reply.status, 413, "{}", reply.text());
    // A chunked body tells no length.
    let mut body = format!(
        "POST {JSON} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        Form::TYPE
    )
    .into_bytes();
    let form = Form::of("a.json", vec![b' '; 5000]).bytes();
    body.extend(format!("{:x}\r\n", form.len()).bytes().chain(form).chain(*b"\r\n0\r\n\r\n"));
    assert_eq!(server.send("", &body).status, 413);
    assert_alive(&server);
}

#[test]
fn gzipped_files_are_decompressed_and_gzip_bombs_are_refused() {
    let small = Limits { unpacked_bytes: 1 << 20, ..limits() };
    let server = start(None, small, Box::new(client::echo));
    let reply = server.post(JSON, "", &Form::of("a.json.gz", gzip(&[b' '; 5000])));
    assert_eq!(reply.text(), "a.json|5000|None|30|json true");
    let bomb = gzip(&vec![b' '; 64 << 20]);
    for name in ["a.json.gz", "a.json", "a.sqlite"] {
        let reply = server.post(JSON, "", &Form::of(name, &bomb));
        assert_eq!(reply.status, 413, "{name}: {}", reply.text());
        assert!(reply.detail().contains("decompressed"), "{}", reply.text());
    }
    let nested = server.post(JSON, "", &Form::of("a.json.gz", gzip(&bomb)));
    assert_eq!((nested.status, nested.detail().contains("twice")), (400, true), "{}", nested.text());
    let cut = server.post(JSON, "", &Form::of("a.json.gz", &bomb[..20]));
    assert_eq!((cut.status, cut.detail().contains("cut off")), (400, true), "{}", cut.text());
    assert_alive(&server);
}

#[test]
fn a_full_spool_answers_503_and_recovers() {
    let server = start(None, Limits { spool_bytes: 4096, ..limits() }, Box::new(client::echo));
    for form in [Form::of("a.sqlite", vec![7; 5000]), Form::of("a.json.gz", gzip(&[b' '; 5000]))] {
        let reply = server.post(JSON, "", &form);
        assert_eq!(reply.status, 503, "{}", reply.text());
        assert!(reply.detail().contains("no room") && reply.head.contains("retry-after: "), "{reply:?}");
    }
    assert_alive(&server);
}

#[test]
fn sixty_four_clients_at_once_all_get_their_own_answer() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let server = start(
        None,
        Limits { analyses: 3, ..limits() },
        Box::new(move |job| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(10));
            running.fetch_sub(1, Ordering::SeqCst);
            client::echo(job)
        }),
    );
    std::thread::scope(|scope| {
        for number in 0..64_usize {
            let server = &server;
            scope.spawn(move || {
                let reply = server.post(JSON, "", &Form::of(&format!("{number}.sqlite"), vec![7; 10_000 + number]));
                let want = format!("{number}.sqlite|{}|None|30|json true", 10_000 + number);
                assert_eq!((reply.status, reply.text()), (200, want));
            });
        }
    });
    assert!(seen.load(Ordering::SeqCst) <= 3, "at most three analyses run at once");
    assert_alive(&server);
}

#[test]
fn more_requests_than_allowed_are_answered_with_503_while_health_still_answers() {
    let (go_on, may_end) = mpsc::channel::<()>();
    let (started, starts) = mpsc::channel();
    let (started, may_end) = (Mutex::new(started), Mutex::new(may_end));
    let server = start(
        None,
        Limits { analyses: 1, requests: 1, ..limits() },
        Box::new(move |job| {
            let _ = started.lock().unwrap().send(());
            let _ = may_end.lock().unwrap().recv();
            client::echo(job)
        }),
    );
    std::thread::scope(|scope| {
        let first = scope.spawn(|| server.post(JSON, "", &Form::of("a.json", "{}")).status);
        starts.recv().unwrap();
        let second = server.post(JSON, "", &Form::of("b.json", "{}"));
        assert_eq!(second.status, 503, "{}", second.text());
        assert!(second.head.contains("retry-after: "));
        assert_eq!(server.get("/healthz", "").status, 200);
        drop(go_on);
        assert_eq!(first.join().unwrap(), 200);
    });
    assert_alive(&server);
}

#[test]
fn a_stop_finishes_the_request_in_progress_and_accepts_no_other() {
    let (mut server, stream, go_on) = in_an_analysis();
    server.stop();
    while TcpStream::connect(server.address).is_ok() {
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(go_on);
    assert_eq!(Reply::read(stream).status, 200);
    server.join();
    assert_eq!(std::fs::read_dir(server.spool_parent()).unwrap().count(), 0, "the spool is gone");
}
