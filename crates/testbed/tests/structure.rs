//! The crates' inner structure: no large group of files imports each other in a circle.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// Two files that need each other, and the folder's own file between them, are easy to read together; more are not.
const LARGEST_CIRCLE: usize = 3;

/// Path of a module below its crate: `["lab", "vm"]`.
type Module = Vec<String>;

/// Folders named `src` that hold a crate.
fn crates() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    let folders = ["", "crates", "bench"].map(|folder| fs::read_dir(root.join(folder)).unwrap());
    for entry in folders.into_iter().flatten().map(Result::unwrap) {
        if entry.path().join("Cargo.toml").exists() {
            found.push(entry.path().join("src"));
        }
    }
    found
}

/// The modules of one crate that are files, test modules left out.
fn modules(source: &Path) -> BTreeMap<Module, PathBuf> {
    fn walk(directory: &Path, module: &Module, found: &mut BTreeMap<Module, PathBuf>) {
        for path in fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()) {
            let name = path.file_stem().unwrap().to_str().unwrap();
            let below = [module.clone(), vec![name.to_owned()]].concat();
            if path.is_dir() {
                walk(&path, &below, found);
            } else if path.extension().is_some_and(|e| e == "rs") && !name.ends_with("tests") {
                let is_root = ["mod", "lib", "main"].contains(&name);
                found.insert(if is_root { module.clone() } else { below }, path);
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(source, &Module::new(), &mut found);
    found
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
        let is_test = item.attrs.iter().any(|a| a.path().is_ident("cfg"));
        if !is_test {
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

/// The file that `path`, written in module `from`, leads to.
fn target(from: &Module, path: &[String], files: &BTreeMap<Module, PathBuf>) -> Option<Module> {
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

/// Everything that can be reached from `start` by imports.
fn reachable<'a>(start: &'a Module, imports: &'a BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<&'a Module> {
    let (mut found, mut next) = (BTreeSet::new(), vec![start]);
    while let Some(module) = next.pop() {
        next.extend(imports.get(module).into_iter().flatten().filter(|to| found.insert(*to)));
    }
    found
}

/// Groups of files each of which reaches all others.
fn circles(source: &Path) -> BTreeSet<Vec<String>> {
    let files = modules(source);
    let mut imports = BTreeMap::new();
    for (module, path) in &files {
        let file = syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap();
        let mut paths = Paths { module: module.clone(), found: Vec::new() };
        paths.visit_file(&file);
        let targets = paths.found.iter().filter_map(|(from, path)| target(from, path, &files));
        imports.insert(module.clone(), targets.filter(|to| to != module && files.contains_key(to)).collect());
    }
    let reached: BTreeMap<_, _> = files.keys().map(|module| (module, reachable(module, &imports))).collect();
    let mut found = BTreeSet::new();
    for module in files.keys() {
        let circle = files.keys().filter(|m| reached[module].contains(m) && reached[m].contains(module));
        let circle: Vec<String> = circle.map(|m| m.join("::")).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found
}

#[test]
fn no_large_group_of_files_imports_each_other() {
    let sources = crates();
    assert!(sources.len() > 10, "{sources:?}");
    let large: Vec<_> = sources.iter().flat_map(|s| circles(s).into_iter().map(move |c| (s.clone(), c))).collect();
    let large: Vec<_> = large.iter().filter(|(_, circle)| circle.len() > LARGEST_CIRCLE).collect();
    assert!(large.is_empty(), "{large:#?}");
}

#[test]
fn a_circle_is_found() {
    let scratch = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(scratch.path().join(name), text).unwrap();
    write("lib.rs", "mod a; mod b; mod c;");
    write("a.rs", "use crate::{b::B, c}; pub struct A(B);");
    write("b.rs", "pub struct B; fn f() { super::c::g(); }");
    write("c.rs", "pub fn g() { let _: Option<crate::a::A> = None; } #[cfg(test)] mod tests { use crate::a; }");
    assert_eq!(circles(scratch.path()), BTreeSet::from([["a", "b", "c"].map(str::to_owned).to_vec()]));
}
