//! Serves functions as tools over the Model Context Protocol, on standard input and output, with the official SDK.
//!
//! The caller gives a list of tools and one function that runs them. Calls run one after the other on a thread of their own, so
//! that the protocol stays responsive and only one analysis uses memory. An error is a result that the client's model can read.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult, ErrorCode,
    ErrorData, Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    ToolAnnotations,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A tool.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// What it does and when to use it.
    pub description: &'static str,
    /// The JSON schema of its arguments, an object.
    pub input_schema: Map<String, Value>,
    /// Whether it only reads files. Other tools write files and talk to other machines; clients may ask before they call them.
    pub is_read_only: bool,
}

/// Runs the tool with this name. The error is one sentence for the caller.
pub type Call = Box<dyn FnMut(&str, Map<String, Value>) -> Result<String, String> + Send>;

/// The tools of a server, and what it tells a client about itself.
pub struct Server {
    name: &'static str,
    version: &'static str,
    instructions: &'static str,
    tools: Vec<Tool>,
    call: Arc<Mutex<Call>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("name", &self.name).field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl Server {
    /// A server with this name and version. The instructions say how the tools work together.
    pub fn new(
        name: &'static str,
        version: &'static str,
        instructions: &'static str,
        tools: Vec<Tool>,
        call: Call,
    ) -> Self {
        Self { name, version, instructions, tools, call: Arc::new(Mutex::new(call)) }
    }

    /// Serves the tools on standard input and output until the client closes its end.
    ///
    /// # Errors
    /// The client does not speak the protocol, or a stream fails.
    pub fn serve_stdio(self) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("the server cannot start: {error}"))?;
        let result = runtime.block_on(self.serve_on(rmcp::transport::stdio()));
        // A call that still runs must not keep the process alive.
        runtime.shutdown_background();
        result
    }

    /// Like [`Server::serve_stdio`], on any pair of streams.
    ///
    /// # Errors
    /// The client does not speak the protocol, or a stream fails.
    pub async fn serve_on<R, W>(self, streams: (R, W)) -> Result<(), String>
    where
        R: tokio::io::AsyncRead + Send + Unpin + 'static,
        W: tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        match ServiceExt::serve(self, streams).await {
            Ok(service) => service.waiting().await.map(|_| ()).map_err(|error| error.to_string()),
            // The client left before it said anything.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(format!("the client does not speak the Model Context Protocol: {error}")),
        }
    }

    /// Runs one call after those before it. A call that was cancelled while it waited does not start.
    async fn run(&self, request: CallToolRequestParams, cancelled: impl Future<Output = ()>) -> Result<String, String> {
        let name = request.name.into_owned();
        if !self.tools.iter().any(|tool| tool.name == name) {
            let known: Vec<&str> = self.tools.iter().map(|tool| tool.name).collect();
            const MAX_CHARS: usize = 100;
            let name: String = name.chars().take(MAX_CHARS).collect();
            return Err(format!("{name:?} is no tool of this server: call one of {}", known.join(", ")));
        }
        let arguments = request.arguments.unwrap_or_default();
        let mut call = tokio::select! {
            () = cancelled => return Err("the call was cancelled: call again if you need the result".to_owned()),
            call = Arc::clone(&self.call).lock_owned() => call,
        };
        let running = tokio::task::spawn_blocking(move || call(&name, arguments));
        let failed = |_| Err("the tool failed unexpectedly: report the error with the file that caused it".to_owned());
        running.await.unwrap_or_else(failed)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(self.name, self.version))
            .with_instructions(self.instructions)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let described = |tool: &Tool| {
            rmcp::model::Tool::new(tool.name, tool.description, Arc::new(tool.input_schema.clone()))
                .with_annotations(ToolAnnotations::new().read_only(tool.is_read_only).open_world(!tool.is_read_only))
        };
        Ok(ListToolsResult::with_all_items(self.tools.iter().map(described).collect()))
    }

    /// The library would repeat the name of the method, however long it is.
    async fn on_custom_request(
        &self,
        _: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no such method: this server has tools", None))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result = match self.run(request, context.ct.cancelled()).await {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(sentence) => CallToolResult::error(vec![ContentBlock::text(sentence)]),
        };
        Ok(result.into())
    }
}
