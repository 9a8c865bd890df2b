//! Libraries of functions in the segment: each is a field of its own, and what an earlier build has left is understood.
use polder_base::Protocol;
use polder_shm::crash;
use polder_table::{Db, Mode, New, Replaces, SYSTEM};
use polder_testkit::caller::{Caller, Embedder};
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
    assert!(
        among_thousands < 3 * among_hundreds,
        "{among_thousands} stores for {STEP} loads, {among_hundreds} before"
    );
    for number in [0, 1, STEP, 9 * STEP - 1] {
        assert_eq!(ask(&["FCALL", &format!("F{number}"), "0"]), format!("(integer) {number}"));
    }
    let info = ask(&["INFO", "memory"]);
    assert!(info.contains(&format!("number_of_libraries:{}", 9 * STEP)), "{info}");
    assert!(info.contains(&format!("number_of_functions:{}", 9 * STEP)), "{info}");
    table.verify().expect("a whole segment");
}

/// A library that takes more than 8 MB.
const HUNGRY: &str = "#!lua name=hungry
    local much = {}
    for number = 1, 2000000 do much[number] = number end
    redis.register_function('length', function() return #much end)";

/// As it lies in the segment until a process runs it.
fn waiting(code: &str) -> Vec<u8> {
    [&(code.len() as u32).to_le_bytes(), code.as_bytes()].concat()
}

#[test]
fn a_running_function_keeps_no_client_from_changing_libraries() {
    let mut place = Place::new();
    assert_eq!(place.ask(&["CONFIG", "SET", "busy-reply-threshold", "20"]), "OK");
    let endless = "#!lua name=endless\nredis.register_function('endless', function() while true do end end)";
    assert_eq!(place.ask(&["FUNCTION", "LOAD", endless]), "\"endless\"");
    let embedder = &place.scratch.embedder;
    let ask = |id: u64, words: &[&str]| {
        Caller::new(id, Protocol::Resp3).call(embedder, words).expect("one reply").shown()
    };
    let (tell, told) = std::sync::mpsc::channel();
    let (loaded, killed) = std::thread::scope(|scope| {
        // The first call of it: the function must be looked for.
        let running = scope.spawn(|| ask(2, &["FCALL", "endless", "0"]));
        while !ask(3, &["FUNCTION", "STATS"]).contains("endless") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        scope.spawn(|| tell.send(ask(4, &["FUNCTION", "LOAD", &code(1)])).expect("a thread waits"));
        let loaded = told.recv_timeout(std::time::Duration::from_secs(10));
        assert_eq!(ask(3, &["FUNCTION", "KILL"]), "OK");
        (loaded, running.join().expect("it has ended"))
    });
    assert_eq!(loaded.as_deref(), Ok("\"lib1\""), "it has waited for the function's end");
    assert!(killed.contains("Script killed by user"), "{killed}");
}

#[test]
fn a_library_that_could_not_be_run_is_not_lost_and_is_run_later() {
    let mut place = Place::new();
    assert_eq!(place.ask(&["FUNCTION", "LOAD", &code(7)]), "\"lib7\"");
    place.store(SYSTEM, b"libraries", &[stored_before(0..1), waiting(HUNGRY)].concat());
    place.store(SYSTEM, b"libraries:token", &[7; 16]);
    assert_eq!(place.ask(&["CONFIG", "SET", "lua-memory-limit", "8mb"]), "OK");
    assert!(place.ask(&["FCALL", "length", "0"]).contains("Function not found"));
    // A change of the libraries adds those that wait to the known ones: not this one.
    assert_eq!(place.ask(&["FUNCTION", "LOAD", &code(1)]), "\"lib1\"");
    assert_eq!(place.ask(&["FUNCTION", "DELETE", "lib7"]), "OK");
    assert_eq!(place.ask(&["FCALL", "f0", "0"]), "(integer) 0");
    assert!(place.ask(&["FUNCTION", "LIST"]).contains("hungry"));
    assert_eq!(place.ask(&["CONFIG", "SET", "lua-memory-limit", "1gb"]), "OK");
    assert_eq!(place.ask(&["FCALL", "length", "0"]), "(integer) 2000000");
    assert_eq!(place.ask(&["FUNCTION", "LOAD", &code(2)]), "\"lib2\"");
    assert_eq!(place.ask(&["FCALL", "length", "0"]), "(integer) 2000000");
    assert!(place.ask(&["FUNCTION", "STATS"]).contains("(integer) 4"));
    place.verify();
}

#[test]
fn a_known_library_that_could_not_be_run_is_run_again() {
    let mut place = Place::new();
    assert_eq!(place.ask(&["FUNCTION", "LOAD", HUNGRY]), "\"hungry\"");
    // Another server of the memory, which has not run it.
    let other = Embedder::attach(&place.scratch.options).expect("a segment");
    let mut ask = |words: &[&str]| place.caller.call(&other, words).expect("one reply").shown();
    assert_eq!(ask(&["CONFIG", "SET", "lua-memory-limit", "8mb"]), "OK");
    // It is there: why it cannot be called is said.
    let refused = ask(&["FCALL", "length", "0"]);
    assert!(refused.contains("Error registering functions") && refused.contains("memory"), "{refused}");
    assert_eq!(ask(&["CONFIG", "SET", "lua-memory-limit", "1gb"]), "OK");
    assert_eq!(ask(&["FUNCTION", "LOAD", "REPLACE", HUNGRY]), "\"hungry\"");
    assert_eq!(ask(&["FCALL", "length", "0"]), "(integer) 2000000");
}

#[test]
fn a_function_is_found_while_others_change_libraries() {
    let mut place = Place::new();
    assert_eq!(place.ask(&["FUNCTION", "LOAD", &code(1)]), "\"lib1\"");
    let embedder = &place.scratch.embedder;
    // A change of the libraries holds these.
    let keys =
        ["", ":known", ":names", ":totals", ":token"].map(|part| format!("libraries{part}").into_bytes());
    let txn = embedder.memory.table().begin(Mode::Write).expect("a seat");
    txn.declare(&keys.each_ref().map(|key| (SYSTEM, &key[..]))).expect("nobody is in the way");
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut caller = Caller::new(2, Protocol::Resp3);
            for words in [&["FCALL", "f1", "0"][..], &["FCALL", "f2", "0"], &["EVAL", "return 3", "0"]] {
                tell.send(caller.call(embedder, words).expect("one reply").shown()).expect("a thread waits");
            }
        });
        let answers = [(); 3].map(|()| told.recv_timeout(std::time::Duration::from_secs(10)));
        txn.abort();
        assert_eq!(answers[0].as_deref(), Ok("(integer) 1"), "it has waited for who changes libraries");
        assert!(
            answers[1].as_deref().is_ok_and(|answer| answer.contains("Function not found")),
            "{answers:?}"
        );
        assert_eq!(answers[2].as_deref(), Ok("(integer) 3"));
    });
}

#[test]
fn info_counts_libraries_that_no_process_has_run_yet_once() {
    let mut place = Place::new();
    let shown = |place: &mut Place| {
        let info = place.ask(&["INFO", "memory"]);
        ["number_of_libraries", "number_of_functions"].map(|name| {
            let (_, after) = info.split_once(&format!("{name}:")).expect("a field");
            after
                .chars()
                .take_while(char::is_ascii_digit)
                .collect::<String>()
                .parse::<u64>()
                .expect("a number")
        })
    };
    assert_eq!(place.ask(&["FUNCTION", "LOAD", &code(7)]), "\"lib7\"");
    place.store(SYSTEM, b"libraries", &stored_before(0..3));
    place.store(SYSTEM, b"libraries:token", &[7; 16]);
    assert_eq!(shown(&mut place), [4, 1]);
    assert_eq!(place.ask(&["FCALL", "f2", "0"]), "(integer) 2");
    assert_eq!(shown(&mut place), [4, 4]);
    assert_eq!(place.ask(&["FUNCTION", "LOAD", &code(8)]), "\"lib8\"");
    assert_eq!(shown(&mut place), [5, 5]);
    place.store(SYSTEM, b"libraries", &stored_before(10..12));
    place.store(SYSTEM, b"libraries:token", &[8; 16]);
    assert_eq!(place.ask(&["FCALL", "f11", "0"]), "(integer) 11");
    assert_eq!(place.ask(&["FUNCTION", "FLUSH"]), "OK");
    assert_eq!(shown(&mut place), [0, 0]);
}

#[test]
fn functions_of_a_file_leave_those_of_others_alone() {
    let mut place = Place::new();
    assert_eq!(place.ask(&["FUNCTION", "LOAD", &code(1)]), "\"lib1\"");
    place.store(
        SYSTEM,
        b"libraries",
        &waiting("#!lua name=twin\nredis.register_function('f1', function() return 'twin' end)"),
    );
    place.store(SYSTEM, b"libraries:token", &[7; 16]);
    for number in 2..4 {
        assert_eq!(place.ask(&["FCALL", "f1", "0"]), "(integer) 1");
        assert_eq!(place.ask(&["FUNCTION", "LOAD", &code(number)]), format!("\"lib{number}\""));
    }
    assert_eq!(place.ask(&["FUNCTION", "DELETE", "twin"]), "OK");
    assert_eq!(place.ask(&["FCALL", "f1", "0"]), "(integer) 1");
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
