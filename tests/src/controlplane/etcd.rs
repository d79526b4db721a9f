//! etcd through its JSON gateway: compaction, and every write in commit order.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::plain_http;

/// So many events are kept for the next question at most.
const KEPT: usize = 200_000;

/// What a write did to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// Created or changed.
    Put,
    /// Removed.
    Delete,
}

/// One write as etcd committed it.
#[derive(Debug, Clone, PartialEq)]
pub struct Write {
    /// The revision grows with every transaction; it is the `resourceVersion` of the object.
    pub revision: u64,
    /// For instance `/registry/minions/node-1`.
    pub key: String,
    /// What it did.
    pub kind: WriteKind,
    /// Whether the key did not exist before.
    pub created: bool,
    /// The object; null for a deletion and for what is not JSON.
    pub value: Value,
}

/// etcd's answers write 64-bit numbers as strings and leave out what is zero.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Header {
    revision: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reply {
    header: Header,
    kvs: Vec<KeyValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Frame {
    result: Batch,
    error: Value,
}

/// A part of a snapshot.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part {
    result: Blob,
    error: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Blob {
    blob: ByteString,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Batch {
    canceled: bool,
    cancel_reason: String,
    compact_revision: String,
    events: Vec<Event>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    kv: KeyValue,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct KeyValue {
    key: ByteString,
    value: ByteString,
    create_revision: String,
    mod_revision: String,
}

impl KeyValue {
    fn name(&self) -> String {
        String::from_utf8_lossy(&self.key.0).into_owned()
    }
}

impl From<&Event> for Write {
    fn from(Event { kind, kv }: &Event) -> Self {
        let kind = if kind == "DELETE" { WriteKind::Delete } else { WriteKind::Put };
        Self {
            revision: number(&kv.mod_revision),
            key: kv.name(),
            kind,
            created: kind == WriteKind::Put && kv.create_revision == kv.mod_revision,
            value: serde_json::from_slice(&kv.value.0).unwrap_or(Value::Null),
        }
    }
}

/// What was read of the history so far: a proof asks for one kind of objects after the other, and etcd would send all events for
/// each.
#[derive(Debug, Default)]
struct History {
    /// The first revision of which the events are here, and the last one. None is missing between them.
    first: u64,
    last: u64,
    events: Vec<Event>,
}

impl History {
    /// Lets it begin with this revision, unless it has that, or can continue with it.
    fn begins_with(&mut self, revision: u64) {
        if revision < self.first || revision > self.last + 1 || self.events.len() > KEPT {
            *self = Self { first: revision, last: revision.saturating_sub(1), events: Vec::new() };
        }
    }

    /// The writes under a prefix, from a revision up to another one. The values of all others are not parsed.
    fn writes(&self, prefix: &str, from: u64, to: u64) -> Vec<Write> {
        let is_wanted = |event: &&Event| {
            let is_within = || (from..=to).contains(&number(&event.kv.mod_revision));
            event.kv.key.0.starts_with(prefix.as_bytes()) && is_within()
        };
        self.events.iter().filter(is_wanted).map(Write::from).collect()
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

#[derive(Debug, Clone)]
pub(super) struct Gateway {
    url: String,
    http: reqwest::Client,
    history: Arc<Mutex<History>>,
}

impl Gateway {
    pub(super) fn new(url: &str) -> Result<Self> {
        let http = plain_http().build().context("no HTTP client for etcd")?;
        Ok(Self { url: url.to_owned(), http, history: Arc::default() })
    }

    async fn post(&self, path: &str, body: &Value) -> Result<reqwest::Response> {
        let answer = self.http.post(format!("{}{path}", self.url)).json(body).send().await;
        let answer = answer.with_context(|| format!("etcd does not answer {path}"))?;
        let status = answer.status();
        if !status.is_success() {
            bail!("etcd answers {path} with {status}: {}", answer.text().await.unwrap_or_default());
        }
        Ok(answer)
    }

    /// The revision of the last write. Fails as long as etcd has no leader, so it is also the readiness check.
    pub(super) async fn revision(&self) -> Result<u64> {
        // A range over one key that never exists: only the header matters.
        let answer = self.range(&json!({"key": encoded(b"\0")})).await?;
        Ok(number(&answer.header.revision))
    }

    /// Compacts all history before now, and returns the present revision.
    pub(super) async fn compact(&self) -> Result<u64> {
        let revision = self.revision().await?;
        self.post("/v3/kv/compaction", &json!({"revision": revision.to_string(), "physical": true})).await?;
        Ok(revision)
    }

    /// Every key, with the revision of its last write; and the revision of this answer.
    pub(super) async fn keys(&self) -> Result<(BTreeMap<String, u64>, u64)> {
        let all = json!({"key": encoded(b"\0"), "range_end": encoded(b"\0"), "keys_only": true});
        let answer = self.range(&all).await?;
        let keys = answer.kvs.iter().map(|kv| (kv.name(), number(&kv.mod_revision))).collect();
        Ok((keys, number(&answer.header.revision)))
    }

    /// The value of every key.
    pub(super) async fn values(&self) -> Result<BTreeMap<String, ByteString>> {
        let answer = self.range(&json!({"key": encoded(b"\0"), "range_end": encoded(b"\0")})).await?;
        Ok(answer.kvs.into_iter().map(|kv| (kv.name(), kv.value)).collect())
    }

    /// Writes a key with this value; returns the revision of this write.
    pub(super) async fn restore(&self, key: &str, value: &ByteString) -> Result<u64> {
        let answer = self.post("/v3/kv/put", &json!({"key": encoded(key.as_bytes()), "value": value})).await?;
        let answer: Reply = answer.json().await.context("etcd's put answer is not understood")?;
        Ok(number(&answer.header.revision))
    }

    /// Writes a key again with a change.
    pub(super) async fn edit(&self, key: &str, change: impl FnOnce(&mut Value)) -> Result<()> {
        let answer = self.range(&json!({"key": encoded(key.as_bytes())})).await?;
        let kv = answer.kvs.into_iter().next().with_context(|| format!("{key} is not there"))?;
        let mut object: Value = serde_json::from_slice(&kv.value.0).with_context(|| format!("{key} is not JSON"))?;
        change(&mut object);
        let value = ByteString(serde_json::to_vec(&object)?);
        self.post("/v3/kv/put", &json!({"key": kv.key, "value": value})).await?;
        Ok(())
    }

    /// Removes a key.
    pub(super) async fn remove(&self, key: &str) -> Result<()> {
        self.post("/v3/kv/deleterange", &json!({"key": encoded(key.as_bytes())})).await?;
        Ok(())
    }

    /// All its data, in the form that `etcdutl snapshot restore` reads.
    pub(super) async fn snapshot(&self) -> Result<Vec<u8>> {
        let answer = self.post("/v3/maintenance/snapshot", &json!({})).await?;
        let text = answer.text().await.context("etcd's snapshot broke")?;
        let mut bytes = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let part: Part = serde_json::from_str(line).context("etcd's snapshot is not understood")?;
            ensure!(part.error.is_null(), "etcd refuses the snapshot: {}", part.error);
            bytes.extend(part.result.blob.0);
        }
        Ok(bytes)
    }

    async fn range(&self, request: &Value) -> Result<Reply> {
        let answer = self.post("/v3/kv/range", request).await?;
        answer.json().await.context("etcd's range answer is not understood")
    }

    /// The writes from revision `from` up to the one that is the last when this is called.
    pub(super) async fn writes(&self, prefix: &str, from: u64) -> Result<Vec<Write>> {
        let last = self.revision().await?;
        if from > last {
            return Ok(Vec::new());
        }
        let mut history = self.history.lock().await;
        history.begins_with(from);
        if history.last < last {
            let more = self.events(history.last + 1, last).await?;
            history.events.extend(more);
            history.last = last;
        }
        Ok(history.writes(prefix, from, last))
    }

    /// All events from revision `from` up to `last`, which there is.
    async fn events(&self, from: u64, last: u64) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        // The watch covers all keys: then the event of the last revision is sure to come, and ends the loop.
        let create = json!({"key": encoded(b"\0"), "range_end": encoded(b"\0"), "start_revision": from.to_string()});
        let mut answer = self.post("/v3/watch", &json!({"create_request": create})).await?;
        let mut line = Vec::new();
        while let Some(chunk) = answer.chunk().await.context("etcd's watch broke")? {
            let mut rest: &[u8] = &chunk;
            // One JSON document in a line, which may end in a later chunk.
            while rest.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
                let document = std::mem::take(&mut line);
                if document.trim_ascii().is_empty() {
                    continue;
                }
                let frame: Frame =
                    serde_json::from_slice(&document).context("etcd's watch answer is not understood")?;
                ensure!(frame.error.is_null(), "etcd refuses the watch: {}", frame.error);
                let batch = frame.result;
                ensure!(
                    !batch.canceled,
                    "etcd ends the watch from revision {from}: {} (compacted up to {})",
                    batch.cancel_reason,
                    batch.compact_revision,
                );
                // All events of one revision arrive in one batch.
                let reached = batch.events.last().is_some_and(|event| number(&event.kv.mod_revision) >= last);
                events.extend(batch.events.into_iter().filter(|event| number(&event.kv.mod_revision) <= last));
                if reached {
                    return Ok(events);
                }
            }
        }
        bail!("etcd closed the watch before revision {last}")
    }
}

fn encoded(bytes: &[u8]) -> Value {
    serde_json::to_value(ByteString(bytes.to_vec())).expect("base64 is a string")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(revision: u64, key: &str) -> Event {
        let revision = revision.to_string();
        let (key, value) = (ByteString(key.into()), ByteString(b"{}".to_vec()));
        Event { kv: KeyValue { key, value, mod_revision: revision, ..KeyValue::default() }, ..Event::default() }
    }

    #[test]
    fn what_was_read_is_read_again_only_where_something_is_missing() {
        let events = vec![event(5, "/a/1"), event(6, "/b/1"), event(7, "/a/2"), event(8, "/a/3")];
        let mut history = History { first: 5, last: 8, events };
        let revisions = |history: &History, from, to| -> Vec<u64> {
            history.writes("/a/", from, to).iter().map(|write| write.revision).collect()
        };
        // It has this one, or continues with it.
        for from in [5, 7, 9] {
            history.begins_with(from);
            assert_eq!((history.first, history.last), (5, 8), "{from}");
        }
        assert_eq!(revisions(&history, 5, 8), [5, 7, 8]);
        assert_eq!(revisions(&history, 6, 7), [7]);
        // What is between them may be compacted.
        history.begins_with(10);
        assert_eq!((history.first, history.last, history.events.len()), (10, 9, 0));
        history.begins_with(1);
        assert_eq!((history.first, history.last), (1, 0));
    }
}
