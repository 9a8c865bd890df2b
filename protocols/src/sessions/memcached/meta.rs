//! Meta commands become frames.
use std::borrow::Cow;

use polder_wire::memcached::meta::{Meta, Wrong};
use polder_wire::memcached::text::Words as LineWords;

use super::text::{BAD_CHUNK, Reader, Step, TOO_LARGE, Words, number, push_expiry};
use super::{Kind, Note, Own};

impl<'b> Reader<'_, 'b> {
    /// Reads a meta command whose line has been read.
    pub(super) fn meta(
        &mut self,
        letter: u8,
        words: &LineWords<'b>,
        input: &'b [u8],
        (at, line_end): (&mut usize, usize),
    ) -> Step {
        let meta = match Meta::read(letter, words) {
            Ok(meta) => meta,
            Err(Wrong { reply, skips }) => {
                self.push_text(reply, false, line_end);
                *at = line_end;
                let Some(bytes) = skips else { return Step::Done };
                self.push_own(Own::Skip(bytes + 2), line_end);
                return Step::Execute;
            }
        };
        if letter != b's' {
            self.push_meta(letter, meta, None, line_end);
            *at = line_end;
            return Step::Done;
        }
        if meta.bytes > self.limits.memcached.item_bytes_max {
            return self.refuse_meta(&meta, (at, line_end));
        }
        let end = line_end + meta.bytes + 2;
        if input.len() < end {
            self.own.announced = end - *at;
            return Step::Incomplete;
        }
        let (value, ending) = input[line_end..end].split_at(meta.bytes);
        if ending == b"\r\n" {
            self.push_meta(letter, meta, Some(value), end);
        } else {
            self.push_text(BAD_CHUNK, false, end);
        }
        *at = end;
        Step::Done
    }

    /// As for a `set` whose value is too long.
    fn refuse_meta(&mut self, meta: &Meta<'b>, (at, end): (&mut usize, usize)) -> Step {
        if matches!(meta.mode, 0 | b'S') {
            let place = self.own.owns.len();
            self.own.owns.push(Own::Skip(meta.bytes + 2));
            let args =
                [&b"ITEM.DEL"[..], meta.meant()].map(|arg| Cow::Owned(arg.to_vec())).into_iter().collect();
            self.push_words(Note::of(Kind::TooLarge).at(place), args, end);
        } else {
            self.push_text(TOO_LARGE, false, end);
            self.push_own(Own::Skip(meta.bytes + 2), end);
        }
        *at = end;
        Step::Execute
    }

    fn push_meta(&mut self, letter: u8, mut meta: Meta<'b>, value: Option<&'b [u8]>, end: usize) {
        let kind = match letter {
            b'g' => Kind::MetaGet,
            b's' => Kind::MetaSet,
            b'd' => Kind::MetaDelete,
            b'a' => Kind::MetaCount,
            _ => Kind::MetaDebug,
        };
        let from = self.own.text.len();
        self.own.text.extend_from_slice(meta.key);
        for word in &meta.words {
            self.own.text.push(b' ');
            self.own.text.extend_from_slice(word);
        }
        let note = Note::of(kind)
            .with(Note::QUIET, meta.quiet)
            .with(Note::VALUE, meta.value)
            .at(self.own.owns.len());
        self.own.owns.push(Own::Words { from, to: self.own.text.len(), bytes: meta.bytes });
        let key = meta.decoded.take().map_or(Cow::Borrowed(meta.key), Cow::Owned);
        let args = match letter {
            b'g' => get(&meta, key),
            b's' => set(&meta, key, value.unwrap_or_default()),
            b'd' => delete(&meta, key),
            b'a' => count(&meta, key),
            _ => [Cow::Borrowed(&b"ITEM.GET"[..]), key, word(b"PEEK"), word(b"HEAD")].into_iter().collect(),
        };
        self.push_words(note, args, end);
    }
}

fn word<'b>(word: &'static [u8]) -> Cow<'b, [u8]> {
    Cow::Borrowed(word)
}

fn digits<'b>(value: u64) -> Cow<'b, [u8]> {
    Cow::Owned(value.to_string().into_bytes())
}

fn get<'b>(meta: &Meta<'b>, key: Cow<'b, [u8]>) -> Words<'b> {
    let mut args: Words<'b> = [word(b"ITEM.GAT"), key].into_iter().collect();
    args.extend(meta.peek.then_some(word(b"PEEK")));
    args.extend((!meta.value).then_some(word(b"HEAD")));
    let recache = meta.recache.map(|recache| [word(b"RECACHE"), number(recache.text, recache.value.max(0))]);
    let (early, late) = if meta.renews_first { (None, recache) } else { (recache, None) };
    args.extend(early.into_iter().flatten());
    if let Some(ttl) = meta.ttl {
        push_expiry(&mut args, ttl, true);
    }
    args.extend(late.into_iter().flatten());
    push_vivify(&mut args, meta);
    push_cas(&mut args, None, meta.new_cas);
    args
}

fn push_vivify<'b>(args: &mut Words<'b>, meta: &Meta<'b>) {
    let made = if meta.renews_made { meta.ttl } else { meta.vivify };
    if let Some(vivify) = made {
        args.extend([word(b"VIVIFY"), number(vivify.text, vivify.value)]);
    }
}

fn push_cas(args: &mut Words<'_>, cas: Option<u64>, new: Option<u64>) {
    if let Some(cas) = cas {
        args.extend([word(b"CAS"), digits(cas)]);
    }
    if let Some(new) = new {
        args.extend([word(b"NEWCAS"), digits(new)]);
    }
}

fn set<'b>(meta: &Meta<'b>, key: Cow<'b, [u8]>, value: &'b [u8]) -> Words<'b> {
    let adds = matches!(meta.mode, b'A' | b'P');
    let mut args: Words<'b> =
        [word(if adds { b"ITEM.CAT" } else { b"ITEM.SET" }), key, Cow::Borrowed(value)].into_iter().collect();
    // Where the CAS is looked at, the item must be there. Behind and in front of a value, 0 stands for none.
    let cas = meta.cas.filter(|cas| meta.mode != b'E' && !(adds && *cas == 0));
    match meta.mode {
        b'A' => args.push(word(b"APPEND")),
        b'P' => args.push(word(b"PREPEND")),
        b'E' => args.push(word(b"ADD")),
        b'R' if cas.is_none() => args.push(word(b"REPLACE")),
        _ => {}
    }
    push_cas(&mut args, cas, meta.new_cas);
    args.extend((meta.invalidate && !adds && cas.is_some()).then_some(word(b"STALE")));
    if meta.flags != 0 {
        args.extend([word(b"FLAGS"), digits(meta.flags.into())]);
    }
    match (adds, meta.vivify, meta.ttl) {
        (true, Some(vivify), _) => {
            args.push(word(b"CREATE"));
            push_expiry(&mut args, vivify, false);
        }
        (false, _, Some(ttl)) => push_expiry(&mut args, ttl, false),
        _ => {}
    }
    args
}

fn delete<'b>(meta: &Meta<'b>, key: Cow<'b, [u8]>) -> Words<'b> {
    let mut args: Words<'b> = [word(b"ITEM.DEL"), key].into_iter().collect();
    push_cas(&mut args, meta.cas, meta.new_cas);
    args.extend(meta.invalidate.then_some(word(b"STALE")));
    args.extend(meta.empty.then_some(word(b"EMPTY")));
    if let Some(ttl) = meta.ttl.filter(|_| meta.invalidate) {
        push_expiry(&mut args, ttl, true);
    }
    args
}

fn count<'b>(meta: &Meta<'b>, key: Cow<'b, [u8]>) -> Words<'b> {
    let mut args: Words<'b> = [word(b"ITEM.INC"), key, digits(meta.delta.unwrap_or(1))].into_iter().collect();
    args.extend((meta.mode == b'D').then_some(word(b"DOWN")));
    push_cas(&mut args, meta.cas.filter(|cas| *cas != 0), meta.new_cas);
    if meta.vivify.is_some() {
        args.extend([word(b"CREATE"), digits(meta.initial.unwrap_or(0))]);
        push_vivify(&mut args, meta);
    }
    if let Some(ttl) = meta.ttl {
        push_expiry(&mut args, ttl, true);
    }
    args
}
