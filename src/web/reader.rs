//! Reads one file and analyses its trace.

use super::overview::Overview;
use super::{JsResult, to_js_error};
use crate::input::Importer;
use crate::json;
use crate::session::{self, Choices, Opened};
use crate::trace::{Format, Trace};
use std::cell::RefCell;
use wasm_bindgen::prelude::*;

/// Reads one file, chunk by chunk.
#[wasm_bindgen]
#[derive(Debug)]
pub struct TraceReader {
    pub(super) label: String,
    pub(super) importer: Importer,
    /// The part of the current chunk that is in the module's memory.
    pub(super) buffer: Vec<u8>,
}

/// The size of [`TraceReader::buffer`], so that chunks of any size take no more memory.
const BUFFER_BYTES: u32 = 1 << 20;

#[wasm_bindgen]
impl TraceReader {
    /// A reader for everything that reports need. `label` is the file name without folders.
    #[wasm_bindgen(constructor)]
    pub fn new(label: &str) -> Self {
        Self { label: label.to_owned(), importer: Importer::new(label), buffer: Vec::new() }
    }

    /// A reader that keeps only GPU events, to save memory. Calls and ranges are counted and dropped.
    pub fn gpu_ops_only(label: &str) -> Self {
        Self { label: label.to_owned(), importer: Importer::gpu_ops_only(label), buffer: Vec::new() }
    }

    /// Parses the next bytes of the file.
    ///
    /// # Errors
    /// The input is invalid.
    pub fn feed(&mut self, chunk: &js_sys::Uint8Array) -> JsResult<()> {
        let mut from = 0;
        while from < chunk.length() {
            let part = chunk.subarray(from, from.saturating_add(BUFFER_BYTES));
            self.buffer.resize(part.length() as usize, 0);
            part.copy_to(&mut self.buffer);
            let result = self.importer.feed(&self.buffer);
            if self.importer.needs_another_reader() {
                return Ok(());
            }
            result.map_err(to_js_error)?;
            from += part.length();
        }
        Ok(())
    }

    /// True if another reader has to read the file: the full module, and for a database its `read_database`.
    pub fn needs_another_reader(&self) -> bool {
        self.importer.needs_another_reader()
    }

    /// The number of GPU ops read so far.
    pub fn gpu_ops(&self) -> f64 {
        self.importer.gpu_ops() as f64
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The input is invalid.
    pub fn finish(self) -> JsResult<Imported> {
        let imported = self.importer.finish().map_err(to_js_error)?;
        let opened = session::open(&self.label, imported).map_err(to_js_error)?;
        Ok(Imported::of(opened))
    }
}

/// A file that has been read: a trace, which can be analyzed any number of times, or a file of another kind.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Imported {
    pub(super) opened: Opened,
    pub(super) overview: Overview,
    pub(super) window_cache: RefCell<session::WindowCache>,
    #[cfg(feature = "full")]
    pub(super) timeline_cache: super::full::timeline_cache::TimelineCache,
}

impl Imported {
    pub(super) fn of(opened: Opened) -> Self {
        Self {
            opened,
            overview: Overview::default(),
            window_cache: RefCell::default(),
            #[cfg(feature = "full")]
            timeline_cache: super::full::timeline_cache::TimelineCache::default(),
        }
    }

    pub(super) fn trace(&self) -> Option<&Trace> {
        if let Opened::Trace(trace) = &self.opened { Some(trace) } else { None }
    }

    /// The trace, to be completed. Results that were kept are those of the trace before.
    #[cfg(feature = "full")]
    pub(super) fn trace_to_join(&mut self) -> Option<&mut Trace> {
        self.window_cache = RefCell::default();
        self.timeline_cache = super::full::timeline_cache::TimelineCache::default();
        if let Opened::Trace(trace) = &mut self.opened { Some(trace) } else { None }
    }

    pub(super) fn require_trace(&self) -> JsResult<&Trace> {
        self.trace().ok_or_else(|| to_js_error("the file contains no trace"))
    }
}

#[wasm_bindgen]
impl Imported {
    /// True if the full module can triage the trace: if it comes from torch.profiler.
    pub fn can_triage(&self) -> bool {
        self.trace().is_some_and(|trace| trace.format == Format::TorchProfiler)
    }

    /// The number of ranks in the file: the number of GPUs if there are several, 1 for one rank of a job with several, else 0.
    pub fn ranks(&self) -> usize {
        match self.trace() {
            Some(trace) if trace.devices.len() > 1 => trace.devices.len(),
            Some(trace) => usize::from(trace.job.as_ref().is_some_and(|job| job.world_size > 1)),
            None => 0,
        }
    }

    /// The kind of the file: `trace`, `report`, `rules`, `phases`, `server`, or `foreign` for the report of another tool, which
    /// the full module can translate.
    pub fn kind(&self) -> String {
        match &self.opened {
            Opened::Trace(_) => "trace",
            Opened::Report(_) => "report",
            Opened::Foreign(_) => "foreign",
            Opened::Rules(_) => "rules",
            Opened::Phases(_) => "phases",
            Opened::ModelConfig(_) => "model",
            Opened::Server(_) => "server",
        }
        .to_owned()
    }

    /// The report under these choices as JSON text. A file that is a report is returned unchanged.
    ///
    /// # Errors
    /// An invalid rule file, an unknown engine or model, an invalid wall time, or a file that is neither trace nor report.
    pub fn analyze(&self, choices: &str) -> JsResult<String> {
        if let Opened::Report(report) = &self.opened {
            return Ok(report.compact());
        }
        let choices: Choices = json::read(choices).map_err(to_js_error)?;
        let trace = self.require_trace()?;
        self.window_cache.borrow_mut().report(trace, &choices).map_err(to_js_error)
    }

    /// True if the chosen window has so many GPU ops that partial results should be shown first.
    ///
    /// # Errors
    /// Those of [`session::takes_a_while`].
    pub fn takes_a_while(&self, choices: &str) -> JsResult<bool> {
        let Some(trace) = self.trace() else { return Ok(false) };
        session::takes_a_while(trace, &json::read(choices).map_err(to_js_error)?).map_err(to_js_error)
    }

    /// The text of a file that is not a trace.
    pub fn text(&self) -> String {
        match &self.opened {
            Opened::Trace(_) => String::new(),
            Opened::Report(report) => report.compact(),
            Opened::Foreign(text)
            | Opened::Rules(text)
            | Opened::Phases(text)
            | Opened::ModelConfig(text)
            | Opened::Server(text) => text.clone(),
        }
    }
}
