//! Reads an SQLite export from a browser's file, a few blocks of it in memory at a time.
//!
//! It works only in a worker, because it uses the synchronous `FileReaderSync`.

use crate::input::block_vfs::memory::ChunkedMemory;
use crate::input::block_vfs::{Database, Source};
use crate::input::{self, Unpacker, nsys, too_large_to_gunzip};
use crate::session;
use crate::trace::ProblemKind;
use crate::web::{Imported, JsResult, to_js_error};
use js_sys::{Function, Uint8Array};
use wasm_bindgen::prelude::*;
use web_sys::{Blob, DomException, FileReaderSync};

/// The size limit of a gzipped database, which is unpacked into memory as a whole.
const MAX_UNPACKED_BYTES: u64 = 512 << 20;
const CHUNK_BYTES: usize = 4 << 20;

/// Reads the export in `file`, plain or gzipped. `on_progress` is called with the number of rows read so far. `gpu_ops_only`
/// works like [`TraceReader::gpu_ops_only`](crate::web::TraceReader::gpu_ops_only).
///
/// # Errors
/// The input is invalid. A `DOMException` if the browser cannot read the file.
#[wasm_bindgen]
pub fn read_database(file: Blob, label: &str, gpu_ops_only: bool, on_progress: &Function) -> JsResult<Imported> {
    let file = BrowserFile::new(file)?;
    let mut damage = None;
    let source: Box<dyn Source> = if file.is_gzipped().map_err(|why| unreadable(&why))? {
        let (unpacked, found) = unpack(&file, label)?;
        damage = found;
        Box::new(unpacked)
    } else {
        Box::new(file)
    };
    let database = Database::open(source).map_err(|why| to_js_error(format!("{label}: {why}")))?;
    // Errors of the callback do not stop the import.
    let mut progress = |rows: u64| drop(on_progress.call1(&JsValue::NULL, &JsValue::from_f64(rows as f64)));
    let read = if gpu_ops_only { nsys::read_gpu_ops } else { nsys::read };
    let read = read(database.connection(), label, &mut progress);
    if let Some(why) = database.unreadable() {
        return Err(unreadable(&why));
    }
    let mut trace = read.map_err(to_js_error)?;
    if let Some((kind, offset)) = damage
        && !trace.problems.has(kind)
    {
        trace.problems.add(kind, 1, offset);
    }
    let opened = session::open(label, input::Imported::Trace(Box::new(trace))).map_err(to_js_error)?;
    Ok(Imported::of(opened))
}

/// The error that browsers throw for unreadable files. The page distinguishes it from invalid input.
fn unreadable(why: &str) -> JsValue {
    match DomException::new_with_message_and_name(why, "NotReadableError") {
        Ok(exception) => exception.into(),
        Err(error) => error,
    }
}

/// Unpacks the whole file. Also returns the kind and position of damage in the compressed data.
fn unpack(file: &BrowserFile, label: &str) -> JsResult<(ChunkedMemory, Option<(ProblemKind, u64)>)> {
    let mut unpacked = ChunkedMemory::default();
    let mut push = |plain: &[u8]| match unpacked.size() + plain.len() as u64 {
        size if size > MAX_UNPACKED_BYTES => Err(to_js_error(too_large_to_gunzip(label, MAX_UNPACKED_BYTES))),
        _ => unpacked.push(plain).map_err(|why| to_js_error(format!("{label}: {why}"))),
    };
    let mut unpacker = Unpacker::default();
    let mut chunk = Vec::new();
    for from in (0..file.size()).step_by(CHUNK_BYTES) {
        chunk.resize((file.size() - from).min(CHUNK_BYTES as u64) as usize, 0);
        file.read(from, &mut chunk).map_err(|why| unreadable(&why))?;
        unpacker.push(&chunk, &mut push)?;
    }
    let damage = unpacker.finish(&mut push)?;
    Ok((unpacked, damage))
}

/// A file that the user chose.
struct BrowserFile {
    file: Blob,
    reader: FileReaderSync,
}

impl BrowserFile {
    fn new(file: Blob) -> JsResult<Self> {
        Ok(Self { file, reader: FileReaderSync::new()? })
    }

    fn is_gzipped(&self) -> Result<bool, String> {
        let mut magic = [0; 2];
        let has_magic = self.size() >= magic.len() as u64;
        if has_magic {
            self.read(0, &mut magic)?;
        }
        Ok(has_magic && magic == [0x1f, 0x8b])
    }
}

impl Source for BrowserFile {
    fn size(&self) -> u64 {
        self.file.size() as u64
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        // JavaScript offsets are doubles: exact up to 8 PiB.
        let end = offset + into.len() as u64;
        let slice = self.file.slice_with_f64_and_f64(offset as f64, end as f64).map_err(|error| message(&error))?;
        let buffer = self.reader.read_as_array_buffer(&slice).map_err(|error| message(&error))?;
        let bytes = Uint8Array::new(&buffer);
        if bytes.length() as usize != into.len() {
            return Err("the file was deleted or changed, or access was denied".to_owned());
        }
        bytes.copy_to(into);
        Ok(())
    }
}

fn message(error: &JsValue) -> String {
    match error.dyn_ref::<DomException>() {
        Some(exception) => exception.message(),
        None => "the file was deleted or changed, or access was denied".to_owned(),
    }
}
