//! Reads what a triage is made of: chooses among the files of folders, looks at what each turned out to hold, chooses
//! again, and runs the triage of every trace with the mapping traces at hand.
//!
//! A trace is dropped as soon as it is triaged; only mapping traces are kept.

use super::super::files;
use crate::analysis::results::{Notice, Run, Severity};
use crate::analysis::structure::stages::stage_of_path;
use crate::analysis::triage::{Framework, Options, Request, ServerArgs, Stage};
use crate::input::folder::{self, Aside, Chosen, Content, Entry, Selection};
use crate::ordering::VecMap;
use crate::session::{self, Choices, Opened};
use crate::trace::{Format, Trace};
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// What the person chose for all traces.
pub(super) struct Asked {
    pub(super) framework: Option<Framework>,
    pub(super) options: Options,
    pub(super) server: Option<ServerArgs>,
    pub(super) window: Option<String>,
}

/// What the traces of an argument are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be triaged.
    Formal,
    /// To tell where kernels come from.
    Mapping,
}

/// One argument: a file, or a folder of them.
struct Source {
    purpose: Purpose,
    root: PathBuf,
    is_file: bool,
    entries: Vec<Entry>,
    known: Vec<(usize, Content)>,
    /// Why files of a folder could not be read.
    refused: Vec<Aside>,
}

/// A file of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    source: usize,
    entry: usize,
}

/// What to do with all files, as far as is known.
#[derive(Default)]
struct Plan {
    traces: Vec<(Place, Option<usize>)>,
    mapping: Vec<Place>,
    aside: Vec<(Place, String)>,
}

/// Everything the person named.
pub(super) struct Batch<'a> {
    asked: &'a Asked,
    sources: Vec<Source>,
    mapping: Vec<(Place, Box<Trace>)>,
    /// With the mapping traces as they are now.
    done: Vec<(Place, Run)>,
}

impl Source {
    fn new(purpose: Purpose, path: &Path) -> Result<Self> {
        let about = std::fs::metadata(path).map_err(|error| Error::io(path.display().to_string(), &error))?;
        let mut entries = match about.is_dir() {
            true => files::entries(path)?,
            false => vec![session::folder_entry(&files::label(path), about.len(), 0)],
        };
        // The folders around may tell the stage where the names below do not.
        let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let around = session::stage_place(stage_of_path(&full.display().to_string()));
        entries.iter_mut().for_each(|entry| entry.stage = entry.stage.or(around));
        let is_file = !about.is_dir();
        Ok(Self { purpose, root: path.to_owned(), is_file, entries, known: Vec::new(), refused: Vec::new() })
    }

    fn path(&self, entry: usize) -> PathBuf {
        match self.entries.get(entry) {
            Some(entry) if !self.is_file => self.root.join(&entry.path),
            _ => self.root.clone(),
        }
    }

    fn label(&self, entry: usize) -> &str {
        self.entries.get(entry).map_or("", |entry| &entry.path)
    }

    fn content(&self, entry: usize) -> Option<Content> {
        self.known.iter().find(|(known, _)| *known == entry).map(|(_, content)| *content)
    }

    /// A file that the person named is taken whatever it is called.
    fn select(&self) -> Selection {
        if self.is_file {
            let traces = vec![Chosen { entry: 0, server_args: None }];
            return Selection { traces, ..Selection::default() };
        }
        let mut selection = folder::select(&self.entries, &self.known);
        for Aside { entry, why, .. } in &self.refused {
            let aside = selection.aside.iter_mut().filter(|aside| aside.entry == *entry);
            aside.for_each(|aside| aside.why.clone_from(why));
        }
        selection
    }

    fn stage(&self, entry: usize) -> Stage {
        session::stage_at(self.entries.get(entry).and_then(|entry| entry.stage))
    }

    /// The `server_args.json` that goes with a file: the one that the folder has, else the one in the folder above it, or
    /// beside a file.
    fn server_args(&self, chosen: Option<usize>) -> ServerArgs {
        const NAME: &str = "server_args.json";
        let beside = if self.is_file { self.root.with_file_name(NAME) } else { self.root.join(NAME) };
        let above = beside.with_file_name("..").join(NAME);
        let own = chosen.map(|entry| self.path(entry));
        let Some(path) = own.into_iter().chain([beside, above]).find(|path| path.is_file()) else {
            return ServerArgs::default();
        };
        // Nobody named this file: a bad one is told, and does without.
        files::aid(&path).and_then(|file| session::server_args(&file)).unwrap_or_else(|error| {
            files::warn(&format!("{error}; triaged without it"));
            ServerArgs::default()
        })
    }
}

impl<'a> Batch<'a> {
    pub(super) fn new(asked: &'a Asked, paths: &[(Purpose, PathBuf)]) -> Result<Self> {
        let sources = paths.iter().map(|(purpose, path)| Source::new(*purpose, path)).collect::<Result<_>>()?;
        Ok(Self { asked, sources, mapping: Vec::new(), done: Vec::new() })
    }

    /// A run for every trace, in the order of the arguments, then of stages.
    pub(super) fn runs(mut self) -> Result<Vec<Run>> {
        while let Some(place) = self.unread()? {
            self.read(place)?;
        }
        let plan = self.plan();
        let mut runs = Vec::new();
        for (place, server_args) in &plan.traces {
            let run = match self.done.iter().position(|(done, _)| done == place) {
                Some(at) => self.done.swap_remove(at).1,
                None => self.triage(*place, *server_args, &*self.open(*place)?)?,
            };
            runs.push(run);
        }
        if let Some(first) = runs.first_mut() {
            first.notices.extend(self.notice(&plan));
        }
        Ok(runs)
    }

    /// The next file to look at; mapping traces first, because every triage needs them.
    fn unread(&self) -> Result<Option<Place>> {
        let plan = self.plan();
        let is_unread = |place: &Place| self.source(*place).is_some_and(|source| source.content(place.entry).is_none());
        let traces = plan.traces.iter().map(|(place, _)| *place);
        let next = plan.mapping.iter().copied().chain(traces).find(is_unread);
        self.check(&plan)?;
        Ok(next)
    }

    fn source(&self, place: Place) -> Option<&Source> {
        self.sources.get(place.source)
    }

    fn plan(&self) -> Plan {
        let selections: Vec<Selection> = self.sources.iter().map(Source::select).collect();
        let formal = |(source, _): &(&Source, &Selection)| source.purpose == Purpose::Formal;
        let may_have_work = |(source, selection): (&Source, &Selection)| {
            let contents = selection.traces.iter().map(|chosen| source.content(chosen.entry));
            contents.into_iter().any(|content| matches!(content, None | Some(Content::Work)))
        };
        let others = self.sources.iter().zip(&selections).filter(formal).any(may_have_work);
        let mut plan = Plan::default();
        for (at, (source, selection)) in self.sources.iter().zip(selections).enumerate() {
            let place = |entry| Place { source: at, entry };
            for Chosen { entry, server_args } in selection.traces {
                match (source.purpose, source.content(entry)) {
                    (Purpose::Mapping, _) => plan.mapping.push(place(entry)),
                    // What the person named beside traces of work serves them.
                    (Purpose::Formal, Some(Content::Capture)) if others => plan.mapping.push(place(entry)),
                    (Purpose::Formal, Some(Content::HostOnly)) if others => {
                        plan.aside.push((place(entry), "no GPU work in it".to_owned()));
                    }
                    _ => plan.traces.push((place(entry), server_args)),
                }
            }
            plan.mapping.extend(selection.mapping.into_iter().map(place));
            plan.aside.extend(selection.aside.into_iter().map(|aside| (place(aside.entry), aside.why)));
        }
        plan
    }

    /// Refuses a folder of which nothing is left.
    fn check(&self, plan: &Plan) -> Result<()> {
        for (at, source) in self.sources.iter().enumerate() {
            let is_own = |place: &Place| place.source == at;
            let used = plan.traces.iter().any(|(place, _)| is_own(place)) || plan.mapping.iter().any(is_own);
            let set_aside: Vec<_> = plan.aside.iter().filter(|(place, _)| is_own(place)).collect();
            let serves = plan.traces.iter().map(|(place, _)| place).any(is_own) || source.purpose == Purpose::Mapping;
            if source.is_file || (used && (serves || !plan.traces.is_empty())) {
                continue;
            }
            let why = match set_aside.as_slice() {
                [] if source.entries.is_empty() => "an empty folder: no trace to triage".to_owned(),
                [] => "no trace to triage in it".to_owned(),
                [(first, why), others @ ..] => {
                    let more = if others.is_empty() { String::new() } else { format!(", and {} more", others.len()) };
                    format!("no trace to triage in it; set aside: {} ({why}){more}", source.label(first.entry))
                }
            };
            return Err(Error::refused(source.root.display().to_string(), why));
        }
        Ok(())
    }

    fn open(&self, place: Place) -> Result<Box<Trace>> {
        let source = self.source(place).ok_or_else(|| Error::usage("triage", "no such file"))?;
        let label = source.label(place.entry);
        let refused = |why: &str| Err(Error::refused(label, why));
        match files::open_with_code(&source.path(place.entry), label)? {
            Opened::Trace(trace) if trace.format == Format::TorchProfiler => Ok(trace),
            Opened::Trace(_) => refused(
                "no torch.profiler trace, and others hold no CPU ops and Python frames to triage by; `gpuprism report` and \
                 `gpuprism explain` read it",
            ),
            Opened::Report(_) => refused("an earlier report; `gpuprism report` shows it"),
            Opened::Rules(_) => refused("a rule file, not a trace"),
            Opened::Phases(_) => refused("a phase map, not a trace"),
            Opened::Server(_) => refused("arguments of a server, not a trace: give them with `--server-args`"),
        }
    }

    /// Looks at a file, and does with it what the plan says then.
    fn read(&mut self, place: Place) -> Result<()> {
        let is_file = self.source(place).is_some_and(|source| source.is_file);
        let trace = match self.open(place) {
            Err(error) if is_file => return Err(error),
            Err(error) => {
                let (why, label) =
                    (error.to_string(), self.source(place).map_or("", |source| source.label(place.entry)));
                let why = why.strip_prefix(label).and_then(|why| why.strip_prefix(": ")).unwrap_or(&why).to_owned();
                self.learn(place, Content::NoTrace, Some(why));
                return Ok(());
            }
            Ok(trace) => trace,
        };
        self.learn(place, folder::content(&trace), None);
        let plan = self.plan();
        if plan.mapping.contains(&place) {
            self.mapping.push((place, trace));
            self.mapping.retain(|(place, _)| plan.mapping.contains(place));
            // They were triaged without it.
            self.done.clear();
        } else if let Some((_, server_args)) = plan.traces.iter().find(|(chosen, _)| *chosen == place) {
            let run = self.triage(place, *server_args, &trace)?;
            self.done.push((place, run));
        }
        Ok(())
    }

    fn learn(&mut self, place: Place, content: Content, refused: Option<String>) {
        let Some(source) = self.sources.get_mut(place.source) else { return };
        source.known.push((place.entry, content));
        source.refused.extend(refused.map(|why| Aside { entry: place.entry, why, rank_beside: None }));
    }

    fn triage(&self, place: Place, server_args: Option<usize>, trace: &Trace) -> Result<Run> {
        let Some(source) = self.source(place) else { return Err(Error::usage("triage", "no such file")) };
        let stage = source.stage(place.entry);
        let beside;
        let server = match &self.asked.server {
            Some(given) => given,
            None => {
                beside = source.server_args(server_args);
                &beside
            }
        };
        let mapping = self.mapping_of(place, stage);
        let path = source.path(place.entry).display().to_string();
        let request = Request {
            trace,
            path: &path,
            file_stage: stage,
            mapping: &mapping,
            server,
            framework: self.asked.framework,
            options: &self.asked.options,
        };
        session::triage(
            &request,
            &Choices { without_sections: true, window: self.asked.window.clone(), ..Choices::default() },
        )
    }

    /// The mapping traces for a stage: its own and those of all stages, else all there are.
    fn mapping_of(&self, trace: Place, stage: Stage) -> Vec<&Trace> {
        let others = self.mapping.iter().filter(|(place, _)| *place != trace);
        let others: Vec<(Stage, &Trace)> = others
            .map(|(place, trace)| {
                (self.source(*place).map_or(Stage::All, |source| source.stage(place.entry)), &**trace)
            })
            .collect();
        let fits = |of: &Stage| stage == Stage::All || *of == Stage::All || *of == stage;
        let fitting: Vec<&Trace> = others.iter().filter(|(of, _)| fits(of)).map(|(_, trace)| *trace).collect();
        if fitting.is_empty() { others.into_iter().map(|(_, trace)| trace).collect() } else { fitting }
    }

    /// What was set aside, and the reasons.
    fn notice(&self, plan: &Plan) -> Option<Notice> {
        let mut reasons: VecMap<&str, Vec<&str>> = VecMap::new();
        for (place, why) in &plan.aside {
            let label = self.source(*place).map_or("", |source| source.label(place.entry));
            reasons.update(why.as_str(), Vec::new(), |labels| labels.push(label));
        }
        set_aside(&reasons.0)
    }
}

fn set_aside(reasons: &[(&str, Vec<&str>)]) -> Option<Notice> {
    const NAMED: usize = 5;
    let reason = |(why, labels): &(&str, Vec<&str>)| {
        let named: Vec<&str> = labels.iter().take(NAMED).copied().collect();
        let more = labels.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("{}{more} ({why})", named.join(", "))
    };
    let said: Vec<String> = reasons.iter().map(reason).collect();
    (!reasons.is_empty()).then(|| Notice {
        severity: Severity::Info,
        code: "set_aside".to_owned(),
        message: format!("set aside: {}", said.join("; ")),
        count: reasons.iter().map(|(_, labels)| labels.len() as u64).sum(),
        advice: "Name a file by itself to triage it.".to_owned(),
    })
}
