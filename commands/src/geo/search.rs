//! GEOSEARCH, GEOSEARCHSTORE and the older GEORADIUS family.
use polder_base::number;
use polder_base::score::Score;
use polder_table::Stop;
use polder_values::geo::{CORNERS_MIN, Place, Polygon, Shape};
use polder_values::sorted_set::{Entry, ScoreBound, SortedSet};

use super::{double, place, place_of, reply_distance, reply_place, unit};
use crate::sorted_set::{find, set_of, store};
use polder_calls::call::{Call, Outcome, SYNTAX, integer, is};

const NO_SUCH_MEMBER: &str = "ERR could not decode requested zset member";

/// Which of the commands it is, as far as arguments differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// GEORADIUS: the middle is a place.
    AroundPlace {
        may_store: bool,
    },
    /// GEORADIUSBYMEMBER.
    AroundMember {
        may_store: bool,
    },
    Search,
    SearchAndStore,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Ascending,
    Descending,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Member,
    Place,
}

/// Where the result goes.
#[derive(Clone, Copy)]
struct Target<'a> {
    key: &'a [u8],
    /// Scores are the distances.
    distances: bool,
}

/// One call, read.
struct Query<'a> {
    middle: Option<Place>,
    /// GEOSEARCH: how the middle was named, if only by a member of an absent key.
    from: Option<From>,
    shape: Option<Shape>,
    /// Metres of the unit.
    metres: f64,
    with_distance: bool,
    with_hash: bool,
    with_place: bool,
    order: Option<Order>,
    /// 0: all.
    count: u64,
    any: bool,
    target: Option<Target<'a>>,
    store_distances: bool,
}

/// The keys of a GEORADIUS.
pub(super) fn keys_around_place(args: &[&[u8]], visit: &mut dyn FnMut(usize, usize)) {
    keys(args, 6, visit);
}

/// The keys of a GEORADIUSBYMEMBER.
pub(super) fn keys_around_member(args: &[&[u8]], visit: &mut dyn FnMut(usize, usize)) {
    keys(args, 5, visit);
}

/// The key that is searched, and the last one behind STORE (source 1) or STOREDIST (source 2): as in [`Query::read_options`], it is the one
/// that is written.
fn keys(args: &[&[u8]], options: usize, visit: &mut dyn FnMut(usize, usize)) {
    if args.len() > 1 {
        visit(1, 0);
    }
    let (mut at, mut found) = (options, None);
    while at + 1 < args.len() {
        let source = match args[at] {
            word if is(word, "STORE") => 1,
            word if is(word, "STOREDIST") => 2,
            word => {
                at += if is(word, "COUNT") { 2 } else { 1 };
                continue;
            }
        };
        found = Some((at + 1, source));
        at += 2;
    }
    if let Some((at, source)) = found {
        visit(at, source);
    }
}

/// A member that was found, and its distance from the middle in metres.
struct Hit<'c> {
    entry: Entry<'c>,
    place: Place,
    distance: f64,
}

impl<'a> Query<'a> {
    /// Reads a call's arguments; `set` is none when the key is absent.
    fn read(call: &Call<'a>, form: Form, set: Option<&SortedSet<'a>>) -> Result<Query<'a>, Stop> {
        let args = call.args;
        let mut query = Query {
            middle: None,
            from: None,
            shape: None,
            metres: 1.0,
            with_distance: false,
            with_hash: false,
            with_place: false,
            order: None,
            count: 0,
            any: false,
            target: None,
            store_distances: false,
        };
        let options = match form {
            Form::AroundPlace { .. } => {
                query.middle = Some(place(args[2], args[3])?);
                query.read_circle(args[4], args[5])?;
                &args[6..]
            }
            Form::AroundMember { .. } => {
                // Without the key the member does not exist, and the radius is not checked.
                if let Some(set) = set {
                    query.middle = Some(place_of(call, set, args[2])?.ok_or(NO_SUCH_MEMBER)?);
                    query.read_circle(args[3], args[4])?;
                }
                &args[5..]
            }
            Form::Search => &args[2..],
            Form::SearchAndStore => &args[3..],
        };
        query.read_options(call, form, set, options)?;
        query.check(call, form)?;
        Ok(query)
    }

    fn read_circle(&mut self, radius: &[u8], name: &[u8]) -> Outcome {
        let radius = double(radius, "ERR need numeric radius")?;
        if radius < 0.0 {
            return Err("ERR radius cannot be negative".into());
        }
        self.metres = unit(name)?;
        self.shape = Some(Shape::Circle { radius: radius * self.metres });
        Ok(())
    }

    fn read_rectangle(&mut self, width: &[u8], height: &[u8], name: &[u8]) -> Outcome {
        let (width, height) =
            (double(width, "ERR need numeric width")?, double(height, "ERR need numeric height")?);
        if width < 0.0 || height < 0.0 {
            return Err("ERR height or width cannot be negative".into());
        }
        self.metres = unit(name)?;
        self.shape = Some(Shape::Rectangle { width: width * self.metres, height: height * self.metres });
        Ok(())
    }

    fn read_options(
        &mut self,
        call: &Call<'a>,
        form: Form,
        set: Option<&SortedSet<'a>>,
        options: &'a [&'a [u8]],
    ) -> Outcome {
        let mut rest = options;
        while let [word, values @ ..] = rest {
            let taken = match values {
                _ if self.read_flag(form, word) => 0,
                [count, ..] if is(word, "COUNT") => {
                    let count = integer(count)?;
                    self.count = u64::try_from(count)
                        .ok()
                        .filter(|count| *count > 0)
                        .ok_or("ERR COUNT must be > 0")?;
                    1
                }
                [key, ..] if may_store(form) && (is(word, "STORE") || is(word, "STOREDIST")) => {
                    self.target = Some(Target { key, distances: is(word, "STOREDIST") });
                    1
                }
                _ if matches!(form, Form::Search | Form::SearchAndStore) => {
                    self.read_search(call, set, word, values)?
                }
                _ => return Err(SYNTAX.into()),
            };
            rest = &values[taken..];
        }
        if form == Form::SearchAndStore {
            self.target = Some(Target { key: call.args[1], distances: self.store_distances });
        }
        Ok(())
    }

    /// Reads an option without values. Returns whether it was one.
    fn read_flag(&mut self, form: Form, word: &[u8]) -> bool {
        match word {
            word if is(word, "WITHDIST") => self.with_distance = true,
            word if is(word, "WITHHASH") => self.with_hash = true,
            word if is(word, "WITHCOORD") => self.with_place = true,
            word if is(word, "ANY") => self.any = true,
            word if is(word, "ASC") => self.order = Some(Order::Ascending),
            word if is(word, "DESC") => self.order = Some(Order::Descending),
            word if form == Form::SearchAndStore && is(word, "STOREDIST") => self.store_distances = true,
            _ => return false,
        }
        true
    }

    /// Reads the number of corners and the corners. Returns how many values that are.
    fn read_polygon(&mut self, count: &[u8], corners: &[&[u8]]) -> Result<usize, Stop> {
        let count = number::integer(count).and_then(|count| i32::try_from(count).ok());
        let count = usize::try_from(count.ok_or("ERR invalid number of vertices")?).unwrap_or(0);
        let (corners, _) = corners.as_chunks::<2>();
        let corners = corners.get(..count).filter(|_| count >= CORNERS_MIN);
        let corners = corners.ok_or("ERR GEOSEARCH BYPOLYGON must have at least 3 vertices")?;
        let polygon = corners.iter().map(|[longitude, latitude]| place(longitude, latitude));
        let polygon = Polygon::new(polygon.collect::<Result<_, _>>()?);
        self.middle = Some(polygon.middle());
        self.shape = Some(Shape::Polygon(polygon));
        Ok(1 + 2 * count)
    }

    fn has_polygon(&self) -> bool {
        matches!(self.shape, Some(Shape::Polygon(_)))
    }

    /// Reads the options that only GEOSEARCH has. Returns how many values belong to this one.
    fn read_search(
        &mut self,
        call: &Call<'a>,
        set: Option<&SortedSet<'a>>,
        word: &[u8],
        values: &[&[u8]],
    ) -> Result<usize, Stop> {
        match values {
            [count, corners @ ..]
                if is(word, "BYPOLYGON")
                    && !corners.is_empty()
                    && self.from.is_none()
                    && (self.shape.is_none() || self.has_polygon()) =>
            {
                self.read_polygon(count, corners)
            }
            _ if self.has_polygon() => Err(SYNTAX.into()),
            [member, ..] if is(word, "FROMMEMBER") && self.from != Some(From::Place) => {
                if let Some(set) = set {
                    self.middle = Some(place_of(call, set, member)?.ok_or(NO_SUCH_MEMBER)?);
                }
                self.from = Some(From::Member);
                Ok(1)
            }
            [longitude, latitude, ..] if is(word, "FROMLONLAT") && self.from != Some(From::Member) => {
                self.middle = Some(place(longitude, latitude)?);
                self.from = Some(From::Place);
                Ok(2)
            }
            [radius, name, ..]
                if is(word, "BYRADIUS") && !matches!(self.shape, Some(Shape::Rectangle { .. })) =>
            {
                self.read_circle(radius, name)?;
                Ok(2)
            }
            [width, height, name, ..]
                if is(word, "BYBOX") && !matches!(self.shape, Some(Shape::Circle { .. })) =>
            {
                self.read_rectangle(width, height, name)?;
                Ok(3)
            }
            _ => Err(SYNTAX.into()),
        }
    }

    /// Refuses what does not go together.
    fn check(&self, call: &Call<'_>, form: Form) -> Outcome {
        let name = String::from_utf8_lossy(call.args[0]);
        let searches = matches!(form, Form::Search | Form::SearchAndStore);
        if self.target.is_some() && (self.with_distance || self.with_hash || self.with_place) {
            let what = if searches { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )
            .into());
        }
        if searches && self.from.is_none() && !self.has_polygon() {
            return Err(
                format!("ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}").into()
            );
        }
        if searches && self.shape.is_none() {
            return Err(format!("ERR exactly one of BYRADIUS and BYBOX can be specified for {name}").into());
        }
        if self.any && self.count == 0 {
            return Err("ERR the ANY argument requires COUNT argument".into());
        }
        Ok(())
    }

    /// What lies within the shape, in the order that was asked for.
    fn hits<'c>(&self, call: &Call<'c>, set: &SortedSet<'c>) -> Result<Vec<Hit<'c>>, Stop> {
        let (Some(middle), Some(shape)) = (self.middle, &self.shape) else { return Ok(Vec::new()) };
        let enough = if self.any { self.count as usize } else { usize::MAX };
        let mut hits: Vec<Hit<'c>> = Vec::new();
        for (from, upto) in shape.cover(&middle) {
            let (min, max) =
                (ScoreBound { value: from, open: false }, ScoreBound { value: upto, open: true });
            let (from, upto) = set.ranks_by_score(call.txn, min, max)?;
            for entry in set.iter(call.txn, from).take((upto - from) as usize) {
                if hits.len() >= enough {
                    break;
                }
                let entry = entry?;
                let place = Place::of_score(entry.value());
                if let Some(distance) = shape.distance_within(&middle, &place) {
                    hits.push(Hit { entry, place, distance });
                }
            }
        }
        // A count without an order means the nearest ones, unless any will do.
        let nearest = (self.count > 0 && !self.any).then_some(Order::Ascending);
        match self.order.or(nearest) {
            Some(Order::Ascending) => hits.sort_by(|one, two| one.distance.total_cmp(&two.distance)),
            Some(Order::Descending) => hits.sort_by(|one, two| two.distance.total_cmp(&one.distance)),
            None => {}
        }
        if self.count > 0 {
            hits.truncate(self.count as usize);
        }
        Ok(hits)
    }

    fn show(&self, call: &mut Call<'_>, hits: &[Hit<'_>]) {
        let extras =
            usize::from(self.with_distance) + usize::from(self.with_hash) + usize::from(self.with_place);
        call.reply.array(hits.len());
        for hit in hits {
            if extras > 0 {
                call.reply.array(1 + extras);
            }
            call.reply.bulk(hit.entry.member());
            if self.with_distance {
                reply_distance(call, hit.distance / self.metres);
            }
            if self.with_hash {
                call.reply.integer(hit.entry.value() as i64);
            }
            if self.with_place {
                reply_place(call, &hit.place);
            }
        }
    }

    fn store(&self, call: &mut Call<'_>, form: Form, target: Target<'_>, hits: Vec<Hit<'_>>) -> Outcome {
        let event = if form == Form::SearchAndStore { "geosearchstore" } else { "georadiusstore" };
        let scored = |hit: Hit<'_>| {
            let score =
                if target.distances { Score::of(hit.distance / self.metres) } else { hit.entry.score() };
            (score, hit.entry.into_member().into_owned())
        };
        let mut entries: Vec<(Score, Vec<u8>)> = hits.into_iter().map(scored).collect();
        entries.sort_by(|one, two| one.0.value().total_cmp(&two.0.value()).then_with(|| one.1.cmp(&two.1)));
        // A search around half of the earth may meet a cell twice.
        entries.dedup_by(|one, two| one.1 == two.1);
        let stored = store(call, target.key, event, &entries)?;
        call.reply.integer(stored as i64);
        Ok(())
    }
}

fn may_store(form: Form) -> bool {
    matches!(form, Form::AroundPlace { may_store: true } | Form::AroundMember { may_store: true })
}

fn search(call: &mut Call<'_>, form: Form) -> Outcome {
    let key = call.args[if form == Form::SearchAndStore { 2 } else { 1 }];
    let found = find(call, key)?;
    let set = set_of(&found);
    let query = Query::read(call, form, found.is_some().then_some(&set))?;
    let hits = query.hits(call, &set)?;
    match query.target {
        Some(target) => query.store(call, form, target, hits),
        None => {
            query.show(call, &hits);
            Ok(())
        }
    }
}

pub(super) fn georadius(call: &mut Call<'_>) -> Outcome {
    search(call, Form::AroundPlace { may_store: true })
}

pub(super) fn georadius_ro(call: &mut Call<'_>) -> Outcome {
    search(call, Form::AroundPlace { may_store: false })
}

pub(super) fn georadiusbymember(call: &mut Call<'_>) -> Outcome {
    search(call, Form::AroundMember { may_store: true })
}

pub(super) fn georadiusbymember_ro(call: &mut Call<'_>) -> Outcome {
    search(call, Form::AroundMember { may_store: false })
}

pub(super) fn geosearch(call: &mut Call<'_>) -> Outcome {
    search(call, Form::Search)
}

pub(super) fn geosearchstore(call: &mut Call<'_>) -> Outcome {
    search(call, Form::SearchAndStore)
}
