//! Processes of this machine, read from `/proc`, and their assignment to slots.
//!
//! A process belongs to a slot by its process group, by its parent, or by the environment variables
//! that the agent set. None of the three is sufficient: a process can leave its group, outlive its
//! parent, and overwrite its environment (programs that change their title do). The agent therefore
//! takes the union, and remembers every process that it ever saw in a slot.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use procfs::ProcResult;
use procfs::process::{Process, Stat, all_processes};
use rustix::process::{Pid, PidfdFlags, Signal};

// Environment variables that the agent sets on the processes of a slot.
pub(crate) const ENV_SLOT: &str = "PLIMSOLL_SLOT";
pub(crate) const ENV_GENERATION: &str = "PLIMSOLL_GENERATION";
pub(crate) const ENV_RUNNER: &str = "PLIMSOLL_RUNNER";
pub(crate) const ENV_MODEL: &str = "PLIMSOLL_MODEL";
pub(crate) const ENV_PORT: &str = "PLIMSOLL_PORT";
pub(crate) const ENV_STATE: &str = "PLIMSOLL_STATE";

/// Identity of a process. The kernel reuses PIDs, but not with the same start time within one boot.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub(crate) struct ProcessId {
    pub(crate) pid: u32,
    /// Clock ticks since boot.
    pub(crate) start: u64,
}

/// The agent whose processes are meant. Two agents on one machine have different state directories.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) runner: String,
    pub(crate) state_dir: String,
}

/// The slot of a process, according to its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) slot: String,
    pub(crate) generation: u64,
    pub(crate) model: String,
    pub(crate) port: Option<u16>,
}

/// One process.
#[derive(Clone, Debug)]
pub(crate) struct ProcessInfo {
    pub(crate) id: ProcessId,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    /// True for a zombie: the process exited, and its parent has not collected it yet.
    pub(crate) has_exited: bool,
    pub(crate) tag: Option<Tag>,
}

/// All processes of the machine at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessTable {
    processes: BTreeMap<u32, ProcessInfo>,
}

impl ProcessTable {
    /// Reads all processes.
    pub(crate) fn read(owner: &Owner) -> ProcResult<ProcessTable> {
        let own_pid = std::process::id();
        let mut processes = BTreeMap::new();
        for process in all_processes()? {
            // Processes exit while the list is read, so that one that cannot be read counts as
            // exited.
            let Some((process, mut info)) = process.ok().and_then(with_info) else { continue };
            if info.id.pid != own_pid {
                info.tag = environment(&process).and_then(|text| parse_tag(&text, owner));
            }
            processes.insert(info.id.pid, info);
        }
        Ok(ProcessTable { processes })
    }

    /// Returns the process with this PID, running or exited.
    pub(crate) fn get(&self, pid: u32) -> Option<&ProcessInfo> {
        self.processes.get(&pid)
    }

    /// Returns true if exactly this process is running.
    pub(crate) fn is_running(&self, id: ProcessId) -> bool {
        self.get(id.pid).is_some_and(|info| info.id == id && !info.has_exited)
    }

    /// Returns the running processes whose environment names a slot of the owner.
    pub(crate) fn tagged(&self) -> impl Iterator<Item = (&ProcessInfo, &Tag)> {
        let running = self.processes.values().filter(|info| !info.has_exited);
        running.filter_map(|info| Some((info, info.tag.as_ref()?)))
    }

    /// Returns the running processes of a slot.
    ///
    /// The roots are the `known` processes, the leader's group and the processes that are tagged
    /// with the slot. A depth-first search adds all their descendants. Each process enters `found`
    /// once, so that the search ends after at most as many steps as there are processes, even if
    /// PIDs were reused while the table was read and the parent links form a cycle.
    pub(crate) fn members(
        &self,
        slot: &str,
        leader: Option<ProcessId>,
        known: &BTreeSet<ProcessId>,
    ) -> BTreeSet<ProcessId> {
        let group = leader.filter(|leader| self.owns_group(*leader));
        let roots = self.processes.values().filter(|info| {
            known.contains(&info.id)
                || group.is_some_and(|leader| is_in_group(info, leader))
                || info.tag.as_ref().is_some_and(|tag| tag.slot == slot)
        });
        let mut found: BTreeSet<u32> = roots.map(|info| info.id.pid).collect();
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for info in self.processes.values() {
            children.entry(info.parent).or_default().push(info.id.pid);
        }
        let mut pending: Vec<u32> = found.iter().copied().collect();
        while let Some(pid) = pending.pop() {
            let children = children.get(&pid).into_iter().flatten();
            pending.extend(children.filter(|child| found.insert(**child)));
        }
        let running = found.iter().filter_map(|pid| self.get(*pid)).filter(|info| !info.has_exited);
        running.map(|info| info.id).collect()
    }

    /// Returns true if the group with the leader's PID is still the leader's. It is not if another
    /// process has the PID now.
    fn owns_group(&self, leader: ProcessId) -> bool {
        self.get(leader.pid).is_none_or(|info| info.id == leader)
    }
}

fn is_in_group(info: &ProcessInfo, leader: ProcessId) -> bool {
    info.group == leader.pid && info.id.start >= leader.start
}

/// Finds a running process of a slot of this runner that was started by an agent with another state
/// directory.
pub(crate) fn find_under_other_state_dir(owner: &Owner, slot: &str) -> Option<u32> {
    let is_match = |environment: &[u8]| {
        variable(environment, ENV_RUNNER).is_some_and(|runner| runner == owner.runner)
            && variable(environment, ENV_SLOT).is_some_and(|other| other == slot)
            && variable(environment, ENV_STATE).is_some_and(|dir| dir != owner.state_dir)
    };
    let mut running = all_processes().ok()?.filter_map(|process| with_info(process.ok()?));
    let (_, info) = running.find(|(process, info)| {
        !info.has_exited && environment(process).is_some_and(|text| is_match(&text))
    })?;
    Some(info.id.pid)
}

/// Returns the process with this PID, without its tag.
pub(crate) fn process_info(pid: u32) -> Option<ProcessInfo> {
    let process = Process::new(i32::try_from(pid).ok()?).ok()?;
    with_info(process).map(|(_, info)| info)
}

/// Returns true if exactly this process is running.
pub(crate) fn is_running(id: ProcessId) -> bool {
    process_info(id.pid).is_some_and(|info| info.id == id && !info.has_exited)
}

/// Returns the name of the program that the process runs.
pub(crate) fn process_name(pid: u32) -> Option<String> {
    let process = Process::new(i32::try_from(pid).ok()?).ok()?;
    Some(process.stat().ok()?.comm)
}

/// Returns the id of the current boot. PIDs and start times are only comparable within one boot.
pub(crate) fn boot_id() -> String {
    // A kernel without the file has one boot id, the empty one: records of an earlier boot are then
    // compared by start time alone.
    procfs::sys::kernel::random::boot_id().unwrap_or_default()
}

/// Sends a signal to the processes of a slot: to the group as a whole, and to the members outside
/// of it one by one.
///
/// The group signal is atomic, so that a process that forks meanwhile does not escape. It is sent
/// only if a known member is in the group, because the kernel reuses group ids.
pub(crate) fn send_signal(
    members: &BTreeSet<ProcessId>,
    leader: Option<ProcessId>,
    signal: Signal,
) {
    let in_group = |id: &&ProcessId| {
        let info = process_info(id.pid).filter(|info| info.id == **id);
        info.is_some_and(|info| Some(info.group) == leader.map(|leader| leader.pid))
    };
    let group = leader.and_then(|leader| Pid::from_raw(i32::try_from(leader.pid).ok()?));
    let (inside, outside): (Vec<&ProcessId>, Vec<&ProcessId>) = members.iter().partition(in_group);
    if let Some(group) = group.filter(|_| !inside.is_empty()) {
        // The error means that the group exited meanwhile, which is the goal.
        let _ = rustix::process::kill_process_group(group, signal);
    }
    outside.into_iter().for_each(|id| signal_process(*id, signal));
}

/// Sends a signal to exactly this process. The pidfd is opened before the identity is checked, so
/// that a reused PID is not signalled.
fn signal_process(id: ProcessId, signal: Signal) {
    let Some(pid) = i32::try_from(id.pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(pidfd) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return };
    if process_info(id.pid).is_some_and(|info| info.id == id) {
        let _ = rustix::process::pidfd_send_signal(pidfd, signal);
    }
}

/// Reads the stat of a process. The returned handle refers to the same process even if its PID is
/// reused.
fn with_info(process: Process) -> Option<(Process, ProcessInfo)> {
    let info = info_from_stat(&process.stat().ok()?)?;
    Some((process, info))
}

fn info_from_stat(stat: &Stat) -> Option<ProcessInfo> {
    let is_zombie = matches!(stat.state, 'Z' | 'X' | 'x');
    Some(ProcessInfo {
        id: ProcessId { pid: u32::try_from(stat.pid).ok()?, start: stat.starttime },
        parent: u32::try_from(stat.ppid).ok()?,
        group: u32::try_from(stat.pgrp).ok()?,
        // A program whose first thread ended shows as a zombie while its other threads run and hold
        // memory.
        has_exited: is_zombie && stat.num_threads <= 1,
        tag: None,
    })
}

fn environment(process: &Process) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    process.open_relative("environ").ok()?.read_to_end(&mut text).ok()?;
    Some(text)
}

/// Returns the value of a variable. `Process::environ` would build a map of all variables of all
/// processes for every table.
fn variable(environment: &[u8], name: &str) -> Option<String> {
    let mut variables = environment.split(|byte| *byte == 0);
    let value =
        variables.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

fn parse_tag(environment: &[u8], owner: &Owner) -> Option<Tag> {
    let is_own_runner = variable(environment, ENV_RUNNER)? == owner.runner;
    let is_own_state =
        variable(environment, ENV_STATE).is_none_or(|state_dir| state_dir == owner.state_dir);
    (is_own_runner && is_own_state).then_some(())?;
    Some(Tag {
        slot: variable(environment, ENV_SLOT)?,
        generation: variable(environment, ENV_GENERATION)?.parse().ok()?,
        model: variable(environment, ENV_MODEL).unwrap_or_default(),
        port: variable(environment, ENV_PORT).and_then(|port| port.parse().ok()),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use procfs::FromRead;

    use super::*;

    /// A table of processes without groups, parents and tags.
    pub(crate) fn table_of(ids: &[ProcessId]) -> ProcessTable {
        let info = |id: &ProcessId| ProcessInfo {
            id: *id,
            parent: 1,
            group: id.pid,
            has_exited: false,
            tag: None,
        };
        ProcessTable { processes: ids.iter().map(|id| (id.pid, info(id))).collect() }
    }

    fn owner() -> Owner {
        Owner { runner: "r".to_owned(), state_dir: "/s".to_owned() }
    }

    fn process(pid: u32, parent: u32, group: u32, slot: Option<&str>) -> (u32, ProcessInfo) {
        let tag = slot.map(|slot| Tag {
            slot: slot.to_owned(),
            generation: 1,
            model: String::new(),
            port: None,
        });
        (pid, ProcessInfo { id: id(pid), parent, group, has_exited: false, tag })
    }

    fn id(pid: u32) -> ProcessId {
        ProcessId { pid, start: u64::from(pid) }
    }

    fn pids(members: &BTreeSet<ProcessId>) -> Vec<u32> {
        members.iter().map(|id| id.pid).collect()
    }

    fn parse_stat(text: &[u8]) -> Option<ProcessInfo> {
        info_from_stat(&Stat::from_read(text).ok()?)
    }

    #[test]
    fn stat_is_parsed_whatever_the_program_is_called() {
        let tail = " 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0";
        let line = format!("7 (a) (b c) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 4242{tail}");
        let info = parse_stat(line.as_bytes()).expect("a valid line");
        assert_eq!(
            (info.id, info.parent, info.group, info.has_exited),
            (ProcessId { pid: 7, start: 4242 }, 1, 7, false)
        );
        let zombie = line.replace(" S ", " Z ");
        let has_exited = |text: &str| parse_stat(text.as_bytes()).expect("valid").has_exited;
        assert!(!has_exited(&zombie), "other threads are running");
        assert!(has_exited(&zombie.replace(" 20 0 3 ", " 20 0 1 ")));
        let mut not_utf8 = line.clone().into_bytes();
        not_utf8[3] = 0xff;
        assert_eq!(parse_stat(&not_utf8).expect("still valid").id.pid, 7);
        assert!(["", "7", "7 (a"].iter().all(|text| parse_stat(text.as_bytes()).is_none()));
    }

    #[test]
    fn tags_are_read_by_their_own_agent_only() {
        let text = "A=1\0PLIMSOLL_RUNNER=r\0PLIMSOLL_SLOT=s\0PLIMSOLL_GENERATION=3\0\
                    PLIMSOLL_PORT=81\0PLIMSOLL_STATE=/s\0";
        let parse = |text: &str| parse_tag(text.as_bytes(), &owner());
        let expected =
            Tag { slot: "s".to_owned(), generation: 3, model: String::new(), port: Some(81) };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse(&text.replace("RUNNER=r", "RUNNER=other")), None);
        assert_eq!(parse(&text.replace("=/s", "=/elsewhere")), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn members_are_found_by_group_parent_tag_and_earlier_sighting() {
        let processes = [
            process(10, 1, 10, None),
            process(11, 10, 10, None),
            process(12, 11, 12, None),
            process(13, 1, 13, Some("s")),
            process(14, 13, 14, None),
            process(15, 1, 15, None),
            process(16, 1, 16, None),
            process(17, 1, 17, Some("other")),
        ];
        let table = ProcessTable { processes: processes.into_iter().collect() };
        let known = BTreeSet::from([id(15)]);
        assert_eq!(pids(&table.members("s", Some(id(10)), &known)), [10, 11, 12, 13, 14, 15]);
        assert_eq!(pids(&table.members("s", None, &BTreeSet::new())), [13, 14]);
    }

    #[test]
    fn a_process_with_a_reused_pid_is_not_a_member() {
        let processes = [process(10, 1, 10, None), process(11, 10, 10, None)];
        let table = ProcessTable { processes: processes.into_iter().collect() };
        let earlier = ProcessId { pid: 10, start: 3 };
        assert!(table.members("s", Some(earlier), &BTreeSet::from([earlier])).is_empty());
    }

    #[test]
    fn the_group_outlives_its_leader() {
        let processes = [process(11, 1, 10, None)];
        let table = ProcessTable { processes: processes.into_iter().collect() };
        assert_eq!(pids(&table.members("s", Some(id(10)), &BTreeSet::new())), [11]);
    }

    #[test]
    fn the_table_contains_this_process() {
        let table = ProcessTable::read(&owner()).expect("/proc is readable");
        let own = table.get(std::process::id()).expect("this process is running");
        assert!(!own.has_exited && own.tag.is_none());
        assert!(table.is_running(own.id) && is_running(own.id));
        assert!(!is_running(ProcessId { start: own.id.start + 1, ..own.id }));
        assert!(process_name(own.id.pid).is_some());
    }

    #[test]
    fn a_zombie_has_exited() {
        let mut child = std::process::Command::new("true").spawn().expect("`true` exists");
        let started = process_info(child.id()).expect("it is not collected");
        while is_running(started.id) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(process_info(child.id()).is_some_and(|info| info.has_exited));
        child.wait().expect("it exited");
        assert!(process_info(child.id()).is_none_or(|info| info.id != started.id));
    }
}
