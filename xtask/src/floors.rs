//! The floors of ARCHITECTURE.md: a crate may use only crates of lower floors, proved from `cargo metadata`. The files inside a crate
//! import each other without circles: see [`crate::circles`].
//!
//! **Invariant**: an edge between two of our crates goes down. Materials (floor 1) do not know each other.
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::circles;

/// Every crate and its floor, and the place inside the floor where its crates are in an order. What is beside the house may use anything
/// and is used by no crate in it.
const FLOORS: &[(&str, (u32, u32))] = &[
    ("polder-base", (0, 0)),
    ("polder-shm", (1, 0)),
    ("polder-values", (1, 0)),
    ("polder-wire", (1, 0)),
    ("polder-table", (2, 0)),
    ("polder-storage", (2, 0)),
    ("polder-tier", (2, 0)),
    ("polder-hub", (3, 0)),
    ("polder-calls", (4, 1)),
    ("polder-commands", (4, 2)),
    ("polder-runtime", (4, 3)),
    ("polder-persist", (4, 4)),
    ("polder-replica", (4, 5)),
    ("polder-admin", (4, 6)),
    ("polder-script", (4, 0)),
    ("polder-engine", (5, 0)),
    ("polder-protocols", (6, 1)),
    ("polder-server", (6, 2)),
    ("polder-client", (6, 0)),
    ("polder", (7, 0)),
    ("polder-capi", (7, 0)),
    ("polder-python", (7, 0)),
    ("polder-testbase", BESIDE),
    ("polder-testkit", BESIDE),
    ("polder-counts", BESIDE),
    ("xtask", BESIDE),
];

const BESIDE: (u32, u32) = (9, 0);

/// The edges that do not go down, and the circles inside crates.
///
/// # Errors
/// When `cargo metadata` cannot be had or read.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let mut found = findings(&metadata);
    found.extend(circles::check(root, &folders(root, &metadata))?);
    Ok(found)
}

/// The folders of all packages, relative to the root.
fn folders(root: &Path, metadata: &Value) -> Vec<String> {
    let manifests = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|package| package["manifest_path"].as_str());
    let folders = manifests.filter_map(|manifest| Path::new(manifest).parent()?.strip_prefix(root).ok());
    folders.map(|folder| folder.to_string_lossy().into_owned()).collect()
}

fn findings(metadata: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(floor) = floor(name) else {
            findings.push(format!("{name} has no floor: give it one in xtask/src/floors.rs"));
            continue;
        };
        for edge in package["dependencies"].as_array().into_iter().flatten() {
            let target = edge["name"].as_str().unwrap_or_default();
            let shipped = edge["kind"] != "dev";
            // Tests of a crate may stand on testkit; what is shipped may not.
            if let Some(below) = self::floor(target)
                && shipped
                && floor != BESIDE
                && !(below.0 < floor.0 || below.0 == floor.0 && 0 < below.1 && below.1 < floor.1)
            {
                findings.push(format!(
                    "{name} (floor {}.{}) uses {target} (floor {}.{}); edges go down only",
                    floor.0, floor.1, below.0, below.1
                ));
            }
        }
    }
    findings
}

fn floor(name: &str) -> Option<(u32, u32)> {
    FLOORS.iter().find(|(known, _)| *known == name).map(|&(_, floor)| floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: &str, to: &str, kind: Value) -> Value {
        serde_json::json!({ "packages": [{ "name": from, "dependencies": [{ "name": to, "kind": kind }] }] })
    }

    #[test]
    fn edges_go_down_only() {
        assert_eq!(findings(&edge("polder-table", "polder-shm", Value::Null)), Vec::<String>::new());
        assert_eq!(findings(&edge("polder-shm", "polder-table", Value::Null)).len(), 1);
        assert_eq!(findings(&edge("polder-values", "polder-shm", Value::Null)).len(), 1);
        assert_eq!(findings(&edge("polder-runtime", "polder-commands", Value::Null)), Vec::<String>::new());
        assert_eq!(findings(&edge("polder-calls", "polder-commands", Value::Null)).len(), 1);
        assert_eq!(findings(&edge("polder-script", "polder-calls", Value::Null)).len(), 1);
        assert_eq!(findings(&edge("polder-table", "polder-testkit", "dev".into())), Vec::<String>::new());
        assert_eq!(findings(&edge("stranger", "libc", Value::Null)).len(), 1);
    }
}
