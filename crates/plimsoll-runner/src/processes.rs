//! Which processes belong to which slot, as `/proc` tells it.
//!
//! A process belongs to a slot by its group, by its parent, or by the variables that the agent gave it. None of the three is enough
//! alone: a process can leave its group, outlive its parent, and write over its variables, as programs do that change their title.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal};

/// The variables that tell whose a process is.
pub(crate) const SLOT: &str = "PLIMSOLL_SLOT";
pub(crate) const GENERATION: &str = "PLIMSOLL_GENERATION";
pub(crate) const RUNNER: &str = "PLIMSOLL_RUNNER";
pub(crate) const MODEL: &str = "PLIMSOLL_MODEL";
pub(crate) const PORT: &str = "PLIMSOLL_PORT";
pub(crate) const STATE: &str = "PLIMSOLL_STATE";

/// A process for ever: numbers are used again, but not with the same start.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub(crate) struct ProcessId {
    pub(crate) pid: u32,
    /// When it started, in clock ticks since the machine did.
    pub(crate) start: u64,
}

/// Whose processes are looked for: two agents on one machine differ at least in where they keep their state.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) runner: String,
    pub(crate) state: String,
}

/// What a process's variables say about its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) slot: String,
    pub(crate) generation: u64,
    pub(crate) model: String,
    pub(crate) port: Option<u16>,
}

/// One process.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) id: ProcessId,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    /// Whether it has ended and only waits to be collected.
    pub(crate) is_dead: bool,
    pub(crate) tag: Option<Tag>,
}

/// All processes at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census {
    processes: BTreeMap<u32, Seen>,
}

impl Census {
    /// Looks at every process.
    pub(crate) fn take(owner: &Owner) -> io::Result<Census> {
        let own = std::process::id();
        let mut processes = BTreeMap::new();
        for entry in fs::read_dir("/proc")? {
            let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // Processes come and go while the list is read: one that cannot be read is one that is gone.
            if let Some(mut seen) = look(pid) {
                if pid != own {
                    seen.tag = tag(pid, owner);
                }
                processes.insert(pid, seen);
            }
        }
        Ok(Census { processes })
    }

    /// The process of that number, dead or alive.
    pub(crate) fn get(&self, pid: u32) -> Option<&Seen> {
        self.processes.get(&pid)
    }

    /// The tagged processes that live.
    pub(crate) fn tagged(&self) -> impl Iterator<Item = (&Seen, &Tag)> {
        self.processes
            .values()
            .filter(|seen| !seen.is_dead)
            .filter_map(|seen| Some((seen, seen.tag.as_ref()?)))
    }

    /// The living processes of a slot: `known` ones, its leader's group, those tagged with it, and all their children.
    pub(crate) fn members(
        &self,
        slot: &str,
        leader: Option<ProcessId>,
        known: &BTreeSet<ProcessId>,
    ) -> BTreeSet<ProcessId> {
        let group = leader.filter(|leader| self.is_group_of(*leader));
        let is_root = |seen: &Seen| {
            known.contains(&seen.id)
                || group
                    .is_some_and(|leader| seen.group == leader.pid && seen.id.start >= leader.start)
                || seen.tag.as_ref().is_some_and(|tag| tag.slot == slot)
        };
        let mut found: BTreeSet<u32> =
            self.processes.values().filter(|seen| is_root(seen)).map(|seen| seen.id.pid).collect();
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for seen in self.processes.values() {
            children.entry(seen.parent).or_default().push(seen.id.pid);
        }
        let mut next: Vec<u32> = found.iter().copied().collect();
        while let Some(pid) = next.pop() {
            let born = children.get(&pid).into_iter().flatten();
            next.extend(born.filter(|child| found.insert(**child)));
        }
        let living =
            found.iter().filter_map(|pid| self.processes.get(pid)).filter(|seen| !seen.is_dead);
        living.map(|seen| seen.id).collect()
    }

    /// Whether the group with the leader's number is still the leader's: nobody else has the number.
    fn is_group_of(&self, leader: ProcessId) -> bool {
        self.get(leader.pid).is_none_or(|seen| seen.id == leader)
    }
}

/// A living process of a slot of this runner that an agent with another state started, whatever became of that agent.
pub(crate) fn of_another_state(owner: &Owner, slot: &str) -> Option<u32> {
    let numbers = fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_it = |pid: &u32| {
        let is_of = |environment: Vec<u8>| {
            let value = |name: &str| variable(&environment, name);
            value(RUNNER).is_some_and(|runner| runner == owner.runner)
                && value(SLOT).is_some_and(|other| other == slot)
                && value(STATE).is_some_and(|state| state != owner.state)
        };
        environment(*pid).is_some_and(is_of) && look(*pid).is_some_and(|seen| !seen.is_dead)
    };
    numbers.into_iter().find(is_it)
}

/// The process of that number as it is now, without its tag.
pub(crate) fn look(pid: u32) -> Option<Seen> {
    parse_stat(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The program's name, where it can be read.
pub(crate) fn name_of(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())
}

/// The boot that process numbers and starts belong to.
pub(crate) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Sends a signal to all of a slot's processes: to the group at once, and to those that left it one by one.
pub(crate) fn signal(members: &BTreeSet<ProcessId>, leader: Option<ProcessId>, signal: Signal) {
    let in_group = |id: &&ProcessId| {
        look(id.pid).is_some_and(|s| s.id == **id && Some(s.group) == leader.map(|l| l.pid))
    };
    let group = leader.and_then(|leader| Pid::from_raw(i32::try_from(leader.pid).ok()?));
    let (inside, outside): (Vec<&ProcessId>, Vec<&ProcessId>) = members.iter().partition(in_group);
    if let Some(group) = group.filter(|_| !inside.is_empty()) {
        // It may have ended since it was looked at, which is what is wanted.
        let _ = rustix::process::kill_process_group(group, signal);
    }
    outside.into_iter().for_each(|id| signal_one(*id, signal));
}

/// Sends a signal to this very process: the descriptor is taken first, so that a number used again is noticed.
fn signal_one(id: ProcessId, signal: Signal) {
    let Some(pid) = i32::try_from(id.pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(descriptor) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return };
    if look(id.pid).is_some_and(|seen| seen.id == id) {
        let _ = rustix::process::pidfd_send_signal(descriptor, signal);
    }
}

fn parse_stat(pid: u32, text: &str) -> Option<Seen> {
    // The name stands in brackets and may contain anything, brackets too.
    let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let has_ended = matches!(*fields.first()?, "Z" | "X" | "x");
    // A program whose first thread ended shows as ended, while its other threads run and hold memory.
    let is_dead = has_ended && number(17)? <= 1;
    Some(Seen {
        id: ProcessId { pid, start: number(19)? },
        parent: u32::try_from(number(1)?).ok()?,
        group: u32::try_from(number(2)?).ok()?,
        is_dead,
        tag: None,
    })
}

fn tag(pid: u32, owner: &Owner) -> Option<Tag> {
    parse_tag(&environment(pid)?, owner)
}

fn environment(pid: u32) -> Option<Vec<u8>> {
    fs::read(Path::new("/proc").join(pid.to_string()).join("environ")).ok()
}

fn variable(environment: &[u8], name: &str) -> Option<String> {
    let mut variables = environment.split(|byte| *byte == 0);
    let found =
        variables.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(found).into_owned())
}

fn parse_tag(environment: &[u8], owner: &Owner) -> Option<Tag> {
    let value = |name: &str| variable(environment, name);
    let is_ours =
        value(RUNNER)? == owner.runner && value(STATE).is_none_or(|state| state == owner.state);
    is_ours.then_some(())?;
    Some(Tag {
        slot: value(SLOT)?,
        generation: value(GENERATION)?.parse().ok()?,
        model: value(MODEL).unwrap_or_default(),
        port: value(PORT).and_then(|port| port.parse().ok()),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A census of processes without groups, parents and tags.
    pub(crate) fn census(ids: &[ProcessId]) -> Census {
        let seen =
            |id: &ProcessId| Seen { id: *id, parent: 1, group: id.pid, is_dead: false, tag: None };
        Census { processes: ids.iter().map(|id| (id.pid, seen(id))).collect() }
    }

    fn owner() -> Owner {
        Owner { runner: "r".to_owned(), state: "/s".to_owned() }
    }

    fn seen(pid: u32, parent: u32, group: u32, slot: Option<&str>) -> (u32, Seen) {
        let tag = slot.map(|slot| Tag {
            slot: slot.to_owned(),
            generation: 1,
            model: String::new(),
            port: None,
        });
        (pid, Seen { id: id(pid), parent, group, is_dead: false, tag })
    }

    fn id(pid: u32) -> ProcessId {
        ProcessId { pid, start: u64::from(pid) }
    }

    fn pids(members: &BTreeSet<ProcessId>) -> Vec<u32> {
        members.iter().map(|id| id.pid).collect()
    }

    #[test]
    fn a_stat_line_is_read_whatever_the_name() {
        let line = "7 (a) (b c) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 4242 0 0";
        let read = parse_stat(7, line).expect("it is a stat line");
        assert_eq!(
            (read.id, read.parent, read.group, read.is_dead),
            (ProcessId { pid: 7, start: 4242 }, 1, 7, false)
        );
        assert!(
            !parse_stat(7, &line.replace(" S ", " Z ")).expect("still one").is_dead,
            "its threads live"
        );
        let alone = line.replace(" S ", " Z ").replace(" 20 0 3 ", " 20 0 1 ");
        assert!(parse_stat(7, &alone).expect("still one").is_dead);
        assert!(["", "7", "7 (a", "7 (a) S 1"].iter().all(|text| parse_stat(7, text).is_none()));
    }

    #[test]
    fn variables_tell_the_slot_to_its_own_agent_only() {
        let text = "A=1\0PLIMSOLL_RUNNER=r\0PLIMSOLL_SLOT=s\0PLIMSOLL_GENERATION=3\0PLIMSOLL_PORT=81\0PLIMSOLL_STATE=/s\0";
        let read = |text: &str| parse_tag(text.as_bytes(), &owner());
        let expected =
            Tag { slot: "s".to_owned(), generation: 3, model: String::new(), port: Some(81) };
        assert_eq!(read(text), Some(expected));
        assert_eq!(read(&text.replace("RUNNER=r", "RUNNER=other")), None);
        assert_eq!(read(&text.replace("=/s", "=/elsewhere")), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn members_are_found_by_group_by_parent_by_variables_and_by_memory() {
        let processes = [
            seen(10, 1, 10, None),
            seen(11, 10, 10, None),
            seen(12, 11, 12, None),
            seen(13, 1, 13, Some("s")),
            seen(14, 13, 14, None),
            seen(15, 1, 15, None),
            seen(16, 1, 16, None),
            seen(17, 1, 17, Some("other")),
        ];
        let census = Census { processes: processes.into_iter().collect() };
        let known = BTreeSet::from([id(15)]);
        assert_eq!(pids(&census.members("s", Some(id(10)), &known)), [10, 11, 12, 13, 14, 15]);
        assert_eq!(pids(&census.members("s", None, &BTreeSet::new())), [13, 14]);
    }

    #[test]
    fn a_number_that_is_used_again_is_somebody_else() {
        let census = Census {
            processes: [seen(10, 1, 10, None), seen(11, 10, 10, None)].into_iter().collect(),
        };
        let earlier = ProcessId { pid: 10, start: 3 };
        assert!(census.members("s", Some(earlier), &BTreeSet::from([earlier])).is_empty());
    }

    #[test]
    fn the_group_outlives_its_leader() {
        let census = Census { processes: [seen(11, 1, 10, None)].into_iter().collect() };
        assert_eq!(pids(&census.members("s", Some(id(10)), &BTreeSet::new())), [11]);
    }

    #[test]
    fn this_process_is_in_the_census() {
        let census = Census::take(&owner()).expect("/proc can be read");
        let own = census.get(std::process::id()).expect("it runs");
        assert!(!own.is_dead && own.tag.is_none());
    }
}
