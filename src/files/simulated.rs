//! Writes a simulated run to a file, event by event; gzipped if its name ends in `.gz`.

use crate::report::redact::Redactor;
use crate::session::Simulated;
use crate::{Error, Result};
use flate2::{Compression, write::GzEncoder};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes the run; with a redactor without private names.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_simulated(simulated: &Simulated, redactor: Option<&mut Redactor>, path: &Path) -> Result<()> {
    written(simulated, redactor, path).map_err(|error| Error::io(path.display().to_string(), &error))
}

fn written(simulated: &Simulated, redactor: Option<&mut Redactor>, path: &Path) -> io::Result<()> {
    let mut plain = BufWriter::new(File::create(path)?);
    if path.extension().is_none_or(|extension| !extension.eq_ignore_ascii_case("gz")) {
        simulated.write(redactor, &mut plain)?;
        return plain.flush();
    }
    let mut packed = GzEncoder::new(plain, Compression::default());
    simulated.write(redactor, &mut packed)?;
    packed.finish()?.flush()
}
