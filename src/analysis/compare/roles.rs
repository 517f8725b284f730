//! Compares the layers of runs by the role of their kernels, and steps with their floors. Kernels have different names on other
//! engines and GPUs, but the same roles, so these tables need no common unit of work. From the sections `layers`,
//! `layer_roles`, `steps` and `step_floor`; linear in their rows.

use super::Candidate;
use crate::analysis::inference::layers::{LayerRoleRow, LayerRoles, LayerRow, Layers, OUTSIDE};
use crate::analysis::inference::step_floor::{FloorOfSteps, StepFloorRow};
use crate::analysis::model_lines::{IDLE, LayerPart, layer_parts};
use crate::analysis::results::Run;
use crate::analysis::section::{Answer, Ms, Pct, TypedSection, Us, section};
use crate::analysis::structure::stages::Stage;
use crate::analysis::structure::steps::Steps;
use crate::ordering;
use crate::words::compare::{self as words, OtherLayers};

section! {
    /// One row per run, stage, kind of layer and role. A role that only one of the runs has is empty on the other side.
    pub(crate) struct CompareRoles("compare_roles", "Changes by role in a layer");
    row CompareRoleRow {
        run: String,
        stage: Stage,
        kind: String,
        role: String,
        baseline_kernels: Option<u64> = "Kernels, base",
        compared_kernels: Option<u64> = "Kernels",
        baseline_us: Option<Us>,
        compared_us: Option<Us> = "Time",
        delta_us: Us = "Change",
        layers: Option<u64>,
        step_delta_ms: Option<Ms> = "Change of a step",
    }
}

section! {
    /// One row per run and stage of which both runs have a floor that is not guessed.
    pub(crate) struct CompareFloor("compare_floor", "Steps against their floors");
    row CompareFloorRow {
        run: String,
        stage: Stage,
        baseline_measured_ms: Ms = "Busy, base",
        compared_measured_ms: Ms = "Busy",
        baseline_floor_ms: Ms = "Floor, base",
        compared_floor_ms: Ms = "Floor",
        baseline_of_hardware_pct: Pct = "Floor of busy, base",
        compared_of_hardware_pct: Pct = "Floor of busy",
    }
}

/// The role of the row with the whole layer.
const WHOLE: &str = "whole layer";

pub(super) fn roles(baseline: &Candidate, others: &[&Candidate]) -> Answer<CompareRoles> {
    let mut answer = CompareRoles::answer("the median time of each role of kernels in one layer")
        .limit("Kinds of layers are matched in the order of their frequency, kernels by their role. A role that is empty on one side is done by another kernel there, for example by a fused one.")
        .limit("The change of a step is the change of a layer times the number of layers. Rows outside of layers are times of a whole step.");
    for other in others {
        let after = Layers::rows(&other.run.sections);
        for before in &Layers::rows(&baseline.run.sections) {
            let is_same = |row: &&LayerRow| (row.stage, &row.kind) == (before.stage, &before.kind);
            if let Some(after) = after.iter().find(is_same) {
                let sides = Sides { label: other.label, before: (baseline.run, before), after: (other.run, after) };
                sides.add_rows(&mut answer);
            }
        }
        for stage in stages(baseline.run) {
            outside_rows(&mut answer.rows, other.label, stage, baseline.run, other.run);
        }
    }
    answer
}

/// The same kind of layer in two runs.
struct Sides<'a> {
    label: &'a str,
    before: (&'a Run, &'a LayerRow),
    after: (&'a Run, &'a LayerRow),
}

impl Sides<'_> {
    fn add_rows(&self, answer: &mut Answer<CompareRoles>) {
        let layers = self.layers(&mut answer.limits);
        let ((before_run, before), (after_run, after)) = (self.before, self.after);
        answer.rows.push(self.row(WHOLE, Some(&whole(before)), Some(&whole(after)), layers));
        // Durations that do not belong to their names say nothing on roles.
        if before_run.has_shifted_durations() || after_run.has_shifted_durations() {
            return;
        }
        let (before, after) = (layer_parts(before_run, before), layer_parts(after_run, after));
        let find = |parts: &'_ [LayerPart], role: &str| parts.iter().position(|part| part.role == role);
        let only_after = after.iter().filter(|part| find(&before, &part.role).is_none());
        let mut order: Vec<&LayerPart> = before.iter().chain(only_after).collect();
        ordering::sort_by_key(&mut order, |part| (part.role == IDLE, part.position.unwrap_or(u64::MAX)));
        for part in order {
            let side = |parts: &'_ [LayerPart]| find(parts, &part.role);
            let before = side(&before).and_then(|index| before.get(index));
            let after = side(&after).and_then(|index| after.get(index));
            answer.rows.push(self.row(&part.role, before, after, layers));
        }
    }

    /// The number of layers of this kind, if both runs have as many and the same batch; else says so in the section.
    fn layers(&self, limits: &mut Vec<String>) -> Option<f64> {
        let ((before_run, before), (after_run, after)) = (self.before, self.after);
        let stage = before.stage;
        let counts = (before.count, after.count);
        let batches = (batch(before_run, stage), batch(after_run, stage));
        let other = OtherLayers {
            counts: (counts.0 != counts.1).then_some((counts.0 as u64, counts.1 as u64, before.kind.as_str())),
            batches: batches.0.zip(batches.1).filter(|(one, other)| one != other),
        };
        if other.counts.is_none() && other.batches.is_none() {
            return Some(counts.0 as f64);
        }
        let limit = words::per_layer_only(self.label, stage.label(), other);
        if !limits.contains(&limit) {
            limits.push(limit);
        }
        None
    }

    fn row(
        &self,
        role: &str,
        before: Option<&LayerPart>,
        after: Option<&LayerPart>,
        layers: Option<f64>,
    ) -> CompareRoleRow {
        let us = |part: Option<&LayerPart>| part.map(|part| part.us);
        let kernels = |part: Option<&LayerPart>| part.map(|part| part.kernels).filter(|kernels| *kernels > 0);
        let delta_us = us(after).unwrap_or(0.0) - us(before).unwrap_or(0.0);
        CompareRoleRow {
            run: self.label.to_owned(),
            stage: self.before.1.stage,
            kind: self.before.1.kind.clone(),
            role: role.to_owned(),
            baseline_kernels: kernels(before),
            compared_kernels: kernels(after),
            baseline_us: us(before).map(Us),
            compared_us: us(after).map(Us),
            delta_us: Us(delta_us),
            layers: layers.map(|layers| layers as u64),
            step_delta_ms: layers.map(|layers| Ms(delta_us * layers / 1e3)),
        }
    }
}

/// A whole layer as one part: the median of the sums of its kernels.
fn whole(layer: &LayerRow) -> LayerPart {
    let (us, kernels) = (layer.median_us.map_or(0.0, |us| us.0), layer.kernels as u64);
    LayerPart { role: WHOLE.to_owned(), us, kernels, position: None, floor_us: None }
}

/// The rows of the parts of a step outside of its layers, without idle time.
fn parts_outside(run: &Run, stage: Stage) -> Vec<LayerRoleRow> {
    let is_part = |row: &LayerRoleRow| row.kind == OUTSIDE && row.stage == stage && !row.role.ends_with("idle");
    LayerRoles::rows(&run.sections).into_iter().filter(is_part).collect()
}

/// One row per part of a step outside of its layers.
fn outside_rows(rows: &mut Vec<CompareRoleRow>, label: &str, stage: Stage, before: &Run, after: &Run) {
    if !stages(after).contains(&stage) {
        return;
    }
    let (before, after) = (parts_outside(before, stage), parts_outside(after, stage));
    let mut names: Vec<&str> = before.iter().chain(&after).map(|row| row.role.as_str()).collect();
    ordering::sort_by(&mut names, Ord::cmp);
    names.dedup();
    for role in names {
        let find = |parts: &[LayerRoleRow]| parts.iter().find(|row| row.role == role).cloned();
        let us = |row: &Option<LayerRoleRow>| row.as_ref().map(|row| row.total_ns.0 as f64 / 1e3);
        let kernels = |row: &Option<LayerRoleRow>| row.as_ref().map(|row| row.kernels as u64);
        let (before, after) = (find(&before), find(&after));
        let delta_us = us(&after).unwrap_or(0.0) - us(&before).unwrap_or(0.0);
        rows.push(CompareRoleRow {
            run: label.to_owned(),
            stage,
            kind: OUTSIDE.to_owned(),
            role: role.to_owned(),
            baseline_kernels: kernels(&before),
            compared_kernels: kernels(&after),
            baseline_us: us(&before).map(Us),
            compared_us: us(&after).map(Us),
            delta_us: Us(delta_us),
            layers: None,
            step_delta_ms: Some(Ms(delta_us / 1e3)),
        });
    }
}

pub(super) fn floors(baseline: &Candidate, others: &[&Candidate]) -> Answer<CompareFloor> {
    let mut answer = CompareFloor::answer("measured steps and the least time that the hardware needs for them")
        .limit("The floor is the time that the hardware needs at least for the weights, the KV cache and the products of a step. Busy is the measured time in which the GPU works on it.");
    for other in others {
        let floors = sure_floors(other.run);
        for (stage, before) in sure_floors(baseline.run) {
            let Some((_, after)) = floors.iter().find(|(other, _)| *other == stage) else { continue };
            answer.rows.push(CompareFloorRow {
                run: other.label.to_owned(),
                stage,
                baseline_measured_ms: before.measured_ms,
                compared_measured_ms: after.measured_ms,
                baseline_floor_ms: before.floor_ms,
                compared_floor_ms: after.floor_ms,
                baseline_of_hardware_pct: before.of_hardware(),
                compared_of_hardware_pct: after.of_hardware(),
            });
        }
    }
    answer
}

/// What a step takes, and its floor.
#[derive(Debug, Clone, Copy)]
struct Floor {
    measured_ms: Ms,
    floor_ms: Ms,
}

impl Floor {
    fn of_hardware(&self) -> Pct {
        Pct(100.0 * self.floor_ms.0 / self.measured_ms.0)
    }
}

/// The floors that are not guessed. One above the measured time rests on a wrong assumption.
fn sure_floors(run: &Run) -> Vec<(Stage, Floor)> {
    let floor = |row: StepFloorRow| {
        let is_sure = matches!(row.confidence.as_deref(), Some("proven" | "inferred"));
        let floor = Floor { measured_ms: row.measured_ms, floor_ms: row.floor_ms? };
        let is_possible = floor.floor_ms.0 > 0.0 && floor.floor_ms.0 <= floor.measured_ms.0;
        (is_sure && is_possible).then_some((row.stage, floor))
    };
    FloorOfSteps::rows(&run.sections).into_iter().filter_map(floor).collect()
}

/// The stages with layers, in the order of their rows.
fn stages(run: &Run) -> Vec<Stage> {
    let mut stages: Vec<Stage> = Layers::rows(&run.sections).iter().map(|row| row.stage).collect();
    stages.dedup();
    stages
}

/// The mean batch of the steps of a stage, if known.
fn batch(run: &Run, stage: Stage) -> Option<f64> {
    Steps::rows(&run.sections).iter().find(|row| row.stage == stage)?.batch
}

#[cfg(test)]
mod tests;
