//! What every reader of a stream of bytes does.

/// Reads the uncompressed bytes of one format, in chunks of any size.
pub(super) trait StreamReader: std::fmt::Debug + Send {
    /// Takes the next bytes.
    fn feed(&mut self, bytes: &[u8]) -> crate::Result<()>;
    /// Returns the number of GPU ops read so far.
    fn gpu_ops(&self) -> usize;
    /// Ends the file.
    fn finish(self: Box<Self>) -> crate::Result<crate::trace::Trace>;
}
