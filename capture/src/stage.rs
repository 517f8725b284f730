//! Captures one stage: warm-up, the probe without the profiler, start, load, stop, and the traces.
//!
//! The order of the requests is the one of the original capture script. Once the profiler runs, it is stopped on every way out:
//! after an error, at the time limit, and on [`Cancel`].

use crate::collect::{self, Found, Missing, Search, SearchResult, Snapshot};
use crate::data::{DATA, Framework};
use crate::http::Failure;
use crate::load::Load;
use crate::options::{Options, Traffic};
use crate::probe::{Batch, Plan, Prober, Sent};
use crate::progress::{Phase, Reporter};
use crate::record::{Part, ProbeTime, Stage, StageCapture, State, TraceFile};
use crate::server::{Profiler, Server, short};
use crate::{Cancel, Error, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// One stage to capture.
pub(crate) struct Job<'a> {
    pub(crate) server: &'a Server,
    pub(crate) options: &'a Options,
    pub(crate) cancel: &'a Cancel,
    pub(crate) part: Part,
    /// `None` if others send the load.
    pub(crate) stage: Option<Stage>,
    pub(crate) folders: Folders,
    /// Whether an earlier stage looked for its traces in vain: then a long wait is of no use.
    pub(crate) is_elsewhere: bool,
}

/// The folders of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folders {
    /// Where the traces are wanted.
    pub(crate) here: PathBuf,
    /// Where the server writes, as the server sees it.
    pub(crate) server: String,
    /// Where that may be visible on this machine.
    pub(crate) visible: PathBuf,
}

/// What became of a stage.
pub(crate) struct StageResult {
    pub(crate) capture: StageCapture,
    pub(crate) notes: Vec<String>,
    /// Why the traces are not here.
    pub(crate) missing: Option<Missing>,
    /// How long they were looked for.
    pub(crate) waited: Duration,
}

/// What happened while the profiler ran.
struct Loaded {
    profiled: Option<ProbeTime>,
    note: Option<String>,
}

impl Job<'_> {
    /// Captures the stage. `root` is the folder of `capture.json`.
    pub(crate) fn run(&self, root: &Path, reporter: &mut Reporter) -> Result<StageResult> {
        let plan = self.plan();
        self.check_alive()?;
        self.create_folders()?;
        let mut notes = Vec::new();
        let unprofiled = match &plan {
            Some(plan) => self.before_profiler(plan, reporter, &mut notes)?,
            None => None,
        };
        let mut load = self.start_load(reporter)?;
        let before = Snapshot::take(&self.folders.visible);
        let now = since_epoch();
        let file_word = self.file_word(now);
        let body = self.start_body(file_word.as_deref());
        self.start(body.as_ref(), reporter)?;
        let deadline = Instant::now() + self.options.longest();
        let loaded = self.load(plan.as_ref(), load.as_mut(), &before, deadline, reporter);
        let stopped = self.stop(reporter);
        drop(load);
        let loaded = match (loaded, stopped) {
            (Ok(loaded), Ok(())) => loaded,
            (Ok(_), Err(error)) => return Err(error),
            (Err(error), stopped) => {
                return Err(stopped.err().map_or(error.clone(), |_| error.and(&self.still_runs())));
            }
        };
        notes.extend(loaded.note);
        let (found, waited) = self.search(&before, reporter)?;
        let mut capture = StageCapture {
            part: self.part,
            stage: self.stage,
            graphs: self.options.graphs.or_else(|| self.server.graphs()),
            state: State::AwaitingFiles,
            folder: relative(root, &self.folders.here),
            server_folder: self.folders.server.clone(),
            file_word,
            started_unix_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            start_request: body,
            probe: plan.map(|plan| plan.probe),
            unprofiled,
            profiled: loaded.profiled,
            files: Vec::new(),
        };
        let missing = self.take(found, root, &mut capture, &mut notes, reporter)?;
        Ok(StageResult { capture, notes, missing, waited })
    }

    fn plan(&self) -> Option<Plan> {
        let counts_steps = self.counts_steps();
        self.stage.map(|stage| Plan::new(stage, self.options.steps, &self.options.probe, counts_steps))
    }

    /// Whether the server stops its profiler after a number of steps.
    fn counts_steps(&self) -> bool {
        self.server.facts.counts_steps
            || (self.server.framework == Framework::Vllm && self.server.profiler == Profiler::WithBody)
    }

    /// The profiled steps: those asked for and a guard step.
    fn profiled_steps(&self) -> u32 {
        self.options.steps.saturating_add(DATA.limits.guard_steps)
    }

    /// The name of the stage for progress lines.
    fn label(&self) -> &'static str {
        self.stage.map_or("capture", Stage::name)
    }

    /// Asks for settings or models before each stage: a dead server is found before the warm-up.
    fn check_alive(&self) -> Result<()> {
        let path = match self.server.framework {
            Framework::Sglang => self.server.info_path.unwrap_or("/v1/models"),
            Framework::Vllm | Framework::Trtllm | Framework::Tokenspeed => "/v1/models",
        };
        let answer = self.server.client.get(path, short()).map_err(|failure| self.server.failed(path, &failure))?;
        if answer.is_ok() { Ok(()) } else { Err(self.server.refused(path, &answer)) }
    }

    fn create_folders(&self) -> Result<()> {
        let failed = |error: std::io::Error| Error::file(&self.folders.here, &error);
        std::fs::create_dir_all(&self.folders.here).map_err(failed)?;
        if self.folders.visible.starts_with(&self.folders.here) {
            std::fs::create_dir_all(&self.folders.visible).map_err(failed)?;
        }
        Ok(())
    }

    /// Warms up and measures the probe without the profiler.
    fn before_profiler(
        &self,
        plan: &Plan,
        reporter: &mut Reporter,
        notes: &mut Vec<String>,
    ) -> Result<Option<ProbeTime>> {
        let prober = Prober::new(self.server, self.options, self.cancel);
        let warmup = Batch {
            word: "profile_probe",
            first: 0,
            requests: plan.warmup_requests,
            input_words: plan.probe.input_words,
            output_tokens: plan.warmup_tokens,
        };
        reporter.say(Phase::WarmUp, format!("{}: warm-up with {} requests", self.label(), warmup.requests));
        prober.send(warmup, None)?;
        // The words differ from those of the profiled requests: no prefix cache may answer those.
        let batch = Batch { word: "unprofiled_probe", first: 0, ..batch(plan) };
        reporter.say(
            Phase::Unprofiled,
            format!("{}: {} requests without the profiler, to measure its cost", self.label(), batch.requests),
        );
        match prober.send(batch, Some(Instant::now() + self.options.longest()))? {
            Sent::All(time) => Ok(Some(time)),
            Sent::Interrupted => {
                notes.push(format!(
                    "{}: the time without the profiler is unknown, because the probe took longer than {} s",
                    self.label(),
                    self.options.longest().as_secs()
                ));
                Ok(None)
            }
        }
    }

    /// Starts the user's load, and lets it run for a while so that the profiler sees its steady state.
    fn start_load(&self, reporter: &mut Reporter) -> Result<Option<Load>> {
        let Traffic::Command(command) = &self.options.traffic else { return Ok(None) };
        reporter.say(Phase::Load, format!("load: {command}"));
        let mut load = Load::start(command)?;
        self.cancel.sleep(self.options.pacing.load_lead)?;
        match load.ended()? {
            None => Ok(Some(load)),
            Some(status) => Err(Error::failed(format!(
                "--load: the command ended before the profiler started ({status}): give a load that lasts longer than {} s",
                self.options.pacing.load_lead.as_secs_f64()
            ))),
        }
    }

    /// A word that the server puts into the names of its files.
    fn file_word(&self, now: Duration) -> Option<String> {
        let is_named = match self.server.framework {
            Framework::Sglang | Framework::Tokenspeed => true,
            Framework::Vllm => self.server.profiler == Profiler::WithBody,
            Framework::Trtllm => false,
        };
        is_named.then(|| format!("gpuprism-{}-{}", self.label(), now.as_nanos()))
    }

    /// The body of the request that starts the profiler.
    fn start_body(&self, word: Option<&str>) -> Option<Value> {
        let (folder, steps) = (&self.folders.server, self.profiled_steps());
        let activities = ["CPU", "GPU"];
        match self.server.framework {
            Framework::Sglang => {
                // Load of others may be of one stage only for long; by stage, the trace has steps of both.
                let by_stage = self.stage.is_none();
                let steps = if by_stage { self.options.steps } else { steps };
                Some(json!({
                    "output_dir": folder, "num_steps": steps, "activities": activities, "profile_by_stage": by_stage,
                    "merge_profiles": false, "profile_id": word,
                }))
            }
            Framework::Vllm => word.map(|word| json!({"profile_prefix": word, "max_iterations": steps})),
            Framework::Trtllm => Some(json!({"output_dir": folder, "num_steps": steps, "activities": activities})),
            Framework::Tokenspeed => Some(json!({
                "output_dir": folder, "activities": activities, "with_stack": true, "record_shapes": false,
                "profile_id": word,
            })),
        }
    }

    fn start(&self, body: Option<&Value>, reporter: &mut Reporter) -> Result<()> {
        const PATH: &str = "/start_profile";
        reporter.say(Phase::Start, format!("{}: starting the server's profiler", self.label()));
        let limit = Duration::from_secs_f64(DATA.waits.start_request_s);
        match self.server.client.post(PATH, body, limit) {
            Ok(answer) if answer.is_ok() => Ok(()),
            // Nothing was started. A profiler that ran before belongs to someone else.
            Ok(answer) => Err(self.server.refused(PATH, &answer)),
            Err(failure @ Failure::Unreachable(_)) => Err(self.server.failed(PATH, &failure)),
            // The server may have got the request.
            Err(failure) => {
                let _ = self.stop(reporter);
                Err(self.server.failed(PATH, &failure))
            }
        }
    }

    /// Stops the profiler, also if the capture was cancelled.
    fn stop(&self, reporter: &mut Reporter) -> Result<()> {
        const PATH: &str = "/stop_profile";
        reporter.say(Phase::Stop, format!("{}: stopping the server's profiler", self.label()));
        let limit = Duration::from_secs_f64(DATA.waits.stop_request_s);
        match self.server.client.for_cleanup().post(PATH, None, limit) {
            Ok(answer) if answer.is_ok() => Ok(()),
            // The profiler has stopped by itself after its steps.
            Ok(_) if self.counts_steps() => Ok(()),
            Ok(answer) => Err(self.server.refused(PATH, &answer).and(&self.still_runs())),
            Err(failure) => Err(self.server.failed(PATH, &failure).and(&self.still_runs())),
        }
    }

    fn still_runs(&self) -> String {
        format!("the profiler may still run: stop it with `curl -X POST {}/stop_profile`", self.server.client.base())
    }

    /// Lets the load run while the profiler does.
    fn load(
        &self,
        plan: Option<&Plan>,
        load: Option<&mut Load>,
        before: &Snapshot,
        deadline: Instant,
        reporter: &mut Reporter,
    ) -> Result<Loaded> {
        let Some(plan) = plan else {
            return match load {
                Some(load) => self.wait_for_command(load, deadline),
                None => self.wait_for_own_traffic(before, deadline, reporter),
            };
        };
        self.cancel.sleep(self.options.pacing.start_delay.unwrap_or_else(|| self.server.facts.start_delay()))?;
        reporter.say(Phase::Load, format!("{}: {} profiled requests", self.label(), plan.probe.requests));
        let batch = Batch { word: "profile_probe", first: plan.warmup_requests, ..batch(plan) };
        match Prober::new(self.server, self.options, self.cancel).send(batch, Some(deadline))? {
            Sent::All(time) => {
                let is_all_profiled = !self.counts_steps() || plan.steps() <= self.profiled_steps();
                Ok(Loaded { profiled: is_all_profiled.then_some(time), note: None })
            }
            Sent::Interrupted => {
                let note = format!(
                    "{}: the probe was ended after {} s (--seconds)",
                    self.label(),
                    self.options.longest().as_secs()
                );
                Ok(Loaded { profiled: None, note: Some(note) })
            }
        }
    }

    fn wait_for_command(&self, load: &mut Load, deadline: Instant) -> Result<Loaded> {
        while Instant::now() < deadline {
            match load.ended()? {
                Some(status) if status.success() => return Ok(Loaded { profiled: None, note: None }),
                Some(status) => return Err(Error::failed(format!("--load: the command failed ({status})"))),
                None => self.cancel.sleep(self.options.pacing.poll.min(Duration::from_millis(200)))?,
            }
        }
        let note = format!("the load command was ended after {} s (--seconds)", self.options.longest().as_secs());
        Ok(Loaded { profiled: None, note: Some(note) })
    }

    /// Waits until the time is over, or until a server that counts steps has begun to write.
    fn wait_for_own_traffic(&self, before: &Snapshot, deadline: Instant, reporter: &mut Reporter) -> Result<Loaded> {
        let seconds = self.options.longest().as_secs();
        reporter.say(Phase::Load, format!("profiling the server's own traffic, at most {seconds} s"));
        while Instant::now() < deadline {
            let is_written = !Snapshot::take(&self.folders.visible).fresh_since(before).is_empty();
            if self.counts_steps() && is_written {
                break;
            }
            self.cancel.sleep(self.options.pacing.poll.min(deadline.saturating_duration_since(Instant::now())))?;
        }
        Ok(Loaded { profiled: None, note: None })
    }

    fn search(&self, before: &Snapshot, reporter: &mut Reporter) -> Result<(SearchResult, Duration)> {
        let pacing = &self.options.pacing;
        let is_shared = self.options.shared_folder.is_some() || self.server.client.is_local();
        let wait = if is_shared && !self.is_elsewhere {
            pacing.wait.unwrap_or_else(|| self.server.facts.wait())
        } else {
            pacing.elsewhere
        };
        let folder = &self.folders.visible;
        reporter.say(Phase::Wait, format!("{}: waiting for traces in {}", self.label(), folder.display()));
        let search = Search {
            folder,
            before,
            ranks: self.server.info.as_ref().map(|_| self.server.ranks()),
            wait,
            max_bytes: self.options.max_bytes,
            pacing,
            cancel: self.cancel,
        };
        Ok((search.run()?, wait))
    }

    /// Copies the traces and enters them into the record.
    fn take(
        &self,
        found: SearchResult,
        root: &Path,
        capture: &mut StageCapture,
        notes: &mut Vec<String>,
        reporter: &mut Reporter,
    ) -> Result<Option<Missing>> {
        let (traces, without_kernels, unfinished) = match found {
            SearchResult::Found { traces, without_kernels, unfinished } => (traces, without_kernels, unfinished),
            SearchResult::Missing(missing) => return Ok(Some(missing)),
        };
        reporter.say(Phase::Copy, format!("{}: {} traces", self.label(), traces.len()));
        capture.files = trace_files(root, &collect::copy(&traces, &self.folders.here)?);
        capture.state = State::Complete;
        let aside = without_kernels.iter().map(|name| format!("{name} contains no GPU kernels and was not copied"));
        notes.extend(aside);
        notes.extend(unfinished.iter().map(|name| format!("{name} did not become complete and was not copied")));
        let ranks = self.server.ranks();
        if u64::try_from(traces.len()).is_ok_and(|count| count < ranks) {
            notes.push(format!("{}: {} traces, but the server has {ranks} ranks", self.label(), traces.len()));
        }
        Ok(None)
    }
}

fn batch(plan: &Plan) -> Batch {
    let probe = plan.probe;
    Batch {
        word: "",
        first: 0,
        requests: probe.requests,
        input_words: probe.input_words,
        output_tokens: probe.output_tokens,
    }
}

/// The entries of `capture.json` for traces.
pub(crate) fn trace_files(root: &Path, traces: &[Found]) -> Vec<TraceFile> {
    let file = |trace: &Found| TraceFile { path: relative(root, &trace.path), bytes: trace.bytes, has_kernels: true };
    let mut files: Vec<TraceFile> = traces.iter().map(file).collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// The path relative to `root`, with slashes.
pub(crate) fn relative(root: &Path, path: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<String> = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    parts.join("/")
}

/// The time since 1970 on this machine's clock.
pub(crate) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
