#![allow(warnings, clippy::all)]
use std::sync::Arc;
use std::time::Instant;
use topoloom::plugin::*;
use topoloom_core::plugin::*;
use topoloom_core::snapshot::*;
fn med(mut v: Vec<f64>) -> (f64, f64) {
    v.sort_by(|a, b| a.partial_cmp(b).unwrap());
    (v[0], v[v.len() / 2])
}
fn main() {
    let rt = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    rt.block_on(run());
}
async fn run() {
    let b = builtin::find("label").unwrap();
    let runtime = Runtime::start(Compiler::Child { exe: std::env::current_exe().unwrap() }).unwrap();
    let rss = |w: &str| {
        let t = std::fs::read_to_string("/proc/self/status").unwrap();
        for l in t.lines().filter(|l| {
            l.starts_with("VmHWM") || l.starts_with("VmRSS") || l.starts_with("RssAnon") || l.starts_with("RssFile")
        }) {
            print!("{w} {l}; ")
        }
        println!();
    };
    rss("start");
    let t0 = Instant::now();
    let p = runtime.load(Load { bytes: b.bytes.clone(), pinned: None, limits: Limits::default() }).await.unwrap();
    println!("load {:?}", t0.elapsed());
    rss("loaded");
    let source: Arc<str> = "label".into();
    let keys = ["k1", "k2", "k3"];
    let cfg: Arc<str> =
        r#"{"networkTopologyTypes":{"gpu":[{"nodeLabel":"k3"},{"nodeLabel":"k2"},{"nodeLabel":"k1"}]}}"#.into();
    let mut v = vec![];
    let mut c = vec![];
    for _ in 0..2000 {
        let t = Instant::now();
        let call = p.describe(&source).await;
        v.push(t.elapsed().as_secs_f64() * 1e6);
        c.push(call.usage.cpu.as_secs_f64() * 1e6);
    }
    println!("describe total {:?} cpu {:?}", med(v), med(c));
    let mut v = vec![];
    let mut c = vec![];
    for _ in 0..2000 {
        let t = Instant::now();
        let call = p.configure(&source, cfg.clone()).await;
        assert!(call.end.is_ok());
        v.push(t.elapsed().as_secs_f64() * 1e6);
        c.push(call.usage.cpu.as_secs_f64() * 1e6);
    }
    println!("configure total {:?} cpu {:?}", med(v), med(c));
    for n in std::env::args().nth(1).map_or(vec![0u32, 18, 1000, 10000, 100000], |a| vec![a.parse().unwrap()]) {
        let mut store = Store::new();
        store.want(keys.map(ColumnKey::label));
        store.begin_relist();
        for i in 0..n {
            let (a, b, d) = (format!("leaf-{}", i / 18), format!("spine-{}", i / 360), format!("pod-{}", i / 3600));
            let name = format!("node-{i:06}");
            store.relist(NodeMeta {
                name: &name,
                labels: [("k1", a.as_str()), ("k2", b.as_str()), ("k3", d.as_str())],
                annotations: [],
            });
        }
        store.commit_relist();
        let view = store.view(&keys.map(ColumnKey::label));
        let g = Granted { labels: keys.map(Arc::from).into(), ..Granted::default() };
        let round = Round {
            config: cfg.clone(),
            granted: Arc::new(g),
            nodes: view,
            applied: Arc::default(),
            time: jiff::Timestamp::UNIX_EPOCH,
            state: Arc::default(),
        };
        let mut v = vec![];
        let mut c = vec![];
        for _ in 0..std::env::args().nth(2).map_or(if n > 50000 { 100 } else { 1000 }, |a| a.parse().unwrap()) {
            let r = round.clone();
            let t = Instant::now();
            let call = p.discover(&source, r).await;
            let e = t.elapsed();
            assert!(call.end.is_ok());
            v.push(e.as_secs_f64() * 1e6);
            c.push(call.usage.cpu.as_secs_f64() * 1e6);
        }
        println!("discover {n} total {:?} cpu {:?}", med(v), med(c));
    }
}
