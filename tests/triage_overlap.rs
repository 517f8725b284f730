//! The overlap table against traces of real servers and models whose opportunities a person worked out from the traces.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use common::shared;
use gpuprism::analysis::section::{Record, Section};
use gpuprism::analysis::triage::{Options, Request, ServerArgs, Stage, triage};
use gpuprism::input::{Imported, Importer};
use gpuprism::trace::Trace;
use std::path::Path;

fn read(path: &Path) -> Trace {
    let mut importer = Importer::with_code(common::file_name(path));
    importer.feed(&std::fs::read(path).unwrap()).unwrap();
    let Imported::Trace(trace) = importer.finish().unwrap() else { panic!("{} is a trace", path.display()) };
    *trace
}

fn table(trace: &Trace, mapping: &[&Trace], file_stage: Stage) -> Section {
    let (server, options) = (ServerArgs::default(), Options::default());
    let request = Request { trace, file_stage, mapping, server: &server, framework: None, options: &options };
    triage(&request).remove("triage_overlap").unwrap()
}

fn text<'a>(row: &'a Record, column: &str) -> &'a str {
    row.get(column).and_then(|value| value.text()).unwrap_or("-")
}

#[test]
fn dump() {
    let Some(folder) = shared("traces/torch") else { return };
    for path in common::files(&folder, ".gz") {
        let name = common::file_name(&path);
        if !["sglang", "vllm_b", "vllm_mi300_d", "vllm_mi300_p", "hf", "nccl", "train"]
            .iter()
            .any(|p| name.starts_with(p))
        {
            continue;
        }
        let trace = read(&path);
        let t = std::time::Instant::now();
        let section = table(&trace, &[], Stage::All);
        println!("=== {name} {:?} {:?}", t.elapsed(), section.summary);
        for row in &section.rows {
            let n = |c: &str| row.get(c).and_then(|v| v.number()).unwrap_or(-1.0);
            println!(
                "{} {} {} | {:.70} | {:.1} us share {:.2} wall {:.2} ex {:.1} hbc {:.1} {} {} | {}",
                text(row, "stage"),
                text(row, "priority"),
                text(row, "verdict"),
                text(row, "kernel_name"),
                n("duration_ns") / 1e3,
                n("share_pct"),
                n("wall_share_pct"),
                n("exclusive_pct"),
                n("hidden_by_compute_pct"),
                text(row, "dep_risk"),
                text(row, "recommendation"),
                text(row, "basis")
            );
        }
        for l in &section.limits {
            println!("   limit {l}");
        }
    }
}
