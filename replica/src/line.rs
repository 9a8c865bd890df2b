//! A feed's line among the words of the replicas (`polder_shm::replicas`): what its replica has acknowledged, for calls that wait for that.
use polder_base::time::now_ms;
use polder_table::Table;

/// The line of one feed. It is given back with the feed.
pub struct Line<'t> {
    table: &'t Table,
    slot: Option<u64>,
    is_online: bool,
}

impl Line<'_> {
    pub fn of(table: &Table) -> Line<'_> {
        Line { table, slot: None, is_online: false }
    }

    /// The feed's record stands in this slot.
    pub fn stand_in(&mut self, slot: u64) {
        if self.slot == Some(slot) {
            return;
        }
        self.give_back();
        let Ok(seat) = self.table.seat() else { return };
        let words = self.table.segment().replicas();
        // A feed that gives the slot up just now has the line a little longer: the next note tries again.
        if words.claim(slot, &seat) {
            self.slot = Some(slot);
            if self.is_online {
                self.count(slot);
            }
        }
    }

    /// The replica reads the stream from here on.
    pub fn go_online(&mut self) {
        self.is_online = true;
        if let Some(slot) = self.slot {
            self.count(slot);
        }
    }

    /// Has the line count, as if the replica had acknowledged just now that it has nothing.
    fn count(&self, slot: u64) {
        let Ok(seat) = self.table.seat() else { return };
        let words = self.table.segment().replicas();
        words.acknowledge(slot, 0, None, now_ms());
        words.go_online(slot, &seat);
    }

    /// The replica has acknowledged a place, and perhaps one of its own file.
    pub fn acknowledge(&self, place: u64, file_place: Option<u64>) {
        if let Some(slot) = self.slot {
            self.table.segment().replicas().acknowledge(slot, place, file_place, now_ms());
        }
    }

    fn give_back(&mut self) {
        if let (Some(slot), Ok(seat)) = (self.slot.take(), self.table.seat()) {
            self.table.segment().replicas().release(slot, &seat);
        }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}
