//! The reader of WebSocket frames.
use polder_wire::web_socket::{Control, Deflater, END, Failure, Kind, Reader, Shape, header};

/// No message may be longer.
const MESSAGE_BYTES_MAX: usize = 1 << 16;

/// A frame of a client, masked with zeros.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = header(Kind::Continuation, false, false, payload.len()).to_vec();
    (bytes[0], bytes[1]) = (first, bytes[1] | 0x80);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(payload);
    bytes
}

/// Sensible inputs.
pub fn seeds() -> Vec<Vec<u8>> {
    let short = Deflater::default().deflate(&b"[\"GET\",\"key\"]".repeat(100)).unwrap_or_default();
    vec![
        [
            frame(0x81, b"[\"PING\"]"),
            frame(0x82, b"PING\r\n"),
            frame(0x89, b"ping"),
            frame(0x88, b"\x03\xe8bye"),
        ]
        .concat(),
        [frame(0x01, b"\xe2"), frame(0x8a, b""), frame(0x00, b"\x82"), frame(0x80, b"\xac")].concat(),
        [frame(0xc1, &short), frame(0x41, &short[..5]), frame(0x80, &short[5..]), frame(0x81, b"")].concat(),
        [frame(0x81, &[b'x'; 126]), frame(0x81, &[b'x'; 70_000])].concat(),
    ]
}

fn read(
    shape: Shape,
    input: &[u8],
    cuts: impl Iterator<Item = usize>,
) -> (Vec<u8>, Vec<Control>, Option<Failure>) {
    let (mut reader, mut plain, mut controls, mut from) =
        (Reader::new(shape, true), Vec::new(), Vec::new(), 0);
    for to in cuts {
        if let Err(failure) = reader.read(&input[from..to], &mut plain, &mut controls, MESSAGE_BYTES_MAX) {
            return (plain, controls, Some(failure));
        }
        if matches!(controls.last(), Some(Control::Close(_))) {
            break;
        }
        from = to;
    }
    (plain, controls, None)
}

/// Messages and control frames are the same however the bytes come, and no message is longer than the limit.
pub fn frames_are_read_alike_however_they_are_cut(input: &[u8]) {
    for shape in [Shape::Messages, Shape::Stream] {
        let whole = read(shape, input, std::iter::once(input.len()));
        let split = read(shape, input, 1..=input.len());
        // A damaged message may be too long as well, and which of both is seen first depends on the cuts.
        assert_eq!(whole.2.is_some(), split.2.is_some());
        assert_eq!(whole.1, split.1);
        if whole.2.is_none() {
            assert_eq!(whole.0, split.0);
        }
        if shape == Shape::Messages {
            let messages =
                |plain: &[u8]| plain.split(|byte| *byte == END).map(<[u8]>::to_vec).collect::<Vec<_>>();
            let (mut whole, mut split) = (messages(&whole.0), messages(&split.0));
            // The last one has not ended.
            whole.pop();
            split.pop();
            assert_eq!(whole, split);
            assert!(whole.iter().all(|message| message.len() <= MESSAGE_BYTES_MAX && std::str::from_utf8(message).is_ok()));
        }
    }
}
