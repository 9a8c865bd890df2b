//! Clients that wait for a key or listen to a subject, each in a thread of its own that really sleeps: what is meant for them must come.
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::cast::Patience;
use crate::answer::Answer;
use crate::way::Way;

/// How long a wake-up may take before it counts as lost: processes are stopped for far shorter.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(20);
/// How long a client waits at most, in seconds: longer than the patience, or a lost wake-up would not be seen.
const WAIT: &str = "25";

/// What an ear has to tell.
enum Heard {
    /// It listens from now on.
    Ready,
    Token(String),
    /// Its server has gone, perhaps with what was meant for it.
    Lost,
    Wrong(String),
}

/// One client in its thread.
pub struct Ear {
    name: String,
    heard: Receiver<Heard>,
    ready: bool,
    /// It must say anew that it listens before something is meant for it again.
    once: bool,
}

impl Ear {
    /// One that waits for elements of a list, with BLPOP, again and again.
    pub fn waiter(way: Way, key: &str) -> Ear {
        let (sender, heard) = channel();
        let name = key.to_string();
        let owned = name.clone();
        std::thread::spawn(move || wait(way, &owned, &sender));
        Ear { name, heard, ready: true, once: false }
    }

    /// A listener that subscribes to a subject of its own, and to one that all actors share.
    pub fn listener(way: Way, subject: &str, common: &str) -> Ear {
        let (sender, heard) = channel();
        let (name, common) = (subject.to_string(), common.to_string());
        let owned = name.clone();
        std::thread::spawn(move || listen(way, &[&owned, &common], &sender));
        Ear { name, heard, ready: false, once: false }
    }

    /// One that reads a key again and again, and is told when it has changed. Now and then it looks at all calls for a while instead.
    pub fn reader(way: Way, key: &str) -> Ear {
        let (sender, heard) = channel();
        let name = key.to_string();
        let owned = name.clone();
        std::thread::spawn(move || track(way, &owned, &sender));
        Ear { name, heard, ready: false, once: true }
    }

    /// Waits until it listens; false when its servers are away.
    ///
    /// # Errors
    /// What was wrong.
    pub fn is_ready(&mut self) -> Result<bool, String> {
        let mut patience = Patience::new(PATIENCE);
        loop {
            match self.heard.try_recv() {
                Ok(heard) => {
                    self.note(heard)?;
                }
                Err(_) if self.ready => return Ok(true),
                Err(_) => {
                    if !patience.rest(PAUSE) {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Waits for a token; what came before it is forgotten. Where the server went away meanwhile, that may be why nothing comes.
    ///
    /// # Errors
    /// When nothing comes, or something wrong.
    pub fn expect(&mut self, token: &str) -> Result<(), String> {
        let mut left = PATIENCE;
        while !left.is_zero() {
            match self.heard.recv_timeout(PAUSE) {
                Ok(Heard::Token(other)) if other == token => {
                    self.ready &= !self.once;
                    return Ok(());
                }
                Ok(heard) => {
                    if self.note(heard)? {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => left = left.saturating_sub(PAUSE),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("who listens at {} has ended", self.name));
                }
            }
        }
        Err(format!("a wake-up was lost: {token} never came to who waits at {}", self.name))
    }

    /// Takes note of what is no token that is awaited; whether the server has gone.
    fn note(&mut self, heard: Heard) -> Result<bool, String> {
        match heard {
            Heard::Ready => self.ready = true,
            Heard::Token(_) => {}
            Heard::Lost => {
                // A client that waits with BLPOP is always ready: its key keeps what is pushed.
                self.ready = false;
                return Ok(true);
            }
            Heard::Wrong(why) => return Err(format!("{}: {why}", self.name)),
        }
        Ok(false)
    }
}

fn wait(mut way: Way, key: &str, heard: &Sender<Heard>) {
    loop {
        if !way.is_open() {
            std::thread::sleep(PAUSE);
            continue;
        }
        let what = match way.call(&["BLPOP", key, WAIT]) {
            Ok(Some(Answer::Array(items))) => match items.last() {
                Some(Answer::Bulk(token)) => Heard::Token(String::from_utf8_lossy(token).into_owned()),
                _ => Heard::Wrong("BLPOP answers something else".into()),
            },
            Ok(Some(Answer::Nil)) => continue,
            Ok(None) => Heard::Lost,
            Ok(Some(other)) => Heard::Wrong(other.shown()),
            Err(error) => Heard::Wrong(error),
        };
        let (is_over, is_lost) = (matches!(what, Heard::Wrong(_)), matches!(what, Heard::Lost));
        // The actor no longer reads from this thread: it ends.
        if heard.send(what).is_err() || is_lost && heard.send(Heard::Ready).is_err() || is_over {
            return;
        }
    }
}

fn listen(mut way: Way, subjects: &[&str], heard: &Sender<Heard>) {
    loop {
        if !way.is_open() {
            std::thread::sleep(PAUSE);
            continue;
        }
        let subscribed =
            subjects.iter().all(|subject| matches!(way.call(&["SUBSCRIBE", subject]), Ok(Some(_))));
        if subscribed && heard.send(Heard::Ready).is_err() {
            return;
        }
        while !way.is_lost() {
            let news = match way.hear() {
                Ok(tokens) => tokens.into_iter().map(Heard::Token).collect(),
                Err(error) => vec![Heard::Wrong(error)],
            };
            if news.into_iter().any(|what| {
                let is_over = matches!(what, Heard::Wrong(_));
                heard.send(what).is_err() || is_over
            }) {
                return;
            }
        }
        if heard.send(Heard::Lost).is_err() {
            return;
        }
    }
}

/// The calls that a reader looks at by MONITOR before it tracks its key again: each time it has been told so often.
const TOLD_BEFORE: usize = 20;
const CALLS_SEEN: usize = 500;

fn track(mut way: Way, key: &str, heard: &Sender<Heard>) {
    let mut told = 0;
    loop {
        if !way.is_open() {
            std::thread::sleep(PAUSE);
            continue;
        }
        let begun = [&["HELLO", "3"][..], &["CLIENT", "TRACKING", "ON"]]
            .iter()
            .all(|words| matches!(way.call(words), Ok(Some(_))));
        while begun && !way.is_lost() {
            match way.call(&["GET", key]) {
                Ok(Some(Answer::Error(text))) => drop(heard.send(Heard::Wrong(text))),
                Ok(Some(_)) if heard.send(Heard::Ready).is_err() => return,
                _ => {}
            }
            let mut news = Vec::new();
            while news.is_empty() && !way.is_lost() {
                match way.hear() {
                    Ok(tokens) => news = tokens,
                    Err(error) => return drop(heard.send(Heard::Wrong(error))),
                }
            }
            told += news.len();
            if news.into_iter().any(|token| heard.send(Heard::Token(token)).is_err()) {
                return;
            }
            if told >= TOLD_BEFORE {
                told = 0;
                way = watch_calls(way.beside());
                break;
            }
        }
        if heard.send(Heard::Lost).is_err() {
            return;
        }
    }
}

/// Looks at all calls for a while, as long as its server lives; another client goes on.
fn watch_calls(mut way: Way) -> Way {
    if way.is_open() && matches!(way.call(&["MONITOR"]), Ok(Some(Answer::Status(_)))) {
        let mut seen = 0;
        while seen < CALLS_SEEN && !way.is_lost() {
            match way.hear() {
                Ok(lines) if !lines.is_empty() => seen += lines.len(),
                _ => break,
            }
        }
    }
    way.beside()
}
