//! Which keys of a node a pod needs, by the resources that its containers ask for (`node-lock-and-bind.md` A13).
//!
//! Each vendor's scheduler part counts in its own way, and what it counts as nothing its device plugin is not waited for. The
//! table is configuration; [`Backend::known`] is what the reference ships. Unlike there, init containers count (requirement
//! R13): a kubelet allocates for them too.

use std::collections::BTreeSet;

/// The largest count or amount that most backends take.
const INT32_MAX: i64 = i32::MAX as i64;

/// Under which annotation a backend locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKey {
    /// `hami.io/mutex.lock`, whose value names the pod.
    Shared,
    /// `cambricon.com/dsmlu.lock`, whose value is a bare time (A12).
    Cambricon,
}

impl LockKey {
    /// All keys, in the order in which they are written and read.
    pub const ALL: [Self; 2] = [Self::Shared, Self::Cambricon];

    /// The annotation on the Node.
    #[must_use]
    pub const fn annotation(self) -> &'static str {
        match self {
            Self::Shared => "hami.io/mutex.lock",
            Self::Cambricon => "cambricon.com/dsmlu.lock",
        }
    }
}

/// What a node is, as far as locks are concerned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// A machine of this cluster: its device plugins release what is locked for them.
    #[default]
    Machine,
    /// A node that another cluster lends: a copy of the pod gets its devices there. No device plugin is here, so a lock
    /// would never be released (decision S27).
    Virtual,
}

/// An amount beside the count that has to be in a range, or the whole request counts as none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmountRange {
    /// The resource.
    pub resource: Box<str>,
    /// The smallest amount.
    pub least: i64,
    /// The largest amount.
    pub most: i64,
}

/// One backend: how its requests are counted, and where it locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// What it is called in the reference; also the order in which backends are visited.
    pub name: Box<str>,
    /// The resource whose count is requested.
    pub resource: Box<str>,
    /// Requests without limits count as nothing.
    pub limits_only: bool,
    /// The largest count; a larger one counts as none.
    pub most: i64,
    /// What else has to be in a range.
    pub limits: Vec<AmountRange>,
    /// Where it locks, if it does.
    pub key: Option<LockKey>,
}

/// What one container asks for, as the pod says it: the text of a quantity by the name of the resource.
pub trait Asks {
    /// Its limit.
    fn limit(&self, resource: &str) -> Option<&str>;
    /// Its request.
    fn request(&self, resource: &str) -> Option<&str>;
}

impl Backend {
    /// One that locks under the shared key, and takes any count.
    #[must_use]
    pub fn new(name: &str, resource: &str) -> Self {
        Self {
            name: name.into(),
            resource: resource.into(),
            limits_only: false,
            most: i64::MAX,
            limits: Vec::new(),
            key: Some(LockKey::Shared),
        }
    }

    fn int32(mut self) -> Self {
        self.most = INT32_MAX;
        self
    }

    fn limits_only(mut self) -> Self {
        self.limits_only = true;
        self
    }

    fn within(mut self, resource: &str, least: i64, most: i64) -> Self {
        self.limits.push(AmountRange { resource: resource.into(), least, most });
        self
    }

    fn under(mut self, key: Option<LockKey>) -> Self {
        self.key = key;
        self
    }

    /// The backends of the reference with the names that its chart gives their resources, in the order in which it visits
    /// them: bytewise by name, capitals first.
    #[must_use]
    pub fn known() -> Vec<Self> {
        const ASCEND: [&str; 7] = ["910A", "910B2", "910B3", "910B4", "910B4-1", "910C", "310P"];
        const ILUVATAR: [&str; 4] = ["MR-V100", "MR-V50", "BI-V150", "BI-V100"];
        let mut all = vec![
            Self::new("NVIDIA", "nvidia.com/gpu").within("nvidia.com/gpumem", 0, INT32_MAX),
            Self::new("AMD", "amd.com/gpu").limits_only().int32().within("amd.com/gpumem", 0, INT32_MAX).within(
                "amd.com/gpucores",
                1,
                100,
            ),
            Self::new("DCU", "hygon.com/dcunum").int32().within("hygon.com/dcumem", 0, INT32_MAX).within(
                "hygon.com/dcucores",
                0,
                INT32_MAX,
            ),
            Self::new("XPU", "kunlunxin.com/vxpu"),
            Self::new("Metax-SGPU", "metax-tech.com/sgpu")
                .limits_only()
                .int32()
                .within("metax-tech.com/vcore", 0, INT32_MAX)
                .within("metax-tech.com/vmemory", 0, INT32_MAX),
            Self::new("Vastai", "vastaitech.com/va"),
            Self::new("Biren", "birentech.com/gpu"),
            Self::new("MLU", "cambricon.com/vmlu")
                .within("cambricon.com/mlu.smlu.vmemory", 0, INT32_MAX / 256)
                .under(Some(LockKey::Cambricon)),
            Self::new("kunlun", "kunlunxin.com/xpu").under(None),
            Self::new("Metax-GPU", "metax-tech.com/gpu").under(None),
            Self::new("Mthreads", "mthreads.com/vgpu").under(None),
            Self::new("GCU", "enflame.com/gcu").under(None),
            Self::new("Enflame", "enflame.com/drs-gcu").under(None),
            Self::new("AWSNeuron", "aws.amazon.com/neuron").under(None),
            Self::new("AWSNeuron", "aws.amazon.com/neuroncore").under(None),
        ];
        all.extend(ASCEND.map(|chip| {
            let resource = format!("huawei.com/Ascend{chip}");
            Self::new(&format!("Ascend{chip}"), &resource)
                .int32()
                .within(&format!("{resource}-memory"), 0, INT32_MAX)
                .within(&format!("{resource}-core"), 0, INT32_MAX)
        }));
        all.extend(ILUVATAR.map(|chip| {
            let resource = format!("iluvatar.ai/{chip}");
            Self::new(chip, &format!("{resource}-vgpu")).within(&format!("{resource}.vMem"), 0, INT32_MAX / 256)
        }));
        all.sort_by(|one, two| one.name.cmp(&two.name));
        all
    }

    /// Whether it has something to do for a container.
    #[must_use]
    pub fn counts(&self, container: &impl Asks) -> bool {
        let asked = |resource: &str| {
            let request = || if self.limits_only { None } else { container.request(resource) };
            container.limit(resource).or_else(request)
        };
        let count = asked(&self.resource).and_then(whole).unwrap_or_default();
        let fits = |limit: &AmountRange| match asked(&limit.resource) {
            None => true,
            Some(amount) => whole(amount).is_some_and(|amount| (limit.least..=limit.most).contains(&amount)),
        };
        (1..=self.most).contains(&count) && self.limits.iter().all(fits)
    }
}

/// The keys that a pod with these containers needs: all of its containers, those that initialise it too.
pub fn keys<'a, A: Asks + 'a>(containers: impl IntoIterator<Item = &'a A>, backends: &[Backend]) -> BTreeSet<LockKey> {
    let mut keys = BTreeSet::new();
    for container in containers {
        keys.extend(backends.iter().filter(|backend| backend.counts(container)).filter_map(|backend| backend.key));
    }
    keys
}

/// The whole number that a Kubernetes quantity means; `None` if it is not one, or does not fit into 64 bits.
#[must_use]
pub fn whole(quantity: &str) -> Option<i64> {
    let (negative, rest) = match quantity.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, quantity.strip_prefix('+').unwrap_or(quantity)),
    };
    let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(digits);
    let (before, after) = number.split_once('.').unwrap_or((number, ""));
    if before.is_empty() && after.is_empty() || after.contains('.') {
        return None;
    }
    let after = after.trim_end_matches('0');
    let mut value = format!("{before}{after}").parse::<i128>().ok()?;
    let (two, ten) = suffix_powers(suffix)?;
    let mut ten = ten - i32::try_from(after.len()).ok()?;
    value = value.checked_mul(2_i128.checked_pow(two)?)?;
    while ten > 0 {
        value = value.checked_mul(10)?;
        ten -= 1;
    }
    while ten < 0 {
        if value % 10 != 0 {
            return None;
        }
        if value == 0 {
            break;
        }
        value /= 10;
        ten += 1;
    }
    i64::try_from(if negative { -value } else { value }).ok()
}

/// The powers of two and ten that a suffix means.
fn suffix_powers(suffix: &str) -> Option<(u32, i32)> {
    let exponent = suffix.strip_prefix(['e', 'E']).filter(|exponent| !exponent.is_empty() && *exponent != "i");
    if let Some(exponent) = exponent {
        return exponent.parse().ok().filter(|exponent: &i32| (-30..=30).contains(exponent)).map(|ten| (0, ten));
    }
    Some(match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Default)]
    struct Container {
        limits: BTreeMap<String, String>,
        requests: BTreeMap<String, String>,
    }

    impl Asks for Container {
        fn limit(&self, resource: &str) -> Option<&str> {
            self.limits.get(resource).map(String::as_str)
        }

        fn request(&self, resource: &str) -> Option<&str> {
            self.requests.get(resource).map(String::as_str)
        }
    }

    fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(resource, amount)| ((*resource).to_owned(), (*amount).to_owned())).collect()
    }

    fn limited(pairs: &[(&str, &str)]) -> Container {
        Container { limits: of(pairs), ..Container::default() }
    }

    fn requested(pairs: &[(&str, &str)]) -> Container {
        Container { requests: of(pairs), ..Container::default() }
    }

    fn needs(container: &Container) -> Vec<LockKey> {
        keys([container], &Backend::known()).into_iter().collect()
    }

    #[test]
    fn a13_which_request_needs_which_lock() {
        const SHARED: &[LockKey] = &[LockKey::Shared];
        const MLU: &[LockKey] = &[LockKey::Cambricon];
        const NONE: &[LockKey] = &[];
        let too_much = "2147483648";
        type Row<'a> = (&'a [(&'a str, &'a str)], &'a [LockKey]);
        let table: &[Row<'_>] = &[
            (&[("nvidia.com/gpu", "1")], SHARED),
            (&[("nvidia.com/gpu", "0")], NONE),
            (&[("nvidia.com/gpu", "1500m")], NONE),
            (&[("nvidia.com/gpu", too_much)], SHARED),
            (&[("nvidia.com/gpu", "1"), ("nvidia.com/gpumem", "3000")], SHARED),
            (&[("nvidia.com/gpu", "1"), ("nvidia.com/gpumem", "1500m")], NONE),
            (&[("nvidia.com/gpu", "1"), ("nvidia.com/gpumem", too_much)], NONE),
            (&[("nvidia.com/gpumem", "3000")], NONE),
            (&[("amd.com/gpu", "1")], SHARED),
            (&[("amd.com/gpu", too_much)], NONE),
            (&[("amd.com/gpu", "1"), ("amd.com/gpucores", "100")], SHARED),
            (&[("amd.com/gpu", "1"), ("amd.com/gpucores", "0")], NONE),
            (&[("amd.com/gpu", "1"), ("amd.com/gpucores", "101")], NONE),
            (&[("hygon.com/dcunum", "1"), ("hygon.com/dcumem", "2000")], SHARED),
            (&[("hygon.com/dcunum", "1"), ("hygon.com/dcucores", too_much)], NONE),
            (&[("huawei.com/Ascend910A", "1")], SHARED),
            (&[("huawei.com/Ascend310P", "1"), ("huawei.com/Ascend310P-memory", "-1")], NONE),
            (&[("iluvatar.ai/MR-V100-vgpu", "1"), ("iluvatar.ai/MR-V100.vMem", "8388607")], SHARED),
            (&[("iluvatar.ai/MR-V100-vgpu", "1"), ("iluvatar.ai/MR-V100.vMem", "8388608")], NONE),
            (&[("kunlunxin.com/vxpu", "2")], SHARED),
            (&[("metax-tech.com/sgpu", "1")], SHARED),
            (&[("vastaitech.com/va", "1")], SHARED),
            (&[("birentech.com/gpu", "1")], SHARED),
            (&[("cambricon.com/vmlu", "1")], MLU),
            (&[("cambricon.com/vmlu", "1"), ("cambricon.com/mlu.smlu.vmemory", "8388608")], NONE),
            (&[("kunlunxin.com/xpu", "1")], NONE),
            (&[("metax-tech.com/gpu", "1")], NONE),
            (&[("mthreads.com/vgpu", "1")], NONE),
            (&[("enflame.com/gcu", "1")], NONE),
            (&[("enflame.com/drs-gcu", "1")], NONE),
            (&[("aws.amazon.com/neuron", "1")], NONE),
            (&[("aws.amazon.com/neuroncore", "1")], NONE),
            (&[("cpu", "1")], NONE),
            (&[("nvidia.com/gpu", "1"), ("cambricon.com/vmlu", "1")], &[LockKey::Shared, LockKey::Cambricon]),
        ];
        for (asked, wanted) in table {
            assert_eq!(needs(&limited(asked)), *wanted, "{asked:?}");
        }
    }

    #[test]
    fn a13_limits_come_before_requests_and_some_look_at_nothing_else() {
        let gpu = |limit, request| Container {
            limits: of(&[("nvidia.com/gpu", limit)]),
            requests: of(&[("nvidia.com/gpu", request)]),
        };
        assert_eq!(needs(&requested(&[("nvidia.com/gpu", "1")])), [LockKey::Shared]);
        assert_eq!(needs(&gpu("0", "1")), []);
        assert_eq!(needs(&gpu("1", "0")), [LockKey::Shared]);
        assert_eq!(needs(&requested(&[("amd.com/gpu", "1")])), []);
        assert_eq!(needs(&requested(&[("metax-tech.com/sgpu", "1")])), []);
    }

    #[test]
    fn r13_every_container_counts() {
        let (idle, works) = (limited(&[("cpu", "1")]), limited(&[("nvidia.com/gpu", "1")]));
        assert_eq!(keys([&idle, &works], &Backend::known()), BTreeSet::from([LockKey::Shared]));
        assert_eq!(keys([&idle], &Backend::known()), BTreeSet::new());
    }

    #[test]
    fn a14_backends_are_visited_bytewise_by_name() {
        let known = Backend::known();
        let names: Vec<_> = known.iter().map(|backend| &*backend.name).collect();
        assert_eq!(names.first(), Some(&"AMD"));
        assert_eq!(names.last(), Some(&"kunlun"));
        assert!(names.is_sorted(), "{names:?}");
    }

    #[test]
    fn quantities_are_read_as_kubernetes_writes_them() {
        let table = [
            ("0", Some(0)),
            ("1", Some(1)),
            ("+1", Some(1)),
            ("-3", Some(-3)),
            ("1.0", Some(1)),
            ("1.5", None),
            ("1.5k", Some(1500)),
            ("2000m", Some(2)),
            ("1500m", None),
            ("2k", Some(2000)),
            ("2Ki", Some(2048)),
            ("1.5Ki", Some(1536)),
            ("1e3", Some(1000)),
            ("1E3", Some(1000)),
            ("1E", Some(1_000_000_000_000_000_000)),
            ("8Ei", None),
            ("7Ei", Some(7 << 60)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("-9223372036854775808", Some(i64::MIN)),
            ("1e400", None),
            ("0e-30", Some(0)),
            (".5k", Some(500)),
            ("5.", Some(5)),
            ("", None),
            (".", None),
            ("-", None),
            ("1.2.3", None),
            ("1x", None),
            ("1 ", None),
            ("lots", None),
        ];
        for (text, wanted) in table {
            assert_eq!(whole(text), wanted, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_an_answer(text in "[-+0-9.eEkKmMiGnu]{0,60}|\\PC{0,20}") {
            let _ = whole(&text);
        }

        #[test]
        fn a_number_that_was_written_reads_back(number in proptest::prelude::any::<i64>()) {
            proptest::prop_assert_eq!(whole(&number.to_string()), Some(number));
        }
    }
}
