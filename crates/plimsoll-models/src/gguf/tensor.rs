//! Tensors as a header lists them, and the one table of how many bytes each type takes.

use std::io::{Read, Seek};

use plimsoll_core::units::Bytes;

use super::GgufError;
use super::cursor::Cursor;

/// The longest name. llama.cpp keeps 63 bytes of it.
pub const NAME_MOST: u64 = 256;

/// A tensor as a header lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its dimensions, the one that changes fastest first.
    pub shape: Vec<u64>,
    /// Its type's number.
    pub kind: u32,
    /// Where it begins, from the start of the data.
    pub offset: u64,
    /// How many bytes it takes.
    pub bytes: Bytes,
}

/// Reads one entry of the list.
pub fn read<R: Read + Seek>(from: &mut Cursor<R>, index: u64) -> Result<Tensor, GgufError> {
    let name = from.text(&format!("the name of tensor {index}"), NAME_MOST)?;
    from.keep(size_of::<Tensor>() as u64 + 32, &name)?;
    let at = from.at();
    let dimensions = from.u32(&format!("the dimensions of {name}"))?;
    if dimensions > 4 {
        let field = format!("the number of dimensions of {name}");
        return Err(GgufError::TooMuch { at, field, value: dimensions.into(), most: 4 });
    }
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        shape.push(from.u64(&format!("the shape of {name}"))?);
    }
    let kind = from.u32(&format!("the type of {name}"))?;
    let offset = from.u64(&format!("the place of {name}"))?;
    let bytes = bytes(&name, &shape, kind)?;
    Ok(Tensor { name, shape, kind, offset, bytes })
}

fn bytes(name: &str, shape: &[u64], kind: u32) -> Result<Bytes, GgufError> {
    let (block, size) =
        block(kind).ok_or_else(|| GgufError::TensorType { name: name.to_string(), kind })?;
    let wrong =
        |problem| GgufError::TensorShape { name: name.to_string(), shape: shape.to_vec(), problem };
    if shape.contains(&0) {
        return Err(wrong("has no numbers in it"));
    }
    let row = shape.first().copied().unwrap_or(1);
    if !row.is_multiple_of(block) {
        return Err(wrong("its type's blocks do not divide"));
    }
    let rows = shape.iter().skip(1).try_fold(1_u64, |product, length| product.checked_mul(*length));
    let bytes = rows.and_then(|rows| (row / block).checked_mul(size)?.checked_mul(rows));
    bytes
        .filter(|bytes| *bytes <= i64::MAX as u64)
        .map(Bytes::new)
        .ok_or_else(|| wrong("is too large"))
}

/// How many numbers stand in one block of a type, and how many bytes it has; `None` for a type that is not known or was removed.
pub const fn block(kind: u32) -> Option<(u64, u64)> {
    // The numbers and sizes are those of `enum ggml_type` and its blocks in ggml.
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
