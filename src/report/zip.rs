//! All tables of a report as one zip of CSV files.
//!
//! A zip is three lists of little-endian numbers around deflated bytes, and flate2 is here anyway: the `zip` crate would add
//! readers, encryption and times that nobody asked for. Files carry no time, so that one report gives one zip.

use super::{Report, all_tables, csv, known_tables, table};
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use std::io::Write;

/// A file of a zip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name inside.
    pub name: String,
    /// What it holds.
    pub text: String,
    /// Lines without the heading.
    pub rows: usize,
}

/// A CSV file for each table that the report has; a table of stages is one file, with the column `stage`.
pub fn tables(report: &Report) -> Vec<Entry> {
    let mut ids: Vec<String> = Vec::new();
    for shown in all_tables(report) {
        let id = shown.id.split('@').next().unwrap_or_default().to_owned();
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let made = ids.iter().filter_map(|id| table(report, id, None));
    made.map(|table| Entry { name: format!("{}.csv", file_name(&table.id)), text: csv(&table), rows: table.rows.len() })
        .collect()
}

/// Ids of tables that came with a report may be anything.
fn file_name(id: &str) -> String {
    if known_tables().any(|known| known == id) {
        return id.to_owned();
    }
    const MOST_LETTERS: usize = 60;
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let plain = id.chars().take(MOST_LETTERS).map(|letter| if is_plain(letter) { letter } else { '-' });
    format!("other-{}", plain.collect::<String>())
}

/// The zip of these files. A name that comes again is numbered; what does not fit the format's 4 GiB is left out.
pub fn zip(entries: &[Entry]) -> Vec<u8> {
    let (mut bytes, mut directory, mut count) = (Vec::new(), Vec::new(), 0_u16);
    let mut names: Vec<String> = Vec::new();
    for entry in entries {
        let again = names.iter().filter(|name| **name == entry.name).count();
        names.push(entry.name.clone());
        let name = if again == 0 { entry.name.clone() } else { format!("{}-{}", again + 1, entry.name) };
        let Some(header) = append(&mut bytes, &name, entry.text.as_bytes()) else { continue };
        directory.extend(header);
        count = count.saturating_add(1);
    }
    let (start, length) = (small(bytes.len()).unwrap_or(u32::MAX), small(directory.len()).unwrap_or(u32::MAX));
    bytes.extend(directory);
    bytes.extend(*b"PK\x05\x06\0\0\0\0");
    bytes.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    bytes.extend([length.to_le_bytes(), start.to_le_bytes()].concat());
    bytes.extend([0, 0]);
    bytes
}

/// Writes one file and gives its entry of the directory.
fn append(bytes: &mut Vec<u8>, name: &str, text: &[u8]) -> Option<Vec<u8>> {
    let start = small(bytes.len())?;
    let mut crc = Crc::new();
    crc.update(text);
    let deflated = deflate(text);
    // Version 2.0, names in UTF-8, deflated, the first day that the format knows.
    let mut about = vec![20, 0, 0, 8, 8, 0, 0, 0, 0x21, 0];
    about.extend(crc.sum().to_le_bytes());
    about.extend(small(deflated.len())?.to_le_bytes());
    about.extend(small(text.len())?.to_le_bytes());
    about.extend(u16::try_from(name.len()).ok()?.to_le_bytes());
    about.extend([0, 0]);
    bytes.extend(*b"PK\x03\x04");
    bytes.extend(&about);
    bytes.extend(name.as_bytes());
    bytes.extend(deflated);
    let mut header = b"PK\x01\x02\x14\0".to_vec();
    header.extend(about);
    // No comment, the first disk, no attributes.
    header.extend([0; 10]);
    header.extend(start.to_le_bytes());
    header.extend(name.as_bytes());
    Some(header)
}

fn small(length: usize) -> Option<u32> {
    u32::try_from(length).ok()
}

/// Deflated without a frame around it.
pub(super) fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    // Writing into memory does not fail.
    let written = encoder.write_all(bytes);
    written.and_then(|()| encoder.finish()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests_support::sample;
    use std::process::Command;

    #[test]
    fn another_program_unpacks_every_table() {
        let entries = tables(&sample());
        assert!(entries.iter().any(|entry| entry.name == "kernels.csv" && entry.text.starts_with("run,")));
        let folder = std::env::temp_dir().join(format!("gpuprism-zip-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("t.zip"), zip(&entries)).unwrap();
        let script = "import zipfile,sys; z = zipfile.ZipFile('t.zip'); assert z.testzip() is None; z.extractall('.')";
        let done = Command::new("python3").args(["-c", script]).current_dir(&folder).status();
        match done {
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
    fn a_zip_of_nothing_and_names_that_come_twice_are_sound() {
        assert_eq!(zip(&[]).len(), 22);
        let entry = Entry { name: "a.csv".into(), text: "x\n".into(), rows: 0 };
        let bytes = zip(&[entry.clone(), entry]);
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text.matches("PK\u{1}\u{2}").count(), 2);
        assert_eq!(text.matches("2-a.csv").count(), 2);
        assert_eq!(file_name("../x y"), "other----x-y");
    }
}
