//! Geo: places on the earth as scores of a sorted set.
use polder_base::number;
use polder_base::score::Score;
use polder_table::Stop;
use polder_values::geo::Place;
use polder_values::sorted_set::SortedSet;

use crate::sorted_set::{Options, Pairs, add_members, find_set, reply_added};
use crate::string::number_mode;
use polder_calls::call::{Call, Outcome, SYNTAX, is};
use polder_calls::command::{Command, GROWS, read, write};
use polder_calls::facts::Tells::{Own, Verbatim};

mod search;

const SOURCE_AND_STORES: &[&str] = &["RO access", "OW update", "OW update"];
const WITHIN: &str = "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around the shape provided as the filter and M is the number of items inside the shape";
const AROUND: &str = "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by center and radius and M is the number of items inside the index.";

/// The family's rows.
pub const COMMANDS: &[Command] = &[
    write("GEOADD", "key [NX|XX] [CH] longitude latitude member [longitude latitude member ...]", geoadd)
        .tells(Verbatim)
        .with(GROWS)
        .touches(&["RW update"])
        .since("3.2.0")
        .costs("O(log(N)) for each item added, where N is the number of elements in the sorted set.")
        .changed(&[("6.2.0", "Takes `CH`, `NX` and `XX`.")])
        .about("Adds one or more members to a geospatial index. The key is created if it doesn't exist."),
    read("GEODIST", "key member1 member2 [M|KM|FT|MI]", geodist)
        .since("3.2.0")
        .costs("O(log(N)) with N being the number of elements in the sorted set.")
        .about("Returns the distance between two members of a geospatial index."),
    read("GEOHASH", "key [member [member ...]]", geohash)
        .since("3.2.0")
        .costs("O(log(N)) for each member requested, where N is the number of elements in the sorted set.")
        .about("Returns members from a geospatial index as geohash strings."),
    read("GEOPOS", "key [member [member ...]]", geopos)
        .since("3.2.0")
        .costs("O(log(N)) for each member requested, where N is the number of elements in the sorted set.")
        .about("Returns the longitude and latitude of members from a geospatial index."),
    write(
        "GEORADIUS",
        "key longitude latitude radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC] \
         [STORE key|STOREDIST key]",
        search::georadius,
    )
    .tells(Own("the whole new value: `DEL destination`, `ZADD destination score member ...`"))
    .with(GROWS)
    .locates(search::keys_around_place)
    .touches(SOURCE_AND_STORES)
    .since("3.2.0")
    .costs(AROUND)
    .changed(&[("6.2.0", "Takes `ANY` after COUNT."), ("7.0.0", "Units may be in upper case.")])
    .replaced("6.2.0", "`GEOSEARCH` or `GEOSEARCHSTORE` with `BYRADIUS`")
    .about("Queries a geospatial index for members within a distance from a coordinate, optionally stores the result."),
    read(
        "GEORADIUS_RO",
        "key longitude latitude radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC]",
        search::georadius_ro,
    )
    .since("3.2.10")
    .costs(AROUND)
    .changed(&[("6.2.0", "Takes `ANY` after COUNT."), ("7.0.0", "Units may be in upper case.")])
    .replaced("6.2.0", "`GEOSEARCH` with `BYRADIUS`")
    .about("Returns members from a geospatial index that are within a distance from a coordinate."),
    write(
        "GEORADIUSBYMEMBER",
        "key member radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC] [STORE key|STOREDIST key]",
        search::georadiusbymember,
    )
    .tells(Own("the whole new value: `DEL destination`, `ZADD destination score member ...`"))
    .with(GROWS)
    .locates(search::keys_around_member)
    .touches(SOURCE_AND_STORES)
    .since("3.2.0")
    .costs(AROUND)
    .changed(&[("6.2.0", "Takes `ANY` after COUNT."), ("7.0.0", "Units may be in upper case.")])
    .replaced("6.2.0", "`GEOSEARCH` or `GEOSEARCHSTORE` with `BYRADIUS` and `FROMMEMBER`")
    .about("Queries a geospatial index for members within a distance from a member, optionally stores the result."),
    read(
        "GEORADIUSBYMEMBER_RO",
        "key member radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC]",
        search::georadiusbymember_ro,
    )
    .since("3.2.10")
    .costs(AROUND)
    .changed(&[("6.2.0", "Takes `ANY` after COUNT."), ("7.0.0", "Units may be in upper case.")])
    .replaced("6.2.0", "`GEOSEARCH` with `BYRADIUS` and `FROMMEMBER`")
    .about("Returns members from a geospatial index that are within a distance from a member."),
    read(
        "GEOSEARCH",
        "key <<FROMMEMBER member|FROMLONLAT longitude latitude> <BYRADIUS radius <M|KM|FT|MI>|BYBOX width height <M|KM|FT|MI>>|\
         BYPOLYGON num-vertices longitude latitude longitude latitude longitude latitude [longitude latitude ...]> \
         [ASC|DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]",
        search::geosearch,
    )
    .since("6.2.0")
    .costs(WITHIN)
    .changed(&[("7.0.0", "Units may be in upper case.")])
    .about("Queries a geospatial index for members inside an area of a box, a circle or (as in Valkey 9.0) a polygon."),
    write(
        "GEOSEARCHSTORE",
        "destination source <<FROMMEMBER member|FROMLONLAT longitude latitude> <BYRADIUS radius <M|KM|FT|MI>|BYBOX width height <M|KM|FT|MI>>|\
         BYPOLYGON num-vertices longitude latitude longitude latitude longitude latitude [longitude latitude ...]> [ASC|DESC] [COUNT count [ANY]] [STOREDIST]",
        search::geosearchstore,
    )
    .tells(Own("the whole new value: `DEL destination`, `ZADD destination score member ...`"))
    .with(GROWS)
    .touches(&["OW update", "RO access"])
    .since("6.2.0")
    .costs(WITHIN)
    .changed(&[("7.0.0", "Units may be in upper case.")])
    .about("Queries a geospatial index for members inside an area of a box, a circle or (as in Valkey 9.0) a polygon, and stores the result."),
];

/// Metres of a unit.
///
/// # Errors
/// Redis's text for another word.
fn unit(arg: &[u8]) -> Result<f64, Stop> {
    const UNITS: [(&str, f64); 4] = [("M", 1.0), ("KM", 1000.0), ("FT", 0.3048), ("MI", 1609.34)];
    let named = UNITS.iter().find(|(name, _)| is(arg, name));
    named
        .map(|(_, metres)| *metres)
        .ok_or_else(|| "ERR unsupported unit provided. please use M, KM, FT, MI".into())
}

/// The number that an argument is, or `error`.
fn double(arg: &[u8], error: &'static str) -> Result<f64, Stop> {
    number::double(arg).filter(|value| !value.is_nan()).ok_or_else(|| error.into())
}

/// The place that two arguments name.
///
/// # Errors
/// Redis's texts for what is no number, and for what lies off the map.
fn place(longitude: &[u8], latitude: &[u8]) -> Result<Place, Stop> {
    const NOT_A_FLOAT: &str = "ERR value is not a valid float";
    let place =
        Place { longitude: double(longitude, NOT_A_FLOAT)?, latitude: double(latitude, NOT_A_FLOAT)? };
    if place.is_valid() {
        Ok(place)
    } else {
        Err(format!("ERR invalid longitude,latitude pair {:.6},{:.6}", place.longitude, place.latitude)
            .into())
    }
}

/// The place of a member, if it is there.
fn place_of<'c>(call: &Call<'c>, set: &SortedSet<'c>, member: &[u8]) -> Result<Option<Place>, Stop> {
    Ok(set.find(call.txn, member)?.map(|entry| Place::of_score(entry.value())))
}

/// Replies with longitude and latitude, 17 decimals of each without zeros at the end.
fn reply_place(call: &mut Call<'_>, place: &Place) {
    call.reply.array(2);
    for degrees in [place.longitude, place.latitude] {
        let text = format!("{degrees:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        call.reply.double_text(if text == "-0" { "0" } else { text });
    }
}

/// Replies with a distance, which is text in RESP3, too.
fn reply_distance(call: &mut Call<'_>, distance: f64) {
    call.reply.bulk(format!("{distance:.4}").as_bytes());
}

fn geoadd(call: &mut Call<'_>) -> Outcome {
    let mut options = Options::default();
    let mut at = 2;
    for arg in &call.args[2..] {
        match arg {
            word if is(word, "NX") => options.if_absent = true,
            word if is(word, "XX") => options.if_there = true,
            word if is(word, "CH") => options.counts_changed = true,
            _ => break,
        }
        at += 1;
    }
    let (triples, rest) = call.args[at..].as_chunks::<3>();
    if triples.is_empty() || !rest.is_empty() || options.if_absent && options.if_there {
        return Err(SYNTAX.into());
    }
    let mut pairs = Pairs::new();
    for [longitude, latitude, member] in triples {
        pairs.push((Score::of(place(longitude, latitude)?.bits() as f64), *member));
    }
    let mode = number_mode(call.settings);
    let done = add_members(call, mode, options, &pairs)?;
    reply_added(call, mode, options, &done);
    Ok(())
}

fn geodist(call: &mut Call<'_>) -> Outcome {
    let metres = match &call.args[4..] {
        [] => 1.0,
        [name] => unit(name)?,
        _ => return Err(SYNTAX.into()),
    };
    let set = find_set(call, call.args[1])?;
    match place_of(call, &set, call.args[2])?.zip(place_of(call, &set, call.args[3])?) {
        Some((one, two)) => reply_distance(call, one.distance(&two) / metres),
        None => call.reply.null(),
    }
    Ok(())
}

fn geohash(call: &mut Call<'_>) -> Outcome {
    let set = find_set(call, call.args[1])?;
    call.reply.array(call.args.len() - 2);
    for member in &call.args[2..] {
        match place_of(call, &set, member)? {
            Some(place) => call.reply.bulk(&place.hash()),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn geopos(call: &mut Call<'_>) -> Outcome {
    let set = find_set(call, call.args[1])?;
    call.reply.array(call.args.len() - 2);
    for member in &call.args[2..] {
        match place_of(call, &set, member)? {
            Some(place) => reply_place(call, &place),
            None => call.reply.null_array(),
        }
    }
    Ok(())
}
