//! The random numbers of `math.random`: the 48-bit generator of POSIX's drand48, in the form in which Redis draws from it, so
//! that scripts draw what they would draw there.

const MULTIPLIER: u64 = 0x5_deec_e66d;
const INCREMENT: u64 = 11;
const MASK: u64 = (1 << 48) - 1;
/// A draw is 31 bits; as a fraction it is taken of this.
const DRAWS: u64 = 0x7fff_ffff;

/// Where the sequence stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drand(u64);

impl Drand {
    /// The sequence that begins with a seed of 32 bits.
    pub fn seeded(seed: u32) -> Drand {
        Drand((u64::from(seed) << 16) | 0x330e)
    }

    /// The next number, at least 0 and less than 1.
    pub fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & MASK;
        ((self.0 >> 17) % DRAWS) as f64 / DRAWS as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_those_of_redis() {
        let mut drand = Drand::seeded(7);
        let drawn: Vec<String> = (0..2).map(|_| format!("{:.14}", drand.draw())).collect();
        assert_eq!(drawn, ["0.26644419658298", "0.68203523041775"]);
    }
}
