//! `gpuprism view`: the page in a browser, with local files. The crate `gpuprism-server` serves both on this machine.

use super::{nsys, print, print_error};
use crate::{Error, Result};
use gpuprism_server::Stop;
use gpuprism_server::view::{self, Page};
use std::path::PathBuf;
use std::time::Duration;

/// Open the page in the browser with these files, or with a list of the traces in a folder.
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
}

pub(super) fn run(args: &Args) -> Result<()> {
    let page = args.page.clone().map_or(Page::Embedded, Page::Folder);
    page.check().map_err(|why| Error::refused("the page", why))?;
    // The page cannot read an .nsys-rep.
    let paths: Vec<PathBuf> = args.paths.iter().map(|path| nsys::exported(path, "nsys")).collect::<Result<_>>()?;
    let served = gpuprism_server::run(Duration::ZERO, async {
        let view = view::bind(args.port, page, &paths).await?;
        // Before the announcement: who reads it may stop the server at once.
        let stop = Stop::at_signal()?;
        let _ = print(&format!("{}\n", view.address));
        print_error("gpuprism: press Ctrl-C to stop; who knows the address can read the files");
        if !args.no_open && view::open_browser(&view.address).is_err() {
            print_error("gpuprism: no browser could be started: open the address yourself");
        }
        view.server.run(stop).await
    });
    served.map_err(|error| Error::refused("view", error.to_string()))
}
