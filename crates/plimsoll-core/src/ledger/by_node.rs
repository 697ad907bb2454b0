//! Rows by node, in shared chunks: a clone costs one count; the first change after it copies a count for every 8 nodes, and each
//! change the rows of one chunk.

use std::sync::Arc;

use super::NodeId;

const CHUNK: usize = 8;

type Chunk<T> = [Option<T>; CHUNK];

/// At most one row for each node.
#[derive(Clone, Debug)]
pub(crate) struct ByNode<T> {
    chunks: Arc<Vec<Arc<Chunk<T>>>>,
}

impl<T> Default for ByNode<T> {
    fn default() -> Self {
        ByNode { chunks: Arc::default() }
    }
}

impl<T> ByNode<T> {
    /// The row of a node.
    pub(crate) fn get(&self, id: NodeId) -> Option<&T> {
        self.chunks.get(id.index() / CHUNK)?[id.index() % CHUNK].as_ref()
    }

    /// All rows, in no order that an answer may depend on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &T)> {
        let rows = self.chunks.iter().flat_map(|chunk| chunk.iter());
        (0..).map(NodeId::at).zip(rows).filter_map(|(id, row)| Some((id, row.as_ref()?)))
    }
}

impl<T: Clone> ByNode<T> {
    /// The row of a node, to change it.
    pub(crate) fn get_mut(&mut self, id: NodeId) -> Option<&mut T> {
        self.place(id).as_mut()
    }

    /// Replaces the row of a node, and gives back the one before it.
    pub(crate) fn set(&mut self, id: NodeId, row: Option<T>) -> Option<T> {
        std::mem::replace(self.place(id), row)
    }

    fn place(&mut self, id: NodeId) -> &mut Option<T> {
        let chunk = id.index() / CHUNK;
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunk >= chunks.len() {
            chunks.resize_with(chunk + 1, Arc::default);
        }
        &mut Arc::make_mut(&mut chunks[chunk])[id.index() % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_keeps_its_rows_whatever_becomes_of_the_others() {
        let id = NodeId::at;
        let mut rows = ByNode::default();
        assert_eq!(rows.set(id(20), Some("a")), None);
        let kept = rows.clone();
        assert_eq!(rows.set(id(20), Some("b")), Some("a"));
        *rows.get_mut(id(20)).expect("a row") = "c";
        assert_eq!(rows.set(id(3), Some("d")), None);
        assert_eq!(kept.iter().collect::<Vec<_>>(), [(id(20), &"a")]);
        assert_eq!(rows.iter().collect::<Vec<_>>(), [(id(3), &"d"), (id(20), &"c")]);
        assert_eq!((rows.get(id(4)), rows.get(id(99))), (None, None));
    }
}
