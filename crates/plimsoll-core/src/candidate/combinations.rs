//! Combinations of positions in lexicographic order, one for each set of equal combinations.

/// Iterates over the combinations of `size` positions in lexicographic order. Positions of one
/// class are interchangeable: a combination uses a class only from its front.
///
/// Two combinations are equal if they use the same number of positions of each class. Of those, the
/// combination of the first positions of each class comes first in lexicographic order. So the
/// iterator yields exactly one representative of each, the preferred one. With `c_i` positions in
/// class `i` there are at most `Π (c_i + 1)` instead of `n choose size`: 40 equal cards have one
/// combination of 20, not 10^11.
///
/// It is a depth-first walk: `set` is the current prefix, and `from` the next position to try. Each
/// call of `next` extends the prefix or pops its last position and moves on, so that `set` only
/// grows lexicographically and the walk ends. Generating all combinations and removing duplicates
/// was rejected: it costs the full number before the first result.
pub(super) struct Combinations {
    size: usize,
    /// For each position, the previous position of its class.
    before: Vec<Option<usize>>,
    set: Vec<usize>,
    from: usize,
    done: bool,
}

impl Combinations {
    /// Creates the iterator; `classes[i]` is the first position of the class of position `i`.
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

    /// Returns the next position that can extend the prefix: enough positions follow it to complete
    /// the combination, and the previous position of its class is already in the prefix.
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
    fn combinations_come_in_lexicographic_order() {
        let sets: Vec<_> = Combinations::new(2, &[0, 1, 2]).collect();
        assert_eq!(sets, [[0, 1], [0, 2], [1, 2]]);
        assert_eq!(Combinations::new(0, &[]).count(), 1);
        assert_eq!(Combinations::new(3, &[0, 1]).count(), 0);
        assert_eq!(Combinations::new(3, &[0, 1, 2, 3, 4, 5]).count(), 20);
    }

    #[test]
    fn equal_combinations_come_once() {
        let sets: Vec<_> = Combinations::new(2, &[0, 0, 0, 3]).collect();
        assert_eq!(sets, [[0, 1], [0, 3]]);
        assert_eq!(
            Combinations::new(20, &[0; 40]).count(),
            1,
            "forty equal cards have one combination of twenty"
        );
    }
}
