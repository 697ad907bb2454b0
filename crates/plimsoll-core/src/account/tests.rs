//! Tests of shares: validation, levels and the order of accounts.

use super::*;

fn share(guaranteed: u64, maximum: Option<u64>, weight: u32) -> Share {
    Share {
        guaranteed: Quota { memory: Some(Bytes::gib(guaranteed)), devices: None },
        maximum: Quota { memory: maximum.map(Bytes::gib), devices: None },
        weight: NonZeroU32::new(weight).expect("not zero"),
        ..Share::default()
    }
}

fn shares(rows: Vec<(&str, Share)>) -> Result<Shares, SharesError> {
    let by_name: BTreeMap<Name, Share> =
        rows.into_iter().map(|(name, share)| (name.into(), share)).collect();
    Shares::try_from(by_name)
}

fn held(gib: u64) -> Account {
    Account { bytes: Bytes::gib(gib), devices: 1, holdings: 1, undeclared: 0 }
}

#[test]
fn invalid_shares_are_rejected_with_the_field() {
    let child = |parent: &str| Share { parent: Some(parent.into()), ..share(10, None, 1) };
    let with_members = |members: &[&str]| Share {
        members: members.iter().map(|member| Name::from(*member)).collect(),
        ..Share::default()
    };
    let few_devices = Share {
        guaranteed: Quota { memory: None, devices: Some(3) },
        maximum: Quota { memory: None, devices: Some(2) },
        ..Share::default()
    };
    let at_most = Share {
        maximum: Quota { memory: Some(Bytes::gib(15)), devices: None },
        ..Share::default()
    };
    let cases = [
        (vec![("a", child("b"))], "accounts.a.parent: there is no account b"),
        (vec![("a", child("a"))], "accounts.a.parent: the account is its own parent"),
        (
            vec![("a", child("b")), ("b", child("c")), ("c", share(20, None, 1))],
            "accounts.a.parent: b has a parent itself",
        ),
        (
            vec![("a", with_members(&["m"])), ("b", with_members(&["m"]))],
            "accounts.b.members: m already counts as a",
        ),
        (
            vec![("a", with_members(&["b"])), ("b", Share::default())],
            "accounts.a.members: b already counts as b",
        ),
        (
            vec![("a", share(20, Some(10), 1))],
            "accounts.a.guaranteed.memory is 20 GiB, more than the maximum of 10 GiB",
        ),
        (
            vec![("a", few_devices)],
            "accounts.a.guaranteed.devices is 3, more than the maximum of 2",
        ),
        (
            vec![("a", child("p")), ("b", child("p")), ("p", share(15, None, 1))],
            "accounts.p.guaranteed.memory is 15 GiB, less than the 20 GiB",
        ),
        (
            vec![("a", child("p")), ("b", child("p")), ("p", at_most)],
            "accounts.p.maximum.memory is 15 GiB, less than the 20 GiB",
        ),
    ];
    for (rows, expected) in cases {
        let problem = shares(rows).expect_err(expected).to_string();
        assert!(problem.starts_with(expected), "{problem}");
    }
}

#[test]
fn accounts_below_their_guarantee_come_first_then_by_weighted_borrowing() {
    let all = shares(vec![("a", share(40, None, 1)), ("b", share(80, None, 4))]).expect("valid");
    let ordered = [
        all.standing("a", held(0)),
        all.standing("b", held(30)),
        all.standing("a", held(20)),
        all.standing("b", held(60)),
        all.standing("a", held(40)),
        all.standing("a", held(41)),
        all.standing("b", held(88)),
        all.standing("other", held(3)),
    ];
    assert!(ordered.is_sorted(), "{ordered:?}");
    assert_eq!(all.standing("a", held(40)), all.standing("other", held(0)), "both borrow nothing");
    assert_eq!(all.standing("b", held(84)), all.standing("a", held(41)), "4 of weight 4, 1 of 1");
}

#[test]
fn a_parent_covers_its_accounts_and_their_members() {
    let team = Share {
        parent: Some("dept".into()),
        members: vec!["m1".into(), "m2".into()],
        ..share(10, None, 1)
    };
    let all = shares(vec![("team", team), ("dept", Share::default())]).expect("valid");
    let member = Name::from("m2");
    let levels = all.levels(&member);
    assert_eq!((&**levels.top, &**levels.account), ("dept", "team"));
    let row = |name: &Name| if name.starts_with('m') { held(4) } else { Account::default() };
    assert_eq!(all.usage(&"dept".into(), row).bytes, Bytes::gib(8));
    assert_eq!(all.guaranteed("dept").memory, Some(Bytes::gib(10)), "what its accounts have");
    let rows: BTreeMap<Name, Share> = all.clone().into();
    assert_eq!(Shares::try_from(rows).expect("valid"), all);
}
