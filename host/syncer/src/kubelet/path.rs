//! Which of the kubelet's pages a request asks for.
//!
//! Owns the paths and methods that are served, as a kubelet has them. What a path names becomes part of the path of another request,
//! so a text that cannot be such a name is refused. Never decides whether there is such a pod.

use std::fmt;

use http::Method;
use topoloom_core::rules::{LABEL_MAX, is_label_value, is_object_name};
use topoloom_core::text::line;

/// How much of a wrong name a message repeats.
const SHOWN: usize = 80;

/// What is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamVerb {
    /// The log of a container.
    Logs,
    /// A command in a container.
    Exec,
    /// The input and output of a container.
    Attach,
    /// Connections to ports of a pod.
    PortForward,
}

impl StreamVerb {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Logs, Self::Exec, Self::Attach, Self::PortForward];

    /// The word of metrics, and of people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Logs => "logs",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "port-forward",
        }
    }

    /// The first part of its path at a kubelet.
    #[must_use]
    pub fn page(self) -> &'static str {
        match self {
            Self::Logs => "containerLogs",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portForward",
        }
    }

    /// The subresource of a pod that does it at an API server.
    #[must_use]
    pub fn subresource(self) -> &'static str {
        match self {
            Self::Logs => "log",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portforward",
        }
    }

    /// The verb that a path begins with, whatever follows in it.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        let page = path.strip_prefix('/')?.split('/').next()?;
        Self::ALL.into_iter().find(|verb| verb.page() == page)
    }
}

/// What a request asks for. Every name can be part of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    /// What is to be done.
    pub(super) verb: StreamVerb,
    /// The namespace of the virtual pod.
    pub(super) namespace: String,
    /// Its name.
    pub(super) pod: String,
    /// Its UID, where the caller has named it.
    pub(super) uid: Option<String>,
    /// Its container; none where ports are forwarded.
    pub(super) container: Option<String>,
}

/// Why a request asks for nothing that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotServed {
    /// Another page.
    Elsewhere,
    /// A page of ours, by a method that it does not have.
    Method(StreamVerb),
    /// A name that nothing can have.
    Name {
        /// Of what.
        of: &'static str,
        /// What it was.
        value: String,
    },
}

impl Wanted {
    /// Reads method and path of a request.
    ///
    /// # Errors
    /// It asks for nothing that is served.
    pub(super) fn read(method: &Method, path: &str) -> Result<Self, NotServed> {
        let parts: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
        let verb = StreamVerb::of_path(path).ok_or(NotServed::Elsewhere)?;
        let (namespace, pod, uid, container) = match (verb, parts.get(1..).unwrap_or_default()) {
            (StreamVerb::Logs | StreamVerb::Exec | StreamVerb::Attach, [namespace, pod, container]) => {
                (namespace, pod, None, Some(container))
            }
            (StreamVerb::Exec | StreamVerb::Attach, [namespace, pod, uid, container]) => {
                (namespace, pod, Some(uid), Some(container))
            }
            (StreamVerb::PortForward, [namespace, pod]) => (namespace, pod, None, None),
            (StreamVerb::PortForward, [namespace, pod, uid]) => (namespace, pod, Some(uid), None),
            _ => return Err(NotServed::Elsewhere),
        };
        let has_method = *method == Method::GET || (*method == Method::POST && verb != StreamVerb::Logs);
        if !has_method {
            return Err(NotServed::Method(verb));
        }
        Ok(Self {
            verb,
            namespace: name("the namespace", namespace, is_label)?,
            pod: name("the pod", pod, |text| is_object_name(text).is_ok())?,
            uid: uid.map(|uid| name("the UID", uid, is_uid)).transpose()?,
            container: container.map(|container| name("the container", container, is_label)).transpose()?,
        })
    }
}

fn name(of: &'static str, text: &str, is_legal: impl Fn(&str) -> bool) -> Result<String, NotServed> {
    if is_legal(text) { Ok(text.to_owned()) } else { Err(NotServed::Name { of, value: text.to_owned() }) }
}

fn is_label(text: &str) -> bool {
    is_object_name(text).is_ok() && text.len() <= LABEL_MAX && !text.contains('.')
}

fn is_uid(text: &str) -> bool {
    !text.is_empty() && is_label_value(text).is_ok()
}

impl fmt::Display for NotServed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elsewhere => f.write_str(
                "a virtual node serves containerLogs, exec, attach and portForward of its pods, and nothing else: \
                 ask the node of the physical cluster",
            ),
            Self::Method(StreamVerb::Logs) => f.write_str("logs are read with GET"),
            Self::Method(verb) => write!(f, "{} needs GET or POST", verb.word()),
            Self::Name { of, value } => write!(f, "{of}: nothing is named {:?}", line(value, SHOWN)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, path: &str) -> Result<String, String> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let wanted = Wanted::read(&method, path).map_err(|why| why.to_string())?;
        let Wanted { verb, namespace, pod, uid, container } = wanted;
        let [uid, container] = [uid, container].map(Option::unwrap_or_default);
        Ok(format!("{} {namespace} {pod} {uid} {container}", verb.subresource()))
    }

    #[test]
    fn s26_the_pages_of_a_kubelet() {
        for (method, path, wanted) in [
            ("GET", "/containerLogs/shop/web-0/app", "log shop web-0  app"),
            ("POST", "/exec/shop/web-0/app", "exec shop web-0  app"),
            ("GET", "/exec/shop/web-0/app", "exec shop web-0  app"),
            ("POST", "/exec/shop/web-0/U-1/app", "exec shop web-0 U-1 app"),
            ("POST", "/attach/shop/web-0/app", "attach shop web-0  app"),
            ("POST", "/attach/shop/web-0/U-1/app", "attach shop web-0 U-1 app"),
            ("POST", "/portForward/shop/web-0", "portforward shop web-0  "),
            ("GET", "/portForward/shop/web.0/U-1", "portforward shop web.0 U-1 "),
        ] {
            assert_eq!(read(method, path).as_deref(), Ok(wanted), "{method} {path}");
        }
    }

    #[test]
    fn s26_every_other_page_is_not_served_and_says_so() {
        for path in [
            "/",
            "",
            "/metrics",
            "/stats/summary",
            "/pods",
            "/run/shop/web-0/app",
            "/exec",
            "/exec/shop/web-0",
            "/exec/shop/web-0/u/app/more",
            "/containerLogs/shop/web-0/u/app",
            "/portForward/shop",
            "//exec/shop/web-0/app",
            "/EXEC/shop/web-0/app",
            "/exec/shop/web-0/",
        ] {
            let said = read("GET", path).unwrap_err();
            let is_named = path == "/exec/shop/web-0/" && said.contains("the container: nothing is named \"\"");
            assert!(is_named || said.contains("and nothing else"), "{path}: {said}");
        }
    }

    #[test]
    fn s26_a_method_that_a_page_does_not_have_is_named() {
        assert_eq!(read("POST", "/containerLogs/shop/web-0/app"), Err("logs are read with GET".into()));
        assert_eq!(read("DELETE", "/exec/shop/web-0/app"), Err("exec needs GET or POST".into()));
        assert_eq!(read("PUT", "/portForward/shop/web-0"), Err("port-forward needs GET or POST".into()));
    }

    #[test]
    fn s26_what_can_lead_to_another_path_is_no_name() {
        for (path, of) in [
            ("/exec/../web-0/app", "the namespace"),
            ("/exec/shop.a/web-0/app", "the namespace"),
            ("/exec/%2e%2e/web-0/app", "the namespace"),
            ("/exec/shop/web%2F0/app", "the pod"),
            ("/exec/shop/Web/app", "the pod"),
            ("/exec/shop/web-0/a?b", "the container"),
            ("/exec/shop/web-0/a.b", "the container"),
            ("/exec/shop/web-0/-u/app", "the UID"),
            ("/portForward/shop//", "the pod"),
        ] {
            let said = read("GET", path).unwrap_err();
            assert!(said.starts_with(&format!("{of}: nothing is named")), "{path}: {said}");
        }
    }
}
