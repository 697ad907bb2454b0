//! Finds things by name, and suggests similar names.

use anyhow::{Result, bail};
use plimsoll_core::request::RequestId;

/// The most names to suggest.
const SUGGESTED: usize = 5;

/// Returns the index of the pod with a name: `namespace/name`, or the name alone if it is unique.
pub(crate) fn find<'a>(
    wanted: &str,
    pods: impl Iterator<Item = &'a RequestId> + Clone,
) -> Result<usize> {
    let (namespace, name) = split(wanted);
    let is_wanted = |id: &RequestId| {
        &*id.name == name && namespace.is_none_or(|namespace| &*id.account == namespace)
    };
    let mut found: Vec<(usize, &RequestId)> =
        pods.clone().enumerate().filter(|(_, id)| is_wanted(id)).collect();
    found.dedup_by(|(_, one), (_, other)| one.account == other.account && one.name == other.name);
    match found[..] {
        [(at, _)] => Ok(at),
        [] => bail!("there is no pod {wanted}{}", suggestion(&similar(wanted, pods))),
        _ => {
            let names: Vec<String> = found.iter().map(|(_, id)| id.to_string()).collect();
            bail!("several pods are named {wanted}; choose one of {}", names.join(", "))
        }
    }
}

fn split(wanted: &str) -> (Option<&str>, &str) {
    wanted.split_once('/').map_or((None, wanted), |(namespace, name)| (Some(namespace), name))
}

/// Formats a suggestion to add to an error; empty without names.
pub(crate) fn suggestion(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        several => format!("; did you mean one of {}?", several.join(", ")),
    }
}

/// Returns the names with a small edit distance, the nearest first, then those that contain it.
pub(crate) fn similar_names<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut ranked: Vec<(Similarity, String)> =
        names.filter_map(|name| Some((name_similarity(wanted, name)?, name.to_string()))).collect();
    ranked.sort();
    ranked.into_iter().take(SUGGESTED).map(|(_, name)| name).collect()
}

/// Returns the pods with similar names in the same order.
fn similar<'a>(wanted: &str, pods: impl Iterator<Item = &'a RequestId>) -> Vec<String> {
    let mut ranked: Vec<(Similarity, String)> =
        pods.filter_map(|id| Some((similarity(wanted, id)?, id.to_string()))).collect();
    ranked.sort();
    ranked.dedup();
    ranked.into_iter().take(SUGGESTED).map(|(_, name)| name).collect()
}

/// The similarity of a name, in the order of the suggestions. The numbers are edit distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Similarity {
    Misspelled(usize),
    Contains(usize),
}

fn similarity(wanted: &str, id: &RequestId) -> Option<Similarity> {
    let (namespace, name) = split(wanted);
    let elsewhere = namespace.map_or(0, |ns| strsim::damerau_levenshtein(ns, &id.account).min(2));
    Some(match name_similarity(name, &id.name)? {
        Similarity::Misspelled(apart) => Similarity::Misspelled(apart + elsewhere),
        contains => contains,
    })
}

fn name_similarity(wanted: &str, name: &str) -> Option<Similarity> {
    let apart = strsim::damerau_levenshtein(&wanted.to_lowercase(), &name.to_lowercase());
    if apart <= (wanted.chars().count() / 3).max(2) {
        return Some(Similarity::Misspelled(apart));
    }
    let is_part = !wanted.is_empty() && name.contains(wanted);
    is_part.then_some(Similarity::Contains(apart))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> [RequestId; 4] {
        [
            ("team-a", "trainer-0"),
            ("team-a", "trainer-1"),
            ("team-b", "trainer-0"),
            ("team-b", "web"),
        ]
        .map(|(namespace, name)| RequestId::new(namespace, name))
    }

    fn answer(wanted: &str) -> String {
        let pods = pods();
        match find(wanted, pods.iter()) {
            Ok(found) => pods[found].to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_name_alone_is_enough_if_it_is_unique() {
        assert_eq!(answer("team-a/trainer-0"), "team-a/trainer-0");
        assert_eq!(answer("web"), "team-b/web");
        assert_eq!(
            answer("trainer-0"),
            "several pods are named trainer-0; choose one of team-a/trainer-0, team-b/trainer-0"
        );
    }

    #[test]
    fn similar_names_are_suggested_the_nearest_first() {
        assert_eq!(answer("team-b/wbe"), "there is no pod team-b/wbe; did you mean team-b/web?");
        let wrong_namespace = answer("team-a/web");
        assert!(
            wrong_namespace.starts_with("there is no pod team-a/web; did you mean team-b/web"),
            "{wrong_namespace}"
        );
        assert!(
            answer("team-a/traxxxr-0").contains("team-a/trainer-0"),
            "three of nine letters may differ"
        );
        assert_eq!(answer("team-a/traxxxx-0"), "there is no pod team-a/traxxxx-0");
        assert_eq!(answer("nothing-like-it"), "there is no pod nothing-like-it");
        assert!(answer("team-a/trainr-0").contains("did you mean one of team-a/trainer-0,"));
    }
}
