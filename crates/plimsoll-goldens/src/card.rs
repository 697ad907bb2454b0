//! Parses a card: the head of a model, then its tensors, with one line for all equal layers.

use std::collections::BTreeMap;

use crate::dtype::Dtype;

/// The reason why a card is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    #[error("no line `---` between head and tensors")]
    NoTensors,
    #[error("invalid line `{0}`")]
    Line(String),
    #[error("invalid or unknown set of layers `{0}`")]
    Set(String),
    #[error("tensor `{0}` has an unknown type, or a first dimension with a partial block")]
    Size(String),
}

/// A model as its card describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card<'a> {
    /// The first line of the card: the model's name and quantisation.
    pub title: &'a str,
    /// The lines before the tensors, without comments: metadata of a GGUF file, or a
    /// `config.json`.
    pub head: Vec<&'a str>,
    pub tensors: Vec<Tensor>,
}

/// A tensor of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    pub name: String,
    /// The dimensions, in the order of the file format.
    pub shape: Vec<u64>,
    pub dtype: Dtype,
    pub bytes: u64,
}

impl<'a> Card<'a> {
    /// Parses a card.
    pub fn parse(text: &'a str) -> Result<Self, CardError> {
        let (head, tensors) = text.split_once("\n---\n").ok_or(CardError::NoTensors)?;
        let title = head.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']);
        Ok(Card { title, head: lines(head).collect(), tensors: parse_tensors(tensors)? })
    }

    /// Returns the bytes of all tensors.
    pub fn weights(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes).sum()
    }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn parse_tensors(text: &str) -> Result<Vec<Tensor>, CardError> {
    let mut sets = BTreeMap::new();
    let mut tensors = Vec::new();
    for line in lines(text) {
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["set", name, layers] => {
                sets.insert(*name, parse_layers(layers)?);
            }
            [name, shape @ .., dtype] if !shape.is_empty() => {
                for name in expand_sets(name, &sets)? {
                    tensors.push(parse_tensor(name, shape, dtype)?);
                }
            }
            _ => return Err(CardError::Line(line.to_owned())),
        }
    }
    Ok(tensors)
}

/// Parses a set of layers: `0-3,6,9`.
fn parse_layers(text: &str) -> Result<Vec<u32>, CardError> {
    let mut layers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let bounds = first.parse::<u32>().ok().zip(last.parse::<u32>().ok());
        let (first, last) = bounds.ok_or_else(|| CardError::Set(text.to_owned()))?;
        layers.extend(first..=last);
    }
    Ok(layers)
}

/// Expands `blk.{all}.attn_q.weight` to one name per layer of the set. Two sets, such as layers and
/// experts, give all pairs. It recurses once per set in the name.
fn expand_sets(name: &str, sets: &BTreeMap<&str, Vec<u32>>) -> Result<Vec<String>, CardError> {
    let Some((before, rest)) = name.split_once('{') else { return Ok(vec![name.to_owned()]) };
    let (set, after) = rest.split_once('}').ok_or_else(|| CardError::Line(name.to_owned()))?;
    let layers = sets.get(set).ok_or_else(|| CardError::Set(set.to_owned()))?;
    let mut all = Vec::new();
    for layer in layers {
        all.extend(expand_sets(&format!("{before}{layer}{after}"), sets)?);
    }
    Ok(all)
}

fn parse_tensor(name: String, shape: &[&str], dtype: &str) -> Result<Tensor, CardError> {
    let shape = shape.iter().map(|side| side.parse()).collect::<Result<Vec<u64>, _>>();
    let shape = shape.map_err(|_| CardError::Line(name.clone()))?;
    let dtype = Dtype::named(dtype).ok_or_else(|| CardError::Size(name.clone()))?;
    let bytes = dtype.size(&shape).ok_or_else(|| CardError::Size(name.clone()))?;
    Ok(Tensor { name, shape, dtype, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor_names(tensors: &str) -> Result<Vec<String>, CardError> {
        let text = format!("# A model.\na = 1\n---\n{tensors}");
        Card::parse(&text).map(|card| card.tensors.into_iter().map(|tensor| tensor.name).collect())
    }

    #[test]
    fn a_line_is_expanded_for_all_layers_of_its_set() {
        let names = tensor_names("set some 0-1,4\nblk.{some}.up 4 f32\nout 4 4 f16\n");
        assert_eq!(
            names,
            Ok(["blk.0.up", "blk.1.up", "blk.4.up", "out"].map(str::to_owned).to_vec())
        );
        let pairs = tensor_names("set l 0-1\nset e 7-8\nl.{l}.e.{e} 1 f32\n");
        assert_eq!(
            pairs,
            Ok(["l.0.e.7", "l.0.e.8", "l.1.e.7", "l.1.e.8"].map(str::to_owned).to_vec())
        );
    }

    #[test]
    fn an_invalid_line_is_named() {
        for (line, error) in [
            ("out f32", CardError::Line("out f32".into())),
            ("out x f32", CardError::Line("out".into())),
            ("blk.{all}.up 4 f32", CardError::Set("all".into())),
            ("set all 0-x", CardError::Set("0-x".into())),
            ("out 4 f31", CardError::Size("out".into())),
            ("out 100 q4_K", CardError::Size("out".into())),
        ] {
            assert_eq!(tensor_names(line), Err(error), "{line}");
        }
        assert_eq!(Card::parse("# A model.\n"), Err(CardError::NoTensors));
    }
}
