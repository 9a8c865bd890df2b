//! A store in RocksDB, whose library is loaded at run time.
//!
//! ```text
//!   FOLDER/LOCK ...    RocksDB's own files; the lock is held as long as the store is open, and falls with the process
//!   family `copies`    name -> copy. Each is put once, with the log of RocksDB, not synced: the page cache outlives the process
//!   family `meta`      "memory" -> whose copies these are
//! ```
//!
//! The signatures stand in `rocks/generated.rs`, which `xtask/bindings.sh` makes from RocksDB's own header. All unsafe code of this crate is here. Its rules:
//! - **R1** A pointer of the library is used only while its owner lives: the database by [`Rocks`], a batch, a value or an error by the function that has
//!   got it. The database and the handles of its families may be used by several threads at once (RocksDB's wiki, *Basic operations*).
//! - **R2** Handles of families are destroyed before the database is closed: Debian's library has assertions, and aborts otherwise.
//! - **R3** Bytes that the library gives are copied before what owns them is destroyed.
//! - **R5** The filter outlives the database, and its judge the filter: they go in this order when the database is closed. No panic leaves a callback.
//! - **R4** The library is never unloaded: threads of its own go on after the last database is closed.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr;
use std::sync::{Arc, OnceLock};

use crate::{Judge, Name, Store, StoreError};

#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    unsafe_op_in_unsafe_fn,
    non_camel_case_types,
    missing_docs,
    unreachable_pub,
    unused_extern_crates,
    unused_imports,
    dead_code,
    reason = "generated"
)]
mod generated;

use generated::{
    Api, rocksdb_column_family_handle_t, rocksdb_compactionfilter_t, rocksdb_options_t,
    rocksdb_pinnableslice_t, rocksdb_readoptions_t, rocksdb_t, rocksdb_writeoptions_t, size_t,
};

/// The libraries that are tried, the newest first.
const LIBRARIES: [&str; 5] =
    ["librocksdb.so.11", "librocksdb.so.10", "librocksdb.so.9", "librocksdb.so.8.9", "librocksdb.so.7.8"];
/// The name under which `meta` has whose copies these are.
const MEMORY: &[u8] = b"memory";
const FAMILIES: [&CStr; 3] = [c"default", c"copies", c"meta"];

const LZ4: c_int = 4;
const WARNINGS: c_int = 2;
/// A hash index in each block.
const HASHED: c_int = 1;
const BLOOM_BITS: f64 = 10.0;
const LOG_FILES: usize = 3;

/// The settings of the store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub block_bytes: usize,
    pub write_buffer_bytes: usize,
    pub background_jobs: i32,
    pub open_files: i32,
    pub compresses: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            block_bytes: 4096,
            write_buffer_bytes: 16 << 20,
            background_jobs: 2,
            open_files: -1,
            compresses: true,
        }
    }
}

/// Memtables of one family, at most.
const WRITE_BUFFERS: c_int = 3;

/// See the module.
pub struct Rocks {
    api: &'static Api,
    library: &'static str,
    db: *mut rocksdb_t,
    families: [*mut rocksdb_column_family_handle_t; 3],
    writes: *mut rocksdb_writeoptions_t,
    reads: *mut rocksdb_readoptions_t,
    /// The filter that drops copies, and asks the judge; null without one (R5).
    filter: *mut rocksdb_compactionfilter_t,
}

// SAFETY: R1, all of it may be used and closed by any thread.
unsafe impl Send for Rocks {}
// SAFETY: R1.
unsafe impl Sync for Rocks {}

impl Rocks {
    /// Looks whether the library can be loaded.
    ///
    /// # Errors
    /// The reason, with the package that has it.
    pub fn check() -> Result<(), StoreError> {
        load().map(drop)
    }

    /// Opens the store in a folder, which is made if it is not there. One that has not been the store of `memory` is emptied if `may_empty` says so: not
    /// where a value of that memory may have its copy in another folder.
    ///
    /// # Errors
    /// The library is missing; another process has the folder; it is not the store of this memory; what the library says.
    pub fn open(
        folder: &Path,
        memory: &[u8],
        may_empty: bool,
        options: &Options,
        judge: Option<Arc<dyn Judge>>,
    ) -> Result<Rocks, StoreError> {
        let rocks = Rocks::open_any(folder, options, judge.clone())?;
        let owner = rocks.meta()?;
        if owner.as_deref() == Some(memory) {
            return Ok(rocks);
        }
        if !may_empty {
            let whose = if owner.is_some() { "the values of another memory" } else { "no values" };
            return Err(StoreError(format!(
                "{} has {whose}, and values of this memory lie in a folder: name its parent by 'dir'",
                folder.display()
            )));
        }
        let rocks = if owner.is_none() {
            rocks
        } else {
            rocks.destroy(folder)?;
            Rocks::open_any(folder, options, judge)?
        };
        rocks.write_meta(memory)?;
        Ok(rocks)
    }

    fn open_any(
        folder: &Path,
        options: &Options,
        judge: Option<Arc<dyn Judge>>,
    ) -> Result<Rocks, StoreError> {
        let (api, library) = load()?;
        std::fs::create_dir_all(folder)
            .map_err(|error| StoreError(format!("{}: {error}", folder.display())))?;
        let path = path_of(folder)?;
        let (set, of_copies) = (options.make(api), options.make(api));
        let filter = judge.map_or(ptr::null_mut(), |judge| filter_of(api, judge));
        if !filter.is_null() {
            // SAFETY: R5.
            unsafe { api.rocksdb_options_set_compaction_filter(of_copies, filter) };
        }
        let names = FAMILIES.map(CStr::as_ptr);
        let mut families = [ptr::null_mut(); 3];
        // SAFETY: R1, all pointers are to what lives until the call is over, and as many as are told.
        let opened = checked(api, |error| unsafe {
            api.rocksdb_open_column_families(
                set,
                path.as_ptr(),
                FAMILIES.len() as c_int,
                names.as_ptr(),
                [set, of_copies, set].map(<*mut _>::cast_const).as_ptr(),
                families.as_mut_ptr(),
                error,
            )
        });
        // SAFETY: R1, the database has a copy of its options, or there is none.
        unsafe {
            api.rocksdb_options_destroy(set);
            api.rocksdb_options_destroy(of_copies);
        }
        let db = opened.inspect_err(|_| destroy_filter(api, filter))?;
        // SAFETY: R1, the library makes them.
        let (writes, reads) =
            unsafe { (api.rocksdb_writeoptions_create(), api.rocksdb_readoptions_create()) };
        Ok(Rocks { api, library, db, families, writes, reads, filter })
    }

    /// Closes it and removes its files.
    fn destroy(self, folder: &Path) -> Result<(), StoreError> {
        drop(self);
        let (api, _) = load()?;
        let path = path_of(folder)?;
        // SAFETY: R1, the database is closed, and the options are destroyed after their use.
        checked(api, |error| unsafe {
            let options = api.rocksdb_options_create();
            api.rocksdb_destroy_db(options, path.as_ptr(), error);
            api.rocksdb_options_destroy(options);
        })
    }

    fn copies(&self) -> *mut rocksdb_column_family_handle_t {
        self.families[1]
    }

    fn meta(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let mut length = 0;
        // SAFETY: R1.
        let value = checked(self.api, |error| unsafe {
            self.api.rocksdb_get_cf(
                self.db,
                self.reads,
                self.families[2],
                MEMORY.as_ptr().cast(),
                MEMORY.len() as u64,
                &raw mut length,
                error,
            )
        })?;
        if value.is_null() {
            return Ok(None);
        }
        // SAFETY: R1 and R3, the library has given `length` bytes, which are copied and then freed.
        let copy = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), length as usize) }.to_vec();
        // SAFETY: R1.
        unsafe { self.api.rocksdb_free(value.cast()) };
        Ok(Some(copy))
    }

    fn write_meta(&self, memory: &[u8]) -> Result<(), StoreError> {
        // SAFETY: R1.
        checked(self.api, |error| unsafe {
            self.api.rocksdb_put_cf(
                self.db,
                self.writes,
                self.families[2],
                MEMORY.as_ptr().cast(),
                MEMORY.len() as u64,
                memory.as_ptr().cast(),
                memory.len() as u64,
                error,
            );
        })
    }

    fn property(&self, name: &CStr) -> u64 {
        let mut value = 0;
        // SAFETY: R1.
        let status = unsafe {
            self.api.rocksdb_property_int_cf(self.db, self.copies(), name.as_ptr(), &raw mut value)
        };
        if status == 0 { value } else { 0 }
    }

    /// The bytes of a value that the library has found, or why there are none; what it has given is destroyed.
    fn taken(
        &self,
        value: *mut rocksdb_pinnableslice_t,
        error: *mut c_char,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some(why) = text_of(self.api, error) {
            return Err(why);
        }
        if value.is_null() {
            return Ok(None);
        }
        let mut length = 0;
        // SAFETY: R1 and R3.
        let copy = unsafe {
            let bytes = self.api.rocksdb_pinnableslice_value(value, &raw mut length);
            let copy = if bytes.is_null() {
                None
            } else {
                Some(std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize).to_vec())
            };
            self.api.rocksdb_pinnableslice_destroy(value);
            copy
        };
        Ok(copy)
    }
}

impl Drop for Rocks {
    fn drop(&mut self) {
        // SAFETY: R2, and R1: they are not used afterwards.
        unsafe {
            self.families.iter().for_each(|family| self.api.rocksdb_column_family_handle_destroy(*family));
            self.api.rocksdb_close(self.db);
            self.api.rocksdb_writeoptions_destroy(self.writes);
            self.api.rocksdb_readoptions_destroy(self.reads);
        }
        destroy_filter(self.api, self.filter);
    }
}

impl Store for Rocks {
    fn put(&self, copies: &[(Name, &[u8])]) -> Result<(), StoreError> {
        // SAFETY: R1, the batch copies what it is given, and is destroyed here.
        checked(self.api, |error| unsafe {
            let batch = self.api.rocksdb_writebatch_create();
            for (name, bytes) in copies {
                self.api.rocksdb_writebatch_put_cf(
                    batch,
                    self.copies(),
                    name.as_ptr().cast(),
                    name.len() as u64,
                    bytes.as_ptr().cast(),
                    bytes.len() as u64,
                );
            }
            self.api.rocksdb_write(self.db, self.writes, batch, error);
            self.api.rocksdb_writebatch_destroy(batch);
        })
    }

    fn get(&self, names: &[Name]) -> Vec<Result<Option<Vec<u8>>, StoreError>> {
        let keys: Vec<*const c_char> = names.iter().map(|name| name.as_ptr().cast()).collect();
        let lengths = vec![crate::NAME_BYTES as u64; names.len()];
        let mut values = vec![ptr::null_mut(); names.len()];
        let mut errors = vec![ptr::null_mut(); names.len()];
        // SAFETY: R1, as many keys, lengths, values and errors as are told.
        unsafe {
            self.api.rocksdb_batched_multi_get_cf(
                self.db,
                self.reads,
                self.copies(),
                names.len() as u64,
                keys.as_ptr(),
                lengths.as_ptr(),
                values.as_mut_ptr(),
                errors.as_mut_ptr(),
                names.is_sorted(),
            );
        }
        values.into_iter().zip(errors).map(|(value, error)| self.taken(value, error)).collect()
    }

    fn compact(&self) {
        // SAFETY: R1; null: from the first name to the last.
        unsafe {
            self.api.rocksdb_compact_range_cf(self.db, self.copies(), ptr::null(), 0, ptr::null(), 0);
        }
    }

    fn end(&self) {
        // SAFETY: R1.
        unsafe { self.api.rocksdb_disable_manual_compaction(self.db) };
    }

    fn copies(&self) -> u64 {
        self.property(c"rocksdb.estimate-num-keys")
    }

    fn memory_bytes(&self) -> u64 {
        [c"rocksdb.cur-size-all-mem-tables", c"rocksdb.estimate-table-readers-mem"]
            .into_iter()
            .map(|name| self.property(name))
            .sum()
    }

    fn disk_bytes(&self) -> u64 {
        self.property(c"rocksdb.total-sst-files-size")
    }

    fn version(&self) -> String {
        self.library.trim_start_matches("librocksdb.so.").into()
    }
}

/// Makes a filter that asks a judge, which belongs to it.
fn filter_of(api: &Api, judge: Arc<dyn Judge>) -> *mut rocksdb_compactionfilter_t {
    let state = Box::into_raw(Box::new(judge)).cast::<c_void>();
    // SAFETY: R5, the callbacks take the state for what it is.
    unsafe { api.rocksdb_compactionfilter_create(state, Some(forget), Some(drops), Some(filter_name)) }
}

fn destroy_filter(api: &Api, filter: *mut rocksdb_compactionfilter_t) {
    if !filter.is_null() {
        // SAFETY: R5, no database has it any more; it forgets its judge.
        unsafe { api.rocksdb_compactionfilter_destroy(filter) };
    }
}

unsafe extern "C" fn forget(state: *mut c_void) {
    // SAFETY: R5, the state of `filter_of`, once.
    drop(unsafe { Box::from_raw(state.cast::<Arc<dyn Judge>>()) });
}

unsafe extern "C" fn filter_name(_: *mut c_void) -> *const c_char {
    c"polder".as_ptr()
}

/// Returns true for a copy that goes.
unsafe extern "C" fn drops(
    state: *mut c_void,
    _: c_int,
    key: *const c_char,
    key_length: size_t,
    copy: *const c_char,
    length: size_t,
    _: *mut *mut c_char,
    _: *mut size_t,
    _: *mut c_uchar,
) -> c_uchar {
    // SAFETY: R5, and R3: the library keeps key and copy until the callback returns.
    let (judge, name, copy) = unsafe {
        (
            &*state.cast::<Arc<dyn Judge>>(),
            std::slice::from_raw_parts(key.cast::<u8>(), key_length as usize),
            std::slice::from_raw_parts(copy.cast::<u8>(), length as usize),
        )
    };
    let Ok(name) = Name::try_from(name) else { return 0 };
    let keeps = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| judge.keeps(&name, copy)));
    (!keeps.unwrap_or(true)).into()
}

impl Options {
    /// Makes the library's form of them, which is to be destroyed after its use.
    fn make(&self, api: &Api) -> *mut rocksdb_options_t {
        // SAFETY: R1, what is made here goes into the options, or is destroyed.
        unsafe {
            let set = api.rocksdb_options_create();
            api.rocksdb_options_set_create_if_missing(set, 1);
            api.rocksdb_options_set_create_missing_column_families(set, 1);
            api.rocksdb_options_set_write_buffer_size(set, self.write_buffer_bytes as u64);
            api.rocksdb_options_set_max_write_buffer_number(set, WRITE_BUFFERS);
            api.rocksdb_options_set_max_total_wal_size(
                set,
                self.write_buffer_bytes as u64 * WRITE_BUFFERS as u64,
            );
            api.rocksdb_options_set_compression(set, if self.compresses { LZ4 } else { 0 });
            api.rocksdb_options_set_max_background_jobs(set, self.background_jobs);
            api.rocksdb_options_set_max_open_files(set, self.open_files);
            api.rocksdb_options_set_level_compaction_dynamic_level_bytes(set, 1);
            api.rocksdb_options_set_optimize_filters_for_hits(set, 1);
            api.rocksdb_options_set_info_log_level(set, WARNINGS);
            api.rocksdb_options_set_keep_log_file_num(set, LOG_FILES as u64);
            let table = api.rocksdb_block_based_options_create();
            api.rocksdb_block_based_options_set_block_size(table, self.block_bytes as u64);
            api.rocksdb_block_based_options_set_no_block_cache(table, 1);
            api.rocksdb_block_based_options_set_data_block_index_type(table, HASHED);
            let bloom = api.rocksdb_filterpolicy_create_bloom(BLOOM_BITS);
            api.rocksdb_block_based_options_set_filter_policy(table, bloom);
            api.rocksdb_options_set_block_based_table_factory(set, table);
            api.rocksdb_block_based_options_destroy(table);
            set
        }
    }
}

/// Returns the library, which stays loaded for as long as the process lives (R4).
fn load() -> Result<(&'static Api, &'static str), StoreError> {
    static LOADED: OnceLock<(Api, &str)> = OnceLock::new();
    let (api, library) = match LOADED.get() {
        Some(loaded) => loaded,
        None => {
            let newest = load_newest()?;
            LOADED.get_or_init(|| newest)
        }
    };
    Ok((api, library))
}

/// Loads the newest library that has all that is used of it.
fn load_newest() -> Result<(Api, &'static str), StoreError> {
    let mut last = String::new();
    for library in LIBRARIES {
        // SAFETY: the library's own initialisation has no conditions.
        match unsafe { Api::new(library) } {
            Ok(api) => return Ok((api, library)),
            // One that is there, but cannot be used, says more than those that are not.
            Err(error) if last.is_empty() || !error.to_string().contains("cannot open shared object") => {
                last = error.to_string()
            }
            Err(_) => {}
        }
    }
    Err(StoreError(format!(
        "swap-mode disk needs RocksDB, and its library cannot be loaded ({last}): install it, on Debian by 'apt-get install librocksdb7.8'"
    )))
}

fn path_of(folder: &Path) -> Result<CString, StoreError> {
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(folder.as_os_str());
    CString::new(bytes).map_err(|_| StoreError(format!("{}: a path with a zero byte", folder.display())))
}

/// Makes a call that may leave an error.
fn checked<R>(api: &Api, call: impl FnOnce(*mut *mut c_char) -> R) -> Result<R, StoreError> {
    let mut error: *mut c_char = ptr::null_mut();
    let done = call(&raw mut error);
    text_of(api, error).map_or(Ok(done), Err)
}

/// The text of an error that the library has left, which is freed.
fn text_of(api: &Api, error: *mut c_char) -> Option<StoreError> {
    if error.is_null() {
        return None;
    }
    // SAFETY: R1 and R3, a text that ends with a zero byte.
    let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    // SAFETY: R1.
    unsafe { api.rocksdb_free(error.cast()) };
    Some(StoreError(format!("RocksDB: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_there_after_the_store_was_opened_again_and_goes_with_another_memory() {
        if let Err(StoreError(why)) = Rocks::check() {
            return println!("left out: {why}");
        }
        let folder = std::env::temp_dir().join(format!("polder-rocks-{}", std::process::id()));
        let open =
            |memory: &[u8], may_empty| Rocks::open(&folder, memory, may_empty, &Options::default(), None);
        assert!(open(b"one", false).is_err(), "its values are elsewhere");
        let store = open(b"one", true).expect("the first time");
        let names: Vec<Name> = (0..100).map(|number| [number; 10]).collect();
        let copies: Vec<(Name, &[u8])> = names.iter().map(|name| (*name, &name[..])).collect();
        store.put(&copies).expect("room");
        assert!(open(b"one", false).is_err(), "the folder is locked");
        assert!(store.memory_bytes() > 0);
        drop(store);
        let store = open(b"one", false).expect("it is free");
        let found = store.get(&[[7; 10], [200; 10], [9; 10]]);
        assert_eq!(found, [Ok(Some(vec![7; 10])), Ok(None), Ok(Some(vec![9; 10]))]);
        drop(store);
        assert!(open(b"other", false).is_err());
        let store = open(b"other", true).expect("emptied");
        assert_eq!(store.get(&[[7; 10]]), [Ok(None)]);
        drop(store);
        std::fs::remove_dir_all(&folder).expect("it is there");
    }

    #[test]
    fn copies_that_are_of_no_use_leave_when_it_compacts() {
        struct Even;
        impl Judge for Even {
            fn keeps(&self, name: &Name, copy: &[u8]) -> bool {
                assert_eq!(name[..], copy[..10]);
                assert!(name[0] != 77, "a panic keeps the copy");
                name[0].is_multiple_of(2)
            }
        }
        if let Err(StoreError(why)) = Rocks::check() {
            return println!("left out: {why}");
        }
        let folder = std::env::temp_dir().join(format!("polder-rocks-filter-{}", std::process::id()));
        let judge: Arc<dyn Judge> = Arc::new(Even);
        let store =
            Rocks::open(&folder, b"one", true, &Options::default(), Some(judge.clone())).expect("room");
        let names: Vec<Name> = (0..100).map(|number| [number; 10]).collect();
        let copies: Vec<(Name, &[u8])> = names.iter().map(|name| (*name, &name[..])).collect();
        store.put(&copies).expect("room");
        store.compact();
        let left = store.get(&names).into_iter().map(|copy| copy.expect("read").is_some());
        assert!(left.enumerate().all(|(number, is_there)| is_there == (number % 2 == 0 || number == 77)));
        assert_eq!(Store::copies(&store), 51);
        drop(store);
        assert_eq!(Arc::strong_count(&judge), 1, "the filter is gone");
        // The other families are not filtered: the store is still this memory's.
        assert!(Rocks::open(&folder, b"one", false, &Options::default(), None).is_ok());
        std::fs::remove_dir_all(&folder).expect("it is there");
    }
}
