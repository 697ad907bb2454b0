//! The kinds of cache that layers keep, as the rows of the table of architectures name them.

/// The caches of an architecture's layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Keys and values of all tokens in all layers.
    Full,
    /// No cache: an encoder or diffusion model that processes its whole input at once.
    NoCache,
    /// One compressed vector per token if the file has the MLA lengths, else keys and values.
    Latent(Indexer),
    /// Like `Latent`, with vectors of another length in the layers with a window.
    LatentWindowed,
    /// Keys and values of all tokens, and a key for an indexer in all layers but the leading dense
    /// ones.
    Indexed,
    /// Keys of a window, and compressed keys of all tokens.
    Compressed,
    /// Keys and values; some layers keep only those of a sliding window.
    Windowed(Width, Pattern),
    /// A state of fixed size in all layers.
    Recurrent,
    /// A state of fixed size in some layers, attention in the others.
    Hybrid(RecurrentLayers, Attention),
    /// A state of fixed size beside keys and values in every layer.
    Parallel,
    /// Keys and values of all tokens, once for each pass through the layers.
    Looped,
}

/// The layers with a key for an indexer, which selects tokens for sparse attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexer {
    None,
    Always,
    /// The layers that `attention.indexer.types` marks. Without that list, all layers of models
    /// with a context of less than a million tokens, which is how older conversions are.
    Listed,
    /// The layers that the list marks, or all. A row has a key, its gate and the key of a pool.
    Pooled,
    /// The layers that the list marks; none in a model without `attention.indexer.top_k`.
    Optional,
}

/// The attention of a hybrid's other layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    Grouped,
    /// With the window that the file has, if any.
    Windowed,
    Latent(Indexer),
}

/// The layers at the end that attend to the cache of a lower layer instead of their own: layers
/// with a window to that of the last layer but one with a cache, the others to that of the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    None,
    /// All layers after this number of them.
    After(u64),
    /// The number in `attention.shared_kv_layers`.
    LastOnes,
}

/// The width of the sliding window. The key is `attention.sliding_window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// The key, which must be present.
    Required,
    /// The key; there is no window if it is absent or 0.
    Optional,
    /// The key, or this default.
    Default(u64),
    /// This constant, unless the key is 0.
    FixedUnlessZero(u64),
    /// This constant if the key is present and not 0, else there is no window.
    FixedIfSet(u64),
    /// The key or this default in models with exactly this number of layers, else no window.
    OnlyWithLayers { layers: u64, default: u64 },
}

/// The layers that have full attention; all others have the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The last layer of each group of this size, unless the file has a list.
    LastOfEach(u64),
    /// The first layer of each group of this size, unless the file has a list.
    FirstOfEach(u64),
    /// The layers that the file lists.
    Listed,
}

/// The layers of a hybrid architecture that keep a recurrent state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecurrentLayers {
    /// Layers without KV heads.
    WithoutHeads,
    /// Layers without KV heads and without a feed-forward network. A layer with a feed-forward
    /// network keeps nothing.
    WithoutHeadsOrFeedForward,
    /// The layers that `attention.recurrent_layers` marks, else all layers except the last of each
    /// `full_attention_interval`, whose default is this.
    Interval(u64),
}
