//! A file held in memory piece by piece: growing it copies nothing and needs no memory twice.

use super::Source;

const PIECE_BYTES: usize = 1 << 20;

/// Bytes in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct ChunkedMemory {
    /// All of them full but the last.
    pieces: Vec<Vec<u8>>,
    size: u64,
}

impl ChunkedMemory {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// Where there is no memory for them.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = match self.pieces.last_mut().filter(|piece| piece.len() < PIECE_BYTES) {
                Some(room) => room,
                None => self.add()?,
            };
            let (now, later) = rest.split_at(rest.len().min(PIECE_BYTES - room.len()));
            room.extend_from_slice(now);
            self.size += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    fn add(&mut self) -> Result<&mut Vec<u8>, String> {
        let mut piece = Vec::new();
        piece.try_reserve_exact(PIECE_BYTES).map_err(|_| "out of memory".to_owned())?;
        Ok(self.pieces.push_mut(piece))
    }
}

impl Source for ChunkedMemory {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        let (mut rest, mut at) = (into, offset as usize);
        while !rest.is_empty() {
            let piece = self.pieces.get(at / PIECE_BYTES).and_then(|piece| piece.get(at % PIECE_BYTES..));
            let piece = piece.filter(|piece| !piece.is_empty()).ok_or("beyond the end")?;
            let count = piece.len().min(rest.len());
            let (to, later) = rest.split_at_mut(count);
            to.copy_from_slice(piece.get(..count).unwrap_or_default());
            rest = later;
            at += count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_in_comes_out_whatever_the_pieces() {
        let bytes: Vec<u8> = (0..(PIECE_BYTES * 2 + 777)).map(|at| (at * 31 % 251) as u8).collect();
        for step in [1_000, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, bytes.len()] {
            let mut pieces = ChunkedMemory::default();
            bytes.chunks(step).for_each(|chunk| pieces.push(chunk).unwrap());
            assert_eq!(pieces.size(), bytes.len() as u64);
            for (from, length) in [(0, bytes.len()), (PIECE_BYTES - 3, 7), (bytes.len() - 1, 1), (5, 0)] {
                let mut into = vec![0; length];
                pieces.read(from as u64, &mut into).unwrap();
                assert_eq!(into, bytes[from..from + length], "{length} bytes from {from}, pushed by {step}");
            }
            assert!(pieces.read(bytes.len() as u64, &mut [0]).is_err());
        }
    }
}
