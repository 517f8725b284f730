//! Plays a training loop on a [`Machine`](super::machine::Machine): a data loader, copies of the batch, forward, backward and optimizer.
//! Names of kernels are those of real traces of PyTorch (`training.json`).

use super::config::{Config, Launch};
use super::engine::Stage;
use super::machine::{GpuOp, HostEvent, MAIN_STREAM, Machine, Place, Recording, Step};
use serde::Deserialize;

/// The GPU.
pub(crate) const DEVICE: &str = "NVIDIA H100 80GB HBM3";
const LOOP: &str = "train.py(61): train_one_epoch";
/// The Python function in which the host waits for a batch, and the range that PyTorch writes around it.
const LOADER: &str = "torch/utils/data/dataloader.py(733): __next__";
const LOADER_RANGE: &str = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";

/// A kernel or copy with its usual duration in microseconds.
type Kernel = (String, f64);

/// The kernels of a step (`training.json`).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    #[serde(rename = "about")]
    _about: String,
    batch: Vec<Kernel>,
    embedding: Vec<Kernel>,
    forward: Vec<Kernel>,
    loss: Vec<Kernel>,
    backward: Vec<Kernel>,
    optimizer: Vec<Kernel>,
    loss_to_host: Vec<Kernel>,
}

/// Plays a configuration.
pub(crate) fn play(config: &Config, seed: u64) -> Recording {
    let mut machine = Machine::new(seed, false);
    let plan = plan(config);
    let usual_us: f64 = plan.iter().map(|kernel| kernel.1).sum();
    let scale = config.step_us.map_or(1.0, |step_us| step_us / usual_us);
    for number in 0..config.steps {
        step(config, &mut machine, number, &plan, scale);
    }
    machine.wait(machine.free[0]);
    let end = machine.host + 10_000;
    machine.frame(LOOP, 900_000, end);
    machine.recording
}

/// The ops of a step. A graph for the whole step reads the batch and writes the loss in place.
fn plan(config: &Config) -> Vec<Kernel> {
    let model: Model = serde_json::from_str(include_str!("training.json")).unwrap();
    let layers = config.layers.len();
    let [forward, backward] = [model.forward, model.backward].map(|of_layer| vec![of_layer; layers].concat());
    let plan = [model.embedding, forward, model.loss, backward, model.optimizer].concat();
    if config.launch == Launch::Full { plan } else { [model.batch, plan, model.loss_to_host].concat() }
}

fn step(config: &Config, machine: &mut Machine, number: usize, plan: &[Kernel], scale: f64) {
    let start = machine.host;
    machine.host += machine.random.near(20_000, 0.2);
    let step_us: f64 = plan.iter().map(|kernel| kernel.1 * scale).sum();
    if let Some((least, most)) = config.stall {
        let ratio = least + (most - least) * machine.random.unit();
        let begin = machine.host;
        machine.host += (ratio * step_us * 1e3) as i64;
        let (name, end) = (LOADER_RANGE.to_owned(), machine.host);
        machine.recording.ranges.push(HostEvent { name, start: begin, end });
        machine.frame(LOADER, begin, end);
        machine.host += 3_000;
    }
    let graph = (config.launch == Launch::Full).then(|| machine.launch_graph(plan.len()));
    for (name, us) in plan {
        let correlation = graph.unwrap_or_else(|| machine.launch(name));
        let duration = machine.random.near((us * scale * 1e3) as i64, 0.02 + config.faults.noise).max(500);
        let (name, role, stream) = (name.clone(), String::new(), MAIN_STREAM);
        machine.run(GpuOp { name, role, start: 0, duration, stream, correlation, step: number, place: Place::Head });
        if graph.is_none() {
            machine.after_launch();
        }
    }
    machine.host += 4_000;
    if config.launch != Launch::Full {
        // The loop reads the loss.
        machine.wait(machine.free[0]);
    }
    let annotation = HostEvent { name: format!("ProfilerStep#{number}"), start, end: machine.host };
    machine.host += 1_000;
    machine.recording.steps.push(Step { stage: Stage::Training, annotation });
}
