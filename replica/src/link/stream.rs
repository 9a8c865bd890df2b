//! The stream of the primary: each command is made here, with its bytes.
use polder_calls::call::is;
use polder_calls::settings::id;
use polder_persist::apply::{Applier, Loader};
use polder_persist::effects::{self, Effect};
use polder_shm::LinkState;
use polder_table::{Db, SYSTEM};
use polder_wire::resp::{Limits, Request, Requests};

use super::{End, Following, TELL_PERIOD, shown};
use crate::face::StreamFace;

/// The longest argument that is taken.
const LIMITS: Limits = Limits { bulk_bytes_max: 4 << 30, stranger: false };

/// The place of the link in the stream.
struct Place {
    /// The offset behind the last byte that is in the log of this memory.
    offset: u64,
    /// Bytes behind it that have been read, and are to go into the log with the next command that changes something (A2).
    carried: Vec<u8>,
    /// They are the beginning of a transaction.
    in_transaction: bool,
    /// The database that is selected behind them.
    db: Option<Db>,
    /// The primary wants to hear how far this is.
    is_asked: bool,
}

impl Following<'_, '_> {
    pub(super) fn stream(&mut self) -> Result<std::convert::Infallible, End> {
        let follower = self.follower;
        let settings = follower.settings.for_replay();
        let host = Loader::new(&settings, follower.scripting);
        let mut applier = Applier::new(follower.table, &host);
        // P1: what a command met at the primary, it meets here.
        applier.expires = true;
        applier.is_strict = true;
        let log = follower.table.log();
        let (end, db) = log.end();
        applier.session.caller.db = db.unwrap_or(0);
        let mut place = Place {
            offset: log.offset_of(end),
            carried: Vec::new(),
            in_transaction: false,
            db,
            is_asked: false,
        };
        let refused = self.figures.refused;
        let mut requests = Requests::default();
        self.acknowledge(&mut place)?;
        loop {
            self.show(&applier);
            let input = std::mem::take(&mut self.input);
            let mut rest = &input[..];
            let taken = loop {
                let before = rest;
                let mut words = Vec::new();
                match requests.read(&mut rest, &LIMITS, &mut words) {
                    Ok(Some(Request::Bulks(_))) => {
                        let bytes = &before[..before.len() - rest.len()];
                        if let Err(end) = self.apply(&mut applier, &mut place, &words, bytes) {
                            break Err(end.stuck());
                        }
                    }
                    Ok(None) => break Ok(()),
                    _ => break Err("the stream of the primary is not in Redis's protocol".into()),
                }
            };
            self.figures.refused = refused + applier.done.refused;
            taken?;
            // The rest stays where it is: a large argument comes in many pieces.
            let used = input.len() - rest.len();
            self.input = input;
            self.input.drain(..used);
            if !place.in_transaction && !place.carried.is_empty() {
                self.rider.carry(&place.carried, place.db);
                self.rider.send_alone()?;
                if !self.rider.is_taken() {
                    return Err("the change log is off: the link begins anew".into());
                }
                self.settle(&mut place);
            }
            if place.is_asked || self.told.elapsed() >= TELL_PERIOD {
                self.acknowledge(&mut place)?;
            }
            self.receive()?;
        }
    }

    /// Shows CLIENT LIST how far the link is.
    fn show(&self, applier: &Applier<'_>) {
        self.follower.face.show(StreamFace {
            heard_ms: self.figures.heard_ms,
            db: applier.session.caller.db,
            last: applier.session.tally.last,
            waiting_bytes: self.input.len(),
            room_bytes: self.input.capacity() - self.input.len(),
        });
    }

    /// Makes one command of the primary.
    fn apply(
        &mut self,
        applier: &mut Applier<'_>,
        place: &mut Place,
        words: &[&[u8]],
        bytes: &[u8],
    ) -> Result<(), End> {
        if self.follower.is_over() {
            return Err(End::Over);
        }
        let databases =
            self.follower.settings.number(const { id("databases") }).clamp(1, SYSTEM.into()) as Db;
        place.carried.extend_from_slice(bytes);
        let effect = effects::read(words)?;
        match effect {
            Effect::Select(db) => {
                place.db = Some(db.filter(|db| *db < databases).ok_or_else(|| {
                    let number = shown(&String::from_utf8_lossy(words[1]));
                    format!(
                        "the primary selects database {number}: there are {databases} (setting 'databases')"
                    )
                })?);
            }
            Effect::Multi => place.in_transaction = true,
            Effect::Exec => place.in_transaction = false,
            Effect::Nothing if is(words[0], "REPLCONF") => {
                place.is_asked |= words.get(1).is_some_and(|word| is(word, "GETACK"));
            }
            _ => {}
        }
        if !place.in_transaction {
            self.rider.carry(&place.carried, place.db);
        }
        let is_message = words.len() == 3 && (is(words[0], "PUBLISH") || is(words[0], "SPUBLISH"));
        let done = if is_message { applier.execute(words) } else { applier.run(words) };
        done.map_err(|why| {
            End::Broken(format!(
                "a command of the primary cannot be made here, at offset {}: {}",
                place.offset,
                shown(&why)
            ))
        })?;
        if !place.in_transaction && self.rider.is_taken() {
            self.settle(place);
        }
        Ok(())
    }

    /// Counts what was carried: it is in the log.
    fn settle(&self, place: &mut Place) {
        place.offset = place.offset.wrapping_add(place.carried.len() as u64);
        place.carried.clear();
    }

    fn acknowledge(&mut self, place: &mut Place) -> Result<(), End> {
        place.is_asked = false;
        // INFO and those that follow this memory see it in the log. Where there is no memory for that, it is merged later.
        let table = self.follower.table;
        let _ = table.log().merge();
        if table.log().offset_of(table.log().range().1) > place.offset && !self.follower.is_over() {
            // No other thread writes this log. What it is, no follower may take for the primary's stream.
            table.seat()?.break_log();
            return Err("the log holds what the primary has not sent: a copy is asked for".into());
        }
        self.request(&[b"REPLCONF", b"ACK", place.offset.to_string().as_bytes()])?;
        self.tell(LinkState::Connected);
        Ok(())
    }
}
