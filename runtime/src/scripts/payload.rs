//! The payload of FUNCTION DUMP: libraries as an RDB file has them, with DUMP's footer.
use polder_table::Stop;
use polder_wire::rdb::{Form, Item, Reader, Thresholds, VALKEY, Writer, open, seal};

/// Functions have been written the same way since this version.
const VERSION: u32 = 10;

/// A payload of these codes.
pub fn write<'c>(codes: impl Iterator<Item = &'c [u8]>) -> Vec<u8> {
    let mut writer = Writer::new(Form::Fixed(VERSION), true, Thresholds::default());
    codes.for_each(|code| writer.functions(code));
    let mut payload = writer.bytes().to_vec();
    seal(VERSION, &mut payload);
    payload
}

/// The codes in a payload.
///
/// # Errors
/// Redis's texts.
pub fn read(payload: &[u8]) -> Result<Vec<Vec<u8>>, Stop> {
    const BROKEN: &str = "ERR failed loading the given functions payload";
    let opened = open(payload, false).map_err(|malformed| format!("ERR {malformed}"))?;
    // What libraries are in an RDB file, they are here: a file without anything else.
    let magic =
        if opened.version == VALKEY { "VALKEY080".into() } else { format!("REDIS{:04}", opened.version) };
    let file = [magic.as_bytes(), opened.body, &[0xff], &[0; 8]].concat();
    let (mut reader, mut at, mut codes) = (Reader::file(false, true), 0, Vec::new());
    loop {
        match reader.read(&file, &mut at).map_err(|_| BROKEN)? {
            Some(Item::Functions(code)) => codes.push(code.to_vec()),
            Some(Item::Eof) => return Ok(codes),
            Some(_) => return Err("ERR given type is not a function".into()),
            None => return Err(BROKEN.into()),
        }
    }
}
