//! The costs of ops: shapes of their arguments in words, and what operations, bytes and rates rest on. From lengths, counts and shares.

use super::{or_nothing, percent_0};
use crate::trace::Pct;

/// `15360 x 24576 x 4096` for M x N x K; with the size of the batch if there is one.
pub(crate) fn product(batch: u64, [m, n, k]: [u64; 3]) -> String {
    let product = lengths(&[m, n, k]);
    if batch > 1 { format!("{batch} x ({product})") } else { product }
}

/// `2 x 3 x 4`
pub(crate) fn lengths(lengths: &[u64]) -> String {
    lengths.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ")
}

/// The heads of attention.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heads<N> {
    pub(crate) heads: N,
    pub(crate) kv_heads: N,
    /// Of one head.
    pub(crate) size: N,
}

/// `batch 2, heads 32/8, 128 x 128, size 64 causal`. `is_causal`: `None` if the mask is not known.
pub(crate) fn attention(batch: u64, heads: Heads<u64>, [queries, keys]: [u64; 2], is_causal: Option<bool>) -> String {
    let Heads { heads, kv_heads, size } = heads;
    let mask = match is_causal {
        Some(true) => " causal",
        Some(false) => "",
        None => " mask unknown",
    };
    format!("batch {batch}, heads {heads}/{kv_heads}, {queries} x {keys}, size {size}{mask}")
}

/// Attention over requests of different lengths: `8 queries, heads 4/2, size 8`.
pub(crate) fn varlen_attention(queries: f64, Heads { heads, kv_heads, size }: Heads<f64>) -> String {
    format!("{queries} queries, heads {heads}/{kv_heads}, size {size}")
}

/// `64 x 256 x 128, 8 experts`
pub(crate) fn grouped_product(sizes: [u64; 3], experts: u64) -> String {
    format!("{}, {experts} experts", lengths(&sizes))
}

/// Experts whose weights are not known: `64 tokens of 2048, 8 experts`.
pub(crate) fn hidden_experts(tokens: u64, size: u64, experts: u64) -> String {
    format!("{tokens} tokens of {size}, {experts} experts")
}

/// `64 tokens, 2 of 8 experts, 2048 x 768`
pub(crate) fn experts(tokens: u64, [used, experts]: [u64; 2], sizes: [u64; 2]) -> String {
    format!("{tokens} tokens, {used} of {experts} experts, {}", lengths(&sizes))
}

/// `batch 1, 3 to 64 channels, 224 x 224, kernel 7 x 7, 2 groups`
pub(crate) fn convolution(batch: u64, [from, to]: [u64; 2], [input, kernel]: [&[u64]; 2], groups: u64) -> String {
    let groups = if groups > 1 { format!(", {groups} groups") } else { String::new() };
    format!("batch {batch}, {from} to {to} channels, {}, kernel {}{groups}", lengths(input), lengths(kernel))
}

/// Which op a kernel belongs to.
pub(crate) fn owners(has_captures: bool) -> String {
    let of_replays = if has_captures {
        "A kernel of a graph replay belongs to the op that launched it in the capture of the graph, whose batch is padded, if that is known."
    } else {
        "Kernels of graph replays belong to no op."
    };
    format!("A kernel belongs to the innermost op with known cost that was open on the launching thread. {of_replays}")
}

/// Ops that were not read.
pub(crate) fn left_out(ops: u64) -> String {
    format!("{ops} ops were not read, because the file has too many ops or shapes.")
}

/// Where shapes come from. `source`: a clause about it. `also_of_trace`: some are those of the trace.
pub(crate) fn shapes(source: &str, also_of_trace: bool) -> String {
    let also = if also_of_trace { " of the trace and" } else { "" };
    format!("shapes{also}{source}")
}

/// What the figures of an op rest on, beside its shapes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Basis {
    Shapes,
    /// Why they are not known.
    Unknown(&'static str),
    /// The lengths of the requests.
    Lengths,
    /// The bytes depend on the experts that are used.
    Experts {
        least_bytes: f64,
        most_bytes: f64,
    },
    /// The rate is above the limit of the GPU.
    AboveLimit,
}

/// `shapes; 12 to 80 MB, by the number of experts that the tokens use`
pub(crate) fn basis(shapes: &str, basis: Basis) -> String {
    let mb = |bytes: f64| (bytes / 1e6).round() as i64;
    match basis {
        Basis::Shapes => shapes.to_owned(),
        Basis::Unknown(why) => format!("{shapes}; unknown: {why}"),
        Basis::Lengths => format!("{shapes}, and the lengths of the requests by the annotation of the step"),
        Basis::Experts { least_bytes, most_bytes } => {
            let (least, most) = (mb(least_bytes), mb(most_bytes));
            format!("{shapes}; {least} to {most} MB, by the number of experts that the tokens use")
        }
        Basis::AboveLimit => {
            format!("{shapes}; above the limit: the model of the op is wrong, or operands come from the cache")
        }
    }
}

/// The rates of a role rest on the shapes of its ops. `source`: a clause about where they come from.
pub(crate) fn role_by_shapes(source: &str) -> String {
    format!("traced shapes{source}")
}

/// Rates by shapes that no GPU reaches.
pub(crate) fn impossible_by_shapes(source: &str, of_limit: Pct) -> String {
    format!(
        "{}; no rate, because it would be {} of the limit: operands come from the cache, or the model of the op is wrong",
        role_by_shapes(source),
        percent_0(of_limit)
    )
}

/// The experts that a role reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpertsRead {
    pub(crate) least: f64,
    pub(crate) most: f64,
    /// Experts of the layer.
    pub(crate) count: f64,
    pub(crate) bytes_each: f64,
}

/// The rates of a role rest on its work in the model: `role and config; 8 to 53 of 128 experts read, 6.3 MB each`.
pub(crate) fn role_by_config(is_message: bool, experts: Option<ExpertsRead>) -> String {
    let message = if is_message { "; bytes of the message, over the links" } else { "" };
    let experts = or_nothing(experts, |ExpertsRead { least, most, count, bytes_each }| {
        let to = if most > least { format!(" to {most}") } else { String::new() };
        format!("; {least}{to} of {count} experts read, {:.1} MB each", bytes_each / 1e6)
    });
    format!("role and config{message}{experts}")
}

/// A role that would be faster than the GPU, and what is assumed of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImpossibleRole<'a> {
    pub(crate) role: &'a str,
    pub(crate) of_limit: Pct,
    pub(crate) quantisation: &'a str,
    /// Over GPUs.
    pub(crate) division: &'a str,
    pub(crate) gpu: &'a str,
}

/// Why a role has no rates.
pub(crate) fn impossible_role(of: ImpossibleRole) -> String {
    format!(
        "no rate: {} would reach {} of the limit, so one of these is wrong: the model, its quantisation ({}), the division over \
         GPUs ({}), the GPU ({}), the role of the kernel",
        of.role,
        percent_0(of.of_limit),
        of.quantisation,
        of.division,
        of.gpu
    )
}

/// The config is that of another model.
pub(crate) fn other_layers(traced: usize, by_config: usize) -> String {
    format!("the step has {traced} layers, but the config {by_config} on each GPU")
}

/// What counters tell of bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Counted {
    /// Bytes read and written.
    All,
    /// Only those read, in TB/s.
    Read(f64),
    /// Only those written, in TB/s.
    Written(f64),
}

/// What the rates of a role rest on, if some of its bytes were counted.
pub(crate) fn with_counters(basis: Option<&str>, counted: Counted) -> String {
    let counted = match counted {
        Counted::All => "bytes by counters".to_owned(),
        Counted::Read(rate) => format!("by counters {rate:.2} TB/s are read; writes were not counted"),
        Counted::Written(rate) => format!("by counters {rate:.2} TB/s are written; reads were not counted"),
    };
    or_nothing(basis, |basis| format!("{basis}; ")) + &counted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_names_only_what_differs_from_one() {
        assert_eq!((product(1, [2, 3, 4]), product(5, [2, 3, 4])), ("2 x 3 x 4".into(), "5 x (2 x 3 x 4)".into()));
        assert_eq!(convolution(1, [3, 64], [&[8], &[3]], 1), "batch 1, 3 to 64 channels, 8, kernel 3");
        assert!(convolution(1, [4, 64], [&[8], &[3]], 2).ends_with("kernel 3, 2 groups"));
    }

    #[test]
    fn the_basis_of_a_role_has_what_is_known_of_its_bytes() {
        let read = |most| Some(ExpertsRead { least: 8.0, most, count: 128.0, bytes_each: 6.5e6 });
        assert_eq!(role_by_config(false, read(52.0)), "role and config; 8 to 52 of 128 experts read, 6.5 MB each");
        assert_eq!(role_by_config(true, None), "role and config; bytes of the message, over the links");
        assert_eq!(with_counters(None, Counted::All), "bytes by counters");
        assert_eq!(
            with_counters(Some("traced shapes"), Counted::Read(0.5)),
            "traced shapes; by counters 0.50 TB/s are read; writes were not counted"
        );
    }
}
