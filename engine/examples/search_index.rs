//! An index of words that follows a memory: which keys hold a word, kept up to date by what is committed.
//!
//! ```text
//! search_index        a writer changes texts, and the index follows
//! ```
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use polder_engine::{ChangeCommand, Changes, Memory, Options, Stop};

/// Which keys hold a word, and what each key holds.
#[derive(Default)]
struct Index {
    keys: BTreeMap<String, BTreeSet<String>>,
    texts: BTreeMap<String, String>,
}

impl Index {
    /// Takes what a key holds; `None`: it is gone.
    fn put(&mut self, key: &str, text: Option<String>) {
        if let Some(old) = self.texts.remove(key) {
            for word in old.split_whitespace() {
                self.keys.entry(word.into()).or_default().remove(key);
            }
        }
        let Some(text) = text else { return };
        for word in text.split_whitespace() {
            self.keys.entry(word.into()).or_default().insert(key.into());
        }
        self.texts.insert(key.into(), text);
    }

    /// Does what a command of the stream says. Texts of this program are strings in database 0, which it sets and deletes.
    fn follow(&mut self, command: &ChangeCommand) {
        let words: Vec<_> =
            command.words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        match &words[..] {
            [name, key, text, ..] if name == "SET" => self.put(key, Some(text.clone())),
            [name, keys @ ..] if name == "DEL" || name == "UNLINK" => {
                keys.iter().for_each(|key| self.put(key, None))
            }
            [name, ..] if name == "FLUSHALL" || name == "FLUSHDB" => *self = Index::default(),
            _ => {}
        }
    }

    /// Takes all that is committed and not followed yet, a transaction at a time: no state shows half of one.
    fn catch_up(&mut self, changes: &mut Changes<'_>) -> Result<(), Stop> {
        while let Some(changed) = changes.next()? {
            changed
                .commands
                .iter()
                .filter(|command| command.db == 0)
                .for_each(|command| self.follow(command));
            // A real index keeps `changed.position` together with what it has made of it, and goes on there after a restart.
        }
        Ok(())
    }

    fn find(&self, word: &str) -> String {
        let keys = self.keys.get(word).into_iter().flatten().map(String::as_str).collect::<Vec<_>>();
        format!("{word}: {}", keys.join(" "))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let segment = format!("shm:polder-search-index-{}", std::process::id());
    let memory =
        Memory::attach(&Options { segment: segment.clone(), ceiling: 64 << 20, ..Options::default() })?;
    let (mut changes, mut index) = (memory.changes(None)?, Index::default());
    let texts = memory.database(0);
    texts.set(b"one", b"the quick fox")?;
    texts.transaction(&["two", "three"], |keys| {
        keys.set(b"two", b"the lazy dog")?;
        keys.set(b"three", b"a fox and a dog")
    })?;
    index.catch_up(&mut changes)?;
    println!("{}", index.find("fox"));
    texts.set(b"one", b"the quick cat")?;
    texts.del(&["two"])?;
    index.catch_up(&mut changes)?;
    println!("{}\n{}", index.find("fox"), index.find("the"));
    Memory::remove(&segment)?;
    Ok(())
}
