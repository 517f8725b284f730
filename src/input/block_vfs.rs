//! SQLite over a file that nobody holds whole: pages come out of blocks that a [`Source`] is asked for.
//!
//! The browser gives a worker bytes of a file by offset and nothing else. This is the file system that SQLite sees there:
//! one read-only database and no other file, so no journal and no temporary file either. It knows nothing of the browser,
//! and so its tests run natively.

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

/// A slice of a browser's file costs milliseconds however small it is: in Chromium 1 MiB at a time came at two thirds of
/// the rate of 4 MiB, and 8 MiB only a tenth faster. Exports have no indexes and are read in order, so most of a large
/// block is wanted.
const BLOCK_BYTES: u64 = 4 << 20;
/// Blocks kept. A scan needs the one under its nose, those of the tree above it and of the schema.
const BLOCKS: usize = 4;

/// Bytes by offset.
pub(crate) trait Source {
    /// How many bytes there are; always the same.
    fn size(&self) -> u64;

    /// Fills `into` with the bytes that begin at `offset`. It is never asked for bytes beyond the end.
    ///
    /// # Errors
    /// Why the bytes cannot be had.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), String>;
}

/// The blocks used last.
struct Blocks {
    source: Box<dyn Source>,
    kept: Vec<Block>,
    clock: u64,
    failure: Option<String>,
}

struct Block {
    start: u64,
    used: u64,
    bytes: Vec<u8>,
}

impl Blocks {
    fn new(source: Box<dyn Source>) -> Self {
        Self { source, kept: Vec::new(), clock: 0, failure: None }
    }

    /// Copies what there is from `offset` on; less than `into` holds only at the end of the file.
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
        let known = self.kept.iter().position(|block| block.start == start);
        let place = match known {
            Some(place) => place,
            None => self.fetch(start)?,
        };
        let Some(block) = self.kept.get_mut(place) else { return Ok(&[]) };
        block.used = self.clock;
        Ok(&block.bytes)
    }

    /// Reads a block, into the memory of the one not used for longest once there are enough.
    fn fetch(&mut self, start: u64) -> Result<usize, String> {
        let length = (self.source.size() - start).min(BLOCK_BYTES) as usize;
        let oldest = self.kept.iter().enumerate().min_by_key(|(_, block)| block.used).map(|(place, _)| place);
        let mut block = match oldest.filter(|_| self.kept.len() >= BLOCKS) {
            Some(oldest) => self.kept.swap_remove(oldest),
            None => Block { start, used: 0, bytes: Vec::new() },
        };
        let missing = length.saturating_sub(block.bytes.len());
        block.bytes.try_reserve_exact(missing).map_err(|_| "out of memory".to_owned())?;
        block.bytes.resize(length, 0);
        self.source.read(start, &mut block.bytes)?;
        block.start = start;
        self.kept.push(block);
        Ok(self.kept.len() - 1)
    }
}

/// The one name that there is.
const FILE: &str = "trace";

fn refused(code: VfsErrorCode, why: &'static str) -> VfsError {
    VfsError::new(code, why.into())
}

/// An open file. SQLite may open the same one again.
struct File(Rc<RefCell<Blocks>>);

impl VfsFile for File {
    fn device_characteristics(&self) -> DeviceCharacteristics {
        // Nobody else writes: SQLite then takes no locks and looks for no journal, and reads a file that was left in WAL mode.
        DeviceCharacteristics::IMMUTABLE
    }

    fn read(&mut self, into: &mut [u8], offset: u64) -> VfsResult<usize> {
        let busy = |_| refused(VfsErrorCode::IoRead, "a read within a read");
        let mut blocks = self.0.try_borrow_mut().map_err(busy)?;
        blocks.read(into, offset).map_err(|why| {
            blocks.failure = Some(why);
            refused(VfsErrorCode::IoRead, "the file could not be read")
        })
    }

    fn size(&self) -> VfsResult<u64> {
        let busy = |_| refused(VfsErrorCode::IoStat, "a read within a read");
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

/// The callbacks about names.
struct Store;

impl VfsStore for Store {
    type File = File;
    /// What every callback sees.
    type AppData = Rc<RefCell<Blocks>>;

    fn open_file(blocks: &Self::AppData, request: OpenRequest<'_>) -> VfsResult<OpenedFile<File>> {
        let options = request.options;
        let the_file = request.filename.is_some_and(|name| name.path() == FILE);
        let plain = options.kind() == Some(FileKind::MainDb) && !options.exclusive() && !options.delete_on_close();
        if !the_file || !plain {
            return Err(refused(VfsErrorCode::CantOpen, "there is one database and no other file"));
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

/// What SQLite may ask of the system: nothing that reading needs.
struct Nothing;

impl OsCallback for Nothing {
    /// SQLite sleeps while another connection holds a lock, and here none can.
    fn sleep(&self, _duration: Duration) {}

    fn random(&self, _bytes: &mut [u8]) -> usize {
        0
    }

    fn epoch_timestamp_in_ms(&self) -> VfsResult<i64> {
        Err(refused(VfsErrorCode::NotFound, "there is no clock"))
    }
}

impl SQLiteVfs<Store> for Store {
    type Os = Nothing;

    fn os(_: &Rc<RefCell<Blocks>>) -> &Nothing {
        &Nothing
    }
}

/// A database read through blocks. Dropping it closes the connection and forgets the blocks.
pub(crate) struct Database {
    // Dropped in this order: the connection's file holds on to the registration.
    connection: Connection,
    _registered: Registered,
    blocks: Rc<RefCell<Blocks>>,
}

impl Database {
    /// Opens the database that `source` holds. Of its bytes nothing is read yet.
    ///
    /// # Errors
    /// Why SQLite cannot be had.
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

    /// The connection to the database.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Why the source could not be read, where it could not.
    pub(crate) fn unreadable(&self) -> Option<String> {
        self.blocks.try_borrow().ok()?.failure.clone()
    }
}

/// The file system of one [`Database`], known to SQLite as long as this lives.
struct Registered(Option<VfsRegistration<Rc<RefCell<Blocks>>>>);

impl Registered {
    fn new(name: &str, blocks: Rc<RefCell<Blocks>>) -> Result<Self, RegisterVfsError> {
        // SAFETY: constructor, callbacks and file layout are the crate's own defaults, typed by `Store`. The name is
        // fresh, so nobody registers it meanwhile. One connection uses it, on the thread that registered: a `Database`
        // holds an `Rc` and stays there.
        #[allow(unsafe_code)]
        unsafe { register_vfs::<Store, Store>(name, blocks, false) }.map(|registration| Self(Some(registration)))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let Some(registration) = self.0.take() else { return };
        // SAFETY: the one connection that knew the name is closed, as it is dropped first.
        #[allow(unsafe_code)]
        let ended = unsafe { registration.unregister() };
        // Refused, it stays behind without use; nothing points to freed memory.
        drop(ended);
    }
}

#[cfg(test)]
mod tests;
