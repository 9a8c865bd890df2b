//! What clients have read and want to know when it changes.

use polder_table::Table;

use crate::ears::Hearer;

/// What the tracking clients of one thread have read.
#[derive(Default)]
pub struct Tracking {}

impl Tracking {
    pub(crate) fn reads_nothing(&self) -> bool {
        true
    }

    pub(crate) fn hears_nothing(&self) -> bool {
        true
    }
}

pub(crate) fn changed(_table: &Table, _hearer: &mut dyn Hearer, _origin: u64, _key: &[u8]) {}

pub(crate) fn broadcast(_table: &Table, _hearer: &mut dyn Hearer, _origin: u64, _key: &[u8]) {}

pub(crate) fn changed_all(_table: &Table, _hearer: &mut dyn Hearer) {}
