//! Builds the Lua 5.1 that scripts run on: the C source of the `lua-src` crate, with the edits of `edits.rs`.
//!
//! ```text
//!   lua-src crate --copy--> OUT_DIR/lua/cpp_source --edits.rs--> edited source --cc--> libpolder_lua.a
//! ```
//!
//! `mlua-sys` has its feature `external`: it declares Lua's functions and links no library of its own.
//! **Invariant:** the repository holds no copy of Lua. An edit that does not fit the source stops the build.
mod edits;

use std::fs;
use std::path::{Path, PathBuf};

use edits::{EDITS, Edit};

/// Headers that `lua-src` wraps for C++, with the line that it puts in front.
const WRAPPED: [&str; 3] = ["lauxlib.h", "lua.h", "lualib.h"];
const WRAPPER: &str = "extern \"C\" {\n";

fn main() {
    println!("cargo:rerun-if-changed=build");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("lua");
    let source = copied_source(&out);
    for edit in EDITS {
        apply(edit, &source);
    }
    compile(&source);
}

/// A copy of Lua's source that may be edited.
///
/// The crate does not say where its files are, but copies them for one target, before it calls a compiler. A file where the
/// folder of the objects would be ends the build at that point.
fn copied_source(out: &Path) -> PathBuf {
    if out.exists() {
        fs::remove_dir_all(out).expect("the last copy of Lua's source can be removed");
    }
    fs::create_dir_all(out).expect("OUT_DIR can be written");
    fs::write(out.join("lib"), "").expect("OUT_DIR can be written");
    let end =
        lua_src::Build::new().out_dir(out).target("wasm32-unknown-emscripten").try_build(lua_src::Lua51);
    let source = out.join("cpp_source");
    assert!(
        source.join("lvm.c").exists(),
        "lua-src has not copied Lua's source to {} ({end:?}): this version of it needs another way",
        source.display()
    );
    for name in WRAPPED {
        let path = source.join(name);
        let text = read(&path);
        let body = text.strip_prefix(WRAPPER).and_then(|body| body.strip_suffix("\n}"));
        fs::write(&path, body.unwrap_or_else(|| panic!("{name} is not wrapped as expected")))
            .expect("a header can be written");
    }
    source
}

fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    String::from_utf8(bytes).unwrap_or_else(|_| panic!("{} is not UTF-8", path.display()))
}

/// Makes one edit. Its place must occur exactly once.
fn apply(edit: &Edit, source: &Path) {
    let path = source.join(edit.file);
    let text = read(&path);
    let found = text.matches(edit.before).count();
    assert!(
        found == 1,
        "the edit of {} \"{}\" fits {found} places instead of one: compare script/build/edits.rs with this version of lua-src",
        edit.file,
        edit.why
    );
    fs::write(&path, text.replacen(edit.before, edit.after, 1)).expect("Lua's source can be written");
}

fn compile(source: &Path) {
    let mut files: Vec<PathBuf> = fs::read_dir(source)
        .expect("the copied source can be read")
        .map(|entry| entry.expect("the copied source can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    files.sort();
    let mut build = cc::Build::new();
    build
        .warnings(false)
        .include(source)
        .include("build")
        .files(files)
        .file("build/seeded.c")
        .file("build/room.c")
        .cargo_metadata(false);
    // As the crate itself builds it.
    build.define("LUA_USE_LINUX", None).flag_if_supported("-fno-common");
    // Signed overflow wraps: Lua's own checks look for it after it has happened.
    build.flag("-fwrapv");
    if std::env::var("PROFILE").as_deref() == Ok("debug") {
        build.define("LUA_USE_APICHECK", None);
    }
    build.compile("polder_lua");
    println!("cargo:rustc-link-search=native={}", std::env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    // Whole: the crates that refer to it come later on the linker's command line.
    println!("cargo:rustc-link-lib=static:+whole-archive=polder_lua");
}
