//! Reads an SQLite export out of a browser's file, of which it holds a few blocks at a time. Only the module
//! `gpuprism_full` has it, and only a worker can use it: the page itself has no reader that waits for bytes.

use super::{Imported, Thrown, thrown};
use crate::input::block_vfs::memory::ChunkedMemory;
use crate::input::block_vfs::{Database, Source};
use crate::input::{Unpacker, nsys, too_large_to_gunzip};
use crate::session::Opened;
use crate::trace::ProblemKind;
use js_sys::{Function, Uint8Array};
use wasm_bindgen::prelude::*;
use web_sys::{Blob, DomException, FileReaderSync};

/// A gzipped database is held whole, so there is a bound to its unpacked size.
const UNPACKED_BYTES: u64 = 512 << 20;
const PIECE_BYTES: usize = 4 << 20;

/// Reads the export that `file` holds, plain or gzipped; `on_progress` hears how many rows were read so far.
/// `gpu_ops_only` is [`TraceReader::gpu_ops_only`](super::TraceReader::gpu_ops_only) for a database.
///
/// # Errors
/// The sentence of a refused input; a `DOMException` where the browser cannot read the file.
#[wasm_bindgen]
pub fn read_database(file: Blob, label: &str, gpu_ops_only: bool, on_progress: &Function) -> Thrown<Imported> {
    let file = BrowserFile::new(file)?;
    let mut damage = None;
    let source: Box<dyn Source> = if file.is_gzipped().map_err(|why| unreadable(&why))? {
        let (pieces, met) = unpack(&file, label)?;
        damage = met;
        Box::new(pieces)
    } else {
        Box::new(file)
    };
    let database = Database::open(source).map_err(|why| thrown(format!("{label}: {why}")))?;
    // A listener that fails is no reason to stop.
    let mut progress = |rows: u64| drop(on_progress.call1(&JsValue::NULL, &JsValue::from_f64(rows as f64)));
    let read = if gpu_ops_only { nsys::read_gpu_ops } else { nsys::read };
    let read = read(database.connection(), label, &mut progress);
    if let Some(why) = database.unreadable() {
        return Err(unreadable(&why));
    }
    let mut trace = read.map_err(thrown)?;
    if let Some((kind, at)) = damage
        && !trace.problems.has(kind)
    {
        trace.problems.add(kind, 1, at);
    }
    Ok(Imported::of(Opened::Trace(Box::new(trace))))
}

/// The browser's own kind of error, which the page tells from a refusal.
fn unreadable(why: &str) -> JsValue {
    match DomException::new_with_message_and_name(why, "NotReadableError") {
        Ok(exception) => exception.into(),
        Err(error) => error,
    }
}

/// Unpacks the whole file; what is wrong with the packing, and where, comes beside it.
fn unpack(file: &BrowserFile, label: &str) -> Thrown<(ChunkedMemory, Option<(ProblemKind, u64)>)> {
    let mut pieces = ChunkedMemory::default();
    let mut push = |plain: &[u8]| match pieces.size() + plain.len() as u64 {
        size if size > UNPACKED_BYTES => Err(thrown(too_large_to_gunzip(label, UNPACKED_BYTES))),
        _ => pieces.push(plain).map_err(|why| thrown(format!("{label}: {why}"))),
    };
    let mut unpacker = Unpacker::default();
    let mut piece = Vec::new();
    for from in (0..file.size()).step_by(PIECE_BYTES) {
        piece.resize((file.size() - from).min(PIECE_BYTES as u64) as usize, 0);
        file.read(from, &mut piece).map_err(|why| unreadable(&why))?;
        unpacker.push(&piece, &mut push)?;
    }
    let damage = unpacker.finish(&mut push)?;
    Ok((pieces, damage))
}

/// A file that the person chose.
struct BrowserFile {
    file: Blob,
    reader: FileReaderSync,
}

impl BrowserFile {
    fn new(file: Blob) -> Thrown<Self> {
        Ok(Self { file, reader: FileReaderSync::new()? })
    }

    fn is_gzipped(&self) -> Result<bool, String> {
        let mut magic = [0; 2];
        let there = self.size() >= magic.len() as u64;
        if there {
            self.read(0, &mut magic)?;
        }
        Ok(there && magic == [0x1f, 0x8b])
    }
}

impl Source for BrowserFile {
    fn size(&self) -> u64 {
        self.file.size() as u64
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        // Offsets are doubles in JavaScript: exact up to 8 PiB.
        let end = offset + into.len() as u64;
        let slice = self.file.slice_with_f64_and_f64(offset as f64, end as f64).map_err(|error| message(&error))?;
        let buffer = self.reader.read_as_array_buffer(&slice).map_err(|error| message(&error))?;
        let bytes = Uint8Array::new(&buffer);
        if bytes.length() as usize != into.len() {
            return Err("it is gone, has changed or may not be read".to_owned());
        }
        bytes.copy_to(into);
        Ok(())
    }
}

fn message(error: &JsValue) -> String {
    match error.dyn_ref::<DomException>() {
        Some(exception) => exception.message(),
        None => "it is gone, has changed or may not be read".to_owned(),
    }
}
