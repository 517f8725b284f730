//! Recognises a server from its answers, and reads its settings.
//!
//! Requests: `/v1/models`, whose `owned_by` names the framework; else the settings path of each framework. Then the settings,
//! `/version` and `/openapi.json`, each at most once. Nothing changes the server.

use crate::data::{DATA, Facts, Framework};
use crate::http::{Answer, Client, Failure};
use crate::record::Graphs;
use crate::{Error, Result};
use serde_json::Value;
use std::time::Duration;

/// A recognised server.
pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) framework: Framework,
    pub(crate) facts: &'static Facts,
    pub(crate) version: Option<String>,
    /// The id of the first served model.
    pub(crate) model: Option<String>,
    /// The folder of the model, as the server names it.
    pub(crate) model_folder: Option<String>,
    /// The server's settings, if it tells them.
    pub(crate) info: Option<Value>,
    /// The settings path that answered.
    pub(crate) info_path: Option<&'static str>,
    pub(crate) profiler: Profiler,
}

/// The server's profiler endpoint, as its `/openapi.json` lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profiler {
    /// There is no such list.
    Unknown,
    Missing,
    WithoutBody,
    WithBody,
}

/// The time limit of short requests.
pub(crate) fn short() -> Duration {
    Duration::from_secs_f64(DATA.waits.short_request_s)
}

impl Server {
    pub(crate) fn recognise(client: Client) -> Result<Self> {
        let answer = client.get("/v1/models", short()).map_err(|failure| unreachable(&client, &failure))?;
        if matches!(answer.status, 401 | 403) {
            return Err(Error::failed(format!(
                "{} asks for a key (HTTP {}): give the server's key with --api-key or in GPUPRISM_API_KEY",
                client.base(),
                answer.status
            )));
        }
        let models = answer.is_ok().then(|| answer.json()).flatten();
        let card = models.as_ref().and_then(|models| models.pointer("/data/0"));
        let text = |key: &str| card.and_then(|card| card.get(key)).and_then(Value::as_str);
        let owner = text("owned_by").map(str::to_ascii_lowercase);
        let by_owner = DATA.frameworks.iter().find(|facts| owner.as_ref().is_some_and(|o| facts.owned_by.contains(o)));
        let (facts, found) = match by_owner {
            Some(facts) => (facts, settings(&client, facts)?),
            None => by_settings(&client)?.ok_or_else(|| unknown(&client, &answer, owner.as_deref()))?,
        };
        let (info_path, info) = found.unzip();
        let model_folder = info.as_ref().and_then(|info| first_text(info, &DATA.model_settings));
        let mut server = Self {
            framework: facts.framework,
            facts,
            version: info.as_ref().and_then(|info| info.get("version")).and_then(Value::as_str).map(str::to_owned),
            model: text("id").map(str::to_owned).or_else(|| model_folder.clone()),
            model_folder: model_folder.or_else(|| text("root").map(str::to_owned)),
            info,
            info_path,
            profiler: Profiler::Unknown,
            client,
        };
        server.read_version()?;
        server.read_endpoints()?;
        Ok(server)
    }

    fn read_version(&mut self) -> Result<()> {
        if self.version.is_none() {
            let answer = optional(&self.client, "/version")?;
            let version = answer.as_ref().and_then(|answer| answer.get("version")).and_then(Value::as_str);
            self.version = version.map(str::to_owned);
        }
        Ok(())
    }

    fn read_endpoints(&mut self) -> Result<()> {
        let Some(list) = optional(&self.client, "/openapi.json")? else { return Ok(()) };
        let Some(paths) = list.get("paths").and_then(Value::as_object) else { return Ok(()) };
        self.profiler = match paths.get("/start_profile").and_then(|path| path.get("post")) {
            None => Profiler::Missing,
            Some(post) if post.get("requestBody").is_some() => Profiler::WithBody,
            Some(_) => Profiler::WithoutBody,
        };
        Ok(())
    }

    /// Whether the server replays CUDA graphs; `None` if its settings do not tell.
    pub(crate) fn graphs(&self) -> Option<Graphs> {
        let info = self.info.as_ref()?;
        let told = DATA.graph_settings.iter().filter_map(|setting| {
            let (first, rest) = setting.path.split_first()?;
            let value = rest.iter().try_fold(find(info, first)?, |value, key| value.get(key))?;
            Some(setting.off.contains(value))
        });
        told.fold(None, |graphs, is_off| match (graphs, is_off) {
            (Some(Graphs::Off), _) | (_, true) => Some(Graphs::Off),
            _ => Some(Graphs::On),
        })
    }

    /// The least number of traces of one capture; 1 if the settings do not tell.
    pub(crate) fn ranks(&self) -> u64 {
        let Some(info) = &self.info else { return 1 };
        let size = |names: &Vec<String>| names.iter().find_map(|name| find(info, name)?.as_u64()).unwrap_or(1);
        DATA.rank_settings.iter().map(size).fold(1, u64::saturating_mul).max(1)
    }

    /// The folder that the settings name for traces.
    pub(crate) fn trace_folder(&self) -> Option<String> {
        first_text(self.info.as_ref()?, &DATA.folder_settings)
    }

    /// The command that started the server, without keys, if the server tells it.
    pub(crate) fn launch_command(&self) -> Option<String> {
        match without_secrets(self.info.as_ref()?).get("launch_command")? {
            Value::String(command) => Some(command.clone()),
            Value::Array(words) => {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                (!words.is_empty()).then(|| words.join(" "))
            }
            _ => None,
        }
    }

    /// Refuses servers whose profiler takes other requests.
    pub(crate) fn check_profiler(&self) -> Result<()> {
        let base = self.client.base();
        if self.profiler == Profiler::Missing {
            return Err(Error::failed(format!("{base} has no /start_profile: {}", self.facts.endpoint)));
        }
        if let Some(info) = &self.info {
            if info.get("frontend").and_then(Value::as_str) == Some("rust") {
                let why = "runs SGLang's Rust front end, which has no profiler endpoint: restart it with the Python front end";
                return Err(Error::failed(format!("{base} {why}")));
            }
            let is_set = |key: &String| find(info, key).is_some_and(is_true);
            if self.framework == Framework::Sglang && DATA.profiler_v2_settings.iter().any(is_set) {
                let why = "runs with SGLANG_PROFILE_V2, whose profiler refuses these captures: restart it without that variable";
                return Err(Error::failed(format!("{base} {why}")));
            }
        }
        Ok(())
    }

    /// Turns an answer that is no success into a sentence with the remedy.
    pub(crate) fn refused(&self, path: &str, answer: &Answer) -> Error {
        let (base, status, excerpt) = (self.client.base(), answer.status, answer.excerpt());
        let said = if excerpt.is_empty() { String::new() } else { format!(": {excerpt}") };
        Error::failed(match status {
            401 | 403 => format!("{base}{path} asks for a key (HTTP {status}): {}", self.facts.key),
            404 | 405 if path.ends_with("_profile") => {
                format!("{base} has no {path} (HTTP {status}): {}", self.facts.endpoint)
            }
            429 | 503 => {
                format!("{base} is busy (HTTP {status} for {path}): wait until it has free capacity and try again")
            }
            _ if path.ends_with("_profile") => {
                let why = self.facts.refused.replace("URL", base);
                format!("{base} refused {path} (HTTP {status}{said}): {why}")
            }
            _ => format!(
                "{base} refused a request to {path} (HTTP {status}{said}): if the prompt is too long for the model, give a smaller \
                 --prefill-input-len; else the server's log says why"
            ),
        })
    }

    /// Turns a missing answer into a sentence with the remedy.
    pub(crate) fn failed(&self, path: &str, failure: &Failure) -> Error {
        let base = self.client.base();
        match failure {
            Failure::Cancelled => Error::cancelled(),
            Failure::TimedOut(limit) => Error::failed(format!(
                "{base} did not answer {path} within {} s: it is busy or hangs; try again when it has free capacity",
                limit.as_secs_f64()
            )),
            Failure::Unreachable(why) | Failure::Broken(why) => Error::failed(format!(
                "{base} stopped answering ({path}: {why}): its log says why; restart it and capture again"
            )),
        }
    }

    /// The settings without keys and passwords.
    pub(crate) fn settings(&self) -> Option<Value> {
        self.info.as_ref().map(without_secrets)
    }
}

/// Asks the settings paths of one framework.
fn settings(client: &Client, facts: &'static Facts) -> Result<Option<(&'static str, Value)>> {
    for path in &facts.info_paths {
        if let Some(info) = optional(client, path)?.filter(Value::is_object) {
            return Ok(Some((path.as_str(), info)));
        }
    }
    Ok(None)
}

/// The first framework whose settings have one of its own members.
#[expect(clippy::type_complexity, reason = "used once")]
fn by_settings(client: &Client) -> Result<Option<(&'static Facts, Option<(&'static str, Value)>)>> {
    for facts in DATA.frameworks.iter().filter(|facts| !facts.info_keys.is_empty()) {
        if let Some((path, info)) = settings(client, facts)?
            && facts.info_keys.iter().any(|key| info.get(key).is_some())
        {
            return Ok(Some((facts, Some((path, info)))));
        }
    }
    Ok(None)
}

/// The JSON at a path that not every server has.
fn optional(client: &Client, path: &str) -> Result<Option<Value>> {
    match client.get(path, short()) {
        Ok(answer) => Ok(answer.is_ok().then(|| answer.json()).flatten()),
        Err(Failure::Cancelled) => Err(Error::cancelled()),
        Err(failure @ Failure::Unreachable(_)) => Err(unreachable(client, &failure)),
        Err(Failure::TimedOut(_) | Failure::Broken(_)) => Ok(None),
    }
}

fn unreachable(client: &Client, failure: &Failure) -> Error {
    match failure {
        Failure::Cancelled => Error::cancelled(),
        failure => Error::failed(format!(
            "{} does not answer ({}): check that the server runs and that the URL and port are right",
            client.base(),
            failure.clause()
        )),
    }
}

fn unknown(client: &Client, models: &Answer, owner: Option<&str>) -> Error {
    let names: Vec<&str> = DATA.frameworks.iter().map(|facts| facts.title.as_str()).collect();
    let seen = match owner {
        Some(owner) => format!("its models are owned by `{owner}`"),
        None => format!("/v1/models answers HTTP {}", models.status),
    };
    Error::failed(format!(
        "{} is not recognised as a server of {} ({seen}): give the URL of the server itself, not of a router or proxy",
        client.base(),
        names.join(", ")
    ))
}

/// The first value with this key, at any depth.
pub(crate) fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(members) => {
            let own = members.get(key).filter(|value| !value.is_null());
            own.or_else(|| members.values().find_map(|value| find(value, key)))
        }
        Value::Array(items) => items.iter().find_map(|value| find(value, key)),
        _ => None,
    }
}

fn first_text(value: &Value, keys: &[String]) -> Option<String> {
    let mut texts = keys.iter().filter_map(|key| find(value, key)?.as_str());
    texts.find(|text| !text.is_empty()).map(str::to_owned)
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Bool(is_set) => *is_set,
        Value::Number(number) => number.as_i64() != Some(0),
        Value::String(text) => matches!(text.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"),
        _ => false,
    }
}

/// Replaces the values of keys and passwords, also in the launch command.
fn without_secrets(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| {
                let is_shown = value.is_null() || !is_secret(key);
                (key.clone(), if is_shown { without_secrets(value) } else { REDACTED.into() })
            };
            Value::Object(members.iter().map(member).collect())
        }
        Value::Array(items) => {
            let mut is_after_flag = false;
            let item = |item: &Value| {
                let was_after_flag = std::mem::replace(&mut is_after_flag, item.as_str().is_some_and(is_secret_flag));
                if was_after_flag { REDACTED.into() } else { without_secrets(item) }
            };
            Value::Array(items.iter().map(item).collect())
        }
        Value::String(text) if text.contains("--") => without_secret_flags(text).into(),
        other => other.clone(),
    }
}

const REDACTED: &str = "REDACTED";

/// Redacts the words after `--api-key`, and the part after `--api-key=`.
fn without_secret_flags(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut is_after_flag = false;
    for word in text.split(' ') {
        let (flag, value) = word.split_once('=').map_or((word, None), |(flag, value)| (flag, Some(value)));
        let was_after_flag = std::mem::replace(&mut is_after_flag, value.is_none() && is_secret_flag(word));
        words.push(match value {
            _ if was_after_flag => REDACTED.to_owned(),
            Some(_) if is_secret_flag(flag) => format!("{flag}={REDACTED}"),
            _ => word.to_owned(),
        });
    }
    words.join(" ")
}

fn is_secret_flag(word: &str) -> bool {
    word.strip_prefix("--").is_some_and(is_secret)
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    DATA.secrets.iter().any(|word| name == *word || name.ends_with(&format!("_{word}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_and_passwords_are_not_written() {
        let info = json!({
            "api_key": "k1", "admin_api_key": "k2", "ssl_keyfile_password": "k3", "hf_token": null, "max_total_tokens": 5,
            "launch_command": "sglang serve --api-key k4 --admin-api-key=k5 --tp 2",
            "argv": ["--api-key", "k6", "--tp", "2"], "nested": {"api_key": "k7"}
        });
        let text = without_secrets(&info).to_string();
        for key in 1..=7 {
            assert!(!text.contains(&format!("k{key}")), "k{key} in {text}");
        }
        assert!(text.contains("--tp 2") && text.contains("\"max_total_tokens\":5"), "{text}");
    }

    #[test]
    fn settings_are_found_at_any_depth() {
        let info =
            json!({"vllm_config": {"profiler_config": {"torch_profiler_dir": "/t"}}, "a": [{"b": 1}], "c": null});
        assert_eq!(find(&info, "torch_profiler_dir"), Some(&json!("/t")));
        assert_eq!(find(&info, "b"), Some(&json!(1)));
        assert_eq!((find(&info, "c"), find(&info, "d")), (None, None));
    }
}
