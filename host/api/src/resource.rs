//! What makes a struct a cluster-scoped resource, once for all kinds.

/// Implements `kube_core::Resource` for an object of a module that has the constants `KIND`, `VERSION`, `API_VERSION`
/// and
/// `PLURAL`. Adds the functions `api_version` and `kind` for items of a list, which come without both.
macro_rules! cluster_resource {
    ($object:ident, $group:expr) => {
        impl kube_core::Resource for $object {
            type DynamicType = ();
            type Scope = k8s_openapi::ClusterResourceScope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                KIND.into()
            }

            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                VERSION.into()
            }

            fn api_version(_: &()) -> std::borrow::Cow<'_, str> {
                API_VERSION.into()
            }

            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                PLURAL.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }

        fn api_version() -> String {
            API_VERSION.to_owned()
        }

        fn kind() -> String {
            KIND.to_owned()
        }
    };
}
pub(crate) use cluster_resource;
