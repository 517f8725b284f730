//! Matrix products that the host launched, with their work, as a profiler records it if it records shapes.

use super::ProcessId;

/// A matrix product of the framework (`aten::mm`) whose operands have known shapes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatrixProduct {
    /// The process. Ids of two processes are unrelated.
    pub process: ProcessId,
    /// External id of its CPU op.
    pub id: u32,
    /// Floating-point operations: one multiplication and one addition for each term.
    pub flop: f64,
    /// Bytes of the operands and the result, each counted once; zero if the data type is [`Precision::Other`].
    pub bytes: f64,
    /// The data type of both operands.
    pub precision: Precision,
}

impl MatrixProduct {
    /// A product of `batch` pairs of an `m x k` and a `k x n` matrix.
    pub fn new(process: ProcessId, id: u32, [batch, m, k, n]: [f64; 4], precision: Precision) -> Self {
        // The result of FP8 products is BF16 or FP16.
        let (operand_bytes, result_bytes) = match precision {
            Precision::Half => (2.0, 2.0),
            Precision::Fp8 => (1.0, 2.0),
            Precision::Other => (0.0, 0.0),
        };
        let bytes = batch * (operand_bytes * (m * k + k * n) + result_bytes * m * n);
        Self { process, id, flop: 2.0 * batch * m * k * n, bytes, precision }
    }
}

/// A data type of the operands of a matrix product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// BF16 or FP16.
    Half,
    /// An FP8 format.
    Fp8,
    /// Another type, or two different ones.
    Other,
}
