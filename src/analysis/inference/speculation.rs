//! Speculative decoding: what a round of draft and verification costs, compared with a plain decode step. From the
//! annotated steps; O(steps).
//!
//! A round lasts from the start of a verify step to the start of the next one on the same device, if only draft and idle
//! steps lie between. A round pays if each request gets more tokens from it than plain steps give in the same time: the break-even is
//! the time of a round divided by that of a plain step of about the same batch.

use crate::analysis::context::Context;
use crate::analysis::measure::percentiles::median;
use crate::analysis::section::{Answer, MeanNs, TypedSection, section};
use crate::analysis::structure::measured_steps::MeasuredStep;
use crate::analysis::structure::stages::{Stage, representative};
use crate::ordering::VecMap;
use crate::rules::inference::thresholds;
use crate::trace::{DeviceId, Ns};

section! {
    /// What a round of speculative decoding costs.
    pub(crate) struct Speculation("speculation", "Speculative decoding");
    row SpeculationRow {
        rounds: usize,
        batch: Option<f64> = "Batch size",
        round_ns: Option<MeanNs>,
        draft_ns: Option<MeanNs>,
        verify_ns: Option<MeanNs>,
        other_ns: Option<MeanNs>,
        draft_steps_per_round: f64,
        tokens_per_request: Option<f64> = "Verified tokens per request",
        plain_step_ns: Option<MeanNs> = "Plain decode step",
        plain_batch: Option<f64> = "Its batch size",
        break_even_tokens: Option<f64> = "Break-even tokens",
        basis: String = "Rests on",
    }
}

/// One row, for the rounds of all devices. `None` for a trace without draft and verify steps.
pub(crate) fn speculation(context: &Context) -> Option<Answer<Speculation>> {
    let steps = &context.measured_steps().steps;
    if !steps.iter().any(|step| matches!(step.step.info.stage, Stage::Draft | Stage::Verify)) {
        return None;
    }
    let rounds = rounds(steps);
    if rounds.is_empty() {
        let why = "The trace has no complete round: two verify steps with only draft steps between them.";
        return Some(Speculation::missing(why, ""));
    }
    let answer = Speculation::answer("annotated draft, verify and decode steps")
        .limit("A round lasts from the start of a verify step to the start of the next one, with draft steps between. Times are medians over the rounds.")
        .limit("Break-even is the number of tokens that a request has to get from a round, with the one of the target model, so that speculation is not slower than plain decode steps.");
    Some(answer.with_rows([row(&rounds, &plain(steps))]))
}

/// One round.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    time: Ns,
    draft: Ns,
    verify: Ns,
    draft_steps: u64,
    batch: Option<u64>,
    /// Tokens that the target model verifies.
    tokens: Option<u64>,
}

impl Round {
    fn other(&self) -> Ns {
        self.time.since(self.draft).since(self.verify)
    }
}

/// The complete rounds. Steps are sorted by start.
fn rounds(steps: &[MeasuredStep]) -> Vec<Round> {
    let mut rounds = Vec::new();
    // By device: the round that its last verify step began, with the start of that step; none after another stage.
    let mut open: VecMap<Option<DeviceId>, Option<(Ns, Round)>> = VecMap::new();
    for measured in steps {
        let step = &measured.step;
        open.update(step.device, None, |open| match step.info.stage {
            Stage::Verify => {
                let complete = open.take().map(|(start, round)| Round { time: step.start.since(start), ..round });
                rounds.extend(complete.filter(|round| round.draft_steps > 0));
                let info = step.info;
                let (batch, tokens, verify) = (info.batch_size, info.tokens, measured.time);
                *open =
                    measured.reaches_next.then_some((step.start, Round { verify, batch, tokens, ..Round::default() }));
            }
            Stage::Draft if measured.reaches_next => {
                if let Some((_, round)) = open {
                    round.draft += measured.time;
                    round.draft_steps += 1;
                }
            }
            Stage::Idle => {}
            _ => *open = None,
        });
    }
    rounds
}

/// The plain decode steps: median time and mean batch.
#[derive(Debug, Default)]
struct Plain {
    time_ns: Option<f64>,
    batch: Option<f64>,
}

fn plain(steps: &[MeasuredStep]) -> Plain {
    let decode: Vec<MeasuredStep> =
        steps.iter().filter(|step| step.step.info.stage == Stage::Decode).copied().collect();
    let times = representative(&decode, |step| step.reaches_next).map(|step| step.time.0);
    Plain { time_ns: median_of(times), batch: mean(decode.iter().filter_map(|step| step.step.info.batch_size)) }
}

fn row(rounds: &[Round], plain: &Plain) -> SpeculationRow {
    let of = |part: fn(&Round) -> Ns| median_of(rounds.iter().map(|round| part(round).0));
    let batch = mean(rounds.iter().filter_map(|round| round.batch));
    let tokens =
        rounds.iter().filter_map(|round| Some(round.tokens? as f64 / round.batch.filter(|batch| *batch > 0)? as f64));
    let tokens: Vec<f64> = tokens.collect();
    let per_request = (!tokens.is_empty()).then(|| tokens.iter().sum::<f64>() / tokens.len() as f64);
    let drafts = rounds.iter().map(|round| round.draft_steps).sum::<u64>() as f64 / rounds.len().max(1) as f64;
    let round = of(|round| round.time);
    let max_ratio = thresholds().speculation.max_batch_ratio.value;
    let is_comparable =
        batch.zip(plain.batch).is_some_and(|(batch, plain)| batch.max(plain) <= max_ratio * batch.min(plain));
    let break_even = round.zip(plain.time_ns).filter(|_| is_comparable).map(|(round, plain)| round / plain);
    SpeculationRow {
        rounds: rounds.len(),
        batch,
        round_ns: round.map(MeanNs),
        draft_ns: of(|round| round.draft).map(MeanNs),
        verify_ns: of(|round| round.verify).map(MeanNs),
        other_ns: of(Round::other).map(MeanNs),
        draft_steps_per_round: drafts,
        tokens_per_request: per_request,
        plain_step_ns: plain.time_ns.map(MeanNs),
        plain_batch: plain.batch,
        break_even_tokens: break_even,
        basis: basis(plain, is_comparable).to_owned(),
    }
}

fn basis(plain: &Plain, is_comparable: bool) -> &'static str {
    match (plain.time_ns, is_comparable) {
        (None, _) => "no plain decode step: capture the same load without speculation for the break-even",
        (Some(_), false) => "plain decode steps of another or unknown batch size: no break-even",
        (Some(_), true) => "plain decode steps of the same trace",
    }
}

fn median_of(values: impl Iterator<Item = i64>) -> Option<f64> {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    median(&values)
}

fn mean(values: impl Iterator<Item = u64>) -> Option<f64> {
    let values: Vec<u64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<u64>() as f64 / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::section::Section;
    use crate::analysis::testing::rows_of;
    use crate::trace::testing::TestTrace;

    /// Adds steps of one kernel each: name, start, end on the device.
    fn found(steps: &[(&str, i64, i64)]) -> Option<Section> {
        let mut trace = TestTrace::new();
        for (name, start, end) in steps {
            trace.range(name, start * 10..start * 10 + 5).launch(start * 10 + 1..start * 10 + 2);
            trace.launches("k", start * 10 + 5..end * 10);
        }
        speculation(&Context::new(&trace.finish(), 30)).map(Answer::section)
    }

    const VERIFY: &str = "step[VERIFY bs=4 g_sq=16]";
    const DRAFT: &str = "step[DRAFT bs=4]";

    #[test]
    fn a_round_is_compared_with_a_plain_step_of_the_same_batch() {
        let section = found(&[
            ("step[DECODE bs=4]", 0, 10),
            ("step[DECODE bs=4]", 10, 20),
            ("step[DECODE bs=4]", 20, 30),
            (VERIFY, 30, 42),
            (DRAFT, 42, 45),
            (DRAFT, 45, 48),
            (VERIFY, 50, 62),
            (DRAFT, 62, 70),
            (VERIFY, 70, 82),
        ])
        .unwrap();
        // Both rounds last 20 units of 10 ns, with 8 units of drafts after 12 of verification. Four tokens for each request.
        let columns = ["rounds", "batch", "round_ns", "draft_ns", "verify_ns", "other_ns", "draft_steps_per_round"];
        assert_eq!(rows_of(&section, &columns), ["2 4 200 80 120 0 1.5"]);
        let columns = ["tokens_per_request", "plain_step_ns", "plain_batch", "break_even_tokens"];
        assert_eq!(rows_of(&section, &columns), ["4 100 4 2"]);
    }

    #[test]
    fn without_comparable_plain_steps_there_is_no_break_even() {
        let rounds = [(VERIFY, 30, 42), (DRAFT, 42, 48), (VERIFY, 50, 62)];
        let alone = found(&rounds).unwrap();
        assert_eq!(rows_of(&alone, &["rounds", "break_even_tokens"]), ["1 -"]);
        assert!(alone.rows[0].text("basis").contains("without speculation"));
        let other = [&[("step[DECODE bs=64]", 0, 10), ("step[DECODE bs=64]", 10, 20)][..], &rounds].concat();
        assert_eq!(rows_of(&found(&other).unwrap(), &["rounds", "plain_batch", "break_even_tokens"]), ["1 64 -"]);
    }

    #[test]
    fn other_stages_between_two_verify_steps_make_no_round() {
        for between in [("step[EXTEND bs=1 toks=99]", 44, 50), ("step[DECODE bs=4]", 44, 50)] {
            let section = found(&[(VERIFY, 30, 42), (DRAFT, 42, 44), between, (VERIFY, 50, 62)]);
            assert!(section.unwrap().missing.is_some(), "{between:?}");
        }
    }

    #[test]
    fn a_trace_without_draft_and_verify_steps_has_no_section() {
        assert_eq!(found(&[("step[DECODE bs=4]", 0, 10)]), None);
        assert!(found(&[(DRAFT, 0, 10)]).is_some_and(|section| section.missing.is_some()));
    }
}
