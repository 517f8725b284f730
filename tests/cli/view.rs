//! `gpuprism view`: the address, and what is refused before a browser opens. `tests/page/served.test.mjs` has the page itself.

use crate::common::{directory, gpuprism};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a page of one file to `dist`.
fn write_page(folder: &Path) {
    std::fs::create_dir_all(folder.join("dist")).unwrap();
    std::fs::write(folder.join("dist/index.html"), "<head></head>").unwrap();
}

#[test]
fn the_address_is_the_only_output_and_answers_on_this_machine() {
    let folder = directory("view_address");
    write_page(&folder);
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuprism"));
    command.args(["view", "--no-open", "--page", "dist", "."]).current_dir(&folder);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (host, path) = line.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
    assert!(host.starts_with("127.0.0.1:") && path.len() == 33, "{line}");
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(reply.starts_with("HTTP/1.1 200") && reply.contains("gpuprism-files"), "{reply}");
}

#[test]
fn a_wrong_path_page_or_port_is_refused_with_one_sentence() {
    let folder = directory("view_refusals");
    write_page(&folder);
    for name in ["one", "two"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (args, words) in [
        (vec!["--page", "dist", "missing.json"], "missing.json"),
        (vec!["--page", "dist", "one", "two"], "only one folder"),
        (vec!["--page", "one"], "cargo xtask build"),
        (vec!["--page", "dist", "--port", &port], "in use"),
    ] {
        let output = gpuprism(&folder, ["view", "--no-open"].iter().chain(&args));
        assert_eq!((output.status, output.stderr.lines().count()), (1, 1), "{output:?}");
        assert!(output.stderr.contains(words), "{output:?}");
    }
}

#[cfg(not(feature = "embed-page"))]
#[test]
fn a_program_without_the_page_says_how_to_get_it() {
    let output = gpuprism(&directory("view_no_page"), ["view", "--no-open"]);
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("cargo xtask release") && output.stderr.contains("--page"), "{output:?}");
}
