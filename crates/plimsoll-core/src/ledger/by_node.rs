//! A copy-on-write array of rows by node, in chunks of 8.
//!
//! Decisions keep the rows they read, so that cloning must cost nothing: a clone is one reference
//! count. The first change after a clone copies one pointer per chunk, and each change the 8 rows
//! of one chunk. With one `Arc` per row that first change would touch every node of the fleet; with
//! one `Vec` for all rows it would copy the fleet. A persistent tree was rejected: judging iterates
//! over all rows, and chunks keep that close to a plain array.

use std::sync::Arc;

use super::NodeId;

const CHUNK: usize = 8;

type Chunk<T> = [Option<T>; CHUNK];

/// At most one row per node.
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
    /// Returns the row of a node.
    pub(crate) fn get(&self, id: NodeId) -> Option<&T> {
        self.chunks.get(id.index() / CHUNK)?[id.index() % CHUNK].as_ref()
    }

    /// Iterates over all rows by id. No answer may depend on this order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &T)> {
        let rows = self.chunks.iter().flat_map(|chunk| chunk.iter());
        (0..).map(NodeId::at).zip(rows).filter_map(|(id, row)| Some((id, row.as_ref()?)))
    }
}

impl<T: Clone> ByNode<T> {
    /// Returns the row of a node for changing it; copies its chunk if a clone shares it.
    pub(crate) fn get_mut(&mut self, id: NodeId) -> Option<&mut T> {
        self.row_mut(id).as_mut()
    }

    /// Replaces the row of a node and returns the previous one.
    pub(crate) fn set(&mut self, id: NodeId, row: Option<T>) -> Option<T> {
        std::mem::replace(self.row_mut(id), row)
    }

    fn row_mut(&mut self, id: NodeId) -> &mut Option<T> {
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
    fn a_clone_keeps_its_rows_when_the_original_changes() {
        let id = NodeId::at;
        let mut rows = ByNode::default();
        assert_eq!(rows.set(id(20), Some("a")), None);
        let kept = rows.clone();
        assert_eq!(rows.set(id(20), Some("b")), Some("a"));
        *rows.get_mut(id(20)).expect("a row") = "c";
        assert_eq!(rows.set(id(3), Some("d")), None);
        assert_eq!(kept.iter().collect::<Vec<_>>(), [(id(20), &"a")]);
        assert_eq!(rows.iter().collect::<Vec<_>>(), [(id(3), &"d"), (id(20), &"c")]);
        assert_eq!(rows.get(id(4)), None);
        assert_eq!(rows.get(id(99)), None);
    }
}
