//! A [`TorchReader`] on a second thread: one thread splits the text into events, the second parses them.
//!
//! Parsing takes about as long as splitting, or twice as long if [`crate::trace::HostCode`] is read. Without calls and code it takes
//! less than copying the events, so it is not used. Events are sent in batches, in their order, so the trace is the same as with
//! one thread. WebAssembly has no threads and does both in turn.

use super::Detail;
use super::torch::TorchReader;
use gpuprism_scan::split::Sink;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Large enough to make sending a batch cheap, small enough for the cache of a core.
const BATCH_BYTES: usize = 1 << 18;
/// The same for items without text, such as unreadable events.
const BATCH_ITEMS: usize = 1 << 13;
/// Limit of batches in the queue, to bound memory if parsing is slower than splitting.
const MAX_QUEUED_BATCHES: usize = 3;

/// The sending side: a [`Sink`] that queues events for the second thread.
#[derive(Debug)]
pub(super) struct ReaderThread {
    batch: Batch,
    queue: SyncSender<Batch>,
    used_batches: Receiver<Batch>,
    thread: JoinHandle<TorchReader>,
}

/// Consecutive outputs of the splitter.
#[derive(Debug, Default)]
struct Batch {
    /// The texts of all items, concatenated.
    bytes: Vec<u8>,
    items: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    kind: ItemKind,
    length: usize,
    /// Byte offset in the file.
    at: u64,
}

#[derive(Debug)]
enum ItemKind {
    Event,
    /// The text is the key, which has this length, followed by the value.
    Member(usize),
    Unreadable,
    TooLarge,
}

impl ReaderThread {
    pub(super) fn start(label: &str, detail: Detail) -> io::Result<Self> {
        let (queue, batches) = sync_channel::<Batch>(MAX_QUEUED_BATCHES);
        let (used, used_batches) = sync_channel(MAX_QUEUED_BATCHES + 2);
        let mut torch = TorchReader::new(label, detail);
        let thread = Builder::new().spawn(move || {
            for batch in batches {
                batch.read_into(&mut torch);
                let _ = used.try_send(batch);
            }
            torch
        })?;
        Ok(Self { batch: Batch::default(), queue, used_batches, thread })
    }

    /// Waits until all events are read and returns the reader; `None` if the thread panicked.
    pub(super) fn join(mut self) -> Option<TorchReader> {
        self.send_batch();
        drop(self.queue);
        self.thread.join().ok()
    }

    fn add(&mut self, kind: ItemKind, length: usize, at: u64) {
        self.batch.items.push(Item { kind, length, at });
        if self.batch.bytes.len() >= BATCH_BYTES || self.batch.items.len() >= BATCH_ITEMS {
            self.send_batch();
        }
    }

    fn send_batch(&mut self) {
        let mut next = self.used_batches.try_recv().unwrap_or_default();
        next.bytes.clear();
        next.items.clear();
        // If the thread has panicked, `join` reports it.
        let _ = self.queue.send(std::mem::replace(&mut self.batch, next));
    }
}

impl Batch {
    fn read_into(&self, torch: &mut TorchReader) {
        let mut rest = self.bytes.as_slice();
        for Item { kind, length, at } in &self.items {
            let Some((text, after)) = rest.split_at_checked(*length) else { return };
            rest = after;
            match kind {
                ItemKind::Event => torch.event(text, *at),
                ItemKind::Member(key_length) => {
                    let (key, value) = text.split_at_checked(*key_length).unwrap_or_default();
                    torch.member(key, value);
                }
                ItemKind::Unreadable => torch.unreadable(*at),
                ItemKind::TooLarge => torch.too_large(*at),
            }
        }
    }
}

impl Sink for ReaderThread {
    fn event(&mut self, text: &[u8], at: u64) {
        self.batch.bytes.extend_from_slice(text);
        self.add(ItemKind::Event, text.len(), at);
    }

    fn member(&mut self, key: &[u8], value: &[u8]) {
        self.batch.bytes.extend_from_slice(key);
        self.batch.bytes.extend_from_slice(value);
        self.add(ItemKind::Member(key.len()), key.len() + value.len(), 0);
    }

    fn unreadable(&mut self, at: u64) {
        self.add(ItemKind::Unreadable, 0, at);
    }

    fn too_large(&mut self, at: u64) {
        self.add(ItemKind::TooLarge, 0, at);
    }
}
