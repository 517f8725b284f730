//! Demangled names that the page's demangler module returned, for the wasm module that has no demangler.

use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;

thread_local! {
    static DEMANGLED: RefCell<HashMap<String, String, RandomState>> = RefCell::default();
}

/// Stores the demangled forms of these names. Both lists are in the same order.
pub fn store_demangled(mangled: Vec<String>, demangled: Vec<String>) {
    DEMANGLED.with_borrow_mut(|cache| cache.extend(mangled.into_iter().zip(demangled)));
}

/// The stored form of a mangled name. Any other name is returned unchanged.
pub fn demangle(raw: &str) -> Cow<'_, str> {
    if !super::is_mangled(raw) {
        return Cow::Borrowed(raw);
    }
    DEMANGLED.with_borrow(|cache| cache.get(raw).cloned()).map_or(Cow::Borrowed(raw), Cow::Owned)
}
