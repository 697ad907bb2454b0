//! Why a model server cannot be told what was booked: which field, which value, and what would do.

use std::fmt;

use plimsoll_core::units::Bytes;

use super::outside::Outside;
use super::reserved::Because;
use crate::settings::{KvType, KvTypes, RuntimeKind};

/// Why a record cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The runtime needs a GPU.
    NoGpu {
        /// The runtime.
        runtime: RuntimeKind,
    },
    /// The runtime takes no more GPUs than these.
    TooManyGpus {
        /// The runtime.
        runtime: RuntimeKind,
        /// What was asked.
        gpus: u64,
        /// The most that it takes.
        most: u64,
    },
    /// The GPUs do not divide the attention heads.
    Heads {
        /// What was asked.
        gpus: u64,
        /// The model's attention heads.
        heads: u64,
    },
    /// Neither do the GPUs divide the heads with keys and values, nor these the GPUs.
    KvHeads {
        /// What was asked.
        gpus: u64,
        /// The model's heads with keys and values.
        heads: u64,
    },
    /// The charge is more than the GPU has. It is not cut to what fits.
    LargerThanGpu {
        /// The charge.
        charge: Bytes,
        /// What the GPU has.
        total: Bytes,
    },
    /// What the GPU has is not known.
    UnknownGpu {
        /// Which of the booked ones, counted from 0.
        place: usize,
    },
    /// The charge leaves nothing for the model.
    NothingLeft {
        /// The charge.
        charge: Bytes,
        /// What the runtime takes outside its pool.
        outside: Outside,
    },
    /// The charge is too small a share of the GPU to be written.
    SmallShare {
        /// What is left of the charge for the pool.
        pool: Bytes,
        /// What the GPU has.
        total: Bytes,
    },
    /// The runtime has no such type of cache.
    KvType {
        /// The runtime.
        runtime: RuntimeKind,
        /// What was asked.
        kv: KvType,
    },
    /// The runtime stores keys and values alike.
    TwoKvTypes {
        /// The runtime.
        runtime: RuntimeKind,
        /// What was asked.
        kv: KvTypes,
    },
    /// Quantised values need flash attention.
    NeedsFlashAttention {
        /// What was asked.
        kv: KvType,
    },
    /// A number is outside what the runtime takes.
    OutOfRange {
        /// The field.
        field: &'static str,
        /// What was asked.
        value: u64,
        /// The least that it takes.
        least: u64,
        /// The most that it takes.
        most: u64,
    },
    /// A text cannot stand where a program or a model is expected.
    NotAWord {
        /// The field.
        field: &'static str,
        /// The text.
        word: String,
    },
    /// An argument of the user's is not the user's to give.
    Argument {
        /// As it was written.
        written: String,
        /// The flag that it is to the runtime.
        flag: String,
        /// Why not.
        because: Because,
    },
    /// A variable of the user's is not the user's to set.
    Variable {
        /// Its name.
        name: String,
        /// Why not.
        because: Because,
    },
}

impl Refusal {
    /// The field of the record, or of the declaration, that must change.
    pub fn field(&self) -> &'static str {
        match self {
            Refusal::NoGpu { .. }
            | Refusal::TooManyGpus { .. }
            | Refusal::Heads { .. }
            | Refusal::KvHeads { .. } => "gpus",
            Refusal::LargerThanGpu { .. }
            | Refusal::UnknownGpu { .. }
            | Refusal::NothingLeft { .. }
            | Refusal::SmallShare { .. } => "memory",
            Refusal::KvType { .. }
            | Refusal::TwoKvTypes { .. }
            | Refusal::NeedsFlashAttention { .. } => "kv",
            Refusal::OutOfRange { field, .. } | Refusal::NotAWord { field, .. } => field,
            Refusal::Argument { .. } => "args",
            Refusal::Variable { .. } => "env",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoGpu { runtime } => write!(f, "{runtime} needs a GPU, and 0 are booked"),
            Refusal::TooManyGpus { runtime, gpus, most } => {
                write!(f, "{gpus} GPUs are booked, and {runtime} takes at most {most}")
            }
            Refusal::Heads { gpus, heads } => {
                write!(f, "{gpus} GPUs do not divide the model's {heads} attention heads")
            }
            Refusal::KvHeads { gpus, heads } => write!(
                f,
                "{gpus} GPUs do not divide the model's {heads} heads with keys and values, nor do these divide {gpus}"
            ),
            Refusal::LargerThanGpu { charge, total } => {
                write!(f, "{charge} are booked on a GPU that has {total}")
            }
            Refusal::UnknownGpu { place } => {
                write!(
                    f,
                    "what the booked GPU {place} has is not known, and the share is a part of it"
                )
            }
            Refusal::NothingLeft { charge, outside } => write!(
                f,
                "{charge} are booked, and the runtime takes {} before it has loaded anything ({})",
                outside.bytes, outside.source
            ),
            Refusal::SmallShare { pool, total } => {
                write!(f, "{pool} are less than a ten-thousandth of a GPU with {total}")
            }
            Refusal::KvType { runtime, kv } => {
                let known = KvType::ALL.into_iter().filter(|kv| kv.is_known_to(*runtime));
                let names: Vec<_> = known.map(KvType::name).collect();
                write!(f, "{runtime} cannot store its cache as {kv}; it takes {}", names.join(", "))
            }
            Refusal::TwoKvTypes { runtime, kv } => {
                write!(f, "{runtime} stores keys and values alike, and {kv} are two types")
            }
            Refusal::NeedsFlashAttention { kv } => {
                write!(f, "values can be stored as {kv} only with flash attention")
            }
            Refusal::OutOfRange { field, value, least, most } => {
                write!(f, "{field} is {value}, and must be from {least} to {most}")
            }
            Refusal::NotAWord { field, word } => write!(
                f,
                "{field} is {word:?}; it must not be empty, begin with a dash or contain control characters"
            ),
            Refusal::Argument { written, flag, because } if written == flag => {
                write!(f, "{flag} {because}")
            }
            Refusal::Argument { written, flag, because } => {
                write!(f, "{written} means {flag}, which {because}")
            }
            Refusal::Variable { name, because } => write!(f, "{name} {because}"),
        }
    }
}
