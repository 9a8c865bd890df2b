//! The common name of a certificate's subject. The certificate has been checked before, by rustls.
//!
//! ```text
//!   Certificate { TBSCertificate { [0] version?, serial, algorithm, issuer, validity, subject: SEQUENCE OF SET OF { OID, text }, ...
//! ```
//!
//! Only what is needed of DER (X.690, RFC 5280 section 4.1) is read here.

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT: u8 = 0x06;
const VERSION: u8 = 0xa0;
/// UTF8String, PrintableString, TeletexString, IA5String.
const TEXTS: [u8; 4] = [12, 19, 20, 22];
/// 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 4, 3];

/// The first common name of the subject; `None` if it has none, or one with a zero byte, which some readers end a name at.
pub fn common_name(certificate: &[u8]) -> Option<&[u8]> {
    let mut outer = certificate;
    let mut body = expect(&mut outer, SEQUENCE)?;
    let mut fields = expect(&mut body, SEQUENCE)?;
    if fields.first() == Some(&VERSION) {
        element(&mut fields)?;
    }
    // Serial number, algorithm, issuer, validity.
    for _ in 0..4 {
        element(&mut fields)?;
    }
    let mut subject = expect(&mut fields, SEQUENCE)?;
    while !subject.is_empty() {
        let mut set = expect(&mut subject, SET)?;
        while !set.is_empty() {
            let mut pair = expect(&mut set, SEQUENCE)?;
            let is_name = expect(&mut pair, OBJECT)? == COMMON_NAME;
            let (tag, text) = element(&mut pair)?;
            if is_name {
                return (TEXTS.contains(&tag) && !text.contains(&0)).then_some(text);
            }
        }
    }
    None
}

fn expect<'b>(input: &mut &'b [u8], wanted: u8) -> Option<&'b [u8]> {
    let (tag, content) = element(input)?;
    (tag == wanted).then_some(content)
}

/// The next element: its tag and its content.
fn element<'b>(input: &mut &'b [u8]) -> Option<(u8, &'b [u8])> {
    let [tag, length, rest @ ..] = *input else { return None };
    let (length, rest) = match *length {
        short @ 0..=0x7f => (usize::from(short), rest),
        // No certificate needs more than four bytes for a length.
        long @ 0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    *input = rest;
    Some((*tag, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        let length = if content.len() < 0x80 {
            vec![content.len() as u8]
        } else {
            vec![0x82, (content.len() >> 8) as u8, content.len() as u8]
        };
        [&[tag][..], &length, &content].concat()
    }

    fn certificate(subject: &[u8]) -> Vec<u8> {
        let other = der(SEQUENCE, &[&[b'x'; 200]]);
        let fields = der(
            SEQUENCE,
            &[&der(VERSION, &[&[2, 1, 2]]), &[2, 1, 1], &other, &other, &other, subject, &other],
        );
        der(SEQUENCE, &[&fields, &other])
    }

    fn part(object: &[u8], tag: u8, text: &[u8]) -> Vec<u8> {
        der(SET, &[&der(SEQUENCE, &[&der(OBJECT, &[object]), &der(tag, &[text])])])
    }

    #[test]
    fn the_first_common_name_counts() {
        let subject = der(
            SEQUENCE,
            &[
                &part(&[0x55, 4, 10], 12, b"Polder"),
                &part(&COMMON_NAME, 19, b"alice"),
                &part(&COMMON_NAME, 12, b"bob"),
            ],
        );
        assert_eq!(common_name(&certificate(&subject)), Some(&b"alice"[..]));
        assert_eq!(common_name(&certificate(&der(SEQUENCE, &[]))), None);
        assert_eq!(
            common_name(&certificate(&der(SEQUENCE, &[&part(&COMMON_NAME, 12, b"default\0.x")]))),
            None
        );
    }

    #[test]
    fn broken_bytes_have_no_name() {
        let whole = certificate(&der(SEQUENCE, &[&part(&COMMON_NAME, 12, b"alice")]));
        for length in 0..whole.len() {
            assert_eq!(common_name(&whole[..length]), None, "{length}");
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 0xff;
            // Whatever it says, it says it without a panic.
            let _ = common_name(&other);
        }
    }
}
