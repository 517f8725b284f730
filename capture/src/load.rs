//! A command of the user that sends load to the server.

use crate::{Error, Result};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A running command. It is ended when dropped.
pub(crate) struct Load {
    child: Child,
}

impl Load {
    /// Starts the command in a shell. Its output goes to standard error, with the progress.
    pub(crate) fn start(command: &str) -> Result<Self> {
        let mut shell = if cfg!(windows) { Command::new("cmd") } else { Command::new("sh") };
        shell.args([if cfg!(windows) { "/C" } else { "-c" }, command]);
        shell.stdin(Stdio::null()).stdout(std::io::stderr());
        // A group of its own, so that the programs that the shell starts can be ended with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        let child = shell.spawn().map_err(|error| Error::failed(format!("--load: no shell: {error}")))?;
        Ok(Self { child })
    }

    /// The exit status, if the command has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(|error| Error::failed(format!("--load: {error}")))
    }

    /// Asks the command to end, and kills it if it does not.
    fn end(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(2);
        const POLL: Duration = Duration::from_millis(20);
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        self.signal(false);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(POLL);
        }
        self.signal(true);
        let _ = self.child.wait();
    }

    #[cfg(unix)]
    fn signal(&mut self, is_kill: bool) {
        use nix::sys::signal::{Signal, killpg};
        let signal = if is_kill { Signal::SIGKILL } else { Signal::SIGTERM };
        if let Ok(group) = i32::try_from(self.child.id()) {
            // The group may have ended.
            let _ = killpg(nix::unistd::Pid::from_raw(group), signal);
        }
    }

    #[cfg(not(unix))]
    fn signal(&mut self, _is_kill: bool) {
        let _ = self.child.kill();
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}
