//! Short kernel names of a report, by full name: every table and chart of a run shows a kernel by the same short name.

use crate::analysis::results::Run;
use crate::analysis::triage::frames::canonical;
use crate::rules::names;
use foldhash::fast::RandomState;
use std::cell::OnceCell;
use std::collections::HashMap;

/// The short names of the kernels of a run. The maps are built at the first look-up.
#[derive(Default)]
pub(super) struct ShortNames<'a> {
    run: Option<&'a Run>,
    by_name: OnceCell<HashMap<&'a str, &'a str, RandomState>>,
    by_demangled: OnceCell<HashMap<String, &'a str, RandomState>>,
    by_canonical: OnceCell<HashMap<String, &'a str, RandomState>>,
}

impl<'a> ShortNames<'a> {
    pub(super) fn of(run: &'a Run) -> Self {
        Self { run: Some(run), ..Self::default() }
    }

    /// The short form of a name as in the trace or demangled.
    pub(super) fn short(&self, name: &str) -> String {
        self.known(name).map_or_else(|| names::short(&names::demangle(name)), str::to_owned)
    }

    /// `None` if the run has no kernel of this name.
    pub(super) fn known(&self, name: &str) -> Option<&'a str> {
        let kernels = || self.run.map_or(&[][..], |run| &run.kernels).iter();
        let by_name =
            self.by_name.get_or_init(|| kernels().map(|kernel| (&*kernel.name, &*kernel.short_name)).collect());
        if let Some(short) = by_name.get(name) {
            return Some(short);
        }
        // Sections contain demangled names, kernels the names of the trace.
        let by_demangled = self.by_demangled.get_or_init(|| {
            let mangled = kernels().filter(|kernel| kernel.name.starts_with("_Z"));
            mangled.map(|kernel| (names::demangle(&kernel.name).into_owned(), &*kernel.short_name)).collect()
        });
        if let Some(short) = by_demangled.get(name) {
            return Some(short);
        }
        // The triage joins names that differ in details. Of several short names it takes that of the first kernel.
        let by_canonical = self
            .by_canonical
            .get_or_init(|| kernels().rev().map(|kernel| (canonical(&kernel.name), &*kernel.short_name)).collect());
        by_canonical.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;

    #[test]
    fn names_of_the_triage_without_arguments_are_as_distinct_as_those_of_the_report() {
        let mut trace = TestTrace::nsys();
        trace.kernel("void gemm<float, TypeCast>(Arg)", 0..20).kernel("void gemm<float, TypeCastWeight>(Arg)", 20..30);
        let run = trace.run();
        let names = ShortNames::of(&run);
        let short = ["void gemm<float, TypeCast>", "void gemm<float, TypeCastWeight>"].map(|name| names.short(name));
        let expected: Vec<&str> = run.kernels.iter().map(|kernel| kernel.short_name.as_str()).collect();
        assert_eq!(short, *expected);
        assert_ne!(short[0], short[1]);
        assert_eq!(names.short("void other<int>"), "other");
    }
}
