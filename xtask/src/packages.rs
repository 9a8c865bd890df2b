//! Published crates are whole: a file that the code of a crate takes in when it is built is one of those that its package has.
//!
//! A build in the repository finds such a file in any case. Without this check, that a package lacks it is first seen when the package is
//! published.
use std::path::{Component, Path, PathBuf};

use regex::Regex;

use crate::tidy::tracked;

/// The files that are taken in and that no package has.
///
/// # Errors
/// When git or a file cannot be read.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let read =
        |path: &str| std::fs::read_to_string(root.join(path)).map_err(|error| format!("{path}: {error}"));
    let mut findings = Vec::new();
    for manifest in tracked(root, "*/Cargo.toml")? {
        let folders = packaged(&read(&manifest)?);
        let Some(package) = manifest.strip_suffix("/Cargo.toml").filter(|_| !folders.is_empty()) else {
            continue;
        };
        for source in tracked(root, &format!("{package}/src/*.rs"))? {
            let missing = taken_in(&source, &read(&source)?)
                .into_iter()
                .filter(|file| !is_packaged(package, &folders, file));
            findings.extend(missing.map(|file| {
                format!("{source} takes in {}, which `include` in {manifest} does not name", file.display())
            }));
        }
    }
    Ok(findings)
}

/// The folders that a manifest packages whole; none where it packages everything, or is not published.
fn packaged(manifest: &str) -> Vec<String> {
    let line = manifest.lines().find_map(|line| line.strip_prefix("include = "));
    line.into_iter()
        .flat_map(|line| line.split('"'))
        .filter_map(|word| Some(word.strip_prefix('/')?.strip_suffix("/**")?.into()))
        .collect()
}

/// The files that a source takes in, relative to the root.
fn taken_in(source: &str, text: &str) -> Vec<PathBuf> {
    let call = Regex::new(r#"include(?:_str|_bytes)?!\("([^"]+)"\)"#).expect("the pattern is right");
    let folder = Path::new(source).parent().unwrap_or(Path::new(""));
    call.captures_iter(text).map(|found| plain(&folder.join(&found[1]))).collect()
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => _ = plain.pop(),
            part => plain.push(part),
        }
        plain
    })
}

fn is_packaged(package: &str, folders: &[String], file: &Path) -> bool {
    file.strip_prefix(package).is_ok_and(|inside| folders.iter().any(|folder| inside.starts_with(folder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beside_the_packaged_folders_is_found() {
        let folders = packaged("[package]\ninclude = [\"/src/**\", \"/pages/**\", \"/README.md\"]\n");
        assert_eq!(folders, ["src", "pages"]);
        let text = "include_str!(\"../../pages/a.html\"), include_bytes!(\"b.bin\"), include_str!(\"../../assets/c.css\")";
        let files = taken_in("door/src/web/mod.rs", text);
        assert_eq!(
            files,
            ["door/pages/a.html", "door/src/web/b.bin", "door/assets/c.css"].map(PathBuf::from)
        );
        let packaged: Vec<bool> = files.iter().map(|file| is_packaged("door", &folders, file)).collect();
        assert_eq!(packaged, [true, true, false]);
    }
}
