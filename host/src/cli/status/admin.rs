//! What the admin server of one replica adds.

use std::net::SocketAddr;

use serde_json::Value;

use super::{OneReplica, Queue};
use crate::cli::admin;

/// Bytes of a page that are read. The dump lists sources, so it is the largest.
const MOST: usize = 16 << 20;

/// Asks one replica how it is.
pub(super) async fn look(server: SocketAddr) -> anyhow::Result<OneReplica> {
    let ready = admin::get(server, "/readyz", MOST).await?;
    let dump = admin::get(server, "/debug/dump", MOST).await?.good("/debug/dump")?;
    let dump: Value = serde_json::from_str(&dump)?;
    let text = |pointer: &str| dump.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(OneReplica {
        admin: server.to_string(),
        version: text("/process/version"),
        ready: ready.status.is_success(),
        lines: ready.text.lines().map(str::to_owned).collect(),
        queues: queues(dump.get("queues")),
    })
}

fn queues(dump: Option<&Value>) -> Vec<Queue> {
    let all = dump.and_then(Value::as_object).into_iter().flatten();
    let queue = |(name, state): (&String, &Value)| {
        let number = |key: &str| state.get(key).and_then(Value::as_u64).unwrap_or(0);
        Queue {
            name: name.clone(),
            waiting: number("waiting"),
            later: number("later"),
            working: number("working"),
            resting: number("resting"),
            retries: number("retries"),
        }
    };
    all.map(queue).collect()
}
