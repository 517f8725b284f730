//! The requests of the probe: long prompts for the prefill stage, one short prompt for the decode stage.
//!
//! The plan is the one of the original capture script, request by request. Every prompt starts with a word of its own, so that no
//! prefix cache answers for the model.

use crate::data::{DATA, Framework};
use crate::options::{Options, ProbeSize};
use crate::record::{Probe, ProbeTime, Stage};
use crate::server::Server;
use crate::{Cancel, Error, Result};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The requests of one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) stage: Stage,
    pub(crate) warmup_requests: u32,
    pub(crate) warmup_tokens: u32,
    pub(crate) probe: Probe,
}

impl Plan {
    pub(crate) fn new(stage: Stage, steps: u32, size: &ProbeSize, server_counts_steps: bool) -> Self {
        let warmup = size.warmup_steps;
        match stage {
            Stage::Prefill => Self {
                stage,
                warmup_requests: warmup,
                warmup_tokens: size.prefill_output_tokens,
                // A request is one step, so there must be one for each profiled step.
                probe: Probe {
                    requests: size.requests.max(steps),
                    input_words: size.prefill_input_words,
                    output_tokens: size.prefill_output_tokens,
                },
            },
            Stage::Decode => Self {
                stage,
                warmup_requests: u32::from(warmup > 0),
                warmup_tokens: warmup.max(1),
                probe: Probe {
                    requests: size.requests,
                    input_words: size.decode_input_words,
                    output_tokens: size.decode_output_tokens.unwrap_or(if server_counts_steps {
                        DATA.limits.decode_output_tokens
                    } else {
                        // The trace is as long as the requests.
                        steps.saturating_add(DATA.limits.guard_steps)
                    }),
                },
            },
        }
    }

    /// The steps of one request: one for the prompt, whose last step yields the first token, and one per further token.
    pub(crate) fn steps(&self) -> u32 {
        self.probe.requests.saturating_mul(self.probe.output_tokens)
    }
}

/// Sends probe requests to one server.
pub(crate) struct Prober<'a> {
    server: &'a Server,
    cancel: &'a Cancel,
    limit: Duration,
}

/// A batch of requests, one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch {
    /// The start of each prompt's first word.
    pub(crate) word: &'static str,
    /// The number of the first request.
    pub(crate) first: u32,
    pub(crate) requests: u32,
    pub(crate) input_words: u32,
    pub(crate) output_tokens: u32,
}

/// How a batch ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Sent {
    All(ProbeTime),
    /// The deadline came first.
    Interrupted,
}

impl<'a> Prober<'a> {
    pub(crate) fn new(server: &'a Server, options: &Options, cancel: &'a Cancel) -> Self {
        Self { server, cancel, limit: options.pacing.probe_request }
    }

    /// Sends a batch and measures its time. The deadline, if any, abandons the current request.
    pub(crate) fn send(&self, batch: Batch, deadline: Option<Instant>) -> Result<Sent> {
        let begin = Instant::now();
        let mut tokens = Some(0);
        for index in 0..batch.requests {
            self.cancel.check()?;
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Sent::Interrupted);
            }
            let limit = left.map_or(self.limit, |left| left.min(self.limit));
            let number = batch.first.saturating_add(index);
            let prompt = prompt(batch.word, number, batch.input_words);
            match self.request(&prompt, number, batch.output_tokens, limit) {
                Ok(answer) => tokens = tokens.zip(output_tokens(&answer)).map(|(sum, count)| sum + count),
                Err(_) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                    self.cancel.check()?;
                    return Ok(Sent::Interrupted);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Sent::All(time(batch.requests, begin.elapsed(), tokens)))
    }

    fn request(&self, prompt: &str, number: u32, tokens: u32, limit: Duration) -> Result<Value> {
        if self.server.framework == Framework::Sglang {
            return self.post("/generate", &sglang_body(prompt, number, tokens), limit);
        }
        let model = self.server.model.as_deref().unwrap_or_default();
        // Models without a chat template have only the other path.
        match self.post("/v1/chat/completions", &chat_body(model, prompt, tokens), limit) {
            Err(error) if !error.is_cancelled() => {
                self.post("/v1/completions", &completion_body(model, prompt, tokens), limit).map_err(|_| error)
            }
            result => result,
        }
    }

    fn post(&self, path: &str, body: &Value, limit: Duration) -> Result<Value> {
        let answer =
            self.server.client.post(path, Some(body), limit).map_err(|failure| self.server.failed(path, &failure))?;
        if !answer.is_ok() {
            return Err(self.server.refused(path, &answer));
        }
        let base = self.server.client.base();
        answer.json().ok_or_else(|| {
            Error::failed(format!(
                "{base} answered {path} with something else than JSON: give the URL of the server itself"
            ))
        })
    }
}

/// `WORD_NUMBER profile profile ...`. A prompt of one word gets the first word in addition.
fn prompt(word: &str, number: u32, words: u32) -> String {
    let repeated = words.saturating_sub(1).max(1);
    format!("{word}_{number}{}", " profile".repeat(repeated as usize))
}

fn sglang_body(prompt: &str, seed: u32, tokens: u32) -> Value {
    json!({
        "text": prompt,
        "sampling_params": {"sampling_seed": seed, "temperature": 0.0, "max_new_tokens": tokens},
        "stream": false,
    })
}

fn chat_body(model: &str, prompt: &str, tokens: u32) -> Value {
    json!({
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0.0,
        "max_tokens": tokens,
        "stream": false,
    })
}

fn completion_body(model: &str, prompt: &str, tokens: u32) -> Value {
    json!({"model": model, "prompt": prompt, "temperature": 0.0, "max_tokens": tokens, "stream": false})
}

/// The tokens that an answer counts.
fn output_tokens(answer: &Value) -> Option<u64> {
    let places = ["/usage/completion_tokens", "/meta_info/completion_tokens"];
    places.iter().find_map(|place| answer.pointer(place)?.as_u64())
}

fn time(requests: u32, wall: Duration, output_tokens: Option<u64>) -> ProbeTime {
    let wall_ms = wall.as_secs_f64() * 1e3;
    #[expect(clippy::cast_precision_loss, reason = "a count of tokens is far below 2^52")]
    let per_token = output_tokens.filter(|tokens| *tokens > 0).map(|tokens| wall_ms / tokens as f64);
    ProbeTime {
        requests,
        wall_ms,
        ms_per_request: wall_ms / f64::from(requests.max(1)),
        output_tokens,
        ms_per_output_token: per_token,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_probe_is_the_one_of_the_original_script() {
        let size = ProbeSize::default();
        let prefill = Plan::new(Stage::Prefill, 5, &size, true);
        assert_eq!((prefill.warmup_requests, prefill.warmup_tokens), (10, 1));
        assert_eq!(prefill.probe, Probe { requests: 5, input_words: 4090, output_tokens: 1 });
        let decode = Plan::new(Stage::Decode, 5, &size, true);
        assert_eq!((decode.warmup_requests, decode.warmup_tokens), (1, 10));
        assert_eq!(decode.probe, Probe { requests: 1, input_words: 1, output_tokens: 2048 });
    }

    #[test]
    fn a_server_that_cannot_count_steps_decodes_only_the_profiled_ones() {
        assert_eq!(Plan::new(Stage::Decode, 5, &ProbeSize::default(), false).probe.output_tokens, 6);
        let size = ProbeSize { decode_output_tokens: Some(32), ..ProbeSize::default() };
        assert_eq!(Plan::new(Stage::Decode, 5, &size, false).probe.output_tokens, 32);
    }

    #[test]
    fn every_prompt_starts_with_a_word_of_its_own() {
        assert_eq!(prompt("profile_probe", 3, 4), "profile_probe_3 profile profile profile");
        assert_eq!(prompt("profile_probe", 0, 1), "profile_probe_0 profile");
    }

    #[test]
    fn tokens_are_counted_only_if_every_answer_counts_them() {
        assert_eq!(output_tokens(&json!({"usage": {"completion_tokens": 7}})), Some(7));
        assert_eq!(output_tokens(&json!({"meta_info": {"completion_tokens": 8}})), Some(8));
        assert_eq!(output_tokens(&json!({"text": ""})), None);
        let timed = time(2, Duration::from_millis(50), Some(10));
        assert_eq!((timed.ms_per_request, timed.ms_per_output_token), (25.0, Some(5.0)));
        assert_eq!(time(2, Duration::from_millis(50), None).ms_per_output_token, None);
    }
}
