//! Checks the import graph of `src`: no circles between files, and no folder uses one that comes later in the data flow.
//!
//! The graph has an edge from file A to file B if A names an item that B defines. A name that a module re-exports counts
//! for the file that defines the item. Tests (`#[cfg(test)]`) may use anything and are left out. Run
//! `cargo test --package xtask --profile checks --test imports -- --nocapture` for the list.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item, UseTree, Visibility};

/// The folders that each folder (or file) directly under `src` may use; see "Data flow" in ARCHITECTURE.md. Files that are not
/// listed, such as `json.rs`, are helpers: everything may use them and they may use other helpers only.
const LAYERS: &[(&str, &[&str])] = &[
    ("trace", &[]),
    ("rules", &["trace"]),
    ("words", &["trace", "rules"]),
    ("input", &["trace", "rules", "words"]),
    ("analysis", &["trace", "rules", "words"]),
    ("report", &["trace", "rules", "words", "input", "analysis"]),
    ("session", &["trace", "rules", "words", "input", "analysis", "report"]),
    ("files", &["trace", "rules", "words", "input", "analysis", "report", "session"]),
    ("facts", &["trace", "rules", "words", "input", "analysis", "report", "session", "files"]),
    ("cli", &["trace", "rules", "words", "input", "analysis", "report", "session", "files", "facts"]),
    ("web", &["trace", "rules", "words", "input", "analysis", "report", "session"]),
    ("main", &["cli"]),
];

#[test]
fn files_import_each_other_without_circles() {
    let graph = Graph::read(&source_folder());
    let circles = graph.circles();
    let mut text = String::new();
    for circle in &circles {
        let _ = writeln!(text, "\ncircle of {} files:", circle.len());
        let mut paths: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for import in graph.imports_within(circle) {
            paths.entry((&import.from, &import.to)).or_default().push(&import.path);
        }
        for ((from, to), paths) in paths {
            let _ = writeln!(text, "  {from} uses {to}: {}", paths.join(", "));
        }
    }
    assert!(circles.is_empty(), "files import each other in a circle:{text}");
}

#[test]
fn folders_use_only_earlier_ones() {
    let graph = Graph::read(&source_folder());
    let violations: Vec<String> = graph
        .imports
        .iter()
        .filter(|import| !is_allowed(layer(&import.from), layer(&import.to)))
        .map(|import| format!("{}: uses {} ({})", import.from, import.path, import.to))
        .collect();
    assert!(violations.is_empty(), "imports against the data flow:\n{}", violations.join("\n"));
}

fn is_allowed(from: &str, to: &str) -> bool {
    let uses = |name: &str| LAYERS.iter().find(|(layer, _)| *layer == name).map(|(_, uses)| *uses);
    // The crate's root only declares the modules, and defines helpers.
    from == to || from == "lib" || uses(to).is_none() || uses(from).is_some_and(|uses| uses.contains(&to))
}

/// The folder, or file without its ending, directly under `src`.
fn layer(file: &str) -> &str {
    let first = file.split('/').nth(1).unwrap_or_default();
    first.strip_suffix(".rs").unwrap_or(first)
}

fn source_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../src")
}

/// One import: the file `from` names `path`, which the file `to` defines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Import {
    from: String,
    to: String,
    path: String,
}

/// A module's path from the crate's root, such as `["report", "chart"]`.
type ModulePath = Vec<String>;

#[derive(Debug, Default)]
struct Module {
    /// Relative to the repository, such as `src/report/chart/mod.rs`.
    file: String,
    /// Names in scope by `use`, and the paths that they stand for.
    imported: BTreeMap<String, Vec<String>>,
    /// Paths imported by `*`.
    globs: Vec<Vec<String>>,
    /// Names of the items that the module defines, but for modules.
    defined: BTreeSet<String>,
    /// Every path named in the module, `use` lines included.
    named: BTreeSet<Vec<String>>,
}

#[derive(Debug, Default)]
struct Graph {
    modules: BTreeMap<ModulePath, Module>,
    imports: BTreeSet<Import>,
}

impl Graph {
    fn read(source: &Path) -> Self {
        let mut graph = Self::default();
        graph.read_file(source, &source.join("lib.rs"), &[]);
        let main = source.join("main.rs");
        if main.is_file() {
            graph.read_file(source, &main, &["main".to_owned()]);
        }
        graph.resolve();
        graph
    }

    fn read_file(&mut self, source: &Path, path: &Path, module: &[String]) {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let relative = path.strip_prefix(source).unwrap();
        self.read_items(source, &format!("src/{}", relative.display()), module, parsed.items);
    }

    fn read_items(&mut self, source: &Path, file: &str, path: &[String], items: Vec<Item>) {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        for item in items {
            if is_test(attributes(&item)) {
                continue;
            }
            match item {
                Item::Mod(inner) => {
                    let name = inner.ident.to_string();
                    let inner_path = [path, &[name]].concat();
                    match inner.content {
                        Some((_, items)) => self.read_items(source, file, &inner_path, items),
                        None => self.read_file(source, &module_file(source, &inner_path), &inner_path),
                    }
                }
                Item::Use(line) => {
                    let is_public = !matches!(line.vis, Visibility::Inherited);
                    import_names(&line.tree, &mut Vec::new(), &mut module, is_public);
                }
                other => {
                    module.defined.extend(defined_name(&other));
                    collect_paths(other.to_token_stream(), &[], &mut module.named);
                }
            }
        }
        self.modules.insert(path.to_vec(), module);
    }

    /// Turns the paths that modules name into imports between files.
    fn resolve(&mut self) {
        let mut imports = BTreeSet::new();
        for (path, module) in &self.modules {
            for named in &module.named {
                let Some(target) = self.defining_module(path, named, 0) else { continue };
                let to = &self.modules[&target].file;
                if *to != module.file {
                    imports.insert(Import { from: module.file.clone(), to: to.clone(), path: named.join("::") });
                }
            }
        }
        self.imports = imports;
    }

    /// The module that defines the item of a path named in the module `from`; `None` for items of other crates.
    fn defining_module(&self, from: &[String], path: &[String], depth: usize) -> Option<ModulePath> {
        // Names that stand for each other (`pub use` in a circle) end here.
        if depth > 16 {
            return None;
        }
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.descend(Vec::new(), rest, depth),
            "self" => self.descend(from.to_vec(), rest, depth),
            "super" => {
                let mut module = from.to_vec();
                module.pop()?;
                let mut rest = rest;
                while let Some(("super", after)) = rest.split_first().map(|(name, after)| (name.as_str(), after)) {
                    module.pop()?;
                    rest = after;
                }
                self.descend(module, rest, depth)
            }
            "gpuprism" if from == ["main"] => self.descend(Vec::new(), rest, depth),
            name => {
                let child = [from, &[name.to_owned()]].concat();
                if self.modules.contains_key(&child) {
                    return self.descend(child, rest, depth);
                }
                let imported = self.modules.get(from)?.imported.get(name)?;
                // `use foo;` and `use foo as foo` stand for themselves.
                if imported.first() == Some(first) && imported.len() == 1 {
                    return None;
                }
                self.defining_module(from, &[imported, rest].concat(), depth + 1)
            }
        }
    }

    /// Follows `rest` from a module down to the module that defines its item, through re-exports.
    fn descend(&self, module: ModulePath, rest: &[String], depth: usize) -> Option<ModulePath> {
        let Some((name, after)) = rest.split_first() else { return Some(module) };
        let here = self.modules.get(&module)?;
        let child = [&module[..], std::slice::from_ref(name)].concat();
        // A function may have the name of a module: the end of a path means the function.
        let is_item = after.is_empty() && (here.defined.contains(name) || here.imported.contains_key(name));
        if self.modules.contains_key(&child) && !is_item {
            return self.descend(child, after, depth);
        }
        if here.defined.contains(name) {
            return Some(module);
        }
        if let Some(imported) = here.imported.get(name) {
            return self.defining_module(&module, &[imported, after].concat(), depth + 1);
        }
        let defines = |glob: &Vec<String>| {
            let target = self.defining_module(&module, glob, depth + 1)?;
            let found = self.descend(target.clone(), rest, depth + 1)?;
            (self.modules[&found].defined.contains(name)).then_some(found)
        };
        here.globs.iter().find_map(defines).or(Some(module))
    }

    /// The sets of files that reach each other, leaving out imports between a module and those inside it.
    fn circles(&self) -> Vec<BTreeSet<&str>> {
        let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for import in self.imports.iter().filter(|import| !is_nested(&import.from, &import.to)) {
            edges.entry(&import.from).or_default().insert(&import.to);
        }
        let reachable: BTreeMap<&str, BTreeSet<&str>> =
            edges.keys().map(|file| (*file, reachable_from(file, &edges))).collect();
        let reach = |from: &str, to: &str| reachable.get(from).is_some_and(|files| files.contains(to));
        let mut circles: Vec<BTreeSet<&str>> = Vec::new();
        for file in edges.keys().filter(|file| reach(file, file)) {
            if !circles.iter().any(|circle| circle.contains(file)) {
                circles.push(edges.keys().copied().filter(|other| reach(file, other) && reach(other, file)).collect());
            }
        }
        circles
    }

    fn imports_within<'a>(&'a self, circle: &'a BTreeSet<&str>) -> impl Iterator<Item = &'a Import> {
        self.imports.iter().filter(|import| {
            let is_in = |file: &String| circle.contains(file.as_str());
            is_in(&import.from) && is_in(&import.to) && !is_nested(&import.from, &import.to)
        })
    }
}

fn reachable_from<'a>(file: &str, edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = edges.get(file).into_iter().flatten().copied().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(edges.get(next).into_iter().flatten());
        }
    }
    reached
}

/// Whether one of the two files is the module that contains the other.
fn is_nested(one: &str, other: &str) -> bool {
    let folder = |file: &str| {
        let stem = file.strip_suffix("/mod.rs").or(file.strip_suffix("/lib.rs")).or(file.strip_suffix(".rs"));
        format!("{}/", stem.unwrap_or(file))
    };
    let (one, other) = (folder(one), folder(other));
    one.starts_with(&other) || other.starts_with(&one)
}

fn module_file(source: &Path, module: &[String]) -> PathBuf {
    let base = source.join(module.join("/"));
    let folder = base.join("mod.rs");
    if folder.is_file() { folder } else { base.with_extension("rs") }
}

/// Notes the names that a `use` line brings into scope, and the paths that it names.
fn import_names(tree: &UseTree, prefix: &mut Vec<String>, module: &mut Module, is_public: bool) {
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            import_names(&path.tree, prefix, module, is_public);
            prefix.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| import_names(tree, prefix, module, is_public)),
        UseTree::Glob(_) => {
            module.named.extend((!is_public).then(|| prefix.clone()));
            module.globs.push(prefix.clone());
        }
        UseTree::Name(name) => import_name(&name.ident.to_string(), None, prefix, module, is_public),
        UseTree::Rename(name) => {
            let alias = name.rename.to_string();
            import_name(&name.ident.to_string(), Some(alias), prefix, module, is_public);
        }
    }
}

/// A re-export is not a dependency: the file that uses the name depends on the file that defines it.
fn import_name(name: &str, alias: Option<String>, prefix: &[String], module: &mut Module, is_public: bool) {
    let path = if name == "self" { prefix.to_vec() } else { [prefix, &[name.to_owned()]].concat() };
    if let Some(in_scope) = alias.or_else(|| path.last().cloned()) {
        module.imported.insert(in_scope, path.clone());
    }
    module.named.extend((!is_public).then_some(path));
}

/// Collects every path (`a::b::c`) of a token stream, macros and nested `use` lines included.
fn collect_paths(tokens: TokenStream, prefix: &[String], paths: &mut BTreeSet<Vec<String>>) {
    let mut path: Vec<String> = prefix.to_vec();
    let mut has_name = false;
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                if has_name && colons < 2 {
                    end_path(&mut path, prefix, paths);
                }
                path.push(ident.to_string());
                (has_name, colons) = (true, 0);
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            TokenTree::Group(group) => {
                let is_list = has_name && colons == 2 && group.delimiter() == Delimiter::Brace;
                let inner_prefix = if is_list { path.clone() } else { Vec::new() };
                if !is_list {
                    end_path(&mut path, prefix, paths);
                }
                collect_paths(group.stream(), &inner_prefix, paths);
                path = prefix.to_vec();
                (has_name, colons) = (false, 0);
            }
            _ => {
                end_path(&mut path, prefix, paths);
                (has_name, colons) = (false, 0);
            }
        }
    }
    end_path(&mut path, prefix, paths);
}

/// Keeps a path of several names; a single name is a local one, or its `use` line is counted.
fn end_path(path: &mut Vec<String>, prefix: &[String], paths: &mut BTreeSet<Vec<String>>) {
    if path.len() > 1 {
        paths.insert(std::mem::take(path));
    }
    *path = prefix.to_vec();
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = attribute.to_token_stream().to_string();
        attribute.path().is_ident("cfg")
            && text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
            && !text.contains("not")
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn defined_name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

#[test]
fn the_graph_finds_circles_through_re_exports() {
    let source = std::env::temp_dir().join(format!("xtask-imports-{}", std::process::id()));
    fs::create_dir_all(source.join("a")).unwrap();
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod c;"),
        ("a/mod.rs", "mod inner;\npub use inner::Item;"),
        ("a/inner.rs", "pub struct Item;\nfn f() { crate::b::g() }"),
        ("b.rs", "use crate::a::Item;\npub fn g() {}\n#[cfg(test)]\nmod tests { use crate::c::C; }"),
        ("c.rs", "use super::b::{self, g};\nuse std::fmt;\npub struct C;"),
    ];
    for (name, text) in files {
        fs::write(source.join(name), text).unwrap();
    }
    let graph = Graph::read(&source);
    let found: Vec<_> = graph.circles().into_iter().map(|circle| circle.into_iter().collect::<Vec<_>>()).collect();
    assert_eq!(found, [["src/a/inner.rs", "src/b.rs"]]);
    let paths: Vec<_> = graph.imports.iter().map(|import| (import.from.as_str(), import.path.as_str())).collect();
    let wanted = [
        ("src/a/inner.rs", "crate::b::g"),
        ("src/b.rs", "crate::a::Item"),
        ("src/c.rs", "super::b"),
        ("src/c.rs", "super::b::g"),
    ];
    assert_eq!(paths, wanted);
}
