//! Reads a card: a model's head, then its tensors, one line for all layers that are alike.

use std::collections::BTreeMap;

use crate::dtype::Dtype;

/// What is wrong with a card.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CardError {
    /// The line that parts the head from the tensors is not there.
    #[error("the card has no line `---` between its head and its tensors")]
    NoTensors,
    /// A line is none of those that a card has.
    #[error("`{0}` is not a line of a card")]
    Line(String),
    /// A line names a set of layers that the card does not have.
    #[error("`{0}` is not a set of layers")]
    Set(String),
    /// A tensor's type is not known, or its first side does not fill its blocks.
    #[error("`{0}` has no size")]
    Size(String),
}

/// A model as its card tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card<'a> {
    /// The card's first line: what the model is.
    pub title: &'a str,
    /// Everything up to the tensors, without comments: keys and values for a GGUF file, `config.json` for safetensors.
    pub head: Vec<&'a str>,
    /// Every tensor, in the order of the card.
    pub tensors: Vec<Tensor>,
}

/// One tensor of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name, with its layer's number.
    pub name: String,
    /// Its sides, in the order of the file's format.
    pub shape: Vec<u64>,
    /// How its numbers are stored.
    pub dtype: Dtype,
    /// The bytes it takes.
    pub bytes: u64,
}

impl<'a> Card<'a> {
    /// Reads a card.
    pub fn read(text: &'a str) -> Result<Self, CardError> {
        let (head, tensors) = text.split_once("\n---\n").ok_or(CardError::NoTensors)?;
        let title = head.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']);
        Ok(Card { title, head: lines(head).collect(), tensors: tensors_of(tensors)? })
    }

    /// The bytes of all tensors.
    pub fn weights(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes).sum()
    }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn tensors_of(text: &str) -> Result<Vec<Tensor>, CardError> {
    let mut sets = BTreeMap::new();
    let mut tensors = Vec::new();
    for line in lines(text) {
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["set", name, layers] => {
                sets.insert(*name, layers_of(layers)?);
            }
            [name, shape @ .., dtype] if !shape.is_empty() => {
                for name in names(name, &sets)? {
                    tensors.push(tensor(name, shape, dtype)?);
                }
            }
            _ => return Err(CardError::Line(line.to_owned())),
        }
    }
    Ok(tensors)
}

/// `0-3,6,9` as numbers.
fn layers_of(text: &str) -> Result<Vec<u32>, CardError> {
    let wrong = || CardError::Set(text.to_owned());
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let mut layers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        layers.extend(number(first)?..=number(last)?);
    }
    Ok(layers)
}

/// `blk.{all}.attn_q.weight` once for each layer of the set; two sets give every pair, as experts in layers need it.
fn names(name: &str, sets: &BTreeMap<&str, Vec<u32>>) -> Result<Vec<String>, CardError> {
    let Some((before, rest)) = name.split_once('{') else { return Ok(vec![name.to_owned()]) };
    let (set, after) = rest.split_once('}').ok_or_else(|| CardError::Line(name.to_owned()))?;
    let layers = sets.get(set).ok_or_else(|| CardError::Set(set.to_owned()))?;
    let mut all = Vec::new();
    for layer in layers {
        all.extend(names(&format!("{before}{layer}{after}"), sets)?);
    }
    Ok(all)
}

fn tensor(name: String, shape: &[&str], dtype: &str) -> Result<Tensor, CardError> {
    let sides: Result<Vec<u64>, _> = shape.iter().map(|side| side.parse()).collect();
    let shape = sides.map_err(|_| CardError::Line(name.clone()))?;
    let dtype = Dtype::named(dtype).ok_or_else(|| CardError::Size(name.clone()))?;
    let bytes = dtype.size(&shape).ok_or_else(|| CardError::Size(name.clone()))?;
    Ok(Tensor { name, shape, dtype, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tensors: &str) -> Result<Vec<String>, CardError> {
        let text = format!("# A model.\na = 1\n---\n{tensors}");
        Card::read(&text).map(|card| card.tensors.into_iter().map(|tensor| tensor.name).collect())
    }

    #[test]
    fn a_line_stands_for_every_layer_of_its_set() {
        let names = read("set some 0-1,4\nblk.{some}.up 4 f32\nout 4 4 f16\n");
        assert_eq!(
            names,
            Ok(["blk.0.up", "blk.1.up", "blk.4.up", "out"].map(str::to_owned).to_vec())
        );
        let pairs = read("set l 0-1\nset e 7-8\nl.{l}.e.{e} 1 f32\n");
        assert_eq!(
            pairs,
            Ok(["l.0.e.7", "l.0.e.8", "l.1.e.7", "l.1.e.8"].map(str::to_owned).to_vec())
        );
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (line, error) in [
            ("out f32", CardError::Line("out f32".into())),
            ("out x f32", CardError::Line("out".into())),
            ("blk.{all}.up 4 f32", CardError::Set("all".into())),
            ("set all 0-x", CardError::Set("0-x".into())),
            ("out 4 f31", CardError::Size("out".into())),
            ("out 100 q4_K", CardError::Size("out".into())),
        ] {
            assert_eq!(read(line), Err(error), "{line}");
        }
        assert_eq!(Card::read("# A model.\n"), Err(CardError::NoTensors));
    }
}
