//! How a client of the crash tests reaches the memory: in this process, or through servers that may die at any moment.
use std::sync::Arc;
use std::time::Duration;

use polder_base::Protocol;
use polder_engine::{Caller, Item, Memory, Options};

use crate::answer::Answer;
use crate::gather::Gather;
use crate::resp::Connection;

/// How long it is waited for servers that are on their way: far longer than it takes to start one.
const PAUSE: Duration = Duration::from_millis(5);
const QUESTIONS_MAX: u32 = 12_000;

/// See the module. Replies have RESP2's shapes.
pub enum Way {
    /// The engine in this process.
    Inside(Box<Caller>),
    /// Servers: one is used until it is gone, then another one.
    Outside { addresses: Vec<String>, next: usize, connection: Option<Connection> },
}

impl Way {
    /// To a segment by its name, or to servers by their addresses (`host:port`) with commas between. Servers need not be there yet.
    ///
    /// # Errors
    /// When there is no such segment.
    pub fn to(place: &str) -> Result<Way, String> {
        if place.contains('.') {
            // Processes begin with different servers.
            return Ok(Way::outside(
                place.split(',').map(String::from).collect(),
                std::process::id() as usize,
            ));
        }
        let options = Options { segment: place.into(), create: false, ..Options::default() };
        let memory = Memory::attach(&options).map_err(|fault| fault.to_string())?;
        Ok(Way::Inside(Box::new(Caller::speaking(&Arc::new(memory), Protocol::Resp2))))
    }

    /// Another client on the same way.
    pub fn beside(&self) -> Way {
        match self {
            Way::Inside(caller) => Way::Inside(Box::new(Caller::speaking(caller.memory(), Protocol::Resp2))),
            Way::Outside { addresses, next, .. } => Way::outside(addresses.clone(), next + 1),
        }
    }

    fn outside(addresses: Vec<String>, next: usize) -> Way {
        Way::Outside { addresses, next, connection: None }
    }

    /// Connects where that is needed, each time to the next server; whether calls can be made now.
    pub fn is_open(&mut self) -> bool {
        match self {
            Way::Outside { addresses, next, connection } if connection.is_none() => {
                *next += 1;
                *connection = Connection::open(&addresses[*next % addresses.len()]).ok();
                connection.is_some()
            }
            _ => true,
        }
    }

    /// The reply to a question that changes nothing, asked again if a server has gone.
    ///
    /// # Errors
    /// As [`Way::call`]; when no server replies in a long time.
    pub fn ask(&mut self, args: &[impl AsRef<[u8]>]) -> Result<Answer, String> {
        for _ in 0..QUESTIONS_MAX {
            if self.is_open()
                && let Some(answer) = self.call(args)?
            {
                return Ok(answer);
            }
            std::thread::sleep(PAUSE);
        }
        Err("no server answers".into())
    }

    /// The reply to several questions, asked in one transaction.
    ///
    /// # Errors
    /// As [`Way::ask`].
    pub fn ask_together(&mut self, lines: &[Vec<String>]) -> Result<Answer, String> {
        for _ in 0..QUESTIONS_MAX {
            if self.is_open()
                && let Some(answer) = self.call_together(lines)?
            {
                return Ok(answer);
            }
            std::thread::sleep(PAUSE);
        }
        Err("no server answers".into())
    }

    /// Makes several calls in one transaction (MULTI and EXEC): the reply to EXEC.
    ///
    /// # Errors
    /// As [`Way::call`].
    pub fn call_together(&mut self, lines: &[Vec<String>]) -> Result<Option<Answer>, String> {
        if self.call(&["MULTI"])?.is_none() {
            return Ok(None);
        }
        for line in lines {
            match self.call(line)? {
                Some(Answer::Error(error)) => return Err(format!("{line:?}: {error}")),
                Some(_) => {}
                None => return Ok(None),
            }
        }
        self.call(&["EXEC"])
    }

    /// Makes a call. Without a reply the server has gone, and it is not known whether the call has
    /// happened.
    ///
    /// # Errors
    /// What is wrong with the caller or its reply; an error that a command replies is an answer.
    pub fn call(&mut self, args: &[impl AsRef<[u8]>]) -> Result<Option<Answer>, String> {
        match self {
            Way::Inside(caller) => {
                let mut reply = Gather::new(Protocol::Resp2);
                caller.write(args, &mut reply).map_err(|error| error.to_string())?;
                Ok(Some(reply.answer()?.lowered()))
            }
            Way::Outside { connection, .. } => {
                let answer = connection.as_mut().and_then(|connection| connection.call(args).ok());
                if answer.is_none() {
                    *connection = None;
                }
                Ok(answer)
            }
        }
    }

    /// What a listener is told next, its last text: a message's payload, a key that it must not keep, a line of MONITOR. Inside it waits a second at
    /// most; nothing: the server has gone, or nothing came.
    ///
    /// # Errors
    /// As [`Way::call`].
    pub fn hear(&mut self) -> Result<Vec<String>, String> {
        let mut heard = Vec::new();
        match self {
            Way::Inside(caller) => {
                let mut note = |item: Item<'_>| heard.extend(last_text(item));
                caller.hear(Duration::from_secs(1), &mut note).map_err(|error| error.to_string())?;
            }
            Way::Outside { connection, .. } => {
                match connection.as_mut().and_then(|connection| connection.receive().ok()) {
                    Some(Answer::Error(text)) => return Err(format!("a listener hears {text}")),
                    Some(answer) => heard.extend(last_words(&answer)),
                    None => *connection = None,
                }
            }
        }
        Ok(heard)
    }

    /// Whether a server that it had is gone.
    pub fn is_lost(&self) -> bool {
        matches!(self, Way::Outside { connection: None, .. })
    }
}

fn last_text(item: Item<'_>) -> Option<String> {
    match item.items() {
        Some(items) => items.filter_map(last_text).last(),
        None => item.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
    }
}

fn last_words(answer: &Answer) -> Option<String> {
    match answer {
        Answer::Array(items) | Answer::Push(items) => items.iter().filter_map(last_words).next_back(),
        Answer::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Answer::Status(line) => Some(line.clone()),
        _ => None,
    }
}
