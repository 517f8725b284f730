//! Makes kernel names readable: demangles them and shortens them for tables.
//!
//! Names come from a trace and may be any text. Every function is linear in its input and bounded in recursion depth and
//! output size. Text that cannot be parsed is returned unchanged.

mod demangle;
mod distinct;

pub use demangle::demangle;
pub use distinct::{distinct, distinct_within};

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::json::{self, from_json};

/// The maximum length of a short name in characters: a table of kernels must fit a terminal.
const MAX_SHORT_CHARS: usize = 56;

/// The short form of a single name: without return type, namespaces, template arguments and parameters. A wrapper kernel
/// that runs many different functors (`patterns/short_names.json`) keeps the functor's name. Names over 56 characters are
/// abbreviated; tile sizes are kept. [`distinct`] gives different short names to different kernels.
///
/// ```
/// use gpuprism::rules::names::short;
/// assert_eq!(short("void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*, int)"), "rms_norm_kernel");
/// assert_eq!(
///     short("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> >(int)"),
///     "vectorized_elementwise_kernel<FillFunctor>"
/// );
/// assert_eq!(short("Memcpy HtoD (Pageable -> Device)"), "Memcpy HtoD (Pageable -> Device)");
/// ```
pub fn short(demangled: &str) -> String {
    distinct::abbreviated(&unabridged(demangled))
}

/// The short form of any length: [`short`] without its limit.
pub fn unabridged(demangled: &str) -> String {
    if let Some(name) = mangled_path(demangled).filter(|name| !WORDS.wrappers.contains(*name)) {
        return name.to_owned();
    }
    if !is_cpp(demangled) {
        return demangled.to_owned();
    }
    let Some(function) = Signature::new(demangled).function() else { return demangled.to_owned() };
    if WORDS.wrappers.contains(function.name)
        && let Some(functor) = informative(function.template)
    {
        return format!("{}<{functor}>", function.name);
    }
    match function.scope {
        Some(scope) if WORDS.needs_scope.contains(function.name) => format!("{scope}::{}", function.name),
        _ => function.name.to_owned(),
    }
}

/// The data of `patterns/short_names.json`.
#[derive(Debug, Default)]
struct Words {
    /// Kernels that are identified by the functor in their template arguments.
    wrappers: HashSet<String>,
    /// Kernels that are identified by their namespace.
    needs_scope: HashSet<String>,
    /// Identifiers in template arguments that are not functors.
    not_informative: HashSet<String>,
    /// Identifiers in template arguments that are data types of tensors.
    data_types: HashSet<String>,
}
from_json!(Words { wrappers, needs_scope, not_informative, data_types });

// A test checks that the file parses.
static WORDS: LazyLock<Words> =
    LazyLock::new(|| json::read(include_str!("../../patterns/short_names.json")).unwrap_or_default());

/// The last path component of a nested mangled name (`bar` of `_ZN3foo3barI...`), for names that could not be demangled.
fn mangled_path(name: &str) -> Option<&str> {
    let mut rest = name.strip_prefix("_ZN")?;
    let mut last = None;
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let component = rest.get(..digits).and_then(|length| length.parse::<usize>().ok());
        let Some(length) = component else { return last };
        let Some((component, after)) = rest.get(digits..).and_then(|from| from.split_at_checked(length)) else {
            return last;
        };
        last = Some(component);
        rest = after;
    }
}

/// Returns true if the text has a scope, template arguments, or a parameter list directly after a name.
/// `Memcpy HtoD (Host -> Device)` has none of these.
fn is_cpp(text: &str) -> bool {
    let attached = |pair: &[u8]| matches!(pair, [before, b'('] if is_identifier(*before) || *before == b'>');
    text.contains("::") || text.contains('<') || text.as_bytes().windows(2).any(attached)
}

/// The parts of a C++ signature that short names use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Function<'a> {
    /// The path component before the name.
    scope: Option<&'a str>,
    /// The last path component, without its template arguments.
    name: &'a str,
    /// The template arguments without the outer brackets; may be empty.
    template: &'a str,
}

/// Scans a signature once and skips everything inside brackets.
struct Signature<'a> {
    text: &'a str,
    position: usize,
    found: Option<Function<'a>>,
}

impl<'a> Signature<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, position: 0, found: None }
    }

    fn function(mut self) -> Option<Function<'a>> {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' => self.end_of_return_type(),
                b'(' => {
                    self.skip_group();
                    if self.found.is_some() && !self.continue_scope() {
                        break;
                    }
                }
                b'<' | b'[' | b'{' => self.skip_group(),
                b'\'' => self.skip_quoted(),
                _ if is_identifier(byte) => self.component(),
                _ => self.position += 1,
            }
        }
        self.found
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    /// In `void f(...)`, the text before the space was a return type, not the name.
    fn end_of_return_type(&mut self) {
        self.position += 1;
        if !matches!(self.peek(), None | Some(b' ')) {
            self.found = None;
        }
    }

    /// Returns true if `::` follows a parameter list: then a lambda or local scope inside that function follows.
    fn continue_scope(&mut self) -> bool {
        let rest = self.rest();
        let after = rest.strip_prefix(" const").unwrap_or(rest);
        if after.starts_with("::") {
            self.position = self.text.len() - after.len();
            return true;
        }
        false
    }

    fn component(&mut self) {
        let name = identifier(self.rest());
        self.position += name.len();
        if name == "operator" {
            return self.skip_operator();
        }
        let mut template = "";
        if self.peek() == Some(b'<') {
            let start = self.position + 1;
            self.skip_group();
            template = self.text.get(start..self.position).unwrap_or_default();
            template = template.strip_suffix('>').unwrap_or(template);
        }
        self.found = Some(Function { scope: self.found.map(|scope| scope.name), name, template });
    }

    /// The symbols of `operator()` and `operator<<` are not brackets. The name before the operator is kept.
    fn skip_operator(&mut self) {
        let rest = self.rest().trim_start_matches(' ');
        let symbols = if rest.starts_with("()") {
            2
        } else {
            rest.bytes().take_while(|byte| b"<>=!+-*/%&|^~".contains(byte)).count()
        };
        self.position = self.text.len() - rest.len() + symbols;
    }

    fn skip_group(&mut self) {
        self.position += group_length(self.rest());
    }

    fn skip_quoted(&mut self) {
        let closing = self.rest().bytes().skip(1).position(|byte| byte == b'\'');
        self.position = closing.map_or(self.text.len(), |length| self.position + length + 2);
    }
}

/// The number of bytes up to and including the bracket that closes the first one. The whole length if it is never closed.
fn group_length(text: &str) -> usize {
    let mut open: Vec<u8> = Vec::new();
    let mut previous = b' ';
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => open.push(byte),
            b'>' if previous != b'-' => {
                open.pop_if(|top| *top == b'<');
            }
            b')' | b']' | b'}' => {
                // A `<` that is still open here was a less-than sign.
                while open.len() > 1 && open.pop_if(|top| *top == b'<').is_some() {}
                open.pop_if(|top| *top != b'<');
            }
            _ => {}
        }
        if open.is_empty() {
            return index + 1;
        }
        previous = byte;
    }
    text.len()
}

/// The first identifier in template arguments that names a functor.
fn informative(template: &str) -> Option<&str> {
    let mut rest = template;
    while let Some(start) = rest.bytes().position(is_identifier) {
        let from = rest.get(start..)?;
        let name = identifier(from);
        rest = from.get(name.len()..)?;
        let is_namespace = rest.starts_with("::");
        let is_number = name.starts_with(|first: char| first.is_ascii_digit());
        if !is_namespace && !is_number && !WORDS.not_informative.contains(name) {
            return Some(name);
        }
    }
    None
}

fn identifier(text: &str) -> &str {
    let length = text.bytes().position(|byte| !is_identifier(byte)).unwrap_or(text.len());
    text.get(..length).unwrap_or_default()
}

/// Non-ASCII bytes count as identifier bytes, which avoids splitting a multi-byte character.
fn is_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// Shortens to `room` characters with an ellipsis in the middle.
fn shorten_middle(name: &str, room: usize) -> String {
    let count = name.chars().count();
    if count <= room {
        return name.to_owned();
    }
    let head = room * 2 / 3;
    let tail = room.saturating_sub(head + 1);
    name.chars().take(head).chain(['\u{2026}']).chain(name.chars().skip(count - tail)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Expected values from GNU c++filt.
    #[test]
    fn itanium_names_are_demangled() {
        assert_eq!(demangle("_Z4gemmPKfS0_Pfi"), "gemm(float const*, float const*, float*, int)");
        assert_eq!(
            demangle("_ZN5aiter17rms_norm2d_kernelIfLi8EEEvPT_i.kd"),
            "void aiter::rms_norm2d_kernel<float, 8>(float*, int)"
        );
        assert_eq!(demangle("_ZN2at6native7flattenEv.isra.0"), "at::native::flatten()");
    }

    #[test]
    fn names_that_are_not_mangled_are_returned_unchanged() {
        for name in [
            "",
            "_Z",
            "_Zebra",
            "_ZN5aiter",
            "Cijk_Alik_Bljk",
            "_ZN9999999999999a",
            "void f<int>(int)",
            "__amd_rocclr_copyBuffer.kd",
        ] {
            assert_eq!(demangle(name), name);
        }
    }

    #[test]
    fn deeply_nested_and_expanding_mangled_names_are_returned_unchanged() {
        let nested = format!("_Z1f{}i", "P".repeat(30_000));
        assert_eq!(demangle(&nested), nested);
        // Each argument is a pair of the previous one: 2^35 letters if expanded.
        let pairs = |count: usize| {
            let ids = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ".chars().take(count);
            ids.fold(String::from("_Z1f1ASt4pairIS_S_E"), |name, id| name + &format!("S0_IS{id}_S{id}_E"))
        };
        assert_eq!(demangle(&pairs(1)), "f(A, std::pair<A, A>, std::pair<std::pair<A, A>, std::pair<A, A> >)");
        assert_eq!(demangle(&pairs(35)), pairs(35));
        let long = format!("_Z{}", "N1a".repeat(400_000));
        assert_eq!(demangle(&long), long);
    }

    /// Checks the short form of each name in a list of lines. The line after a name is its expected short form.
    fn check_short_names(list: &str) {
        let lines: Vec<&str> = list.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        for lines in lines.chunks(2) {
            assert_eq!(short(lines[0]), lines[1], "{}", lines[0]);
        }
    }

    #[test]
    fn a_name_that_says_nothing_alone_keeps_its_namespace() {
        assert_eq!(
            short("void deep_ep::internode_ll::dispatch<true, false, 7168>(void*, float*)"),
            "internode_ll::dispatch"
        );
        assert_eq!(short("void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(int)"), "intranode::combine");
        assert_eq!(short("void vllm::moe::topk_softmax<8>(float*)"), "topk_softmax");
        assert_eq!(short("dispatch"), "dispatch");
    }

    #[test]
    fn a_short_name_has_no_return_type_namespace_template_or_parameters() {
        check_short_names(
            "
             void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*, long, float)
                 rms_norm_kernel
             void (anonymous namespace)::fused_qknorm_warp<128l, true, __nv_bfloat16>((anonymous namespace)::QKNormParams)
                 fused_qknorm_warp
             void <unnamed>::softmax_warp_forward<float, float, float, (int)6, (bool)0, (bool)0>(T2 *, const T1 *, int)
                 softmax_warp_forward
             std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(long)
                 fused_add_rms_norm_kernel
             ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)
                 ncclDevKernel_AllGather_RING_LL
             flash::prepare_varlen_num_blocks_kernel(int, int)
                 prepare_varlen_num_blocks_kernel
             saxpy(double *, double *, double *, double, int)
                 saxpy
             void f<(&ns::operator<< <char>)>(int)
                 f
             void ns::launch(int)::{lambda(float)#1}::operator()(float) const
                 launch
             aiter::topksoftmax_4x128x8_bf16
                 topksoftmax_4x128x8_bf16
            ",
        );
    }

    #[test]
    fn a_wrapper_keeps_the_name_of_its_functor() {
        check_short_names(
            "
             void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)
                 vectorized_elementwise_kernel<CUDAFunctor_add>
             void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}>(at::TensorIteratorBase&, int)::{lambda(int)#1}>(int, int)
                 elementwise_kernel<direct_copy_kernel_cuda>
             void at::native::elementwise_kernel<(int)128, (int)2, void at::native::gpu_kernel_impl_nocast<at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float>>>(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)
                 elementwise_kernel<MulFunctor>
             void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4, 4> >(int)
                 reduce_kernel<MeanOps>
             void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorListMetadata<2>, at::native::(anonymous namespace)::UnaryOpFunctor<float, 2, 1, 1>, at::native::Sqrt<float> >(int)
                 multi_tensor_apply_kernel<Sqrt>
             void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass_80_simt_sgemm_128x32_8x5_nn_align1::Params)
                 Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>
             void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int> > >(int)
                 device_kernel<FlashAttnFwdSm90>
             void ck_tile::kentry<2, ck_tile::MoeSortingKernel<int>, int>(int)
                 kentry<MoeSortingKernel>
             std::enable_if<true, void>::type internal::gemvx::kernel<int, int, __half>(int)
                 gemvx::kernel
             void at::native::reduce_kernel<512, 1>(int)
                 reduce_kernel
            ",
        );
    }

    #[test]
    fn names_without_cpp_syntax_are_kept_or_abbreviated() {
        for name in [
            "triton_poi_fused_add_0",
            "[CUDA memcpy Host-to-Device]",
            "[CUDA memcpy Host-to-Device] (Pageable -> Device)",
            "Memcpy HtoD (Pageable -> Device)",
            "Memset (Device)",
            "",
            "::",
            "<>()",
        ] {
            assert_eq!(short(name), name);
        }
        let tensile =
            "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x256x32_MI16x16x1_SN_LDSB1_AFC1_AFEM1_WG32_8_1";
        assert_eq!(short(tensile), "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S…MT128x256x32_MI16x16x1…");
        assert_eq!(short(&"\u{6f22}".repeat(100)).chars().count(), MAX_SHORT_CHARS);
    }

    #[test]
    fn a_mangled_name_that_cannot_be_demangled_is_shortened_to_its_last_path_component() {
        let name = "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16TnPFT_RKS3_EXadL_Z4siluIS2_ES3_S5_EEEEvPS3_PS4_i";
        assert_eq!(short(&demangle(name)), "act_and_mul_kernel");
    }

    #[test]
    fn a_megabyte_of_brackets_gives_a_short_name() {
        for unit in ["<", "(", "a<", "a::", "void (", "operator", "{'", ")>]", "a(b)::", "<(", "\u{e9}<("] {
            let name = unit.repeat((1 << 20) / unit.len());
            assert!(short(&name).chars().count() <= MAX_SHORT_CHARS);
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_a_short_name(name in r"(_ZN?[0-9a-zA-Z_]{0,40}|[ a-z<>(){}\[\]:,*&'\u{e9}-]{0,60})") {
            prop_assert!(short(&demangle(&name)).chars().count() <= MAX_SHORT_CHARS);
        }
    }
}
