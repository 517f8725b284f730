//! A torch reader on a thread of its own: one thread cuts events out of the text while this one reads them.
//!
//! Reading the frames of a trace takes twice as long as cutting them out. The events go over in batches, in their order, so
//! that the trace is the same as if one thread had done both.

use super::Detail;
use super::torch::TorchReader;
use gpuprism_scan::split::Sink;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Large enough that handing it over costs nothing, small enough to stay in a core's cache.
const BATCH_BYTES: usize = 1 << 18;
/// Batches that wait at most; memory stays bounded whichever side is slower.
const BATCHES_WAITING: usize = 3;

/// The end of the line at which events go in.
#[derive(Debug)]
pub(super) struct ReaderThread {
    batch: Batch,
    full: SyncSender<Batch>,
    empties: Receiver<Batch>,
    thread: JoinHandle<TorchReader>,
}

/// What the splitter cut out, one behind the other.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    what: What,
    length: usize,
    at: u64,
}

#[derive(Debug)]
enum What {
    Event,
    /// Its key stands before its value.
    Member {
        key_length: usize,
    },
    Unreadable,
}

impl ReaderThread {
    /// Starts the thread.
    pub(super) fn start(label: &str, detail: Detail) -> io::Result<Self> {
        let (full, batches) = sync_channel::<Batch>(BATCHES_WAITING);
        let (used, empties) = sync_channel(BATCHES_WAITING + 2);
        let mut torch = TorchReader::new(label, detail);
        let thread = Builder::new().spawn(move || {
            for batch in batches {
                batch.read_into(&mut torch);
                let _ = used.try_send(batch);
            }
            torch
        })?;
        Ok(Self { batch: Batch::default(), full, empties, thread })
    }

    /// The reader, once it has read everything; `None` where its thread failed.
    pub(super) fn join(mut self) -> Option<TorchReader> {
        self.hand_over();
        drop(self.full);
        self.thread.join().ok()
    }

    fn add(&mut self, what: What, length: usize, at: u64) {
        self.batch.items.push(Item { what, length, at });
        if self.batch.bytes.len() >= BATCH_BYTES {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        let mut next = self.empties.try_recv().unwrap_or_default();
        next.bytes.clear();
        next.items.clear();
        // A thread that is gone is told of at the end.
        let _ = self.full.send(std::mem::replace(&mut self.batch, next));
    }
}

impl Batch {
    fn read_into(&self, torch: &mut TorchReader) {
        let mut rest = self.bytes.as_slice();
        for Item { what, length, at } in &self.items {
            let Some((text, behind)) = rest.split_at_checked(*length) else { return };
            rest = behind;
            match what {
                What::Event => torch.event(text, *at),
                What::Member { key_length } => {
                    let (key, value) = text.split_at_checked(*key_length).unwrap_or_default();
                    torch.member(key, value);
                }
                What::Unreadable => torch.unreadable(*at),
            }
        }
    }
}

impl Sink for ReaderThread {
    fn event(&mut self, text: &[u8], at: u64) {
        self.batch.bytes.extend_from_slice(text);
        self.add(What::Event, text.len(), at);
    }

    fn member(&mut self, key: &[u8], value: &[u8]) {
        self.batch.bytes.extend_from_slice(key);
        self.batch.bytes.extend_from_slice(value);
        self.add(What::Member { key_length: key.len() }, key.len() + value.len(), 0);
    }

    fn unreadable(&mut self, at: u64) {
        self.add(What::Unreadable, 0, at);
    }
}
