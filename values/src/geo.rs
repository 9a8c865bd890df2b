//! Places on the earth as scores of a sorted set, bit for bit as Redis has them.
//!
//! ```text
//!   latitude  -85.05112878 .. 85.05112878  -> 26 bits --.
//!   longitude -180 .. 180                  -> 26 bits --+-> 52 bits, longitude first: a score, exact as a double
//!
//!   bits of a cell at step n (its first 2n bits):   lon lat lon lat ...
//!   all scores of the cell:                         bits << (52 - 2n)  up to, not including,  (bits + 1) << (52 - 2n)
//! ```
//! A search covers its shape by a cell and its eight neighbours, at the finest step that is coarse enough; each cell is
//! one range of scores. What comes out is then measured one by one.
//!
//! - **G1** The order of the cells and their duplicates are those of Redis, since replies without an order show them.
//! - **G2** Distances follow the haversine formula on a sphere of Redis's radius, operation by operation, so that they are equal
//!   to the last bit.
use std::f64::consts::PI;

mod polygon;
pub use polygon::{CORNERS_MIN, Polygon};

/// Where there is no place: the projection ends before the poles.
pub const LONGITUDE_MAX: f64 = 180.0;
pub const LATITUDE_MAX: f64 = 85.05112878;

/// Metres.
const EARTH_RADIUS: f64 = 6_372_797.560_856;

/// Half of the equator in metres, as the projection has it.
const MERCATOR_MAX: f64 = 20_037_726.37;

/// Bits of one coordinate in a score.
const STEP_MAX: u32 = 26;

/// Letters of a textual geohash, and how many of them one has.
const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
pub const HASH_LEN: usize = 11;

/// A place, in degrees.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Place {
    pub longitude: f64,
    pub latitude: f64,
}

/// What is searched around a place, in metres.
#[derive(Clone, PartialEq, Debug)]
pub enum Shape {
    Circle {
        radius: f64,
    },
    Rectangle {
        width: f64,
        height: f64,
    },
    /// Around its own middle.
    Polygon(Polygon),
}

/// A range of scores: from the first up to, not including, the second.
pub type Scores = (f64, f64);

impl Place {
    /// Whether there is a score for it.
    pub fn is_valid(&self) -> bool {
        (-LONGITUDE_MAX..=LONGITUDE_MAX).contains(&self.longitude)
            && (-LATITUDE_MAX..=LATITUDE_MAX).contains(&self.latitude)
    }

    /// The bits of its score.
    pub fn bits(&self) -> u64 {
        Cell::around(self, STEP_MAX, LATITUDE_MAX).bits()
    }

    /// The middle of the finest cell of a score; any double has one.
    pub fn of_score(score: f64) -> Place {
        // What is no geohash is converted as the peers' processors do it: too large is 0.
        const END: f64 = (1u64 << 63) as f64 * 2.0;
        let bits = match score {
            ..0.0 => score as i64 as u64,
            ..END => score as u64,
            _ => 0,
        };
        let cell = Cell { longitude: every_second(bits >> 1), latitude: every_second(bits), step: STEP_MAX };
        let (west, east) = cell.longitudes();
        let (south, north) = cell.latitudes();
        Place {
            longitude: ((west + east) / 2.0).clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: ((south + north) / 2.0).clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }

    /// The geohash that other programs read, of a grid that reaches to the poles.
    pub fn hash(&self) -> [u8; HASH_LEN] {
        let bits = Cell::around(self, STEP_MAX, 90.0).bits();
        // 52 bits are ten letters and two bits; Redis writes the eleventh as 0.
        std::array::from_fn(|at| match at {
            10 => LETTERS[0],
            _ => LETTERS[(bits >> (52 - (at + 1) * 5)) as usize & 31],
        })
    }

    /// Metres to another place (G2).
    pub fn distance(&self, other: &Place) -> f64 {
        let v = ((radians(other.longitude) - radians(self.longitude)) / 2.0).sin();
        if v == 0.0 {
            return latitude_distance(self.latitude, other.latitude);
        }
        let (from, to) = (radians(self.latitude), radians(other.latitude));
        let u = ((to - from) / 2.0).sin();
        let a = u * u + from.cos() * to.cos() * v * v;
        2.0 * EARTH_RADIUS * a.sqrt().asin()
    }
}

impl Shape {
    /// Metres from the shape's middle to a place, if the place lies within.
    pub fn distance_within(&self, middle: &Place, place: &Place) -> Option<f64> {
        match self {
            Shape::Circle { radius } => Some(middle.distance(place)).filter(|distance| distance <= radius),
            Shape::Polygon(polygon) => polygon.distance_within(place),
            Shape::Rectangle { width, height } => {
                let beside = Place { longitude: middle.longitude, latitude: place.latitude };
                let within = latitude_distance(place.latitude, middle.latitude) <= height / 2.0
                    && place.distance(&beside) <= width / 2.0;
                within.then(|| middle.distance(place))
            }
        }
    }

    /// The cells that cover the shape around `middle`, as ranges of scores in the order in which they are searched (G1).
    pub fn cover(&self, middle: &Place) -> Vec<Scores> {
        if let Shape::Polygon(polygon) = self {
            return polygon.cover();
        }
        let (bounds, mut step) = (self.bounds(middle), self.step(middle.latitude));
        let mut cell = Cell::around(middle, step, LATITUDE_MAX);
        if step > 1 && !cell.neighbours_reach(&bounds) {
            step -= 1;
            cell = Cell::around(middle, step, LATITUDE_MAX);
        }
        let (south, north) = cell.latitudes();
        let (west, east) = cell.longitudes();
        let mut searched: Vec<Cell> = Vec::with_capacity(NEIGHBOURS.len());
        for (by_longitude, by_latitude) in NEIGHBOURS {
            // A neighbour is of no use on a side on which the middle cell reaches beyond the shape.
            let useless = by_latitude < 0 && south < bounds.south
                || by_latitude > 0 && north > bounds.north
                || by_longitude < 0 && west < bounds.west
                || by_longitude > 0 && east > bounds.east;
            let neighbour = cell.moved(by_longitude, by_latitude);
            let repeated = searched.last() == Some(&neighbour);
            if !(useless && step >= 2 || repeated) {
                searched.push(neighbour);
            }
        }
        searched.iter().map(Cell::scores).collect()
    }

    /// The degrees between which the shape lies.
    fn bounds(&self, middle: &Place) -> Bounds {
        let (width, height) = match self {
            Shape::Circle { radius } => (*radius, *radius),
            Shape::Rectangle { width, height } => (width / 2.0, height / 2.0),
            Shape::Polygon(polygon) => (polygon.reach(), polygon.reach()),
        };
        let by_latitude = degrees(height / EARTH_RADIUS);
        // Circles of latitude are shortest on the side of the nearer pole.
        let narrow =
            if middle.latitude < 0.0 { middle.latitude - by_latitude } else { middle.latitude + by_latitude };
        let by_longitude = degrees(width / EARTH_RADIUS / radians(narrow).cos());
        Bounds {
            west: middle.longitude - by_longitude,
            east: middle.longitude + by_longitude,
            south: middle.latitude - by_latitude,
            north: middle.latitude + by_latitude,
        }
    }

    /// The step at which nine cells most likely cover the shape.
    fn step(&self, latitude: f64) -> u32 {
        let mut reach = match self {
            Shape::Circle { radius } => *radius,
            Shape::Polygon(polygon) => polygon.reach(),
            Shape::Rectangle { width, height } => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
            }
        };
        if reach == 0.0 {
            return STEP_MAX;
        }
        let mut step = 1;
        while reach < MERCATOR_MAX {
            reach *= 2.0;
            step += 1;
        }
        // Cells narrow towards the poles.
        let polar = if latitude.abs() > 80.0 { 2 } else { i32::from(latitude.abs() > 66.0) };
        (step - 2 - polar).clamp(1, STEP_MAX as i32) as u32
    }
}

/// The middle first, then the sides, then the corners (G1): steps in longitude and latitude.
const NEIGHBOURS: [(i32, i32); 9] =
    [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

struct Bounds {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

/// A cell of the grid at a step: each coordinate is one of `1 << step`.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Cell {
    longitude: u32,
    latitude: u32,
    step: u32,
}

impl Cell {
    /// The cell that a place lies in, on a grid up to `latitude_max`.
    fn around(place: &Place, step: u32, latitude_max: f64) -> Cell {
        let along = |value: f64, max: f64| ((value + max) / (max - -max) * (1u64 << step) as f64) as u32;
        Cell {
            longitude: along(place.longitude, LONGITUDE_MAX),
            latitude: along(place.latitude, latitude_max),
            step,
        }
    }

    fn bits(&self) -> u64 {
        spread(self.latitude) | spread(self.longitude) << 1
    }

    /// The neighbour this many cells away; the grid is closed in both directions.
    fn moved(&self, by_longitude: i32, by_latitude: i32) -> Cell {
        // A place on the very edge lies past the last cell, and is left there (G1).
        let moved = |at: u32, by: i32| {
            if by == 0 { at } else { at.wrapping_add_signed(by) & ((1u32 << self.step) - 1) }
        };
        Cell {
            longitude: moved(self.longitude, by_longitude),
            latitude: moved(self.latitude, by_latitude),
            step: self.step,
        }
    }

    fn longitudes(&self) -> (f64, f64) {
        self.edges(self.longitude, LONGITUDE_MAX)
    }

    fn latitudes(&self) -> (f64, f64) {
        self.edges(self.latitude, LATITUDE_MAX)
    }

    /// The lower and the upper end of coordinate `at`, in degrees.
    fn edges(&self, at: u32, max: f64) -> (f64, f64) {
        let cells = (1u64 << self.step) as f64;
        let edge = |at: f64| -max + at / cells * (max - -max);
        (edge(f64::from(at)), edge(f64::from(at) + 1.0))
    }

    /// Whether the four neighbours at the sides reach the bounds.
    fn neighbours_reach(&self, bounds: &Bounds) -> bool {
        self.moved(0, 1).latitudes().1 >= bounds.north
            && self.moved(0, -1).latitudes().0 <= bounds.south
            && self.moved(1, 0).longitudes().1 >= bounds.east
            && self.moved(-1, 0).longitudes().0 <= bounds.west
    }

    fn scores(&self) -> Scores {
        let shift = 2 * (STEP_MAX - self.step);
        ((self.bits() << shift) as f64, ((self.bits() + 1) << shift) as f64)
    }
}

/// Bit n becomes bit 2n; zeros stand between.
fn spread(bits: u32) -> u64 {
    let mut spread = u64::from(bits);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        spread = (spread | spread << shift) & mask;
    }
    spread
}

/// The other way round: bit 2n becomes bit n.
fn every_second(bits: u64) -> u32 {
    let mut gathered = bits & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        gathered = (gathered | gathered >> shift) & mask;
    }
    gathered as u32
}

fn radians(degrees: f64) -> f64 {
    degrees * (PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (PI / 180.0)
}

fn latitude_distance(one: f64, two: f64) -> f64 {
    EARTH_RADIUS * (radians(two) - radians(one)).abs()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn palermo() -> Place {
        Place { longitude: 13.361389, latitude: 38.115556 }
    }

    fn catania() -> Place {
        Place { longitude: 15.087269, latitude: 37.502669 }
    }

    #[test]
    fn the_examples_of_the_redis_documentation_hold() {
        assert_eq!((palermo().bits(), catania().bits()), (3_479_099_956_230_698, 3_479_447_370_796_909));
        let stored = Place::of_score(palermo().bits() as f64);
        assert_eq!((stored.longitude, stored.latitude), (13.361_389_338_970_184, 38.115_556_395_496_3));
        assert_eq!(
            (&stored.hash(), &Place::of_score(catania().bits() as f64).hash()),
            (b"sqc8b49rny0", b"sqdtr74hyu0")
        );
        assert_eq!(
            format!("{:.4}", stored.distance(&Place::of_score(catania().bits() as f64))),
            "166274.1516"
        );
    }

    #[test]
    fn any_score_is_some_place() {
        for score in
            [0.0, -0.0, -1.0, 1e300, -1e300, f64::INFINITY, f64::NEG_INFINITY, 4_503_599_627_370_495.0, 0.5]
        {
            assert!(Place::of_score(score).is_valid(), "{score}");
        }
    }

    fn place() -> impl Strategy<Value = Place> {
        (-LONGITUDE_MAX..=LONGITUDE_MAX, -LATITUDE_MAX..=LATITUDE_MAX)
            .prop_map(|(longitude, latitude)| Place { longitude, latitude })
    }

    proptest! {
        #[test]
        fn a_place_comes_back_from_its_score_to_within_its_cell(place in place()) {
            let back = Place::of_score(place.bits() as f64);
            prop_assert!((back.longitude - place.longitude).abs() < 360.0 / f64::from(1 << 26));
            prop_assert!((back.latitude - place.latitude).abs() < 171.0 / f64::from(1 << 26));
        }

        #[test]
        fn what_lies_within_is_covered(middle in place(), place in place(), radius in 1.0f64..3_000_000.0, near in 0.0f64..1.0) {
            // Away from the date line and the poles, where Redis itself does not look.
            let middle = Place { longitude: middle.longitude / 2.0, latitude: middle.latitude / 2.0 };
            let degrees = near * radius / 150_000.0;
            let place = Place {
                longitude: middle.longitude + place.longitude / 180.0 * degrees,
                latitude: (middle.latitude + place.latitude / 85.0 * degrees).clamp(-85.0, 85.0),
            };
            let score = place.bits() as f64;
            let stored = Place::of_score(score);
            for shape in [Shape::Circle { radius }, Shape::Rectangle { width: radius, height: radius }] {
                if place.is_valid() && shape.distance_within(&middle, &stored).is_some() {
                    prop_assert!(shape.cover(&middle).iter().any(|(from, upto)| (*from..*upto).contains(&score)));
                }
            }
        }

        #[test]
        fn spread_bits_gather_again(one in any::<u32>(), two in any::<u32>()) {
            let both = spread(one) | spread(two) << 1;
            prop_assert_eq!((every_second(both), every_second(both >> 1)), (one, two));
        }
    }
}
