//! `gpuprism serve`: the HTTP API of nsys-llm-explainer. The crate `gpuprism-server` receives the uploads; `worker`
//! analyzes each in a process of its own, and `analysis` is what happens there.

mod analysis;
mod work;
mod worker;

pub(super) use worker::main as work;

use super::print_error;
use crate::{Error, Result};
use gpuprism_server::api::{self, Config, Limits};
use gpuprism_server::{Server, Stop};
use std::ffi::OsString;
use std::time::Duration;

/// Answer uploaded traces with the report of `gpuprism explain`: the HTTP API of nsys-llm-explainer.
///
/// Clients must send the key in the environment variable NSYS_API_KEY.
/// SIGTERM and Ctrl-C finish the requests in progress.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// The address to listen on.
    #[arg(long, env = "HOST", hide_env_values = true, default_value = "0.0.0.0", value_name = "ADDRESS")]
    host: String,
    /// The port to listen on; 0 lets the system choose one.
    #[arg(long, env = "PORT", hide_env_values = true, default_value_t = 8080, value_name = "N")]
    port: u16,
    /// Analyses at the same time; further requests wait.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..), value_name = "N")]
    max_analyses: u16,
    /// The most CPU time of one analysis, in seconds of all its threads together (Unix).
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..), value_name = "N")]
    cpu_seconds: u64,
    /// The most disk space for uploads, in GB (10^9 bytes), in the folder for temporary files (TMPDIR).
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..), value_name = "N")]
    spool_gb: u64,
    /// Serve everyone who reaches the address, without a key. Needed unless the address is one of this machine only.
    #[arg(long)]
    no_key: bool,
    /// Start no server: ask the one at this address whether it is healthy, and exit with 0 or 1.
    #[arg(long)]
    check_health: bool,
}

/// The time for analyses whose clients have left, after a stop.
const LAST_ANALYSES: Duration = Duration::from_secs(2);

pub(super) fn run(args: &Args) -> Result<()> {
    let failed = |error: std::io::Error| Error::io(format!("{}:{}", args.host, args.port), &error);
    if args.check_health {
        return api::check_health(&args.host, args.port).map_err(failed);
    }
    let key = key(std::env::var_os(KEY_VARIABLE), args.no_key)?;
    let is_public = key.is_none();
    let config = Config {
        service: env!("CARGO_PKG_NAME"),
        version: env!("CARGO_PKG_VERSION"),
        api_key: key,
        spool_parent: std::env::temp_dir(),
        limits: Limits {
            analyses: args.max_analyses.into(),
            spool_bytes: args.spool_gb.saturating_mul(1_000_000_000),
            ..Limits::default()
        },
    };
    let max_cpu_s = args.cpu_seconds;
    let analyze = Box::new(move |job: &api::Job| worker::analyze(job, max_cpu_s));
    let address = (args.host.as_str(), args.port);
    gpuprism_server::run(LAST_ANALYSES, async {
        let server = api::bind(address, config, analyze).await?;
        let is_open = is_public && !server.address()?.ip().to_canonical().is_loopback();
        if is_open && !args.no_key {
            return Ok(Started::Refused);
        }
        // Before the announcement: who reads it may stop the server at once.
        let stop = Stop::at_signal()?;
        announce(&server, is_open)?;
        server.run(stop).await.map(|()| Started::Served)
    })
    .map_err(failed)
    .and_then(|started| match started {
        Started::Served => Ok(()),
        Started::Refused => Err(Error::usage(format!("{}:{}", args.host, args.port), NO_KEY)),
    })
}

/// Whether a bound server was allowed to answer.
enum Started {
    Served,
    Refused,
}

const KEY_VARIABLE: &str = "NSYS_API_KEY";
const NO_KEY: &str = "other machines reach this address, and there is no key: set NSYS_API_KEY to the key that \
                      clients must send, or serve this machine alone with --host 127.0.0.1, or everyone with --no-key";

/// The key that clients must send; `None` if nobody set one. A key that is set and cannot be used is an error: the
/// server would be open, or closed, against the will of who set it.
fn key(set: Option<OsString>, no_key: bool) -> Result<Option<String>> {
    let wrong = |why: &str| Err(Error::usage(KEY_VARIABLE, why));
    let Some(set) = set else { return Ok(None) };
    if no_key {
        return wrong("there is a key, and --no-key: remove one of both");
    }
    match set.to_str().map(str::trim) {
        Some("") => wrong("the key is blank: set a key, or remove the variable"),
        Some(key) if key.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') => Ok(Some(key.to_owned())),
        _ => wrong("the key has characters that no header can have: use letters, digits and signs of ASCII"),
    }
}

fn announce(server: &Server, is_open: bool) -> std::io::Result<()> {
    print_error(&format!("gpuprism: listening on http://{}", server.address()?));
    if is_open {
        print_error("gpuprism: everyone who reaches this address may use it: set NSYS_API_KEY to require a key");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_cannot_be_used_is_refused_and_never_means_no_key() {
        let of = |set: Option<&str>, no_key| key(set.map(OsString::from), no_key).ok();
        assert_eq!(of(None, false), Some(None));
        assert_eq!(of(None, true), Some(None));
        assert_eq!(of(Some(" se cret\n"), false), Some(Some("se cret".to_owned())));
        for unusable in ["", "  ", "\t\n", "schlüssel", "a\nb"] {
            assert_eq!(of(Some(unusable), false), None, "{unusable:?}");
        }
        assert_eq!(of(Some("secret"), true), None, "one of both");
    }
}
