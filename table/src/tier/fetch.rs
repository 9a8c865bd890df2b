//! Fetching: a value comes back from its copy in a tier, and a stub becomes an entry with a record again.
//!
//! - **V5** A value is used only after the whole key was compared: the copy names the key, and its hash is compared with the stub.
//! - The entry keeps its version, and is *clean* ([`entry::CLEAN`]): its copy stays where it is. Each write of the key makes it another entry, which is
//!   not.
//! - What has expired comes back, too. It is removed as any other key that has, with its event and its `DEL` for the log, which need the name.

use polder_base::Fault;
use polder_values::{Value, string};

use crate::api::{Db, Mode, New, Stop};
use crate::layout::entry::{self, Image};
use crate::layout::extras;
use crate::layout::hash::Hash;
use crate::layout::parcel::{self, Parcel};
use crate::layout::record;
use crate::layout::stub::Name;
use crate::table::Table;
use crate::tier::PATIENCE;
use crate::txn::Txn;

const DAMAGED: Fault = Fault::Damaged { what: "a copy in the tier: it is another key's" };

impl Table {
    /// Puts a value back in the place of its stub. Returns false if that is not there any more.
    ///
    /// # Errors
    /// [`Stop::Busy`] and [`Stop::Retry`] where another thread has the key; [`Fault::Full`]; [`Fault::Damaged`] where the copy is not the stub's.
    pub fn install(&self, db: Db, name: Name, copy: &[u8]) -> Result<bool, Stop> {
        let Parcel { key, new } = parcel::unpack(copy)?;
        let hash = self.hash(key);
        if Name::of(&hash, name.version) != name {
            return Err(DAMAGED.into());
        }
        let txn = self.begin(Mode::Write)?;
        txn.limit_patience(PATIENCE);
        txn.neutral(db, key, Some(name), &mut |image, _| {
            if image.stub() != Some(name) {
                return Ok(None);
            }
            txn.fetched(key, &hash, &new, image).map(Some)
        })
    }
}

impl Txn<'_> {
    /// The entry in the place of a stub, with its record, which is made here.
    fn fetched(&self, key: &[u8], hash: &Hash, new: &New<'_>, stub: &Image) -> Result<Image, Stop> {
        if !new.extras.is_empty() {
            extras::announce(self.segment());
        }
        let Value::Packed(bytes) = new.value else { return Err(DAMAGED.into()) };
        let new = New { value: string::make(self, bytes)?, ..*new };
        let draft = record::Draft::new(self, key, &new)?;
        let node = self.make_record(draft.kind(), &draft.parts())?;
        let clock = self.table.first_clock(self.now_ms());
        let expires = (new.expiry_ms.is_some(), new.inner_expiry_ms.is_some());
        let first = entry::first_word(stub.version(), clock);
        Ok(entry::clean(entry::with_reference(first, new.kind as u8, expires, hash.extra, node)))
    }
}
