//! Communication: what the time of a collective without waiting rests on, and what limits its sums. From counts and sources of sizes.

use super::percent_0;
use crate::digits::grouped;
use crate::trace::Fraction;

/// Where the size of a message comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SizeFrom {
    Recorded,
    /// The copies before and after the call.
    Copies,
}

impl SizeFrom {
    fn words(self) -> &'static str {
        match self {
            Self::Recorded => "recorded size",
            Self::Copies => "size of the copies before and after",
        }
    }
}

/// What shows how long a call takes without waiting.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Proof {
    /// A share of the rate of the links, in GB/s.
    LinkRate {
        share: Fraction,
        link: f64,
    },
    LargerCall,
    FastestCall,
    SlowNetwork,
    ShortestOf(u64),
    TooFewCalls,
}

/// `recorded size, shortest of 40 calls`
pub(crate) fn basis(size: SizeFrom, proof: Proof) -> String {
    let size = size.words();
    match proof {
        Proof::LinkRate { share, link } => {
            format!("{size}, {} of the link rate of {link:.0} GB/s, if all ranks share a server", percent_0(share))
        }
        Proof::LargerCall => format!("{size}, a larger call takes no longer"),
        Proof::FastestCall => format!("{size}, at the bandwidth of the fastest large call"),
        Proof::SlowNetwork => format!("{size}, over a slow network"),
        Proof::ShortestOf(calls) => format!("{size}, shortest of {calls} calls"),
        Proof::TooFewCalls => format!("{size}, too few calls"),
    }
}

/// Messages without a size.
pub(crate) fn known_sizes(known: u64, all: u64) -> String {
    format!(
        "The sizes of {} of {} messages are known. Byte totals and bandwidths cover only these messages.",
        grouped(known),
        grouped(all)
    )
}
