//! Sets of positions in a fixed order, where positions that are alike stand for each other.

/// Sets of `size` positions in lexicographic order; of positions of one class only the first ones are used, so that
/// nothing is spent on sets that are alike.
pub(super) struct Combinations {
    size: usize,
    /// For each position, the one before it in its class.
    before: Vec<Option<usize>>,
    set: Vec<usize>,
    /// The first position to try next.
    from: usize,
    done: bool,
}

impl Combinations {
    /// Sets of `size` of these positions; `classes[i]` is the first position that is like position `i`.
    pub(super) fn new(size: usize, classes: &[usize]) -> Self {
        let before = |at: usize| (0..at).rev().find(|&other| classes[other] == classes[at]);
        let done = size > classes.len();
        Combinations {
            size,
            before: (0..classes.len()).map(before).collect(),
            set: Vec::new(),
            from: 0,
            done,
        }
    }

    /// The next position from `from` on whose class is used from its front.
    fn candidate(&self) -> Option<usize> {
        let last = (self.before.len() + self.set.len()).checked_sub(self.size)?;
        (self.from..=last.min(self.before.len().checked_sub(1)?))
            .find(|&at| self.before[at].is_none_or(|before| self.set.contains(&before)))
    }
}

impl Iterator for Combinations {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        while !self.done {
            if self.set.len() == self.size {
                let set = self.set.clone();
                match self.set.pop() {
                    Some(last) => self.from = last + 1,
                    None => self.done = true,
                }
                return Some(set);
            }
            match self.candidate() {
                Some(at) => {
                    self.set.push(at);
                    self.from = at + 1;
                }
                None => match self.set.pop() {
                    Some(last) => self.from = last + 1,
                    None => self.done = true,
                },
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sets_come_in_order() {
        let sets: Vec<_> = Combinations::new(2, &[0, 1, 2]).collect();
        assert_eq!(sets, [[0, 1], [0, 2], [1, 2]]);
        assert_eq!(Combinations::new(0, &[]).count(), 1);
        assert_eq!(Combinations::new(3, &[0, 1]).count(), 0);
        assert_eq!(Combinations::new(3, &[0, 1, 2, 3, 4, 5]).count(), 20);
    }

    #[test]
    fn positions_that_are_alike_stand_for_each_other() {
        let sets: Vec<_> = Combinations::new(2, &[0, 0, 0, 3]).collect();
        assert_eq!(sets, [[0, 1], [0, 3]]);
        assert_eq!(
            Combinations::new(20, &[0; 40]).count(),
            1,
            "forty alike cards are one set of twenty"
        );
    }
}
