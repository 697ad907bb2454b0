//! The name, quantisation and size by which people know a GGUF model.

use super::error::GgufError;
use super::header::Header;
use super::tensor::{self, Tensor};
use super::value::Metadata;
use crate::shape::Identity;

/// Reads what the header says about the model as a whole. Nothing of it affects an estimate.
pub fn read(parts: &[Header]) -> Result<Identity, GgufError> {
    let Some(first) = parts.first() else { return Ok(Identity::default()) };
    let tensors = || parts.iter().flat_map(|part| &part.tensors);
    let elements = |tensor: &Tensor| tensor.shape.iter().try_fold(1, multiply);
    let parameters = tensors()
        .try_fold(0_u64, |sum, tensor| elements(tensor).and_then(|count| sum.checked_add(count)));
    Ok(Identity {
        name: name(&first.metadata)?,
        quantisation: match declared_quantisation(&first.metadata)? {
            Some(name) => Some(name),
            None => largest_type(tensors()),
        }
        .map(str::to_string),
        parameters: parameters.filter(|count| *count > 0),
    })
}

fn multiply(product: u64, length: &u64) -> Option<u64> {
    product.checked_mul(*length)
}

/// Returns `general.name`, or the base name with its size.
fn name(metadata: &Metadata) -> Result<Option<String>, GgufError> {
    if let Some(name) = metadata.text("general.name")? {
        return Ok(Some(name.to_string()));
    }
    let base = metadata.text("general.basename")?;
    let size = metadata.text("general.size_label")?;
    Ok(base.map(|base| [Some(base), size].into_iter().flatten().collect::<Vec<_>>().join(" ")))
}

fn declared_quantisation(metadata: &Metadata) -> Result<Option<&'static str>, GgufError> {
    let number = metadata.number("general.file_type")?;
    let row = |number: u64| FILE_TYPES.iter().find(|(known, _)| *known == number);
    Ok(number.and_then(row).map(|(_, name)| *name))
}

/// Returns the type that most of the tensor data has.
fn largest_type<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> Option<&'static str> {
    let mut bytes = std::collections::BTreeMap::<u32, u128>::new();
    for tensor in tensors {
        *bytes.entry(tensor.kind).or_default() += u128::from(tensor.bytes.get());
    }
    let (kind, _) = bytes.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    tensor::name(kind)
}

/// The numbers of `enum llama_ftype`, with the names under which quantised files are published.
const FILE_TYPES: &[(u64, &str)] = &[
    (0, "F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (3, "Q4_1"),
    (7, "Q8_0"),
    (8, "Q5_0"),
    (9, "Q5_1"),
    (10, "Q2_K"),
    (11, "Q3_K_S"),
    (12, "Q3_K_M"),
    (13, "Q3_K_L"),
    (14, "Q4_K_S"),
    (15, "Q4_K_M"),
    (16, "Q5_K_S"),
    (17, "Q5_K_M"),
    (18, "Q6_K"),
    (19, "IQ2_XXS"),
    (20, "IQ2_XS"),
    (21, "Q2_K_S"),
    (22, "IQ3_XS"),
    (23, "IQ3_XXS"),
    (24, "IQ1_S"),
    (25, "IQ4_NL"),
    (26, "IQ3_S"),
    (27, "IQ3_M"),
    (28, "IQ2_S"),
    (29, "IQ2_M"),
    (30, "IQ4_XS"),
    (31, "IQ1_M"),
    (32, "BF16"),
    (36, "TQ1_0"),
    (37, "TQ2_0"),
    (38, "MXFP4"),
    (39, "NVFP4"),
    (40, "Q1_0"),
    (41, "Q2_0"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::sample;

    fn identity(sample: &sample::Sample) -> Identity {
        sample.shape().expect("reads the model").identity
    }

    #[test]
    fn a_model_is_named_with_quantisation_and_parameters() {
        let sample =
            sample::llama().text("general.name", "Tiny Llama").number("general.file_type", 15);
        let expected = Identity {
            name: Some("Tiny Llama".to_string()),
            quantisation: Some("Q4_K_M".to_string()),
            parameters: Some(2 * 256 * 1000 + 2 * 256 * 512 + 256),
        };
        assert_eq!(identity(&sample), expected);
    }

    #[test]
    fn without_the_keys_the_name_is_composed_and_the_largest_type_counts() {
        let sample =
            sample::llama().text("general.basename", "Llama").text("general.size_label", "8B");
        let sample = sample.tensor_at("extra.weight", &[256, 64], 8, 1 << 30);
        let found = identity(&sample);
        assert_eq!(found.name.as_deref(), Some("Llama 8B"));
        assert_eq!(found.quantisation.as_deref(), Some("F16"));
        let unnamed = identity(&sample::llama().number("general.file_type", 999));
        assert_eq!((unnamed.name, unnamed.quantisation.as_deref()), (None, Some("F16")));
    }
}
