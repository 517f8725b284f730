//! An imitated SGLang server for the tests of the page: `fake_server [hangs | no-profiler]`.
//!
//! Prints its URL, then the path of each request that it gets. It ends when its standard input is closed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "for tests")]

// The server has more behaviours than are needed here.
#[allow(dead_code, reason = "shared with the tests of the crate")]
#[path = "../capture/tests/server/fake.rs"]
mod fake;

use fake::{Behaviour, Fake, Kind};
use std::path::Path;
use std::time::Duration;

fn main() {
    let mut behaviour = Behaviour::new(Kind::Sglang, Path::new("."));
    match std::env::args().nth(1).as_deref() {
        Some("hangs") => behaviour.hangs_while_profiling = true,
        Some("no-profiler") => {
            behaviour.refuses = vec![("/openapi.json", 200, r#"{"paths": {"/v1/models": {"get": {}}}}"#)]
        }
        _ => {}
    }
    let fake = Fake::start(behaviour);
    println!("{}", fake.url);
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    let mut printed = 0;
    loop {
        for path in fake.paths().into_iter().skip(printed) {
            println!("{path}");
            printed += 1;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
