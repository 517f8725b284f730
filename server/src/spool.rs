//! The spool: a folder for uploads with a limit on all bytes in it.
//!
//! Every upload has a folder of its own, which is removed when its owner is dropped: after the answer, when the connection is cut, and
//! after a panic. A process that is killed cannot do so; the next spool in the same place removes what it left.

use crate::private;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

const PREFIX: &str = "gpuprism-spool-";
/// Locked by the process that owns the spool, as long as it lives.
const LOCK: &str = "lock";

/// The folder of all uploads of this process.
#[derive(Debug)]
pub(crate) struct Spool {
    folder: TempDir,
    _lock: File,
    usage: Arc<Usage>,
}

#[derive(Debug)]
struct Usage {
    bytes: AtomicU64,
    capacity: u64,
}

impl Spool {
    /// Creates a spool in `parent` for at most `capacity` bytes.
    pub(crate) fn new(parent: &Path, capacity: u64) -> io::Result<Self> {
        remove_abandoned(parent);
        let folder = private::temporary_folder(parent, PREFIX)?;
        // Renamed once it is locked, so that no other process sees the lock without its owner.
        let unlocked = folder.path().join("unlocked");
        let lock = private::create_file(&unlocked)?;
        lock.lock()?;
        fs::rename(&unlocked, folder.path().join(LOCK))?;
        let usage = Arc::new(Usage { bytes: AtomicU64::new(0), capacity });
        Ok(Self { folder, _lock: lock, usage })
    }

    /// A new, empty folder for one upload.
    pub(crate) fn folder(&self) -> io::Result<Folder> {
        let folder = private::temporary_folder(self.folder.path(), "upload-")?;
        Ok(Folder { folder, reserved: 0, usage: Arc::clone(&self.usage) })
    }

    /// The bytes of all uploads.
    pub(crate) fn bytes(&self) -> u64 {
        self.usage.bytes.load(Ordering::Relaxed)
    }
}

/// Removes the spools of processes that no longer run. A spool that cannot be removed stays.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        // A link could lead anywhere.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let Ok(lock) = private::open_file(&entry.path().join(LOCK)) else { continue };
        if !matches!(lock.try_lock(), Err(TryLockError::WouldBlock | TryLockError::Error(_))) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The files of one upload. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: TempDir,
    reserved: u64,
    usage: Arc<Usage>,
}

/// The spool has no room for more bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpoolFull;

impl Folder {
    /// Counts bytes that are about to be written.
    pub(crate) fn reserve(&mut self, bytes: u64) -> Result<(), SpoolFull> {
        let add = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.usage.capacity);
        self.usage.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map_err(|_| SpoolFull)?;
        self.reserved += bytes;
        Ok(())
    }

    /// Removes a file of this folder and gives back its bytes.
    pub(crate) fn remove(&mut self, file: &Path) -> io::Result<()> {
        let bytes = fs::metadata(file)?.len().min(self.reserved);
        fs::remove_file(file)?;
        self.reserved -= bytes;
        self.usage.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// The path of a file in this folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.usage.bytes.fetch_sub(self.reserved, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn an_upload_leaves_no_file_and_gives_its_bytes_back() {
        let parent = TempDir::new().unwrap();
        let spool = Spool::new(parent.path(), 10).unwrap();
        let mut folder = spool.folder().unwrap();
        folder.reserve(7).unwrap();
        fs::write(folder.path("a"), [0; 7]).unwrap();
        assert_eq!(spool.folder().unwrap().reserve(4), Err(SpoolFull), "7 of 10 bytes are in use");
        let path = folder.path("a");
        drop(folder);
        assert!(!path.exists() && !path.parent().unwrap().exists());
        assert_eq!(spool.bytes(), 0);
        drop(spool);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_panic_removes_the_files_of_its_upload() {
        let parent = TempDir::new().unwrap();
        let spool = Spool::new(parent.path(), 10).unwrap();
        let folder = spool.folder().unwrap();
        fs::write(folder.path("a"), "x").unwrap();
        let path = folder.path("a");
        let thread = std::thread::spawn(move || {
            let _folder = folder;
            std::panic::resume_unwind(Box::new("stop"));
        });
        assert!(thread.join().is_err());
        assert!(!path.exists());
    }

    #[test]
    fn the_spool_of_a_killed_process_is_removed_and_that_of_a_running_one_is_kept() {
        let parent = TempDir::new().unwrap();
        let killed = parent.path().join(format!("{PREFIX}killed"));
        fs::create_dir_all(killed.join("upload-1")).unwrap();
        fs::write(killed.join(LOCK), "").unwrap();
        let running = Spool::new(parent.path(), 10).unwrap();
        assert!(!killed.exists());
        let _second = Spool::new(parent.path(), 10).unwrap();
        assert!(running.folder.path().exists());
    }

    #[cfg(unix)]
    #[test]
    fn only_the_user_of_the_server_can_read_the_spool() {
        use std::os::unix::fs::PermissionsExt;
        let parent = TempDir::new().unwrap();
        let spool = Spool::new(parent.path(), 10).unwrap();
        let folder = spool.folder().unwrap();
        private::create_file(&folder.path("a")).unwrap();
        private::create_folder(&folder.path("plain")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let root = spool.folder.path();
        let folders = [root.to_owned(), folder.folder.path().to_owned(), folder.path("plain")];
        assert_eq!(folders.map(|path| mode(&path)), [0o700; 3]);
        assert_eq!([root.join(LOCK), folder.path("a")].map(|path| mode(&path)), [0o600; 2]);
    }

    /// Everyone can write to the folder for temporary files.
    #[cfg(unix)]
    #[test]
    fn what_others_put_in_the_place_of_an_old_spool_is_neither_waited_for_nor_followed() {
        let parent = TempDir::new().unwrap();
        let pipe = parent.path().join(format!("{PREFIX}pipe"));
        fs::create_dir(&pipe).unwrap();
        nix::unistd::mkfifo(&pipe.join(LOCK), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let elsewhere = TempDir::new().unwrap();
        fs::write(elsewhere.path().join(LOCK), "").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), parent.path().join(format!("{PREFIX}link"))).unwrap();
        drop(Spool::new(parent.path(), 10).unwrap());
        assert!(pipe.join(LOCK).symlink_metadata().is_ok() && elsewhere.path().join(LOCK).exists());
    }
}
