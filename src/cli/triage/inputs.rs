//! Selects and reads the input files of a triage and runs the triage of every selected trace.
//!
//! `input::folder` selects files of a folder by name. After a file is read, its content may change the selection, so the plan
//! is computed again after every file until all selected files are read. A trace is dropped after its triage; only mapping
//! traces stay in memory.

use super::super::files::{self, StandardError};
use crate::analysis::results::{Notice, Run, Severity};
use crate::analysis::structure::stages::stage_of_path;
use crate::analysis::triage::{Framework, Options, Request, ServerArgs, Stage};
use crate::files::captured::captured;
use crate::files::{Neighbours, is_standard_input};
use crate::input::folder::{self, Chosen, Content, Entry, Selection, Skipped};
use crate::ordering::VecMap;
use crate::session::{self, Choices, Opened, SERVER_ARGS};
use crate::trace::{Format, Trace};
use crate::{Error, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The settings for all traces of a triage.
pub(super) struct Settings {
    pub(super) framework: Option<Framework>,
    pub(super) options: Options,
    pub(super) server: Option<ServerArgs>,
    pub(super) window: Option<String>,
}

/// The purpose of the traces of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be triaged.
    Formal,
    /// To find the code that launched the kernels of the formal traces.
    Mapping,
}

/// One argument: a file or a folder.
struct Source {
    purpose: Purpose,
    root: PathBuf,
    is_file: bool,
    entries: Vec<Entry>,
    /// The contents of the files that were read so far, by entry.
    contents: HashMap<usize, Content>,
    /// The files of a folder that could not be read, with the reason.
    unreadable: Vec<Skipped>,
}

/// Identifies a file by the indices of its source and its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FileId {
    source: usize,
    entry: usize,
}

/// The use of each file, based on the files that were read so far.
#[derive(Default)]
struct Plan {
    /// Traces to triage, with the entry of their server arguments.
    traces: Vec<(FileId, Option<usize>)>,
    mapping: Vec<FileId>,
    /// Skipped files, with the reason.
    skipped: Vec<(FileId, String)>,
}

/// All inputs of a triage.
pub(super) struct Batch<'a> {
    settings: &'a Settings,
    sources: Vec<Source>,
    mapping: Vec<(FileId, Box<Trace>)>,
    /// The triages that were done with all traces of `mapping`.
    done: Vec<(FileId, Run)>,
}

impl Source {
    fn new(purpose: Purpose, path: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
        let metadata = (!is_standard_input(path)).then(|| std::fs::metadata(path).map_err(failed)).transpose()?;
        let is_file = !metadata.as_ref().is_some_and(std::fs::Metadata::is_dir);
        let bytes = metadata.map_or(0, |metadata| metadata.len());
        let mut entries = match is_file {
            false => files::entries(path, None, &StandardError)?,
            true => vec![session::folder_entry(&files::label(path), bytes, 0)],
        };
        // If a file name does not contain the stage, a parent folder may.
        let full_path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let stage = session::stage_index(stage_of_path(&full_path.display().to_string()));
        entries.iter_mut().for_each(|entry| entry.stage = entry.stage.or(stage));
        Ok(Self { purpose, root: path.to_owned(), is_file, entries, contents: HashMap::new(), unreadable: Vec::new() })
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
        self.contents.get(&entry).copied()
    }

    /// The selected files. A file given by name is always selected.
    fn select(&self) -> Selection {
        if self.is_file {
            let traces = vec![Chosen { entry: 0, server_args: None }];
            return Selection { traces, ..Selection::default() };
        }
        let contents: Vec<_> = self.contents.iter().map(|(entry, content)| (*entry, *content)).collect();
        let mut selection = folder::select(&self.entries, &contents);
        for Skipped { entry, why, .. } in &self.unreadable {
            let aside = selection.skipped.iter_mut().filter(|aside| aside.entry == *entry);
            aside.for_each(|aside| aside.why.clone_from(why));
        }
        selection
    }

    fn stage(&self, entry: usize) -> Stage {
        session::stage_with_index(self.entries.get(entry).and_then(|entry| entry.stage))
    }

    /// The server arguments from the selected entry, else from `server_args.json` beside the traces.
    fn server_args(&self, chosen: Option<usize>) -> ServerArgs {
        let near = match chosen.map(|entry| self.path(entry)).filter(|path| path.is_file()) {
            Some(selected) => selected,
            None if self.is_file => self.root.clone(),
            None => self.root.join(SERVER_ARGS),
        };
        let file = Neighbours::of(&near, None, &StandardError).server_args();
        file.and_then(|file| session::server_args(&file).ok()).unwrap_or_default()
    }
}

impl<'a> Batch<'a> {
    pub(super) fn new(settings: &'a Settings, paths: &[(Purpose, PathBuf)]) -> Result<Self> {
        let sources = paths.iter().map(|(purpose, path)| Source::new(*purpose, path)).collect::<Result<_>>()?;
        Ok(Self { settings, sources, mapping: Vec::new(), done: Vec::new() })
    }

    /// One run for every trace, in the order of the arguments and then of stages.
    pub(super) fn runs(mut self) -> Result<Vec<Run>> {
        while let Some(file) = self.next_unread()? {
            self.read(file)?;
        }
        let plan = self.plan();
        let mut runs = Vec::new();
        for (file, server_args) in &plan.traces {
            let run = match self.done.iter().position(|(done, _)| done == file) {
                Some(index) => self.done.swap_remove(index).1,
                None => self.triage(*file, *server_args, &*self.open(*file)?)?,
            };
            runs.push(run);
        }
        if let Some(first) = runs.first_mut() {
            first.notices.extend(self.notice(&plan));
        }
        Ok(runs)
    }

    /// The next file to read. Mapping traces come first, because every triage needs them.
    fn next_unread(&self) -> Result<Option<FileId>> {
        let plan = self.plan();
        let is_unread = |file: &FileId| self.source(*file).is_some_and(|source| source.content(file.entry).is_none());
        let traces = plan.traces.iter().map(|(file, _)| *file);
        let next = plan.mapping.iter().copied().chain(traces).find(is_unread);
        self.check(&plan)?;
        Ok(next)
    }

    fn source(&self, file: FileId) -> Option<&Source> {
        self.sources.get(file.source)
    }

    fn plan(&self) -> Plan {
        let selections: Vec<Selection> = self.sources.iter().map(Source::select).collect();
        let is_formal = |(source, _): &(&Source, &Selection)| source.purpose == Purpose::Formal;
        let may_have_work = |(source, selection): (&Source, &Selection)| {
            let contents = selection.traces.iter().map(|chosen| source.content(chosen.entry));
            contents.into_iter().any(|content| matches!(content, None | Some(Content::Work)))
        };
        let has_work = self.sources.iter().zip(&selections).filter(is_formal).any(may_have_work);
        let mut plan = Plan::default();
        for (source_index, (source, selection)) in self.sources.iter().zip(selections).enumerate() {
            let file = |entry| FileId { source: source_index, entry };
            for Chosen { entry, server_args } in selection.traces {
                match (source.purpose, source.content(entry)) {
                    (Purpose::Mapping, _) => plan.mapping.push(file(entry)),
                    // A capture given together with traces of GPU work is used as a mapping trace.
                    (Purpose::Formal, Some(Content::Capture)) if has_work => plan.mapping.push(file(entry)),
                    (Purpose::Formal, Some(Content::HostOnly)) if has_work => {
                        plan.skipped.push((file(entry), "no GPU work".to_owned()));
                    }
                    _ => plan.traces.push((file(entry), server_args)),
                }
            }
            plan.mapping.extend(selection.mapping.into_iter().map(file));
            plan.skipped.extend(selection.skipped.into_iter().map(|aside| (file(aside.entry), aside.why)));
        }
        plan
    }

    /// Returns an error for a folder in which no file is used.
    fn check(&self, plan: &Plan) -> Result<()> {
        for (source_index, source) in self.sources.iter().enumerate() {
            let is_here = |file: &FileId| file.source == source_index;
            let has_traces = plan.traces.iter().any(|(file, _)| is_here(file));
            let is_used = has_traces || plan.mapping.iter().any(is_here);
            let skipped: Vec<_> = plan.skipped.iter().filter(|(file, _)| is_here(file)).collect();
            let serves_purpose = has_traces || source.purpose == Purpose::Mapping;
            if source.is_file || (is_used && (serves_purpose || !plan.traces.is_empty())) {
                continue;
            }
            let why = match skipped.as_slice() {
                [] if source.entries.is_empty() => "an empty folder: no trace to triage".to_owned(),
                [] => "no trace to triage in this folder".to_owned(),
                [(first, why), others @ ..] => {
                    let more = if others.is_empty() { String::new() } else { format!(", and {} more", others.len()) };
                    format!("no trace to triage in this folder; skipped: {} ({why}){more}", source.label(first.entry))
                }
            };
            return Err(Error::refused(source.root.display().to_string(), why));
        }
        Ok(())
    }

    fn open(&self, file: FileId) -> Result<Box<Trace>> {
        let source = self.source(file).ok_or_else(|| Error::usage("triage", "no such file"))?;
        let label = source.label(file.entry);
        let refused = |why: &str| Err(Error::refused(label, why));
        match files::open_with_code(&source.path(file.entry), label)? {
            Opened::Trace(trace) if trace.format == Format::TorchProfiler => Ok(trace),
            Opened::Trace(_) => refused(
                "not a torch.profiler trace; other formats lack the CPU ops and Python frames that a triage needs: use \
                 `gpuprism report` or `gpuprism explain` for this file",
            ),
            Opened::Report(report) => {
                refused(&format!("{}; a triage needs a trace: use `gpuprism report` for this file", report.kind()))
            }
            Opened::Rules(_) => refused("a rule file, not a trace"),
            Opened::Phases(_) => refused("a phase map, not a trace"),
            Opened::ModelConfig(_) => refused("the config of a model, not a trace"),
            Opened::Server(_) => refused("server arguments, not a trace: use `--server-args` for it"),
        }
    }

    /// Reads a file, records its content, and triages or keeps it if the new plan says so.
    fn read(&mut self, file: FileId) -> Result<()> {
        let is_file = self.source(file).is_some_and(|source| source.is_file);
        let trace = match self.open(file) {
            Err(error) if is_file => return Err(error),
            Err(error) => {
                let (why, label) = (error.to_string(), self.source(file).map_or("", |source| source.label(file.entry)));
                let why = why.strip_prefix(label).and_then(|why| why.strip_prefix(": ")).unwrap_or(&why).to_owned();
                self.record(file, Content::NoTrace, Some(why));
                return Ok(());
            }
            Ok(trace) => trace,
        };
        self.record(file, folder::content(&trace), None);
        let plan = self.plan();
        if plan.mapping.contains(&file) {
            self.mapping.push((file, trace));
            self.mapping.retain(|(file, _)| plan.mapping.contains(file));
            // Earlier triages did not use this mapping trace and have to be repeated.
            self.done.clear();
        } else if let Some((_, server_args)) = plan.traces.iter().find(|(planned, _)| *planned == file) {
            let run = self.triage(file, *server_args, &trace)?;
            self.done.push((file, run));
        }
        Ok(())
    }

    fn record(&mut self, file: FileId, content: Content, unreadable: Option<String>) {
        let Some(source) = self.sources.get_mut(file.source) else { return };
        source.contents.insert(file.entry, content);
        source.unreadable.extend(unreadable.map(|why| Skipped { entry: file.entry, why, other_rank_of: None }));
    }

    fn triage(&self, file: FileId, server_args: Option<usize>, trace: &Trace) -> Result<Run> {
        let Some(source) = self.source(file) else { return Err(Error::usage("triage", "no such file")) };
        let stage = source.stage(file.entry);
        let found;
        let server = match &self.settings.server {
            Some(given) => given,
            None => {
                found = source.server_args(server_args);
                &found
            }
        };
        let mapping = self.mapping_traces(file, stage);
        let path = source.path(file.entry).display().to_string();
        let request = Request {
            trace,
            path: &path,
            file_stage: stage,
            mapping: &mapping,
            server,
            framework: self.settings.framework,
            options: &self.settings.options,
        };
        let choices = Choices { without_sections: true, window: self.settings.window.clone(), ..Choices::default() };
        let mut run = session::triage(&request, &choices)?;
        if let Some(captured) = captured(&Neighbours::of(&source.path(file.entry), None, &StandardError)) {
            captured.put(&mut run.sections);
        }
        Ok(run)
    }

    /// The mapping traces of this stage and of all stages; all mapping traces if there are none of these.
    fn mapping_traces(&self, file: FileId, stage: Stage) -> Vec<&Trace> {
        let others = self.mapping.iter().filter(|(mapping, _)| *mapping != file);
        let others: Vec<(Stage, &Trace)> = others
            .map(|(mapping, trace)| {
                (self.source(*mapping).map_or(Stage::All, |source| source.stage(mapping.entry)), &**trace)
            })
            .collect();
        let fits = |other: &Stage| stage == Stage::All || *other == Stage::All || *other == stage;
        let fitting: Vec<&Trace> = others.iter().filter(|(other, _)| fits(other)).map(|(_, trace)| *trace).collect();
        if fitting.is_empty() { others.into_iter().map(|(_, trace)| trace).collect() } else { fitting }
    }

    /// A notice that lists the skipped files by reason.
    fn notice(&self, plan: &Plan) -> Option<Notice> {
        let mut reasons: VecMap<&str, Vec<&str>> = VecMap::new();
        for (file, why) in &plan.skipped {
            let label = self.source(*file).map_or("", |source| source.label(file.entry));
            reasons.update(why.as_str(), Vec::new(), |labels| labels.push(label));
        }
        skipped_files(&reasons.into_vec())
    }
}

fn skipped_files(reasons: &[(&str, Vec<&str>)]) -> Option<Notice> {
    const MAX_NAMED: usize = 5;
    let reason = |(why, labels): &(&str, Vec<&str>)| {
        let named: Vec<&str> = labels.iter().take(MAX_NAMED).copied().collect();
        let more = labels.len().saturating_sub(MAX_NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("{}{more} ({why})", named.join(", "))
    };
    let lines: Vec<String> = reasons.iter().map(reason).collect();
    let message = format!("skipped files: {}", lines.join("; "));
    let advice = "To triage one of these files, give it as an argument.";
    let count = reasons.iter().map(|(_, labels)| labels.len() as u64).sum();
    let notice = Notice::new(Severity::Info, "set_aside", message, advice);
    (!reasons.is_empty()).then_some(Notice { count, ..notice })
}
