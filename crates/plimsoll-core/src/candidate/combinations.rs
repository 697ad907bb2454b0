//! Sets of positions in a fixed order, where positions that are alike stand for each other.

/// Sets of `size` positions in lexicographic order; of positions of one class only the first ones are used.
pub(super) struct Combinations {
    size: usize,
    classes: Vec<usize>,
    next: Option<Vec<usize>>,
}

impl Combinations {
    /// Sets of `size` of these positions; `classes[i]` is the first position that is like position `i`.
    pub(super) fn new(size: usize, classes: Vec<usize>) -> Self {
        let next = (size <= classes.len()).then(|| (0..size).collect());
        Combinations { size, classes, next }
    }

    fn advance(&self, mut set: Vec<usize>) -> Option<Vec<usize>> {
        let n = self.classes.len();
        let at = (0..self.size).rev().find(|&i| set[i] < n - self.size + i)?;
        set[at] += 1;
        for i in at + 1..self.size {
            set[i] = set[i - 1] + 1;
        }
        Some(set)
    }

    /// Whether each class is used from its front.
    fn is_canonical(&self, set: &[usize]) -> bool {
        set.iter().all(|&at| {
            let earlier = (0..at).rev().find(|&other| self.classes[other] == self.classes[at]);
            earlier.is_none_or(|other| set.contains(&other))
        })
    }
}

impl Iterator for Combinations {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        loop {
            let set = self.next.take()?;
            self.next = self.advance(set.clone());
            if self.is_canonical(&set) {
                return Some(set);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sets_come_in_order() {
        let sets: Vec<_> = Combinations::new(2, vec![0, 1, 2]).collect();
        assert_eq!(sets, [[0, 1], [0, 2], [1, 2]]);
        assert_eq!(Combinations::new(0, vec![]).count(), 1);
        assert_eq!(Combinations::new(3, vec![0, 1]).count(), 0);
    }

    #[test]
    fn positions_that_are_alike_stand_for_each_other() {
        let sets: Vec<_> = Combinations::new(2, vec![0, 0, 0, 3]).collect();
        assert_eq!(sets, [[0, 1], [0, 3]]);
    }
}
