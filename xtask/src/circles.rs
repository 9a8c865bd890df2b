//! Files of a crate that import each other in a circle.
//!
//! ```text
//!   src/lib.rs            the crate's front: it names everything and is no part of a circle
//!   src/hash.rs           a room: a file together with the folder of its name
//!   src/hash/walk.rs      inside the folder the same again: hash.rs holds what its parts share
//! ```
//!
//! **Invariant**: the rooms of one folder import each other without a circle.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

type Graph = BTreeMap<String, BTreeSet<String>>;

/// The circles of these crates.
///
/// # Errors
/// When a source file cannot be read.
pub fn check(root: &Path, crates: &[String]) -> Result<Vec<String>, String> {
    let mut findings = Vec::new();
    for name in crates {
        let mut sources = BTreeMap::new();
        read(&root.join(name).join("src"), &mut Vec::new(), &mut sources)
            .map_err(|error| format!("{name}/src: {error}"))?;
        let found = circles(&sources).into_iter();
        findings.extend(
            found.map(|circle| format!("{name}: files import each other in a circle: {}", circle.join(", "))),
        );
    }
    Ok(findings)
}

/// Reads all modules below a folder; a module's path is its names joined by `::`, the crate's front has none.
fn read(
    folder: &Path,
    path: &mut Vec<String>,
    sources: &mut BTreeMap<String, String>,
) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?.path();
        let stem = entry.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if entry.is_dir() {
            path.push(stem);
            read(&entry, path, sources)?;
            path.pop();
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let is_front = matches!(stem.as_str(), "mod" | "lib" | "main");
            let name = path.iter().cloned().chain((!is_front).then_some(stem)).collect::<Vec<_>>().join("::");
            sources.insert(name, without_tests(&fs::read_to_string(&entry)?));
        }
    }
    Ok(())
}

/// A source without its comments and without its tests.
fn without_tests(source: &str) -> String {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The circles in every folder: the modules of each, by their paths.
fn circles(sources: &BTreeMap<String, String>) -> Vec<Vec<String>> {
    let mut graphs: BTreeMap<String, Graph> = BTreeMap::new();
    for (module, source) in sources {
        for path in paths(source) {
            let Some(target) = target(module, &path, sources) else { continue };
            // The edge stands in the folder where the two part; a file and what its own folder holds do not part.
            let (from, to): (Vec<&str>, Vec<&str>) =
                (module.split("::").collect(), target.split("::").collect());
            let common = from.iter().zip(&to).take_while(|(one, two)| one == two).count();
            if module.is_empty() || target.is_empty() || common >= from.len().min(to.len()) {
                continue;
            }
            let graph = graphs.entry(from[..common].join("::")).or_default();
            graph.entry(from[..=common].join("::")).or_default().insert(to[..=common].join("::"));
        }
    }
    graphs.values().flat_map(components).collect()
}

/// The file that a path leads to, through what the crate's front has renamed to its own.
fn target(module: &str, path: &str, sources: &BTreeMap<String, String>) -> Option<String> {
    let mut words: Vec<&str> = path.split("::").collect();
    let mut base: Vec<&str> = if module.is_empty() { Vec::new() } else { module.split("::").collect() };
    match words[0] {
        "crate" => {
            base.clear();
            words.remove(0);
        }
        "self" => drop(words.remove(0)),
        "super" => {
            while words.first() == Some(&"super") {
                words.remove(0);
                base.pop();
            }
        }
        _ => {}
    }
    let whole: Vec<&str> = base.iter().chain(&words).copied().collect();
    let found = (0..=whole.len())
        .rev()
        .map(|length| (length, whole[..length].join("::")))
        .find(|(_, name)| sources.contains_key(name));
    let (_, name) = found?;
    if name.is_empty() && path.starts_with("crate") {
        let item = whole.first()?;
        let exported = paths(&sources[""])
            .into_iter()
            .find(|path| path.rsplit("::").next() == Some(item) && path.contains("::"))?;
        return if exported.starts_with("crate") { None } else { target("", &exported, sources) };
    }
    // A path of one word names something of the module itself, and others begin with another crate's name.
    (path.contains("::") && (name != base.join("::") || module == name || path.starts_with("super")))
        .then_some(name)
}

/// Every path that a source imports, or begins with `crate`, `self` or `super`.
fn paths(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find("use ") {
        // Not in the middle of a text.
        let before = rest[..at].rsplit('\n').next().unwrap_or_default().trim_start();
        let starts = before.is_empty() || before.starts_with("pub");
        rest = &rest[at + 4..];
        if let (true, Some(end)) = (starts, rest.find(';')) {
            expand("", &rest[..end], &mut found);
        }
    }
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in source.match_indices(start) {
            let end = source[at..]
                .find(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != ':')
                .unwrap_or(source.len() - at);
            found.push(source[at..at + end].trim_end_matches(':').to_owned());
        }
    }
    found
}

/// The single paths of an import with braces.
fn expand(prefix: &str, tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        return found.push(format!("{prefix}{}", path.trim_end_matches("::self")));
    };
    let prefix = format!("{prefix}{}", tree[..open].trim());
    let (mut depth, mut begin, inside) = (0, 0, &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())]);
    for (at, letter) in inside.char_indices().chain([(inside.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inside[begin..at].trim().is_empty() {
                    expand(&prefix, &inside[begin..at], found);
                }
                begin = at + 1;
            }
            _ => {}
        }
    }
}

/// The sets of modules of which each reaches each other.
fn components(graph: &Graph) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|start| (start, reach(graph, start))).collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for (module, others) in &reached {
        if !others.contains(module) || circles.iter().any(|circle| circle.contains(module)) {
            continue;
        }
        let circle =
            others.iter().filter(|other| reached.get(**other).is_some_and(|back| back.contains(module)));
        circles.push(circle.map(|name| (*name).clone()).collect());
    }
    circles
}

fn reach<'g>(graph: &'g Graph, start: &str) -> BTreeSet<&'g String> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&String> = graph.get(start).into_iter().flatten().collect();
    while let Some(module) = open.pop() {
        if seen.insert(module) {
            open.extend(graph.get(module).into_iter().flatten());
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sources: &[(&str, &str)]) -> Vec<Vec<String>> {
        circles(&sources.iter().map(|(name, source)| (name.to_string(), without_tests(source))).collect())
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let found = of(&[
            ("", "pub use a::A;"),
            ("a", "use crate::b::{B, C};"),
            ("b", "use crate::{c};"),
            ("c", "use crate::A;"),
        ]);
        assert_eq!(found, [["a", "b", "c"]]);
        assert!(of(&[("", ""), ("a", "use crate::b::B;"), ("b", "// use crate::a::A;")]).is_empty());
    }

    #[test]
    fn a_file_and_its_own_folder_are_one_room() {
        let front = ("a", "mod one; mod two; use one::f; use two::g;");
        assert!(
            of(&[("", ""), front, ("a::one", "use super::A;"), ("a::two", "use super::one::f;")]).is_empty()
        );
        let found =
            of(&[("", ""), front, ("a::one", "use super::two::g;"), ("a::two", "use super::one::f;")]);
        assert_eq!(found, [["a::one", "a::two"]]);
        let found =
            of(&[("", ""), front, ("a::one", "use crate::b::B;"), ("a::two", ""), ("b", "use crate::a::A;")]);
        assert_eq!(found, [["a", "b"]]);
    }

    #[test]
    fn texts_import_nothing() {
        let text =
            "fn f() -> &'static str { if a() { \"they may use it } else { }\" } else { \"\" } }\nstruct A;";
        assert!(of(&[("", ""), ("a", text), ("b", "use crate::a::A;")]).is_empty());
    }

    #[test]
    fn tests_may_import_whatever_they_like() {
        assert!(
            of(&[("", ""), ("a", "use crate::b::B;"), ("b", "#[cfg(test)]\nmod tests { use crate::a::A; }")])
                .is_empty()
        );
    }
}
