//! Checks that `src/analysis` formats no text: sentences and their formatters are in `src/words`. Reads the source; tests do not count.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Spacing, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item, Meta};

/// Files that write keys and names, such as `file.py:12`, and no sentences.
const WRITE_KEYS: &[&str] = &[
    "src/analysis/communication/operations.rs",
    "src/analysis/communication/ranks/file_names.rs",
    "src/analysis/host/blamed_code.rs",
    "src/analysis/kernels/copies.rs",
    "src/analysis/replay/cause.rs",
    "src/analysis/timeline/example.rs",
    "src/analysis/timeline/search.rs",
    "src/analysis/triage/frames.rs",
    "src/analysis/triage/fuse/matching.rs",
    "src/analysis/triage/overlap/mod.rs",
    "src/analysis/triage/serving/arguments.rs",
];

#[test]
fn analyses_leave_texts_to_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    source_files(&root.join("src/analysis"), &mut files);
    let formatting: BTreeSet<String> = files
        .iter()
        .filter(|path| formats(path))
        .map(|path| path.strip_prefix(&root).unwrap().display().to_string())
        .collect();
    let allowed: BTreeSet<String> = WRITE_KEYS.iter().map(|file| (*file).to_owned()).collect();
    let new: Vec<&String> = formatting.difference(&allowed).collect();
    assert!(new.is_empty(), "these files format text; give typed values to a function of src/words: {new:#?}");
    let done: Vec<&String> = allowed.difference(&formatting).collect();
    assert!(done.is_empty(), "these files format nothing any more; take them out of the list: {done:#?}");
}

fn source_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        // Compiled for tests only: `tests.rs`, `testing.rs`, `idle_cause_tests.rs`, `tests/`.
        if name.split('_').any(|part| matches!(part, "tests" | "testing" | "golden")) {
            continue;
        }
        if path.is_dir() {
            source_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn formats(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap();
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parsed.items.iter().any(|item| !is_of_tests(item) && names_format(item.to_token_stream()))
}

fn is_of_tests(item: &Item) -> bool {
    let attributes: &[Attribute] = match item {
        Item::Mod(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        _ => &[],
    };
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

/// Whether the tokens contain `format!` or `write!`.
fn names_format(tokens: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_macro = tokens.windows(2).any(|pair| match pair {
        [TokenTree::Ident(name), TokenTree::Punct(mark)] => {
            let is_name = ["format", "write", "writeln"].iter().any(|known| name == known);
            // `format != other` is a comparison.
            is_name && mark.as_char() == '!' && mark.spacing() == Spacing::Alone
        }
        _ => false,
    });
    is_macro || tokens.into_iter().any(|token| matches!(token, TokenTree::Group(group) if names_format(group.stream())))
}
