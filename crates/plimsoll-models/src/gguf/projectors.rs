//! The compute buffers of projectors: a table of the images that each kind takes in one pass.
//!
//! A projector has one buffer for all images. llama-server reserves it for an image of usual size
//! and enlarges it when a larger one arrives, so the charge is for the largest image that a kind
//! accepts. That is code in llama.cpp and not a key in the file, so each kind has a row, and the
//! buffers of one without a row are unknown.
//!
//! Source: `load_hparams` of `tools/mtmd` in llama.cpp of November 2026, and what its
//! `mtmd_get_memory_usage` reports for one model of each kind (`tests`).

use plimsoll_core::units::Bytes;

use super::error::GgufError;
use super::header::Header;
use super::tensor::Tensor;
use super::value::Metadata;
use crate::shape::Projector;
use crate::source::Sourced;

/// A kind of projector.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    images: Images,
    /// The hidden states that live beside the widest step of a layer.
    states: u64,
    mask: Mask,
}

/// The largest images that a kind of projector takes in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Images {
    /// This number of images with the sides of `image_size`. Larger ones are divided.
    Fixed(u64),
    /// An image of this number of tokens. Each has the patches of a square of this side, unless the
    /// file has another one.
    Tokens { largest: u64, merged: u64 },
}

/// The mask of the patches that each patch attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mask {
    None,
    /// One for windows, in 32-bit floats and converted to 16 bits.
    Windows,
}

const fn kind(name: &'static str, images: Images, states: u64, mask: Mask) -> Kind {
    Kind { name, images, states, mask }
}

const fn tokens(largest: u64, merged: u64) -> Images {
    Images::Tokens { largest, merged }
}

const KINDS: &[Kind] = &[
    kind("mlp", Images::Fixed(1), 3, Mask::None),
    kind("gemma3", Images::Fixed(1), 3, Mask::None),
    kind("idefics3", Images::Fixed(1), 3, Mask::None),
    // Up to 1024 tokens of several images are computed together.
    kind("internvl", Images::Fixed(4), 3, Mask::None),
    kind("kimivl", tokens(1024, 2), 5, Mask::None),
    kind("pixtral", tokens(1024, 1), 8, Mask::None),
    kind("gemma4v", tokens(1120, 3), 8, Mask::None),
    kind("qwen2vl_merger", tokens(4096, 2), 3, Mask::None),
    kind("qwen2.5vl_merger", tokens(4096, 2), 3, Mask::Windows),
    kind("qwen3vl_merger", tokens(4096, 2), 3, Mask::None),
];

/// The keys with the side of the square of patches that a token has.
const MERGED: [&str; 2] = ["clip.vision.spatial_merge_size", "clip.vision.projector.scale_factor"];

/// Returns what an estimate needs of a projector besides its weights.
pub(super) fn read(parts: &[Header], metadata: &Metadata) -> Result<Projector, GgufError> {
    let name = match metadata.text("clip.projector_type")? {
        Some(name) => Some(name),
        None => metadata.text("clip.vision.projector_type")?,
    };
    let name = name.unwrap_or_default();
    if metadata.number("clip.has_audio_encoder")?.unwrap_or(0) != 0 {
        return Ok(unknown("the compute buffers of a projector for sound".to_string()));
    }
    let Some(kind) = KINDS.iter().find(|kind| kind.name == name) else {
        let missing = format!("a rule for the compute buffers of the projector {name}");
        return Ok(unknown(missing));
    };
    match Image::read(parts, metadata, kind) {
        Ok(image) => image.buffers(kind),
        Err(GgufError::MissingKey { key }) => Ok(unknown(key)),
        Err(error) => Err(error),
    }
}

fn unknown(missing: String) -> Projector {
    Projector { compute: Sourced::unknown(missing), ..Projector::default() }
}

/// The numbers of a vision model, for the largest images.
struct Image {
    patches: u64,
    width: u64,
    /// The elements of the widest step of a network.
    network: u64,
    heads: u64,
    /// The width of the last matrices, for each patch.
    projection: u64,
    /// The results that some layers hand to the text model, for each patch.
    deep: u64,
}

impl Image {
    fn read(parts: &[Header], metadata: &Metadata, kind: &Kind) -> Result<Image, GgufError> {
        let require = |name: &str| {
            let key = format!("clip.vision.{name}");
            metadata.number(&key)?.ok_or(GgufError::MissingKey { key })
        };
        let merged = match kind.images {
            Images::Fixed(_) => 1,
            Images::Tokens { merged, .. } => {
                let keys = MERGED.iter().map(|key| metadata.number(key));
                let given = keys.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().next();
                given.unwrap_or(merged).max(1)
            }
        };
        let area = merged.checked_mul(merged).ok_or_else(too_large)?;
        let patches = match kind.images {
            Images::Fixed(count) => {
                let row = require("image_size")? / require("patch_size")?.max(1);
                // A vision model may have one position more than the image has patches.
                row.checked_mul(row).and_then(|patches| patches.checked_add(1)?.checked_mul(count))
            }
            Images::Tokens { largest, .. } => area.checked_mul(largest),
        };
        let has_gate = tensors(parts).any(|tensor| tensor.name.contains(".ffn_gate"));
        let network = require("feed_forward_length")?.checked_mul(if has_gate { 2 } else { 1 });
        let rows = |tensor: &Tensor| tensor.shape.get(1).copied().unwrap_or(0);
        let last = tensors(parts).filter(|tensor| tensor.name.starts_with("mm."));
        let deep = tensors(parts).filter(|tensor| tensor.name.ends_with(".fc2.weight"));
        let deep = deep.map(rows).try_fold(0, u64::checked_add).ok_or_else(too_large)?;
        let projection = last.map(rows).max().unwrap_or(0);
        // What the layers hand over is joined with the last result.
        let deep = if deep > 0 { deep.checked_add(projection).ok_or_else(too_large)? } else { 0 };
        Ok(Image {
            patches: patches.ok_or_else(too_large)?,
            width: require("embedding_length")?,
            network: network.ok_or_else(too_large)?,
            heads: require("attention.head_count")?,
            projection: projection.div_ceil(area),
            deep: deep.div_ceil(area),
        })
    }

    /// Returns the buffers of one pass in 32-bit floats: the widest step of a layer or of the last
    /// matrices, with the hidden states beside it.
    fn buffers(&self, kind: &Kind) -> Result<Projector, GgufError> {
        let elements = || {
            let layer = self.width.checked_mul(kind.states)?.checked_add(self.network)?;
            let last = self.projection.checked_add(self.width)?.checked_mul(2)?;
            layer.max(last).checked_add(self.deep)
        };
        let cells = self.patches.checked_mul(self.patches).ok_or_else(too_large)?;
        let mask = match kind.mask {
            Mask::None => Some(0),
            Mask::Windows => cells.checked_mul(6),
        };
        let floats = self.patches.checked_mul(4).ok_or_else(too_large)?;
        let bytes =
            elements().and_then(|elements| elements.checked_mul(floats)?.checked_add(mask?));
        let states = self.width.checked_mul(floats);
        let scores = cells
            .checked_mul(self.heads)
            .and_then(|scores| scores.checked_mul(4)?.checked_add(states?));
        Ok(Projector {
            compute: Sourced::computed(
                Bytes::new(bytes.ok_or_else(too_large)?),
                format!("{} patches of the largest image, width {}", self.patches, self.width),
            ),
            scores: Bytes::new(scores.ok_or_else(too_large)?),
        })
    }
}

fn tensors(parts: &[Header]) -> impl Iterator<Item = &Tensor> {
    parts.iter().flat_map(|part| &part.tensors)
}

fn too_large() -> GgufError {
    GgufError::InvalidValue {
        key: "clip.vision.embedding_length".to_string(),
        expected: "a possible size",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::sample::Sample;
    use crate::shape::Contents;

    /// The sizes of a vision model: width, network, heads, image and patch.
    type Sizes = [u32; 5];

    fn sample(kind: &str, [width, network, heads, image, patch]: Sizes) -> Sample {
        let numbers = [
            ("vision.embedding_length", width),
            ("vision.feed_forward_length", network),
            ("vision.attention.head_count", heads),
            ("vision.image_size", image),
            ("vision.patch_size", patch),
        ];
        Sample::with_numbers("clip", &numbers).text("clip.projector_type", kind)
    }

    /// The buffers for images of this number of patches.
    fn buffers(sample: &Sample, patches: u64) -> (Bytes, Bytes) {
        let header = sample.header().expect("a header");
        let kind = header.metadata.text("clip.projector_type").expect("a text");
        let kind = KINDS.iter().find(|row| Some(row.name) == kind).expect("is listed");
        let metadata = header.metadata.clone();
        let image = Image::read(&[header], &metadata, kind).expect("reads the image");
        let projector = Image { patches, ..image }.buffers(kind).expect("fits");
        (*projector.compute.get().expect("is known"), projector.scores)
    }

    /// The numbers are those of llama.cpp of November 2026 for the warm-up image, in MiB: with
    /// flash attention, and the difference without it.
    #[test]
    fn the_buffers_of_each_kind_are_a_bound_of_those_that_llama_cpp_reports() {
        let gated = |sample: Sample, width: u64, network: u64| {
            sample.tensor("v.blk.0.ffn_gate.weight", &[width, network])
        };
        let merger = |sample: Sample, from: u64, to: u64| {
            sample.tensor("mm.0.weight", &[from, from]).tensor("mm.2.weight", &[from, to])
        };
        let qwen3 = sample("qwen3vl_merger", [1152, 4304, 16, 768, 16]);
        let qwen3 = ["8", "16", "24"].iter().fold(merger(qwen3, 4608, 4096), |sample, layer| {
            sample.tensor(&format!("v.deepstack.{layer}.fc2.weight"), &[4608, 4096])
        });
        let qwen25 = sample("qwen2.5vl_merger", [1280, 3420, 16, 560, 14]);
        let pixtral = sample("pixtral", [1024, 4096, 16, 1540, 14]);
        for (sample, patches, booked, without) in [
            (sample("gemma3", [1152, 4304, 16, 896, 14]), 4096, 122, 1011),
            (
                merger(sample("qwen2vl_merger", [1280, 5120, 16, 560, 14]), 5120, 3584),
                8464,
                268,
                4332,
            ),
            (merger(gated(qwen25, 1280, 3420), 5120, 3584), 8464, 705, 4167),
            (qwen3, 8464, 373, 4398),
            (merger(gated(pixtral, 1024, 4096), 1024, 5120), 1024, 65, 22),
            (sample("idefics3", [1152, 4304, 16, 512, 16]), 1024, 31, 51),
            (sample("kimivl", [1152, 4304, 16, 896, 14]), 1024, 35, 53),
            (gated(sample("gemma4v", [1152, 4304, 16, 768, 16]), 1152, 4304), 2304, 151, 230),
            (sample("internvl", [1024, 4096, 16, 448, 14]), 1025, 28, 53),
            (merger(sample("mlp", [1024, 4096, 16, 336, 14]), 1024, 4096), 577, 22, 12),
        ] {
            let (compute, scores) = buffers(&sample, patches);
            let booked = Bytes::mib(booked).less(Bytes::mib(1));
            assert!(compute >= booked, "{compute} {booked}");
            let most = Bytes::new(booked.get() * 5 / 4);
            assert!(compute <= most, "{compute} {booked}");
            let without = booked.plus(Bytes::mib(without));
            assert!(compute.plus(scores) >= without, "{compute} {scores} {without}");
        }
    }

    #[test]
    fn the_charge_is_for_the_largest_image_and_an_unknown_kind_is_named() {
        let contents = |sample: &Sample| match sample.shape().expect("reads").contents {
            Contents::Projector(projector) => projector.compute,
            other => panic!("{other:?}"),
        };
        let qwen = sample("qwen2vl_merger", [1280, 5120, 16, 560, 14]);
        let expected = Bytes::new(4096 * 4 * 4 * (5120 + 3 * 1280));
        assert_eq!(contents(&qwen).get(), Some(&expected));
        let new = contents(&sample("new", [1280, 5120, 16, 560, 14]));
        assert!(new.source().to_string().contains("the projector new"), "{new:?}");
        let sound = qwen.number("clip.has_audio_encoder", 1);
        assert!(contents(&sound).source().to_string().contains("for sound"));
    }
}
