//! Finding a pod by the name that was typed, and the names that were perhaps meant.

use anyhow::{Result, bail};
use plimsoll_core::request::RequestId;

/// Names that are offered at most.
const OFFERED: usize = 5;

/// The one pod that is called so: `namespace/name`, or the name alone where only one namespace has it.
pub(crate) fn find<'a>(wanted: &str, pods: &[&'a RequestId]) -> Result<&'a RequestId> {
    let matches = |id: &&&RequestId| match wanted.split_once('/') {
        Some((namespace, name)) => &*id.account == namespace && &*id.name == name,
        None => &*id.name == wanted,
    };
    let mut found: Vec<&'a RequestId> = pods.iter().filter(matches).copied().collect();
    found.dedup_by(|one, other| one.account == other.account && one.name == other.name);
    match found[..] {
        [one] => Ok(one),
        [] => bail!("there is no pod {wanted}{}", offer(&near(wanted, pods))),
        _ => {
            let names: Vec<String> = found.iter().map(ToString::to_string).collect();
            bail!("several pods are called {wanted}; say which: {}", names.join(", "))
        }
    }
}

fn offer(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        several => format!("; did you mean one of {}?", several.join(", ")),
    }
}

/// Names that differ by little from what was typed, the nearest first; and those that contain it.
fn near(wanted: &str, pods: &[&RequestId]) -> Vec<String> {
    let (namespace, name) =
        wanted.split_once('/').map_or((None, wanted), |(ns, name)| (Some(ns), name));
    let distance = |id: &RequestId| {
        let apart = strsim::damerau_levenshtein(&name.to_lowercase(), &id.name.to_lowercase());
        let part = !name.is_empty() && id.name.contains(name);
        let elsewhere =
            namespace.map_or(0, |ns| strsim::damerau_levenshtein(ns, &id.account).min(2));
        let close = apart <= (name.chars().count() / 3).max(2);
        (close || part).then_some(if close { apart + elsewhere } else { usize::MAX / 2 + apart })
    };
    let mut ranked: Vec<(usize, String)> =
        pods.iter().filter_map(|id| Some((distance(id)?, id.to_string()))).collect();
    ranked.sort();
    ranked.dedup();
    ranked.into_iter().take(OFFERED).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> Vec<RequestId> {
        [
            ("team-a", "trainer-0"),
            ("team-a", "trainer-1"),
            ("team-b", "trainer-0"),
            ("team-b", "web"),
        ]
        .map(|(namespace, name)| RequestId::new(namespace, name))
        .to_vec()
    }

    fn answer(wanted: &str) -> String {
        let pods = pods();
        match find(wanted, &pods.iter().collect::<Vec<_>>()) {
            Ok(found) => found.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_name_alone_is_enough_where_it_is_the_only_one() {
        assert_eq!(answer("team-a/trainer-0"), "team-a/trainer-0");
        assert_eq!(answer("web"), "team-b/web");
        assert_eq!(
            answer("trainer-0"),
            "several pods are called trainer-0; say which: team-a/trainer-0, team-b/trainer-0"
        );
    }

    #[test]
    fn near_names_are_offered_the_nearest_first() {
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
