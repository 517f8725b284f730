//! `gpuprism completions`: what a shell needs to complete the commands and flags.

use super::print;
use crate::{Error, Result};
use clap_complete::Shell;

/// Print the script that lets a shell complete commands, flags and their values.
///
/// bash:  gpuprism completions bash > ~/.local/share/bash-completion/completions/gpuprism
/// zsh:   gpuprism completions zsh > _gpuprism, in a folder of $fpath
/// fish:  gpuprism completions fish > ~/.config/fish/completions/gpuprism.fish
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// The shell.
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let (mut command, mut script) = (super::command(), Vec::new());
    clap_complete::generate(args.shell, &mut command, "gpuprism", &mut script);
    let text = String::from_utf8(script).map_err(|_| Error::refused("completions", "the script is not UTF-8"))?;
    print(&text)
}
