//! Packets that the service of Perfetto compressed with zlib, read a part at a time from the packet that contains them. O(bytes);
//! memory for one part and for one packet of limited length.

use crate::input::protobuf::{Damaged, Message, MessageSplitter};
use flate2::{Decompress, FlushDecompress, Status};

/// Unpacks compressed packets.
#[derive(Debug)]
pub(crate) struct Inflater {
    inflate: Decompress,
    output: Vec<u8>,
}

impl Default for Inflater {
    fn default() -> Self {
        const OUTPUT_BYTES: usize = 1 << 16;
        Self { inflate: Decompress::new(true), output: vec![0; OUTPUT_BYTES] }
    }
}

impl Inflater {
    /// Gives every whole packet in the compressed bytes to `each`. Places are those of the compressed bytes, as far as they are known.
    pub(crate) fn each_packet(
        &mut self,
        compressed: Message<'_>,
        each: &mut dyn FnMut(Message<'_>),
    ) -> Result<(), Damaged> {
        /// Few bytes can claim and fill a packet of any length.
        const MAX_INNER_BYTES: usize = 64 << 20;
        let Self { inflate, output } = self;
        let damaged = Damaged { at: compressed.at };
        inflate.reset(true);
        let mut splitter = MessageSplitter::with_limit(MAX_INNER_BYTES);
        loop {
            let (read, written) = (inflate.total_in() as usize, inflate.total_out());
            let rest = compressed.bytes.get(read..).unwrap_or_default();
            let status = inflate.decompress(rest, output, FlushDecompress::None);
            let part = output.get(..(inflate.total_out() - written) as usize).unwrap_or_default();
            splitter.feed(part, &mut |number, inner| {
                if number == 1 {
                    each(Message { at: compressed.at, ..inner });
                }
            });
            if splitter.is_damaged() {
                return Err(damaged);
            }
            let has_stalled = part.is_empty() && inflate.total_in() as usize == read;
            match status {
                Ok(Status::StreamEnd) if splitter.finish().is_none() => return Ok(()),
                Ok(Status::Ok | Status::BufError) if !has_stalled => {}
                _ => return Err(damaged),
            }
        }
    }
}
