//! Rotation over decades, and what a TLS client accepts.

use super::*;

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

fn names(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn start() -> Timestamp {
    "2026-11-18T20:00:00Z".parse().expect("a time")
}

/// Steps through ten years. API servers trust what was stored half an hour ago, and replicas serve
/// what was stored up to half an hour ago: nothing that is served is ever distrusted or expired.
#[test]
fn rotation_leaves_no_gap() {
    let lag = MINUTE * 30;
    let names = names("plimsoll-guard.plimsoll.svc");
    let mut history = vec![(start(), Certificates::new(&names, start()).expect("keys"))];
    let (mut servers, mut authorities) = (0, 0);
    let mut now = start();
    while now < start() + DAY * 365 * 10 {
        let known = &history.last().expect("it begins with one").1;
        let due = known.renewed(&names, now).expect("keys");
        // A day has nothing to renew most of the time; around a change, minutes count.
        let is_calm = due.is_none() && history.last().is_some_and(|(at, _)| *at + DAY < now);
        if let Some(next) = due {
            servers += usize::from(next.server != known.server);
            authorities += usize::from(next.authorities.len() > known.authorities.len());
            history.push((now, next));
        }
        let at = |at: Timestamp| history.iter().rev().find(|(stored, _)| *stored <= at);
        for served in [at(now), at(now - lag)].into_iter().flatten() {
            for trusting in [at(now), at(now - lag)].into_iter().flatten() {
                let server = &served.1.server;
                assert!(trusting.1.trusted().contains(&server.signed_by), "at {now}");
                assert!(server.expires > now, "at {now}");
            }
        }
        now += if is_calm { DAY } else { MINUTE * 10 };
    }
    assert!(servers > 50 && authorities >= 2, "{servers} {authorities}");
    let last = &history.last().expect("it begins with one").1;
    assert_eq!(last.authorities.len(), 1, "old authorities are dropped");
}

#[test]
fn names_are_added_when_they_are_missing_and_nothing_else_is_renewed() {
    let first = Certificates::new(&names("one.example"), start()).expect("keys");
    assert_eq!(first.renewed(&names("one.example"), start() + DAY).expect("keys"), None);
    let both = first.renewed(&names("127.0.0.1"), start() + DAY).expect("keys").expect("a step");
    assert_eq!(both.server.names, names("one.example 127.0.0.1"));
    assert_eq!(both.renewed(&names("one.example"), start() + DAY).expect("keys"), None);
    assert_eq!(both.authorities, first.authorities);
}

#[test]
fn stored_certificates_are_read_back() {
    let first = Certificates::new(&names("one.example"), start()).expect("keys");
    let text = serde_json::to_string(&first).expect("JSON");
    assert_eq!(serde_json::from_str::<Certificates>(&text).expect("JSON"), first);
    // The key of a stored authority still signs.
    let later = first.renewed(&names("one.example two.example"), start() + DAY).expect("keys");
    assert!(later.is_some_and(|later| later.server.signed_by == first.server.signed_by));
}
