//! Every right that lending needs, on both sides (decisions S19, S26 and S27).
//!
//! Owns the table: the lender's rules ([`grant`]) and the chart's are made of it. The syncer has a ServiceAccount of its own in the virtual
//! cluster, and one per borrower in the physical one, so none of this is a right of the other controllers. Pure, as the room
//! above: from settings to a list, no client. RBAC is the coarse half; that a patch of a node changes nothing but our two keys,
//! and that a deletion meets only what is ours, is held by admission policies beside these rules.

pub mod grant;

use topoloom_api::cluster_binding::{self, PhysicalWrites, PolicySource};
use topoloom_api::names::GROUP;
use topoloom_api::names::lending::HOST_PORT_NAMESPACE;
use topoloom_api::resource_leasing_policy;
use topoloom_core::controllers::BOTTOMUP_SYNCER;
use topoloom_sync::naming::{BindingName, borrower_lease};

use super::{Extent, Need, Right, RightScope};
use crate::cluster::Side;

/// Where the leases of nodes are.
const NODE_LEASES: &str = "kube-node-lease";
/// The namespace whose UID is the identity of a cluster, and that has the authority for clients.
const SYSTEM: &str = "kube-system";
/// The ConfigMap with the authority that signs clients of the cluster.
const AUTHENTICATION: &str = "extension-apiserver-authentication";
/// The group of leases.
const COORDINATION: &str = "coordination.k8s.io";
/// The group of CSINodes.
const STORAGE: &str = "storage.k8s.io";
/// The status of policies.
const POLICY_STATUS: &str = "resourceleasingpolicies/status";
/// How everything is watched.
const READS: [&str; 3] = ["get", "list", "watch"];

/// Whether pods are evicted by the Eviction API, which honours disruption budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evictions {
    /// They are. The right is for every pod of the cluster: admission does not see whose pod an Eviction is for.
    Allowed,
    /// They are not: a pod is deleted at the end of its deadline.
    Never,
}

/// Whether bindings may have `hostPorts: mirror`: ports that are taken on a machine are taken on its virtual node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostPorts {
    /// They may. Placeholder pods are made, in a namespace of their own that is there.
    Mirrored,
    /// They may not: no pod is ever made.
    Off,
}

/// Whether logs, exec, attach and port-forward are served for lent pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// They are.
    Served,
    /// They are not.
    Off,
}

/// Which leases there are beside those of nodes, and in which namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindingLeases {
    /// One for each binding, and one for each replica: replicas are elected.
    Elected(String),
    /// One for each binding, which no one stands for: it keeps the counter of the witness (decision S25) and the record of the
    /// binding (decision S22).
    Unelected(String),
}

/// What the rights in the virtual cluster depend on.
#[derive(Debug, Clone)]
pub struct VirtualSettings {
    /// The leases of bindings.
    pub leases: BindingLeases,
    /// Namespace and name of the ConfigMap whose annotation switches writes off.
    pub config: (String, String),
    /// How much is written.
    pub extent: Extent,
    /// Namespace and name of each Secret with a kubeconfig.
    pub secrets: Vec<(String, String)>,
    /// Where policies are.
    pub policies: PolicySource,
    /// Whether pods are evicted.
    pub evictions: Evictions,
    /// Whether host ports are mirrored.
    pub host_ports: HostPorts,
    /// Whether logs and exec are served.
    pub streams: Streams,
}

/// What the rights of one borrower in the physical cluster depend on.
#[derive(Debug, Clone)]
pub struct PhysicalSettings {
    /// The binding, as the borrower calls it.
    pub binding: BindingName,
    /// Where its pods are.
    pub mount_namespace: String,
    /// Whether nodes are labelled and claimed.
    pub writes: PhysicalWrites,
    /// Where policies are.
    pub policies: PolicySource,
    /// Whether logs and exec are served.
    pub streams: Streams,
}

/// One side of the table.
#[derive(Clone, Copy)]
struct On(Side);

impl On {
    fn cluster(self, group: &'static str, resource: &'static str, verbs: &[&'static str], why: &'static str) -> Right {
        Right {
            side: self.0,
            place: RightScope::Cluster,
            group,
            resource,
            names: Vec::new(),
            verbs: verbs.to_vec(),
            why,
            part: BOTTOMUP_SYNCER,
            need: Need::Required,
        }
    }

    fn within(
        self,
        namespace: &str,
        group: &'static str,
        resource: &'static str,
        verbs: &[&'static str],
        why: &'static str,
    ) -> Right {
        let place = RightScope::Namespace(namespace.to_owned());
        Right { place, ..self.cluster(group, resource, verbs, why) }
    }

    /// The identity of the cluster, which everything of ours carries or is compared with.
    fn identity(self) -> Right {
        let why = "the UID of this namespace is the identity of the cluster";
        let get = self.cluster("", "namespaces", &["get"], why);
        Right { names: vec![SYSTEM.to_owned()], ..get }
    }

    fn policies(self, extent: Extent) -> Vec<Right> {
        let plural = resource_leasing_policy::PLURAL;
        let mut rights = vec![self.cluster(GROUP, plural, &READS, "what is lent, and when")];
        if extent != Extent::LeasesOnly {
            let why = "whether a policy is valid and in force, and its last valid version";
            rights.push(self.cluster(GROUP, POLICY_STATUS, &["patch"], why));
        }
        rights
    }
}

impl VirtualSettings {
    /// Everything that the syncer needs in the virtual cluster.
    #[must_use]
    pub fn rights(&self) -> Vec<Right> {
        let on = On(Side::Virtual);
        let mut rights = self.leases();
        rights.push(on.identity());
        rights.extend(self.switch());
        rights.push(on.cluster(GROUP, cluster_binding::PLURAL, &READS, "the bindings"));
        rights.push(on.cluster("", "nodes", &READS, "the virtual nodes"));
        rights.push(on.cluster("", "pods", &READS, "the pods that are bound to virtual nodes"));
        rights.push(on.cluster(STORAGE, "csinodes", &READS, "which storage each virtual node reaches"));
        if self.policies == PolicySource::Virtual {
            rights.extend(on.policies(self.extent));
        }
        if self.extent != Extent::LeasesOnly {
            rights.extend(self.writes());
        }
        for (namespace, name) in &self.secrets {
            let why = "a kubeconfig that a binding names; a new one is used without a restart";
            rights.push(Right { names: vec![name.clone()], ..on.within(namespace, "", "secrets", &READS, why) });
        }
        rights.extend(self.streams());
        rights
    }

    /// All leases: of bindings and replicas, whose names hold hashes that no rule can name, and of virtual nodes.
    fn leases(&self) -> Vec<Right> {
        let on = On(Side::Virtual);
        let why = "the heartbeats of virtual nodes, also while writes are switched off";
        let beats = on.within(NODE_LEASES, COORDINATION, "leases", &["get", "list", "create", "update"], why);
        let of_bindings = match &self.leases {
            BindingLeases::Elected(namespace) => {
                let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
                let why = "which replica serves which binding, which replicas there are, the counter by which a restored cluster \
                           is found, and what is kept of bindings that are deleted by force";
                on.within(namespace, COORDINATION, "leases", &verbs, why)
            }
            BindingLeases::Unelected(namespace) => {
                let why = "the counter by which a restored cluster is found, and what is kept of bindings that are deleted by force";
                on.within(namespace, COORDINATION, "leases", &["get", "list", "create", "patch"], why)
            }
        };
        vec![beats, of_bindings]
    }

    /// Whether anything but leases is written at all.
    fn switch(&self) -> Vec<Right> {
        let (namespace, name) = &self.config;
        let config = |verbs: &[&'static str], why, need| {
            let right = On(Side::Virtual).within(namespace, "", "configmaps", verbs, why);
            Right { names: vec![name.clone()], need, ..right }
        };
        let why = "the command line inside the pod reads whether writes are switched off: preflight, status";
        vec![
            config(&["list", "watch"], "whether writes are switched off", Need::Required),
            config(&["get"], why, Need::Useful),
        ]
    }

    fn writes(&self) -> Vec<Right> {
        let on = On(Side::Virtual);
        let mut rights = vec![
            on.cluster("", "nodes", &["create", "patch", "delete"], "the virtual nodes: made, tainted, taken away"),
            on.cluster("", "nodes/status", &["patch"], "sizes, conditions, labels and annotations of virtual nodes"),
            on.cluster("", "pods", &["delete"], "pods that leave a virtual node"),
            on.cluster("", "pods/status", &["patch"], "how the physical pod is doing"),
            on.cluster(STORAGE, "csinodes", &["create", "patch", "delete"], "the CSINodes of virtual nodes"),
            on.cluster(
                GROUP,
                cluster_binding::PLURAL,
                &["patch"],
                "the finalizer of a binding, and verbs that were obeyed",
            ),
            on.cluster(GROUP, "clusterbindings/status", &["patch"], "phase and conditions of a binding"),
        ];
        if self.evictions == Evictions::Allowed {
            let why = "pods that leave a virtual node, as their disruption budgets allow; without it they are deleted at the \
                       end of their deadline";
            let evict = on.cluster("", "pods/eviction", &["create"], why);
            rights.push(Right { need: Need::Useful, ..evict });
        }
        if self.host_ports == HostPorts::Mirrored {
            let why = "the placeholder pods that hold host ports of virtual nodes, with hostPorts: mirror";
            rights.push(on.within(HOST_PORT_NAMESPACE, "", "pods", &["create"], why));
        }
        let why = "without it everything works, but no Events are sent";
        let events = on.cluster("events.k8s.io", "events", &["create", "patch"], why);
        rights.push(Right { need: Need::Useful, ..events });
        rights
    }

    fn streams(&self) -> Vec<Right> {
        if self.streams == Streams::Off {
            return Vec::new();
        }
        let on = On(Side::Virtual);
        let why = "whether a caller may use a kubelet";
        let reviews = on.cluster("authorization.k8s.io", "subjectaccessreviews", &["create"], why);
        let why = "the authority that signs clients of the cluster, where no file names another";
        let authority = on.within(SYSTEM, "", "configmaps", &READS, why);
        vec![reviews, Right { names: vec![AUTHENTICATION.to_owned()], need: Need::Useful, ..authority }]
    }
}

impl PhysicalSettings {
    /// Everything that one borrower needs in the physical cluster: no Secret, and no status of a node.
    #[must_use]
    pub fn rights(&self) -> Vec<Right> {
        let (on, mount) = (On(Side::Physical), self.mount_namespace.as_str());
        let mut rights = vec![
            on.identity(),
            on.cluster("", "nodes", &READS, "which machines are lent, and how they are doing"),
            on.cluster("", "pods", &READS, "how much of each machine is in use, and by whom"),
            on.cluster(STORAGE, "csinodes", &READS, "which storage each machine reaches"),
        ];
        if self.policies == PolicySource::Physical {
            rights.extend(on.policies(Extent::Everything));
        }
        if self.writes == PhysicalWrites::All {
            let why =
                "the claim on a lent machine and its policy in force; an admission policy allows these two keys alone";
            rights.push(on.cluster("", "nodes", &["patch"], why));
        }
        rights.push(on.within(mount, "", "pods", &["get", "delete"], "pods of the borrower that have to go"));
        let why = "the lease by which a borrower takes this namespace";
        rights.push(on.within(mount, COORDINATION, "leases", &["create"], why));
        rights.push(Right {
            names: vec![borrower_lease(&self.binding)],
            ..on.within(mount, COORDINATION, "leases", &["get", "patch", "delete"], why)
        });
        if self.streams == Streams::Served {
            rights.push(on.within(mount, "", "pods/log", &["get"], "kubectl logs of a lent pod"));
            for resource in ["pods/exec", "pods/attach", "pods/portforward"] {
                // API servers ask for the first with WebSockets, and for the second with SPDY.
                let why = "kubectl exec, attach and port-forward of a lent pod";
                rights.push(on.within(mount, "", resource, &["get", "create"], why));
            }
        }
        rights
    }
}

#[cfg(test)]
mod tests;
