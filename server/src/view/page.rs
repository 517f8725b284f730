//! The page: in the program, if it was built with the feature `embed-page`, or in a folder.

use flate2::read::GzDecoder;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Name and gzipped contents of each file of the page.
static EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

const INDEX: &str = "index.html";
/// It would keep an old page.
const SERVICE_WORKER: &str = "service-worker.js";

/// Where the page is.
#[derive(Debug, Clone)]
pub enum Page {
    /// In the program.
    Embedded,
    /// In a folder that `cargo xtask build` wrote.
    Folder(PathBuf),
}

/// One file of the page.
pub(super) struct Asset {
    pub(super) bytes: Vec<u8>,
    pub(super) content_type: &'static str,
}

impl Page {
    /// Why there is no page, as one sentence with the remedy.
    ///
    /// # Errors
    /// There is no page.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Embedded if EMBEDDED.is_empty() => Err(
                "this program was built without the page: build it with `cargo xtask release`, or name a built page with `--page dist`"
                    .to_owned(),
            ),
            Self::Folder(folder) if !folder.join(INDEX).is_file() => {
                Err(format!("{}: no built page: make one with `cargo xtask build`", folder.display()))
            }
            _ => Ok(()),
        }
    }

    /// The file with this name; the index for a folder. `None` if the page has none.
    pub(super) fn asset(&self, name: &str) -> Option<Asset> {
        let name = if name.is_empty() || name.ends_with('/') { format!("{name}{INDEX}") } else { name.to_owned() };
        if name == SERVICE_WORKER {
            return None;
        }
        let bytes = match self {
            Self::Embedded => embedded(&name)?.ok()?,
            Self::Folder(folder) => in_folder(folder, &name)?,
        };
        Some(Asset { bytes, content_type: content_type(&name) })
    }
}

fn embedded(name: &str) -> Option<io::Result<Vec<u8>>> {
    let (_, packed) = EMBEDDED.iter().find(|(known, _)| *known == name)?;
    let mut bytes = Vec::new();
    Some(GzDecoder::new(*packed).read_to_end(&mut bytes).map(|_| bytes))
}

/// The file, unless it is outside the folder.
fn in_folder(folder: &Path, name: &str) -> Option<Vec<u8>> {
    let folder = folder.canonicalize().ok()?;
    let path = folder.join(name).canonicalize().ok()?;
    (path.starts_with(&folder) && path.is_file()).then(|| std::fs::read(path).ok())?
}

/// `example.json.gz` is sent as it is, because the page unpacks it.
fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        _ => "application/octet-stream",
    }
}

/// The index with the address of the list of files, which tells the page that its server has one.
pub(super) fn with_file_list(mut index: Asset, address: &str) -> Asset {
    let html = String::from_utf8_lossy(&index.bytes);
    let tag = format!("<meta name=\"gpuprism-files\" content=\"{address}\">\n</head>");
    index.bytes = html.replacen("</head>", &tag, 1).into_bytes();
    index
}
