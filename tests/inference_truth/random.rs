//! Random numbers that are the same on every machine (xorshift64*).

/// A generator with a seed.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // The state must not be zero. The constant separates neighbouring seeds.
        let mut random = Self((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..8).for_each(|_| {
            random.unit();
        });
        random
    }

    /// A number from 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A value that differs from `value` by at most this share.
    pub(crate) fn near(&mut self, value: i64, share: f64) -> i64 {
        (value as f64 * (1.0 + share * (2.0 * self.unit() - 1.0))).round() as i64
    }
}
