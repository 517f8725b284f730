//! Readable names for kernels whose names are mangled as C++ compilers do (the Itanium ABI).
//!
//! A crate of its own because few traces have such names (AMD's, mostly) and a demangler weighs a twelfth of the page's
//! first load: the page fetches it as a module of its own when a trace needs it. Names come from a trace and may be
//! anything: the work is bounded in depth and output, and what is not understood stays as it is.

use std::borrow::Cow;
use std::fmt;

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// The longest mangled kernel names (CUTLASS) have some 10,000 bytes.
const MAX_MANGLED_BYTES: usize = 32 << 10;

/// Substitutions can double a name at every step; a real name grows three to five times.
const MAX_DEMANGLED_BYTES: usize = 256 << 10;

const MAX_DEPTH: u32 = 96;

/// Demangles an Itanium name (`_Z...`), AMD's kernel descriptor suffix `.kd` and clone suffixes taken off; anything else, and
/// a name that cannot be demangled, is returned as it is.
///
/// ```
/// use gpuprism_demangle::demangle;
/// assert_eq!(demangle("_Z6vecAddPfS_i.kd"), "vecAdd(float*, float*, int)");
/// assert_eq!(demangle("triton_poi_fused_add_0"), "triton_poi_fused_add_0");
/// ```
pub fn demangle(raw: &str) -> Cow<'_, str> {
    if !raw.starts_with("_Z") || raw.len() > MAX_MANGLED_BYTES {
        return Cow::Borrowed(raw);
    }
    // No mangled character is a dot: what follows the first one names a clone or a descriptor.
    let mangled = raw.split('.').next().unwrap_or(raw);
    let parse = ParseOptions::default().recursion_limit(MAX_DEPTH);
    let write = DemangleOptions::default().recursion_limit(MAX_DEPTH);
    let mut out = Bounded(String::new());
    match Symbol::new_with_options(mangled.as_bytes(), &parse) {
        Ok(symbol) if symbol.structured_demangle(&mut out, &write).is_ok() => Cow::Owned(out.0),
        _ => Cow::Borrowed(raw),
    }
}

/// A text that refuses to grow beyond [`MAX_DEMANGLED_BYTES`].
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

/// All of these, for the page.
#[cfg(all(target_arch = "wasm32", feature = "module"))]
#[wasm_bindgen::prelude::wasm_bindgen(js_name = demangle)]
#[must_use]
pub fn demangle_all(names: Vec<String>) -> Vec<String> {
    names.iter().map(|name| demangle(name).into_owned()).collect()
}
