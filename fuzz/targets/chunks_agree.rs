//! However a file is cut into pieces, plain or packed, the same trace comes out, or an error both times.
//!
//! The first eight bytes of the input are the lengths of the pieces, in turn; the lowest two bits of the first say whether
//! the file is packed, and whether a byte of the packed file is spoilt. The rest is the file.

#![no_main]

use flate2::Compression;
use flate2::write::GzEncoder;
use gpuprism::Result;
use gpuprism::input::{Imported, Importer};
use libfuzzer_sys::{Corpus, fuzz_target};
use std::io::Write;

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((lengths, content)) = data.split_first_chunk::<8>() else { return Corpus::Reject };
    let file = if lengths[0] & 1 == 1 { packed(content, lengths) } else { content.to_vec() };
    let whole = import([&file[..]].into_iter());
    let cut = import(pieces(&file, lengths));
    match (whole, cut) {
        (Ok(Imported::Trace(whole)), Ok(Imported::Trace(cut))) => assert_eq!(whole, cut),
        (Ok(Imported::Document(whole)), Ok(Imported::Document(cut))) => assert_eq!(whole, cut),
        (Err(_), Err(_)) => {}
        (whole, cut) => panic!("whole {whole:?}, cut {cut:?}"),
    }
    Corpus::Keep
});

fn packed(content: &[u8], lengths: &[u8; 8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    let mut file = encoder.finish().unwrap();
    if lengths[0] & 2 == 2 {
        let at = usize::from(lengths[1]) * file.len() / 256;
        file[at] ^= lengths[2];
    }
    file
}

fn pieces<'a>(mut file: &'a [u8], lengths: &[u8; 8]) -> impl Iterator<Item = &'a [u8]> {
    let mut lengths = lengths.iter().cycle();
    std::iter::from_fn(move || {
        let length = lengths.next().map_or(1, |length| usize::from(*length) + 1);
        let (piece, rest) = file.split_at(length.min(file.len()));
        file = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

fn import<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<Imported> {
    let mut importer = Importer::with_code("fuzz");
    for piece in pieces {
        importer.feed(piece)?;
    }
    importer.finish()
}
