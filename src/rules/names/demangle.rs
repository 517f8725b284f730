//! Demangles kernel names that follow the Itanium C++ ABI, with bounds on recursion depth and output size.

use std::borrow::Cow;
use std::fmt;

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// Longer names stay mangled. The longest known kernel names (CUTLASS) have about 10,000 bytes.
const MAX_MANGLED_BYTES: usize = 32 << 10;

/// Longer results are dropped. Substitutions can double a name at every step; a real name grows three to five times.
const MAX_DEMANGLED_BYTES: usize = 256 << 10;

const MAX_DEPTH: u32 = 96;

/// Demangles an Itanium C++ ABI name (`_Z...`) after removing clone suffixes and AMD's kernel descriptor suffix `.kd`. Any
/// other text, and a name that cannot be demangled, is returned unchanged.
///
/// ```
/// use gpuprism::rules::names::demangle;
/// assert_eq!(demangle("_Z6vecAddPfS_i.kd"), "vecAdd(float*, float*, int)");
/// assert_eq!(demangle("triton_poi_fused_add_0"), "triton_poi_fused_add_0");
/// ```
pub fn demangle(raw: &str) -> Cow<'_, str> {
    if !raw.starts_with("_Z") || raw.len() > MAX_MANGLED_BYTES {
        return Cow::Borrowed(raw);
    }
    // Mangled names contain no dots: the suffix after the first dot names a clone or a descriptor.
    let mangled = raw.split('.').next().unwrap_or(raw);
    let parse = ParseOptions::default().recursion_limit(MAX_DEPTH);
    let write = DemangleOptions::default().recursion_limit(MAX_DEPTH);
    let mut out = Bounded(String::new());
    match Symbol::new_with_options(mangled.as_bytes(), &parse) {
        Ok(symbol) if symbol.structured_demangle(&mut out, &write).is_ok() => Cow::Owned(out.0),
        _ => Cow::Borrowed(raw),
    }
}

/// A string that returns an error instead of growing beyond [`MAX_DEMANGLED_BYTES`].
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_DEMANGLED_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}
