//! Arguments that name a live Kubernetes cluster.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use plimsoll_cluster::Access;

use super::{Cli, Command, Format, InputArgs};

/// The cluster to read.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ClusterArgs {
    /// Read the live cluster of this kubeconfig; nothing is written to it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Cluster")]
    kubeconfig: Option<PathBuf>,
    /// Read the live cluster of this context [default: the current context]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    context: Option<String>,
    #[arg(skip)]
    invocation: Invocation,
}

impl ClusterArgs {
    /// Returns the cluster to read; `None` if none is named.
    pub(crate) fn access(&self) -> Option<Access> {
        let is_named = self.kubeconfig.is_some() || self.context.is_some();
        let is_meant = is_named || self.invocation == Invocation::KubectlPlugin;
        is_meant
            .then(|| Access { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() })
    }
}

/// The name that the program was started by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Invocation {
    #[default]
    Plimsoll,
    /// As `kubectl plimsoll`: a command means the cluster that kubectl would use.
    KubectlPlugin,
}

impl Invocation {
    /// Recognizes the name of a kubectl plugin.
    pub(crate) fn from_program(program: Option<&std::ffi::OsStr>) -> Invocation {
        let stem = program.and_then(|program| std::path::Path::new(program).file_stem());
        match stem.and_then(std::ffi::OsStr::to_str) {
            Some("kubectl-plimsoll") => Invocation::KubectlPlugin,
            _ => Invocation::Plimsoll,
        }
    }

    /// Tells the commands that read clusters. A server that is named is meant instead.
    pub(crate) fn apply(self, cli: &mut Cli) {
        match &mut cli.command {
            Command::Simulate(args) => args.input.cluster.invocation = self,
            Command::Audit(args) => args.input.cluster.invocation = self,
            Command::Devices(args) => args.input.cluster.invocation = self,
            Command::Explain(args) if args.server.server.is_none() => {
                args.input.cluster.invocation = self;
            }
            Command::Top(args) if args.server.server.is_none() => args.cluster.invocation = self,
            _ => {}
        }
    }
}

pub(super) const DEVICES: &str = "Examples:\n  plimsoll devices --kubeconfig ~/.kube/config\n  \
kubectl plimsoll devices\n  kubectl get nodes,pods -A -o json | plimsoll devices -f - -o json\n\n\
Exit codes: 0 done; 1 a device is over its line; 2 error.";

#[derive(Args)]
pub(crate) struct DevicesArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// The output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}
