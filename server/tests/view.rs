//! The page and its files: only for who knows the token, only from this machine's own page, and nothing but the named files.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod client;

use client::Reply;
use gpuprism_server::view::{self, Page};
use gpuprism_server::{Stop, run};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

struct Viewing {
    host: String,
    token: String,
    _stop: tokio::sync::watch::Sender<bool>,
}

/// Serves these paths, with a page of one file.
fn start(folder: &Path, paths: &[PathBuf]) -> Viewing {
    let page = folder.join("dist");
    fs::create_dir_all(&page).unwrap();
    fs::write(page.join("index.html"), "<head><title>page</title></head>").unwrap();
    fs::write(page.join("app.js"), "1;").unwrap();
    fs::write(page.join("service-worker.js"), "2;").unwrap();
    let (tell, told) = mpsc::channel();
    let (sender, stop) = Stop::by_sender();
    let paths = paths.to_vec();
    std::thread::spawn(move || {
        run(Duration::ZERO, async {
            let view = view::bind(0, Page::Folder(page), &paths, None).await?;
            tell.send(view.address.clone()).unwrap();
            view.run(stop).await
        })
    });
    let address = told.recv_timeout(Duration::from_secs(10)).unwrap();
    let (host, token) = address.strip_prefix("http://").unwrap().trim_end_matches('/').split_once('/').unwrap();
    Viewing { host: host.to_owned(), token: token.to_owned(), _stop: sender }
}

impl Viewing {
    fn send(&self, method: &str, path: &str, headers: &str) -> Reply {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n").unwrap();
        Reply::read(stream)
    }

    /// A request of the page.
    fn get(&self, name: &str, headers: &str) -> Reply {
        self.send("GET", &format!("/{}/{name}", self.token), &format!("Host: {}\r\n{headers}", self.host))
    }

    /// Name and number of the listed files.
    fn list(&self) -> Vec<(String, u64)> {
        let list = self.get("api/files", "").json();
        let files = list["files"].as_array().unwrap().iter();
        files.map(|file| (file["name"].as_str().unwrap().to_owned(), file["id"].as_u64().unwrap())).collect()
    }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().canonicalize().unwrap();
    (temporary, path)
}

#[test]
fn the_page_names_its_file_list_and_has_no_service_worker() {
    let (_temporary, folder) = folder();
    let viewing = start(&folder, &[]);
    let index = viewing.get("", "");
    assert_eq!(index.status, 200);
    assert!(index.text().contains("<meta name=\"gpuprism-files\" content=\"api/files\">\n</head>"), "{}", index.text());
    assert!(index.head.contains("content-type: text/html"), "{}", index.head);
    assert!(index.head.contains("referrer-policy: no-referrer") && index.head.contains("nosniff"), "{}", index.head);
    assert!(!index.head.contains("content-security-policy"), "the page's own policy holds");
    assert_eq!(viewing.get("app.js", "").text(), "1;");
    for name in
        ["service-worker.js", "other.js", "../index.html", "%2e%2e/secret", "/etc/passwd", "api/file/0", "api/file/-1"]
    {
        assert_eq!(viewing.get(name, "").status, 404, "{name}");
    }
    assert_eq!(
        viewing.send("POST", &format!("/{}/", viewing.token), &format!("Host: {}\r\n", viewing.host)).status,
        405
    );
}

#[test]
fn without_the_token_or_from_elsewhere_there_is_no_answer() {
    let (_temporary, folder) = folder();
    fs::write(folder.join("a.json"), "{}").unwrap();
    let viewing = start(&folder, &[folder.join("a.json")]);
    assert_eq!(viewing.token.len(), 32);
    assert_ne!(viewing.token, start(&folder, &[]).token);
    let host = format!("Host: {}\r\n", viewing.host);
    for path in [
        "/",
        "/api/files",
        "/index.html",
        "//api/files",
        &format!("/{}", viewing.token),
        &format!("/{}x/", viewing.token),
    ] {
        assert_eq!(viewing.send("GET", path, &host).status, 404, "{path}");
    }
    let list = format!("/{}/api/files", viewing.token);
    let port = viewing.host.rsplit(':').next().unwrap();
    for (headers, status) in [
        (format!("Host: localhost:{port}\r\n"), 200),
        (format!("{host}Origin: http://{}\r\n", viewing.host), 200),
        (format!("{host}Origin: https://example.com\r\n"), 403),
        (format!("{host}Origin: null\r\n"), 403),
        (format!("{host}Origin: http://127.0.0.1:1\r\n"), 403),
        ("Host: example.com\r\n".to_owned(), 403),
        (format!("{host}Host: example.com\r\n"), 400),
        (format!("Host: example.com\r\n{host}"), 400),
        (format!("Host: example.com:{port}\r\n"), 403),
        ("Host: 127.0.0.1\r\n".to_owned(), 403),
        (String::new(), 403),
    ] {
        assert_eq!(viewing.send("GET", &list, &headers).status, status, "{headers}");
    }
}

#[test]
fn named_files_are_sent_in_the_ranges_that_are_asked_for() {
    let (_temporary, folder) = folder();
    let bytes: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(folder.join("a.html"), &bytes).unwrap();
    let viewing = start(&folder, &[folder.join("a.html")]);
    assert_eq!(viewing.list(), [("a.html".to_owned(), 0)]);
    let whole = viewing.get("api/file/0", "");
    assert_eq!((whole.status, whole.body == bytes), (200, true));
    assert!(
        whole.head.contains("content-type: application/octet-stream"),
        "a file never becomes a page: {}",
        whole.head
    );
    let part = viewing.get("api/file/0", "Range: bytes=1000-1999\r\n");
    assert_eq!((part.status, part.body == bytes[1000..2000]), (206, true));
    assert!(part.head.contains("content-range: bytes 1000-1999/400000"), "{}", part.head);
    assert_eq!(viewing.get("api/file/0", "Range: bytes=400000-400001\r\n").status, 416);
    let end = viewing.get("api/file/0", "Range: bytes=399990-500000\r\n");
    assert_eq!(end.body, bytes[399_990..]);
}

#[test]
fn a_watched_folder_lists_its_traces_and_new_ones() {
    let (_temporary, folder) = folder();
    let traces = folder.join("traces");
    fs::create_dir_all(traces.join("rank 1")).unwrap();
    for name in ["b.json.gz", "rank 1/a.SQLITE", "notes.txt", "run.nsys-rep"] {
        fs::write(traces.join(name), "1234").unwrap();
    }
    let viewing = start(&folder, std::slice::from_ref(&traces));
    let list = viewing.get("api/files", "").json();
    assert_eq!((&list["folder"], &list["is_complete"]), (&"traces".into(), &true.into()));
    let first = &list["files"][0];
    assert_eq!((&first["name"], &first["size"], &first["is_named"]), (&"b.json.gz".into(), &4.into(), &false.into()));
    assert!(first["modified_ms"].as_u64().unwrap() > 1_600_000_000_000);
    assert_eq!(viewing.list(), [("b.json.gz".to_owned(), 0), ("rank 1/a.SQLITE".to_owned(), 1)]);
    fs::write(traces.join("a.csv"), "new").unwrap();
    fs::remove_file(traces.join("b.json.gz")).unwrap();
    assert_eq!(viewing.list(), [("a.csv".to_owned(), 2), ("rank 1/a.SQLITE".to_owned(), 1)], "numbers stay");
    assert_eq!(viewing.get("api/file/2", "").text(), "new");
    assert_eq!(viewing.get("api/file/0", "").status, 404);
}

#[cfg(unix)]
#[test]
fn links_do_not_lead_out_of_what_was_named() {
    use std::os::unix::fs::symlink;
    let (_temporary, folder) = folder();
    let traces = folder.join("traces");
    fs::create_dir_all(&traces).unwrap();
    fs::write(folder.join("secret.json"), "secret").unwrap();
    fs::write(traces.join("a.json"), "a").unwrap();
    symlink("../secret.json", traces.join("out.json")).unwrap();
    symlink("..", traces.join("up")).unwrap();
    symlink("a.json", traces.join("inside.json")).unwrap();
    symlink(traces.join("a.json"), folder.join("latest.json")).unwrap();
    let viewing = start(&folder, &[traces.clone(), folder.join("latest.json")]);
    let names = |list: Vec<(String, u64)>| list.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    // The link itself was named, so it is followed once, at the start.
    assert_eq!(names(viewing.list()), ["latest.json", "a.json", "inside.json"]);
    let id = viewing.list()[2].1;
    assert_eq!(viewing.get(&format!("api/file/{id}"), "").text(), "a");
    // A file that is listed is replaced by a link.
    for name in ["a.json", "inside.json"] {
        fs::remove_file(traces.join(name)).unwrap();
        symlink("../secret.json", traces.join(name)).unwrap();
    }
    for id in 0..4 {
        let reply = viewing.get(&format!("api/file/{id}"), "");
        assert_eq!(reply.status, 404, "{}", reply.text());
    }
    assert_eq!(viewing.list(), []);
}
