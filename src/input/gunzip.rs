//! Streaming gzip decompression (zlib-rs). Reads files of several members, and the intact part of cut or damaged files.

use crate::trace::ProblemKind;
use flate2::{Decompress, FlushDecompress, Status};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The window size of the gzip format.
const WINDOW_BITS: u8 = 15;
const OUTPUT_BYTES: usize = 1 << 20;

/// Decompresses gzip; passes all other bytes through.
#[derive(Debug)]
pub struct Unpacker {
    state: State,
    output: Vec<u8>,
    /// Bytes of the compressed file read so far.
    read_bytes: u64,
}

#[derive(Debug)]
enum State {
    /// Less than the magic number was read; has the bytes so far.
    Undecided(Vec<u8>),
    Plain,
    /// In a gzip member that starts at this offset of the compressed file.
    Inside(Decompress, u64),
    /// Between members; zero padding may follow.
    Between,
    /// The data is damaged before this offset of the compressed file, or not a gzip member from there on. The rest is ignored.
    Damaged(u64),
}

impl Default for Unpacker {
    fn default() -> Self {
        Self { state: State::Undecided(Vec::new()), output: Vec::new(), read_bytes: 0 }
    }
}

impl Unpacker {
    /// Takes the next bytes of the file and passes the decompressed bytes to `out`, in slices of at most 1 MiB.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn push<E>(&mut self, bytes: &[u8], out: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if let State::Undecided(first_bytes) = &mut self.state {
            first_bytes.extend_from_slice(bytes);
            if first_bytes.len() < GZIP_MAGIC.len() {
                return Ok(());
            }
            let first_bytes = std::mem::take(first_bytes);
            self.state = if first_bytes.starts_with(&GZIP_MAGIC) { State::Between } else { State::Plain };
            return self.decompress(&first_bytes, out);
        }
        self.decompress(bytes, out)
    }

    /// Returns true if the file was detected not to be gzip: `push` then passes bytes through.
    pub fn is_plain(&self) -> bool {
        matches!(self.state, State::Plain)
    }

    fn decompress<E>(&mut self, bytes: &[u8], out: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if matches!(self.state, State::Plain) {
            return out(bytes);
        }
        self.output.resize(OUTPUT_BYTES, 0);
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            let at = self.read_bytes + (bytes.len() - rest.len()) as u64;
            match &mut self.state {
                State::Between if first == GZIP_MAGIC[0] => {
                    self.state = State::Inside(Decompress::new_gzip(WINDOW_BITS), at);
                }
                State::Between if first == 0 => rest = rest.get(1..).unwrap_or_default(),
                State::Between => self.state = State::Damaged(at),
                State::Inside(..) => rest = self.inflate(rest, out)?,
                State::Damaged(_) | State::Plain | State::Undecided(_) => break,
            }
        }
        self.read_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Decompresses until the input or the member ends; returns the rest of the input.
    fn inflate<'a, E>(&mut self, bytes: &'a [u8], out: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<&'a [u8], E> {
        let mut rest = bytes;
        while let State::Inside(member, start) = &mut self.state {
            let (read, written) = (member.total_in(), member.total_out());
            let status = member.decompress(rest, &mut self.output, FlushDecompress::None);
            let read = usize::try_from(member.total_in() - read).unwrap_or(rest.len());
            let written = usize::try_from(member.total_out() - written).unwrap_or_default();
            rest = rest.get(read..).unwrap_or_default();
            out(self.output.get(..written).unwrap_or_default())?;
            match status {
                Ok(Status::StreamEnd) => self.state = State::Between,
                Ok(_) if rest.is_empty() && written < self.output.len() => return Ok(rest),
                Ok(_) if read > 0 || written > 0 => {}
                Ok(_) | Err(_) => self.state = State::Damaged(*start + member.total_in()),
            }
        }
        Ok(rest)
    }

    /// Ends the file and passes buffered bytes to `out`. Returns the problem of the compressed data and its offset, if any.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish<E>(self, out: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<Option<(ProblemKind, u64)>, E> {
        match self.state {
            State::Undecided(first_bytes) => out(&first_bytes).map(|()| None),
            State::Inside(..) => Ok(Some((ProblemKind::Truncated, self.read_bytes))),
            State::Damaged(at) => Ok(Some((ProblemKind::DamagedGzip, at))),
            State::Plain | State::Between => Ok(None),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::convert::Infallible;
    use std::io::Write;

    pub(in crate::input) fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn gunzip(packed: &[u8], chunk_bytes: usize) -> (Vec<u8>, Option<ProblemKind>) {
        let mut plain = Vec::new();
        let mut out = |bytes: &[u8]| -> Result<(), Infallible> {
            plain.extend_from_slice(bytes);
            Ok(())
        };
        let mut unpacker = Unpacker::default();
        for chunk in packed.chunks(chunk_bytes) {
            unpacker.push(chunk, &mut out).unwrap();
        }
        let problem = unpacker.finish(&mut out).unwrap();
        (plain, problem.map(|(kind, _)| kind))
    }

    #[test]
    fn all_members_are_read_with_any_chunk_size() {
        let text: Vec<u8> = (0..300_000_u32).flat_map(|number| number.to_string().into_bytes()).collect();
        let (first, second) = text.split_at(1_234_567);
        let packed = [gzip(first), gzip(b""), gzip(second), vec![0; 512]].concat();
        for chunk_bytes in [1, 7, 4096, usize::MAX >> 1] {
            assert_eq!(gunzip(&packed, chunk_bytes), (text.clone(), None), "chunks of {chunk_bytes}");
        }
    }

    #[test]
    fn the_intact_part_of_a_cut_or_damaged_file_is_read() {
        let text = vec![b'x'; 100_000];
        let packed = gzip(&text);
        let (plain, problem) = gunzip(&packed[..packed.len() - 9], 64);
        assert_eq!(problem, Some(ProblemKind::Truncated));
        assert!(plain.len() > 90_000 && plain.iter().all(|byte| *byte == b'x'));
        let (plain, problem) = gunzip(&[packed, b"rubbish".to_vec()].concat(), 64);
        assert_eq!((plain, problem), (text, Some(ProblemKind::DamagedGzip)));
    }

    #[test]
    fn damage_is_where_it_was_found_also_if_only_the_check_sum_is_wrong() {
        let mut packed = gzip(&[b'x'; 100_000]);
        let at = packed.len() - 8;
        packed[at] ^= 1;
        let (mut unpacker, mut plain) = (Unpacker::default(), 0);
        let mut out = |bytes: &[u8]| -> Result<(), Infallible> {
            plain += bytes.len();
            Ok(())
        };
        unpacker.push(&packed, &mut out).unwrap();
        let problem = unpacker.finish(&mut out).unwrap();
        assert!(matches!(problem, Some((ProblemKind::DamagedGzip, found)) if found >= at as u64), "{problem:?}");
        assert_eq!(plain, 100_000);
    }

    #[test]
    fn plain_text_passes_through() {
        for text in [&b""[..], b"{", b"{}", b"\x1f"] {
            assert_eq!(gunzip(text, 1), (text.to_vec(), None));
        }
    }
}
