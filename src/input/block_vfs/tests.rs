//! Promises: every byte that SQLite sees is the file's, wherever it lies; memory is bounded; nothing is ever written; a
//! file that cannot be read, is cut or damaged ends in an error.

use super::*;
use proptest::prelude::*;
use rsqlite_vfs::test_suite;
use std::cell::Cell;
use std::collections::BTreeMap;

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

/// A file of any size whose every eight bytes hold their own place.
struct Places {
    size: u64,
    asked: Rc<Cell<u64>>,
}

fn place(offset: u64) -> u8 {
    (offset / 8).to_le_bytes()[(offset % 8) as usize]
}

impl Source for Places {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        assert!(offset + into.len() as u64 <= self.size, "asked for bytes beyond the end");
        assert!(!into.is_empty());
        self.asked.set(self.asked.get() + 1);
        for (at, word) in into.chunks_mut(8).enumerate() {
            word.copy_from_slice(&(offset / 8 + at as u64).to_le_bytes()[..word.len()]);
        }
        Ok(())
    }
}

fn places(size: u64) -> (Blocks, Rc<Cell<u64>>) {
    let asked = Rc::new(Cell::new(0));
    (Blocks::new(Box::new(Places { size, asked: Rc::clone(&asked) })), asked)
}

fn kept_bytes(blocks: &Blocks) -> u64 {
    blocks.kept.iter().map(|block| block.bytes.len() as u64).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_read_gives_the_bytes_of_its_place_also_beyond_4_gib(
        size in prop_oneof![1..10_000_u64, 1..(9 * BLOCK_BYTES), ((1 << 32) - 10)..(1_u64 << 40)],
        reads in prop::collection::vec((any::<prop::sample::Selector>(), 0..9_000_usize, -4_100..4_100_i64), 1..14),
    ) {
        let (mut blocks, _) = places(size);
        for (selector, length, near) in reads {
            // Around the borders of blocks and the end, where errors would be.
            let border = selector.select(0..=size / BLOCK_BYTES + 1) * BLOCK_BYTES;
            let offset = border.min(size).saturating_add_signed(near);
            let mut into = vec![0xEE; length];
            let count = blocks.read(&mut into, offset).unwrap();
            prop_assert_eq!(count as u64, size.saturating_sub(offset).min(length as u64));
            for (at, byte) in into[..count].iter().enumerate() {
                prop_assert_eq!(*byte, place(offset + at as u64));
            }
            prop_assert!(kept_bytes(&blocks) <= 16 << 20);
        }
    }
}

#[test]
fn a_scan_asks_for_every_block_once_and_going_back_costs_no_second_read_of_what_is_kept() {
    let size = 20 * BLOCK_BYTES + 4_096;
    let (mut blocks, asked) = places(size);
    let mut page = [0; 65_536];
    for offset in (0..size).step_by(page.len()) {
        blocks.read(&mut page, offset).unwrap();
        // The schema and the upper pages of a table's tree are used again and again.
        blocks.read(&mut page[..100], 0).unwrap();
    }
    assert_eq!(asked.get(), 21);
    assert_eq!(kept_bytes(&blocks), 3 * BLOCK_BYTES + 4_096);
}

/// The bytes of a database of about 40 MB that SQLite wrote itself.
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
fn a_database_larger_than_all_blocks_gives_every_row() {
    let rows = 200_000;
    let bytes = database(rows);
    assert!(bytes.len() > 36 << 20, "{}", bytes.len());
    let database = Database::open(Box::new(bytes)).unwrap();
    let ids = 0..i64::from(rows);
    let want = (i64::from(rows), ids.clone().map(|id| id * id % 1_000_003).sum(), ids.sum());
    assert_eq!(sum(&database).unwrap(), want);
    let note: String =
        database.connection().query_row("SELECT note FROM ops WHERE id = 3", [], |row| row.get(0)).unwrap();
    assert_eq!(note, format!("{:0180}", 3));
    assert!(kept_bytes(&database.blocks.borrow()) <= 16 << 20);
}

#[test]
fn nothing_can_be_written_and_no_other_file_be_made() {
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
fn a_file_left_in_wal_mode_is_read() {
    let mut bytes = database(100);
    // File format write and read version: 2 is WAL (SQLite file format, 1.3).
    bytes[18..20].copy_from_slice(&[2, 2]);
    assert_eq!(sum(&Database::open(Box::new(bytes)).unwrap()).unwrap().0, 100);
}

/// A source that fails from some place on, as a file does that is gone meanwhile.
struct Gone(Vec<u8>);

impl Source for Gone {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        if offset > 0 { Err("it is gone".to_owned()) } else { self.0.read(offset, into) }
    }
}

#[test]
fn a_file_that_is_gone_meanwhile_is_an_error_that_says_why() {
    let database = Database::open(Box::new(Gone(database(60_000)))).unwrap();
    assert_eq!(database.unreadable(), None);
    assert!(sum(&database).is_err());
    assert_eq!(database.unreadable().unwrap(), "it is gone");
}

#[test]
fn cut_and_damaged_files_end_in_an_error_or_in_rows() {
    let whole = database(3_000);
    for cut in [0, 1, 15, 16, 99, 100, 4_095, 4_096, 5_000, 100_000, whole.len() - 4_096] {
        let database = Database::open(Box::new(whole[..cut].to_vec())).unwrap();
        assert!(sum(&database).is_err(), "cut at {cut}");
        assert_eq!(database.unreadable(), None, "a cut is no failure of reading");
    }
    for at in (0..whole.len()).step_by(997) {
        let mut bytes = whole.clone();
        bytes[at] = !bytes[at];
        let _ = sum(&Database::open(Box::new(bytes)).unwrap());
    }
}

#[test]
fn what_remains_of_a_dropped_database_is_nothing() {
    let asked = Rc::new(Cell::new(0));
    let database = Database::open(Box::new(Places { size: 8_192, asked: Rc::clone(&asked) })).unwrap();
    assert!(sum(&database).is_err(), "places are no database");
    assert_eq!(Rc::strong_count(&asked), 2);
    drop(database);
    assert_eq!(Rc::strong_count(&asked), 1);
}

/// rsqlite-vfs checks file systems by writing and reading back. Here the writing goes to a vector that the source reads;
/// the reading, the sizes, the ends and what a file opened read-only refuses are ours.
struct Folder;
type Files = RefCell<BTreeMap<String, Rc<RefCell<Vec<u8>>>>>;

struct Written(Rc<RefCell<Vec<u8>>>);

impl Source for Rc<RefCell<Vec<u8>>> {
    fn size(&self) -> u64 {
        self.borrow().len() as u64
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        self.borrow().read(offset, into)
    }
}

fn reader(bytes: &Rc<RefCell<Vec<u8>>>) -> File {
    File(Rc::new(RefCell::new(Blocks::new(Box::new(Rc::clone(bytes))))))
}

enum Either {
    Ours(File),
    Writable(Written),
}

impl VfsFile for Either {
    fn read(&mut self, into: &mut [u8], offset: u64) -> VfsResult<usize> {
        match self {
            Self::Ours(file) => file.read(into, offset),
            Self::Writable(Written(bytes)) => reader(bytes).read(into, offset),
        }
    }

    fn size(&self) -> VfsResult<u64> {
        match self {
            Self::Ours(file) => file.size(),
            Self::Writable(Written(bytes)) => reader(bytes).size(),
        }
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> VfsResult<()> {
        match self {
            Self::Ours(file) => file.write(bytes, offset),
            Self::Writable(Written(written)) => {
                let (mut written, from) = (written.borrow_mut(), offset as usize);
                let end = written.len().max(from + bytes.len());
                written.resize(end, 0);
                written[from..from + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn truncate(&mut self, size: u64) -> VfsResult<()> {
        match self {
            Self::Ours(file) => file.truncate(size),
            Self::Writable(Written(written)) => {
                written.borrow_mut().truncate(size as usize);
                Ok(())
            }
        }
    }

    fn sync(&mut self, _: SyncOptions) -> VfsResult<()> {
        Ok(())
    }

    fn lock(&mut self, _: LockLevel) -> VfsResult<()> {
        Ok(())
    }

    fn unlock(&mut self, _: LockLevel) -> VfsResult<()> {
        Ok(())
    }

    fn check_reserved_lock(&self) -> VfsResult<bool> {
        Ok(false)
    }
}

impl VfsStore for Folder {
    type File = Either;
    type AppData = Files;

    fn open_file(files: &Files, request: OpenRequest<'_>) -> VfsResult<OpenedFile<Either>> {
        let cannot = || refused(VfsErrorCode::CantOpen, "no");
        let mut files = files.borrow_mut();
        let known = request.filename.and_then(|name| files.get(name.path()).cloned());
        let bytes = match (known, request.filename) {
            (Some(_), _) if request.options.exclusive() => return Err(cannot()),
            (Some(bytes), _) => bytes,
            (None, _) if !request.options.create() => return Err(cannot()),
            (None, name) => {
                let bytes = Rc::new(RefCell::new(Vec::new()));
                name.map(|name| files.insert(name.path().to_owned(), Rc::clone(&bytes)));
                bytes
            }
        };
        let access = request.options.access();
        let file = match access {
            OpenAccess::ReadOnly => Either::Ours(reader(&bytes)),
            OpenAccess::ReadWrite => Either::Writable(Written(bytes)),
        };
        Ok(OpenedFile { file, access })
    }

    fn close_file(files: &Files, name: Option<&str>, _: Either, options: OpenOptions) -> VfsResult<()> {
        name.filter(|_| options.delete_on_close()).map(|name| files.borrow_mut().remove(name));
        Ok(())
    }

    fn access(files: &Files, name: &str, _: AccessMode) -> VfsResult<bool> {
        Ok(files.borrow().contains_key(name))
    }

    fn full_pathname(_: &Files, name: &str) -> VfsResult<String> {
        Ok(name.to_owned())
    }

    fn delete_file(files: &Files, name: &str, _: bool) -> VfsResult<()> {
        files.borrow_mut().remove(name).map(|_| ()).ok_or(refused(VfsErrorCode::IoDeleteNoEntry, "no"))
    }
}

#[test]
fn reading_passes_the_conformance_suite() {
    test_suite::test_vfs_store::<Folder>(rsqlite_vfs::VfsAppData::new(Files::default())).unwrap();
}

#[test]
fn the_suite_is_refused_every_file_that_it_would_make() {
    let store = Rc::new(RefCell::new(Blocks::new(Box::new(vec![1, 2, 3]))));
    let plain = |access| OpenOptions::new(access, FileKind::MainDb);
    let open = |name, options| Store::open_file(&store, OpenRequest::named(name, options));
    assert!(open(FILE, plain(OpenAccess::ReadOnly)).is_ok());
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
