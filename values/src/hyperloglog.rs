//! HyperLogLog: how many distinct things were added, to within 0.81 %, in at most 12 KiB. Byte for byte Redis's form.
//!
//! ```text
//! OFFSET  SIZE  WHAT
//!      0     4  "HYLL"
//!      4     1  0 dense, 1 sparse
//!      5     3  not used
//!      8     8  the last count, little-endian; the highest bit says that it does not hold any more
//!     16     -  dense: 16,384 registers of 6 bits, the lowest bits first (12,288 bytes)
//!               sparse: runs of registers
//!                 00xxxxxx            x + 1 registers are zero                     (1 to 64)
//!                 01xxxxxx yyyyyyyy   xy + 1 registers are zero                    (1 to 16,384)
//!                 1vvvvvxx            x + 1 registers (1 to 4) are v + 1 (1 to 32)
//! ```
//! A register holds the longest run of zeros, plus one, that the hashes of its share of the elements began with.
//!
//! - **H1** The same additions give the same bytes as in Redis: runs are split and joined by the same rules, and the sparse form is given
//!   up at the same moments.
//! - **H2** The count is estimated as by O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017, algorithm 6),
//!   in the same order of operations as Redis, so that equal registers give equal numbers.
//! - **H3** Nothing that a client can write into such a string leads to more than [`Corrupt`].

/// Registers: 2 to the power of [`INDEX_BITS`].
pub const REGISTERS: usize = 1 << INDEX_BITS;

/// Bits of the hash that choose the register.
const INDEX_BITS: u32 = 14;

/// Bits of the hash that are left to count zeros in.
const RUN_BITS: usize = 64 - INDEX_BITS as usize;

const MAGIC: &[u8; 4] = b"HYLL";
/// Bytes before the registers.
pub const HEADER: usize = 16;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;

/// Where the kept count lies.
pub const COUNT_AT: u64 = 8;

/// Length of the dense form in bytes.
pub const DENSE_BYTES: usize = HEADER + REGISTERS * 6 / 8;

/// More bytes than runs of all registers can take: a longer string is no HyperLogLog.
pub const BYTES_MAX: usize = HEADER + 2 * REGISTERS;

/// The longest run of zeros that one byte says; two bytes can say all registers.
const ZEROS_SHORT: usize = 64;

/// The greatest register, and the longest run of equal ones, that the sparse form can say.
const RUN_VALUE_MAX: u8 = 32;
const RUN_MAX: usize = 4;

/// The bytes have the head of a HyperLogLog but do not describe all registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corrupt;

/// A run of the sparse form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Run {
    /// Zeros, said in one byte.
    Zeros(usize),
    /// Zeros, said in two bytes.
    ManyZeros(usize),
    /// Registers of a value.
    Value(u8, usize),
}

impl Run {
    /// Registers.
    fn span(self) -> usize {
        match self {
            Run::Zeros(span) | Run::ManyZeros(span) | Run::Value(_, span) => span,
        }
    }

    fn value(self) -> u8 {
        if let Run::Value(value, _) = self { value } else { 0 }
    }

    /// Bytes.
    fn len(self) -> usize {
        if let Run::ManyZeros(_) = self { 2 } else { 1 }
    }

    /// The run at the beginning of `bytes`; none where they end in the middle of one.
    fn read(bytes: &[u8]) -> Option<Run> {
        let first = *bytes.first()?;
        Some(match first >> 6 {
            0 => Run::Zeros(usize::from(first & 0x3f) + 1),
            1 => Run::ManyZeros((usize::from(first & 0x3f) << 8 | usize::from(*bytes.get(1)?)) + 1),
            _ => Run::Value((first >> 2 & 0x1f) + 1, usize::from(first & 3) + 1),
        })
    }

    /// A run of `span` zeros, in the shortest form.
    fn zeros(span: usize) -> Run {
        if span > ZEROS_SHORT { Run::ManyZeros(span) } else { Run::Zeros(span) }
    }

    fn write(self, target: &mut Vec<u8>) {
        match self {
            Run::Zeros(span) => target.push((span - 1) as u8),
            Run::ManyZeros(span) => {
                target.extend_from_slice(&[0x40 | ((span - 1) >> 8) as u8, (span - 1) as u8])
            }
            Run::Value(value, span) => target.push(0x80 | (value - 1) << 2 | (span - 1) as u8),
        }
    }
}

/// The runs of a sparse form. What comes after the last whole one is not shown.
struct Runs<'a>(&'a [u8]);

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let run = Run::read(self.0)?;
        self.0 = &self.0[run.len()..];
        Some(run)
    }
}

/// Whether a string looks like a HyperLogLog; its runs may be corrupt even so.
pub fn is_one(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER
        && bytes.starts_with(MAGIC)
        && match bytes[4] {
            DENSE => bytes.len() == DENSE_BYTES,
            SPARSE => true,
            _ => false,
        }
}

/// Whether it is kept sparse.
pub fn is_sparse(bytes: &[u8]) -> bool {
    bytes[4] == SPARSE
}

/// The register that an element belongs to, and what it says there.
fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur(element);
    let rest = hash >> INDEX_BITS | 1 << RUN_BITS;
    ((hash as usize) & (REGISTERS - 1), rest.trailing_zeros() as u8 + 1)
}

/// MurmurHash64A by Austin Appleby (public domain), with the seed that Redis gives it here.
fn murmur(bytes: &[u8]) -> u64 {
    const SEED: u64 = 0xadc8_3b19;
    const MIX: u64 = 0xc6a4_a793_5bd1_e995;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(MIX);
    for word in words {
        let word = u64::from_le_bytes(*word).wrapping_mul(MIX);
        hash = (hash ^ (word ^ word >> 47).wrapping_mul(MIX)).wrapping_mul(MIX);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(MIX);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(MIX);
    hash ^ hash >> 47
}

/// A HyperLogLog whose bytes are ours to change.
pub struct Sketch(Vec<u8>);

impl Default for Sketch {
    /// Nothing added yet: sparse, one run of zeros, counted as none.
    fn default() -> Sketch {
        let mut bytes = vec![0; HEADER];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = SPARSE;
        Run::ManyZeros(REGISTERS).write(&mut bytes);
        Sketch(bytes)
    }
}

impl Sketch {
    /// The HyperLogLog of these bytes, which [`is_one`] has to accept.
    pub fn of(bytes: Vec<u8>) -> Sketch {
        assert!(is_one(&bytes), "whoever reads a sketch looks at its head first");
        Sketch(bytes)
    }

    /// The string that it is.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it is kept sparse.
    pub fn is_sparse(&self) -> bool {
        is_sparse(&self.0)
    }

    /// Adds an element. Returns whether a register grew. `sparse_max` is the greatest length of a
    /// sparse form, in bytes.
    ///
    /// # Errors
    /// [`Corrupt`]: nothing was changed.
    pub fn add(&mut self, element: &[u8], sparse_max: usize) -> Result<bool, Corrupt> {
        let (index, value) = place(element);
        self.raise(index, value, sparse_max)
    }

    /// Raises a register to `value` (1 to 51) if it is lower. Returns whether it was.
    ///
    /// # Errors
    /// As [`Sketch::add`].
    pub fn raise(&mut self, index: usize, value: u8, sparse_max: usize) -> Result<bool, Corrupt> {
        let raised = if self.is_sparse() {
            self.raise_sparse(index, value, sparse_max)?
        } else {
            self.raise_dense(index, value)
        };
        if raised {
            self.forget_count();
        }
        Ok(raised)
    }

    /// The count that was kept does not hold any more.
    pub fn forget_count(&mut self) {
        self.0[15] |= 0x80;
    }

    /// Keeps a count.
    pub fn keep_count(&mut self, count: u64) {
        self.0[8..16].copy_from_slice(&count.to_le_bytes());
    }

    /// Makes it dense. Returns whether it was sparse.
    ///
    /// # Errors
    /// As [`Sketch::add`].
    pub fn make_dense(&mut self) -> Result<bool, Corrupt> {
        if !self.is_sparse() {
            return Ok(false);
        }
        let mut dense = vec![0; DENSE_BYTES];
        dense[..HEADER].copy_from_slice(&self.0[..HEADER]);
        dense[4] = DENSE;
        let registers = &mut dense[HEADER..];
        each_run(&self.0, &mut |first, run| {
            if run.value() != 0 {
                (first..first + run.span()).for_each(|index| set_register(registers, index, run.value()));
            }
        })?;
        self.0 = dense;
        Ok(true)
    }

    fn raise_dense(&mut self, index: usize, value: u8) -> bool {
        let registers = &mut self.0[HEADER..];
        let raised = register(registers, index) < value;
        if raised {
            set_register(registers, index, value);
        }
        raised
    }

    fn raise_sparse(&mut self, index: usize, value: u8, sparse_max: usize) -> Result<bool, Corrupt> {
        if value > RUN_VALUE_MAX {
            return self.raise_as_dense(index, value);
        }
        let (mut at, mut first, mut previous) = (HEADER, 0, None);
        let run = loop {
            let run = Run::read(&self.0[at..]).ok_or(Corrupt)?;
            if index < first + run.span() {
                break run;
            }
            first += run.span();
            previous = Some(at);
            at += run.len();
        };
        if run.value() >= value {
            return Ok(false);
        }
        let parts = split(run, index - first, value);
        let (old, new) = (run.len(), parts.len());
        if new > old && self.0.len() + new - old > sparse_max {
            return self.raise_as_dense(index, value);
        }
        self.0.splice(at..at + old, parts);
        self.join(previous.unwrap_or(HEADER));
        Ok(true)
    }

    /// Gives up the sparse form in order to raise a register.
    fn raise_as_dense(&mut self, index: usize, value: u8) -> Result<bool, Corrupt> {
        self.make_dense()?;
        Ok(self.raise_dense(index, value))
    }

    /// Joins runs of equal values in the neighbourhood of a change: from `at` on, five steps and no more (H1).
    fn join(&mut self, mut at: usize) {
        for _ in 0..5 {
            let Some(run) = Run::read(&self.0[at..]) else { return };
            if let (Run::Value(value, span), Some(Run::Value(next, more))) =
                (run, Run::read(&self.0[at + run.len()..]))
                && value == next
                && span + more <= RUN_MAX
            {
                let mut joined = Vec::with_capacity(1);
                Run::Value(value, span + more).write(&mut joined);
                self.0.splice(at..at + 2, joined);
            } else {
                at += run.len();
            }
        }
    }
}

/// The bytes of a run in which register `at` has become `value`.
fn split(run: Run, at: usize, value: u8) -> Vec<u8> {
    let old = |span| if run.value() == 0 { Run::zeros(span) } else { Run::Value(run.value(), span) };
    let after = run.span() - at - 1;
    let mut bytes = Vec::with_capacity(5);
    if at > 0 {
        old(at).write(&mut bytes);
    }
    Run::Value(value, 1).write(&mut bytes);
    if after > 0 {
        old(after).write(&mut bytes);
    }
    bytes
}

/// Shows every run of a sparse form with its first register.
///
/// # Errors
/// [`Corrupt`] when they are not [`REGISTERS`] in all; what lies behind these is then not shown.
fn each_run(bytes: &[u8], visit: &mut dyn FnMut(usize, Run)) -> Result<(), Corrupt> {
    let mut first = 0;
    let mut runs = Runs(&bytes[HEADER..]);
    for run in &mut runs {
        if first + run.span() > REGISTERS {
            return Err(Corrupt);
        }
        visit(first, run);
        first += run.span();
    }
    if first == REGISTERS && runs.0.is_empty() { Ok(()) } else { Err(Corrupt) }
}

/// Register `index` of a dense form.
fn register(registers: &[u8], index: usize) -> u8 {
    let (at, shift) = (index * 6 / 8, index * 6 % 8);
    let pair = u16::from(registers[at]) | u16::from(registers.get(at + 1).copied().unwrap_or(0)) << 8;
    (pair >> shift) as u8 & 0x3f
}

fn set_register(registers: &mut [u8], index: usize, value: u8) {
    let (at, shift) = (index * 6 / 8, index * 6 % 8);
    let (mask, value) = (0x3fu16 << shift, u16::from(value) << shift);
    registers[at] = registers[at] & !(mask as u8) | value as u8;
    if shift > 2 {
        registers[at + 1] = registers[at + 1] & !((mask >> 8) as u8) | (value >> 8) as u8;
    }
}

/// The count that is kept with a HyperLogLog, if it holds.
pub fn kept_count(bytes: &[u8]) -> Option<u64> {
    let count = u64::from_le_bytes(*bytes[8..].first_chunk()?);
    (count >> 63 == 0).then_some(count)
}

/// How many distinct elements were added, by the registers.
///
/// # Errors
/// [`Corrupt`].
pub fn count(bytes: &[u8]) -> Result<u64, Corrupt> {
    let mut histogram = [0; 64];
    if is_sparse(bytes) {
        each_run(bytes, &mut |_, run| histogram[usize::from(run.value())] += run.span() as u64)?;
    } else {
        (0..REGISTERS).for_each(|index| histogram[usize::from(register(&bytes[HEADER..], index))] += 1);
    }
    Ok(estimate(&histogram))
}

/// The runs of a sparse HyperLogLog as text: `z:ZEROS`, `Z:ZEROS` where two bytes say it, `v:VALUE,TIMES`. None of a dense one.
pub fn decoded(bytes: &[u8]) -> Option<String> {
    let shown = |run| match run {
        Run::Zeros(span) => format!("z:{span}"),
        Run::ManyZeros(span) => format!("Z:{span}"),
        Run::Value(value, span) => format!("v:{value},{span}"),
    };
    is_sparse(bytes).then(|| Runs(&bytes[HEADER..]).map(shown).collect::<Vec<_>>().join(" "))
}

/// The registers of several HyperLogLogs together: the greatest of each.
pub struct Union(Box<[u8; REGISTERS]>);

impl Default for Union {
    /// Of none: all zero.
    fn default() -> Union {
        Union(Box::new([0; REGISTERS]))
    }
}

impl Union {
    /// Takes in one more, which [`is_one`] has accepted.
    ///
    /// # Errors
    /// [`Corrupt`].
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), Corrupt> {
        if is_sparse(bytes) {
            return each_run(bytes, &mut |first, run| {
                let held = &mut self.0[first..first + run.span()];
                held.iter_mut().for_each(|register| *register = run.value().max(*register));
            });
        }
        for (index, held) in self.0.iter_mut().enumerate() {
            *held = register(&bytes[HEADER..], index).max(*held);
        }
        Ok(())
    }

    /// Every register, the first one first.
    pub fn registers(&self) -> &[u8; REGISTERS] {
        &self.0
    }

    /// How many distinct elements were added to all of them.
    pub fn count(&self) -> u64 {
        let mut histogram = [0; 64];
        self.0.iter().for_each(|register| histogram[usize::from(*register)] += 1);
        estimate(&histogram)
    }
}

/// The number of distinct elements that this histogram of register values stands for (H2).
fn estimate(histogram: &[u64; 64]) -> u64 {
    /// 1 / (2 ln 2)
    const ALPHA: f64 = 0.721_347_520_444_481_7;
    let all = REGISTERS as f64;
    let mut sum = all * tau((all - histogram[RUN_BITS + 1] as f64) / all);
    for value in (1..=RUN_BITS).rev() {
        sum = (sum + histogram[value] as f64) * 0.5;
    }
    sum += all * sigma(histogram[0] as f64 / all);
    (ALPHA * all * all / sum).round() as u64
}

/// Corrects for registers that are still zero.
fn sigma(share: f64) -> f64 {
    if share == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut weight, mut sum) = (share, 1.0, share);
    loop {
        power *= power;
        let before = sum;
        sum += power * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

/// Corrects for registers that cannot grow any more.
fn tau(share: f64) -> f64 {
    if share == 0.0 || share == 1.0 {
        return 0.0;
    }
    let (mut root, mut weight, mut sum) = (share, 1.0, 1.0 - share);
    loop {
        root = root.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - root).powi(2) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(elements: std::ops::Range<u64>, sparse_max: usize) -> Sketch {
        let mut sketch = Sketch::default();
        for element in elements {
            sketch.add(element.to_string().as_bytes(), sparse_max).unwrap();
        }
        sketch
    }

    #[test]
    fn registers_of_six_bits_do_not_touch_each_other() {
        let mut registers = vec![0; REGISTERS * 6 / 8];
        for index in (0..REGISTERS).rev() {
            set_register(&mut registers, index, (index * 7 % 64) as u8);
        }
        assert!((0..REGISTERS).all(|index| usize::from(register(&registers, index)) == index * 7 % 64));
    }

    #[test]
    fn sparse_and_dense_say_the_same() {
        for count in [0, 1, 2, 10, 100, 1000] {
            let (sparse, dense) = (added(0..count, 3000), added(0..count, 0));
            assert!(sparse.is_sparse() && (count == 0 || !dense.is_sparse()));
            let mut same = Sketch::of(sparse.bytes().to_vec());
            same.make_dense().unwrap();
            assert!(count == 0 || same.bytes() == dense.bytes(), "{count}");
            assert_eq!(super::count(sparse.bytes()), super::count(same.bytes()));
        }
    }

    #[test]
    fn counts_are_near_the_truth() {
        for elements in [0u64, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000] {
            let sketch = added(0..elements, 3000);
            let count = count(sketch.bytes()).unwrap();
            assert!(
                count.abs_diff(elements) as f64 <= elements as f64 * 0.03,
                "{elements} was counted as {count}"
            );
        }
    }

    #[test]
    fn a_union_counts_what_is_in_both_once() {
        let (one, two, both) = (added(0..3000, 3000), added(2000..2100, 3000), added(0..3000, 3000));
        let mut union = Union::default();
        union.take(one.bytes()).unwrap();
        union.take(two.bytes()).unwrap();
        assert_eq!(Ok(union.count()), count(both.bytes()));
    }

    #[test]
    fn a_kept_count_holds_until_a_register_grows() {
        let mut sketch = added(0..10, 3000);
        assert_eq!(kept_count(sketch.bytes()), None);
        sketch.keep_count(10);
        assert_eq!(sketch.add(b"3", 3000), Ok(false));
        assert_eq!(kept_count(sketch.bytes()), Some(10));
        assert_eq!(sketch.add(b"new", 3000), Ok(true));
        assert_eq!(kept_count(sketch.bytes()), None);
    }

    #[test]
    fn corrupt_runs_are_told_and_change_nothing() {
        let header = &Sketch::default().bytes()[..HEADER].to_vec();
        for runs in [
            &[][..],
            &[0x00],
            &[0x7f],
            &[0x7f, 0xff, 0x00],
            &[0x7f, 0xff, 0x7f, 0xff],
            &[0xff; 4000],
            &[0x40],
        ] {
            let bytes = [&header[..], runs].concat();
            assert!(is_one(&bytes));
            assert_eq!(count(&bytes), Err(Corrupt));
            assert_eq!(Union::default().take(&bytes), Err(Corrupt));
            let mut sketch = Sketch::of(bytes.clone());
            assert_eq!(sketch.make_dense(), Err(Corrupt));
            let _ = sketch.raise(REGISTERS - 1, 33, 3000);
            assert_eq!(sketch.bytes(), &bytes[..]);
        }
        assert!(
            !is_one(b"HYLL")
                && !is_one(&[b"HYLL\x02", &[0; 30][..]].concat())
                && !is_one(&[b"HYLL\x00", &[0; 30][..]].concat())
        );
    }

    #[test]
    fn any_bytes_behind_the_head_are_endured() {
        let mut state = 1u64;
        for _ in 0..2000 {
            let mut bytes = Sketch::default().bytes()[..HEADER].to_vec();
            for _ in 0..state % 40 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                bytes.push((state >> 33) as u8);
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut sketch = Sketch::of(bytes);
            let _ = (decoded(sketch.bytes()), count(sketch.bytes()), Union::default().take(sketch.bytes()));
            for element in 0..20u64 {
                let _ = sketch.add(&element.to_le_bytes(), 100);
            }
            let _ = sketch.make_dense();
        }
    }
}
