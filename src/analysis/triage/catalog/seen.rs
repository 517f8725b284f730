//! One stage of a run as the catalog looks at it: its kernel rows with their names made ready to be searched, the
//! machine and the model.

use super::data::{Catalog, Family, Hardware};
use super::words::{Part, PartIs};
use crate::analysis::triage::call_sites::Resolution;
use crate::analysis::triage::fuse::fewest_tokens;
use crate::analysis::triage::kernels::{KernelRow, RowCallSite};
use crate::analysis::triage::serving::{Deployment, Vendor};
use crate::analysis::triage::times::percent;
use crate::analysis::triage::{Stage, View};
use crate::ordering::VecMap;
use crate::rules::names;
use crate::rules::needle::{Haystack, Needle};
use crate::trace::Ns;

/// What is known of the run as a whole.
#[derive(Debug)]
pub(super) struct Run<'a> {
    /// The run.
    pub(super) view: &'a View<'a>,
    setting: Deployment,
    devices: Vec<Haystack>,
    /// Tokens of each stage's smallest step.
    fewest_tokens: VecMap<Stage, u64>,
}

/// The rows of one stage.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    /// Which.
    pub(super) stage: Stage,
    /// Its rows.
    pub(super) rows: Vec<SeenRow<'a>>,
    /// Sum of their durations.
    total: Ns,
}

/// A kernel row, ready to be searched.
#[derive(Debug)]
pub(super) struct SeenRow<'a> {
    /// The row.
    pub(super) row: &'a KernelRow,
    /// Its place among the rows of all stages.
    pub(super) at: usize,
    name: Haystack,
    sites: Vec<(&'a RowCallSite, Place)>,
}

/// The names of one place in the code.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The CPU op, and the same to be searched.
    pub(super) op: (String, Haystack),
    /// The functions of the stack.
    pub(super) functions: Vec<String>,
    /// Source files of the stack.
    pub(super) files: Vec<String>,
}

/// What of a row belongs to a family: how that shows, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum By {
    /// By the kernel's name.
    Kernel,
    /// By the CPU op.
    Op,
    /// By a function of the stack.
    Function,
}

/// A row that a family's words hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    /// Where the word stands.
    pub(super) by: By,
    /// How long the word is: the longer, the more it says.
    pub(super) length: usize,
    /// Duration of what is hit.
    pub(super) duration: Ns,
}

impl<'a> Run<'a> {
    /// Looks at what does not differ between stages.
    pub(super) fn new(view: &'a View<'a>) -> Self {
        Self { view, setting: Deployment::new(view), devices: devices(view), fewest_tokens: fewest_tokens(view) }
    }

    /// Does any step of the stage have as few tokens as the family takes? What is not known is yes.
    pub(super) fn has_few_tokens(&self, family: &Family, stage: Stage) -> bool {
        let fewest = self.fewest_tokens.get(&stage);
        family.max_tokens.zip(fewest).is_none_or(|(most, fewest)| *fewest <= most)
    }

    /// Can the family run on this machine? What is not known is no.
    pub(super) fn has_hardware(&self, family: &Family) -> bool {
        let words = &Catalog::embedded().hardware;
        let names = |words: &[String]| {
            let needles: Vec<Needle> = words.iter().filter_map(|word| Needle::new(word)).collect();
            self.devices.iter().any(|device| needles.iter().any(|needle| needle.is_in(device)))
        };
        match family.hardware {
            None => true,
            Some(Hardware::Cuda) => self.setting.vendor == Some(Vendor::Nvidia),
            Some(Hardware::Rocm) => self.setting.vendor == Some(Vendor::Amd),
            Some(Hardware::Hopper) => names(&words.hopper),
            Some(Hardware::Blackwell) => names(&words.blackwell),
            Some(Hardware::Npu) => self.setting.vendor == Some(Vendor::Npu),
        }
    }

    /// Is the model one of the family's? `None` where the family is of any model, or the model is not known.
    pub(super) fn has_model(&self, family: &Family) -> Option<bool> {
        let asks = !family.model.is_empty() && !self.setting.models.is_empty();
        asks.then(|| self.setting.models.iter().any(|name| family.model.any_in(name)))
    }

    /// Is the run told to have as many ranks of tensor parallelism as the family needs?
    pub(super) fn is_told_ranks(&self, family: &Family) -> bool {
        family.tp >= 2 && self.setting.tp_size.is_some_and(|ranks| ranks >= u64::from(family.tp))
    }

    /// Does the run have as many ranks of tensor parallelism as the family needs? Where nothing tells,
    /// communication in the stage does.
    pub(super) fn has_ranks(&self, family: &Family, seen: &Seen) -> bool {
        let communicates = || seen.rows.iter().any(|seen| seen.row.category == "communication");
        family.tp < 2 || self.setting.tp_size.map_or_else(communicates, |ranks| ranks >= u64::from(family.tp))
    }
}

impl<'a> Seen<'a> {
    /// The rows of this stage.
    pub(super) fn new(view: &View, stage: Stage, rows: &'a [KernelRow]) -> Self {
        let of_stage = rows.iter().enumerate().filter(|(_, row)| row.stage == stage);
        let rows: Vec<SeenRow> = of_stage.map(|(at, row)| SeenRow::new(at, row)).collect();
        Self { stage, rows, total: view.times().of_stage(stage).duration }
    }

    /// Of the stage's sum of durations, a part of a hundred.
    pub(super) fn share_pct(&self, duration: Ns) -> f64 {
        percent(duration, self.total)
    }

    /// A line of evidence on the row at this place of `rows`.
    pub(super) fn line(&self, at: usize) -> Option<String> {
        let row = self.rows.get(at)?.row;
        let name = names::short(&names::demangle(&row.name));
        Some(format!("{name}: {:.1} %, {} launches", self.share_pct(Ns(row.duration_ns)), row.launches))
    }
}

impl<'a> SeenRow<'a> {
    fn new(at: usize, row: &'a KernelRow) -> Self {
        let place = |site: &'a RowCallSite| (site, Place::new(&site.location, &site.stack, &site.cpu_op));
        let sites = row.call_sites.iter().filter(|site| is_own(site.resolution)).map(place).collect();
        Self { row, at, name: Haystack::new(&names::demangle(&row.name)), sites }
    }

    /// Can the kernel stand at this place of a row?
    pub(super) fn can_be(&self, part: &Part) -> bool {
        match &part.is {
            PartIs::Named(words) => words.any_in(&self.name),
            PartIs::OfCategory(category) => self.row.category == *category,
        }
    }

    /// What of the row the family's words hit.
    pub(super) fn hit(&self, family: &Family) -> Option<Hit> {
        let in_name = family.names.longest_in(&self.name).max(family.kernels.longest_in(&self.name));
        if let Some(length) = in_name {
            return Some(Hit { by: By::Kernel, length, duration: Ns(self.row.duration_ns) });
        }
        let by_op = |place: &Place| family.names.longest_in(&place.op.1);
        let by_function = |place: &Place| {
            let longest = |name: &String| family.names.whole(name).max(family.functions.whole(name));
            place.functions.iter().filter_map(longest).max()
        };
        self.at_sites(By::Op, &by_op).or_else(|| self.at_sites(By::Function, &by_function))
    }

    fn at_sites(&self, by: By, longest: &dyn Fn(&Place) -> Option<usize>) -> Option<Hit> {
        let mut hit: Option<Hit> = None;
        for (site, place) in &self.sites {
            let Some(length) = longest(place) else { continue };
            let hit = hit.get_or_insert(Hit { by, length, duration: Ns::ZERO });
            hit.length = hit.length.max(length);
            hit.duration += Ns(site.duration_ns);
        }
        hit
    }
}

/// Is the place the kernel's own, and not that of a graph's replay or one borrowed from a kernel of a like name?
pub(super) fn is_own(found: Resolution) -> bool {
    matches!(found, Resolution::Exact | Resolution::ByLaunch | Resolution::BorrowedExact)
}

impl Place {
    /// Takes the names apart.
    pub(super) fn new(location: &str, stack: &[String], cpu_op: &str) -> Self {
        let frames = || stack.iter().map(String::as_str).chain([location]).filter(|frame| !frame.is_empty());
        Self {
            op: (cpu_op.to_owned(), Haystack::new(cpu_op)),
            functions: frames().map(|frame| function(frame).to_owned()).collect(),
            files: frames().filter_map(file).map(str::to_owned).collect(),
        }
    }
}

/// The function of `path.py(281): forward` or `path.py:281 forward`.
fn function(frame: &str) -> &str {
    frame.rsplit_once(['(', ':', ' ']).map_or(frame, |_| match frame.rsplit_once("): ") {
        Some((_, function)) => function,
        None => frame.rsplit_once(' ').map_or("", |(_, function)| function),
    })
}

/// The path of either.
fn file(frame: &str) -> Option<&str> {
    frame.find(".py").and_then(|at| frame.get(..at + ".py".len()))
}

fn devices(view: &View) -> Vec<Haystack> {
    view.trace.devices.iter().map(|device| Haystack::new(&device.name)).collect()
}
