//! Writes the tensors of a card: one line for all layers with an equal tensor.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result};

/// Returns the lines of tensors that are given as name and dimensions.
///
/// The types are those of a common quantisation: blocks of 256 weights in 4 bits and the output
/// in 6 bits where the width allows it, and vectors and small matrices in full precision.
pub(super) fn tensor_lines<'a>(tensors: impl Iterator<Item = &'a str>) -> Result<String> {
    let mut sets: BTreeMap<String, String> = BTreeMap::new();
    let mut grouped: Vec<(String, Vec<u32>)> = Vec::new();
    for tensor in tensors.filter(|tensor| is_common(tensor)) {
        let (line, layer) = parse_tensor(tensor)?;
        match grouped.iter_mut().find(|(known, _)| *known == line) {
            Some((_, layers)) => layers.extend(layer),
            None => grouped.push((line, layer.into_iter().collect())),
        }
    }
    let mut lines = String::new();
    for (line, layers) in &grouped {
        let next = format!("s{}", sets.len());
        let set = sets.entry(ranges(layers)).or_insert(next);
        writeln!(lines, "{}", line.replace("{}", &format!("{{{set}}}")))?;
    }
    let mut named: Vec<_> = sets.into_iter().filter(|(layers, _)| !layers.is_empty()).collect();
    named.sort_by_key(|(_, set)| set[1..].parse::<usize>().unwrap_or(0));
    let sets = named.iter().map(|(layers, set)| format!("set {set} {layers}\n"));
    Ok(sets.collect::<String>() + &lines)
}

/// Returns false for optional tensors that files do not have: heads of classifiers, and scales of
/// types with one scale per tensor.
fn is_common(tensor: &str) -> bool {
    let name = tensor.split(' ').next().unwrap_or_default();
    !name.ends_with("scale") && !name.starts_with("cls.")
}

/// Returns the line of a tensor with `{}` for the number of its layer, and that number.
fn parse_tensor(tensor: &str) -> Result<(String, Option<u32>)> {
    let (name, shape) = tensor.split_once(' ').context("a tensor has no dimensions")?;
    let sides: Result<Vec<u64>, _> = shape.split(' ').map(str::parse).collect();
    let sides = sides.with_context(|| format!("invalid dimensions: {tensor}"))?;
    let dtype = dtype(name, &sides);
    let rest = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    let Some((layer, rest)) = rest else { return Ok((format!("{name} {shape} {dtype}"), None)) };
    Ok((format!("blk.{{}}.{rest} {shape} {dtype}"), Some(layer.parse()?)))
}

fn dtype(name: &str, sides: &[u64]) -> &'static str {
    if name.contains("tid2eid") {
        return "i32";
    }
    let elements: u64 = sides.iter().product();
    let is_matrix = sides.len() > 1 && elements >= 1 << 16;
    if !is_matrix || name.contains("ssm_conv") || name.contains("norm") {
        return "f32";
    }
    match (sides[0] % 256, sides[0] % 32) {
        (0, _) if name.starts_with("output") => "q6_K",
        (0, _) => "q4_K",
        (_, 0) => "q8_0",
        _ => "f16",
    }
}

/// Formats layers in ascending order: `0-3,6`.
fn ranges(layers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for layer in layers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *layer => *last = *layer,
            _ => ranges.push((*layer, *layer)),
        }
    }
    let ranges = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    ranges.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_tensors_of_several_layers_are_one_line() {
        let tensors = [
            "output.weight 256 1000",
            "blk.0.up.weight 256 512",
            "blk.0.norm.weight 256",
            "blk.1.up.weight 256 512",
            "blk.3.up.weight 256 512",
            "blk.3.down.weight 96 1024",
        ];
        let lines = tensor_lines(tensors.into_iter()).expect("valid tensors");
        assert_eq!(
            lines,
            "set s1 0-1,3\nset s2 0\nset s3 3\noutput.weight 256 1000 q6_K\n\
            blk.{s1}.up.weight 256 512 q4_K\nblk.{s2}.norm.weight 256 f32\n\
            blk.{s3}.down.weight 96 1024 q8_0\n"
        );
    }
}
