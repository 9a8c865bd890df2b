//! memcached's readers: any line is something, and a header's parts lie inside the body.
use polder_wire::memcached::binary::{Begin, HEADER_BYTES, Header};
use polder_wire::memcached::meta::Meta;
use polder_wire::memcached::text::Line;

pub fn seeds() -> Vec<Vec<u8>> {
    let lines = [
        "get a b c",
        "gats 10 a",
        "set k 5 60 3 noreply",
        "cas k 5 60 3 99",
        "incr k 18446744073709551615",
        "delete k 0 noreply",
        "flush_all 10",
        "stats settings",
        "mg YWJj b v k s t c N30 R10 Oabc",
        "ms k 3 T100 F5 I C10 MA q",
        "md k I T30 x",
        "ma k N0 J13 D5 MD v",
    ];
    let mut seeds: Vec<Vec<u8>> = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
    let mut packet = vec![0x80, 1, 0, 3, 8, 0, 0, 0, 0, 0, 0, 14];
    packet.extend_from_slice(b"opaq\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0\0keyabc");
    seeds.push(packet);
    seeds
}

/// Reads the input as lines and as packets.
pub fn any_bytes_are_read(input: &[u8]) {
    for line in input.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match Line::read(line) {
            Line::Meta(letter, words) => {
                if let Ok(meta) = Meta::read(letter, &words) {
                    assert!(
                        meta.meant().len() <= 250 && meta.bytes < i32::MAX as usize,
                        "a key or a length beyond the limits"
                    );
                }
            }
            Line::Store { key, bytes, .. } => {
                assert!(key.len() <= 250 && bytes < i32::MAX as usize, "a key or a length beyond the limits");
            }
            _ => {}
        }
    }
    if let Begin::Whole(header) = Header::read(input)
        && header.is_sound()
        && let Some(body) = input[HEADER_BYTES..].get(..header.body_bytes)
    {
        let (extras, key, value) = header.parts(body);
        assert_eq!(extras.len() + key.len() + value.len(), body.len(), "the parts are the body");
    }
}
