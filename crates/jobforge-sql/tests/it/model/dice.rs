//! The dice of a run: the same seed throws the same run again.

/// A small generator with a good enough spread (an odd counter, mixed); its only virtue is that it can be replayed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn of(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) | 1)
    }

    fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        for shift in [30, 27, 31] {
            mixed = (mixed ^ (mixed >> shift)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        }
        mixed ^ (mixed >> 29)
    }

    /// A number below `most`.
    pub(crate) fn below(&mut self, most: usize) -> usize {
        let most = u64::try_from(most).expect("a size fits");
        usize::try_from(self.throw() % most).expect("below a size")
    }

    /// True this many times in a hundred.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { Some(&from[self.below(from.len())]) }
    }
}
