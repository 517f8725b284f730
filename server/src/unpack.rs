//! Decompresses an uploaded gzip file into the spool, up to a limit, in a few hundred KiB of memory.

use crate::private;
use crate::spool::{Folder, SpoolFull};
use flate2::bufread::MultiGzDecoder;
use gpuprism_capture::Cancel;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const BUFFER_BYTES: usize = 256 * 1024;

/// Why a file was not decompressed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The data needs more than this many bytes.
    TooLarge(u64),
    /// The data is a gzip file inside a gzip file.
    Nested,
    /// The gzip data is damaged or cut off after this many bytes of plain data.
    Damaged(u64),
    /// The spool is full.
    Full,
    /// The plain file could not be written.
    Write(io::Error),
    /// Nobody needs the file any more.
    Cancelled,
}

impl From<SpoolFull> for Failure {
    fn from(_: SpoolFull) -> Self {
        Self::Full
    }
}

/// Whether the file starts like a gzip file.
pub(crate) fn is_gzip(file: &Path) -> io::Result<bool> {
    let mut magic = [0; 2];
    match File::open(file)?.read_exact(&mut magic) {
        Ok(()) => Ok(magic == GZIP),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Decompresses `packed` to `plain`; both are files of `folder`.
pub(crate) fn unpack(
    folder: &mut Folder,
    packed: &Path,
    plain: &Path,
    max_bytes: u64,
    cancel: &Cancel,
) -> Result<(), Failure> {
    let input = File::open(packed).map_err(Failure::Write)?;
    let mut decoder = MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, input));
    let mut output = private::create_file(plain).map_err(Failure::Write)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut written = 0;
    loop {
        if cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        let bytes = match decoder.read(&mut buffer) {
            Ok(read) => buffer.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Err(Failure::Damaged(written)),
        };
        if bytes.is_empty() {
            return Ok(());
        }
        if written == 0 && bytes.starts_with(&GZIP) {
            return Err(Failure::Nested);
        }
        written += bytes.len() as u64;
        if written > max_bytes {
            return Err(Failure::TooLarge(max_bytes));
        }
        folder.reserve(bytes.len() as u64)?;
        output.write_all(bytes).map_err(Failure::Write)?;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::spool::Spool;
    use flate2::{Compression, write::GzEncoder};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// The result for a file with these bytes, and the plain file.
    fn unpacked(packed: &[u8], capacity: u64, max_bytes: u64) -> (Result<(), Failure>, Vec<u8>) {
        let parent = tempfile::tempdir().unwrap();
        let spool = Spool::new(parent.path(), capacity).unwrap();
        let mut folder = spool.folder().unwrap();
        let (from, to) = (folder.path("a.gz"), folder.path("a"));
        std::fs::write(&from, packed).unwrap();
        let result = unpack(&mut folder, &from, &to, max_bytes, &Cancel::default());
        (result, std::fs::read(to).unwrap_or_default())
    }

    #[test]
    fn all_members_of_a_gzip_file_are_decompressed() {
        let (result, plain) = unpacked(&[gzip(b"one "), gzip(b"two")].concat(), 100, 100);
        assert!(result.is_ok());
        assert_eq!(plain, b"one two");
    }

    #[test]
    fn a_gzip_bomb_stops_at_the_limit_and_never_fills_the_spool() {
        // 64 MiB of zeros in about 64 KB.
        let bomb = gzip(&vec![0; 64 << 20]);
        assert!(bomb.len() < 100_000);
        let (result, plain) = unpacked(&bomb, 64 << 20, 1 << 20);
        assert!(matches!(result, Err(Failure::TooLarge(_))), "{result:?}");
        assert!(plain.len() <= 1 << 20);
        let (result, plain) = unpacked(&bomb, 1 << 20, 64 << 20);
        assert!(matches!(result, Err(Failure::Full)), "{result:?}");
        assert!(plain.len() <= 1 << 20);
        let (result, _) = unpacked(&gzip(&bomb), 64 << 20, 64 << 20);
        assert!(matches!(result, Err(Failure::Nested)), "{result:?}");
    }

    #[test]
    fn damaged_gzip_data_is_refused_with_its_place() {
        let whole = gzip(&(0..100_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
        let (cut, _) = unpacked(&whole[..whole.len() / 2], 1 << 20, 1 << 20);
        assert!(matches!(cut, Err(Failure::Damaged(1..400_000))), "{cut:?}");
    }
}
