//! Arguments of calls: what may be given for one or several words of a command, and how they are framed.

use std::borrow::Cow;

/// One or several arguments of a command.
///
/// Text and bytes are sent as they are, numbers in decimal. Slices, vectors, arrays and tuples give one argument for
/// each element; `None` gives none.
pub trait Args {
    /// How many arguments [`Args::encode`] writes.
    fn count(&self) -> usize;
    /// Writes the arguments in order.
    fn encode(&self, out: &mut Encoder<'_>);
}

/// Writes arguments in RESP framing to the end of a buffer.
pub struct Encoder<'b> {
    out: &'b mut Vec<u8>,
}

impl<'b> Encoder<'b> {
    pub(crate) fn new(out: &'b mut Vec<u8>) -> Encoder<'b> {
        Encoder { out }
    }

    /// Begins a request of `count` arguments.
    pub(crate) fn begin(&mut self, count: usize) {
        self.header(b'*', count);
    }

    /// Writes one argument.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    fn header(&mut self, mark: u8, count: usize) {
        if count < 10 {
            self.out.extend_from_slice(&[mark, b'0' + count as u8, b'\r', b'\n']);
            return;
        }
        self.out.push(mark);
        self.out.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Appends a whole request to `out`.
pub(crate) fn encode(args: &(impl Args + ?Sized), out: &mut Vec<u8>) {
    let mut encoder = Encoder::new(out);
    encoder.begin(args.count());
    args.encode(&mut encoder);
}

/// Types that are one argument: the expression gives its bytes.
macro_rules! single {
    ($($type:ty => |$value:ident| $bytes:expr;)*) => {$(
        impl Args for $type {
            fn count(&self) -> usize {
                1
            }
            fn encode(&self, out: &mut Encoder<'_>) {
                let $value = self;
                out.bytes($bytes);
            }
        }
    )*};
}

single! {
    str => |text| text.as_bytes();
    String => |text| text.as_bytes();
    [u8] => |bytes| bytes;
    Vec<u8> => |bytes| bytes;
    Cow<'_, str> => |text| text.as_bytes();
    Cow<'_, [u8]> => |bytes| bytes;
    i32 => |number| itoa::Buffer::new().format(*number).as_bytes();
    i64 => |number| itoa::Buffer::new().format(*number).as_bytes();
    u32 => |number| itoa::Buffer::new().format(*number).as_bytes();
    u64 => |number| itoa::Buffer::new().format(*number).as_bytes();
    usize => |number| itoa::Buffer::new().format(*number).as_bytes();
    f32 => |number| decimal(f64::from(*number), &mut ryu::Buffer::new());
    f64 => |number| decimal(*number, &mut ryu::Buffer::new());
}

/// The shortest decimal text that reads back as the same double; the infinities as Redis spells them.
fn decimal(number: f64, buffer: &mut ryu::Buffer) -> &[u8] {
    if number.is_infinite() {
        return if number > 0.0 { b"+inf" } else { b"-inf" };
    }
    let text = buffer.format(number);
    text.strip_suffix(".0").unwrap_or(text).as_bytes()
}

impl<const N: usize> Args for [u8; N] {
    fn count(&self) -> usize {
        1
    }
    fn encode(&self, out: &mut Encoder<'_>) {
        out.bytes(self);
    }
}

impl<T: Args + ?Sized> Args for &T {
    fn count(&self) -> usize {
        (**self).count()
    }
    fn encode(&self, out: &mut Encoder<'_>) {
        (**self).encode(out);
    }
}

impl<T: Args> Args for [T] {
    fn count(&self) -> usize {
        self.iter().map(Args::count).sum()
    }
    fn encode(&self, out: &mut Encoder<'_>) {
        self.iter().for_each(|item| item.encode(out));
    }
}

impl<T: Args> Args for Vec<T> {
    fn count(&self) -> usize {
        self[..].count()
    }
    fn encode(&self, out: &mut Encoder<'_>) {
        self[..].encode(out);
    }
}

impl<T: Args, const N: usize> Args for [T; N] {
    fn count(&self) -> usize {
        self[..].count()
    }
    fn encode(&self, out: &mut Encoder<'_>) {
        self[..].encode(out);
    }
}

impl<T: Args> Args for Option<T> {
    fn count(&self) -> usize {
        self.as_ref().map_or(0, Args::count)
    }
    fn encode(&self, out: &mut Encoder<'_>) {
        if let Some(item) = self {
            item.encode(out);
        }
    }
}

impl Args for () {
    fn count(&self) -> usize {
        0
    }
    fn encode(&self, _out: &mut Encoder<'_>) {}
}

/// Tuples: the arguments of each element in turn.
macro_rules! tuples {
    ($(($($name:ident $at:tt),*);)*) => {$(
        impl<$($name: Args),*> Args for ($($name,)*) {
            fn count(&self) -> usize {
                0 $(+ self.$at.count())*
            }
            fn encode(&self, out: &mut Encoder<'_>) {
                $(self.$at.encode(out);)*
            }
        }
    )*};
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(args: impl Args) -> String {
        let mut out = Vec::new();
        encode(&args, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn arguments_are_framed_one_by_one() {
        assert_eq!(framed(("SET", "k", 12)), "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n12\r\n");
        assert_eq!(framed((("DEL",), ("a",), ())), "*2\r\n$3\r\nDEL\r\n$1\r\na\r\n");
        assert_eq!(framed(("DEL", ["a", "b"])), "*3\r\n$3\r\nDEL\r\n$1\r\na\r\n$1\r\nb\r\n");
        assert_eq!(
            framed(("X", vec![1u8, 2].as_slice(), None::<&str>)),
            "*2\r\n$1\r\nX\r\n$2\r\n\u{1}\u{2}\r\n"
        );
        assert_eq!(
            framed(("ZADD", "z", [(1.5, "a"), (2.0, "b")])),
            "*6\r\n$4\r\nZADD\r\n$1\r\nz\r\n$3\r\n1.5\r\n$1\r\na\r\n$1\r\n2\r\n$1\r\nb\r\n"
        );
        assert_eq!(framed(("X", f64::NEG_INFINITY, "")), "*3\r\n$1\r\nX\r\n$4\r\n-inf\r\n$0\r\n\r\n");
        assert_eq!(framed((0..12).map(|n| n.to_string()).collect::<Vec<_>>()).lines().next(), Some("*12"));
    }
}
