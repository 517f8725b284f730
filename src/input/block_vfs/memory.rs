//! A growing file in memory, in chunks of 1 MiB: growing never copies, so the peak of memory is the size of the file.

use super::Source;

const CHUNK_BYTES: usize = 1 << 20;

/// Bytes in the order in which they were pushed.
#[derive(Debug, Default)]
pub(crate) struct ChunkedMemory {
    /// All chunks except the last are full.
    chunks: Vec<Vec<u8>>,
    size_bytes: u64,
}

impl ChunkedMemory {
    /// Appends bytes.
    ///
    /// # Errors
    /// If memory runs out.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let chunk = match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK_BYTES) {
                Some(chunk) => chunk,
                None => self.add_chunk()?,
            };
            let (now, later) = rest.split_at(rest.len().min(CHUNK_BYTES - chunk.len()));
            chunk.extend_from_slice(now);
            self.size_bytes += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    fn add_chunk(&mut self) -> Result<&mut Vec<u8>, String> {
        let mut chunk = Vec::new();
        chunk.try_reserve_exact(CHUNK_BYTES).map_err(|_| "out of memory".to_owned())?;
        Ok(self.chunks.push_mut(chunk))
    }
}

impl Source for ChunkedMemory {
    fn size(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        let (mut rest, mut at) = (into, offset as usize);
        while !rest.is_empty() {
            let chunk = self.chunks.get(at / CHUNK_BYTES).and_then(|chunk| chunk.get(at % CHUNK_BYTES..));
            let chunk = chunk.filter(|chunk| !chunk.is_empty()).ok_or("read beyond the end")?;
            let count = chunk.len().min(rest.len());
            let (to, later) = rest.split_at_mut(count);
            to.copy_from_slice(chunk.get(..count).unwrap_or_default());
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
    fn pushed_bytes_can_be_read_at_any_offset() {
        let bytes: Vec<u8> = (0..(CHUNK_BYTES * 2 + 777)).map(|at| (at * 31 % 251) as u8).collect();
        for step in [1_000, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, bytes.len()] {
            let mut memory = ChunkedMemory::default();
            bytes.chunks(step).for_each(|chunk| memory.push(chunk).unwrap());
            assert_eq!(memory.size(), bytes.len() as u64);
            for (from, length) in [(0, bytes.len()), (CHUNK_BYTES - 3, 7), (bytes.len() - 1, 1), (5, 0)] {
                let mut into = vec![0; length];
                memory.read(from as u64, &mut into).unwrap();
                assert_eq!(into, bytes[from..from + length], "{length} bytes from {from}, pushed by {step}");
            }
            assert!(memory.read(bytes.len() as u64, &mut [0]).is_err());
        }
    }
}
