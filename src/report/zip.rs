//! Writes all tables of a report as one ZIP archive of CSV files; linear in their size.
//!
//! The format is small: for each file a header and its deflated bytes, then a directory. The `zip` crate would be the
//! largest dependency of the page's module. Files have no modification time, so equal reports give equal archives.

use super::table::Table;
use super::{Report, all_tables, csv, known_tables, table};
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use std::io::Write;

/// A file in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The file name.
    pub name: String,
    /// The contents.
    pub text: String,
    /// The number of rows without the header.
    pub rows: usize,
}

/// One CSV file per table of the report. Tables of single stages are one file with the column `stage`.
pub fn tables(report: &Report) -> Vec<Entry> {
    let mut ids: Vec<String> = Vec::new();
    for shown in all_tables(report) {
        let id = shown.id.split('@').next().unwrap_or_default().to_owned();
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let entry = |table: Table| Entry {
        name: format!("{}.csv", file_name(&table.id)),
        text: csv(&table),
        rows: table.rows.len(),
    };
    ids.iter().filter_map(|id| table(report, id, None)).map(entry).collect()
}

/// A safe file name: a report from elsewhere can contain any table id.
fn file_name(id: &str) -> String {
    if known_tables().any(|known| known == id) {
        return id.to_owned();
    }
    const MAX_LENGTH: usize = 60;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let plain = id.chars().take(MAX_LENGTH).map(|letter| if is_plain(letter) { letter } else { '-' });
    format!("other-{}", plain.collect::<String>())
}

/// Writes the archive. Duplicate names get a number; files beyond the format's limit of 4 GiB are left out.
pub fn zip(entries: &[Entry]) -> Vec<u8> {
    let (mut bytes, mut directory, mut count) = (Vec::new(), Vec::new(), 0_u16);
    let mut names: Vec<String> = Vec::new();
    for entry in entries {
        let duplicates = names.iter().filter(|name| **name == entry.name).count();
        names.push(entry.name.clone());
        let name = if duplicates == 0 { entry.name.clone() } else { format!("{}-{}", duplicates + 1, entry.name) };
        let Some(header) = append(&mut bytes, &name, entry.text.as_bytes()) else { continue };
        directory.extend(header);
        count = count.saturating_add(1);
    }
    let (start, length) = (to_u32(bytes.len()).unwrap_or(u32::MAX), to_u32(directory.len()).unwrap_or(u32::MAX));
    bytes.extend(directory);
    bytes.extend(*b"PK\x05\x06\0\0\0\0");
    bytes.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    bytes.extend([length.to_le_bytes(), start.to_le_bytes()].concat());
    bytes.extend([0, 0]);
    bytes
}

/// Appends one file and returns its directory entry; `None` if a length does not fit the format.
fn append(bytes: &mut Vec<u8>, name: &str, text: &[u8]) -> Option<Vec<u8>> {
    let start = to_u32(bytes.len())?;
    let mut crc = Crc::new();
    crc.update(text);
    let deflated = deflate(text);
    // Version 2.0, UTF-8 names, deflate, 1980-01-01 (the earliest date of the format).
    let mut metadata = vec![20, 0, 0, 8, 8, 0, 0, 0, 0x21, 0];
    metadata.extend(crc.sum().to_le_bytes());
    metadata.extend(to_u32(deflated.len())?.to_le_bytes());
    metadata.extend(to_u32(text.len())?.to_le_bytes());
    metadata.extend(u16::try_from(name.len()).ok()?.to_le_bytes());
    metadata.extend([0, 0]);
    bytes.extend(*b"PK\x03\x04");
    bytes.extend(&metadata);
    bytes.extend(name.as_bytes());
    bytes.extend(deflated);
    let mut header = b"PK\x01\x02\x14\0".to_vec();
    header.extend(metadata);
    // No comment, the first disk, no attributes.
    header.extend([0; 10]);
    header.extend(start.to_le_bytes());
    header.extend(name.as_bytes());
    Some(header)
}

fn to_u32(length: usize) -> Option<u32> {
    u32::try_from(length).ok()
}

/// Raw deflate data (RFC 1951) without a zlib or gzip header.
pub(super) fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    // Writing to memory cannot fail.
    let written = encoder.write_all(bytes);
    written.and_then(|()| encoder.finish()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests_support::sample;
    use std::process::Command;

    #[test]
    fn python_unpacks_every_table() {
        let entries = tables(&sample());
        assert!(entries.iter().any(|entry| entry.name == "kernels.csv" && entry.text.starts_with("run,")));
        let folder = std::env::temp_dir().join(format!("gpuprism-zip-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("t.zip"), zip(&entries)).unwrap();
        let script = "import zipfile,sys; z = zipfile.ZipFile('t.zip'); assert z.testzip() is None; z.extractall('.')";
        let status = Command::new("python3").args(["-c", script]).current_dir(&folder).status();
        match status {
            Ok(status) => {
                assert!(status.success());
                for entry in &entries {
                    assert_eq!(std::fs::read_to_string(folder.join(&entry.name)).unwrap(), entry.text);
                }
            }
            Err(_) => eprintln!("skipped: no python3 to unpack with"),
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn empty_archives_and_duplicate_names_are_valid() {
        assert_eq!(zip(&[]).len(), 22);
        let entry = Entry { name: "a.csv".into(), text: "x\n".into(), rows: 0 };
        let bytes = zip(&[entry.clone(), entry]);
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text.matches("PK\u{1}\u{2}").count(), 2);
        assert_eq!(text.matches("2-a.csv").count(), 2);
        assert_eq!(file_name("../x y"), "other----x-y");
    }
}
