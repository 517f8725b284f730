//! A read-only SQLite file system (VFS) with one file, read in blocks of 4 MiB through a [`Source`]. An LRU cache keeps four
//! blocks, so memory is bounded by 16 MiB for a file of any size.
//!
//! A browser gives a worker only the bytes of a file by offset. In the page, a [`Source`] reads slices of the dropped file
//! (`src/web/full/database.rs`), or of a decompressed one in memory ([`memory::ChunkedMemory`]); `input::nsys` then reads the
//! database through an ordinary connection. The file reports that it is immutable: SQLite takes no locks, looks for no journal,
//! and reads a file in WAL mode. Writes, other file names and temporary files are refused.
//!
//! Nothing here depends on the browser, so tests run natively, with vectors as sources. SQLite for wasm32 is compiled by clang
//! with the flags in `.cargo/config.toml`, which leave out features that reading does not need.

pub(crate) mod memory;

use rsqlite_vfs::{
    AccessMode, DeviceCharacteristics, FileKind, LockLevel, OpenAccess, OpenOptions, OpenRequest, OpenedFile,
    OsCallback, RegisterVfsError, SQLiteIoMethods, SQLiteVfs, SyncOptions, VfsError, VfsErrorCode, VfsFile,
    VfsRegistration, VfsResult, VfsStore, register_vfs,
};
use rusqlite::{Connection, OpenFlags};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Reading a slice of a browser file costs milliseconds even if it is small. In Chromium, slices of 1 MiB gave two thirds of the
/// throughput of 4 MiB, and 8 MiB only 10 % more. Exports have no indexes and are read in order, so most of a block is used.
const BLOCK_BYTES: u64 = 4 << 20;
/// Size of the cache. A table scan needs the current block, the blocks of the B-tree's inner pages and that of the schema.
const MAX_CACHED_BLOCKS: usize = 4;

/// A file of constant size that is read by offset.
pub(crate) trait Source {
    fn size(&self) -> u64;

    /// Fills `into` with the bytes from `offset` on. Callers never read beyond the end.
    ///
    /// # Errors
    /// Why the bytes could not be read.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), String>;
}

struct Blocks {
    source: Box<dyn Source>,
    cached: Vec<Block>,
    /// Number of block accesses so far.
    clock: u64,
    /// The last error of the source.
    failure: Option<String>,
}

struct Block {
    /// Offset in the file.
    start: u64,
    /// Value of the clock at the last access.
    last_used: u64,
    bytes: Vec<u8>,
}

impl Blocks {
    fn new(source: Box<dyn Source>) -> Self {
        Self { source, cached: Vec::new(), clock: 0, failure: None }
    }

    /// Copies the bytes from `offset` on and returns their number, which is less than the length of `into` only at the end of
    /// the file.
    fn read(&mut self, into: &mut [u8], offset: u64) -> Result<usize, String> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let Some(at) = offset.checked_add(done as u64).filter(|at| *at < self.source.size()) else { break };
            let start = at - at % BLOCK_BYTES;
            let block = self.block(start)?;
            let bytes = block.get((at - start) as usize..).unwrap_or_default();
            let count = bytes.len().min(rest.len());
            let (Some(from), Some(to)) = (bytes.get(..count), rest.get_mut(..count)) else { break };
            if count == 0 {
                break;
            }
            to.copy_from_slice(from);
            done += count;
        }
        Ok(done)
    }

    fn block(&mut self, start: u64) -> Result<&[u8], String> {
        self.clock += 1;
        let cached = self.cached.iter().position(|block| block.start == start);
        let index = match cached {
            Some(index) => index,
            None => self.fetch(start)?,
        };
        let Some(block) = self.cached.get_mut(index) else { return Ok(&[]) };
        block.last_used = self.clock;
        Ok(&block.bytes)
    }

    /// Reads a block and returns its index in the cache. If the cache is full, it replaces the least recently used block.
    fn fetch(&mut self, start: u64) -> Result<usize, String> {
        let length = (self.source.size() - start).min(BLOCK_BYTES) as usize;
        let oldest = self.cached.iter().enumerate().min_by_key(|(_, block)| block.last_used).map(|(index, _)| index);
        let mut block = match oldest.filter(|_| self.cached.len() >= MAX_CACHED_BLOCKS) {
            Some(oldest) => self.cached.swap_remove(oldest),
            None => Block { start, last_used: 0, bytes: Vec::new() },
        };
        let missing = length.saturating_sub(block.bytes.len());
        block.bytes.try_reserve_exact(missing).map_err(|_| "out of memory".to_owned())?;
        block.bytes.resize(length, 0);
        self.source.read(start, &mut block.bytes)?;
        block.start = start;
        self.cached.push(block);
        Ok(self.cached.len() - 1)
    }
}

/// The name of the only file.
const FILE: &str = "trace";

fn refused(code: VfsErrorCode, why: &'static str) -> VfsError {
    VfsError::new(code, why.into())
}

/// An open file. SQLite may open the file several times.
struct File(Rc<RefCell<Blocks>>);

impl VfsFile for File {
    fn device_characteristics(&self) -> DeviceCharacteristics {
        // Then SQLite takes no locks, looks for no journal, and reads a file in WAL mode without its log.
        DeviceCharacteristics::IMMUTABLE
    }

    fn read(&mut self, into: &mut [u8], offset: u64) -> VfsResult<usize> {
        let busy = |_| refused(VfsErrorCode::IoRead, "nested read");
        let mut blocks = self.0.try_borrow_mut().map_err(busy)?;
        blocks.read(into, offset).map_err(|why| {
            blocks.failure = Some(why);
            refused(VfsErrorCode::IoRead, "the source failed")
        })
    }

    fn size(&self) -> VfsResult<u64> {
        let busy = |_| refused(VfsErrorCode::IoStat, "nested read");
        self.0.try_borrow().map(|blocks| blocks.source.size()).map_err(busy)
    }

    fn write(&mut self, _bytes: &[u8], _offset: u64) -> VfsResult<()> {
        Err(refused(VfsErrorCode::ReadOnly, "the file is read-only"))
    }

    fn truncate(&mut self, _size: u64) -> VfsResult<()> {
        Err(refused(VfsErrorCode::ReadOnly, "the file is read-only"))
    }

    fn sync(&mut self, _options: SyncOptions) -> VfsResult<()> {
        Ok(())
    }

    fn lock(&mut self, level: LockLevel) -> VfsResult<()> {
        match level {
            LockLevel::None | LockLevel::Shared => Ok(()),
            _ => Err(refused(VfsErrorCode::ReadOnly, "the file is read-only")),
        }
    }

    fn unlock(&mut self, _level: LockLevel) -> VfsResult<()> {
        Ok(())
    }

    fn check_reserved_lock(&self) -> VfsResult<bool> {
        Ok(false)
    }
}

/// The callbacks that take file names.
struct Store;

impl VfsStore for Store {
    type File = File;
    /// The state passed to every callback.
    type AppData = Rc<RefCell<Blocks>>;

    fn open_file(blocks: &Self::AppData, request: OpenRequest<'_>) -> VfsResult<OpenedFile<File>> {
        let options = request.options;
        let is_the_file = request.filename.is_some_and(|name| name.path() == FILE);
        let is_readable =
            options.kind() == Some(FileKind::MainDb) && !options.exclusive() && !options.delete_on_close();
        if !is_the_file || !is_readable {
            return Err(refused(VfsErrorCode::CantOpen, "there is no other file than the database"));
        }
        Ok(OpenedFile { file: File(Rc::clone(blocks)), access: OpenAccess::ReadOnly })
    }

    fn close_file(_: &Self::AppData, _name: Option<&str>, _file: File, _options: OpenOptions) -> VfsResult<()> {
        Ok(())
    }

    fn access(_: &Self::AppData, name: &str, mode: AccessMode) -> VfsResult<bool> {
        Ok(name == FILE && mode != AccessMode::ReadWrite)
    }

    fn full_pathname(_: &Self::AppData, name: &str) -> VfsResult<String> {
        Ok(name.to_owned())
    }

    fn delete_file(_: &Self::AppData, _name: &str, _sync_directory: bool) -> VfsResult<()> {
        Err(refused(VfsErrorCode::IoDelete, "the file is read-only"))
    }
}

impl SQLiteIoMethods for Store {
    type Store = Self;
}

/// The operating system functions for SQLite: stubs, because reading needs none of them.
struct NoOs;

impl OsCallback for NoOs {
    /// SQLite sleeps only while another connection holds a lock; there are no locks here.
    fn sleep(&self, _duration: Duration) {}

    fn random(&self, _bytes: &mut [u8]) -> usize {
        0
    }

    fn epoch_timestamp_in_ms(&self) -> VfsResult<i64> {
        Err(refused(VfsErrorCode::NotFound, "there is no clock"))
    }
}

impl SQLiteVfs<Store> for Store {
    type Os = NoOs;

    fn os(_: &Rc<RefCell<Blocks>>) -> &NoOs {
        &NoOs
    }
}

/// An open database. Dropping it closes the connection and frees the blocks.
pub(crate) struct Database {
    // Fields are dropped in this order: the registration must outlive the connection.
    connection: Connection,
    _registered: Registered,
    blocks: Rc<RefCell<Blocks>>,
}

impl Database {
    /// Opens the database in `source`. Reads no bytes yet.
    ///
    /// # Errors
    /// If SQLite cannot register the file system or open the file.
    pub(crate) fn open(source: Box<dyn Source>) -> Result<Self, String> {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let name = format!("blocks-{}", OPENED.fetch_add(1, Ordering::Relaxed));
        let blocks = Rc::new(RefCell::new(Blocks::new(source)));
        let registered = Registered::new(&name, Rc::clone(&blocks)).map_err(|error| error.to_string())?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags_and_vfs(FILE, flags, name.as_str()).map_err(|error| error.to_string())?;
        Ok(Self { connection, _registered: registered, blocks })
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the last error of the source, if there was one.
    pub(crate) fn unreadable(&self) -> Option<String> {
        self.blocks.try_borrow().ok()?.failure.clone()
    }
}

/// The file system of one [`Database`], registered with SQLite until this is dropped.
struct Registered(Option<VfsRegistration<Rc<RefCell<Blocks>>>>);

impl Registered {
    fn new(name: &str, blocks: Rc<RefCell<Blocks>>) -> Result<Self, RegisterVfsError> {
        // SAFETY: constructor, callbacks and file layout are the crate's own defaults, typed by `Store`. The name is unique, so
        // no other file system has it. Only one connection uses it, on the thread that registered it: a `Database` has an `Rc`
        // and cannot move to another thread.
        #[allow(unsafe_code)]
        unsafe { register_vfs::<Store, Store>(name, blocks, false) }.map(|registration| Self(Some(registration)))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let Some(registration) = self.0.take() else { return };
        // SAFETY: the only connection that uses the name is dropped first, and so is closed.
        #[allow(unsafe_code)]
        let ended = unsafe { registration.unregister() };
        // If SQLite refuses, the file system stays registered but unused; nothing points to freed memory.
        drop(ended);
    }
}

#[cfg(test)]
mod tests;
