//! A client of `gpuprism mcp`: requests and answers as lines of JSON. The SDK's own client is tested in `mcp/tests/`.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running server.
pub(crate) struct Server {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next_id: u64,
}

impl Server {
    /// Starts the server for the files of a folder and greets it.
    pub(crate) fn start(root: &Path) -> Self {
        Self::start_with(root, &[])
    }

    /// The same with more flags.
    pub(crate) fn start_with(root: &Path, flags: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_gpuprism"))
            .args(["mcp", "--root"])
            .arg(root)
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut server = Self { input: process.stdin.take(), process, output, next_id: 0 };
        let client = json!({"name": "test", "version": "1"});
        server
            .request("initialize", &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}));
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    /// Sends a message and waits for nothing.
    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.input.as_ref().unwrap(), "{message}").unwrap();
    }

    /// The result of a request.
    pub(crate) fn request(&mut self, method: &str, parameters: &Value) -> Value {
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": parameters}));
        let line = self.line();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], self.next_id, "{line}");
        answer["result"].clone()
    }

    /// The next line of the server.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// The text of a call's result, or of its error.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Result<String, String> {
        let result = self.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        if result["isError"] == true { Err(text) } else { Ok(text) }
    }

    /// Closes the server's input; returns its exit status.
    pub(crate) fn close(mut self) -> i32 {
        self.input = None;
        self.process.wait().unwrap().code().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.process.wait();
    }
}
