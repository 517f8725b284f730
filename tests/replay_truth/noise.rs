//! Random factors that depend only on what they are for, so that a changed program has the same ones.

/// What a factor is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Code,
    Call,
    Gpu,
    Turnaround,
    Latency,
    Return,
    Worker,
    Clock,
}

/// The place of an instruction, and of a kernel of its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) seed: u64,
    pub(crate) thread: usize,
    pub(crate) instruction: usize,
    pub(crate) kernel: usize,
}

impl Place {
    /// A factor with a log-normal distribution around 1: `spread` is the standard deviation of its logarithm.
    pub(crate) fn factor(self, of: Of, spread: f64) -> f64 {
        let parts = [self.thread as u64, self.instruction as u64, self.kernel as u64, of as u64];
        let state = parts.into_iter().fold(mix(self.seed), |state, part| mix(state ^ part));
        // The sum of twelve uniform numbers is nearly normal.
        let sum: f64 = (0..12).map(|index| (mix(state ^ (index << 32)) >> 11) as f64 / (1_u64 << 53) as f64).sum();
        (spread * (sum - 6.0)).exp()
    }
}

/// The step of SplitMix64.
fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
