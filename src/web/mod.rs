//! The wasm-bindgen shell: what the page's workers call. No logic here; docs/page.md describes the interface.
//!
//! Text crosses the border as strings that are ready to show; 64-bit nanoseconds never become a JS number.

#[cfg(feature = "full")]
mod dashboard;
#[cfg(feature = "full")]
mod database;
#[cfg(feature = "full")]
mod desk;
mod kernel;
mod pivot;
mod ranks;
#[cfg(feature = "full")]
mod rules;
#[cfg(feature = "full")]
mod share;
mod timeline;
#[cfg(feature = "full")]
mod triage;
mod view;

#[cfg(feature = "full")]
pub use database::read_database;
#[cfg(feature = "full")]
pub use desk::Desk;
#[cfg(feature = "full")]
pub use pivot::Pivot;
#[cfg(feature = "full")]
pub use ranks::Ranks;
#[cfg(feature = "full")]
pub use triage::{Triage, choose_files, is_capture};

use crate::input::Importer;
use crate::json;
use crate::report::{Report, TableRequest, bars, chart, foreign, legend, palette};
use crate::session::{self, Choices, Opened, RuleFile};
use crate::trace::Format;
use serde::Serialize;
use std::cell::RefCell;
use wasm_bindgen::prelude::*;

type Thrown<T> = Result<T, JsValue>;

/// Errors cross the border as their sentence.
fn thrown(error: impl std::fmt::Display) -> JsValue {
    JsValue::from_str(&error.to_string())
}

fn to_js(value: &impl Serialize) -> Thrown<JsValue> {
    value.serialize(&serde_wasm_bindgen::Serializer::json_compatible()).map_err(thrown)
}

/// Sends panics to the console before the module dies: the worker's `onerror` alone says `unreachable`.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| web_sys::console::error_1(&JsValue::from_str(&panic.to_string()))));
}

/// Reads one file.
#[wasm_bindgen]
#[derive(Debug)]
pub struct TraceReader {
    label: String,
    importer: Importer,
    piece: Vec<u8>,
}

/// A chunk is copied into the module in pieces of this size, so that chunks of any size cost no more memory.
const PIECE_BYTES: u32 = 1 << 20;

#[wasm_bindgen]
impl TraceReader {
    /// `label` is the file's base name.
    #[wasm_bindgen(constructor)]
    pub fn new(label: &str) -> Self {
        Self { label: label.to_owned(), importer: Importer::new(label), piece: Vec::new() }
    }

    /// One that reads GPU events alone, where memory is short: calls and ranges are counted and left out.
    pub fn gpu_ops_only(label: &str) -> Self {
        Self { label: label.to_owned(), importer: Importer::gpu_ops_only(label), piece: Vec::new() }
    }

    /// Takes the next bytes of the file.
    ///
    /// # Errors
    /// The sentence of a refused input.
    pub fn feed(&mut self, chunk: &js_sys::Uint8Array) -> Thrown<()> {
        let mut from = 0;
        while from < chunk.length() {
            let part = chunk.subarray(from, from.saturating_add(PIECE_BYTES));
            self.piece.resize(part.length() as usize, 0);
            part.copy_to(&mut self.piece);
            let fed = self.importer.feed(&self.piece);
            if self.importer.is_database() {
                return Ok(());
            }
            fed.map_err(thrown)?;
            from += part.length();
        }
        Ok(())
    }

    /// True where the bytes so far, unpacked, begin a database: `read_database` of the module `gpuprism_full` reads it.
    pub fn is_database(&self) -> bool {
        self.importer.is_database()
    }

    /// How many GPU ops were read so far.
    pub fn gpu_ops(&self) -> f64 {
        self.importer.gpu_ops() as f64
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The sentence of a refused input.
    pub fn finish(self) -> Thrown<Imported> {
        let imported = self.importer.finish().map_err(thrown)?;
        let opened = session::open(&self.label, imported).map_err(thrown)?;
        Ok(Imported::of(opened))
    }
}

/// What a file turned out to be, ready to be analysed again and again.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Imported {
    opened: Opened,
    overview: timeline::Overview,
    stays: RefCell<session::Stays>,
}

impl Imported {
    fn of(opened: Opened) -> Self {
        Self { opened, overview: timeline::Overview::default(), stays: RefCell::default() }
    }
}

#[wasm_bindgen]
impl Imported {
    /// Can the module `gpuprism_full` say more of this trace? It can of torch.profiler's.
    pub fn can_triage(&self) -> bool {
        matches!(&self.opened, Opened::Trace(trace) if trace.format == Format::TorchProfiler)
    }

    /// `trace`, `report`, `rules`, `phases` or `server`; `foreign`, which the module `gpuprism_full` can translate.
    pub fn kind(&self) -> String {
        match &self.opened {
            Opened::Trace(_) => "trace",
            Opened::Report(_) => "report",
            Opened::Foreign(_) => "foreign",
            Opened::Rules(_) => "rules",
            Opened::Phases(_) => "phases",
            Opened::Server(_) => "server",
        }
        .to_owned()
    }

    /// The report's JSON text of this trace under these choices; an earlier report stays as it is.
    ///
    /// # Errors
    /// A rule file that cannot be used, an unknown engine or model, a wall time that is no number.
    pub fn analyze(&self, choices: &str) -> Thrown<String> {
        let choices: Choices = json::read(choices).map_err(thrown)?;
        match &self.opened {
            Opened::Trace(trace) => {
                session::report_in_turn(trace, &choices, &mut self.stays.borrow_mut()).map_err(thrown)
            }
            Opened::Report(report) => Ok(report.compact()),
            Opened::Foreign(_) | Opened::Rules(_) | Opened::Phases(_) | Opened::Server(_) => {
                Err(thrown("the file holds no trace"))
            }
        }
    }

    /// Are there so many GPU ops in the chosen window that what is quickly known of them should be shown before the rest?
    ///
    /// # Errors
    /// Those of [`session::takes_a_while`].
    pub fn takes_a_while(&self, choices: &str) -> Thrown<bool> {
        let Opened::Trace(trace) = &self.opened else { return Ok(false) };
        session::takes_a_while(trace, &json::read(choices).map_err(thrown)?).map_err(thrown)
    }

    /// The text of a report, of another tool's file or of a file that tells how to count; empty for a trace.
    pub fn text(&self) -> String {
        match &self.opened {
            Opened::Trace(_) => String::new(),
            Opened::Report(report) => report.compact(),
            Opened::Foreign(text) | Opened::Rules(text) | Opened::Phases(text) | Opened::Server(text) => text.clone(),
        }
    }
}

/// One report of the report texts of all open files.
fn merged(texts: &[String]) -> Thrown<Report> {
    let mut runs = Vec::new();
    for text in texts {
        runs.extend(Report::read("report", text).map_err(thrown)?.runs);
    }
    foreign::attach_series(&mut runs);
    Ok(Report::new(runs))
}

/// The runs of all open files, merged and laid out for the page. Holds no trace.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Reports {
    report: Report,
    arranged: Option<view::Arranged>,
}

#[wasm_bindgen]
impl Reports {
    /// Without runs.
    #[wasm_bindgen(constructor)]
    #[allow(clippy::new_without_default, reason = "JavaScript has no Default")]
    pub fn new() -> Self {
        Self { report: Report::new(Vec::new()), arranged: None }
    }

    /// Takes the report texts of all open files, in the order of the files.
    ///
    /// # Errors
    /// A text that is no report.
    pub fn set(&mut self, texts: Vec<String>) -> Thrown<()> {
        self.arranged = None;
        self.report = merged(&texts)?;
        Ok(())
    }

    /// Verdict, runs with facts and notices, legend and tabs.
    ///
    /// # Errors
    /// Never in practice: the view is strings.
    pub fn overview(&self) -> Thrown<JsValue> {
        to_js(&view::overview(&self.report))
    }

    /// The bars as a list of SVG nodes.
    ///
    /// # Errors
    /// Never in practice: the nodes are strings.
    pub fn chart(&self, width: u32, hidden: Vec<String>) -> Thrown<JsValue> {
        let legend = legend(&self.report);
        let legend: Vec<&str> = legend.iter().map(String::as_str).collect();
        let hidden: Vec<&str> = hidden.iter().map(String::as_str).collect();
        to_js(&chart::stacked_bars(&bars(&self.report), &legend, &hidden, width))
    }

    /// A table, sorted and filtered as asked, the rows asked for cell by cell as text; null where the runs asked for have
    /// none of this id.
    ///
    /// # Errors
    /// A request of another shape.
    pub fn table(&mut self, request: &JsValue) -> Thrown<JsValue> {
        let request: TableRequest = json::read(&String::from(js_sys::JSON::stringify(request)?)).map_err(thrown)?;
        let kept = self.arranged.take().filter(|kept| kept.answers(&request));
        self.arranged = kept.or_else(|| view::Arranged::of(&self.report, &request));
        to_js(&self.arranged.as_ref().map(|arranged| arranged.view(&request)))
    }
}

/// One engine of [`rule_sets`] and its models.
#[derive(Serialize)]
struct Engine {
    engine: String,
    models: Vec<String>,
}

/// The engines and models to choose from, given the person's rule files.
///
/// # Errors
/// A rule file that cannot be used, named by file, engine, model and rule.
#[wasm_bindgen]
pub fn rule_sets(files: &str) -> Thrown<JsValue> {
    let files: Vec<RuleFile> = json::read(files).map_err(thrown)?;
    let (book, _) = session::rule_book(&files).map_err(thrown)?;
    let mut engines: Vec<Engine> = Vec::new();
    for (engine, model) in book.sets() {
        match engines.iter_mut().find(|known| known.engine == engine) {
            Some(known) => known.models.push(model.to_owned()),
            None => engines.push(Engine { engine: engine.to_owned(), models: vec![model.to_owned()] }),
        }
    }
    to_js(&engines)
}

/// The stylesheet of categories and charts.
#[wasm_bindgen]
pub fn palette_css() -> String {
    palette::css() + chart::CSS
}

/// What this build is.
#[derive(Serialize)]
struct BuildInfo {
    version: &'static str,
    simd: bool,
}

/// The version, and whether the module was built with SIMD.
///
/// # Errors
/// Never in practice.
#[wasm_bindgen]
pub fn build_info() -> Thrown<JsValue> {
    to_js(&BuildInfo { version: env!("CARGO_PKG_VERSION"), simd: cfg!(target_feature = "simd128") })
}
