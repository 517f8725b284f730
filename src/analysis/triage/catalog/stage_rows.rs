//! The kernel rows of a stage with their names prepared for search, and the hardware, model and ranks of the run.

use super::data::{CATALOG, Family, Hardware};
use super::name_words::{ChainPart, PartMatch};
use crate::analysis::triage::call_sites::Resolution;
use crate::analysis::triage::kernels::{KernelRow, RowCallSite};
use crate::analysis::triage::serving::{Deployment, Vendor};
use crate::analysis::triage::{Stage, View};
use crate::rules::names;
use crate::rules::needle::Haystack;
use crate::trace::{Ns, Pct};
use crate::words::catalog::evidence_row;

/// The properties of the run that do not differ between stages.
#[derive(Debug)]
pub(super) struct RunContext<'a> {
    pub(super) view: &'a View<'a>,
    deployment: Deployment,
    devices: Vec<Haystack>,
}

#[derive(Debug)]
pub(super) struct StageRows<'a> {
    pub(super) stage: Stage,
    pub(super) rows: Vec<StageRow<'a>>,
    /// The busy time that the GPU ops of the stage own.
    elapsed: Ns,
    /// The short names, parallel to `rows`.
    short_names: Vec<&'a str>,
}

/// A kernel row with its names prepared for search.
#[derive(Debug)]
pub(super) struct StageRow<'a> {
    pub(super) row: &'a KernelRow,
    /// Index among the rows of all stages.
    pub(super) index: usize,
    name: Haystack,
    sites: Vec<(&'a RowCallSite, SiteNames)>,
}

#[derive(Debug, Default)]
pub(super) struct SiteNames {
    /// The CPU op, as text and prepared for search.
    pub(super) cpu_op: (String, Haystack),
    pub(super) functions: Vec<String>,
    pub(super) files: Vec<String>,
}

/// Which name of a row matched a family, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MatchedIn {
    Kernel,
    CpuOp,
    Function,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FamilyMatch {
    pub(super) matched_in: MatchedIn,
    /// Length of the longest matching word; longer words are more specific.
    pub(super) length: usize,
    /// The busy time that the matching part of the row owns.
    pub(super) elapsed: Ns,
}

impl<'a> RunContext<'a> {
    pub(super) fn new(view: &'a View<'a>) -> Self {
        let devices = view.trace.devices.iter().map(|device| Haystack::new(&device.name)).collect();
        Self { view, deployment: Deployment::new(view), devices }
    }

    /// True if the smallest step of the stage does not exceed the family's token limit, or if either is unknown.
    pub(super) fn has_few_tokens(&self, family: &Family, stage: Stage) -> bool {
        let min_tokens = self.deployment.min_tokens.get(&stage);
        family.max_tokens.zip(min_tokens).is_none_or(|(limit, tokens)| *tokens <= limit)
    }

    /// True if the family can run on this hardware; false if the hardware is unknown.
    pub(super) fn has_hardware(&self, family: &Family) -> bool {
        let words = &CATALOG.hardware;
        let has_device = |words: &[String]| self.devices.iter().any(|device| device.contains_any(words));
        match family.hardware {
            None => true,
            Some(Hardware::Cuda) => self.deployment.vendor == Some(Vendor::Nvidia),
            Some(Hardware::Rocm) => self.deployment.vendor == Some(Vendor::Amd),
            Some(Hardware::Hopper) => has_device(&words.hopper),
            Some(Hardware::Blackwell) => has_device(&words.blackwell),
            Some(Hardware::HopperBlackwell) => has_device(&words.hopper) || has_device(&words.blackwell),
            Some(Hardware::Npu) => self.deployment.vendor == Some(Vendor::Npu),
        }
    }

    /// True if the model is one of the family's; `None` if the family is for any model or the model is unknown.
    pub(super) fn has_model(&self, family: &Family) -> Option<bool> {
        let is_decidable = !family.model.is_empty() && !self.deployment.models.is_empty();
        is_decidable.then(|| self.deployment.models.iter().any(|name| family.model.any_in(name)))
    }

    /// True if the run is known to have the tensor-parallel ranks that the family needs.
    pub(super) fn has_known_ranks(&self, family: &Family) -> bool {
        family.tp >= 2 && self.deployment.tp_size.is_some_and(|ranks| ranks >= u64::from(family.tp))
    }

    /// True if the family can run on this hardware, with this model and these ranks.
    pub(super) fn supports(&self, family: &Family, stage_rows: &StageRows) -> bool {
        let has_model = family.model.is_empty() || self.has_model(family) == Some(true);
        has_model && self.has_hardware(family) && self.has_ranks(family, stage_rows)
    }

    /// True if the run has the tensor-parallel ranks that the family needs; if their number is unknown, true if the stage has
    /// communication.
    fn has_ranks(&self, family: &Family, stage_rows: &StageRows) -> bool {
        let has_communication = || stage_rows.rows.iter().any(|row| row.row.category == "communication");
        family.tp < 2 || self.deployment.tp_size.map_or_else(has_communication, |ranks| ranks >= u64::from(family.tp))
    }
}

impl<'a> StageRows<'a> {
    pub(super) fn new(view: &'a View, stage: Stage, rows: &'a [KernelRow]) -> Self {
        let of_stage = rows.iter().enumerate().filter(|(_, row)| row.stage == stage);
        let rows: Vec<StageRow> = of_stage.map(|(index, row)| StageRow::new(index, row)).collect();
        let short_names = rows.iter().map(|row| row.row.short_name(view)).collect();
        Self { stage, rows, short_names, elapsed: view.times().of_stage(stage).elapsed }
    }

    /// The share of the stage's busy time, in percent.
    pub(super) fn share_pct(&self, elapsed: Ns) -> f64 {
        Pct::of(elapsed, self.elapsed).0
    }

    /// The share of a time of the rows at these indices, in percent; `None` if durations of the rows do not belong to their names.
    pub(super) fn share_of_rows(&self, rows: &[usize], elapsed: Ns) -> Option<f64> {
        let is_shifted = |row: &usize| self.rows.get(*row).is_some_and(|row| row.row.has_shifted_durations);
        (!rows.iter().any(is_shifted)).then(|| self.share_pct(elapsed))
    }

    /// The short name of the row at an index of `rows`.
    pub(super) fn short_name(&self, index: usize) -> &str {
        self.short_names.get(index).copied().unwrap_or_default()
    }

    /// The line of evidence for the row at an index of `rows`.
    pub(super) fn evidence_line(&self, index: usize) -> Option<String> {
        let (row, name) = (self.rows.get(index)?.row, self.short_name(index));
        Some(evidence_row(name, row.share_of_busy_time().map(Pct), row.launches))
    }
}

impl<'a> StageRow<'a> {
    fn new(index: usize, row: &'a KernelRow) -> Self {
        let with_names = |site: &'a RowCallSite| (site, SiteNames::new(&site.location, &site.stack, &site.cpu_op));
        let sites = row.call_sites.iter().filter(|site| is_direct(site.resolution)).map(with_names).collect();
        Self { row, index, name: Haystack::new(&names::demangle(&row.name)), sites }
    }

    pub(super) fn matches_part(&self, part: &ChainPart) -> bool {
        match &part.matches {
            PartMatch::Name(words) => words.any_in(&self.name),
            PartMatch::Category(category) => self.row.category == *category,
        }
    }

    /// Matches the names of the row with the words of a family.
    pub(super) fn match_family(&self, family: &Family) -> Option<FamilyMatch> {
        let in_name = family.names.longest_in(&self.name).max(family.kernels.longest_in(&self.name));
        if let Some(length) = in_name {
            return Some(FamilyMatch { matched_in: MatchedIn::Kernel, length, elapsed: Ns(self.row.elapsed_ns) });
        }
        let in_cpu_op = |names: &SiteNames| family.names.longest_in(&names.cpu_op.1);
        let in_functions = |names: &SiteNames| {
            let longest = |name: &String| family.names.whole_name(name).max(family.functions.whole_name(name));
            names.functions.iter().filter_map(longest).max()
        };
        self.match_sites(MatchedIn::CpuOp, &in_cpu_op).or_else(|| self.match_sites(MatchedIn::Function, &in_functions))
    }

    fn match_sites(&self, matched_in: MatchedIn, longest: &dyn Fn(&SiteNames) -> Option<usize>) -> Option<FamilyMatch> {
        let mut hit: Option<FamilyMatch> = None;
        for (site, names) in &self.sites {
            let Some(length) = longest(names) else { continue };
            let hit = hit.get_or_insert(FamilyMatch { matched_in, length, elapsed: Ns::ZERO });
            hit.length = hit.length.max(length);
            hit.elapsed += Ns(site.elapsed_ns);
        }
        hit
    }
}

/// True if the call site is known for this kernel itself, not for a graph replay or a kernel with a similar name.
pub(super) fn is_direct(resolution: Resolution) -> bool {
    matches!(resolution, Resolution::Exact | Resolution::ByLaunch | Resolution::BorrowedExact)
}

impl SiteNames {
    pub(super) fn new(location: &str, stack: &[String], cpu_op: &str) -> Self {
        let frames = || stack.iter().map(String::as_str).chain([location]).filter(|frame| !frame.is_empty());
        Self {
            cpu_op: (cpu_op.to_owned(), Haystack::new(cpu_op)),
            functions: frames().map(|frame| function(frame).to_owned()).collect(),
            files: frames().filter_map(file).map(str::to_owned).collect(),
        }
    }
}

/// Returns `forward` for `path.py(281): forward` and `path.py:281 forward`.
fn function(frame: &str) -> &str {
    frame.rsplit_once(['(', ':', ' ']).map_or(frame, |_| match frame.rsplit_once("): ") {
        Some((_, function)) => function,
        None => frame.rsplit_once(' ').map_or("", |(_, function)| function),
    })
}

/// Returns `path.py` for the same frames.
fn file(frame: &str) -> Option<&str> {
    frame.find(".py").and_then(|start| frame.get(..start + ".py".len()))
}
