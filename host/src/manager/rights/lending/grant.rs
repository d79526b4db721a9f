//! What a lender creates for one borrower, as objects (`topoloom lend grant`; decision S19).
//!
//! Owns the names of these objects, the roles that are made of the table of rights, and the admission policy beside them
//! (`admission`). Pure: from settings to objects, no client. Never gives a right that the table above does not have.
//!
//! A grant has one ServiceAccount: one for each pair of binding and namespace. Two borrowers may call their bindings alike,
//! and have two namespaces. The account is in a namespace of its own: the namespace that is lent holds pods, and in most
//! installations the Secrets, that the borrower chooses, and each of both would be a way to its token.
//!
//! # Failure story
//!
//! What would give a borrower more than it may have is an error and no list: a namespace of Kubernetes itself, an account in
//! the namespace that is lent, and nodes that are written without an identity by which its claims are known.

mod admission;
pub mod guards;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use topoloom_api::cluster_binding::{PhysicalWrites, PolicySource};
use topoloom_api::names::{NAME, NAME_LABEL};
use topoloom_api::resource_leasing_policy;
use topoloom_api::rules::{SUBDOMAIN_MAX, is_dns_label};
use topoloom_core::names::Uid;
use topoloom_core::rules::is_label_value;
use topoloom_core::text::line;
use topoloom_sync::naming::{BindingName, borrower_lease};

use super::PhysicalSettings;
use crate::manager::rights::{Right, RightScope};

/// The namespace of the accounts of borrowers, unless the lender wants another.
pub const ACCOUNTS: &str = "topoloom-lending";
/// How the names of roles and policies begin.
const PREFIX: &str = "topoloom-lend.";
/// The same of the admission policy about the status of policies: the rest of a name may be that of another account.
const POLICIES_PREFIX: &str = "topoloom-lend-policies.";
/// How the names of namespaces begin that are of Kubernetes itself.
const RESERVED: &str = "kube-";
/// The API of roles.
const RBAC: &str = "rbac.authorization.k8s.io";
/// How much of a refused value a message repeats.
const SHOWN: usize = 80;

/// The ServiceAccount of a borrower in the physical cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What is granted, and to whom.
#[derive(Debug, Clone)]
pub struct Grant {
    settings: PhysicalSettings,
    account: Account,
    /// Whose claims it may write; `None`: it writes none.
    virtual_cluster: Option<Uid>,
}

/// Why nothing is granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// A name that no namespace has.
    #[error(
        "{flag} must be the name of a namespace: 1 to 63 lower-case letters, digits and '-', got {:?}",
        line(value, SHOWN)
    )]
    Namespace {
        /// What was read.
        flag: &'static str,
        /// What it was.
        value: String,
    },
    /// A namespace of Kubernetes itself.
    #[error(
        "{flag} is {value:?}, which is a namespace of Kubernetes itself: a borrower deletes pods where it is lent to"
    )]
    Reserved {
        /// What was read.
        flag: &'static str,
        /// What it was.
        value: String,
    },
    /// The account would be where the pods of the borrower are.
    #[error(
        "--account-namespace and --mount-namespace are both {0:?}: a pod in that namespace could use the account of the borrower"
    )]
    SameNamespace(String),
    /// The claims of the borrower would not be known.
    #[error(
        "without --virtual-cluster-id no policy can tell the claims of this borrower from those of another. In the virtual \
         cluster: kubectl get namespace kube-system -o jsonpath='{{.metadata.uid}}'"
    )]
    NoVirtualCluster,
    /// The identity cannot be part of a claim.
    #[error("--virtual-cluster-id must be 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends, got {:?}", line(.0, SHOWN))]
    VirtualCluster(String),
}

impl Account {
    /// The account of a borrower.
    ///
    /// # Errors
    /// One of the namespaces is none, or may not be used.
    pub fn of(binding: &BindingName, mount: &str, namespace: &str) -> Result<Self, GrantError> {
        for (flag, value) in [("--mount-namespace", mount), ("--account-namespace", namespace)] {
            if !is_dns_label(value) {
                return Err(GrantError::Namespace { flag, value: value.to_owned() });
            }
            if value.starts_with(RESERVED) {
                return Err(GrantError::Reserved { flag, value: value.to_owned() });
            }
        }
        if mount == namespace {
            return Err(GrantError::SameNamespace(mount.to_owned()));
        }
        // A namespace has no dot, so two pairs never give one name.
        let whole = format!("{binding}.{mount}");
        let longest = SUBDOMAIN_MAX - PREFIX.len().max(POLICIES_PREFIX.len());
        let name = if whole.len() <= longest { whole } else { format!("{}.{mount}", borrower_lease(binding)) };
        Ok(Self { namespace: namespace.to_owned(), name })
    }

    /// The name of its roles, and of the admission policy about nodes.
    #[must_use]
    pub fn role(&self) -> String {
        format!("{PREFIX}{}", self.name)
    }

    /// The name of the admission policy about the status of policies.
    fn policies_guard(&self) -> String {
        format!("{POLICIES_PREFIX}{}", self.name)
    }

    /// The name of its user in requests.
    #[must_use]
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

impl Grant {
    /// What is granted by these settings to an account in that namespace.
    ///
    /// # Errors
    /// It would be more than a borrower may have, or a name is none.
    pub fn new(
        settings: PhysicalSettings,
        account_namespace: &str,
        virtual_cluster: Option<&str>,
    ) -> Result<Self, GrantError> {
        let account = Account::of(&settings.binding, &settings.mount_namespace, account_namespace)?;
        let virtual_cluster = match (settings.writes, virtual_cluster) {
            (PhysicalWrites::None, _) => None,
            (PhysicalWrites::All, None) => return Err(GrantError::NoVirtualCluster),
            (PhysicalWrites::All, Some(id)) if id.is_empty() || is_label_value(id).is_err() => {
                return Err(GrantError::VirtualCluster(id.to_owned()));
            }
            (PhysicalWrites::All, Some(id)) => Some(id.into()),
        };
        Ok(Self { settings, account, virtual_cluster })
    }

    /// The account that gets all of it.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Every object, in an order in which they can be applied. What restricts the account comes before what it may do: where an apply
    /// breaks off, nothing is allowed without its limits.
    #[must_use]
    pub fn objects(&self) -> Vec<Value> {
        let mut objects = vec![namespace(&self.account.namespace), namespace(&self.settings.mount_namespace)];
        if self.settings.policies == PolicySource::Physical {
            objects.push(resource_leasing_policy::definition());
        }
        objects.push(json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": metadata(&self.account.name, Some(&self.account.namespace)),
            "automountServiceAccountToken": false,
        }));
        objects.extend(self.guards());
        let rights = self.settings.rights();
        let mut places: Vec<&RightScope> = rights.iter().map(|right| &right.place).collect();
        places.sort();
        places.dedup();
        for place in places {
            let rules = rights.iter().filter(|right| right.place == *place).map(rule).collect();
            objects.extend(self.role(place, rules));
        }
        objects
    }

    /// The admission policies, each with its binding.
    fn guards(&self) -> Vec<Value> {
        let (account, cluster) = (&self.account, self.virtual_cluster.as_deref());
        let mut guards = Vec::new();
        if let Some(cluster) = cluster {
            guards.extend(admission::of_nodes(account, &account.role(), cluster));
        }
        if self.settings.policies == PolicySource::Physical {
            let name = account.policies_guard();
            guards.extend(admission::of_policies(account, &name, &self.settings.binding, cluster));
        }
        guards
    }

    /// A role with these rules, and its binding to the account.
    fn role(&self, place: &RightScope, rules: Vec<Value>) -> [Value; 2] {
        let (kind, namespace) = match place {
            RightScope::Cluster => ("ClusterRole", None),
            RightScope::Namespace(namespace) => ("Role", Some(namespace.as_str())),
        };
        let (version, name) = (format!("{RBAC}/v1"), self.account.role());
        let metadata = metadata(&name, namespace);
        let Account { namespace, name: account } = &self.account;
        [
            json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules}),
            json!({
                "apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata,
                "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
            }),
        ]
    }
}

fn metadata(name: &str, namespace: Option<&str>) -> Value {
    let mut metadata = json!({"name": name, "labels": {NAME_LABEL: NAME}});
    if let (Some(namespace), Value::Object(fields)) = (namespace, &mut metadata) {
        fields.insert("namespace".to_owned(), namespace.into());
    }
    metadata
}

/// A namespace. What the lender has set on it stays: nothing is applied but its name.
fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn rule(right: &Right) -> Value {
    let mut rule = json!({"apiGroups": [right.group], "resources": [right.resource], "verbs": right.verbs});
    if let (false, Value::Object(fields)) = (right.names.is_empty(), &mut rule) {
        fields.insert("resourceNames".to_owned(), json!(right.names));
    }
    rule
}
