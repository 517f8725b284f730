//! The configurations: see the table in the head of the test.

use super::config::{Bubble, Capture, Config, Faults, Launch, Loads, Pause, Work};
use super::engine::LayerKind;
use super::merged::{Merged, Naming};

const DENSE: LayerKind = ("full", "dense");
const MOE: LayerKind = ("full", "moe");
const SLIDING_MOE: LayerKind = ("sliding", "moe");

/// An engine with the layers of a model that people serve with it, scaled down.
const ENGINES: [(&str, &[LayerKind], usize); 6] = [
    ("sglang_b300", &[MOE], 16),
    ("sglang_mi300", &[DENSE], 12),
    ("sglang_h100", &[DENSE], 14),
    ("vllm_mi300", &[SLIDING_MOE, MOE], 6),
    ("vllm_b200_tp8", &[SLIDING_MOE, MOE], 6),
    ("vllm_h100_tp2", &[DENSE], 10),
];

const CAPTURES: [Capture; 4] = [Capture::Annotated, Capture::Plain, Capture::Frames, Capture::Names];

/// Traces without problems.
pub(crate) fn complete() -> Vec<Config> {
    let mut configs = Vec::new();
    for (engine, ..) in ENGINES {
        let launches: &[Launch] = match engine {
            "vllm_mi300" | "vllm_b200_tp8" | "vllm_h100_tp2" => &[Launch::Full, Launch::Piecewise, Launch::Eager],
            _ => &[Launch::Full, Launch::Eager],
        };
        for launch in launches {
            let changed = |config: Config| Config { launch: *launch, ..config };
            configs.extend(CAPTURES.map(|capture| changed(config(engine, capture, "decode"))));
        }
    }
    for (engine, ..) in ENGINES {
        let prefill = |capture| Config { work: Work::PrefillAndDecode, steps: 9, ..config(engine, capture, "prefill") };
        configs.extend(CAPTURES.map(prefill));
    }
    for engine in ["vllm_mi300", "vllm_b200_tp8", "sglang_h100"] {
        let chunked = |capture| Config { work: Work::Chunked, steps: 8, ..config(engine, capture, "chunked prefill") };
        configs.extend(CAPTURES.map(chunked));
    }
    for engine in ["sglang_b300", "sglang_h100"] {
        let draft = |capture| Config { work: Work::Speculation, steps: 16, ..config(engine, capture, "speculation") };
        // Engines run a whole round in one Python function, so frames show rounds.
        configs.extend([Capture::Annotated, Capture::Plain, Capture::Names].map(draft));
    }
    for engine in ["sglang_b300", "sglang_mi300", "vllm_h100_tp2", "sglang_h100"] {
        let layers = [[DENSE; 3].to_vec(), [MOE; 11].to_vec()].concat();
        let first = |capture| Config { layers: layers.clone(), ..config(engine, capture, "first layers dense") };
        configs.extend([Capture::Annotated, Capture::Plain].map(first));
    }
    for capture in CAPTURES {
        let padded = config("sglang_b300", capture, "padding");
        configs.push(Config { batch: 5, captured: 8, ..padded });
        let cores = config("sglang_h100", capture, "prefill kernels in decode");
        configs.push(Config { tensor_cores: true, launch: Launch::Eager, ..cores });
    }
    configs
}

/// Traces in which the host is late.
pub(crate) fn late() -> Vec<Config> {
    const PREPARE: Bubble = Bubble {
        function: "vllm/v1/worker/gpu_model_runner.py(1184): _prepare_inputs",
        length_us: 1_500,
        is_inside: false,
    };
    const PLAN: Bubble = Bubble { function: "flashinfer/decode.py(912): plan", length_us: 3_000, is_inside: true };
    let mut configs = Vec::new();
    for (engine, bubble, launch) in [
        ("sglang_b300", PREPARE, Launch::Full),
        ("sglang_mi300", PREPARE, Launch::Full),
        ("vllm_h100_tp2", PREPARE, Launch::Piecewise),
        ("vllm_mi300", PREPARE, Launch::Eager),
        ("sglang_h100", PLAN, Launch::Eager),
        ("vllm_b200_tp8", PLAN, Launch::Eager),
        ("vllm_h100_tp2", PLAN, Launch::Piecewise),
    ] {
        configs.push(Config { bubble: Some(bubble), launch, ..config(engine, Capture::Frames, "host late") });
    }
    configs
}

/// Traces in which the server waits before each step: for less than a step, and for up to twenty times as long.
pub(crate) fn pausing() -> Vec<Config> {
    let mut configs = Vec::new();
    for (engine, ..) in ENGINES {
        for (what, pause) in [("short pauses", Pause::UpTo(500)), ("long pauses", Pause::UpTo(40_000))] {
            let pausing = |capture, work| Config { pause, work, steps: 9, ..config(engine, capture, what) };
            configs.extend(CAPTURES.map(|capture| pausing(capture, Work::Decode)));
            configs.extend(CAPTURES.map(|capture| pausing(capture, Work::PrefillAndDecode)));
        }
    }
    configs
}

/// Traces in which the server waits before each step for so long that the GPU is busy for a known share of the time.
pub(crate) fn busy() -> Vec<Config> {
    let mut configs = Vec::new();
    let shares = [("5 % busy", 0.05), ("20 % busy", 0.2), ("49 % busy", 0.49), ("51 % busy", 0.51), ("90 % busy", 0.9)];
    for (number, (what, share)) in shares.into_iter().enumerate() {
        let pause = Pause::ForBusy(share);
        for (capture, (engine, ..)) in CAPTURES.into_iter().zip(ENGINES.into_iter().cycle().skip(number)) {
            configs.push(Config { pause, steps: 8, ..config(engine, capture, what) });
        }
        let engine = ENGINES[number].0;
        let mixed = |capture| Config { pause, work: Work::OnePrefill, ..config(engine, capture, what) };
        configs.extend([Capture::Annotated, Capture::Names].map(mixed));
    }
    configs
}

/// Traces without annotations in which one long prefill step runs among decode steps.
pub(crate) fn one_prefill() -> Vec<Config> {
    let long = |config: Config| Config {
        work: Work::OnePrefill,
        steps: 10,
        step_us: Some(18_900.0),
        prefill_ratio: 89.0 / 18.9,
        ..config
    };
    let mut configs = Vec::new();
    for (engine, ..) in ENGINES {
        for capture in [Capture::Plain, Capture::Names] {
            configs.push(long(config(engine, capture, "one prefill")));
        }
        let eager = config(engine, Capture::Plain, "one prefill");
        configs.push(long(Config { launch: Launch::Eager, ..eager }));
    }
    for capture in [Capture::Plain, Capture::Names] {
        let cores = config("sglang_h100", capture, "one prefill, same kernels");
        configs.push(long(Config { tensor_cores: true, launch: Launch::Eager, ..cores }));
    }
    configs
}

/// Two ranks in one file, one slower than the other.
pub(crate) fn merged() -> Vec<Merged> {
    let mut merged = Vec::new();
    let namings = [Naming::OwnNumbers, Naming::MovedPids, Naming::Labels, Naming::OneGpu];
    let engines = ["vllm_h100_tp2", "sglang_b300", "sglang_mi300", "vllm_b200_tp8"];
    let captures = [Capture::Annotated, Capture::Plain, Capture::Frames];
    for (number, naming) in namings.into_iter().enumerate() {
        for (capture, work) in captures.into_iter().zip([Work::PrefillAndDecode, Work::OnePrefill, Work::Decode]) {
            let engine = engines[number];
            let rank = |step_us| {
                let step_us = Some(step_us);
                Config { work, step_us, steps: 9, ..config(engine, capture, &format!("{naming:?}")) }
            };
            let ranks = [rank(2_400.0), rank(3_700.0)];
            let one = Merged { ranks, naming, has_equal_ids: true, is_sorted: false, phase: 0.37 };
            merged
                .push(Merged { ranks: one.ranks.clone().map(|rank| Config { launch: Launch::Eager, ..rank }), ..one });
            merged.push(Merged { has_equal_ids: false, is_sorted: true, phase: 1.81, ..one.clone() });
            merged.push(one);
        }
    }
    merged
}

/// Steps of training that wait for the data loader.
pub(crate) fn stalled() -> Vec<Config> {
    let mut configs = Vec::new();
    let stalls =
        [("stall of 0.2 steps", (0.2, 0.2)), ("stalls of 0.2 to 3", (0.2, 3.0)), ("stall of 3 steps", (3.0, 3.0))];
    for (what, stall) in stalls {
        let stalled = |capture| Config { stall: Some(stall), ..training(capture, Launch::Eager, 12_000.0, what) };
        configs.extend([Capture::Annotated, Capture::AnnotatedFrames, Capture::Plain, Capture::Names].map(stalled));
    }
    configs
}

/// Steps of training that are one graph each, which nothing else marks.
pub(crate) fn whole_graphs() -> Vec<Config> {
    let mut configs = Vec::new();
    for (what, step_us) in
        [("steps of 50 ms", 50_000.0), ("steps of 200 ms", 200_000.0), ("steps of 800 ms", 800_000.0)]
    {
        let graphs = |capture| training(capture, Launch::Full, step_us, what);
        configs.extend([Capture::Plain, Capture::Names].map(graphs));
        let eager = training(Capture::Names, Launch::Eager, step_us, what);
        configs.push(Config { name: format!("{what}, eager"), ..eager });
    }
    configs
}

fn training(capture: Capture, launch: Launch, step_us: f64, what: &str) -> Config {
    let base = config("sglang_h100", capture, what);
    let (layers, step_us) = (vec![DENSE; 6], Some(step_us));
    Config { engine: "training", work: Work::Training, launch, layers, steps: 10, step_us, ..base }
}

/// Processes that load the code of their kernels in the capture: when they start, or later.
pub(crate) fn loading() -> Vec<Config> {
    let mut configs = Vec::new();
    for engine in ["sglang_h100", "vllm_mi300", "vllm_h100_tp2"] {
        let captures = [Capture::Annotated, Capture::Plain, Capture::Frames];
        let cold =
            |capture| Config { loads: Loads::AtStart, launch: Launch::Eager, ..config(engine, capture, "cold start") };
        configs.extend(captures.map(|capture| Config { steps: 8, ..cold(capture) }));
        let prompt = |capture| Config { steps: 9, work: Work::PrefillFirst, ..cold(capture) };
        configs.extend([Capture::Annotated, Capture::Plain].map(prompt));
        let late = |capture| Config { loads: Loads::Late, ..config(engine, capture, "late load") };
        configs.extend(captures.map(|capture| Config { work: Work::OnePrefill, steps: 9, ..late(capture) }));
    }
    configs
}

/// Complete traces with noise, waiting ranks and a second stream.
pub(crate) fn disturbed() -> Vec<Config> {
    let faults = [
        ("noise 40 %", Faults { noise: 0.4, ..Faults::default() }),
        ("waiting ranks", Faults { waiting: true, ..Faults::default() }),
        ("second stream", Faults { side_stream: true, ..Faults::default() }),
    ];
    faults.into_iter().flat_map(|(what, faults)| with(what, faults)).collect()
}

/// Traces of which a part is missing.
pub(crate) fn incomplete() -> Vec<Config> {
    let lost = |lost| Faults { lost, ..Faults::default() };
    let cut = Faults { is_cut: true, ..Faults::default() };
    let all = Faults { noise: 0.3, lost: 0.02, is_cut: true, ..Faults::default() };
    let faults = [
        ("cut", cut),
        ("1 % lost", lost(0.01)),
        ("5 % lost", lost(0.05)),
        ("20 % lost", lost(0.2)),
        ("all faults", all),
    ];
    let mut configs: Vec<Config> = faults.into_iter().flat_map(|(what, faults)| with(what, faults)).collect();
    let few = [
        ("one step, 1 % lost", 1, lost(0.01)),
        ("one step, 3 % lost", 1, lost(0.03)),
        ("two steps, 2 % lost", 2, lost(0.02)),
        ("cut in one step", 3, cut),
        ("cut in two steps", 4, cut),
    ];
    for (what, steps, faults) in few {
        for (engine, ..) in ENGINES {
            let few = |launch| Config { steps, launch, faults, ..config(engine, Capture::Annotated, what) };
            configs.extend([Launch::Full, Launch::Eager].map(few));
        }
    }
    configs
}

/// Captures that begin and end inside of a step: of each scenario beside the plain ones. The first are servers.
pub(crate) fn cut() -> (Vec<Config>, Vec<Config>, Vec<Merged>) {
    let cut = |config: Config| Config {
        faults: Faults { is_cut: true, ..config.faults },
        name: format!("{}, cut", config.name),
        ..config
    };
    let servers = [one_prefill(), busy(), loading()].concat().into_iter().map(cut).collect();
    let training = [stalled(), whole_graphs()].concat().into_iter().map(cut).collect();
    let merged = merged().into_iter().map(|merged| Merged { ranks: merged.ranks.map(cut), ..merged });
    (servers, training, merged.collect())
}

/// The same faults on three engines in all captures.
fn with(what: &str, faults: Faults) -> Vec<Config> {
    let engines = ["sglang_b300", "vllm_mi300", "vllm_h100_tp2"];
    let of_engine = |engine| CAPTURES.map(|capture| Config { faults, ..config(engine, capture, what) });
    engines.into_iter().flat_map(of_engine).collect()
}

fn config(engine: &'static str, capture: Capture, what: &str) -> Config {
    let (_, block, times) = ENGINES.into_iter().find(|(name, ..)| *name == engine).unwrap();
    Config {
        name: what.to_owned(),
        engine,
        layers: block.repeat(times),
        launch: Launch::Full,
        capture,
        work: Work::Decode,
        steps: 6,
        batch: 8,
        captured: 8,
        bubble: None,
        pause: Pause::None,
        loads: Loads::None,
        stall: None,
        step_us: None,
        prefill_ratio: 6.0,
        faults: Faults::default(),
        tensor_cores: false,
    }
}
