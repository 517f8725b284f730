//! Files and folders that only this user may read: uploads are the traces of other people.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

#[cfg(unix)]
const FOLDER_MODE: u32 = 0o700;
#[cfg(unix)]
const FILE_MODE: u32 = 0o600;

/// Creates a file; one that exists is an error.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    options.mode(FILE_MODE);
    options.open(path)
}

/// Creates a folder; one that exists is an error.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    builder.mode(FOLDER_MODE);
    builder.create(path)
}

/// Creates a folder with a random name, which is removed when the result is dropped.
pub(crate) fn temporary_folder(parent: &Path, prefix: &str) -> io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    let builder = builder.permissions(std::fs::Permissions::from_mode(FOLDER_MODE));
    builder.tempdir_in(parent)
}

/// Opens a file in a place where others can put anything. Whatever is no file is an error: a pipe, a device or a link
/// is never opened, or the program would wait for it.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "not a file");
    if !std::fs::symlink_metadata(path)?.is_file() {
        return Err(no_file());
    }
    let mut options = OpenOptions::new();
    options.read(true);
    // It may have been replaced meanwhile.
    #[cfg(unix)]
    options.custom_flags((nix::fcntl::OFlag::O_NONBLOCK | nix::fcntl::OFlag::O_NOFOLLOW).bits());
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
}
