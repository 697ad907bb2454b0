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

/// Returns the number of elements in one block of a type and the bytes of that block; `None` for
/// a type that is unknown or that ggml has removed.
pub const fn block(kind: u32) -> Option<(u64, u64)> {
    // Numbers from `enum ggml_type`, sizes from the block structs of ggml.
    Some(match kind {
        0 => (1, 4),      // F32
        1 => (1, 2),      // F16
        2 => (32, 18),    // Q4_0
        3 => (32, 20),    // Q4_1
        6 => (32, 22),    // Q5_0
        7 => (32, 24),    // Q5_1
        8 => (32, 34),    // Q8_0
        9 => (32, 36),    // Q8_1
        10 => (256, 84),  // Q2_K
        11 => (256, 110), // Q3_K
        12 => (256, 144), // Q4_K
        13 => (256, 176), // Q5_K
        14 => (256, 210), // Q6_K
        15 => (256, 292), // Q8_K
        16 => (256, 66),  // IQ2_XXS
        17 => (256, 74),  // IQ2_XS
        18 => (256, 98),  // IQ3_XXS
        19 => (256, 50),  // IQ1_S
        20 => (32, 18),   // IQ4_NL
        21 => (256, 110), // IQ3_S
        22 => (256, 82),  // IQ2_S
        23 => (256, 136), // IQ4_XS
        24 => (1, 1),     // I8
        25 => (1, 2),     // I16
        26 => (1, 4),     // I32
        27 => (1, 8),     // I64
        28 => (1, 8),     // F64
        29 => (256, 56),  // IQ1_M
        30 => (1, 2),     // BF16
        34 => (256, 54),  // TQ1_0
        35 => (256, 66),  // TQ2_0
        39 => (32, 17),   // MXFP4
        40 => (64, 36),   // NVFP4
        41 => (128, 18),  // Q1_0
        42 => (64, 18),   // Q2_0
        _ => return None,
    })
}
