//! `gpuprism view`: the page in a browser, with local files, and with captures from a running server. The crate `gpuprism-server`
//! serves all of it on this machine.

use super::{capture, nsys, print, print_error};
use crate::{Error, Result};
use gpuprism_capture::Options;
use gpuprism_server::Stop;
use gpuprism_server::view::{self, Page};
use std::path::PathBuf;
use std::time::Duration;

/// Open the page in the browser with these files, with a list of the traces in a folder, or to capture from a running server.
///
/// The page is served on this machine only, at an address that contains a random token. The browser reads the files in parts, so they
/// may be larger than the memory.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// Traces and reports, which are opened, or a folder, whose traces are listed as they appear.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Print the address and open no browser.
    #[arg(long)]
    no_open: bool,
    /// The port to listen on; 0 lets the system choose one.
    #[arg(long, default_value_t = 0, value_name = "N")]
    port: u16,
    /// Serve the page in this folder, which `cargo xtask build` wrote, instead of the one in the program.
    #[arg(long, value_name = "DIR")]
    page: Option<PathBuf>,
    /// Let the page capture traces from this server: its URL, such as http://127.0.0.1:30000.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The folder for captures; each gets a folder of its own in it.
    #[arg(long, default_value = "gpuprism-captures", value_name = "DIR", requires = "server")]
    out: PathBuf,
    /// The folder to which the server writes, as the server sees it. vLLM: the torch_profiler_dir of its --profiler-config.
    #[arg(long, value_name = "DIR", requires = "server")]
    server_folder: Option<String>,
    /// Where that folder is on this machine, if its path differs.
    #[arg(long, value_name = "DIR", requires = "server")]
    shared_folder: Option<PathBuf>,
    /// The config.json of the model, to be kept with the traces.
    #[arg(long, value_name = "FILE", requires = "server")]
    config: Option<PathBuf>,
    /// The key that the server asks for. Better: set GPUPRISM_API_KEY, which other users of the machine do not see.
    #[arg(long, value_name = "KEY", requires = "server")]
    api_key: Option<String>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let page = args.page.clone().map_or(Page::Embedded, Page::Folder);
    page.check().map_err(|why| Error::refused("the page", why))?;
    // The page cannot read an .nsys-rep.
    let paths: Vec<PathBuf> = args.paths.iter().map(|path| nsys::exported(path, "nsys")).collect::<Result<_>>()?;
    let served = gpuprism_server::run(Duration::ZERO, async {
        let view = view::bind(args.port, page, &paths, capture_options(args)).await?;
        // Before the announcement: who reads it may stop the server at once.
        let stop = Stop::at_signal()?;
        let _ = print(&format!("{}\n", view.address));
        print_error("gpuprism: press Ctrl-C to stop; who knows the address can read the files");
        if !args.no_open && view::open_browser(&view.address).is_err() {
            print_error("gpuprism: no browser could be started: open the address yourself");
        }
        view.run(stop).await
    });
    served.map_err(|error| Error::refused("view", error.to_string()))
}

/// What the page cannot choose of a capture.
fn capture_options(args: &Args) -> Option<Options> {
    Some(Options {
        api_key: capture::key(args.api_key.as_deref()),
        server_folder: args.server_folder.clone(),
        shared_folder: args.shared_folder.clone(),
        model_config: args.config.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Options::new(args.server.as_deref()?, &args.out)
    })
}
