//! One case of a clause of the verdict or of a finding. A pass over the ops, gaps or
//! steps of the trace.

use super::idle_bars::IdleBar;
use super::moment::Place;
use super::{LaneKind, Timeline};
use crate::analysis::classified::ClassifiedTrace;
use crate::ordering;
use crate::rules::names::demangle;
use crate::trace::{DeviceId, GpuOp, Ns, OpKind, Trace, Window};

/// What a statement is about. The timeline shows the longest case of it, and of steps the one with the median length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Example {
    /// Idle time with one of these causes, in the words of the section `gpu_idle`.
    Idle(Vec<String>),
    /// The same between the first step of a device and the end of its last one.
    IdleInSteps(Vec<String>),
    /// Steps of this stage; of all stages if it is empty.
    Step(String),
    /// Ops of this category.
    Category(String),
    /// Launches of this kernel, with its name as in the file or demangled.
    Kernel(String),
    /// Copies whose names contain one of these words in lower case.
    Copy(Vec<String>),
    /// Communication kernels.
    Communication,
}

impl Example {
    /// The text that [`Example::parse`] reads: `idle host_late drained`.
    pub fn text(&self) -> String {
        match self {
            Self::Idle(causes) => format!("idle {}", causes.join(" ")),
            Self::IdleInSteps(causes) => format!("idle_in_steps {}", causes.join(" ")),
            Self::Step(stage) => format!("step {stage}"),
            Self::Category(category) => format!("category {category}"),
            Self::Kernel(name) => format!("kernel {name}"),
            Self::Copy(words) => format!("copy {}", words.join(" ")),
            Self::Communication => "communication ".to_owned(),
        }
    }

    /// `None` for a text that [`Example::text`] did not write.
    ///
    /// ```
    /// use gpuprism::analysis::timeline::Example;
    /// let gap = Example::Idle(vec!["host_late".to_owned(), "drained".to_owned()]);
    /// assert_eq!((Example::parse(&gap.text()), Example::parse("gap")), (Some(gap), None));
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, of) = text.split_once(' ')?;
        let words = || of.split_ascii_whitespace().map(str::to_owned).collect();
        Some(match kind {
            "idle" => Self::Idle(words()),
            "idle_in_steps" => Self::IdleInSteps(words()),
            "step" => Self::Step(of.to_owned()),
            "category" => Self::Category(of.to_owned()),
            "kernel" => Self::Kernel(of.to_owned()),
            "copy" => Self::Copy(words()),
            "communication" => Self::Communication,
            _ => return None,
        })
    }
}

impl Timeline {
    /// The case of a statement that starts within a window; `None` if there is none.
    pub fn example(&self, trace: &Trace, example: &Example, within: Window) -> Option<Place> {
        match example {
            Example::Idle(causes) => self.longest_gap(trace, causes, within, &|_, _| true),
            Example::IdleInSteps(causes) => {
                let extents = self.extents_of_steps(trace, within);
                self.longest_gap(trace, causes, within, &|device, gap| {
                    extents.get(device.0 as usize).is_some_and(|(first, last)| (*first..*last).contains(&gap.start))
                })
            }
            Example::Step(stage) => self.median_step(trace, stage, within),
            Example::Category(category) => {
                let index = self.categories.iter().position(|known| known == category)?;
                let is_category: Vec<bool> = self.category_of_name.iter().map(|of_name| *of_name == index).collect();
                self.longest_op(trace, within, &|op| is_category.get(op.name.0 as usize) == Some(&true))
            }
            Example::Kernel(name) => {
                let is_name: Vec<bool> = trace.names.iter().map(|raw| raw == name || demangle(raw) == *name).collect();
                self.longest_op(trace, within, &|op| is_name.get(op.name.0 as usize) == Some(&true))
            }
            Example::Copy(words) => {
                let has_word = |raw: &str| {
                    let name = raw.to_ascii_lowercase();
                    words.iter().any(|word| name.contains(word))
                };
                let has_word: Vec<bool> = trace.names.iter().map(has_word).collect();
                self.longest_op(trace, within, &|op| {
                    op.kind == OpKind::Copy && has_word.get(op.name.0 as usize) == Some(&true)
                })
            }
            Example::Communication => {
                let classified = ClassifiedTrace::new(trace);
                self.longest_op(trace, within, &|op| classified.is_communication(op.name))
            }
        }
    }

    /// By device: the start of its first step inside of a window and the end of its last one. Empty for a device without such steps.
    fn extents_of_steps(&self, trace: &Trace, within: Window) -> Vec<(Ns, Ns)> {
        let mut extents = vec![(Ns(i64::MAX), Ns(i64::MIN)); trace.devices.len()];
        let is_inside = |step: &&super::StepBar| step.start >= within.start && step.until <= within.end;
        for step in self.steps(trace).iter().filter(is_inside) {
            let of_device = step.device.and_then(|device| extents.get_mut(device.0 as usize));
            of_device
                .into_iter()
                .for_each(|(first, last)| (*first, *last) = (step.start.min(*first), step.until.max(*last)));
        }
        extents
    }

    fn longest_op(&self, trace: &Trace, within: Window, is_case: &dyn Fn(&GpuOp) -> bool) -> Option<Place> {
        let rows = trace.gpu_ops.count_starting_before(within.start)..trace.gpu_ops.count_starting_before(within.end);
        let cases = rows.filter_map(|row| Some((row, trace.gpu_ops.get(row).filter(is_case)?.duration)));
        let (row, _) = cases.reduce(|longest, next| if next.1 > longest.1 { next } else { longest })?;
        self.place_of_op(trace, row)
    }

    fn longest_gap(
        &self,
        trace: &Trace,
        causes: &[String],
        within: Window,
        is_case: &dyn Fn(DeviceId, &IdleBar) -> bool,
    ) -> Option<Place> {
        let cases = self.gaps(trace).iter().filter(|(device, _, gap)| {
            let is_cause = causes.iter().any(|cause| cause == gap.cause.word());
            is_cause && within.overlaps(gap.start, gap.start) && is_case(*device, gap)
        });
        let length = |(_, _, gap): &(DeviceId, usize, &IdleBar)| gap.length();
        let longest = cases.reduce(|longest, next| if length(&next) > length(&longest) { next } else { longest });
        let (device, row, _) = longest?;
        self.place(trace, self.lane(LaneKind::Idle(device))?, row)
    }

    fn median_step(&self, trace: &Trace, stage: &str, within: Window) -> Option<Place> {
        let steps = self.steps(trace).iter().enumerate();
        let is_case = |step: &super::StepBar| stage.is_empty() || step.stage.label() == stage;
        let mut cases: Vec<(usize, &super::StepBar)> =
            steps.filter(|(_, step)| within.overlaps(step.start, step.start) && is_case(step)).collect();
        ordering::sort_by_key(&mut cases, |(_, step)| step.until.since(step.start));
        let (row, step) = cases.get(cases.len().checked_sub(1)? / 2)?;
        self.place(trace, self.lane(LaneKind::Steps(step.device))?, *row)
    }
}
