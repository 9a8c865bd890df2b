//! Examples of a package as programs that tests run.
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a command that runs the example `name` of the package `package`, whose folder is `folder`: the program that
/// `cargo test` has built, or a build of its own where there is none. Such a build has other features than that of the
/// workspace, and makes every crate again.
pub fn example(package: &str, folder: &str, name: &str) -> Command {
    if let Some(program) = built(folder, name) {
        return Command::new(program);
    }
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "--quiet", "--package", package, "--example", name, "--"]);
    command
}

/// Finds the program of an example beside that of this test, unless it is older than its source.
fn built(folder: &str, name: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.parent()?.parent()?.join("examples").join(name);
    let source = Path::new(folder).join("examples").join(name).with_extension("rs");
    let changed = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    (changed(&program)? > changed(&source)?).then_some(program)
}
