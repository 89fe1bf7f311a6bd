//! The crates' inner structure: no large group of files has circular imports.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// Largest allowed cycle. Two files that need each other, and the folder's own file between them, are easy to read
/// together; more files are not.
const MAX_CYCLE: usize = 3;

/// Path of a module below its crate: `["lab", "vm"]`.
type Module = Vec<String>;

/// Returns the root files of all crates: a package's library and each of its binaries are separate crates.
fn crates() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["", "crates", "bench"].map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let packages = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    packages.filter(|path| path.join("Cargo.toml").exists()).flat_map(|path| roots(&path.join("src"))).collect()
}

/// Returns the root files of a package's crates, in the places where Cargo looks for them.
fn roots(source: &Path) -> Vec<PathBuf> {
    let binaries = fs::read_dir(source.join("bin")).into_iter().flatten().map(|entry| entry.unwrap().path());
    let binaries = binaries.map(|path| if path.is_dir() { path.join("main.rs") } else { path });
    ["lib.rs", "main.rs"]
        .map(|name| source.join(name))
        .into_iter()
        .chain(binaries)
        .filter(|path| path.exists())
        .collect()
}

/// Returns the modules of one crate that are files, except test modules.
fn modules(root: &Path) -> BTreeMap<Module, syn::File> {
    fn walk(path: &Path, folder: &Path, module: Module, found: &mut BTreeMap<Module, syn::File>) {
        let file = syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap();
        for item in &file.items {
            if let syn::Item::Mod(item @ syn::ItemMod { content: None, .. }) = item
                && !is_test(item)
            {
                let name = item.ident.to_string();
                let below = folder.join(&name);
                let beside = below.with_extension("rs");
                let path = if beside.exists() { beside } else { below.join("mod.rs") };
                walk(&path, &below, [module.clone(), vec![name]].concat(), found);
            }
        }
        found.insert(module, file);
    }
    let mut found = BTreeMap::new();
    walk(root, root.parent().unwrap(), Module::new(), &mut found);
    found
}

fn is_test(item: &syn::ItemMod) -> bool {
    let is_of_tests = |a: &syn::Attribute| a.parse_args().is_ok_and(|path: syn::Path| path.is_ident("test"));
    item.attrs.iter().any(|attribute| attribute.path().is_ident("cfg") && is_of_tests(attribute))
}

/// Collects the paths that a file names, with the module within the file that names them.
struct Paths {
    module: Module,
    found: Vec<(Module, Vec<String>)>,
}

impl Paths {
    fn tree(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.found.push((self.module.clone(), with(&name.ident))),
            syn::UseTree::Rename(name) => self.found.push((self.module.clone(), with(&name.ident))),
            syn::UseTree::Glob(_) => self.found.push((self.module.clone(), prefix.to_vec())),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.tree(prefix, item)),
        }
    }
}

impl Visit<'_> for Paths {
    fn visit_item_mod(&mut self, item: &syn::ItemMod) {
        if !is_test(item) {
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }

    /// `pub(super)` imports nothing.
    fn visit_visibility(&mut self, _: &syn::Visibility) {}

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        self.tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &syn::Path) {
        self.found.push((self.module.clone(), path.segments.iter().map(|s| s.ident.to_string()).collect()));
        visit::visit_path(self, path);
    }
}

/// Returns the file that `path`, written in module `from`, leads to.
fn target(from: &Module, path: &[String], files: &BTreeMap<Module, syn::File>) -> Option<Module> {
    let (mut module, mut rest) = match path.first()?.as_str() {
        "crate" => (Module::new(), &path[1..]),
        "self" => (from.clone(), &path[1..]),
        "super" => (from.clone(), path),
        first if files.contains_key(&[from.clone(), vec![first.to_owned()]].concat()) => (from.clone(), path),
        _ => return None,
    };
    while rest.first().is_some_and(|part| part == "super") {
        module.pop()?;
        rest = &rest[1..];
    }
    for part in rest {
        let below = [module.clone(), vec![part.clone()]].concat();
        if !files.contains_key(&below) {
            break;
        }
        module = below;
    }
    Some(module)
}

/// Returns everything that can be reached from `start` by imports.
fn reachable<'a>(start: &'a Module, imports: &'a BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<&'a Module> {
    let (mut found, mut next) = (BTreeSet::new(), vec![start]);
    while let Some(module) = next.pop() {
        next.extend(imports.get(module).into_iter().flatten().filter(|to| found.insert(*to)));
    }
    found
}

/// Returns groups of a crate's files in which each file reaches all others.
fn cycles(root: &Path) -> BTreeSet<Vec<String>> {
    let files = modules(root);
    let mut imports = BTreeMap::new();
    for (module, file) in &files {
        let mut paths = Paths { module: module.clone(), found: Vec::new() };
        paths.visit_file(file);
        let targets = paths.found.iter().filter_map(|(from, path)| target(from, path, &files));
        imports.insert(module.clone(), targets.filter(|to| to != module && files.contains_key(to)).collect());
    }
    let reached: BTreeMap<_, _> = files.keys().map(|module| (module, reachable(module, &imports))).collect();
    let mut found = BTreeSet::new();
    for module in files.keys() {
        let cycle = files.keys().filter(|m| reached[module].contains(m) && reached[m].contains(module));
        let cycle: Vec<String> = cycle.map(|m| m.join("::")).collect();
        if cycle.len() > 1 {
            found.insert(cycle);
        }
    }
    found
}

#[test]
fn no_large_group_of_files_imports_each_other() {
    let crates = crates();
    assert!(crates.len() > 20, "{crates:?}");
    let large: Vec<_> = crates.iter().flat_map(|root| cycles(root).into_iter().map(move |c| (root, c))).collect();
    let large: Vec<_> = large.iter().filter(|(_, cycle)| cycle.len() > MAX_CYCLE).collect();
    assert!(large.is_empty(), "{large:#?}");
}

/// Writes files below a folder, and finds the cycles of each crate there.
fn cycles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let scratch = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = scratch.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    roots(scratch.path()).iter().flat_map(|root| cycles(root)).collect()
}

#[test]
fn a_cycle_is_found() {
    let found = cycles_of(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::{b::B, c}; pub struct A(B);"),
        ("b.rs", "pub struct B; fn f() { super::c::g(); }"),
        ("c.rs", "pub fn g() { let _: Option<crate::a::A> = None; } #[cfg(test)] mod tests { use crate::a; }"),
    ]);
    assert_eq!(found, [["a", "b", "c"]]);
}

#[test]
fn each_binary_is_a_crate_of_its_own() {
    let found = cycles_of(&[
        ("lib.rs", "pub mod a;"),
        ("a.rs", "pub struct A;"),
        ("main.rs", "mod c; mod d; use c::C; pub struct M;"),
        ("c.rs", "use crate::d::D; pub struct C(D);"),
        ("d.rs", "pub struct D; fn f(_: crate::M, _: crate::c::C) {}"),
        ("bin/x/main.rs", "mod a; mod b;"),
        ("bin/x/a.rs", "use crate::b::B; pub struct A(B);"),
        ("bin/x/b/mod.rs", "pub struct B; fn f(_: crate::a::A) {}"),
    ]);
    assert_eq!(found, [vec!["", "c", "d"], vec!["a", "b"]]);
}
