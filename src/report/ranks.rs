//! Formats the analysis of ranks (`analysis::communication::ranks`): verdicts, tables, terminal text, Markdown, JSON.

use super::format::{duration, percent};
use super::section_table;
use super::table::{Cell, Table};
use crate::analysis::communication::ranks::{ComputeBasis, Job, Rank, Ranks, UngroupedFile};
use crate::digits::grouped;

/// The tables of an analysis of ranks.
pub const TABLES: [&str; 4] = ["ranks", "rank_collectives", "rank_waits", "rank_files"];

/// Columns that are left out if all of their cells are zero or `no`.
const HIDDEN_IF_ZERO: [&str; 16] = [
    "communication_ns",
    "wait_ns",
    "transfer_ns",
    "unmatched_ns",
    "exposed_ns",
    "compute_overlap_ns",
    "outside_ns",
    "collectives",
    "times_last",
    "waited_for_ns",
    "waited_for_pct",
    "gain_ns",
    "gain_host_ns",
    "gain_work_ns",
    "straggler",
    "calls_unmatched",
];

/// A few sentences per job, in the order of the jobs: about the rank that delays the others most, about the other ones that do, and about compute time.
pub fn verdict(ranks: &Ranks) -> Vec<String> {
    let several = ranks.jobs.len() > 1;
    let sentences = |job: &Job| {
        let name = if several { format!("{}: ", job.title) } else { String::new() };
        let windows = job.windows.note().map_or_else(String::new, |text| format!(" {text}"));
        format!("{name}{}{windows}", verdict_of(job))
    };
    ranks.jobs.iter().map(sentences).collect()
}

fn verdict_of(job: &Job) -> String {
    let compute = compute(job);
    if job.matched == 0 {
        if let Some(stages) = stages(job) {
            return format!("{} ranks in {}; {stages} {compute}", job.ranks.len(), duration(job.window_ns));
        }
        let why = if job.unmatched > 0 { "no collective could be matched across them" } else { "no collective ran" };
        return format!("{} ranks in {}; {why}. {compute}", job.ranks.len(), duration(job.window_ns));
    }
    let (wait, all) = job.ranks.iter().fold((0_i64, 0_i64), |(wait, all), rank| {
        let in_collectives = rank.wait_ns.saturating_add(rank.transfer_ns);
        (wait.saturating_add(rank.wait_ns), all.saturating_add(in_collectives))
    });
    let share = percent(wait as f64 / all.max(1) as f64);
    let stragglers = job.stragglers();
    let Some((first, others)) = stragglers.split_first() else {
        let who = job.open_of_all().map_or("No single rank".to_owned(), |(open, all)| {
            format!("None of the {open} of {all} ranks that are open")
        });
        return format!(
            "{who} delays the others: {share} of the time in {} matched collectives is waiting, spread over the ranks.{}{} {compute}",
            job.matched,
            uneven_experts(job),
            loss(job)
        );
    };
    format!("{} {}{compute}", delay(job, first), also_late(others))
}

/// The share of its time in which each rank computes, if ranks exchange data by Send/Recv only, as the stages of a pipeline do. With one
/// micro-batch one stage works at a time, so that the shares add up to 100 % at most.
fn stages(job: &Job) -> Option<String> {
    if !job.sends_only || job.open_of_all().is_some() {
        return None;
    }
    let share = |rank: &Rank| rank.compute_ns as f64 / rank.wall_ns.max(1) as f64;
    let of_ranks: Vec<String> =
        job.ranks.iter().map(|rank| format!("{} {}", rank.label, percent(share(rank)))).collect();
    let sum: f64 = job.ranks.iter().map(share).sum();
    Some(format!(
        "they exchange data by Send/Recv only, as the stages of a pipeline do. Compute takes on {} of the time, {} together: where one \
         micro-batch is in the pipeline at a time, one stage works at a time, and this is 100 % at most.",
        crate::words::listed(&of_ranks),
        percent(sum)
    ))
}

/// `Rank 5 (15.5 %, its host launches late) and rank 4 (13.8 %, its host launches late) do, too. `; empty without such ranks.
fn also_late(ranks: &[&Rank]) -> String {
    let of_rank =
        |rank: &&Rank| format!("{} ({}, {})", rank.label, percent(rank.waited_for_pct / 100.0), main_cause(rank));
    let names: Vec<String> = ranks.iter().map(of_rank).collect();
    let verb = match names.len() {
        0 => return String::new(),
        1 => "does",
        _ => "do",
    };
    format!("{} {verb}, too. ", crate::words::capitalize(crate::words::listed(&names)))
}

/// The cause of most of a rank's delay.
fn main_cause(rank: &Rank) -> &'static str {
    let delay = &rank.delay;
    let causes = [
        (delay.unknown_ns, "its trace does not show why"),
        (delay.communication_ns, "communication that could not be matched"),
        (delay.work_ns, "its GPU works longer"),
        (delay.host_late_ns, "its host launches late"),
    ];
    causes.into_iter().max_by_key(|(ns, _)| *ns).map_or("", |(_, cause)| cause)
}

/// `Rank 7 delays the others: 76.0 % of the other ranks' time in collectives is waiting for it (5.08 ms per rank, of which 391 us
/// for this rank alone; it is last in 5 of 8), 3.10 ms for a reason that its trace does not show, 1.98 ms because its host
/// launches late.` With ranks missing, nobody knows whether one of them is later.
fn delay(job: &Job, rank: &Rank) -> String {
    let per_rank = |ns: i64| duration(job.per_other_rank(ns));
    let share = percent(rank.waited_for_pct / 100.0);
    // The rest of the time, another late rank was missing as well: an earlier arrival of this rank alone would not save it.
    let alone = match rank.delay.alone_ns {
        alone_ns if alone_ns == rank.delay.total_ns => String::new(),
        alone_ns => format!(", of which {} for this rank alone", per_rank(alone_ns)),
    };
    let (who, consequence) = match job.open_of_all() {
        Some((open, all)) => (
            format!("Of the {open} of {all} ranks that are open, {} comes last most", rank.label),
            " A rank that is not open may be later still: then all of these wait for that one.".to_owned(),
        ),
        None => (format!("{} delays the others", crate::words::capitalize(rank.label.clone())), gain(job, rank)),
    };
    format!(
        "{who}: {share} of the other ranks' time in collectives is waiting for it ({} per rank{alone}; it is last in {} of {}), {}.{consequence}",
        per_rank(rank.waited_for_ns),
        rank.times_last,
        rank.collectives,
        causes(job, rank, &per_rank)
    )
}

/// ` If this rank alone comes earlier, the job gains at most 391 us, 5.9 % of its time.` No gain is known of the time that only some traces
/// cover.
fn gain(job: &Job, rank: &Rank) -> String {
    let gain_ns = rank.delay.gain_ns;
    if gain_ns <= 0 {
        return " If this rank alone comes earlier, the job gains nothing.".to_owned();
    }
    let covered_ns = job.covered_ns();
    let share = percent(gain_ns as f64 / covered_ns.max(1) as f64);
    format!(
        " If this rank alone comes earlier, the job gains at most {}, {share} of {}.",
        duration(gain_ns),
        time_of(job)
    )
}

/// ` If no rank came after the median one, the job would gain at most 70.1 ms, 16.8 % of its time.`: whichever rank is late. Empty with ranks
/// missing, or without a loss.
fn loss(job: &Job) -> String {
    let loss_ns = job.loss.to_median_ns;
    // Experts have the same work in all, so the mean is what they can reach, and not the median.
    let is_of_experts = has_experts(job) && job.loss.uneven_ns().saturating_mul(2) >= loss_ns;
    if job.open_of_all().is_some() || loss_ns <= 0 || is_of_experts {
        return String::new();
    }
    let share = percent(loss_ns as f64 / job.covered_ns().max(1) as f64);
    let other = if job.ranks.len() == 2 { "the other" } else { "the median one" };
    format!(
        " If no rank came after {other}, the job would gain at most {}, {share} of {}.",
        duration(loss_ns),
        time_of(job)
    )
}

/// How uneven the work before each collective is, if ranks have experts: they may have equally much in all, and not in each layer. A job whose
/// work moves between collectives has no experts.
fn uneven_experts(job: &Job) -> String {
    let more_ns = job.loss.uneven_ns();
    if !has_experts(job) || job.open_of_all().is_some() || job.loss.mean_work_ns <= 0 || more_ns <= 0 {
        return String::new();
    }
    format!(
        " Before each collective, the rank with most work has {} of the mean of the ranks: together {} more, {} of {}.",
        percent(job.loss.longest_work_ns as f64 / job.loss.mean_work_ns as f64),
        duration(more_ns),
        percent(more_ns as f64 / job.covered_ns().max(1) as f64),
        time_of(job)
    )
}

fn has_experts(job: &Job) -> bool {
    job.ranks.iter().any(|rank| rank.experts.is_some())
}

/// What shares of the time that all traces cover are shares of.
fn time_of(job: &Job) -> &'static str {
    if job.covered_ns() == job.window_ns { "its time" } else { "the time that all traces cover" }
}

/// The causes of a rank's delay, largest first, each with its part if there are several.
fn causes(job: &Job, rank: &Rank, per_rank: &dyn Fn(i64) -> String) -> String {
    /// Smaller shares of the waiting are not mentioned.
    const MIN_SHARE: f64 = 0.1;
    let delay = &rank.delay;
    let mut causes = [
        (delay.host_late_ns, "because its host launches late".to_owned()),
        (delay.work_ns, format!("because its GPU works longer{}", slow_kernel(job, rank))),
        (delay.communication_ns, "because of communication that could not be matched".to_owned()),
        (delay.unknown_ns, "for a reason that its trace does not show".to_owned()),
    ];
    causes.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let min_ns = delay.total_ns as f64 * MIN_SHARE;
    let named: Vec<&(i64, String)> = causes.iter().filter(|(ns, _)| *ns > 0 && *ns as f64 >= min_ns).collect();
    match named.as_slice() {
        [(_, only)] => only.clone(),
        several => {
            several.iter().map(|(ns, cause)| format!("{} {cause}", per_rank(*ns))).collect::<Vec<_>>().join(", ")
        }
    }
}

/// The kernel that explains most of the longer work, if one does: ` (flash_fwd: 12.0 ms, 8.00 ms on the others)`.
fn slow_kernel(job: &Job, rank: &Rank) -> String {
    let work_ns = job.per_other_rank(rank.delay.work_ns);
    let slow = rank.slow_kernel.as_ref().filter(|slow| slow.time_ns.saturating_sub(slow.others_ns) >= work_ns / 2);
    slow.map_or(String::new(), |slow| {
        let name = &slow.short_name;
        let others = if job.ranks.len() == 2 { "the other rank" } else { "the others" };
        format!(" ({name} takes {}, on {others} {})", duration(slow.time_ns), duration(slow.others_ns))
    })
}

/// A sentence about the rank with the longest compute time, relative to the median rank, or of two ranks to the other one.
fn compute(job: &Job) -> String {
    let prefix = match job.compute {
        ComputeBasis::Steps(1) => "In the step that all ranks have, ".to_owned(),
        ComputeBasis::Steps(count) => format!("In the {} steps that all ranks have, ", grouped(count)),
        ComputeBasis::All => String::new(),
        ComputeBasis::None => return not_compared(job),
    };
    let Some(longest) = job.ranks.iter().max_by_key(|rank| rank.compared_ns) else { return String::new() };
    let label = &longest.label;
    let other = match job.ranks.as_slice() {
        [first, second] if first.label == *label => second.label.as_str(),
        [first, _] => first.label.as_str(),
        _ => "the median rank",
    };
    let skew_pct = longest.skew_pct.unwrap_or(0.0);
    let sentence = if skew_pct >= 1.0 {
        format!("{prefix}{label} computes {} longer than {other}.", percent(skew_pct / 100.0))
    } else if longest.compared_ns > 0 && skew_pct == 0.0 && job.ranks.iter().any(|rank| rank.compared_ns == 0) {
        // The reference computes nothing, so there is no percentage.
        format!("{prefix}{label} computes for {}, {other} not at all.", duration(longest.compared_ns))
    } else {
        format!("{prefix}all ranks spend about the same time in compute.")
    };
    crate::words::capitalize(sentence)
}

/// Work of moments that only some traces cover would look like longer compute.
fn not_compared(job: &Job) -> String {
    let walls = || job.ranks.iter().map(|rank| rank.wall_ns);
    let (shortest, longest) = (walls().min().unwrap_or(0), walls().max().unwrap_or(0));
    format!(
        "Compute times are not compared: the ranks have no steps in common, and they cover {} to {}.",
        duration(shortest),
        duration(longest)
    )
}

/// The files that belong to no job, one sentence each.
pub fn ungrouped(ranks: &Ranks) -> Vec<String> {
    ranks.ungrouped.iter().map(|UngroupedFile { file, reason }| format!("{file} is not grouped: {reason}.")).collect()
}

/// One of the [`TABLES`] with all rows and columns, for exports.
pub fn full_table(ranks: &Ranks, id: &str) -> Option<Table> {
    ranks.sections.get(id).map(|section| section_table(id, section))
}

/// One of the [`TABLES`] for display, without empty columns; `None` if it has no rows.
pub fn table(ranks: &Ranks, id: &str) -> Option<Table> {
    let table = full_table(ranks, id)?.without_empty_columns();
    let is_hidden = |key: &&&str| {
        let index = table.columns.iter().position(|column| column.key == **key);
        index.is_some_and(|index| table.rows.iter().all(|row| row.get(index).is_none_or(is_zero)))
    };
    let hidden: Vec<&&str> = HIDDEN_IF_ZERO.iter().filter(is_hidden).collect();
    let table = hidden.iter().fold(table.clone(), |table, key| table.without(key));
    (!table.rows.is_empty()).then_some(table)
}

/// Whether the cell is zero or `no`.
fn is_zero(cell: &Cell) -> bool {
    match cell {
        Cell::Ns(0) | Cell::Count(0) => true,
        Cell::Percent(value) => *value == 0.0,
        Cell::Text(text) => text == "no",
        _ => false,
    }
}

#[cfg(not(target_arch = "wasm32"))]
pub use files::{json, markdown, text};
#[cfg(not(target_arch = "wasm32"))]
pub use redaction::redacted;

/// The same ranks without private text: paths, hosts, kernels and other names are replaced by placeholders, as in a report.
#[cfg(not(target_arch = "wasm32"))]
mod redaction {
    use crate::analysis::communication::ranks::{Job, Rank, Ranks, SlowKernel, UngroupedFile};
    use crate::analysis::section::Sections;
    use crate::json::from_json;
    use crate::report::redact::Redactor;
    use serde::Serialize;

    /// All texts of [`Ranks`]. The keys tell the redaction what each of them is.
    #[derive(Serialize)]
    struct Texts {
        jobs: Vec<JobTexts>,
        not_grouped: Vec<FileTexts>,
        sections: Sections,
    }
    from_json!(Texts { jobs, not_grouped, sections });

    #[derive(Serialize)]
    struct JobTexts {
        job: String,
        limits: Vec<String>,
        ranks: Vec<RankTexts>,
    }
    from_json!(JobTexts { job, limits, ranks });

    #[derive(Serialize)]
    struct RankTexts {
        label: String,
        file: String,
        device: String,
        kernel_name: String,
    }
    from_json!(RankTexts { label, file, device, kernel_name });

    #[derive(Serialize)]
    struct FileTexts {
        file: String,
        why: String,
    }
    from_json!(FileTexts { file, why });

    /// The ranks with placeholders. Without any rank if the texts cannot be redacted.
    pub fn redacted(ranks: Ranks) -> Ranks {
        let texts = Texts {
            jobs: ranks.jobs.iter().map(job_texts).collect(),
            not_grouped: ranks.ungrouped.iter().map(file_texts).collect(),
            sections: ranks.sections,
        };
        let kernels = ranks.jobs.iter().flat_map(|job| &job.ranks).filter_map(|rank| rank.slow_kernel.as_ref());
        let kernels = kernels.map(|kernel| (kernel.name.as_str(), kernel.short_name.as_str()));
        let Some(texts) = Redactor::redact_results(&texts, kernels) else {
            return Ranks { jobs: Vec::new(), ungrouped: Vec::new(), sections: Sections::new() };
        };
        Ranks {
            jobs: ranks.jobs.into_iter().zip(texts.jobs).map(|(job, texts)| with_texts(job, texts)).collect(),
            ungrouped: texts
                .not_grouped
                .into_iter()
                .map(|file| UngroupedFile { file: file.file, reason: file.why })
                .collect(),
            sections: texts.sections,
        }
    }

    fn job_texts(job: &Job) -> JobTexts {
        let of_rank = |rank: &Rank| RankTexts {
            label: rank.label.clone(),
            file: rank.file.clone(),
            device: rank.device.clone(),
            kernel_name: rank.slow_kernel.as_ref().map_or_else(String::new, |kernel| kernel.name.clone()),
        };
        JobTexts { job: job.title.clone(), limits: job.limits.clone(), ranks: job.ranks.iter().map(of_rank).collect() }
    }

    fn file_texts(file: &UngroupedFile) -> FileTexts {
        FileTexts { file: file.file.clone(), why: file.reason.clone() }
    }

    fn with_texts(job: Job, texts: JobTexts) -> Job {
        let of_rank = |(rank, texts): (Rank, RankTexts)| {
            let slow_kernel = rank.slow_kernel.map(|kernel| with_name(kernel, texts.kernel_name));
            Rank { label: texts.label, file: texts.file, device: texts.device, slow_kernel, ..rank }
        };
        let ranks = job.ranks.into_iter().zip(texts.ranks).map(of_rank).collect();
        Job { title: texts.job, limits: texts.limits, ranks, ..job }
    }

    /// A placeholder stands for the short name, too.
    fn with_name(kernel: SlowKernel, name: String) -> SlowKernel {
        let short_name = if name == kernel.name { kernel.short_name } else { name.clone() };
        SlowKernel { name, short_name, ..kernel }
    }
}

/// The output formats of the command line.
#[cfg(not(target_arch = "wasm32"))]
mod files {
    use super::{Job, Ranks, TABLES, delay, table, ungrouped, verdict};
    use crate::analysis::communication::ranks::Rank;
    use crate::report::chart::{PARTS, rank_parts};
    use crate::report::format::clean;
    use crate::report::format::duration;
    use crate::report::markdown::{escape, section as markdown_section};
    use crate::report::terminal::{section, wrapped};
    use serde_json::{Map, Value, json};
    use unicode_width::UnicodeWidthStr;

    /// The version of the JSON schema.
    const SCHEMA: &str = "gpuprism-ranks/1";
    /// The characters that draw the parts of a bar, in the order of [`PARTS`].
    const MARKS: [char; PARTS.len()] = ['#', '=', 'c', '>', 'w', '?', '.', ' '];

    /// Verdicts, bars and tables as plain text.
    pub fn text(ranks: &Ranks, width: Option<usize>) -> String {
        let mut text = String::new();
        verdict(ranks).iter().for_each(|sentence| text += &wrapped(width, "", "  ", sentence));
        ungrouped(ranks).iter().for_each(|sentence| text += &wrapped(width, "  ", "    ", sentence));
        for job in &ranks.jobs {
            text +=
                &format!("\n{}\n{}", clean(&format!("{}: {}", job.title, duration(job.window_ns))), bars(job, width));
        }
        if !ranks.jobs.is_empty() {
            let legend: Vec<String> = MARKS.iter().zip(PARTS).map(|(mark, part)| format!("{mark} {part}")).collect();
            text += &wrapped(width, "  ", "  ", &legend.join(", "));
        }
        for table in TABLES.iter().filter_map(|id| table(ranks, id)) {
            // These columns do not fit the width of a terminal.
            let hidden = ["device_id", "exposed_ns", "compute_overlap_ns", "outside_ns", "waited_for_ns"];
            text += &section(&hidden.iter().fold(table, |table, key| table.without(key)), 0, width);
        }
        text
    }

    /// One bar per rank; each is as long as the window of the job.
    fn bars(job: &Job, width: Option<usize>) -> String {
        const MAX_BAR: usize = 72;
        const MIN_BAR: usize = 20;
        /// The columns of the blanks and of the ends of the bar.
        const OTHERS: usize = 6;
        let longest = job.ranks.iter().map(|rank| clean(&rank.label).width()).max().unwrap_or(0);
        let room = width.map_or(MAX_BAR, |width| width.saturating_sub(longest + OTHERS));
        let bar_width = room.clamp(MIN_BAR, MAX_BAR) as i128;
        let mut text = String::new();
        for rank in &job.ranks {
            let (mut bar, mut passed, mut drawn) = (String::new(), 0_i128, 0_i128);
            for (mark, ns) in MARKS.iter().zip(rank_parts(rank)) {
                passed += i128::from(ns);
                let until = passed * bar_width / i128::from(job.window_ns.max(1));
                (drawn..until).for_each(|_| bar.push(*mark));
                drawn = drawn.max(until);
            }
            let label = clean(&rank.label);
            let blanks = " ".repeat(longest.saturating_sub(label.width()));
            text += &format!("{}\n", format!("  {label}{blanks}  |{bar}|").trim_end());
        }
        text
    }

    /// Verdicts and tables as Markdown.
    pub fn markdown(ranks: &Ranks) -> String {
        let mut text = "# Ranks\n\n".to_owned();
        verdict(ranks).iter().for_each(|sentence| text += &format!("- **{}**\n", escape(sentence)));
        ungrouped(ranks).iter().for_each(|sentence| text += &format!("- {}\n", escape(sentence)));
        for table in TABLES.iter().filter_map(|id| table(ranks, id)) {
            text += &markdown_section(&table, usize::MAX);
        }
        text
    }

    /// The JSON for scripts; docs/json.md lists its fields.
    pub fn json(ranks: &Ranks) -> String {
        let sentences = verdict(ranks);
        let jobs: Vec<Value> = ranks
            .jobs
            .iter()
            .zip(&sentences)
            .map(|(job, verdict)| {
                json!({
                    "title": job.title,
                    "world_size": job.world_size,
                    "verdict": verdict,
                    "straggler": job.straggler().map(|rank| &rank.label),
                    "delays": job.stragglers().into_iter().map(|rank| delayed_by(job, rank)).collect::<Vec<Value>>(),
                    "window_ns": job.window_ns,
                    "collectives_matched": job.matched,
                    "calls_unmatched": job.unmatched,
                    "limits": job.limits,
                    "ranks": job.ranks.iter().map(rank).collect::<Vec<Value>>(),
                })
            })
            .collect();
        let not_grouped: Vec<Value> =
            ranks.ungrouped.iter().map(|file| json!({ "file": file.file, "why": file.reason })).collect();
        let whole = json!({ "schema": SCHEMA, "jobs": jobs, "not_grouped": not_grouped, "sections": ranks.sections });
        crate::json::write_indented(&whole)
    }

    fn delayed_by(job: &Job, rank: &Rank) -> Value {
        let own = &rank.delay;
        json!({
            "rank": rank.label,
            "sentence": delay(job, rank),
            "waiting_per_rank_ns": job.per_other_rank(own.total_ns),
            "alone_per_rank_ns": job.per_other_rank(own.alone_ns),
            "host_late_per_rank_ns": job.per_other_rank(own.host_late_ns),
            "work_per_rank_ns": job.per_other_rank(own.work_ns),
            "communication_per_rank_ns": job.per_other_rank(own.communication_ns),
            "unknown_per_rank_ns": job.per_other_rank(own.unknown_ns),
            "gain_ns": own.gain_ns,
            "gain_host_ns": own.gain_host_ns,
            "gain_work_ns": own.gain_work_ns,
            "kernel": rank.slow_kernel.as_ref().map(|slow| json!({
                "kernel_name": slow.name,
                "time_ns": slow.time_ns,
                "others_ns": slow.others_ns,
            })),
        })
    }

    fn rank(rank: &Rank) -> Value {
        let parts = ["compute", "hidden", "other", "transfer", "wait", "unmatched", "idle", "outside"];
        let parts: Map<String, Value> =
            parts.iter().zip(rank_parts(rank)).map(|(part, ns)| (format!("{part}_ns"), ns.into())).collect();
        json!({ "rank": rank.label, "file": rank.file, "device": rank.device, "parts": parts })
    }
}
