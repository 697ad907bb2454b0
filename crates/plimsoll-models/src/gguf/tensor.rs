//! Tensors as a header lists them, and the table of block sizes of the tensor types.

use std::io::{Read, Seek};

use plimsoll_core::units::Bytes;

use super::cursor::Cursor;
use super::error::{GgufError, ShapeProblem};

/// The longest tensor name, in bytes. llama.cpp keeps 63 bytes (`GGML_MAX_NAME` is 64).
pub const MAX_NAME: u64 = 256;

/// The largest number of dimensions: `GGML_MAX_DIMS`.
const MAX_DIMENSIONS: u32 = 4;

/// The bytes that one entry of the tensor list needs besides its name: the struct and the heap
/// part of `shape`.
const ENTRY_BYTES: u64 = size_of::<Tensor>() as u64 + MAX_DIMENSIONS as u64 * 8;

/// A tensor as a header lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    pub name: String,
    /// The dimensions, contiguous one first.
    pub shape: Vec<u64>,
    /// The number of the type in `enum ggml_type`.
    pub kind: u32,
    /// The position of the data, from the start of the data section.
    pub offset: u64,
    pub bytes: Bytes,
}

/// Reads one entry of the tensor list.
pub fn read<R: Read + Seek>(from: &mut Cursor<R>, index: u64) -> Result<Tensor, GgufError> {
    let name = from.text(&format!("the name of tensor {index}"), MAX_NAME)?;
    from.reserve(ENTRY_BYTES, &name)?;
    let at = from.position();
    let dimensions = from.u32(&format!("the number of dimensions of {name}"))?;
    if dimensions > MAX_DIMENSIONS {
        return Err(GgufError::LimitExceeded {
            at,
            field: format!("the number of dimensions of {name}"),
            value: dimensions.into(),
            limit: MAX_DIMENSIONS.into(),
        });
    }
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        shape.push(from.u64(&format!("the shape of {name}"))?);
    }
    let kind = from.u32(&format!("the type of {name}"))?;
    let offset = from.u64(&format!("the offset of {name}"))?;
    let (elements, size) =
        block(kind).ok_or_else(|| GgufError::TensorType { name: name.clone(), kind })?;
    match tensor_bytes(&shape, elements, size) {
        Ok(bytes) => Ok(Tensor { name, shape, kind, offset, bytes }),
        Err(problem) => Err(GgufError::TensorShape { name, shape, problem }),
    }
}

/// Returns the size of a tensor. Only the first dimension is divided into blocks.
fn tensor_bytes(shape: &[u64], elements: u64, block_bytes: u64) -> Result<Bytes, ShapeProblem> {
    if shape.contains(&0) {
        return Err(ShapeProblem::Empty);
    }
    let row = shape.first().copied().unwrap_or(1);
    if !row.is_multiple_of(elements) {
        return Err(ShapeProblem::PartialBlock);
    }
    let rows = shape.iter().skip(1).try_fold(1_u64, |product, length| product.checked_mul(*length));
    let bytes = rows.and_then(|rows| (row / elements).checked_mul(block_bytes)?.checked_mul(rows));
    let bytes = bytes.filter(|bytes| *bytes <= i64::MAX as u64);
    bytes.map(Bytes::new).ok_or(ShapeProblem::TooLarge)
}

/// A tensor type of ggml.
struct TensorType {
    /// The number in `enum ggml_type`.
    number: u32,
    name: &'static str,
    /// The elements in one block.
    elements: u64,
    /// The bytes of one block.
    bytes: u64,
}

/// Returns the number of elements in one block of a type and the bytes of that block; `None` for
/// a type that is unknown or that ggml has removed.
pub fn block(kind: u32) -> Option<(u64, u64)> {
    find_type(kind).map(|known| (known.elements, known.bytes))
}

/// Returns the name of a type; `None` like [`block`].
pub fn name(kind: u32) -> Option<&'static str> {
    find_type(kind).map(|known| known.name)
}

fn find_type(kind: u32) -> Option<&'static TensorType> {
    TYPES.iter().find(|known| known.number == kind)
}

const fn row(number: u32, name: &'static str, elements: u64, bytes: u64) -> TensorType {
    TensorType { number, name, elements, bytes }
}

/// The sizes of ggml's block structs.
const TYPES: &[TensorType] = &[
    row(0, "F32", 1, 4),
    row(1, "F16", 1, 2),
    row(2, "Q4_0", 32, 18),
    row(3, "Q4_1", 32, 20),
    row(6, "Q5_0", 32, 22),
    row(7, "Q5_1", 32, 24),
    row(8, "Q8_0", 32, 34),
    row(9, "Q8_1", 32, 36),
    row(10, "Q2_K", 256, 84),
    row(11, "Q3_K", 256, 110),
    row(12, "Q4_K", 256, 144),
    row(13, "Q5_K", 256, 176),
    row(14, "Q6_K", 256, 210),
    row(15, "Q8_K", 256, 292),
    row(16, "IQ2_XXS", 256, 66),
    row(17, "IQ2_XS", 256, 74),
    row(18, "IQ3_XXS", 256, 98),
    row(19, "IQ1_S", 256, 50),
    row(20, "IQ4_NL", 32, 18),
    row(21, "IQ3_S", 256, 110),
    row(22, "IQ2_S", 256, 82),
    row(23, "IQ4_XS", 256, 136),
    row(24, "I8", 1, 1),
    row(25, "I16", 1, 2),
    row(26, "I32", 1, 4),
    row(27, "I64", 1, 8),
    row(28, "F64", 1, 8),
    row(29, "IQ1_M", 256, 56),
    row(30, "BF16", 1, 2),
    row(34, "TQ1_0", 256, 54),
    row(35, "TQ2_0", 256, 66),
    row(39, "MXFP4", 32, 17),
    row(40, "NVFP4", 64, 36),
    row(41, "Q1_0", 128, 18),
    row(42, "Q2_0", 64, 18),
];
