//! Chunk boundaries do not change the result of an import: the same trace or document, or an error both times.
//!
//! The first eight bytes of the input are the lengths of the chunks, used in turn. Bit 0 of the first byte says that the file is
//! gzipped, bit 1 that a byte of the gzipped file is damaged. The rest is the file.

use flate2::Compression;
use flate2::write::GzEncoder;
use gpuprism::Result;
use gpuprism::input::{Imported, Importer};
use std::io::Write;

/// Checks one input.
pub fn check(data: &[u8]) {
    let Some((lengths, content)) = data.split_first_chunk::<8>() else { return };
    let file = if lengths[0] & 1 == 1 { gzipped(content, lengths) } else { content.to_vec() };
    let whole = import([&file[..]].into_iter());
    let cut = import(chunks(&file, lengths));
    match (whole, cut) {
        (Ok(Imported::Trace(whole)), Ok(Imported::Trace(cut))) => assert_eq!(whole, cut),
        (Ok(Imported::Document(whole)), Ok(Imported::Document(cut))) => assert_eq!(whole, cut),
        (Err(_), Err(_)) => {}
        (whole, cut) => panic!("whole {whole:?}, cut {cut:?}"),
    }
}

fn gzipped(content: &[u8], lengths: &[u8; 8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    let mut file = encoder.finish().unwrap();
    if lengths[0] & 2 == 2 {
        let at = usize::from(lengths[1]) * file.len() / 256;
        file[at] ^= lengths[2];
    }
    file
}

fn chunks<'a>(mut file: &'a [u8], lengths: &[u8; 8]) -> impl Iterator<Item = &'a [u8]> {
    let mut lengths = lengths.iter().cycle();
    std::iter::from_fn(move || {
        let length = lengths.next().map_or(1, |length| usize::from(*length) + 1);
        let (chunk, rest) = file.split_at(length.min(file.len()));
        file = rest;
        (!chunk.is_empty()).then_some(chunk)
    })
}

fn import<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Result<Imported> {
    let mut importer = Importer::with_code("fuzz");
    for chunk in chunks {
        importer.feed(chunk)?;
    }
    importer.finish()
}
