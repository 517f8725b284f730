//! Names of kernels and places in the code, as tables show them, and which of several Python frames tells most.

/// A kernel's name without what differs from run to run: blanks in a row are one, addresses are `0xADDR`, and a `void`
/// kernel loses its argument list; template arguments stay.
pub fn canonical(raw: &str) -> String {
    raw.to_owned()
}
