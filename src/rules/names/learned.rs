//! The names that the page's demangler has read, in a module that has none.

use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;

thread_local! {
    static READABLE: RefCell<HashMap<String, String, RandomState>> = RefCell::default();
}

/// Keeps how these mangled names read.
pub fn learn(mangled: Vec<String>, readable: Vec<String>) {
    READABLE.with_borrow_mut(|known| known.extend(mangled.into_iter().zip(readable)));
}

/// The readable form that was learned; any other name as it is.
pub fn demangle(raw: &str) -> Cow<'_, str> {
    if !super::is_mangled(raw) {
        return Cow::Borrowed(raw);
    }
    READABLE.with_borrow(|known| known.get(raw).cloned()).map_or(Cow::Borrowed(raw), Cow::Owned)
}
