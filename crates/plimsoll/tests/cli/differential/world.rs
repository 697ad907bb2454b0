//! Random clusters as plain numbers.

use super::asks::Ask;
use super::random::Random;

/// A cluster.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) nodes: Vec<Machine>,
    /// In the order in which they were created.
    pub(super) running: Vec<Running>,
    /// In the order in which they are decided.
    pub(super) pending: Vec<Work>,
}

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) name: String,
    pub(super) source: Cards,
    /// The memory of each card or instance in MiB; `None` if nothing tells it.
    pub(super) memory: Vec<Option<u64>>,
    /// Allocatable `nvidia.com/gpu`.
    pub(super) tokens: u64,
    /// Allocatable `example.com/widget`, a resource that is not known.
    pub(super) widgets: u64,
    /// Allocatable CPU, in thousandths.
    pub(super) cpu: u64,
    /// Claims of dynamic resource allocation that are allocated here.
    pub(super) claims: Vec<Claimed>,
    /// A resource of MIG instances is left over from an earlier partitioning.
    pub(super) stale_mig: bool,
    /// A register of a form that is not read is there too.
    pub(super) unread_register: bool,
    /// A second plugin hands out the same cards.
    pub(super) second_plugin: bool,
    /// The form of HAMi's register.
    pub(super) form: RegisterForm,
}

/// The form of a register annotation of HAMi.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegisterForm {
    Json,
    /// Fields between commas, with index and mode or without.
    Fields,
    ShortFields,
}

/// The source and the sharing of a node's cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cards {
    /// HAMi's register, with this many slots a card.
    Register { slots: u64 },
    /// NVIDIA's labels, one token a card.
    Exclusive,
    /// NVIDIA's labels with time-slicing.
    Sliced { tokens: u64 },
    /// NVIDIA's labels with MPS.
    Mps { tokens: u64 },
    /// Instances of profile 1g.5gb.
    Mig,
    /// Nothing but a number in `status.capacity`.
    Uncounted { advertised: u64 },
    /// HAMi's register of Kunlun vXPUs, which have this many equal shares each.
    EqualShares { slots: u64 },
    /// Only a register of a form that is not read.
    Unread,
}

/// A claim on a card: a number of MiB, or all of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimed {
    pub(super) card: usize,
    pub(super) mib: Option<u64>,
}

/// A pod that has a node.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) node: usize,
    /// The card that HAMi's annotation names.
    pub(super) card: Option<usize>,
    pub(super) work: Work,
    /// It is being deleted.
    pub(super) ending: bool,
    /// It asks for a device by a resource that is not known.
    pub(super) unknown: bool,
    /// KAI's binder is about to bind it: it has a bind request, and no node yet.
    pub(super) binding: bool,
}

/// The requests of a pod.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) name: String,
    /// Init containers, which run one after the other before the others.
    pub(super) init: Vec<Ask>,
    pub(super) apps: Vec<Ask>,
    pub(super) widgets: u64,
    pub(super) cpu: u64,
}

impl World {
    pub(super) fn any(random: &mut Random) -> World {
        let number = random.between(1, 3);
        let nodes: Vec<Machine> = (0..number).map(|at| Machine::any(random, at)).collect();
        let mut running = Vec::new();
        for (at, machine) in nodes.iter().enumerate() {
            let mut tokens = machine.tokens;
            for _ in 0..random.between(0, machine.tenants_max().min(3)) {
                let name = format!("r{}", running.len());
                let pod = Running::any(random, at, machine, name);
                // The kubelet starts nothing without its tokens.
                let taken = pod.work.asks().map(Ask::tokens).sum();
                if let Some(left) = tokens.checked_sub(taken) {
                    tokens = left;
                    running.push(pod);
                }
            }
        }
        let number = random.between(3, 9);
        let vxpu = nodes.iter().any(|node| matches!(node.source, Cards::EqualShares { .. }));
        let pending = (0..number).map(|at| {
            let mut work = Work::any(random, format!("p{at}"));
            // Few kinds of requests meet there, and they are seldom asked for.
            if vxpu && random.one_in(2) {
                work.apps = vec![Ask::EqualShare(random.pick(&[24_576, 49_152]))];
                work.init.clear();
            }
            work
        });
        let pending = pending.collect();
        World { nodes, running, pending }
    }
}

impl Cards {
    /// Returns true if NVIDIA's labels describe the cards.
    fn has_labels(self) -> bool {
        matches!(self, Cards::Exclusive | Cards::Sliced { .. } | Cards::Mps { .. } | Cards::Mig)
    }

    /// Returns true for whole cards of NVIDIA.
    fn is_nvidia(self) -> bool {
        matches!(self, Cards::Register { .. }) || self.has_labels() && self != Cards::Mig
    }
}

impl Machine {
    fn any(random: &mut Random, at: u64) -> Machine {
        let source = match random.between(0, 11) {
            0..=2 => Cards::Register { slots: random.between(2, 4) },
            3 | 4 => Cards::Exclusive,
            5 | 6 => Cards::Sliced { tokens: random.between(2, 3) },
            7 => Cards::Mps { tokens: random.between(2, 3) },
            8 => Cards::Mig,
            9 => Cards::Uncounted { advertised: random.pick(&[1, 1, 4]) },
            10 => Cards::EqualShares { slots: 4 },
            _ => Cards::Unread,
        };
        let cards = match source {
            Cards::Uncounted { .. } => 1,
            Cards::Unread => 0,
            _ => random.between(1, 3),
        };
        let same = random.pick(&[8000, 12_000, 16_000, 24_000]);
        let memory = (0..cards).map(|_| match source {
            Cards::Register { .. } => Some(random.pick(&[8000, 16_000, 24_000])),
            Cards::Mig => Some(4864),
            Cards::Uncounted { .. } | Cards::Unread => None,
            Cards::EqualShares { .. } => Some(98_304),
            Cards::Exclusive | Cards::Sliced { .. } | Cards::Mps { .. } => Some(same),
        });
        let memory: Vec<Option<u64>> = memory.collect();
        let all = match source {
            Cards::Register { slots } | Cards::EqualShares { slots } => cards * slots,
            Cards::Exclusive => cards,
            Cards::Sliced { tokens } | Cards::Mps { tokens } => cards * tokens,
            Cards::Mig | Cards::Unread => 0,
            Cards::Uncounted { advertised } => advertised,
        };
        let short = matches!(source, Cards::Register { .. }) && random.one_in(3);
        Machine {
            name: format!("n{at}"),
            source,
            tokens: if short { all / 2 } else { all },
            widgets: random.pick(&[0, 1, 3]),
            cpu: random.pick(&[2000, 8000, 64_000]),
            claims: claims(random, source, &memory),
            stale_mig: source.has_labels() && random.one_in(5),
            unread_register: source == Cards::Unread || random.one_in(6),
            second_plugin: source.is_nvidia() && random.one_in(12),
            form: random.pick(&[
                RegisterForm::Json,
                RegisterForm::Json,
                RegisterForm::Fields,
                RegisterForm::ShortFields,
            ]),
            memory,
        }
    }

    /// Returns the number of tenants that the kubelet would start.
    fn tenants_max(&self) -> u64 {
        match self.source {
            Cards::Mig => self.memory.len() as u64,
            Cards::EqualShares { .. } | Cards::Unread => 0,
            _ => self.tokens,
        }
    }

    /// Returns true if the device plugin picks among several shared cards.
    pub(super) fn floats(&self) -> bool {
        matches!(self.source, Cards::Sliced { .. } | Cards::Mps { .. }) && self.memory.len() > 1
    }
}

/// Claims on registered cards, which have UUIDs.
fn claims(random: &mut Random, source: Cards, memory: &[Option<u64>]) -> Vec<Claimed> {
    if !matches!(source, Cards::Register { .. }) || !random.one_in(4) {
        return Vec::new();
    }
    let last = memory.len() as u64 - 1;
    let card = usize::try_from(random.between(0, last)).unwrap_or(0);
    let mib = (!random.one_in(3)).then(|| random.pick(&[1000, 3000, 7000]));
    vec![Claimed { card, mib }]
}

impl Running {
    /// Returns a pod that runs on a node. What it holds there follows from the documented rules.
    fn any(random: &mut Random, node: usize, machine: &Machine, name: String) -> Running {
        let unknown = matches!(machine.source, Cards::Register { .. }) && random.one_in(12);
        let (ask, card) = match machine.source {
            _ if unknown => (Ask::Nothing, None),
            Cards::Register { .. } => {
                let last = machine.memory.len() as u64 - 1;
                let card = usize::try_from(random.between(0, last)).unwrap_or(0);
                (Ask::hami(random, 1), Some(card))
            }
            Cards::Mig => (Ask::Instances(1), None),
            Cards::Sliced { .. } if !random.one_in(5) => {
                let cards = if machine.floats() { random.pick(&[1, 1, 1, 2]) } else { 1 };
                (Ask::ShareWithTokens { cards, mib: random.pick(&[500, 1000, 2500]) }, None)
            }
            Cards::EqualShares { .. } | Cards::Unread => (Ask::Nothing, None),
            Cards::Exclusive
            | Cards::Uncounted { .. }
            | Cards::Mps { .. }
            | Cards::Sliced { .. } => (Ask::Plain(1), None),
        };
        let mut apps = vec![ask];
        let sliced = matches!(machine.source, Cards::Sliced { .. });
        if sliced && random.one_in(4) {
            let mut share =
                || Ask::Memory { cards: 1, mib: random.pick(&[500, 1500, 3000]), cores: 0 };
            apps = vec![share(), share()];
        }
        let work = Work { name, init: Vec::new(), apps, widgets: 0, cpu: 100 };
        let ending = random.one_in(8);
        Running { node, card, work, ending, unknown, binding: !ending && random.one_in(6) }
    }
}

impl Work {
    fn any(random: &mut Random, name: String) -> Work {
        let mut init = Vec::new();
        let mut apps = vec![Ask::any(random)];
        if random.one_in(4) && !apps[0].is_annotation() && !matches!(apps[0], Ask::Instances(_)) {
            let second = Ask::hami(random, 1);
            if random.one_in(2) {
                init.push(second);
            } else {
                apps.push(second);
                apps.extend(random.one_in(3).then(|| Ask::hami(random, 1)));
            }
        }
        let widgets = if random.one_in(4) { random.between(1, 2) } else { 0 };
        Work { name, init, apps, widgets, cpu: random.pick(&[100, 500, 2000]) }
    }
}
