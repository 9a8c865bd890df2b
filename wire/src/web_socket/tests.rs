//! Frames that clients may send, and those that they may not, whole and split at every byte.
use super::*;

/// A frame of a client.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [1u8, 0x82, 3, 0x7f];
    let mut bytes = header(Kind::Continuation, false, false, payload.len()).to_vec();
    (bytes[0], bytes[1]) = (first, bytes[1] | 0x80);
    bytes.extend_from_slice(&mask);
    bytes.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
    bytes
}

type Said = (Vec<u8>, Vec<Control>, Option<u16>);

fn read(shape: Shape, input: &[u8], cuts: impl Iterator<Item = usize>) -> Said {
    let (mut reader, mut plain, mut controls, mut from) =
        (Reader::new(shape, true), Vec::new(), Vec::new(), 0);
    for to in cuts {
        if let Err(failure) = reader.read(&input[from..to], &mut plain, &mut controls, 1 << 17) {
            return (plain, controls, Some(failure.code));
        }
        from = to;
    }
    (plain, controls, None)
}

/// What is read of some frames, whole and split at every byte.
fn both(shape: Shape, input: &[u8]) -> Said {
    let whole = read(shape, input, std::iter::once(input.len()));
    for at in 1..input.len().min(400) {
        let split = read(shape, input, [at, input.len()].into_iter());
        assert_eq!((&split.1, &split.2), (&whole.1, &whole.2), "split at {at}");
        if whole.2.is_none() {
            assert_eq!(split.0, whole.0, "split at {at}");
        }
    }
    let bytewise = read(shape, input, 1..=input.len());
    assert_eq!(bytewise.2, whole.2);
    whole
}

fn deflated(text: &[u8]) -> Vec<u8> {
    Deflater::default().deflate(text).expect("it is shorter")
}

#[test]
fn messages_come_out_however_they_are_framed_and_cut() {
    let euro = "a€b".as_bytes();
    let long = vec![b'x'; 70_000];
    let cases: [(Vec<Vec<u8>>, Vec<u8>); 8] = [
        (vec![frame(0x81, b"hi"), frame(0x81, b"")], b"hi\xff\xff".to_vec()),
        (
            vec![frame(0x01, &euro[..2]), frame(0x00, &euro[2..3]), frame(0x80, &euro[3..])],
            [euro, b"\xff"].concat(),
        ),
        (vec![frame(0x01, b"a"), frame(0x89, b"p"), frame(0x80, b"b")], b"ab\xff".to_vec()),
        (
            vec![frame(0x81, &[b'x'; 125]), frame(0x81, &[b'x'; 126])],
            [&[b'x'; 125][..], b"\xff", &[b'x'; 126], b"\xff"].concat(),
        ),
        (vec![frame(0x81, &long)], [&long[..], b"\xff"].concat()),
        (
            vec![frame(0xc1, &deflated(&long[..5000])), frame(0x81, b"y")],
            [&long[..5000], b"\xffy\xff"].concat(),
        ),
        (
            {
                let short = deflated(&[euro.repeat(50)].concat());
                vec![frame(0x41, &short[..3]), frame(0x00, &short[3..5]), frame(0x80, &short[5..])]
            },
            [&euro.repeat(50)[..], b"\xff"].concat(),
        ),
        // A message of RFC 7692, section 7.2.3.4: a last block inside a message.
        (vec![frame(0xc1, &[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00])], b"Hello\xff".to_vec()),
    ];
    for (frames, plain) in cases {
        let said = both(Shape::Messages, &frames.concat());
        assert_eq!((said.0 == plain, said.2), (true, None), "{}", String::from_utf8_lossy(&said.0));
    }
    let said = both(Shape::Stream, &[frame(0x82, b"\xff\xfe"), frame(0x81, b"x")].concat());
    assert_eq!((said.0, said.2), (b"\xff\xfex".to_vec(), None));
}

#[test]
fn control_frames_are_seen_between_the_parts_of_a_message() {
    let input = [
        frame(0x01, b"a"),
        frame(0x89, b"ping"),
        frame(0x8a, b""),
        frame(0x80, b"b"),
        frame(0x88, b"\x03\xe8bye"),
        frame(0x81, b"no"),
    ];
    let said = both(Shape::Messages, &input.concat()[..input.concat().len() - input[5].len()]);
    assert_eq!(
        said,
        (
            b"ab\xff".to_vec(),
            vec![Control::Ping(b"ping".to_vec()), Control::Pong, Control::Close(Some(1000))],
            None
        )
    );
    assert_eq!(both(Shape::Messages, &frame(0x88, b"")).1, [Control::Close(None)]);
}

#[test]
fn frames_that_rfc_6455_forbids_close_with_the_right_code() {
    let unmasked = header(Kind::Text, true, false, 1).to_vec();
    let mut long_form = frame(0x81, &[b'x'; 126]);
    (long_form[2], long_form[3]) = (0, 5);
    let cases: [(Vec<u8>, u16); 20] = [
        (unmasked, 1002),
        (frame(0x91, b""), 1002),
        (frame(0xa1, b""), 1002),
        (frame(0xc9, b""), 1002),
        (frame(0xc0, b""), 1002),
        (frame(0x83, b""), 1002),
        (frame(0x8b, b""), 1002),
        (frame(0x80, b""), 1002),
        ([frame(0x01, b""), frame(0x81, b"")].concat(), 1002),
        (frame(0x09, b""), 1002),
        (frame(0x89, &[0; 126]), 1002),
        (long_form, 1002),
        (frame(0x88, b"\x03"), 1002),
        (frame(0x88, b"\x03\xec"), 1002),
        (frame(0x88, b"\x03\xe8\xff"), 1007),
        (frame(0x82, b""), 1003),
        (frame(0x81, b"\xc3"), 1007),
        (frame(0x81, b"\xff"), 1007),
        (frame(0xc1, b"\xff\xff\xff"), 1007),
        (frame(0x81, &[b'x'; (1 << 17) + 1]), 1009),
    ];
    for (number, (input, code)) in cases.iter().enumerate() {
        assert_eq!(both(Shape::Messages, input).2, Some(*code), "case {number}");
    }
}

#[test]
fn a_few_bytes_do_not_become_many() {
    let bomb = deflated(&vec![0; 4 << 20]);
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    let framed = frame(0xc1, &bomb);
    let said = read(Shape::Messages, &framed, std::iter::once(framed.len()));
    assert_eq!(said.2, Some(1009));
    assert!(said.0.capacity() < 1 << 20, "{}", said.0.capacity());
    // The length that a frame announces takes no memory.
    let announced = [0x81, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 1, 2, 3, 4, 5];
    let said = read(Shape::Messages, &announced, std::iter::once(announced.len()));
    assert!(said.2.is_none() && said.0.capacity() < 1024);
}

#[test]
fn no_half_of_a_text_looks_like_a_whole_message() {
    let damaged = [&deflated(&b"FLUSHALL ".repeat(50))[..], b"\xff\xff"].concat();
    for input in [frame(0x81, b"FLUSHALL\xff"), frame(0x81, b"FLUSHALL\xc3"), frame(0xc1, &damaged)] {
        let said = read(Shape::Messages, &input, std::iter::once(input.len()));
        assert!(said.2 == Some(1007) && !said.0.contains(&END), "{said:?}");
    }
}

#[test]
fn what_does_not_shrink_is_not_compressed() {
    let noise: Vec<u8> = (0..2000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    assert!(Deflater::default().deflate(&noise).is_none_or(|short| short.len() < noise.len()));
    assert!(Deflater::default().deflate(b"x").is_none());
}
