//! Builds, serves, checks and measures gpuprism. `cargo xtask help` lists the commands.

mod bench;
mod book;
mod check;
mod command;
mod counts;
mod cpu;
mod fuzz;
mod npm;
mod offline;
mod page;
mod program;
mod project;
mod python;
mod quick;
mod release;
mod serve;
mod setup;
mod space;
mod vscode;
mod wasm;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use lexopt::Arg::{Long, Short, Value};
use lexopt::ValueExt;

use crate::wasm::Purpose;

const HELP: &str = "\
usage: cargo xtask COMMAND

  setup [page|test|all]   install missing tools for a build of the page or for the tests
  wasm [--out DIR]        build the page's wasm modules into DIR (dist/pkg)
  build [--out DIR]       build the page into DIR (dist) and check the size of its first load
  npm [--out DIR]         build a folder for `npm install` with the WebAssembly module and its types into DIR (target/npm)
  vscode [--out FILE]     build the extension for VS Code with the page in it into FILE (target/gpuprism.vsix)
  space [--out DIR]       build the page as a static Space for Hugging Face into DIR (target/space)
  release                 build the page, and the command line with the page in it, for `gpuprism view`
  serve [--port N]        build the page and serve it on http://127.0.0.1:N (8080)
  book [--out DIR]        write the generated chapters of docs/, check all links, and render the book into DIR/docs
  check                   format, lints of what changed, unit tests, types of the page: before each commit
  test [CHECK]            run all checks: format, lints, tests, docs, the page in a browser; or the one with this id
  python                  build the Python package into target/wheels and test it; needs Python 3.11
  builds                  compare the results of debug, release and the page's modules
  fuzz [--seconds N | --hours N]  run each fuzz target on new inputs for so long (60 seconds)
  bench                   measure reading speed, memory and the page, and write benches/README.md
  bench page              measure only how the page in dist feels, and renew its sections of benches/README.md
  bench protobuf          measure only how fast XSpace and Perfetto are read, and renew these sections
  bench exponents         measure only how time and memory grow with many streams, devices, names, ..., and renew this section
";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments = Arguments::parse(lexopt::Parser::from_env())?;
    match arguments.words().as_slice() {
        [] | ["help"] => {
            print!("{HELP}");
            Ok(())
        }
        ["setup"] | ["setup", "all" | "test"] => setup::test(),
        ["setup", "page"] => setup::page(),
        ["wasm"] => {
            let out = arguments.out.unwrap_or_else(|| project::dist().join("pkg"));
            setup::page()?;
            wasm::build(&out, Purpose::Publish)
        }
        ["build"] => page::build(arguments.out.as_deref(), Purpose::Publish),
        ["release"] => release::build(),
        ["npm"] => npm::build(arguments.out.as_deref()),
        ["vscode"] => vscode::build(arguments.out.as_deref()),
        ["space"] => space::build(arguments.out.as_deref()),
        ["serve"] => serve::serve(arguments.port),
        ["book"] => book::write(arguments.out.as_deref()),
        ["python"] => check::python(),
        ["check"] => quick::run(),
        ["test"] => check::all(),
        ["test", id] => check::one(id),
        ["builds"] => check::all_builds(),
        ["fuzz"] => fuzz::all(arguments.seconds),
        ["bench"] => bench::all(),
        ["bench", "page"] => bench::page(),
        ["bench", "protobuf"] => bench::protobuf(),
        ["bench", "exponents"] => bench::exponents(),
        other => bail!("unknown command `{}`; `cargo xtask help` lists the commands", other.join(" ")),
    }
}

struct Arguments {
    words: Vec<String>,
    out: Option<PathBuf>,
    port: u16,
    seconds: u64,
}

impl Arguments {
    fn parse(mut parser: lexopt::Parser) -> Result<Self> {
        let mut arguments = Self { words: Vec::new(), out: None, port: 8080, seconds: 60 };
        while let Some(argument) = parser.next()? {
            match argument {
                Long("out") => arguments.out = Some(std::path::absolute(parser.value()?)?),
                Long("port") => arguments.port = parser.value()?.parse()?,
                Long("seconds") => arguments.seconds = parser.value()?.parse()?,
                Long("hours") => arguments.seconds = parser.value()?.parse::<u64>()?.saturating_mul(3600),
                Long("help") | Short('h') => arguments.words.insert(0, "help".to_owned()),
                Value(word) => arguments.words.push(word.string()?),
                _ => return Err(argument.unexpected().into()),
            }
        }
        if arguments.words.first().is_some_and(|word| word == "help") {
            arguments.words.truncate(1);
        }
        Ok(arguments)
    }

    fn words(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }
}
