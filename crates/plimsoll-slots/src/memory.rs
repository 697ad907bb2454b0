//! What a model is charged, and who says so: its declaration, else what its slots were seen to use, else its file. Nobody is
//! unknown, and unknown is not placed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use plimsoll_core::units::{Bytes, Millis, Name};
use plimsoll_models::estimate::{Estimate, estimate};
use plimsoll_models::shape::Shape;
use serde::{Deserialize, Serialize};

use crate::model::{Declaration, Model};
use crate::size::Size;
use crate::told;

/// How a model is served, as far as that decides its memory. What was measured under other settings says nothing about these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// What serves it.
    pub runtime: String,
    /// Its context length in tokens.
    pub context: Option<u64>,
    /// How its cache is stored, where it is said.
    pub kv: Option<String>,
    /// How many requests one slot serves at once.
    pub concurrency: u32,
    /// Its file.
    pub file: Option<String>,
}

impl Served {
    /// How a declaration wants its model served.
    pub fn of(declared: &Declaration) -> Self {
        Served {
            runtime: declared.runtime.key().to_string(),
            context: declared.context,
            kv: declared.kv.map(|kv| kv.0.to_string()),
            concurrency: declared.concurrency,
            file: declared.file.clone(),
        }
    }

    /// In what it differs from another, in the words of a declaration.
    fn differs(&self, other: &Served) -> Option<String> {
        let text = |value: Option<&dyn fmt::Display>| {
            value.map_or("none".to_string(), ToString::to_string)
        };
        let context =
            |of: &Served| text(of.context.as_ref().map(|context| context as &dyn fmt::Display));
        let kv = |of: &Served| of.kv.clone().unwrap_or_else(|| "none".to_string());
        let file = |of: &Served| of.file.clone().unwrap_or_else(|| "none".to_string());
        let fields = [
            ("runtime", self.runtime.clone(), other.runtime.clone()),
            ("context", context(self), context(other)),
            ("kv", kv(self), kv(other)),
            ("concurrency", self.concurrency.to_string(), other.concurrency.to_string()),
            ("file", file(self), file(other)),
        ];
        let odd = fields.into_iter().find(|(_, was, is)| was != is);
        odd.map(|(field, was, is)| {
            format!("it was measured with {field} {was}, and the model has {is} now")
        })
    }
}

/// The most that slots of a model were seen to use, split over so many GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// On each GPU.
    pub bytes: Vec<Bytes>,
    /// When it was seen.
    pub at: Millis,
    /// How the model was served then.
    pub served: Served,
}

/// What a runner found where a model's file should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// A model of this shape.
    Shape(Arc<Shape>),
    /// A file that is not understood, and why.
    Odd(String),
    /// Nothing that could be read, and why.
    Nothing(String),
}

/// Everything that is known of a model's memory besides its declaration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// What its slots were seen to use, by the number of GPUs.
    pub measured: Option<&'a BTreeMap<u16, Measured>>,
    /// What runners found where its file should be.
    pub found: Option<&'a BTreeMap<Name, Found>>,
}

/// The same, to keep.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    measured: BTreeMap<u16, Measured>,
    found: BTreeMap<Name, Found>,
}

impl From<Known<'_>> for Kept {
    fn from(known: Known<'_>) -> Kept {
        Kept {
            measured: known.measured.cloned().unwrap_or_default(),
            found: known.found.cloned().unwrap_or_default(),
        }
    }
}

impl Kept {
    /// What is kept.
    pub fn known(&self) -> Known<'_> {
        Known { measured: Some(&self.measured), found: Some(&self.found) }
    }
}

/// Who says what a model needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Its declaration.
    Declared,
    /// What its slots were seen to use.
    Measured,
    /// Its file.
    Estimated,
}

impl Source {
    /// Its name in front of people.
    pub fn name(self) -> &'static str {
        match self {
            Source::Declared => "declared",
            Source::Measured => "measured",
            Source::Estimated => "estimated",
        }
    }
}

/// What a model needs when it is split over so many GPUs, with everything that is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Over so many.
    pub gpus: u16,
    /// What it is charged on each GPU and who says so; or what is missing.
    pub charge: Result<(Source, Vec<Size>), String>,
    /// What was measured.
    pub measured: Option<Measured>,
    /// Why what was measured says nothing about the model as it is now.
    pub unfit: Option<String>,
    /// What its file says.
    pub estimated: Option<Estimate>,
    /// What a reader should know: that two of them disagree, that a file could not be understood.
    pub remarks: Vec<String>,
}

impl Need {
    /// By how much what was measured and what the file says differ, where that is more than a tenth of the larger.
    pub fn disagreement(&self) -> Option<(Bytes, Bytes)> {
        let measured = self.measured.as_ref().filter(|_| self.unfit.is_none())?;
        let measured = measured.bytes.iter().fold(Bytes::ZERO, |sum, bytes| sum.plus(*bytes));
        let estimated = self.estimated.as_ref()?.all.total?;
        let (less, more) = (measured.min(estimated), measured.max(estimated));
        (more.less(less).get() > more.get() / 10).then_some((measured, estimated))
    }
}

/// What a model needs for every size that it may have.
pub fn needs(model: &Model, known: Known<'_>) -> Vec<Need> {
    model.sizes().iter().map(|gpus| need(model, *gpus, known)).collect()
}

/// What a model needs when it is split over so many GPUs.
pub fn need(model: &Model, gpus: u16, known: Known<'_>) -> Need {
    let declared = model.declared();
    let measured = known.measured.and_then(|sizes| sizes.get(&gpus)).cloned();
    let unfit =
        measured.as_ref().and_then(|measured| measured.served.differs(&Served::of(declared)));
    let (estimated, mut remarks) = estimated(declared, gpus, known.found);
    let of_estimate = |estimate: &Estimate| -> Option<Vec<Size>> {
        estimate.gpus.iter().map(|gpu| gpu.total.map(Size)).collect()
    };
    let fit = measured.as_ref().filter(|_| unfit.is_none()); // mutant: unfit-measure
    let charge = if let Some(sizes) = model.memory_on(gpus) {
        Ok((Source::Declared, sizes))
    } else if let Some(measured) = fit {
        Ok((Source::Measured, measured.bytes.iter().copied().map(Size).collect()))
    } else if let Some(sizes) = estimated.as_ref().and_then(of_estimate) {
        Ok((Source::Estimated, sizes))
    } else {
        Err(missing(declared, estimated.as_ref(), &remarks))
    };
    let mut need = Need { gpus, charge, measured, unfit, estimated, remarks: Vec::new() };
    if let Some((measured, estimated)) = need.disagreement() {
        remarks
            .push(format!("its slots were seen to use {measured}, and its file says {estimated}"));
    }
    remarks.extend(need.unfit.clone());
    need.remarks = remarks;
    need
}

/// The largest estimate over what runners found, and what there is to say about those that are none.
fn estimated(
    declared: &Declaration,
    gpus: u16,
    found: Option<&BTreeMap<Name, Found>>,
) -> (Option<Estimate>, Vec<String>) {
    let none = told::Booked { charge: Bytes::ZERO, total: None };
    let Some((record, _)) = told::record(declared.wanted(), vec![none; usize::from(gpus)]) else {
        return (None, Vec::new());
    };
    let (mut largest, mut remarks): (Option<Estimate>, Vec<String>) = (None, Vec::new());
    for (runner, found) in found.into_iter().flatten() {
        let shape = match found {
            Found::Shape(shape) => shape,
            Found::Odd(why) => {
                remarks.push(format!("{runner} does not understand its file: {why}"));
                continue;
            }
            Found::Nothing(_) => continue,
        };
        match estimate(shape, &record.settings) {
            Ok(estimate)
                if largest.as_ref().is_none_or(|other| estimate.all.total > other.all.total) =>
            {
                largest = Some(estimate);
            }
            Ok(_) => {}
            Err(why) => remarks.push(format!("{runner} cannot estimate it: {why}")),
        }
    }
    (largest, remarks)
}

fn missing(declared: &Declaration, estimated: Option<&Estimate>, remarks: &[String]) -> String {
    let name = &declared.name;
    if let Some(field) = estimated.and_then(Estimate::missing) {
        return format!(
            "the memory of model {name}, since its file does not say {field}; declare `memory`"
        );
    }
    match (&declared.file, remarks.first()) {
        (Some(_), Some(why)) => format!("the memory of model {name}: {why}; declare `memory`"),
        (Some(file), None) => format!("the memory of model {name}, since no runner has {file}"),
        (None, _) => format!("the memory of model {name}; declare `memory`, or name its `file`"),
    }
}

#[cfg(test)]
mod tests;
