//! Gunzip, chunk by chunk, on zlib-rs: several members in one file, and what a cut or damaged file still holds.

use crate::trace::ProblemKind;
use flate2::{Decompress, FlushDecompress, Status};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The window of every gzip file.
const WINDOW_BITS: u8 = 15;
const OUTPUT_BYTES: usize = 1 << 20;

/// Passes plain bytes through and unpacks gzipped ones.
#[derive(Debug)]
pub struct Unpacker {
    state: State,
    output: Vec<u8>,
    read: u64,
}

#[derive(Debug)]
enum State {
    /// Fewer than two bytes seen.
    Undecided(Vec<u8>),
    Plain,
    /// In a member that begins at this byte of the packed file.
    Inside(Decompress, u64),
    /// After a member: another may follow, or padding.
    Between,
    /// No more can be read: the member that begins at this byte of the packed file is damaged, or is none.
    Damaged(u64),
}

impl Default for Unpacker {
    fn default() -> Self {
        Self { state: State::Undecided(Vec::new()), output: Vec::new(), read: 0 }
    }
}

impl Unpacker {
    /// Takes the next bytes of the file and gives `out` the plain bytes they hold, in pieces of at most 1 MiB when packed.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn push<E>(&mut self, bytes: &[u8], out: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if let State::Undecided(seen) = &mut self.state {
            seen.extend_from_slice(bytes);
            if seen.len() < GZIP_MAGIC.len() {
                return Ok(());
            }
            let seen = std::mem::take(seen);
            self.state = if seen.starts_with(&GZIP_MAGIC) { State::Between } else { State::Plain };
            return self.decided(&seen, out);
        }
        self.decided(bytes, out)
    }

    /// True once it is known that the file is not packed: `push` would only pass bytes through.
    pub fn is_plain(&self) -> bool {
        matches!(self.state, State::Plain)
    }

    fn decided<E>(&mut self, bytes: &[u8], out: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if matches!(self.state, State::Plain) {
            return out(bytes);
        }
        self.output.resize(OUTPUT_BYTES, 0);
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            let at = self.read + (bytes.len() - rest.len()) as u64;
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
        self.read += bytes.len() as u64;
        Ok(())
    }

    /// Unpacks until the input or the member ends; gives back what is left of the input.
    fn inflate<'a, E>(&mut self, bytes: &'a [u8], out: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<&'a [u8], E> {
        let mut rest = bytes;
        while let State::Inside(member, begin) = &mut self.state {
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
                Ok(_) | Err(_) => self.state = State::Damaged(*begin),
            }
        }
        Ok(rest)
    }

    /// Ends the file: hands over what was held back and tells what was wrong with the packing, and where.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish<E>(self, out: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<Option<(ProblemKind, u64)>, E> {
        match self.state {
            State::Undecided(seen) => out(&seen).map(|()| None),
            State::Inside(..) => Ok(Some((ProblemKind::Truncated, self.read))),
            State::Damaged(at) => Ok(Some((ProblemKind::DamagedGzip, at))),
            State::Plain | State::Between => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::convert::Infallible;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn unpack(packed: &[u8], piece: usize) -> (Vec<u8>, Option<ProblemKind>) {
        let mut plain = Vec::new();
        let mut out = |bytes: &[u8]| -> Result<(), Infallible> {
            plain.extend_from_slice(bytes);
            Ok(())
        };
        let mut unpacker = Unpacker::default();
        for piece in packed.chunks(piece) {
            unpacker.push(piece, &mut out).unwrap();
        }
        let problem = unpacker.finish(&mut out).unwrap();
        (plain, problem.map(|(kind, _)| kind))
    }

    #[test]
    fn members_follow_each_other_whatever_the_pieces() {
        let text: Vec<u8> = (0..300_000_u32).flat_map(|number| number.to_string().into_bytes()).collect();
        let (first, second) = text.split_at(1_234_567);
        let packed = [gzip(first), gzip(b""), gzip(second), vec![0; 512]].concat();
        for piece in [1, 7, 4096, usize::MAX >> 1] {
            assert_eq!(unpack(&packed, piece), (text.clone(), None), "pieces of {piece}");
        }
    }

    #[test]
    fn a_cut_or_damaged_file_gives_what_it_holds() {
        let text = vec![b'x'; 100_000];
        let packed = gzip(&text);
        let (plain, problem) = unpack(&packed[..packed.len() - 9], 64);
        assert_eq!(problem, Some(ProblemKind::Truncated));
        assert!(plain.len() > 90_000 && plain.iter().all(|byte| *byte == b'x'));
        let (plain, problem) = unpack(&[packed, b"rubbish".to_vec()].concat(), 64);
        assert_eq!((plain, problem), (text, Some(ProblemKind::DamagedGzip)));
    }

    #[test]
    fn plain_text_passes_through() {
        for text in [&b""[..], b"{", b"{}", b"\x1f"] {
            assert_eq!(unpack(text, 1), (text.to_vec(), None));
        }
    }
}
