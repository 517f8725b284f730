//! Tests: SQLite sees the bytes of the file at any offset, memory is bounded, nothing is written, and a file that is cut,
//! damaged or unreadable gives an error.

use super::*;
use proptest::prelude::*;
use rsqlite_vfs::test_suite;
use std::cell::Cell;

impl Source for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        let from = usize::try_from(offset).unwrap();
        into.copy_from_slice(&self[from..from + into.len()]);
        Ok(())
    }
}

/// A file of any size in which each word of eight bytes is its own index.
struct IndexedWords {
    size: u64,
    reads: Rc<Cell<u64>>,
}

fn expected_byte(offset: u64) -> u8 {
    (offset / 8).to_le_bytes()[(offset % 8) as usize]
}

impl Source for IndexedWords {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        assert!(offset + into.len() as u64 <= self.size, "read beyond the end");
        assert!(!into.is_empty());
        self.reads.set(self.reads.get() + 1);
        for (at, word) in into.chunks_mut(8).enumerate() {
            word.copy_from_slice(&(offset / 8 + at as u64).to_le_bytes()[..word.len()]);
        }
        Ok(())
    }
}

fn indexed_words(size: u64) -> (Blocks, Rc<Cell<u64>>) {
    let reads = Rc::new(Cell::new(0));
    (Blocks::new(Box::new(IndexedWords { size, reads: Rc::clone(&reads) })), reads)
}

fn cached_bytes(blocks: &Blocks) -> u64 {
    blocks.cached.iter().map(|block| block.bytes.len() as u64).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn reads_return_the_bytes_at_their_offset_even_beyond_4_gib(
        size in prop_oneof![1..10_000_u64, 1..(9 * BLOCK_BYTES), ((1 << 32) - 10)..(1_u64 << 40)],
        reads in prop::collection::vec((any::<prop::sample::Selector>(), 0..9_000_usize, -4_100..4_100_i64), 1..14),
    ) {
        let (mut blocks, _) = indexed_words(size);
        for (selector, length, near) in reads {
            // Errors are likely near block boundaries and the end of the file.
            let boundary = selector.select(0..=size / BLOCK_BYTES + 1) * BLOCK_BYTES;
            let offset = boundary.min(size).saturating_add_signed(near);
            let mut into = vec![0xEE; length];
            let count = blocks.read(&mut into, offset).unwrap();
            prop_assert_eq!(count as u64, size.saturating_sub(offset).min(length as u64));
            for (at, byte) in into[..count].iter().enumerate() {
                prop_assert_eq!(*byte, expected_byte(offset + at as u64));
            }
            prop_assert!(cached_bytes(&blocks) <= 16 << 20);
        }
    }
}

#[test]
fn a_scan_reads_each_block_once() {
    let size = 20 * BLOCK_BYTES + 4_096;
    let (mut blocks, reads) = indexed_words(size);
    let mut page = [0; 65_536];
    for offset in (0..size).step_by(page.len()) {
        blocks.read(&mut page, offset).unwrap();
        // SQLite returns to the schema and to inner pages of the B-tree often.
        blocks.read(&mut page[..100], 0).unwrap();
    }
    assert_eq!(reads.get(), 21);
    assert_eq!(cached_bytes(&blocks), 3 * BLOCK_BYTES + 4_096);
}

/// Returns the bytes of a database that SQLite wrote; 200,000 rows take about 40 MB.
fn database(rows: u32) -> Vec<u8> {
    let path = std::env::temp_dir().join(format!("gpuprism-vfs-{}-{rows}.sqlite", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("CREATE TABLE ops (id INTEGER PRIMARY KEY, start INTEGER, note TEXT); BEGIN").unwrap();
    let mut insert = connection.prepare("INSERT INTO ops VALUES (?1, ?2, ?3)").unwrap();
    for id in 0..i64::from(rows) {
        insert.execute((id, id * id % 1_000_003, format!("{id:0180}"))).unwrap();
    }
    drop(insert);
    connection.execute_batch("COMMIT").unwrap();
    drop(connection);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    bytes
}

const SUM: &str = "SELECT count(*), sum(start), sum(CAST(note AS INTEGER)) FROM ops";

fn sum(database: &Database) -> rusqlite::Result<(i64, i64, i64)> {
    database.connection().query_row(SUM, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
}

#[test]
fn a_database_larger_than_the_cache_gives_every_row() {
    let rows = 200_000;
    let bytes = database(rows);
    assert!(bytes.len() > 36 << 20, "{}", bytes.len());
    let database = Database::open(Box::new(bytes)).unwrap();
    let ids = 0..i64::from(rows);
    let expected = (i64::from(rows), ids.clone().map(|id| id * id % 1_000_003).sum(), ids.sum());
    assert_eq!(sum(&database).unwrap(), expected);
    let note: String =
        database.connection().query_row("SELECT note FROM ops WHERE id = 3", [], |row| row.get(0)).unwrap();
    assert_eq!(note, format!("{:0180}", 3));
    assert!(cached_bytes(&database.blocks.borrow()) <= 16 << 20);
}

#[test]
fn writes_and_other_files_are_refused() {
    let bytes = database(1_000);
    let database = Database::open(Box::new(bytes)).unwrap();
    for sql in [
        "INSERT INTO ops VALUES (-1, 0, '')",
        "UPDATE ops SET start = 0",
        "DROP TABLE ops",
        "CREATE TABLE other (x)",
        "VACUUM",
        "ATTACH 'other' AS other",
        "ATTACH 'trace-journal' AS other",
    ] {
        assert!(database.connection().execute_batch(sql).is_err(), "{sql}");
    }
    let mode: String =
        database.connection().query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).unwrap_or_default();
    assert_ne!(mode, "wal");
    assert_eq!(sum(&database).unwrap().0, 1_000);
}

#[test]
fn a_file_in_wal_mode_is_read() {
    let mut bytes = database(100);
    // File format write and read version: 2 is WAL (SQLite file format, 1.3).
    bytes[18..20].copy_from_slice(&[2, 2]);
    assert_eq!(sum(&Database::open(Box::new(bytes)).unwrap()).unwrap().0, 100);
}

/// A source that fails after the first block, like a file that is deleted meanwhile.
struct DeletedFile(Vec<u8>);

impl Source for DeletedFile {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        if offset > 0 { Err("it is gone".to_owned()) } else { self.0.read(offset, into) }
    }
}

#[test]
fn the_error_of_the_source_is_reported() {
    let database = Database::open(Box::new(DeletedFile(database(60_000)))).unwrap();
    assert_eq!(database.unreadable(), None);
    assert!(sum(&database).is_err());
    assert_eq!(database.unreadable().unwrap(), "it is gone");
}

#[test]
fn cut_and_damaged_files_do_not_panic() {
    let whole = database(3_000);
    for cut in [0, 1, 15, 16, 99, 100, 4_095, 4_096, 5_000, 100_000, whole.len() - 4_096] {
        let database = Database::open(Box::new(whole[..cut].to_vec())).unwrap();
        assert!(sum(&database).is_err(), "cut at {cut}");
        assert_eq!(database.unreadable(), None, "a cut is not an error of the source");
    }
    for at in (0..whole.len()).step_by(997) {
        let mut bytes = whole.clone();
        bytes[at] = !bytes[at];
        let _ = sum(&Database::open(Box::new(bytes)).unwrap());
    }
}

#[test]
fn dropping_a_database_frees_the_source() {
    let reads = Rc::new(Cell::new(0));
    let database = Database::open(Box::new(IndexedWords { size: 8_192, reads: Rc::clone(&reads) })).unwrap();
    assert!(sum(&database).is_err(), "the words are not a database");
    assert_eq!(Rc::strong_count(&reads), 2);
    drop(database);
    assert_eq!(Rc::strong_count(&reads), 1);
}

/// A file for the conformance suite of rsqlite-vfs, which writes a file and reads it back. Writes go to a vector; all other
/// methods are those of [`File`].
struct WritableFile(Rc<RefCell<Vec<u8>>>);

impl Source for Rc<RefCell<Vec<u8>>> {
    fn size(&self) -> u64 {
        self.borrow().len() as u64
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        self.borrow().read(offset, into)
    }
}

impl WritableFile {
    fn reader(&self) -> File {
        File(Rc::new(RefCell::new(Blocks::new(Box::new(Rc::clone(&self.0))))))
    }
}

impl VfsFile for WritableFile {
    fn read(&mut self, into: &mut [u8], offset: u64) -> VfsResult<usize> {
        self.reader().read(into, offset)
    }

    fn size(&self) -> VfsResult<u64> {
        self.reader().size()
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        let (mut written, from) = (self.0.borrow_mut(), offset as usize);
        let end = written.len().max(from + bytes.len());
        written.resize(end, 0);
        written[from..from + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        self.0.borrow_mut().truncate(size as usize);
        Ok(())
    }

    fn sync(&mut self, options: SyncOptions) -> VfsResult<()> {
        self.reader().sync(options)
    }

    fn lock(&mut self, level: LockLevel) -> VfsResult<()> {
        self.reader().lock(level)
    }

    fn unlock(&mut self, level: LockLevel) -> VfsResult<()> {
        self.reader().unlock(level)
    }

    fn check_reserved_lock(&self) -> VfsResult<bool> {
        self.reader().check_reserved_lock()
    }
}

#[test]
fn reading_passes_the_conformance_suite() {
    test_suite::test_vfs_file(&mut WritableFile(Rc::default())).unwrap();
}

#[test]
fn only_the_database_can_be_opened() {
    let store = Rc::new(RefCell::new(Blocks::new(Box::new(vec![1, 2, 3]))));
    let plain = |access| OpenOptions::new(access, FileKind::MainDb);
    let open = |name, options| Store::open_file(&store, OpenRequest::named(name, options));
    let mut file = open(FILE, plain(OpenAccess::ReadOnly)).unwrap().file;
    assert!(file.write(&[4], 0).is_err() && file.truncate(0).is_err());
    assert_eq!(open(FILE, plain(OpenAccess::ReadWrite)).map(|opened| opened.access).ok(), Some(OpenAccess::ReadOnly));
    for (name, options) in [
        ("other", plain(OpenAccess::ReadOnly)),
        ("other", plain(OpenAccess::ReadWrite).with_create()),
        (FILE, plain(OpenAccess::ReadWrite).with_create_new()),
        (FILE, OpenOptions::new(OpenAccess::ReadWrite, FileKind::MainJournal).with_create()),
        (FILE, OpenOptions::new(OpenAccess::ReadWrite, FileKind::Wal).with_create()),
    ] {
        assert!(open(name, options).is_err(), "{name} {options:?}");
    }
    let temporary = OpenOptions::new(OpenAccess::ReadWrite, FileKind::TempDb).with_delete_on_close();
    assert!(Store::open_file(&store, OpenRequest::temporary(temporary)).is_err());
    assert!(Store::delete_file(&store, FILE, false).is_err());
    assert_eq!(Store::access(&store, "trace-journal", AccessMode::Exists).ok(), Some(false));
    assert_eq!(Store::access(&store, "trace-wal", AccessMode::Exists).ok(), Some(false));
}
