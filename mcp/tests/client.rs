//! The server against the client of the SDK, in one process.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use gpuprism_mcp::{Server, Tool};
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::RunningService;
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

/// A tool that repeats its argument, and one that panics.
fn server() -> Server {
    let tool = |name| Tool { name, description: "For tests.", input_schema: Map::new(), is_read_only: true };
    let call = |name: &str, arguments: Map<String, Value>| match name {
        "echo" => match arguments.get("text").and_then(Value::as_str) {
            Some(text) => Ok(text.to_owned()),
            None => Err("no text: give `text`".to_owned()),
        },
        _ => panic!("a defect of a tool"),
    };
    Server::new("test", "1.2.3", "Read this.", vec![tool("echo"), tool("broken")], Box::new(call))
}

type Client = RunningService<RoleClient, ()>;

async fn connected() -> (Client, JoinHandle<Result<(), String>>) {
    let (server_end, client_end) = tokio::io::duplex(4_096);
    let serving = tokio::spawn(server().serve_on(tokio::io::split(server_end)));
    (().serve(client_end).await.unwrap(), serving)
}

async fn call(client: &Client, name: &'static str, arguments: Value) -> (String, bool) {
    let request = CallToolRequestParams::new(name).with_arguments(arguments.as_object().unwrap().clone());
    let result: CallToolResult = client.call_tool(request).await.unwrap();
    (result.content[0].as_text().unwrap().text.clone(), result.is_error.unwrap_or(false))
}

#[tokio::test]
async fn a_client_sees_the_tools_and_the_instructions() {
    let (client, _) = connected().await;
    let info = client.peer_info().unwrap();
    assert_eq!(info.instructions.as_deref(), Some("Read this."));
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools.iter().map(|tool| tool.name.as_ref()).collect::<Vec<_>>(), ["echo", "broken"]);
    assert_eq!(tools[0].annotations.as_ref().unwrap().read_only_hint, Some(true));
}

#[tokio::test]
async fn results_errors_and_unknown_tools_are_texts_for_the_model() {
    let (client, _) = connected().await;
    assert_eq!(call(&client, "echo", json!({"text": "a"})).await, ("a".to_owned(), false));
    assert_eq!(call(&client, "echo", json!({})).await, ("no text: give `text`".to_owned(), true));
    let unknown = "\"shell\" is no tool of this server: call one of echo, broken".to_owned();
    assert_eq!(call(&client, "shell", json!({})).await, (unknown, true));
}

#[tokio::test]
async fn a_tool_that_fails_unexpectedly_is_an_error_and_the_server_goes_on() {
    let (client, _) = connected().await;
    let (text, is_error) = call(&client, "broken", json!({})).await;
    assert!(is_error && text.starts_with("the tool failed unexpectedly"), "{text}");
    assert_eq!(call(&client, "echo", json!({"text": "b"})).await, ("b".to_owned(), false));
}

#[tokio::test]
async fn the_server_ends_when_the_client_leaves_also_before_it_said_anything() {
    let (client, serving) = connected().await;
    client.cancel().await.unwrap();
    assert_eq!(serving.await.unwrap(), Ok(()));
    let (server_end, client_end) = tokio::io::duplex(64);
    drop(client_end);
    assert_eq!(server().serve_on(tokio::io::split(server_end)).await, Ok(()));
}
