//! Libraries of functions in the segment: each is a field of its own, and what an earlier build has left is understood.
use polder_base::Protocol;
use polder_shm::crash;
use polder_table::{Db, Mode, New, Replaces, SYSTEM};
use polder_testkit::caller::Caller;
use polder_testkit::scratch::Scratch;
use polder_values::{Kind, string};

/// A memory, and a client of it.
struct Place {
    scratch: Scratch,
    caller: Caller,
}

impl Place {
    fn new() -> Place {
        Place { scratch: Scratch::new(), caller: Caller::new(1, Protocol::Resp3) }
    }

    fn ask(&mut self, words: &[&str]) -> String {
        self.caller.call(&self.scratch.embedder, words).expect("one reply").shown()
    }

    /// Writes a string as another build has it.
    fn store(&self, db: Db, key: &[u8], value: &[u8]) {
        let txn = self.scratch.embedder.memory.table().begin(Mode::Write).expect("a seat");
        let value = string::make(&txn, value).expect("memory");
        txn.write(db, key, &New::of(Kind::String, value), Replaces::Whole).expect("nobody is in the way");
        txn.commit().expect("nobody is in the way");
    }

    fn verify(&self) {
        self.scratch.embedder.memory.table().verify().expect("a whole segment");
    }
}

fn code(number: usize) -> String {
    format!("#!lua name=lib{number}\nredis.register_function('f{number}', function() return {number} end)")
}

/// What a library of an earlier build looked like: all of them lay in one string.
fn stored_before(numbers: std::ops::Range<usize>) -> Vec<u8> {
    let codes = numbers.map(code);
    codes.flat_map(|code| [&(code.len() as u32).to_le_bytes(), code.as_bytes()].concat()).collect()
}

#[test]
fn a_library_costs_no_more_among_thousands_than_among_hundreds() {
    const STEP: usize = 300;
    let Place { scratch, mut caller } = Place::new();
    let table = scratch.embedder.memory.table();
    let mut ask = |words: &[&str]| caller.call(&scratch.embedder, words).expect("one reply").shown();
    let loads = |ask: &mut dyn FnMut(&[&str]) -> String, range: std::ops::Range<usize>| {
        let before = crash::passed();
        for number in range {
            assert_eq!(ask(&["FUNCTION", "LOAD", &code(number)]), format!("\"lib{number}\""));
        }
        crash::passed() - before
    };
    let among_hundreds = loads(&mut ask, 0..STEP);
    loads(&mut ask, STEP..8 * STEP);
    let among_thousands = loads(&mut ask, 8 * STEP..9 * STEP);
    assert!(among_thousands < 3 * among_hundreds, "{among_thousands} stores for {STEP} loads, {among_hundreds} before");
    for number in [0, 1, STEP, 9 * STEP - 1] {
        assert_eq!(ask(&["FCALL", &format!("F{number}"), "0"]), format!("(integer) {number}"));
    }
    let info = ask(&["INFO", "memory"]);
    assert!(info.contains(&format!("number_of_libraries:{}", 9 * STEP)), "{info}");
    assert!(info.contains(&format!("number_of_functions:{}", 9 * STEP)), "{info}");
    table.verify().expect("a whole segment");
}

#[test]
fn libraries_that_an_earlier_build_has_stored_are_found_and_changed() {
    let mut place = Place::new();
    place.store(SYSTEM, b"libraries", &stored_before(0..4));
    place.store(SYSTEM, b"libraries:token", &[7; 16]);
    assert_eq!(place.ask(&["FCALL", "f2", "0"]), "(integer) 2");
    assert!(place.ask(&["FUNCTION", "STATS"]).contains("(integer) 4"));
    assert!(place.ask(&["FUNCTION", "LIST", "LIBRARYNAME", "lib3"]).contains("f3"));
    assert!(place.ask(&["FUNCTION", "LOAD", &code(1)]).contains("Library 'lib1' already exists"));
    let taken = "#!lua name=other\nredis.register_function('f1', function() end)";
    assert!(place.ask(&["FUNCTION", "LOAD", taken]).contains("Function f1 already exists"));
    assert_eq!(place.ask(&["FUNCTION", "DELETE", "lib0"]), "OK");
    assert_eq!(place.ask(&["FUNCTION", "LOAD", &code(4)]), "\"lib4\"");
    assert!(place.ask(&["FCALL", "f0", "0"]).contains("Function not found"));
    for number in 1..5 {
        assert_eq!(place.ask(&["FCALL", &format!("f{number}"), "0"]), format!("(integer) {number}"));
    }
    // Such a build runs beside this one, and changes what it knows.
    place.store(SYSTEM, b"libraries", &stored_before(5..6));
    place.store(SYSTEM, b"libraries:token", &[8; 16]);
    assert_eq!(place.ask(&["FUNCTION", "LOAD", "REPLACE", &code(5)]), "\"lib5\"");
    assert!(place.ask(&["FUNCTION", "STATS"]).contains("(integer) 5"));
    for number in 1..6 {
        assert_eq!(place.ask(&["FCALL", &format!("f{number}"), "0"]), format!("(integer) {number}"));
    }
    assert_eq!(place.ask(&["FUNCTION", "FLUSH"]), "OK");
    assert_eq!(place.ask(&["FUNCTION", "LIST"]), "(empty array)");
    place.verify();
}
