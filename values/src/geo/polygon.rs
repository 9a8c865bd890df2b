//! Polygons that are searched: their edges are straight on the map of degrees.
//!
//! A place lies within when a line from it to the east crosses an odd number of edges, so a polygon that crosses itself has holes. Distances are
//! counted from the middle, the direction of the mean of the corners as points in space.
//!
//! The search goes over the circle around the middle that holds the box of degrees around the corners: the farthest place of the box is a corner of it, as long
//! as none is more than 90 degrees of longitude away from the middle, and beyond that the circle is the earth. A polygon whose corners lie on both
//! sides of the date line has its middle there and its box elsewhere, so nothing lies within it.
use std::f64::consts::PI;

use super::{EARTH_RADIUS, Place, Scores, Shape, degrees, radians};

/// Corners that a polygon has at least.
pub const CORNERS_MIN: usize = 3;

/// See the head of this file.
#[derive(Clone, PartialEq, Debug)]
pub struct Polygon {
    corners: Box<[Place]>,
    middle: Place,
    reach: f64,
}

impl Polygon {
    /// The polygon of these corners, in the order in which they are connected.
    pub fn new(corners: Vec<Place>) -> Polygon {
        let middle = mean(&corners);
        let reach = reach(&corners, &middle);
        Polygon { corners: corners.into(), middle, reach }
    }

    /// The place from which distances are counted.
    pub fn middle(&self) -> Place {
        self.middle
    }

    /// Metres from the middle to the farthest corner of the box.
    pub(super) fn reach(&self) -> f64 {
        self.reach
    }

    /// Metres from the middle to a place, if the place lies within.
    pub(super) fn distance_within(&self, place: &Place) -> Option<f64> {
        if !self.holds(place) {
            return None;
        }
        Some(self.middle.distance(place)).filter(|distance| *distance <= self.reach)
    }

    fn holds(&self, place: &Place) -> bool {
        let mut crossed = false;
        let mut last = self.corners[self.corners.len() - 1];
        for corner in &self.corners {
            if (corner.latitude > place.latitude) != (last.latitude > place.latitude) {
                let slope = (last.longitude - corner.longitude) / (last.latitude - corner.latitude);
                let edge = corner.longitude + slope * (place.latitude - corner.latitude);
                crossed ^= place.longitude < edge;
            }
            last = *corner;
        }
        crossed
    }

    /// The cells that cover it, each once.
    pub(super) fn cover(&self) -> Vec<Scores> {
        let mut cells: Vec<Scores> = Vec::new();
        for cell in (Shape::Circle { radius: self.reach }).cover(&self.middle) {
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells
    }
}

fn mean(corners: &[Place]) -> Place {
    let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
    for corner in corners {
        let (longitude, latitude) = (radians(corner.longitude), radians(corner.latitude));
        x += latitude.cos() * longitude.cos();
        y += latitude.cos() * longitude.sin();
        z += latitude.sin();
    }
    let count = corners.len() as f64;
    let (x, y, z) = (x / count, y / count, z / count);
    Place { longitude: degrees(y.atan2(x)), latitude: degrees(z.atan2((x * x + y * y).sqrt())) }
}

fn reach(corners: &[Place], middle: &Place) -> f64 {
    let ends = |of: fn(&Place) -> f64| {
        let values = corners.iter().map(of);
        (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max))
    };
    let (west, east) = ends(|corner| corner.longitude);
    let (south, north) = ends(|corner| corner.latitude);
    let mut reach: f64 = 0.0;
    for longitude in [west, east] {
        let apart = (longitude - middle.longitude).abs();
        if apart.min(360.0 - apart) > 90.0 {
            return PI * EARTH_RADIUS;
        }
        for latitude in [south, north] {
            reach = reach.max(middle.distance(&Place { longitude, latitude }));
        }
    }
    reach
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn polygon(corners: &[(f64, f64)]) -> Polygon {
        let place = |&(longitude, latitude): &(f64, f64)| Place { longitude, latitude };
        Polygon::new(corners.iter().map(place).collect())
    }

    fn holds(polygon: &Polygon, longitude: f64, latitude: f64) -> bool {
        polygon.distance_within(&Place { longitude, latitude }).is_some()
    }

    #[test]
    fn a_bay_of_a_polygon_is_outside() {
        let bay = polygon(&[(-1.0, -1.0), (3.0, -1.0), (3.0, 3.0), (1.0, 0.5), (-1.0, 3.0)]);
        assert!(holds(&bay, 0.0, 0.0) && holds(&bay, 2.5, 2.0));
        assert!(!holds(&bay, 1.0, 1.0) && !holds(&bay, 4.0, 0.0));
    }

    #[test]
    fn a_polygon_across_the_date_line_holds_nothing() {
        let across = polygon(&[(178.0, -1.0), (-178.0, -1.0), (-178.0, 1.0), (178.0, 1.0)]);
        assert!(!holds(&across, 0.0, 0.0) && !holds(&across, 179.0, 0.0));
    }

    proptest! {
        #[test]
        fn what_lies_within_a_polygon_is_covered(
            corners in prop::collection::vec((-120.0f64..120.0, -60.0f64..60.0), 3..8),
            shrink in 0.001f64..1.0,
            place in (-120.0f64..120.0, -60.0f64..60.0),
        ) {
            let corners: Vec<(f64, f64)> = corners.iter().map(|(one, two)| (one * shrink, two * shrink)).collect();
            let polygon = polygon(&corners);
            let place = Place { longitude: place.0 * shrink, latitude: place.1 * shrink };
            let score = place.bits() as f64;
            if polygon.distance_within(&Place::of_score(score)).is_some() {
                prop_assert!(polygon.cover().iter().any(|(from, upto)| (*from..*upto).contains(&score)));
            }
        }
    }
}
